//! The hand-over of clients' sockets. Both processes have them for a while.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use mio::Registry;

use super::{Listener, Sockets};
use crate::relay::ConnectionId;

impl Listener {
    /// Returns whether clients find it: a socket in the file system may have lost its file, also to
    /// another server.
    pub fn is_found(&self) -> bool {
        match self {
            Listener::Tcp(_) => true,
            Listener::Unix(_, file) => file.is_there(),
        }
    }
}

impl Sockets {
    /// Returns the connections of all open sockets.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.slots.iter().flatten().map(|socket| socket.id)
    }

    /// Returns the descriptor of a connection's socket.
    pub fn descriptor(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        let socket = self.slots.get(id.index())?.as_ref()?;
        (socket.id == id).then(|| socket.stream.as_fd())
    }

    /// Records that another process has a copy of the descriptor.
    pub fn share(&mut self, id: ConnectionId) {
        if let Some(socket) = self.get_mut(id) {
            socket.is_shared = true;
        }
    }

    /// Leaves the socket to the other process.
    pub fn give_away(&mut self, id: ConnectionId, registry: &Registry) {
        if let Some(mut socket) = self.take(id) {
            // Otherwise events would come here while the other process has the socket.
            let _ = registry.deregister(&mut socket.stream);
            socket.is_shared = false;
        }
    }

    /// Keeps the passed sockets of these connections, and fails if one is missing. Leaves the
    /// others to the other process.
    pub fn only(
        mut self,
        ids: impl Iterator<Item = ConnectionId>,
        registry: &Registry,
    ) -> io::Result<Sockets> {
        let mut kept = Sockets::default();
        for id in ids {
            kept.put(self.take(id).ok_or_else(|| {
                io::Error::other(format!("connection {id:?} comes without its socket"))
            })?);
        }
        for left in self.slots.iter_mut().flatten() {
            let _ = registry.deregister(&mut left.stream);
        }
        Ok(kept)
    }
}
