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
            .connections
            .iter()
            .map(|(_, connection)| size_of::<Connection>() + connection.held_bytes());
        let streams = self.lives.iter().map(|(_, live)| live.stream.held_bytes());
        let errands = self.errands.values().map(Errand::held_bytes);
        [
            ("connections", connections.sum()),
            ("streams", streams.sum()),
            ("waiting", self.waiting.held_bytes()),
            ("pulls", self.pulls.held_bytes()),
            ("origins", self.origins.held_bytes()),
            ("blocks", self.blocks.held_bytes()),
            (
                "errands",
                table_bytes::<(Ticket, Errand)>(self.errands.capacity()) + errands.sum::<usize>(),
            ),
            ("lists", self.held_by_lists()),
            ("reading", self.reading.held_bytes()),
            ("threads", self.desk.counts.threads_bytes),
        ]
    }
}
