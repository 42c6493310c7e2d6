//! One stream that is being relayed: its session, its source, its buffer and its outputs. How it
//! begins, takes media, loses its source, ends, and is removed.

use std::cell::RefCell;
use std::net::SocketAddr;

use super::Streams;
use super::bare::BareInput;
use super::bundle::{Bundle, NewBytes};
use super::history::History;
use super::remux_target::{READ_PER_BYTE, RemuxTarget, RemuxedStream};
use super::rtp::RtpInput;
use super::rtp_out::RtpOut;
use super::splicing::{SplicerOutput, UNIT_PART};
use super::titles::Programme;
use super::write_queue::Backlog;
use super::{CutReason, Cuts, StreamSource};
use crate::format::Format;
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::hls::Cutter;
use crate::http;
use crate::relay::context::{Context, RETURN_AFTER};
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::quota::Quota;
use crate::relay::server_event::ServerEvent;
use crate::relay::timers::{Armed, Owner};
use crate::relay::viewer_id::PublicStreamId;
use crate::relay::{Action, ConnectionId, Level, PullId, SOURCE_READ_BYTES_MAX, StreamId};
use crate::remux::{Remuxer, Target, TrackInfo};
use crate::rtp::PAYLOAD_TYPE_MPEG_TS;
use crate::stream::{Detected, End, Figures, Notice, StreamBuffer};
use crate::time::Instant;

/// What a stream carries, as far as it is known.
#[derive(Default)]
pub struct FoundTracks {
    pub(super) rows: Vec<TrackInfo>,
    /// Length of the stream when it was searched.
    pub(super) searched: u64,
    /// Whether more bytes can show no more.
    pub(super) is_final: bool,
}

/// A stream. It is removed when its source and its last output are gone.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Stream {
    pub(super) session: SessionId,
    /// Position in the order in which streams began.
    pub(super) serial: u64,
    pub(super) source: StreamSource,
    pub(super) source_address: SocketAddr,
    pub(super) started_unix_seconds: u64,
    pub(super) buffer: StreamBuffer<ConnectionId>,
    /// The pull that fetches it, if its source is an origin.
    pub(super) pull: Option<PullId>,
    /// `Via` of its responses, if its source is an origin.
    pub(super) via: Option<String>,
    /// Joins successive sources into one stream, where streams are held.
    pub(super) splicer: Option<Box<Splicer>>,
    /// Output of the splicer that the stream has yet to get.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) spliced: SplicerOutput,
    /// Media type that the source of a held stream declared.
    pub(super) source_type: Option<String>,
    /// State of its RTP source, or of the last one.
    pub(super) input: Option<Box<RtpInput>>,
    /// State of its source of datagrams without RTP, or of the last one.
    pub(super) bare: Option<Box<BareInput>>,
    /// Limits its source's rate, if a token sets one.
    pub(super) quota: Option<Quota>,
    /// Until then the stream counts as watched, since a client asked for a playlist or a segment.
    pub(super) watched_until: Option<Instant>,
    /// Viewers that were disconnected, by reason.
    pub(super) cuts: Cuts,
    /// UDP clients and their datagrams.
    pub(super) rtp_out: RtpOut,
    /// Its queue in [`super::write_queue`], if it is queued.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) queued_in: Option<Backlog>,
    /// Newest offset when it was queued last, or left the queue.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) newest_when_queued: u64,
    /// Decides when new bytes go to the viewers that have all others. After a hand-over they go at
    /// once.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) bundle: Bundle,
    /// Its source is not read until its viewers have caught up.
    pub(super) is_paused: bool,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) armed: Armed,
    /// Its remuxed streams, by container.
    pub(super) remux_targets: Vec<RemuxTarget>,
    /// Counters of its ended remuxed streams, without the bytes that they received.
    pub(super) ended_remuxed: Figures,
    /// The time of the next attempt to remux it for UDP clients: there was no memory for it.
    pub(super) cast_again_at: Option<Instant>,
    /// How it is remuxed, if it is remuxed from another stream.
    pub(super) remuxed: Option<RemuxedStream>,
    /// Maximal number of viewers at a time, viewers of its remuxed streams included.
    pub(super) viewers_peak: usize,
    /// What its publisher says about it.
    pub(super) programme: Programme,
    /// Its bit rate and viewers in the last hour.
    pub(super) history: History,
    /// What it carries. It is looked for when somebody asks, until all is known.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) tracks: RefCell<FoundTracks>,
}

impl Stream {
    /// Creates a stream with this source and nothing else set.
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
            spliced: SplicerOutput::default(),
            source_type: None,
            input: None,
            bare: None,
            quota: None,
            rtp_out: RtpOut::default(),
            watched_until: None,
            cuts: Cuts::default(),
            queued_in: None,
            newest_when_queued: 0,
            bundle: Bundle::default(),
            is_paused: false,
            armed: Armed::default(),
            remux_targets: Vec::new(),
            ended_remuxed: Figures::default(),
            cast_again_at: None,
            remuxed: None,
            viewers_peak: 0,
            programme: Programme::default(),
            history: History::default(),
            tracks: RefCell::default(),
        }
    }

    /// Creates a stream that is remuxed from this one.
    pub(super) fn remuxed(
        &self,
        serial: u64,
        buffer: StreamBuffer<ConnectionId>,
        remuxed: RemuxedStream,
    ) -> Stream {
        let from = (StreamSource::Remuxed, self.source_address);
        Stream {
            serial,
            via: self.via.clone(),
            remuxed: Some(remuxed),
            ..Stream::new(self.session.clone(), from, buffer)
        }
    }

    /// Returns its entry for this container.
    pub(super) fn target(&self, target: Target) -> Option<&RemuxTarget> {
        self.remux_targets.iter().find(|its| its.target == target)
    }

    /// Returns whether it has a viewer, over one response or by playlist.
    pub(super) fn is_watched(&self) -> bool {
        self.buffer.viewer_count() > 0 || self.watched_until.is_some()
    }

    /// Returns whether it has a viewer or a UDP client.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_watched() || self.rtp_out.udp_out.client_count() > 0
    }

    /// Returns whether it waits for a source.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.source, StreamSource::Held { .. })
    }

    /// Returns whether its viewers wait: for a source, or for a new source's first join point.
    pub(super) fn is_between_sources(&self) -> bool {
        self.splicer
            .as_deref()
            .is_some_and(Splicer::is_between_sources)
    }

    /// Returns why it cannot go out by RTP, if it cannot.
    pub(super) fn rtp_fault(&self, ctx: &Context) -> Option<&str> {
        match self.buffer.detected() {
            _ if self.input.is_some() => None,
            Detected::Undecided | Detected::Known(Format::MpegTs) => None,
            Detected::Known(format) if ctx.settings().remuxes && Remuxer::reads(format) => {
                if self.cast_again_at.is_some() {
                    return Some(
                        "remuxing to MPEG-TS needs one more --buffer, and --buffers has none left",
                    );
                }
                let mut targets = self.remux_targets.iter();
                let its = targets.find(|its| its.target.format() == Format::MpegTs)?;
                its.fault.as_deref()
            }
            Detected::Known(_) | Detected::Unknown => Some("not MPEG-TS"),
        }
    }

    /// Returns whether its format is still being detected.
    pub(super) fn is_undecided(&self) -> bool {
        self.buffer.detected() == Detected::Undecided && self.buffer.end().is_none()
    }

    /// Returns whether it has UDP clients without output, and its body may be MPEG-TS.
    pub(super) fn needs_transport(&self) -> bool {
        let may_be_transport = matches!(
            self.buffer.detected(),
            Detected::Undecided | Detected::Known(Format::MpegTs)
        );
        let is_datagrams = matches!(self.source, StreamSource::Rtp(_)) || self.input.is_some();
        let is_wanted = self.rtp_out.udp_out.client_count() > 0 && self.rtp_out.ts_output.is_none();
        let has_ended = self.buffer.end().is_some();
        is_wanted && may_be_transport && !has_ended && (self.bare.is_some() || !is_datagrams)
    }

    /// Returns when it has something to do, if nothing arrives before.
    pub(super) fn deadline(&self, ctx: &Context) -> Option<Instant> {
        // While datagrams are on their way, nothing more is taken from the buffer: the stream goes
        // on when they are out. The same holds while the format is unknown.
        let ts_output = self.rtp_out.ts_output.as_ref();
        let paced = ts_output
            .filter(|_| self.rtp_out.is_empty() && !self.is_undecided())
            .and_then(|ts_output| ts_output.deadline(ctx.now()));
        let all = [
            paced,
            self.input
                .as_ref()
                .and_then(|input| input.reorder.deadline()),
            self.source_until(ctx),
            self.rtp_out.drain_until,
            self.watched_until,
            self.cast_again_at,
            self.paused_until(),
            self.bundle.until(),
            self.programme.deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Arms its timer.
    pub(super) fn rearm(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(deadline) = self.deadline(ctx) {
            ctx.arm(&mut self.armed, Owner::Stream(id), deadline);
        }
    }

    /// Returns until when it waits: for the next datagram of its source, or for another source.
    pub(super) fn source_until(&self, ctx: &Context) -> Option<Instant> {
        match self.source {
            StreamSource::Held { until } => Some(until),
            StreamSource::Rtp(_) => {
                let of_rtp = self.input.as_ref().map(|input| input.heard);
                let heard = of_rtp.or(self.bare.as_ref().map(|input| input.heard))?;
                Some(heard + ctx.settings().limits.source_idle_time)
            }
            StreamSource::Http(_) | StreamSource::Remuxed | StreamSource::Gone => None,
        }
    }

    /// Returns why it cannot go out over HTTP, if it cannot.
    pub(super) fn http_fault(&self) -> Option<String> {
        let payload_type = self.input.as_ref()?.payload_type;
        (payload_type != PAYLOAD_TYPE_MPEG_TS).then(|| {
            format!("the session's source sends RTP payload type {payload_type}; only type {PAYLOAD_TYPE_MPEG_TS} (MPEG-TS) goes out over HTTP")
        })
    }
}

/// The reason in the log when a stream ends with the server.
pub const SHUT_DOWN: &str = "the server shuts down";
/// Maximal number of bytes of RTMP that are read at once: a message of 4 bytes is a tag of 18.
const RTMP_READ_BYTES_MAX: usize = 8 * 1024;
/// What the end of a stream costs. It closes connections and releases its state.
const STREAM_COST: usize = 8 * 1024;
const ABORTED: &str = "the operator has ended this stream";
const TAKEN_OVER: &str = "another source took over";

/// Logs a fault of a stream's media, and its remedy.
#[cold]
fn log_notice(stream: &Stream, notice: Notice, ctx: &mut Context) {
    let session = stream.session.digest();
    let mut log = |line| ctx.log(Level::Warn, stream.caused_by(), line);
    match notice {
        Notice::LargeGroup => log(format_args!(
            "event=group-larger-than-buffer session={session} detail=\"viewers cannot begin at a key frame; raise --buffer\""
        )),
        Notice::NoJoin => log(format_args!(
            "event=no-join-point session={session} detail=\"there is no place where decoding can begin: viewers get the header and the newest bytes\""
        )),
        Notice::LongGroup => log(format_args!(
            "event=group-longer-than-segment session={session} detail=\"HLS segments end between key frames, where players cannot begin; set the encoder to a fixed key-frame distance, such as ffmpeg's -g 50\""
        )),
        Notice::LongFragment { fragment, segment } => log(format_args!(
            "event=group-longer-than-segment session={session} detail=\"a fragment of MP4 lasts {fragment} s, and an HLS segment at most {segment} s: HLS leaves it out; set the encoder to a fixed key-frame distance, such as ffmpeg's -g 50\""
        )),
        Notice::NeedsFirstByte => log(format_args!(
            "event=no-join-point session={session} detail=\"the fragments count positions from the file's first byte, which late viewers do not have; with ffmpeg, add -movflags +default_base_moof\""
        )),
        Notice::LetGo(format) => log(format_args!(
            "event=format-let-go session={session} format={} detail=\"the stream breaks its container's rules, or its header is too large: viewers begin at the newest byte\"",
            format.name()
        )),
    }
}

impl Streams {
    /// Begins a session's stream with this source, or continues the one that waits for a source.
    pub fn begin_stream(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: StreamSource,
        source_address: SocketAddr,
        ctx: &mut Context,
    ) -> StreamId {
        let now = ctx.now();
        // A source may send any type: browsers must not take a stream for a page of this server.
        let content_type = content_type.as_deref().and_then(http::stream_type);
        if let Some(id) = self.held(&session) {
            self.go_on(id, content_type, source, source_address, ctx);
            return id;
        }
        // Another source has arrived for the session's UDP clients.
        if let Some(id) = self.draining.draining_to_udp(&session) {
            self.end_drain(id, ctx);
        }
        self.make_room_for_stream(&session, ctx);
        ctx.count(Count::Streams, 1);
        let serial = self.serial_next;
        self.serial_next += 1;
        let mut buffer = StreamBuffer::new(ctx.settings().limits.stream, content_type, now);
        if let Some(plan) = self.plan(&session, ctx) {
            buffer.cut_into_segments(plan);
        }
        let limits = &ctx.settings().limits;
        let unit_bytes_max = limits.stream.buffer_bytes / UNIT_PART;
        let is_held = !limits.hold_time.is_zero();
        let from = (source, source_address);
        let stream = self.streams.insert(Stream {
            serial,
            started_unix_seconds: ctx.date().unix_seconds,
            splicer: is_held.then(|| Box::new(Splicer::new(unit_bytes_max))),
            ..Stream::new(session.clone(), from, buffer)
        });
        let what = ServerEvent::StreamBegins {
            id: PublicStreamId {
                run: ctx.run,
                serial,
            },
            source: source_address,
        };
        ctx.emit(&session, &what);
        self.order.insert(serial, stream);
        self.running.insert(session, stream);
        stream
    }

    /// Takes media from a stream's source. If it does not fit the stream, another stream begins:
    /// returns that, and its first bytes.
    #[must_use]
    pub fn append(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<(StreamId, Vec<u8>)> {
        let now = ctx.now();
        let stream = self.streams.get_mut(id)?;
        stream.buffer.count(bytes.len(), now);
        if stream.history.is_due(now) {
            self.take_sample(id, ctx);
        }
        let stream = self.streams.get_mut(id)?;
        if stream.splicer.is_some() {
            return self.splice(id, bytes, ctx);
        }
        self.append_with_remuxed(id, bytes, usize::MAX, ctx);
        None
    }

    /// Passes media to the stream and to the streams that are remuxed from it.
    pub(super) fn append_with_remuxed(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        work_max: usize,
        ctx: &mut Context,
    ) {
        // Streams that are behind read before `bytes` overwrite what they have yet to read.
        let catch_up_bytes_max = READ_PER_BYTE.saturating_mul(bytes.len());
        for remuxed in self.all_remuxed_of(id) {
            self.catch_up(remuxed, catch_up_bytes_max, work_max, ctx);
        }
        self.append_to_one(id, bytes, ctx);
        self.feed_remuxed(id, bytes, ctx);
    }

    /// Appends bytes to a stream, for its viewers and its UDP clients.
    pub(super) fn append_to_one(&mut self, id: StreamId, bytes: &[u8], ctx: &mut Context) {
        let now = ctx.now();
        let Some(stream) = self.streams.get_mut(id).filter(|_| !bytes.is_empty()) else {
            return;
        };
        let was_undecided = stream.buffer.detected() == Detected::Undecided;
        stream
            .buffer
            .append_without_wake(bytes, &mut self.pool, now);
        let scan_work = stream.buffer.take_work();
        let is_original = stream.remuxed.is_none();
        // The output of a remuxer is not counted: its input has been.
        if is_original {
            self.work += scan_work;
        }
        let has_grown = stream.buffer.segments().is_some_and(Cutter::take_grown);
        // The format of a remuxed stream is known from its beginning.
        let is_newly_detected =
            is_original && was_undecided && stream.buffer.detected() != Detected::Undecided;
        if let Some(notice) = stream.buffer.take_notice() {
            log_notice(stream, notice, ctx);
        }
        while let Some(connection) = stream.buffer.take_cut() {
            ctx.notify(Event::CutViewer(connection, CutReason::LostUnit));
        }
        if has_grown {
            ctx.notify(Event::PlaylistGrew(id, stream.session.clone()));
        }
        self.bundle(id, ctx);
        if is_newly_detected {
            ctx.notify(Event::FormatKnown(id));
        }
        let stream = self.streams.get_mut(id);
        if let Some(ts_output) = stream.and_then(|stream| stream.rtp_out.ts_output.as_mut()) {
            self.work += ts_output.feed(bytes, now);
            self.pump(id, ctx);
        }
    }

    /// Lets a stream's new bytes out to its viewers, now or when they have waited for more.
    fn bundle(&mut self, id: StreamId, ctx: &mut Context) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let (count, was_until) = (stream.buffer.unseen_bytes(), stream.bundle.until());
        let media_type = stream.buffer.media_type();
        let new = NewBytes {
            count,
            has_unit_end: stream.buffer.has_unseen_unit_end(),
            viewers: stream.buffer.viewer_count(),
            is_sound: media_type.is_some_and(|media_type| media_type.starts_with("audio/")),
            time_max: ctx.settings().limits.bundle_time,
        };
        // The buffer has made all viewers ready if they were about to lose bytes.
        if count == 0 || stream.bundle.goes(new, ctx.now()) {
            return self.wake_viewers(id, ctx);
        }
        if stream.bundle.until() != was_until {
            stream.rearm(id, ctx);
        }
        // Viewers that have waited for the format do not wait for more.
        if stream.buffer.has_ready() {
            stream.queue_for_writing(id, &mut self.write_queue);
        }
    }

    /// Lets a stream's new bytes out to all its viewers.
    pub(super) fn wake_viewers(&mut self, id: StreamId, ctx: &Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.bundle.went(ctx.now());
            stream.buffer.wake();
            stream.queue_for_writing(id, &mut self.write_queue);
        }
    }

    /// Returns whether this is the stream's source.
    pub fn has_as_source(&self, id: StreamId, source: StreamSource) -> bool {
        self.streams
            .get(id)
            .is_some_and(|stream| stream.source == source)
    }

    /// Ends a stream: its session is free for another source, and its viewers drain.
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
        self.finish_splicing(id, ctx);
        let has_viewers = self.is_watched_in_any_container(id);
        for remuxed in self.all_remuxed_of(id) {
            // A stream that is behind ends when it has caught up.
            if !self.is_catching_up(remuxed) {
                self.end_one_remuxed(remuxed, end, ctx);
            }
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if self.running.get(&stream.session) == Some(&id) {
            self.running.remove(&stream.session);
        }
        self.draining.enter(&stream.session, stream.serial, id);
        let figures = stream.buffer.figures();
        let what = ServerEvent::StreamEnds {
            id: stream.id(ctx.run),
            source: stream.source_address,
            reason,
            bytes_received: figures.bytes_received,
            bytes_sent: figures.bytes_sent,
            skips: figures.skips,
        };
        ctx.emit(&stream.session, &what);
        let source = stream.source;
        let pull = stream.pull.map(|pull| (pull, stream.session.clone()));
        self.detach(id, source, ctx);
        if let Some((pull, session)) = pull {
            ctx.notify(Event::PullEnded {
                pull,
                session,
                end,
                has_viewers,
            });
        }
        self.close_stream(id, end, ctx);
    }

    /// Lets other parts know that a stream has lost this source. Keeps the source's bucket for the
    /// session's next one.
    pub(super) fn detach(&mut self, id: StreamId, source: StreamSource, ctx: &mut Context) {
        self.remove_quota(id, ctx);
        if let StreamSource::Rtp(address) = source {
            ctx.notify(Event::RtpSourceLeft { address, id });
        }
    }

    /// Closes a stream's input. Its viewers and UDP clients still get what the buffer has.
    pub(super) fn close_stream(&mut self, id: StreamId, end: End, ctx: &mut Context) {
        let is_played = self.is_played(id);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.source = StreamSource::Gone;
            stream.rtp_out.finish(stream.buffer.newest(), ctx.now());
            stream.buffer.finish(end);
            if is_played {
                ctx.notify(Event::PlaylistGrew(id, stream.session.clone()));
            }
        }
        self.wake_viewers(id, ctx);
        self.queue_udp_out(id);
        self.pump(id, ctx);
        self.forget_if_over(id, ctx);
    }

    /// Removes a stream that has neither source nor outputs.
    pub(super) fn forget_if_over(&mut self, id: StreamId, ctx: &mut Context) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.source != StreamSource::Gone || !stream.rtp_out.is_over(stream.buffer.newest()) {
            return;
        }
        stream.rtp_out.clear();
        let mut targets = stream.remux_targets.iter();
        if stream.is_watched() || targets.any(|target| target.stream.is_some()) {
            return;
        }
        if let Some(mut stream) = self.streams.remove(id) {
            self.keep_numbers(&mut stream, ctx);
            let figures = stream.buffer.figures();
            ctx.count(Count::BytesReceived, figures.bytes_received);
            ctx.count(Count::BytesSent, figures.bytes_sent);
            ctx.count(Count::Skips, figures.skips);
            ctx.count(Count::UdpBytesSent, stream.rtp_out.udp_out.bytes_sent());
            // Of a block that is returned, about one page of 16 stays.
            ctx.freed(stream.buffer.filled_bytes() / 16);
            ctx.return_memory(RETURN_AFTER);
            stream.buffer.release(&mut self.pool);
            self.work += STREAM_COST;
            ctx.disarm(&mut stream.armed, Owner::Stream(id));
            self.order.remove(&stream.serial);
            if stream.remuxed.is_some() {
                return self.forget_remuxed(&stream, id, ctx);
            }
            let id_over = stream.id(ctx.run);
            ctx.emit(&stream.session, &ServerEvent::StreamOver { id: id_over });
            self.draining.leave(&stream.session, stream.serial);
        }
    }

    /// Reads a paused source again when its stream can take bytes.
    pub(super) fn resume(&mut self, id: StreamId, ctx: &mut Context) {
        let id = self.original_of(id);
        let is_paused = self.streams.get(id).is_some_and(|stream| stream.is_paused);
        if is_paused
            && self.wanted_bytes(id, ctx) > 0
            && let Some(stream) = self.streams.get_mut(id)
        {
            stream.is_paused = false;
            if let StreamSource::Http(connection) = stream.source {
                ctx.act(Action::ReadOn(connection));
            }
        }
    }

    /// Returns how many bytes of a source may be read now; 0 pauses it.
    pub fn source_bytes_wanted(&mut self, id: StreamId, ctx: &mut Context) -> usize {
        let wanted_bytes = self.wanted_bytes(id, ctx);
        let Some(stream) = self.streams.get_mut(id) else {
            return 0;
        };
        stream.is_paused = wanted_bytes == 0;
        let bytes_max = match stream.programme.source.is_by_rtmp {
            true => RTMP_READ_BYTES_MAX,
            false => SOURCE_READ_BYTES_MAX,
        };
        let quota = stream.quota.as_ref();
        let bytes_left = quota.map_or(usize::MAX, |quota| quota.bytes_left(ctx.now()));
        wanted_bytes.min(bytes_max).min(bytes_left)
    }

    /// Handles the loss of a stream's source: the stream waits for another source, or ends. Does
    /// nothing if the stream has another source by now.
    pub fn source_lost(
        &mut self,
        id: StreamId,
        source: StreamSource,
        reason: &'static str,
        ctx: &mut Context,
    ) {
        if self.has_as_source(id, source) {
            self.drop_early(id, ctx);
            if !self.hold(id, reason, ctx) {
                self.end_stream(id, End::Lost, reason, ctx);
            }
        }
    }

    /// Ends a stream whose source is gone for good.
    pub fn end(&mut self, id: StreamId, end: End, reason: &'static str, ctx: &mut Context) {
        self.drop_early(id, ctx);
        self.end_stream(id, end, reason, ctx);
    }

    /// Ends the session's source: another source takes over.
    pub fn end_for_takeover(&mut self, session: &SessionId, ctx: &mut Context) {
        if self.has_source(session)
            && let Some((id, source)) = self.running_source(session)
        {
            self.source_lost(id, source, TAKEN_OVER, ctx);
            Self::dismiss(source, TAKEN_OVER, ctx);
        }
    }

    /// Ends a session's streams at once, running or draining, and disconnects source and viewers.
    /// Returns how many viewers that were.
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

    /// Ends all streams whose source is not a connection. The connections end the others.
    pub fn shut_down(&mut self, ctx: &mut Context) {
        let streams = self.streams.iter();
        let ids = streams.filter(|(_, stream)| {
            !matches!(stream.source, StreamSource::Http(_) | StreamSource::Remuxed)
        });
        for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end(id, End::Complete, SHUT_DOWN, ctx);
        }
    }

    pub(super) fn dismiss(source: StreamSource, reason: &'static str, ctx: &mut Context) {
        if let StreamSource::Http(connection) = source {
            ctx.notify(Event::DismissSource(connection, reason));
        }
    }
}

#[cfg(test)]
mod tests;
