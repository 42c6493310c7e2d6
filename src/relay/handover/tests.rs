//! A small story that goes on in another core between any two of its steps, and in each with one
//! more. (All that can happen: the simulation.)

use super::*;
use crate::config::{self, Command};
use crate::relay::counts::Count;
use crate::relay::cut_reason::CutReason;
use crate::relay::stage::Stage;
use crate::relay::{Done, JobId};
use crate::stream::Outcome;

fn settings(options: &[&str]) -> Settings {
    match config::parse(options, []) {
        Ok(Command::Run(config)) => config.settings(100, 7, 8),
        other => panic!("{options:?}: {other:?}"),
    }
}

/// Another core has heard all of this one: it, and the connections that go.
fn tell(stage: &mut Stage, options: &[&str]) -> (Successor, Vec<ConnectionId>) {
    while stage.relay.next_action().is_some() {}
    let old = &mut stage.relay;
    let mut successor = Successor::new(settings(options), false);
    let mut copying = Copying::begin(old);
    while let Some(piece) = copying.next(old, usize::MAX) {
        successor.take(piece).expect("it fits");
    }
    let going = super::hand_over(old, stage.now, &mut |piece| {
        successor.receive(piece).expect("it fits");
    });
    (successor, going)
}

/// Another core has taken this one's place.
fn hand_over(stage: &mut Stage, options: &[&str]) {
    let (successor, going) = tell(stage, options);
    let (relay, now) = successor.take_over().expect("it fits");
    assert_eq!(now, stage.now);
    for id in &going {
        stage.relay.check();
        assert!(relay.clients.has(*id));
    }
    stage.relay = relay;
    stage.relay.check();
    stage.settle();
}

const OPTIONS: &[&str] = &["--token-server=10.0.0.0/24", "--buffer=256K"];
const GRANT: &str = "POST /api/add-token?type=http&sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CHUNK: &str = "4\r\nabcd\r\n";

/// What two viewers and a caller have got in the end, if hands change after these steps.
fn story(changes: &dyn Fn(usize) -> bool) -> Vec<String> {
    let mut stage = Stage::new(OPTIONS);
    let step = std::cell::Cell::new(0);
    let go_on = |stage: &mut Stage| {
        if changes(step.get()) {
            hand_over(stage, OPTIONS);
        }
        step.set(step.get() + 1);
    };
    let caller = stage.client("");
    for piece in [&GRANT[..20], &GRANT[20..]] {
        stage.send(caller, piece);
        go_on(&mut stage);
    }
    let source = stage
        .client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab");
    go_on(&mut stage);
    let first = stage.viewer("s");
    go_on(&mut stage);
    stage.send(source, "cd\r\n");
    go_on(&mut stage);
    let second = stage.viewer("s");
    stage.relay.served(second, Outcome::Blocked, stage.now);
    go_on(&mut stage);
    for piece in [CHUNK, "4\r", "\nab", "cd", "\r\n"] {
        stage.send(source, piece);
        go_on(&mut stage);
    }
    stage.relay.unblocked(second);
    stage.settle();
    go_on(&mut stage);
    stage.send(source, "0\r\n\r\n");
    go_on(&mut stage);
    assert_eq!(stage.content(first), ("abcdabcdabcd".to_owned(), true));
    assert_eq!(stage.content(second), ("abcdabcdabcd".to_owned(), true));
    let list = "GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stage.send(caller, list);
    go_on(&mut stage);
    stage.lose(source);
    stage.relay.check();
    [caller, source, first, second]
        .map(|id| stage.text(id))
        .to_vec()
}

#[test]
fn another_core_goes_on_between_any_two_steps() {
    let as_it_was = story(&|_| false);
    for changes in 0..16 {
        assert_eq!(story(&|step| step == changes), as_it_was, "at {changes}");
    }
    assert_eq!(story(&|_| true), as_it_was, "at each");
}

/// It says how much is there, and what would do.
#[test]
fn a_buffer_that_is_too_small_is_refused_in_words() {
    let mut stage = Stage::new(OPTIONS);
    stage.client(GRANT);
    let source =
        stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");
    for _ in 0..10 {
        stage.send(source, &"a".repeat(10_000));
    }
    let (successor, _) = tell(&mut stage, &[OPTIONS[0], "--buffer=64K"]);
    let taken = successor.take_over();
    let HandoverError(why) = taken.err().expect("it does not fit");
    assert!(why.contains("100000 of its bytes"), "{why}");
    assert!(why.contains("--buffer=65536"), "{why}");
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let mut stage = Stage::new(OPTIONS);
    stage.client(GRANT);
    let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
    stage.send(source, "abcd");
    let mut records = Vec::new();
    let mut out = |piece: &[u8]| records.extend_from_slice(piece);
    super::hand_over(&mut stage.relay, stage.now, &mut out);
    let text = String::from_utf8(records).expect("text");
    let ids = text.lines().find(|line| line.starts_with("ids "));
    let blocks = |name: &str, key: &dyn Fn(usize) -> String, count: usize| {
        let until = "9000000000";
        let blocks = (0..count).map(|number| format!("[{},{until}]", key(number)));
        let blocks: Vec<String> = blocks.collect();
        format!("{name} 0 [{}]", blocks.join(","))
    };
    let session = |number: usize| format!("\"s{number}\"");
    let address = |number: usize| format!("[\"s{number}\",\"192.0.2.1\"]");
    let (no_table, no_file) = (
        "one of the two servers has --token-server; start both with it",
        "one of the two servers has --token-file; start both with it",
    );
    let (others, many) = (
        "in a place that is another's",
        "more are kept out than may be",
    );
    let (with_tokens, without) = ("grants 0 [true,", "grants 0 [false,");
    for (options, is_kept, from, to, words) in [
        (OPTIONS, false, "", "", ""),
        (&[], false, "", "", no_table),
        (OPTIONS, false, with_tokens, without, no_table),
        (OPTIONS, true, "", "", no_file),
        (
            &[],
            false,
            with_tokens,
            without,
            "a token, where there are none",
        ),
        (OPTIONS, false, "\"stream\":0", "\"stream\":7", others),
        (
            OPTIONS,
            false,
            "connection 4294967297",
            "connection 9",
            others,
        ),
        (OPTIONS, false, ids.expect("ids"), "blocks 0 []", "no ids"),
        (
            OPTIONS,
            false,
            "ids 0",
            "what-another-version-of-it-tells-of-itself 0",
            "'what-another-version-of-it-tells' is nothing that is known here",
        ),
        (
            OPTIONS,
            false,
            "blocks 0 []",
            &blocks("blocks", &session, 1_024),
            "",
        ),
        (
            OPTIONS,
            false,
            "blocks 0 []",
            &blocks("blocks", &session, 1_025),
            many,
        ),
        (
            OPTIONS,
            false,
            "barred 0 []",
            &blocks("barred", &address, 1_024),
            "",
        ),
        (
            OPTIONS,
            false,
            "barred 0 []",
            &blocks("barred", &address, 1_025),
            many,
        ),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let mut successor = Successor::new(settings(options), is_kept);
        successor
            .take(Piece::Media(StreamId::from_u64(0), 0, b"abcd"))
            .expect("it fits");
        let heard = successor.receive(text.replace(from, to).as_bytes());
        let taken = heard.and_then(|()| successor.take_over());
        let why = taken
            .err()
            .map(|HandoverError(why)| why)
            .unwrap_or_default();
        assert!(
            why.contains(words) && why.is_empty() == words.is_empty(),
            "{to}: {why}"
        );
    }
}

/// What was copied has no gaps, and is no more than clients may have.
#[test]
fn copies_have_their_bounds() {
    const KIB: usize = 1024;
    let most = COPY_BYTES_MAX + 64 * KIB;
    let copy = |successor: &mut Successor, name: CopyName, from: usize, bytes: usize| {
        let piece = Piece::Copy(name, from, &vec![7; bytes]);
        successor.take(piece).is_ok()
    };
    let options = [
        "--connections=10",
        "--buffer=64K",
        "--buffers=1M",
        "--streams=3",
    ];
    let new = || Successor::new(settings(&options), false);
    for (bytes, from, more, fits) in [
        (100, 100, 9, true),
        (100, 50, 9, true),
        (100, 101, 9, false),
        (most - 1, most - 1, 1, true),
        (most - 1, most - 1, 2, false),
    ] {
        let mut successor = new();
        assert!(copy(&mut successor, (0, CopiedPart::Input), 0, bytes));
        let is_taken = copy(&mut successor, (0, CopiedPart::Input), from, more);
        assert_eq!(is_taken, fits, "{bytes} {from} {more}");
    }
    // 42 clients may be here. There may be 3 streams, as many that drain, and 8 remuxed ones.
    let mut successor = new();
    let of_clients = (0..42).flat_map(|id| CopiedPart::OF_CLIENT.map(|part| (id, part)));
    let of_streams = (0..14).flat_map(|id| CopiedPart::OF_STREAM.map(|part| (id, part)));
    for name in of_clients.chain(of_streams) {
        assert!(copy(&mut successor, name, 0, 1), "{name:?}");
    }
    assert!(!copy(&mut successor, (42, CopiedPart::Input), 0, 1));
}

/// A fast source in the first place kept all others from being copied, and the successor kept the
/// bytes of streams that had gone.
#[test]
fn streams_are_copied_in_turns_and_those_that_have_gone_come_first() {
    const PIECE_BYTES: usize = 64 * 1024;
    let mut stage = Stage::new(&[]);
    let bytes = vec![b'a'; 3 * PIECE_BYTES];
    let sources = ["fast", "b", "c"].map(|name| {
        let head =
            format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n");
        let source = stage.client(&head);
        stage.send_media(source, &bytes);
        source
    });
    let mut copying = Copying::default();
    for _ in 0..15 {
        assert!(copying.next(&mut stage.relay, PIECE_BYTES).is_some());
        stage.send_media(sources[0], &bytes[..PIECE_BYTES]);
    }
    let whole = |streams: &HashMap<_, u64>| {
        let ends = streams.values();
        ends.filter(|end| **end == bytes.len() as u64).count()
    };
    assert_eq!((copying.streams.len(), whole(&copying.streams)), (3, 2));
    stage.lose(sources[1]);
    assert!(copying.next(&mut stage.relay, PIECE_BYTES).is_some());
    assert_eq!((copying.streams.len(), whole(&copying.streams)), (2, 1));
}

/// A hand-over waits for a change that is being written to the disk.
#[test]
fn a_core_is_quiet_when_no_change_is_on_its_way_to_the_disk() {
    let mut stage = Stage::new(OPTIONS);
    assert!(is_quiet(&stage.relay));
    let tokens = crate::gate::Tokens::new(stage.relay.token_limits());
    stage.relay.restore(tokens, stage.now);
    assert!(is_quiet(&stage.relay));
    let caller = stage.client(GRANT);
    assert!(!is_quiet(&stage.relay));
    assert_eq!(stage.text(caller), "", "it waits");
    let (job_id, _) = stage.jobs.remove(0);
    let done = Done::Appended(Ok(()));
    stage.relay.job_finished(job_id, done, stage.now);
    stage.settle();
    stage.assert_status(caller, 201);
    assert!(is_quiet(&stage.relay));
}

/// What another core has is its own: the old one ends what it has of it, and tells nobody so.
#[test]
fn a_core_that_has_let_go_has_nothing_and_says_nothing() {
    let mut stage = Stage::new(&[OPTIONS[0], OPTIONS[1], "--wait=60"]);
    stage.client(GRANT);
    let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabcd");
    let viewer = stage.viewer("s");
    let other = GRANT.replace("=s", "=other");
    stage.client(&other);
    let waits = stage.viewer("other");
    let ids: Vec<ConnectionId> = connections(&stage.relay).collect();
    assert_eq!(ids.len(), 5);
    let going = super::hand_over(&mut stage.relay, stage.now, &mut |_| {});
    assert_eq!(going.len(), ids.len(), "all of them");
    let had = ids.iter().map(|id| stage.text(*id)).collect::<Vec<_>>();
    let_go(&mut stage.relay, &going);
    stage.settle();
    assert_eq!(connections(&stage.relay).count(), 0);
    assert_eq!(stage.relay.streams.media().count(), 0);
    for id in [source, viewer, waits] {
        assert!(stage.closed.contains(&id), "{id:?}");
    }
    let has = ids.iter().map(|id| stage.text(*id)).collect::<Vec<_>>();
    assert_eq!(has, had);
    assert_eq!(stage.relay.next_deadline(), None);
}

/// A client that waits for a job gets its own job's result, and counters continue.
#[test]
fn tickets_numbers_and_figures_go_on() {
    let mut stage = Stage::new(OPTIONS);
    for _ in 0..5 {
        stage.relay.ctx.draw_job();
    }
    let cuts = &mut stage.relay.ctx.counts.cuts;
    (0..3).for_each(|_| cuts.count(CutReason::Stalled));
    for _ in 0..3 {
        stage.client(GRANT);
    }
    let (mut drawn, run) = (vec![stage.relay.ctx.random.draw()], stage.relay.ctx.run);
    let began = stage.relay.ctx.counts.of(Count::Connections);
    assert_eq!(began, 3);
    for round in 1..4 {
        hand_over(&mut stage, OPTIONS);
        let ctx = &mut stage.relay.ctx;
        let job_id = ctx.draw_job();
        assert_eq!(job_id, JobId(5 + round));
        assert_eq!(ctx.run, run);
        let next = ctx.random.draw();
        assert!(!drawn.contains(&next));
        drawn.push(next);
        assert_eq!(ctx.counts.of(Count::Connections), began);
        assert!(ctx.counts.cuts.rows().contains(&("stalled", 3)));
    }
}

/// A reader of events misses none and gets none twice.
#[test]
fn what_happens_is_told_on() {
    let told = |changes: &dyn Fn(usize) -> bool| {
        let mut stage = Stage::new(OPTIONS);
        let reader = stage.client("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        (0..4).for_each(|_| stage.settle());
        for step in 0..4 {
            if changes(step) {
                hand_over(&mut stage, OPTIONS);
            }
            let name = format!("={step}");
            stage.client(&GRANT.replace("=s", &name));
        }
        stage.text(reader)
    };
    let as_it_was = told(&|_| false);
    assert_eq!(as_it_was.matches("event: token-added\n").count(), 4);
    for changes in 0..4 {
        assert_eq!(told(&|step| step == changes), as_it_was, "at {changes}");
    }
    assert_eq!(told(&|_| true), as_it_was, "at each");
}

/// A viewer of whom readers have not heard does not go, either.
#[test]
fn who_is_not_reported_is_not_reported_later() {
    let mut stage = Stage::new(OPTIONS);
    stage.client(GRANT);
    stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    let reader = stage.client("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..1_030 {
        let viewer = stage.viewer("s");
        stage.lose(viewer);
    }
    let viewers = [stage.viewer("s"), stage.viewer("s")];
    hand_over(&mut stage, OPTIONS);
    viewers.into_iter().for_each(|viewer| stage.lose(viewer));
    (0..4).for_each(|_| stage.settle());
    let told = stage.text(reader);
    let count = |event: &str| told.matches(&format!("event: {event}\n")).count();
    let comes = count("viewer-comes");
    assert_eq!(count("viewer-goes"), comes);
    assert!((300..1_030).contains(&comes), "{comes}");
}

/// A successor with fewer streams takes nothing, also where they would fit beside each other while
/// the first ones end.
#[test]
fn more_streams_than_may_run_are_not_taken_over() {
    for (streams, fits) in [(2, true), (3, false), (4, false)] {
        let mut stage = Stage::new(&["--streams=4"]);
        for number in 0..streams {
            let target = format!("/stream/s{number}");
            stage.client(&format!(
                "PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
            ));
        }
        let (successor, _) = tell(&mut stage, &["--streams=2"]);
        let taken = successor.take_over().map(drop).map_err(|unfit| unfit.0);
        assert_eq!(taken.is_ok(), fits, "{streams}");
        if let Err(why) = taken {
            assert!(why.contains(&format!("has {streams} streams")), "{why}");
            assert!(why.contains("--streams=2"), "{why}");
        }
    }
}

/// If nobody takes over, a publisher by RTMP goes on. A successor has its stream without a source.
#[cfg(feature = "rtmp")]
#[test]
fn a_publisher_by_rtmp_stays_until_another_has_taken_over() {
    let options = ["--rtmp=127.0.0.1:1935", "--hold=60"];
    let mut stage = Stage::new(&options);
    let sent = include_bytes!("../../../tests/rtmp/ffmpeg.rtmp");
    let peer = "10.0.0.9:9".parse().expect("an address");
    let id = stage.relay.accepted_rtmp(peer, stage.now).expect("room");
    let (first, rest) = sent.split_at(sent.len() / 2);
    first
        .chunks(4096)
        .for_each(|piece| _ = stage.send(id, piece));
    let viewer = stage.viewer("demo");
    let had = stage.media(viewer).0.len();
    let (_, going) = tell(&mut stage, &options);
    assert!(!going.contains(&id) && going.contains(&viewer));
    rest.chunks(4096)
        .for_each(|piece| _ = stage.send(id, piece));
    assert!(stage.media(viewer).0.len() > had + 1000);
    let (successor, going) = tell(&mut stage, &options);
    let (relay, _) = successor.take_over().expect("it fits");
    let mut old = std::mem::replace(&mut stage.relay, relay);
    stage.relay.check();
    assert!(
        stage
            .relay
            .streams
            .sources()
            .all(|(_, feed)| feed.connection().is_none())
    );
    assert!(stage.relay.clients.has(viewer), "it is held");
    let_go(&mut old, &going);
    old.check();
    assert_eq!((old.clients.len(), old.streams.len()), (0, 0));
}

/// The old process has no streams any more: an empty list would be wrong.
#[test]
fn a_list_of_streams_that_waits_for_a_relay_is_refused() {
    let options = ["--token-server=10.0.0.0/24", "--peer=http://10.2.0.1:8000"];
    for (list, status) in [("streams", 503), ("viewers", 503), ("tokens", 200)] {
        let mut stage = Stage::new(&options);
        let call = format!("GET /api/list-{list} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let stays = stage.client(&call);
        let (peer, _, _) = stage.call();
        let (_, going) = tell(&mut stage, &options);
        assert!(!going.contains(&stays));
        let_go(&mut stage.relay, &going);
        stage.lose(peer);
        stage.assert_status(stays, status);
    }
}

/// The successor has the tokens: a change here would be lost.
#[test]
fn a_connection_that_stays_gets_its_answer_and_no_further_request_is_read() {
    let options = ["--token-server=10.0.0.0/24"];
    let mut stage = Stage::new(&options);
    let stays =
        stage.client("OPTIONS /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12");
    let (_, going) = tell(&mut stage, &options);
    assert!(!going.contains(&stays));
    let_go(&mut stage.relay, &going);
    let add = "POST /api/add-token?type=http&sessionid=b HTTP/1.1\r\nHost: h\r\n\r\n";
    stage.send(stays, &format!("345{add}"));
    stage.send(stays, add);
    let answers = stage.text(stays);
    assert!(answers.starts_with("HTTP/1.1 204 "), "{answers}");
    assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{answers}");
}
