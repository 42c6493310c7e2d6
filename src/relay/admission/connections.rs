//! Decides about a connection before its first request: how the server learns its client, and
//! whether there is a place for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::is_in;
use crate::gate::Subnet;
use crate::relay::settings::{Fields, VARIES};
use crate::relay::{CONNECTIONS_BEYOND_MAX, Settings};

/// How the server learns the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFrom {
    /// The connection's address is the client's.
    Connection,
    /// The connection begins with a PROXY protocol header, which names the client.
    ProxyHeader,
    /// A field of each request names the client.
    Request,
}

/// Limit that a connection exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Beyond {
    /// Connections in all.
    All,
    /// Connections from its host.
    Host,
}

/// Numbers of other connections of the same host, and of its network if a host has many addresses.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Connections of the host.
    pub of_host: usize,
    /// Connections of the host's network. 0 for IPv4, where a host has one address.
    pub of_network: usize,
}

/// Connections of a host beyond its limit that get a refusal in words.
const BEYOND_OF_HOST_MAX: usize = 8;
/// Maximal number of hosts that a network counts as. It may be a household or an office.
const HOSTS_OF_NETWORK: usize = 16;

impl Settings {
    /// Returns how the server learns the client of a connection from this host. Only a configured
    /// proxy can name another address.
    pub fn address_from(&self, host: IpAddr) -> AddressFrom {
        if is_in(&self.proxies, host) {
            AddressFrom::ProxyHeader
        } else if self.is_forwarder(host) {
            AddressFrom::Request
        } else {
            AddressFrom::Connection
        }
    }

    /// Returns whether requests from this host may name their client in a field.
    pub fn is_forwarder(&self, host: IpAddr) -> bool {
        is_in(&self.forwarders, host)
    }

    /// Returns whether a host is a proxy. A proxy's address never stands for a client.
    pub fn is_proxy(&self, host: IpAddr) -> bool {
        is_in(&self.proxies, host) || self.is_forwarder(host)
    }

    /// Returns whether a host may call the API.
    pub fn is_operators(&self, host: IpAddr) -> bool {
        self.names(&self.token_servers, host)
    }

    /// Returns whether the subnets of an access rule name a host. 127.0.0.1 and ::1 are one host,
    /// and browsers try ::1 first. The other address does not count if it is a proxy's: a proxy's
    /// clients come from there.
    pub(super) fn names(&self, subnets: &[Subnet], host: IpAddr) -> bool {
        let (one, two) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let other = match host.to_canonical() {
            IpAddr::V4(address) if address == one => Some(IpAddr::V6(two)),
            IpAddr::V6(address) if address == two => Some(IpAddr::V4(one)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        };
        let is_named = |other| is_in(subnets, other) && !self.is_proxy(other);
        is_in(subnets, host) || other.is_some_and(is_named)
    }

    /// Returns whether there is a place for another connection, given their number. Half of the
    /// places beyond the limit are for the API's hosts and for unknown clients.
    pub fn has_room_for_connection(&self, connections: usize, host: Option<IpAddr>) -> bool {
        let beyond_max = match host {
            Some(host) if !self.is_operators(host) => CONNECTIONS_BEYOND_MAX / 2,
            Some(_) | None => CONNECTIONS_BEYOND_MAX,
        };
        connections < self.limits.connections_max + beyond_max
    }

    /// Returns the limit that a connection exceeds, given the host's other connections.
    pub fn beyond(&self, others: Others) -> Option<Beyond> {
        self.has_too_many(others, 0).then_some(Beyond::Host)
    }

    /// Returns whether a host has too many connections beyond its limit to get a refusal: silent
    /// clients would hold the places of others. Hosts of the API always get an answer.
    pub fn is_crowd(&self, host: IpAddr, others: Others) -> bool {
        !self.is_operators(host) && self.has_too_many(others, BEYOND_OF_HOST_MAX)
    }

    fn has_too_many(&self, others: Others, more: usize) -> bool {
        let most = self.limits.connections_per_host_max;
        let of_network = most.saturating_mul(HOSTS_OF_NETWORK);
        others.of_host >= most.saturating_add(more)
            || others.of_network >= of_network.saturating_add(more)
    }

    /// Returns the response fields that let pages of this origin watch.
    pub fn cors(&self, origin: &str) -> Fields {
        let is_any = |site: &&(String, Fields)| site.0 == "*";
        let is_named = |site: &&(String, Fields)| site.0.eq_ignore_ascii_case(origin);
        let site = self.cors.iter().find(is_any);
        let site = site.or_else(|| self.cors.iter().find(is_named));
        site.map_or(&[], |(_, fields)| fields)
    }

    /// Returns the CORS fields of an answer that a cache may give to pages of any origin. With
    /// several named sites the answer differs by origin, and says so.
    pub fn cors_of_any(&self) -> Fields {
        match self.cors.as_slice() {
            [] => &[],
            [(_, fields)] => fields,
            sites => match sites.iter().find(|(site, _)| site == "*") {
                Some((_, fields)) => fields,
                None => VARIES,
            },
        }
    }
}
