//! `--access-log`: what stands in it, and what does not.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use support::client::Client;
use support::server::Server;
use support::streaming::{Source, Viewer};
use support::until;

/// The log's lines once there are `count`, without their times, which stand in brackets as they should.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let text = until("so many requests are logged", || {
        let text = fs::read_to_string(path).expect("the log");
        (text.lines().count() >= count).then_some(text)
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

#[test]
fn each_request_has_its_line_in_the_combined_format() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("access.log");
    let _ = fs::remove_file(&path);
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
    let all = lines(&path, 6);
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
    has("\"-\" 400 ");
    assert!(all.iter().all(|line| !line.contains("secret")), "{all:#?}");
}

/// In whatever way a client spells it, and wherever it stands.
#[test]
fn no_spelling_brings_a_sessionid_into_the_log() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spellings.log");
    let _ = fs::remove_file(&path);
    let server = Server::gated(&[&format!("--access-log={}", path.display()), "--icecast"]);
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
    let all = lines(&path, targets.len() * 4 + 5);
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
