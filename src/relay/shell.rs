//! What all shells do with the core: the server, the simulation, and the stages of tests and
//! benches.

use std::collections::VecDeque;

use super::{ConnectionId, PIPELINED_COST_MAX, Relay};
use crate::gather::Gather;
use crate::stream::Outcome;
use crate::time::Instant;

/// Result of a write to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// The socket took all bytes.
    Whole(usize),
    /// The socket took this number of bytes, and takes no more now.
    Part(usize),
    /// The connection is broken.
    Broken,
}

/// Writes to the next client, if there is one. `write` gets the client's output, which may be empty,
/// and returns how much of it was written.
pub fn write_next(
    relay: &mut Relay,
    now: Instant,
    write: impl FnOnce(ConnectionId, &Gather<'_>) -> Outgoing,
) -> Option<ConnectionId> {
    let id = relay.next_write()?;
    let gather = relay.output(id, now);
    let (bytes, outcome) = match write(id, &gather) {
        Outgoing::Whole(bytes) => (bytes, Outcome::Open),
        Outgoing::Part(bytes) => (bytes, Outcome::Blocked),
        Outgoing::Broken => {
            relay.lost(id, now);
            return Some(id);
        }
    };
    if bytes > 0 {
        relay.sent(id, bytes, now);
    }
    relay.served(id, outcome, now);
    Some(id)
}

/// Result of a read from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// This number of bytes was read.
    Bytes(usize),
    /// There are no bytes now.
    Nothing,
    /// The client sends no more.
    End,
    /// The connection is broken.
    Broken,
}

/// What is known of a connection's input.
#[derive(Debug, Default)]
pub struct Input {
    is_readable: bool,
    is_ending: bool,
    is_broken: bool,
    /// It is in one of the lists of clients to read.
    is_queued: bool,
    /// Cost of a byte of the last reads.
    cost_of_byte: u32,
}

impl Input {
    /// Notes that the socket has something to read. Bytes that arrived before the end are read
    /// first. Reading then reports the end, without another event.
    pub fn note(&mut self, is_ending: bool, is_broken: bool) {
        self.is_readable = true;
        self.is_ending |= is_ending || is_broken;
        self.is_broken |= is_broken;
    }

    /// Notes the cost of a read of this many bytes. A higher cost counts at once, and a lower one by
    /// and by. A read of few bytes does not count: it may be a head, which costs more than media.
    fn note_cost(&mut self, bytes: usize, cost: usize) {
        if bytes < COSTLY_BYTES_MIN {
            return;
        }
        let fallen = self.cost_of_byte - self.cost_of_byte.div_ceil(4);
        let cost = u32::try_from(cost / bytes).unwrap_or(u32::MAX);
        self.cost_of_byte = cost.max(fallen);
    }

    /// Returns how many bytes cost at most this, if the last ones cost more than a copy.
    fn bytes_that_cost(&self, cost_max: usize) -> usize {
        match self.cost_of_byte {
            0 | 1 => usize::MAX,
            cost => (cost_max / cost as usize).max(COSTLY_BYTES_MIN),
        }
    }
}

/// The connections' inputs, as a turn needs them.
pub trait Inputs {
    /// Returns the input of a connection. `None`: it is closed.
    fn input(&mut self, id: ConnectionId) -> Option<&mut Input>;

    /// Reads once, at most `bytes_max` bytes. `bytes_max` is above 0.
    fn read(&mut self, id: ConnectionId, bytes_max: usize) -> Incoming;

    /// Returns the first `count` bytes of the last read.
    fn bytes(&self, count: usize) -> &[u8];

    /// Observes the core after each input.
    fn after_input(&mut self, _relay: &Relay) {}
}

/// Minimal size of a read from each client, however many there are: a system call should be worth
/// its cost.
const SHARE_BYTES_MIN: usize = 16 * 1024;
/// Maximal number of clients that share the cost of a turn. A client whose bytes cost much gets
/// smaller reads, so that the other clients are read in the same turn.
const COSTLY_READS: usize = 4;
/// Minimal size of a read from a client whose bytes cost much.
const COSTLY_BYTES_MIN: usize = 4 * 1024;

/// Limits on reading in a turn of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Maximal number of bytes of one read.
    pub bytes_max: usize,
    /// Maximal cost of all reads.
    pub cost_max: usize,
    /// The turn's time.
    pub now: Instant,
}

/// Clients whose input is read next.
#[derive(Debug, Default)]
pub struct Readers {
    /// Clients with new input.
    news: VecDeque<ConnectionId>,
    /// Clients that one read did not empty.
    more: VecDeque<ConnectionId>,
}

impl Readers {
    /// Returns whether no client waits to be read.
    pub fn is_empty(&self) -> bool {
        self.news.is_empty() && self.more.is_empty()
    }

    /// Adds a client that may have something to read, if its input says so.
    pub fn push(&mut self, id: ConnectionId, input: &mut Input) {
        if input.is_readable && !input.is_queued {
            input.is_queued = true;
            self.news.push_back(id);
        }
    }

    /// Reads from every client that has input: first from those with new input, then from those
    /// that one read did not empty. So a client with much new input is read twice. Pipelined input
    /// comes last. Each of the three has a share of the turn. Clients that are left over when the
    /// turn is used up come first in the next one.
    pub fn read_in_turn(&mut self, relay: &mut Relay, inputs: &mut impl Inputs, share: Share) {
        let news = self.news.len();
        self.read_from_next(news, |readers| &mut readers.news, relay, inputs, share);
        let more = self.more.len();
        self.read_from_next(more, |readers| &mut readers.more, relay, inputs, share);
        let mut cost = 0;
        while cost < PIPELINED_COST_MAX.min(share.cost_max)
            && let Some(spent) = relay.do_deferred_work(share.now)
        {
            cost += spent;
            inputs.after_input(relay);
        }
    }

    fn read_from_next(
        &mut self,
        clients: usize,
        list: fn(&mut Readers) -> &mut VecDeque<ConnectionId>,
        relay: &mut Relay,
        inputs: &mut impl Inputs,
        share: Share,
    ) {
        // With many readable clients, each gets a smaller read.
        let bytes_max = (share.cost_max / clients.max(1)).max(SHARE_BYTES_MIN);
        let each = Share {
            bytes_max: bytes_max.min(share.bytes_max),
            cost_max: share.cost_max / clients.clamp(1, COSTLY_READS),
            ..share
        };
        let mut cost = 0;
        for _ in 0..clients {
            if cost >= share.cost_max {
                return;
            }
            if let Some(id) = list(self).pop_front() {
                cost += self.read_from(id, relay, inputs, each);
                inputs.after_input(relay);
            }
        }
    }

    /// Reads once from a client. Returns the cost.
    fn read_from(
        &mut self,
        id: ConnectionId,
        relay: &mut Relay,
        inputs: &mut impl Inputs,
        share: Share,
    ) -> usize {
        let now = share.now;
        let wanted = relay.bytes_wanted(id).min(share.bytes_max);
        let Some(input) = inputs.input(id) else {
            return 0;
        };
        let wanted = wanted.min(input.bytes_that_cost(share.cost_max));
        input.is_queued = false;
        if wanted == 0 && input.is_broken {
            return relay.lost(id, now);
        }
        if wanted == 0 && input.is_ending {
            return relay.input_ended(id, true, now);
        }
        if wanted == 0 || !input.is_readable {
            return 0;
        }
        match inputs.read(id, wanted) {
            Incoming::Bytes(bytes) => {
                // This comes before the call of the core, which may close the connection.
                if let Some(input) = inputs.input(id) {
                    input.is_readable = bytes == wanted || input.is_ending;
                    input.is_queued = input.is_readable;
                    if input.is_queued {
                        self.more.push_back(id);
                    }
                }
                let cost = relay.received(id, inputs.bytes(bytes), now);
                if let Some(input) = inputs.input(id) {
                    input.note_cost(bytes, cost);
                }
                cost
            }
            Incoming::Nothing => {
                if let Some(input) = inputs.input(id) {
                    input.is_readable = false;
                }
                0
            }
            Incoming::End => relay.input_ended(id, false, now),
            Incoming::Broken => relay.lost(id, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::relay::stage::Stage;

    /// Sockets of clients with their input.
    #[derive(Default)]
    struct Sockets {
        all: BTreeMap<ConnectionId, Socket>,
        /// Each read: the client, and the maximal number of bytes.
        reads: Vec<(ConnectionId, usize)>,
        bytes: Vec<u8>,
        heard: usize,
    }

    struct Socket {
        input: Input,
        waits: VecDeque<u8>,
        /// Result of reading after those bytes.
        end: Incoming,
    }

    impl Inputs for Sockets {
        fn input(&mut self, id: ConnectionId) -> Option<&mut Input> {
            self.all.get_mut(&id).map(|socket| &mut socket.input)
        }

        fn read(&mut self, id: ConnectionId, bytes_max: usize) -> Incoming {
            assert!(bytes_max > 0, "nothing is read of {id:?}");
            self.reads.push((id, bytes_max));
            let socket = self.all.get_mut(&id).expect("a socket");
            let bytes = bytes_max.min(socket.waits.len());
            self.bytes = socket.waits.drain(..bytes).collect();
            match bytes {
                0 => socket.end,
                _ => Incoming::Bytes(bytes),
            }
        }

        fn bytes(&self, count: usize) -> &[u8] {
            &self.bytes[..count]
        }

        fn after_input(&mut self, relay: &Relay) {
            relay.check();
            self.heard += 1;
        }
    }

    /// A server, the sockets of its clients, and the clients to read.
    struct Turns {
        stage: Stage,
        sockets: Sockets,
        readers: Readers,
    }

    const READ_ALL: usize = 1 << 20;

    impl Turns {
        fn new(options: &[&str]) -> Turns {
            Turns {
                stage: Stage::new(options),
                sockets: Sockets::default(),
                readers: Readers::default(),
            }
        }

        /// Adds a client that has sent `sent`, and whose socket has `waits`.
        fn client(&mut self, sent: &str, waits: &[u8], end: Incoming) -> ConnectionId {
            let id = self.stage.client(sent);
            let socket = Socket {
                input: Input::default(),
                waits: waits.to_vec().into(),
                end,
            };
            self.sockets.all.insert(id, socket);
            id
        }

        /// Reports input of a socket.
        fn note(&mut self, id: ConnectionId, is_ending: bool, is_broken: bool) {
            let input = self.sockets.input(id).expect("a socket");
            input.note(is_ending, is_broken);
            self.readers.push(id, input);
        }

        /// Runs a turn. Returns its reads.
        fn turn(&mut self, bytes_max: usize, cost_max: usize) -> Vec<(ConnectionId, usize)> {
            let now = self.stage.now;
            let share = Share {
                bytes_max,
                cost_max,
                now,
            };
            self.readers
                .read_in_turn(&mut self.stage.relay, &mut self.sockets, share);
            std::mem::take(&mut self.sockets.reads)
        }

        fn is_there(&self, id: ConnectionId) -> bool {
            self.stage.relay.clients.has(id)
        }

        fn waits(&self, id: ConnectionId) -> usize {
            self.sockets.all[&id].waits.len()
        }
    }

    /// Blocks of six bytes cost six times as much as their bytes take to copy.
    #[test]
    fn a_client_whose_bytes_cost_much_is_read_less_at_once() {
        let cluster = b"\x1f\x43\xb6\x75\xff\xe7\x81\x00";
        let header = [
            &b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm\x18\x53\x80\x67\xff\x16\x54\xae\x6b\x88"[..],
            b"\xae\x86\xd7\x81\x01\x83\x81\x01",
            cluster,
        ];
        let blocks = b"\xa3\x84\x81\x00\x00\x80".repeat(50_000);
        let mut turns = Turns::new(&[]);
        let waits = [header.concat(), blocks, vec![0; 100_000]].concat();
        let id = turns.client(&source("a"), &waits, Incoming::Nothing);
        turns.note(id, false, false);
        let mut sizes = Vec::new();
        while turns.waits(id) > 0 {
            sizes.extend(turns.turn(READ_ALL, 100_000).iter().map(|(_, size)| *size));
            turns.stage.settle();
        }
        assert_eq!(sizes[0], 100_000);
        let mut read_bytes = 0;
        let of_blocks = sizes[1..].iter().take_while(|size| {
            read_bytes += **size;
            read_bytes < 200_000
        });
        // The whole turn is for this client. A read that is too small costs other turns.
        for size in of_blocks {
            assert!((12_000..=17_000).contains(size), "{sizes:?}");
        }
        // Zeros are no Matroska, and cost nothing any more.
        assert!(sizes.last() > Some(&30_000), "{sizes:?}");
    }

    /// The reads of a turn share its cost, up to four.
    #[test]
    fn clients_whose_bytes_cost_much_share_the_turn() {
        let input = |cost_of_byte| Input {
            cost_of_byte,
            ..Input::default()
        };
        assert_eq!(input(1).bytes_that_cost(600_000), usize::MAX);
        assert_eq!(input(6).bytes_that_cost(600_000), 100_000);
        assert_eq!(input(600).bytes_that_cost(600_000), COSTLY_BYTES_MIN);
        let mut rising = input(4);
        rising.note_cost(1_000, 90_000);
        assert_eq!(rising.cost_of_byte, 4);
        rising.note_cost(5_000, 100_000);
        assert_eq!(rising.cost_of_byte, 20);
        let fall = std::iter::repeat_with(|| {
            rising.note_cost(5_000, 5_000);
            rising.cost_of_byte
        });
        assert_eq!(
            fall.take(9).collect::<Vec<_>>(),
            [15, 11, 8, 6, 4, 3, 2, 1, 1]
        );
        for (clients, expected) in [(1, 60_000), (2, 30_000), (4, 15_000), (6, 15_000)] {
            let mut turns = Turns::new(&[]);
            for number in 0..clients {
                let id = turns.client(
                    &source(&format!("s{number}")),
                    &[1; 200_000],
                    Incoming::Nothing,
                );
                turns.note(id, false, false);
                turns.sockets.input(id).expect("a socket").cost_of_byte = 10;
            }
            let reads = turns.turn(READ_ALL, 600_000);
            assert_eq!(reads[0].1, expected, "{clients}");
        }
    }

    fn source(name: &str) -> String {
        format!(
            "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9999999\r\n\r\n"
        )
    }

    const WAITS: &str = "GET /stream/none HTTP/1.1\r\nHost: h\r\n\r\n";

    /// Each client has its part of the turn, but never so small a part that a read is not worth it.
    #[test]
    fn a_turn_reads_as_much_of_each_as_there_are_few() {
        for (clients, bytes_max, each) in [
            (1, 32 << 10, 32 << 10),
            (1, 1 << 20, 100_001),
            (3, 1 << 20, 33_333),
            (6, 1 << 20, 16_666),
            (7, 1 << 20, SHARE_BYTES_MIN),
            (7, 1000, 1000),
        ] {
            let mut turns = Turns::new(&["--buffer=4M"]);
            let all: Vec<ConnectionId> = (0..clients)
                .map(|number| {
                    let head = source(&number.to_string());
                    turns.client(&head, &[b'x'; 1 << 20], Incoming::Nothing)
                })
                .collect();
            all.iter().for_each(|id| turns.note(*id, false, false));
            let news = turns.turn(bytes_max, 100_001);
            for (number, read) in news.iter().take(clients.min(5)).enumerate() {
                assert_eq!(*read, (all[number], each), "{clients} {bytes_max}");
            }
        }
    }

    /// A client that comes when the turn is used up is first in the next turn. New input comes
    /// before clients that were read already.
    #[test]
    fn a_turn_ends_when_its_share_is_used_up_and_the_next_goes_on() {
        let mut turns = Turns::new(&["--buffer=4M"]);
        let all: Vec<ConnectionId> = (0..6)
            .map(|number| {
                let head = source(&number.to_string());
                turns.client(&head, &[b'x'; 64 << 10], Incoming::Nothing)
            })
            .collect();
        assert!(turns.readers.is_empty());
        all.iter().for_each(|id| turns.note(*id, false, false));
        assert!(!turns.readers.is_empty());
        let read = |numbers: &[usize]| -> Vec<(ConnectionId, usize)> {
            let each = numbers.iter().map(|number| (all[*number], 16 << 10));
            each.collect()
        };
        // Three at a time: each costs a little more than its bytes.
        let cost_max = 48 << 10;
        assert_eq!(turns.turn(1 << 20, cost_max), read(&[0, 1, 2, 0, 1, 2]));
        assert_eq!(turns.turn(1 << 20, cost_max), read(&[3, 4, 5, 0, 1, 2]));
        let rest = [3, 4, 5];
        assert_eq!(turns.turn(1 << 20, cost_max), read(&rest));
        // Nobody is forgotten, and nobody read in vain more than once.
        let mut reads = Vec::new();
        while !turns.readers.is_empty() {
            reads.extend(turns.turn(1 << 20, cost_max));
            assert!(reads.len() < 100);
        }
        all.iter().for_each(|id| assert_eq!(turns.waits(*id), 0));
        for id in all {
            let in_vain = turns.sockets.all.get(&id).is_some_and(|socket| {
                let is_readable = socket.input.is_readable;
                is_readable || socket.input.is_queued
            });
            assert!(!in_vain, "{id:?}");
        }
    }

    /// Bytes before the end are read before it.
    #[test]
    fn what_came_before_an_end_is_read_before_it() {
        for (is_ending, is_broken, end, status) in [
            (true, false, Incoming::End, "HTTP/1.1 200 "),
            (true, true, Incoming::Broken, ""),
            (false, true, Incoming::Broken, ""),
        ] {
            let mut turns = Turns::new(&[]);
            let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
            let id = turns.client(put, b"4\r\nabcd\r\n", end);
            let viewer = turns.stage.viewer("s");
            turns.note(id, is_ending, is_broken);
            let reads = turns.turn(READ_ALL, READ_ALL);
            assert_eq!(reads.len(), 2, "{is_ending} {is_broken}");
            assert!(!turns.is_there(id), "{is_ending} {is_broken}");
            turns.stage.settle();
            assert_eq!(turns.stage.content(viewer).0, "abcd");
            assert!(turns.stage.text(id).starts_with(status) || status.starts_with("HTTP"));
            assert!(turns.readers.is_empty());
        }
    }

    /// The server does not read a client whose bytes it does not want, but notices its end.
    #[test]
    fn who_has_sent_enough_is_not_read_and_seen_to_go() {
        for (is_ending, is_broken, is_there) in [
            (false, false, true),
            (true, false, false),
            (false, true, false),
            (true, true, false),
        ] {
            let mut turns = Turns::new(&["--wait=60"]);
            let ahead = format!("{WAITS}{}", "x".repeat(4096));
            let id = turns.client(&ahead, b"more", Incoming::Nothing);
            assert_eq!(turns.stage.relay.bytes_wanted(id), 0);
            turns.note(id, is_ending, is_broken);
            assert_eq!(turns.turn(READ_ALL, READ_ALL), []);
            assert_eq!(turns.is_there(id), is_there, "{is_ending} {is_broken}");
            assert!(turns.readers.is_empty());
        }
        // A client whose bytes are wanted is read. A client without input is not.
        let mut turns = Turns::new(&["--wait=60"]);
        let id = turns.client(WAITS, b"more", Incoming::Nothing);
        let other = turns.client(WAITS, b"", Incoming::Nothing);
        let input = turns.sockets.input(other).expect("a socket");
        turns.readers.push(other, input);
        assert!(turns.readers.is_empty(), "nothing was said of it");
        turns.note(id, false, false);
        turns.note(id, false, false);
        assert_eq!(turns.turn(READ_ALL, READ_ALL), [(id, 4096)], "and once");
        assert!(turns.readers.is_empty());
        // What is closed meanwhile is nobody.
        turns.note(id, false, false);
        turns.sockets.all.remove(&id);
        assert_eq!(turns.turn(READ_ALL, READ_ALL), []);
    }

    /// A source may have to wait for the rate of its token. Its end is read after its bytes; a
    /// break is noticed at once.
    #[test]
    fn a_source_that_waits_for_its_rate_is_seen_to_break() {
        for (is_broken, is_there) in [(false, true), (true, false)] {
            let mut turns = Turns::new(&["--token-server=10.0.0.0/8"]);
            let line = "POST /api/add-token?type=http&sessionid=s&max-bitrate=8K";
            let call = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            turns.stage.client(&call);
            let id = turns.client(&source("s"), b"more", Incoming::Broken);
            turns.stage.send(id, &"x".repeat(4096));
            assert_eq!(turns.stage.relay.bytes_wanted(id), 0);
            turns.note(id, true, is_broken);
            assert_eq!(turns.turn(READ_ALL, READ_ALL), []);
            assert_eq!(turns.is_there(id), is_there, "{is_broken}");
        }
    }

    /// Pipelined requests are read in turns of bounded cost.
    #[test]
    fn what_was_sent_ahead_is_read_on_within_the_turns_share() {
        let health = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
        let turns = |cost_max: usize| {
            let mut turns = Turns::new(&[]);
            for number in 0..5 {
                let peer = format!("10.0.0.2:{}", 1000 + number);
                let peer = peer.parse().expect("an address");
                let now = turns.stage.now;
                let id = turns.stage.relay.accepted(peer, now).expect("room");
                let requests = health.repeat(4);
                turns.stage.relay.received(id, requests.as_bytes(), now);
            }
            turns.turn(READ_ALL, cost_max);
            turns.sockets.heard
        };
        let mut alone = Turns::new(&[]);
        let peer = "10.0.0.2:1000".parse().expect("an address");
        let now = alone.stage.now;
        let id = alone.stage.relay.accepted(peer, now).expect("room");
        let requests = health.repeat(4);
        alone.stage.relay.received(id, requests.as_bytes(), now);
        let each = alone
            .stage
            .relay
            .do_deferred_work(now)
            .expect("more requests");
        for (cost_max, goes) in [
            (0, 0),
            (1, 1),
            (each, 1),
            (each + 1, 2),
            (3 * each, 3),
            (4 * each + 1, 5),
            (READ_ALL, 5),
        ] {
            assert_eq!(turns(cost_max), goes, "{cost_max} of {each}");
        }
    }

    /// A reader of one session gets comments while others have events.
    #[test]
    fn who_follows_one_session_has_a_comment_while_others_have_events() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/8"]);
        let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reader = stage.client(&request("GET /api/events?sessionid=a"));
        (0..4).for_each(|_| stage.settle());
        for other in 0..6 {
            stage.wait_seconds(10);
            let line = format!("POST /api/add-token?type=http&sessionid=o{other}");
            stage.client(&request(&line));
        }
        let comments = stage.text(reader).matches("\n: ").count();
        assert_eq!(comments, 4, "one in fifteen seconds");
    }

    /// The core learns the outcome of each write.
    #[test]
    fn a_client_is_written_to_until_its_socket_takes_no_more() {
        let mut stage = Stage::new(&[]);
        let put = source("s");
        let source = stage.client(&put);
        stage.send(source, "abcdefgh");
        let viewer = stage.viewer("s");
        let had = stage.text(viewer).len();
        stage.relay.received(source, b"ijkl", stage.now);
        let write = |stage: &mut Stage, outgoing: fn(usize) -> Outgoing| {
            let mut lent = 0;
            let written = write_next(&mut stage.relay, stage.now, |_, output| {
                lent = output.bytes();
                outgoing(lent)
            });
            (written, lent)
        };
        assert!(had > 0);
        let (written, lent) = write(&mut stage, |_| Outgoing::Part(3));
        assert_eq!((written, lent > 3), (Some(viewer), true));
        assert_eq!(write(&mut stage, Outgoing::Whole), (None, 0), "it is full");
        stage.relay.unblocked(viewer);
        assert_eq!(write(&mut stage, Outgoing::Whole), (Some(viewer), lent - 3));
        stage.relay.received(source, b"mnop", stage.now);
        let (written, _) = write(&mut stage, |_| Outgoing::Broken);
        assert_eq!(written, Some(viewer));
        assert!(!stage.relay.clients.has(viewer));
        assert_eq!(write(&mut stage, Outgoing::Whole), (None, 0));
    }
}
