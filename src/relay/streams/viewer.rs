//! Streams over HTTP: how a viewer is admitted, is written to in its turn, and learns how the
//! stream ended.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use super::icy::{self, IcyPosition};
use super::write_queue::Backlog;
use super::{CutReason, Stream, Streams};
use crate::gate::{Digest, SessionId};
use crate::gather::Gather;
use crate::http::{self, ChunkWriter, Refusal, Reply, Status, Version};
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::viewer_id::ListedId;
use crate::relay::{ConnectionId, StreamId};
use crate::stream::{End, Outcome, Supply, UNKNOWN_TYPE, ViewerId};
use crate::time::Instant;

/// Bytes for one viewer in one turn, at most: a viewer that catches up must not delay others.
const TURN_BYTES_MAX: usize = 256 * 1024;

/// A stream, and one of its viewers.
pub type Place = (StreamId, ViewerId<ConnectionId>);

/// A viewer's response: its stream, its framing, and how far the current chunk is written.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Viewing {
    stream: StreamId,
    viewer: ViewerId<ConnectionId>,
    pub(super) reply: Reply,
    /// The response's head is not written yet: the media type is unknown.
    owes_head: bool,
    framing: Outgoing,
    /// Position between two titles within the media, if it gets any.
    icy: Option<IcyPosition>,
}

/// How the body of a viewer's response is framed.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Outgoing {
    Chunked(ChunkWriter),
    /// HTTP/1.0: the body ends when the connection closes.
    UntilClose,
    /// A segment: the head has declared its length.
    Length,
}

/// The response to a request to watch.
pub enum WatchResponse {
    /// The stream.
    Viewing(Viewing),
    /// A segment, after this head.
    Segment(Vec<u8>, Viewing),
    /// These bytes alone: a head, or a playlist.
    Whole(Vec<u8>, Reply),
    /// A refusal.
    Refused(Refusal),
    /// None yet: the request waits until then at most.
    NotYet(Instant),
}

impl Viewing {
    /// Returns whether the state of a handed-over open chunk is possible.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        let is_chunk_fit = match &self.framing {
            Outgoing::Chunked(chunks) => chunks.fits(),
            Outgoing::UntilClose | Outgoing::Length => true,
        };
        is_chunk_fit && self.icy.as_ref().is_none_or(IcyPosition::fits)
    }

    /// Creates the response for a segment whose head is written.
    pub fn of_segment((stream, viewer): Place, reply: Reply) -> Viewing {
        Viewing {
            stream,
            viewer,
            reply,
            owes_head: false,
            framing: Outgoing::Length,
            icy: None,
        }
    }

    /// Returns how the request is answered.
    pub fn reply(&self) -> Reply {
        self.reply
    }

    /// Returns the stream and the viewer's id in it.
    pub fn place(&self) -> Place {
        (self.stream, self.viewer)
    }

    /// Records that `bytes` were written. Returns how many of them were media, not framing, and how
    /// many bytes are left of a title within the media: they go out next.
    pub fn sent(&mut self, bytes: usize) -> (usize, usize) {
        let icy = self.icy.as_mut();
        let (of_block, block_left) = icy.map_or((0, 0), |icy| icy.send_block(bytes));
        let bytes = bytes - of_block;
        let content_bytes = match &mut self.framing {
            Outgoing::UntilClose | Outgoing::Length => bytes,
            Outgoing::Chunked(chunk) => chunk.sent(bytes),
        };
        let icy = self.icy.as_mut();
        let media_bytes = icy.map_or(content_bytes, |icy| icy.send_content(content_bytes));
        (media_bytes, block_left)
    }

    /// Returns the bytes that end the body, and whether the connection may serve another request.
    pub fn last(self, end: End) -> (&'static [u8], bool) {
        match (end, self.framing) {
            (End::Complete, Outgoing::Chunked(_)) => (http::LAST_CHUNK, self.reply.keep_alive),
            (End::Complete, Outgoing::Length) => (b"", self.reply.keep_alive),
            (End::Complete | End::Lost, _) => (b"", false),
        }
    }

    /// Returns the response's head, once. It needs the media type and, of a remuxed stream, a track
    /// that can be carried.
    fn take_head(&mut self, stream: &Stream) -> Option<Vec<u8>> {
        let remuxed = stream.remuxed.as_ref();
        if stream.buffer.newest() == 0 && remuxed.is_some_and(|remuxed| !remuxed.carries_any()) {
            return None;
        }
        let media_type = stream.buffer.media_type().filter(|_| self.owes_head)?;
        self.owes_head = false;
        self.icy = IcyPosition::begin(stream, self.reply.icy);
        let is_chunked = matches!(self.framing, Outgoing::Chunked(_));
        Some(viewer_head(media_type, is_chunked, stream, &self.reply))
    }
}

impl Streams {
    /// Returns the next viewer to write to. Streams and their viewers take turns.
    pub fn next_viewer(&mut self, ctx: &mut Context) -> Option<ConnectionId> {
        while let Some(id) = self.turns.whose() {
            let Some(stream) = self.streams.get_mut(id) else {
                self.turns.end_turn();
                continue;
            };
            let newest = stream.buffer.newest();
            let Some((viewer, connection)) = stream.buffer.next_ready() else {
                self.turns.end_turn();
                (stream.line, stream.lined_up) = (None, newest);
                self.resume(id, ctx);
                continue;
            };
            if self.turns.is_over_with_this() {
                let (behind_bytes, _) = stream.buffer.behind(viewer, ctx.now());
                self.turns.end_turn();
                let line = self.turns.line_up(behind_bytes, id);
                (stream.line, stream.lined_up) = (Some(line), newest);
            }
            return Some(connection);
        }
        None
    }

    /// Queues a stream that has bytes for its viewers.
    pub(super) fn flow(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            let bytes = stream.buffer.newest() - stream.lined_up;
            match (stream.line, Backlog::with(bytes)) {
                (None, _) => stream.line = Some(self.turns.line_up(bytes, id)),
                (Some(Backlog::Little), Backlog::Much) => {
                    self.turns.move_up(id);
                    stream.line = Some(Backlog::Much);
                }
                (Some(Backlog::Much), _) | (Some(Backlog::Little), Backlog::Little) => {}
            }
        }
    }

    /// Adds a client to the viewers of a session, if that runs.
    pub fn watch(
        &mut self,
        id: ConnectionId,
        session: &SessionId,
        reply: Reply,
        ctx: &Context,
    ) -> Option<WatchResponse> {
        let live_id = *self.running.get(session)?;
        self.view(id, live_id, reply, ctx)
    }

    /// Adds a client to the viewers of a stream.
    pub(super) fn view(
        &mut self,
        id: ConnectionId,
        live_id: StreamId,
        reply: Reply,
        ctx: &Context,
    ) -> Option<WatchResponse> {
        let stream = self.streams.get_mut(live_id)?;
        if reply.head_only {
            let media_type = stream.buffer.media_type().unwrap_or(UNKNOWN_TYPE);
            return Some(stream.head(media_type, reply, ctx));
        }
        let (is_chunked, reply) = framing(reply, ctx);
        let viewer = stream.buffer.join(id, ctx.now());
        // The stream's queue, not that of short answers: many viewers may join at once.
        self.flow(live_id);
        Some(WatchResponse::Viewing(Viewing {
            stream: live_id,
            viewer,
            reply,
            owes_head: true,
            framing: match is_chunked {
                true => Outgoing::Chunked(ChunkWriter::default()),
                false => Outgoing::UntilClose,
            },
            icy: None,
        }))
    }

    /// Returns the response to HEAD for a stream with this media type.
    pub(super) fn head_of(
        &self,
        id: StreamId,
        media_type: &str,
        reply: Reply,
        ctx: &Context,
    ) -> Option<WatchResponse> {
        Some(self.streams.get(id)?.head(media_type, reply, ctx))
    }

    /// Prepares the next write to a viewer: opens a chunk if none is open. Returns the response's
    /// head, if that goes out first, and the end of the stream, if nothing else goes out. The
    /// refusal is for a remuxed stream that ended without output.
    pub fn prepare(
        &mut self,
        viewing: &mut Viewing,
    ) -> (Option<Vec<u8>>, Option<Result<End, Refusal>>) {
        let Some(stream) = self.streams.get_mut(viewing.stream) else {
            return (None, None);
        };
        let head = viewing.take_head(stream);
        if viewing.owes_head {
            return (None, self.emptiness(viewing.stream).map(Err));
        }
        let Some(stream) = self.streams.get_mut(viewing.stream) else {
            return (None, None);
        };
        let turn_bytes = TURN_BYTES_MAX.min(stream.buffer.promise_bytes_max());
        let owed = match &viewing.framing {
            Outgoing::Chunked(chunk) => chunk.content_left(),
            Outgoing::UntilClose | Outgoing::Length => 0,
        };
        let owed = viewing.icy.map_or(owed, |icy| icy.media_bytes(owed));
        let supply = stream.buffer.supply(viewing.viewer, owed);
        if let (Some(icy), Supply::Bytes(_)) = (&mut viewing.icy, supply) {
            let is_chunked = matches!(viewing.framing, Outgoing::Chunked(_));
            // An open chunk has promised its bytes.
            let is_within =
                matches!(&viewing.framing, Outgoing::Chunked(chunk) if !chunk.is_between_chunks());
            if icy.has_block() || !is_within {
                self.icy_block
                    .prepare(icy, (viewing.stream, stream), is_chunked);
            }
        }
        let end = match (supply, &mut viewing.framing) {
            (Supply::Bytes(bytes), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                let serial = stream.programme.serial();
                let icy = viewing.icy;
                let media_max = icy.map_or(usize::MAX, |icy| icy.media_max(serial));
                let media_bytes = bytes.min(turn_bytes).min(media_max);
                let content_bytes = icy.map_or(media_bytes, |icy| icy.content_bytes(media_bytes));
                if let Some(bytes) = NonZeroU32::new(content_bytes as u32) {
                    chunk.begin(bytes);
                    if content_bytes == media_bytes
                        && let Some(cursor) = stream.buffer.cursor(viewing.viewer)
                    {
                        self.frame
                            .lay(viewing.stream, &stream.buffer, cursor, chunk);
                    }
                }
                None
            }
            (Supply::Ended(end), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                Some(end)
            }
            (Supply::Ended(end), Outgoing::UntilClose | Outgoing::Length) => Some(end),
            // The rest of an open chunk will never come: the short body tells the viewer that the
            // stream broke.
            (Supply::Ended(_), Outgoing::Chunked(chunk)) if chunk.content_left() > 0 => {
                Some(End::Lost)
            }
            (
                Supply::Bytes(_) | Supply::UpToDate | Supply::Ended(_),
                Outgoing::Chunked(_) | Outgoing::UntilClose | Outgoing::Length,
            ) => None,
        };
        (head, end.map(Ok))
    }

    /// Lends the bytes that a stream has for a viewer, with chunk framing.
    pub fn lend<'a>(&'a self, viewing: &'a Viewing, gather: &mut Gather<'a>) {
        let stream = self.streams.get(viewing.stream);
        let Some(stream) = stream.filter(|_| !viewing.owes_head) else {
            return;
        };
        let icy = viewing.icy;
        if icy.is_some_and(IcyPosition::has_block) && !gather.push(self.icy_block.bytes()) {
            return;
        }
        let chunk = match &viewing.framing {
            Outgoing::Chunked(chunk) => chunk,
            Outgoing::UntilClose | Outgoing::Length => {
                let serial = stream.programme.serial();
                let media_max = icy.map_or(usize::MAX, |icy| icy.media_max(serial));
                let bytes_max = TURN_BYTES_MAX.min(media_max);
                lend_media(stream, viewing, bytes_max, gather, 0);
                return;
            }
        };
        let has_empty_blocks =
            |icy: IcyPosition| icy.media_bytes(chunk.content_left()) < chunk.content_left();
        let cursor = stream.buffer.cursor(viewing.viewer);
        let cursor = cursor.filter(|_| !icy.is_some_and(has_empty_blocks));
        if let Some(whole) =
            cursor.and_then(|cursor| self.frame.whole(viewing.stream, cursor, chunk))
        {
            let _ = gather.push(whole);
            return;
        }
        if !gather.push(chunk.line()) {
            return;
        }
        let content = chunk.content_left();
        let lent = lend_media(stream, viewing, content, gather, 1);
        if lent == content {
            // The call above leaves a slot for it.
            let _ = gather.push(chunk.tail());
        }
    }

    /// Returns the last `bytes` of the title that was lent last.
    pub fn block_left(&self, bytes: usize) -> &[u8] {
        let block = self.icy_block.bytes();
        &block[block.len().saturating_sub(bytes)..]
    }

    /// Records that `bytes` of media were written to a viewer.
    pub fn took(&mut self, (id, viewer): Place, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.advance(viewer, bytes);
        }
    }

    /// Ends a viewer's turn.
    pub fn settle(&mut self, (id, viewer): Place, outcome: Outcome) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.settle(viewer, outcome);
            if stream.buffer.has_ready() {
                self.flow(id);
            }
        }
    }

    /// Counts, logs and reports a viewer that is disconnected for a reason of its own.
    pub fn cut(
        &mut self,
        (id, viewer): Place,
        (connection, peer): (ConnectionId, SocketAddr),
        cut: CutReason,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.cuts.count(cut);
        let (bytes, time) = stream.buffer.behind(viewer, ctx.now());
        ctx.count_cut(cut.name());
        let what = ServerEvent::ViewerCut {
            id: ListedId::of_connection(ctx.run(), connection),
            address: peer,
            reason: cut.name(),
            behind_bytes: bytes,
            behind_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        };
        ctx.emit(&stream.session, &what);
    }

    /// Removes a viewer, which came by this key. Returns the session that it watched.
    pub fn leave(
        &mut self,
        (id, viewer): Place,
        key: Option<Digest>,
        address: SocketAddr,
        ctx: &mut Context,
    ) -> Option<&SessionId> {
        let stream = self.streams.get_mut(id)?;
        let seen = stream.buffer.seen(viewer, ctx.now());
        if let Some(seen) = seen.filter(|seen| !seen.is_of_segment) {
            let what = ServerEvent::ViewerGoes {
                id: ListedId::of_connection(ctx.run(), seen.connection),
                key,
                address,
                bytes: seen.bytes_sent,
                skips: seen.skips,
            };
            ctx.emit(&stream.session, &what);
        }
        stream.buffer.leave(viewer);
        Some(&stream.session)
    }

    /// Updates a stream after a viewer or client has left: it may resume, end or be removed.
    pub fn tend(&mut self, id: StreamId, ctx: &mut Context) {
        let id = self.tend_remuxed(id, ctx).unwrap_or(id);
        self.tend_held(id, ctx);
        self.resume_if_served(id, ctx);
        self.forget_if_over(id, ctx);
    }

    fn resume_if_served(&mut self, id: StreamId, ctx: &mut Context) {
        if self
            .streams
            .get(id)
            .is_some_and(|stream| !stream.buffer.has_ready())
        {
            self.resume(id, ctx);
        }
    }
}

/// The content security policy of streams. A source may send anything, so a browser must not run
/// scripts of a stream, even if it detects a page: a sandbox without `allow-scripts` forbids them,
/// and so does `default-src`, which also forbids fetching anything but media.
///
/// A stream that is opened by itself still plays. Chromium and Safari put a `<video>` into a page
/// of their own, which fetches the address again under this policy: hence `media-src`. Chromium
/// fetches with CORS: hence `allow-same-origin`. Without it the origin is `null`, and allowing
/// `null` would allow every other site. In a sandbox without scripts Chromium waits for a press on
/// play.
pub(super) const STREAM_POLICY: &str =
    "sandbox allow-same-origin; default-src 'none'; media-src 'self'";

impl Stream {
    fn head(&self, media_type: &str, reply: Reply, ctx: &Context) -> WatchResponse {
        let (is_chunked, reply) = framing(reply, ctx);
        let head = viewer_head(media_type, is_chunked, self, &reply);
        WatchResponse::Whole(head, reply)
    }
}

/// Lends media to a viewer, with the empty blocks of titles among them.
fn lend_media<'a>(
    stream: &'a Stream,
    viewing: &Viewing,
    bytes_max: usize,
    gather: &mut Gather<'a>,
    places_kept: usize,
) -> usize {
    let (buffer, viewer) = (&stream.buffer, viewing.viewer);
    match viewing.icy {
        Some(icy) => icy.lend((buffer, viewer), bytes_max, gather, places_kept),
        None => buffer.lend(viewer, 0..bytes_max, gather, places_kept),
    }
}

/// Returns whether a viewer's body is chunked. Only then may another request follow.
fn framing(reply: Reply, ctx: &Context) -> (bool, Reply) {
    let is_chunked = reply.version == Version::Http11 && !ctx.settings().is_close_delimited;
    let keep_alive = reply.keep_alive && is_chunked;
    (
        is_chunked,
        Reply {
            keep_alive,
            ..reply
        },
    )
}

/// Builds the head of a viewer's response.
fn viewer_head(media_type: &str, is_chunked: bool, stream: &Stream, reply: &Reply) -> Vec<u8> {
    let mut head = http::ResponseHead::new(Status::Ok, reply)
        .field("Content-Type", media_type)
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    if let Some(via) = &stream.via {
        head = head.field("Via", via);
    }
    let head = icy::describe(head, stream, reply.icy);
    if is_chunked {
        head.field("Transfer-Encoding", "chunked").finish()
    } else {
        head.finish()
    }
}

#[cfg(test)]
mod tests;
