//! The invariants of the counts, for tests and simulations.

use std::collections::HashMap;

use super::ViewerCounts;
use crate::gate::SessionId;
use crate::relay::HLS_ADDRESSES_MAX;
use crate::relay::admission::Admission;

impl ViewerCounts {
    /// Panics unless the counts agree with these viewers.
    pub fn check<'a>(&self, admissions: impl Iterator<Item = &'a Admission>) {
        assert_eq!(self.hls.len(), self.due.len());
        assert!(self.hls.len() <= HLS_ADDRESSES_MAX);
        assert_eq!(self.hls_by_session.values().sum::<usize>(), self.hls.len());
        let mut counts: HashMap<(&SessionId, &SessionId), usize> = HashMap::new();
        let viewers = admissions.filter(|admission| admission.is_viewer());
        let viewers = viewers.map(|admission| (&admission.credential, &admission.session));
        let addresses = self
            .hls
            .iter()
            .map(|((credential, _), counted)| (credential, &counted.session));
        for (credential, session) in viewers.chain(addresses) {
            *counts.entry((credential, session)).or_default() += 1;
            if credential != session {
                *counts.entry((session, session)).or_default() += 1;
            }
        }
        assert_eq!(
            counts.len(),
            self.counts.len(),
            "a session without viewers is counted"
        );
        for ((credential, session), count) in counts {
            assert_eq!(
                self.of(credential, session),
                count,
                "{credential:?} {session:?}"
            );
        }
    }
}
