//! Checks the state of a splicer from a hand-over.
#![cfg(feature = "handover")]

use super::{Cutter, Joining, Opening, OutputLayout, Phase, Running, Splicer};
use crate::format::{HEADER_BYTES_MAX, detect};
use crate::handover::COUNT_MAX;

impl Splicer {
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
        self.scanner.fits(self.bytes.len() as u64)
            && self.bytes.len() <= unit_bytes_max
            && self.shown_header.len() <= HEADER_BYTES_MAX
            && self.had.fits()
            && self.cutter.fits(unit_bytes_max)
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
