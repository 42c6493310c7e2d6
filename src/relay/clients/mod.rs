//! The clients: their connections, the order in which they are read and written, and the number for
//! each host.
//!
//! Only this part knows the phase of a connection. It turns received bytes into [`Step`]s, and into
//! [`ClientEvent`]s for the other parts.

mod access_log;
mod address;
mod admissions;
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
use crate::relay::streams::Viewing;
use admissions::Admissions;
pub(super) use admissions::Disconnected;
pub use connection::Connection;
use connection::Lingering;
use event_reader::EventReader;
pub(super) use event_reader::{Due as DueToReader, Snapshot};
#[cfg(feature = "handover")]
pub(super) use handover::{ClientsState, Concern, Stand};
use hosts::Hosts;
use list_response::ListResponse;
pub(super) use list_response::PIECE_ROWS;
use origin_request::OriginRequest;
pub use reading::{AHEAD_COST_MAX, DATAGRAMS_COST_MAX, END_COST, READ_COST_MAX};
pub(super) use reading::{Appetite, HEAD_COST, LOOK_COST, Step};
use request::Payload;
use source::Source;
use wait_queue::Waiting;
pub(super) use wait_queue::{WaitFor, WaitOutcome};
pub(super) use writing::Due;

use crate::gate::{Digest, SessionId};
use crate::http::{Answer, Head, Reply};
use crate::relay::JobId;
use crate::relay::admission::Caller;
use crate::relay::api::Call;
use crate::relay::context::Context;
use crate::relay::cut_reason::CutReason;
use crate::relay::event::Event;
use crate::relay::lists::{PeerRequest, Share};
use crate::relay::origin_error::OriginError;
use crate::relay::view::View;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::rtmp::{Publisher, Request};
use crate::slots::Slots;
use reading::Reading;
use wait_queue::WaitQueue;

pub(super) struct Clients {
    connections: Slots<Connection>,
    /// Number of connections of each host.
    hosts: Hosts,
    /// Connections of proxies beyond the limit, the oldest first. Some are closed already.
    unplaced: VecDeque<ConnectionId>,
    reading: Reading,
    /// Connections with output of their own.
    queue: VecDeque<ConnectionId>,
    /// Connections with a list to write.
    listing: VecDeque<ConnectionId>,
    writes_since_piece: usize,
    /// Buffer for joining small pieces of a source's body. Empty between two inputs.
    pieces: Vec<u8>,
    waiting: WaitQueue,
    /// Clients that wait for a playlist to have a segment.
    blocked: WaitQueue,
    inside: Admissions,
    /// Readers of `/api/events`.
    readers: BTreeSet<ConnectionId>,
    /// Whether the log says that something else than RTMP came to the port for RTMP.
    has_told_of_others: bool,
}

/// Phase of a connection.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Phase {
    /// Reads a PROXY protocol header.
    ProxyHeader,
    /// Between two requests, or within the head of one.
    Head(#[cfg_attr(feature = "handover", serde(skip))] HeadReader),
    /// Reads and ignores the payload of a call.
    Payload(Payload),
    /// A publisher by RTMP that is not admitted yet. It stays with its process.
    #[cfg_attr(feature = "handover", serde(skip))]
    Rtmp(Box<Publisher>),
    /// The source of a stream.
    Source(Source),
    /// A viewer of a stream.
    Viewer(Viewing),
    /// A client that waits for its session, or for its playlist.
    Waiting(Waiting),
    /// Writes a list piece by piece.
    ListResponse(ListResponse),
    /// It reads `/api/events`.
    EventReader(EventReader),
    /// A call that waits for names, or for the lists of peers.
    PendingCall(JobId),
    /// A connection to an origin, which is asked for a stream.
    OriginRequest(OriginRequest),
    /// A connection to a peer, which is asked for its part of a list.
    #[cfg_attr(feature = "handover", serde(skip))]
    PeerRequest(PeerRequest),
    /// A call whose change is being written to the disk. The change stays if the client leaves.
    #[cfg_attr(feature = "handover", serde(skip))]
    AwaitingJournal,
    /// Writes the last answer and drains input, so that no reset destroys the answer.
    Lingering(Lingering),
}

impl Phase {
    /// Returns the job that its answer, or the rest of it, depends on.
    fn job_id(&self) -> Option<JobId> {
        match self {
            Phase::PendingCall(job_id) => Some(*job_id),
            Phase::ListResponse(listing) => listing.collecting(),
            Phase::ProxyHeader
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Rtmp(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Waiting(_)
            | Phase::EventReader(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => None,
        }
    }

    /// Returns the event for other parts when the connection closes in this phase.
    fn closed(&self, id: ConnectionId, key: Option<Digest>, address: SocketAddr) -> Option<Event> {
        match self {
            Phase::Source(source) => Some(Event::SourceClosed {
                stream: source.stream,
                id,
            }),
            Phase::Viewer(viewing) => {
                let (stream, viewer) = viewing.place();
                Some(Event::ViewerClosed {
                    stream,
                    viewer,
                    key,
                    address,
                })
            }
            Phase::Waiting(waiting) => Some(Event::WaiterClosed(waiting.session.clone())),
            Phase::OriginRequest(asking) => Some(Event::OriginClosed {
                pull: asking.pull,
                id,
                error: asking.fault,
            }),
            Phase::PeerRequest(telling) => {
                let (list, peer) = telling.share();
                Some(Event::PeerClosed { list, peer })
            }
            Phase::PendingCall(_) | Phase::ListResponse(_) => {
                self.job_id().map(Event::CallerClosed)
            }
            Phase::ProxyHeader
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Rtmp(_)
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
    /// What a client by RTMP asks for.
    Rtmp(Request),
    /// A call whose payload has arrived.
    Called { call: Call, reply: Reply },
    /// A source is complete. `is_sure`: its body said so; otherwise its connection ended.
    Complete { received: Received, is_sure: bool },
    /// A source has broken off.
    SourceLost {
        stream: StreamId,
        reason: &'static str,
    },
    /// An origin has answered with a stream.
    Found {
        pull: PullId,
        peer: SocketAddr,
        answer: Answer,
    },
    /// A peer has sent its rows, each with a comma before it.
    Told(Share, VecDeque<Vec<u8>>),
    /// A viewer has to be disconnected.
    Cut(CutReason),
    /// A viewer has waited: too long, or until its outcome is known.
    Waited {
        session: SessionId,
        /// The part of the session that it asked for.
        view: View,
        reply: Reply,
        /// It has waited in vain until its deadline.
        is_late: bool,
        /// Why no origin has the session, if that is the reason.
        fault: Option<OriginError>,
    },
    /// The job of a call has taken too long.
    TimedOut(JobId),
}

/// Totals of a source.
#[derive(Clone, Copy)]
pub(super) struct Received {
    /// Stream of the source.
    pub stream: StreamId,
    /// Received bytes of media.
    pub bytes: u64,
    /// Reply to the source. `None` for an origin.
    pub reply: Option<Reply>,
}

impl Clients {
    /// Makes an empty part.
    pub fn new() -> Clients {
        Clients {
            connections: Slots::default(),
            hosts: Hosts::default(),
            unplaced: VecDeque::new(),
            reading: Reading::default(),
            queue: VecDeque::new(),
            listing: VecDeque::new(),
            writes_since_piece: 1,
            pieces: Vec::new(),
            waiting: WaitQueue::default(),
            blocked: WaitQueue::default(),
            inside: Admissions::default(),
            readers: BTreeSet::new(),
            has_told_of_others: false,
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

    /// Returns the clients that wait for a session to begin.
    pub fn waiting(&self) -> &WaitQueue {
        &self.waiting
    }

    /// Returns the clients that wait for a playlist to have a segment.
    pub fn blocked(&self) -> &WaitQueue {
        &self.blocked
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
            Phase::Source(source) => return Some(self.end_source(id, source.received(), ctx)),
            Phase::Head(_) if connection.output.is_empty() => self.close(id, ctx),
            Phase::ProxyHeader
            | Phase::Payload(_)
            | Phase::Rtmp(_)
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

    /// Returns the bytes that its allocations take: 2 KiB for each connection, with its input and
    /// output.
    pub fn held_bytes(&self) -> usize {
        let each = self.connections.iter().map(|(_, each)| each.held_bytes());
        let queues = [&self.unplaced, &self.queue, &self.listing];
        let queued: usize = queues.iter().map(|queue| queue.capacity()).sum();
        self.connections.held_bytes()
            + each.sum::<usize>()
            + queued * size_of::<ConnectionId>()
            + self.hosts.held_bytes()
            + self.reading.held_bytes()
            + self.waiting.held_bytes()
            + self.blocked.held_bytes()
            + self.inside.held_bytes()
            + self.readers.len() * 2 * size_of::<ConnectionId>()
            + self.pieces.capacity()
    }
}

/// What other parts know, for checking the phases.
pub(super) struct Known<'a> {
    /// Whether this stream exists.
    pub has_stream: &'a dyn Fn(StreamId) -> bool,
    /// Whether this session runs.
    pub runs: &'a dyn Fn(&SessionId) -> bool,
    /// Whether this list is waited for or written.
    pub has_collecting: &'a dyn Fn(JobId) -> bool,
}

impl Known<'_> {
    fn check(&self, id: ConnectionId, connection: &Connection) {
        match &connection.phase {
            Phase::Viewer(viewing) => {
                let (stream, _) = viewing.place();
                assert!(
                    (self.has_stream)(stream),
                    "a viewer outlives its stream: {id:?}"
                )
            }
            Phase::Source(source) => assert!(
                (self.has_stream)(source.stream),
                "a source outlives its stream: {id:?}"
            ),
            Phase::Waiting(waiting) if waiting.outcome != WaitOutcome::Open => {
                assert!(connection.is_ahead, "somebody is called in vain: {id:?}")
            }
            Phase::Waiting(waiting) => assert!(
                waiting.room == WaitFor::List || !(self.runs)(&waiting.session),
                "somebody waits for what runs: {id:?}"
            ),
            Phase::PeerRequest(telling) => assert!(
                (self.has_collecting)(telling.share().0),
                "a peer tells nobody: {id:?}"
            ),
            Phase::ProxyHeader
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Rtmp(_)
            | Phase::ListResponse(_)
            | Phase::EventReader(_)
            | Phase::PendingCall(_)
            | Phase::OriginRequest(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => {}
        }
    }
}

impl Clients {
    /// Checks what must hold. Returns the number of deadlines.
    pub fn check(&self, known: &Known<'_>, ctx: &Context) -> usize {
        let all = || self.connections.iter().map(|(_, connection)| connection);
        assert_eq!(
            self.hosts.count(),
            all().filter(|connection| connection.is_counted).count(),
            "connections by host are counted wrong"
        );
        let waits = |phase: &Phase| matches!(phase, Phase::Waiting(waiting) if waiting.outcome == WaitOutcome::Open);
        assert_eq!(
            all().filter(|connection| waits(&connection.phase)).count(),
            self.waiting.len() + self.blocked.len(),
            "somebody waits who is gone, or the other way round"
        );
        for (id, connection) in self.connections.iter() {
            known.check(id, connection);
            if let Some((deadline, _)) = connection.deadline(ctx) {
                let is_looked_after = connection.armed.is_armed_by(deadline.max(ctx.now()));
                assert!(
                    is_looked_after,
                    "nobody will look after {id:?} at {deadline:?}"
                );
            }
        }
        let follows = |connection: &&Connection| matches!(connection.phase, Phase::EventReader(_));
        assert_eq!(
            all().filter(follows).count(),
            self.readers.len(),
            "a reader is gone, or is not known"
        );
        let passes = self.connections.iter();
        self.inside
            .check(passes.filter_map(|(id, each)| Some((id, each.admission.as_ref()?))));
        all()
            .filter(|connection| connection.armed.is_armed())
            .count()
    }

    /// Returns whether a client waits for this job, or for the rest of its list.
    pub fn awaits(&self, id: ConnectionId, job_id: JobId) -> bool {
        let connection = self.connections.get(id);
        connection.is_some_and(|connection| connection.phase.job_id() == Some(job_id))
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
    use std::net::IpAddr;

    use super::*;
    use crate::hls::PlaylistPosition;
    use crate::relay::pass::{Admission, Role};
    use crate::relay::stage::Stage;
    use crate::time::Instant;

    /// What is known of a client's connection, which is there.
    pub(super) fn connection(stage: &Stage, id: ConnectionId) -> &Connection {
        let connections = &stage.relay.clients.connections;
        connections.get(id).expect("it is there")
    }

    fn session(number: usize) -> SessionId {
        SessionId::parse(format!("session {number}").as_bytes()).expect("a good sessionid")
    }

    fn admission(number: usize) -> Admission {
        Admission::new((session(number), session(0)), Role::Viewer, None)
    }

    fn id(number: usize) -> ConnectionId {
        ConnectionId::from_u64(number as u64)
    }

    /// All that can grow with what clients do, a thousand times.
    #[test]
    fn what_is_kept_of_clients_is_counted_in_bytes() {
        const TIMES: usize = 1_000;
        const ID: usize = size_of::<ConnectionId>();
        let key = size_of::<SessionId>();
        type Grow = fn(&mut Clients, usize);
        let cases: [(&str, Grow, usize); 9] = [
            (
                "connections",
                |clients, number| {
                    let peer = SocketAddr::from(([10, 0, 0, 1], number as u16));
                    let connection = Connection::new(peer, None, Instant::START);
                    clients.connections.insert(connection);
                },
                size_of::<Connection>(),
            ),
            (
                "what they have to read and to be told",
                |clients, number| {
                    let peer = SocketAddr::from(([10, 0, 0, 1], number as u16));
                    let mut connection = Connection::new(peer, None, Instant::START);
                    connection.output.push(&[7; 4_000]);
                    clients.connections.insert(connection);
                },
                4_000,
            ),
            (
                "unplaced",
                |clients, number| clients.unplaced.push_back(id(number)),
                ID,
            ),
            (
                "queue",
                |clients, number| clients.queue.push_back(id(number)),
                ID,
            ),
            (
                "listing",
                |clients, number| clients.listing.push_back(id(number)),
                ID,
            ),
            (
                "hosts",
                |clients, number| {
                    let host = [10, 0, (number / 256) as u8, number as u8];
                    clients.hosts.enter(IpAddr::from(host));
                },
                size_of::<(IpAddr, usize)>(),
            ),
            (
                "waiting",
                |clients, number| {
                    clients.waiting.enter(
                        (&session(number), PlaylistPosition::STREAM),
                        id(number),
                        None,
                    )
                },
                2 * key + ID,
            ),
            (
                "blocked",
                |clients, number| {
                    clients.blocked.enter(
                        (&session(number), PlaylistPosition::STREAM),
                        id(number),
                        None,
                    )
                },
                2 * key + ID,
            ),
            (
                "inside",
                |clients, number| clients.inside.enter(&admission(number), id(number)),
                2 * key + ID,
            ),
        ];
        for (what, grow, least) in cases {
            let mut clients = Clients::new();
            let before = clients.held_bytes();
            assert!(before < 1_024, "{before}");
            (0..TIMES).for_each(|number| grow(&mut clients, number));
            let held = clients.held_bytes();
            assert!(held >= TIMES * least, "{what}: {held}");
            let most = TIMES * (4 * least + 512);
            assert!(held <= most, "{what}: {held} of {most}");
        }
        let mut clients = Clients::new();
        clients.pieces.reserve_exact(20_000);
        assert!((20_000..24_000).contains(&clients.held_bytes()));
        let mut clients = Clients::new();
        clients.readers.extend((0..128).map(id));
        assert!((192 * ID..512 * ID).contains(&clients.held_bytes()));
        let mut clients = Clients::new();
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let ids: Vec<ConnectionId> = (0..TIMES)
            .map(|_| {
                clients
                    .connections
                    .insert(Connection::new(peer, None, Instant::START))
            })
            .collect();
        let before = clients.held_bytes();
        ids.into_iter().for_each(|id| clients.wait_ahead(id));
        let more = clients.held_bytes() - before;
        assert!((TIMES * ID..TIMES * 4 * ID).contains(&more), "{more}");
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
    fn who_waits_for_names_awaits_their_ticket() {
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
        assert_eq!(stage.relay.lists.held_bytes(), 0, "the call is forgotten");
    }
}
