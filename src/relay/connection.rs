//! One client of the HTTP listener: the phases of its life, and what it has still to be told.
//!
//! ```text
//!            ┌──────────────────────────── keep-alive ───────────────────────────┐
//!            ▼                                                                   │
//! accept → Head ─┬─ API call ─→ Payload ─┬─→ (answer) ───────────────────────────┤
//!                │                       ├─→ Listing (written in pieces) ────────┤
//!                │                       └─→ Awaiting, Recording (the threads) ──┤
//!                ├─ PUT, POST ─→ Source ── body complete ─→ (answer) ────────────┤
//!                ├─ GET ─→ (Waiting) ─→ Viewer ── stream complete ─→ (last chunk) ┘
//!                └─ refused with a body ─→ Lingering ─→ gone
//! ```
//!
//! A proxy's connection begins with an Introduction: whose it is. Those that this server connects
//! to are some too: an origin, Asking ─ 200 ─→ Source ─→ gone, and a peer, Telling ─→ gone.
//!
//! Owns no socket: the shell hands in what arrived and takes what is to be written.

use std::net::SocketAddr;
use std::time::Duration;

use super::access::Entry;
use super::api::Call;
use super::clients::Clients;
use super::desk::Desk;
use super::fetch::Fault;
use super::listing::Listing;
use super::lists::{Telling, Told};
use super::output::Output;
use super::reading::{HEAD_COST, HEADS_AT_ONCE_MAX, PIECE_COST};
use super::settle::Said;
use super::timers::{Armed, Owner};
use super::waiting::Waiting;
use super::{Action, LiveId, PullId, Relay, Ticket};
use crate::http::{self, AnswerReader, Body, ChunkWriter, HeadReader, Reply};
use crate::moment::Moment;
use crate::stream::ViewerId;

use super::ConnectionId;

/// A client.
pub struct Connection {
    /// Who it is, for the subnet checks, the limits, the logs and the lists; an IPv4-mapped address
    /// as IPv4.
    pub(super) peer: SocketAddr,
    /// Who the connection is from, if that is a proxy whose requests tell in their fields whose
    /// they are.
    pub(super) forwarder: Option<Box<SocketAddr>>,
    /// A proxy said who the peer is.
    pub(super) is_proxied: bool,
    /// The peer is who asks, and not a proxy that does not say for whom.
    pub(super) is_named: bool,
    /// It is one of its peer's host's connections. Not before it is known whose it is, and not
    /// where this server called.
    pub(super) is_counted: bool,
    pub(super) phase: Phase,
    /// Bytes that arrived and cannot be read yet: part of a head, or requests sent ahead.
    pub(super) input: Vec<u8>,
    /// The client sends no more.
    pub(super) input_ended: bool,
    pub(super) output: Output,
    /// Its socket takes no bytes for now.
    pub(super) is_blocked: bool,
    /// When it last sent what moves it on, a request or a source's media, or was done with a
    /// request. What else it sends is no progress.
    pub(super) progress: Moment,
    /// When its socket last took bytes, or since when it takes none.
    pub(super) taken: Moment,
    pub(super) armed: Armed,
    /// It stands in the list of those whose input can be read on.
    pub(super) is_ahead: bool,
    /// It stands in the queue of those who have something of their own to write.
    pub(super) is_queued: bool,
    /// The request that is being answered, where requests are logged.
    pub(super) access: Option<Box<Entry>>,
    /// It came when there was no more place: it gets the API, if it may call it, and a refusal
    /// else.
    pub(super) is_beyond_limit: Option<Beyond>,
}

/// Which limit a connection is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// Connections in all.
    All,
    /// Connections from its host.
    Host,
}

/// Where a client stands.
pub(super) enum Phase {
    /// It must begin with a PROXY protocol header.
    Introduction,
    /// Between requests, or within the head of one.
    Head(HeadReader),
    /// The payload of a call is read and ignored.
    Payload(Payload),
    /// It is a stream's source.
    Source(Source),
    /// A stream goes out to it.
    Viewer(ViewerPhase),
    /// It will be a viewer if its session begins soon.
    Waiting(Waiting),
    /// A long answer is written piece by piece.
    Listing(Listing),
    /// Its answer depends on names that are looked up, or on what peers tell.
    Awaiting(Ticket),
    /// It is an origin, which is asked for a stream.
    Asking(Asking),
    /// It is a peer, which is asked for its part of a list.
    Telling(Telling),
    /// Its change of the table is on its way to the disk, and is not taken back if it leaves.
    Recording,
    /// The last answer is written; what still arrives is drained, so that no reset eats the answer.
    Lingering(Lingering),
}

/// A call whose payload has not all arrived.
pub(super) struct Payload {
    pub call: Box<Call>,
    pub reply: Reply,
    pub body: Body,
    pub bytes: usize,
}

/// An origin whose answer has not come.
pub(super) struct Asking {
    pub pull: PullId,
    pub reader: AnswerReader,
    pub until: Moment,
    /// What it is if the connection ends now.
    pub fault: Fault,
}

/// A client, or an origin, whose body is a stream's media.
pub(super) struct Source {
    pub live: LiveId,
    pub body: Body,
    /// What has come of it.
    pub bytes: u64,
    /// How it is answered; an origin is not.
    pub reply: Option<Reply>,
    /// Bytes since the beginning of the window over which the slowest rate is judged.
    pub window_bytes: u64,
    pub window_began: Moment,
}

/// A client that watches.
pub(super) struct ViewerPhase {
    pub live: LiveId,
    pub viewer: ViewerId<ConnectionId>,
    pub reply: Reply,
    /// The response's head, until the stream's media type is known.
    pub owes_head: bool,
    pub framing: Outgoing,
}

/// How a stream is framed for a viewer.
pub(super) enum Outgoing {
    Chunked(ChunkWriter),
    /// HTTP/1.0: the body ends with the connection.
    UntilClose,
}

/// The end of a connection.
pub(super) struct Lingering {
    pub until: Moment,
    pub bytes_left: usize,
    /// The client has been told that nothing more comes.
    pub is_shut: bool,
}

/// An origin's head, as large as any server's.
const ANSWER_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 128,
};
/// How long, and how many bytes, a client that was refused may go on sending.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Connection {
    pub(super) fn new(
        peer: SocketAddr,
        is_beyond_limit: Option<Beyond>,
        now: Moment,
    ) -> Connection {
        Connection {
            peer,
            forwarder: None,
            is_proxied: false,
            is_named: true,
            is_counted: false,
            phase: Phase::Head(HeadReader::default()),
            input: Vec::new(),
            input_ended: false,
            output: Output::default(),
            is_blocked: false,
            progress: now,
            taken: now,
            armed: Armed::default(),
            is_ahead: false,
            is_queued: false,
            access: None,
            is_beyond_limit,
        }
    }

    /// A connection that this server makes, which takes bytes as soon as it is there.
    pub(super) fn outgoing(address: SocketAddr, phase: Phase, now: Moment) -> Connection {
        Connection {
            phase,
            is_blocked: true,
            ..Connection::new(address, None, now)
        }
    }

    /// Whether there is something of its own to be written, or there will be as soon as the socket
    /// takes it.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty() || matches!(self.phase, Phase::Listing(_))
    }

    /// Whether all has been written that ever will be.
    pub(super) fn output_is_over(&self) -> bool {
        matches!(self.phase, Phase::Lingering(_)) && self.output.is_empty()
    }

    /// Bytes that are allocated for it, beside its place in the table.
    pub(super) fn held_bytes(&self) -> usize {
        let phase = match &self.phase {
            Phase::Telling(telling) => telling.held_bytes(),
            Phase::Payload(payload) => payload.call.held_bytes(),
            Phase::Waiting(waiting) => waiting.session.as_str().len(),
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Listing(_)
            | Phase::Awaiting(_)
            | Phase::Asking(_)
            | Phase::Recording
            | Phase::Lingering(_) => 0,
        };
        let access = self.access.as_ref().map_or(0, |entry| entry.held_bytes());
        let forwarder = self
            .forwarder
            .as_ref()
            .map_or(0, |_| size_of::<SocketAddr>());
        self.input.capacity() + self.output.held_bytes() + phase + access + forwarder
    }

    /// Whether bytes of it are progress. Not within a request: its time counts from its first byte,
    /// however it drips.
    fn moves_on_by_sending(&self) -> bool {
        match &self.phase {
            Phase::Head(reader) => !reader.has_begun(),
            Phase::Source(_) => true,
            Phase::Introduction
            | Phase::Payload(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Awaiting(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording
            | Phase::Lingering(_) => false,
        }
    }
}

impl Clients {
    pub(super) fn queue(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_queued
        {
            connection.is_queued = true;
            match connection.phase {
                Phase::Listing(_) => self.listing.push_back(id),
                _ => self.queue.push_back(id),
            }
        }
    }

    /// Once the answer is out there may be another request, or the end.
    pub(super) fn after_output(&mut self, id: ConnectionId, desk: &mut Desk) {
        let now = desk.now;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if !connection.output.is_empty() {
            return;
        }
        match &mut connection.phase {
            Phase::Head(_) if connection.input_ended && connection.input.is_empty() => {
                self.close(id, desk)
            }
            Phase::Head(_) if desk.is_closing => self.linger(id, desk),
            Phase::Head(reader) => {
                if !reader.has_begun() {
                    connection.progress = now;
                }
                if connection.input.is_empty() {
                    // It was full, and its bytes were left in the socket.
                    desk.actions.push_back(Action::ReadOn(id));
                } else {
                    self.wait_ahead(id);
                }
                self.rearm(id, desk);
            }
            Phase::Lingering(_) if connection.input_ended => self.close(id, desk),
            Phase::Lingering(lingering) if !lingering.is_shut => {
                lingering.is_shut = true;
                lingering.until = now + LINGER_TIME;
                desk.actions.push_back(Action::ShutdownWrite(id));
                self.rearm(id, desk);
            }
            Phase::Asking(asking) => asking.fault = Fault::Broken("it hung up without an answer"),
            Phase::Lingering(_)
            | Phase::Introduction
            | Phase::Telling(_)
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Awaiting(_)
            | Phase::Recording => {}
        }
    }

    /// Nothing is answered any more but what is in the output; what still arrives is drained for a
    /// while.
    pub(super) fn linger(&mut self, id: ConnectionId, desk: &mut Desk) {
        let now = desk.now;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        desk.freed(connection.input.capacity());
        connection.input = Vec::new();
        connection.phase = Phase::Lingering(Lingering {
            until: now + LINGER_TIME,
            bytes_left: LINGER_BYTES_MAX,
            is_shut: false,
        });
        desk.actions.push_back(Action::ReadOn(id));
        self.after_output(id, desk);
        self.rearm(id, desk);
    }

    /// An origin does not do.
    pub(super) fn give_up_asking(&mut self, id: ConnectionId, fault: Fault, desk: &mut Desk) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::Asking(asking) = &mut connection.phase
        {
            asking.fault = fault;
        }
        self.close(id, desk);
    }

    /// The connection is over: nothing of it stays. Whom that concerns learns it when this input is
    /// settled.
    pub(super) fn close(&mut self, id: ConnectionId, desk: &mut Desk) {
        let Some(mut connection) = self.connections.remove(id) else {
            return;
        };
        desk.timers
            .disarm(&mut connection.armed, Owner::Connection(id));
        if connection.is_counted {
            self.uncount(connection.peer.ip());
        }
        desk.freed(connection.input.capacity() + connection.output.rest().len());
        desk.actions.push_back(Action::Close(id));
        if let Some(entry) = &connection.access {
            self.end_access(entry, desk);
        }
        self.said.push_back(Said::Gone(id, connection.phase));
    }
}

impl Relay {
    /// Reads on in what the client has sent ahead.
    pub(super) fn read_input(&mut self, id: ConnectionId) {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let is_head = matches!(connection.phase, Phase::Head(_));
        let mut input = std::mem::take(&mut connection.input);
        let rest_bytes = self.read_on(id, &input).len();
        input.drain(..input.len() - rest_bytes);
        if is_head && input.is_empty() {
            self.desk.freed(input.capacity());
        }
        input.shrink_to(2 * rest_bytes);
        if let Some(connection) = self.clients.connections.get_mut(id)
            && !input.is_empty()
        {
            connection.input = input;
        }
    }

    /// Reads on in an origin's answer. Says whether the connection can be read on.
    pub(super) fn read_answer(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Asking(asking) = &mut connection.phase else {
            return false;
        };
        let fault = match asking.reader.read(input, &ANSWER_LIMITS) {
            Ok(None) => return false,
            Ok(Some((answer, length))) => {
                *input = &input[length..];
                match answer.status {
                    101 => Fault::of_status(answer.status),
                    100..=199 => {
                        asking.reader = AnswerReader::default();
                        return true;
                    }
                    200 => {
                        let pull = asking.pull;
                        self.take_from_origin(id, pull, answer);
                        return true;
                    }
                    status => Fault::of_status(status),
                }
            }
            Err(_) => Fault::Broken("its answer is malformed"),
        };
        self.clients.give_up_asking(id, fault, &mut self.desk);
        true
    }

    /// Reads on in what a peer tells. Says whether the connection can be read on.
    pub(super) fn read_telling(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Telling(telling) = &mut connection.phase else {
            return false;
        };
        match telling.read(input) {
            Told::More => return false,
            Told::On => return true,
            Told::All(rows) => self.lists.told(telling, rows, &self.desk),
            Told::Nothing => {}
        }
        self.clients.close(id, &mut self.desk);
        false
    }

    /// Moves a connection on by what it sent, and gives back what cannot be read yet, or not at one
    /// go.
    pub(super) fn read_on<'a>(&mut self, id: ConnectionId, mut input: &'a [u8]) -> &'a [u8] {
        let now = self.desk.now;
        let mut heads = 0;
        loop {
            let Some(connection) = self.clients.connections.get_mut(id) else {
                return &[];
            };
            let is_head = matches!(connection.phase, Phase::Head(_) | Phase::Asking(_));
            if is_head && heads == HEADS_AT_ONCE_MAX && !input.is_empty() {
                self.clients.wait_ahead(id);
                return input;
            }
            if connection.moves_on_by_sending() {
                connection.progress = now;
            }
            let goes_on = match &mut connection.phase {
                Phase::Introduction => self.read_introduction(id, &mut input),
                Phase::Head(_) if connection.output.is_full() => false,
                Phase::Head(_) => self.read_head(id, &mut input),
                Phase::Payload(_) => self.read_payload(id, &mut input),
                Phase::Source(_) => self.read_media(id, &mut input),
                Phase::Asking(_) => self.read_answer(id, &mut input),
                Phase::Telling(_) => self.read_telling(id, &mut input),
                Phase::Viewer(_)
                | Phase::Waiting(_)
                | Phase::Listing(_)
                | Phase::Awaiting(_)
                | Phase::Recording => false,
                Phase::Lingering(lingering) => {
                    lingering.bytes_left = lingering.bytes_left.saturating_sub(input.len());
                    if lingering.bytes_left == 0 && lingering.is_shut {
                        self.clients.close(id, &mut self.desk);
                    }
                    return &[];
                }
            };
            if !goes_on {
                return input;
            }
            if is_head {
                heads += 1;
                self.clients.reading.count(HEAD_COST);
            } else {
                self.clients.reading.count(PIECE_COST);
            }
        }
    }
}
