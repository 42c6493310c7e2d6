//! What list-streams says of a stream.

use std::net::SocketAddr;

use serde::Serialize;

use super::{Cuts, Feed, Live};
use crate::gate::{Digest, SessionId};
use crate::moment::Moment;
use crate::post::ClientFigures;
use crate::relay::viewer_id::StreamId;
use crate::rtp::Disorder;
use crate::stream::{Figures, Told};

/// A row of list-streams.
#[derive(Serialize)]
pub struct Row<'a> {
    id: StreamId,
    sessionid: &'a SessionId,
    /// As the log names it.
    session: Digest,
    /// None: it is gone, and the stream drains.
    source: Option<RowSource>,
    held: bool,
    started_at: u64,
    format: Option<&'static str>,
    /// Places in its buffer at which decoding can begin, and why there are none.
    joins: usize,
    no_joins: Option<&'static str>,
    content_type: Option<&'a str>,
    bitrate: u64,
    bytes_received: u64,
    bytes_sent: u64,
    viewers: usize,
    udp_clients: usize,
    /// What each of these has got.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    udp: Vec<RowClient>,
    skips: u64,
    cuts: Cuts,
    rtp: Option<&'static str>,
    /// What it takes of the server's memory.
    held_bytes: usize,
}

#[derive(Serialize)]
struct RowClient {
    address: SocketAddr,
    #[serde(flatten)]
    figures: ClientFigures,
}

#[derive(Serialize)]
struct RowSource {
    protocol: &'static str,
    address: String,
    /// Of RTP that is put in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Disorder>,
}

impl Row<'_> {
    /// Whether it is this session's.
    pub fn is_of(&self, session: &SessionId) -> bool {
        self.sessionid == session
    }
}

impl Live {
    /// By what callers of the API know it.
    pub(super) fn id(&self, run: u32) -> StreamId {
        StreamId {
            run,
            serial: self.serial,
        }
    }

    fn row_source(&self) -> RowSource {
        let input = self.input.as_ref();
        RowSource {
            protocol: match (input, &self.bare) {
                (Some(_), _) => "rtp-udp",
                (None, Some(_)) => "udp",
                (None, None) => "http",
            },
            address: self.source_address.to_string(),
            packets: input
                .filter(|input| input.is_transport())
                .map(|input| input.disorder()),
        }
    }

    /// What list-streams says of it.
    pub fn row(&self, run: u32, now: Moment) -> Row<'_> {
        let Figures {
            bytes_received,
            bytes_sent,
            skips,
        } = self.stream.figures();
        Row {
            id: self.id(run),
            sessionid: &self.session,
            session: self.session.digest(),
            source: (self.source != Feed::Gone).then(|| self.row_source()),
            held: self.has_waiting_viewers(),
            started_at: self.started_unix_seconds,
            format: match self.stream.told() {
                Told::Known(format) => Some(format.name()),
                Told::Undecided | Told::Unknown => None,
            },
            joins: self.stream.joins(),
            no_joins: self.stream.no_joins_reason(),
            content_type: self.stream.media_type(),
            bitrate: self.stream.bit_rate(now),
            bytes_received,
            bytes_sent: bytes_sent + self.rtp_out.post.bytes_sent(),
            viewers: self.stream.viewer_count(),
            udp_clients: self.rtp_out.post.client_count(),
            udp: self
                .rtp_out
                .post
                .figures()
                .map(|(client, figures)| RowClient {
                    address: client.address,
                    figures,
                })
                .collect(),
            skips,
            cuts: self.cuts,
            rtp: self.rtp_fault(),
            held_bytes: self.held_bytes(),
        }
    }
}
