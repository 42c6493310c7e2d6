//! The core's interface to the shell, besides clients.

mod requests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stage::Stage;
use super::timers::Armed;
use super::*;
use crate::gate::{Direction, Grant, SessionId, Terms, Tokens};
use crate::relay::stage::request as call;
use crate::time::UnixTime;

const API: &str = "--token-server=10.0.0.0/8";
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
const PUT: &str =
    "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9999\r\n\r\n";

/// A table whose one token lets a session `s` be published and watched, until then.
fn table(stage: &Stage, ends: Option<UnixTime>) -> Tokens {
    let mut tokens = Tokens::new(stage.relay.token_limits());
    let terms = Terms {
        ends,
        ..Terms::default()
    };
    let grant = Grant {
        direction: Direction::Both,
        terms,
    };
    let session = SessionId::parse(b"s").expect("a good sessionid");
    assert_eq!(tokens.add(&session, Some(grant), Vec::new()), Ok(1));
    tokens
}

#[test]
fn what_a_token_file_grants_is_granted_and_what_follows_is_written() {
    let mut stage = Stage::new(&[API]);
    let before = stage.client(PUT);
    stage.assert_status(before, 403);
    let tokens = table(&stage, None);
    stage.relay.restore(tokens, stage.now);
    let source = stage.client(PUT);
    assert_eq!(stage.text(source), "", "it is taken");
    let viewer = stage.viewer("s");
    stage.assert_status(viewer, 200);
    let caller = call(&mut stage, "POST /api/add-token?type=http&sessionid=t");
    assert_eq!(stage.text(caller), "", "it waits for the disk");
    let (job_id, job) = stage.jobs.remove(0);
    assert!(matches!(job, Job::Append(_)), "{job:?}");
    stage
        .relay
        .job_finished(job_id, Done::Appended(Ok(())), stage.now);
    stage.settle();
    stage.assert_status(caller, 201);
}

/// A clock that is set forward ends expired tokens at once. A clock that is set back makes none
/// valid.
#[test]
fn the_hosts_clock_says_when_a_token_ends() {
    for (since_1970, ends_at_once) in [(Some(5000), true), (Some(50), false), (None, false)] {
        let mut stage = Stage::new(&[API]);
        let ends = UnixTime { unix_seconds: 4000 };
        let tokens = table(&stage, Some(ends));
        stage.relay.restore(tokens, stage.now);
        stage.client(PUT);
        let viewer = stage.viewer("s");
        stage.assert_status(viewer, 200);
        stage.wait_seconds(1);
        if let Some(seconds) = since_1970 {
            let time = Duration::from_secs(seconds);
            stage.relay.set_unix_time(time, stage.now);
        }
        stage.wait_seconds(1);
        assert_eq!(
            stage.closed.contains(&viewer),
            ends_at_once,
            "{since_1970:?}"
        );
        let next = stage.client(PUT);
        let status = if ends_at_once { 403 } else { 409 };
        stage.assert_status(next, status);
    }
}

/// A shell that waits while there is something to write keeps everybody waiting; one that does not
/// wait when there is nothing turns for ever.
#[test]
fn there_is_something_to_write_until_all_of_it_is_written() {
    let mut stage = Stage::new(&[]);
    assert!(!stage.relay.has_writes());
    let peer = SocketAddr::from(([10, 0, 0, 2], 7));
    let id = stage.relay.accepted(peer, stage.now).expect("room");
    assert!(!stage.relay.has_writes(), "it has asked for nothing");
    stage.relay.received(id, HEALTH.as_bytes(), stage.now);
    assert!(stage.relay.has_writes(), "an answer");
    while stage.write_next() {}
    assert!(!stage.relay.has_writes());
    let source = stage.client(PUT);
    stage.viewer("s");
    assert!(!stage.relay.has_writes());
    stage.relay.received(source, b"abcd", stage.now);
    assert!(stage.relay.has_writes(), "a stream");
    while stage.write_next() {}
    assert!(!stage.relay.has_writes());
}

/// After the shutdown began, the shell ends when there are no connections.
#[test]
fn a_server_is_empty_when_nobody_is_connected() {
    let mut stage = Stage::new(&[]);
    assert!(stage.relay.is_empty());
    let ids = [stage.client(""), stage.client("")];
    for id in ids {
        assert!(!stage.relay.is_empty());
        stage.lose(id);
    }
    assert!(stage.relay.is_empty());
}

#[test]
fn what_the_shell_counts_is_among_the_figures() {
    let mut stage = Stage::new(&[API]);
    stage.relay.counts().files = super::counts::Files { own: 7, max: 99 };
    let id = call(&mut stage, "GET /metrics");
    let text = stage.text(id);
    for line in ["process_max_fds 99\n", "process_open_fds 8\n"] {
        assert!(text.contains(line), "{line} {text}");
    }
}

/// Tests and simulations rest on it: what does not hold between two inputs does not go unnoticed.
#[test]
fn what_does_not_hold_is_noticed() {
    let mut stage = Stage::new(&[]);
    stage.client(PUT);
    // Nothing is wrong with that: it is about to be returned.
    stage.relay.ctx.freed(1 << 30);
    stage.relay.check();
    let deadline = stage.now + Duration::from_secs(5);
    let nobodys = &mut Armed::default();
    stage.relay.ctx.arm(nobodys, Owner::Tokens, deadline);
    let checked = catch_unwind(AssertUnwindSafe(|| stage.relay.check()));
    assert!(checked.is_err(), "a timer that nobody has armed");
}
