//! The world around the core: the shell's loop over wires instead of sockets, and a clock that
//! chance winds on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tollgate::config::{AccessLog, Config};
use tollgate::gate::host::host_and_port;
use tollgate::gate::{Entry, Tokens};
use tollgate::gather::Gather;
use tollgate::relay::{
    Action, CONNECTIONS_BEYOND_MAX, ConnectionId, Done, Incoming, Input, Inputs, Job, JobId,
    OriginUrl, Outgoing, Peer, READ_COST_MAX, Readers, Relay, Share, write_next,
};
use tollgate::time::Instant;

use super::chance::Chance;
use super::client::{Client, Finale, Habit, Manner, Role};
use super::followed::Aside;
use super::knowledge::{Knowledge, Session, State, Tally};
use super::relays::{self, Question};
use super::script::{Asked, Script};
use super::senders::{self, Senders};
use super::twins::Seen;
use super::wire::{Edge, Socket, Wire};

#[cfg_attr(not(feature = "handover"), path = "world/no_succession.rs")]
mod succession;

/// What the shell reads at once, and how much it does in a turn.
const READ_BUFFER_BYTES: usize = 64 * 1024;
const WRITES_PER_TURN_MAX: usize = 256;
/// Without a byte of a source. In a calm world a turn takes a tenth of a millisecond: longer than
/// any call that nobody answers.
const TURNS_TO_REST_MAX: usize = 200_000;
/// Where the RTP socket is bound.
const PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), 5004);
/// While a world that is compared waits for its end.
const STEP: Duration = Duration::from_millis(100);
/// How long the shell lets viewers drain at its end.
const SHUTDOWN_TIME: Duration = Duration::from_secs(4);

pub struct World {
    chance: Chance,
    config: Config,
    now: Instant,
    turns: usize,
    relay: Relay,
    clients: Vec<Client>,
    by_id: BTreeMap<ConnectionId, usize>,
    readers: Readers,
    knowledge: Knowledge,
    aside: Aside,
    errands: Vec<(usize, JobId, Done)>,
    senders: Senders,
    has_rtp: bool,
    /// There is a token file.
    is_kept: bool,
    succession: Succession,
    /// Compares the clients' bytes with those of another world of the same seed.
    is_compared: bool,
    seed: u64,
    random_key: u64,
    /// How many there have been after each turn, and how many clients.
    choices: Vec<(u64, usize)>,
    /// Calls that the server makes, when they come to something, and whether somebody is there.
    calls: Vec<(usize, ConnectionId, bool)>,
    /// Chance in a hundred that the clock jumps to the next deadline after a turn.
    jumps_percent: usize,
    is_calm: bool,
    ends_at: Option<Instant>,
}

/// When other cores take over. It has chances of its own, so that nothing else is another for it.
struct Succession {
    chance: Chance,
    /// Chance in a hundred, after each turn, or after each step of one.
    percent: usize,
    /// The next core, if anything has been copied to it.
    next: Option<succession::Next>,
}

/// Options that are often run into.
fn config(chance: &mut Chance) -> Config {
    let mut config = Config::default();
    let subnet = |text: &str| text.parse().expect("a subnet");
    if chance.percent(70) {
        config.core.token_servers = vec![subnet("10.9.0.0/16")];
    }
    if chance.percent(25) {
        config.core.proxies = vec![subnet("10.6.0.0/16")];
    }
    if chance.percent(10) {
        config.core.publish_from = vec![subnet("10.0.0.0/9")];
    }
    config.connections_max = Some(*chance.pick(&[3, 12, 30, 60, 500, 500]));
    config.connections_per_host_max = Some(*chance.pick(&[2, 8, 20, 100, 100]));
    let limits = &mut config.core.limits;
    limits.streams_max = chance.within(1..=6);
    limits.tokens.tokens_max = chance.magnitude(4..=1000);
    limits.tokens.udp_clients_per_session_max = chance.within(2..=8);
    limits.http.head_bytes_max = chance.magnitude(1024..=16 * 1024);
    limits.log.lines_per_second_max = u32::MAX;
    limits.head_time = chance.millis(100..=5000);
    limits.source_idle_time = chance.millis(500..=15_000);
    limits.body_bytes_per_second_min = *chance.pick(&[0, 100, 10_000]);
    limits.viewer_stall_time = chance.millis(300..=10_000);
    limits.keep_alive_time = chance.millis(300..=10_000);
    if chance.percent(30) {
        limits.wait_time = chance.millis(1..=3_000);
    }
    limits.origin_time = chance.millis(50..=1_000);
    limits.origin_idle_time = chance.millis(1..=5_000);
    if chance.percent(20) {
        limits.hold_time = chance.millis(1..=10_000);
    }
    limits.stream.buffer_bytes = *chance.pick(&[64 * 1024, 64 * 1024, 100_000, 256 * 1024]);
    limits.buffers_bytes_max = limits.stream.buffer_bytes * chance.within(1..=6);
    limits.stream.join_back_bytes = *chance.pick(&[0, 0, 20_000]);
    if chance.percent(40) {
        config.core.origins = match chance.within(0..=3) {
            0 => vec![relay_at(relays::ORIGIN_NAME)],
            1 => vec![
                relay_at(relays::ORIGIN_NAME),
                relay_at(&relays::ORIGIN.to_string()),
            ],
            _ => vec![relay_at(&relays::ORIGIN.to_string())],
        };
        config.core.asks_origin = chance.percent(30);
    }
    if chance.percent(20) {
        config.core.peers = Peer::new(&relay_at(&relays::PEER.to_string()))
            .into_iter()
            .collect();
    }
    if chance.percent(50) {
        config.core.joins = senders::joins();
        config.core.rtp_to = senders::RTP_TO.map(subnet).to_vec();
    }
    config.core.is_close_delimited = chance.percent(8);
    config.core.remuxes = chance.percent(90);
    config.core.takes_over = chance.percent(30);
    config.access_log = chance.percent(20).then_some(AccessLog::Stdout);
    config
}

fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// The random numbers for one kind of things, independent of their order.
fn chance_of(seed: u64, kind: &str, which: u64) -> Chance {
    let mut hasher = DefaultHasher::new();
    (seed, kind, which).hash(&mut hasher);
    Chance::new(hasher.finish())
}

fn relay_at(place: &str) -> OriginUrl {
    let (host, port) = host_and_port(place).expect("a place");
    OriginUrl {
        host,
        port,
        path: String::new(),
    }
}

impl World {
    /// A world of its own.
    pub fn new(seed: u64) -> World {
        let percent = usize::from(seed.is_multiple_of(3)) * 2;
        let percent = variable("SIMULATION_HANDOVER").unwrap_or(percent);
        World::of(seed, percent, false)
    }

    /// One of two worlds of a seed, in which other cores take over or not. What of a world is known
    /// to its core alone decides nothing in them: all that may be written is written in each turn,
    /// and the clock does not jump to deadlines.
    #[cfg_attr(not(feature = "handover"), allow(dead_code))]
    pub fn compared(seed: u64, percent: usize) -> World {
        World::of(seed, percent, true)
    }

    fn of(seed: u64, percent: usize, is_compared: bool) -> World {
        let mut chance = Chance::new(seed);
        let mut config = config(&mut chance);
        if is_compared {
            // What the comparison says that it leaves out.
            (config.core.origins, config.core.asks_origin) = (Vec::new(), false);
            config.core.peers = Vec::new();
            config.core.remuxes = false;
        }
        let random_key = chance.draw();
        let mut relay = Relay::new(config.settings(1000, 1_800_000_000, random_key.into()));
        let is_kept = chance.percent(50);
        if is_kept {
            relay.restore(Tokens::new(relay.token_limits()), Instant::START);
        }
        let has_rtp = chance.percent(60);
        if has_rtp {
            relay.set_rtp(PORT);
        }
        if std::env::var("SIMULATION_SEED").is_ok() {
            println!("{config:?}");
        }
        let names = ["a", "b-2", "ц й/c", "d", "film", "hls"];
        let sessions = names.iter().map(|name| Session::new(name)).collect();
        let mut knowledge = Knowledge::new(sessions, config.core.limits.streams_max);
        let jumps_percent = *chance.pick(&[0, 1, 1, 5]);
        knowledge.holds = config.core.limits.hold_time > Duration::ZERO;
        knowledge.has_jumps = jumps_percent > 0;
        knowledge.is_compared = is_compared;
        knowledge.has_origins = !config.core.origins.is_empty();
        let senders = Senders::new(&mut chance);
        let mut world = World {
            chance,
            config,
            now: Instant::START,
            turns: 0,
            relay,
            clients: Vec::new(),
            by_id: BTreeMap::new(),
            readers: Readers::default(),
            knowledge,
            aside: Aside::default(),
            errands: Vec::new(),
            senders,
            has_rtp,
            is_kept,
            succession: Succession {
                chance: chance_of(seed, "succession", 0),
                percent,
                next: None,
            },
            is_compared,
            seed,
            random_key,
            choices: Vec::new(),
            calls: Vec::new(),
            jumps_percent,
            is_calm: false,
            ends_at: None,
        };
        world.operator();
        if !world.config.core.token_servers.is_empty() && !seed.is_multiple_of(4) {
            world.aside.follow(&mut world.relay, world.now);
        }
        world
    }

    // ---- New clients -----------------------------------------------------

    fn peer(&mut self, role: Role) -> SocketAddr {
        let port = 10_000 + self.clients.len() as u16;
        let host = self.chance.within(1..=4) as u8;
        let net = match role {
            Role::Caller => [10, 9, 0, host],
            Role::Source => [10, *self.chance.pick(&[0, 0, 0, 200]), 1, host],
            Role::Viewer => [10, 0, 2, host],
            Role::Other => [10, 0, 3, host],
            Role::Relay => unreachable!("it is called"),
        };
        SocketAddr::from((net, port))
    }

    /// The first client lets most sessions in.
    fn operator(&mut self) {
        let peer = self.peer(Role::Caller);
        let manner = Manner {
            habit: Habit::Prompt,
            finale: Finale::Stay,
            pace: 4096,
            resets_percent: 0,
            down_capacity: 64 * 1024,
        };
        let mut client = Client::new(Role::Caller, peer, 0, manner);
        for session in 0..self.knowledge.sessions.len() {
            if self.chance.percent(80) {
                let mut script = Script::default();
                script.grant(session, &self.knowledge);
                client.add(script);
            }
        }
        for target in senders::calls() {
            let mut script = Script::default();
            script.call_of_datagrams("POST", &target, true);
            client.add(script);
        }
        self.clients.push(client);
    }

    fn newcomer(&mut self) {
        let role = *self.chance.pick(&[
            Role::Source,
            Role::Source,
            Role::Viewer,
            Role::Viewer,
            Role::Viewer,
            Role::Viewer,
            Role::Viewer,
            Role::Viewer,
            Role::Caller,
            Role::Other,
        ]);
        let peer = self.peer(role);
        let chance = &mut self.chance;
        let habit = match chance.within(0..=9) {
            0..=4 => Habit::Prompt,
            5..=6 => Habit::Slow(chance.magnitude(20..=10_000)),
            _ => Habit::Stalling(chance.magnitude(2..=200)),
        };
        let manner = Manner {
            habit,
            finale: Finale::any(chance),
            pace: chance.magnitude(50..=100_000),
            resets_percent: *chance.pick(&[0, 0, 0, 0, 1]),
            down_capacity: chance.magnitude(300..=200_000),
        };
        let manner = match role {
            Role::Viewer if chance.percent(70) => Manner {
                finale: Finale::Stay,
                ..manner
            },
            _ => manner,
        };
        let connects_at = self.turns + chance.magnitude(0..=20);
        let mut client = Client::new(role, peer, connects_at, manner);
        if !self.config.core.proxies.is_empty() && chance.percent(50) {
            let proxy = SocketAddr::from(([10, 6, 0, 1], peer.port()));
            client.come_through(proxy, &relays::introduction(peer, chance));
        }
        client.rounds = chance.within(0..=4);
        self.request(&mut client);
        if self.chance.percent(15) {
            // It sends the next ones without waiting for answers.
            for _ in 0..self.chance.magnitude(1..=30) {
                self.request_ahead(&mut client);
            }
        }
        self.clients.push(client);
    }

    /// A client's next request.
    fn request(&mut self, client: &mut Client) {
        let mut script = Script::default();
        let sessions = 0..self.knowledge.sessions.len();
        // Most sources come where there is none yet, most viewers where there is one.
        let is_sought = |session: &usize| {
            self.knowledge.running_in(*session).is_some() == (client.role == Role::Viewer)
        };
        let sought: Vec<usize> = sessions.clone().filter(is_sought).collect();
        let session = if sought.is_empty() || self.chance.percent(15) {
            self.chance.within(0..=sessions.end - 1)
        } else {
            *self.chance.pick(&sought)
        };
        match client.role {
            Role::Source => {
                script.publish(
                    session,
                    client.peer,
                    client.script_bytes(),
                    &mut self.knowledge,
                    &mut self.chance,
                );
                if !script.is_whole() {
                    client.rounds = 0;
                }
            }
            Role::Viewer if self.knowledge.is_film(session) && self.chance.percent(60) => {
                script.watch_film(session, &self.knowledge, &mut self.chance);
            }
            Role::Viewer
                if self.knowledge.is_segmented(session) || self.knowledge.is_film(session) =>
            {
                let known = (session, client.listed());
                script.play(known, &self.knowledge, &mut self.chance);
                client.rounds += usize::from(self.chance.percent(70));
            }
            Role::Viewer => script.watch(session, &self.knowledge, &mut self.chance),
            Role::Caller if self.chance.percent(10) => {
                let (method, target, adds) = senders::any_call(&mut self.chance);
                script.call_of_datagrams(method, &target, adds);
            }
            Role::Caller => script.call(&self.knowledge, &mut self.chance),
            Role::Other => {
                client.rounds = 0;
                match self.chance.within(0..=3) {
                    0 => script.loris(&mut self.chance),
                    1 => script.garbage(&mut self.chance),
                    _ => script.wrong(&mut self.chance),
                }
            }
            Role::Relay => return,
        }
        client.add(script);
        if client.role == Role::Source {
            client.take_turns(self.chance.magnitude(5..=400));
        }
    }

    fn request_ahead(&mut self, client: &mut Client) {
        let mut script = Script::default();
        let session = self.chance.within(0..=self.knowledge.sessions.len() - 1);
        match client.role {
            Role::Viewer if self.knowledge.is_film(session) => {
                script.watch_film(session, &self.knowledge, &mut self.chance);
            }
            Role::Viewer if self.knowledge.is_segmented(session) => {
                let known = (session, client.listed());
                script.play(known, &self.knowledge, &mut self.chance);
            }
            Role::Viewer if self.chance.percent(30) => {
                script.watch(session, &self.knowledge, &mut self.chance)
            }
            Role::Viewer | Role::Caller => script.call(&self.knowledge, &mut self.chance),
            Role::Source | Role::Other | Role::Relay => return,
        }
        client.add(script);
    }

    // ---- A turn ----------------------------------------------------------

    /// The whole of a run: clients come and go, then all is let run out, and nothing may be left.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..20 {
            self.turn();
        }
        let arrivals_percent = self.chance.within(3..=40);
        for _ in 0..steps {
            if self.chance.percent(arrivals_percent) {
                self.newcomer();
            }
            self.turn();
            if self.chance.percent(1) && self.chance.percent(30) {
                self.settle();
                self.is_calm = false;
            }
        }
        if self.chance.percent(15) {
            self.shut_down();
        } else {
            self.run_out();
        }
        self.check_nothing_left();
    }

    fn turn(&mut self) {
        self.turns += 1;
        self.clients_act();
        if self.is_compared {
            self.note_what_is_seen();
        }
        self.wind_on();
        self.note();
        self.hand_over_within();
        self.accept();
        self.read();
        self.hand_over_within();
        self.receive();
        self.relay.expire(self.now);
        self.relay.check();
        self.hand_over_within();
        self.write();
        note_who_waits(&self.relay, &mut self.clients);
        self.send();
        self.act();
        self.hand_over_behind();
        self.relay.counts().turn_took(Duration::from_micros(50));
        self.relay.check();
        self.check_bounds();
        if self.turns.is_multiple_of(60) && self.ends_at.is_none() && !self.is_calm {
            self.check_followed();
        }
    }

    /// What the events come to is what the lists say.
    fn check_followed(&mut self) {
        let mut aside = std::mem::take(&mut self.aside);
        let now = self.now;
        let (clients, by_id) = (&mut self.clients, &self.by_id);
        aside.check(&mut self.relay, now, |aside, relay| {
            let write = |id, gather: &Gather<'_>| {
                let bytes = gather.slices().iter().flat_map(|slice| slice.to_vec());
                if aside.takes(id, bytes) {
                    return Outgoing::Whole(gather.bytes());
                }
                let client = &mut clients[by_id[&id]];
                if gather.bytes() == 0 {
                    return Outgoing::Whole(0);
                }
                let outgoing = client.wire.write(gather);
                client.was_blocked |= matches!(outgoing, Outgoing::Part(_));
                outgoing
            };
            write_next(relay, now, write).is_some()
        });
        self.aside = aside;
        self.act();
    }

    fn clients_act(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            client.act(&mut self.knowledge, &mut self.chance);
            if client.role == Role::Relay {
                self.answer_as_relay(index);
                continue;
            }
            if client.is_open() && client.is_at_rest() && client.rounds > 0 && !self.is_calm {
                client.rounds -= 1;
                let peer = client.peer;
                let placeholder = Client::placeholder(peer);
                let mut client = std::mem::replace(&mut self.clients[index], placeholder);
                self.request(&mut client);
                self.clients[index] = client;
            }
        }
    }

    fn wind_on(&mut self) {
        let wait = if self.is_calm {
            Duration::from_micros(self.chance.within(0..=200) as u64)
        } else if self.chance.percent(self.jumps_percent) {
            let deadline = self.relay.next_deadline();
            match deadline.filter(|_| !self.is_compared) {
                Some(deadline) if self.chance.percent(70) => deadline.since(self.now),
                _ => self.chance.millis(100..=10_000),
            }
        } else {
            self.chance.millis(0..=20)
        };
        self.now = self.now + wait;
    }

    fn note(&mut self) {
        // Events come in any order.
        let first = self.chance.within(0..=self.clients.len() - 1);
        for index in (first..self.clients.len()).chain(0..first) {
            let client = &mut self.clients[index];
            let is_spurious = !self.is_calm && self.chance.percent(1);
            if client.connects_at > self.turns {
                continue;
            }
            let Some(socket) = &mut client.socket else {
                continue;
            };
            let id = socket.id;
            let Some(edge) = client.wire.edge(is_spurious) else {
                continue;
            };
            let Edge {
                is_readable,
                is_writable,
                is_read_closed,
                is_error,
            } = edge;
            if is_readable || is_read_closed || is_error {
                socket.input.note(is_read_closed, is_error);
                self.readers.push(id, &mut socket.input);
            }
            if is_writable {
                self.relay.unblocked(id);
                self.relay.check();
            }
        }
        let turns = self.turns;
        for (_, id, is_there) in self.calls.extract_if(.., |(turn, ..)| *turn <= turns) {
            // Whoever has given up meanwhile has a stale id.
            if is_there {
                self.relay.unblocked(id);
            } else {
                self.relay.lost(id, self.now);
            }
            self.relay.check();
        }
        let mut due = Vec::new();
        self.errands.retain(|(turn, job_id, done)| {
            if *turn <= turns {
                due.push((*job_id, done.clone()));
            }
            *turn > turns
        });
        for (job_id, done) in due {
            self.relay.job_finished(job_id, done, self.now);
            self.relay.check();
        }
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        let index = *self.by_id.get(&id)?;
        self.clients.get_mut(index)
    }

    fn accept(&mut self) {
        if self.ends_at.is_some() {
            return;
        }
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.has_come || client.connects_at > self.turns {
                continue;
            }
            client.has_come = true;
            match self
                .relay
                .accepted(client.proxy.unwrap_or(client.peer), self.now)
            {
                None => {
                    client
                        .wire
                        .close_by_server(&mut chance_of(self.seed, "close", index as u64))
                }
                Some(id) => {
                    let before = self.by_id.insert(id, index);
                    assert_eq!(before, None, "an id that has been given out before");
                    client.id = Some(id);
                    client.socket = Some(Socket::new(id));
                }
            }
            self.relay.check();
        }
    }

    fn read(&mut self) {
        let mut ends = Ends {
            clients: &mut self.clients,
            by_id: &self.by_id,
            knowledge: &mut self.knowledge,
            buffer: Vec::new(),
        };
        let is_short = !self.is_compared && self.chance.percent(10);
        let share = Share {
            bytes_max: READ_BUFFER_BYTES,
            cost_max: if is_short { 1 } else { READ_COST_MAX },
            now: self.now,
        };
        self.readers.read_in_turn(&mut self.relay, &mut ends, share);
        while self.is_compared && self.relay.do_deferred_work(self.now).is_some() {
            self.relay.check();
        }
    }

    fn write(&mut self) {
        if self.is_compared {
            // Whose turn it is decides nothing. Behind a piece of a list there may be another.
            let mut times_in_vain = 0;
            while self.relay.has_writes() && times_in_vain < 2 {
                times_in_vain = if self.write_one() {
                    0
                } else {
                    times_in_vain + 1
                };
            }
            return;
        }
        let budget = if self.chance.percent(10) {
            self.chance.within(0..=6)
        } else {
            WRITES_PER_TURN_MAX
        };
        for _ in 0..budget {
            if !self.write_one() {
                return;
            }
        }
    }

    /// Writes to the client that is next. Says whether there was one.
    fn write_one(&mut self) -> bool {
        let (clients, by_id, aside) = (&mut self.clients, &self.by_id, &mut self.aside);
        let write = |id, gather: &Gather<'_>| {
            let bytes = gather.slices().iter().flat_map(|slice| slice.to_vec());
            if aside.takes(id, bytes) {
                return Outgoing::Whole(gather.bytes());
            }
            let index = by_id.get(&id);
            let client = &mut clients[*index.expect("to be written to is who is known")];
            assert!(
                client.socket.is_some(),
                "to be written to is who is connected"
            );
            if gather.bytes() == 0 {
                return Outgoing::Whole(0);
            }
            let outgoing = client.wire.write(gather);
            client.was_blocked |= matches!(outgoing, Outgoing::Part(_));
            outgoing
        };
        let written = write_next(&mut self.relay, self.now, write);
        self.relay.check();
        written.is_some()
    }

    fn receive(&mut self) {
        if self.is_calm || !self.has_rtp || self.is_compared {
            return;
        }
        for (from, port, datagram) in self.senders.send(&mut self.chance) {
            self.relay.datagram(from, port, &datagram, self.now);
            self.relay.check();
        }
    }

    fn send(&mut self) {
        let mut not_taken = Vec::new();
        for _ in 0..WRITES_PER_TURN_MAX {
            let Some(datagrams) = self.relay.next_datagrams(self.now, &not_taken) else {
                return;
            };
            for what in self.senders.check(&datagrams) {
                self.knowledge.count(what);
            }
            let is_full = !self.is_compared && self.chance.percent(3);
            not_taken = vec![1; if is_full { datagrams.to.len() } else { 0 }];
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Connect(id, to) => self.connect(id, to),
                Action::Close(id) if self.aside.closes(id) => {}
                Action::ShutdownWrite(id) | Action::ReadOn(id) if self.aside.has(id) => {}
                Action::Close(id) => {
                    let index = *self.by_id.get(&id).expect("closed is who is known");
                    let client = &mut self.clients[index];
                    client.socket.take().expect("closed is who is connected");
                    let chance = &mut chance_of(self.seed, "close", index as u64);
                    client.wire.close_by_server(chance);
                }
                Action::ShutdownWrite(id) => {
                    let client = self.client(id).expect("shut is who is known");
                    assert!(client.socket.is_some(), "shut is who is connected");
                    client.wire.shut_by_server();
                }
                Action::ReadOn(id) => {
                    let index = *self.by_id.get(&id).expect("read on is who is known");
                    let socket = self.clients[index].socket.as_mut();
                    let socket = socket.expect("read on is who is connected");
                    self.readers.push(id, &mut socket.input);
                }
                Action::Run(job_id, job) => self.help(job_id, &job),
                Action::ReturnMemory(_) => {}
                Action::Log(line) => self.knowledge.read_log(&line),
                Action::LogAccess(line) => assert!(!line.contains('\n'), "{line:?}"),
            }
        }
        self.relay.check();
    }

    /// The server calls another relay, which may be there or not, or never say.
    fn connect(&mut self, id: ConnectionId, to: SocketAddr) {
        let chance = &mut chance_of(self.seed, "connect", id.to_u64());
        let (is_there, is_heard) = match chance.within(0..=9) {
            _ if self.is_calm => (true, true),
            0 => (false, true),
            1 => (false, false),
            _ => (true, true),
        };
        let turn = if is_heard {
            self.turns + chance.magnitude(1..=10)
        } else {
            usize::MAX
        };
        let manner = Manner {
            habit: Habit::Prompt,
            finale: Finale::any(chance),
            pace: chance.magnitude(50..=50_000),
            resets_percent: *chance.pick(&[0, 0, 0, 0, 1]),
            down_capacity: chance.magnitude(20..=10_000),
        };
        let mut client = Client::new(Role::Relay, to, turn, manner);
        client.wire = Wire::outgoing(64 * 1024, manner.down_capacity);
        client.has_come = true;
        client.id = Some(id);
        client.socket = Some(Socket::new(id));
        if self.is_calm {
            client.calm_down();
        }
        let before = self.by_id.insert(id, self.clients.len());
        assert_eq!(before, None, "an id that has been given out before");
        self.clients.push(client);
        if is_heard {
            self.calls.push((turn, id, is_there));
        }
    }

    /// A relay that has been asked says something.
    fn answer_as_relay(&mut self, index: usize) {
        let client = &self.clients[index];
        let Some(question) = Question::read(&client.heard, &self.knowledge) else {
            return;
        };
        let (from, is_calm) = (client.peer, self.is_calm);
        let is_it_who_is_asked = if question.session.is_some() {
            from != relays::PEER
        } else {
            from == relays::PEER
        };
        assert!(is_it_who_is_asked, "{from} is asked for what it has not");
        let answer = question.answer(from, is_calm, &mut self.knowledge, &mut self.chance);
        self.knowledge.count(answer.name);
        self.clients[index].say(&answer.bytes, answer.stream, answer.ends_with_connection);
    }

    fn help(&mut self, job_id: JobId, job: &Job) {
        let names = match job {
            Job::Resolve(names) => names,
            Job::Append(entry) => return self.append(job_id, entry),
        };
        let chance = &mut chance_of(self.seed, "help", job_id.0);
        let turn = self.turns + chance.magnitude(1..=60);
        let results = names
            .iter()
            .map(|(_, port)| match chance.within(0..=5) {
                0 => Err("there is no such name".to_owned()),
                1 => Ok(Vec::new()),
                2 => Ok(vec![
                    SocketAddr::from(([10, 7, 2, 1], *port)),
                    SocketAddr::from(([10, 7, 2, 2], *port)),
                ]),
                _ => Ok(vec![SocketAddr::from(([10, 7, 2, 3], *port))]),
            })
            .collect();
        match chance.within(0..=9) {
            0 => self.relay.job_refused(job_id, self.now),
            // Nobody ever says.
            1 if !self.is_compared => {}
            _ => self.errands.push((turn, job_id, Done::Resolved(results))),
        }
    }

    /// The disk takes changes sooner or later, or does not.
    fn append(&mut self, job_id: JobId, entry: &Entry) {
        assert!(!entry.records.is_empty() || entry.time.is_some());
        let chance = &mut chance_of(self.seed, "append", job_id.0);
        let turn = self.turns + chance.magnitude(1..=60);
        match chance.within(0..=9) {
            0 => self.relay.job_refused(job_id, self.now),
            1 => {
                let full = Done::Appended(Err("no space is left".to_owned()));
                self.errands.push((turn, job_id, full));
            }
            _ => {
                self.errands.push((turn, job_id, Done::Appended(Ok(()))));
                if chance.percent(5) {
                    let why = Done::NotCompacted("no space is left".to_owned());
                    self.errands.push((turn + 1, job_id, why));
                }
            }
        }
    }

    /// What each client has seen, and when.
    fn note_what_is_seen(&mut self) {
        for client in &mut self.clients {
            client.seen.note(self.turns);
        }
        self.choices.push((self.chance.drawn(), self.clients.len()));
    }

    /// In which turn another choice was made, or another came, than in the other world.
    #[cfg_attr(not(feature = "handover"), allow(dead_code))]
    pub fn parts_from(&self, other: &World) -> Option<usize> {
        let mut turns = self.choices.iter().zip(&other.choices);
        turns.position(|(choices, others)| choices != others)
    }

    /// Who saw what.
    #[cfg_attr(not(feature = "handover"), allow(dead_code))]
    pub fn seen(&self) -> Vec<(String, &Seen)> {
        let clients = self.clients.iter().filter(|client| client.has_come);
        let seen = clients.map(|client| (client.state(), &client.seen));
        seen.collect()
    }

    /// What has happened, and how often.
    pub fn tally(&self) -> &Tally {
        &self.knowledge.tally
    }

    // ---- The end ---------------------------------------------------------

    /// Lets everything that is under way arrive, and sees that all have what they should.
    fn settle(&mut self) {
        self.is_calm = true;
        for client in &mut self.clients {
            client.calm_down();
        }
        let mut quiet_turns = 0;
        let (mut turns_left, mut handed) = (TURNS_TO_REST_MAX, 0);
        while turns_left > 0 {
            let is_quiet = self.readers.is_empty()
                && !self.relay.has_deferred_work()
                && !self.relay.has_writes()
                && self.clients.iter().all(Client::is_idle);
            quiet_turns = if is_quiet { quiet_turns + 1 } else { 0 };
            if quiet_turns > 70 {
                self.check_settled();
                return self.check_followed();
            }
            self.turn();
            // A film that goes out by datagrams is read at its own pace, which may be slow.
            let sources = self.clients.iter().filter(|one| one.role == Role::Source);
            let by_sources = sources.map(Client::handed_bytes).sum();
            turns_left = if by_sources > handed {
                TURNS_TO_REST_MAX
            } else {
                turns_left - 1
            };
            handed = by_sources;
        }
        let busy: Vec<_> = self
            .clients
            .iter()
            .filter(|client| !client.is_idle())
            .map(Client::state)
            .collect();
        panic!(
            "it does not come to rest: readers: {:?}, writes: {}, {busy:#?}",
            self.readers,
            self.relay.has_writes()
        );
    }

    fn check_settled(&self) {
        for client in self.clients.iter().filter(|client| client.is_open()) {
            if let Some((session, track)) = client.watches() {
                assert!(
                    track.is_settled(&self.knowledge) || track.place().is_none(),
                    "{:?}: bytes of nowhere: {}",
                    client.peer,
                    track.state(&self.knowledge)
                );
                if let Some(place) = track.place() {
                    assert!(
                        track.is_at_end(&self.knowledge),
                        "{:?} is left behind: {}",
                        client.peer,
                        track.state(&self.knowledge)
                    );
                    let is_running = self.knowledge.state(place.stream) == State::Running;
                    assert!(is_running, "{:?} is not told of the end", client.peer);
                } else {
                    let stream = self.knowledge.running_in(session);
                    assert!(
                        stream.is_some(),
                        "{:?} watches what does not run",
                        client.peer
                    );
                }
            } else if let Some(request) = client.waits_for() {
                let may_wait = match &request.asked {
                    Asked::Publish { is_whole, .. } => !is_whole,
                    // Its stream has not shown what it is, or a name is being looked up.
                    Asked::Watch { .. } | Asked::Film { .. } => true,
                    // It has no segments yet, or not the one that was asked for.
                    Asked::List { .. } => true,
                    Asked::Segment { .. } => false,
                    // Or peers are being asked.
                    Asked::Call(_) => request.is_with_names() || !self.config.core.peers.is_empty(),
                    Asked::Wrong => false,
                    Asked::Garbage => true,
                };
                assert!(may_wait, "{:?} waits in vain: {request:?}", client.peer);
            }
        }
    }

    fn run_out(&mut self) {
        self.check_followed();
        let events = self.knowledge.tally.entry("events".to_owned());
        *events.or_default() += self.aside.units as u64;
        self.aside.leave(&mut self.relay, self.now);
        self.settle();
        for client in &mut self.clients {
            if client.has_come && !client.is_over {
                client.leave();
            }
        }
        self.clients.retain(|client| client.has_come);
        self.reindex();
        self.settle();
        self.wait_until(|world| world.relay.is_empty() && world.relay.next_deadline().is_none());
        self.turn();
    }

    fn reindex(&mut self) {
        self.by_id = self
            .clients
            .iter()
            .enumerate()
            .filter_map(|(index, client)| Some((client.id?, index)))
            .collect();
    }

    /// Jumps from deadline to deadline.
    fn wait_until(&mut self, is_done: impl Fn(&World) -> bool) {
        // What is left of a film goes out to UDP clients at its own pace.
        for _ in 0..50_000 {
            if is_done(self) {
                return;
            }
            if self.is_compared {
                self.now = self.now + STEP;
            } else if !self.relay.has_writes()
                && !self.relay.has_deferred_work()
                && self.readers.is_empty()
                && let Some(deadline) = self.relay.next_deadline()
            {
                self.now = self.now.max(deadline);
            }
            self.turn();
        }
        let open: Vec<_> = self
            .clients
            .iter()
            .filter(|client| client.socket.is_some())
            .map(Client::state)
            .collect();
        panic!(
            "it does not end: next deadline {:?}, now {:?}, writes {}, ahead {}, {:?} {open:#?}",
            self.relay.next_deadline(),
            self.now,
            self.relay.has_writes(),
            self.relay.has_deferred_work(),
            self.readers
        );
    }

    fn shut_down(&mut self) {
        self.knowledge.is_closing = true;
        self.aside.leave(&mut self.relay, self.now);
        self.relay.shut_down(self.now);
        self.relay.check();
        let end = self.now + SHUTDOWN_TIME;
        self.ends_at = Some(end);
        while self.now < end && !self.relay.is_empty() {
            self.turn();
        }
        for client in &mut self.clients {
            client.calm_down();
        }
        // The shell goes now. Whoever is left sees its connection closed; the core forgets them
        // when told.
        let left: Vec<ConnectionId> = self
            .clients
            .iter()
            .filter_map(|client| Some(client.socket.as_ref()?.id))
            .collect();
        for id in left {
            self.relay.lost(id, self.now);
            self.relay.check();
        }
        self.clients.retain(|client| client.has_come);
        self.reindex();
        self.wait_until(|world| world.relay.is_empty() && world.relay.next_deadline().is_none());
        self.turn();
    }

    fn check_bounds(&self) {
        let open = self
            .clients
            .iter()
            .filter(|client| client.socket.is_some())
            .count();
        let connections_max = self.config.connections_max.unwrap_or(1000);
        assert!(
            open <= connections_max + CONNECTIONS_BEYOND_MAX,
            "{open} connections, {connections_max} may be"
        );
    }

    fn check_nothing_left(&mut self) {
        for client in &mut self.clients {
            client.calm_down();
        }
        self.clients_act();
        self.clients_act();
        assert!(self.relay.is_empty(), "connections are left");
        // A stream that is gone leaves its line when it would be its turn, and in the last of the
        // world's turns nothing may have been written (seed 301353).
        assert!(!self.write_one(), "somebody is left to be written to");
        assert!(!self.relay.has_writes(), "writes are left");
        assert_eq!(self.relay.next_write(), None, "writes are left");
        assert_eq!(self.relay.next_action(), None, "actions are left");
        assert_eq!(self.relay.next_deadline(), None, "deadlines are left");
        self.knowledge.check_none_runs();
        self.knowledge.check_gaps(self.relay.counts().skips());
    }
}

/// Requests that the server reads later are not served at once.
fn note_who_waits(relay: &Relay, clients: &mut [Client]) {
    if relay.has_deferred_work() {
        clients.iter_mut().for_each(Client::is_kept_waiting);
    }
}

/// The server's ends of all connections.
struct Ends<'a> {
    clients: &'a mut Vec<Client>,
    by_id: &'a BTreeMap<ConnectionId, usize>,
    knowledge: &'a mut Knowledge,
    buffer: Vec<u8>,
}

impl Inputs for Ends<'_> {
    fn input(&mut self, id: ConnectionId) -> Option<&mut Input> {
        let client = &mut self.clients[*self.by_id.get(&id)?];
        Some(&mut client.socket.as_mut()?.input)
    }

    fn read(&mut self, id: ConnectionId, bytes_max: usize) -> Incoming {
        let index = self.by_id.get(&id).expect("read is who is known");
        let client = &mut self.clients[*index];
        self.buffer.clear();
        let incoming = client.wire.read(bytes_max, &mut self.buffer);
        if let Incoming::Bytes(bytes) = incoming {
            client.handed(bytes, self.knowledge);
        }
        incoming
    }

    fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    fn after_input(&mut self, relay: &Relay) {
        relay.check();
        note_who_waits(relay, self.clients);
    }
}
