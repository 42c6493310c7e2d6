//! Which PES packets have begun and are not whole: multiplexers of broadcast weave the packets of
//! several of them into each other, and where one stream's picture begins another's sound is half
//! here. Those of video, which need not say how long they are, are left out: the next one ends
//! them.

use super::Packet;
use super::streams::Streams;

/// See the module. Those of a program's streams beside its video.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Open {
    /// The PID of each, and how many bytes of it are to come: none of those that are whole.
    places: [(u16, u32); PLACES],
    /// So many are not whole.
    count: usize,
}

/// Of more nothing is known: then they are taken for whole.
const PLACES: usize = 8;
/// Of a PES packet, what its length does not count (ISO/IEC 13818-1 section 2.4.3.6).
const HEAD_BYTES: u32 = 6;

impl Open {
    /// Takes a packet that belongs to no video.
    pub fn take(&mut self, packet: Packet<'_>, streams: &Streams) {
        if self.count == 0 && !packet.unit_starts() {
            return;
        }
        let (pid, payload) = (packet.pid(), packet.payload());
        let is_its = |(other, left): &(u16, u32)| *left > 0 && *other == pid;
        let known = self.places.iter().position(is_its);
        let before = known.map_or(0, |index| self.places[index].1);
        let before = match packet.unit_starts() {
            true => whole_bytes(payload).unwrap_or(0),
            false => before,
        };
        let left = before.saturating_sub(payload.len() as u32);
        if known.is_none() && (left == 0 || !streams.is_beside_video(pid)) {
            return;
        }
        let free = || self.places.iter().position(|(_, left)| *left == 0);
        let Some(index) = known.or_else(free) else {
            return;
        };
        self.places[index] = (pid, left);
        self.count = self.count + usize::from(left > 0) - usize::from(known.is_some());
    }

    /// Whether there is one, but for that of this PID.
    pub fn is_any_but(&self, pid: u16) -> bool {
        let mut places = self.places.iter();
        self.count > 0 && places.any(|(other, left)| *left > 0 && *other != pid)
    }
}

/// How long the PES packet is that begins so; `None` if it does not say.
fn whole_bytes(payload: &[u8]) -> Option<u32> {
    match payload {
        [0, 0, 1, _, 0, 0, ..] => None,
        [0, 0, 1, _, high, low, ..] => {
            Some(HEAD_BYTES + u32::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

#[cfg(feature = "handover")]
impl Open {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        let mut places = self.places.iter();
        self.count == places.by_ref().filter(|(_, left)| *left > 0).count()
    }
}
