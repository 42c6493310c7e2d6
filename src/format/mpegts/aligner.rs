//! Cuts a stream into MPEG-TS packets.
//!
//! Besides bare packets there are two longer forms. Receivers add 16 bytes of error correction
//! after each packet (204 bytes). Recorders and Blu-ray discs put a time stamp of four bytes in
//! front (192 bytes). Both stay with their packet.

use super::packet::{PACKET_BYTES, Packet, SYNC_BYTE};

/// Cuts bytes that arrive in any pieces into packets. It finds the phase by some sync bytes in a
/// row, and finds it again after losing it.
///
/// It holds at most [`PROOF_BYTES_MAX`], and twice as much during a search. The packets do not depend
/// on how the bytes are cut.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Aligner {
    /// Bytes that are not a packet yet: less than one packet while in step, otherwise less than
    /// proves a shape.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    pending: Vec<u8>,
    /// Shape of the packets, once it is known. It never changes within a stream.
    pub shape: Option<Shape>,
    /// Whether `pending` begins with a packet.
    in_step: bool,
    /// Work of searches since [`Aligner::take_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    work: usize,
}

/// Work of a byte that is out of step, beyond 1: packets are searched for at each.
const OUT_OF_STEP_WORK: usize = 3;

/// Shape of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// Bytes in front of the sync byte that belong to its packet.
    before: usize,
    /// Distance from one packet to the next.
    length: usize,
    /// Sync bytes in a row that prove the shape. A rare shape needs more.
    proof: usize,
}

/// This many bytes show any shape, at any phase of the first packet.
pub(in super::super) const PROOF_BYTES_MAX: usize = 4 * (PACKET_BYTES + 16);

impl Shape {
    /// All shapes. The usual one is first.
    pub const ALL: [Shape; 3] = [
        Shape {
            before: 0,
            length: PACKET_BYTES,
            proof: 3,
        },
        Shape {
            before: 4,
            length: PACKET_BYTES + 4,
            proof: 4,
        },
        Shape {
            before: 0,
            length: PACKET_BYTES + 16,
            proof: 4,
        },
    ];

    /// Returns how many bytes prove the shape.
    fn proof_bytes(self) -> usize {
        self.before + (self.proof - 1) * self.length + 1
    }

    /// Returns whether the bytes begin with packets, as far as they go.
    fn fits(self, bytes: &[u8]) -> bool {
        let sync = |number: usize| bytes.get(self.before + number * self.length);
        (0..self.proof).all(|number| sync(number).is_none_or(|byte| *byte == SYNC_BYTE))
    }

    /// Returns whether the newest byte is the one that proves the shape.
    pub fn is_proved_by_last(self, bytes: &[u8]) -> bool {
        let first = bytes.len().checked_sub(self.proof_bytes());
        first.is_some_and(|first| self.fits(&bytes[first..]))
    }

    /// Returns the shape of a header's packets. `None` if there are fewer than two.
    #[cfg(feature = "hold")]
    pub fn of_header(header: &[u8]) -> Option<Shape> {
        let mut shapes = Shape::ALL.into_iter();
        shapes.find(|shape| header.len() > shape.before + shape.length && shape.fits(header))
    }
}

impl Aligner {
    /// Reads the next bytes and passes each whole packet to `packet`, with the position of its
    /// first byte in the input. A negative position lies in an earlier input.
    pub fn feed(&mut self, bytes: &[u8], mut packet: impl FnMut(i64, Packet<'_>)) {
        let mut rest = bytes;
        // Position of `pending`, or of `rest` if that is empty, counted from the first byte of
        // `bytes`.
        let mut at = -(self.pending.len() as i64);
        loop {
            let Some(shape) = self.shape.filter(|_| self.in_step) else {
                at += self.search(&mut rest) as i64;
                if !self.in_step {
                    return;
                }
                continue;
            };
            if !self.pending.is_empty() {
                let missing = shape.length.saturating_sub(self.pending.len());
                self.hold(missing, &mut rest);
            }
            let seen = if self.pending.is_empty() {
                rest
            } else {
                &self.pending
            };
            let Some(whole) = seen.get(..shape.length) else {
                if self.pending.is_empty() {
                    self.pending.extend_from_slice(rest);
                }
                return;
            };
            let Some(view) = Packet::within(whole, shape.before) else {
                self.in_step = false;
                continue;
            };
            packet(at, view);
            at += shape.length as i64;
            if self.pending.is_empty() {
                rest = &rest[shape.length..];
            } else {
                self.pending.drain(..shape.length);
            }
        }
    }

    /// Drops bytes until the pending ones begin with packets, or the input ends. Returns how many.
    fn search(&mut self, rest: &mut &[u8]) -> usize {
        // Bytes before `begin` are dropped many at a time, since each time the other bytes move.
        let (mut begin, mut dropped) = (0, 0);
        loop {
            let known = self.shape;
            let shapes = known.as_ref().map_or(&Shape::ALL[..], std::slice::from_ref);
            let may_begin =
                |at: &usize| shapes.iter().any(|shape| shape.fits(&self.pending[*at..]));
            let found = (begin..self.pending.len()).find(may_begin);
            begin = found.unwrap_or(self.pending.len());
            // The shape with the shorter proof comes first, so that the verdict falls at the same
            // byte however the bytes are cut.
            let seen = &self.pending[begin..];
            let fitting = shapes.iter().filter(|shape| shape.fits(seen));
            let Some(&shape) = fitting.min_by_key(|shape| shape.proof_bytes()) else {
                continue;
            };
            let missing = shape.proof_bytes().saturating_sub(seen.len());
            let is_over = missing == 0 || rest.is_empty();
            if is_over || begin >= PROOF_BYTES_MAX {
                self.pending.drain(..begin);
                dropped += begin;
                begin = 0;
            }
            if missing == 0 {
                (self.shape, self.in_step) = (Some(shape), true);
            }
            if is_over {
                self.work += OUT_OF_STEP_WORK * dropped;
                return dropped;
            }
            self.hold(missing, rest);
        }
    }

    /// Returns the work of searches since the last call.
    pub fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    fn hold(&mut self, missing: usize, rest: &mut &[u8]) {
        let (taken, after) = rest.split_at(missing.min(rest.len()));
        self.pending.extend_from_slice(taken);
        *rest = after;
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.pending.len() <= PROOF_BYTES_MAX
            && self
                .shape
                .map_or(!self.in_step, |shape| Shape::ALL.contains(&shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8) -> [u8; PACKET_BYTES] {
        let mut bytes = [number; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[SYNC_BYTE, 0x01, number, 0x10]);
        bytes
    }

    fn align(stream: &[u8], piece: usize) -> Vec<(i64, u8)> {
        let mut aligner = Aligner::default();
        let mut found = Vec::new();
        for (index, bytes) in stream.chunks(piece).enumerate() {
            let before = (index * piece) as i64;
            aligner.feed(bytes, |at, packet| {
                found.push((before + at, packet.bytes[2]))
            });
        }
        found
    }

    #[test]
    fn packets_are_found_and_found_again_however_the_bytes_are_cut() {
        let mut stream = vec![SYNC_BYTE, 1, 2, SYNC_BYTE, 9];
        for number in 0..4 {
            stream.extend(packet(number));
        }
        stream.extend([7; 300]);
        for number in 4..9 {
            stream.extend(packet(number));
        }
        let whole = align(&stream, stream.len());
        let expected = [
            (5, 0),
            (193, 1),
            (381, 2),
            (569, 3),
            (1057, 4),
            (1245, 5),
            (1433, 6),
            (1621, 7),
            (1809, 8),
        ];
        assert_eq!(whole, expected);
        for piece in 1..600 {
            assert_eq!(align(&stream, piece), whole, "in pieces of {piece}");
        }
    }

    /// At any phase of the first packet, exactly this many bytes show it.
    #[test]
    fn the_last_sync_byte_of_a_row_proves_the_shape() {
        for (shape, (before, length, proof)) in
            Shape::ALL
                .into_iter()
                .zip([(0, 188, 377), (4, 192, 581), (0, 204, 613)])
        {
            let mut bytes = vec![0; 5 * length];
            bytes
                .iter_mut()
                .skip(before)
                .step_by(length)
                .for_each(|byte| *byte = SYNC_BYTE);
            for end in 0..bytes.len() {
                let is_proof = end >= proof && (end - proof) % length == 0;
                assert_eq!(shape.is_proved_by_last(&bytes[..end]), is_proof, "{end}");
            }
            let (first, proofs) = (
                bytes[..proof].to_vec(),
                [before, before + length, proof - 1],
            );
            for place in proofs {
                let mut bytes = first.clone();
                bytes[place] = 0x46;
                assert!(
                    !shape.is_proved_by_last(&bytes),
                    "without the one at {place}"
                );
            }
            // This many show it at any phase.
            assert!(proof + length - 1 <= PROOF_BYTES_MAX);
            // A packet comes out with the byte that proves it, and not before.
            let mut aligner = Aligner::default();
            let mut told = Vec::new();
            aligner.feed(&first[..proof - 1], |at, _| told.push(at));
            assert_eq!((told.len(), aligner.shape), (0, None));
            let pending = aligner.pending.capacity();
            aligner.feed(&first[proof - 1..], |at, _| told.push(at));
            assert_eq!((told[0], aligner.shape), (1 - proof as i64, Some(shape)));
            assert!((proof - 1..=2 * PROOF_BYTES_MAX).contains(&pending));
        }
    }

    #[cfg(feature = "hold")]
    #[test]
    fn two_packets_of_a_header_show_their_shape() {
        for (shape, (before, length)) in Shape::ALL.into_iter().zip([(0, 188), (4, 192), (0, 204)])
        {
            let mut bytes = vec![0; 3 * length];
            bytes
                .iter_mut()
                .skip(before)
                .step_by(length)
                .for_each(|byte| *byte = SYNC_BYTE);
            for end in 0..bytes.len() {
                let expected = (end > before + length).then_some(shape);
                assert_eq!(Shape::of_header(&bytes[..end]), expected, "{end} bytes");
            }
        }
    }

    /// A search keeps few bytes afterwards, and each byte that it drops counts as work.
    #[test]
    fn a_search_holds_little_and_counts_its_work() {
        let out_of_step = [[SYNC_BYTE; 376].as_slice(), &[0; 188]].concat();
        let stream = out_of_step.repeat(400);
        for piece in [1_000, stream.len()] {
            let mut aligner = Aligner::default();
            let mut in_step = 0;
            for bytes in stream.chunks(piece) {
                aligner.feed(bytes, |_, packet| in_step += packet.whole.len());
                assert!(aligner.pending.len() <= PROOF_BYTES_MAX);
                assert!(aligner.pending.capacity() <= 4 * PROOF_BYTES_MAX);
            }
            let searched = aligner.take_work() / OUT_OF_STEP_WORK;
            let expected = stream.len() - in_step;
            let at_most = searched + PROOF_BYTES_MAX;
            assert!(
                (searched..=at_most).contains(&expected),
                "{searched} of {expected}"
            );
            assert_eq!(aligner.take_work(), 0);
        }
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_aligner_that_cannot_be_is_refused() {
        let fits = |pending: usize, shape, in_step| {
            let pending = vec![0; pending];
            Aligner {
                pending,
                shape,
                in_step,
                work: 0,
            }
            .is_valid()
        };
        let known = Some(Shape::ALL[1]);
        let unknown = Some(Shape {
            length: 189,
            ..Shape::ALL[0]
        });
        assert!(fits(816, None, false) && fits(816, known, false) && fits(0, known, true));
        assert!(!fits(817, None, false) && !fits(817, known, true));
        assert!(!fits(0, None, true) && !fits(0, unknown, false) && !fits(0, unknown, true));
    }

    #[test]
    fn packets_of_receivers_and_recorders_keep_their_extra_bytes() {
        for (before, after) in [(4, 0), (0, 16)] {
            let mut stream = vec![SYNC_BYTE, 3, 1];
            for number in 0..9 {
                stream.extend([[0x80, 0, 0, number][..before].to_vec()].concat());
                stream.extend(packet(number));
                stream.extend(vec![0xee; after]);
                if number == 4 {
                    stream.extend([9; 50]);
                }
            }
            let whole = align(&stream, stream.len());
            let length = (before + 188 + after) as i64;
            let place = |number: u8| 3 + i64::from(number) * length + i64::from(number > 4) * 50;
            let expected: Vec<_> = (0..9).map(|number| (place(number), number)).collect();
            assert_eq!(whole, expected);
            for piece in 1..900 {
                assert_eq!(align(&stream, piece), whole, "in pieces of {piece}");
            }
        }
    }
}
