//! A stream that is being relayed: whose it is, where its media comes from, and the stream itself;
//! how it begins, takes media, loses its source, ends, and is forgotten.

use std::net::SocketAddr;

use serde::Serialize;

use super::outlet::Outlet;
use super::timers::{Armed, Owner};
use super::udp::RtpInput;
use super::{
    Action, ConnectionId, Level, LiveId, PullId, RETURN_BYTES, Relay, SOURCE_READ_BYTES_MAX,
};
use crate::format::Format;
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::http;
use crate::moment::Moment;
use crate::rtp::{Disorder, PAYLOAD_TYPE_MPEG_TS};
use crate::stream::{End, Figures, Notice, Stream, Told};

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
    skips: u64,
    cuts: Cuts,
    rtp: Option<&'static str>,
}

#[derive(Serialize)]
struct RowSource {
    protocol: &'static str,
    address: String,
    /// Of RTP that is put in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Disorder>,
}

impl Live {
    /// Whether it waits for a source.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.source, Origin::Awaited { .. })
    }

    /// Whether its viewers wait: for a source, or for one that has come to show where it goes on.
    pub(super) fn has_waiting_viewers(&self) -> bool {
        self.splicer.as_deref().is_some_and(Splicer::is_joining)
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

    fn row_source(&self) -> RowSource {
        let input = self.input.as_ref();
        RowSource {
            protocol: if input.is_some() { "rtp-udp" } else { "http" },
            address: self.source_address.to_string(),
            packets: input
                .filter(|input| input.payload_type == PAYLOAD_TYPE_MPEG_TS)
                .map(|input| input.reorder.disorder()),
        }
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
            source: (self.source != Origin::Gone).then(|| self.row_source()),
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
            bytes_sent: bytes_sent + self.outlet.bytes_sent,
            viewers: self.stream.viewer_count(),
            udp_clients: self.outlet.clients.len(),
            skips,
            cuts: self.cuts,
            rtp: self.rtp_fault(),
        }
    }
}

/// Why a stream ends whose source is sound.
pub(super) const SHUT_DOWN: &str = "the server shuts down";
const ABORTED: &str = "it was aborted";

impl Relay {
    /// The session has a source: its stream begins, or goes on if it waits for one.
    pub(super) fn begin_live(
        &mut self,
        session: SessionId,
        content_type: Option<String>,
        source: Origin,
        source_address: SocketAddr,
    ) -> LiveId {
        let now = self.desk.now;
        // Whoever the source is, its stream is no document of this server's.
        let content_type = content_type.as_deref().and_then(http::stream_type);
        if let Some(id) = self.held(&session) {
            self.go_on(id, content_type, source, source_address);
            return id;
        }
        self.end_rests(&session);
        self.make_room_for_stream(&session);
        self.desk.counts.streams += 1;
        let serial = self.live_serial_next;
        self.live_serial_next += 1;
        self.desk.log(
            Level::Info,
            format_args!(
                "event=stream-begins session={} source={source_address}",
                session.digest()
            ),
        );
        let live = self.lives.insert(Live {
            session: session.clone(),
            serial,
            source,
            source_address,
            started_unix_seconds: self.desk.date().unix_seconds,
            stream: Stream::new(self.desk.settings.limits.stream, content_type, now),
            pull: None,
            via: None,
            splicer: self.new_splicer(),
            source_type: None,
            input: None,
            outlet: Outlet::default(),
            cuts: Cuts::default(),
            is_flowing: false,
            is_paused: false,
            armed: Armed::default(),
        });
        self.order.insert(serial, live);
        self.running.insert(session, live);
        self.refresh_clients(live);
        live
    }

    /// Media has arrived from a stream's source.
    pub(super) fn append(&mut self, id: LiveId, bytes: &[u8]) {
        let now = self.desk.now;
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        live.stream.count(bytes.len(), now);
        let Some(splicer) = &mut live.splicer else {
            return self.pass_on(id, bytes);
        };
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.pass_on(id, &spliced);
        spliced.clear();
        // A large unit was one stream's: its room is not kept for all.
        spliced.shrink_to(SOURCE_READ_BYTES_MAX);
        self.spliced = spliced;
        if let Err(unlike) = fed {
            self.begin_anew(id, unlike);
        }
    }

    /// What has become of it goes on to all who want it.
    fn pass_on(&mut self, id: LiveId, bytes: &[u8]) {
        let now = self.desk.now;
        let Some(live) = self.lives.get_mut(id).filter(|_| !bytes.is_empty()) else {
            return;
        };
        let was_undecided = live.stream.told() == Told::Undecided;
        live.stream.append(bytes, &mut self.pool, now);
        let is_told = was_undecided && live.stream.told() != Told::Undecided;
        let notice = live.stream.take_notice();
        let digest = live.session.digest();
        match notice {
            None => {}
            Some(Notice::LargeGroup) => self.desk.log(Level::Warn, format_args!("event=group-larger-than-buffer session={digest} detail=\"viewers cannot begin at a key frame; raise --buffer\"")),
            Some(Notice::NoJoin) => self.desk.log(Level::Warn, format_args!("event=no-join-point session={digest} detail=\"nothing has come at which decoding can begin: viewers get the header and what comes\"")),
            Some(Notice::LetGo(format)) => self.desk.log(Level::Warn, format_args!(
                "event=format-let-go session={digest} format={} detail=\"not well-formed, or a header larger than is kept: viewers begin at the live edge\"",
                format.name()
            )),
        }
        while let Some(connection) = self
            .lives
            .get_mut(id)
            .and_then(|live| live.stream.take_cut())
        {
            self.cut_viewer(connection, Cut::LostUnit);
        }
        self.flow(id);
        if is_told {
            self.tell_of_transport(id);
        }
        self.feed_outlet(id, bytes);
    }

    /// A stream's source is gone before its time, unless it is not its source any more: the stream
    /// waits for another, or ends.
    pub(super) fn source_lost(&mut self, id: LiveId, source: Origin, reason: &'static str) {
        let is_its = |live: &Live| live.source == source;
        if !self.lives.get(id).is_some_and(is_its) {
            return;
        }
        self.finish_reorder(id);
        if self.lives.get(id).is_some_and(is_its) && !self.hold(id, reason) {
            self.end_live(id, End::Lost, reason);
        }
    }

    /// The stream has no source any more: its session is free, its viewers drain.
    pub(super) fn end_live(&mut self, id: LiveId, end: End, reason: &'static str) {
        let now = self.desk.now;
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if live.stream.end().is_some() {
            return;
        }
        self.finish_reorder(id);
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if let Some(splicer) = &mut live.splicer {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.pass_on(id, &rest);
        }
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let source = std::mem::replace(&mut live.source, Origin::Gone);
        live.outlet.finish(live.stream.newest(), now);
        live.stream.finish(end);
        let pull = live.pull;
        let session = live.session.clone();
        let figures = live.stream.figures();
        if self.running.get(&session) == Some(&id) {
            self.running.remove(&session);
        }
        self.draining.enter(&session, live.serial, id);
        self.desk.log(
            Level::Info,
            format_args!(
                "event=stream-ends session={} reason=\"{reason}\" bytes_received={} bytes_sent={} skips={}",
                session.digest(),
                figures.bytes_received,
                figures.bytes_sent,
                figures.skips
            ),
        );
        if let Origin::Rtp(address) = source {
            self.forget_rtp_source(address, id);
        }
        if let Some(pull) = pull {
            self.pulled_stream_ended(pull, end);
        }
        self.flow(id);
        self.pump(id);
        self.forget_if_over(id);
    }

    /// Ends a session's stream at once, and what drains of those before: source and viewers are
    /// disconnected. Says how many viewers that were.
    pub(super) fn end_session(&mut self, session: &SessionId) -> Option<usize> {
        let running = self.running.get(session).copied();
        if let Some(id) = running {
            let source = self.lives.get(id).map(|live| live.source);
            self.end_live(id, End::Lost, ABORTED);
            if let Some(Origin::Http(connection)) = source {
                self.close(connection);
            }
            self.drop_pull(session);
        }
        let draining: Vec<LiveId> = self.draining.of(session).collect();
        if running.is_none() && draining.is_empty() {
            return None;
        }
        let viewers = draining.into_iter().map(|id| self.cut_off(id, ABORTED));
        Some(viewers.sum())
    }

    /// Nobody is admitted to the session until then, whether it runs or not; who waits for it is
    /// told so.
    pub(super) fn block_session(&mut self, session: &SessionId, until: Moment) {
        let now = self.desk.now;
        self.blocks.add(session, until, now);
        self.drop_pull(session);
        self.admit_waiting(session);
    }

    /// The server shuts down: streams end whose source is no connection that could be ended.
    pub(super) fn end_without_connection(&mut self) {
        let lives = self.lives.iter();
        let ids = lives.filter(|(_, live)| !matches!(live.source, Origin::Http(_)));
        for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end_live(id, End::Complete, SHUT_DOWN);
        }
    }

    /// A stream is over when neither source nor outlet is left.
    pub(super) fn forget_if_over(&mut self, id: LiveId) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if live.source != Origin::Gone || !live.outlet.is_over(live.stream.newest()) {
            return;
        }
        live.outlet.clear();
        if live.stream.viewer_count() > 0 {
            return;
        }
        if let Some(mut live) = self.lives.remove(id) {
            let figures = live.stream.figures();
            self.desk.counts.past.bytes_received += figures.bytes_received;
            self.desk.counts.past.bytes_sent += figures.bytes_sent;
            self.desk.counts.past.skips += figures.skips;
            self.desk.counts.past_udp_bytes += live.outlet.bytes_sent;
            self.freed_bytes += live.stream.pool_bytes();
            live.stream.release(&mut self.pool);
            if self.freed_bytes >= RETURN_BYTES {
                self.freed_bytes = 0;
                self.desk.actions.push_back(Action::ReturnMemory);
            }
            self.order.remove(&live.serial);
            self.desk.timers.disarm(&mut live.armed, Owner::Live(id));
            self.draining.leave(&live.session, live.serial);
        }
    }

    /// The viewers who were behind have what there is: the source is read on.
    pub(super) fn resume(&mut self, id: LiveId) {
        let is_held_back = self.is_held_back(id);
        if let Some(live) = self.lives.get_mut(id)
            && live.is_paused
            && !is_held_back
            && live.stream.wanted_bytes(&self.pool) > 0
        {
            live.is_paused = false;
            if let Origin::Http(connection) = live.source {
                self.desk.actions.push_back(Action::ReadOn(connection));
            }
        }
    }

    /// How many bytes of a source are wanted.
    pub(super) fn source_appetite(&mut self, id: LiveId) -> usize {
        let is_held_back = self.is_held_back(id);
        let Some(live) = self.lives.get_mut(id) else {
            return 0;
        };
        let wanted_bytes = live.stream.wanted_bytes(&self.pool);
        live.is_paused = wanted_bytes == 0 || is_held_back;
        if live.is_paused {
            0
        } else {
            SOURCE_READ_BYTES_MAX.min(wanted_bytes)
        }
    }
}
