//! The parts of the open segment (draft-pantos-hls-rfc8216bis section 4.4.4.9): whole fragments of
//! MP4, which players can fetch before the segment is complete.
//!
//! The part target is settled together with the target duration, from the fragments up to then. It
//! never changes: if a later fragment is longer, the stream has no parts any more. The part target
//! is the shortest one that every part would have filled to at least 85 %. The last part of a
//! segment and parts with a join point may be shorter. If fragments change later, parts are as
//! long as the fragments allow.

use std::num::NonZeroU32;
use std::rc::Rc;

use crate::time::MediaTime;

use super::point::Point;

/// A part: some fragments of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Part {
    /// Offset of the first byte in the stream.
    pub from: u64,
    /// Offset after the last byte.
    pub to: u64,
    /// Duration in ticks of [`MediaTime`].
    pub ticks: u32,
    /// Whether decoding can begin with the part.
    pub is_independent: bool,
}

/// Maximal number of parts of a segment.
pub(super) const PARTS_MAX: usize = 32;

/// Shortest part, if fragments are shorter: half a second, or a quarter of a segment.
const TICKS_MIN: i64 = MediaTime::TICKS_PER_SECOND as i64 / 2;
/// Maximal number of parts in a segment of the configured duration.
const IN_SEGMENT_MAX: i64 = 8;
/// Fewest parts in a segment. With fewer the stream has no parts.
const IN_SEGMENT_MIN: i64 = 2;

/// Maximal number of fragments that the part target is computed from.
const EARLY_MAX: usize = 128;
/// Maximal number of part targets that are tried.
const LENGTHS_TRIED: usize = 16;
/// A part has at least this percentage of the part target.
const LEAST_HUNDREDTHS: i64 = 85;

/// The parts of the open segment.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Parts {
    length: Length,
    /// Durations of the first fragments in ticks, until the part target is settled.
    early: Vec<NonZeroU32>,
    pub whole: Vec<Part>,
    open: Option<Open>,
    /// Beginning of the newest fragment.
    newest: Option<Point>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Length {
    /// The part target is not settled.
    #[default]
    Unknown,
    /// The part target in ticks.
    Of(NonZeroU32),
    /// The stream has no parts.
    Unfit,
}

/// The open part.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Open {
    start: Point,
    /// Whether the part has a join point before `join`.
    is_independent: bool,
    /// Newest join point, if it is in the part.
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
    /// Returns the part target in ticks, if the stream has parts.
    pub fn ticks_max(&self) -> Option<i64> {
        match self.length {
            Length::Of(ticks) => Some(ticks.get().into()),
            Length::Unknown | Length::Unfit => None,
        }
    }

    /// Returns the end of the last complete part.
    pub fn shown_until(&self) -> Option<Point> {
        let open = self.open.filter(|_| !self.whole.is_empty())?;
        Some(open.start)
    }

    /// Settles the part target for segments of `segment` ticks. The open segment has no parts.
    pub fn set_target(&mut self, segment: i64) {
        if self.length != Length::Unknown {
            return;
        }
        let early = std::mem::take(&mut self.early);
        let ticks = length(&early, segment).and_then(|ticks| u32::try_from(ticks).ok());
        self.length = ticks
            .and_then(NonZeroU32::new)
            .map_or(Length::Unfit, Length::Of);
        self.open = None;
    }

    /// Begins a segment.
    pub fn begin(&mut self, start: Point, is_independent: bool) {
        self.whole.clear();
        self.open = Some(Open {
            is_independent,
            ..Open::at(start)
        });
    }

    /// Takes the beginning of a fragment, `gap` ticks after the one before. Returns whether the list
    /// of parts changed.
    pub fn pass(&mut self, point: Point, gap: i64) -> bool {
        if self.length == Length::Unknown {
            if self.early.len() < EARLY_MAX {
                let gap = u32::try_from(gap).ok().and_then(NonZeroU32::new);
                self.early.extend(gap);
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
            // The next fragment is taken to be as long as the one before.
            if ticks >= least(ticks_max) && ticks + gap > ticks_max {
                self.close(point);
            }
        }
        self.newest = Some(point);
        self.whole.len() != before || self.length == Length::Unfit
    }

    /// Takes a join point.
    pub fn join(&mut self, offset: u64) {
        if let Some(open) = &mut self.open
            && open.start.offset <= offset
        {
            open.is_independent |= open.join.is_some();
            open.join = Some(offset);
        }
    }

    /// Ends the segment, and returns its parts.
    pub fn end(&mut self, to: u64, time: MediaTime) -> Rc<[Part]> {
        let end = Point::new(to, time);
        self.make_room(end);
        if self.open.is_some_and(|open| open.start.offset < to) {
            self.close(end);
        }
        self.open = None;
        // The segment may end before the end of a part that players have seen.
        if self.whole.last().is_some_and(|last| last.to != to) {
            self.give_up();
        }
        std::mem::take(&mut self.whole).into()
    }

    /// Ends the open part with the fragment before, if the newest fragment does not fit into it.
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

    /// Ends the open part, and begins the next one.
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

    /// Ends the use of parts in this stream.
    pub fn give_up(&mut self) {
        self.length = Length::Unfit;
        self.early = Vec::new();
        self.whole = Vec::new();
        self.open = None;
    }

    /// Returns the bytes of the lists.
    #[cfg(feature = "handover")]
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.early) + size_of_val(&*self.whole)
    }
}

/// Returns the shortest part for a part target, in ticks.
fn least(ticks_max: i64) -> i64 {
    (ticks_max * LEAST_HUNDREDTHS + 99) / 100
}

/// Returns the part target in ticks, for a group of pictures with fragments of these durations and
/// segments of `segment` ticks. Returns `None` if the stream can have no parts.
fn length(group: &[NonZeroU32], segment: i64) -> Option<i64> {
    let shortest = TICKS_MIN.clamp(segment / IN_SEGMENT_MAX, (segment / 4).max(1));
    let longest = (segment + segment / 100) / IN_SEGMENT_MIN;
    let fragment = i64::from(group.iter().max()?.get());
    let usual = (shortest + fragment - 1) / fragment * fragment;
    let mut sums: Vec<i64> = group
        .iter()
        .scan(0, |sum, fragment| {
            *sum += i64::from(fragment.get());
            Some(*sum)
        })
        .chain([usual])
        .filter(|sum| (shortest.max(fragment)..=longest).contains(sum))
        .collect();
    sums.sort_unstable();
    sums.dedup();
    let fitting = sums.iter().take(LENGTHS_TRIED).find_map(|sum| {
        let least_had = match fragment <= sum - least(*sum) {
            // Any order of fragments fills such parts.
            true => *sum,
            false => shortest_part(group, segment, *sum)?,
        };
        // Encoders round their times.
        Some((sum + sum / 100).min(least_had * 100 / LEAST_HUNDREDTHS))
    });
    fitting.or((usual <= longest).then_some(usual + usual / 100))
}

/// Returns the shortest part of a segment of such groups, for a part target of `ticks_max`. Returns
/// `None` if a part would have to be shorter than allowed.
fn shortest_part(group: &[NonZeroU32], segment: i64, ticks_max: i64) -> Option<i64> {
    let (mut ticks, mut all, mut shortest, mut has_join) = (0, 0, ticks_max, false);
    loop {
        for (index, fragment) in group.iter().enumerate() {
            let fragment = i64::from(fragment.get());
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
