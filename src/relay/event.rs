//! What one part of the core reports to the others.
//!
//! A part never calls another one. It puts an [`Event`] into the queue of the
//! [`super::context::Context`]. `Relay::dispatch_events` empties that queue at the end of every
//! input, when no part is in the middle of a change.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use super::api::Rows;
use super::cut_reason::CutReason;
use super::origin_error::OriginError;
use super::{ConnectionId, JobId, PullId, StreamId};
use crate::gate::{Digest, SessionId, Tuple};
use crate::http::{Refusal, Reply, Status};
use crate::stream::{End, ViewerId};
use crate::time::UnixTime;

/// Something that happened in one part and concerns another.
#[derive(Debug)]
pub(super) enum Event {
    // ---- Connections
    /// Closes a connection. A part has no use for it any more.
    Close(ConnectionId),
    /// A stream has lost its source, which was this connection.
    SourceLost {
        stream: StreamId,
        id: ConnectionId,
        reason: &'static str,
    },
    /// A viewer has stopped watching. `key`: digest of the session id that admitted it.
    ViewerClosed {
        stream: StreamId,
        viewer: ViewerId<ConnectionId>,
        key: Option<Digest>,
        address: SocketAddr,
    },
    /// A client no longer waits for this session, or asks for its playlist. It may have been the
    /// last one.
    SessionLeft(SessionId),
    /// The connection to an origin closed before a stream came.
    OriginClosed {
        pull: PullId,
        id: ConnectionId,
        error: OriginError,
    },
    /// A peer has sent its rows, each with a comma before it.
    PeerAnswered {
        list: JobId,
        peer: usize,
        rows: VecDeque<Vec<u8>>,
    },
    /// The connection to a peer closed.
    PeerClosed { list: JobId, peer: usize },
    /// The client of a pending call closed its connection.
    CallerClosed(JobId),
    /// The job of a pending call has taken too long.
    CallTimedOut(JobId),

    // ---- Streams
    /// Disconnects a viewer that cannot go on with its stream.
    CutViewer(ConnectionId, CutReason),
    /// Disconnects a source for this reason. Its stream has ended.
    DismissSource(ConnectionId, &'static str),
    /// Reads a source again that had to wait for its bit rate.
    ResumeSource(ConnectionId),
    /// The playlist of this stream of a session is longer, or the stream has ended. The stream may have
    /// been removed since.
    PlaylistGrew(StreamId, SessionId),
    /// The format of this stream is known.
    FormatKnown(StreamId),
    /// The UDP clients of this stream have to be determined anew.
    UdpClientsChanged(StreamId),
    /// This remuxed stream has read everything that its original had when it began.
    RemuxCaughtUp(StreamId),
    /// This remuxed stream cannot go on.
    RemuxFailed { id: StreamId, why: String },
    /// A stream has lost its source, which sent RTP from this address.
    RtpSourceLeft { address: SocketAddr, id: StreamId },
    /// A fetched stream has ended, or has lost its source and is held.
    PullEnded {
        pull: PullId,
        session: SessionId,
        end: End,
        has_viewers: bool,
    },

    // ---- Pulls
    /// Connects to the origin that this pull is to ask.
    CallOrigin(PullId),
    /// Every origin was asked for the session of this pull, and none has it.
    OriginsExhausted(PullId),
    /// Ends a stream if it still belongs to this pull.
    EndPulled { stream: StreamId, pull: PullId },

    // ---- Tokens
    /// The tokens of this session have changed.
    TokensChanged(SessionId),
    /// These tokens were removed.
    TokensRemoved(Vec<Rc<Tuple>>),
    /// A session id's http token has these terms now. They hold for clients that it admitted to
    /// `session` before.
    TermsChanged {
        credential: SessionId,
        /// The session that the token opened when its terms changed. The token may be revoked since.
        session: SessionId,
        /// When connections must end. `None`: they may stay.
        ends: Option<UnixTime>,
        /// Highest bit rate of the source, in bits per second. `None`: without a limit.
        bits_per_second_max: Option<u64>,
    },
    /// Ends the stream of this session.
    EndSession(SessionId),
    /// Disconnects every connection that was admitted by this key.
    DisconnectKey(SessionId),
    /// Answers a call whose change of the token table is on disk, or was refused.
    Answer {
        id: ConnectionId,
        reply: Reply,
        answer: Result<(Status, Vec<u8>), Refusal>,
    },

    // ---- Lists
    /// Connects to a peer for its part of a list.
    CallPeer { list: JobId, peer: usize },
    /// Answers a call for a list, now that each peer has answered or failed.
    ListReady {
        client: ConnectionId,
        reply: Reply,
        rows: Rows,
        /// The list whose rows of peers are still to be written, if there are any.
        list: Option<JobId>,
        /// Names of the peers that did not answer, with commas between them.
        missing: String,
    },
}
