//! What has been granted: the tokens, the sessions that are blocked, and changes on their way to
//! the disk. Without a token file a change is made at once; with one it is made when it is on disk
//! ([`ledger`]).
//!
//! Whom a change concerns is said, and so is the answer to one that had to wait.

#[cfg(feature = "handover")]
mod handover;
mod ledger;
mod over;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::admission::{AccessRequest, Gate, SessionState, tokens_are_off};
use super::api::AddToken;
use super::context::Context;
use super::counts::Count;
use super::event::Event;
use super::pass::Barred;
use super::server_event::ServerEvent;
use super::timers::Armed;
use super::viewer_id::Mark;
use super::{ConnectionId, Level, RETRY_AFTER_SECONDS, Settings};
use crate::gate::{
    self, Addition, BLOCKS_MAX, Blocks, Destination, GrantChange, Record, RtpTuple, SessionId,
    Tokens, Transport,
};
use crate::http::{Framing, Refusal, Reply, Status};
use crate::time::UnixTime;
use ledger::Ledger;

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;

/// A host's clock that was set back by more than this is worth a word.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(60);

/// The tokens, the blocks, and the changes.
pub(super) struct Grants {
    /// `None`: tokens are off.
    tokens: Option<Tokens>,
    blocks: Blocks<SessionId>,
    /// Who was ended: by this sessionid nobody comes in from there.
    barred: Blocks<Barred>,
    /// `None`: there is no token file.
    ledger: Option<Ledger>,
    /// Up to then it has been said which tokens are over.
    told: UnixTime,
    /// For when the next one will be.
    armed: Armed,
}

/// A change that a call asks for.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Addition {
        session: SessionId,
        http: Option<GrantChange>,
        /// With the addresses of each.
        rtp: Vec<RtpTuple>,
    },
    /// Of all tuples of the session.
    Revocation {
        session: SessionId,
        /// The session's stream ends, too.
        aborts: bool,
    },
}

/// Who asked, and how it is answered.
pub(super) type Caller = (ConnectionId, Reply);
/// What is told of a change that was made: the status, and a body in JSON.
pub(super) type Done = (Status, Vec<u8>);
/// Why a UDP client cannot be there, if it cannot.
pub(super) type Fault<'a> = &'a dyn Fn(SocketAddr, Transport) -> Option<&'static str>;

/// A host:port may be named by every session there is; of so many a free one is sought.
pub(super) const SESSIONS_TRIED_MAX: usize = 64;

#[derive(Serialize)]
struct Added<'a> {
    sessionid: &'a SessionId,
    tokens: Vec<&'a gate::Tuple>,
}

#[derive(Serialize)]
struct Revoked<'a> {
    sessionid: &'a SessionId,
    revoked: usize,
}

impl Change {
    /// What is to be added, with the addresses of its clients.
    pub fn addition(add: AddToken, rtp: Vec<RtpTuple>) -> Change {
        let AddToken { session, http, .. } = add;
        Change::Addition { session, http, rtp }
    }

    fn session(&self) -> &SessionId {
        match self {
            Change::Addition { session, .. } | Change::Revocation { session, .. } => session,
        }
    }

    /// Bytes that its allocations take.
    fn held_bytes(&self) -> usize {
        let tuples = match self {
            Change::Addition { http, rtp, .. } => {
                let http = http.as_ref().map_or(0, |http| http.terms.held_bytes());
                http + gate::clients_bytes(rtp)
            }
            Change::Revocation { .. } => 0,
        };
        self.session().held_bytes() + tuples
    }
}

impl Grants {
    /// The rows of list-tokens from behind this mark on, each with its own.
    pub fn rows(&self, (after, _): Mark) -> impl Iterator<Item = (Mark, &gate::Tuple)> {
        let tuples = self
            .tokens
            .iter()
            .flat_map(move |tokens| tokens.after(after));
        tuples.map(|tuple| ((tuple.serial(), 0), tuple))
    }

    /// Nothing is granted yet.
    pub fn new(settings: &Settings) -> Grants {
        let is_gated = !settings.token_servers.is_empty();
        Grants {
            tokens: is_gated.then(|| Tokens::new(settings.limits.tokens)),
            blocks: Blocks::default(),
            barred: Blocks::default(),
            ledger: None,
            told: UnixTime::default(),
            armed: Armed::default(),
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let tokens = self.tokens.as_ref().map_or(0, Tokens::held_bytes);
        let ledger = self.ledger.as_ref().map_or(0, Ledger::held_bytes);
        let barred = self.barred.held_bytes(|(name, _)| name.held_bytes());
        let blocks = self.blocks.held_bytes(SessionId::held_bytes) + barred;
        tokens + blocks + ledger
    }

    // ---- What is asked about it

    /// Whom to ask who may do what.
    pub fn gate<'a>(&'a self, ctx: &'a Context) -> Gate<'a> {
        Gate::new(
            ctx.settings(),
            self.tokens.as_ref(),
            (&self.blocks, &self.barred),
            ctx.is_closing(),
            (ctx.now(), ctx.date()),
        )
    }

    /// The table, to be looked at. `None`: tokens are off.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// The addresses of a session's UDP clients that datagrams may go to; as long as they are the
    /// same, they are lent and not copied.
    pub fn destinations(
        &mut self,
        session: &SessionId,
        reaches: impl Fn(SocketAddr, Transport) -> bool,
    ) -> Option<Rc<[Destination]>> {
        Some(self.tokens.as_mut()?.destinations(session, reaches))
    }

    /// Whether a tuple of the session names this address, for what comes from there: MPEG-TS alone,
    /// or RTP.
    pub fn is_client(&self, session: &SessionId, address: SocketAddr, is_bare: bool) -> bool {
        let tokens = self.tokens.iter();
        let named = tokens
            .flat_map(|tokens| tokens.udp_destinations(session))
            .filter(|(_, rtp)| (rtp.transport == Transport::Bare) == is_bare);
        let mut named = named.flat_map(|(_, rtp)| &rtp.addresses);
        named.any(|named| SocketAddr::new(named.ip().to_canonical(), named.port()) == address)
    }

    /// The session whose source somebody may become who sends RTP, or MPEG-TS alone: `its`, if it
    /// is the source of that already and silent, or else the first of its that has none. Or as
    /// what its datagrams are dropped.
    pub fn session_for(
        &self,
        (claim, is_bare): (&AccessRequest<'_>, bool),
        its: Option<SessionId>,
        has_source: impl Fn(&SessionId) -> bool,
        standing: impl Fn(&SessionId) -> SessionState,
        ctx: &Context,
    ) -> Result<SessionId, Count> {
        let is_silent = its.is_some();
        let named = claim.to.ok_or(Count::Stranger)?;
        let sessions = self.tokens.iter();
        let sessions = sessions.flat_map(|tokens| tokens.sessions_from(named));
        let mut tried = sessions.take(SESSIONS_TRIED_MAX);
        let is_free = |(session, transport): &(&SessionId, Transport)| {
            (*transport == Transport::Bare) == is_bare && !has_source(session)
        };
        let free = || tried.find(is_free).map(|(session, _)| session.clone());
        let session = its.or_else(free).ok_or(Count::SecondSource)?;
        let gate = self.gate(ctx);
        gate.enter(claim).map_err(|_| Count::Outside)?;
        // A source that is silent has lost its place to who comes from the same address.
        let standing = SessionState {
            has_source: !is_silent && has_source(&session),
            ..standing(&session)
        };
        gate.publish(claim, &session, Framing::UntilClose, &standing)
            .map_err(|_| Count::Refused)?;
        Ok(session)
    }

    /// What must hold between two inputs; and how many deadlines are armed.
    pub fn check(&self) -> usize {
        self.tokens.iter().for_each(Tokens::check);
        usize::from(self.armed.is_armed())
    }

    // ---- What is changed

    /// A stream is about to be aborted, if the session has one, and then nobody is admitted to it
    /// for so long. A key's name is no session's: to block it would keep nobody out.
    pub fn begin_abort(
        &mut self,
        (session, has_stream): (&SessionId, bool),
        block: Option<Duration>,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        let tokens = self.tokens.as_ref();
        let is_key = tokens.is_some_and(|tokens| tokens.opened_by(session) != session);
        // What runs under its name began before it was one.
        if is_key && !has_stream {
            let detail = "sessionid: it is a key, and has no stream of its own; revoke-token with abort=true ends who came by it";
            return Err(Refusal::new(Status::Conflict, detail));
        }
        block.map_or(Ok(()), |time| self.block(session, time, ctx))
    }

    /// Nobody is admitted to the session for so long.
    pub fn block(
        &mut self,
        session: &SessionId,
        time: Duration,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        if self.blocks.add(session, ctx.now() + time, ctx.now()) {
            return Ok(());
        }
        let detail = format!(
            "block: {BLOCKS_MAX} sessions are blocked, as many as may be, and nothing was done; without block the stream ends"
        );
        Err(Refusal::busy(
            Status::ServiceUnavailable,
            detail,
            RETRY_AFTER_SECONDS,
        ))
    }

    /// Nobody comes in to watch from there by this sessionid for so long.
    pub fn bar(&mut self, whom: &Barred, time: Duration, ctx: &Context) -> Result<(), Refusal> {
        if self.barred.add(whom, ctx.now() + time, ctx.now()) {
            return Ok(());
        }
        let detail = format!(
            "block: {BLOCKS_MAX} viewers are kept out, as many as may be, and nothing was done; without block the viewer is ended"
        );
        let status = Status::ServiceUnavailable;
        Err(Refusal::busy(status, detail, RETRY_AFTER_SECONDS))
    }

    /// Whoever is inside by a sessionid that has no tuples any more, for they were over and made
    /// room, is to be ended. `None`: it has some, or nobody is.
    pub fn abort_forgotten(
        &self,
        name: &SessionId,
        is_inside: bool,
        ctx: &mut Context,
    ) -> Option<Done> {
        let tokens = self.tokens.as_ref()?;
        if !is_inside || tokens.of(name).next().is_some() {
            return None;
        }
        let body = json(&Revoked {
            sessionid: name,
            revoked: 0,
        });
        ctx.notify(Event::DisconnectKey(name.clone()));
        Some((Status::Ok, body))
    }

    /// Makes a change now, and returns its answer; or has it written first. Then its caller waits.
    pub fn change(
        &mut self,
        caller: Caller,
        change: Change,
        fault: Fault<'_>,
        ctx: &mut Context,
    ) -> Result<Option<Done>, Refusal> {
        self.gate(ctx).change()?;
        if self.ledger.is_some() {
            self.record(caller, change, fault, ctx)?;
            return Ok(None);
        }
        self.begin_trial();
        let decided = self.decide(&change, fault, ctx);
        self.end_trial();
        self.carry_out(change, decided?, ctx).map(Some)
    }

    /// The table of a token file, at the start. From now on changes are written. Options may be
    /// stricter than they were: addresses that no client could be given now do not count, though
    /// the client stays listed, and its file as it is.
    pub fn restore(&mut self, mut tokens: Tokens, fault: Fault<'_>, ctx: &mut Context) {
        let expected = ctx.date().after(CLOCKS_DIFFER_MAX);
        ctx.hear_time(Duration::from_secs(tokens.time().unix_seconds));
        if tokens.time() > expected {
            ctx.log(
                Level::Warn,
                format_args!(
                    "event=clock-behind detail=\"the token file was written at {}, and by this host's clock that is to come; the later counts\"",
                    tokens.time()
                ),
            );
        }
        let gate = self.gate(ctx);
        let may_stay =
            |address, transport| gate.may_be_named(&address) && fault(address, transport).is_none();
        let silenced = tokens.retain_addresses(may_stay);
        self.tokens = Some(tokens);
        self.ledger = Some(Ledger::default());
        self.take_over(fault, ctx);
        if silenced > 0 {
            ctx.log(
                Level::Warn,
                format_args!(
                    "event=token-file-clients-silenced count={silenced} detail=\"UDP clients that --rtp-to or --rtp does not admit now\""
                ),
            );
        }
    }

    fn begin_trial(&mut self) {
        self.tokens.iter_mut().for_each(Tokens::begin_trial);
    }

    fn end_trial(&mut self) {
        self.tokens.iter_mut().for_each(Tokens::end_trial);
    }

    /// Judges a change by the table, and makes it there for the rest of the trial: the next change
    /// is judged by the table that it will change. Returns the records that make the change.
    fn decide(
        &mut self,
        change: &Change,
        fault: Fault<'_>,
        ctx: &Context,
    ) -> Result<Addition, Refusal> {
        let gate = self.gate(ctx);
        match change {
            Change::Addition { rtp, .. } => check_destinations(rtp, fault, &gate)?,
            Change::Revocation { .. } => {}
        }
        let Some(tokens) = &mut self.tokens else {
            return Err(tokens_are_off());
        };
        match change {
            Change::Addition { session, http, rtp } => {
                tokens
                    .check_key(session, http.as_ref(), !rtp.is_empty())
                    .map_err(|bad| Refusal::new(Status::Conflict, bad.to_string()))?;
                let (http, rtp) = (http.clone(), rtp.clone());
                let addition = tokens.try_add(session, http, rtp, ctx.date());
                addition.map_err(|full| {
                    let status = Status::ServiceUnavailable;
                    Refusal::busy(status, full.to_string(), RETRY_AFTER_SECONDS)
                })
            }
            Change::Revocation { session, .. } if tokens.of(session).next().is_none() => {
                let detail = match tokens.has_keys(session) {
                    true => {
                        "sessionid: this session has no tokens of its own; it has keys, which list-tokens with details=1 names: revoke those"
                    }
                    false => "sessionid: this session has no tokens",
                };
                Err(Refusal::new(Status::NotFound, detail))
            }
            Change::Revocation { session, .. } => {
                let session = session.clone();
                let revoke = Record::Revoke { session };
                tokens.carry_out(&revoke);
                Ok(Addition {
                    records: vec![revoke],
                    new: 0,
                })
            }
        }
    }

    /// Makes a change that was decided.
    fn carry_out(
        &mut self,
        change: Change,
        decided: Addition,
        ctx: &mut Context,
    ) -> Result<Done, Refusal> {
        let Some(tokens) = &mut self.tokens else {
            return Err(tokens_are_off());
        };
        let session = change.session();
        let of = tokens.opened_by(session).clone();
        let held_bytes = tokens.held_bytes();
        let mut removed = Vec::new();
        for record in &decided.records {
            let tuples = tokens.carry_out(record);
            if let Record::Forget { session } = record {
                let grant = tuples.first().and_then(|tuple| tuple.http());
                let opens = grant.and_then(|grant| grant.terms.opens.as_ref());
                let of = opens.unwrap_or(session);
                ctx.emit_about(Some((session, of)), &ServerEvent::TokenForgotten {});
            } else {
                removed.extend(tuples);
            }
        }
        match change {
            Change::Addition { session, .. } => {
                let new = decided.new;
                let body = Added {
                    sessionid: &session,
                    tokens: tokens.of(&session).collect(),
                };
                let status = if new > 0 { Status::Created } else { Status::Ok };
                let done = (status, json(&body));
                let grant = tokens.grant(&session);
                let ends = grant.and_then(|grant| grant.terms.ends);
                if new > 0 {
                    let what = ServerEvent::TokenAdded {
                        opens: grant.and_then(|grant| grant.terms.opens.as_ref()),
                        tuples: tokens.of(&session).count(),
                        new,
                    };
                    ctx.emit_about(Some((&session, tokens.opened_by(&session))), &what);
                }
                ctx.notify(Event::TokensChanged(session.clone()));
                ctx.notify(Event::AccessEnds(session, ends));
                self.rearm(ctx);
                Ok(done)
            }
            Change::Revocation { session, aborts } => {
                ctx.freed(held_bytes.saturating_sub(tokens.held_bytes()));
                let revoked = removed.len();
                let what = ServerEvent::TokenRevoked { revoked };
                ctx.emit_about(Some((&session, &of)), &what);
                let body = json(&Revoked {
                    sessionid: &session,
                    revoked,
                });
                ctx.notify(Event::TokensRemoved(removed));
                ctx.notify(Event::TokensChanged(session.clone()));
                if aborts {
                    ctx.notify(match of == session {
                        true => Event::EndSession(session),
                        false => Event::DisconnectKey(session),
                    });
                }
                Ok((Status::Ok, body))
            }
        }
    }
}

#[cfg(test)]
#[cfg_attr(not(feature = "default"), allow(dead_code))]
impl Grants {
    /// The table, for tests that change it without anybody's hearing of it.
    pub fn table(&mut self) -> Option<&mut Tokens> {
        self.tokens.as_mut()
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    // The bodies are structs of strings and numbers, which have no way to fail.
    serde_json::to_vec(body).unwrap_or_default()
}

/// Whoever holds the API must not be able to turn the relay on a stranger.
fn check_destinations(
    clients: &[RtpTuple],
    fault: Fault<'_>,
    gate: &Gate<'_>,
) -> Result<(), Refusal> {
    for tuple in clients {
        // The first address that can be reached is sent to; what is wrong with a name is what is
        // wrong with all of its addresses.
        let addresses = tuple.addresses.iter();
        let faults = addresses.map(|address| fault(*address, tuple.transport));
        if let Some(fault) = faults.reduce(|first, next| first.and(next)).flatten() {
            let detail = format!("udp-clients: '{}': {fault}", tuple.client);
            return Err(Refusal::new(Status::BadRequest, detail));
        }
    }
    let is_outside = |tuple: &&RtpTuple| {
        let mut addresses = tuple.addresses.iter();
        !addresses.all(|address| gate.may_be_named(address))
    };
    match clients.iter().find(is_outside) {
        None => Ok(()),
        Some(tuple) => {
            let detail = format!(
                "udp-clients: '{}' is in none of the subnets that UDP clients may be in (--rtp-to, which has to name groups)",
                tuple.client
            );
            Err(Refusal::new(Status::Forbidden, detail))
        }
    }
}
