//! The API: each call, what it answers, and what it refuses.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;
use serde_json::{Value, json};

/// All that a request can be refused for before it reaches its call, in the order of the contract.
#[test]
fn add_token_shows_the_sessions_tuples() {
    let server = Server::gated(&[]);
    let target = "/api/add-token?type=http&sessionid=demo";
    let tuple = json!({"sessionid": "demo", "host": null, "port": null});
    let added = server.request("POST", target);
    assert_eq!(added.status(), 201);
    assert_eq!(
        added.json(),
        json!({"sessionid": "demo", "tokens": [tuple]})
    );
    let again = server.request("POST", target);
    assert_eq!(again.status(), 200);
    assert_eq!(
        again.json(),
        json!({"sessionid": "demo", "tokens": [tuple]})
    );
    assert_eq!(server.tokens(), [tuple]);
}

#[test]
fn adding_to_a_session_adds_to_its_tuples_in_their_order() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let call = |query: &str, status: u16| {
        let response = server.request("POST", &format!("/api/add-token?{query}"));
        assert_eq!(response.status(), status, "{}", response.text());
        response.json()
    };
    let udp = |session: &str, host: &str, port: u16| json!({"sessionid": session, "host": host, "port": port});
    let http = |session: &str| json!({"sessionid": session, "host": null, "port": null});
    call(
        "type=rtp-udp&sessionid=a&udp-clients=192.0.2.9:5004,192.0.2.1:5006",
        201,
    );
    call("sessionid=b&type=http", 201);
    // A repeated entry counts once, and an old entry keeps its position.
    let added = call(
        "type=http,rtp-udp&sessionid=a&udp-clients=192.0.2.5:6000,192.0.2.9:5004,192.0.2.5:6000",
        201,
    );
    let tokens = added["tokens"].as_array().expect("an array");
    assert_eq!(
        tokens[..2],
        [udp("a", "192.0.2.9", 5004), udp("a", "192.0.2.1", 5006)]
    );
    assert_eq!(tokens.len(), 4);
    assert!(tokens.contains(&udp("a", "192.0.2.5", 6000)) && tokens.contains(&http("a")));
    call(
        "type=rtp-udp&sessionid=a&udp-clients=192.0.2.1:5006,192.0.2.9:5004",
        200,
    );

    let listed = server.tokens();
    assert_eq!(
        listed[..3],
        [
            udp("a", "192.0.2.9", 5004),
            udp("a", "192.0.2.1", 5006),
            http("b")
        ]
    );
    assert_eq!(listed[3..], tokens[2..]);
    for tuple in listed {
        let keys: Vec<&String> = tuple.as_object().expect("an object").keys().collect();
        assert_eq!(keys.len(), 3, "exactly sessionid, host and port: {keys:?}");
    }
}

#[test]
fn revoke_token_removes_all_tuples_of_its_session_and_no_other() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    server.admit("a");
    server.admit("b");
    server.request(
        "POST",
        "/api/add-token?type=rtp-udp&sessionid=a&udp-clients=192.0.2.1:5004,192.0.2.2:5004",
    );
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=a");
    assert_eq!(revoked.status(), 200);
    assert_eq!(revoked.json(), json!({"sessionid": "a", "revoked": 3}));
    assert_eq!(
        server.tokens(),
        [json!({"sessionid": "b", "host": null, "port": null})]
    );
    server
        .request("DELETE", "/api/revoke-token?sessionid=a")
        .assert_problem(404, &["sessionid"]);
}

#[test]
fn list_tokens_of_an_empty_table_is_an_empty_array() {
    let server = Server::gated(&[]);
    assert_eq!(server.request("GET", "/api/list-tokens").json(), json!([]));
    assert_eq!(server.request("GET", "/api/list-streams").json(), json!([]));
}

#[test]
fn list_streams_shows_what_runs() {
    let server = Server::gated(&[]);
    server.admit("demo");
    let before = unix_seconds();
    let source = Source::open_with(
        server.address(),
        "PUT",
        "/stream/demo",
        &["Content-Type: audio/x-made-up"],
    );
    let mut client = source.into_client();
    let address = client.local_address().to_string();
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    client.send("5\r\nhello\r\n");
    assert_eq!(viewer.read(5), b"hello");
    let stream = until("the figures have caught up", || {
        server
            .stream("demo")
            .filter(|stream| stream["bytes_sent"].as_u64() >= Some(5))
    });
    assert_eq!(
        stream["source"],
        json!({"protocol": "http", "address": address, "user_agent": null})
    );
    assert_eq!(stream["format"], Value::Null);
    assert_eq!(stream["content_type"], "audio/x-made-up");
    assert_eq!(stream["bytes_received"], 5);
    assert_eq!(stream["viewers"], 1);
    assert_eq!(stream["udp_clients"], 0);
    assert_eq!(stream["skips"], 0);
    assert!(stream["bitrate"].is_number(), "{stream}");
    let started_at = stream["started_at"].as_u64().expect("whole seconds");
    assert!(
        (before - 1..=unix_seconds() + 1).contains(&started_at),
        "{started_at}"
    );
    assert_eq!(server.streams().len(), 1);
}

fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

#[test]
fn abort_stream_ends_the_source_and_its_viewers_and_leaves_the_token() {
    let server = Server::gated(&[]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewers = [(); 3].map(|()| Viewer::ask(server.address(), "/stream/demo"));
    server.await_viewers("demo", 3);
    source.send(b"hello");
    for viewer in &mut viewers {
        assert_eq!(viewer.read(5), b"hello");
    }
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=demo");
    assert_eq!(aborted.status(), 200);
    assert_eq!(aborted.json(), json!({"sessionid": "demo", "viewers": 3}));
    for viewer in &mut viewers {
        viewer.assert_lost(b"");
    }
    let last_words = source.into_client().rest();
    assert!(
        !last_words.starts_with(b"HTTP/1.1 200"),
        "the source is told that all went well"
    );
    server
        .request("DELETE", "/api/abort-stream?sessionid=demo")
        .assert_problem(404, &["sessionid"]);
    Source::open(server.address(), "/stream/demo").finish();
}

#[test]
fn a_revoked_token_ends_no_request_that_was_admitted() {
    let server = Server::gated(&[]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    assert_eq!(
        server
            .request("DELETE", "/api/revoke-token?sessionid=demo")
            .status(),
        200
    );
    server
        .request("GET", "/stream/demo")
        .assert_problem(403, &[]);
    source.send(b"goes on");
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(b"goes on");
}

/// Web frameworks send a form or JSON by default.
#[test]
fn a_call_with_a_body_hears_where_its_parameters_go() {
    let server = Server::gated(&[]);
    let mut client = Client::connect(server.address());
    let body = "sessionid=a&type=http";
    client.send(format!(
        "POST /api/add-token HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = client.response("POST");
    answer.assert_problem(400, &["'type' is missing", "parameters go in the query"]);
    assert!(answer.text().ends_with("}\n"));
    let answer = server.request("POST", "/api/add-token");
    assert!(!answer.text().contains("in the query"), "{}", answer.text());
}

#[test]
fn unknown_repeated_and_missing_parameters_are_refused_by_name() {
    let server = Server::gated(&[]);
    let cases: &[(&str, &str, &[&str])] = &[
        ("POST", "/api/add-token", &["type"]),
        ("POST", "/api/add-token?type=http", &["sessionid"]),
        ("POST", "/api/add-token?sessionid=a", &["type"]),
        ("POST", "/api/add-token?type=&sessionid=a", &["type"]),
        (
            "POST",
            "/api/add-token?type=rtmp&sessionid=a",
            &["type", "rtmp"],
        ),
        ("POST", "/api/add-token?type=http,&sessionid=a", &["type"]),
        (
            "POST",
            "/api/add-token?type=HTTP&sessionid=a",
            &["type", "HTTP"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=a&sessionid=b",
            &["sessionid"],
        ),
        (
            "POST",
            "/api/add-token?type=http&type=http&sessionid=a",
            &["type"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=a&session=b",
            &["session"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=a&Type=http",
            &["Type"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=a&udp-clients=192.0.2.1:5004",
            &["udp-clients", "rtp-udp"],
        ),
        (
            "POST",
            "/api/add-token?type=rtp-udp&sessionid=a",
            &["udp-clients"],
        ),
        (
            "POST",
            "/api/add-token?type=rtp-udp&sessionid=a&udp-clients=",
            &["udp-clients"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=",
            &["sessionid"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=%0a",
            &["sessionid"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=%ff",
            &["sessionid"],
        ),
        (
            "POST",
            "/api/add-token?type=http&sessionid=%zz",
            &["sessionid"],
        ),
        ("DELETE", "/api/revoke-token", &["sessionid"]),
        (
            "DELETE",
            "/api/revoke-token?sessionid=a&sessionid=b",
            &["sessionid"],
        ),
        ("DELETE", "/api/revoke-token?sessionid=a&typo=b", &["typo"]),
        ("DELETE", "/api/abort-stream", &["sessionid"]),
        ("DELETE", "/api/abort-stream?sessionid=a&typo=b", &["typo"]),
        ("GET", "/api/list-tokens?sessionid=a", &["sessionid"]),
        ("GET", "/api/list-streams?typo", &["typo"]),
    ];
    for (method, target, says) in cases {
        println!("{method} {target}");
        server.request(method, target).assert_problem(400, says);
    }
    assert_eq!(
        server.tokens(),
        [] as [Value; 0],
        "a refused call has granted something"
    );
}

#[test]
fn a_query_is_percent_decoded_and_a_plus_is_a_plus() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let added = server.request(
        "POST",
        "/api/add-token?type=%68ttp&sessionid=a+b%20c%2Fd%26%C3%BC",
    );
    assert_eq!(added.status(), 201);
    assert_eq!(added.json()["sessionid"], "a+b c/d&ü");
    assert_eq!(server.tokens()[0]["sessionid"], "a+b c/d&ü");
    let list = "192.0.2.1%3A5004,192.0.2.%32:5004";
    let added = server.request(
        "POST",
        &format!("/api/add-token?type=rtp-udp&sessionid=b&udp-clients={list}"),
    );
    assert_eq!(
        added.json()["tokens"][1],
        json!({"sessionid": "b", "host": "192.0.2.2", "port": 5004})
    );
}

#[test]
fn the_earlier_paths_answer_and_say_that_they_are_deprecated() {
    let server = Server::gated(&[]);
    let calls = [
        ("POST", "/add-token?type=http&sessionid=a", 201),
        ("GET", "/list-tokens", 200),
        ("GET", "/list-streams", 200),
        ("DELETE", "/abort-stream?sessionid=a", 404),
        ("DELETE", "/revoke-token?sessionid=a", 200),
    ];
    for (method, target, status) in calls {
        let earlier = server.request(method, target);
        assert_eq!(
            earlier.status(),
            status,
            "{method} {target}: {}",
            earlier.text()
        );
        assert!(
            earlier.head.field("Deprecation").is_some(),
            "{method} {target}"
        );
    }
    let current = server.request("GET", "/api/list-tokens");
    assert_eq!(current.head.field("Deprecation"), None);
}

#[test]
fn head_is_answered_like_get_but_for_the_body() {
    let server = Server::gated(&[]);
    server.admit("a");
    let mut client = Client::connect(server.address());
    for target in ["/api/list-tokens", "/api/list-streams"] {
        let head = client.request("HEAD", target, &[]);
        assert_eq!(head.status(), 200);
        assert_eq!(head.head.field("Content-Type"), Some("application/json"));
        client.assert_usable();
    }
    let refused = client.request("HEAD", "/nowhere", &[]);
    assert_eq!(refused.status(), 404);
    assert_eq!(
        refused.head.field("Content-Type"),
        Some("application/problem+json")
    );
    client.assert_usable();
}

/// Watching and publishing are not the API.
#[test]
fn tokens_have_a_limit_and_a_call_beyond_it_adds_nothing() {
    let server = Server::gated(&["--tokens=3", "--rtp=127.0.0.1:0"]);
    server.admit("a");
    let target =
        "/api/add-token?type=rtp-udp&sessionid=b&udp-clients=192.0.2.1:1,192.0.2.1:2,192.0.2.1:3";
    let refused = server.request("POST", target);
    refused.assert_problem(503, &[]);
    assert!(refused.head.field("Retry-After").is_some());
    assert_eq!(server.tokens().len(), 1);
    let target = "/api/add-token?type=rtp-udp&sessionid=b&udp-clients=192.0.2.1:1,192.0.2.1:2";
    assert_eq!(server.request("POST", target).status(), 201);
}
