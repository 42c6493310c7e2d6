//! What systemd hands a service, and is told by it: listening sockets (sd_listen_fds(3)) and the
//! state (sd_notify(3)).
//!
//! With sockets from there a restart refuses nobody: whoever connects meanwhile waits in them.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::sys::sending;
use super::sys::sockets::{self, SocketKind};

/// Sockets that were opened before the server was started.
#[derive(Default)]
pub(super) struct Inherited {
    /// For clients, in the order in which they were passed.
    pub listeners: Vec<TcpListener>,
    /// For RTP; there may be one.
    pub rtp: Option<UdpSocket>,
}

impl Inherited {
    /// The sockets that the environment says are this process's. Errors name the one at fault.
    pub fn take() -> io::Result<Inherited> {
        let mut inherited = Inherited::default();
        for (index, socket) in sockets::inherited_sockets().into_iter().enumerate() {
            let wrong =
                |what: &str| io::Error::other(format!("the socket {index} that was passed {what}"));
            match socket.map_err(|error| wrong(&error.to_string()))? {
                (SocketKind::Listener, socket) => inherited.listeners.push(socket.into()),
                (SocketKind::Datagram, socket) if inherited.rtp.is_none() => {
                    inherited.rtp = Some(socket.into());
                }
                (SocketKind::Datagram, _) => return Err(wrong("is a second datagram socket")),
                (SocketKind::Other, _) => {
                    return Err(wrong("is neither a listening TCP socket nor a UDP socket"));
                }
            }
        }
        Ok(inherited)
    }
}

/// Who is told of the state, such as `READY=1`.
pub(super) struct Manager {
    /// `None`: nobody.
    socket: Option<UnixDatagram>,
}

impl Manager {
    /// The service manager that the environment names, if it does.
    pub fn connect() -> Manager {
        let path = env::var_os("NOTIFY_SOCKET");
        // It helps the manager, and nothing here depends on it.
        let socket = path.and_then(|path| connected(&path).ok());
        Manager { socket }
    }

    /// Tells of a state.
    pub fn notify(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // Where the manager does not listen it is not told.
            let _ = sending::send(socket.as_fd(), &[IoSlice::new(state.as_bytes())]);
        }
    }
}

fn connected(path: &OsStr) -> io::Result<UnixDatagram> {
    let address = match path.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }?;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}
