//! Playlists and segments over HTTP, of a stream that runs or ended recently. [`crate::hls`] finds
//! the segments.
//!
//! A playlist is made once for all players. A segment goes out like a stream, to a viewer that
//! stops at the segment's end. The server keeps nothing about a player between two requests, not
//! even a name. The stream knows only until when it counts as watched ([`Stream::attended_until`]).

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
    /// Returns the session's streams, the running one first. Where origins admit viewers, ended
    /// streams are left out: there is no origin to ask.
    fn segmented(&self, session: &SessionId, asks_origin: bool) -> impl Iterator<Item = StreamId> {
        let is_attended = |id| {
            let stream = self.streams.get(id);
            stream.is_some_and(|stream| stream.attended_until.is_some())
        };
        let attended = |id: &StreamId| !asks_origin && self.with_remuxed(*id).any(is_attended);
        let draining: Vec<StreamId> = self.draining.of(session).filter(attended).collect();
        let running = self.running.get(session).copied();
        running.into_iter().chain(draining.into_iter().rev())
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
                streams.flat_map(|id| self.with_remuxed(id)).collect()
            }
        };
        if wanted.is_list() {
            streams.iter().for_each(|id| self.attend(*id, ctx));
        }
        let may_wait = may_wait && !reply.head_only;
        let titles = self.streams.get(newest)?.programme.titles.clone();
        let found = streams.into_iter().find_map(|id| {
            let cutter = self.streams.get_mut(id)?.buffer.segments()?;
            Some((id, cutter.find(wanted, may_wait, &titles)?))
        });
        // A request that waits is counted when it is answered.
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

    /// Returns a stream's session and the end of its playlist. `None`: it is not the stream whose
    /// playlist the session has.
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

    /// Extends the time for which a stream counts as watched. An ended stream's time is not
    /// extended by requests.
    fn attend(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.buffer.end().is_none()
            && let Some(cutter) = stream.buffer.segments()
        {
            stream.attended_until = Some(ctx.now() + cutter.attendance());
            self.rearm(id, ctx);
        }
    }

    /// Handles a stream whose playlist and segments nobody has asked for in a while.
    pub(super) fn unattended(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.attended_until = None;
            let session = stream.session.clone();
            ctx.notify(Event::SessionLeft(session));
        }
        self.tend(id, ctx);
    }

    /// Returns the answer to HEAD for a playlist that only GET would make.
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

    /// Answers with an object: from memory at once, or with a range of the stream in its turn.
    fn give_out(
        &mut self,
        (id, stream_id): (ConnectionId, StreamId),
        object: &Object,
        reply: Reply,
        now: Instant,
    ) -> WatchResponse {
        let stream = self.streams.get_mut(stream_id);
        let via = stream.as_ref().and_then(|stream| stream.via.as_deref());
        let mut bytes = head(object, via, &reply);
        match (&object.content, stream) {
            (Content::Bytes(content), _) if !reply.head_only => bytes.extend_from_slice(content),
            (Content::Range { lead, from, to }, Some(stream)) if !reply.head_only => {
                let viewer = stream
                    .buffer
                    .join_range(id, (*from, *to), lead.clone(), now);
                self.flow(stream_id);
                let viewing = Viewing::of_segment((stream_id, viewer), reply);
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

/// Finishes a head with the fields of every response that carries a stream.
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
