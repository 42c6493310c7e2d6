//! Times of a stream whose sources follow each other. Each source continues where the previous one
//! ended. Its own clock does not matter.
//!
//! Times are ticks of the container, or nanoseconds where tracks have clocks of their own.

use super::super::Unsupported;

/// How far the tracks have come, and how far the times of the current source are moved.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timeline {
    /// Tracks by ascending number: at most [`TRACKS_MAX`].
    tracks: Vec<Track>,
    /// Distance by which times are moved. `None` after a seam: the next unit decides.
    shift: Option<i64>,
    /// Unit of the times.
    ticks_per_second: i64,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Track {
    /// Number of the track.
    number: u64,
    /// Time of the newest unit.
    newest: i64,
    /// Frames of the newest unit.
    frames: i64,
    /// Distance from one frame to the next, if known.
    gap: Option<i64>,
    /// Latest end of the track's units so far. After a seam, the next source begins at the latest
    /// `end` of all tracks.
    end: i64,
    /// End of the track at the seam. No unit is moved to an earlier time.
    seam: i64,
    /// Whether a unit has come since the seam.
    has_gone_on: bool,
}

/// A source's sound may begin this long before its first picture.
const FORERUN_SECONDS: i64 = 3;
/// Pictures that are shown before the first one may come this long after it.
const REORDER_SECONDS: i64 = 1;
/// A longer distance between two units means that the clock was wrong, or is wrong now.
const JUMP_SECONDS: i64 = 10;
/// Maximal number of tracks of a live stream.
pub(super) const TRACKS_MAX: usize = 64;

impl Timeline {
    /// Returns the timeline before the first unit. `ticks_per_second` is the unit of its times.
    pub fn new(ticks_per_second: i64) -> Timeline {
        Timeline {
            tracks: Vec::new(),
            shift: Some(0),
            ticks_per_second,
        }
    }

    /// Begins another source. Its first unit goes to the end of the longest track.
    pub fn seam(&mut self) {
        self.shift = None;
        for track in &mut self.tracks {
            track.seam = track.end;
            track.has_gone_on = false;
        }
    }

    /// Returns whether all times are still the source's own.
    pub fn is_unmoved(&self) -> bool {
        self.shift == Some(0)
    }

    /// Returns how far times are moved, when a unit of this time is next.
    pub fn shift(&mut self, time: i64) -> i64 {
        *self.shift.get_or_insert_with(|| {
            let ends = self.tracks.iter().map(|track| track.end);
            ends.max().unwrap_or(0).saturating_sub(time)
        })
    }

    /// Returns the new time of a unit. `None` if its track is past that time: sound from before the
    /// first picture, at a seam. A time further back is that of a clock that has begun again. It
    /// continues at the end of the stream.
    pub fn new_time(&mut self, number: u64, time: i64) -> Option<i64> {
        let moved = time.checked_add(self.shift(time))?;
        let track = self.index_of(number).ok().map(|index| &self.tracks[index]);
        let back = track.map_or(0, |track| track.seam.saturating_sub(moved));
        if back <= 0 {
            return Some(moved);
        }
        let seconds = if track.is_some_and(|track| track.has_gone_on) {
            REORDER_SECONDS
        } else {
            FORERUN_SECONDS
        };
        if back <= self.ticks_per_second.saturating_mul(seconds) {
            return None;
        }
        self.shift = None;
        time.checked_add(self.shift(time))
    }

    fn index_of(&self, number: u64) -> Result<usize, usize> {
        let tracks = &self.tracks;
        tracks.binary_search_by_key(&number, |track| track.number)
    }

    /// Returns the longest duration of a frame. A longer distance to the next one does not count as
    /// duration.
    pub fn longest_gap(&self) -> i64 {
        self.ticks_per_second / 10
    }

    /// Notes that a unit goes out at this time. Without a length, its frame gets the length of the
    /// previous one.
    pub fn note(
        &mut self,
        number: u64,
        moved: i64,
        length: Option<i64>,
    ) -> Result<(), Unsupported> {
        self.note_frames(number, moved, length, 1)
    }

    /// Notes a unit of several frames: at least one.
    pub fn note_frames(
        &mut self,
        number: u64,
        moved: i64,
        length: Option<i64>,
        frames: i64,
    ) -> Result<(), Unsupported> {
        let index = match self.index_of(number) {
            Ok(index) => index,
            Err(_) if self.tracks.len() >= TRACKS_MAX => return Err(Unsupported),
            Err(index) => {
                let track = Track {
                    number,
                    newest: moved,
                    frames,
                    gap: None,
                    end: i64::MIN,
                    seam: i64::MIN,
                    has_gone_on: true,
                };
                self.tracks.insert(index, track);
                index
            }
        };
        let (longest, usual) = (self.longest_gap(), self.ticks_per_second / 50);
        let track = &mut self.tracks[index];
        let jump = self.ticks_per_second.saturating_mul(JUMP_SECONDS);
        let has_jumped = moved.abs_diff(track.newest) > jump.unsigned_abs();
        track.has_gone_on = true;
        if moved > track.newest && !has_jumped {
            let gap = moved.saturating_sub(track.newest) / track.frames.max(1);
            track.gap = Some(gap).filter(|gap| *gap <= longest).or(track.gap);
        }
        let length = length.unwrap_or_else(|| track.gap.unwrap_or(usual).saturating_mul(frames));
        let end = moved.saturating_add(length.max(1));
        if has_jumped || moved >= track.newest {
            (track.newest, track.frames) = (moved, frames);
        }
        track.end = if has_jumped { end } else { track.end.max(end) };
        Ok(())
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.tracks.len() <= TRACKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_continues_where_the_longest_track_ended() {
        let mut timeline = Timeline::new(1000);
        for (track, time) in [(1, 0), (2, 5), (1, 40), (2, 25), (1, 80), (2, 45)] {
            assert_eq!(timeline.new_time(track, time), Some(time));
            timeline.note(track, time, None).unwrap();
        }
        assert!(timeline.is_unmoved());
        timeline.seam();
        // Its first picture comes at 7000, and some of its sound before that.
        assert_eq!(timeline.new_time(1, 7000), Some(120));
        timeline.note(1, 120, None).unwrap();
        assert_eq!(timeline.new_time(2, 6950), Some(70));
        assert_eq!(timeline.new_time(2, 6940), None);
        // A picture that is shown before those it follows is not past.
        timeline.note(1, 240, Some(40)).unwrap();
        assert_eq!(timeline.new_time(1, 7080), Some(200));
    }

    #[test]
    fn a_unit_lasts_as_long_as_its_frames() {
        let mut timeline = Timeline::new(1000);
        for (time, frames) in [(0, 8), (160, 8), (320, 3)] {
            timeline.note_frames(1, time, None, frames).unwrap();
        }
        timeline.seam();
        assert_eq!(timeline.new_time(1, 5000), Some(380));
    }

    #[test]
    fn a_clock_that_begins_again_is_moved_and_one_wrong_time_is_forgotten() {
        let mut timeline = Timeline::new(1000);
        for time in [0, 40, 10_000_000, 80] {
            timeline.note(1, time, Some(40)).unwrap();
        }
        timeline.seam();
        assert_eq!(timeline.new_time(1, 3_600_000), Some(120));
        timeline.note(1, 120, Some(40)).unwrap();
        assert_eq!(timeline.new_time(1, 0), Some(160));
        assert_eq!(timeline.new_time(1, 40), Some(200));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        for time in [i64::MIN, -1, 0, i64::MAX] {
            for next in [i64::MIN, 0, i64::MAX] {
                let mut timeline = Timeline::new(1);
                let moved = timeline.new_time(1, time);
                if let Some(moved) = moved {
                    timeline.note(1, moved, Some(i64::MAX)).unwrap();
                }
                timeline.seam();
                let _ = timeline.new_time(1, next);
                let _ = timeline.new_time(2, time);
            }
        }
    }

    /// Returns the time of the next source's first unit, after these units of one track: time,
    /// length, frames.
    fn end_of(units: &[(i64, Option<i64>, i64)]) -> i64 {
        let mut timeline = Timeline::new(1000);
        for (time, length, frames) in units {
            timeline.note_frames(1, *time, *length, *frames).unwrap();
        }
        timeline.seam();
        timeline.new_time(1, 0).unwrap()
    }

    #[test]
    fn where_a_track_ends() {
        let (none, one) = (None, 1);
        /// Time, length, frames.
        type Unit = (i64, Option<i64>, i64);
        let cases: [(&[Unit], i64); 14] = [
            // A frame of unknown length, one of known length, and one of length 0.
            (&[(0, none, one)], 20),
            (&[(0, none, 3)], 60),
            (&[(5, Some(40), one)], 45),
            (&[(5, Some(0), one)], 6),
            // As long as the one before, up to a tenth of a second.
            (&[(0, none, one), (100, none, one)], 200),
            (&[(0, none, one), (101, none, one)], 121),
            (&[(0, none, one), (40, none, one), (500, none, one)], 540),
            // A picture that is shown earlier says nothing about that.
            (&[(80, none, one), (40, none, one), (120, none, one)], 160),
            (&[(0, Some(500), one), (40, Some(1), one)], 500),
            // Of several units at one time the last one counts.
            (&[(0, none, 2), (0, none, 4), (160, none, one)], 200),
            // Equal times are no gap. The unit after a jump has the usual length.
            (
                &[(0, none, one), (0, none, one), (20_000, none, one)],
                20_020,
            ),
            // Ten seconds are no jump, and more are, in either direction.
            (
                &[(0, none, one), (10_000, none, one), (0, none, one)],
                10_020,
            ),
            (&[(0, none, one), (10_001, none, one), (0, none, one)], 20),
            (
                &[
                    (0, none, one),
                    (40, none, one),
                    (20_000, none, one),
                    (20_030, none, one),
                ],
                20_060,
            ),
        ];
        for (units, end) in cases {
            assert_eq!(end_of(units), end, "{units:?}");
        }
    }

    /// How far before the seam a track may begin: before a unit has come since, and afterwards.
    #[test]
    fn units_before_the_seam_are_left_out_or_moved() {
        for (has_gone_on, back, placed) in [
            (false, 0, Some(40)),
            (false, 1, None),
            (false, 3_000, None),
            (false, 3_001, Some(540)),
            (true, 0, Some(40)),
            (true, 1, None),
            (true, 1_000, None),
            (true, 1_001, Some(540)),
        ] {
            let mut timeline = Timeline::new(1000);
            timeline.note(1, 0, Some(40)).unwrap();
            timeline.note(2, 0, Some(40)).unwrap();
            timeline.seam();
            assert!(!timeline.is_unmoved());
            assert_eq!(timeline.new_time(1, 50_000), Some(40));
            assert!(!timeline.is_unmoved());
            timeline.note(1, 40, Some(500)).unwrap();
            if has_gone_on {
                timeline.note(2, 40, Some(40)).unwrap();
            }
            let told = timeline.new_time(2, 50_000 - back);
            assert_eq!(told, placed, "{back} back, {has_gone_on}");
        }
    }

    #[test]
    fn a_stream_has_at_most_64_tracks() {
        let mut timeline = Timeline::new(1000);
        assert!(timeline.is_unmoved());
        assert_eq!(timeline.tracks.capacity(), 0);
        for track in 0..64 {
            assert!(timeline.note(track, 0, None).is_ok(), "{track}");
        }
        assert!(timeline.note(64, 0, None).is_err());
        assert!(timeline.note(63, 40, None).is_ok());
        assert!(timeline.tracks.capacity() >= 64);
        assert_eq!(Timeline::new(1000).longest_gap(), 100);
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_timeline_that_cannot_be_is_refused() {
        let mut timeline = Timeline::new(1000);
        for number in 0..64 {
            assert_eq!(timeline.note(number, 0, None), Ok(()));
        }
        assert!(timeline.is_valid());
        let mut more = Timeline::new(1000);
        assert_eq!(more.note(64, 0, None), Ok(()));
        timeline.tracks.append(&mut more.tracks);
        assert!(!timeline.is_valid());
    }
}
