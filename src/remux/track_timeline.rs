//! Tracks of a source, and their times. It brings the units of a source into the order of
//! [`super::medium`].
//!
//! A clock that begins again, or jumps, continues where the stream has come to. All tracks move by
//! the same amount, each when it reaches the jump.

use super::medium::{
    MediaError, ReaderEvent, Result, SECOND, Shape, Sink, TRACKS_MAX, Track, Unit, in_range,
};

/// Tracks and times of a source. See the module.
#[derive(Default)]
pub(super) struct TrackTimeline {
    /// Tracks: at most [`TRACKS_MAX`].
    tracks: Vec<Track>,
    /// Tracks of the newest event, kept when the source begins again, so that equal tracks are not
    /// reported twice.
    last_tracks: Vec<Track>,
    /// Clock of each track.
    clocks: Vec<TrackClock>,
    /// Whether the tracks differ from the newest event.
    has_changed: bool,
    /// Cost of changes of the tracks, in bytes: at most [`CHANGE_BYTES_MAX`]. Each byte of a unit takes
    /// 1 off. A hostile source changes the tracks with every unit.
    change_bytes: usize,
    /// Nanoseconds by which the newest clock is moved.
    pub shift: i64,
    /// Newest time on that clock.
    newest: Option<i64>,
}

#[derive(Clone, Copy)]
struct TrackClock {
    /// Nanoseconds by which its times are moved.
    shift: i64,
    /// Newest decode time that was passed on.
    newest: Option<i64>,
    /// Longest time from presentation to decoding of a unit, in nanoseconds. Decode times are moved
    /// back by it.
    ahead: i64,
}

/// Longest distance forwards. A longer one means that the source's clock was wrong, or is wrong
/// now.
const JUMP: i64 = 10 * SECOND;
/// Longest distance backwards within one clock. The times of a track need not be in order.
const BACK: i64 = SECOND;
/// Distance of the first time after a jump from the last one before.
const SEAM: i64 = SECOND / 25;
/// Longest wait, in nanoseconds, for a picture at which decoding can begin. Earlier pictures are
/// dropped. A source may never send such a picture.
pub(super) const START_MAX: i64 = 20 * SECOND;
/// Longest setup, with parameter sets.
pub(super) const SETUP_BYTES_MAX: usize = 4096;
/// Maximal cost of changes that units have not paid for, however many units came before.
const CHANGE_BYTES_MAX: usize = 256 * 1024;
/// Cost of a change of a track in bytes, besides its setup.
const CHANGE_BYTES: usize = 256;

impl TrackTimeline {
    /// Begins the source again, perhaps with other tracks. Returns the old tracks.
    pub fn clear(&mut self) -> Vec<Track> {
        self.count_change();
        // Tracks that have changed since the newest event were never passed on.
        if !self.has_changed {
            self.last_tracks = self.tracks.clone();
        }
        self.has_changed = true;
        std::mem::take(&mut self.tracks)
    }

    /// Returns whether a track has no setup.
    pub fn is_new(&self, index: usize) -> bool {
        let track = self.tracks.get(index);
        track.is_some_and(|track| track.setup.is_none())
    }

    /// Adds a track. Returns its index, or `None` if there are too many.
    pub fn add(&mut self, track: Track) -> Option<usize> {
        if self.tracks.len() >= TRACKS_MAX {
            return None;
        }
        self.tracks.push(track);
        // The time of an earlier track at the same index continues.
        if self.clocks.len() < self.tracks.len() {
            self.clocks.push(TrackClock {
                shift: self.shift,
                newest: None,
                ahead: 0,
            });
        }
        self.has_changed = true;
        Some(self.tracks.len() - 1)
    }

    /// Replaces a track. Its time continues.
    pub fn replace(&mut self, index: usize, track: Track) -> Option<usize> {
        *self.tracks.get_mut(index)? = track;
        self.has_changed = true;
        self.change_bytes += CHANGE_BYTES;
        Some(index)
    }

    /// Sets a track up, if its setup is new or has changed.
    pub fn set_up(&mut self, index: usize, setup: &[u8], shape: Shape) -> Result {
        // The caller has made a setup, whether it differs or not.
        self.change_bytes += CHANGE_BYTES;
        self.check_changes()?;
        let Some(track) = self.tracks.get_mut(index) else {
            return Ok(());
        };
        if setup.len() > SETUP_BYTES_MAX {
            return Err(MediaError("a codec's setup is longer than 4096 bytes"));
        }
        if track.setup.as_deref() == Some(setup) && track.shape == shape {
            return Ok(());
        }
        track.setup = Some(setup.into());
        track.shape = shape;
        self.has_changed = true;
        Ok(())
    }

    /// Passes on the tracks, if they differ from the newest event.
    pub fn emit_tracks(&mut self, sink: &mut Sink<'_>) -> Result {
        let last_tracks = std::mem::take(&mut self.last_tracks);
        let has_changed = std::mem::take(&mut self.has_changed) && last_tracks != self.tracks;
        if has_changed {
            self.count_change();
        }
        self.check_changes()?;
        match has_changed {
            true => sink(ReaderEvent::Tracks(&self.tracks)),
            false => Ok(()),
        }
    }

    fn check_changes(&self) -> Result {
        match self.change_bytes > CHANGE_BYTES_MAX {
            true => Err(MediaError("its tracks or their setups change too often")),
            false => Ok(()),
        }
    }

    /// Counts the cost of a change of all tracks: they are copied, with their setups.
    fn count_change(&mut self) {
        let setups = self.tracks.iter().map(|track| track.setup.as_ref());
        let bytes = setups.map(|setup| CHANGE_BYTES + setup.map_or(0, |setup| setup.len()));
        self.change_bytes += bytes.sum::<usize>();
    }

    /// Passes on a unit, which has the times of its container. Leaves out empty units, and units of
    /// a track without a setup.
    pub fn emit(&mut self, unit: Unit<'_>, sink: &mut Sink<'_>) -> Result {
        self.check_changes()?;
        let track = self.tracks.get(unit.track);
        if unit.bytes.is_empty() || track.is_none_or(|track| track.setup.is_none()) {
            return Ok(());
        }
        self.emit_tracks(sink)?;
        self.change_bytes = self.change_bytes.saturating_sub(unit.bytes.len());
        match self.place(&unit) {
            Some((decode, present)) => sink(ReaderEvent::Unit(Unit {
                decode,
                present,
                ..unit
            })),
            None => Ok(()),
        }
    }

    /// Returns the times of a unit in the order of [`super::medium`].
    fn place(&mut self, unit: &Unit<'_>) -> Option<(i64, i64)> {
        let clock = self.clocks.get_mut(unit.track)?;
        let (decode, present) = (unit.decode, unit.present);
        if (1..=BACK).contains(&decode.saturating_sub(present)) {
            clock.ahead = clock.ahead.max(decode - present);
        }
        let decode = decode.saturating_sub(clock.ahead);
        let is_near = |moved: i64, newest: Option<i64>| {
            newest.is_some_and(|newest| (-BACK..=JUMP).contains(&moved.saturating_sub(newest)))
        };
        let fits = |shift: i64| {
            let moved = decode.saturating_add(shift);
            is_near(moved, clock.newest)
                || (is_near(moved, self.newest) && clock.newest <= Some(moved))
        };
        if clock.newest.is_some() && !fits(clock.shift) {
            if !fits(self.shift) {
                let seam = self.newest.unwrap_or(0).saturating_add(SEAM);
                self.shift = seam.saturating_sub(decode);
            }
            clock.shift = self.shift;
        }
        let moved = in_range(decode.saturating_add(clock.shift))?;
        let moved = clock.newest.map_or(moved, |newest| newest.max(moved));
        let present = in_range(present.saturating_add(clock.shift).max(moved))?;
        clock.newest = Some(moved);
        self.newest = self.newest.max(Some(moved));
        Some((moved, present))
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Codec;
    use super::*;

    /// As Apple's segmenter writes them: each decode time belongs to the picture's place in the
    /// stream.
    #[test]
    fn pictures_shown_before_their_decode_time_keep_their_place() {
        let ms = |time: i64| time * 1_000_000;
        let mut timeline = TrackTimeline::default();
        let shape = Shape::Pictures {
            width: 2,
            height: 2,
        };
        timeline.add(Track {
            number: 1,
            codec: Codec::H264,
            clock: 90_000,
            setup: Some([1].into()),
            shape,
        });
        let mut last_tracks = Vec::new();
        for (decode, present) in [
            (0, 0),
            (40, 120),
            (80, 40),
            (120, 80),
            (160, 240),
            (200, 160),
        ] {
            let unit = Unit {
                track: 0,
                decode: ms(decode),
                present: ms(present),
                is_join: false,
                bytes: &[7],
            };
            let mut handle = |event: ReaderEvent<'_>| {
                if let ReaderEvent::Unit(unit) = event {
                    let times = [unit.decode, unit.present];
                    last_tracks.push(times.map(|time| time / 1_000_000));
                }
                Ok(())
            };
            assert_eq!(timeline.emit(unit, &mut handle), Ok(()));
        }
        let expected = [
            [0, 0],
            [40, 120],
            [40, 40],
            [80, 80],
            [120, 240],
            [160, 160],
        ];
        assert_eq!(last_tracks, expected);
    }
}
