//! Sources: clients and origins whose body is the media of a stream.

use serde::Serialize;

use super::deadlines::Reason;
use super::request::{CONTINUE, GO_ON};
use super::{Clients, Phase};
use crate::gate::SessionId;
use crate::http::{self, Body, Framing, Head, Method, Part, Refusal, Reply, Status};
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, StreamId};
use crate::time::Instant;

/// A client, or an origin, whose body is a stream's media.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Source {
    /// Its stream.
    pub stream: StreamId,
    pub body: Body,
    /// Received bytes of media.
    bytes: u64,
    /// How to answer it. `None`: it is an origin, or sends by RTMP.
    pub(super) reply: Option<Reply>,
    /// Bytes in the current window, over which the slowest rate is judged.
    window_bytes: u64,
    /// Beginning of the window.
    window_began: Instant,
}

/// The answer to a complete body.
#[derive(Serialize)]
struct Receipt<'a> {
    sessionid: &'a SessionId,
    bytes_received: u64,
}

impl Source {
    /// Makes a source that has sent nothing yet.
    pub fn new(stream: StreamId, framing: Framing, reply: Option<Reply>, now: Instant) -> Source {
        Source {
            stream,
            body: Body::new(framing),
            bytes: 0,
            reply,
            window_bytes: 0,
            window_began: now,
        }
    }

    /// Checks times of a hand-over: they cannot lie in the future.
    #[cfg(feature = "handover")]
    pub fn fit(&mut self, now: Instant) {
        self.window_began = self.window_began.min(now);
    }

    /// Counts and returns a piece of media, which was read from the body. Joins a small piece with the
    /// small pieces that follow in the input: a stream takes some hundred instructions for each
    /// piece, and a byte may be a chunk.
    pub fn take<'a>(
        &mut self,
        first: &'a [u8],
        input: &mut &[u8],
        pieces: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        if first.len() >= SMALL_PIECE_BYTES || input.is_empty() {
            self.count(first.len());
            return first;
        }
        pieces.clear();
        pieces.extend_from_slice(first);
        while pieces.len() < GATHERED_BYTES_MAX {
            let (mut behind, mut rest) = (self.body.clone(), *input);
            match behind.read(&mut rest) {
                Ok(Part::Content(piece)) if piece.len() < SMALL_PIECE_BYTES => {
                    pieces.extend_from_slice(piece);
                    (self.body, *input) = (behind, rest);
                }
                // It is read again in the next call.
                Ok(_) | Err(_) => break,
            }
        }
        self.count(pieces.len());
        pieces
    }

    /// Counts bytes of media.
    pub fn count(&mut self, bytes: usize) {
        for sum in [&mut self.window_bytes, &mut self.bytes] {
            *sum = sum.saturating_add(bytes as u64);
        }
    }

    /// Returns when the source is silent or too slow: over each window of the idle time it must
    /// reach the slowest rate.
    pub fn deadline(&self, progress: Instant, ctx: &Context) -> (Instant, Reason) {
        let idle_time = ctx.settings().limits.source_idle_time;
        let silent = progress + idle_time;
        let window_ends = self.window_began + idle_time;
        if silent <= window_ends {
            (silent, Reason::Silent)
        } else {
            (window_ends, Reason::TooSlow)
        }
    }
}

impl Clients {
    /// Makes a client the source of this stream: it sends media up to where `framing` says.
    pub fn publish(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        head: &Head,
        framing: Framing,
        reply: Reply,
        ctx: &Context,
    ) {
        let first = match head.method {
            _ if head.expects_continue => CONTINUE,
            Method::Source => GO_ON,
            _ => b"",
        };
        let source = Source::new(stream, framing, Some(reply), ctx.now());
        self.begin(id, Phase::Source(source), first);
    }

    /// Passes a source's media to another stream from now on.
    pub fn set_source_stream(&mut self, id: ConnectionId, stream: StreamId) {
        if let Some(Phase::Source(source)) = self.phase_mut(id) {
            source.stream = stream;
        }
    }

    /// Answers a source that is complete. Its stream has ended.
    pub fn complete_source(&mut self, id: ConnectionId, session: &SessionId, ctx: &mut Context) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Phase::Source(source) = &connection.phase else {
            return;
        };
        let reply = match source.reply {
            Some(reply) => reply,
            None if connection.is_rtmp => return self.complete_rtmp(id, ctx),
            None => return self.close(id, ctx),
        };
        let body = Receipt {
            // A key does not show which session it opens.
            sessionid: self.admitted_by(id).unwrap_or(session),
            bytes_received: source.bytes,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let fields = [("Cache-Control", "no-store")];
        let bytes = http::whole(
            Status::Ok,
            &reply,
            "application/json",
            &fields,
            &[&body, b"\n"],
        );
        self.respond(id, Some(Status::Ok), bytes, reply.keep_alive, ctx);
    }

    /// Answers a source whose stream has ended, and closes its connection.
    pub fn dismiss_source(&mut self, id: ConnectionId, refusal: &Refusal, ctx: &mut Context) {
        if let Some(connection) = self.connections.get(id)
            && let Phase::Source(source) = &connection.phase
        {
            match source.reply {
                Some(reply) => self.refuse(id, refusal, reply.closing(), ctx),
                None if connection.is_rtmp => self.dismiss_rtmp(id, refusal.status, ctx),
                None => self.close(id, ctx),
            }
        }
    }

    /// Disconnects a source before it is complete.
    pub(super) fn lose_source(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reason: &'static str,
        ctx: &mut Context,
    ) {
        if let Some(stream) = self.source_of(id) {
            ctx.notify(Event::SourceLost { stream, id, reason });
            self.dismiss_source(id, refusal, ctx);
        }
    }

    /// Handles a source's deadline, and begins another window. The source is lost if it was silent or
    /// too slow, and its stream has not slowed it.
    pub(super) fn source_due(
        &mut self,
        id: ConnectionId,
        reason: Reason,
        is_slowed: impl FnOnce(StreamId) -> bool,
        ctx: &mut Context,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Phase::Source(source) = &mut connection.phase else {
            return;
        };
        let limits = &ctx.settings().limits;
        let bytes_min =
            limits.source_idle_time.as_secs_f64() * limits.body_bytes_per_second_min as f64;
        let is_too_slow = (source.window_bytes as f64) < bytes_min;
        source.window_bytes = 0;
        source.window_began = ctx.now();
        let is_slowed = is_slowed(source.stream);
        if is_slowed {
            connection.progress = ctx.now();
        }
        if !is_slowed && (matches!(reason, Reason::Silent) || is_too_slow) {
            let reason = reason.words();
            let refusal = Refusal::new(Status::RequestTimeout, reason);
            self.lose_source(id, &refusal, reason, ctx);
        }
    }
}

/// Shorter pieces of a body are joined, up to [`GATHERED_BYTES_MAX`], before the stream takes them.
const SMALL_PIECE_BYTES: usize = 1024;
const GATHERED_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::clients::reading::READ_BYTES_MAX;
    use crate::relay::stage::Stage;
    use std::time::Duration;

    fn put(session: &str, body: &str) -> String {
        format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\n{body}")
    }

    fn chunk(bytes: usize) -> String {
        format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes))
    }

    /// The totals are reported at the end, however the body was framed.
    #[test]
    fn a_source_is_thanked_for_what_it_sent() {
        for chunks in [
            &[1][..],
            &[3, 4, 5],
            &[2_000, 1, 1, 3_000],
            &[20_000, 20_000],
        ] {
            let mut stage = Stage::new(&[]);
            let source = stage.client(&put("s", "Transfer-Encoding: chunked\r\n\r\n"));
            let viewer = stage.viewer("s");
            let body: String = chunks.iter().map(|bytes| chunk(*bytes)).collect();
            stage.send(source, &body);
            stage.send(source, "0\r\n\r\n");
            let bytes: usize = chunks.iter().sum();
            let thanks = format!("{{\"sessionid\":\"s\",\"bytes_received\":{bytes}}}\n");
            assert!(
                stage.text(source).ends_with(&thanks),
                "{}",
                stage.text(source)
            );
            assert_eq!(stage.content(viewer), ("x".repeat(bytes), true));
        }
    }

    /// More than is read ahead of other answers is not kept.
    #[test]
    fn what_lies_behind_a_body_is_read_on_as_far_as_it_may_be_sent_ahead() {
        let health = "GET /healthz HTTP/1.1\r\nHost: h\r\nX: ";
        for (behind, is_read) in [(READ_BYTES_MAX, true), (READ_BYTES_MAX + 1, false)] {
            let mut stage = Stage::new(&["--head-bytes=32K"]);
            let source = stage.client(&put("s", "Content-Length: 5\r\n\r\n"));
            let padding = "x".repeat(behind - health.len() - 4);
            stage.send(source, &format!("media{health}{padding}\r\n\r\n"));
            let text = stage.text(source);
            assert_eq!(text.contains("Connection: close\r\n"), !is_read, "{behind}");
            let answers = text.matches("HTTP/1.1 200 OK").count();
            assert_eq!(answers, if is_read { 2 } else { 1 }, "{text}");
        }
    }

    /// Over each window it must reach its rate; at the slowest that may be it goes on.
    #[test]
    fn a_source_is_let_go_that_is_slower_than_it_may_be() {
        // 2,000 bytes in each four seconds.
        let options = ["--source-idle-time=4", "--body-rate=500"];
        for (in_window, is_let_go) in [([500, 500, 500, 500], false), ([500, 500, 500, 499], true)]
        {
            let mut stage = Stage::new(&options);
            let source = stage.client(&put("s", "Content-Length: 999999\r\n\r\n"));
            for second in 0..12 {
                let bytes = in_window[second % 4];
                stage.send(source, &"x".repeat(bytes));
                if stage.closed.contains(&source) || !stage.text(source).is_empty() {
                    break;
                }
                stage.wait_seconds(1);
            }
            assert_eq!(
                stage.text(source).contains(" 408 "),
                is_let_go,
                "{in_window:?}"
            );
            assert_eq!(
                stage
                    .text(source)
                    .contains("the source was slower than --body-rate"),
                is_let_go
            );
        }
    }

    /// The later of both would be too late: a window may end in the middle of a silence.
    #[test]
    fn silence_counts_from_the_last_byte_and_slowness_from_a_windows_begin() {
        let options = ["--source-idle-time=4", "--body-rate=10"];
        for (sends, seconds, words) in [
            (
                &[(0, 5)][..],
                4,
                "the source was silent for --source-idle-time",
            ),
            (
                &[(0, 500)],
                4,
                "the source was silent for --source-idle-time",
            ),
            (
                &[(0, 20), (1, 10)],
                4,
                "the source was slower than --body-rate",
            ),
            (
                &[(0, 30), (1, 10)],
                5,
                "the source was silent for --source-idle-time",
            ),
            (
                &[(0, 30), (3, 30), (5, 30)],
                8,
                "the source was slower than --body-rate",
            ),
        ] {
            let mut stage = Stage::new(&options);
            let source = stage.client(&put("s", "Content-Length: 999999\r\n\r\n"));
            let mut now = 0;
            for (second, bytes) in sends {
                stage.wait_seconds(second - now);
                now = *second;
                stage.send(source, &"x".repeat(*bytes));
            }
            stage.wait(Duration::from_secs(seconds - now) - Duration::from_millis(1));
            assert_eq!(stage.text(source), "", "{sends:?}");
            stage.wait(Duration::from_millis(1));
            assert!(stage.text(source).contains(" 408 "), "{sends:?}");
            assert!(
                stage.text(source).contains(words),
                "{sends:?} {}",
                stage.text(source)
            );
        }
    }

    /// It is not its own fault that it is not read: its token says how fast it may be.
    #[test]
    fn a_source_that_is_slowed_is_not_called_slow() {
        let options = [
            "--token-server=10.0.0.0/24",
            "--source-idle-time=4",
            // Slower than that it will always be.
            "--body-rate=2048",
        ];
        let mut stage = Stage::new(&options);
        let call = "POST /api/add-token?type=http&sessionid=s&max-bitrate=8K";
        stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let reader = stage.client("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let source = stage.client(&put("s", "Content-Length: 999999\r\n\r\n"));
        let mut sent = 0;
        for _ in 0..300 {
            // As much of it as is wanted.
            let mut left = 200;
            while left > 0 && stage.relay.bytes_wanted(source) > 0 {
                let bytes = stage.relay.bytes_wanted(source).min(left);
                stage
                    .relay
                    .received(source, &[b'x'; 200][..bytes], stage.now);
                (sent, left) = (sent + bytes, left - bytes);
            }
            stage.wait(Duration::from_millis(100));
            assert_eq!(stage.text(source), "", "after {sent} bytes");
        }
        assert!(
            (30_000..=32_000).contains(&sent),
            "{sent} bytes in thirty seconds"
        );
        (0..8).for_each(|_| stage.settle());
        let text = stage.text(reader);
        let told: Vec<&str> = text.split("event: source-too-fast").skip(1).collect();
        assert_eq!(told.len(), 1, "it is told of once");
        let (unit, _) = told[0].split_once("\n\n").expect("a unit");
        assert!(
            unit.contains("8192"),
            "it is said how fast it may be: {unit}"
        );
    }

    /// The end of a connection is the media's where nothing else can be.
    #[test]
    fn a_body_without_an_end_of_its_own_ends_with_the_connection() {
        let of = |framing| Source::new(StreamId::from_u64(0), framing, None, Instant::START);
        for (framing, ends) in [
            (Framing::UntilClose, true),
            (Framing::Chunked, false),
            (Framing::Length(5), false),
        ] {
            assert_eq!(of(framing).body.ends_with_connection(), ends, "{framing:?}");
        }
    }

    /// Its stream has begun anew: it is the source of the other one.
    #[test]
    fn a_source_goes_over_to_another_stream() {
        let mut stage = Stage::new(&[]);
        let [first, second] =
            ["a", "b"].map(|session| stage.client(&put(session, "Content-Length: 99\r\n\r\n")));
        let clients = &mut stage.relay.clients;
        let stream = |clients: &Clients, id| match &clients
            .connections
            .get(id)
            .expect("it is there")
            .phase
        {
            Phase::Source(source) => source.stream,
            _ => panic!("it is no source"),
        };
        let (its, other) = (stream(clients, first), stream(clients, second));
        assert_ne!(its, other);
        clients.set_source_stream(first, other);
        assert_eq!(stream(clients, first), other);
    }

    /// Small pieces that have arrived are joined, up to a limit.
    #[test]
    fn small_pieces_are_put_together_and_large_ones_go_by_themselves() {
        const SMALL: usize = SMALL_PIECE_BYTES - 1;
        const MOST: usize = GATHERED_BYTES_MAX / SMALL + 1;
        for (chunks, expected) in [
            (vec![5], vec![5]),
            (vec![5, 6, 7], vec![18]),
            (vec![SMALL, SMALL], vec![2 * SMALL]),
            (vec![SMALL + 1, 5], vec![SMALL + 1, 5]),
            (vec![5, SMALL + 1, 5], vec![5, SMALL + 1, 5]),
            (vec![5, 6, 5_000, 7, 8], vec![11, 5_000, 15]),
            (vec![SMALL; MOST + 1], vec![MOST * SMALL, SMALL]),
            // What is full takes no more.
            (vec![512; 33], vec![GATHERED_BYTES_MAX, 512]),
        ] {
            let body: String = chunks.iter().map(|bytes| chunk(*bytes)).collect();
            let mut input = body.as_bytes();
            let mut source = Source::new(
                StreamId::from_u64(0),
                Framing::Chunked,
                None,
                Instant::START,
            );
            let (mut pieces, mut seen) = (Vec::new(), Vec::new());
            while let Ok(Part::Content(content)) = source.body.read(&mut input) {
                let content = source.take(content, &mut input, &mut pieces);
                assert!(content.iter().all(|byte| *byte == b'x'));
                seen.push(content.len());
            }
            assert_eq!(seen, expected, "{chunks:?}");
            assert_eq!(source.bytes, chunks.iter().sum::<usize>() as u64);
        }
        // Alone it is lent as it is.
        let (mut source, mut pieces) = (
            Source::new(
                StreamId::from_u64(0),
                Framing::Chunked,
                None,
                Instant::START,
            ),
            Vec::new(),
        );
        let body = chunk(5);
        let mut input = &body.as_bytes()[..8];
        if let Ok(Part::Content(content)) = source.body.read(&mut input) {
            assert_eq!(source.take(content, &mut input, &mut pieces), b"xxxxx");
        }
        assert_eq!(pieces.capacity(), 0);
    }

    /// What another process has told cannot lie ahead, nor overflow.
    #[cfg(feature = "handover")]
    #[test]
    fn a_source_that_was_told_is_fitted_into_this_time() {
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        let source = Source::new(StreamId::from_u64(0), Framing::Length(99), None, at(5));
        let mut told = serde_json::to_value(&source).expect("JSON");
        for field in ["bytes", "window_bytes"] {
            told[field] = (u64::MAX - 1).into();
        }
        let mut source: Source = serde_json::from_value(told).expect("a source");
        source.fit(at(9));
        assert_eq!(source.window_began, at(5));
        source.fit(at(3));
        assert_eq!(source.window_began, at(3));
        source.count(7);
        assert_eq!((source.bytes, source.window_bytes), (u64::MAX, u64::MAX));
    }

    /// A source that waits for permission to send gets it in its own protocol.
    #[test]
    fn a_source_that_waits_for_leave_gets_it() {
        let expects = put("s", "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        let icecast = "SOURCE /s HTTP/1.0\r\nAuthorization: Basic c291cmNlOnM=\r\n\r\n".to_owned();
        let mut cases: Vec<(&[&str], String, &[u8])> = vec![
            (&[], put("s", "Content-Length: 5\r\n\r\n"), b""),
            (&[], expects, CONTINUE),
        ];
        if cfg!(feature = "icecast") {
            cases.push((&["--icecast"], icecast, GO_ON));
        }
        for (options, head, leave) in cases {
            let mut stage = Stage::new(options);
            let source = stage.client(&head);
            assert_eq!(stage.text(source).as_bytes(), leave, "{head}");
            assert_eq!(stage.relay.streams.running(), 1);
        }
    }

    /// The end of its connection is that of what it sends.
    #[cfg(feature = "icecast")]
    #[test]
    fn a_source_without_an_end_of_its_own_is_complete_when_it_sends_no_more() {
        let mut stage = Stage::new(&["--icecast"]);
        let head = "SOURCE /s HTTP/1.0\r\nAuthorization: Basic c291cmNlOnM=\r\n\r\n";
        let source = stage.client(head);
        let viewer = stage.viewer("s");
        stage.send(source, "media");
        stage.relay.input_ended(source, false, stage.now);
        stage.settle();
        assert_eq!(stage.content(viewer), ("media".to_owned(), true));
        assert!(stage.text(source).contains("\"bytes_received\":5"));
    }
}
