//! Where one viewer stands in a stream.

use super::versions::Version;
use crate::time::Instant;

/// A viewer's place. `C` is what its owner knows it by.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Viewer<C> {
    pub(super) connection: C,
    pub(super) position: Position,
    /// It gets no more than up to here: a segment. Of all others there is no end.
    pub(super) end: u64,
    /// Bytes that go out before those at the position: the container's header, a start's prelude,
    /// or the rest of a cut-off unit.
    pub(super) lead: Lead,
    /// Under which offset it stands among those who lag, if it does.
    pub(super) lag_key: Option<u64>,
    /// The serial number of the header that it has had; 0 if none.
    pub(super) header_seen: u64,
    /// Since when it is there.
    pub(super) since: Instant,
    /// Bytes that it has got.
    pub(super) bytes_sent: u64,
    /// How often it fell out of the buffer.
    pub(super) skips: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Position {
    /// The next byte is the one at this offset: `oldest <= cursor <= newest`.
    At(u64),
    /// It fell out of the buffer. When its lead is sent, it goes on at the newest place where it
    /// can.
    Fallen {
        /// Its lead is a copy of its own, which counts against the stream's bound.
        holds_rest: bool,
    },
}

impl<C> Viewer<C> {
    /// Of a viewer that gets all that comes.
    pub(super) const ENDLESS: u64 = u64::MAX;

    /// It gets a segment, and nothing else.
    pub(super) fn is_bounded(&self) -> bool {
        self.end != Viewer::<C>::ENDLESS
    }

    /// What stands in front of a segment outlives it with who is in the middle of that: it is
    /// counted with each, though they share it.
    pub(super) fn shared_bytes(&self) -> usize {
        match self.is_bounded() {
            true => self.lead.shared_bytes(),
            false => 0,
        }
    }

    pub(super) fn has_fallen(&self) -> bool {
        matches!(self.position, Position::Fallen { .. })
    }
}

/// What goes out first: a header that viewers share, and behind it bytes of the viewer's own. What
/// has been sent is not kept: of the header nothing once it is all sent, and of the others at most
/// as much as is left. Most viewers have none: their places are small.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Lead(pub(super) Option<Box<Front>>);

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Front {
    #[cfg_attr(feature = "handover", serde(with = "super::handover::header"))]
    pub(super) header: Option<Version>,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    pub(super) own: Vec<u8>,
    /// Of the header, or of what is its own if there is none any more.
    pub(super) sent: usize,
    has_begun: bool,
}

impl Lead {
    /// What a lead takes beside the bytes that are its own.
    pub const PLACE_BYTES: usize = size_of::<Front>();

    fn new(header: Option<Version>, own: Vec<u8>) -> Lead {
        let front = Front {
            header: header.filter(|header| !header.is_empty()),
            own,
            ..Front::default()
        };
        let is_empty = front.header.is_none() && front.own.is_empty();
        Lead((!is_empty).then(|| Box::new(front)))
    }

    /// Where a viewer begins: with a header if it needs one, and the start's prelude.
    pub fn of_start(header: Option<Version>, prelude: &[u8]) -> Lead {
        Lead::new(header, prelude.to_vec())
    }

    /// The rest of a unit.
    pub fn of_rest(rest: Vec<u8>) -> Lead {
        Lead::new(None, rest)
    }

    /// What is still to be sent.
    pub fn parts(&self) -> [&[u8]; 2] {
        self.0.as_ref().map_or([&[], &[]], |front| front.parts())
    }

    /// How many bytes that are.
    pub fn bytes_left(&self) -> usize {
        self.0.as_ref().map_or(0, |front| front.bytes_left())
    }

    /// Whether the viewer has been given a byte of it.
    pub fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|front| front.has_begun)
    }

    /// Whether it is within this version of the header, or before it.
    pub fn holds(&self, version: &Version) -> bool {
        let header = self.0.as_ref().and_then(|front| front.header.as_ref());
        header.is_some_and(|header| Version::ptr_eq(header, version))
    }

    /// Bytes that the allocation takes which is its own.
    pub fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |front| front.own.capacity())
    }

    /// Bytes that the allocation takes which it shares.
    fn shared_bytes(&self) -> usize {
        let header = self.0.as_ref().and_then(|front| front.header.as_ref());
        header.map_or(0, |header| {
            header.capacity() + size_of::<Vec<u8>>() + 2 * size_of::<usize>()
        })
    }

    /// So many have been sent; says how many of them belonged to the lead.
    pub fn advance(&mut self, bytes: usize) -> usize {
        // Nearly always there is none, after each write to each viewer.
        let Some(front) = &mut self.0 else {
            return 0;
        };
        let taken = bytes.min(front.bytes_left());
        front.advance(taken);
        if front.bytes_left() == 0 {
            self.0 = None;
        }
        taken
    }
}

impl Front {
    fn parts(&self) -> [&[u8]; 2] {
        match &self.header {
            Some(header) => [&header[self.sent..], &self.own],
            None => [&self.own[self.sent..], &[]],
        }
    }

    fn bytes_left(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    fn advance(&mut self, bytes: usize) {
        self.has_begun |= bytes > 0;
        self.sent += bytes;
        if let Some(header) = &self.header
            && self.sent >= header.len()
        {
            self.sent -= header.len();
            self.header = None;
        }
        if self.header.is_none() && 2 * self.sent >= self.own.len() {
            self.own.drain(..self.sent);
            self.own.shrink_to_fit();
            self.sent = 0;
        }
    }
}
