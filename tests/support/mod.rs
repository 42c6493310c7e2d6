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
pub mod picture;
pub mod playlist;
pub mod process;
pub mod response;
pub mod server;
pub mod streaming;
pub mod transport;
pub mod vectors;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for what must happen. It ends a test that would fail; it never makes one pass.
pub const PATIENCE: Duration = Duration::from_secs(30);

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

/// An address that is free, for a program that must be told where to listen. It is none of those
/// that the kernel gives to whoever connects somewhere, so it stays free until it is used.
pub fn free_address() -> SocketAddr {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let begin = 10_000 + (std::process::id() % 2_000) as u16 * 10;
    let addresses = std::iter::repeat_with(|| {
        let port = begin + TAKEN.fetch_add(1, Ordering::Relaxed);
        SocketAddr::from(([127, 0, 0, 1], port))
    });
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    addresses.take(2_000).find(is_free).expect("a free port")
}

/// Whether this machine has the address `::1`; what needs a second host beside 127.0.0.1 uses it.
pub fn has_ipv6() -> bool {
    std::net::TcpListener::bind("[::1]:0").is_ok()
}
