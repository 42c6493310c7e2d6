//! Writes fragmented MP4 (ISO/IEC 14496-12; CMAF): `ftyp` and `moov`, then fragments of a `moof`
//! and an `mdat`.
//!
//! A fragment begins at each join point of the first video track, at the picture after it, and when
//! [`FRAGMENT_TIME`] is over. So the output is at most that late. A key frame has a fragment of its
//! own, which goes out when the next picture comes. A fragment also ends with a piece of the source
//! ([`ReaderEvent::PieceEnds`](super::super::ReaderEvent)), since the next piece may be late, and
//! when it has the allowed bytes or [`SAMPLES_MAX`]. A fragment has all units of its time, one
//! track after the other.
//!
//! When the tracks change, the stream begins again with another `ftyp` and `moov`, and the times
//! continue. Each sample lasts until the next one of its track. The duration of the last sample of
//! a fragment is estimated if the next one has not come. Each fragment has its own time, so
//! estimates do not add up.
//!
//! It owns the units of one fragment: at most the allowed bytes and one unit, and [`SAMPLES_MAX`]
//! entries. A unit goes out once, with at most [`OUT_PER_UNIT`] bytes around it. Headers are
//! limited to the length of the input and [`HEADER_ALLOWANCE`].

mod boxes;
mod fragment;
mod header;

#[cfg(feature = "handover")]
use super::super::medium::nanoseconds;
use super::super::medium::{Codec, MILLISECOND, MediaError, Result, Shape, Track, ticks};
#[cfg(feature = "handover")]
use super::RemuxerState;
use super::Writer;
use super::interleave::OwnedUnit;
use fragment::{Run, Sample};

/// Longest fragment, in nanoseconds.
pub const FRAGMENT_TIME: i64 = 500 * MILLISECOND;
/// Maximal number of samples of a fragment.
const SAMPLES_MAX: usize = 2048;
/// Maximal number of bytes around a unit: a fragment with this unit alone.
pub const OUT_PER_UNIT: usize = 256;
/// Maximal number of bytes of all headers beyond the length of the media.
pub const HEADER_ALLOWANCE: usize = 64 * 1024;
/// Largest deviation of sound from the end of the previous frame, in nanoseconds. Sound within it
/// continues exactly there.
const JITTER: i64 = MILLISECOND;

/// Writer of fragmented MP4.
#[derive(Debug, Default)]
pub struct Mp4 {
    /// Maximal number of bytes of a fragment.
    bytes_max: usize,
    /// Tracks of the newest list.
    tracks: Vec<Track>,
    /// Parts of the fragment, by the index of their tracks.
    queues: Vec<TrackQueue>,
    /// Track whose join points begin fragments.
    leader: Option<usize>,
    /// Tracks of the newest header.
    header: Vec<Track>,
    /// Header that another process has written. It is not written again.
    header_before: Vec<u8>,
    /// Number of the newest fragment.
    sequence_number: u32,
    /// Decode time of the fragment's first unit, in nanoseconds.
    since: Option<i64>,
    /// Bytes of the fragment so far.
    bytes: usize,
    /// Samples of the fragment so far.
    samples: usize,
    /// Bytes that headers may have.
    allowance: usize,
}

/// A track's part of a fragment.
#[derive(Debug)]
struct TrackQueue {
    /// Whether the fragments have the track: its setup is known.
    is_known: bool,
    is_video: bool,
    /// Ticks a second.
    clock: u32,
    /// Ticks of a frame of sound, if all have the same duration.
    frame: Option<i64>,
    /// Samples of the fragment so far.
    samples: Vec<Sample>,
    /// Decode time of the newest sample, in ticks.
    newest: Option<i64>,
    /// Duration of the sample before the newest, in ticks.
    gap: i64,
}

impl Writer for Mp4 {
    /// Sets the tracks. Earlier units go out first.
    fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result {
        let alike = |(old, new): (&Track, &Track)| old.is_alike(new);
        let are_alike = self.tracks.iter().zip(tracks).all(alike);
        if are_alike && tracks.len() == self.tracks.len() {
            return Ok(());
        }
        // Changes before the first header go into that header.
        if !(self.header.is_empty() && Track::are_more(&self.tracks, tracks)) {
            self.write_fragment(None, out)?;
        }
        let mut before = std::mem::take(&mut self.queues).into_iter();
        let queues = tracks
            .iter()
            .map(|track| TrackQueue::continue_track(before.next(), track));
        self.queues = queues.collect();
        self.tracks = tracks.to_vec();
        let mut queues = self.queues.iter();
        self.leader = queues.position(|queue| queue.is_known && queue.is_video);
        Ok(())
    }

    /// Takes a unit. A fragment may end in front of it.
    fn write(&mut self, unit: OwnedUnit, out: &mut Vec<u8>) -> Result {
        let queue = self.queues.get_mut(unit.track);
        let Some(queue) = queue.filter(|queue| queue.is_known) else {
            return Ok(());
        };
        let sample = queue.sample(unit.decode, unit.present, unit.is_join, unit.bytes);
        let is_after_join = matches!(&queue.samples[..], [only] if only.is_join);
        let is_over = self.since.is_some_and(|since| {
            unit.decode.saturating_sub(since) >= FRAGMENT_TIME
                || self.leader == Some(unit.track) && (sample.is_join || is_after_join)
                || self.bytes + sample.bytes.len() > self.bytes_max
                || self.samples >= SAMPLES_MAX
        });
        self.allowance = (self.allowance + sample.bytes.len()).min(HEADER_ALLOWANCE);
        if is_over {
            self.write_fragment(Some((unit.track, sample.decode)), out)?;
        }
        self.since.get_or_insert(unit.decode);
        self.bytes += sample.bytes.len();
        self.samples += 1;
        self.queues[unit.track].samples.push(sample);
        Ok(())
    }

    /// Does nothing: fragments have their own times.
    fn flush_gathered(&mut self, _out: &mut Vec<u8>) {}

    fn flush(&mut self, out: &mut Vec<u8>) -> Result {
        self.write_fragment(None, out)
    }

    fn left_out(&self, _track: &Track) -> Option<&'static str> {
        None
    }

    /// Returns the decode time of the first sample of the open fragment, minus the most that
    /// rounding and [`JITTER`] add.
    #[cfg(feature = "handover")]
    fn pending_from(&self, track: usize) -> Option<i64> {
        let queue = self.queues.get(track)?;
        let decode = nanoseconds(queue.samples.first()?.decode, queue.clock)?;
        Some(decode - 2 * JITTER)
    }

    #[cfg(feature = "handover")]
    fn state(&self) -> RemuxerState {
        RemuxerState {
            fragments: self.sequence_number,
            ..RemuxerState::default()
        }
    }

    #[cfg(feature = "handover")]
    fn resume(&mut self, state: &RemuxerState, header: Vec<u8>) {
        (self.sequence_number, self.header_before) = (state.fragments, header);
    }
}

impl Mp4 {
    /// Returns a writer before the first track. A fragment has at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Mp4 {
        Mp4 {
            bytes_max,
            allowance: HEADER_ALLOWANCE,
            ..Mp4::default()
        }
    }

    /// Writes the fragment, and the header if it has changed. `next` is the track and the time of
    /// the next fragment's first unit.
    fn write_fragment(&mut self, next: Option<(usize, i64)>, out: &mut Vec<u8>) -> Result {
        if self.since.take().is_none() {
            return Ok(());
        }
        if !self.header_holds() {
            self.write_header(out)?;
        }
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let queues = self.queues.iter().enumerate();
        let runs: Vec<Run<'_>> = queues
            .filter(|(_, queue)| !queue.samples.is_empty())
            .map(|(index, queue)| Run {
                number: index as u32 + 1,
                is_video: queue.is_video,
                samples: &queue.samples,
                end: match next {
                    Some((track, decode)) if track == index => decode,
                    Some(_) | None => queue.end(),
                },
            })
            .collect();
        fragment::write(self.sequence_number, &runs, out);
        for queue in &mut self.queues {
            queue.samples.clear();
            queue.samples.shrink_to(SAMPLES_MAX / 16);
        }
        (self.bytes, self.samples) = (0, 0);
        Ok(())
    }

    /// Returns whether the header names these tracks.
    fn header_holds(&self) -> bool {
        let now = self.tracks.iter().filter(|track| track.is_known());
        let written = self.header.iter().filter(|track| track.is_known());
        let alike = |(index, track): (usize, &Track)| {
            let written = self.header.get(index);
            !track.is_known() || written.is_some_and(|written| written.is_alike(track))
        };
        now.count() == written.count() && self.tracks.iter().enumerate().all(alike)
    }

    fn write_header(&mut self, out: &mut Vec<u8>) -> Result {
        let begin = out.len();
        let tracks = self.tracks.iter().enumerate();
        let carried = tracks
            .filter(|(_, track)| track.is_known())
            .map(|(index, track)| (index as u32 + 1, track));
        header::write(carried, out);
        if std::mem::take(&mut self.header_before) == out[begin..] {
            out.truncate(begin);
        }
        let spent = self.allowance.checked_sub(out.len() - begin);
        self.header = self.tracks.clone();
        self.allowance = spent.ok_or(MediaError(
            "its tracks change too often, or have long setups",
        ))?;
        Ok(())
    }
}

impl TrackQueue {
    /// Returns the state of a track. Its times continue the times of the previous track at the same
    /// index.
    fn continue_track(old: Option<TrackQueue>, track: &Track) -> TrackQueue {
        let clock = header::clock_of(track);
        let (newest, samples) = match old {
            Some(old) if old.clock == clock => (old.newest, old.samples),
            Some(_) | None => (None, Vec::new()),
        };
        let frame = match (track.codec, track.shape) {
            (Codec::Aac, _) => Some(1024),
            (Codec::Ac3, _) => Some(1536),
            (Codec::MpegAudio, Shape::Sound { rate: 32_000.., .. }) => Some(1152),
            (Codec::MpegAudio, _) => Some(576),
            (Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9, _) => None,
            (Codec::Eac3 | Codec::Opus, _) => None,
        };
        TrackQueue {
            is_known: track.is_known(),
            is_video: track.codec.is_video(),
            clock,
            frame,
            samples,
            newest,
            gap: frame.unwrap_or(i64::from(clock / 50)),
        }
    }

    /// Turns a unit into a sample in the track's ticks. Decode times ascend. Frames of sound follow
    /// each other without a gap if their times deviate by at most a millisecond, to which some
    /// containers round.
    fn sample(&mut self, decode: i64, present: i64, is_join: bool, bytes: Box<[u8]>) -> Sample {
        let decode_ticks = ticks(decode, self.clock);
        let offset = ticks(present, self.clock).saturating_sub(decode_ticks);
        let expected = self.newest.zip(self.frame);
        let expected = expected.map(|(newest, frame)| newest.saturating_add(frame));
        let jitter = ticks(JITTER, self.clock) + 1;
        let at = match (expected, self.newest) {
            (Some(expected), _) if expected.abs_diff(decode_ticks) <= jitter as u64 => expected,
            (_, Some(newest)) => decode_ticks.max(newest.saturating_add(1)),
            (_, None) => decode_ticks.max(0),
        };
        if let Some(newest) = self.newest {
            self.gap = at - newest;
        }
        self.newest = Some(at);
        Sample {
            decode: at,
            offset: u32::try_from(offset.saturating_sub(at - decode_ticks).max(0)).unwrap_or(0),
            is_join,
            bytes,
        }
    }

    /// Returns the probable decode time of the next sample.
    fn end(&self) -> i64 {
        let newest = self.samples.last().map_or(0, |sample| sample.decode);
        let second = i64::from(self.clock);
        newest.saturating_add(self.frame.unwrap_or(self.gap).clamp(1, second.max(1)))
    }
}
