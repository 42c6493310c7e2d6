//! The clients: their connections, whose turn it is to be read or written to, and how many each
//! host has. What a client's end means to others, this part only says.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use super::connection::{Connection, Phase};
use super::desk::Desk;
use super::reading::Reading;
use super::settle::Said;
use super::waiting::WaitingRoom;
use super::{Action, ConnectionId, Ticket};
use crate::held::hash_map_bytes;
use crate::http::HeadReader;
use crate::slots::Slots;

pub(super) struct Clients {
    pub connections: Slots<Connection>,
    /// How many connections each host has.
    pub hosts: HashMap<IpAddr, usize>,
    /// Connections of proxies that came beyond the limit, the oldest first; some are gone.
    pub unplaced: VecDeque<ConnectionId>,
    pub reading: Reading,
    /// Connections with something of their own to write.
    pub queue: VecDeque<ConnectionId>,
    /// Connections with a piece of a long answer to write, and how many others have been written to
    /// since the last piece.
    pub listing: VecDeque<ConnectionId>,
    pub writes_since_piece: usize,
    /// Small pieces of a source's body, put together. Empty but for its room.
    pub pieces: Vec<u8>,
    pub waiting: WaitingRoom,
    /// What they have said, until it is heard.
    pub said: VecDeque<Said>,
}

impl Clients {
    /// Nobody yet.
    pub fn new() -> Clients {
        Clients {
            connections: Slots::default(),
            hosts: HashMap::new(),
            unplaced: VecDeque::new(),
            reading: Reading::default(),
            queue: VecDeque::new(),
            listing: VecDeque::new(),
            writes_since_piece: 1,
            pieces: Vec::new(),
            waiting: WaitingRoom::default(),
            said: VecDeque::new(),
        }
    }

    /// This server connects to somebody, and says this first; unless there is no place for another
    /// connection.
    pub fn call(
        &mut self,
        to: SocketAddr,
        phase: Phase,
        request: &[u8],
        desk: &mut Desk,
    ) -> Option<ConnectionId> {
        if self.connections.len() >= desk.settings.limits.connections_max {
            return None;
        }
        let mut connection = Connection::outgoing(to, phase, desk.now);
        connection.output.push(request);
        let id = self.connections.insert(connection);
        desk.actions.push_back(Action::Connect(id, to));
        self.rearm(id, desk);
        Some(id)
    }

    /// A client's answer depends on what comes under this ticket.
    pub fn awaits(&mut self, id: ConnectionId, ticket: Ticket, desk: &mut Desk) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Awaiting(ticket);
            connection.progress = desk.now;
            self.rearm(id, desk);
        }
    }

    /// A client's change is on its way to the disk.
    pub fn records(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Recording;
        }
    }

    /// What a client has waited for is known. Says whether it is there still, and to be answered.
    pub fn waits_no_more(&mut self, id: ConnectionId) -> bool {
        let client = self.connections.get_mut(id);
        client.is_some_and(|connection| {
            connection.phase = Phase::Head(HeadReader::default());
            true
        })
    }

    /// Bytes that its allocations take: 2 KiB for each connection, and what each has to read and to
    /// be told.
    pub fn held_bytes(&self) -> usize {
        let each = self.connections.iter().map(|(_, each)| each.held_bytes());
        let queues = [&self.unplaced, &self.queue, &self.listing];
        let queued: usize = queues.iter().map(|queue| queue.capacity()).sum();
        self.connections.held_bytes()
            + each.sum::<usize>()
            + queued * size_of::<ConnectionId>()
            + hash_map_bytes(&self.hosts)
            + self.reading.held_bytes()
            + self.waiting.held_bytes()
            + self.pieces.capacity()
            + self.said.capacity() * size_of::<Said>()
    }
}
