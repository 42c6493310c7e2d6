//! The tables in force: the newest PAT, and of each program that it names the newest PMT.
//!
//! A table is kept as its section, by which a change is seen, and as the packets that carried it,
//! which are a part of the header. Allocations are used again for the tables that come later: so
//! tables that change with every packet allocate nothing, and what they hold together has one
//! bound.

use super::super::Unsupported;
use super::super::header::Repetition;
use super::psi::{self, Assembler, Section};
use super::streams::Streams;
use super::{PACKET_BYTES, Packet};

/// See the module.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct Tables {
    association: Assembler,
    pat: Table,
    /// Those that the PAT names, in its order, and behind them what is left of others.
    programs: Vec<Program>,
    named: usize,
    /// The first of each kind, by the programs' order.
    streams: Streams,
}

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Table {
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    section: Vec<u8>,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    packets: Vec<u8>,
    /// The counter of the last packet that carried it.
    counter: u8,
}

/// A program that the PAT names.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Program {
    number: u16,
    /// Of the packets that carry its map, seldom those of others too.
    pid: u16,
    /// Puts the sections of that PID together, if no program before it has the same.
    assembler: Assembler,
    pmt: Table,
    /// What its map names.
    streams: Streams,
}

/// Programs of a multiplex: more than one is rare on a relay, more than this is hostile.
const PROGRAMS_MAX: usize = 32;

/// What all tables may hold, those that are being put together among them. A multiplex of twenty
/// programs, each with a map of three packets, holds 20 · 3 · 4 · 188 bytes: each packet and its
/// section, in the table and while it comes; allocations may be twice as long.
const HELD_BYTES_MAX: usize = 128 * 1024;

impl Tables {
    /// Shows the packets of each table; none where they name no stream.
    pub(super) fn each(&self, part: &mut dyn FnMut(&[u8])) {
        let maps = self.programs[..self.named].iter();
        let tables = std::iter::once(&self.pat).chain(maps.map(|program| &program.pmt));
        tables
            .filter(|_| !self.streams.is_empty())
            .for_each(|table| part(&table.packets));
    }

    /// Reads a packet that may carry a table; says whether the header has changed with that.
    pub(super) fn read(&mut self, packet: Packet<'_>) -> Result<bool, Unsupported> {
        let pid = packet.pid();
        let mut has_changed = false;
        if pid == 0 {
            let mut assembler = std::mem::take(&mut self.association);
            let fed = assembler.feed(packet, |section| has_changed |= self.take_pat(section));
            self.association = assembler;
            fed?;
        } else {
            let mut named = self.programs[..self.named].iter();
            let Some(index) = named.position(|program| program.pid == pid) else {
                return Ok(false);
            };
            let mut assembler = std::mem::take(&mut self.programs[index].assembler);
            let fed = assembler.feed(packet, |section| has_changed |= self.take_pmt(pid, section));
            self.programs[index].assembler = assembler;
            fed?;
        }
        if self.held_bytes() > HELD_BYTES_MAX {
            return Err(Unsupported);
        }
        if !has_changed {
            return Ok(false);
        }
        let had_streams = !self.streams.is_empty();
        let named = self.programs[..self.named].iter();
        self.streams = named.fold(Streams::default(), |first, program| {
            first.or(program.streams)
        });
        // Without any map there is nothing that a player could do with it; but one that was told
        // does not hold any more.
        Ok(had_streams || !self.streams.is_empty())
    }

    /// Those that may decide where decoding can begin.
    pub(super) fn streams(&self) -> Streams {
        self.streams
    }

    /// The packets of each table, to be sent again before the next of the stream's own.
    pub fn repetition(&self) -> Repetition {
        let maps = self.programs[..self.named].iter();
        let tables = std::iter::once(&self.pat).chain(maps.map(|program| &program.pmt));
        let mut repetition = Repetition {
            programs: self.named,
            is_plain: true,
            packets: Vec::new(),
        };
        for table in tables {
            let (packets, rest) = table.packets.as_chunks::<PACKET_BYTES>();
            repetition.is_plain &= rest.is_empty();
            for (behind, packet) in packets.iter().rev().enumerate() {
                repetition.is_plain &= Packet::new(packet).is_some();
                let at = repetition.packets.len() - behind * PACKET_BYTES;
                let mut packet = *packet;
                packet[3] = packet[3] & 0xf0 | table.counter.wrapping_sub(behind as u8) & 0x0f;
                repetition.packets.splice(at..at, packet);
            }
        }
        repetition
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let of_programs = self
            .programs
            .iter()
            .map(|program| program.assembler.held_bytes() + program.pmt.held_bytes());
        self.association.held_bytes()
            + self.pat.held_bytes()
            + self.programs.capacity() * size_of::<Program>()
            + of_programs.sum::<usize>()
    }

    fn take_pat(&mut self, section: Section<'_>) -> bool {
        let Some(body) = psi::body(section.bytes, 0) else {
            return false;
        };
        if self.pat.is_repeated(section) || !psi::is_undamaged(section.bytes) {
            return false;
        }
        let mut wanted = [(0, 0); PROGRAMS_MAX];
        let mut count = 0;
        for program in psi::program_maps(body) {
            if count < PROGRAMS_MAX && !wanted[..count].contains(&program) {
                wanted[count] = program;
                count += 1;
            }
        }
        self.name(&wanted[..count]);
        self.pat.take(section);
        true
    }

    /// These programs are the ones from now on. What is known of them stays; of the others only the
    /// allocations do, for new ones.
    fn name(&mut self, wanted: &[(u16, u16)]) {
        for program in &mut self.programs {
            program.assembler.clear();
        }
        self.named = 0;
        for &(number, pid) in wanted {
            let mut others = self.programs[self.named..].iter();
            let place = others
                .clone()
                .position(|program| program.name() == (number, pid))
                .or_else(|| others.position(|program| !wanted.contains(&program.name())));
            let place = place.map_or(self.programs.len(), |place| self.named + place);
            if place == self.programs.len() {
                self.programs.push(Program::default());
            }
            self.programs[place].be(number, pid);
            self.programs.swap(self.named, place);
            self.named += 1;
        }
        for program in &mut self.programs[self.named..] {
            program.be(0, 0);
        }
    }

    fn take_pmt(&mut self, pid: u16, section: Section<'_>) -> bool {
        let number = psi::program_number(section.bytes);
        let Some((body, number)) = psi::body(section.bytes, 2).zip(number) else {
            return false;
        };
        let mut named = self.programs[..self.named].iter_mut();
        let Some(program) = named.find(|program| program.name() == (number, pid)) else {
            return false;
        };
        if program.pmt.is_repeated(section) || !psi::is_undamaged(section.bytes) {
            return false;
        }
        program.pmt.take(section);
        program.streams = Streams::read(body);
        true
    }
}

impl Program {
    fn name(&self) -> (u16, u16) {
        (self.number, self.pid)
    }

    /// It is this one from now on.
    fn be(&mut self, number: u16, pid: u16) {
        if self.name() != (number, pid) {
            (self.number, self.pid) = (number, pid);
            self.streams = Streams::default();
            self.pmt.clear();
        }
    }
}

impl Table {
    /// Whether this is what it was before: then only the counters go on.
    fn is_repeated(&mut self, section: Section<'_>) -> bool {
        let is_repeated = self.section == section.bytes;
        if is_repeated {
            self.counter = section.counter;
        }
        is_repeated
    }

    fn take(&mut self, section: Section<'_>) {
        self.clear();
        self.section.extend_from_slice(section.bytes);
        self.packets.extend_from_slice(section.packets);
        self.counter = section.counter;
    }

    fn clear(&mut self) {
        self.section.clear();
        self.packets.clear();
    }

    fn held_bytes(&self) -> usize {
        self.section.capacity() + self.packets.capacity()
    }
}

#[cfg(feature = "handover")]
impl Tables {
    /// Whether what was told of it can be.
    pub(super) fn fits(&self) -> bool {
        self.named <= self.programs.len()
            && self.programs.len() <= 2 * PROGRAMS_MAX
            && self.held_bytes() <= HELD_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_programs_count_among_what_is_held() {
        let named: Vec<_> = (1..=32).map(|number| (number, 0x100 + number)).collect();
        for count in [1, 7, 32] {
            let mut tables = Tables::default();
            tables.name(&named[..count]);
            let places = tables.held_bytes() / size_of::<Program>();
            assert!(
                (count..=2 * count.max(4)).contains(&places),
                "{places} of {count}"
            );
        }
    }
}
