//! Limits how much is read from a client at a time. The limit is a cost, so that no client delays
//! the others for longer than a turn.
//!
//! A head costs far more than a byte: it may begin or end a stream. So the server reads a few heads
//! of one client at a time. The other heads stay in its input (pipelined input), and the client
//! joins a list whose members are read in turn. Answers have a cost, too: a page has a thousand
//! times the bytes of its request, and metrics are sums over all connections.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::wait_queue::{WaitOutcome, Waiting};
use super::{ClientEvent, Clients, Phase};
use crate::http::{Part, Reply};
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::lists::PeerProgress;
use crate::relay::{Action, ConnectionId, StreamId};

/// Maximal cost of reading new input in a turn of the loop, and of reading on. The unit is the cost
/// of a byte of media: at most some nanoseconds.
pub const READ_COST_MAX: usize = 512 * 1024;
/// Maximal cost of reading pipelined input in a turn. It is lower, because these clients can wait.
pub const PIPELINED_COST_MAX: usize = READ_COST_MAX / 2;
/// Maximal cost of reading datagrams in a turn. A source that begins or ends costs as much as a
/// head.
pub const DATAGRAMS_COST_MAX: usize = READ_COST_MAX / 2;

/// Maximal number of heads in one read of a client.
const HEADS_AT_ONCE_MAX: usize = 2;

/// Cost of removing a connection.
pub const END_COST: usize = HEAD_COST;
/// Fixed cost of each read: mostly a system call.
const READ_COST: usize = 512;
/// Cost of a head, with its consequences.
pub const HEAD_COST: usize = 4096;
/// Cost of a piece of a body, such as a chunk.
pub(super) const PIECE_COST: usize = 128;

/// Cost of a look at something that may be anywhere in memory.
pub const SCAN_COST: usize = 8;

/// Clients with pipelined input, and the cost of the current read.
#[derive(Default)]
pub struct Reading {
    pipelined: VecDeque<ConnectionId>,
    pub cost: usize,
    /// Number of heads in the current read.
    heads: usize,
}

/// Result of reading from a client's input.
pub enum Step<'a> {
    /// Nothing more can be read now.
    Stop,
    /// There may be more.
    On,
    /// Media of this stream. There may be more.
    Media(StreamId, &'a [u8]),
    /// An event that other parts must handle before more is read.
    Event(ClientEvent),
}

/// Unread input of a client.
pub struct Input<'a> {
    pub bytes: Cow<'a, [u8]>,
    is_head: bool,
}

/// Maximal size of a read from a client that sends no media.
pub(super) const READ_BYTES_MAX: usize = 16 * 1024;
/// Maximal size of pipelined input that is read while another request is being answered.
const PIPELINED_BYTES_MAX: usize = 4 * 1024;

impl Reading {
    /// Begins a read of this number of bytes.
    pub fn begin(&mut self, bytes: usize) {
        self.cost = READ_COST + bytes;
        self.heads = 0;
    }

    /// Adds to the cost of the current read. A byte that is read or written counts one.
    pub fn count(&mut self, cost: usize) {
        self.cost += cost;
    }
}

impl Clients {
    /// Puts a client into the list of pipelined input: its unread input can be read without its
    /// socket.
    pub fn queue_pipelined(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_pipelined
        {
            connection.is_pipelined = true;
            self.reading.pipelined.push_back(id);
        }
    }

    /// Returns whether any client is in the list of pipelined input.
    pub fn has_pipelined(&self) -> bool {
        !self.reading.pipelined.is_empty()
    }

    /// Begins a read for the first client with pipelined input. If it has waited, its wait is
    /// answered first.
    pub fn next_pipelined(&mut self) -> Option<(ConnectionId, Option<Waiting>)> {
        let id = self.reading.pipelined.pop_front()?;
        self.reading.begin(0);
        let Some(connection) = self.connections.get_mut(id) else {
            return Some((id, None));
        };
        self.reading.begin(connection.input().len());
        connection.is_pipelined = false;
        match &connection.phase {
            Phase::Waiting(waiting) if waiting.outcome != WaitOutcome::Open => {
                self.reading.count(HEAD_COST);
                Some((id, self.end_wait(id)))
            }
            _ => Some((id, None)),
        }
    }

    /// Lets the shell read a client's socket again, once its pipelined input is read.
    pub fn end_pipelined(&mut self, id: ConnectionId, ctx: &mut Context) {
        let connection = self.connections.get(id);
        if connection.is_some_and(|connection| !connection.is_pipelined) {
            ctx.act(Action::ReadOn(id));
            self.rearm(id, ctx);
        }
    }

    /// Returns the stream whose source a client is.
    pub fn source_of(&self, id: ConnectionId) -> Option<StreamId> {
        match self.phase(id)? {
            Phase::Source(source) => Some(source.stream),
            _ => None,
        }
    }

    /// Returns how many bytes to read from a client now. `of_source` returns the number for the
    /// source of a stream.
    pub fn bytes_wanted(
        &self,
        id: ConnectionId,
        of_source: impl FnOnce(StreamId, &mut Context) -> usize,
        ctx: &mut Context,
    ) -> usize {
        let connection = self.connections.get(id);
        let Some(connection) = connection.filter(|connection| !connection.is_pipelined) else {
            return 0;
        };
        let waiting_bytes = connection.input().len();
        match &connection.phase {
            Phase::Head(_) if connection.output.is_full() => 0,
            // Requests that were sent ahead may lie there still, after an output that was full.
            Phase::Head(_) => head_bytes_max(ctx).saturating_sub(waiting_bytes),
            Phase::Opening
            | Phase::Payload(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_)
            | Phase::Lingering(_) => READ_BYTES_MAX,
            Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::ListResponse(_)
            | Phase::EventReader(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal => PIPELINED_BYTES_MAX.saturating_sub(waiting_bytes),
            Phase::Source(source) => of_source(source.stream, ctx),
        }
    }

    /// Takes the unread input of a client, with `bytes` after it.
    pub fn take_input<'a>(
        &mut self,
        id: ConnectionId,
        bytes: &'a [u8],
        ctx: &Context,
    ) -> Input<'a> {
        let connection = self.connections.get_mut(id);
        let connection = connection.filter(|connection| !connection.input().is_empty());
        let Some(connection) = connection else {
            let (bytes, is_head) = (Cow::Borrowed(bytes), false);
            return Input { bytes, is_head };
        };
        let waiting = connection.input.get_or_insert_default();
        let mut input = std::mem::take(&mut waiting.bytes);
        extend_within(&mut input, bytes, head_bytes_max(ctx));
        Input {
            bytes: Cow::Owned(input),
            is_head: matches!(connection.phase, Phase::Head(_)),
        }
    }

    /// Keeps the last `unread_bytes` of the input as unread.
    pub fn keep_input(
        &mut self,
        id: ConnectionId,
        input: Input<'_>,
        unread_bytes: usize,
        ctx: &mut Context,
    ) {
        let read_bytes = input.bytes.len() - unread_bytes;
        let rest = match input.bytes {
            Cow::Borrowed(bytes) => bytes[read_bytes..].to_vec(),
            Cow::Owned(mut bytes) => {
                bytes.drain(..read_bytes);
                if input.is_head && bytes.is_empty() {
                    ctx.freed(bytes.capacity());
                }
                bytes.shrink_to(2 * unread_bytes);
                bytes
            }
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if rest.is_empty() {
            connection.input = None;
            return;
        }
        let waiting = connection.input.get_or_insert_default();
        if read_bytes > 0 {
            waiting.forget();
        }
        waiting.bytes = rest;
    }

    /// Reads the next head, or piece of a body, from `input`, and removes it there.
    pub fn read_on<'s, 'i: 's>(
        &'s mut self,
        id: ConnectionId,
        input: &mut &'i [u8],
        ctx: &mut Context,
    ) -> Step<'s> {
        let Some(connection) = self.connections.get_mut(id) else {
            *input = &[];
            return Step::Stop;
        };
        let is_head = matches!(connection.phase, Phase::Head(_) | Phase::OriginRequest(_));
        if is_head && self.reading.heads == HEADS_AT_ONCE_MAX && !input.is_empty() {
            self.queue_pipelined(id);
            return Step::Stop;
        }
        if connection.publisher.is_some() {
            return self.read_rtmp(id, input, ctx);
        }
        let step = match &mut connection.phase {
            Phase::Source(source) => {
                connection.progress = ctx.now();
                match source.body.read(input) {
                    Ok(Part::More) => Step::Stop,
                    Ok(Part::Content(content)) => {
                        let content = source.take(content, input, &mut self.pieces);
                        Step::Media(source.stream, content)
                    }
                    Ok(Part::End) => {
                        // The pipelined input is more than is kept.
                        if input.len() > READ_BYTES_MAX {
                            source.reply = source.reply.map(Reply::closing);
                        }
                        Step::Event(ClientEvent::Complete {
                            stream: source.stream,
                            is_sure: true,
                        })
                    }
                    Err(refusal) => {
                        let reason = "the source's chunks are malformed";
                        self.lose_source(id, &refusal, reason, ctx);
                        Step::On
                    }
                }
            }
            // Another process has the tokens and the streams: what this request changes would be lost.
            Phase::Head(_) if ctx.is_replaced => {
                self.linger(id, ctx);
                Step::Stop
            }
            Phase::Head(_) if connection.output.is_full() => Step::Stop,
            Phase::Head(_) => self.read_head(id, input, ctx),
            Phase::Opening => self.read_proxy_header(id, input, ctx),
            Phase::Payload(_) => self.read_payload(id, input, ctx),
            Phase::OriginRequest(_) => self.read_answer(id, input, ctx),
            Phase::PeerRequest(request) => match request.read(input) {
                PeerProgress::More => Step::Stop,
                PeerProgress::On => Step::On,
                PeerProgress::All(rows) => {
                    let (list, peer) = request.share();
                    ctx.notify(Event::PeerAnswered { list, peer, rows });
                    self.close(id, ctx);
                    Step::Stop
                }
                PeerProgress::Nothing => {
                    self.close(id, ctx);
                    Step::Stop
                }
            },
            Phase::Lingering(lingering) => {
                if lingering.drains(std::mem::take(input).len()) {
                    self.close(id, ctx);
                }
                Step::Stop
            }
            Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::ListResponse(_)
            | Phase::EventReader(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal => Step::Stop,
        };
        match step {
            Step::Stop => {}
            _ if is_head => {
                self.reading.heads += 1;
                self.reading.count(HEAD_COST);
            }
            _ => self.reading.count(PIECE_COST),
        }
        step
    }

    /// Handles the end of input. If bytes are unread, only a client that reads an endless answer is
    /// closed: pipelined requests must not keep its place. The input of other clients is read
    /// first, and then its end is reported again.
    pub fn input_ended(
        &mut self,
        id: ConnectionId,
        has_unread: bool,
        ctx: &mut Context,
    ) -> Option<ClientEvent> {
        let connection = self.connections.get_mut(id)?;
        let goes_on = matches!(
            connection.phase,
            Phase::Viewer(_) | Phase::Waiting(_) | Phase::EventReader(_)
        );
        if has_unread && !goes_on {
            return None;
        }
        connection.input_ended = true;
        match &mut connection.phase {
            Phase::Source(source) if source.body.ends_with_connection() => {
                source.reply = source.reply.map(Reply::closing);
                return Some(ClientEvent::Complete {
                    stream: source.stream,
                    is_sure: false,
                });
            }
            Phase::Head(_) | Phase::Lingering(_) if connection.output.is_empty() => {
                self.close(id, ctx)
            }
            Phase::Opening
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::EventReader(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_) => self.close(id, ctx),
            // Earlier requests still get their answers.
            Phase::Head(_)
            | Phase::Lingering(_)
            | Phase::ListResponse(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal => {}
        }
        None
    }
}

/// Returns the maximal size of a client's input. One byte more than a head may have shows that it
/// is too large.
fn head_bytes_max(ctx: &Context) -> usize {
    READ_BYTES_MAX.max(ctx.settings().limits.http.head_bytes_max + 1)
}

/// Appends `more`. If the capacity is too small, it becomes twice the needed size, but at most
/// `bytes_max` if the bytes fit into that.
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
    use crate::relay::clients::tests::connection;
    use crate::relay::counts::Count;
    use crate::relay::stage::Stage;
    use std::net::SocketAddr;

    const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";

    /// One turn of the shell's, but for the sockets; says how many heads were read in it.
    fn turn(stage: &mut Stage) -> u64 {
        let before = stage.relay.ctx.counts.of(Count::Streams);
        let mut cost = 0;
        while cost < PIPELINED_COST_MAX
            && let Some(spent) = stage.relay.do_deferred_work(stage.now)
        {
            cost += spent;
        }
        for _ in 0..256 {
            stage.write_next();
        }
        while stage.relay.next_action().is_some() {}
        stage.relay.check();
        stage.relay.ctx.counts.of(Count::Streams) - before
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
            let before = stage.relay.ctx.counts.of(Count::Streams);
            assert!(stage.relay.bytes_wanted(id) >= ahead.len());
            let cost = stage.relay.received(id, ahead.as_bytes(), stage.now);
            let heads = (stage.relay.ctx.counts.of(Count::Streams) - before) as usize;
            assert_eq!(heads, HEADS_AT_ONCE_MAX, "at one go");
            assert!(cost >= ahead.len() + heads * HEAD_COST);
            assert_eq!(stage.relay.bytes_wanted(id), 0, "it has enough for now");
            ids.push(id);
        }
        let (mut streams, mut turns) = (stage.relay.ctx.counts.of(Count::Streams), 0);
        while stage.relay.has_deferred_work() {
            // Whoever comes now is heard at once, and answered with what the turn writes.
            let peer = SocketAddr::from(([10, 0, 0, 3], 1000));
            let other = stage.relay.accepted(peer, stage.now).expect("room");
            let request = b"GET /healthz HTTP/1.0\r\n\r\n";
            stage.relay.received(other, request, stage.now);
            let heads = turn(&mut stage);
            streams += heads;
            turns += 1;
            assert!(heads as usize <= PIPELINED_COST_MAX / HEAD_COST + HEADS_AT_ONCE_MAX);
            stage.assert_status(other, 200);
            stage.relay.lost(other, stage.now);
        }
        assert!(turns > usize::from(clients) * requests * HEAD_COST / PIPELINED_COST_MAX / 2);
        assert_eq!(streams, u64::from(clients) * requests as u64);
        for id in ids {
            assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), requests);
            assert!(stage.relay.bytes_wanted(id) > 0);
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
            let scan_cost = match path {
                "/metrics" => connections * SCAN_COST,
                _ => 0,
            };
            let answers_max =
                PIPELINED_COST_MAX / (each + HEAD_COST + scan_cost) + HEADS_AT_ONCE_MAX;
            assert!(answers_max < connections, "more than one turn has work");
            let mut turns = 0;
            while stage.relay.has_deferred_work() {
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
            READ_COST + answers.len() + HEADS_AT_ONCE_MAX * HEAD_COST
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
            let (piece, after) = rest.split_at(bytes);
            let cost = stage.relay.received(source, piece, stage.now);
            // And 32 for each byte in which a format is searched.
            let searched = 32 * bytes.min(12 * 1024);
            let most = READ_COST + bytes + 3 * PIECE_COST + searched;
            assert!(cost <= most, "{bytes}: {cost}");
            stage.settle();
            rest = after;
        }
        stage.send(source, rest);
        stage.assert_status(source, 200);
        let expected: String = (0..9000)
            .map(|n| char::from(b'a' + (n % 26) as u8))
            .collect();
        assert_eq!(stage.content(viewer), (expected, true));
    }

    /// The cost is not only reported: the stream is given one piece for thousands of chunks.
    #[test]
    fn small_chunks_reach_the_stream_together() {
        let mut stage = Stage::new(&[]);
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let source = stage.client(head);
        let chunks = "1\r\na\r\n".repeat(6000);
        let (mut rest, mut pieces, mut bytes) = (chunks.as_bytes(), 0, 0);
        let relay = &mut stage.relay;
        while let Step::Media(_, content) = relay.clients.read_on(source, &mut rest, &mut relay.ctx)
        {
            (pieces, bytes) = (pieces + 1, bytes + content.len());
        }
        assert_eq!(bytes, 6000);
        assert!(pieces <= 2, "{pieces} pieces");
    }

    /// Input that was pipelined after a long answer is read after it, and so is input in the
    /// socket.
    #[test]
    fn a_client_is_read_on_when_all_that_it_sent_ahead_is_read() {
        let mut stage = Stage::new(&[]);
        let requests = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".repeat(9);
        let peer = SocketAddr::from(([10, 0, 0, 2], 1000));
        let id = stage.relay.accepted(peer, stage.now).expect("room");
        stage.relay.received(id, requests.as_bytes(), stage.now);
        let mut actions = Vec::new();
        while stage.relay.do_deferred_work(stage.now).is_some() {
            assert_eq!(actions, [], "before it is read");
            actions.extend(std::iter::from_fn(|| stage.relay.next_action()));
        }
        assert!(actions.contains(&Action::ReadOn(id)));
        stage.settle();
        assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), 9);
    }

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

    fn bytes_wanted(stage: &mut Stage, id: ConnectionId) -> usize {
        stage.relay.bytes_wanted(id)
    }

    /// No more than one head that is too large, and what may be sent ahead while another is
    /// answered.
    #[test]
    fn in_each_phase_so_much_is_wanted() {
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n";
        let watch = "GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
        let payload =
            "GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
        let refused = "POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n";
        let follow = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let names = "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients=a.example:1 HTTP/1.1\r\n\
                     Host: localhost\r\n\r\n";
        let wait = "--wait=60";
        let api = "--token-server=10.0.0.1";
        let cases: [(&[&str], &str, usize); 12] = [
            (&["--proxy-protocol=10.0.0.1"], "", 16_384),
            (&[], "", 16_385),
            (&[], "GET /", 16_385 - 5),
            (&["--head-bytes=64K"], "", 65_537),
            (&["--head-bytes=64K"], "GET /", 65_537 - 5),
            (&[wait], watch, 4_096),
            (&[wait], &[watch, "GET /"].concat(), 4_096 - 5),
            (&[api], payload, 16_384),
            (&[api], follow, 4_096),
            (&[api], names, 4_096),
            (&[], refused, 16_384),
            (&["--buffer=1M"], put, crate::relay::SOURCE_READ_BYTES_MAX),
        ];
        for (options, sent, wanted) in cases {
            let mut stage = Stage::new(options);
            stage
                .relay
                .set_rtp("10.9.0.1:5004".parse().expect("an address"));
            let id = stage.client(sent);
            assert_eq!(bytes_wanted(&mut stage, id), wanted, "{options:?} {sent}");
            stage.lose(id);
            assert_eq!(bytes_wanted(&mut stage, id), 0, "it is gone");
        }
    }

    /// Whoever asks and takes no answers: what waits for it is bounded, and so is what it has sent
    /// ahead. It is read on when it takes them.
    #[test]
    fn who_takes_no_answers_is_read_no_further() {
        let mut stage = Stage::new(&["--viewer-stall-time=3600"]);
        let id = stage.client("");
        stage
            .relay
            .served(id, crate::stream::Outcome::Blocked, stage.now);
        let ahead = HEALTH.repeat(400);
        stage.relay.received(id, ahead.as_bytes(), stage.now);
        assert!(stage.relay.has_deferred_work(), "there is more to read");
        stage.settle();
        let waits = |stage: &Stage| {
            let connection = connection(stage, id);
            (connection.output.unsent().len(), connection.input().len())
        };
        let (output, input) = waits(&stage);
        let mut alone = Stage::new(&[]);
        let other = alone.client(HEALTH);
        let each = alone.text(other).len();
        assert!(output >= 16 * 1024 && output < 16 * 1024 + each, "{output}");
        assert_eq!(input, ahead.len() - output / each * HEALTH.len());
        assert_eq!(bytes_wanted(&mut stage, id), 0);
        stage.relay.unblocked(id);
        stage.settle();
        assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), 400);
        assert_eq!(waits(&stage), (0, 0));
        assert_eq!(bytes_wanted(&mut stage, id), 16_385);
        assert!(!stage.relay.has_deferred_work());
    }

    /// Small blocks take far longer to scan and to splice than their bytes take to copy.
    #[cfg(feature = "hold")]
    #[test]
    fn small_elements_cost_a_source_what_they_take() {
        let cluster = b"\x1f\x43\xb6\x75\xff\xe7\x81\x00";
        let header = [
            &b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm\x18\x53\x80\x67\xff\x16\x54\xae\x6b\x88"[..],
            b"\xae\x86\xd7\x81\x01\x83\x81\x01",
            cluster,
        ];
        let blocks = b"\xa3\x84\x81\x00\x00\x80".repeat(1000);
        for (option, looks) in [("--hold=0", 1000), ("--hold=60", 2000)] {
            let mut stage = Stage::new(&[option]);
            let source =
                stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n");
            stage.relay.received(source, &header.concat(), stage.now);
            let cost = stage.relay.received(source, &blocks, stage.now);
            assert!(cost >= blocks.len() + 32 * looks, "{option}: {cost}");
        }
    }

    /// Each go costs something, each byte, each head that is there, and each piece of a body.
    #[test]
    fn what_is_read_costs_what_comes_of_it() {
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n";
        let mut stage = Stage::new(&["--wait=60"]);
        for (before, sent, more) in [
            ("", "", 0),
            ("", "GET /healthz HTT", 0),
            ("GET /healthz HTT", "P/1.1\r\n", 0),
            (put, "media", PIECE_COST),
            ("GET /stream/none HTTP/1.1\r\nHost: h\r\n\r\n", "ahead", 0),
        ] {
            let id = stage.client(before);
            let cost = stage.relay.received(id, sent.as_bytes(), stage.now);
            // What a stream does with its media is its source's work.
            let most = if more > 0 {
                more + 64 + 32 * sent.len()
            } else {
                0
            };
            let least = READ_COST + sent.len() + more;
            assert!(
                (least..=READ_COST + sent.len() + most).contains(&cost),
                "{sent}: {cost}"
            );
            stage.lose(id);
        }
    }

    /// What lies there takes twice its room while that is little, and no more than a head's, if it
    /// fits.
    #[test]
    fn a_part_of_a_head_takes_the_room_that_it_needs() {
        const MOST: usize = 16_385;
        for (pieces, room) in [
            (&[100][..], 200),
            (&[100, 100], 200),
            (&[100, 101], 402),
            (&[9_000], MOST),
            (&[9_000, 7_385], MOST),
            (&[9_000, 7_386], 16_386),
            (&[20_000], 20_000),
        ] {
            let (mut bytes, mut all) = (Vec::new(), Vec::new());
            for piece in pieces {
                let more: Vec<u8> = (0..=255).cycle().take(*piece).collect();
                extend_within(&mut bytes, &more, MOST);
                all.extend_from_slice(&more);
            }
            assert_eq!((bytes.capacity(), bytes == all), (room, true), "{pieces:?}");
        }
    }

    /// Its bytes are not moved each time that two of its requests are read.
    #[test]
    fn room_goes_back_when_half_of_what_was_sent_ahead_is_read() {
        let mut stage = Stage::new(&[]);
        let id = stage.client("");
        stage
            .relay
            .received(id, HEALTH.repeat(102).as_bytes(), stage.now);
        let room = |stage: &Stage| {
            let connection = connection(stage, id);
            (
                connection.input().len() / HEALTH.len(),
                connection
                    .input
                    .as_ref()
                    .map_or(0, |input| input.capacity()),
            )
        };
        assert_eq!(room(&stage), (100, 100 * HEALTH.len()));
        for left in (50..100).rev().step_by(2) {
            stage.relay.do_deferred_work(stage.now);
            assert_eq!(room(&stage), (left - 1, 100 * HEALTH.len()));
        }
        stage.relay.do_deferred_work(stage.now);
        let (left, bytes) = room(&stage);
        assert_eq!((left, bytes), (48, 96 * HEALTH.len()));
        stage.settle();
        assert_eq!(room(&stage), (0, 0));
    }

    /// Memory of many heads is returned. Pipelined input has freed none yet.
    #[test]
    fn what_heads_took_is_freed_when_they_are_read_and_no_sooner() {
        let many = HEALTH.repeat(16 * 1024 / HEALTH.len());
        let large = HEALTH.replace(
            "\r\n\r\n",
            &format!("\r\nX: {}\r\n\r\n", "x".repeat(16_300)),
        );
        for (clients, ahead, is_much) in [(20, &many, false), (1_100, &large, true)] {
            let mut stage = Stage::new(&["--keep-alive-time=3600"]);
            for _ in 0..clients {
                let id = stage.client("");
                // Its front lies in a buffer until the rest has come.
                let (first, rest) = ahead.split_at(ahead.len() - 1);
                for piece in [first, rest] {
                    stage.send(id, piece);
                }
                assert!(stage.text(id).ends_with("{\"status\":\"ok\"}\n"));
                stage.written.clear();
                stage.lose(id);
            }
            assert_eq!(stage.relay.next_deadline().is_some(), is_much, "{clients}");
        }
    }

    /// What it has asked for is done first, unless that goes on for ever; who cannot be answered
    /// any more is closed.
    #[test]
    fn a_client_that_sends_no_more_is_closed_when_that_is_all() {
        let put = |body: &str| format!("PUT /stream/s HTTP/1.1\r\nHost: h\r\n{body}");
        let chunked = put("Transfer-Encoding: chunked\r\n\r\n5\r\nmedia\r\n");
        let length = put("Content-Length: 9\r\n\r\nmedia");
        let watch = "GET /stream/w HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
        let follow = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
        let payload =
            "GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
                .to_owned();
        let api = "--token-server=10.0.0.1";
        // With all of it read, and with something unread.
        let cases: [(&[&str], String, [bool; 2]); 8] = [
            (&[], String::new(), [true, false]),
            (&[], "GET /".to_owned(), [true, false]),
            (
                &["--proxy-protocol=10.0.0.1"],
                "PROXY".to_owned(),
                [true, false],
            ),
            (&[], chunked, [true, false]),
            (&[], length, [true, false]),
            (&["--wait=60"], watch, [true, true]),
            (&[api], follow, [true, true]),
            (&[api], payload, [true, false]),
        ];
        for (options, sent, closed) in cases {
            for (has_unread, is_closed) in [false, true].into_iter().zip(closed) {
                let mut stage = Stage::new(options);
                let id = stage.client(&sent);
                let had = stage.text(id);
                let viewer = sent.starts_with("PUT").then(|| stage.viewer("s"));
                stage.relay.input_ended(id, has_unread, stage.now);
                stage.settle();
                assert_eq!(stage.closed.contains(&id), is_closed, "{sent} {has_unread}");
                assert_eq!(stage.text(id), had, "it is told nothing");
                if let Some(viewer) = viewer.filter(|_| is_closed) {
                    assert!(
                        !stage.content(viewer).1,
                        "the stream is not complete: {sent}"
                    );
                }
            }
        }
    }
}
