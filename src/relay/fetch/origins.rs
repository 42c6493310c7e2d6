//! The origins: other relays, from which streams are fetched that do not run here.
//!
//! Owns what is known of each: where it is, and whether that is being looked up. A look-up is
//! shared by all pulls that wait for it. Owns also the name under which this server stands in `Via`
//! (RFC 9110 section 7.6.3), by which a loop is seen: requests and answers carry the names of all
//! relays that they came through, and one that holds this server's own is refused.

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::SessionId;
use crate::http::{Refusal, Status, percent_encoded};
use crate::moment::Moment;
use crate::relay::Ticket;
use crate::relay::settings::OriginUrl;

/// All origins, in the order in which they are asked.
pub(super) struct Origins {
    list: Vec<OriginServer>,
    /// How this server is called in `Via`: no other has this name.
    pseudonym: String,
}

struct OriginServer {
    url: OriginUrl,
    addresses: Vec<SocketAddr>,
    /// Then its addresses are looked up again.
    known_until: Moment,
    /// The look-up under way.
    lookup: Option<Ticket>,
}

/// Where an origin is.
pub(super) enum Whereabouts {
    Known,
    /// A look-up is under way.
    Sought,
    Unknown(String, u16),
}

/// How long a look-up's result is used: pulls that come in a row share it, and a change in the DNS
/// is seen soon.
const KNOWN_TIME: Duration = Duration::from_secs(5);
/// Addresses of an origin that are tried.
const ADDRESSES_MAX: usize = 8;
/// Relays that a stream may come through, and how long their list may be.
const HOPS_MAX: usize = 16;
const VIA_BYTES_MAX: usize = 2048;

impl Origins {
    /// With a name that has in it a `number` that nobody can foresee.
    pub fn new(urls: &[OriginUrl], number: u64) -> Origins {
        let server = |url: &OriginUrl| OriginServer {
            url: url.clone(),
            addresses: Vec::new(),
            known_until: Moment::START,
            lookup: None,
        };
        Origins {
            list: urls.iter().map(server).collect(),
            pseudonym: match urls {
                [] => String::new(),
                _ => format!("tollgate-{number:016x}"),
            },
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// What they hold in memory, in bytes.
    pub fn held_bytes(&self) -> usize {
        let servers = self.list.iter().map(|server| {
            let url = server.url.host.as_str().len() + server.url.path.capacity();
            url + server.addresses.capacity() * size_of::<SocketAddr>()
        });
        let list = self.list.capacity() * size_of::<OriginServer>();
        list + self.pseudonym.capacity() + servers.sum::<usize>()
    }

    /// Where each is, and until when that is known.
    #[cfg(feature = "handover")]
    pub fn addresses(&self) -> impl Iterator<Item = (&[SocketAddr], Moment)> {
        let list = self.list.iter();
        list.map(|server| (server.addresses.as_slice(), server.known_until))
    }

    /// How this server is called in `Via`.
    #[cfg(feature = "handover")]
    pub fn pseudonym(&self) -> &str {
        &self.pseudonym
    }

    /// The same origins, as far as they are in the same places, under the same name.
    #[cfg(feature = "handover")]
    pub fn become_as(&mut self, pseudonym: String, known: Vec<(Vec<SocketAddr>, Moment)>) {
        if self.pseudonym.len() == pseudonym.len() {
            self.pseudonym = pseudonym;
        }
        for (server, (mut addresses, until)) in self.list.iter_mut().zip(known) {
            addresses.truncate(ADDRESSES_MAX);
            (server.addresses, server.known_until) = (addresses, until);
        }
    }

    /// Whether the addresses of an origin are at hand.
    pub fn whereabouts(&self, origin: usize, now: Moment) -> Option<Whereabouts> {
        let server = self.list.get(origin)?;
        Some(match server.url.address() {
            Some(_) => Whereabouts::Known,
            None if server.lookup.is_some() => Whereabouts::Sought,
            None if now < server.known_until => Whereabouts::Known,
            None => {
                Whereabouts::Unknown(server.url.host.as_str().to_owned(), server.url.port.get())
            }
        })
    }

    /// An origin's addresses are looked up under this ticket.
    pub fn seek(&mut self, origin: usize, ticket: Ticket) {
        if let Some(server) = self.list.get_mut(origin) {
            server.lookup = Some(ticket);
        }
    }

    /// A look-up is over. Says which origin's it was, if any's.
    pub fn found(
        &mut self,
        ticket: Ticket,
        addresses: Vec<SocketAddr>,
        now: Moment,
    ) -> Option<usize> {
        let origin = self
            .list
            .iter()
            .position(|server| server.lookup == Some(ticket))?;
        let server = &mut self.list[origin];
        server.lookup = None;
        if !addresses.is_empty() {
            server.known_until = now + KNOWN_TIME;
        }
        server.addresses = addresses;
        server.addresses.truncate(ADDRESSES_MAX);
        Some(origin)
    }

    /// One of an origin's addresses.
    pub fn address(&self, origin: usize, address: usize) -> Option<SocketAddr> {
        let server = self.list.get(origin)?;
        match server.url.address() {
            Some(only) => (address == 0).then_some(only),
            None => server.addresses.get(address).copied(),
        }
    }

    /// The request for a session's stream, for which requests came through `via`. The sessionid
    /// stands in the query: in a path `..` is a step up to whoever normalises it.
    pub fn request(&self, origin: usize, session: &SessionId, via: Option<&str>) -> Option<String> {
        let OriginUrl { host, port, path } = &self.list.get(origin)?.url;
        Some(format!(
            "GET {path}/stream?sessionid={} HTTP/1.1\r\nHost: {host}:{port}\r\nVia: {}\r\nUser-Agent: tollgate/{}\r\nConnection: close\r\n\r\n",
            percent_encoded(session.as_str()),
            self.via(via),
            env!("CARGO_PKG_VERSION"),
        ))
    }

    /// `Via` of what this server passes on.
    pub fn via(&self, came_through: Option<&str>) -> String {
        match came_through {
            None => format!("1.1 {}", self.pseudonym),
            Some(before) => format!("{before}, 1.1 {}", self.pseudonym),
        }
    }

    /// Whether a message that came through `via` may be passed on. 508 is from RFC 5842; RFC 9110
    /// has no status of its own for a loop.
    pub fn check_via(&self, via: Option<&str>) -> Result<(), Refusal> {
        let Some(via) = via.filter(|_| !self.is_empty()) else {
            return Ok(());
        };
        let detail = if via.contains(&self.pseudonym) {
            "the request comes from this server itself: its origins form a loop"
        } else if via.len() > VIA_BYTES_MAX || via.split(',').count() > HOPS_MAX {
            "the request came through too many relays; at most 16 may stand in Via"
        } else {
            return Ok(());
        };
        Err(Refusal::new(Status::LoopDetected, detail))
    }
}

/// The relays that stand in both of two lists, as they stand in the first.
pub fn common(one: Option<String>, other: Option<&str>) -> Option<String> {
    let (one, other) = (one?, other?);
    if one == other {
        return Some(one);
    }
    let hops = |via: &str| -> Vec<String> {
        let hops = via.split(',').map(|hop| hop.trim().to_owned());
        hops.collect()
    };
    let others = hops(other);
    let mut both = hops(&one);
    both.retain(|hop| others.contains(hop));
    (!both.is_empty()).then(|| both.join(", "))
}
