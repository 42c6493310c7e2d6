//! The system calls that `std` and `mio` lack. All the `unsafe` of this project is here and below,
//! each with its reason.
//!
//! Functions take borrowed descriptors and plain values, and give plain values back: nothing
//! outside needs to know that C is involved.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sets an option of a socket, whose value is an integer or a structure of C's.
fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: T) -> io::Result<()> {
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

/// Sends datagrams of an unconnected socket with one call, each of them to its address. Says how
/// many of them the kernel took; an error is that of the first.
pub fn send_each<'a>(
    socket: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = (&'a [u8], SocketAddr)>,
) -> io::Result<usize> {
    // SAFETY: they are plain data, for which all zeros are a value.
    let (mut addresses, mut slices, mut messages): (
        [libc::sockaddr_storage; AT_ONCE_MAX],
        [libc::iovec; AT_ONCE_MAX],
        [libc::mmsghdr; AT_ONCE_MAX],
    ) = unsafe { std::mem::zeroed() };
    let mut count = 0;
    let places = addresses.iter_mut().zip(&mut slices).zip(&mut messages);
    for (((address, slice), message), (bytes, to)) in places.zip(datagrams) {
        let scope = match to {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(to) => to.scope_id(),
        };
        let (storage, length) = socket_address(to, scope);
        *address = storage;
        slice.iov_base = bytes.as_ptr().cast_mut().cast();
        slice.iov_len = bytes.len();
        message.msg_hdr.msg_name = (&raw mut *address).cast();
        message.msg_hdr.msg_namelen = length;
        message.msg_hdr.msg_iov = &raw mut *slice;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the descriptor is open while it is borrowed; the first `count` messages point to
    // addresses and slices that live until the call is over, and these to bytes that are borrowed,
    // which the kernel only reads.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Datagrams that go out with one call of [`send_each`] at the most.
const AT_ONCE_MAX: usize = 64;

/// Sends slices over a connected stream socket with one call. Leaner than `writev`, which goes
/// through the file layer first: that is a tenth of the cost of a viewer's write. And called by its
/// number where it is called most: the C library's own functions are places where a thread may be
/// cancelled, which nobody does here, and two atomic operations each.
pub fn send(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if let [slice] = slices {
        // SAFETY: these are the arguments of sendto(2). The descriptor is open while it is
        // borrowed; pointer and length are those of a live slice, which the kernel reads.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                socket.as_raw_fd(),
                slice.as_ptr(),
                slice.len(),
                flags,
                std::ptr::null::<libc::sockaddr>(),
                0,
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
    // SAFETY: these are the arguments of sendmsg(2). The descriptor is open while it is borrowed;
    // the header points to `msg_iovlen` slices that live through the call; the kernel reads them
    // and keeps no pointer.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmsg,
            socket.as_raw_fd(),
            &raw const message,
            flags,
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

/// A socket that takes datagrams to this group and port, and shares them with others that do. It
/// has joined the group on this interface (0: that which the routes say), for what this one host
/// sends, or for what anybody does (RFC 3678 section 5.1).
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
    // SAFETY: takes three numbers.
    let descriptor = unsafe { libc::socket(family, kind, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above opened it for nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    set_shared(socket.as_fd(), true)?;
    take_joined_only(socket.as_fd(), group.is_ipv6())?;
    if interface != 0 {
        // By IPv6 a socket that has joined a group on one interface gets it from all others, too.
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
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
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

/// An address as the system calls take it, and how many bytes of it count.
fn socket_address(address: SocketAddr, scope: u32) -> (libc::sockaddr_storage, libc::socklen_t) {
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

/// The number of a network interface.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is to a live string that ends with a zero; the call reads it.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
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
    let domain = option(descriptor, libc::SO_DOMAIN, 0)?;
    let kind = match (
        option(descriptor, libc::SO_TYPE, 0)?,
        option(descriptor, libc::SO_ACCEPTCONN, 0)?,
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

/// An option of a socket, in the place of `value`, which is an integer or a structure of C's.
fn option<T: Copy>(descriptor: c_int, name: c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers are to a live value and to its size, which the kernel does not exceed;
    // it fills it with plain data. A descriptor that is not open or no socket is an error.
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

/// The time that this process has had of the machine's processors.
pub fn cpu_time() -> Duration {
    // SAFETY: it is of numbers alone, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage, which the call fills.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let times = [usage.ru_utime, usage.ru_stime].map(|time| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    });
    times[0] + times[1]
}

/// How large a page of memory is.
pub fn page_bytes() -> u64 {
    // SAFETY: it takes a number and gives one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(0)
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

#[cfg(feature = "sandbox")]
pub mod confine;

/// Descriptors that go from one process to another.
#[cfg(feature = "handover")]
pub mod descriptors {
    use std::collections::VecDeque;
    use std::ffi::c_int;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

    /// Descriptors that go with one message at the most (unix(7), `SCM_RIGHTS`).
    pub const AT_ONCE_MAX: usize = 253;

    /// Room for the control data of a message with so many descriptors, aligned as its header is.
    type Control = [MaybeUninit<libc::cmsghdr>; 66];

    const CONTROL_BYTES: usize = size_of::<Control>();

    // SAFETY: it computes with numbers only.
    const _: () = assert!(
        unsafe { libc::CMSG_SPACE((AT_ONCE_MAX * size_of::<c_int>()) as u32) } as usize
            <= CONTROL_BYTES
    );

    /// Sends bytes over a connected Unix stream socket, and with the first of them these
    /// descriptors, of which the other side gets copies: at most [`AT_ONCE_MAX`]. Says how many
    /// bytes were taken.
    pub fn send(
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        if descriptors.len() > AT_ONCE_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut slice = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control: Control = [MaybeUninit::zeroed(); 66];
        // SAFETY: a msghdr is plain data, for which all zeros mean: no address, no slices, no
        // control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let length = size_of_val(descriptors) as u32;
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: both compute with numbers only; there is room for so many, as was looked at
            // above. The first header lies at the beginning of the control data, which is large
            // enough and aligned for it, and the descriptors behind it. A borrowed descriptor is
            // the number of one (its layout is a `RawFd`'s).
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(length) as _;
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(length) as _;
                libc::CMSG_DATA(header)
                    .copy_from_nonoverlapping(descriptors.as_ptr().cast(), length as usize);
            }
        }
        // SAFETY: the descriptor is open while it is borrowed; the header points to one slice and
        // to control data that live through the call; the kernel reads them and keeps no pointer.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives bytes of a connected Unix stream socket, and puts the descriptors that came with
    /// them behind the others. 0: the other side sends no more.
    pub fn receive(
        socket: BorrowedFd<'_>,
        into: &mut [u8],
        descriptors: &mut VecDeque<OwnedFd>,
    ) -> io::Result<usize> {
        let mut slice = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let mut control: Control = [MaybeUninit::zeroed(); 66];
        // SAFETY: a msghdr is plain data, for which all zeros mean: no address, no slices, no
        // control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the descriptor is open while it is borrowed; the header points to one slice and
        // to control data that live through the call, of which the kernel writes at most so many
        // bytes.
        let received =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the header is as the kernel left it; it and what it points to are live.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: it is null or points to a header within the control data, which the kernel
        // filled.
        while let Some(each) = unsafe { header.as_ref() } {
            if each.cmsg_level == libc::SOL_SOCKET && each.cmsg_type == libc::SCM_RIGHTS {
                // SAFETY: it computes with numbers only.
                let header_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
                #[allow(
                    clippy::unnecessary_cast,
                    reason = "of another C library it is another type"
                )]
                let bytes = each.cmsg_len as usize - header_bytes;
                for index in 0..bytes / size_of::<c_int>() {
                    // SAFETY: the data behind the header are so many descriptors, not aligned for
                    // sure; the kernel opened each for this process, and nobody else has taken it.
                    descriptors.push_back(unsafe {
                        let data = libc::CMSG_DATA(header).cast::<c_int>();
                        OwnedFd::from_raw_fd(data.add(index).read_unaligned())
                    });
                }
            }
            // SAFETY: both pointers are to live headers, the second within the first's control
            // data.
            header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
        }
        if message.msg_flags & libc::MSG_CTRUNC != 0 {
            return Err(io::Error::other("not all descriptors could be taken"));
        }
        Ok(received)
    }

    /// Whose process is at the other side of a connected Unix socket: its number, and its user's.
    pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
        let unknown = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let peer = super::option(socket.as_raw_fd(), libc::SO_PEERCRED, unknown)?;
        Ok((peer.pid as u32, peer.uid))
    }

    /// Whether the other side of a connected Unix stream socket has read all that was sent.
    pub fn has_read_all(socket: BorrowedFd<'_>) -> io::Result<bool> {
        let mut unread: c_int = 0;
        // SAFETY: the descriptor is open while it is borrowed; the kernel writes one number, to
        // where there is one.
        match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) } {
            0 => Ok(unread == 0),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whose process this is: its user's number.
    pub fn own_user() -> u32 {
        // SAFETY: it takes nothing and cannot fail.
        unsafe { libc::geteuid() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn options_are_accepted_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        super::set_for_accepted(listener.as_fd(), 1 << 17).expect("TCP options");
        super::set_backlog(listener.as_fd(), 1024).expect("a backlog");
        assert!(super::raise_file_limit().expect("a limit") > 0);
        assert!(super::page_bytes().is_power_of_two());
    }

    /// What groups need: each is found in what comes of it in the tests with namespaces.
    #[test]
    fn options_of_groups_are_accepted_by_the_kernel() {
        let loopback = super::interface_index("lo").expect("it is there");
        assert!(super::interface_index("no such one").is_err());
        for (bound, is_ipv6) in [("127.0.0.1:0", false), ("[::1]:0", true)] {
            let Ok(socket) = UdpSocket::bind(bound) else {
                continue;
            };
            super::set_dscp(socket.as_fd(), is_ipv6, 46).expect("a DSCP");
            super::set_multicast(socket.as_fd(), is_ipv6, 7, loopback).expect("hops");
            super::take_joined_only(socket.as_fd(), is_ipv6).expect("the choice");
        }
        let group = "239.1.2.3:0".parse().expect("an address");
        super::group_socket(group, None, loopback).expect("it joins");
        let source = "127.0.0.1".parse().ok();
        super::group_socket(group, source, loopback).expect("it joins");
    }
}
