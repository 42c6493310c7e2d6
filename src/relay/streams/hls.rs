//! Playlists and segments over HTTP: a stream that runs, or has ended not long ago, is given out in
//! the pieces that [`crate::hls`] finds in it.
//!
//! A playlist is made once for all who ask; a segment goes out like a stream, to a viewer that has
//! an end. Nothing is kept for who watches so, between two requests not even its name: that anybody
//! does is known by the stream ([`Live::attended_until`]).

use super::viewer::{STREAM_POLICY, Viewing, Watched};
use super::{Said, Streams};
use crate::gate::SessionId;
use crate::hls::{Cutter, LISTED_MIN, MEDIA_TYPE, Unlisted};
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
    /// The session's streams, the running one first. Where origins say who may watch, what has
    /// ended is not given out: nobody would be asked.
    fn segmented(&self, session: &SessionId, asks_origin: bool) -> impl Iterator<Item = LiveId> {
        let attended = |id: &LiveId| {
            let live = self.lives.get(*id);
            !asks_origin && live.is_some_and(|live| live.attended_until.is_some())
        };
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
        let lives: Vec<LiveId> = self
            .segmented(session, desk.settings().asks_origin)
            .collect();
        let newest = *lives.first()?;
        match wanted {
            Wanted::List { number } => {
                self.attend(newest, desk);
                desk.count(Count::Playlists, 1);
                let may_wait = may_wait && !reply.head_only;
                let list = self.playlist(newest, *number, (reply, may_wait), desk.now());
                Some(list.unwrap_or_else(|otherwise| otherwise))
            }
            Wanted::Named(name) => {
                desk.count(Count::Segments, 1);
                let mut named = lives.iter();
                let now = desk.now();
                let found = named
                    .find_map(|live| Some((*live, self.named(id, *live, (name, now), &reply)?)));
                if let Some((live, _)) = found {
                    self.attend(live, desk);
                    self.flow(live);
                }
                let missing = || Watched::Refused(no_segment());
                Some(found.map_or_else(missing, |(_, watched)| watched))
            }
        }
    }

    /// Somebody watches a stream by its playlist.
    fn attend(&mut self, id: LiveId, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id)
            && live.stream.end().is_none()
            && let Some(cutter) = live.stream.segments()
        {
            live.attended_until = Some(desk.now() + cutter.target() * ATTENDANCE);
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

    /// A stream's playlist, or what is to be said instead.
    fn playlist(
        &mut self,
        id: LiveId,
        number: Option<u64>,
        (reply, may_wait): (Reply, bool),
        now: Moment,
    ) -> Result<Watched, Watched> {
        let live = self.lives.get_mut(id).ok_or_else(not_running)?;
        let (via, has_ended) = (live.via.as_deref(), live.stream.end().is_some());
        let cutter = live.stream.segments().ok_or_else(not_running)?;
        let wait = |cutter: &Cutter| match (has_ended, may_wait) {
            (true, _) => not_running(),
            (false, true) => Watched::NotYet(now + cutter.target() * WAITS),
            (false, false) => Watched::Refused(too_early()),
        };
        let newest = match cutter.newest_listed() {
            Ok(newest) => newest,
            Err(Unlisted::TooFew(_)) => return Err(wait(cutter)),
            Err(unlisted) => return Err(Watched::Refused(refusal(unlisted))),
        };
        match number {
            Some(number) if number > newest.saturating_add(AHEAD_MAX) => {
                let detail = "_HLS_msn lies more than two segments ahead";
                return Err(Watched::Refused(wrong(detail)));
            }
            Some(number) if number > newest && !has_ended => return Err(wait(cutter)),
            Some(_) | None => {}
        }
        let list = cutter.list();
        let list = list.map_err(|unlisted| Watched::Refused(refusal(unlisted)))?;
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
        Ok(Watched::Whole(bytes, reply))
    }

    /// A segment or a map of this stream, if it has one of this name.
    fn named(
        &mut self,
        id: ConnectionId,
        live_id: LiveId,
        (name, now): (&str, Moment),
        reply: &Reply,
    ) -> Option<Watched> {
        let live = self.lives.get_mut(live_id)?;
        let via = live.via.clone();
        let cutter = live.stream.segments()?;
        let media_type = cutter.kind()?.media_type();
        let caching = format!("public, max-age={WINDOW_SECONDS}, immutable");
        let head = |length| head(reply, media_type, length, &caching, via.as_deref());
        if let Some(map) = cutter.map(name) {
            let mut bytes = head(map.bytes.len() as u64);
            if !reply.head_only {
                bytes.extend_from_slice(&map.bytes);
            }
            return Some(Watched::Whole(bytes, *reply));
        }
        let segment = cutter.segment(name)?.clone();
        let head = head(segment.bytes());
        if reply.head_only {
            return Some(Watched::Whole(head, *reply));
        }
        let viewer = live.stream.join_segment(id, &segment, now);
        let viewing = Viewing::of_segment((live_id, viewer), *reply);
        Some(Watched::Segment(head, viewing))
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

fn not_running() -> Watched {
    let detail = "this session is not running now";
    Watched::Refused(Refusal::new(Status::NotFound, detail))
}

fn no_segment() -> Refusal {
    let detail = "no segment of the session has this name, or not any more";
    Refusal::new(Status::NotFound, detail)
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
