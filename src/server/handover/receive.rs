//! The successor's side: what another server tells is taken in, and then its place.

use std::fmt::Display;
use std::io::{self, Write};
use std::net;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use mio::Registry;
use mio::net::TcpStream;
use serde::de::DeserializeOwned;

use super::wire::{Frame, Inbox, Kind, TAKEN};
use super::{Hello, peer_of_same_user};
use crate::config::Config;
use crate::handover::is_known;
use crate::relay::handover::{Successor, connections};
use crate::relay::{CONNECTIONS_BEYOND_MAX, ConnectionId, Relay, Settings, StreamId};
use crate::server::bound::Bound;
use crate::server::disk::TokenFile;
use crate::server::sys::process::await_end;
use crate::server::tcp::{Listener, Sockets};
use crate::time::Instant;

/// What another server had, which waits for this one's word.
pub struct Predecessor {
    socket: UnixStream,
    relay: Option<Relay>,
    now: Instant,
    heard: std::time::Instant,
    sockets: Sockets,
    bound: Bound,
    token_file: Option<TokenFile>,
}

/// How long the other server may be silent: it may wait for its disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process may take to end when it has closed its sockets.
const EXIT_TIME: Duration = Duration::from_secs(2);
/// More sockets at which clients are waited for, or for datagrams, are none of a server's.
const BOUND_MAX: usize = 8192;

/// What comes, piece by piece.
struct Receiver<'a> {
    successor: Successor,
    predecessor: Predecessor,
    registry: &'a Registry,
    /// Connections that there may be.
    places_max: usize,
}

/// The owner of the path of `--handover`.
pub enum PathState {
    /// A server that has told all. It waits for the word of this one.
    Server(Box<Predecessor>),
    /// Nobody had it. This server has it now.
    Nobody(Listener),
}

/// Takes the path, or hears all that the server tells which waits there; the sockets of its clients
/// are registered as they come. A server that ends without handing over, after a signal, is
/// waited for. Errors are sentences.
pub fn find(
    path: &Path,
    (config, settings): (&Config, &Settings),
    registry: &Registry,
) -> Result<PathState, String> {
    let failed = |error: &dyn Display| {
        format!(
            "cannot take over from the server at '{}': {error}",
            path.display()
        )
    };
    loop {
        let socket = match UnixStream::connect(path) {
            Ok(socket) => socket,
            Err(error) if is_nobody(&error) => match Listener::unix(path) {
                Ok(listener) => return Ok(PathState::Nobody(listener)),
                // Another server that starts was faster.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                Err(error) => {
                    let path = path.display();
                    return Err(format!("cannot wait for a successor at '{path}': {error}"));
                }
            },
            Err(error) => return Err(failed(&error)),
        };
        let process = peer_of_same_user(&socket).map_err(|error| failed(&error))?;
        let is_kept = config.token_file.is_some();
        let receiver = Receiver::of(socket, (settings.clone(), is_kept), registry);
        let error = match receiver.hear(config) {
            Ok(predecessor) => return Ok(PathState::Server(Box::new(predecessor))),
            Err(error) => error,
        };
        let is_cut = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        );
        if !(is_cut && await_end(process, EXIT_TIME)) {
            return Err(failed(&error));
        }
    }
}

impl Predecessor {
    /// The core, and when the clock began that its moments count from.
    pub fn relay(&mut self) -> Result<(Relay, std::time::Instant), String> {
        let began = self.heard.checked_sub(self.now.since_start());
        self.relay.take().zip(began).ok_or_else(|| {
            "the other server says that it has run for longer than this machine".to_owned()
        })
    }

    /// The sockets that are no clients' sockets.
    pub fn bound(&mut self) -> Bound {
        std::mem::take(&mut self.bound)
    }

    /// The token file, with its lock.
    pub fn token_file(&mut self) -> Option<TokenFile> {
        self.token_file.take()
    }

    /// The clients' sockets.
    pub fn sockets(&mut self) -> Sockets {
        std::mem::take(&mut self.sockets)
    }

    /// Says that all is taken over. An error: the other server has gone on, and this one must touch
    /// nothing.
    pub fn taken(mut self) -> Result<(), String> {
        let said = self.socket.write_all(&[TAKEN]);
        said.map_err(|error| format!("the other server continues: {error}"))
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

impl Receiver<'_> {
    fn of(
        socket: UnixStream,
        (settings, is_kept): (Settings, bool),
        registry: &Registry,
    ) -> Receiver<'_> {
        Receiver {
            places_max: settings.limits.connections_max + CONNECTIONS_BEYOND_MAX,
            successor: Successor::new(settings, is_kept),
            registry,
            predecessor: Predecessor {
                socket,
                relay: None,
                now: Instant::START,
                heard: std::time::Instant::now(),
                sockets: Sockets::default(),
                bound: Bound::default(),
                token_file: None,
            },
        }
    }

    /// Hears all.
    fn hear(mut self, config: &Config) -> io::Result<Predecessor> {
        let mut inbox = Inbox::new(self.predecessor.socket.try_clone()?, PATIENCE)?;
        let first = inbox.next()?;
        let hello: Hello = match first.kind {
            Kind::Hello => of_json(&first.bytes)?,
            _ => return Err(io::Error::other("it does not say who it is")),
        };
        is_known(hello.format, &hello.version).map_err(io::Error::other)?;
        loop {
            let frame = inbox.next()?;
            if frame.kind == Kind::End {
                break;
            }
            self.take(frame, config)?;
        }
        let (relay, now) = self.successor.take_over().map_err(io::Error::other)?;
        self.predecessor.heard = std::time::Instant::now();
        let sockets = std::mem::take(&mut self.predecessor.sockets);
        self.predecessor.sockets = sockets.only(connections(&relay), self.registry)?;
        (self.predecessor.relay, self.predecessor.now) = (Some(relay), now);
        Ok(self.predecessor)
    }

    fn take(&mut self, frame: Frame, config: &Config) -> io::Result<()> {
        let predecessor = &mut self.predecessor;
        let bytes = &frame.bytes;
        match frame.kind {
            Kind::Media => {
                let ([id, from], media) = numbers(bytes)?;
                let heard = self.successor.media(StreamId::from_u64(id), from, media);
                heard.map_err(io::Error::other)?;
            }
            Kind::Gone => {
                let ([id], _) = numbers(bytes)?;
                self.successor.forget_media(StreamId::from_u64(id));
            }
            Kind::Client(what) => {
                let ([id, from], copied) = numbers(bytes)?;
                let from = usize::try_from(from).map_err(io::Error::other)?;
                let whose = (ConnectionId::from_u64(id), what);
                let taken = self.successor.copy(whose, from, copied);
                taken.map_err(io::Error::other)?;
            }
            Kind::Listener | Kind::Datagrams if predecessor.bound.0.len() < BOUND_MAX => {
                let descriptor = frame.descriptors.into_iter().next();
                let socket = (of_json(bytes)?, descriptor.ok_or_else(missing)?);
                predecessor.bound.0.push(socket);
            }
            Kind::TokenFile => {
                let Some(path) = &config.token_file else {
                    return Err(io::Error::other(
                        "it has a token file; start this server with the same --token-file",
                    ));
                };
                let descriptors = <[OwnedFd; 2]>::try_from(frame.descriptors);
                let descriptors = descriptors.map_err(|_| missing())?;
                let file = TokenFile::of_parts(path, descriptors, of_json(bytes)?);
                predecessor.token_file = Some(file.map_err(io::Error::other)?);
            }
            Kind::Clients => {
                let mut rest = bytes.as_slice();
                for descriptor in frame.descriptors {
                    let ([id], behind) = numbers(rest)?;
                    let id = ConnectionId::from_u64(id);
                    if id.index() >= self.places_max {
                        return Err(io::Error::other(format!(
                            "a client has place {}, and there are {} here; raise --connections",
                            id.index(),
                            self.places_max
                        )));
                    }
                    let stream = TcpStream::from_std(net::TcpStream::from(descriptor));
                    predecessor.sockets.insert(id, stream, self.registry)?;
                    rest = behind;
                }
            }
            Kind::Records => self.successor.hear(bytes).map_err(io::Error::other)?,
            Kind::Hello | Kind::Listener | Kind::Datagrams | Kind::End => {
                return Err(io::Error::other("it tells what it should not"));
            }
        }
        Ok(())
    }
}

/// Splits a frame's content into its leading numbers and its rest.
fn numbers<const COUNT: usize>(mut bytes: &[u8]) -> io::Result<([u64; COUNT], &[u8])> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        let (first, rest) = bytes.split_first_chunk().ok_or_else(missing)?;
        (*number, bytes) = (u64::from_le_bytes(*first), rest);
    }
    Ok((numbers, bytes))
}

fn missing() -> io::Error {
    io::Error::other("something is missing of what it tells")
}

fn of_json<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(io::Error::other)
}
