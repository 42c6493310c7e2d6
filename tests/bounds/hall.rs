//! The core without sockets, under the counting allocator: clients of every slowness, and a clock
//! that is wound on by hand.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use tollgate::config::{self, Command};
use tollgate::gather::Gather;
use tollgate::relay::{
    Action, ConnectionId, Job, JobId, Outgoing, PIPELINED_COST_MAX, Relay, UdpPort, write_next,
};
use tollgate::time::Instant;

use super::meter::{self, counted};
use super::sum;

/// What the shell does in a turn.
const WRITES_PER_TURN_MAX: usize = 256;

/// A client's end of a connection.
#[derive(Default)]
struct Client {
    /// What it has sent, and the server has not read.
    sent: VecDeque<u8>,
    /// How many bytes it takes in a turn.
    takes: usize,
    /// Of this turn's.
    room: usize,
    is_blocked: bool,
}

/// A server and its clients.
pub struct Hall {
    pub relay: Relay,
    /// The sum of `docs/security.md`.
    pub memory_bytes_max: usize,
    /// The most that the token table may take of it.
    pub tokens_bytes_max: usize,
    pub now: Instant,
    clients: BTreeMap<ConnectionId, Client>,
    pub jobs: Vec<(JobId, Job)>,
    /// Origins that it wants to connect to.
    pub calls: Vec<(ConnectionId, SocketAddr)>,
    /// Streams that run: the log says so.
    pub running: usize,
    ports: u16,
}

impl Hall {
    pub fn new(options: &[&str]) -> Hall {
        let config = match config::parse(options, []) {
            Ok(Command::Run(config)) => config,
            other => panic!("{options:?}: {other:?}"),
        };
        let settings = config.settings(1_000, 0, 7);
        Hall {
            memory_bytes_max: sum::memory_bytes_max(&settings),
            tokens_bytes_max: sum::tokens_bytes_max(&settings.limits),
            relay: counted(|| Relay::new(settings)),
            now: Instant::START,
            clients: BTreeMap::new(),
            jobs: Vec::new(),
            calls: Vec::new(),
            running: 0,
            ports: 1_000,
        }
    }

    /// Connects a client that reads at most `bytes_max` in a turn, and sends its bytes.
    pub fn connect(&mut self, host: [u8; 4], takes: usize, sends: &[u8]) -> ConnectionId {
        self.enter(host, takes, sends, Relay::accepted)
    }

    /// The same at the port for RTMP.
    pub fn connect_rtmp(&mut self, host: [u8; 4], sends: &[u8]) -> ConnectionId {
        self.enter(host, usize::MAX, sends, Relay::accepted_rtmp)
    }

    fn enter(
        &mut self,
        host: [u8; 4],
        takes: usize,
        sends: &[u8],
        accepted: fn(&mut Relay, SocketAddr, Instant) -> Option<ConnectionId>,
    ) -> ConnectionId {
        self.ports = self.ports.wrapping_add(1).max(1_000);
        let peer = SocketAddr::from((host, self.ports));
        let (relay, now) = (&mut self.relay, self.now);
        let id = counted(|| accepted(relay, peer, now)).expect("a place");
        let client = Client {
            takes,
            room: takes,
            ..Client::default()
        };
        self.clients.insert(id, client);
        self.send(id, sends);
        id
    }

    /// A client sends; the server reads as it likes.
    pub fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.sent.extend(bytes);
        }
    }

    /// What a client has sent and the server has not read.
    pub fn unread(&self, id: ConnectionId) -> usize {
        self.clients.get(&id).map_or(0, |client| client.sent.len())
    }

    pub fn is_connected(&self, id: ConnectionId) -> bool {
        self.clients.contains_key(&id)
    }

    pub fn leave(&mut self, id: ConnectionId) {
        let (relay, now) = (&mut self.relay, self.now);
        counted(|| relay.lost(id, now));
        self.act();
    }

    pub fn leave_all(&mut self) {
        let ids: Vec<ConnectionId> = self.clients.keys().copied().collect();
        for id in ids {
            self.leave(id);
        }
    }

    pub fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let (relay, now) = (&mut self.relay, self.now);
        counted(|| relay.datagram(from, UdpPort::Rtp, bytes, now));
        self.act();
    }

    /// Runs a turn of the shell's loop, and lets `time` pass.
    pub fn turn(&mut self, time: Duration) {
        self.read();
        let (relay, now) = (&mut self.relay, self.now);
        counted(|| relay.expire(now));
        self.write();
        while counted(|| self.relay.next_datagrams(now, &[]).is_some()) {}
        self.act();
        self.relay.check();
        self.now = self.now + time;
        for (id, client) in &mut self.clients {
            client.room = client.takes;
            if client.takes > 0 && std::mem::take(&mut client.is_blocked) {
                let relay = &mut self.relay;
                counted(|| relay.unblocked(*id));
            }
        }
    }

    pub fn turns(&mut self, turns: usize, time: Duration) {
        for _ in 0..turns {
            self.turn(time);
        }
    }

    fn read(&mut self) {
        let (relay, now) = (&mut self.relay, self.now);
        for (id, client) in &mut self.clients {
            let wanted = counted(|| relay.bytes_wanted(*id)).min(client.sent.len());
            if wanted > 0 {
                let bytes: Vec<u8> = client.sent.drain(..wanted).collect();
                counted(|| relay.received(*id, &bytes, now));
            }
        }
        let mut cost = 0;
        while cost < PIPELINED_COST_MAX
            && let Some(spent) = counted(|| relay.do_deferred_work(now))
        {
            cost += spent;
        }
    }

    fn write(&mut self) {
        let (relay, now) = (&mut self.relay, self.now);
        for _ in 0..WRITES_PER_TURN_MAX {
            let write = |id, gather: &Gather<'_>| {
                let Some(client) = self.clients.get_mut(&id) else {
                    return Outgoing::Broken;
                };
                let taken = client.room.min(gather.bytes());
                client.room -= taken;
                if taken == gather.bytes() {
                    return Outgoing::Whole(taken);
                }
                client.is_blocked = true;
                Outgoing::Part(taken)
            };
            if counted(|| write_next(relay, now, write)).is_none() {
                return;
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = counted(|| self.relay.next_action()) {
            match action {
                Action::Close(id) => {
                    self.clients.remove(&id);
                    self.calls.retain(|(call, _)| *call != id);
                }
                Action::Connect(id, address) => {
                    self.clients.insert(
                        id,
                        Client {
                            takes: usize::MAX,
                            ..Client::default()
                        },
                    );
                    self.calls.push((id, address));
                }
                Action::Run(job_id, job) => self.jobs.push((job_id, job)),
                // Text that the shell writes and frees.
                Action::Log(line) => {
                    self.running += usize::from(line.contains("event=stream-begins"));
                    self.running -= usize::from(line.contains("event=stream-ends"));
                    counted(|| drop(line));
                }
                Action::LogAccess(line) => counted(|| drop(line)),
                Action::ShutdownWrite(_) | Action::ReadOn(_) | Action::ReturnMemory(_) => {}
            }
        }
    }

    /// What the core holds besides what it holds with nobody there.
    pub fn memory_bytes(&self) -> usize {
        meter::memory_bytes()
    }
}
