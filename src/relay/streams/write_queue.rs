//! The streams that have bytes for their viewers, and the order in which they are written.
//!
//! Streams wait in two queues: those with much for a viewer, and those with little. A turn is a few
//! writes to viewers of a queue's first stream. Then the stream goes to the end of its queue, if it
//! has more, and the next turn is the other queue's. A write of one byte takes nearly the time of
//! ten thousand, so a stream with little has a shorter turn.
//!
//! A stream with much therefore waits for one short turn beside the turns of its own queue, however
//! many streams have little. A stream with little is written at once where no stream has much. A
//! stream whose unsent bytes become many moves to the other queue.

use std::collections::VecDeque;

use crate::relay::StreamId;

/// The queue in which a stream waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backlog {
    Much,
    #[default]
    Little,
}

/// Unsent bytes from which a stream has much.
const MUCH_BYTES: u64 = 4 * 1024;

impl Backlog {
    /// Returns the queue of a stream with this many unsent bytes.
    pub fn with(bytes: u64) -> Backlog {
        if bytes >= MUCH_BYTES {
            Backlog::Much
        } else {
            Backlog::Little
        }
    }

    /// Returns how many viewers of a stream are written to in one turn.
    fn turn(self) -> usize {
        match self {
            Backlog::Much => 32,
            Backlog::Little => 8,
        }
    }
}

/// The two queues.
#[derive(Default)]
pub(super) struct WriteQueue {
    much: VecDeque<StreamId>,
    little: VecDeque<StreamId>,
    /// The queue whose turn it is. `left` counts the writes that are left of the turn.
    backlog: Backlog,
    left: usize,
}

impl WriteQueue {
    /// Returns whether no stream waits.
    pub fn is_empty(&self) -> bool {
        self.much.is_empty() && self.little.is_empty()
    }

    /// Returns the stream whose turn it is.
    pub fn next_stream(&mut self) -> Option<StreamId> {
        if self.left == 0 || self.queue(self.backlog).is_empty() {
            let other = match self.backlog {
                Backlog::Much => Backlog::Little,
                Backlog::Little => Backlog::Much,
            };
            if !self.queue(other).is_empty() {
                self.backlog = other;
            }
            self.left = self.backlog.turn();
        }
        self.queue(self.backlog).front().copied()
    }

    /// Counts a write to a viewer of the first stream. Returns whether the turn is over.
    pub fn count_write(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Removes the first stream from its queue.
    pub fn end_turn(&mut self) {
        self.queue(self.backlog).pop_front();
        self.left = 0;
    }

    /// Appends a stream with this many unsent bytes for a viewer. Returns the queue.
    pub fn push(&mut self, bytes: u64, id: StreamId) -> Backlog {
        let backlog = Backlog::with(bytes);
        self.queue(backlog).push_back(id);
        backlog
    }

    /// Moves a stream to the queue of those with much. The search is linear, and runs once for
    /// every [`MUCH_BYTES`] at most.
    pub fn move_up(&mut self, id: StreamId) {
        if let Some(place) = self.little.iter().position(|other| *other == id) {
            self.little.remove(place);
        }
        self.much.push_back(id);
    }

    fn queue(&mut self, backlog: Backlog) -> &mut VecDeque<StreamId> {
        match backlog {
            Backlog::Much => &mut self.much,
            Backlog::Little => &mut self.little,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Backlog, WriteQueue};
    use crate::relay::stage::Stage;
    use crate::relay::{ConnectionId, StreamId};
    use crate::stream::Outcome;

    /// Begins streams whose viewers have received every byte. Returns the sources.
    fn streams(stage: &mut Stage, streams: usize, viewers: usize, name: &str) -> Vec<ConnectionId> {
        let begin = |number| {
            let head = format!(
                "PUT /stream/{name}{number} HTTP/1.0\r\nContent-Type: audio/x\r\nContent-Length: 9999999\r\n\r\nx"
            );
            let source = stage.client(&head);
            for _ in 0..viewers {
                stage.viewer(&format!("{name}{number}"));
            }
            source
        };
        (0..streams).map(begin).collect()
    }

    /// Writes until one write has at least `bytes`. Returns how many writes went before.
    fn writes_before(stage: &mut Stage, bytes: usize) -> usize {
        for writes in 0.. {
            let id = stage.relay.next_write().expect("somebody gets that many");
            let length = stage.relay.output(id, stage.now).bytes();
            stage.relay.sent(id, length, stage.now);
            stage.relay.served(id, Outcome::Open, stage.now);
            if length >= bytes {
                return writes;
            }
        }
        usize::MAX
    }

    fn media(stage: &mut Stage, sources: &[ConnectionId], bytes: usize) {
        for source in sources {
            stage.relay.received(*source, &vec![7; bytes], stage.now);
        }
    }

    #[test]
    fn many_streams_with_little_do_not_delay_one_with_much() {
        let mut stage = Stage::new(&[]);
        let small = streams(&mut stage, 10, 8, "small");
        let other = streams(&mut stage, 1, 1, "other");
        for _ in 0..20 {
            media(&mut stage, &small, 1);
            media(&mut stage, &other, 10_000);
            assert!(writes_before(&mut stage, 10_000) <= 8);
        }
        // A stream that gets its bytes in small pieces has much, too, in the end.
        stage.settle();
        media(&mut stage, &small, 1);
        for _ in 0..3 {
            media(&mut stage, &other, 1_400);
        }
        assert!(writes_before(&mut stage, 4_200) <= 8);
    }

    /// Every viewer with little gets it while another stream has more and more.
    #[test]
    fn streams_with_little_are_written_beside_one_with_much() {
        let mut stage = Stage::new(&["--buffer=256K"]);
        let large = streams(&mut stage, 1, 40, "large");
        let small = streams(&mut stage, 10, 4, "small");
        media(&mut stage, &small, 100);
        let mut served = 0;
        for _ in 0..10 * (32 + 8) {
            media(&mut stage, &large, 5_000);
            let id = stage.relay.next_write().expect("there is much");
            let length = stage.relay.output(id, stage.now).bytes();
            stage.relay.sent(id, length, stage.now);
            stage.relay.served(id, Outcome::Open, stage.now);
            served += usize::from((100..1_000).contains(&length));
        }
        assert_eq!(served, 40);
    }

    fn ids() -> [StreamId; 4] {
        [1, 2, 3, 4].map(StreamId::from_u64)
    }

    /// Returns the places in [`ids`] of the streams in turn, and how many writes each turn has.
    fn turns_of(turns: &mut WriteQueue, bytes: &[u64; 4], count: usize) -> Vec<(usize, usize)> {
        let one = |_| {
            let id = turns.next_stream().expect("somebody stands there");
            let place = ids().iter().position(|other| *other == id);
            let place = place.expect("one of these");
            let mut writes = 1;
            while !turns.count_write() {
                assert_eq!(turns.next_stream(), Some(id), "its turn is not over");
                writes += 1;
            }
            turns.end_turn();
            turns.push(bytes[place], id);
            (place, writes)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_queues_alternate_and_keep_their_order() {
        let bytes = [4096, 1_000_000, 4095, 0];
        let lines = [
            Backlog::Much,
            Backlog::Much,
            Backlog::Little,
            Backlog::Little,
        ];
        let mut turns = WriteQueue::default();
        assert!(turns.is_empty() && turns.next_stream().is_none());
        turns = WriteQueue::default();
        for (place, id) in ids().into_iter().enumerate() {
            assert_eq!(turns.push(bytes[place], id), lines[place], "{place}");
            assert!(!turns.is_empty());
        }
        let order = [(0, 32), (2, 8), (1, 32), (3, 8), (0, 32), (2, 8)];
        assert_eq!(turns_of(&mut turns, &bytes, 6), order);
        // The third stream has much from now on: it goes to the end of that queue.
        turns.move_up(ids()[2]);
        let order = [(1, 32), (3, 8), (0, 32), (3, 8), (2, 32)];
        assert_eq!(turns_of(&mut turns, &bytes, 5), order);
        // Where one queue is empty, the other has every turn.
        let mut turns = WriteQueue::default();
        turns.push(1, ids()[2]);
        turns.push(1, ids()[3]);
        assert_eq!(turns_of(&mut turns, &bytes, 3), [(2, 8), (3, 8), (2, 8)]);
        turns.next_stream();
        turns.end_turn();
        assert!(!turns.is_empty());
        turns.next_stream();
        turns.end_turn();
        assert!(turns.is_empty() && turns.next_stream().is_none());
    }
}
