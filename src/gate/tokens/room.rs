//! Room for tokens: what is over is forgotten when its place is needed.

use super::Tokens;
use crate::gate::session_id::SessionId;
use crate::gate::tuple::Tuple;
use crate::stamp::Stamp;

impl Tokens {
    /// Forgets `http` tuples that are over, those first that have been for longest, while there are
    /// more than may be.
    pub(super) fn make_room(&mut self, now: Stamp) {
        // A session's limits count for its keys: they go last, and not for another's token.
        for spares in [true, false] {
            let excess = self.len().saturating_sub(self.limits.tokens_max);
            let over = self
                .over(now)
                .filter(|serial| !spares || !self.limits_keys(*serial));
            for serial in over.take(excess).collect::<Vec<_>>() {
                self.forget_http(serial);
            }
        }
    }

    /// The serials of those that are over, those first that have been for longest.
    pub(super) fn over(&self, now: Stamp) -> impl Iterator<Item = u64> {
        let over = self.shuts.range(..=(now, u64::MAX));
        over.map(|((_, serial), ())| *serial)
    }

    /// Whether a tuple is a session's own, and limits what is done by keys to it.
    pub(in crate::gate) fn limits_keys(&self, serial: u64) -> bool {
        self.in_order.get(&serial).is_some_and(|tuple| {
            let terms = tuple.http().map(|grant| &grant.terms);
            let has_limits = terms.is_some_and(|terms| {
                terms.viewers_max.is_some() || terms.bits_per_second_max.is_some()
            });
            has_limits && self.has_keys(&tuple.session)
        })
    }

    /// A tuple has come, or is gone: it may be a key.
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

    /// Sessionids whose `http` tuples made room since this was asked last, and what those opened.
    pub fn take_forgotten(&mut self) -> Vec<(SessionId, SessionId)> {
        std::mem::take(&mut self.forgotten)
    }

    fn forget_http(&mut self, serial: u64) {
        let Some(tuple) = self.in_order.remove(&serial) else {
            return;
        };
        self.remove_shuts(&tuple);
        self.count_key(&tuple, false);
        self.tuples_bytes -= tuple.held_bytes();
        let of = self.opened_by(&tuple.session).clone();
        self.forgotten.push((tuple.session.clone(), of));
        if let Some(known) = self.sessions.get_mut(&tuple.session) {
            known.http = None;
            if known.rtp.is_empty() {
                self.tuples_bytes -= known.destinations_bytes();
                self.sessions.remove(&tuple.session);
            }
        }
    }
}
