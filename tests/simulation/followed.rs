//! A reader of events that follows from the beginning and reads all of them: the events must add up
//! to the lists.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tollgate::relay::{ConnectionId, Relay};
use tollgate::time::Instant;

use crate::picture::{Picture, Unit};
use crate::response::{Body, Head};

/// Connections outside of the world, and the bytes that each received.
#[derive(Default)]
pub struct Aside {
    written: BTreeMap<ConnectionId, Vec<u8>>,
    reader: Option<ConnectionId>,
    picture: Picture,
    /// It has been told what there was.
    is_told: bool,
    pub units: usize,
}

const HOST: &str = "Host: localhost\r\n";

impl Aside {
    /// Whether this is one of them: then it has this.
    pub fn takes(&mut self, id: ConnectionId, bytes: impl Iterator<Item = u8>) -> bool {
        let written = self.written.get_mut(&id);
        written.map(|written| written.extend(bytes)).is_some()
    }

    /// Whether this is one of them, which is closed with this.
    pub fn closes(&mut self, id: ConnectionId) -> bool {
        if self.reader == Some(id) {
            self.reader = None;
        }
        self.has(id) && self.written.remove(&id).is_some()
    }

    pub fn has(&self, id: ConnectionId) -> bool {
        self.written.contains_key(&id)
    }

    fn connect(&mut self, relay: &mut Relay, text: &str, now: Instant) -> Option<ConnectionId> {
        let peer = SocketAddr::from(([10, 9, 0, 77], 7));
        let id = relay.accepted(peer, now)?;
        self.written.insert(id, Vec::new());
        relay.received(id, text.as_bytes(), now);
        Some(id)
    }

    /// Begins to follow.
    pub fn follow(&mut self, relay: &mut Relay, now: Instant) {
        let request = format!("GET /api/events HTTP/1.1\r\n{HOST}\r\n");
        self.reader = self.connect(relay, &request, now);
    }

    /// Nobody follows any more.
    pub fn leave(&mut self, relay: &mut Relay, now: Instant) {
        if let Some(id) = self.reader.take() {
            relay.lost(id, now);
        }
    }

    /// Takes the reader's events. Returns `false` if it may not follow.
    fn read(&mut self) -> bool {
        let Some(written) = self.reader.and_then(|id| self.written.get_mut(&id)) else {
            return false;
        };
        if written.starts_with(b"HTTP/1.1 ") {
            let end = written.windows(4).position(|four| four == b"\r\n\r\n");
            let Some(end) = end else { return false };
            if !written.starts_with(b"HTTP/1.1 200 ") {
                self.reader = None;
                return false;
            }
            written.drain(..end + 4);
        }
        while let Some(end) = written.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = written.drain(..end + 2).collect();
            let block = String::from_utf8(block).expect("text");
            if let Some(unit) = Unit::parse(&block) {
                self.is_told |= unit.event == "snapshot-end";
                assert_ne!(unit.event, "missed", "it takes all there is");
                self.picture.take(&unit);
                self.units += 1;
            }
        }
        assert!(written.is_empty(), "half a unit: {written:?}");
        self.is_told
    }

    /// Compares the reader's state with the lists, if it follows and the lists are available.
    pub fn check(
        &mut self,
        relay: &mut Relay,
        now: Instant,
        mut write: impl FnMut(&mut Aside, &mut Relay) -> bool,
    ) {
        for _ in 0..4 {
            let Some(before) = self.lists(relay, now, &mut write) else {
                return;
            };
            for _ in 0..5_000 {
                if !write(self, relay) && !relay.has_writes() {
                    break;
                }
            }
            if !self.read() {
                return;
            }
            // What was written in between may have ended somebody.
            if self.lists(relay, now, &mut write) == Some(before.clone()) {
                assert!(self.read(), "it follows still");
                assert_eq!(self.picture, before, "the events, and the lists");
                return;
            }
        }
    }

    fn lists(
        &mut self,
        relay: &mut Relay,
        now: Instant,
        write: &mut impl FnMut(&mut Aside, &mut Relay) -> bool,
    ) -> Option<Picture> {
        let request = |name: &str| {
            format!("GET /api/list-{name} HTTP/1.1\r\n{HOST}Via: 1.1 tollgate-peer\r\n\r\n")
        };
        let requests = ["tokens", "streams", "viewers"].map(request).concat();
        let id = self.connect(relay, &requests, now)?;
        let mut lists = Vec::new();
        for _ in 0..5_000 {
            while relay.do_deferred_work(now).is_some() {}
            let is_more = write(self, relay);
            lists = self
                .written
                .get(&id)
                .map(|bytes| answers(bytes))
                .unwrap_or_default();
            if lists.len() == 3 || (!is_more && !relay.has_deferred_work() && !relay.has_writes()) {
                break;
            }
        }
        relay.lost(id, now);
        match lists.as_slice() {
            [tokens, streams, viewers] => Some(Picture::of_lists(tokens, streams, viewers)),
            _ => None,
        }
    }
}

/// The lists that have come whole.
fn answers(mut bytes: &[u8]) -> Vec<Value> {
    let mut lists = Vec::new();
    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = Head::parse(&bytes[..end + 4]);
        let mut content = Vec::new();
        let mut body = Body::new("GET", &head);
        let taken = body.read(&bytes[end + 4..], &mut content);
        if head.status != 200 || !body.is_complete() {
            break;
        }
        bytes = &bytes[end + 4 + taken..];
        lists.push(serde_json::from_slice(&content).expect("JSON"));
    }
    lists
}
