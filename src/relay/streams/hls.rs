//! Playlists and segments over HTTP, of a stream that runs or ended recently. [`crate::hls`] finds
//! the segments.
//!
//! A playlist is made once for all players. A segment goes out like a stream, to a viewer that
//! stops at the segment's end. The server keeps nothing about a player between two requests, not
//! even a name. The stream knows only until when it counts as watched ([`Stream::watched_until`]).

#[cfg(test)]
mod tests;

use super::viewer::{STREAM_POLICY, ViewerResponse, WatchResponse};
use super::{Stream, Streams};
use crate::gate::SessionId;
use crate::hls::{Content, HlsRequest, HlsResponse, LIST_TYPE, Object, PlaylistPosition};
use crate::http::{Refusal, Reply, ResponseHead, Status};
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, StreamId};
use crate::time::Instant;

impl Streams {
    /// Returns the session's streams, the running one first. Where origins admit viewers, ended
    /// streams are left out: there is no origin to ask.
    fn segmented(&self, session: &SessionId, asks_origin: bool) -> Vec<StreamId> {
        let is_attended = |id: &StreamId| {
            let mut all = self.in_all_containers(*id);
            !asks_origin && all.any(|stream| stream.watched_until.is_some())
        };
        let draining = self.draining.of(session).filter(is_attended);
        let mut streams: Vec<StreamId> = draining.collect();
        streams.extend(self.running.get(session));
        streams.reverse();
        streams
    }

    /// Answers a request for a session's playlist, a segment or a map. `None`: the session does not
    /// run.
    pub fn play(
        &mut self,
        id: ConnectionId,
        (session, wanted): (&SessionId, &HlsRequest),
        (reply, may_wait): (Reply, bool),
        ctx: &mut Context,
    ) -> Option<WatchResponse> {
        let mut streams = self.segmented(session, ctx.settings().asks_origin);
        let newest = *streams.first()?;
        let count = match wanted.is_list() {
            true => Count::Playlists,
            false => Count::Segments,
        };
        if wanted.is_list() {
            let playable = match self.playable(newest, reply.head_only, ctx) {
                Ok(Some(playable)) => playable,
                Ok(None) => return Some(self.list_head(newest, reply)),
                Err(refusal) => return Some(WatchResponse::Refused(refusal)),
            };
            self.extend_watch(playable, ctx);
            streams = vec![playable];
        } else {
            let originals = streams.into_iter();
            streams = originals.flat_map(|id| self.with_remuxed(id)).collect();
        }
        let may_wait = may_wait && !reply.head_only;
        let titles = self.streams.get(newest)?.programme.titles.clone();
        let found = streams.into_iter().find_map(|id| {
            let cutter = self.streams.get_mut(id)?.buffer.segments()?;
            Some((id, cutter.find(wanted, may_wait, &titles)?))
        });
        // A request that waits is counted when it is answered.
        if !matches!(found, Some((_, HlsResponse::NotYet(_) | HlsResponse::Over))) {
            ctx.count(count, 1);
        }
        let Some((stream, found)) = found else {
            let detail = "no segment of the session has this name, or not any more";
            let refusal = Refusal::new(Status::NotFound, detail);
            return Some(WatchResponse::Refused(refusal));
        };
        Some(match found {
            HlsResponse::Over => return None,
            HlsResponse::NotYet(time) => WatchResponse::NotYet(ctx.now() + time),
            HlsResponse::Refused(refusal) => WatchResponse::Refused(refusal),
            HlsResponse::Object(object) => {
                self.extend_watch(stream, ctx);
                self.respond_with((id, stream), &object, reply, ctx.now())
            }
        })
    }

    /// Returns the end of a stream's playlist. `None`: it is not the stream whose playlist the session
    /// has. A stream that was removed grows no more.
    pub fn reached(&mut self, id: StreamId) -> Option<PlaylistPosition> {
        let is_played = self.is_played(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return Some(PlaylistPosition::ALL);
        };
        let has_ended = stream.buffer.end().is_some();
        let reached = match stream.buffer.segments().filter(|_| !has_ended) {
            Some(cutter) => cutter.reached(),
            None => PlaylistPosition::ALL,
        };
        is_played.then_some(reached)
    }

    /// Extends the time for which a stream counts as watched. An ended stream's time is not
    /// extended by requests.
    fn extend_watch(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.buffer.end().is_none()
            && let Some(cutter) = stream.buffer.segments()
        {
            stream.watched_until = Some(ctx.now() + cutter.watch_time());
            stream.rearm(id, ctx);
        }
    }

    /// Handles a stream whose playlist and segments nobody has asked for in a while.
    pub(super) fn watch_expired(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.watched_until = None;
            let session = stream.session.clone();
            ctx.notify(Event::SessionLeft(session));
        }
        self.tend(id, ctx);
    }

    /// Returns the answer to HEAD for a playlist that only GET would make.
    fn list_head(&self, id: StreamId, reply: Reply) -> WatchResponse {
        let stream = self.streams.get(id);
        let head = ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", LIST_TYPE)
            .field("Cache-Control", "no-store");
        WatchResponse::Whole(guarded(head, stream), reply)
    }

    /// Answers with an object: from memory at once, or with a range of the stream in its turn.
    fn respond_with(
        &mut self,
        (id, stream_id): (ConnectionId, StreamId),
        object: &Object,
        reply: Reply,
        now: Instant,
    ) -> WatchResponse {
        let stream = self.streams.get_mut(stream_id);
        let caching = match object.seconds.filter(|_| !reply.no_store) {
            None => "no-store".to_owned(),
            Some(seconds) if object.is_immutable => format!("public, max-age={seconds}, immutable"),
            Some(seconds) => format!("public, max-age={seconds}"),
        };
        let head = ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", object.media_type)
            .field("Content-Length", &object.content.bytes().to_string())
            .field("Cache-Control", &caching);
        let mut bytes = guarded(head, stream.as_deref());
        match (&object.content, stream) {
            (Content::Bytes(content), _) if !reply.head_only => bytes.extend_from_slice(content),
            (Content::Range { lead, from, to }, Some(stream)) if !reply.head_only => {
                let viewer = stream
                    .buffer
                    .join_range(id, (*from, *to), lead.clone(), now);
                stream.queue_for_writing(stream_id, &mut self.write_queue);
                let viewing = ViewerResponse::of_segment((stream_id, viewer), reply);
                return WatchResponse::Segment(bytes, viewing);
            }
            (Content::Bytes(_) | Content::Range { .. }, _) => {}
        }
        WatchResponse::Whole(bytes, reply)
    }
}

/// Finishes a head with the fields of every response that carries a stream.
fn guarded(head: ResponseHead, stream: Option<&Stream>) -> Vec<u8> {
    let head = head
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    match stream.and_then(|stream| stream.via.as_deref()) {
        Some(via) => head.field("Via", via).finish(),
        None => head.finish(),
    }
}
