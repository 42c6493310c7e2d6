//! What is found for who wants something: how it is sent, and how long a cache may keep it.

use std::rc::Rc;
use std::time::Duration;

use super::cutter::Cutter;
use super::list::MEDIA_TYPE;
use super::wanted::{Wanted, wrong};
use super::{LISTED_MIN, Unlisted};
use crate::http::{Refusal, Status};

/// What there is for who wants something of a stream.
#[derive(Debug)]
pub enum Found {
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
    /// So many seconds a cache may give it out.
    pub seconds: u64,
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
/// How long a segment is good in a cache: not much longer than a token that was revoked should let
/// anybody watch.
const WINDOW_SECONDS: u64 = 60;
/// Who has asked for a list or a segment is taken to watch for so many of the longest segments; as
/// long a list is good that was asked for by what it has.
const ATTENDANCE: u32 = 6;
/// A list is waited for as long as so many of them (section 6.2.5.2).
const WAITS: u32 = 3;

impl Cutter {
    /// What there is of what is wanted; `None`: nothing has this name, or not any more.
    pub fn find(&mut self, wanted: &Wanted, may_wait: bool) -> Option<Found> {
        match wanted {
            Wanted::List { number } => Some(
                self.find_list(*number, may_wait)
                    .unwrap_or_else(|otherwise| otherwise),
            ),
            Wanted::Named(name) => self.named(name).map(Found::Object),
        }
    }

    /// Who has asked for a list or a segment watches it for so long.
    pub fn attendance(&self) -> Duration {
        self.target() * ATTENDANCE
    }

    fn find_list(&mut self, number: Option<u64>, may_wait: bool) -> Result<Found, Found> {
        let wait = |cutter: &Cutter| match (cutter.is_over(), may_wait) {
            (true, _) => Found::Refused(not_running()),
            (false, true) => Found::NotYet(cutter.target() * WAITS),
            (false, false) => Found::Refused(cutter.refusal(Unlisted::TooFew)),
        };
        let newest = match self.newest_listed() {
            Ok(newest) => newest,
            Err(Unlisted::TooFew) => return Err(wait(self)),
            Err(unlisted) => return Err(Found::Refused(self.refusal(unlisted))),
        };
        match number {
            Some(number) if number > newest.saturating_add(AHEAD_MAX) => {
                let detail = "_HLS_msn lies more than two segments ahead";
                return Err(Found::Refused(wrong(detail)));
            }
            Some(number) if number > newest && !self.is_over() => return Err(wait(self)),
            Some(_) | None => {}
        }
        let list = self.list();
        let list = list.map_err(|unlisted| Found::Refused(self.refusal(unlisted)))?;
        Ok(Found::Object(Object {
            media_type: MEDIA_TYPE,
            // What was asked for by its number stays as it is: newer segments are asked for by
            // theirs.
            seconds: number.map_or(1, |_| self.attendance().as_secs()),
            is_immutable: false,
            content: Content::Bytes(list),
        }))
    }

    /// A segment or a map.
    fn named(&self, name: &str) -> Option<Object> {
        let media_type = self.kind()?.media_type();
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
            seconds: WINDOW_SECONDS,
            is_immutable: true,
            content,
        })
    }

    fn refusal(&self, unlisted: Unlisted) -> Refusal {
        let retry_after_seconds = self.target().as_secs() as u32;
        let busy =
            |detail: String| Refusal::busy(Status::ServiceUnavailable, detail, retry_after_seconds);
        match unlisted {
            Unlisted::Unfit(reason) => Refusal::new(
                Status::NotAcceptable,
                format!(
                    "the stream cannot be HLS: {reason}; MPEG-TS or fragmented MP4 with times, MP3 and AAC can; it goes out as it is \
                     where the path ends with its sessionid"
                ),
            ),
            Unlisted::TooFew => busy(format!(
                "the stream has not come so far: a playlist has {LISTED_MIN} whole segments at least"
            )),
            Unlisted::TooLarge => busy(format!(
                "{LISTED_MIN} segments do not fit into the stream's buffer; a larger --buffer, fewer bits a second or key frames less \
                 far apart would do"
            )),
        }
    }
}

fn not_running() -> Refusal {
    Refusal::new(Status::NotFound, "this session is not running now")
}
