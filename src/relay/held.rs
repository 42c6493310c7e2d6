//! What the parts of the core that admit, wait and ask hold in memory, in bytes.

use super::Relay;
use super::errand::{Errand, Ticket};
use crate::held::table_bytes;

impl Relay {
    /// A row a part: the name, and what its allocations hold.
    pub fn held_by_gate(&self) -> [(&'static str, usize); 6] {
        let errands = self.errands.values().map(Errand::held_bytes);
        [
            ("waiting", self.waiting.held_bytes()),
            ("pulls", self.pulls.held_bytes()),
            ("origins", self.origins.held_bytes()),
            ("blocks", self.blocks.held_bytes()),
            (
                "errands",
                table_bytes::<(Ticket, Errand)>(self.errands.capacity()) + errands.sum::<usize>(),
            ),
            ("lists", self.held_by_lists()),
        ]
    }
}
