//! The hand-over of pulls of every stage, and of invalid states.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::relay::stage::{HandedOver, Stage};
use crate::relay::{Done, handover};

const NAMED: &str = "--origin=http://one.example:8001";
const OTHER: &str = "--origin=http://10.1.0.2:8002";
const OPTIONS: &[&str] = &[
    NAMED,
    OTHER,
    "--streams=9",
    "--origin-idle=600",
    "--origin-time=60",
];
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: video/x\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Where each session's pull stands, in a word.
fn stands(stage: &Stage) -> Vec<(String, &'static str)> {
    let pulls = stage.relay.fetch.pulls.entries.iter();
    let mut stands: Vec<(String, &str)> = pulls
        .map(|(_, pull)| {
            let stands = match pull.stage {
                Step::Resolving { .. } => "resolving",
                Step::Asking { .. } => "asking",
                Step::Running { .. } => "running",
                Step::Pausing { .. } => "pausing",
                Step::Calling { .. } | Step::Failed => "between two",
            };
            (pull.session.as_str().to_owned(), stands)
        })
        .collect();
    stands.sort();
    stands
}

use super::Stage as Step;

/// A running pull, one whose origin was asked, one that pauses between rounds, and one whose name is
/// looked up. Also the viewers of each, in this order, and the connections of the first two.
fn all_stages() -> (Stage, [ConnectionId; 4], [ConnectionId; 2]) {
    let mut stage = Stage::new(OPTIONS);
    let running = stage.viewer("running");
    let found = |stage: &mut Stage| {
        let (job_id, _) = stage.jobs.remove(0);
        let address = SocketAddr::from(([10, 1, 0, 1], 8001));
        let done = Done::Resolved(vec![Ok(vec![address])]);
        stage.relay.job_finished(job_id, done, stage.now);
        stage.settle();
    };
    found(&mut stage);
    let origin = stage.answer(OK);
    stage.send(origin, "5\r\nhello\r\n");
    let asking = stage.viewer("asking");
    let (asked, _, _) = stage.call();
    let pausing = stage.viewer("pausing");
    let broken = stage.answer(OK);
    stage.lose(broken);
    let waits = stage.viewer("pausing");
    // What is known of the name is known no more.
    stage.now = stage.now + Duration::from_secs(5);
    let resolving = stage.viewer("resolving");
    assert_eq!(stage.jobs.len(), 1);
    let _ = pausing;
    (stage, [running, asking, waits, resolving], [origin, asked])
}

#[test]
fn pulls_of_all_stages_go_on_in_another_core() {
    let (mut stage, [running, asking, waits, resolving], [origin, asked]) = all_stages();
    let names = ["asking", "pausing", "resolving", "running"];
    let expected: Vec<(String, &str)> = names.map(|name| (name.to_owned(), name)).into();
    assert_eq!(stands(&stage), expected);
    let fetch = &stage.relay.fetch;
    let old: Vec<PullId> = fetch.pulls.entries.iter().map(|(id, _)| id).collect();
    let (without, via) = (fetch.pulls.without_stream(), fetch.origins.via(None));
    assert_eq!((old.len(), without), (4, 3));
    stage.jobs.clear();
    stage.change_hands(OPTIONS);
    let fetch = &stage.relay.fetch;
    assert_eq!((fetch.len(), fetch.pulls.without_stream()), (4, 3));
    assert_eq!(fetch.origins.via(None), via, "no loop goes unseen");
    assert_eq!(fetch.pulls.failures, 0);
    // Whose name was being looked up pauses no longer than that takes to be seen.
    assert!(stage.jobs.is_empty());
    stage.wait(Duration::ZERO);
    assert_eq!(stage.jobs.len(), 1, "it is looked up here");
    stage.send(origin, "6\r\n world\r\n0\r\n\r\n");
    assert_eq!(stage.content(running), ("hello world".to_owned(), true));
    stage.send(asked, OK);
    stage.send(asked, "3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(stage.content(asking), ("abc".to_owned(), true));
    // The rounds of the one that pauses come still.
    let (job_id, _) = stage.jobs.remove(0);
    let address = SocketAddr::from(([10, 1, 0, 7], 8001));
    let done = Done::Resolved(vec![Ok(vec![address])]);
    stage.relay.job_finished(job_id, done, stage.now);
    stage.settle();
    stage.wait_seconds(1);
    assert_eq!(stage.calls.len(), 2, "{:?}", stage.calls);
    for (id, to) in std::mem::take(&mut stage.calls) {
        assert_eq!(to, address);
        stage.relay.unblocked(id);
        stage.settle();
        stage.send(id, OK);
        stage.send(id, "1\r\nx\r\n0\r\n\r\n");
    }
    for viewer in [waits, resolving] {
        assert_eq!(stage.content(viewer), ("x".to_owned(), true));
    }
    // A new one is called like none before it.
    stage.viewer("new");
    let fetch = &stage.relay.fetch;
    let new: Vec<PullId> = fetch.pulls.entries.iter().map(|(id, _)| id).collect();
    assert!(new.len() == 1 && !old.contains(&new[0]));
}

/// The origins' addresses and the number of failed rounds are handed over, too.
#[test]
fn what_was_counted_and_looked_up_is_known_to_the_next() {
    let mut stage = Stage::new(OPTIONS);
    for _ in 0..3 {
        let viewer = stage.viewer("a");
        while let Some((job_id, _)) = stage.jobs.pop() {
            let address = SocketAddr::from(([10, 1, 0, 1], 8001));
            let done = Done::Resolved(vec![Ok(vec![address])]);
            stage.relay.job_finished(job_id, done, stage.now);
            stage.settle();
        }
        stage.answer("HTTP/1.1 404 Not Found\r\n\r\n");
        stage.answer("HTTP/1.1 404 Not Found\r\n\r\n");
        stage.assert_status(viewer, 404);
    }
    let before = stage.relay.fetch.next_id();
    assert_eq!(before.1, 3);
    stage.change_hands(OPTIONS);
    assert_eq!(stage.relay.fetch.next_id(), before);
    assert_eq!(stage.relay.fetch.pulls.failures, 3);
    stage.viewer("b");
    assert_eq!(
        (stage.jobs.len(), stage.calls.len()),
        (0, 1),
        "it is known still"
    );
}

/// Nothing of it is left where it was, and nobody is called from there.
#[test]
fn the_old_core_fetches_nothing_any_more() {
    let (mut stage, ..) = all_stages();
    stage.hand_over().taken_over(OPTIONS).expect("it fits");
    let going: Vec<ConnectionId> = handover::connections(&stage.relay).collect();
    handover::let_go(&mut stage.relay, &going);
    stage.relay.check();
    assert_eq!(stage.relay.fetch.len(), 0);
}

/// The pull of this session, otherwise.
fn change(told: &HandedOver, name: &str, change: impl Fn(&mut u64, &mut Value)) -> HandedOver {
    told.but("pull", |number, it| {
        if it["session"] == name {
            change(number, it);
        }
    })
}

#[test]
fn what_cannot_be_so_of_pulls_is_refused() {
    let (mut stage, ..) = all_stages();
    let told = stage.hand_over();
    let (place, anothers) = ("has another's place", "is another's");
    let until = json!(9_000_000_000_u64);
    let calling = json!({"Calling": {"origin": 0, "address": 0, "until": until}});
    for (what, told, words) in [
        ("as it was", told.clone(), None),
        (
            "two of one session",
            change(&told, "pausing", |_, it| it["session"] = "resolving".into()),
            Some(place),
        ),
        (
            "an origin that is the last",
            change(&told, "asking", |_, it| {
                it["stage"]["Asking"]["origin"] = 1.into()
            }),
            None,
        ),
        (
            "an origin that is not here",
            change(&told, "asking", |_, it| {
                it["stage"]["Asking"]["origin"] = 2.into()
            }),
            Some(place),
        ),
        (
            "an origin far from here",
            change(&told, "asking", |_, it| {
                it["stage"]["Asking"]["origin"] = 99.into()
            }),
            Some(place),
        ),
        (
            "between two stages",
            change(&told, "pausing", |_, it| it["stage"] = "Failed".into()),
            Some(place),
        ),
        (
            "about to call",
            change(&told, "pausing", |_, it| it["stage"] = calling.clone()),
            Some(place),
        ),
        (
            "asked by nobody",
            change(&told, "asking", |_, it| {
                it["stage"]["Asking"]["connection"] = 999.into();
            }),
            Some("in a place that is another's"),
        ),
        (
            "another's stream",
            change(&told, "running", |_, it| {
                it["stage"]["Running"]["stream"] = 999.into();
            }),
            Some(anothers),
        ),
        // Twice as many as may be without a stream, and as may run.
        (
            "the last place",
            change(&told, "pausing", |number, _| *number = 2 * (256 + 9) - 1),
            None,
        ),
        (
            "no place",
            change(&told, "pausing", |number, _| *number = 2 * (256 + 9)),
            Some("lies beyond the 530 that may be here at once"),
        ),
    ] {
        let why = told.taken_over(OPTIONS).err();
        let is_so = why.as_deref().map_or(words.is_none(), |why| {
            words.is_some_and(|words| why.contains(words))
        });
        assert!(is_so, "{what}: {why:?}");
    }
    // A pull that names an origin which the other server does not have asks nobody. Where this
    // server has other origins, the pull is dropped.
    let asks_second = change(&told, "asking", |_, it| {
        it["stage"]["Asking"]["origin"] = 1.into()
    });
    let fewer = [NAMED, "--streams=9"];
    assert!(told.taken_over(&fewer).is_ok());
    assert!(asks_second.taken_over(&fewer).is_ok());
    let asks_second = asks_second.but("context", |_, it| {
        it["options"]["origins"] = ["http://one.example:8001"].into()
    });
    let why = asks_second.taken_over(&fewer).err();
    assert!(why.is_some_and(|why| why.contains(place)));
}

/// Whom each concerns is who brings it.
#[test]
fn who_asks_and_what_runs_is_said_of_each_pull() {
    let (stage, _, [_, asked]) = all_stages();
    let fetch = &stage.relay.fetch;
    assert_eq!(fetch.origin_requests(), 1);
    let running: Vec<_> = fetch.running().collect();
    let [(id, stream)] = running[..] else {
        panic!("one runs: {running:?}");
    };
    let session = &fetch.pulls.entries.get(id).expect("it is there").session;
    assert_eq!(session.as_str(), "running");
    assert!(stage.relay.streams.is_pulls(session, stream, id));
    assert!(!fetch.is_requested_by(id, asked));
    let mut pulls = fetch.pulls.entries.iter();
    let asking = pulls.find(|(_, pull)| pull.session.as_str() == "asking");
    let (asking, _) = asking.expect("it is there");
    assert!(fetch.is_requested_by(asking, asked));
    assert!(!fetch.is_requested_by(asking, ConnectionId::from_u64(999)));
    assert!(!fetch.is_requested_by(PullId::from_u64(99), asked));
}
