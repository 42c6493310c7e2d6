//! Interleaves the units of several tracks by their decode times.
//!
//! A source may have one track far ahead of another: by a whole fragment in fragmented MP4, by a
//! decoder's buffer in broadcasts. The output is interleaved. So a unit waits until each other
//! track has come as far. If the source is interleaved itself, that is until the next unit of the
//! other track. The wait is limited to the lag of that track so far, and a little more. For units
//! that the source announces it ends when they have come.
//!
//! It owns the bytes of the units that wait: at most `bytes_max`, one unit more, and [`UNITS_MAX`]
//! entries.

use std::collections::VecDeque;

use super::super::medium::{MILLISECOND, SECOND, Unit};

/// Unit that owns its bytes. Its times are nanoseconds.
#[derive(Debug)]
pub struct OwnedUnit {
    /// Index of its track.
    pub track: usize,
    /// Decode time in nanoseconds.
    pub decode: i64,
    /// Presentation time in nanoseconds. It is never before `decode`.
    pub present: i64,
    /// Whether decoding can begin with it.
    pub is_join: bool,
    /// Bytes as they came.
    pub bytes: Box<[u8]>,
}

/// Brings units into order.
#[derive(Debug, Default)]
pub struct Interleave {
    /// Queues of the tracks, by their index.
    queues: Vec<TrackQueue>,
    /// Maximal number of bytes that wait.
    bytes_max: usize,
    /// Bytes that wait.
    bytes: usize,
    /// Units that wait.
    units: usize,
    /// Latest decode time of all tracks.
    newest: i64,
    /// Tracks whose units are announced: see [`ReaderEvent::Announced`](super::super::ReaderEvent).
    pub announced: u16,
}

/// Units of a track that wait.
#[derive(Debug, Default)]
struct TrackQueue {
    waiting: VecDeque<OwnedUnit>,
    /// Newest decode time of the track.
    newest: Option<i64>,
    /// Lag of the track behind the newest unit of all, as far as it is remembered.
    behind: i64,
    /// Whether others have waited for it in vain, and nothing has come since.
    is_missing: bool,
}

/// Time that the others wait beyond the lag of a track.
const GRACE: i64 = 200 * MILLISECOND;
/// Time that the others wait for the first unit of a track. The header of FLV may name a track that
/// never comes.
const FIRST_PATIENCE: i64 = 2 * SECOND;
/// Longest lag. A track further back has another clock, and nothing waits for it.
const BEHIND_MAX: i64 = 10 * SECOND;
/// A 600th part of a lag is forgotten every second. Within the ten seconds of the longest lag that
/// is less than the grace.
const MEMORY_SECONDS: i64 = 600;
/// Maximal number of units that wait. Ten seconds of pictures and sound have some thousand.
const UNITS_MAX: usize = 4096;

impl Interleave {
    /// Returns an empty state. At most `bytes_max` bytes wait.
    pub fn new(bytes_max: usize) -> Interleave {
        Interleave {
            bytes_max,
            newest: i64::MIN,
            ..Interleave::default()
        }
    }

    /// Sets the number of tracks. If tracks disappear or are replaced, no unit may wait.
    pub fn begin(&mut self, tracks: usize) {
        self.queues.resize_with(tracks, TrackQueue::default);
    }

    /// Makes the other tracks not wait for this one.
    pub fn leave_out(&mut self, track: usize) {
        if let Some(queue) = self.queues.get_mut(track) {
            queue.is_missing = true;
        }
    }

    /// Takes the next unit of the source. Drops it if its track is unknown.
    pub fn push(&mut self, unit: &Unit<'_>) {
        let Some(queue) = self.queues.get_mut(unit.track) else {
            return;
        };
        let decode = unit.decode;
        self.newest = self.newest.max(decode);
        let behind = self.newest.saturating_sub(decode);
        let newest = queue.newest.unwrap_or(decode);
        let passed = decode.saturating_sub(newest).clamp(0, BEHIND_MAX) / MILLISECOND;
        queue.behind -= queue.behind / 1000 * passed / MEMORY_SECONDS;
        if behind <= BEHIND_MAX {
            queue.behind = queue.behind.max(behind);
        }
        queue.newest = Some(decode);
        queue.is_missing = false;
        queue.waiting.push_back(OwnedUnit {
            track: unit.track,
            decode,
            present: unit.present.max(decode),
            is_join: unit.is_join,
            bytes: unit.bytes.into(),
        });
        self.bytes += unit.bytes.len();
        self.units += 1;
    }

    /// Returns the next unit that need not wait.
    pub fn pop(&mut self) -> Option<OwnedUnit> {
        let first = self.first()?;
        let decode = self.queues[first].waiting.front()?.decode;
        let is_full = self.bytes > self.bytes_max || self.units > UNITS_MAX;
        let (announced, newest) = (self.announced, self.newest);
        let is_announced = |place: usize| announced >> place & 1 == 1;
        let mut queues = self.queues.iter_mut().enumerate();
        let may_go =
            is_full || queues.all(|(place, queue)| queue.lets(decode, newest, is_announced(place)));
        if may_go { self.take(first) } else { None }
    }

    /// Returns the next unit, since no others come.
    pub fn pop_last(&mut self) -> Option<OwnedUnit> {
        self.first().and_then(|first| self.take(first))
    }

    /// Returns the track whose first unit has the earliest decode time.
    fn first(&self) -> Option<usize> {
        let heads = self.queues.iter().enumerate();
        heads
            .filter_map(|(index, queue)| Some((queue.waiting.front()?.decode, index)))
            .min()
            .map(|(_, index)| index)
    }

    fn take(&mut self, index: usize) -> Option<OwnedUnit> {
        let kept = self.queues.get_mut(index)?.waiting.pop_front()?;
        self.bytes -= kept.bytes.len();
        self.units -= 1;
        Some(kept)
    }
}

impl TrackQueue {
    /// Returns whether a unit of this time need not wait for the track. After one wait in vain the
    /// others do not wait for it again: their output is not any later from then on.
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
