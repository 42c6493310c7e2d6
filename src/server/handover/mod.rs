//! `--handover`: a server takes over from a running one, and no client notices.
//!
//! A server that is started with the path of a waiting server takes over from it ([`receive`]). Then
//! it waits at the path for its own successor ([`send`]). Streams and copies of the clients'
//! descriptors are sent while the old server runs. All other state is sent during a short standstill
//! in which no client is served. For a while both processes have each socket. Only one uses it, and
//! that one shuts it down when it closes it.
//!
//! The core makes the state ([`crate::relay::handover`]), and this module transports it ([`wire`]).
//! Both processes must have the same user. The kernel names it.

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

/// The first frame.
#[derive(Serialize, Deserialize)]
struct Hello {
    /// Format of the core's state.
    format: u64,
    /// Version of the program.
    version: String,
}

/// Returns the id of the process at the other side. It must have the same user.
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
