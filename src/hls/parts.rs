//! The parts of the segment that fills (draft-pantos-hls-rfc8216bis section 4.4.4.9): whole
//! fragments of MP4, which can be had before their segment is whole.
//!
//! How long a part is at the most is settled with the target, by the longest fragment until then,
//! and never changes: should a fragment not go into it, there are no parts any more.

use std::rc::Rc;

use crate::format::MediaTime;

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

/// A part is half a second at least, if fragments are shorter,
const TICKS_MIN: i64 = MediaTime::TICKS_PER_SECOND as i64 / 2;
/// and so many go into a segment at the most, if it is as long as was asked for;
const IN_SEGMENT_MAX: i64 = 8;
/// so many at the least, or there are none.
const IN_SEGMENT_MIN: i64 = 2;

/// See the module.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Parts {
    length: Length,
    whole: Vec<Part>,
    /// Where the one begins that fills, and whether decoding can.
    open: Option<(Point, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Length {
    /// Not settled: the longest fragment so far, in ticks.
    Unknown { longest: i64 },
    /// A part has so many ticks at the most.
    Of(i64),
    /// There are none.
    Unfit,
}

impl Parts {
    /// Before a stream's first byte.
    pub fn new() -> Parts {
        Parts {
            length: Length::Unknown { longest: 0 },
            whole: Vec::new(),
            open: None,
        }
    }

    /// How long a part is at the most, in ticks, if there are any.
    pub fn ticks_max(&self) -> Option<i64> {
        match self.length {
            Length::Of(ticks) => Some(ticks),
            Length::Unknown { .. } | Length::Unfit => None,
        }
    }

    /// Those of the segment that fills.
    pub fn whole(&self) -> &[Part] {
        &self.whole
    }

    /// The target is settled; a segment is to last so many ticks. The one that fills has no parts.
    pub fn settle(&mut self, segment: i64) {
        let Length::Unknown { longest } = self.length else {
            return;
        };
        let least = TICKS_MIN.max(segment / IN_SEGMENT_MAX);
        let fragments = (least + longest.max(1) - 1) / longest.max(1);
        let ticks = fragments * longest;
        let is_fit = longest > 0 && ticks * IN_SEGMENT_MIN <= segment + segment / 100;
        self.length = match is_fit {
            // Encoders round their times.
            true => Length::Of(ticks + ticks / 100),
            false => Length::Unfit,
        };
        self.open = None;
    }

    /// A segment begins.
    pub fn begin(&mut self, start: Point, is_independent: bool) {
        self.whole.clear();
        self.open = Some((start, is_independent));
    }

    /// A fragment begins, so long after the one before. Says whether another part is whole.
    pub fn pass(&mut self, point: Point, gap: i64) -> bool {
        if let Length::Unknown { longest } = &mut self.length {
            *longest = gap.max(*longest);
            return false;
        }
        let (Some(ticks_max), Some((start, _))) = (self.ticks_max(), self.open) else {
            return false;
        };
        let ticks = point.time.since(start.time);
        // As long as the one before is the next, presumably.
        if ticks <= 0 || ticks + gap <= ticks_max {
            return false;
        }
        self.close(point.offset, ticks);
        self.open = Some((point, false));
        true
    }

    /// Decoding can begin here.
    pub fn join(&mut self, offset: u64) {
        if let Some((start, is_independent)) = &mut self.open {
            *is_independent |= start.offset == offset;
        }
    }

    /// The segment ends: these are its parts.
    pub fn end(&mut self, to: u64, time: MediaTime) -> Rc<[Part]> {
        let open = self.open.take();
        if let Some((start, _)) = open.filter(|(start, _)| start.offset < to) {
            self.open = open;
            self.close(to, time.since(start.time).max(1));
            self.open = None;
        }
        // It may end before what was given out as a part of it.
        if self.whole.last().is_some_and(|last| last.to != to) {
            self.give_up();
        }
        std::mem::take(&mut self.whole).into()
    }

    fn close(&mut self, to: u64, ticks: i64) {
        let (Some(ticks_max), Some((start, is_independent))) = (self.ticks_max(), self.open) else {
            return;
        };
        if ticks > ticks_max || self.whole.len() >= PARTS_MAX {
            self.give_up();
            return;
        }
        self.whole.push(Part {
            from: start.offset,
            to,
            ticks: ticks as u32,
            is_independent,
        });
    }

    /// There are none any more.
    pub fn give_up(&mut self) {
        self.length = Length::Unfit;
        self.whole = Vec::new();
        self.open = None;
    }

    /// Bytes that its allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.whole.capacity() * size_of::<Part>()
    }
}
