//! Units of several tracks, in the order of their decode times.
//!
//! A source may have one track far ahead of another: in fragmented MP4 by a whole fragment, in
//! broadcasts by what a decoder's buffer takes. What goes out is woven, so a unit waits until each
//! other track has come as far: of a source that is woven itself, for the next unit of the other
//! track. It waits no longer than that track was behind before, and a little; for what a fragment
//! announces it waits until that is over.
//!
//! It owns the bytes of what waits: at most `bytes_max`, one unit more, and [`UNITS_MAX`] entries.

use std::collections::VecDeque;

use super::super::medium::Unit;
/// A unit that owns its bytes. Times are nanoseconds.
#[derive(Debug)]
pub struct OwnedUnit {
    /// The place of its track in the list.
    pub track: usize,
    /// When it is to be decoded, in nanoseconds.
    pub decode: i64,
    /// Never before `decode`.
    pub present: i64,
    /// Decoding can begin with it.
    pub is_join: bool,
    /// As they came.
    pub bytes: Box<[u8]>,
}

/// Puts units in order.
#[derive(Debug, Default)]
pub struct Interleave {
    lanes: Vec<TrackQueue>,
    bytes_max: usize,
    bytes: usize,
    units: usize,
    /// The latest decode time of all.
    newest: i64,
    /// Of which tracks units are announced: see [`ReaderEvent::Announced`](super::super::Heard).
    announced: u16,
}

/// What waits of a track.
#[derive(Debug, Default)]
struct TrackQueue {
    waiting: VecDeque<OwnedUnit>,
    newest: Option<i64>,
    /// By how much it lay behind the newest of all, as far as that is worth remembering.
    behind: i64,
    /// It has been waited for in vain, and nothing has come since.
    is_missing: bool,
}

const MILLISECOND: i64 = 1_000_000;
/// So much longer than a track was behind, the others wait for it.
const GRACE: i64 = 200 * MILLISECOND;
/// For one of which nothing has come.
const FIRST_PATIENCE: i64 = 1_000 * MILLISECOND;
/// A track that is further behind has another clock: for that nothing waits.
const BEHIND_MAX: i64 = 10_000 * MILLISECOND;
/// Decode times of a track ascend: one that lies further back is of another clock.
pub(super) const BACK_MAX: i64 = 1_000 * MILLISECOND;
/// A lag is forgotten by a 600th part a second. Within the ten seconds of the longest lag that is
/// less than the grace.
const MEMORY_SECONDS: i64 = 600;
/// Ten seconds of pictures and sound have some thousand.
const UNITS_MAX: usize = 4096;

impl Interleave {
    /// Before the first unit. More bytes than these are not waited with.
    pub fn new(bytes_max: usize) -> Interleave {
        Interleave {
            bytes_max,
            newest: i64::MIN,
            ..Interleave::default()
        }
    }

    /// So many tracks come. Where there are not only more of them, nothing may wait.
    pub fn begin(&mut self, tracks: usize) {
        self.lanes.resize_with(tracks, TrackQueue::default);
    }

    /// Another source comes, with a clock of its own. Nothing may wait.
    pub fn seam(&mut self) {
        self.lanes.clear();
        (self.bytes, self.units, self.newest) = (0, 0, i64::MIN);
    }

    /// Whether a unit is of a clock that has begun again: what waits goes before it.
    pub fn is_seam(&self, unit: &Unit<'_>) -> bool {
        let newest = self.lanes.get(unit.track).and_then(|lane| lane.newest);
        newest.is_some_and(|newest| newest.saturating_sub(unit.decode.nanoseconds()) > BACK_MAX)
    }

    /// Units of these tracks are announced, and of no others.
    pub fn announce(&mut self, tracks: u16) {
        self.announced = tracks;
    }

    /// Other tracks do not wait for this track.
    pub fn leave_out(&mut self, track: usize) {
        if let Some(lane) = self.lanes.get_mut(track) {
            lane.is_missing = true;
        }
    }

    /// Takes the next unit of the source; one of a track that nobody named is dropped.
    pub fn push(&mut self, unit: &Unit<'_>) {
        let Some(lane) = self.lanes.get_mut(unit.track) else {
            return;
        };
        let decode = unit.decode.nanoseconds();
        self.newest = self.newest.max(decode);
        let behind = self.newest.saturating_sub(decode);
        let passed = lane
            .newest
            .map_or(0, |newest| decode.saturating_sub(newest));
        let passed = passed.clamp(0, BEHIND_MAX) / MILLISECOND;
        lane.behind -= lane.behind / 1000 * passed / MEMORY_SECONDS;
        if behind <= BEHIND_MAX {
            lane.behind = lane.behind.max(behind);
        }
        lane.newest = Some(decode);
        lane.is_missing = false;
        lane.waiting.push_back(OwnedUnit {
            track: unit.track,
            decode,
            present: unit.present.nanoseconds().max(decode),
            is_join: unit.is_join,
            bytes: unit.bytes.into(),
        });
        self.bytes += unit.bytes.len();
        self.units += 1;
    }

    /// The next unit that waits for no other.
    pub fn pop(&mut self) -> Option<OwnedUnit> {
        let first = self.first()?;
        let decode = self.lanes[first].waiting.front()?.decode;
        let is_full = self.bytes > self.bytes_max || self.units > UNITS_MAX;
        let (announced, newest) = (self.announced, self.newest);
        let mut lanes = self.lanes.iter_mut().enumerate();
        let may_go = is_full
            || lanes.all(|(place, lane)| lane.lets(decode, newest, announced >> place & 1 == 1));
        if may_go { self.take(first) } else { None }
    }

    /// The next unit, whatever may come: nothing comes.
    pub fn pop_last(&mut self) -> Option<OwnedUnit> {
        self.first().and_then(|first| self.take(first))
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let lanes = self.lanes.iter();
        let entries: usize = lanes.map(|lane| lane.waiting.capacity()).sum();
        self.bytes
            + entries * size_of::<OwnedUnit>()
            + self.lanes.capacity() * size_of::<TrackQueue>()
    }

    /// The track whose first unit is to be decoded before all others.
    fn first(&self) -> Option<usize> {
        let heads = self.lanes.iter().enumerate();
        heads
            .filter_map(|(index, lane)| Some((lane.waiting.front()?.decode, index)))
            .min()
            .map(|(_, index)| index)
    }

    fn take(&mut self, index: usize) -> Option<OwnedUnit> {
        let kept = self.lanes.get_mut(index)?.waiting.pop_front()?;
        self.bytes -= kept.bytes.len();
        self.units -= 1;
        Some(kept)
    }
}

impl TrackQueue {
    /// Whether a unit of this time need not wait for the track. Who has waited in vain waits no
    /// more: what goes out is no later for it from then on.
    fn lets(&mut self, decode: i64, newest: i64, is_announced: bool) -> bool {
        let has_come = self.newest.is_some_and(|own| own >= decode);
        if has_come || !self.waiting.is_empty() {
            return true;
        }
        if self.is_missing || is_announced {
            return !is_announced;
        }
        let patience = match self.newest {
            None => FIRST_PATIENCE,
            Some(_) => self.behind + GRACE,
        };
        self.is_missing = decode.saturating_add(patience) <= newest;
        self.is_missing
    }
}
