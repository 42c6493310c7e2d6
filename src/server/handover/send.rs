//! The predecessor's side: copies streams while they run, then stops and sends all else.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use serde::Serialize;

use super::wire::{self, FRAME_BYTES_MAX, Kind, PIECE_BYTES_MAX, TAKEN};
use super::{Hello, peer_of_same_user};
use crate::config::Config;
use crate::handover::FORMAT;
use crate::relay::handover::{Copying, Piece, hand_over, is_quiet, let_go, settle};
use crate::relay::{ConnectionId, Relay, UdpPort};
use crate::server::bound::BoundSocket;
use crate::server::disk::Disk;
use crate::server::sys::descriptors::{self, AT_ONCE_MAX};
use crate::server::tcp::{Listener, Sockets};
use crate::server::udp::Udp;
use crate::server::{Accepting, Protocol, SHUTDOWN_TIME, SUCCESSOR, Server};
use crate::time::Instant;

/// The path at which a successor may connect, and the connected one.
#[derive(Default)]
pub struct Handover {
    listener: Option<Listener>,
    /// A successor may be waiting to be accepted.
    is_ready: bool,
    successor: Option<Successor>,
    /// No hand-over stops the server before this time.
    paused_until: Option<Instant>,
}

/// A server that is to take over from this one.
struct Successor {
    socket: UnixStream,
    /// Id of its process.
    process: u32,
    /// What has been copied to it.
    copying: Copying,
    /// Clients when the successor came, in order.
    clients: Vec<ConnectionId>,
    /// How many of these clients' sockets it has.
    passed: usize,
    /// The part of a frame that has not been sent.
    rest: Vec<u8>,
    /// Its socket takes bytes, as far as is known.
    is_open: bool,
    /// There is more to copy, and a turn's share was used up.
    has_more: bool,
    /// All has been sent to it, and it has not read all.
    has_unread: bool,
    /// Nothing more is copied before the standstill.
    is_due: bool,
    progress: Progress,
    /// When it last read something, at first when it came.
    seen: std::time::Instant,
}

/// Maximal number of bytes that are copied in a turn.
const COPIED_PER_TURN_MAX: usize = 256 * 1024;
/// If at most this is left to copy, the server stops and copies the rest.
const LEFT_MAX: u64 = 4 * 1024 * 1024;
/// Clients that send faster than is copied must not prevent a hand-over. If the rest has not become
/// clearly smaller for this time, the server stops with at most [`STUCK_LEFT_MAX`].
const STUCK_TIME: Duration = Duration::from_secs(2);
const STUCK_LEFT_MAX: u64 = 64 * 1024 * 1024;
/// After this time the server stops with any rest. The hand-over fails if the rest takes [`STILL_TIME`].
const STUCK_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest time in which nobody is served. A hand-over that would take longer fails.
const STILL_TIME: Duration = Duration::from_secs(1);
/// Why a hand-over fails when the other end of the socket is closed.
const HAS_LEFT: &str = "the successor has left";
/// After a failed hand-over, the next one may stop the server after this many times the failed
/// one's standstill. So successors that never take over cost a small share of the time.
const PAUSE_FACTOR: u32 = 10;
/// After this time the server looks again whether the successor has read all: the kernel wakes the server
/// a moment before it counts the last bytes as read.
const CHECK_AGAIN: Duration = Duration::from_millis(100);
/// A successor that does not read for this long no longer blocks another one.
const SILENCE_MAX: Duration = Duration::from_secs(2);

impl Handover {
    /// Waits for the next successor where the predecessor did.
    pub fn go_on(
        &mut self,
        config: &Config,
        listener: Option<UnixListener>,
        registry: &Registry,
    ) -> io::Result<()> {
        match (&config.handover, listener) {
            (Some(path), Some(listener)) => {
                self.wait_at(Listener::unix_again(listener, path)?, registry)
            }
            (_, _) => Ok(()),
        }
    }

    /// Waits for a successor at this listener.
    pub fn wait_at(&mut self, listener: Listener, registry: &Registry) -> io::Result<()> {
        self.is_ready = true;
        // If this fails, the file stays: the other server may still use it.
        self.listener.insert(listener).register(SUCCESSOR, registry)
    }

    /// Returns whether there is something to do at once.
    pub fn has_more(&self) -> bool {
        self.is_ready
            || self
                .successor
                .as_ref()
                .is_some_and(|successor| successor.has_more)
    }

    /// Returns when there is something to do, if nothing happens before.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let successor = self.successor.as_ref()?;
        // What is over is not waited for: then it depends on the successor.
        let paused_until = self.paused_until.filter(|until| *until > now);
        paused_until.or(successor.has_unread.then(|| now + CHECK_AGAIN))
    }

    /// Returns whether no hand-over may stop the server for now.
    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    /// Records a standstill of this length without a hand-over.
    fn pause(&mut self, still: Duration, now: Instant) {
        self.paused_until = Some(now + still * PAUSE_FACTOR);
    }

    /// Records that a successor has come, or that the successor's socket takes bytes again.
    pub fn note(&mut self, takes_bytes: bool) {
        self.is_ready = self.listener.is_some();
        if let Some(successor) = self.successor.as_mut().filter(|_| takes_bytes) {
            successor.is_open = true;
            successor.seen = std::time::Instant::now();
        }
    }

    /// Accepts the successor that waits, if one does. An error: it is refused, and one that is there
    /// already continues.
    fn accept(
        &mut self,
        relay: &mut Relay,
        sockets: &Sockets,
        registry: &Registry,
    ) -> io::Result<()> {
        let listener = self.listener.as_ref().filter(|_| self.is_ready);
        let Some(listener) = listener else {
            return Ok(());
        };
        let accepted = listener.accept();
        self.is_ready = accepted.is_ok();
        let (socket, _) = match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        let socket = UnixStream::from(OwnedFd::from(socket));
        let process = peer_of_same_user(&socket)?;
        match &self.successor {
            Some(successor) if successor.is_silent()? => {
                registry.deregister(&mut SourceFd(&successor.socket.as_raw_fd()))?;
            }
            Some(_) => return Err(io::Error::other("another server takes over already")),
            None => {}
        }
        registry.register(
            &mut SourceFd(&socket.as_raw_fd()),
            SUCCESSOR,
            Interest::WRITABLE,
        )?;
        let mut clients: Vec<ConnectionId> = sockets.ids().collect();
        clients.sort_unstable();
        let hello = Hello {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.successor = Some(Successor {
            process,
            copying: Copying::begin(relay),
            clients,
            rest: wire::frame((Kind::Hello, &json(&hello)?), 0),
            is_open: true,
            ..Successor::new(socket)
        });
        Ok(())
    }
}

/// How far the copying has come.
#[derive(Default)]
struct Progress {
    /// The number of bytes that were left to copy when it last became clearly smaller, and that time.
    least: Option<(u64, Instant)>,
}

impl Progress {
    /// Notes how many bytes are left to copy. Returns whether the server may stop with this rest.
    fn is_due(&mut self, left: u64, now: Instant) -> bool {
        let (least, since) = self.least.get_or_insert((left, now));
        // The rest goes up and down while sources send.
        if left < *least - *least / 8 {
            (*least, *since) = (left, now);
        }
        let stuck = now.since(*since);
        left <= LEFT_MAX
            || (stuck >= STUCK_TIME && left <= STUCK_LEFT_MAX)
            || stuck >= STUCK_TIME_MAX
    }
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

impl Successor {
    /// Creates a successor that has nothing yet.
    fn new(socket: UnixStream) -> Successor {
        Successor {
            socket,
            process: 0,
            copying: Copying::default(),
            clients: Vec::new(),
            passed: 0,
            rest: Vec::new(),
            is_open: false,
            has_more: false,
            has_unread: false,
            is_due: false,
            progress: Progress::default(),
            seen: std::time::Instant::now(),
        }
    }

    /// Copies streams and passes sockets, a turn's share of what there is. Returns whether the rest is
    /// small enough to be sent in the standstill.
    fn copy(&mut self, relay: &mut Relay, sockets: &mut Sockets, now: Instant) -> io::Result<bool> {
        if !self.is_due {
            self.is_due = self.becomes_due(relay, now);
        }
        let mut budget = COPIED_PER_TURN_MAX;
        while self.is_open && budget > 0 {
            if self.rest.is_empty() && !self.is_due {
                let piece = self.copying.next(relay, PIECE_BYTES_MAX);
                self.rest = piece.map(frame_of).unwrap_or_default();
            }
            let sent = match (self.rest.is_empty(), self.has_all_sockets()) {
                (false, _) => descriptors::send(self.socket.as_fd(), &self.rest, &[]),
                (true, false) => self.pass_some(sockets),
                (true, true) => break,
            };
            match sent {
                Ok(sent) => {
                    self.rest.drain(..sent);
                    budget = budget.saturating_sub(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_open = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // If nothing is left to copy, the next turn finds that it is due.
        self.has_more = self.is_open && (budget == 0 || !self.is_due);
        // The server does not stop for a successor that does not read.
        let has_sent_all = self.is_due && self.rest.is_empty() && self.has_all_sockets();
        self.has_unread = has_sent_all && !descriptors::has_read_all(self.socket.as_fd())?;
        if !has_sent_all || self.has_unread {
            return Ok(false);
        }
        // Sources send on while the successor reads. That is no reason to copy again before the standstill.
        self.is_due = self.copying.left(relay) <= STUCK_LEFT_MAX || self.becomes_due(relay, now);
        self.has_more = self.is_open && !self.is_due;
        Ok(self.is_due)
    }

    /// Returns whether the server may stop, and copy the rest in the standstill.
    fn becomes_due(&mut self, relay: &mut Relay, now: Instant) -> bool {
        let mut left = self.copying.left(relay);
        if left <= LEFT_MAX {
            self.copying.list(relay);
            left = self.copying.left(relay);
        }
        self.progress.is_due(left, now)
    }

    fn has_all_sockets(&self) -> bool {
        self.passed == self.clients.len()
    }

    /// Passes the sockets of some more clients. What does not go out of the frame is the rest.
    fn pass_some(&mut self, sockets: &mut Sockets) -> io::Result<usize> {
        let left = &self.clients[self.passed..];
        let ids = &left[..left.len().min(AT_ONCE_MAX)];
        let (frame, descriptors) = clients(ids, sockets);
        let sent = descriptors::send(self.socket.as_fd(), &frame, &descriptors)?;
        ids.iter().for_each(|id| sockets.share(*id));
        self.passed += ids.len();
        self.rest = frame;
        Ok(sent)
    }

    /// Returns whether it has read nothing for a long time, though there is something to read.
    fn is_silent(&self) -> io::Result<bool> {
        let has_read_all = descriptors::has_read_all(self.socket.as_fd())?;
        Ok(!has_read_all && self.seen.elapsed() >= SILENCE_MAX)
    }
}

/// Returns the frame of a piece.
fn frame_of(piece: Piece<'_>) -> Vec<u8> {
    let content =
        |id: u64, from: u64, bytes| [&id.to_le_bytes()[..], &from.to_le_bytes(), bytes].concat();
    let (kind, content) = match piece {
        Piece::Media(id, from, bytes) => (Kind::Media, content(id.to_u64(), from, bytes)),
        Piece::Gone(id) => (Kind::Gone, id.to_u64().to_le_bytes().to_vec()),
        Piece::Copy((id, part), from, bytes) => (Kind::Copy(part), content(id, from as u64, bytes)),
    };
    wire::frame((kind, &content), 0)
}

/// Returns a frame with the ids of these clients, and the descriptors of their sockets.
fn clients<'a>(ids: &[ConnectionId], sockets: &'a Sockets) -> (Vec<u8>, Vec<BorrowedFd<'a>>) {
    let open = ids
        .iter()
        .filter_map(|id| Some((id.to_u64().to_le_bytes(), sockets.descriptor(*id)?)));
    let (ids, descriptors): (Vec<[u8; 8]>, Vec<BorrowedFd<'_>>) = open.unzip();
    let frame = wire::frame((Kind::Clients, &ids.concat()), descriptors.len());
    (frame, descriptors)
}

impl Server {
    /// Continues a hand-over, if a successor is connected. If it fails, logs that and continues to serve.
    pub(in crate::server) fn hand_over(&mut self, now: Instant) {
        let registry = self.poll.registry();
        let accepted = self
            .handover
            .accept(&mut self.relay, &self.sockets, registry);
        if let Err(error) = accepted {
            self.report_failure(&error);
        }
        if let Err(error) = self.hand_on(now) {
            self.handover.successor = None;
            self.report_failure(&error);
        }
    }

    fn report_failure(&mut self, error: &io::Error) {
        let why = match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => HAS_LEFT.to_owned(),
            _ => error.to_string(),
        };
        self.console.write_line(&format!(
            "level=warn event=not-handed-over detail=\"{why}; this server continues\""
        ));
    }

    fn hand_on(&mut self, now: Instant) -> io::Result<()> {
        let is_paused = self.handover.is_paused(now);
        let Some(successor) = &mut self.handover.successor else {
            return Ok(());
        };
        // A server that is about to end hands nothing over. The successor waits until this process
        // has left, and starts anew. After a standstill without a hand-over, the next attempt
        // waits.
        if self.ends_at.is_some() || is_paused {
            successor.has_more = false;
            return Ok(());
        }
        // No change of the table may be on its way to the disk.
        if !successor.copy(&mut self.relay, &mut self.sockets, now)? || !is_quiet(&self.relay) {
            return Ok(());
        }
        if let Some(disk) = &mut self.disk
            && disk.shared().is_none()
        {
            disk.share();
            return Ok(());
        }
        let stopped = std::time::Instant::now();
        settle(&mut self.relay, now);
        self.act(now);
        while self.sockets.close_some() {}
        let Some(mut successor) = self.handover.successor.take() else {
            return Ok(());
        };
        let sent = self.send_all(&mut successor, now);
        let still = stopped.elapsed();
        if sent.is_err() {
            self.handover.pause(still, now);
        }
        self.leave(&successor, (&sent?, still), now);
        Ok(())
    }

    /// Sends the successor all that is left, and waits until it confirms. Returns the connections that it
    /// has then. An error: it has not taken over, and never will.
    fn send_all(
        &mut self,
        successor: &mut Successor,
        now: Instant,
    ) -> io::Result<Vec<ConnectionId>> {
        let until = std::time::Instant::now() + STILL_TIME;
        successor.socket.set_nonblocking(false)?;
        wire::send_bytes(
            &successor.socket,
            &std::mem::take(&mut successor.rest),
            &[],
            until,
        )?;
        successor.copying.list(&mut self.relay);
        while let Some(piece) = successor.copying.next(&mut self.relay, PIECE_BYTES_MAX) {
            wire::send_bytes(&successor.socket, &frame_of(piece), &[], until)?;
        }
        self.send_sockets(successor, until)?;
        let mut sent = Ok(());
        let going = hand_over(&mut self.relay, now, &mut |records| {
            let mut pieces = records.chunks(FRAME_BYTES_MAX);
            sent = std::mem::replace(&mut sent, Ok(())).and_then(|()| {
                pieces.try_for_each(|piece| {
                    wire::send(&successor.socket, (Kind::Records, piece), &[], until)
                })
            });
        });
        sent?;
        let passed = &successor.clients[..successor.passed];
        let late = going.iter().copied();
        let late = late.filter(|id| passed.binary_search(id).is_err());
        for ids in late.collect::<Vec<_>>().chunks(AT_ONCE_MAX) {
            let (frame, descriptors) = clients(ids, &self.sockets);
            wire::send_bytes(&successor.socket, &frame, &descriptors, until)?;
            ids.iter().for_each(|id| self.sockets.share(*id));
        }
        wire::send(&successor.socket, (Kind::End, &[]), &[], until)?;
        receive_word(&successor.socket, until)?;
        Ok(going)
    }

    /// Sends the sockets that are no clients' sockets.
    fn send_sockets(&self, successor: &Successor, until: std::time::Instant) -> io::Result<()> {
        let send = |kind, bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
            wire::send(&successor.socket, (kind, bytes), descriptors, until)
        };
        // The successor binds the path of a socket anew if clients do not find it there.
        let found = self.listeners.iter();
        for accepting in found.filter(|accepting| accepting.listener.is_found()) {
            let (place, descriptor) = accepting.bound_socket()?;
            send(Kind::Listener, &json(&place)?, &[descriptor])?;
        }
        if let Some(Listener::Unix(listener, _)) = &self.handover.listener {
            send(
                Kind::Listener,
                &json(&BoundSocket::Handover)?,
                &[listener.as_fd()],
            )?;
        }
        for (port, group, descriptor) in self.udp.iter().flat_map(Udp::descriptors) {
            let place = match port {
                UdpPort::Rtp if self.udp.as_ref().is_some_and(|udp| udp.is_passed) => {
                    BoundSocket::PassedRtp
                }
                UdpPort::Rtp => BoundSocket::Rtp,
                UdpPort::Rtcp => BoundSocket::Rtcp,
                UdpPort::Group(_) => BoundSocket::Group(group.to_owned()),
            };
            send(Kind::Datagrams, &json(&place)?, &[descriptor])?;
        }
        if let Some(file) = self.disk.as_ref().and_then(Disk::shared) {
            let (descriptors, place) = file.parts();
            send(Kind::TokenFile, &json(&place)?, &descriptors)?;
        }
        Ok(())
    }

    /// Leaves the clients to the successor, and tells the service manager. Closes this process's
    /// descriptors of their sockets. The listeners stay open, so that their files stay.
    fn leave(
        &mut self,
        successor: &Successor,
        (going, still): (&[ConnectionId], Duration),
        now: Instant,
    ) {
        let_go(&mut self.relay, going);
        let registry = self.poll.registry();
        for id in going {
            self.sockets.give_away(*id, registry);
        }
        // The files that name sockets stay, and name the same ones.
        std::mem::forget(std::mem::take(&mut self.listeners));
        std::mem::forget(self.handover.listener.take());
        (self.udp, self.disk) = (None, None);
        self.manager
            .notify(&format!("MAINPID={}", successor.process));
        self.console.write_line(&format!(
            "level=info event=handed-over process={} connections={} still_ms={}",
            successor.process,
            going.len(),
            still.as_millis()
        ));
        self.ends_at = Some(now + SHUTDOWN_TIME);
    }
}

impl Accepting {
    fn bound_socket(&self) -> io::Result<(BoundSocket, BorrowedFd<'_>)> {
        Ok(match &self.listener {
            Listener::Tcp(listener) => {
                let bound = listener.local_addr()?;
                let place = match self.protocol {
                    Protocol::HttpPassed => BoundSocket::Passed(bound),
                    Protocol::Http | Protocol::Rtmp => BoundSocket::Tcp(bound),
                };
                (place, listener.as_fd())
            }
            Listener::Unix(listener, file) => {
                (BoundSocket::Unix(file.path.clone()), listener.as_fd())
            }
        })
    }
}

/// Waits for the byte that confirms, and then shuts the socket down for reading. The kernel decides whether
/// the byte came before that.
fn receive_word(mut socket: &UnixStream, until: std::time::Instant) -> io::Result<()> {
    let patience = until.saturating_duration_since(std::time::Instant::now());
    socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    let mut word = [0];
    let heard = loop {
        match socket.read(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            heard => break heard,
        }
    };
    let heard = match heard {
        Ok(_) => heard,
        // From now on this side receives nothing more. Earlier bytes can still be read.
        Err(_) => {
            socket.shutdown(Shutdown::Read)?;
            socket.read(&mut word)
        }
    };
    match heard {
        Ok(1) if word == [TAKEN] => Ok(()),
        Ok(_) => Err(io::Error::other(HAS_LEFT)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use std::io::Read;

    fn successor() -> Successor {
        let (socket, _) = UnixStream::pair().expect("two sockets");
        Successor::new(socket)
    }

    /// The next one may not read what it is given: then there is nothing to wake up for.
    #[test]
    fn a_rest_that_is_over_is_not_waited_for() {
        let mut handover = Handover {
            successor: Some(successor()),
            ..Handover::default()
        };
        handover.pause(Duration::from_millis(1), Instant::START);
        let until = handover.next_deadline(Instant::START).expect("it rests");
        assert_eq!(handover.next_deadline(until), None);
        assert!(!handover.is_paused(until));
    }

    /// The event that says so comes a moment before the last bytes count as read. Then nothing else
    /// happens.
    #[test]
    fn the_server_looks_again_whether_all_has_been_read() {
        let (socket, mut other) = UnixStream::pair().expect("two sockets");
        let mut stage = Stage::new(&[]);
        let mut successor = Successor::new(socket);
        (successor.rest, successor.is_open) = (vec![7; 9], true);
        let now = Instant::START;
        let copied = successor.copy(&mut stage.relay, &mut Sockets::default(), now);
        assert!(matches!(copied, Ok(false)));
        let mut handover = Handover {
            successor: Some(successor),
            ..Handover::default()
        };
        assert_eq!(handover.next_deadline(now), Some(now + CHECK_AGAIN));
        other.read_exact(&mut [0; 9]).expect("all of it");
        let successor = handover.successor.as_mut().expect("it is there");
        let copied = successor.copy(&mut stage.relay, &mut Sockets::default(), now);
        assert!(matches!(copied, Ok(true)));
        assert_eq!(handover.next_deadline(now), None);
    }

    /// Copying takes its time for many full buffers, and each turn brings it on. Only sources that are faster
    /// than it end it early.
    #[test]
    fn copying_ends_early_only_if_it_does_not_come_on() {
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        let mut slow = Progress::default();
        for second in 0..15 {
            // At 24 MiB/s; each other time some more has come.
            let left = (100 - 6 * second + second % 2) * LEFT_MAX;
            assert!(!slow.is_due(left, at(second)), "{second}");
        }
        assert!(slow.is_due(LEFT_MAX, at(15)));
        for (left, due) in [
            (LEFT_MAX, 0),
            (LEFT_MAX + 1, 2),
            (STUCK_LEFT_MAX, 2),
            (STUCK_LEFT_MAX + 1, 10),
            (u64::MAX, 10),
        ] {
            let mut stuck = Progress::default();
            let is_due = |second: &u64| stuck.is_due(left, at(*second));
            assert_eq!((0..20).find(is_due), Some(due), "{left}");
        }
    }

    /// However often somebody comes and does not take over, nobody stands still for more than a
    /// share of the time.
    #[test]
    fn who_never_takes_over_has_a_share_of_the_time() {
        let mut handover = Handover::default();
        let (mut now, mut stood) = (Instant::START, Duration::ZERO);
        for turn in 0..100_000 {
            now = now + Duration::from_millis(1);
            let still = Duration::from_millis(1 + turn % 300);
            if !handover.is_paused(now) {
                (now, stood) = (now + still, stood + still);
                handover.pause(still, now);
            }
        }
        let all = now.since(Instant::START);
        assert!(
            stood > Duration::from_secs(1) && stood <= all / PAUSE_FACTOR,
            "{stood:?} of {all:?}"
        );
    }
}
