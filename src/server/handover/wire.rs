//! The protocol of a hand-over: frames over a Unix stream socket, with descriptors beside them.
//!
//! ```text
//!   predecessor                                                  successor
//!     Hello                                             ──▶        knows the format, or leaves
//!     Media …, Clients …, Copy … while it goes on        ──▶        keeps them
//!     Copy …, Media …, Listener …, Records …, Clients …, End  ──▶  has all, and is ready
//!     leaves                                            ◀──      TAKEN
//! ```
//!
//! The server changes hands with that one byte. The predecessor reads nothing else. It waits for the
//! byte until a time limit, and then closes its reading side. The kernel tells the successor whether
//! the byte came before that.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::relay::handover::CopiedPart;
use crate::server::sys::descriptors as passing;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The version of the program, and the format that it writes.
    Hello,
    /// Bytes of a stream: its id, their offset, and the bytes.
    Media,
    /// The id of a stream that has ended since its last Media.
    Gone,
    /// A piece of a large buffer of a client or a stream: the owner's id, the offset, and the
    /// bytes.
    Copy(CopiedPart),
    /// A listening socket.
    Listener,
    /// A socket for datagrams.
    Datagrams,
    /// The token file and its lock.
    TokenFile,
    /// Connections' ids, and their sockets.
    Clients,
    /// A piece of the core's state.
    Records,
    /// The end of the hand-over.
    End,
}

const KINDS: [Kind; 17] = [
    Kind::Hello,
    Kind::Media,
    Kind::Gone,
    Kind::Listener,
    Kind::Datagrams,
    Kind::TokenFile,
    Kind::Clients,
    Kind::Records,
    Kind::End,
    Kind::Copy(CopiedPart::Input),
    Kind::Copy(CopiedPart::Output),
    Kind::Copy(CopiedPart::UnitTail),
    Kind::Copy(CopiedPart::SplicerInput),
    Kind::Copy(CopiedPart::Layout),
    Kind::Copy(CopiedPart::Scanned),
    Kind::Copy(CopiedPart::Header),
    Kind::Copy(CopiedPart::NextHeader),
];

/// A stream's or client's id, and an offset.
const PLACE_BYTES: usize = 16;
/// Maximal number of bytes after the id and the offset: a block of a stream's buffer.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;
/// Maximal number of bytes of a frame's content.
pub const FRAME_BYTES_MAX: usize = PLACE_BYTES + PIECE_BYTES_MAX;

/// Kind, number of descriptors, and length.
const HEADER_BYTES: usize = 6;

/// The byte that confirms: the successor has all, and serves from now on.
pub const TAKEN: u8 = b'!';

/// Returns a frame that announces `descriptors` descriptors.
pub fn frame((kind, bytes): (Kind, &[u8]), descriptors: usize) -> Vec<u8> {
    let mut frame = header(kind, descriptors, bytes.len()).to_vec();
    frame.extend_from_slice(bytes);
    frame
}

/// Returns the header of a frame with this many descriptors and bytes.
fn header(kind: Kind, descriptors: usize, bytes: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = (bytes as u32).to_le_bytes();
    let number = KINDS.iter().position(|one| *one == kind);
    [number.unwrap_or(0) as u8, descriptors as u8, a, b, c, d]
}

/// Reads a frame's header: its kind, and its numbers of descriptors and of bytes.
fn read_header(bytes: [u8; HEADER_BYTES]) -> io::Result<(Kind, usize, usize)> {
    let [kind, descriptors, length @ ..] = bytes;
    let length = u32::from_le_bytes(length) as usize;
    match KINDS.get(usize::from(kind)) {
        Some(kind) if length <= FRAME_BYTES_MAX => Ok((*kind, usize::from(descriptors), length)),
        Some(_) | None => Err(io::Error::other(
            "it does not speak the protocol of a hand-over",
        )),
    }
}

/// A received frame.
pub struct Frame {
    /// Its kind.
    pub kind: Kind,
    /// Its content, at most [`FRAME_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// The descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Reads frames, and waits for them.
pub struct Inbox {
    socket: UnixStream,
    buffer: Vec<u8>,
    /// Offset of the first received byte that has not been read.
    begin: usize,
    /// Offset after the last received byte.
    end: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Creates a reader of a connected socket that waits at most `patience` for bytes.
    pub fn new(socket: UnixStream, patience: Duration) -> io::Result<Inbox> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(patience))?;
        Ok(Inbox {
            socket,
            buffer: vec![0; HEADER_BYTES + FRAME_BYTES_MAX],
            begin: 0,
            end: 0,
            descriptors: VecDeque::new(),
        })
    }

    /// Waits for the next frame. An end of the stream is an error.
    pub fn next(&mut self) -> io::Result<Frame> {
        self.fill(HEADER_BYTES)?;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&self.buffer[self.begin..][..HEADER_BYTES]);
        let (kind, descriptors, length) = read_header(header)?;
        self.fill(HEADER_BYTES + length)?;
        let bytes = self.buffer[self.begin + HEADER_BYTES..][..length].to_vec();
        self.begin += HEADER_BYTES + length;
        if self.descriptors.len() < descriptors {
            return Err(io::Error::other("descriptors are missing"));
        }
        Ok(Frame {
            kind,
            bytes,
            descriptors: self.descriptors.drain(..descriptors).collect(),
        })
    }

    /// Receives until `bytes` bytes are there.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        if self.begin + bytes > self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        while self.end - self.begin < bytes {
            let into = &mut self.buffer[self.end..];
            match passing::receive(self.socket.as_fd(), into, &mut self.descriptors) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => self.end += received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waited = "it sent nothing for too long; it may wait for its disk";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, waited));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Sends a frame. Waits for room for it until `until`.
pub fn send(
    socket: &UnixStream,
    content: (Kind, &[u8]),
    descriptors: &[BorrowedFd<'_>],
    until: Instant,
) -> io::Result<()> {
    let frame = frame(content, descriptors.len());
    send_bytes(socket, &frame, descriptors, until)
}

/// Sends a frame, or the rest of one.
pub fn send_bytes(
    socket: &UnixStream,
    mut rest: &[u8],
    mut descriptors: &[BorrowedFd<'_>],
    until: Instant,
) -> io::Result<()> {
    while !rest.is_empty() {
        let patience = until.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_write_timeout(Some(patience))?;
        match passing::send(socket.as_fd(), rest, descriptors) {
            Ok(sent) => {
                rest = &rest[sent..];
                descriptors = &[];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::net::{Shutdown, UdpSocket};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    /// Frames come as they were sent, each with its own descriptors, however many there are.
    #[test]
    fn frames_bring_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let sockets: Vec<UdpSocket> = (0..passing::AT_ONCE_MAX)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(UdpSocket::as_fd).collect();
        let sends = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let long = vec![7; FRAME_BYTES_MAX];
                send(&ours, (Kind::Clients, b"many"), &fds, soon())?;
                send(&ours, (Kind::Media, &long), &[], soon())?;
                send(&ours, (Kind::Listener, b""), &fds[3..4], soon())?;
                send(&ours, (Kind::Datagrams, b"x"), &fds[5..7], soon())?;
                ours.shutdown(Shutdown::Write)
            });
            let mut inbox = Inbox::new(theirs, Duration::from_secs(10)).expect("an inbox");
            let mut frame = || {
                inbox.next().map(|frame| {
                    let ports = frame
                        .descriptors
                        .into_iter()
                        .map(|fd| UdpSocket::from(fd).local_addr().expect("an address"));
                    (frame.kind, frame.bytes.len(), ports.collect::<Vec<_>>())
                })
            };
            let ports = |range: std::ops::Range<usize>| -> Vec<_> {
                sockets[range]
                    .iter()
                    .map(|one| one.local_addr().expect("an address"))
                    .collect()
            };
            assert_eq!(
                frame().ok(),
                Some((Kind::Clients, 4, ports(0..sockets.len())))
            );
            assert_eq!(frame().ok(), Some((Kind::Media, FRAME_BYTES_MAX, vec![])));
            assert_eq!(frame().ok(), Some((Kind::Listener, 0, ports(3..4))));
            assert_eq!(frame().ok(), Some((Kind::Datagrams, 1, ports(5..7))));
            assert_eq!(
                frame().map_err(|error| error.kind()),
                Err(io::ErrorKind::UnexpectedEof)
            );
            sending.join().expect("it ends")
        });
        sends.expect("all went out");
    }

    /// Too long a frame, a kind that there is not, and descriptors that were only promised.
    #[test]
    fn what_is_no_frame_is_an_error() {
        let mut long = header(Kind::Media, 0, 0);
        long[2..].copy_from_slice(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        for bytes in [
            long,
            [KINDS.len() as u8, 0, 0, 0, 0, 0],
            header(Kind::Listener, 1, 0),
        ] {
            let (mut ours, theirs) = UnixStream::pair().expect("a pair");
            ours.write_all(&bytes).expect("there is room");
            let mut inbox = Inbox::new(theirs, Duration::from_secs(10)).expect("an inbox");
            assert!(inbox.next().is_err(), "{bytes:?}");
        }
    }

    /// Who does not read is not waited for beyond the time.
    #[test]
    fn sending_ends_in_time() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let until = Instant::now() + Duration::from_millis(50);
        let null = File::open("/dev/null").expect("it is there");
        let sent = (0..1000).try_for_each(|_| {
            let frame = (Kind::Media, [0; FRAME_BYTES_MAX].as_slice());
            send(&ours, frame, &[null.as_fd()], until)
        });
        assert!(sent.is_err());
    }
}
