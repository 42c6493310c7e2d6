//! The clients: their connections, the order in which they are read and written, and the number for
//! each host.
//!
//! Only this part knows the phase of a connection. It turns received bytes into [`Step`]s, and into
//! [`ClientEvent`]s for the other parts.

mod access_log;
mod address;
mod admissions;
mod check;
mod connection;
mod deadlines;
mod event_reader;
#[cfg(feature = "handover")]
mod handover;
mod hosts;
mod list_response;
mod origin_request;
mod output;
mod reading;
mod request;
mod rtmp;
mod source;
mod viewer_counts;
mod wait_queue;
mod writing;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use crate::http::HeadReader;
use crate::relay::streams::ViewerResponse;
use admissions::Admissions;
pub(super) use check::OtherParts;
pub use connection::Connection;
use connection::Lingering;
use event_reader::EventReader;
pub(super) use event_reader::Snapshot;
#[cfg(feature = "handover")]
pub(super) use handover::{Activity, ClientsState, Concern};
use hosts::Hosts;
pub(super) use list_response::{ListResponse, PIECE_ROWS};
use origin_request::OriginRequest;
pub use reading::{DATAGRAMS_COST_MAX, END_COST, PIPELINED_COST_MAX, READ_COST_MAX};
pub(super) use reading::{HEAD_COST, SCAN_COST, Step};
use request::Payload;
use source::Source;
pub(super) use wait_queue::{WaitFor, WaitOutcome, Waiting};

use crate::gate::Digest;
use crate::http::{Answer, Head, Refusal, Reply};
use crate::relay::JobId;
use crate::relay::admission::Caller;
use crate::relay::api::Call;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::lists::PeerRequest;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::slots::Slots;
use reading::Reading;
use wait_queue::WaitQueue;

#[derive(Default)]
pub(super) struct Clients {
    connections: Slots<Connection>,
    /// Number of connections of each host.
    hosts: Hosts,
    /// Connections of proxies beyond the limit, the oldest first. Some are closed already.
    unidentified: VecDeque<ConnectionId>,
    pub reading: Reading,
    /// Connections with output of their own.
    queue: VecDeque<ConnectionId>,
    /// Connections with a list to write.
    listing: VecDeque<ConnectionId>,
    writes_since_piece: usize,
    /// Buffer for joining small pieces of a source's body. Empty between two inputs.
    pieces: Vec<u8>,
    pub waiting: WaitQueue,
    admissions: Admissions,
    /// Readers of `/api/events`.
    readers: BTreeSet<ConnectionId>,
    /// Whether the log says that something else than RTMP came to the port for RTMP.
    has_logged_others: bool,
}

/// Phase of a connection. Rare ones are boxed, since each connection has space for the largest.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Phase {
    /// Reads a PROXY protocol header, or what a publisher by RTMP sends before it is admitted.
    Opening,
    /// Between two requests, or within the head of one.
    Head(#[cfg_attr(feature = "handover", serde(skip))] HeadReader),
    /// Reads and ignores the payload of a call.
    Payload(Payload),
    /// The source of a stream.
    Source(Source),
    /// A viewer of a stream.
    Viewer(ViewerResponse),
    /// A client that waits for its session, or for its playlist.
    Waiting(Box<Waiting>),
    /// Writes a list piece by piece.
    ListResponse(Box<ListResponse>),
    /// It reads `/api/events`.
    EventReader(EventReader),
    /// A call that waits for names, or for the lists of peers.
    PendingCall(JobId),
    /// A connection to an origin, which is asked for a stream.
    OriginRequest(OriginRequest),
    /// A connection to a peer, which is asked for its part of a list.
    #[cfg_attr(feature = "handover", serde(skip))]
    PeerRequest(Box<PeerRequest>),
    /// A call whose change is being written to the disk. The change stays if the client leaves.
    #[cfg_attr(feature = "handover", serde(skip))]
    AwaitingJournal,
    /// Writes the last answer and drains input, so that no reset destroys the answer.
    Lingering(Lingering),
}

impl Default for Phase {
    fn default() -> Phase {
        Phase::Head(HeadReader::default())
    }
}

impl Phase {
    /// Returns the job that its answer, or the rest of it, depends on.
    fn job_id(&self) -> Option<JobId> {
        match self {
            Phase::PendingCall(job_id) => Some(*job_id),
            Phase::ListResponse(list) => list.collecting,
            _ => None,
        }
    }

    /// Returns the event for other parts when the connection closes in this phase.
    fn closed(&self, id: ConnectionId, key: Option<Digest>, address: SocketAddr) -> Option<Event> {
        match self {
            Phase::Source(source) => Some(Event::SourceLost {
                stream: source.stream,
                id,
                reason: "the connection broke",
            }),
            Phase::Viewer(response) => {
                let (stream, viewer) = response.key();
                Some(Event::ViewerClosed {
                    stream,
                    viewer,
                    key,
                    address,
                })
            }
            Phase::Waiting(waiting) => Some(Event::SessionLeft(waiting.session.clone())),
            Phase::OriginRequest(request) => Some(Event::OriginClosed {
                pull: request.pull,
                id,
                error: request.fault,
            }),
            Phase::PeerRequest(request) => {
                let (list, peer) = request.share();
                Some(Event::PeerClosed { list, peer })
            }
            Phase::PendingCall(_) | Phase::ListResponse(_) => {
                self.job_id().map(Event::CallerClosed)
            }
            Phase::Opening
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::EventReader(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => None,
        }
    }
}

/// Event of a client, for the core to handle at once.
pub(super) enum ClientEvent {
    /// A request with its reply.
    Request {
        head: Box<Head>,
        caller: Caller,
        reply: Reply,
    },
    /// A client by RTMP asks to publish a stream of this name; or why that is no name.
    Rtmp {
        name: Result<Vec<u8>, &'static str>,
        caller: Caller,
    },
    /// A call whose payload has arrived.
    Call { call: Call, reply: Reply },
    /// The source of this stream is complete. `is_sure`: its body said so; otherwise its connection
    /// ended.
    Complete { stream: StreamId, is_sure: bool },
    /// An origin has answered with a stream.
    OriginAnswered {
        pull: PullId,
        peer: SocketAddr,
        answer: Answer,
    },
}

impl Clients {
    /// Makes an empty part.
    pub fn new() -> Clients {
        Clients {
            writes_since_piece: 1,
            ..Clients::default()
        }
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether this connection is open.
    pub fn has(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some()
    }

    /// Returns whether the server may open another connection.
    pub fn has_room(&self, ctx: &Context) -> bool {
        self.connections.len() < ctx.settings().limits.connections_max
    }

    /// Begins the shutdown: accepts no input. Returns the streams that have lost their sources.
    pub fn shut_down(&mut self, ctx: &mut Context) -> Vec<StreamId> {
        let ids: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        let ended = ids.into_iter().filter_map(|id| self.end(id, ctx));
        ended.collect()
    }

    fn end(&mut self, id: ConnectionId, ctx: &mut Context) -> Option<StreamId> {
        let connection = self.connections.get(id)?;
        match &connection.phase {
            Phase::Source(source) => {
                let stream = source.stream;
                let refusal = Refusal::busy("the server is shutting down");
                self.dismiss_source(id, &refusal, ctx);
                return Some(stream);
            }
            Phase::Head(_) if connection.output.is_empty() => self.close(id, ctx),
            Phase::Opening
            | Phase::Payload(_)
            | Phase::Waiting(_)
            | Phase::EventReader(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_) => self.close(id, ctx),
            Phase::Head(_)
            | Phase::Viewer(_)
            | Phase::ListResponse(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => {}
        }
        None
    }

    /// Returns the phase of a connection.
    fn phase(&self, id: ConnectionId) -> Option<&Phase> {
        Some(&self.connections.get(id)?.phase)
    }

    /// Returns the phase of a connection, to change it.
    fn phase_mut(&mut self, id: ConnectionId) -> Option<&mut Phase> {
        Some(&mut self.connections.get_mut(id)?.phase)
    }

    /// Returns whether a client waits for this job, or for the rest of its list.
    pub fn awaits(&self, id: ConnectionId, job_id: JobId) -> bool {
        let phase = self.phase(id);
        phase.is_some_and(|phase| phase.job_id() == Some(job_id))
    }

    /// Returns the number of connections without a host: this server's own, and those of unknown
    /// clients.
    #[cfg(test)]
    pub fn uncounted(&self) -> usize {
        let each = self.connections.iter();
        each.filter(|(_, each)| !each.is_counted).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;

    /// What is known of a client's connection, which is there.
    pub(super) fn connection(stage: &Stage, id: ConnectionId) -> &Connection {
        let connections = &stage.relay.clients.connections;
        connections.get(id).expect("it is there")
    }

    #[test]
    fn who_is_gone_is_known_to_be() {
        let mut stage = Stage::new(&["--connections=2"]);
        let (first, second) = (stage.client(""), stage.client(""));
        let has = |stage: &Stage| [first, second].map(|id| stage.relay.clients.has(id));
        assert_eq!(has(&stage), [true, true]);
        assert!(!stage.relay.clients.has_room(&stage.relay.ctx));
        stage.lose(first);
        assert_eq!(has(&stage), [false, true]);
        assert!(stage.relay.clients.has_room(&stage.relay.ctx));
        assert_eq!(stage.relay.clients.len(), 1);
        // Another has its place.
        let third = stage.client("");
        assert_eq!(has(&stage), [false, true]);
        assert!(stage.relay.clients.has(third));
    }

    /// Its answer depends on that, and on nothing else.
    #[test]
    fn a_client_that_waits_for_names_awaits_their_job() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        let call = "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients=a.example:5004";
        let other = stage.client("");
        let waits = stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let (job_id, _) = stage.jobs[0];
        for (id, job_id, awaits) in [
            (waits, job_id, true),
            (waits, JobId(job_id.0 + 1), false),
            (other, job_id, false),
        ] {
            assert_eq!(stage.relay.clients.awaits(id, job_id), awaits);
        }
        stage.lose(waits);
        assert!(!stage.relay.clients.awaits(waits, job_id));
        assert!(stage.relay.lists.is_empty(), "the call is forgotten");
    }
}
