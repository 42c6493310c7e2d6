//! One connection: its phase, and the bytes that it has still to get.
//!
//! ```text
//!            ┌──────────────────────────── keep-alive ────────────────────────────────┐
//!            ▼                                                                        │
//! accept → Head ─┬─ API call ─→ Payload ─┬─→ (answer) ────────────────────────────────┤
//!                │                       ├─→ EventReader (until the client leaves)    │
//!                │                       ├─→ ListResponse (written in pieces) ────────┤
//!                │                       └─→ PendingCall, AwaitingJournal (threads) ──┤
//!                ├─ PUT, POST ─→ Source ── body complete ─→ (answer) ─────────────────┤
//!                ├─ GET ─→ (Waiting) ─→ Viewer ── stream complete ─→ (last chunk) ────┘
//!                └─ refused with a body ─→ Lingering ─→ closed
//! accept → Opening ─ publish ─→ Source ─→ Lingering ─→ closed      (at the port of `--rtmp`)
//! ```
//!
//! A proxy's connection begins with a ProxyHeader, which names the client. This server's own
//! connections: an origin, OriginRequest ─ 200 ─→ Source ─→ closed, and a peer, PeerRequest ─→
//! closed.
//!
//! The shell owns the socket. It hands in received bytes and takes the output.

use std::net::SocketAddr;
use std::time::Duration;

use super::access_log::AccessEntry;
use super::output::Output;
use super::{Clients, Phase};
use crate::copied::Copied;
use crate::gate::SessionId;
#[cfg(feature = "handover")]
use crate::handover::is_default;
use crate::relay::admission::{AccessRequest, Admission, Beyond, Caller};
use crate::relay::context::Context;
use crate::relay::origin_error::OriginError;
use crate::relay::timers::{Armed, Owner};
use crate::relay::{Action, ConnectionId};
use crate::rtmp::Publisher;
use crate::time::Instant;

/// A client.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Connection {
    /// Address of the client, for subnet checks, limits, logs and lists. An IPv4-mapped address is
    /// stored as IPv4.
    pub(super) peer: SocketAddr,
    /// Address of the proxy that opened the connection, if a field of each request names the
    /// client.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) forwarder: Option<Box<SocketAddr>>,
    /// A proxy named the peer.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    pub(super) is_proxied: bool,
    /// The peer is the client. If not, it is a proxy that does not name the client.
    pub(super) is_named: bool,
    /// It counts as a connection of its peer's host. It does not before the client is known, nor if
    /// this server made it.
    pub(super) is_counted: bool,
    pub(super) phase: Phase,
    /// Bytes that arrived and cannot be read yet: part of a head, or requests sent ahead.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) input: Option<Box<Copied>>,
    /// A hand-over sends that the first bytes of a head have been read, and not how far.
    #[cfg(feature = "handover")]
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) is_within_head: bool,
    /// The client sends no more.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    pub(super) input_ended: bool,
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "Output::is_empty")
    )]
    pub(super) output: Output,
    /// Its socket takes no bytes for now.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    pub(super) is_blocked: bool,
    /// Time of its last progress: it sent a request or a source's media, or finished a request.
    /// Other input is no progress.
    pub(super) progress: Instant,
    /// Time at which its socket last took bytes, or became full.
    pub(super) taken: Instant,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) armed: Armed,
    /// It is in the list of connections with pipelined input.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) is_pipelined: bool,
    /// It is in the queue of connections with output of their own.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) is_queued: bool,
    /// The request that is being answered, where requests are logged.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) access: Option<Box<AccessEntry>>,
    /// Limit that it exceeds. It gets only the answers that need no place ([`Gate::place`]).
    ///
    /// [`Gate::place`]: crate::relay::admission::Gate::place
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) is_beyond_limit: Option<Beyond>,
    /// Record of its admission. `None`: it is not admitted, or tokens are off.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) admission: Option<Box<Admission>>,
    /// The request of a source or of a call that is still going on.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub(super) access_request: Option<Box<AccessRequest>>,
    /// It came to the port for RTMP. A successor does not get it.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) is_rtmp: bool,
    /// Reads its input as messages of RTMP.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) publisher: Option<Box<Publisher>>,
    /// Address of the proxy whose PROXY protocol header named the peer.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub(super) introducer: Option<Box<SocketAddr>>,
}

/// A connection that is about to be closed. Its remaining input is read and discarded.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lingering {
    /// Time at which it is closed at the latest.
    pub until: Instant,
    /// Number of bytes that the client may still send.
    pub bytes_left: usize,
    /// The server has shut down the socket for writing, so the client knows that nothing more
    /// comes.
    pub is_shut: bool,
}

impl Lingering {
    pub(super) fn new(is_shut: bool, now: Instant) -> Lingering {
        Lingering {
            until: now + LINGER_TIME,
            bytes_left: LINGER_BYTES_MAX,
            is_shut,
        }
    }

    /// Counts discarded input. Returns whether to close the connection now.
    pub fn drains(&mut self, bytes: usize) -> bool {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.bytes_left == 0 && self.is_shut
    }
}

/// Time and bytes for which a refused client may go on sending.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Connection {
    pub(super) fn new(
        peer: SocketAddr,
        is_beyond_limit: Option<Beyond>,
        now: Instant,
    ) -> Connection {
        Connection {
            peer,
            forwarder: None,
            is_proxied: false,
            is_named: true,
            is_counted: false,
            phase: Phase::default(),
            input: None,
            #[cfg(feature = "handover")]
            is_within_head: false,
            input_ended: false,
            output: Output::default(),
            is_blocked: false,
            progress: now,
            taken: now,
            armed: Armed::default(),
            is_pipelined: false,
            is_queued: false,
            access: None,
            is_beyond_limit,
            admission: None,
            access_request: None,
            is_rtmp: false,
            publisher: None,
            introducer: None,
        }
    }

    /// Begins behind a proxy's header.
    pub(super) fn begin(&mut self, ctx: &Context) {
        let http_port = ctx
            .settings()
            .listeners
            .first()
            .map_or(80, SocketAddr::port);
        let publisher = self.is_rtmp.then(|| Publisher::new(http_port));
        self.publisher = publisher.flatten().map(Box::new);
        self.phase = match self.publisher {
            Some(_) => Phase::Opening,
            None => Phase::default(),
        };
    }

    /// Returns whether all output is written and no more will come.
    pub(super) fn output_is_over(&self) -> bool {
        matches!(self.phase, Phase::Lingering(_)) && self.output.is_empty()
    }

    /// Returns its unread input.
    pub(super) fn input(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], |input| input.as_slice())
    }

    /// Returns the client of its requests.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            peer: self.peer,
            is_named: self.is_named,
            is_proxied: self.is_proxied,
            beyond: self.is_beyond_limit,
        }
    }
}

impl Clients {
    /// Returns the address of a client.
    pub fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        Some(self.connections.get(id)?.peer)
    }

    /// Connects to another server, and sends the request. `None`: there is no room for another
    /// connection.
    pub(super) fn call(
        &mut self,
        (to, request): (SocketAddr, &str),
        phase: Phase,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        if !self.has_room(ctx) {
            return None;
        }
        let mut connection = Connection {
            phase,
            // Until it is established.
            is_blocked: true,
            ..Connection::new(to, None, ctx.now())
        };
        connection.output.push(request.as_bytes());
        let id = self.connections.insert(connection);
        ctx.act(Action::Connect(id, to));
        self.rearm(id, ctx);
        Some(id)
    }

    /// Sets a connection's phase. If the phase has a deadline, the caller arms the timer.
    pub(super) fn enter(&mut self, id: ConnectionId, phase: Phase) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = phase;
        }
    }

    /// Continues after all output is written: with the next request, or with the end of the
    /// connection.
    pub(super) fn after_output(&mut self, id: ConnectionId, ctx: &mut Context) {
        let now = ctx.now();
        let connection = self.connections.get_mut(id);
        let Some(connection) = connection.filter(|connection| connection.output.is_empty()) else {
            return;
        };
        let has_read_all = connection.input().is_empty();
        match &mut connection.phase {
            Phase::Head(_) if connection.input_ended && has_read_all => self.close(id, ctx),
            Phase::Head(_) if ctx.is_closing => self.linger(id, ctx),
            Phase::Head(reader) => {
                if !reader.has_begun() {
                    connection.progress = now;
                }
                if has_read_all {
                    // It was full, and its bytes were left in the socket.
                    ctx.act(Action::ReadOn(id));
                } else {
                    self.queue_pipelined(id);
                }
                self.rearm(id, ctx);
            }
            Phase::Lingering(_) if connection.input_ended => self.close(id, ctx),
            Phase::Lingering(lingering) if !lingering.is_shut => {
                lingering.is_shut = true;
                lingering.until = now + LINGER_TIME;
                ctx.act(Action::ShutdownWrite(id));
                self.rearm(id, ctx);
            }
            Phase::OriginRequest(request) => {
                request.fault = OriginError::Broken("it hung up without an answer");
            }
            Phase::Lingering(_)
            | Phase::Opening
            | Phase::PeerRequest(_)
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::ListResponse(_)
            | Phase::EventReader(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal => {}
        }
    }

    /// Stops answering. The output is still written, and input is drained for a while.
    pub(super) fn linger(&mut self, id: ConnectionId, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id) {
            let input = connection.input.take();
            ctx.freed(input.map_or(0, |input| input.capacity()));
            connection.publisher = None;
            connection.phase = Phase::Lingering(Lingering::new(false, ctx.now()));
        }
        ctx.act(Action::ReadOn(id));
        self.after_output(id, ctx);
        self.rearm(id, ctx);
    }

    /// Removes a connection. Other parts learn of it by an event at the end of this input.
    pub fn close(&mut self, id: ConnectionId, ctx: &mut Context) {
        let key = self.admitted_by(id).map(SessionId::digest);
        self.leave(id);
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        ctx.disarm(&mut connection.armed, Owner::Connection(id));
        if connection.is_counted {
            self.hosts.leave(connection.peer.ip());
        }
        self.readers.remove(&id);
        let input = connection.input.map_or(0, |input| input.capacity());
        ctx.freed(input + connection.output.unsent().len());
        ctx.act(Action::Close(id));
        if let Some(entry) = &connection.access {
            ctx.act(Action::LogAccess(entry.line()));
        }
        if let Phase::Waiting(waiting) = &connection.phase {
            self.waiting.leave(waiting.wait_for, id);
        }
        if let Some(event) = connection.phase.closed(id, key, connection.peer) {
            ctx.notify(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use crate::stream::Outcome;

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
    /// A request with a body, which is refused.
    const REFUSED: &str = "POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";

    fn stage(options: &[&str]) -> Stage {
        let times = [
            "--head-time=10",
            "--keep-alive-time=20",
            "--viewer-stall-time=100",
        ];
        Stage::new(&[&times, options].concat())
    }

    /// Sends this number of bytes, as many at a time as the server wants.
    fn pour(stage: &mut Stage, id: ConnectionId, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let piece = stage.relay.bytes_wanted(id).min(left);
            assert!(piece > 0, "it is drained");
            stage.relay.received(id, &vec![b'x'; piece], stage.now);
            left -= piece;
        }
        stage.settle();
    }

    #[test]
    fn what_is_drained_is_bounded_and_ends_when_the_client_has_been_told() {
        for (bytes_left, bytes, is_shut, is_enough, left) in [
            (10, 9, true, false, 1),
            (10, 10, true, true, 0),
            (10, 11, true, true, 0),
            (10, 10, false, false, 0),
            (0, 0, true, true, 0),
            (10, 0, true, false, 10),
        ] {
            let until = Instant::START;
            let mut lingering = Lingering {
                until,
                bytes_left,
                is_shut,
            };
            assert_eq!(lingering.drains(bytes), is_enough, "{bytes_left} {bytes}");
            assert_eq!(lingering.bytes_left, left);
        }
    }

    /// The limits on time and bytes count from when the client has its answer.
    #[test]
    fn who_is_refused_may_go_on_sending_for_a_while() {
        let mut stage = stage(&[]);
        let (waits, sends) = (stage.client(REFUSED), stage.client(REFUSED));
        stage.assert_status(waits, 404);
        pour(&mut stage, sends, LINGER_BYTES_MAX - 1);
        assert!(!stage.closed.contains(&sends));
        pour(&mut stage, sends, 1);
        assert!(stage.closed.contains(&sends), "it was enough");
        stage.wait(LINGER_TIME - Duration::from_millis(1));
        assert!(!stage.closed.contains(&waits));
        stage.wait(Duration::from_millis(1));
        assert!(stage.closed.contains(&waits), "it was long enough");
    }

    /// While its answer is on its way neither time nor bytes end it.
    #[test]
    fn who_is_refused_and_takes_nothing_is_not_let_go_before_it_does() {
        let mut stage = stage(&[]);
        let id = stage.client("");
        stage.relay.served(id, Outcome::Blocked, stage.now);
        stage.send(id, REFUSED);
        pour(&mut stage, id, LINGER_BYTES_MAX + 1);
        stage.wait_seconds(50);
        assert!(!stage.closed.contains(&id));
        assert_eq!(stage.text(id), "");
        stage.relay.unblocked(id);
        let before = stage.now;
        while stage.write_next() {}
        let acts: Vec<Action> = std::iter::from_fn(|| stage.relay.next_action()).collect();
        assert!(acts.contains(&Action::ShutdownWrite(id)), "{acts:?}");
        assert_eq!(stage.relay.next_deadline(), Some(before + LINGER_TIME));
        pour(&mut stage, id, 1);
        assert!(stage.closed.contains(&id), "it was enough before");
        stage.assert_status(id, 404);
    }

    /// A client that sends no more gets what it has asked for, and is closed with that: at once,
    /// where its connection would have lingered.
    #[test]
    fn who_sends_no_more_is_closed_behind_its_answers() {
        let closing = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        for (requests, answers) in [
            (HEALTH.to_owned(), 1),
            (HEALTH.repeat(9), 9),
            (closing.to_owned(), 1),
            (format!("{HEALTH}{closing}"), 2),
        ] {
            let mut stage = stage(&[]);
            let id = stage.client("");
            stage.relay.served(id, Outcome::Blocked, stage.now);
            stage.relay.received(id, requests.as_bytes(), stage.now);
            stage.relay.input_ended(id, false, stage.now);
            assert!(stage.relay.clients.has(id), "it is to be answered");
            stage.settle();
            stage.relay.unblocked(id);
            stage.settle();
            assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), answers);
            assert!(stage.closed.contains(&id), "{requests}");
            assert!(!stage.relay.clients.has(id));
            // A client without an answer is closed at once.
            let id = stage.client("");
            stage.relay.input_ended(id, false, stage.now);
            stage.settle();
            assert!(stage.closed.contains(&id));
        }
    }

    /// At the shutdown, idle connections close. A client with an answer to come gets it, and no
    /// further request is read.
    #[test]
    fn the_end_of_the_server_waits_for_answers() {
        let mut stage = stage(&[]);
        let (idle, blocked, asks_on) = (stage.client(""), stage.client(""), stage.client(""));
        for id in [blocked, asks_on] {
            stage.relay.served(id, Outcome::Blocked, stage.now);
            stage.send(id, HEALTH);
        }
        stage.relay.shut_down(stage.now);
        stage.send(asks_on, HEALTH);
        assert!(stage.closed.contains(&idle));
        for (id, answers, closing) in [(blocked, 1, 0), (asks_on, 2, 1)] {
            assert!(!stage.closed.contains(&id));
            stage.relay.unblocked(id);
            while stage.write_next() {}
            let acts: Vec<Action> = std::iter::from_fn(|| stage.relay.next_action()).collect();
            assert!(acts.contains(&Action::ShutdownWrite(id)), "{acts:?}");
            assert_eq!(stage.text(id).matches("HTTP/1.1 200 OK").count(), answers);
            assert_eq!(stage.text(id).matches("Connection: close").count(), closing);
        }
        stage.wait(LINGER_TIME);
        assert!(stage.relay.is_empty());
    }

    /// A request's time counts from its first byte, however it drips and whenever the answer before
    /// it has gone out; between requests it counts from when that has.
    #[test]
    fn the_time_of_a_request_counts_from_its_first_byte() {
        // It begins late, and drips.
        let mut stage = stage(&[]);
        let id = stage.client("");
        stage.wait_seconds(15);
        for _ in 0..9 {
            stage.send(id, "G");
            stage.wait_seconds(1);
        }
        stage.wait(Duration::from_millis(999));
        assert_eq!(stage.text(id), "");
        stage.wait(Duration::from_millis(1));
        stage.assert_status(id, 408);
        assert!(
            stage
                .text(id)
                .contains("its request took longer than --head-time")
        );
        // It has begun after another, whose answer goes out later.
        for (ahead, seconds, text) in [("GET /", 10, "HTTP/1.1 408 "), ("", 23, "HTTP/1.1 200 ")] {
            let mut stage = self::stage(&[]);
            let id = stage.client("");
            stage.relay.served(id, Outcome::Blocked, stage.now);
            stage.send(id, &format!("{HEALTH}{ahead}"));
            stage.wait_seconds(3);
            stage.relay.unblocked(id);
            stage.settle();
            stage.wait(Duration::from_secs(seconds - 3) - Duration::from_millis(1));
            assert_eq!(stage.text(id).matches("HTTP/1.1").count(), 1, "{ahead}");
            assert!(!stage.closed.contains(&id));
            stage.wait(Duration::from_millis(1));
            let answers = if ahead.is_empty() { 1 } else { 2 };
            assert_eq!(
                stage.text(id).matches("HTTP/1.1").count(),
                answers,
                "{ahead}"
            );
            assert!(stage.text(id).contains(text));
            stage.wait(LINGER_TIME);
            assert!(stage.closed.contains(&id), "{ahead}");
        }
    }

    /// Input and output are freed when a connection closes.
    #[test]
    fn what_a_connection_held_is_freed_with_it() {
        const MUCH: usize = 1024 * 1024;
        for (input, output, connections, is_much) in [
            (MUCH, 0, 15, false),
            (MUCH, 0, 16, true),
            (0, MUCH, 15, false),
            (0, MUCH, 16, true),
            (MUCH, MUCH, 7, false),
            (MUCH, MUCH, 8, true),
        ] {
            let mut stage = stage(&[]);
            for _ in 0..connections {
                let id = stage.client("");
                let connection = stage
                    .relay
                    .clients
                    .connections
                    .get_mut(id)
                    .expect("it is there");
                connection.input = Some(Box::new(vec![b'x'; input].into()));
                connection.output.push(&vec![b'x'; output]);
                stage.relay.lost(id, stage.now);
                while stage.relay.next_action().is_some() {}
            }
            let is_due = stage.relay.next_deadline().is_some();
            assert_eq!(is_due, is_much, "{connections} of {input} and {output}");
        }
    }

    /// If the connection's end is the stream's end, the viewer learns it once.
    #[test]
    fn who_has_all_of_a_stream_is_told_once_that_nothing_more_comes() {
        let mut stage = stage(&["--close-delimited"]);
        let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
        let viewer = stage.viewer("s");
        stage.relay.received(source, b"media", stage.now);
        while stage.write_next() {}
        let acts: Vec<Action> = std::iter::from_fn(|| stage.relay.next_action()).collect();
        let shut = |action: &&Action| **action == Action::ShutdownWrite(viewer);
        assert_eq!(acts.iter().filter(shut).count(), 1, "{acts:?}");
        assert!(stage.text(viewer).ends_with("\r\n\r\nmedia"));
    }
}
