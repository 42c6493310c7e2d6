//! What the server holds: bytes that are really allocated, capacities and not lengths. Each part
//! counts its own; here they stand side by side.

use super::Relay;

impl Relay {
    /// Each part's name, and the bytes that it holds now. Looks at every connection and every
    /// stream.
    pub fn held_bytes(&self) -> [(&'static str, usize); 8] {
        [
            ("clients", self.clients.held_bytes()),
            ("streams", self.streams.held_bytes()),
            ("rtp", self.rtp_in.held_bytes()),
            ("origins", self.fetch.held_bytes()),
            ("tokens", self.grants.held_bytes()),
            ("lists", self.lists.held_bytes()),
            ("desk", self.desk.held_bytes()),
            ("threads", self.desk.counts.threads_bytes),
        ]
    }
}
