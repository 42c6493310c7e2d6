//! Program-specific information (ISO/IEC 13818-1 section 2.4.4): puts sections together from
//! packets, and reads PAT and PMT.

use super::super::Unsupported;
use super::packet::{PACKET_BYTES, Packet};

/// Puts the sections of one PID together, and keeps the packets that carried them.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Assembler {
    /// Packets since the one in which the newest section began.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    packets: Vec<u8>,
    /// Bytes of the section so far.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    section: Vec<u8>,
    /// Whether a section has begun.
    is_within: bool,
}

/// Longest section. PSI sections have at most 1,024 bytes. Private sections in the same PID may be
/// longer, up to two bytes less than their length field allows.
const SECTION_BYTES_MAX: usize = 4096;
/// Maximal number of packets of a section: twice as many as the longest section needs, with a
/// section before it in the first packet and one after it. Every multiplexer fills its packets
/// better than that.
const SECTION_PACKETS_MAX: usize = 2 * (SECTION_BYTES_MAX / (PACKET_BYTES - 5) + 2);

/// A whole section and the packets that carried it.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Bytes of the section, from its table's identifier to its checksum.
    pub bytes: &'a [u8],
    /// Packets that carried it, one after another.
    pub packets: &'a [u8],
    /// Counter of the last of these packets.
    pub counter: u8,
}

impl Assembler {
    /// Takes the PID's next packet. Passes each whole section to `whole`. Fails if a section takes
    /// more packets than are kept.
    pub fn feed(
        &mut self,
        packet: Packet<'_>,
        mut whole: impl FnMut(Section<'_>),
    ) -> Result<(), Unsupported> {
        let payload = packet.payload();
        if packet.is_scrambled() || payload.is_empty() {
            return Ok(());
        }
        if !packet.unit_starts() {
            if self.is_within {
                if self.packets.len() >= SECTION_PACKETS_MAX * packet.whole.len() {
                    return Err(Unsupported);
                }
                self.packets.extend_from_slice(packet.whole);
                self.section.extend_from_slice(payload);
                self.take_whole(packet, &mut whole);
            }
            return Ok(());
        }
        let pointer = usize::from(payload[0]);
        let (end_of_last, start) = payload[1..].split_at_checked(pointer).unwrap_or((&[], &[]));
        if self.is_within {
            self.packets.extend_from_slice(packet.whole);
            self.section.extend_from_slice(end_of_last);
            self.take_whole(packet, &mut whole);
        }
        self.packets.clear();
        self.packets.extend_from_slice(packet.whole);
        self.section.clear();
        self.section.extend_from_slice(start);
        self.is_within = true;
        self.take_whole(packet, &mut whole);
        Ok(())
    }

    /// Forgets everything. The next packets belong to another PID.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.section.clear();
        self.is_within = false;
    }

    /// Returns the bytes of its allocations.
    pub fn memory_bytes(&self) -> usize {
        self.packets.capacity() + self.section.capacity()
    }

    fn take_whole(&mut self, packet: Packet<'_>, whole: &mut impl FnMut(Section<'_>)) {
        let packet_bytes = packet.whole.len();
        let mut taken = 0;
        while let [table, high, low, ..] = self.section[taken..] {
            if table == 0xff {
                // Stuffing up to the end of the packet.
                self.is_within = false;
                return;
            }
            let length = 3 + length(high, low);
            let Some(bytes) = self.section[taken..].get(..length) else {
                break;
            };
            // Every section after the first began in the last packet.
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
            // The next section in the same packet needs that packet again.
            self.section.drain(..taken);
            self.packets.drain(..self.packets.len() - packet_bytes);
        }
    }
}

/// Returns whether the checksum at the end of a section is right. A damaged table does not count.
pub(crate) fn is_undamaged(section: &[u8]) -> bool {
    checksum(section) == 0
}

/// Returns the checksum. It is zero for bytes that end with their own (ISO/IEC 13818-1 annex A).
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_32(u32::MAX, bytes)
}

/// Returns the CRC-32 with the polynomial of MPEG-2 and Ogg, highest bit first.
pub(crate) fn crc_32(start: u32, bytes: &[u8]) -> u32 {
    let add = |sum: u32, byte: &u8| sum << 8 ^ CHECKSUMS[usize::from((sum >> 24) as u8 ^ byte)];
    bytes.iter().fold(start, add)
}

/// Checksum of each byte.
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

/// Returns the part of a section between its head and its checksum, if it belongs to this table and
/// is in force.
pub(crate) fn body(section: &[u8], table: u8) -> Option<&[u8]> {
    let head_and_rest = section.split_first_chunk::<8>()?;
    let [id, _, _, _, _, version, _, _] = head_and_rest.0;
    if *id != table || version & 1 == 0 {
        return None;
    }
    head_and_rest.1.get(..head_and_rest.1.len().checked_sub(4)?)
}

/// Returns the programs that a PAT names: number, and PID of the PMT. The network's own entry is
/// left out.
pub(crate) fn program_maps(pat: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    let (entries, _) = pat.as_chunks::<4>();
    let programs = entries
        .iter()
        .map(|[n0, n1, p0, p1]| (u16::from_be_bytes([*n0, *n1]), pid(*p0, *p1)));
    programs.filter(|(number, _)| *number != 0)
}

/// Returns the number of a PMT's program.
pub(crate) fn program_number(section: &[u8]) -> Option<u16> {
    let number = section.get(3..)?.first_chunk()?;
    Some(u16::from_be_bytes(*number))
}

/// Returns the streams that a PMT names: type, PID and descriptors.
pub(crate) fn elementary_streams(pmt: &[u8]) -> impl Iterator<Item = (u8, u16, &[u8])> {
    let mut rest = match pmt {
        [_, _, high, low, rest @ ..] => rest.get(length(*high, *low)..).unwrap_or(&[]),
        _ => &[],
    };
    std::iter::from_fn(move || {
        let ([kind, p0, p1, l0, l1], after) = rest.split_first_chunk::<5>()?;
        let (descriptors, others) = after
            .split_at_checked(length(*l0, *l1))
            .unwrap_or((after, &[]));
        rest = others;
        Some((*kind, pid(*p0, *p1), descriptors))
    })
}

/// Returns the tag and the body of each descriptor, as far as they are whole.
pub(crate) fn descriptors(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let ([tag, length], after) = rest.split_first_chunk::<2>()?;
        let (body, others) = after.split_at_checked(usize::from(*length))?;
        rest = others;
        Some((*tag, body))
    })
}

fn pid(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

fn length(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high & 0x0f, low]))
}

#[cfg(test)]
mod tests {
    use super::super::SYNC_BYTE;
    use super::*;

    /// A packet with this payload, after stuffing.
    fn packet(begins: bool, counter: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![SYNC_BYTE, u8::from(begins) << 6, 0, 0x10 | counter];
        if let Some(rest) = 183usize.checked_sub(payload.len()) {
            packet[3] |= 0x20;
            packet.push(rest as u8);
            packet.resize(5 + rest, 0);
        }
        packet.extend_from_slice(payload);
        packet
    }

    /// A section of this length without meaning.
    fn section(table: u8, bytes: usize) -> Vec<u8> {
        let [high, low] = (bytes as u16 - 3).to_be_bytes();
        let mut section = vec![table, 0xb0 | high, low];
        section.extend((3..bytes).map(|at| at as u8));
        section
    }

    /// A section, the packets that carried it, and their last counter.
    type Told = (Vec<u8>, Vec<u8>, u8);

    fn feed(assembler: &mut Assembler, packet: &[u8]) -> Result<Vec<Told>, Unsupported> {
        let mut told = Vec::new();
        let packet = Packet::within(packet, 0).expect("a packet");
        assembler.feed(packet, |section| {
            let (bytes, packets) = (section.bytes.to_vec(), section.packets.to_vec());
            told.push((bytes, packets, section.counter));
        })?;
        Ok(told)
    }

    /// Returns the sections that an assembler reports at each of these packets.
    fn told(packets: &[&[u8]]) -> Vec<Vec<Told>> {
        let mut assembler = Assembler::default();
        let told = packets.iter().map(|packet| feed(&mut assembler, packet));
        told.collect::<Result<_, _>>().expect("few packets")
    }

    #[test]
    fn a_section_comes_out_once_with_the_packets_that_carried_it() {
        let (small, large) = (section(1, 20), section(2, 400));
        // Alone, and with stuffing after it. The next packet belongs to no section.
        let one = packet(true, 3, &[&[0], &small[..], &[0xff; 9]].concat());
        let other = packet(false, 4, &[0xff; 30]);
        let alone = vec![(small.clone(), one.clone(), 3)];
        assert_eq!(told(&[&one, &other, &one]), [alone.clone(), vec![], alone]);
        // A packet whose pointer shows past the end of a section that was whole before.
        let late = packet(true, 4, &[&[2, 9, 9], &small[..]].concat());
        let last = vec![(small.clone(), late.clone(), 4)];
        let stuffed = told(&[&one, &late]);
        assert_eq!(stuffed[1], last);
        // Two in one packet.
        let two = packet(true, 5, &[&[0], &small[..], &small, &[0xff]].concat());
        let both = vec![(small.clone(), two.clone(), 5); 2];
        assert_eq!(told(&[&two]), [both]);
        // Across three packets. The last one also has the beginning of the next section.
        let first = packet(true, 14, &[&[0], &large[..183]].concat());
        let second = packet(false, 15, &large[183..367]);
        let third = packet(true, 0, &[&[33], &large[367..], &small[..]].concat());
        let of_large = (large.clone(), [&first[..], &second, &third].concat(), 0);
        let of_small = (small.clone(), third.clone(), 0);
        assert_eq!(
            told(&[&first, &second, &third]),
            [vec![], vec![], vec![of_large, of_small]]
        );
        // The next section follows without a pointer. Its packets begin where it does.
        let first = packet(true, 1, &[&[0], &small[..], &large[..120]].concat());
        let second = packet(false, 2, &large[120..260]);
        let third = packet(false, 3, &large[260..]);
        let of_large = (large.clone(), [&first[..], &second, &third].concat(), 3);
        assert_eq!(
            told(&[&first, &second, &third]),
            [
                vec![(small.clone(), first.clone(), 1)],
                vec![],
                vec![of_large]
            ]
        );
        // One ends in the packet in whose middle the next one begins, which continues.
        let first = packet(true, 1, &[&[0], &large[..150]].concat());
        let second = packet(false, 2, &[&large[150..300]].concat());
        let third = packet(false, 3, &[&large[300..], &small[..5]].concat());
        let fourth = packet(false, 4, &small[5..]);
        let of_large = [&first[..], &second, &third].concat();
        let of_small = [&third[..], &fourth].concat();
        assert_eq!(
            told(&[&first, &second, &third, &fourth]),
            [
                vec![],
                vec![],
                vec![(large.clone(), of_large, 3)],
                vec![(small.clone(), of_small, 4)]
            ]
        );
    }

    #[test]
    fn bytes_outside_sections_are_skipped() {
        let whole = section(1, 60);
        let first = packet(true, 0, &[&[0], &whole[..30]].concat());
        let second = packet(false, 1, &whole[30..]);
        let mut scrambled = packet(false, 1, &[0; 40]);
        scrambled[3] |= 0x80;
        let empty = packet(true, 1, &[]);
        let of_both = vec![(whole.clone(), [&first[..], &second].concat(), 1)];
        assert_eq!(
            told(&[&first, &scrambled, &empty, &second]),
            [vec![], vec![], vec![], of_both]
        );
        // After a loss: a rest alone, and the end of a section that has not begun.
        let end = packet(true, 2, &[&[30], &whole[30..], &whole[..]].concat());
        let only = vec![(whole.clone(), end.clone(), 2)];
        assert_eq!(told(&[&second, &end]), [vec![], only]);
        // A pointer past the end of its packet begins nothing, and ends nothing.
        let astray = packet(true, 1, &[&[60], &whole[..59]].concat());
        assert_eq!(told(&[&first, &astray, &second]), [vec![], vec![], vec![]]);
        // Packets of another PID.
        let mut assembler = Assembler::default();
        assert_eq!(feed(&mut assembler, &first), Ok(vec![]));
        assert!(assembler.memory_bytes() >= PACKET_BYTES + 30);
        assembler.clear();
        assert_eq!(feed(&mut assembler, &second), Ok(vec![]));
        assert!(assembler.section.is_empty() && assembler.packets.is_empty());
    }

    #[test]
    fn a_section_in_too_many_packets_fails() {
        let long = section(1, 4096);
        let mut assembler = Assembler::default();
        let first = packet(true, 0, &[0, long[0], long[1]]);
        assert_eq!(feed(&mut assembler, &first), Ok(vec![]));
        for number in 1..48 {
            let next = packet(false, 0, &long[1 + number..2 + number]);
            assert_eq!(feed(&mut assembler, &next), Ok(vec![]), "{number}");
        }
        let next = packet(false, 0, &long[49..50]);
        assert_eq!(feed(&mut assembler, &next), Err(Unsupported));
        // The longest section, in full packets.
        let long = section(1, 4098);
        let mut assembler = Assembler::default();
        let mut told = feed(
            &mut assembler,
            &packet(true, 0, &[&[0], &long[..183]].concat()),
        );
        for part in long[183..].chunks(184) {
            assert_eq!(told, Ok(vec![]));
            told = feed(&mut assembler, &packet(false, 0, part));
        }
        assert_eq!(told.map(|told| told[0].0 == long), Ok(true));
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // Catalogues call it CRC-32/MPEG-2, and this is their test.
        assert_eq!(checksum(b"123456789"), 0x0376_e6e7);
        let mut section = b"123456789\x03\x76\xe6\xe7".to_vec();
        assert!(is_undamaged(&section));
        section[3] ^= 0x10;
        assert!(!is_undamaged(&section));
    }

    #[test]
    fn a_body_is_between_head_and_checksum_if_it_is_in_force() {
        let section = [2, 0xb0, 13, 0x12, 0x34, 0xc1, 0, 0, 7, 8, 9, 1, 2, 3, 4];
        assert_eq!(body(&section, 2), Some(&[7, 8, 9][..]));
        assert_eq!(body(&section[..13], 2), Some(&[7][..]));
        assert_eq!(body(&section[..12], 2), Some(&[][..]));
        for length in 0..12 {
            assert_eq!(body(&section[..length], 2), None, "{length} bytes");
        }
        assert_eq!(body(&section, 0), None);
        let mut next = section;
        next[5] = 0xfe;
        assert_eq!(body(&next, 2), None);
        assert_eq!(program_number(&section), Some(0x1234));
        assert_eq!(program_number(&section[..5]), Some(0x1234));
        assert_eq!(program_number(&section[..4]), None);
    }

    #[test]
    fn a_pat_names_programs_and_the_network_does_not_count() {
        let pat = [
            0, 1, 0xe1, 0x00, 0, 0, 0xe0, 0x10, 0x80, 0, 0xff, 0xff, 1, 0, 0, 5, 9, 9, 9,
        ];
        let programs: Vec<_> = program_maps(&pat).collect();
        assert_eq!(programs, [(1, 0x100), (0x8000, 0x1fff), (0x100, 5)]);
    }

    #[test]
    fn a_map_names_streams_as_far_as_it_is_whole() {
        let pmt = [
            0xe1, 0x00, 0xf0, 3, 9, 9, 9, // the program's own descriptors
            0x1b, 0xe1, 0x01, 0xf0, 0, // without any
            0x06, 0xff, 0xff, 0xf0, 5, 5, 3, 1, 2, 3, // with one
            0x0f, 0x01, 0x02, 0xf0, 4, 7, // cut
        ];
        let streams = |length: usize| elementary_streams(&pmt[..length]).collect::<Vec<_>>();
        let all = [
            (0x1b, 0x101, &[][..]),
            (0x06, 0x1fff, &[5, 3, 1, 2, 3][..]),
            (0x0f, 0x102, &[7][..]),
        ];
        assert_eq!(streams(pmt.len()), all);
        assert_eq!(streams(pmt.len() - 2), all[..2]);
        assert_eq!(streams(12), all[..1]);
        for length in 0..12 {
            assert_eq!(streams(length), [], "{length} bytes");
        }
        // 15 bytes and 256 times the reserved bits: everything.
        let long = [0xe1, 0, 0xf1, 0, 0x1b, 0xe1, 0x01, 0xf0, 0];
        assert_eq!(elementary_streams(&long).count(), 0);
    }

    #[test]
    fn descriptors_are_returned_while_they_are_whole() {
        let bytes = [5, 4, b'H', b'E', b'V', b'C', 0x6a, 0, 7, 2, 1];
        let told: Vec<_> = descriptors(&bytes).collect();
        assert_eq!(told, [(5, &b"HEVC"[..]), (0x6a, &[])]);
        assert_eq!(descriptors(&bytes[..5]).count(), 0);
        assert_eq!(descriptors(&bytes[..1]).count(), 0);
    }
}
