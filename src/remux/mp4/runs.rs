//! Runs of samples: what a `trun` says, with what its `tfhd` and `moov` say in its place.

use super::super::medium::Fault;
use super::{Carried, Sample, SampleDefaults};
use crate::format::mp4::{BASE_DATA_OFFSET, child, header_of, number, places};

/// The samples of a `trun` that are to come.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Of those of `moov`.
    pub track: usize,
    /// Where the next one lies.
    pub at: u64,
    /// When it is to be decoded.
    decode: i64,
    samples: u32,
    usual: SampleDefaults,
    /// Of the first, where that has flags of its own.
    first_flags: Option<u32>,
    /// What is said of each: see `trun`.
    fields: u32,
    /// Where that begins for the next one, in the content of the `moof`.
    entry: usize,
}

/// Of a fragment: a minute of sound has 4,000.
const SAMPLES_MAX: u32 = 65_536;
const RUNS_MAX: usize = 4096;
const DURATION: u32 = 0x100;
const SIZE: u32 = 0x200;
const FLAGS: u32 = 0x400;
const OFFSET: u32 = 0x800;
/// `sample_is_non_sync_sample`
const NOT_SYNC: u32 = 0x1_0000;
const TOO_MANY: Fault = Fault("a fragment of MP4 has more than 65536 samples or 4096 runs");
const FAULT: Fault = Fault("a fragment of MP4 is not whole");

/// The runs of a `moof` that stands at this offset, of the tracks that it knows.
pub(super) fn read(
    moof: &[u8],
    at: u64,
    tracks: &mut [Carried],
    runs: &mut Vec<Run>,
) -> Result<(), Fault> {
    let (mut samples, mut end) = (0, at);
    for (_, place) in places(moof).filter(|(kind, _)| kind == b"traf") {
        let traf = moof.get(place.clone()).ok_or(FAULT)?;
        let (number, flags, header) = header_of(traf).ok_or(FAULT)?;
        let Some(index) = tracks.iter().position(|track| track.number == number) else {
            continue;
        };
        let track = &mut tracks[index];
        let (base, usual) = defaults(header, flags, track.usual).ok_or(FAULT)?;
        // From the file's first byte, the fragment's, or where the track before has ended.
        let base = base.unwrap_or(if flags & 0x2_0000 != 0 { at } else { end });
        let mut time = begins(traf).ok_or(FAULT)?.unwrap_or(track.next);
        end = base;
        for (_, of_run) in places(traf).filter(|(kind, _)| kind == b"trun") {
            let from = place.start + of_run.start;
            let content = traf.get(of_run).ok_or(FAULT)?;
            let run = Run::read(content, from, index, (base, end, time), usual).ok_or(FAULT)?;
            samples += run.samples.min(SAMPLES_MAX + 1);
            if samples > SAMPLES_MAX || runs.len() >= RUNS_MAX {
                return Err(TOO_MANY);
            }
            let (bytes, ticks, ahead) = run.sum(moof).ok_or(FAULT)?;
            end = run.at.checked_add(bytes).ok_or(FAULT)?;
            time = time.checked_add(ticks).ok_or(FAULT)?;
            track.ahead = track.ahead.max(ahead);
            runs.push(run);
        }
        track.next = time;
    }
    runs.retain(|run| run.samples > 0);
    Ok(())
}

/// Where positions count from, if a fragment's header says it, and what counts for its samples.
fn defaults(
    header: &[u8],
    flags: u32,
    usual: SampleDefaults,
) -> Option<(Option<u64>, SampleDefaults)> {
    let mut at = 8;
    let mut field = |flag: u32, bytes: usize| {
        let here = at;
        let is_there = flags & flag != 0;
        at += if is_there { bytes } else { 0 };
        is_there.then_some(here)
    };
    let base = field(BASE_DATA_OFFSET, 8);
    field(0x2, 4);
    let places = [field(0x8, 4), field(0x10, 4), field(0x20, 4)];
    let or = |place: Option<usize>, usual: u32| place.map_or(Some(usual), |at| number(header, at));
    let base = match base {
        None => None,
        Some(at) => Some(u64::from(number(header, at)?) << 32 | u64::from(number(header, at + 4)?)),
    };
    Some((
        base,
        SampleDefaults {
            duration: or(places[0], usual.duration)?,
            size: or(places[1], usual.size)?,
            flags: or(places[2], usual.flags)?,
        },
    ))
}

/// When a track's part of a fragment begins, if it says so.
fn begins(traf: &[u8]) -> Option<Option<i64>> {
    let Some(time) = child(traf, b"tfdt") else {
        return Some(None);
    };
    let ticks = match time.first()? {
        1 => u64::from(number(time, 4)?) << 32 | u64::from(number(time, 8)?),
        _ => u64::from(number(time, 4)?),
    };
    i64::try_from(ticks).ok().map(Some)
}

impl Run {
    /// Of a `trun` whose content begins there in the `moof`. Positions count from `base`, or go on
    /// at `end`.
    fn read(
        trun: &[u8],
        from: usize,
        track: usize,
        (base, end, decode): (u64, u64, i64),
        usual: SampleDefaults,
    ) -> Option<Run> {
        let (fields, samples) = (number(trun, 0)? & 0xff_ffff, number(trun, 4)?);
        let mut entry = 8;
        let mut at = end;
        if fields & 0x1 != 0 {
            at = base.checked_add_signed(i64::from(number(trun, entry)? as i32))?;
            entry += 4;
        }
        let mut first_flags = None;
        if fields & 0x4 != 0 {
            first_flags = Some(number(trun, entry)?);
            entry += 4;
        }
        let run = Run {
            track,
            at,
            decode,
            samples,
            usual,
            first_flags,
            fields,
            entry: from + entry,
        };
        let entries = (samples as usize).checked_mul(run.entry_bytes())?;
        trun.get(entry..entry.checked_add(entries)?)?;
        Some(run)
    }

    fn entry_bytes(&self) -> usize {
        4 * (self.fields & (DURATION | SIZE | FLAGS | OFFSET)).count_ones() as usize
    }

    /// A field of the next sample, if it has that.
    fn field(&self, moof: &[u8], flag: u32) -> Option<Option<u32>> {
        if self.fields & flag == 0 {
            return Some(None);
        }
        let before = self.fields & (flag - 1) & (DURATION | SIZE | FLAGS | OFFSET);
        number(moof, self.entry + 4 * before.count_ones() as usize).map(Some)
    }

    fn duration_and_size(&self, moof: &[u8]) -> Option<(u32, u32)> {
        let duration = self.field(moof, DURATION)?.unwrap_or(self.usual.duration);
        Some((duration, self.field(moof, SIZE)?.unwrap_or(self.usual.size)))
    }

    /// The next sample is shown so many ticks after it is decoded: some write negative ones where
    /// there is no place for a sign.
    fn offset(&self, moof: &[u8]) -> Option<i64> {
        let offset = self.field(moof, OFFSET)?;
        Some(offset.map_or(0, |offset| i64::from(offset as i32)))
    }

    /// How many bytes and ticks the samples have, and how many ticks one is shown before it is
    /// decoded at most.
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

    /// The next one.
    pub fn sample(&self, moof: &[u8], tracks: &[Carried]) -> Option<Sample> {
        tracks.get(self.track)?;
        let (_, size) = self.duration_and_size(moof)?;
        let own = self.first_flags.or(self.field(moof, FLAGS)?);
        let flags = own.unwrap_or(self.usual.flags);
        Some(Sample {
            track: self.track,
            place: self.at..self.at.checked_add(u64::from(size))?,
            decode: self.decode,
            present: self.decode.checked_add(self.offset(moof)?)?,
            is_join: flags & NOT_SYNC == 0,
        })
    }

    /// Goes on behind it; says whether it was the last.
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
