//! System calls that `std` and `mio` lack. All `unsafe` code is in this module, each block with its
//! reason.
//!
//! Functions take borrowed descriptors and plain values, and return plain values.
#![allow(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(test)]
#[cfg(feature = "sandbox")]
pub mod attempts;
#[cfg(feature = "sandbox")]
pub mod confine;
#[cfg(feature = "handover")]
pub mod descriptors;
pub mod options;
pub mod process;
pub mod sending;
pub mod sockets;

use std::ffi::c_long;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Returns the result of a system call, or its error if the result is negative.
fn checked(result: impl Into<c_long>) -> io::Result<c_long> {
    match result.into() {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Returns the descriptor that a system call has opened, or its error.
///
/// # Safety
///
/// The call must have opened the descriptor for nobody else.
unsafe fn opened(result: impl Into<c_long>) -> io::Result<OwnedFd> {
    let descriptor = checked(result)?;
    // SAFETY: nobody else has it, as the caller says; a descriptor is no larger than a c_int.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    use crate::server::needs::lacks_ipv6;

    #[test]
    fn options_are_accepted_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        super::options::set_for_accepted(listener.as_fd(), 1 << 17).expect("TCP options");
        super::options::set_backlog(listener.as_fd(), 1024).expect("a backlog");
        assert!(super::process::raise_file_limit().expect("a limit") > 0);
        assert!(super::process::page_bytes().is_power_of_two());
    }

    /// Options of multicast groups. Tests with network namespaces check their effects.
    #[test]
    fn options_of_groups_are_accepted_by_the_kernel() {
        let loopback = super::sockets::interface_index("lo").expect("it is there");
        assert!(super::sockets::interface_index("no such one").is_err());
        for (bound, is_ipv6) in [("127.0.0.1:0", false), ("[::1]:0", true)] {
            if is_ipv6 && lacks_ipv6() {
                continue;
            }
            let socket = UdpSocket::bind(bound).expect("a free port");
            super::options::set_dscp(socket.as_fd(), is_ipv6, 46).expect("a DSCP");
            super::options::set_multicast(socket.as_fd(), is_ipv6, 7, loopback).expect("hops");
            super::options::take_joined_only(socket.as_fd(), is_ipv6).expect("the choice");
        }
        let group = "239.1.2.3:0".parse().expect("an address");
        super::sockets::group_socket(group, None, loopback).expect("it joins");
        let source = "127.0.0.1".parse().ok();
        super::sockets::group_socket(group, source, loopback).expect("it joins");
    }
}
