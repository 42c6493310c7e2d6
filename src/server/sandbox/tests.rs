//! What the filters say, by a machine that runs them here, and what the kernel does by them: each
//! test has a thread of its own, which is in its box for as long as it lives.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

use super::calls::{CALLS, Machine};
use super::program::{ALLOWED, Rule};
use super::*;
use crate::server::sys::confine::{Instruction, attempt};

/// A call as the kernel hands it to a filter.
#[derive(Clone, Copy, Debug)]
struct Call {
    machine: u32,
    number: u32,
    arguments: [u64; 6],
}

/// Runs a program as the kernel does, and fails where the kernel would not take it.
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

/// What the rules mean, without a program.
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

/// All there are, with all that they may have to do.
fn roles() -> Vec<Role> {
    let tmp = PathBuf::from("/tmp");
    vec![
        Role::Loop(Errands::default()),
        Role::Loop(Errands {
            has_rtp: true,
            ports: vec![8000],
            hands_over: true,
            sockets: vec![tmp.join("socket")],
        }),
        Role::Console,
        Role::AccessLog(None),
        Role::AccessLog(Some(tmp.join("log"))),
        Role::Disk(tmp),
        Role::Names,
    ]
}

/// Numbers that tests of arguments are about, and some beside them.
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
                    tuples.push([0, *a, *b, 0, 0, 0]);
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
            // Of another machine: i386, arm, and x32 was looked at above.
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

/// The table's numbers are those of the C library, where it knows the call.
#[test]
fn the_numbers_are_this_machines() {
    let Some(machine) = MACHINE else { return };
    macro_rules! same {
        ($($name:literal $number:ident),* $(,)?) => {
            $(assert_eq!(machine.number($name).map(i64::from), Some(libc::$number), $name);)*
        };
    }
    same!(
        "accept4" SYS_accept4, "bind" SYS_bind, "brk" SYS_brk, "clock_gettime" SYS_clock_gettime,
        "clock_nanosleep" SYS_clock_nanosleep, "close" SYS_close, "connect" SYS_connect,
        "dup" SYS_dup, "epoll_create1" SYS_epoll_create1, "epoll_ctl" SYS_epoll_ctl,
        "epoll_pwait" SYS_epoll_pwait, "eventfd2" SYS_eventfd2, "exit" SYS_exit,
        "exit_group" SYS_exit_group, "faccessat" SYS_faccessat, "faccessat2" SYS_faccessat2,
        "fcntl" SYS_fcntl, "fdatasync" SYS_fdatasync, "fstat" SYS_fstat, "fsync" SYS_fsync,
        "ftruncate" SYS_ftruncate, "futex" SYS_futex, "getcwd" SYS_getcwd,
        "getdents64" SYS_getdents64, "getegid" SYS_getegid, "geteuid" SYS_geteuid,
        "getgid" SYS_getgid, "getpeername" SYS_getpeername, "getpid" SYS_getpid,
        "getrandom" SYS_getrandom, "getrusage" SYS_getrusage, "getsockname" SYS_getsockname,
        "getsockopt" SYS_getsockopt, "gettid" SYS_gettid, "gettimeofday" SYS_gettimeofday,
        "getuid" SYS_getuid, "ioctl" SYS_ioctl, "lseek" SYS_lseek, "madvise" SYS_madvise,
        "memfd_create" SYS_memfd_create, "mmap" SYS_mmap, "mprotect" SYS_mprotect,
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
        "timerfd_create" SYS_timerfd_create, "timerfd_settime" SYS_timerfd_settime,
        "uname" SYS_uname, "unlinkat" SYS_unlinkat, "write" SYS_write, "writev" SYS_writev,
    );
}

/// What `within` finds out in the box of a role; `None` where this kernel has none.
fn in_box<T: Send + 'static>(
    mode: SandboxMode,
    role: Role,
    within: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let thread = thread::spawn(move || {
        let sandbox = Sandbox::new(mode).expect("it looks");
        if !sandbox.has_filters || sandbox.landlock < 4 {
            return None;
        }
        sandbox.enter(&role).expect("it enters");
        Some(within())
    });
    thread.join().expect("it ends")
}

/// A thread with Landlock alone.
fn in_walls<T: Send + 'static>(
    role: Role,
    within: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let thread = thread::spawn(move || {
        let sandbox = Sandbox::new(SandboxMode::On).expect("it looks");
        if sandbox.landlock < 4 {
            return None;
        }
        give_up_places(sandbox.landlock, &role).expect("it gives up");
        Some(within())
    });
    thread.join().expect("it ends")
}

fn denied<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// An empty folder of this test's own.
fn folder_for(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Calls that no thread here has a use for: to run something, to look into others or to end them,
/// to change who one is, to mount, to load, to watch, and ways around what is refused.
const FOR_NOBODY: &[(&str, i64)] = &[
    ("acct", libc::SYS_acct),
    ("add_key", libc::SYS_add_key),
    ("bpf", libc::SYS_bpf),
    ("capset", libc::SYS_capset),
    ("chdir", libc::SYS_chdir),
    ("chroot", libc::SYS_chroot),
    ("clone", libc::SYS_clone),
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

#[test]
fn what_nobody_needs_is_refused_to_every_thread() {
    for role in roles() {
        let what = format!("{role:?}");
        let made = in_box(SandboxMode::On, role, || {
            let refused = |number: i64| {
                let made = attempt(number as u32, [0; 6]);
                made.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
            };
            let made = FOR_NOBODY.iter().filter(|(_, number)| !refused(*number));
            made.map(|(name, _)| *name).collect::<Vec<_>>()
        });
        assert_eq!(made.unwrap_or_default(), [""; 0], "{what}");
    }
}

#[test]
fn no_thread_runs_another_program_or_makes_memory_that_can_be_run() {
    for role in roles() {
        let is_names = matches!(role, Role::Names);
        let what = format!("{role:?}");
        let refused = in_box(SandboxMode::On, role, || {
            let exec = (libc::PROT_READ | libc::PROT_EXEC) as usize;
            let mmap = Machine::number(MACHINE.expect("one"), "mmap").expect("its number");
            let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let mapped = attempt(mmap, [0, 4096, exec, private, usize::MAX, 0]);
            let threads = thread::Builder::new().spawn(|| ());
            (
                denied(Command::new("/bin/true").spawn()),
                denied(threads),
                denied(mapped),
            )
        });
        if let Some(refused) = refused {
            // Those that look up names load modules.
            assert_eq!(refused, (true, true, !is_names), "{what}");
        }
    }
}

/// Where the loop has no errand outside it has no way out.
#[test]
fn the_loop_opens_no_file_and_no_socket_that_it_has_no_errand_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let here = listener.local_addr().expect("its address");
    type Found = (bool, bool, bool, bool, bool);
    let find = move |to: SocketAddr| -> Found {
        (
            denied(fs::read("/etc/hostname")) && denied(fs::write("/tmp/tollgate-no", "")),
            denied(UdpSocket::bind("127.0.0.1:0")),
            denied(UnixDatagram::unbound()),
            denied(TcpStream::connect(to)),
            denied(fs::remove_file("/tmp/tollgate-no")),
        )
    };
    let idle = in_box(SandboxMode::On, Role::Loop(Errands::default()), move || {
        find(here)
    });
    assert!(matches!(idle, None | Some((true, true, true, true, true))));
    let errands = Errands {
        has_rtp: true,
        ports: vec![here.port()],
        hands_over: false,
        sockets: Vec::new(),
    };
    let busy = in_box(SandboxMode::On, Role::Loop(errands), move || find(here));
    assert!(matches!(
        busy,
        None | Some((true, false, true, false, true))
    ));
    let elsewhere = Errands {
        has_rtp: false,
        ports: vec![here.port() ^ 1],
        ..Errands::default()
    };
    let elsewhere = in_box(SandboxMode::On, Role::Loop(elsewhere), move || find(here));
    assert!(matches!(
        elsewhere,
        None | Some((true, true, true, true, true))
    ));
}

#[test]
fn sockets_of_other_families_and_kinds_are_refused_to_the_loop() {
    let role = roles().swap_remove(1);
    let made = in_box(SandboxMode::On, role, || {
        let socket = Machine::number(MACHINE.expect("one"), "socket").expect("its number");
        let kinds = [1, 2, 3, 4, 5, 10].map(|kind| kind | libc::SOCK_CLOEXEC as usize);
        let all = (0..64).flat_map(|family| kinds.map(|kind| (family, kind)));
        let made = all.filter(|(family, kind)| {
            let made = attempt(socket, [*family, *kind, 0, 0, 0, 0]);
            !made.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
        });
        made.map(|(family, kind)| (family, kind & 0xf))
            .collect::<Vec<_>>()
    });
    let (four, six) = (libc::AF_INET as usize, libc::AF_INET6 as usize);
    assert_eq!(
        made.unwrap_or(vec![(four, 1), (four, 2), (six, 1), (six, 2)]),
        [(four, 1), (four, 2), (six, 1), (six, 2)]
    );
}

#[test]
fn the_disks_thread_writes_in_its_folder_and_nowhere_else() {
    let (folder, other) = (folder_for("disk"), folder_for("elsewhere"));
    fs::write(other.join("file"), "here").expect("written");
    let (inside, outside) = (folder.clone(), other.clone());
    let found = in_box(SandboxMode::On, Role::Disk(folder.clone()), move || {
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
    });
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
    let role = Role::AccessLog(Some(path.clone()));
    let found = in_box(SandboxMode::On, role, move || {
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
    let found = in_box(SandboxMode::On, Role::Names, move || {
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

/// Each wall stands by itself: what the filter would refuse before, Landlock refuses, too.
#[test]
fn landlock_alone_leaves_the_loop_no_file_and_no_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let here = listener.local_addr().expect("its address");
    let folder = folder_for("walls");
    let path = folder.join("file");
    fs::write(&path, "here").expect("written");
    let refused = in_walls(Role::Loop(Errands::default()), move || {
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
    assert_eq!(refused.unwrap_or([true; 9]), [true; 9]);
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn log_refuses_nothing() {
    let role = Role::Loop(Errands::default());
    let found = in_box(SandboxMode::Log, role, || {
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
            "level=info event=sandbox calls=refused files=refused ports=refused processes=refused landlock=7 detail=\"what no thread needs\"",
        ),
        (
            On,
            true,
            3,
            "level=warn event=sandbox calls=refused files=refused ports=open processes=open landlock=3 detail=\"this kernel has no more\"",
        ),
        (
            On,
            false,
            6,
            "level=warn event=sandbox calls=open files=refused ports=refused processes=refused landlock=6 detail=\"this kernel has no more\"",
        ),
        (
            On,
            false,
            0,
            "level=warn event=sandbox calls=open files=open ports=open processes=open landlock=0 detail=\"this kernel has no more\"",
        ),
        (
            Log,
            true,
            7,
            "level=info event=sandbox calls=logged files=open ports=open processes=open landlock=7 detail=\"nothing is refused; the kernel's audit log tells what would be\"",
        ),
        (Off, true, 7, ""),
    ] {
        assert_eq!(report(mode, has_filters, landlock), said);
    }
}
