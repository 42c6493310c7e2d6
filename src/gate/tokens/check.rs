//! Invariants of the table, for tests and simulations.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use super::{Session, Tokens};
use crate::gate::grant::Grant;

impl Tokens {
    /// Panics unless the views agree and the limits hold. Looks at every tuple.
    pub fn check(&self) {
        assert!(self.trial.is_none(), "a trial was not taken back");
        assert!(self.len() <= self.limits.tokens_max, "too many tuples");
        self.check_views();
    }

    pub(super) fn check_views(&self) {
        self.check_sessions();
        self.check_inbound();
        self.check_expiries();
        let tuples = self.in_order.values().map(|tuple| tuple.memory_bytes());
        let lists = self.sessions.values().map(Session::destinations_bytes);
        let bytes = tuples.chain(lists).sum::<usize>();
        assert_eq!(bytes, self.tuples_bytes, "tuples' bytes");
        for (serial, tuple) in &self.in_order {
            assert_eq!(*serial, tuple.serial, "a tuple in the wrong place");
            assert!(*serial < self.serial_next, "a serial will be given again");
        }
    }

    fn check_sessions(&self) {
        let mut tuples = 0;
        for (session, known) in &self.sessions {
            assert!(known.http.iter().all(|tuple| tuple.http().is_some()));
            assert!(known.rtp.iter().all(|tuple| tuple.rtp().is_some()));
            assert!(
                known
                    .in_order()
                    .is_sorted_by(|one, two| one.serial < two.serial)
            );
            for tuple in known.in_order() {
                assert_eq!(&tuple.session, session, "a tuple of another session");
                let same = self.in_order.get(&tuple.serial);
                assert!(
                    same.is_some_and(|same| Rc::ptr_eq(same, tuple)),
                    "not in the order"
                );
                tuples += 1;
            }
            let clients = self.udp_destinations(session).map(|(_, rtp)| &rtp.client);
            let distinct = clients.collect::<HashSet<_>>().len();
            assert_eq!(distinct, known.rtp.len(), "one client twice");
            assert!(
                distinct <= self.limits.udp_clients_per_session_max,
                "too many clients"
            );
            assert!(
                known.in_order().next().is_some(),
                "an empty session is kept"
            );
        }
        assert_eq!(tuples, self.len(), "tuples in no session");
    }

    fn check_expiries(&self) {
        let mut known = BTreeMap::new();
        for (serial, tuple) in &self.in_order {
            if let Some(expiry) = tuple.http().and_then(Grant::expiry) {
                known.insert((expiry, *serial), ());
            }
        }
        assert_eq!(known, self.expiries, "the order in which tuples are over");
        let keys = self.in_order.values().filter(|tuple| {
            let grant = tuple.http();
            grant.is_some_and(|grant| grant.terms.opens.is_some())
        });
        assert_eq!(keys.count(), self.keys.values().sum::<usize>(), "keys");
    }

    fn check_inbound(&self) {
        let mut entries = 0;
        for (address, tuples) in &self.inbound {
            assert!(!tuples.is_empty(), "an empty list of an address");
            assert!(tuples.is_sorted_by(|one, two| one.serial < two.serial));
            for tuple in tuples {
                assert!(tuple.inbound().contains(address), "an address of no tuple");
                let same = self.in_order.get(&tuple.serial);
                assert!(
                    same.is_some_and(|same| Rc::ptr_eq(same, tuple)),
                    "a revoked tuple"
                );
            }
            entries += tuples.len();
        }
        let expected: usize = self
            .in_order
            .values()
            .map(|tuple| tuple.inbound().len())
            .sum();
        assert_eq!(entries, expected, "a tuple without its addresses");
    }
}
