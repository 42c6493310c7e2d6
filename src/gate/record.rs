//! Changes of the token table. All changes are such records, so that a journal of them can be
//! replayed.

use std::net::SocketAddr;

use super::grant::Grant;
use super::session_id::SessionId;
use super::tuple::RtpTuple;
use crate::time::UnixTime;

/// A change of the token table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Puts tuples into the session. A tuple replaces the one that it changes, or is added last.
    /// The record has all terms.
    Set {
        session: SessionId,
        http: Option<Grant>,
        rtp: Vec<RtpTuple>,
    },
    /// Removes the session's expired `http` tuple, to make room.
    Forget { session: SessionId },
    /// Removes all tuples of the session.
    Revoke { session: SessionId },
    /// Extends the session's `http` tuple, as version 0.2 did. It is read from old journals, and
    /// never written.
    Join { session: SessionId, grant: Grant },
}

impl Record {
    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        let (grant, rtp) = match self {
            Record::Set { http, rtp, .. } => (http.as_ref(), rtp.as_slice()),
            Record::Join { grant, .. } => (Some(grant), &[][..]),
            Record::Forget { .. } | Record::Revoke { .. } => (None, &[][..]),
        };
        let grant = grant.map_or(0, Grant::memory_bytes);
        self.session().memory_bytes() + grant + clients_bytes(rtp)
    }

    /// Returns the number of tuples that it puts into the table.
    pub fn tuples(&self) -> usize {
        match self {
            Record::Set { http, rtp, .. } => usize::from(http.is_some()) + rtp.len(),
            Record::Join { .. } => 1,
            Record::Forget { .. } | Record::Revoke { .. } => 0,
        }
    }

    /// Returns the session whose tuples it changes.
    pub fn session(&self) -> &SessionId {
        match self {
            Record::Set { session, .. }
            | Record::Forget { session }
            | Record::Revoke { session }
            | Record::Join { session, .. } => session,
        }
    }
}

/// Returns the memory of a list of UDP clients, in bytes.
pub fn clients_bytes(rtp: &[RtpTuple]) -> usize {
    let addresses = |rtp: &RtpTuple| rtp.addresses.capacity() * size_of::<SocketAddr>();
    let each = rtp
        .iter()
        .map(|rtp| size_of::<RtpTuple>() + rtp.client.memory_bytes() + addresses(rtp));
    each.sum()
}

/// Changes that are written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The changes, in their order.
    pub records: Vec<Record>,
    /// The time of the changes.
    pub time: Option<UnixTime>,
}
