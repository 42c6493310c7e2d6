//! The record of an admitted client: its session id, its role, and the end of its token.

use std::net::IpAddr;

use crate::gate::SessionId;
use crate::relay::context::Context;
use crate::time::{Instant, UnixTime};

/// A blocked viewer: the session id that admitted it, and its address or IPv6 network
/// ([`crate::gate::network_of`]).
pub(in crate::relay) type BlockedViewer = (SessionId, IpAddr);

/// Record of an admitted client.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::relay) struct Admission {
    /// Session id that admitted the client.
    pub credential: SessionId,
    /// Session that this session id opens.
    pub session: SessionId,
    pub(super) role: ClientRole,
    /// When its access ends.
    pub(super) ends: Option<UnixTime>,
}

/// Role of an admitted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::relay) enum ClientRole {
    /// A viewer that counts while its connection watches.
    Viewer,
    /// An HLS player, which counts for a while after each request.
    CountedHls,
    /// A source, or an HLS player while no token limits the number of viewers. It is not counted.
    Uncounted,
}

impl Admission {
    /// Returns whether it counts as a viewer while its connection is open.
    pub fn is_viewer(&self) -> bool {
        self.role == ClientRole::Viewer
    }

    /// Returns whether its address counts as an HLS viewer for a while.
    pub fn is_counted_hls(&self) -> bool {
        self.role == ClientRole::CountedHls
    }

    /// Returns the time at which its access ends.
    pub fn deadline(&self, ctx: &Context) -> Option<Instant> {
        self.ends.map(|ends| ctx.calendar.instant_of(ends))
    }

    /// Sets the end of its access. Returns whether the end has changed.
    pub fn end_at(&mut self, ends: Option<UnixTime>) -> bool {
        std::mem::replace(&mut self.ends, ends) != ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_says_whether_its_end_is_new() {
        let credential = SessionId::parse(b"a").expect("a good sessionid");
        let mut admission = Admission {
            session: credential.clone(),
            credential,
            role: ClientRole::Viewer,
            ends: None,
        };
        let at = |seconds| {
            Some(UnixTime {
                unix_seconds: seconds,
            })
        };
        for (ends, is_new) in [
            (None, false),
            (at(5), true),
            (at(5), false),
            (at(4), true),
            (None, true),
            (None, false),
        ] {
            assert_eq!(admission.end_at(ends), is_new, "{ends:?}");
        }
    }
}
