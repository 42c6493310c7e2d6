//! Which streams may begin and be watched, and how a refusal reaches its client.

use crate::support::client::{Client, request};
use crate::support::media::media;
use crate::support::server::{Server, demo};
use crate::support::streaming::{Source, Viewer, chunk};

#[test]
fn without_a_token_nothing_is_told_about_whether_a_stream_runs() {
    let server = demo();
    let _source = Source::open(server.address(), "/stream/demo");
    assert_eq!(
        server
            .request("DELETE", "/api/revoke-token?sessionid=demo")
            .status(),
        200
    );
    let running = server.request("GET", "/stream/demo");
    running.assert_problem(403, &[]);
    let absent = server.request("GET", "/stream/none");
    absent.assert_problem(403, &[]);
    assert_eq!(running.body, absent.body);
    assert!(!running.text().contains("demo"), "a sessionid is a secret");
    server.admit("none");
    server
        .request("GET", "/stream/none")
        .assert_problem(404, &[]);
}

#[test]
fn an_rtp_token_admits_nobody_over_http() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let target = "/api/add-token?type=rtp-udp&sessionid=demo&udp-clients=127.0.0.1:5004";
    assert_eq!(server.request("POST", target).status(), 201);
    server
        .request("GET", "/stream/demo")
        .assert_problem(403, &[]);
    let (_, verdict) = Source::ask(server.address(), "PUT", "/stream/demo", &[]);
    assert_eq!(verdict.status, 403);
}

#[test]
fn a_session_has_one_source_and_is_free_when_that_has_ended() {
    let server = demo();
    for is_complete in [true, false] {
        let mut first = Source::open(server.address(), "/stream/demo");
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        server.await_viewers("demo", 1);
        first.send(b"hello");
        for method in ["PUT", "POST"] {
            let (mut second, verdict) = Source::ask(server.address(), method, "/stream/demo", &[]);
            assert_eq!(verdict.status, 409);
            assert!(verdict.closes(), "its body is not wanted");
            second.finish_sending();
            let said = String::from_utf8(second.rest()).expect("UTF-8");
            assert!(said.contains("--takeover"), "{said}");
        }
        first.send(b" world");
        if is_complete {
            first.finish();
            viewer.assert_rest(b"hello world");
        } else {
            drop(first);
            viewer.assert_lost(b"hello world");
        }
        server.await_end_of_stream("demo");
    }
    Source::open(server.address(), "/stream/demo").finish();
}

#[test]
fn a_length_is_required() {
    let server = demo();
    for method in ["PUT", "POST"] {
        server
            .request(method, "/stream/demo")
            .assert_problem(411, &[]);
    }
    let mut old = Client::connect(server.address());
    old.send("PUT /stream/demo HTTP/1.0\r\n\r\n");
    old.response("PUT").assert_problem(411, &[]);
}

#[test]
fn heads_and_targets_have_bounds_and_what_is_not_spoken_is_said() {
    let server = Server::start(&["--head-bytes=4096"]);
    let ask = |target: &str, fields: &[&str]| request(server.address(), "GET", target, fields);
    ask(&format!("/{}", "x".repeat(5000)), &[]).assert_problem(414, &[]);
    ask("/nowhere", &[&format!("X-Large: {}", "x".repeat(5000))]).assert_problem(431, &[]);
    ask("/nowhere", &["X: x"; 200]).assert_problem(431, &[]);
    ask("/nowhere", &["Expect: the-impossible"]).assert_problem(417, &["the-impossible"]);
    ask("/nowhere", &["Transfer-Encoding: gzip"]).assert_problem(501, &["gzip"]);
    let mut other = Client::connect(server.address());
    other.send("GET /nowhere HTTP/2.0\r\nHost: h\r\n\r\n");
    other.response("GET").assert_problem(505, &[]);
    ask(&format!("/{}", "x".repeat(500)), &["X: x"; 20]).assert_problem(404, &[]);
}

#[test]
fn an_expectation_is_answered_by_the_verdict() {
    let server = demo();
    let _source = Source::open(server.address(), "/stream/demo");
    for (target, status) in [
        ("/stream/demo", 409),
        ("/stream/other", 403),
        ("/stream/%00", 400),
        ("/nowhere", 404),
        ("/api/list-tokens", 405),
    ] {
        let mut client = Client::connect(server.address());
        client.send_head(
            "PUT",
            target,
            &["Transfer-Encoding: chunked", "Expect: 100-continue"],
        );
        let refused = client.response("PUT");
        refused.assert_problem(status, &[]);
        assert!(refused.head.closes(), "{target}: the body might still come");
        client.finish_sending();
        client.assert_closed();
    }
}

#[test]
fn a_refusal_is_readable_behind_a_mebibyte_of_unwanted_body() {
    let server = demo();
    let _source = Source::open(server.address(), "/stream/demo");
    let body = media(1, (1 << 20) - 4096);
    for (target, status) in [
        ("/stream/demo", 409),
        ("/stream/other", 403),
        ("/nowhere", 404),
        ("/api/list-tokens", 405),
    ] {
        for framing in ["Transfer-Encoding: chunked", "Content-Length: 1000000000"] {
            println!("{target}, {framing}");
            let mut client = Client::connect(server.address());
            client.send_head("PUT", target, &[framing]);
            // With one call, since it is taken for two seconds only.
            let pieces = body.chunks(16 * 1024);
            match framing.starts_with("Transfer") {
                true => client.send(pieces.flat_map(chunk).collect::<Vec<u8>>()),
                false => client.send(&body),
            }
            client.response("PUT").assert_problem(status, &[]);
            client.finish_sending();
            client.assert_closed();
        }
    }
}

#[test]
fn a_refusal_comes_while_the_body_is_still_on_its_way() {
    let server = demo();
    let piece = media(1, 16 * 1024);
    let mut client = Client::connect(server.address());
    client.send_head("PUT", "/stream/other", &["Transfer-Encoding: chunked"]);
    client.send(chunk(&piece));
    client.response("PUT").assert_problem(403, &[]);
    for _ in 0..32 {
        client.send(chunk(&piece));
    }
    client.finish_sending();
    client.assert_closed();
}

#[test]
fn a_stream_has_two_targets_and_many_spellings() {
    let server = Server::gated(&[]);
    server.admit("a%2Fb%20%C3%BC");
    let spellings = [
        "/stream/a%2Fb%20%C3%BC",
        "/stream/%61%2fb%20%c3%bc",
        "/stream?sessionid=a/b%20%C3%BC",
        "/stream?sessionid=a%2Fb%20%C3%BC",
        "/stream?sessionid=%61%2fb%20%c3%bc",
    ];
    for into in spellings {
        let mut source = Source::open(server.address(), into);
        let mut viewers = spellings.map(|out| Viewer::ask(server.address(), out));
        server.await_viewers("a/b ü", spellings.len());
        source.send(b"hello");
        assert_eq!(source.finish().json()["sessionid"], "a/b ü");
        viewers
            .iter_mut()
            .for_each(|viewer| viewer.assert_rest(b"hello"));
    }
    server
        .request("GET", "/stream/a/b%20%C3%BC")
        .assert_problem(404, &[]);
}

#[test]
fn sessionids_are_1_to_256_bytes_of_utf_8_without_control_characters() {
    let server = Server::start(&[]);
    let long = "x".repeat(256);
    let wide = "%C3%BC".repeat(128);
    let good = [
        "a",
        "%20",
        "+",
        ".",
        "..",
        "%2E%2E",
        "%F0%9F%8E%A5",
        "a%25b",
        &long,
        &wide,
    ];
    let too_long = "x".repeat(257);
    let too_wide = "%C3%BC".repeat(129);
    let bad = [
        "%00",
        "a%0Ab",
        "a%0Db",
        "%7F",
        "%C2%85",
        "%1B",
        "%FF",
        "%C3",
        "%ED%A0%80",
        "%C0%AF",
        "%",
        "%4",
        "%zz",
        &too_long,
        &too_wide,
    ];
    for (ids, status) in [(&good[..], 404), (&bad[..], 400)] {
        for id in ids {
            for target in [format!("/stream/{id}"), format!("/stream?sessionid={id}")] {
                println!("{target}");
                server.request("GET", &target).assert_problem(status, &[]);
            }
        }
    }
    for target in [
        "/stream",
        "/stream?",
        "/stream?sessionid=",
        "/stream?sessionid",
        "/stream?session=a",
    ] {
        println!("{target}");
        server
            .request("GET", target)
            .assert_problem(400, &["sessionid"]);
    }
    for target in [
        "/stream?sessionid=a&sessionid=a",
        "/stream?sessionid=a&x=1",
        "/stream/a?x=1",
    ] {
        println!("{target}");
        server.request("GET", target).assert_problem(400, &[]);
    }
}
