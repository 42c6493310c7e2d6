//! A stream that is being relayed: whose it is, where its media comes from, and the stream itself;
//! how it begins, takes media, loses its source, ends, and is forgotten.

use std::net::SocketAddr;
use std::time::Duration;

use super::Said;
use super::Streams;
use super::bare::BareInput;
use super::cast::{Cast, Shadow};
use super::rtp::RtpInput;
use super::rtp_out::RtpOut;
use super::turns::Line;
use super::{Cut, Cuts, Feed};
use crate::format::Format;
use crate::format::splice::Splicer;
use crate::format::splice::Unlike;
use crate::gate::SessionId;
use crate::held::string_bytes;
use crate::hls::{Cutter, Plan};
use crate::http;
use crate::moment::Moment;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::happening::Happening;
use crate::relay::quota::Quota;
use crate::relay::timers::{Armed, Owner};
use crate::relay::viewer_id::StreamId;
use crate::relay::{Action, ConnectionId, Level, LiveId, PullId, SOURCE_READ_BYTES_MAX};
use crate::remux::Remuxer;
use crate::rtp::PAYLOAD_TYPE_MPEG_TS;
use crate::stream::{End, Notice, Stream, Told};

/// A stream with its source. It lasts until both the source and the last outlet are gone.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Live {
    pub(super) session: SessionId,
    /// Its place in the order in which streams began.
    pub(super) serial: u64,
    pub(super) source: Feed,
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
    /// The same, if that is datagrams without RTP.
    pub(super) bare: Option<Box<BareInput>>,
    /// What its source may send, if a token says how fast.
    pub(super) quota: Option<Quota>,
    /// Somebody has asked for its playlist, or a segment, and is taken to watch until then.
    pub(super) attended_until: Option<Moment>,
    /// Viewers that were cut.
    pub(super) cuts: Cuts,
    /// Its UDP clients and what is on its way to them.
    pub(super) rtp_out: RtpOut,
    /// Where it stands among the streams that have something for their viewers.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) line: Option<Line>,
    /// What had come of it when it last took its place there, or left.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) lined_up: u64,
    /// Its source is not read until its viewers have caught up.
    pub(super) is_paused: bool,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) armed: Armed,
    /// It in other containers.
    pub(super) casts: Vec<Cast>,
    /// There was no room for the one that its UDP clients want: it is tried again then.
    pub(super) cast_again_at: Option<Moment>,
    /// What makes it, if it is another stream in another container.
    pub(super) shadow: Option<Shadow>,
}

impl Live {
    /// One with this source, of which nothing else is known yet.
    fn new(
        session: SessionId,
        (source, source_address): (Feed, SocketAddr),
        stream: Stream<ConnectionId>,
    ) -> Live {
        Live {
            session,
            serial: 0,
            source,
            source_address,
            started_unix_seconds: 0,
            stream,
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
    pub(super) fn shadow(&self, serial: u64, stream: Stream<ConnectionId>, shadow: Shadow) -> Live {
        let from = (Feed::Shadow, self.source_address);
        Live {
            serial,
            via: self.via.clone(),
            shadow: Some(shadow),
            ..Live::new(self.session.clone(), from, stream)
        }
    }

    /// Bytes that its allocations take, its name's included.
    pub(super) fn held_bytes(&self) -> usize {
        let splicer = self.splicer.as_deref();
        let splicer = splicer.map_or(0, |splicer| size_of::<Splicer>() + splicer.held_bytes());
        let input = self.input.as_deref().map_or(0, RtpInput::held_bytes)
            + self.bare.as_deref().map_or(0, BareInput::held_bytes);
        self.session.held_bytes()
            + self.stream.held_bytes()
            + splicer
            + input
            + self.rtp_out.held_bytes()
            + string_bytes(self.via.as_ref())
            + string_bytes(self.source_type.as_ref())
            + self.casts.iter().map(Cast::held_bytes).sum::<usize>()
            + self.shadow.as_ref().map_or(0, Shadow::held_bytes)
    }

    /// Whether anybody watches it, be it by playlists and segments.
    pub(super) fn is_watched(&self) -> bool {
        self.stream.viewer_count() > 0 || self.attended_until.is_some()
    }

    /// Whether anybody gets anything of it, by whichever way.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_watched() || self.rtp_out.post.client_count() > 0
    }

    /// Whether it waits for a source.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.source, Feed::Held { .. })
    }

    /// Whether its viewers wait: for a source, or for one that has come to show where it goes on.
    pub(super) fn has_waiting_viewers(&self) -> bool {
        self.splicer.as_deref().is_some_and(Splicer::is_joining)
    }

    /// Why it cannot go out by RTP, if it cannot.
    pub(super) fn rtp_fault(&self, desk: &Desk) -> Option<&str> {
        match self.stream.told() {
            _ if self.input.is_some() => None,
            Told::Undecided | Told::Known(Format::MpegTs) => None,
            Told::Known(format) if desk.settings().remuxes && Remuxer::reads(format) => {
                if self.cast_again_at.is_some() {
                    return Some("to make it MPEG-TS takes one more --buffer than is left");
                }
                let target = |cast: &&Cast| cast.target.format() == Format::MpegTs;
                self.casts.iter().find(target)?.fault.as_deref()
            }
            Told::Known(_) | Told::Unknown => Some("not MPEG-TS"),
        }
    }

    /// Whether it is not known yet what its bytes are, and may come out.
    pub(super) fn is_undecided(&self) -> bool {
        self.stream.told() == Told::Undecided && self.stream.end().is_none()
    }

    /// Whether it has UDP clients that get nothing yet, and may be MPEG-TS from a body.
    pub(super) fn needs_transport(&self) -> bool {
        let may_be_transport = matches!(
            self.stream.told(),
            Told::Undecided | Told::Known(Format::MpegTs)
        );
        let is_datagrams = matches!(self.source, Feed::Rtp(_)) || self.input.is_some();
        let is_wanted = self.rtp_out.post.client_count() > 0 && self.rtp_out.transport.is_none();
        let has_ended = self.stream.end().is_some();
        is_wanted && may_be_transport && !has_ended && (self.bare.is_some() || !is_datagrams)
    }

    /// When the newest datagram of its source came, if it has such a source.
    pub(super) fn heard(&self) -> Option<Moment> {
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
pub(super) fn plan(desk: &mut Desk) -> Option<Plan> {
    desk.settings().serves_hls.then(|| Plan {
        segment: desk.settings().limits.hls_segment_time,
        buffer_bytes: 0,
        tag: desk.draw() as u32,
        started: Duration::from_secs(desk.settings().started_unix_seconds),
        began: desk.now(),
        number_min: 0,
    })
}

impl Streams {
    /// The session has a source: its stream begins, or goes on if it waits for one.
    pub fn begin_live(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: Feed,
        source_address: SocketAddr,
        desk: &mut Desk,
    ) -> LiveId {
        let now = desk.now();
        // Whoever the source is, its stream is no document of this server's.
        let content_type = content_type.as_deref().and_then(http::stream_type);
        if let Some(id) = self.held(&session) {
            self.go_on(id, content_type, source, source_address, desk);
            return id;
        }
        // Who has watched by a playlist what is given out still goes on with this.
        let draining = self.draining.of(&session);
        let before: Vec<LiveId> = draining.flat_map(|id| self.with_shadows(id)).collect();
        let number = |id| Some(self.lives.get_mut(id)?.stream.segments()?.next_number());
        let number_min = before.into_iter().filter_map(number).max().unwrap_or(0);
        self.end_rest_of(&session, desk);
        self.make_room_for_stream(&session, desk);
        desk.count(Count::Streams, 1);
        let serial = self.live_serial_next;
        self.live_serial_next += 1;
        desk.log(
            Level::Info,
            format_args!(
                "event=stream-begins session={} source={source_address}",
                session.digest()
            ),
        );
        let mut stream = Stream::new(desk.settings().limits.stream, content_type, now);
        if let Some(plan) = plan(desk) {
            stream.cut_into_segments(Plan { number_min, ..plan });
        }
        let from = (source, source_address);
        let live = self.lives.insert(Live {
            serial,
            started_unix_seconds: desk.date().0.unix_seconds,
            splicer: self.new_splicer(desk),
            ..Live::new(session.clone(), from, stream)
        });
        let what = Happening::StreamBegins {
            id: StreamId {
                run: desk.run(),
                serial,
            },
            source: source_address,
        };
        desk.tell(&session, &what);
        self.order.insert(serial, live);
        self.running.insert(session, live);
        live
    }

    /// Media has arrived from a stream's source. It may be unlike what came before: then another
    /// stream has begun, for which these bytes are the first.
    #[must_use]
    pub fn append(
        &mut self,
        id: LiveId,
        bytes: &[u8],
        desk: &mut Desk,
    ) -> Option<(LiveId, Vec<u8>)> {
        let Unlike(bytes) = self.take_media(id, bytes, desk)?;
        Some((self.begin_anew(id, desk)?, bytes))
    }

    /// Media has arrived from a stream's source. It may be unlike what came before: then these
    /// bytes are the first of another stream.
    #[must_use]
    pub(super) fn take_media(
        &mut self,
        id: LiveId,
        bytes: &[u8],
        desk: &mut Desk,
    ) -> Option<Unlike> {
        let now = desk.now();
        let live = self.lives.get_mut(id)?;
        live.stream.count(bytes.len(), now);
        let Some(splicer) = &mut live.splicer else {
            self.pass_on(id, bytes, desk);
            return None;
        };
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.pass_on(id, &spliced, desk);
        spliced.clear();
        // A large unit was one stream's: its room is not kept for all.
        spliced.shrink_to(SOURCE_READ_BYTES_MAX);
        self.spliced = spliced;
        fed.err()
    }

    /// What has become of it goes on to all who want it, in whichever container.
    fn pass_on(&mut self, id: LiveId, bytes: &[u8], desk: &mut Desk) {
        self.make_way(id, bytes.len(), desk);
        self.give(id, bytes, desk);
        self.feed_shadows(id, bytes, desk);
    }

    /// A stream has these bytes, and so have its viewers and its UDP clients.
    pub(super) fn give(&mut self, id: LiveId, bytes: &[u8], desk: &mut Desk) {
        let now = desk.now();
        let Some(live) = self.lives.get_mut(id).filter(|_| !bytes.is_empty()) else {
            return;
        };
        let was_undecided = live.stream.told() == Told::Undecided;
        live.stream.append(bytes, &mut self.pool, now);
        let has_grown = live.stream.segments().is_some_and(Cutter::take_grown);
        // A shadow is what it was made to be.
        let is_told = was_undecided && live.stream.told() != Told::Undecided;
        let is_told = is_told && live.shadow.is_none();
        let notice = live.stream.take_notice();
        let digest = live.session.digest();
        match notice {
            None => {}
            Some(Notice::LargeGroup) => desk.log(Level::Warn, format_args!("event=group-larger-than-buffer session={digest} detail=\"viewers cannot begin at a key frame; raise --buffer\"")),
            Some(Notice::NoJoin) => desk.log(Level::Warn, format_args!("event=no-join-point session={digest} detail=\"nothing has come at which decoding can begin: viewers get the header and what comes\"")),
            Some(Notice::LongGroup) => desk.log(Level::Warn, format_args!("event=group-longer-than-segment session={digest} detail=\"segments end within groups of pictures, where players cannot begin; let the encoder make key frames at a fixed distance\"")),
            Some(Notice::NeedsFirstByte) => desk.log(Level::Warn, format_args!("event=no-join-point session={digest} detail=\"its fragments count positions from the file's first byte, which late viewers do not have; with ffmpeg, add -movflags +default_base_moof\"")),
            Some(Notice::LetGo(format)) => desk.log(Level::Warn, format_args!(
                "event=format-let-go session={digest} format={} detail=\"not well-formed, or a header larger than is kept: viewers begin at the live edge\"",
                format.name()
            )),
        }
        while let Some(connection) = self
            .lives
            .get_mut(id)
            .and_then(|live| live.stream.take_cut())
        {
            self.say(Said::Cut(connection, Cut::LostUnit));
        }
        if has_grown {
            self.say(Said::Grown(id));
        }
        self.flow(id);
        if is_told {
            self.say(Said::Shown(id));
        }
        self.feed_rtp_out(id, bytes, desk);
    }

    /// Whether that is where its media comes from.
    pub fn has_as_source(&self, id: LiveId, source: Feed) -> bool {
        self.lives.get(id).is_some_and(|live| live.source == source)
    }

    /// The stream has no source any more: its session is free, its viewers drain.
    pub(super) fn end_stream(
        &mut self,
        id: LiveId,
        end: End,
        reason: &'static str,
        desk: &mut Desk,
    ) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if live.stream.end().is_some() {
            return;
        }
        if let Some(splicer) = &mut live.splicer {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.pass_on(id, &rest, desk);
        }
        let has_viewers = self.is_seen(id);
        self.end_shadows(id, end, desk);
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let (source, pull) = (live.source, live.pull);
        let known_as = live.id(desk.run());
        let session = live.session.clone();
        let figures = live.stream.figures();
        if self.running.get(&session) == Some(&id) {
            self.running.remove(&session);
        }
        self.draining.enter(&session, live.serial, id);
        desk.log(
            Level::Info,
            format_args!(
                "event=stream-ends session={} reason=\"{reason}\" bytes_received={} bytes_sent={} skips={}",
                session.digest(),
                figures.bytes_received,
                figures.bytes_sent,
                figures.skips
            ),
        );
        let what = Happening::StreamEnds {
            id: known_as,
            reason,
            bytes_received: figures.bytes_received,
            bytes_sent: figures.bytes_sent,
            skips: figures.skips,
        };
        desk.tell(&session, &what);
        self.keep_bucket(id, desk.now());
        self.say(Said::SourceLeft { source, id });
        if let Some(pull) = pull {
            self.say(Said::PullOver {
                pull,
                end,
                has_viewers,
            });
        }
        self.close_stream(id, end, desk);
    }

    /// Nothing more comes of a stream: what there is goes out still.
    pub(super) fn close_stream(&mut self, id: LiveId, end: End, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id) {
            live.source = Feed::Gone;
            live.rtp_out.finish(live.stream.newest(), desk.now());
            live.stream.finish(end);
        }
        self.say(Said::Grown(id));
        self.flow(id);
        self.post(id);
        self.pump(id, desk);
        self.forget_if_over(id, desk);
    }

    /// A stream is over when neither source nor outlet is left.
    pub(super) fn forget_if_over(&mut self, id: LiveId, desk: &mut Desk) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if live.source != Feed::Gone || !live.rtp_out.is_over(live.stream.newest()) {
            return;
        }
        live.rtp_out.clear();
        let has_shadows = live.casts.iter().any(|cast| cast.live.is_some());
        if live.is_watched() || has_shadows {
            return;
        }
        if let Some(mut live) = self.lives.remove(id) {
            let figures = live.stream.figures();
            desk.count(Count::BytesReceived, figures.bytes_received);
            desk.count(Count::BytesSent, figures.bytes_sent);
            desk.count(Count::Skips, figures.skips);
            desk.count(Count::UdpBytesSent, live.rtp_out.post.bytes_sent());
            desk.freed(live.stream.filled_bytes());
            live.stream.release(&mut self.pool);
            desk.disarm(&mut live.armed, Owner::Live(id));
            self.order.remove(&live.serial);
            if live.shadow.is_some() {
                return self.forget_shadow(&live, id, desk);
            }
            let id_told = live.id(desk.run());
            desk.tell(&live.session, &Happening::StreamOver { id: id_told });
            self.draining.leave(&live.session, live.serial);
        }
    }

    /// The viewers who were behind have what there is: the source is read on.
    pub(super) fn resume(&mut self, id: LiveId, desk: &mut Desk) {
        let id = self.original_of(id);
        let is_ahead = self.is_ahead(id, desk);
        let wanted_bytes = self.wanted_bytes(id);
        if let Some(live) = self.lives.get_mut(id)
            && live.is_paused
            && !is_ahead
            && wanted_bytes > 0
        {
            live.is_paused = false;
            if let Feed::Http(connection) = live.source {
                desk.act(Action::ReadOn(connection));
            }
        }
    }

    /// How many bytes of a source are wanted.
    pub fn source_appetite(&mut self, id: LiveId, desk: &mut Desk) -> usize {
        let is_ahead = self.is_ahead(id, desk);
        let wanted_bytes = self.wanted_bytes(id);
        let Some(live) = self.lives.get_mut(id) else {
            return 0;
        };
        live.is_paused = wanted_bytes == 0 || is_ahead;
        if live.is_paused {
            0
        } else {
            let wanted_bytes = SOURCE_READ_BYTES_MAX.min(wanted_bytes);
            wanted_bytes.min(live.bytes_left(desk.now()))
        }
    }
}

impl Streams {
    /// A stream's source is gone before its time, unless it is not its source any more: the stream
    /// waits for another, or ends.
    pub fn source_lost(&mut self, id: LiveId, source: Feed, reason: &'static str, desk: &mut Desk) {
        if self.has_as_source(id, source) {
            self.finish_reorder(id, desk);
        }
        // What came early may have been the end of it.
        if self.has_as_source(id, source) && !self.hold(id, reason, desk) {
            self.end_stream(id, End::Lost, reason, desk);
        }
    }

    /// A stream's source is gone for good.
    pub fn end(&mut self, id: LiveId, end: End, reason: &'static str, desk: &mut Desk) {
        self.finish_reorder(id, desk);
        self.end_stream(id, end, reason, desk);
    }

    /// Another source takes the place of a session's, if that has one.
    pub fn end_for_takeover(&mut self, session: &SessionId, desk: &mut Desk) {
        if self.has_source(session)
            && let Some((id, source)) = self.running_source(session)
        {
            self.source_lost(id, source, TAKEN_OVER, desk);
            self.dismiss(source, TAKEN_OVER);
        }
    }

    /// Ends a session's stream at once, and what drains of those before: source and viewers are
    /// disconnected. Says how many viewers that were.
    pub fn abort(&mut self, session: &SessionId, desk: &mut Desk) -> Option<usize> {
        let running = self.running_source(session);
        if let Some((id, source)) = running {
            self.end(id, End::Lost, ABORTED, desk);
            self.dismiss(source, ABORTED);
        }
        let draining: Vec<LiveId> = self.draining.of(session).collect();
        if running.is_none() && draining.is_empty() {
            return None;
        }
        let viewers = draining
            .into_iter()
            .map(|id| self.cut_off(id, ABORTED, desk));
        Some(viewers.sum())
    }

    /// The server shuts down: streams end whose source is no connection that could be ended.
    pub fn shut_down(&mut self, desk: &mut Desk) {
        let lives = self.lives.iter();
        let ids = lives.filter(|(_, live)| !matches!(live.source, Feed::Http(_) | Feed::Shadow));
        for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end(id, End::Complete, SHUT_DOWN, desk);
        }
    }

    fn dismiss(&mut self, source: Feed, reason: &'static str) {
        if let Feed::Http(connection) = source {
            self.say(Said::Dismissed(connection, reason));
        }
    }
}

#[cfg(test)]
mod tests;
