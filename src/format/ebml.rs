//! EBML elements (RFC 8794): heads that arrive in pieces, and elements that are whole.

/// An element's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// With its marker bits, as the specifications print it.
    pub id: u32,
    /// Of the body; `None` if unknown.
    pub size: Option<u64>,
    /// Of the identifier: 1 to 4.
    pub id_bytes: usize,
    /// Of the size field: 1 to 8.
    pub size_bytes: usize,
}

impl Head {
    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.id_bytes + self.size_bytes
    }

    /// Its identifier is of four bytes: such elements stand in a Segment or at the top only.
    pub fn is_outer(&self) -> bool {
        self.id >= 0x1000_0000
    }

    /// Writes it with an unknown size, in as many bytes; it is the one at the front of `seen`.
    pub fn write_open(&self, seen: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&seen[..self.id_bytes]);
        out.push(0xff >> (self.size_bytes - 1));
        out.extend(std::iter::repeat_n(0xff, self.size_bytes - 1));
    }
}

/// What a few bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<T> {
    Whole(T),
    More,
    Malformed,
}

/// Reads the head at the front of `bytes`.
pub(crate) fn head(bytes: &[u8]) -> Read<Head> {
    let Some(&first) = bytes.first() else {
        return Read::More;
    };
    let id_bytes = first.leading_zeros() as usize + 1;
    if id_bytes > 4 {
        return Read::Malformed;
    }
    let Some(&size_first) = bytes.get(id_bytes) else {
        return Read::More;
    };
    let size_bytes = size_first.leading_zeros() as usize + 1;
    if size_bytes > 8 {
        return Read::Malformed;
    }
    let Some(size) = bytes.get(id_bytes..id_bytes + size_bytes) else {
        return Read::More;
    };
    let id = bytes[..id_bytes]
        .iter()
        .fold(0, |id, byte| id << 8 | u32::from(*byte));
    Read::Whole(Head {
        id,
        size: number(size),
        id_bytes,
        size_bytes,
    })
}

/// A number with its marker bit, in as many bytes as there are (1 to 8); `None` if all its bits are
/// set, which means unknown.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let bits = 7 * bytes.len() as u32;
    let mask = (1u64 << bits) - 1;
    let value = bytes
        .iter()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        & mask;
    (value != mask).then_some(value)
}

/// The elements in a body that is whole, as far as they are well-formed.
pub(crate) fn elements(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let Read::Whole(head) = head(rest) else {
            return None;
        };
        let size = usize::try_from(head.size?).ok()?;
        let (element, behind) = rest.get(head.bytes()..)?.split_at_checked(size)?;
        rest = behind;
        Some((head.id, element))
    })
}

/// An unsigned integer element.
pub(crate) fn unsigned(body: &[u8]) -> u64 {
    body.iter()
        .take(8)
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}
