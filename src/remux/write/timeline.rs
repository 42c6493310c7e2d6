//! Makes one timeline of clocks that jump: within a source, or where sources follow each other.
//!
//! All tracks move by the same amount, so that sound stays with its pictures. A time belongs to
//! another clock if it is further than [`JUMP`] from the end of the timeline. From there on all
//! times move, so that they continue at the end. A shorter gap stays a gap.

use super::super::medium::{MILLISECOND, SECOND};
use super::interleave::OwnedUnit;

/// State of the timeline.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Distance by which all times are moved.
    shift: i64,
    /// Latest decode time that went out.
    newest: Option<i64>,
    /// Tracks by their index.
    tracks: Vec<Track>,
}

/// Position of a track.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Latest decode time that went out. `i64::MIN`: none has.
    newest: i64,
    /// Distance of its newest unit from the one before.
    gap: i64,
    /// Earliest time of its next unit: where the sources, or the clocks, follow each other.
    floor: i64,
}

/// Longest step of the times at once, and longest lag of one track behind another.
const JUMP: i64 = 10 * SECOND;
/// First time of the timeline. Earlier times have room for the lead-in of the first unit.
pub(super) const BEGIN: i64 = SECOND;
/// All usual clocks move by whole ticks if times move by a multiple of this: 90 kHz, 48 kHz, 44.1
/// kHz, 1 kHz.
const STEP: i64 = 10 * MILLISECOND;
/// Longest distance from the end of one clock to the beginning of the next.
const GAP_MAX: i64 = 100 * MILLISECOND;

/// Longest time after a unit in which another process takes what it reads for the same unit.
#[cfg(feature = "handover")]
const NEXT_MAX: i64 = 10 * MILLISECOND;

impl Timeline {
    /// Moves a unit to its place. Returns whether it goes out.
    #[must_use]
    pub fn place(&mut self, unit: &mut OwnedUnit) -> bool {
        let moved = self.moved(unit.decode);
        let shift = match self.newest {
            None => self.begin(BEGIN.saturating_sub(unit.decode).div_euclid(STEP)),
            Some(newest) if moved.abs_diff(newest) <= JUMP as u64 => self.shift,
            Some(newest) => {
                // After all tracks, so that no key picture is dropped.
                let end = self.tracks.iter().map(Track::end).fold(newest, i64::max);
                let distance = end.saturating_sub(unit.decode);
                self.begin(distance.div_euclid(STEP) + 1)
            }
        };
        unit.decode = unit.decode.saturating_add(shift);
        unit.present = unit.present.saturating_add(shift);
        // A picture that is shown this late was decoded for nothing.
        if unit.present - unit.decode > JUMP {
            unit.present = unit.decode;
        }
        self.note(unit)
    }

    /// Returns by how much times are moved. `None`: nothing has gone out.
    pub fn shift(&self) -> Option<i64> {
        self.newest.map(|_| self.shift)
    }

    /// Returns the state with which another process continues these times.
    #[cfg(feature = "handover")]
    pub fn state(&self) -> (i64, Option<i64>) {
        (self.shift, self.newest)
    }

    /// Continues the times of another process.
    #[cfg(feature = "handover")]
    pub fn resume(shift: i64, newest: Option<i64>) -> Timeline {
        Timeline {
            shift,
            newest,
            tracks: Vec::new(),
        }
    }

    /// Chooses between two clocks, given by how much each moves times, for a unit that was written
    /// before. With the right one, the unit's time is shortly before the newest time.
    pub fn choose(&mut self, decode: i64, older: i64, newer: i64) {
        let newest = self.newest.unwrap_or(0).saturating_add(SECOND);
        let ago = |shift: i64| newest.saturating_sub(decode.saturating_add(shift));
        let is_newer = ago(newer) >= 0 && (ago(older) < 0 || ago(newer) < ago(older));
        self.shift = if is_newer { newer } else { older };
    }

    /// Returns the earliest time of the track's next unit: half a unit after the newest one, but at most
    /// [`NEXT_MAX`]. The newest unit may have come late, and then the next one follows soon.
    #[cfg(feature = "handover")]
    pub fn next_of(&self, track: usize) -> Option<i64> {
        let has_units = |track: &&Track| track.newest > i64::MIN;
        let track = self.tracks.get(track).filter(has_units)?;
        let same_until = (track.gap / 2).min(NEXT_MAX);
        Some(track.newest.saturating_add(same_until + 1))
    }

    /// Returns a decode time of the source as a time of the output, in nanoseconds.
    pub fn moved(&self, decode: i64) -> i64 {
        decode.saturating_add(self.shift)
    }

    /// Moves everything from here on by this many steps.
    fn begin(&mut self, steps: i64) -> i64 {
        for track in &mut self.tracks {
            track.floor = track.end();
        }
        let shift = steps.saturating_mul(STEP);
        self.shift = shift;
        shift
    }

    /// Returns whether a moved unit goes out.
    fn note(&mut self, unit: &OwnedUnit) -> bool {
        let none = Track {
            newest: i64::MIN,
            gap: 0,
            floor: 0,
        };
        while self.tracks.len() <= unit.track {
            self.tracks.push(none);
        }
        let track = &mut self.tracks[unit.track];
        if unit.decode < track.floor {
            return false;
        }
        if track.newest == i64::MIN {
            track.newest = unit.decode;
        } else if unit.decode > track.newest {
            track.gap = (unit.decode - track.newest).min(GAP_MAX);
            track.newest = unit.decode;
        }
        self.newest = self.newest.max(Some(unit.decode));
        true
    }
}

impl Track {
    /// Returns the time at which the next unit may begin.
    fn end(&self) -> i64 {
        self.newest.saturating_add(self.gap)
    }
}

#[cfg(test)]
#[cfg(feature = "handover")]
mod tests {
    use super::*;

    /// Another process skips the units before that time. Frames of sound may come at uneven distances.
    #[test]
    fn the_next_unit_may_come_soon_after_one_that_came_late() {
        for (milliseconds, next) in [
            (&[0, 20][..], 30),
            (&[0, 80], 90),
            (&[0, 1_000], 1_010),
            (&[0, 8], 12),
            (&[0], 0),
        ] {
            let mut timeline = Timeline::default();
            for milliseconds in milliseconds {
                let time = milliseconds * MILLISECOND;
                let mut unit = OwnedUnit {
                    track: 0,
                    decode: time,
                    present: time,
                    is_join: true,
                    bytes: Box::default(),
                };
                assert!(timeline.place(&mut unit));
            }
            assert_eq!(timeline.next_of(1), None);
            let expected = BEGIN + next * MILLISECOND + 1;
            assert_eq!(timeline.next_of(0), Some(expected), "{milliseconds:?}");
        }
    }
}
