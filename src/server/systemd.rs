//! systemd: inherited listening sockets (sd_listen_fds(3)), and state notification (sd_notify(3)).
//!
//! A restart with inherited sockets refuses no client: new clients wait in the sockets' queues.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::sys::sending;
use super::sys::sockets::{self, SocketKind};

/// Sockets that were opened before the server started.
#[derive(Default)]
pub(super) struct Inherited {
    /// Sockets for HTTP, in the order of the environment.
    pub listeners: Vec<TcpListener>,
    /// The socket for RTP, if there is one.
    pub rtp: Option<UdpSocket>,
}

impl Inherited {
    /// Takes the sockets that the environment names. Errors name the socket.
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

/// The service manager, which gets states such as `READY=1`.
pub(super) struct Manager {
    /// `None`: there is no service manager.
    socket: Option<UnixDatagram>,
}

impl Manager {
    /// Connects to the service manager that the environment names.
    pub fn connect() -> Manager {
        let path = env::var_os("NOTIFY_SOCKET");
        // The state is only a service to the manager, so errors do not matter.
        let socket = path.and_then(|path| connected(&path).ok());
        Manager { socket }
    }

    /// Sends a state.
    pub fn notify(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // If the manager does not listen, the state is lost.
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
