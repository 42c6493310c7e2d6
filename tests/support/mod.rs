//! What the integration tests share: the server as a process of its own, and clients that behave or
//! misbehave.
//!
//! Everything waits for a condition and gives up after [`PATIENCE`]; nothing passes because time
//! has passed.

// Each file of tests compiles this module for itself, and uses its own part of it.
#![allow(dead_code)]

pub mod analyser;
pub mod client;
pub mod corpus;
pub mod crowd;
pub mod datagrams;
pub mod encoder;
pub mod events;
pub mod made;
pub mod media;
pub mod needs;
pub mod picture;
pub mod playlist;
pub mod process;
pub mod response;
pub mod server;
pub mod streaming;
pub mod transport;
pub mod vectors;

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for what must happen. It ends a test that would fail; it never makes one pass.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks `check` again and again until it has an answer.
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = check() {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "did not happen within {PATIENCE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A path of this test's own, where there is nothing yet.
pub fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Repeats a call that the kernel interrupted. It may interrupt calls with a time limit
/// (signal(7)). `std` repeats its own reads.
pub fn uninterrupted<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns a free address, for a program that needs an address to listen at. The kernel does not
/// give it to outgoing connections, so it stays free until it is used. The test does not try it by
/// listening: a program that starts at the same time would keep that socket open for a while.
pub fn free_address() -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let addresses = own_ports(&TAKEN, 1).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let is_free = |address: &SocketAddr| TcpStream::connect(address).is_err();
    addresses.take(2_000).find(is_free).expect("a free port")
}

/// The same of a port for datagrams, and of the one above it, which programs take for RTCP.
pub fn free_udp_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: &u16| {
        let both = [*port, port + 1].map(|port| UdpSocket::bind(("127.0.0.1", port)));
        both.iter().all(Result::is_ok)
    };
    let mut ports = own_ports(&TAKEN, 2).take(1_000);
    ports.find(is_free).expect("a free port")
}

/// Number of this process's own ports that are in use.
fn own_ports(taken: &'static AtomicU16, step: u16) -> impl Iterator<Item = u16> {
    let begin = 10_000 + (std::process::id() % 2_000) as u16 * 10;
    std::iter::repeat_with(move || begin + taken.fetch_add(step, Ordering::Relaxed))
}
