//! The predecessor's side: streams are copied while they go on, then all else while nothing does.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use serde::Serialize;

use super::receive::{self, PathState};
use super::wire::{self, FRAME_BYTES_MAX, Kind, PIECE_BYTES_MAX, TAKEN};
use super::{Hello, Predecessor, peer_of_same_user};
use crate::config::Config;
use crate::handover::FORMAT;
use crate::relay::handover::{
    CopyName, begin, copy, hand_over, has_stream, is_quiet, let_go, media, media_bytes, uncopied,
};
use crate::relay::{ConnectionId, Relay, Settings, StreamId, UdpPort};
use crate::server::bound::Place;
use crate::server::disk::Disk;
use crate::server::sys::descriptors::{self, AT_ONCE_MAX};
use crate::server::tcp::{Listener, Sockets};
use crate::server::udp::Udp;
use crate::server::{Accepting, Protocol, SHUTDOWN_TIME, SUCCESSOR, Server};
use crate::time::Instant;

/// Where a successor may come, and the one that has.
#[derive(Default)]
pub struct Handover {
    listener: Option<Listener>,
    /// Somebody may be waiting there.
    is_ready: bool,
    successor: Option<Successor>,
    /// No hand-over stops the server before this time.
    rests_until: Option<Instant>,
}

/// A server that is to take over from this one.
struct Successor {
    socket: UnixStream,
    /// The number of its process.
    process: u32,
    /// How far each stream has been copied to it.
    copied: HashMap<StreamId, u64>,
    /// The stream of the newest frame.
    copied_last: Option<StreamId>,
    /// Clients at the successor's arrival, in order.
    clients: Vec<ConnectionId>,
    /// and of how many of these it has the sockets.
    passed: usize,
    /// What is to be copied of all that clients have made large.
    uncopied: Vec<CopyName>,
    /// What has not gone out yet of a frame.
    rest: Vec<u8>,
    /// Its socket takes bytes, as far as is known.
    is_open: bool,
    /// There is more to copy, and a turn's share was used up.
    has_more: bool,
    /// It has been sent all, and has not read all.
    has_unread: bool,
    came: std::time::Instant,
    /// When it was last seen to read, at first when it came.
    seen: std::time::Instant,
}

/// What is copied in a turn.
const COPIED_PER_TURN_MAX: usize = 256 * 1024;
/// If at most this is left to copy, the rest is copied while nobody is served.
const LEFT_MAX: u64 = 4 * 1024 * 1024;
/// Clients that send faster than is copied must not prevent a hand-over. After this time, this much
/// of streams may be left, and any of the rest.
const LATE_TIME: Duration = Duration::from_secs(2);
const LATE_LEFT_MAX: u64 = 64 * 1024 * 1024;
/// How long nobody is served at the very most: what would take longer comes to nothing.
const STILL_TIME: Duration = Duration::from_secs(1);
/// After a failed hand-over, the next one may stop the server after this many times the failed
/// one's standstill. So successors that never take over cost a small share of the time.
const REST: u32 = 10;
/// After this time the server looks again whether the successor has read all: the kernel wakes the server
/// a moment before it counts the last bytes as read.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A successor that does not read for this long no longer blocks another one.
const SILENCE_MAX: Duration = Duration::from_secs(2);

impl Handover {
    /// Takes the path of `--handover`, or hears all that the server tells which has it. This comes
    /// before anything else is bound: so of two servers that are started at once one takes over
    /// from the other. Errors are sentences.
    pub fn start(
        config: &Config,
        settings: &Settings,
        registry: &Registry,
    ) -> Result<(Handover, Option<Predecessor>), String> {
        let mut handover = Handover::default();
        let Some(path) = &config.handover else {
            return Ok((handover, None));
        };
        match receive::find(path, (config, settings), registry)? {
            PathState::Server(predecessor) => Ok((handover, Some(*predecessor))),
            PathState::Nobody(listener) => {
                let waits = handover.wait_at(listener, registry);
                waits.map_err(|error| format!("cannot wait for a successor: {error}"))?;
                Ok((handover, None))
            }
        }
    }

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

    fn wait_at(&mut self, mut listener: Listener, registry: &Registry) -> io::Result<()> {
        listener.register(SUCCESSOR, registry)?;
        (self.listener, self.is_ready) = (Some(listener), true);
        Ok(())
    }

    /// Whether there is something to do at once.
    pub fn has_more(&self) -> bool {
        self.is_ready
            || self
                .successor
                .as_ref()
                .is_some_and(|successor| successor.has_more)
    }

    /// When there is something to do, if nothing happens before.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let successor = self.successor.as_ref()?;
        // What is over is not waited for: then it depends on the successor.
        let rests_until = self.rests_until.filter(|until| *until > now);
        rests_until.or(successor.has_unread.then(|| now + LOOK_AGAIN))
    }

    /// Whether nobody may stand still for now.
    fn rests(&mut self, now: Instant) -> bool {
        self.rests_until = self.rests_until.filter(|until| *until > now);
        self.rests_until.is_some()
    }

    /// Records a standstill of this length without a hand-over.
    fn rest(&mut self, still: Duration, now: Instant) {
        self.rests_until = Some(now + still * REST);
    }

    /// Somebody has come, or the successor's socket takes bytes again, as some of them were read.
    pub fn note(&mut self, takes_bytes: bool) {
        self.is_ready = self.listener.is_some();
        if let Some(successor) = self.successor.as_mut().filter(|_| takes_bytes) {
            successor.is_open = true;
            successor.seen = std::time::Instant::now();
        }
    }

    /// Takes the successor that waits, and says whether one does; these are the clients. An error: it
    /// is not taken, and one that is there already goes on.
    fn accept(&mut self, sockets: &Sockets, registry: &Registry) -> io::Result<bool> {
        let listener = self.listener.as_ref().filter(|_| self.is_ready);
        let Some(listener) = listener else {
            return Ok(false);
        };
        let accepted = listener.accept();
        self.is_ready = accepted.is_ok();
        let (socket, _) = match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
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
        self.successor = Some(Successor {
            socket,
            process,
            copied: HashMap::new(),
            copied_last: None,
            uncopied: Vec::new(),
            clients,
            passed: 0,
            rest: wire::frame((Kind::Hello, &json(&hello())?), 0),
            is_open: true,
            has_more: false,
            has_unread: false,
            came: std::time::Instant::now(),
            seen: std::time::Instant::now(),
        });
        Ok(true)
    }
}

fn hello() -> Hello {
    Hello {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

impl Successor {
    /// Copies streams and passes sockets, a turn's share of what there is. Returns whether the rest is
    /// small enough to be sent in the standstill.
    fn copy(&mut self, relay: &mut Relay, sockets: &mut Sockets) -> io::Result<bool> {
        let is_late = self.came.elapsed() >= LATE_TIME && self.media_left(relay) <= LATE_LEFT_MAX;
        let mut budget = COPIED_PER_TURN_MAX;
        while self.is_open && budget > 0 {
            if self.rest.is_empty() {
                let copy = self.next_copy(relay);
                let frame = match is_late {
                    true => copy,
                    false => copy.or_else(|| self.next_media(relay)),
                };
                self.rest = frame.unwrap_or_default();
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
        self.has_more = self.is_open && budget == 0;
        // The server does not stop for a successor that does not read.
        let has_sent_all = self.has_all_sockets() && self.uncopied.is_empty();
        self.has_unread = has_sent_all && !descriptors::has_read_all(self.socket.as_fd())?;
        if !has_sent_all || self.has_unread {
            return Ok(false);
        }
        let (names, bytes) = uncopied(relay);
        if is_late || self.media_left(relay) + bytes as u64 <= LEFT_MAX {
            return Ok(true);
        }
        self.uncopied = names;
        self.has_more = self.is_open;
        Ok(false)
    }

    /// Returns how many bytes of streams have not been copied.
    fn media_left(&self, relay: &Relay) -> u64 {
        let left = media(relay).map(|(id, range)| range.end - self.copied_of(id).max(range.start));
        left.sum()
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

    /// Whether it has long had something to read.
    fn is_silent(&self) -> io::Result<bool> {
        let has_read_all = descriptors::has_read_all(self.socket.as_fd())?;
        Ok(!has_read_all && self.seen.elapsed() >= SILENCE_MAX)
    }

    fn copied_of(&self, id: StreamId) -> u64 {
        self.copied.get(&id).copied().unwrap_or(0)
    }

    /// The next bytes of what clients have made large.
    fn next_copy(&mut self, relay: &mut Relay) -> Option<Vec<u8>> {
        while let Some((id, part)) = self.uncopied.last().copied() {
            if let Some((from, bytes)) = copy(relay, (id, part), PIECE_BYTES_MAX) {
                let content = [&id.to_le_bytes()[..], &(from as u64).to_le_bytes(), bytes].concat();
                return Some(wire::frame((Kind::Copy(part), &content), 0));
            }
            self.uncopied.pop();
        }
        None
    }

    /// Returns a frame with the next bytes of a stream that have not been copied. Streams take turns, so
    /// a fast source does not keep others from being copied. The successor frees the memory of streams
    /// that are no more before it gets more bytes.
    fn next_media(&mut self, relay: &Relay) -> Option<Vec<u8>> {
        if let Some(gone) = self.copied.keys().find(|id| !has_stream(relay, **id)) {
            let gone = *gone;
            self.copied.remove(&gone);
            return Some(wire::frame((Kind::Gone, &gone.to_u64().to_le_bytes()), 0));
        }
        let behind = media(relay).skip_while(|(id, _)| Some(*id) != self.copied_last);
        for (id, range) in behind.skip(1).chain(media(relay)) {
            let from = self.copied_of(id).max(range.start);
            let bytes = media_bytes(relay, id, from);
            if !bytes.is_empty() || !self.copied.contains_key(&id) {
                let bytes = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
                self.copied.insert(id, from + bytes.len() as u64);
                self.copied_last = Some(id);
                let content = [&id.to_u64().to_le_bytes()[..], &from.to_le_bytes(), bytes].concat();
                return Some(wire::frame((Kind::Media, &content), 0));
            }
        }
        None
    }
}

/// A frame with the sockets of these clients, and their descriptors.
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
        match self.handover.accept(&self.sockets, registry) {
            Ok(true) => {
                begin(&mut self.relay);
                if let Some(successor) = &mut self.handover.successor {
                    (successor.uncopied, _) = uncopied(&mut self.relay);
                }
            }
            Ok(false) => {}
            Err(error) => self.tell_of_none(&error),
        }
        if let Err(error) = self.hand_on(now) {
            self.handover.successor = None;
            self.tell_of_none(&error);
        }
    }

    fn tell_of_none(&mut self, error: &io::Error) {
        self.console.tell(&format!(
            "level=warn event=not-handed-over detail=\"{error}; this server continues\""
        ));
    }

    fn hand_on(&mut self, now: Instant) -> io::Result<()> {
        let Some(successor) = &mut self.handover.successor else {
            return Ok(());
        };
        // A server that has been told to end hands nothing over. The successor waits until this
        // process has left, and starts anew.
        if self.ends_at.is_some() {
            successor.has_more = false;
            return Ok(());
        }
        // No change of the table may be on its way to the disk.
        if !successor.copy(&mut self.relay, &mut self.sockets)? || !is_quiet(&self.relay) {
            return Ok(());
        }
        if self.handover.rests(now) {
            return Ok(());
        }
        if let Some(disk) = &mut self.disk
            && disk.shared().is_none()
        {
            disk.share();
            return Ok(());
        }
        let stopped = std::time::Instant::now();
        self.act(now);
        while self.sockets.close_some() {}
        let Some(mut successor) = self.handover.successor.take() else {
            return Ok(());
        };
        let told = self.tell_all(&mut successor, now);
        let still = stopped.elapsed();
        if told.is_err() {
            self.handover.rest(still, now);
        }
        self.leave(&successor, (&told?, still), now);
        Ok(())
    }

    /// Tells the successor all that there is, and waits for its word. Says which connections are its
    /// own then. An error: it has not taken over, and never will.
    fn tell_all(
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
        (successor.uncopied, _) = uncopied(&mut self.relay);
        while let Some(frame) = successor
            .next_copy(&mut self.relay)
            .or_else(|| successor.next_media(&self.relay))
        {
            wire::send_bytes(&successor.socket, &frame, &[], until)?;
        }
        self.tell_places(successor, until)?;
        let mut told = Ok(());
        let going = hand_over(&mut self.relay, now, &mut |records| {
            let mut pieces = records.chunks(FRAME_BYTES_MAX);
            told = std::mem::replace(&mut told, Ok(())).and_then(|()| {
                pieces.try_for_each(|piece| {
                    wire::send(&successor.socket, (Kind::Records, piece), &[], until)
                })
            });
        });
        told?;
        let passed = &successor.clients[..successor.passed];
        let late = going.iter().copied();
        let late = late.filter(|id| passed.binary_search(id).is_err());
        for ids in late.collect::<Vec<_>>().chunks(AT_ONCE_MAX) {
            let (frame, descriptors) = clients(ids, &self.sockets);
            wire::send_bytes(&successor.socket, &frame, &descriptors, until)?;
            ids.iter().for_each(|id| self.sockets.share(*id));
        }
        wire::send(&successor.socket, (Kind::End, &[]), &[], until)?;
        hear_word(&successor.socket, until)?;
        Ok(going)
    }

    /// Sends the sockets that are no clients' sockets.
    fn tell_places(&self, successor: &Successor, until: std::time::Instant) -> io::Result<()> {
        let tell = |kind, bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
            wire::send(&successor.socket, (kind, bytes), descriptors, until)
        };
        for accepting in &self.listeners {
            let (place, descriptor) = accepting.place()?;
            tell(Kind::Listener, &json(&place)?, &[descriptor])?;
        }
        if let Some(Listener::Unix(listener, _)) = &self.handover.listener {
            tell(
                Kind::Listener,
                &json(&Place::Handover)?,
                &[listener.as_fd()],
            )?;
        }
        for (port, group, descriptor) in self.udp.iter().flat_map(Udp::descriptors) {
            let place = match port {
                UdpPort::Rtp => Place::Rtp,
                UdpPort::Rtcp => Place::Rtcp,
                UdpPort::Group(_) => Place::Group(group.to_owned()),
            };
            tell(Kind::Datagrams, &json(&place)?, &[descriptor])?;
        }
        if let Some(file) = self.disk.as_ref().and_then(Disk::shared) {
            let (descriptors, place) = file.parts();
            tell(Kind::TokenFile, &json(&place)?, &descriptors)?;
        }
        Ok(())
    }

    /// Another process has taken over: closes this process's descriptors of its sockets.
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
        self.console.tell(&format!(
            "level=info event=handed-over process={} connections={} still_ms={}",
            successor.process,
            going.len(),
            still.as_millis()
        ));
        self.ends_at = Some(now + SHUTDOWN_TIME);
    }
}

impl Accepting {
    fn place(&self) -> io::Result<(Place, BorrowedFd<'_>)> {
        Ok(match &self.listener {
            Listener::Tcp(listener) => {
                let bound = listener.local_addr()?;
                let place = match self.protocol {
                    Protocol::HttpPassed => Place::Passed(bound),
                    Protocol::Http | Protocol::Rtmp => Place::Tcp(bound),
                };
                (place, listener.as_fd())
            }
            Listener::Unix(listener, file) => (Place::Unix(file.path.clone()), listener.as_fd()),
        })
    }
}

/// Waits for the one byte, and then listens no more: the kernel says whether it came before that.
fn hear_word(mut socket: &UnixStream, until: std::time::Instant) -> io::Result<()> {
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
        Ok(_) => Err(io::Error::other("the successor has left")),
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
        successor_at(socket)
    }

    fn successor_at(socket: UnixStream) -> Successor {
        Successor {
            socket,
            process: 0,
            copied: HashMap::new(),
            copied_last: None,
            clients: Vec::new(),
            passed: 0,
            uncopied: Vec::new(),
            rest: Vec::new(),
            is_open: false,
            has_more: false,
            has_unread: false,
            came: std::time::Instant::now(),
            seen: std::time::Instant::now(),
        }
    }

    /// A fast source in the first place kept all others from being copied, and the successor kept the
    /// bytes of streams that had gone.
    #[test]
    fn streams_are_copied_in_turns_and_those_that_have_gone_come_first() {
        let mut stage = Stage::new(&[]);
        let media = vec![b'a'; 3 * PIECE_BYTES_MAX];
        let sources = ["fast", "b", "c"].map(|name| {
            let head = format!(
                "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n"
            );
            let source = stage.client(&head);
            stage.send_media(source, &media);
            source
        });
        let mut successor = successor();
        for _ in 0..15 {
            assert!(successor.next_media(&stage.relay).is_some());
            stage.send_media(sources[0], &media[..PIECE_BYTES_MAX]);
        }
        let whole = |copied: &HashMap<_, u64>| {
            copied
                .values()
                .filter(|at| **at == media.len() as u64)
                .count()
        };
        assert_eq!((successor.copied.len(), whole(&successor.copied)), (3, 2));
        stage.lose(sources[1]);
        assert!(successor.next_media(&stage.relay).is_some());
        assert_eq!((successor.copied.len(), whole(&successor.copied)), (2, 1));
    }

    /// The next one may not read what it is given: then there is nothing to wake up for.
    #[test]
    fn a_rest_that_is_over_is_not_waited_for() {
        let mut handover = Handover {
            successor: Some(successor()),
            ..Handover::default()
        };
        handover.rest(Duration::from_millis(1), Instant::START);
        let until = handover.next_deadline(Instant::START).expect("it rests");
        assert_eq!(handover.next_deadline(until), None);
        assert!(!handover.rests(until));
    }

    /// The event that says so comes a moment before the last bytes count as read. Then nothing else
    /// happens.
    #[test]
    fn the_server_looks_again_whether_all_has_been_read() {
        let (socket, mut other) = UnixStream::pair().expect("two sockets");
        let mut stage = Stage::new(&[]);
        let mut successor = successor_at(socket);
        (successor.rest, successor.is_open) = (vec![7; 9], true);
        let copied = successor.copy(&mut stage.relay, &mut Sockets::default());
        assert!(matches!(copied, Ok(false)));
        let mut handover = Handover {
            successor: Some(successor),
            ..Handover::default()
        };
        let now = Instant::START;
        assert_eq!(handover.next_deadline(now), Some(now + LOOK_AGAIN));
        other.read_exact(&mut [0; 9]).expect("all of it");
        let successor = handover.successor.as_mut().expect("it is there");
        let copied = successor.copy(&mut stage.relay, &mut Sockets::default());
        assert!(matches!(copied, Ok(true)));
        assert_eq!(handover.next_deadline(now), None);
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
            if !handover.rests(now) {
                (now, stood) = (now + still, stood + still);
                handover.rest(still, now);
            }
        }
        let all = now.since(Instant::START);
        assert!(
            stood > Duration::from_secs(1) && stood <= all / REST,
            "{stood:?} of {all:?}"
        );
    }
}
