//! Passing descriptors from one process to another.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::checked;

/// Largest number of descriptors in one message (unix(7), `SCM_RIGHTS`).
pub const AT_ONCE_MAX: usize = 253;

/// Space for the control data of a message with `AT_ONCE_MAX` descriptors, aligned like its header.
type Control = [MaybeUninit<libc::cmsghdr>; 66];

const CONTROL_BYTES: usize = size_of::<Control>();

// SAFETY: it computes with numbers only.
const _: () = assert!(
    unsafe { libc::CMSG_SPACE((AT_ONCE_MAX * size_of::<c_int>()) as u32) } as usize
        <= CONTROL_BYTES
);

/// Sends bytes over a connected Unix stream socket, and at most [`AT_ONCE_MAX`] descriptors with
/// the first byte. The other side gets copies of them. Returns how many bytes were sent.
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
        // SAFETY: both compute with numbers only, and the check above ensures the space. The first
        // header is at the beginning of the control data, which is large enough and aligned for it
        // and the descriptors. A borrowed descriptor is a number (it has the layout of `RawFd`).
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

/// Receives bytes of a connected Unix stream socket, and appends the descriptors that came with
/// them. 0: the other side has closed.
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
    // SAFETY: the descriptor is open while it is borrowed; the header points to one slice and to
    // control data that live through the call. The kernel writes at most their lengths.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the header is as the kernel left it; it and what it points to are live.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: the pointer is null, or points to a header within the control data, which the kernel
    // has filled.
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
                // SAFETY: the data of this header are descriptors, perhaps unaligned, of which this
                // is one. The kernel opened it for this process, and no other code has taken it.
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

/// Returns the process id and user id of the other side of a connected Unix socket.
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

/// Returns whether the other side of a connected Unix stream socket has read everything.
pub fn has_read_all(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut unread: c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed. The pointer is to a live number, which
    // the kernel writes.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) })?;
    Ok(unread == 0)
}

/// Returns the user id of this process.
pub fn own_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
