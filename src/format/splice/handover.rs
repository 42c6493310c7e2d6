//! The hand-over of a splicer: its large parts, and checks of a received state.
#![cfg(feature = "handover")]

use super::{OutputLayout, SplicePhase, Splicer, UnitCutter};
use crate::copied::{Copied, CopiedPart};
use crate::format::{HEADER_BYTES_MAX, detect};
use crate::handover::COUNT_MAX;

impl Splicer {
    /// Returns the bytes that it holds of this kind.
    pub fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        let (pending, output) = match &mut self.phase {
            SplicePhase::Running(running) => {
                let pending = match &mut running.cutter {
                    UnitCutter::Packets(packets) => &mut packets.waiting.bytes,
                    _ => &mut running.window.pending,
                };
                (pending, running.output.as_mut())
            }
            SplicePhase::AwaitingJoinPoint(joining) => {
                (&mut joining.bytes, Some(&mut joining.output))
            }
            SplicePhase::Opening(_) | SplicePhase::Through => return None,
        };
        match part {
            CopiedPart::SplicerInput => Some(pending),
            CopiedPart::Layout => output.map(|output| &mut output.header),
            _ => None,
        }
    }

    /// Limits units to this length from now on. Returns whether the received state is possible. A
    /// longer unit, of which the other server has a part, passes as it comes.
    pub fn restore(&mut self, unit_bytes_max: usize) -> bool {
        let received = self.unit_bytes_max.min(COUNT_MAX as usize);
        let is_valid = self.is_valid(received.max(unit_bytes_max));
        self.unit_bytes_max = received.min(unit_bytes_max);
        self.unit_limit = self.unit_bytes_max;
        match &mut self.phase {
            SplicePhase::Running(running) => {
                running.cutter.limit_units(self.unit_bytes_max);
                running.window.walk_again(self.unit_bytes_max);
            }
            SplicePhase::AwaitingJoinPoint(joining) => {
                joining.cutter.limit_units(self.unit_bytes_max);
            }
            SplicePhase::Opening(_) | SplicePhase::Through => {}
        }
        is_valid
    }

    /// Returns whether a received state is possible, for units of this length.
    pub(super) fn is_valid(&self, unit_bytes_max: usize) -> bool {
        let are_valid = |cutter: &UnitCutter, layout: Option<&OutputLayout>| {
            layout.is_none_or(|layout| layout.header.len() <= HEADER_BYTES_MAX)
                && cutter.is_valid(unit_bytes_max)
        };
        match &self.phase {
            SplicePhase::Opening(opening) => {
                let length = opening.bytes.len();
                opening.scanner.is_valid(length as u64)
                    && length <= detect::BYTES_MAX
                    && opening.bytes_sent <= length
            }
            SplicePhase::Running(running) => {
                let seen_max = unit_bytes_max.max(HEADER_BYTES_MAX) + HEAD_BYTES_MAX;
                running.offset <= COUNT_MAX
                    && running.window.is_valid(running.offset, seen_max)
                    && are_valid(&running.cutter, running.output.as_ref())
            }
            SplicePhase::AwaitingJoinPoint(joining) => {
                joining.bytes.len() <= unit_bytes_max
                    && are_valid(&joining.cutter, Some(&joining.output))
            }
            SplicePhase::Through => true,
        }
    }
}

/// Bytes after a unit that are read with it.
const HEAD_BYTES_MAX: usize = 64;

impl UnitCutter {
    fn is_valid(&self, unit_bytes_max: usize) -> bool {
        match self {
            UnitCutter::Frames(_) | UnitCutter::Pages(_) => true,
            UnitCutter::Packets(packets) => packets.is_valid(unit_bytes_max),
            UnitCutter::Blocks(blocks) => blocks.timeline.is_valid(),
            UnitCutter::Tags(tags) => tags.timeline.is_valid(),
            UnitCutter::Fragments(fragments) => fragments.is_valid(),
        }
    }
}
