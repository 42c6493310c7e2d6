//! The streams: the sessions that run, what drains of those that have ended, whose turn it is to
//! go out, and the bound on all buffers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use super::counts::Count;
use super::desk::Desk;
use super::draining::Draining;
use super::frame::Frame;
use super::live::{Cut, Live, Origin, Row};
use super::metrics::Sums;
use super::outlet::ClientFigures;
use super::timers::Owner;
use super::turns::Turns;
use super::{ConnectionId, Limits, LiveId, PullId};
use crate::gate::SessionId;
use crate::held::{hash_map_bytes, tree_map_bytes};
use crate::moment::Moment;
use crate::slots::Slots;
use crate::stream::{End, Figures, Pool};

pub(super) struct Streams {
    pub lives: Slots<Live>,
    pub running: HashMap<SessionId, LiveId>,
    pub draining: Draining,
    /// All of them in the order in which they began.
    pub order: BTreeMap<u64, LiveId>,
    pub live_serial_next: u64,
    pub pool: Pool,
    /// Streams with something for their viewers.
    pub turns: Turns,
    pub frame: Frame,
    /// What goes out of the bytes that a source sent just now, where streams are held.
    pub spliced: Vec<u8>,
    /// Streams with datagrams for their UDP clients.
    pub posting: VecDeque<LiveId>,
    /// Whose datagrams were lent last.
    pub posted: Option<LiveId>,
    said: VecDeque<Said>,
}

/// Figures have no rows for thousands of clients.
const UDP_CLIENTS_SHOWN_MAX: usize = 256;

/// What the streams say.
pub(super) enum Said {
    /// This viewer cannot go on with its stream.
    Cut(ConnectionId, Cut),
    /// What this viewer was watching is cut off.
    CutOff(ConnectionId),
    /// A stream has lost its source.
    SourceLeft { source: Origin, id: LiveId },
    /// A stream that was fetched has ended so, or has lost its source and is held.
    PullOver {
        pull: PullId,
        end: End,
        has_viewers: bool,
    },
}

/// What others are to do about a stream whose deadline has come.
pub(super) enum Due {
    /// This source was silent for too long.
    SourceSilent(Origin),
    /// No source has come back.
    SourceMissing,
    /// Packets that came early are to go on.
    Reordered,
}

impl Streams {
    /// None yet.
    pub fn new(limits: &Limits) -> Streams {
        Streams {
            lives: Slots::default(),
            running: HashMap::new(),
            draining: Draining::default(),
            order: BTreeMap::new(),
            live_serial_next: 1,
            pool: Pool::new(limits.buffers_bytes_max),
            turns: Turns::new(),
            frame: Frame::default(),
            spliced: Vec::new(),
            posting: VecDeque::new(),
            posted: None,
            said: VecDeque::new(),
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let each = self.lives.iter().map(|(_, live)| live.held_bytes());
        self.lives.held_bytes()
            + each.sum::<usize>()
            + hash_map_bytes(&self.running)
            + self.draining.held_bytes()
            + tree_map_bytes(&self.order)
            + self.turns.held_bytes()
            + self.posting.capacity() * size_of::<LiveId>()
            + self.frame.held_bytes()
            + self.pool.held_bytes()
            + self.spliced.capacity()
            + self.said.capacity() * size_of::<Said>()
    }

    /// Whether somebody watches the session's stream.
    pub fn is_watched(&self, session: &SessionId) -> bool {
        let running = self.running.get(session);
        let live = running.and_then(|id| self.lives.get(*id));
        live.is_some_and(|live| live.stream.viewer_count() > 0)
    }

    /// This pull fetches this stream, and `via` stands before what goes out of it.
    pub fn is_fetched(&mut self, id: LiveId, pull: PullId, via: String) {
        if let Some(live) = self.lives.get_mut(id) {
            live.pull = Some(pull);
            live.via = Some(via);
        }
    }

    /// The origin that sends this stream, if it is this pull's still: one that is held has lost it
    /// already.
    pub fn fetched_from(&self, id: LiveId, pull: PullId) -> Option<ConnectionId> {
        let live = self.lives.get(id).filter(|live| live.pull == Some(pull))?;
        match live.source {
            Origin::Http(connection) => Some(connection),
            Origin::Rtp(_) | Origin::Awaited { .. } | Origin::Gone => None,
        }
    }

    /// The session's stream, if that waits for a source, and was fetched before.
    pub fn held_of_origin(&self, session: &SessionId) -> Option<LiveId> {
        let id = self.held(session)?;
        self.lives.get(id)?.via.is_some().then_some(id)
    }

    /// All of them together, and what those that are over had counted.
    pub fn sums(&self, desk: &Desk) -> Sums {
        let mut sums = Sums {
            running: self.running.len(),
            draining: self.draining.len(),
            figures: Figures {
                bytes_received: desk.counts.of(Count::BytesReceived),
                bytes_sent: desk.counts.of(Count::BytesSent),
                skips: desk.counts.of(Count::Skips),
            },
            udp_bytes: desk.counts.of(Count::UdpBytesSent),
            ..Sums::default()
        };
        for (_, live) in self.lives.iter() {
            let figures = live.stream.figures();
            sums.figures.bytes_received += figures.bytes_received;
            sums.figures.bytes_sent += figures.bytes_sent;
            sums.figures.skips += figures.skips;
            sums.udp_bytes += live.outlet.bytes_sent();
            sums.viewers += live.stream.viewer_count();
            sums.udp_clients += live.outlet.client_count();
            sums.held += usize::from(live.has_waiting_viewers());
        }
        sums
    }

    /// What UDP clients have got, by their addresses: of [`UDP_CLIENTS_SHOWN_MAX`] of them, those
    /// of the streams that began first.
    pub fn udp_clients(&self) -> BTreeMap<SocketAddr, ClientFigures> {
        let lives = self.order.values().filter_map(|id| self.lives.get(*id));
        let mut clients: BTreeMap<SocketAddr, ClientFigures> = BTreeMap::new();
        for (address, figures) in lives.flat_map(|live| live.outlet.figures()) {
            if clients.len() >= UDP_CLIENTS_SHOWN_MAX {
                break;
            }
            // It may be one of several streams.
            let sum = clients.entry(address).or_default();
            sum.sent += figures.sent;
            sum.dropped += figures.dropped;
        }
        clients
    }

    /// What they have said and nobody has heard.
    pub fn said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    pub fn say(&mut self, said: Said) {
        self.said.push_back(said);
    }

    /// The session of a stream.
    pub fn session(&self, id: LiveId) -> Option<SessionId> {
        Some(self.lives.get(id)?.session.clone())
    }

    /// Where a stream's media comes from, and which pull brings it.
    pub fn source_of(&self, id: LiveId) -> Option<(Origin, Option<PullId>)> {
        let live = self.lives.get(id)?;
        Some((live.source, live.pull))
    }

    /// A session's stream, if it runs, and where its media comes from.
    pub fn running_source(&self, session: &SessionId) -> Option<(LiveId, Origin)> {
        let id = *self.running.get(session)?;
        Some((id, self.lives.get(id)?.source))
    }

    /// The rows of list-streams from behind this serial on, each with its own.
    pub fn rows(&self, after: u64, now: Moment) -> impl Iterator<Item = (u64, Row<'_>)> {
        let lives = self.order.range(after + 1..);
        let lives = lives.filter_map(|(serial, live)| Some((*serial, self.lives.get(*live)?)));
        lives.map(move |(serial, live)| (serial, live.row(now)))
    }

    /// Whether a stream's source is not read for now.
    pub fn is_paused(&self, id: LiveId) -> bool {
        self.lives.get(id).is_some_and(|live| live.is_paused)
    }

    /// When a stream has something to do, if nothing arrives.
    pub(super) fn live_deadline(&self, live: &Live, desk: &Desk) -> Option<Moment> {
        let now = desk.now;
        // While something is on its way nothing more is taken, however late it is: when that is
        // out, it goes on.
        let transport = live.outlet.transport.as_ref();
        let paced = transport
            .filter(|_| live.outlet.is_empty())
            .and_then(|transport| transport.deadline(now));
        let input = live.input.as_ref();
        let reordered = input.and_then(|input| input.reorder.deadline());
        let idle_time = desk.settings.limits.source_idle_time;
        let gone = match live.source {
            Origin::Awaited { until } => Some(until),
            Origin::Rtp(_) => live.heard().map(|heard| heard + idle_time),
            Origin::Http(_) | Origin::Gone => None,
        };
        let rest = live.outlet.rest_until;
        [paced, reordered, gone, rest].into_iter().flatten().min()
    }

    pub(super) fn rearm_live(&mut self, id: LiveId, desk: &mut Desk) {
        let Some(live) = self.lives.get(id) else {
            return;
        };
        if let (Some(deadline), Some(live)) =
            (self.live_deadline(live, desk), self.lives.get_mut(id))
        {
            desk.timers.arm(&mut live.armed, Owner::Live(id), deadline);
        }
    }

    /// A stream's deadline may have come. Says what others are to do about it.
    pub fn due(&mut self, id: LiveId, desk: &mut Desk) -> Option<Due> {
        let live = self.lives.get_mut(id)?;
        live.armed.fired();
        let source = live.source;
        let idle_time = desk.settings.limits.source_idle_time;
        let is_silent = |heard| heard + idle_time <= desk.now;
        match source {
            Origin::Rtp(_) if live.heard().is_some_and(is_silent) => {
                return Some(Due::SourceSilent(source));
            }
            Origin::Awaited { until } if until <= desk.now => return Some(Due::SourceMissing),
            Origin::Rtp(_) | Origin::Awaited { .. } | Origin::Http(_) | Origin::Gone => {}
        }
        if live
            .outlet
            .rest_until
            .is_some_and(|until| until <= desk.now)
        {
            self.rest_timed_out(id, desk);
            return None;
        }
        if live.input.is_some() {
            return Some(Due::Reordered);
        }
        self.pump(id, desk);
        self.rearm_live(id, desk);
        None
    }
}
