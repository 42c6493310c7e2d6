//! PES packets that have begun and are not whole. Broadcast multiplexers interleave the packets of
//! several PES packets. So where a picture of one stream begins, the sound of another is half
//! there. PES packets of video need not say how long they are. They do not count here, since the
//! next one ends them.

use super::Packet;
use super::streams::Streams;

/// Open PES packets of a program's streams beside its video. See the module.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct OpenPes {
    /// PID of each open PES packet, and how many bytes of it are to come: 0 for a free place.
    packets: [(u16, u32); PACKETS_MAX],
}

/// Maximal number of PES packets that are tracked. Others count as whole.
const PACKETS_MAX: usize = 8;
/// Bytes of a PES packet that its length does not count (ISO/IEC 13818-1 section 2.4.3.6).
const HEAD_BYTES: u32 = 6;

impl OpenPes {
    /// Takes a packet that does not belong to video.
    pub fn take(&mut self, packet: Packet<'_>, streams: &Streams) {
        if !packet.unit_starts() && self.packets.iter().all(|(_, left)| *left == 0) {
            return;
        }
        let (pid, payload) = (packet.pid(), packet.payload());
        let is_its = |(other, left): &(u16, u32)| *left > 0 && *other == pid;
        let known = self.packets.iter().position(is_its);
        let before = known.map_or(0, |index| self.packets[index].1);
        let before = match packet.unit_starts() {
            true => whole_bytes(payload),
            false => before,
        };
        let left = before.saturating_sub(payload.len() as u32);
        if known.is_none() && (left == 0 || !streams.is_beside_video(pid)) {
            return;
        }
        let free = || self.packets.iter().position(|(_, left)| *left == 0);
        let Some(index) = known.or_else(free) else {
            return;
        };
        self.packets[index] = (pid, left);
    }

    /// Returns whether a PES packet of another PID is open.
    pub fn is_any_but(&self, pid: u16) -> bool {
        let mut packets = self.packets.iter();
        packets.any(|(other, left)| *left > 0 && *other != pid)
    }
}

/// Returns the length of the PES packet that begins so. A packet that does not say its length
/// counts as whole: 0.
fn whole_bytes(payload: &[u8]) -> u32 {
    match payload {
        [0, 0, 1, _, high, low, ..] => HEAD_BYTES + u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::SYNC_BYTE;
    use super::*;

    /// Sound streams from 0x101 on, and one of subtitles.
    fn streams() -> Streams {
        let sound = (1..=10).flat_map(|pid| [0x0f, 0xe1, pid, 0xf0, 0]);
        let words = [0x05, 0xe2, 0, 0xf0, 0];
        Streams::read(
            &[0xe1, 0, 0xf0, 0]
                .into_iter()
                .chain(sound)
                .chain(words)
                .collect::<Vec<_>>(),
        )
    }

    /// A full packet: 184 bytes of payload.
    fn packet(pid: u16, begin: Option<[u8; 6]>) -> [u8; 188] {
        let [high, low] = pid.to_be_bytes();
        let mut packet = [0x55; 188];
        packet[..4].copy_from_slice(&[SYNC_BYTE, high, low, 0x10]);
        if let Some(begin) = begin {
            packet[1] |= 0x40;
            packet[4..10].copy_from_slice(&begin);
        }
        packet
    }

    /// A packet that begins a PES packet of this length.
    fn begin(pid: u16, bytes: u16) -> [u8; 188] {
        let [high, low] = (bytes - 6).to_be_bytes();
        packet(pid, Some([0, 0, 1, 0xc0, high, low]))
    }

    /// Returns the PIDs that are open after each packet.
    fn open_after_each(packets: &[[u8; 188]]) -> Vec<Vec<u16>> {
        let mut open = OpenPes::default();
        let pids: Vec<u16> = (0x101..=0x10a).chain([0x200]).collect();
        let mut after = Vec::new();
        for bytes in packets {
            open.take(Packet::within(bytes, 0).expect("a packet"), &streams());
            let others = |pid: u16| open.is_any_but(pid);
            let of_all = others(0x1fff);
            // A PID is open if it is the only one, or if leaving out another one changes nothing.
            let is_open = |pid: &&u16| {
                open.packets
                    .iter()
                    .any(|(other, left)| other == *pid && *left > 0)
            };
            let these: Vec<u16> = pids.iter().filter(is_open).copied().collect();
            assert_eq!(of_all, !these.is_empty());
            for pid in &pids {
                let expected = these.iter().any(|open| open != pid);
                assert_eq!(others(*pid), expected, "beside {pid:#x}: {these:x?}");
            }
            after.push(these);
        }
        after
    }

    #[test]
    fn a_pes_packet_is_open_until_its_length_has_come() {
        let (a, b) = (0x101, 0x102);
        let rest = |pid| packet(pid, None);
        for (packets, open) in [
            // A PES packet that fits into one packet, one that is a byte longer, and one that is a
            // byte longer than two packets.
            (vec![begin(a, 184)], vec![vec![]]),
            (vec![begin(a, 185), rest(a)], vec![vec![a], vec![]]),
            (
                vec![begin(a, 2 * 184 + 1), rest(a), rest(a), rest(a)],
                vec![vec![a], vec![a], vec![], vec![]],
            ),
            // Two that are interleaved, and a packet of another PID.
            (
                vec![
                    begin(a, 400),
                    begin(0x200, 300),
                    rest(b),
                    rest(0x200),
                    rest(a),
                    rest(a),
                ],
                vec![
                    vec![a],
                    vec![a, 0x200],
                    vec![a, 0x200],
                    vec![a],
                    vec![a],
                    vec![],
                ],
            ),
            // The next one begins before the end of the last: a packet was lost.
            (
                vec![begin(a, 400), begin(a, 200), rest(a)],
                vec![vec![a], vec![a], vec![]],
            ),
            (vec![begin(a, 400), begin(a, 100)], vec![vec![a], vec![]]),
            // One that does not say its length, one without a head, and one of no stream.
            (vec![packet(a, Some([0, 0, 1, 0xc0, 0, 0]))], vec![vec![]]),
            (vec![packet(a, Some([0, 1, 1, 0xc0, 9, 9]))], vec![vec![]]),
            (vec![packet(a, Some([1, 0, 1, 0xc0, 9, 9]))], vec![vec![]]),
            (vec![packet(a, Some([0, 0, 0, 0xc0, 9, 9]))], vec![vec![]]),
            (
                vec![begin(0x300, 400), begin(a, 400)],
                vec![vec![], vec![a]],
            ),
            (
                vec![packet(a, Some([0, 0, 1, 0xc0, 1, 0])), rest(a)],
                vec![vec![a], vec![]],
            ),
            (vec![rest(a), rest(a)], vec![vec![], vec![]]),
        ] {
            assert_eq!(open_after_each(&packets), open);
        }
        // In a place that is free again.
        let again = [
            begin(a, 200),
            begin(b, 200),
            rest(a),
            begin(a, 200),
            rest(b),
        ];
        assert_eq!(
            open_after_each(&again),
            [vec![a], vec![a, b], vec![b], vec![a, b], vec![a]]
        );
    }

    #[test]
    fn pes_packets_beyond_the_last_place_count_as_whole() {
        let mut packets: Vec<_> = (0x101..=0x109).map(|pid| begin(pid, 300)).collect();
        packets.extend((0x101..=0x109).map(|pid| packet(pid, None)));
        let after = open_after_each(&packets);
        assert_eq!(after[7], (0x101..=0x108).collect::<Vec<_>>());
        assert_eq!(after[8], after[7]);
        assert!(after[16].is_empty() && after[17].is_empty());
    }
}
