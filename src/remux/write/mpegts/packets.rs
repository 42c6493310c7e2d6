//! Writes PES packets into transport packets (ISO/IEC 13818-1 sections 2.4.3.2 and 2.4.3.7).

use super::super::super::medium::ticks;
use super::clock::MultiplexClock;
pub(super) use crate::format::mpegts::{PACKET_BYTES, packet_head};

/// Maximal number of payload bytes of a transport packet.
pub(super) const PAYLOAD_BYTES: usize = PACKET_BYTES - HEAD_BYTES;
const HEAD_BYTES: usize = 4;
/// Length of a clock reference in an adaptation field: length, flags, six bytes.
const REFERENCE_BYTES: usize = 8;

/// Continuity counter of the next packet with a payload, for one PID.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(pub u8);

impl Counter {
    /// Returns the next counter: four bits.
    pub fn next(&mut self) -> u8 {
        let next = self.0;
        self.0 = (next + 1) & 0x0f;
        next
    }
}

/// Writes the head of a PES packet for a payload of this length. Times are nanoseconds. If decode
/// and presentation times are equal, it has only one.
pub(super) fn pes_head(
    stream_id: u8,
    (decode, present): (i64, i64),
    payload_bytes: usize,
    head: &mut Vec<u8>,
) {
    let (decode, present) = (ticks(decode, 90_000), ticks(present, 90_000));
    let has_decode = decode != present;
    let times_bytes = if has_decode { 10 } else { 5 };
    let length = 3 + times_bytes + payload_bytes;
    // Video may be too long for the field.
    let length = u16::try_from(length).unwrap_or(0);
    head.extend_from_slice(&[0, 0, 1, stream_id]);
    head.extend_from_slice(&length.to_be_bytes());
    // The payload begins with a unit.
    head.extend_from_slice(&[
        0x84,
        if has_decode { 0xc0 } else { 0x80 },
        times_bytes as u8,
    ]);
    if has_decode {
        head.extend_from_slice(&stamp(0x30, present));
        head.extend_from_slice(&stamp(0x10, decode));
    } else {
        head.extend_from_slice(&stamp(0x20, present));
    }
}

/// Writes 33 bits in five bytes, between marker bits.
fn stamp(mark: u8, ticks: i64) -> [u8; 5] {
    let ticks = ticks as u64;
    [
        mark | (ticks >> 29) as u8 & 0x0e | 1,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]
}

/// Properties of a PES packet.
pub(super) struct Sending<'a> {
    /// PID of the stream.
    pub pid: u16,
    /// Counter of the stream.
    pub counter: &'a mut Counter,
    /// Whether this PID carries the clock.
    pub has_reference: bool,
    /// Whether the clock is also written at the end, since the next packets are slower.
    pub repeats_reference: bool,
    /// Whether decoding can begin with it.
    pub is_join: bool,
    /// Time of each packet, in nanoseconds.
    pub packet_time: i64,
}

impl Sending<'_> {
    /// Writes a PES packet that is in two pieces.
    pub fn write(self, clock: &mut MultiplexClock, head: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let (mut head, mut body) = (head, body);
        let (mut is_first, mut repeats_reference) = (true, self.repeats_reference);
        while !head.is_empty() || !body.is_empty() {
            let end = out.len() + PACKET_BYTES;
            let left = head.len() + body.len();
            let is_end = left <= PAYLOAD_BYTES && !is_first;
            let is_due = clock.wants_reference() || is_first && self.is_join;
            let has_clock = self.has_reference && (is_due || is_end && repeats_reference);
            repeats_reference &= !is_end;
            let flags = u8::from(is_first && self.is_join) << 6 | u8::from(has_clock) << 4;
            let field = adaptation(flags, has_clock.then(|| clock.reference()), left);
            let control = if field.bytes == 0 { 0x10 } else { 0x30 };
            let control = control | self.counter.next();
            out.extend_from_slice(&packet_head(self.pid, is_first, control));
            if field.bytes != 0 {
                field.write(out);
            }
            for piece in [&mut head, &mut body] {
                if piece.is_empty() {
                    continue;
                }
                let (now, later) = piece.split_at(piece.len().min(end - out.len()));
                out.extend_from_slice(now);
                *piece = later;
            }
            clock.now = clock.now.saturating_add(self.packet_time);
            is_first = false;
        }
    }
}

/// Writes a packet that carries only the clock.
pub(super) fn write_reference(
    pid: u16,
    counter: Counter,
    clock: &mut MultiplexClock,
    out: &mut Vec<u8>,
) {
    // A packet without a payload repeats the counter.
    let last = counter.0.wrapping_sub(1) & 0x0f;
    out.extend_from_slice(&packet_head(pid, false, 0x20 | last));
    adaptation(0x10, Some(clock.reference()), 0).write(out);
}

/// Adaptation field.
struct Adaptation {
    /// Length with its length byte. 0: there is no field.
    bytes: usize,
    /// Flags of the field.
    flags: u8,
    /// Clock reference, if there is one.
    reference: Option<[u8; 6]>,
}

/// Returns the field of a packet for which `left` payload bytes remain. It fills the rest of the
/// packet.
fn adaptation(flags: u8, reference: Option<[u8; 6]>, left: usize) -> Adaptation {
    let needed = match (reference, flags) {
        (Some(_), _) => REFERENCE_BYTES,
        (None, 0) => 0,
        (None, _) => 2,
    };
    Adaptation {
        bytes: needed.max(PAYLOAD_BYTES.saturating_sub(left)),
        flags,
        reference,
    }
}

impl Adaptation {
    /// Writes the field, which is not empty.
    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes;
        // Below 184.
        out.push((self.bytes - 1) as u8);
        if self.bytes > 1 {
            out.push(self.flags);
            out.extend_from_slice(self.reference.as_ref().map_or(&[], |field| &field[..]));
        }
        out.resize(end, 0xff);
    }
}
