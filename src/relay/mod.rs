//! The core: the whole server without a socket or a clock.
//!
//! ```text
//!   accepted, received, input_ended,   ┌─────────────────────────────────┐   next_write → output → sent, served
//!   unblocked, lost, expire       ───▶ │ connections · streams · tokens  │ ───▶ next_action (close, read on, …)
//!   (a time comes with each)           │ timers · limits                 │   next_deadline
//!                                      └─────────────────────────────────┘
//! ```
//!
//! The rule of use: hand in what happened, and let what has come before be read on
//! ([`Relay::read_ahead`]); then take what is to be written, until there is nothing (or the turn
//! has lasted long enough); then take the actions. Bytes are lent in both directions, never owned
//! by the seam. Ids that have gone stale are harmless everywhere.
//!
//! One thread owns all of it. What would block is an action whose result is an input.

mod access;
mod admission;
mod api;
mod check;
mod clients;
mod connection;
mod deadlines;
mod desk;
mod draining;
mod errand;
mod fetch;
mod frame;
mod grants;
mod held;
mod hold;
mod icecast;
mod listing;
mod lists;
mod live;
mod metrics;
mod outlet;
mod output;
mod page;
mod peer;
mod reading;
mod report;
mod request;
mod requests;
mod route;
mod settings;
mod settle;
mod source;
#[cfg(test)]
mod stage;
mod streams;
mod timers;
mod turns;
mod udp;
mod viewer;
mod waiting;

use std::net::SocketAddr;
use std::time::Duration;

use crate::gather::Gather;
use crate::moment::Moment;
use crate::slots::Id;
use crate::stream::Outcome;
use clients::Clients;
use connection::{Connection, Phase};
use desk::Desk;
pub use errand::{ADDRESSES_MAX, Done, Job, Ticket};
use fetch::{Fetch, Pull};
use grants::Grants;
use lists::Lists;
pub use live::Live;
pub use metrics::Files;
pub use outlet::Datagrams;
pub use reading::{AHEAD_COST_MAX, DATAGRAMS_COST_MAX, END_COST, READ_COST_MAX};
pub use report::{Level, ReportLimits};
pub use settings::{Fields, Limits, OriginUrl, Peer, Settings};
use streams::Streams;
use timers::Owner;
use udp::RtpIn;
pub use udp::{UdpFigures, UdpPort};

/// The id of a connection.
pub type ConnectionId = Id<Connection>;
/// The id of a stream.
pub type LiveId = Id<Live>;
/// The id of a session that is fetched.
type PullId = Id<Pull>;

/// After how long a client may try again when a limit is reached.
const RETRY_AFTER_SECONDS: u32 = 5;

/// Connections beyond the limit that are let in, to be refused in words or to call the API.
pub const CONNECTIONS_BEYOND_MAX: usize = 32;

/// What the shell is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to this origin. Its socket is this connection's.
    Connect(ConnectionId, SocketAddr),
    /// Close this connection's socket. Its id is stale already.
    Close(ConnectionId),
    /// Tell the client that nothing more comes.
    ShutdownWrite(ConnectionId),
    /// Bytes of this connection are wanted again.
    ReadOn(ConnectionId),
    /// Have this done off the loop; [`Relay::helped`] brings the result.
    Help(Ticket, Job),
    /// Much memory has been freed: the kernel may have it.
    ReturnMemory,
    /// A line for the operator.
    Log(String),
    /// A line for the access log.
    LogAccess(String),
}

/// The server.
pub struct Relay {
    desk: Desk,
    clients: Clients,
    streams: Streams,
    rtp_in: RtpIn,
    fetch: Fetch,
    grants: Grants,
    lists: Lists,
}

/// A long answer's next piece, which takes as long as several writes, is due after so many.
const WRITES_PER_PIECE: usize = 32;

/// What a source may send in one go, unless its buffer is small.
const SOURCE_READ_BYTES_MAX: usize = 256 * 1024;
/// What is read at once from a client that has no media to send.
const READ_BYTES_MAX: usize = 16 * 1024;
/// Requests that are sent ahead while another is being answered.
const AHEAD_BYTES_MAX: usize = 4 * 1024;
/// Deadlines that are acted on in a turn.
const DUE_PER_TURN_MAX: usize = 256;
/// How long the names of a call may take to resolve, all together.
pub const ERRAND_TIME: Duration = Duration::from_secs(5);

impl Clients {
    fn next_queued(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.queue.pop_front() {
            if self.leaves_queue(id) {
                return Some(id);
            }
        }
        None
    }

    fn next_listing(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.listing.pop_front() {
            if self.leaves_queue(id) {
                self.writes_since_piece = 0;
                return Some(id);
            }
        }
        None
    }

    /// Whether a connection that stood in a queue is to be written to.
    fn leaves_queue(&mut self, id: ConnectionId) -> bool {
        self.connections.get_mut(id).is_some_and(|connection| {
            connection.is_queued = false;
            !connection.is_blocked
        })
    }
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

impl Relay {
    /// A server without clients.
    pub fn new(settings: Settings) -> Relay {
        let mut desk = Desk::new(settings);
        Relay {
            clients: Clients::new(),
            streams: Streams::new(&desk.settings.limits),
            rtp_in: RtpIn::default(),
            fetch: Fetch::new(&mut desk),
            grants: Grants::new(&desk.settings),
            lists: Lists::default(),
            desk,
        }
    }

    // ---- What happened

    /// How many bytes of this client are wanted now; 0 leaves them in the socket until
    /// [`Action::ReadOn`].
    pub fn appetite(&mut self, id: ConnectionId) -> usize {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return 0;
        };
        match &connection.phase {
            _ if connection.is_ahead => 0,
            Phase::Head(_) if connection.output.is_full() => 0,
            // Requests that were sent ahead may lie there still, behind an output that was full.
            Phase::Head(_) => {
                // With one byte more than a head may have, it is known to be too large.
                let bytes_max =
                    READ_BYTES_MAX.max(self.desk.settings.limits.http.head_bytes_max + 1);
                bytes_max.saturating_sub(connection.input.len())
            }
            Phase::Introduction
            | Phase::Payload(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Lingering(_) => READ_BYTES_MAX,
            Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Awaiting(_)
            | Phase::Recording => AHEAD_BYTES_MAX.saturating_sub(connection.input.len()),
            Phase::Source(source) => {
                let live = source.live;
                self.streams.source_appetite(live, &mut self.desk)
            }
        }
    }

    /// Bytes of a client have arrived: at most what [`Relay::appetite`] named. Says what reading
    /// them cost.
    pub fn received(&mut self, id: ConnectionId, bytes: &[u8], now: Moment) -> usize {
        self.desk.now = now;
        self.clients.reading.begin(bytes.len());
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return self.clients.reading.cost();
        };
        if connection.input.is_empty() {
            let rest = self.read_on(id, bytes).to_vec();
            if let Some(connection) = self.clients.connections.get_mut(id) {
                connection.input = rest;
            }
        } else {
            let bytes_max = READ_BYTES_MAX.max(self.desk.settings.limits.http.head_bytes_max + 1);
            extend_within(&mut connection.input, bytes, bytes_max);
            self.read_input(id);
        }
        self.clients.rearm(id, &mut self.desk);
        self.settle();
        self.clients.reading.cost()
    }

    /// The client sends no more.
    pub fn input_ended(&mut self, id: ConnectionId, now: Moment) {
        self.desk.now = now;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        connection.input_ended = true;
        match &connection.phase {
            Phase::Head(_) | Phase::Lingering(_) if connection.output.is_empty() => {
                self.clients.close(id, &mut self.desk)
            }
            Phase::Introduction
            | Phase::Payload(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Asking(_)
            | Phase::Telling(_) => self.clients.close(id, &mut self.desk),
            Phase::Source(_) => self.source_ended(id),
            // What has been asked before is answered still.
            Phase::Head(_)
            | Phase::Lingering(_)
            | Phase::Listing(_)
            | Phase::Awaiting(_)
            | Phase::Recording => {}
        }
        self.settle();
    }

    /// The connection is broken.
    pub fn lost(&mut self, id: ConnectionId, now: Moment) {
        self.desk.now = now;
        self.clients.close(id, &mut self.desk);
        self.settle();
    }

    /// The client's socket takes bytes again.
    pub fn unblocked(&mut self, id: ConnectionId) {
        if let Some(connection) = self.clients.connections.get_mut(id)
            && connection.is_blocked
        {
            connection.is_blocked = false;
            self.clients.queue(id);
        }
    }

    /// This host's clock says that it is so long since 1970 began.
    pub fn hear_time(&mut self, since_1970: Duration, now: Moment) {
        self.desk.now = now;
        self.desk.hear_time(since_1970);
    }

    /// Acts on deadlines that have come, a bounded number of them.
    pub fn expire(&mut self, now: Moment) {
        self.desk.now = now;
        // Each at most once: whoever asks for a time that has come already has it in the next turn,
        // and so have those for whom this one would become too long.
        for _ in 0..self.desk.timers.len().min(DUE_PER_TURN_MAX) {
            let Some(owner) = self.desk.timers.pop_due(now) else {
                return;
            };
            match owner {
                Owner::Connection(id) => self.connection_due(id),
                Owner::Live(id) => self.live_due(id),
                Owner::Pull(id) => self.fetch.due(id, &mut self.desk),
                Owner::Candidates => self.rtp_in.candidates_due(&mut self.desk),
                Owner::Memory => self.desk.memory_due(),
            }
            self.settle();
        }
    }

    /// No new clients; sources are ended, viewers get what is buffered and a clean end.
    pub fn shut_down(&mut self, now: Moment) {
        self.desk.now = now;
        self.desk.is_closing = true;
        self.fetch.shut_down(&mut self.desk);
        self.end_without_connection();
        let ids: Vec<ConnectionId> = self.clients.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(connection) = self.clients.connections.get_mut(id) else {
                continue;
            };
            match &connection.phase {
                Phase::Source(_) => self.end_source_for_shutdown(id),
                Phase::Head(_) if connection.output.is_empty() => {
                    self.clients.close(id, &mut self.desk)
                }
                Phase::Introduction
                | Phase::Payload(_)
                | Phase::Waiting(_)
                | Phase::Asking(_)
                | Phase::Telling(_) => self.clients.close(id, &mut self.desk),
                Phase::Head(_)
                | Phase::Viewer(_)
                | Phase::Listing(_)
                | Phase::Awaiting(_)
                | Phase::Recording
                | Phase::Lingering(_) => {}
            }
        }
        self.settle();
    }

    // ---- What is to be done

    /// A client for which there is something to write. It is due a call of [`Relay::output`], and
    /// then of [`Relay::served`].
    pub fn next_write(&mut self) -> Option<ConnectionId> {
        if self.clients.writes_since_piece >= WRITES_PER_PIECE
            && let Some(id) = self.clients.next_listing()
        {
            return Some(id);
        }
        if let Some(id) = self
            .clients
            .next_queued()
            .or_else(|| self.streams.next_viewer(&mut self.desk))
        {
            self.clients.writes_since_piece = self.clients.writes_since_piece.saturating_add(1);
            return Some(id);
        }
        // After a piece the turn is over if there is nothing else, for who else has something may
        // be known in the next one.
        if self.clients.writes_since_piece == 0 {
            self.clients.writes_since_piece = 1;
            return None;
        }
        self.clients.next_listing()
    }

    /// Lends what is to be written to a client next; nothing, if there is nothing.
    pub fn output(&mut self, id: ConnectionId, now: Moment) -> Gather<'_> {
        self.desk.now = now;
        self.prepare_output(id);
        self.settle();
        let mut gather = Gather::default();
        if let Some(connection) = self.clients.connections.get(id)
            && gather.push(connection.output.rest())
        {
            self.streams.lend_to_viewer(connection, &mut gather);
        }
        gather
    }

    /// So many bytes of [`Relay::output`] have been written.
    pub fn sent(&mut self, id: ConnectionId, bytes: usize, now: Moment) {
        self.desk.now = now;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        connection.taken = now;
        let of_output = connection.output.advance(bytes);
        if bytes > of_output {
            self.viewer_took(id, bytes - of_output);
        }
        self.clients.after_output(id, &mut self.desk);
        self.settle();
    }

    /// The client's turn is over: its socket takes more, or does not.
    pub fn served(&mut self, id: ConnectionId, outcome: Outcome, now: Moment) {
        self.desk.now = now;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        if outcome == Outcome::Blocked && !connection.is_blocked {
            connection.is_blocked = true;
            connection.taken = now;
            self.clients.rearm(id, &mut self.desk);
        } else if outcome == Outcome::Open && connection.has_output() {
            self.clients.queue(id);
        }
        self.settle_viewer(id, outcome);
    }

    /// The next thing to do besides writing.
    pub fn next_action(&mut self) -> Option<Action> {
        self.desk.actions.pop_front()
    }

    /// When [`Relay::expire`] is to be called at the latest; `None` while nothing can become due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.desk.timers.next()
    }

    /// Whether there is anything to write at once.
    pub fn has_writes(&self) -> bool {
        !self.clients.queue.is_empty()
            || !self.clients.listing.is_empty()
            || !self.streams.turns.is_empty()
            || !self.streams.posting.is_empty()
    }

    /// Whether nobody is connected any more.
    pub fn is_empty(&self) -> bool {
        self.clients.connections.is_empty()
    }
}
