//! The deadlines of the core, in their order. Each owner has at most one.
//!
//! A deadline that moves away is not touched while its old time is not [`SOON`]. It fires at its old
//! time, its owner finds that nothing is due yet, and arms the new one. So progress costs nothing
//! here, and an idle server has no entry. A deadline that is soon moves, since that costs less than
//! a wake-up of the server.
//!
//! A turn calls each owner whose deadline had come when the turn began, once. An owner that then
//! sets a deadline in the past is called in the next turn. So it delays no other owner.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{ConnectionId, PullId, StreamId};
use crate::time::Instant;

/// The owner of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A connection whose request, body or socket is too slow.
    Connection(ConnectionId),
    /// A stream whose next datagrams are due, or whose source is silent.
    Stream(StreamId),
    /// A pull that waits for a name or for its next round, or that nobody watches.
    Pull(PullId),
    /// The senders of a first RTP packet, whose second packet has not come.
    Candidates,
    /// Freed memory that goes back to the kernel.
    Memory,
    /// The next token that expires.
    Tokens,
}

/// The time for which an owner has an entry. The owner keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Armed(Option<Instant>);

/// An entry is soon if it fires within this time.
const SOON: Duration = Duration::from_secs(1);

/// All deadlines.
#[derive(Default)]
pub(super) struct Timers {
    due: BTreeSet<(Instant, Owner)>,
    /// Entries that this turn has yet to call. Empty between two turns.
    called: BTreeSet<(Instant, Owner)>,
}

impl Timers {
    /// Adds or moves the owner's entry, so that the owner is called at `deadline` at the latest.
    pub fn arm(&mut self, armed: &mut Armed, owner: Owner, deadline: Instant, now: Instant) {
        let is_kept = |at: Instant| {
            let is_early = at < deadline && now + SOON < at;
            at == deadline || is_early || self.called.contains(&(at, owner))
        };
        if armed.0.is_some_and(is_kept) {
            return;
        }
        self.disarm(armed, owner);
        self.due.insert((deadline, owner));
        armed.0 = Some(deadline);
    }

    /// Removes the owner's entry.
    pub fn disarm(&mut self, armed: &mut Armed, owner: Owner) {
        if let Some(deadline) = armed.0.take() {
            let entry = (deadline, owner);
            let _ = self.due.remove(&entry) || self.called.remove(&entry);
        }
    }

    /// Returns the next deadline.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(deadline, _)| *deadline)
    }

    /// Begins a turn, which calls at most `owners_max` owners whose deadline has come.
    pub fn call_due(&mut self, now: Instant, owners_max: usize) {
        while self.called.len() < owners_max
            && let Some(first) = self.due.first()
            && first.0 <= now
        {
            self.called.extend(self.due.pop_first());
        }
    }

    /// Returns the owner that this turn calls next, and removes its entry. The owner then calls
    /// [`Armed::fired`].
    pub fn next_called(&mut self) -> Option<Owner> {
        self.called.pop_first().map(|(_, owner)| owner)
    }

    /// Ends a turn. The next one calls the owners that this one has not called.
    pub fn end_turn(&mut self) {
        self.due.append(&mut self.called);
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.due.len() + self.called.len()
    }
}

impl Armed {
    /// Notes that the entry was removed, because its time has come.
    pub fn fired(&mut self) {
        self.0 = None;
    }

    /// Returns whether the owner is called at this time at the latest.
    pub fn is_armed_by(&self, deadline: Instant) -> bool {
        self.0.is_some_and(|armed| armed <= deadline)
    }

    /// Returns whether the owner has an entry.
    pub fn is_armed(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at_seconds as at;

    fn called(timers: &mut Timers) -> Vec<Owner> {
        std::iter::from_fn(|| timers.next_called()).collect()
    }

    #[test]
    fn who_asks_for_a_time_that_has_come_is_called_in_the_next_turn_and_takes_nobodys_place() {
        let mut timers = Timers::default();
        let [mut tokens, mut memory, mut candidates] = [Armed::default(); 3];
        timers.arm(&mut tokens, Owner::Tokens, at(1), at(0));
        timers.arm(&mut memory, Owner::Memory, at(2), at(0));
        timers.arm(&mut candidates, Owner::Candidates, at(9), at(0));
        timers.call_due(at(5), 256);
        assert_eq!(timers.next_called(), Some(Owner::Tokens));
        tokens.fired();
        timers.arm(&mut tokens, Owner::Tokens, at(0), at(0));
        // It is about to be called as it is.
        timers.arm(&mut memory, Owner::Memory, at(0), at(0));
        assert_eq!(called(&mut timers), [Owner::Memory]);
        memory.fired();
        assert_eq!((timers.next(), timers.len()), (Some(at(0)), 2));
        timers.call_due(at(5), 256);
        assert_eq!(called(&mut timers), [Owner::Tokens]);
        assert_eq!(timers.next(), Some(at(9)));
    }

    #[test]
    fn whom_another_has_disarmed_meanwhile_is_not_called() {
        let mut timers = Timers::default();
        let [mut tokens, mut memory] = [Armed::default(); 2];
        timers.arm(&mut tokens, Owner::Tokens, at(1), at(0));
        timers.arm(&mut memory, Owner::Memory, at(2), at(0));
        timers.call_due(at(5), 256);
        assert_eq!(timers.next_called(), Some(Owner::Tokens));
        timers.disarm(&mut memory, Owner::Memory);
        assert_eq!((timers.next_called(), timers.len()), (None, 0));
    }

    #[test]
    fn a_turn_calls_so_many_and_leaves_the_others_to_the_next() {
        let mut timers = Timers::default();
        let [mut tokens, mut memory] = [Armed::default(); 2];
        timers.arm(&mut tokens, Owner::Tokens, at(1), at(0));
        timers.arm(&mut memory, Owner::Memory, at(2), at(0));
        timers.call_due(at(5), 1);
        assert_eq!(called(&mut timers), [Owner::Tokens]);
        timers.call_due(at(5), 1);
        assert_eq!(called(&mut timers), [Owner::Memory]);
    }

    /// A deadline that moves away costs nothing: it fires at its old time, unless that is soon. One
    /// that comes nearer takes the other's place.
    #[test]
    fn an_owner_has_one_entry_the_earliest_for_which_it_has_asked() {
        let mut timers = Timers::default();
        let mut armed = Armed::default();
        assert!(!armed.is_armed() && !armed.is_armed_by(at(9)));
        for (asked, due) in [(5, 5), (5, 5), (7, 5), (4, 4), (3, 3), (9, 3)] {
            timers.arm(&mut armed, Owner::Tokens, at(asked), at(0));
            assert_eq!((timers.next(), timers.len()), (Some(at(due)), 1), "{asked}");
            assert!(armed.is_armed());
            let by = [due - 1, due, due + 1].map(|seconds| armed.is_armed_by(at(seconds)));
            assert_eq!(by, [false, true, true]);
        }
        for (now, asked, due) in [(1, 9, 3), (2, 9, 9), (2, 3, 3)] {
            timers.arm(&mut armed, Owner::Tokens, at(asked), at(now));
            assert_eq!((timers.next(), timers.len()), (Some(at(due)), 1), "{now}");
        }
        timers.call_due(at(2), 256);
        assert_eq!(timers.next_called(), None, "it is not due yet");
        timers.call_due(at(3), 256);
        assert_eq!(timers.next_called(), Some(Owner::Tokens), "it is due now");
        armed.fired();
        assert!(!armed.is_armed());
        assert_eq!((timers.next(), timers.len()), (None, 0));
    }
}
