//! Writes fragmented MP4 (ISO/IEC 14496-12; CMAF): `ftyp` and `moov`, then fragments of a `moof`
//! and an `mdat`.
//!
//! A fragment begins with each join point of the first video track, and when [`FRAGMENT_TIME`] is
//! over: by so much, at the most, it is late. All that came in that time is in it, the tracks one
//! behind the other. Where the tracks change the stream begins anew: with another `ftyp` and
//! `moov`, behind which times go on. Each sample lasts until the next one of its track; how long
//! the last of a fragment lasts is guessed where the next has not come, and the fragment behind it
//! says its own time, so that no guess adds to another.
//!
//! It owns the units of one fragment: at most as many bytes as it was told and one unit, and
//! [`SAMPLES_MAX`] entries. A unit goes out once, with at most [`OUT_PER_UNIT`] bytes around it;
//! headers are paid for by what comes in, [`HEADER_ALLOWANCE`] once.

mod boxes;
mod fragment;
mod header;

#[cfg(feature = "handover")]
use super::super::medium::Time;
use super::super::medium::{Codec, Fault, Shape, Track};
use super::interleave::OwnedUnit;
use super::timeline::ticks;
use fragment::{Run, Sample};

/// Longest fragment, in nanoseconds.
pub const FRAGMENT_TIME: i64 = 500_000_000;
/// Longest first fragment where video is named and has not come, in nanoseconds. Joins wait for
/// video as long.
const VIDEO_TIME: i64 = 4_000_000_000;
/// And has so many samples.
const SAMPLES_MAX: usize = 2048;
/// Around a unit: what a fragment of it alone needs.
pub const OUT_PER_UNIT: usize = 256;
/// Headers have so many bytes together, and as many more as media came.
pub const HEADER_ALLOWANCE: usize = 64 * 1024;
/// Sound whose time is off by so much from where the one before ends is no longer where it ends.
const JITTER: i64 = 1_000_000;

/// The writer.
#[derive(Debug)]
pub struct Mp4 {
    bytes_max: usize,
    /// As they were told.
    tracks: Vec<Track>,
    lanes: Vec<TrackQueue>,
    /// Whose join points begin fragments.
    leader: Option<usize>,
    /// What the header says that was written last.
    header: Vec<Track>,
    sequence_number: u32,
    /// When the first unit of this fragment is to be decoded, in nanoseconds.
    since: Option<i64>,
    bytes: usize,
    samples: usize,
    /// Bytes that headers may have.
    allowance: usize,
}

/// A track's part of a fragment.
#[derive(Debug)]
struct TrackQueue {
    /// Of a track that is known.
    is_carried: bool,
    is_video: bool,
    clock: u32,
    /// How many ticks a frame of this kind of sound lasts, where all last the same.
    frame: Option<i64>,
    samples: Vec<Sample>,
    /// When the newest sample is to be decoded, and how long the one before lasted, in ticks.
    newest: Option<i64>,
    gap: i64,
}

impl Mp4 {
    /// Before the first track. A fragment is cut before it has more bytes.
    pub fn new(bytes_max: usize) -> Mp4 {
        Mp4 {
            bytes_max,
            tracks: Vec::new(),
            lanes: Vec::new(),
            leader: None,
            header: Vec::new(),
            sequence_number: 0,
            since: None,
            bytes: 0,
            samples: 0,
            allowance: HEADER_ALLOWANCE,
        }
    }

    /// What is carried from now on. What came before goes out first.
    pub fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result<(), Fault> {
        let alike = |(old, new): (&Track, &Track)| old.is_alike(new);
        let are_alike = self.tracks.iter().zip(tracks).all(alike);
        if are_alike && tracks.len() == self.tracks.len() {
            return Ok(());
        }
        // What is told of tracks before the first header stands in it.
        if !(self.header.is_empty() && Track::are_more(&self.tracks, tracks)) {
            self.write_fragment(None, out)?;
        }
        let mut before = std::mem::take(&mut self.lanes).into_iter();
        let lanes = tracks
            .iter()
            .map(|track| TrackQueue::go_on(before.next(), track));
        self.lanes = lanes.collect();
        self.tracks = tracks.to_vec();
        let mut lanes = self.lanes.iter();
        self.leader = lanes.position(|lane| lane.is_carried && lane.is_video);
        Ok(())
    }

    /// Takes a unit, in front of which a fragment may end.
    pub fn write(&mut self, unit: OwnedUnit, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(lane) = self
            .lanes
            .get_mut(unit.track)
            .filter(|lane| lane.is_carried)
        else {
            return Ok(());
        };
        let sample = lane.sample(unit.decode, unit.present, unit.is_join, unit.bytes);
        let time_max = match self.awaits_video() {
            true => VIDEO_TIME,
            false => FRAGMENT_TIME,
        };
        let is_over = self.since.is_some_and(|since| {
            unit.decode.saturating_sub(since) >= time_max
                || self.leader == Some(unit.track) && sample.is_join
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
        self.lanes[unit.track].samples.push(sample);
        Ok(())
    }

    /// Whether there is video of which nothing is known, before the first header.
    fn awaits_video(&self) -> bool {
        let mut video = self.tracks.iter().filter(|track| track.codec.is_video());
        self.header.is_empty() && video.any(|track| !track.is_known())
    }

    /// Nothing more comes: the fragment is whole.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.write_fragment(None, out)
    }

    /// Returns the decode time of the first sample of the open fragment, less what rounding and
    /// [`JITTER`] may add to it.
    #[cfg(feature = "handover")]
    pub fn pending_from(&self, track: usize) -> Option<i64> {
        let lane = self.lanes.get(track)?;
        let decode = Time::of(lane.samples.first()?.decode, lane.clock)?;
        Some(decode.nanoseconds() - 2 * JITTER)
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let lanes = self.lanes.iter();
        let entries: usize = lanes.map(|lane| lane.samples.capacity()).sum();
        let tracks = self.tracks.iter().chain(&self.header);
        let setups: usize = tracks
            .map(|track| track.setup.as_ref().map_or(0, |setup| setup.len()))
            .sum();
        self.bytes
            + entries * size_of::<Sample>()
            + self.lanes.capacity() * size_of::<TrackQueue>()
            + (self.tracks.capacity() + self.header.capacity()) * size_of::<Track>()
            + setups
    }

    /// Writes what has come, and the header if it is a new one; `next` is the track and the time
    /// of the unit that begins the next fragment.
    fn write_fragment(
        &mut self,
        next: Option<(usize, i64)>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if self.since.take().is_none() {
            return Ok(());
        }
        if !self.header_holds() {
            self.write_header(out)?;
        }
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let lanes = self.lanes.iter().enumerate();
        let runs: Vec<Run<'_>> = lanes
            .filter(|(_, lane)| !lane.samples.is_empty())
            .map(|(index, lane)| Run {
                number: index as u32 + 1,
                is_video: lane.is_video,
                samples: &lane.samples,
                end: match next {
                    Some((track, decode)) if track == index => decode,
                    Some(_) | None => lane.end(),
                },
            })
            .collect();
        fragment::write(self.sequence_number, &runs, out);
        for lane in &mut self.lanes {
            lane.samples.clear();
            lane.samples.shrink_to(SAMPLES_MAX / 16);
        }
        (self.bytes, self.samples) = (0, 0);
        Ok(())
    }

    /// Whether the tracks are those that the header names.
    fn header_holds(&self) -> bool {
        let now = self.tracks.iter().filter(|track| track.is_known());
        let told = self.header.iter().filter(|track| track.is_known());
        let alike = |(index, track): (usize, &Track)| {
            let told = self.header.get(index);
            !track.is_known() || told.is_some_and(|told| told.is_alike(track))
        };
        now.count() == told.count() && self.tracks.iter().enumerate().all(alike)
    }

    fn write_header(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let begin = out.len();
        let tracks = self.tracks.iter().enumerate();
        let carried = tracks
            .filter(|(_, track)| track.is_known())
            .map(|(index, track)| (index as u32 + 1, track));
        header::write(carried, out);
        let spent = self.allowance.checked_sub(out.len() - begin);
        self.header = self.tracks.clone();
        self.allowance = spent.ok_or(Fault("its tracks change too often, or have long setups"))?;
        Ok(())
    }
}

impl TrackQueue {
    /// A track whose times go on behind those of the one before in its place.
    fn go_on(old: Option<TrackQueue>, track: &Track) -> TrackQueue {
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
            is_carried: track.is_known(),
            is_video: track.codec.is_video(),
            clock,
            frame,
            samples,
            newest,
            gap: frame.unwrap_or(i64::from(clock / 50)),
        }
    }

    /// A unit in this track's ticks. Decode times ascend. Frames of sound follow each other without
    /// a gap as long as their times say so to a millisecond, which some containers round to.
    fn sample(&mut self, decode: i64, present: i64, is_join: bool, bytes: Box<[u8]>) -> Sample {
        let told = ticks(decode, self.clock);
        let offset = ticks(present, self.clock).saturating_sub(told);
        let expected = self.newest.zip(self.frame);
        let expected = expected.map(|(newest, frame)| newest.saturating_add(frame));
        let jitter = ticks(JITTER, self.clock) + 1;
        let at = match (expected, self.newest) {
            (Some(expected), _) if expected.abs_diff(told) <= jitter as u64 => expected,
            (_, Some(newest)) => told.max(newest.saturating_add(1)),
            (_, None) => told.max(0),
        };
        if let Some(newest) = self.newest {
            self.gap = at - newest;
        }
        self.newest = Some(at);
        Sample {
            decode: at,
            offset: u32::try_from(offset.saturating_sub(at - told).max(0)).unwrap_or(0),
            is_join,
            bytes,
        }
    }

    /// When what comes next is likely to be decoded.
    fn end(&self) -> i64 {
        let newest = self.samples.last().map_or(0, |sample| sample.decode);
        let second = i64::from(self.clock);
        newest.saturating_add(self.frame.unwrap_or(self.gap).clamp(1, second.max(1)))
    }
}
