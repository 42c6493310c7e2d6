//! A place in a stream, and the media's own time there.

use crate::time::MediaTime;

/// Where something begins, and when that is.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Point {
    /// Of its first byte in the stream.
    pub offset: u64,
    /// When that is to be decoded.
    pub time: MediaTime,
    /// As [`Start::counter`](crate::format::Start::counter).
    pub counter: Option<u8>,
}
