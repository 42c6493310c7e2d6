//! Blocks of sessions and viewers for a while. Players reconnect at once when they are
//! disconnected, so an aborted session, or a viewer that was kicked, is not admitted again until
//! its block ends.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::time::Instant;

/// Names that are blocked, each with the end of its block.
#[derive(Debug)]
pub struct Blocks<K> {
    until: HashMap<K, Instant>,
}

impl<K> Default for Blocks<K> {
    fn default() -> Blocks<K> {
        Blocks {
            until: HashMap::new(),
        }
    }
}

/// Largest number of blocks. A new block never removes another, since an operator relies on each.
pub const BLOCKS_MAX: usize = 1024;

impl<K: Clone + Eq + Hash> Blocks<K> {
    /// Blocks a name until `until`, also if it is blocked already. Removes blocks that have ended.
    /// Returns whether there was space.
    #[must_use]
    pub fn add(&mut self, whom: &K, until: Instant, now: Instant) -> bool {
        self.until.retain(|_, until| *until > now);
        let has_room = self.until.len() < BLOCKS_MAX || self.until.contains_key(whom);
        if has_room {
            self.until.insert(whom.clone(), until);
        }
        has_room
    }

    /// Returns all blocked names, each with the end of its block.
    #[cfg(feature = "handover")]
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Instant)> {
        self.until.iter()
    }

    /// Returns the time until the name's block ends; `None` if it is not blocked.
    pub fn left(&self, whom: &K, now: Instant) -> Option<Duration> {
        let until = self.until.get(whom)?;
        (*until > now).then(|| until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::SessionId;

    #[test]
    fn a_session_is_blocked_for_its_time_and_no_longer() {
        let session = SessionId::parse(b"demo").expect("a good sessionid");
        let now = Instant::after_start(Duration::from_secs(10));
        let mut blocks = Blocks::default();
        assert!(blocks.add(&session, now + Duration::from_secs(3), now));
        assert_eq!(
            blocks.left(&session, now + Duration::from_secs(1)),
            Some(Duration::from_secs(2))
        );
        assert_eq!(blocks.left(&session, now + Duration::from_secs(3)), None);
    }

    #[test]
    fn a_block_is_never_removed_for_a_new_one() {
        let now = Instant::after_start(Duration::from_secs(10));
        let named = |number: usize| {
            SessionId::parse(number.to_string().as_bytes()).expect("a good sessionid")
        };
        let (soon, later) = (now + Duration::from_secs(3), now + Duration::from_secs(60));
        let mut blocks = Blocks::default();
        assert!(blocks.add(&named(0), soon, now));
        for number in 1..2 * BLOCKS_MAX {
            let has_room = number < BLOCKS_MAX;
            assert_eq!(blocks.add(&named(number), later, now), has_room);
            assert_eq!(blocks.left(&named(number), now).is_some(), has_room);
        }
        assert!(blocks.left(&named(0), now).is_some());
        assert!(blocks.add(&named(1), soon, now), "it is blocked already");
        assert!(blocks.add(&named(BLOCKS_MAX), later + Duration::from_secs(3), soon));
    }
}
