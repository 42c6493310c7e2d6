//! Streaming over HTTP: viewers get the source's bytes, and the end of their response shows how
//! the source ended.

use crate::support::client::Client;
use crate::support::media::{media, transport_stream, webm_head};
use crate::support::response::End;
use crate::support::server::{Server, demo};
use crate::support::streaming::{Source, Viewer};
use serde_json::json;

#[test]
fn a_viewer_there_from_the_first_byte_gets_the_sources_bytes_exactly() {
    let server = demo();
    let media = media(1, 3_000_001);
    for method in ["PUT", "POST"] {
        let mut source = Source::open_with(server.address(), method, "/stream/demo", &[]);
        let mut viewers = [(); 3].map(|()| Viewer::ask(server.address(), "/stream/demo"));
        server.await_viewers("demo", 3);
        let pieces = media.chunks(70_001);
        let received = std::thread::spawn(move || {
            for viewer in &mut viewers {
                viewer.head();
            }
            viewers.map(|mut viewer| viewer.read_to_end())
        });
        pieces.for_each(|piece| source.send(piece));
        let answer = source.finish();
        assert_eq!(answer.status(), 200, "{method}");
        assert_eq!(
            answer.json(),
            json!({"sessionid": "demo", "bytes_received": 3_000_001})
        );
        for (content, end) in received.join().expect("viewers") {
            assert!(
                content == media,
                "{method}: {} bytes came that are not the source's",
                content.len()
            );
            assert_eq!(end, End::Complete);
        }
    }
}

#[test]
fn a_body_of_known_length_streams_and_is_answered() {
    let server = demo();
    let mut source = Client::connect(server.address());
    source.send_head(
        "PUT",
        "/stream/demo",
        &["Content-Length: 11", "Expect: 100-continue"],
    );
    assert_eq!(source.head().status, 100);
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send("hello ");
    assert_eq!(viewer.read(6), b"hello ");
    source.send("world");
    let answer = source.response("PUT");
    assert_eq!(
        answer.json(),
        json!({"sessionid": "demo", "bytes_received": 11})
    );
    viewer.assert_rest(b"world");
    // The connection of a complete source is good for another one.
    source.send_head("PUT", "/stream/demo", &["Content-Length: 0"]);
    assert_eq!(
        source.response("PUT").json(),
        json!({"sessionid": "demo", "bytes_received": 0})
    );
}

#[test]
fn a_source_that_says_no_more_after_its_last_chunk_still_gets_its_answer() {
    let server = demo();
    let mut source = Client::connect(server.address());
    source.send_head("PUT", "/stream/demo", &["Transfer-Encoding: chunked"]);
    source.send("5\r\nhello\r\n0\r\n\r\n");
    source.finish_sending();
    assert_eq!(source.response("PUT").json()["bytes_received"], 5);
    source.assert_closed();
}

#[test]
fn an_http_1_0_viewer_reads_until_close() {
    let server = demo();
    for connection in ["", "Connection: keep-alive\r\n"] {
        let mut source = Source::open(server.address(), "/stream/demo");
        let mut client = Client::connect(server.address());
        client.send(format!("GET /stream/demo HTTP/1.0\r\n{connection}\r\n"));
        server.await_viewers("demo", 1);
        source.send(b"hello");
        source.send(b" world");
        source.finish();
        let response = client.response("GET");
        assert_eq!(response.status(), 200);
        assert_eq!(response.head.field("Transfer-Encoding"), None);
        assert_eq!(response.head.field("Content-Length"), None);
        assert!(response.head.closes());
        assert_eq!(
            (response.text().as_str(), response.end),
            ("hello world", End::Close)
        );
    }
}

#[test]
fn an_http_1_0_source_streams_with_a_length() {
    let server = demo();
    let mut client = Client::connect(server.address());
    client.send("PUT /stream/demo HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello");
    let answer = client.response("PUT");
    assert_eq!(answer.json()["bytes_received"], 5);
    client.assert_closed();
}

/// Streams `media` and checks of which type it is said to be.
#[track_caller]
fn assert_media_type(server: &Server, given: Option<&str>, media: &[u8], expected: &str) {
    let field = given.map(|given| format!("Content-Type: {given}"));
    let fields: Vec<&str> = field.iter().map(String::as_str).collect();
    let mut source = Source::open_with(server.address(), "PUT", "/stream/demo", &fields);
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(media);
    assert_eq!(
        viewer.head().field("Content-Type"),
        Some(expected),
        "given: {given:?}"
    );
    let listed = server.stream("demo").expect("it runs");
    assert_eq!(listed["content_type"], expected, "given: {given:?}");
    source.finish();
    viewer.assert_rest(media);
}

#[test]
fn a_given_media_type_is_passed_on_whatever_the_bytes_show() {
    let server = demo();
    let unknown = media(1, 4096);
    let wide = "video/webm; codecs=\"vp9,opus\"";
    assert_media_type(&server, Some(wide), &unknown, wide);
    assert_media_type(
        &server,
        Some("audio/mpeg"),
        &transport_stream(50),
        "audio/mpeg",
    );
}

#[test]
fn a_media_type_that_is_not_given_is_told_by_the_bytes() {
    let server = demo();
    let transport = transport_stream(50);
    let webm = [webm_head(), vec![0; 64]].concat();
    assert_media_type(&server, None, &transport, "video/mp2t");
    assert_media_type(&server, None, &webm, "video/webm");
    assert_media_type(
        &server,
        Some("application/x-www-form-urlencoded"),
        &transport,
        "video/mp2t",
    );
    assert_media_type(
        &server,
        Some("Application/X-WWW-Form-URLEncoded; charset=utf-8"),
        &webm,
        "video/webm",
    );
}

#[test]
fn what_is_live_is_neither_stored_nor_served_in_ranges() {
    let server = demo();
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut client = Client::connect(server.address());
    client.send_head("GET", "/stream/demo", &["Range: bytes=2-3"]);
    let mut viewer = Viewer::of(client);
    server.await_viewers("demo", 1);
    source.send(b"hello");
    let head = viewer.head();
    assert_eq!(head.field("Cache-Control"), Some("no-store"));
    assert_eq!(head.field("Content-Range"), None);
    assert_eq!(head.field("Transfer-Encoding"), Some("chunked"));
    source.finish();
    viewer.assert_rest(b"hello");
}

#[test]
fn a_connection_goes_on_after_a_stream_that_ended_well() {
    let server = demo();
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(b"hello");
    source.finish();
    viewer.assert_rest(b"hello");
    viewer.into_client().assert_usable();
}

#[test]
fn head_tells_of_a_stream_without_its_bytes() {
    let server = demo();
    let mut client = Client::connect(server.address());
    assert_eq!(client.request("HEAD", "/stream/other", &[]).status(), 403);
    assert_eq!(client.request("HEAD", "/stream/demo", &[]).status(), 404);
    let mut source = Source::open_with(
        server.address(),
        "PUT",
        "/stream/demo",
        &["Content-Type: video/x-made-up"],
    );
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    source.send(b"hello");
    viewer.head();
    let response = client.request("HEAD", "/stream/demo", &[]);
    assert_eq!(response.status(), 200);
    assert_eq!(response.head.field("Content-Type"), Some("video/x-made-up"));
    assert_eq!(response.head.field("Cache-Control"), Some("no-store"));
    client.assert_usable();
    source.finish();
}

/// `curl -T -` asks so, and must get an answer that it can read. Whoever sends on while the refusal
/// is on its way reads it afterwards: nothing resets the connection under it.
#[test]
fn a_source_that_breaks_off_is_lost_to_its_viewers() {
    let server = demo();
    let media = media(1, 1000);
    type BreakOff = fn(Client);
    let ways: &[(&str, BreakOff)] = &[
        ("closes between chunks", |client| drop(client)),
        ("closes in a chunk's size", |mut client| client.send("10")),
        ("closes in a chunk", |mut client| client.send("10\r\nabc")),
        ("closes behind a chunk's data", |mut client| {
            client.send("3\r\nabc")
        }),
        (
            "closes behind the last chunk, without its CRLF",
            |mut client| client.send("0\r\n"),
        ),
        ("closes in the last CRLF", |mut client| {
            client.send("0\r\n\r")
        }),
        ("closes in the trailer", |mut client| {
            client.send("0\r\nX: y\r\n")
        }),
        ("sends no more", |mut client| {
            client.finish_sending();
            client.rest();
        }),
        ("sends no more behind the last chunk", |mut client| {
            client.send("0\r\n");
            client.finish_sending();
            client.rest();
        }),
        ("sends no chunk", |mut client| {
            client.send("nonsense\r\n");
            client.response("PUT").assert_problem(400, &[]);
        }),
    ];
    for (way, break_off) in ways {
        println!("{way}");
        let mut source = Source::open(server.address(), "/stream/demo");
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        let mut old_viewer = Client::connect(server.address());
        old_viewer.send("GET /stream/demo HTTP/1.0\r\n\r\n");
        server.await_viewers("demo", 2);
        source.send(&media);
        assert_eq!(viewer.read(1000), media);
        break_off(source.into_client());
        viewer.assert_lost(b"abc");
        assert_eq!(old_viewer.response("GET").end, End::Close);
        server.await_end_of_stream("demo");
    }
}

#[test]
fn a_body_shorter_than_its_length_is_lost() {
    let server = demo();
    let mut source = Client::connect(server.address());
    source.send_head(
        "PUT",
        "/stream/demo",
        &["Content-Length: 6", "Expect: 100-continue"],
    );
    assert_eq!(source.head().status, 100);
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send("hello");
    assert_eq!(viewer.read(5), b"hello");
    drop(source);
    viewer.assert_lost(b"");
}

#[test]
fn viewers_who_wait_for_the_first_byte_are_told_when_it_never_comes() {
    let server = demo();
    let source = Source::open(server.address(), "/stream/demo");
    let mut waiting = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.finish();
    waiting.assert_rest(b"");

    let source = Source::open(server.address(), "/stream/demo");
    let mut waiting = Client::connect(server.address());
    waiting.send_head("GET", "/stream/demo", &[]);
    server.await_viewers("demo", 1);
    drop(source);
    let got = String::from_utf8(waiting.rest()).expect("ASCII");
    assert!(
        !got.ends_with("0\r\n\r\n"),
        "a lost source looks complete: {got:?}"
    );
}
