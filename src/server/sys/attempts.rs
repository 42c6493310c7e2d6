//! Calls that tests of the sandbox try. The program never makes them.

use std::ffi::{c_int, c_long};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::sockets::socket_address;
use super::{checked, opened};

/// Opens a socket of any kind.
pub fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes three numbers, and opens a descriptor for nobody else.
    unsafe { opened(libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol)) }
}

/// Maps a page, shared or private, with a file or without, and leaves it mapped.
pub fn map(protection: c_int, file: Option<BorrowedFd<'_>>, is_shared: bool) -> io::Result<()> {
    let of = if file.is_none() {
        libc::MAP_ANONYMOUS
    } else {
        0
    };
    let flags = if is_shared {
        libc::MAP_SHARED
    } else {
        libc::MAP_PRIVATE
    };
    let file = file.map_or(-1, |file| file.as_raw_fd());
    // SAFETY: the kernel chooses a free place, and no pointer to it is kept.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags | of, file, 0) };
    match place == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// Asks the kernel whether this process may signal its parent. Sends no signal.
pub fn signal_parent() -> io::Result<()> {
    // SAFETY: takes numbers; the signal 0 is none.
    checked(unsafe { libc::kill(libc::getppid(), 0) }).map(drop)
}

/// Connects a socket by sending a byte with `MSG_FASTOPEN`, by `sendto`, `sendmsg` or `sendmmsg`.
pub fn connect_by_sending(call: &str, socket: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let (mut address, length) = socket_address(to, 0);
    let mut slice = libc::iovec {
        iov_base: c"x".as_ptr().cast_mut().cast(),
        iov_len: 1,
    };
    // SAFETY: they are plain data, for which all zeros are a value.
    let mut messages: [libc::mmsghdr; 1] = unsafe { std::mem::zeroed() };
    let [libc::mmsghdr { msg_hdr, .. }] = &mut messages;
    msg_hdr.msg_name = (&raw mut address).cast();
    msg_hdr.msg_namelen = length;
    msg_hdr.msg_iov = &raw mut slice;
    msg_hdr.msg_iovlen = 1;
    let (flags, socket) = (libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL, socket.as_raw_fd());
    // SAFETY: the descriptor is open while it is borrowed; the header points to an address and a
    // slice that live until the call is over, and the kernel only reads what they hold.
    let sent = unsafe {
        match call {
            "sendto" => {
                let (bytes, address) = (slice.iov_base, (&raw const address).cast());
                libc::sendto(socket, bytes, 1, flags, address, length) as c_long
            }
            "sendmsg" => libc::sendmsg(socket, &raw const messages[0].msg_hdr, flags) as c_long,
            _ => libc::sendmmsg(socket, messages.as_mut_ptr(), 1, flags).into(),
        }
    };
    checked(sent).map(drop)
}

/// Calls that no thread here needs: to run programs, to inspect or end processes, to change the
/// user, to mount, to load, to watch, and ways around a refusal.
const FOR_NOBODY: &[(&str, c_long)] = &[
    ("acct", libc::SYS_acct),
    ("add_key", libc::SYS_add_key),
    ("bpf", libc::SYS_bpf),
    ("capset", libc::SYS_capset),
    ("chdir", libc::SYS_chdir),
    ("chroot", libc::SYS_chroot),
    ("clone3", libc::SYS_clone3),
    ("delete_module", libc::SYS_delete_module),
    ("execve", libc::SYS_execve),
    ("execveat", libc::SYS_execveat),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("fchmodat", libc::SYS_fchmodat),
    ("fchownat", libc::SYS_fchownat),
    ("init_module", libc::SYS_init_module),
    ("inotify_init1", libc::SYS_inotify_init1),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("kcmp", libc::SYS_kcmp),
    ("keyctl", libc::SYS_keyctl),
    ("kill", libc::SYS_kill),
    ("landlock_restrict_self", 446),
    ("linkat", libc::SYS_linkat),
    ("listen", libc::SYS_listen),
    ("mkdirat", libc::SYS_mkdirat),
    ("mknodat", libc::SYS_mknodat),
    ("mount", libc::SYS_mount),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("openat2", libc::SYS_openat2),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("personality", libc::SYS_personality),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("pivot_root", libc::SYS_pivot_root),
    ("prctl", libc::SYS_prctl),
    ("prlimit64", libc::SYS_prlimit64),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("ptrace", libc::SYS_ptrace),
    ("quotactl", libc::SYS_quotactl),
    ("reboot", libc::SYS_reboot),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo),
    ("seccomp", libc::SYS_seccomp),
    ("sethostname", libc::SYS_sethostname),
    ("setns", libc::SYS_setns),
    ("setuid", libc::SYS_setuid),
    ("shmget", libc::SYS_shmget),
    ("swapon", libc::SYS_swapon),
    ("symlinkat", libc::SYS_symlinkat),
    ("tkill", libc::SYS_tkill),
    ("umount2", libc::SYS_umount2),
    ("unshare", libc::SYS_unshare),
    ("userfaultfd", libc::SYS_userfaultfd),
];

/// Tries all calls that no thread needs, with zeros for arguments. Returns the calls that do
/// not fail with EPERM.
pub fn not_refused() -> Vec<&'static str> {
    let is_refused = |number: c_long| {
        // SAFETY: none of the calls in the table writes to memory of this process, returns twice
        // there, or takes memory away, when all its arguments are zero.
        let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
        checked(result).is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
    };
    let made = FOR_NOBODY.iter().filter(|(_, number)| !is_refused(*number));
    made.map(|(name, _)| *name).collect()
}
