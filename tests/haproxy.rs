//! Four processes behind HAProxy, as in `examples/haproxy.cfg`.

mod support;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use support::client::Client;
use support::response::Response;
use support::server::{LOOPBACK, Server};
use support::streaming::{Source, Viewer};
use support::until;

const PROCESSES: usize = 4;
const SESSIONS: usize = 200;
/// That each session is sent while a process is killed.
const PIECES: usize = 50;

struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn relays() -> Vec<Server> {
    let usual = [LOOPBACK, "--proxy-protocol=127.0.0.2"];
    let mut relays: Vec<Server> = (1..PROCESSES).map(|_| Server::start(&usual)).collect();
    let peers = relays
        .iter()
        .map(|relay| format!("--peer=http://{}", relay.address()));
    let options: Vec<String> = peers.chain(usual.map(str::to_owned)).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    relays.insert(0, Server::start(&options));
    relays
}

fn front(relays: &[Server]) -> Proxy {
    let address = support::free_address();
    let mut command = Command::new("haproxy");
    command
        .args([
            "-db",
            "-f",
            concat!(env!("CARGO_MANIFEST_DIR"), "/examples/haproxy.cfg"),
        ])
        .env("FRONT", address.to_string())
        .stdout(Stdio::null());
    for (index, relay) in relays.iter().enumerate() {
        command.env(format!("RELAY_{}", index + 1), relay.address().to_string());
    }
    let child = command.spawn().expect("haproxy is installed");
    let proxy = Proxy { child, address };
    until("the proxy answers", || {
        std::net::TcpStream::connect(address).ok()
    });
    proxy
}

impl Proxy {
    fn request(&self, method: &str, target: &str) -> Response {
        Client::connect(self.address).request(method, target, &[])
    }
}

/// A session whose name has something to encode, and how it may be written.
fn session(number: usize) -> (String, [String; 3]) {
    let forms = [
        format!("/stream/s%2f%C3%BC{number}"),
        format!("/stream?sessionid=s%2F%c3%bc{number}"),
        format!("/stream/%73%2F%C3%BC{number}"),
    ];
    (format!("s%2F%C3%BC{number}"), forms)
}

fn piece(session: usize, number: usize) -> Vec<u8> {
    format!("piece {number} of session {session};")
        .repeat(40)
        .into_bytes()
}

struct Running {
    source: Source,
    viewer: Viewer,
}

fn await_viewers(relays: &[Server], number: usize, viewers: usize) {
    let name = format!("s/ü{number}");
    until("the viewers are there", || {
        let stream = relays.iter().find_map(|relay| relay.stream(&name))?;
        (stream["viewers"] == viewers).then_some(())
    });
}

/// A session with its token, a source and a viewer, who has the first piece.
fn start(front: &Proxy, relays: &[Server], number: usize) -> Running {
    let (encoded, [put, get, _]) = session(number);
    let added = front.request(
        "POST",
        &format!("/api/add-token?type=http&sessionid={encoded}"),
    );
    assert_eq!(added.status(), 201, "{}", added.text());
    let mut source = Source::open(front.address, &put);
    let mut viewer = Viewer::ask(front.address, &get);
    await_viewers(relays, number, 1);
    let first = piece(number, 0);
    source.send(&first);
    assert_eq!(viewer.read(first.len()), first);
    Running { source, viewer }
}

#[test]
#[ignore = "needs haproxy and curl"]
fn sessions_are_spread_over_processes_behind_one_address() {
    let relays = relays();
    let front = front(&relays);
    until("all relays are found well", || {
        let spread = (0..64).map(|number| {
            front
                .request("GET", &format!("/stream/probe{number}"))
                .status()
        });
        spread.into_iter().all(|status| status == 403).then_some(())
    });
    let mut running: Vec<Running> = (0..SESSIONS)
        .map(|number| start(&front, &relays, number))
        .collect();
    // The first tells of all.
    let mut places: Vec<usize> = relays.iter().map(|relay| relay.streams().len()).collect();
    places[0] -= places[1..].iter().sum::<usize>();
    assert_eq!(places.iter().sum::<usize>(), SESSIONS);
    assert!(
        places.iter().all(|&streams| streams > SESSIONS / 10),
        "{places:?}"
    );
    for (number, running) in running.iter_mut().enumerate() {
        let next = piece(number, 1);
        running.source.send(&next);
        assert_eq!(running.viewer.read(next.len()), next, "session {number}");
    }
    // Another way to write it is the same session.
    let (encoded, [.., other]) = session(7);
    let mut second = Viewer::ask(front.address, &other);
    await_viewers(&relays, 7, 2);
    running[7].source.send(&piece(7, 2));
    assert_eq!(second.read(piece(7, 2).len()), piece(7, 2));
    let aborted = front.request("DELETE", &format!("/api/abort-stream?sessionid={encoded}"));
    assert_eq!(aborted.status(), 200, "{}", aborted.text());
    second.assert_lost(b"");
    // The relays know whose a call is.
    let outside = Command::new("curl")
        .args([
            "-s",
            "--interface",
            "127.0.0.3",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            "DELETE",
        ])
        .arg(format!(
            "http://{}/api/revoke-token?sessionid={encoded}",
            front.address
        ))
        .output()
        .expect("curl is installed");
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "403");
    let revoked = front.request("DELETE", &format!("/api/revoke-token?sessionid={encoded}"));
    assert_eq!(revoked.status(), 200, "{}", revoked.text());
    let told = front.request("GET", "/api/list-streams");
    assert_eq!(told.head.field("Tollgate-Missing"), None);
    let told = told.json();
    let told = told.as_array().expect("an array");
    assert_eq!(told.len(), SESSIONS - 1);
    for stream in told {
        let source = stream["source"]["address"].as_str().expect("an address");
        assert!(source.starts_with("127.0.0.1:"), "the proxy's: {source}");
    }
}

#[test]
#[ignore = "needs haproxy"]
fn a_process_that_stops_takes_its_own_sessions_only() {
    let mut relays = relays();
    let front = front(&relays);
    let mut running: Vec<Running> = (0..40)
        .map(|number| start(&front, &relays, number))
        .collect();
    // The last tells of its own only.
    let is_of_last = |relay: &Server, number: usize| {
        let name = format!("s/ü{number}");
        relay.stream(&name).is_some()
    };
    let last: Vec<bool> = (0..running.len())
        .map(|number| is_of_last(&relays[PROCESSES - 1], number))
        .collect();
    assert!(last.contains(&true) && last.contains(&false));
    // Pieces go out all the time; in the midst of it the last process is killed.
    let is_killed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, running) in running.iter_mut().enumerate() {
            let (is_of_last, is_killed) = (last[number], &is_killed);
            scope.spawn(move || {
                for count in 1..=PIECES {
                    let next = piece(number, count);
                    if !running.source.try_send(&next) || (is_of_last && count == PIECES / 2) {
                        return assert!(is_of_last, "session {number} was hurt");
                    }
                    while count == PIECES / 2 && !is_killed.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
                for count in 1..=PIECES {
                    let next = piece(number, count);
                    assert_eq!(running.viewer.read(next.len()), next, "session {number}");
                }
            });
        }
        let stopped = relays.remove(PROCESSES - 1);
        stopped.signal("KILL");
        stopped.forget();
        is_killed.store(true, Ordering::Relaxed);
    });
    // New sessions find a place with the others.
    until("the proxy knows", || {
        let added = front.request("POST", "/api/add-token?type=http&sessionid=s%2F%C3%BCnew");
        let again = (0..40).map(|number| {
            let (encoded, _) = session(number);
            front
                .request(
                    "POST",
                    &format!("/api/add-token?type=http&sessionid={encoded}"),
                )
                .status()
        });
        (added.status() < 300 && again.into_iter().all(|status| status < 300)).then_some(())
    });
}
