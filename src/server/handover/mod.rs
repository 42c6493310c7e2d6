//! A server that takes the place of another, which runs, and nobody notices: `--handover`.
//!
//! Whoever is started with the path at which another one waits takes over from it ([`taking`]); and
//! then waits there itself for the next one ([`giving`]). Streams are copied while they go on, and
//! clients' sockets, as copies of their descriptors; all else goes over in one moment in which
//! nobody is served. For a while both have a socket, and one uses it, which shuts it down as it
//! closes it.
//! The core knows what there is to be told ([`crate::relay::handover`]), this how it gets there
//! ([`wire`]). Both are processes of the same user, which the kernel says.

mod giving;
mod taking;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(super) use giving::Handover;
pub(super) use taking::Legacy;

use super::sys::descriptors;

/// What is said first.
#[derive(Serialize, Deserialize)]
struct Greeting {
    /// Of what the core tells.
    format: u64,
    /// Of the program.
    version: String,
}

/// Where clients are waited for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Where the service manager says.
    Passed(SocketAddr),
    /// Those who come there would take over.
    Handover,
}

/// What comes to a socket for datagrams.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Port {
    Rtp,
    Rtcp,
    /// What this option says.
    Group(String),
}

/// The number of the process at the other side, which must be this user's.
fn peer_of_same_user(socket: &UnixStream) -> io::Result<u32> {
    let (process, user) = descriptors::peer(socket.as_fd())?;
    match user == descriptors::own_user() {
        true => Ok(process),
        false => Err(io::Error::other(format!(
            "user {user} is at the other side, and this server is user {}'s",
            descriptors::own_user()
        ))),
    }
}
