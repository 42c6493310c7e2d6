//! Expired tokens: on disk, after a kill, and after changes of the clock.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tollgate::gate::journal;

use super::support::server::Server;
use super::support::until;
use super::{call, fresh, option, start};

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is later than 1970").as_secs()
}

fn journal_of(lines: &[String]) -> Vec<u8> {
    let mut bytes = journal::HEADER.to_vec();
    for line in lines {
        bytes.extend(journal::sealed(line.clone().into_bytes()));
    }
    bytes
}

fn key(name: &str, term: &str, time: u64) -> String {
    format!(r#"[{{"add":"{name}","http":"out","for":"show","{term}":{time}}}]"#)
}

#[track_caller]
fn assert_over(server: &Server, name: &str) {
    let response = server.request("GET", &format!("/stream/{name}"));
    response.assert_problem(403, &["has expired"]);
}

#[track_caller]
fn assert_open(server: &Server, name: &str) {
    let response = server.request("GET", &format!("/stream/{name}"));
    response.assert_problem(404, &["does not run"]);
}

#[test]
fn what_is_over_stays_so_after_a_restart_a_day_later() {
    let path = fresh("day-later");
    let (now, day) = (unix_seconds(), 86_400);
    let lines = [
        key("expired", "expires", now - day),
        key("ended", "ends", now - day),
        key("long-ago", "expires", 1),
        key("open", "expires", now + day),
        r#"[{"add":"plain","http":"both"}]"#.to_owned(),
    ];
    fs::write(&path, journal_of(&lines)).expect("a journal");
    for _ in 0..2 {
        let server = start(&path);
        for name in ["expired", "ended", "long-ago"] {
            assert_over(&server, name);
        }
        assert_open(&server, "open");
        assert_open(&server, "plain");
        assert_eq!(server.tokens().len(), 5);
    }
}

/// The file says how late it has been: a clock that was set back since opens nothing.
#[test]
fn a_clock_that_was_set_back_opens_nothing() {
    let path = fresh("set-back");
    let (now, day) = (unix_seconds(), 86_400);
    let lines = [
        key("over", "expires", now + day),
        key("open", "ends", now + 3 * day),
        format!(r#"[{{"time":{}}}]"#, now + 2 * day),
    ];
    fs::write(&path, journal_of(&lines)).expect("a journal");
    for _ in 0..2 {
        let server = start(&path);
        server.await_line(&["event=clock-behind", "by the later time"]);
        assert_over(&server, "over");
        assert_open(&server, "open");
        // What is given now is counted from the later time.
        let target = "/api/add-token?type=http&sessionid=new&expires=3600";
        let response = server.request("POST", target);
        assert!(matches!(response.status(), 200 | 201));
        assert_open(&server, "new");
    }
}

fn detail(server: &Server, name: &str) -> Option<Value> {
    let rows = server.request("GET", "/api/list-tokens?details=1").json();
    let mut rows = rows.as_array().expect("an array").clone().into_iter();
    rows.find(|row| row["sessionid"] == name)
}

/// The server is killed before, during and after a key's end: the key is valid until its end, and
/// never again.
#[test]
fn a_kill_in_any_state_of_a_key_leaves_it_as_it_was() {
    let path = fresh("kill-over");
    let mut over: Vec<String> = Vec::new();
    for (round, wait) in [0, 300, 900, 1_000, 1_100, 1_900, 2_000, 2_100]
        .into_iter()
        .enumerate()
    {
        let server = start(&path);
        for name in &over {
            assert_over(&server, name);
        }
        let name = format!("key{round}");
        let target = format!("/api/add-token?type=http&sessionid={name}&for=show&direction=out");
        call(&server, "POST", &format!("{target}&expires=1"), 201);
        let said = detail(&server, &name).expect("it is listed");
        let expires = said["expires"].as_u64().expect("a time");
        std::thread::sleep(Duration::from_millis(wait));
        server.signal("KILL");
        server.forget();
        let server = start(&path);
        assert_eq!(detail(&server, &name), Some(said), "after {wait} ms");
        let asked = unix_seconds();
        let was_open = server.request("GET", &format!("/stream/{name}")).status() == 404;
        assert!(!was_open || asked <= expires, "after {wait} ms");
        until("it is over", || {
            let status = server.request("GET", &format!("/stream/{name}")).status();
            (status == 403).then_some(())
        });
        server.signal("KILL");
        server.forget();
        over.push(name);
    }
}

/// A token that made room is gone from the file, too: a later one of its name does not get its
/// right back, whether the room was made by a call or by a lower limit at the start.
#[test]
fn a_token_that_made_room_does_not_come_back_after_a_restart() {
    for at_start in [false, true] {
        let path = fresh(&format!("made-room-{at_start}"));
        let add = "/api/add-token?type=http&sessionid=";
        let server = Server::gated(&["--tokens=3", &option(&path)]);
        let send = format!("{add}key&for=show&direction=in&expires=1");
        call(&server, "POST", &send, 201);
        until("it is over", || {
            let response = server.request("GET", "/stream/key");
            response.text().contains("has expired").then_some(())
        });
        let others = if at_start { 2 } else { 3 };
        for number in 0..others {
            call(&server, "POST", &format!("{add}other{number}"), 201);
        }
        drop(server);
        let server = Server::gated(&[&format!("--tokens={others}"), &option(&path)]);
        assert_eq!(detail(&server, "key"), None, "it made room");
        call(&server, "DELETE", "/api/revoke-token?sessionid=other0", 200);
        let watch = format!("{add}key&for=show&direction=out&expires=3600");
        call(&server, "POST", &watch, 201);
        let said = detail(&server, "key");
        drop(server);
        for _ in 0..2 {
            let server = start(&path);
            assert_eq!(detail(&server, "key"), said);
            assert_open(&server, "key");
            let response = server.request("PUT", "/stream/key");
            response.assert_problem(403, &["for watching only"]);
        }
    }
}

/// Keys for an hour each, for a year: the table and the file hold as many as may be.
#[test]
fn what_was_over_long_ago_takes_no_room() {
    let path = fresh("over-long-ago");
    let now = unix_seconds();
    let mut lines: Vec<String> = (0..2_000)
        .map(|number| key(&format!("an-hours-key-{number}"), "expires", 1_000 + number))
        .collect();
    lines.push(key("recent", "expires", now - 60));
    lines.push(r#"[{"add":"kept","http":"both"}]"#.to_owned());
    fs::write(&path, journal_of(&lines)).expect("a journal");
    let before = fs::metadata(&path).expect("the file").len();
    let server = Server::gated(&["--tokens=3", &option(&path)]);
    assert_eq!(server.tokens().len(), 3, "no more than may be");
    assert_open(&server, "kept");
    assert_over(&server, "recent");
    // Those that are over make room, one after the other, and never one that is not.
    for (name, status) in [("a", 201), ("b", 201), ("c", 503)] {
        let target = format!("/api/add-token?type=http&sessionid={name}");
        call(&server, "POST", &target, status);
    }
    until("it is compacted", || {
        let bytes = fs::metadata(&path).expect("the file").len();
        (bytes < 2_000 && bytes < before / 50).then_some(())
    });
    drop(server);
    let server = Server::gated(&["--tokens=3", &option(&path)]);
    for name in ["kept", "a", "b"] {
        assert_open(&server, name);
    }
}
