//! Room in the token table: expired tuples are removed when their place is needed.

use std::rc::Rc;

use super::Tokens;
use crate::gate::grant::Grant;
use crate::gate::record::Record;
use crate::gate::tuple::Tuple;
use crate::time::UnixTime;

impl Tokens {
    /// Returns changes that remove expired `http` tuples while there are too many tuples, those
    /// that expired first in front. It spares tuples that limit keys or UDP sources.
    pub(super) fn to_forget(&self, now: UnixTime) -> Vec<Record> {
        let excess = self.len().saturating_sub(self.limits.tokens_max);
        let over = self.expiries.range(..=(now, u64::MAX));
        let over = over.filter_map(|((_, serial), ())| self.in_order.get(serial));
        let over = over.filter(|tuple| !self.limits_others(tuple));
        let session = |tuple: &Rc<Tuple>| Record::Forget {
            session: tuple.session.clone(),
        };
        over.take(excess).map(session).collect()
    }

    /// Returns whether a tuple is a session's own, and has limits that apply to its keys or to its UDP
    /// source. Without the tuple they would have no limit.
    fn limits_others(&self, tuple: &Tuple) -> bool {
        let Some(Grant { terms, .. }) = tuple.http() else {
            return false;
        };
        let limits_rate = terms.bits_per_second_max.is_some();
        let limits_keys = limits_rate || terms.viewers_max.is_some();
        let mut others = self.of(&tuple.session).filter(|it| it.http().is_none());
        limits_keys && self.has_keys(&tuple.session) || limits_rate && others.next().is_some()
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
