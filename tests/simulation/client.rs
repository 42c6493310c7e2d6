//! A client: it sends its script at its own pace, reads at its own pace, and judges every answer.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tollgate::relay::ConnectionId;
use tollgate::remux::Target;

use super::chance::Chance;
use super::films::Given;
use super::knowledge::{Knowledge, Session, State, StreamNumber};
use super::media::Track;
use super::script::{Asked, Request, Script};
use super::twins::Seen;
use super::wire::{Socket, Wire};
use crate::playlist::Playlist;
use crate::response::{Body, End, Head};

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Everything, always.
    Prompt,
    /// At most this many bytes in a turn.
    Slow(usize),
    /// The client stops reading now and then, for at most this many turns.
    Stalling(usize),
}

/// What a client does when its script has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finale {
    Stay,
    Shut,
    Reset,
}

impl Finale {
    /// Most stay.
    pub fn any(chance: &mut Chance) -> Finale {
        *chance.pick(&[
            Finale::Stay,
            Finale::Stay,
            Finale::Stay,
            Finale::Shut,
            Finale::Reset,
        ])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Source,
    Viewer,
    Caller,
    Other,
    /// Another relay, which the server calls.
    Relay,
}

pub struct Client {
    pub role: Role,
    pub peer: SocketAddr,
    /// Through whom it comes, if it does not come itself.
    pub proxy: Option<SocketAddr>,
    /// What a relay has been asked, so far.
    pub heard: Vec<u8>,
    /// The stream that a relay brings.
    brings: Option<StreamNumber>,
    pub connects_at: usize,
    pub wire: Wire,
    pub socket: Option<Socket>,
    /// The id under which the server knew it.
    pub id: Option<ConnectionId>,
    pub has_come: bool,
    /// When another core took over, it stayed with the old one, which is gone here.
    pub has_stayed: bool,
    pub is_over: bool,
    habit: Habit,
    finale: Finale,
    pace: usize,
    /// Chance in a hundred, each turn, that it breaks its connection.
    resets_percent: usize,
    stalled_turns: usize,
    script: Vec<u8>,
    sent: usize,
    /// So much of it has been handed to the server.
    handed: usize,
    requests: VecDeque<OriginRequest>,
    answered: usize,
    /// More requests that it makes when the one before is answered.
    pub rounds: usize,
    reading: Reading,
    /// The playlist that it had last, and of which session that is.
    list: Option<(usize, Playlist)>,
    names: Vec<String>,
    /// The server said that this answer was the last.
    was_told_to_go: bool,
    /// A write to it was not whole at some time.
    pub was_blocked: bool,
    /// Where worlds are compared.
    pub seen: Seen,
}

struct OriginRequest {
    request: Request,
    /// Set when the server has all of it.
    track: Option<Track>,
}

enum Reading {
    Head(Vec<u8>),
    Body {
        head: Head,
        body: Body,
        content: Vec<u8>,
    },
}

/// How a client behaves.
#[derive(Clone, Copy)]
pub struct Manner {
    pub habit: Habit,
    pub finale: Finale,
    pub pace: usize,
    pub resets_percent: usize,
    pub down_capacity: usize,
}

impl Client {
    pub fn new(role: Role, peer: SocketAddr, connects_at: usize, manner: Manner) -> Client {
        Client {
            role,
            peer,
            proxy: None,
            heard: Vec::new(),
            brings: None,
            connects_at,
            wire: Wire::new(64 * 1024, manner.down_capacity),
            socket: None,
            id: None,
            has_come: false,
            is_over: false,
            has_stayed: false,
            habit: manner.habit,
            finale: manner.finale,
            pace: manner.pace,
            resets_percent: manner.resets_percent,
            stalled_turns: 0,
            script: Vec::new(),
            sent: 0,
            handed: 0,
            requests: VecDeque::new(),
            answered: 0,
            rounds: 0,
            reading: Reading::Head(Vec::new()),
            list: None,
            names: Vec::new(),
            was_told_to_go: false,
            was_blocked: false,
            seen: Seen::default(),
        }
    }

    /// Stands in for one that is being asked.
    pub fn placeholder(peer: SocketAddr) -> Client {
        let manner = Manner {
            habit: Habit::Prompt,
            finale: Finale::Stay,
            pace: 1,
            resets_percent: 0,
            down_capacity: 0,
        };
        Client::new(Role::Other, peer, usize::MAX, manner)
    }

    /// For who looks into a failure.
    pub fn state(&self) -> String {
        format!(
            "{:?} {:?} {:?} {:?}: sent {} of {}, handed {}, answered {}, unread {}, waits for {:?}",
            self.role,
            self.peer,
            self.habit,
            self.finale,
            self.sent,
            self.script.len(),
            self.handed,
            self.answered,
            self.wire.unread(),
            self.requests.front().map(|asking| &asking.request)
        )
    }

    /// It comes through a proxy, which says so first.
    pub fn come_through(&mut self, proxy: SocketAddr, introduction: &[u8]) {
        self.proxy = Some(proxy);
        self.script.extend_from_slice(introduction);
    }

    /// A relay is about to say this.
    pub fn say(&mut self, bytes: &[u8], brings: Option<StreamNumber>, ends: bool) {
        self.heard.clear();
        self.script.extend_from_slice(bytes);
        self.brings = brings;
        if ends {
            self.finale = Finale::Shut;
        }
    }

    /// Offset of the next bytes to send.
    pub fn script_bytes(&self) -> usize {
        self.script.len()
    }

    pub fn add(&mut self, script: Script) {
        let from = self.script.len();
        self.script.extend_from_slice(&script.bytes);
        self.requests
            .extend(script.requests.into_iter().map(|request| OriginRequest {
                request: Request {
                    end: from + request.end,
                    ..request
                },
                track: None,
            }));
    }

    /// A source sends its media in about this many turns.
    pub fn take_turns(&mut self, turns: usize) {
        // Its pace is a magnitude, which is half of its end's on the average.
        self.pace = (self.script.len() * 3 / turns).max(1);
    }

    /// It has an open connection, and nothing to wait for.
    pub fn is_at_rest(&self) -> bool {
        self.requests.is_empty() && self.sent == self.script.len() && !self.is_over
    }

    pub fn is_open(&self) -> bool {
        self.has_come && !self.is_over && !self.wire.is_closed()
    }

    /// Returns whether nothing more happens until the client gets another turn.
    pub fn is_idle(&self) -> bool {
        !self.has_come
            || self.is_over
            || (self.wire.is_idle()
                && !self.wire.has_ended()
                && (self.sent == self.script.len() || self.wire.is_closed()))
    }

    /// It reads and sends as it should, so the server owes it whole answers.
    fn is_exemplary(&self) -> bool {
        let is_prompt = self.habit == Habit::Prompt && self.finale == Finale::Stay;
        is_prompt && !self.wire.is_reset() && !self.has_stayed
    }

    /// From now on it only does what ends its part: no stalls, no breaks.
    pub fn calm_down(&mut self) {
        self.stalled_turns = 0;
        self.resets_percent = 0;
        self.rounds = 0;
        self.pace = self.pace.max(8 * 1024);
        self.wire.down_capacity = self.wire.down_capacity.max(32 * 1024);
        match self.habit {
            Habit::Slow(bytes) => self.habit = Habit::Slow(bytes.max(32 * 1024)),
            Habit::Stalling(_) => self.habit = Habit::Stalling(0),
            Habit::Prompt => {}
        }
    }

    pub fn leave(&mut self) {
        self.finale = Finale::Shut;
        self.wire.shut();
    }

    // ---- Its turn --------------------------------------------------------

    pub fn act(&mut self, knowledge: &mut Knowledge, chance: &mut Chance) {
        if !self.has_come || self.is_over {
            return;
        }
        if self.resets_percent > 0 && chance.percent(self.resets_percent) {
            self.wire.reset(chance.percent(50));
        }
        self.read(knowledge, chance);
        self.send(chance);
        if self.wire.has_ended() {
            self.end(knowledge);
        }
    }

    fn send(&mut self, chance: &mut Chance) {
        let left = self.script.len() - self.sent;
        if left > 0 {
            let bytes = chance.magnitude(0..=self.pace).min(left);
            self.sent += self.wire.send(&self.script[self.sent..self.sent + bytes]);
        }
        if self.sent < self.script.len() || self.rounds > 0 {
            return;
        }
        match self.finale {
            Finale::Stay => {}
            Finale::Shut => {
                if chance.percent(20) {
                    self.wire.shut();
                }
            }
            Finale::Reset => {
                if chance.percent(10) {
                    self.wire.reset(chance.percent(50));
                }
            }
        }
    }

    fn read(&mut self, knowledge: &mut Knowledge, chance: &mut Chance) {
        if self.stalled_turns > 0 {
            self.stalled_turns -= 1;
            return;
        }
        let bytes_max = match self.habit {
            Habit::Prompt => usize::MAX,
            Habit::Slow(bytes) => chance.magnitude(0..=bytes),
            Habit::Stalling(turns) => {
                if turns > 0 && chance.percent(4) {
                    self.stalled_turns = chance.magnitude(1..=turns);
                }
                usize::MAX
            }
        };
        let bytes = self.wire.receive(bytes_max);
        self.seen.take(&bytes);
        if self.role == Role::Relay {
            self.heard.extend_from_slice(&bytes);
        } else {
            self.understand(&bytes, knowledge);
        }
    }

    /// How many of its bytes have been handed to the server.
    pub fn handed_bytes(&self) -> usize {
        self.handed
    }

    /// The server may read its requests later than it was handed them: after many heads in this turn,
    /// after the end of a list, or in another core, which has taken over.
    pub fn is_kept_waiting(&mut self) {
        let tracks = self.requests.iter_mut();
        tracks
            .filter_map(|asking| asking.track.as_mut())
            .for_each(Track::is_kept_waiting);
    }

    /// So many more of its bytes have been handed to the server.
    pub fn handed(&mut self, bytes: usize, knowledge: &mut Knowledge) {
        self.handed += bytes;
        if let Some(stream) = self.brings {
            knowledge.handed(stream, self.handed);
        }
        for (index, asking) in self.requests.iter_mut().enumerate() {
            match asking.request.asked {
                Asked::Publish { stream, .. } => knowledge.handed(stream, self.handed),
                Asked::Watch { session } if asking.track.is_none() => {
                    if asking.request.end <= self.handed {
                        let asked_at = knowledge
                            .streams_of(session)
                            .map(|stream| (stream, knowledge.newest(stream)))
                            .collect();
                        asking.track = Some(Track::new(session, asked_at, index == 0));
                    }
                }
                Asked::Watch { .. }
                | Asked::Film { .. }
                | Asked::List { .. }
                | Asked::Segment { .. }
                | Asked::Call(_)
                | Asked::Wrong
                | Asked::Garbage => {}
            }
        }
    }

    // ---- Its answers -----------------------------------------------------

    fn understand(&mut self, mut bytes: &[u8], knowledge: &mut Knowledge) {
        while !bytes.is_empty() {
            match &mut self.reading {
                Reading::Head(read) => {
                    read.push(bytes[0]);
                    bytes = &bytes[1..];
                    if read.ends_with(b"\r\n\r\n") {
                        let head = Head::parse(&std::mem::take(read));
                        self.head(head, knowledge);
                    }
                }
                Reading::Body { body, content, .. } => {
                    let taken = body.read(bytes, content);
                    assert!(taken > 0, "bytes behind the end of an answer");
                    bytes = &bytes[taken..];
                    self.content(knowledge);
                }
            }
        }
    }

    fn head(&mut self, head: Head, knowledge: &mut Knowledge) {
        let asking = self.requests.front();
        assert!(
            !self.was_told_to_go,
            "{:?}: an answer after the last",
            self.peer
        );
        let request = match asking {
            Some(asking) => &asking.request,
            None => panic!("{:?}: an answer to nothing: {head:?}", self.peer),
        };
        if head.status == 100 {
            let is_expected = matches!(
                request.asked,
                Asked::Publish {
                    expects_continue: true,
                    ..
                }
            );
            assert!(is_expected, "100 to a client that does not wait for it");
            return;
        }
        let is_whole = self.handed >= request.end;
        assert!(head.field("Date").is_some(), "no Date");
        assert!(
            head.status >= 400 || is_whole || matches!(request.asked, Asked::Garbage),
            "{} to a request that has not been made yet: {request:?}",
            head.status
        );
        self.check_status(request, head.status, knowledge);
        let body = Body::new(request.method, &head);
        self.reading = Reading::Body {
            head,
            body,
            content: Vec::new(),
        };
        self.content(knowledge);
    }

    fn check_status(&self, request: &Request, status: u16, knowledge: &Knowledge) {
        // A limit, a time-out or the end of the server may refuse anything.
        let always = [408, 429, 503];
        let is_fine = match &request.asked {
            Asked::Publish { .. } => [200, 400, 403, 409, 411].contains(&status),
            Asked::Watch { .. } | Asked::Film { .. } => {
                let of_origins = knowledge.has_origins && [502, 504, 508].contains(&status);
                of_origins || [200, 403, 404, 406].contains(&status)
            }
            Asked::List { .. } | Asked::Segment { .. } => {
                let of_origins = knowledge.has_origins && [502, 504, 508].contains(&status);
                let too_far = matches!(request.asked, Asked::List { .. }) && status == 400;
                of_origins || too_far || [200, 403, 404, 406].contains(&status)
            }
            Asked::Call(statuses) => statuses.contains(&status) || [413, 431].contains(&status),
            Asked::Wrong => (400..600).contains(&status),
            Asked::Garbage => (200..600).contains(&status),
        };
        assert!(
            is_fine || always.contains(&status),
            "{:?}: {status} to {request:?}",
            self.peer
        );
    }

    /// More of a body has been read.
    fn content(&mut self, knowledge: &mut Knowledge) {
        let Reading::Body {
            head,
            body,
            content,
        } = &mut self.reading
        else {
            return;
        };
        let is_stream = is_stream(head);
        if let Some(asking) = self.requests.front_mut()
            && is_stream
            && let Some(track) = &mut asking.track
        {
            track.take(content, knowledge);
            content.clear();
        }
        if body.is_complete() {
            self.answered(End::Complete, knowledge);
        }
    }

    /// An answer is over.
    fn answered(&mut self, end: End, knowledge: &mut Knowledge) {
        let reading = std::mem::replace(&mut self.reading, Reading::Head(Vec::new()));
        let (Reading::Body { head, content, .. }, Some(asking)) =
            (reading, self.requests.pop_front())
        else {
            return;
        };
        self.answered += 1;
        knowledge.count(format!("{} {} {end:?}", asking.request.name(), head.status));
        self.was_told_to_go = head.closes();
        match (&asking.request.asked, head.status) {
            (Asked::Watch { .. }, 200) if asking.request.method == "GET" => {
                self.check_watched(asking, end, knowledge);
            }
            (Asked::List { session }, 200) if asking.request.method == "GET" => {
                if end == End::Complete {
                    self.check_list(*session, &content, knowledge);
                }
            }
            (Asked::Segment { session, to }, 200) if asking.request.method == "GET" => {
                if !knowledge.is_film(*session) {
                    check_segment(*session, &content, end, knowledge);
                } else if let Some(to) = to {
                    self.check_film((*session, *to), &content, end, true, knowledge);
                }
                // It may have been overtaken.
                return;
            }
            (Asked::Film { session, to }, 200) if asking.request.method == "GET" => {
                self.check_film((*session, *to), &content, end, false, knowledge);
            }
            (_, status) if status >= 400 => {
                if let Asked::Publish { stream, .. } = asking.request.asked {
                    knowledge.refused(stream);
                }
                if end == End::Complete && asking.request.method != "HEAD" {
                    check_problem(&head, &content);
                }
            }
            (
                Asked::Publish {
                    stream, is_whole, ..
                },
                _,
            ) => {
                assert!(*is_whole, "200 to a body that is not whole");
                if end == End::Complete {
                    check_received(*stream, &content, knowledge);
                }
            }
            _ => check_json(&head, &content, asking.request.method, end),
        }
        self.check_end(end, &head, knowledge);
    }

    fn check_film(
        &self,
        (session, to): (usize, Target),
        content: &[u8],
        end: End,
        is_segment: bool,
        knowledge: &mut Knowledge,
    ) {
        // Where streams are held, sources follow each other.
        if knowledge.is_film(session) {
            let given = Given {
                session,
                to,
                content,
                end,
                is_prompt: !self.was_blocked,
                is_segment,
            };
            given.check(knowledge);
        }
    }

    /// What it may count on of one list beside the one before; and who the segments are.
    fn check_list(&mut self, session: usize, content: &[u8], knowledge: &mut Knowledge) {
        let text = std::str::from_utf8(content).expect("a list is text");
        let list = Playlist::read(text);
        knowledge.count("lists that were looked at");
        knowledge.count(format!("lists of {} segments", list.segments.len().min(4)));
        // Of a stream that broke off what there is is listed, and no end.
        let is_broken = |stream| match knowledge.state(stream) {
            State::Ended(ended) => !ended.is_clean,
            State::Announced | State::Refused | State::Running => false,
        };
        let may_be_short = list.is_over || knowledge.streams_of(session).any(is_broken);
        assert!(may_be_short || list.segments.len() >= 3, "{text}");
        for entry in &list.segments {
            assert!(entry.seconds.round() <= list.target as f64, "{text}");
        }
        let first = |list: &Playlist| list.segments.first().map(|entry| entry.number);
        let last = self.list.take().filter(|(of, _)| *of == session);
        if let Some((_, last)) = last {
            assert!(
                knowledge.has_origins || first(&list) >= first(&last),
                "{last:?} {list:?}"
            );
            for (before, entry) in last.segments.iter().flat_map(|before| {
                let same = list
                    .segments
                    .iter()
                    .filter(|entry| entry.name == before.name);
                same.map(move |entry| (before, entry))
            }) {
                assert_eq!(
                    (before.number, before.seconds),
                    (entry.number, entry.seconds)
                );
            }
        }
        assert!(knowledge.is_segmented(session) || knowledge.is_film(session));
        self.names = list
            .segments
            .iter()
            .map(|entry| entry.name.clone())
            .collect();
        self.list = Some((session, list));
    }

    /// The segments that it knows of.
    pub fn listed(&self) -> &[String] {
        &self.names
    }

    fn check_watched(&self, asking: OriginRequest, end: End, knowledge: &mut Knowledge) {
        let mut track = asking.track.expect("asked for");
        track.finish(knowledge);
        let Some(place) = track.place() else {
            return;
        };
        knowledge.count("viewers with bytes");
        knowledge.saw_gaps(place.stream, place.gaps);
        assert!(
            self.was_blocked || place.gaps == 0,
            "{:?}: bytes were lost to a viewer that took them all: {place:?}",
            self.peer
        );
        let is_clean_and_whole = match knowledge.state(place.stream) {
            State::Ended(ended) => ended.is_clean && place.at == ended.bytes,
            State::Announced | State::Refused | State::Running => false,
        };
        assert!(
            end != End::Complete || is_clean_and_whole,
            "{:?}: a clean end at {place:?} of {:?}",
            self.peer,
            knowledge.state(place.stream)
        );
        // A client that reads all the time and has every byte gets the end of the response, unless a jump
        // of the clock made it look stalled.
        let is_owed = self.is_exemplary() && !knowledge.is_closing && !knowledge.has_jumps;
        let was_given_all = match (end, knowledge.state(place.stream)) {
            (End::Complete, _) => true,
            (_, State::Ended(ended)) if ended.is_cut_off => true,
            // After a gap the last bytes may be so few that they seem to follow the ones before it.
            (End::Close, State::Ended(ended)) => {
                !ended.is_clean || place.at == ended.bytes || self.was_blocked
            }
            (End::CutShort, State::Ended(ended)) => !ended.is_clean || place.at < ended.bytes,
            (_, State::Announced | State::Refused | State::Running) => true,
        };
        assert!(
            was_given_all || !is_owed,
            "{:?}: cut short at {place:?} of {:?}",
            self.peer,
            knowledge.state(place.stream)
        );
    }

    /// How an answer that was not whole came to its end.
    fn check_end(&self, end: End, head: &Head, knowledge: &Knowledge) {
        // A server that ends waits for nobody for longer than its time.
        let is_owed = self.is_exemplary() && !is_stream(head) && !knowledge.is_closing;
        assert!(
            end != End::CutShort || !is_owed,
            "{:?}: an answer was cut short: {head:?}",
            self.peer
        );
    }

    /// The connection is over for it.
    fn end(&mut self, knowledge: &mut Knowledge) {
        self.is_over = true;
        self.seen.end(self.wire.is_reset());
        if let Reading::Body { body, .. } = &self.reading {
            let end = if self.wire.is_reset() || self.wire.is_torn() {
                End::CutShort
            } else {
                body.end()
            };
            self.answered(end, knowledge);
        } else if let Reading::Head(read) = &self.reading {
            // A HEAD that has not all arrived is not known to be one: that it took too long is said
            // with a body.
            let is_late_head = read.starts_with(b"{\"title\":\"Request Timeout\"");
            assert!(
                read.is_empty() || !self.is_exemplary() || is_late_head,
                "a head was cut short: {:?}",
                String::from_utf8_lossy(read)
            );
        }
        // What it asked first, all of which the server had, was answered.
        if let Some(asking) = self.requests.front()
            && self.answered == 0
            && self.is_exemplary()
            && asking.request.end <= self.handed
        {
            // A change may wait for the disk still when the server goes. Where there is no place
            // for it, one that comes through a proxy is turned away when it has said who it is.
            let is_owed = matches!(asking.request.asked, Asked::Call(_) | Asked::Wrong)
                && !knowledge.is_closing
                && self.proxy.is_none();
            assert!(
                !is_owed,
                "{:?}: no answer to {:?}",
                self.peer, asking.request
            );
        }
    }

    /// Position in the stream that the client receives. It has parsed everything before.
    pub fn watches(&self) -> Option<(usize, &Track)> {
        let Reading::Body { head, .. } = &self.reading else {
            return None;
        };
        let asking = self.requests.front()?;
        match asking.request.asked {
            Asked::Watch { session } if is_stream(head) => Some((session, asking.track.as_ref()?)),
            _ => None,
        }
    }

    /// The first request that has not been answered, if the server has all of it.
    pub fn waits_for(&self) -> Option<&Request> {
        let asking = self.requests.front()?;
        (asking.request.end <= self.handed).then_some(&asking.request)
    }
}

fn is_stream(head: &Head) -> bool {
    head.status == 200
        && head.field("X-Content-Type-Options").is_some()
        && head.field("Content-Length").is_none()
}

/// What of a segment has come is the stream's, after its tag.
fn check_segment(session: usize, content: &[u8], end: End, knowledge: &mut Knowledge) {
    knowledge.count(format!("segments that were looked at, {end:?}"));
    let Some((tag, own)) = content.split_at_checked(73) else {
        assert!(end != End::Complete);
        return;
    };
    assert_eq!(&tag[..3], b"ID3");
    let streams: Vec<StreamNumber> = knowledge.streams_of(session).collect();
    let is_of = |stream: &StreamNumber| {
        let arrived = knowledge.arrived(*stream);
        // Frames are so long.
        (0..arrived.len())
            .step_by(40)
            .any(|from| arrived[from..].starts_with(own))
    };
    assert!(
        own.is_empty() || streams.iter().any(is_of),
        "a segment of nothing"
    );
}

fn check_problem(head: &Head, content: &[u8]) {
    assert_eq!(head.field("Content-Type"), Some("application/problem+json"));
    let problem: serde_json::Value = serde_json::from_slice(content).expect("a body of JSON");
    assert_eq!(problem["status"], head.status);
}

fn check_received(stream: StreamNumber, content: &[u8], knowledge: &Knowledge) {
    let received: serde_json::Value = serde_json::from_slice(content).expect("a body of JSON");
    assert_eq!(received["bytes_received"], knowledge.content_bytes(stream));
    let session = &knowledge.sessions[knowledge.session_of(stream)];
    assert_eq!(received["sessionid"], session.name.as_str());
}

fn check_json(head: &Head, content: &[u8], method: &str, end: End) {
    let is_json = head.field("Content-Type") == Some("application/json");
    if is_json && method != "HEAD" && end == End::Complete {
        serde_json::from_slice::<serde_json::Value>(content).expect("a body of JSON");
    }
}

/// What is known of one session's playlist says nothing of another's.
#[cfg(all(feature = "hls", feature = "remux"))]
#[test]
fn a_client_may_have_lists_of_two_sessions() {
    let sessions = ["film", "hls"].map(Session::new).into();
    let mut knowledge = Knowledge::new(sessions, 2);
    let mut client = Client::placeholder(([10, 0, 0, 1], 1).into());
    for (session, number) in [(0, 9), (1, 5), (1, 6)] {
        let list = format!(
            "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{number}\n\
             #EXT-X-DISCONTINUITY-SEQUENCE:0\n#EXT-X-PROGRAM-DATE-TIME:2027-01-15T08:00:00.619Z\n\
             #EXTINF:2.00000,\n5eed1234-{number}.ts\n#EXT-X-ENDLIST\n"
        );
        client.check_list(session, list.as_bytes(), &mut knowledge);
    }
}

/// Seed 1825967: the stream ended in the very last turn, and its viewer had no turn to see that.
#[test]
fn a_client_that_has_not_seen_the_end_is_not_idle() {
    let sessions = ["tv"].map(Session::new).into();
    let mut knowledge = Knowledge::new(sessions, 1);
    let mut client = Client::placeholder(([10, 0, 0, 1], 1).into());
    client.has_come = true;
    client.wire = Wire::outgoing(9, 9);
    assert!(client.is_idle());
    client.wire.shut_by_server();
    assert!(!client.is_idle());
    client.act(&mut knowledge, &mut Chance::new(1));
    assert!(client.is_idle());
}
