//! What every shell does alike with the core: the server, the simulation, the stages of tests and
//! benches.

use std::collections::VecDeque;

use super::{AHEAD_COST_MAX, ConnectionId, END_COST, Relay};
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

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// So many bytes.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// The client sends no more.
    End,
    /// Its connection is broken.
    Broken,
}

/// What is known of a connection's input.
#[derive(Debug, Default)]
pub struct Input {
    is_readable: bool,
    is_ending: bool,
    is_broken: bool,
    /// It stands in one of the lists of those that are to be read.
    is_queued: bool,
}

impl Input {
    /// There may be something to read. What arrived before the connection ended or broke is read
    /// first; then reading says so, and no further event tells of it.
    pub fn note(&mut self, is_ending: bool, is_broken: bool) {
        self.is_readable = true;
        self.is_ending |= is_ending || is_broken;
        self.is_broken |= is_broken;
    }
}

/// The connections' inputs, as a turn needs them.
pub trait Inputs {
    /// `None`: it is closed.
    fn input(&mut self, id: ConnectionId) -> Option<&mut Input>;

    /// Reads once, at most so many bytes, which are more than none.
    fn read(&mut self, id: ConnectionId, bytes_max: usize) -> Incoming;

    /// What was read last, and how many bytes it had.
    fn bytes(&self, count: usize) -> &[u8];

    /// The core has heard of something.
    fn heard(&mut self, _relay: &Relay) {}
}

/// What is read at once from each client, however many there are: a system call should be worth it.
const SHARE_BYTES_MIN: usize = 16 * 1024;

/// How much is read in a turn of the loop, and when that is.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// At once from one client: as many as there is a buffer for.
    pub bytes_max: usize,
    /// From those of whom it is news, and again from those who have more.
    pub cost_max: usize,
    /// The turn's time.
    pub now: Moment,
}

/// Whose input is read next.
#[derive(Debug, Default)]
pub struct Readers {
    /// Of whom it is news that there is something.
    news: VecDeque<ConnectionId>,
    /// Whom one go has not emptied.
    more: VecDeque<ConnectionId>,
}

impl Readers {
    /// Nobody is left over.
    pub fn is_empty(&self) -> bool {
        self.news.is_empty() && self.more.is_empty()
    }

    /// There may be something to read from this client, if its input says so.
    pub fn push(&mut self, id: ConnectionId, input: &mut Input) {
        if input.is_readable && !input.is_queued {
            input.is_queued = true;
            self.news.push_back(id);
        }
    }

    /// Reads once from every client that has something: first from those of whom it is news, then
    /// from those whom one go has not emptied, and last on in what clients have sent ahead. Each
    /// has a share of the turn; whoever is left over when it is used up comes first in the next
    /// one.
    pub fn read_in_turn(&mut self, relay: &mut Relay, inputs: &mut impl Inputs, share: Share) {
        let news = self.news.len();
        self.read_from_next(news, |readers| &mut readers.news, relay, inputs, share);
        let more = self.more.len();
        self.read_from_next(more, |readers| &mut readers.more, relay, inputs, share);
        let mut cost = 0;
        while cost < AHEAD_COST_MAX.min(share.cost_max)
            && let Some(spent) = relay.read_ahead(share.now)
        {
            cost += spent;
            inputs.heard(relay);
        }
    }

    fn read_from_next(
        &mut self,
        clients: usize,
        list: fn(&mut Readers) -> &mut VecDeque<ConnectionId>,
        relay: &mut Relay,
        inputs: &mut impl Inputs,
        share: Share,
    ) {
        // Nobody's bytes are many where many have some.
        let bytes_max = (share.cost_max / clients.max(1)).max(SHARE_BYTES_MIN);
        let bytes_max = bytes_max.min(share.bytes_max);
        let mut cost = 0;
        for _ in 0..clients {
            if cost >= share.cost_max {
                return;
            }
            if let Some(id) = list(self).pop_front() {
                cost += self.read_from(id, relay, inputs, Share { bytes_max, ..share });
                inputs.heard(relay);
            }
        }
    }

    /// Reads once from a client; says what that cost.
    fn read_from(
        &mut self,
        id: ConnectionId,
        relay: &mut Relay,
        inputs: &mut impl Inputs,
        Share { bytes_max, now, .. }: Share,
    ) -> usize {
        let wanted = relay.appetite(id).min(bytes_max);
        let Some(input) = inputs.input(id) else {
            return 0;
        };
        input.is_queued = false;
        if wanted == 0 && input.is_broken {
            relay.lost(id, now);
            return END_COST;
        }
        if wanted == 0 && input.is_ending {
            relay.input_ended(id, true, now);
            return END_COST;
        }
        if wanted == 0 || !input.is_readable {
            return 0;
        }
        match inputs.read(id, wanted) {
            Incoming::Bytes(bytes) => {
                // Before the core is told: it may close this.
                if let Some(input) = inputs.input(id) {
                    input.is_readable = bytes == wanted || input.is_ending;
                    input.is_queued = input.is_readable;
                    if input.is_queued {
                        self.more.push_back(id);
                    }
                }
                return relay.received(id, inputs.bytes(bytes), now);
            }
            Incoming::Nothing => {
                if let Some(input) = inputs.input(id) {
                    input.is_readable = false;
                }
                return 0;
            }
            Incoming::End => relay.input_ended(id, false, now),
            Incoming::Broken => relay.lost(id, now),
        }
        END_COST
    }
}
