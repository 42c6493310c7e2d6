//! MPEG-TS (ISO/IEC 13818-1): its tables are the header, and decoding can begin at a random-access point of the first video stream.
//!
//! Owns the newest PAT and PMTs as the packets that carried them, and nothing else of the stream. Work for a packet that is neither a
//! table nor the start of a PES packet is a look at its head.

mod packet;
mod picture;
mod tables;

pub use packet::{Aligner, PACKET_BYTES, Packet, SYNC_BYTE};

use super::{Finding, LetGo, Start, UNIT_SPACING};
use picture::Codec;
use tables::{Assembler, Section};

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

#[derive(Debug, Default)]
struct Tables {
    association: Assembler,
    /// The newest PAT: its section and its packets.
    pat: (Vec<u8>, Vec<u8>),
    maps: Vec<Maps>,
    /// What decides where decoding can begin.
    track: Option<Track>,
}

/// A PID that carries the maps of one program, seldom of several.
#[derive(Debug, Default)]
struct Maps {
    pid: u16,
    assembler: Assembler,
    programs: Vec<Program>,
}

/// A program that the PAT names, and the section and the packets of its newest PMT.
#[derive(Debug, Default)]
struct Program {
    number: u16,
    pmt: (Vec<u8>, Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Track {
    Video(u16, Codec),
    Audio(u16),
}

/// Programs of a multiplex: more than one is rare on a relay, more than this is hostile.
const PROGRAMS_MAX: usize = 32;
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
        findings: &mut Vec<Finding>,
    ) -> Result<(), LetGo> {
        let mut aligner = std::mem::take(&mut self.aligner);
        let mut broken = false;
        aligner.feed(bytes, |at, packet| {
            let at = offset.saturating_add_signed(at);
            broken |= at.saturating_sub(self.in_step_until) > OUT_OF_STEP_BYTES_MAX;
            if !broken {
                self.packet(at, packet, findings);
            }
        });
        self.aligner = aligner;
        let behind = offset + bytes.len() as u64;
        broken |= behind.saturating_sub(self.in_step_until) > 2 * OUT_OF_STEP_BYTES_MAX;
        if broken { Err(LetGo) } else { Ok(()) }
    }

    fn packet(&mut self, at: u64, packet: Packet<'_>, findings: &mut Vec<Finding>) {
        self.in_step_until = at + PACKET_BYTES as u64;
        if let Some(header) = self.tables.read(packet) {
            findings.push(Finding::Header(header));
            self.last_unit = None;
            self.last_join = None;
        }
        if self.last_unit.is_none_or(|last| at >= last + UNIT_SPACING) {
            self.last_unit = Some(at);
            findings.push(Finding::Unit(Start::at(at)));
        }
        if packet.unit_starts() && self.is_join(at, packet) {
            self.last_join = Some(at);
            findings.push(Finding::Join(Start::at(at)));
        }
    }

    fn is_join(&mut self, at: u64, packet: Packet<'_>) -> bool {
        match self.tables.track {
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

impl Tables {
    /// Reads a packet that may carry a table; the header, if it has changed with that.
    fn read(&mut self, packet: Packet<'_>) -> Option<Vec<u8>> {
        let pid = packet.pid();
        let mut has_changed = false;
        if pid == 0 {
            let mut assembler = std::mem::take(&mut self.association);
            assembler.feed(packet, |section| has_changed |= self.take_pat(section));
            self.association = assembler;
        } else {
            let index = self.maps.iter().position(|maps| maps.pid == pid)?;
            let mut assembler = std::mem::take(&mut self.maps[index].assembler);
            assembler.feed(packet, |section| has_changed |= self.take_pmt(pid, section));
            self.maps[index].assembler = assembler;
        }
        if !has_changed {
            return None;
        }
        self.track = self.choose_track();
        // Without any map there is nothing that a player could do with it.
        self.track.map(|_| self.header())
    }

    fn take_pat(&mut self, section: Section<'_>) -> bool {
        let Some(body) = tables::body(section.bytes, 0) else {
            return false;
        };
        if self.pat.0 == section.bytes {
            return false;
        }
        let mut all: Vec<Maps> = Vec::new();
        for (number, pid) in tables::program_maps(body).take(PROGRAMS_MAX) {
            let index = all.iter().position(|maps| maps.pid == pid);
            let index = index.unwrap_or_else(|| {
                all.push(self.take_maps(pid));
                all.len() - 1
            });
            let programs = &mut all[index].programs;
            if programs.iter().all(|program| program.number != number) {
                programs.push(Program {
                    number,
                    ..Program::default()
                });
            }
        }
        // What the PAT does not name any more is gone.
        for maps in &mut all {
            let is_named = |program: &Program| {
                tables::program_maps(body).any(|named| named == (program.number, maps.pid))
            };
            maps.programs.retain(is_named);
        }
        self.maps = all;
        self.pat = (section.bytes.to_vec(), section.packets.to_vec());
        true
    }

    /// What is known of a PID's maps.
    fn take_maps(&mut self, pid: u16) -> Maps {
        let known = self.maps.iter().position(|maps| maps.pid == pid);
        known.map_or_else(
            || Maps {
                pid,
                ..Maps::default()
            },
            |index| self.maps.swap_remove(index),
        )
    }

    fn take_pmt(&mut self, pid: u16, section: Section<'_>) -> bool {
        let maps = self.maps.iter_mut().filter(|maps| maps.pid == pid);
        let mut programs = maps.flat_map(|maps| &mut maps.programs);
        let number = tables::program_number(section.bytes);
        let Some(program) = programs.find(|program| Some(program.number) == number) else {
            return false;
        };
        if tables::body(section.bytes, 2).is_none() || program.pmt.0 == section.bytes {
            return false;
        }
        program.pmt = (section.bytes.to_vec(), section.packets.to_vec());
        true
    }

    fn programs(&self) -> impl Iterator<Item = &Program> {
        self.maps.iter().flat_map(|maps| &maps.programs)
    }

    /// The first video stream of the first program that has one, else the first of sound.
    fn choose_track(&self) -> Option<Track> {
        let bodies = self
            .programs()
            .filter_map(|program| tables::body(&program.pmt.0, 2));
        let streams: Vec<(u8, u16)> = bodies.flat_map(tables::elementary_streams).collect();
        let video = streams
            .iter()
            .find_map(|(kind, pid)| Some(Track::Video(*pid, Codec::of_stream_type(*kind)?)));
        video.or_else(|| streams.first().map(|(_, pid)| Track::Audio(*pid)))
    }

    fn header(&self) -> Vec<u8> {
        let mut header = self.pat.1.clone();
        for program in self.programs() {
            header.extend_from_slice(&program.pmt.1);
        }
        header
    }
}

#[cfg(test)]
mod tests;
