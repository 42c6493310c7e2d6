//! The same pictures and sound in another container.
//!
//! ```text
//! a stream's bytes ─→ Reader ─→ tracks and units (medium) ─→ a writer ─→ another stream's bytes
//! ```
//!
//! A [`Reader`] is fed a stream's bytes from its header on, in any splits, and says [`Heard`]: which
//! tracks there are, and their units one by one. The same bytes give the same units however they
//! are cut. It copies no more than it must see at once; what it holds is bounded
//! ([`Reader::held_bytes_max`]), and so is what a byte costs. What it does not understand is a
//! [`Fault`], which ends it, and nothing else.

mod interleave;
pub mod medium;
mod mp4;
mod mpegts;
mod remuxer;
mod timeline;

pub use medium::{Codec, Fault, Heard, Shape, Sink, TRACKS_MAX, Time, Track, Unit};

pub use remuxer::{OUT_ONCE, OUT_PER_BYTE, OUT_PER_UNIT, Remuxer, Target};

use crate::format::Format;

/// Reads one stream.
pub struct Reader {
    container: Container,
}

enum Container {}

impl Reader {
    /// Before the first byte of a stream of this format, header included; `None` if it is none that
    /// can be read. A unit longer than `unit_bytes_max` is a fault.
    pub fn new(format: Format, unit_bytes_max: usize) -> Option<Reader> {
        let _ = (format, unit_bytes_max);
        None
    }

    /// Takes the stream's next bytes and says what they carry. Not to be fed after a fault.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
        let _ = (bytes, sink);
        match self.container {}
    }

    /// The stream is over: says the units that were waited with.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        let _ = sink;
        match self.container {}
    }

    /// Bytes that its allocations take: [`Reader::held_bytes_max`] at the most.
    pub fn held_bytes(&self) -> usize {
        match self.container {}
    }

    /// What a reader of such units holds at the very most.
    pub const fn held_bytes_max(unit_bytes_max: usize) -> usize {
        2 * unit_bytes_max + 1024 * 1024
    }
}
