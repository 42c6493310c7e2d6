//! Room in the token table: expired tuples are removed when their place is needed.

use std::rc::Rc;

use super::Tokens;
use crate::gate::record::Record;
use crate::gate::tuple::Tuple;
use crate::time::UnixTime;

impl Tokens {
    /// Returns changes that remove expired `http` tuples while there are too many tuples, those
    /// that expired first in front. It spares tuples that limit keys.
    pub(super) fn to_forget(&self, now: UnixTime) -> Vec<Record> {
        let excess = self.len().saturating_sub(self.limits.tokens_max);
        let over = self.shuts.range(..=(now, u64::MAX));
        let over = over.filter_map(|((_, serial), ())| self.in_order.get(serial));
        let over = over.filter(|tuple| !self.limits_keys(tuple));
        let session = |tuple: &Rc<Tuple>| Record::Forget {
            session: tuple.session.clone(),
        };
        over.take(excess).map(session).collect()
    }

    /// Returns whether a tuple is a session's own, and has limits that apply to its keys.
    fn limits_keys(&self, tuple: &Tuple) -> bool {
        let terms = tuple.http().map(|grant| &grant.terms);
        let has_limits = terms.is_some_and(|terms| {
            terms.viewers_max.is_some() || terms.bits_per_second_max.is_some()
        });
        has_limits && self.has_keys(&tuple.session)
    }

    /// Counts a tuple that was added or removed, if it is a key.
    pub(super) fn count_key(&mut self, tuple: &Tuple, is_there: bool) {
        let opens = tuple.http().and_then(|grant| grant.terms.opens.as_ref());
        let Some(session) = opens else { return };
        let keys = self.keys.entry(session.clone()).or_default();
        *keys = if is_there {
            *keys + 1
        } else {
            keys.saturating_sub(1)
        };
        if *keys == 0 {
            self.keys.remove(session);
        }
    }
}
