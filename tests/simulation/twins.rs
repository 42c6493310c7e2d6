//! Two worlds of one seed, one of them with hand-overs from core to core: clients receive the same
//! bytes in both.
//!
//! These worlds leave out state that a core does not hand over, or hands over in part, because a
//! client could see the difference:
//!
//! - Calls that wait for peers or for the disk: the old core ends them. Host names: the new core looks
//!   them up again. No core takes over at such a step.
//! - Origins, because the words of an origin's fault are not handed over.
//! - Remuxed streams, because the new core reads the original again: viewers get the same units in
//!   other packets. `tests/handover.rs` compares the units.
//! - Datagrams, because RTP candidates and the beginnings of sources are not handed over.
//! - Lists of streams and figures, because they show memory in use, which differs.
//! - The order of turns: these worlds hand over after turns in which everything was written. Worlds
//!   that are not compared hand over at any step.

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

/// Runs both worlds. Returns the counters of the world with hand-overs.
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
