//! Options of sockets.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option of a socket, whose value is an integer or a structure of C's.
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
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns an option of a socket. `value` is what it is if the kernel writes less.
///
/// # Safety
///
/// Any bytes have to be a value of `T`: it is an integer, or a structure of C's with integers only.
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
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the sockets that a listener accepts send without delay, and hold no more than
/// `unsent_bytes_max` that have not been sent. (Linux hands both down to accepted sockets, which
/// saves two calls a connection.)
pub fn set_for_accepted(listener: BorrowedFd<'_>, unsent_bytes_max: c_int) -> io::Result<()> {
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(
        listener,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        unsent_bytes_max,
    )
}

/// Lets so many connections wait to be accepted, as far as the kernel allows.
pub fn set_backlog(listener: BorrowedFd<'_>, connections_max: c_int) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number. Calling it again on a listening socket changes
    // its backlog only.
    let result = unsafe { libc::listen(listener.as_raw_fd(), connections_max) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Asks for send and receive buffers of so many bytes; the kernel grants what it may.
pub fn set_udp_buffers(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
}

/// Lets the kernel cut what is sent with one call into datagrams of so many bytes; 0 turns it off.
/// Fails where the kernel cannot.
pub fn set_segment_bytes(socket: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes)
}

/// Sets what each datagram of a socket that can send by this IP version is marked with: its DSCP,
/// from 0 to 63.
pub fn set_dscp(socket: BorrowedFd<'_>, is_ipv6: bool, dscp: u8) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_TOS),
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    set_option(socket, level, name, c_int::from(dscp) << 2)
}

/// Lets datagrams to groups of this IP version pass so many routers less one, and leave by this
/// interface; 0: by that which the routes say.
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

/// Has a socket take no datagrams of groups of this IP version but those that it has joined itself.
/// (Linux gives it those of all groups that anybody on this machine has joined.)
pub fn take_joined_only(socket: BorrowedFd<'_>, is_ipv6: bool) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        true => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
    };
    set_option::<c_int>(socket, level, name, 0)
}

/// Of linux/in6.h; not every C library has it.
const IPV6_MULTICAST_ALL: c_int = 29;

/// Lets other sockets be bound to where this one is bound, if they allow it too; or not.
pub fn set_shared(socket: BorrowedFd<'_>, is_shared: bool) -> io::Result<()> {
    let value = c_int::from(is_shared);
    set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, value)
}
