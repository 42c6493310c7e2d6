//! Socket options.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::checked;

/// Sets a socket option, whose value is an integer or a C structure.
pub(super) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the pointer is to a live value and
    // `length` is its size; the kernel copies the value and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            length,
        )
    };
    checked(result).map(drop)
}

/// Returns a socket option. Bytes that the kernel does not write keep their `value`.
///
/// # Safety
///
/// Any bytes must be a valid `T`: an integer, or a C structure of integers.
pub(super) unsafe fn option<T: Copy>(
    descriptor: c_int,
    name: c_int,
    mut value: T,
) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers are to a live value and to its size, which the kernel does not exceed. Any
    // bytes are a value, as the caller says. A descriptor that is not open or no socket is an error.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    checked(result).map(|_| value)
}

/// Makes accepted sockets send without delay, and hold at most `unsent_bytes_max` unsent bytes.
/// Linux copies both options from the listener, which saves two calls per connection.
pub fn set_for_accepted(listener: BorrowedFd<'_>, unsent_bytes_max: c_int) -> io::Result<()> {
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(
        listener,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        unsent_bytes_max,
    )
}

/// Sets the length of the accept queue, as far as the kernel allows.
pub fn set_backlog(listener: BorrowedFd<'_>, connections_max: c_int) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number. Calling it again on a listening socket changes
    // its backlog only.
    checked(unsafe { libc::listen(listener.as_raw_fd(), connections_max) }).map(drop)
}

/// Sets the size of the send and receive buffers, as far as the kernel allows.
pub fn set_udp_buffers(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
}

/// Sets the size of datagrams into which the kernel cuts the bytes of one call; 0 turns this off.
/// Fails if the kernel cannot do it.
pub fn set_segment_bytes(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes)
}

/// Sets the DSCP of datagrams, 0 to 63, on a socket that can send by this IP version.
pub fn set_dscp(socket: BorrowedFd<'_>, is_ipv6: bool, dscp: u8) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_TOS),
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    set_option(socket, level, name, c_int::from(dscp) << 2)
}

/// Sets TTL and interface of datagrams to groups of this IP version. Interface 0: the routing table
/// chooses.
pub fn set_multicast(
    socket: BorrowedFd<'_>,
    is_ipv6: bool,
    hops: u8,
    interface: u32,
) -> io::Result<()> {
    let hops = c_int::from(hops);
    if is_ipv6 {
        let level = libc::IPPROTO_IPV6;
        set_option(socket, level, libc::IPV6_MULTICAST_HOPS, hops)?;
        return set_option(socket, level, libc::IPV6_MULTICAST_IF, interface);
    }
    let any = libc::in_addr { s_addr: 0 };
    let by_index = libc::ip_mreqn {
        imr_multiaddr: any,
        imr_address: any,
        imr_ifindex: interface as c_int,
    };
    set_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, hops)?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, by_index)
}

/// Makes a socket receive only groups of this IP version that it has joined itself. By default,
/// Linux delivers all groups that any program on this machine has joined.
pub fn take_joined_only(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        true => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
    };
    set_option::<c_int>(socket, level, name, 0)
}

/// From linux/in6.h. Some C libraries lack it.
const IPV6_MULTICAST_ALL: c_int = 29;

/// Sets whether other sockets may be bound to the same address, if they allow it, too.
pub fn set_shared(socket: BorrowedFd<'_>, is_shared: bool) -> io::Result<()> {
    let value = c_int::from(is_shared);
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, value)
}
