//! Peers: other relays behind the same address. A list of this server has their rows, too.
//!
//! A client gets the rows of all relays as one array. The server asks its peers at the same time,
//! each over a connection of its own, and appends their rows to its own. It keeps nothing. A peer
//! that does not answer in time, or not with a list, is left out, and a header field names it. A
//! peer that asks gets this server's rows only: otherwise two peers would ask each other for ever.
//!
//! Bounds: [`GATHERINGS_MAX`] lists at a time, until they are written; for each peer [`PEER_TIME`]
//! and [`PEER_BYTES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::Lists;
use crate::http::{self, AnswerReader, Body, Part, Refusal, Reply, elements, percent_encoded};
use crate::json;
use crate::relay::api::Rows;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::settings::{OriginUrl, Peer};
use crate::relay::{ConnectionId, JobId};
use crate::time::Instant;

/// Maximal number of lists that wait or are written.
const GATHERINGS_MAX: usize = 8;
/// Time for a peer's answer.
const PEER_TIME: Duration = Duration::from_secs(2);
/// Maximal size of a peer's list: some 300,000 tokens.
const PEER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Limits for heads of peers.
const HEAD_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 64,
    takes_old_sources: false,
};
/// `Via` by which a peer's request is known.
const VIA: &str = "1.1 tollgate-peer";

/// A list of all relays: first it waits for the peers, then its client reads it.
pub struct Collecting {
    client: ConnectionId,
    reply: Reply,
    rows: Rows,
    shares: Vec<PeerRows>,
}

/// State of one peer's part.
pub enum PeerRows {
    /// The peer will be asked at the end of this input.
    Unasked,
    /// The peer is being asked over this connection.
    Asked(ConnectionId),
    /// The peer has not answered with a list.
    Missing,
    /// Rows that are not written yet, each with the comma before it.
    Rows(VecDeque<Vec<u8>>),
}

/// A request to a peer.
pub struct PeerRequest {
    collecting: JobId,
    peer: usize,
    pub until: Instant,
    reader: AnswerReader,
    /// The body of its answer, once the head has come.
    body: Option<Body>,
    rows: json::Rows,
    bytes: usize,
}

/// A peer's part of a list: the list, and the number of the peer.
pub type Share = (JobId, usize);

/// Result of reading a peer's answer.
pub enum PeerProgress {
    /// More input is needed.
    More,
    /// A piece was read, and there may be more.
    On,
    /// All rows, with a comma before each.
    All(VecDeque<Vec<u8>>),
    /// The answer is no list.
    Nothing,
}

impl PeerRequest {
    /// Returns its part of the list.
    pub fn share(&self) -> Share {
        (self.collecting, self.peer)
    }

    /// Reads the peer's answer.
    pub fn read(&mut self, input: &mut &[u8]) -> PeerProgress {
        match &mut self.body {
            None => match self.reader.read(input, &HEAD_LIMITS) {
                Ok(None) => PeerProgress::More,
                Ok(Some((answer, length))) if answer.status == 200 => {
                    *input = &input[length..];
                    self.body = Some(Body::new(answer.framing));
                    PeerProgress::On
                }
                Ok(Some(_)) | Err(_) => PeerProgress::Nothing,
            },
            Some(body) => match body.read(input) {
                Ok(Part::More) => PeerProgress::More,
                Ok(Part::Content(content)) => {
                    self.bytes += content.len();
                    match self.bytes <= PEER_BYTES_MAX && self.rows.read(content) {
                        true => PeerProgress::On,
                        false => PeerProgress::Nothing,
                    }
                }
                Ok(Part::End) => {
                    let rows = std::mem::take(&mut self.rows).finish();
                    rows.map_or(PeerProgress::Nothing, PeerProgress::All)
                }
                Err(_) => PeerProgress::Nothing,
            },
        }
    }
}

fn request(peer: &Peer, rows: &Rows) -> String {
    let OriginUrl { host, port, path } = &peer.url;
    let list = match rows {
        Rows::Tokens => "list-tokens".to_owned(),
        Rows::Details => "list-tokens?details=1".to_owned(),
        Rows::Streams => "list-streams".to_owned(),
        Rows::Histories => "list-streams?history=1".to_owned(),
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

/// Returns whether a proxy has passed a request on. A proxy appends itself to `Via`, behind the peer
/// that sent the request.
pub fn is_of_proxy(via: Option<&str>) -> bool {
    via.is_some_and(|via| elements(via, ',').last() != Some(VIA))
}

/// Returns whether a request comes from a peer.
pub fn is_of_peer(via: Option<&str>) -> bool {
    via.is_some_and(|via| elements(via, ',').any(|hop| hop == VIA))
}

impl Lists {
    /// Begins a list of all relays. The answer waits for the peers.
    pub fn collect(
        &mut self,
        client: ConnectionId,
        rows: Rows,
        reply: Reply,
        ctx: &mut Context,
    ) -> Result<JobId, Refusal> {
        if self.collected_lists.len() >= GATHERINGS_MAX {
            return Err(Refusal::busy(
                "too many lists with the rows of peers are being made or read; try again later",
            ));
        }
        let job_id = ctx.draw_job();
        let peers = 0..ctx.settings().peers.len();
        for peer in peers.clone() {
            ctx.notify(Event::CallPeer { list: job_id, peer });
        }
        let collecting = Collecting {
            client,
            reply,
            rows,
            shares: peers.map(|_| PeerRows::Unasked).collect(),
        };
        self.collected_lists.insert(job_id, collecting);
        Ok(job_id)
    }

    /// Returns the address of a peer, the text of the request, and its state.
    pub fn call(
        &self,
        job_id: JobId,
        peer: usize,
        ctx: &Context,
    ) -> Option<(SocketAddr, String, PeerRequest)> {
        let collecting = self.collected_lists.get(&job_id)?;
        let server = ctx.settings().peers.get(peer)?;
        let state = PeerRequest {
            collecting: job_id,
            peer,
            until: ctx.now() + PEER_TIME,
            reader: AnswerReader::default(),
            body: None,
            rows: json::Rows::default(),
            bytes: 0,
        };
        let request = request(server, &collecting.rows);
        Some((server.address, request, state))
    }

    /// Handles the end of the connection to a peer. Without rows, its part is missing.
    pub fn peer_ended(&mut self, (job_id, peer): Share, ctx: &mut Context) {
        let collecting = self.collected_lists.get(&job_id);
        let rows = collecting.and_then(|collecting| collecting.shares.get(peer));
        if let Some(PeerRows::Asked(_)) = rows {
            self.set_share((job_id, peer), PeerRows::Missing, ctx);
        }
    }

    /// Sets the state of a peer's part. When all are known, the list is ready.
    pub fn set_share(&mut self, (job_id, peer): Share, rows: PeerRows, ctx: &mut Context) {
        let Some(collecting) = self.collected_lists.get_mut(&job_id) else {
            return;
        };
        if let Some(share) = collecting.shares.get_mut(peer) {
            *share = rows;
        }
        let is_open = |rows: &PeerRows| matches!(rows, PeerRows::Unasked | PeerRows::Asked(_));
        if collecting.shares.iter().any(is_open) {
            return;
        }
        let peers = ctx.settings().peers.iter().zip(&collecting.shares);
        let missing: Vec<String> = peers
            .filter(|(_, rows)| !matches!(rows, PeerRows::Rows(_)))
            .map(|(peer, _)| peer.address.to_string())
            .collect();
        let has_rows = |rows: &PeerRows| matches!(rows, PeerRows::Rows(rows) if !rows.is_empty());
        let is_read = collecting.shares.iter().any(has_rows) && !collecting.reply.head_only;
        ctx.notify(Event::ListReady {
            client: collecting.client,
            reply: collecting.reply,
            rows: collecting.rows.clone(),
            list: is_read.then_some(job_id),
            missing: missing.join(", "),
        });
        if !is_read {
            self.take_collecting(job_id);
        }
    }

    /// Drops a list whose client has left.
    pub(super) fn drop_collecting(&mut self, job_id: JobId, ctx: &mut Context) {
        let collecting = self.take_collecting(job_id).into_iter();
        for share in collecting.flat_map(|collecting| collecting.shares) {
            if let PeerRows::Asked(connection) = share {
                ctx.notify(Event::Close(connection));
            }
        }
    }

    fn take_collecting(&mut self, job_id: JobId) -> Option<Collecting> {
        let collecting = self.collected_lists.remove(&job_id);
        if self.collected_lists.is_empty() {
            self.collected_lists = HashMap::new();
        }
        collecting
    }

    /// Takes the next block of the peers' rows. When none is left, the list is dropped.
    pub fn next_block(&mut self, job_id: JobId) -> Option<Vec<u8>> {
        let collecting = self.collected_lists.get_mut(&job_id)?;
        let block = collecting.shares.iter_mut().find_map(|share| match share {
            PeerRows::Rows(blocks) => blocks.pop_front(),
            PeerRows::Unasked | PeerRows::Asked(_) | PeerRows::Missing => None,
        });
        if block.is_none() {
            self.take_collecting(job_id);
        }
        block
    }

    /// Checks what must hold between two inputs. `waits`: whether this client waits for this list,
    /// or reads it.
    pub fn check(&self, waits: impl Fn(ConnectionId, JobId) -> bool) {
        assert!(self.collected_lists.len() <= GATHERINGS_MAX);
        for (job_id, collecting) in &self.collected_lists {
            assert!(
                waits(collecting.client, *job_id),
                "a list is for nobody: {job_id:?}"
            );
        }
    }

    /// Returns whether there is this list.
    pub fn has_collecting(&self, job_id: JobId) -> bool {
        self.collected_lists.contains_key(&job_id)
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

    #[test]
    fn another_relays_via_is_no_peers() {
        for (via, is_peers) in [
            ("1.1 tollgate-peer, 1.1 proxy", true),
            (" 1.1 tollgate-peer ", true),
            ("1.0 tollgate-peer", false),
            ("1.1 tollgate-peers", false),
            ("", false),
        ] {
            assert_eq!(is_of_peer(Some(via)), is_peers, "{via}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_the_end_of_via() {
        for (via, is_proxys) in [
            (None, false),
            (Some("1.1 tollgate-peer"), false),
            (Some("1.1 proxy, 1.1 tollgate-peer"), false),
            (Some("1.1 tollgate-peer,1.1 proxy"), true),
            (Some("1.1 tollgate-peer,"), true),
            (Some("1.1 tollgate-0123"), true),
            (Some(""), true),
        ] {
            assert_eq!(is_of_proxy(via), is_proxys, "{via:?}");
        }
    }

    #[test]
    fn a_peers_list_has_so_many_bytes_and_no_more() {
        for (bytes, is_taken) in [(PEER_BYTES_MAX - 8, true), (PEER_BYTES_MAX - 7, false)] {
            let mut telling = PeerRequest {
                collecting: JobId(1),
                peer: 3,
                until: Instant::START,
                reader: AnswerReader::default(),
                body: Some(Body::new(http::Framing::UntilClose)),
                rows: json::Rows::default(),
                bytes,
            };
            assert_eq!(telling.share(), (JobId(1), 3));
            let told = telling.read(&mut &b"[{\"a\":1}"[..]);
            assert_eq!(matches!(told, PeerProgress::On), is_taken, "{bytes}");
            assert_eq!(matches!(told, PeerProgress::Nothing), !is_taken, "{bytes}");
        }
    }
}
