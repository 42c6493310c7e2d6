//! `--icecast`: sources as Icecast's clients send them.

use crate::support::client::Client;
use crate::support::events::Follower;
use crate::support::media::media;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};

/// `source:demo` and `source:other`.
const DEMO: &str = "Authorization: Basic c291cmNlOmRlbW8=";
const OTHER: &str = "Authorization: Basic c291cmNlOm90aGVy";

fn demo() -> Server {
    let server = Server::gated(&["--icecast"]);
    server.admit("demo");
    server
}

/// Publishes over a connection that has been told to go on, watches, and ends the body with the
/// connection.
fn stream_until_close(server: &Server, mut source: Client) {
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    let media = media(1, 300_000);
    source.send(&media);
    source.finish_sending();
    viewer.assert_rest(&media);
    server.await_end_of_stream("demo");
}

/// Readers of events see it like any other source.
#[test]
fn a_source_that_is_refused_is_told_of() {
    let server = demo();
    let mut follower = Follower::ask(server.address(), "", "");
    follower.until("snapshot-end");
    let mut source = Client::connect(server.address());
    source.send(format!("SOURCE /live.ogg HTTP/1.0\r\n{OTHER}\r\n\r\n"));
    assert_eq!(source.head().status, 403);
    let refused = follower.next().expect("it goes on");
    assert_eq!(refused.event, "publisher-refused");
    assert_eq!(refused.data["status"], 403);
    assert!(refused.data["session"].is_string(), "{}", refused.data);
}

#[test]
fn source_publishes_to_any_mount_point_by_its_password() {
    let server = demo();
    for target in ["/live.ogg", "/stream/demo"] {
        let mut source = Client::connect(server.address());
        source.send(format!(
            "SOURCE {target} HTTP/1.0\r\n{DEMO}\r\nContent-Type: audio/ogg\r\nice-name: x\r\n\r\n"
        ));
        assert_eq!(source.head().status, 200);
        assert_eq!(
            server.stream("demo").expect("it runs")["content_type"],
            "audio/ogg"
        );
        stream_until_close(&server, source);
    }
}

/// As the oldest clients ask: each their version, and each their way to end a line.
#[test]
fn old_sources_publish_in_their_own_version_and_with_their_own_line_ends() {
    let server = demo();
    for (version, end) in [("ICE/1.0", "\n"), ("ICE/1.0", "\r\n"), ("HTTP/1.0", "\n")] {
        let mut source = Client::connect(server.address());
        let lines = [
            &format!("SOURCE /live.ogg {version}"),
            "content-type: audio/ogg",
            DEMO,
            "ice-name: x",
            "",
            "",
        ];
        source.send(lines.join(end));
        assert_eq!(source.head().status, 200, "{version} {end:?}");
        stream_until_close(&server, source);
    }
}

/// A line that ends without CR hides no second request.
#[test]
fn line_ends_of_old_sources_are_for_bodies_that_end_with_the_connection_only() {
    let server = demo();
    for head in [
        format!("SOURCE /live.ogg ICE/1.0\n{DEMO}\nContent-Length: 5\n\nhello"),
        format!("SOURCE /live.ogg HTTP/1.1\r\nHost: h\r\n{DEMO}\nContent-Length: 5\r\n\r\nhello"),
        format!(
            "SOURCE /live.ogg HTTP/1.1\r\nHost: h\r\n{DEMO}\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        format!("PUT /live.ogg HTTP/1.0\n{DEMO}\n\n"),
        "GET /nowhere HTTP/1.0\n\n".to_owned(),
        "GET /nowhere ICE/1.0\r\n\r\n".to_owned(),
    ] {
        let mut client = Client::connect(server.address());
        client.send(&head);
        client.send("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response("GET").status(), 400, "{head:?}");
        client.assert_closed();
    }
}

#[test]
fn put_without_framing_publishes_once_it_may_go_on() {
    let server = demo();
    let mut source = Client::connect(server.address());
    source.send_head("PUT", "/live.ogg", &[DEMO, "Expect: 100-continue"]);
    assert_eq!(source.head().status, 100);
    stream_until_close(&server, source);
}

#[test]
fn who_has_no_right_password_is_refused() {
    let server = demo();
    let ask = |method: &str, target: &str, fields: &[&str]| {
        Client::connect(server.address()).request(method, target, fields)
    };
    let unknown = ask("SOURCE", "/live.ogg", &[]);
    unknown.assert_problem(401, &["password"]);
    assert!(unknown.head.field("www-authenticate").is_some());
    ask("SOURCE", "/stream/demo", &[OTHER]).assert_problem(403, &["path"]);
    ask("SOURCE", "/live.ogg", &[OTHER]).assert_problem(403, &["token"]);
    ask("PUT", "/live.ogg", &[DEMO]).assert_problem(411, &[]);
    let _source = Source::open(server.address(), "/stream/demo");
    ask("SOURCE", "/live.ogg", &[DEMO]).assert_problem(409, &[]);
}

/// The bytes that a refused source still sends are never parsed as a request.
#[test]
fn what_follows_a_refused_source_is_no_request() {
    let call =
        "POST /api/add-token?type=http&sessionid=smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let expect = "Expect: 100-continue";
    for options in [&["--icecast"][..], &[]] {
        let server = Server::gated(options);
        server.admit("demo");
        for (method, target, fields) in [
            ("SOURCE", "/live.ogg", &[OTHER][..]),
            ("SOURCE", "/live.ogg", &[]),
            ("SOURCE", "/stream/demo", &[OTHER]),
            ("SOURCE", "/api/list-tokens", &[OTHER]),
            ("PUT", "/live.ogg", &[OTHER]),
            ("PUT", "/live.ogg", &[OTHER, expect]),
            ("PUT", "/stream/demo", &[DEMO]),
            ("PUT", "/stream/demo", &[]),
            ("PUT", "/stream/demo", &[expect]),
            ("PUT", "/stream/other", &[expect]),
            ("POST", "/stream/demo", &[expect]),
        ] {
            let mut source = Client::connect(server.address());
            source.send_head(method, target, fields);
            source.send(call);
            let refusal = source.head();
            assert!(refusal.status >= 400, "{method} {target} {fields:?}");
            assert!(refusal.closes(), "{method} {target} {fields:?}");
            source.finish_sending();
            let rest = String::from_utf8_lossy(&source.rest()).into_owned();
            assert!(
                !rest.contains("HTTP/1.1"),
                "{method} {target} {fields:?}: {rest}"
            );
        }
        assert_eq!(server.tokens().len(), 1);
    }
}

#[test]
fn without_the_option_there_is_none_of_it() {
    let server = Server::gated(&[]);
    server.admit("demo");
    let ask = |method: &str, target: &str, fields: &[&str]| {
        Client::connect(server.address()).request(method, target, fields)
    };
    ask("SOURCE", "/stream/demo", &[DEMO]).assert_problem(405, &[]);
    ask("PUT", "/live.ogg", &[DEMO, "Expect: 100-continue"]).assert_problem(404, &[]);
    ask("PUT", "/stream/demo", &[DEMO, "Expect: 100-continue"]).assert_problem(411, &[]);
}
