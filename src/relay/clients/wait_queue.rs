//! Viewers that came too early. With `--wait` the server gives their session time to begin; with
//! `--origin` it fetches the session meanwhile. A waiting viewer is a connection, counted and
//! limited as any other.
//!
//! Many viewers may wait for one session. When it begins, all join its stream at once, so that they
//! miss nothing, and each gets its answer in the stream's turn. If they are refused, time loses
//! nothing: each gets its answer in its turn in the list of [`super::reading`], a few in a turn of
//! the loop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::{Clients, Phase};
use crate::gate::SessionId;
use crate::hls::PlaylistPosition;
use crate::http::Reply;
use crate::relay::admission::SessionState;
use crate::relay::context::Context;
use crate::relay::origin_error::OriginError;
use crate::relay::view::View;
use crate::relay::{ConnectionId, fetch};
use crate::time::Instant;

/// A viewer whose session does not run yet, or has not come far enough.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiting {
    /// Session that the viewer waits for.
    pub session: SessionId,
    /// Waits for the session to start, or for its playlist to grow.
    pub wait_for: WaitFor,
    /// The part of the session that it asked for.
    pub view: View,
    /// How to answer it.
    pub reply: Reply,
    /// Deadline of the wait.
    pub until: Instant,
    /// Outcome so far.
    pub outcome: WaitOutcome,
    /// The stream that it waits for more of, or was called for, is an origin's. When that stream is
    /// over, it is not fetched again for this client.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub is_fetched: bool,
}

impl Waiting {
    /// Returns the session that it waits for, and how far that must have come.
    pub fn what(&self) -> (&SessionId, PlaylistPosition) {
        (&self.session, self.view.playlist_position())
    }
}

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum WaitOutcome {
    /// It waits.
    Open,
    /// The viewer is decided about anew, in its turn.
    Called,
    /// It will be refused for this reason, in its turn.
    TurnedAway(OriginError),
}

/// What a viewer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum WaitFor {
    /// Its session has to begin.
    Session,
    /// Its stream has to come further: its playlist must grow, or its format must be known before it
    /// can be remuxed.
    Progress,
    /// The viewer was called, and waits for its turn. Only the lists of [`WaitQueue`] have this value.
    #[cfg_attr(feature = "handover", serde(skip))]
    Turn,
}

/// Clients that wait for one session.
#[derive(Default)]
struct Waiters {
    /// Clients by how far the playlist must have come for each.
    ids: BTreeSet<(PlaylistPosition, ConnectionId)>,
    /// Relays (`Via`) that the requests of all clients came through since the first of them waits.
    via: Option<String>,
}

/// Waiting clients by what they wait for.
#[derive(Default)]
pub struct WaitQueue {
    sessions: HashMap<(WaitFor, SessionId), Waiters>,
    /// All waiting clients, by their connections.
    all: BTreeMap<(WaitFor, ConnectionId), (SessionId, PlaylistPosition)>,
}

impl WaitQueue {
    pub(super) fn enter(
        &mut self,
        wait_for: WaitFor,
        (session, position): (&SessionId, PlaylistPosition),
        id: ConnectionId,
        via: Option<&str>,
    ) {
        let waiters = self
            .sessions
            .entry((wait_for, session.clone()))
            .or_default();
        waiters.via = match waiters.ids.is_empty() {
            true => via.map(str::to_owned),
            false => fetch::common(waiters.via.take(), via),
        };
        waiters.ids.insert((position, id));
        self.all.insert((wait_for, id), (session.clone(), position));
    }

    /// Removes a client that waits for this, or for its turn.
    pub(super) fn leave(&mut self, wait_for: WaitFor, id: ConnectionId) {
        for wait_for in [wait_for, WaitFor::Turn] {
            if let Some((session, position)) = self.all.remove(&(wait_for, id)) {
                let key = (wait_for, session);
                if let Some(waiters) = self.sessions.get_mut(&key) {
                    waiters.ids.remove(&(position, id));
                }
                self.tidy(&key);
            }
        }
    }

    /// Removes the clients that wait for less of a session than `reached`. Does not look at the
    /// others.
    fn take(
        &mut self,
        wait_for: WaitFor,
        session: &SessionId,
        reached: PlaylistPosition,
    ) -> Vec<ConnectionId> {
        let key = (wait_for, session.clone());
        let mut taken = Vec::new();
        if let Some(waiters) = self.sessions.get_mut(&key) {
            while let Some((position, id)) = waiters.ids.first().copied()
                && position < reached
            {
                waiters.ids.pop_first();
                self.all.remove(&(wait_for, id));
                taken.push(id);
            }
        }
        self.tidy(&key);
        taken
    }

    /// Removes the entry of a session without waiting clients.
    fn tidy(&mut self, key: &(WaitFor, SessionId)) {
        let waiters = self.sessions.get(key);
        if waiters.is_some_and(|waiters| waiters.ids.is_empty()) {
            self.sessions.remove(key);
        }
        if self.sessions.is_empty() {
            self.sessions = HashMap::new();
        }
    }

    /// Returns the clients that wait for a session to begin.
    fn of(&self, session: &SessionId) -> Option<&Waiters> {
        self.sessions.get(&(WaitFor::Session, session.clone()))
    }

    /// Returns the relays that the requests of all clients waiting for a session came through.
    pub fn came_through(&self, session: &SessionId) -> Option<&str> {
        self.of(session)?.via.as_deref()
    }

    /// Returns whether a client waits for this session to begin, to come further, or for its turn.
    pub fn is_awaited(&self, session: &SessionId) -> bool {
        let is_awaited = |wait_for| self.sessions.contains_key(&(wait_for, session.clone()));
        [WaitFor::Session, WaitFor::Progress, WaitFor::Turn]
            .into_iter()
            .any(is_awaited)
    }

    /// Returns the clients that wait for this, with their sessions, in the order of their
    /// connections, from this one on.
    pub fn from(
        &self,
        wait_for: WaitFor,
        first: ConnectionId,
    ) -> impl Iterator<Item = (ConnectionId, &SessionId)> {
        let those = self.all.range((wait_for, first)..);
        let those = those.take_while(move |((its, _), _)| *its == wait_for);
        those.map(|((_, id), (session, _))| (*id, session))
    }

    /// Returns the number of clients that wait for this.
    pub fn len(&self, wait_for: WaitFor) -> usize {
        self.from(wait_for, ConnectionId::from_u64(0)).count()
    }
}

impl Clients {
    /// Returns the session that a client waits for.
    pub fn waits_for(&self, id: ConnectionId) -> Option<&SessionId> {
        match self.phase(id)? {
            Phase::Waiting(waiting) => Some(&waiting.session),
            _ => None,
        }
    }

    /// Returns the time of a client's request.
    pub fn asked_at(&self, id: ConnectionId) -> Option<Instant> {
        Some(self.connections.get(id)?.progress)
    }

    /// Returns the name of what a client waits for ([`View::name`]), and since when it waits.
    pub fn waits(&self, id: ConnectionId) -> Option<(&'static str, Instant)> {
        let connection = self.connections.get(id)?;
        match &connection.phase {
            Phase::Waiting(waiting) => Some((waiting.view.name(), connection.progress)),
            _ => None,
        }
    }

    /// Lets a request wait for what `waiting` names, the session or a longer playlist, or until its
    /// deadline.
    pub fn wait_for(
        &mut self,
        id: ConnectionId,
        waiting: Waiting,
        via: Option<&str>,
        ctx: &mut Context,
    ) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.waiting
                .enter(waiting.wait_for, waiting.what(), id, via);
            connection.phase = Phase::Waiting(Box::new(waiting));
        }
        self.rearm(id, ctx);
    }

    /// Ends the wait of a client. Returns what it waited for.
    pub fn end_wait(&mut self, id: ConnectionId) -> Option<Waiting> {
        let connection = self.connections.get_mut(id)?;
        match std::mem::take(&mut connection.phase) {
            Phase::Waiting(waiting) => {
                self.waiting.leave(waiting.wait_for, id);
                Some(*waiting)
            }
            phase => {
                connection.phase = phase;
                None
            }
        }
    }

    /// Ends all waits for a session. Returns each client with its reply.
    pub fn end_waiting(&mut self, session: &SessionId) -> Vec<(ConnectionId, Reply)> {
        let ids = self
            .waiting
            .take(WaitFor::Session, session, PlaylistPosition::ALL);
        let ended = |id| Some((id, self.end_wait(id)?.reply));
        ids.into_iter().filter_map(ended).collect()
    }

    /// Calls the clients that wait for a session and may not watch it, and the ones that do not need its
    /// first byte. Each gets its answer in its turn.
    pub fn call_others(
        &mut self,
        session: &SessionId,
        session_state: &SessionState,
        may_watch: impl Fn(&SessionId, Option<IpAddr>, &SessionState) -> bool,
    ) {
        let waiters = self.waiting.of(session).into_iter();
        let ids = waiters.flat_map(|waiters| &waiters.ids).map(|(_, id)| *id);
        let is_other = |id: &ConnectionId| {
            if !matches!(self.phase(*id), Some(Phase::Waiting(waiting)) if waiting.view == View::Whole)
            {
                return true;
            }
            let from = self.peer(*id).map(|peer| peer.ip());
            let credential = self.admitted_by(*id).unwrap_or(session);
            let session_state =
                self.complete_session_state(session, credential, from, session_state.clone());
            !may_watch(credential, from, &session_state)
        };
        for id in ids.filter(is_other).collect::<Vec<_>>() {
            if let Some(connection) = self.connections.get_mut(id)
                && let Phase::Waiting(waiting) = &mut connection.phase
            {
                waiting.is_fetched = session_state.is_fetched;
            }
            self.call_one(id, WaitOutcome::Called);
        }
    }

    /// Calls one waiting client, with this outcome.
    pub(super) fn call_one(&mut self, id: ConnectionId, outcome: WaitOutcome) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::Waiting(waiting) = &mut connection.phase
        {
            waiting.outcome = outcome;
            self.waiting.leave(waiting.wait_for, id);
            self.waiting.enter(WaitFor::Turn, waiting.what(), id, None);
            self.queue_pipelined(id);
        }
    }

    /// Calls all clients in this queue that wait for a session. Each gets its answer in its turn.
    pub fn call_waiting(&mut self, wait_for: WaitFor, session: &SessionId, outcome: WaitOutcome) {
        self.call_up_to(wait_for, PlaylistPosition::ALL, session, outcome);
    }

    /// Calls the clients that wait for less of the playlist than it has now.
    pub fn call_up_to(
        &mut self,
        wait_for: WaitFor,
        reached: PlaylistPosition,
        session: &SessionId,
        outcome: WaitOutcome,
    ) {
        for id in self.waiting.take(wait_for, session, reached) {
            self.call_one(id, outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::session;
    use crate::relay::stage::Stage;
    use crate::relay::{END_COST, PIPELINED_COST_MAX};

    const VIEWERS: usize = 90;
    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

    /// How many are written to before it is this one's turn.
    fn writes_before(stage: &mut Stage, id: ConnectionId) -> usize {
        let mut writes = 0;
        while stage.text(id).is_empty() {
            assert!(stage.write_next(), "it is never its turn");
            writes += 1;
        }
        writes - 1
    }

    /// All of them begin with the first byte, and do not delay others.
    #[test]
    fn many_who_waited_do_not_hold_up_others() {
        let mut stage = Stage::new(&["--wait=60"]);
        let viewers: Vec<ConnectionId> = (0..VIEWERS).map(|_| stage.viewer("s")).collect();
        assert_eq!(stage.relay.clients.waiting.len(WaitFor::Session), VIEWERS);
        let asking = stage.client("");
        let source = stage.client("");
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\nContent-Length: 5\r\n\r\nfirst";
        stage.relay.received(source, head.as_bytes(), stage.now);
        stage.relay.received(asking, HEALTH.as_bytes(), stage.now);
        stage.relay.check();
        let before = writes_before(&mut stage, asking);
        assert!(before <= 2, "{before} others first");
        stage.settle();
        for viewer in viewers {
            assert_eq!(stage.content(viewer), ("first".to_owned(), true));
        }
        assert_eq!(stage.relay.clients.waiting.len(WaitFor::Session), 0);
    }

    /// Waiting clients are refused a few in a turn. Some have left meanwhile.
    #[test]
    fn many_who_waited_are_turned_away_a_few_a_turn() {
        let gated = "--token-server=10.0.0.0/24";
        let cases: [(&[&str], &str); 2] = [
            (
                &["--wait=60", gated],
                "DELETE /api/abort-stream?sessionid=s&block=60",
            ),
            (&["--origin=http://127.0.0.1:9000", gated], ""),
        ];
        for (options, call) in cases {
            let mut stage = Stage::new(options);
            let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stage.client(&request("POST /api/add-token?type=http&sessionid=s"));
            let viewers: Vec<ConnectionId> = (0..VIEWERS).map(|_| stage.viewer("s")).collect();
            assert_eq!(stage.relay.clients.waiting.len(WaitFor::Session), VIEWERS);
            let asking = stage.client("");
            let (id, said) = match call {
                "" => (
                    stage.call().0,
                    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".into(),
                ),
                call => (stage.client(""), request(call)),
            };
            stage.relay.received(id, said.as_bytes(), stage.now);
            stage.relay.received(asking, HEALTH.as_bytes(), stage.now);
            stage.relay.check();
            assert_eq!(stage.relay.clients.waiting.len(WaitFor::Session), 0);
            let before = writes_before(&mut stage, asking);
            assert!(before <= 2, "{before} others first");
            let (gone, rest) = viewers.split_at(10);
            for viewer in gone {
                stage.relay.lost(*viewer, stage.now);
            }
            stage.relay.check();
            let refused = |stage: &Stage| -> u64 { stage.relay.ctx.counts.refusals.values().sum() };
            while stage.relay.has_deferred_work() {
                let (earlier, mut cost) = (refused(&stage), 0);
                while cost < PIPELINED_COST_MAX
                    && let Some(spent) = stage.relay.do_deferred_work(stage.now)
                {
                    cost += spent;
                }
                let in_turn = (refused(&stage) - earlier) as usize;
                assert!(
                    in_turn <= PIPELINED_COST_MAX / END_COST,
                    "{in_turn} in a turn"
                );
                stage.relay.check();
            }
            stage.settle();
            for viewer in rest {
                assert!(stage.text(*viewer).starts_with("HTTP/1.1 4"));
            }
            assert_eq!(refused(&stage) as usize, rest.len());
        }
    }

    fn id(number: u64) -> ConnectionId {
        ConnectionId::from_u64(number)
    }

    /// Of all who wait what their requests have in common, since somebody does.
    #[test]
    fn through_whom_all_came_is_known() {
        let mut queue = WaitQueue::default();
        let name = session("s");
        assert_eq!(queue.came_through(&name), None);
        queue.enter(
            WaitFor::Session,
            (&name, PlaylistPosition::STREAM),
            id(1),
            Some("1.1 a, 1.1 b"),
        );
        assert_eq!(queue.came_through(&name), Some("1.1 a, 1.1 b"));
        queue.enter(
            WaitFor::Session,
            (&name, PlaylistPosition::STREAM),
            id(2),
            Some("1.1 b"),
        );
        assert_eq!(queue.came_through(&name), Some("1.1 b"));
        queue.leave(WaitFor::Session, id(2));
        assert_eq!(
            queue.came_through(&name),
            Some("1.1 b"),
            "it is not known again"
        );
        queue.leave(WaitFor::Session, id(1));
        queue.enter(
            WaitFor::Session,
            (&name, PlaylistPosition::STREAM),
            id(3),
            None,
        );
        assert!(queue.is_awaited(&name) && !queue.is_awaited(&session("t")));
        assert_eq!(queue.came_through(&name), None);
    }

    /// A waiting client's session, view and time are known.
    #[test]
    fn it_is_known_who_waits_for_what() {
        let mut stage = Stage::new(&["--wait=60"]);
        let idle = stage.client("");
        stage.now = stage.now + std::time::Duration::from_secs(3);
        let viewer = stage.viewer("s");
        let since = stage.now;
        stage.now = stage.now + std::time::Duration::from_secs(5);
        let clients = &stage.relay.clients;
        assert_eq!(clients.waits_for(viewer), Some(&session("s")));
        assert_eq!(clients.waits(viewer), Some(("http", since)));
        assert_eq!((clients.waits_for(idle), clients.waits(idle)), (None, None));
        let (of, none) = (
            clients.waiting.from(WaitFor::Session, viewer),
            clients.waiting.from(WaitFor::Progress, viewer),
        );
        assert_eq!(of.collect::<Vec<_>>(), [(viewer, &session("s"))]);
        assert_eq!(none.count(), 0);
        let after = ConnectionId::from_u64(viewer.to_u64() + 1);
        assert_eq!(clients.waiting.from(WaitFor::Session, after).count(), 0);
        #[cfg(feature = "hls")]
        {
            let player = stage.client("GET /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(stage.relay.clients.waits(player), Some(("hls", stage.now)));
        }
        stage.lose(viewer);
        assert_eq!(stage.relay.clients.waits_for(viewer), None);
    }

    #[test]
    fn the_outcome_is_known_at_the_end_of_the_wait() {
        for outcome in [
            WaitOutcome::Open,
            WaitOutcome::Called,
            WaitOutcome::TurnedAway(OriginError::NotFound),
        ] {
            let mut stage = Stage::new(&["--wait=60"]);
            let viewer = stage.viewer("s");
            let clients = &mut stage.relay.clients;
            if outcome != WaitOutcome::Open {
                clients.call_waiting(WaitFor::Session, &session("s"), outcome);
            }
            let waited = clients.end_wait(viewer).expect("it waited");
            assert_eq!(waited.outcome, outcome);
            assert!(clients.end_wait(viewer).is_none(), "it waits no more");
            assert_eq!(clients.waiting.len(WaitFor::Session), 0);
        }
    }

    /// A client that waits for more than there is stays in the queue.
    #[test]
    fn those_are_called_who_wait_for_less_than_there_is() {
        let name = session("s");
        let mut queue = WaitQueue::default();
        for number in [1, 2] {
            queue.enter(
                WaitFor::Session,
                (&name, PlaylistPosition::STREAM),
                id(number),
                None,
            );
        }
        assert_eq!(
            queue.take(WaitFor::Session, &name, PlaylistPosition::STREAM),
            []
        );
        assert_eq!(
            (queue.len(WaitFor::Session), queue.is_awaited(&name)),
            (2, true)
        );
        assert_eq!(
            queue.take(WaitFor::Session, &session("t"), PlaylistPosition::ALL),
            []
        );
        assert_eq!(
            queue.take(WaitFor::Session, &name, PlaylistPosition::ALL),
            [id(1), id(2)]
        );
        assert_eq!(
            (queue.len(WaitFor::Session), queue.is_awaited(&name)),
            (0, false)
        );
    }

    /// Its stream runs, and has no playlist yet.
    #[cfg(feature = "hls")]
    #[test]
    fn who_waits_for_a_playlist_waits_in_a_room_of_its_own() {
        let mut stage = Stage::new(&["--wait=60"]);
        stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
        let player = stage.client("GET /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
        let clients = &stage.relay.clients;
        let waiting = &clients.waiting;
        let both = [WaitFor::Session, WaitFor::Progress].map(|wait_for| waiting.len(wait_for));
        assert_eq!(both, [0, 1]);
        assert_eq!(clients.waits_for(player), Some(&session("s")));
        stage.lose(player);
        assert_eq!(stage.relay.clients.waiting.len(WaitFor::Progress), 0);
    }
}
