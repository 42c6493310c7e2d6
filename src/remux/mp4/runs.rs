//! Runs of samples: the content of a `trun`, with the defaults in its `tfhd` and in `moov`.

use super::super::medium::{MediaError, Result};
use super::{CarriedTrack, Sample, SampleDefaults};
use crate::format::mp4::{
    NOT_SYNC, SampleRun, TrackFragment, child, child_ranges, decode_time, number,
};

/// Samples of a `trun` that are to come.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Index of the track among the tracks of `moov`.
    pub track: usize,
    /// Position of the next sample.
    pub at: u64,
    /// Decode time of the next sample.
    decode: i64,
    /// Number of samples that are to come: at least 1.
    samples: u32,
    /// Defaults for the samples.
    usual: SampleDefaults,
    /// Flags of the first sample, if the run gives it some of its own.
    first_flags: Option<u32>,
    /// Flags of the `trun`. They name the fields of an entry.
    fields: u32,
    /// Position of the next sample's entry in the content of the `moof`.
    entry: usize,
}

/// Maximal number of samples of a fragment. A minute of sound has 4,000.
const SAMPLES_MAX: u32 = 65_536;
const RUNS_MAX: usize = 4096;
const TOO_MANY: MediaError =
    MediaError("a fragment of MP4 has more than 65536 samples or 4096 runs");
const ERROR: MediaError = MediaError("a fragment of MP4 is not whole");

/// Reads the runs of a `moof` at this offset, for the known tracks.
pub(super) fn read(
    moof: &[u8],
    at: u64,
    tracks: &mut [CarriedTrack],
    runs: &mut Vec<Run>,
) -> Result {
    let (mut samples, mut end) = (0, at);
    for (_, place) in child_ranges(moof).filter(|(kind, _)| kind == b"traf") {
        let traf = moof.get(place.clone()).ok_or(ERROR)?;
        let header = TrackFragment::read(traf).ok_or(ERROR)?;
        let mut known = tracks.iter();
        let Some(index) = known.position(|track| track.number == header.track) else {
            continue;
        };
        let track = &mut tracks[index];
        let usual = track.usual.of_fragment(&header).ok_or(ERROR)?;
        let base = if header.has(TrackFragment::BASE_OFFSET) {
            header.base_offset().ok_or(ERROR)?
        } else if header.has(TrackFragment::BASE_IS_MOOF) {
            at
        } else {
            end
        };
        let mut time = match child(traf, b"tfdt") {
            Some(tfdt) => decode_time(tfdt).and_then(|ticks| i64::try_from(ticks).ok()),
            None => Some(track.next),
        }
        .ok_or(ERROR)?;
        end = base;
        for (_, of_run) in child_ranges(traf).filter(|(kind, _)| kind == b"trun") {
            let from = place.start + of_run.start;
            let content = traf.get(of_run).ok_or(ERROR)?;
            let run = Run::read(content, from, index, (base, end, time), usual).ok_or(ERROR)?;
            samples += run.samples.min(SAMPLES_MAX + 1);
            if samples > SAMPLES_MAX || runs.len() >= RUNS_MAX {
                return Err(TOO_MANY);
            }
            let (bytes, ticks, ahead) = run.sum(moof).ok_or(ERROR)?;
            end = run.at.checked_add(bytes).ok_or(ERROR)?;
            time = time.checked_add(ticks).ok_or(ERROR)?;
            track.ahead = track.ahead.max(ahead);
            runs.push(run);
        }
        track.next = time;
    }
    runs.retain(|run| run.samples > 0);
    Ok(())
}

impl SampleDefaults {
    /// Returns the defaults of a fragment. These are the defaults of its track.
    fn of_fragment(self, header: &TrackFragment<'_>) -> Option<SampleDefaults> {
        Some(SampleDefaults {
            duration: header.field_or(TrackFragment::DURATION, Some(self.duration))?,
            size: header.field_or(TrackFragment::SIZE, Some(self.size))?,
            flags: header.field_or(TrackFragment::FLAGS, Some(self.flags))?,
        })
    }
}

impl Run {
    /// Reads a `trun` whose content begins at `from` in the `moof`. Positions count from `base`, or
    /// continue at `end`.
    fn read(
        trun: &[u8],
        from: usize,
        track: usize,
        (base, end, decode): (u64, u64, i64),
        usual: SampleDefaults,
    ) -> Option<Run> {
        let head = SampleRun::read(trun)?;
        let samples = head.samples()?;
        let at = match head.has(SampleRun::DATA_OFFSET) {
            true => base.checked_add_signed(i64::from(head.data_offset()?))?,
            false => end,
        };
        let first_flags = match head.has(SampleRun::FIRST_FLAGS) {
            true => Some(head.first_flags()?),
            false => None,
        };
        let entry = head.entries_at();
        let run = Run {
            track,
            at,
            decode,
            samples,
            usual,
            first_flags,
            fields: head.flags,
            entry: from + entry,
        };
        let entries = (samples as usize).checked_mul(run.entry_bytes())?;
        trun.get(entry..entry.checked_add(entries)?)?;
        Some(run)
    }

    fn entry_bytes(&self) -> usize {
        SampleRun::entry_bytes(self.fields)
    }

    /// Returns a field of the next sample's entry, or `usual` if entries do not have it.
    fn field_or(&self, moof: &[u8], flag: u32, usual: u32) -> Option<u32> {
        if self.fields & flag == 0 {
            return Some(usual);
        }
        let before = SampleRun::bytes_before(self.fields, flag);
        number(moof, self.entry + before)
    }

    fn duration_and_size(&self, moof: &[u8]) -> Option<(u32, u32)> {
        let duration = self.field_or(moof, SampleRun::DURATION, self.usual.duration)?;
        let size = self.field_or(moof, SampleRun::SIZE, self.usual.size)?;
        Some((duration, size))
    }

    /// Returns the ticks from decoding to presentation of the next sample. Some writers use
    /// negative ones where the field has no sign.
    fn offset(&self, moof: &[u8]) -> Option<i64> {
        let offset = self.field_or(moof, SampleRun::OFFSET, 0)?;
        Some(i64::from(offset as i32))
    }

    /// Returns the bytes and the ticks of all samples, and the maximal number of ticks from
    /// presentation to decoding.
    fn sum(&self, moof: &[u8]) -> Option<(u64, i64, i64)> {
        if self.entry_bytes() == 0 {
            let samples = u64::from(self.samples);
            let ticks = samples * u64::from(self.usual.duration);
            return Some((samples * u64::from(self.usual.size), ticks as i64, 0));
        }
        let (mut run, mut bytes, mut ahead) = (*self, 0, 0);
        for _ in 0..self.samples {
            let (duration, size) = run.duration_and_size(moof)?;
            bytes += u64::from(size);
            run.decode = run.decode.checked_add(i64::from(duration))?;
            ahead = ahead.max(-run.offset(moof)?);
            run.entry += run.entry_bytes();
        }
        Some((bytes, run.decode - self.decode, ahead))
    }

    /// Returns the next sample.
    pub fn sample(&self, moof: &[u8]) -> Option<Sample> {
        let (_, size) = self.duration_and_size(moof)?;
        let flags = self.field_or(moof, SampleRun::FLAGS, self.usual.flags)?;
        let flags = self.first_flags.unwrap_or(flags);
        Some(Sample {
            track: self.track,
            place: self.at..self.at.checked_add(u64::from(size))?,
            decode: self.decode,
            present: self.decode.checked_add(self.offset(moof)?)?,
            is_join: flags & NOT_SYNC == 0,
        })
    }

    /// Continues after the next sample. Returns whether it was the last one.
    pub fn step(&mut self, moof: &[u8]) -> bool {
        let (duration, size) = self.duration_and_size(moof).unwrap_or_default();
        self.at = self.at.saturating_add(u64::from(size));
        self.decode = self.decode.saturating_add(i64::from(duration));
        self.first_flags = None;
        self.entry += self.entry_bytes();
        self.samples = self.samples.saturating_sub(1);
        self.samples == 0
    }
}
