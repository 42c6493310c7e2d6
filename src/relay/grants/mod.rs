//! Permissions: the tokens, the blocked sessions, and the changes on their way to the disk. Without
//! a token file a change is made at once; with one, when it is on disk ([`pending_changes`]).
//!
//! Changes are reported to the other parts as events, and so are late answers.

mod expiry;
#[cfg(feature = "handover")]
mod handover;
mod pending_changes;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use super::admission::{AccessRequest, BlockedViewer, Gate, SessionState, tokens_are_off};
use super::api::AddToken;
use super::context::Context;
use super::counts::Count;
use super::event::Event;
use super::server_event::ServerEvent;
use super::timers::Armed;
use super::viewer_id::Mark;
use super::{ConnectionId, Level, Settings};
use crate::gate::{
    self, Addition, BLOCKS_MAX, Blocks, Destination, GrantChange, Record, RtpTuple, SessionId,
    Tokens, Transport, canonical,
};
use crate::http::{Framing, Refusal, Reply, Status};
use crate::time::UnixTime;
use pending_changes::PendingChanges;

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;

/// A clock that is set back by more than this is reported.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(60);

/// The tokens, the blocks, and the changes.
#[derive(Default)]
pub(super) struct Grants {
    /// The tokens. `None`: tokens are off.
    tokens: Option<Tokens>,
    blocks: Blocks<SessionId>,
    /// Viewers that the operator has disconnected and blocked, by session id and address.
    blocked_viewers: Blocks<BlockedViewer>,
    /// Changes on their way to the token file. `None`: there is no such file.
    pending: Option<PendingChanges>,
    /// Time up to which expired tokens have been reported.
    reported: UnixTime,
    /// Deadline for the next token that expires.
    armed: Armed,
}

/// A change that a call asks for.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Addition {
        session: SessionId,
        http: Option<GrantChange>,
        /// UDP clients with their addresses.
        rtp: Vec<RtpTuple>,
    },
    /// Removes all tokens of a session.
    Revocation {
        session: SessionId,
        /// Whether the session's stream ends, too.
        aborts: bool,
        /// Whether clients are connected that the session id admitted. Its tokens may have expired, and
        /// been removed, before.
        is_inside: bool,
    },
}

/// The calling client, and its reply.
pub(super) type ReplyTo = (ConnectionId, Reply);
/// Answer to a change: the status, and a body in JSON.
pub(super) type JsonAnswer = (Status, Vec<u8>);

/// Sessions that are tried for a sender. Every session may name its address.
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
    /// Makes an addition, with the addresses of its clients.
    pub fn addition(add: AddToken, rtp: Vec<RtpTuple>) -> Change {
        let AddToken { session, http, .. } = add;
        Change::Addition { session, http, rtp }
    }

    fn session(&self) -> &SessionId {
        match self {
            Change::Addition { session, .. } | Change::Revocation { session, .. } => session,
        }
    }

    /// Returns the bytes that its allocations take.
    fn memory_bytes(&self) -> usize {
        let tuples = match self {
            Change::Addition { http, rtp, .. } => {
                let http = http.as_ref().map_or(0, |http| http.terms.memory_bytes());
                http + gate::clients_bytes(rtp)
            }
            Change::Revocation { .. } => 0,
        };
        self.session().memory_bytes() + tuples
    }
}

impl Grants {
    /// Returns the tokens after this mark, each with its own mark.
    pub fn rows(&self, (after, _): Mark) -> impl Iterator<Item = (Mark, &gate::Tuple)> {
        let tuples = self
            .tokens
            .iter()
            .flat_map(move |tokens| tokens.after(after));
        tuples.map(|tuple| ((tuple.serial, 0), tuple))
    }

    /// Makes a part without tokens.
    pub fn new(settings: &Settings) -> Grants {
        let is_gated = !settings.token_servers.is_empty();
        Grants {
            tokens: is_gated.then(|| Tokens::new(settings.limits.tokens)),
            ..Grants::default()
        }
    }

    /// Returns the memory of the token table, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tokens.as_ref().map_or(0, Tokens::memory_bytes)
    }

    // ---- What is asked about it

    /// Returns the gate, which decides about access.
    pub fn gate<'a>(&'a self, ctx: &'a Context) -> Gate<'a> {
        Gate {
            settings: ctx.settings(),
            tokens: self.tokens.as_ref(),
            blocks: &self.blocks,
            blocked_viewers: &self.blocked_viewers,
            is_closing: ctx.is_closing,
            now: ctx.now(),
            time: ctx.date(),
        }
    }

    /// Returns the tokens. `None`: tokens are off.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Returns the addresses of a session's UDP clients. While they stay the same, calls return the
    /// same allocation. `None`: tokens are off.
    pub fn destinations(
        &mut self,
        session: &SessionId,
        reaches: impl Fn(SocketAddr, Transport) -> bool,
    ) -> Option<Rc<[Destination]>> {
        Some(self.tokens.as_mut()?.destinations(session, reaches))
    }

    /// Returns whether a token of the session names this address, for RTP or for MPEG-TS alone.
    pub fn is_client(&self, session: &SessionId, address: SocketAddr, is_bare: bool) -> bool {
        let tokens = self.tokens.iter();
        let named = tokens
            .flat_map(|tokens| tokens.udp_destinations(session))
            .filter(|(_, rtp)| (rtp.transport == Transport::Bare) == is_bare);
        let mut named = named.flat_map(|(_, rtp)| &rtp.addresses);
        named.any(|named| canonical(*named) == address)
    }

    /// Returns the session whose source the sender of RTP or of MPEG-TS alone may become: `its`, the
    /// session whose silent source the sender is, or else the first session without a source that
    /// names the sender. Otherwise returns the counter for the sender's dropped datagrams.
    pub fn session_for(
        &self,
        (access_request, is_bare): (&AccessRequest, bool),
        its: Option<SessionId>,
        has_source: impl Fn(&SessionId) -> bool,
        session_state: impl Fn(&SessionId) -> SessionState,
        ctx: &Context,
    ) -> Result<SessionId, Count> {
        let is_silent = its.is_some();
        let named = access_request.to.ok_or(Count::Stranger)?;
        let sessions = self.tokens.iter();
        let sessions = sessions.flat_map(|tokens| tokens.sessions_from(named));
        let mut tried = sessions.take(SESSIONS_TRIED_MAX);
        let is_free = |(session, transport): &(&SessionId, Transport)| {
            (*transport == Transport::Bare) == is_bare && !has_source(session)
        };
        let free = || tried.find(is_free).map(|(session, _)| session.clone());
        let session = its.or_else(free).ok_or(Count::SecondSource)?;
        let gate = self.gate(ctx);
        gate.enter(access_request).map_err(|_| Count::Outside)?;
        // A new sender at the same address replaces a silent source.
        let session_state = SessionState {
            has_source: !is_silent && has_source(&session),
            ..session_state(&session)
        };
        gate.publish(
            access_request,
            &session,
            Framing::UntilClose,
            &session_state,
        )
        .map_err(|_| Count::Refused)?;
        Ok(session)
    }

    /// Checks what must hold between two inputs. Returns the number of deadlines.
    pub fn check(&self) -> usize {
        self.tokens.iter().for_each(Tokens::check);
        usize::from(self.armed.is_armed())
    }

    // ---- What is changed

    /// Prepares the abort of a session's stream, and the block after it. A key is not a session:
    /// blocking it would keep no client out.
    pub fn begin_abort(
        &mut self,
        (session, has_stream): (&SessionId, bool),
        block: Option<Duration>,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        let tokens = self.tokens.as_ref();
        let is_key = tokens.is_some_and(|tokens| tokens.opened_by(session) != session);
        // A stream of that name began before it was a key.
        if is_key && !has_stream {
            let detail = "sessionid: it is a key, and has no stream of its own; revoke-token with abort=true disconnects its clients";
            return Err(Refusal::new(Status::Conflict, detail));
        }
        block.map_or(Ok(()), |time| self.block(session, time, ctx))
    }

    /// Blocks a session for a while.
    pub fn block(
        &mut self,
        session: &SessionId,
        time: Duration,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        if self.blocks.add(session, ctx.now() + time, ctx.now()) {
            return Ok(());
        }
        Err(Refusal::busy(format!(
            "block: {BLOCKS_MAX} sessions are blocked, which is the limit, and nothing was done; leave block out to end the stream"
        )))
    }

    /// Blocks viewers with this session id and address for a while.
    pub fn block_viewer(
        &mut self,
        whom: &BlockedViewer,
        time: Duration,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        if self.blocked_viewers.add(whom, ctx.now() + time, ctx.now()) {
            return Ok(());
        }
        Err(Refusal::busy(format!(
            "block: {BLOCKS_MAX} viewers are blocked, which is the limit, and nothing was done; leave block out to disconnect the viewer"
        )))
    }

    /// Makes a change now, and returns the answer. `None`: the change is written first, and its
    /// call waits.
    pub fn change(
        &mut self,
        caller: ReplyTo,
        change: Change,
        ctx: &mut Context,
    ) -> Result<Option<JsonAnswer>, Refusal> {
        self.gate(ctx).check_open()?;
        if self.pending.is_some() {
            self.record(caller, change, ctx)?;
            return Ok(None);
        }
        self.begin_trial();
        let decided = self.decide(&change, ctx);
        self.end_trial();
        self.carry_out(change, decided?, ctx).map(Some)
    }

    /// Sets the table of a token file, at the start. From now on changes are written. Options may be
    /// stricter than they were. An address that no call could add now does not count. Its client
    /// stays in the list and in the file.
    pub fn restore(&mut self, mut tokens: Tokens, ctx: &mut Context) {
        let expected = ctx.date().after(CLOCKS_DIFFER_MAX);
        ctx.set_unix_time(Duration::from_secs(tokens.time().unix_seconds));
        if tokens.time() > expected {
            let line = format_args!(
                "event=clock-behind detail=\"the token file was written at {}, which is later than this host's clock; tokens expire by the later time. Set the clock\"",
                tokens.time()
            );
            ctx.log(Level::Warn, None, line);
        }
        let is_allowed = |address, transport| {
            let fault = ctx.rtp_socket.destination_fault(address, transport);
            ctx.settings().may_be_named(address) && fault.is_none()
        };
        let silenced = tokens.retain_addresses(is_allowed);
        self.tokens = Some(tokens);
        self.pending = Some(PendingChanges::default());
        self.take_over(ctx);
        if silenced > 0 {
            let line = format_args!(
                "event=token-file-clients-silenced count={silenced} detail=\"--rtp-to or --rtp does not admit these UDP clients of the token file, so they get nothing\""
            );
            ctx.log(Level::Warn, None, line);
        }
    }

    fn begin_trial(&mut self) {
        self.tokens.iter_mut().for_each(Tokens::begin_trial);
    }

    fn end_trial(&mut self) {
        self.tokens.iter_mut().for_each(Tokens::end_trial);
    }

    /// Decides about a change, and makes it in the table until the trial ends, so that the next
    /// change is judged by the table that it will change. Returns the records that make the change.
    fn decide(&mut self, change: &Change, ctx: &Context) -> Result<Addition, Refusal> {
        if let Change::Addition { rtp, .. } = change {
            check_destinations(rtp, ctx)?;
        }
        let Some(tokens) = &mut self.tokens else {
            return Err(tokens_are_off());
        };
        match change {
            Change::Addition { session, http, rtp } => {
                tokens
                    .check_key(session, http.as_ref(), !rtp.is_empty())
                    .map_err(|bad| Refusal::new(Status::Conflict, bad))?;
                let (http, rtp) = (http.clone(), rtp.clone());
                let addition = tokens.try_add(session, http, rtp, ctx.date());
                addition.map_err(|full| Refusal::busy(full.to_string()))
            }
            Change::Revocation {
                session,
                aborts,
                is_inside,
            } if tokens.of(session).next().is_none() => {
                if *aborts && *is_inside {
                    return Ok(Addition::default());
                }
                let detail = match tokens.has_keys(session) {
                    true => {
                        "sessionid: this session has no tokens of its own; revoke its keys, which list-tokens with details=1 shows"
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
    ) -> Result<JsonAnswer, Refusal> {
        let Some(tokens) = &mut self.tokens else {
            return Err(tokens_are_off());
        };
        let session = change.session();
        let of = tokens.opened_by(session).clone();
        let memory_bytes = tokens.memory_bytes();
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
                // Without a token, the clients of an earlier one keep their terms.
                let changed = grant.map(|grant| Event::TermsChanged {
                    credential: session.clone(),
                    session: tokens.opened_by(&session).clone(),
                    ends: grant.terms.ends,
                    bits_per_second_max: grant.terms.bits_per_second_max,
                });
                if new > 0 {
                    let what = ServerEvent::TokenAdded {
                        opens: grant.and_then(|grant| grant.terms.opens.as_ref()),
                        tuples: tokens.of(&session).count(),
                        new,
                    };
                    ctx.emit_about(Some((&session, tokens.opened_by(&session))), &what);
                }
                ctx.notify(Event::TokensChanged(session));
                if let Some(changed) = changed {
                    ctx.notify(changed);
                }
                self.rearm(ctx);
                Ok(done)
            }
            Change::Revocation {
                session, aborts, ..
            } => {
                ctx.freed(memory_bytes.saturating_sub(tokens.memory_bytes()));
                let revoked = removed.len();
                let body = json(&Revoked {
                    sessionid: &session,
                    revoked,
                });
                if revoked > 0 {
                    let what = ServerEvent::TokenRevoked { revoked };
                    ctx.emit_about(Some((&session, &of)), &what);
                    ctx.notify(Event::TokensRemoved(removed));
                    ctx.notify(Event::TokensChanged(session.clone()));
                    if aborts && of == session {
                        ctx.notify(Event::EndSession(session.clone()));
                    }
                }
                if aborts {
                    // Some of its clients may wait, or have come when it was a key to another session.
                    ctx.notify(Event::DisconnectKey(session));
                }
                Ok((Status::Ok, body))
            }
        }
    }
}

#[cfg(test)]
#[cfg_attr(not(feature = "default"), allow(dead_code))]
impl Grants {
    /// Returns the table, for tests that change it without events.
    pub fn table(&mut self) -> Option<&mut Tokens> {
        self.tokens.as_mut()
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    // Structs of strings and numbers cannot fail to serialise.
    serde_json::to_vec(body).unwrap_or_default()
}

/// Refuses addresses outside the configured subnets, so that the API cannot turn the relay on a
/// stranger.
fn check_destinations(clients: &[RtpTuple], ctx: &Context) -> Result<(), Refusal> {
    for tuple in clients {
        // The first address that can be reached is used. A name is refused if none can be, and the
        // refusal names the last one's fault.
        let addresses = tuple.addresses.iter();
        let faults =
            addresses.map(|address| ctx.rtp_socket.destination_fault(*address, tuple.transport));
        if let Some(fault) = faults.reduce(|first, next| first.and(next)).flatten() {
            let detail = format!("udp-clients: '{}': {fault}", tuple.client);
            return Err(Refusal::new(Status::BadRequest, detail));
        }
    }
    let is_outside = |tuple: &&RtpTuple| {
        let mut addresses = tuple.addresses.iter();
        !addresses.all(|address| ctx.settings().may_be_named(*address))
    };
    match clients.iter().find(is_outside) {
        None => Ok(()),
        Some(tuple) => {
            let detail = format!(
                "udp-clients: '{}' is in no subnet of --rtp-to; a multicast group must be in one",
                tuple.client
            );
            Err(Refusal::new(Status::Forbidden, detail))
        }
    }
}
