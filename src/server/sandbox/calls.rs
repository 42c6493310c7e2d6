//! Numbers of the system calls that threads may need, by name, for each supported machine
//! (asm/unistd.h). A machine that lacks a call has no number for it.

/// A machine whose call numbers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Aarch64,
}

/// The machine that this program was built for.
pub const MACHINE: Option<Machine> = if cfg!(not(target_pointer_width = "64")) {
    None
} else if cfg!(target_arch = "x86_64") {
    Some(Machine::X86_64)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(Machine::Aarch64)
} else {
    None
};

impl Machine {
    /// Returns the machine's constant in the data of a call (linux/audit.h). A 64-bit kernel
    /// accepts 32-bit calls from any program, too. They have another constant, and other numbers.
    pub fn word(self) -> u32 {
        match self {
            Machine::X86_64 => 0xC000_003E,
            Machine::Aarch64 => 0xC000_00B7,
        }
    }

    /// Returns the number of a call, if the machine has it.
    pub fn number(self, call: &str) -> Option<u32> {
        let (_, x86_64, aarch64) = CALLS.iter().find(|(name, ..)| *name == call)?;
        match self {
            Machine::X86_64 => *x86_64,
            Machine::Aarch64 => *aarch64,
        }
    }
}

/// Name, number on x86_64, and number on aarch64.
pub const CALLS: &[(&str, Option<u32>, Option<u32>)] = &[
    ("accept4", Some(288), Some(242)),
    ("access", Some(21), None),
    ("bind", Some(49), Some(200)),
    ("brk", Some(12), Some(214)),
    ("clock_gettime", Some(228), Some(113)),
    ("clock_nanosleep", Some(230), Some(115)),
    ("close", Some(3), Some(57)),
    ("connect", Some(42), Some(203)),
    ("dup", Some(32), Some(23)),
    ("epoll_ctl", Some(233), Some(21)),
    ("epoll_pwait", Some(281), Some(22)),
    ("epoll_wait", Some(232), None),
    ("exit", Some(60), Some(93)),
    ("exit_group", Some(231), Some(94)),
    ("faccessat", Some(269), Some(48)),
    ("faccessat2", Some(439), Some(439)),
    ("fcntl", Some(72), Some(25)),
    ("fdatasync", Some(75), Some(83)),
    ("flock", Some(73), Some(32)),
    ("fstat", Some(5), Some(80)),
    ("fsync", Some(74), Some(82)),
    ("ftruncate", Some(77), Some(46)),
    ("futex", Some(202), Some(98)),
    ("getcwd", Some(79), Some(17)),
    ("getdents64", Some(217), Some(61)),
    ("getegid", Some(108), Some(177)),
    ("geteuid", Some(107), Some(175)),
    ("getgid", Some(104), Some(176)),
    ("getpeername", Some(52), Some(205)),
    ("getpid", Some(39), Some(172)),
    ("getrandom", Some(318), Some(278)),
    ("getrusage", Some(98), Some(165)),
    ("getsockname", Some(51), Some(204)),
    ("getsockopt", Some(55), Some(209)),
    ("gettid", Some(186), Some(178)),
    ("gettimeofday", Some(96), Some(169)),
    ("getuid", Some(102), Some(174)),
    ("ioctl", Some(16), Some(29)),
    ("lseek", Some(8), Some(62)),
    ("lstat", Some(6), None),
    ("madvise", Some(28), Some(233)),
    ("mmap", Some(9), Some(222)),
    ("mprotect", Some(10), Some(226)),
    ("mremap", Some(25), Some(216)),
    ("munmap", Some(11), Some(215)),
    ("nanosleep", Some(35), Some(101)),
    ("newfstatat", Some(262), Some(79)),
    ("open", Some(2), None),
    ("openat", Some(257), Some(56)),
    ("poll", Some(7), None),
    ("ppoll", Some(271), Some(73)),
    ("pread64", Some(17), Some(67)),
    ("pselect6", Some(270), Some(72)),
    ("pwrite64", Some(18), Some(68)),
    ("read", Some(0), Some(63)),
    ("readlink", Some(89), None),
    ("readlinkat", Some(267), Some(78)),
    ("readv", Some(19), Some(65)),
    ("recvfrom", Some(45), Some(207)),
    ("recvmmsg", Some(299), Some(243)),
    ("recvmsg", Some(47), Some(212)),
    ("rename", Some(82), None),
    ("renameat", Some(264), Some(38)),
    ("renameat2", Some(316), Some(276)),
    ("restart_syscall", Some(219), Some(128)),
    ("rt_sigaction", Some(13), Some(134)),
    ("rt_sigprocmask", Some(14), Some(135)),
    ("rt_sigreturn", Some(15), Some(139)),
    ("sched_getaffinity", Some(204), Some(123)),
    ("sched_yield", Some(24), Some(124)),
    ("select", Some(23), None),
    ("sendmmsg", Some(307), Some(269)),
    ("sendmsg", Some(46), Some(211)),
    ("sendto", Some(44), Some(206)),
    ("setsockopt", Some(54), Some(208)),
    ("shutdown", Some(48), Some(210)),
    ("sigaltstack", Some(131), Some(132)),
    ("socket", Some(41), Some(198)),
    ("stat", Some(4), None),
    ("statx", Some(332), Some(291)),
    ("sysinfo", Some(99), Some(179)),
    ("tgkill", Some(234), Some(131)),
    ("uname", Some(63), Some(160)),
    ("unlink", Some(87), None),
    ("unlinkat", Some(263), Some(35)),
    ("write", Some(1), Some(64)),
    ("writev", Some(20), Some(66)),
];
