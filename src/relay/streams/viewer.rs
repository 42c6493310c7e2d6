//! Streams over HTTP: how a viewer is admitted, is written to in its turn, and learns how the
//! stream ended.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use super::write_queue::{Backlog, WriteQueue};
use super::{CutReason, Stream, Streams};
use crate::format::Format;
use crate::gate::{Digest, SessionId};
use crate::gather::Gather;
#[cfg(feature = "handover")]
use crate::handover::is_default;
use crate::http::{self, ChunkWriter, IcyPosition, Refusal, Reply, ResponseHead, Status, Version};
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::viewer_id::ListedId;
use crate::relay::{ConnectionId, StreamId};
use crate::stream::{Detected, End, Extent, Outcome, StreamBuffer, Supply, UNKNOWN_TYPE, ViewerId};
use crate::time::Instant;

/// Bytes for one viewer in one turn, at most: a viewer that catches up must not delay others.
const TURN_BYTES_MAX: usize = 256 * 1024;

/// A block of ICY without a title.
const EMPTY_BLOCK: &[u8] = &[0];

/// A stream, and one of its viewers.
pub type ViewerKey = (StreamId, ViewerId<ConnectionId>);

/// A viewer's response: its stream, its framing, and how far the current chunk is written.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct ViewerResponse {
    stream: StreamId,
    viewer: ViewerId<ConnectionId>,
    /// How the request is answered.
    pub reply: Reply,
    /// The response's head is not written yet: the media type is unknown.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    owes_head: bool,
    framing: Outgoing,
    /// Position between two titles within the media. `None`: there are none.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    icy: Option<IcyPosition>,
}

/// How the body of a viewer's response is framed.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Outgoing {
    Chunked(ChunkWriter),
    /// HTTP/1.0: the body ends when the connection closes.
    UntilClose,
    /// A segment or a fragment: the head declares its length.
    Length,
}

/// The response to a request to watch.
pub enum WatchResponse {
    /// The stream.
    Viewer(ViewerResponse),
    /// A segment, after this head.
    Segment(Vec<u8>, ViewerResponse),
    /// These bytes alone: a head, or a playlist.
    Whole(Vec<u8>, Reply),
    /// A refusal.
    Refused(Refusal),
    /// None yet: the request waits until then at most.
    NotYet(Instant),
}

impl ViewerResponse {
    /// Creates the response for a segment whose head is written.
    pub fn of_segment((stream, viewer): ViewerKey, reply: Reply) -> ViewerResponse {
        ViewerResponse {
            stream,
            viewer,
            reply,
            owes_head: false,
            framing: Outgoing::Length,
            icy: None,
        }
    }

    /// Lets the response be the viewer's first fragment of MP4 alone.
    pub fn of_fragment(self) -> ViewerResponse {
        ViewerResponse {
            framing: Outgoing::Length,
            ..self
        }
    }

    /// Returns the stream and the viewer's id in it.
    pub fn key(&self) -> ViewerKey {
        (self.stream, self.viewer)
    }

    /// Returns the outcome of a turn after which the socket is as `outcome` says.
    pub fn outcome(&self, outcome: Outcome) -> Outcome {
        match (outcome, self.owes_head) {
            (Outcome::Open, true) => Outcome::HeadAwaited,
            (outcome, _) => outcome,
        }
    }

    /// Records that `bytes` were written. Returns how many of them were media, not framing.
    pub fn sent(&mut self, bytes: usize) -> usize {
        let content_bytes = match &mut self.framing {
            Outgoing::UntilClose | Outgoing::Length => bytes,
            Outgoing::Chunked(chunk) => chunk.sent(bytes),
        };
        let icy = self.icy.as_mut();
        icy.map_or(content_bytes, |icy| icy.sent(content_bytes))
    }

    /// Lends content of the body, with the empty block of ICY among it. `places_kept` places of
    /// `gather` stay free. Returns the number of bytes.
    fn lend<'a>(
        &self,
        buffer: &'a StreamBuffer<ConnectionId>,
        content_bytes: usize,
        gather: &mut Gather<'a>,
        places_kept: usize,
    ) -> usize {
        let (before, behind) = media(self.icy, content_bytes);
        let lent = buffer.lend(self.viewer, 0..before, gather, places_kept);
        let has_room = || gather.places_left() > places_kept;
        if lent < before || before == content_bytes || !has_room() || !gather.push(EMPTY_BLOCK) {
            return lent;
        }
        let range = before..before + behind;
        lent + EMPTY_BLOCK.len() + buffer.lend(self.viewer, range, gather, places_kept)
    }

    /// Returns the bytes that end the body, and whether the connection may serve another request.
    pub fn last(&self, end: End) -> (&'static [u8], bool) {
        match (end, &self.framing) {
            (End::Complete, Outgoing::Chunked(_)) => (http::LAST_CHUNK, self.reply.keep_alive),
            (End::Complete, Outgoing::Length) => (b"", self.reply.keep_alive),
            (End::Complete | End::Lost, _) => (b"", false),
        }
    }

    /// Returns the response's head, once. Returns `None` until the media type is known. For a remuxed
    /// stream, at least one track must be known that the container can carry.
    fn take_head(&mut self, stream: &mut Stream) -> Option<Vec<u8>> {
        if !self.owes_head {
            return None;
        }
        let remuxed = stream.remuxed.as_ref();
        if stream.buffer.newest() == 0 && remuxed.is_some_and(|remuxed| !remuxed.carries_any()) {
            return None;
        }
        let length = match self.framing {
            Outgoing::Chunked(_) | Outgoing::UntilClose => None,
            Outgoing::Length => Some(stream.buffer.first_fragment(self.viewer)?),
        };
        let media_type = stream.buffer.media_type()?;
        let wants_titles = self.reply.wants_titles == Some(true);
        // Sources declare what they like.
        if wants_titles && matches!(stream.buffer.detected(), Detected::Undecided) {
            return None;
        }
        self.owes_head = false;
        if wants_titles && carries_titles(&stream.buffer) {
            self.icy = IcyPosition::begin();
        }
        let head = viewer_head(media_type, stream, &self.reply);
        let head = match (&self.framing, length) {
            (Outgoing::Chunked(_), _) => head.field("Transfer-Encoding", "chunked"),
            (_, Some(length)) => head.field("Content-Length", &length.to_string()),
            (_, None) => head,
        };
        Some(head.finish())
    }
}

impl Streams {
    /// Returns the next viewer to write to. Streams and their viewers take turns.
    pub fn next_viewer(&mut self, ctx: &mut Context) -> Option<ConnectionId> {
        while let Some(id) = self.write_queue.next_stream() {
            let Some(stream) = self.streams.get_mut(id) else {
                self.write_queue.end_turn();
                continue;
            };
            let newest = stream.buffer.newest();
            let Some((viewer, connection)) = stream.buffer.next_ready() else {
                self.write_queue.end_turn();
                (stream.queued_in, stream.newest_when_queued) = (None, newest);
                self.resume(id, ctx);
                continue;
            };
            if self.write_queue.count_write() {
                let (behind_bytes, _) = stream.buffer.lag_of(viewer, ctx.now());
                self.write_queue.end_turn();
                let backlog = self.write_queue.push(behind_bytes, id);
                (stream.queued_in, stream.newest_when_queued) = (Some(backlog), newest);
            }
            return Some(connection);
        }
        None
    }

    /// Queues a stream that has bytes for its viewers.
    pub(super) fn queue_for_writing(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.queue_for_writing(id, &mut self.write_queue);
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
        let stream_id = *self.running.get(session)?;
        self.view(id, stream_id, reply, ctx)
    }

    /// Adds a client to the viewers of a stream.
    pub(super) fn view(
        &mut self,
        id: ConnectionId,
        stream_id: StreamId,
        reply: Reply,
        ctx: &Context,
    ) -> Option<WatchResponse> {
        let stream = self.streams.get_mut(stream_id)?;
        if reply.head_only {
            let media_type = stream.buffer.media_type().unwrap_or(UNKNOWN_TYPE);
            return Some(stream.head(media_type, reply, ctx));
        }
        let (is_chunked, reply) = framing(reply, ctx);
        let viewer = stream.buffer.join(id, ctx.now());
        let original = self.original_of(stream_id);
        let viewers = self.viewers_in_all_containers(original);
        if let Some(stream) = self.streams.get_mut(original) {
            stream.viewers_peak = stream.viewers_peak.max(viewers);
        }
        // The stream's queue, not that of short answers: many viewers may join at once.
        self.queue_for_writing(stream_id);
        Some(WatchResponse::Viewer(ViewerResponse {
            stream: stream_id,
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

    /// Prepares the next write to a viewer: opens a chunk if none is open. Returns the response's
    /// head or a title, if that goes out first, and the end of the stream, if nothing else goes out.
    /// The refusal is for a remuxed stream that ended without output.
    pub fn prepare(
        &mut self,
        viewing: &mut ViewerResponse,
    ) -> (Option<Vec<u8>>, Option<Result<End, Refusal>>) {
        let Some(stream) = self.streams.get_mut(viewing.stream) else {
            return (None, None);
        };
        let head = viewing.take_head(stream);
        if viewing.owes_head {
            return (None, self.emptiness(viewing.stream).map(Err));
        }
        let turn_bytes = TURN_BYTES_MAX.min(stream.buffer.promise_bytes_max());
        let owed = match &viewing.framing {
            Outgoing::Chunked(chunk) => chunk.content_left(),
            Outgoing::UntilClose | Outgoing::Length => 0,
        };
        let (before, behind) = media(viewing.icy, owed);
        let supply = stream.buffer.supply(viewing.viewer, before + behind);
        let title = stream.programme.numbered_title();
        let (mut block, icy) = (None, viewing.icy.as_mut());
        let end = match (supply, &mut viewing.framing) {
            (Supply::Bytes(bytes), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                block = icy.and_then(|icy| icy.take_block(title, true));
                let content_bytes = content_bytes(viewing.icy, bytes.min(turn_bytes), title.0);
                if let Some(bytes) = NonZeroU32::new(content_bytes as u32) {
                    chunk.begin(bytes);
                    if is_media(viewing.icy, chunk)
                        && let Some(cursor) = stream.buffer.cursor(viewing.viewer)
                    {
                        self.shared_chunk
                            .build(viewing.stream, &stream.buffer, cursor, chunk);
                    }
                }
                None
            }
            (Supply::Bytes(_), Outgoing::UntilClose) => {
                block = icy.and_then(|icy| icy.take_block(title, false));
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
        (head.or(block), end.map(Ok))
    }

    /// Lends the bytes that a stream has for a viewer, with chunk framing.
    pub fn lend<'a>(&'a self, viewing: &'a ViewerResponse, gather: &mut Gather<'a>) {
        let stream = self.streams.get(viewing.stream);
        let Some(stream) = stream.filter(|_| !viewing.owes_head) else {
            return;
        };
        let chunk = match &viewing.framing {
            Outgoing::Chunked(chunk) => chunk,
            Outgoing::UntilClose | Outgoing::Length => {
                let (serial, _) = stream.programme.numbered_title();
                let bytes_max = content_bytes(viewing.icy, TURN_BYTES_MAX, serial);
                viewing.lend(&stream.buffer, bytes_max, gather, 0);
                return;
            }
        };
        let cursor = stream.buffer.cursor(viewing.viewer);
        let cursor = cursor.filter(|_| is_media(viewing.icy, chunk));
        if let Some(whole) =
            cursor.and_then(|cursor| self.shared_chunk.get(viewing.stream, cursor, chunk))
        {
            let _ = gather.push(whole);
            return;
        }
        if !gather.push(chunk.line()) {
            return;
        }
        let content = chunk.content_left();
        let lent = viewing.lend(&stream.buffer, content, gather, 1);
        if lent == content {
            // The call above leaves a slot for it.
            let _ = gather.push(chunk.tail());
        }
    }

    /// Records that `bytes` of media were written to a viewer.
    pub fn took(&mut self, (id, viewer): ViewerKey, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.advance(viewer, bytes);
        }
    }

    /// Ends a viewer's turn.
    pub fn end_turn(&mut self, (id, viewer): ViewerKey, outcome: Outcome) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.end_turn(viewer, outcome);
            if stream.buffer.has_ready() {
                stream.queue_for_writing(id, &mut self.write_queue);
            }
        }
    }

    /// Counts, logs and reports a viewer that is disconnected for a reason of its own.
    pub fn cut(
        &mut self,
        (id, viewer): ViewerKey,
        (connection, peer): (ConnectionId, SocketAddr),
        cut: CutReason,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.cuts.count(cut);
        ctx.counts.cuts.count(cut);
        // No event said that a viewer of a segment came.
        let seen = stream.buffer.viewer_figures(viewer, ctx.now());
        if let Some(seen) = seen.filter(|seen| seen.extent == Extent::Whole) {
            let what = ServerEvent::ViewerCut {
                id: ListedId::of_connection(ctx.run, connection),
                address: peer,
                reason: cut.name(),
                behind_bytes: seen.behind_bytes,
                behind_ms: seen.behind_ms,
            };
            ctx.emit(&stream.session, &what);
        }
    }

    /// Removes a viewer that this key admitted. Returns the session that it watched.
    pub fn leave(
        &mut self,
        (id, viewer): ViewerKey,
        key: Option<Digest>,
        address: SocketAddr,
        ctx: &mut Context,
    ) -> Option<&SessionId> {
        let stream = self.streams.get_mut(id)?;
        let seen = stream.buffer.viewer_figures(viewer, ctx.now());
        if let Some(seen) = seen.filter(|seen| seen.extent == Extent::Whole) {
            let what = ServerEvent::ViewerGoes {
                id: ListedId::of_connection(ctx.run, seen.connection),
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
        let is_held = self.streams.get(id).is_some_and(Stream::is_held);
        if is_held && !self.is_watched_in_any_container(id) {
            self.end_stream(id, End::Lost, "the last viewer has left", ctx);
        }
        let stream = self.streams.get(id);
        if stream.is_some_and(|stream| !stream.buffer.has_ready()) {
            self.resume(id, ctx);
        }
        self.forget_if_over(id, ctx);
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
    /// Queues it for its viewers, or moves it to the queue for its unsent bytes.
    pub(super) fn queue_for_writing(&mut self, id: StreamId, write_queue: &mut WriteQueue) {
        let bytes = self.buffer.newest() - self.newest_when_queued;
        match (self.queued_in, Backlog::with(bytes)) {
            (None, _) => self.queued_in = Some(write_queue.push(bytes, id)),
            (Some(Backlog::Little), Backlog::Much) => {
                write_queue.move_up(id);
                self.queued_in = Some(Backlog::Much);
            }
            (Some(Backlog::Much), _) | (Some(Backlog::Little), Backlog::Little) => {}
        }
    }

    /// Returns the response to HEAD.
    pub(super) fn head(&self, media_type: &str, reply: Reply, ctx: &Context) -> WatchResponse {
        let (is_chunked, reply) = framing(reply, ctx);
        let mut head = viewer_head(media_type, self, &reply);
        if is_chunked {
            head = head.field("Transfer-Encoding", "chunked");
        }
        WatchResponse::Whole(head.finish(), reply)
    }
}

/// Splits the next `content_bytes` at an empty block: media bytes before it, and media bytes after.
fn media(icy: Option<IcyPosition>, content_bytes: usize) -> (usize, usize) {
    icy.map_or((content_bytes, 0), |icy| icy.media(content_bytes))
}

/// Returns how much may go out at once, as [`IcyPosition::content_bytes`] does.
fn content_bytes(icy: Option<IcyPosition>, media_bytes: usize, serial: NonZeroU32) -> usize {
    icy.map_or(media_bytes, |icy| icy.content_bytes(media_bytes, serial))
}

/// Returns whether the rest of a chunk is media alone: it may be the same chunk as another viewer's.
fn is_media(icy: Option<IcyPosition>, chunk: &ChunkWriter) -> bool {
    let bytes = chunk.content_left();
    media(icy, bytes).0 == bytes
}

/// Returns whether players know titles within a stream's media.
fn carries_titles(buffer: &StreamBuffer<ConnectionId>) -> bool {
    matches!(
        buffer.detected(),
        Detected::Known(Format::Mp3 | Format::Aac)
    )
}

/// Returns whether a viewer's body is chunked. Only then may another request follow.
fn framing(reply: Reply, ctx: &Context) -> (bool, Reply) {
    let is_chunked = reply.version == Version::Http11 && !ctx.settings().is_close_delimited;
    (is_chunked, reply.close_unless(is_chunked))
}

/// Builds the head of a viewer's response, without the field that says where the body ends.
fn viewer_head(media_type: &str, stream: &Stream, reply: &Reply) -> ResponseHead {
    let mut head = ResponseHead::new(Status::Ok, reply)
        .field("Content-Type", media_type)
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    if let Some(via) = &stream.via {
        head = head.field("Via", via);
    }
    if let Some(wants_titles) = reply.wants_titles
        && carries_titles(&stream.buffer)
    {
        let station = &stream.programme.source.station;
        head = head.field("Vary", "Icy-MetaData");
        head = http::describe(station, head, wants_titles);
    }
    head
}

#[cfg(test)]
#[cfg(feature = "default")]
mod icy_tests;
#[cfg(test)]
mod tests;
