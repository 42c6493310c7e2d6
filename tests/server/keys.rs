//! Keys: tokens of another name than their session, with a direction, an end and limits.

use crate::support;
use std::time::{Duration, Instant};

use crate::support::client::Client;
use crate::support::response::Response;
use crate::support::server::Server;
use crate::support::streaming::{Source, watch};
use crate::support::until;
use serde_json::{Value, json};

fn revoke(server: &Server, name: &str) -> Response {
    let target = format!("/api/revoke-token?sessionid={name}&abort=true");
    server.request("DELETE", &target)
}

fn put(server: &Server, name: &str) -> Response {
    let target = format!("/stream/{name}");
    let (mut client, head) = Source::ask(server.address(), "PUT", &target, &[]);
    assert_ne!(head.status, 100, "it is let in");
    client.send("0\r\n\r\n");
    let mut body = Vec::new();
    let mut of_head = support::response::Body::new("PUT", &head);
    let end = client.read_body(&mut of_head, &mut body, |_| false);
    Response { head, body, end }
}

/// A session `show` with a key to publish and two to watch.
fn show(options: &[&str]) -> Server {
    let server = Server::gated(options);
    server.add_token("sessionid=send&for=show&direction=in");
    server.add_token("sessionid=one&for=show&direction=out");
    server.add_token("sessionid=two&for=show&direction=out");
    server
}

/// Keys cannot be blocked: a block of a key would keep nobody out of the session.
#[test]
fn a_key_has_no_stream_to_abort() {
    let server = show(&[]);
    let mut source = Source::open(server.address(), "/stream/send");
    let mut viewer = watch(&server, "one");
    server.await_viewers("show", 1);
    for query in ["", "&block=60"] {
        let target = format!("/api/abort-stream?sessionid=one{query}");
        server
            .request("DELETE", &target)
            .assert_problem(409, &["it is a key", "revoke-token"]);
    }
    source.send(b"media");
    assert_eq!(viewer.read(5), b"media");
    // What ran by that name before it was one can be ended still.
    server.admit("tv");
    let _older = Source::open(server.address(), "/stream/tv");
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=tv");
    assert_eq!(revoked.status(), 200);
    server.add_token("sessionid=tv&for=show&direction=out");
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=tv&block=60");
    assert_eq!(aborted.status(), 200);
}

#[test]
fn a_key_opens_its_session_one_way_and_says_so_the_other_way() {
    let server = show(&["--takeover"]);
    server
        .request("GET", "/stream/show")
        .assert_problem(403, &["no http token"]);
    put(&server, "show").assert_problem(403, &["no http token"]);
    put(&server, "one").assert_problem(403, &["for watching only"]);
    server
        .request("GET", "/stream/send")
        .assert_problem(403, &["for publishing only"]);
    server
        .request("GET", "/stream/one")
        .assert_problem(404, &[]);
    let mut source = Source::open(server.address(), "/stream/send");
    let mut viewers = [watch(&server, "one"), watch(&server, "two")];
    server.await_viewers("show", 2);
    source.send(b"first");
    for viewer in &mut viewers {
        assert_eq!(viewer.read(5), b"first");
    }
    // A key for watching does not take over the source, even with --takeover.
    put(&server, "one").assert_problem(403, &["for watching only"]);
    source.send(b"second");
    for viewer in &mut viewers {
        assert_eq!(viewer.read(6), b"second");
    }
    let mut other = Source::open(server.address(), "/stream/send");
    other.send(b"x");
    let answer = other.finish();
    // A key does not tell what it opens.
    assert_eq!(
        answer.json(),
        json!({"sessionid": "send", "bytes_received": 1})
    );
}

#[test]
fn a_revoked_key_ends_whoever_came_by_it_and_nobody_else() {
    let server = show(&[]);
    let mut source = Source::open(server.address(), "/stream/send");
    let mut one = [watch(&server, "one"), watch(&server, "one")];
    let mut two = watch(&server, "two");
    server.await_viewers("show", 3);
    source.send(b"first");
    assert_eq!(two.read(5), b"first");
    let revoked = revoke(&server, "one");
    assert_eq!(revoked.json(), json!({"sessionid": "one", "revoked": 1}));
    for viewer in &mut one {
        viewer.assert_lost(b"first");
    }
    server
        .request("GET", "/stream/one")
        .assert_problem(403, &["no http token"]);
    server.await_viewers("show", 1);
    let line = server.await_line(&["event=viewer-cut", "reason=token"]);
    assert!(!line.contains("one"), "{line}");
    source.send(b"second");
    assert_eq!(two.read(6), b"second");
    // The source's own key is over: the source gets an answer, and the stream ends.
    assert_eq!(revoke(&server, "send").status(), 200);
    let refused = source.into_client().response("PUT");
    refused.assert_problem(403, &["its token was revoked"]);
    two.assert_lost(b"");
    server.await_end_of_stream("show");
    assert_eq!(revoke(&server, "send").status(), 404);
    // The session has none of its own, but a key still.
    revoke(&server, "show").assert_problem(404, &["no tokens of its own", "keys", "list-tokens"]);
}

/// Without abort nobody is ended, and a session's own token ends its stream, as ever.
#[test]
fn a_sessions_own_token_is_what_it_was() {
    let server = show(&[]);
    server.add_token("sessionid=show");
    let mut source = Source::open(server.address(), "/stream/show");
    let mut one = watch(&server, "one");
    server.await_viewers("show", 1);
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=one");
    assert_eq!(revoked.status(), 200);
    source.send(b"first");
    assert_eq!(one.read(5), b"first");
    assert_eq!(revoke(&server, "show").status(), 200);
    one.assert_lost(b"");
    server.await_end_of_stream("show");
}

#[test]
fn what_is_expired_lets_nobody_in_and_nobody_out() {
    let server = show(&[]);
    server.add_token("sessionid=short&for=show&direction=out&expires=3600");
    let mut source = Source::open(server.address(), "/stream/send");
    let mut inside = watch(&server, "short");
    server.await_viewers("show", 1);
    server.add_token("sessionid=short&for=show&direction=out&expires=1");
    until("the key is over", || {
        let status = server.request("HEAD", "/stream/short").status();
        (status == 403).then_some(())
    });
    server
        .request("GET", "/stream/short")
        .assert_problem(403, &["has expired"]);
    server.await_line(&["event=token-over", "session="]);
    source.send(b"still");
    assert_eq!(inside.read(5), b"still");
    server.add_token("sessionid=short&for=show&direction=out&expires=3600");
    let mut again = watch(&server, "short");
    source.send(b"more");
    assert_eq!(inside.read(4), b"more");
    assert_eq!(
        again.read(1),
        b"s",
        "from the newest point at which it can begin"
    );
}

#[test]
fn what_ends_ends_who_is_inside() {
    let server = show(&["--wait=60"]);
    let mut source = Source::open(server.address(), "/stream/send");
    server.add_token("sessionid=ends&for=show&direction=out&ends=3600");
    let mut viewer = watch(&server, "ends");
    let mut other = watch(&server, "two");
    server.await_viewers("show", 2);
    source.send(b"first");
    server.add_token("sessionid=ends&for=show&direction=out&ends=1");
    viewer.assert_lost(b"first");
    server.await_viewers("show", 1);
    source.send(b"second");
    assert_eq!(other.read(11), b"firstsecond");
    // A source, and a waiting viewer.
    server.add_token("sessionid=late&for=later&direction=both&ends=1");
    let waiting = watch(&server, "late");
    let refused = waiting.into_client().response("GET");
    refused.assert_problem(403, &["has expired"]);
    server.add_token("sessionid=sends&for=later&direction=in&ends=3600");
    let source = Source::open(server.address(), "/stream/sends");
    server.add_token("sessionid=sends&for=later&direction=in&ends=1");
    let refused = source.into_client().response("PUT");
    refused.assert_problem(403, &["its token has ended"]);
    server.await_end_of_stream("later");
}

/// Connected clients follow the current limits of their token.
#[test]
fn an_end_that_is_put_off_or_brought_forward_counts_for_who_is_inside() {
    /// Seconds, in which somebody can come in however slow this machine is.
    const FIRST: u64 = 5;
    let server = show(&[]);
    let mut source = Source::open(server.address(), "/stream/send");
    server.add_token(&format!(
        "sessionid=off&for=show&direction=out&ends={FIRST}"
    ));
    let mut off = watch(&server, "off");
    server.await_viewers("show", 1);
    server.add_token("sessionid=off&for=show&direction=out&ends=3600");
    let began = Instant::now();
    server.add_token("sessionid=one&for=show&direction=out&ends=3600");
    let mut forward = watch(&server, "one");
    server.await_viewers("show", 2);
    source.send(b"first");
    server.add_token(&format!(
        "sessionid=one&for=show&direction=out&ends={FIRST}"
    ));
    forward.assert_lost(b"first");
    // By then the other's first end has come, too.
    assert!(began.elapsed() >= Duration::from_secs(FIRST));
    source.send(b"on");
    assert_eq!(off.read(7), b"firston");
}

#[test]
fn so_many_watch_by_a_key_and_so_many_a_session() {
    let server = show(&[]);
    server.add_token("sessionid=one&for=show&direction=out&max-viewers=2");
    let mut source = Source::open(server.address(), "/stream/send");
    source.send(b"x");
    let first = watch(&server, "one");
    let _second = watch(&server, "one");
    server.await_viewers("show", 2);
    let full = server.request("GET", "/stream/one");
    full.assert_problem(503, &["max-viewers"]);
    assert!(full.head.field("Retry-After").is_some());
    let _other = watch(&server, "two");
    server.await_viewers("show", 3);
    drop(first);
    server.await_viewers("show", 2);
    let _third = watch(&server, "one");
    server.await_viewers("show", 3);
    // For the session as a whole, where the token is its own.
    server.add_token("sessionid=show&direction=in&max-viewers=3");
    server
        .request("GET", "/stream/two")
        .assert_problem(503, &["this session"]);
}

/// Each who waited comes in by its own key, or not.
#[test]
fn who_waits_is_asked_again_by_its_own_key() {
    let server = show(&["--wait=60"]);
    let mut one = watch(&server, "one");
    let two = watch(&server, "two");
    until("both wait", || {
        let metrics = server.request("GET", "/metrics").text();
        metrics.contains("tollgate_waiting_viewers 2").then_some(())
    });
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=two");
    assert_eq!(revoked.status(), 200);
    let mut source = Source::open(server.address(), "/stream/send");
    let refused = two.into_client().response("GET");
    refused.assert_problem(403, &["no http token"]);
    source.send(b"first");
    assert_eq!(one.read(5), b"first");
}

#[test]
fn a_source_is_slowed_to_its_rate_and_not_cut() {
    let server = Server::gated(&["--source-idle-time=1"]);
    // 100,000 bytes a second, and as many at once to begin with.
    server.add_token("sessionid=slow&max-bitrate=800000");
    let media = vec![b'x'; 300_000];
    let began = Instant::now();
    let mut client = Client::connect(server.address());
    // The client sends everything at once. The server reads slowly.
    let head = "PUT /stream/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n";
    client.send([head.as_bytes(), &media].concat());
    let answer = client.response("PUT");
    assert_eq!(answer.json()["bytes_received"], 300_000);
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(1_900),
        "it took {took:?} for what lasts 2 s"
    );
}

#[test]
fn bad_terms_are_refused_by_name_and_add_nothing() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    for (query, words) in [
        ("for=show", &["direction is missing"][..]),
        ("for=a%zz&direction=out", &["'for'", "hexadecimal"]),
        ("direction=up", &["direction", "'up'"]),
        ("expires=0", &["expires", "'0'", "number of seconds"]),
        ("ends=tomorrow", &["ends", "'tomorrow'", "such as"]),
        ("max-viewers=1e3", &["max-viewers", "'1e3'"]),
        ("max-bitrate=1K", &["max-bitrate", "8192"]),
        ("note=a%0ab", &["note", "control"]),
    ] {
        let target = format!("/api/add-token?type=http&sessionid=k&{query}");
        server.request("POST", &target).assert_problem(400, words);
    }
    let itself = "/api/add-token?type=http&sessionid=k&for=k&direction=out";
    server
        .request("POST", itself)
        .assert_problem(409, &["for:", "itself"]);
    assert_eq!(server.tokens(), [Value::Null; 0]);
}

#[test]
fn details_are_listed_for_who_asks_and_the_plain_list_has_three_keys() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    server.add_token("sessionid=k&for=show&direction=out&expires=2100-01-01T00:00:00%2B01:00&max-viewers=5&max-bitrate=8M&note=desk%203",
    );
    server.request(
        "POST",
        "/api/add-token?type=rtp-udp&sessionid=show&udp-clients=192.0.2.1:5004",
    );
    let plain = json!([
        {"sessionid": "k", "host": null, "port": null},
        {"sessionid": "show", "host": "192.0.2.1", "port": 5004},
    ]);
    for target in ["/api/list-tokens", "/api/list-tokens?details=0"] {
        assert_eq!(server.request("GET", target).json(), plain);
    }
    let detailed = server.request("GET", "/api/list-tokens?details=1").json();
    assert_eq!(
        detailed[0],
        json!({"sessionid": "k", "host": null, "port": null, "session": detailed[0]["session"],
            "direction": "out", "for": "show", "expires": 4_102_441_200_u64, "ends": null,
            "max_viewers": 5, "max_bitrate": 8 << 20, "note": "desk 3"})
    );
    assert_eq!(detailed[1]["host"], "192.0.2.1");
    assert_eq!(detailed[1]["direction"], Value::Null);
    assert_eq!(detailed[1].as_object().map(|row| row.len()), Some(11));
    server
        .request("GET", "/api/list-tokens?details=2")
        .assert_problem(400, &["details", "'2'"]);
}

/// A lowered limit holds for viewers that wait, with a key and with the session's own sessionid.
#[test]
fn as_many_who_have_waited_watch_as_may_when_the_stream_begins() {
    for (name, terms) in [("show", "show"), ("key", "key&for=show&direction=out")] {
        let server = Server::start(&["--token-server=127.0.0.0/8", "--wait=60"]);
        server.add_token("sessionid=send&for=show&direction=in");
        server.add_token(&format!("sessionid={terms}&max-viewers=4"));
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let mut client = Client::connect(server.address());
            client.send_head("GET", &format!("/stream/{name}"), &[]);
            waiting.push(client);
            until("it waits", || {
                let rows = server.request("GET", "/api/list-viewers").json();
                (rows.as_array()?.len() == waiting.len()).then_some(())
            });
        }
        server.add_token(&format!("sessionid={terms}&max-viewers=2"));
        let mut source = Source::open(server.address(), "/stream/send");
        source.send(b"begins");
        let mut answers: Vec<u16> = waiting
            .iter_mut()
            .map(|client| client.head().status)
            .collect();
        answers.sort_unstable();
        assert_eq!(answers, [200, 200, 503, 503], "{name}");
    }
}

/// An expired right to publish does not come back with a right to watch, nor its end with it; and
/// a call that names another direction changes it.
#[test]
fn the_direction_and_the_times_of_a_token_are_those_of_the_last_call() {
    let server = Server::start(&["--token-server=127.0.0.0/8"]);
    let add = |terms: &str| {
        let call = format!("/api/add-token?type=http&sessionid={terms}");
        server.request("POST", &call).status()
    };
    let assert_may = |name: &str, publishes: &str, watches: &str| {
        for (method, expected) in [("PUT", publishes), ("GET", watches)] {
            let response = server.request(method, &format!("/stream/{name}"));
            match expected {
                // A body without a length; a stream that does not run.
                "" => assert!(matches!(response.status(), 404 | 411), "{method}"),
                detail => response.assert_problem(403, &[detail]),
            }
        }
    };
    let (over, to_watch, to_send) = ("has expired", "for watching only", "for publishing only");
    for key in ["", "&for=show"] {
        let name = if key.is_empty() { "own" } else { "key" };
        let add = |terms: &str| add(&format!("{name}{key}&{terms}"));
        assert_eq!(add("direction=in&expires=1&note=desk"), 201);
        until("it is over", || {
            let response = server.request("GET", &format!("/stream/{name}"));
            response.text().contains("has expired").then_some(())
        });
        assert_may(name, over, over);
        assert_eq!(add("direction=out"), 201);
        assert_may(name, to_watch, "");
        assert_eq!(add("direction=out"), 200);
        assert_eq!(add("direction=both"), 201);
        assert_may(name, "", "");
        assert_eq!(add("direction=out"), 201);
        assert_may(name, to_watch, "");
        assert_eq!(add("direction=in&expires=3600"), 201);
        assert_may(name, "", to_send);
        assert_eq!(add("direction=out"), 201);
        assert_may(name, to_watch, "");
    }
    // A limit alone widens nothing.
    assert_eq!(add("own&max-viewers=3"), 201);
    assert_may("own", to_watch, "");
}

/// Expired tokens make room. The limits that a session's own token sets for its keys stay, and
/// clients of a removed key can still be disconnected by its name.
#[test]
fn what_made_room_limits_its_keys_still_and_ends_who_came_by_it() {
    let server = Server::gated(&["--tokens=4"]);
    server.add_token("sessionid=show&expires=1&max-viewers=2");
    server.add_token("sessionid=send&for=show&direction=in");
    server.add_token("sessionid=one&for=show&direction=out&expires=1");
    server.add_token("sessionid=two&for=show&direction=out");
    let mut source = Source::open(server.address(), "/stream/send");
    let mut one = watch(&server, "one");
    server.await_viewers("show", 1);
    source.send(b"first");
    assert_eq!(one.read(5), b"first");
    until("both are over", || {
        let status = server.request("HEAD", "/stream/one").status();
        (status == 403).then_some(())
    });
    server.await_line(&["event=token-over"]);
    // The new token replaces the key. The session's own token stays while it has keys.
    server.add_token("sessionid=new");
    let names: Vec<Value> = server
        .tokens()
        .iter()
        .map(|token| token["sessionid"].clone())
        .collect();
    assert_eq!(names, ["show", "send", "two", "new"]);
    server
        .request("POST", "/api/add-token?type=http&sessionid=more")
        .assert_problem(503, &["tokens"]);
    let _two = watch(&server, "two");
    server.await_viewers("show", 2);
    server
        .request("GET", "/stream/two")
        .assert_problem(503, &["this session"]);
    let ended = revoke(&server, "one");
    assert_eq!(ended.json(), json!({"sessionid": "one", "revoked": 0}));
    one.assert_lost(b"");
    server.await_viewers("show", 1);
    assert_eq!(revoke(&server, "one").status(), 404);
}

/// Viewers of what drains still count.
#[test]
fn viewers_of_a_stream_that_drains_are_counted() {
    let server = Server::gated(&["--buffer=8M"]);
    server.add_token("sessionid=show&max-viewers=1");
    let mut source = Source::open(server.address(), "/stream/show");
    let _slow = watch(&server, "show");
    server.await_viewers("show", 1);
    for _ in 0..7 {
        source.send(&vec![b'x'; 1 << 20]);
    }
    source.finish();
    assert_eq!(server.draining("show").len(), 1, "it takes nothing");
    let _again = Source::open(server.address(), "/stream/show");
    server
        .request("GET", "/stream/show")
        .assert_problem(503, &["this session"]);
}
