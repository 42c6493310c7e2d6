//! Playlists and segments over HTTP: a stream that runs, or has ended not long ago, is given out in
//! the pieces that [`crate::hls`] finds in it.
//!
//! A playlist is made once for all who ask; a segment goes out like a stream, to a viewer that has
//! an end. Nothing is kept for who watches so, between two requests not even its name: that anybody
//! does is known by the stream ([`Live::attended_until`]).

#[cfg(test)]
mod tests;

use super::viewer::{STREAM_POLICY, Viewing, Watched};
use super::{Said, Streams};
use crate::gate::SessionId;
use crate::hls::{Content, Found, LIST_TYPE, Object, Reach, Wanted};
use crate::http::{Refusal, Reply, ResponseHead, Status};
use crate::moment::Moment;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::{ConnectionId, LiveId};

impl Streams {
    /// The session's streams, the running one first. Where origins say who may watch, what has
    /// ended is not given out: nobody would be asked.
    fn segmented(&self, session: &SessionId, asks_origin: bool) -> impl Iterator<Item = LiveId> {
        let is_attended = |id| {
            let live = self.lives.get(id);
            live.is_some_and(|live| live.attended_until.is_some())
        };
        let attended = |id: &LiveId| !asks_origin && self.with_shadows(*id).any(is_attended);
        let draining: Vec<LiveId> = self.draining.of(session).filter(attended).collect();
        let running = self.running.get(session).copied();
        running.into_iter().chain(draining.into_iter().rev())
    }

    /// Answers a client that wants a session's playlist, a segment, or a map; `None`: the session
    /// does not run.
    pub fn play(
        &mut self,
        id: ConnectionId,
        (session, wanted): (&SessionId, &Wanted),
        (reply, may_wait): (Reply, bool),
        desk: &mut Desk,
    ) -> Option<Watched> {
        let mut lives: Vec<LiveId> = self
            .segmented(session, desk.settings().asks_origin)
            .collect();
        let newest = *lives.first()?;
        lives = match wanted.is_list() {
            true => match self.playable(newest, reply.head_only, desk) {
                Ok(Some(newest)) => vec![newest],
                Ok(None) => return Some(self.list_head(newest, reply)),
                Err(refusal) => return Some(Watched::Refused(refusal)),
            },
            false => {
                let lives = lives.into_iter();
                lives.flat_map(|id| self.with_shadows(id)).collect()
            }
        };
        if wanted.is_list() {
            lives.iter().for_each(|id| self.attend(*id, desk));
        }
        let may_wait = may_wait && !reply.head_only;
        let found = lives.into_iter().find_map(|id| {
            let cutter = self.lives.get_mut(id)?.stream.segments()?;
            Some((id, cutter.find(wanted, may_wait)?))
        });
        // Who waits is counted when it is answered.
        if !matches!(found, Some((_, Found::NotYet(_)))) {
            let count = match wanted.is_list() {
                true => Count::Playlists,
                false => Count::Segments,
            };
            desk.count(count, 1);
        }
        let Some((live, found)) = found else {
            return Some(Watched::Refused(no_segment()));
        };
        Some(match found {
            Found::NotYet(time) => Watched::NotYet(desk.now() + time),
            Found::Refused(refusal) => Watched::Refused(refusal),
            Found::Object(object) => {
                self.attend(live, desk);
                self.give_out((id, live), &object, reply, desk.now())
            }
        })
    }

    /// How far a stream's playlist has come, and of which session it is the playlist; `None`: it is
    /// none's.
    pub fn reached(&mut self, id: LiveId) -> Option<(SessionId, Reach)> {
        let is_played = self.is_played(id);
        let live = self.lives.get_mut(id).filter(|_| is_played)?;
        let has_ended = live.stream.end().is_some();
        let reached = match live.stream.segments().filter(|_| !has_ended) {
            Some(cutter) => cutter.reached(),
            None => Reach::ALL,
        };
        Some((live.session.clone(), reached))
    }

    /// Somebody watches a stream by its playlist. What has ended is there for a while, however
    /// often it is asked for.
    fn attend(&mut self, id: LiveId, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id)
            && live.stream.end().is_none()
            && let Some(cutter) = live.stream.segments()
        {
            live.attended_until = Some(desk.now() + cutter.attendance());
            self.rearm(id, desk);
        }
    }

    /// Nobody has asked for long: who watches it, if anybody, does so otherwise.
    pub(super) fn unattended(&mut self, id: LiveId, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id) {
            live.attended_until = None;
            let session = live.session.clone();
            self.say(Said::Unattended(session));
        }
        self.tend(id, desk);
    }

    /// The head alone of a playlist that would have to be made first, for who wants nothing of it.
    fn list_head(&self, id: LiveId, reply: Reply) -> Watched {
        let via = self.lives.get(id).and_then(|live| live.via.as_deref());
        let head = ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", LIST_TYPE)
            .field("Cache-Control", "no-store");
        Watched::Whole(guarded(head, via), reply)
    }

    /// An object of a stream goes out: from memory at once, a part of the stream in its turn.
    fn give_out(
        &mut self,
        (id, live_id): (ConnectionId, LiveId),
        object: &Object,
        reply: Reply,
        now: Moment,
    ) -> Watched {
        let live = self.lives.get_mut(live_id);
        let via = live.as_ref().and_then(|live| live.via.as_deref());
        let mut bytes = head(object, via, &reply);
        match (&object.content, live) {
            (Content::Bytes(content), _) if !reply.head_only => bytes.extend_from_slice(content),
            (Content::Range { lead, from, to }, Some(live)) if !reply.head_only => {
                let viewer = live.stream.join_range(id, (*from, *to), lead.clone(), now);
                self.flow(live_id);
                let viewing = Viewing::of_segment((live_id, viewer), reply);
                return Watched::Segment(bytes, viewing);
            }
            (Content::Bytes(_) | Content::Range { .. }, _) => {}
        }
        Watched::Whole(bytes, reply)
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
