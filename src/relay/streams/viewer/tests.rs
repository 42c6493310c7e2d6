//! Viewers in a simulated server: the heads that they get, how their responses end, and chunks that
//! are written in parts.

use super::*;
use crate::relay::stage::Stage;
use crate::time::UnixTime;

const PUT: &str =
    "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\nContent-Length: 30\r\n\r\n";

fn reply(version: Version, keep_alive: bool) -> Reply {
    Reply {
        wants_titles: None,
        wants_page: false,
        version,
        keep_alive,
        head_only: false,
        no_store: false,
        date: UnixTime::default(),
        fields: &[],
    }
}

fn chunk(bytes: u32) -> ChunkWriter {
    let mut chunk = ChunkWriter::default();
    chunk.begin(NonZeroU32::new(bytes).expect("some bytes"));
    chunk
}

fn viewing(framing: Outgoing, keep_alive: bool) -> ViewerResponse {
    ViewerResponse {
        stream: StreamId::from_u64(3),
        viewer: ViewerId::from_u64(4),
        reply: reply(Version::Http11, keep_alive),
        owes_head: false,
        framing,
        icy: None,
    }
}

/// Another request may follow where the body shows its end, if the client wants that.
#[test]
fn a_response_shows_whether_it_ended_well() {
    let framings: [fn() -> Outgoing; 3] = [
        || Outgoing::Chunked(ChunkWriter::default()),
        || Outgoing::Length,
        || Outgoing::UntilClose,
    ];
    for keep_alive in [true, false] {
        let last = |place: usize, end| viewing(framings[place](), keep_alive).last(end);
        assert_eq!(last(0, End::Complete), (&b"0\r\n\r\n"[..], keep_alive));
        assert_eq!(last(1, End::Complete), (&b""[..], keep_alive));
        assert_eq!(last(2, End::Complete), (&b""[..], false));
        for place in 0..3 {
            assert_eq!(last(place, End::Lost), (&b""[..], false));
        }
    }
}

/// A chunk's size line and line end are not media. All other bytes are.
#[test]
fn chunk_framing_does_not_count_as_media() {
    let mut chunked = viewing(Outgoing::Chunked(chunk(5)), true);
    assert_eq!(
        chunked.key(),
        (StreamId::from_u64(3), ViewerId::from_u64(4))
    );
    let sent = [2, 1, 3, 3, 1].map(|bytes| chunked.sent(bytes));
    assert_eq!(sent, [0, 0, 3, 2, 0]);
    for framing in [Outgoing::Length, Outgoing::UntilClose] {
        let mut viewing = viewing(framing, true);
        assert_eq!([2, 0, 7].map(|bytes| viewing.sent(bytes)), [2, 0, 7]);
    }
    let place = (StreamId::from_u64(5), ViewerId::from_u64(6));
    let segment = ViewerResponse::of_segment(place, reply(Version::Http11, true));
    assert_eq!(segment.key(), place);
    assert!(!segment.owes_head && matches!(segment.framing, Outgoing::Length));
}

/// The client's HTTP version decides how the body ends, or `--close-delimited`.
#[test]
fn a_viewers_head_says_how_its_body_ends() {
    for (option, version, asks, is_chunked, says) in [
        (None, "1.1", "", true, None),
        (None, "1.1", "Connection: close\r\n", true, Some("close")),
        (None, "1.0", "", false, Some("close")),
        (
            None,
            "1.0",
            "Connection: keep-alive\r\n",
            false,
            Some("close"),
        ),
        (Some("--close-delimited"), "1.1", "", false, Some("close")),
        (Some("--close-delimited"), "1.0", "", false, Some("close")),
    ] {
        let mut stage = Stage::new(option.as_slice());
        let source = stage.client(PUT);
        let [get, head] = ["GET", "HEAD"].map(|method| {
            let line = format!("{method} /stream/s HTTP/{version}\r\nHost: h\r\n{asks}\r\n");
            stage.client(&line)
        });
        stage.send(source, "0123456789");
        let of_get = stage.text(get);
        let (got, body) = of_get.split_once("\r\n\r\n").expect("a head");
        let case = format!("{option:?} {version} {asks}: {got}");
        let chunked = got.contains("Transfer-Encoding: chunked");
        assert_eq!(chunked, is_chunked, "{case}");
        let connection = got.split("Connection: ").nth(1);
        let connection = connection.and_then(|rest| rest.lines().next());
        assert_eq!(connection, says, "{case}");
        for field in [
            "Content-Type: audio/x",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Content-Security-Policy: sandbox",
        ] {
            assert!(got.contains(field), "{case}");
        }
        let media = if is_chunked {
            "a\r\n0123456789\r\n"
        } else {
            "0123456789"
        };
        assert_eq!(body, media, "{case}");
        // HEAD gets the same head.
        assert_eq!(stage.text(head), format!("{got}\r\n\r\n"), "{case}");
        // The source broke off: the connection is closed soon.
        stage.lose(source);
        stage.wait_seconds(3);
        assert!(stage.closed.contains(&get), "{case}");
        assert_eq!(stage.closed.contains(&head), says.is_some(), "{case}");
    }
}

/// A viewer continues where its socket took no more, also after new bytes or the end.
#[test]
fn a_chunk_that_is_written_in_parts_arrives_whole() {
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\n";
    let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for (more, ends) in [("", true), ("ABCDE", true), ("ABCDE", false)] {
        for most in 0..=15 {
            let mut stage = Stage::new(&[]);
            let source = stage.client(&head);
            stage.send(source, "3\r\n012\r\n");
            let viewer = stage.viewer("s");
            let case = format!("{most} bytes, then {more:?}, ends: {ends}");
            let now = stage.now;
            stage.relay.received(source, b"a\r\nabcdefghij\r\n", now);
            stage.write_part(viewer, most);
            let chunk = match more {
                "" => String::new(),
                _ => format!("{:x}\r\n{more}\r\n", more.len()),
            };
            let last = if ends { "0\r\n\r\n" } else { "" };
            let rest = format!("{chunk}{last}");
            stage.relay.received(source, rest.as_bytes(), now);
            stage.write_part(viewer, 0);
            stage.relay.unblocked(viewer);
            stage.settle();
            let (media, is_complete) = stage.media(viewer);
            let expected = format!("abcdefghij{more}");
            assert!(media.ends_with(expected.as_bytes()), "{case}: {media:?}");
            assert_eq!(is_complete, ends, "{case}");
            assert!(!stage.closed.contains(&viewer), "{case}");
            if ends {
                // Another request follows on the same connection.
                let before = stage.text(viewer).len();
                stage.send(viewer, "HEAD /stream/none HTTP/1.1\r\nHost: h\r\n\r\n");
                let answer = &stage.text(viewer)[before..];
                assert!(answer.starts_with("HTTP/1.1 "), "{case}: {answer}");
            }
        }
    }
}

/// Bytes that the viewers have got already do not count as much for the queue.
#[test]
fn the_unsent_bytes_choose_a_streams_queue() {
    let mut stage = Stage::new(&[]);
    let put = PUT.replace("30", "9999999");
    let source = stage.client(&put);
    stage.viewer("s");
    stage.send(source, "x");
    let line = |stage: &Stage| {
        let mut streams = stage.relay.streams.streams.iter();
        streams.next().and_then(|(_, stream)| stream.queued_in)
    };
    for before in [0, 4_000, 10_000, 100_000] {
        stage.relay.received(source, &vec![7; before], stage.now);
        stage.settle();
        assert_eq!(line(&stage), None, "all is out");
        for (more, is_in) in [
            (1, Backlog::Little),
            (4_094, Backlog::Little),
            (1, Backlog::Much),
            (1, Backlog::Much),
        ] {
            stage.relay.received(source, &vec![7; more], stage.now);
            assert_eq!(line(&stage), Some(is_in), "{more} after {before}");
        }
        stage.settle();
    }
    stage.lose(source);
}

/// A request for a segment is no viewer of its own: it is not reported.
#[cfg(feature = "hls")]
#[test]
fn a_viewer_that_leaves_is_reported_and_a_segments_request_is_not() {
    let mut stage = Stage::new(&["--token-server=10.0.0.1"]);
    let call = |stage: &mut Stage, line: &str| {
        stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    };
    call(&mut stage, "POST /api/add-token?type=http&sessionid=s");
    let events = call(&mut stage, "GET /api/events");
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
    let source = stage.client(put);
    let frame = [
        &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
        &[0x11; 249],
    ]
    .concat();
    stage.send(source, &frame.repeat(420));
    let count = |stage: &mut Stage| {
        stage.settle();
        stage.text(events).matches("event: viewer-goes").count()
    };
    let viewer = stage.viewer("s");
    let list = call(&mut stage, "GET /stream/s/index.m3u8");
    let text = stage.text(list);
    let segment = text.lines().last().expect("a name");
    let player = call(&mut stage, &format!("GET /stream/s/{segment}"));
    stage.assert_status(player, 200);
    stage.lose(player);
    assert_eq!(count(&mut stage), 0);
    stage.lose(viewer);
    assert_eq!(count(&mut stage), 1);
    stage.lose(source);
}

/// The viewer has fallen out of the buffer, and there is no join point since. The bytes of its open
/// chunk are gone, so no valid end of the chunk is possible.
#[test]
fn a_chunk_whose_bytes_are_lost_ends_with_the_connection() {
    const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
    let mut tags = Vec::new();
    let mut rest = &FILE[13..];
    while rest.len() > 15 {
        let length = u32::from_be_bytes([0, rest[1], rest[2], rest[3]]) as usize + 15;
        let (tag, behind) = rest.split_at(length);
        tags.push(tag);
        rest = behind;
    }
    // Up to the first key frame. After that, the same frame again and again, which is none.
    let is_key = |tag: &&[u8]| tag[0] == 9 && tag[11] == 0x17 && tag[12] == 1;
    let first = tags.iter().position(is_key).expect("a key frame");
    let other = tags.iter().find(|tag| tag[0] == 9 && tag[11] == 0x27);
    let other = other.expect("a frame").repeat(200);
    let mut stage = Stage::new(&["--buffer=64K"]);
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let source = stage.client(put);
    let chunk = |stage: &mut Stage, media: &[u8]| {
        let line = format!("{:x}\r\n", media.len());
        let all = [line.as_bytes(), media, b"\r\n"].concat();
        stage.relay.received(source, &all, stage.now);
    };
    chunk(&mut stage, &FILE[..13]);
    chunk(&mut stage, &tags[..=first].concat());
    stage.settle();
    let viewer = stage.viewer("s");
    chunk(&mut stage, &other);
    stage.write_part(viewer, 100);
    for _ in 0..20 {
        chunk(&mut stage, &other);
    }
    stage.send(source, "0\r\n\r\n");
    assert!(!stage.closed.contains(&viewer));
    stage.relay.unblocked(viewer);
    stage.settle();
    stage.wait_seconds(3);
    assert!(stage.closed.contains(&viewer), "it would wait for ever");
    assert!(!stage.media(viewer).1);
}

/// A viewer that catches up gets all bytes, in turns of bounded size.
#[test]
fn no_viewer_gets_more_than_its_share_in_a_turn() {
    for option in [None, Some("--close-delimited")] {
        let mut stage = Stage::new(&[&["--buffer=4M"][..], option.as_slice()].concat());
        let source = stage.client(&PUT.replace("30", "99999999"));
        let viewer = stage.viewer("s");
        stage.send(source, "x");
        stage.relay.served(viewer, Outcome::Blocked, stage.now);
        for _ in 0..50 {
            stage.relay.received(source, &[7; 40_000], stage.now);
        }
        stage.relay.unblocked(viewer);
        let mut sent = Vec::new();
        while let Some(id) = stage.relay.next_write() {
            let bytes = stage.relay.output(id, stage.now).bytes();
            stage.relay.sent(id, bytes, stage.now);
            stage.relay.served(id, Outcome::Open, stage.now);
            sent.push(bytes);
        }
        // The content and its framing.
        let most = TURN_BYTES_MAX + 12;
        assert!(sent.iter().all(|bytes| *bytes <= most), "{sent:?}");
        assert!(sent.iter().sum::<usize>() >= 2_000_000, "{sent:?}");
        assert!(sent.len() < 50, "{sent:?}");
        stage.lose(source);
    }
}
