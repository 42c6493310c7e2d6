//! In the place of `succession` where no other core takes over.

use super::World;

/// There is none.
pub(super) type Next = ();

impl World {
    pub(super) fn hand_over_within(&mut self) {}

    pub(super) fn hand_over_behind(&mut self) {
        let _ = (
            &self.succession.chance,
            self.succession.percent,
            &self.succession.next,
            self.is_kept,
            self.random_key,
        );
    }
}
