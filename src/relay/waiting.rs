//! Viewers who came too early: with `--wait` their session is given a while to begin before they
//! are told that it does not run, and with `--origin` it is fetched meanwhile.
//!
//! Owns who waits for what. A viewer who waits is a connection like another, counted and limited as
//! one.

use super::clients::Clients;
use super::desk::Desk;
use std::collections::{HashMap, HashSet};

use super::connection::Phase;
use super::{ConnectionId, Relay, origins};
use crate::gate::SessionId;
use crate::held::{string_bytes, table_bytes};
use crate::http::{HeadReader, Refusal, Reply};
use crate::moment::Moment;

/// A viewer whose session does not run yet.
pub(super) struct Waiting {
    pub session: SessionId,
    pub reply: Reply,
    pub until: Moment,
}

/// Who waits for a session.
#[derive(Default)]
struct Waiters {
    ids: HashSet<ConnectionId>,
    /// The relays (`Via`) through which all came who have waited since somebody does.
    via: Option<String>,
}

/// Who waits for each session.
#[derive(Default)]
pub(super) struct WaitingRoom {
    sessions: HashMap<SessionId, Waiters>,
}

impl WaitingRoom {
    fn enter(&mut self, session: &SessionId, id: ConnectionId, via: Option<&str>) {
        let waiters = self.sessions.entry(session.clone()).or_default();
        waiters.via = match waiters.ids.is_empty() {
            true => via.map(str::to_owned),
            false => origins::common(waiters.via.take(), via),
        };
        waiters.ids.insert(id);
    }

    fn leave(&mut self, session: &SessionId, id: ConnectionId) {
        if let Some(waiters) = self.sessions.get_mut(session) {
            waiters.ids.remove(&id);
            if waiters.ids.is_empty() {
                self.take(session);
            }
        }
    }

    /// All who wait for a session, who wait no more.
    fn take(&mut self, session: &SessionId) -> HashSet<ConnectionId> {
        let waiters = self.sessions.remove(session).unwrap_or_default();
        if self.sessions.is_empty() {
            self.sessions = HashMap::new();
        }
        waiters.ids
    }

    /// The relays through which all came who wait for a session, as their requests say.
    pub fn came_through(&self, session: &SessionId) -> Option<&str> {
        self.sessions.get(session)?.via.as_deref()
    }

    /// Whether anybody waits for this session.
    pub fn is_awaited(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// What the room holds in memory, in bytes.
    pub fn held_bytes(&self) -> usize {
        let table = table_bytes::<(SessionId, Waiters)>(self.sessions.capacity());
        let sessions = self.sessions.iter().map(|(session, waiters)| {
            let ids = table_bytes::<ConnectionId>(waiters.ids.capacity());
            session.held_bytes() + ids + string_bytes(waiters.via.as_ref())
        });
        table + sessions.sum::<usize>()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.sessions
            .values()
            .map(|waiters| waiters.ids.len())
            .sum()
    }
}

impl Clients {
    fn take_waiting(&mut self, id: ConnectionId) -> Option<(SessionId, Reply)> {
        let connection = self.connections.get_mut(id)?;
        let phase = std::mem::replace(&mut connection.phase, Phase::Head(HeadReader::default()));
        match phase {
            Phase::Waiting(Waiting { session, reply, .. }) => Some((session, reply)),
            phase => {
                connection.phase = phase;
                None
            }
        }
    }
}

impl Clients {
    /// The session will not run: all who wait for it are told why.
    pub(super) fn turn_away(&mut self, session: &SessionId, refusal: &Refusal, desk: &mut Desk) {
        let ids = self.waiting.take(session);
        for id in ids {
            if let Some((_, reply)) = self.take_waiting(id) {
                self.refuse(id, refusal, reply, desk);
            }
        }
    }
}

impl Relay {
    /// The request, which came through `via`, is answered when the session begins, or when it has
    /// not for too long.
    pub(super) fn wait_for(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        via: Option<&str>,
        reply: Reply,
    ) {
        let now = self.desk.now;
        let until = now
            + self
                .desk
                .settings
                .limits
                .wait_time
                .max(self.fetch.pull_time(&self.desk));
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let via = via.filter(|_| !self.fetch.origins.is_empty());
        self.clients.waiting.enter(&session, id, via);
        connection.phase = Phase::Waiting(Waiting {
            session,
            reply,
            until,
        });
    }

    /// The session runs: those who waited for it watch, if they still may.
    pub(super) fn admit_waiting(&mut self, session: &SessionId) {
        let ids = self.clients.waiting.take(session);
        for id in ids {
            self.end_wait(id);
        }
    }

    /// It runs, or has not for too long.
    pub(super) fn end_wait(&mut self, id: ConnectionId) {
        let Some((session, reply)) = self.clients.take_waiting(id) else {
            return;
        };
        let verdict = match self
            .grants
            .gate(&self.desk)
            .watch(&session, &self.standing(&session))
        {
            Ok(()) if !self.streams.running.contains_key(&session) => Err(self.absence(&session)),
            verdict => verdict,
        };
        self.clients.waiting.leave(&session, id);
        match verdict {
            Ok(()) => self.watch(id, session.clone(), None, reply),
            Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.desk),
        }
        self.tend_pull(&session);
    }

    /// A viewer who waited is gone.
    pub(super) fn waiting_left(&mut self, id: ConnectionId, waiting: &Waiting) {
        self.clients.waiting.leave(&waiting.session, id);
        self.tend_pull(&waiting.session);
    }
}
