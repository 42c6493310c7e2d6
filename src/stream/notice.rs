//! Warnings about a stream that continues in spite of them.

use super::{Detected, StreamBuffer};
use crate::format::Format;

/// A warning about a stream. Each is given once. Of `NeedsFirstByte`, `LargeGroup` and `NoJoin` only
/// the first is given, and so it is with `LongGroup` and `LongFragment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A group of pictures is larger than the buffer.
    LargeGroup,
    /// The buffer is full and has no join point.
    NoJoin,
    /// The stream can only be decoded from its first byte on.
    NeedsFirstByte,
    /// The bytes do not continue as the format that they began with, or the format needs more memory
    /// than its reader may use (see [`format`]). Viewers join at the live edge from here on.
    LetGo(Format),
    /// A group of pictures lasts longer than a segment may.
    LongGroup,
    /// A fragment of MP4 lasts longer than a segment may. Both durations are in seconds.
    LongFragment { fragment: u64, segment: u64 },
}

impl<C: Copy> StreamBuffer<C> {
    /// Returns the next warning that has not been given.
    pub fn take_notice(&mut self) -> Option<Notice> {
        if self.scanner.needs_first_byte() && !std::mem::replace(&mut self.has_logged_no_join, true)
        {
            return Some(Notice::NeedsFirstByte);
        }
        let newest = self.buffer.newest;
        let without_joins = newest - self.points.header_offset(newest);
        let is_large = without_joins > self.buffer.bytes_max() as u64
            && matches!(self.points.detected, Detected::Known(_))
            && self.points.joins.is_empty();
        if is_large && !std::mem::replace(&mut self.has_logged_no_join, true) {
            return Some(if self.points.has_had_joins {
                Notice::LargeGroup
            } else {
                Notice::NoJoin
            });
        }
        if let Some(cutter) = &self.cutter
            && cutter.cuts_in_groups() > 0
            && !std::mem::replace(&mut self.has_logged_long_group, true)
        {
            let (fragment, segment) = (cutter.longest_fragment(), cutter.target().as_secs());
            return Some(match fragment > segment {
                true => Notice::LongFragment { fragment, segment },
                false => Notice::LongGroup,
            });
        }
        let let_go = self
            .points
            .first_format
            .filter(|_| self.points.detected == Detected::Unknown)?;
        (!std::mem::replace(&mut self.has_logged_let_go, true)).then_some(Notice::LetGo(let_go))
    }
}
