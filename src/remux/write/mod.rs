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

    /// Returns a writer before the first track. An MP4 fragment has at most `fragment_bytes_max`
    /// bytes of media, or a single larger unit.
    pub(super) fn writer(self, fragment_bytes_max: usize) -> Box<dyn Writer> {
        match self {
            Target::MpegTs => Box::new(MpegTs::new()),
            Target::Mp4 => Box::new(Mp4::new(fragment_bytes_max)),
        }
    }
}

/// Maximal number of bytes of output for a byte of input.
pub const OUT_PER_BYTE: usize = mpegts::OUT_PER_BYTE;
/// Maximal number of bytes of output for each unit beside that.
pub const OUT_PER_UNIT: usize = mpegts::OUT_PER_UNIT;
/// Maximal number of bytes of output beside all that, once.
pub const OUT_ONCE: usize = mp4::HEADER_ALLOWANCE;
const _: () = assert!(mpegts::ALLOWANCE_MAX <= OUT_ONCE && mp4::OUT_PER_UNIT <= OUT_PER_UNIT);

/// Writer of one container.
pub(super) trait Writer {
    /// Sets the tracks. All units of other tracks must be written.
    fn set_tracks(&mut self, tracks: &[Track], out: &mut Vec<u8>) -> Result;

    /// Writes the next unit. Units come in the order of their decode times, except for late ones.
    fn write(&mut self, unit: OwnedUnit, out: &mut Vec<u8>) -> Result;

    /// Writes units that were gathered, since no others come at this time.
    fn flush_gathered(&mut self, out: &mut Vec<u8>);

    /// Writes all units that were taken.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result;

    /// Returns why this container cannot carry a track whose setup is known. `None`: it can.
    fn left_out(&self, track: &Track) -> Option<&'static str>;

    /// Returns the decode time, in nanoseconds, of the track's first unit that the writer has taken
    /// and not written. It may be a little earlier than that.
    #[cfg(feature = "handover")]
    fn pending_from(&self, track: usize) -> Option<i64>;

    /// Returns what a writer of another process needs. The fields of others have their defaults.
    #[cfg(feature = "handover")]
    fn state(&self) -> RemuxerState;

    /// Continues the output of another writer, before the first track. `header`: what it wrote first.
    #[cfg(feature = "handover")]
    fn resume(&mut self, state: &RemuxerState, header: Vec<u8>);
}

/// State with which a remuxer of another process continues.
#[cfg(feature = "handover")]
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub struct RemuxerState {
    /// Nanoseconds that are added to the times of the source.
    pub(super) shift: i64,
    /// Latest decode time that was written, in nanoseconds.
    pub(super) newest: Option<i64>,
    /// For each track number, the decode time of the first unit that is not written.
    pub(super) written: Vec<(u64, i64)>,
    /// Continuity counters of MPEG-TS, by the index of the track.
    pub(super) counters: Vec<u8>,
    /// Continuity counters of the tables of MPEG-TS.
    pub(super) table_counters: [u8; 2],
    /// Clock of the multiplex of MPEG-TS, in nanoseconds. It must not go back.
    pub(super) clock: i64,
    /// Number of the newest fragment of MP4.
    pub(super) fragments: u32,
    /// Setups of pictures, each with the number of its track. A source may repeat its parameter sets
    /// with key pictures only.
    pub(super) setups: Vec<(u64, Vec<u8>)>,
}
