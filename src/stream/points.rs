//! What is known of a stream's container: which header a late viewer gets, and the places in the
//! buffer where one may begin or be cut off.
//!
//! Owns no media bytes; the header is the scanner's. `header_end <= every point`; all are
//! ascending, and none is older than the buffer's oldest byte.

use std::collections::VecDeque;

use crate::format::{Finding, Format, Start, UNIT_SPACING};
use crate::moment::Moment;

/// What a stream's bytes have shown of their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Too few have arrived to tell.
    Undecided,
    /// A container that can be joined.
    Known(Format),
    /// Anything else: viewers join at the live edge.
    Unknown,
}

/// Places where viewers may begin, newest last.
pub(super) struct Points {
    /// What is known of the container.
    pub told: Told,
    /// The container that the first bytes showed, though it may have been let go since.
    pub shown: Option<Format>,
    /// Which header this is: 0 before the first.
    pub header_serial: u64,
    /// Where what follows the header begins: whoever has read so far has seen the header in the
    /// stream itself.
    header_end: Option<u64>,
    joins: VecDeque<Join>,
    /// Since the container was told.
    has_had_joins: bool,
    /// Offsets at which a viewer may be cut off.
    units: VecDeque<u64>,
    /// Where a viewer may be begun without a join point: not always one at which another may be cut
    /// off.
    newest_unit: Option<Start>,
}

struct Join {
    start: Start,
    at: Moment,
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
    pub fn take(&mut self, finding: Finding, now: Moment) {
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
            Finding::Time(..) | Finding::Split(_) | Finding::Break(_) => {}
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

    fn add_join(&mut self, start: Start, now: Moment) {
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

    /// Whether there has been one, though it may be gone.
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
    pub moment_max: Moment,
}

impl Back {
    fn is_reached(&self, offset: u64, at: Moment) -> bool {
        offset <= self.offset_max && at <= self.moment_max
    }
}
