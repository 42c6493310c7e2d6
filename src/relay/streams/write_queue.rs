//! Whose turn it is, of the streams that have something for their viewers.
//!
//! They stand in two lines: who has much for a viewer, and who has little. A turn is a few writes
//! to viewers of the first stream of a line; then it goes to that line's end, if it has more, and
//! the next turn is the other line's. A write takes nearly as long for a byte as for ten thousand,
//! so little has shorter turns. However many streams have little, one with much waits for one of
//! their turns, beside those of its own line; and who has little is served at once where nobody has
//! much. Little that waits becomes much.

use std::collections::VecDeque;

use crate::relay::StreamId;

/// A line in which streams stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    Much,
    Little,
}

/// With so many bytes that a viewer has not got, there is much for it.
const MUCH_BYTES: u64 = 4 * 1024;

impl Backlog {
    /// The line of a viewer who has not got so many bytes.
    pub fn with(bytes: u64) -> Backlog {
        if bytes >= MUCH_BYTES {
            Backlog::Much
        } else {
            Backlog::Little
        }
    }

    fn opposite(self) -> Backlog {
        match self {
            Backlog::Much => Backlog::Little,
            Backlog::Little => Backlog::Much,
        }
    }

    /// Viewers of one stream that are served before the next has its turn.
    fn turn(self) -> usize {
        match self {
            Backlog::Much => 32,
            Backlog::Little => 8,
        }
    }
}

/// The two lines.
pub(super) struct WriteQueue {
    much: VecDeque<StreamId>,
    little: VecDeque<StreamId>,
    /// Whose turn it is, and how many writes of it are left.
    line: Backlog,
    left: usize,
}

impl WriteQueue {
    /// Nobody stands there.
    pub fn new() -> WriteQueue {
        WriteQueue {
            much: VecDeque::new(),
            little: VecDeque::new(),
            line: Backlog::Little,
            left: 0,
        }
    }

    /// Whether nobody stands there.
    pub fn is_empty(&self) -> bool {
        self.much.is_empty() && self.little.is_empty()
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        (self.much.capacity() + self.little.capacity()) * size_of::<StreamId>()
    }

    /// The stream whose turn it is.
    pub fn whose(&mut self) -> Option<StreamId> {
        if self.left == 0 || self.standing(self.line).is_empty() {
            let other = self.line.opposite();
            if !self.standing(other).is_empty() {
                self.line = other;
            }
            self.left = self.line.turn();
        }
        self.standing(self.line).front().copied()
    }

    /// A viewer of the first stream is served. Says whether its turn is over.
    pub fn is_over_with_this(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// The first stream leaves its line.
    pub fn end_turn(&mut self) {
        self.standing(self.line).pop_front();
        self.left = 0;
    }

    /// A stream with so many bytes for a viewer stands behind the others from now on; says where.
    pub fn line_up(&mut self, bytes: u64, id: StreamId) -> Backlog {
        let line = Backlog::with(bytes);
        self.standing(line).push_back(id);
        line
    }

    /// Who had little has much. Looks for it among those who have little: once for so many bytes.
    pub fn move_up(&mut self, id: StreamId) {
        if let Some(place) = self.little.iter().position(|other| *other == id) {
            self.little.remove(place);
        }
        self.much.push_back(id);
    }

    fn standing(&mut self, line: Backlog) -> &mut VecDeque<StreamId> {
        match line {
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

    /// Streams of so many viewers each, who have everything up to now.
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

    /// Writes until somebody gets so many bytes at once; says how many others are written to first.
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
    fn many_streams_with_little_do_not_hold_up_one_with_much() {
        let mut stage = Stage::new(&[]);
        let small = streams(&mut stage, 10, 8, "small");
        let other = streams(&mut stage, 1, 1, "other");
        for _ in 0..20 {
            media(&mut stage, &small, 1);
            media(&mut stage, &other, 10_000);
            assert!(writes_before(&mut stage, 10_000) <= 8);
        }
        // What comes in small pieces, too, once it is much.
        stage.settle();
        media(&mut stage, &small, 1);
        for _ in 0..3 {
            media(&mut stage, &other, 1_400);
        }
        assert!(writes_before(&mut stage, 4_200) <= 8);
    }

    /// All who have little get it while somebody has much without end.
    #[test]
    fn little_is_served_beside_much() {
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

    /// Who stands there, by their places in [`ids`], and how many writes their turns have.
    fn turns_of(turns: &mut WriteQueue, bytes: &[u64; 4], count: usize) -> Vec<(usize, usize)> {
        let one = |_| {
            let id = turns.whose().expect("somebody stands there");
            let place = ids().iter().position(|other| *other == id);
            let place = place.expect("one of these");
            let mut writes = 1;
            while !turns.is_over_with_this() {
                assert_eq!(turns.whose(), Some(id), "its turn is not over");
                writes += 1;
            }
            turns.end_turn();
            turns.line_up(bytes[place], id);
            (place, writes)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_lines_take_turns_and_each_its_streams_in_order() {
        let bytes = [4096, 1_000_000, 4095, 0];
        let lines = [
            Backlog::Much,
            Backlog::Much,
            Backlog::Little,
            Backlog::Little,
        ];
        let mut turns = WriteQueue::new();
        assert!(turns.is_empty() && turns.whose().is_none());
        assert_eq!(turns.held_bytes(), 0);
        turns = WriteQueue::new();
        for (place, id) in ids().into_iter().enumerate() {
            assert_eq!(turns.line_up(bytes[place], id), lines[place], "{place}");
            assert!(!turns.is_empty());
            assert!(turns.held_bytes() >= (place + 1) * size_of::<StreamId>());
        }
        assert!(turns.held_bytes() < 64 * size_of::<StreamId>());
        let order = [(0, 32), (2, 8), (1, 32), (3, 8), (0, 32), (2, 8)];
        assert_eq!(turns_of(&mut turns, &bytes, 6), order);
        // The third has much from now on, and stands behind those who have.
        turns.move_up(ids()[2]);
        let order = [(1, 32), (3, 8), (0, 32), (3, 8), (2, 32)];
        assert_eq!(turns_of(&mut turns, &bytes, 5), order);
        // Where one line is empty the other has all turns.
        let mut turns = WriteQueue::new();
        turns.line_up(1, ids()[2]);
        turns.line_up(1, ids()[3]);
        assert_eq!(turns_of(&mut turns, &bytes, 3), [(2, 8), (3, 8), (2, 8)]);
        turns.whose();
        turns.end_turn();
        assert!(!turns.is_empty());
        turns.whose();
        turns.end_turn();
        assert!(turns.is_empty() && turns.whose().is_none());
    }
}
