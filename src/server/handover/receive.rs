//! The successor's side: what another server tells is taken in, and then its place.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::{self, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use mio::Registry;
use mio::net::TcpStream;
use serde::de::DeserializeOwned;

use super::wire::{Frame, Inbox, Kind, TAKEN};
use super::{Hello, Place, Port, peer_of_same_user};
use crate::config::{Bind, Config};
use crate::gate::Join;
use crate::handover::is_known;
use crate::relay::handover::{Successor, connections};
use crate::relay::{CONNECTIONS_BEYOND_MAX, ConnectionId, Relay, Settings, StreamId};
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
    places: Vec<(Place, OwnedFd)>,
    ports: Vec<(Port, OwnedFd)>,
    token_file: Option<TokenFile>,
}

/// How long the other server may be silent: it may wait for its disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process may take to end when it has closed its sockets.
const EXIT_TIME: Duration = Duration::from_secs(2);
/// More sockets at which clients are waited for, or for datagrams, are none of a server's.
const PLACES_MAX: usize = 4096;

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

    /// The listeners that the service manager had opened.
    pub fn passed(&mut self) -> Vec<TcpListener> {
        let places = std::mem::take(&mut self.places);
        let is_passed = |(place, _): &(Place, _)| matches!(place, Place::Passed(_));
        let (passed, others) = places.into_iter().partition(is_passed);
        self.places = others;
        let sockets = Vec::into_iter(passed).map(|(_, socket): (Place, OwnedFd)| socket.into());
        sockets.collect()
    }

    /// The listener that was bound here.
    pub fn tcp(&mut self, bind: &Bind) -> Option<TcpListener> {
        self.place(|place| matches!(place, Place::Tcp(bound) if is_bound(bind, *bound)))
            .map(TcpListener::from)
    }

    /// The listener of this path.
    pub fn unix(&mut self, path: &Path) -> Option<UnixListener> {
        self.place(|place| matches!(place, Place::Unix(other) if other == path))
            .map(UnixListener::from)
    }

    /// The socket at which the next successor comes.
    pub fn handover(&mut self) -> Option<UnixListener> {
        self.place(|place| *place == Place::Handover)
            .map(UnixListener::from)
    }

    fn place(&mut self, is_it: impl Fn(&Place) -> bool) -> Option<OwnedFd> {
        let index = self.places.iter().position(|(place, _)| is_it(place))?;
        Some(self.places.swap_remove(index).1)
    }

    /// The RTP socket, if it was bound here, and that for RTCP.
    pub fn rtp(&mut self, bind: &Bind) -> Option<(UdpSocket, Option<UdpSocket>)> {
        let rtp = UdpSocket::from(self.port(&Port::Rtp)?);
        let is_it = rtp.local_addr().is_ok_and(|bound| is_bound(bind, bound));
        is_it.then(|| (rtp, self.port(&Port::Rtcp).map(UdpSocket::from)))
    }

    /// The socket of a group.
    pub fn group(&mut self, join: &Join) -> Option<UdpSocket> {
        self.port(&Port::Group(join.to_string()))
            .map(UdpSocket::from)
    }

    fn port(&mut self, port: &Port) -> Option<OwnedFd> {
        let index = self.ports.iter().position(|(other, _)| other == port)?;
        Some(self.ports.swap_remove(index).1)
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

/// Whether a socket that is bound there is what the option asks for.
fn is_bound(bind: &Bind, bound: SocketAddr) -> bool {
    let mut asked = [Some(bind.address), bind.without_ipv6]
        .into_iter()
        .flatten();
    asked.any(|asked| asked.ip() == bound.ip() && [0, bound.port()].contains(&asked.port()))
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
                places: Vec::new(),
                ports: Vec::new(),
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
            Kind::Listener if predecessor.places.len() < PLACES_MAX => {
                predecessor
                    .places
                    .push((of_json(bytes)?, only(frame.descriptors)?));
            }
            Kind::Datagrams if predecessor.ports.len() < PLACES_MAX => {
                predecessor
                    .ports
                    .push((of_json(bytes)?, only(frame.descriptors)?));
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
                        return Err(io::Error::other("more clients than may be here"));
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

fn only(descriptors: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    descriptors.into_iter().next().ok_or_else(missing)
}

fn missing() -> io::Error {
    io::Error::other("something is missing of what it tells")
}

fn of_json<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(io::Error::other)
}
