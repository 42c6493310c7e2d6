//! A small story that goes on in another core between any two of its steps, and in each with one
//! more. (All that can happen: the simulation.)

use super::*;
use crate::config::{self, Command};
use crate::relay::stage::Stage;
use crate::stream::Outcome;

fn settings(options: &[&str]) -> Settings {
    match config::parse(options, []) {
        Ok(Command::Run(config)) => config.settings(100, 7, 8),
        other => panic!("{options:?}: {other:?}"),
    }
}

/// Another core has heard all of this one: it, and the connections that go.
fn tell(stage: &mut Stage, options: &[&str]) -> (Successor, Vec<ConnectionId>) {
    while stage.relay.next_action().is_some() {}
    let old = &mut stage.relay;
    let mut successor = Successor::new(settings(options), false);
    for (live, range) in media(old).collect::<Vec<_>>() {
        let mut at = range.start;
        while at < range.end {
            let bytes = media_bytes(old, live, at);
            successor.media(live, at, bytes).expect("it fits");
            at += bytes.len() as u64;
        }
    }
    let going = super::hand_over(old, stage.now, &mut |piece| {
        successor.hear(piece).expect("it fits");
    });
    (successor, going)
}

/// Another core has taken this one's place.
fn hand_over(stage: &mut Stage, options: &[&str]) {
    let (successor, going) = tell(stage, options);
    let (relay, now) = successor.take_over().expect("it fits");
    assert_eq!(now, stage.now);
    for id in &going {
        stage.relay.check();
        assert!(relay.clients.has(*id));
    }
    stage.relay = relay;
    stage.relay.check();
    stage.settle();
}

const OPTIONS: &[&str] = &["--token-server=10.0.0.0/24", "--buffer=256K"];
const GRANT: &str = "POST /api/add-token?type=http&sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CHUNK: &str = "4\r\nabcd\r\n";

/// What two viewers and a caller have got in the end, if hands change behind these steps.
fn story(changes: &dyn Fn(usize) -> bool) -> Vec<String> {
    let mut stage = Stage::new(OPTIONS);
    let step = std::cell::Cell::new(0);
    let go_on = |stage: &mut Stage| {
        if changes(step.get()) {
            hand_over(stage, OPTIONS);
        }
        step.set(step.get() + 1);
    };
    let caller = stage.client("");
    for piece in [&GRANT[..20], &GRANT[20..]] {
        stage.send(caller, piece);
        go_on(&mut stage);
    }
    let source = stage
        .client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab");
    go_on(&mut stage);
    let first = stage.viewer("s");
    go_on(&mut stage);
    stage.send(source, "cd\r\n");
    go_on(&mut stage);
    let second = stage.viewer("s");
    stage.relay.served(second, Outcome::Blocked, stage.now);
    go_on(&mut stage);
    for piece in [CHUNK, "4\r", "\nab", "cd", "\r\n"] {
        stage.send(source, piece);
        go_on(&mut stage);
    }
    stage.relay.unblocked(second);
    stage.settle();
    go_on(&mut stage);
    stage.send(source, "0\r\n\r\n");
    go_on(&mut stage);
    assert_eq!(stage.content(first), ("abcdabcdabcd".to_owned(), true));
    assert_eq!(stage.content(second), ("abcdabcdabcd".to_owned(), true));
    let list = "GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stage.send(caller, list);
    go_on(&mut stage);
    stage.lose(source);
    stage.relay.check();
    [caller, source, first, second]
        .map(|id| stage.text(id))
        .to_vec()
}

#[test]
fn another_core_goes_on_between_any_two_steps() {
    let as_it_was = story(&|_| false);
    for changes in 0..16 {
        assert_eq!(story(&|step| step == changes), as_it_was, "at {changes}");
    }
    assert_eq!(story(&|_| true), as_it_was, "at each");
}

/// It says how much is there, and what would do.
#[test]
fn a_buffer_that_is_too_small_is_refused_in_words() {
    let mut stage = Stage::new(OPTIONS);
    stage.client(GRANT);
    let source =
        stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");
    for _ in 0..10 {
        stage.send(source, &"a".repeat(10_000));
    }
    let (successor, _) = tell(&mut stage, &[OPTIONS[0], "--buffer=64K"]);
    let taken = successor.take_over();
    let Unfit(why) = taken.err().expect("it does not fit");
    assert!(why.contains("100000 of its bytes"), "{why}");
    assert!(why.contains("--buffer=65536"), "{why}");
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let mut stage = Stage::new(OPTIONS);
    stage.client(GRANT);
    let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
    stage.send(source, "abcd");
    let mut records = Vec::new();
    let mut out = |piece: &[u8]| records.extend_from_slice(piece);
    super::hand_over(&mut stage.relay, stage.now, &mut out);
    let refused = |options: &[&str], records: &[u8]| {
        let mut successor = Successor::new(settings(options), false);
        let taken = successor.hear(records).and_then(|()| successor.take_over());
        taken.err().map(|Unfit(why)| why).unwrap_or_default()
    };
    assert_eq!(
        refused(&[], &records),
        "--token-server is there for one, and not for the other"
    );
    let text = String::from_utf8(records.clone()).expect("text");
    for (from, to) in [
        ("\"live\":0", "\"live\":7"),
        ("connection 1", "connection 9"),
    ] {
        let told = text.replace(from, to);
        assert_ne!(refused(OPTIONS, told.as_bytes()), "", "{told}");
    }
}
