//! The hand-over of a splicer: its large parts, and checks of a received state.
#![cfg(feature = "handover")]

use super::{Cutter, OutputLayout, Phase, Splicer};
use crate::copied::{Copied, CopiedPart};
use crate::format::{HEADER_BYTES_MAX, detect};
use crate::handover::COUNT_MAX;

impl Splicer {
    /// Returns the bytes that it holds of this kind.
    pub fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        let (held, had) = match &mut self.stage {
            Phase::Running(running) => {
                let held = match &mut running.cutter {
                    Cutter::Packets(packets) => &mut packets.waiting.bytes,
                    _ => &mut running.window.held,
                };
                (held, running.had.as_mut())
            }
            Phase::Joining(joining) => (&mut joining.bytes, Some(&mut joining.had)),
            Phase::Opening(_) | Phase::Through => return None,
        };
        match part {
            CopiedPart::Spliced => Some(held),
            CopiedPart::Layout => had.map(|had| &mut had.header),
            _ => None,
        }
    }

    /// Limits units to this length from now on. Returns whether the received state is possible. A
    /// longer unit, of which the other server has a part, passes as it comes.
    pub fn restore(&mut self, unit_bytes_max: usize) -> bool {
        let had = self.unit_bytes_max.min(COUNT_MAX as usize);
        let is_valid = self.is_valid(had.max(unit_bytes_max));
        self.unit_bytes_max = had.min(unit_bytes_max);
        self.unit_limit = self.unit_bytes_max;
        match &mut self.stage {
            Phase::Running(running) => {
                running.cutter.limit_units(self.unit_bytes_max);
                running.window.look_again(self.unit_bytes_max);
            }
            Phase::Joining(joining) => {
                joining.cutter.limit_units(self.unit_bytes_max);
            }
            Phase::Opening(_) | Phase::Through => {}
        }
        is_valid
    }

    /// Returns whether a received state is possible, for units of this length.
    pub(super) fn is_valid(&self, unit_bytes_max: usize) -> bool {
        let are_valid = |cutter: &Cutter, layout: Option<&OutputLayout>| {
            layout.is_none_or(|layout| layout.header.len() <= HEADER_BYTES_MAX)
                && cutter.is_valid(unit_bytes_max)
        };
        match &self.stage {
            Phase::Opening(opening) => {
                let length = opening.bytes.len();
                opening.scanner.is_valid(length as u64)
                    && length <= detect::BYTES_MAX
                    && opening.gone_out <= length
            }
            Phase::Running(running) => {
                let seen_max = unit_bytes_max.max(HEADER_BYTES_MAX) + HEAD_BYTES_MAX;
                running.offset <= COUNT_MAX
                    && running.window.is_valid(running.offset, seen_max)
                    && are_valid(&running.cutter, running.had.as_ref())
            }
            Phase::Joining(joining) => {
                joining.bytes.len() <= unit_bytes_max
                    && are_valid(&joining.cutter, Some(&joining.had))
            }
            Phase::Through => true,
        }
    }
}

/// Bytes after a unit that are read with it.
const HEAD_BYTES_MAX: usize = 64;

impl Cutter {
    fn is_valid(&self, unit_bytes_max: usize) -> bool {
        match self {
            Cutter::Frames(_) | Cutter::Pages(_) => true,
            Cutter::Packets(packets) => packets.is_valid(unit_bytes_max),
            Cutter::Blocks(blocks) => blocks.timeline.is_valid(),
            Cutter::Tags(tags) => tags.timeline.is_valid(),
            Cutter::Fragments(fragments) => fragments.is_valid(),
        }
    }
}
