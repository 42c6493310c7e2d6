//! Where viewers may begin in a stream, and where they may be cut off.
//!
//! This module owns no media bytes; the scanner owns the header. `header_end <= every point`. All
//! offsets are ascending. None is before the buffer's oldest byte.

use std::collections::VecDeque;
use std::time::Duration;

use crate::format::{Finding, Format, Start, UNIT_SPACING};
use crate::time::Instant;

/// What a stream's bytes have shown of their format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Detected {
    /// Too few bytes have arrived to recognise a format.
    #[default]
    Undecided,
    /// The stream has a format with join points.
    Known(Format),
    /// The format is unknown. Viewers join at the live edge.
    Unknown,
}

/// Offsets where viewers may begin or be cut off. The newest is last.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Points {
    /// Format of the stream, as its bytes show by now.
    pub detected: Detected,
    /// Format that the first bytes showed, even if the stream did not continue as such.
    pub first_format: Option<Format>,
    /// Serial number of the newest header. 0 means that none has come.
    pub header_serial: u64,
    /// Offset of the first byte after the header. A viewer that has read up to it got the header
    /// with the stream.
    pub(super) header_end: Option<u64>,
    pub(super) joins: VecDeque<Join>,
    /// Whether a join point came since the newest header.
    pub has_had_joins: bool,
    /// Unit boundaries, at which a viewer may be cut off.
    pub(super) units: VecDeque<u64>,
    /// Newest unit, where a viewer begins if there is no join point. A viewer may not always be cut
    /// off here.
    pub(super) newest_unit: Option<Start>,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Join {
    pub(super) start: Start,
    pub(super) at: Instant,
}

impl Points {
    /// Records a finding of the scanner in bytes that arrived at `now`.
    pub fn take(&mut self, finding: Finding, now: Instant) {
        match finding {
            Finding::Format(format) => {
                self.detected = Detected::Known(format);
                self.first_format = Some(format);
            }
            Finding::Unknown => {
                *self = Points {
                    detected: Detected::Unknown,
                    first_format: self.first_format,
                    ..Points::default()
                };
            }
            Finding::Header => {
                self.header_serial = self.header_serial.wrapping_add(1);
                (self.header_end, self.newest_unit) = (None, None);
                self.has_had_joins = false;
                // The allocations stay, because headers may come often.
                self.joins.clear();
                self.units.clear();
            }
            Finding::Join(start) => self.add_join(start, now),
            Finding::Unit(start) => {
                self.header_end.get_or_insert(start.offset);
                // Offsets of small units must not fill the memory, so they have a minimum spacing.
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

    /// Returns the most bytes that the points of a buffer take. Points of either kind are
    /// [`UNIT_SPACING`] apart, but for the newest. Their allocation doubles when it is full.
    pub const fn memory_bytes_max(buffer_bytes: usize) -> usize {
        let places = buffer_bytes / UNIT_SPACING as usize + 4;
        2 * places * (size_of::<Join>() + size_of::<u64>())
    }

    fn add_join(&mut self, start: Start, now: Instant) {
        self.header_end.get_or_insert(start.offset);
        // Join points have a minimum spacing, too, but for the newest.
        let mut newest_first = self.joins.iter().rev().map(|join| join.start.offset);
        if let (Some(last), Some(before)) = (newest_first.next(), newest_first.next())
            && last < before + UNIT_SPACING
        {
            self.joins.pop_back();
        }
        self.joins.push_back(Join { start, at: now });
        self.has_had_joins = true;
    }

    /// Removes the points before the buffer's oldest byte.
    pub fn forget_before(&mut self, oldest: u64) {
        let is_old = |join: &Join| join.start.offset < oldest;
        while self.joins.front().is_some_and(is_old) {
            self.joins.pop_front();
        }
        while self.units.front().is_some_and(|unit| *unit < oldest) {
            self.units.pop_front();
        }
        self.newest_unit = self.newest_unit.filter(|unit| unit.offset >= oldest);
    }

    /// Returns the offset behind the newest whole unit: where the unit after it begins.
    pub fn newest_unit_end(&self) -> Option<u64> {
        let join = self.joins.back().map(|join| join.start.offset);
        join.max(self.newest_unit.map(|unit| unit.offset))
    }

    /// Returns whether a viewer that has read up to `offset` has got the header with the stream.
    pub fn is_past_header(&self, offset: u64) -> bool {
        self.header_end.is_some_and(|end| end <= offset)
    }

    /// Returns the offset from which join points count, in a stream whose newest byte is at
    /// `newest`. Points before the newest header do not count.
    pub fn header_offset(&self, newest: u64) -> u64 {
        match self.header_serial {
            0 | 1 => 0,
            _ => self.header_end.unwrap_or(newest),
        }
    }

    /// Returns where a viewer begins: at the newest join point that is at or before `offset_max` and
    /// had arrived by `arrived_by`, or else at the oldest one. Without join points it is the newest
    /// unit.
    pub fn start(&self, offset_max: u64, arrived_by: Instant) -> Option<Start> {
        let mut newest_first = self.joins.iter().rev();
        let join = newest_first
            .find(|join| join.start.offset <= offset_max && join.at <= arrived_by)
            .or(self.joins.front());
        join.map(|join| join.start).or(self.newest_unit)
    }

    /// Returns the oldest join point, or else the newest unit.
    pub fn oldest_start(&self) -> Option<Start> {
        let join = self.joins.front().map(|join| join.start);
        join.or(self.newest_unit)
    }

    /// Returns the mean time between two join points.
    pub fn join_distance(&self) -> Option<Duration> {
        let (first, last) = (self.joins.front()?, self.joins.back()?);
        let intervals = u32::try_from(self.joins.len() - 1).ok()?;
        last.at.since(first.at).checked_div(intervals)
    }

    /// Returns the last unit boundary at or before `offset`.
    pub fn unit_before(&self, offset: u64) -> Option<u64> {
        let count = self.units.partition_point(|unit| *unit <= offset);
        self.units.get(count.checked_sub(1)?).copied()
    }

    /// Returns the first unit boundary at or after `cursor`. A join point is not always a boundary: a
    /// viewer can begin in the middle of a Matroska Cluster, where another viewer must not be cut off.
    pub fn unit_end(&self, cursor: u64) -> Option<u64> {
        self.units
            .get(self.units.partition_point(|unit| *unit < cursor))
            .copied()
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

    /// Points that come close together do not fill the memory: the first unit and the newest join
    /// point of a stretch are kept.
    #[test]
    fn points_have_a_minimum_spacing() {
        for (offsets, joins_kept, units_kept) in [
            (&[7][..], &[7][..], &[7][..]),
            (&[7, 8], &[7, 8], &[7]),
            (&[7, 8, 9], &[7, 9], &[7]),
            (&[7, 8, 4_102], &[7, 4_102], &[7]),
            (&[7, 8, 4_103], &[7, 4_103], &[7, 4_103]),
            (
                &[7, 4_103, 4_104, 8_199],
                &[7, 4_103, 8_199],
                &[7, 4_103, 8_199],
            ),
            (&[7, 4_103, 8_199], &[7, 4_103, 8_199], &[7, 4_103, 8_199]),
            (&[7, 4_103, 8_198], &[7, 4_103, 8_198], &[7, 4_103]),
            (&[7, 5_000, 5_100, 5_200], &[7, 5_000, 5_200], &[7, 5_000]),
        ] {
            let points = points(offsets, offsets);
            assert_eq!(joins(&points), joins_kept, "{offsets:?}");
            assert!(points.units.iter().eq(units_kept), "{offsets:?}");
            assert_eq!(points.joins.len(), joins_kept.len());
            let newest = offsets.last().copied();
            assert_eq!(points.newest_unit.map(|unit| unit.offset), newest);
        }
    }

    fn memory_bytes(points: &Points) -> usize {
        points.joins.capacity() * size_of::<Join>() + points.units.capacity() * size_of::<u64>()
    }

    /// Every byte of a buffer of a few hundred KiB is a point.
    #[test]
    fn the_memory_of_points_is_bounded() {
        const BUFFER_BYTES: u64 = 512 << 10;
        let mut points = points(&[], &[]);
        for offset in 0..3 * BUFFER_BYTES {
            points.take(Finding::Unit(Start::at(offset)), at(0));
            points.take(Finding::Join(Start::at(offset)), at(0));
            points.forget_before(offset.saturating_sub(BUFFER_BYTES));
        }
        let units_alone = self::points(&[], &[0, 4_096, 8_192, 12_288, 16_384]);
        assert!((40..100).contains(&memory_bytes(&units_alone)));
        let (joins, units) = (points.joins.len(), points.units.len());
        assert!(joins >= 128 && units >= 128, "{joins}, {units}");
        let least = joins * size_of::<Join>() + units * size_of::<u64>();
        let most = Points::memory_bytes_max(BUFFER_BYTES as usize);
        assert!((least..=most).contains(&memory_bytes(&points)));
        assert!(most < BUFFER_BYTES as usize / 20);
    }

    #[test]
    fn points_before_another_header_do_not_count() {
        let mut points = points(&[20_000], &[10_000]);
        assert_eq!(
            (points.has_had_joins, points.header_offset(70_000)),
            (true, 0)
        );
        points.take(Finding::Header, at(0));
        assert_eq!(
            (points.has_had_joins, points.header_offset(70_000)),
            (false, 70_000)
        );
        points.take(Finding::Unit(Start::at(60_000)), at(0));
        assert_eq!(points.header_offset(70_000), 60_000);
    }

    #[test]
    fn overwritten_points_are_removed() {
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
            assert_eq!(!points.joins.is_empty(), !joins_left.is_empty());
            assert!(points.has_had_joins);
        }
        assert!(!points(&[], &[10_000]).has_had_joins);
    }

    /// A viewer is cut off between two units, so it gets its current unit up to the next boundary.
    #[test]
    fn unit_boundaries_are_found_before_and_behind() {
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

    /// A viewer that has read up to the first finding behind a header has got the header. No viewer
    /// has got the next header.
    #[test]
    fn the_first_finding_behind_a_header_is_its_end() {
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
            assert!(!points.is_past_header(9_000) && points.joins.is_empty());
            assert_eq!((points.header_serial, points.unit_end(0)), (2, None));
        }
    }

    /// A viewer begins at the newest join point that is far enough back in bytes and in time, or else
    /// at the oldest join point. Without join points it begins at the newest unit.
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
            let start = with_joins.start(offset_max, at(seconds));
            let start = start.map(|start| start.offset);
            assert_eq!(start, Some(offset), "{offset_max}, {seconds} s");
        }
        let start = points(&[], &[10_000, 50_000]).start(0, at(0));
        assert_eq!(start, Some(Start::at(50_000)));
        assert_eq!(points(&[], &[]).start(0, at(0)), None);
    }

    /// The format that the first bytes showed is kept when the stream did not continue as such.
    #[test]
    fn an_abandoned_format_has_no_points() {
        let mut points = points(&[10_000], &[10_000]);
        points.take(Finding::Unknown, at(0));
        assert_eq!(points.detected, Detected::Unknown);
        assert_eq!(points.first_format, Some(Format::Flv));
        assert!(points.joins.is_empty() && points.unit_before(u64::MAX).is_none());
        assert_eq!((points.newest_unit, points.header_serial), (None, 0));
    }
}
