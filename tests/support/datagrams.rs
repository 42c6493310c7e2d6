//! UDP clients, and what they send and get.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use tollgate::rtp::Packet;

use super::server::Server;
use super::{uninterrupted, until};

pub const PACKET_BYTES: usize = 188;

/// A UDP client, or somebody who would like to be one.
pub fn client() -> UdpSocket {
    patient(UdpSocket::bind("127.0.0.1:0").expect("a free port"))
}

/// Returns a socket that waits without a limit. Its buffer holds all datagrams that come while this
/// machine has no time for the test.
fn patient(socket: UdpSocket) -> UdpSocket {
    let patience = Some(super::PATIENCE);
    socket.set_read_timeout(patience).expect("an option");
    let bytes: libc::c_int = 4 << 20;
    // The second is for root alone, and goes beyond what others may have.
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: the descriptor is open, and the pointer is to a live number of this size.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    }
    socket
}

/// Sockets at a port and two and four above.
pub fn clients_in_a_row() -> [UdpSocket; 3] {
    let at = |port: Option<u16>| Some(patient(UdpSocket::bind(("127.0.0.1", port?)).ok()?));
    until("three free ports", || {
        let first = client();
        let port = first.local_addr().expect("its address").port();
        Some([first, at(port.checked_add(2))?, at(port.checked_add(4))?])
    })
}

/// A server, and where it takes and sends datagrams.
pub fn start() -> (Server, SocketAddr) {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let rtp = server.rtp.expect("it says where RTP is");
    (server, rtp)
}

/// Admits these UDP clients to a session over RTP, and everybody over HTTP.
pub fn admit(server: &Server, session: &str, clients: &[&UdpSocket]) {
    admit_as(server, session, "http,rtp-udp", clients);
}

/// The same by other types, and perhaps more parameters after those.
pub fn admit_as(server: &Server, session: &str, types: &str, clients: &[&UdpSocket]) {
    let list: Vec<String> = clients
        .iter()
        .map(|client| client.local_addr().expect("its address").to_string())
        .collect();
    let target = format!(
        "/api/add-token?type={types}&sessionid={session}&udp-clients={}",
        list.join(",")
    );
    let answer = server.request("POST", &target);
    assert_eq!(answer.status(), 201, "{}", answer.text());
}

/// Returns the DSCP of the next datagram.
pub fn next_dscp(socket: &UdpSocket) -> u8 {
    let on: libc::c_int = 1;
    let (mut datagram, mut control) = ([0u8; 2048], [0u64; 16]);
    let mut part = libc::iovec {
        iov_base: datagram.as_mut_ptr().cast(),
        iov_len: datagram.len(),
    };
    // SAFETY: all zeros are a message of nothing.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the descriptor is open, and the pointers are to live values of these sizes. The kernel
    // fills the control buffer, which is aligned for a header, up to the length that it returns.
    unsafe {
        let size = size_of_val(&on) as libc::socklen_t;
        let on = (&raw const on).cast();
        let set = libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_RECVTOS,
            on,
            size,
        );
        assert_eq!(set, 0);
        assert!(libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) > 0);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::IP_TOS);
        *libc::CMSG_DATA(header) >> 2
    }
}

/// The next datagram.
pub fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut datagram = [0; 2048];
    let bytes = uninterrupted(|| socket.recv(&mut datagram)).expect("a datagram");
    datagram[..bytes].to_vec()
}

/// Nothing has come, and nothing does while the server answers another request.
pub fn assert_silent(socket: &UdpSocket, server: &Server) {
    server.tokens();
    socket.set_nonblocking(true).expect("an option");
    let error = socket
        .recv_from(&mut [0; 2048])
        .expect_err("nothing was to be sent here");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).expect("an option");
}

/// RTP with this payload.
pub fn datagram(payload_type: u8, sequence_number: u16, ssrc: u32, payload: &[u8]) -> Vec<u8> {
    [
        &Packet::header(payload_type, sequence_number, 9, ssrc)[..],
        payload,
    ]
    .concat()
}

/// Seven packets of a transport stream; `clock` is a reference in seconds for the first.
pub fn transport(counter: u8, clock: Option<f64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..7u8 {
        let mut packet = [counter; PACKET_BYTES];
        packet[..4].copy_from_slice(&[
            0x47,
            0x01,
            0x00,
            0x10 | (counter.wrapping_mul(7).wrapping_add(index) & 15),
        ]);
        if let (0, Some(seconds)) = (index, clock) {
            let base = (seconds * 90_000.0) as u64;
            packet[3] |= 0x20;
            packet[4..6].copy_from_slice(&[7, 0x10]);
            packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
            packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7 | 0x7e, 0]);
        }
        bytes.extend(packet);
    }
    bytes
}
