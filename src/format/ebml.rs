//! EBML elements (RFC 8794): heads that arrive in pieces, and whole elements.

use super::Unsupported;
use super::window::Unread;

/// Longest head of an element.
pub(crate) const HEAD_BYTES_MAX: usize = 4 + 8;

/// Head of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Identifier with its marker bits, as the specifications print it.
    pub id: u32,
    /// Size of the body. `None` if it is unknown.
    pub size: Option<u64>,
    /// Length of the identifier: 1 to 4 bytes.
    pub id_bytes: usize,
    /// Length of the size field: 1 to 8 bytes.
    pub size_bytes: usize,
}

impl Head {
    /// Returns the length of the head.
    pub fn bytes(&self) -> usize {
        self.id_bytes + self.size_bytes
    }

    /// Returns the length of the whole element. Fails if its size is unknown.
    pub fn length(&self) -> Result<u64, Unsupported> {
        let size = self.size.ok_or(Unsupported)?;
        Ok(self.bytes() as u64 + size)
    }

    /// Returns whether the identifier has four bytes. Such elements belong to a Segment or to the
    /// top level.
    pub fn is_outer(&self) -> bool {
        self.id >= 0x1000_0000
    }

    /// Returns this head with an unknown size, in the same number of bytes: [`Head::bytes`] of them
    /// count.
    pub fn with_unknown_size(&self) -> [u8; HEAD_BYTES_MAX] {
        let mut head = [0xff; HEAD_BYTES_MAX];
        let id = self.id << (8 * (4 - self.id_bytes));
        head[..4].copy_from_slice(&id.to_be_bytes());
        head[self.id_bytes..].fill(0xff);
        head[self.id_bytes] >>= self.size_bytes - 1;
        head
    }
}

/// Reads the head at the front of `bytes`. Asks for one more byte until it is whole.
pub(crate) fn head(bytes: &[u8]) -> Result<Head, Unread> {
    let more = Unread::Needs(bytes.len() + 1);
    let id_bytes = bytes.first().ok_or(more)?.leading_zeros() as usize + 1;
    if id_bytes > 4 {
        return Err(Unsupported.into());
    }
    let size_bytes = bytes.get(id_bytes).ok_or(more)?.leading_zeros() as usize + 1;
    if size_bytes > 8 {
        return Err(Unsupported.into());
    }
    let size = bytes.get(id_bytes..id_bytes + size_bytes).ok_or(more)?;
    Ok(Head {
        id: unsigned(&bytes[..id_bytes]) as u32,
        size: number(size),
        id_bytes,
        size_bytes,
    })
}

/// Reads a number of 1 to 8 bytes with its marker bit. `None` if all its bits are set, which means
/// "unknown".
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let bits = 7 * bytes.len() as u32;
    let mask = (1u64 << bits) - 1;
    let value = unsigned(bytes) & mask;
    (value != mask).then_some(value)
}

/// Reads the number at the front, as [`number`] does. Returns its length, too.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn number_at_front(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = bytes.first()?.leading_zeros() as usize + 1;
    let field = bytes.get(..length).filter(|_| length <= 8)?;
    Some((number(field)?, length))
}

/// Maximal number of elements of a body that are read. Files have fewer than a hundred. Many small
/// ones cost more than their bytes.
pub(crate) const ELEMENTS_MAX: usize = 4096;

/// Returns the elements in a whole body, as far as they are well-formed, up to a maximum.
pub(crate) fn elements(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = body;
    let each = std::iter::from_fn(move || {
        let head = head(rest).ok()?;
        let size = usize::try_from(head.size?).ok()?;
        let (element, after) = rest.get(head.bytes()..)?.split_at_checked(size)?;
        rest = after;
        Some((head.id, element))
    });
    each.take(ELEMENTS_MAX)
}

/// Returns the bodies of the first elements with these identifiers in a whole body, in one pass.
pub(crate) fn fields<const N: usize>(body: &[u8], wanted: [u32; N]) -> [Option<&[u8]>; N] {
    let mut found = [None; N];
    for (id, element) in elements(body) {
        if let Some(place) = wanted.iter().position(|wanted| *wanted == id) {
            found[place].get_or_insert(element);
        }
    }
    found
}

/// Returns the body of the first element with this identifier in a whole body.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn find(body: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut found = elements(body).filter(|(id, _)| *id == wanted);
    found.next().map(|(_, element)| element)
}

/// Reads an unsigned integer element. Only the first eight bytes count.
pub(crate) fn unsigned(body: &[u8]) -> u64 {
    body.iter()
        .take(8)
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head, its identifier, the size in it, and the lengths of both fields.
    type Case = (&'static [u8], u32, Option<u64>, (usize, usize));

    const HEADS: [Case; 14] = [
        (&[0x80, 0x80], 0x80, Some(0), (1, 1)),
        (&[0xa3, 0xfe], 0xa3, Some(126), (1, 1)),
        (&[0xff, 0xff], 0xff, None, (1, 1)),
        (&[0x42, 0x86, 0x81], 0x4286, Some(1), (2, 1)),
        (&[0x40, 0x00, 0x40, 0x7f], 0x4000, Some(127), (2, 2)),
        (&[0x2a, 0xd7, 0xb1, 0x7f, 0xff], 0x2a_d7b1, None, (3, 2)),
        (
            &[0x1a, 0x45, 0xdf, 0xa3, 0x9f],
            0x1a45_dfa3,
            Some(31),
            (4, 1),
        ),
        (
            &[0x10, 0, 0, 0, 0x20, 1, 2],
            0x1000_0000,
            Some(0x102),
            (4, 3),
        ),
        (&[0xec, 0x10, 0, 1, 0], 0xec, Some(0x100), (1, 4)),
        (&[0xec, 0x0f, 0xff, 0xff, 0xff, 0xff], 0xec, None, (1, 5)),
        (&[0xec, 0x04, 0, 0, 0, 1, 0], 0xec, Some(0x100), (1, 6)),
        (
            &[0xec, 0x03, 0, 0, 0, 0, 0, 1],
            0xec,
            Some((1 << 48) + 1),
            (1, 7),
        ),
        (
            &[0xec, 0x01, 0x80, 0, 0, 0, 0, 0, 9],
            0xec,
            Some((1 << 55) + 9),
            (1, 8),
        ),
        (
            &[
                0x1f, 0x43, 0xb6, 0x75, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
            0x1f43_b675,
            None,
            (4, 8),
        ),
    ];

    #[test]
    fn a_head_has_an_identifier_and_a_size() {
        for (bytes, id, size, (id_bytes, size_bytes)) in HEADS {
            let expected = Head {
                id,
                size,
                id_bytes,
                size_bytes,
            };
            let longer = [bytes, &[0xff, 0]].concat();
            assert_eq!(head(bytes), Ok(expected), "{bytes:x?}");
            assert_eq!(head(&longer), Ok(expected), "{bytes:x?}");
            assert_eq!(expected.bytes(), bytes.len());
            for length in 0..bytes.len() {
                let more = Err(Unread::Needs(length + 1));
                assert_eq!(head(&bytes[..length]), more, "{length} of {bytes:x?}");
            }
            // With an unknown size the head has the same length and the same identifier.
            let open = &expected.with_unknown_size()[..expected.bytes()];
            let expected = Head {
                size: None,
                ..expected
            };
            assert_eq!(head(open), Ok(expected), "{open:x?}");
        }
        for malformed in [
            &[0x0f][..],
            &[0x08],
            &[0, 0, 0],
            &[0xa3, 0],
            &[0x42, 0x86, 0],
        ] {
            assert_eq!(head(malformed), Err(Unsupported.into()), "{malformed:x?}");
        }
    }

    #[test]
    fn outer_elements_have_identifiers_of_four_bytes() {
        for (id, is_outer) in [
            (0xa3, false),
            (0x1f_ffff, false),
            (0x0fff_ffff, false),
            (0x1000_0000, true),
            (0x1f43_b675, true),
        ] {
            let head = Head {
                id,
                size: None,
                id_bytes: 4,
                size_bytes: 1,
            };
            assert_eq!(head.is_outer(), is_outer, "{id:x}");
        }
    }

    #[test]
    fn elements_are_returned_while_they_are_whole() {
        let body = [
            0xec, 0x80, // an empty one
            0x42, 0x86, 0x82, 1, 2, // one of two bytes
            0xa3, 0x83, 7, 8, // one that is cut
        ];
        let told = |length: usize| elements(&body[..length]).collect::<Vec<_>>();
        let both = [(0xec, &[][..]), (0x4286, &[1, 2][..])];
        for length in 0..=body.len() {
            let count = usize::from(length >= 2) + usize::from(length >= 7);
            assert_eq!(told(length), both[..count], "{length} bytes");
        }
        assert_eq!(elements(&[0xec, 0xff, 1]).count(), 0, "of an unknown size");
        assert_eq!(elements(&[0xec, 0x80, 0, 0]).count(), 1, "then no element");
        let many = [0xec, 0x80].repeat(2 * ELEMENTS_MAX);
        assert_eq!(elements(&many).count(), ELEMENTS_MAX);
    }

    #[test]
    fn an_unsigned_number_has_its_highest_byte_first() {
        for (body, value) in [
            (&[][..], 0),
            (&[5], 5),
            (&[1, 2, 3], 0x1_0203),
            (&[0xff; 8], u64::MAX),
            (&[1, 0, 0, 0, 0, 0, 0, 2, 9], (1 << 56) + 2),
        ] {
            assert_eq!(unsigned(body), value, "{body:x?}");
        }
    }
}
