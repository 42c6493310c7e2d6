//! Streams going out over HTTP: a viewer is admitted, gets what there is in its turn, and learns
//! how the stream ended.

use std::num::NonZeroU32;

use super::connection::{Connection, Outgoing, Phase, ViewerPhase};
use super::desk::Desk;
use super::live::Cut;
use super::streams::Streams;
use super::turns::Line;
use super::{ConnectionId, Level, LiveId, Relay};
use crate::gate::SessionId;
use crate::gather::Gather;
use crate::http::{self, ChunkWriter, HeadReader, Reply, Status, Version};
use crate::stream::{End, Outcome, Supply, UNKNOWN_TYPE, ViewerId};

/// What one viewer gets in one turn at the most, so that one who catches up does not hold up the
/// others.
const TURN_BYTES_MAX: usize = 256 * 1024;

impl Streams {
    /// The next viewer whose turn it is, of the streams in turn.
    pub(super) fn next_viewer(&mut self, desk: &mut Desk) -> Option<ConnectionId> {
        while let Some(id) = self.turns.whose() {
            let Some(live) = self.lives.get_mut(id) else {
                self.turns.end_turn();
                continue;
            };
            let newest = live.stream.newest();
            let Some((viewer, connection)) = live.stream.next_ready() else {
                self.turns.end_turn();
                (live.line, live.lined_up) = (None, newest);
                self.resume(id, desk);
                continue;
            };
            if self.turns.is_over_with_this() {
                let (behind_bytes, _) = live.stream.behind(viewer, desk.now);
                self.turns.end_turn();
                let line = self.turns.line_up(behind_bytes, id);
                (live.line, live.lined_up) = (Some(line), newest);
            }
            return Some(connection);
        }
        None
    }

    /// The stream has something for its viewers.
    pub(super) fn flow(&mut self, id: LiveId) {
        if let Some(live) = self.lives.get_mut(id) {
            let bytes = live.stream.newest() - live.lined_up;
            match (live.line, Line::with(bytes)) {
                (None, _) => live.line = Some(self.turns.line_up(bytes, id)),
                (Some(Line::Little), Line::Much) => {
                    self.turns.move_up(id);
                    live.line = Some(Line::Much);
                }
                (Some(Line::Much), _) | (Some(Line::Little), Line::Little) => {}
            }
        }
    }

    /// Lends what the stream has for a viewer, framed.
    pub(super) fn lend_to_viewer<'a>(
        &'a self,
        connection: &'a Connection,
        gather: &mut Gather<'a>,
    ) {
        let Phase::Viewer(phase) = &connection.phase else {
            return;
        };
        let Some(live) = self.lives.get(phase.live) else {
            return;
        };
        if phase.owes_head {
            return;
        }
        match &phase.framing {
            Outgoing::UntilClose => {
                live.stream.lend(phase.viewer, TURN_BYTES_MAX, gather, 0);
            }
            Outgoing::Chunked(chunk) => {
                let cursor = live.stream.cursor(phase.viewer);
                if let Some(whole) =
                    cursor.and_then(|cursor| self.frame.whole(phase.live, cursor, chunk))
                {
                    let _ = gather.push(whole);
                    return;
                }
                if !gather.push(chunk.line()) {
                    return;
                }
                let content = chunk.content_left();
                let lent = live.stream.lend(phase.viewer, content, gather, 1);
                if lent == content {
                    // The place was kept.
                    let _ = gather.push(chunk.tail());
                }
            }
        }
    }

    fn resume_if_served(&mut self, id: LiveId, desk: &mut Desk) {
        if self
            .lives
            .get(id)
            .is_some_and(|live| !live.stream.has_ready())
        {
            self.resume(id, desk);
        }
    }
}

impl Relay {
    /// The request is admitted: the stream goes out to its client, at once if it runs.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        via: Option<&str>,
        reply: Reply,
    ) {
        let now = self.desk.now;
        let Some(&live_id) = self.streams.running.get(&session) else {
            self.wait_for(id, session.clone(), via, reply);
            self.fetch.want(&session, &mut self.desk);
            return self.tend_pull(&session);
        };
        let Some(live) = self.streams.lives.get_mut(live_id) else {
            return;
        };
        let is_chunked = reply.version == Version::Http11 && !self.desk.settings.is_close_delimited;
        let reply = Reply {
            keep_alive: reply.keep_alive && is_chunked,
            ..reply
        };
        if reply.head_only {
            let bytes = viewer_head(
                live.stream.media_type().unwrap_or(UNKNOWN_TYPE),
                is_chunked,
                live.via.as_deref(),
                &reply,
            );
            return self.clients.respond(
                id,
                Some(Status::Ok),
                bytes,
                reply.keep_alive,
                &mut self.desk,
            );
        }
        let viewer = live.stream.join(id, now);
        let framing = if is_chunked {
            Outgoing::Chunked(ChunkWriter::default())
        } else {
            Outgoing::UntilClose
        };
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        connection.phase = Phase::Viewer(ViewerPhase {
            live: live_id,
            viewer,
            reply,
            owes_head: true,
            framing,
        });
        // In the stream's turn, not in that of short answers: many may come at once.
        self.streams.flow(live_id);
        self.tend_pull(&session);
    }

    /// What goes out next to a client is made ready: a response head, a chunk's line, the end of a
    /// stream, a piece of a listing.
    pub(super) fn prepare_output(&mut self, id: ConnectionId) {
        match self
            .clients
            .connections
            .get(id)
            .map(|connection| &connection.phase)
        {
            Some(Phase::Viewer(_)) => self.prepare_viewer(id),
            Some(Phase::Listing(_)) => self.prepare_listing(id),
            _ => {}
        }
    }

    fn prepare_viewer(&mut self, id: ConnectionId) {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let Phase::Viewer(phase) = &mut connection.phase else {
            return;
        };
        let Some(live) = self.streams.lives.get_mut(phase.live) else {
            return;
        };
        if phase.owes_head {
            let Some(media_type) = live.stream.media_type() else {
                return;
            };
            connection.output.push(&viewer_head(
                media_type,
                matches!(phase.framing, Outgoing::Chunked(_)),
                live.via.as_deref(),
                &phase.reply,
            ));
            phase.owes_head = false;
            if let Some(entry) = &mut connection.access {
                entry.status = Some(Status::Ok);
            }
        }
        let turn_bytes = TURN_BYTES_MAX.min(live.stream.promise_bytes_max());
        let owed = match &phase.framing {
            Outgoing::Chunked(chunk) => chunk.content_left(),
            Outgoing::UntilClose => 0,
        };
        match (live.stream.supply(phase.viewer, owed), &mut phase.framing) {
            (Supply::Bytes(bytes), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                if let Some(bytes) = NonZeroU32::new(bytes.min(turn_bytes) as u32) {
                    chunk.begin(bytes);
                    if let Some(cursor) = live.stream.cursor(phase.viewer) {
                        self.streams
                            .frame
                            .lay(phase.live, &live.stream, cursor, chunk);
                    }
                }
            }
            (Supply::Ended(end), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                self.end_viewer(id, end)
            }
            (Supply::Ended(end), Outgoing::UntilClose) => self.end_viewer(id, end),
            // An open chunk whose bytes will never come: it tells the viewer that the stream is
            // broken.
            (Supply::Ended(_), Outgoing::Chunked(chunk)) if chunk.content_left() > 0 => {
                self.end_viewer(id, End::Lost)
            }
            (
                Supply::Bytes(_) | Supply::UpToDate | Supply::Ended(_),
                Outgoing::Chunked(_) | Outgoing::UntilClose,
            ) => {}
        }
    }

    /// The viewer has everything; it learns how the stream ended.
    fn end_viewer(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let phase = std::mem::replace(&mut connection.phase, Phase::Head(HeadReader::default()));
        let Phase::Viewer(ViewerPhase {
            live,
            viewer,
            reply,
            framing,
            ..
        }) = phase
        else {
            return;
        };
        let (last, keep_alive): (&[u8], bool) = match (end, framing) {
            (End::Complete, Outgoing::Chunked(_)) => {
                (http::LAST_CHUNK, reply.keep_alive && !self.desk.is_closing)
            }
            (End::Complete | End::Lost, _) => (b"", false),
        };
        self.viewer_left(live, viewer);
        self.clients
            .respond(id, None, last.to_vec(), keep_alive, &mut self.desk);
    }

    /// So many bytes of what a viewer was lent have been written.
    pub(super) fn viewer_took(&mut self, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let Phase::Viewer(phase) = &mut connection.phase else {
            return;
        };
        let Some(live) = self.streams.lives.get_mut(phase.live) else {
            return;
        };
        let content = match &mut phase.framing {
            Outgoing::UntilClose => bytes,
            Outgoing::Chunked(chunk) => chunk.sent(bytes),
        };
        live.stream.advance(phase.viewer, content);
        if let Some(entry) = &mut connection.access {
            entry.bytes += content as u64;
        }
    }

    /// A viewer's turn is over.
    pub(super) fn settle_viewer(&mut self, id: ConnectionId, outcome: Outcome) {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let Phase::Viewer(phase) = &mut connection.phase else {
            return;
        };
        let (live_id, viewer) = (phase.live, phase.viewer);
        let Some(live) = self.streams.lives.get_mut(live_id) else {
            return;
        };
        live.stream.settle(viewer, outcome);
        if live.stream.has_ready() {
            self.streams.flow(live_id);
        }
    }

    /// A viewer's connection is closed for a reason that lies with it.
    pub(super) fn cut_viewer(&mut self, id: ConnectionId, cut: Cut) {
        let now = self.desk.now;
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let peer = connection.peer;
        let Phase::Viewer(phase) = &connection.phase else {
            return;
        };
        let viewer = phase.viewer;
        let Some(live) = self.streams.lives.get_mut(phase.live) else {
            return;
        };
        live.cuts.count(cut);
        let (bytes, time) = live.stream.behind(viewer, now);
        let digest = live.session.digest();
        *self.desk.counts.cuts.entry(cut.name()).or_insert(0) += 1;
        self.desk.log(
            Level::Info,
            format_args!(
                "event=viewer-cut session={digest} peer={peer} reason={} behind_bytes={bytes} behind_ms={}",
                cut.name(),
                time.as_millis()
            ),
        );
        self.clients.close(id, &mut self.desk);
    }

    /// A viewer is gone.
    pub(super) fn viewer_left(&mut self, live_id: LiveId, viewer: ViewerId<ConnectionId>) {
        if let Some(live) = self.streams.lives.get_mut(live_id) {
            live.stream.leave(viewer);
            if self.fetch.len() > 0 {
                let session = live.session.clone();
                self.tend_pull(&session);
            }
        }
        self.streams.tend_held(live_id, &mut self.desk);
        self.streams.resume_if_served(live_id, &mut self.desk);
        self.streams.forget_if_over(live_id, &mut self.desk);
    }
}

/// A stream is its source's and no document of this server's. Whatever a browser takes it for, it
/// runs no script: a sandbox without `allow-scripts` forbids it, and so does `default-src`, which
/// also keeps it from fetching anything but media.
///
/// Opened by itself it still plays: Chromium and Safari put a `<video>` into a page of their own,
/// which fetches the address again under this policy. Hence `media-src`; and `allow-same-origin`,
/// since Chromium asks for it with CORS, and to allow the origin of a bare sandbox, `null`, is to
/// allow every other site's. In a sandbox without scripts Chromium waits for a press on play.
const STREAM_POLICY: &str = "sandbox allow-same-origin; default-src 'none'; media-src 'self'";

/// The head of a viewer's response.
fn viewer_head(media_type: &str, is_chunked: bool, via: Option<&str>, reply: &Reply) -> Vec<u8> {
    let mut head = http::ResponseHead::new(Status::Ok, reply)
        .field("Content-Type", media_type)
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    if let Some(via) = via {
        head = head.field("Via", via);
    }
    if is_chunked {
        head.field("Transfer-Encoding", "chunked").finish()
    } else {
        head.finish()
    }
}
