//! By what a client is inside: the sessionid by which it was admitted, and what its token said
//! then.

use std::net::IpAddr;

use super::desk::Desk;
use crate::gate::SessionId;
use crate::moment::Moment;
use crate::stamp::Stamp;

/// A viewer who is kept out: by which sessionid it came, and from where.
pub(super) type Barred = (SessionId, IpAddr);

/// What was said when it was admitted.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Pass {
    name: SessionId,
    is_viewer: bool,
    ends: Option<Stamp>,
    bits_per_second_max: Option<u64>,
}

impl Pass {
    /// For a viewer, or a source, until `ends`; a source is read no faster than it says.
    pub fn new(
        name: SessionId,
        is_viewer: bool,
        ends: Option<Stamp>,
        bits_per_second_max: Option<u64>,
    ) -> Pass {
        Pass {
            name,
            is_viewer,
            ends,
            bits_per_second_max,
        }
    }

    /// By which it was admitted.
    pub fn name(&self) -> &SessionId {
        &self.name
    }

    /// Whether it watches, or waits to.
    pub fn is_viewer(&self) -> bool {
        self.is_viewer
    }

    /// As a source it is read no faster.
    pub fn bits_per_second_max(&self) -> Option<u64> {
        self.bits_per_second_max
    }

    /// Until when it is inside.
    pub fn deadline(&self, desk: &Desk) -> Option<Moment> {
        self.ends.map(|ends| desk.moment_of(ends))
    }

    /// Its token ends then. Says whether that is new.
    pub fn end_at(&mut self, ends: Option<Stamp>) -> bool {
        std::mem::replace(&mut self.ends, ends) != ends
    }
}
