//! A connection between a client and the server: two bounded queues of bytes, and the kernel's events.

use std::collections::VecDeque;

use tollgate::gather::Gather;
use tollgate::relay::{ConnectionId, Incoming, Input, Outgoing};

use super::chance::Chance;

/// The server's end, as its shell knows it.
pub struct Socket {
    pub id: ConnectionId,
    pub input: Input,
}

impl Socket {
    /// Of a connection of which nothing has been told yet.
    pub fn new(id: ConnectionId) -> Socket {
        Socket {
            id,
            input: Input::default(),
        }
    }
}

#[derive(Default)]
pub struct Wire {
    /// From the client to the server.
    up: VecDeque<u8>,
    up_capacity: usize,
    client_shut: bool,
    client_reset: bool,
    /// From the server to the client.
    down: VecDeque<u8>,
    pub down_capacity: usize,
    server_shut: bool,
    server_closed: bool,
    /// The server closed with bytes of the client unread, or got some afterwards: the answer may be
    /// lost on the way.
    is_torn: bool,
    /// Something has arrived since the server was last told.
    readable_edge: bool,
    /// A write of the server found no room. The server waits for an event.
    awaits_room: bool,
}

/// What the kernel tells the server of a connection, once.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_read_closed: bool,
    pub is_error: bool,
}

impl Wire {
    pub fn new(up_capacity: usize, down_capacity: usize) -> Wire {
        Wire {
            up_capacity,
            down_capacity,
            readable_edge: true,
            ..Wire::default()
        }
    }

    /// One that the server makes: nothing has come over it.
    pub fn outgoing(up_capacity: usize, down_capacity: usize) -> Wire {
        Wire {
            readable_edge: false,
            ..Wire::new(up_capacity, down_capacity)
        }
    }

    // ---- The client's end ------------------------------------------------

    /// The client writes: says how much of it was taken.
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        if self.client_shut || self.client_reset {
            return 0;
        }
        if self.server_closed {
            self.is_torn |= !bytes.is_empty();
            return bytes.len();
        }
        let taken = bytes
            .len()
            .min(self.up_capacity.saturating_sub(self.up.len()));
        self.up.extend(&bytes[..taken]);
        self.readable_edge |= taken > 0;
        taken
    }

    pub fn shut(&mut self) {
        self.readable_edge |= !self.client_shut;
        self.client_shut = true;
    }

    pub fn reset(&mut self, keeps_what_arrived: bool) {
        self.client_reset = true;
        self.readable_edge = true;
        self.down.clear();
        if !keeps_what_arrived {
            self.up.clear();
        }
    }

    /// The client reads.
    pub fn receive(&mut self, bytes_max: usize) -> Vec<u8> {
        let count = bytes_max.min(self.down.len());
        self.down.drain(..count).collect()
    }

    /// Bytes that the client has not read.
    pub fn unread(&self) -> usize {
        self.down.len()
    }

    /// Whether the client has read all that will ever come.
    pub fn has_ended(&self) -> bool {
        self.client_reset || (self.down.is_empty() && (self.server_shut || self.server_closed))
    }

    pub fn is_closed(&self) -> bool {
        self.server_closed || self.client_reset
    }

    pub fn is_reset(&self) -> bool {
        self.client_reset
    }

    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    // ---- The server's end ------------------------------------------------

    /// Returns the pending event. Events may be spurious, and each stands for both directions.
    pub fn edge(&mut self, is_spurious: bool) -> Option<Edge> {
        if self.server_closed {
            return None;
        }
        let has_room = self.down.len() < self.down_capacity || self.client_reset;
        let writable_edge = self.awaits_room && has_room;
        if !(self.readable_edge || writable_edge || is_spurious) {
            return None;
        }
        let edge = Edge {
            is_readable: self.readable_edge || !self.up.is_empty(),
            is_writable: has_room,
            is_read_closed: self.client_shut || self.client_reset,
            is_error: self.client_reset,
        };
        self.readable_edge = false;
        self.awaits_room &= !has_room;
        Some(edge)
    }

    /// Appends at most `bytes_max` received bytes to `into`.
    pub fn read(&mut self, bytes_max: usize, into: &mut Vec<u8>) -> Incoming {
        if self.up.is_empty() {
            return match (self.client_reset, self.client_shut) {
                (true, _) => Incoming::Broken,
                (false, true) => Incoming::End,
                (false, false) => Incoming::Nothing,
            };
        }
        let count = bytes_max.min(self.up.len());
        into.extend(self.up.drain(..count));
        Incoming::Bytes(count)
    }

    /// Takes what there is room for, copied as it is lent.
    pub fn write(&mut self, gather: &Gather<'_>) -> Outgoing {
        assert!(!self.server_closed, "written to after it was closed");
        assert!(!self.server_shut, "written to after its end was told");
        if self.client_reset {
            return Outgoing::Broken;
        }
        let room = self.down_capacity.saturating_sub(self.down.len());
        let taken = room.min(gather.bytes());
        let mut left = taken;
        for slice in gather.slices() {
            let count = left.min(slice.len());
            self.down.extend(&slice[..count]);
            left -= count;
        }
        if taken == gather.bytes() {
            Outgoing::Whole(taken)
        } else {
            self.awaits_room = true;
            Outgoing::Part(taken)
        }
    }

    pub fn shut_by_server(&mut self) {
        self.server_shut = true;
    }

    /// The server closes. Where the client's bytes are unread the kernel resets, and the client may
    /// lose what it has not read.
    pub fn close_by_server(&mut self, chance: &mut Chance) {
        assert!(!self.server_closed, "closed twice");
        self.server_closed = true;
        if !self.up.is_empty() {
            self.is_torn = true;
        }
        if self.is_torn && chance.percent(50) {
            self.down.clear();
        }
        self.up.clear();
    }

    pub fn is_idle(&self) -> bool {
        self.down.is_empty() && (self.server_closed || (!self.readable_edge && self.up.is_empty()))
    }
}
