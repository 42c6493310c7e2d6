//! `list-viewers` and `kick-viewer`.

use crate::support::client::Client;
use crate::support::datagrams;
use crate::support::response::Response;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer, watch};
use crate::support::until;
use serde_json::{Value, json};

#[track_caller]
fn add(server: &Server, query: &str) {
    let response = server.request("POST", &format!("/api/add-token?type=http&{query}"));
    assert_eq!(response.status(), 201, "{}", response.text());
}

#[track_caller]
fn rows(server: &Server, query: &str) -> Vec<Value> {
    let response = server.request("GET", &format!("/api/list-viewers{query}"));
    assert_eq!(response.status(), 200, "{}", response.text());
    response.json().as_array().expect("an array").clone()
}

#[track_caller]
fn await_rows(server: &Server, query: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} viewers are listed"), || {
        let rows = rows(server, query);
        (rows.len() == count).then_some(rows)
    })
}

fn kick(server: &Server, row: &Value, query: &str) -> Response {
    let id = row["id"].as_str().expect("an id");
    server.request("DELETE", &format!("/api/kick-viewer?id={id}{query}"))
}

/// A label of the log, out of a list.
fn label(server: &Server, name: &str) -> Value {
    let tokens = server.request("GET", "/api/list-tokens?details=1").json();
    let mut tokens = tokens.as_array().expect("an array").iter();
    let token = tokens.find(|token| token["sessionid"] == name);
    token.expect("a token")["session"].clone()
}

#[test]
fn viewers_are_listed_with_their_keys_and_what_they_have_got() {
    let server = Server::gated(&[]);
    assert_eq!(rows(&server, ""), [Value::Null; 0]);
    add(&server, "sessionid=show");
    add(&server, "sessionid=one&for=show&direction=out");
    add(&server, "sessionid=other");
    let mut source = Source::open(server.address(), "/stream/show");
    let _elsewhere = Source::open(server.address(), "/stream/other");
    let mut client = Client::connect(server.address());
    let address = client.local_address().to_string();
    client.send_head("GET", "/stream/one", &[]);
    let mut one = Viewer::of(client);
    server.await_viewers("show", 1);
    let mut own = watch(&server, "show");
    let _theirs = watch(&server, "other");
    server.await_viewers("show", 2);
    server.await_viewers("other", 1);
    source.send(&[b'x'; 5000]);
    assert_eq!((one.read(5000).len(), own.read(5000).len()), (5000, 5000));
    let listed = until("what they have got is known", || {
        let rows = rows(&server, "?sessionid=show");
        rows.iter().all(|row| row["bytes"] == 5000).then_some(rows)
    });
    let [first, second] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    let stream = server.stream("show").expect("it runs");
    assert_eq!(
        *first,
        json!({"id": first["id"], "sessionid": "show", "session": label(&server, "show"),
            "key": label(&server, "one"), "address": address, "way": "http", "state": "watching",
            "since": first["since"], "bytes": 5000, "behind_bytes": 0, "behind_ms": 0, "skips": 0,
            "datagrams_sent": null, "datagrams_dropped": null})
    );
    assert!(first["since"].as_u64() >= stream["started_at"].as_u64());
    assert_eq!(stream["session"], first["session"]);
    assert_eq!(second["key"], label(&server, "show"));
    assert_ne!(first["id"], second["id"]);
    assert_eq!(rows(&server, "").len(), 3);
    assert_eq!(rows(&server, "?sessionid=nobody"), [Value::Null; 0]);
}

/// A viewer that reads nothing is behind, and a viewer that falls out of the buffer has skipped.
#[test]
fn how_far_a_viewer_is_behind_is_told() {
    let server = Server::gated(&["--buffer=1M"]);
    server.admit("show");
    let mut source = Source::open(server.address(), "/stream/show");
    let _viewer = watch(&server, "show");
    server.await_viewers("show", 1);
    until("it is behind", || {
        source.send(&[b'x'; 50_000]);
        let row = rows(&server, "").remove(0);
        (row["behind_bytes"].as_u64() > Some(100_000) && row["behind_ms"].is_u64()).then_some(())
    });
    until("it has skipped", || {
        source.send(&[b'x'; 200_000]);
        (rows(&server, "")[0]["skips"].as_u64() > Some(0)).then_some(())
    });
}

#[test]
fn a_viewer_that_is_ended_is_gone_and_kept_out_for_its_time_by_its_key() {
    let server = Server::gated(&["--wait=60"]);
    add(&server, "sessionid=send&for=show&direction=in");
    add(&server, "sessionid=one&for=show&direction=out");
    add(&server, "sessionid=two&for=show&direction=out");
    add(&server, "sessionid=soon&for=show&direction=out");
    let mut source = Source::open(server.address(), "/stream/send");
    let mut one = watch(&server, "one");
    server.await_viewers("show", 1);
    let mut two = watch(&server, "two");
    server.await_viewers("show", 2);
    source.send(b"first");
    assert_eq!(
        (one.read(5), two.read(5)),
        (b"first".to_vec(), b"first".to_vec())
    );
    let listed = rows(&server, "?sessionid=show");
    let kicked = kick(&server, &listed[0], "&block=3600");
    assert_eq!(kicked.status(), 200);
    let answer = json!({"id": listed[0]["id"], "sessionid": "show"});
    assert_eq!(kicked.json(), answer);
    assert!(kicked.text().ends_with("}\n"));
    one.assert_lost(b"");
    server.await_viewers("show", 1);
    let line = server.await_line(&["event=viewer-cut", "reason=kicked"]);
    assert!(!line.contains("one"), "{line}");
    assert_eq!(server.stream("show").expect("it runs")["cuts"]["kicked"], 1);
    let metrics = server.request("GET", "/metrics").text();
    assert!(
        metrics.contains("tollgate_cuts_total{reason=\"kicked\"} 1"),
        "{metrics}"
    );
    let refused = server.request("GET", "/stream/one");
    refused.assert_problem(429, &["the operator has disconnected"]);
    assert!(refused.head.field("Retry-After").is_some());
    if cfg!(feature = "page") {
        let page = server.request("GET", "/watch/one");
        assert_eq!(page.status(), 429);
        assert!(page.head.field("Retry-After").is_some());
    }
    if cfg!(feature = "hls") {
        let list = server.request("GET", "/stream/one/index.m3u8");
        list.assert_problem(429, &["the operator has disconnected"]);
    }
    kick(&server, &listed[0], "").assert_problem(404, &["has no viewer with this id"]);
    source.send(b"second");
    assert_eq!(two.read(6), b"second");
    // Others from there watch by another key, and by one whose time is over.
    let soon = watch(&server, "soon");
    server.await_viewers("show", 2);
    let listed = rows(&server, "?sessionid=show");
    let row = listed
        .iter()
        .find(|row| row["key"] == label(&server, "soon"));
    assert_eq!(kick(&server, row.expect("a row"), "&block=1").status(), 200);
    soon.into_client().rest();
    until("it may come again", || {
        let mut client = Client::connect(server.address());
        client.send_head("GET", "/stream/soon", &[]);
        let head = client.head();
        assert!(matches!(head.status, 200 | 429));
        (head.status == 200).then_some(())
    });
}

#[test]
fn who_waits_is_listed_and_can_be_ended() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("later");
    server.admit("never");
    let mut waiting = watch(&server, "later").into_client();
    let stays = watch(&server, "never");
    let listed = await_rows(&server, "", 2);
    for row in &listed {
        assert_eq!(
            (&row["state"], &row["way"]),
            (&json!("waiting"), &json!("http"))
        );
        assert_eq!(row["bytes"], Value::Null);
    }
    assert_eq!(
        await_rows(&server, "?sessionid=later", 1)[0]["id"],
        listed[0]["id"]
    );
    assert_eq!(kick(&server, &listed[0], "&block=60").status(), 200);
    waiting
        .response("GET")
        .assert_problem(403, &["the operator has disconnected"]);
    assert_eq!(await_rows(&server, "", 1)[0]["sessionid"], "never");
    waiting
        .request("GET", "/stream/later", &[])
        .assert_problem(429, &["blocks its address"]);
    drop(stays);
    await_rows(&server, "", 0);
}

#[test]
fn udp_clients_are_viewers_and_cannot_be_ended() {
    let (server, _) = datagrams::start();
    let clients = [datagrams::client(), datagrams::client()];
    datagrams::admit(&server, "tv", &clients.each_ref());
    let mut source = Source::open(server.address(), "/stream/tv");
    let listed = await_rows(&server, "?sessionid=tv", 2);
    for (row, client) in listed.iter().zip(&clients) {
        let address = client.local_addr().expect("an address").to_string();
        assert_eq!(
            (&row["way"], &row["address"]),
            (&json!("rtp-udp"), &json!(address))
        );
        assert_eq!((&row["key"], &row["bytes"]), (&Value::Null, &Value::Null));
        kick(&server, row, "").assert_problem(409, &["tuple", "revoke"]);
    }
    source.send(&datagrams::transport(0, Some(0.0)));
    for number in 1..200 {
        source.send(&datagrams::transport((number % 16) as u8, None));
    }
    for client in &clients {
        datagrams::receive(client);
    }
    until("they are counted", || {
        let rows = rows(&server, "");
        let sent = |row: &Value| row["datagrams_sent"].as_u64() > Some(0);
        rows.iter().all(sent).then_some(())
    });
}

#[test]
fn long_lists_come_whole_and_each_viewer_once() {
    const VIEWERS: usize = 700;
    let server = Server::gated(&["--connections-per-host=2000"]);
    server.admit("show");
    let _source = Source::open(server.address(), "/stream/show");
    let mut viewers: Vec<Viewer> = (0..VIEWERS).map(|_| watch(&server, "show")).collect();
    server.await_viewers("show", VIEWERS);
    let ids = |rows: &[Value]| -> Vec<String> {
        let ids = rows.iter().map(|row| row["id"].as_str().expect("an id"));
        let mut ids: Vec<String> = ids.map(str::to_owned).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let all = ids(&rows(&server, ""));
    assert_eq!(all.len(), VIEWERS);
    viewers.truncate(VIEWERS / 2);
    server.await_viewers("show", VIEWERS / 2);
    let left = ids(&rows(&server, ""));
    assert_eq!(left.len(), VIEWERS / 2);
    assert!(left.iter().all(|id| all.contains(id)));
    let newcomers: Vec<Viewer> = (0..10).map(|_| watch(&server, "show")).collect();
    server.await_viewers("show", VIEWERS / 2 + 10);
    let now = ids(&rows(&server, ""));
    assert_eq!(
        now.iter().filter(|id| !all.contains(id)).count(),
        newcomers.len()
    );
}

#[test]
fn viewers_of_peers_are_listed_and_ended_where_they_are() {
    let other = Server::gated(&[]);
    let server = Server::gated(&[&format!("--peer=http://{}", other.address())]);
    server.admit("a%20b");
    other.admit("a%20b");
    let sources = [&server, &other].map(|server| Source::open(server.address(), "/stream/a%20b"));
    let viewers = [&server, &other].map(|server| watch(server, "a%20b"));
    server.await_viewers("a b", 1);
    other.await_viewers("a b", 1);
    assert_eq!(rows(&server, "").len(), 2);
    let listed = rows(&server, "?sessionid=a%20b");
    assert_eq!(listed.len(), 2);
    assert_ne!(listed[0]["id"], listed[1]["id"]);
    assert_eq!(rows(&server, "?sessionid=b"), [Value::Null; 0]);
    kick(&server, &listed[1], "").assert_problem(404, &["peer"]);
    assert_eq!(kick(&other, &listed[1], "").status(), 200);
    assert_eq!(await_rows(&server, "", 1)[0]["id"], listed[0]["id"]);
    drop((sources, viewers));
}
