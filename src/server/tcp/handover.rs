//! Clients' sockets go to another process while they are served here: for a while both have them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use mio::Registry;

use super::Sockets;
use crate::relay::ConnectionId;

impl Sockets {
    /// Those that are open.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.places.iter().flatten().map(|socket| socket.id)
    }

    /// The descriptor of a connection's socket.
    pub fn descriptor(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        let socket = self.places.get(id.index())?.as_ref()?;
        (socket.id == id).then(|| socket.stream.as_fd())
    }

    /// Another process has a copy of its descriptor.
    pub fn share(&mut self, id: ConnectionId) {
        if let Some(socket) = self.get_mut(id) {
            socket.is_shared = true;
        }
    }

    /// It is that process's alone from now on.
    pub fn give_away(&mut self, id: ConnectionId, registry: &Registry) {
        let place = self.places.get_mut(id.index());
        if let Some(place) = place
            && let Some(mut socket) = place.take_if(|socket| socket.id == id)
        {
            // As long as that one has it, events of it would come here.
            let _ = registry.deregister(&mut socket.stream);
            socket.is_shared = false;
        }
    }

    /// Of those that another process has passed the ones of these connections, each of which must
    /// have one. The others are that process's alone.
    pub fn only(
        mut self,
        ids: impl Iterator<Item = ConnectionId>,
        registry: &Registry,
    ) -> io::Result<Sockets> {
        let mut kept = Sockets::default();
        for id in ids {
            let place = self.places.get_mut(id.index());
            let socket = place.and_then(|place| place.take_if(|socket| socket.id == id));
            kept.put(socket.ok_or_else(|| {
                io::Error::other(format!("connection {id:?} comes without its socket"))
            })?);
        }
        for left in self.places.iter_mut().flatten() {
            let _ = registry.deregister(&mut left.stream);
        }
        Ok(kept)
    }
}
