//! Fetching: what moves a pull on. A viewer comes, an origin is looked up, connected to, asked and
//! heard, its stream runs, breaks, or is not wanted any more. ([`pull`] has the states.)
//!
//! Owns the origins and the pulls. It connects to nobody: that an origin is to be called, or a
//! connection hung up, it says, and it is told what came of that.
//!
//! Bounds: a pull that does not run takes the place of a stream, there are at most
//! [`WITHOUT_STREAM_MAX`] of them when another is begun, each has one connection, and a session has
//! one pull. So strangers cost an origin a request each at most.

#[cfg(feature = "handover")]
mod handover;
mod origins;
mod pull;

use std::net::SocketAddr;
use std::time::Duration;

use super::context::Context;
use super::event::Event;
use super::origin_error::OriginError;
use super::timers::{Armed, Owner};
use super::{Action, ConnectionId, Job, JobId, Level, PullId, StreamId};
use crate::gate::SessionId;
use crate::http::Refusal;
use crate::stream::End;
use crate::time::Instant;
#[cfg(feature = "handover")]
pub(super) use handover::{Concern, ToldPulls};
pub(super) use origins::common;
use origins::{Origins, Whereabouts};
pub(super) use pull::Pull;
use pull::{Pulls, Stage};

/// While so many pulls are without their stream, no other is begun.
const WITHOUT_STREAM_MAX: usize = 256;
/// Pauses grow from the first of these to the second.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The origins, and what is fetched from them.
pub(super) struct Fetch {
    origins: Origins,
    pulls: Pulls,
}

/// An origin that is to be called.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Where it is.
    pub to: SocketAddr,
    /// What it is asked.
    pub request: String,
    /// So long it may take.
    pub until: Instant,
}

impl Fetch {
    /// Nothing is fetched yet.
    pub fn new(ctx: &mut Context) -> Fetch {
        let number = ctx.draw();
        Fetch {
            origins: Origins::new(&ctx.settings().origins, number),
            pulls: Pulls::default(),
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.origins.held_bytes() + self.pulls.held_bytes()
    }

    // ---- What is asked about it

    /// Whether there are origins at all.
    pub fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// How many sessions are fetched, or being fetched.
    pub fn len(&self) -> usize {
        self.pulls.entries.len()
    }

    /// How many of them have no stream, now or yet: each has the place of one.
    pub fn without_stream(&self) -> usize {
        self.pulls.without_stream()
    }

    /// Whether another session may be fetched.
    pub fn has_room(&self) -> bool {
        self.pulls.without_stream() < WITHOUT_STREAM_MAX
    }

    /// Rounds that brought nothing, since the start.
    pub fn failures(&self) -> u64 {
        self.pulls.failures
    }

    /// How long a viewer waits for a stream to be fetched.
    pub fn time(&self, ctx: &Context) -> Duration {
        let origins = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        ctx.settings().limits.origin_time.saturating_mul(origins)
    }

    /// Whether this session is fetched, or being fetched.
    pub fn has(&self, session: &SessionId) -> bool {
        self.pulls.of(session).is_some()
    }

    /// Whether the origin that was asked last said that the session may not be watched.
    pub fn is_forbidden(&self, session: &SessionId) -> bool {
        self.pull_of(session).is_some_and(|pull| pull.is_forbidden)
    }

    /// Why a session does not run that was waited for until now.
    pub fn absence(&self, session: &SessionId) -> OriginError {
        self.pull_of(session).map_or(OriginError::NotFound, |pull| {
            pull.fault.unwrap_or(OriginError::TimedOut)
        })
    }

    /// Whether a request that came through `via` may be passed on to an origin.
    pub fn check_via(&self, via: Option<&str>) -> Result<(), Refusal> {
        self.origins.check_via(via)
    }

    fn pull_of(&self, session: &SessionId) -> Option<&Pull> {
        self.pulls.entries.get(self.pulls.of(session)?)
    }

    /// What must hold between two inputs. `is_live` says whether this stream is the running one of
    /// this session, and this pull's. Says how many deadlines are armed.
    pub fn check(&self, is_live: impl Fn(&SessionId, StreamId, PullId) -> bool) -> usize {
        self.pulls.check(is_live)
    }

    // ---- An origin is asked

    /// A viewer waits for a session: it is fetched, unless it is being fetched.
    pub fn want(&mut self, session: &SessionId, ctx: &mut Context) {
        if self.origins.is_empty() || self.has(session) {
            return;
        }
        let id = self.pulls.insert(Pull {
            session: session.clone(),
            asked_via: None,
            is_forbidden: false,
            stage: Stage::Pausing { until: ctx.now() },
            has_run: false,
            failures: 0,
            fault: None,
            unwatched_since: None,
            armed: Armed::default(),
        });
        self.ask_origin(id, 0, ctx);
    }

    /// The next origin of a round; with none left the round is over.
    fn ask_origin(&mut self, id: PullId, origin: usize, ctx: &mut Context) {
        let until = ctx.now() + ctx.settings().limits.origin_time;
        match self.origins.whereabouts(origin, ctx.now()) {
            None => {
                self.pulls.enter(id, Stage::Failed);
                return ctx.notify(Event::OriginsExhausted(id));
            }
            Some(Whereabouts::Known) => return self.ask_address(id, (origin, 0), until, ctx),
            Some(Whereabouts::Sought) => {}
            Some(Whereabouts::Unknown(name, port)) => {
                let ticket = ctx.draw_ticket();
                self.origins.seek(origin, ticket);
                let job = Job::Resolve(vec![(name, port)]);
                ctx.act(Action::Help(ticket, job));
            }
        }
        self.pulls.enter(id, Stage::Resolving { origin, until });
        self.rearm(id, ctx);
    }

    fn ask_address(
        &mut self,
        id: PullId,
        (origin, address): (usize, usize),
        until: Instant,
        ctx: &mut Context,
    ) {
        if self.origins.address(origin, address).is_some() {
            let stage = Stage::Calling {
                origin,
                address,
                until,
            };
            self.pulls.enter(id, stage);
            return ctx.notify(Event::CallOrigin(id));
        }
        if address == 0 {
            self.note_fault(id, OriginError::Broken("its name does not resolve"));
        }
        self.ask_origin(id, origin + 1, ctx);
    }

    /// Whom a pull is to call, and what it asks. `came_through` says through which relays all came
    /// who wait for a session.
    pub fn call<'a>(
        &mut self,
        id: PullId,
        came_through: impl FnOnce(&SessionId) -> Option<&'a str>,
    ) -> Option<Call> {
        let pull = self.pulls.entries.get_mut(id)?;
        let Stage::Calling {
            origin,
            address,
            until,
        } = pull.stage
        else {
            return None;
        };
        let via = came_through(&pull.session);
        pull.asked_via = via.map(str::to_owned);
        Some(Call {
            to: self.origins.address(origin, address)?,
            request: self.origins.request(origin, &pull.session, via)?,
            until,
        })
    }

    /// The origin that a pull is to call is called over this connection; or there is no room for
    /// one.
    pub fn called(&mut self, id: PullId, connection: Option<ConnectionId>, ctx: &mut Context) {
        let stage = self.pulls.entries.get(id).map(|pull| pull.stage);
        match (stage, connection) {
            (
                Some(Stage::Calling {
                    origin,
                    address,
                    until,
                }),
                Some(connection),
            ) => {
                let stage = Stage::Asking {
                    origin,
                    address,
                    until,
                    connection,
                };
                self.pulls.enter(id, stage);
                self.rearm(id, ctx);
            }
            (Some(Stage::Calling { origin, .. }), None) => {
                self.note_fault(id, OriginError::Busy);
                self.ask_origin(id, origin + 1, ctx);
            }
            (Some(_) | None, _) => {}
        }
    }

    /// A look-up is over, or could not be made. Says whether it was for an origin.
    pub fn resolved(
        &mut self,
        ticket: JobId,
        results: &[Result<Vec<SocketAddr>, String>],
        ctx: &mut Context,
    ) -> bool {
        let addresses = results.iter().flatten().flatten().copied().collect();
        let Some(found) = self.origins.found(ticket, addresses, ctx.now()) else {
            return false;
        };
        let pulls = self.pulls.entries.iter();
        let waiting = pulls.filter_map(|(id, pull)| match pull.stage {
            Stage::Resolving { origin, until } if origin == found => Some((id, until)),
            _ => None,
        });
        for (id, until) in waiting.collect::<Vec<_>>() {
            self.ask_address(id, (found, 0), until, ctx);
        }
        true
    }

    /// An origin has a pull's stream, which came through `via`: whose it is, if it may be taken.
    pub fn offered(&self, id: PullId, via: Option<&str>) -> Result<SessionId, OriginError> {
        if self.origins.check_via(via).is_err() {
            return Err(OriginError::Loop);
        }
        let pull = self.pulls.entries.get(id).ok_or(OriginError::NotFound)?;
        Ok(pull.session.clone())
    }

    /// A pull's stream runs from now on. `Via` of what goes out of it.
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

    /// A pull's stream is this one from now on.
    pub fn runs(&mut self, id: PullId, stream: StreamId, now: Instant) {
        self.pulls.enter(id, Stage::Running { stream, since: now });
    }

    /// The connection over which an origin was asked is gone, without a stream.
    pub fn asked<'a>(
        &mut self,
        id: PullId,
        (over, fault): (ConnectionId, OriginError),
        came_through: impl FnOnce(&SessionId) -> Option<&'a str>,
        ctx: &mut Context,
    ) {
        let Some(pull) = self.pulls.entries.get(id) else {
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
        if connection != over {
            return;
        }
        // A loop is one of those who wait, and not the pull's, if others have come since who came
        // another way.
        if fault == OriginError::Loop && came_through(&pull.session) != pull.asked_via.as_deref() {
            return self.ask_address(id, (origin, address), until, ctx);
        }
        self.note_fault(id, fault);
        match fault {
            // It may be at its next address.
            OriginError::Broken(_) => self.ask_address(id, (origin, address + 1), until, ctx),
            // The others would say the same.
            OriginError::Forbidden => {
                self.pulls.enter(id, Stage::Failed);
                ctx.notify(Event::OriginsExhausted(id));
            }
            OriginError::NotFound
            | OriginError::TimedOut
            | OriginError::Busy
            | OriginError::Loop => self.ask_origin(id, origin + 1, ctx),
        }
    }

    fn note_fault(&mut self, id: PullId, fault: OriginError) {
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            pull.is_forbidden |= fault == OriginError::Forbidden;
            pull.fault = pull.fault.max(Some(fault));
        }
    }

    // ---- It does not come, or breaks, or is not wanted any more

    /// No origin has the stream: another round comes, or none. `is_held` says whether viewers of a
    /// session are held. Returns whose it is, and why those who wait for it are turned away, if
    /// they are.
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
        // Where viewers are held, somebody may yet set right what is final to others.
        let is_final = fault.is_final() && !is_held(&session);
        let comes_again = (pull.has_run || waits_on) && !is_final && !ctx.is_closing();
        self.pulls.failures += 1;
        if fault > OriginError::NotFound {
            ctx.log(
                Level::Warn,
                format_args!(
                    "event=pull-fails session={} detail=\"{}\"",
                    session.digest(),
                    fault.detail()
                ),
            );
        }
        if comes_again {
            self.pause(id, ctx);
        } else {
            self.remove(id, ctx);
        }
        // Who waits for an origin that is ill waits on; what an origin says is said at once.
        let turns_away = !comes_again || (fault == OriginError::NotFound && !waits_on);
        Some((session, turns_away.then_some(fault)))
    }

    fn pause(&mut self, id: PullId, ctx: &mut Context) {
        let now = ctx.now();
        if let Some(pull) = self.pulls.entries.get_mut(id) {
            let pause = PAUSE_MAX.min(PAUSE_MIN * (1 << pull.failures.min(8)));
            pull.failures = pull.failures.saturating_add(1);
            // Between half of it and all, so that edges which lost their origin together do not
            // come back together.
            let part = (ctx.draw() % 512) as u32;
            let until = now + pause / 2 + pause * part / 1024;
            self.pulls.enter(id, Stage::Pausing { until });
            self.rearm(id, ctx);
        }
    }

    /// A stream that was fetched is over. Returns the session that is fetched anew.
    pub fn stream_over(
        &mut self,
        id: PullId,
        end: End,
        has_viewers: bool,
        ctx: &mut Context,
    ) -> Option<SessionId> {
        let pull = self.pulls.entries.get_mut(id)?;
        let Stage::Running { since, .. } = pull.stage else {
            return None;
        };
        if end == End::Complete || !has_viewers || ctx.is_closing() {
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

    /// The session is not to be fetched any more. Whoever waits waits on.
    pub fn drop(&mut self, session: &SessionId, ctx: &mut Context) {
        if let Some(pull) = self.pulls.of(session) {
            match self.remove(pull, ctx) {
                Some(Stage::Asking { connection, .. }) => ctx.notify(Event::Close(connection)),
                Some(Stage::Running { stream, .. }) => {
                    ctx.notify(Event::EndPulled { stream, pull })
                }
                Some(
                    Stage::Resolving { .. }
                    | Stage::Calling { .. }
                    | Stage::Failed
                    | Stage::Pausing { .. },
                )
                | None => {}
            }
        }
    }

    /// The server shuts down: nothing is fetched any more that does not run yet.
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

    /// Somebody has come or gone: a pull that nobody wants has its time, or none if it never ran.
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

    /// A pull's deadline has come.
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
            Stage::Resolving { .. }
            | Stage::Pausing { .. }
            | Stage::Calling { .. }
            | Stage::Failed
            | Stage::Asking { .. }
            | Stage::Running { .. } => {}
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
            // Its connection has the deadline, or it is moved on when this input is settled.
            Stage::Asking { .. } | Stage::Running { .. } => None,
            Stage::Calling { .. } | Stage::Failed => None,
        };
        of_stage.into_iter().chain(self.idle_deadline(ctx)).min()
    }

    fn idle_deadline(&self, ctx: &Context) -> Option<Instant> {
        Some(self.unwatched_since? + ctx.settings().limits.origin_idle_time)
    }
}

#[cfg(test)]
mod tests;
