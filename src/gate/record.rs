//! A change of the token table, as a value: what the API asks for, and what the journal keeps.

use std::net::SocketAddr;

use super::grant::Grant;
use super::limits::Full;
use super::session_id::SessionId;
use super::tokens::Tokens;
use super::tuple::RtpTuple;
use crate::stamp::Stamp;

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What [`Tokens::add`] was given; an `http` tuple, clients or both.
    Add {
        session: SessionId,
        http: Option<Grant>,
        rtp: Vec<RtpTuple>,
    },
    /// What [`Tokens::revoke`] was given.
    Revoke { session: SessionId },
}

impl Record {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let (http, clients) = match self {
            Record::Add { http, rtp, .. } => (http.as_ref(), rtp.as_slice()),
            Record::Revoke { .. } => (None, &[][..]),
        };
        let grant = http.map_or(0, Grant::held_bytes);
        let addresses = |rtp: &RtpTuple| rtp.addresses.capacity() * size_of::<SocketAddr>();
        let each = clients
            .iter()
            .map(|rtp| size_of::<RtpTuple>() + rtp.client.held_bytes() + addresses(rtp));
        self.session().held_bytes() + grant + each.sum::<usize>()
    }

    /// Whose tuples it changes.
    pub fn session(&self) -> &SessionId {
        match self {
            Record::Add { session, .. } | Record::Revoke { session } => session,
        }
    }

    /// Makes the change.
    pub fn apply(self, tokens: &mut Tokens) -> Result<(), Full> {
        match self {
            Record::Add { session, http, rtp } => tokens.add(&session, http, rtp).map(|_| ()),
            Record::Revoke { session } => {
                tokens.revoke(&session);
                Ok(())
            }
        }
    }
}

/// What is written at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The changes, in their order.
    pub records: Vec<Record>,
    /// How late it was.
    pub time: Option<Stamp>,
}

impl Entry {
    /// Makes the changes.
    pub fn apply(self, tokens: &mut Tokens) -> Result<(), Full> {
        if let Some(time) = self.time {
            tokens.tell_time(time);
        }
        let mut records = self.records.into_iter();
        records.try_for_each(|record| record.apply(tokens))
    }
}
