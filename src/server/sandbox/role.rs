//! The roles of threads, and what each needs: system calls, folders, ports. Everything else is
//! refused.

use std::path::{Path, PathBuf};

use super::program::{Rule, is, masked};
use crate::config::{Config, Listen};

/// The role of a thread.
#[derive(Clone, Debug)]
pub enum ThreadRole {
    /// The event loop.
    Loop(LoopNeeds),
    /// The log on stderr.
    Console,
    /// The access log, with its path if it is a file.
    AccessLog(Option<PathBuf>),
    /// The token file, in its folder.
    #[cfg_attr(
        not(feature = "token-file"),
        expect(dead_code, reason = "that thread alone is one")
    )]
    Disk(PathBuf),
    /// Resolves names.
    Names,
}

/// What the loop does besides serving clients.
#[derive(Clone, Debug, Default)]
pub struct LoopNeeds {
    /// Whether it has sockets for datagrams.
    pub has_rtp: bool,
    /// Ports of other relays that it connects to.
    pub ports: Vec<u16>,
    /// Whether another process may take over.
    pub hands_over: bool,
    /// Socket files to remove at the end.
    pub sockets: Vec<PathBuf>,
}

impl LoopNeeds {
    /// Returns what these options need.
    pub fn of(config: &Config) -> LoopNeeds {
        let core = &config.core;
        let peers = core.peers.iter().map(|peer| peer.address.port());
        let origins = core.origins.iter().map(|origin| origin.port.get());
        let places = config.listen.iter().filter_map(|place| match place {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        LoopNeeds {
            has_rtp: config.rtp.is_some() && !core.token_servers.is_empty(),
            ports: peers.chain(origins).collect(),
            hands_over: config.handover.is_some(),
            sockets: places.chain(&config.handover).cloned().collect(),
        }
    }
}

/// Every thread needs these: memory, waiting for others, the time, closing, and ending.
const EVERY: &str = "brk clock_gettime clock_nanosleep close exit exit_group futex getpid getrandom gettid \
    madvise mremap munmap restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn \
    sched_getaffinity sched_yield sigaltstack";

const LOOP: &str = "accept4 epoll_ctl epoll_pwait epoll_wait getrusage getsockname getsockopt pread64 read \
    recvfrom shutdown";

/// To open files that the folders allow, to inspect them, and to write to open ones.
const FILES: &str = "fstat lseek lstat newfstatat open openat stat statx write";

const DISK: &str =
    "fdatasync flock fsync ftruncate pread64 pwrite64 rename renameat renameat2 unlink";

/// C libraries and their modules resolve names with these. The system chooses the modules. If
/// another call is refused, the name counts as unknown.
const NAMES: &str = "access bind connect dup faccessat faccessat2 getcwd getdents64 getegid geteuid getgid \
    getpeername getsockname getsockopt gettimeofday getuid lstat mprotect nanosleep poll ppoll \
    pread64 pselect6 read readlink readlinkat readv recvfrom recvmmsg recvmsg select \
    setsockopt shutdown sysinfo uname writev";

/// Folders that the C library and its modules read to resolve names.
const NAMES_FOLDERS: &[&str] = &[
    "/etc",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
];
/// A link on many machines.
const RESOLVER: &str = "/etc/resolv.conf";
const RESOLVER_PORT: u16 = 53;

// From linux/landlock.h, `LANDLOCK_ACCESS_FS_`.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;

/// A folder with its allowed accesses.
pub struct AllowedFolder {
    /// The folder, and everything below it.
    pub folder: PathBuf,
    /// Accesses as bits of Landlock.
    pub accesses: u64,
    /// Whether the thread cannot start without it.
    pub is_required: bool,
}

impl ThreadRole {
    /// Returns the rules for system calls. The first rule of a call counts.
    pub fn rules(&self) -> Vec<Rule> {
        let mut rules = match self {
            ThreadRole::Loop(needs) => needs.rules(),
            ThreadRole::Console => vec![errors()],
            ThreadRole::AccessLog(None) => vec![only("write", vec![Vec::new()])],
            ThreadRole::AccessLog(Some(_)) => all(FILES).chain([descriptors(&[])]).collect(),
            ThreadRole::Disk(_) => {
                let mut rules: Vec<Rule> = all(FILES).chain(all(DISK)).collect();
                rules.extend([descriptors(COPIES), removal()]);
                rules
            }
            ThreadRole::Names => {
                let mut rules: Vec<Rule> = all(FILES).chain(all(NAMES)).collect();
                rules.extend(["sendto", "sendmsg", "sendmmsg"].map(send));
                rules.extend([descriptors(COPIES), socket(NAMES_SOCKETS), questions()]);
                // Modules are programs that are mapped. Writes to such memory do not reach files.
                rules.push(only(
                    "mmap",
                    vec![vec![masked(3, 0xf, libc::MAP_PRIVATE as u32)]],
                ));
                rules
            }
        };
        rules.extend(all(EVERY));
        rules.extend(memory());
        rules.push(abort());
        rules
    }

    /// Returns the folders with allowed accesses. All other files are refused.
    pub fn folders(&self) -> Vec<AllowedFolder> {
        match self {
            ThreadRole::Loop(needs) => {
                let sockets = needs.sockets.iter();
                sockets
                    .map(|socket| allowed(&folder_of(socket), REMOVE_FILE))
                    .collect()
            }
            ThreadRole::Console | ThreadRole::AccessLog(None) => Vec::new(),
            ThreadRole::AccessLog(Some(path)) => {
                let accesses = WRITE_FILE | READ_FILE | MAKE_REG;
                // The path itself, and the target of the link.
                let leads_to = path.canonicalize().ok();
                let leads_to = leads_to.map(|file| allowed(&folder_of(&file), accesses));
                let mut folders = vec![allowed(&folder_of(path), accesses)];
                folders.extend(leads_to);
                folders
            }
            ThreadRole::Disk(folder) => {
                let within = READ_FILE | WRITE_FILE | TRUNCATE | READ_DIR | MAKE_REG | REMOVE_FILE;
                vec![allowed(folder, within)]
            }
            ThreadRole::Names => {
                let resolver = Path::new(RESOLVER).canonicalize().ok();
                let resolver = resolver.map(|file| folder_of(&file));
                let folders = NAMES_FOLDERS.iter().map(PathBuf::from).chain(resolver);
                folders
                    .map(|folder| AllowedFolder {
                        folder,
                        accesses: READ_FILE | READ_DIR,
                        is_required: false,
                    })
                    .collect()
            }
        }
    }

    /// Returns the TCP ports that it may connect to.
    pub fn ports(&self) -> Vec<u16> {
        match self {
            ThreadRole::Loop(needs) => needs.ports.clone(),
            ThreadRole::Names => vec![RESOLVER_PORT],
            ThreadRole::Console | ThreadRole::AccessLog(_) | ThreadRole::Disk(_) => Vec::new(),
        }
    }
}

impl LoopNeeds {
    fn rules(&self) -> Vec<Rule> {
        // Sends come first, since they are the most frequent calls with arguments to check.
        let mut rules = vec![send("sendto"), send("sendmsg"), errors()];
        rules.extend(all(LOOP));
        let mut modes = vec![libc::FIONBIO, libc::FIOCLEX];
        if self.hands_over {
            // The number of bytes that the successor has not read yet.
            modes.push(libc::TIOCOUTQ);
        }
        let modes = modes.into_iter().map(|mode| vec![is(1, mode as i32)]);
        rules.push(only("ioctl", modes.collect()));
        rules.push(descriptors(&[]));
        let mut kinds = Vec::new();
        let mut options = Vec::new();
        if self.has_rtp {
            // Binding a socket shows whether an address belongs to this machine.
            rules.extend(all("bind").chain([send("sendmmsg")]));
            kinds.push((libc::SOCK_DGRAM, 0));
            options.extend(OUTGOING.map(|(level, option)| vec![is(1, level), is(2, option)]));
        }
        if !self.ports.is_empty() {
            rules.extend(all("connect"));
            kinds.push((libc::SOCK_STREAM, 0));
        }
        if self.hands_over {
            // It waits for the end of the other process.
            rules.extend(all("geteuid poll ppoll"));
            let times = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];
            options.extend(times.map(|time| vec![is(1, libc::SOL_SOCKET), is(2, time)]));
        }
        if !self.sockets.is_empty() {
            // A socket file is removed only if it is still the same socket.
            rules.extend(all("lstat newfstatat statx unlink"));
            rules.push(removal());
        }
        if !kinds.is_empty() {
            rules.push(socket(&kinds));
        }
        if !options.is_empty() {
            rules.push(only("setsockopt", options));
        }
        rules
    }
}

/// Options of the RTP socket: how large datagrams are, and how they leave. A successor sets these
/// when the other server has left.
const OUTGOING: [(i32, i32); 7] = [
    (libc::SOL_UDP, libc::UDP_SEGMENT),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_IF),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF),
];

/// Kinds of sockets with their protocols. Excludes those that reach other programs of this machine
/// or the kernel, since a filter cannot limit which.
const NAMES_SOCKETS: &[(i32, i32)] = &[
    (libc::SOCK_DGRAM, 0),
    (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    (libc::SOCK_STREAM, 0),
    (libc::SOCK_STREAM, libc::IPPROTO_TCP),
];

/// Allows these calls, whose names have spaces between them, with any arguments.
fn all(calls: &'static str) -> impl Iterator<Item = Rule> {
    calls.split(' ').map(|call| only(call, vec![Vec::new()]))
}

fn only(call: &'static str, ways: Vec<Vec<super::program::Test>>) -> Rule {
    Rule { call, ways }
}

/// Allows Internet sockets of these kinds and protocols.
fn socket(kinds: &[(i32, i32)]) -> Rule {
    let families = [libc::AF_INET, libc::AF_INET6].into_iter();
    let ways = families.flat_map(|family| {
        let way = move |(kind, protocol): &(i32, i32)| {
            vec![
                is(0, family),
                masked(1, 0xf, *kind as u32),
                is(2, *protocol),
            ]
        };
        kinds.iter().map(way)
    });
    only("socket", ways.collect())
}

/// Allows sending without `MSG_FASTOPEN`, which connects to ports that Landlock does not check.
fn send(call: &'static str) -> Rule {
    let flags = if call == "sendmsg" { 2 } else { 3 };
    only(
        call,
        vec![vec![masked(flags, libc::MSG_FASTOPEN as u32, 0)]],
    )
}

/// Allows writing to stderr, where a panic explains itself, and to no other descriptor, since
/// threads share descriptors.
fn errors() -> Rule {
    only("write", vec![vec![is(0, libc::STDERR_FILENO)]])
}

/// Copies a descriptor. The copy could become stderr, which every thread may write to.
const COPIES: &[i32] = &[libc::F_DUPFD_CLOEXEC];

/// Allows inspecting and changing descriptors, and these commands of fcntl(2).
fn descriptors(more: &[i32]) -> Rule {
    let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];
    let commands = commands.iter().chain(more);
    only("fcntl", commands.map(|one| vec![is(1, *one)]).collect())
}

/// Allows removing files, but no folders.
fn removal() -> Rule {
    only("unlinkat", vec![vec![is(2, 0)]])
}

/// Allows the requests of `ioctl` that a resolver makes: about its sockets, and for names of
/// interfaces (SIOCGIFINDEX, SIOCGIFNAME).
fn questions() -> Rule {
    let asked = [libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD].map(|one| one as i32);
    let asked = asked.into_iter().chain([0x8933, 0x8910]);
    only("ioctl", asked.map(|one| vec![is(1, one)]).collect())
}

/// Allows anonymous memory that is not executable.
fn memory() -> [Rule; 2] {
    let cannot_be_run = masked(2, libc::PROT_EXEC as u32, 0);
    let anonymous = libc::MAP_ANONYMOUS as u32;
    let is_of_no_file = masked(3, anonymous, anonymous);
    [
        only("mmap", vec![vec![cannot_be_run, is_of_no_file]]),
        only("mprotect", vec![vec![cannot_be_run]]),
    ]
}

/// Allows ending this process after an error, and no other process.
fn abort() -> Rule {
    let own = std::process::id().cast_signed();
    only("tgkill", vec![vec![is(0, own)]])
}

fn allowed(folder: &Path, accesses: u64) -> AllowedFolder {
    AllowedFolder {
        folder: folder.to_owned(),
        accesses,
        is_required: true,
    }
}

/// Returns the folder of a file.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
        Some(folder) => folder.to_owned(),
        None => PathBuf::from("/"),
    }
}
