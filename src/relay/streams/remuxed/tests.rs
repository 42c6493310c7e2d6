//! Shadows on the stage: what beginning one costs, that it loses nothing of what it begins behind,
//! that each has its buffer, and that who could have none is thought of again.
#![cfg(feature = "remux")]

use std::net::SocketAddr;
use std::time::Duration;

use super::{RemuxError, RemuxTarget};
use crate::format::Format;
use crate::relay::stage::Stage;
use crate::relay::streams::remux_target::GO_BYTES;
use crate::relay::{AHEAD_COST_MAX, Action, ConnectionId, Outgoing, StreamId, write_next};
use crate::remux::{Reader, ReaderEvent, Target};
use crate::stream::{End, Outcome};

const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
/// The cost of reading a byte and taking it, without its output.
const READ_COST: usize = 2;
const CLIENT: &str = "10.0.0.9:6000";
const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";

/// FLV: its head with what decoders need, a key frame's tag, and one of another frame.
fn tags() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (mut head, mut key, mut other) = (FILE[..13].to_vec(), Vec::new(), Vec::new());
    let mut rest = &FILE[13..];
    while rest.len() > 15 && other.is_empty() {
        let length = u32::from_be_bytes([0, rest[1], rest[2], rest[3]]) as usize + 15;
        let (tag, behind) = rest.split_at(length);
        match (tag[0], tag[11], tag[12]) {
            (18, ..) | (9, _, 0) | (8, _, 0) => head.extend_from_slice(tag),
            (9, 0x17, 1) => key = tag.to_vec(),
            (9, 0x27, 1) => other = tag.to_vec(),
            _ => {}
        }
        rest = behind;
    }
    (head, key, other)
}

/// A tag at this time, made longer by a unit that players leave out.
fn longer(tag: &[u8], milliseconds: u32, more: usize) -> Vec<u8> {
    let mut tag = tag[..tag.len() - 4].to_vec();
    tag.extend_from_slice(&(more as u32 + 1).to_be_bytes());
    tag.push(0x0c);
    tag.resize(tag.len() + more, 0xff);
    let length = (tag.len() as u32 - 11).to_be_bytes();
    tag[1..4].copy_from_slice(&length[1..]);
    tag[4..7].copy_from_slice(&milliseconds.to_be_bytes()[1..]);
    let whole = (tag.len() as u32).to_be_bytes();
    [tag, whole.to_vec()].concat()
}

/// A key frame and what hangs on it, from a time on, of so many bytes at least; and how many
/// pictures that are.
fn group(from: u32, bytes: usize) -> (Vec<u8>, usize) {
    let (_, key, other) = tags();
    let (mut group, mut pictures) = (longer(&key, from, 9), 1);
    while group.len() < bytes {
        group.extend(longer(&other, from + 40 * pictures, 3_000));
        pictures += 1;
    }
    (group, pictures as usize)
}

fn pictures(format: Format, media: &[u8]) -> usize {
    let mut reader = Reader::new(format, 1 << 20).expect("a reader");
    let mut count = 0;
    let mut hear = |heard: ReaderEvent<'_>| {
        count += usize::from(matches!(heard, ReaderEvent::Unit(_)));
        Ok(())
    };
    reader.feed(media, &mut hear).expect("no fault");
    reader.finish(&mut hear).expect("no fault");
    count
}

/// A source has sent this.
fn source(stage: &mut Stage, media: &[u8]) -> ConnectionId {
    let source = stage.client(PUT);
    stage.send_media(source, media);
    source
}

/// Frames of a byte become packets: a source has that done, and it is its work.
#[test]
fn what_comes_of_little_counts_by_how_much_it_is() {
    let mut stage = Stage::new(&[]);
    let (head, key, _) = tags();
    let source = source(&mut stage, &[&head[..], &longer(&key, 0, 9)].concat());
    let (viewer, _) = ask(&mut stage, 1, "live.ts");
    stage.settle();
    let frame = [0x17, 1, 0, 0, 0, 0, 0, 0, 1, 0x65];
    let tag = |number: u32| {
        let [_, a, b, c] = (number * 40).to_be_bytes();
        [
            &[9, 0, 0, 10, a, b, c, 0, 0, 0, 0][..],
            &frame,
            &[0, 0, 0, 21],
        ]
        .concat()
    };
    let media: Vec<u8> = (1..200).flat_map(tag).collect();
    let before = stage.written[&viewer].len();
    let cost = stage.send(source, &media);
    let made = stage.written[&viewer].len() - before;
    assert!(made > 8 * media.len(), "{made} of {}", media.len());
    assert!(cost > made, "{cost} for {made}");
    stage.lose(source);
}

/// Somebody asks, and nothing else is done for now. Says what that cost.
fn ask(stage: &mut Stage, port: u16, path: &str) -> (ConnectionId, usize) {
    let peer = SocketAddr::from(([10, 0, 0, 3], port));
    let id = stage.relay.accepted(peer, stage.now).expect("room");
    let request = format!("GET /stream/s/{path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let cost = stage.relay.received(id, request.as_bytes(), stage.now);
    stage.relay.check();
    (id, cost)
}

/// Whatever lies in the buffer, who asks costs no more than a turn's share, nor does any go after
/// it; and all of it comes.
#[test]
fn what_there_is_is_read_a_share_at_a_time() {
    let (head, ..) = tags();
    let (media, count) = group(0, 1_500_000);
    for (path, format) in [("live.ts", Format::MpegTs), ("live.mp4", Format::Mp4)] {
        let mut stage = Stage::new(&["--buffer=2M"]);
        let source = source(&mut stage, &[&head[..], &media].concat());
        let (viewer, cost) = ask(&mut stage, 1, path);
        assert!(
            (READ_COST * GO_BYTES..AHEAD_COST_MAX).contains(&cost),
            "{cost} for the first"
        );
        let (mut goes, mut all) = (0, cost);
        while stage.relay.has_ahead() {
            // Nobody is given more than can be kept for who is being written to.
            while let Some(cost) = stage.relay.read_ahead(stage.now) {
                // What has been gathered for a fragment comes at once.
                let most = AHEAD_COST_MAX + GO_BYTES;
                assert!(cost < most, "{cost} for a go");
                stage.relay.check();
                (goes, all) = (goes + 1, all + cost);
            }
            while stage.write_next() {}
        }
        assert!(goes >= media.len() / GO_BYTES && all >= READ_COST * media.len());
        stage.settle();
        stage.lose(source);
        let (got, _) = stage.media(viewer);
        assert_eq!(pictures(format, &got), count, "{path}");
        stage.assert_nothing_left();
    }
}

/// Each byte of a source costs it what is done with it for shadows, too.
#[test]
fn what_is_made_of_it_is_a_sources_work() {
    let (head, ..) = tags();
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &[&head[..], &group(0, 9_000).0].concat());
    let media = group(9_000, 90_000).0;
    let cost = |stage: &mut Stage| stage.send(source, &media);
    let alone = cost(&mut stage);
    for (port, path) in [(1, "live.ts"), (2, "live.mp4")] {
        ask(&mut stage, port, path);
        stage.settle();
    }
    // And what comes of it, which is as much again and a little.
    let made = 2 * (READ_COST + 1) * media.len();
    let all = cost(&mut stage) - alone;
    assert!((made..made + made / 4).contains(&all), "{all} of {made}");
}

/// It begins at the oldest byte that is kept, the next ones overwrite that, and nobody reads on
/// between: nothing is lost all the same.
#[test]
fn what_is_yet_to_be_read_is_not_overwritten() {
    let (head, ..) = tags();
    for pieces in [1_400, 30_000, 100_000] {
        let mut stage = Stage::new(&["--buffer=1M", "--buffers=4M"]);
        let first = [&head[..], &group(0, 64 * 1024 - head.len()).0].concat();
        let (second, mut count) = group(60_000, 15 * 64 * 1024 - 9_000);
        let source = source(&mut stage, &[first, second].concat());
        let (viewer, _) = ask(&mut stage, 1, "live.ts");
        let (third, more) = group(120_000, 700_000);
        for piece in third.chunks(pieces) {
            stage.relay.received(source, piece, stage.now);
            stage.relay.check();
            while stage.write_next() {}
        }
        stage.settle();
        stage.lose(source);
        count += more;
        let (got, _) = stage.media(viewer);
        assert_eq!(pictures(Format::MpegTs, &got), count, "by {pieces}");
        stage.assert_nothing_left();
    }
}

/// Its original ends, or is cut off, while it has yet to catch up.
#[test]
fn a_stream_may_end_before_its_shadow_has_caught_up() {
    let (head, ..) = tags();
    let (media, count) = group(0, 900_000);
    let media = [&head[..], &media].concat();
    for is_aborted in [false, true] {
        let mut stage = Stage::new(&["--token-server=10.0.0.1"]);
        stage.client(
            "POST /api/add-token?type=http&sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n",
        );
        let put = format!(
            "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            media.len()
        );
        let source = stage.client(&put);
        stage.send_media(source, &media[..media.len() - 1]);
        let (viewer, _) = ask(&mut stage, 1, "live.ts");
        let (list, _) = ask(&mut stage, 2, "index.m3u8");
        if is_aborted {
            let abort = "DELETE /api/abort-stream?sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stage.client(abort);
        } else {
            stage
                .relay
                .received(source, &media[media.len() - 1..], stage.now);
            stage.relay.check();
        }
        stage.settle();
        let (got, is_whole) = stage.media(viewer);
        assert_eq!(is_whole, !is_aborted);
        assert!(is_aborted || pictures(Format::MpegTs, &got) == count);
        stage.lose(list);
        stage.wait_seconds(60);
        stage.assert_nothing_left();
    }
}

/// Bytes of all blocks, and what is kept for more.
fn pool_bytes(stage: &Stage) -> usize {
    let streams = stage.relay.streams.streams.iter();
    streams.map(|(_, stream)| stream.buffer.pool_bytes()).sum()
}

/// Two that begin at once are two, and half of what there is.
#[test]
fn each_shadow_has_its_buffer_from_its_beginning_on() {
    let media = [&tags().0[..], &group(0, 9_000).0].concat();
    let mut stage = Stage::new(&["--buffer=1M", "--buffers=4M"]);
    source(&mut stage, &media);
    let before = pool_bytes(&stage);
    assert!(before < 450_000);
    for (port, path, status) in [(1, "live.ts", 200), (2, "live.mp4", 200)] {
        let (id, _) = ask(&mut stage, port, path);
        stage.settle();
        stage.assert_status(id, status);
    }
    assert_eq!(pool_bytes(&stage), before + (2 << 20));
    let mut other = stage.client(&PUT.replace("/s ", "/t "));
    stage.send_media(other, &media);
    let refused = stage.client("GET /stream/t/live.ts HTTP/1.1\r\nHost: h\r\n\r\n");
    stage.assert_status(refused, 503);
    // Streams have what is left, and no more.
    stage.send_media(other, &group(9_000, 3_000_000).0);
    assert!(pool_bytes(&stage) <= 4 << 20);
    stage.lose(other);
    other = stage.client(&PUT.replace("/s ", "/t "));
    stage.send_media(other, &media);
    assert!(pool_bytes(&stage) <= 4 << 20);
}

/// The viewers of an ended stream take nothing, without a time limit. They make
/// room for their own session, and for others only where their session has more than its share.
#[test]
fn what_is_left_of_a_session_makes_room_for_itself_and_for_those_with_less() {
    let media = [&tags().0[..], &group(0, 9_000).0].concat();
    for (session, ended, buffers, statuses) in [
        ("t", 1, "--buffers=2M", [503, 503]),
        ("s", 1, "--buffers=2M", [503, 200]),
        ("t", 2, "--buffers=4M", [503, 200]),
    ] {
        let mut stage = Stage::new(&["--buffer=1M", buffers]);
        let mut slow = Vec::new();
        for port in 0..ended {
            let first = source(&mut stage, &media);
            let (viewer, _) = ask(&mut stage, 1 + port, "live.ts");
            stage.settle();
            stage.assert_status(viewer, 200);
            stage
                .relay
                .received(first, &group(9_000, 60_000).0, stage.now);
            while write_next(&mut stage.relay, stage.now, |_, _| Outgoing::Part(0)).is_some() {}
            stage.lose(first);
            slow.push(viewer);
        }
        assert_eq!(stage.relay.streams.shadows().count(), slow.len());
        let other = stage.client(&PUT.replace("/s ", &format!("/{session} ")));
        stage.send_media(other, &media);
        for status in statuses {
            let request = format!("GET /stream/{session}/live.ts HTTP/1.1\r\nHost: h\r\n\r\n");
            let id = stage.client(&request);
            stage.assert_status(id, status);
        }
        let is_cut = stage.closed.contains(&slow[0]);
        assert_eq!(is_cut, statuses == [503, 200], "{session} {ended}");
    }
}

/// UDP clients of a stream that came when there was no room get it when there is.
#[test]
fn udp_clients_are_thought_of_again() {
    let media = [&tags().0[..], &group(0, 9_000).0].concat();
    let options = ["--token-server=10.0.0.1", "--buffer=1M", "--buffers=2M"];
    let mut stage = Stage::new(&options);
    stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
    let calls = [
        "http&sessionid=s".to_owned(),
        format!("http,rtp-udp&sessionid=t&udp-clients={CLIENT}"),
    ];
    for query in calls {
        stage.client(&format!(
            "POST /api/add-token?type={query} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
    }
    let faults = |stage: &Stage| -> Vec<String> {
        let streams = stage.relay.streams.streams.iter();
        let faults = streams.filter_map(|(_, stream)| stream.rtp_fault(&stage.relay.ctx));
        faults.map(str::to_owned).collect()
    };
    source(&mut stage, &media);
    let (first, _) = ask(&mut stage, 1, "live.ts");
    stage.settle();
    let other = stage.client(&PUT.replace("/s ", "/t "));
    stage.send_media(other, &media);
    stage.wait_seconds(6);
    assert_eq!(faults(&stage).len(), 1);
    assert!(faults(&stage)[0].contains("takes one more --buffer"));
    stage.lose(first);
    assert_eq!(stage.relay.streams.shadows().count(), 0);
    stage.send_media(other, &group(9_000, 9_000).0);
    stage.wait_seconds(6);
    assert_eq!(faults(&stage), [""; 0]);
    assert_eq!(stage.relay.streams.shadows().count(), 1);
    stage.send_media(other, &group(18_000, 90_000).0);
    stage.wait(Duration::from_secs(1));
    let to: SocketAddr = CLIENT.parse().expect("an address");
    let datagrams = stage.relay.next_datagrams(stage.now, &[]);
    assert!(datagrams.is_some_and(|datagrams| datagrams.to == [to]));
}

/// Their shadow is one of the stream, and no shadow has another.
#[test]
fn a_shadow_has_no_shadow() {
    let mut stage = Stage::new(&["--token-server=10.0.0.1"]);
    stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
    stage.client(&format!(
        "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients={CLIENT} HTTP/1.1\r\n\
         Host: localhost\r\n\r\n"
    ));
    let (head, ..) = tags();
    let source = source(&mut stage, &head);
    ask(&mut stage, 1, "live.mp4");
    stage.settle();
    stage.send_media(source, &group(0, 90_000).0);
    assert_eq!(stage.relay.streams.shadows().count(), 2);
    stage.lose(source);
}

/// Who asks for a head alone is told what a playlist is; nothing is made for it.
#[cfg(feature = "hls")]
#[test]
fn the_head_of_a_playlist_makes_nothing() {
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &[&tags().0[..], &group(0, 9_000).0].concat());
    let head = stage.client("HEAD /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
    stage.assert_status(head, 200);
    let text = stage.text(head);
    assert!(text.contains("Content-Type: application/vnd.apple.mpegurl\r\n"));
    assert!(text.contains("Cache-Control: no-store\r\n") && !text.contains("Content-Length"));
    assert!(text.ends_with("\r\n\r\n"));
    assert_eq!(stage.relay.streams.shadows().count(), 0);
    stage.lose(source);
    stage.wait_seconds(60);
    stage.assert_nothing_left();
}

/// Whoever may not watch any more loses it in whichever container.
#[test]
fn no_rule_is_skipped_by_who_is_inside() {
    let (head, ..) = tags();
    let media = [&head[..], &group(0, 9_000).0].concat();
    for ends in ["abort", "time", "kick", "max-viewers"] {
        let mut stage = Stage::new(&["--token-server=10.0.0.1"]);
        let terms = match ends {
            "time" => "&ends=5",
            "max-viewers" => "&max-viewers=1",
            _ => "",
        };
        let call = |stage: &mut Stage, line: &str| {
            let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            stage.settle();
            stage.text(id)
        };
        let added = call(
            &mut stage,
            &format!("POST /api/add-token?type=http&sessionid=s{terms}"),
        );
        assert!(added.starts_with("HTTP/1.1 201"), "{added}");
        source(&mut stage, &media);
        let (viewer, _) = ask(&mut stage, 1, "live.ts");
        stage.settle();
        stage.assert_status(viewer, 200);
        match ends {
            "abort" => {
                call(
                    &mut stage,
                    "DELETE /api/revoke-token?sessionid=s&abort=true",
                );
            }
            "time" => stage.wait_seconds(6),
            "kick" => {
                let list = call(&mut stage, "GET /api/list-viewers");
                let id = list
                    .split("\"id\":\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                let id = id.unwrap_or_else(|| panic!("{list}"));
                call(&mut stage, &format!("DELETE /api/kick-viewer?id={id}"));
            }
            _ => {
                let (other, _) = ask(&mut stage, 2, "live.mp4");
                stage.settle();
                assert!(!stage.text(other).starts_with("HTTP/1.1 200"));
                continue;
            }
        }
        stage.settle();
        assert!(
            stage.closed.contains(&viewer),
            "{ends}: {}",
            stage.relay.streams.len()
        );
        assert_eq!(stage.relay.streams.shadows().count(), 0, "{ends}");
    }
}

fn target(format: Format) -> Target {
    let mut targets = Target::ALL.into_iter();
    let target = targets.find(|target| target.format() == format);
    target.expect("there is this one")
}

fn original(stage: &Stage) -> StreamId {
    let streams = &stage.relay.streams;
    let mut streams = streams.streams.iter();
    let (id, _) = streams
        .find(|(_, stream)| stream.shadow.is_none())
        .expect("one");
    id
}

fn head(stage: &mut Stage, path: &str) -> ConnectionId {
    stage.client(&format!("HEAD /stream/{path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

fn known() -> Vec<u8> {
    [&tags().0[..], &group(0, 9_000).0].concat()
}

/// It may be anything: who wants it otherwise waits as long as a source may be silent, and who
/// wants a head alone does not.
#[test]
fn who_wants_a_stream_otherwise_waits_until_it_is_known() {
    for shows in [false, true] {
        let mut stage = Stage::new(&["--source-idle-time=7", "--wait=3", "--body-rate=0"]);
        let source = source(&mut stage, &FILE[..1]);
        let (waits, _) = ask(&mut stage, 1, "live.ts");
        stage.settle();
        assert_eq!(stage.text(waits), "");
        let told = head(&mut stage, "s/live.ts");
        stage.assert_status(told, 503);
        // A byte now and then: it is not silent.
        for byte in &FILE[1..3] {
            stage.wait_seconds(3);
            stage.send_media(source, &[*byte]);
            assert_eq!(stage.text(waits), "");
        }
        if shows {
            stage.send_media(source, &known()[3..]);
            stage.assert_status(waits, 200);
        } else {
            stage.wait_seconds(2);
            stage.assert_status(waits, 503);
        }
        stage.lose(source);
    }
}

/// What each source may be had as, and what is said where it may not.
#[test]
fn what_a_stream_may_be_had_as_is_told_to_who_asks_for_the_head_alone() {
    let mp3 = include_bytes!("../../../../tests/media/sound.mp3");
    let ts_output = include_bytes!("../../../../tests/media/h264.ts");
    let own = known();
    for (media, path, status, says) in [
        (&own[..], "live.ts", 200, "Content-Type: video/mp2t\r\n"),
        (&own, "live.mp4", 200, "Content-Type: video/mp4\r\n"),
        (
            &ts_output[..],
            "live.ts",
            200,
            "Content-Type: video/mp2t\r\n",
        ),
        (
            &ts_output[..],
            "live.mp4",
            200,
            "Content-Type: video/mp4\r\n",
        ),
        (&mp3[..], "live.ts", 406, ""),
        (&[7; 20_000], "live.ts", 406, ""),
    ] {
        let mut stage = Stage::new(&[]);
        source(&mut stage, media);
        let of_head = head(&mut stage, &format!("s/{path}"));
        stage.assert_status(of_head, status);
        let text = stage.text(of_head);
        assert!(text.contains(says), "{text}");
        assert_eq!(stage.relay.streams.shadows().count(), 0, "nothing is made");
        let (viewer, _) = ask(&mut stage, 1, path);
        stage.settle();
        stage.assert_status(viewer, status);
        if status == 200 {
            assert!(stage.text(viewer).contains(says), "{path}");
            let is_own = media.len() == ts_output.len() && path == "live.ts";
            let shadows = stage.relay.streams.shadows().count();
            assert_eq!(shadows, usize::from(!is_own), "{path}");
        }
    }
}

/// One shadow's fault is not another's, and who asks again is told of it.
#[test]
fn a_shadow_that_fails_ends_alone() {
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &known());
    let [(first, _), (second, _)] =
        [(1, "live.ts"), (2, "live.mp4")].map(|(port, path)| ask(&mut stage, port, path));
    let plain = stage.viewer("s");
    stage.settle();
    let streams = &mut stage.relay.streams;
    let is_transport = |id: &StreamId| {
        let stream = streams
            .streams
            .get(*id)
            .and_then(|stream| stream.shadow.as_ref());
        stream.is_some_and(|shadow| shadow.target.format() == Format::MpegTs)
    };
    let shadow = streams.shadows().map(|(id, _)| id).find(is_transport);
    let shadow = shadow.expect("both are made");
    streams.let_shadow_go(shadow, "a unit is too long", &mut stage.relay.ctx);
    stage.settle();
    let mut lines = Vec::new();
    stage.send_media(source, &group(9_000, 9_000).0);
    stage.wait_seconds(3);
    assert!(stage.closed.contains(&first) && !stage.media(first).1);
    assert!(!stage.closed.contains(&second) && !stage.closed.contains(&plain));
    for (port, path, status) in [(3, "live.ts", 406), (4, "live.mp4", 200)] {
        let (id, _) = ask(&mut stage, port, path);
        while let Some(action) = stage.relay.next_action() {
            if let Action::Log(line) = action {
                lines.push(line);
            }
        }
        stage.settle();
        stage.assert_status(id, status);
        assert_eq!(stage.text(id).contains("a unit is too long"), status == 406);
    }
    // Another source of the stream may be had otherwise.
    let id = original(&stage);
    stage.relay.streams.forgive(id);
    let (id, _) = ask(&mut stage, 5, "live.ts");
    stage.settle();
    stage.assert_status(id, 200);
    stage.lose(source);
}

/// What is known of shadows that are no more is gone with the source; of those that run, the fault.
#[test]
fn another_source_is_forgiven_what_the_one_before_could_not_be_made() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &known());
    let id = original(&stage);
    let stream = stage
        .relay
        .streams
        .streams
        .get_mut(id)
        .expect("it is there");
    let cast = |target, stream| RemuxTarget {
        target,
        stream,
        fault: Some("a fault".into()),
    };
    stream.casts.push(cast(Target::ALL[0], None));
    stream.casts.push(cast(Target::ALL[1], Some(id)));
    stage.relay.streams.forgive(id);
    let stream = stage
        .relay
        .streams
        .streams
        .get_mut(id)
        .expect("it is there");
    let left: Vec<_> = stream
        .casts
        .iter()
        .map(|it| (it.stream, it.fault.is_some()))
        .collect();
    assert_eq!(left, [(Some(id), false)]);
    stream.casts.clear();
}

/// There may be no more: each has its buffer, and half of all buffers is for streams as they are.
#[test]
fn there_are_as_many_shadows_as_have_room() {
    // Streams have taken what shadows may not have.
    let mut stage = Stage::new(&["--buffer=1M", "--buffers=4M"]);
    for name in ["a", "b", "c"] {
        let other = stage.client(&PUT.replace("/s ", &format!("/{name} ")));
        stage.send_media(other, &vec![7; 1 << 20]);
    }
    source(&mut stage, &known());
    assert!(stage.relay.streams.pool.bytes_left < 1 << 20);
    for method in ["HEAD", "GET"] {
        let id = stage.client(&format!(
            "{method} /stream/s/live.ts HTTP/1.1\r\nHost: h\r\n\r\n"
        ));
        stage.assert_status(id, 503);
    }
    assert_eq!(stage.relay.streams.shadows().count(), 0);
    // Others have all that there may be, though there are bytes enough; what a stream was made into
    // before is one more, too.
    let mut stage = Stage::new(&["--buffer=1M", "--buffers=4M"]);
    source(&mut stage, &known());
    let (before, _) = ask(&mut stage, 1, "live.ts");
    stage.settle();
    stage.lose(before);
    assert_eq!(stage.relay.streams.shadows().count(), 0);
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let again = head(&mut stage, "s/live.ts");
        stage.assert_status(again, 200);
        let other = stage.client(&PUT.replace("/s ", &format!("/{name} ")));
        stage.send_media(other, &known());
        let made = stage.viewer(&format!("{name}/live.ts"));
        stage.assert_status(made, 200);
        assert_eq!(stage.relay.streams.shadows().count(), number + 1);
    }
    assert!(stage.relay.streams.pool.bytes_left >= 1 << 20);
    for method in ["HEAD", "GET"] {
        let id = stage.client(&format!(
            "{method} /stream/s/live.ts HTTP/1.1\r\nHost: h\r\n\r\n"
        ));
        stage.assert_status(id, 503);
        let says = stage.text(id).contains("one more --buffer");
        assert_eq!(says, method == "GET", "{}", stage.text(id));
    }
}

/// A stream has segments as it is, or as what its format is played as; no shadow beside has any.
#[cfg(feature = "hls")]
#[test]
fn the_segments_of_a_session_are_one_streams() {
    let ts_output = include_bytes!("../../../../tests/media/h264.ts");
    let matroska = include_bytes!("../../../../tests/media/h264.mkv");
    let own = known();
    for (media, played) in [
        (&own[..], Some(Format::MpegTs)),
        (&ts_output[..], None),
        (&matroska[..], Some(Format::Mp4)),
    ] {
        let mut stage = Stage::new(&[]);
        source(&mut stage, media);
        for (port, path) in [(1, "live.ts"), (2, "live.mp4")] {
            ask(&mut stage, port, path);
            stage.settle();
        }
        let id = original(&stage);
        let streams = &mut stage.relay.streams;
        assert!(streams.is_played(id), "its own, if it has any");
        let shadows: Vec<_> = streams.shadows().map(|(id, _)| id).collect();
        for shadow in &shadows {
            let stream = streams
                .streams
                .get(*shadow)
                .and_then(|it| it.shadow.as_ref());
            let format = stream.map(|shadow| shadow.target.format());
            assert_eq!(streams.is_played(*shadow), format == played, "{format:?}");
            assert_eq!(streams.reached(*shadow).is_some(), format == played);
        }
        let playable = streams.playable(id, false, &mut stage.relay.ctx);
        let playable = playable.ok().flatten().expect("it has segments");
        let is_own = played.is_none();
        assert_eq!(
            (playable == id, shadows.contains(&playable)),
            (is_own, !is_own)
        );
    }
}

/// Whoever is sent a stream in datagrams is sent MPEG-TS: it as it is, or its shadow, which is made
/// for those who want it.
#[test]
fn what_goes_out_in_datagrams_is_mpeg_ts() {
    let ts_output = include_bytes!("../../../../tests/media/h264.ts");
    let mp3 = include_bytes!("../../../../tests/media/sound.mp3");
    let own = known();
    for (options, media, is_made) in [
        (&["--remux=on"][..], &own[..], true),
        (&["--remux=off"], &own, false),
        (&["--remux=on"], ts_output, false),
        (&["--remux=on"], mp3, false),
        (&["--remux=on"], &own[..2], false),
        (&["--remux=on"], &[7; 20_000], false),
    ] {
        let mut stage = Stage::new(options);
        source(&mut stage, media);
        if is_made {
            // It in another container is none of that.
            ask(&mut stage, 1, "live.mp4");
            stage.settle();
        }
        let id = original(&stage);
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        assert_eq!(streams.sendable(id, false, ctx), id, "nobody wants it");
        let sent = streams.sendable(id, true, ctx);
        assert_eq!(sent != id, is_made, "{options:?} {}", media.len());
        let of = streams.streams.get(sent).and_then(|it| it.shadow.as_ref());
        let format = of.map(|shadow| shadow.target.format());
        assert_eq!(format, is_made.then_some(Format::MpegTs));
        for is_wanted in [true, false] {
            assert_eq!(streams.sendable(id, is_wanted, ctx), sent, "it is there");
        }
    }
}

/// Nothing is made any more of what has ended.
#[test]
fn what_has_ended_is_not_made_for_datagrams() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &known());
    let id = original(&stage);
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    let stream = streams.streams.get_mut(id).expect("it is there");
    stream.buffer.finish(End::Complete);
    assert_eq!(streams.sendable(id, true, ctx), id);
    assert_eq!(streams.shadows().count(), 0);
}

/// Its header is fed to a shadow first, however long that is, and is work like all else.
#[test]
fn a_long_header_costs_who_asks_as_much_as_what_follows() {
    let (head, ..) = tags();
    // A tag of what is said of the file, which nobody reads.
    let about = |bytes: usize| {
        let length = (bytes as u32).to_be_bytes();
        let whole = (bytes as u32 + 11).to_be_bytes();
        let tag = [&[18], &length[1..], &[0; 7], b"\x02\0\x0aonMetaData"].concat();
        [&tag[..], &vec![0; bytes - 13], &whole].concat()
    };
    let cost = |bytes: usize| {
        let mut stage = Stage::new(&[]);
        let media = [&head[..], &about(bytes), &group(0, 9_000).0].concat();
        source(&mut stage, &media);
        let (viewer, cost) = ask(&mut stage, 1, "live.ts");
        stage.settle();
        stage.assert_status(viewer, 200);
        cost
    };
    let (short, long) = (cost(100), cost(30_100));
    assert_eq!(long - short, 30_000);
}

/// What is read at once is a part of what can be kept: of the beginning, and of all that follows.
#[test]
fn a_small_buffer_is_read_in_small_shares() {
    let (head, ..) = tags();
    let (media, count) = group(0, 220_000);
    let mut stage = Stage::new(&["--buffer=256K", "--buffers=8M"]);
    let source = source(&mut stage, &[&head[..], &media].concat());
    let (viewer, first) = ask(&mut stage, 1, "live.ts");
    // Little comes of it: what players leave out is left out.
    let share = READ_COST * 32 * 1024;
    let may = share..share + share / 2;
    assert!(may.contains(&first), "{first} for the first of {share}");
    let mut costs = Vec::new();
    while stage.relay.has_ahead() {
        while let Some(cost) = stage.relay.read_ahead(stage.now) {
            costs.push(cost);
        }
        while stage.write_next() {}
    }
    assert!(costs.len() > 4 && costs.len() < 16, "{costs:?}");
    assert!(costs.iter().all(|cost| *cost < 2 * share), "{costs:?}");
    stage.settle();
    stage.lose(source);
    let (got, _) = stage.media(viewer);
    assert_eq!(pictures(Format::MpegTs, &got), count);
}

/// A byte may become four: so much less is read at once, and a third of that while it is behind.
#[test]
fn of_a_source_that_has_a_shadow_less_is_read_at_once() {
    let mut stage = Stage::new(&["--buffer=256K", "--buffers=8M"]);
    let source = source(&mut stage, &[&tags().0[..], &group(0, 150_000).0].concat());
    let alone = stage.relay.appetite(source);
    assert!(alone > 100_000, "{alone}");
    let about = |bytes: usize, of: usize| (alone / of..alone * 5 / 4 / of).contains(&bytes);
    ask(&mut stage, 1, "live.ts");
    while stage.write_next() {}
    let behind = stage.relay.appetite(source);
    stage.settle();
    let beside = stage.relay.appetite(source);
    assert!(
        about(behind, 12) && about(beside, 4),
        "{behind} {beside} {alone}"
    );
}

/// What cannot be read has no shadow, nor a fault that would last.
#[test]
fn of_what_nobody_knows_nothing_is_made() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &FILE[..2]);
    let id = original(&stage);
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    for _ in 0..2 {
        let made = streams.cast(id, target(Format::MpegTs), ctx);
        assert!(matches!(made, Err(RemuxError::NotYet)));
    }
    let stream = streams.streams.get(id).expect("it is there");
    assert!(stream.casts.is_empty());
}

/// Whatever it goes out as, it came through somebody.
#[cfg(feature = "hls")]
#[test]
fn what_is_made_of_an_origins_stream_says_whence_it_came() {
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &known());
    let id = original(&stage);
    let pull = crate::relay::PullId::from_u64(1);
    stage
        .relay
        .streams
        .is_fetched(id, pull, "1.1 here".to_owned());
    for (method, path) in [
        ("HEAD", "s"),
        ("HEAD", "s/live.ts"),
        ("HEAD", "s/index.m3u8"),
        ("GET", "s"),
        ("GET", "s/live.ts"),
        ("HEAD", "s/live.ts"),
    ] {
        let line = format!("{method} /stream/{path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let id = stage.client(&line);
        stage.assert_status(id, 200);
        let text = stage.text(id);
        assert!(
            text.contains("\r\nVia: 1.1 here\r\n"),
            "{method} {path}: {text}"
        );
        stage.lose(id);
    }
    let stream = stage
        .relay
        .streams
        .streams
        .get_mut(id)
        .expect("it is there");
    stream.pull = None;
    stage.lose(source);
}

/// Viewers of it in either container fall out of its buffer, and each counts.
#[test]
fn skips_are_counted_in_all_containers() {
    let mut stage = Stage::new(&["--buffer=256K", "--buffers=8M"]);
    let source = source(&mut stage, &known());
    let paths = ["s", "s/live.ts", "s/live.ts", "s/live.ts"];
    let slow = paths.map(|path| stage.viewer(path));
    stage.settle();
    for id in slow {
        let now = stage.now;
        stage.relay.served(id, Outcome::Blocked, now);
    }
    for number in 1..9 {
        stage.send_media(source, &group(number * 9_000, 90_000).0);
    }
    slow.into_iter().for_each(|id| stage.relay.unblocked(id));
    stage.settle();
    let streams = &stage.relay.streams;
    let table = streams.streams.iter();
    let skips: Vec<u64> = table
        .map(|(_, stream)| stream.buffer.figures().skips)
        .collect();
    let [own, other] = skips[..] else {
        panic!("{skips:?}");
    };
    assert!(own > 0 && other > 1, "{skips:?}");
    let mut rows = streams.rows((0, 0), &stage.relay.ctx);
    let (_, row) = rows.next().expect("a row");
    let row = serde_json::to_value(&row).expect("a row");
    assert_eq!(row["skips"], own + other);
    drop(rows);
    stage.lose(source);
}

/// Whoever is early is answered when the tracks are known, however the header comes.
#[test]
fn a_viewer_who_is_early_is_refused_once_nothing_is_known_to_be_carried() {
    let webm = include_bytes!("../../../../tests/media/vp8.webm");
    let mpeg2 = include_bytes!("../../../../tests/media/mpeg2.ts");
    for (media, path) in [(&webm[..], "live.ts"), (&mpeg2[..], "live.mp4")] {
        for piece in [media.len(), 4_000, 188, 50] {
            let mut stage = Stage::new(&["--wait=10"]);
            let (viewer, _) = ask(&mut stage, 1, path);
            let source = stage.client(PUT);
            for piece in media.chunks(piece) {
                stage.send_media(source, piece);
                stage.settle();
            }
            stage.assert_status(viewer, 406);
            stage.lose(source);
            stage.assert_nothing_left();
        }
    }
}

/// The source ends before a track is known.
#[test]
fn a_viewer_of_whom_nothing_came_is_refused_at_the_end() {
    let mut stage = Stage::new(&["--wait=10"]);
    let (viewer, _) = ask(&mut stage, 1, "live.mp4");
    let source = source(&mut stage, &FILE[..20]);
    assert_eq!(stage.text(viewer), "");
    stage.lose(source);
    stage.settle();
    stage.assert_status(viewer, 406);
    stage.assert_nothing_left();
}

#[test]
fn hls_of_positions_in_the_file_is_refused_at_once() {
    let mut media = include_bytes!("../../../../tests/media/h264.mp4").to_vec();
    let places = media.windows(4).enumerate();
    let heads = places.filter(|(_, kind)| *kind == b"tfhd");
    let flags: Vec<usize> = heads.map(|(place, _)| place + 5).collect();
    for place in flags {
        media[place..place + 3].copy_from_slice(&[0, 0, 0x11]);
    }
    let mut stage = Stage::new(&["--wait=10"]);
    let (list, _) = ask(&mut stage, 1, "index.m3u8");
    let source = stage.client(PUT);
    for piece in media.chunks(1000) {
        stage.send_media(source, piece);
        stage.settle();
    }
    stage.assert_status(list, 406);
    assert!(stage.text(list).contains("from the file's first byte"));
    stage.lose(source);
}

/// FLV has no setup of MP3: the first frame tells, and comes behind the first pictures.
#[test]
fn mp3_in_flv_is_in_the_first_segment_and_settles_no_length() {
    let (head, key, other) = tags();
    // The file's head, and the tag that sets up H.264.
    let mut media = head[..13].to_vec();
    let mut rest = &head[13..];
    while let Some([kind, a, b, c]) = rest.first_chunk::<4>() {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize + 15;
        if *kind == 9 {
            media.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
    }
    let mp3 = |milliseconds: u32| {
        let frame = [&[0xff, 0xfb, 0x90, 0][..], &[0; 413]].concat();
        let [_, t0, t1, t2] = milliseconds.to_be_bytes();
        let tag = [8, 0, 1, 0xa2, t0, t1, t2, 0, 0, 0, 0, 0x2f];
        [&tag[..], &frame, &[0, 0, 1, 0xad]].concat()
    };
    let mut frames = 0;
    for picture in 0..500 {
        let now = picture * 40;
        let tag = if picture % 50 == 0 { &key } else { &other };
        media.extend(longer(tag, now, 9));
        while frames * 26_122 / 1000 < now {
            media.extend(mp3(frames * 26_122 / 1000));
            frames += 1;
        }
    }
    let mut stage = Stage::new(&["--wait=10"]);
    let (early, _) = ask(&mut stage, 1, "index.m3u8");
    let source = stage.client(PUT);
    for piece in media.chunks(3000) {
        stage.send_media(source, piece);
        stage.settle();
    }
    let (late, _) = ask(&mut stage, 2, "index.m3u8");
    stage.settle();
    for list in [early, late] {
        let text = stage.text(list);
        assert!(text.contains("#EXT-X-TARGETDURATION:2\n"), "{text}");
        assert!(!text.contains("#EXT-X-DISCONTINUITY\n"), "{text}");
        let durations = text
            .lines()
            .filter_map(|line| line.strip_prefix("#EXTINF:"));
        let durations: Vec<&str> = durations.collect();
        assert!(durations.len() >= 3);
        assert!(
            durations.iter().all(|lasts| lasts.starts_with("2.000")),
            "{text}"
        );
    }
    stage.lose(source);
}
