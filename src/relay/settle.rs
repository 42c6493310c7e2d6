//! Where the parts of the server meet. What one of them does never reaches into another: it says
//! what has happened, and that is heard here, when nobody is in the middle of anything. Every input
//! of [`Relay`] ends with this.

use std::net::IpAddr;

use super::admission::{EntryPoint, SessionState};
use super::api::Outcome;
use super::clients::{Clients, Disconnected, WaitFor, WaitOutcome};
use super::fetch::Fault;
use super::streams::{CutReason, StreamSource, Streams, WatchResponse};
use super::view::View;
use super::{ConnectionId, Relay, clients, fetch, grants, lists, streams};
use crate::gate::SessionId;
use crate::http::{Method, Reply, Status};
use crate::stream::End;

fn hear(relay: &mut Relay) {
    loop {
        if let Some(said) = relay.streams.said() {
            relay.hear_streams(said);
        } else if let Some(said) = relay.clients.said() {
            relay.hear_clients(said);
        } else if let Some(said) = relay.fetch.said() {
            relay.hear_fetch(said);
        } else if let Some(said) = relay.grants.said() {
            relay.hear_grants(said);
        } else if let Some(said) = relay.lists.said() {
            relay.hear_lists(said);
        } else {
            return;
        }
    }
}

impl Relay {
    /// Takes what was said until nothing is left. After each write to each viewer that is nothing,
    /// nearly always: looking is all that it costs.
    #[inline]
    pub(super) fn settle(&mut self) {
        let has_said = self.streams.has_said()
            || self.clients.has_said()
            || self.fetch.has_said()
            || self.grants.has_said()
            || self.lists.has_said();
        if has_said {
            hear(self);
        }
        // What a client's bytes, or its wish, have others do is its work.
        self.clients.count_cost(self.streams.take_work());
        if self.ctx.take_news() {
            self.clients.wake_readers();
        }
    }

    fn hear_streams(&mut self, said: streams::Said) {
        match said {
            streams::Said::Cut(viewer, cut) => self.cut_viewer(viewer, cut),
            streams::Said::CutOff(viewer) => self.clients.close(viewer, &mut self.ctx),
            streams::Said::Dismissed(source, reason) => {
                // Its stream has ended already, and an origin is told nothing.
                self.clients.expel(source, reason, &mut self.ctx);
            }
            streams::Said::ReadAgain(source) => self.clients.wait_ahead(source),
            streams::Said::Unattended(session) => self.tend_pull(&session),
            streams::Said::Grown(id) => {
                if let Some((session, reached)) = self.streams.reached(id) {
                    let up_to = (WaitFor::List, reached);
                    self.clients
                        .call_up_to(up_to, &session, WaitOutcome::Called);
                }
            }
            streams::Said::CaughtUp(id) => self.streams.has_caught_up(id, &mut self.ctx),
            streams::Said::MayCast(id) => self.refresh_clients(id),
            streams::Said::RemuxFails { id, why } => {
                self.streams.let_shadow_go(id, &why, &mut self.ctx);
            }
            streams::Said::Shown(id) => {
                self.refresh_clients(id);
                self.streams.tell_of_transport(id, &mut self.ctx);
                // Who wants it in another container has waited for that.
                if let Some(session) = self.streams.session(id) {
                    let room = WaitFor::List;
                    self.clients
                        .call_waiting(room, &session, WaitOutcome::Called);
                }
            }
            streams::Said::SourceLeft { source, id } => {
                // It may have come back since.
                if let StreamSource::Rtp(address) = source
                    && !self.streams.has_as_source(id, source)
                {
                    self.rtp_in.forget_rtp_source(address, id);
                }
            }
            streams::Said::PullOver {
                pull,
                end,
                has_viewers,
            } => {
                let over = &mut self.ctx;
                if let Some(session) = self.fetch.stream_over(pull, end, has_viewers, over) {
                    self.tend_pull(&session);
                }
            }
        }
    }

    fn hear_fetch(&mut self, said: fetch::Said) {
        match said {
            fetch::Said::Call(pull) => {
                let came_through =
                    |session: &SessionId| came_through(&self.streams, &self.clients, session);
                if let Some(call) = self.fetch.call(pull, came_through) {
                    let connection = self.clients.ask_origin(
                        pull,
                        (call.to, &call.request),
                        call.until,
                        &mut self.ctx,
                    );
                    self.fetch.called(pull, connection, &mut self.ctx);
                }
            }
            fetch::Said::RoundOver(pull) => {
                let is_held = |session: &SessionId| self.streams.held(session).is_some();
                let over = self.fetch.end_round(pull, is_held, &mut self.ctx);
                if let Some((session, turned_away)) = over {
                    if let Some(fault) = turned_away {
                        let fate = WaitOutcome::TurnedAway(fault);
                        self.clients.call_waiting(WaitFor::Session, &session, fate);
                    }
                    self.tend_pull(&session);
                }
            }
            fetch::Said::HangUp(connection) => self.clients.close(connection, &mut self.ctx),
            fetch::Said::Unwanted { stream, pull } => {
                if let Some(source) = self.streams.fetched_from(stream, pull) {
                    self.streams
                        .end(stream, End::Complete, "nobody watches it", &mut self.ctx);
                    self.clients.close(source, &mut self.ctx);
                }
            }
        }
    }

    fn hear_grants(&mut self, said: grants::Said) {
        match said {
            grants::Said::Changed(session) => {
                for id in self.streams.with_clients(&session) {
                    self.refresh_clients(id);
                }
                let opened = self.grants.gate(&self.ctx).opened_by(&session).clone();
                if let Some((id, _)) = self.streams.running_source(&opened) {
                    self.limit_source(id);
                }
                if let Some((id, source, is_bare)) = self.streams.rtp_source_of(&session)
                    && !self.grants.is_client(&session, source, is_bare)
                {
                    self.streams
                        .end(id, End::Lost, "its token was revoked", &mut self.ctx);
                }
            }
            grants::Said::Removed(tuples) => self.rtp_in.forget_candidates(&tuples),
            grants::Said::Ends(name, ends) => {
                self.clients.end_at(&name, ends, &mut self.ctx);
            }
            // Whoever is inside by it is ended, and nobody else.
            grants::Said::KeyAborted(key) => {
                for id in self.clients.all_by(&key) {
                    let reason = "its token was revoked";
                    match self.clients.expel(id, reason, &mut self.ctx) {
                        Some(Disconnected::Viewer) => self.cut_viewer(id, CutReason::Token),
                        Some(Disconnected::Source(stream)) => {
                            let source = StreamSource::Http(id);
                            self.streams
                                .source_lost(stream, source, reason, &mut self.ctx);
                        }
                        None => {}
                    }
                }
            }
            grants::Said::Aborted(session) => drop(self.end_session(&session)),
            grants::Said::Answered((id, reply), done) => {
                if self.clients.has(id) {
                    let answer = done.map(|(status, body)| Outcome::Json(status, body));
                    self.clients.give(id, answer, reply, &mut self.ctx);
                }
            }
        }
    }

    fn hear_lists(&mut self, said: lists::Said) {
        match said {
            lists::Said::Call { ticket, peer } => {
                if let Some((to, request, telling)) = self.lists.call(ticket, peer, &self.ctx) {
                    let whom = (to, &*request);
                    let connection = self.clients.ask_peer(whom, telling, &mut self.ctx);
                    self.lists.called(ticket, peer, connection, &self.ctx);
                }
            }
            lists::Said::HangUp(connection) => self.clients.close(connection, &mut self.ctx),
            lists::Said::Whole(whole) => {
                let others = (whole.ticket, whole.missing.as_str());
                self.clients
                    .list(whole.client, whole.rows, others, whole.reply, &mut self.ctx);
            }
        }
    }

    /// Somebody has come to a session or gone: whether it is fetched on depends on who is left.
    pub(super) fn tend_pull(&mut self, session: &SessionId) {
        let is_wanted =
            || self.clients.waiting().is_awaited(session) || self.streams.is_watched(session);
        self.fetch.tend(session, is_wanted, &mut self.ctx);
    }

    fn hear_clients(&mut self, said: clients::Said) {
        match said {
            clients::Said::SourceGone { stream, id } => {
                let reason = "the connection broke";
                self.streams
                    .source_lost(stream, StreamSource::Http(id), reason, &mut self.ctx);
            }
            clients::Said::ViewerGone(place) => {
                let session = self.streams.leave(place, &mut self.ctx);
                if let Some(session) = session.filter(|_| self.fetch.len() > 0).cloned() {
                    self.tend_pull(&session);
                }
                self.streams.tend(place.0, &mut self.ctx);
            }
            clients::Said::WaiterGone(session) => self.tend_pull(&session),
            clients::Said::AskingEnded { pull, id, fault } => {
                let came_through =
                    |session: &SessionId| came_through(&self.streams, &self.clients, session);
                self.fetch
                    .asked(pull, (id, fault), came_through, &mut self.ctx);
            }
            clients::Said::TellingEnded(of) => self.lists.telling_ended(of, &self.ctx),
            clients::Said::AskerGone(ticket) => self.lists.forget(ticket),
        }
    }

    // ---- Those who watch, and those who come too early for that

    /// The request is admitted: the stream, or what of it is wanted, goes out to its client, at
    /// once if it runs. `may_wait`: it has not waited in vain.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        (session, view): (SessionId, View),
        via: Option<&str>,
        (reply, may_wait): (Reply, bool),
    ) {
        let ctx = &mut self.ctx;
        let how = (reply, may_wait);
        let is_head = reply.head_only;
        let watched = match &view {
            View::Whole => self.streams.watch(id, &session, reply, ctx),
            View::In(target) => self.streams.watch_in(id, (&session, *target), how, ctx),
            View::Part(wanted) => self.streams.play(id, (&session, wanted), how, ctx),
        };
        if let Some(WatchResponse::Segment(..) | WatchResponse::Whole(..)) = &watched
            && !is_head
        {
            self.clients.take_seat(id, ctx);
        }
        match watched {
            Some(WatchResponse::Viewing(viewing)) => {
                self.clients.begin_watching(id, viewing, &session, ctx);
            }
            Some(WatchResponse::Segment(head, viewing)) => {
                self.clients.push_head(id, &head);
                self.clients.watch(id, viewing);
            }
            Some(WatchResponse::Whole(bytes, Reply { keep_alive, .. })) => {
                let ok = Some(Status::Ok);
                self.clients
                    .respond(id, ok, bytes, keep_alive, &mut self.ctx);
            }
            Some(WatchResponse::Refused(refusal)) => {
                self.clients.refuse(id, &refusal, reply, &mut self.ctx);
            }
            Some(WatchResponse::NotYet(until)) => {
                let place = (WaitFor::List, session.clone());
                self.clients
                    .wait_for(id, place, (view, None), (reply, until));
                self.clients.rearm(id, &mut self.ctx);
            }
            // It may begin soon, or be fetched, unless that was waited for already.
            None => {
                let method = match reply.head_only {
                    true => Method::Head,
                    false => Method::Get,
                };
                let gate = self.grants.gate(&self.ctx);
                let verdict = match may_wait && view.can_wait() {
                    true => gate.wait(method, &self.standing(&session)),
                    false => Err(gate.turned_away(self.fetch.absence(&session))),
                };
                if let Err(refusal) = verdict {
                    return self.clients.refuse(id, &refusal, reply, &mut self.ctx);
                }
                let wait_time = self.ctx.settings().limits.wait_time;
                let until = self.ctx.now() + wait_time.max(self.fetch.time(&self.ctx));
                let via = via.filter(|_| self.fetch.has_origins());
                let place = (WaitFor::Session, session.clone());
                self.clients
                    .wait_for(id, place, (view, via), (reply, until));
                self.clients.rearm(id, &mut self.ctx);
                self.fetch.want(&session, &mut self.ctx);
            }
        }
        self.tend_pull(&session);
    }

    /// The session runs, or may not: those who waited for it watch, if they still may.
    pub(super) fn admit_waiting(&mut self, session: &SessionId) {
        if !self.clients.waiting().is_awaited(session) {
            return;
        }
        let (gate, standing) = (self.grants.gate(&self.ctx), self.standing(session));
        let may_watch = |name: &SessionId, from: Option<IpAddr>, standing: &SessionState| {
            let how = (EntryPoint::Viewer, from);
            let verdict = gate.go_on_late((name, session), how, standing, || Fault::NotFound);
            verdict.is_ok()
        };
        self.clients.call_others(session, &standing, may_watch);
        for (id, view, reply) in self.clients.end_waiting(session) {
            self.watch(id, (session.clone(), view), None, (reply, true));
        }
        self.tend_pull(session);
    }
}

/// What a pull's request came through, beside this server: the relays that all have in common who
/// wait for the session. None, where viewers of a stream are held, of whom that is not kept, and
/// where nobody waits. So no viewer decides alone what an origin sees, nor one who has left; two
/// servers that ask each other find that out when one asks while the other waits.
fn came_through<'a>(
    streams: &Streams,
    clients: &'a Clients,
    session: &SessionId,
) -> Option<&'a str> {
    match streams.held(session) {
        Some(_) => None,
        None => clients.waiting().came_through(session),
    }
}
