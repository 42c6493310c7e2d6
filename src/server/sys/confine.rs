//! Calls by which a thread gives up system calls (seccomp(2)) and files and ports (landlock(7)).
//! `sandbox` decides which.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{checked, opened};

/// An instruction of a classic BPF program (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Number of instructions to skip if the test holds.
    pub if_so: u8,
    /// Number of instructions to skip if it does not.
    pub if_not: u8,
    /// Operand.
    pub number: u32,
}

/// Accesses that are refused unless a rule allows them, as bits (linux/landlock.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Handled {
    /// Accesses to files.
    pub files: u64,
    /// Accesses to TCP ports.
    pub ports: u64,
    /// Ways to other processes.
    pub scopes: u64,
}

// The same number on every architecture that Linux has had since 2019. Some C libraries lack it.
const LANDLOCK_CREATE_RULESET: c_long = 444;
const LANDLOCK_ADD_RULE: c_long = 445;
const LANDLOCK_RESTRICT_SELF: c_long = 446;
const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: c_int = 1;
const RULE_NET_PORT: c_int = 2;

/// Gives up gaining rights by running programs, for this thread and its later threads. Otherwise
/// the kernel only takes filters from root.
pub fn gain_nothing() -> io::Result<()> {
    // SAFETY: takes five numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    checked(result).map(drop)
}

/// The bits of an operation that say what kind it is (linux/bpf_common.h).
const BPF_CLASS: u32 = 0x07;

/// Returns whether filters can give this verdict here (`SECCOMP_RET_ERRNO` and the like).
pub fn has_verdict(verdict: u32) -> bool {
    // SAFETY: the pointer is to a live number, which the call reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const verdict,
        )
    };
    result == 0
}

/// Installs a filter for the system calls of this thread and its later threads. Earlier filters
/// stay. `InvalidInput`: a verdict would report success for a call that is not made.
pub fn filter_calls(program: &[Instruction]) -> io::Result<()> {
    let ends = |each: &&Instruction| u32::from(each.code) & BPF_CLASS == libc::BPF_RET;
    let pretends = |each: &Instruction| {
        u32::from(each.code) != libc::BPF_RET | libc::BPF_K
            || each.number == libc::SECCOMP_RET_ERRNO
    };
    if program.iter().filter(ends).any(pretends) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|each| libc::sock_filter {
            code: each.code,
            jt: each.if_so,
            jf: each.if_not,
            k: each.number,
        })
        .collect();
    let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len: length,
        filter: filter.as_mut_ptr(),
    };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the pointer is to a live header, and that points to as many live instructions as
        // it says; the kernel checks them, copies them and keeps no pointer. The filter makes calls
        // fail, and a failed call returns an error. It makes no call return success undone.
        checked(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        })
    };
    // Without the flag, kernels before 5.16 assume foreign code in this process, and slow the
    // processor down.
    install(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW)
        .or_else(|_| install(0))
        .map(drop)
}

/// Returns the version of Landlock; 0: none.
pub fn landlock_version() -> u32 {
    // SAFETY: with a null pointer and length 0, it takes a number and returns one.
    let version = unsafe {
        libc::syscall(
            LANDLOCK_CREATE_RULESET,
            std::ptr::null::<Handled>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Returns a set of rules, which is empty.
pub fn ruleset(handled: &Handled) -> io::Result<OwnedFd> {
    // SAFETY: the pointer is to a live structure of this size, which the call copies. A kernel that
    // knows fewer fields checks that the others are zero. The descriptor is for nobody else.
    unsafe {
        opened(libc::syscall(
            LANDLOCK_CREATE_RULESET,
            &raw const *handled,
            size_of::<Handled>(),
            0_u32,
        ))
    }
}

/// Allows accesses to everything below a folder.
pub fn allow_below(rules: BorrowedFd<'_>, folder: BorrowedFd<'_>, files: u64) -> io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed: u64,
        folder: c_int,
    }
    let rule = PathBeneath {
        allowed: files,
        folder: folder.as_raw_fd(),
    };
    // SAFETY: both descriptors are open while they are borrowed. The pointer is to a live structure
    // of the kind that the number before it names, and the call copies it.
    let result = unsafe {
        libc::syscall(
            LANDLOCK_ADD_RULE,
            rules.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    };
    checked(result).map(drop)
}

/// Allows accesses to a TCP port.
pub fn allow_port(rules: BorrowedFd<'_>, port: u16, ports: u64) -> io::Result<()> {
    #[repr(C)]
    struct NetPort {
        allowed: u64,
        port: u64,
    }
    let rule = NetPort {
        allowed: ports,
        port: port.into(),
    };
    // SAFETY: the descriptor is open while it is borrowed. The pointer is to a live structure of
    // the kind that the number before it names, and the call copies it.
    let result = unsafe {
        libc::syscall(
            LANDLOCK_ADD_RULE,
            rules.as_raw_fd(),
            RULE_NET_PORT,
            &raw const rule,
            0_u32,
        )
    };
    checked(result).map(drop)
}

/// Applies the rules to this thread and its later threads.
pub fn enter(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes an open descriptor and a number.
    let result = unsafe { libc::syscall(LANDLOCK_RESTRICT_SELF, rules.as_raw_fd(), 0_u32) };
    checked(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_filter_pretends_that_a_call_succeeded() {
        let ends = |code: u32, number: u32| Instruction {
            code: code as u16,
            if_so: 0,
            if_not: 0,
            number,
        };
        for pretends in [
            ends(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO),
            ends(libc::BPF_RET | libc::BPF_A, 0),
        ] {
            let error = filter_calls(&[pretends]).expect_err("it is refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
