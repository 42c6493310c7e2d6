//! How much is read of a client at a time, and what it costs: nobody holds up the others for longer
//! than a turn's share.
//!
//! A head costs far more than a byte: behind it a stream may begin and end. So of what has come of
//! one client a few heads are read at one go; the rest stays in its input, which its appetite
//! bounds, and the client stands in a list, whose members are read on in turn, each a few heads.
//! What is answered costs too: the page has a thousand times the bytes of its request, and the
//! figures are sums over all connections.

use std::collections::VecDeque;

use super::clients::Clients;
use super::connection::Phase;
use super::waiting::Fate;
use super::{Action, ConnectionId, Relay};
use crate::moment::Moment;

/// What a turn of the loop may spend on reading what comes. In bytes of media, some nanoseconds
/// each.
pub const READ_COST_MAX: usize = 1024 * 1024;
/// And on reading on in what has come before: less, since whoever sends ahead may wait.
pub const AHEAD_COST_MAX: usize = READ_COST_MAX / 4;
/// And on datagrams: a source that begins, or says that it is over, costs a head.
pub const DATAGRAMS_COST_MAX: usize = READ_COST_MAX / 4;

/// Heads that are read of a client at one go.
pub(super) const HEADS_AT_ONCE_MAX: usize = 2;

/// What it costs that a connection is over.
pub const END_COST: usize = HEAD_COST;
/// What each go costs besides: a system call, as a rule.
const GO_COST: usize = 512;
pub(super) const HEAD_COST: usize = 4096;
/// A piece of a body, such as a chunk.
pub(super) const PIECE_COST: usize = 128;

/// Something is looked at that may lie anywhere in memory.
pub(super) const LOOK_COST: usize = 8;

/// Who is read on, and what this go has cost.
#[derive(Default)]
pub(super) struct Reading {
    ahead: VecDeque<ConnectionId>,
    cost: usize,
}

impl Reading {
    pub fn begin(&mut self, bytes: usize) {
        self.cost = GO_COST + bytes;
    }

    /// It costs so much more: a byte read, or put out by an answer, counts one.
    pub fn count(&mut self, cost: usize) {
        self.cost += cost;
    }

    pub fn cost(&self) -> usize {
        self.cost
    }

    /// The bytes that the list holds.
    pub fn held_bytes(&self) -> usize {
        self.ahead.capacity() * size_of::<ConnectionId>()
    }
}

impl Clients {
    /// More of what this client has sent can be read at once: it waits for its turn.
    pub(super) fn wait_ahead(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_ahead
        {
            connection.is_ahead = true;
            self.reading.ahead.push_back(id);
        }
    }
}

impl Relay {
    /// Reads on in what the first of those clients has sent ahead, as far as it may at one go, and
    /// answers it if it has waited; says what that cost. `None`: there is none.
    pub fn read_ahead(&mut self, now: Moment) -> Option<usize> {
        self.desk.now = now;
        let id = self.clients.reading.ahead.pop_front()?;
        self.clients.reading.begin(0);
        if let Some(connection) = self.clients.connections.get_mut(id) {
            connection.is_ahead = false;
            if let Phase::Waiting(waiting) = &connection.phase
                && waiting.fate != Fate::Open
            {
                self.clients.reading.count(HEAD_COST);
                self.end_wait(id);
            }
            self.read_input(id);
        }
        self.settle();
        // What its socket holds is wanted when all this is read.
        if self
            .clients
            .connections
            .get(id)
            .is_some_and(|connection| !connection.is_ahead)
        {
            self.desk.actions.push_back(Action::ReadOn(id));
            self.clients.rearm(id, &mut self.desk);
        }
        Some(self.clients.reading.cost)
    }

    /// Whether [`Relay::read_ahead`] has somebody.
    pub fn has_ahead(&self) -> bool {
        !self.clients.reading.ahead.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::counts::Count;
    use crate::relay::stage::Stage;
    use std::net::SocketAddr;

    const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";

    /// One turn of the shell's, but for the sockets; says how many heads were read in it.
    fn turn(stage: &mut Stage) -> u64 {
        let before = stage.relay.desk.counts.of(Count::Streams);
        let mut cost = 0;
        while cost < AHEAD_COST_MAX
            && let Some(spent) = stage.relay.read_ahead(stage.now)
        {
            cost += spent;
        }
        for _ in 0..256 {
            stage.write_next();
        }
        while stage.relay.next_action().is_some() {}
        stage.relay.check();
        stage.relay.desk.counts.of(Count::Streams) - before
    }

    /// Between two of its turns a client waits for a turn's share of heads, however many others
    /// have sent.
    #[test]
    fn requests_sent_ahead_are_read_a_share_at_a_time() {
        let (clients, requests) = (90, 200);
        let mut stage = Stage::new(&["--takeover"]);
        let ahead = PUT.repeat(requests);
        let mut ids = Vec::new();
        for port in 0..clients {
            let peer = SocketAddr::from(([10, 0, 0, 2], 1000 + port));
            let id = stage.relay.accepted(peer, stage.now).expect("room");
            let before = stage.relay.desk.counts.of(Count::Streams);
            assert!(stage.relay.appetite(id) >= ahead.len());
            let cost = stage.relay.received(id, ahead.as_bytes(), stage.now);
            let heads = (stage.relay.desk.counts.of(Count::Streams) - before) as usize;
            assert_eq!(heads, HEADS_AT_ONCE_MAX, "at one go");
            assert!(cost >= ahead.len() + heads * HEAD_COST);
            assert_eq!(stage.relay.appetite(id), 0, "it has enough for now");
            ids.push(id);
        }
        let (mut streams, mut turns) = (stage.relay.desk.counts.of(Count::Streams), 0);
        while stage.relay.has_ahead() {
            // Whoever comes now is heard at once, and answered with what the turn writes.
            let peer = SocketAddr::from(([10, 0, 0, 3], 1000));
            let other = stage.relay.accepted(peer, stage.now).expect("room");
            let request = b"GET /healthz HTTP/1.0\r\n\r\n";
            stage.relay.received(other, request, stage.now);
            let heads = turn(&mut stage);
            streams += heads;
            turns += 1;
            assert!(heads as usize <= AHEAD_COST_MAX / HEAD_COST + HEADS_AT_ONCE_MAX);
            stage.assert_status(other, 200);
            stage.relay.lost(other, stage.now);
        }
        assert!(turns > usize::from(clients) * requests * HEAD_COST / AHEAD_COST_MAX / 2);
        assert_eq!(streams, u64::from(clients) * requests as u64);
        for id in ids {
            assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), requests);
            assert!(stage.relay.appetite(id) > 0);
        }
    }

    /// What is answered counts: the page by its bytes, the figures by what they look at.
    #[test]
    fn long_answers_are_made_a_share_at_a_time() {
        for (path, connections) in [("/", 40), ("/metrics", 95)] {
            let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let ids: Vec<ConnectionId> = (0..connections).map(|_| stage.client("")).collect();
            for id in &ids {
                let ahead = request.repeat(9);
                stage.relay.received(*id, ahead.as_bytes(), stage.now);
            }
            while stage.write_next() {}
            let answered = |stage: &Stage| -> usize { stage.written.values().map(Vec::len).sum() };
            let each = answered(&stage) / ids.len() / HEADS_AT_ONCE_MAX;
            let look_cost = match path {
                "/metrics" => connections * LOOK_COST,
                _ => 0,
            };
            let answers_max = AHEAD_COST_MAX / (each + HEAD_COST + look_cost) + HEADS_AT_ONCE_MAX;
            assert!(answers_max < connections, "more than one turn has work");
            let mut turns = 0;
            while stage.relay.has_ahead() {
                let before = answered(&stage);
                turn(&mut stage);
                while stage.write_next() {}
                let answers = (answered(&stage) - before).div_ceil(each);
                assert!(
                    answers <= answers_max + 1,
                    "{path}: {answers} of {answers_max}"
                );
                turns += 1;
            }
            assert!(turns > 1);
            let all = ids
                .iter()
                .map(|id| stage.text(*id).matches("HTTP/1.1 200").count());
            assert_eq!(all.sum::<usize>(), 9 * connections);
        }
    }

    /// Of an origin's answers, too: it may send any number of interim ones.
    #[test]
    fn interim_answers_are_read_a_share_at_a_time() {
        let mut stage = Stage::new(&["--origin=http://127.0.0.1:9000"]);
        let viewer = stage.viewer("s");
        let (origin, _, _) = stage.call();
        let answers = "HTTP/1.1 100 Continue\r\n\r\n".repeat(500);
        let cost = stage.relay.received(origin, answers.as_bytes(), stage.now);
        assert_eq!(
            cost,
            GO_COST + answers.len() + HEADS_AT_ONCE_MAX * HEAD_COST
        );
        stage.settle();
        stage.send(origin, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmedia");
        stage.assert_status(viewer, 200);
        assert_eq!(stage.content(viewer), ("media".to_owned(), true));
    }

    /// A stream is given many small chunks at once, and its viewers every byte of them, wherever
    /// they are cut.
    #[test]
    fn small_chunks_cost_a_stream_little() {
        let chunks = |from: usize, to: usize| -> String {
            let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
            let chunk = |number| format!("1\r\n{}\r\n", letter(number));
            (from..to).map(chunk).collect()
        };
        let mut stage = Stage::new(&[]);
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let source = stage.client(head);
        let viewer = stage.viewer("s");
        let body = format!("{}0\r\n\r\n", chunks(0, 9000));
        let mut rest = body.as_bytes();
        for bytes in [40_000, 1, 2, 3, 4, 5, 6, 7] {
            let (piece, behind) = rest.split_at(bytes);
            let cost = stage.relay.received(source, piece, stage.now);
            assert!(cost <= GO_COST + bytes + 3 * PIECE_COST, "{bytes}: {cost}");
            stage.settle();
            rest = behind;
        }
        stage.relay.received(source, rest, stage.now);
        stage.settle();
        stage.assert_status(source, 200);
        let expected: String = (0..9000)
            .map(|n| char::from(b'a' + (n % 26) as u8))
            .collect();
        assert_eq!(stage.content(viewer), (expected, true));
    }

    /// What was sent ahead of a long answer is read after it, as is what is in the socket still.
    #[test]
    fn a_client_is_read_on_when_all_that_it_sent_ahead_is_read() {
        let mut stage = Stage::new(&[]);
        let requests = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".repeat(9);
        let peer = SocketAddr::from(([10, 0, 0, 2], 1000));
        let id = stage.relay.accepted(peer, stage.now).expect("room");
        stage.relay.received(id, requests.as_bytes(), stage.now);
        let mut actions = Vec::new();
        while stage.relay.read_ahead(stage.now).is_some() {
            assert_eq!(actions, [], "before it is read");
            actions.extend(std::iter::from_fn(|| stage.relay.next_action()));
        }
        assert!(actions.contains(&Action::ReadOn(id)));
        stage.settle();
        assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), 9);
    }
}
