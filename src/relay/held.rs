//! What the server holds: bytes that are really allocated, capacities and not lengths, part by part.

use super::Relay;
use super::connection::Connection;

impl Relay {
    /// Each part's name, and the bytes that it holds now. Looks at every connection and every stream.
    pub fn held_bytes(&self) -> [(&'static str, usize); 2] {
        let connections = self
            .connections
            .iter()
            .map(|(_, connection)| size_of::<Connection>() + connection.held_bytes());
        let streams = self.lives.iter().map(|(_, live)| live.stream.held_bytes());
        [
            ("connections", connections.sum()),
            ("streams", streams.sum()),
        ]
    }
}
