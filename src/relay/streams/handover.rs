//! Hands streams over to another process: their state, their viewers and their bytes. The bytes are sent
//! while the streams run.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::history::History;
use super::remux_target::{RemuxedStream, STEP_BYTES, STEP_WORK};
use super::rtp_out::RtpOut;
use super::splicing::UNIT_PART;
use super::titles::Programme;
use super::viewer::ViewerKey;
use super::{Stream, StreamSource, Streams};
use crate::copied::{Copied, CopiedPart, Copies};
use crate::handover::{COUNT_MAX, HandoverError, Line, Writer, must};
use crate::relay::context::Context;
use crate::relay::timers::Owner;
use crate::relay::{ConnectionId, Level, Limits, StreamId};
use crate::remux::{Remuxer, RemuxerState};
use crate::slots::Slots;
use crate::stream::{Detected, End, HeaderVersion, Pool, Received, Viewer, ViewerId};

/// Streams whose own state is impossible, each with the reason.
pub type InvalidStreams = Vec<(StreamId, HandoverError)>;

/// Reason in the log, and in the answer to a source.
const IMPOSSIBLE: &str = "a hand-over brought an impossible state of the stream";

/// A stream's viewers, each with its id.
type Viewers = Vec<(ViewerId<ConnectionId>, Viewer<ConnectionId>)>;

/// Received streams.
#[derive(Default)]
pub struct StreamsState {
    pool: Pool,
    media: BTreeMap<StreamId, Received>,
    streams: Vec<(StreamId, Stream)>,
    viewers: BTreeMap<StreamId, Viewers>,
    remuxers: Vec<(StreamId, RemuxerState)>,
    headers: BTreeMap<StreamId, Vec<HeaderVersion>>,
}

/// A header that viewers of a stream share. Viewers name it by its place among them.
#[derive(Serialize, Deserialize)]
struct HeaderState {
    /// The bytes. Empty if they equal the stream's current header.
    #[serde(with = "crate::handover::bytes")]
    bytes: Vec<u8>,
}

impl Limits {
    /// Returns the largest number of streams at once, with remuxed and draining streams.
    pub fn streams_at_once_max(&self) -> usize {
        2 * self.streams_max + self.remuxed_max()
    }
}

impl Streams {
    /// Returns the offsets of the bytes in each stream's buffer.
    pub fn media(&self) -> impl Iterator<Item = (StreamId, Range<u64>)> {
        let streams = self.streams.iter();
        streams.map(|(id, stream)| (id, stream.buffer.oldest()..stream.buffer.newest()))
    }

    /// Returns bytes of a stream from this offset to the end of the block. Returns none if there are none,
    /// or if they are overwritten.
    pub fn media_bytes(&self, id: StreamId, from: u64) -> &[u8] {
        let stream = self.streams.get(id);
        stream.map_or(&[], |stream| stream.buffer.slice(from, usize::MAX))
    }

    /// Writes the state of each stream and of its viewers, without the stream's bytes.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (id, stream) in self.streams.iter() {
            writer.put("stream", id.to_u64(), stream);
            if let Some(state) = stream.remuxed.as_ref().and_then(RemuxedStream::state) {
                writer.put("remuxer", id.to_u64(), &state);
            }
            let mut headers: Vec<&HeaderVersion> = Vec::new();
            let own = stream.buffer.header().to_vec();
            for (id_of_viewer, viewer) in stream.buffer.viewers() {
                let header = viewer.header().map(|header| {
                    let is_it = |other: &&HeaderVersion| Rc::ptr_eq(other, header);
                    headers.iter().position(is_it).unwrap_or_else(|| {
                        headers.push(header);
                        let is_own = **header == own;
                        let bytes = if is_own { Vec::new() } else { header.to_vec() };
                        writer.put("header", id.to_u64(), &HeaderState { bytes });
                        headers.len() - 1
                    })
                });
                writer.put("viewer", id_of_viewer.to_u64(), &(id, header, viewer));
            }
        }
    }

    /// Returns the bytes of a stream of this kind.
    pub fn copied(&mut self, id: StreamId, part: CopiedPart) -> Option<&mut Copied> {
        self.streams.get_mut(id)?.copied(part)
    }

    /// Returns the bytes that a viewer is sent first and does not share.
    pub fn own_bytes(&mut self, (id, viewer): ViewerKey) -> Option<&mut Copied> {
        self.streams.get_mut(id)?.buffer.own_bytes(viewer)
    }

    /// Removes all streams, which the successor has.
    pub fn let_go(&mut self, ctx: &mut Context) {
        for id in self.order.values() {
            if let Some(stream) = self.streams.get_mut(*id) {
                ctx.disarm(&mut stream.armed, Owner::Stream(*id));
            }
        }
        *self = Streams::new(&ctx.settings().limits);
    }

    /// Returns the generation of the next id, and the next stream's serial.
    pub fn next_ids(&self) -> (u32, u64) {
        (self.streams.next(), self.serial_next)
    }

    /// Takes over the received streams. Also returns those whose own state is impossible. Once the parts
    /// agree, [`Streams::end_invalid`] ends these.
    pub fn take_over(
        received: StreamsState,
        (next_id, next_serial): (u32, u64),
        ctx: &mut Context,
    ) -> Result<(Streams, InvalidStreams), HandoverError> {
        let mut invalid = InvalidStreams::new();
        let limits = &ctx.settings().limits;
        let mut streams = Streams {
            streams: Slots::of(received.streams, next_id, limits.streams_at_once_max())?,
            serial_next: next_serial.min(COUNT_MAX),
            pool: received.pool,
            ..Streams::new(limits)
        };
        let listed = streams.streams.len() - streams.all_remuxed().count();
        must(listed <= limits.streams_max, || {
            format!(
                "it has {listed} streams, more than --streams={} here; raise it",
                limits.streams_max
            )
        })?;
        let (mut media, mut viewers) = (received.media, received.viewers);
        let ids: Vec<StreamId> = streams.streams.iter().map(|(id, _)| id).collect();
        for id in ids {
            let bytes = media.remove(&id);
            let bytes = bytes.unwrap_or_else(|| Received::new(&ctx.settings().limits.stream));
            let viewers = viewers.remove(&id).unwrap_or_default();
            streams.adopt(id, bytes, viewers, &mut invalid, ctx)?;
        }
        for left in media.into_values() {
            left.release(&mut streams.pool);
        }
        let each = streams.streams.iter();
        let granted = each.map(|(_, stream)| stream.buffer.granted_bytes());
        let granted = isize::try_from(granted.sum::<usize>()).unwrap_or(isize::MAX);
        must(streams.pool.bytes_left >= -granted, || {
            "its buffers take more than --buffers here; raise it".to_owned()
        })?;
        must(viewers.is_empty(), || "viewers of no stream".to_owned())?;
        for (id, stream) in streams.streams.iter() {
            streams.check_remuxing(id, stream)?;
        }
        for (id, state) in received.remuxers {
            if invalid.iter().all(|(other, _)| *other != id) {
                streams.resume_remuxed(id, state, &mut invalid, ctx)?;
            }
        }
        Ok((streams, invalid))
    }

    /// Ends the streams whose own state is impossible.
    pub fn end_invalid(&mut self, invalid: InvalidStreams, ctx: &mut Context) {
        for (id, HandoverError(why)) in invalid {
            let Some(stream) = self.streams.get(id) else {
                continue;
            };
            let source = stream.source;
            if stream.remuxed.is_some() {
                self.drop_remuxed(id, &why, ctx);
            } else {
                let session = stream.session.digest();
                let line = format_args!("event=not-taken-over session={session} detail=\"{why}\"");
                ctx.log(Level::Warn, stream.caused_by(), line);
                self.end(id, End::Lost, IMPOSSIBLE, ctx);
                Self::dismiss(source, IMPOSSIBLE, ctx);
            }
        }
    }

    /// Continues a remuxed stream: its remuxer reads the original again from a join point before the bytes
    /// that are not written yet. If its own state is impossible, adds it to `invalid`.
    fn resume_remuxed(
        &mut self,
        id: StreamId,
        state: RemuxerState,
        invalid: &mut InvalidStreams,
        ctx: &mut Context,
    ) -> Result<(), HandoverError> {
        let unknown = || HandoverError(format!("stream {id:?} is not remuxed"));
        let unit_max = ctx.settings().limits.remuxed_unit_bytes_max();
        let stream = self
            .streams
            .get(id)
            .filter(|stream| stream.buffer.end().is_none())
            .ok_or_else(unknown)?;
        let remuxed = stream.remuxed.as_ref().ok_or_else(unknown)?;
        let original = &self
            .streams
            .get(remuxed.original)
            .ok_or_else(unknown)?
            .buffer;
        let remuxer = match original.detected() {
            Detected::Known(format) => Remuxer::new(format, remuxed.target, unit_max),
            Detected::Undecided | Detected::Unknown => None,
        };
        // The remuxer may read on where the search for join points has given the format up. Without join
        // points another remuxer has nowhere to begin.
        let Some(mut remuxer) = remuxer else {
            let why = "the original's format was given up before a hand-over";
            invalid.push((id, HandoverError(why.to_owned())));
            return Ok(());
        };
        let read = remuxed.read(original.newest());
        let (lead, offset) = original.opening_before(read, ctx.now());
        let header = stream.buffer.header().to_vec();
        if let Err(why) = remuxer.resume(state, remuxed.shifts_at(offset), header) {
            invalid.push((id, why));
            return Ok(());
        }
        let stream = self.streams.get_mut(id).ok_or_else(unknown)?;
        let remuxed = stream.remuxed.as_mut().ok_or_else(unknown)?;
        remuxed.resume(remuxer, offset);
        let mut out = Vec::new();
        let fed = remuxed.feed(offset, &lead, &mut out);
        self.take_remuxed(id, fed, out, ctx);
        self.catch_up(id, STEP_BYTES, STEP_WORK, ctx);
        self.catching_up.push_back(id);
        Ok(())
    }

    /// Adds a received stream to all lists of streams. If its own state is impossible, drops that and adds
    /// the stream to `invalid`.
    fn adopt(
        &mut self,
        id: StreamId,
        bytes: Received,
        viewers: Viewers,
        invalid: &mut InvalidStreams,
        ctx: &mut Context,
    ) -> Result<(), HandoverError> {
        let limits = &ctx.settings().limits;
        let bounds = (&limits.stream, limits.places_max());
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        let buffer = &mut stream.buffer;
        buffer.become_whole(bytes, viewers, bounds, &mut self.pool)?;
        stream.newest_when_queued = stream.buffer.newest();
        if let StreamSource::Held { until } = &mut stream.source {
            *until = (*until).min(ctx.now() + limits.hold_time);
        }
        if let Err(why) = stream.restore(limits) {
            stream.give_up();
            invalid.push((id, why));
        }
        let is_new = self.order.insert(stream.serial, id).is_none();
        let is_next = stream.serial < self.serial_next;
        must(is_new && is_next, || {
            format!("stream {id:?} has another's number")
        })?;
        let has_ended = stream.buffer.end().is_some();
        must(has_ended == (stream.source == StreamSource::Gone), || {
            format!("stream {id:?} has ended, and has a source")
        })?;
        if stream.remuxed.is_none() {
            let session = stream.session.clone();
            let runs_twice = match has_ended {
                true => {
                    self.draining.enter(&session, stream.serial, id);
                    None
                }
                false => self.running.insert(session, id),
            };
            must(runs_twice.is_none(), || "a session runs twice".to_owned())?;
        }
        if stream.buffer.has_ready() {
            self.queue_for_writing(id);
        }
        self.queue_udp_out(id);
        self.rearm(id, ctx);
        Ok(())
    }

    /// Checks that a stream and the streams that are remuxed from it name each other.
    fn check_remuxing(&self, id: StreamId, stream: &Stream) -> Result<(), HandoverError> {
        let targets = stream.remux_targets.iter();
        let mut all_remuxed = targets.filter_map(|target| target.stream);
        let have_original = all_remuxed.all(|remuxed| {
            let remuxed = self.remuxed_as(remuxed);
            remuxed.is_some_and(|remuxed| remuxed.original == id)
        });
        let is_target = stream.remuxed.as_ref().is_none_or(|remuxed| {
            let original = self.streams.get(remuxed.original);
            let its = original.and_then(|original| original.target(remuxed.target));
            its.is_some_and(|its| its.stream == Some(id))
        });
        must(have_original && is_target, || {
            format!("stream {id:?} is made of another")
        })
    }

    /// Records that the socket of this viewer takes nothing for now.
    pub fn set_blocked(&mut self, (id, viewer): ViewerKey) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.buffer.set_blocked(viewer);
        }
    }

    /// Returns the number of viewers of all streams.
    pub fn viewers_in_all(&self) -> usize {
        let streams = self.streams.iter();
        streams
            .map(|(_, stream)| stream.buffer.viewer_count())
            .sum()
    }

    /// Returns the connection of a viewer.
    pub fn viewer_at(&self, (id, viewer): ViewerKey, ctx: &Context) -> Option<ConnectionId> {
        let stream = self.streams.get(id)?;
        Some(stream.buffer.viewer_figures(viewer, ctx.now())?.connection)
    }

    /// Ends all remuxed streams, which a predecessor made and these options do not. Their UDP clients
    /// get no rest.
    pub fn end_all_remuxed(&mut self, ctx: &mut Context) {
        for original in self.originals() {
            for id in self.all_remuxed_of(original) {
                self.set_own_clients(id, Rc::new([]), ctx);
                // HLS players may have asked for it. It must not stay for them.
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.watched_until = None;
                }
                self.end_one_remuxed(id, End::Lost, ctx);
                self.forget_if_over(id, ctx);
            }
        }
    }

    /// Returns whether a stream's source publishes over RTMP.
    pub fn is_by_rtmp(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.programme.source.is_by_rtmp)
    }

    /// Returns the source of each stream.
    pub fn sources(&self) -> impl Iterator<Item = (StreamId, StreamSource)> {
        self.streams.iter().map(|(id, stream)| (id, stream.source))
    }
}

impl Stream {
    fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        match part {
            CopiedPart::SplicerInput | CopiedPart::Layout => self.splicer.as_mut()?.copied(part),
            _ => self.buffer.copied(part),
        }
    }

    /// Checks the stream's own received state, and completes it.
    fn restore(&mut self, limits: &Limits) -> Result<(), HandoverError> {
        self.buffer.restore()?;
        self.rtp_out.udp_out.restore()?;
        let newest = self.buffer.newest();
        let spliced_max = limits.stream.buffer_bytes / UNIT_PART;
        let splicer = self.splicer.as_mut();
        let ts_output = self.rtp_out.ts_output.as_ref();
        let is_valid = self.history.is_valid()
            && splicer.is_none_or(|splicer| splicer.restore(spliced_max))
            && self
                .input
                .as_ref()
                .is_none_or(|input| input.reorder.is_valid())
            && self.bare.as_ref().is_none_or(|input| input.bare.is_valid())
            && ts_output.is_none_or(|ts_output| ts_output.is_valid(newest))
            && self.programme.is_valid();
        must(is_valid, || {
            "the state of its source or of its outputs is impossible".to_owned()
        })
    }

    /// Drops the stream's own state. The stream can only end now.
    fn give_up(&mut self) {
        self.buffer.give_up();
        (self.splicer, self.input, self.bare) = (None, None, None);
        (self.rtp_out, self.history) = (RtpOut::default(), History::default());
        let source = std::mem::take(&mut self.programme.source);
        self.programme = Programme::default();
        self.programme.source = source;
        if let Some(remuxed) = &mut self.remuxed {
            remuxed.read_offset = None;
        }
    }
}

impl StreamsState {
    /// Begins without a stream.
    pub fn new(limits: &Limits) -> StreamsState {
        StreamsState {
            pool: Pool::new(limits.buffers_bytes_max),
            ..StreamsState::default()
        }
    }

    /// Takes bytes of a stream. They continue the received bytes, or replace them.
    pub fn receive_media(
        &mut self,
        (id, from): (StreamId, u64),
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(), HandoverError> {
        let is_known = self.media.contains_key(&id);
        must(
            is_known || self.media.len() < limits.streams_at_once_max(),
            || format!("more than {} streams", limits.streams_at_once_max()),
        )?;
        let received = self.media.entry(id);
        let received = received.or_insert_with(|| Received::new(&limits.stream));
        received.take(from, bytes, &mut self.pool)
    }

    /// Forgets the received bytes of a stream that has ended meanwhile.
    pub fn forget_media(&mut self, id: StreamId) {
        if let Some(received) = self.media.remove(&id) {
            received.release(&mut self.pool);
        }
    }

    /// Receives a stream. Adds the bytes of it that were copied before.
    pub fn receive(&mut self, line: Line<'_>, copies: &mut Copies) -> Result<(), HandoverError> {
        let mut stream: Stream = line.read()?;
        for part in CopiedPart::OF_STREAM {
            if let Some(bytes) = stream.copied(part) {
                bytes.complete(copies.remove(&(line.number, part)))?;
            }
        }
        self.streams.push((StreamId::from_u64(line.number), stream));
        Ok(())
    }

    /// Receives a header that viewers of a stream share.
    pub fn receive_header(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let HeaderState { mut bytes } = line.read()?;
        let id = StreamId::from_u64(line.number);
        if bytes.is_empty() {
            let mut streams = self.streams.iter().rev();
            let stream = streams.find(|(its, _)| *its == id);
            bytes = stream.map_or(bytes, |(_, stream)| stream.buffer.header().to_vec());
        }
        self.headers.entry(id).or_default().push(Rc::new(bytes));
        Ok(())
    }

    /// Receives the remuxer of a remuxed stream.
    pub fn receive_remuxer(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let id = StreamId::from_u64(line.number);
        self.remuxers.push((id, line.read()?));
        Ok(())
    }

    /// Receives a viewer of a stream. Adds the bytes of it that were copied before.
    pub fn receive_viewer(
        &mut self,
        line: Line<'_>,
        copies: &mut Copies,
    ) -> Result<(), HandoverError> {
        type Line = (StreamId, Option<usize>, Viewer<ConnectionId>);
        let (stream, header, mut viewer): Line = line.read()?;
        if let Some(place) = header {
            let headers = self.headers.get(&stream);
            let header = headers.and_then(|headers| headers.get(place));
            let header = header.ok_or_else(|| HandoverError("a header is missing".to_owned()))?;
            viewer.set_header(Rc::clone(header));
        }
        viewer.complete(copies.remove(&(viewer.connection().to_u64(), CopiedPart::UnitTail)))?;
        let viewers = self.viewers.entry(stream).or_default();
        viewers.push((ViewerId::from_u64(line.number), viewer));
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
