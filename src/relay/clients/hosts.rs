//! How many connections each host has, and each network of IPv6: who has one of those has all of
//! its addresses, and is as many hosts as it likes.
//!
//! Bounds: an entry for each connection, and one for its network.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::gate::network_of;
use crate::held::hash_map_bytes;
use crate::relay::admission::Others;

/// How many connections each has, of those that are counted.
#[derive(Default)]
pub(super) struct Hosts {
    each: HashMap<IpAddr, usize>,
    /// Where that is more than one address.
    networks: HashMap<IpAddr, usize>,
}

impl Hosts {
    /// One more of this host.
    pub fn enter(&mut self, host: IpAddr) {
        *self.each.entry(host).or_default() += 1;
        if let Some(network) = others_too(host) {
            *self.networks.entry(network).or_default() += 1;
        }
    }

    /// One less.
    pub fn leave(&mut self, host: IpAddr) {
        take(&mut self.each, host);
        if let Some(network) = others_too(host) {
            take(&mut self.networks, network);
        }
    }

    /// How many there are of this host, and of its network.
    pub fn of(&self, host: IpAddr) -> Others {
        let of_host = self.each.get(&host).copied().unwrap_or(0);
        let of_network = others_too(host).map(|network| self.networks.get(&network));
        Others {
            of_host,
            of_network: of_network.map_or(0, |count| count.copied().unwrap_or(0)),
        }
    }

    /// How many there are in all.
    pub fn count(&self) -> usize {
        self.each.values().sum()
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        hash_map_bytes(&self.each) + hash_map_bytes(&self.networks)
    }
}

/// The network of a host, if that has others, too.
fn others_too(host: IpAddr) -> Option<IpAddr> {
    Some(network_of(host)).filter(|network| *network != host)
}

fn take(counts: &mut HashMap<IpAddr, usize>, key: IpAddr) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
    if counts.is_empty() {
        *counts = HashMap::new();
    }
}
