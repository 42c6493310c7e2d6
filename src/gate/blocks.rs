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

/// More are not remembered: the one that ends first makes room.
const BLOCKS_MAX: usize = 1024;

impl Blocks {
    /// Blocks a session until `until`; those whose time is over are forgotten with this.
    pub fn add(&mut self, session: &SessionId, until: Moment, now: Moment) {
        self.until.retain(|_, until| *until > now);
        if self.until.len() >= BLOCKS_MAX {
            let first = self
                .until
                .iter()
                .min_by_key(|(_, until)| **until)
                .map(|(session, _)| session.clone());
            first.and_then(|first| self.until.remove(&first));
        }
        self.until.insert(session.clone(), until);
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
        blocks.add(&session, now + Duration::from_secs(3), now);
        assert_eq!(
            blocks.left(&session, now + Duration::from_secs(1)),
            Some(Duration::from_secs(2))
        );
        assert_eq!(blocks.left(&session, now + Duration::from_secs(3)), None);
        for number in 0..2 * BLOCKS_MAX {
            let other = SessionId::parse(number.to_string().as_bytes()).expect("a good sessionid");
            blocks.add(&other, now + Duration::from_secs(60), now);
        }
        assert!(blocks.until.len() <= BLOCKS_MAX);
        assert!((BLOCKS_MAX * 16..512 << 10).contains(&blocks.held_bytes()));
    }
}
