//! The tracks of a source, and their times: what makes the order of [`super::medium`] out of what
//! sources send.
//!
//! A clock that begins again, or jumps, is moved on from where the stream has come to, for all
//! tracks alike, each when it comes to the jump.

use super::medium::{Fault, ReaderEvent, Shape, Sink, TRACKS_MAX, Time, Track, Unit};
/// See the module.
#[derive(Default)]
pub(super) struct SampleQueue {
    /// At most [`TRACKS_MAX`].
    tracks: Vec<Track>,
    /// As they were said last, if the source has begun anew since.
    said: Vec<Track>,
    /// Of each of them.
    clocks: Vec<Clock>,
    has_changed: bool,
    /// How often that was, and how many bytes were said: hostile ones change with every unit.
    changes: u64,
    unit_bytes: u64,
    /// By how much the newest clock is moved, in nanoseconds,
    shift: i64,
    /// and where it has come to.
    newest: Option<Time>,
}

#[derive(Clone, Copy)]
struct Clock {
    shift: i64,
    newest: Option<Time>,
    /// How long before its decode time a unit was shown, at most, in nanoseconds: decode times are
    /// moved back by it.
    ahead: i64,
}

/// What a reader knows of a unit.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// By which it must have come,
    pub decode: Time,
    /// and at which it is shown or heard.
    pub present: Time,
}

/// Forwards: then the source's clock was wrong, or is now.
const JUMP: i64 = 10 * Time::SECOND;
/// Backwards: less is a track whose times are not in order.
const BACK: i64 = Time::SECOND;
/// Between what was before a jump and what is behind it.
const SEAM: i64 = Time::SECOND / 25;
/// The longest setup, parameter sets and all.
pub(super) const SETUP_BYTES_MAX: usize = 4096;
const CHANGES_FREE: u64 = 256;
const BYTES_PER_CHANGE: u64 = 256;

impl SampleQueue {
    /// The source begins anew, perhaps with other tracks. Gives back those that it had.
    pub fn clear(&mut self) -> Vec<Track> {
        // What has not been said since it changed is another list than the one that was.
        if !self.has_changed {
            self.said = self.tracks.clone();
        }
        self.has_changed = true;
        std::mem::take(&mut self.tracks)
    }

    /// Whether a track is not set up.
    pub fn is_new(&self, index: usize) -> bool {
        let track = self.tracks.get(index);
        track.is_some_and(|track| track.setup.is_none())
    }

    /// Another track, of which the place is given back; `None` if there are too many.
    pub fn add(&mut self, track: Track) -> Option<usize> {
        if self.tracks.len() >= TRACKS_MAX {
            return None;
        }
        self.tracks.push(track);
        // Of a track in the place of another that was there before, time goes on.
        if self.clocks.len() < self.tracks.len() {
            self.clocks.push(Clock {
                shift: self.shift,
                newest: None,
                ahead: 0,
            });
        }
        self.has_changed = true;
        Some(self.tracks.len() - 1)
    }

    /// Another track in the place of one; its time goes on.
    pub fn replace(&mut self, index: usize, track: Track) -> Option<usize> {
        *self.tracks.get_mut(index)? = track;
        self.has_changed = true;
        self.changes += 1;
        Some(index)
    }

    /// What a track is set up with, if it is known now or has changed.
    pub fn set_up(&mut self, index: usize, setup: &[u8], shape: Shape) -> Result<(), Fault> {
        let Some(track) = self.tracks.get_mut(index) else {
            return Ok(());
        };
        // Who is here has made a setup, whether it is another one or not.
        self.changes += 1;
        if self.changes > CHANGES_FREE + self.unit_bytes / BYTES_PER_CHANGE {
            return Err(Fault("a codec's setup changes all the time"));
        }
        if setup.len() > SETUP_BYTES_MAX {
            return Err(Fault("a codec's setup is longer than 4096 bytes"));
        }
        if track.setup.as_deref() == Some(setup) && track.shape == shape {
            return Ok(());
        }
        track.setup = Some(setup.into());
        track.shape = shape;
        self.has_changed = true;
        Ok(())
    }

    /// Says the tracks, if they are others than those that were said last.
    pub fn say_tracks(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let said = std::mem::take(&mut self.said);
        match std::mem::take(&mut self.has_changed) && said != self.tracks {
            true => sink(ReaderEvent::Tracks(&self.tracks)),
            false => Ok(()),
        }
    }

    /// Says a unit; one of a track that is not set up, and one without bytes, is left out.
    pub fn say(
        &mut self,
        index: usize,
        times: Times,
        is_join: bool,
        bytes: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let track = self.tracks.get(index);
        if bytes.is_empty() || track.is_none_or(|track| track.setup.is_none()) {
            return Ok(());
        }
        self.say_tracks(sink)?;
        self.unit_bytes += bytes.len() as u64;
        let Some((decode, present)) = self.place(index, times) else {
            return Ok(());
        };
        sink(ReaderEvent::Unit(Unit {
            track: index,
            decode,
            present,
            is_join,
            bytes,
        }))
    }

    fn place(&mut self, index: usize, times: Times) -> Option<(Time, Time)> {
        let clock = self.clocks.get_mut(index)?;
        let (decode, present) = (times.decode.nanoseconds(), times.present.nanoseconds());
        if (1..=BACK).contains(&decode.saturating_sub(present)) {
            clock.ahead = clock.ahead.max(decode - present);
        }
        let decode = decode.saturating_sub(clock.ahead);
        let is_near = |moved: i64, newest: Option<Time>| {
            newest.is_some_and(|newest| {
                (-BACK..=JUMP).contains(&moved.saturating_sub(newest.nanoseconds()))
            })
        };
        let fits = |shift: i64| {
            let moved = decode.saturating_add(shift);
            is_near(moved, clock.newest)
                || (is_near(moved, self.newest) && clock.newest <= Time::from_nanoseconds(moved))
        };
        if clock.newest.is_some() && !fits(clock.shift) {
            if !fits(self.shift) {
                let newest = self.newest.map_or(0, Time::nanoseconds);
                self.shift = newest.saturating_add(SEAM).saturating_sub(decode);
            }
            clock.shift = self.shift;
        }
        let moved = Time::from_nanoseconds(decode.saturating_add(clock.shift))?;
        let moved = clock.newest.map_or(moved, |newest| newest.max(moved));
        let present = present.saturating_add(clock.shift);
        let present = Time::from_nanoseconds(present.max(moved.nanoseconds()))?;
        clock.newest = Some(moved);
        self.newest = self.newest.max(Some(moved));
        Some((moved, present))
    }

    /// Returns by how much the newest clock is moved, in nanoseconds.
    #[cfg(feature = "handover")]
    pub fn shift(&self) -> i64 {
        self.shift
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let tracks = self.tracks.iter().chain(&self.said);
        let setups = tracks.map(|track| track.setup.as_ref());
        (self.tracks.capacity() + self.said.capacity()) * size_of::<Track>()
            + self.clocks.capacity() * size_of::<Clock>()
            + setups.flatten().map(|setup| setup.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Codec;
    use super::*;

    /// As Apple's segmenter writes them: each decode time is that of the picture's place in the
    /// stream.
    #[test]
    fn pictures_that_are_shown_before_their_decode_time_keep_their_place() {
        let ms = |time: i64| Time::from_nanoseconds(time * 1_000_000).expect("a time");
        let mut roll = SampleQueue::default();
        let shape = Shape::Pictures {
            width: 2,
            height: 2,
        };
        roll.add(Track {
            number: 1,
            codec: Codec::H264,
            clock: 90_000,
            setup: Some([1].into()),
            shape,
        });
        let mut said = Vec::new();
        for (decode, present) in [
            (0, 0),
            (40, 120),
            (80, 40),
            (120, 80),
            (160, 240),
            (200, 160),
        ] {
            let times = Times {
                decode: ms(decode),
                present: ms(present),
            };
            let mut hear = |heard: ReaderEvent<'_>| {
                if let ReaderEvent::Unit(unit) = heard {
                    let times = [unit.decode, unit.present];
                    said.push(times.map(|time| time.nanoseconds() / 1_000_000));
                }
                Ok(())
            };
            assert_eq!(roll.say(0, times, false, &[7], &mut hear), Ok(()));
        }
        let expected = [
            [0, 0],
            [40, 120],
            [40, 40],
            [80, 80],
            [120, 240],
            [160, 160],
        ];
        assert_eq!(said, expected);
    }
}
