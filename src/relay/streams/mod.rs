//! All streams, running or draining, the order in which viewers are written to, and the bound on
//! the bytes of all buffers.

mod bare;
mod bundle;
mod catching_up;
mod check;
mod draining;
mod excess;
#[cfg(feature = "handover")]
mod handover;
mod history;
mod hls;
mod hold;
mod numbers;
mod remux_target;
mod remuxed;
mod row;
mod rtp;
mod rtp_out;
mod shared_chunk;
mod splicing;
mod stream;
#[cfg(test)]
mod tests;
mod titles;
mod viewer;
mod watchers;
mod write_queue;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use super::context::Context;
use super::counts::Count;
use super::cut_reason::{CutReason, Cuts};
use super::event::Event;

use draining::Draining;
use excess::BUCKETS_MAX;
#[cfg(feature = "handover")]
pub(super) use handover::StreamsState;
pub(super) use row::Row;
use shared_chunk::SharedChunk;
pub(super) use stream::SHUT_DOWN;
pub use stream::Stream;
pub(super) use titles::SourceInfo;
pub(super) use viewer::{ViewerKey, ViewerResponse, WatchResponse};
pub(super) use watchers::ViewerRow;

use super::metrics::Sums;
use super::{ConnectionId, Limits, PullId, StreamId};
use crate::gate::SessionId;
use crate::slots::Slots;
use crate::stream::{End, Figures, Pool};
use crate::time::Instant;
use crate::token_bucket::TokenBuckets;
use crate::udp_out::ClientFigures;
use write_queue::WriteQueue;

/// All streams, and the queues of streams that have something to send.
#[derive(Default)]
pub(super) struct Streams {
    streams: Slots<Stream>,
    running: HashMap<SessionId, StreamId>,
    draining: Draining,
    /// All streams, in the order in which they began.
    order: BTreeMap<u64, StreamId>,
    serial_next: u64,
    pool: Pool,
    /// Streams that have bytes for their viewers.
    write_queue: WriteQueue,
    shared_chunk: SharedChunk,
    /// Reused for the output of a splicer.
    spliced: Vec<u8>,
    /// Streams that have yet to get a part of their splicers' output.
    passing: VecDeque<StreamId>,
    /// Reused for the output of a remuxer.
    remuxed: Vec<u8>,
    /// Remuxed streams that have yet to catch up with their originals.
    catching_up: VecDeque<StreamId>,
    /// Work of [`Streams::next_posting`] in this turn.
    posting_work: usize,
    /// Work of scanning, splicing and remuxing since the last `take_work`.
    work: usize,
    /// Streams that have datagrams for their UDP clients.
    posting: VecDeque<StreamId>,
    /// The stream that sent datagrams last.
    posted: Option<StreamId>,
    /// The `max-bitrate` buckets of sessions without a source.
    pub(super) buckets: TokenBuckets<SessionId, BUCKETS_MAX>,
    /// How far the segment numbers that a session has used are ahead of their clock.
    pub(super) numbers: TokenBuckets<SessionId, BUCKETS_MAX>,
}

/// Where a stream's media comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum StreamSource {
    /// The body of a client's request, or of an origin's response.
    Http(ConnectionId),
    /// Datagrams from this address.
    Rtp(SocketAddr),
    /// None for now: another source may arrive until then.
    Held { until: Instant },
    /// Another stream, from which this one is remuxed.
    Remuxed,
    /// None, for good: the stream drains.
    Gone,
}

impl StreamSource {
    /// Returns the connection whose body is the source.
    pub fn connection(self) -> Option<ConnectionId> {
        match self {
            StreamSource::Http(connection) => Some(connection),
            _ => None,
        }
    }

    /// Returns the address whose datagrams are the source.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            StreamSource::Rtp(address) => Some(address),
            _ => None,
        }
    }
}

/// Bytes of blocks that are returned at a time. That takes about 0.3 ms.
const SPARE_BYTES: usize = 2 * 1024 * 1024;
/// Rows of UDP clients in the figures, at most.
const UDP_CLIENTS_SHOWN_MAX: usize = 256;

impl Streams {
    /// Creates an empty set.
    pub fn new(limits: &Limits) -> Streams {
        Streams {
            serial_next: 1,
            pool: Pool::new(limits.buffers_bytes_max),
            ..Streams::default()
        }
    }

    /// Returns the memory for the media of all streams, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let streams = self.streams.iter();
        let each = streams.map(|(_, stream)| stream.buffer.memory_bytes());
        self.pool.memory_bytes() + each.sum::<usize>()
    }

    /// Returns whether there is this stream.
    pub fn has(&self, id: StreamId) -> bool {
        self.streams.get(id).is_some()
    }

    /// Returns whether the session's stream has a viewer.
    pub fn is_watched(&self, session: &SessionId) -> bool {
        let running = self.running.get(session);
        running.is_some_and(|id| self.is_watched_in_any_container(*id))
    }

    /// Records the pull that fetches a stream, and the `Via` of its responses.
    pub fn set_pull(&mut self, id: StreamId, pull: PullId, via: String) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.pull = Some(pull);
            stream.via = Some(via);
        }
    }

    /// Returns the origin's connection that sends a stream, if `pull` fetches it still. A held
    /// stream has none.
    pub fn fetched_from(&self, id: StreamId, pull: PullId) -> Option<ConnectionId> {
        let stream = self.streams.get(id)?;
        let connection = stream.source.connection();
        connection.filter(|_| stream.pull == Some(pull))
    }

    /// Returns the session's stream if it waits for a source and came from an origin.
    pub fn held_of_origin(&self, session: &SessionId) -> Option<StreamId> {
        let id = self.held(session)?;
        self.streams.get(id)?.via.is_some().then_some(id)
    }

    /// Takes blocks of ended streams, whose memory is to be returned.
    pub fn take_spare_blocks(&mut self) -> Vec<Vec<u8>> {
        self.pool.take_spare(SPARE_BYTES)
    }

    /// Returns the sums over all streams since the server's start.
    pub fn sums(&self, ctx: &Context) -> Sums {
        let mut sums = Sums {
            running: self.running.len(),
            draining: self.draining.len(),
            all_remuxed: self.all_remuxed().count(),
            buffers_left: usize::try_from(self.pool.bytes_left).unwrap_or(0),
            figures: Figures {
                bytes_received: ctx.counts.of(Count::BytesReceived),
                bytes_sent: ctx.counts.of(Count::BytesSent),
                skips: ctx.counts.of(Count::Skips),
            },
            udp_bytes: ctx.counts.of(Count::UdpBytesSent),
            ..Sums::default()
        };
        for (_, stream) in self.streams.iter() {
            let udp_bytes = stream.rtp_out.udp_out.bytes_sent();
            sums.figures += stream.buffer.figures();
            sums.udp_bytes = sums.udp_bytes.saturating_add(udp_bytes);
            sums.viewers += stream.buffer.viewer_count();
            sums.udp_clients += stream.rtp_out.udp_out.client_count();
            sums.held += usize::from(stream.is_between_sources());
        }
        sums
    }

    /// Returns the figures of UDP clients by address, of at most [`UDP_CLIENTS_SHOWN_MAX`] clients.
    /// The oldest streams come first.
    pub fn udp_clients(&self) -> BTreeMap<SocketAddr, ClientFigures> {
        let streams = self.order.values().filter_map(|id| self.streams.get(*id));
        let mut clients: BTreeMap<SocketAddr, ClientFigures> = BTreeMap::new();
        for (client, figures) in streams.flat_map(|stream| stream.rtp_out.udp_out.figures()) {
            if clients.len() >= UDP_CLIENTS_SHOWN_MAX {
                break;
            }
            // One address may be a client of several streams.
            let sum = clients.entry(client.address).or_default();
            sum.sent = sum.sent.saturating_add(figures.sent);
            sum.dropped = sum.dropped.saturating_add(figures.dropped);
        }
        clients
    }

    /// Returns a stream's session.
    pub fn session(&self, id: StreamId) -> Option<SessionId> {
        Some(self.streams.get(id)?.session.clone())
    }

    /// Returns a stream's source, and the pull that fetches it.
    pub fn source_of(&self, id: StreamId) -> Option<(StreamSource, Option<PullId>)> {
        let stream = self.streams.get(id)?;
        Some((stream.source, stream.pull))
    }

    /// Returns the streams that are not remuxed from another one.
    pub fn originals(&self) -> Vec<StreamId> {
        let streams = self.streams.iter();
        let originals = streams.filter(|(_, stream)| stream.remuxed.is_none());
        originals.map(|(id, _)| id).collect()
    }

    /// Returns a session's running stream and its source.
    pub fn running_source(&self, session: &SessionId) -> Option<(StreamId, StreamSource)> {
        let id = *self.running.get(session)?;
        Some((id, self.streams.get(id)?.source))
    }

    /// Arms a stream's timer.
    pub fn rearm(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.rearm(id, ctx);
        }
    }

    /// Handles a stream's timer. Returns whether RTP packets that came early may be due.
    pub fn due(&mut self, id: StreamId, ctx: &mut Context) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        stream.armed.fired();
        let now = ctx.now();
        let is_over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let has_bundle = is_over(stream.bundle.until());
        self.change_title(id, ctx);
        if has_bundle {
            self.wake_viewers(id, ctx);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let source = stream.source;
        let is_source_over = is_over(stream.source_until(ctx));
        match source {
            StreamSource::Rtp(_) if is_source_over => self.source_lost(id, source, SILENT, ctx),
            StreamSource::Held { .. } if is_source_over => {
                let reason = "the source did not come back within --hold";
                self.end(id, End::Lost, reason, ctx);
            }
            _ if is_over(stream.watched_until) => self.watch_expired(id, ctx),
            _ if is_over(stream.cast_again_at) => {
                stream.cast_again_at = None;
                ctx.notify(Event::UdpClientsChanged(id));
            }
            _ if is_over(stream.paused_until()) => self.end_source_pause(id, ctx),
            _ if is_over(stream.rtp_out.drain_until) => self.drain_timed_out(id, ctx),
            _ if stream.input.is_some() => return true,
            _ => self.pump(id, ctx),
        }
        false
    }

    /// Returns how many streams there are, running or draining.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns how many streams run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns whether the session runs. Its stream may be waiting for a source.
    pub fn runs(&self, session: &SessionId) -> bool {
        self.running.contains_key(session)
    }

    /// Returns why the session's stream cannot go out over HTTP, if it cannot.
    pub fn http_fault(&self, session: &SessionId) -> Option<String> {
        self.streams.get(*self.running.get(session)?)?.http_fault()
    }

    /// Returns whether any stream has bytes for viewers or datagrams for UDP clients.
    pub fn has_writes(&self) -> bool {
        !self.write_queue.is_empty() || !self.posting.is_empty()
    }
}

/// The reason in the log when a source has sent nothing for too long.
pub(super) const SILENT: &str = "the source was silent for --source-idle-time";
