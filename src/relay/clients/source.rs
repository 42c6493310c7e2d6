//! A client, or an origin, whose body is a stream's media.

use serde::Serialize;

use super::pace::Pace;
use super::reading::READ_BYTES_MAX;
use super::request::CONTINUE;
use super::{Clients, Event, Phase, Received, Step};
use crate::gate::SessionId;
use crate::http::{self, Body, Framing, Head, Method, Part, Refusal, Reply, Status};
use crate::moment::Moment;
use crate::relay::desk::Desk;
use crate::relay::pass::Pass;
use crate::relay::streams::SILENT;
use crate::relay::{Action, ConnectionId, LiveId, RETRY_AFTER_SECONDS, icecast};

/// A client, or an origin, whose body is a stream's media.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Source {
    /// Its stream.
    pub live: LiveId,
    body: Body,
    /// What has come of it.
    bytes: u64,
    /// How it is answered; an origin is not.
    pub(super) reply: Option<Reply>,
    /// Bytes since the beginning of the window over which the slowest rate is judged.
    window_bytes: u64,
    window_began: Moment,
    /// How fast it may be, if that is said.
    pace: Option<Pace>,
}

/// The answer to a complete body.
#[derive(Serialize)]
struct Receipt<'a> {
    sessionid: &'a SessionId,
    bytes_received: u64,
}

/// What a source's time may be over for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lapse {
    /// It was as fast as it may be, and may send again.
    Rested,
    /// Nothing has come.
    Silent,
    /// Too little has come.
    TooSlow,
}

impl Lapse {
    /// As the log and who is refused are told of it.
    pub fn words(self) -> &'static str {
        match self {
            Lapse::Rested => "it may send again",
            Lapse::Silent => SILENT,
            Lapse::TooSlow => "its source was too slow",
        }
    }
}

impl Source {
    /// Nothing has come yet. It may be so fast, in bits a second.
    pub fn new(
        live: LiveId,
        (framing, reply): (Framing, Option<Reply>),
        most: Option<u64>,
        now: Moment,
    ) -> Source {
        Source {
            live,
            body: Body::new(framing),
            bytes: 0,
            reply,
            window_bytes: 0,
            window_began: now,
            pace: most.map(|most| Pace::new(most, now)),
        }
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.body.fits() && self.pace.as_ref().is_none_or(Pace::fits)
    }

    /// It was told by another process, which cannot have seen what is to come.
    #[cfg(feature = "handover")]
    pub fn fit(&mut self, now: Moment) {
        self.window_began = self.window_began.min(now);
        self.window_bytes = self.window_bytes.min(u64::MAX / 4);
        self.bytes = self.bytes.min(u64::MAX / 4);
    }

    /// Reads on in its body.
    pub fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Part<'a>, Refusal> {
        self.body.read(input)
    }

    /// Media has come: as it is, or with what is behind it.
    pub fn take<'a>(
        &mut self,
        content: &'a [u8],
        input: &mut &[u8],
        pieces: &'a mut Vec<u8>,
        now: Moment,
    ) -> &'a [u8] {
        let content = gather_pieces(&mut self.body, content, input, pieces);
        if let Some(pace) = &mut self.pace {
            pace.count(content.len(), now);
        }
        self.window_bytes += content.len() as u64;
        self.bytes += content.len() as u64;
        content
    }

    /// What has come of it.
    pub fn received(&self) -> Received {
        Received {
            live: self.live,
            bytes: self.bytes,
            reply: self.reply,
        }
    }

    /// All has come, and so many bytes lie behind it. More than is read ahead of other answers is
    /// not kept: it is the last.
    pub fn complete(&self, bytes_behind: usize) -> Received {
        match bytes_behind > READ_BYTES_MAX {
            true => self.ended(),
            false => self.received(),
        }
    }

    /// All has come, and there will be no other request.
    pub fn ended(&self) -> Received {
        Received {
            reply: self.reply.map(Reply::closing),
            ..self.received()
        }
    }

    /// Whether the end of the connection is that of the media.
    pub fn ends_with_connection(&self) -> bool {
        self.body.ends_with_connection()
    }

    /// Silence, and slowness: over each window of the idle time a source must reach the slowest
    /// rate.
    pub fn deadline(&self, progress: Moment, desk: &Desk) -> (Moment, Lapse) {
        let idle_time = desk.settings().limits.source_idle_time;
        let silent = progress + idle_time;
        let window_ends = self.window_began + idle_time;
        if let Some(rests) = self.pace.as_ref().and_then(Pace::rests) {
            return (rests, Lapse::Rested);
        }
        if silent <= window_ends {
            (silent, Lapse::Silent)
        } else {
            (window_ends, Lapse::TooSlow)
        }
    }

    /// How many bytes may be read of it.
    pub fn appetite(&self, now: Moment) -> usize {
        let pace = self.pace.as_ref();
        pace.map_or(usize::MAX, |pace| pace.appetite(now))
    }

    /// It has been as fast as it may be, and rested for that. The first time says how fast.
    fn go_on(&mut self) -> Option<u64> {
        self.pace.as_mut().and_then(Pace::goes_on)
    }

    /// Whether it is not its own fault how slow it was.
    fn is_slowed(&mut self) -> bool {
        self.pace.as_mut().is_some_and(Pace::take_rested)
    }

    /// Another window begins. Says whether the source was too slow in the one before.
    fn begin_window(&mut self, desk: &Desk) -> bool {
        let limits = &desk.settings().limits;
        let bytes_min =
            limits.source_idle_time.as_secs_f64() * limits.body_bytes_per_second_min as f64;
        let is_too_slow = (self.window_bytes as f64) < bytes_min;
        self.window_bytes = 0;
        self.window_began = desk.now();
        is_too_slow
    }
}

impl Clients {
    /// What a client sends from now on, up to where `framing` says, is this stream's media.
    pub fn publish(
        &mut self,
        id: ConnectionId,
        live: LiveId,
        (head, framing): (&Head, Framing),
        reply: Reply,
        desk: &Desk,
    ) {
        let first = match head.method {
            _ if head.expects_continue => CONTINUE,
            Method::Source => icecast::GO_ON,
            _ => b"",
        };
        let connection = self.connections.get(id);
        let pass = connection.and_then(|connection| connection.pass.as_ref());
        let most = pass.and_then(Pass::bits_per_second_max);
        let source = Source::new(live, (framing, Some(reply)), most, desk.now());
        self.begin(id, Phase::Source(source), first);
    }

    /// A source's media goes to another stream from now on.
    pub fn turn_source(&mut self, id: ConnectionId, live: LiveId) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::Source(source) = &mut connection.phase
        {
            source.live = live;
        }
    }

    /// All of a source's media has come, and its stream has ended.
    pub fn thank(
        &mut self,
        id: ConnectionId,
        session: &SessionId,
        received: Received,
        desk: &mut Desk,
    ) {
        let Some(reply) = received.reply else {
            return self.close(id, desk);
        };
        // A key does not tell what it opens.
        let name = self.came_by(id).unwrap_or(session);
        let body = Receipt {
            sessionid: name,
            bytes_received: received.bytes,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let fields = [("Cache-Control", "no-store")];
        let bytes = http::whole(Status::Ok, &reply, "application/json", &fields, &[&body]);
        self.respond(id, Some(Status::Ok), bytes, reply.keep_alive, desk);
    }

    /// A source whose stream has ended learns why, and is let go.
    fn dismiss_source(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reply: Option<Reply>,
        desk: &mut Desk,
    ) {
        match reply {
            Some(reply) => self.refuse(id, refusal, reply.closing(), desk),
            None => self.close(id, desk),
        }
    }

    /// The server shuts down. Says whose source it was.
    pub(super) fn end_source(
        &mut self,
        id: ConnectionId,
        received: Received,
        desk: &mut Desk,
    ) -> LiveId {
        let detail = "the server is shutting down";
        let refusal = Refusal::busy(Status::ServiceUnavailable, detail, RETRY_AFTER_SECONDS);
        self.dismiss_source(id, &refusal, received.reply, desk);
        received.live
    }

    /// A source's body cannot be read.
    pub(super) fn refuse_media(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        desk: &mut Desk,
    ) -> Step<'static> {
        let lost = self.lose_source(id, refusal, "its chunks are malformed", desk);
        lost.map_or(Step::Stop, Step::Came)
    }

    /// A source is let go before its time.
    pub(super) fn lose_source(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reason: &'static str,
        desk: &mut Desk,
    ) -> Option<Event> {
        let Phase::Source(source) = &self.connections.get(id)?.phase else {
            return None;
        };
        let Received { live, reply, .. } = source.received();
        self.dismiss_source(id, refusal, reply, desk);
        Some(Event::SourceLost { live, reason })
    }

    /// A source's deadline has come. If its stream is not paused, it may be at fault.
    pub(super) fn source_due(
        &mut self,
        id: ConnectionId,
        lapse: Lapse,
        is_paused: impl Fn(LiveId) -> bool,
        desk: &mut Desk,
    ) -> Option<Event> {
        let connection = self.connections.get_mut(id)?;
        let Phase::Source(source) = &mut connection.phase else {
            return None;
        };
        if lapse == Lapse::Rested {
            let live = source.live;
            desk.act(Action::ReadOn(id));
            let most = source.go_on()?;
            return Some(Event::Slowed { live, most });
        }
        let is_too_slow = source.begin_window(desk);
        let is_paused = is_paused(source.live) || source.is_slowed();
        if is_paused {
            connection.progress = desk.now();
        }
        if is_paused || !(lapse == Lapse::Silent || is_too_slow) {
            return None;
        }
        let reason = lapse.words();
        let refusal = Refusal::new(Status::RequestTimeout, reason);
        self.lose_source(id, &refusal, reason, desk)
    }
}

/// Pieces of a body that are shorter are put together before the stream has them, up to the other.
const SMALL_PIECE_BYTES: usize = 1024;
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// A piece of a body as it is; or, if it is small, with those behind it that are small and have
/// come too. A stream takes some hundred instructions for whatever it is given, and a byte may be a
/// chunk.
fn gather_pieces<'a>(
    body: &mut Body,
    first: &'a [u8],
    input: &mut &[u8],
    pieces: &'a mut Vec<u8>,
) -> &'a [u8] {
    if first.len() >= SMALL_PIECE_BYTES || input.is_empty() {
        return first;
    }
    pieces.clear();
    pieces.extend_from_slice(first);
    while pieces.len() < GATHERED_BYTES_MAX {
        let (mut behind, mut rest) = (body.clone(), *input);
        match behind.read(&mut rest) {
            Ok(Part::Content(piece)) if piece.len() < SMALL_PIECE_BYTES => {
                pieces.extend_from_slice(piece);
                (*body, *input) = (behind, rest);
            }
            // It is read again when these have been taken.
            Ok(_) | Err(_) => break,
        }
    }
    pieces
}
