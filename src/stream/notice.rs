//! What the owner of a stream should know of it.

use super::{StreamBuffer, Told};
use crate::format::Format;

/// What is wrong with a stream that goes on nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A whole group of pictures does not fit into the buffer.
    LargeGroup,
    /// As much as the buffer keeps has come, and nothing in it at which decoding can begin.
    NoJoin,
    /// Only who is there from its first byte on can decode it.
    NeedsFirstByte,
    /// It is not what its first bytes showed, or needs more than is kept for that (see [`format`]):
    /// viewers join at the live edge.
    LetGo(Format),
    /// A group of pictures lasts longer than a segment may.
    LongGroup,
}

impl<C: Copy> StreamBuffer<C> {
    /// What its owner should know, once for each.
    pub fn take_notice(&mut self) -> Option<Notice> {
        if self.scanner.needs_first_byte() && !std::mem::replace(&mut self.told_of_no_join, true) {
            return Some(Notice::NeedsFirstByte);
        }
        let newest = self.buffer.newest();
        let without_joins = newest - self.points.header_offset(newest);
        let is_large = without_joins > self.buffer.bytes_max() as u64
            && matches!(self.points.told, Told::Known(_))
            && !self.points.has_joins();
        if is_large && !std::mem::replace(&mut self.told_of_no_join, true) {
            return Some(if self.points.has_had_joins() {
                Notice::LargeGroup
            } else {
                Notice::NoJoin
            });
        }
        let is_long = self
            .cutter
            .as_ref()
            .is_some_and(|cutter| cutter.cuts_in_groups() > 0);
        if is_long && !std::mem::replace(&mut self.told_of_long_group, true) {
            return Some(Notice::LongGroup);
        }
        let let_go = self
            .points
            .shown
            .filter(|_| self.points.told == Told::Unknown)?;
        (!std::mem::replace(&mut self.told_of_let_go, true)).then_some(Notice::LetGo(let_go))
    }
}
