//! By what a client is inside: the sessionid by which it was admitted, and what its token said
//! then.

use std::net::IpAddr;

use super::context::Context;
use crate::gate::SessionId;
use crate::time::{Instant, UnixTime};

/// A blocked viewer: the session id that admitted it, and its address or IPv6 network
/// ([`crate::gate::network_of`]).
pub(super) type Barred = (SessionId, IpAddr);

/// What was said when it was admitted.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Admission {
    name: SessionId,
    session: SessionId,
    role: Role,
    ends: Option<UnixTime>,
}

/// As what somebody comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Role {
    /// As a source.
    Source,
    /// A viewer that counts while its connection watches.
    Viewer,
    /// An HLS player, which counts for a while after each request.
    Sitter,
    /// The same where nobody counts how many those are.
    Passer,
}

impl Admission {
    /// Records a client that was admitted with the sessionid `name`, which opens `session`, until
    /// `ends`.
    pub fn new(
        (name, session): (SessionId, SessionId),
        role: Role,
        ends: Option<UnixTime>,
    ) -> Admission {
        Admission {
            name,
            session,
            role,
            ends,
        }
    }

    /// By which it was admitted.
    pub fn name(&self) -> &SessionId {
        &self.name
    }

    /// What that opened.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns whether it counts as a viewer while its connection is open.
    pub fn is_viewer(&self) -> bool {
        self.role == Role::Viewer
    }

    /// Whether it has a seat.
    pub fn is_sitter(&self) -> bool {
        self.role == Role::Sitter
    }

    /// Until when it is inside.
    pub fn deadline(&self, ctx: &Context) -> Option<Instant> {
        self.ends.map(|ends| ctx.instant_of(ends))
    }

    /// Its token ends then. Says whether that is new.
    pub fn end_at(&mut self, ends: Option<UnixTime>) -> bool {
        std::mem::replace(&mut self.ends, ends) != ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_says_whether_its_end_is_new() {
        let name = SessionId::parse(b"a").expect("a good sessionid");
        let mut admission = Admission::new((name.clone(), name), Role::Viewer, None);
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
