//! Pulls: a session that does not run here is fetched from an origin, once for all its viewers. Its
//! stream is then like any other.
//!
//! ```text
//!   a viewer's GET ─→ Resolving ─→ Asking ── 200 ──→ Running ── complete ─→ gone
//!                      ▲  ▲ └─ no address ┐ │ error     │
//!                      │  └─ next origin ─┴─┤           │ lost
//!                      │                    │ none left │
//!                      └──── Pausing ◀──────┴───────────┘
//! ```
//!
//! A pull exists while clients watch or wait; after it has brought its stream, for `--origin-idle`
//! longer. So a request for a session that no origin has leaves nothing behind. If a pull breaks,
//! its stream ends for its viewers as with any lost source. Viewers that return find the pull at
//! work.
//!
//! This file has the states and the table of pulls. [`super::Fetch`] changes them.

mod check;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::gate::SessionId;
use crate::relay::origin_error::OriginError;
use crate::relay::timers::Armed;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::slots::Slots;
use crate::time::Instant;

/// A session that is fetched.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Pull {
    pub(super) session: SessionId,
    /// Network of the client for which it began. `None`: it is not known.
    pub(super) network: Option<IpAddr>,
    /// The relays that the last request to an origin named: see [`super::Fetch::call`].
    pub(super) asked_via: Option<String>,
    /// An origin has refused the session, and no origin has sent it since.
    pub(super) is_forbidden: bool,
    pub(super) stage: Stage,
    /// It has brought the stream once.
    pub(super) has_run: bool,
    /// Rounds in a row in which no origin had the stream for long.
    pub(super) failures: u32,
    /// The greatest error of the origins that were asked in this round, or in the last one.
    pub(super) fault: Option<OriginError>,
    /// Since when nobody watches or waits.
    pub(super) unwatched_since: Option<Instant>,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) armed: Armed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Stage {
    /// The origin's name is looked up.
    Resolving { origin: usize, until: Instant },
    /// One address of the origin will be connected to at the end of this input.
    Calling(Attempt),
    /// The origin is being asked.
    Asking {
        #[cfg_attr(feature = "handover", serde(flatten))]
        attempt: Attempt,
        connection: ConnectionId,
    },
    /// The stream comes.
    Running { stream: StreamId, since: Instant },
    /// No origin has the stream. At the end of this input, another round is planned or the pull ends.
    Failed,
    /// Another round comes.
    Pausing { until: Instant },
}

/// An address of an origin, and the deadline of the origin's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Attempt {
    pub origin: usize,
    pub address: usize,
    pub until: Instant,
}

/// All pulls.
#[derive(Default)]
pub struct Pulls {
    /// Each pull, in its slot.
    pub entries: Slots<Pull>,
    pub(super) by_session: HashMap<SessionId, PullId>,
    /// Number of pulls whose stream runs.
    pub(super) running: usize,
    /// Rounds that brought nothing, since the start.
    pub failures: u64,
}

impl Pulls {
    /// Returns the number of pulls without a running stream.
    pub fn without_stream(&self) -> usize {
        self.entries.len() - self.running
    }

    /// Returns the number of these that began for clients of this network.
    pub fn without_stream_of(&self, network: Option<IpAddr>) -> usize {
        let pulls = self.entries.iter().map(|(_, pull)| pull);
        let of_network = pulls.filter(|pull| pull.network == network);
        of_network.filter(|pull| !pull.stage.is_running()).count()
    }

    /// Returns the session's pull. A session has at most one.
    pub fn of(&self, session: &SessionId) -> Option<PullId> {
        self.by_session.get(session).copied()
    }

    /// Adds a pull. Its session must have none yet.
    pub fn insert(&mut self, pull: Pull) -> PullId {
        let session = pull.session.clone();
        let id = self.entries.insert(pull);
        self.by_session.insert(session, id);
        id
    }

    /// Removes a pull. Returns `None` if it has gone already.
    pub fn remove(&mut self, id: PullId) -> Option<Pull> {
        let pull = self.entries.remove(id)?;
        self.by_session.remove(&pull.session);
        if self.by_session.is_empty() {
            self.by_session = HashMap::new();
        }
        self.running -= usize::from(pull.stage.is_running());
        Some(pull)
    }

    /// Changes the stage of a pull. Every change comes here, because the number of running pulls is
    /// kept.
    pub fn enter(&mut self, id: PullId, stage: Stage) {
        if let Some(pull) = self.entries.get_mut(id) {
            self.running -= usize::from(pull.stage.is_running());
            self.running += usize::from(stage.is_running());
            pull.stage = stage;
        }
    }
}

impl Stage {
    /// Returns whether its stream runs.
    pub fn is_running(self) -> bool {
        matches!(self, Stage::Running { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::session;

    fn pull(name: &str) -> Pull {
        Pull {
            session: session(name),
            network: None,
            asked_via: None,
            is_forbidden: false,
            stage: Stage::Pausing {
                until: Instant::START,
            },
            has_run: false,
            failures: 0,
            fault: None,
            unwatched_since: None,
            armed: Armed::default(),
        }
    }

    fn running(stream: u64) -> Stage {
        Stage::Running {
            stream: StreamId::from_u64(stream),
            since: Instant::START,
        }
    }

    /// For each answer of an origin: its words in the log and for viewers, and whether it is asked
    /// again for held viewers.
    #[test]
    fn a_refusal_of_an_origin_is_a_fault_of_one_kind() {
        let (neither, no_http) = (
            "its answer is neither a stream nor a refusal",
            "it cannot send the stream over HTTP",
        );
        for (status, fault, detail, is_final) in [
            (
                401,
                OriginError::Forbidden,
                "it has no http token there",
                true,
            ),
            (
                403,
                OriginError::Forbidden,
                "it has no http token there",
                true,
            ),
            (404, OriginError::NotFound, "it does not run there", false),
            (410, OriginError::NotFound, "it does not run there", false),
            (406, OriginError::Broken(no_http), no_http, false),
            (429, OriginError::Busy, "it has no room", false),
            (503, OriginError::Busy, "it has no room", false),
            (
                504,
                OriginError::TimedOut,
                "it did not answer in time",
                false,
            ),
            (508, OriginError::Loop, "the origins form a loop", true),
            (200, OriginError::Broken(neither), neither, false),
            (302, OriginError::Broken(neither), neither, false),
            (400, OriginError::Broken(neither), neither, false),
            (500, OriginError::Broken(neither), neither, false),
        ] {
            let found = OriginError::of_status(status);
            assert_eq!(found, fault, "{status}");
            assert_eq!((found.detail(), found.is_final()), (detail, is_final));
        }
    }

    /// Whichever way a pull goes from stage to stage, and whenever it ends.
    #[test]
    fn pulls_are_found_by_session_and_counted_by_whether_they_run() {
        let mut pulls = Pulls::default();
        let ids = ["a", "b", "c"].map(|name| pulls.insert(pull(name)));
        let [a, b, c] = ids;
        assert!(a != b && b != c && a != c);
        assert_eq!(["a", "b", "c", "d"].map(|it| pulls.of(&session(it))), {
            [Some(a), Some(b), Some(c), None]
        });
        let until = Instant::START;
        let attempt = Attempt {
            origin: 0,
            address: 0,
            until,
        };
        let connection = ConnectionId::from_u64(7);
        let asking = Stage::Asking {
            attempt,
            connection,
        };
        // Who enters which stage, and how many are without a stream then.
        for (id, stage, without) in [
            (a, running(1), 2),
            (a, running(2), 2),
            (b, asking, 2),
            (b, running(3), 1),
            (c, running(4), 0),
            (a, Stage::Pausing { until }, 1),
            (b, Stage::Resolving { origin: 0, until }, 2),
            (b, running(5), 1),
        ] {
            pulls.enter(id, stage);
            assert_eq!(pulls.without_stream(), without, "{stage:?}");
            assert_eq!(pulls.entries.get(id).map(|pull| pull.stage), Some(stage));
            pulls.check(|_, _, _| true);
        }
        for (id, name, is_left) in [(b, "b", 1), (a, "a", 0), (c, "c", 0)] {
            let gone = pulls.remove(id).expect("it is there");
            assert_eq!(gone.session.as_str(), name);
            assert!(pulls.remove(id).is_none() && pulls.of(&session(name)).is_none());
            assert_eq!(pulls.without_stream(), is_left);
            pulls.check(|_, _, _| true);
        }
    }

    /// Each pull's deadline counts; one whose stream is not its own is found out.
    #[test]
    fn a_check_sees_what_must_hold_of_pulls() {
        let mut pulls = Pulls::default();
        let ids = ["a", "b", "c"].map(|name| pulls.insert(pull(name)));
        assert_eq!(pulls.check(|_, _, _| true), 0);
        pulls.enter(ids[0], running(1));
        pulls.enter(ids[2], running(2));
        let is_live = |of: &SessionId, stream: StreamId, id: PullId| {
            let is_a = *of == session("a") && stream == StreamId::from_u64(1) && id == ids[0];
            is_a || (*of == session("c") && stream == StreamId::from_u64(2) && id == ids[2])
        };
        assert_eq!(pulls.check(is_live), 0);
        let wrong = |break_it: fn(&mut Pulls, PullId)| {
            let mut pulls = Pulls::default();
            let id = pulls.insert(pull("a"));
            pulls.enter(id, running(1));
            break_it(&mut pulls, id);
            let check = std::panic::AssertUnwindSafe(|| pulls.check(|_, _, _| true));
            std::panic::catch_unwind(check).is_err()
        };
        assert!(!wrong(|_, _| {}));
        assert!(wrong(|pulls, id| pulls.enter(id, Stage::Failed)));
        assert!(wrong(|pulls, _| pulls.running = 2));
        assert!(wrong(|pulls, _| pulls.running = 0));
        assert!(wrong(|pulls, _| pulls.by_session = HashMap::new()));
        assert!(wrong(|pulls, id| {
            let pull = pulls.entries.get_mut(id).expect("it is there");
            pull.unwatched_since = Some(Instant::START);
        }));
    }

    #[cfg(feature = "handover")]
    #[test]
    fn what_was_wrong_with_an_origin_is_told_without_its_words() {
        for (fault, expected) in [
            (OriginError::NotFound, OriginError::NotFound),
            (
                OriginError::Broken("it hung up"),
                OriginError::Broken("it did not send the stream"),
            ),
            (OriginError::Forbidden, OriginError::Forbidden),
        ] {
            let told = serde_json::to_string(&fault).expect("text");
            let heard: OriginError = serde_json::from_str(&told).expect("a fault");
            assert_eq!(heard, expected, "{told}");
        }
    }
}
