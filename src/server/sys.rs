//! The system calls that `std` and `mio` lack. All the `unsafe` of this project is here, each with
//! its reason.
//!
//! Functions take borrowed descriptors and plain values, and give plain values back: nothing
//! outside needs to know that C is involved.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Sets an option of a socket whose value is an integer.
fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the pointer is to a live c_int and
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

/// Sends slices over a connected stream socket with one call. Leaner than `writev`, which goes
/// through the file layer first: that is a tenth of the cost of a viewer's write.
pub fn send(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if let [slice] = slices {
        // SAFETY: the descriptor is open while it is borrowed; pointer and length are those of a
        // live slice, which the kernel reads.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                slice.as_ptr().cast(),
                slice.len(),
                flags,
            )
        };
        return usize::try_from(sent).map_err(|_| io::Error::last_os_error());
    }
    // SAFETY: a msghdr is plain data, for which all zeros mean: no address, no slices, no control
    // data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of iovec on Unix, as its documentation says; the kernel only reads
    // through this pointer.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    // SAFETY: the descriptor is open while it is borrowed; the header points to `msg_iovlen` slices
    // that live through the call; the kernel reads them and keeps no pointer.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
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

/// Gives memory that has been freed back to the kernel. The allocator keeps it otherwise, where
/// anything behind it is in use still: after a thousand streams a server would stay as large as it
/// was with them.
pub fn return_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number and touches only memory that is free already.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    Listener,
    Datagram,
    Other,
}

/// The socket number `index` of those that a service manager passed, which are behind the standard
/// streams. Each is to be taken once.
pub fn inherited_socket(index: c_int) -> io::Result<(SocketKind, OwnedFd)> {
    let descriptor = 3 + index;
    let domain = option(descriptor, libc::SO_DOMAIN)?;
    let kind = match (
        option(descriptor, libc::SO_TYPE)?,
        option(descriptor, libc::SO_ACCEPTCONN)?,
    ) {
        _ if domain != libc::AF_INET && domain != libc::AF_INET6 => SocketKind::Other,
        (libc::SOCK_STREAM, 1) => SocketKind::Listener,
        (libc::SOCK_DGRAM, _) => SocketKind::Datagram,
        _ => SocketKind::Other,
    };
    // SAFETY: it is open, as the calls above found; the manager opened it for this process, and
    // nobody here has taken it before.
    Ok((kind, unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// An option of a socket, whose value is an integer.
fn option(descriptor: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to a live c_int and to its size; a descriptor that is not open or no
    // socket is an error.
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

/// These signals do nothing from now on.
pub fn ignore_signals(signals: &[c_int]) {
    for &signal in signals {
        // SAFETY: takes two numbers; no handler of this process's is run.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Blocks these signals for this thread, and for those that it starts from now on, and gives a
/// descriptor from which they are read, each as a `signalfd_siginfo`; reading never waits.
pub fn signal_descriptor(signals: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: a sigset_t is plain data, for which all zeros are a value; it is made an empty set
    // next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: the pointer is to a live set; a number that is no signal's is an error and adds
        // nothing.
        if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: the pointer is to a live set, which the call reads; the old one is not asked for.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
    // SAFETY: -1 asks for a new descriptor; the pointer is to a live set, which the call copies.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above opened it for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Raises the limit on open files as far as this process may, and says what it is then.
pub fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit, which the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    if limit.rlim_cur < limit.rlim_max {
        // SAFETY: the pointer is to a live rlimit, which the call reads.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        if result == 0 {
            limit = raised;
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn options_are_accepted_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        super::set_for_accepted(listener.as_fd(), 1 << 17).expect("TCP options");
        super::set_backlog(listener.as_fd(), 1024).expect("a backlog");
        assert!(super::raise_file_limit().expect("a limit") > 0);
    }
}
