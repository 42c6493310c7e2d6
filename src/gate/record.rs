//! A change of the token table, as a value: what the API asks for, and what the journal keeps.

use std::net::SocketAddr;

use super::session_id::SessionId;
use super::tokens::{Full, Tokens};
use super::tuple::{Direction, RtpTuple};

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What [`Tokens::add`] was given; an `http` tuple, clients or both.
    Add {
        session: SessionId,
        http: Option<Direction>,
        rtp: Vec<RtpTuple>,
    },
    /// What [`Tokens::revoke`] was given.
    Revoke { session: SessionId },
}

impl Record {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let clients = match self {
            Record::Add { rtp, .. } => rtp.as_slice(),
            Record::Revoke { .. } => &[],
        };
        let addresses = |rtp: &RtpTuple| rtp.addresses.capacity() * size_of::<SocketAddr>();
        let each = clients
            .iter()
            .map(|rtp| size_of::<RtpTuple>() + rtp.client.held_bytes() + addresses(rtp));
        self.session().held_bytes() + each.sum::<usize>()
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
