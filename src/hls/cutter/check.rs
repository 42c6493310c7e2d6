//! The invariants of the segments, for tests and simulations.

use super::{Cutter, KEPT_MAX};

impl Cutter {
    /// What must hold between any two calls.
    pub fn check(&self) {
        assert!(self.segments.len() <= KEPT_MAX);
        let next = self.segments.iter().skip(1);
        for (segment, next) in self.segments.iter().zip(next) {
            assert!(segment.from < segment.to && segment.to <= next.from);
            assert_eq!(segment.number + 1, next.number);
        }
    }
}
