//! Decides where a stream's segments begin and end.
//!
//! A segment ends at the first join point that is at least [`Plan::segment`] after its start. The
//! target duration is the longest that a segment may be. It goes by the first group of pictures,
//! and rises if one of the first [`LISTED_MIN`] segments is longer. Before the first playlist,
//! longer fragments of MP4 raise it, too. If their lengths vary, it is at least 10 s. Then it never
//! changes: if a group of pictures is longer, the segment ends within the group, at a join point or
//! a picture before the target is reached. A fragment of MP4 that is longer is in no segment. After
//! that, a jump of the times, a new header or another source, the next segment is marked as a
//! discontinuity.
//!
//! Bounds: at most [`KEPT_MAX`] segments, each with a lead of at most [`LEAD_BYTES_MAX`]; at most
//! [`MAPS_MAX`] maps of [`MAP_BYTES_MAX`]; a list of at most [`LISTED_MAX`] segments.

mod check;
mod handover;
mod listed;
#[cfg(test)]
#[cfg(feature = "handover")]
mod tests;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::parts::{PARTS_MAX, Part, Parts};
use super::plan::{NUMBERS_AHEAD_MAX, Plan};
use super::point::Point;
use super::segment::{MAP_EXTENSION, Map, Name, Segment, extension};
use super::{LEAD_BYTES_MAX, LISTED_MAX, LISTED_MIN, lead, list};
use crate::format::{Finding, Format, Header, Start};
use crate::time::{Instant, MediaTime};

/// Maximal number of segments that are kept. Players still fetch a segment after it left the list:
/// at most the duration of the list later.
const KEPT_MAX: usize = 2 * LISTED_MAX + 2;
/// Number of the newest segments that keep their parts. Players fetch parts for a shorter time.
const PARTS_KEPT: usize = 12;
/// Headers of MP4 that are kept for segments.
const MAPS_MAX: usize = 3;
/// Longest map in bytes. Maps of real encoders have a few KiB.
const MAP_BYTES_MAX: usize = 64 * 1024;

const TICKS: i64 = MediaTime::TICKS_PER_SECOND as i64;
/// A larger gap between two pictures means that the clock changed.
const JUMP_TICKS: i64 = 10 * TICKS;
/// Encoders round their times: a segment may be shorter by this much.
const ROUNDING_TICKS: i64 = TICKS / 100;
/// A picture's time may be at most this much before that of the picture in front of it.
const REORDER_TICKS: i64 = TICKS;
/// The target is settled after this time, even without a second join point.
const GROUP_TICKS_MAX: i64 = 10 * TICKS;
/// If the next segment comes later than this, the source paused, and the segment's date is now.
const LATE_MAX: Duration = Duration::from_secs(10);
/// Longest duration that a segment is made for.
const SEGMENT_TICKS_MAX: i64 = 3_600 * TICKS;
/// Longest fragment of MP4. A longer one means that its times are wrong.
const FRAGMENT_TICKS_MAX: i64 = 60 * TICKS;
/// Fragments of one length differ by at most this much. A target is rounded by as much.
const VARIATION_TICKS: i64 = TICKS / 2;
/// Duration of a picture until a gap is known.
const PICTURE_TICKS: i64 = TICKS / 25;

/// The two counters of an `Rc`.
const RC_BYTES: usize = 2 * size_of::<usize>();
const LEAD_PLACE_BYTES: usize = size_of::<Vec<u8>>() + RC_BYTES;

/// Cuts one stream into segments.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Cutter {
    plan: Plan,
    /// Container, or why the stream cannot be cut. `None` until the format is known.
    #[cfg_attr(
        feature = "handover",
        serde(
            serialize_with = "handover::write_kind",
            deserialize_with = "handover::read_kind"
        )
    )]
    kind: Option<Result<Format, &'static str>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    heading: Heading,
    /// Whether a join point came without a time.
    is_untimed: bool,
    /// Whether that join point was scrambled.
    is_scrambled: bool,
    /// Newest unit.
    newest: Option<Point>,
    /// Newest join point at which another track is within a unit.
    split: Option<u64>,
    /// Newest gap between two pictures, or duration of the newest fragment, in ticks.
    gap: i64,
    /// Durations of the longest fragment of MP4 and the next longest one, in ticks.
    #[cfg_attr(feature = "handover", serde(skip))]
    longest: [i64; 2],
    open_segment: Option<OpenSegment>,
    parts: Parts,
    /// Target duration in seconds.
    target: Option<u32>,
    map: Option<Rc<Map>>,
    /// Whether the next segment does not continue the one before it.
    is_broken: bool,
    discontinuities: u64,
    number: u64,
    #[cfg_attr(
        feature = "handover",
        serde(serialize_with = "handover::write_segments")
    )]
    segments: VecDeque<Segment>,
    /// Whether the stream was complete when it ended. `None` while it runs.
    end: Option<bool>,
    /// Newest playlist.
    #[cfg_attr(feature = "handover", serde(skip))]
    list: Option<(ListStart, Rc<[u8]>)>,
    /// Number of the first segment in the newest playlist. A later playlist begins with no lower one.
    listed_from: u64,
    /// Whether the playlist has grown since it was last asked.
    has_grown: bool,
    cuts_in_groups: u64,
}

/// Number of a playlist's first segment, and when its newest title began.
type ListStart = (u64, Option<Duration>);

/// Whether segments can begin with the current header. Each header is looked at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heading {
    /// The header has not been looked at.
    #[default]
    New,
    /// Segments can begin with the header.
    Fit,
    /// Segments cannot begin with the header, for this reason.
    Unfit(&'static str),
}

/// The segment that is not complete yet.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct OpenSegment {
    start: Point,
    began: Duration,
    lead: Rc<Vec<u8>>,
    is_discontinuous: bool,
    is_independent: bool,
    /// Newest join point after the segment's start.
    join: Option<Point>,
    /// Newest join point at which no other track is within a unit.
    whole: Option<Point>,
}

impl OpenSegment {
    /// Returns the join point at which the segment should end. A join point within no unit is always
    /// preferred, however short the segment gets: none follows within a segment's duration, so the
    /// next segment is long.
    fn end(&self) -> Option<Point> {
        self.whole.or(self.join)
    }
}

impl Cutter {
    /// Room for segments doubles as it is needed.
    pub const MEMORY_BYTES_MAX: usize = 2 * KEPT_MAX * size_of::<Segment>()
        + (KEPT_MAX + 1) * (LEAD_BYTES_MAX + LEAD_PLACE_BYTES)
        + KEPT_MAX * RC_BYTES
        + (PARTS_KEPT + 2) * PARTS_MAX * size_of::<Part>()
        + (MAPS_MAX + 1) * (MAP_BYTES_MAX + size_of::<Map>() + 2 * RC_BYTES)
        + list::BYTES_MAX
        + RC_BYTES;

    /// Creates the cutter of a stream before its first byte.
    pub fn of(plan: Plan) -> Option<Box<Cutter>> {
        Some(Box::new(Cutter {
            plan,
            gap: PICTURE_TICKS,
            discontinuities: plan.first_discontinuity(),
            number: plan.first_number(),
            ..Cutter::default()
        }))
    }

    // ---- Findings of the scanner ----------------------------------------------------------------

    /// Takes a finding of the scanner in bytes that arrived at `now`.
    pub fn take(&mut self, finding: Finding, header: Header<'_>, now: Instant) {
        match finding {
            Finding::Format(format) => {
                let format = extension(format).map(|_| format);
                self.kind = Some(format.ok_or(NO_CONTAINER_OF_HLS));
            }
            Finding::Unknown => {
                self.kind = Some(Err(NO_CONTAINER_OF_HLS));
                self.open_segment = None;
            }
            Finding::Break(offset) => {
                self.break_off(offset);
                // In MP4 only another map is a discontinuity.
                self.is_broken |= self.kind() != Some(Format::Mp4);
            }
            Finding::Time(offset, time) => {
                self.pass(Point::new(offset, time), header, now);
            }
            // The last unit's duration can only be known in this way.
            Finding::Lasts(ticks) => {
                self.gap = (ticks as i64).clamp(1, FRAGMENT_TICKS_MAX);
                let [first, second] = self.longest;
                self.longest = [first.max(self.gap), second.max(first.min(self.gap))];
            }
            Finding::Split(offset) => self.split = Some(offset),
            Finding::Join(start) => self.join(start, header, now),
            Finding::Header => {
                self.heading = Heading::New;
                // No segment can begin any more at a join point that needs the old header.
                if let Some(open_segment) = &mut self.open_segment {
                    (open_segment.join, open_segment.whole) = (None, None);
                }
            }
            Finding::Unit(_) | Finding::Entry(_) => {}
        }
    }

    /// Another source continues the stream at `offset`. Only in MP4 does it use the times and the
    /// header of the source before.
    pub fn seam(&mut self, offset: u64) {
        if self.kind() != Some(Format::Mp4) {
            self.break_off(offset);
            self.is_broken = true;
        }
    }

    /// Ends the cutting of a stream of MP4, for this reason.
    pub fn refuse(&mut self, reason: &'static str) {
        if self.kind() == Some(Format::Mp4) {
            self.kind = Some(Err(reason));
            self.has_grown = true;
        }
    }

    /// Ends the stream at the offset `newest`. If the source was lost, its last unit may be incomplete.
    pub fn finish(&mut self, newest: u64, is_complete: bool) {
        match self.newest.filter(|_| !is_complete) {
            Some(torn) => self.close(torn.offset, torn.time),
            None => self.break_off(newest),
        }
        if let Some(last) = self.segments.back() {
            self.set_target_duration(last.ticks.into());
        }
        self.end = Some(is_complete);
        self.list = None;
        self.has_grown = true;
    }

    /// Removes segments before the offset `oldest`, because their bytes are overwritten.
    pub fn forget_before(&mut self, oldest: u64) {
        while self
            .segments
            .front()
            .is_some_and(|segment| segment.from < oldest)
        {
            self.segments.pop_front();
        }
        let is_first_lost = |open_segment: &OpenSegment| open_segment.start.offset < oldest;
        if self.open_segment.as_ref().is_some_and(is_first_lost) {
            self.open_segment = None;
            self.is_broken = true;
            // The next segment has the same number, and a part's name must not stand for other
            // bytes.
            self.parts.give_up();
        }
    }

    /// Takes the beginning of a unit. The unit before it ends here.
    fn pass(&mut self, point: Point, header: Header<'_>, now: Instant) {
        let Some(last) = self.newest.replace(point) else {
            return;
        };
        // The unit before is in no segment.
        self.is_broken |= self.open_segment.is_none() && !self.segments.is_empty();
        let gap = point.time.since(last.time);
        let gap_max = self.settled_target().map_or(JUMP_TICKS, ticks_within);
        let gap_max = gap_max.min(JUMP_TICKS);
        // A fragment may be longer than that, if it says so.
        let gap_max = gap_max.max(self.gap.saturating_add(ROUNDING_TICKS));
        if gap < -REORDER_TICKS || gap > gap_max {
            self.close(point.offset, last.time.after(self.gap as u64));
            self.is_broken = true;
            return;
        }
        if gap > 0 {
            self.gap = gap;
        }
        while let Some(open_segment) = &self.open_segment {
            let ticks = point.time.since(open_segment.start.time);
            let ticks_max = self.settled_target().map_or(GROUP_TICKS_MAX, ticks_within);
            // A join point is a better end than a picture. But a part that players have seen
            // belongs to the segment.
            let join = open_segment.end();
            let shown = self.parts.shown_until();
            let end = join.into_iter().chain(shown).max_by_key(|end| end.offset);
            let end = end.unwrap_or(last);
            if ticks <= ticks_max || end.offset <= open_segment.start.offset {
                break;
            }
            self.set_target_duration(GROUP_TICKS_MAX);
            let is_join = join.is_some_and(|join| join.offset == end.offset);
            self.cuts_in_groups = self.cuts_in_groups.saturating_add(u64::from(!is_join));
            self.cut(end, is_join, header, now);
        }
        let has_parts = self.kind() == Some(Format::Mp4) && self.open_segment.is_some();
        if has_parts && self.parts.pass(point, gap) {
            self.list = None;
            self.has_grown = true;
        }
    }

    /// Takes a join point at the newest unit.
    fn join(&mut self, start: Start, header: Header<'_>, now: Instant) {
        let (offset, counter) = (start.offset, start.counter);
        let Some(newest) = self.newest.filter(|newest| newest.offset == offset) else {
            self.is_untimed = true;
            self.is_scrambled = header.is_scrambled();
            return;
        };
        let point = Point { counter, ..newest };
        let Some(open_segment) = &mut self.open_segment else {
            // A join point before a seam that is reported after it belongs to a complete segment.
            let closed = self.segments.back().map_or(0, |last| last.to);
            if offset >= closed {
                self.open(point, true, header, now);
            }
            return;
        };
        let ticks = point.time.since(open_segment.start.time);
        if ticks <= 0 {
            return;
        }
        open_segment.join = Some(point);
        if self.split != Some(offset) {
            open_segment.whole = Some(point);
        }
        self.parts.join(offset);
        if self.target.is_none() {
            self.set_target_duration(ticks);
        }
        if ticks + ROUNDING_TICKS >= self.segment_ticks() {
            let end = self.open_segment.as_ref().and_then(OpenSegment::end);
            self.cut(end.unwrap_or(point), true, header, now);
        }
    }

    /// Settles the target duration: the duration of as many groups of `group` ticks as a segment
    /// needs. Players take it as rounded (RFC 8216 section 4.3.3.1).
    fn set_target_duration(&mut self, group: i64) {
        let group = group.clamp(1, GROUP_TICKS_MAX);
        if self.target.is_none() {
            self.parts.set_target(self.segment_ticks());
        }
        let groups = (self.segment_ticks() - ROUNDING_TICKS + group - 1) / group;
        let before = self.segments.iter().map(|segment| i64::from(segment.ticks));
        let longest = before.max().unwrap_or(0).max(groups * group);
        self.target.get_or_insert(seconds(longest));
    }

    /// Raises the target before the first playlist, if the source's fragments vary in length: each
    /// is a group of pictures, and the longest one may be yet to come.
    fn allow_longer_fragments(&mut self) {
        let [first, second] = self.longest;
        let are_long = first > self.segment_ticks() + ROUNDING_TICKS;
        if are_long && second > 0 && first - second > VARIATION_TICKS {
            let usual = seconds(GROUP_TICKS_MAX);
            self.target = self.target.map(|target| target.max(usual));
        }
    }

    /// Returns the target duration once it can only change for fragments of MP4.
    fn settled_target(&self) -> Option<u32> {
        self.target.filter(|_| self.made() >= LISTED_MIN as u64)
    }

    fn segment_ticks(&self) -> i64 {
        let seconds = self.plan.segment.as_secs_f64();
        ((seconds * TICKS as f64) as i64).clamp(1, SEGMENT_TICKS_MAX)
    }

    // ---- Segments begin and end -----------------------------------------------------------------

    fn cut(&mut self, at: Point, is_join: bool, header: Header<'_>, now: Instant) {
        let join = self
            .open_segment
            .as_ref()
            .and_then(|open_segment| open_segment.join);
        self.close(at.offset, at.time);
        self.open(at, is_join, header, now);
        if let Some(open_segment) = &mut self.open_segment {
            open_segment.join = join.filter(|join| join.offset > at.offset);
        }
    }

    /// Begins a segment, if that is possible.
    fn open(&mut self, start: Point, is_independent: bool, header: Header<'_>, now: Instant) {
        self.is_untimed = false;
        let of_now = Plan {
            began: now,
            number_min: 0,
            ..self.plan
        };
        if self.number > NUMBERS_AHEAD_MAX + of_now.first_number() {
            self.is_broken = true;
            return;
        }
        let lead = match (self.kind(), self.heading) {
            (None, _) => return,
            // Not reached: `take` refuses formats that `extension` does not have, which are these.
            (Some(Format::WebM | Format::Matroska | Format::Ogg | Format::Flv), _) => return,
            (Some(_), Heading::Unfit(fault)) => Err(fault),
            (Some(Format::MpegTs), _) => lead::of_tables(header, start.counter),
            (Some(Format::Mp3 | Format::Aac), _) => Ok(lead::of_time(start.time)),
            (Some(Format::Mp4), Heading::Fit) => Ok(Vec::new()),
            (Some(Format::Mp4), Heading::New) => self.map_by(header).map(|()| Vec::new()),
        };
        let lead = match lead {
            Ok(lead) => lead,
            Err(fault) => {
                self.heading = Heading::Unfit(fault);
                self.is_broken = true;
                return;
            }
        };
        self.heading = Heading::Fit;
        self.parts.begin(start, is_independent);
        self.open_segment = Some(OpenSegment {
            start,
            began: self.began(now),
            lead: Rc::new(lead),
            is_discontinuous: std::mem::take(&mut self.is_broken),
            is_independent,
            join: None,
            whole: None,
        });
    }

    /// Returns a segment's date: the date of the one before, plus the media time between them. The
    /// date is led back slowly to the arrival time, and never runs back.
    fn began(&self, now: Instant) -> Duration {
        let arrived = self.plan.started + now.since_start();
        let Some(before) = self.segments.back().filter(|_| !self.is_broken) else {
            return arrived;
        };
        let by_clock = before.began + before.duration();
        match arrived.saturating_sub(by_clock) <= LATE_MAX {
            true => (by_clock * 7 / 8 + arrived / 8).max(before.began),
            false => arrived,
        }
    }

    /// Sets the map that segments of MP4 need. A new map is a discontinuity.
    fn map_by(&mut self, header: Header<'_>) -> Result<(), &'static str> {
        if header.length() > MAP_BYTES_MAX {
            return Err("its header is too long");
        }
        let bytes: Rc<[u8]> = header.to_vec().into();
        if self.map.as_ref().is_some_and(|map| map.bytes == bytes) {
            return Ok(());
        }
        self.is_broken |= self.map.is_some();
        let number = self.number;
        self.map = Some(Rc::new(Map { number, bytes }));
        Ok(())
    }

    /// Ends the open segment at `offset`: other media with their own header follow.
    fn break_off(&mut self, offset: u64) {
        let Some(last) = self.newest.take() else {
            return;
        };
        // Nothing follows the last fragment, so its declared duration decides. Encoders round it: a
        // part that passes the part target by a tenth or less keeps the target.
        let is_rounded =
            |ticks_max: &i64| (*ticks_max..=ticks_max + ticks_max / 10).contains(&self.gap);
        let gap = self
            .parts
            .ticks_max()
            .filter(is_rounded)
            .unwrap_or(self.gap);
        self.close(offset, last.time.after(gap as u64));
    }

    /// Completes the open segment.
    fn close(&mut self, to: u64, end: MediaTime) {
        let Some(open_segment) = self.open_segment.take() else {
            return;
        };
        let ticks = end.since(open_segment.start.time).max(1);
        if to <= open_segment.start.offset {
            return;
        }
        // A segment that was broken off does not show how long the others are.
        if self.made() + 1 >= LISTED_MIN as u64 {
            self.set_target_duration(ticks);
        }
        let is_mp4 = self.kind() == Some(Format::Mp4);
        let may_rise = self.settled_target().is_none() || is_mp4 && self.listed_from == 0;
        if let Some(target) = self.target.as_mut().filter(|_| may_rise) {
            *target = seconds(ticks).max(*target);
        }
        let ticks_max = self.target.map_or(ticks, ticks_within);
        // Fragments contain their durations. That of the last picture of others is a guess.
        if ticks > ticks_max && is_mp4 {
            self.cuts_in_groups = self.cuts_in_groups.saturating_add(1);
            self.is_broken = true;
            self.parts.give_up();
            return;
        }
        let parts = self.parts.end(to, end);
        let breaks = u64::from(open_segment.is_discontinuous);
        self.discontinuities = self.discontinuities.saturating_add(breaks);
        self.segments.push_back(Segment {
            number: self.number,
            from: open_segment.start.offset,
            to,
            lead: open_segment.lead,
            map: self.map.clone(),
            ticks: ticks.min(ticks_max) as u32,
            began: open_segment.began,
            is_discontinuous: open_segment.is_discontinuous,
            discontinuities: self.discontinuities,
            is_independent: open_segment.is_independent,
            parts,
        });
        if let Some(old) = self.segments.iter_mut().rev().nth(PARTS_KEPT) {
            old.parts = Rc::default();
        }
        self.number = self.number.saturating_add(1);
        self.list = None;
        self.has_grown = true;
        while self.segments.len() > KEPT_MAX || self.maps() > MAPS_MAX {
            self.segments.pop_front();
        }
    }

    fn maps(&self) -> usize {
        let map = |segment: &Segment| segment.map.as_ref().map(|map| map.number);
        let next = self.segments.iter().skip(1);
        let changes = self.segments.iter().zip(next);
        1 + changes.filter(|(a, b)| map(a) != map(b)).count()
    }

    // ---- Questions of requests ------------------------------------------------------------------

    /// Returns the number of segments so far.
    fn made(&self) -> u64 {
        self.number.saturating_sub(self.plan.first_number())
    }

    /// Returns why no segment can begin.
    fn fault(&self) -> Option<&'static str> {
        match (self.kind, self.heading) {
            (Some(Err(reason)), _) | (_, Heading::Unfit(reason)) => Some(reason),
            (_, Heading::New | Heading::Fit) => {
                let reason = if self.is_scrambled {
                    SCRAMBLED
                } else {
                    UNTIMED
                };
                self.is_untimed.then_some(reason)
            }
        }
    }

    /// Finds a segment by its name.
    pub fn segment(&self, name: &str) -> Option<&Segment> {
        let extension = extension(self.kind()?)?;
        self.numbered(Name::number_in(name, self.plan.tag, extension)?)
    }

    /// Finds a segment by its number. Numbers have no gaps.
    fn numbered(&self, number: u64) -> Option<&Segment> {
        let first = self.segments.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.segments.get(index)
    }

    /// Finds a map by its name.
    pub fn map(&self, name: &str) -> Option<&Rc<Map>> {
        let number = Name::number_in(name, self.plan.tag, MAP_EXTENSION)?;
        let maps = self
            .segments
            .iter()
            .filter_map(|segment| segment.map.as_ref())
            .chain(self.map.as_ref());
        maps.rev().find(|map| map.number == number)
    }

    /// Returns the container of the segments.
    pub fn kind(&self) -> Option<Format> {
        self.kind.and_then(Result::ok)
    }

    /// Returns whether the playlist has grown or the stream has ended since the last call.
    pub fn take_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// Returns a number above all numbers of this stream's segments.
    pub fn next_number(&self) -> u64 {
        self.number
    }

    /// Returns whether the stream has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns how often a segment ended within a group of pictures, or a fragment was left out.
    pub fn cuts_in_groups(&self) -> u64 {
        self.cuts_in_groups
    }

    /// Returns the rounded duration of the longest fragment of MP4 in seconds.
    pub fn longest_fragment(&self) -> u64 {
        seconds(self.longest[0]).into()
    }

    /// Returns the target duration.
    pub fn target(&self) -> Duration {
        let group_max = (GROUP_TICKS_MAX / TICKS) as u32;
        Duration::from_secs(self.target.unwrap_or(group_max).into())
    }
}

const NO_CONTAINER_OF_HLS: &str = "it has another container";

const SCRAMBLED: &str = "its packets are scrambled, so their times cannot be read";

const UNTIMED: &str = "its pictures or fragments have no times";

/// Returns the target duration in seconds for segments of `ticks` (RFC 8216 section 4.3.3.1).
fn seconds(ticks: i64) -> u32 {
    ((ticks + TICKS / 2) / TICKS).max(1) as u32
}

/// Returns the maximal number of ticks that are rounded to `seconds`.
fn ticks_within(seconds: u32) -> i64 {
    i64::from(seconds) * TICKS + TICKS / 2 - 1
}
