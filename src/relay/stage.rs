//! The core on a stage, for its tests: clients, origins and the clock are played by the test; no
//! socket.
// Most of what it can do is asked for by tests of what may be left out.
#![cfg_attr(not(feature = "default"), allow(dead_code))]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::{self, Command};
use crate::gather::Gather;
use crate::http::{Body, Framing, Part};
use crate::relay::clients::WaitFor;
use crate::relay::{
    Action, ConnectionId, Job, JobId, Outgoing, Relay, Settings, UdpPort, write_next,
};
#[cfg(feature = "handover")]
use crate::relay::{StreamId, handover};
use crate::time::Instant;

/// A server, and everybody whom it talks to.
pub struct Stage {
    pub relay: Relay,
    pub now: Instant,
    /// What was written to each connection.
    pub written: BTreeMap<ConnectionId, Vec<u8>>,
    pub closed: BTreeSet<ConnectionId>,
    /// Connections that it asked for, and nobody has answered yet.
    pub calls: Vec<(ConnectionId, SocketAddr)>,
    pub jobs: Vec<(JobId, Job)>,
    ports: u16,
}

/// What the operator chose who gave these options.
pub fn settings(options: &[&str]) -> Settings {
    match config::parse(options, []) {
        Ok(Command::Run(config)) => config.settings(100, 0, 7),
        other => panic!("{options:?}: {other:?}"),
    }
}

/// Returns an address with its port.
pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A client on the server's host sends this request without a body.
pub fn request(stage: &mut Stage, line: &str) -> ConnectionId {
    ask(stage, line, "")
}

/// The same with these fields, each with its line end.
pub fn ask(stage: &mut Stage, line: &str, fields: &str) -> ConnectionId {
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    stage.client(&head)
}

impl Stage {
    pub fn new(options: &[&str]) -> Stage {
        Stage {
            relay: Relay::new(settings(options)),
            now: Instant::START,
            written: BTreeMap::new(),
            closed: BTreeSet::new(),
            calls: Vec::new(),
            jobs: Vec::new(),
            ports: 10_000,
        }
    }

    pub fn settle(&mut self) {
        loop {
            while self.relay.do_deferred_work(self.now).is_some() {}
            while self.write_next() {}
            let Some(action) = self.relay.next_action() else {
                if self.relay.has_deferred_work() {
                    continue;
                }
                break;
            };
            match action {
                Action::Connect(id, address) => self.calls.push((id, address)),
                Action::Close(id) => {
                    self.closed.insert(id);
                    self.calls.retain(|(call, _)| *call != id);
                }
                Action::Run(job_id, job) => self.jobs.push((job_id, job)),
                Action::ShutdownWrite(_)
                | Action::ReadOn(_)
                | Action::ReturnMemory(_)
                | Action::Log(_)
                | Action::LogAccess(_) => {}
            }
        }
        self.relay.check();
    }

    /// Writes to the next client. Returns whether there was one.
    pub fn write_next(&mut self) -> bool {
        let written = &mut self.written;
        let write = |id, output: &Gather<'_>| {
            let written = written.entry(id).or_default();
            for slice in output.slices() {
                written.extend_from_slice(slice);
            }
            Outgoing::Whole(output.bytes())
        };
        write_next(&mut self.relay, self.now, write).is_some()
    }

    /// Writes to each connection until none is left. This viewer's socket takes at most `bytes_max`.
    pub fn write_part(&mut self, viewer: ConnectionId, bytes_max: usize) {
        let mut left = bytes_max;
        loop {
            let written = &mut self.written;
            let write = |id, output: &Gather<'_>| {
                let mut bytes = output.bytes();
                if id == viewer {
                    bytes = bytes.min(left);
                    left -= bytes;
                }
                let all: Vec<u8> = output.slices().iter().flat_map(|it| it.to_vec()).collect();
                written.entry(id).or_default().extend(&all[..bytes]);
                match bytes == all.len() {
                    true => Outgoing::Whole(bytes),
                    false => Outgoing::Part(bytes),
                }
            };
            if write_next(&mut self.relay, self.now, write).is_none() {
                return;
            }
        }
    }

    pub fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.relay.next_deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.relay.expire(self.now);
            self.settle();
        }
        self.now = until;
    }

    pub fn wait_seconds(&mut self, seconds: u64) {
        self.wait(Duration::from_secs(seconds));
    }

    /// These bytes come from a client, all at once. Says how much work they were.
    pub fn send(&mut self, id: ConnectionId, bytes: &(impl AsRef<[u8]> + ?Sized)) -> usize {
        let cost = self.relay.received(id, bytes.as_ref(), self.now);
        self.settle();
        cost
    }

    /// Media come from a source, a piece after the other.
    pub fn send_media(&mut self, source: ConnectionId, media: &[u8]) {
        for piece in media.chunks(40_000) {
            self.relay.received(source, piece, self.now);
        }
        self.settle();
    }

    /// A datagram comes from this address.
    pub fn arrive(&mut self, from: &str, datagram: &[u8]) {
        let from = from.parse().expect("an address");
        self.relay.datagram(from, UdpPort::Rtp, datagram, self.now);
        self.settle();
    }

    /// A client sends a request.
    pub fn client(&mut self, request: &str) -> ConnectionId {
        self.ports += 1;
        let peer = SocketAddr::from(([10, 0, 0, 1], self.ports));
        let id = self.relay.accepted(peer, self.now).expect("room");
        self.send(id, request);
        id
    }

    pub fn viewer(&mut self, session: &str) -> ConnectionId {
        self.client(&format!(
            "GET /stream/{session} HTTP/1.1\r\nHost: h\r\n\r\n"
        ))
    }

    pub fn lose(&mut self, id: ConnectionId) {
        self.relay.lost(id, self.now);
        self.settle();
    }

    pub fn text(&self, id: ConnectionId) -> String {
        let bytes = self.written.get(&id).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// What of the stream has come to a viewer, and whether it ended well.
    pub fn media(&self, id: ConnectionId) -> (Vec<u8>, bool) {
        let bytes = self.written.get(&id).map_or(&[][..], Vec::as_slice);
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(head_end) = head_end.filter(|_| bytes.starts_with(b"HTTP/1.1 200 ")) else {
            return (Vec::new(), false);
        };
        let (mut reader, mut rest) = (Body::new(Framing::Chunked), &bytes[head_end + 4..]);
        let mut media = Vec::new();
        while let Part::Content(part) = reader.read(&mut rest).expect("good chunks") {
            media.extend_from_slice(part);
        }
        (media, reader.is_complete())
    }

    /// The same of media that is text.
    pub fn content(&self, id: ConnectionId) -> (String, bool) {
        let (media, is_complete) = self.media(id);
        (String::from_utf8_lossy(&media).into_owned(), is_complete)
    }

    #[track_caller]
    pub fn assert_status(&self, id: ConnectionId, status: u16) {
        let text = self.text(id);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text:?}");
    }

    /// The one origin that is called, which takes the call; and what it is asked.
    #[track_caller]
    pub fn call(&mut self) -> (ConnectionId, SocketAddr, String) {
        assert_eq!(self.calls.len(), 1, "{:?}", self.calls);
        let (id, address) = self.calls.remove(0);
        assert_eq!(
            self.text(id),
            "",
            "nothing is written before it is connected"
        );
        self.relay.unblocked(id);
        self.settle();
        (id, address, self.text(id))
    }

    /// The origin that is called answers.
    #[track_caller]
    pub fn answer(&mut self, text: &str) -> ConnectionId {
        let (id, _, _) = self.call();
        self.send(id, text);
        id
    }

    #[track_caller]
    pub fn assert_nothing_left(&mut self) {
        assert_eq!(self.relay.fetch.len(), 0, "a pull is left");
        assert_eq!(self.calls, [], "somebody is called still");
        assert_eq!(self.relay.streams.running(), 0);
        assert_eq!(self.relay.clients.waiting.len(WaitFor::Session), 0);
        assert!(self.relay.lists.is_empty());
        assert_eq!(self.relay.clients.uncounted(), 0);
    }
}

/// The hand-over of a core to its successor. Tests may change it on its way.
#[cfg(feature = "handover")]
#[derive(Clone)]
pub struct HandedOver {
    pub media: Vec<(StreamId, u64, Vec<u8>)>,
    pub records: String,
}

#[cfg(feature = "handover")]
impl HandedOver {
    /// The same, with each of the lines of this name as it is made by `change`, which is given its
    /// number and its value.
    #[track_caller]
    pub fn but(
        &self,
        name: &str,
        mut change: impl FnMut(&mut u64, &mut serde_json::Value),
    ) -> HandedOver {
        let mut records = String::new();
        for line in self.records.lines() {
            let words: Vec<&str> = line.splitn(3, ' ').collect();
            let mut number = words[1].parse().expect("a number");
            let mut value = serde_json::from_str(words[2]).expect("a value");
            if words[0] == name {
                change(&mut number, &mut value);
            }
            records += &format!("{} {number} {value}\n", words[0]);
        }
        let media = self.media.clone();
        HandedOver { media, records }
    }

    /// Returns the core that takes over with these options, or why it refuses.
    pub fn taken_over(&self, options: &[&str]) -> Result<Relay, String> {
        let is_kept = options
            .iter()
            .any(|option| option.starts_with("--token-file="));
        let mut successor = handover::Successor::new(settings(options), is_kept);
        for (stream, at, bytes) in &self.media {
            let taken = successor.take(handover::Piece::Media(*stream, *at, bytes));
            taken.map_err(|unfit| unfit.0)?;
        }
        let heard = successor.receive(self.records.as_bytes());
        let taken = heard.and_then(|()| successor.take_over());
        taken.map(|(relay, _)| relay).map_err(|unfit| unfit.0)
    }
}

#[cfg(feature = "handover")]
impl Stage {
    pub fn hand_over(&mut self) -> HandedOver {
        handover::settle(&mut self.relay, self.now);
        let mut media = Vec::new();
        for (stream, range) in self.relay.streams.media() {
            let mut at = range.start;
            while at < range.end {
                let bytes = self.relay.streams.media_bytes(stream, at);
                assert!(!bytes.is_empty(), "of {range:?} there is none at {at}");
                media.push((stream, at, bytes.to_vec()));
                at += bytes.len() as u64;
            }
        }
        let mut records = Vec::new();
        let mut out = |piece: &[u8]| records.extend_from_slice(piece);
        handover::hand_over(&mut self.relay, self.now, &mut out);
        let records = String::from_utf8(records).expect("text");
        HandedOver { media, records }
    }

    /// Another core with these options has taken this one's place, and everybody is looked at.
    #[track_caller]
    pub fn change_hands(&mut self, options: &[&str]) {
        let taken = self.hand_over().taken_over(options);
        self.relay = taken.expect("it fits");
        self.relay.check();
        self.settle();
    }
}
