//! Tuples: what a token says (session id, host, port), and what the table adds.
//!
//! A tuple never changes. The table replaces it.

use std::net::SocketAddr;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::grant::{Grant, Terms};
use super::session_id::SessionId;
use super::transport::Transport;
use super::udp_clients::UdpClient;
use crate::time::UnixTime;

/// Largest number of addresses of a UDP client. Further addresses of a name are ignored.
pub const ADDRESSES_MAX: usize = 16;

/// A UDP client and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct RtpTuple {
    /// The client as the call gave it, for lists and comparisons.
    pub client: UdpClient,
    /// The form in which it gets or sends the stream.
    pub transport: Transport,
    /// At most [`ADDRESSES_MAX`] count. Without one, no datagram goes to or comes from this client.
    pub addresses: Vec<SocketAddr>,
}

/// What a tuple allows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    Http(Grant),
    Rtp(RtpTuple),
}

/// A tuple of the table. Its JSON has exactly the keys `sessionid`, `host` and `port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Its number in order of addition, from 1. Numbers are never used again.
    pub serial: u64,
    /// Its session.
    pub session: SessionId,
    /// What it allows.
    pub kind: Kind,
}

impl Tuple {
    /// Returns its memory in bytes, with its places in the views by session and by address. Half of
    /// a list may be unused.
    pub fn memory_bytes(&self) -> usize {
        let view = 2 * size_of::<usize>();
        let kind = match &self.kind {
            Kind::Http(grant) => grant.memory_bytes(),
            Kind::Rtp(rtp) => {
                let addresses = rtp.addresses.capacity() * size_of::<SocketAddr>();
                // A list has at least four places.
                addresses + rtp.client.memory_bytes() + (1 + rtp.addresses.len()) * 2 * view
            }
        };
        size_of::<Tuple>() + view + self.session.memory_bytes() + kind
    }

    /// Returns the UDP client, if the tuple is for one.
    pub fn rtp(&self) -> Option<&RtpTuple> {
        match &self.kind {
            Kind::Http(_) => None,
            Kind::Rtp(rtp) => Some(rtp),
        }
    }

    /// Returns the grant, if the tuple is for HTTP.
    pub fn http(&self) -> Option<&Grant> {
        match &self.kind {
            Kind::Http(grant) => Some(grant),
            Kind::Rtp(_) => None,
        }
    }

    /// Returns the addresses that identify its datagrams, without repeats: the address of a sender,
    /// or the group that the datagrams go to.
    pub(super) fn inbound(&self) -> Vec<SocketAddr> {
        let addresses = self.rtp().map_or(&[][..], |rtp| &rtp.addresses);
        let mut keys: Vec<SocketAddr> = addresses.iter().copied().map(canonical).collect();
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

/// A tuple with all its terms, for `list-tokens?details=1`. Times are Unix seconds.
pub struct Detailed<'a>(pub &'a Tuple);

impl Serialize for Detailed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Detailed(tuple) = self;
        let client = tuple.rtp().map(|rtp| &rtp.client);
        let grant = tuple.http();
        let no_terms = Terms::default();
        let terms = grant.map_or(&no_terms, |grant| &grant.terms);
        let seconds = |stamp: Option<UnixTime>| stamp.map(|stamp| stamp.unix_seconds);
        let mut object = serializer.serialize_struct("Detailed", 11)?;
        object.serialize_field("sessionid", &tuple.session)?;
        object.serialize_field("host", &client.map(|client| client.host.as_str()))?;
        object.serialize_field("port", &client.map(|client| client.port.get()))?;
        object.serialize_field("session", &tuple.session.digest().to_string())?;
        object.serialize_field("direction", &grant.map(|grant| grant.direction.name()))?;
        object.serialize_field("for", &terms.opens)?;
        object.serialize_field("expires", &seconds(terms.expires))?;
        object.serialize_field("ends", &seconds(terms.ends))?;
        object.serialize_field("max_viewers", &terms.viewers_max)?;
        object.serialize_field("max_bitrate", &terms.bits_per_second_max)?;
        object.serialize_field("note", &terms.note)?;
        object.end()
    }
}

/// Returns an address in the form of the look-up table: IPv4-mapped as IPv4, and IPv6 without zone
/// and flow label, which tokens cannot name.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
