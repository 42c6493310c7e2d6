//! Playlists and segments over HTTP: a stream that runs, or has ended not long ago, is given out in
//! the pieces that [`crate::hls`] finds in it.
//!
//! A playlist is made once for all who ask; a segment goes out like a stream, to a viewer that has
//! an end. Nothing is kept for who watches so, between two requests not even its name: that anybody
//! does is known by the stream ([`Live::attended_until`]).

use super::viewer::{STREAM_POLICY, Viewing};
use super::{Said, Streams};
use crate::gate::SessionId;
use crate::hls::{Cutter, LISTED_MIN, MEDIA_TYPE, Segment, Unlisted};
use crate::http::{Parameter, Refusal, Reply, ResponseHead, Status, Target};
use crate::moment::Moment;
use crate::relay::RETRY_AFTER_SECONDS;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::{ConnectionId, LiveId};

/// What is wanted of a stream's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The playlist, when it has the segment of this number, if one is named.
    List { number: Option<u64> },
    /// What has this name: a segment, or a map.
    Named(Box<str>),
}

/// How a request for one of them is answered.
pub enum Played {
    /// With all of it.
    Whole(Vec<u8>),
    /// With a segment, behind this head.
    Segment(Vec<u8>, Viewing),
    /// It is not to be had.
    Refused(Refusal),
    /// The list may have it until then.
    NotYet(Moment),
    /// The session does not run.
    Absent,
}

const LIST: &str = "index.m3u8";
/// Names are shorter.
const NAME_BYTES_MAX: usize = 64;
/// Directives of a player (draft-pantos-hls-rfc8216bis section 6.2.5). Those of what a list here
/// does not offer are none of a player's that has read it, and ask for nothing.
const BLOCK: &str = "_HLS_msn";
const OTHER_DIRECTIVES: [&str; 2] = ["_HLS_part", "_HLS_skip"];
/// So far behind the newest segment another may be asked for.
const AHEAD_MAX: u64 = 2;
/// How long a segment is good in a cache: not much longer than a token that was revoked should let
/// anybody watch.
const WINDOW_SECONDS: u64 = 60;
/// Who has asked for a list or a segment is taken to watch for so many of the longest segments.
const ATTENDANCE: u32 = 6;
/// A list is waited for as long as so many of them (section 6.2.5.2).
const WAITS: u32 = 3;

impl Wanted {
    /// What a path ends with; `None` if it can be none of them.
    pub fn of(file: &[u8], target: &Target) -> Option<Result<Wanted, Refusal>> {
        let name = std::str::from_utf8(file).ok()?;
        if name == LIST {
            return Some(Wanted::list(target));
        }
        let is_name = name.len() <= NAME_BYTES_MAX && name.contains('-') && name.contains('.');
        let has_none = target.parameters().next().is_none();
        is_name.then(|| match has_none {
            true => Ok(Wanted::Named(name.into())),
            false => Err(wrong("a segment has no parameters")),
        })
    }

    fn list(target: &Target) -> Result<Wanted, Refusal> {
        let mut number = None;
        let mut has_others = false;
        for Parameter { name, value } in target.parameters() {
            if OTHER_DIRECTIVES.contains(&name) {
                has_others = true;
                continue;
            }
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let value = value.parse().ok().filter(|_| digits);
            if name != BLOCK || number.is_some() || value.is_none() {
                return Err(wrong(
                    "a playlist's one parameter is _HLS_msn, a number of digits",
                ));
            }
            number = value;
        }
        match (number, has_others) {
            (None, true) => Err(wrong("_HLS_part and _HLS_skip go with _HLS_msn only")),
            (number, _) => Ok(Wanted::List { number }),
        }
    }

    /// Whether a session that does not run may be waited for: a segment of it has no name yet.
    pub fn can_wait(&self) -> bool {
        matches!(self, Wanted::List { .. })
    }
}

impl Streams {
    /// Whether there are segments of a session, though it may have ended.
    pub fn has_segments(&self, session: &SessionId) -> bool {
        self.segmented(session).next().is_some()
    }

    /// The session's streams, the running one first.
    fn segmented(&self, session: &SessionId) -> impl Iterator<Item = LiveId> {
        let attended = |id: &LiveId| {
            let live = self.lives.get(*id);
            live.is_some_and(|live| live.attended_until.is_some())
        };
        let draining: Vec<LiveId> = self.draining.of(session).filter(attended).collect();
        let running = self.running.get(session).copied();
        running.into_iter().chain(draining.into_iter().rev())
    }

    /// Answers a client that wants a session's playlist, a segment, or a map. `may_wait`: it has
    /// not waited in vain.
    pub fn play(
        &mut self,
        id: ConnectionId,
        (session, wanted): (&SessionId, &Wanted),
        (reply, may_wait): (Reply, bool),
        desk: &mut Desk,
    ) -> Played {
        let lives: Vec<LiveId> = self.segmented(session).collect();
        let Some(newest) = lives.first() else {
            return Played::Absent;
        };
        match wanted {
            Wanted::List { number } => {
                self.attend(*newest, desk);
                desk.counts.add(Count::Playlists, 1);
                let may_wait = may_wait && !reply.head_only;
                self.playlist(*newest, *number, (reply, may_wait), desk)
            }
            Wanted::Named(name) => {
                desk.counts.add(Count::Segments, 1);
                let found = lives
                    .into_iter()
                    .find_map(|live| self.named(id, live, name, &reply));
                let Some((live, played)) = found else {
                    return Played::Refused(Refusal::new(
                        Status::NotFound,
                        "no segment of the session has this name, or not any more",
                    ));
                };
                self.attend(live, desk);
                self.flow(live);
                played
            }
        }
    }

    /// Somebody watches a stream by its playlist.
    fn attend(&mut self, id: LiveId, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id)
            && let Some(cutter) = live.stream.segments()
        {
            live.attended_until = Some(desk.now + cutter.target() * ATTENDANCE);
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
        self.rearm(id, desk);
        self.tend(id, desk);
    }

    fn playlist(
        &mut self,
        id: LiveId,
        number: Option<u64>,
        (reply, may_wait): (Reply, bool),
        desk: &Desk,
    ) -> Played {
        let live = self.lives.get_mut(id);
        let Some((cutter, via, has_ended)) = live.and_then(|live| {
            let has_ended = live.stream.end().is_some();
            Some((live.stream.segments()?, live.via.as_deref(), has_ended))
        }) else {
            return Played::Absent;
        };
        let wait = |cutter: &Cutter| match (has_ended, may_wait) {
            (true, _) => Played::Absent,
            (false, true) => Played::NotYet(desk.now + cutter.target() * WAITS),
            (false, false) => Played::Refused(too_early()),
        };
        let newest = match cutter.newest_listed() {
            Ok(newest) => newest,
            Err(Unlisted::TooFew(_)) => return wait(cutter),
            Err(unlisted) => return Played::Refused(refusal(unlisted)),
        };
        match number {
            Some(number) if number > newest.saturating_add(AHEAD_MAX) => {
                return Played::Refused(wrong("_HLS_msn lies more than two segments ahead"));
            }
            Some(number) if number > newest && !has_ended => return wait(cutter),
            Some(_) | None => {}
        }
        let list = match cutter.list() {
            Ok(list) => list,
            Err(unlisted) => return Played::Refused(refusal(unlisted)),
        };
        // What was asked for by its number stays as it is: newer segments are asked for by theirs.
        let seconds = match number {
            Some(_) => cutter.target().as_secs() * u64::from(ATTENDANCE),
            None => 1,
        };
        let caching = format!("public, max-age={seconds}");
        let mut bytes = head(&reply, MEDIA_TYPE, list.len() as u64, &caching, via);
        if !reply.head_only {
            bytes.extend_from_slice(&list);
        }
        Played::Whole(bytes)
    }

    /// A segment or a map of this stream, if it has one of this name.
    fn named(
        &mut self,
        id: ConnectionId,
        live_id: LiveId,
        name: &str,
        reply: &Reply,
    ) -> Option<(LiveId, Played)> {
        let live = self.lives.get_mut(live_id)?;
        let cutter = live.stream.segments()?;
        let media_type = cutter.kind()?.media_type();
        let caching = format!("public, max-age={WINDOW_SECONDS}, immutable");
        let found: Result<Segment, _> = match cutter.map(name) {
            Some(map) => Err(map.clone()),
            None => Ok(cutter.segment(name)?.clone()),
        };
        let via = live.via.as_deref();
        let played = match found {
            Err(map) => {
                let length = map.bytes.len() as u64;
                let mut bytes = head(reply, media_type, length, &caching, via);
                if !reply.head_only {
                    bytes.extend_from_slice(&map.bytes);
                }
                Played::Whole(bytes)
            }
            Ok(segment) => {
                let head = head(reply, media_type, segment.bytes(), &caching, via);
                if reply.head_only {
                    return Some((live_id, Played::Whole(head)));
                }
                let viewer = live.stream.join_segment(id, &segment);
                Played::Segment(head, Viewing::of_segment((live_id, viewer), *reply))
            }
        };
        Some((live_id, played))
    }
}

fn head(reply: &Reply, media_type: &str, length: u64, caching: &str, via: Option<&str>) -> Vec<u8> {
    let head = ResponseHead::new(Status::Ok, reply)
        .field("Content-Type", media_type)
        .field("Content-Length", &length.to_string())
        .field("Cache-Control", caching)
        .field("X-Content-Type-Options", "nosniff")
        .field("Content-Security-Policy", STREAM_POLICY);
    match via {
        Some(via) => head.field("Via", via).finish(),
        None => head.finish(),
    }
}

fn wrong(detail: &str) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}

fn too_early() -> Refusal {
    let detail = format!(
        "the stream has not come so far: a playlist has {LISTED_MIN} whole segments at least"
    );
    Refusal::busy(Status::ServiceUnavailable, detail, RETRY_AFTER_SECONDS)
}

fn refusal(unlisted: Unlisted) -> Refusal {
    match unlisted {
        Unlisted::Unfit(reason) => Refusal::new(
            Status::NotAcceptable,
            format!(
                "the stream cannot be HLS: {reason}; MPEG-TS or fragmented MP4 with times, MP3 and AAC can; it goes out as it is \
                 where the path ends with its sessionid"
            ),
        ),
        Unlisted::TooFew(_) => too_early(),
        Unlisted::TooLarge => Refusal::busy(
            Status::ServiceUnavailable,
            format!(
                "{LISTED_MIN} segments do not fit into the stream's buffer; a larger --buffer, fewer bits a second or key frames less \
                 far apart would do"
            ),
            RETRY_AFTER_SECONDS,
        ),
    }
}
