//! `--sandbox` as the kernel shows it: which threads of the program have given up what, and that
//! they still do all that they are for. What is refused to them is tried in
//! `src/server/sandbox/tests.rs`; that all else works within it each other test shows, since it is
//! on where nothing else is said.
#![cfg(feature = "default")]

mod support;

use std::fs;
use std::os::unix::net::UnixStream;

use support::fresh;
use support::needs::lacks;
use support::server::{LOOPBACK, Server};
use support::until;

/// Each thread's name, and what the kernel says of it under this word.
fn threads(server: &Server, word: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let mut threads: Vec<_> = tasks
        .filter_map(|task| {
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let value = |word: &str| {
                let mut lines = status.lines();
                lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(":\t"))
            };
            Some((value("Name")?.to_owned(), value(word)?.to_owned()))
        })
        .collect();
    threads.sort();
    threads
}

#[test]
fn every_thread_is_in_its_box_and_they_do_their_work() {
    let [tokens, log, socket] = ["sandbox.tokens", "sandbox.log", "sandbox.socket"].map(fresh);
    let options = [
        LOOPBACK.to_owned(),
        "--rtp=127.0.0.1:0".to_owned(),
        format!("--token-file={}", tokens.display()),
        format!("--access-log={}", log.display()),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--listen=unix:{}", socket.display()),
    ];
    let mut server = Server::start(&options.each_ref().map(String::as_str));
    let line = server.await_line(&["event=sandbox"]);
    if lacks("seccomp", !line.contains("calls=open")) {
        return;
    }
    assert!(line.contains(" calls=refused "), "{line}");
    let filtered = until("the loop is in its box", || {
        let filtered = threads(&server, "Seccomp");
        filtered
            .iter()
            .all(|(_, mode)| mode == "2")
            .then_some(filtered)
    });
    let names: Vec<&str> = filtered.iter().map(|(name, _)| name.as_str()).collect();
    let of_names: Vec<String> = (0..8).map(|number| format!("names {number}")).collect();
    let mut all = vec!["access log", "console", "disk", "tollgate"];
    all.extend(of_names.iter().map(String::as_str));
    all.sort_unstable();
    assert_eq!(names, all);
    assert!(
        threads(&server, "NoNewPrivs")
            .iter()
            .all(|(_, is)| is == "1")
    );
    // A name is looked up, an address tried whether it is this machine's, a tuple is on disk.
    let target = "/api/add-token?type=udp&sessionid=desk&udp-clients=localhost:5006";
    let response = server.request("POST", target);
    assert_eq!(response.status(), 201, "{}", response.text());
    let kept = fs::read_to_string(&tokens).expect("the token file");
    assert!(kept.contains("desk"), "{kept}");
    assert_eq!(server.request("GET", "/metrics").status(), 200);
    fs::rename(&log, log.with_extension("1")).expect("moved away");
    server.signal("HUP");
    until("the log is opened anew", || {
        server.request("GET", "/");
        fs::read_to_string(&log)
            .ok()
            .filter(|text| !text.is_empty())
    });
    UnixStream::connect(&socket).expect("it listens there");
    server.signal("TERM");
    assert!(server.exit_status().success());
    assert!(!socket.exists(), "its socket's file goes with it");
}

#[test]
fn a_server_that_is_told_so_gives_up_nothing() {
    for (mode, filter) in [("off", "0"), ("log", "2")] {
        let server = Server::start(&[&format!("--sandbox={mode}")]);
        if mode == "log" {
            let line = server.await_line(&["event=sandbox"]);
            if lacks("seccomp", !line.contains("calls=open")) {
                continue;
            }
        }
        until("all threads are as they are to be", || {
            let threads = threads(&server, "Seccomp");
            threads.iter().all(|(_, mode)| mode == filter).then_some(())
        });
        assert_eq!(server.request("GET", "/").status(), 200);
    }
}
