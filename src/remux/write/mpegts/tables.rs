//! Writes the tables of one program (ISO/IEC 13818-1 section 2.4.4).

use super::packets::{Counter, PACKET_BYTES, PAYLOAD_BYTES, packet_head};
use crate::format::mpegts::checksum;

pub(super) const MAP_PID: u16 = 0x1000;
const PROGRAM: u16 = 1;

/// Entry of the map for an elementary stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// PID of the stream.
    pub pid: u16,
    /// Stream type.
    pub stream_type: u8,
    /// Descriptors, one after another.
    pub descriptors: Vec<u8>,
}

/// Tables of the program.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Entries of the map.
    entries: Vec<Entry>,
    /// PID that carries the clock.
    clock_pid: u16,
    /// Version of the map: five bits.
    version: u8,
    /// Section of the PAT.
    association: Vec<u8>,
    /// Section of the map.
    map: Vec<u8>,
    /// Counters of the PAT's and the map's packets.
    pub counters: [Counter; 2],
}

impl Tables {
    /// Returns the tables of an empty program.
    pub fn new() -> Tables {
        let mut body = PROGRAM.to_be_bytes().to_vec();
        body.extend_from_slice(&(0xe000 | MAP_PID).to_be_bytes());
        Tables {
            association: section(0, 1, 0, &body),
            version: 0x1f,
            ..Tables::default()
        }
    }

    /// Sets the content of the program. Returns whether it has changed.
    pub fn set(&mut self, clock_pid: u16, entries: Vec<Entry>) -> bool {
        if self.clock_pid == clock_pid && self.entries == entries && !self.map.is_empty() {
            return false;
        }
        self.version = (self.version + 1) & 0x1f;
        (self.clock_pid, self.entries) = (clock_pid, entries);
        let mut body = (0xe000 | clock_pid).to_be_bytes().to_vec();
        body.extend_from_slice(&0xf000u16.to_be_bytes());
        for entry in &self.entries {
            body.push(entry.stream_type);
            body.extend_from_slice(&(0xe000 | entry.pid).to_be_bytes());
            // Each has some ten bytes.
            body.extend_from_slice(&(0xf000 | entry.descriptors.len() as u16).to_be_bytes());
            body.extend_from_slice(&entry.descriptors);
        }
        self.map = section(2, PROGRAM, self.version, &body);
        true
    }

    /// Returns the length of both tables.
    pub fn bytes(&self) -> usize {
        (1 + (self.map.len() + 1).div_ceil(PAYLOAD_BYTES)) * PACKET_BYTES
    }

    /// Writes both tables.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        let [first, second] = &mut self.counters;
        write_section(0, &self.association, first, out);
        write_section(MAP_PID, &self.map, second, out);
    }
}

/// Returns a whole section. It fits, since a program has at most
/// [`TRACKS_MAX`](crate::remux::TRACKS_MAX) streams.
fn section(table: u8, number: u16, version: u8, body: &[u8]) -> Vec<u8> {
    let mut section = vec![table];
    // The following bytes: five of the head, the body, the checksum.
    section.extend_from_slice(&(0xb000 | (body.len() + 9) as u16).to_be_bytes());
    section.extend_from_slice(&number.to_be_bytes());
    section.extend_from_slice(&[0xc0 | version << 1 | 1, 0, 0]);
    section.extend_from_slice(body);
    let sum = checksum(&section);
    section.extend_from_slice(&sum.to_be_bytes());
    section
}

fn write_section(pid: u16, section: &[u8], counter: &mut Counter, out: &mut Vec<u8>) {
    let mut rest = section;
    let mut is_first = true;
    while !rest.is_empty() {
        let end = out.len() + PACKET_BYTES;
        out.extend_from_slice(&packet_head(pid, is_first, 0x10 | counter.next()));
        if is_first {
            out.push(0);
        }
        let (now, later) = rest.split_at(rest.len().min(end - out.len()));
        out.extend_from_slice(now);
        out.resize(end, 0xff);
        (rest, is_first) = (later, false);
    }
}
