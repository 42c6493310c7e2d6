//! The cursor of one viewer in a stream.

use super::versions::Version;
use crate::copied::Copied;
#[cfg(feature = "handover")]
use crate::handover::is_default;
use crate::time::Instant;

/// A viewer of the stream. `C` is the owner's name for it.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Viewer<C> {
    pub(super) connection: C,
    pub(super) position: Position,
    /// Offset after the viewer's last byte if it gets a segment or a fragment, else
    /// [`Viewer::ENDLESS`].
    #[cfg_attr(
        feature = "handover",
        serde(default = "endless", skip_serializing_if = "is_endless")
    )]
    pub(super) end: u64,
    /// Bytes that are sent before those at the position: the header, a prelude, or the rest of a
    /// unit.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "ViewerLead::is_empty")
    )]
    pub(super) lead: ViewerLead,
    /// Key of the viewer in the index of lagging viewers, if it is there.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) index_key: Option<u64>,
    /// Serial number of the newest header that the viewer got. 0 means none.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    pub(super) header_seen: u64,
    /// When the viewer joined.
    pub(super) since: Instant,
    /// Media bytes that were sent to the viewer.
    pub(super) bytes_sent: u64,
    /// How often the viewer fell out of the buffer.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "is_default")
    )]
    pub(super) skips: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Position {
    /// The viewer's next byte is at this offset: `oldest <= cursor <= newest`.
    At(u64),
    /// The viewer fell out of the buffer. Once its lead is sent, it continues at the newest join
    /// point.
    Fallen {
        /// The lead is a copy of a unit's rest, and counts against the stream's bound.
        holds_unit_tail: bool,
    },
}

#[cfg(feature = "handover")]
fn endless() -> u64 {
    Viewer::<()>::ENDLESS
}

#[cfg(feature = "handover")]
fn is_endless(end: &u64) -> bool {
    *end == endless()
}

impl<C> Viewer<C> {
    /// `end` of a viewer that gets the whole stream.
    pub(super) const ENDLESS: u64 = u64::MAX;
    /// `end` of a viewer that gets one fragment of MP4, while that fragment is not complete.
    pub(super) const AT_FRAGMENT_END: u64 = u64::MAX - 1;

    /// Creates a viewer that joins at `now`. It gets the lead, and then all bytes from the cursor on.
    pub(super) fn new(connection: C, cursor: u64, lead: ViewerLead, now: Instant) -> Viewer<C> {
        Viewer {
            connection,
            position: Position::At(cursor),
            end: Viewer::<C>::ENDLESS,
            lead,
            index_key: None,
            header_seen: 0,
            since: now,
            bytes_sent: 0,
            skips: 0,
        }
    }

    /// Returns whether the viewer gets one segment or fragment and nothing else.
    pub(super) fn is_bounded(&self) -> bool {
        self.end != Viewer::<C>::ENDLESS
    }
}

/// Bytes that a viewer is sent first: a header that viewers share, then bytes of its own.
///
/// The header is released once it is sent. At most half of the other bytes have been sent already.
/// Most viewers have no lead, so an empty one takes only a pointer.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct ViewerLead(pub(super) Option<Box<LeadBytes>>);

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct LeadBytes {
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) header: Option<Version>,
    pub(super) own: Copied,
    /// Bytes that were sent of the header, or of `own` once the header is released.
    pub(super) sent: usize,
    has_begun: bool,
}

impl ViewerLead {
    /// Creates a lead: the header if the viewer needs one, and bytes of its own.
    pub fn new(header: Option<Version>, own: Vec<u8>) -> ViewerLead {
        let front = LeadBytes {
            header: header.filter(|header| !header.is_empty()),
            own: own.into(),
            ..LeadBytes::default()
        };
        let is_empty = front.header.is_none() && front.own.is_empty();
        ViewerLead((!is_empty).then(|| Box::new(front)))
    }

    /// Returns the bytes that are still to be sent.
    pub fn parts(&self) -> [&[u8]; 2] {
        self.0.as_ref().map_or([&[], &[]], |front| front.parts())
    }

    /// Returns whether nothing is left of it.
    #[cfg(feature = "handover")]
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of bytes that are still to be sent.
    pub fn bytes_left(&self) -> usize {
        self.0.as_ref().map_or(0, |front| front.bytes_left())
    }

    /// Returns whether a byte of it was sent.
    pub fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|front| front.has_begun)
    }

    /// Returns whether this version of the header is still to be sent, or a part of it.
    pub fn holds(&self, version: &Version) -> bool {
        let header = self.0.as_ref().and_then(|front| front.header.as_ref());
        header.is_some_and(|header| Version::ptr_eq(header, version))
    }

    /// Returns the allocated bytes of `own`.
    pub fn memory_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |front| front.own.capacity())
    }

    /// Records that `bytes` were sent. Returns how many of them belonged to the lead.
    pub fn advance(&mut self, bytes: usize) -> usize {
        // This runs after each write to each viewer, and there is nearly never a lead.
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

impl LeadBytes {
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
            self.own.remove(self.sent);
            self.own.bytes.shrink_to_fit();
            self.sent = 0;
        }
    }
}
