//! Descriptors that go from one process to another.

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
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
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
    // SAFETY: it has three integers.
    let peer = unsafe { super::options::option(socket.as_raw_fd(), libc::SO_PEERCRED, unknown) }?;
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
