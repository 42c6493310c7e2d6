//! Sessions to which nobody is admitted for a while, because players reconnect at once when their
//! stream is aborted.

use std::collections::HashMap;
use std::time::Duration;

use super::SessionId;
use crate::held::table_bytes;
use crate::moment::Moment;

/// The blocked sessions, each until a moment.
#[derive(Debug, Default)]
pub struct Blocks {
    until: HashMap<SessionId, Moment>,
}

/// So many sessions are blocked at once. None makes room for another: an operator relies on it.
pub const BLOCKS_MAX: usize = 1024;

impl Blocks {
    /// Blocks a session until `until`, or until then instead if it is blocked; those whose time is
    /// over are forgotten with this. Says whether there was room.
    #[must_use]
    pub fn add(&mut self, session: &SessionId, until: Moment, now: Moment) -> bool {
        self.until.retain(|_, until| *until > now);
        let has_room = self.until.len() < BLOCKS_MAX || self.until.contains_key(session);
        if has_room {
            self.until.insert(session.clone(), until);
        }
        has_room
    }

    /// What they hold in memory, in bytes.
    pub fn held_bytes(&self) -> usize {
        let names: usize = self.until.keys().map(SessionId::held_bytes).sum();
        table_bytes::<(SessionId, Moment)>(self.until.capacity()) + names
    }

    /// How long the session is blocked still.
    pub fn left(&self, session: &SessionId, now: Moment) -> Option<Duration> {
        let until = self.until.get(session)?;
        (*until > now).then(|| until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_blocked_for_its_time_and_no_longer() {
        let session = SessionId::parse(b"demo").expect("a good sessionid");
        let now = Moment::after_start(Duration::from_secs(10));
        let mut blocks = Blocks::default();
        assert!(blocks.add(&session, now + Duration::from_secs(3), now));
        assert_eq!(
            blocks.left(&session, now + Duration::from_secs(1)),
            Some(Duration::from_secs(2))
        );
        assert_eq!(blocks.left(&session, now + Duration::from_secs(3)), None);
    }

    #[test]
    fn what_is_blocked_makes_room_for_nothing() {
        let now = Moment::after_start(Duration::from_secs(10));
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
        assert!((BLOCKS_MAX * 16..512 << 10).contains(&blocks.held_bytes()));
        assert!(blocks.add(&named(BLOCKS_MAX), later + Duration::from_secs(3), soon));
    }
}
