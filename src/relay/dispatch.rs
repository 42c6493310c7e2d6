//! Where the parts of the core meet. A part reports to the others by an [`Event`] in the queue of
//! the context. [`Relay::dispatch_events`] empties that queue at the end of every input.

use std::net::IpAddr;

use super::admission::{EntryPoint, SessionState};
use super::api::Outcome;
use super::clients::{Clients, WaitFor, WaitOutcome, Waiting};
use super::cut_reason::CutReason;
use super::event::Event;
use super::lists::PeerRows;
use super::origin_error::OriginError;
use super::streams::{StreamSource, Streams, WatchResponse};
use super::view::View;
use super::{ConnectionId, PullId, Relay};
use crate::gate::{SessionId, network_of};
use crate::http::{Method, Refusal, Reply, Status};
use crate::stream::End;

impl Relay {
    /// Handles the events in the queue until none is left. Then counts the work that this input
    /// caused, and wakes the readers of `/api/events` if it left something for them.
    ///
    /// Runs after each write to each viewer, when the queue is nearly always empty.
    #[inline]
    pub(super) fn dispatch_events(&mut self) {
        while let Some(event) = self.ctx.queue.pop_front() {
            self.dispatch(event);
        }
        self.clients.reading.count(self.streams.take_work());
        if self.ctx.events.take_new() {
            self.clients.wake_readers();
        }
    }

    #[inline(never)]
    fn dispatch(&mut self, event: Event) {
        let ctx = &mut self.ctx;
        match event {
            Event::Close(id) => self.clients.close(id, ctx),
            Event::SourceLost { stream, id, reason } => {
                let source = StreamSource::Http(id);
                self.streams.source_lost(stream, source, reason, ctx);
            }
            Event::ViewerClosed {
                stream,
                viewer,
                key,
                address,
            } => {
                let viewer_key = (stream, viewer);
                let session = self.streams.leave(viewer_key, key, address, ctx).cloned();
                if let Some(session) = session.filter(|_| self.fetch.len() > 0) {
                    self.tend_pull(&session);
                }
                self.streams.tend(stream, &mut self.ctx);
            }
            Event::SessionLeft(session) => self.tend_pull(&session),
            Event::OriginClosed { pull, id, error } => {
                let came_through =
                    |session: &SessionId| came_through(&self.streams, &self.clients, session);
                self.fetch
                    .request_ended(pull, (id, error), came_through, ctx);
            }
            Event::PeerAnswered { list, peer, rows } => {
                self.lists
                    .set_share((list, peer), PeerRows::Rows(rows), ctx)
            }
            Event::PeerClosed { list, peer } => self.lists.peer_ended((list, peer), ctx),
            Event::CallerClosed(call) => self.lists.forget(call, ctx),
            Event::CallTimedOut(call) => {
                let why =
                    "udp-clients: a name did not resolve in time; names must resolve within 5 s";
                self.looked_up(call, Err(Refusal::new(Status::BadRequest, why)));
            }

            Event::CutViewer(viewer, reason) => self.cut_viewer(viewer, reason),
            // An origin gets no answer.
            Event::DismissSource(source, reason) => {
                let refusal = Refusal::new(Status::Forbidden, reason);
                self.clients.dismiss_source(source, &refusal, ctx);
            }
            Event::ResumeSource(source) => self.clients.queue_pipelined(source),
            Event::PlaylistGrew(id, session) => {
                if let Some(reached) = self.streams.reached(id) {
                    let outcome = WaitOutcome::Called;
                    self.clients
                        .call_up_to(WaitFor::Progress, reached, &session, outcome);
                }
            }
            Event::FormatKnown(id) => {
                self.refresh_clients(id);
                self.streams.report_transport(id, &mut self.ctx);
                // Viewers of another container have waited for that.
                if let Some(session) = self.streams.session(id) {
                    self.clients
                        .call_waiting(WaitFor::Progress, &session, WaitOutcome::Called);
                }
            }
            Event::UdpClientsChanged(id) => self.refresh_clients(id),
            Event::RemuxCaughtUp(id) => self.streams.finish_catching_up(id, ctx),
            Event::RemuxFailed { id, why } => self.streams.drop_remuxed(id, &why, ctx),
            Event::RtpSourceLeft { address, id } => {
                // The source may have come back since.
                if !self.streams.has_as_source(id, StreamSource::Rtp(address)) {
                    self.rtp_in.forget_rtp_source(address, id);
                }
            }
            Event::PullEnded {
                pull,
                session,
                end,
                has_viewers,
            } => {
                let is_wanted = has_viewers || self.clients.waiting.is_awaited(&session);
                if let Some(session) = self.fetch.stream_over(pull, end, is_wanted, ctx) {
                    self.tend_pull(&session);
                }
            }

            Event::CallOrigin(pull) => self.call_origin(pull),
            Event::OriginsExhausted(pull) => {
                let is_held = |session: &SessionId| self.streams.held(session).is_some();
                if let Some((session, error)) = self.fetch.end_round(pull, is_held, ctx) {
                    if let Some(error) = error {
                        let outcome = WaitOutcome::TurnedAway(error);
                        self.clients
                            .call_waiting(WaitFor::Session, &session, outcome);
                    }
                    self.tend_pull(&session);
                }
            }
            Event::EndPulled { stream, pull } => {
                if let Some(source) = self.streams.fetched_from(stream, pull) {
                    let reason = "the last viewer has left";
                    self.streams.end(stream, End::Complete, reason, ctx);
                    self.clients.close(source, ctx);
                }
            }

            Event::TokensChanged(session) => self.tokens_changed(&session),
            Event::TokensRemoved(tuples) => self.rtp_in.forget_candidates(&tuples),
            Event::TermsChanged {
                credential,
                session,
                ends,
                bits_per_second_max,
            } => {
                self.clients.end_at((&credential, &session), ends, ctx);
                self.change_limit((&credential, &session), bits_per_second_max);
            }
            Event::EndSession(session) => drop(self.end_session(&session)),
            Event::DisconnectKey(key) => {
                for id in self.clients.all_by(&key) {
                    // A viewer is cut at once, before it leaves because its stream has ended.
                    self.cut_viewer(id, CutReason::Token);
                    self.clients
                        .expel(id, "its token was revoked", &mut self.ctx);
                }
            }
            Event::Answer { id, reply, answer } => {
                if self.clients.has(id) {
                    let answer = answer.map(|(status, body)| Outcome::Json(status, body));
                    self.clients.answer_call(id, answer, reply, ctx);
                }
            }

            Event::CallPeer { list, peer } => {
                if let Some((to, text, request)) = self.lists.call(list, peer, ctx) {
                    let connection = self.clients.ask_peer((to, &text), request, ctx);
                    let rows = connection.map_or(PeerRows::Missing, PeerRows::Asked);
                    self.lists.set_share((list, peer), rows, ctx);
                }
            }
            Event::ListReady {
                client,
                reply,
                rows,
                list,
                missing,
            } => self.clients.list(client, rows, list, &missing, reply, ctx),
        }
    }

    fn call_origin(&mut self, pull: PullId) {
        let came_through =
            |session: &SessionId| came_through(&self.streams, &self.clients, session);
        if let Some(call) = self.fetch.call(pull, came_through) {
            let whom = (call.to, &*call.request);
            let connection = self
                .clients
                .ask_origin(pull, whom, call.until, &mut self.ctx);
            self.fetch.called(pull, connection, &mut self.ctx);
        }
    }

    fn tokens_changed(&mut self, session: &SessionId) {
        for id in self.streams.with_clients(session) {
            self.refresh_clients(id);
        }
        if let Some((id, source, is_bare)) = self.streams.rtp_source_of(session)
            && !self.grants.is_client(session, source, is_bare)
        {
            self.streams
                .end(id, End::Lost, "its token was revoked", &mut self.ctx);
        }
    }

    /// Sets the bit rate of a session's source, if this session id admitted it or is the session.
    fn change_limit(
        &mut self,
        (credential, session): (&SessionId, &SessionId),
        bits_per_second_max: Option<u64>,
    ) {
        let Some((id, _)) = self.streams.running_source(session) else {
            return;
        };
        let mut limits = self.streams.source_limits(id);
        if credential == session {
            limits.by_session = bits_per_second_max;
        } else if self.source_credential(id, session) == Some(credential) {
            limits.by_key = bits_per_second_max;
        }
        self.streams.limit_source(id, limits, &mut self.ctx);
    }

    /// Adjusts the pull of a session, if it has one, to whether clients still watch or wait.
    pub(super) fn tend_pull(&mut self, session: &SessionId) {
        let is_wanted =
            || self.clients.waiting.is_awaited(session) || self.streams.is_watched(session);
        self.fetch.tend(session, is_wanted, &mut self.ctx);
    }

    // ---- Viewers

    /// Answers an admitted request for a stream, a playlist or a segment: at once if the session
    /// runs, or later. `may_wait`: the client has not waited in vain already.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        view: View,
        via: Option<&str>,
        reply: Reply,
        may_wait: bool,
    ) {
        let ctx = &mut self.ctx;
        let how = (reply, may_wait);
        let is_head = reply.head_only;
        let waiting = |wait_for, view, until| Waiting {
            session: session.clone(),
            wait_for,
            view,
            reply,
            until,
            outcome: WaitOutcome::Open,
            is_fetched: self.fetch.has(&session),
        };
        let watched = match &view {
            View::Whole => self.streams.watch(id, &session, reply, ctx),
            View::In(target) => self.streams.watch_in(id, (&session, *target), how, ctx),
            View::Poster => self.streams.watch_poster(id, &session, how, ctx),
            View::Part(wanted) => self.streams.play(id, (&session, wanted), how, ctx),
        };
        if let Some(WatchResponse::Segment(..) | WatchResponse::Whole(..)) = &watched
            && !is_head
        {
            self.clients.count_hls(id, ctx);
        }
        match watched {
            Some(WatchResponse::Viewer(response)) => {
                self.clients.begin_watching(id, response, &session, ctx);
            }
            Some(WatchResponse::Segment(head, response)) => {
                self.clients.push_head(id, &head);
                self.clients.watch(id, response);
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
                let waiting = waiting(WaitFor::Progress, view, until);
                self.clients.wait_for(id, waiting, None, &mut self.ctx);
            }
            // The session may begin soon, or be fetched, unless the client has waited for that
            // already.
            None => {
                let method = match reply.head_only {
                    true => Method::Head,
                    false => Method::Get,
                };
                let from = self.clients.peer(id).map(|peer| peer.ip());
                // Only `Gate::wait` reads this state, and nothing in it that depends on a key.
                let session_state = self.session_state_for(&session, &session, from);
                let gate = self.grants.gate(&self.ctx);
                let verdict = match may_wait && view.can_wait() {
                    true => gate.wait(method, &session_state),
                    false => Err(gate.turned_away(self.fetch.absence(&session))),
                };
                if let Err(refusal) = verdict {
                    return self.clients.refuse(id, &refusal, reply, &mut self.ctx);
                }
                let wait_time = self.ctx.settings().limits.wait_time;
                // The client's time counts from its request, however often the session begins and ends
                // meanwhile.
                let asked_at = self.clients.asked_at(id).unwrap_or(self.ctx.now());
                let until = asked_at + wait_time.max(self.fetch.time(&self.ctx));
                let via = via.filter(|_| !self.fetch.origins.is_empty());
                let waiting = waiting(WaitFor::Session, view, until);
                self.clients.wait_for(id, waiting, via, &mut self.ctx);
                self.fetch
                    .want(&session, from.map(network_of), &mut self.ctx);
            }
        }
        self.tend_pull(&session);
    }

    /// Lets the clients that waited for a session watch it, if the tokens still admit them. Those that
    /// need its first byte join at once, the others in their turns.
    pub(super) fn admit_waiting(&mut self, session: &SessionId) {
        if !self.clients.waiting.is_awaited(session) {
            return;
        }
        let (gate, session_state) = (self.grants.gate(&self.ctx), self.session_state(session));
        let may_watch =
            |credential: &SessionId, from: Option<IpAddr>, session_state: &SessionState| {
                let how = (EntryPoint::Viewer, from);
                let verdict = gate.go_on_late((credential, session), how, session_state, || {
                    OriginError::NotFound
                });
                verdict.is_ok()
            };
        self.clients.call_others(session, &session_state, may_watch);
        for (id, reply) in self.clients.end_waiting(session) {
            self.watch(id, session.clone(), View::Whole, None, reply, true);
        }
        self.tend_pull(session);
    }
}

/// Returns the relays that a pull's request came through, besides this server: those common to the
/// requests of all waiting clients. `None` where no client waits, and where viewers of a held
/// stream wait, whose relays are not recorded.
///
/// So no single client decides alone what an origin sees, nor does one that has left. Two servers
/// that ask each other find that out when one asks while the other waits.
fn came_through<'a>(
    streams: &Streams,
    clients: &'a Clients,
    session: &SessionId,
) -> Option<&'a str> {
    match streams.held(session) {
        Some(_) => None,
        None => clients.waiting.came_through(session),
    }
}
