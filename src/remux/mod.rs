//! Remuxing: the same pictures and sound in another container.
//!
//! ```text
//! a stream's bytes ─→ Reader ─→ tracks and units (medium) ─→ a writer ─→ another stream's bytes
//! ```
//!
//! A [`Reader`] reads a stream's bytes, from its header on and in pieces of any size. It passes on
//! [`ReaderEvent`]s: the tracks, and their units one by one. The units do not depend on how the
//! bytes are cut. The reader copies no more than it must see at once. Its memory is bounded
//! ([`Reader::memory_bytes_max`]), and so is the cost of a byte. Media that it does not understand
//! is a [`MediaError`], which ends the reader and nothing else.

mod bits;
mod flv;
mod matroska;
pub mod medium;
mod mp4;
mod mpegts;
mod nal;
mod packets;
mod probe;
mod remuxer;
mod sequence;
mod sound;
mod track_timeline;
mod vpx;
mod write;

pub use medium::{Codec, MediaError, ReaderEvent, Result, Shape, Sink, TRACKS_MAX, Track, Unit};

pub use probe::{TRACKS_BYTES_MAX, TrackInfo, tracks};
pub use remuxer::Remuxer;
#[cfg(feature = "handover")]
pub use write::RemuxerState;
pub use write::{OUT_ONCE, OUT_PER_BYTE, OUT_PER_UNIT, Target};

use crate::format::Format;
use crate::format::window::Window;
use flv::Flv;
use matroska::Matroska;
use mp4::Mp4;
use mpegts::MpegTs;

/// Work of a byte of MPEG-TS beside that of units: PES packets are searched for units.
const TRANSPORT_WORK: usize = 4;

/// Reader of one stream.
pub struct Reader {
    container: Container,
    window: Window,
    /// Work since [`Reader::take_work`], beside that of the window.
    work: usize,
    /// Offset of the next byte.
    offset: u64,
}

enum Container {
    Flv(Box<Flv>),
    Matroska(Box<Matroska>),
    Mp4(Box<Mp4>),
    MpegTs(Box<MpegTs>),
}

impl Reader {
    /// Returns a reader for a stream of this format, with its header. `None` if the format cannot
    /// be read. A unit longer than `unit_bytes_max` is an error.
    pub fn new(format: Format, unit_bytes_max: usize) -> Option<Reader> {
        let container = match format {
            Format::Flv => Container::Flv(Box::new(Flv::new(unit_bytes_max))),
            Format::Mp4 => Container::Mp4(Box::new(Mp4::new(unit_bytes_max))),
            Format::WebM | Format::Matroska => {
                Container::Matroska(Box::new(Matroska::new(unit_bytes_max)))
            }
            Format::MpegTs => Container::MpegTs(Box::new(MpegTs::new(unit_bytes_max))),
            Format::Ogg | Format::Mp3 | Format::Aac => return None,
        };
        Some(Reader {
            container,
            window: Window::default(),
            work: 0,
            offset: 0,
        })
    }

    /// Reads the stream's next bytes and passes on what they carry. Nothing may follow an error.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result {
        let (window, offset) = (&mut self.window, self.offset);
        self.offset += bytes.len() as u64;
        match &mut self.container {
            Container::Flv(reader) => window.walk(&mut **reader, bytes, offset, sink),
            Container::Matroska(reader) => window.walk(&mut **reader, bytes, offset, sink),
            Container::Mp4(reader) => window.walk(&mut **reader, bytes, offset, sink),
            Container::MpegTs(reader) => {
                let fed = reader.feed(bytes, offset, sink);
                self.work += TRANSPORT_WORK * bytes.len() + reader.aligner.take_work();
                fed
            }
        }
    }

    /// Ends the stream: passes on the units that were held.
    pub fn finish(&mut self, sink: &mut Sink<'_>) -> Result {
        match &mut self.container {
            Container::MpegTs(reader) => reader.finish(sink),
            Container::Flv(_) | Container::Matroska(_) | Container::Mp4(_) => Ok(()),
        }
    }

    /// Returns the work since the last call, beside that of events ([`ReaderEvent::work`]).
    pub fn take_work(&mut self) -> usize {
        self.window.take_work() + std::mem::take(&mut self.work)
    }

    /// Returns how far the current times of the stream are moved, in nanoseconds.
    fn shift(&self) -> i64 {
        match &self.container {
            Container::Flv(reader) => reader.timeline.shift,
            Container::Matroska(reader) => reader.timeline.shift,
            Container::Mp4(reader) => reader.timeline.shift,
            Container::MpegTs(reader) => reader.shift(),
        }
    }

    /// Sets tracks up, by their numbers, as another reader of the stream has. Other containers than
    /// MPEG-TS have setups in their headers.
    #[cfg(feature = "handover")]
    fn resume(&mut self, setups: Vec<(u64, Vec<u8>)>) {
        if let Container::MpegTs(reader) = &mut self.container {
            reader.setups_before = setups;
        }
    }

    /// Returns the maximal number of bytes that a reader of such units holds: one unit as it comes,
    /// one as it is passed on, and one in between if parts are left out; tables, headers and
    /// setups.
    pub const fn memory_bytes_max(unit_bytes_max: usize) -> usize {
        3 * unit_bytes_max + 1536 * 1024
    }
}
