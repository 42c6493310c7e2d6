//! What the server holds: bytes that are really allocated, capacities and not lengths, part by
//! part.

use super::Relay;
use super::connection::Connection;
use super::errand::{Errand, Ticket};
use crate::held::table_bytes;

impl Relay {
    /// Each part's name, and the bytes that it holds now. Looks at every connection and every
    /// stream.
    pub fn held_bytes(&self) -> [(&'static str, usize); 10] {
        let connections = self
            .clients
            .connections
            .iter()
            .map(|(_, connection)| size_of::<Connection>() + connection.held_bytes());
        let streams = self
            .streams
            .lives
            .iter()
            .map(|(_, live)| live.stream.held_bytes());
        let errands = self.lists.errands.values().map(Errand::held_bytes);
        [
            ("connections", connections.sum()),
            ("streams", streams.sum()),
            ("waiting", self.clients.waiting.held_bytes()),
            ("pulls", self.fetch.pulls.held_bytes()),
            ("origins", self.fetch.origins.held_bytes()),
            ("blocks", self.grants.blocks.held_bytes()),
            (
                "errands",
                table_bytes::<(Ticket, Errand)>(self.lists.errands.capacity())
                    + errands.sum::<usize>(),
            ),
            ("lists", self.lists.held_by_lists()),
            ("reading", self.clients.reading.held_bytes()),
            ("threads", self.desk.counts.threads_bytes),
        ]
    }
}
