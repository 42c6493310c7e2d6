//! The hand-over of streams of every kind, and of invalid states.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::*;
use crate::clean_text::{TITLES_BYTES_MAX, TITLES_MAX};
use crate::relay::counts::Count;
use crate::relay::stage::{self, HandedOver, Stage};
use crate::relay::streams::tests::packets;
use crate::relay::{Relay, handover};
use crate::rtp::Packet;
use crate::stream::{End, Outcome};

const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
const CAMERA: &str = "10.2.0.2:6000";
const BARE_CAMERA: &str = "10.2.0.3:6000";
const OPTIONS: &[&str] = &[
    "--token-server=10.0.0.0/24",
    "--buffer=256K",
    "--buffers=4M",
    "--streams=9",
    "--connections=40",
    "--hold=60",
];

fn set_rtp(stage: &mut Stage) {
    stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
}

fn put(stage: &mut Stage, session: &str, length: usize, media: &[u8]) -> ConnectionId {
    let head =
        format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
    let source = stage.client(&head);
    for piece in media.chunks(40_000) {
        stage.relay.received(source, piece, stage.now);
    }
    stage.settle();
    source
}

fn rtp(number: u16) -> Vec<u8> {
    [&Packet::header(33, number, 0, 9)[..], &packets(7)].concat()
}

fn block(stage: &mut Stage, id: ConnectionId) {
    stage.relay.served(id, Outcome::Blocked, stage.now);
}

/// Streams of each kind: from a body with UDP clients, RTP, MPEG-TS without RTP, a remuxed one, a
/// draining one and a held one. Also the viewer of the draining one, which reads nothing.
fn all_kinds() -> (Stage, ConnectionId) {
    let mut stage = Stage::new(OPTIONS);
    set_rtp(&mut stage);
    for query in [
        "type=http,rtp-udp&sessionid=http&udp-clients=10.2.0.1:6000,10.2.0.1:6002",
        &format!("type=http,rtp-udp&sessionid=rtp&udp-clients={CAMERA}&max-bitrate=8000000"),
        &format!("type=http,udp&sessionid=bare&udp-clients={BARE_CAMERA}"),
        "type=http&sessionid=flv",
        "type=http&sessionid=drains",
        "type=http&sessionid=held",
    ] {
        let call = stage.client(&format!(
            "POST /api/add-token?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        stage.assert_status(call, 201);
    }
    put(&mut stage, "http", 99_999_999, &packets(300));
    stage.viewer("http");
    stage.viewer("http");
    for number in 0..5 {
        stage.arrive(CAMERA, &rtp(number));
    }
    stage.arrive(BARE_CAMERA, &packets(7));
    put(&mut stage, "flv", 99_999_999, FILE);
    stage.viewer("flv/live.ts");
    put(&mut stage, "drains", 30_000, &[7; 10_000]);
    let stuck = stage.viewer("drains");
    block(&mut stage, stuck);
    let source = *stage
        .relay
        .clients
        .ids()
        .collect::<Vec<_>>()
        .iter()
        .rev()
        .nth(1)
        .expect("it");
    stage.relay.received(source, &[7; 20_000], stage.now);
    stage.settle();
    let source = put(&mut stage, "held", 99_999_999, &packets(50));
    stage.viewer("held");
    stage.lose(source);
    (stage, stuck)
}

/// The rows of list-streams, without what depends on how allocations have grown.
fn rows(stage: &Stage) -> Vec<Value> {
    let rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
    let rows = rows.map(|(_, row)| {
        let mut row = serde_json::to_value(&row).expect("a row");
        row["held_bytes"] = Value::Null;
        row
    });
    rows.collect()
}

/// Streams by session, a remuxed one's with its container.
fn ids(told: &HandedOver) -> BTreeMap<String, u64> {
    let mut ids = BTreeMap::new();
    told.but("stream", |number, it| {
        let session = it["session"].as_str().expect("a name");
        let is_remuxed = !it["remuxed"].is_null();
        let name = format!("{session}{}", if is_remuxed { ".ts" } else { "" });
        ids.insert(name, *number);
    });
    ids
}

#[test]
fn streams_of_all_kinds_go_on_in_another_core() {
    let (mut stage, stuck) = all_kinds();
    let before = rows(&stage);
    let names: Vec<&Value> = before.iter().map(|row| &row["sessionid"]).collect();
    assert_eq!(names, ["http", "rtp", "bare", "flv", "drains", "held"]);
    let old_ids: Vec<StreamId> = stage
        .relay
        .streams
        .streams
        .iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(old_ids.len(), 7, "a remuxed stream, too");
    let serial_next = stage.relay.streams.serial_next;
    let begun = stage.relay.ctx.counts.of(Count::Streams);
    let taken = stage.written.clone();
    stage.change_hands(OPTIONS);
    set_rtp(&mut stage);
    assert_eq!(rows(&stage), before);
    // The viewer that reads nothing is not written to. The others have every byte.
    assert!(stage.written == taken);
    stage.relay.unblocked(stuck);
    stage.settle();
    assert_eq!(stage.media(stuck), (vec![7; 30_000], true));
    // Sources go on where they were.
    let datagrams = stage.relay.ctx.counts.of(Count::Datagrams);
    stage.arrive(CAMERA, &rtp(5));
    stage.arrive(BARE_CAMERA, &packets(7));
    assert_eq!(stage.relay.ctx.counts.of(Count::Datagrams), datagrams + 2);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), begun);
    // A new one is called like none before it.
    put(&mut stage, "held", 99_999_999, &packets(9));
    assert_eq!(
        stage.relay.ctx.counts.of(Count::Streams),
        begun,
        "it was held"
    );
    let session = crate::gate::SessionId::parse(b"rtp").expect("a name");
    let abort = "DELETE /api/abort-stream?sessionid=rtp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let call = stage.client(abort);
    stage.assert_status(call, 200);
    stage.wait_seconds(2);
    for number in 0..2 {
        stage.arrive(CAMERA, &rtp(number));
    }
    let (id, _) = stage
        .relay
        .streams
        .running_source(&session)
        .expect("it runs");
    assert!(!old_ids.contains(&id));
    assert_eq!(
        stage.relay.streams.streams.get(id).expect("it").serial,
        serial_next
    );
}

#[test]
fn the_old_core_keeps_nothing_of_streams_that_have_gone() {
    let (mut stage, _) = all_kinds();
    stage.hand_over().taken_over(OPTIONS).expect("it fits");
    let going: Vec<ConnectionId> = handover::connections(&stage.relay).collect();
    assert!(stage.relay.ctx.timers.len() > 0);
    handover::let_go(&mut stage.relay, &going);
    assert_eq!(stage.relay.streams.len(), 0);
    stage.relay.check();
    assert_eq!(stage.relay.streams.media().count(), 0);
    let limits = &stage.relay.ctx.settings().limits;
    let free = stage.relay.streams.pool.bytes_left;
    assert_eq!(free, limits.buffers_bytes_max as isize);
}

type Change = fn(&HandedOver, &BTreeMap<String, u64>) -> HandedOver;

/// One stream's line is another: that of this session, or its remuxed copy's.
fn change(told: &HandedOver, name: &str, mut change: impl FnMut(&mut Value)) -> HandedOver {
    let number = ids(told)[name];
    told.but("stream", |it, value| {
        if *it == number {
            change(value);
        }
    })
}

const ANOTHERS_NUMBER: &str = "has another's number";
const ENDED: &str = "has ended, and has a source";
const TWICE: &str = "a session runs twice";
const OF_ANOTHER: &str = "is made of another";
/// Maximal number of tracks of a remuxed stream.
const TRACKS_MAX: usize = 16;
const NOT_REMUXED: &str = "is not remuxed";
const FITS: &str = "";
/// One stream ends, and no other: this one.
const HTTP_ENDS: &str = "ends: http";
const COPY_ENDS: &str = "ends: flv.ts";

/// If the parts disagree, the hand-over is refused in words. If one stream's own state cannot be, that
/// stream ends, and no other.
#[test]
fn what_cannot_be_so_of_streams_is_refused_or_ends_one() {
    let (mut stage, _) = all_kinds();
    let told = stage.hand_over();
    let ids = ids(&told);
    let cases = [
        ("as it was", (|it, _| it.clone()) as Change, FITS),
        (
            "a number that is given out next",
            |it, _| it.but("ids", |_, ids| ids["streams"][1] = 7.into()),
            ANOTHERS_NUMBER,
        ),
        (
            "a number that is given out after the next",
            |it, _| it.but("ids", |_, ids| ids["streams"][1] = 9.into()),
            FITS,
        ),
        (
            "two of one number",
            |it, _| change(it, "bare", |it| it["serial"] = 1.into()),
            ANOTHERS_NUMBER,
        ),
        (
            "a source of what has ended",
            |it, _| change(it, "drains", |it| it["source"] = json!({"Rtp": CAMERA})),
            ENDED,
        ),
        (
            "no source of what has not",
            |it, _| change(it, "rtp", |it| it["source"] = "Gone".into()),
            ENDED,
        ),
        (
            "two of one session",
            |it, _| change(it, "bare", |it| it["session"] = "rtp".into()),
            TWICE,
        ),
        (
            "a remuxed stream that is none",
            |it, ids| {
                change(it, "flv", |it| {
                    it["remux_targets"][0]["stream"] = ids["rtp"].into()
                })
            },
            OF_ANOTHER,
        ),
        (
            "a remuxed stream that is not there",
            |it, _| {
                change(it, "flv", |it| {
                    it["remux_targets"][0]["stream"] = 999.into()
                })
            },
            OF_ANOTHER,
        ),
        (
            "a remuxed stream that is another's",
            |it, ids| {
                let mut own = Value::Null;
                let told = change(it, "flv", |it| own = it["remux_targets"][0].clone());
                assert_eq!(own["stream"], ids["flv.ts"]);
                change(&told, "http", |it| it["remux_targets"] = json!([own]))
            },
            OF_ANOTHER,
        ),
        (
            "a remuxed stream that its original does not know",
            |it, _| change(it, "flv", |it| it["remux_targets"] = json!([])),
            OF_ANOTHER,
        ),
        (
            "a remuxed stream that its original has lost",
            |it, _| {
                change(it, "flv", |it| {
                    it["remux_targets"][0]["stream"] = Value::Null
                })
            },
            OF_ANOTHER,
        ),
        (
            "a remuxed stream in another container",
            |it, _| {
                change(it, "flv.ts", |it| {
                    let is_mp4 = it["remuxed"]["target"] == "Mp4";
                    it["remuxed"]["target"] = if is_mp4 { "MpegTs" } else { "Mp4" }.into();
                })
            },
            OF_ANOTHER,
        ),
        (
            "a remuxed stream of what is not there",
            |it, _| change(it, "flv.ts", |it| it["remuxed"]["original"] = 999.into()),
            OF_ANOTHER,
        ),
        (
            "what is between a source and its stream",
            |it, _| {
                change(it, "http", |it| {
                    it["splicer"]["unit_bytes_max"] = 131_072.into()
                })
            },
            FITS,
        ),
        (
            "the same, of a larger buffer",
            |it, _| {
                change(it, "http", |it| {
                    it["splicer"]["unit_bytes_max"] = 131_073.into()
                })
            },
            FITS,
        ),
        (
            "the same, behind all offsets",
            |it, _| {
                change(it, "http", |it| {
                    it["splicer"]["phase"]["Running"]["offset"] = u64::MAX.into()
                })
            },
            HTTP_ENDS,
        ),
        (
            "what comes out of a remuxed stream",
            |it, _| remuxer(it, "shift", json!(i64::MAX)),
            FITS,
        ),
        (
            "its newest time",
            |it, _| remuxer(it, "newest", json!(i64::MIN)),
            FITS,
        ),
        (
            "times that were written",
            |it, _| remuxer(it, "written", json!(vec![(1, i64::MIN); 2 * TRACKS_MAX])),
            FITS,
        ),
        (
            "times of too many tracks",
            |it, _| remuxer(it, "written", json!(vec![(1, 0); 2 * TRACKS_MAX + 1])),
            COPY_ENDS,
        ),
        (
            "its counters",
            |it, _| remuxer(it, "counters", json!(vec![0; TRACKS_MAX])),
            FITS,
        ),
        (
            "counters of too many tracks",
            |it, _| remuxer(it, "counters", json!(vec![0; TRACKS_MAX + 1])),
            COPY_ENDS,
        ),
        (
            "its setups",
            |it, _| remuxer(it, "setups", json!(vec![(1, vec![0; 4_096]); TRACKS_MAX])),
            FITS,
        ),
        (
            "setups of too many tracks",
            |it, _| remuxer(it, "setups", json!(vec![(1, [0]); TRACKS_MAX + 1])),
            COPY_ENDS,
        ),
        (
            "a setup that is too long",
            |it, _| remuxer(it, "setups", json!([(1, vec![0; 4_097])])),
            COPY_ENDS,
        ),
        (
            "a remuxer of what is not there",
            |it, _| it.but("remuxer", |number, _| *number = 999),
            NOT_REMUXED,
        ),
        (
            "a remuxer of what is not remuxed",
            |it, ids| it.but("remuxer", |number, _| *number = ids["http"]),
            NOT_REMUXED,
        ),
        (
            "a remuxer of what has ended",
            |it, _| {
                let mut end = Value::Null;
                change(it, "drains", |it| end = it["buffer"]["end"].clone());
                change(it, "flv.ts", |it| {
                    it["buffer"]["end"] = end.clone();
                    it["source"] = "Gone".into();
                })
            },
            NOT_REMUXED,
        ),
        (
            "a remuxer of a container that is not known",
            |it, _| {
                change(it, "flv", |it| {
                    it["buffer"]["points"]["detected"] = "Unknown".into()
                })
            },
            COPY_ENDS,
        ),
        (
            "a remuxer of a container that is not remuxed",
            |it, _| {
                change(it, "flv", |it| {
                    it["buffer"]["points"]["detected"] = json!({"Known": "Mp3"})
                })
            },
            COPY_ENDS,
        ),
        ("an hour", |it, _| history(it, 360), FITS),
        ("more than an hour", |it, _| history(it, 361), HTTP_ENDS),
        (
            "titles",
            |it, _| titles(it, TITLES_MAX, TITLES_BYTES_MAX / TITLES_MAX),
            FITS,
        ),
        (
            "too many titles",
            |it, _| titles(it, TITLES_MAX + 1, 1),
            HTTP_ENDS,
        ),
        (
            "titles that are too long",
            |it, _| titles(it, 2, TITLES_BYTES_MAX / 2 + 1),
            HTTP_ENDS,
        ),
        (
            "titles of a draining stream that are too long",
            |it, _| {
                let titles = titles_of(2, TITLES_BYTES_MAX / 2 + 1);
                change(it, "drains", |it| {
                    it["programme"]["titles"] = titles.clone()
                })
            },
            FITS,
        ),
        (
            "a splicer without a source",
            |it, _| {
                change(it, "held", |it| {
                    let header = " ".repeat(1 << 20);
                    it["splicer"]["phase"]["AwaitingJoinPoint"]["output"]["header"]["rest"] =
                        header.into()
                })
            },
            "ends: held",
        ),
        (
            "a place to begin",
            |it, _| {
                change(it, "flv", |it| {
                    it["buffer"]["points"]["units"] = json!([u64::MAX])
                })
            },
            "ends: flv",
        ),
        (
            "a remuxed stream's place to begin",
            |it, _| {
                change(it, "flv.ts", |it| {
                    it["buffer"]["points"]["units"] = json!([u64::MAX])
                })
            },
            COPY_ENDS,
        ),
        (
            "a viewer's position",
            |it, ids| {
                it.but("viewer", |_, it| {
                    if it[0] == ids["http"] {
                        it[2]["position"] = json!({"At": u64::MAX});
                    }
                })
            },
            HTTP_ENDS,
        ),
        (
            "what UDP clients get",
            |it, _| {
                change(it, "http", |it| {
                    it["rtp_out"]["udp_out"]["figures"] = json!([])
                })
            },
            HTTP_ENDS,
        ),
        (
            "a header that is not there",
            |it, _| it.but("viewer", |_, it| it[1] = 9.into()),
            "a header is missing",
        ),
        (
            "what MPEG-TS has told",
            |it, _| {
                change(it, "bare", |it| {
                    it["bare"]["bare"]["aligner"] =
                        json!({"pending": "", "shape": null, "in_step": true});
                })
            },
            "ends: bare",
        ),
        (
            "what goes out",
            |it, _| {
                change(it, "http", |it| {
                    it["rtp_out"]["ts_output"]["cursor"] = (1u64 << 40).into();
                })
            },
            HTTP_ENDS,
        ),
        (
            "viewers of no stream",
            |it, _| it.but("viewer", |_, it| it[0] = 999.into()),
            "viewers of no stream",
        ),
        (
            "a viewer's place",
            |it, ids| move_viewer(it, ids["flv.ts"], 72),
            "lies beyond the 72 that may be here at once",
        ),
        (
            "a viewer's place that is not its own",
            |it, ids| move_viewer(it, ids["flv.ts"], 71),
            "in a place that is another's",
        ),
        (
            "a stream's place",
            |it, ids| move_stream(it, ids["rtp"], 26),
            "lies beyond the 26 that may be here at once",
        ),
        (
            "a stream's place",
            |it, ids| move_stream(it, ids["rtp"], 25),
            FITS,
        ),
        (
            "nothing of it is told",
            |it, _| without(it, "viewer "),
            "in a place that is another's",
        ),
        (
            "no end of it",
            |it, _| {
                change(it, "drains", |it| {
                    it["source"] = json!({"Held": {"until": 9_000_000_000_u64}})
                })
            },
            ENDED,
        ),
        (
            "where RTP waits",
            |it, _| {
                change(it, "rtp", |it| {
                    it["input"]["reorder"]["early_bytes"] = 7.into()
                })
            },
            "ends: rtp",
        ),
        (
            "a pacer",
            |it, _| {
                change(it, "http", |it| {
                    it["rtp_out"]["ts_output"]["pacing"]["arrived"] = (1u64 << 40).into()
                })
            },
            HTTP_ENDS,
        ),
    ];
    for (what, change, words) in cases {
        let told = change(&told, &ids);
        let said = match told.taken_over(OPTIONS) {
            Ok(relay) => ended(&relay, &self::ids(&told), what),
            Err(why) => why,
        };
        let is_said = if words.is_empty() {
            said.is_empty()
        } else {
            said.contains(words)
        };
        assert!(is_said, "{what}: {said:?}");
    }
}

/// Returns in words which streams have ended, except the one that had ended before.
fn ended(relay: &Relay, ids: &BTreeMap<String, u64>, what: &str) -> String {
    relay.check();
    let goes_on = |name: &str, id: u64| {
        let stream = relay.streams.streams.get(StreamId::from_u64(id));
        stream.is_some_and(|stream| name == "drains" || stream.buffer.end().is_none())
    };
    let mut ended: Vec<&str> = ids
        .iter()
        .filter(|(name, id)| !goes_on(name, **id))
        .map(|(name, _)| name.as_str())
        .collect();
    // A remuxed stream ends with its original.
    if ended.contains(&"flv") {
        ended.retain(|name| *name != "flv.ts");
    }
    match ended[..] {
        [] => String::new(),
        [name] => format!("ends: {name}"),
        _ => panic!("{what}: {ended:?} end"),
    }
}

/// Changes a value of the remuxer.
fn remuxer(told: &HandedOver, field: &str, value: Value) -> HandedOver {
    told.but("remuxer", |_, it| it[field] = value.clone())
}

fn history(told: &HandedOver, samples: usize) -> HandedOver {
    let sample = json!({"time": 0, "bitrate": 0, "viewers": 0});
    change(told, "http", |it| {
        it["history"]["samples"] = json!(vec![sample.clone(); samples]);
    })
}

fn titles(told: &HandedOver, count: usize, bytes: usize) -> HandedOver {
    let titles = titles_of(count, bytes);
    change(told, "http", |it| {
        it["programme"]["titles"] = titles.clone()
    })
}

fn titles_of(count: usize, bytes: usize) -> Value {
    let title = json!({"began": {"secs": 0, "nanos": 0}, "title": "a".repeat(bytes)});
    json!(vec![title; count])
}

fn move_viewer(told: &HandedOver, of: u64, to: u64) -> HandedOver {
    told.but("viewer", |number, it| {
        if it[0] == of {
            *number = to;
        }
    })
}

fn move_stream(told: &HandedOver, from: u64, to: u64) -> HandedOver {
    let mut moved = told.but("stream", |number, _| {
        if *number == from {
            *number = to;
        }
    });
    for (id, ..) in &mut moved.media {
        if *id == StreamId::from_u64(from) {
            *id = StreamId::from_u64(to);
        }
    }
    moved
}

fn without(told: &HandedOver, begins: &str) -> HandedOver {
    let lines = told
        .records
        .lines()
        .filter(|line| !line.starts_with(begins));
    let lines: Vec<&str> = lines.collect();
    let count = lines.len() - 1;
    let mut records: String = lines[..count]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    records += &format!("end {count} null\n");
    HandedOver {
        media: told.media.clone(),
        records,
    }
}

/// The remuxer reads from a join point on, for any received offset.
#[test]
fn a_remuxed_stream_reads_what_its_original_keeps() {
    let options = ["--buffer=64K", "--buffers=1M"];
    let mut stage = Stage::new(&options);
    let source = put(&mut stage, "flv", 99_999_999, FILE);
    stage.viewer("flv/live.ts");
    for _ in 0..8 {
        stage.send(source, &FILE[13..]);
    }
    let told = stage.hand_over();
    let original = ids(&told)["flv"];
    let stream = stage
        .relay
        .streams
        .streams
        .get(StreamId::from_u64(original));
    let buffer = &stream.expect("it is there").buffer;
    let (kept, newest) = (buffer.filled_bytes() as u64, buffer.newest());
    assert!(kept > 1_000 && newest - kept > 1_000, "{kept} of {newest}");
    for behind in [
        newest,
        newest - kept,
        newest - kept / 2,
        newest - kept - 1,
        0,
        newest + 1,
        newest + kept,
    ] {
        let told = change(&told, "flv.ts", |it| {
            it["remuxed"]["read_offset"] = behind.into()
        });
        let relay = told.taken_over(&options).expect("it fits");
        relay.check();
        let id = StreamId::from_u64(ids(&told)["flv.ts"]);
        let remuxed = relay
            .streams
            .streams
            .get(id)
            .and_then(|stream| stream.remuxed.as_ref());
        let behind = remuxed.expect("it is there").unread_from();
        assert!(behind.is_none_or(|at| (newest - kept..=newest).contains(&at)));
    }
}

/// In the middle of a stream `ftyp` ends the search for join points. The remuxer passes over it.
#[test]
fn a_remuxed_stream_whose_original_lost_its_format_ends_and_nothing_else() {
    const MP4: &[u8] = include_bytes!("../../../../tests/media/h264.mp4");
    let mut stage = Stage::new(&[]);
    let source = put(&mut stage, "mp4", 99_999_999, MP4);
    stage.viewer("mp4/live.ts");
    stage.send(source, &MP4[..28]);
    stage.send(source, b"\0\0\0\x08mdat");
    let told = stage.hand_over();
    assert!(told.records.contains("\nremuxer "), "the remuxer reads on");
    let ids = ids(&told);
    let mut relay = told.taken_over(&[]).expect("it fits");
    relay.expire(stage.now);
    relay.check();
    for (name, end) in [("mp4", None), ("mp4.ts", Some(End::Lost))] {
        let stream = relay.streams.streams.get(StreamId::from_u64(ids[name]));
        assert_eq!(stream.and_then(|stream| stream.buffer.end()), end, "{name}");
    }
}

/// Of what all keep together `--buffers` is the bound, but for what each may keep in any case.
#[test]
fn buffers_that_are_too_small_for_all_are_refused() {
    let mut stage = Stage::new(&["--buffer=1M", "--buffers=8M"]);
    for session in ["a", "b", "c"] {
        put(&mut stage, session, 99_999_999, &vec![7; 1_500_000]);
    }
    let told = stage.hand_over();
    let streams = &stage.relay.streams;
    let each = streams.streams.iter();
    let granted: usize = each.map(|(_, stream)| stream.buffer.granted_bytes()).sum();
    let taken_of = 8 * 1024 * 1024 - streams.pool.bytes_left as usize;
    assert!(granted > 0 && taken_of > granted + 1024 * 1024);
    // So many are left for others, or missing.
    for (left, is_refused) in [
        (1_000_000, false),
        (0, false),
        (-(granted as isize), false),
        (-(granted as isize) - 1, true),
        (-(granted as isize) - 100_000, true),
    ] {
        let bytes = taken_of as isize + left;
        let options = ["--buffer=1M", &format!("--buffers={bytes}")];
        let why = told.taken_over(&options).err();
        assert_eq!(why.is_some(), is_refused, "{left}: {why:?}");
        let words = "its buffers take more than --buffers here; raise it";
        assert!(why.is_none_or(|why| why == words));
    }
}

/// Twice as many as may run, and remuxed ones.
#[test]
fn media_of_too_many_streams_is_refused() {
    let limits = stage::settings(OPTIONS).limits;
    let mut told = StreamsState::new(&limits);
    let most = 2 * 9 + 8;
    let id = StreamId::from_u64;
    for number in 0..most {
        assert_eq!(told.receive_media((id(number), 0), b"abc", &limits), Ok(()));
    }
    let Err(HandoverError(why)) = told.receive_media((id(most), 0), b"abc", &limits) else {
        panic!("it is taken");
    };
    assert_eq!(why, "more than 26 streams");
    // Those that are known go on; and one that has gone makes room, and gives back what it took.
    assert_eq!(told.receive_media((id(0), 3), b"def", &limits), Ok(()));
    let before = told.pool.bytes_left;
    told.forget_media(id(0));
    told.forget_media(id(0));
    assert!(told.pool.bytes_left > before);
    assert_eq!(told.receive_media((id(most), 0), b"abc", &limits), Ok(()));
}

/// A stream ended while its bytes were sent.
#[test]
fn media_of_a_stream_that_is_told_no_more_is_let_go() {
    let (mut stage, _) = all_kinds();
    let mut told = stage.hand_over();
    told.media
        .push((StreamId::from_u64(24), 0, vec![7; 100_000]));
    let relay = told.taken_over(OPTIONS).expect("it fits");
    relay.check();
    assert!(!relay.streams.has(StreamId::from_u64(24)));
}

/// Sets the fields of these names, wherever they are.
fn set_all(value: &mut Value, names: &[&str], number: u64) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match names.contains(&name.as_str()) && value.is_u64() {
                    true => *value = number.into(),
                    false => set_all(value, names, number),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| set_all(item, names, number)),
        _ => {}
    }
}

/// No received counter is checked: all stay within their type as they count on and are summed.
#[test]
fn counters_end_at_the_largest_number() {
    let (mut stage, _) = all_kinds();
    let of_streams = [
        "bytes_received",
        "bytes_sent",
        "skips",
        "sent",
        "dropped",
        "late",
        "lost",
    ];
    let told = stage.hand_over();
    let told = told.but("stream", |_, it| set_all(it, &of_streams, u64::MAX));
    let told = told.but("viewer", |_, it| set_all(it, &["bytes_sent"], u64::MAX));
    let told = told.but("counts", |_, it| {
        let numbers = it[0]["numbers"].as_array().expect("numbers").len();
        it[0]["numbers"] = json!(vec![u64::MAX; numbers]);
        it[0]["turns"]["buckets"] = json!(vec![u64::MAX; 10]);
        it[0]["refusals"] = json!({"NotFound": u64::MAX});
    });
    stage.relay = told.taken_over(OPTIONS).expect("it fits");
    set_rtp(&mut stage);
    stage.settle();
    for number in [5, 5, 9, 5] {
        stage.arrive(CAMERA, &rtp(number));
    }
    stage.arrive(BARE_CAMERA, &packets(7));
    stage.wait_seconds(1);
    stage.client("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    stage.relay.counts().turn_took(std::time::Duration::ZERO);
    for path in ["/metrics", "/api/list-streams", "/api/list-viewers"] {
        let asks = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let call = stage.client(&asks);
        (0..8).for_each(|_| stage.settle());
        stage.assert_status(call, 200);
        let text = stage.text(call);
        assert!(text.contains(&u64::MAX.to_string()), "{path}: {text}");
    }
    let call = stage.client("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let text = stage.text(call);
    for name in [
        "received_bytes",
        "sent_bytes",
        "udp_sent_bytes",
        "datagrams_received",
    ] {
        let row = format!("tollgate_{name}_total {}\n", u64::MAX);
        assert!(text.contains(&row), "{row}: {text}");
    }
    let abort = "DELETE /api/abort-stream?sessionid=http HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let call = stage.client(abort);
    stage.assert_status(call, 200);
    stage.relay.check();
}
