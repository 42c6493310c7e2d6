//! Peers: other relays behind the same address, whose lists are this one's, too.
//!
//! Who asks this server for a list is given what all of them have, as one array: the peers are
//! asked at the same time, each over a connection of its own, and their rows follow this server's.
//! Nothing of it is kept. A peer that does not answer in time, or not with a list, is left out, and
//! a field names it. A peer that asks is answered with this server's rows alone, or two that are
//! each other's peers would ask for ever.
//!
//! Bounds: [`GATHERINGS_MAX`] at a time, from when the peers are asked until all that they told is
//! written, and for each peer [`PEER_TIME`] and [`PEER_BYTES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::{Lists, Said, Whole};
use crate::held::table_bytes;
use crate::http::{self, AnswerReader, Body, Part, Refusal, Reply, Status, percent_encoded};
use crate::json;
use crate::moment::Moment;
use crate::relay::api::Rows;
use crate::relay::desk::Desk;
use crate::relay::settings::{OriginUrl, Peer};
use crate::relay::{ConnectionId, RETRY_AFTER_SECONDS, Ticket};

/// More lists of the whole are not put together or written at a time.
const GATHERINGS_MAX: usize = 8;
/// So long a peer may take.
const PEER_TIME: Duration = Duration::from_secs(2);
/// A peer's list may be so long: some 300,000 tokens.
const PEER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The heads of peers.
const HEAD_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 64,
};
/// How a peer that asks is known.
const VIA: &str = "1.1 tollgate-peer";

/// A list of the whole: first it is put together, then its client reads it.
pub struct Gathering {
    client: ConnectionId,
    reply: Reply,
    rows: Rows,
    shares: Vec<Share>,
}

/// What has become of one peer's part.
enum Share {
    /// It is to be asked, when this input is settled.
    Unasked,
    /// It is being asked over this connection.
    Awaited(ConnectionId),
    Missing,
    /// Its rows as far as they are not written, each with the comma before it.
    Rows(VecDeque<Vec<u8>>),
}

/// A peer that is to be called.
pub struct Call {
    /// Where it is.
    pub to: SocketAddr,
    /// What it is asked.
    pub request: String,
    /// What is known of its answer.
    pub telling: Telling,
}

/// A peer that is being asked.
pub struct Telling {
    gathering: Ticket,
    peer: usize,
    until: Moment,
    reader: AnswerReader,
    /// Its head has come.
    body: Option<Body>,
    rows: json::Rows,
    bytes: usize,
}

/// Which peer's share of the list under which ticket.
pub type Place = (Ticket, usize);

/// What has come of a peer.
pub enum Told {
    /// Not enough to go on.
    More,
    /// A piece, and it can be read on.
    On,
    /// Its list, with a comma before each of its rows.
    All(VecDeque<Vec<u8>>),
    /// No list.
    Nothing,
}

impl Telling {
    /// So long it may take.
    pub fn until(&self) -> Moment {
        self.until
    }

    /// Which share of which list it is.
    pub fn share(&self) -> Place {
        (self.gathering, self.peer)
    }

    /// Reads on in what it tells.
    pub fn read(&mut self, input: &mut &[u8]) -> Told {
        match &mut self.body {
            None => match self.reader.read(input, &HEAD_LIMITS) {
                Ok(None) => Told::More,
                Ok(Some((answer, length))) if answer.status == 200 => {
                    *input = &input[length..];
                    self.body = Some(Body::new(answer.framing));
                    Told::On
                }
                Ok(Some(_)) | Err(_) => Told::Nothing,
            },
            Some(body) => match body.read(input) {
                Ok(Part::More) => Told::More,
                Ok(Part::Content(content)) => {
                    self.bytes += content.len();
                    match self.bytes <= PEER_BYTES_MAX && self.rows.read(content) {
                        true => Told::On,
                        false => Told::Nothing,
                    }
                }
                Ok(Part::End) => {
                    let rows = std::mem::take(&mut self.rows).finish();
                    rows.map_or(Told::Nothing, Told::All)
                }
                Err(_) => Told::Nothing,
            },
        }
    }

    /// Bytes that are allocated for it: as much as has come of its list.
    pub fn held_bytes(&self) -> usize {
        self.rows.held_bytes()
    }
}

fn request(peer: &Peer, rows: &Rows) -> String {
    let OriginUrl { host, port, path } = peer.url();
    let list = match rows {
        Rows::Tokens => "list-tokens".to_owned(),
        Rows::Details => "list-tokens?details=1".to_owned(),
        Rows::Streams => "list-streams".to_owned(),
        Rows::Viewers(None) => "list-viewers".to_owned(),
        Rows::Viewers(Some(session)) => {
            format!(
                "list-viewers?sessionid={}",
                percent_encoded(session.as_str())
            )
        }
    };
    format!(
        "GET {path}/api/{list} HTTP/1.1\r\nHost: {host}:{port}\r\nVia: {VIA}\r\nConnection: close\r\n\r\n"
    )
}

/// Whether a request is a peer's.
pub fn is_of_peer(via: Option<&str>) -> bool {
    via.is_some_and(|via| via.split(',').any(|hop| hop.trim() == VIA))
}

impl Lists {
    /// A list of the whole: its answer waits until the peers have told theirs.
    pub fn gather(
        &mut self,
        client: ConnectionId,
        rows: Rows,
        reply: Reply,
        desk: &mut Desk,
    ) -> Result<Ticket, Refusal> {
        if self.gatherings.len() >= GATHERINGS_MAX {
            return Err(Refusal::busy(
                Status::ServiceUnavailable,
                "too many lists of the whole are being put together or read",
                RETRY_AFTER_SECONDS,
            ));
        }
        let ticket = desk.draw_ticket();
        let peers = 0..desk.settings.peers.len();
        self.said
            .extend(peers.clone().map(|peer| Said::Call { ticket, peer }));
        let gathering = Gathering {
            client,
            reply,
            rows,
            shares: peers.map(|_| Share::Unasked).collect(),
        };
        self.gatherings.insert(ticket, gathering);
        Ok(ticket)
    }

    /// Whom a gathering is to call, and what it asks.
    pub fn call(&self, ticket: Ticket, peer: usize, desk: &Desk) -> Option<Call> {
        let gathering = self.gatherings.get(&ticket)?;
        let whom = desk.settings.peers.get(peer)?;
        Some(Call {
            to: whom.address(),
            request: request(whom, &gathering.rows),
            telling: Telling {
                gathering: ticket,
                peer,
                until: desk.now + PEER_TIME,
                reader: AnswerReader::default(),
                body: None,
                rows: json::Rows::default(),
                bytes: 0,
            },
        })
    }

    /// A peer is called over this connection; or there is no room for one.
    pub fn called(
        &mut self,
        ticket: Ticket,
        peer: usize,
        connection: Option<ConnectionId>,
        desk: &Desk,
    ) {
        let share = connection.map_or(Share::Missing, Share::Awaited);
        self.learn(ticket, peer, share, desk);
    }

    /// A peer has told its list.
    pub fn told(&mut self, (ticket, peer): Place, rows: VecDeque<Vec<u8>>, desk: &Desk) {
        self.learn(ticket, peer, Share::Rows(rows), desk);
    }

    /// The connection to a peer is over. What it has not told is missing.
    pub fn telling_ended(&mut self, (ticket, peer): Place, desk: &Desk) {
        let gathering = self.gatherings.get(&ticket);
        let share = gathering.and_then(|gathering| gathering.shares.get(peer));
        if let Some(Share::Awaited(_)) = share {
            self.learn(ticket, peer, Share::Missing, desk);
        }
    }

    /// What has become of a peer's part. Once all are known, the list is answered.
    fn learn(&mut self, ticket: Ticket, peer: usize, share: Share, desk: &Desk) {
        let Some(gathering) = self.gatherings.get_mut(&ticket) else {
            return;
        };
        if let Some(place) = gathering.shares.get_mut(peer) {
            *place = share;
        }
        let is_open = |share: &Share| matches!(share, Share::Unasked | Share::Awaited(_));
        if gathering.shares.iter().any(is_open) {
            return;
        }
        let peers = desk.settings.peers.iter().zip(&gathering.shares);
        let missing: Vec<String> = peers
            .filter(|(_, share)| !matches!(share, Share::Rows(_)))
            .map(|(peer, _)| peer.address().to_string())
            .collect();
        let has_rows = |share: &Share| matches!(share, Share::Rows(rows) if !rows.is_empty());
        let is_read = gathering.shares.iter().any(has_rows) && !gathering.reply.head_only;
        self.said.push_back(Said::Whole(Whole {
            client: gathering.client,
            reply: gathering.reply,
            rows: gathering.rows.clone(),
            ticket: is_read.then_some(ticket),
            missing: missing.join(", "),
        }));
        if !is_read {
            self.take_gathering(ticket);
        }
    }

    /// Whoever asked for a list is gone.
    pub(super) fn drop_gathering(&mut self, ticket: Ticket) {
        let gathering = self.take_gathering(ticket).into_iter();
        let asked =
            gathering
                .flat_map(|gathering| gathering.shares)
                .filter_map(|share| match share {
                    Share::Awaited(connection) => Some(connection),
                    Share::Unasked | Share::Missing | Share::Rows(_) => None,
                });
        self.said.extend(asked.map(Said::HangUp));
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
    pub fn next_block(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        let gathering = self.gatherings.get_mut(&ticket)?;
        let block = gathering.shares.iter_mut().find_map(|share| match share {
            Share::Rows(blocks) => blocks.pop_front(),
            Share::Unasked | Share::Awaited(_) | Share::Missing => None,
        });
        if block.is_none() {
            self.take_gathering(ticket);
        }
        block
    }

    /// What must hold between two inputs. `waits` says whether this client waits under this ticket,
    /// or reads what has come of it.
    pub fn check(&self, waits: impl Fn(ConnectionId, Ticket) -> bool) {
        assert!(self.said.is_empty(), "nobody has heard what is to be done");
        assert!(self.gatherings.len() <= GATHERINGS_MAX);
        for (ticket, gathering) in &self.gatherings {
            assert!(
                waits(gathering.client, *ticket),
                "a list is for nobody: {ticket:?}"
            );
        }
    }

    /// Whether anything is being put together under this ticket.
    pub fn has_gathering(&self, ticket: Ticket) -> bool {
        self.gatherings.contains_key(&ticket)
    }

    /// What the gatherings hold in memory, in bytes: rows that have come and are not written.
    pub(super) fn held_by_gatherings(&self) -> usize {
        let table = table_bytes::<(Ticket, Gathering)>(self.gatherings.capacity());
        let gatherings = self.gatherings.values();
        let shares = gatherings.clone().flat_map(|gathering| &gathering.shares);
        let rows = shares.map(|share| match share {
            Share::Rows(blocks) => json::blocks_bytes(blocks),
            // What is coming is its connection's.
            Share::Unasked | Share::Awaited(_) | Share::Missing => 0,
        });
        let places = gatherings.map(|gathering| gathering.shares.capacity());
        table + places.sum::<usize>() * size_of::<Share>() + rows.sum::<usize>()
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
