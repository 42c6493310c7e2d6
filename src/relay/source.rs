//! Streams coming in over HTTP: a request is admitted, its body is the media, and its end is the stream's.

use std::net::SocketAddr;

use serde::Serialize;

use super::api::RETRY_AFTER_SECONDS;
use super::connection::{Connection, Phase, Source};
use super::icecast;
use super::live::{Cut, Cuts, Live, Origin};
use super::outlet::Outlet;
use super::request::CONTINUE;
use super::timers::{Armed, Owner};
use super::{Action, ConnectionId, Level, LiveId, RETURN_BYTES, Relay, SOURCE_READ_BYTES_MAX};
use crate::gate::SessionId;
use crate::http::{self, Body, Framing, Head, HeadReader, Method, Part, Refusal, Reply, Status};
use crate::moment::Moment;
use crate::stream::{End, Stream, Told};

/// The answer to a complete body.
#[derive(Serialize)]
struct Received<'a> {
    sessionid: &'a SessionId,
    bytes_received: u64,
}

impl Relay {
    /// Whether a request may become the session's source: token, length, conflict, and room for another stream.
    pub(super) fn check_publish(
        &self,
        session: &SessionId,
        framing: Framing,
        now: Moment,
    ) -> Result<(), Refusal> {
        if self
            .tokens
            .as_ref()
            .is_some_and(|tokens| !tokens.may_publish(session))
        {
            return Err(no_token());
        }
        self.check_block(session, now)?;
        if framing == Framing::None {
            return Err(Refusal::new(
                Status::LengthRequired,
                "a stream's body is chunked or has a Content-Length; this request has neither",
            ));
        }
        if self.has_source(session) && !self.settings.takes_over {
            return Err(Refusal::new(
                Status::Conflict,
                "this session has a source already; it can have one",
            ));
        }
        if !self.has_room_for_stream(session) {
            return Err(Refusal::busy(
                Status::ServiceUnavailable,
                "as many streams run as may",
                RETRY_AFTER_SECONDS,
            ));
        }
        Ok(())
    }

    /// Whether an abort keeps everybody out of the session still.
    pub(super) fn check_block(&self, session: &SessionId, now: Moment) -> Result<(), Refusal> {
        match self.blocks.left(session, now) {
            None => Ok(()),
            Some(left) => {
                let seconds = u32::try_from(left.as_secs())
                    .unwrap_or(u32::MAX)
                    .saturating_add(1);
                Err(Refusal::busy(
                    Status::TooManyRequests,
                    "this session was aborted and is blocked for a while",
                    seconds,
                ))
            }
        }
    }

    /// The request is admitted: its stream runs from now on.
    pub(super) fn publish(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        content_type: Option<String>,
        (head, framing): (&Head, Framing),
        reply: Reply,
        now: Moment,
    ) {
        if self.has_source(&session) {
            self.end_for_takeover(&session, now);
        }
        self.drop_pull(&session, now);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let live = self.begin_live(
            session.clone(),
            content_type,
            Origin::Http(id),
            connection.peer,
            now,
        );
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if head.expects_continue {
            connection.output.push(CONTINUE);
        } else if head.method == Method::Source {
            connection.output.push(icecast::GO_ON);
        }
        connection.phase = Phase::Source(Source {
            live,
            body: Body::new(framing),
            bytes: 0,
            reply: Some(reply),
            window_bytes: 0,
            window_began: now,
        });
        self.queue(id);
        self.admit_waiting(&session, now);
    }

    /// Another source takes a running one's place.
    fn end_for_takeover(&mut self, session: &SessionId, now: Moment) {
        let Some(&id) = self.running.get(session) else {
            return;
        };
        let Some(source) = self.lives.get(id).map(|live| live.source) else {
            return;
        };
        self.source_lost(id, source, "another source took over", now);
        if let Origin::Http(connection) = source {
            self.close(connection, now);
        }
    }

    /// The session has a source: its stream begins, or goes on if it waits for one.
    pub(super) fn begin_live(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: Origin,
        source_address: SocketAddr,
        now: Moment,
    ) -> LiveId {
        if let Some(id) = self.held(&session) {
            self.go_on(id, content_type, source, source_address, now);
            return id;
        }
        self.counts.streams += 1;
        let serial = self.live_serial_next;
        self.live_serial_next += 1;
        self.log(
            Level::Info,
            now,
            format_args!(
                "event=stream-begins session={} source={source_address}",
                session.digest()
            ),
        );
        let live = self.lives.insert(Live {
            session: session.clone(),
            serial,
            source,
            source_address,
            started_unix_seconds: self.date(now).unix_seconds,
            stream: Stream::new(self.settings.limits.stream, content_type, now),
            pull: None,
            via: None,
            splicer: self.new_splicer(),
            source_type: None,
            input: None,
            outlet: Outlet::default(),
            cuts: Cuts::default(),
            is_flowing: false,
            is_paused: false,
            armed: Armed::default(),
        });
        self.order.insert(serial, live);
        if let Some(old) = self.udp.resting.remove(&session) {
            self.end_rest(old);
        }
        self.running.insert(session, live);
        self.refresh_clients(live, now);
        live
    }

    /// How many bytes of a source are wanted.
    pub(super) fn source_appetite(&mut self, id: LiveId) -> usize {
        let is_held_back = self.is_held_back(id);
        let Some(live) = self.lives.get_mut(id) else {
            return 0;
        };
        let wanted_bytes = live.stream.wanted_bytes(&self.pool);
        live.is_paused = wanted_bytes == 0 || is_held_back;
        if live.is_paused {
            0
        } else {
            SOURCE_READ_BYTES_MAX.min(wanted_bytes)
        }
    }

    /// Reads on in a source's body. Says whether the connection can be read on.
    pub(super) fn read_media(&mut self, id: ConnectionId, input: &mut &[u8], now: Moment) -> bool {
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        let Phase::Source(source) = &mut connection.phase else {
            return false;
        };
        let (live, reply, bytes) = (source.live, source.reply, source.bytes);
        match source.body.read(input) {
            Ok(Part::More) => false,
            Ok(Part::Content(content)) => {
                source.window_bytes += content.len() as u64;
                source.bytes += content.len() as u64;
                self.append(live, content, now);
                true
            }
            Ok(Part::End) => {
                self.source_complete(id, live, bytes, reply, now);
                true
            }
            Err(refusal) => {
                connection.phase = Phase::Head(HeadReader::default());
                self.source_lost(live, Origin::Http(id), "its chunks are malformed", now);
                self.dismiss_source(id, &refusal, reply, now);
                true
            }
        }
    }

    /// Media has arrived from a stream's source.
    pub(super) fn append(&mut self, id: LiveId, bytes: &[u8], now: Moment) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let Some(splicer) = &mut live.splicer else {
            return self.pass_on(id, bytes, now);
        };
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.pass_on(id, &spliced, now);
        spliced.clear();
        self.spliced = spliced;
        if let Err(unlike) = fed {
            self.begin_anew(id, unlike, now);
        }
    }

    /// What has become of it goes on to all who want it.
    fn pass_on(&mut self, id: LiveId, bytes: &[u8], now: Moment) {
        let Some(live) = self.lives.get_mut(id).filter(|_| !bytes.is_empty()) else {
            return;
        };
        let was_undecided = live.stream.told() == Told::Undecided;
        live.stream.append(bytes, &mut self.pool, now);
        let is_told = was_undecided && live.stream.told() != Told::Undecided;
        let has_large_group = live.stream.take_large_group_notice();
        let digest = live.session.digest();
        if has_large_group {
            self.log(Level::Warn, now, format_args!("event=group-larger-than-buffer session={digest} detail=\"viewers cannot begin at a key frame; raise --buffer\""));
        }
        while let Some(connection) = self
            .lives
            .get_mut(id)
            .and_then(|live| live.stream.take_cut())
        {
            self.cut_viewer(connection, Cut::LostUnit, now);
        }
        self.flow(id);
        if is_told {
            self.tell_of_transport(id, now);
        }
        self.feed_outlet(id, bytes, now);
    }

    fn source_complete(
        &mut self,
        id: ConnectionId,
        live: LiveId,
        bytes_received: u64,
        reply: Option<Reply>,
        now: Moment,
    ) {
        let Some(entry) = self.lives.get(live) else {
            return;
        };
        let body = Received {
            sessionid: &entry.session,
            bytes_received,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        self.end_live(live, End::Complete, "its source is complete", now);
        let Some(reply) = reply else {
            return self.close(id, now);
        };
        let bytes = http::whole(
            Status::Ok,
            &reply,
            "application/json",
            &[("Cache-Control", "no-store")],
            &body,
        );
        self.respond(id, Some(Status::Ok), bytes, reply.keep_alive, now);
    }

    /// A source whose stream has ended learns why, and is let go.
    pub(super) fn dismiss_source(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reply: Option<Reply>,
        now: Moment,
    ) {
        match reply {
            Some(reply) => self.refuse(id, refusal, reply.closing(), now),
            None => self.close(id, now),
        }
    }

    /// The client of a source sends no more.
    pub(super) fn source_ended(&mut self, id: ConnectionId, now: Moment) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Phase::Source(source) = &connection.phase else {
            return;
        };
        if source.body.ends_with_connection() {
            let (live, bytes) = (source.live, source.bytes);
            let reply = source.reply.map(Reply::closing);
            self.source_complete(id, live, bytes, reply, now);
        } else {
            self.close(id, now);
        }
    }

    /// A stream's source is gone before its time, unless it is not its source any more: the stream waits for another, or ends.
    pub(super) fn source_lost(
        &mut self,
        id: LiveId,
        source: Origin,
        reason: &'static str,
        now: Moment,
    ) {
        let is_its = self.lives.get(id).is_some_and(|live| live.source == source);
        if is_its && !self.hold(id, reason, now) {
            self.end_live(id, End::Lost, reason, now);
        }
    }

    /// The server shuts down: streams end whose source is no connection that could be ended.
    pub(super) fn end_without_connection(&mut self, now: Moment) {
        let lives = self.lives.iter();
        let ids = lives.filter(|(_, live)| !matches!(live.source, Origin::Http(_)));
        for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end_live(id, End::Complete, SHUT_DOWN, now);
        }
    }

    pub(super) fn end_source_for_shutdown(&mut self, id: ConnectionId, now: Moment) {
        let Some(Phase::Source(source)) =
            self.connections.get(id).map(|connection| &connection.phase)
        else {
            return;
        };
        let (live, reply) = (source.live, source.reply);
        let refusal = Refusal::busy(
            Status::ServiceUnavailable,
            "the server is shutting down",
            RETRY_AFTER_SECONDS,
        );
        self.end_live(live, End::Complete, SHUT_DOWN, now);
        self.dismiss_source(id, &refusal, reply, now);
    }

    /// The stream has no source any more: its session is free, its viewers drain.
    pub(super) fn end_live(&mut self, id: LiveId, end: End, reason: &'static str, now: Moment) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if live.stream.end().is_some() {
            return;
        }
        if let Some(splicer) = &mut live.splicer {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.pass_on(id, &rest, now);
        }
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let source = std::mem::replace(&mut live.source, Origin::Gone);
        if let Some(transport) = &mut live.outlet.transport {
            transport.pacing.finish();
            self.udp.resting.insert(live.session.clone(), id);
        }
        live.stream.finish(end);
        let pull = live.pull;
        let session = live.session.clone();
        let figures = live.stream.figures();
        if self.running.get(&session) == Some(&id) {
            self.running.remove(&session);
        }
        self.log(
            Level::Info,
            now,
            format_args!(
                "event=stream-ends session={} reason=\"{reason}\" bytes_received={} bytes_sent={} skips={}",
                session.digest(),
                figures.bytes_received,
                figures.bytes_sent,
                figures.skips
            ),
        );
        if let Origin::Rtp(address) = source {
            self.forget_rtp_source(address, id);
        }
        if let Some(pull) = pull {
            self.pulled_stream_ended(pull, end, now);
        }
        self.flow(id);
        self.pump(id, now);
        self.forget_if_over(id);
    }

    /// What is left of a stream for its UDP clients is not sent any more.
    pub(super) fn end_rest(&mut self, id: LiveId) {
        if let Some(live) = self.lives.get_mut(id) {
            live.outlet = Outlet::default();
        }
        self.forget_if_over(id);
    }

    /// Ends a session's stream at once: its source and its viewers are disconnected. Says how many viewers that were.
    pub(super) fn end_session(&mut self, session: &SessionId, now: Moment) -> Option<usize> {
        let id = *self.running.get(session)?;
        let live = self.lives.get(id)?;
        let viewers: Vec<ConnectionId> = live.stream.connections().collect();
        let source = live.source;
        self.end_live(id, End::Lost, "it was aborted", now);
        match source {
            Origin::Http(connection) => self.close(connection, now),
            Origin::Rtp(_) | Origin::Awaited { .. } | Origin::Gone => {}
        }
        self.drop_pull(session, now);
        self.end_rest(id);
        for viewer in &viewers {
            self.close(*viewer, now);
        }
        Some(viewers.len())
    }

    /// A stream is over when neither source nor outlet is left.
    pub(super) fn forget_if_over(&mut self, id: LiveId) {
        let Some(live) = self.lives.get(id) else {
            return;
        };
        let is_sent = live.outlet.is_empty()
            && live
                .outlet
                .transport
                .as_ref()
                .is_none_or(|transport| transport.is_over(live.stream.newest()));
        if live.source != Origin::Gone || live.stream.viewer_count() > 0 || !is_sent {
            return;
        }
        if let Some(mut live) = self.lives.remove(id) {
            let figures = live.stream.figures();
            self.counts.past.bytes_received += figures.bytes_received;
            self.counts.past.bytes_sent += figures.bytes_sent;
            self.counts.past.skips += figures.skips;
            self.counts.past_udp_bytes += live.outlet.bytes_sent;
            self.freed_bytes += live.stream.held_bytes();
            live.stream.release(&mut self.pool);
            if self.freed_bytes >= RETURN_BYTES {
                self.freed_bytes = 0;
                self.actions.push_back(Action::ReturnMemory);
            }
            self.order.remove(&live.serial);
            self.timers.disarm(&mut live.armed, Owner::Live(id));
            if self.udp.resting.get(&live.session) == Some(&id) {
                self.udp.resting.remove(&live.session);
            }
        }
    }

    /// The viewers who were behind have what there is: the source is read on.
    pub(super) fn resume(&mut self, id: LiveId) {
        let is_held_back = self.is_held_back(id);
        if let Some(live) = self.lives.get_mut(id)
            && live.is_paused
            && !is_held_back
            && live.stream.wanted_bytes(&self.pool) > 0
        {
            live.is_paused = false;
            if let Origin::Http(connection) = live.source {
                self.actions.push_back(Action::ReadOn(connection));
            }
        }
    }

    /// Silence, and slowness: over each window of the idle time a source must reach the slowest rate.
    pub(super) fn source_deadline(
        &self,
        connection: &Connection,
        source: &Source,
    ) -> Option<(Moment, &'static str)> {
        let idle_time = self.settings.limits.source_idle_time;
        let silent = connection.progress + idle_time;
        let window_ends = source.window_began + idle_time;
        Some(if silent <= window_ends {
            (silent, SILENT)
        } else {
            (window_ends, TOO_SLOW)
        })
    }

    /// A source's deadline has come: says whether it is at fault.
    pub(super) fn source_is_at_fault(
        &mut self,
        id: ConnectionId,
        reason: &'static str,
        now: Moment,
    ) -> bool {
        let limits = &self.settings.limits;
        let bytes_min =
            limits.source_idle_time.as_secs_f64() * limits.body_bytes_per_second_min as f64;
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        let Phase::Source(source) = &mut connection.phase else {
            return false;
        };
        let is_paused = self
            .lives
            .get(source.live)
            .is_some_and(|live| live.is_paused);
        if is_paused {
            connection.progress = now;
        }
        let is_too_slow = (source.window_bytes as f64) < bytes_min;
        source.window_bytes = 0;
        source.window_began = now;
        !is_paused && (reason == SILENT || is_too_slow)
    }
}

pub(super) const SILENT: &str = "its source was silent for too long";
const SHUT_DOWN: &str = "the server shuts down";
const TOO_SLOW: &str = "its source was too slow";

/// 403 for who has no token; the same whether the session exists or not.
pub(super) fn no_token() -> Refusal {
    Refusal::new(
        Status::Forbidden,
        "this sessionid has no http token; the token server adds one with add-token",
    )
}
