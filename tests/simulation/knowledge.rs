//! What is known of the streams from outside: what their sources have sent, and what the log says
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tollgate::gate::SessionId;

use super::media::Kind;
use super::senders;

pub type StreamNumber = usize;

pub struct Knowledge {
    pub sessions: Vec<Session>,
    streams: Vec<Known>,
    running: BTreeMap<usize, StreamNumber>,
    pub streams_max: usize,
    /// The clock jumps.
    pub has_jumps: bool,
    /// Streams wait for another source.
    pub holds: bool,
    /// Streams are fetched.
    pub has_origins: bool,
    /// What clients see is compared.
    pub is_compared: bool,
    /// The server has been told to end.
    pub is_closing: bool,
    /// Sessions whose sources send datagrams that run.
    by_datagrams: BTreeSet<&'static str>,
    /// What has happened how often, so that it can be seen that a run is worth something.
    pub tally: Tally,
}

pub type Tally = BTreeMap<String, u64>;

pub struct Session {
    pub name: String,
    /// The name as written in a query or a path.
    pub encoded: String,
    /// The name as written in the log.
    pub digest: String,
}

/// A stream, from its source's first thought of it on.
struct Known {
    session: usize,
    kind: Kind,
    content: Vec<u8>,
    /// Where stretches of content lie in what the source sends: offset there, offset here, length.
    stretches: Vec<(usize, usize, usize)>,
    arrived: usize,
    source: SocketAddr,
    state: State,
    /// Gaps that its viewers have seen.
    gaps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Announced,
    Refused,
    Running,
    Ended(Ended),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub is_clean: bool,
    /// Its rest was not sent to everybody.
    pub is_cut_off: bool,
    pub bytes: u64,
    /// By viewers of it in any container.
    pub skips: u64,
}

impl Session {
    pub fn new(name: &str) -> Session {
        let id = SessionId::parse(name.as_bytes()).expect("a sessionid");
        let encode = |byte: u8| match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        Session {
            name: name.to_owned(),
            encoded: name.bytes().map(encode).collect(),
            digest: id.digest().to_string(),
        }
    }
}

impl Knowledge {
    pub fn new(sessions: Vec<Session>, streams_max: usize) -> Knowledge {
        Knowledge {
            sessions,
            streams: Vec::new(),
            running: BTreeMap::new(),
            streams_max,
            has_jumps: false,
            holds: false,
            has_origins: false,
            is_compared: false,
            is_closing: false,
            by_datagrams: BTreeSet::new(),
            tally: Tally::new(),
        }
    }

    pub fn count(&mut self, what: impl Into<String>) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    /// A source is about to send this.
    pub fn announce(
        &mut self,
        session: usize,
        kind: Kind,
        content: Vec<u8>,
        stretches: Vec<(usize, usize, usize)>,
        source: SocketAddr,
    ) -> StreamNumber {
        self.streams.push(Known {
            session,
            kind,
            content,
            stretches,
            arrived: 0,
            source,
            state: State::Announced,
            gaps: 0,
        });
        self.streams.len() - 1
    }

    /// So much of what its source sends has been handed to the server.
    pub fn handed(&mut self, stream: StreamNumber, raw_bytes: usize) {
        let known = &mut self.streams[stream];
        let behind = known
            .stretches
            .partition_point(|(raw, _, _)| *raw < raw_bytes);
        if let Some((raw, at, length)) = behind.checked_sub(1).map(|last| known.stretches[last]) {
            known.arrived = at + length.min(raw_bytes - raw);
        }
    }

    pub fn streams_of(&self, session: usize) -> impl Iterator<Item = StreamNumber> {
        (0..self.streams.len()).filter(move |stream| self.streams[*stream].session == session)
    }

    pub fn kind(&self, stream: StreamNumber) -> Kind {
        self.streams[stream].kind
    }

    pub fn state(&self, stream: StreamNumber) -> State {
        self.streams[stream].state
    }

    pub fn session_of(&self, stream: StreamNumber) -> usize {
        self.streams[stream].session
    }

    /// What of a stream's content has reached the server.
    pub fn arrived(&self, stream: StreamNumber) -> &[u8] {
        let known = &self.streams[stream];
        let arrived = match known.state {
            State::Ended(ended) => ended.bytes as usize,
            State::Announced | State::Refused | State::Running => known.arrived,
        };
        &known.content[..arrived]
    }

    pub fn newest(&self, stream: StreamNumber) -> u64 {
        self.arrived(stream).len() as u64
    }

    pub fn content_bytes(&self, stream: StreamNumber) -> u64 {
        self.streams[stream].content.len() as u64
    }

    /// Returns whether a session is watched by its playlist only. It is not if another source continues
    /// its stream, since this world identifies streams by their sources.
    pub fn is_segmented(&self, session: usize) -> bool {
        !self.holds && session + 1 == self.sessions.len()
    }

    /// Whether a session's sources send films, and it is watched in other containers only.
    pub fn is_film(&self, session: usize) -> bool {
        cfg!(feature = "remux") && !self.holds && session + 2 == self.sessions.len()
    }

    pub fn running_in(&self, session: usize) -> Option<StreamNumber> {
        self.running.get(&session).copied()
    }

    /// The source was refused before its stream began.
    pub fn refused(&mut self, stream: StreamNumber) {
        let known = &mut self.streams[stream];
        if known.state == State::Announced {
            known.state = State::Refused;
        }
    }

    pub fn saw_gaps(&mut self, stream: StreamNumber, gaps: u64) {
        self.streams[stream].gaps += gaps;
        *self.tally.entry("gaps".to_owned()).or_default() += gaps;
    }

    /// No more gaps were seen than skips were counted. (Who gets the rest of a stream that has
    /// ended may fall out of its buffer, too.)
    pub fn check_gaps(&self, skips: u64) {
        let gaps: u64 = self.streams.iter().map(|known| known.gaps).sum();
        assert!(
            gaps <= skips,
            "viewers saw {gaps} gaps, {skips} skips were counted"
        );
    }

    pub fn check_none_runs(&self) {
        assert!(self.running.is_empty(), "streams run without sources");
    }

    /// A line of the log.
    pub fn read_log(&mut self, line: &str) {
        assert!(
            !line.contains(['\r', '\n']) && line.starts_with("level="),
            "not a line of the log: {line:?}"
        );
        let field = |name: &str| {
            let from = line
                .find(&format!(" {name}="))
                .map(|at| at + name.len() + 2);
            let rest = &line[from.unwrap_or_else(|| panic!("no {name} in {line:?}"))..];
            match rest.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next().unwrap_or_default().to_owned(),
                None => rest.split(' ').next().unwrap_or_default().to_owned(),
            }
        };
        let event = field("event");
        if matches!(&*event, "stream-begins" | "stream-ends")
            && let Some(name) = senders::named(&field("session"))
        {
            let source = (event == "stream-begins").then(|| field("source"));
            return self.of_datagrams(name, source);
        }
        match event.as_str() {
            "stream-begins" => {
                let session = self.session_with(&field("session"));
                let source: SocketAddr = field("source").parse().expect("an address");
                self.begins(session, source);
            }
            "stream-ends" => {
                let session = self.session_with(&field("session"));
                let reason = field("reason");
                let number = |name: &str| field(name).parse::<u64>().expect("a number");
                let ended = Ended {
                    is_clean: matches!(
                        reason.as_str(),
                        "the source is complete"
                            | "the server shuts down"
                            | "the last viewer has left"
                    ),
                    is_cut_off: false,
                    bytes: number("bytes_received"),
                    skips: number("skips"),
                };
                self.ends(session, ended, &reason);
            }
            // The draining stream gave way to a new one: viewers that had not read it do not get it.
            "stream-cut-off" => {
                let digest = field("session");
                for known in &mut self.streams {
                    let is_its = self.sessions[known.session].digest == digest;
                    if let (true, State::Ended(ended)) = (is_its, &mut known.state) {
                        ended.is_cut_off = true;
                    }
                }
            }
            "lines-left-out" => panic!("the log is incomplete"),
            _ => {}
        }
    }

    /// A stream of a session that datagrams come in for begins, at this source, or ends.
    fn of_datagrams(&mut self, name: &'static str, source: Option<String>) {
        if let Some(source) = source {
            let source = source.parse().expect("an address");
            assert!(senders::may_send(name, source), "{name} has {source}");
            assert!(self.by_datagrams.insert(name), "{name} has two streams");
            self.count(format!("begins: {name}"));
        } else {
            assert!(self.by_datagrams.remove(name), "{name} had no stream");
        }
    }

    fn session_with(&self, digest: &str) -> usize {
        let found = self
            .sessions
            .iter()
            .position(|session| session.digest == digest);
        found.unwrap_or_else(|| panic!("a session that nobody named: {digest}"))
    }

    fn begins(&mut self, session: usize, source: SocketAddr) {
        // The newest: an origin may have announced one before that did not come to begin.
        let begun = self.streams.iter().rposition(|known| {
            known.source == source && known.session == session && known.state == State::Announced
        });
        let begun = begun.unwrap_or_else(|| panic!("a stream of nobody begins: {source}"));
        self.streams[begun].state = State::Running;
        let before = self.running.insert(session, begun);
        assert_eq!(before, None, "a session has two streams");
        assert!(
            self.running.len() + self.by_datagrams.len() <= self.streams_max,
            "more streams run than may"
        );
    }

    fn ends(&mut self, session: usize, ended: Ended, reason: &str) {
        let stream = self.running.remove(&session).expect("a running stream");
        let known = &mut self.streams[stream];
        assert!(
            ended.bytes <= known.arrived as u64,
            "a stream has had more than was sent"
        );
        assert!(
            reason != "the source is complete" || ended.bytes == known.content.len() as u64,
            "a stream is complete without all of its bytes"
        );
        known.state = State::Ended(ended);
        self.count(format!("end: {reason}"));
        *self.tally.entry("skips".to_owned()).or_default() += ended.skips;
        *self.tally.entry("bytes".to_owned()).or_default() += ended.bytes;
    }
}
