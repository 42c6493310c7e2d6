//! Two worlds of one seed, of which one is handed over from core to core: what clients see is the
//! same, byte for byte.
//!
//! Nothing may be another thing. But these worlds leave out what a core does not tell, or tells in
//! part, so that somebody who waits for it would see that another core goes on:
//!
//! - calls that wait for peers or for the disk, which the old one ends; names that are looked up,
//!   which the new one looks up again: at such a step no core takes over;
//! - what was wrong with an origin, in words, and so origins;
//! - of RTP, who has sent one packet, and when sources began: no datagrams come in;
//! - how much memory is held, of which what was told takes less: nobody asks for lists of streams,
//!   nor for figures;
//! - whose turn it is, of those who have something to get: it is handed over behind turns in which
//!   all was done that could be. At any other step it is in worlds that are not compared.

#![cfg_attr(not(feature = "handover"), allow(dead_code))]

use super::knowledge::Tally;
use super::world::World;

/// Chance in a hundred that another core takes over within a turn.
const PERCENT: usize = 20;
/// So much of a difference is shown.
const SHOWN_BYTES: usize = 200;

/// What a client has read of its connection.
#[derive(Default)]
pub struct Seen {
    bytes: Vec<u8>,
    /// In each turn in which there was more: how much then.
    turns: Vec<(usize, usize)>,
    /// It has come to an end; it was its own end, if so.
    end: Option<bool>,
}

impl Seen {
    /// More has been read.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub fn end(&mut self, is_own: bool) {
        self.end = Some(is_own);
    }

    /// A turn is over.
    pub fn note(&mut self, turn: usize) {
        let before = self.turns.last().map_or(0, |(_, bytes)| *bytes);
        if self.bytes.len() > before {
            self.turns.push((turn, self.bytes.len()));
        }
    }

    /// In which turn this byte was read.
    fn turn_of(&self, place: usize) -> Option<usize> {
        let behind = self.turns.iter().find(|(_, bytes)| *bytes > place);
        behind.map(|(turn, _)| *turn)
    }
}

/// Runs both worlds. Says what has happened in the one that was handed over.
pub fn compare(seed: u64, steps: usize) -> Tally {
    let run = |percent| {
        let mut world = World::compared(seed, percent);
        world.run(steps);
        world
    };
    let (without, with) = (run(0), run(PERCENT));
    let (seen, seen_with) = (without.seen(), with.seen());
    let mut differences: Vec<(usize, String)> = Vec::new();
    for ((who, one), (_, other)) in seen.iter().zip(&seen_with) {
        let (bytes, bytes_with) = (&one.bytes, &other.bytes);
        let mut both = bytes.iter().zip(bytes_with);
        let place = both.position(|(byte, byte_with)| byte != byte_with);
        let shorter = bytes.len().min(bytes_with.len());
        let place = place.or((bytes.len() != bytes_with.len()).then_some(shorter));
        let Some(place) = place.or((one.end != other.end).then_some(shorter)) else {
            continue;
        };
        let turns = [one.turn_of(place), other.turn_of(place)];
        let mut noted = one.turns.iter().zip(&other.turns);
        let parts = noted.position(|(note, note_with)| note != note_with);
        let parts = parts.unwrap_or(one.turns.len().min(other.turns.len()));
        let noted = [one, other].map(|seen| seen.turns.get(parts).copied());
        let shown = |bytes: &[u8]| {
            let bytes = &bytes[place.saturating_sub(SHOWN_BYTES)..];
            let bytes = &bytes[..bytes.len().min(2 * SHOWN_BYTES)];
            String::from_utf8_lossy(bytes).into_owned()
        };
        let difference = format!(
            "{who}\nfrom byte {place} of {} and {} on, in turns {turns:?}, parts {noted:?}, \
             ends {:?} {:?}:\n{}\n----\n{}",
            bytes.len(),
            bytes_with.len(),
            one.end,
            other.end,
            shown(bytes),
            shown(bytes_with)
        );
        let parts = noted.iter().flatten().map(|(turn, _)| *turn);
        let first = parts.chain(turns.into_iter().flatten()).min();
        differences.push((first.unwrap_or(usize::MAX), difference));
    }
    differences.sort();
    let count = differences.len();
    if let Some((_, first)) = differences.into_iter().next() {
        let turn = without.parts_from(&with);
        panic!(
            "{count} clients of {} see another thing, from turn {turn:?} on. The first:\n{first}",
            seen.len()
        );
    }
    assert_eq!(seen.len(), seen_with.len(), "others have come");
    with.tally().clone()
}
