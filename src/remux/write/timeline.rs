//! One line of times out of those of sources that follow each other, and of clocks that jump.
//!
//! All tracks are moved by the same, so that sound stays with its pictures. A time further than
//! [`JUMP`] from where the line has come to is no time of this clock: from there on everything is
//! moved so that it goes on where it has ended. A gap that is shorter stays a gap.

use super::interleave::Kept;

/// So many nanoseconds in ticks of a clock, rounded to the nearest.
pub(super) fn ticks(nanoseconds: i64, ticks_per_second: u32) -> i64 {
    let doubled = 2 * i128::from(nanoseconds) * i128::from(ticks_per_second);
    let second = 1_000 * i128::from(MILLISECOND);
    let nearest = (doubled + second).div_euclid(2 * second);
    // Of a clock of some gigahertz, in some hundred years.
    nearest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Where the line stands.
#[derive(Debug)]
pub struct Timeline {
    /// `None`: the next unit's time decides.
    shift: Option<i64>,
    /// The latest decode time that went out.
    newest: Option<i64>,
    /// How far it lay behind the one before.
    gap: i64,
    /// Nothing goes out that lies before this: where the sources, or the clocks, follow each other.
    floor: i64,
}

const MILLISECOND: i64 = 1_000_000;
/// Times may run on so far at once, and one track be so far behind another.
const JUMP: i64 = 10_000 * MILLISECOND;
/// Where the line begins: what leads in to the first unit, or is told before it, has room.
pub(super) const BEGIN: i64 = 1_000 * MILLISECOND;
/// By a multiple of this all usual clocks are moved by whole ticks: 90 kHz, 48 kHz, 44.1 kHz,
/// 1 kHz.
const STEP: i64 = 10 * MILLISECOND;
/// How far one goes on behind another at the most.
const GAP_MAX: i64 = 100 * MILLISECOND;

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            shift: None,
            newest: None,
            gap: 0,
            floor: 0,
        }
    }
}

impl Timeline {
    /// Another source begins.
    pub fn seam(&mut self) {
        self.shift = None;
    }

    /// Moves a unit to its place; says whether it has one.
    #[must_use]
    pub fn place(&mut self, unit: &mut Kept) -> bool {
        let near = |newest: i64, moved: i64| moved.abs_diff(newest) <= JUMP as u64;
        let shift = match (self.shift, self.newest) {
            (Some(shift), Some(newest)) if near(newest, unit.decode.saturating_add(shift)) => shift,
            _ => self.begin_at(unit.decode),
        };
        unit.decode = unit.decode.saturating_add(shift);
        unit.present = unit.present.saturating_add(shift);
        // A picture that is shown so late was decoded for nothing.
        if unit.present - unit.decode > JUMP {
            unit.present = unit.decode;
        }
        if unit.decode < self.floor {
            return false;
        }
        if let Some(newest) = self.newest.filter(|newest| unit.decode > *newest) {
            self.gap = (unit.decode - newest).min(GAP_MAX);
        }
        self.newest = self.newest.max(Some(unit.decode));
        true
    }

    /// By how much a unit of this time, and what follows it, is moved.
    fn begin_at(&mut self, decode: i64) -> i64 {
        let end = match self.newest {
            None => BEGIN,
            Some(newest) => newest.saturating_add(self.gap.max(STEP)),
        };
        let steps = end.saturating_sub(decode).div_euclid(STEP);
        // What comes late may lie a little before the first of all, but not before a seam.
        let is_first = self.newest.is_none();
        let shift = STEP * (steps + i64::from(!is_first));
        self.floor = if is_first {
            0
        } else {
            decode.saturating_add(shift)
        };
        self.shift = Some(shift);
        shift
    }
}
