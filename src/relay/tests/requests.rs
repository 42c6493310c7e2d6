//! Requests that concern several parts.

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::SessionId;
use crate::relay::clients::SCAN_COST;
use crate::relay::stage::Stage;
use crate::relay::stage::ask;
use crate::relay::{ConnectionId, UdpPort};

const API: &str = "--token-server=10.0.0.0/8";
const ORIGIN: &str = "--origin=http://10.1.0.1:8000";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: video/x\r\nTransfer-Encoding: chunked\r\n\r\n";
/// Real ones, of the same pictures.
const MPEG_TS: &[u8] = include_bytes!("../../../tests/media/h264.ts");
const FLV: &[u8] = include_bytes!("../../../tests/media/h264.flv");

fn put(stage: &mut Stage) -> ConnectionId {
    ask(stage, "PUT /stream/s", "Transfer-Encoding: chunked\r\n")
}

/// A chunk of a source's body.
fn send(stage: &mut Stage, source: ConnectionId, media: &[u8]) {
    let chunk = [format!("{:x}\r\n", media.len()).as_bytes(), media, b"\r\n"].concat();
    for piece in chunk.chunks(16 * 1024) {
        stage.relay.received(source, piece, stage.now);
    }
    stage.settle();
}

/// A client waits for a session only once.
#[test]
fn who_has_waited_in_vain_is_refused() {
    for path in [
        "/stream/a",
        "/stream/a/live.ts",
        "/stream/a/index.m3u8",
        "/stream/a/index.m3u8?_HLS_msn=1",
    ] {
        let mut stage = Stage::new(&["--wait=5"]);
        let id = ask(&mut stage, &format!("GET {path}"), "");
        stage.wait_seconds(4);
        assert_eq!(stage.text(id), "", "{path}");
        stage.wait_seconds(3);
        stage.assert_status(id, 404);
        stage.assert_nothing_left();
    }
}

/// A viewer may not send a body. A call may, and it is read and ignored.
#[test]
fn a_body_is_read_before_a_call_is_answered_and_refused_of_a_viewer() {
    let mut stage = Stage::new(&[]);
    stage.client(
        "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9\r\n\r\nx",
    );
    let viewer = ask(&mut stage, "GET /stream/s", "Content-Length: 4\r\n");
    stage.assert_status(viewer, 400);
    assert!(stage.text(viewer).contains("Connection: close\r\n"));
    let viewer = ask(&mut stage, "GET /stream/s", "Content-Length: 0\r\n");
    stage.assert_status(viewer, 200);

    let mut stage = Stage::new(&[API]);
    let line = "POST /api/add-token?type=http&sessionid=s";
    for (fields, first, body, last) in [
        ("Content-Length: 4\r\n", "", "abcd", "HTTP/1.1 20"),
        (
            "Content-Length: 4\r\nExpect: 100-continue\r\n",
            "HTTP/1.1 100 ",
            "abcd",
            "HTTP/1.1 100 ",
        ),
        // There is nothing to go on with.
        (
            "Content-Length: 0\r\nExpect: 100-continue\r\n",
            "HTTP/1.1 20",
            "",
            "HTTP/1.1 20",
        ),
        ("", "HTTP/1.1 20", "", "HTTP/1.1 20"),
    ] {
        let id = ask(&mut stage, line, fields);
        assert!(stage.text(id).starts_with(first), "{fields}");
        assert_eq!(stage.text(id).is_empty(), first.is_empty(), "{fields}");
        stage.send(id, body);
        let text = stage.text(id);
        assert!(text.starts_with(last), "{fields}: {text}");
        assert!(text.contains("\"sessionid\":\"s\""), "{fields}: {text}");
        // The next request begins after the body.
        stage.send(id, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(
            stage.text(id).ends_with("{\"status\":\"ok\"}\n"),
            "{fields}"
        );
    }
}

/// A stream that is unlike the one for which viewers were held is another, and its source sends
/// that from then on.
#[test]
fn a_source_that_begins_anew_goes_on_in_its_new_stream() {
    let mut stage = Stage::new(&["--hold=60"]);
    let first = put(&mut stage);
    send(&mut stage, first, MPEG_TS);
    let held = stage.viewer("s");
    stage.lose(first);
    let second = put(&mut stage);
    let (begin, rest) = FLV.split_at(FLV.len() / 2);
    send(&mut stage, second, begin);
    let viewer = stage.viewer("s");
    send(&mut stage, second, rest);
    stage.send(second, "0\r\n\r\n");
    stage.assert_status(second, 200);
    let (media, is_complete) = stage.media(viewer);
    assert!(is_complete);
    assert!(media.starts_with(b"FLV") && media.ends_with(&rest[rest.len() - 64..]));
    let (media, _) = stage.media(held);
    assert!(!media.windows(3).any(|three| three == b"FLV"));
}

/// Returns a server with a camera that sends MPEG-TS over RTP, and a viewer over HTTP.
fn camera() -> (Stage, ConnectionId) {
    let mut stage = Stage::new(&[API, "--wait=60"]);
    stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
    let line = "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=10.2.0.1:6000";
    let call = ask(&mut stage, line, "");
    stage.assert_status(call, 201);
    let viewer = stage.viewer("s");
    (stage, viewer)
}

const SSRC: [u8; 4] = [1, 2, 3, 4];

fn arrive(stage: &mut Stage, datagram: &[u8]) {
    let from = SocketAddr::from(([10, 2, 0, 1], 6000));
    stage
        .relay
        .datagram(from, UdpPort::Rtp, datagram, stage.now);
    stage.settle();
}

/// The packet of this number, with its part of the file.
fn packet(number: usize) -> Vec<u8> {
    let [high, low] = (number as u16).to_be_bytes();
    let media = &MPEG_TS[number * 7 * 188..(number + 1) * 7 * 188];
    [&[0x80, 33, high, low, 0, 0, 0, 0][..], &SSRC, media].concat()
}

/// What a source says of itself, whose it says it is, and whether that it leaves.
fn control(ssrc: [u8; 4], says_bye: bool) -> Vec<u8> {
    let report = [&[0x80, 201, 0, 1][..], &ssrc].concat();
    let bye = [&[0x81, 203, 0, 1][..], &ssrc].concat();
    match says_bye {
        true => [report, bye].concat(),
        false => report,
    }
}

#[test]
fn packets_that_overtake_each_other_go_out_in_their_order() {
    let watched = |order: &dyn Fn(usize) -> usize| {
        let (mut stage, viewer) = camera();
        for place in 0..20 {
            arrive(&mut stage, &packet(order(place)));
        }
        let (before, _) = stage.media(viewer);
        arrive(&mut stage, &control(SSRC, true));
        (before, stage.media(viewer))
    };
    let as_sent = watched(&|place| place);
    let (before, (media, is_complete)) = &as_sent;
    assert!(*is_complete && before.len() > 10 * 7 * 188 && media.starts_with(before));
    // The first two say that it is a source.
    let pairs = |place: usize| if place < 2 { place } else { place ^ 1 };
    assert_eq!(watched(&pairs), as_sent);
    // Groups of three, the first of them last.
    let threes = |place: usize| match place {
        0..2 => place,
        _ => (place - 2) / 3 * 3 + [3, 4, 2][(place - 2) % 3],
    };
    assert_eq!(watched(&threes), as_sent);
}

/// It says so itself, and nobody else.
#[test]
fn a_stream_ends_when_its_source_says_goodbye() {
    for (ssrc, says_bye, ends) in [
        (SSRC, false, false),
        ([9, 9, 9, 9], true, false),
        ([9, 9, 9, 9], false, false),
        (SSRC, true, true),
    ] {
        let (mut stage, viewer) = camera();
        (0..8).for_each(|number| arrive(&mut stage, &packet(number)));
        arrive(&mut stage, &control(ssrc, says_bye));
        let session = SessionId::parse(b"s").expect("a good sessionid");
        assert_eq!(
            stage.relay.streams.runs(&session),
            !ends,
            "{ssrc:?} {says_bye}"
        );
        assert_eq!(stage.media(viewer).1, ends, "{ssrc:?} {says_bye}");
    }
}

/// A session id had tokens that expired and were removed. Its connections are disconnected if the
/// call asks for that. A session id that never had tokens is not found.
#[test]
fn who_is_inside_by_a_forgotten_sessionid_is_ended_where_that_is_asked_for() {
    let session = SessionId::parse(b"s").expect("a good sessionid");
    for (has_viewer, abort, status, stays) in [
        (true, "&abort=1", 200, false),
        (true, "", 404, true),
        (true, "&abort=0", 404, true),
        (false, "&abort=1", 404, true),
        (false, "", 404, true),
    ] {
        let mut stage = Stage::new(&[API]);
        let call = ask(&mut stage, "POST /api/add-token?type=http&sessionid=s", "");
        stage.assert_status(call, 201);
        let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9\r\n\r\nx");
        let viewer = stage.viewer("s");
        if !has_viewer {
            stage.lose(viewer);
            stage.lose(source);
        }
        stage.relay.grants.table().expect("tokens").revoke(&session);
        let line = format!("DELETE /api/revoke-token?sessionid=s{abort}");
        let call = ask(&mut stage, &line, "");
        stage.assert_status(call, status);
        let is_there = !stage.closed.contains(&viewer);
        assert_eq!(has_viewer && is_there, has_viewer && stays, "{abort}");
    }
}

/// A viewer without permission gets a refusal. A viewer that is too early gets the page, which
/// waits.
#[test]
fn the_page_of_a_session_is_shown_to_who_may_watch_later() {
    let mut stage = Stage::new(&[API]);
    let call = ask(&mut stage, "POST /api/add-token?type=http&sessionid=s", "");
    stage.assert_status(call, 201);
    for (path, status, is_page) in [
        ("/watch/s", 200, true),
        ("/watch/none", 403, false),
        ("/watch/blocked", 429, true),
    ] {
        if path.ends_with("blocked") {
            let line = "POST /api/add-token?type=http&sessionid=blocked";
            let call = ask(&mut stage, line, "");
            stage.assert_status(call, 201);
            let session = SessionId::parse(b"blocked").expect("a good sessionid");
            let minute = std::time::Duration::from_secs(60);
            let (grants, ctx) = (&mut stage.relay.grants, &stage.relay.ctx);
            grants.block(&session, minute, ctx).expect("room");
        }
        let id = ask(&mut stage, &format!("GET {path}"), "");
        stage.assert_status(id, status);
        let text = stage.text(id);
        assert_eq!(text.contains("<video"), is_page, "{path}: {text}");
        let says = text.contains("The server says: ");
        assert_eq!(says, !is_page, "{path}: {text}");
    }
}

/// The figures are sums over all connections and streams: that costs as much as there are.
#[test]
fn the_figures_cost_what_is_looked_at_for_them() {
    let cost = |stage: &mut Stage| {
        let caller = stage.client("");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let cost = stage.send(caller, request);
        cost - stage.text(caller).len()
    };
    for streams in [1, 5] {
        let mut stage = Stage::new(&[API]);
        let mut other = Stage::new(&[API]);
        for number in 0..streams {
            let name = format!("s{number}");
            let line = format!("POST /api/add-token?type=http&sessionid={name}");
            for stage in [&mut stage, &mut other] {
                ask(stage, &line, "");
            }
            let put = format!(
                "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9\r\n\r\n"
            );
            stage.client(&put);
            other.client("");
        }
        let more = cost(&mut stage) - cost(&mut other);
        assert_eq!(more, streams * SCAN_COST);
    }
}

/// A place that a session has is its own: by it a fetched stream begins, and another source takes
/// over. One that has none is refused where as many streams run as may.
#[test]
fn a_session_keeps_its_place_among_the_streams() {
    let mut stage = Stage::new(&["--streams=1", ORIGIN]);
    let viewer = stage.viewer("a");
    stage.answer(OK);
    stage.assert_status(viewer, 200);
    let other = stage.viewer("b");
    stage.assert_status(other, 503);

    let mut stage = Stage::new(&["--streams=1", "--takeover"]);
    let first = put(&mut stage);
    let second = put(&mut stage);
    assert_eq!(stage.text(second), "", "it takes over");
    assert!(stage.closed.contains(&first) || !stage.text(first).is_empty());
    let other = ask(&mut stage, "PUT /stream/b", "Content-Length: 9\r\n");
    stage.assert_status(other, 503);
}

/// An origin is asked over a connection, too.
#[test]
fn nothing_is_fetched_where_there_is_no_connection_for_it() {
    for (connections, status) in [(1, 503), (2, 0)] {
        let most = format!("--connections={connections}");
        let mut stage = Stage::new(&[&most, ORIGIN]);
        let viewer = stage.viewer("a");
        match status {
            0 => assert_eq!(stage.text(viewer), ""),
            status => {
                stage.assert_status(viewer, status);
                assert!(stage.text(viewer).contains("no room to fetch it"));
            }
        }
        assert_eq!(stage.calls.len(), usize::from(status == 0));
    }
}

/// Thousands of waiting clients that were answered at once would hold up all others.
#[cfg(feature = "remux")]
#[test]
fn who_waits_and_has_no_need_of_the_first_byte_joins_in_its_turn() {
    const FILE: &[u8] = include_bytes!("../../../tests/media/h264.flv");
    let mut stage = Stage::new(&["--wait=9"]);
    let [whole, remuxed] = ["s", "s/live.ts"].map(|path| stage.viewer(path));
    let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n");
    stage.relay.received(source, b"\r\n", stage.now);
    let joined =
        |stage: &Stage| [whole, remuxed].map(|id| stage.relay.clients.viewer(id).is_some());
    assert_eq!(joined(&stage), [true, false]);
    assert!(stage.relay.has_deferred_work());
    stage.settle();
    stage.send_media(source, FILE);
    assert_eq!(joined(&stage), [true, true]);
}

/// The source ends, or breaks, before its format is known, and nobody else watches: the stream is removed
/// at once.
#[test]
fn a_viewer_that_waits_for_a_format_is_answered_when_the_stream_ends() {
    for path in ["live.mp4", "live.ts", "poster.mp4", "index.m3u8"] {
        for is_whole in [true, false] {
            let mut stage = Stage::new(&[]);
            let length = if is_whole { 4 } else { 9 };
            let source = stage.client(&format!(
                "PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"
            ));
            let viewer = stage.viewer(&format!("a/{path}"));
            assert_eq!(stage.text(viewer), "", "{path}");
            stage.send(source, "byte");
            if !is_whole {
                stage.lose(source);
            }
            (0..4).for_each(|_| stage.settle());
            stage.assert_status(viewer, 404);
        }
    }
}

/// The viewer's time counts from its request.
#[test]
fn a_wait_ends_beside_a_source_that_comes_and_goes() {
    for path in ["live.mp4", "index.m3u8"] {
        let mut stage = Stage::new(&["--wait=3"]);
        let viewer = stage.viewer(&format!("a/{path}"));
        for _ in 0..8 {
            assert_eq!(stage.text(viewer), "", "{path}");
            stage.client("PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
            stage.wait(Duration::from_millis(350));
            (0..4).for_each(|_| stage.settle());
        }
        stage.wait(Duration::from_millis(700));
        stage.assert_status(viewer, 404);
    }
}

/// The next segment of a held stream does not come in time.
#[test]
fn a_playlist_that_waits_in_vain_says_what_it_waited_for() {
    let frame = [
        &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
        &[0x11; 249],
    ];
    let mut stage = Stage::new(&["--hold=60"]);
    let source = put(&mut stage);
    send(&mut stage, source, &frame.concat().repeat(9 * 47));
    let list = stage.viewer("s/index.m3u8");
    let text = stage.text(list);
    let (_, rest) = text.split_once("#EXT-X-MEDIA-SEQUENCE:").expect("a list");
    let first: u64 = rest
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("a number");
    let next = first + text.matches("#EXTINF").count() as u64;
    stage.lose(source);
    let waits = stage.viewer(&format!("s/index.m3u8?_HLS_msn={next}"));
    assert_eq!(stage.text(waits), "");
    stage.wait(Duration::from_secs(30));
    stage.assert_status(waits, 503);
    let answer = stage.text(waits);
    assert!(answer.contains("has not come in time"), "{answer}");
}

/// An encoder that fails at its start may end its body in order.
#[test]
fn a_source_that_sends_nothing_does_not_end_a_held_stream() {
    let mut stage = Stage::new(&["--hold=60"]);
    let first = put(&mut stage);
    send(&mut stage, first, MPEG_TS);
    let viewer = stage.viewer("s");
    stage.lose(first);
    let session = SessionId::parse(b"s").expect("a sessionid");
    for content in ["", "5\r\nsorry\r\n"] {
        assert!(stage.relay.streams.held(&session).is_some(), "{content}");
        let next = put(&mut stage);
        stage.send(next, &format!("{content}0\r\n\r\n"));
        stage.assert_status(next, 200);
    }
    let had = stage.media(viewer).0.len();
    let next = put(&mut stage);
    send(&mut stage, next, MPEG_TS);
    assert!(stage.media(viewer).0.len() > had + MPEG_TS.len() / 2);
    stage.send(next, "0\r\n\r\n");
    assert!(stage.media(viewer).1, "it is complete");
}
