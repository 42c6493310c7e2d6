//! A container's header: what is kept of it, and how it is lent.
//!
//! The scanner owns the header, in the parts in which its container repeats or replaces it; each
//! part is bounded, and so are all of them together. A [`Finding::Header`](super::Finding::Header)
//! says only that it is another one now. Whoever needs the bytes (a viewer who joins) copies them
//! from what is lent: so a source that changes its header with every packet costs no more than one
//! that never does.

#[cfg(doc)]
use super::Start;
use super::Unsupported;
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
    /// Shows the parts of the header one after the other, for a start with this counter.
    fn each(&self, counter: Option<u8>, part: &mut dyn FnMut(&[u8]));

    /// Its tables, if it is one of MPEG-TS, for a start with this counter.
    fn tables(&self, _counter: Option<u8>) -> Option<Repetition> {
        None
    }

    /// Whether the newest join point is a scrambled packet.
    fn is_scrambled(&self) -> bool {
        false
    }
}

impl Header<'_> {
    /// Returns the tables of MPEG-TS, and then the parameter sets that a start with this counter
    /// needs ([`Start::counter`]).
    pub fn tables(self, counter: Option<u8>) -> Option<Repetition> {
        match self.0 {
            Parts::Several(parts) => parts.tables(counter),
            Parts::Whole(_) => None,
        }
    }

    /// Whether the newest join point is a scrambled packet, of which nothing can be read.
    pub fn is_scrambled(self) -> bool {
        match self.0 {
            Parts::Several(parts) => parts.is_scrambled(),
            Parts::Whole(_) => false,
        }
    }

    pub(super) const NONE: Header<'static> = Header(Parts::Whole(&[]));

    /// A copy, in one allocation of its length.
    pub fn to_vec(self) -> Vec<u8> {
        self.at(None)
    }

    /// Returns a copy, and then the parameter sets that a start with this counter needs ([`Start::counter`]).
    pub fn at(self, counter: Option<u8>) -> Vec<u8> {
        let mut length = 0;
        self.each(counter, |part| length += part.len());
        let mut bytes = Vec::with_capacity(length);
        self.each(counter, |part| bytes.extend_from_slice(part));
        bytes
    }

    /// Returns how many bytes [`Header::to_vec`] gives.
    pub fn length(self) -> usize {
        let mut length = 0;
        self.each(None, |part| length += part.len());
        length
    }

    fn each(self, counter: Option<u8>, mut part: impl FnMut(&[u8])) {
        match self.0 {
            Parts::Whole(bytes) => part(bytes),
            Parts::Several(parts) => parts.each(counter, &mut part),
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
    pub fn append(&mut self, element: &[u8]) -> Result<(), Unsupported> {
        if element.len() > self.bytes_left() {
            return Err(Unsupported);
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

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 256 * 1024;

    struct Pieces(&'static [&'static [u8]]);

    impl InParts for Pieces {
        fn each(&self, _counter: Option<u8>, part: &mut dyn FnMut(&[u8])) {
            self.0.iter().for_each(|piece| part(piece));
        }
    }

    #[test]
    fn a_header_in_parts_is_one_behind_the_other() {
        let pieces = Pieces(&[b"one", b"", b"three"]);
        for (header, bytes) in [
            (Header(Parts::Several(&pieces)), &b"onethree"[..]),
            (Header(Parts::Whole(b"whole")), b"whole"),
            (Header::NONE, b""),
        ] {
            assert_eq!(
                (header.to_vec().as_slice(), header.length()),
                (bytes, bytes.len())
            );
            assert_eq!(
                header.to_vec().capacity(),
                bytes.len(),
                "one allocation of its length"
            );
            assert!(header.tables(None).is_none() && !header.is_scrambled());
        }
    }

    #[test]
    fn a_header_is_told_when_it_is_whole_and_the_next_begins_anew() {
        let mut elements = Elements::default();
        assert_eq!((elements.has_begun(), elements.held_bytes()), (false, 0));
        assert_eq!(elements.append(b"one"), Ok(()));
        assert_eq!(elements.append(b"two"), Ok(()));
        assert_eq!((elements.has_begun(), elements.lend().length()), (true, 0));
        assert_eq!(elements.bytes_left(), MOST - 6);
        elements.tell();
        assert_eq!(
            (elements.has_begun(), elements.lend().to_vec()),
            (false, b"onetwo".to_vec())
        );
        assert_eq!(elements.held_bytes(), 6);
        assert_eq!(elements.append(b"given up"), Ok(()));
        elements.begin();
        assert!(!elements.has_begun());
        assert_eq!(elements.append(b"next"), Ok(()));
        assert_eq!(elements.lend().to_vec(), b"onetwo");
        assert!((10..64).contains(&elements.held_bytes()));
        elements.tell();
        assert_eq!(elements.lend().to_vec(), b"next");
    }

    #[test]
    fn a_header_has_so_many_bytes_and_no_more() {
        let mut elements = Elements::default();
        assert_eq!(elements.append(&vec![1; MOST - 2]), Ok(()));
        assert_eq!(elements.append(&[1; 3]), Err(Unsupported));
        assert_eq!(elements.append(&[1; 2]), Ok(()));
        assert_eq!(
            (elements.append(&[1]), elements.bytes_left()),
            (Err(Unsupported), 0)
        );
        elements.tell();
        assert_eq!(elements.lend().length(), MOST);
        assert_eq!(elements.append(&vec![1; MOST]), Ok(()));
        assert_eq!(elements.held_bytes(), 2 * MOST);
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_longer_header_is_not_believed() {
        let fits = |told: usize, next: usize| {
            let (told, next) = (vec![0; told], vec![0; next]);
            Elements { told, next }.fits()
        };
        assert!(fits(MOST, MOST));
        assert!(!fits(MOST + 1, 0) && !fits(0, MOST + 1));
    }
}
