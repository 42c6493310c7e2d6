//! A stream that is being relayed: whose it is, where its media comes from, and the stream itself;
//! how it begins, takes media, loses its source, ends, and is forgotten.

use std::net::SocketAddr;
use std::time::Duration;

use super::Streams;
use super::bare::BareInput;
use super::remux_target::{RemuxTarget, RemuxedStream};
use super::rtp::RtpInput;
use super::rtp_out::RtpOut;
use super::write_queue::Backlog;
use super::{CutReason, Cuts, StreamSource};
use crate::format::Format;
use crate::format::splice::Incompatible;
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::held::string_bytes;
use crate::hls::{Cutter, Plan};
use crate::http;
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::quota::Quota;
use crate::relay::server_event::ServerEvent;
use crate::relay::timers::{Armed, Owner};
use crate::relay::viewer_id::PublicStreamId;
use crate::relay::{Action, ConnectionId, Level, PullId, SOURCE_READ_BYTES_MAX, StreamId};
use crate::remux::Remuxer;
use crate::rtp::PAYLOAD_TYPE_MPEG_TS;
use crate::stream::{End, Notice, StreamBuffer, Told};
use crate::time::Instant;

/// A stream with its source. It lasts until both the source and the last outlet are gone.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Stream {
    pub(super) session: SessionId,
    /// Its place in the order in which streams began.
    pub(super) serial: u64,
    pub(super) source: StreamSource,
    pub(super) source_address: SocketAddr,
    pub(super) started_unix_seconds: u64,
    pub(super) buffer: StreamBuffer<ConnectionId>,
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
    /// The same, if that is datagrams without RTP.
    pub(super) bare: Option<Box<BareInput>>,
    /// What its source may send, if a token says how fast.
    pub(super) quota: Option<Quota>,
    /// Somebody has asked for its playlist, or a segment, and is taken to watch until then.
    pub(super) attended_until: Option<Instant>,
    /// Viewers that were cut.
    pub(super) cuts: Cuts,
    /// Its UDP clients and what is on its way to them.
    pub(super) rtp_out: RtpOut,
    /// Where it stands among the streams that have something for their viewers.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) line: Option<Backlog>,
    /// What had come of it when it last took its place there, or left.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) lined_up: u64,
    /// Its source is not read until its viewers have caught up.
    pub(super) is_paused: bool,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) armed: Armed,
    /// It in other containers.
    pub(super) casts: Vec<RemuxTarget>,
    /// There was no room for the one that its UDP clients want: it is tried again then.
    pub(super) cast_again_at: Option<Instant>,
    /// What makes it, if it is another stream in another container.
    pub(super) shadow: Option<RemuxedStream>,
}

impl Stream {
    /// One with this source, of which nothing else is known yet.
    fn new(
        session: SessionId,
        (source, source_address): (StreamSource, SocketAddr),
        buffer: StreamBuffer<ConnectionId>,
    ) -> Stream {
        Stream {
            session,
            serial: 0,
            source,
            source_address,
            started_unix_seconds: 0,
            buffer,
            pull: None,
            via: None,
            splicer: None,
            source_type: None,
            input: None,
            bare: None,
            quota: None,
            rtp_out: RtpOut::default(),
            attended_until: None,
            cuts: Cuts::default(),
            line: None,
            lined_up: 0,
            is_paused: false,
            armed: Armed::default(),
            casts: Vec::new(),
            cast_again_at: None,
            shadow: None,
        }
    }

    /// Its shadow.
    pub(super) fn shadow(
        &self,
        serial: u64,
        buffer: StreamBuffer<ConnectionId>,
        shadow: RemuxedStream,
    ) -> Stream {
        let from = (StreamSource::Shadow, self.source_address);
        Stream {
            serial,
            via: self.via.clone(),
            shadow: Some(shadow),
            ..Stream::new(self.session.clone(), from, buffer)
        }
    }

    /// Bytes that its allocations take, its name's included.
    pub(super) fn held_bytes(&self) -> usize {
        let splicer = self.splicer.as_deref();
        let splicer = splicer.map_or(0, |splicer| size_of::<Splicer>() + splicer.held_bytes());
        let input = self.input.as_deref().map_or(0, RtpInput::held_bytes)
            + self.bare.as_deref().map_or(0, BareInput::held_bytes);
        self.session.held_bytes()
            + self.buffer.held_bytes()
            + splicer
            + input
            + self.rtp_out.held_bytes()
            + string_bytes(self.via.as_ref())
            + string_bytes(self.source_type.as_ref())
            + self
                .casts
                .iter()
                .map(RemuxTarget::held_bytes)
                .sum::<usize>()
            + self.shadow.as_ref().map_or(0, RemuxedStream::held_bytes)
    }

    /// Whether anybody watches it, be it by playlists and segments.
    pub(super) fn is_watched(&self) -> bool {
        self.buffer.viewer_count() > 0 || self.attended_until.is_some()
    }

    /// Whether anybody gets anything of it, by whichever way.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_watched() || self.rtp_out.post.client_count() > 0
    }

    /// Whether it waits for a source.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.source, StreamSource::Held { .. })
    }

    /// Whether its viewers wait: for a source, or for one that has come to show where it goes on.
    pub(super) fn has_waiting_viewers(&self) -> bool {
        self.splicer.as_deref().is_some_and(Splicer::is_joining)
    }

    /// Why it cannot go out by RTP, if it cannot.
    pub(super) fn rtp_fault(&self, ctx: &Context) -> Option<&str> {
        match self.buffer.told() {
            _ if self.input.is_some() => None,
            Told::Undecided | Told::Known(Format::MpegTs) => None,
            Told::Known(format) if ctx.settings().remuxes && Remuxer::reads(format) => {
                if self.cast_again_at.is_some() {
                    return Some("to make it MPEG-TS takes one more --buffer than is left");
                }
                let target = |cast: &&RemuxTarget| cast.target.format() == Format::MpegTs;
                self.casts.iter().find(target)?.fault.as_deref()
            }
            Told::Known(_) | Told::Unknown => Some("not MPEG-TS"),
        }
    }

    /// Whether it is not known yet what its bytes are, and may come out.
    pub(super) fn is_undecided(&self) -> bool {
        self.buffer.told() == Told::Undecided && self.buffer.end().is_none()
    }

    /// Whether it has UDP clients that get nothing yet, and may be MPEG-TS from a body.
    pub(super) fn needs_transport(&self) -> bool {
        let may_be_transport = matches!(
            self.buffer.told(),
            Told::Undecided | Told::Known(Format::MpegTs)
        );
        let is_datagrams = matches!(self.source, StreamSource::Rtp(_)) || self.input.is_some();
        let is_wanted = self.rtp_out.post.client_count() > 0 && self.rtp_out.ts_output.is_none();
        let has_ended = self.buffer.end().is_some();
        is_wanted && may_be_transport && !has_ended && (self.bare.is_some() || !is_datagrams)
    }

    /// When the newest datagram of its source came, if it has such a source.
    pub(super) fn heard(&self) -> Option<Instant> {
        let of_rtp = self.input.as_ref().map(|input| input.heard());
        of_rtp.or(self.bare.as_ref().map(|input| input.heard()))
    }

    /// Why it cannot go out over HTTP, if it cannot.
    pub(super) fn http_fault(&self) -> Option<String> {
        let payload_type = self.input.as_ref()?.payload_type();
        (payload_type != PAYLOAD_TYPE_MPEG_TS).then(|| {
            format!("the session's source sends RTP payload type {payload_type}; only type {PAYLOAD_TYPE_MPEG_TS} (MPEG-TS) goes out over HTTP")
        })
    }
}

/// Why a stream ends whose source is sound.
pub const SHUT_DOWN: &str = "the server shuts down";
const ABORTED: &str = "it was aborted";
const TAKEN_OVER: &str = "another source took over";

/// How a stream that begins now is cut into segments, if streams are.
pub(super) fn plan(ctx: &mut Context) -> Option<Plan> {
    ctx.settings().serves_hls.then(|| Plan {
        segment: ctx.settings().limits.hls_segment_time,
        buffer_bytes: 0,
        tag: ctx.draw() as u32,
        started: Duration::from_secs(ctx.settings().started_unix_seconds),
        began: ctx.now(),
        number_min: 0,
    })
}

impl Streams {
    /// The session has a source: its stream begins, or goes on if it waits for one.
    pub fn begin_live(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: StreamSource,
        source_address: SocketAddr,
        ctx: &mut Context,
    ) -> StreamId {
        let now = ctx.now();
        // Whoever the source is, its stream is no document of this server's.
        let content_type = content_type.as_deref().and_then(http::stream_type);
        if let Some(id) = self.held(&session) {
            self.go_on(id, content_type, source, source_address, ctx);
            return id;
        }
        // Who has watched by a playlist what is given out still goes on with this.
        let draining = self.draining.of(&session);
        let before: Vec<StreamId> = draining.flat_map(|id| self.with_shadows(id)).collect();
        let number = |id| Some(self.streams.get_mut(id)?.buffer.segments()?.next_number());
        let number_min = before.into_iter().filter_map(number).max().unwrap_or(0);
        self.end_rest_of(&session, ctx);
        self.make_room_for_stream(&session, ctx);
        ctx.count(Count::Streams, 1);
        let serial = self.live_serial_next;
        self.live_serial_next += 1;
        ctx.log(
            Level::Info,
            format_args!(
                "event=stream-begins session={} source={source_address}",
                session.digest()
            ),
        );
        let mut buffer = StreamBuffer::new(ctx.settings().limits.stream, content_type, now);
        if let Some(plan) = plan(ctx) {
            buffer.cut_into_segments(Plan { number_min, ..plan });
        }
        let from = (source, source_address);
        let stream = self.streams.insert(Stream {
            serial,
            started_unix_seconds: ctx.date().unix_seconds,
            splicer: self.new_splicer(ctx),
            ..Stream::new(session.clone(), from, buffer)
        });
        let what = ServerEvent::StreamBegins {
            id: PublicStreamId {
                run: ctx.run(),
                serial,
            },
            source: source_address,
        };
        ctx.tell(&session, &what);
        self.order.insert(serial, stream);
        self.running.insert(session, stream);
        stream
    }

    /// Media has arrived from a stream's source. It may be unlike what came before: then another
    /// stream has begun, for which these bytes are the first.
    #[must_use]
    pub fn append(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<(StreamId, Vec<u8>)> {
        let Incompatible(bytes) = self.take_media(id, bytes, ctx)?;
        Some((self.begin_anew(id, ctx)?, bytes))
    }

    /// Media has arrived from a stream's source. It may be unlike what came before: then these
    /// bytes are the first of another stream.
    #[must_use]
    pub(super) fn take_media(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<Incompatible> {
        let now = ctx.now();
        let stream = self.streams.get_mut(id)?;
        stream.buffer.count(bytes.len(), now);
        let Some(splicer) = &mut stream.splicer else {
            self.pass_on(id, bytes, ctx);
            return None;
        };
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.pass_on(id, &spliced, ctx);
        spliced.clear();
        // A large unit was one stream's: its room is not kept for all.
        spliced.shrink_to(SOURCE_READ_BYTES_MAX);
        self.spliced = spliced;
        fed.err()
    }

    /// What has become of it goes on to all who want it, in whichever container.
    fn pass_on(&mut self, id: StreamId, bytes: &[u8], ctx: &mut Context) {
        self.make_way(id, bytes.len(), ctx);
        self.give(id, bytes, ctx);
        self.feed_shadows(id, bytes, ctx);
    }

    /// A stream has these bytes, and so have its viewers and its UDP clients.
    pub(super) fn give(&mut self, id: StreamId, bytes: &[u8], ctx: &mut Context) {
        let now = ctx.now();
        let Some(stream) = self.streams.get_mut(id).filter(|_| !bytes.is_empty()) else {
            return;
        };
        let was_undecided = stream.buffer.told() == Told::Undecided;
        stream.buffer.append(bytes, &mut self.pool, now);
        let has_grown = stream.buffer.segments().is_some_and(Cutter::take_grown);
        // A shadow is what it was made to be.
        let is_told = was_undecided && stream.buffer.told() != Told::Undecided;
        let is_told = is_told && stream.shadow.is_none();
        let notice = stream.buffer.take_notice();
        let digest = stream.session.digest();
        match notice {
            None => {}
            Some(Notice::LargeGroup) => ctx.log(Level::Warn, format_args!("event=group-larger-than-buffer session={digest} detail=\"viewers cannot begin at a key frame; raise --buffer\"")),
            Some(Notice::NoJoin) => ctx.log(Level::Warn, format_args!("event=no-join-point session={digest} detail=\"nothing has come at which decoding can begin: viewers get the header and what comes\"")),
            Some(Notice::LongGroup) => ctx.log(Level::Warn, format_args!("event=group-longer-than-segment session={digest} detail=\"segments end within groups of pictures, where players cannot begin; let the encoder make key frames at a fixed distance\"")),
            Some(Notice::NeedsFirstByte) => ctx.log(Level::Warn, format_args!("event=no-join-point session={digest} detail=\"its fragments count positions from the file's first byte, which late viewers do not have; with ffmpeg, add -movflags +default_base_moof\"")),
            Some(Notice::LetGo(format)) => ctx.log(Level::Warn, format_args!(
                "event=format-let-go session={digest} format={} detail=\"not well-formed, or a header larger than is kept: viewers begin at the live edge\"",
                format.name()
            )),
        }
        while let Some(connection) = self
            .streams
            .get_mut(id)
            .and_then(|stream| stream.buffer.take_cut())
        {
            ctx.notify(Event::CutViewer(connection, CutReason::LostUnit));
        }
        if has_grown {
            ctx.notify(Event::PlaylistGrew(id));
        }
        self.flow(id);
        if is_told {
            ctx.notify(Event::FormatKnown(id));
        }
        self.feed_rtp_out(id, bytes, ctx);
    }

    /// Whether that is where its media comes from.
    pub fn has_as_source(&self, id: StreamId, source: StreamSource) -> bool {
        self.streams
            .get(id)
            .is_some_and(|stream| stream.source == source)
    }

    /// The stream has no source any more: its session is free, its viewers drain.
    pub(super) fn end_stream(
        &mut self,
        id: StreamId,
        end: End,
        reason: &'static str,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.buffer.end().is_some() {
            return;
        }
        if let Some(splicer) = &mut stream.splicer {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.pass_on(id, &rest, ctx);
        }
        let has_viewers = self.is_seen(id);
        self.end_shadows(id, end, ctx);
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let (source, pull) = (stream.source, stream.pull);
        let known_as = stream.id(ctx.run());
        let session = stream.session.clone();
        let figures = stream.buffer.figures();
        if self.running.get(&session) == Some(&id) {
            self.running.remove(&session);
        }
        self.draining.enter(&session, stream.serial, id);
        ctx.log(
            Level::Info,
            format_args!(
                "event=stream-ends session={} reason=\"{reason}\" bytes_received={} bytes_sent={} skips={}",
                session.digest(),
                figures.bytes_received,
                figures.bytes_sent,
                figures.skips
            ),
        );
        let what = ServerEvent::StreamEnds {
            id: known_as,
            reason,
            bytes_received: figures.bytes_received,
            bytes_sent: figures.bytes_sent,
            skips: figures.skips,
        };
        ctx.tell(&session, &what);
        self.keep_bucket(id, ctx.now());
        if let StreamSource::Rtp(address) = source {
            ctx.notify(Event::RtpSourceLeft { address, id });
        }
        if let Some(pull) = pull {
            ctx.notify(Event::PullEnded {
                pull,
                end,
                has_viewers,
            });
        }
        self.close_stream(id, end, ctx);
    }

    /// Nothing more comes of a stream: what there is goes out still.
    pub(super) fn close_stream(&mut self, id: StreamId, end: End, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.source = StreamSource::Gone;
            stream.rtp_out.finish(stream.buffer.newest(), ctx.now());
            stream.buffer.finish(end);
        }
        ctx.notify(Event::PlaylistGrew(id));
        self.flow(id);
        self.post(id);
        self.pump(id, ctx);
        self.forget_if_over(id, ctx);
    }

    /// A stream is over when neither source nor outlet is left.
    pub(super) fn forget_if_over(&mut self, id: StreamId, ctx: &mut Context) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.source != StreamSource::Gone || !stream.rtp_out.is_over(stream.buffer.newest()) {
            return;
        }
        stream.rtp_out.clear();
        let has_shadows = stream.casts.iter().any(|cast| cast.stream.is_some());
        if stream.is_watched() || has_shadows {
            return;
        }
        if let Some(mut stream) = self.streams.remove(id) {
            let figures = stream.buffer.figures();
            ctx.count(Count::BytesReceived, figures.bytes_received);
            ctx.count(Count::BytesSent, figures.bytes_sent);
            ctx.count(Count::Skips, figures.skips);
            ctx.count(Count::UdpBytesSent, stream.rtp_out.post.bytes_sent());
            ctx.freed(stream.buffer.filled_bytes());
            stream.buffer.release(&mut self.pool);
            ctx.disarm(&mut stream.armed, Owner::Stream(id));
            self.order.remove(&stream.serial);
            if stream.shadow.is_some() {
                return self.forget_shadow(&stream, id, ctx);
            }
            let id_told = stream.id(ctx.run());
            ctx.tell(&stream.session, &ServerEvent::StreamOver { id: id_told });
            self.draining.leave(&stream.session, stream.serial);
        }
    }

    /// The viewers who were behind have what there is: the source is read on.
    pub(super) fn resume(&mut self, id: StreamId, ctx: &mut Context) {
        let id = self.original_of(id);
        let is_ahead = self.is_ahead(id, ctx);
        let wanted_bytes = self.wanted_bytes(id);
        if let Some(stream) = self.streams.get_mut(id)
            && stream.is_paused
            && !is_ahead
            && wanted_bytes > 0
        {
            stream.is_paused = false;
            if let StreamSource::Http(connection) = stream.source {
                ctx.act(Action::ReadOn(connection));
            }
        }
    }

    /// How many bytes of a source are wanted.
    pub fn source_appetite(&mut self, id: StreamId, ctx: &mut Context) -> usize {
        let is_ahead = self.is_ahead(id, ctx);
        let wanted_bytes = self.wanted_bytes(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return 0;
        };
        stream.is_paused = wanted_bytes == 0 || is_ahead;
        if stream.is_paused {
            0
        } else {
            let wanted_bytes = SOURCE_READ_BYTES_MAX.min(wanted_bytes);
            wanted_bytes.min(stream.bytes_left(ctx.now()))
        }
    }
}

impl Streams {
    /// A stream's source is gone before its time, unless it is not its source any more: the stream
    /// waits for another, or ends.
    pub fn source_lost(
        &mut self,
        id: StreamId,
        source: StreamSource,
        reason: &'static str,
        ctx: &mut Context,
    ) {
        if self.has_as_source(id, source) {
            self.finish_reorder(id, ctx);
        }
        // What came early may have been the end of it.
        if self.has_as_source(id, source) && !self.hold(id, reason, ctx) {
            self.end_stream(id, End::Lost, reason, ctx);
        }
    }

    /// A stream's source is gone for good.
    pub fn end(&mut self, id: StreamId, end: End, reason: &'static str, ctx: &mut Context) {
        self.finish_reorder(id, ctx);
        self.end_stream(id, end, reason, ctx);
    }

    /// Another source takes the place of a session's, if that has one.
    pub fn end_for_takeover(&mut self, session: &SessionId, ctx: &mut Context) {
        if self.has_source(session)
            && let Some((id, source)) = self.running_source(session)
        {
            self.source_lost(id, source, TAKEN_OVER, ctx);
            Self::dismiss(source, TAKEN_OVER, ctx);
        }
    }

    /// Ends a session's stream at once, and what drains of those before: source and viewers are
    /// disconnected. Says how many viewers that were.
    pub fn abort(&mut self, session: &SessionId, ctx: &mut Context) -> Option<usize> {
        let running = self.running_source(session);
        if let Some((id, source)) = running {
            self.end(id, End::Lost, ABORTED, ctx);
            Self::dismiss(source, ABORTED, ctx);
        }
        let draining: Vec<StreamId> = self.draining.of(session).collect();
        if running.is_none() && draining.is_empty() {
            return None;
        }
        let viewers = draining
            .into_iter()
            .map(|id| self.cut_off(id, ABORTED, ctx));
        Some(viewers.sum())
    }

    /// The server shuts down: streams end whose source is no connection that could be ended.
    pub fn shut_down(&mut self, ctx: &mut Context) {
        let streams = self.streams.iter();
        let ids = streams.filter(|(_, stream)| {
            !matches!(stream.source, StreamSource::Http(_) | StreamSource::Shadow)
        });
        for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end(id, End::Complete, SHUT_DOWN, ctx);
        }
    }

    fn dismiss(source: StreamSource, reason: &'static str, ctx: &mut Context) {
        if let StreamSource::Http(connection) = source {
            ctx.notify(Event::DismissSource(connection, reason));
        }
    }
}

#[cfg(test)]
mod tests;
