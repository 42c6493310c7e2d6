//! The buffer of one live stream: its newest bytes, its join points, and a cursor for each viewer.
//!
//! Each byte is stored once for all viewers. Viewers are in one of two queues: waiting (they have
//! every byte) or ready (there are bytes to send). A blocked viewer is in neither. An index by
//! offset holds the viewers that may lag. It finds the few viewers whose bytes are about to be
//! overwritten without a look at the others:
//!
//! ```text
//!                 oldest                                   newest
//!   overwritten …│ block │ block │ block │ block │ block …│
//!                    ▲ lagging, blocked       ▲ ready      ▲ waiting (all who keep up)
//!     skips: gets the rest of its unit, then continues at the newest join point
//! ```
//!
//! This module knows no socket, no HTTP and no clock. `C` is the owner's name for a viewer.

mod buffer;
mod check;
#[cfg(feature = "handover")]
mod handover;
mod notice;
mod points;
mod rate;
mod segments;
mod skips;
#[cfg(test)]
mod tests;
mod versions;
mod viewer;
mod viewer_figures;
mod viewer_queues;

use std::collections::BTreeSet;
use std::ops::{AddAssign, Range};
use std::time::Duration;

pub use buffer::Pool;
#[cfg(feature = "handover")]
pub use handover::{HeaderVersion, Received};
pub use notice::Notice;
pub use points::Detected;
pub use viewer::Viewer;
pub use viewer_figures::{Extent, ViewerFigures};

use crate::format::{self, Format, Header, Scanner, Start};
use crate::gather::Gather;
use crate::hls::Cutter;
use crate::slots::{Id, Slots};
use crate::time::Instant;
use buffer::Buffer;
use points::Points;
use rate::Rate;
use versions::Versions;
use viewer::Position;
use viewer_queues::ViewerQueues;

/// The bounds of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Size of the buffer in bytes. Its blocks are allocated as they fill.
    pub buffer_bytes: usize,
    /// A new viewer begins at the newest join point that is at least this many bytes old.
    pub join_back_bytes: u64,
    /// The join point must also have arrived at least this long ago.
    pub join_back_time: Duration,
}

impl Limits {
    /// Returns the maximal number of bytes that one stream allocates beside its buffer: rests of
    /// units for viewers that fell out of the buffer (at most the buffer's size), join points and
    /// unit boundaries (at most a thirtieth of the buffer), header versions, segments, and the
    /// scanner.
    pub fn memory_beside_buffer_max(&self) -> usize {
        let buffer = Buffer::new(self.buffer_bytes);
        buffer.bytes_max()
            + Points::memory_bytes_max(buffer.bytes_max())
            + Versions::MEMORY_BYTES_MAX
            + size_of::<Cutter>()
            + Cutter::MEMORY_BYTES_MAX
            + format::MEMORY_BYTES_MAX
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum End {
    /// The source completed its body.
    Complete,
    /// The source broke off, fell silent or was aborted. Viewers see an incomplete response.
    Lost,
}

/// While a stream has no join point, its first bytes, at most this many, count as its beginning.
const BEGINNING_BYTES: u64 = 1024 * 1024;

/// Counters since the stream began.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Figures {
    /// Media bytes from the source.
    pub bytes_received: u64,
    /// Media bytes to viewers.
    pub bytes_sent: u64,
    /// How often a viewer of the stream over HTTP fell out of the buffer. It continued at a later join
    /// point, or was cut.
    pub skips: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        self.bytes_received = self.bytes_received.saturating_add(other.bytes_received);
        self.bytes_sent = self.bytes_sent.saturating_add(other.bytes_sent);
        self.skips = self.skips.saturating_add(other.skips);
    }
}

/// What a viewer can be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// This many bytes can be sent.
    Bytes(usize),
    /// The viewer has every byte that has arrived.
    UpToDate,
    /// The viewer has every byte, and the stream has ended.
    Ended(End),
}

/// State of a viewer's socket after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The socket takes more bytes.
    Open,
    /// The socket takes more bytes, and the head of the response cannot be written before more bytes
    /// of the stream come.
    HeadAwaited,
    /// The socket is full.
    Blocked,
}

/// Identifies a viewer of one stream.
pub type ViewerId<C> = Id<Viewer<C>>;

/// The buffer of a stream, with its viewers' cursors.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(bound = ""))]
pub struct StreamBuffer<C> {
    limits: Limits,
    started: Instant,
    /// Media type that the source declared.
    given_type: Option<String>,
    end: Option<End>,
    buffer: Buffer,
    scanner: Scanner,
    points: Points,
    #[cfg_attr(feature = "handover", serde(skip))]
    versions: Versions,
    /// Cuts the stream into segments, if HLS is on.
    cutter: Option<Box<Cutter>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    viewers: Slots<Viewer<C>>,
    #[cfg_attr(feature = "handover", serde(skip))]
    viewer_queues: ViewerQueues,
    /// Viewers that may lag. The key is an offset at or before the viewer's cursor.
    #[cfg_attr(feature = "handover", serde(skip))]
    overwrite_index: BTreeSet<(u64, ViewerId<C>)>,
    /// Lower bound of the cursors of all ready viewers that are not in `overwrite_index`.
    unindexed_cursor_min: u64,
    /// Offset of the first byte for which waiting viewers have not been made ready.
    #[cfg_attr(feature = "handover", serde(skip))]
    unseen_from: Option<u64>,
    /// Bytes in viewers' copies of unit rests that are no longer in the buffer.
    #[cfg_attr(feature = "handover", serde(skip))]
    unit_tail_bytes: usize,
    /// Viewers to disconnect, because the rest of their unit could not be kept.
    #[cfg_attr(feature = "handover", serde(skip))]
    cut: Vec<C>,
    /// Offset of the first byte of the piece that arrived last.
    newest_piece: u64,
    /// The offset at which the bytes of the newest source begin.
    seam: u64,
    figures: Figures,
    rate: Rate,
    has_logged_no_join: bool,
    has_logged_let_go: bool,
    has_logged_long_group: bool,
}

impl<C: Copy> StreamBuffer<C> {
    /// Creates the buffer of a stream whose source was admitted at `now`. `given_type` is the media
    /// type that the source declared.
    pub fn new(limits: Limits, given_type: Option<String>, now: Instant) -> StreamBuffer<C> {
        StreamBuffer {
            limits,
            started: now,
            given_type,
            end: None,
            buffer: Buffer::new(limits.buffer_bytes),
            scanner: Scanner::default(),
            points: Points::default(),
            versions: Versions::default(),
            cutter: None,
            viewers: Slots::default(),
            viewer_queues: ViewerQueues::default(),
            overwrite_index: BTreeSet::new(),
            unindexed_cursor_min: 0,
            unseen_from: None,
            unit_tail_bytes: 0,
            cut: Vec::new(),
            newest_piece: 0,
            seam: 0,
            figures: Figures::default(),
            rate: Rate::default(),
            has_logged_no_join: false,
            has_logged_let_go: false,
            has_logged_long_group: false,
        }
    }

    /// Returns what the first bytes showed of the format.
    pub fn detected(&self) -> Detected {
        self.points.detected
    }

    /// Returns the header that a late viewer gets first. It is empty until it is known.
    pub fn header(&self) -> Header<'_> {
        self.scanner.header()
    }

    /// Returns the number of join points in the buffer.
    pub fn joins(&self) -> usize {
        self.points.joins.len()
    }

    /// Returns the mean time between two join points in the buffer, by their arrival.
    pub fn join_distance(&self) -> Option<Duration> {
        self.points.join_distance()
    }

    /// Returns why the buffer has no join point, or `None` if it has one.
    pub fn no_joins_reason(&self) -> Option<&'static str> {
        match self.points.detected {
            _ if !self.points.joins.is_empty() => None,
            Detected::Undecided => Some("too few bytes to tell the format"),
            Detected::Unknown => Some("not a format that can be joined"),
            Detected::Known(_) if self.scanner.needs_first_byte() => Some(
                "its fragments count positions from the file's first byte: ffmpeg's -movflags \
                 +default_base_moof makes such as can be joined",
            ),
            Detected::Known(_) if self.points.has_had_joins => {
                Some("its group of pictures is larger than the buffer")
            }
            Detected::Known(_) => Some("nothing has come at which decoding can begin"),
        }
    }

    /// Returns the media type that the source declared, or else the one that the bytes show. Returns
    /// `None` until it is known.
    pub fn media_type(&self) -> Option<&str> {
        match (&self.given_type, self.points.detected) {
            (Some(given), _) => Some(given),
            (None, Detected::Known(format)) => Some(format.media_type()),
            (None, Detected::Unknown) => Some(
                self.points
                    .first_format
                    .map_or(UNKNOWN_TYPE, Format::media_type),
            ),
            (None, Detected::Undecided) => {
                let is_clear = self.end.is_some() || !self.scanner.may_be_magic();
                is_clear.then_some(UNKNOWN_TYPE)
            }
        }
    }

    /// Returns whether the media type is known.
    fn has_media_type(&self) -> bool {
        self.points.detected != Detected::Undecided || self.media_type().is_some()
    }

    /// Returns the counters.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Returns the source's bit rate over the last seconds, in bits per second.
    pub fn bit_rate(&self, now: Instant) -> u64 {
        self.rate.bits_per_second(self.started, now)
    }

    /// Returns how the stream ended, or `None` while it runs.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns the offset after the newest byte.
    pub fn newest(&self) -> u64 {
        self.buffer.newest
    }

    /// Returns contiguous bytes from the offset `from` on, at most `bytes_max`. Returns an empty slice
    /// if they have been overwritten.
    pub fn slice(&self, from: u64, bytes_max: usize) -> &[u8] {
        self.buffer.slice(from, bytes_max)
    }

    /// Counts bytes that the source sent at `now`, also those that no viewer can use.
    pub fn count(&mut self, bytes: usize, now: Instant) {
        let sum = &mut self.figures.bytes_received;
        *sum = sum.saturating_add(bytes as u64);
        self.rate.count(bytes, now.since(self.started));
    }

    /// Returns how many bytes to read from the source at once: half of what the buffer can keep.
    ///
    /// Returns 0 while a viewer whose socket is open has that many bytes to get. Then this server
    /// is slow, and reading on would make that viewer skip. A source that cannot be paused, a
    /// splicer's output and viewers whose sockets are full do not wait for this. Returns a quarter
    /// after a first piece that does not show the format, since viewers that wait for the format
    /// need the first byte.
    pub fn wanted_bytes(&self, pool: &Pool) -> usize {
        let half = self.buffer.keepable_bytes(pool) / 2;
        let is_slow =
            self.has_ready() && self.buffer.newest - self.unindexed_cursor_min >= half as u64;
        match self.points.detected {
            _ if is_slow => 0,
            Detected::Undecided if self.buffer.newest > 0 => half / 2,
            Detected::Undecided | Detected::Unknown | Detected::Known(_) => half,
        }
    }

    /// Returns how many of the newest bytes stay in the buffer if no other stream takes the rest of
    /// the pool.
    pub fn keepable_bytes(&self, pool: &Pool) -> usize {
        self.buffer.keepable_bytes(pool)
    }

    /// Returns the maximal number of bytes that may be promised to a viewer at once. If the viewer
    /// falls out of the buffer and the stream ends, this many bytes are still in the buffer.
    pub fn promise_bytes_max(&self) -> usize {
        self.buffer.kept_bytes()
    }

    /// Appends bytes that the source sent at `now`, after [`StreamBuffer::count`] counted them, and
    /// makes all waiting viewers ready. Afterwards [`StreamBuffer::take_cut`] returns the viewers to
    /// disconnect.
    pub fn append(&mut self, bytes: &[u8], pool: &mut Pool, now: Instant) {
        self.append_without_wake(bytes, pool, now);
        self.wake();
    }

    /// Appends bytes like [`StreamBuffer::append`], but does not wake viewers that have all earlier
    /// bytes: [`StreamBuffer::wake`] does that. A viewer that still has earlier bytes to get reads
    /// on into the new ones.
    pub fn append_without_wake(&mut self, bytes: &[u8], pool: &mut Pool, now: Instant) {
        self.unseen_from.get_or_insert(self.buffer.newest);
        self.newest_piece = self.buffer.newest;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.buffer.needs_block() {
                self.add_block(pool, now);
            }
            let taken = self.buffer.fill(rest);
            // Each block is scanned before the next one is filled. So unit boundaries are known for
            // every byte in the buffer when a viewer falls out of it.
            self.scan(&rest[..taken], now);
            rest = &rest[taken..];
        }
    }

    /// Ends the stream. Viewers get the buffered bytes, and then the end of their response.
    pub fn finish(&mut self, end: End) {
        if self.end.is_none()
            && let Some(cutter) = &mut self.cutter
        {
            cutter.finish(self.buffer.newest, end == End::Complete);
        }
        self.end.get_or_insert(end);
        self.wake();
    }

    /// Returns the bytes that the buffer takes from the pool.
    pub fn pool_bytes(&self) -> usize {
        self.buffer.pool_bytes()
    }

    /// Returns the number of bytes in the buffer.
    pub fn filled_bytes(&self) -> usize {
        (self.buffer.newest - self.buffer.oldest) as usize
    }

    /// Returns the bytes that are allocated for media: the buffer, and rests of units for viewers
    /// that fell out of it.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.memory_bytes() + self.unit_tail_bytes
    }

    /// Reserves a whole buffer in the pool before the first byte comes. Returns whether the pool had
    /// room.
    #[must_use]
    pub fn reserve(&mut self, pool: &mut Pool) -> bool {
        self.buffer.reserve(pool)
    }

    /// Returns the buffer's blocks to the pool.
    pub fn release(&mut self, pool: &mut Pool) {
        self.buffer.release(pool);
    }

    /// Returns a viewer to disconnect: it fell out of the buffer within a unit, and the rest of the
    /// unit could not be kept.
    pub fn take_cut(&mut self) -> Option<C> {
        self.cut.pop()
    }

    /// Makes all waiting viewers ready, because there is something for them.
    pub fn wake(&mut self) {
        let floor = self.unseen_from.take().unwrap_or(self.buffer.newest);
        self.unindexed_cursor_min = match self.viewer_queues.has_ready() {
            true => self.unindexed_cursor_min.min(floor),
            false => floor,
        };
        self.viewer_queues.wake_all();
    }

    /// Returns how many bytes waiting viewers have not been made ready for.
    pub fn unseen_bytes(&self) -> u64 {
        self.unseen_from.map_or(0, |from| self.buffer.newest - from)
    }

    /// Returns whether a unit ends among these bytes.
    pub fn has_unseen_unit_end(&self) -> bool {
        let end = self.points.newest_unit_end();
        self.unseen_from.is_some_and(|from| end > Some(from))
    }

    fn add_block(&mut self, pool: &mut Pool, now: Instant) {
        match self.buffer.oldest_after_recycling(pool) {
            None => self.buffer.grow(pool, now),
            Some(oldest) => {
                if self.unseen_from.is_some_and(|from| from < oldest) {
                    // Waiting viewers may lose bytes, too, which is noticed of ready ones only.
                    self.wake();
                }
                self.skip_before(oldest);
                self.buffer.recycle(now);
            }
        }
    }

    /// Returns the work of scanning since the last call, as the number of bytes that take as long to
    /// copy.
    pub fn take_work(&mut self) -> usize {
        self.scanner.take_work()
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
        // An element that began before the buffer's oldest byte may be found only now.
        points.forget_before(self.buffer.oldest);
        if let Some(cutter) = cutter {
            cutter.forget_before(self.buffer.oldest);
            if self.scanner.needs_first_byte() {
                cutter.refuse("its fragments count positions from the file's first byte");
            }
        }
        if self.points.header_serial != serial {
            self.replace_header();
        }
    }

    /// Adds a viewer. [`StreamBuffer::start`] decides where it begins: usually at the newest
    /// allowed join point, with the header sent first.
    pub fn join(&mut self, connection: C, now: Instant) -> ViewerId<C> {
        let (start, needs_header) = self.start(now);
        let lead = self.lead(&start, needs_header);
        let cursor = start.offset;
        let mut viewer = Viewer::new(connection, cursor, lead, now);
        if needs_header {
            viewer.header_seen = self.points.header_serial;
        }
        let viewer = self.viewers.insert(viewer);
        if self.points.detected == Detected::Undecided {
            // The viewer waits for the format, so it does not lag.
            self.unindexed_cursor_min = self.unindexed_cursor_min.min(cursor);
        } else if cursor < self.buffer.newest {
            self.index_viewer(viewer, cursor);
        }
        // At least the response's head has to be sent.
        self.viewer_queues.be_ready(viewer.index());
        viewer
    }

    /// Returns where a new viewer begins, and whether it gets the header first.
    pub(super) fn start(&self, now: Instant) -> (Start, bool) {
        let live_edge = (Start::at(self.buffer.newest), false);
        let from_the_start = self.buffer.oldest == 0;
        match self.points.detected {
            Detected::Unknown => live_edge,
            Detected::Undecided if from_the_start => (Start::at(0), false),
            Detected::Known(_) if from_the_start && self.is_best_from_the_start() => {
                (Start::at(0), false)
            }
            Detected::Undecided | Detected::Known(_) => {
                let newest = self.buffer.newest;
                let offset_max = newest.saturating_sub(self.limits.join_back_bytes);
                let time_back = now.since_start().checked_sub(self.limits.join_back_time);
                let arrived_by = Instant::after_start(time_back.unwrap_or_default());
                let start = self.points.start(offset_max, arrived_by);
                start.map_or(live_edge, |start| (start, true))
            }
        }
    }

    /// Returns whether a new viewer should begin at the first byte. While the stream is short, its
    /// first join point may be about to come, and the viewer is not far behind. Later the header and
    /// the newest bytes serve a viewer better: it can decode them as soon. Some formats can only be
    /// decoded from the first byte on.
    fn is_best_from_the_start(&self) -> bool {
        let is_short = self.buffer.newest <= BEGINNING_BYTES;
        let is_beginning = is_short || self.points.header_serial == 0;
        self.scanner.needs_first_byte() || self.points.joins.is_empty() && is_beginning
    }

    /// Removes a viewer.
    pub fn leave(&mut self, id: ViewerId<C>) {
        self.viewer_queues.leave(id.index());
        self.unindex_viewer(id);
        if let Some(viewer) = self.viewers.remove(id)
            && viewer.position
                == (Position::Fallen {
                    holds_unit_tail: true,
                })
        {
            self.unit_tail_bytes -= viewer.lead.memory_bytes();
        }
    }

    /// Takes the next ready viewer out of its queue. [`StreamBuffer::end_turn`] queues it again.
    pub fn next_ready(&mut self) -> Option<(ViewerId<C>, C)> {
        if !self.has_media_type() {
            return None;
        }
        let id = self.viewers.id_at(self.viewer_queues.next()?)?;
        self.viewers.get(id).map(|viewer| (id, viewer.connection))
    }

    /// Returns whether a viewer is ready.
    pub fn has_ready(&self) -> bool {
        self.viewer_queues.has_ready() && self.has_media_type()
    }

    /// Returns what a viewer can be sent now. A viewer that fell out of the buffer continues at a join
    /// point here, once the rest of its unit is sent. An open chunk has promised `owed` bytes to the
    /// viewer: if the stream has ended, the viewer continues early enough to get them.
    pub fn supply(&mut self, id: ViewerId<C>, owed: usize) -> Supply {
        self.end_skip(id, owed);
        let Some(viewer) = self.viewers.get(id) else {
            return Supply::UpToDate;
        };
        let of_buffer = match viewer.position {
            Position::At(cursor) => (self.buffer.newest.min(viewer.end) - cursor) as usize,
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

    /// Returns the offset of a viewer's next byte. Returns `None` while other bytes go out first.
    pub fn cursor(&self, id: ViewerId<C>) -> Option<u64> {
        let viewer = self.viewers.get(id)?;
        match viewer.position {
            Position::At(cursor) if viewer.lead.bytes_left() == 0 => Some(cursor),
            Position::At(_) | Position::Fallen { .. } => None,
        }
    }

    /// Appends a copy of buffered bytes to `into`.
    pub fn copy_to(&self, into: &mut Vec<u8>, from: u64, bytes: usize) {
        self.buffer.copy_to(into, from, from + bytes as u64);
    }

    /// Lends this range of a viewer's next bytes. `places_kept` places of `gather` stay free. Returns
    /// the number of bytes.
    pub fn lend<'a>(
        &'a self,
        id: ViewerId<C>,
        range: Range<usize>,
        gather: &mut Gather<'a>,
        places_kept: usize,
    ) -> usize {
        let Some(viewer) = self.viewers.get(id) else {
            return 0;
        };
        let (mut skipped, bytes_max, mut lent) = (range.start, range.len(), 0);
        for part in viewer.lead.parts() {
            let of_part = skipped.min(part.len());
            skipped -= of_part;
            let part = &part[of_part..];
            let part = &part[..part.len().min(bytes_max - lent)];
            if gather.places_left() <= places_kept || !gather.push(part) {
                return lent;
            }
            lent += part.len();
        }
        match viewer.position {
            Position::At(cursor) => {
                let cursor = cursor + skipped as u64;
                let bytes_left =
                    usize::try_from(viewer.end.saturating_sub(cursor)).unwrap_or(usize::MAX);
                let bytes_max = bytes_left.min(bytes_max - lent);
                lent + self.buffer.lend(cursor, bytes_max, gather, places_kept)
            }
            Position::Fallen { .. } => lent,
        }
    }

    /// Records that `bytes` were sent to the viewer.
    pub fn advance(&mut self, id: ViewerId<C>, bytes: usize) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        for sum in [&mut self.figures.bytes_sent, &mut viewer.bytes_sent] {
            *sum = sum.saturating_add(bytes as u64);
        }
        let memory_bytes = viewer.lead.memory_bytes();
        let of_lead = viewer.lead.advance(bytes);
        match &mut viewer.position {
            Position::At(cursor) => *cursor += (bytes - of_lead) as u64,
            Position::Fallen {
                holds_unit_tail: true,
            } => {
                self.unit_tail_bytes -= memory_bytes - viewer.lead.memory_bytes();
            }
            Position::Fallen {
                holds_unit_tail: false,
            } => {}
        }
    }

    /// Queues a viewer again after its turn.
    pub fn end_turn(&mut self, id: ViewerId<C>, outcome: Outcome) {
        let supply = self.supply(id, 0);
        let Some(viewer) = self.viewers.get(id) else {
            return;
        };
        let keeps_up = (outcome, supply) == (Outcome::Open, Supply::UpToDate);
        match viewer.position {
            Position::At(_) if keeps_up => self.unindex_viewer(id),
            Position::At(cursor) => self.index_viewer(id, cursor),
            Position::Fallen { .. } => {}
        }
        match outcome {
            Outcome::Open if !keeps_up => self.viewer_queues.be_ready(id.index()),
            Outcome::Open | Outcome::HeadAwaited => self.viewer_queues.wait(id.index()),
            Outcome::Blocked => self.viewer_queues.leave(id.index()),
        }
    }
}

/// Media type of a format that is not known.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";
