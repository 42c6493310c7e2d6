//! What a client's request comes to: whom it concerns, and what that says to it. Here it goes from
//! part to part; what each of them does stands there.

use std::net::SocketAddr;

use super::admission::Caller;
use super::api::{Answer, Call, Rows};
use super::clients::{Due, Event, Fate, Received, Room, SILENT};
use super::hls::{Played, Wanted};
use super::live::{Cut, Origin};
use super::pull::Stage;
use super::route::Wish;
use super::viewer::{Place, Watched};
use super::{ConnectionId, LiveId, Relay, icecast, streams};
use crate::gate::SessionId;
use crate::http::{self, Framing, Head, Refusal, Reply, Status};
use crate::stream::End;

impl Relay {
    /// Acts on what has come of a client.
    pub(super) fn act(&mut self, id: ConnectionId, event: Event) {
        match event {
            Event::Asked {
                head,
                caller,
                reply,
            } => self.request(id, &head, caller, reply),
            Event::Called { call, reply } => self.answer(id, call, reply),
            Event::Complete(received) => self.complete(id, received),
            // Such an end is what a break looks like, too: with `--hold` it is taken for one.
            Event::Ended(received) => {
                let reason = "its connection ended";
                match self.streams.hold(received.live, reason, &mut self.desk) {
                    true => self.clients.close(id, &mut self.desk),
                    false => self.complete(id, received),
                }
            }
            Event::SourceLost { live, reason } => self.source_lost(live, Origin::Http(id), reason),
            Event::Found { pull, answer } => self.receive_stream(id, pull, answer),
            Event::Told {
                gathering,
                peer,
                rows,
            } => self.lists.told(gathering, peer, rows),
            Event::Stalled => self.cut_viewer(id, Cut::Stalled),
            Event::Waited {
                session,
                wanted,
                reply,
                is_late,
                fault,
            } => {
                let verdict = match fault {
                    None => self.late_verdict(&session, wanted.as_ref()),
                    Some(fault) => Err(fault.refusal(self.grants.has_own_gate(&self.desk))),
                };
                match verdict {
                    Ok(()) => {
                        let session = session.clone();
                        self.watch(id, (session, wanted), None, (reply, !is_late));
                    }
                    Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.desk),
                }
                self.tend_pull(&session);
            }
            Event::TimedOut(ticket) => self.errand_timed_out(ticket),
        }
    }

    fn request(&mut self, id: ConnectionId, head: &Head, caller: Caller, reply: Reply) {
        let framing = icecast::framing(head);
        let has_payload = !matches!(framing, Framing::None | Framing::Length(0));
        match self.route(caller, head, framing) {
            Err(refusal) => {
                self.clients
                    .refuse_request(id, head, &refusal, reply, &mut self.desk);
            }
            Ok(Wish::Publish {
                session,
                content_type,
                framing,
            }) => self.publish(id, session, content_type, (head, framing), reply),
            Ok(Wish::Watch { session, wanted }) if !has_payload => {
                let via = head.via.as_deref();
                self.watch(id, (session, wanted), via, (reply, true))
            }
            Ok(Wish::Watch { .. }) => {
                let refusal = Refusal::framing(
                    Status::BadRequest,
                    "a GET with a body; the body has no meaning here and must go",
                );
                self.clients
                    .refuse(id, &refusal, reply.closing(), &mut self.desk);
            }
            Ok(Wish::Call(call)) if has_payload => {
                self.clients
                    .await_payload(id, call, head, reply, &mut self.desk)
            }
            Ok(Wish::Call(call)) => self.answer(id, call, reply),
        }
    }

    fn answer(&mut self, id: ConnectionId, call: Call, reply: Reply) {
        let result = self.call(call);
        self.give(id, result, reply);
    }

    /// What came of a call reaches its client.
    pub(super) fn give(&mut self, id: ConnectionId, result: Result<Answer, Refusal>, reply: Reply) {
        const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
        let (status, bytes) = match result {
            Err(refusal) => return self.clients.refuse(id, &refusal, reply, &mut self.desk),
            Ok(Answer::List(rows)) => {
                let desk = &mut self.desk;
                return self.clients.list(id, rows, (None, ""), reply, desk);
            }
            Ok(Answer::Gather(rows)) => return self.gather(id, rows, reply),
            Ok(Answer::Resolve(add)) => return self.resolve(id, add, reply),
            Ok(Answer::Record(change)) => return self.record(id, change, reply),
            Ok(Answer::Json(status, body)) => {
                let json = "application/json";
                (
                    status,
                    http::whole(status, &reply, json, &[NO_STORE], &[&body]),
                )
            }
            Ok(Answer::Page(page)) => {
                let fields = [
                    NO_STORE,
                    ("Content-Security-Policy", &page.policy),
                    ("Referrer-Policy", "no-referrer"),
                ];
                let html = "text/html; charset=utf-8";
                let bytes = http::whole(Status::Ok, &reply, html, &fields, &page.body());
                (Status::Ok, bytes)
            }
            Ok(Answer::Text(content_type, text)) => {
                let text = [text.as_bytes()];
                let bytes = http::whole(Status::Ok, &reply, content_type, &[NO_STORE], &text);
                (Status::Ok, bytes)
            }
            Ok(Answer::Options(allow)) => {
                let fields = [("Allow", allow)];
                let bytes = http::whole(Status::NoContent, &reply, "", &fields, &[]);
                (Status::NoContent, bytes)
            }
        };
        let keep_alive = reply.keep_alive;
        self.clients
            .respond(id, Some(status), bytes, keep_alive, &mut self.desk);
    }

    // ---- Sources

    /// The request is admitted: its stream runs from now on.
    fn publish(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        content_type: Option<String>,
        body: (&Head, Framing),
        reply: Reply,
    ) {
        if self.streams.has_source(&session) {
            self.end_for_takeover(&session);
        }
        self.take_from_origins(&session);
        let Some(peer) = self.clients.peer(id) else {
            return;
        };
        let live = self.begin(session.clone(), content_type, Origin::Http(id), peer);
        self.clients.publish(id, live, body, reply, &self.desk);
        self.admit_waiting(&session);
    }

    /// A session has a source, and its UDP clients.
    pub(super) fn begin(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: Origin,
        address: SocketAddr,
    ) -> LiveId {
        let id = self
            .streams
            .begin_live(session, content_type, source, address, &mut self.desk);
        self.refresh_clients(id);
        id
    }

    /// Media has arrived from a stream's source.
    pub(super) fn append(&mut self, id: LiveId, bytes: &[u8]) {
        if let Some((anew, bytes)) = self.streams.append(id, bytes, &mut self.desk) {
            self.follow(anew, &bytes);
        }
    }

    /// A source's stream has begun anew, with these bytes: whoever knows it by its stream learns of
    /// the other.
    pub(super) fn follow(&mut self, id: LiveId, bytes: &[u8]) {
        let Some((source, pull)) = self.streams.source_of(id) else {
            return;
        };
        match source {
            Origin::Http(connection) => self.clients.turn_source(connection, id),
            Origin::Rtp(address) => {
                self.rtp_in.sources.insert(address, id);
            }
            Origin::Awaited { .. } | Origin::Gone => {}
        }
        if let Some(pull) = pull {
            let since = self.desk.now;
            let stage = Stage::Running { live: id, since };
            self.fetch.pulls.enter(pull, stage);
        }
        self.refresh_clients(id);
        self.streams.rearm_live(id, &mut self.desk);
        self.append(id, bytes);
    }

    /// A stream's source is gone before its time, unless it is not its source any more: the stream
    /// waits for another, or ends.
    pub(super) fn source_lost(&mut self, id: LiveId, source: Origin, reason: &'static str) {
        if !self.streams.has_as_source(id, source) {
            return;
        }
        self.finish_reorder(id);
        if self.streams.has_as_source(id, source) {
            self.streams.lose_source(id, reason, &mut self.desk);
        }
    }

    /// A stream's source is gone for good.
    pub(super) fn end_live(&mut self, id: LiveId, end: End, reason: &'static str) {
        self.finish_reorder(id);
        self.streams.end_stream(id, end, reason, &mut self.desk);
    }

    /// Another source takes a running one's place.
    fn end_for_takeover(&mut self, session: &SessionId) {
        if let Some((id, source)) = self.streams.running_source(session) {
            self.source_lost(id, source, "another source took over");
            if let Origin::Http(connection) = source {
                self.clients.close(connection, &mut self.desk);
            }
        }
    }

    /// All of a source's media has come: its stream ends, and it is told so.
    fn complete(&mut self, id: ConnectionId, received: Received) {
        if let Some(session) = self.streams.session(received.live) {
            self.end_live(received.live, End::Complete, "its source is complete");
            self.clients.thank(id, &session, received, &mut self.desk);
        }
    }

    // ---- Viewers

    /// The request is admitted: the stream, or what of it is wanted, goes out to its client, at
    /// once if it runs. `may_wait`: it has not waited in vain.
    fn watch(
        &mut self,
        id: ConnectionId,
        (session, wanted): (SessionId, Option<Wanted>),
        via: Option<&str>,
        (reply, may_wait): (Reply, bool),
    ) {
        if let Some(wanted) = wanted {
            return self.play(id, (session, wanted), via, (reply, may_wait));
        }
        match self.streams.watch(id, &session, reply, &self.desk) {
            Some(Watched::Viewing(viewing)) => {
                self.clients.watch(id, viewing);
                self.tend_pull(&session);
            }
            Some(Watched::Head(head, reply)) => {
                let keep_alive = reply.keep_alive;
                self.clients
                    .respond(id, Some(Status::Ok), head, keep_alive, &mut self.desk);
            }
            None => self.await_session(id, (session, None), via, reply),
        }
    }

    /// The same where a part of the stream is wanted.
    fn play(
        &mut self,
        id: ConnectionId,
        (session, wanted): (SessionId, Wanted),
        via: Option<&str>,
        (reply, may_wait): (Reply, bool),
    ) {
        let desk = &mut self.desk;
        let played = self
            .streams
            .play(id, (&session, &wanted), (reply, may_wait), desk);
        match played {
            Played::Whole(bytes) => {
                let status = Some(Status::Ok);
                self.clients
                    .respond(id, status, bytes, reply.keep_alive, &mut self.desk);
            }
            Played::Segment(head, viewing) => {
                self.clients.push_head(id, &head);
                self.clients.watch(id, viewing);
            }
            Played::Refused(refusal) => {
                self.clients.refuse(id, &refusal, reply, &mut self.desk);
            }
            Played::NotYet(until) => {
                let place = (Room::List, session.clone());
                let what = (Some(wanted), None);
                self.clients.wait_for(id, place, what, (reply, until));
                self.clients.rearm(id, &mut self.desk);
            }
            Played::Absent if may_wait && self.may_be_awaited(&wanted, &reply) => {
                return self.await_session(id, (session, Some(wanted)), via, reply);
            }
            Played::Absent => {
                let refusal = self.absence(&session);
                self.clients.refuse(id, &refusal, reply, &mut self.desk);
            }
        }
        self.tend_pull(&session);
    }

    fn may_be_awaited(&self, wanted: &Wanted, reply: &Reply) -> bool {
        let is_waited =
            !self.fetch.origins.is_empty() || !self.desk.settings.limits.wait_time.is_zero();
        wanted.can_wait() && !reply.head_only && is_waited
    }

    /// The session does not run: it may begin soon, or be fetched.
    fn await_session(
        &mut self,
        id: ConnectionId,
        (session, wanted): (SessionId, Option<Wanted>),
        via: Option<&str>,
        reply: Reply,
    ) {
        let wait_time = self.desk.settings.limits.wait_time;
        let wait_time = wait_time.max(self.fetch.pull_time(&self.desk));
        let until = self.desk.now + wait_time;
        let via = via.filter(|_| !self.fetch.origins.is_empty());
        let place = (Room::Session, session.clone());
        self.clients
            .wait_for(id, place, (wanted, via), (reply, until));
        self.pull(&session);
    }

    /// The session runs, or may not: those who waited for it watch, if they still may. It is asked
    /// once for all of them.
    pub(super) fn admit_waiting(&mut self, session: &SessionId) {
        if !self.clients.waiting().is_awaited(session) {
            return;
        }
        if self.late_verdict(session, None).is_err() {
            self.clients
                .call_waiting(Room::Session, session, Fate::Called);
        }
        for (id, wanted, reply) in self.clients.end_waiting(session) {
            self.watch(id, (session.clone(), wanted), None, (reply, true));
        }
        self.tend_pull(session);
    }

    /// What a viewer is told who has waited.
    fn late_verdict(&self, session: &SessionId, wanted: Option<&Wanted>) -> Result<(), Refusal> {
        let gate = self.grants.gate(&self.desk);
        let standing = self.standing(session);
        gate.watch(session, &standing)?;
        match standing.runs || wanted.is_some() {
            true => Ok(()),
            false => Err(self.absence(session)),
        }
    }

    /// A viewer's connection is closed for a reason that lies with it.
    pub(super) fn cut_viewer(&mut self, id: ConnectionId, cut: Cut) {
        if let Some((place, peer)) = self.clients.viewer(id) {
            self.streams.cut(place, peer, cut, &mut self.desk);
            self.clients.close(id, &mut self.desk);
        }
    }

    /// A viewer is gone.
    pub(super) fn viewer_left(&mut self, place: Place) {
        let session = self.streams.leave(place);
        if let Some(session) = session.filter(|_| self.fetch.pulls.len() > 0).cloned() {
            self.tend_pull(&session);
        }
        self.streams.tend(place.0, &mut self.desk);
    }

    /// What goes out next to a client is made ready.
    pub(super) fn prepare(&mut self, id: ConnectionId) {
        match self.clients.due_output(id) {
            Some(Due::Viewing(viewing)) => {
                let (head, end) = self.streams.prepare(viewing);
                if let Some(head) = head {
                    self.clients.push_head(id, &head);
                }
                if let Some(end) = end
                    && let Some(place) = self.clients.end_viewer(id, end, &mut self.desk)
                {
                    self.viewer_left(place);
                }
            }
            Some(Due::Listing(listing)) => {
                let (after, gathering) = (listing.after(), listing.gathering());
                let block = || self.lists.next_block(gathering?);
                let piece = match listing.rows() {
                    Rows::Tokens => listing.piece(self.grants.rows(after), block),
                    Rows::Streams => listing.piece(self.streams.rows(after, self.desk.now), block),
                };
                self.clients.push_piece(id, piece, &mut self.desk);
            }
            None => {}
        }
    }

    /// A stream's deadline has come.
    pub(super) fn live_due(&mut self, id: LiveId) {
        match self.streams.due(id, &mut self.desk) {
            Some(streams::Due::SourceSilent(source)) => self.source_lost(id, source, SILENT),
            Some(streams::Due::SourceMissing) => {
                self.end_live(id, End::Lost, "its source did not come back");
            }
            Some(streams::Due::Reordered) => {
                self.drain_reorder(id);
                self.streams.rearm_live(id, &mut self.desk);
            }
            Some(streams::Due::Unattended) => {
                if let Some(session) = self.streams.session(id) {
                    self.tend_pull(&session);
                }
                self.streams.tend(id, &mut self.desk);
            }
            None => {}
        }
    }
}
