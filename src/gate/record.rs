//! A change of the token table, as a value: what the table carries out, and what the journal keeps.
//! A running table changes in no other way, so a journal replayed gives the table that it was.

use std::net::SocketAddr;

use super::grant::Grant;
use super::session_id::SessionId;
use super::tuple::RtpTuple;
use crate::time::UnixTime;

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Puts tuples into the session: each in the place of the one that it stands for, or behind all
    /// others. The tuples say all that is known of them.
    Set {
        session: SessionId,
        http: Option<Grant>,
        rtp: Vec<RtpTuple>,
    },
    /// Removes the session's `http` tuple, which was over, to make room.
    Forget { session: SessionId },
    /// Removes all of the session's tuples.
    Revoke { session: SessionId },
    /// Adds to the session's `http` tuple as version 0.2 did. Read from old journals, never written.
    Join { session: SessionId, grant: Grant },
}

impl Record {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let (grant, rtp) = match self {
            Record::Set { http, rtp, .. } => (http.as_ref(), rtp.as_slice()),
            Record::Join { grant, .. } => (Some(grant), &[][..]),
            Record::Forget { .. } | Record::Revoke { .. } => (None, &[][..]),
        };
        let grant = grant.map_or(0, Grant::held_bytes);
        self.session().held_bytes() + grant + clients_bytes(rtp)
    }

    /// How many tuples it puts into the table.
    pub fn tuples(&self) -> usize {
        match self {
            Record::Set { http, rtp, .. } => usize::from(http.is_some()) + rtp.len(),
            Record::Join { .. } => 1,
            Record::Forget { .. } | Record::Revoke { .. } => 0,
        }
    }

    /// Whose tuples it changes.
    pub fn session(&self) -> &SessionId {
        match self {
            Record::Set { session, .. }
            | Record::Forget { session }
            | Record::Revoke { session }
            | Record::Join { session, .. } => session,
        }
    }
}

/// Bytes that a list of UDP clients takes.
pub fn clients_bytes(rtp: &[RtpTuple]) -> usize {
    let addresses = |rtp: &RtpTuple| rtp.addresses.capacity() * size_of::<SocketAddr>();
    let each = rtp
        .iter()
        .map(|rtp| size_of::<RtpTuple>() + rtp.client.held_bytes() + addresses(rtp));
    each.sum()
}

/// What is written at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The changes, in their order.
    pub records: Vec<Record>,
    /// How late it was.
    pub time: Option<UnixTime>,
}
