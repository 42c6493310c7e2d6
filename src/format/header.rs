//! A container's header: what the scanner keeps of it, and how it lends it.
//!
//! The scanner owns the header in the parts in which the container repeats or replaces it. Each
//! part is bounded, and so is their sum. A [`Finding::Header`](super::Finding::Header) only says
//! that the header has changed. A viewer who joins copies the bytes from the lent header. So a
//! source that changes its header with every packet costs no more than another one.

#[cfg(doc)]
use super::Start;
use super::Unsupported;
use super::window::grow;
use crate::copied::Copied;
#[cfg(feature = "handover")]
use crate::copied::CopiedPart;

/// Longest header that is kept. Real headers have between some hundred and some ten thousand bytes:
/// Vorbis and FLAC set-ups and the maps of a whole multiplex are the long ones. The rest is room
/// for album art. A scanner gives up a stream with a longer header.
pub const HEADER_BYTES_MAX: usize = 256 * 1024;

/// Lent header. It is empty before the first header is complete, and for containers without one.
#[derive(Clone, Copy)]
pub struct Header<'a>(pub(super) Parts<'a>);

/// Where the header's bytes are.
#[derive(Clone, Copy)]
pub(super) enum Parts<'a> {
    Whole(&'a [u8]),
    Several(&'a dyn InParts),
}

/// Tables of MPEG-TS for sending them again.
pub struct Repetition {
    /// Number of programs that the tables name.
    pub programs: usize,
    /// Whether all packets have 188 bytes.
    pub is_plain: bool,
    /// Packets with the newest counters. So a packet may come twice.
    pub packets: Vec<u8>,
}

/// Header that has several parts.
pub(super) trait InParts {
    /// Passes each part of the header to `part`, for a start with this counter.
    fn each(&self, counter: Option<u8>, part: &mut dyn FnMut(&[u8]));

    /// Returns the tables of MPEG-TS for a start with this counter. Other containers have none.
    fn tables(&self, _counter: Option<u8>) -> Option<Repetition> {
        None
    }

    /// Returns whether the newest join point is a scrambled packet.
    fn is_scrambled(&self) -> bool {
        false
    }
}

impl Header<'_> {
    /// Returns the tables of MPEG-TS, and then the parameter sets for a start with this counter
    /// ([`Start::counter`]).
    pub fn tables(self, counter: Option<u8>) -> Option<Repetition> {
        match self.0 {
            Parts::Several(parts) => parts.tables(counter),
            Parts::Whole(_) => None,
        }
    }

    /// Returns whether the newest join point is a scrambled packet, which nobody can decode.
    pub fn is_scrambled(self) -> bool {
        match self.0 {
            Parts::Several(parts) => parts.is_scrambled(),
            Parts::Whole(_) => false,
        }
    }

    pub(super) const NONE: Header<'static> = Header(Parts::Whole(&[]));

    /// Returns a copy of the header, in one allocation of its length.
    pub fn to_vec(self) -> Vec<u8> {
        self.at(None)
    }

    /// Returns a copy of the header, and then the parameter sets for a start with this counter
    /// ([`Start::counter`]).
    pub fn at(self, counter: Option<u8>) -> Vec<u8> {
        let mut length = 0;
        self.each(counter, |part| length += part.len());
        let mut bytes = Vec::with_capacity(length);
        self.each(counter, |part| bytes.extend_from_slice(part));
        bytes
    }

    /// Returns the length of the copy that [`Header::to_vec`] makes.
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

/// Header that comes once, element by element: the one in force, and the next one as far as it has
/// come.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Elements {
    /// Header in force: the newest complete one.
    current: Copied,
    /// Next header, as far as it has come.
    next: Copied,
}

impl Elements {
    /// Starts the next header.
    pub fn begin(&mut self) {
        self.next.clear();
    }

    /// Returns whether the next header has begun.
    pub fn has_begun(&self) -> bool {
        !self.next.is_empty()
    }

    /// Returns how many bytes the next header may still get.
    pub fn bytes_left(&self) -> usize {
        HEADER_BYTES_MAX - self.next.len()
    }

    /// Appends an element to the next header.
    pub fn append(&mut self, element: &[u8]) -> Result<(), Unsupported> {
        if element.len() > self.bytes_left() {
            return Err(Unsupported);
        }
        grow(&mut self.next.bytes, element.len(), HEADER_BYTES_MAX);
        self.next.bytes.extend_from_slice(element);
        Ok(())
    }

    /// Puts the next header in force.
    pub fn use_next(&mut self) {
        self.current = std::mem::take(&mut self.next.bytes).into();
        self.next.forget();
        self.current.bytes.shrink_to_fit();
    }

    /// Lends the header in force.
    pub fn lend(&self) -> Header<'_> {
        Header(Parts::Whole(&self.current))
    }

    /// Returns the bytes of this kind.
    #[cfg(feature = "handover")]
    pub fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        match part {
            CopiedPart::Header => Some(&mut self.current),
            CopiedPart::NextHeader => Some(&mut self.next),
            _ => None,
        }
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.current.len() <= HEADER_BYTES_MAX && self.next.len() <= HEADER_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 256 * 1024;

    fn memory_bytes(elements: &Elements) -> usize {
        elements.current.capacity() + elements.next.capacity()
    }

    struct Pieces(&'static [&'static [u8]]);

    impl InParts for Pieces {
        fn each(&self, _counter: Option<u8>, part: &mut dyn FnMut(&[u8])) {
            self.0.iter().for_each(|piece| part(piece));
        }
    }

    #[test]
    fn a_header_in_parts_is_their_concatenation() {
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
    fn a_header_counts_when_it_is_whole_and_the_next_one_starts_empty() {
        let mut elements = Elements::default();
        assert_eq!((elements.has_begun(), memory_bytes(&elements)), (false, 0));
        assert_eq!(elements.append(b"one"), Ok(()));
        assert_eq!(elements.append(b"two"), Ok(()));
        assert_eq!((elements.has_begun(), elements.lend().length()), (true, 0));
        assert_eq!(elements.bytes_left(), MOST - 6);
        elements.use_next();
        assert_eq!(
            (elements.has_begun(), elements.lend().to_vec()),
            (false, b"onetwo".to_vec())
        );
        assert_eq!(memory_bytes(&elements), 6);
        assert_eq!(elements.append(b"given up"), Ok(()));
        elements.begin();
        assert!(!elements.has_begun());
        assert_eq!(elements.append(b"next"), Ok(()));
        assert_eq!(elements.lend().to_vec(), b"onetwo");
        assert!((10..64).contains(&memory_bytes(&elements)));
        elements.use_next();
        assert_eq!(elements.lend().to_vec(), b"next");
    }

    #[test]
    fn a_header_has_at_most_header_bytes_max() {
        let mut elements = Elements::default();
        assert_eq!(elements.append(&vec![1; MOST - 2]), Ok(()));
        assert_eq!(elements.append(&[1; 3]), Err(Unsupported));
        assert_eq!(elements.append(&[1; 2]), Ok(()));
        assert_eq!(
            (elements.append(&[1]), elements.bytes_left()),
            (Err(Unsupported), 0)
        );
        elements.use_next();
        assert_eq!(elements.lend().length(), MOST);
        assert_eq!(elements.append(&vec![1; MOST]), Ok(()));
        assert_eq!(memory_bytes(&elements), 2 * MOST);
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_header_that_is_too_long_is_refused() {
        let fits = |told: usize, next: usize| {
            let (told, next) = (vec![0; told], vec![0; next]);
            let (told, next) = (told.into(), next.into());
            Elements {
                current: told,
                next,
            }
            .is_valid()
        };
        assert!(fits(MOST, MOST));
        assert!(!fits(MOST + 1, 0) && !fits(0, MOST + 1));
    }
}
