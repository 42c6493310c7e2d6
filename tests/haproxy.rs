//! Relays behind HAProxy: four processes, as in `examples/haproxy.cfg`; an origin and its edges, as
//! in `examples/edges.cfg`.
#![cfg(feature = "default")]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::client::Client;
use support::crowd::Crowd;
use support::response::{End, Response};
use support::server::{LOOPBACK, Server};
use support::streaming::{Source, Viewer};
use support::{corpus, process, until};
use tollgate::format::splice::Splicer;

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
    let names = ["RELAY_1", "RELAY_2", "RELAY_3", "RELAY_4"];
    let relays = names.iter().zip(relays);
    start_proxy(
        "haproxy.cfg",
        relays.map(|(name, relay)| (*name, relay.address().to_string())),
    )
}

/// HAProxy with one of the examples, and what that takes from the environment.
fn start_proxy(example: &str, settings: impl Iterator<Item = (&'static str, String)>) -> Proxy {
    let address = support::free_address();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut command = Command::new("haproxy");
    command
        .args(["-db", "-f", &format!("{folder}/{example}")])
        .env("FRONT", address.to_string())
        .envs(settings)
        .stdout(Stdio::null());
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

/// A session with its token, a source, and a viewer that has the first piece.
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
    // The first relay lists all streams.
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
    // The last relay lists its own streams only.
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
                    if count == PIECES / 2 {
                        let is_killed = || is_killed.load(Ordering::Relaxed).then_some(());
                        until("the process is killed", is_killed);
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

const VIEWERS: usize = 1_000;

fn figure(server: &Server, name: &str) -> usize {
    let metrics = server.request("GET", "/metrics").text();
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect(name).parse().expect("a number")
}

/// Admits the session at an origin that may just have started, and streams to it, all through the
/// front.
fn publish(front: &Proxy) -> Source {
    until("the origin takes a token", || {
        let added = front.request("POST", "/api/add-token?type=http&sessionid=tv");
        (added.status() < 300).then_some(())
    });
    Source::open(front.address, "/stream/tv")
}

/// What a late viewer gets of a transport stream first.
fn header_of(file: &[u8]) -> Vec<u8> {
    corpus::had(file).1
}

fn assert_decodes(recording: &[u8]) {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/late.ts");
    std::fs::write(path, recording).expect("written");
    let decode = ["-v", "error", "-xerror", "-i", path, "-f", "null", "-"];
    let decoded = Command::new("ffmpeg").args(decode).output();
    let decoded = decoded.expect("ffmpeg is installed");
    let complaints = String::from_utf8_lossy(&decoded.stderr).into_owned();
    assert!(
        decoded.status.success() && complaints.is_empty(),
        "{complaints}"
    );
}

#[test]
#[ignore = "needs haproxy and ffmpeg"]
fn two_edges_carry_a_thousand_viewers_of_one_session_past_their_origins_death() {
    let gate = [LOOPBACK, "--proxy-protocol=127.0.0.2"];
    let place = support::free_address();
    let listen = format!("--listen={place}");
    let origin = Server::start(&[&gate[..], &[&listen]].concat());
    let fetch = format!("--origin=http://{place}");
    let edges: Vec<Server> = (0..2)
        .map(|_| Server::start(&[&gate[..], &[&fetch, "--origin-tokens", "--hold=60"]].concat()))
        .collect();
    let before: Vec<_> = edges
        .iter()
        .map(|edge| process::descriptors(edge.pid()))
        .collect();
    let names = ["ORIGIN", "EDGE_1", "EDGE_2"];
    let relays = [place, edges[0].address(), edges[1].address()].map(|place| place.to_string());
    let front = start_proxy("edges.cfg", names.into_iter().zip(relays));
    until("the proxy finds the edges well", || {
        (front.request("GET", "/stream/nobody").status() == 403).then_some(())
    });

    let file = corpus::file("h264.ts");
    let half = &file[..file.len() / 188 / 4 * 3 * 188];
    let header = header_of(&file);
    // The second source continues after a whole PES packet of the first.
    let (mut splicer, mut whole) = (Splicer::new(1 << 20), Vec::new());
    assert!(splicer.feed(half, &mut whole).is_ok());
    let (format, had) = corpus::had(&whole);
    assert!(splicer.break_off(format, had));
    assert!(splicer.feed(&file, &mut whole).is_ok());
    splicer.finish(&mut whole);
    let whole = Arc::new(whole);
    let mut source = publish(&front);
    let mut crowd = Crowd::default();
    for _ in 0..VIEWERS {
        crowd.join(front.address, "/stream/tv", &whole);
    }
    until("all wait", || {
        let waiting = edges
            .iter()
            .map(|edge| figure(edge, "tollgate_waiting_viewers"));
        (waiting.sum::<usize>() == VIEWERS).then_some(())
    });
    origin.await_viewers("tv", edges.len());
    source.send(half);
    let watched = || -> Vec<usize> {
        let viewers = edges.iter().map(|edge| figure(edge, "tollgate_viewers"));
        viewers.collect()
    };
    until("all watch", || {
        let viewers = watched();
        (viewers.iter().sum::<usize>() == VIEWERS).then_some(())
    });
    assert!(watched().iter().all(|&viewers| viewers == VIEWERS / 2));
    // However many watch, the origin has a viewer for each edge.
    assert_eq!(
        origin.stream("tv").expect("it runs")["viewers"],
        edges.len()
    );
    origin.signal("KILL");
    origin.forget();
    drop(source);
    for edge in &edges {
        until("the edge holds the stream", || {
            edge.stream("tv")?["held"].as_bool()?.then_some(())
        });
    }
    let origin = Server::start(&[&gate[..], &[&listen]].concat());
    let mut source = publish(&front);
    // The edges come back by themselves, and nobody else has to.
    origin.await_viewers("tv", edges.len());
    source.send(&file);
    for edge in &edges {
        until("the edge has all of it", || {
            (edge.stream("tv")?["bytes_received"] == half.len() + file.len()).then_some(())
        });
    }
    let late = [(); 4].map(|()| Viewer::ask(front.address, "/stream/tv"));
    until("the late ones watch", || {
        (watched().iter().sum::<usize>() == VIEWERS + late.len()).then_some(())
    });
    assert_eq!(source.finish().status(), 200);
    crowd.assert_exact();
    for mut viewer in late {
        let (got, end) = viewer.read_to_end();
        assert_eq!(end, End::Complete);
        assert!(got.len() < file.len() && got.starts_with(&header));
        assert_decodes(&got);
    }

    // Nothing is left of it.
    drop(crowd);
    drop(front);
    for (edge, before) in edges.iter().zip(before) {
        edge.await_end_of_stream("tv");
        until("the edge has let everything go", || {
            let pulls = figure(edge, "tollgate_pulls");
            let is_clean = pulls == 0 && process::descriptors(edge.pid()) <= before;
            is_clean.then_some(())
        });
    }
    // An edge of an edge of itself is refused.
    let back = format!("--origin=http://{}", edges[0].address());
    drop(origin);
    let ring = Server::start(&[&gate[..], &[&listen, &back, "--origin-tokens"]].concat());
    for relay in [&ring, &edges[0]] {
        let refused = relay.request("GET", "/stream/tv");
        refused.assert_problem(508, &["loop"]);
    }
}

/// A client behind the TLS proxy publishes, watches and gets the page under its own address. This
/// host's own calls go past the proxy.
#[test]
#[ignore = "needs haproxy, curl and openssl"]
fn tls_stands_in_front() {
    let relay = Server::start(&[LOOPBACK, "--proxy-protocol=127.0.0.2", "--wait=60"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tls");
    std::fs::create_dir_all(&folder).expect("a folder");
    let names = ["key.pem", "relay.crt", "relay.pem"].map(|name| folder.join(name));
    let [key, certificate, both] = &names;
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-keyout".as_ref(), key.as_os_str()])
        .args(["-out".as_ref(), certificate.as_os_str()])
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{made:?}");
    let read = |path| std::fs::read(path).expect("it was made");
    std::fs::write(both, [read(certificate), read(key)].concat()).expect("a file");
    let settings = [
        ("RELAY", relay.address().to_string()),
        ("CERTIFICATE", both.display().to_string()),
    ];
    let front = start_proxy("tls.cfg", settings.into_iter());
    let curl = |from: &str, arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--interface", from, "--cacert"]);
        command.arg(certificate).args(arguments);
        command.stdout(Stdio::piped());
        command.spawn().expect("curl is installed")
    };
    let said = |curl: Child| curl.wait_with_output().expect("it ends").stdout;
    let secure = |target: &str| format!("https://{}{target}", front.address);
    let add = "/api/add-token?type=http&sessionid=demo";
    let call = |from: &str, url: &str| {
        let status = ["-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", url];
        said(curl(from, &status))
    };
    assert_eq!(call("127.0.0.3", &secure(add)), b"403");
    assert_eq!(
        call("127.0.0.1", &format!("http://{}{add}", relay.address())),
        b"201"
    );
    let page = said(curl("127.0.0.3", &[&secure("/watch/demo")]));
    assert!(String::from_utf8_lossy(&page).contains("<video"));

    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/h264.ts");
    let viewer = curl("127.0.0.3", &[&secure("/stream/demo")]);
    until("it waits", || {
        (figure(&relay, "tollgate_waiting_viewers") == 1).then_some(())
    });
    let source = curl("127.0.0.3", &["-T", file, &secure("/stream/demo")]);
    assert!(said(viewer) == corpus::file("h264.ts"));
    assert!(source.wait_with_output().expect("it ends").status.success());
}
