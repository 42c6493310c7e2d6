//! Sockets that another server bound, for the one that takes over from it.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::config::Bind;
use crate::gate::Join;

/// The purpose of a socket.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(rename_all = "kebab-case"))]
#[cfg_attr(not(feature = "handover"), allow(dead_code))]
pub(super) enum BoundSocket {
    /// A TCP listener for clients.
    Tcp(SocketAddr),
    /// A listener for clients at this path.
    Unix(PathBuf),
    /// A listener for clients that the service manager opened.
    Passed(SocketAddr),
    /// The listener at which the next server asks to take over.
    Handover,
    /// The RTP socket.
    Rtp,
    /// The RTP socket that the service manager opened.
    PassedRtp,
    /// The RTCP socket.
    Rtcp,
    /// The socket of a multicast group, with the value of its `--join`.
    Group(String),
}

/// Sockets of the server before, each with its purpose. They leave this list when they are used.
#[derive(Default)]
pub(super) struct Bound(pub Vec<(BoundSocket, OwnedFd)>);

impl Bound {
    /// Takes the listeners that the service manager had opened.
    pub fn passed(&mut self) -> Vec<TcpListener> {
        let next = || self.take(|socket| matches!(socket, BoundSocket::Passed(_)));
        std::iter::from_fn(next).collect()
    }

    /// Takes the listener that was bound here.
    pub fn tcp(&mut self, bind: &Bind) -> Option<TcpListener> {
        self.take(|socket| matches!(socket, BoundSocket::Tcp(bound) if is_bound(bind, *bound)))
    }

    /// Takes the listener of this path.
    pub fn unix(&mut self, path: &Path) -> Option<UnixListener> {
        self.take(|socket| matches!(socket, BoundSocket::Unix(other) if other == path))
    }

    /// Takes the listener of the next hand-over.
    pub fn handover(&mut self) -> Option<UnixListener> {
        self.take(|socket| *socket == BoundSocket::Handover)
    }

    /// Takes the RTP socket that the service manager opened.
    pub fn passed_rtp(&mut self) -> Option<UdpSocket> {
        self.take(|socket| *socket == BoundSocket::PassedRtp)
    }

    /// Takes the RTP socket that was bound here.
    pub fn rtp(&mut self, bind: &Bind) -> Option<UdpSocket> {
        let rtp: UdpSocket = self.take(|socket| *socket == BoundSocket::Rtp)?;
        let bound = rtp.local_addr();
        bound
            .is_ok_and(|bound| is_bound(bind, bound))
            .then_some(rtp)
    }

    /// Takes the RTCP socket of this RTP socket.
    pub fn rtcp(&mut self, rtp: &UdpSocket) -> Option<UdpSocket> {
        let rtcp: UdpSocket = self.take(|socket| *socket == BoundSocket::Rtcp)?;
        let (rtp, bound) = (rtp.local_addr().ok()?, rtcp.local_addr().ok()?);
        (rtp.port().checked_add(1) == Some(bound.port())).then_some(rtcp)
    }

    /// Takes the socket of a group, if it is at the port of the RTP socket.
    pub fn group(&mut self, join: &Join, rtp: SocketAddr) -> Option<UdpSocket> {
        let socket: UdpSocket = self.take(
            |socket| matches!(socket, BoundSocket::Group(other) if *other == join.to_string()),
        )?;
        let bound = socket.local_addr();
        bound
            .is_ok_and(|bound| bound.port() == rtp.port())
            .then_some(socket)
    }

    fn take<Socket: From<OwnedFd>>(
        &mut self,
        is_it: impl Fn(&BoundSocket) -> bool,
    ) -> Option<Socket> {
        let index = self.0.iter().position(|(socket, _)| is_it(socket))?;
        Some(self.0.remove(index).1.into())
    }
}

/// Returns whether a socket that is bound to this address is the one that the option asks for.
fn is_bound(bind: &Bind, bound: SocketAddr) -> bool {
    let mut asked = [Some(bind.address), bind.without_ipv6]
        .into_iter()
        .flatten();
    asked.any(|asked| asked.ip() == bound.ip() && [0, bound.port()].contains(&asked.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_socket_at_another_port_is_not_taken() {
        let join = Join {
            group: "239.1.2.3".parse().expect("a group"),
            source: None,
            interface: None,
        };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = socket.local_addr().expect("its address");
        let other = SocketAddr::new(at.ip(), at.port() ^ 1);
        let bound = || {
            let socket = socket.try_clone().expect("a copy");
            Bound(vec![(BoundSocket::Group(join.to_string()), socket.into())])
        };
        assert!(bound().group(&join, at).is_some());
        assert!(bound().group(&join, other).is_none());
    }
}
