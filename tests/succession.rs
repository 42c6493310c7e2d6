//! Hand-over between real processes over real sockets: no viewer, source or API caller notices it.
#![cfg(feature = "handover")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::PATIENCE;
use support::client::{Client, request};
use support::datagrams;
use support::media::media;
use support::needs::lacks;
use support::server::{LOOPBACK, Server};
use support::streaming::{Source, Viewer};
use support::{uninterrupted, until};

/// A folder of its own, with the path for a hand-over in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tollgate-handover-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn option(&self) -> String {
        format!("--handover=unix:{}", self.0.join("handover").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One that takes over from the other, which leaves and is content.
fn succeed(mut old: Server, options: &[&str]) -> Server {
    let new = Server::start(options);
    assert_eq!(new.listeners, old.listeners);
    new.await_line(&["event=taken-over"]);
    old.await_line(&["event=handed-over"]);
    assert!(old.exit_status().success());
    new
}

#[test]
fn viewers_and_sources_notice_nothing() {
    let folder = Folder::new("streams");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let mut server = Server::start(&options);
    let address = server.address();
    server.admit("tv");
    let mut source = Source::open(address, "/stream/tv");
    let mut viewers: Vec<Viewer> = (0..20)
        .map(|_| Viewer::ask(address, "/stream/tv"))
        .collect();
    let mut idle = Client::connect(address);
    assert_eq!(idle.request("GET", "/nothing", &[]).status(), 404);
    let mut half = Client::connect(address);
    half.send("GET /no");
    server.await_viewers("tv", viewers.len());
    let mut sent = media(1, 300_000);
    source.send(&sent);
    for round in 0..10 {
        server = succeed(server, &options);
        let more = media(1, 50_000 + round);
        source.send(&more);
        sent.extend(more);
        assert_eq!(idle.request("GET", "/nothing", &[]).status(), 404);
        viewers.push(Viewer::ask(address, "/stream/tv"));
    }
    half.send("thing HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_eq!(half.response("GET").status(), 404);
    assert_eq!(source.finish().status(), 200);
    // Those who came first have all of it.
    for viewer in &mut viewers[..20] {
        viewer.assert_rest(&sent);
    }
}

/// More comes than is copied meanwhile, and is still there.
#[test]
fn sources_that_send_as_fast_as_they_can_go_over() {
    let folder = Folder::new("fast");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    let has_ended = Arc::new(AtomicBool::new(false));
    let sources = ["a", "b", "c", "d"].map(|name| {
        server.admit(name);
        let mut source = Source::open(server.address(), &format!("/stream/{name}"));
        let has_ended = Arc::clone(&has_ended);
        std::thread::spawn(move || {
            let piece = media(1, 1 << 20);
            while !has_ended.load(Ordering::Relaxed) {
                source.send(&piece);
            }
            source.finish().status()
        })
    });
    until("a buffer is full", || {
        let row = server.stream("d")?;
        (row["bytes_received"].as_u64()? > 8 << 20).then_some(())
    });
    let _server = succeed(server, &options);
    has_ended.store(true, Ordering::Relaxed);
    for source in sources {
        assert_eq!(source.join().ok(), Some(200));
    }
}

/// A publisher by RTMP is closed, and comes back to the successor, whose viewers have waited.
#[test]
#[cfg(feature = "default")]
fn a_publisher_by_rtmp_comes_back() {
    let sent = include_bytes!("rtmp/ffmpeg.rtmp");
    let folder = Folder::new("rtmp");
    let options = [
        LOOPBACK,
        &folder.option(),
        "--rtmp=127.0.0.1:0",
        "--hold=60",
    ];
    let server = Server::start(&options);
    let port = server.rtmp;
    server.admit("demo");
    let mut publisher = Client::connect(port.expect("it listens"));
    publisher.send(&sent[..sent.len() - 100]);
    until("it runs", || server.stream("demo"));
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    assert_eq!(viewer.read(13), b"FLV\x01\x05\0\0\0\x09\0\0\0\0");
    // Within its handshake.
    let mut early = Client::connect(port.expect("it listens"));
    early.send(&sent[..2_000]);
    early.receive();
    let server = succeed(server, &options);
    assert_eq!(server.rtmp, port);
    publisher.rest();
    early.rest();
    assert_eq!(server.stream("demo").expect("it is held")["held"], true);
    let mut again = Client::connect(port.expect("it listens"));
    again.send(sent);
    server.await_line(&["stream-goes-on"]);
    let (bytes, _) = viewer.read_to_end();
    assert!(bytes.len() > 10_000, "{}", bytes.len());
}

/// Tokens and blocks go over with the file that keeps them, and their lock.
#[test]
fn tokens_go_over() {
    let folder = Folder::new("tokens");
    let file = format!("--token-file={}", folder.0.join("tokens").display());
    for with_file in [false, true] {
        let mut options = vec![LOOPBACK.to_owned(), folder.option()];
        options.extend(with_file.then(|| file.clone()));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut server = Server::start(&options);
        for round in 0..5 {
            server.admit(&format!("session{round}"));
            server = succeed(server, &options);
            assert_eq!(server.tokens().len(), round + 1);
        }
        server.signal("TERM");
        assert!(server.exit_status().success());
        if with_file {
            assert_eq!(Server::start(&options).tokens().len(), 5);
        }
    }
}

/// Datagrams go on with their numbers, one after the other.
/// A successor that cannot start changes nothing either, though it had the socket.
#[test]
fn datagrams_go_on_in_sequence() {
    let folder = Folder::new("rtp");
    let options = [
        LOOPBACK.to_owned(),
        folder.option(),
        "--rtp=127.0.0.1:0".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut server = Server::start(&options);
    let client = datagrams::client();
    let to = client.local_addr().expect("its address");
    let target = format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients={to}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let mut source = Source::open(server.address(), "/stream/tv");
    let mut packet = [0xff; 188];
    packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10]);
    let mut next = None;
    for round in 0..6_u32 {
        for counter in 0..70 {
            packet[3] = 0x10 | ((round * 70 + counter) % 16) as u8;
            source.send(&packet);
        }
        for _ in 0..10 {
            let datagram = datagrams::receive(&client);
            assert_eq!(datagram.len(), 12 + 7 * 188);
            let number = u16::from_be_bytes([datagram[2], datagram[3]]);
            let source = u32::from_be_bytes([datagram[8], datagram[9], datagram[10], datagram[11]]);
            let (due, of) = next.unwrap_or((number, source));
            assert_eq!((number, source), (due, of));
            next = Some((number.wrapping_add(1), source));
        }
        if round % 2 == 0 {
            let failing = [&options[..], &["--join=239.9.9.9%none"]].concat();
            let output = support::server::command(&failing).output();
            assert!(!output.expect("it runs").status.success());
            server.await_line(&["event=not-handed-over", "the successor has left"]);
        } else {
            server = succeed(server, &options);
        }
    }
}

/// A second successor is refused, and the first one continues.
#[test]
fn there_is_one_successor_at_a_time() {
    let folder = Folder::new("two");
    let buffers = "--buffer=16M".to_owned();
    let options = [LOOPBACK.to_owned(), folder.option(), buffers];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(&options);
    server.admit("tv");
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&media(1, 12_000_000));
    until("all of it is there", || {
        let stream = server.stream("tv")?;
        (stream["bytes_received"] == 12_000_000).then_some(())
    });
    let connect = || UnixStream::connect(folder.0.join("handover")).expect("it waits");
    let mut first = connect();
    first
        .read_exact(&mut [0; 1000])
        .expect("it is told of the stream");
    let mut second = connect();
    server.await_line(&["event=not-handed-over", "another server"]);
    assert_eq!(second.read(&mut [0]).expect("it is closed"), 0);
    first
        .read_exact(&mut vec![0; 5_000_000])
        .expect("it goes on");
}

/// The service manager gets the new main process.
#[test]
fn the_service_manager_follows() {
    let folder = Folder::new("manager");
    let states = UnixDatagram::bind(folder.0.join("notify")).expect("a socket");
    states.set_read_timeout(Some(PATIENCE)).expect("an option");
    let state = || {
        let mut bytes = [0; 64];
        let length = uninterrupted(|| states.recv(&mut bytes)).expect("a state");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let notify = format!("export NOTIFY_SOCKET={}", folder.0.join("notify").display());
    let mut old = Server::start_after(&notify, &[&folder.option()]);
    assert_eq!(state(), "READY=1");
    let new = Server::start_after(&notify, &[&folder.option()]);
    let mut told = [state(), state()];
    told.sort();
    assert_eq!(
        told,
        [format!("MAINPID={}", new.pid()), "READY=1".to_owned()]
    );
    assert!(old.exit_status().success());
}

/// A successor that leaves in the middle, or is of another kind, changes nothing.
#[test]
fn who_does_not_take_over_changes_nothing() {
    let folder = Folder::new("failing");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    server.admit("tv");
    let mut source = Source::open(server.address(), "/stream/tv");
    let sent = media(1, 1_000_000);
    let mut viewer = Viewer::ask(server.address(), "/stream/tv");
    server.await_viewers("tv", 1);
    source.send(&sent[..500_000]);
    let began = Instant::now();
    hear_all_and_say_nothing(&folder, &server);
    // With other options it cannot.
    let file = format!("--token-file={}", folder.0.join("tokens").display());
    let other = [
        options.as_slice(),
        &[&file, "--listen=127.0.0.1:0", "--rtp=off"],
    ]
    .concat();
    let output = support::server::command(&other).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("--token-file"),
        "{said}"
    );
    // For that one nobody stood still before ten times as long.
    assert!(began.elapsed() > Duration::from_secs(10));
    source.send(&sent[500_000..]);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(&sent);
    until("two attempts were told of", || {
        let told = server.stderr();
        let failed = told
            .iter()
            .filter(|line| line.contains("event=not-handed-over"));
        (failed.count() == 2).then_some(())
    });
}

/// The folder of a socket is gone. The other server must not have left by then, and its sockets must be
/// as they were.
#[test]
fn a_successor_that_cannot_listen_changes_nothing() {
    let folder = Folder::new("gone");
    let gone = folder.0.join("gone");
    fs::create_dir(&gone).expect("a folder");
    let socket = format!("--listen=unix:{}", gone.join("s").display());
    let handover = folder.option();
    let options = [
        LOOPBACK,
        &handover,
        &socket,
        "--listen=127.0.0.1:0",
        "--rtp=127.0.0.1:0",
    ];
    let mut server = Server::start(&options);
    let client = datagrams::client();
    datagrams::admit(&server, "tv", &[&client]);
    let mut source = Source::open(server.address(), "/stream/tv");
    let mut viewer = Viewer::ask(server.address(), "/stream/tv");
    server.await_viewers("tv", 1);
    fs::remove_dir_all(&gone).expect("it was there");
    let other = [&options[..], &["--dscp=46"]].concat();
    let output = support::server::command(&other).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("cannot listen: '"),
        "{said}"
    );
    server.await_line(&["event=not-handed-over"]);
    let sent = include_bytes!("media/h264.ts");
    source.send(sent);
    assert_eq!(datagrams::next_dscp(&client), 0);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(sent);
    // One that takes over sets it.
    let other = [LOOPBACK, &handover, "--rtp=127.0.0.1:0", "--dscp=46"];
    let new = Server::start(&other);
    new.await_line(&["event=taken-over"]);
    assert!(server.exit_status().success());
    let mut source = Source::open(new.address(), "/stream/tv");
    source.send(sent);
    until("datagrams leave with the new value", || {
        (datagrams::next_dscp(&client) == 46).then_some(())
    });
    assert!(
        !new.stderr()
            .iter()
            .any(|line| line.contains("outgoing-options"))
    );
}

/// Another server's socket is at the path of this one's. The successor does not take it for its own,
/// and makes a file that is gone anew.
#[test]
fn a_socket_that_clients_do_not_find_is_not_handed_over() {
    let folder = Folder::new("moved");
    let path = folder.0.join("s");
    let options = [
        LOOPBACK.to_owned(),
        folder.option(),
        format!("--listen=unix:{}", path.display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--rtp=off".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut server = Server::start(&options);
    fs::remove_file(&path).expect("it is there");
    let other = UnixListener::bind(&path).expect("a free path");
    let output = support::server::command(&options)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("in use"),
        "{said}"
    );
    server.await_line(&["event=not-handed-over"]);
    assert!(UnixStream::connect(&path).is_ok(), "the other's file stays");
    drop(other);
    fs::remove_file(&path).expect("it is there");
    let new = Server::start(&options);
    new.await_line(&["event=taken-over"]);
    assert!(server.exit_status().success());
    let mut client = UnixStream::connect(&path).expect("it is there again");
    client
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("it listens");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// A signal ends a successor that waits for the other server, which continues.
#[test]
fn a_signal_ends_a_successor_that_waits() {
    let folder = Folder::new("signalled");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    // The server hands nothing over for ten seconds now.
    hear_all_and_say_nothing(&folder, &server);
    let mut successor = support::server::command(&options).spawn().expect("it runs");
    let descriptors = format!("/proc/{}/fd", successor.id());
    until("it is connected", || {
        let mut links = fs::read_dir(&descriptors).ok()?.flatten();
        let is_socket = |name: PathBuf| name.to_string_lossy().starts_with("socket:");
        links
            .any(|link| fs::read_link(link.path()).is_ok_and(is_socket))
            .then_some(())
    });
    support::process::signal(successor.id(), "TERM");
    let status = successor.wait().expect("a child");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    assert!(is_answered(server.address()));
    let told = server.stderr();
    assert!(!told.iter().any(|line| line.contains("event=handed-over")));
}

/// One that hears all, and says nothing: a second, for which everybody waits.
fn hear_all_and_say_nothing(folder: &Folder, server: &Server) {
    let mut silent = UnixStream::connect(folder.0.join("handover")).expect("it waits");
    while silent.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
    server.await_line(&["event=not-handed-over"]);
}

/// A waiting successor has the sockets of the clients at that time. Later clients are handed over as
/// well, and clients that leave are gone.
#[test]
fn who_comes_and_goes_while_a_successor_waits_does_so() {
    let folder = Folder::new("waiting");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    let address = server.address();
    server.admit("tv");
    let mut source = Source::open(address, "/stream/tv");
    let mut viewers = vec![Viewer::ask(address, "/stream/tv")];
    let mut leaving = Client::connect(address);
    server.await_viewers("tv", 1);
    hear_all_and_say_nothing(&folder, &server);
    let sent = media(1, 100_000);
    let server = std::thread::scope(|scope| {
        let successor = scope.spawn(|| succeed(server, &options));
        for number in 0..20 {
            viewers.push(Viewer::ask(address, "/stream/tv"));
            drop(Viewer::ask(address, "/stream/tv"));
            leaving.send("GET /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            assert_eq!(leaving.response("GET").status(), 404, "{number}");
            leaving.assert_closed();
            leaving = Client::connect(address);
        }
        successor.join().expect("it takes over")
    });
    leaving.assert_usable();
    server.await_viewers("tv", viewers.len());
    source.send(&sent);
    assert_eq!(source.finish().status(), 200);
    for viewer in &mut viewers {
        viewer.assert_rest(&sent);
    }
}

/// The kernel tells both processes the other one's user. Only root can start a process as another
/// user.
#[test]
fn another_user_takes_nothing_over() {
    let folder = Folder::new("stranger");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    server.admit("tv");
    let everybody = || fs::Permissions::from_mode(0o777);
    for path in [folder.0.clone(), folder.0.join("handover")] {
        fs::set_permissions(path, everybody()).expect("it is ours");
    }
    let mut stranger = support::server::command(&options);
    let stranger = stranger.uid(65_534).spawn();
    if lacks("root", stranger.is_ok()) {
        return;
    }
    let mut stranger = stranger.expect("it runs");
    until("the stranger ends", || {
        stranger.try_wait().expect("a child of this process")
    });
    let output = stranger.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("run both as one user"), "{said}");
    server.await_line(&["event=not-handed-over", "user 65534"]);
    assert_eq!(server.tokens().len(), 1);
}

/// Nobody stands still for a successor that does not even read; and after a while it is in nobody's
/// way.
#[test]
fn who_does_not_read_is_waited_for_by_nobody() {
    let folder = Folder::new("deaf");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    server.admit("tv");
    let mut client = Client::connect(server.address());
    client.assert_usable();
    let connect = || UnixStream::connect(folder.0.join("handover")).expect("it waits");
    let deaf = connect();
    assert_eq!(connect().read(&mut [0]).expect("it is closed"), 0);
    server.await_line(&["event=not-handed-over", "another server"]);
    // Sockets that the successor has do not keep clients here that left.
    client.send("GET /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response("GET").status(), 404);
    client.assert_closed();
    // Whoever comes later takes its place.
    until("another one is told", || {
        let mut next = connect();
        (next.read(&mut [0]).ok()? == 1).then_some(())
    });
    assert_eq!(server.tokens().len(), 1);
    drop(deaf);
    succeed(server, &options);
}

/// A successor with other options ends clients that it would not admit, and says why; all others
/// go on.
#[test]
fn clients_that_the_new_options_do_not_admit_are_ended() {
    let folder = Folder::new("narrower");
    let handover = folder.option();
    let options = [LOOPBACK, &handover];
    let server = Server::start(&options);
    server.admit("tv");
    let address = server.address();
    let mut source = Source::open(address, "/stream/tv");
    source.send(&media(1, 50_000));
    let mut reader = Client::connect(address);
    reader.send("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut half = Client::connect(address);
    half.send("GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
    let mut idle = Client::connect(address);
    idle.assert_usable();
    server.await_viewers("tv", 0);
    let narrower = [
        "--token-server=192.0.2.0/24",
        "--publish-from=192.0.2.0/24",
        options[1],
    ];
    let server = succeed(server, &narrower);
    server.await_line(&["event=not-readmitted", "peer=127.0.0.1"]);
    server.await_line(&["event=stream-ends", "no longer admit it"]);
    assert_eq!(source.finish().status(), 403);
    half.assert_closed();
    drop(reader);
    idle.assert_usable();
}

/// A reload changes the origin, whoever waits meanwhile. The new one is asked after the sockets have
/// come.
#[test]
fn another_origin_is_asked_for_who_waits() {
    let folder = Folder::new("origin");
    let origins = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("an origin"));
    let [before, after] = origins.each_ref().map(|origin| {
        origin.set_nonblocking(true).expect("it does not block");
        format!(
            "--origin=http://{}",
            origin.local_addr().expect("an address")
        )
    });
    let is_asked = |origin: &TcpListener| until("it is asked", || origin.accept().ok());
    let options = |origin| [LOOPBACK, "--origin-tokens", "--wait=60", origin];
    let handover = folder.option();
    let with = |origin| [&options(origin)[..], &[&handover]].concat();
    let old = Server::start(&with(&before));
    let mut viewer = Client::connect(old.address());
    viewer.send_head("GET", "/stream/tv", &[]);
    let _asked = is_asked(&origins[0]);
    let _new = succeed(old, &with(&after));
    let _asked = is_asked(&origins[1]);
}

/// Two servers that are started with one command each, at once: either of them takes over from
/// the other, and both have the same port.
#[test]
fn two_servers_that_are_started_at_once_do_not_meet_at_a_port() {
    let folder = Folder::new("at-once");
    // A server that was killed has left its socket.
    drop(Server::start(&[LOOPBACK, &folder.option()]));
    for _ in 0..3 {
        let listen = format!("--listen={}", support::free_address());
        let options = [LOOPBACK.to_owned(), folder.option(), listen];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (mut one, mut other) = std::thread::scope(|scope| {
            let start = || scope.spawn(|| Server::start(&options));
            let both = [start(), start()];
            let [one, other] = both.map(|server| server.join().expect("it starts"));
            (one, other)
        });
        let has_taken_over = |server: &Server| {
            let lines = server.stderr();
            lines.iter().any(|line| line.contains("event=taken-over"))
        };
        until("one takes over", || {
            (has_taken_over(&one) || has_taken_over(&other)).then_some(())
        });
        assert!(has_taken_over(&one) != has_taken_over(&other));
        let (old, new) = match has_taken_over(&one) {
            true => (&mut other, &one),
            false => (&mut one, &other),
        };
        old.await_line(&["event=handed-over"]);
        assert!(old.exit_status().success());
        assert!(is_answered(new.address()));
    }
}

/// A server that got SIGTERM hands nothing over. The next one begins when the first has left, also
/// while a viewer still gets buffered bytes.
#[test]
fn a_server_that_starts_while_another_ends_serves() {
    let folder = Folder::new("ending");
    let file = format!("--token-file={}", folder.0.join("tokens").display());
    let options = [LOOPBACK.to_owned(), folder.option(), file];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut old = Server::start(&options);
    old.admit("tv");
    let mut source = Source::open(old.address(), "/stream/tv");
    let slow = Viewer::ask(old.address(), "/stream/tv");
    old.await_viewers("tv", 1);
    source.send(&media(1, 6_000_000));
    until("all of it is there", || {
        (old.stream("tv")?["bytes_received"] == 6_000_000).then_some(())
    });
    old.signal("TERM");
    old.await_line(&["event=ending"]);
    let listen = format!("--listen={}", old.address());
    let new = Server::start(&[options.as_slice(), &[&listen]].concat());
    assert_eq!(new.tokens().len(), 1);
    assert!(old.exit_status().success());
    assert!(!old.stderr().iter().any(|line| line.contains("handed-over")));
    drop(slow);
    succeed(new, &options);
}

/// Calls that change the table are answered while one server after the other takes over: no change
/// finds the disk's thread busy with a question.
#[test]
fn changes_of_tokens_go_on_while_servers_take_over() {
    let folder = Folder::new("changes");
    let file = format!("--token-file={}", folder.0.join("tokens").display());
    let options = [LOOPBACK.to_owned(), folder.option(), file];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start(&options);
    let address = server.address();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (server, statuses) = std::thread::scope(|scope| {
        let callers = [0, 1].map(|caller| {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut statuses = std::collections::BTreeMap::new();
                let mut client = Client::connect(address);
                for number in 0.. {
                    let name = format!("sessionid=s{caller}-{number}");
                    for (method, target) in [
                        ("POST", format!("/api/add-token?type=http&{name}")),
                        ("DELETE", format!("/api/revoke-token?{name}")),
                    ] {
                        let status = client.request(method, &target, &[]).status();
                        *statuses.entry(status).or_insert(0) += 1;
                    }
                    if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
                statuses
            })
        });
        let server = (0..8).fold(server, |server, _| succeed(server, &options));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let statuses = callers.map(|caller| caller.join().expect("it calls"));
        (server, statuses)
    });
    for statuses in statuses {
        let kinds: Vec<u16> = statuses.keys().copied().collect();
        assert_eq!(kinds, [200, 201], "{statuses:?}");
    }
    assert_eq!(server.tokens().len(), 0);
}

/// What a server asks of the kernel while another takes over, in which it can die at any call.
const CALLS_OF_OLD: [&str; 6] = [
    "accept4",
    "sendmsg",
    "write,writev,sendto",
    "setsockopt,ioctl,fcntl",
    "recvfrom,read,shutdown",
    "epoll_ctl,epoll_wait,close",
];

/// The server is killed before any system call of a hand-over. Either the successor has everything
/// and viewers continue, or it has nothing and exits, and the next server serves.
#[test]
#[ignore = "needs strace"]
fn a_server_that_is_killed_has_handed_over_all_or_nothing() {
    let (mut all, mut nothing) = (0, 0);
    for calls in CALLS_OF_OLD {
        for when in 1.. {
            let folder = Folder::new("old-killed");
            let file = format!("--token-file={}", folder.0.join("tokens").display());
            let options = [LOOPBACK.to_owned(), folder.option(), file];
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let mut old = Server::start(&options);
            old.admit("tv");
            let mut source = Source::open(old.address(), "/stream/tv");
            let mut viewer = Viewer::ask(old.address(), "/stream/tv");
            old.await_viewers("tv", 1);
            let before = media(1, 5_000);
            source.send(&before);
            assert!(viewer.read(before.len()) == before);
            let mut strace = Command::new("strace")
                .args(["-f", "-o", "/dev/null", "-p", &old.pid().to_string(), "-e"])
                .arg(format!("inject={calls}:signal=KILL:when={when}"))
                .stderr(Stdio::piped())
                .spawn()
                .expect("strace runs");
            let mut said = strace.stderr.take().expect("a pipe");
            said.read_exact(&mut [0; 8]).expect("it is attached");
            let listen = format!("--listen={}", old.address());
            let other = [options.as_slice(), &["--rtp=off", &listen]].concat();
            let mut new = support::server::command(&other).spawn().expect("it runs");
            let status = old.exit_status();
            strace.wait().expect("a child");
            let has_taken_over = until("the other serves, or leaves", || {
                match new.try_wait().expect("a child") {
                    Some(_) => Some(false),
                    None => is_answered(old.address()).then_some(true),
                }
            });
            // One that has come too late begins anew, as the first did.
            let list = || request(old.address(), "GET", "/api/list-streams", &[]);
            if has_taken_over && list().text().contains("\"tv\"") {
                all += 1;
                let more = media(1, 5_000);
                source.send(&more);
                assert!(viewer.read(more.len()) == more, "{calls} {when}");
            } else {
                nothing += 1;
                assert!(!status.success(), "{calls} {when}");
                let _ = new.kill();
                new.wait().expect("a child");
                let next = Server::start(&[options.as_slice(), &[&listen]].concat());
                assert_eq!(next.tokens().len(), 1, "{calls} {when}");
            }
            let _ = new.kill();
            new.wait().expect("a child");
            if status.success() {
                break;
            }
        }
    }
    assert!(
        all > 3 && nothing > 10,
        "{all} had all, {nothing} had nothing"
    );
}

/// Whether somebody serves there, and does not only wait for clients.
fn is_answered(address: SocketAddr) -> bool {
    let answer = TcpStream::connect(address).and_then(|mut client| {
        client.set_read_timeout(Some(Duration::from_millis(500)))?;
        client.write_all(b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")?;
        client.read(&mut [0; 64])
    });
    answer.is_ok_and(|read| read > 0)
}

/// What a successor asks of the kernel on its way, in which it can die at any call.
const CALLS: [&str; 8] = [
    "connect",
    "getsockopt",
    "recvmsg",
    "epoll_ctl",
    "clone3",
    "ioctl,fcntl",
    "setsockopt,listen,getsockname",
    "write,sendto",
];

/// Starts a successor whose system calls strace changes. Returns whether it takes over: then the
/// server has left, and the successor is killed.
fn takes_over(server: &mut Server, options: &[&str], injected: &str) -> bool {
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", injected])
        .arg(support::server::program())
        .args(options)
        .stderr(Stdio::null())
        .spawn()
        .expect("strace runs");
    let has_left = || {
        let told = server.stderr();
        told.iter().any(|line| line.contains("event=handed-over"))
    };
    let has_ended = until("it ends, or takes over", || {
        let ended = strace.try_wait().expect("a child").is_some();
        (ended || has_left()).then_some(ended)
    });
    // Its last word may have come before what the other says of it.
    let has_left = until("one of them serves, or has served", || {
        let serves = || is_answered(server.address());
        has_left()
            .then_some(true)
            .or_else(|| serves().then_some(false))
    });
    let takes_over = !has_ended || has_left;
    if takes_over {
        let _ = Command::new("pkill")
            .args(["-KILL", "-P", &strace.id().to_string()])
            .status();
        strace.wait().expect("a child");
        assert!(server.exit_status().success());
    }
    takes_over
}

/// A successor that is killed before any system call has changed nothing, and the last one takes
/// over.
#[test]
#[ignore = "needs strace"]
fn a_successor_that_is_killed_changes_nothing() {
    let mut killed = 0;
    for calls in CALLS {
        let folder = Folder::new("killed");
        let file = format!("--token-file={}", folder.0.join("tokens").display());
        let options = [LOOPBACK.to_owned(), folder.option(), file];
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.push("--rtp=127.0.0.1:0");
        let mut server = Server::start(&options);
        server.admit("tv");
        let mut source = Source::open(server.address(), "/stream/tv");
        let mut viewer = Viewer::ask(server.address(), "/stream/tv");
        server.await_viewers("tv", 1);
        for when in 1.. {
            let injected = format!("inject={calls}:signal=KILL:when={when}");
            let options = [&options[..], &["--listen=127.0.0.1:0"]].concat();
            if takes_over(&mut server, &options, &injected) {
                break;
            }
            killed += 1;
            let media = media(1, 5_000);
            source.send(&media);
            assert!(viewer.read(media.len()) == media, "{calls} {when}");
            assert_eq!(server.tokens().len(), 1);
        }
    }
    assert!(killed > 30, "{killed} were killed");
}

/// The kernel refuses a successor a call. The other server goes on, its sockets are as they were, and
/// their files stay.
#[test]
#[ignore = "needs strace"]
fn a_successor_that_is_refused_a_call_changes_nothing() {
    for calls in ["epoll_ctl", "openat"] {
        let folder = Folder::new("refused");
        let path = folder.0.join("s");
        let options = [
            LOOPBACK.to_owned(),
            folder.option(),
            format!("--listen=unix:{}", path.display()),
            "--listen=127.0.0.1:0".to_owned(),
            "--rtp=127.0.0.1:0".to_owned(),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut server = Server::start(&options);
        let client = datagrams::client();
        datagrams::admit(&server, "tv", &[&client]);
        let mut source = Source::open(server.address(), "/stream/tv");
        let mut refused = 0;
        for when in 1.. {
            let injected = format!("inject={calls}:error=ENOSPC:when={when}+");
            let options = [&options[..], &["--dscp=46"]].concat();
            if takes_over(&mut server, &options, &injected) {
                break;
            }
            refused += 1;
            let case = format!("{calls} {when}");
            assert!(UnixStream::connect(&path).is_ok(), "{case}");
            assert!(folder.0.join("handover").exists(), "{case}");
            assert!(is_answered(server.address()), "{case}");
            source.send(include_bytes!("media/h264.ts"));
            assert_eq!(datagrams::next_dscp(&client), 0, "{case}");
        }
        assert!(refused > 3, "{refused} were refused one of {calls}");
    }
}

/// A listener with titles gets the bytes of one without, over a source that goes on after another, one
/// that takes over, and a hand-over. The titles stand every 16,000 bytes.
#[test]
#[cfg(feature = "default")]
fn titles_stand_every_16_000_bytes_whatever_happens() {
    let song = include_bytes!("media/sound.mp3").repeat(20);
    let folder = Folder::new("titles");
    for (close, version) in [
        (None, "1.1"),
        (None, "1.0"),
        (Some("--close-delimited"), "1.1"),
    ] {
        let handover = folder.option();
        let mut options = vec![LOOPBACK, &handover, "--icecast", "--hold=60", "--takeover"];
        options.extend(close);
        let mut server = Server::start(&options);
        let address = server.address();
        server.admit("s");
        let publish =
            || Source::open_with(address, "PUT", "/stream/s", &["Content-Type: audio/mpeg"]);
        let mut source = publish();
        let mut listeners = ["Icy-MetaData: 1", "X: 1"].map(|field| {
            let mut client = Client::connect(address);
            client.send(format!(
                "GET /stream/s HTTP/{version}\r\nHost: h\r\n{field}\r\n\r\n"
            ));
            Viewer::of(client)
        });
        server.await_viewers("s", 2);
        let mut bodies = [Vec::new(), Vec::new()];
        // Sends media before a title and after it, and reads what the listeners got.
        let mut send = |server: &Server, source: &mut Source, title: &str| {
            for _ in 0..2 {
                let received = |server: &Server| server.stream("s")?["bytes_received"].as_u64();
                let before = received(server).expect("it runs");
                source.send(&song);
                let bytes = until("it has come", || {
                    received(server).filter(|bytes| *bytes > before + 150_000)
                });
                for (listener, body) in listeners.iter_mut().zip(&mut bodies) {
                    // Some of it waits for the end of its frame, or is left out at a seam.
                    let left = (bytes as usize).saturating_sub(body.len() + 100_000);
                    body.extend(listener.read(left));
                }
                let line = format!("/api/set-title?sessionid=s&title={title}");
                until("it holds", || {
                    let row = server.request("POST", &line).json();
                    (row["title"] == title).then_some(())
                });
            }
        };
        send(&server, &mut source, "a");
        drop(source);
        until("it is held", || {
            (server.stream("s")?["held"] == true).then_some(())
        });
        let mut source = publish();
        send(&server, &mut source, "b");
        let mut other = publish();
        send(&server, &mut other, "c");
        server = succeed(server, &options);
        send(&server, &mut other, "d");
        assert_eq!(other.finish().status(), 200);
        let metaint = listeners[0].head();
        assert_eq!(metaint.field("icy-metaint"), Some("16000"));
        for (listener, body) in listeners.iter_mut().zip(&mut bodies) {
            body.extend(listener.read_to_end().0);
        }
        let (media, titles) = support::streaming::without_titles(&bodies[0]);
        assert!(
            media == bodies[1] && media.len() > 7 * song.len(),
            "{}",
            media.len()
        );
        let titles: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
        let expected = ["a", "b", "c", "d"].map(|title| format!("StreamTitle='{title}';"));
        assert_eq!(titles, expected, "{options:?} {version}");
        drop(source);
    }
}
