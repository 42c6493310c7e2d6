//! A container's header: what is kept of it, and how it is lent.
//!
//! The scanner owns the header, in the parts in which its container repeats or replaces it; each
//! part is bounded, and so are all of them together. A [`Finding::Header`](super::Finding::Header)
//! says only that it is another one now. Whoever needs the bytes (a viewer who joins) copies them
//! from what is lent: so a source that changes its header with every packet costs no more than one
//! that never does.

use super::LetGo;
use super::window::grow;

/// The longest header that is kept. Those of real files have some hundred bytes to some ten
/// thousand, which a Vorbis or FLAC set-up or the maps of a whole multiplex need; so much more is
/// for album art. A longer one is let go.
pub const HEADER_BYTES_MAX: usize = 256 * 1024;

/// A header, lent where the scanner keeps it; empty before the first is told.
#[derive(Clone, Copy)]
pub struct Header<'a>(pub(super) Parts<'a>);

/// Where its bytes stand.
#[derive(Clone, Copy)]
pub(super) enum Parts<'a> {
    Whole(&'a [u8]),
    Several(&'a dyn InParts),
}

/// The tables of MPEG-TS, to be sent again.
pub struct Repetition {
    /// How many programs they name.
    pub programs: usize,
    /// They are of 188 bytes.
    pub is_plain: bool,
    /// With the counters of those that came last: a packet may come twice.
    pub packets: Vec<u8>,
}

/// What keeps a header in several parts.
pub(super) trait InParts {
    /// Shows those that make the header that was told, one after the other.
    fn each(&self, part: &mut dyn FnMut(&[u8]));

    /// Its tables, if it is one of MPEG-TS.
    fn tables(&self) -> Option<Repetition> {
        None
    }
}

impl Header<'_> {
    /// Its tables, if it is one of MPEG-TS.
    pub fn tables(self) -> Option<Repetition> {
        match self.0 {
            Parts::Several(parts) => parts.tables(),
            Parts::Whole(_) => None,
        }
    }

    pub(super) const NONE: Header<'static> = Header(Parts::Whole(&[]));

    /// A copy, in one allocation of its length.
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// How many bytes it has.
    pub(crate) fn len(self) -> usize {
        let mut length = 0;
        self.each(|part| length += part.len());
        length
    }

    fn each(self, mut part: impl FnMut(&[u8])) {
        match self.0 {
            Parts::Whole(bytes) => part(bytes),
            Parts::Several(parts) => parts.each(&mut part),
        }
    }
}

/// A header that comes once, element for element: the one that was told, and the next as far as it
/// has come.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Elements {
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    told: Vec<u8>,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    next: Vec<u8>,
}

impl Elements {
    /// Another header begins.
    pub fn begin(&mut self) {
        self.next.clear();
    }

    /// Whether one has begun.
    pub fn has_begun(&self) -> bool {
        !self.next.is_empty()
    }

    /// So many more bytes may come.
    pub fn bytes_left(&self) -> usize {
        HEADER_BYTES_MAX - self.next.len()
    }

    /// Keeps an element.
    pub fn append(&mut self, element: &[u8]) -> Result<(), LetGo> {
        if element.len() > self.bytes_left() {
            return Err(LetGo);
        }
        grow(&mut self.next, element.len(), HEADER_BYTES_MAX);
        self.next.extend_from_slice(element);
        Ok(())
    }

    /// It is whole.
    pub fn tell(&mut self) {
        self.told = std::mem::take(&mut self.next);
        self.told.shrink_to_fit();
    }

    /// The one that was told.
    pub fn lend(&self) -> Header<'_> {
        Header(Parts::Whole(&self.told))
    }

    /// Bytes that its allocations take: twice [`HEADER_BYTES_MAX`] at the most.
    pub fn held_bytes(&self) -> usize {
        self.told.capacity() + self.next.capacity()
    }
}

#[cfg(feature = "handover")]
impl Elements {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        self.told.len() <= HEADER_BYTES_MAX && self.next.len() <= HEADER_BYTES_MAX
    }
}
