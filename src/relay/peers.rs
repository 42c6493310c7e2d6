//! Peers: other relays behind the same address, whose lists are this one's, too.
//!
//! Who asks this server for a list is given what all of them have, as one array: the peers are
//! asked at the same time, each over a connection of its own, and their rows follow this server's.
//! Nothing of it is kept. A peer that does not answer in time, or not with a list, is left out, and
//! a field names it. A peer that asks is answered with this server's rows alone, or two that are
//! each other's peers would ask for ever.
//!
//! Bounds: [`GATHERINGS_MAX`] at a time, from when the peers are asked until all that they told is
//! written, and for each peer a time and so many bytes ([`super::clients`]).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use super::api::{RETRY_AFTER_SECONDS, Rows};
use super::errand::Ticket;
use super::lists::Lists;
use super::settings::OriginUrl;
use super::{ConnectionId, Relay};
use crate::held::table_bytes;
use crate::http::{Refusal, Reply, Status};
use crate::json;

/// More lists of the whole are not put together or written at a time.
const GATHERINGS_MAX: usize = 8;
/// How a peer that asks is known.
const VIA: &str = "1.1 tollgate-peer";

/// Another relay whose lists are this one's, too: where it is, and its URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    address: SocketAddr,
    url: OriginUrl,
}

/// A list of the whole: first it is put together, then its client reads it.
pub(super) struct Gathering {
    client: ConnectionId,
    reply: Reply,
    rows: Rows,
    shares: Vec<Share>,
}

/// What has become of one peer's part.
enum Share {
    /// It is being asked over this connection.
    Awaited(ConnectionId),
    Missing,
    /// Its rows as far as they are not written, each with the comma before it.
    Rows(VecDeque<Vec<u8>>),
}

impl Peer {
    /// `None`: its host is a name, and would have to be looked up.
    pub fn new(url: &OriginUrl) -> Option<Peer> {
        Some(Peer {
            address: url.address()?,
            url: url.clone(),
        })
    }

    fn request(&self, rows: Rows) -> String {
        let OriginUrl { host, port, path } = &self.url;
        let list = match rows {
            Rows::Tokens => "list-tokens",
            Rows::Streams => "list-streams",
        };
        format!(
            "GET {path}/api/{list} HTTP/1.1\r\nHost: {host}:{port}\r\nVia: {VIA}\r\nConnection: close\r\n\r\n"
        )
    }
}

/// Whether a request is a peer's.
pub(super) fn is_of_peer(via: Option<&str>) -> bool {
    via.is_some_and(|via| via.split(',').any(|hop| hop.trim() == VIA))
}

impl Lists {
    /// A peer has told these rows, or none that are rows.
    pub(super) fn told(&mut self, ticket: Ticket, peer: usize, rows: Option<VecDeque<Vec<u8>>>) {
        let share = rows.map_or(Share::Missing, Share::Rows);
        if let Some(gathering) = self.gatherings.get_mut(&ticket)
            && let Some(place) = gathering.shares.get_mut(peer)
        {
            *place = share;
        }
    }

    fn take_gathering(&mut self, ticket: Ticket) -> Option<Gathering> {
        let gathering = self.gatherings.remove(&ticket);
        if self.gatherings.is_empty() {
            self.gatherings = HashMap::new();
        }
        gathering
    }

    /// The next block of what the peers told, for their rows to be written. When all of it has been
    /// taken the gathering is over.
    pub(super) fn next_block(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        let gathering = self.gatherings.get_mut(&ticket)?;
        let block = gathering.shares.iter_mut().find_map(|share| match share {
            Share::Rows(blocks) => blocks.pop_front(),
            Share::Awaited(_) | Share::Missing => None,
        });
        if block.is_none() {
            self.take_gathering(ticket);
        }
        block
    }

    /// What must hold. `awaits` says whether a client waits for what has this ticket.
    pub(super) fn check_gatherings(&self, awaits: impl Fn(ConnectionId, Ticket) -> bool) {
        assert!(self.gatherings.len() <= GATHERINGS_MAX);
        for (ticket, gathering) in &self.gatherings {
            assert!(
                awaits(gathering.client, *ticket),
                "a list is for nobody: {ticket:?}"
            );
        }
    }

    /// What the gatherings hold in memory, in bytes: rows that have come and are not written.
    pub(super) fn held_by_gatherings(&self) -> usize {
        let table = table_bytes::<(Ticket, Gathering)>(self.gatherings.capacity());
        let gatherings = self.gatherings.values();
        let shares = gatherings.clone().flat_map(|gathering| &gathering.shares);
        let rows = shares.map(|share| match share {
            Share::Rows(blocks) => json::blocks_bytes(blocks),
            // What is coming is its connection's.
            Share::Awaited(_) | Share::Missing => 0,
        });
        let places = gatherings.map(|gathering| gathering.shares.capacity());
        table + places.sum::<usize>() * size_of::<Share>() + rows.sum::<usize>()
    }
}

impl Relay {
    /// A list of the whole: its answer waits until the peers have told theirs.
    pub(super) fn gather(&mut self, id: ConnectionId, rows: Rows, reply: Reply) {
        if self.lists.gatherings.len() >= GATHERINGS_MAX {
            let refusal = Refusal::busy(
                Status::ServiceUnavailable,
                "too many lists of the whole are being put together or read",
                RETRY_AFTER_SECONDS,
            );
            return self.clients.refuse(id, &refusal, reply, &mut self.desk);
        }
        let ticket = self.desk.draw_ticket();
        let peers = self.desk.settings.peers.clone();
        let shares = peers
            .iter()
            .enumerate()
            .map(|(index, peer)| {
                if !self.clients.has_room(&self.desk) {
                    return Share::Missing;
                }
                let (of, request) = ((ticket, index), peer.request(rows));
                let id = self
                    .clients
                    .ask_peer(of, peer.address, &request, &mut self.desk);
                Share::Awaited(id)
            })
            .collect();
        self.lists.gatherings.insert(
            ticket,
            Gathering {
                client: id,
                reply,
                rows,
                shares,
            },
        );
        self.clients.await_ticket(id, ticket, &mut self.desk);
        self.finish_gathering(ticket);
    }

    /// The connection to a peer is over.
    pub(super) fn telling_ended(&mut self, ticket: Ticket, peer: usize) {
        let share = self
            .lists
            .gatherings
            .get(&ticket)
            .and_then(|gathering| gathering.shares.get(peer));
        if let Some(Share::Awaited(_)) = share {
            self.lists.told(ticket, peer, None);
        }
        self.finish_gathering(ticket);
    }

    /// Once no peer is awaited any more, the list is answered.
    fn finish_gathering(&mut self, ticket: Ticket) {
        let is_whole = |gathering: &&Gathering| {
            let mut shares = gathering.shares.iter();
            !shares.any(|share| matches!(share, Share::Awaited(_)))
        };
        let Some(gathering) = self.lists.gatherings.get(&ticket).filter(is_whole) else {
            return;
        };
        let peers = self.desk.settings.peers.iter().zip(&gathering.shares);
        let missing: Vec<String> = peers
            .filter(|(_, share)| !matches!(share, Share::Rows(_)))
            .map(|(peer, _)| peer.address.to_string())
            .collect();
        let Gathering {
            client,
            rows,
            reply,
            ..
        } = *gathering;
        let has_rows = |share: &Share| matches!(share, Share::Rows(rows) if !rows.is_empty());
        let is_read = gathering.shares.iter().any(has_rows) && !reply.head_only;
        if !is_read {
            self.lists.take_gathering(ticket);
        }
        self.clients.list(
            client,
            rows,
            (is_read.then_some(ticket), &missing.join(", ")),
            reply,
            &mut self.desk,
        );
    }

    /// Whoever asked for a list is gone.
    pub(super) fn drop_gathering(&mut self, ticket: Ticket) {
        let Some(gathering) = self.lists.take_gathering(ticket) else {
            return;
        };
        for share in gathering.shares {
            if let Share::Awaited(id) = share {
                self.clients.close(id, &mut self.desk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_its_via() {
        assert!(is_of_peer(Some("1.1 tollgate-peer")));
        assert!(is_of_peer(Some("1.1 proxy, 1.1 tollgate-peer")));
        assert!(!is_of_peer(Some("1.1 tollgate-0123")));
        assert!(!is_of_peer(None));
    }
}
