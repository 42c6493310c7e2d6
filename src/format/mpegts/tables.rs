//! The tables in force: the newest PAT, and the newest PMT of each program that it names.
//!
//! A table is kept as its section, which shows a change, and as the packets that carried it, which
//! belong to the header. Later tables use the same allocations. So tables that change with every
//! packet allocate nothing, and one bound holds for all.

use super::super::Unsupported;
use super::super::header::Repetition;
use super::psi::{self, Assembler, Section};
use super::streams::Streams;
use super::{PACKET_BYTES, Packet};

/// Tables in force. See the module.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct Tables {
    /// Puts the sections of the PAT together.
    association: Assembler,
    pat: Table,
    /// Programs that the PAT names, in its order, and after them the remains of others.
    programs: Vec<Program>,
    /// Number of programs that the PAT names.
    named: usize,
    /// First stream of each kind, in the order of the programs.
    pub(super) streams: Streams,
}

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Table {
    /// Section of the table.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    section: Vec<u8>,
    /// Packets that carried it.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    packets: Vec<u8>,
    /// Counter of the last packet that carried it.
    counter: u8,
}

/// A program that the PAT names.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Program {
    number: u16,
    /// PID of the packets that carry its map. Other maps seldom share it.
    pid: u16,
    /// Puts the sections of that PID together, if no program before it has the same PID.
    assembler: Assembler,
    pmt: Table,
    /// Streams that its map names.
    streams: Streams,
}

/// Maximal number of programs of a multiplex. More than one is rare on a relay, and more than this
/// is hostile.
const PROGRAMS_MAX: usize = 32;

/// Maximal number of bytes of all tables, including unfinished ones. A multiplex of twenty
/// programs, each with a map of three packets, holds 20 · 3 · 4 · 188 bytes: each packet and its
/// section, in the table and while it comes. Allocations may be twice as long.
const MEMORY_BYTES_MAX: usize = 128 * 1024;

impl Tables {
    /// Passes the packets of each table to `part`. There are none if the tables name no stream.
    pub(super) fn each(&self, part: &mut dyn FnMut(&[u8])) {
        let tables = self.in_force().filter(|_| !self.streams.is_empty());
        tables.for_each(|table| part(&table.packets));
    }

    /// Returns the PAT, and the map of each program that it names.
    fn in_force(&self) -> impl Iterator<Item = &Table> {
        let maps = self.programs[..self.named].iter();
        std::iter::once(&self.pat).chain(maps.map(|program| &program.pmt))
    }

    /// Returns whether packets of this PID carry tables.
    pub(super) fn has_pid(&self, pid: u16) -> bool {
        let mut named = self.programs[..self.named].iter();
        pid == 0 || named.any(|program| program.pid == pid)
    }

    /// Reads a packet that may carry a table. Returns whether the header has changed.
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
        if self.memory_bytes() > MEMORY_BYTES_MAX {
            return Err(Unsupported);
        }
        if !has_changed {
            return Ok(false);
        }
        let had_streams = !self.streams.is_empty();
        self.streams = Streams::default();
        for program in &self.programs[..self.named] {
            self.streams.take_missing(&program.streams);
        }
        // Without a map no player can use the header. But an earlier header does not count any
        // more.
        Ok(had_streams || !self.streams.is_empty())
    }

    /// Returns the packets of each table, for sending them again before the stream's next packet.
    pub fn repetition(&self) -> Repetition {
        let mut repetition = Repetition {
            programs: self.named,
            is_plain: true,
            packets: Vec::new(),
        };
        for table in self.in_force() {
            let (packets, rest) = table.packets.as_chunks::<PACKET_BYTES>();
            repetition.is_plain &= rest.is_empty();
            for (after, packet) in packets.iter().rev().enumerate() {
                repetition.is_plain &= Packet::within(packet, 0).is_some();
                let at = repetition.packets.len() - after * PACKET_BYTES;
                let mut packet = *packet;
                packet[3] = packet[3] & 0xf0 | table.counter.wrapping_sub(after as u8) & 0x0f;
                repetition.packets.splice(at..at, packet);
            }
        }
        repetition
    }

    /// Returns the bytes of its allocations.
    pub fn memory_bytes(&self) -> usize {
        let of_programs = self
            .programs
            .iter()
            .map(|program| program.assembler.memory_bytes() + program.pmt.memory_bytes());
        self.association.memory_bytes()
            + self.pat.memory_bytes()
            + self.programs.capacity() * size_of::<Program>()
            + of_programs.sum::<usize>()
    }

    fn take_pat(&mut self, section: Section<'_>) -> bool {
        let Some(body) = psi::body(section.bytes, 0) else {
            return false;
        };
        if self.pat.take_if_repeated(section) || !psi::is_undamaged(section.bytes) {
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

    /// Replaces the programs. Programs that stay keep their maps. Others leave only their
    /// allocations, for new ones.
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
        if program.pmt.take_if_repeated(section) || !psi::is_undamaged(section.bytes) {
            return false;
        }
        program.pmt.take(section);
        program.streams = Streams::read(body);
        true
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub(super) fn is_valid(&self) -> bool {
        self.named <= self.programs.len()
            && self.programs.len() <= 2 * PROGRAMS_MAX
            && self.memory_bytes() <= MEMORY_BYTES_MAX
    }
}

impl Program {
    fn name(&self) -> (u16, u16) {
        (self.number, self.pid)
    }

    /// Makes this the program with this number and PID.
    fn be(&mut self, number: u16, pid: u16) {
        if self.name() != (number, pid) {
            (self.number, self.pid) = (number, pid);
            self.streams = Streams::default();
            self.pmt.clear();
        }
    }
}

impl Table {
    /// Takes the counter of a section that repeats the table in force. Returns whether it does.
    fn take_if_repeated(&mut self, section: Section<'_>) -> bool {
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

    fn memory_bytes(&self) -> usize {
        self.section.capacity() + self.packets.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_programs_count_in_the_memory_of_tables() {
        let named: Vec<_> = (1..=32).map(|number| (number, 0x100 + number)).collect();
        for count in [1, 7, 32] {
            let mut tables = Tables::default();
            tables.name(&named[..count]);
            let places = tables.memory_bytes() / size_of::<Program>();
            assert!(
                (count..=2 * count.max(4)).contains(&places),
                "{places} of {count}"
            );
        }
    }
}
