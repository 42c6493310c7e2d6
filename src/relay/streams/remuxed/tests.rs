//! Remuxed streams in a simulated server: what they cost, that they lose no byte of their original,
//! that each has a buffer, and that a missing one is tried again.
#![cfg(feature = "remux")]

use std::net::SocketAddr;
use std::time::Duration;

use super::{RemuxError, RemuxTarget};
use crate::format::Format;
use crate::relay::stage::Stage;
use crate::relay::streams::Stream;
use crate::relay::streams::remux_target::STEP_BYTES;
use crate::relay::{Action, ConnectionId, Outgoing, PIPELINED_COST_MAX, StreamId, write_next};
use crate::remux::{Reader, ReaderEvent, Target};
use crate::stream::{End, Outcome};

const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
/// The cost of reading a byte and remuxing it, without the output.
const READ_COST: usize = 2;
const CLIENT: &str = "10.0.0.9:6000";
const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";

/// Returns FLV: its head with the decoder setup, the tag of a key frame, and that of another frame.
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

/// Returns a tag with this time. A unit that players ignore makes it longer.
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

/// Returns a group of pictures from this time on, with at least this many bytes, and how many
/// pictures it has.
fn group(from: u32, bytes: usize) -> (Vec<u8>, usize) {
    let (_, key, other) = tags();
    let (mut group, mut pictures) = (longer(&key, from, 9), 1);
    while group.len() < bytes {
        group.extend(longer(&other, from + 40 * pictures, 3_000));
        pictures += 1;
    }
    (group, pictures as usize)
}

/// Returns the head of a file of pictures alone: nothing waits for sound.
fn silent_head() -> Vec<u8> {
    let (head, ..) = tags();
    let (mut silent, mut rest) = (head[..13].to_vec(), &head[13..]);
    silent[4] = 1;
    while rest.len() > 15 {
        let length = u32::from_be_bytes([0, rest[1], rest[2], rest[3]]) as usize + 15;
        let (tag, behind) = rest.split_at(length);
        if tag[0] == 9 {
            silent.extend_from_slice(tag);
        }
        rest = behind;
    }
    silent
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

/// Returns what becomes of FLV in this container.
#[cfg(feature = "handover")]
fn remuxed(flv: &[u8], format: Format) -> Vec<u8> {
    let remuxer = crate::remux::Remuxer::new(Format::Flv, target(format), 1 << 20);
    let (mut remuxer, mut out) = (remuxer.expect("it is read"), Vec::new());
    let fed = remuxer.feed(flv, &mut (1 << 30), &mut out);
    fed.and_then(|()| remuxer.finish(&mut out))
        .expect("no fault");
    out
}

/// Begins a source that has sent this.
fn source(stage: &mut Stage, media: &[u8]) -> ConnectionId {
    let source = stage.client(PUT);
    stage.send_media(source, media);
    source
}

/// Frames of one byte become whole packets. The cost of that is the source's.
#[test]
fn large_output_of_few_bytes_counts_as_cost() {
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

/// Counters do not fall when a remuxed stream ends: its original has them, too.
#[test]
fn what_an_ended_remuxed_stream_sent_still_counts() {
    let mut stage = Stage::new(&[]);
    let (_, key, other) = tags();
    let source = source(&mut stage, &[silent_head(), longer(&key, 0, 9)].concat());
    let (viewer, _) = ask(&mut stage, 1, "live.ts");
    stage.settle();
    for picture in 1..9 {
        stage.send_media(source, &longer(&other, 40 * picture, 900));
    }
    let bytes_sent = |stage: &Stage| {
        let mut rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
        let (_, row) = rows.next().expect("a stream");
        row.figures()
            .map(|(_, of_stream)| of_stream.figures.bytes_sent)
    };
    let sent = bytes_sent(&stage);
    assert!(sent > Some(8 * 900), "{sent:?}");
    stage.lose(viewer);
    stage.wait_seconds(10);
    assert_eq!(stage.relay.streams.all_remuxed().count(), 0);
    assert_eq!(bytes_sent(&stage), sent);
}

/// Requests a path, and does nothing else. Returns the connection and the cost.
fn ask(stage: &mut Stage, port: u16, path: &str) -> (ConnectionId, usize) {
    let peer = SocketAddr::from(([10, 0, 0, 3], port));
    let id = stage.relay.accepted(peer, stage.now).expect("room");
    let request = format!("GET /stream/s/{path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let cost = stage.relay.received(id, request.as_bytes(), stage.now);
    stage.relay.check();
    (id, cost)
}

/// A request costs at most one turn's share, however much the buffer has, and so does each turn
/// after it. All bytes are read in the end.
#[test]
fn the_buffer_is_read_a_share_at_a_time() {
    let head = silent_head();
    let (media, count) = group(0, 1_500_000);
    for (path, format) in [("live.ts", Format::MpegTs), ("live.mp4", Format::Mp4)] {
        let mut stage = Stage::new(&["--buffer=2M"]);
        let source = source(&mut stage, &[&head[..], &media].concat());
        let (viewer, cost) = ask(&mut stage, 1, path);
        assert!(
            (READ_COST * STEP_BYTES..PIPELINED_COST_MAX).contains(&cost),
            "{cost} for the first"
        );
        let (mut goes, mut all) = (0, cost);
        while stage.relay.has_deferred_work() {
            // Nothing is made while a viewer still has unsent bytes of it.
            while let Some(cost) = stage.relay.do_deferred_work(stage.now) {
                // The bytes that were gathered for a fragment come out at once.
                let most = PIPELINED_COST_MAX + STEP_BYTES;
                assert!(cost < most, "{cost} for a go");
                stage.relay.check();
                (goes, all) = (goes + 1, all + cost);
            }
            while stage.write_next() {}
        }
        assert!(goes >= media.len() / STEP_BYTES && all >= READ_COST * media.len());
        stage.settle();
        stage.lose(source);
        let (got, _) = stage.media(viewer);
        assert_eq!(pictures(format, &got), count, "{path}");
        stage.assert_nothing_left();
    }
}

/// Remuxing a source's byte counts as the source's cost.
#[test]
fn remuxing_counts_as_the_sources_cost() {
    let head = silent_head();
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &[&head[..], &group(0, 9_000).0].concat());
    let media = group(9_000, 90_000).0;
    let cost = |stage: &mut Stage| -> usize {
        let pieces = media.chunks(STEP_BYTES);
        pieces.map(|piece| stage.send(source, piece)).sum()
    };
    let alone = cost(&mut stage);
    for (port, path) in [(1, "live.ts"), (2, "live.mp4")] {
        ask(&mut stage, port, path);
        stage.settle();
    }
    // The output counts, too: as much again, and a little more.
    let made = 2 * (READ_COST + 1) * media.len();
    let all = cost(&mut stage) - alone;
    assert!((made..made + made / 4).contains(&all), "{all} of {made}");
}

/// It begins at the oldest byte of the buffer, new bytes overwrite that, and no turn comes between:
/// even so nothing is lost.
#[test]
fn unread_bytes_are_not_overwritten() {
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

/// Seed 302358 of the simulation: no join point is left in the buffer when another process takes
/// over.
#[cfg(feature = "handover")]
#[test]
fn a_group_that_is_longer_than_the_buffer_goes_on_in_another_process() {
    let options = ["--buffer=64K", "--buffers=1M"];
    let (media, count) = group(0, 400_000);
    let flv = [&silent_head()[..], &media].concat();
    let ts = remuxed(&flv, Format::MpegTs);
    let mp4 = remuxed(&flv, Format::Mp4);
    for (media, path, format) in [
        (&flv, "live.ts", Format::MpegTs),
        (&flv, "live.mp4", Format::Mp4),
        (&mp4, "live.ts", Format::MpegTs),
        (&ts, "live.mp4", Format::Mp4),
    ] {
        for at in [120_000, 150_500, 203_000] {
            let mut stage = Stage::new(&options);
            let source = source(&mut stage, &media[..20_000]);
            let (viewer, _) = ask(&mut stage, 1, path);
            let (before, behind) = media[20_000..].split_at(at);
            for piece in before.chunks(4_000) {
                stage.send(source, piece);
            }
            stage.change_hands(&options);
            for piece in behind.chunks(4_000) {
                stage.send(source, piece);
            }
            stage.lose(source);
            let (got, _) = stage.media(viewer);
            assert_eq!(pictures(format, &got), count, "{path} at {at}");
        }
    }
}

/// Decode times of all units, in nanoseconds.
#[cfg(feature = "handover")]
fn times(format: Format, media: &[u8]) -> Vec<i64> {
    let mut reader = Reader::new(format, 1 << 20).expect("a reader");
    let mut times = Vec::new();
    let mut hear = |heard: ReaderEvent<'_>| {
        if let ReaderEvent::Unit(unit) = heard {
            times.push(unit.decode);
        }
        Ok(())
    };
    reader.feed(media, &mut hear).expect("no fault");
    reader.finish(&mut hear).expect("no fault");
    times
}

/// A file is sent twice, so its clock begins again. Viewers get the same units at the same times, however
/// soon after that another process takes over, and however soon after they came.
#[cfg(feature = "handover")]
#[test]
fn a_clock_that_begins_again_does_so_once_whoever_takes_over() {
    let options = ["--buffer=2M", "--join-back-time=1"];
    let groups = (0..10).flat_map(|second| group(second * 1000, 24 * 3_000).0);
    let flv = [silent_head(), groups.collect()].concat();
    let again = [&flv[..], &flv[13..]].concat();
    let ts = remuxed(&flv, Format::MpegTs).repeat(2);
    for (media, path, format) in [
        (&again, "live.ts", Format::MpegTs),
        (&again, "live.mp4", Format::Mp4),
        (&ts, "live.mp4", Format::Mp4),
    ] {
        let second = media.len() / 20;
        let watch = |came: usize, changes: &[usize]| {
            let mut stage = Stage::new(&options);
            let source = source(&mut stage, &media[..came]);
            let (viewer, _) = ask(&mut stage, 1, path);
            let mut at = came;
            for piece in media[came..].chunks(3_000) {
                stage.send(source, piece);
                let hands_over = |change: &&usize| (at..at + piece.len()).contains(*change);
                for _ in changes.iter().filter(hands_over) {
                    stage.change_hands(&options);
                }
                at += piece.len();
            }
            stage.lose(source);
            times(format, &stage.media(viewer).0)
        };
        let expected = watch(15 * second / 2, &[]);
        for change in [101, 104, 109, 113, 118, 124, 129, 134] {
            let told = watch(15 * second / 2, &[change * second / 10]);
            assert!(told == expected, "{path} at {change}");
        }
        let many: Vec<usize> = (80..160).map(|tenth| tenth * second / 10).collect();
        assert!(watch(15 * second / 2, &many) == expected, "{path}");
        // A moment after the viewer came.
        let came = 53 * second / 10;
        let expected = watch(came, &[]);
        assert!(watch(came, &[came + 1]) == expected, "{path}");
    }
}

/// The original ends, or is cut off, while the remuxed stream is behind.
#[test]
fn a_stream_may_end_before_its_remuxed_stream_has_caught_up() {
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

/// Returns the bytes of all blocks, and those reserved.
fn pool_bytes(stage: &Stage) -> usize {
    let streams = stage.relay.streams.streams.iter();
    streams.map(|(_, stream)| stream.buffer.pool_bytes()).sum()
}

/// Two remuxed streams that begin together count as two, and leave half of the buffers.
#[test]
fn each_remuxed_stream_reserves_a_buffer_when_it_begins() {
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
    // Other streams get the rest, and no more.
    stage.send_media(other, &group(9_000, 3_000_000).0);
    assert!(pool_bytes(&stage) <= 4 << 20);
    stage.lose(other);
    other = stage.client(&PUT.replace("/s ", "/t "));
    stage.send_media(other, &media);
    assert!(pool_bytes(&stage) <= 4 << 20);
}

/// The viewers of an ended stream read nothing, without a time limit. They make room for their own
/// session, and for others only if their session has more remuxed streams.
#[test]
fn an_ended_session_makes_room_for_sessions_with_fewer_remuxed_streams() {
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
        assert_eq!(stage.relay.streams.all_remuxed().count(), slow.len());
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

/// UDP clients for whose stream there was no memory get it when there is.
#[test]
fn remuxing_for_udp_clients_is_tried_again() {
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
    assert!(faults(&stage)[0].contains("needs one more --buffer"));
    stage.lose(first);
    assert_eq!(stage.relay.streams.all_remuxed().count(), 0);
    stage.send_media(other, &group(9_000, 9_000).0);
    stage.wait_seconds(6);
    assert_eq!(faults(&stage), [""; 0]);
    assert_eq!(stage.relay.streams.all_remuxed().count(), 1);
    stage.send_media(other, &group(18_000, 90_000).0);
    stage.wait(Duration::from_secs(1));
    let to: SocketAddr = CLIENT.parse().expect("an address");
    let datagrams = stage.relay.next_datagrams(stage.now, &[]);
    assert!(datagrams.is_some_and(|datagrams| datagrams.to == [to]));
}

/// A remuxed stream of a session is always made from the original.
#[test]
fn a_remuxed_stream_is_not_remuxed_again() {
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
    assert_eq!(stage.relay.streams.all_remuxed().count(), 2);
    stage.lose(source);
}

/// HEAD for a playlist tells its type, and begins no remuxed stream.
#[cfg(feature = "hls")]
#[test]
fn head_of_a_playlist_begins_no_remuxing() {
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &[&tags().0[..], &group(0, 9_000).0].concat());
    let head = stage.client("HEAD /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
    stage.assert_status(head, 200);
    let text = stage.text(head);
    assert!(text.contains("Content-Type: application/vnd.apple.mpegurl\r\n"));
    assert!(text.contains("Cache-Control: no-store\r\n") && !text.contains("Content-Length"));
    assert!(text.ends_with("\r\n\r\n"));
    assert_eq!(stage.relay.streams.all_remuxed().count(), 0);
    stage.lose(source);
    stage.wait_seconds(60);
    stage.assert_nothing_left();
}

/// A viewer whose permission ends is disconnected in every container.
#[test]
fn ended_permissions_disconnect_viewers_of_all_containers() {
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
        assert_eq!(stage.relay.streams.all_remuxed().count(), 0, "{ends}");
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
        .find(|(_, stream)| stream.remuxed.is_none())
        .expect("one");
    id
}

fn head(stage: &mut Stage, path: &str) -> ConnectionId {
    stage.client(&format!("HEAD /stream/{path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

fn known() -> Vec<u8> {
    [&tags().0[..], &group(0, 9_000).0].concat()
}

/// While the format is unknown, a request for another container waits up to the source's idle time.
/// HEAD does not wait.
#[test]
fn a_request_for_another_container_waits_for_the_format() {
    for shows in [false, true] {
        let mut stage = Stage::new(&["--source-idle-time=7", "--wait=3", "--body-rate=0"]);
        let source = source(&mut stage, &FILE[..1]);
        let (waits, _) = ask(&mut stage, 1, "live.ts");
        stage.settle();
        assert_eq!(stage.text(waits), "");
        let told = head(&mut stage, "s/live.ts");
        stage.assert_status(told, 503);
        // A byte now and then keeps the source from being silent.
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

/// Each format can be remuxed into some containers. The others are refused with the reason.
#[test]
fn head_says_into_which_containers_a_stream_can_be_remuxed() {
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
        assert_eq!(
            stage.relay.streams.all_remuxed().count(),
            0,
            "nothing is made"
        );
        let (viewer, _) = ask(&mut stage, 1, path);
        stage.settle();
        stage.assert_status(viewer, status);
        if status == 200 {
            assert!(stage.text(viewer).contains(says), "{path}");
            let is_own = media.len() == ts_output.len() && path == "live.ts";
            let all_remuxed = stage.relay.streams.all_remuxed().count();
            assert_eq!(all_remuxed, usize::from(!is_own), "{path}");
        }
    }
}

/// An error ends one remuxed stream, and the next request for it is refused with the reason.
#[test]
fn a_remuxed_stream_that_fails_ends_alone() {
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
            .and_then(|stream| stream.remuxed.as_ref());
        stream.is_some_and(|remuxed| remuxed.target.format() == Format::MpegTs)
    };
    let remuxed = streams.all_remuxed().map(|(id, _)| id).find(is_transport);
    let remuxed = remuxed.expect("both are made");
    streams.drop_remuxed(remuxed, "a unit is too long", &mut stage.relay.ctx);
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
    // Another source of the stream may be remuxed.
    let id = original(&stage);
    stage.relay.streams.clear_remux_errors(id);
    let (id, _) = ask(&mut stage, 5, "live.ts");
    stage.settle();
    stage.assert_status(id, 200);
    stage.lose(source);
}

fn stream_mut(stage: &mut Stage, id: StreamId) -> &mut Stream {
    let streams = &mut stage.relay.streams.streams;
    streams.get_mut(id).expect("it is there")
}

/// The next source clears the errors. Entries of running remuxed streams stay, others go.
#[test]
fn the_next_source_clears_the_errors() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &known());
    let id = original(&stage);
    let stream = stream_mut(&mut stage, id);
    let remux_target = |target, stream| RemuxTarget {
        target,
        stream,
        fault: Some("a fault".into()),
    };
    stream
        .remux_targets
        .push(remux_target(Target::ALL[0], None));
    stream
        .remux_targets
        .push(remux_target(Target::ALL[1], Some(id)));
    stage.relay.streams.clear_remux_errors(id);
    let stream = stream_mut(&mut stage, id);
    let left: Vec<_> = stream
        .remux_targets
        .iter()
        .map(|it| (it.stream, it.fault.is_some()))
        .collect();
    assert_eq!(left, [(Some(id), false)]);
    stream.remux_targets.clear();
}

/// Each remuxed stream reserves a buffer, and half of all buffers stays with the originals.
#[test]
fn remuxed_streams_are_bounded_by_their_buffers() {
    // Originals use the memory that remuxed streams may not have.
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
    assert_eq!(stage.relay.streams.all_remuxed().count(), 0);
    // The limit holds although there are bytes left. A container that was made before needs a place
    // again.
    let mut stage = Stage::new(&["--buffer=1M", "--buffers=4M"]);
    source(&mut stage, &known());
    let (before, _) = ask(&mut stage, 1, "live.ts");
    stage.settle();
    stage.lose(before);
    assert_eq!(stage.relay.streams.all_remuxed().count(), 0);
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let again = head(&mut stage, "s/live.ts");
        stage.assert_status(again, 200);
        let other = stage.client(&PUT.replace("/s ", &format!("/{name} ")));
        stage.send_media(other, &known());
        let made = stage.viewer(&format!("{name}/live.ts"));
        stage.assert_status(made, 200);
        assert_eq!(stage.relay.streams.all_remuxed().count(), number + 1);
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

/// A session has the segments of the original, or of the remuxed stream that its format needs.
#[cfg(feature = "hls")]
#[test]
fn a_session_has_the_segments_of_one_stream() {
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
        let all_remuxed: Vec<_> = streams.all_remuxed().map(|(id, _)| id).collect();
        for remuxed in &all_remuxed {
            let stream = streams
                .streams
                .get(*remuxed)
                .and_then(|it| it.remuxed.as_ref());
            let format = stream.map(|remuxed| remuxed.target.format());
            assert_eq!(streams.is_played(*remuxed), format == played, "{format:?}");
            assert_eq!(streams.reached(*remuxed).is_some(), format == played);
        }
        let playable = streams.playable(id, false, &mut stage.relay.ctx);
        let playable = playable.ok().flatten().expect("it has segments");
        let is_own = played.is_none();
        assert_eq!(
            (playable == id, all_remuxed.contains(&playable)),
            (is_own, !is_own)
        );
    }
}

/// UDP clients get MPEG-TS: the original, or a stream that is remuxed for them.
#[test]
fn udp_clients_get_mpeg_ts() {
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
            // A remuxed stream in another container does not go to them.
            ask(&mut stage, 1, "live.mp4");
            stage.settle();
        }
        let id = original(&stage);
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        assert_eq!(streams.sendable(id, false, ctx), id, "nobody wants it");
        let sent = streams.sendable(id, true, ctx);
        assert_eq!(sent != id, is_made, "{options:?} {}", media.len());
        let of = streams.streams.get(sent).and_then(|it| it.remuxed.as_ref());
        let format = of.map(|remuxed| remuxed.target.format());
        assert_eq!(format, is_made.then_some(Format::MpegTs));
        for is_wanted in [true, false] {
            assert_eq!(streams.sendable(id, is_wanted, ctx), sent, "it is there");
        }
    }
}

/// No remuxed stream begins after the end of the original.
#[test]
fn an_ended_stream_is_not_remuxed_for_udp_clients() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &known());
    let id = original(&stage);
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    let stream = streams.streams.get_mut(id).expect("it is there");
    stream.buffer.finish(End::Complete);
    assert_eq!(streams.sendable(id, true, ctx), id);
    assert_eq!(streams.all_remuxed().count(), 0);
}

/// The header is fed first, however long it is, and counts as cost.
#[test]
fn a_long_header_counts_as_cost() {
    let (head, ..) = tags();
    // A tag with metadata, which no decoder reads.
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
    assert_eq!(long - short, 2 * 30_000);
}

/// A small buffer is read in pieces that fit into it, at the beginning and later.
#[test]
fn a_small_buffer_is_read_in_small_pieces() {
    let (head, ..) = tags();
    let (media, count) = group(0, 220_000);
    let mut stage = Stage::new(&["--buffer=256K", "--buffers=8M"]);
    let source = source(&mut stage, &[&head[..], &media].concat());
    let (viewer, first) = ask(&mut stage, 1, "live.ts");
    // The output is short: the long units are left out.
    let share = READ_COST * 32 * 1024;
    let may = share..share + share / 2;
    assert!(may.contains(&first), "{first} for the first of {share}");
    let mut costs = Vec::new();
    while stage.relay.has_deferred_work() {
        while let Some(cost) = stage.relay.do_deferred_work(stage.now) {
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

/// One byte may become four, so a source with a remuxed stream is read less at once, and a third of
/// that while the remuxed stream is behind.
#[test]
fn a_source_with_a_remuxed_stream_is_read_less_at_once() {
    let mut stage = Stage::new(&["--buffer=256K", "--buffers=8M"]);
    let source = source(&mut stage, &[&tags().0[..], &group(0, 150_000).0].concat());
    let alone = stage.relay.bytes_wanted(source);
    assert!(alone > 100_000, "{alone}");
    let about = |bytes: usize, of: usize| (alone / of..alone * 5 / 4 / of).contains(&bytes);
    ask(&mut stage, 1, "live.ts");
    while stage.write_next() {}
    let behind = stage.relay.bytes_wanted(source);
    stage.settle();
    let beside = stage.relay.bytes_wanted(source);
    assert!(
        about(behind, 12) && about(beside, 4),
        "{behind} {beside} {alone}"
    );
}

/// An unknown format has no remuxed stream, and no error is kept for it.
#[test]
fn an_unknown_format_is_not_remuxed() {
    let mut stage = Stage::new(&[]);
    source(&mut stage, &FILE[..2]);
    let id = original(&stage);
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    for _ in 0..2 {
        let made = streams.remux_target(id, target(Format::MpegTs), ctx);
        assert!(matches!(made, Err(RemuxError::NotYet)));
    }
    let stream = streams.streams.get(id).expect("it is there");
    assert!(stream.remux_targets.is_empty());
}

/// Remuxed streams of an origin's stream have the same `Via`.
#[cfg(feature = "hls")]
#[test]
fn remuxed_streams_of_an_origins_stream_have_its_via() {
    let mut stage = Stage::new(&[]);
    let source = source(&mut stage, &known());
    let id = original(&stage);
    let pull = crate::relay::PullId::from_u64(1);
    stage
        .relay
        .streams
        .set_pull(id, pull, "1.1 here".to_owned());
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
    let stream = stream_mut(&mut stage, id);
    stream.pull = None;
    stage.lose(source);
}

/// Viewers that fall out of the buffer are counted in every container.
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

/// A viewer that waits for the tracks is refused when no track can be carried.
#[test]
fn an_early_viewer_is_refused_when_no_track_can_be_carried() {
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
fn a_viewer_without_output_is_refused_at_the_end() {
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
fn hls_of_fragments_with_file_positions_is_refused_at_once() {
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

/// FLV has no decoder setup for MP3: the first audio frame tells the format, after the first
/// pictures.
#[test]
fn mp3_in_flv_is_in_the_first_segment_and_does_not_set_its_length() {
    let (head, key, other) = tags();
    // The file's head, and the tag with the H.264 setup.
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
