//! Limits how often sources begin: at most once in [`SPACING`] for each name (an address or a
//! group), since starting a stream costs more than a packet.
//!
//! Memory: at most [`NAMES_MAX`] names, 64 KiB. If they are all taken, no source begins until the
//! oldest name expires.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::time::Instant;

/// Names by which sources have begun lately.
#[derive(Debug)]
pub struct Beginnings<Name> {
    names: HashSet<Name>,
    /// The names with the times of their sources, the oldest in front.
    order: VecDeque<(Instant, Name)>,
}

/// Shortest time between two sources of one name.
const SPACING: Duration = Duration::from_secs(1);
/// Largest number of names.
const NAMES_MAX: usize = 448;

impl<Name> Default for Beginnings<Name> {
    fn default() -> Beginnings<Name> {
        Beginnings {
            names: HashSet::new(),
            order: VecDeque::new(),
        }
    }
}

impl<Name: Copy + Eq + Hash> Beginnings<Name> {
    /// Returns whether a source may begin by this name now.
    pub fn may_begin(&self, name: Name, now: Instant) -> bool {
        let is_over = |(at, _): &(Instant, Name)| now.since(*at) >= SPACING;
        let oldest_is_over = self.order.front().is_none_or(is_over);
        let has_room = self.order.len() < NAMES_MAX || oldest_is_over;
        // Expired names are only removed when the next source begins.
        let is_free = || {
            let mut order = self.order.iter().take_while(|one| is_over(one));
            order.any(|(_, of)| *of == name)
        };
        has_room && (!self.names.contains(&name) || is_free())
    }

    /// Records that a source begins.
    pub fn begin(&mut self, name: Name, now: Instant) {
        self.expire(now);
        if self.names.insert(name) {
            self.order.push_back((now, name));
        }
    }

    /// Removes expired names, and frees the memory when none is left.
    pub fn expire(&mut self, now: Instant) {
        while let Some((at, name)) = self.order.front()
            && now.since(*at) >= SPACING
        {
            self.names.remove(name);
            self.order.pop_front();
        }
        if self.order.is_empty() {
            *self = Beginnings::default();
        }
    }

    /// Returns when the oldest name expires.
    pub fn deadline(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at + SPACING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn by_one_name_a_source_begins_once_a_second() {
        let mut beginnings = Beginnings::default();
        assert!(beginnings.may_begin(1, at(0)));
        beginnings.begin(1, at(0));
        beginnings.begin(2, at(500));
        for (name, now, may) in [
            (1, 0, false),
            (1, 999, false),
            (2, 999, false),
            (3, 999, true),
            (1, 1000, true),
            (2, 1499, false),
            (2, 1500, true),
        ] {
            assert_eq!(beginnings.may_begin(name, at(now)), may, "{name} at {now}");
        }
        assert_eq!(beginnings.deadline(), Some(at(1000)));
        beginnings.begin(1, at(1200));
        assert!(!beginnings.may_begin(1, at(2199)));
        assert_eq!(beginnings.deadline(), Some(at(1500)));
        beginnings.expire(at(2200));
        assert_eq!(beginnings.deadline(), None);
    }

    #[test]
    fn memory_is_bounded_and_time_makes_room() {
        let mut beginnings = Beginnings::default();
        let mut begun = 0;
        for number in 0..100_000_u32 {
            let now = at(u64::from(number) / 10);
            let name = SocketAddr::from((number.to_be_bytes(), 5004));
            if beginnings.may_begin(name, now) {
                begun += 1;
                beginnings.begin(name, now);
            }
        }
        assert_eq!(begun, 10 * NAMES_MAX);
    }
}
