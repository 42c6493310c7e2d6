//! The hand-over of a splicer: its large parts, and checks of a received state.
#![cfg(feature = "handover")]

use super::{Cutter, Joining, Opening, OutputLayout, Phase, Running, Splicer};
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

    /// Returns whether a handed-over state is possible, for units of this length.
    pub fn fits(&self, unit_bytes_max: usize) -> bool {
        let stage_fits = match &self.stage {
            Phase::Opening(opening) => opening.fits(),
            Phase::Running(running) => running.fits(unit_bytes_max),
            Phase::Joining(joining) => joining.fits(unit_bytes_max),
            Phase::Through => true,
        };
        stage_fits && self.unit_bytes_max <= unit_bytes_max
    }
}

impl Opening {
    fn fits(&self) -> bool {
        self.scanner.fits(self.bytes.len() as u64)
            && self.bytes.len() <= detect::BYTES_MAX
            && self.gone_out <= self.bytes.len()
    }
}

impl Running {
    fn fits(&self, unit_bytes_max: usize) -> bool {
        let seen_max = unit_bytes_max.max(HEADER_BYTES_MAX) + HEAD_BYTES_MAX;
        self.offset <= COUNT_MAX
            && self.window.fits(self.offset, seen_max)
            && self.cutter.fits(unit_bytes_max)
            && self.had.as_ref().is_none_or(OutputLayout::fits)
    }
}

/// Bytes after a unit that are read with it.
const HEAD_BYTES_MAX: usize = 64;

impl OutputLayout {
    fn fits(&self) -> bool {
        self.header.len() <= HEADER_BYTES_MAX
    }
}

impl Joining {
    fn fits(&self, unit_bytes_max: usize) -> bool {
        self.bytes.len() <= unit_bytes_max && self.had.fits() && self.cutter.fits(unit_bytes_max)
    }
}

impl Cutter {
    fn fits(&self, unit_bytes_max: usize) -> bool {
        match self {
            Cutter::Frames(_) | Cutter::Pages(_) => true,
            Cutter::Packets(packets) => packets.fits(unit_bytes_max),
            Cutter::Blocks(blocks) => blocks.fits(unit_bytes_max),
            Cutter::Tags(tags) => tags.fits(unit_bytes_max),
            Cutter::Fragments(fragments) => fragments.fits(unit_bytes_max),
        }
    }
}
