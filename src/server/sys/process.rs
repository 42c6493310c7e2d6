//! Signals, memory, CPU time and limits of the process.

use std::ffi::c_int;
use std::io;
#[cfg(feature = "handover")]
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::{checked, opened};

/// Ignores these signals from now on.
pub fn ignore_signals(signals: &[c_int]) {
    for &signal in signals {
        // SAFETY: takes two numbers; no handler of this process's is run.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Blocks these signals for this thread and its later threads. Returns a descriptor to read them
/// from, each as a `signalfd_siginfo`. Reading never blocks.
pub fn signal_descriptor(signals: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: a sigset_t is plain data, for which all zeros are a value; it is made an empty set
    // next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: the pointer is to a live set; a number that is no signal's is an error and adds
        // nothing.
        checked(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    // SAFETY: the pointer is to a live set, which the call reads; the old one is not asked for.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
    // SAFETY: -1 asks for a new descriptor, for nobody else; the pointer is to a live set, which the
    // call copies.
    unsafe { opened(libc::signalfd(-1, &raw const set, flags)) }
}

/// Returns freed memory to the kernel: the pages of these blocks, or without blocks what the
/// allocator keeps. The allocator would keep it while memory above it is in use, so that a server
/// would stay as large as it was with a thousand streams. 1 MB takes about 0.15 ms.
pub fn return_memory(blocks: Vec<Vec<u8>>) {
    #[cfg(target_env = "gnu")]
    if blocks.is_empty() {
        // SAFETY: takes a number and touches only memory that is free already.
        unsafe { libc::malloc_trim(0) };
    }
    let page_bytes = page_bytes() as usize;
    for mut block in blocks {
        let spare = block.spare_capacity_mut();
        let skipped = spare.as_ptr().align_offset(page_bytes).min(spare.len());
        let pages = &mut spare[skipped..];
        let bytes = pages.len() / page_bytes * page_bytes;
        // SAFETY: these are whole pages of the block's spare capacity, of which nothing is read.
        unsafe { libc::madvise(pages.as_mut_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }
}

/// Returns the CPU time of this process.
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

/// Returns the size of a memory page.
pub fn page_bytes() -> u64 {
    // SAFETY: it takes a number and gives one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(0)
}

/// Another process, whose end can be awaited. An error: it has ended already, or this kernel cannot
/// report its end.
#[cfg(feature = "handover")]
pub struct Process(io::Result<OwnedFd>);

#[cfg(feature = "handover")]
impl Process {
    /// Opens the process with this id.
    pub fn open(id: u32) -> Process {
        // SAFETY: it takes numbers only. No other code owns the new descriptor.
        Process(unsafe { opened(libc::syscall(libc::SYS_pidfd_open, id, 0)) })
    }

    /// Waits until it has ended and its descriptors are closed. Returns whether it has.
    pub fn await_end(&self, time: Duration) -> bool {
        let descriptor = match &self.0 {
            Ok(descriptor) => descriptor,
            Err(error) => return error.raw_os_error() == Some(libc::ESRCH),
        };
        let mut waited = libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the pointer is to one live pollfd, whose descriptor is open.
        unsafe { libc::poll(&raw mut waited, 1, milliseconds) == 1 }
    }
}

/// Raises the limit on open files as far as possible. Returns the limit.
pub fn raise_file_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit, which the call fills.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
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
