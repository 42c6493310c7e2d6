//! Program-specific information (ISO/IEC 13818-1 section 2.4.4): sections put together from
//! packets, and what PAT and PMT say.

use super::super::LetGo;
use super::packet::{PACKET_BYTES, Packet};

/// Puts the sections of one PID together, and keeps the packets that carried them.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Assembler {
    /// The packets since the one in which the newest section began.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    packets: Vec<u8>,
    /// The section's bytes so far.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    section: Vec<u8>,
    is_within: bool,
}

/// PSI sections are at most 1,021 bytes and 3; private ones in the same PID may be longer.
const SECTION_BYTES_MAX: usize = 4096;
/// Twice as many as the longest section needs that fills its packets, a section before it in the
/// first one, and one behind. Nothing that multiplexes puts less into a packet than it can.
const SECTION_PACKETS_MAX: usize = 2 * (SECTION_BYTES_MAX / (PACKET_BYTES - 5) + 2);

/// A whole section and the packets that carried it.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    /// From its table's identifier to its checksum.
    pub bytes: &'a [u8],
    /// Those that carried it, one behind the other.
    pub packets: &'a [u8],
    /// The counter of the last of them.
    pub counter: u8,
}

impl Assembler {
    /// Takes the PID's next packet; hands on each section that is whole. Lets go of one in more
    /// packets than are kept.
    pub fn feed(
        &mut self,
        packet: Packet<'_>,
        mut whole: impl FnMut(Section<'_>),
    ) -> Result<(), LetGo> {
        let payload = packet.payload();
        if packet.is_scrambled() || payload.is_empty() {
            return Ok(());
        }
        if !packet.unit_starts() {
            if self.is_within {
                if self.packets.len() >= SECTION_PACKETS_MAX * packet.whole().len() {
                    return Err(LetGo);
                }
                self.packets.extend_from_slice(packet.whole());
                self.section.extend_from_slice(payload);
                self.take_whole(packet, &mut whole);
            }
            return Ok(());
        }
        let pointer = usize::from(payload[0]);
        let (end_of_last, start) = payload[1..].split_at_checked(pointer).unwrap_or((&[], &[]));
        if self.is_within && !end_of_last.is_empty() {
            self.packets.extend_from_slice(packet.whole());
            self.section.extend_from_slice(end_of_last);
            self.take_whole(packet, &mut whole);
        }
        self.packets.clear();
        self.packets.extend_from_slice(packet.whole());
        self.section.clear();
        self.section.extend_from_slice(start);
        self.is_within = true;
        self.take_whole(packet, &mut whole);
        Ok(())
    }

    /// Forgets what it has: another PID's packets come.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.section.clear();
        self.is_within = false;
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.packets.capacity() + self.section.capacity()
    }

    fn take_whole(&mut self, packet: Packet<'_>, whole: &mut impl FnMut(Section<'_>)) {
        let packet_bytes = packet.whole().len();
        let mut taken = 0;
        while let [table, high, low, ..] = self.section[taken..] {
            if table == 0xff {
                // Stuffing up to the end of the packet.
                self.is_within = false;
                return;
            }
            let length = 3 + (usize::from(high & 0x0f) << 8 | usize::from(low));
            let Some(bytes) = self.section[taken..].get(..length) else {
                break;
            };
            // Whatever follows the first has begun in the last packet.
            let from = if taken == 0 {
                0
            } else {
                self.packets.len() - packet_bytes
            };
            whole(Section {
                bytes,
                packets: &self.packets[from..],
                counter: packet.counter(),
            });
            taken += length;
        }
        if taken > 0 {
            // What follows in the same packet needs that packet again.
            self.section.drain(..taken);
            self.packets.drain(..self.packets.len() - packet_bytes);
        }
        if self.section.len() > SECTION_BYTES_MAX {
            self.is_within = false;
        }
    }
}

/// Whether the checksum at the end of a section is its own: a damaged table counts for nothing.
pub(crate) fn is_undamaged(section: &[u8]) -> bool {
    checksum(section) == 0
}

/// Zero of bytes behind which their own stands (ISO/IEC 13818-1 annex A).
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let add = |sum: u32, byte: &u8| sum << 8 ^ CHECKSUMS[usize::from((sum >> 24) as u8 ^ byte)];
    bytes.iter().fold(u32::MAX, add)
}

/// Of each byte.
const CHECKSUMS: [u32; 256] = {
    let mut sums = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            bit += 1;
        }
        sums[byte] = sum;
        byte += 1;
    }
    sums
};

/// The part of a section between its head and its checksum, if it is of this table and in force
/// now.
pub(crate) fn body(section: &[u8], table: u8) -> Option<&[u8]> {
    let head_and_rest = section.split_first_chunk::<8>()?;
    let [id, _, _, _, _, version, _, _] = head_and_rest.0;
    if *id != table || version & 1 == 0 {
        return None;
    }
    head_and_rest.1.get(..head_and_rest.1.len().checked_sub(4)?)
}

/// The programs that a PAT names, each with the PID of its PMT; the network's own is none.
pub(crate) fn program_maps(pat: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    pat.chunks_exact(4)
        .map(|entry| (number(entry[0], entry[1]), pid(entry[2], entry[3])))
        .filter(|(number, _)| *number != 0)
}

/// The number of the program that a PMT is about.
pub(crate) fn program_number(section: &[u8]) -> Option<u16> {
    let [_, _, _, high, low, ..] = section else {
        return None;
    };
    Some(number(*high, *low))
}

fn number(high: u8, low: u8) -> u16 {
    u16::from(high) << 8 | u16::from(low)
}

/// The stream types and PIDs that a PMT names, each with its descriptors.
pub(crate) fn elementary_streams(pmt: &[u8]) -> impl Iterator<Item = (u8, u16, &[u8])> {
    let mut rest = match pmt {
        [_, _, high, low, rest @ ..] => rest.get(length(*high, *low)..).unwrap_or(&[]),
        _ => &[],
    };
    std::iter::from_fn(move || {
        let ([kind, p0, p1, l0, l1], behind) = rest.split_first_chunk::<5>()?;
        let (descriptors, others) = behind
            .split_at_checked(length(*l0, *l1))
            .unwrap_or((behind, &[]));
        rest = others;
        Some((*kind, pid(*p0, *p1), descriptors))
    })
}

/// The tag and the body of each descriptor, as far as they are whole.
pub(crate) fn descriptors(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let ([tag, length], behind) = rest.split_first_chunk::<2>()?;
        let (body, others) = behind.split_at_checked(usize::from(*length))?;
        rest = others;
        Some((*tag, body))
    })
}

fn pid(high: u8, low: u8) -> u16 {
    u16::from(high & 0x1f) << 8 | u16::from(low)
}

fn length(high: u8, low: u8) -> usize {
    usize::from(high & 0x0f) << 8 | usize::from(low)
}
