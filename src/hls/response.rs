//! Answers to HLS requests: the content, its media type, and how long a cache may keep it.

use std::rc::Rc;
use std::time::Duration;

use super::cutter::Cutter;
use super::list::MEDIA_TYPE;
use super::object::{Content, HlsResponse, Object};
use super::parts::PARTS_MAX;
use super::request::{BlockingReload, HlsRequest, PlaylistPosition, wrong};
use super::{LISTED_MIN, NoPlaylist};
use crate::clean_text::TitleChange;
use crate::http::{Refusal, Status};

/// A blocking reload may name a segment at most this many after the newest one.
const AHEAD_MAX: u64 = 2;
/// A blocking reload may name a part at most this many after the newest part.
const PARTS_AHEAD_MAX: u64 = PARTS_MAX as u64;
/// Longest time in seconds that a cache may keep a segment or a playlist. A revoked token does not
/// reach caches, so this bounds how long it still works there.
const WINDOW_SECONDS: u64 = 60;
/// A stream counts as watched for this many target durations after a request for a list or a segment.
/// A cache may keep the answer to a blocking reload as long. For `max-viewers`, an address counts for
/// another time.
const ATTENDANCE: u32 = 6;
/// A blocking reload waits for at most this many target durations (section 6.2.5.2).
const WAITS: u32 = 3;

impl Cutter {
    /// Finds the requested object. Returns `None` if nothing has this name, or not any more.
    /// `titles`: the stream's newest ones.
    pub fn find(
        &mut self,
        wanted: &HlsRequest,
        may_wait: bool,
        titles: &[TitleChange],
    ) -> Option<HlsResponse> {
        match wanted {
            HlsRequest::List(ahead) => Some(self.find_list(*ahead, may_wait, titles)),
            HlsRequest::Named(name) => self.find_named(name, may_wait),
        }
    }

    /// Returns the position that the playlist has reached. Requests for less are answered, possibly
    /// with a refusal.
    pub fn reached(&self) -> PlaylistPosition {
        match (self.is_over(), self.newest_listed()) {
            (true, _) | (false, Err(NoPlaylist::Unfit(_) | NoPlaylist::TooLarge)) => {
                PlaylistPosition::ALL
            }
            (false, Err(NoPlaylist::TooFew)) => PlaylistPosition::NOTHING,
            // Without parts no request waits for one.
            (false, Ok(newest)) => {
                let parts = self.parts_whole().map(|parts| parts as u64);
                PlaylistPosition::to(newest + 1, parts.unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns how long the stream counts as watched after a request for a list or a segment.
    pub fn watch_time(&self) -> Duration {
        self.target() * ATTENDANCE
    }

    fn find_list(
        &mut self,
        ahead: Option<BlockingReload>,
        may_wait: bool,
        titles: &[TitleChange],
    ) -> HlsResponse {
        let wait =
            |cutter: &Cutter, in_vain: fn(&Cutter) -> Refusal| match (cutter.is_over(), may_wait) {
                (true, _) => HlsResponse::Over,
                (false, true) => HlsResponse::NotYet(cutter.target() * WAITS),
                (false, false) => HlsResponse::Refused(in_vain(cutter)),
            };
        let newest = match self.newest_listed() {
            Ok(newest) => newest,
            Err(NoPlaylist::TooFew) => return wait(self, |it| it.refusal(NoPlaylist::TooFew)),
            Err(unlisted) => return HlsResponse::Refused(self.refusal(unlisted)),
        };
        if let Some(ahead) = ahead {
            let parts = self.parts_whole().unwrap_or(0) as u64;
            let part = ahead.part.unwrap_or(0);
            if ahead.number > newest.saturating_add(AHEAD_MAX) || part > parts + PARTS_AHEAD_MAX {
                let detail = "_HLS_msn and _HLS_part are two segments or more ahead; ask for the next segment or part";
                return HlsResponse::Refused(wrong(detail));
            }
            if !self.has(ahead, newest) && !self.is_over() {
                // Its stream may be held.
                return wait(self, |it| {
                    it.busy("the next segment or part has not come in time; its source may have broken off")
                });
            }
        }
        let list = match self.list(titles) {
            Ok(list) => list,
            Err(unlisted) => return HlsResponse::Refused(self.refusal(unlisted)),
        };
        HlsResponse::Object(Object {
            media_type: MEDIA_TYPE,
            // The answer to a blocking reload stays as it is, since players ask for newer segments
            // by their numbers. No player asks for numbers outside of the list. Somebody who does
            // wants a cache to keep the same list many times.
            seconds: match ahead {
                None => Some(1),
                Some(ahead) if self.is_awaited(ahead) => {
                    Some(self.watch_time().as_secs().min(WINDOW_SECONDS))
                }
                Some(_) => None,
            },
            is_immutable: false,
            content: Content::Bytes(list),
        })
    }

    /// Returns whether the list has this segment or part. It counts as there if its segment is
    /// complete, also if the segment has fewer parts or none.
    fn has(&self, ahead: BlockingReload, newest: u64) -> bool {
        let is_there = |part: u64| self.parts_whole().is_some_and(|whole| part < whole as u64);
        let of_next = ahead.part.filter(|_| ahead.number == newest + 1);
        ahead.number <= newest || of_next.is_some_and(is_there)
    }

    /// Finds a segment, a part or a map. A request for the next part may wait for it.
    fn find_named(&self, name: &str, may_wait: bool) -> Option<HlsResponse> {
        if self.is_next_part(name) {
            return may_wait.then(|| HlsResponse::NotYet(self.target() * WAITS));
        }
        let content = if let Some(part) = self.part(name) {
            Content::Range {
                lead: Rc::default(),
                from: part.from,
                to: part.to,
            }
        } else if let Some(map) = self.map(name) {
            Content::Bytes(map.bytes.clone())
        } else {
            let segment = self.segment(name)?;
            Content::Range {
                lead: segment.lead.clone(),
                from: segment.from,
                to: segment.to,
            }
        };
        Some(HlsResponse::Object(Object {
            media_type: self.kind()?.media_type(),
            seconds: Some(WINDOW_SECONDS),
            is_immutable: true,
            content,
        }))
    }

    /// Refuses a request that may succeed after a segment.
    fn busy(&self, detail: impl Into<String>) -> Refusal {
        Refusal::busy(detail).retry_after(self.target().as_secs() as u32)
    }

    fn refusal(&self, unlisted: NoPlaylist) -> Refusal {
        match unlisted {
            NoPlaylist::Unfit(reason) => Refusal::new(
                Status::NotAcceptable,
                format!(
                    "the stream cannot be HLS: {reason}. MPEG-TS and fragmented MP4 with times, MP3 and AAC can, and with --remux=on FLV and Matroska. The stream \
                     itself is at /stream/SESSIONID"
                ),
            ),
            NoPlaylist::TooFew => self.busy(format!(
                "the stream is still too short: a playlist needs {LISTED_MIN} whole segments"
            )),
            NoPlaylist::TooLarge => self.busy(format!(
                "{LISTED_MIN} segments do not fit into the buffer of the stream; raise --buffer (or --buffers, if many streams \
                 share it), lower the bit rate, or send key frames more often"
            )),
        }
    }
}
