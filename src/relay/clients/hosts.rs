//! Number of connections of each host and each IPv6 network. A client with one address of an IPv6
//! network can use all of them.
//!
//! Bounds: an entry for each connection, and one for its network.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::gate::shared_network;
use crate::relay::admission::Others;

/// Number of counted connections of each host and network.
#[derive(Default)]
pub(super) struct Hosts {
    each: HashMap<IpAddr, usize>,
    /// The same for networks that count as more than one address.
    networks: HashMap<IpAddr, usize>,
}

impl Hosts {
    /// Counts one more connection of this host.
    pub fn enter(&mut self, host: IpAddr) {
        *self.each.entry(host).or_default() += 1;
        if let Some(network) = shared_network(host) {
            *self.networks.entry(network).or_default() += 1;
        }
    }

    /// Counts one connection less.
    pub fn leave(&mut self, host: IpAddr) {
        take(&mut self.each, &host);
        if let Some(network) = shared_network(host) {
            take(&mut self.networks, &network);
        }
    }

    /// Returns the number of connections of this host, and of its network.
    pub fn of(&self, host: IpAddr) -> Others {
        let of_host = self.each.get(&host).copied().unwrap_or(0);
        let of_network = shared_network(host).map(|network| self.networks.get(&network));
        Others {
            of_host,
            of_network: of_network.map_or(0, |count| count.copied().unwrap_or(0)),
        }
    }

    /// Returns the number of connections of all hosts.
    pub fn count(&self) -> usize {
        self.each.values().sum()
    }
}

/// Subtracts one from the count of this key. Frees the memory of the table when no key is left.
pub(super) fn take<Key: Eq + Hash>(counts: &mut HashMap<Key, usize>, key: &Key) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
    if counts.is_empty() {
        *counts = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection has an entry for its host, and for its network if that has more than one
    /// host. Closed connections leave none.
    #[test]
    fn closed_connections_leave_no_entry() {
        let networks = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, number, 0, 0, 0, 1]);
        let one_network = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]);
        let old = |number: u16| IpAddr::from([192, 0, (number / 256) as u8, number as u8]);
        type Name = fn(u16) -> IpAddr;
        let cases: [(Name, usize); 3] = [(networks, 2_000), (one_network, 1_001), (old, 1_000)];
        for (host, entries) in cases {
            let mut hosts = Hosts::default();
            (0..1_000).for_each(|number| hosts.enter(host(number)));
            assert_eq!(hosts.each.len() + hosts.networks.len(), entries);
            assert_eq!(hosts.count(), 1_000);
            (0..1_000).for_each(|number| hosts.leave(host(number)));
            assert_eq!(hosts.each.capacity() + hosts.networks.capacity(), 0);
        }
    }
}
