//! `--access-log`: which requests it has, and with which fields.

use crate::support;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::client::Client;
use crate::support::fresh;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

/// Waits for `count` lines of the log, and returns them without their times in brackets.
fn lines(path: &Path, is_enough: impl Fn(&str) -> bool) -> Vec<String> {
    let text = until("so many requests are logged", || {
        let text = fs::read_to_string(path).expect("the log");
        (text.ends_with('\n') && is_enough(&text)).then_some(text)
    });
    let without_time = |line: &str| {
        let (front, rest) = line.split_once(" [").expect("a time");
        let (time, rest) = rest.split_once("] ").expect("its end");
        assert!(
            time.len() == 26 && time.ends_with(" +0000") && time.as_bytes()[2] == b'/',
            "{time}"
        );
        format!("{front} {rest}")
    };
    text.lines().map(without_time).collect()
}

fn fifo(name: &str) -> PathBuf {
    let path = fresh(name);
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    path
}

/// Requests `count` missing paths with long names.
fn ask(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    let program = format!("User-Agent: {}", "x".repeat(256));
    for _ in 0..count {
        client.send_head("GET", "/nowhere", &[&program]);
        assert_eq!(client.response("GET").status(), 404);
    }
}

#[test]
fn each_request_has_its_line_in_the_combined_format() {
    let path = fresh("access.log");
    let server = Server::gated(&[&format!("--access-log={}", path.display())]);
    server.admit("secret");
    let mut source = Source::open(server.address(), "/stream/secret");
    let mut client = Client::connect(server.address());
    client.send_head(
        "GET",
        "/stream?sessionid=secret",
        &[
            "User-Agent: a \"player\"\u{e9}",
            "Referer: http://site.example/",
        ],
    );
    let mut viewer = Viewer::of(client);
    server.await_viewers("secret", 1);
    source.send(b"some media");
    source.finish();
    viewer.assert_rest(b"some media");
    server.request("GET", "/nowhere?a=b");
    let mut strange = Client::connect(server.address());
    strange.send("nonsense\r\n\r\n");
    strange.rest();
    // The last of them: how often it was asked for a list before is not known.
    let all = lines(&path, |text| text.contains("\"-\" 400 "));
    let has = |expected: &str| {
        assert!(
            all.iter()
                .any(|line| line.starts_with("127.0.0.1 - - ") && line.contains(expected)),
            "{expected} is not in {all:#?}"
        );
    };
    has("\"POST /api/add-token?type=http&sessionid=");
    has("\"PUT /stream/");
    has("\"GET /stream?sessionid=");
    has(" HTTP/1.1\" 200 10 \"http://site.example/\" \"a \\\"player\\\"\\xc3\\xa9\"");
    has("\"GET /...?... HTTP/1.1\" 404 ");
    assert!(all.iter().all(|line| !line.contains("secret")), "{all:#?}");
}

/// No spelling and no position of a secret brings it into the log.
#[cfg(feature = "icecast")]
#[test]
fn no_spelling_brings_a_sessionid_into_the_log() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spellings.log");
    let _ = fs::remove_file(&path);
    let server = Server::gated(&[
        &format!("--access-log={}", path.display()),
        "--log=debug",
        "--icecast",
    ]);
    let targets = [
        "/stream/secret/",
        "//stream/secret",
        "/stream//secret",
        "/stream/secret/secret",
        "/Stream/secret",
        "/%73tream/secret",
        "/stream%2fsecret",
        "/stream;secret",
        "/secret",
        "/secret/stream",
        "/api/secret",
        "/api/list-tokens/secret",
        "/healthz/secret",
        "/stream?session%69d=secret",
        "/stream?sessionid=secret&secret",
        "/stream?secret=x",
        "/stream?SESSIONID=secret",
        "/stream?x=sessionid=secret",
        "/stream?a&b&c&d&e&f&g&h&i&j&k&l&secret",
        "/api/add-token?type=secret&direction=secret&abort=secret&sessionid=secret",
        "/api/add-token?type=http,secret",
        "/api/abort-stream?block=secret&udp-clients=secret:1",
        "/list-tokens?secret",
        "/?secret",
        "http://secret/stream/secret?secret",
        "/metrics?secret",
    ];
    for target in targets {
        for method in ["GET", "PUT", "SOURCE", "secret"] {
            let mut client = Client::connect(server.address());
            client.send_head(
                method,
                target,
                &[
                    "Referer: http://site.example/stream/secret?sessionid=secret#secret",
                    "Connection: close",
                ],
            );
            client.response(method);
        }
    }
    for referer in [
        "secret",
        "http://secret@site.example/",
        "http://site.example:secret@x/",
        "//site.example/secret",
        "about:secret",
    ] {
        let mut client = Client::connect(server.address());
        client.send_head("GET", "/healthz", &[&format!("Referer: {referer}")]);
        assert_eq!(client.response("GET").status(), 200);
    }
    // The log names the session of a source and a viewer by a digest, too.
    server.admit("secret");
    let mut source = Source::open(server.address(), "/stream/secret");
    let viewer = Viewer::ask(server.address(), "/stream/secret");
    server.await_viewers("secret", 1);
    source.send(b"media");
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=secret");
    assert_eq!(revoked.status(), 200);
    assert_eq!(source.finish().status(), 200);
    drop(viewer);
    server.await_line(&["event=stream-ends"]);
    let said = server.stderr();
    assert!(
        said.iter().all(|line| !line.contains("secret")),
        "{said:#?}"
    );
    let count = targets.len() * 4 + 5 + 4;
    let all = lines(&path, |text| text.lines().count() >= count);
    assert!(all.iter().all(|line| !line.contains("secret")), "{all:#?}");
    let has = |expected: &str| assert!(all.iter().any(|line| line.contains(expected)), "{all:#?}");
    has("\"GET /stream/... HTTP/1.1\" 404 ");
    has("\"GET /... HTTP/1.1\" 404 ");
    has("\"GET /stream?... HTTP/1.1\" 400 ");
    has("\"... /api/... HTTP/1.1\" 404 ");
    has(" \"http://site.example/\" ");
}

#[test]
fn a_log_that_cannot_be_written_is_said_at_the_start() {
    let mut command = support::server::command(&["--access-log=/nowhere/at/all"]);
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.lines().count() == 1 && text.contains("'/nowhere/at/all'"),
        "{text}"
    );
}

/// Whoever starts the server and does not read what it says does not stop its streams.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let mut command = support::server::command(&[
        "--listen=127.0.0.1:0",
        "--access-log=-",
        "--log=debug",
        "--log-lines=1000000",
    ]);
    let mut child = command.spawn().expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let address = stderr
        .find_map(|line| Some(line.ok()?.strip_prefix("listening http ")?.to_owned()))
        .and_then(|address| address.parse().ok())
        .expect("an address and a port");
    for number in 0..3_000 {
        let mut client = Client::connect(address);
        client.send_head(
            "GET",
            &format!("/nowhere?{number}&{}", "x".repeat(200)),
            &[],
        );
        assert_eq!(client.response("GET").status(), 404);
    }
    drop(stderr);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// It opens though nobody reads, fills, is said to be full once, and goes on where somebody reads.
#[test]
fn a_fifo_that_nobody_reads_stops_nothing() {
    let path = fifo("access.fifo");
    let server = Server::gated(&[&format!("--access-log={}", path.display())]);
    // More than the pipe and the queue may hold.
    ask(&server, 3000);
    server.await_line(&["event=access-log-not-written", "does not read"]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(b"media");
    assert_eq!(source.finish().status(), 200);
    let told = |event: &str| {
        let lines = server.stderr();
        lines.iter().filter(|line| line.contains(event)).count()
    };
    server.await_line(&["access-log-not-written"]);
    assert_eq!(told("access-log-not-written"), 1, "it is said once");
    let mut reader = OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(&path)
        .expect("the pipe");
    let mut text = Vec::new();
    let again = until("all that waits is written", || {
        let _ = reader.read_to_end(&mut text);
        let lines = server.stderr();
        let mut lines = lines.into_iter();
        lines.find(|line| line.contains("event=access-log-written-again"))
    });
    let _ = reader.read_to_end(&mut text);
    let left_out: usize = again
        .split_once("left_out=")
        .and_then(|(_, count)| count.parse().ok())
        .expect("a count");
    // Every line is there whole, or counted.
    let written = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    assert!(
        written
            .clone()
            .all(|line| line.starts_with(b"127.0.0.1 - - ["))
    );
    assert_eq!(written.count() + left_out, 3002);
    assert_eq!(told("access-log-not-written"), 1);
}

/// `O_NONBLOCK`, for a reader that takes what there is.
const NONBLOCK: i32 = 0o4000;

#[test]
fn a_disk_that_is_full_is_said() {
    let server = Server::gated(&["--access-log=/dev/full"]);
    ask(&server, 3);
    server.await_line(&["event=access-log-not-written", "No space left"]);
}

/// As with logrotate: the file is moved, the server gets the signal, the next line is in a new file.
#[test]
fn a_hangup_opens_the_log_anew_and_nothing_else() {
    let path = fresh("rotated.log");
    let moved = fresh("rotated.log.1");
    let mut server = Server::gated(&[&format!("--access-log={}", path.display())]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(b"before");
    lines(&path, |text| !text.is_empty());
    fs::rename(&path, &moved).expect("it is moved");
    let before = fs::read_to_string(&moved).expect("the log");
    server.signal("HUP");
    server.await_line(&["event=access-log-reopening"]);
    until("there is a new one", || path.exists().then_some(()));
    assert_eq!(server.request("GET", "/healthz").status(), 200);
    lines(&path, |text| text.contains("/healthz"));
    assert!(
        fs::read_to_string(&moved)
            .expect("the log")
            .starts_with(&before)
    );
    source.send(b" and after");
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(b"before and after");
    // Where it cannot be opened, lines go where they went.
    let folder = path.parent().expect("a folder").join("rotated-away");
    fs::rename(&path, &folder).expect("it is moved");
    fs::create_dir(&path).expect("a folder in its place");
    server.signal("HUP");
    server.await_line(&["event=access-log-not-reopened"]);
    assert_eq!(server.request("GET", "/metrics").status(), 200);
    until("its line comes", || {
        let text = fs::read_to_string(&folder).expect("the log");
        text.contains("/metrics").then_some(())
    });
    server.signal("TERM");
    assert_eq!(server.exit_status().code(), Some(0));
    fs::remove_dir(&path).expect("it is empty");
}
