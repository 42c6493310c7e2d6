//! What is known of a stream's container: which header a late viewer gets, and the places in the
//! buffer where one may begin or be cut off.
//!
//! Owns no media bytes; the header is the scanner's. `header_end <= every point`; all are
//! ascending, and none is older than the buffer's oldest byte.

use std::collections::VecDeque;

use crate::format::{Finding, Format, Start, UNIT_SPACING};
use crate::time::Instant;

/// What a stream's bytes have shown of their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Told {
    /// Too few have arrived to tell.
    Undecided,
    /// A container that can be joined.
    Known(Format),
    /// Anything else: viewers join at the live edge.
    Unknown,
}

/// Places where viewers may begin, newest last.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Points {
    /// What is known of the container.
    pub told: Told,
    /// The container that the first bytes showed, though it may have been let go since.
    pub shown: Option<Format>,
    /// Which header this is: 0 before the first.
    pub header_serial: u64,
    /// Where what follows the header begins: whoever has read so far has seen the header in the
    /// stream itself.
    pub(super) header_end: Option<u64>,
    pub(super) joins: VecDeque<Join>,
    /// A join point came since the newest header.
    has_had_joins: bool,
    /// Offsets at which a viewer may be cut off.
    pub(super) units: VecDeque<u64>,
    /// Where a viewer may be begun without a join point: not always one at which another may be cut
    /// off.
    pub(super) newest_unit: Option<Start>,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Join {
    pub(super) start: Start,
    at: Instant,
}

impl Default for Points {
    fn default() -> Points {
        Points {
            told: Told::Undecided,
            shown: None,
            header_serial: 0,
            header_end: None,
            joins: VecDeque::new(),
            has_had_joins: false,
            units: VecDeque::new(),
            newest_unit: None,
        }
    }
}

impl Points {
    /// Takes over what the scanner found in bytes that arrived at `now`.
    pub fn take(&mut self, finding: Finding, now: Instant) {
        match finding {
            Finding::Format(format) => {
                self.told = Told::Known(format);
                self.shown = Some(format);
            }
            Finding::Unknown => {
                *self = Points {
                    told: Told::Unknown,
                    shown: self.shown,
                    ..Points::default()
                };
            }
            Finding::Header => {
                self.header_serial += 1;
                (self.header_end, self.newest_unit) = (None, None);
                self.has_had_joins = false;
                // Their room stays: headers may come often.
                self.joins.clear();
                self.units.clear();
            }
            Finding::Join(start) => self.add_join(start, now),
            Finding::Unit(start) => {
                self.header_end.get_or_insert(start.offset);
                // However small the units are, their places must not fill the memory; the next one
                // will do.
                let is_spaced = self
                    .units
                    .back()
                    .is_none_or(|last| start.offset >= last + UNIT_SPACING);
                self.units.extend(is_spaced.then_some(start.offset));
                self.newest_unit = Some(start);
            }
            Finding::Entry(start) => {
                self.header_end.get_or_insert(start.offset);
                self.newest_unit = Some(start);
            }
            Finding::Time(..) | Finding::Lasts(_) | Finding::Split(_) | Finding::Break(_) => {}
        }
    }

    /// Bytes that the places take: [`Points::held_bytes_max`] at the most.
    pub fn held_bytes(&self) -> usize {
        self.joins.capacity() * size_of::<Join>() + self.units.capacity() * size_of::<u64>()
    }

    /// Of a buffer of so many bytes: places of either kind are [`UNIT_SPACING`] apart, but for the
    /// newest. Room for them doubles as it is needed.
    pub const fn held_bytes_max(buffer_bytes: usize) -> usize {
        let places = buffer_bytes / UNIT_SPACING as usize + 4;
        2 * places * (size_of::<Join>() + size_of::<u64>())
    }

    fn add_join(&mut self, start: Start, now: Instant) {
        self.header_end.get_or_insert(start.offset);
        let before_last = self
            .joins
            .len()
            .checked_sub(2)
            .and_then(|index| self.joins.get(index));
        // Points are spaced too, but for the newest.
        if before_last.is_some_and(|join| start.offset < join.start.offset + UNIT_SPACING) {
            self.joins.pop_back();
        }
        self.joins.push_back(Join { start, at: now });
        self.has_had_joins = true;
    }

    /// Forgets what lies before the buffer's oldest byte.
    pub fn forget_before(&mut self, oldest: u64) {
        while self
            .joins
            .front()
            .is_some_and(|join| join.start.offset < oldest)
        {
            self.joins.pop_front();
        }
        while self.units.front().is_some_and(|unit| *unit < oldest) {
            self.units.pop_front();
        }
        self.newest_unit = self.newest_unit.filter(|unit| unit.offset >= oldest);
    }

    /// Whether a viewer that has read up to here has seen the header.
    pub fn is_past_header(&self, offset: u64) -> bool {
        self.header_end.is_some_and(|end| end <= offset)
    }

    /// Whether decoding can begin anywhere in the buffer.
    pub fn has_joins(&self) -> bool {
        !self.joins.is_empty()
    }

    /// How many places there are in the buffer at which decoding can begin.
    pub fn joins(&self) -> usize {
        self.joins.len()
    }

    /// Returns the offset from which join points count, in a stream whose newest byte is at
    /// `newest`. Points before the newest header do not count.
    pub fn header_offset(&self, newest: u64) -> u64 {
        match self.header_serial {
            0 | 1 => 0,
            _ => self.header_end.unwrap_or(newest),
        }
    }

    /// Whether there has been one since the header, though it may be gone.
    pub fn has_had_joins(&self) -> bool {
        self.has_had_joins
    }

    /// Where a viewer begins: at the newest join point, or the newest that lies so far back; at the
    /// newest unit if there is no point.
    pub fn start(&self, back: &Back) -> Option<Start> {
        let chosen = self
            .joins
            .iter()
            .rposition(|join| back.is_reached(join.start.offset, join.at))
            .or((!self.joins.is_empty()).then_some(0));
        let join = chosen.and_then(|index| self.joins.get(index));
        join.map(|join| join.start).or(self.newest_unit)
    }

    /// The last place at or before `offset` where a viewer may be cut off.
    pub fn unit_before(&self, offset: u64) -> Option<u64> {
        let count = self.units.partition_point(|unit| *unit <= offset);
        self.units.get(count.checked_sub(1)?).copied()
    }

    /// The first place at or behind `cursor` where a viewer may be cut off. A join point is not
    /// always one: a viewer can begin in the middle of a Matroska Cluster in which another must not
    /// be stopped.
    pub fn unit_end(&self, cursor: u64) -> Option<u64> {
        self.units
            .get(self.units.partition_point(|unit| *unit < cursor))
            .copied()
    }
}

/// How far back a new viewer begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    /// The join point must lie at or before this offset,
    pub offset_max: u64,
    /// and have arrived at this time or earlier.
    pub moment_max: Instant,
}

impl Back {
    fn is_reached(&self, offset: u64, at: Instant) -> bool {
        offset <= self.offset_max && at <= self.moment_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    /// Points at these offsets, a second each, behind units at those.
    fn points(joins: &[u64], units: &[u64]) -> Points {
        let mut points = Points::default();
        points.take(Finding::Format(Format::Flv), at(0));
        points.take(Finding::Header, at(0));
        for offset in units {
            points.take(Finding::Unit(Start::at(*offset)), at(0));
        }
        for (second, offset) in joins.iter().enumerate() {
            points.take(Finding::Join(Start::at(*offset)), at(second as u64));
        }
        points
    }

    fn joins(points: &Points) -> Vec<u64> {
        points.joins.iter().map(|join| join.start.offset).collect()
    }

    /// However close together they come, places do not fill the memory: of units the first counts,
    /// of points the newest as long as it is that.
    #[test]
    fn places_are_spaced() {
        for (offsets, joins_kept, units_kept) in [
            (&[7][..], &[7][..], &[7][..]),
            (&[7, 8], &[7, 8], &[7]),
            (&[7, 8, 9], &[7, 9], &[7]),
            (&[7, 8, 4_102], &[7, 4_102], &[7]),
            (&[7, 8, 4_103], &[7, 8, 4_103], &[7, 4_103]),
            (&[7, 4_103, 8_199], &[7, 4_103, 8_199], &[7, 4_103, 8_199]),
            (&[7, 4_103, 8_198], &[7, 4_103, 8_198], &[7, 4_103]),
            (&[7, 5_000, 5_100, 5_200], &[7, 5_000, 5_200], &[7, 5_000]),
        ] {
            let points = points(offsets, offsets);
            assert_eq!(joins(&points), joins_kept, "{offsets:?}");
            assert!(points.units.iter().eq(units_kept), "{offsets:?}");
            assert_eq!(points.joins(), joins_kept.len());
            let newest = offsets.last().copied();
            assert_eq!(points.newest_unit.map(|unit| unit.offset), newest);
        }
    }

    /// Of a buffer of a few hundred KiB in which every byte is a place.
    #[test]
    fn what_places_hold_is_told_and_bounded() {
        const BUFFER_BYTES: u64 = 512 << 10;
        let mut points = points(&[], &[]);
        for offset in 0..3 * BUFFER_BYTES {
            points.take(Finding::Unit(Start::at(offset)), at(0));
            points.take(Finding::Join(Start::at(offset)), at(0));
            points.forget_before(offset.saturating_sub(BUFFER_BYTES));
        }
        let units_alone = self::points(&[], &[0, 4_096, 8_192, 12_288, 16_384]);
        assert!((40..100).contains(&units_alone.held_bytes()));
        let (joins, units) = (points.joins.len(), points.units.len());
        assert!(joins >= 128 && units >= 128, "{joins}, {units}");
        let least = joins * size_of::<Join>() + units * size_of::<u64>();
        let most = Points::held_bytes_max(BUFFER_BYTES as usize);
        assert!((least..=most).contains(&points.held_bytes()));
        assert!(most < BUFFER_BYTES as usize / 20);
    }

    #[test]
    fn points_before_another_header_do_not_count() {
        let mut points = points(&[20_000], &[10_000]);
        assert_eq!(
            (points.has_had_joins(), points.header_offset(70_000)),
            (true, 0)
        );
        points.take(Finding::Header, at(0));
        assert_eq!(
            (points.has_had_joins(), points.header_offset(70_000)),
            (false, 70_000)
        );
        points.take(Finding::Unit(Start::at(60_000)), at(0));
        assert_eq!(points.header_offset(70_000), 60_000);
    }

    #[test]
    fn what_is_overwritten_is_forgotten() {
        for (oldest, joins_left, units_left, newest_unit) in [
            (
                0,
                &[20_000, 40_000][..],
                &[10_000, 30_000][..],
                Some(30_000),
            ),
            (10_000, &[20_000, 40_000], &[10_000, 30_000], Some(30_000)),
            (10_001, &[20_000, 40_000], &[30_000], Some(30_000)),
            (20_000, &[20_000, 40_000], &[30_000], Some(30_000)),
            (20_001, &[40_000], &[30_000], Some(30_000)),
            (30_000, &[40_000], &[30_000], Some(30_000)),
            (30_001, &[40_000], &[], None),
            (50_000, &[], &[], None),
        ] {
            let mut points = points(&[20_000, 40_000], &[10_000, 30_000]);
            points.forget_before(oldest);
            assert_eq!(joins(&points), joins_left, "{oldest}");
            assert!(points.units.iter().eq(units_left), "{oldest}");
            assert_eq!(points.newest_unit.map(|unit| unit.offset), newest_unit);
            assert_eq!(points.has_joins(), !joins_left.is_empty());
            assert!(points.has_had_joins());
        }
        assert!(!points(&[], &[10_000]).has_had_joins());
    }

    /// A viewer is cut off between two units: what it is in the middle of goes out up to the next.
    #[test]
    fn units_lie_before_and_behind() {
        let points = points(&[15_000], &[10_000, 20_000, 30_000]);
        for (offset, before, end) in [
            (0, None, Some(10_000)),
            (9_999, None, Some(10_000)),
            (10_000, Some(10_000), Some(10_000)),
            (10_001, Some(10_000), Some(20_000)),
            (15_000, Some(10_000), Some(20_000)),
            (20_000, Some(20_000), Some(20_000)),
            (30_000, Some(30_000), Some(30_000)),
            (30_001, Some(30_000), None),
        ] {
            assert_eq!(points.unit_before(offset), before, "{offset}");
            assert_eq!(points.unit_end(offset), end, "{offset}");
        }
    }

    /// The header is behind whoever has read up to the first thing that follows it, whatever that
    /// is; of the next header nobody has.
    #[test]
    fn the_first_place_behind_a_header_is_its_end() {
        for first in [Finding::Unit, Finding::Join, Finding::Entry] {
            let mut points = points(&[], &[]);
            assert!(!points.is_past_header(u64::MAX));
            points.take(first(Start::at(100)), at(0));
            points.take(Finding::Unit(Start::at(9_000)), at(0));
            points.take(Finding::Join(Start::at(9_000)), at(0));
            points.take(Finding::Entry(Start::at(9_000)), at(0));
            for (offset, is_past) in [(0, false), (99, false), (100, true), (101, true)] {
                assert_eq!(points.is_past_header(offset), is_past, "{offset}");
            }
            points.take(Finding::Header, at(0));
            assert!(!points.is_past_header(9_000) && !points.has_joins());
            assert_eq!((points.header_serial, points.unit_end(0)), (2, None));
        }
    }

    /// A viewer begins at the newest point that is far enough back in bytes and in time; where none
    /// is, at the oldest there is; and where there is none, at the newest unit.
    #[test]
    fn a_viewer_begins_as_far_back_as_it_should() {
        let with_joins = points(&[10_000, 20_000, 30_000], &[50_000]);
        for (offset_max, seconds, offset) in [
            (99_999, 9, 30_000),
            (30_000, 2, 30_000),
            (29_999, 2, 20_000),
            (30_000, 1, 20_000),
            (29_999, 9, 20_000),
            (99_999, 0, 10_000),
            (19_999, 9, 10_000),
            (0, 9, 10_000),
        ] {
            let back = Back {
                offset_max,
                moment_max: at(seconds),
            };
            let start = with_joins.start(&back).map(|start| start.offset);
            assert_eq!(start, Some(offset), "{offset_max}, {seconds} s");
        }
        let back = Back {
            offset_max: 0,
            moment_max: at(0),
        };
        let start = points(&[], &[10_000, 50_000]).start(&back);
        assert_eq!(start, Some(Start::at(50_000)));
        assert_eq!(points(&[], &[]).start(&back), None);
    }

    /// What the first bytes showed is known still when nothing else counts any more.
    #[test]
    fn what_was_let_go_has_no_places() {
        let mut points = points(&[10_000], &[10_000]);
        points.take(Finding::Unknown, at(0));
        assert_eq!(points.told, Told::Unknown);
        assert_eq!(points.shown, Some(Format::Flv));
        assert!(!points.has_joins() && points.unit_before(u64::MAX).is_none());
        assert_eq!((points.newest_unit, points.header_serial), (None, 0));
    }
}
