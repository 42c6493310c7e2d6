//! What is due, and when: one deadline for each owner, ordered.
//!
//! A deadline that moves away is not touched: it fires at its old time, its owner finds that
//! nothing is due yet, and arms the new one. So progress costs nothing here, an owner has one entry
//! at most, and an idle server has none.

use std::collections::BTreeSet;

use super::{ConnectionId, LiveId, PullId};
use crate::moment::Moment;

/// Who asked to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A connection: a head, a body or a viewer that is too slow.
    Connection(ConnectionId),
    /// A stream: its next datagrams, its source's silence.
    Live(LiveId),
    /// A pull: an origin's name, the next round, nobody to watch.
    Pull(PullId),
    /// First packets of RTP sources: the second has not come.
    Candidates,
    /// Memory that has been freed: it has been for a while.
    Memory,
    /// A token that will be over.
    Tokens,
}

/// The moment for which an owner has an entry, kept at the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Armed(Option<Moment>);

/// All deadlines.
#[derive(Default)]
pub(super) struct Timers {
    due: BTreeSet<(Moment, Owner)>,
}

impl Timers {
    /// Wakes the owner at `deadline` at the latest.
    pub fn arm(&mut self, armed: &mut Armed, owner: Owner, deadline: Moment) {
        if armed.0.is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.disarm(armed, owner);
        self.due.insert((deadline, owner));
        armed.0 = Some(deadline);
    }

    /// Bytes that the tree takes at the most: its nodes have eleven places, five of them used.
    pub fn held_bytes(&self) -> usize {
        let node_bytes = 11 * size_of::<(Moment, Owner)>() + 13 * size_of::<usize>();
        self.due.len().div_ceil(5) * node_bytes
    }

    /// Forgets the owner's entry.
    pub fn disarm(&mut self, armed: &mut Armed, owner: Owner) {
        if let Some(deadline) = armed.0.take() {
            self.due.remove(&(deadline, owner));
        }
    }

    /// When the next owner is to be woken.
    pub fn next(&self) -> Option<Moment> {
        self.due.first().map(|(deadline, _)| *deadline)
    }

    /// An owner whose time has come. Its entry is gone: the caller clears what the owner remembers
    /// with [`Armed::fired`].
    pub fn pop_due(&mut self, now: Moment) -> Option<Owner> {
        let (deadline, owner) = *self.due.first()?;
        if deadline > now {
            return None;
        }
        self.due.pop_first();
        Some(owner)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.due.len()
    }
}

impl Armed {
    /// The entry has been popped.
    pub fn fired(&mut self) {
        self.0 = None;
    }

    /// Whether the owner is called by then at the latest.
    pub fn is_armed_by(&self, deadline: Moment) -> bool {
        self.0.is_some_and(|armed| armed <= deadline)
    }

    /// Whether there is an entry.
    pub fn is_armed(&self) -> bool {
        self.0.is_some()
    }
}
