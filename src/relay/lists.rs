//! Calls that wait: for names to be looked up, or for the peers to tell their lists.

use std::collections::HashMap;

use super::errand::{Errand, Ticket};
use super::peers::Gathering;
use crate::held::hash_map_bytes;

#[derive(Default)]
pub(super) struct Lists {
    /// Calls whose names are being looked up.
    pub errands: HashMap<Ticket, Errand>,
    /// Lists that wait for the peers.
    pub gatherings: HashMap<Ticket, Gathering>,
}

impl Lists {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let errands = self.errands.values().map(Errand::held_bytes);
        hash_map_bytes(&self.errands) + errands.sum::<usize>() + self.held_by_gatherings()
    }
}
