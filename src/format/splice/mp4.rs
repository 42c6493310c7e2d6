//! Cuts fragmented MP4 (ISO/IEC 14496-12) into fragments: a `moof` and the `mdat` after it.
//!
//! Of a later source only fragments go out, and headers in mid-stream, with `tfdt` and the sequence
//! numbers moved. Its indexes, events and wall-clock times (`sidx`, `emsg`, `prft`) refer to its
//! own clock, and are left out.

mod setup;

use super::super::Unsupported;
use super::super::mp4::{
    BOX_HEAD_BYTES, BoxHead, MOOF_BYTES_MAX, TrackBox, TrackFragment, box_head, boxed, boxes,
    child, child_ranges, children, decode_time, duration_of, number,
};
use super::super::window::{StepResult, Unread, Walker, whole};
use super::copy;
use super::timeline::{TRACKS_MAX, Timeline};
use setup::Descriptions;
pub(super) use setup::are_alike;

/// Cutter of fragmented MP4. It also moves the times.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct FragmentCutter {
    pub unit_bytes_max: usize,
    /// Longest box that is read whole: at most [`MOOF_BYTES_MAX`]. A unit may be longer.
    box_bytes_max: usize,
    /// Whether the source is not the first one. Then its headers are left out.
    is_later: bool,
    /// Clocks of the tracks, by ascending track number: at most [`TRACKS_MAX`].
    clocks: Vec<TrackClock>,
    /// Times of the stream, in nanoseconds.
    timeline: Timeline,
    /// Number of the newest fragment in the output.
    sequence_number: u32,
    /// Bytes that are left of an `mdat` that passes as it comes.
    pub mdat_bytes_left: u64,
}

/// Clock of a track.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct TrackClock {
    track: u32,
    ticks_per_second: u32,
    /// Duration of a sample where nothing else is said.
    usual_duration: u32,
    /// Whether the track is sound or video.
    is_media: bool,
}

/// A track's part of a fragment.
struct Run {
    clock: TrackClock,
    /// Decode time of its first sample, in ticks.
    begins: u64,
    /// Duration of its samples, in ticks.
    ticks: u64,
}

const SECOND: i128 = 1_000_000_000;

impl FragmentCutter {
    /// Returns a cutter for the first source. A longer fragment passes as it comes.
    pub fn new(unit_bytes_max: usize) -> FragmentCutter {
        FragmentCutter {
            unit_bytes_max,
            box_bytes_max: unit_bytes_max.min(MOOF_BYTES_MAX),
            is_later: false,
            clocks: Vec::new(),
            timeline: Timeline::new(SECOND as i64),
            sequence_number: 0,
            mdat_bytes_left: 0,
        }
    }

    /// Begins another source, at a fragment.
    pub fn seam(&mut self) {
        self.is_later = true;
        self.timeline.seam();
    }

    /// Writes a `moof`. Returns whether its fragment goes out.
    fn fragment(
        &mut self,
        moof: &[u8],
        head_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unsupported> {
        let content = moof.get(head_bytes..).ok_or(Unsupported)?;
        let runs = self.runs(content).collect::<Option<Vec<Run>>>();
        let runs = runs.ok_or(Unsupported)?;
        let first = runs.iter().map(Run::begins_at).min().ok_or(Unsupported)?;
        let Some(placed) = self.new_times(&runs, first) else {
            return Ok(false);
        };
        for (run, moved) in runs.iter().zip(&placed) {
            self.timeline
                .note(u64::from(run.clock.track), *moved, Some(run.lasts()))?;
        }
        if self.timeline.is_unmoved() {
            let own_number = child(content, b"mfhd").and_then(|header| number(header, 4));
            self.sequence_number = own_number.unwrap_or(0);
            out.extend_from_slice(moof);
            return Ok(true);
        }
        // Numbers ascend across all sources.
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let times = runs.iter().zip(placed);
        let times = times.map(|(run, moved)| run.ticks_at(moved));
        let times = times.collect::<Option<Vec<u64>>>();
        // Data positions count from a head of the usual size.
        times
            .filter(|_| head_bytes == BOX_HEAD_BYTES)
            .and_then(|times| write_moof(content, &times, self.sequence_number, out))
            .ok_or(Unsupported)?;
        Ok(true)
    }

    /// Returns each track's part of a fragment. `None` for a part that is not understood.
    fn runs<'a>(&'a self, moof: &'a [u8]) -> impl Iterator<Item = Option<Run>> + 'a {
        children(moof, b"traf").map(|traf| self.run(traf))
    }

    /// Returns the new time of each part. `None` if one of them is over.
    fn new_times(&mut self, runs: &[Run], first: i64) -> Option<Vec<i64>> {
        loop {
            let shift = self.timeline.shift(first);
            let mut new_time = |run: &Run| {
                self.timeline
                    .new_time(u64::from(run.clock.track), run.begins_at())
            };
            let placed = runs
                .iter()
                .map(&mut new_time)
                .collect::<Option<Vec<i64>>>()?;
            // If the clock of a track has begun again, all parts are placed again. From then on
            // they are ahead of their ends.
            if self.timeline.shift(first) == shift {
                return Some(placed);
            }
        }
    }

    /// Reads a track's part. `None` without a time to move, and with positions that count from the
    /// beginning of the file.
    fn run(&self, traf: &[u8]) -> Option<Run> {
        let header = TrackFragment::read(traf)?;
        if header.has(TrackFragment::BASE_OFFSET) {
            return None;
        }
        let clock = self
            .clocks
            .binary_search_by_key(&header.track, |clock| clock.track);
        let clock = self.clocks[clock.ok()?];
        let duration = header.field_or(TrackFragment::DURATION, Some(clock.usual_duration))?;
        let ticks = children(traf, b"trun").try_fold(0, |ticks: u64, run| {
            ticks.checked_add(duration_of(run, duration)?)
        })?;
        Some(Run {
            clock,
            begins: decode_time(child(traf, b"tfdt")?)?,
            ticks,
        })
    }

    /// Reads a whole `moof` and the box after it.
    fn step_fragment(&mut self, seen: &[u8], head: &BoxHead, out: &mut Vec<u8>) -> StepResult {
        let moof_bytes = head.length as usize;
        let after = box_head(&seen[moof_bytes..]).map_err(|unread| match unread {
            Unread::Needs(length) => Unread::Needs(moof_bytes + length),
            Unread::Other(_) => unread,
        })?;
        let mdat_bytes = if &after.kind == b"mdat" {
            after.length
        } else {
            0
        };
        let unit_bytes = head.length.checked_add(mdat_bytes).ok_or(Unsupported)?;
        let is_long = unit_bytes > self.unit_bytes_max as u64;
        // A fragment that cannot be moved fails early, before anybody waits for a source to
        // continue it.
        let content = &seen[head.bytes..moof_bytes];
        if self.runs(content).any(|run| run.is_none()) {
            return Err(Unsupported.into());
        }
        if !is_long && (seen.len() as u64) < unit_bytes {
            return Err(Unread::Needs(unit_bytes as usize));
        }
        if !self.fragment(&seen[..moof_bytes], head.bytes, out)? {
            return Ok(unit_bytes);
        }
        if is_long {
            self.mdat_bytes_left = mdat_bytes;
            return Ok(head.length);
        }
        out.extend_from_slice(&seen[moof_bytes..unit_bytes as usize]);
        Ok(unit_bytes)
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.box_bytes_max <= MOOF_BYTES_MAX
            && self.clocks.len() <= TRACKS_MAX
            && self.timeline.is_valid()
    }
}

impl Run {
    fn begins_at(&self) -> i64 {
        self.clock.nanoseconds(self.begins)
    }

    /// Returns the duration in nanoseconds. Subtitles do not count: they may last far longer than
    /// the time until the next sample.
    fn lasts(&self) -> i64 {
        if self.clock.is_media {
            self.clock.nanoseconds(self.ticks).max(1)
        } else {
            1
        }
    }

    /// Returns a time in ticks, rounded to the nearest. So the distances within a track stay the
    /// same.
    fn ticks_at(&self, moved: i64) -> Option<u64> {
        let rate = i128::from(self.clock.ticks_per_second);
        let ticks = (i128::from(moved) * rate + SECOND / 2).div_euclid(SECOND);
        u64::try_from(ticks).ok()
    }
}

impl TrackClock {
    /// Converts ticks. The largest values saturate.
    fn nanoseconds(self, ticks: u64) -> i64 {
        let nanoseconds = i128::from(ticks) * SECOND / i128::from(self.ticks_per_second.max(1));
        i64::try_from(nanoseconds).unwrap_or(i64::MAX)
    }
}

impl Walker<Vec<u8>> for FragmentCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        if self.mdat_bytes_left > 0 {
            return Ok(copy(&mut self.mdat_bytes_left, seen, out));
        }
        let head = box_head(seen)?;
        match &head.kind {
            b"mdat" => {
                self.mdat_bytes_left = head.length;
                return Ok(copy(&mut self.mdat_bytes_left, seen, out));
            }
            // The header of a later source is in front of its join point. So this is another
            // header, for an advertisement or for keys. It goes out as it does for the first
            // source.
            b"moof" | b"styp" | b"ftyp" | b"moov" => {}
            _ if self.is_later => return Ok(head.length),
            _ => {}
        }
        let whole = whole(seen, head.length, self.box_bytes_max)?;
        if &head.kind == b"moof" {
            return self.step_fragment(seen, &head, out);
        }
        if &head.kind == b"moov" {
            self.clocks = clocks(&whole[head.bytes..]).ok_or(Unsupported)?;
            if self.is_later {
                // Its times are moved, too.
                self.timeline.seam();
            } else {
                self.timeline = Timeline::new(SECOND as i64);
            }
        }
        out.extend_from_slice(whole);
        Ok(head.length)
    }
}

/// Writes a `moof` with other times and another number. A time that needs more than 32 bits gets
/// 64, and data positions that count from the `moof` grow with it. `None` if that is impossible.
fn write_moof(
    content: &[u8],
    times: &[u64],
    sequence_number: u32,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut growth = 0;
    for (traf, time) in children(content, b"traf").zip(times) {
        let field = child(traf, b"tfdt")?;
        growth += if outgrows(field, *time) { 4 } else { 0 };
    }
    let mut times = times.iter();
    let out_before = out.len();
    let written = boxed(out, b"moof", |out| {
        for (kind, content) in whole_boxes(content)? {
            match &kind {
                b"mfhd" => {
                    let number = sequence_number.to_be_bytes();
                    push_box(out, &kind, &replaced(content, 4, &number)?);
                }
                b"traf" => {
                    let time = *times.next()?;
                    boxed(out, &kind, |out| write_traf(content, time, growth, out))?;
                }
                _ => push_box(out, &kind, content),
            }
        }
        Some(())
    });
    if written.is_none() {
        out.truncate(out_before);
    }
    written
}

fn write_traf(content: &[u8], time: u64, growth: i32, out: &mut Vec<u8>) -> Option<()> {
    for (kind, content) in whole_boxes(content)? {
        match &kind {
            b"tfdt" if content.first() == Some(&1) => {
                push_box(out, &kind, &replaced(content, 4, &time.to_be_bytes())?);
            }
            b"tfdt" if outgrows(content, time) => {
                let content = [&[1, 0, 0, 0], &time.to_be_bytes()[..]].concat();
                push_box(out, &kind, &content);
            }
            b"tfdt" => {
                let time = (time as u32).to_be_bytes();
                push_box(out, &kind, &replaced(content, 4, &time)?);
            }
            b"trun" if growth > 0 && number(content, 0)? & 1 != 0 => {
                let offset = (number(content, 8)? as i32).checked_add(growth)?;
                push_box(out, &kind, &replaced(content, 8, &offset.to_be_bytes())?);
            }
            // Positions of keys.
            b"saio" if growth > 0 => return None,
            _ => push_box(out, &kind, content),
        }
    }
    Some(())
}

/// Returns whether a time does not fit its field.
fn outgrows(field: &[u8], time: u64) -> bool {
    field.first() != Some(&1) && u32::try_from(time).is_err()
}

/// Returns the boxes in a box. `None` if anything else is in it.
fn whole_boxes(content: &[u8]) -> Option<impl Iterator<Item = ([u8; 4], &[u8])>> {
    let end = child_ranges(content)
        .last()
        .map_or(0, |(_, place)| place.end);
    (end == content.len()).then(|| boxes(content))
}

/// Returns the content with other bytes at `at`.
fn replaced(content: &[u8], at: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = content.to_vec();
    let place = content.get_mut(at..at + bytes.len())?;
    place.copy_from_slice(bytes);
    Some(content)
}

fn push_box(out: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    boxed(out, kind, |out| out.extend_from_slice(content));
}

/// Returns the clocks of the tracks in a `moov`, by ascending track number. Each box is read once,
/// and compared with a few.
fn clocks(moov: &[u8]) -> Option<Vec<TrackClock>> {
    let tracks = children(moov, b"trak");
    if tracks.clone().count() > TRACKS_MAX {
        return None;
    }
    let clock = |trak| {
        let track = TrackBox::read(trak)?;
        Descriptions::read(&track)?;
        Some(TrackClock {
            track: track.number,
            ticks_per_second: track.ticks_per_second,
            usual_duration: 0,
            is_media: matches!(track.handler, b"vide" | b"soun"),
        })
    };
    let mut clocks = tracks.map(clock).collect::<Option<Vec<TrackClock>>>()?;
    clocks.sort_by_key(|clock| clock.track);
    clocks.dedup_by_key(|clock| clock.track);
    let mut is_found = [false; TRACKS_MAX];
    for trex in children(child(moov, b"mvex")?, b"trex") {
        let Some(track) = number(trex, 4) else {
            continue;
        };
        if let Ok(index) = clocks.binary_search_by_key(&track, |clock| clock.track)
            && !std::mem::replace(&mut is_found[index], true)
        {
            clocks[index].usual_duration = number(trex, 12)?;
        }
    }
    let are_found = !is_found[..clocks.len()].contains(&false);
    are_found.then_some(clocks)
}

#[cfg(test)]
mod tests;
