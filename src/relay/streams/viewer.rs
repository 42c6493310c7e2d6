//! Streams going out over HTTP: a viewer is admitted, gets what there is in its turn, and learns
//! how the stream ended.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use super::write_queue::Backlog;
use super::{CutReason, Stream, Streams};
use crate::gate::SessionId;
use crate::gather::Gather;
use crate::http::{self, ChunkWriter, Refusal, Reply, Status, Version};
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::viewer_id::ListedId;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::stream::{End, Outcome, Supply, UNKNOWN_TYPE, ViewerId};
use crate::time::Instant;

/// What one viewer gets in one turn at the most, so that one who catches up does not hold up the
/// others.
const TURN_BYTES_MAX: usize = 256 * 1024;

/// What somebody watches, and as which of its viewers.
pub type Place = (StreamId, ViewerId<ConnectionId>);

/// A client that watches, and how far it is within what it was lent.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Viewing {
    stream: StreamId,
    viewer: ViewerId<ConnectionId>,
    pub(super) reply: Reply,
    /// The response's head, until the stream's media type is known.
    owes_head: bool,
    framing: Outgoing,
}

/// How a stream is framed for a viewer.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Outgoing {
    Chunked(ChunkWriter),
    /// HTTP/1.0: the body ends with the connection.
    UntilClose,
    /// A segment, of which the head has said how long it is.
    Length,
}

/// How a request to watch is answered.
pub enum WatchResponse {
    /// With the stream.
    Viewing(Viewing),
    /// With a segment of it, behind this head.
    Segment(Vec<u8>, Viewing),
    /// With this, all of it: a head alone, or a playlist.
    Whole(Vec<u8>, Reply),
    /// It is not to be had.
    Refused(Refusal),
    /// The playlist may have it until then.
    NotYet(Instant),
}

impl Viewing {
    /// Whether the chunk that is open, as it was told, can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        match &self.framing {
            Outgoing::Chunked(chunks) => chunks.fits(),
            Outgoing::UntilClose | Outgoing::Length => true,
        }
    }

    /// A segment's viewer, whose head is out.
    pub fn of_segment((stream, viewer): Place, reply: Reply) -> Viewing {
        Viewing {
            stream,
            viewer,
            reply,
            owes_head: false,
            framing: Outgoing::Length,
        }
    }

    /// How the request is answered.
    pub fn reply(&self) -> Reply {
        self.reply
    }

    /// What is watched, and by which of its viewers.
    pub fn place(&self) -> Place {
        (self.stream, self.viewer)
    }

    /// So many bytes of what was lent have been written. Says how many of them were media.
    pub fn sent(&mut self, bytes: usize) -> usize {
        match &mut self.framing {
            Outgoing::UntilClose | Outgoing::Length => bytes,
            Outgoing::Chunked(chunk) => chunk.sent(bytes),
        }
    }

    /// What tells that the stream has ended so, and whether another request may follow.
    pub fn last(self, end: End) -> (&'static [u8], bool) {
        match (end, self.framing) {
            (End::Complete, Outgoing::Chunked(_)) => (http::LAST_CHUNK, self.reply.keep_alive),
            (End::Complete, Outgoing::Length) => (b"", self.reply.keep_alive),
            (End::Complete | End::Lost, _) => (b"", false),
        }
    }

    /// The head of the answer, if it is owed and can be made. Of a remuxed stream a track that can
    /// be carried has to be known first.
    fn take_head(&mut self, stream: &Stream) -> Option<Vec<u8>> {
        let shadow = stream.shadow.as_ref();
        if stream.buffer.newest() == 0 && shadow.is_some_and(|shadow| !shadow.carries_any()) {
            return None;
        }
        let media_type = stream.buffer.media_type().filter(|_| self.owes_head)?;
        self.owes_head = false;
        let is_chunked = matches!(self.framing, Outgoing::Chunked(_));
        let via = stream.via.as_deref();
        Some(viewer_head(media_type, is_chunked, via, &self.reply))
    }
}

impl Streams {
    /// The next viewer whose turn it is, of the streams in turn.
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

    /// The stream has something for its viewers.
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

    /// A client is to watch a session, if that runs.
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

    /// A client is to watch a stream.
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
        // In the stream's turn, not in that of short answers: many may come at once.
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
        }))
    }

    /// The head alone of a stream that could be had with this media type.
    pub(super) fn head_of(
        &self,
        id: StreamId,
        media_type: &str,
        reply: Reply,
        ctx: &Context,
    ) -> Option<WatchResponse> {
        Some(self.streams.get(id)?.head(media_type, reply, ctx))
    }

    /// What goes out next to a viewer is made ready: a chunk's line. Returns the head of its
    /// answer, if that goes out before, and how the stream has ended, if nothing goes out any more:
    /// of a remuxed stream of which nothing came, with the answer instead.
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
        let supply = stream.buffer.supply(viewing.viewer, owed);
        let end = match (supply, &mut viewing.framing) {
            (Supply::Bytes(bytes), Outgoing::Chunked(chunk)) if chunk.is_between_chunks() => {
                if let Some(bytes) = NonZeroU32::new(bytes.min(turn_bytes) as u32) {
                    chunk.begin(bytes);
                    if let Some(cursor) = stream.buffer.cursor(viewing.viewer) {
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
            // An open chunk whose bytes will never come: it tells the viewer that the stream is
            // broken.
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

    /// Lends what the stream has for a viewer, framed.
    pub fn lend<'a>(&'a self, viewing: &'a Viewing, gather: &mut Gather<'a>) {
        let stream = self.streams.get(viewing.stream);
        let Some(stream) = stream.filter(|_| !viewing.owes_head) else {
            return;
        };
        let chunk = match &viewing.framing {
            Outgoing::Chunked(chunk) => chunk,
            Outgoing::UntilClose | Outgoing::Length => {
                stream
                    .buffer
                    .lend(viewing.viewer, TURN_BYTES_MAX, gather, 0);
                return;
            }
        };
        let cursor = stream.buffer.cursor(viewing.viewer);
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
        let lent = stream.buffer.lend(viewing.viewer, content, gather, 1);
        if lent == content {
            // The place was kept.
            let _ = gather.push(chunk.tail());
        }
    }

    /// So many bytes of media have been written to a viewer.
    pub fn took(&mut self, (id, viewer): Place, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.advance(viewer, bytes);
        }
    }

    /// A viewer's turn is over.
    pub fn settle(&mut self, (id, viewer): Place, outcome: Outcome) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.settle(viewer, outcome);
            if stream.buffer.has_ready() {
                self.flow(id);
            }
        }
    }

    /// A viewer is cut for a reason that lies with it, and the operator learns of it.
    pub fn cut(
        &mut self,
        (id, viewer): Place,
        peer: SocketAddr,
        cut: CutReason,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.cuts.count(cut);
        let (bytes, time) = stream.buffer.behind(viewer, ctx.now());
        let digest = stream.session.digest();
        ctx.count_cut(cut.name());
        ctx.log(
            Level::Info,
            format_args!(
                "event=viewer-cut session={digest} peer={peer} reason={} behind_bytes={bytes} behind_ms={}",
                cut.name(),
                time.as_millis()
            ),
        );
        if let Some(seen) = stream.buffer.seen(viewer, ctx.now()) {
            let what = ServerEvent::ViewerCut {
                id: ListedId::Connection {
                    run: ctx.run(),
                    connection: seen.connection.to_u64(),
                },
                address: peer,
                reason: cut.name(),
                behind_bytes: bytes,
                behind_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            };
            ctx.tell(&stream.session, &what);
        }
    }

    /// A viewer is gone. Says which session it watched.
    pub fn leave(&mut self, (id, viewer): Place, ctx: &mut Context) -> Option<&SessionId> {
        let stream = self.streams.get_mut(id)?;
        let seen = stream.buffer.seen(viewer, ctx.now());
        if let Some(seen) = seen.filter(|seen| !seen.is_of_segment) {
            let what = ServerEvent::ViewerGoes {
                id: ListedId::Connection {
                    run: ctx.run(),
                    connection: seen.connection.to_u64(),
                },
                bytes: seen.bytes_sent,
                skips: seen.skips,
            };
            ctx.tell(&stream.session, &what);
        }
        stream.buffer.leave(viewer);
        Some(&stream.session)
    }

    /// Somebody has left a stream: it may wait for nobody any more, go on, or be over.
    pub fn tend(&mut self, id: StreamId, ctx: &mut Context) {
        let id = self.tend_shadow(id, ctx).unwrap_or(id);
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

/// A stream is its source's and no document of this server's. Whatever a browser takes it for, it
/// runs no script: a sandbox without `allow-scripts` forbids it, and so does `default-src`, which
/// also keeps it from fetching anything but media.
///
/// Opened by itself it still plays: Chromium and Safari put a `<video>` into a page of their own,
/// which fetches the address again under this policy. Hence `media-src`; and `allow-same-origin`,
/// since Chromium asks for it with CORS, and to allow the origin of a bare sandbox, `null`, is to
/// allow every other site's. In a sandbox without scripts Chromium waits for a press on play.
pub(super) const STREAM_POLICY: &str =
    "sandbox allow-same-origin; default-src 'none'; media-src 'self'";

impl Stream {
    fn head(&self, media_type: &str, reply: Reply, ctx: &Context) -> WatchResponse {
        let (is_chunked, reply) = framing(reply, ctx);
        let head = viewer_head(media_type, is_chunked, self.via.as_deref(), &reply);
        WatchResponse::Whole(head, reply)
    }
}

/// Whether a viewer's body is chunked; another request may follow only then.
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

#[cfg(test)]
mod tests;
