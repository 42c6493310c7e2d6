//! MPEG-TS (ISO/IEC 13818-1). Its tables are the header. Decoding can begin at a random-access
//! point of the first video stream or, without video, at any PES packet of sound.
//!
//! The scanner owns the newest PAT and PMTs as the packets that carried them ([`Tables`], which are
//! bounded), and nothing else of the stream. Most packets are neither a table nor the start of a
//! PES packet. For them it reads the head, looks at the open PES packets ([`OpenPes`]), and
//! searches the payload only until the picture is clear ([`Search`]). It parses a table once, when
//! the table changes. Damaged packets do not count.

mod aligner;
mod open;
mod packet;
mod picture;
pub(crate) mod psi;
mod sets;
mod streams;
mod tables;

pub(super) use aligner::PROOF_BYTES_MAX;
pub use aligner::{Aligner, Shape};
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) use packet::packet_head;
pub use packet::{PACKET_BYTES, Packet, SYNC_BYTE};
#[cfg(any(feature = "remux", test))]
pub(crate) use psi::checksum;
pub(super) use tables::Tables;

use super::header::{Header, InParts, Parts, Repetition};
use super::{Finding, Findings, SOUND_SPACING, Start, UNIT_SPACING, Unsupported, is_spaced};
use crate::time::MediaTime;
use open::OpenPes;
#[cfg(feature = "remux")]
pub(crate) use picture::may_begin;
use picture::{PictureCodec, Search};
use sets::Sets;

/// Scanner of MPEG-TS.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct MpegTs {
    aligner: Aligner,
    tables: Tables,
    /// Offset of the unit that was reported last.
    last_unit: Option<u64>,
    /// Offset of the newest join.
    last_join: Option<u64>,
    /// Whether the encoder has ever set the random-access indicator. An encoder that has set it
    /// once always sets it. Only video without other marks needs this.
    has_indicator: bool,
    /// Search for a key picture in the current PES packet.
    search: Option<Search>,
    /// Newest parameter sets.
    sets: Sets,
    /// Packets of the parameter sets in the header. They are empty before the first key picture
    /// that lacks its own sets.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    header_sets: Vec<u8>,
    /// Bytes before each packet's sync byte, and the length of a packet with these bytes.
    header_shape: (usize, usize),
    /// Continuity counter of the video's last packet.
    counter: u8,
    /// Work since [`MpegTs::take_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    work: usize,
    /// Whether the newest join point is a scrambled packet.
    is_scrambled: bool,
    /// PES packets beside the video that have begun and are not whole.
    open: OpenPes,
    /// Newest offset at which a picture or sound began while another PES packet was open.
    last_split: Option<u64>,
    /// Whether the video that the tables name comes.
    video: Arrival,
    /// Offset after the last whole packet. Too many bytes after it without a packet end the scan.
    in_step_until: u64,
}

/// Arrival of the video that a map names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Arrival {
    /// No video has come yet, while sound has come since this time.
    Awaited { since: Option<MediaTime> },
    /// Video has come.
    Come,
    /// Nobody waits for the video any more. Sound decides.
    Missing,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival::Awaited { since: None }
    }
}

/// A map may name video that never comes. After this time sound decides. In ticks of 90 kHz.
const SOUND_ONLY_TICKS: i64 = 4 * MediaTime::TICKS_PER_SECOND as i64;
/// Work of a packet with tables: they have checksums, a packet may have eleven, and each may change
/// the header.
const TABLE_WORK: usize = 2048;
/// Work of a byte in which a picture is searched.
const SEARCH_WORK: usize = 8;
/// Longest stretch without a packet. After it the stream is no transport stream any more.
pub(crate) const OUT_OF_STEP_BYTES_MAX: u64 = 64 * 1024;

impl MpegTs {
    /// Reads the next bytes. `offset` is that of the first.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        offset: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        let mut aligner = std::mem::take(&mut self.aligner);
        let mut broken = false;
        aligner.feed(bytes, |at, packet| {
            let at = offset.saturating_add_signed(at);
            broken |= at.saturating_sub(self.in_step_until) > OUT_OF_STEP_BYTES_MAX;
            broken = broken || self.packet(at, packet, findings).is_err();
        });
        self.aligner = aligner;
        let after = offset + bytes.len() as u64;
        broken |= after.saturating_sub(self.in_step_until) > 2 * OUT_OF_STEP_BYTES_MAX;
        if broken { Err(Unsupported) } else { Ok(()) }
    }

    /// Returns the work since the last call.
    pub fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work) + self.aligner.take_work()
    }

    /// Returns the header in force.
    pub fn header(&self) -> Header<'_> {
        Header(Parts::Several(self))
    }

    fn packet(
        &mut self,
        at: u64,
        packet: Packet<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        self.in_step_until = at + packet.whole.len() as u64;
        if packet.is_damaged() {
            return Ok(());
        }
        if self.tables.has_pid(packet.pid()) {
            self.read_table(at, packet, findings)?;
        }
        if is_spaced(self.last_unit, at, UNIT_SPACING) {
            self.last_unit = Some(at);
            let next = self.counter.wrapping_add(1) & 0x0f;
            findings(Finding::Unit(self.start(at, next)), self.header());
        }
        let is_video = self.is_video(packet.pid());
        if is_video && !packet.payload().is_empty() {
            if packet.counter() != self.counter.wrapping_add(1) & 0x0f {
                self.sets.lose();
            }
            self.counter = packet.counter();
        }
        // Most packets only continue a picture that is clear by now.
        if is_video && !packet.unit_starts() && self.search.is_none() {
            return Ok(());
        }
        self.check_split(at, packet);
        let join = self.join(at, packet);
        if packet.unit_starts()
            && (join.is_some() || is_video)
            && let Some(time) = decoding_time(packet.payload())
        {
            findings(Finding::Time(at, time), self.header());
        }
        if let Some((join, counter)) = join {
            self.is_scrambled = packet.is_scrambled();
            if self.lacks_sets() {
                let pid = packet.pid();
                self.header_sets = self.sets.packets(pid, packet.around());
                self.header_shape = (packet.around().0.len(), packet.whole.len());
                findings(Finding::Header, self.header());
                self.last_unit = None;
            }
            self.last_join = Some(join);
            if self.last_split == Some(join) {
                findings(Finding::Split(join), self.header());
            }
            findings(Finding::Join(self.start(join, counter)), self.header());
        }
        Ok(())
    }

    /// Reads a packet of a table. Changed tables are another header.
    fn read_table(
        &mut self,
        at: u64,
        packet: Packet<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        self.work += TABLE_WORK;
        let video = self.tables.streams.video;
        let had_streams = !self.tables.streams.is_empty();
        if !self.tables.read(packet)? {
            return Ok(());
        }
        if had_streams {
            findings(Finding::Break(at), self.header());
        }
        findings(Finding::Header, self.header());
        (self.last_unit, self.last_join, self.search) = (None, None, None);
        self.open = OpenPes::default();
        if self.tables.streams.video != video {
            self.video = Arrival::default();
            (self.sets, self.header_sets) = (Sets::default(), Vec::new());
        }
        Ok(())
    }

    /// Returns whether the header needs other parameter sets for the newest key picture.
    fn lacks_sets(&self) -> bool {
        match self.header_sets.is_empty() {
            true => !self.sets.are_brought(),
            false => self.sets.has_changed,
        }
    }

    fn start(&self, at: u64, counter: u8) -> Start {
        Start {
            counter: (!self.header_sets.is_empty()).then_some(counter),
            ..Start::at(at)
        }
    }

    fn is_video(&self, pid: u16) -> bool {
        let video = self.tables.streams.video;
        video.is_some_and(|(video, _)| pid == video)
    }

    /// Notes whether another PES packet is open where a packet begins that may be a join.
    fn check_split(&mut self, at: u64, packet: Packet<'_>) {
        let is_video = self.is_video(packet.pid());
        let may_decide = is_video || self.video != Arrival::Come;
        if may_decide && packet.unit_starts() && self.open.is_any_but(packet.pid()) {
            self.last_split = Some(at);
        }
        if !is_video {
            self.open.take(packet, &self.tables.streams);
        }
    }

    /// Returns the offset at which decoding can begin, if this packet shows one, and the counter of
    /// the packet there.
    fn join(&mut self, at: u64, packet: Packet<'_>) -> Option<(u64, u8)> {
        let streams = &self.tables.streams;
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
            // The streams that decide without video.
            None if streams.sound.or(streams.data).contains(pid) => {}
            Some(_) | None => return None,
        }
        is_spaced(self.last_join, at, SOUND_SPACING).then_some((at, 0))
    }

    fn video_join(
        &mut self,
        at: u64,
        packet: Packet<'_>,
        codec: PictureCodec,
    ) -> Option<(u64, u8)> {
        let sets = &mut self.sets;
        if packet.unit_starts() {
            self.video = Arrival::Come;
            let is_readable = !packet.is_scrambled();
            let has_flag = packet.is_random_access();
            self.has_indicator |= has_flag;
            // The previous PES packet had no picture. Its mark belongs to this one.
            let was_marked = self.search.take().is_some_and(|search| search.is_marked);
            if is_readable && (codec != PictureCodec::Other || !self.has_indicator) {
                self.work += SEARCH_WORK * packet.payload().len();
                let is_marked = has_flag || was_marked;
                self.search = Some(Search::begin(
                    codec,
                    at,
                    packet.counter(),
                    packet.payload(),
                    is_marked,
                    sets,
                ));
            } else if has_flag {
                return Some((at, packet.counter()));
            }
        } else if let Some(search) = &mut self.search {
            self.work += SEARCH_WORK * packet.payload().len();
            search.feed(packet.payload(), sets);
        }
        let (is_join, begin, counter) = self.search.as_ref()?.verdict()?;
        self.search = None;
        is_join.then_some((begin, counter))
    }

    /// Takes a PES packet of sound while it is not clear whether video comes.
    fn await_video(&mut self, pes: &[u8]) {
        let (Arrival::Awaited { since }, Some(time)) = (&mut self.video, decoding_time(pes)) else {
            return;
        };
        let elapsed = time.since(*since.get_or_insert(time));
        if elapsed < 0 {
            // The clock has run back.
            *since = Some(time);
        } else if elapsed >= SOUND_ONLY_TICKS {
            self.video = Arrival::Missing;
        }
    }

    /// Returns the packets of the parameter sets for a start with this counter.
    fn numbered_sets(&self, counter: Option<u8>) -> Option<Vec<u8>> {
        let mut packets = self.header_sets.clone();
        sets::number(&mut packets, self.header_shape, counter?);
        Some(packets)
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, offset: u64) -> bool {
        let mut search = self.search.iter();
        self.aligner.is_valid()
            && search.all(|search| search.is_valid(offset))
            && self.sets.is_valid()
            && self.header_sets.len() <= sets::PACKETS_BYTES_MAX
            && self.tables.is_valid()
    }
}

/// The packets of the tables, then the packets of the parameter sets.
impl InParts for MpegTs {
    fn each(&self, counter: Option<u8>, part: &mut dyn FnMut(&[u8])) {
        self.tables.each(part);
        if let Some(sets) = self.numbered_sets(counter) {
            part(&sets);
        }
    }

    fn tables(&self, counter: Option<u8>) -> Option<Repetition> {
        let mut repetition = self.tables.repetition();
        let sets = self.numbered_sets(counter);
        repetition.packets.extend(sets.into_iter().flatten());
        Some(repetition)
    }

    fn is_scrambled(&self) -> bool {
        self.is_scrambled
    }
}

/// Returns the decode time in the head of a PES packet. Without a decode time it is the
/// presentation time (ISO/IEC 13818-1 section 2.4.3.6).
pub(super) fn decoding_time(pes: &[u8]) -> Option<MediaTime> {
    let [0, 0, 1, _, _, _, _, flags, _, times @ ..] = pes else {
        return None;
    };
    let times = match flags >> 6 {
        2 => times,
        3 => times.get(5..)?,
        _ => return None,
    };
    time_stamp(times).map(MediaTime::from_ticks)
}

/// Reads a time stamp of a PES head: 33 bits in five bytes.
pub(crate) fn time_stamp(bytes: &[u8]) -> Option<u64> {
    let [a, b, c, d, e] = bytes.first_chunk::<5>()?.map(u64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}

#[cfg(test)]
mod tests;
