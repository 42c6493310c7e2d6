//! One live stream: its newest bytes, where they can be joined, and every viewer's place in them.
//!
//! Bytes are kept once, however many view them. Viewers stand in two lines, those who have
//! everything and those for whom there is something to send; who is blocked stands in neither. Who
//! may lag is also in an index by offset, so that the few whose bytes are about to be overwritten
//! are found without looking at the others:
//!
//! ```text
//!                 oldest                                   newest
//!   overwritten …│ block │ block │ block │ block │ block …│
//!                    ▲ lagging, blocked       ▲ ready      ▲ waiting (all who keep up)
//!     falls out: finishes its unit, then goes on at the newest join point
//! ```
//!
//! Never knows a socket, HTTP or a clock; `C` is whatever the owner knows a viewer by.

mod buffer;
mod check;
mod falling;
#[cfg(feature = "handover")]
mod handover;
mod lines;
mod notice;
mod points;
mod rate;
mod seen;
mod segments;
#[cfg(test)]
mod tests;
mod versions;
mod viewer;

use std::collections::BTreeSet;
use std::time::Duration;

pub use buffer::Pool;
#[cfg(feature = "handover")]
pub use handover::Received;
pub use notice::Notice;
pub use points::Told;
pub use seen::Seen;
pub use viewer::Viewer;

use crate::format::{self, Format, Header, Prelude, Scanner, Start};
use crate::gather::Gather;
use crate::hls::Cutter;
use crate::slots::{Id, Slots};
use crate::time::Instant;
use buffer::Buffer;
use lines::Lines;
use points::{Back, Points};
use rate::Rate;
use versions::Versions;
use viewer::{Lead, Position};

/// The bounds of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Bytes kept of the stream, in blocks that are allocated as they fill.
    pub buffer_bytes: usize,
    /// A new viewer begins at the newest join point that lies at least so many bytes back,
    pub join_back_bytes: u64,
    /// and that arrived so long ago.
    pub join_back_time: Duration,
}

impl Limits {
    /// What one stream holds of its media at the very most: its buffer, and what it holds beside
    /// it.
    pub fn held_bytes_max(&self) -> usize {
        Buffer::new(self.buffer_bytes).held_bytes_max() + self.held_beside_buffer_max()
    }

    /// Besides its buffer: as much for units that viewers were in the middle of when they fell out
    /// of it; places to begin and to stop, a thirtieth of the buffer; versions of the header;
    /// segments; and its scanner.
    pub fn held_beside_buffer_max(&self) -> usize {
        let buffer = Buffer::new(self.buffer_bytes);
        buffer.bytes_max()
            + Points::held_bytes_max(buffer.bytes_max())
            + Versions::HELD_BYTES_MAX
            + size_of::<Cutter>()
            + Cutter::HELD_BYTES_MAX
            + format::HELD_BYTES_MAX
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum End {
    /// Its source said that it is complete.
    Complete,
    /// Its source broke, fell silent or was ended: viewers must be able to tell.
    Lost,
}

/// Of a stream without a point yet: so many bytes are its beginning.
const BEGINNING_BYTES: u64 = 1024 * 1024;

/// What has been counted since the stream began.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Figures {
    /// Media bytes from the source.
    pub bytes_received: u64,
    /// Media bytes to viewers.
    pub bytes_sent: u64,
    /// How often a viewer fell out of the buffer and went on further ahead.
    pub skips: u64,
}

/// What there is to do for a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// So many bytes are at hand.
    Bytes(usize),
    /// It has everything that has arrived.
    UpToDate,
    /// It has everything that there will ever be.
    Ended(End),
}

/// What became of a viewer whose turn it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its socket takes more.
    Open,
    /// Its socket takes no more for now.
    Blocked,
}

/// The viewer of an id.
pub type ViewerId<C> = Id<Viewer<C>>;

/// A stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(bound = ""))]
pub struct StreamBuffer<C> {
    limits: Limits,
    started: Instant,
    /// The media type that its source gave.
    given_type: Option<String>,
    end: Option<End>,
    buffer: Buffer,
    scanner: Scanner,
    points: Points,
    #[cfg_attr(feature = "handover", serde(skip))]
    versions: Versions,
    /// Where its segments are, if it is cut into such.
    cutter: Option<Box<Cutter>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    viewers: Slots<Viewer<C>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    lines: Lines,
    /// Viewers that may lag, by an offset at or before their cursor.
    #[cfg_attr(feature = "handover", serde(skip))]
    lagging: BTreeSet<(u64, ViewerId<C>)>,
    /// No viewer that is ready and not lagging has a cursor before this.
    pace_floor: u64,
    /// Bytes that viewers hold as the rest of a unit that is not in the buffer any more.
    #[cfg_attr(feature = "handover", serde(skip))]
    rest_bytes: usize,
    /// What stands in front of segments for viewers who have not taken all of it.
    #[cfg_attr(feature = "handover", serde(skip))]
    shared_bytes: usize,
    /// Viewers whose unit could not be finished.
    #[cfg_attr(feature = "handover", serde(skip))]
    cut: Vec<C>,
    /// The offset at which the bytes begin that arrived last.
    newest_piece: u64,
    figures: Figures,
    rate: Rate,
    told_of_no_join: bool,
    told_of_let_go: bool,
    told_of_long_group: bool,
}

impl<C: Copy> StreamBuffer<C> {
    /// A stream whose source was admitted at `now`; `given_type` is the media type that the source
    /// gave.
    pub fn new(limits: Limits, given_type: Option<String>, now: Instant) -> StreamBuffer<C> {
        StreamBuffer {
            limits,
            started: now,
            given_type,
            end: None,
            buffer: Buffer::new(limits.buffer_bytes),
            scanner: Scanner::new(),
            points: Points::default(),
            versions: Versions::default(),
            cutter: None,
            viewers: Slots::default(),
            lines: Lines::default(),
            lagging: BTreeSet::new(),
            pace_floor: 0,
            rest_bytes: 0,
            shared_bytes: 0,
            cut: Vec::new(),
            newest_piece: 0,
            figures: Figures::default(),
            rate: Rate::default(),
            told_of_no_join: false,
            told_of_let_go: false,
            told_of_long_group: false,
        }
    }

    /// What its first bytes showed.
    pub fn told(&self) -> Told {
        self.points.told
    }

    /// What a late viewer gets first; nothing before that is known.
    pub fn header(&self) -> Header<'_> {
        self.scanner.header()
    }

    /// How many places there are in its buffer at which decoding can begin.
    pub fn joins(&self) -> usize {
        self.points.joins()
    }

    /// Why there are none, if so.
    pub fn no_joins_reason(&self) -> Option<&'static str> {
        match self.points.told {
            _ if self.points.has_joins() => None,
            Told::Undecided => Some("too few bytes to tell the format"),
            Told::Unknown => Some("not a format that can be joined"),
            Told::Known(_) if self.scanner.needs_first_byte() => Some(
                "its fragments count positions from the file's first byte: ffmpeg's -movflags \
                 +default_base_moof makes such as can be joined",
            ),
            Told::Known(_) if self.points.has_had_joins() => {
                Some("its group of pictures is larger than the buffer")
            }
            Told::Known(_) => Some("nothing has come at which decoding can begin"),
        }
    }

    /// The media type: the source's own, else what the bytes show; `None` until that is known.
    pub fn media_type(&self) -> Option<&str> {
        match (&self.given_type, self.points.told) {
            (Some(given), _) => Some(given),
            (None, Told::Known(format)) => Some(format.media_type()),
            (None, Told::Unknown) => {
                Some(self.points.shown.map_or(UNKNOWN_TYPE, Format::media_type))
            }
            (None, Told::Undecided) => {
                let is_clear = self.end.is_some() || !self.scanner.may_be_magic();
                is_clear.then_some(UNKNOWN_TYPE)
            }
        }
    }

    /// What has been counted.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Bits a second from the source in the last seconds.
    pub fn bit_rate(&self, now: Instant) -> u64 {
        self.rate.bits_per_second(self.started, now)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The offset behind the newest byte.
    pub fn newest(&self) -> u64 {
        self.buffer.newest()
    }

    /// The bytes from an offset on that lie together: at most `bytes_max`, none if they are
    /// overwritten.
    pub fn slice(&self, from: u64, bytes_max: usize) -> &[u8] {
        self.buffer.slice(from, bytes_max)
    }

    /// Counts what a source sent at `now`, whether it can be viewed or not.
    pub fn count(&mut self, bytes: usize, now: Instant) {
        self.figures.bytes_received += bytes as u64;
        self.rate.count(bytes, now.since(self.started));
    }

    /// Returns how many bytes to read from the source at once: no more than the buffer can keep
    /// beside what viewers whose sockets are open have yet to get. Returns 0 while these have half
    /// of the buffer to get: then this server is slow, and no viewer should lose bytes for that.
    /// Returns a quarter after a first piece that does not show the format: viewers who wait for it
    /// have to find the first byte still.
    pub fn wanted_bytes(&self, pool: &Pool) -> usize {
        let half = self.buffer.keepable_bytes(pool) / 2;
        let is_slow =
            self.lines.has_ready() && self.buffer.newest() - self.pace_floor >= half as u64;
        match self.points.told {
            _ if is_slow => 0,
            Told::Undecided if self.buffer.newest() > 0 => half / 2,
            Told::Undecided | Told::Unknown | Told::Known(_) => half,
        }
    }

    /// So many bytes at the most are to be promised to a viewer at once: should it fall out of the
    /// buffer and the stream end, they are at hand still.
    pub fn promise_bytes_max(&self) -> usize {
        self.buffer.kept_bytes()
    }

    /// Takes what came of the source at `now`, which [`StreamBuffer::count`] has counted. Afterwards
    /// [`StreamBuffer::take_cut`] names viewers that cannot go on.
    pub fn append(&mut self, bytes: &[u8], pool: &mut Pool, now: Instant) {
        self.wake();
        self.newest_piece = self.buffer.newest();
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.buffer.needs_block() {
                self.add_block(pool, now);
            }
            let taken = self.buffer.fill(rest);
            // Scanned block by block: what a viewer that falls out needs to know is then known of
            // all that is in the buffer.
            self.scan(&rest[..taken], now);
            rest = &rest[taken..];
        }
    }

    /// The source is gone: viewers get what is buffered, and then learn how it ended.
    pub fn finish(&mut self, end: End) {
        if self.end.is_none()
            && let Some(cutter) = &mut self.cutter
        {
            cutter.finish(self.buffer.newest(), end == End::Complete);
        }
        self.end.get_or_insert(end);
        self.wake();
    }

    /// Bytes that its buffer takes of the pool.
    pub fn pool_bytes(&self) -> usize {
        self.buffer.pool_bytes()
    }

    /// Bytes that there are in its buffer.
    pub fn filled_bytes(&self) -> usize {
        (self.buffer.newest() - self.buffer.oldest()) as usize
    }

    /// Bytes that its allocations take: [`Limits::held_bytes_max`] at the most, and what its
    /// viewers' places take.
    pub fn held_bytes(&self) -> usize {
        self.media_bytes() + self.places_bytes()
    }

    /// All that media makes it hold.
    fn media_bytes(&self) -> usize {
        self.buffer.held_bytes()
            + self.rest_bytes
            + self.points.held_bytes()
            + self.versions.held_bytes()
            + self.scanner.held_bytes()
            + self
                .cutter
                .as_ref()
                .map_or(0, |cutter| size_of::<Cutter>() + cutter.held_bytes())
    }

    /// What the viewers' places take: as many as there ever were at once, a prelude for each who is
    /// there, and the index. The nodes of that hold five entries at least, and have room for eleven
    /// and twelve links.
    fn places_bytes(&self) -> usize {
        let nodes = self.lagging.len() / 5 + 1;
        self.viewers.held_bytes()
            + self.viewers.len() * (Lead::PLACE_BYTES + Prelude::BYTES_MAX)
            + self.shared_bytes
            + self.lines.held_bytes()
            + nodes * 12 * (size_of::<(u64, ViewerId<C>)>() + size_of::<usize>())
            + self.cut.capacity() * size_of::<C>()
    }

    /// Has the pool keep a whole buffer for it, before anything comes. Says whether there is room.
    #[must_use]
    pub fn reserve(&mut self, pool: &mut Pool) -> bool {
        self.buffer.reserve(pool)
    }

    /// Gives the buffer back.
    pub fn release(&mut self, pool: &mut Pool) {
        self.buffer.release(pool);
    }

    /// Viewers that fell out of the buffer within a unit which could not be kept for them.
    pub fn take_cut(&mut self) -> Option<C> {
        self.cut.pop()
    }

    /// All who wait have every byte up to now; something comes that they do not have.
    fn wake(&mut self) {
        if !self.lines.has_ready() {
            self.pace_floor = self.buffer.newest();
        }
        self.lines.wake_all();
    }

    fn add_block(&mut self, pool: &mut Pool, now: Instant) {
        match self.buffer.oldest_after_recycling(pool) {
            None => self.buffer.grow(pool, now),
            Some(oldest) => {
                self.let_fall(oldest);
                self.buffer.recycle(now);
                self.points.forget_before(oldest);
                if let Some(cutter) = &mut self.cutter {
                    cutter.forget_before(oldest);
                }
            }
        }
    }

    fn scan(&mut self, bytes: &[u8], now: Instant) {
        let serial = self.points.header_serial;
        let (points, cutter) = (&mut self.points, &mut self.cutter);
        self.scanner.feed(bytes, &mut |finding, header| {
            points.take(finding, now);
            if let Some(cutter) = cutter {
                cutter.take(finding, header, now);
            }
        });
        if let Some(cutter) = cutter
            && self.scanner.needs_first_byte()
        {
            cutter.refuse("its fragments count positions from the file's first byte");
        }
        if self.points.header_serial != serial {
            self.replace_header();
        }
    }

    /// A new viewer. It begins with what a player needs, at the latest point where decoding can
    /// begin.
    pub fn join(&mut self, connection: C, now: Instant) -> ViewerId<C> {
        let (start, needs_header) = self.start(now);
        let lead = self.lead(&start, needs_header);
        let cursor = start.offset;
        let viewer = self.viewers.insert(Viewer {
            connection,
            position: Position::At(cursor),
            end: Viewer::<C>::ENDLESS,
            lead,
            lag_key: None,
            header_seen: if needs_header {
                self.points.header_serial
            } else {
                0
            },
            since: now,
            bytes_sent: 0,
            skips: 0,
        });
        if cursor < self.buffer.newest() {
            self.lag(viewer, cursor);
        }
        // Its response's head at least.
        self.lines.be_ready(viewer.index());
        viewer
    }

    /// Where a new viewer begins, and whether with the header.
    pub(super) fn start(&self, now: Instant) -> (Start, bool) {
        let live_edge = (Start::at(self.buffer.newest()), false);
        let from_the_start = self.buffer.oldest() == 0;
        match self.points.told {
            Told::Unknown => live_edge,
            Told::Undecided if from_the_start => (Start::at(0), false),
            Told::Known(_) if from_the_start && self.is_best_from_the_start() => {
                (Start::at(0), false)
            }
            Told::Undecided | Told::Known(_) => {
                let back = self.back(now);
                let start = self.points.start(&back);
                start.map_or(live_edge, |start| (start, true))
            }
        }
    }

    /// Whether so little has come that its first point may be about to: who begins at the first
    /// byte sees that, and is not far behind. Later a viewer is better served with the header,
    /// once that has been told, and what comes: it can decode that as soon. But not where nothing
    /// else than the first byte will do.
    fn is_best_from_the_start(&self) -> bool {
        let is_short = self.buffer.newest() <= BEGINNING_BYTES;
        let is_beginning = is_short || self.points.header_serial == 0;
        self.scanner.needs_first_byte() || !self.points.has_joins() && is_beginning
    }

    fn back(&self, now: Instant) -> Back {
        let time_back = now.since_start().checked_sub(self.limits.join_back_time);
        Back {
            offset_max: self
                .buffer
                .newest()
                .saturating_sub(self.limits.join_back_bytes),
            moment_max: Instant::after_start(time_back.unwrap_or_default()),
        }
    }

    /// The viewer is gone.
    pub fn leave(&mut self, id: ViewerId<C>) {
        self.lines.leave(id.index());
        self.stop_lagging(id);
        if let Some(viewer) = self.viewers.remove(id) {
            self.shared_bytes -= viewer.shared_bytes();
            if viewer.position == (Position::Fallen { holds_rest: true }) {
                self.rest_bytes -= viewer.lead.held_bytes();
            }
        }
    }

    /// Whose turn it is: a viewer that is ready leaves its line with this, and comes back with
    /// [`StreamBuffer::settle`].
    pub fn next_ready(&mut self) -> Option<(ViewerId<C>, C)> {
        self.media_type()?;
        let id = self.viewers.id_at(self.lines.next()?)?;
        self.viewers.get(id).map(|viewer| (id, viewer.connection))
    }

    /// Whether there is a viewer whose turn it is.
    pub fn has_ready(&self) -> bool {
        self.lines.has_ready() && self.media_type().is_some()
    }

    /// What there is for a viewer. One that fell out of the buffer goes on with this, when the rest
    /// of its unit is sent. `owed` bytes have been promised to it already, by a chunk that is open:
    /// once the stream has ended, it goes on early enough to get them.
    pub fn supply(&mut self, id: ViewerId<C>, owed: usize) -> Supply {
        self.catch_up(id, owed);
        let Some(viewer) = self.viewers.get(id) else {
            return Supply::UpToDate;
        };
        let of_buffer = match viewer.position {
            Position::At(cursor) => (self.buffer.newest().min(viewer.end) - cursor) as usize,
            Position::Fallen { .. } => 0,
        };
        let end = match viewer.position {
            Position::At(_) if viewer.is_bounded() => Some(End::Complete),
            Position::Fallen { .. } if viewer.is_bounded() => Some(End::Lost),
            Position::At(_) | Position::Fallen { .. } => self.end,
        };
        match (viewer.lead.bytes_left() + of_buffer, end) {
            (0, None) => Supply::UpToDate,
            (0, Some(end)) => Supply::Ended(end),
            (bytes, _) => Supply::Bytes(bytes),
        }
    }

    /// The offset of a viewer's next byte, if that is the next it gets.
    pub fn cursor(&self, id: ViewerId<C>) -> Option<u64> {
        let viewer = self.viewers.get(id)?;
        match viewer.position {
            Position::At(cursor) if viewer.lead.bytes_left() == 0 => Some(cursor),
            Position::At(_) | Position::Fallen { .. } => None,
        }
    }

    /// Copies bytes that are in the buffer behind what `into` holds.
    pub fn copy_to(&self, into: &mut Vec<u8>, from: u64, bytes: usize) {
        self.buffer.copy_to(into, from, from + bytes as u64);
    }

    /// Lends a viewer's next bytes: at most `bytes_max`, fewer where the places run out, of which
    /// `places_kept` stay free.
    pub fn lend<'a>(
        &'a self,
        id: ViewerId<C>,
        bytes_max: usize,
        gather: &mut Gather<'a>,
        places_kept: usize,
    ) -> usize {
        let Some(viewer) = self.viewers.get(id) else {
            return 0;
        };
        let mut lent = 0;
        for part in viewer.lead.parts() {
            let part = &part[..part.len().min(bytes_max - lent)];
            if gather.places_left() <= places_kept || !gather.push(part) {
                return lent;
            }
            lent += part.len();
        }
        match viewer.position {
            Position::At(cursor) => {
                let bytes_left = usize::try_from(viewer.end - cursor).unwrap_or(usize::MAX);
                let bytes_max = bytes_left.min(bytes_max - lent);
                lent + self.buffer.lend(cursor, bytes_max, gather, places_kept)
            }
            Position::Fallen { .. } => lent,
        }
    }

    /// So many of the viewer's bytes have been sent.
    pub fn advance(&mut self, id: ViewerId<C>, bytes: usize) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        self.figures.bytes_sent += bytes as u64;
        let (held_bytes, shared_bytes) = (viewer.lead.held_bytes(), viewer.shared_bytes());
        viewer.bytes_sent += bytes as u64;
        let of_lead = viewer.lead.advance(bytes);
        self.shared_bytes -= shared_bytes - viewer.shared_bytes();
        match &mut viewer.position {
            Position::At(cursor) => *cursor += (bytes - of_lead) as u64,
            Position::Fallen { holds_rest: true } => {
                self.rest_bytes -= held_bytes - viewer.lead.held_bytes();
            }
            Position::Fallen { holds_rest: false } => {}
        }
    }

    /// The viewer's turn is over; it goes where it belongs now.
    pub fn settle(&mut self, id: ViewerId<C>, outcome: Outcome) {
        let supply = self.supply(id, 0);
        let Some(viewer) = self.viewers.get(id) else {
            return;
        };
        match (outcome, viewer.position, supply) {
            (Outcome::Open, Position::At(_), Supply::UpToDate) => {
                self.stop_lagging(id);
                self.lines.wait(id.index());
            }
            (Outcome::Open, Position::Fallen { .. }, Supply::UpToDate) => {
                self.lines.wait(id.index())
            }
            (Outcome::Open, Position::At(cursor), _) => {
                self.lag(id, cursor);
                self.lines.be_ready(id.index());
            }
            (Outcome::Open, Position::Fallen { .. }, _) => self.lines.be_ready(id.index()),
            (Outcome::Blocked, Position::At(cursor), _) => {
                self.lines.leave(id.index());
                self.lag(id, cursor);
            }
            (Outcome::Blocked, Position::Fallen { .. }, _) => self.lines.leave(id.index()),
        }
    }
}

/// The media type of what is not known.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";
