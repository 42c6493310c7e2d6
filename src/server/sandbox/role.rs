//! Which threads there are, and what each of them needs: calls, folders, ports. Whatever does not
//! stand here it cannot do, once it has begun.

use std::path::{Path, PathBuf};

use super::program::{Rule, is, masked};
use crate::config::{Config, Listen};

/// What a thread is for.
#[derive(Clone, Debug)]
pub enum Role {
    /// All that clients do.
    Loop(Errands),
    /// The operator's log.
    Console,
    /// The access log, in the file that is opened anew when it has been moved away, if it is one.
    AccessLog(Option<PathBuf>),
    /// The token file, in its folder.
    #[cfg_attr(
        not(feature = "token-file"),
        expect(dead_code, reason = "that thread alone is one")
    )]
    Disk(PathBuf),
    /// Looking up names.
    Names,
}

/// What the loop is to do beside serving clients.
#[derive(Clone, Debug, Default)]
pub struct Errands {
    /// It has sockets for datagrams.
    pub has_rtp: bool,
    /// It connects to other relays, at these ports.
    pub ports: Vec<u16>,
    /// Another process may take over.
    pub hands_over: bool,
    /// The sockets in the file system that go when it ends.
    pub sockets: Vec<PathBuf>,
}

impl Errands {
    /// Those that the options mean.
    pub fn of(config: &Config) -> Errands {
        let core = &config.core;
        let peers = core.peers.iter().map(|peer| peer.address().port());
        let origins = core.origins.iter().map(|origin| origin.port.get());
        let places = config.listen.iter().filter_map(|place| match place {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        Errands {
            has_rtp: config.rtp.is_some() && !core.token_servers.is_empty(),
            ports: peers.chain(origins).collect(),
            hands_over: config.handover.is_some(),
            sockets: places.chain(&config.handover).cloned().collect(),
        }
    }
}

/// What every thread needs: memory, waiting for others, the time, and to end. To write and to close
/// is nothing that it has not been given before.
const EVERY: &[&str] = &[
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "exit",
    "exit_group",
    "futex",
    "getpid",
    "getrandom",
    "gettid",
    "madvise",
    "mremap",
    "munmap",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "sigaltstack",
    "write",
];

const LOOP: &[&str] = &[
    "accept4",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "getrusage",
    "getsockname",
    "getsockopt",
    "pread64",
    "read",
    "recvfrom",
    "sendmsg",
    "sendto",
    "shutdown",
];

/// To open files, as far as it may, and to look what they are.
const FILES: &[&str] = &[
    "fstat",
    "lseek",
    "newfstatat",
    "open",
    "openat",
    "stat",
    "statx",
];

const DISK: &[&str] = &[
    "fdatasync",
    "fsync",
    "ftruncate",
    "pread64",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
];

/// What C libraries and their modules look up names with. The modules are whoever's: what they are
/// refused beyond this they take for a name that is not known.
const NAMES: &[&str] = &[
    "access",
    "bind",
    "connect",
    "dup",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "eventfd2",
    "faccessat",
    "faccessat2",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpeername",
    "getsockname",
    "getsockopt",
    "gettimeofday",
    "getuid",
    "lstat",
    "memfd_create",
    // Modules are programs that are mapped.
    "mmap",
    "mprotect",
    "nanosleep",
    "poll",
    "ppoll",
    "pread64",
    "pselect6",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "select",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "sysinfo",
    "timerfd_create",
    "timerfd_settime",
    "uname",
    "writev",
];

/// Folders that the C library reads when it looks up a name, and its modules.
const NAMES_FOLDERS: &[&str] = &[
    "/etc",
    "/lib",
    "/lib64",
    "/run/nscd",
    "/run/systemd/resolve",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
];
/// It is a link on many machines.
const RESOLVER: &str = "/etc/resolv.conf";
const RESOLVER_PORT: u16 = 53;

// Of linux/landlock.h, `LANDLOCK_ACCESS_FS_`.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;

/// A folder in which something may be done.
pub struct Place {
    /// It, and all that is below it.
    pub folder: PathBuf,
    /// What may be done there, as Landlock's bits.
    pub accesses: u64,
    /// The thread cannot begin without it.
    pub must_be: bool,
}

impl Role {
    /// What it may call; the first rule of a call counts.
    pub fn rules(&self) -> Vec<Rule> {
        let mut rules = match self {
            Role::Loop(errands) => errands.rules(),
            Role::Console | Role::AccessLog(None) => Vec::new(),
            Role::AccessLog(Some(_)) => all(FILES).chain([descriptors()]).collect(),
            Role::Disk(_) => {
                let mut rules: Vec<Rule> = all(FILES).chain(all(DISK)).collect();
                rules.extend([descriptors(), removal()]);
                rules
            }
            Role::Names => {
                let mut rules: Vec<Rule> = all(FILES).chain(all(NAMES)).collect();
                rules.extend([descriptors(), socket(NAMES_FAMILIES, None), questions()]);
                rules
            }
        };
        rules.extend(all(EVERY));
        rules.extend(memory_without_programs());
        rules.push(abort());
        rules
    }

    /// Where it may do what with files; nowhere else anything.
    pub fn places(&self) -> Vec<Place> {
        match self {
            Role::Loop(errands) => {
                let sockets = errands.sockets.iter();
                sockets
                    .map(|socket| place(&folder_of(socket), REMOVE_FILE))
                    .collect()
            }
            Role::Console | Role::AccessLog(None) => Vec::new(),
            Role::AccessLog(Some(path)) => {
                let accesses = WRITE_FILE | READ_FILE | MAKE_REG;
                // Where it is, and where it leads.
                let leads_to = path.canonicalize().ok();
                let leads_to = leads_to.map(|file| place(&folder_of(&file), accesses));
                let mut places = vec![place(&folder_of(path), accesses)];
                places.extend(leads_to);
                places
            }
            Role::Disk(folder) => {
                let within = READ_FILE | WRITE_FILE | TRUNCATE | READ_DIR | MAKE_REG | REMOVE_FILE;
                vec![place(folder, within)]
            }
            Role::Names => {
                let resolver = Path::new(RESOLVER).canonicalize().ok();
                let resolver = resolver.map(|file| folder_of(&file));
                let folders = NAMES_FOLDERS.iter().map(PathBuf::from).chain(resolver);
                folders
                    .map(|folder| Place {
                        folder,
                        accesses: READ_FILE | READ_DIR,
                        must_be: false,
                    })
                    .collect()
            }
        }
    }

    /// The TCP ports that it may connect to.
    pub fn ports(&self) -> Vec<u16> {
        match self {
            Role::Loop(errands) => errands.ports.clone(),
            Role::Names => vec![RESOLVER_PORT],
            Role::Console | Role::AccessLog(_) | Role::Disk(_) => Vec::new(),
        }
    }
}

impl Errands {
    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = all(LOOP).collect();
        let mut modes = vec![libc::FIONBIO, libc::FIOCLEX];
        if self.hands_over {
            // How much the successor has not read yet.
            modes.push(libc::TIOCOUTQ);
        }
        let modes = modes.into_iter().map(|mode| vec![is(1, mode as i32)]);
        rules.push(only("ioctl", modes.collect()));
        rules.push(descriptors());
        let mut kinds = Vec::new();
        let mut options = Vec::new();
        if self.has_rtp {
            // Whether an address is this machine's is tried by binding a socket to it.
            rules.extend(all(&["bind", "sendmmsg"]));
            kinds.push(libc::SOCK_DGRAM);
            options.push(vec![is(1, libc::SOL_UDP), is(2, libc::UDP_SEGMENT)]);
        }
        if !self.ports.is_empty() {
            rules.extend(all(&["connect"]));
            kinds.push(libc::SOCK_STREAM);
        }
        if self.hands_over {
            rules.extend(all(&["geteuid"]));
            let times = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];
            options.extend(times.map(|time| vec![is(1, libc::SOL_SOCKET), is(2, time)]));
        }
        if !self.sockets.is_empty() {
            rules.extend(all(&["unlink"]));
            rules.push(removal());
        }
        if !kinds.is_empty() {
            rules.push(socket(&[libc::AF_INET, libc::AF_INET6], Some(&kinds)));
        }
        if !options.is_empty() {
            rules.push(only("setsockopt", options));
        }
        rules
    }
}

const NAMES_FAMILIES: &[i32] = &[
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

fn all(calls: &'static [&'static str]) -> impl Iterator<Item = Rule> {
    calls.iter().map(|call| only(call, vec![Vec::new()]))
}

fn only(call: &'static str, ways: Vec<Vec<super::program::Test>>) -> Rule {
    Rule { call, ways }
}

/// Sockets of these families, of any kind, or of these kinds and of what the family has for each.
fn socket(families: &[i32], kinds: Option<&[i32]>) -> Rule {
    let ways = families.iter().flat_map(|family| match kinds {
        None => vec![vec![is(0, *family)]],
        Some(kinds) => {
            let kinds = kinds.iter();
            kinds
                .map(|kind| vec![is(0, *family), masked(1, 0xf, *kind as u32), is(2, 0)])
                .collect()
        }
    });
    only("socket", ways.collect())
}

/// Copies of descriptors, and what they are like.
fn descriptors() -> Rule {
    let wishes = [
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
    ];
    only("fcntl", wishes.map(|wish| vec![is(1, wish)]).into())
}

/// Of files, never of folders.
fn removal() -> Rule {
    only("unlinkat", vec![vec![is(2, 0)]])
}

/// What a resolver asks of its sockets, and of interfaces' names: SIOCGIFINDEX, SIOCGIFNAME.
fn questions() -> Rule {
    let asked = [libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD].map(|one| one as i32);
    let asked = asked.into_iter().chain([0x8933, 0x8910]);
    only("ioctl", asked.map(|one| vec![is(1, one)]).collect())
}

/// Memory that nothing in it can be run of.
fn memory_without_programs() -> [Rule; 2] {
    let cannot_be_run = masked(2, libc::PROT_EXEC as u32, 0);
    ["mmap", "mprotect"].map(|call| only(call, vec![vec![cannot_be_run]]))
}

/// To end itself where something is wrong, and nobody else.
fn abort() -> Rule {
    let own = std::process::id().cast_signed();
    only("tgkill", vec![vec![is(0, own)]])
}

fn place(folder: &Path, accesses: u64) -> Place {
    Place {
        folder: folder.to_owned(),
        accesses,
        must_be: true,
    }
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => PathBuf::from("/"),
    }
}
