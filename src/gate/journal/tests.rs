use super::super::udp_clients;
use super::*;
use crate::gate::session;
use crate::random::Random;

const LIMITS: crate::gate::Limits = crate::gate::Limits {
    tokens_max: 1000,
    udp_clients_per_session_max: 16,
};

fn client(text: &str, transport: &str, addresses: &[&str]) -> RtpTuple {
    let client = udp_clients::parse(text, 1).expect("a good entry").remove(0);
    let addresses = addresses
        .iter()
        .map(|address| address.parse().expect("an address"))
        .collect();
    RtpTuple {
        client,
        transport: Transport::parse(transport).expect("a good one"),
        addresses,
    }
}

/// Returns some hundred changes of a few sessions, with names that JSON must escape.
fn changes(seed: u64) -> Vec<Entry> {
    let mut random = Random::new(seed.into());
    let names = ["a", "b\"[{\"", "größe \\ 3", "[{add}]"];
    let one = |random: &mut Random| {
        let session = session(names[random.draw() as usize % names.len()]);
        let rtp = match random.draw() % 3 {
            0 => Vec::new(),
            1 => vec![client("192.0.2.7:5004", "rtp", &["192.0.2.7:5004"])],
            _ => vec![
                client("[2001:db8::7]:5004", "udp", &["[2001:db8::7]:5004"]),
                client(
                    "player.example:6000",
                    ["rtp", "5x10"][random.draw() as usize % 2],
                    &["192.0.2.8:6000", "[2001:db8::8]:6000"],
                ),
            ],
        };
        match random.draw() % 5 {
            0 => Record::Revoke { session },
            4 => Record::Forget { session },
            1 => Record::Set {
                session,
                http: Some(Direction::In.into()),
                rtp,
            },
            2 => Record::Set {
                session,
                http: Some(Grant {
                    direction: Direction::Out,
                    terms: terms(random),
                }),
                rtp: Vec::new(),
            },
            _ => Record::Set {
                session,
                http: Some(Direction::Both.into()),
                rtp,
            },
        }
    };
    (0..60)
        .map(|_| Entry {
            records: (0..1 + random.draw() % 3)
                .map(|_| one(&mut random))
                .collect(),
            time: (random.draw().is_multiple_of(4)).then(|| at(random.draw() % 1000)),
        })
        .collect()
}

fn at(unix_seconds: u64) -> UnixTime {
    UnixTime { unix_seconds }
}

fn terms(random: &mut Random) -> Terms {
    let mut maybe = || (random.draw().is_multiple_of(2)).then(|| random.draw() % 3000);
    Terms {
        opens: maybe().map(|number| session(&format!("[{{\"show {number}"))),
        expires: maybe().map(at),
        ends: maybe().map(at),
        viewers_max: maybe().map(|number| number as u32),
        bits_per_second_max: maybe(),
        note: maybe().and_then(|number| Note::parse(&format!("[{{\"desk\" {number}"))),
    }
}

fn journal(changes: &[Entry]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for line in changes {
        bytes.extend(encode(&line.records, line.time));
    }
    bytes
}

/// Replays a journal in pieces of `piece` bytes.
fn replay(bytes: &[u8], piece: usize) -> Result<(Vec<Entry>, End), Damage> {
    let (mut replay, mut changes) = (Replay::default(), Vec::new());
    for mut input in bytes.chunks(piece) {
        while let Some(line) = replay.read(&mut input)? {
            changes.push(line);
        }
    }
    Ok((changes, replay.finish()?))
}

fn table(changes: &[Entry]) -> Tokens {
    let mut tokens = Tokens::new(LIMITS);
    for entry in changes {
        tokens.replay(entry);
    }
    tokens.check();
    tokens
}

/// Returns the rows of list-tokens, with directions and addresses.
fn shown(tokens: &Tokens) -> Vec<String> {
    let tuples = tokens.after(0);
    tuples
        .map(|tuple| format!("{:?} {:?}", tuple.session.as_str(), tuple.kind))
        .collect()
}

#[test]
fn a_journal_gives_back_what_was_written() {
    let changes = changes(1);
    let bytes = journal(&changes);
    for piece in [1, 7, 64, bytes.len()] {
        let (read, end) = replay(&bytes, piece).expect("it is whole");
        assert_eq!(read, changes);
        assert_eq!((end.whole_bytes, end.torn_bytes), (bytes.len() as u64, 0));
    }
}

#[test]
fn a_compacted_journal_gives_the_same_table() {
    for seed in 1..50 {
        let tokens = table(&changes(seed));
        let (read, _) = replay(&compact(&tokens), 100).expect("it is whole");
        let again = table(&read);
        assert_eq!(shown(&again), shown(&tokens), "seed {seed}");
        assert_eq!(again.time(), tokens.time(), "seed {seed}");
    }
}

/// Wherever a crash cuts a journal, all complete lines count.
#[test]
fn every_beginning_of_a_journal_gives_its_whole_lines() {
    let changes = changes(2);
    let bytes = journal(&changes);
    for length in 0..=bytes.len() {
        let (read, end) = replay(&bytes[..length], 4096).expect("it is a beginning");
        let lines = bytes[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert_eq!(read, changes[..lines.saturating_sub(1)], "{length}");
        assert_eq!(end.whole_bytes + end.torn_bytes, length as u64);
    }
}

/// A journal of few long records equals one of many short ones, and no line is too long.
#[test]
fn runs_of_clients_are_one_record_up_to_a_bound() {
    let mut tokens = Tokens::new(crate::gate::Limits::NONE);
    let clients = |ports: std::ops::Range<u16>| {
        let entries = ports.map(|port| format!("192.0.2.7:{port}"));
        entries
            .map(|entry| client(&entry, "rtp", &[&entry]))
            .collect::<Vec<_>>()
    };
    let many = 2 * RUN_CLIENTS_MAX as u16 + 1;
    for (name, http, ports) in [
        ("a", None, 1..4),
        ("b", None, 1..1 + many),
        ("a", None, 4..6),
        ("b", Some(Direction::In.into()), 5001..5003),
    ] {
        let added = tokens.add(&session(name), http, clients(ports));
        added.expect("there is room");
    }
    let made: Vec<(String, bool, usize)> = records(&tokens)
        .into_iter()
        .map(|record| match record {
            Record::Set { session, http, rtp } => {
                (session.as_str().to_owned(), http.is_some(), rtp.len())
            }
            other => panic!("{other:?} makes no table"),
        })
        .collect();
    let expected = [
        ("a", false, 3),
        ("b", false, RUN_CLIENTS_MAX),
        ("b", false, RUN_CLIENTS_MAX),
        ("b", false, 1),
        ("a", false, 2),
        ("b", true, 2),
    ];
    assert_eq!(
        made,
        expected.map(|(name, http, clients)| (name.to_owned(), http, clients))
    );
    let (read, _) = replay(&compact(&tokens), 4096).expect("it is whole");
    let mut again = Tokens::new(crate::gate::Limits::NONE);
    for entry in read {
        again.replay(&entry);
    }
    assert_eq!(shown(&again), shown(&tokens));
}

#[test]
fn an_empty_table_needs_no_lines() {
    let mut tokens = Tokens::new(LIMITS);
    assert_eq!(compact(&tokens), HEADER);
    tokens.set_time(at(1));
    assert_eq!(
        compact(&tokens),
        journal(&[Entry {
            records: Vec::new(),
            time: Some(at(1))
        }])
    );
}

#[test]
fn a_journal_is_compacted_when_most_of_it_is_not_needed_any_more() {
    const SMALL: u64 = 64 * 1024;
    for (file_bytes, live_bytes, is_worth_it) in [
        (0, 0, false),
        (SMALL, 0, false),
        (SMALL + 1, 0, true),
        (SMALL + 2, SMALL / 2, true),
        (SMALL + 2, SMALL / 2 + 1, false),
        (200_000, 99_999, true),
        (200_000, 100_000, false),
        (200_001, 100_000, false),
        (200_002, 100_000, true),
        (200_000, 150_000, false),
        (200_000, 300_000, false),
    ] {
        let should = should_compact(file_bytes, live_bytes);
        assert_eq!(should, is_worth_it, "{file_bytes} {live_bytes}");
    }
}

/// A file that is no journal is not read to its end.
#[test]
fn no_line_is_longer_than_its_bound() {
    let read = |bytes: &[u8]| Replay::default().read(&mut &*bytes);
    let damage = |line, offset, fault| Damage {
        line,
        offset,
        fault,
    };
    assert_eq!(read(&[b'x'; 64]), Ok(None));
    for bytes in [65, 66, 1000] {
        assert_eq!(
            read(&vec![b'x'; bytes]),
            Err(damage(1, 0, LineError::NotJournal))
        );
    }
    let mut replay = Replay {
        line: vec![0; LINE_BYTES_MAX],
        offset: 18,
        lines: 1,
    };
    let too_long = damage(2, 18, LineError::TooLong);
    assert_eq!(replay.read(&mut &b"x"[..]), Err(too_long));
}

#[test]
fn an_error_names_the_place_of_the_damage() {
    let bytes = journal(&changes(3)[..4]);
    let begin = HEADER.len() + encode(&changes(3)[0].records, changes(3)[0].time).len();
    let mut damaged = bytes.clone();
    damaged[begin + 5] ^= 1;
    let damage = replay(&damaged, 100).expect_err("a wrong checksum");
    assert_eq!((damage.line, damage.offset), (3, begin as u64));
    let place = format!("line 3, at byte {begin}, ");
    for (fault, said) in [
        (
            LineError::NotJournal,
            "it is not a token file of tollgate".to_owned(),
        ),
        (
            LineError::Version,
            "it is of another version of tollgate".to_owned(),
        ),
        (
            LineError::Checksum,
            format!("{place}is damaged: its checksum is wrong"),
        ),
        (
            LineError::NoRecord,
            format!("{place}holds a change that this version does not know"),
        ),
        (
            LineError::TooLong,
            format!("{place}is damaged: no line has more than 268435456 bytes"),
        ),
    ] {
        assert_eq!(Damage { fault, ..damage }.to_string(), said);
    }
}

/// A changed byte in the last line drops that line, as after a crash. In any other line it is an
/// error with its offset.
#[test]
fn damage_is_found_wherever_it_is() {
    let bytes = journal(&changes(3)[..6]);
    let last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .expect("lines")
        + 1;
    for place in 0..bytes.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut damaged = bytes.clone();
            damaged[place] ^= flip;
            match replay(&damaged, 4096) {
                Ok((read, _)) => {
                    assert!(place >= last, "{place}");
                    assert_eq!(read.len(), 5);
                }
                Err(damage) => assert!(damage.offset <= place as u64),
            }
        }
    }
}

#[test]
fn files_that_are_no_journal_are_detected() {
    let fault = |bytes: &[u8]| replay(bytes, 10).map(|_| ()).map_err(|damage| damage.fault);
    assert_eq!(fault(b""), Ok(()));
    assert_eq!(fault(b"tollgate-tok"), Ok(()));
    assert_eq!(fault(b"tollgate-tokens 2\n"), Err(LineError::Version));
    assert_eq!(fault(b"#!/bin/sh\n"), Err(LineError::NotJournal));
    assert_eq!(fault(&[b'x'; 100]), Err(LineError::NotJournal));
    let sealed = |json: &str| [HEADER, json.as_bytes(), &seal(json.as_bytes()), b"\n"].concat();
    assert_eq!(fault(&sealed("[{\"revoke\":\"a\"}]")), Ok(()));
    for json in [
        "{}",
        "[{}]",
        "[{\"add\":\"a\"}]",
        "[{\"set\":\"a\"}]",
        "[{\"set\":\"a\",\"add\":\"a\",\"http\":\"in\"}]",
        "[{\"forget\":\"a\",\"http\":\"in\"}]",
        "[{\"forget\":\"\"}]",
        "[{\"add\":\"\",\"http\":\"in\"}]",
        "[{\"add\":\"a\",\"http\":\"up\"}]",
        "[{\"add\":\"a\",\"udp\":[[]]}]",
        "[{\"add\":\"a\",\"udp\":[[\"192.0.2.7\"]]}]",
        "[{\"revoke\":\"a\",\"http\":\"in\"}]",
        "[{\"grant\":\"a\"}]",
        "[{\"time\":\"now\"}]",
        "[{\"time\":1},{\"time\":1}]",
        "[{\"time\":1,\"http\":\"in\"}]",
        "[{\"time\":253402300800}]",
        "[{\"revoke\":\"a\",\"expires\":1}]",
        "[{\"add\":\"a\",\"expires\":1}]",
        "[{\"add\":\"a\",\"udp\":[[\"192.0.2.7:1\"]],\"note\":\"x\"}]",
        "[{\"add\":\"a\",\"http\":\"in\",\"expires\":-1}]",
        "[{\"add\":\"a\",\"http\":\"in\",\"ends\":253402300800}]",
        "[{\"add\":\"a\",\"http\":\"in\",\"for\":\"\"}]",
        "[{\"add\":\"a\",\"http\":\"in\",\"note\":\"\"}]",
        "[{\"add\":\"a\",\"http\":\"in\",\"max_viewers\":4294967296}]",
    ] {
        assert_eq!(fault(&sealed(json)), Err(LineError::NoRecord), "{json}");
    }
}

/// A journal of version 0.2 gives its table: `add` extends a tuple.
#[test]
fn a_journal_of_version_0_2_is_what_it_was() {
    let lines = [
        "[{\"add\":\"demo\",\"http\":\"both\",\"udp\":[[\"192.0.2.7:5004\"]]}] 7ca4f2d3\n",
        "[{\"add\":\"cam\",\"http\":\"in\"}] 89c3603d\n",
    ];
    let more = [
        r#"[{"add":"cam","http":"out","expires":9},{"time":5}]"#,
        r#"[{"add":"cam","http":"in","note":"x"},{"time":20}]"#,
        r#"[{"add":"demo","udp":[["192.0.2.7:5004"],["192.0.2.8:5004"]]}]"#,
    ];
    let more = more.map(|json| sealed(json.as_bytes().to_vec())).concat();
    let bytes = [HEADER, lines.concat().as_bytes(), &more].concat();
    let (read, end) = replay(&bytes, 4096).expect("it is whole");
    assert_eq!(end.torn_bytes, 0);
    let tokens = table(&read);
    let tuples = tokens
        .after(0)
        .map(|tuple| tuple.session.as_str().to_owned());
    assert_eq!(tuples.collect::<Vec<_>>(), ["demo", "demo", "cam", "demo"]);
    let cam = Grant {
        direction: Direction::Both,
        terms: Terms {
            expires: Some(at(9)),
            note: Note::parse("x"),
            ..Terms::default()
        },
    };
    assert_eq!(tokens.grant(&session("cam")), Some(&cam));
}

#[test]
fn the_checksum_is_that_of_ieee_802_3() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn the_example_in_the_docs_is_a_journal() {
    let docs = include_str!("../journal.rs").split("//! ```").nth(1);
    let lines = docs.expect("an example").lines().skip(1);
    let example: String = lines
        .filter_map(|line| Some(format!("{}\n", line.strip_prefix("//! ")?)))
        .collect();
    let (changes, end) = replay(example.as_bytes(), 1).expect("a good journal");
    assert_eq!(changes.len(), 4);
    assert_eq!(end.torn_bytes, 0);
    assert_eq!(journal(&changes), example.as_bytes());
}
