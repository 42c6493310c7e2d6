//! The successor's side: receives the state of another server, and then replaces it.

use std::io::{self, IoSlice};
use std::net;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mio::Registry;
use mio::net::TcpStream;
use serde::de::DeserializeOwned;

use super::wire::{Frame, Inbox, Kind, TAKEN};
use super::{EXIT_TIME, Hello};
use crate::config::Config;
use crate::handover::is_known;
use crate::relay::handover::{Piece, Successor, connections};
use crate::relay::{ConnectionId, Relay, Settings, StreamId};
use crate::server::bound::Bound;
use crate::server::disk::TokenFile;
use crate::server::sys::process::Process;
use crate::server::sys::sending;
use crate::server::tcp::Sockets;
use crate::time::Instant;

/// The received state of another server, which waits until this one confirms that it takes over.
pub struct Predecessor {
    socket: UnixStream,
    process: Process,
    relay: Option<Relay>,
    now: Instant,
    /// When all of it had come.
    received: std::time::Instant,
    sockets: Sockets,
    bound: Bound,
    token_file: Option<TokenFile>,
}

/// How long the other server may send nothing. It may wait for its disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximal number of listening sockets and sockets for datagrams. No server has more.
const BOUND_MAX: usize = 8192;

/// Receives the frames of another server.
pub struct Receiver<'a> {
    config: &'a Config,
    successor: Successor,
    predecessor: Predecessor,
    registry: &'a Registry,
    /// Largest number of connections.
    places_max: usize,
}

impl Predecessor {
    /// Returns the core, and the time from which its clock counts.
    pub fn relay(&mut self) -> Result<(Relay, std::time::Instant), String> {
        let began = self.received.checked_sub(self.now.since_start());
        self.relay.take().zip(began).ok_or_else(|| {
            "the other server says that it has run for longer than this machine".to_owned()
        })
    }

    /// Returns the sockets that are no clients' sockets.
    pub fn bound(&mut self) -> Bound {
        std::mem::take(&mut self.bound)
    }

    /// Returns the token file with its lock.
    pub fn token_file(&mut self) -> Option<TokenFile> {
        self.token_file.take()
    }

    /// Returns the clients' sockets.
    pub fn sockets(&mut self) -> Sockets {
        std::mem::take(&mut self.sockets)
    }

    /// Confirms that this server takes over. An error: the other server continues, and this one must touch
    /// nothing. A server that has ended meanwhile cannot continue, and all of its state is here.
    pub fn taken(self) -> Result<(), String> {
        match sending::send(self.socket.as_fd(), &[IoSlice::new(&[TAKEN])]) {
            Err(error) if !self.process.await_end(EXIT_TIME) => {
                Err(format!("the other server continues: {error}"))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl<'a> Receiver<'a> {
    /// Begins to receive from the server at this socket, which is this process.
    pub fn of(
        (socket, process): (UnixStream, Process),
        config: &'a Config,
        settings: Settings,
        registry: &'a Registry,
    ) -> Receiver<'a> {
        Receiver {
            config,
            places_max: settings.limits.places_max(),
            successor: Successor::new(settings, config.token_file.is_some()),
            registry,
            predecessor: Predecessor {
                socket,
                process,
                relay: None,
                now: Instant::START,
                received: std::time::Instant::now(),
                sockets: Sockets::default(),
                bound: Bound::default(),
                token_file: None,
            },
        }
    }

    /// Receives all frames. `None`: the other server has ended without handing over. The sockets of
    /// clients are registered as they come.
    pub fn receive(mut self) -> io::Result<Option<Predecessor>> {
        match self.receive_frames() {
            Err(error) if is_cut(&error) && self.predecessor.process.await_end(EXIT_TIME) => {
                return Ok(None);
            }
            received => received?,
        }
        let (relay, now) = self.successor.take_over().map_err(io::Error::other)?;
        self.predecessor.received = std::time::Instant::now();
        let sockets = std::mem::take(&mut self.predecessor.sockets);
        self.predecessor.sockets = sockets.only(connections(&relay), self.registry)?;
        (self.predecessor.relay, self.predecessor.now) = (Some(relay), now);
        Ok(Some(self.predecessor))
    }

    fn receive_frames(&mut self) -> io::Result<()> {
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
                return Ok(());
            }
            self.take(frame)?;
        }
    }

    fn take(&mut self, frame: Frame) -> io::Result<()> {
        let predecessor = &mut self.predecessor;
        let bytes = &frame.bytes;
        let mut take = |piece| self.successor.take(piece).map_err(io::Error::other);
        match frame.kind {
            Kind::Media => {
                let ([id, from], media) = numbers(bytes)?;
                take(Piece::Media(StreamId::from_u64(id), from, media))?;
            }
            Kind::Gone => {
                let ([id], _) = numbers(bytes)?;
                take(Piece::Gone(StreamId::from_u64(id)))?;
            }
            Kind::Copy(part) => {
                let ([id, from], copied) = numbers(bytes)?;
                let from = usize::try_from(from).map_err(io::Error::other)?;
                take(Piece::Copy((id, part), from, copied))?;
            }
            Kind::Listener | Kind::Datagrams if predecessor.bound.0.len() < BOUND_MAX => {
                let descriptor = frame.descriptors.into_iter().next();
                let socket = (of_json(bytes)?, descriptor.ok_or_else(missing)?);
                predecessor.bound.0.push(socket);
            }
            Kind::TokenFile => {
                let Some(path) = &self.config.token_file else {
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
                    let ([id], after) = numbers(rest)?;
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
                    rest = after;
                }
            }
            Kind::Records => self.successor.receive(bytes).map_err(io::Error::other)?,
            Kind::Hello | Kind::Listener | Kind::Datagrams | Kind::End => {
                return Err(io::Error::other("it tells what it should not"));
            }
        }
        Ok(())
    }
}

fn is_cut(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
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

#[cfg(test)]
#[cfg(feature = "default")]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::process::Command;

    use mio::Poll;

    use super::super::wire;
    use super::*;
    use crate::handover::{FORMAT, OLDEST};
    use crate::relay::handover::{CopiedPart, hand_over};

    /// A frame, and whether a descriptor comes with it.
    type Sent = (Kind, Vec<u8>, bool);

    fn json(value: &impl serde::Serialize) -> Vec<u8> {
        serde_json::to_vec(value).expect("JSON")
    }

    fn hello(format: u64) -> Sent {
        let version = "9.9".to_owned();
        (Kind::Hello, json(&Hello { format, version }), false)
    }

    fn with(id: u64, from: u64, bytes: &[u8]) -> Vec<u8> {
        [&id.to_le_bytes()[..], &from.to_le_bytes(), bytes].concat()
    }

    fn settings() -> Settings {
        Config::default().settings(100, 1_800_000_000, 7)
    }

    /// The state of a server that has clients, and their ids.
    fn state(clients: u16) -> (Vec<u8>, Vec<ConnectionId>) {
        let (mut relay, mut records) = (Relay::new(settings()), Vec::new());
        for port in 0..clients {
            let peer = ([192, 0, 2, 1], port).into();
            relay.accepted(peer, Instant::START).expect("room");
        }
        let mut out = |piece: &[u8]| records.extend_from_slice(piece);
        let going = hand_over(&mut relay, Instant::START, &mut out);
        (records, going)
    }

    /// Returns what a successor receives in these frames of a server that ends then, and the server's
    /// socket.
    fn receive(frames: &[Sent]) -> (io::Result<Predecessor>, UnixStream) {
        // The id of no process: nothing is waited for.
        receive_from(Process::open(0), frames)
    }

    fn receive_from(process: Process, frames: &[Sent]) -> (io::Result<Predecessor>, UnixStream) {
        let (theirs, ours) = UnixStream::pair().expect("a pair");
        let some = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let poll = Poll::new().expect("a poll");
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                for (kind, bytes, has_descriptor) in frames {
                    let descriptors: &[BorrowedFd<'_>] = &[some.as_fd()];
                    let count = usize::from(*has_descriptor);
                    // The successor may have left.
                    let _ = wire::send(&theirs, (*kind, bytes), &descriptors[..count], until);
                }
                let _ = theirs.shutdown(net::Shutdown::Write);
            });
            let config = Config::default();
            let receiver = Receiver::of((ours, process), &config, settings(), poll.registry());
            let received = receiver.receive();
            received.map(|received| received.expect("the other server has not ended"))
        });
        (heard, theirs)
    }

    /// Returns why a successor leaves after these frames.
    fn error(frames: &[Sent]) -> io::Error {
        let (heard, _) = receive(frames);
        heard.map(|_| ()).expect_err("it leaves")
    }

    #[test]
    fn a_server_that_tells_something_else_is_refused_in_words() {
        let end = || (Kind::End, Vec::new(), false);
        let missing = "something is missing of what it tells";
        let unexpected = "it tells what it should not";
        let client = |place: u64| (Kind::Clients, place.to_le_bytes().to_vec(), true);
        for (sent, words) in [
            (end(), "lines have come"),
            (hello(FORMAT), unexpected),
            ((Kind::Media, vec![0; 15], false), missing),
            ((Kind::Media, with(0, u64::MAX, b"x"), false), "offset"),
            ((Kind::Gone, vec![0; 7], false), missing),
            ((Kind::Copy(CopiedPart::Input), vec![0; 15], false), missing),
            (
                (
                    Kind::Copy(CopiedPart::SplicerInput),
                    with(0, 1, b"x"),
                    false,
                ),
                "a part of the copied bytes is missing",
            ),
            ((Kind::Listener, json(&"rtp"), false), missing),
            ((Kind::Datagrams, b"no JSON".to_vec(), true), "expected"),
            (
                (Kind::TokenFile, Vec::new(), false),
                "it has a token file; start this server with the same --token-file",
            ),
            ((Kind::Clients, Vec::new(), true), missing),
            (client(1_000_000), "raise --connections"),
            (
                (Kind::Records, b"no line\n".to_vec(), false),
                "no name, number",
            ),
        ] {
            let why = error(&[hello(FORMAT), sent.clone(), end()]).to_string();
            assert!(why.contains(words), "{sent:?}: {why}");
        }
    }

    #[test]
    fn a_server_says_first_who_it_is() {
        let (records, _) = state(0);
        let records = (Kind::Records, records, false);
        let why = error(&[records]).to_string();
        assert_eq!(why, "it does not say who it is");
        for format in [0, OLDEST - 1, FORMAT + 1, u64::MAX] {
            let why = error(&[hello(format)]).to_string();
            let words = format!("it is in format {format}, by version \"9.9\"");
            assert!(why.starts_with(&words), "{why}");
        }
    }

    /// It is waited for: it may have ended after a signal.
    #[test]
    fn a_server_that_leaves_before_the_end_has_told_nothing() {
        let (records, _) = state(1);
        for frames in [
            vec![],
            vec![hello(FORMAT)],
            vec![hello(FORMAT), (Kind::Records, records, false)],
        ] {
            assert_eq!(error(&frames).kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    /// The sockets of clients that are gone are closed. The server hears one byte at the end.
    #[test]
    fn all_of_a_server_is_taken_over() {
        let (records, going) = state(2);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address");
        let place = json(&crate::server::bound::BoundSocket::Tcp(place));
        let mut frames = vec![hello(FORMAT), (Kind::Listener, place, true)];
        let gone = ConnectionId::from_u64(7);
        for id in [going[0], going[1], gone] {
            frames.push((Kind::Clients, id.to_u64().to_le_bytes().to_vec(), true));
        }
        frames.push((Kind::Records, records, false));
        frames.push((Kind::End, Vec::new(), false));
        let (heard, mut theirs) = receive(&frames);
        let mut predecessor = heard.expect("it fits");
        let (relay, _) = predecessor.relay().expect("a core");
        assert_eq!(connections(&relay).collect::<Vec<_>>(), going);
        assert!(predecessor.relay().is_err(), "it is taken once");
        assert_eq!(predecessor.bound().0.len(), 1);
        let sockets = predecessor.sockets();
        assert_eq!(sockets.ids().collect::<Vec<_>>(), going);
        assert!(predecessor.token_file().is_none());
        assert_eq!(predecessor.taken(), Ok(()));
        let mut word = Vec::new();
        theirs.read_to_end(&mut word).expect("it has left");
        assert_eq!(word, [TAKEN]);
    }

    #[test]
    fn a_server_that_does_not_wait_continues() {
        let (records, _) = state(0);
        let frames = [
            hello(FORMAT),
            (Kind::Records, records, false),
            (Kind::End, Vec::new(), false),
        ];
        let (heard, theirs) = receive(&frames);
        drop(theirs);
        let said = heard.expect("it fits").taken();
        let why = said.expect_err("it is not there");
        assert!(why.starts_with("the other server continues: "), "{why}");
        // One that was killed does not continue, and all of its state has come.
        let mut other = Command::new("sleep").arg("60").spawn().expect("it runs");
        let (heard, theirs) = receive_from(Process::open(other.id()), &frames);
        drop(theirs);
        other.kill().expect("it runs");
        other.wait().expect("a child");
        assert_eq!(heard.expect("it fits").taken(), Ok(()));
    }
}
