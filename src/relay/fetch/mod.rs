//! Fetching: the steps of a pull. A viewer comes; the server looks up an origin, connects and asks;
//! the stream runs, breaks, or has no viewers any more. [`pull`] has the states.
//!
//! This part owns the origins and the pulls. It opens and closes no connection: it reports events
//! for that.
//!
//! Bounds: a pull without a stream counts as a stream. No pull begins while [`WITHOUT_STREAM_MAX`]
//! have no stream. A network gets another place only while more are free than it has. Each pull has
//! one connection, and each session one pull. So a stranger's request costs an origin at most one
//! request, and with `--wait` one for each pause of the pull.

#[cfg(feature = "handover")]
mod handover;
mod origins;
mod pull;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::context::Context;
use super::event::Event;
use super::origin_error::OriginError;
use super::timers::{Armed, Owner};
use super::{Action, ConnectionId, Job, JobId, Level, PullId, StreamId};
use crate::gate::SessionId;
use crate::stream::End;
use crate::time::Instant;
#[cfg(feature = "handover")]
pub(super) use handover::PullsState;
use origins::Origins;
pub(super) use origins::common;
pub(super) use pull::Pull;
use pull::{Attempt, Pulls, Stage};

/// Pulls without a stream; while there are as many, no other begins.
const WITHOUT_STREAM_MAX: usize = 256;
/// Pauses grow from the first of these to the second.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Origins and pulls.
pub(super) struct Fetch {
    pub origins: Origins,
    pub pulls: Pulls,
}

/// A connection to an origin that has to be opened.
#[derive(Clone, Debug)]
pub(super) struct OriginCall {
    /// Address of the origin.
    pub to: SocketAddr,
    /// Request to send.
    pub request: String,
    /// Deadline of the answer.
    pub until: Instant,
}

impl Fetch {
    /// Makes a part without pulls.
    pub fn new(ctx: &mut Context) -> Fetch {
        let number = ctx.random.draw();
        Fetch {
            origins: Origins::new(&ctx.settings().origins, number),
            pulls: Pulls::default(),
        }
    }

    // ---- What is asked about it

    /// Returns the number of pulls.
    pub fn len(&self) -> usize {
        self.pulls.entries.len()
    }

    /// Returns whether another pull may begin for a client of this network.
    pub fn has_room(&self, network: Option<IpAddr>) -> bool {
        let free = WITHOUT_STREAM_MAX.saturating_sub(self.pulls.without_stream());
        self.pulls.without_stream_of(network) < free
    }

    /// Returns how long a viewer waits for a stream to be fetched.
    pub fn time(&self, ctx: &Context) -> Duration {
        let origins = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        ctx.settings().limits.origin_time.saturating_mul(origins)
    }

    /// Returns whether this session has a pull.
    pub fn has(&self, session: &SessionId) -> bool {
        self.pulls.of(session).is_some()
    }

    /// Returns whether the origin that was asked last forbids watching the session.
    pub fn is_forbidden(&self, session: &SessionId) -> bool {
        self.pull_of(session).is_some_and(|pull| pull.is_forbidden)
    }

    /// Returns why a session that clients waited for does not run.
    pub fn absence(&self, session: &SessionId) -> OriginError {
        self.pull_of(session).map_or(OriginError::NotFound, |pull| {
            pull.fault.unwrap_or(OriginError::TimedOut)
        })
    }

    fn pull_of(&self, session: &SessionId) -> Option<&Pull> {
        self.pulls.entries.get(self.pulls.of(session)?)
    }

    // ---- An origin is asked

    /// Begins a pull for a session, unless it has one. The first client that waits for it has an
    /// address in `network`.
    pub fn want(&mut self, session: &SessionId, network: Option<IpAddr>, ctx: &mut Context) {
        if let Some(id) = self.insert(session, network, ctx) {
            self.ask_origin(id, 0, ctx);
        }
    }

    /// Begins a pull for a session, unless it has one. The pull asks after a pause, for clients that have
    /// waited, or because a successor opens no connections before it has taken all sockets.
    pub fn want_later(&mut self, session: &SessionId, ctx: &mut Context) {
        if let Some(id) = self.insert(session, None, ctx) {
            self.pause(id, ctx);
        }
    }

    /// Inserts a pull that has asked nobody. `None`: there is no origin, or the session has a pull.
    fn insert(
        &mut self,
        session: &SessionId,
        network: Option<IpAddr>,
        ctx: &Context,
    ) -> Option<PullId> {
        if self.origins.is_empty() || self.has(session) {
            return None;
        }
        Some(self.pulls.insert(Pull {
            session: session.clone(),
            network,
            asked_via: None,
            is_forbidden: false,
            stage: Stage::Pausing { until: ctx.now() },
            has_run: false,
            failures: 0,
            fault: None,
            unwatched_since: None,
            armed: Armed::default(),
        }))
    }

    /// Asks the next origin of a round. Ends the round if none is left.
    fn ask_origin(&mut self, id: PullId, origin: usize, ctx: &mut Context) {
        let until = ctx.now() + ctx.settings().limits.origin_time;
        let Some(server) = self.origins.list.get_mut(origin) else {
            return self.fail(id, ctx);
        };
        if server.is_known(ctx.now()) {
            let attempt = Attempt {
                origin,
                address: 0,
                until,
            };
            return self.ask_address(id, attempt, ctx);
        }
        if server.lookup.is_none() {
            let job_id = ctx.draw_job();
            server.lookup = Some(job_id);
            let name = (server.url.host.as_str().to_owned(), server.url.port.get());
            ctx.act(Action::Run(job_id, Job::Resolve(vec![name])));
        }
        self.pulls.enter(id, Stage::Resolving { origin, until });
        self.rearm(id, ctx);
    }

    /// Ends a round.
    fn fail(&mut self, id: PullId, ctx: &mut Context) {
        self.pulls.enter(id, Stage::Failed);
        ctx.notify(Event::OriginsExhausted(id));
    }

    fn ask_address(&mut self, id: PullId, attempt: Attempt, ctx: &mut Context) {
        let (origin, address) = (attempt.origin, attempt.address);
        if self.origins.address(origin, address).is_some() {
            self.pulls.enter(id, Stage::Calling(attempt));
            return ctx.notify(Event::CallOrigin(id));
        }
        if address == 0 {
            self.note_fault(id, OriginError::Broken("its name does not resolve"));
        }
        self.ask_origin(id, origin + 1, ctx);
    }

    /// Returns the address to connect to, and the request. `came_through`: the relays that the
    /// requests of all waiting clients came through.
    pub fn call<'a>(
        &mut self,
        id: PullId,
        came_through: impl FnOnce(&SessionId) -> Option<&'a str>,
    ) -> Option<OriginCall> {
        let pull = self.pulls.entries.get_mut(id)?;
        let Stage::Calling(attempt) = pull.stage else {
            return None;
        };
        let via = came_through(&pull.session);
        pull.asked_via = via.map(str::to_owned);
        Some(OriginCall {
            to: self.origins.address(attempt.origin, attempt.address)?,
            request: self.origins.request(attempt.origin, &pull.session, via)?,
            until: attempt.until,
        })
    }

    /// Notes the connection to a pull's origin. `None`: there is no room for one.
    pub fn called(&mut self, id: PullId, connection: Option<ConnectionId>, ctx: &mut Context) {
        let stage = self.pulls.entries.get(id).map(|pull| pull.stage);
        let Some(Stage::Calling(attempt)) = stage else {
            return;
        };
        let Some(connection) = connection else {
            self.note_fault(id, OriginError::Busy);
            return self.ask_origin(id, attempt.origin + 1, ctx);
        };
        let stage = Stage::Asking {
            attempt,
            connection,
        };
        self.pulls.enter(id, stage);
        self.rearm(id, ctx);
    }

    /// Handles the addresses of an origin, or their absence. Returns whether the job was an
    /// origin's.
    pub fn resolved(
        &mut self,
        job_id: JobId,
        results: &[Result<Vec<SocketAddr>, String>],
        ctx: &mut Context,
    ) -> bool {
        let addresses = results.iter().flatten().flatten().copied().collect();
        let Some(found) = self.origins.look_up_ended(job_id, addresses, ctx.now()) else {
            return false;
        };
        let pulls = self.pulls.entries.iter();
        let waiting = pulls.filter_map(|(id, pull)| match pull.stage {
            Stage::Resolving { origin, until } if origin == found => Some((id, until)),
            _ => None,
        });
        for (id, until) in waiting.collect::<Vec<_>>() {
            let attempt = Attempt {
                origin: found,
                address: 0,
                until,
            };
            self.ask_address(id, attempt, ctx);
        }
        true
    }

    /// Decides about an origin's answer with this `Via`. Returns the session of the pull.
    pub fn offered(&self, id: PullId, via: Option<&str>) -> Result<SessionId, OriginError> {
        if self.origins.check_via(via).is_err() {
            return Err(OriginError::Loop);
        }
        let pull = self.pulls.entries.get(id).ok_or(OriginError::NotFound)?;
        Ok(pull.session.clone())
    }

    /// Notes that a pull's stream runs. Returns the `Via` of its answers.
    pub fn brought(
        &mut self,
        id: PullId,
        stream: StreamId,
        via: Option<&str>,
        now: Instant,
    ) -> String {
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            pull.has_run = true;
            pull.is_forbidden = false;
            pull.fault = None;
        }
        self.runs(id, stream, now);
        self.origins.via(via)
    }

    /// Sets the stream of a pull.
    pub fn runs(&mut self, id: PullId, stream: StreamId, now: Instant) {
        self.pulls.enter(id, Stage::Running { stream, since: now });
    }

    /// Handles the end of a connection to an origin that sent no stream.
    pub fn request_ended<'a>(
        &mut self,
        id: PullId,
        (over, fault): (ConnectionId, OriginError),
        came_through: impl FnOnce(&SessionId) -> Option<&'a str>,
        ctx: &mut Context,
    ) {
        let Some(pull) = self.pulls.entries.get(id) else {
            return;
        };
        let attempt = match pull.stage {
            Stage::Asking {
                attempt,
                connection,
            } if connection == over => attempt,
            _ => return,
        };
        // The loop goes through the relays of the clients that waited when the origin was asked.
        // Clients that have come since may have come another way.
        if fault == OriginError::Loop && came_through(&pull.session) != pull.asked_via.as_deref() {
            return self.ask_address(id, attempt, ctx);
        }
        self.note_fault(id, fault);
        match fault {
            // The origin may answer at its next address.
            OriginError::Broken(_) => {
                let address = attempt.address + 1;
                self.ask_address(id, Attempt { address, ..attempt }, ctx)
            }
            // Other origins would refuse, too.
            OriginError::Forbidden => self.fail(id, ctx),
            OriginError::NotFound
            | OriginError::TimedOut
            | OriginError::Busy
            | OriginError::Loop => self.ask_origin(id, attempt.origin + 1, ctx),
        }
    }

    fn note_fault(&mut self, id: PullId, fault: OriginError) {
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            pull.is_forbidden |= fault == OriginError::Forbidden;
            pull.fault = pull.fault.max(Some(fault));
        }
    }

    // ---- It does not come, or breaks, or is not wanted any more

    /// Ends a round in which no origin had the stream. Another round may follow. `is_held`: whether
    /// a session has held viewers. Returns the session, and the reason if its waiting clients are
    /// refused.
    pub fn end_round(
        &mut self,
        id: PullId,
        is_held: impl FnOnce(&SessionId) -> bool,
        ctx: &mut Context,
    ) -> Option<(SessionId, Option<OriginError>)> {
        let pull = self.pulls.entries.get(id)?;
        if pull.stage != Stage::Failed {
            return None;
        }
        let session = pull.session.clone();
        let fault = pull.fault.unwrap_or(OriginError::NotFound);
        let waits_on = !ctx.settings().limits.wait_time.is_zero();
        // For held viewers no error is final, since an operator may fix its cause.
        let is_final = fault.is_final() && !is_held(&session);
        let comes_again = (pull.has_run || waits_on) && !is_final && !ctx.is_closing;
        self.pulls.failures = self.pulls.failures.saturating_add(1);
        if fault > OriginError::NotFound {
            let (digest, detail) = (session.digest(), fault.detail());
            let line = format_args!("event=pull-fails session={digest} detail=\"{detail}\"");
            ctx.log(Level::Warn, pull.network, line);
        }
        if comes_again {
            self.pause(id, ctx);
        } else {
            self.remove(id, ctx);
        }
        // Clients wait for an origin that fails. An origin's refusal is passed on at once.
        let turns_away = !comes_again || (fault == OriginError::NotFound && !waits_on);
        Some((session, turns_away.then_some(fault)))
    }

    fn pause(&mut self, id: PullId, ctx: &mut Context) {
        let now = ctx.now();
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            let pause = PAUSE_MAX.min(PAUSE_MIN * (1 << pull.failures.min(8)));
            pull.failures = pull.failures.saturating_add(1);
            // The pause is between half of it and all, so that edges that lost their origin
            // together do not return together.
            let part = (ctx.random.draw() % 512) as u32;
            let until = now + pause / 2 + pause * part / 1024;
            self.pulls.enter(id, Stage::Pausing { until });
            self.rearm(id, ctx);
        }
    }

    /// Handles the end of a fetched stream. Returns the session if it is fetched again.
    pub fn stream_over(
        &mut self,
        id: PullId,
        end: End,
        is_wanted: bool,
        ctx: &mut Context,
    ) -> Option<SessionId> {
        let pull = self.pulls.entries.get_mut(id)?;
        let Stage::Running { since, .. } = pull.stage else {
            return None;
        };
        if end == End::Complete || !is_wanted || ctx.is_closing {
            self.remove(id, ctx);
            return None;
        }
        if ctx.now().since(since) >= PAUSE_MAX {
            pull.failures = 0;
        }
        let session = pull.session.clone();
        self.pause(id, ctx);
        Some(session)
    }

    /// Ends the pull of a session. Waiting clients stay.
    pub fn drop(&mut self, session: &SessionId, ctx: &mut Context) {
        if let Some(pull) = self.pulls.of(session) {
            match self.remove(pull, ctx) {
                Some(Stage::Asking { connection, .. }) => ctx.notify(Event::Close(connection)),
                Some(Stage::Running { stream, .. }) => {
                    ctx.notify(Event::EndPulled { stream, pull })
                }
                _ => {}
            }
        }
    }

    /// Ends the pulls without a running stream, for the shutdown.
    pub fn shut_down(&mut self, ctx: &mut Context) {
        let pulls = self.pulls.entries.iter();
        let without_stream = pulls.filter(|(_, pull)| !pull.stage.is_running());
        let sessions: Vec<SessionId> = without_stream
            .map(|(_, pull)| pull.session.clone())
            .collect();
        for session in sessions {
            self.drop(&session, ctx);
        }
    }

    /// Handles that clients of a session came or left. A pull without clients keeps its stream for
    /// a while, and ends at once if it never ran.
    pub fn tend(
        &mut self,
        session: &SessionId,
        is_wanted: impl FnOnce() -> bool,
        ctx: &mut Context,
    ) {
        if let Some(id) = self.pulls.of(session)
            && let Some(pull) = self.pulls.entries.get_mut(id)
        {
            if is_wanted() {
                pull.unwatched_since = None;
            } else if pull.has_run {
                pull.unwatched_since.get_or_insert(ctx.now());
                self.rearm(id, ctx);
            } else {
                self.drop(session, ctx);
            }
        }
    }

    /// Handles a pull's deadline.
    pub fn due(&mut self, id: PullId, ctx: &mut Context) {
        let now = ctx.now();
        let Some(pull) = self.pulls.entries.get_mut(id) else {
            return;
        };
        pull.armed.fired();
        if pull.idle_deadline(ctx).is_some_and(|due| due <= now) {
            let session = pull.session.clone();
            return self.drop(&session, ctx);
        }
        match pull.stage {
            Stage::Resolving { origin, until } if until <= now => {
                self.note_fault(id, OriginError::TimedOut);
                self.ask_origin(id, origin + 1, ctx);
            }
            Stage::Pausing { until } if until <= now => {
                pull.fault = None;
                self.ask_origin(id, 0, ctx);
            }
            _ => {}
        }
        self.rearm(id, ctx);
    }

    fn remove(&mut self, id: PullId, ctx: &mut Context) -> Option<Stage> {
        let mut pull = self.pulls.remove(id)?;
        ctx.disarm(&mut pull.armed, Owner::Pull(id));
        Some(pull.stage)
    }

    fn rearm(&mut self, id: PullId, ctx: &mut Context) {
        if let Some(pull) = self.pulls.entries.get_mut(id)
            && let Some(deadline) = pull.deadline(ctx)
        {
            ctx.arm(&mut pull.armed, Owner::Pull(id), deadline);
        }
    }
}

impl Pull {
    fn deadline(&self, ctx: &Context) -> Option<Instant> {
        let of_stage = match self.stage {
            Stage::Resolving { until, .. } | Stage::Pausing { until } => Some(until),
            // Its connection has the deadline, or the end of this input moves it on.
            _ => None,
        };
        of_stage.into_iter().chain(self.idle_deadline(ctx)).min()
    }

    fn idle_deadline(&self, ctx: &Context) -> Option<Instant> {
        Some(self.unwatched_since? + ctx.settings().limits.origin_idle_time)
    }
}

#[cfg(test)]
mod tests;
