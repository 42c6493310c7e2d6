//! PES packets in transport packets (ISO/IEC 13818-1 sections 2.4.3.2 and 2.4.3.7).

use super::super::timeline::ticks;
use super::clock::Clock;
pub(super) use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};

/// What a transport packet carries at the most.
pub(super) const PAYLOAD_BYTES: usize = PACKET_BYTES - HEAD_BYTES;
const HEAD_BYTES: usize = 4;
/// Of a clock reference in an adaptation field: length, flags, six bytes.
const REFERENCE_BYTES: usize = 8;
/// A PES packet of video may be longer than its length can say: then that is 0.
const LENGTH_MAX: usize = 0xffff;
/// In front of a PES packet's payload at the most: so that what is not video fits.
pub(super) const PES_HEAD_BYTES_MAX: usize = 19;

/// Of a PID, the number of the next packet with a payload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(u8);

impl Counter {
    /// Before the first packet.
    pub const FIRST: Counter = Counter(0);

    /// Four bits.
    pub fn next(&mut self) -> u8 {
        let next = self.0;
        self.0 = (next + 1) & 0x0f;
        next
    }

    /// Before the packet with this number.
    #[cfg(feature = "handover")]
    pub fn at(number: u8) -> Counter {
        Counter(number & 0x0f)
    }

    /// Returns the number of the next packet.
    #[cfg(feature = "handover")]
    pub fn number(self) -> u8 {
        self.0
    }

    /// What the last one had.
    fn last(self) -> u8 {
        self.0.wrapping_sub(1) & 0x0f
    }
}

/// A PES packet's head, for a payload of so many bytes. Times are nanoseconds; what is decoded when
/// it is shown says so once.
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
    let length = u16::try_from(length).ok().filter(|_| length <= LENGTH_MAX);
    head.extend_from_slice(&[0, 0, 1, stream_id]);
    head.extend_from_slice(&length.unwrap_or(0).to_be_bytes());
    // Its payload begins with what it carries.
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

/// 33 bits in five bytes, between marks.
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

/// What one PES packet goes out with.
pub(super) struct Sending<'a> {
    /// The stream's.
    pub pid: u16,
    /// The same.
    pub counter: &'a mut Counter,
    /// The clock is told with this PID.
    pub tells_clock: bool,
    /// The clock is told where it ends, too: what follows is slower.
    pub tells_end: bool,
    /// Decoding can begin with it.
    pub is_join: bool,
    /// So long each packet takes to arrive, in nanoseconds.
    pub packet_time: i64,
}

impl Sending<'_> {
    /// Writes a PES packet that lies in two pieces.
    pub fn write(self, clock: &mut Clock, head: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let (mut head, mut body) = (head, body);
        let (mut is_first, mut tells_end) = (true, self.tells_end);
        while !head.is_empty() || !body.is_empty() {
            let end = out.len() + PACKET_BYTES;
            let left = head.len() + body.len();
            let is_end = left <= PAYLOAD_BYTES && !is_first;
            let is_due = clock.wants_reference() || is_first && self.is_join;
            let is_told = self.tells_clock && (is_due || is_end && tells_end);
            tells_end &= !is_end;
            let flags = u8::from(is_first && self.is_join) << 6 | u8::from(is_told) << 4;
            let field = adaptation(flags, is_told.then(|| clock.tell()), left);
            let [high, low] = self.pid.to_be_bytes();
            let control = if field.is_empty() { 0x10 } else { 0x30 };
            let start = u8::from(is_first) << 6;
            out.extend_from_slice(&[SYNC_BYTE, start | high, low, control | self.counter.next()]);
            field.write(out);
            for piece in [&mut head, &mut body] {
                let (now, later) = piece.split_at(piece.len().min(end - out.len()));
                out.extend_from_slice(now);
                *piece = later;
            }
            clock.now = clock.now.saturating_add(self.packet_time);
            is_first = false;
        }
    }
}

/// A packet that carries nothing but the clock.
pub(super) fn write_reference(pid: u16, counter: Counter, clock: &mut Clock, out: &mut Vec<u8>) {
    let [high, low] = pid.to_be_bytes();
    out.extend_from_slice(&[SYNC_BYTE, high, low, 0x20 | counter.last()]);
    adaptation(0x10, Some(clock.tell()), 0).write(out);
}

/// An adaptation field.
struct Adaptation {
    /// With its length byte; 0: there is none.
    bytes: usize,
    flags: u8,
    reference: Option<[u8; 6]>,
}

/// The field for a packet of which so many bytes of payload are left: it fills what they leave
/// free.
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
    fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes;
        if self.bytes > 0 {
            // Below 184.
            out.push((self.bytes - 1) as u8);
        }
        if self.bytes > 1 {
            out.push(self.flags);
            out.extend_from_slice(self.reference.as_ref().map_or(&[], |field| &field[..]));
        }
        out.resize(end, 0xff);
    }
}
