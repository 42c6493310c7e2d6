//! Tuples: what a token says, (sessionid, host, port), and what the table knows besides.
//!
//! A tuple never changes; where more is allowed than before, the table puts another in its place.

use std::net::SocketAddr;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::grant::{Grant, Note};
use super::session_id::SessionId;
use super::transport::Transport;
use super::udp_clients::UdpClient;
use crate::time::UnixTime;

/// How many addresses of one UDP client are kept; a name that resolves to more has the rest
/// ignored.
pub const ADDRESSES_MAX: usize = 16;

/// A UDP client and what its host resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct RtpTuple {
    /// As it was given: who is listed, and compared.
    pub client: UdpClient,
    /// How it gets the session's stream, and how it gives one.
    pub transport: Transport,
    /// At least one, or nothing goes to and comes from this client; the first [`ADDRESSES_MAX`]
    /// count.
    pub addresses: Vec<SocketAddr>,
}

/// What a tuple is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    Http(Grant),
    Rtp(RtpTuple),
}

/// One tuple of the table. As JSON it has exactly the keys `sessionid`, `host` and `port`, and
/// never another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    pub(super) serial: u64,
    pub(super) session: SessionId,
    pub(super) kind: Kind,
}

impl Tuple {
    /// Where the tuple stands in the order of addition, from 1; never given to another.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// For which it holds.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// What it allows.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Bytes that it takes, its places in the views by session and by address included: of their
    /// lists half may be unused.
    pub fn held_bytes(&self) -> usize {
        let view = 2 * size_of::<usize>();
        let kind = match &self.kind {
            Kind::Http(grant) => grant.held_bytes(),
            Kind::Rtp(rtp) => {
                let addresses = rtp.addresses.capacity() * size_of::<SocketAddr>();
                // A list has four places at least.
                addresses + rtp.client.held_bytes() + (1 + rtp.addresses.len()) * 2 * view
            }
        };
        size_of::<Tuple>() + view + self.session.held_bytes() + kind
    }

    /// The UDP client and its addresses, if that is what the tuple is about.
    pub fn rtp(&self) -> Option<&RtpTuple> {
        match &self.kind {
            Kind::Http(_) => None,
            Kind::Rtp(rtp) => Some(rtp),
        }
    }

    /// What it grants over HTTP, if that is what the tuple is about.
    pub fn http(&self) -> Option<&Grant> {
        match &self.kind {
            Kind::Http(grant) => Some(grant),
            Kind::Rtp(_) => None,
        }
    }

    /// The addresses by which its datagrams are told, each once: of a host who sends, of a group
    /// that they are sent to.
    pub(super) fn inbound(&self) -> Vec<SocketAddr> {
        let addresses = self.rtp().map_or(&[][..], |rtp| &rtp.addresses);
        let mut keys: Vec<SocketAddr> = addresses.iter().copied().map(inbound_key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Serialize for Tuple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let client = self.rtp().map(|rtp| &rtp.client);
        let mut object = serializer.serialize_struct("Tuple", 3)?;
        object.serialize_field("sessionid", &self.session)?;
        object.serialize_field("host", &client.map(|client| client.host.as_str()))?;
        object.serialize_field("port", &client.map(|client| client.port.get()))?;
        object.end()
    }
}

/// A tuple with all that is known of it, for callers who ask for it. Times are seconds since 1970
/// began.
pub struct Detailed<'a>(pub &'a Tuple);

impl Serialize for Detailed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Detailed(tuple) = self;
        let client = tuple.rtp().map(|rtp| &rtp.client);
        let grant = tuple.http();
        let terms = grant.map(|grant| &grant.terms);
        let seconds = |stamp: Option<UnixTime>| stamp.map(|stamp| stamp.unix_seconds);
        let note = terms.and_then(|terms| terms.note.as_ref());
        let mut object = serializer.serialize_struct("Detailed", 11)?;
        object.serialize_field("sessionid", &tuple.session)?;
        object.serialize_field("host", &client.map(|client| client.host.as_str()))?;
        object.serialize_field("port", &client.map(|client| client.port.get()))?;
        object.serialize_field("session", &tuple.session.digest().to_string())?;
        object.serialize_field("direction", &grant.map(|grant| grant.direction.name()))?;
        object.serialize_field("for", &terms.and_then(|terms| terms.opens.as_ref()))?;
        object.serialize_field("expires", &terms.and_then(|terms| seconds(terms.expires)))?;
        object.serialize_field("ends", &terms.and_then(|terms| seconds(terms.ends)))?;
        object.serialize_field("max_viewers", &terms.and_then(|terms| terms.viewers_max))?;
        let bitrate = terms.and_then(|terms| terms.bits_per_second_max);
        object.serialize_field("max_bitrate", &bitrate)?;
        object.serialize_field("note", &note.map(Note::as_str))?;
        object.end()
    }
}

/// An address as datagrams are looked up: IPv4-mapped counts as IPv4, and an IPv6 address without
/// its zone and flow label, which a token cannot name.
pub(super) fn inbound_key(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
