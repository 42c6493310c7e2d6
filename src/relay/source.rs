//! Streams coming in over HTTP: a request is admitted, its body is the media, and its end is the
//! stream's.

use std::net::SocketAddr;

use serde::Serialize;

use super::clients::Clients;
use super::connection::{Connection, Phase, Source};
use super::desk::Desk;
use super::icecast;
use super::live::{Origin, SHUT_DOWN};
use super::request::CONTINUE;
use super::{ConnectionId, LiveId, READ_BYTES_MAX, RETRY_AFTER_SECONDS, Relay};
use crate::format::splice::Unlike;
use crate::gate::SessionId;
use crate::http::{self, Body, Framing, Head, HeadReader, Method, Part, Refusal, Reply, Status};
use crate::moment::Moment;
use crate::stream::End;

/// The answer to a complete body.
#[derive(Serialize)]
struct Received<'a> {
    sessionid: &'a SessionId,
    bytes_received: u64,
}

impl Clients {
    /// Silence, and slowness: over each window of the idle time a source must reach the slowest
    /// rate.
    pub(super) fn source_deadline(
        &self,
        connection: &Connection,
        source: &Source,
        desk: &Desk,
    ) -> Option<(Moment, &'static str)> {
        let idle_time = desk.settings.limits.source_idle_time;
        let silent = connection.progress + idle_time;
        let window_ends = source.window_began + idle_time;
        Some(if silent <= window_ends {
            (silent, SILENT)
        } else {
            (window_ends, TOO_SLOW)
        })
    }
}

impl Clients {
    /// A source whose stream has ended learns why, and is let go.
    pub(super) fn dismiss_source(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reply: Option<Reply>,
        desk: &mut Desk,
    ) {
        match reply {
            Some(reply) => self.refuse(id, refusal, reply.closing(), desk),
            None => self.close(id, desk),
        }
    }
}

impl Relay {
    /// The request is admitted: its stream runs from now on.
    pub(super) fn publish(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        content_type: Option<String>,
        (head, framing): (&Head, Framing),
        reply: Reply,
    ) {
        let now = self.desk.now;
        if self.streams.has_source(&session) {
            self.end_for_takeover(&session);
        }
        self.take_from_origins(&session);
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let live = self.begin(
            session.clone(),
            content_type,
            Origin::Http(id),
            connection.peer,
        );
        let Some(connection) = self.clients.connections.get_mut(id) else {
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
        self.clients.queue(id);
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
        let Some(Unlike(bytes)) = self.streams.take_media(id, bytes, &mut self.desk) else {
            return;
        };
        if let Some(anew) = self.streams.begin_anew(id, &mut self.desk) {
            self.follow(anew);
            self.append(anew, &bytes);
        }
    }

    /// A source's stream has begun anew: whoever knows it by its stream learns of the other.
    fn follow(&mut self, id: LiveId) {
        let Some(live) = self.streams.lives.get(id) else {
            return;
        };
        let pull = live.pull;
        match live.source {
            Origin::Http(connection) => {
                if let Some(connection) = self.clients.connections.get_mut(connection)
                    && let Phase::Source(source) = &mut connection.phase
                {
                    source.live = id;
                }
            }
            Origin::Rtp(address) => {
                self.rtp_in.sources.insert(address, id);
            }
            Origin::Awaited { .. } | Origin::Gone => {}
        }
        if let Some(pull) = pull {
            self.fetch.runs(pull, id, self.desk.now);
        }
        self.refresh_clients(id);
        self.streams.rearm_live(id, &mut self.desk);
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
        let Some(&id) = self.streams.running.get(session) else {
            return;
        };
        let Some(source) = self.streams.lives.get(id).map(|live| live.source) else {
            return;
        };
        self.source_lost(id, source, "another source took over");
        if let Origin::Http(connection) = source {
            self.clients.close(connection, &mut self.desk);
        }
    }

    /// Reads on in a source's body. Says whether the connection can be read on.
    pub(super) fn read_media(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Source(source) = &mut connection.phase else {
            return false;
        };
        let (live, reply, bytes) = (source.live, source.reply, source.bytes);
        match source.body.read(input) {
            Ok(Part::More) => false,
            Ok(Part::Content(content)) => {
                let mut pieces = std::mem::take(&mut self.clients.pieces);
                let content = gather_pieces(&mut source.body, content, input, &mut pieces);
                source.window_bytes += content.len() as u64;
                source.bytes += content.len() as u64;
                self.append(live, content);
                self.clients.pieces = pieces;
                true
            }
            Ok(Part::End) => {
                // More behind it than is read ahead of other answers is not kept: it is the last.
                let is_much = input.len() > READ_BYTES_MAX;
                let reply = reply.map(|reply| if is_much { reply.closing() } else { reply });
                self.source_complete(id, live, bytes, reply);
                true
            }
            Err(refusal) => {
                connection.phase = Phase::Head(HeadReader::default());
                self.source_lost(live, Origin::Http(id), "its chunks are malformed");
                self.clients
                    .dismiss_source(id, &refusal, reply, &mut self.desk);
                true
            }
        }
    }

    fn source_complete(
        &mut self,
        id: ConnectionId,
        live: LiveId,
        bytes_received: u64,
        reply: Option<Reply>,
    ) {
        let Some(entry) = self.streams.lives.get(live) else {
            return;
        };
        let body = Received {
            sessionid: &entry.session,
            bytes_received,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        self.end_live(live, End::Complete, "its source is complete");
        let Some(reply) = reply else {
            return self.clients.close(id, &mut self.desk);
        };
        let bytes = http::whole(
            Status::Ok,
            &reply,
            "application/json",
            &[("Cache-Control", "no-store")],
            &[&body],
        );
        self.clients.respond(
            id,
            Some(Status::Ok),
            bytes,
            reply.keep_alive,
            &mut self.desk,
        );
    }

    /// The client of a source sends no more.
    pub(super) fn source_ended(&mut self, id: ConnectionId) {
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let Phase::Source(source) = &connection.phase else {
            return;
        };
        if !source.body.ends_with_connection() {
            return self.clients.close(id, &mut self.desk);
        }
        let (live, bytes) = (source.live, source.bytes);
        let reply = source.reply.map(Reply::closing);
        // Such an end is what a break looks like, too: with `--hold` it is taken for one.
        if self
            .streams
            .hold(live, "its connection ended", &mut self.desk)
        {
            self.clients.close(id, &mut self.desk);
        } else {
            self.source_complete(id, live, bytes, reply);
        }
    }

    pub(super) fn end_source_for_shutdown(&mut self, id: ConnectionId) {
        let Some(Phase::Source(source)) = self
            .clients
            .connections
            .get(id)
            .map(|connection| &connection.phase)
        else {
            return;
        };
        let (live, reply) = (source.live, source.reply);
        let refusal = Refusal::busy(
            Status::ServiceUnavailable,
            "the server is shutting down",
            RETRY_AFTER_SECONDS,
        );
        self.end_live(live, End::Complete, SHUT_DOWN);
        self.clients
            .dismiss_source(id, &refusal, reply, &mut self.desk);
    }

    /// A source's deadline has come: says whether it is at fault.
    pub(super) fn source_is_at_fault(&mut self, id: ConnectionId, reason: &'static str) -> bool {
        let now = self.desk.now;
        let limits = &self.desk.settings.limits;
        let bytes_min =
            limits.source_idle_time.as_secs_f64() * limits.body_bytes_per_second_min as f64;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Source(source) = &mut connection.phase else {
            return false;
        };
        let is_paused = self
            .streams
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

/// Pieces of a body that are shorter are put together before the stream has them, up to the other.
const SMALL_PIECE_BYTES: usize = 1024;
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// A piece of a body as it is; or, if it is small, with those behind it that are small and have
/// come too. A stream takes some hundred instructions for whatever it is given, and a byte may be a
/// chunk.
fn gather_pieces<'a>(
    body: &mut Body,
    first: &'a [u8],
    input: &mut &[u8],
    pieces: &'a mut Vec<u8>,
) -> &'a [u8] {
    if first.len() >= SMALL_PIECE_BYTES || input.is_empty() {
        return first;
    }
    pieces.clear();
    pieces.extend_from_slice(first);
    while pieces.len() < GATHERED_BYTES_MAX {
        let (mut behind, mut rest) = (body.clone(), *input);
        match behind.read(&mut rest) {
            Ok(Part::Content(piece)) if piece.len() < SMALL_PIECE_BYTES => {
                pieces.extend_from_slice(piece);
                (*body, *input) = (behind, rest);
            }
            // It is read again when these have been taken.
            Ok(_) | Err(_) => break,
        }
    }
    pieces
}

pub(super) const SILENT: &str = "its source was silent for too long";
const TOO_SLOW: &str = "its source was too slow";
