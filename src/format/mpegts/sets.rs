//! Newest parameter sets of H.264 and H.265, and sequence headers of MPEG-2 video, for decoders that
//! begin at a key picture without its own sets. ffmpeg writes such MPEG-TS from MP4.
//!
//! When the sets exceed [`SETS_BYTES_MAX`], all are dropped, and collecting starts again.

use super::packet::{PACKET_BYTES, packet_head};

/// Newest parameter sets. See the module.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sets {
    /// Sets in force, in the order in which their names came first.
    kept: Vec<Set>,
    /// Set that is being read. It is empty between two sets.
    coming: Vec<u8>,
    /// Types that came since [`Sets::begin_picture`], one bit each.
    brought: u64,
    /// Whether the sets have changed since packets were made of them.
    pub has_changed: bool,
}

#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Set {
    /// NAL unit type, and number of the set within that type.
    name: (u8, u32),
    /// The NAL unit.
    nal: Vec<u8>,
}

/// Maximal number of bytes of all sets. Real streams have 40 to 600.
const SETS_BYTES_MAX: usize = 1024;
const START_CODE: [u8; 4] = [0, 0, 0, 1];
/// Length of a PES head without times (ISO/IEC 13818-1 section 2.4.3.6). The next PES packet has
/// them.
const HEAD_BYTES: usize = 9;
/// Maximal number of bytes that [`Sets::packets`] makes, for packets of receivers.
#[cfg(feature = "handover")]
pub(super) const PACKETS_BYTES_MAX: usize =
    ((HEAD_BYTES + SETS_BYTES_MAX) / (PACKET_BYTES - 4) + 1) * (PACKET_BYTES + 16);

impl Sets {
    /// Begins a PES packet. The last set of the previous one is whole.
    pub fn begin_picture(&mut self, name: impl Fn(&[u8]) -> Option<(u8, u32)>) {
        self.end(name, 0);
        self.brought = 0;
    }

    /// Drops the set that is being read, since packets are missing.
    pub fn lose(&mut self) {
        self.coming.clear();
    }

    /// Begins a parameter set with these bytes.
    pub fn begin(&mut self, first: &[u8]) {
        self.coming.clear();
        self.coming.extend_from_slice(first);
    }

    /// Takes the next byte, if a set has begun.
    pub fn take(&mut self, byte: u8) {
        if !self.coming.is_empty() && self.coming.len() <= SETS_BYTES_MAX {
            self.coming.push(byte);
        }
    }

    /// Ends the set. Its last `others` bytes belong to the next unit. `name` returns the type and
    /// the number of a set.
    pub fn end(&mut self, name: impl Fn(&[u8]) -> Option<(u8, u32)>, others: usize) {
        if self.coming.is_empty() {
            return;
        }
        if self.coming.len() > SETS_BYTES_MAX {
            self.coming.clear();
        }
        let end = self.coming.len().saturating_sub(others);
        let coming = &self.coming[..end];
        // Zeros after a NAL unit do not belong to it. A header of MPEG-2 may end with zeros: the
        // first bit of its start code is set.
        let has_end = coming.first().is_some_and(|first| first & 0x80 != 0);
        let zeros = coming.iter().rev().take_while(|byte| **byte == 0);
        let nal = match has_end {
            true => coming,
            false => &coming[..end - zeros.count()],
        };
        if let Some(name) = name(nal) {
            self.brought |= 1 << name.0;
            let place = self.kept.iter().position(|set| set.name == name);
            match place.map(|place| &mut self.kept[place]) {
                Some(set) if set.nal == nal => {}
                Some(set) => (set.nal, self.has_changed) = (nal.to_vec(), true),
                None => {
                    let nal = nal.to_vec();
                    self.kept.push(Set { name, nal });
                    self.has_changed = true;
                }
            }
            if self.bytes() > SETS_BYTES_MAX {
                self.kept.clear();
            }
        }
        self.coming.clear();
    }

    /// Returns whether the newest picture brought a set of each known type.
    pub fn are_brought(&self) -> bool {
        self.kept
            .iter()
            .all(|set| self.brought & 1_u64.wrapping_shl(set.name.0.into()) != 0)
    }

    /// Returns a PES packet with all sets, as packets that count from 0. Each packet has the bytes
    /// `before` and `after` of a recorder.
    pub fn packets(&mut self, pid: u16, (before, after): (&[u8], &[u8])) -> Vec<u8> {
        self.has_changed = false;
        if self.kept.is_empty() {
            return Vec::new();
        }
        let [high, low] = ((HEAD_BYTES - 6 + self.bytes()) as u16).to_be_bytes();
        let mut pes = vec![0, 0, 1, 0xe0, high, low, 0x80, 0, 0];
        for set in &self.kept {
            pes.extend_from_slice(&START_CODE);
            pes.extend_from_slice(&set.nal);
        }
        let mut packets = Vec::new();
        for (index, payload) in pes.chunks(PACKET_BYTES - 4).enumerate() {
            packets.extend_from_slice(before);
            packets.extend(packet_head(pid, index == 0, 0x10 | index as u8 & 0x0f));
            if let Some(stuffing) = (PACKET_BYTES - 5).checked_sub(payload.len()) {
                // An adaptation field of this length: flags and stuffing.
                let head = packets.len() - 1;
                packets[head] |= 0x20;
                packets.push(stuffing as u8);
                packets.extend((0..stuffing).map(|at| if at == 0 { 0 } else { 0xff }));
            }
            packets.extend_from_slice(payload);
            packets.extend_from_slice(after);
        }
        packets.shrink_to_fit();
        packets
    }

    fn bytes(&self) -> usize {
        let sets = self.kept.iter().map(|set| START_CODE.len() + set.nal.len());
        sets.sum()
    }

    /// Returns whether the state in a hand-over is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.bytes() <= SETS_BYTES_MAX && self.coming.len() <= SETS_BYTES_MAX + 1
    }
}

/// Writes continuity counters into `packets`, so that the last packet has the counter before
/// `counter`. Each packet has `length` bytes, and its sync byte at `before`.
pub(super) fn number(packets: &mut [u8], (before, length): (usize, usize), counter: u8) {
    for (after, packet) in packets.rchunks_mut(length.max(1)).enumerate() {
        let own = counter.wrapping_sub(after as u8).wrapping_sub(1);
        if let Some(byte) = packet.get_mut(before.saturating_add(3)) {
            *byte = *byte & 0xf0 | own & 0x0f;
        }
    }
}
