//! An offset in a stream, and the media time there.

use crate::time::MediaTime;

/// Beginning of a unit.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Point {
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// Decode time.
    pub time: MediaTime,
    /// As [`Start::counter`](crate::format::Start::counter).
    pub counter: Option<u8>,
}

impl Point {
    /// Returns the beginning of a unit, without a counter. `Cutter::join` adds the counter if
    /// parameter sets are sent in front.
    pub fn new(offset: u64, time: MediaTime) -> Point {
        let counter = None;
        Point {
            offset,
            time,
            counter,
        }
    }
}
