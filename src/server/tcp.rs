//! Stream sockets: listening, accepting, connecting to origins, and reading and writing.
//!
//! A socket is registered once, for both directions, with edge-triggered events: the next event
//! only comes after a read or write would block. So each socket stores whether it may be readable.
//! The core stores whether it is writable.

#[cfg(feature = "handover")]
mod handover;

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{self, Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net as unix;
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::sys;
use crate::gather::Gather;
use crate::relay::{ConnectionId, Incoming, Input, Inputs, Outgoing};

/// Largest size of unsent bytes in a client's socket. A viewer that stops reading costs the kernel
/// about this much.
const UNSENT_BYTES_MAX: i32 = 128 * 1024;

/// Length of the accept queue. The kernel has its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

/// A listening socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(unix::UnixListener, SocketFile),
}

/// The file of a listener. It is removed with the listener, unless another file has its name by
/// then.
pub(super) struct SocketFile {
    pub path: PathBuf,
    /// Device and inode; `None`: the path was no socket.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Returns whether it is still at its path.
    fn is_there(&self) -> bool {
        self.identity.is_some() && self.identity == socket_at(&self.path)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // Another process may have removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns device and inode of the socket at this path. Does not follow links.
fn socket_at(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    let is_socket = file.file_type().is_socket();
    is_socket.then(|| (file.dev(), file.ino()))
}

/// Removes a socket without a listener. Error `AddrInUse`: a server listens there.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    if socket_at(path).is_none() && fs::symlink_metadata(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file, a folder or a link, and no socket; it was left as it is",
        ));
    }
    match unix::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) | Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

impl Listener {
    /// Makes a bound listener ready.
    pub fn tcp(listener: net::TcpListener) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        sys::options::set_backlog(listener.as_fd(), BACKLOG)?;
        sys::options::set_for_accepted(listener.as_fd(), UNSENT_BYTES_MAX)?;
        Ok(Listener::Tcp(TcpListener::from_std(listener)))
    }

    /// Binds a path. Removes the socket that a killed server left there, and nothing else: a
    /// regular file, a link and a socket at which another server listens stay as they are.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let listener = match unix::UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // If two servers find the same old socket, the second one waits here, and then
                // finds the first one's.
                let folder = path.parent().filter(|folder| *folder != Path::new(""));
                let folder = File::open(folder.unwrap_or(Path::new(".")))?;
                folder.lock()?;
                remove_abandoned(path)?;
                unix::UnixListener::bind(path)?
            }
            bound => bound?,
        };
        Listener::unix_again(listener, path)
    }

    /// Makes a listener ready that is bound to this path.
    pub fn unix_again(listener: unix::UnixListener, path: &Path) -> io::Result<Listener> {
        listener.set_nonblocking(true)?;
        sys::options::set_backlog(listener.as_fd(), BACKLOG)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: socket_at(path),
        };
        Ok(Listener::Unix(listener, file))
    }

    /// Registers it, so that poll reports waiting clients with this token.
    pub fn register(&mut self, token: Token, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix(listener, _) => registry.register(
                &mut SourceFd(&listener.as_raw_fd()),
                token,
                Interest::READABLE,
            ),
        }
    }

    /// Returns where it is bound. A socket in the file system counts as port 80 of this host.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr(),
            Listener::Unix(..) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 80))),
        }
    }

    /// Accepts the next client. A client of a socket in the file system is on this host, and has no
    /// address.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Listener::Tcp(listener) => listener.accept(),
            Listener::Unix(listener, _) => {
                // mio's TCP stream works for any stream socket that is only read, written and shut
                // down.
                let stream = net::TcpStream::from(sys::sockets::accept_unnamed(listener.as_fd())?);
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
            Listener::Unix(_, file) => write!(formatter, "unix:{}", file.path.display()),
        }
    }
}

/// Largest number of sockets to close in a turn. Closing informs the other side, which costs as
/// much as a write.
const CLOSES_PER_TURN_MAX: usize = 128;

/// Sockets of all clients, by connection.
#[derive(Default)]
pub(super) struct Sockets {
    slots: Vec<Option<Socket>>,
    /// Sockets of connections that are over. A new connection in the same place closes one, too.
    to_close: VecDeque<ConnectionId>,
}

/// A client's socket.
pub(super) struct Socket {
    id: ConnectionId,
    stream: TcpStream,
    /// Whether the socket may be readable.
    pub input: Input,
    /// Whether another process may also have the socket.
    is_shared: bool,
}

/// The sockets, and the buffer for reads.
pub(super) struct Reading<'a> {
    /// Sockets of all clients.
    pub sockets: &'a mut Sockets,
    /// Each read overwrites it.
    pub buffer: &'a mut [u8],
}

impl Sockets {
    /// Adds a client's socket. Its events carry its id.
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
        self.put(Socket {
            id,
            stream,
            input: Input::default(),
            is_shared: false,
        });
        Ok(())
    }

    fn put(&mut self, socket: Socket) {
        let index = socket.id.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(socket);
    }

    /// Returns the socket of a connection, if it is there.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.slots
            .get_mut(id.index())?
            .as_mut()
            .filter(|socket| socket.id == id)
    }

    /// Removes and returns the socket of a connection, if it is there.
    fn take(&mut self, id: ConnectionId) -> Option<Socket> {
        let slot = self.slots.get_mut(id.index())?;
        slot.take_if(|socket| socket.id == id)
    }

    /// Returns the number of open sockets.
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Queues a socket to be closed in this turn or a later one.
    pub fn close(&mut self, id: ConnectionId) {
        self.to_close.push_back(id);
    }

    /// Closes some queued sockets; the kernel then forgets their registration. Returns whether any
    /// was closed.
    pub fn close_some(&mut self) -> bool {
        let mut closed = 0;
        while closed < CLOSES_PER_TURN_MAX
            && let Some(id) = self.to_close.pop_front()
        {
            drop(self.take(id));
            closed += 1;
        }
        closed > 0
    }

    /// Returns whether sockets are queued to be closed.
    pub fn has_to_close(&self) -> bool {
        !self.to_close.is_empty()
    }
}

impl Inputs for Reading<'_> {
    fn input(&mut self, id: ConnectionId) -> Option<&mut Input> {
        self.sockets.get_mut(id).map(|socket| &mut socket.input)
    }

    fn read(&mut self, id: ConnectionId, bytes_max: usize) -> Incoming {
        let bytes_max = bytes_max.min(self.buffer.len());
        match self.sockets.get_mut(id) {
            Some(socket) => socket.read(&mut self.buffer[..bytes_max]),
            None => Incoming::Broken,
        }
    }

    fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }
}

impl Socket {
    /// Reads once. On a stream socket, a read that does not fill the buffer has emptied the socket
    /// (epoll(7)), unless the end of the stream follows.
    fn read(&mut self, into: &mut [u8]) -> Incoming {
        loop {
            match self.stream.read(into) {
                Ok(0) => return Incoming::End,
                Ok(bytes) => return Incoming::Bytes(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Incoming::Nothing;
                }
                Err(_) => return Incoming::Broken,
            }
        }
    }

    /// Writes once, if there is anything to write. On a stream socket, an incomplete write has
    /// filled the socket (epoll(7)), and an event reports when it is writable again.
    pub fn write(&mut self, gather: &Gather<'_>) -> Outgoing {
        if gather.bytes() == 0 {
            return Outgoing::Whole(0);
        }
        loop {
            match sys::sending::send(self.stream.as_fd(), gather.slices()) {
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

    /// Ends the stream to the client.
    pub fn shut_down_write(&self) {
        // It fails only if the client is gone.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Closing does not end the connection while another process has the socket, too.
        if self.is_shared {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    use mio::Poll;

    /// This many connections end at once, and a new one takes the place of one before it is closed.
    #[test]
    fn sockets_are_closed_a_few_a_turn() {
        let poll = Poll::new().expect("a poll");
        let listener = net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut sockets = Sockets::default();
        let connect = |sockets: &mut Sockets, id: ConnectionId| {
            let connected = TcpStream::connect(address)
                .and_then(|stream| sockets.insert(id, stream, poll.registry()));
            connected.expect("a connection");
            listener.accept().expect("it comes").0
        };
        let id = |index: u64, generation: u64| ConnectionId::from_u64(generation << 32 | index);
        let clients = 2 * CLOSES_PER_TURN_MAX + 10;
        let ids: Vec<ConnectionId> = (0..clients as u64).map(|index| id(index, 1)).collect();
        let theirs: Vec<net::TcpStream> = ids.iter().map(|id| connect(&mut sockets, *id)).collect();
        let open = |sockets: &Sockets| sockets.slots.iter().flatten().count();
        for id in &ids {
            sockets.close(*id);
            sockets.close(*id);
        }
        assert_eq!(open(&sockets), clients);
        let newcomer = id(clients as u64 - 1, 2);
        let _its = connect(&mut sockets, newcomer);
        let mut left = clients;
        while sockets.has_to_close() {
            assert!(sockets.close_some());
            let now = open(&sockets);
            assert!(left - now <= CLOSES_PER_TURN_MAX, "{left} {now}");
            left = now;
        }
        assert!(!sockets.close_some());
        assert_eq!(open(&sockets), 1);
        assert!(sockets.get_mut(newcomer).is_some());
        for mut each in theirs {
            each.set_nonblocking(true).expect("a socket");
            let read = each.read(&mut [0]).map_err(|error| error.kind());
            assert_ne!(read, Err(ErrorKind::WouldBlock), "it is closed");
        }
    }
}
