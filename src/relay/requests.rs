//! What a request's wish does: which part is asked, and what its answer means to the others.

use std::time::Duration;

use serde::Serialize;

use super::admission::{Claim, Standing, Way};
use super::api::{Answer, Call, DESCRIPTION};
use super::connection::{Phase, Source};
use super::fetch::Fault;
use super::grants::Change;
use super::lists::{LookUp, without_names};
use super::live::{Live, Origin};
use super::page::Page;
use super::reading::LOOK_COST;
use super::{ConnectionId, Done, PullId, Relay, Ticket, metrics};
use crate::gate::{self, SessionId};
use crate::http::{self, Body, Refusal, Reply, Status};
use crate::moment::Moment;
use crate::stream::End;

/// What an abort has done.
#[derive(Serialize)]
struct Aborted<'a> {
    sessionid: &'a SessionId,
    viewers: usize,
}

impl Relay {
    /// Does what a call asks for, and answers it, unless it has to wait.
    pub(super) fn call(&mut self, id: ConnectionId, call: Call, reply: Reply) {
        let json = "application/json";
        let answer = match call {
            Call::AddToken(add) => match without_names(&add) {
                Some(clients) => {
                    return self.change(id, Change::addition(add, clients), reply);
                }
                None => {
                    let ticket = self.lists.resolve(id, reply, add, &mut self.desk);
                    return self.clients.awaits(id, ticket, &mut self.desk);
                }
            },
            Call::RevokeToken { session, aborts } => {
                return self.change(id, Change::revocation(session, aborts), reply);
            }
            Call::Gather(rows) => match self.lists.gather(id, rows, reply, &mut self.desk) {
                Ok(ticket) => return self.clients.awaits(id, ticket, &mut self.desk),
                Err(refusal) => Err(refusal),
            },
            Call::List(rows) => Ok(Answer::List(rows)),
            Call::AbortStream { session, block } => self.abort_stream(&session, block),
            Call::Page => Ok(Answer::Page(Page::new(&mut self.desk.random))),
            Call::Metrics => {
                let looks = self.clients.connections.len() + self.streams.lives.len();
                self.clients.reading.count(looks * LOOK_COST);
                Ok(Answer::Text(metrics::MEDIA_TYPE, self.metrics().into()))
            }
            Call::Description => Ok(Answer::Text(json, DESCRIPTION.into())),
            Call::Health => Ok(Answer::Text(json, "{\"status\":\"ok\"}".into())),
            Call::Options { allow } => Ok(Answer::Options(allow)),
        };
        self.give(id, answer, reply);
    }

    /// Changes the table, now, or when the change is on disk. What that means to others is settled
    /// before anything else is read: whoever asks next finds it so.
    fn change(&mut self, id: ConnectionId, change: Change, reply: Reply) {
        let fault = |address| self.rtp_in.destination_fault(address);
        let changed = self
            .grants
            .change((id, reply), change, &fault, &mut self.desk);
        match changed {
            Ok(None) => self.clients.records(id),
            Ok(Some((status, body))) => self.give(id, Ok(Answer::Json(status, body)), reply),
            Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.desk),
        }
        self.settle();
    }

    fn abort_stream(
        &mut self,
        session: &SessionId,
        block: Option<Duration>,
    ) -> Result<Answer, Refusal> {
        if let Some(block) = block {
            self.grants.block(session, block, &self.desk)?;
        }
        let ended = self.end_session(session);
        if block.is_some() {
            self.block_session(session);
        }
        // A block is something to be done where nothing runs, too.
        let viewers = ended.or(block.map(|_| 0)).ok_or_else(|| {
            Refusal::new(
                Status::NotFound,
                "sessionid: this session has no running stream",
            )
        })?;
        let body = Aborted {
            sessionid: session,
            viewers,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        Ok(Answer::Json(Status::Ok, body))
    }

    /// An errand is done.
    pub fn helped(&mut self, ticket: Ticket, done: Done, now: Moment) {
        self.desk.now = now;
        match done {
            Done::Resolved(results) => {
                if !self.fetch.resolved(ticket, &results, &mut self.desk) {
                    self.looked_up(ticket, LookUp::Done(results));
                }
            }
            Done::Appended(result) => {
                let fault = |address| self.rtp_in.destination_fault(address);
                self.grants
                    .appended(ticket, &result, &fault, &mut self.desk);
            }
            Done::NotCompacted(error) => self.grants.not_compacted(&error, &mut self.desk),
        }
        self.settle();
    }

    /// Too much is to be done already.
    pub fn not_helped(&mut self, ticket: Ticket, now: Moment) {
        self.desk.now = now;
        let fault = |address| self.rtp_in.destination_fault(address);
        let is_anothers = self.grants.not_appended(ticket, &fault, &mut self.desk)
            || self.fetch.resolved(ticket, &[], &mut self.desk);
        if !is_anothers {
            self.looked_up(ticket, LookUp::Refused);
        }
        self.settle();
    }

    /// The names of a call have been looked up, or will not be.
    pub(super) fn looked_up(&mut self, ticket: Ticket, look_up: LookUp) {
        if let Some((id, reply, result)) = self.lists.resolved(ticket, look_up)
            && self.clients.waits_no_more(id)
        {
            match result {
                Ok((add, clients)) => self.change(id, Change::addition(add, clients), reply),
                Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.desk),
            }
        }
    }

    /// The table of a token file, at the start, when the RTP socket is known.
    pub fn restore(&mut self, tokens: gate::Tokens, now: Moment) {
        self.desk.now = now;
        let fault = |address| self.rtp_in.destination_fault(address);
        self.grants.restore(tokens, &fault, &mut self.desk);
    }

    /// The bounds of the table.
    pub fn token_limits(&self) -> gate::Limits {
        self.desk.settings.limits.tokens
    }

    /// An origin has the stream of a pull: it runs from now on.
    pub(super) fn take_from_origin(
        &mut self,
        id: ConnectionId,
        pull: PullId,
        answer: http::Answer,
    ) {
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let peer = connection.peer;
        let via = answer.via.as_deref();
        let session = match self.fetch.offered(pull, via) {
            Ok(session) => session,
            Err(fault) => return self.clients.give_up_asking(id, fault, &mut self.desk),
        };
        let claim = Claim::without_request(Way::Pull, peer);
        let standing = self.standing(&session);
        let gate = self.grants.gate(&self.desk);
        if !gate.may_publish(&claim, &session, &standing) {
            return self.clients.give_up_asking(id, Fault::Busy, &mut self.desk);
        }
        let live = self.begin(session.clone(), answer.content_type, Origin::Http(id), peer);
        let now = self.desk.now;
        let via = self.fetch.brought(pull, live, via, now);
        self.streams.is_fetched(live, pull, via);
        if let Some(connection) = self.clients.connections.get_mut(id) {
            connection.phase = Phase::Source(Source {
                live,
                body: Body::new(answer.framing),
                bytes: 0,
                reply: None,
                window_bytes: 0,
                window_began: now,
            });
        }
        self.admit_waiting(&session);
        self.tend_pull(&session);
    }

    /// The session has a source of this server's own now. Whoever waits waits on; whoever was let
    /// in by an origin's word alone, and is held still, has no leave to watch it.
    pub(super) fn take_from_origins(&mut self, session: &SessionId) {
        self.fetch.drop(session, &mut self.desk);
        if let Some(id) = self.streams.held_of_origin(session)
            && !self.grants.gate(&self.desk).may_stay(session)
        {
            self.end_live(id, End::Lost, "its viewers may not watch its next source");
        }
    }

    /// What runs of a session.
    pub(super) fn standing(&self, session: &SessionId) -> Standing {
        let live = self
            .streams
            .running
            .get(session)
            .and_then(|id| self.streams.lives.get(*id));
        // Those that are being fetched have their places, this one among them.
        let streams = self.streams.running.len() + self.fetch.without_stream();
        let is_fetched = self.fetch.has(session);
        Standing {
            runs: live.is_some(),
            has_source: self.streams.has_source(session),
            is_fetched,
            is_forbidden: self.fetch.is_forbidden(session),
            has_room: is_fetched
                || live.is_some()
                || streams < self.desk.settings.limits.streams_max,
            has_room_for_pull: self.fetch.has_room()
                && self.clients.connections.len() < self.desk.settings.limits.connections_max,
            http_fault: live.and_then(Live::http_fault),
        }
    }
}
