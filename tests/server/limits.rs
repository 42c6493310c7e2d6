//! Bounds: slow viewers skip, stalled viewers are disconnected, and a client above a limit is refused
//! without harm to the others.

use crate::support::client::Client;
use crate::support::media::{gaps, media, offset_of};
use crate::support::response::End;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;
use serde_json::json;

const PIECE_BYTES: usize = 16 * 1024;

/// Streams pieces of media in step with `viewer`, who checks each, until `is_enough`; says how much
/// was sent.
#[track_caller]
fn stream_until<'a>(
    source: &mut Source,
    viewer: &mut Viewer,
    pieces: impl Iterator<Item = &'a [u8]>,
    mut is_enough: impl FnMut() -> bool,
) -> usize {
    let mut sent = 0;
    for (number, piece) in pieces.enumerate() {
        source.send(piece);
        assert!(viewer.read(piece.len()) == piece, "piece {number} differs");
        sent += piece.len();
        if number % 16 == 15 && is_enough() {
            return sent;
        }
    }
    panic!("{sent} bytes were not enough");
}

#[track_caller]
fn skips(server: &Server) -> u64 {
    server.stream("demo").expect("it runs")["skips"]
        .as_u64()
        .expect("a number")
}

/// A server with one source and two viewers.
fn with_two_viewers(options: &[&str]) -> (Server, Source, [Viewer; 2]) {
    let server = Server::gated(options);
    server.admit("demo");
    let source = Source::open(server.address(), "/stream/demo");
    let viewers = [(); 2].map(|()| Viewer::ask(server.address(), "/stream/demo"));
    server.await_viewers("demo", 2);
    (server, source, viewers)
}

#[test]
fn a_slow_viewer_skips_and_is_counted_and_nobody_waits_for_it() {
    let media = media(1, 96 << 20);
    let pieces = media.chunks(PIECE_BYTES);
    let (server, mut source, [mut exact, mut slow]) = with_two_viewers(&["--buffer=256K"]);
    let skipped_at = stream_until(&mut source, &mut exact, pieces, || skips(&server) > 0);
    // The viewer reads again, as fast as the stream comes, until it has the bytes after its skip.
    let mut got = Vec::new();
    let mut sent = skipped_at;
    while offset_of(&media, &got[got.len().saturating_sub(64)..]) < Some(skipped_at) {
        let piece = &media[sent..sent + PIECE_BYTES];
        source.send(piece);
        assert!(
            exact.read(PIECE_BYTES) == piece,
            "the other viewer pays for the slow one"
        );
        got.extend(slow.read(PIECE_BYTES));
        sent += PIECE_BYTES;
    }
    assert_eq!(source.finish().status(), 200);
    exact.assert_rest(b"");
    let (rest, end) = slow.read_to_end();
    got.extend(rest);
    assert_eq!(end, End::Complete);
    let gaps = gaps(&media[..sent], &got);
    assert!(
        !gaps.is_empty(),
        "it is said to have skipped, and got everything"
    );
    assert!(
        media[..sent].ends_with(&got[got.len() - 1000..]),
        "it reads on, and does not get the end"
    );
}

#[test]
fn a_viewer_that_skipped_to_the_very_end_gets_a_clean_one() {
    let media = media(1, 96 << 20);
    let pieces = media.chunks(PIECE_BYTES);
    let (server, mut source, [mut exact, mut slow]) = with_two_viewers(&["--buffer=256K"]);
    let sent = stream_until(&mut source, &mut exact, pieces, || skips(&server) > 0);
    assert_eq!(source.finish().status(), 200);
    exact.assert_rest(b"");
    let (got, end) = slow.read_to_end();
    gaps(&media[..sent], &got);
    assert_eq!(end, End::Complete);
}

#[test]
fn a_viewer_that_takes_nothing_is_cut_and_the_others_are_not() {
    let options = ["--buffer=256K", "--viewer-stall-time=1"];
    let (server, mut source, [mut exact, mut stalled]) = with_two_viewers(&options);
    // Sends far more than the sockets hold, until the server notices the stall.
    let media = media(1, 16 << 20);
    let pieces = media.chunks(PIECE_BYTES).cycle().take(1 << 17);
    stream_until(&mut source, &mut exact, pieces, || {
        server.stream("demo").expect("it runs")["viewers"] == 1
    });
    let line = server.await_line(&["event=viewer-cut", "reason=stalled", "behind_bytes="]);
    let behind = |name: &str| -> u64 {
        let rest = line.split(name).nth(1).expect("how far behind it was");
        let digits = rest.split(' ').next().expect("a number");
        digits.parse().expect("a number")
    };
    assert!(behind("behind_bytes=") > 0);
    // A fast source sends that much within a millisecond. `falling.rs` checks the time.
    behind("behind_ms=");
    let cuts = &server.stream("demo").expect("it runs")["cuts"];
    assert_eq!(
        *cuts,
        json!({"stalled": 1, "lost_unit": 0, "token": 0, "kicked": 0})
    );
    source.finish();
    exact.assert_rest(b"");
    let (_, end) = stalled.read_to_end();
    assert_eq!(end, End::CutShort);
}

/// To take nothing is only a fault where there is something to take.
#[test]
fn a_viewer_of_a_silent_source_is_not_cut_as_stalled() {
    let server = Server::gated(&["--viewer-stall-time=0.2"]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(b"hello");
    assert_eq!(viewer.read(5), b"hello");
    // As long as this client's own stall is noticed in, and longer.
    let idle_since = std::time::Instant::now();
    until("more than the stall time has passed", || {
        (idle_since.elapsed().as_millis() > 600).then_some(())
    });
    source.send(b" world");
    source.finish();
    viewer.assert_rest(b" world");
}

#[test]
fn a_source_that_goes_silent_is_lost_and_its_session_free() {
    let server = Server::gated(&["--source-idle-time=0.5", "--wait=600"]);
    server.admit("demo");
    // The viewer is there before, and what the source sends comes at once: it is silent only then.
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    until("the viewer waits", || {
        let metrics = server.request("GET", "/metrics").text();
        metrics
            .contains("\ntollgate_waiting_viewers 1\n")
            .then_some(())
    });
    let head = "PUT /stream/demo HTTP/1.1\r\nHost: h\r\n";
    let mut source = Client::connect(server.address());
    source.send(format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    ));
    assert_eq!(viewer.read(5), b"hello");
    viewer.assert_lost(b"");
    let last_words = source.rest();
    assert!(!last_words.starts_with(b"HTTP/1.1 200"));
    let mut next = Client::connect(server.address());
    next.send(format!("{head}Content-Length: 5\r\n\r\nhello"));
    assert_eq!(next.response("PUT").status(), 200);
}

#[test]
fn a_source_that_drips_is_lost_as_a_silent_one() {
    let server = Server::gated(&["--source-idle-time=2", "--body-rate=1000"]);
    server.admit("drips");
    server.admit("flows");
    let mut drips = Source::open(server.address(), "/stream/drips");
    let mut flows = Source::open(server.address(), "/stream/flows");
    // Both send as often; one sends enough.
    until("a source of a byte now and then is cut", || {
        assert!(flows.try_send(&[b'x'; 1000]), "the other one is cut");
        (!drips.try_send(b"x")).then_some(())
    });
    assert_eq!(flows.finish().status(), 200);
    server.await_line(&[
        "event=stream-ends",
        "the source was slower than --body-rate",
    ]);
    server.await_end_of_stream("drips");
}

#[test]
fn past_the_limit_on_connections_a_newcomer_gets_503_and_those_inside_go_on() {
    let server = Server::start(&["--connections=5"]);
    let mut inside = [(); 5].map(|()| Client::connect(server.address()));
    inside.iter_mut().for_each(Client::assert_usable);
    let [mut first, mut others @ ..] = inside;
    first.send_head(
        "PUT",
        "/stream/demo",
        &["Transfer-Encoding: chunked", "Expect: 100-continue"],
    );
    assert_eq!(first.head().status, 100);
    for _ in 0..3 {
        let mut newcomer = Client::connect(server.address());
        newcomer.send_head("GET", "/stream/demo", &[]);
        let refused = newcomer.response("GET");
        refused.assert_problem(503, &["--connections"]);
        assert!(refused.head.field("Retry-After").is_some());
        assert!(refused.head.closes());
    }
    first.send("5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(first.response("PUT").status(), 200);
    others.iter_mut().for_each(Client::assert_usable);
    drop(others);
    until("a newcomer is let in again", || {
        let mut newcomer = Client::connect(server.address());
        newcomer.send_head("GET", "/stream/demo", &[]);
        (newcomer.response("GET").status() == 404).then_some(())
    });
}

#[test]
fn past_the_limit_for_one_host_it_gets_429_and_those_inside_go_on() {
    let server = Server::start(&["--connections-per-host=3"]);
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut inside = [(); 2].map(|()| Client::connect(server.address()));
    inside.iter_mut().for_each(Client::assert_usable);
    let mut newcomer = Client::connect(server.address());
    newcomer.send_head("GET", "/stream/demo", &[]);
    let refused = newcomer.response("GET");
    refused.assert_problem(429, &["--connections-per-host"]);
    assert!(refused.head.field("Retry-After").is_some());
    inside.iter_mut().for_each(Client::assert_usable);
    source.send(b"hello");
    assert_eq!(source.finish().status(), 200);
}

#[test]
fn past_the_limit_on_streams_a_source_gets_503() {
    let server = Server::start(&["--streams=2"]);
    let first = Source::open(server.address(), "/stream/a");
    let _second = Source::open(server.address(), "/stream/b");
    let (mut third, verdict) = Source::ask(server.address(), "PUT", "/stream/c", &[]);
    assert_eq!(verdict.status, 503);
    assert!(verdict.field("Retry-After").is_some());
    third.finish_sending();
    let said = String::from_utf8(third.rest()).expect("UTF-8");
    assert!(said.contains("--streams=2"), "{said}");
    assert_eq!(first.finish().status(), 200);
    Source::open(server.address(), "/stream/c").finish();
}

#[test]
fn requests_that_are_sent_ahead_are_answered_in_their_order() {
    let server = Server::gated(&[]);
    let mut client = Client::connect(server.address());
    let head =
        |method: &str, target: &str| format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    client.send(format!(
        "{}\r\n{}\r\n{}\r\n{}Content-Length: 5\r\n\r\nhello{}\r\n{}\r\n",
        head("GET", "/nowhere"),
        head("POST", "/api/add-token?type=http&sessionid=demo"),
        head("GET", "/api/list-tokens"),
        head("PUT", "/stream/demo"),
        head("HEAD", "/api/list-streams"),
        head("GET", "/stream/demo"),
    ));
    client.response("GET").assert_problem(404, &[]);
    assert_eq!(client.response("POST").status(), 201);
    assert_eq!(client.response("GET").json()[0]["sessionid"], "demo");
    assert_eq!(client.response("PUT").json()["bytes_received"], 5);
    assert_eq!(client.response("HEAD").status(), 200);
    client.response("GET").assert_problem(404, &[]);
    client.assert_usable();
}

#[test]
fn many_requests_ahead_are_all_answered() {
    let server = Server::start(&[]);
    let mut client = Client::connect(server.address());
    let request = "GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(request.repeat(1000));
    for _ in 0..1000 {
        client.response("GET").assert_problem(404, &[]);
    }
    client.finish_sending();
    client.assert_closed();
}
