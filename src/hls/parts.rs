//! The parts of the segment that fills (draft-pantos-hls-rfc8216bis section 4.4.4.9): whole
//! fragments of MP4, which can be had before their segment is whole.
//!
//! How long a part is at the most is settled with the target, by the fragments until then, and
//! never changes: should a fragment not go into it, there are no parts any more. It is the shortest
//! length with which every part would have had 85 % of it at least, but for those that need not
//! (the last of a segment, and those in which decoding can begin). Where fragments come otherwise
//! later, parts are as long as what comes allows.

use std::rc::Rc;

use crate::time::MediaTime;

use super::point::Point;

/// Some fragments of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Part {
    /// Its bytes are those of the stream from this offset
    pub from: u64,
    /// to this one.
    pub to: u64,
    /// How long it is, in ticks of [`MediaTime`].
    pub ticks: u32,
    /// Decoding can begin with it.
    pub is_independent: bool,
}

/// A segment has so many at the most.
pub(super) const PARTS_MAX: usize = 32;

/// A part is half a second at least, or a quarter of a segment, if fragments are shorter,
const TICKS_MIN: i64 = MediaTime::TICKS_PER_SECOND as i64 / 2;
/// and so many go into a segment at the most, if it is as long as was asked for;
const IN_SEGMENT_MAX: i64 = 8;
/// so many at the least, or there are none.
const IN_SEGMENT_MIN: i64 = 2;

/// So many fragments show how long they come, at the most.
const EARLY_MAX: usize = 128;
/// So many lengths are tried for them.
const LENGTHS_TRIED: usize = 16;
/// Of its greatest length a part has so many hundredths.
const LEAST_HUNDREDTHS: i64 = 85;

/// See the module.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Parts {
    length: Length,
    /// How long the first fragments are, in ticks, until the length is settled.
    early: Vec<u32>,
    whole: Vec<Part>,
    open: Option<Open>,
    /// Where the fragment begins that came last.
    newest: Option<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Length {
    /// Not settled.
    Unknown,
    /// A part has so many ticks at the most.
    Of(i64),
    /// There are none.
    Unfit,
}

/// The part that fills.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Open {
    start: Point,
    /// Decoding can begin in it, before the newest point at which it can,
    is_independent: bool,
    /// which is here, if it is not behind it.
    join: Option<u64>,
}

impl Open {
    fn at(start: Point) -> Open {
        Open {
            start,
            is_independent: false,
            join: None,
        }
    }
}

impl Parts {
    /// Before a stream's first byte.
    pub fn new() -> Parts {
        Parts {
            length: Length::Unknown,
            early: Vec::new(),
            whole: Vec::new(),
            open: None,
            newest: None,
        }
    }

    /// How long a part is at the most, in ticks, if there are any.
    pub fn ticks_max(&self) -> Option<i64> {
        match self.length {
            Length::Of(ticks) => Some(ticks),
            Length::Unknown | Length::Unfit => None,
        }
    }

    /// Those of the segment that fills.
    pub fn whole(&self) -> &[Part] {
        &self.whole
    }

    /// Where the last of them ends.
    pub fn shown_until(&self) -> Option<Point> {
        let open = self.open.filter(|_| !self.whole.is_empty())?;
        Some(open.start)
    }

    /// The target is settled; a segment is to last so many ticks. The one that fills has no parts.
    pub fn settle(&mut self, segment: i64) {
        if self.length != Length::Unknown {
            return;
        }
        let early = std::mem::take(&mut self.early);
        self.length = length(&early, segment).map_or(Length::Unfit, Length::Of);
        self.open = None;
    }

    /// A segment begins.
    pub fn begin(&mut self, start: Point, is_independent: bool) {
        self.whole.clear();
        self.open = Some(Open {
            is_independent,
            ..Open::at(start)
        });
    }

    /// A fragment begins, so long after the one before. Says whether there is another part.
    pub fn pass(&mut self, point: Point, gap: i64) -> bool {
        if self.length == Length::Unknown {
            if self.early.len() < EARLY_MAX {
                self.early
                    .extend(u32::try_from(gap).ok().filter(|gap| *gap > 0));
            }
            return false;
        }
        let Some(ticks_max) = self.ticks_max() else {
            return false;
        };
        let before = self.whole.len();
        self.make_room(point);
        if let Some(open) = &self.open {
            let ticks = point.time.since(open.start.time);
            // As long as the one before is the next, presumably.
            if ticks >= least(ticks_max) && ticks + gap > ticks_max {
                self.close(point);
            }
        }
        self.newest = Some(point);
        self.whole.len() != before || self.length == Length::Unfit
    }

    /// Decoding can begin here.
    pub fn join(&mut self, offset: u64) {
        if let Some(open) = &mut self.open
            && open.start.offset <= offset
        {
            open.is_independent |= open.join.is_some();
            open.join = Some(offset);
        }
    }

    /// The segment ends: these are its parts.
    pub fn end(&mut self, to: u64, time: MediaTime) -> Rc<[Part]> {
        let end = Point {
            offset: to,
            time,
            counter: None,
        };
        self.make_room(end);
        if self.open.is_some_and(|open| open.start.offset < to) {
            self.close(end);
        }
        self.open = None;
        // It may end before what was given out as a part of it.
        if self.whole.last().is_some_and(|last| last.to != to) {
            self.give_up();
        }
        std::mem::take(&mut self.whole).into()
    }

    /// If what comes before this point does not go into the part, it ends with the fragment before.
    fn make_room(&mut self, point: Point) {
        let (Some(ticks_max), Some(open)) = (self.ticks_max(), self.open) else {
            return;
        };
        let is_between =
            |newest: &Point| open.start.offset < newest.offset && newest.offset < point.offset;
        let is_too_long = point.time.since(open.start.time) > ticks_max;
        if let Some(newest) = self.newest.filter(is_between)
            && is_too_long
        {
            self.close(newest);
        }
    }

    /// The part ends here, where the next one begins.
    fn close(&mut self, end: Point) {
        let (Some(ticks_max), Some(open)) = (self.ticks_max(), self.open) else {
            return;
        };
        let ticks = end.time.since(open.start.time).max(1);
        if ticks > ticks_max || self.whole.len() >= PARTS_MAX {
            self.give_up();
            return;
        }
        self.whole.push(Part {
            from: open.start.offset,
            to: end.offset,
            ticks: ticks as u32,
            is_independent: open.is_independent || open.join.is_some_and(|join| join < end.offset),
        });
        self.open = Some(Open {
            join: open.join.filter(|join| *join >= end.offset),
            ..Open::at(end)
        });
    }

    /// There are none any more.
    pub fn give_up(&mut self) {
        self.length = Length::Unfit;
        self.early = Vec::new();
        self.whole = Vec::new();
        self.open = None;
    }

    /// Bytes that its allocations take: of those that are whole, or of what comes before them.
    pub fn held_bytes(&self) -> usize {
        self.whole.capacity() * size_of::<Part>() + self.early.capacity() * size_of::<u32>()
    }
}

/// What a part must have that may have so many ticks.
fn least(ticks_max: i64) -> i64 {
    (ticks_max * LEAST_HUNDREDTHS + 99) / 100
}

/// How long parts are at the most, in ticks, if a group of pictures has fragments of these, and
/// segments are to last so long. `None` if there can be none.
fn length(group: &[u32], segment: i64) -> Option<i64> {
    let shortest = TICKS_MIN.clamp(segment / IN_SEGMENT_MAX, (segment / 4).max(1));
    let longest = (segment + segment / 100) / IN_SEGMENT_MIN;
    let fragment = i64::from(*group.iter().max()?);
    let usual = (shortest + fragment - 1) / fragment * fragment;
    let mut sums: Vec<i64> = group
        .iter()
        .scan(0, |sum, fragment| {
            *sum += i64::from(*fragment);
            Some(*sum)
        })
        .chain([usual])
        .filter(|sum| (shortest.max(fragment)..=longest).contains(sum))
        .collect();
    sums.sort_unstable();
    sums.dedup();
    let fitting = sums.iter().take(LENGTHS_TRIED).find_map(|sum| {
        let least_had = match fragment <= sum - least(*sum) {
            // However they come.
            true => *sum,
            false => shortest_part(group, segment, *sum)?,
        };
        // Encoders round their times.
        Some((sum + sum / 100).min(least_had * 100 / LEAST_HUNDREDTHS))
    });
    fitting.or((usual <= longest).then_some(usual + usual / 100))
}

/// The shortest part of a segment that is made of such groups, if parts have so many ticks at the
/// most; `None` if one would have to be shorter than it may.
fn shortest_part(group: &[u32], segment: i64, ticks_max: i64) -> Option<i64> {
    let (mut ticks, mut all, mut shortest, mut has_join) = (0, 0, ticks_max, false);
    loop {
        for (index, fragment) in group.iter().enumerate() {
            let fragment = i64::from(*fragment);
            if ticks + fragment > ticks_max {
                if ticks >= least(ticks_max) {
                    shortest = shortest.min(ticks);
                } else if !has_join {
                    return None;
                }
                (ticks, has_join) = (0, false);
            }
            has_join |= index == 0;
            (ticks, all) = (ticks + fragment, all + fragment);
            if ticks >= least(ticks_max) && ticks + fragment > ticks_max {
                shortest = shortest.min(ticks);
                (ticks, has_join) = (0, false);
            }
        }
        if all + all / 100 >= segment {
            return Some(shortest);
        }
    }
}

#[cfg(feature = "handover")]
impl Parts {
    /// Whether what was told of it can be, of a stream whose newest byte is this one.
    pub fn fits(&self, newest: u64) -> bool {
        let length_fits = match self.length {
            Length::Of(ticks) => (1..=TICKS_MAX).contains(&ticks),
            Length::Unknown | Length::Unfit => true,
        };
        let part_fits = |part: &Part| part.from < part.to && part.to <= newest;
        let open = self.open.map(|open| open.start.offset);
        let places = [open, self.newest.map(|point| point.offset)];
        length_fits
            && self.early.len() <= EARLY_MAX
            && self.early.iter().all(|ticks| *ticks > 0)
            && self.whole.len() <= PARTS_MAX
            && self.whole.iter().all(part_fits)
            && places.into_iter().flatten().all(|place| place <= newest)
    }
}

/// Half of what a clock goes round in.
#[cfg(feature = "handover")]
const TICKS_MAX: i64 = 1 << 32;
