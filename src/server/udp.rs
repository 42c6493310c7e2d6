//! UDP sockets: RTP, RTCP on the port above, and multicast groups.
//!
//! One call sends several datagrams of one size if the kernel can cut them apart (`UDP_SEGMENT`),
//! or else one datagram. If the socket buffer is full, datagrams are dropped and counted. Nothing
//! waits here.

use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use mio::net::UdpSocket;

use super::sys;
use crate::config::Outgoing;
use crate::gate::{InterfaceName, Join};
use crate::relay::{Datagrams, UdpPort};

/// The sockets for datagrams.
pub struct Udp {
    /// Sockets that receive. The first one is the RTP socket, which also sends.
    inlets: Vec<Inlet>,
    /// Index of the socket to read next.
    next_inlet: usize,
    /// Whether the service manager opened the RTP socket.
    pub is_passed: bool,
    is_ipv6: bool,
    /// Index of the interface by which datagrams to groups leave; 0: any.
    interface: u32,
    /// Current segment size of the RTP socket; 0: no segmentation. `None`: it is not known.
    segment_bytes: Option<usize>,
    has_segmentation: bool,
    /// For each client of the last datagrams, how many of them the kernel refused. Empty if it took
    /// all.
    pub not_taken: Vec<usize>,
}

/// A socket that receives datagrams.
struct Inlet {
    socket: UdpSocket,
    port: UdpPort,
    /// The `--join` of the socket, if it is for a group.
    join: String,
    /// Whether datagrams may wait that no further event reports.
    may_have: bool,
}

/// Largest number of datagrams in one call; the kernel also limits bytes.
const SEGMENTS_MAX: usize = 64;
const SEGMENTED_BYTES_MAX: usize = 65_000;

/// Space for a burst of datagrams to a thousand receivers.
const SOCKET_BUFFER_BYTES: i32 = 4 * 1024 * 1024;

/// Returns whether an address belongs to this machine now: a socket can be bound to it. This also
/// holds for groups. If binding fails for another reason than a foreign address, the address counts
/// as own. A link-local address without its zone cannot be a destination, so it counts as foreign.
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
    /// Sets up a bound socket. Uses `rtcp` if another process has bound it; otherwise binds the
    /// port above, if it is free.
    pub fn new(socket: net::UdpSocket, rtcp: Option<net::UdpSocket>) -> io::Result<Udp> {
        socket.set_nonblocking(true)?;
        let rtp = UdpSocket::from_std(socket);
        // The kernel may grant less, which is no error.
        let _ = sys::options::set_udp_buffers(rtp.as_fd(), SOCKET_BUFFER_BYTES);
        let bound = rtp.local_addr()?;
        take_no_groups(&rtp, bound)?;
        let bind = |port| UdpSocket::bind(SocketAddr::new(bound.ip(), port)).ok();
        let rtcp = match rtcp {
            Some(socket) => Some(UdpSocket::from_std(socket)),
            None => bound.port().checked_add(1).and_then(bind),
        };
        if let Some(rtcp) = &rtcp {
            take_no_groups(rtcp, bound)?;
        }
        let rtcp = rtcp.map(|socket| Inlet::new(socket, UdpPort::Rtcp, String::new()));
        let rtp = Inlet::new(rtp, UdpPort::Rtp, String::new());
        Ok(Udp {
            inlets: [rtp].into_iter().chain(rtcp).collect(),
            next_inlet: 0,
            is_passed: false,
            is_ipv6: bound.is_ipv6(),
            interface: 0,
            // Another process may use the socket, and continue if this one cannot start. So the first
            // datagrams show whether the kernel can segment.
            segment_bytes: None,
            has_segmentation: true,
            not_taken: Vec::new(),
        })
    }

    /// Adds a socket of another process that has joined a group.
    pub fn join_again(&mut self, join: &Join, port: UdpPort, socket: net::UdpSocket) {
        let socket = UdpSocket::from_std(socket);
        self.inlets.push(Inlet::new(socket, port, join.to_string()));
    }

    /// Returns all sockets, the port each is for, and the `--join` of a group's socket.
    pub fn descriptors(&self) -> impl Iterator<Item = (UdpPort, &str, BorrowedFd<'_>)> {
        let inlets = self.inlets.iter();
        inlets.map(|inlet| (inlet.port, inlet.join.as_str(), inlet.socket.as_fd()))
    }

    /// Returns the RTP socket.
    fn rtp(&self) -> &UdpSocket {
        &self.inlets[0].socket
    }

    /// Returns the address of the RTP socket.
    pub fn bound(&self) -> io::Result<SocketAddr> {
        self.rtp().local_addr()
    }

    /// Returns whether the port above the RTP socket's is bound for RTCP.
    pub fn has_rtcp(&self) -> bool {
        let mut inlets = self.inlets.iter();
        inlets.any(|inlet| inlet.port == UdpPort::Rtcp)
    }

    /// Returns all sockets.
    pub fn sockets(&mut self) -> impl Iterator<Item = &mut UdpSocket> {
        self.inlets.iter_mut().map(|inlet| &mut inlet.socket)
    }

    /// Chooses the interface by which datagrams to groups leave. `None`: the routing table chooses.
    pub fn choose_interface(&mut self, interface: Option<&InterfaceName>) -> io::Result<()> {
        self.interface = index_of(interface)?;
        Ok(())
    }

    /// Sets how datagrams are sent: DSCP, and what [`Udp::choose_interface`] chose.
    pub fn set_outgoing(&self, outgoing: &Outgoing) -> io::Result<()> {
        let socket = self.rtp().as_fd();
        for is_ipv6 in [false, true] {
            let set = sys::options::set_dscp(socket, is_ipv6, outgoing.dscp).and_then(|()| {
                sys::options::set_multicast(socket, is_ipv6, outgoing.hops, self.interface)
            });
            // The machine may lack the other IP version.
            if is_ipv6 == self.is_ipv6 {
                set?;
            }
        }
        Ok(())
    }

    /// Joins a group, whose datagrams arrive at the RTP socket's port.
    pub fn join(&mut self, join: &Join, port: UdpPort) -> io::Result<()> {
        let interface = index_of(join.interface.as_ref())?;
        let group = SocketAddr::new(join.group, self.bound()?.port());
        // Only while this socket is bound. No other program may share the RTP socket's address.
        sys::options::set_shared(self.rtp().as_fd(), true)?;
        let socket = sys::sockets::group_socket(group, join.source, interface);
        sys::options::set_shared(self.rtp().as_fd(), false)?;
        let socket = socket?;
        socket.set_nonblocking(true)?;
        let _ = sys::options::set_udp_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES);
        self.join_again(join, port, socket);
        Ok(())
    }

    /// Sends datagrams one by one from now on, as on a kernel without segmentation.
    pub fn give_up_segmentation(&mut self) {
        self.cut_at(0);
        self.has_segmentation = false;
    }

    /// Notes that an event reports datagrams.
    pub fn note_readable(&mut self) {
        for inlet in &mut self.inlets {
            inlet.may_have = true;
        }
    }

    /// Returns whether datagrams may wait that no further event reports.
    pub fn is_readable(&self) -> bool {
        self.inlets.iter().any(|inlet| inlet.may_have)
    }

    /// Receives the next datagram. Returns its length, its sender, and where it arrived. The
    /// sockets take turns.
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
                // Reading would block, or failed so that an immediate retry would fail, too. The
                // next event tries again.
                Err(_) => inlet.may_have = false,
            }
        }
        None
    }

    /// Sends datagrams to clients, with as few calls as the kernel allows. Then [`Udp::not_taken`]
    /// has the refused ones.
    pub fn send(&mut self, datagrams: &Datagrams<'_>) {
        self.not_taken.clear();
        let size = datagrams.datagram_bytes.max(1);
        let at_once = SEGMENTS_MAX.min(SEGMENTED_BYTES_MAX / size).max(1);
        let has_many = datagrams.bytes.len() > size;
        let together = match has_many && self.has_segmentation && self.cut_at(size) {
            true => at_once * size,
            false => {
                // A larger datagram would be cut.
                if self
                    .segment_bytes
                    .map_or(self.has_segmentation, |bytes| bytes != 0 && bytes < size)
                {
                    self.cut_at(0);
                }
                size
            }
        };
        let pieces = datagrams.bytes.len().div_ceil(together).max(1);
        // The pieces of each client follow one another.
        let message = |number: usize| {
            let to = datagrams.to.get(number / pieces)?;
            let rest = datagrams.bytes.get(number % pieces * together..)?;
            Some((&rest[..rest.len().min(together)], *to))
        };
        let mut done = 0;
        while let Some((piece, to)) = message(done) {
            let is_ipv6 = self.is_ipv6;
            let next = (done..).map_while(message);
            let next = next.map(|(piece, to)| (piece, reachable(is_ipv6, to)));
            done += match sys::sending::send_each(self.rtp().as_fd(), next) {
                Ok(sent) => sent.max(1),
                // The kernel refused the first of them.
                Err(error) => {
                    let dropped = self.send_refused(piece, size, to, &error);
                    if dropped > 0 {
                        self.not_taken.resize(datagrams.to.len(), 0);
                        self.not_taken[done / pieces] += dropped;
                    }
                    1
                }
            };
        }
    }

    /// Sends refused datagrams one by one, if they were refused for their kind and not for lack of
    /// space: this path or kernel cannot segment. Returns how many were still refused.
    fn send_refused(
        &mut self,
        piece: &[u8],
        size: usize,
        to: SocketAddr,
        error: &io::Error,
    ) -> usize {
        let to = reachable(self.is_ipv6, to);
        let error = error.raw_os_error();
        let cannot_cut = [libc::EINVAL, libc::EIO, libc::EMSGSIZE, libc::EOPNOTSUPP];
        let is_cut = piece.len() > size && error.is_some_and(|one| cannot_cut.contains(&one));
        if !is_cut {
            return piece.len().div_ceil(size);
        }
        self.has_segmentation &= error != Some(libc::EOPNOTSUPP);
        self.cut_at(0);
        let socket = self.rtp();
        let datagrams = piece.chunks(size);
        let refused = datagrams.filter(|datagram| socket.send_to(datagram, to).is_err());
        let count = refused.count();
        self.cut_at(size);
        count
    }

    fn cut_at(&mut self, size: usize) -> bool {
        if self.segment_bytes != Some(size) {
            match sys::options::set_segment_bytes(self.rtp().as_fd(), size as i32) {
                Ok(()) => self.segment_bytes = Some(size),
                Err(_) => {
                    self.has_segmentation = false;
                    return false;
                }
            }
        }
        true
    }
}

/// Returns the address at which the socket reaches another one. IPv6 sockets reach IPv4 by mapped
/// addresses.
fn reachable(is_ipv6: bool, to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(address) if is_ipv6 => {
            SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
        }
        IpAddr::V4(_) | IpAddr::V6(_) => to,
    }
}

impl Inlet {
    fn new(socket: UdpSocket, port: UdpPort, join: String) -> Inlet {
        Inlet {
            socket,
            port,
            join,
            may_have: true,
        }
    }
}

/// Groups have sockets of their own, so the RTP socket takes no datagrams to groups.
fn take_no_groups(socket: &UdpSocket, bound: SocketAddr) -> io::Result<()> {
    // The first call has no meaning for a socket that cannot reach IPv4.
    let of_ipv4 = sys::options::take_joined_only(socket.as_fd(), false);
    match bound.is_ipv6() {
        false => of_ipv4,
        true => sys::options::take_joined_only(socket.as_fd(), true),
    }
}

/// Returns the index of an interface; 0 for any.
fn index_of(interface: Option<&InterfaceName>) -> io::Result<u32> {
    interface.map_or(Ok(0), |name| sys::sockets::interface_index(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddrV6};
    use std::time::Duration;

    /// Returns the length of the next datagram. Errors can only be time-outs.
    fn receive(client: &net::UdpSocket, into: &mut [u8]) -> usize {
        loop {
            match client.recv(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => return received.expect("a datagram"),
            }
        }
    }

    /// Datagrams arrive unchanged, with segmentation and without it.
    #[test]
    fn datagrams_arrive_whole_with_and_without_segmentation() {
        for has_segmentation in [true, false] {
            let socket = net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let mut udp = Udp::new(socket, None).expect("its options");
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
                udp.send(&Datagrams {
                    to: &[to],
                    bytes: &bytes,
                    datagram_bytes,
                });
                assert!(udp.not_taken.is_empty());
                for sent in bytes.chunks(datagram_bytes) {
                    let mut received = [0; 2048];
                    let length = receive(&client, &mut received);
                    assert!(received[..length] == *sent);
                }
            }
        }
    }

    /// Each client gets all datagrams, and those to unreachable clients are counted for each.
    #[test]
    fn each_client_gets_all_datagrams_and_refused_ones_are_counted() {
        for has_segmentation in [true, false] {
            let socket = net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            let mut udp = Udp::new(socket, None).expect("its options");
            if !has_segmentation {
                udp.give_up_segmentation();
            }
            let clients: Vec<_> = (0..70)
                .map(|_| net::UdpSocket::bind("127.0.0.1:0").expect("a free port"))
                .collect();
            let mut to: Vec<_> = clients
                .iter()
                .map(|client| client.local_addr().expect("its address"))
                .collect();
            // From a loopback address, nothing can be sent there.
            let nowhere = "198.51.100.1:9".parse().expect("an address");
            (to[3], to[69]) = (nowhere, nowhere);
            let bytes: Vec<u8> = (0..60 * 1328 + 7).map(|byte| byte as u8).collect();
            for _ in 0..2 {
                udp.send(&Datagrams {
                    to: &to,
                    bytes: &bytes,
                    datagram_bytes: 1328,
                });
                let refused = |place| if to[place] == nowhere { 61 } else { 0 };
                assert!(udp.not_taken.iter().copied().eq((0..70).map(refused)));
                let reached = clients.iter().zip(&to).filter(|(_, to)| **to != nowhere);
                for (client, _) in reached {
                    for sent in bytes.chunks(1328) {
                        let mut received = [0; 2048];
                        let length = receive(client, &mut received);
                        assert!(received[..length] == *sent);
                    }
                }
            }
            udp.not_taken.clear();
            assert!(udp.not_taken.is_empty());
        }
    }

    /// The RTP socket and the one above receive only datagrams for this server, whatever groups
    /// other programs on this machine have joined.
    #[test]
    fn groups_that_another_program_has_joined_are_not_heard() {
        let socket = net::UdpSocket::bind("0.0.0.0:0").expect("a free port");
        let mut udp = Udp::new(socket, None).expect("its options");
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
        // An address of an interface that does not exist.
        let nowhere = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 9, 0, 99_999);
        assert!(is_own_address(nowhere.into()));
    }
}
