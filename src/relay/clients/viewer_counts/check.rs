//! The invariants of the counts, for tests and simulations.

use std::collections::HashMap;

use super::ViewerCounts;
use crate::gate::SessionId;
use crate::relay::SEATS_MAX;
use crate::relay::pass::Admission;

impl ViewerCounts {
    /// Panics unless the counts agree with these viewers.
    pub fn check<'a>(&self, passes: impl Iterator<Item = &'a Admission>) {
        assert_eq!(self.seats.len(), self.due.len());
        assert!(self.seats.len() <= SEATS_MAX);
        assert_eq!(self.of_sessions.values().sum::<usize>(), self.seats.len());
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        let viewers = passes.filter(|admission| admission.is_viewer());
        let viewers = viewers.map(|admission| (&admission.name, &admission.session));
        let sitters = self
            .seats
            .iter()
            .map(|((name, _), seat)| (name, &seat.session));
        for (name, session) in viewers.chain(sitters) {
            *counts.entry(name).or_default() += 1;
            if name != session {
                *counts.entry(session).or_default() += 1;
            }
        }
        assert_eq!(
            counts.len(),
            self.counts.len(),
            "a session without viewers is counted"
        );
        for (name, count) in counts {
            assert_eq!(self.of(name), count, "{name:?}");
        }
    }
}
