//! The steps of a pull: every stage with every event, and the events that it reports.

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::SessionId;
use crate::gate::session;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::fetch::pull::Stage;
use crate::relay::fetch::{Fetch, WITHOUT_STREAM_MAX};
use crate::relay::origin_error::OriginError;
use crate::relay::{Action, ConnectionId, Job, JobId, PullId, StreamId, stage};
use crate::stream::End;
use crate::time::Instant;
use crate::time::at_milliseconds as at;

const ONE: &str = "--origin=http://10.1.0.1:8000";
const TWO: &str = "--origin=http://10.1.0.2:8000";
const NAMED: &str = "--origin=http://one.example:8001";
const OTHER_NAMED: &str = "--origin=http://two.example:8002";

/// What is fetched, by itself.
struct Scene {
    fetch: Fetch,
    ctx: Context,
}

fn connection(number: u64) -> ConnectionId {
    ConnectionId::from_u64(number)
}

fn stream(number: u64) -> StreamId {
    StreamId::from_u64(number)
}

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 7, 0, number], 80))
}

impl Scene {
    fn new(options: &[&str]) -> Scene {
        let mut ctx = Context::new(stage::settings(options));
        let fetch = Fetch::new(&mut ctx);
        Scene { fetch, ctx }
    }

    fn want(&mut self, name: &str) -> PullId {
        self.fetch.want(&session(name), None, &mut self.ctx);
        self.fetch.pulls.of(&session(name)).expect("it is fetched")
    }

    fn stage(&self, id: PullId) -> Option<Stage> {
        self.fetch.pulls.entries.get(id).map(|pull| pull.stage)
    }

    /// In a word, with the places of the origin and of its address.
    fn stands(&self, id: PullId) -> String {
        match self.stage(id) {
            None => "gone".to_owned(),
            Some(Stage::Resolving { origin, .. }) => format!("resolving {origin}"),
            Some(Stage::Calling(attempt)) => {
                format!("calling {}.{}", attempt.origin, attempt.address)
            }
            Some(Stage::Asking { attempt, .. }) => {
                format!("asking {}.{}", attempt.origin, attempt.address)
            }
            Some(Stage::Running { .. }) => "running".to_owned(),
            Some(Stage::Failed) => "failed".to_owned(),
            Some(Stage::Pausing { .. }) => "pausing".to_owned(),
        }
    }

    /// Returns all reported events, in words.
    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(event) = self.ctx.queue.pop_front() {
            said.push(match event {
                Event::CallOrigin(id) => format!("call {}", id.to_u64()),
                Event::OriginsExhausted(id) => format!("over {}", id.to_u64()),
                Event::Close(id) => format!("hang up {}", id.to_u64()),
                Event::EndPulled { stream, pull } => {
                    format!("unwanted {} {}", stream.to_u64(), pull.to_u64())
                }
                other => panic!("{other:?} is no event of a pull"),
            });
        }
        said
    }

    /// The origin that is to be called is called, over this connection.
    fn called(&mut self, id: PullId, over: u64) -> SocketAddr {
        self.said();
        let call = self.fetch.call(id, |_| None).expect("it is to be called");
        self.fetch.called(id, Some(connection(over)), &mut self.ctx);
        call.to
    }

    fn request_ended(&mut self, id: PullId, over: u64, fault: OriginError) {
        let fault = (connection(over), fault);
        self.fetch.request_ended(id, fault, |_| None, &mut self.ctx);
    }

    /// A pull that runs.
    fn running(&mut self, name: &str) -> PullId {
        let id = self.want(name);
        self.called(id, 90);
        let now = self.ctx.now();
        self.fetch.brought(id, stream(id.to_u64() + 50), None, now);
        id
    }

    /// Returns the jobs for names, with the names.
    fn sought(&mut self) -> Vec<(JobId, String)> {
        let mut sought = Vec::new();
        while let Some(action) = self.ctx.actions.pop_front() {
            if let Action::Run(job_id, Job::Resolve(names)) = action {
                sought.push((job_id, names[0].0.clone()));
            }
        }
        sought
    }

    fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(action) = self.ctx.actions.pop_front() {
            if let Action::Log(line) = action {
                lines.push(format!("{line:?}"));
            }
        }
        lines
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ctx.timers.next()
    }

    /// So many deadlines are armed as are there.
    fn check(&self) {
        let armed = self.fetch.pulls.check(|_, _, _| true);
        assert_eq!(self.ctx.timers.len(), armed);
    }
}

#[test]
fn a_session_is_fetched_once_and_only_where_there_are_origins() {
    let mut alone = Scene::new(&[]);
    assert!(alone.fetch.origins.is_empty() && !alone.fetch.has(&session("a")));
    alone.fetch.want(&session("a"), None, &mut alone.ctx);
    assert_eq!((alone.fetch.len(), alone.said().len()), (0, 0));
    let mut scene = Scene::new(&[ONE]);
    assert!(!scene.fetch.origins.is_empty() && scene.said().is_empty());
    let id = scene.want("a");
    assert!(scene.fetch.has(&session("a")) && !scene.fetch.has(&session("b")));
    assert_eq!(scene.want("a"), id);
    assert_eq!(scene.said(), [format!("call {}", id.to_u64())]);
    assert!(scene.said().is_empty());
    assert_eq!(scene.fetch.len(), 1);
}

/// Each origin may take so long, one after the other.
#[test]
fn a_viewer_waits_for_as_long_as_all_origins_may_take() {
    for (options, seconds) in [
        (&["--origin-time=3"][..], 0),
        (&["--origin-time=3", ONE], 3),
        (&["--origin-time=3", ONE, TWO, NAMED], 9),
    ] {
        let scene = Scene::new(options);
        assert_eq!(scene.fetch.time(&scene.ctx), Duration::from_secs(seconds));
    }
    let mut scene = Scene::new(&["--origin-time=3", ONE, TWO]);
    scene.ctx.set_now(at(1_000));
    let id = scene.want("a");
    let call = scene.fetch.call(id, |_| None).expect("it is to be called");
    assert_eq!(
        (call.to, call.until),
        ("10.1.0.1:8000".parse().expect("good"), at(4_000))
    );
    scene.called(id, 1);
    scene.ctx.set_now(at(2_500));
    scene.request_ended(id, 1, OriginError::NotFound);
    let call = scene.fetch.call(id, |_| None).expect("it is to be called");
    assert_eq!(
        (call.to, call.until),
        ("10.1.0.2:8000".parse().expect("good"), at(5_500))
    );
}

#[test]
fn a_network_gets_a_pull_only_while_more_are_free_than_it_has() {
    assert_eq!(WITHOUT_STREAM_MAX, 256);
    let mut scene = Scene::new(&[NAMED]);
    let other = Some(host(1).ip());
    for number in 0..300 {
        assert_eq!(scene.fetch.has_room(None), number < 128, "{number}");
        assert_eq!(scene.fetch.has_room(other), number < 256, "{number}");
        assert_eq!(scene.fetch.pulls.without_stream(), number);
        assert_eq!(scene.fetch.len(), number);
        scene.want(&number.to_string());
    }
    let ids: Vec<PullId> = scene.fetch.pulls.entries.iter().map(|(id, _)| id).collect();
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(scene.fetch.has_room(None), number > 172, "{number}");
        assert_eq!(scene.fetch.has_room(other), number > 44, "{number}");
        scene.fetch.runs(id, stream(1), at(0));
        assert_eq!(scene.fetch.pulls.without_stream(), 299 - number);
        assert_eq!(scene.fetch.len(), 300);
    }
}

/// After each answer of an origin, the next step. There are two origins; the first is a name with
/// two addresses.
#[test]
fn what_an_origin_answers_says_who_is_asked_next() {
    let broken = OriginError::Broken("it is ill");
    for (faults, stands) in [
        (&[broken][..], "calling 0.1"),
        (&[broken, broken], "calling 1.0"),
        (&[broken, broken, broken], "failed"),
        (&[OriginError::NotFound], "calling 1.0"),
        (&[OriginError::TimedOut], "calling 1.0"),
        (&[OriginError::Busy], "calling 1.0"),
        (&[OriginError::Loop], "calling 1.0"),
        (&[OriginError::Forbidden], "failed"),
        (&[broken, OriginError::NotFound], "calling 1.0"),
        (
            &[broken, OriginError::NotFound, OriginError::NotFound],
            "failed",
        ),
        (&[OriginError::Busy, OriginError::Forbidden], "failed"),
    ] {
        let mut scene = Scene::new(&[NAMED, TWO]);
        let id = scene.want("a");
        assert_eq!(scene.stands(id), "resolving 0");
        let (job_id, _) = scene.sought().remove(0);
        let found = [Ok(vec![host(1), host(2)])];
        assert!(scene.fetch.resolved(job_id, &found, &mut scene.ctx));
        for (over, fault) in (1..).zip(faults) {
            scene.called(id, over);
            // An origin that was asked before does not matter.
            let before = scene.stands(id);
            scene.request_ended(id, over - 1, OriginError::Forbidden);
            scene.request_ended(id, over + 1, OriginError::Forbidden);
            assert_eq!(scene.stands(id), before);
            assert!(!scene.fetch.is_forbidden(&session("a")));
            scene.request_ended(id, over, *fault);
        }
        assert_eq!(scene.stands(id), stands, "{faults:?}");
        let verb = if stands == "failed" { "over" } else { "call" };
        assert_eq!(scene.said(), [format!("{verb} {}", id.to_u64())]);
        // Waiting clients get the most specific reason.
        assert_eq!(
            scene.fetch.absence(&session("a")),
            *faults.iter().max().expect("one")
        );
        let is_forbidden = faults.contains(&OriginError::Forbidden);
        assert_eq!(scene.fetch.is_forbidden(&session("a")), is_forbidden);
    }
}

/// Nobody has answered yet, or it is not fetched at all.
#[test]
fn why_a_session_does_not_run_is_known_of_those_that_are_fetched() {
    let mut scene = Scene::new(&[ONE]);
    assert_eq!(scene.fetch.absence(&session("a")), OriginError::NotFound);
    assert!(!scene.fetch.is_forbidden(&session("a")));
    scene.want("a");
    assert_eq!(scene.fetch.absence(&session("a")), OriginError::TimedOut);
    assert_eq!(scene.fetch.absence(&session("b")), OriginError::NotFound);
}

/// An origin's refusal stays known until an origin sends the stream.
#[test]
fn that_a_session_may_not_be_watched_is_known_until_it_may() {
    let mut scene = Scene::new(&[ONE, "--wait=60"]);
    let id = scene.want("a");
    scene.fetch.note_fault(id, OriginError::NotFound);
    assert!(!scene.fetch.is_forbidden(&session("a")));
    scene.fetch.note_fault(id, OriginError::Forbidden);
    assert!(scene.fetch.is_forbidden(&session("a")));
    scene.fetch.note_fault(id, OriginError::NotFound);
    assert!(scene.fetch.is_forbidden(&session("a")));
    assert_eq!(scene.fetch.absence(&session("a")), OriginError::Forbidden);
    scene.called(id, 1);
    let own = scene.fetch.brought(id, stream(5), Some("1.1 b"), at(0));
    assert!(own.starts_with("1.1 b, 1.1 tollgate-"), "{own}");
    assert!(!scene.fetch.is_forbidden(&session("a")));
    assert_eq!(scene.stands(id), "running");
}

/// A loop is the pull's own only if nobody has come another way since it asked.
#[test]
fn a_loop_of_those_who_came_before_is_asked_about_again() {
    for (asked_via, now_via, stands) in [
        (None, None, "failed"),
        (Some("1.1 a"), Some("1.1 a"), "failed"),
        (Some("1.1 a"), None, "calling 0.0"),
        (None, Some("1.1 a"), "calling 0.0"),
        (Some("1.1 a"), Some("1.1 b"), "calling 0.0"),
    ] {
        for fault in [OriginError::Loop, OriginError::NotFound] {
            let mut scene = Scene::new(&[ONE]);
            let id = scene.want("a");
            scene.said();
            let call = scene.fetch.call(id, |_| asked_via).expect("it is called");
            let named = asked_via.is_none_or(|via| call.request.contains(via));
            assert!(named, "{}", call.request);
            scene.fetch.called(id, Some(connection(1)), &mut scene.ctx);
            let over = (connection(1), fault);
            scene
                .fetch
                .request_ended(id, over, |_| now_via, &mut scene.ctx);
            let expected = if fault == OriginError::Loop {
                stands
            } else {
                "failed"
            };
            assert_eq!(scene.stands(id), expected, "{asked_via:?} {now_via:?}");
        }
    }
}

/// Where there is no room for a connection, the next origin is tried, of which the same holds.
#[test]
fn an_origin_that_cannot_be_called_is_passed_over() {
    let mut scene = Scene::new(&[ONE, TWO, "--wait=60"]);
    let id = scene.want("a");
    scene.said();
    scene.fetch.called(id, None, &mut scene.ctx);
    assert_eq!(scene.stands(id), "calling 1.0");
    assert_eq!(scene.fetch.absence(&session("a")), OriginError::Busy);
    scene.called(id, 3);
    assert_eq!(scene.stands(id), "asking 1.0");
    assert!(scene.fetch.call(id, |_| None).is_none(), "it is called");
    // What comes late changes nothing.
    scene.fetch.called(id, None, &mut scene.ctx);
    scene.fetch.called(id, Some(connection(4)), &mut scene.ctx);
    assert_eq!(scene.stands(id), "asking 1.0");
    assert!(scene.fetch.is_requested_by(id, connection(3)));
    assert!(!scene.fetch.is_requested_by(id, connection(4)));
}

/// A look-up is for the pulls that wait for that name, and nobody else's.
#[test]
fn what_is_looked_up_moves_those_on_who_wait_for_it() {
    let mut scene = Scene::new(&[NAMED, OTHER_NAMED, "--origin-time=5"]);
    scene.ctx.set_now(at(100));
    let [a, b] = ["a", "b"].map(|name| scene.want(name));
    let (first, name) = scene.sought().remove(0);
    assert_eq!(name, "one.example");
    assert!(scene.sought().is_empty(), "it is looked up once");
    assert_eq!(scene.next_deadline(), Some(at(5_100)));
    // Its time is over: it is not found here, and one more waits for it then.
    scene.ctx.set_now(at(5_100));
    scene
        .fetch
        .pulls
        .entries
        .get_mut(a)
        .expect("it")
        .armed
        .fired();
    let due = |scene: &mut Scene, id| scene.fetch.due(id, &mut scene.ctx);
    due(&mut scene, a);
    assert_eq!(
        (scene.stands(a), scene.stands(b)),
        ("resolving 1".into(), "resolving 0".into())
    );
    let (second, name) = scene.sought().remove(0);
    assert_eq!(name, "two.example");
    assert_eq!(scene.fetch.absence(&session("a")), OriginError::TimedOut);
    // Nobody's.
    assert!(
        !scene
            .fetch
            .resolved(JobId(999), &[Ok(vec![host(1)])], &mut scene.ctx)
    );
    assert_eq!(
        (scene.stands(a), scene.stands(b)),
        ("resolving 1".into(), "resolving 0".into())
    );
    assert!(
        scene
            .fetch
            .resolved(first, &[Ok(vec![host(1)])], &mut scene.ctx)
    );
    assert_eq!(
        (scene.stands(a), scene.stands(b)),
        ("resolving 1".into(), "calling 0.0".into())
    );
    // Its time is still that of its origin.
    let call = scene.fetch.call(b, |_| None).expect("it is to be called");
    assert_eq!((call.to, call.until), (host(1), at(5_100)));
    assert!(scene.fetch.resolved(second, &[], &mut scene.ctx));
    assert_eq!(scene.stands(a), "failed");
    let ill = OriginError::Broken("its name does not resolve");
    assert!(ill < OriginError::TimedOut, "that tells more");
    // Both told.
    assert_eq!(
        scene.said(),
        [
            format!("call {}", b.to_u64()),
            format!("over {}", a.to_u64())
        ]
    );
}

/// No address at all is a fault; the last of several is none, if those before were called.
#[test]
fn a_name_without_addresses_is_a_fault_of_its_own() {
    let no_name = OriginError::Broken("its name does not resolve");
    let ill = OriginError::Broken("a");
    assert!(ill < no_name);
    for (addresses, fault) in [(vec![], no_name), (vec![host(1)], ill)] {
        let mut scene = Scene::new(&[NAMED]);
        let id = scene.want("a");
        let (job_id, _) = scene.sought().remove(0);
        let is_found = !addresses.is_empty();
        scene
            .fetch
            .resolved(job_id, &[Ok(addresses)], &mut scene.ctx);
        if is_found {
            scene.called(id, 1);
            scene.request_ended(id, 1, ill);
        }
        assert_eq!(scene.stands(id), "failed");
        assert_eq!(scene.fetch.absence(&session("a")), fault);
    }
}

/// The end of a round without a stream: whether another follows, and the answer to waiting clients.
#[test]
fn a_round_that_brought_nothing_is_over_or_another_comes() {
    #[derive(Clone, Copy)]
    struct Case {
        fault: OriginError,
        has_run: bool,
        waits: bool,
        is_held: bool,
        is_closing: bool,
    }
    let ill = OriginError::Broken("it is ill");
    let plain = |fault| Case {
        fault,
        has_run: false,
        waits: false,
        is_held: false,
        is_closing: false,
    };
    let ran = |fault| Case {
        has_run: true,
        ..plain(fault)
    };
    let waits = |fault| Case {
        waits: true,
        ..plain(fault)
    };
    let held = |case| Case {
        is_held: true,
        ..case
    };
    let closing = |case| Case {
        is_closing: true,
        ..case
    };
    // Whether another round follows, and whether waiting clients are refused.
    for (case, again, turned) in [
        (plain(OriginError::NotFound), false, true),
        (plain(ill), false, true),
        (plain(OriginError::Forbidden), false, true),
        // It has run here. An origin's answer is passed on; viewers wait for a failing origin.
        (ran(OriginError::NotFound), true, true),
        (ran(ill), true, false),
        (ran(OriginError::TimedOut), true, false),
        (ran(OriginError::Busy), true, false),
        (ran(OriginError::Loop), false, true),
        (ran(OriginError::Forbidden), false, true),
        (waits(OriginError::NotFound), true, false),
        (waits(ill), true, false),
        (waits(OriginError::Loop), false, true),
        (waits(OriginError::Forbidden), false, true),
        // Held viewers wait until the cause is removed.
        (held(ran(OriginError::Loop)), true, false),
        (held(ran(OriginError::Forbidden)), true, false),
        (held(plain(OriginError::Forbidden)), false, true),
        (closing(ran(OriginError::NotFound)), false, true),
        (closing(ran(ill)), false, true),
        (closing(held(waits(ill))), false, true),
    ] {
        let wait = if case.waits { "--wait=60" } else { "--wait=0" };
        let mut scene = Scene::new(&[ONE, wait]);
        let id = match case.has_run {
            true => scene.running("a"),
            false => scene.want("a"),
        };
        scene.fetch.note_fault(id, case.fault);
        let over = scene.fetch.end_round(id, |_| true, &mut scene.ctx);
        assert!(over.is_none(), "it is under way");
        scene.fetch.pulls.enter(id, Stage::Failed);
        if case.is_closing {
            scene.ctx.is_closing = true;
        }
        scene.lines();
        let before = scene.fetch.pulls.failures;
        let is_held = |_: &SessionId| case.is_held;
        let over = scene.fetch.end_round(id, is_held, &mut scene.ctx);
        let (of, told) = over.expect("its round is over");
        let what = format!(
            "{:?} {} {} {} {}",
            case.fault, case.has_run, case.waits, case.is_held, case.is_closing
        );
        assert_eq!(of, session("a"));
        assert_eq!(told, turned.then_some(case.fault), "{what}");
        let stands = if again { "pausing" } else { "gone" };
        assert_eq!(scene.stands(id), stands, "{what}");
        assert_eq!(scene.fetch.pulls.failures, before + 1);
        // That it runs nowhere is no failure of anybody's.
        let lines = scene.lines();
        let is_told = lines.iter().any(|line| line.contains("pull-fails"));
        assert_eq!(
            is_told,
            case.fault != OriginError::NotFound,
            "{what}: {lines:?}"
        );
        scene.check();
    }
}

/// A quarter of a second, and twice as much each time, up to eight; and a part of it that is drawn.
#[test]
fn rounds_are_apart_by_more_and_more() {
    let mut scene = Scene::new(&[ONE]);
    let mut parts = Vec::new();
    let pause = |scene: &mut Scene, id: PullId| {
        scene.fetch.pause(id, &mut scene.ctx);
        let Some(Stage::Pausing { until }) = scene.stage(id) else {
            panic!("it does not pause");
        };
        assert_eq!(scene.next_deadline(), Some(until));
        let pause = until.since(scene.ctx.now());
        scene.ctx.set_now(until);
        let now = scene.ctx.now();
        scene.ctx.timers.call_due(now, 9);
        while scene.ctx.timers.next_called().is_some() {}
        scene.fetch.due(id, &mut scene.ctx);
        assert_eq!(scene.stands(id), "calling 0.0");
        pause
    };
    for _ in 0..200 {
        let id = scene.running("a");
        for most in [
            250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000,
        ] {
            let it = pause(&mut scene, id).as_micros();
            let most = most * 1_000;
            assert!((most / 2..most).contains(&it), "{it} of {most}");
            parts.push((it * 1024 / most) as u32);
        }
        scene.fetch.drop(&session("a"), &mut scene.ctx);
    }
    // They are spread over all of that half.
    let (least, most) = (parts.iter().min(), parts.iter().max());
    assert!(
        least < Some(&540) && most > Some(&1_000),
        "{least:?} {most:?}"
    );
}

/// What has run for eight seconds was no failure.
#[test]
fn a_stream_that_is_over_is_fetched_anew_if_somebody_watches_it_and_it_broke() {
    for (end, has_viewers, is_closing, again) in [
        (End::Lost, true, false, true),
        (End::Lost, true, true, false),
        (End::Lost, false, false, false),
        (End::Lost, false, true, false),
        (End::Complete, true, false, false),
        (End::Complete, false, false, false),
    ] {
        for (ran, failures) in [(0, 4), (7_999, 4), (8_000, 1), (60_000, 1)] {
            let mut scene = Scene::new(&[ONE]);
            scene.ctx.set_now(at(1_000));
            let id = scene.running("a");
            scene.fetch.pulls.entries.get_mut(id).expect("it").failures = 3;
            scene.ctx.set_now(at(1_000 + ran));
            if is_closing {
                scene.ctx.is_closing = true;
            }
            let over = scene
                .fetch
                .stream_over(id, end, has_viewers, &mut scene.ctx);
            assert_eq!(over, again.then(|| session("a")));
            let pull = scene.fetch.pulls.entries.get(id);
            assert_eq!(
                pull.map(|pull| pull.failures),
                again.then_some(failures),
                "{ran}"
            );
            assert_eq!(scene.stands(id), if again { "pausing" } else { "gone" });
            scene.check();
            // One that does not run is not over.
            let twice = scene
                .fetch
                .stream_over(id, End::Complete, false, &mut scene.ctx);
            assert_eq!(twice, None);
            assert_eq!(scene.stands(id), if again { "pausing" } else { "gone" });
        }
    }
}

/// Everything under way ends, and the parts are told.
#[test]
fn what_is_not_wanted_any_more_is_hung_up_on() {
    let mut scene = Scene::new(&[NAMED, "--wait=60"]);
    let id = scene.want("resolving");
    scene.fetch.drop(&session("resolving"), &mut scene.ctx);
    assert_eq!((scene.stands(id), scene.said()), ("gone".into(), vec![]));
    scene.check();
    let mut scene = Scene::new(&[ONE, "--wait=60"]);
    for (name, is_asked) in [("calling", false), ("asking", true)] {
        let id = scene.want(name);
        scene.said();
        if is_asked {
            scene.called(id, 77);
        }
        scene.fetch.drop(&session(name), &mut scene.ctx);
        let said = if is_asked {
            vec!["hang up 77".to_owned()]
        } else {
            vec![]
        };
        assert_eq!((scene.stands(id), scene.said()), ("gone".into(), said));
    }
    let id = scene.running("running");
    let stream = id.to_u64() + 50;
    scene.fetch.drop(&session("running"), &mut scene.ctx);
    let said = vec![format!("unwanted {stream} {}", id.to_u64())];
    assert_eq!((scene.stands(id), scene.said()), ("gone".into(), said));
    // There is none of this name.
    scene.fetch.drop(&session("none"), &mut scene.ctx);
    assert_eq!(scene.said(), Vec::<String>::new());
    scene.check();
}

/// With the server what runs goes on to its end, and nothing else does.
#[test]
fn when_the_server_shuts_down_only_what_runs_is_fetched_on() {
    let mut scene = Scene::new(&[ONE]);
    let runs = scene.running("runs");
    let asks = scene.want("asks");
    scene.called(asks, 8);
    let pauses = scene.running("pauses");
    scene.fetch.pause(pauses, &mut scene.ctx);
    scene.fetch.shut_down(&mut scene.ctx);
    assert_eq!(
        [runs, asks, pauses].map(|id| scene.stands(id)),
        ["running", "gone", "gone"]
    );
    assert_eq!(scene.said(), ["hang up 8"]);
    scene.check();
}

/// It stays for `--origin-idle` if it has run, and not at all if it never has.
#[test]
fn a_pull_that_nobody_wants_has_its_time() {
    let mut scene = Scene::new(&[ONE, "--origin-idle=5"]);
    let tend = |scene: &mut Scene, name: &str, is_wanted: bool| {
        let whom = session(name);
        scene.fetch.tend(&whom, || is_wanted, &mut scene.ctx);
    };
    let id = scene.want("never");
    scene.called(id, 6);
    tend(&mut scene, "never", true);
    assert_eq!(scene.stands(id), "asking 0.0");
    tend(&mut scene, "never", false);
    assert_eq!(
        (scene.stands(id), scene.said()),
        ("gone".into(), vec!["hang up 6".into()])
    );

    let id = scene.running("ran");
    assert_eq!(scene.next_deadline(), None);
    scene.ctx.set_now(at(1_000));
    tend(&mut scene, "other", false);
    assert_eq!(scene.next_deadline(), None);
    tend(&mut scene, "ran", false);
    assert_eq!(scene.next_deadline(), Some(at(6_000)));
    // It is not wanted since then, however often it is asked.
    scene.ctx.set_now(at(4_000));
    tend(&mut scene, "ran", false);
    assert_eq!(scene.next_deadline(), Some(at(6_000)));
    // Somebody has come; and gone again.
    tend(&mut scene, "ran", true);
    let fire = |scene: &mut Scene, milliseconds| {
        scene.ctx.set_now(at(milliseconds));
        let now = scene.ctx.now();
        scene.ctx.timers.call_due(now, 9);
        while scene.ctx.timers.next_called().is_some() {
            scene.fetch.due(id, &mut scene.ctx);
        }
    };
    fire(&mut scene, 6_000);
    assert_eq!(
        (scene.stands(id), scene.next_deadline()),
        ("running".into(), None)
    );
    tend(&mut scene, "ran", false);
    fire(&mut scene, 10_999);
    assert_eq!(scene.stands(id), "running");
    assert_eq!(scene.next_deadline(), Some(at(11_000)));
    fire(&mut scene, 11_000);
    assert_eq!(scene.stands(id), "gone");
    assert_eq!(scene.said().len(), 1);
    scene.check();
}

/// A deadline that has moved fires at its old time: nothing is due then.
#[test]
fn what_is_not_due_yet_stays_as_it_is() {
    let mut scene = Scene::new(&[NAMED, ONE, "--origin-time=5", "--origin-idle=60"]);
    let resolving = scene.want("resolving");
    let pausing = {
        let mut other = Scene::new(&[ONE, "--origin-idle=60"]);
        let id = other.running("pausing");
        other.fetch.pause(id, &mut other.ctx);
        (other, id)
    };
    let (mut other, pausing) = pausing;
    let Some(Stage::Pausing { until }) = other.stage(pausing) else {
        panic!("it does not pause");
    };
    for (scene, id, stands, until) in [
        (&mut scene, resolving, "resolving 0", at(5_000)),
        (&mut other, pausing, "pausing", until),
    ] {
        let before = Duration::from_nanos(1);
        let early = Instant::after_start(until.since_start() - before);
        scene.ctx.set_now(early);
        scene.fetch.due(id, &mut scene.ctx);
        assert_eq!(scene.stands(id), stands);
        assert_eq!(scene.next_deadline(), Some(until));
        scene.ctx.set_now(until);
        let now = scene.ctx.now();
        scene.ctx.timers.call_due(now, 9);
        while scene.ctx.timers.next_called().is_some() {}
        scene.fetch.due(id, &mut scene.ctx);
        assert!(
            scene.stands(id).starts_with("calling"),
            "{}",
            scene.stands(id)
        );
    }
    // In a new round nothing is known of the one before.
    assert_eq!(
        scene.fetch.absence(&session("resolving")),
        OriginError::TimedOut
    );
    let fault = |scene: &Scene| {
        let pull = scene.fetch.pulls.entries.get(pausing);
        pull.expect("it is there").fault
    };
    assert_eq!(fault(&other), None);
}
