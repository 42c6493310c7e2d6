//! Fetching: what moves a pull on. A viewer comes, an origin is looked up, connected to, asked and
//! heard, its stream runs, breaks, or is not wanted any more. ([`super::pull`] has the states.)
//!
//! Bounds: a pull that does not run takes the place of a stream, there are at most
//! [`WITHOUT_STREAM_MAX`] of them when another is begun, each has one connection, and a session has
//! one pull. So strangers cost an origin a request each at most.

use std::net::SocketAddr;
use std::time::Duration;

use super::admission::{Claim, Way};
use super::clients::{Fate, Room};
use super::desk::Desk;
use super::grants::Grants;
use super::live::{Live, Origin};
use super::origins::{Origins, Whereabouts};
use super::pull::{Fault, Pull, Pulls, Stage};
use super::timers::{Armed, Owner};
use super::{Action, ConnectionId, Job, Level, PullId, Relay, Ticket};
use crate::gate::SessionId;
use crate::http::{Answer, Refusal};
use crate::moment::Moment;
use crate::stream::End;

/// While so many pulls are without their stream, no other is begun.
const WITHOUT_STREAM_MAX: usize = 256;
/// Pauses grow from the first of these to the second.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// The origins, and what is fetched from them.
pub(super) struct Fetch {
    pub origins: Origins,
    pub pulls: Pulls,
}

impl Fetch {
    pub fn new(desk: &mut Desk) -> Fetch {
        Fetch {
            origins: Origins::new(&desk.settings.origins, &mut desk.random),
            pulls: Pulls::default(),
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.origins.held_bytes() + self.pulls.held_bytes()
    }
}

impl Fetch {
    /// How long a viewer waits for a stream to be fetched.
    pub(super) fn pull_time(&self, desk: &Desk) -> Duration {
        let origins = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        desk.settings.limits.origin_time.saturating_mul(origins)
    }

    fn await_addresses(&mut self, id: PullId, origin: usize, until: Moment, desk: &mut Desk) {
        self.pulls.enter(id, Stage::Resolving { origin, until });
        self.rearm_pull(id, desk);
    }

    fn note_fault(&mut self, id: PullId, fault: Fault) {
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            pull.is_forbidden |= fault == Fault::Forbidden;
            pull.fault = pull.fault.max(Some(fault));
        }
    }

    fn pause_pull(&mut self, id: PullId, desk: &mut Desk) {
        let now = desk.now;
        let Some(pull) = self.pulls.entries.get_mut(id) else {
            return;
        };
        let pause = PAUSE_MAX.min(PAUSE_MIN * (1 << pull.failures.min(8)));
        pull.failures = pull.failures.saturating_add(1);
        // Between half of it and all, so that edges which lost their origin together do not come
        // back together.
        let part = (desk.random.draw() % 512) as u32;
        let until = now + pause / 2 + pause * part / 1024;
        self.pulls.enter(id, Stage::Pausing { until });
        self.rearm_pull(id, desk);
    }

    fn remove_pull(&mut self, id: PullId, desk: &mut Desk) -> Option<Stage> {
        let mut pull = self.pulls.remove(id)?;
        desk.timers.disarm(&mut pull.armed, Owner::Pull(id));
        Some(pull.stage)
    }

    fn pull_deadline(&self, pull: &Pull, desk: &Desk) -> Option<Moment> {
        let stage = match pull.stage {
            Stage::Resolving { until, .. } | Stage::Pausing { until } => Some(until),
            // Its connection has the deadline.
            Stage::Asking { .. } | Stage::Running { .. } => None,
        };
        stage
            .into_iter()
            .chain(self.idle_deadline(pull, desk))
            .min()
    }

    fn idle_deadline(&self, pull: &Pull, desk: &Desk) -> Option<Moment> {
        Some(pull.unwatched_since? + desk.settings.limits.origin_idle_time)
    }

    fn rearm_pull(&mut self, id: PullId, desk: &mut Desk) {
        let Some(pull) = self.pulls.entries.get(id) else {
            return;
        };
        let deadline = self.pull_deadline(pull, desk);
        if let (Some(deadline), Some(pull)) = (deadline, self.pulls.entries.get_mut(id)) {
            desk.timers.arm(&mut pull.armed, Owner::Pull(id), deadline);
        }
    }
}

impl Grants {
    pub(super) fn has_own_gate(&self, desk: &Desk) -> bool {
        self.tokens.is_some() && !desk.settings.asks_origin
    }
}

impl Relay {
    // ---- A viewer comes

    /// Whether another session may be fetched.
    pub(super) fn has_room_for_pull(&self) -> bool {
        self.fetch.pulls.without_stream() < WITHOUT_STREAM_MAX && self.clients.has_room(&self.desk)
    }

    /// Whether this session may run, one stream more. Those that are being fetched have their
    /// places, it among them.
    pub(super) fn has_room_for_stream(&self, session: &SessionId) -> bool {
        let places = self.streams.running.len() + self.fetch.pulls.without_stream();
        places < self.desk.settings.limits.streams_max
            || self.fetch.pulls.of(session).is_some()
            || self.streams.running.contains_key(session)
    }

    /// A viewer wants a session: it is fetched, unless it runs or is being fetched. The viewer
    /// waits already.
    pub(super) fn pull(&mut self, session: &SessionId) {
        let now = self.desk.now;
        if self.fetch.origins.is_empty() {
            return;
        }
        if self.fetch.pulls.of(session).is_none() {
            let id = self.fetch.pulls.insert(Pull {
                session: session.clone(),
                asked_via: None,
                is_forbidden: false,
                stage: Stage::Pausing { until: now },
                has_run: false,
                failures: 0,
                fault: None,
                unwatched_since: None,
                armed: Armed::default(),
            });
            self.ask_origin(id, 0);
        }
        self.tend_pull(session);
    }

    /// What a pull's request came through, beside this server: the relays that all have in common
    /// who wait for the session. None, where viewers of a stream are held, of whom that is not
    /// kept, and where nobody waits. So no viewer decides alone what an origin sees, nor one who
    /// has left; two servers that ask each other find that out when one asks while the other waits.
    fn came_through(&self, session: &SessionId) -> Option<&str> {
        match self.streams.held(session) {
            Some(_) => None,
            None => self.clients.waiting().came_through(session),
        }
    }

    /// Why a session does not run that was waited for until now.
    pub(super) fn absence(&self, session: &SessionId) -> Refusal {
        let pull = self
            .fetch
            .pulls
            .of(session)
            .and_then(|id| self.fetch.pulls.entries.get(id));
        let fault = pull.map_or(Fault::NotFound, |pull| {
            pull.fault.unwrap_or(Fault::TimedOut)
        });
        fault.refusal(self.grants.has_own_gate(&self.desk))
    }

    // ---- An origin is asked

    /// The next origin of a round; with none left the round is over.
    fn ask_origin(&mut self, id: PullId, origin: usize) {
        let now = self.desk.now;
        let until = now + self.desk.settings.limits.origin_time;
        match self.fetch.origins.whereabouts(origin, now) {
            None => self.round_failed(id),
            Some(Whereabouts::Known) => self.ask_address(id, (origin, 0), until),
            Some(Whereabouts::Sought) => {
                self.fetch
                    .await_addresses(id, origin, until, &mut self.desk)
            }
            Some(Whereabouts::Unknown(name, port)) => {
                let ticket = self.desk.draw_ticket();
                self.fetch.origins.seek(origin, ticket);
                self.desk
                    .actions
                    .push_back(Action::Help(ticket, Job::Resolve(vec![(name, port)])));
                self.fetch
                    .await_addresses(id, origin, until, &mut self.desk);
            }
        }
    }

    /// A look-up is over, or could not be made. Says whether it was for an origin.
    pub(super) fn origin_resolved(
        &mut self,
        ticket: Ticket,
        results: &[Result<Vec<SocketAddr>, String>],
    ) -> bool {
        let now = self.desk.now;
        let addresses = results.iter().flatten().flatten().copied().collect();
        let Some(found) = self.fetch.origins.found(ticket, addresses, now) else {
            return false;
        };
        let waiting = self
            .fetch
            .pulls
            .entries
            .iter()
            .filter_map(|(id, pull)| match pull.stage {
                Stage::Resolving { origin, until } if origin == found => Some((id, until)),
                _ => None,
            });
        for (id, until) in waiting.collect::<Vec<_>>() {
            self.ask_address(id, (found, 0), until);
        }
        true
    }

    fn ask_address(&mut self, id: PullId, (origin, address): (usize, usize), until: Moment) {
        let Some(to) = self.fetch.origins.address(origin, address) else {
            if address == 0 {
                self.fetch
                    .note_fault(id, Fault::Broken("its name does not resolve"));
            }
            return self.ask_origin(id, origin + 1);
        };
        if !self.clients.has_room(&self.desk) {
            self.fetch.note_fault(id, Fault::Busy);
            return self.ask_origin(id, origin + 1);
        }
        let Some(pull) = self.fetch.pulls.entries.get(id) else {
            return;
        };
        let via = self.came_through(&pull.session).map(str::to_owned);
        let origins = &self.fetch.origins;
        let Some(request) = origins.request(origin, &pull.session, via.as_deref()) else {
            return;
        };
        if let Some(pull) = self.fetch.pulls.entries.get_mut(id) {
            pull.asked_via = via;
        }
        let connection = self
            .clients
            .ask_origin(id, to, &request, until, &mut self.desk);
        self.fetch.pulls.enter(
            id,
            Stage::Asking {
                origin,
                address,
                until,
                connection,
            },
        );
        self.fetch.rearm_pull(id, &mut self.desk);
    }

    /// The origin has the stream: it runs from now on.
    pub(super) fn receive_stream(&mut self, id: ConnectionId, pull_id: PullId, answer: Answer) {
        let now = self.desk.now;
        if self.fetch.origins.check_via(answer.via.as_deref()).is_err() {
            return self.clients.give_up_asking(id, Fault::Loop, &mut self.desk);
        }
        let Some(peer) = self.clients.peer(id) else {
            return;
        };
        let Some(pull) = self.fetch.pulls.entries.get(pull_id) else {
            return;
        };
        let session = pull.session.clone();
        let claim = Claim::without_request(Way::Pull, peer);
        let standing = self.standing(&session);
        if !self
            .grants
            .gate(&self.desk)
            .may_publish(&claim, &session, &standing)
        {
            return self.clients.give_up_asking(id, Fault::Busy, &mut self.desk);
        }
        let Some(pull) = self.fetch.pulls.entries.get_mut(pull_id) else {
            return;
        };
        pull.has_run = true;
        pull.is_forbidden = false;
        pull.fault = None;
        let live_id = self.begin(session.clone(), answer.content_type, Origin::Http(id), peer);
        self.fetch.pulls.enter(
            pull_id,
            Stage::Running {
                live: live_id,
                since: now,
            },
        );
        if let Some(live) = self.streams.lives.get_mut(live_id) {
            live.pull = Some(pull_id);
            live.via = Some(self.fetch.origins.via(answer.via.as_deref()));
        }
        self.clients
            .receive(id, live_id, answer.framing, &self.desk);
        self.admit_waiting(&session);
        self.tend_pull(&session);
    }

    /// The connection over which an origin was asked is gone.
    pub(super) fn asking_ended(&mut self, pull_id: PullId, id: ConnectionId, fault: Fault) {
        let Some(pull) = self.fetch.pulls.entries.get(pull_id) else {
            return;
        };
        let Stage::Asking {
            origin,
            address,
            until,
            connection,
        } = pull.stage
        else {
            return;
        };
        if connection != id {
            return;
        }
        // A loop is one of those who wait, and not the pull's, if others have come since who came
        // another way.
        let via = self.came_through(&pull.session);
        if fault == Fault::Loop && via != pull.asked_via.as_deref() {
            return self.ask_address(pull_id, (origin, address), until);
        }
        self.fetch.note_fault(pull_id, fault);
        match fault {
            // It may be at its next address.
            Fault::Broken(_) => self.ask_address(pull_id, (origin, address + 1), until),
            Fault::Forbidden => self.round_failed(pull_id),
            Fault::NotFound | Fault::TimedOut | Fault::Busy | Fault::Loop => {
                self.ask_origin(pull_id, origin + 1)
            }
        }
    }

    // ---- It does not come, or breaks, or is not wanted any more

    /// No origin has the stream.
    fn round_failed(&mut self, id: PullId) {
        let Some(pull) = self.fetch.pulls.entries.get(id) else {
            return;
        };
        let session = pull.session.clone();
        let fault = pull.fault.unwrap_or(Fault::NotFound);
        let waits_on = !self.desk.settings.limits.wait_time.is_zero();
        // Where viewers are held, somebody may yet set right what is final to others.
        let is_final = fault.is_final() && self.streams.held(&session).is_none();
        let comes_again = (pull.has_run || waits_on) && !is_final && !self.desk.is_closing;
        self.fetch.pulls.failures += 1;
        if fault > Fault::NotFound {
            self.desk.log(
                Level::Warn,
                format_args!(
                    "event=pull-fails session={} detail=\"{}\"",
                    session.digest(),
                    fault.detail()
                ),
            );
        }
        if comes_again {
            self.fetch.pause_pull(id, &mut self.desk);
        } else {
            self.fetch.remove_pull(id, &mut self.desk);
        }
        // Who waits for an origin that is ill waits on; what an origin says is said at once.
        if !comes_again || (fault == Fault::NotFound && !waits_on) {
            let fate = Fate::TurnedAway(fault);
            self.clients.call_waiting(Room::Session, &session, fate);
        }
        self.tend_pull(&session);
    }

    /// A stream that was fetched is over.
    pub(super) fn pulled_stream_ended(&mut self, id: PullId, end: End, has_viewers: bool) {
        let now = self.desk.now;
        let Some(pull) = self.fetch.pulls.entries.get_mut(id) else {
            return;
        };
        let Stage::Running { since, .. } = pull.stage else {
            return;
        };
        if end == End::Complete || !has_viewers || self.desk.is_closing {
            self.fetch.remove_pull(id, &mut self.desk);
            return;
        }
        if now.since(since) >= PAUSE_MAX {
            pull.failures = 0;
        }
        let session = pull.session.clone();
        self.fetch.pause_pull(id, &mut self.desk);
        self.tend_pull(&session);
    }

    /// The session has a source of this server's own now. Whoever waits waits on; whoever was let
    /// in by an origin's word alone, and is held still, has no leave to watch it.
    pub(super) fn take_from_origins(&mut self, session: &SessionId) {
        self.drop_pull(session);
        let Some(id) = self.streams.held(session) else {
            return;
        };
        let was_fetched = self
            .streams
            .lives
            .get(id)
            .is_some_and(|live| live.via.is_some());
        if was_fetched && !self.grants.gate(&self.desk).may_stay(session) {
            self.end_live(id, End::Lost, "its viewers may not watch its next source");
        }
    }

    /// The session is not to be fetched any more. Whoever waits waits on.
    pub(super) fn drop_pull(&mut self, session: &SessionId) {
        let Some(id) = self.fetch.pulls.of(session) else {
            return;
        };
        match self.fetch.remove_pull(id, &mut self.desk) {
            Some(Stage::Asking { connection, .. }) => {
                self.clients.close(connection, &mut self.desk)
            }
            Some(Stage::Running { live, .. }) => {
                let entry = self.streams.lives.get(live);
                // One that is held has lost this source already.
                if let Some(source) = entry
                    .filter(|live| live.pull == Some(id))
                    .map(|live| live.source)
                {
                    self.end_live(live, End::Complete, "nobody watches it");
                    if let Origin::Http(connection) = source {
                        self.clients.close(connection, &mut self.desk);
                    }
                }
            }
            Some(Stage::Resolving { .. } | Stage::Pausing { .. }) | None => {}
        }
    }

    /// Nothing is fetched any more that does not run yet.
    pub(super) fn end_fetching(&mut self) {
        let pulls = self.fetch.pulls.entries.iter();
        let without_stream = pulls.filter(|(_, pull)| !pull.stage.is_running());
        let sessions: Vec<SessionId> = without_stream
            .map(|(_, pull)| pull.session.clone())
            .collect();
        for session in sessions {
            self.drop_pull(&session);
        }
    }

    /// Somebody has come or gone: a pull that nobody wants has its time, or none if it never ran.
    pub(super) fn tend_pull(&mut self, session: &SessionId) {
        let now = self.desk.now;
        let Some(id) = self.fetch.pulls.of(session) else {
            return;
        };
        let is_awaited = self.clients.waiting().is_awaited(session);
        let live = self
            .streams
            .running
            .get(session)
            .and_then(|id| self.streams.lives.get(*id));
        let is_watched = live.is_some_and(Live::is_watched);
        let Some(pull) = self.fetch.pulls.entries.get_mut(id) else {
            return;
        };
        if is_awaited || is_watched {
            pull.unwatched_since = None;
        } else if pull.has_run {
            pull.unwatched_since.get_or_insert(now);
            self.fetch.rearm_pull(id, &mut self.desk);
        } else {
            self.drop_pull(session);
        }
    }

    /// A pull's deadline has come.
    pub(super) fn pull_due(&mut self, id: PullId) {
        let now = self.desk.now;
        let Some(pull) = self.fetch.pulls.entries.get_mut(id) else {
            return;
        };
        pull.armed.fired();
        let Some(pull) = self.fetch.pulls.entries.get(id) else {
            return;
        };
        if self
            .fetch
            .idle_deadline(pull, &self.desk)
            .is_some_and(|due| due <= now)
        {
            let session = pull.session.clone();
            return self.drop_pull(&session);
        }
        match pull.stage {
            Stage::Resolving { origin, until } if until <= now => {
                self.fetch.note_fault(id, Fault::TimedOut);
                self.ask_origin(id, origin + 1);
            }
            Stage::Pausing { until } if until <= now => {
                if let Some(pull) = self.fetch.pulls.entries.get_mut(id) {
                    pull.fault = None;
                }
                self.ask_origin(id, 0);
            }
            Stage::Resolving { .. }
            | Stage::Pausing { .. }
            | Stage::Asking { .. }
            | Stage::Running { .. } => {}
        }
        self.fetch.rearm_pull(id, &mut self.desk);
    }
}

#[cfg(test)]
mod tests;
