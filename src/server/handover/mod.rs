//! `--handover`: a server takes over from a running one, and no client notices.
//!
//! A server that is started with the path of a waiting server takes over from it ([`taking`]). Then
//! it waits at the path for its own successor ([`giving`]). Streams and copies of the clients'
//! descriptors are sent while the old server runs. All other state is sent during a short standstill
//! in which no client is served. For a while both processes have each socket. Only one uses it, and
//! that one shuts it down when it closes it.
//!
//! The core makes the state ([`crate::relay::handover`]), and this module transports it ([`wire`]).
//! Both processes must have the same user, which the kernel tells.

mod receive;
mod send;
mod wire;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

pub(super) use receive::Predecessor;
pub(super) use send::Handover;

use super::sys::descriptors;

/// What is said first.
#[derive(Serialize, Deserialize)]
struct Hello {
    /// Of what the core tells.
    format: u64,
    /// Of the program.
    version: String,
}

/// The number of the process at the other side, which must be this user's.
fn peer_of_same_user(socket: &UnixStream) -> io::Result<u32> {
    let (process, user) = descriptors::peer(socket.as_fd())?;
    match user == descriptors::own_user() {
        true => Ok(process),
        false => Err(io::Error::other(format!(
            "the other server runs as user {user}, and this one as user {}; run both as one user",
            descriptors::own_user()
        ))),
    }
}
