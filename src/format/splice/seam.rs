//! Marks the seam between the packets of two sources, so that decoders do not take a jump for a
//! loss (ISO/IEC 13818-1 section 2.4.3.5, discontinuity_indicator).
//!
//! The first packet of each PID has an unexpected counter, and the first clock reference has an
//! unexpected time. Each gets the mark: in its own flags if it has some, or in an extra packet in
//! front. That packet has no payload and the counter before. The packets between the two stay as
//! they are.
//!
//! In front of H.265 the extra packet has a NAL unit that ends the sequence. Without it, a decoder
//! counts the pictures of an open group on from the previous source, and loses some of both (Rec.
//! ITU-T H.265 section 8.3.1).
//!
//! A seam takes two bits for each PID: 2 KiB.

use super::super::mpegts::{PACKET_BYTES, Packet, packet_head};

/// State of the packets after a seam.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Seam {
    /// PIDs whose first packet has passed.
    counted: Pids,
    /// PIDs whose first clock reference has passed.
    timed: Pids,
}

/// A set of PIDs.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Pids(
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::array"))] [u64; 0x2000 / 64],
);

/// PID of the packets that fill up the bit rate. They have no counter.
pub(super) const NULL_PID: u16 = 0x1fff;
/// The flag that marks a jump.
const DISCONTINUITY: u8 = 0x80;
/// A PES packet of video without times: the end of a sequence of H.265.
const END_OF_SEQUENCE: [u8; 15] = *b"\0\0\x01\xe0\0\x09\x80\0\0\0\0\0\x01\x48\x01";
/// The byte that fills up a packet.
const STUFFING: u8 = 0xff;

impl Default for Seam {
    /// Returns the state before the first packet.
    fn default() -> Seam {
        Seam {
            counted: Pids([0; 0x2000 / 64]),
            timed: Pids([0; 0x2000 / 64]),
        }
    }
}

impl Seam {
    /// Passes a packet to `hand_on`, with a mark if the counter or the clock jumps at it.
    pub fn pass(&mut self, packet: Packet<'_>, mut hand_on: impl FnMut(Packet<'_>)) {
        let pid = packet.pid();
        let is_counted = pid != NULL_PID && !packet.is_damaged();
        let jumps = is_counted && self.counted.insert(pid);
        let is_timed = is_counted && packet.clock_reference().is_some();
        let leaps = is_timed && self.timed.insert(pid);
        if !jumps && !leaps {
            return hand_on(packet);
        }
        let (before, after) = packet.around();
        let mut hand_on_as = |bytes: &[u8]| {
            let whole = [before, bytes, after].concat();
            Packet::within(&whole, before.len())
                .into_iter()
                .for_each(&mut hand_on);
        };
        let payload = match jumps && begins_h265(packet) {
            true => &END_OF_SEQUENCE[..],
            false => &[],
        };
        let mut marked = *packet.bytes;
        if packet.has_flags() {
            marked[5] |= DISCONTINUITY;
        }
        if !packet.has_flags() || !payload.is_empty() {
            hand_on_as(&mark(pid, packet.counter_before(), payload));
        }
        hand_on_as(&marked);
    }
}

impl Pids {
    /// Adds a PID. Returns whether it is a new one.
    fn insert(&mut self, pid: u16) -> bool {
        let bit = 1 << (pid % 64);
        let Some(word) = self.0.get_mut(usize::from(pid / 64)) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// Returns whether a picture of H.265 begins in a packet: with its delimiter or parameter sets.
fn begins_h265(packet: Packet<'_>) -> bool {
    let [0, 0, 1, 0xe0..=0xef, _, _, _, _, length, rest @ ..] = packet.payload() else {
        return false;
    };
    let content = rest.get(usize::from(*length)..).unwrap_or(&[]);
    let begins = matches!(
        content,
        [0, 0, 1, 0x40 | 0x46, 1, ..] | [0, 0, 0, 1, 0x40 | 0x46, 1, ..]
    );
    packet.unit_starts() && begins
}

/// Returns a packet that says that its PID jumps here. It begins a PES packet if it has a payload.
fn mark(pid: u16, counter: u8, payload: &[u8]) -> [u8; PACKET_BYTES] {
    let mut packet = [STUFFING; PACKET_BYTES];
    let begin = PACKET_BYTES - payload.len();
    let has_payload = !payload.is_empty();
    let control = 0x20 | u8::from(has_payload) << 4 | counter;
    packet[..4].copy_from_slice(&packet_head(pid, has_payload, control));
    packet[4..6].copy_from_slice(&[(begin - 5) as u8, DISCONTINUITY]);
    packet[begin..].copy_from_slice(payload);
    packet
}

#[cfg(test)]
mod tests {
    use super::super::super::mpegts::SYNC_BYTE;
    use super::*;

    fn packet(pid: u16, counter: u8, flags: Option<u8>) -> [u8; PACKET_BYTES] {
        let [high, low] = pid.to_be_bytes();
        let mut bytes = [7; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[SYNC_BYTE, high, low, 0x10 | counter]);
        if let Some(flags) = flags {
            bytes[3] |= 0x20;
            bytes[4..6].copy_from_slice(&[7, flags]);
        }
        bytes
    }

    /// PID, counter, payload and mark of each packet.
    fn pass(packets: &[[u8; PACKET_BYTES]], before: usize) -> Vec<(u16, u8, bool, bool)> {
        let (mut seam, mut out) = (Seam::default(), Vec::new());
        for bytes in packets {
            let whole = [&[0xaa; 4][..before], bytes].concat();
            let packet = Packet::within(&whole, before).expect("a sync byte");
            seam.pass(packet, |packet| out.extend_from_slice(packet.whole));
        }
        let each = out.chunks(before + PACKET_BYTES).map(|whole| {
            assert!(whole[..before].iter().all(|byte| *byte == 0xaa));
            let packet = Packet::within(whole, before).expect("in step");
            let (head, has_mark) = (packet.bytes[3], packet.is_discontinuous());
            (packet.pid(), head & 15, head & 0x10 != 0, has_mark)
        });
        each.collect()
    }

    #[test]
    fn a_jump_is_marked_once_and_the_counters_continue() {
        let packets = [
            packet(0, 3, None),
            packet(0x100, 0, None),
            packet(0x100, 1, Some(0x10)),
            packet(0x100, 2, Some(0x10)),
            packet(0x101, 9, Some(0)),
            packet(0x101, 10, None),
            packet(NULL_PID, 0, None),
            packet(0, 4, None),
        ];
        let expected = [
            (0, 2, false, true),
            (0, 3, true, false),
            (0x100, 15, false, true),
            (0x100, 0, true, false),
            // The clock, too.
            (0x100, 1, true, true),
            (0x100, 2, true, false),
            (0x101, 9, true, true),
            (0x101, 10, true, false),
            (NULL_PID, 0, true, false),
            (0, 4, true, false),
        ];
        for before in [0, 4] {
            assert_eq!(pass(&packets, before), expected);
        }
    }

    /// The packet in front has flags up to its end, and no payload.
    #[test]
    fn a_mark_is_stuffed_to_a_whole_packet() {
        for (pid, counter, head) in [
            (0, 1, [0x47, 0x00, 0x00, 0x20]),
            (0x100, 0, [0x47, 0x01, 0x00, 0x2f]),
            (0x1ffe, 10, [0x47, 0x1f, 0xfe, 0x29]),
        ] {
            let (mut seam, mut out) = (Seam::default(), Vec::new());
            let bytes = packet(pid, counter, None);
            let whole = Packet::within(&bytes, 0).expect("a sync byte");
            seam.pass(whole, |packet| out.extend_from_slice(packet.whole));
            let mark = [&head[..], &[183, 0x80], &[0xff; 182]].concat();
            assert_eq!(out, [&mark[..], &bytes].concat(), "{pid}");
        }
    }

    /// Each PID is marked once, after any other PIDs.
    #[test]
    fn every_pid_has_its_own_first_packet() {
        let pids = || 0..NULL_PID;
        let packets: Vec<_> = pids().map(|pid| packet(pid, 0, None)).collect();
        let passed = pass(&[&packets[..], &packets].concat(), 0);
        let first = pids().flat_map(|pid| [(pid, 15, false, true), (pid, 0, true, false)]);
        let again = pids().map(|pid| (pid, 0, true, false));
        assert!(passed.into_iter().eq(first.chain(again)));
    }

    /// Tried with ffmpeg: it says "Duplicate POC in a sequence" of an open group without this.
    #[test]
    fn h265_begins_behind_the_end_of_a_sequence() {
        let delimiter = b"\0\0\x01\xe0\0\0\x80\x80\x05\x21\0\x01\0\x01\0\0\0\x01\x46\x01\x50";
        let sets = b"\0\0\x01\xe3\0\0\x80\0\0\0\0\x01\x40\x01\x0c";
        let h264 = b"\0\0\x01\xe0\0\0\x80\0\0\0\0\0\x01\x09\xf0";
        for (content, ends) in [(&delimiter[..], true), (sets, true), (h264, false)] {
            for flags in [None, Some(0x40)] {
                let mut key = packet(0x100, 5, flags);
                key[1] |= 0x40;
                let begin = if flags.is_some() { 12 } else { 4 };
                key[begin..begin + content.len()].copy_from_slice(content);
                let (mut seam, mut out) = (Seam::default(), Vec::new());
                for _ in 0..2 {
                    let whole = Packet::within(&key, 0).expect("a sync byte");
                    seam.pass(whole, |packet| out.extend_from_slice(packet.whole));
                }
                if flags.is_some() {
                    key[5] |= DISCONTINUITY;
                }
                let at = if ends || flags.is_none() {
                    PACKET_BYTES
                } else {
                    0
                };
                assert_eq!(out[at..at + PACKET_BYTES], key);
                assert_eq!(out.len(), at + 2 * PACKET_BYTES);
                let front = Packet::within(&out, 0).expect("a sync byte");
                let is_end = front.payload() == END_OF_SEQUENCE && front.unit_starts();
                assert_eq!(is_end, ends, "{content:?}");
                assert!(front.is_discontinuous());
                if ends {
                    assert_eq!((front.bytes[3], front.bytes[4]), (0x34, 168));
                }
            }
        }
    }

    #[test]
    fn a_damaged_packet_is_not_marked() {
        let mut damaged = packet(0x100, 5, None);
        damaged[1] |= 0x80;
        let passed = pass(&[damaged, packet(0x100, 7, None)], 0);
        assert_eq!(passed.len(), 3);
        assert_eq!(passed[1], (0x100, 6, false, true));
    }
}
