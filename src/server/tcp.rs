//! TCP: listeners, accepting and when not to, connecting to origins, and what is open on each socket.
//!
//! A socket is registered once, for both directions, and events are edges: a direction is silent until it has said that it would
//! block. So each socket remembers whether it may have something to read; whether it takes bytes, the core remembers.

use std::io::{self, Read};
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::AsFd;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::sys;
use crate::gather::Gather;
use crate::relay::ConnectionId;

/// Bytes that a client's socket may hold unsent: a viewer that stops reading costs the kernel no more than about this.
const UNSENT_BYTES_MAX: i32 = 128 * 1024;

/// Connections that may wait to be accepted. The kernel has a bound of its own (`net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

/// Makes a bound listener ready, and says where it really is.
pub(super) fn listen(listener: net::TcpListener) -> io::Result<(TcpListener, SocketAddr)> {
    listener.set_nonblocking(true)?;
    sys::set_backlog(listener.as_fd(), BACKLOG)?;
    sys::set_for_accepted(listener.as_fd(), UNSENT_BYTES_MAX)?;
    let bound = listener.local_addr()?;
    Ok((TcpListener::from_std(listener), bound))
}

/// The sockets of the clients, each under its connection's id.
#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<Option<Socket>>,
    pub open: usize,
}

/// A client's socket.
pub(super) struct Socket {
    id: ConnectionId,
    stream: TcpStream,
    /// There may be something to read.
    pub is_readable: bool,
    /// The client has shut its side: what is left to read ends with an end, of which no further event tells.
    pub is_ending: bool,
    /// The connection is broken: reading will say so when it has said the rest.
    pub is_broken: bool,
    /// It stands in the list of those that are to be read.
    pub is_read_queued: bool,
}

/// What a read found.
pub(super) enum Incoming {
    Bytes(usize),
    Nothing,
    End,
    Broken,
}

/// What became of a write.
pub(super) enum Outgoing {
    /// All of it went out.
    Whole(usize),
    /// So much of it did, and the socket takes no more.
    Part(usize),
    Broken,
}

impl Sockets {
    /// Keeps a client's socket, whose events come under its id from now on.
    pub fn insert(
        &mut self,
        id: ConnectionId,
        mut stream: TcpStream,
        registry: &Registry,
    ) -> io::Result<()> {
        registry.register(
            &mut stream,
            Token(id.to_u64() as usize),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        if self.places.len() <= id.index() {
            self.places.resize_with(id.index() + 1, || None);
        }
        self.places[id.index()] = Some(Socket {
            id,
            stream,
            is_readable: false,
            is_ending: false,
            is_broken: false,
            is_read_queued: false,
        });
        self.open += 1;
        Ok(())
    }

    /// Connects to an origin. An event tells when its socket takes bytes; if nobody is there, writing will say so.
    pub fn connect(
        &mut self,
        id: ConnectionId,
        address: SocketAddr,
        registry: &Registry,
    ) -> io::Result<()> {
        self.insert(id, TcpStream::connect(address)?, registry)
    }

    /// The socket of a connection that is still there.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.places
            .get_mut(id.index())?
            .as_mut()
            .filter(|socket| socket.id == id)
    }

    /// Closes a socket; the kernel forgets its registration with it.
    pub fn close(&mut self, id: ConnectionId) {
        if self.get_mut(id).is_some() {
            self.places[id.index()] = None;
            self.open -= 1;
        }
    }
}

impl Socket {
    /// Reads once. For a stream socket, a read that is not filled has emptied it (epoll(7)), unless its end is due.
    pub fn read(&mut self, into: &mut [u8]) -> Incoming {
        loop {
            match self.stream.read(into) {
                Ok(0) => return Incoming::End,
                Ok(bytes) => {
                    self.is_readable = bytes == into.len() || self.is_ending;
                    return Incoming::Bytes(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Incoming::Nothing;
                }
                Err(_) => return Incoming::Broken,
            }
        }
    }

    /// Writes once. For a stream socket, a write that is not whole has filled it (epoll(7)), and an event will tell when it takes more.
    pub fn write(&mut self, gather: &Gather<'_>) -> Outgoing {
        loop {
            match sys::send(self.stream.as_fd(), gather.slices()) {
                Ok(bytes) if bytes == gather.bytes() => return Outgoing::Whole(bytes),
                Ok(bytes) => return Outgoing::Part(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Outgoing::Part(0);
                }
                Err(_) => return Outgoing::Broken,
            }
        }
    }

    /// Tells the client that nothing more comes.
    pub fn shut_down_write(&self) {
        // It fails only where the client is gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
