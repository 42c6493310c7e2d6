//! Turns the bytes of one container into another container.
//!
//! ```text
//! bytes ─→ Reader ─→ Interleave ─→ Timeline ─→ MpegTs or Mp4 ─→ bytes
//! ```
//!
//! The output does not depend on how the input is cut, since it depends on single units. A remuxer
//! holds at most [`Remuxer::memory_bytes_max`]. The reader passes on one unit at a time, and stops
//! when the allowed work is used up. The output is at most [`OUT_PER_BYTE`](super::OUT_PER_BYTE)
//! times the input, [`OUT_PER_UNIT`](super::OUT_PER_UNIT) for each unit, and
//! [`OUT_ONCE`](super::OUT_ONCE).

use super::Reader;
#[cfg(feature = "handover")]
use super::medium::TIME_MAX;
use super::medium::{MediaError, ReaderEvent, Result, SECOND, TRACKS_MAX, Track, UNIT_WORK, Unit};
#[cfg(feature = "handover")]
use super::track_timeline::SETUP_BYTES_MAX;
use super::track_timeline::START_MAX;
#[cfg(feature = "handover")]
use super::write::RemuxerState;
use super::write::{Interleave, OwnedUnit, Target, Timeline, Writer};
use crate::format::Format;
#[cfg(feature = "handover")]
use crate::handover::{HandoverError, must};

/// Remuxer of one stream.
pub struct Remuxer {
    reader: Reader,
    pipeline: Pipeline,
    unit_bytes_max: usize,
    /// Number of bytes that came and are in no unit yet: at most `unit_bytes_max`. Their
    /// cost was counted when they came, so a unit of them costs no more.
    unread: usize,
    /// The error that has ended it.
    error: Option<MediaError>,
}

/// Everything after the reader: order, times and writer.
struct Pipeline {
    /// Tracks of the reader.
    tracks: Vec<Track>,
    interleave: Interleave,
    timeline: Timeline,
    writer: Box<dyn Writer>,
    /// Lines about tracks that do not go out.
    left_out: Vec<String>,
    /// Numbers of the tracks that the reader leaves out.
    numbers_left_out: Vec<u64>,
    /// Starts of the tracks, by their index.
    starts: Vec<Start>,
    /// Units that another process has written: for each track number, the units with a decode time
    /// before this one.
    written: Vec<(u64, i64)>,
    /// By how much two clocks of the source move times. The next unit belongs to one of them.
    clocks: Option<(i64, i64)>,
}

/// Longest distance, in nanoseconds, of a written unit before the first unwritten one. A longer one
/// means that the clock has begun again.
const WRITTEN_AGO_MAX: i64 = 120 * SECOND;

/// Whether decoding of a track has begun.
#[derive(Clone, Copy, Default)]
enum Start {
    /// No unit has come.
    #[default]
    None,
    /// The track waits for a unit at which decoding can begin, since this time in nanoseconds.
    Awaited(i64),
    /// Its units go out.
    Passed,
}

/// Maximal number of lines about tracks that are left out.
const LEFT_OUT_MAX: usize = 2 * TRACKS_MAX;
/// Longest name of a codec in such a line, in letters.
const NAME_MAX: usize = 32;

impl Remuxer {
    /// Returns a remuxer for a stream of format `from`, with its header. `None` if the format
    /// cannot be read. A longer unit is an error. Units that wait for other tracks have at most
    /// `unit_bytes_max` bytes together, and so has a fragment.
    pub fn new(from: Format, to: Target, unit_bytes_max: usize) -> Option<Remuxer> {
        Some(Remuxer {
            reader: Reader::new(from, unit_bytes_max)?,
            pipeline: Pipeline::new(to, unit_bytes_max),
            unit_bytes_max,
            unread: 0,
            error: None,
        })
    }

    /// Returns whether a stream of this format can be read.
    pub fn reads(from: Format) -> bool {
        Reader::new(from, 1).is_some()
    }

    /// Reads the stream's next bytes and appends the output. Takes the work of each unit from
    /// `work_left`, and stops with an error at the first unit for which too little is left. So the
    /// output is bounded while it is made. Nothing follows an error; the output before it is whole.
    pub fn feed(&mut self, bytes: &[u8], work_left: &mut usize, out: &mut Vec<u8>) -> Result {
        if let Some(error) = self.error {
            return Err(error);
        }
        let pipeline = &mut self.pipeline;
        let unread = &mut self.unread;
        *unread = unread.saturating_add(bytes.len()).min(self.unit_bytes_max);
        let fed = self.reader.feed(bytes, &mut |event| {
            let of_unread = (event.work() - UNIT_WORK).min(*unread);
            *unread -= of_unread;
            spend(work_left, event.work() - of_unread)?;
            pipeline.handle(event, out)
        });
        let fed = fed.and_then(|()| spend(work_left, self.reader.take_work()));
        self.error = fed.err();
        fed
    }

    /// Ends the stream: appends the units that waited.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result {
        if let Some(error) = self.error {
            return Err(error);
        }
        let pipeline = &mut self.pipeline;
        // An error at the end costs the last units. Everything before goes out.
        let _ = self.reader.finish(&mut |event| pipeline.handle(event, out));
        pipeline.drain(out)?;
        pipeline.writer.flush(out)
    }

    /// Returns whether a known track goes out.
    pub fn carries_any(&self) -> bool {
        let pipeline = &self.pipeline;
        let mut tracks = pipeline.tracks.iter().filter(|track| track.is_known());
        tracks.any(|track| pipeline.writer.left_out(track).is_none())
    }

    /// Returns whether tracks are known, and none of them goes out.
    pub fn carries_nothing(&self) -> bool {
        let pipeline = &self.pipeline;
        let mut tracks = pipeline.tracks.iter();
        let is_left_out = |track: &Track| match track.is_known() {
            true => pipeline.writer.left_out(track).is_some(),
            false => pipeline.numbers_left_out.contains(&track.number),
        };
        !pipeline.left_out.is_empty() && tracks.all(is_left_out)
    }

    /// Returns a line for each track that does not go out, with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.pipeline.left_out
    }

    /// Returns the maximal number of bytes that a remuxer holds: its reader, two units, the units
    /// that wait for other tracks, and the units of a fragment.
    pub const fn memory_bytes_max(unit_bytes_max: usize) -> usize {
        const ENTRIES: usize = 2 * 1024 * 1024;
        Reader::memory_bytes_max(unit_bytes_max) + 4 * unit_bytes_max + ENTRIES
    }

    /// Returns the state with which a remuxer of another process continues.
    #[cfg(feature = "handover")]
    pub fn state(&self) -> RemuxerState {
        let Pipeline {
            timeline,
            writer,
            tracks,
            ..
        } = &self.pipeline;
        let (shift, newest) = timeline.state();
        let next_of = |(place, track): (usize, &Track)| {
            let next = writer.pending_from(place).or(timeline.next_of(place))?;
            Some((track.number, next))
        };
        let mut written: Vec<(u64, i64)> = tracks.iter().enumerate().filter_map(next_of).collect();
        for before in &self.pipeline.written {
            if written.iter().all(|(number, _)| *number != before.0) {
                written.push(*before);
            }
        }
        written.truncate(2 * TRACKS_MAX);
        let setup_of = |track: &Track| {
            let setup = track.setup.as_ref().filter(|_| track.codec.is_video())?;
            Some((track.number, setup.to_vec()))
        };
        RemuxerState {
            shift: shift.saturating_add(self.reader.shift()),
            newest,
            written,
            setups: tracks.iter().filter_map(setup_of).collect(),
            ..writer.state()
        }
    }

    /// Returns the nanoseconds by which times of the source are moved, once there is output. They change
    /// when its clock jumps.
    pub fn shift(&self) -> Option<i64> {
        let shift = self.pipeline.timeline.shift()?;
        Some(shift.saturating_add(self.reader.shift()))
    }

    /// Continues the output of another process, which has written this header. The remuxer reads the
    /// source's header and earlier units again, and skips the units that were written. `shifts`: the
    /// first unit belongs to one of two clocks of the source. The numbers are the nanoseconds by which
    /// the older and the newer one moved times. The second is `None` for the newest clock.
    #[cfg(feature = "handover")]
    pub fn resume(
        &mut self,
        mut state: RemuxerState,
        shifts: Option<(i64, Option<i64>)>,
        header: Vec<u8>,
    ) -> Result<(), HandoverError> {
        must(
            state.written.len() <= 2 * TRACKS_MAX
                && state.counters.len() <= TRACKS_MAX
                && state.setups.len() <= TRACKS_MAX
                && state
                    .setups
                    .iter()
                    .all(|setup| setup.1.len() <= SETUP_BYTES_MAX),
            || "more tracks than a remuxed stream has".to_owned(),
        )?;
        // The largest time takes the place of a larger one: the clock jumps.
        let possible = |time: i64| time.clamp(-TIME_MAX, TIME_MAX);
        let newest = state.newest.map(possible);
        self.pipeline.timeline = Timeline::resume(possible(state.shift), newest);
        // Packets arrive before they are decoded.
        state.clock = state.clock.clamp(-TIME_MAX, newest.unwrap_or(0));
        self.pipeline.writer.resume(&state, header);
        self.pipeline.written = state.written;
        let clocks = shifts.map(|(older, newer)| (older, newer.unwrap_or(state.shift)));
        self.pipeline.clocks = clocks.map(|(older, newer)| (possible(older), possible(newer)));
        self.reader.resume(state.setups);
        Ok(())
    }
}

/// Takes `work` from `work_left`.
pub(super) fn spend(work_left: &mut usize, work: usize) -> Result {
    let left = work_left.checked_sub(work);
    *work_left = left.unwrap_or(0);
    left.map(|_| ())
        .ok_or(MediaError("its frames are too small to remux"))
}

impl Pipeline {
    fn new(to: Target, bytes_max: usize) -> Pipeline {
        Pipeline {
            tracks: Vec::new(),
            interleave: Interleave::new(bytes_max),
            timeline: Timeline::default(),
            writer: to.writer(bytes_max),
            left_out: Vec::new(),
            numbers_left_out: Vec::new(),
            starts: Vec::new(),
            written: Vec::new(),
            clocks: None,
        }
    }

    fn handle(&mut self, event: ReaderEvent<'_>, out: &mut Vec<u8>) -> Result {
        match event {
            ReaderEvent::Tracks(tracks) => self.set_tracks(tracks, out),
            ReaderEvent::Unit(unit) if self.skip_if_written(&unit) || !self.begins(&unit) => Ok(()),
            ReaderEvent::Unit(unit) => {
                self.interleave.push(&unit);
                self.pass_on(out)
            }
            ReaderEvent::Announced(tracks) => {
                self.interleave.announced = tracks;
                self.pass_on(out)
            }
            ReaderEvent::PieceEnds => self.writer.flush(out),
            // A source may name thousands. Few lines are enough.
            ReaderEvent::LeftOut { .. } if self.numbers_left_out.len() >= LEFT_OUT_MAX => Ok(()),
            ReaderEvent::LeftOut { number, codec } => {
                let codec: String = codec.chars().take(NAME_MAX).collect();
                self.leave_out(format!("track {number}: {codec} is not remuxed"));
                self.numbers_left_out.push(number);
                let mut tracks = self.tracks.iter();
                if let Some(place) = tracks.position(|track| track.number == number) {
                    self.interleave.leave_out(place);
                }
                self.pass_on(out)
            }
        }
    }

    fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result {
        if self.tracks == tracks {
            return Ok(());
        }
        if !Track::are_more(&self.tracks, tracks) {
            self.drain(out)?;
            self.starts.clear();
        }
        self.starts.resize(tracks.len(), Start::None);
        for track in tracks.iter().filter(|track| track.is_known()) {
            if let Some(why) = self.writer.left_out(track) {
                self.leave_out(format!("track {}: {why}", track.number));
            }
        }
        self.tracks = tracks.to_vec();
        self.interleave.begin(tracks.len());
        self.writer.set_tracks(tracks, out)
    }

    /// Returns whether decoding of a unit's track has begun, or begins with the unit.
    fn begins(&mut self, unit: &Unit<'_>) -> bool {
        let Some(start) = self.starts.get_mut(unit.track) else {
            return true;
        };
        let now = unit.decode;
        *start = match *start {
            _ if unit.is_join => Start::Passed,
            Start::None => Start::Awaited(now),
            Start::Awaited(since) if now.saturating_sub(since) > START_MAX => Start::Passed,
            waits_or_not => waits_or_not,
        };
        matches!(start, Start::Passed)
    }

    /// Marks a unit's track as begun, if another process has written the unit. Returns whether it has.
    fn skip_if_written(&mut self, unit: &Unit<'_>) -> bool {
        if let Some((older, newer)) = self.clocks.take() {
            self.timeline.choose(unit.decode, older, newer);
        }
        let number = self.tracks.get(unit.track).map(|track| track.number);
        let moved = self.timeline.moved(unit.decode);
        let mut written = self.written.iter();
        let until = written.find(|(track, _)| Some(*track) == number);
        let is_written = until.is_some_and(|(_, until)| {
            (until.saturating_sub(WRITTEN_AGO_MAX)..*until).contains(&moved)
        });
        if is_written && let Some(start) = self.starts.get_mut(unit.track) {
            *start = Start::Passed;
        }
        is_written
    }

    /// Writes the units that need not wait any more.
    fn pass_on(&mut self, out: &mut Vec<u8>) -> Result {
        while let Some(unit) = self.interleave.pop() {
            self.write(unit, out)?;
        }
        self.writer.flush_gathered(out);
        Ok(())
    }

    /// Writes all units that wait.
    fn drain(&mut self, out: &mut Vec<u8>) -> Result {
        let mut drained = Ok(());
        while let Some(unit) = self.interleave.pop_last() {
            drained = drained.and(self.write(unit, out));
        }
        self.writer.flush_gathered(out);
        drained
    }

    fn write(&mut self, mut unit: OwnedUnit, out: &mut Vec<u8>) -> Result {
        if !self.timeline.place(&mut unit) {
            return Ok(());
        }
        self.writer.write(unit, out)
    }

    fn leave_out(&mut self, line: String) {
        if self.left_out.len() < LEFT_OUT_MAX && !self.left_out.contains(&line) {
            self.left_out.push(line);
        }
    }
}

#[cfg(test)]
mod tests;
