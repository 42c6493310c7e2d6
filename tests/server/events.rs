//! `/api/events` through the real binary.

use crate::support;
use crate::support::events::Follower;
use crate::support::picture::{Picture, Unit};
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer, watch};
use crate::support::until;
use serde_json::{Value, json};

fn revoke(server: &Server, name: &str) {
    let target = format!("/api/revoke-token?sessionid={name}&abort=true");
    assert_eq!(server.request("DELETE", &target).status(), 200);
}

fn follow(server: &Server, query: &str) -> Follower {
    Follower::ask(server.address(), query, "")
}

fn listed(server: &Server) -> Picture {
    let list = |name: &str| server.request("GET", &format!("/api/list-{name}")).json();
    Picture::of_lists(&list("tokens"), &list("streams"), &list("viewers"))
}

fn names(units: &[Unit]) -> Vec<&str> {
    units.iter().map(|unit| unit.event.as_str()).collect()
}

#[test]
fn what_there_is_comes_first_and_then_what_happens() {
    let server = Server::gated(&[]);
    server.add_token("sessionid=show");
    server.add_token("sessionid=one&for=show&direction=out&note=desk");
    let mut source = Source::open(server.address(), "/stream/show");
    let mut viewer = watch(&server, "one");
    server.await_viewers("show", 1);
    let mut follower = follow(&server, "");
    assert!(
        follower
            .head
            .contains("\r\nContent-Type: text/event-stream\r\n")
    );
    assert!(follower.head.contains("\r\nCache-Control: no-store\r\n"));
    let snapshot = follower.until("snapshot-end");
    assert_eq!(
        names(&snapshot),
        [
            "snapshot",
            "token",
            "token",
            "stream",
            "viewer",
            "snapshot-end"
        ]
    );
    assert_eq!(snapshot[2].data["note"], "desk");
    let stream = server.stream("show").expect("it runs");
    assert_eq!(snapshot[3].data["id"], stream["id"]);
    // A viewer comes, another is ended, and its key is revoked.
    let mut other = watch(&server, "show");
    let comes = follower.next().expect("it goes on");
    assert_eq!(comes.event, "viewer-comes");
    assert_eq!(comes.data["sessionid"], "show");
    assert_eq!(comes.data["session"], stream["session"]);
    source.send(b"first");
    assert_eq!(
        (viewer.read(5), other.read(5)),
        (b"first".to_vec(), b"first".to_vec())
    );
    revoke(&server, "one");
    viewer.assert_lost(b"");
    let units = follower.until("viewer-goes");
    assert_eq!(
        names(&units),
        ["token-revoked", "viewer-cut", "viewer-goes"]
    );
    assert_eq!(units[0].data["sessionid"], "one");
    assert_eq!(units[1].data["reason"], "token");
    assert_eq!(units[1].data["id"], snapshot[4].data["id"]);
    assert_eq!(units[2].data["bytes"], 5);
    for field in ["id", "key", "address"] {
        assert_eq!(units[2].data[field], snapshot[4].data[field], "{field}");
        assert!(units[2].data[field].is_string(), "{field}");
    }
    server
        .request("PUT", "/stream/one")
        .assert_problem(403, &["no http token"]);
    let refused = follower.next().expect("it goes on");
    assert_eq!(refused.event, "publisher-refused");
    assert_eq!(
        (&refused.data["status"], &refused.data["sessionid"]),
        (&json!(403), &Value::Null)
    );
    assert!(refused.data["session"].is_string());
    source.finish();
    other.assert_rest(b"");
    let units = follower.until("stream-over");
    assert_eq!(names(&units), ["stream-ends", "viewer-goes", "stream-over"]);
    assert_eq!(units[0].data["bytes_received"], 5);
    for field in ["id", "key", "address"] {
        assert_eq!(units[1].data[field], comes.data[field], "{field}");
    }
    server.add_token("sessionid=short&expires=1");
    let units = follower.until("token-over");
    assert_eq!(names(&units), ["token-added", "token-over"]);
    assert_eq!(units[0].data["new"], 1);
    let ids: Vec<&str> = units.iter().filter_map(|unit| unit.id.as_deref()).collect();
    assert_eq!(ids.len(), 2, "each has an id");
}

#[test]
#[cfg(feature = "hold")]
fn a_held_stream_is_told_of() {
    let server = Server::start(&["--token-server=127.0.0.1/32", "--hold=60"]);
    server.admit("show");
    let mut follower = follow(&server, "");
    follower.until("snapshot-end");
    let media = support::corpus::file("sound.mp3");
    let mut source = Source::open(server.address(), "/stream/show");
    let mut viewer = watch(&server, "show");
    server.await_viewers("show", 1);
    source.send(&media);
    viewer.read(1000);
    drop(source);
    let units = follower.until("stream-held");
    assert_eq!(
        units.last().map(|unit| unit.data["sessionid"].clone()),
        Some(json!("show"))
    );
    let source = Source::open(server.address(), "/stream/show");
    let goes_on = follower.next().expect("it goes on");
    assert_eq!(goes_on.event, "stream-goes-on");
    drop((source, viewer));
}

#[test]
fn events_of_one_session_are_its_own_and_its_keys() {
    let server = Server::gated(&[]);
    server.add_token("sessionid=a");
    server.add_token("sessionid=b");
    server.add_token("sessionid=key&for=a&direction=out");
    let mut follower = follow(&server, "?sessionid=a");
    let snapshot = follower.until("snapshot-end");
    assert_eq!(
        names(&snapshot),
        ["snapshot", "token", "token", "snapshot-end"]
    );
    let _b = Source::open(server.address(), "/stream/b");
    let _of_b = watch(&server, "b");
    server.await_viewers("b", 1);
    let _a = Source::open(server.address(), "/stream/a");
    let _of_a = watch(&server, "key");
    server.await_viewers("a", 1);
    revoke(&server, "b");
    revoke(&server, "key");
    let units = follower.until("viewer-goes");
    assert_eq!(
        names(&units),
        [
            "stream-begins",
            "viewer-comes",
            "token-revoked",
            "viewer-cut",
            "viewer-goes"
        ]
    );
    assert!(units.iter().all(|unit| unit.data["sessionid"] != "b"));
}

/// A reader that does not read meanwhile misses nothing that the operator relies on.
#[test]
fn viewers_that_come_and_go_do_not_drive_out_what_happens() {
    let server = Server::gated(&["--connections-per-host=1000"]);
    server.admit("busy");
    let _source = Source::open(server.address(), "/stream/busy");
    let mut follower = follow(&server, "");
    let snapshot = follower.until("snapshot-end");
    assert_eq!(
        names(&snapshot),
        ["snapshot", "token", "stream", "snapshot-end"]
    );
    // What each leaves behind is more than the kernel and the server keep for who does not read.
    for _ in 0..2_000 {
        let mut viewer = support::client::Client::connect(server.address());
        viewer.send_head("GET", "/stream/busy", &[]);
    }
    server.await_viewers("busy", 0);
    server.admit("last");
    let units = follower.until("token-added");
    assert!(names(&units).iter().all(|name| *name != "missed"));
    let count = |name: &str| units.iter().filter(|unit| unit.event == name).count();
    assert!((1..2_000).contains(&count("viewer-comes")));
    assert_eq!(count("viewer-comes"), count("viewer-goes"));
}

/// An operator who looks only when the encoder fails sees why: in the log, and at the beginning of
/// the events. Neither shows what may be a secret.
#[test]
fn a_refused_source_is_in_the_log_and_in_later_snapshots() {
    let server = Server::gated(&[]);
    for target in ["/stream/s3cret", "/stream/s3cret?s3cret=1"] {
        assert!(server.request("PUT", target).status() >= 400);
    }
    let line = server.await_line(&["event=publisher-refused", "status=403"]);
    assert!(line.contains("level=warn") && line.contains("source=127.0.0.1:"));
    assert!(
        line.contains("detail=\"this sessionid has no http token"),
        "{line}"
    );
    let line = server.await_line(&["event=publisher-refused", "status=400"]);
    assert!(!line.contains("s3cret"), "{line}");
    let snapshot = follow(&server, "").until("snapshot-end");
    let (_, refusals) = snapshot.split_first().expect("a snapshot");
    assert_eq!(names(refusals), ["refusal", "refusal", "snapshot-end"]);
    let of_first = &refusals[1].data;
    assert_eq!(
        (&of_first["status"], &of_first["sessionid"]),
        (&json!(403), &Value::Null)
    );
    assert_eq!(of_first["session"], refusals[0].data["session"]);
    let of_one = follow(&server, "?sessionid=s3cret").until("snapshot-end");
    assert_eq!(names(&of_one), ["snapshot", "snapshot-end"]);
}

#[test]
fn refusals_do_not_drive_out_what_happens() {
    let server = Server::gated(&["--connections-per-host=1000"]);
    server.admit("show");
    let mut follower = follow(&server, "");
    follower.until("snapshot-end");
    let mut client = support::client::Client::connect(server.address());
    for number in 0..300 {
        let target = format!("/stream/stranger-{number}");
        let refused = client.request("PUT", &target, &[]);
        assert_eq!(refused.status(), 403);
        if refused.head.field("Connection") == Some("close") {
            client = support::client::Client::connect(server.address());
        }
    }
    server.admit("last");
    let units = follower.until("token-added");
    let refused: Vec<&Unit> = units
        .iter()
        .filter(|unit| unit.event == "publisher-refused")
        .collect();
    let left_out: u64 = refused
        .iter()
        .map(|unit| unit.data["left_out"].as_u64().expect("a number"))
        .sum();
    assert!(refused.len() < 300, "{}", refused.len());
    assert!(refused.len() as u64 + left_out <= 300);
    assert!(
        refused
            .iter()
            .all(|unit| !unit.data.to_string().contains("stranger"))
    );
}

/// Each is gone with its call, and no other; log, events, lists and figures agree to the last one.
#[test]
fn a_thousand_keys_are_revoked_while_events_are_followed() {
    const KEYS: usize = 1_000;
    let server = Server::gated(&["--log-lines=10000", "--connections-per-host=2000"]);
    server.add_token("sessionid=send&for=show&direction=in");
    let mut source = Source::open(server.address(), "/stream/send");
    let mut viewers: Vec<(String, Viewer)> = (0..KEYS)
        .map(|number| {
            let name = format!("key{number}");
            server.add_token(&format!("sessionid={name}&for=show&direction=out"));
            let viewer = watch(&server, &name);
            (name, viewer)
        })
        .collect();
    server.await_viewers("show", KEYS);
    source.send(b"first");
    for (_, viewer) in &mut viewers {
        assert_eq!(viewer.read(5), b"first");
    }
    let mut follower = follow(&server, "");
    let mut picture = Picture::default();
    for unit in follower.until("snapshot-end") {
        picture.take(&unit);
    }
    assert_eq!(picture, listed(&server));
    assert_eq!(picture.viewers.len(), KEYS);
    let mut longest = std::time::Duration::ZERO;
    let (mut cuts, mut goes) = (0, 0);
    while let Some((name, mut viewer)) = viewers.pop() {
        let began = std::time::Instant::now();
        revoke(&server, &name);
        viewer.assert_lost(b"");
        longest = longest.max(began.elapsed());
        let units = follower.until("viewer-goes");
        assert_eq!(
            names(&units),
            ["token-revoked", "viewer-cut", "viewer-goes"]
        );
        assert_eq!(units[0].data["sessionid"], name);
        (cuts, goes) = (cuts + 1, goes + 1);
        units.iter().for_each(|unit| picture.take(unit));
        assert_eq!(picture.viewers.len(), viewers.len());
    }
    println!("the longest from the call to the end of a viewer: {longest:?}");
    assert_eq!(picture, listed(&server));
    assert_eq!((cuts, goes), (KEYS, KEYS));
    let stream = server.stream("show").expect("it runs");
    assert_eq!(stream["cuts"]["token"], KEYS);
    let metrics = server.request("GET", "/metrics").text();
    assert!(
        metrics.contains("tollgate_cuts_total{reason=\"token\"} 1000"),
        "{metrics}"
    );
    until("the log has them all", || {
        let lines = server.stderr();
        let cut = lines.iter().filter(|line| line.contains("reason=token"));
        (cut.count() == KEYS).then_some(())
    });
}
