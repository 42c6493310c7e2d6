//! Turns units into an output stream: their order, their timeline, and the containers.

mod interleave;
mod mp4;
mod mpegts;
mod timeline;

pub(super) use interleave::{Interleave, OwnedUnit};
pub(super) use timeline::Timeline;

use super::medium::{Result, Track};
use crate::format::Format;
use mp4::Mp4;
use mpegts::MpegTs;

/// Containers that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Target {
    /// MPEG transport stream
    MpegTs,
    /// fragmented MP4
    Mp4,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 2] = [Target::MpegTs, Target::Mp4];

    /// Returns the target for the name of a file below a stream's address.
    pub fn named(file: &[u8]) -> Option<Target> {
        match file {
            b"live.ts" => Some(Target::MpegTs),
            b"live.mp4" => Some(Target::Mp4),
            _ => None,
        }
    }

    /// Returns the format of the output.
    pub fn format(self) -> Format {
        match self {
            Target::MpegTs => Format::MpegTs,
            Target::Mp4 => Format::Mp4,
        }
    }
}

/// Most bytes of output for a byte of input.
pub const OUT_PER_BYTE: usize = mpegts::OUT_PER_BYTE;
/// Most bytes of output for each unit beside that.
pub const OUT_PER_UNIT: usize = mpegts::OUT_PER_UNIT;
/// Most bytes of output beside all that, once.
pub const OUT_ONCE: usize = mp4::HEADER_ALLOWANCE;
const _: () = assert!(mpegts::ALLOWANCE_MAX <= OUT_ONCE && mp4::OUT_PER_UNIT <= OUT_PER_UNIT);

/// Writer of one container.
pub(super) enum Writer {
    MpegTs(Box<MpegTs>),
    Mp4(Box<Mp4>),
}

impl Writer {
    /// Returns a writer before the first track. An MP4 fragment has at most `fragment_bytes_max`
    /// bytes of media, or a single larger unit.
    pub fn new(to: Target, fragment_bytes_max: usize) -> Writer {
        match to {
            Target::MpegTs => Writer::MpegTs(Box::new(MpegTs::new())),
            Target::Mp4 => Writer::Mp4(Box::new(Mp4::new(fragment_bytes_max))),
        }
    }

    /// Sets the tracks. All units of other tracks must be written.
    pub fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result {
        match self {
            Writer::MpegTs(writer) => writer.set_tracks(tracks),
            Writer::Mp4(writer) => writer.set_tracks(tracks, out),
        }
    }

    /// Writes the next unit. Units come in the order of their decode times, except for late ones.
    pub fn write(&mut self, unit: OwnedUnit, out: &mut Vec<u8>) -> Result {
        match self {
            Writer::MpegTs(writer) => writer.write(unit, out),
            Writer::Mp4(writer) => writer.write(unit, out),
        }
    }

    /// Writes units that were gathered, since no others come at this time.
    pub fn settle(&mut self, out: &mut Vec<u8>) {
        match self {
            Writer::MpegTs(writer) => writer.settle(out),
            // Its fragments have their own times.
            Writer::Mp4(_) => {}
        }
    }

    /// Writes all units that were taken.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result {
        match self {
            Writer::MpegTs(writer) => writer.settle(out),
            Writer::Mp4(writer) => writer.write_fragment(None, out)?,
        }
        Ok(())
    }

    /// Returns why a known track cannot be carried, if it cannot.
    pub fn left_out(&self, track: &Track) -> Option<&'static str> {
        match self {
            Writer::MpegTs(_) => mpegts::left_out(track),
            Writer::Mp4(_) => None,
        }
    }

    /// Returns the decode time, in nanoseconds, of the track's first unit that the writer has taken
    /// and not written.
    #[cfg(feature = "handover")]
    pub fn pending_from(&self, track: usize) -> Option<i64> {
        match self {
            Writer::MpegTs(writer) => writer.pending_from(track),
            Writer::Mp4(writer) => writer.pending_from(track),
        }
    }

    /// Returns the continuity counters of MPEG-TS, by the index of the track.
    #[cfg(feature = "handover")]
    pub fn counters(&self) -> Vec<u8> {
        match self {
            Writer::MpegTs(writer) => writer.counters(),
            Writer::Mp4(_) => Vec::new(),
        }
    }

    /// Returns the number of the newest fragment of MP4.
    #[cfg(feature = "handover")]
    pub fn fragments(&self) -> u32 {
        match self {
            Writer::MpegTs(_) => 0,
            Writer::Mp4(writer) => writer.sequence_number,
        }
    }

    /// Continues the output of another writer, before the first track.
    #[cfg(feature = "handover")]
    pub fn resume(&mut self, counters: &[u8], fragments: u32, header: Vec<u8>) {
        match self {
            Writer::MpegTs(writer) => writer.resume(counters),
            Writer::Mp4(writer) => writer.resume(fragments, header),
        }
    }
}
