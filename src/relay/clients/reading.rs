//! How much is read of a client at a time, and what it costs: nobody holds up the others for longer
//! than a turn's share.
//!
//! A head costs far more than a byte: behind it a stream may begin and end. So of what has come of
//! one client a few heads are read at one go; the rest stays in its input, which its appetite
//! bounds, and the client stands in a list, whose members are read on in turn, each a few heads.
//! What is answered costs too: the page has a thousand times the bytes of its request, and the
//! figures are sums over all connections.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::waiting::Fate;
use super::{Clients, Event, Phase};
use crate::http::Part;
use crate::relay::desk::Desk;
use crate::relay::{Action, ConnectionId, LiveId};

/// What a turn of the loop may spend on reading what comes. In bytes of media, some nanoseconds
/// each.
pub const READ_COST_MAX: usize = 1024 * 1024;
/// And on reading on in what has come before: less, since whoever sends ahead may wait.
pub const AHEAD_COST_MAX: usize = READ_COST_MAX / 4;
/// And on datagrams: a source that begins, or says that it is over, costs a head.
pub const DATAGRAMS_COST_MAX: usize = READ_COST_MAX / 4;

/// Heads that are read of a client at one go.
const HEADS_AT_ONCE_MAX: usize = 2;

/// What it costs that a connection is over.
pub const END_COST: usize = HEAD_COST;
/// What each go costs besides: a system call, as a rule.
const GO_COST: usize = 512;
/// A head that is read, and what comes of it.
pub const HEAD_COST: usize = 4096;
/// A piece of a body, such as a chunk.
const PIECE_COST: usize = 128;

/// Something is looked at that may lie anywhere in memory.
pub const LOOK_COST: usize = 8;

/// Who is read on, and what this go has cost.
#[derive(Default)]
pub(super) struct Reading {
    ahead: VecDeque<ConnectionId>,
    cost: usize,
    /// Heads that have been read in this go.
    heads: usize,
}

/// What came of reading on in what a client sent.
pub enum Step<'a> {
    /// Nothing more can be read now.
    Stop,
    /// There may be more.
    On,
    /// Media of this stream. There may be more.
    Media(LiveId, &'a [u8]),
    /// Others must act on it, before more is read.
    Came(Event),
}

/// What there is to read of a client.
pub struct Input<'a> {
    bytes: Cow<'a, [u8]>,
    is_head: bool,
}

impl Input<'_> {
    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// How many bytes of a client are wanted.
pub enum Appetite {
    /// So many.
    Bytes(usize),
    /// As many as this stream wants, and no more than that.
    OfStream(LiveId, usize),
}

/// What is read at once from a client that has no media to send.
pub(super) const READ_BYTES_MAX: usize = 16 * 1024;
/// Requests that are sent ahead while another is being answered.
const AHEAD_BYTES_MAX: usize = 4 * 1024;

impl Reading {
    /// A go begins, with so many bytes.
    pub fn begin(&mut self, bytes: usize) {
        self.cost = GO_COST + bytes;
        self.heads = 0;
    }

    /// It costs so much more: a byte read, or put out by an answer, counts one.
    pub fn count(&mut self, cost: usize) {
        self.cost += cost;
    }

    fn count_head(&mut self) {
        self.heads += 1;
        self.cost += HEAD_COST;
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

    /// What follows is a go of so many bytes.
    pub fn begin_go(&mut self, bytes: usize) {
        self.reading.begin(bytes);
    }

    /// The go costs so much more.
    pub fn count_cost(&mut self, cost: usize) {
        self.reading.count(cost);
    }

    /// What the go has cost.
    pub fn cost_of_go(&self) -> usize {
        self.reading.cost
    }

    /// Whether there is [`Clients::next_ahead`].
    pub fn has_ahead(&self) -> bool {
        !self.reading.ahead.is_empty()
    }

    /// The first of those who have sent ahead: a go begins for it. If it has waited, it is answered
    /// first.
    pub fn next_ahead(&mut self) -> Option<(ConnectionId, Option<Event>)> {
        let id = self.reading.ahead.pop_front()?;
        self.reading.begin(0);
        let mut is_called = false;
        if let Some(connection) = self.connections.get_mut(id) {
            connection.is_ahead = false;
            is_called =
                matches!(&connection.phase, Phase::Waiting(waiting) if waiting.fate != Fate::Open);
        }
        if is_called {
            self.reading.count(HEAD_COST);
        }
        let waited = is_called.then(|| self.end_wait(id)).flatten();
        Some((id, waited))
    }

    /// What its socket holds is wanted when all that it has sent ahead is read.
    pub fn end_ahead(&mut self, id: ConnectionId, desk: &mut Desk) {
        let connection = self.connections.get(id);
        if connection.is_some_and(|connection| !connection.is_ahead) {
            desk.act(Action::ReadOn(id));
            self.rearm(id, desk);
        }
    }

    /// How many bytes of a client are wanted now.
    pub fn appetite(&self, id: ConnectionId, desk: &Desk) -> Appetite {
        let connection = self.connections.get(id);
        let Some(connection) = connection.filter(|connection| !connection.is_ahead) else {
            return Appetite::Bytes(0);
        };
        let waiting_bytes = connection.input.len();
        Appetite::Bytes(match &connection.phase {
            Phase::Head(_) if connection.output.is_full() => 0,
            // Requests that were sent ahead may lie there still, behind an output that was full.
            Phase::Head(_) => head_bytes_max(desk).saturating_sub(waiting_bytes),
            Phase::Introduction
            | Phase::Payload(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Lingering(_) => READ_BYTES_MAX,
            Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Following(_)
            | Phase::Errand(_)
            | Phase::Recording => AHEAD_BYTES_MAX.saturating_sub(waiting_bytes),
            Phase::Source(source) => match source.appetite(desk.now()) {
                0 => 0,
                bytes_max => return Appetite::OfStream(source.live, bytes_max),
            },
        })
    }

    /// What has come of a client and is not read yet, `bytes` behind it.
    pub fn take_input<'a>(&mut self, id: ConnectionId, bytes: &'a [u8], desk: &Desk) -> Input<'a> {
        let Some(connection) = self.connections.get_mut(id) else {
            let bytes = Cow::Borrowed(&[][..]);
            return Input {
                bytes,
                is_head: false,
            };
        };
        if connection.input.is_empty() {
            let bytes = Cow::Borrowed(bytes);
            return Input {
                bytes,
                is_head: false,
            };
        }
        let mut input = std::mem::take(&mut connection.input);
        extend_within(&mut input, bytes, head_bytes_max(desk));
        Input {
            bytes: Cow::Owned(input),
            is_head: matches!(connection.phase, Phase::Head(_)),
        }
    }

    /// So many bytes of it, the last ones, are read when there is more, or when it is their turn.
    pub fn keep_input(
        &mut self,
        id: ConnectionId,
        input: Input<'_>,
        rest_bytes: usize,
        desk: &mut Desk,
    ) {
        let read_bytes = input.bytes.len() - rest_bytes;
        let rest = match input.bytes {
            Cow::Borrowed(bytes) => bytes[read_bytes..].to_vec(),
            Cow::Owned(mut bytes) => {
                bytes.drain(..read_bytes);
                if input.is_head && bytes.is_empty() {
                    desk.freed(bytes.capacity());
                }
                bytes.shrink_to(2 * rest_bytes);
                bytes
            }
        };
        if !rest.is_empty()
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.input = rest;
        }
    }

    /// Moves a connection on by what it sent: reads the next head, or piece of a body, in `input`,
    /// which begins behind it then.
    pub fn read_on<'s, 'i: 's>(
        &'s mut self,
        id: ConnectionId,
        input: &mut &'i [u8],
        desk: &mut Desk,
    ) -> Step<'s> {
        let Some(connection) = self.connections.get_mut(id) else {
            *input = &[];
            return Step::Stop;
        };
        let is_head = matches!(connection.phase, Phase::Head(_) | Phase::Asking(_));
        if is_head && self.reading.heads == HEADS_AT_ONCE_MAX && !input.is_empty() {
            self.wait_ahead(id);
            return Step::Stop;
        }
        if connection.moves_on_by_sending() {
            connection.progress = desk.now();
        }
        let step = match &mut connection.phase {
            Phase::Source(source) => match source.read(input) {
                Ok(Part::More) => Step::Stop,
                Ok(Part::Content(content)) => {
                    let content = source.take(content, input, &mut self.pieces, desk.now());
                    Step::Media(source.live, content)
                }
                Ok(Part::End) => Step::Came(Event::Complete {
                    received: source.complete(input.len()),
                    is_sure: true,
                }),
                Err(refusal) => self.refuse_media(id, &refusal, desk),
            },
            Phase::Head(_) if connection.output.is_full() => Step::Stop,
            Phase::Head(reader) => {
                let head = reader.read(input, &desk.settings().limits.http);
                self.take_head(id, head, input, desk)
            }
            Phase::Introduction => self.read_introduction(id, input, desk),
            Phase::Payload(payload) => {
                let is_whole = payload.read(input);
                self.take_payload(id, is_whole, desk)
            }
            Phase::Asking(asking) => {
                let answer = asking.read(input);
                self.take_answer(id, answer, input, desk)
            }
            Phase::Telling(telling) => {
                let told = (telling.share(), telling.read(input));
                self.take_told(id, told, desk)
            }
            Phase::Lingering(lingering) => {
                if lingering.drains(std::mem::take(input).len()) {
                    self.close(id, desk);
                }
                Step::Stop
            }
            Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Following(_)
            | Phase::Errand(_)
            | Phase::Recording => Step::Stop,
        };
        match step {
            Step::Stop => {}
            _ if is_head => self.reading.count_head(),
            _ => self.reading.count(PIECE_COST),
        }
        step
    }

    /// The client sends no more. Where some of it is unread, only who has asked for what goes on is
    /// gone with that, and does not keep its place by requests sent ahead; what others have sent is
    /// read first, and this said again.
    pub fn input_ended(
        &mut self,
        id: ConnectionId,
        has_unread: bool,
        desk: &mut Desk,
    ) -> Option<Event> {
        let connection = self.connections.get_mut(id)?;
        let goes_on = matches!(
            connection.phase,
            Phase::Viewer(_) | Phase::Waiting(_) | Phase::Following(_)
        );
        if has_unread && !goes_on {
            return None;
        }
        connection.input_ended = true;
        match &connection.phase {
            Phase::Source(source) if source.ends_with_connection() => {
                return Some(Event::Complete {
                    received: source.ended(),
                    is_sure: false,
                });
            }
            Phase::Head(_) | Phase::Lingering(_) if connection.output.is_empty() => {
                self.close(id, desk)
            }
            Phase::Introduction
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Following(_)
            | Phase::Asking(_)
            | Phase::Telling(_) => self.close(id, desk),
            // What has been asked before is answered still.
            Phase::Head(_)
            | Phase::Lingering(_)
            | Phase::Listing(_)
            | Phase::Errand(_)
            | Phase::Recording => {}
        }
        None
    }
}

/// What lies in a client's input at the most: with one byte more than a head may have, it is known
/// to be too large.
fn head_bytes_max(desk: &Desk) -> usize {
    READ_BYTES_MAX.max(desk.settings().limits.http.head_bytes_max + 1)
}

/// Puts `more` behind what there is; takes twice the room as often as that is needed, but no more
/// than `bytes_max` if it fits into that.
fn extend_within(bytes: &mut Vec<u8>, more: &[u8], bytes_max: usize) {
    let needed = bytes.len() + more.len();
    if needed > bytes.capacity() {
        let room = needed.saturating_mul(2).min(bytes_max).max(needed);
        bytes.reserve_exact(room - bytes.len());
    }
    bytes.extend_from_slice(more);
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
        let before = stage.relay.desk.counts().of(Count::Streams);
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
        stage.relay.desk.counts().of(Count::Streams) - before
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
            let before = stage.relay.desk.counts().of(Count::Streams);
            assert!(stage.relay.appetite(id) >= ahead.len());
            let cost = stage.relay.received(id, ahead.as_bytes(), stage.now);
            let heads = (stage.relay.desk.counts().of(Count::Streams) - before) as usize;
            assert_eq!(heads, HEADS_AT_ONCE_MAX, "at one go");
            assert!(cost >= ahead.len() + heads * HEAD_COST);
            assert_eq!(stage.relay.appetite(id), 0, "it has enough for now");
            ids.push(id);
        }
        let (mut streams, mut turns) = (stage.relay.desk.counts().of(Count::Streams), 0);
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
    #[cfg(feature = "page")]
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
            let mut alone = Stage::new(&["--token-server=10.0.0.0/24"]);
            let id = alone.client(&request);
            let each = alone.text(id).len();
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
