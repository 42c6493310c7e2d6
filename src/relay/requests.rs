//! Carries out requests, calls and datagrams, with one part of the core after the other.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::admission::{
    AccessRequest, Admission, Caller, EntryPoint, SessionState, kicked, no_stream, not_found,
};
use super::api::{Aborted, Call, DESCRIPTION, Kicked, Outcome};
use super::clients::{ClientEvent, HEAD_COST, READ_COST_MAX, WaitOutcome, Waiting};
use super::cut_reason::CutReason;
use super::grants::Change;
use super::lists::{LookUp, without_names};
use super::origin_error::OriginError;
use super::page::{Document, Page};
use super::route::{self, RequestContext, Route};
use super::rtp_in::{Datagram, Newcomer, UdpPort};
use super::streams::{SourceInfo, StreamSource};
use super::view::View;
use super::viewer_id::ListedId;
use super::viewers::ListParts;
use super::{
    ConnectionId, JobId, PullId, Relay, StreamId, metric_values, metrics, pieces, snapshot,
};
use crate::clean_text::Agent;
use crate::format::Format;
use crate::gate::{SessionId, network_of};
use crate::http::{self, Framing, Head, Refusal, Reply, Status};
use crate::rtp::{PAYLOAD_TYPE_MPEG_TS, Packet, Sender};
use crate::stream::End;

/// The cost after which packets in order wait for the next turn.
const IN_ORDER_COST_MAX: usize = READ_COST_MAX / 8;

impl Relay {
    /// Handles the event of a client.
    pub(super) fn act(&mut self, id: ConnectionId, event: ClientEvent) {
        match event {
            ClientEvent::Request {
                head,
                caller,
                reply,
            } => self.request(id, &head, caller, reply),
            ClientEvent::Rtmp { name, caller } => self.publish_rtmp(id, name, caller),
            ClientEvent::Call { call, reply } => self.call(id, call, reply),
            // A connection that ends may also be a broken one. With `--hold` the server treats it
            // as broken, and so it treats a source that has sent nothing to continue a held stream.
            ClientEvent::Complete { stream, is_sure } => {
                let ctx = &mut self.ctx;
                let Some(session) = self.streams.session(stream) else {
                    return;
                };
                let is_break = !is_sure || self.streams.is_between_sources(stream);
                let is_held = is_break && self.streams.hold(stream, "the connection ended", ctx);
                if !is_held {
                    let reason = "the source is complete";
                    self.streams.end(stream, End::Complete, reason, ctx);
                }
                if is_held && !is_sure {
                    self.clients.close(id, ctx);
                } else {
                    self.clients.complete_source(id, &session, ctx);
                }
            }
            ClientEvent::OriginAnswered { pull, peer, answer } => {
                self.take_from_origin((id, peer), pull, answer)
            }
        }
    }

    /// Decides about a viewer that has waited, by the same rules as when it came.
    pub(super) fn decide_waited(&mut self, id: ConnectionId, waiting: Waiting) {
        let Waiting {
            session,
            view,
            reply,
            outcome,
            is_fetched,
            ..
        } = waiting;
        self.clients.remove_expired_hls(&self.ctx);
        let credential = self.clients.admitted_by(id).unwrap_or(&session).clone();
        let from = self.clients.peer(id).map(|peer| peer.ip());
        let session_state = self.session_state_for(&session, &credential, from);
        let gate = self.grants.gate(&self.ctx);
        let verdict = match outcome {
            WaitOutcome::TurnedAway(fault) => Err(gate.turned_away(fault)),
            WaitOutcome::Open | WaitOutcome::Called => gate.go_on_late(
                (&credential, &session),
                (view.entry_point(), from),
                &session_state,
                || self.fetch.absence(&session),
            ),
        };
        match verdict {
            Ok(()) => {
                if matches!(view, View::Part(_)) {
                    let admission = gate.admission(credential, &session, view.entry_point());
                    self.clients.admit(id, admission, &mut self.ctx);
                }
                let is_over = is_fetched && !session_state.runs && !session_state.is_fetched;
                let may_wait = outcome != WaitOutcome::Open && !is_over;
                // An origin is not asked at once for each stream that begins and ends meanwhile.
                if may_wait && session_state.has_room && session_state.has_room_for_pull {
                    self.fetch.want_later(&session, &mut self.ctx);
                }
                self.watch(id, session.clone(), view, None, reply, may_wait);
            }
            Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.ctx),
        }
        self.tend_pull(&session);
    }

    fn request(&mut self, id: ConnectionId, head: &Head, caller: Caller, reply: Reply) {
        self.clients.remove_expired_hls(&self.ctx);
        let context = RequestContext {
            caller,
            head,
            gate: self.grants.gate(&self.ctx),
            session_state: &|session, credential| {
                self.session_state_for(session, credential, Some(caller.peer.ip()))
            },
            may_pass: &|| self.fetch.origins.check_via(head.fields.via.as_deref()),
        };
        let route = context.route();
        let access_request = route
            .as_ref()
            .ok()
            .and_then(|route| context.kept_request(route));
        self.clients.keep_access_request(id, access_request);
        match route {
            Err(refusal) => {
                if let Some(about) = route::published(head, self.ctx.settings()) {
                    let of = self.grants.gate(&self.ctx).opened_by(&about).clone();
                    self.ctx.emit_refusal((&about, &of), caller.peer, &refusal);
                }
                self.clients
                    .refuse_request(id, head, &refusal, reply, &mut self.ctx);
            }
            Ok(Route::Publish {
                admission,
                session,
                content_type,
                framing,
            }) => {
                let whose = (admission, &session);
                let stream = self.begin_source((id, caller.peer), whose, content_type);
                let is_named = self.ctx.settings().admits_icecast;
                let station = is_named.then(|| head.fields.icy.station.clone());
                let agent = head.fields.user_agent.as_deref();
                let info = SourceInfo {
                    station: station.unwrap_or_default(),
                    agent: Agent::new(agent.unwrap_or_default()),
                    is_by_rtmp: false,
                };
                self.streams.set_source_info(stream, info);
                self.clients
                    .publish(id, stream, head, framing, reply, &self.ctx);
                self.admit_waiting(&session);
            }
            Ok(Route::Watch {
                admission,
                session,
                view,
            }) => {
                self.clients.admit(id, admission, &mut self.ctx);
                let reply = reply.no_store_unless(view.is_addressed_by(&head.target));
                let via = head.fields.via.as_deref();
                self.watch(id, session, view, via, reply, true);
            }
            Ok(Route::Call(call)) if head.has_payload() => {
                self.clients
                    .await_payload(id, call, head, reply, &mut self.ctx)
            }
            Ok(Route::Call(call)) => {
                self.call(id, call, reply.no_store_unless(head.target.is_plain));
            }
        }
    }

    // ---- Sources

    /// Begins the stream of an admitted client.
    pub(super) fn begin_source(
        &mut self,
        (id, peer): (ConnectionId, SocketAddr),
        (admission, session): (Option<Admission>, &SessionId),
        content_type: Option<String>,
    ) -> StreamId {
        self.clients.admit(id, admission, &mut self.ctx);
        self.streams.end_for_takeover(session, &mut self.ctx);
        self.take_from_origins(session);
        self.begin(session.clone(), content_type, StreamSource::Http(id), peer)
    }

    /// Begins a stream for a session, with its UDP clients.
    pub(super) fn begin(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: StreamSource,
        address: SocketAddr,
    ) -> StreamId {
        let id = self
            .streams
            .begin_stream(session, content_type, source, address, &mut self.ctx);
        self.refresh_clients(id);
        self.limit_source(id);
        id
    }

    /// Sets the bit rate that the tokens allow a stream's source.
    pub(super) fn limit_source(&mut self, id: StreamId) {
        let Some(session) = self.streams.session(id) else {
            return;
        };
        let Some(credential) = self.source_credential(id, &session) else {
            return;
        };
        let gate = self.grants.gate(&self.ctx);
        let limits = gate.source_limits(credential, &session, self.streams.source_limits(id));
        self.streams.limit_source(id, limits, &mut self.ctx);
    }

    /// Returns the session id that admitted a stream's source. `None`: it has none.
    pub(super) fn source_credential<'a>(
        &'a self,
        id: StreamId,
        session: &'a SessionId,
    ) -> Option<&'a SessionId> {
        match self.streams.source_of(id)?.0 {
            StreamSource::Http(source) => Some(self.clients.admitted_by(source).unwrap_or(session)),
            StreamSource::Rtp(_) => Some(session),
            StreamSource::Held { .. } | StreamSource::Remuxed | StreamSource::Gone => None,
        }
    }

    /// Handles that a source's stream has begun anew, with these bytes. The parts that know the
    /// source by its stream learn the new one.
    pub(super) fn follow(&mut self, mut anew: Option<(StreamId, Vec<u8>)>) {
        while let Some((id, bytes)) = anew {
            let (source, pull) = self.streams.source_of(id).unzip();
            match source {
                Some(StreamSource::Http(connection)) => {
                    self.clients.set_source_stream(connection, id)
                }
                Some(StreamSource::Rtp(address)) => self.rtp_in.set_source(address, id),
                _ => {}
            }
            if let Some(pull) = pull.flatten() {
                self.fetch.runs(pull, id, self.ctx.now());
            }
            self.refresh_clients(id);
            self.streams.rearm(id, &mut self.ctx);
            anew = self.streams.append(id, &bytes, &mut self.ctx);
        }
    }

    // ---- Viewers

    /// Disconnects a viewer for this reason.
    pub(super) fn cut_viewer(&mut self, id: ConnectionId, cut: CutReason) {
        if let Some((viewer_key, peer)) = self.clients.viewer(id) {
            self.streams.cut(viewer_key, (id, peer), cut, &mut self.ctx);
            self.clients.close(id, &mut self.ctx);
        }
    }

    /// Makes the output of a viewer, a list or an event reader just before it is written. All other
    /// clients have their output already.
    pub(super) fn prepare(&mut self, id: ConnectionId) {
        let (streams, clients) = (&mut self.streams, &mut self.clients);
        let (grants, lists, ctx) = (&self.grants, &mut self.lists, &mut self.ctx);
        if let Some(response) = clients.viewer_response(id) {
            let (head, end) = streams.prepare(response);
            if let Some(head) = head {
                clients.push_head(id, &head);
            }
            if let Some(end) = end {
                clients.end_viewer(id, end, ctx);
            }
        } else if let Some(list) = clients.take_due_list(id) {
            pieces::write_piece(id, list, (streams, clients, grants, lists), ctx);
        } else if let Some(due) = clients.due_snapshot(id, ctx) {
            snapshot::write_piece(id, due, (streams, clients, grants), ctx);
        }
    }

    /// Appends the media of packets that are in order now. When that has cost much, the rest waits for
    /// the next turn.
    pub(super) fn go_on_in_order(&mut self, id: StreamId) {
        let (before, mut bytes) = (self.streams.work(), 0);
        while bytes + self.streams.work().saturating_sub(before) < IN_ORDER_COST_MAX {
            let Some(media) = self.streams.next_in_order(id, &mut self.ctx) else {
                return;
            };
            bytes += media.len();
            let anew = self.streams.append(id, &media, &mut self.ctx);
            self.follow(anew);
        }
        self.streams.rearm(id, &mut self.ctx);
    }

    // ---- Calls

    /// Returns a page as the outcome of a call; 404 without the feature `page`. `refusal`: its
    /// status and text go into the page.
    fn page(
        &mut self,
        document: Document<'_>,
        refusal: Option<Box<Refusal>>,
    ) -> Result<Outcome, Refusal> {
        let ctx = &mut self.ctx;
        let page = Page::draw(document, &ctx.settings.public_url, &mut ctx.random);
        let page = page.ok_or_else(not_found)?;
        Ok(Outcome::Page(page, refusal))
    }

    /// Carries out a call, and answers it unless it has to wait.
    pub(super) fn call(&mut self, id: ConnectionId, call: Call, reply: Reply) {
        let json = "application/json";
        let answer = match call {
            Call::AddToken(add) => match without_names(&add) {
                Some(clients) => {
                    return self.change(id, Change::addition(add, clients), reply);
                }
                None => {
                    let job_id = self.lists.resolve(id, reply, add, &mut self.ctx);
                    return self.clients.await_job(id, job_id, &mut self.ctx);
                }
            },
            Call::RevokeToken { session, aborts } => {
                let is_inside = !self.clients.all_by(&session).is_empty();
                let change = Change::Revocation {
                    session,
                    aborts,
                    is_inside,
                };
                return self.change(id, change, reply);
            }
            Call::Collect(rows) => match self.lists.collect(id, rows, reply, &mut self.ctx) {
                Ok(job_id) => return self.clients.await_job(id, job_id, &mut self.ctx),
                Err(refusal) => Err(refusal),
            },
            Call::List(rows) => {
                return self.clients.list(id, rows, None, "", reply, &mut self.ctx);
            }
            Call::AbortStream { session, block } => self.abort_stream(&session, block),
            Call::KickViewer { id, block } => self.kick_viewer(id, block),
            Call::Follow { of, last } => {
                return self.clients.follow(id, (of, last), reply, &mut self.ctx);
            }
            Call::Page => self.page(Document::Operator, None),
            Call::WatchPage(refusal) => {
                let shut = refusal.as_deref();
                let shut = shut.filter(|refusal| refusal.retry_after_seconds.is_none());
                // Otherwise the page waits until the viewer is admitted.
                let document = shut.map_or(Document::Watch, Document::Refused);
                self.page(document, refusal.clone())
            }
            Call::SetTitle {
                session,
                title,
                is_icecast,
            } => self.set_title(&session, title, is_icecast),
            Call::About(about) => self.about(&about),
            Call::Panel(about) => {
                self.charge_scan();
                let parts = ListParts::new(&self.streams, &self.clients, &self.ctx);
                super::icecast::list(&about, &parts)
            }
            Call::Metrics => {
                self.charge_scan();
                let parts = (&self.streams, &self.clients, &self.fetch, &self.grants);
                let values = metric_values::collect(parts, self.memory_bytes(), &self.ctx);
                Ok(Outcome::text(metrics::MEDIA_TYPE, values.text()))
            }
            Call::Description => Ok(Outcome::text(json, DESCRIPTION)),
            Call::Health => Ok(Outcome::text(json, "{\"status\":\"ok\"}\n")),
            Call::Moved(address) => Ok(Outcome::Moved(address)),
            Call::Options { allow } => Ok(Outcome::Options(allow)),
        };
        self.clients.answer_call(id, answer, reply, &mut self.ctx);
    }

    /// Changes the token table, now or when the change is on disk. The other parts handle the
    /// consequences before the next input.
    fn change(&mut self, id: ConnectionId, change: Change, reply: Reply) {
        let changed = self.grants.change((id, reply), change, &mut self.ctx);
        match changed {
            Ok(None) => self.clients.await_disk(id),
            Ok(Some((status, body))) => {
                let answer = Ok(Outcome::Json(status, body));
                self.clients.answer_call(id, answer, reply, &mut self.ctx);
            }
            Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.ctx),
        }
        self.dispatch_events();
    }

    fn abort_stream(
        &mut self,
        session: &SessionId,
        block: Option<Duration>,
    ) -> Result<Outcome, Refusal> {
        let has_stream = self.streams.with_clients(session).next().is_some();
        let whose = (session, has_stream);
        self.grants.begin_abort(whose, block, &self.ctx)?;
        let ended = self.end_session(session);
        if block.is_some() {
            // The block holds for new clients and for waiting ones.
            self.fetch.drop(session, &mut self.ctx);
            self.admit_waiting(session);
        }
        // A block counts as done where no stream runs, too.
        let viewers = ended.or(block.map(|_| 0)).ok_or_else(no_stream)?;
        let body = Aborted {
            sessionid: session,
            viewers,
        };
        Ok(Outcome::json(Status::Ok, &body))
    }

    /// Disconnects a viewer or a waiting client, and keeps it out for a while.
    fn kick_viewer(
        &mut self,
        listed: ListedId,
        block: Option<Duration>,
    ) -> Result<Outcome, Refusal> {
        let (id, session, whom) =
            ListParts::new(&self.streams, &self.clients, &self.ctx).find(listed)?;
        if let Some(block) = block {
            self.grants.block_viewer(&whom, block, &self.ctx)?;
        }
        if let Some(waiting) = self.clients.end_wait(id) {
            let refusal = kicked();
            self.clients
                .refuse(id, &refusal, waiting.reply, &mut self.ctx);
            self.tend_pull(&session);
        }
        self.cut_viewer(id, CutReason::Kicked);
        let body = Kicked {
            id: listed,
            sessionid: session,
        };
        Ok(Outcome::json(Status::Ok, &body))
    }

    /// Handles the addresses for the names of a call, or their absence.
    pub(super) fn looked_up(&mut self, job_id: JobId, look_up: LookUp) {
        if let Some((id, reply, result)) = self.lists.resolved(job_id, look_up)
            && self.clients.has(id)
        {
            match result {
                Ok((add, clients)) => self.change(id, Change::addition(add, clients), reply),
                Err(refusal) => self.clients.refuse(id, &refusal, reply, &mut self.ctx),
            }
        }
    }

    /// Begins the stream of a pull, which an origin sends.
    pub(super) fn take_from_origin(
        &mut self,
        (id, peer): (ConnectionId, SocketAddr),
        pull: PullId,
        answer: http::Answer,
    ) {
        let via = answer.via.as_deref();
        let session = match self.fetch.offered(pull, via) {
            Ok(session) => session,
            Err(fault) => return self.clients.give_up_origin(id, fault, &mut self.ctx),
        };
        let access_request = AccessRequest::without_request(EntryPoint::Pull, peer);
        let session_state = self.session_state(&session);
        let gate = self.grants.gate(&self.ctx);
        let framing = Framing::UntilClose;
        let verdict = gate.publish(&access_request, &session, framing, &session_state);
        if verdict.is_err() {
            return self
                .clients
                .give_up_origin(id, OriginError::Busy, &mut self.ctx);
        }
        let stream = self.begin(
            session.clone(),
            answer.content_type,
            StreamSource::Http(id),
            peer,
        );
        let now = self.ctx.now();
        let via = self.fetch.brought(pull, stream, via, now);
        self.streams.set_pull(stream, pull, via);
        self.clients.receive(id, stream, answer.framing, &self.ctx);
        self.admit_waiting(&session);
        self.tend_pull(&session);
    }

    /// Stops fetching a session, because it has a source on this server now. Waiting clients stay.
    /// Held viewers that only an origin admitted are disconnected: they may not watch this source.
    pub(super) fn take_from_origins(&mut self, session: &SessionId) {
        self.fetch.drop(session, &mut self.ctx);
        let Some(held) = self.streams.held_of_origin(session) else {
            return;
        };
        let asks_origin = self.ctx.settings().asks_origin;
        if !asks_origin || self.grants.gate(&self.ctx).has_watch_token(session) {
            return;
        }
        // Viewers by a key have been admitted here.
        for id in self.clients.all_by(session) {
            let watched = self.clients.viewer(id).map(|((stream, _), _)| stream);
            if watched.is_some_and(|stream| self.streams.original_of(stream) == held) {
                self.cut_viewer(id, CutReason::Token);
            }
        }
    }

    /// Returns the state of a session.
    pub(super) fn session_state(&self, session: &SessionId) -> SessionState {
        // A pull counts as a stream, this one among them.
        let streams = self.streams.running() + self.fetch.pulls.without_stream();
        let (runs, is_fetched) = (self.streams.runs(session), self.fetch.has(session));
        SessionState {
            runs,
            has_source: self.streams.has_source(session),
            is_fetched,
            is_forbidden: self.fetch.is_forbidden(session),
            has_room: is_fetched || runs || streams < self.ctx.settings().limits.streams_max,
            http_fault: self.streams.http_fault(session),
            ..SessionState::default()
        }
    }

    /// Returns the state of a session for a client with this session id and address, which may want
    /// it fetched.
    pub(super) fn session_state_for(
        &self,
        session: &SessionId,
        credential: &SessionId,
        from: Option<IpAddr>,
    ) -> SessionState {
        let mut session_state = self.session_state(session);
        session_state.has_room_for_pull = !session_state.runs
            && !session_state.is_fetched
            && self.fetch.has_room(from.map(network_of))
            && self.clients.has_room(&self.ctx);
        self.clients
            .complete_session_state(session, credential, from, session_state)
    }

    /// Ends a session's stream at once, and its older streams that still have viewers. Returns how
    /// many viewers they had. `None`: there was no stream.
    pub(super) fn end_session(&mut self, session: &SessionId) -> Option<usize> {
        if self.streams.runs(session) {
            self.fetch.drop(session, &mut self.ctx);
        }
        self.streams.abort(session, &mut self.ctx)
    }

    /// Sets a stream's UDP clients by the tokens, but never its own source.
    pub(super) fn refresh_clients(&mut self, id: StreamId) {
        let (settings, socket) = (self.ctx.settings(), &self.ctx.rtp_socket);
        let reaches = |address: SocketAddr, transport| {
            let may_receive = settings.may_receive(address.ip().to_canonical());
            may_receive && socket.destination_fault(address, transport).is_none()
        };
        if socket.bound.is_some()
            && let Some(session) = self.streams.session(id)
            && let Some(clients) = self.grants.destinations(&session, reaches)
        {
            self.streams.set_clients(id, clients, &mut self.ctx);
        }
    }

    // ---- Datagrams

    /// Handles a datagram of any sender.
    pub(super) fn take_datagram(&mut self, from: SocketAddr, port: UdpPort, bytes: &[u8]) {
        let known = |id| self.streams.known(id);
        let tokens = self.grants.tokens();
        let ctx = &mut self.ctx;
        match self.rtp_in.sort((from, port), bytes, tokens, known, ctx) {
            Datagram::Media(id, packet) => {
                if let Some(media) = self.streams.take_packet(id, &packet, bytes, ctx) {
                    let anew = self.streams.append(id, media, ctx);
                    self.follow(anew);
                }
                self.go_on_in_order(id);
            }
            Datagram::Bare(id) => {
                if let Some(media) = self.streams.take_bare(id, bytes, ctx) {
                    let anew = self.streams.append(id, &media, ctx);
                    self.follow(anew);
                }
            }
            Datagram::Control(id, control) => {
                let said = (from.ip(), bytes);
                if self.streams.take_control(id, &control, said, ctx) && control.says_bye {
                    self.clients.reading.count(HEAD_COST);
                    self.go_on_in_order(id);
                }
            }
            Datagram::Newcomer(newcomer) => {
                let is_bare = newcomer.packet.is_none();
                let access_request = newcomer.sender.access_request(is_bare);
                let its = newcomer
                    .silent
                    .and_then(|stream| self.streams.session(stream));
                let has_source = |session: &SessionId| self.streams.has_source(session);
                let session_state = |session: &SessionId| self.session_state(session);
                let grants = &self.grants;
                match grants.session_for(
                    (&access_request, is_bare),
                    its,
                    has_source,
                    session_state,
                    &self.ctx,
                ) {
                    Ok(session) => self.take_newcomer(&newcomer, session, (from, port), bytes),
                    Err(dropped) => self.ctx.count(dropped, 1),
                }
            }
            Datagram::Nothing => {}
        }
    }

    /// Handles a datagram of a new sender. It may begin a stream.
    fn take_newcomer(
        &mut self,
        newcomer: &Newcomer<'_>,
        session: SessionId,
        (from, port): (SocketAddr, UdpPort),
        bytes: &[u8],
    ) {
        let Some(first) = self.rtp_in.take(newcomer, bytes, &mut self.ctx) else {
            return;
        };
        let Sender {
            named,
            from: address,
        } = newcomer.sender;
        let source = StreamSource::Rtp(named);
        if let Some(old) = newcomer.silent {
            let reason = "the source has started anew";
            self.streams.source_lost(old, source, reason, &mut self.ctx);
        }
        self.clients.reading.count(HEAD_COST);
        self.take_from_origins(&session);
        let packet = newcomer.packet.as_ref();
        let is_transport = |packet: &Packet<'_>| packet.payload_type == PAYLOAD_TYPE_MPEG_TS;
        let media_type = Format::MpegTs.media_type().to_owned();
        let given = packet.is_none_or(is_transport).then_some(media_type);
        let id = self.begin(session.clone(), given, source, address);
        match packet {
            Some(packet) => self.streams.begin_rtp(id, address, packet, &mut self.ctx),
            None => {
                self.streams.begin_bare(id, address, &mut self.ctx);
                self.refresh_clients(id);
            }
        }
        self.rtp_in.set_source(named, id);
        self.admit_waiting(&session);
        // The first datagram may not have been kept.
        if !first.is_empty() {
            self.take_datagram(from, port, &first);
        }
        self.take_datagram(from, port, bytes);
    }
}
