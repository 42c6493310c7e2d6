//! `--token-file`: confirmed changes survive a restart, a kill -9 and a full disk.
#![cfg(feature = "token-file")]

#[path = "../support/mod.rs"]
mod support;

mod disk;
mod names;
mod over;

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::client::Client;
use support::datagrams::receive;
use support::server::{self, LOOPBACK, Server};
use support::streaming::Source;
use support::{PATIENCE, until};
use tollgate::gate::journal;

/// A file of this test's own, which is not there yet.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("token-file-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder.join("tokens")
}

fn option(path: &Path) -> String {
    format!("--token-file={}", path.display())
}

fn start(path: &Path) -> Server {
    Server::gated(&["--rtp=127.0.0.1:0", &option(path)])
}

fn call(server: &Server, method: &str, target: &str, status: u16) {
    let response = server.request(method, target);
    assert_eq!(response.status(), status, "{target}: {}", response.text());
}

fn mode(path: &Path) -> u32 {
    let permissions = fs::metadata(path).expect("the file").permissions();
    permissions.mode() & 0o777
}

/// A journal that is long enough to be compacted, and says little: a session `kept` is left of
/// many.
fn long_journal() -> Vec<u8> {
    let mut bytes = journal::HEADER.to_vec();
    let mut put = |json: String| bytes.extend(journal::sealed(json.into_bytes()));
    put(r#"[{"add":"kept","http":"both"}]"#.to_owned());
    for number in 0..1000 {
        put(format!(
            r#"[{{"add":"a-session-that-goes-again-{number}","http":"in"}}]"#
        ));
        put(format!(
            r#"[{{"revoke":"a-session-that-goes-again-{number}"}}]"#
        ));
    }
    assert!(bytes.len() > 64 * 1024);
    bytes
}

/// How a start ends that must not succeed: status 1, and one line.
#[track_caller]
fn assert_refuses_to_start(path: &Path, words: &[&str]) {
    assert_refuses_with(&[], path, words);
}

#[track_caller]
fn assert_refuses_with(options: &[&str], path: &Path, words: &[&str]) {
    let usual = [LOOPBACK, "--listen=127.0.0.1:0", "--rtp=off", &option(path)];
    let output = server::command(&[&usual, options].concat())
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn the_table_survives_a_restart_in_its_order() {
    let path = fresh("restart");
    let server = start(&path);
    call(
        &server,
        "POST",
        "/api/add-token?type=rtp-udp&sessionid=b&udp-clients=192.0.2.7:5004,localhost:6000",
        201,
    );
    call(
        &server,
        "POST",
        "/api/add-token?type=http&sessionid=a&direction=in",
        201,
    );
    call(&server, "POST", "/api/add-token?type=http&sessionid=c", 201);
    call(
        &server,
        "POST",
        "/api/add-token?type=http,rtp-udp&sessionid=b&udp-clients=[2001:db8::7]:5004",
        400,
    );
    call(&server, "POST", "/api/add-token?type=http&sessionid=b", 201);
    call(&server, "POST", "/api/add-token?type=http&sessionid=b", 200);
    call(&server, "DELETE", "/api/revoke-token?sessionid=c", 200);
    call(&server, "DELETE", "/api/revoke-token?sessionid=c", 404);
    let before = server.tokens();
    assert_eq!(before.len(), 4);
    drop(server);
    assert_eq!(mode(&path), 0o600);
    // The file may be another one, such as a restored copy.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let server = start(&path);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(server.tokens(), before);
    assert_eq!(server.request("GET", "/stream/a").status(), 403);
    assert_eq!(server.request("GET", "/stream/b").status(), 404);
}

/// Sessions come and go with long lists, so that the file is compacted again and again; the server
/// is killed in the middle of a change.
#[test]
fn what_was_answered_is_there_after_a_kill() {
    let path = fresh("kill");
    let clients: Vec<String> = (1..=200)
        .map(|host| format!("192.0.2.{host}:5004"))
        .collect();
    let clients = clients.join(",");
    let sessions = |tokens: &[Value]| -> Vec<String> {
        let mut names: Vec<String> = tokens
            .iter()
            .map(|token| token["sessionid"].as_str().expect("a name").to_owned())
            .collect();
        names.dedup();
        names
    };
    let mut expected: Vec<String> = Vec::new();
    let (mut number, mut was_compacted) = (0, false);
    for round in 0..12 {
        let server = start(&path);
        let found = sessions(&server.tokens());
        let last = format!("s{number}");
        // What was under way when it was killed has happened or not.
        let done = if expected.contains(&last) {
            expected
                .iter()
                .filter(|name| **name != last)
                .cloned()
                .collect()
        } else {
            [expected.clone(), vec![last.clone()]].concat()
        };
        assert!(
            found == expected || found == done,
            "round {round}: {found:?}"
        );
        assert!(server.tokens().len() == 200 * found.len());
        expected = found;
        let mut length = 0;
        for _ in 0..20 + round {
            number += 1;
            let name = format!("s{number}");
            let target =
                format!("/api/add-token?type=rtp-udp&sessionid={name}&udp-clients={clients}");
            call(&server, "POST", &target, 201);
            expected.push(name);
            if expected.len() > 3 {
                let oldest = expected.remove(0);
                call(
                    &server,
                    "DELETE",
                    &format!("/api/revoke-token?sessionid={oldest}"),
                    200,
                );
            }
            let now = fs::metadata(&path).expect("the file").len();
            was_compacted |= now < length;
            length = now;
        }
        number += 1;
        let mut client = Client::connect(server.address());
        let target =
            format!("/api/add-token?type=rtp-udp&sessionid=s{number}&udp-clients={clients}");
        client.send_head("POST", &target, &[]);
        server.signal("KILL");
        drop(client);
        server.forget();
    }
    assert!(was_compacted);
}

/// Whatever a crash leaves of a compaction: the new file in part or whole beside the old one, or in
/// its place.
#[test]
fn a_compaction_that_broke_off_loses_nothing() {
    let path = fresh("compaction");
    let server = start(&path);
    for name in ["a", "b", "c"] {
        server.admit(name);
    }
    call(&server, "DELETE", "/api/revoke-token?sessionid=b", 200);
    let tokens = server.tokens();
    drop(server);
    let old = fs::read(&path).expect("the journal");
    let new_path = path.with_extension("new");
    for length in [0, 1, 17, 30, old.len()] {
        fs::write(&new_path, &old[..length]).expect("what a crash left");
        assert_eq!(start(&path).tokens(), tokens, "{length}");
    }
}

/// The thread that compacts is in its sandbox when it finds what a failure left.
#[test]
fn an_unfinished_journal_does_not_stop_the_next_compaction() {
    let path = fresh("unfinished");
    fs::write(&path, long_journal()).expect("a journal");
    let server = start(&path);
    fs::write(path.with_extension("new"), journal::HEADER).expect("what a failure left");
    server.admit("a");
    until("it is compacted", || {
        (fs::metadata(&path).expect("the file").len() < 1000).then_some(())
    });
}

/// A file that has the name of the unfinished journal, and is none, is somebody's.
#[test]
fn another_file_beside_a_token_file_is_left_alone() {
    let path = fresh("beside");
    let new_path = path.with_extension("new");
    fs::write(&new_path, "precious").expect("a file");
    assert_refuses_to_start(&path, &["is not a token file"]);
    assert_eq!(fs::read(&new_path).expect("it is there"), b"precious");
    fs::remove_file(&new_path).expect("it is there");
    symlink("/dev/null", &new_path).expect("a link");
    assert_refuses_to_start(&path, &["is not a token file"]);
    fs::remove_file(&new_path).expect("it is there");
    drop(start(&path));
}

/// Two names of one file have one lock, and compaction leaves the link where it is.
#[test]
fn a_link_to_a_token_file_is_followed() {
    let path = fresh("linked");
    let link = path.with_file_name("link");
    fs::write(&path, long_journal()).expect("a journal");
    symlink(&path, &link).expect("a link");
    let server = start(&link);
    assert_refuses_to_start(&path, &["in use by another server"]);
    server.admit("a");
    until("it is compacted", || {
        (fs::metadata(&path).expect("the file").len() < 1000).then_some(())
    });
    server.admit("b");
    drop(server);
    assert!(
        fs::symlink_metadata(&link)
            .expect("it is there")
            .is_symlink()
    );
    assert_eq!(start(&path).tokens().len(), 3);
}

/// Also if PATH.lock is gone, and after a compaction.
#[test]
fn two_names_of_one_file_are_one_file() {
    for journal in [Vec::new(), long_journal()] {
        let path = fresh("names");
        fs::write(&path, &journal).expect("a journal");
        let server = start(&path);
        server.admit("a");
        until("it is compacted", || {
            (fs::metadata(&path).expect("the file").len() < 1000).then_some(())
        });
        let other = path.with_file_name("other");
        fs::hard_link(&path, &other).expect("a link");
        assert_refuses_to_start(&other, &["in use by another server"]);
        fs::remove_file(path.with_extension("lock")).expect("it is there");
        assert_refuses_to_start(&path, &["in use by another server"]);
        server.admit("b");
    }
}

/// An editor, a restored copy or a program that moves files would bring revoked tokens back.
#[test]
fn a_file_that_others_have_changed_is_not_written() {
    for (is_replaced, words, left) in [
        (true, "is another file by now", 2),
        (false, "bytes left of", 0),
    ] {
        let path = fresh("changed");
        let server = start(&path);
        server.admit("good");
        server.admit("leaked");
        if is_replaced {
            let copy = path.with_file_name("copy");
            fs::copy(&path, &copy).expect("a copy");
            fs::rename(&copy, &path).expect("the file is replaced");
        } else {
            fs::write(&path, journal::HEADER).expect("the file is cut");
        }
        for (method, call) in [
            ("POST", "/api/add-token?type=http&sessionid=paid"),
            ("DELETE", "/api/revoke-token?sessionid=leaked"),
            ("POST", "/api/add-token?type=http&sessionid=paid"),
        ] {
            let refused = server.request(method, call);
            refused.assert_problem(507, &["token file", "nothing was changed"]);
            server.await_line(&["event=token-file-not-written", words]);
        }
        assert_eq!(server.tokens().len(), 2);
        drop(server);
        assert_eq!(start(&path).tokens().len(), left, "{words}");
    }
}

#[test]
fn the_next_change_restores_a_removed_file_and_drops_what_others_have_appended() {
    let path = fresh("removed");
    let server = start(&path);
    server.admit("a");
    fs::remove_file(&path).expect("it is there");
    server.admit("b");
    let mut file = fs::OpenOptions::new().append(true).open(&path);
    let file = file.as_mut().expect("the file");
    file.write_all(b"a line of somebody else's\n")
        .expect("it is written");
    server.admit("c");
    drop(server);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(start(&path).tokens().len(), 3);
}

#[test]
fn what_is_no_file_is_left_alone() {
    assert_refuses_to_start(Path::new("/dev/null"), &["not a regular file"]);
    let folder = fresh("folder");
    assert_refuses_to_start(folder.parent().expect("a folder"), &["directory"]);
}

/// A server with a narrower `--rtp-to` sends nothing to UDP clients from the wider one.
#[test]
fn a_token_file_does_not_widen_rtp_to() {
    let path = fresh("rtp-to");
    let client = |host: &str| {
        let socket = UdpSocket::bind((host, 0)).expect("a free port");
        let time = Some(PATIENCE);
        socket.set_read_timeout(time).expect("an option");
        socket
    };
    let (inside, outside) = (client("127.0.0.1"), client("127.0.0.2"));
    let address = |socket: &UdpSocket| socket.local_addr().expect("its address");
    let server = start(&path);
    let clients = format!("{},{}", address(&outside), address(&inside));
    let target = format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients={clients}");
    call(&server, "POST", &target, 201);
    let tokens = server.tokens();
    drop(server);
    let media: Vec<u8> = (0..70)
        .flat_map(|counter: u8| {
            let mut packet = [0; 188];
            packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | counter & 15]);
            packet
        })
        .collect();
    let narrow = ["--rtp=127.0.0.1:0", "--rtp-to=127.0.0.1", &option(&path)];
    let server = Server::gated(&narrow);
    server.await_line(&["event=token-file-clients-silenced", "count=1"]);
    assert_eq!(server.tokens(), tokens);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&media);
    receive(&inside);
    outside.set_nonblocking(true).expect("an option");
    assert!(outside.recv(&mut [0]).is_err());
    drop(server);
    // The file has it still.
    let server = start(&path);
    assert_eq!(server.tokens(), tokens);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&media);
    outside.set_nonblocking(false).expect("an option");
    receive(&outside);
    call(&server, "DELETE", "/api/revoke-token?sessionid=tv", 200);
}

#[test]
fn a_torn_last_line_is_dropped_and_said() {
    let path = fresh("torn");
    let server = start(&path);
    server.admit("a");
    server.admit("b");
    let tokens = server.tokens();
    drop(server);
    let whole = fs::read(&path).expect("the journal");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("the journal");
    file.write_all(b"[{\"add\":\"c\",\"ht")
        .expect("a torn line");
    let server = start(&path);
    server.await_line(&["event=token-file-torn", "dropped_bytes=15"]);
    assert_eq!(server.tokens(), tokens);
    assert_eq!(fs::read(&path).expect("the journal"), whole);
    server.admit("c");
    drop(server);
    assert_eq!(start(&path).tokens().len(), 3);
}

#[test]
fn a_damaged_middle_stops_the_start() {
    let path = fresh("damaged");
    let server = start(&path);
    server.admit("a");
    server.admit("b");
    drop(server);
    let mut bytes = fs::read(&path).expect("the journal");
    bytes[30] ^= 1;
    fs::write(&path, &bytes).expect("damage");
    assert_refuses_to_start(&path, &["line 2", "byte 18", "checksum"]);
    assert_eq!(fs::read(&path).expect("the journal"), bytes);
    fs::write(&path, b"something else\n").expect("another file");
    assert_refuses_to_start(&path, &["not a token file"]);
}

/// What counts is what the table is, not what it has been.
#[test]
fn fewer_tokens_than_there_have_been() {
    let path = fresh("fewer");
    fs::write(&path, long_journal()).expect("a journal");
    let server = Server::gated(&["--tokens=1", &option(&path)]);
    call(&server, "POST", "/api/add-token?type=http&sessionid=a", 503);
    drop(server);
    let server = start(&path);
    server.admit("a");
    drop(server);
    assert_refuses_with(
        &["--tokens=1"],
        &path,
        &["at 1 tokens", "the file was not changed"],
    );
}

#[test]
fn two_servers_do_not_use_one_file() {
    let path = fresh("locked");
    let server = start(&path);
    server.admit("a");
    assert_refuses_to_start(&path, &["in use by another server"]);
    drop(server);
    assert_eq!(start(&path).tokens().len(), 1);
}

#[test]
fn a_token_file_without_a_token_server_is_an_error() {
    let output = server::command(&["--token-file=/tmp/x"])
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
}
