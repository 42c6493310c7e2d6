//! Stream sockets: listeners, accepting, connecting to origins, and what is open on each socket.
//!
//! A socket is registered once, for both directions, and events are edges: a direction is silent
//! until it has said that it would block. So each socket remembers whether it may have something to
//! read; whether it takes bytes, the core remembers.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Read};
use std::net::{self, Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net as unix;
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Interest, Registry, Token};

use super::sys;
use crate::gather::Gather;
use crate::relay::ConnectionId;

/// Bytes that a client's socket may hold unsent: a viewer that stops reading costs the kernel no
/// more than about this.
const UNSENT_BYTES_MAX: i32 = 128 * 1024;

/// Connections that may wait to be accepted. The kernel has a bound of its own
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

/// A socket at which clients are waited for.
pub(super) enum Listener {
    Tcp(TcpListener),
    /// And the file that names it, which goes with it.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Makes a bound listener ready.
    pub fn tcp(listener: net::TcpListener) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        sys::set_backlog(listener.as_fd(), BACKLOG)?;
        sys::set_for_accepted(listener.as_fd(), UNSENT_BYTES_MAX)?;
        Ok(Listener::Tcp(TcpListener::from_std(listener)))
    }

    /// Binds a path. A socket that a server left there when it was killed is taken away, one that
    /// somebody listens at is not.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let is_left = |error: &io::Error| {
            error.kind() == io::ErrorKind::AddrInUse
                && unix::UnixStream::connect(path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        let listener = match unix::UnixListener::bind(path) {
            Err(error) if is_left(&error) => {
                fs::remove_file(path)?;
                unix::UnixListener::bind(path)?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        sys::set_backlog(listener.as_fd(), BACKLOG)?;
        let listener = UnixListener::from_std(listener);
        Ok(Listener::Unix(listener, path.to_owned()))
    }

    /// From now on the poll tells, with this token, when somebody waits to be accepted.
    pub fn register(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// The next client. One of a socket in the file system is on this host, and has no address.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Listener::Tcp(listener) => listener.accept(),
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                // Read, written and shut down like any stream socket; nothing else is asked of it.
                let stream = net::TcpStream::from(OwnedFd::from(stream));
                let this_host = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                Ok((TcpStream::from_std(stream), this_host))
            }
        }
    }
}

impl Display for Listener {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(bound) => write!(formatter, "{bound}"),
                Err(error) => write!(formatter, "somewhere: {error}"),
            },
            Listener::Unix(_, path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Somebody may have taken it away already.
            let _ = fs::remove_file(path);
        }
    }
}

/// The sockets of the clients, each under its connection's id.
#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<Option<Socket>>,
    /// How many there are.
    pub open: usize,
}

/// A client's socket.
pub(super) struct Socket {
    id: ConnectionId,
    stream: TcpStream,
    /// There may be something to read.
    pub is_readable: bool,
    /// The client has shut its side: what is left to read ends with an end, of which no further
    /// event tells.
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

    /// Connects to an origin. An event tells when its socket takes bytes; if nobody is there,
    /// writing will say so.
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
    /// Reads once. For a stream socket, a read that is not filled has emptied it (epoll(7)), unless
    /// its end is due.
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

    /// Writes once. For a stream socket, a write that is not whole has filled it (epoll(7)), and an
    /// event will tell when it takes more.
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
