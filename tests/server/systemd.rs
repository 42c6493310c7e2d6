//! Sockets that systemd opens, and notifications to systemd.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::client::Client;
use crate::support::process::signal;
#[cfg(feature = "handover")]
use crate::support::server::Server;
use crate::support::server::program;
use crate::support::{PATIENCE, free_address, uninterrupted};

/// A server that gets `sockets` as systemd passes them, and one to tell its state to.
struct Service {
    child: Child,
    states: UnixDatagram,
}

impl Service {
    fn start(name: &str, sockets: [OwnedFd; 2], options: &[&str]) -> Service {
        Service::start_as(name, "$$", sockets, options)
    }

    /// `process` is whose they are said to be.
    fn start_as(name: &str, process: &str, sockets: [OwnedFd; 2], options: &[&str]) -> Service {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_file(&path);
        let states = UnixDatagram::bind(&path).expect("a socket for its state");
        states.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let [listener, rtp] = sockets;
        // The shell moves them to where systemd puts them.
        let script = format!(
            "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_PID={process} LISTEN_FDS=2; exec \"$0\" \"$@\""
        );
        let child = Command::new("sh")
            .args(["-c", &script, &program()])
            .args(options)
            .env("NOTIFY_SOCKET", &path)
            .stdin(Stdio::from(listener))
            .stdout(Stdio::from(rtp))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Service { child, states }
    }

    #[track_caller]
    fn await_state(&self, state: &str) {
        let mut bytes = [0; 64];
        let length = uninterrupted(|| self.states.recv(&mut bytes)).expect("it tells its state");
        assert_eq!(&bytes[..length], state.as_bytes());
    }

    /// Ends the server. Returns its log.
    fn stop(self) -> String {
        signal(self.child.id(), "TERM");
        self.await_state("STOPPING=1");
        let ended = self.child.wait_with_output().expect("it ends");
        assert!(ended.status.success());
        String::from_utf8(ended.stderr).expect("text")
    }
}

#[test]
fn a_restart_refuses_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let rtp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("its address");
    let sockets = || {
        [
            listener.try_clone().expect("a copy").into(),
            rtp.try_clone().expect("a copy").into(),
        ]
    };
    // The options say otherwise, and are not what counts.
    let options = ["--listen=127.0.0.1:1", "--token-server=127.0.0.1"];
    let first = Service::start("first.state", sockets(), &options);
    first.await_state("READY=1");
    assert_eq!(
        Client::connect(address)
            .request("GET", "/healthz", &[])
            .status(),
        200
    );
    let log = first.stop();
    assert!(log.contains("event=listen-ignored"), "{log}");
    // Nobody serves now.
    let mut early = Client::connect(address);
    early.send_head("GET", "/healthz", &[]);
    let second = Service::start("second.state", sockets(), &options);
    second.await_state("READY=1");
    assert_eq!(early.response("GET").status(), 200);
    drop(early);
    second.stop();
}

/// Sockets that another ancestor process left open replace no option.
#[test]
fn sockets_that_are_anothers_are_left_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let rtp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let own = free_address();
    let options = [&format!("--listen={own}"), "--rtp=off"];
    let sockets = [listener.into(), rtp.into()];
    let service = Service::start_as("another.state", "1", sockets, &options);
    service.await_state("READY=1");
    let answer = Client::connect(own).request("GET", "/healthz", &[]);
    assert_eq!(answer.status(), 200);
    let log = service.stop();
    assert!(!log.contains("event=listen-ignored"), "{log}");
}

/// The socket for RTP goes over, too, though an option names another address.
#[cfg(feature = "handover")]
#[test]
fn passed_sockets_go_over_to_a_successor() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let rtp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let rtp_address = rtp.local_addr().expect("its address");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("passed.handover");
    let _ = std::fs::remove_file(&path);
    let handover = format!("--handover=unix:{}", path.display());
    let options = [
        "--token-server=127.0.0.1",
        "--listen=127.0.0.1:1",
        "--rtp=127.0.0.1:0",
        &handover,
    ];
    let sockets = [listener.into(), rtp.into()];
    let mut first = Service::start("passed.state", sockets, &options);
    first.await_state("READY=1");
    let succeed = || {
        let next = Server::start(&options);
        next.await_line(&["event=taken-over"]);
        assert_eq!((next.address(), next.rtp), (address, Some(rtp_address)));
        next
    };
    let mut next = succeed();
    assert!(first.child.wait().expect("a child").success());
    let _last = succeed();
    assert!(next.exit_status().success());
}
