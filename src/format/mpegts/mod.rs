//! MPEG-TS (ISO/IEC 13818-1): its tables are the header, and decoding can begin at a random-access
//! point of the first video stream; without video, at any PES packet of sound.
//!
//! Owns the newest PAT and PMTs as the packets that carried them ([`Tables`], which are bounded),
//! and nothing else of the stream. Work for a packet that is neither a table nor the start of a PES
//! packet is a look at its head, unless it is not clear yet what picture it belongs to
//! ([`Search`]), and at those that are open ([`Open`]); a table is read once, when it changes. What
//! was damaged on its way counts for nothing.

mod aligner;
mod open;
mod packet;
mod picture;
pub(crate) mod psi;
mod streams;
mod tables;

pub(super) use aligner::PROOF_BYTES_MAX;
pub use aligner::{Aligner, Shape};
pub use packet::{PACKET_BYTES, Packet, SYNC_BYTE};
#[cfg(feature = "remux")]
pub(crate) use psi::checksum;
pub(super) use tables::Tables;

use super::header::{Header, Parts};
use super::{Finding, Findings, LetGo, MediaTime, Start, UNIT_SPACING};
use open::Open;
use picture::{Codec, Look, Search};

/// The scanner.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct MpegTs {
    aligner: Aligner,
    tables: Tables,
    /// Where the unit that was reported last begins.
    last_unit: Option<u64>,
    last_join: Option<u64>,
    /// An encoder that has set the random-access indicator once sets it always.
    has_indicator: bool,
    /// What is looked through for a key picture.
    search: Option<Search>,
    /// What has begun beside the video, and is not whole.
    open: Open,
    /// Where something was open when a picture began, or sound: the newest.
    last_split: Option<u64>,
    /// Whether the video that the tables name comes.
    video: Arrival,
    /// Behind the last whole packet.
    in_step_until: u64,
}

/// Of video that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Arrival {
    /// Nothing of it has come yet, while sound has since this time.
    Awaited {
        since: Option<MediaTime>,
    },
    Come,
    /// It is not waited for any more: sound decides.
    Missing,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival::Awaited { since: None }
    }
}

/// A table may name video that never comes: after so long sound decides. In ticks of 90 kHz.
const SOUND_ONLY_TICKS: i64 = 4 * MediaTime::TICKS_PER_SECOND as i64;
/// Points of sound lie at least so far apart.
const AUDIO_SPACING: u64 = 1024;
/// Bytes without a packet among them: it is no transport stream any more.
pub(crate) const OUT_OF_STEP_BYTES_MAX: u64 = 64 * 1024;

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
        Header(Parts::Several(&self.tables))
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
        self.in_step_until = at + packet.whole().len() as u64;
        if packet.is_damaged() {
            return Ok(());
        }
        let video = self.tables.streams().video;
        let had_streams = !self.tables.streams().is_empty();
        if self.tables.read(packet)? {
            if had_streams {
                findings(Finding::Break(at), self.header());
            }
            findings(Finding::Header, self.header());
            (self.last_unit, self.last_join, self.search) = (None, None, None);
            self.open = Open::default();
            if self.tables.streams().video != video {
                self.video = Arrival::default();
            }
        }
        if self.last_unit.is_none_or(|last| at >= last + UNIT_SPACING) {
            self.last_unit = Some(at);
            findings(Finding::Unit(Start::at(at)), self.header());
        }
        self.look_whether_it_splits(at, packet);
        let join = self.join(at, packet);
        if packet.unit_starts()
            && (join.is_some() || self.is_video(packet.pid()))
            && let Some(time) = decoding_time(packet.payload())
        {
            findings(Finding::Time(at, time), self.header());
        }
        if let Some(join) = join {
            self.last_join = Some(join);
            if self.last_split == Some(join) {
                findings(Finding::Split(join), self.header());
            }
            findings(Finding::Join(Start::at(join)), self.header());
        }
        Ok(())
    }

    fn is_video(&self, pid: u16) -> bool {
        let video = self.tables.streams().video;
        video.is_some_and(|(video, _)| pid == video)
    }

    /// Where that begins which decides where decoding can, is anything else open?
    fn look_whether_it_splits(&mut self, at: u64, packet: Packet<'_>) {
        let is_video = self.is_video(packet.pid());
        let may_decide = is_video || self.video != Arrival::Come;
        if may_decide && packet.unit_starts() && self.open.is_any_but(packet.pid()) {
            self.last_split = Some(at);
        }
        if !is_video {
            self.open.take(packet, &self.tables.streams());
        }
    }

    /// Where decoding can begin, if this packet shows a place.
    fn join(&mut self, at: u64, packet: Packet<'_>) -> Option<u64> {
        let streams = self.tables.streams();
        let pid = packet.pid();
        match streams.video {
            Some((video, codec)) if pid == video => return self.video_join(at, packet, codec),
            _ if !packet.unit_starts() || self.video == Arrival::Come => return None,
            Some(_) if streams.sound.contains(pid) => {
                self.await_video(packet.payload());
                if self.video != Arrival::Missing {
                    return None;
                }
            }
            None if streams.without_video().contains(pid) => {}
            Some(_) | None => return None,
        }
        let is_spaced = self.last_join.is_none_or(|last| at >= last + AUDIO_SPACING);
        is_spaced.then_some(at)
    }

    fn video_join(&mut self, at: u64, packet: Packet<'_>, codec: Codec) -> Option<u64> {
        if packet.unit_starts() {
            self.video = Arrival::Come;
            self.has_indicator |= packet.is_random_access();
            if packet.is_random_access() {
                self.search = None;
                return Some(at);
            }
            let is_readable = !self.has_indicator && !packet.is_scrambled();
            self.search = is_readable.then(|| Search::begin(codec, at, packet.payload()));
        } else if let Some(search) = &mut self.search {
            search.feed(packet.payload());
        }
        let (look, begin) = self.search.as_ref()?.verdict()?;
        self.search = None;
        (look == Look::Key).then_some(begin)
    }

    /// A PES packet of sound begins while it is not clear whether video comes.
    fn await_video(&mut self, pes: &[u8]) {
        let (Arrival::Awaited { since }, Some(time)) = (&mut self.video, decoding_time(pes)) else {
            return;
        };
        let elapsed = time.since(*since.get_or_insert(time));
        if elapsed < 0 {
            // The clock has gone back.
            *since = Some(time);
        } else if elapsed >= SOUND_ONLY_TICKS {
            self.video = Arrival::Missing;
        }
    }
}

/// When a PES packet's head says that it is to be decoded: where it names no such time, when it is
/// to be shown (ISO/IEC 13818-1 section 2.4.3.6).
pub(super) fn decoding_time(pes: &[u8]) -> Option<MediaTime> {
    let [0, 0, 1, _, _, _, _, flags, _, times @ ..] = pes else {
        return None;
    };
    let times = match flags >> 6 {
        2 => times,
        3 => times.get(5..)?,
        _ => return None,
    };
    let [a, b, c, d, e] = times.first_chunk::<5>()?.map(u64::from);
    let ticks = (a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1;
    Some(MediaTime::from_ticks(ticks))
}

#[cfg(feature = "handover")]
impl MpegTs {
    /// Whether what was told of it can be, of bytes up to this offset.
    pub fn fits(&self, offset: u64) -> bool {
        let begin = self.search.as_ref().map(|search| search.begins_at());
        let places = [self.last_unit, self.last_join, self.last_split, begin];
        self.aligner.fits()
            && self.tables.fits()
            && self.open.fits()
            && places.into_iter().flatten().all(|place| place <= offset)
    }
}

#[cfg(test)]
mod tests;
