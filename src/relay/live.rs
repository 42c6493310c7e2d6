//! A stream that is being relayed: whose it is, where its media comes from, and the stream itself.

use std::net::SocketAddr;

use serde::Serialize;

use super::outlet::Outlet;
use super::timers::Armed;
use super::udp::RtpInput;
use super::{ConnectionId, PullId};
use crate::format::Format;
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::moment::Moment;
use crate::rtp::PAYLOAD_TYPE_MPEG_TS;
use crate::stream::{Figures, Stream, Told};

/// A stream with its source. It lasts until both the source and the last outlet are gone.
pub struct Live {
    pub(super) session: SessionId,
    /// Its place in the order in which streams began.
    pub(super) serial: u64,
    pub(super) source: Origin,
    pub(super) source_address: SocketAddr,
    pub(super) started_unix_seconds: u64,
    pub(super) stream: Stream<ConnectionId>,
    /// The pull that fetches it, if its source is an origin.
    pub(super) pull: Option<PullId>,
    /// `Via` of what goes out, if its source is an origin.
    pub(super) via: Option<String>,
    /// Makes one stream of sources that follow each other, where streams are held.
    pub(super) splicer: Option<Box<Splicer>>,
    /// The media type that a source gave which came for a held stream.
    pub(super) source_type: Option<String>,
    /// What is known of its source, or of the last it had, if that is RTP.
    pub(super) input: Option<Box<RtpInput>>,
    /// Viewers that were cut.
    pub(super) cuts: Cuts,
    /// Its UDP clients and what is on its way to them.
    pub(super) outlet: Outlet,
    /// It stands in the queue of streams that have something for their viewers.
    pub(super) is_flowing: bool,
    /// Its source is not read until its viewers have caught up.
    pub(super) is_paused: bool,
    pub(super) armed: Armed,
}

/// Where a stream's media comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The body of this client's request, or of this origin's answer.
    Http(ConnectionId),
    /// The datagrams of this address.
    Rtp(SocketAddr),
    /// Nowhere for now: another source may come until then.
    Awaited { until: Moment },
    /// Nowhere any more.
    Gone,
}

/// Why a viewer is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It took nothing for too long.
    Stalled,
    /// It fell out of the buffer within a unit that could not be kept for it.
    LostUnit,
}

impl Cut {
    pub fn name(self) -> &'static str {
        match self {
            Cut::Stalled => "stalled",
            Cut::LostUnit => "lost_unit",
        }
    }
}

/// How many viewers were cut, by why.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Cuts {
    stalled: u64,
    lost_unit: u64,
}

impl Cuts {
    pub fn count(&mut self, cut: Cut) {
        match cut {
            Cut::Stalled => self.stalled += 1,
            Cut::LostUnit => self.lost_unit += 1,
        }
    }
}

/// A row of list-streams.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    sessionid: &'a SessionId,
    source: RowSource,
    held: bool,
    started_at: u64,
    format: Option<&'static str>,
    content_type: Option<&'a str>,
    bitrate: u64,
    bytes_received: u64,
    bytes_sent: u64,
    viewers: usize,
    udp_clients: usize,
    skips: u64,
    cuts: Cuts,
    rtp: Option<&'static str>,
}

#[derive(Serialize)]
struct RowSource {
    protocol: &'static str,
    address: String,
}

impl Live {
    /// Whether it waits for a source.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.source, Origin::Awaited { .. })
    }

    /// Why it cannot go out by RTP, if it cannot.
    pub(super) fn rtp_fault(&self) -> Option<&'static str> {
        match self.stream.told() {
            _ if self.input.is_some() => None,
            Told::Undecided | Told::Known(Format::MpegTs) => None,
            Told::Known(_) | Told::Unknown => Some("not MPEG-TS"),
        }
    }

    /// Why it cannot go out over HTTP, if it cannot.
    pub(super) fn http_fault(&self) -> Option<String> {
        let payload_type = self.input.as_ref()?.payload_type;
        (payload_type != PAYLOAD_TYPE_MPEG_TS).then(|| {
            format!("the session's source sends RTP payload type {payload_type}; only type {PAYLOAD_TYPE_MPEG_TS} (MPEG-TS) goes out over HTTP")
        })
    }

    /// What list-streams says of it.
    pub(super) fn row(&self, now: Moment) -> Row<'_> {
        let Figures {
            bytes_received,
            bytes_sent,
            skips,
        } = self.stream.figures();
        Row {
            sessionid: &self.session,
            source: RowSource {
                protocol: if self.input.is_some() {
                    "rtp-udp"
                } else {
                    "http"
                },
                address: self.source_address.to_string(),
            },
            held: self.is_held(),
            started_at: self.started_unix_seconds,
            format: match self.stream.told() {
                Told::Known(format) => Some(format.name()),
                Told::Undecided | Told::Unknown => None,
            },
            content_type: self.stream.media_type(),
            bitrate: self.stream.bit_rate(now),
            bytes_received,
            bytes_sent: bytes_sent + self.outlet.bytes_sent,
            viewers: self.stream.viewer_count(),
            udp_clients: self.outlet.clients.len(),
            skips,
            cuts: self.cuts,
            rtp: self.rtp_fault(),
        }
    }
}
