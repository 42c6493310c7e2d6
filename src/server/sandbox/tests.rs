//! Runs the filters on a simulated machine, and by the kernel. Each kernel test has a thread, which
//! stays in its sandbox.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;

use super::calls::{CALLS, Machine};
use super::program::{ALLOWED, Rule};
use super::*;
use crate::server::needs::lacks;
use crate::server::sys::attempts;
use crate::server::sys::confine::Instruction;

/// A system call, as a filter gets it.
#[derive(Clone, Copy, Debug)]
struct Call {
    machine: u32,
    number: u32,
    arguments: [u64; 6],
}

/// Runs a program like the kernel. Panics if the kernel would refuse the program.
fn run(program: &[Instruction], call: Call) -> u32 {
    let load = |at: u32| match at {
        0 => call.number,
        4 => call.machine,
        at => {
            let (place, is_high) = ((at - 16) / 8, at % 8 == 4);
            assert_eq!(at % 4, 0);
            let argument = call.arguments[place as usize];
            (if is_high { argument >> 32 } else { argument }) as u32
        }
    };
    let (mut at, mut word) = (0, 0);
    loop {
        let step = program[at];
        at += 1;
        match step.code {
            0x20 => word = load(step.number),
            0x54 => word &= step.number,
            0x15 if word == step.number => at += usize::from(step.if_so),
            0x15 => at += usize::from(step.if_not),
            0x06 => return step.number,
            code => panic!("{code:#x} is none of the instructions"),
        }
    }
}

/// Evaluates the rules themselves, and not the program that the kernel gets.
fn judge(rules: &[Rule], name: &str, arguments: [u64; 6]) -> bool {
    let rule = rules.iter().find(|rule| rule.call == name);
    rule.is_some_and(|rule| {
        rule.ways.iter().any(|way| {
            let holds =
                |argument: u8, mask, value| arguments[usize::from(argument)] as u32 & mask == value;
            way.iter()
                .all(|test| holds(test.argument, test.mask, test.value))
        })
    })
}

/// Returns all roles with everything that they can need.
fn roles() -> Vec<ThreadRole> {
    let tmp = PathBuf::from("/tmp");
    vec![
        ThreadRole::Loop(LoopNeeds::default()),
        ThreadRole::Loop(LoopNeeds {
            has_rtp: true,
            ports: vec![8000],
            hands_over: true,
            sockets: vec![tmp.join("socket")],
        }),
        ThreadRole::Console,
        ThreadRole::AccessLog(None),
        ThreadRole::AccessLog(Some(tmp.join("log"))),
        ThreadRole::Disk(tmp),
        ThreadRole::Names,
    ]
}

/// Returns numbers that the rules compare with, and some others.
fn arguments_of(rules: &[Rule]) -> Vec<u64> {
    let tests = rules.iter().flat_map(|rule| rule.ways.iter().flatten());
    let values: BTreeSet<u32> = tests.flat_map(|test| [test.value, test.mask]).collect();
    let values = values.into_iter().map(u64::from);
    let near =
        values.flat_map(|value| [value, value + 1, value | 4, value | 1 << 32, value ^ 0x10]);
    near.chain([0, u64::MAX]).collect()
}

#[test]
fn programs_say_what_the_rules_mean_of_every_call() {
    for (machine, role) in [Machine::X86_64, Machine::Aarch64]
        .into_iter()
        .flat_map(|machine| roles().into_iter().map(move |role| (machine, role)))
    {
        let rules = role.rules();
        let program = assemble(machine, &rules, REFUSED);
        assert!(program.len() < 4096, "the kernel takes no more");
        let numbers = arguments_of(&rules);
        for number in (0..600).chain([1 << 30, 1 << 30 | 1, u32::MAX]) {
            let name = CALLS
                .iter()
                .find(|(name, ..)| machine.number(name) == Some(number));
            let name = name.map_or("", |(name, ..)| *name);
            let has_tests = rules
                .iter()
                .any(|rule| rule.call == name && !rule.ways.concat().is_empty());
            let mut tuples = vec![[0; 6], [u64::MAX; 6]];
            if has_tests {
                for (a, b) in numbers
                    .iter()
                    .flat_map(|a| numbers.iter().map(move |b| (a, b)))
                {
                    tuples.extend([0, 1, 4].map(|c| [*a, *b, c, 0, 0, 0]));
                    tuples.extend([[0, *a, *b, 0, 0, 0], [0, 0, *a, *b, 0, 0]]);
                }
            }
            for arguments in tuples {
                let call = Call {
                    machine: machine.word(),
                    number,
                    arguments,
                };
                let meant = match judge(&rules, name, arguments) {
                    true => ALLOWED,
                    false => REFUSED,
                };
                assert_eq!(run(&program, call), meant, "{role:?} {name} {call:x?}");
            }
            // Other machines: i386, arm. x32 was checked above.
            for other in [0x4000_0003, 0x4000_0028, 0] {
                let call = Call {
                    machine: other,
                    number,
                    arguments: [0; 6],
                };
                assert_eq!(run(&program, call), REFUSED);
            }
        }
    }
}

#[test]
fn every_call_of_a_role_is_in_the_table_and_stands_there_once() {
    let names: BTreeSet<&str> = CALLS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names.len(), CALLS.len());
    for role in roles() {
        for rule in role.rules() {
            assert!(names.contains(rule.call), "{}", rule.call);
            assert!(!rule.ways.is_empty(), "{} is never allowed", rule.call);
        }
    }
    for machine in [Machine::X86_64, Machine::Aarch64] {
        let numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| machine.number(name))
            .collect();
        let different: BTreeSet<&u32> = numbers.iter().collect();
        assert_eq!(different.len(), numbers.len());
    }
}

/// The table's numbers equal the constants of the C library, where it has them.
#[test]
fn the_numbers_are_this_machines() {
    if lacks("seccomp", MACHINE.is_some()) {
        return;
    }
    let machine = MACHINE.expect("it is here");
    macro_rules! same {
        ($($name:literal $number:ident),* $(,)?) => {
            $(assert_eq!(machine.number($name).map(i64::from), Some(libc::$number), $name);)*
        };
    }
    same!(
        "accept4" SYS_accept4, "bind" SYS_bind, "brk" SYS_brk, "clock_gettime" SYS_clock_gettime,
        "clock_nanosleep" SYS_clock_nanosleep, "close" SYS_close, "connect" SYS_connect,
        "dup" SYS_dup, "epoll_ctl" SYS_epoll_ctl,
        "epoll_pwait" SYS_epoll_pwait, "exit" SYS_exit,
        "exit_group" SYS_exit_group, "faccessat" SYS_faccessat, "faccessat2" SYS_faccessat2,
        "fcntl" SYS_fcntl, "fdatasync" SYS_fdatasync, "flock" SYS_flock, "fstat" SYS_fstat, "fsync" SYS_fsync,
        "ftruncate" SYS_ftruncate, "futex" SYS_futex, "getcwd" SYS_getcwd,
        "getdents64" SYS_getdents64, "getegid" SYS_getegid, "geteuid" SYS_geteuid,
        "getgid" SYS_getgid, "getpeername" SYS_getpeername, "getpid" SYS_getpid,
        "getrandom" SYS_getrandom, "getrusage" SYS_getrusage, "getsockname" SYS_getsockname,
        "getsockopt" SYS_getsockopt, "gettid" SYS_gettid, "gettimeofday" SYS_gettimeofday,
        "getuid" SYS_getuid, "ioctl" SYS_ioctl, "lseek" SYS_lseek, "madvise" SYS_madvise, "mmap" SYS_mmap, "mprotect" SYS_mprotect,
        "mremap" SYS_mremap, "munmap" SYS_munmap, "nanosleep" SYS_nanosleep,
        "newfstatat" SYS_newfstatat, "openat" SYS_openat, "ppoll" SYS_ppoll,
        "pread64" SYS_pread64, "pselect6" SYS_pselect6, "pwrite64" SYS_pwrite64, "read" SYS_read,
        "readlinkat" SYS_readlinkat, "readv" SYS_readv, "recvfrom" SYS_recvfrom,
        "recvmmsg" SYS_recvmmsg, "recvmsg" SYS_recvmsg, "renameat2" SYS_renameat2,
        "restart_syscall" SYS_restart_syscall, "rt_sigaction" SYS_rt_sigaction,
        "rt_sigprocmask" SYS_rt_sigprocmask, "rt_sigreturn" SYS_rt_sigreturn,
        "sched_getaffinity" SYS_sched_getaffinity, "sched_yield" SYS_sched_yield,
        "sendmmsg" SYS_sendmmsg, "sendmsg" SYS_sendmsg, "sendto" SYS_sendto,
        "setsockopt" SYS_setsockopt, "shutdown" SYS_shutdown, "sigaltstack" SYS_sigaltstack,
        "socket" SYS_socket, "statx" SYS_statx, "sysinfo" SYS_sysinfo, "tgkill" SYS_tgkill,
        "uname" SYS_uname, "unlinkat" SYS_unlinkat, "write" SYS_write, "writev" SYS_writev,
    );
}

/// Returns what `within` returns in the sandbox of a role; `None` if this kernel has no filters, or
/// not this version of Landlock.
fn in_box<T: Send + 'static>(
    mode: SandboxMode,
    landlock: u32,
    role: ThreadRole,
    within: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if lacks("seccomp", confine::has_verdict(LOGGED)) || lacks_landlock(landlock) {
        return None;
    }
    let thread = thread::spawn(move || {
        let sandbox = Sandbox::new(mode).expect("it looks");
        sandbox.enter(&role).expect("it enters");
        within()
    });
    Some(thread.join().expect("it ends"))
}

fn lacks_landlock(version: u32) -> bool {
    lacks("landlock", confine::landlock_version() >= version)
}

fn denied<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Creates an empty folder for a test.
fn folder_for(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn calls_that_no_thread_needs_are_refused_to_all() {
    for role in roles() {
        let what = format!("{role:?}");
        let made = in_box(SandboxMode::On, 0, role, attempts::not_refused);
        assert_eq!(made.unwrap_or_default(), [""; 0], "{what}");
    }
}

#[test]
fn no_thread_runs_another_program_or_makes_memory_that_can_be_run() {
    for role in roles() {
        let is_names = matches!(role, ThreadRole::Names);
        let what = format!("{role:?}");
        let refused = in_box(SandboxMode::On, 0, role, || {
            (
                denied(Command::new("/bin/true").spawn()),
                denied(thread::Builder::new().spawn(|| ())),
                denied(attempts::map(libc::PROT_EXEC, None, false)),
            )
        });
        if let Some(refused) = refused {
            // The thread that resolves names loads modules.
            assert_eq!(refused, (true, true, !is_names), "{what}");
        }
    }
}

#[test]
fn sockets_of_other_families_and_kinds_are_refused() {
    let opened = |role| {
        in_box(SandboxMode::On, 0, role, || {
            let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP];
            let kinds = (0..64).flat_map(|family| [1, 2, 3, 4, 5, 10].map(|kind| (family, kind)));
            let all = kinds.flat_map(|(family, kind)| protocols.map(|one| (family, kind, one)));
            let is_open = |(family, kind, protocol): &(i32, i32, i32)| {
                let opened = attempts::socket(*family, *kind, *protocol);
                !opened.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
            };
            all.filter(is_open).collect::<Vec<_>>()
        })
    };
    let each = |kinds: &[(i32, i32)]| {
        let families = [libc::AF_INET, libc::AF_INET6].into_iter();
        let all = families.flat_map(|family| kinds.iter().map(move |(a, b)| (family, *a, *b)));
        all.collect::<Vec<_>>()
    };
    let of_the_loop = each(&[(libc::SOCK_STREAM, 0), (libc::SOCK_DGRAM, 0)]);
    let of_names = each(&[
        (libc::SOCK_STREAM, 0),
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_DGRAM, 0),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ]);
    let full_loop = roles().swap_remove(1);
    assert_eq!(
        opened(full_loop).unwrap_or(of_the_loop.clone()),
        of_the_loop
    );
    assert_eq!(
        opened(ThreadRole::Names).unwrap_or(of_names.clone()),
        of_names
    );
}

#[test]
fn the_disks_thread_writes_in_its_folder_and_nowhere_else() {
    let (folder, other) = (folder_for("disk"), folder_for("elsewhere"));
    fs::write(other.join("file"), "here").expect("written");
    let (inside, outside) = (folder.clone(), other.clone());
    let found = in_box(
        SandboxMode::On,
        4,
        ThreadRole::Disk(folder.clone()),
        move || {
            let new = inside.join("tokens.new");
            let made = fs::write(&new, "new")
                .and_then(|()| fs::rename(&new, inside.join("tokens")))
                .and_then(|()| File::open(&inside)?.sync_all())
                .and_then(|()| File::open(inside.join("tokens"))?.read_at(&mut [0; 8], 0))
                .and_then(|_| fs::remove_file(inside.join("tokens")));
            let refused = [
                denied(fs::read(outside.join("file"))),
                denied(fs::write(outside.join("another"), "")),
                denied(fs::remove_file(outside.join("file"))),
                denied(fs::rename(outside.join("file"), inside.join("file"))),
                denied(fs::create_dir(inside.join("folder"))),
                denied(UdpSocket::bind("127.0.0.1:0")),
            ];
            (made.map_err(|error| error.to_string()), refused)
        },
    );
    if let Some((made, refused)) = found {
        assert_eq!(made, Ok(()));
        assert_eq!(refused, [true; 6]);
    }
    for folder in [folder, other] {
        fs::remove_dir_all(folder).expect("it was there");
    }
}

#[test]
fn the_access_log_is_opened_anew_where_it_was_and_nowhere_else() {
    let (folder, other) = (folder_for("log"), folder_for("log-elsewhere"));
    let (path, outside) = (folder.join("access.log"), other.clone());
    fs::write(&path, "").expect("written");
    let role = ThreadRole::AccessLog(Some(path.clone()));
    let found = in_box(SandboxMode::On, 4, role, move || {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let again = options.open(&path).map(drop);
        let anew = options.open(path.with_extension("1")).map(drop);
        let refused = [
            denied(fs::write(outside.join("file"), "")),
            denied(fs::remove_file(&path)),
            denied(fs::read("/etc/hostname")),
        ];
        (again.is_ok(), anew.is_ok(), refused)
    });
    assert!(matches!(
        found,
        None | Some((true, true, [true, true, true]))
    ));
    for folder in [folder, other] {
        fs::remove_dir_all(folder).expect("it was there");
    }
}

#[test]
fn names_are_found_and_nothing_else_is() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let here = listener.local_addr().expect("its address");
    let found = in_box(SandboxMode::On, 4, ThreadRole::Names, move || {
        let localhost = ("localhost", 7).to_socket_addrs();
        let refused = [
            denied(fs::read("/proc/self/environ")),
            denied(fs::write("/etc/tollgate-no", "")),
            denied(fs::write("/tmp/tollgate-no", "")),
            denied(TcpStream::connect(here)),
            denied(TcpListener::bind("127.0.0.1:0")),
        ];
        let addresses = localhost.map(Iterator::collect::<Vec<_>>);
        (addresses.map_err(|error| error.to_string()), refused)
    });
    if let Some((addresses, refused)) = found {
        let addresses = addresses.expect("it has one");
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
        assert_eq!(refused, [true; 5]);
    }
}

/// Without the filter, Landlock alone also refuses files and ports.
#[test]
fn landlock_alone_leaves_the_loop_no_file_and_no_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let here = listener.local_addr().expect("its address");
    let folder = folder_for("walls");
    let path = folder.join("file");
    fs::write(&path, "here").expect("written");
    if lacks_landlock(4) {
        return;
    }
    let thread = thread::spawn(move || {
        let sandbox = Sandbox::new(SandboxMode::On).expect("it looks");
        let role = ThreadRole::Loop(LoopNeeds::default());
        give_up_folders(sandbox.landlock, &role).expect("it gives up");
        [
            denied(fs::read(&path)),
            denied(fs::write(&path, "")),
            denied(fs::remove_file(&path)),
            denied(fs::rename(&path, path.with_extension("1"))),
            denied(fs::create_dir(path.with_extension("2"))),
            denied(fs::read_dir("/").map(drop)),
            denied(Command::new("/bin/true").status()),
            denied(TcpStream::connect(here)),
            denied(TcpListener::bind("127.0.0.1:0")),
        ]
    });
    assert_eq!(thread.join().expect("it ends"), [true; 9]);
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn log_refuses_nothing() {
    let role = ThreadRole::Loop(LoopNeeds::default());
    let found = in_box(SandboxMode::Log, 0, role, || {
        let status = fs::read_to_string("/proc/thread-self/status");
        let is_filtered = |status: String| status.contains("Seccomp:\t2");
        (
            status.is_ok_and(is_filtered),
            Command::new("/bin/true").status().is_ok(),
        )
    });
    assert!(matches!(found, None | Some((true, true))));
}

#[test]
fn the_operator_is_told_what_was_taken() {
    let report = |mode, has_filters, landlock| {
        let sandbox = Sandbox {
            mode,
            has_filters,
            landlock,
        };
        sandbox.report().unwrap_or_default()
    };
    use SandboxMode::{Log, Off, On};
    for (mode, has_filters, landlock, said) in [
        (
            On,
            true,
            7,
            "level=info event=sandbox calls=refused files=refused ports=refused processes=refused landlock=7 detail=\"each thread gave up the rights that it does not need\"",
        ),
        (
            On,
            true,
            3,
            "level=warn event=sandbox calls=refused files=refused ports=open processes=open landlock=3 detail=\"this kernel lacks the parts that are open\"",
        ),
        (
            On,
            false,
            6,
            "level=warn event=sandbox calls=open files=refused ports=refused processes=refused landlock=6 detail=\"this kernel lacks the parts that are open\"",
        ),
        (
            On,
            false,
            0,
            "level=warn event=sandbox calls=open files=open ports=open processes=open landlock=0 detail=\"this kernel lacks the parts that are open\"",
        ),
        (
            Log,
            true,
            7,
            "level=info event=sandbox calls=logged files=open ports=open processes=open landlock=7 detail=\"nothing is refused; the kernel's audit log has the calls that --sandbox=on would refuse\"",
        ),
        (Off, true, 7, ""),
    ] {
        assert_eq!(report(mode, has_filters, landlock), said);
    }
}

/// Attempts, each with whether it succeeded.
type Attempts = Vec<(&'static str, bool)>;

/// Makes all attempts of the table in `docs/sandbox.md`. `own` is the folder of the thread; `other`
/// has files of other threads and programs.
fn try_all(role: ThreadRole, own: &Path, other: &Path) -> Option<Attempts> {
    let (file, below) = (own.join("file"), own.join("below"));
    fs::create_dir_all(&below).expect("a folder");
    for path in [&file, &below.join("file"), &other.join("file")] {
        fs::write(path, "here").expect("written");
    }
    let sockets = [other.join("stream"), other.join("datagrams")];
    let of_files = UnixListener::bind(&sockets[0]).expect("a socket");
    let datagrams = UnixDatagram::bind(&sockets[1]).expect("a socket");
    let [named, unnamed] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [named_at, at] = [&named, &unnamed].map(|each| each.local_addr().expect("its address"));
    let role = match role {
        ThreadRole::Loop(needs) => ThreadRole::Loop(LoopNeeds {
            ports: needs.ports.iter().map(|_| named_at.port()).collect(),
            ..needs
        }),
        role => role,
    };
    let closed = ["sendto", "sendmsg", "sendmmsg"].map(|call| {
        let socket = attempts::socket(libc::AF_INET, libc::SOCK_STREAM, 0).expect("a socket");
        (call, socket)
    });
    let tokens = File::options()
        .read(true)
        .write(true)
        .open(other.join("file"))
        .expect("it is there");
    let unbound = UnixDatagram::unbound().expect("a socket");
    let (own, other, unconnected) = (
        own.to_owned(),
        other.to_owned(),
        UdpSocket::bind("127.0.0.1:0").expect("a port"),
    );
    let to_itself = unconnected.local_addr().expect("its address");
    let tried = in_box(SandboxMode::On, 6, role, move || {
        fn can<T>(result: io::Result<T>) -> bool {
            !denied(result)
        }
        let read = |mut file: &File| can(file.read(&mut [0])) || can(file.read_at(&mut [0], 0));
        let read_file = |path: &Path| File::open(path).is_ok_and(|file| read(&file));
        let open = |family, kind, protocol| can(attempts::socket(family, kind, protocol));
        let change = |path: &Path| can(File::options().write(true).open(path));
        let make = |path: &Path| can(File::options().write(true).create_new(true).open(path));
        let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
        let by_sending =
            closed.map(|(call, socket)| can(attempts::connect_by_sending(call, &socket, at)));
        vec![
            ("start a program", can(Command::new("/bin/true").status())),
            ("start a thread", can(thread::Builder::new().spawn(|| ()))),
            (
                "make memory that can be run",
                can(attempts::map(libc::PROT_EXEC, None, false)),
            ),
            ("signal another process", can(attempts::signal_parent())),
            (
                "read what other threads have opened",
                read(&tokens) || can(attempts::map(libc::PROT_READ, Some(tokens.as_fd()), false)),
            ),
            (
                "write to what other threads have opened",
                can((&tokens).write(b"x"))
                    || can(tokens.write_at(b"x", 0))
                    || can(attempts::map(libc::PROT_WRITE, Some(tokens.as_fd()), true)),
            ),
            (
                "read files below `/etc`",
                read_file(Path::new("/etc/passwd")),
            ),
            ("read files elsewhere", read_file(&other.join("file"))),
            (
                "see whether files elsewhere exist, with size and times",
                can(fs::metadata(other.join("file"))),
            ),
            ("change, make or remove files elsewhere", {
                change(&other.join("file"))
                    || make(&other.join("new"))
                    || can(fs::remove_file(other.join("file")))
            }),
            (
                "read files in its folder, and in all below it",
                read_file(&file) && read_file(&below.join("file")),
            ),
            (
                "change files there",
                change(&file) && change(&below.join("file")),
            ),
            (
                "make files there",
                make(&own.join("new")) && make(&below.join("new")),
            ),
            (
                "rename files there, within one folder",
                can(fs::rename(&file, own.join("renamed"))),
            ),
            (
                "remove files there",
                can(fs::remove_file(below.join("file"))),
            ),
            ("make folders or links there", {
                can(fs::create_dir(own.join("folder"))) || can(symlink("file", own.join("link")))
            }),
            (
                "open a TCP socket",
                open(libc::AF_INET, libc::SOCK_STREAM, 0),
            ),
            (
                "open a socket of Multipath TCP",
                open(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
            ),
            ("open a raw socket", {
                open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
                    || open(libc::AF_PACKET, libc::SOCK_RAW, 0)
            }),
            (
                "open a socket to the kernel (netlink)",
                open(libc::AF_NETLINK, libc::SOCK_RAW, 0),
            ),
            (
                "listen at a TCP port",
                can(TcpListener::bind("127.0.0.1:0")),
            ),
            (
                "connect to a TCP port that an option names",
                can(TcpStream::connect(named_at)),
            ),
            ("connect to the TCP port 53", can(TcpStream::connect(dns))),
            ("connect to another TCP port", can(TcpStream::connect(at))),
            (
                "connect to a TCP port with `MSG_FASTOPEN`",
                by_sending.contains(&true),
            ),
            (
                "open a UDP socket, and bind it to any port",
                can(UdpSocket::bind("127.0.0.1:0")),
            ),
            (
                "send datagrams to any address, by a socket that is open",
                can(unconnected.send_to(b"x", to_itself)),
            ),
            (
                "open a socket for the file system, and connect it",
                can(UnixStream::connect(&sockets[0])),
            ),
            (
                "send datagrams to a socket in the file system, by one that is open",
                can(unbound.send_to(b"x", &sockets[1])),
            ),
        ]
    });
    drop((of_files, datagrams));
    tried
}

/// `TOLLGATE_WRITE_README=1 cargo test --lib sandbox` rewrites the table.
#[test]
fn the_docs_list_what_each_thread_can_still_do() {
    let mut columns = Vec::new();
    for name in [
        "the loop",
        "… with all options",
        "the log on stderr",
        "the access log on stdout",
        "… in a file",
        "the token file",
        "names",
    ] {
        let [own, other] = ["own", "other"].map(|folder| folder_for(&format!("table-{folder}")));
        let role = match name {
            "the loop" => ThreadRole::Loop(LoopNeeds::default()),
            "… with all options" => ThreadRole::Loop(LoopNeeds {
                has_rtp: true,
                ports: vec![1],
                hands_over: true,
                sockets: vec![own.join("socket")],
            }),
            "the log on stderr" => ThreadRole::Console,
            "the access log on stdout" => ThreadRole::AccessLog(None),
            "… in a file" => ThreadRole::AccessLog(Some(own.join("log"))),
            "the token file" => ThreadRole::Disk(own.clone()),
            _ => ThreadRole::Names,
        };
        let tried = try_all(role, &own, &other);
        for folder in [own, other] {
            fs::remove_dir_all(folder).expect("it was there");
        }
        let Some(tried) = tried else { return };
        columns.push((name, tried));
    }
    let row = |first: &str, cells: Vec<&str>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut table = row("", columns.iter().map(|(name, _)| *name).collect());
    table += &row("---", vec!["---"; columns.len()]);
    for (index, (what, _)) in columns[0].1.iter().enumerate() {
        let is_done = |tried: &Attempts| if tried[index].1 { "yes" } else { "" };
        table += &row(
            what,
            columns.iter().map(|(_, tried)| is_done(tried)).collect(),
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sandbox.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (before, rest) = page
        .split_once("<!-- threads -->\n")
        .expect("where the table begins");
    let (there, behind) = rest
        .split_once("<!-- /threads -->")
        .expect("where the table ends");
    if env::var_os("TOLLGATE_WRITE_README").is_some() {
        let page = format!("{before}<!-- threads -->\n{table}<!-- /threads -->{behind}");
        fs::write(&path, page).expect("it can be written");
    } else {
        assert!(
            there == table,
            "docs/sandbox.md has another table; this is what they do:\n{table}"
        );
    }
}
