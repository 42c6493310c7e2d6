//! Cuts MPEG-TS (ISO/IEC 13818-1) so that viewers have whole PES packets of each stream. A decoder
//! shows what it can of a picture that is cut off, complains, and may spoil the next one.
//!
//! So viewers are one picture late, since mostly the first packet of the next picture shows that a
//! picture is whole. The cutter does not wait for a PES packet that never ends.

use super::super::Unsupported;
use super::super::mpegts::{Aligner, OUT_OF_STEP_BYTES_MAX, Packet, Shape, decoding_time};
use super::super::window::{StepResult, Walker, grow};
use super::seam::{NULL_PID, Seam};
use crate::copied::Copied;
use crate::time::MediaTime;

/// Cutter of MPEG-TS.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct PacketCutter {
    pub aligner: Aligner,
    /// Shape of the previous source's packets.
    output_shape: Option<Shape>,
    /// Bytes since the last packet: at most [`OUT_OF_STEP_BYTES_MAX`].
    bytes_without: usize,
    pub waiting: WaitingPackets,
    /// Marks jumps, if another source came before this one.
    seam: Option<Box<Seam>>,
}

/// Packets from the first one on whose PES packet is not whole.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct WaitingPackets {
    /// Maximal number of bytes that wait, if they are fewer than [`WAITING_BYTES_MAX`].
    pub bytes_max: usize,
    /// The packets: at most that many bytes. Each byte moves to the front at most [`OPEN_MAX`]
    /// times.
    pub(super) bytes: Copied,
    /// Open PES packets by where they begin. The first one begins with the first byte. There are at
    /// most [`OPEN_MAX`], one for each stream, and none if no packet waits.
    open: Vec<OpenPes>,
    /// Number of packets that belonged to no open PES packet, and had content.
    #[cfg_attr(feature = "handover", serde(skip))]
    others: usize,
}

/// A PES packet that has come in part.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct OpenPes {
    pid: u16,
    /// Position of its first byte among the waiting packets.
    begin: usize,
    /// Bytes of it that are to come. `None` if only the next PES packet shows where it ends.
    bytes_left: Option<usize>,
    /// The first other stream that began a PES packet since this one's last packet, and the time of
    /// that.
    since: Option<(u16, MediaTime)>,
    /// [`WaitingPackets::others`] when it began. After a hand-over it counts from 0.
    #[cfg_attr(feature = "handover", serde(skip))]
    others_before: usize,
}

/// Maximal number of bytes that wait, even if a unit may be longer. All of them go out at once, and
/// the stream scans them in that turn. A larger picture passes as it comes.
pub(super) const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Maximal number of packets with tables or unknown content that wait. A scan of these costs most.
const OTHERS_MAX: usize = 1024;
/// Maximal number of streams whose PES packets wait at once.
const OPEN_MAX: usize = 32;
/// When another stream has run for this time, the rest of a PES packet does not come, or has come:
/// a picture may last for minutes. In ticks of 90 kHz.
const AWAITED_TICKS: i64 = 45_000;

impl PacketCutter {
    /// Returns a cutter before the first packet. It holds at most `bytes_max`; more passes as it
    /// comes.
    pub fn new(bytes_max: usize) -> PacketCutter {
        PacketCutter {
            aligner: Aligner::default(),
            output_shape: None,
            bytes_without: 0,
            waiting: WaitingPackets {
                bytes_max,
                bytes: Copied::default(),
                open: Vec::new(),
                others: 0,
            },
            seam: None,
        }
    }

    /// Begins another source. Packets that wait for the rest of the previous source are left out.
    pub fn seam(&mut self) {
        let output_shape = self.aligner.shape.or(self.output_shape);
        *self = PacketCutter {
            output_shape,
            seam: Some(Box::default()),
            ..PacketCutter::new(self.waiting.bytes_max)
        };
    }

    /// Returns whether a source with this header has packets of the same shape. Demultiplexers rely
    /// on it.
    pub fn are_like(&self, header: &[u8]) -> bool {
        let shapes = self.output_shape.zip(Shape::of_header(header));
        shapes.is_none_or(|(output_shape, has)| output_shape == has)
    }

    /// Passes all packets that wait.
    pub fn release(&mut self, out: &mut Vec<u8>) {
        self.waiting.open.clear();
        self.waiting.release(out);
    }

    /// Returns whether a handed-over state is possible, for units of this length.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, unit_bytes_max: usize) -> bool {
        self.aligner.is_valid()
            && self.waiting.bytes.len() <= unit_bytes_max
            && self.waiting.open.len() <= OPEN_MAX
    }
}

/// Bytes between packets are left out. Too many of them in a row are an error.
impl Walker<Vec<u8>> for PacketCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        let left = (OUT_OF_STEP_BYTES_MAX as usize).saturating_sub(self.bytes_without);
        if left == 0 {
            self.release(out);
            return Err(Unsupported.into());
        }
        let piece = &seen[..left.min(seen.len())];
        self.bytes_without += piece.len();
        self.aligner.feed(piece, |at, packet| {
            // The first packets that prove the shape may lie in earlier pieces.
            let end = at + packet.whole.len() as i64;
            self.bytes_without = (piece.len() as i64 - end) as usize;
            match &mut self.seam {
                None => self.waiting.take(packet, out),
                Some(seam) => seam.pass(packet, |packet| self.waiting.take(packet, out)),
            }
        });
        Ok(piece.len() as u64)
    }
}

impl WaitingPackets {
    fn take(&mut self, packet: Packet<'_>, out: &mut Vec<u8>) {
        let bytes_max = self.bytes_max.min(WAITING_BYTES_MAX);
        let others_before = self.open.first().map(|open| open.others_before);
        let others = others_before.map_or(0, |before| self.others - before);
        if self.bytes.len() + packet.whole.len() > bytes_max || others > OTHERS_MAX {
            self.open.clear();
            self.release(out);
        }
        if !packet.is_damaged() {
            self.note(packet);
        }
        if self.open.is_empty() && self.bytes.is_empty() {
            out.extend_from_slice(packet.whole);
            return;
        }
        grow(&mut self.bytes.bytes, packet.whole.len(), bytes_max);
        self.bytes.bytes.extend_from_slice(packet.whole);
        self.release(out);
    }

    /// Updates the open PES packets for the next packet.
    fn note(&mut self, packet: Packet<'_>) {
        let (pid, payload) = (packet.pid(), packet.payload());
        if packet.unit_starts() {
            self.open.retain(|open| open.pid != pid);
            if let Some(time) = decoding_time(payload) {
                self.open.retain_mut(|open| open.note_waiting(pid, time));
            }
            if let [0, 0, 1, _, high, low, ..] = *payload
                && self.open.len() < OPEN_MAX
            {
                let length = usize::from(u16::from_be_bytes([high, low]));
                self.open.push(OpenPes {
                    pid,
                    begin: self.bytes.len(),
                    // Video need not say its length.
                    bytes_left: (length > 0).then_some(6 + length),
                    since: None,
                    others_before: self.others,
                });
            }
        }
        let Some(index) = self.open.iter().position(|open| open.pid == pid) else {
            self.others += usize::from(pid != NULL_PID);
            return;
        };
        let open = &mut self.open[index];
        open.since = None;
        if let Some(bytes_left) = &mut open.bytes_left {
            *bytes_left = bytes_left.saturating_sub(payload.len());
        }
        if open.bytes_left == Some(0) {
            self.open.remove(index);
        }
    }

    /// Passes the packets before the first open PES packet.
    fn release(&mut self, out: &mut Vec<u8>) {
        let length = self.bytes.len();
        let end = self
            .open
            .first()
            .map_or(length, |open| open.begin.min(length));
        if end == 0 {
            return;
        }
        out.extend_from_slice(&self.bytes[..end]);
        self.bytes.remove(end);
        for open in &mut self.open {
            open.begin = open.begin.saturating_sub(end);
        }
    }
}

impl OpenPes {
    /// Notes a PES packet of another stream that begins before this one's rest has come. Returns
    /// whether the rest may still come.
    fn note_waiting(&mut self, pid: u16, time: MediaTime) -> bool {
        let (other, since) = *self.since.get_or_insert((pid, time));
        other != pid || (0..AWAITED_TICKS).contains(&time.since(since))
    }
}

#[cfg(test)]
mod tests;
