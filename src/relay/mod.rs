//! The core: the whole server without a socket or a clock.
//!
//! ```text
//!   accepted, received, input_ended,   ┌──────────────────────────┐ next_write, output, sent
//!   unblocked, lost, expire       ───▶ │ connections · streams ·  │ ───▶ next_action (close, …)
//!   (a time comes with each)           │ tokens · timers · limits │ next_deadline
//!                                      └──────────────────────────┘
//! ```
//!
//! The shell calls the core in this order:
//!
//! - It reports each input, and lets the core do deferred work ([`Relay::do_deferred_work`]).
//! - It writes output until there is none, or until the turn has lasted long enough.
//! - It carries out the actions.
//!
//! Both sides lend bytes to each other and keep none. The core ignores ids of closed connections.
//!
//! One thread owns the whole core. Work that would block is an action; its result is an input.

mod admission;
mod api;
mod check;
mod clients;
mod context;
mod counts;
mod cut_reason;
mod dispatch;
mod event;
mod event_limits;
mod fetch;
mod grants;
#[cfg(feature = "handover")]
pub mod handover;
#[cfg_attr(not(feature = "icecast"), path = "icecast/absent.rs")]
mod icecast;
mod job;
mod lists;
mod log;
mod metric_values;
mod metrics;
#[cfg(feature = "handover")]
mod old_options;
mod origin_error;
#[cfg_attr(not(feature = "page"), path = "page/absent.rs")]
mod page;
mod parameters;
mod pieces;
mod quota;
#[cfg(feature = "handover")]
mod readmission;
mod requests;
mod route;
mod rtmp_in;
mod rtp_in;
mod rtp_socket;
mod server_event;
mod settings;
mod shell;
mod snapshot;
#[cfg(test)]
pub(crate) mod stage;
mod streams;
mod terms;
#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
mod timers;
mod titles;
mod view;
mod viewer_id;
mod viewers;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::gate;
use crate::gather::Gather;
use crate::http::Refusal;
use crate::slots::Id;
use crate::stream::{End, Outcome};
use crate::time::Instant;
pub use crate::udp_out::Datagrams;
use clients::{Clients, Connection, Step};
pub use clients::{DATAGRAMS_COST_MAX, END_COST, PIPELINED_COST_MAX, READ_COST_MAX};
use context::Context;
use counts::Count;
pub use counts::{Counts, Process};
use fetch::{Fetch, Pull};
use grants::Grants;
pub use job::{ADDRESSES_MAX, Done, Job, JobId};
use lists::Lists;
pub use log::{Level, LogLimits};
use rtp_in::RtpIn;
pub use rtp_in::UdpPort;
pub use settings::{Fields, Limits, OriginUrl, Peer, Settings, VARIES};
pub use shell::{Incoming, Input, Inputs, Outgoing, Readers, Share, write_next};
pub use streams::Stream;
use streams::{SHUT_DOWN, Streams};
use timers::Owner;

/// The id of a connection.
pub type ConnectionId = Id<Connection>;
/// The id of a stream.
pub type StreamId = Id<Stream>;
/// The id of a pull: a session that is fetched from an origin.
type PullId = Id<Pull>;

/// Connections beyond the limit that are accepted, for a refusal in words or a call of the API.
pub const CONNECTIONS_BEYOND_MAX: usize = 32;

/// Number of HLS addresses that are counted, where tokens limit the number of viewers.
pub const HLS_ADDRESSES_MAX: usize = 8192;

/// An order to the shell.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to this address. The socket belongs to this connection.
    Connect(ConnectionId, SocketAddr),
    /// Close this connection's socket. Its id is stale already.
    Close(ConnectionId),
    /// Shut down the writing side of this connection's socket.
    ShutdownWrite(ConnectionId),
    /// Read from this connection again.
    ReadOn(ConnectionId),
    /// Run this job on another thread. [`Relay::job_finished`] takes the result.
    Run(JobId, Job),
    /// Return freed memory to the kernel: these empty blocks, or without blocks the rest.
    ReturnMemory(Vec<Vec<u8>>),
    /// A line for the operator.
    Log(String),
    /// A line for the access log.
    LogAccess(String),
}

/// Memory of some parts in bytes, by their names.
pub type MemoryBytes = [(&'static str, usize); 2];

/// The server.
pub struct Relay {
    ctx: Context,
    clients: Clients,
    streams: Streams,
    rtp_in: RtpIn,
    fetch: Fetch,
    grants: Grants,
    lists: Lists,
}

/// Maximal number of bytes that are read from a source at a time. The shell reads fewer, and a
/// small buffer allows fewer.
const SOURCE_READ_BYTES_MAX: usize = 256 * 1024;
/// Deadlines handled in a turn.
const DUE_PER_TURN_MAX: usize = 256;
/// Time for resolving all names of a call.
pub const RESOLVE_TIME: Duration = Duration::from_secs(5);

impl Relay {
    /// Creates a server without clients.
    pub fn new(settings: Settings) -> Relay {
        let mut ctx = Context::new(settings);
        Relay {
            clients: Clients::new(),
            streams: Streams::new(&ctx.settings().limits),
            rtp_in: RtpIn::default(),
            fetch: Fetch::new(&mut ctx),
            grants: Grants::new(ctx.settings()),
            lists: Lists::default(),
            ctx,
        }
    }

    // ---- What the shell has found at the start

    /// Sets the token table that the token file has, after the RTP socket is bound.
    pub fn restore(&mut self, tokens: gate::Tokens, now: Instant) {
        self.ctx.set_now(now);
        self.grants.restore(tokens, &mut self.ctx);
    }

    /// Returns the limits of the token table.
    pub fn token_limits(&self) -> gate::Limits {
        self.ctx.settings().limits.tokens
    }

    /// Adds an address at which the server listens for HTTP.
    pub fn add_listener(&mut self, bound: SocketAddr) {
        self.ctx.settings.listeners.push(bound);
    }

    /// Sets the address of the RTP socket. Tokens may then name UDP clients that it can reach.
    pub fn set_rtp(&mut self, bound: SocketAddr) {
        let Context {
            rtp_socket,
            settings,
            ..
        } = &mut self.ctx;
        rtp_socket.set_bound(bound, settings);
        // Streams of a predecessor have UDP clients that its options admitted.
        for id in self.streams.originals() {
            self.refresh_clients(id);
        }
    }

    /// Removes the UDP clients of a predecessor's streams: this server has no RTP socket. Otherwise
    /// the streams would wait for them.
    pub fn remove_udp_clients(&mut self) {
        for id in self.streams.originals() {
            self.streams.set_clients(id, Rc::new([]), &mut self.ctx);
        }
        self.dispatch_events();
    }

    /// Notes that the port above the RTP socket's is bound for RTCP.
    pub fn set_has_rtcp(&mut self) {
        self.ctx.rtp_socket.has_rtcp = true;
    }

    /// Sets the function that knows the addresses of this machine. It is called for UDP clients at
    /// the RTP socket's port only: datagrams to such an address would come back as a source's.
    pub fn set_own_addresses(&mut self, is_own: fn(SocketAddr) -> bool) {
        self.ctx.rtp_socket.is_own = Some(is_own);
    }

    // ---- What happened

    /// Accepts a connection. `None`: there is no place for it, and the shell closes it.
    pub fn accepted(&mut self, peer: SocketAddr, now: Instant) -> Option<ConnectionId> {
        self.ctx.set_now(now);
        self.clients.accept(peer, false, &mut self.ctx)
    }

    /// Accepts a connection at the port for RTMP, as [`Relay::accepted`] does.
    pub fn accepted_rtmp(&mut self, peer: SocketAddr, now: Instant) -> Option<ConnectionId> {
        self.ctx.set_now(now);
        self.clients.accept(peer, true, &mut self.ctx)
    }

    /// Returns how many bytes the shell may read from this client. 0 leaves them in the socket
    /// until [`Action::ReadOn`].
    pub fn bytes_wanted(&mut self, id: ConnectionId) -> usize {
        let of_source = |stream, ctx: &mut _| self.streams.source_bytes_wanted(stream, ctx);
        self.clients.bytes_wanted(id, of_source, &mut self.ctx)
    }

    /// Handles bytes of a client, at most as many as [`Relay::bytes_wanted`] returned. Returns the cost
    /// of reading them.
    pub fn received(&mut self, id: ConnectionId, bytes: &[u8], now: Instant) -> usize {
        self.ctx.set_now(now);
        self.clients.reading.begin(bytes.len());
        self.read(id, bytes);
        self.clients.rearm(id, &mut self.ctx);
        self.dispatch_events();
        self.clients.reading.cost
    }

    /// Reads the pipelined input of a client, and then `bytes`.
    fn read(&mut self, id: ConnectionId, bytes: &[u8]) {
        let input = self.clients.take_input(id, bytes, &self.ctx);
        let mut rest = &input.bytes[..];
        loop {
            // The rest is read when the source may send again.
            let stream = self.clients.source_of(id);
            if stream.is_some_and(|stream| self.streams.must_pause_source(stream)) {
                break;
            }
            let before = rest.len();
            let step = self.clients.read_on(id, &mut rest, &mut self.ctx);
            // A source's rate counts all its bytes, also framing, which becomes no media. The tags of
            // an RTMP source may be longer than its messages.
            if let Some(stream) = stream {
                let media_bytes = match &step {
                    Step::Media(_, content) => content.len(),
                    Step::Event(_) | Step::On | Step::Stop => 0,
                };
                let bytes = media_bytes.max(before - rest.len());
                self.streams.draw(stream, bytes, &mut self.ctx);
            }
            match step {
                Step::Media(stream, content) => {
                    let anew = self.streams.append(stream, content, &mut self.ctx);
                    self.follow(anew);
                }
                Step::Event(event) => self.act(id, event),
                Step::On => {}
                Step::Stop => break,
            }
        }
        self.clients.push_answers(id);
        let unread_bytes = rest.len();
        self.clients
            .keep_input(id, input, unread_bytes, &mut self.ctx);
    }

    /// Reads pipelined input of the next client in the list, or answers its wait. Also lets the next
    /// remuxed stream catch up, and passes the next stream a piece of its splicer's output. Returns
    /// the cost. `None`: there is nothing of these.
    pub fn do_deferred_work(&mut self, now: Instant) -> Option<usize> {
        self.ctx.set_now(now);
        self.clients.reading.begin(0);
        let is_catching_up = self.streams.catch_up_next(&mut self.ctx);
        let has_passed = self.streams.pass_spliced(&mut self.ctx);
        let ahead = self.clients.next_pipelined();
        let id = ahead.as_ref().map(|(id, _)| *id);
        if let Some((id, waited)) = ahead {
            if let Some(waited) = waited {
                self.decide_waited(id, waited);
            }
            self.read(id, &[]);
        } else if !is_catching_up && !has_passed {
            return None;
        }
        self.dispatch_events();
        if let Some(id) = id {
            self.clients.end_pipelined(id, &mut self.ctx);
        }
        Some(self.clients.reading.cost)
    }

    /// Returns whether [`Relay::do_deferred_work`] has something to do.
    pub fn has_deferred_work(&self) -> bool {
        self.clients.has_pipelined() || self.streams.has_catching_up() || self.streams.has_spliced()
    }

    /// Handles the end of a client's input. `has_unread`: some bytes are still in the socket,
    /// because the core did not want them yet. Returns the cost.
    pub fn input_ended(&mut self, id: ConnectionId, has_unread: bool, now: Instant) -> usize {
        self.ctx.set_now(now);
        self.clients.reading.begin(END_COST);
        if let Some(event) = self.clients.input_ended(id, has_unread, &mut self.ctx) {
            self.act(id, event);
        }
        self.dispatch_events();
        self.clients.reading.cost
    }

    /// Handles a broken connection. Returns the cost.
    pub fn lost(&mut self, id: ConnectionId, now: Instant) -> usize {
        self.ctx.set_now(now);
        self.clients.reading.begin(END_COST);
        self.clients.close(id, &mut self.ctx);
        self.dispatch_events();
        self.clients.reading.cost
    }

    /// Notes that the client's socket takes bytes again.
    pub fn unblocked(&mut self, id: ConnectionId) {
        self.clients.unblocked(id);
    }

    /// Sets the time by this host's clock, as the time since 1970.
    pub fn set_unix_time(&mut self, since_1970: Duration, now: Instant) {
        self.ctx.set_now(now);
        if self.ctx.set_unix_time(since_1970) {
            self.grants.rearm(&mut self.ctx);
            self.clients.rearm_admitted(&mut self.ctx);
        }
    }

    /// Handles deadlines that have come, up to a maximum.
    pub fn expire(&mut self, now: Instant) {
        self.ctx.set_now(now);
        // Each deadline is handled once in a turn. A deadline that is set to the past waits for the
        // next turn, and so do the deadlines beyond the maximum. Early packets of RTP cost as much here
        // as packets that the socket brings.
        self.ctx.timers.call_due(now, DUE_PER_TURN_MAX);
        self.streams.begin_turn();
        self.clients.reading.begin(0);
        while self.clients.reading.cost < READ_COST_MAX
            && let Some(owner) = self.ctx.timers.next_called()
        {
            match owner {
                Owner::Connection(id) => {
                    let is_slowed = |stream| self.streams.take_slowed(stream);
                    if let Some(waiting) = self.clients.due(id, is_slowed, &mut self.ctx) {
                        self.decide_waited(id, waiting);
                    }
                    // The connection's next deadline may be another one now.
                    self.clients.rearm(id, &mut self.ctx);
                }
                Owner::Stream(id) => {
                    if self.streams.due(id, &mut self.ctx) {
                        self.go_on_in_order(id);
                    }
                    self.streams.rearm(id, &mut self.ctx);
                }
                Owner::Pull(id) => self.fetch.due(id, &mut self.ctx),
                Owner::Candidates => self.rtp_in.candidates_due(&mut self.ctx),
                Owner::Memory => self.ctx.memory_due(self.streams.take_spare_blocks()),
                Owner::Tokens => self.grants.due(&mut self.ctx),
            }
            self.dispatch_events();
        }
        self.ctx.timers.end_turn();
    }

    /// Shuts down: accepts no clients, ends the sources, and sends buffered media to viewers.
    pub fn shut_down(&mut self, now: Instant) {
        self.ctx.set_now(now);
        self.ctx.is_closing = true;
        self.fetch.shut_down(&mut self.ctx);
        self.streams.shut_down(&mut self.ctx);
        for stream in self.clients.shut_down(&mut self.ctx) {
            self.streams
                .end(stream, End::Complete, SHUT_DOWN, &mut self.ctx);
        }
        self.dispatch_events();
    }

    /// Handles the result of a job.
    pub fn job_finished(&mut self, job_id: JobId, done: Done, now: Instant) {
        self.ctx.set_now(now);
        match done {
            Done::Resolved(results) => {
                if !self.fetch.resolved(job_id, &results, &mut self.ctx) {
                    self.looked_up(job_id, Ok(results));
                }
            }
            Done::Appended(result) => {
                self.grants.appended(job_id, &result, &mut self.ctx);
            }
            Done::NotCompacted(error) => self.grants.not_compacted(&error, &mut self.ctx),
        }
        self.dispatch_events();
    }

    /// Handles the refusal of a job, because too many are waiting.
    pub fn job_refused(&mut self, job_id: JobId, now: Instant) {
        self.ctx.set_now(now);
        let is_anothers = self.grants.not_appended(job_id, &mut self.ctx)
            || self.fetch.resolved(job_id, &[], &mut self.ctx);
        if !is_anothers {
            let why = "too many names are being resolved; try again later";
            self.looked_up(job_id, Err(Refusal::busy(why)));
        }
        self.dispatch_events();
    }

    /// Handles a datagram. Returns its cost.
    pub fn datagram(
        &mut self,
        from: SocketAddr,
        port: UdpPort,
        bytes: &[u8],
        now: Instant,
    ) -> usize {
        self.ctx.set_now(now);
        self.clients.reading.begin(bytes.len());
        let from = match from.ip().to_canonical() {
            IpAddr::V4(address) => SocketAddr::new(address.into(), from.port()),
            IpAddr::V6(_) => from,
        };
        self.take_datagram(from, port, bytes);
        self.dispatch_events();
        self.clients.reading.cost
    }

    // ---- What is to be done

    /// Returns a client with something to write. The shell then calls [`Relay::output`],
    /// [`Relay::sent`] if bytes were sent, and [`Relay::served`].
    pub fn next_write(&mut self) -> Option<ConnectionId> {
        let viewers = || self.streams.next_viewer(&mut self.ctx);
        self.clients.next_write(viewers)
    }

    /// Lends the bytes to write to a client next. Empty if there are none.
    pub fn output(&mut self, id: ConnectionId, now: Instant) -> Gather<'_> {
        self.ctx.set_now(now);
        self.prepare(id);
        self.dispatch_events();
        let mut gather = Gather::default();
        if let Some(response) = self.clients.lend(id, &mut gather) {
            self.streams.lend(response, &mut gather);
        } else if let Some((next, of)) = self.clients.reads(id)
            && next >= self.ctx.events.first
        {
            self.ctx.events.lend(next, of, &mut gather);
        }
        gather
    }

    /// Notes that `bytes` of [`Relay::output`] were written.
    pub fn sent(&mut self, id: ConnectionId, bytes: usize, now: Instant) {
        self.ctx.set_now(now);
        if let Some((place, media_bytes)) = self.clients.sent(id, bytes, &mut self.ctx) {
            self.streams.took(place, media_bytes);
        }
        self.dispatch_events();
    }

    /// Ends the client's turn. `outcome`: whether its socket takes more.
    pub fn served(&mut self, id: ConnectionId, outcome: Outcome, now: Instant) {
        self.ctx.set_now(now);
        if let Some((place, outcome)) = self.clients.served(id, outcome, &mut self.ctx) {
            self.streams.end_turn(place, outcome);
        }
    }

    /// Returns the next datagrams to send. `not_taken`: for each client, how many of the datagrams
    /// lent last the kernel did not take. An empty slice means that it took all.
    pub fn next_datagrams(&mut self, now: Instant, not_taken: &[usize]) -> Option<Datagrams<'_>> {
        self.ctx.set_now(now);
        self.streams.not_taken(not_taken, &mut self.ctx);
        let next = self.streams.next_posting(&mut self.ctx);
        self.dispatch_events();
        let datagrams = self.streams.datagrams(next?)?;
        let sent = datagrams.count() as u64;
        self.ctx.count(Count::DatagramsSent, sent);
        Some(datagrams)
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Option<Action> {
        self.ctx.actions.pop_front()
    }

    /// Returns when the shell has to call [`Relay::expire`] next. `None`: nothing will be due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.ctx.timers.next()
    }

    /// Returns whether there is something to write.
    pub fn has_writes(&self) -> bool {
        self.clients.has_writes() || self.streams.has_writes()
    }

    /// Returns the counters, for the shell to add its own.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.ctx.counts
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.clients.len() == 0
    }

    /// Returns the memory of streams and of the token table, in bytes. Looks at every stream.
    pub fn memory_bytes(&self) -> MemoryBytes {
        [
            ("streams", self.streams.memory_bytes()),
            ("tokens", self.grants.memory_bytes()),
        ]
    }

    /// Charges an answer for which each connection and each stream is looked at.
    fn charge_scan(&mut self) {
        let scanned = self.clients.len() + self.streams.len();
        self.clients.reading.count(scanned * clients::SCAN_COST);
    }
}
