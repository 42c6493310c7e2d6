//! Opening and inheriting sockets, and addresses in the form of system calls.

use std::env;
use std::ffi::{CString, c_int};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Once;

use super::options::{option, set_option, set_shared, take_joined_only};
use super::{checked, opened};

/// The use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    Listener,
    Datagram,
    Other,
}

/// Accepts the next client of a socket in the file system, non-blocking. Does not ask for its path:
/// a path of 108 bytes has no end in the address, and its reported length is larger than the
/// address (unix(7)).
pub fn accept_unnamed(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let nobody = std::ptr::null_mut();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let listener = listener.as_raw_fd();
    // SAFETY: the descriptor is open while it is borrowed; null is for an address that nobody wants
    // to know, and then its length is not looked at. The new descriptor is for nobody else.
    unsafe { opened(libc::accept4(listener, nobody, std::ptr::null_mut(), flags)) }
}

/// Largest number of inherited sockets.
const INHERITED_MAX: c_int = 64;

/// Takes the sockets that a service manager has passed to this process, by `LISTEN_PID` and
/// `LISTEN_FDS` (sd_listen_fds(3)), in their order. Only the first call returns any.
#[allow(
    clippy::disallowed_methods,
    reason = "the environment says whose they are"
)]
pub fn inherited_sockets() -> Vec<io::Result<(SocketKind, OwnedFd)>> {
    static TAKEN: Once = Once::new();
    let variable = |name| env::var(name).ok().and_then(|value| value.parse().ok());
    let is_ours = variable("LISTEN_PID") == Some(i64::from(std::process::id()));
    let count = variable("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let count = count.clamp(0, INHERITED_MAX.into()) as c_int;
    let mut sockets = Vec::new();
    TAKEN.call_once(|| {
        sockets.extend((3..3 + count).map(|descriptor| {
            let kind = socket_kind(descriptor)?;
            // SAFETY: it is open, as the call above found. The manager opened it for this process,
            // as the environment says, and nobody has taken it before: this is called once.
            Ok((kind, unsafe { OwnedFd::from_raw_fd(descriptor) }))
        }));
    });
    sockets
}

/// Returns the use of the socket with this number.
fn socket_kind(descriptor: c_int) -> io::Result<SocketKind> {
    // SAFETY: the option is an integer.
    let number = |name| unsafe { option::<c_int>(descriptor, name, 0) };
    let domain = number(libc::SO_DOMAIN)?;
    let kind = (number(libc::SO_TYPE)?, number(libc::SO_ACCEPTCONN)?);
    Ok(match kind {
        _ if domain != libc::AF_INET && domain != libc::AF_INET6 => SocketKind::Other,
        (libc::SOCK_STREAM, 1) => SocketKind::Listener,
        (libc::SOCK_DGRAM, _) => SocketKind::Datagram,
        _ => SocketKind::Other,
    })
}

/// Opens a socket for datagrams to this group and port, which other sockets may share. Joins the
/// group on this interface (0: the routing table chooses), for one sender or for all (RFC 3678
/// section 5.1).
pub fn group_socket(
    group: SocketAddr,
    source: Option<IpAddr>,
    interface: u32,
) -> io::Result<UdpSocket> {
    let (family, level) = match group {
        SocketAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_IP),
        SocketAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_IPV6),
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: takes three numbers, and opens a descriptor for nobody else.
    let socket = unsafe { opened(libc::socket(family, kind, 0)) }?;
    set_shared(socket.as_fd(), true)?;
    take_joined_only(socket.as_fd(), group.is_ipv6())?;
    if interface != 0 {
        // In IPv6, a socket that has joined a group on one interface would also get it from others.
        let index = interface as c_int;
        set_option(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            index,
        )?;
    }
    let (address, length) = socket_address(group, interface);
    // SAFETY: the descriptor is open; the pointer is to a live address of which `length` bytes
    // count; the kernel copies it and keeps no pointer.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    match source {
        None => {
            let joined = libc::group_req {
                gr_interface: interface,
                gr_group: address,
            };
            set_option(socket.as_fd(), level, libc::MCAST_JOIN_GROUP, joined)?;
        }
        Some(source) => {
            let joined = libc::group_source_req {
                gsr_interface: interface,
                gsr_group: address,
                gsr_source: socket_address(SocketAddr::new(source, 0), 0).0,
            };
            set_option(socket.as_fd(), level, libc::MCAST_JOIN_SOURCE_GROUP, joined)?;
        }
    }
    Ok(UdpSocket::from(socket))
}

/// Returns an address in the form of system calls, and its length.
pub(super) fn socket_address(
    address: SocketAddr,
    scope: u32,
) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: it is plain data, for which all zeros are a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match address {
        SocketAddr::V4(address) => {
            let inner = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is as large as any address, and aligned for all of them.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(inner) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let inner = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: scope,
            };
            // SAFETY: the storage is as large as any address, and aligned for all of them.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(inner) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

/// Returns the index of a network interface.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is to a live string that ends with a zero; the call reads it.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
