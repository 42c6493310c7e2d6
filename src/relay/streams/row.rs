//! The rows of list-streams.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use serde::{Serialize, Serializer};

use super::history::Sample;
use super::remux_target::STEP_BYTES;
use super::stream::FoundTracks;
use super::{Cuts, Stream, StreamSource, Streams};
use crate::clean_text::{Agent, STATION_TEXTS, StationText, Title};
use crate::gate::{Digest, SessionId};
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::metrics::OfStream;
use crate::relay::quota::Quota;
use crate::relay::viewer_id::{Mark, PublicStreamId};
use crate::remux;
use crate::rtp::Disorder;
use crate::stream::{Detected, Figures};
use crate::udp_out::ClientFigures;

/// A search of as many bytes costs about as much as the row.
const FEW_BYTES: u64 = 4096;

/// A row of list-streams. It covers the streams that are remuxed from the stream.
#[derive(Serialize)]
pub struct Row<'a> {
    /// The stream's public id.
    pub id: PublicStreamId,
    pub sessionid: &'a SessionId,
    /// The session's digest, as in the log.
    session: Digest,
    /// `None`: the source is gone, and the stream drains.
    source: Option<RowSource<'a>>,
    pub held: bool,
    pub started_at: u64,
    format: Option<&'static str>,
    /// Join points in the buffer. `no_joins` says why there are none.
    joins: usize,
    no_joins: Option<&'static str>,
    pub content_type: Option<&'a str>,
    tracks: Tracks<'a>,
    /// Mean distance of the buffered join points.
    key_frame_seconds: Option<f64>,
    /// The title that holds.
    pub title: &'a Title,
    /// Name of its station.
    name: &'a StationText,
    /// What the source says about its station, its name among it.
    #[serde(skip)]
    #[cfg_attr(not(feature = "icecast"), allow(dead_code))]
    pub station: &'a [StationText; STATION_TEXTS],
    bitrate: u64,
    bytes_received: u64,
    bytes_sent: u64,
    pub viewers: usize,
    /// Maximal number of viewers at a time since the stream began.
    pub viewers_peak: usize,
    udp_clients: usize,
    /// Figures of each UDP client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    udp: Vec<RowClient>,
    skips: u64,
    cuts: Cuts,
    /// Containers into which the stream is remuxed.
    remuxed: Vec<&'static str>,
    rtp: Option<&'a str>,
    /// Memory that its buffer takes.
    #[serde(rename = "held_bytes")]
    memory_bytes: usize,
    /// The stream's history, where the list shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<&'a VecDeque<Sample>>,
}

/// The tracks of a stream. They are looked for only when a row is written.
struct Tracks<'a>(&'a Stream);

impl Serialize for Tracks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tracks(stream) = self;
        if stream.is_to_be_searched() {
            stream.find_tracks();
        }
        stream.tracks.borrow().rows.serialize(serializer)
    }
}

#[derive(Serialize)]
struct RowClient {
    address: SocketAddr,
    #[serde(flatten)]
    figures: ClientFigures,
}

#[derive(Serialize)]
struct RowSource<'a> {
    protocol: &'static str,
    address: String,
    /// `User-Agent` of the source's request.
    user_agent: &'a Agent,
    /// Lost and late packets, of RTP that carries MPEG-TS.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Disorder>,
    /// Datagrams beyond the token's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    too_fast: Option<u64>,
}

impl<'a> Row<'a> {
    /// Returns whether many bytes of the stream are read when the row is written.
    pub fn is_costly(&self) -> bool {
        let Tracks(stream) = self.tracks;
        stream.is_to_be_searched() && stream.buffer.newest() > FEW_BYTES
    }

    /// Adds the stream's history.
    pub fn with_history(self) -> Row<'a> {
        let Tracks(stream) = self.tracks;
        Row {
            history: Some(&stream.history.samples),
            ..self
        }
    }

    /// Returns the session and the figures for the metrics, while the stream has a source or waits
    /// for one.
    pub fn figures(&self) -> Option<(&'a SessionId, OfStream)> {
        self.source.as_ref()?;
        let figures = Figures {
            bytes_received: self.bytes_received,
            bytes_sent: self.bytes_sent,
            skips: self.skips,
        };
        let of_stream = OfStream {
            viewers: self.viewers as u64,
            udp_clients: self.udp_clients as u64,
            bitrate: self.bitrate,
            figures,
        };
        Some((self.sessionid, of_stream))
    }

    /// Adds the figures of a stream that is remuxed from this one.
    fn add(&mut self, remuxed: &Stream) {
        let figures = remuxed.figures();
        self.bytes_sent = self.bytes_sent.saturating_add(figures.bytes_sent);
        self.viewers += remuxed.buffer.viewer_count();
        self.udp_clients += remuxed.rtp_out.udp_out.client_count();
        self.udp.extend(remuxed.row_clients());
        self.skips = self.skips.saturating_add(figures.skips);
        self.cuts.add(remuxed.cuts);
        let target = remuxed.remuxed.as_ref().map(|remuxed| remuxed.target);
        self.remuxed
            .extend(target.map(|target| target.format().name()));
        self.memory_bytes += remuxed.buffer.memory_bytes();
    }
}

impl Streams {
    /// Returns the row of a stream.
    pub fn row_of<'a>(&'a self, id: StreamId, ctx: &Context) -> Option<Row<'a>> {
        let stream = self.streams.get(id)?;
        Some(self.row_with_remuxed(stream, ctx))
    }

    /// Returns the rows of list-streams after this mark, each with its own mark.
    pub fn rows<'a>(
        &'a self,
        (after, _): Mark,
        ctx: &'a Context,
    ) -> impl Iterator<Item = (Mark, Row<'a>)> {
        self.order.range(after + 1..).filter_map(|(serial, id)| {
            let stream = self.streams.get(*id)?;
            let is_listed = stream.remuxed.is_none();
            is_listed.then(|| ((*serial, 0), self.row_with_remuxed(stream, ctx)))
        })
    }

    /// Returns the row of a stream, with the streams that are remuxed from it.
    fn row_with_remuxed<'a>(&'a self, stream: &'a Stream, ctx: &Context) -> Row<'a> {
        let mut row = stream.row(ctx);
        for target in &stream.remux_targets {
            if let Some(remuxed) = target.stream.and_then(|id| self.streams.get(id)) {
                row.add(remuxed);
            }
        }
        row
    }
}

impl Stream {
    /// Returns the host that causes what the log says about a stream: its source.
    pub(super) fn caused_by(&self) -> Option<IpAddr> {
        Some(self.source_address.ip())
    }

    /// Returns its id in the API.
    pub(super) fn id(&self, run: u32) -> PublicStreamId {
        PublicStreamId {
            run,
            serial: self.listed_serial(),
        }
    }

    /// Returns the serial number in the API: of a remuxed stream its original's.
    pub(super) fn listed_serial(&self) -> u64 {
        let remuxed = self.remuxed.as_ref();
        remuxed.map_or(self.serial, |remuxed| remuxed.serial)
    }

    fn row_source(&self) -> RowSource<'_> {
        let input = self.input.as_ref();
        let is_datagrams = input.is_some() || self.bare.is_some();
        RowSource {
            protocol: match (input, &self.bare) {
                (Some(_), _) => "rtp-udp",
                (None, Some(_)) => "udp",
                (None, None) if self.programme.source.is_by_rtmp => "rtmp",
                (None, None) => "http",
            },
            address: self.source_address.to_string(),
            user_agent: &self.programme.source.agent,
            packets: input
                .filter(|input| input.is_transport())
                .map(|input| input.reorder.disorder()),
            too_fast: self
                .quota
                .as_ref()
                .filter(|_| is_datagrams)
                .map(Quota::refused),
        }
    }

    /// Returns whether bytes have come that may show more of what the stream carries.
    fn is_to_be_searched(&self) -> bool {
        let found = self.tracks.borrow();
        !found.is_final && found.searched < self.buffer.newest()
    }

    /// Finds what the stream carries.
    fn find_tracks(&self) {
        let Detected::Known(format) = self.buffer.detected() else {
            return;
        };
        let (header, mut at) = self.buffer.oldest_opening();
        let (rows, may_show_more) = remux::tracks(format, &header, || {
            let piece = self.buffer.slice(at, STEP_BYTES);
            at += piece.len() as u64;
            piece
        });
        *self.tracks.borrow_mut() = FoundTracks {
            rows,
            searched: self.buffer.newest(),
            is_final: !may_show_more,
        };
    }

    /// Returns its counters, with what it sent over UDP and what its ended remuxed streams counted.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = self.buffer.figures();
        figures += Figures {
            bytes_sent: self.rtp_out.udp_out.bytes_sent(),
            ..Figures::default()
        };
        figures += self.ended_remuxed;
        figures
    }

    fn row_clients(&self) -> impl Iterator<Item = RowClient> {
        let clients = self.rtp_out.udp_out.figures();
        clients.map(|(client, figures)| RowClient {
            address: client.address,
            figures,
        })
    }

    /// Returns its row of list-streams, without the streams that are remuxed from it.
    fn row(&self, ctx: &Context) -> Row<'_> {
        let Figures {
            bytes_received,
            bytes_sent,
            skips,
        } = self.figures();
        Row {
            id: self.id(ctx.run),
            sessionid: &self.session,
            session: self.session.digest(),
            source: (self.source != StreamSource::Gone).then(|| self.row_source()),
            held: self.is_between_sources(),
            started_at: self.started_unix_seconds,
            format: match self.buffer.detected() {
                Detected::Known(format) => Some(format.name()),
                Detected::Undecided | Detected::Unknown => None,
            },
            joins: self.buffer.joins(),
            no_joins: self.buffer.no_joins_reason(),
            content_type: self.buffer.media_type(),
            tracks: Tracks(self),
            key_frame_seconds: self
                .buffer
                .join_distance()
                .map(|time| (time.as_secs_f64() * 100.0).round() / 100.0),
            title: self.programme.numbered_title().1,
            name: &self.programme.source.station[0],
            station: &self.programme.source.station,
            bitrate: self.buffer.bit_rate(ctx.now()),
            bytes_received,
            bytes_sent,
            viewers: self.buffer.viewer_count(),
            viewers_peak: self.viewers_peak,
            udp_clients: self.rtp_out.udp_out.client_count(),
            udp: self.row_clients().collect(),
            skips,
            cuts: self.cuts,
            remuxed: Vec::new(),
            rtp: self.rtp_fault(ctx),
            memory_bytes: self.buffer.memory_bytes(),
            history: None,
        }
    }
}
