//! MPEG-TS (ISO/IEC 13818-1): its tables are the header, and decoding can begin at a random-access
//! point of the first video stream.
//!
//! Owns the newest PAT and PMTs as the packets that carried them ([`Tables`], which are bounded),
//! and nothing else of the stream. Work for a packet that is neither a table nor the start of a PES
//! packet is a look at its head; a table is read once, when it changes.

mod packet;
mod picture;
mod psi;
mod tables;

pub use packet::{Aligner, PACKET_BYTES, Packet, SYNC_BYTE};
pub(super) use tables::Tables;

use super::header::{Header, Parts};
use super::{Finding, Findings, LetGo, Start, UNIT_SPACING};
use picture::Codec;

/// The scanner.
#[derive(Debug, Default)]
pub struct MpegTs {
    aligner: Aligner,
    tables: Tables,
    /// Where the unit that was reported last begins.
    last_unit: Option<u64>,
    last_join: Option<u64>,
    /// An encoder that has set the random-access indicator once sets it always.
    has_indicator: bool,
    /// Behind the last whole packet.
    in_step_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Track {
    Video(u16, Codec),
    Audio(u16),
}

/// Points of sound lie at least so far apart.
const AUDIO_SPACING: u64 = 1024;
/// Bytes without a packet among them: it is no transport stream any more.
pub(super) const OUT_OF_STEP_BYTES_MAX: u64 = 64 * 1024;

impl MpegTs {
    /// Takes the next bytes, of which the first is at `offset`.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        offset: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), LetGo> {
        let mut aligner = std::mem::take(&mut self.aligner);
        let mut broken = false;
        aligner.feed(bytes, |at, packet| {
            let at = offset.saturating_add_signed(at);
            broken |= at.saturating_sub(self.in_step_until) > OUT_OF_STEP_BYTES_MAX;
            broken = broken || self.packet(at, packet, findings).is_err();
        });
        self.aligner = aligner;
        let behind = offset + bytes.len() as u64;
        broken |= behind.saturating_sub(self.in_step_until) > 2 * OUT_OF_STEP_BYTES_MAX;
        if broken { Err(LetGo) } else { Ok(()) }
    }

    /// The header that was told last.
    pub fn header(&self) -> Header<'_> {
        Header(Parts::Tables(&self.tables))
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.aligner.held_bytes() + self.tables.held_bytes()
    }

    fn packet(
        &mut self,
        at: u64,
        packet: Packet<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), LetGo> {
        self.in_step_until = at + PACKET_BYTES as u64;
        if self.tables.read(packet)? {
            findings(Finding::Header, self.header());
            self.last_unit = None;
            self.last_join = None;
        }
        if self.last_unit.is_none_or(|last| at >= last + UNIT_SPACING) {
            self.last_unit = Some(at);
            findings(Finding::Unit(Start::at(at)), self.header());
        }
        if packet.unit_starts() && self.is_join(at, packet) {
            self.last_join = Some(at);
            findings(Finding::Join(Start::at(at)), self.header());
        }
        Ok(())
    }

    fn is_join(&mut self, at: u64, packet: Packet<'_>) -> bool {
        match self.tables.track() {
            Some(Track::Video(pid, codec)) if pid == packet.pid() => {
                self.has_indicator |= packet.is_random_access();
                packet.is_random_access()
                    || (!self.has_indicator
                        && !packet.is_scrambled()
                        && codec.begins_key_picture(packet.payload()))
            }
            Some(Track::Audio(pid)) if pid == packet.pid() => {
                self.last_join.is_none_or(|last| at >= last + AUDIO_SPACING)
            }
            Some(Track::Video(..) | Track::Audio(_)) | None => false,
        }
    }
}

#[cfg(test)]
mod tests;
