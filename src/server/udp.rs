//! UDP: the RTP socket, the one above it for RTCP and those of groups; segmentation off-load, and
//! falling back from it.
//!
//! Several datagrams of one size go out with one call where the kernel cuts them apart
//! (`UDP_SEGMENT`); where it refuses, one by one. A full socket buffer drops datagrams, which are
//! counted; nothing waits and nothing grows.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::os::fd::AsFd;

use mio::net::UdpSocket;

use super::sys;
use crate::config::Outgoing;
use crate::gate::{InterfaceName, Join};
use crate::relay::{Datagrams, UdpPort};

/// The sockets for datagrams.
pub struct Udp {
    /// The RTP socket at first, by which all is sent too.
    inlets: Vec<Inlet>,
    /// Which of them is read next.
    next_inlet: usize,
    is_ipv6: bool,
    /// The size that the kernel cuts at now; 0: it does not cut.
    segment_bytes: usize,
    has_segmentation: bool,
    /// So many of the datagrams that were sent last the kernel did not take, of which the core has
    /// not been told.
    pub not_taken: usize,
}

/// A socket that datagrams come to.
struct Inlet {
    socket: UdpSocket,
    port: UdpPort,
    /// Something may be there that no event tells of.
    may_have: bool,
}

/// The kernel takes no more datagrams (or bytes) than this in one call.
const SEGMENTS_MAX: usize = 64;
const SEGMENTED_BYTES_MAX: usize = 65_000;

/// Room for a burst of a thousand receivers' datagrams.
const SOCKET_BUFFER_BYTES: i32 = 4 * 1024 * 1024;

/// Whether an address is this machine's, now: a socket can be bound to it. So it can to a group's,
/// which is nobody's, and where it fails for another reason than that the address is none of here,
/// nobody knows: then it counts as one. A link-local address says nothing without its zone, and
/// nothing can be sent to it.
pub fn is_own_address(mut address: SocketAddr) -> bool {
    let is_nobodys = match address {
        SocketAddr::V4(_) => false,
        SocketAddr::V6(it) => it.ip().is_unicast_link_local() && it.scope_id() == 0,
    };
    if is_nobodys || address.ip().is_multicast() {
        return false;
    }
    address.set_port(0);
    match net::UdpSocket::bind(address) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() != Some(libc::EADDRNOTAVAIL),
    }
}

impl Udp {
    /// Over a socket that is bound; the RTCP socket is bound beside it if it can be had.
    pub fn new(socket: net::UdpSocket) -> io::Result<Udp> {
        socket.set_nonblocking(true)?;
        let rtp = UdpSocket::from_std(socket);
        // The kernel grants what it may; less is no error.
        let _ = sys::set_udp_buffers(rtp.as_fd(), SOCKET_BUFFER_BYTES);
        let bound = rtp.local_addr()?;
        take_no_groups(&rtp, bound)?;
        let rtcp = bound
            .port()
            .checked_add(1)
            .and_then(|port| UdpSocket::bind(SocketAddr::new(bound.ip(), port)).ok());
        if let Some(rtcp) = &rtcp {
            take_no_groups(rtcp, bound)?;
        }
        let has_segmentation = sys::set_segment_bytes(rtp.as_fd(), 0).is_ok();
        let rtcp = rtcp.map(|socket| (socket, UdpPort::Rtcp));
        let inlets = [(rtp, UdpPort::Rtp)].into_iter().chain(rtcp);
        Ok(Udp {
            inlets: inlets.map(Inlet::new).collect(),
            next_inlet: 0,
            is_ipv6: bound.is_ipv6(),
            segment_bytes: 0,
            has_segmentation,
            not_taken: 0,
        })
    }

    /// The RTP socket.
    fn rtp(&self) -> &UdpSocket {
        &self.inlets[0].socket
    }

    /// Where it is bound.
    pub fn bound(&self) -> io::Result<SocketAddr> {
        self.rtp().local_addr()
    }

    /// All sockets that datagrams come to.
    pub fn sockets(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        self.inlets.iter_mut().map(|inlet| &mut inlet.socket)
    }

    /// How datagrams leave from now on.
    pub fn set_outgoing(&mut self, outgoing: &Outgoing) -> io::Result<()> {
        let interface = index_of(outgoing.interface.as_ref())?;
        let socket = self.rtp().as_fd();
        for is_ipv6 in [false, true] {
            let set = sys::set_dscp(socket, is_ipv6, outgoing.dscp)
                .and_then(|()| sys::set_multicast(socket, is_ipv6, outgoing.hops, interface));
            // Of the other version there may be nothing to be set.
            if is_ipv6 == self.is_ipv6 {
                set?;
            }
        }
        Ok(())
    }

    /// Takes the datagrams of a group, too, which come to the RTP socket's port.
    pub fn join(&mut self, join: &Join, port: UdpPort) -> io::Result<()> {
        let interface = index_of(join.interface.as_ref())?;
        let group = SocketAddr::new(join.group, self.bound()?.port());
        // Only while this one is bound: nobody else is to share the RTP socket's address.
        sys::set_shared(self.rtp().as_fd(), true)?;
        let socket = sys::group_socket(group, join.source, interface);
        sys::set_shared(self.rtp().as_fd(), false)?;
        let socket = socket?;
        socket.set_nonblocking(true)?;
        let _ = sys::set_udp_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES);
        self.inlets
            .push(Inlet::new((UdpSocket::from_std(socket), port)));
        Ok(())
    }

    /// Sends one by one from now on, as where the kernel cannot cut.
    pub fn give_up_segmentation(&mut self) {
        self.cut_at(0);
        self.has_segmentation = false;
    }

    /// An event told that datagrams have come.
    pub fn note_readable(&mut self) {
        for inlet in &mut self.inlets {
            inlet.may_have = true;
        }
    }

    /// Whether datagrams may be there that no further event tells of.
    pub fn is_readable(&self) -> bool {
        self.inlets.iter().any(|inlet| inlet.may_have)
    }

    /// The next datagram: its length, its sender and where it came to. The sockets take turns.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<(usize, SocketAddr, UdpPort)> {
        for _ in 0..self.inlets.len() {
            let next = self.next_inlet;
            self.next_inlet = (next + 1) % self.inlets.len();
            let inlet = &mut self.inlets[next];
            if !inlet.may_have {
                continue;
            }
            match inlet.socket.recv_from(into) {
                Ok((bytes, from)) => return Some((bytes, from, inlet.port)),
                // It would block, or it failed for a reason that reading again at once would not
                // mend: the next event tells.
                Err(_) => inlet.may_have = false,
            }
        }
        None
    }

    /// Sends datagrams to one client; says how many of them the kernel did not take.
    pub fn send(&mut self, datagrams: &Datagrams<'_>) -> usize {
        let to = self.reachable(datagrams.to);
        let size = datagrams.datagram_bytes.max(1);
        let mut dropped = 0;
        let at_once = SEGMENTS_MAX.min(SEGMENTED_BYTES_MAX / size).max(1);
        for group in datagrams.bytes.chunks(size * at_once) {
            if group.len() > size && self.send_segmented(group, size, to) {
                continue;
            }
            dropped += self.send_singly(group, size, to);
        }
        dropped
    }

    /// One call for the whole group. `false`: it must be sent one by one.
    fn send_segmented(&mut self, group: &[u8], size: usize, to: SocketAddr) -> bool {
        if !self.has_segmentation || !self.cut_at(size) {
            return false;
        }
        match self.rtp().send_to(group, to) {
            Ok(_) => true,
            // Refused for what it is, not for want of room: this path or kernel cannot cut.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP)
                ) =>
            {
                self.has_segmentation =
                    error.raw_os_error() != Some(libc::EOPNOTSUPP) && self.has_segmentation;
                false
            }
            Err(_) => false,
        }
    }

    fn send_singly(&mut self, group: &[u8], size: usize, to: SocketAddr) -> usize {
        if self.segment_bytes != 0 && self.segment_bytes < size && !self.cut_at(0) {
            return group.len().div_ceil(size);
        }
        group
            .chunks(size)
            .filter(|datagram| self.rtp().send_to(datagram, to).is_err())
            .count()
    }

    fn cut_at(&mut self, size: usize) -> bool {
        if self.segment_bytes != size {
            match sys::set_segment_bytes(self.rtp().as_fd(), size as i32) {
                Ok(()) => self.segment_bytes = size,
                Err(_) => {
                    self.has_segmentation = false;
                    return false;
                }
            }
        }
        true
    }

    /// An IPv6 socket reaches IPv4 through mapped addresses.
    fn reachable(&self, to: SocketAddr) -> SocketAddr {
        match to.ip() {
            IpAddr::V4(address) if self.is_ipv6 => {
                SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
            }
            IpAddr::V4(_) | IpAddr::V6(_) => to,
        }
    }
}

impl Inlet {
    fn new((socket, port): (UdpSocket, UdpPort)) -> Inlet {
        Inlet {
            socket,
            port,
            may_have: true,
        }
    }
}

/// Groups have sockets of their own: this one, which is bound there, takes nothing that is sent to
/// one.
fn take_no_groups(socket: &UdpSocket, bound: SocketAddr) -> io::Result<()> {
    // One that cannot reach IPv4 has no use for the first.
    let of_ipv4 = sys::take_joined_only(socket.as_fd(), false);
    match bound.is_ipv6() {
        false => of_ipv4,
        true => sys::take_joined_only(socket.as_fd(), true),
    }
}

/// The number of an interface; 0 for any.
fn index_of(interface: Option<&InterfaceName>) -> io::Result<u32> {
    interface.map_or(Ok(0), |name| sys::interface_index(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddrV6};
    use std::time::Duration;

    /// Datagrams arrive the same whether the kernel cuts them apart or they are sent one by one.
    #[test]
    fn datagrams_arrive_whole_with_and_without_segmentation() {
        for has_segmentation in [true, false] {
            let socket = net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let mut udp = Udp::new(socket).expect("its options");
            if !has_segmentation {
                udp.give_up_segmentation();
            }
            let client = net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            client
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("an option");
            let to = client.local_addr().expect("its address");
            for (bytes, datagram_bytes) in [
                (10 * 1328 + 200, 1328),
                (60, 60),
                (3 * 700, 700),
                (2000, 1328),
            ] {
                let bytes: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
                assert_eq!(
                    udp.send(&Datagrams {
                        to,
                        bytes: &bytes,
                        datagram_bytes
                    }),
                    0
                );
                for sent in bytes.chunks(datagram_bytes) {
                    let mut received = [0; 2048];
                    let length = client.recv(&mut received).expect("a datagram");
                    assert!(received[..length] == *sent);
                }
            }
        }
    }

    /// What comes to the RTP socket and to the one above it is for this server alone, whatever
    /// group another program of this machine has joined.
    #[test]
    fn groups_that_another_program_has_joined_are_not_heard() {
        let socket = net::UdpSocket::bind("0.0.0.0:0").expect("a free port");
        let mut udp = Udp::new(socket).expect("its options");
        let ports: Vec<u16> = udp
            .sockets()
            .filter_map(|socket| Some(socket.local_addr().ok()?.port()))
            .collect();
        let (group, here) = (Ipv4Addr::new(239, 7, 7, 9), Ipv4Addr::LOCALHOST);
        let program = net::UdpSocket::bind((here, 0)).expect("a free port");
        program.join_multicast_v4(&group, &here).expect("joined");
        for port in ports {
            program
                .send_to(b"to the group", (group, port))
                .expect("sent");
            program
                .send_to(b"to the server", (here, port))
                .expect("sent");
            let mut received = [0; 100];
            let length = until(|| {
                udp.note_readable();
                udp.receive(&mut received)
            });
            assert_eq!(received[..length.0], b"to the server"[..], "at {port}");
        }
    }

    fn until<T>(mut is_there: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(it) = is_there() {
                return it;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn this_machines_addresses_are_its_own_and_no_others() {
        for (address, is_own) in [
            ("127.0.0.1", true),
            ("127.0.0.9", true),
            ("198.51.100.1", false),
            ("2001:db8::1", false),
            ("239.1.2.3", false),
            ("fe80::1", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            let with_port = SocketAddr::new(address, 9);
            assert_eq!(is_own_address(with_port), is_own, "{address}");
        }
        // An interface that there is none of: whose address it is cannot be told.
        let nowhere = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 9, 0, 99_999);
        assert!(is_own_address(nowhere.into()));
    }
}
