//! What every shell does alike with the core: the server, the simulation, the stages of tests and
//! benches.

use super::{ConnectionId, Relay};
use crate::gather::Gather;
use crate::moment::Moment;
use crate::stream::Outcome;

/// What became of a write to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// All of it went out.
    Whole(usize),
    /// So much of it did, and the socket takes no more.
    Part(usize),
    /// Its connection is broken.
    Broken,
}

/// Serves the client that is next, if there is one. `write` is lent what the client is to get,
/// which may be nothing after all, and says what became of it.
pub fn write_next(
    relay: &mut Relay,
    now: Moment,
    write: impl FnOnce(ConnectionId, &Gather<'_>) -> Outgoing,
) -> Option<ConnectionId> {
    let id = relay.next_write()?;
    let gather = relay.output(id, now);
    let (bytes, outcome) = match write(id, &gather) {
        Outgoing::Whole(bytes) => (bytes, Outcome::Open),
        Outgoing::Part(bytes) => (bytes, Outcome::Blocked),
        Outgoing::Broken => {
            relay.lost(id, now);
            return Some(id);
        }
    };
    if bytes > 0 {
        relay.sent(id, bytes, now);
    }
    relay.served(id, outcome, now);
    Some(id)
}
