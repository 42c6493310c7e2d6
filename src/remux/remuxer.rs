//! From the bytes of one container to those of another.
//!
//! ```text
//! bytes ─→ Reader ─→ Interleave ─→ Timeline ─→ MpegTs or Mp4 ─→ bytes
//! ```
//!
//! The same bytes give the same however they are cut: what goes out hangs on the units, one by one.
//! What is held is at most [`Remuxer::held_bytes_max`]; what goes out is at most
//! [`OUT_PER_BYTE`] times as much as came in, [`OUT_PER_UNIT`] a unit, and [`OUT_ONCE`].

use super::Reader;
use super::interleave::{Interleave, Kept};
use super::medium::{Fault, Heard, TRACKS_MAX, Track};
use super::mp4::{self, Mp4};
use super::mpegts::{self, MpegTs};
use super::timeline::Timeline;
use crate::format::Format;

/// The containers that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// MPEG transport stream
    MpegTs,
    /// fragmented MP4
    Mp4,
}

impl Target {
    /// Both.
    pub const ALL: [Target; 2] = [Target::MpegTs, Target::Mp4];

    /// The format of what goes out.
    pub fn format(self) -> Format {
        match self {
            Target::MpegTs => Format::MpegTs,
            Target::Mp4 => Format::Mp4,
        }
    }
}

/// Bytes that go out for one that comes in, at most.
pub const OUT_PER_BYTE: usize = mpegts::OUT_PER_BYTE;
/// Bytes that go out for each unit beside that, at most.
pub const OUT_PER_UNIT: usize = mpegts::OUT_PER_UNIT;
/// Bytes that go out beside all that, once and at each seam, at most.
pub const OUT_ONCE: usize = mp4::HEADER_ALLOWANCE;
const _: () = assert!(mpegts::ALLOWANCE_MAX <= OUT_ONCE && mp4::OUT_PER_UNIT <= OUT_PER_UNIT);

/// A stream in another container.
pub struct Remuxer {
    reader: Reader,
    unit_bytes_max: usize,
    making: Making,
}

/// What is made of what the reader says.
struct Making {
    tracks: Vec<Track>,
    interleave: Interleave,
    timeline: Timeline,
    writer: Writer,
    left_out: Vec<String>,
    fault: Option<Fault>,
}

enum Writer {
    MpegTs(Box<MpegTs>),
    Mp4(Box<Mp4>),
}

/// So many lines are told of what is left out.
const LEFT_OUT_MAX: usize = 2 * TRACKS_MAX;
/// And of a codec's name so many letters.
const NAME_MAX: usize = 32;

impl Remuxer {
    /// Before the first byte of a stream of this format, its header included; `None` of one that
    /// cannot be read. A unit of more bytes is a fault; as many wait for those of other tracks, and
    /// as many make a fragment.
    pub fn new(from: Format, to: Target, unit_bytes_max: usize) -> Option<Remuxer> {
        let writer = match to {
            Target::MpegTs => Writer::MpegTs(Box::new(MpegTs::new())),
            Target::Mp4 => Writer::Mp4(Box::new(Mp4::new(unit_bytes_max))),
        };
        Some(Remuxer {
            reader: Reader::new(from, unit_bytes_max)?,
            unit_bytes_max,
            making: Making {
                tracks: Vec::new(),
                interleave: Interleave::new(unit_bytes_max),
                timeline: Timeline::default(),
                writer,
                left_out: Vec::new(),
                fault: None,
            },
        })
    }

    /// Takes the stream's next bytes and appends what comes of them. Behind a fault nothing more
    /// comes; what was appended before it is whole.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(fault) = self.making.fault {
            return Err(fault);
        }
        let making = &mut self.making;
        let fed = self
            .reader
            .feed(bytes, &mut |heard| making.hear(heard, out));
        self.making.fault = self.making.fault.or(fed.err());
        self.making.fault.map_or(Ok(()), Err)
    }

    /// The stream is over: appends what has waited.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let making = &mut self.making;
        if making.fault.is_none() {
            self.reader.finish(&mut |heard| making.hear(heard, out));
            self.making.drain(out);
            self.making.finish(out);
        }
        self.making.fault.map_or(Ok(()), Err)
    }

    /// Another source goes on where this one has ended, from its header on: appends what has
    /// waited; times and counters go on. Says whether its format can be read.
    #[must_use]
    pub fn begin_anew(&mut self, from: Format, out: &mut Vec<u8>) -> bool {
        let Some(reader) = Reader::new(from, self.unit_bytes_max) else {
            return false;
        };
        let _ = self.finish(out);
        self.reader = reader;
        self.making.seam();
        true
    }

    /// What of the stream does not go out, and why, a line for each track.
    pub fn left_out(&self) -> &[String] {
        &self.making.left_out
    }

    /// Bytes that its allocations take: [`Remuxer::held_bytes_max`] at the most.
    pub fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.making.held_bytes()
    }

    /// What one holds at the very most: beside its reader two units and as much as waits for other
    /// tracks, and as much again that makes a fragment.
    pub const fn held_bytes_max(unit_bytes_max: usize) -> usize {
        const ENTRIES: usize = 2 * 1024 * 1024;
        Reader::held_bytes_max(unit_bytes_max) + 4 * unit_bytes_max + ENTRIES
    }
}

impl Making {
    fn hear(&mut self, heard: Heard<'_>, out: &mut Vec<u8>) {
        if self.fault.is_some() {
            return;
        }
        let done = match heard {
            Heard::Tracks(tracks) => self.set_tracks(tracks, out),
            Heard::Unit(unit) => {
                if self.interleave.is_seam(&unit) {
                    self.drain(out);
                    self.interleave.seam();
                    self.interleave.begin(&self.tracks);
                }
                self.interleave.push(&unit);
                self.pass_on(out)
            }
            Heard::LeftOut { number, codec } => {
                let codec: String = codec.chars().take(NAME_MAX).collect();
                self.leave_out(format!("track {number}: {codec} is not remuxed"));
                Ok(())
            }
        };
        self.fault = self.fault.or(done.err());
    }

    fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.tracks == tracks {
            return Ok(());
        }
        if !Track::are_more(&self.tracks, tracks) {
            self.drain(out);
        }
        for track in tracks.iter().filter(|track| track.is_known()) {
            if let Some(why) = self.writer.left_out(track) {
                self.leave_out(format!("track {}: {why}", track.number));
            }
        }
        self.tracks = tracks.to_vec();
        self.interleave.begin(tracks);
        match &mut self.writer {
            Writer::MpegTs(writer) => writer.set_tracks(tracks),
            Writer::Mp4(writer) => writer.set_tracks(tracks, out),
        }
    }

    /// Writes what waits for nothing any more.
    fn pass_on(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        while let Some(unit) = self.interleave.pop() {
            self.write(unit, out)?;
        }
        self.writer.settle(out);
        Ok(())
    }

    /// Writes what waits.
    fn drain(&mut self, out: &mut Vec<u8>) {
        while let Some(unit) = self.interleave.pop_last() {
            if let Err(fault) = self.write(unit, out) {
                self.fault = Some(fault);
            }
        }
        self.writer.settle(out);
    }

    fn write(&mut self, mut unit: Kept, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !self.timeline.place(&mut unit) {
            return Ok(());
        }
        match &mut self.writer {
            Writer::MpegTs(writer) => writer.write(unit, out),
            Writer::Mp4(writer) => writer.write(unit, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if let Writer::Mp4(writer) = &mut self.writer {
            self.fault = self.fault.or(writer.finish(out).err());
        }
    }

    fn seam(&mut self) {
        self.fault = None;
        self.tracks.clear();
        self.interleave.seam();
        self.timeline.seam();
    }

    fn leave_out(&mut self, line: String) {
        if self.left_out.len() < LEFT_OUT_MAX && !self.left_out.contains(&line) {
            self.left_out.push(line);
        }
    }

    fn held_bytes(&self) -> usize {
        let setups = self
            .tracks
            .iter()
            .map(|track| track.setup.as_ref().map_or(0, |s| s.len()));
        let lines = self.left_out.iter().map(String::capacity);
        setups.chain(lines).sum::<usize>()
            + self.tracks.capacity() * size_of::<Track>()
            + self.left_out.capacity() * size_of::<String>()
            + self.interleave.held_bytes()
            + self.writer.held_bytes()
    }
}

impl Writer {
    /// Why it cannot carry a track, if it cannot.
    fn left_out(&self, track: &Track) -> Option<&'static str> {
        match self {
            Writer::MpegTs(_) => mpegts::left_out(track),
            Writer::Mp4(_) => None,
        }
    }

    /// Nothing more comes at this time.
    fn settle(&mut self, out: &mut Vec<u8>) {
        match self {
            Writer::MpegTs(writer) => writer.settle(out),
            // Its fragments have their own times.
            Writer::Mp4(_) => {}
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Writer::MpegTs(writer) => size_of::<MpegTs>() + writer.held_bytes(),
            Writer::Mp4(writer) => size_of::<Mp4>() + writer.held_bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
