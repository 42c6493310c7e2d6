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
use std::time::Duration;

use mio::Registry;
use serde::{Deserialize, Serialize};

pub(super) use receive::Predecessor;
pub(super) use send::Handover;

use super::sys::descriptors;
use super::sys::process::Process;
use super::tcp::Listener;
use crate::config::Config;
use crate::relay::Settings;
use receive::Receiver;

/// The first frame.
#[derive(Serialize, Deserialize)]
struct Hello {
    /// Format of the core's state.
    format: u64,
    /// Version of the program.
    version: String,
}

/// How long a process may take to end when it has closed its sockets.
const EXIT_TIME: Duration = Duration::from_secs(2);

impl Handover {
    /// Takes the path of `--handover`, or receives all from the server that waits there. This comes before
    /// anything else is bound. So of two servers that start at once, one takes over from the other. If the
    /// other server ends after a signal without handing over, this waits for its end and tries again.
    /// Errors are sentences.
    pub fn start(
        config: &Config,
        settings: &Settings,
        registry: &Registry,
    ) -> Result<(Handover, Option<Predecessor>), String> {
        let mut handover = Handover::default();
        let Some(path) = &config.handover else {
            return Ok((handover, None));
        };
        let shown = path.display();
        let failed =
            |error: io::Error| format!("cannot take over from the server at '{shown}': {error}");
        loop {
            let socket = match UnixStream::connect(path) {
                Ok(socket) => socket,
                Err(error) if is_nobody(&error) => {
                    let listener = Listener::unix(path);
                    match listener.and_then(|listener| handover.wait_at(listener, registry)) {
                        Ok(()) => return Ok((handover, None)),
                        // Another server that starts was faster.
                        Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                        Err(error) => {
                            return Err(format!(
                                "cannot wait for a successor at '{shown}': {error}"
                            ));
                        }
                    }
                }
                Err(error) => return Err(failed(error)),
            };
            let process = Process::open(peer_of_same_user(&socket).map_err(failed)?);
            let receiver = Receiver::of((socket, process), config, settings.clone(), registry);
            if let Some(predecessor) = receiver.receive().map_err(failed)? {
                return Ok((handover, Some(predecessor)));
            }
        }
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
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
