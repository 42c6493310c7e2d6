//! A disk that is full or fails, and a server that is killed while it uses it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::until;
use super::{call, fresh, long_journal, option, start};
use tollgate::gate::journal;

/// Asks a server that may be killed before it answers.
fn try_call(address: SocketAddr, method: &str, target: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    Some(status.to_owned())
}

/// Attaches strace to the server, so that `fault` befalls it at its call number `when` of `calls`.
fn inject(server: &Server, calls: &str, fault: &str, when: usize) -> Child {
    let pid = server.pid().to_string();
    let mut tracer = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-p", &pid])
        .args(["-e", &format!("trace={calls}")])
        .args(["-e", &format!("inject={calls}:{fault}:when={when}")])
        .spawn()
        .expect("strace runs");
    until("strace is attached", || {
        assert!(tracer.try_wait().expect("a child").is_none(), "no strace");
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let mut statuses = threads
            .map(|thread| fs::read_to_string(thread.expect("it runs").path().join("status")));
        let is_traced = |status: std::io::Result<String>| {
            let status = status.expect("it runs");
            !status.contains("TracerPid:\t0")
        };
        statuses.all(is_traced).then_some(())
    });
    tracer
}

/// What the table of [`long_journal`] is changed by; it is compacted after the first change.
const CHANGES: [(&str, &str, &str); 3] = [
    ("POST", "/api/add-token?type=http&sessionid=one", "201"),
    ("DELETE", "/api/revoke-token?sessionid=kept", "200"),
    ("POST", "/api/add-token?type=http&sessionid=two", "201"),
];

/// The system calls that they take. A line is written and synced, thrice. Compacting removes,
/// makes, writes and syncs a file, renames it, and opens and syncs the folder.
const CALLS: [(&str, usize); 6] = [
    ("pwrite64", 4),
    ("fdatasync", 3),
    ("?unlink,?unlinkat", 1),
    ("openat", 3),
    ("fsync", 2),
    ("?rename,?renameat,?renameat2", 1),
];

fn sessions(server: &Server) -> Vec<String> {
    let name = |token: &Value| token["sessionid"].as_str().expect("a name").to_owned();
    server.tokens().iter().map(name).collect()
}

/// Makes the changes on a server that is killed on the way. Says whether it was.
fn is_killed_and_loses_nothing(path: &Path, calls: &str, when: usize) -> bool {
    let tables = [
        vec!["kept"],
        vec!["kept", "one"],
        vec!["one"],
        vec!["one", "two"],
    ];
    fs::write(path, long_journal()).expect("a journal");
    let server = start(path);
    fs::write(path.with_extension("new"), journal::HEADER).expect("what a failure left");
    let mut tracer = inject(&server, calls, "signal=KILL", when);
    let mut answered = 0;
    for (method, target, status) in CHANGES {
        match try_call(server.address(), method, target) {
            Some(given) => assert_eq!(given, status, "{target}"),
            None => break,
        }
        answered += 1;
    }
    let is_killed = answered < CHANGES.len();
    if is_killed {
        server.forget();
    } else {
        drop(server);
    }
    tracer.wait().expect("a child");
    let found = sessions(&start(path));
    assert!(
        found == tables[answered]
            || tables
                .get(answered + 1)
                .is_some_and(|table| found == *table),
        "{calls} {when}, {answered} answered: {found:?}"
    );
    is_killed
}

/// Killed before every system call that changes anything on the disk, through changes and a
/// compaction.
#[test]
#[ignore = "needs strace, and root to attach it"]
fn a_kill_before_any_system_call_loses_nothing() {
    let path = fresh("points");
    for (calls, count) in CALLS {
        let kills = (1..).take_while(|when| is_killed_and_loses_nothing(&path, calls, *when));
        assert_eq!(kills.count(), count, "{calls}");
    }
    assert!(fs::metadata(&path).expect("the file").len() < 1000);
}

/// The same for a key of one second: for its addition and for the record of its end. Confirmed
/// changes are there, and an expired key stays expired.
#[test]
#[ignore = "needs strace, and root to attach it"]
fn a_kill_before_any_system_call_opens_no_key_that_is_over() {
    let path = fresh("points-over");
    let target = "/api/add-token?type=http&sessionid=key&for=show&direction=out&expires=1";
    for (calls, when) in [
        ("pwrite64", 1),
        ("pwrite64", 2),
        ("fdatasync", 1),
        ("fdatasync", 2),
    ] {
        let _ = fs::remove_file(&path);
        let server = start(&path);
        let mut tracer = inject(&server, calls, "signal=KILL", when);
        let given = try_call(server.address(), "POST", target);
        assert_eq!(
            given.as_deref(),
            (when == 2).then_some("201"),
            "{calls} {when}"
        );
        // It is killed then, or when the key is over.
        server.forget();
        tracer.wait().expect("a child");
        let server = start(&path);
        let found = sessions(&server);
        if when == 2 {
            assert_eq!(found, ["key"], "{calls}");
            let refused = server.request("GET", "/stream/key");
            refused.assert_problem(403, &["has expired"]);
        } else if found == ["key"] {
            until("it is over", || {
                let refused = server.request("GET", "/stream/key");
                (refused.status() == 403).then_some(())
            });
        }
        server.signal("KILL");
        server.forget();
        let again = start(&path).request("GET", "/stream/key");
        let words = if found.is_empty() {
            "no http token"
        } else {
            "has expired"
        };
        again.assert_problem(403, &[words]);
    }
}

/// A disk that fails in any one call: the change is refused and not made, or the journal stays long.
/// Later changes work.
#[test]
#[ignore = "needs strace, and root to attach it"]
fn a_failure_of_any_system_call_changes_nothing_and_is_over() {
    let path = fresh("faults");
    // And twice at once: what cannot be taken away again must not come back.
    for (calls, count) in CALLS.into_iter().chain([("fdatasync,ftruncate", 1)]) {
        for when in 1..=count {
            fs::write(&path, long_journal()).expect("a journal");
            let server = start(&path);
            fs::write(path.with_extension("new"), journal::HEADER).expect("what a failure left");
            let mut tracer = inject(&server, calls, "error=EIO", when);
            let mut expected = vec!["kept"];
            let mut refused = 0;
            for ((method, target, status), name) in CHANGES.into_iter().zip(["one", "kept", "two"])
            {
                let given = try_call(server.address(), method, target).expect("it runs");
                if given == "507" {
                    refused += 1;
                    continue;
                }
                assert_eq!(given, status, "{calls} {when}: {target}");
                match method {
                    "POST" => expected.push(name),
                    _ => expected.retain(|known| *known != name),
                }
            }
            let event = if refused > 0 {
                "not-written"
            } else {
                "not-compacted"
            };
            server.await_line(&[&format!("event=token-file-{event}"), "os error 5"]);
            assert!(refused <= 1, "{calls} {when}");
            assert_eq!(sessions(&server), expected, "{calls} {when}");
            drop(server);
            tracer.wait().expect("a child");
            assert_eq!(sessions(&start(&path)), expected, "{calls} {when}");
        }
    }
}

/// Adds tokens until the file takes no more; then streams go on, the table is as it was, and later
/// there is room again.
fn fill_up(server: &Server, make_room: impl FnOnce()) {
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    let name = "x".repeat(200);
    let mut count = 0;
    let refused = loop {
        let target = format!("/api/add-token?type=http&sessionid={name}{count}");
        let answer = server.request("POST", &target);
        if answer.status() != 201 {
            break answer;
        }
        count += 1;
        assert!(count < 10_000, "the disk does not fill up");
    };
    refused.assert_problem(507, &["token file", "nothing was changed"]);
    server.await_line(&["level=error", "event=token-file-not-written"]);
    let figures = server.request("GET", "/metrics").text();
    let failed = "tollgate_token_file_writes_total{result=\"failed\"} 1\n";
    assert!(figures.contains(failed), "{figures}");
    assert_eq!(server.tokens().len(), count + 1);
    source.send(b"still here");
    assert_eq!(viewer.read(10), b"still here");
    make_room();
    let target = format!("/api/add-token?type=http&sessionid={name}{count}");
    call(server, "POST", &target, 201);
    assert_eq!(server.tokens().len(), count + 2);
}

#[test]
fn a_file_that_cannot_grow_is_507_and_streams_go_on() {
    let path = fresh("limit");
    // What the kernel does at this limit, but for a signal, is what it does at the end of a disk.
    let server = Server::start_after(
        "ulimit -S -f 32",
        &["--token-server=127.0.0.1/32", &option(&path)],
    );
    let pid = server.pid().to_string();
    fill_up(&server, || {
        let status = Command::new("prlimit")
            .args(["--pid", &pid, "--fsize=unlimited"])
            .status();
        assert!(status.expect("prlimit runs").success());
    });
    let tokens = server.tokens();
    drop(server);
    assert_eq!(start(&path).tokens(), tokens);
}

#[test]
#[ignore = "needs root, to mount a small file system"]
fn a_full_disk_is_507_and_streams_go_on() {
    let path = fresh("disk");
    let folder = path.parent().expect("its folder").to_owned();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(&folder).status();
        assert!(status.expect("mount runs").success());
    };
    mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
    let server = start(&path);
    fs::write(folder.join("filler"), [0; 20 * 1024]).expect("room");
    fill_up(&server, || {
        fs::remove_file(folder.join("filler")).expect("it is there");
    });
    let tokens = server.tokens();
    drop(server);
    assert_eq!(start(&path).tokens(), tokens);
    let _ = Command::new("umount").arg("-l").arg(&folder).status();
}
