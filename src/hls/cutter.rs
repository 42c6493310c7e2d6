//! Where one stream's segments begin and end.
//!
//! A segment ends at the first join point that lies [`Plan::segment`] or more behind its start. The
//! target, the longest that a segment may be, is settled with the second join point, or with the third
//! segment if all were broken off before, and never changes: if a group of pictures is longer, the segment ends within it, at a point or a picture
//! before the target runs out. Where times jump, another header comes or another source goes on,
//! the next segment is marked.
//!
//! Bounds: [`KEPT_MAX`] segments, each with a lead of [`LEAD_BYTES_MAX`] at the most; [`MAPS_MAX`]
//! maps of [`MAP_BYTES_MAX`]; a list of [`LISTED_MAX`].

mod held;
mod listed;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::parts::Parts;
use super::plan::{NUMBERS_AHEAD_MAX, Plan};
use super::point::Point;
use super::segment::{Kind, MAP_EXTENSION, Map, Name, Segment};
use super::{LISTED_MAX, LISTED_MIN, lead};
use crate::format::{Finding, Header, Start};
use crate::time::{Instant, MediaTime};

/// What has left the list is still asked for as long as that was: so many are kept.
const KEPT_MAX: usize = 2 * LISTED_MAX + 2;
/// So many of the newest have their parts: they are asked for for less long.
const PARTS_KEPT: usize = 12;
/// Headers of MP4 that are kept for segments.
const MAPS_MAX: usize = 3;
/// A longer one is none: those of real encoders have a few KiB, keys included.
const MAP_BYTES_MAX: usize = 64 * 1024;

const TICKS: i64 = MediaTime::TICKS_PER_SECOND as i64;
/// Between a picture and the next: then it is another clock.
const JUMP_TICKS: i64 = 10 * TICKS;
/// Encoders round their times: so much less is as long, still.
const ROUNDING_TICKS: i64 = TICKS / 100;
/// So far back a picture may lie that is shown before the one that it follows.
const REORDER_TICKS: i64 = TICKS;
/// The target is settled after so long, though there is no second join point.
const GROUP_TICKS_MAX: i64 = 10 * TICKS;
/// A source whose next segment comes later than that has stood still, and goes on from now.
const LATE_MAX: Duration = Duration::from_secs(10);
/// What one picture lasts where nothing is known of it.
const PICTURE_TICKS: i64 = TICKS / 25;

/// See the module.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Cutter {
    plan: Plan,
    /// `None` until the format is told.
    #[cfg_attr(
        feature = "handover",
        serde(
            serialize_with = "held::tell_kind",
            deserialize_with = "held::kind_told"
        )
    )]
    kind: Option<Result<Kind, &'static str>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    heading: Heading,
    /// There was a join point of which nothing had told the time.
    is_untimed: bool,
    /// It could not be read.
    is_scrambled: bool,
    /// What began last.
    newest: Option<Point>,
    /// Decoding can begin here, but something else goes on behind it: the newest.
    split: Option<u64>,
    /// From a picture to the next, of those that came last.
    gap: i64,
    filling: Option<OpenSegment>,
    parts: Parts,
    /// In seconds.
    target: Option<u32>,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared_if"))]
    map: Option<Rc<Map>>,
    /// What fills next does not go on where the one before has ended.
    is_broken: bool,
    discontinuities: u64,
    number: u64,
    segments: VecDeque<Segment>,
    /// Nothing more comes; and it is complete, if so.
    end: Option<bool>,
    /// As it was written last, and the number of the first segment in it.
    #[cfg_attr(feature = "handover", serde(skip))]
    list: Option<(u64, Rc<[u8]>)>,
    /// The number with which it began: it begins with no lower one again.
    listed_from: u64,
    /// The list has become longer.
    has_grown: bool,
    cuts_in_groups: u64,
}

/// What is known of the header, which is looked at once, not for each join point again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heading {
    /// It is another one than was looked at last.
    #[default]
    New,
    /// Segments can begin with it.
    Fit,
    /// Nothing can, for this reason.
    Unfit(&'static str),
}

/// The segment that is not whole yet.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct OpenSegment {
    start: Point,
    began: Duration,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared"))]
    lead: Rc<Vec<u8>>,
    is_discontinuous: bool,
    is_independent: bool,
    /// The newest join point in it, but for its start.
    join: Option<Point>,
    /// The newest that splits nothing.
    whole: Option<Point>,
}

impl OpenSegment {
    /// At which join point it ends best. However little lies before one that splits nothing: none
    /// follows within a segment's length, so that two segments are longer than one should be.
    fn end(&self) -> Option<Point> {
        self.whole.or(self.join)
    }
}

impl Cutter {
    /// Of a stream before its first byte, which is cut so.
    pub fn of(plan: Plan) -> Option<Box<Cutter>> {
        Some(Box::new(Cutter::new(plan)))
    }

    fn new(plan: Plan) -> Cutter {
        Cutter {
            plan,
            kind: None,
            heading: Heading::New,
            is_untimed: false,
            is_scrambled: false,
            newest: None,
            split: None,
            gap: PICTURE_TICKS,
            filling: None,
            parts: Parts::new(),
            target: None,
            map: None,
            is_broken: false,
            discontinuities: plan.first_discontinuity(),
            number: plan.first_number(),
            segments: VecDeque::new(),
            end: None,
            list: None,
            listed_from: 0,
            has_grown: false,
            cuts_in_groups: 0,
        }
    }

    // ---- What is found in the stream ------------------------------------------------------------

    /// Takes over what the scanner found in bytes that arrived at `now`.
    pub fn take(&mut self, finding: Finding, header: Header<'_>, now: Instant) {
        match finding {
            Finding::Format(format) => {
                self.kind = Some(Kind::of(format).ok_or(NO_CONTAINER_OF_HLS));
            }
            Finding::Unknown => {
                self.kind = Some(Err(NO_CONTAINER_OF_HLS));
                self.filling = None;
            }
            Finding::Break(offset) => {
                self.break_off(offset);
                // Another map of MP4 makes a seam, the same one does not.
                self.is_broken |= self.kind() != Some(Kind::Mp4);
            }
            Finding::Time(offset, time) => {
                let counter = None;
                self.pass(
                    Point {
                        offset,
                        time,
                        counter,
                    },
                    header,
                    now,
                );
            }
            // Where nothing follows, there is no other way to know.
            Finding::Lasts(ticks) => self.gap = (ticks as i64).clamp(1, JUMP_TICKS),
            Finding::Split(offset) => self.split = Some(offset),
            Finding::Join(start) => self.join(start, header, now),
            Finding::Header => {
                self.heading = Heading::New;
                // No segment can begin any more where the header before was needed.
                if let Some(filling) = &mut self.filling {
                    (filling.join, filling.whole) = (None, None);
                }
            }
            Finding::Unit(_) | Finding::Entry(_) => {}
        }
    }

    /// Another source goes on from here. Only of MP4 are its times and its header those of the one
    /// before.
    pub fn seam(&mut self, offset: u64) {
        if self.kind() != Some(Kind::Mp4) {
            self.break_off(offset);
            self.is_broken = true;
        }
    }

    /// It cannot be cut into segments, for this reason.
    pub fn refuse(&mut self, reason: &'static str) {
        if self.kind() == Some(Kind::Mp4) {
            self.kind = Some(Err(reason));
            self.has_grown = true;
        }
    }

    /// The stream is over, at this offset. Of one that was lost, what began last may be torn off.
    pub fn finish(&mut self, newest: u64, is_complete: bool) {
        match self.newest.filter(|_| !is_complete) {
            Some(torn) => self.close(torn.offset, torn.time),
            None => self.break_off(newest),
        }
        if let Some(last) = self.segments.back() {
            self.settle_target(last.ticks.into());
        }
        self.end = Some(is_complete);
        self.list = None;
        self.has_grown = true;
    }

    /// What lies before this offset is overwritten.
    pub fn forget_before(&mut self, oldest: u64) {
        while self
            .segments
            .front()
            .is_some_and(|segment| segment.from < oldest)
        {
            self.segments.pop_front();
        }
        let is_first_lost = |filling: &OpenSegment| filling.start.offset < oldest;
        if self.filling.as_ref().is_some_and(is_first_lost) {
            self.filling = None;
            self.is_broken = true;
            // The next segment has the same number: a name must not be that of other bytes.
            self.parts.give_up();
        }
    }

    /// Something begins: here the one before ends.
    fn pass(&mut self, point: Point, header: Header<'_>, now: Instant) {
        let Some(last) = self.newest.replace(point) else {
            return;
        };
        // The one before is in no segment.
        self.is_broken |= self.filling.is_none() && !self.segments.is_empty();
        let gap = point.time.since(last.time);
        let gap_max = self
            .target
            .map_or(JUMP_TICKS, |target| JUMP_TICKS.min(ticks_within(target)));
        if gap < -REORDER_TICKS || gap > gap_max {
            self.close(point.offset, last.time.after(self.gap as u64));
            self.is_broken = true;
            return;
        }
        if gap > 0 {
            self.gap = gap;
        }
        while let Some(filling) = &self.filling {
            let ticks = point.time.since(filling.start.time);
            if self.target.is_none() && ticks > GROUP_TICKS_MAX {
                self.settle_target(GROUP_TICKS_MAX);
                continue;
            }
            let is_too_long = self
                .target
                .is_some_and(|target| ticks > ticks_within(target));
            // A join point in it is better than a picture; but what has been given out as a part
            // of it is.
            let join = filling.end();
            let shown = self.parts.shown_until();
            let end = join.into_iter().chain(shown).max_by_key(|end| end.offset);
            let end = end.unwrap_or(last);
            if !is_too_long || end.offset <= filling.start.offset {
                break;
            }
            let is_join = join.is_some_and(|join| join.offset == end.offset);
            self.cuts_in_groups += u64::from(!is_join);
            self.cut(end, is_join, header, now);
        }
        let has_parts = self.kind() == Some(Kind::Mp4) && self.filling.is_some();
        if has_parts && self.parts.pass(point, gap) {
            self.list = None;
            self.has_grown = true;
        }
    }

    /// Decoding can begin where that began which came last.
    fn join(
        &mut self,
        Start {
            offset, counter, ..
        }: Start,
        header: Header<'_>,
        now: Instant,
    ) {
        let Some(newest) = self.newest.filter(|newest| newest.offset == offset) else {
            self.is_untimed = true;
            self.is_scrambled = header.is_scrambled();
            return;
        };
        let point = Point { counter, ..newest };
        let Some(filling) = &mut self.filling else {
            // What began before a seam, and was told behind it, belongs to what is whole.
            let closed = self.segments.back().map_or(0, |last| last.to);
            if offset >= closed {
                self.open(point, true, header, now);
            }
            return;
        };
        let ticks = point.time.since(filling.start.time);
        if ticks <= 0 {
            return;
        }
        filling.join = Some(point);
        if self.split != Some(offset) {
            filling.whole = Some(point);
        }
        self.parts.join(offset);
        if self.target.is_none() {
            self.settle_target(ticks);
        }
        if ticks + ROUNDING_TICKS >= self.segment_ticks() {
            let end = self.filling.as_ref().and_then(OpenSegment::end);
            self.cut(end.unwrap_or(point), true, header, now);
        }
    }

    /// The target is what as many groups of pictures last as a segment needs, if they all are as
    /// long as this one. Players take it for rounded (RFC 8216 section 4.3.3.1).
    fn settle_target(&mut self, group: i64) {
        let group = group.clamp(1, GROUP_TICKS_MAX);
        if self.target.is_none() {
            self.parts.settle(self.segment_ticks());
        }
        let groups = (self.segment_ticks() - ROUNDING_TICKS + group - 1) / group;
        let before = self.segments.iter().map(|segment| i64::from(segment.ticks));
        let longest = before.max().unwrap_or(0).max(groups * group);
        let seconds = (longest + TICKS / 2) / TICKS;
        self.target.get_or_insert(seconds.max(1) as u32);
    }

    fn segment_ticks(&self) -> i64 {
        let seconds = self.plan.segment.as_secs_f64();
        ((seconds * TICKS as f64) as i64).max(1)
    }

    // ---- Segments begin and end -----------------------------------------------------------------

    fn cut(&mut self, at: Point, is_join: bool, header: Header<'_>, now: Instant) {
        let join = self.filling.as_ref().and_then(|filling| filling.join);
        self.close(at.offset, at.time);
        self.open(at, is_join, header, now);
        if let Some(filling) = &mut self.filling {
            filling.join = join.filter(|join| join.offset > at.offset);
        }
    }

    /// A segment begins, if it can.
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
            (Some(_), Heading::Unfit(fault)) => Err(fault),
            (Some(Kind::MpegTs), _) => lead::of_tables(header, start.counter),
            (Some(Kind::Mp3 | Kind::Aac), _) => Ok(lead::of_time(start.time)),
            (Some(Kind::Mp4), Heading::Fit) => Ok(Vec::new()),
            (Some(Kind::Mp4), Heading::New) => self.map_by(header).map(|()| Vec::new()),
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
        self.filling = Some(OpenSegment {
            start,
            began: self.began(now),
            lead: Rc::new(lead),
            is_discontinuous: std::mem::take(&mut self.is_broken),
            is_independent,
            join: None,
            whole: None,
        });
    }

    /// When a segment begins: so much later than the one before as its clock says, which is led
    /// back by and by to when its bytes come; and never before that one, however far ahead of its
    /// time it is sent.
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

    /// The header that MP4 needs; another one than before makes a seam.
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

    /// The media ends before this offset: what follows begins with a header of its own.
    fn break_off(&mut self, offset: u64) {
        if let Some(last) = self.newest.take() {
            self.close(offset, last.time.after(self.gap as u64));
        }
    }

    /// The one that fills is whole.
    fn close(&mut self, to: u64, end: MediaTime) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        let ticks = end.since(filling.start.time).max(1);
        if to <= filling.start.offset {
            return;
        }
        // A segment that was broken off says nothing about the length of the others.
        if self.made() + 1 >= LISTED_MIN as u64 {
            self.settle_target(ticks);
        }
        let parts = self.parts.end(to, end);
        let ticks_max = self.target.map_or(ticks, ticks_within);
        self.discontinuities += u64::from(filling.is_discontinuous);
        self.segments.push_back(Segment {
            number: self.number,
            from: filling.start.offset,
            to,
            lead: filling.lead,
            map: self.map.clone(),
            ticks: ticks.min(ticks_max) as u32,
            began: filling.began,
            is_discontinuous: filling.is_discontinuous,
            discontinuities: self.discontinuities,
            is_independent: filling.is_independent,
            parts,
        });
        if let Some(old) = self.segments.iter_mut().rev().nth(PARTS_KEPT) {
            old.parts = Rc::default();
        }
        self.number += 1;
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

    // ---- What is asked for ----------------------------------------------------------------------

    /// How many segments there have been.
    fn made(&self) -> u64 {
        self.number - self.plan.first_number()
    }

    /// Why segments do not begin though something might.
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

    /// The segment that has this name.
    pub fn segment(&self, name: &str) -> Option<&Segment> {
        let extension = self.kind()?.extension();
        self.numbered(Name::number_in(name, self.plan.tag, extension)?)
    }

    /// The segment of this number. They are numbered without gaps.
    fn numbered(&self, number: u64) -> Option<&Segment> {
        let first = self.segments.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.segments.get(index)
    }

    /// The map that has this name.
    pub fn map(&self, name: &str) -> Option<&Rc<Map>> {
        let number = Name::number_in(name, self.plan.tag, MAP_EXTENSION)?;
        let maps = self
            .segments
            .iter()
            .filter_map(|segment| segment.map.as_ref())
            .chain(self.map.as_ref());
        maps.rev().find(|map| map.number == number)
    }

    /// What its segments are.
    pub fn kind(&self) -> Option<Kind> {
        self.kind.and_then(Result::ok)
    }

    /// Whether a segment has become whole, or the stream is over, since this was asked.
    pub fn take_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// Higher than those of its segments.
    pub fn next_number(&self) -> u64 {
        self.number
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// How often a segment had to end within a group of pictures.
    pub fn cuts_in_groups(&self) -> u64 {
        self.cuts_in_groups
    }

    /// How long a segment is at the most.
    pub fn target(&self) -> Duration {
        let group_max = (GROUP_TICKS_MAX / TICKS) as u32;
        Duration::from_secs(self.target.unwrap_or(group_max).into())
    }
}

const NO_CONTAINER_OF_HLS: &str =
    "it is none of MPEG-TS, fragmented MP4, MP3 and AAC, and HLS knows no others";

const SCRAMBLED: &str = "its packets are scrambled, and their times with them";

const UNTIMED: &str = "its pictures or fragments do not say their times";

/// So many ticks are not more than so many seconds, rounded.
fn ticks_within(seconds: u32) -> i64 {
    i64::from(seconds) * TICKS + TICKS / 2 - 1
}
