//! The times of a stream whose sources follow each other: each goes on where the one before has
//! ended, whatever its own clock says.
//!
//! Times are ticks of the container's, or nanoseconds where its tracks have clocks of their own.

use super::super::Unsupported;

/// Where the tracks of a stream stand, and by how much the times of the source that runs now are
/// moved.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timeline {
    /// By ascending number, at most [`TRACKS_MAX`].
    tracks: Vec<Track>,
    /// `None` behind a seam: the next unit's time decides.
    shift: Option<i64>,
    ticks_per_second: i64,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Track {
    number: u64,
    /// The latest unit's time, and how many frames it has.
    newest: i64,
    frames: i64,
    /// How far a frame lies behind the one before.
    gap: Option<i64>,
    /// Where what comes next may begin.
    end: i64,
    /// Where it was at the seam: nothing is moved to before that.
    seam: i64,
    /// It has gone on since.
    has_gone_on: bool,
}

/// A source's sound may begin so long before its first picture,
const FORERUN_SECONDS: i64 = 3;
/// and pictures that are shown before it may come so long behind it.
const REORDER_SECONDS: i64 = 1;
/// Between a unit and the one before: then the clock was wrong, or is now.
const JUMP_SECONDS: i64 = 10;
/// More tracks are no live stream.
pub(super) const TRACKS_MAX: usize = 64;

impl Timeline {
    /// Before the first unit; times that go out are in such ticks.
    pub fn new(ticks_per_second: i64) -> Timeline {
        Timeline {
            tracks: Vec::new(),
            shift: Some(0),
            ticks_per_second,
        }
    }

    /// Another source begins: its first unit stands where the track that goes furthest has ended.
    pub fn seam(&mut self) {
        self.shift = None;
        for track in &mut self.tracks {
            track.seam = track.end;
            track.has_gone_on = false;
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.tracks.capacity() * size_of::<Track>()
    }

    /// Whether all times are the source's own still.
    pub fn is_unmoved(&self) -> bool {
        self.shift == Some(0)
    }

    /// By how much times are moved, now that a unit of this time is at hand.
    pub fn shift(&mut self, time: i64) -> i64 {
        *self.shift.get_or_insert_with(|| {
            let ends = self.tracks.iter().map(|track| track.end);
            ends.max().unwrap_or(0).saturating_sub(time)
        })
    }

    /// Where a unit of this time goes; `None` if its track is past that: at a seam, sound from
    /// before the first picture. What lies further back comes from a clock that has begun again,
    /// and is moved on from where the stream has come to.
    pub fn place(&mut self, number: u64, time: i64) -> Option<i64> {
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

    /// A frame that is followed later than this is not taken to last so long.
    pub fn longest_gap(&self) -> i64 {
        self.ticks_per_second / 10
    }

    /// A unit has gone out for this time. Where its length is not known, its frame is taken to be
    /// as long as the one before.
    pub fn note(
        &mut self,
        number: u64,
        moved: i64,
        length: Option<i64>,
    ) -> Result<(), Unsupported> {
        self.note_frames(number, moved, length, 1)
    }

    /// The same, of a unit of so many frames: at least one.
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
            let gap = moved.saturating_sub(track.newest) / track.frames;
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
}

#[cfg(feature = "handover")]
impl Timeline {
    /// Whether what was told of it can be: a track has gone on at least as far as it had come at
    /// the seam.
    pub fn fits(&self) -> bool {
        let fits = |track: &Track| track.frames > 0 && track.seam <= track.end;
        self.tracks.len() <= TRACKS_MAX
            && self.tracks.iter().all(fits)
            && self.ticks_per_second >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_goes_on_where_the_longest_track_has_ended() {
        let mut timeline = Timeline::new(1000);
        for (track, time) in [(1, 0), (2, 5), (1, 40), (2, 25), (1, 80), (2, 45)] {
            assert_eq!(timeline.place(track, time), Some(time));
            timeline.note(track, time, None).unwrap();
        }
        assert!(timeline.is_unmoved());
        timeline.seam();
        // Its first picture comes at 7000, some of its sound before that.
        assert_eq!(timeline.place(1, 7000), Some(120));
        timeline.note(1, 120, None).unwrap();
        assert_eq!(timeline.place(2, 6950), Some(70));
        assert_eq!(timeline.place(2, 6940), None);
        // Pictures that are shown before those they follow are no such thing as being past.
        timeline.note(1, 240, Some(40)).unwrap();
        assert_eq!(timeline.place(1, 7080), Some(200));
    }

    #[test]
    fn a_unit_of_several_frames_lasts_as_long_as_they() {
        let mut timeline = Timeline::new(1000);
        for (time, frames) in [(0, 8), (160, 8), (320, 3)] {
            timeline.note_frames(1, time, None, frames).unwrap();
        }
        timeline.seam();
        assert_eq!(timeline.place(1, 5000), Some(380));
    }

    #[test]
    fn a_clock_that_begins_again_is_moved_on_and_one_that_was_wrong_once_is_forgotten() {
        let mut timeline = Timeline::new(1000);
        for time in [0, 40, 10_000_000, 80] {
            timeline.note(1, time, Some(40)).unwrap();
        }
        timeline.seam();
        assert_eq!(timeline.place(1, 3_600_000), Some(120));
        timeline.note(1, 120, Some(40)).unwrap();
        assert_eq!(timeline.place(1, 0), Some(160));
        assert_eq!(timeline.place(1, 40), Some(200));
    }

    #[test]
    fn times_at_the_ends_of_what_there_is_overflow_nothing() {
        for time in [i64::MIN, -1, 0, i64::MAX] {
            for next in [i64::MIN, 0, i64::MAX] {
                let mut timeline = Timeline::new(1);
                let moved = timeline.place(1, time);
                if let Some(moved) = moved {
                    timeline.note(1, moved, Some(i64::MAX)).unwrap();
                }
                timeline.seam();
                let _ = timeline.place(1, next);
                let _ = timeline.place(2, time);
            }
        }
    }

    /// Where the next source's first unit goes, after these units of one track: time, length,
    /// frames.
    fn end_of(units: &[(i64, Option<i64>, i64)]) -> i64 {
        let mut timeline = Timeline::new(1000);
        for (time, length, frames) in units {
            timeline.note_frames(1, *time, *length, *frames).unwrap();
        }
        timeline.seam();
        timeline.place(1, 0).unwrap()
    }

    #[test]
    fn where_a_track_ends() {
        let (none, one) = (None, 1);
        /// Time, length, frames.
        type Unit = (i64, Option<i64>, i64);
        let cases: [(&[Unit], i64); 14] = [
            // A frame whose length nothing tells, one that is told, and one that has none.
            (&[(0, none, one)], 20),
            (&[(0, none, 3)], 60),
            (&[(5, Some(40), one)], 45),
            (&[(5, Some(0), one)], 6),
            // As long as the one before: up to a tenth of a second.
            (&[(0, none, one), (100, none, one)], 200),
            (&[(0, none, one), (101, none, one)], 121),
            (&[(0, none, one), (40, none, one), (500, none, one)], 540),
            // What was shown earlier says nothing of that.
            (&[(80, none, one), (40, none, one), (120, none, one)], 160),
            (&[(0, Some(500), one), (40, Some(1), one)], 500),
            // Of several at one time the last is followed.
            (&[(0, none, 2), (0, none, 4), (160, none, one)], 200),
            // At the same time is no gap: what comes after a jump is of usual length.
            (
                &[(0, none, one), (0, none, one), (20_000, none, one)],
                20_020,
            ),
            // Ten seconds are no jump, more are one: either way.
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

    /// How far back from the seam a track may begin: before it has gone on, and since.
    #[test]
    fn what_lies_before_the_seam_is_left_out_or_moved_on() {
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
            assert_eq!(timeline.place(1, 50_000), Some(40));
            assert!(!timeline.is_unmoved());
            timeline.note(1, 40, Some(500)).unwrap();
            if has_gone_on {
                timeline.note(2, 40, Some(40)).unwrap();
            }
            let told = timeline.place(2, 50_000 - back);
            assert_eq!(told, placed, "{back} back, {has_gone_on}");
        }
    }

    #[test]
    fn a_stream_has_so_many_tracks_and_no_more() {
        let mut timeline = Timeline::new(1000);
        assert!(timeline.is_unmoved());
        assert_eq!(timeline.held_bytes(), 0);
        for track in 0..64 {
            assert!(timeline.note(track, 0, None).is_ok(), "{track}");
        }
        assert!(timeline.note(64, 0, None).is_err());
        assert!(timeline.note(63, 40, None).is_ok());
        assert!(timeline.held_bytes() >= 64 * size_of::<Track>());
        assert_eq!(Timeline::new(1000).longest_gap(), 100);
    }

    #[cfg(feature = "handover")]
    #[test]
    fn only_what_can_be_is_believed_of_times() {
        let timeline = |tracks: usize, frames: i64, seam: i64, rate: i64| {
            let mut timeline = Timeline::new(rate);
            timeline.tracks.extend((0..tracks).map(|number| Track {
                number: number as u64,
                newest: 0,
                frames,
                gap: None,
                end: 40,
                seam,
                has_gone_on: true,
            }));
            timeline
        };
        assert!(timeline(64, 1, 40, 0).fits());
        assert!(!timeline(65, 1, 40, 0).fits());
        assert!(!timeline(1, 0, 40, 0).fits());
        assert!(!timeline(1, 1, 41, 0).fits());
        assert!(!timeline(1, 1, 40, -1).fits());
    }
}
