//! Fragmented MP4 (ISO/IEC 14496-12), cut into fragments: a `moof` with the `mdat` behind it.
//!
//! Of a later source only fragments go out, with `tfdt` and the sequence numbers moved on. Its indexes, events and wall-clock times
//! (`sidx`, `emsg`, `prft`) speak of its own clock, and are left out.

use std::ops::Range;

use super::super::LetGo;
use super::super::mp4::{box_head, boxes, header_of, number, places};
use super::super::window::{Look, Step, Walker};
use super::timeline::Timeline;

/// Cuts and moves.
pub(in super::super) struct Fragments {
    unit_bytes_max: usize,
    /// The source is not the first: its headers are left out.
    is_later: bool,
    clocks: Vec<Clock>,
    /// In nanoseconds.
    timeline: Timeline,
    sequence_number: u32,
}

/// A track's clock.
#[derive(Clone, Copy)]
struct Clock {
    track: u32,
    ticks_per_second: u32,
    /// A sample's duration where nothing else is said.
    usual_duration: u32,
}

/// A track's part of a fragment.
struct Run {
    clock: Clock,
    begins: u64,
    ticks: u64,
    /// Where its time stands in the `moof`, and in how many bytes.
    time_at: usize,
    time_bytes: usize,
}

const SECOND: i128 = 1_000_000_000;

impl Fragments {
    pub fn new(unit_bytes_max: usize) -> Fragments {
        Fragments {
            unit_bytes_max,
            is_later: false,
            clocks: Vec::new(),
            timeline: Timeline::new(SECOND as i64),
            sequence_number: 0,
        }
    }

    /// Another source comes, from a fragment on.
    pub fn seam(&mut self) {
        self.is_later = true;
        self.timeline.seam();
    }

    /// The fragment with this `moof`, which is at the front of it.
    fn fragment(
        &mut self,
        unit: &[u8],
        moof: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), LetGo> {
        let from = moof.start;
        let content = unit.get(moof).ok_or(LetGo)?;
        let runs = self.runs(content, from)?;
        let first = runs.iter().map(Run::begins_at).min().ok_or(LetGo)?;
        self.timeline.shift(first);
        let out_from = out.len();
        let mut placed = Vec::new();
        for run in &runs {
            match self
                .timeline
                .place(u64::from(run.clock.track), run.begins_at())
            {
                Some(moved) => placed.push(moved),
                None => return Ok(()),
            }
        }
        out.extend_from_slice(unit);
        let written = &mut out[out_from..];
        for (run, moved) in runs.iter().zip(placed) {
            self.timeline
                .note(u64::from(run.clock.track), moved, Some(run.lasts()))?;
            if !self.timeline.is_unmoved() {
                run.write(moved, written)?;
            }
        }
        self.number(written, from, content)
    }

    fn runs(&self, moof: &[u8], from: usize) -> Result<Vec<Run>, LetGo> {
        let fragments = places(moof).filter(|(kind, _)| kind == b"traf");
        fragments
            .map(|(_, place)| self.run(&moof[place.clone()], from + place.start))
            .collect::<Option<Vec<Run>>>()
            .ok_or(LetGo)
    }

    fn run(&self, traf: &[u8], from: usize) -> Option<Run> {
        let (track, flags, header) = header_of(traf)?;
        let clock = *self.clocks.iter().find(|clock| clock.track == track)?;
        let place = places(traf).find(|(kind, _)| kind == b"tfdt")?.1;
        let time = traf.get(place.clone())?;
        let (begins, time_bytes) = if time.first() == Some(&1) {
            let (high, low) = (number(time, 4)?, number(time, 8)?);
            (u64::from(high) << 32 | u64::from(low), 8)
        } else {
            (u64::from(number(time, 4)?), 4)
        };
        let duration = if flags & 0x8 != 0 {
            // Behind the track: an offset, a description, where they are there.
            let before = 8 * usize::from(flags & 0x1 != 0) + 4 * usize::from(flags & 0x2 != 0);
            number(header, 8 + before)?
        } else {
            clock.usual_duration
        };
        let runs = boxes(traf).filter(|(kind, _)| kind == b"trun");
        let ticks = runs.map(|(_, run)| duration_of(run, duration));
        Some(Run {
            clock,
            begins,
            ticks: ticks.sum::<Option<u64>>()?,
            time_at: from + place.start + 4,
            time_bytes,
        })
    }

    /// Sequence numbers ascend over all sources.
    fn number(&mut self, unit: &mut [u8], from: usize, moof: &[u8]) -> Result<(), LetGo> {
        let header = places(moof).find(|(kind, _)| kind == b"mfhd");
        let Some((_, place)) = header else {
            return Ok(());
        };
        let own = number(&moof[place.clone()], 4).ok_or(LetGo)?;
        self.sequence_number = if self.timeline.is_unmoved() {
            own
        } else {
            self.sequence_number.wrapping_add(1)
        };
        let at = from + place.start + 4;
        let field = unit.get_mut(at..at + 4).ok_or(LetGo)?;
        field.copy_from_slice(&self.sequence_number.to_be_bytes());
        Ok(())
    }
}

impl Run {
    fn begins_at(&self) -> i64 {
        self.clock.nanoseconds(self.begins)
    }

    fn lasts(&self) -> i64 {
        self.clock.nanoseconds(self.ticks).max(1)
    }

    fn write(&self, moved: i64, unit: &mut [u8]) -> Result<(), LetGo> {
        // To the nearest tick: a track's own distances stay what they are.
        let rate = i128::from(self.clock.ticks_per_second);
        let ticks = (i128::from(moved) * rate + SECOND / 2).div_euclid(SECOND);
        let field = unit
            .get_mut(self.time_at..self.time_at + self.time_bytes)
            .ok_or(LetGo)?;
        if self.time_bytes == 8 {
            field.copy_from_slice(&u64::try_from(ticks).map_err(|_| LetGo)?.to_be_bytes());
        } else {
            field.copy_from_slice(&u32::try_from(ticks).map_err(|_| LetGo)?.to_be_bytes());
        }
        Ok(())
    }
}

impl Clock {
    /// As many as can be counted.
    fn nanoseconds(self, ticks: u64) -> i64 {
        let nanoseconds = i128::from(ticks) * SECOND / i128::from(self.ticks_per_second.max(1));
        i64::try_from(nanoseconds).unwrap_or(i64::MAX)
    }
}

impl Walker for Fragments {
    type Yield = u8;

    fn look(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> Result<Step, LetGo> {
        let head = match box_head(seen) {
            Look::Found(head) => head,
            Look::Needs(length) => return Ok(Step::Hold(length)),
            Look::Nothing => return Err(LetGo),
        };
        if self.is_later && !matches!(&head.kind, b"moof" | b"mdat" | b"styp" | b"moov") {
            return Ok(Step::Pass(head.length));
        }
        let whole = self.bounded(head.length)?;
        if seen.len() < whole {
            return Ok(Step::Hold(whole));
        }
        match &head.kind {
            b"moof" => {
                let behind = match box_head(&seen[whole..]) {
                    Look::Found(behind) => behind,
                    Look::Needs(length) => return Ok(Step::Hold(whole + length)),
                    Look::Nothing => return Err(LetGo),
                };
                let unit_bytes = if &behind.kind == b"mdat" {
                    self.bounded(head.length.saturating_add(behind.length))?
                } else {
                    whole
                };
                let Some(unit) = seen.get(..unit_bytes) else {
                    return Ok(Step::Hold(unit_bytes));
                };
                self.fragment(unit, head.bytes..whole, out)?;
                return Ok(Step::Pass(unit_bytes as u64));
            }
            // A later source's own stands before where it is joined: this is another one.
            b"moov" if self.is_later => return Err(LetGo),
            b"moov" => {
                self.clocks = clocks(&seen[head.bytes..whole]).ok_or(LetGo)?;
                self.timeline = Timeline::new(SECOND as i64);
            }
            _ => {}
        }
        out.extend_from_slice(&seen[..whole]);
        Ok(Step::Pass(whole as u64))
    }
}

impl Fragments {
    fn bounded(&self, length: u64) -> Result<usize, LetGo> {
        let length = usize::try_from(length).map_err(|_| LetGo)?;
        if length > self.unit_bytes_max {
            return Err(LetGo);
        }
        Ok(length)
    }
}

/// How long a run of samples is.
fn duration_of(run: &[u8], usual: u32) -> Option<u64> {
    let flags = number(run, 0)?;
    let samples = number(run, 4)?;
    if flags & 0x100 == 0 {
        return Some(u64::from(samples) * u64::from(usual));
    }
    let before = 8 + 4 * (flags & 0x5).count_ones() as usize;
    let sample_bytes = 4 * (flags & 0xf00).count_ones() as usize;
    let samples = run.get(before..)?.chunks_exact(sample_bytes);
    samples
        .map(|sample| number(sample, 0).map(u64::from))
        .sum::<Option<u64>>()
}

/// The tracks' clocks, as a `moov` has them.
fn clocks(moov: &[u8]) -> Option<Vec<Clock>> {
    let mvex = boxes(moov).find(|(kind, _)| kind == b"mvex")?.1;
    let tracks = boxes(moov).filter(|(kind, _)| kind == b"trak");
    let clock = |trak| {
        let track = Track::read(trak)?;
        let mut extends = boxes(mvex).filter(|(kind, _)| kind == b"trex");
        let usual = extends.find(|(_, trex)| number(trex, 4) == Some(track.number))?;
        Some(Clock {
            track: track.number,
            ticks_per_second: track.ticks_per_second,
            usual_duration: number(usual.1, 12)?,
        })
    };
    tracks.map(|(_, trak)| clock(trak)).collect()
}

/// What a decoder is set up with.
#[derive(PartialEq, Eq)]
struct Track<'a> {
    number: u32,
    ticks_per_second: u32,
    handler: &'a [u8],
    description: &'a [u8],
}

impl Track<'_> {
    fn read(trak: &[u8]) -> Option<Track<'_>> {
        let find = |content, wanted: &[u8; 4]| {
            let mut found = boxes(content).filter(move |(kind, _)| kind == wanted);
            found.next().map(|(_, content)| content)
        };
        let tkhd = find(trak, b"tkhd")?;
        let mdia = find(trak, b"mdia")?;
        let mdhd = find(mdia, b"mdhd")?;
        let stbl = find(find(mdia, b"minf")?, b"stbl")?;
        // Behind two times, which are of 64 bits in version 1.
        let behind_times = |header: &[u8]| if header.first() == Some(&1) { 20 } else { 12 };
        Some(Track {
            number: number(tkhd, behind_times(tkhd))?,
            ticks_per_second: number(mdhd, behind_times(mdhd))?,
            handler: find(mdia, b"hdlr")?.get(8..12)?,
            description: find(stbl, b"stsd")?,
        })
    }
}

/// Whether two headers, as late viewers get them, set decoders up alike: each track with its clock and its description, and what is
/// said of samples where fragments say nothing.
pub(super) fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (described(one), described(other));
    one.is_some() && one == other
}

fn described(header: &[u8]) -> Option<(Vec<Track<'_>>, Vec<&[u8]>)> {
    let moov = boxes(header).find(|(kind, _)| kind == b"moov")?.1;
    let mvex = boxes(moov).find(|(kind, _)| kind == b"mvex")?.1;
    let extends = boxes(mvex).filter(|(kind, _)| kind == b"trex");
    let tracks = boxes(moov).filter(|(kind, _)| kind == b"trak");
    Some((
        tracks
            .map(|(_, trak)| Track::read(trak))
            .collect::<Option<_>>()?,
        extends.map(|(_, trex)| trex).collect(),
    ))
}
