//! Where one viewer stands in a stream.

use std::rc::Rc;

/// A viewer's place. `C` is what its owner knows it by.
pub struct Viewer<C> {
    pub(super) connection: C,
    pub(super) position: Position,
    /// Bytes that go out before those at the position: the container's header, a start's prelude, or the rest of a cut-off unit.
    pub(super) lead: Lead,
    /// Under which offset it stands among those who lag, if it does.
    pub(super) lag_key: Option<u64>,
    /// The serial number of the header that it has had; 0 if none.
    pub(super) header_seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The next byte is the one at this offset: `oldest <= cursor <= newest`.
    At(u64),
    /// It fell out of the buffer. When its lead is sent, it goes on at the newest place where it can.
    Fallen {
        /// Its lead is a copy of its own, which counts against the stream's bound.
        holds_rest: bool,
    },
}

impl<C> Viewer<C> {
    pub(super) fn has_fallen(&self) -> bool {
        matches!(self.position, Position::Fallen { .. })
    }
}

/// Shared bytes, of which some have been sent.
#[derive(Debug, Default)]
pub(super) struct Lead {
    bytes: Option<Rc<[u8]>>,
    sent: usize,
}

impl Lead {
    pub fn new(bytes: Rc<[u8]>) -> Lead {
        Lead {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            sent: 0,
        }
    }

    /// What is still to be sent.
    pub fn rest(&self) -> &[u8] {
        match &self.bytes {
            None => &[],
            Some(bytes) => &bytes[self.sent..],
        }
    }

    pub fn has_begun(&self) -> bool {
        self.sent > 0
    }

    /// So many have been sent; says how many of them belonged to the lead.
    pub fn advance(&mut self, bytes: usize) -> usize {
        let taken = bytes.min(self.rest().len());
        self.sent += taken;
        if self.rest().is_empty() {
            *self = Lead::default();
        }
        taken
    }
}
