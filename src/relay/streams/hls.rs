//! Playlists and segments over HTTP: a stream that runs, or has ended not long ago, is given out in
//! the pieces that [`crate::hls`] finds in it.
//!
//! A playlist is made once for all who ask; a segment goes out like a stream, to a viewer that has
//! an end. Nothing is kept for who watches so, between two requests not even its name: that anybody
//! does is known by the stream ([`Stream::attended_until`]).

#[cfg(test)]
mod tests;

use super::Streams;
use super::viewer::{STREAM_POLICY, Viewing, WatchResponse};
use crate::gate::SessionId;
use crate::hls::{Content, HlsRequest, HlsResponse, LIST_TYPE, Object, PlaylistPosition};
use crate::http::{Refusal, Reply, ResponseHead, Status};
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, StreamId};
use crate::time::Instant;

impl Streams {
    /// The session's streams, the running one first. Where origins say who may watch, what has
    /// ended is not given out: nobody would be asked.
    fn segmented(&self, session: &SessionId, asks_origin: bool) -> impl Iterator<Item = StreamId> {
        let is_attended = |id| {
            let stream = self.streams.get(id);
            stream.is_some_and(|stream| stream.attended_until.is_some())
        };
        let attended = |id: &StreamId| !asks_origin && self.with_shadows(*id).any(is_attended);
        let draining: Vec<StreamId> = self.draining.of(session).filter(attended).collect();
        let running = self.running.get(session).copied();
        running.into_iter().chain(draining.into_iter().rev())
    }

    /// Answers a client that wants a session's playlist, a segment, or a map; `None`: the session
    /// does not run.
    pub fn play(
        &mut self,
        id: ConnectionId,
        (session, wanted): (&SessionId, &HlsRequest),
        (reply, may_wait): (Reply, bool),
        ctx: &mut Context,
    ) -> Option<WatchResponse> {
        let mut streams: Vec<StreamId> = self
            .segmented(session, ctx.settings().asks_origin)
            .collect();
        let newest = *streams.first()?;
        streams = match wanted.is_list() {
            true => match self.playable(newest, reply.head_only, ctx) {
                Ok(Some(newest)) => vec![newest],
                Ok(None) => return Some(self.list_head(newest, reply)),
                Err(refusal) => return Some(WatchResponse::Refused(refusal)),
            },
            false => {
                let streams = streams.into_iter();
                streams.flat_map(|id| self.with_shadows(id)).collect()
            }
        };
        if wanted.is_list() {
            streams.iter().for_each(|id| self.attend(*id, ctx));
        }
        let may_wait = may_wait && !reply.head_only;
        let found = streams.into_iter().find_map(|id| {
            let cutter = self.streams.get_mut(id)?.buffer.segments()?;
            Some((id, cutter.find(wanted, may_wait)?))
        });
        // Who waits is counted when it is answered.
        if !matches!(found, Some((_, HlsResponse::NotYet(_)))) {
            let count = match wanted.is_list() {
                true => Count::Playlists,
                false => Count::Segments,
            };
            ctx.count(count, 1);
        }
        let Some((stream, found)) = found else {
            return Some(WatchResponse::Refused(no_segment()));
        };
        Some(match found {
            HlsResponse::NotYet(time) => WatchResponse::NotYet(ctx.now() + time),
            HlsResponse::Refused(refusal) => WatchResponse::Refused(refusal),
            HlsResponse::Object(object) => {
                self.attend(stream, ctx);
                self.give_out((id, stream), &object, reply, ctx.now())
            }
        })
    }

    /// How far a stream's playlist has come, and of which session it is the playlist; `None`: it is
    /// none's.
    pub fn reached(&mut self, id: StreamId) -> Option<(SessionId, PlaylistPosition)> {
        let is_played = self.is_played(id);
        let stream = self.streams.get_mut(id).filter(|_| is_played)?;
        let has_ended = stream.buffer.end().is_some();
        let reached = match stream.buffer.segments().filter(|_| !has_ended) {
            Some(cutter) => cutter.reached(),
            None => PlaylistPosition::ALL,
        };
        Some((stream.session.clone(), reached))
    }

    /// Somebody watches a stream by its playlist. What has ended is there for a while, however
    /// often it is asked for.
    fn attend(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.buffer.end().is_none()
            && let Some(cutter) = stream.buffer.segments()
        {
            stream.attended_until = Some(ctx.now() + cutter.attendance());
            self.rearm(id, ctx);
        }
    }

    /// Nobody has asked for long: who watches it, if anybody, does so otherwise.
    pub(super) fn unattended(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.attended_until = None;
            let session = stream.session.clone();
            ctx.notify(Event::PlaylistAbandoned(session));
        }
        self.tend(id, ctx);
    }

    /// The head alone of a playlist that would have to be made first, for who wants nothing of it.
    fn list_head(&self, id: StreamId, reply: Reply) -> WatchResponse {
        let via = self
            .streams
            .get(id)
            .and_then(|stream| stream.via.as_deref());
        let head = ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", LIST_TYPE)
            .field("Cache-Control", "no-store");
        WatchResponse::Whole(guarded(head, via), reply)
    }

    /// An object of a stream goes out: from memory at once, a part of the stream in its turn.
    fn give_out(
        &mut self,
        (id, live_id): (ConnectionId, StreamId),
        object: &Object,
        reply: Reply,
        now: Instant,
    ) -> WatchResponse {
        let stream = self.streams.get_mut(live_id);
        let via = stream.as_ref().and_then(|stream| stream.via.as_deref());
        let mut bytes = head(object, via, &reply);
        match (&object.content, stream) {
            (Content::Bytes(content), _) if !reply.head_only => bytes.extend_from_slice(content),
            (Content::Range { lead, from, to }, Some(stream)) if !reply.head_only => {
                let viewer = stream
                    .buffer
                    .join_range(id, (*from, *to), lead.clone(), now);
                self.flow(live_id);
                let viewing = Viewing::of_segment((live_id, viewer), reply);
                return WatchResponse::Segment(bytes, viewing);
            }
            (Content::Bytes(_) | Content::Range { .. }, _) => {}
        }
        WatchResponse::Whole(bytes, reply)
    }
}

fn head(object: &Object, via: Option<&str>, reply: &Reply) -> Vec<u8> {
    let caching = match object.seconds.filter(|_| !reply.no_store) {
        None => "no-store".to_owned(),
        Some(seconds) if object.is_immutable => format!("public, max-age={seconds}, immutable"),
        Some(seconds) => format!("public, max-age={seconds}"),
    };
    let head = ResponseHead::new(Status::Ok, reply)
        .field("Content-Type", object.media_type)
        .field("Content-Length", &object.content.bytes().to_string())
        .field("Cache-Control", &caching);
    guarded(head, via)
}

/// With what stands in the head of whatever is a stream's.
fn guarded(head: ResponseHead, via: Option<&str>) -> Vec<u8> {
    let head = head
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    match via {
        Some(via) => head.field("Via", via).finish(),
        None => head.finish(),
    }
}

fn no_segment() -> Refusal {
    let detail = "no segment of the session has this name, or not any more";
    Refusal::new(Status::NotFound, detail)
}
