//! What is found for who wants something: how it is sent, and how long a cache may keep it.

use std::rc::Rc;
use std::time::Duration;

use super::cutter::Cutter;
use super::list::MEDIA_TYPE;
use super::parts::PARTS_MAX;
use super::request::{BlockingReload, HlsRequest, PlaylistPosition, wrong};
use super::{LISTED_MIN, NoPlaylist};
use crate::http::{Refusal, Status};

/// What there is for who wants something of a stream.
#[derive(Debug)]
pub enum HlsResponse {
    /// This.
    Object(Object),
    /// It may be there within this time.
    NotYet(Duration),
    /// It is not to be had.
    Refused(Refusal),
}

/// Something that has an address, and is the same for all who ask for it.
#[derive(Debug)]
pub struct Object {
    /// Its media type.
    pub media_type: &'static str,
    /// So many seconds a cache may give it out; `None`: none is to keep it.
    pub seconds: Option<u64>,
    /// It never changes.
    pub is_immutable: bool,
    /// What it is.
    pub content: Content,
}

/// What is sent.
#[derive(Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Rc<[u8]>),
    /// A part of the stream, behind these bytes.
    Range {
        /// What stands in front.
        lead: Rc<Vec<u8>>,
        /// Its first offset,
        from: u64,
        /// and the one behind its last.
        to: u64,
    },
}

impl Content {
    /// How long it is.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Range { lead, from, to } => lead.len() as u64 + (to - from),
        }
    }
}

/// So far behind the newest segment another may be asked for.
const AHEAD_MAX: u64 = 2;
/// So far behind its newest part another of a segment may be asked for.
const PARTS_AHEAD_MAX: u64 = PARTS_MAX as u64;
/// How long a segment or a list is good in a cache at most: not much longer than a token that was revoked should let
/// anybody watch.
const WINDOW_SECONDS: u64 = 60;
/// Who has asked for a list or a segment is taken to watch for so many of the longest segments; as
/// long a list is good that was asked for by what it has.
const ATTENDANCE: u32 = 6;
/// A list is waited for as long as so many of them (section 6.2.5.2).
const WAITS: u32 = 3;

impl Cutter {
    /// What there is of what is wanted; `None`: nothing has this name, or not any more.
    pub fn find(&mut self, wanted: &HlsRequest, may_wait: bool) -> Option<HlsResponse> {
        match wanted {
            HlsRequest::List(ahead) => Some(
                self.find_list(*ahead, may_wait)
                    .unwrap_or_else(|otherwise| otherwise),
            ),
            HlsRequest::Named(name) => self.find_named(name, may_wait),
        }
    }

    /// How far the playlist has come: whoever waits for less is answered, be it with a refusal.
    pub fn reached(&self) -> PlaylistPosition {
        match (self.is_over(), self.newest_listed()) {
            (true, _) | (false, Err(NoPlaylist::Unfit(_) | NoPlaylist::TooLarge)) => {
                PlaylistPosition::ALL
            }
            (false, Err(NoPlaylist::TooFew)) => PlaylistPosition::NOTHING,
            // Where there are no parts, or none any more, nobody is to wait for one.
            (false, Ok(newest)) => {
                let parts = self.parts_whole().map(|parts| parts as u64);
                PlaylistPosition::to(newest + 1, parts.unwrap_or(u64::MAX))
            }
        }
    }

    /// Who has asked for a list or a segment watches it for so long.
    pub fn attendance(&self) -> Duration {
        self.target() * ATTENDANCE
    }

    fn find_list(
        &mut self,
        ahead: Option<BlockingReload>,
        may_wait: bool,
    ) -> Result<HlsResponse, HlsResponse> {
        let wait = |cutter: &Cutter| match (cutter.is_over(), may_wait) {
            (true, _) => HlsResponse::Refused(not_running()),
            (false, true) => HlsResponse::NotYet(cutter.target() * WAITS),
            (false, false) => HlsResponse::Refused(cutter.refusal(NoPlaylist::TooFew)),
        };
        let newest = match self.newest_listed() {
            Ok(newest) => newest,
            Err(NoPlaylist::TooFew) => return Err(wait(self)),
            Err(unlisted) => return Err(HlsResponse::Refused(self.refusal(unlisted))),
        };
        if let Some(ahead) = ahead {
            let parts = self.parts_whole().unwrap_or(0) as u64;
            let part = ahead.part.unwrap_or(0);
            if ahead.number > newest.saturating_add(AHEAD_MAX) || part > parts + PARTS_AHEAD_MAX {
                let detail = "_HLS_msn and _HLS_part lie too far ahead, by two segments or more";
                return Err(HlsResponse::Refused(wrong(detail)));
            }
            if !self.has(ahead, newest) && !self.is_over() {
                return Err(wait(self));
            }
        }
        let list = self.list();
        let list = list.map_err(|unlisted| HlsResponse::Refused(self.refusal(unlisted)))?;
        Ok(HlsResponse::Object(Object {
            media_type: MEDIA_TYPE,
            // What was asked for by its number stays as it is: newer segments are asked for by
            // theirs. Numbers of what is not there, or not any more, no player asks for, but who
            // wants a cache to keep the same list many times.
            seconds: match ahead {
                None => Some(1),
                Some(ahead) if self.is_awaited(ahead) => {
                    Some(self.attendance().as_secs().min(WINDOW_SECONDS))
                }
                Some(_) => None,
            },
            is_immutable: false,
            content: Content::Bytes(list),
        }))
    }

    /// Whether the list has this. A part of a segment that is whole is there, or never was; so it
    /// is where there are no parts.
    fn has(&self, ahead: BlockingReload, newest: u64) -> bool {
        let is_there = |part: u64| self.parts_whole().is_some_and(|whole| part < whole as u64);
        let of_next = ahead.part.filter(|_| ahead.number == newest + 1);
        ahead.number <= newest || of_next.is_some_and(is_there)
    }

    /// A segment, a part, or a map. The part that comes next may be waited for.
    fn find_named(&self, name: &str, may_wait: bool) -> Option<HlsResponse> {
        match self.part(name) {
            None => self.named(name, None).map(HlsResponse::Object),
            Some(None) if may_wait => Some(HlsResponse::NotYet(self.target() * WAITS)),
            Some(None) => None,
            Some(part) => self.named(name, part).map(HlsResponse::Object),
        }
    }

    fn named(&self, name: &str, part: Option<(u64, u64)>) -> Option<Object> {
        let media_type = self.kind()?.media_type();
        if let Some((from, to)) = part {
            return Some(Object {
                media_type,
                seconds: Some(WINDOW_SECONDS),
                is_immutable: true,
                content: Content::Range {
                    lead: Rc::default(),
                    from,
                    to,
                },
            });
        }
        let content = match self.map(name) {
            Some(map) => Content::Bytes(map.bytes.clone()),
            None => {
                let segment = self.segment(name)?;
                Content::Range {
                    lead: segment.lead.clone(),
                    from: segment.from,
                    to: segment.to,
                }
            }
        };
        Some(Object {
            media_type,
            seconds: Some(WINDOW_SECONDS),
            is_immutable: true,
            content,
        })
    }

    fn refusal(&self, unlisted: NoPlaylist) -> Refusal {
        let retry_after_seconds = self.target().as_secs() as u32;
        let busy =
            |detail: String| Refusal::busy(Status::ServiceUnavailable, detail, retry_after_seconds);
        match unlisted {
            NoPlaylist::Unfit(reason) => Refusal::new(
                Status::NotAcceptable,
                format!(
                    "the stream cannot be HLS: {reason}; MPEG-TS or fragmented MP4 with times, MP3 and AAC can, and with --remux \
                     FLV and Matroska; it goes out as it is where the path ends with its sessionid"
                ),
            ),
            NoPlaylist::TooFew => busy(format!(
                "the stream has not come so far: a playlist has {LISTED_MIN} whole segments at least"
            )),
            NoPlaylist::TooLarge => busy(format!(
                "{LISTED_MIN} segments do not fit into what is kept of the stream; a larger --buffer (or --buffers, where streams \
                 share it), fewer bits a second or key frames less far apart would do"
            )),
        }
    }
}

fn not_running() -> Refusal {
    Refusal::new(Status::NotFound, "this session is not running now")
}
