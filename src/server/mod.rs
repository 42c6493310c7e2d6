//! The shell: sockets, clock and signals, and nothing else.
//!
//! One `mio::Poll`, one loop, and one thread for all that clients do. What must block has threads
//! of its own, which own nothing of the server: looking up names ([`names`]), the token file
//! ([`disk`]), writing logs ([`log`]). Jobs go to them as messages, results come back as messages,
//! and a waker tells the loop. Each of them, and the loop, is in a box of its own ([`sandbox`]).
//!
//! A turn of it:
//!
//! ```text
//!   wait ──▶ what happened ──▶ accept ──▶ read ──▶ what is due ──▶ write ──────▶ close ──┐
//!    ▲      (edges are noted)   ≤ 64   ≤ a share  ≤ 256 deadlines ≤ 256 viewers ≤ 128    │
//!    └─────────────── without waiting, while any of these has more to do ◀───────────────┘
//! ```
//!
//! Whoever has bytes queued is written to in the same turn; what is left over when a budget is used
//! up is done in the next, which looks for new events first. So a turn is short however many
//! viewers there are, and nobody waits for it: accepting and the API are at most a few hundred
//! writes away. When the loop is busy, what piles up in a source's socket is read at once and goes
//! out in fewer, larger writes; nothing ever sleeps to make them larger.
//!
//! What a turn costs: one wait, one read for each source that sent something, and one write for
//! each viewer that gets something. Nothing in it grows with who is merely connected.

mod clock;
#[cfg_attr(not(feature = "token-file"), path = "disk/absent.rs")]
mod disk;
#[cfg_attr(not(feature = "handover"), path = "handover/absent.rs")]
mod handover;
mod health;
mod log;
mod names;
#[cfg(test)]
#[path = "../../tests/support/needs.rs"]
mod needs;
mod own;
#[cfg_attr(not(feature = "sandbox"), path = "sandbox/absent.rs")]
mod sandbox;
mod signals;
mod start;
mod sys;
mod systemd;
mod tcp;
pub mod udp;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll, Token};

use crate::gather::Gather;
use crate::relay::{
    Action, ConnectionId, DATAGRAMS_COST_MAX, Job, JobId, Outgoing, READ_COST_MAX, Readers, Relay,
    Share, write_next,
};
use crate::time::Instant;
use clock::since_1970;
use disk::Disk;
use handover::Handover;
pub use health::health;
use log::{AccessLog, Console};
use names::LookUps;
use own::Own;
use signals::{Signals, Wish};
pub use start::run;
use systemd::Manager;
use tcp::{Listener, Reading, Sockets};
use udp::Udp;

const ACCEPTS_PER_TURN_MAX: usize = 64;
const WRITES_PER_TURN_MAX: usize = 256;
const EVENTS_MAX: usize = 1024;
const READ_BUFFER_BYTES: usize = 256 * 1024;
/// Without descriptors, how long until accepting is tried again if nobody leaves before.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// How long viewers may drain when the server is told to end.
const SHUTDOWN_TIME: Duration = Duration::from_secs(4);

/// Tokens above every connection's.
const SIGNALS: Token = Token(usize::MAX);
/// A thread has something to tell.
const THREADS: Token = Token(usize::MAX - 1);
/// Of all sockets for datagrams.
const UDP: Token = Token(usize::MAX - 2);
/// Of the socket at which a successor comes, and of its own.
const HEIR: Token = Token(usize::MAX - 3);
const LISTENERS_FROM: usize = usize::MAX - 1024;

struct Server {
    poll: Poll,
    relay: Relay,
    began: std::time::Instant,
    listeners: Vec<Accepting>,
    accept_again: Option<Instant>,
    /// Accepting failed last.
    cannot_accept: bool,
    sockets: Sockets,
    readers: Readers,
    read_buffer: Vec<u8>,
    signals: Signals,
    /// With a token file.
    disk: Option<Disk>,
    /// Where there can be names: with tokens, or origins that have one.
    look_ups: Option<LookUps>,
    udp: Option<Udp>,
    console: Console,
    access_log: Option<AccessLog>,
    own: Own,
    manager: Manager,
    ends_at: Option<Instant>,
    handover: Handover,
}

struct Accepting {
    listener: Listener,
    /// The service manager opened it.
    #[cfg_attr(
        not(feature = "handover"),
        expect(dead_code, reason = "a successor asks")
    )]
    is_passed: bool,
    /// Somebody may be waiting.
    is_ready: bool,
}

impl Server {
    fn now(&self) -> Instant {
        Instant::after_start(self.began.elapsed())
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut now = self.now();
        loop {
            match self.poll.poll(&mut events, self.wait(now)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            now = self.now();
            self.relay.hear_time(since_1970(), now);
            for event in &events {
                self.note(event, now);
            }
            if let Some(process) = self.own.look(now) {
                self.relay.counts().set_process(process);
            }
            self.hear_threads(now);
            self.accept(now);
            self.read(now);
            self.receive(now);
            self.relay.expire(now);
            self.write(now);
            self.send(now);
            self.act(now);
            self.close();
            self.hand_over(now);
            let threads_bytes = self.held_bytes();
            self.relay.counts().threads_hold(threads_bytes);
            let took = self.now().since(now);
            self.relay.counts().turn_took(took);
            if self
                .ends_at
                .is_some_and(|end| end <= now || self.relay.is_empty())
            {
                return Ok(());
            }
        }
    }

    /// How long there is nothing to do unless something happens; `None` for ever.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let has_more = !self.readers.is_empty()
            || self.relay.has_ahead()
            || self.relay.has_writes()
            || self.sockets.has_to_close()
            || self.handover.has_more()
            || self.udp.as_ref().is_some_and(Udp::is_readable)
            || (self.accept_again.is_none()
                && self.listeners.iter().any(|accepting| accepting.is_ready));
        if has_more {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            self.relay.next_deadline(),
            self.look_ups.as_ref().and_then(LookUps::next_deadline),
            self.accept_again,
            self.ends_at,
            self.handover.next_deadline(now),
        ];
        let next = deadlines.into_iter().flatten().min()?;
        if next <= now {
            return Some(Duration::ZERO);
        }
        // Poll counts in whole milliseconds: rounded up, or the last one would be spent awake.
        Some(next.since(now) + Duration::from_micros(999))
    }

    fn note(&mut self, event: &Event, now: Instant) {
        match event.token() {
            SIGNALS => self.signalled(now),
            // They are heard in every turn.
            THREADS => {}
            UDP => {
                if let Some(udp) = &mut self.udp {
                    udp.note_readable();
                }
            }
            HEIR => self.handover.note(event.is_writable()),
            Token(token) if token >= LISTENERS_FROM => {
                if let Some(accepting) = self.listeners.get_mut(token - LISTENERS_FROM) {
                    accepting.is_ready = true;
                }
            }
            Token(token) => self.note_client(ConnectionId::from_u64(token as u64), event),
        }
    }

    fn note_client(&mut self, id: ConnectionId, event: &Event) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            socket.input.note(event.is_read_closed(), event.is_error());
            self.readers.push(id, &mut socket.input);
        }
        if event.is_writable() {
            self.relay.unblocked(id);
        }
    }

    fn signalled(&mut self, now: Instant) {
        while let Some(wish) = self.signals.next() {
            match wish {
                Wish::End if self.ends_at.is_some() => self.ends_at = Some(now),
                Wish::End => self.begin_to_end(now),
                Wish::ReopenLog => self.reopen_log(),
            }
        }
    }

    fn begin_to_end(&mut self, now: Instant) {
        let detail = "told to end; viewers get what is buffered";
        self.console
            .tell(&format!("level=info event=ending detail=\"{detail}\""));
        self.manager.notify("STOPPING=1");
        self.listeners.clear();
        self.ends_at = Some(now + SHUTDOWN_TIME);
        self.relay.shut_down(now);
    }

    fn reopen_log(&mut self) {
        if let Some(log) = &self.access_log {
            self.console.tell("level=info event=access-log-reopening");
            log.reopen();
        }
    }

    /// What the threads have done, or have had no time to do.
    fn hear_threads(&mut self, now: Instant) {
        while let Some((ticket, done)) = self.disk.as_mut().and_then(Disk::next_result) {
            self.relay.helped(ticket, done, now);
        }
        let mut look_ups = self.look_ups.as_mut();
        while let Some((ticket, done)) = look_ups.as_mut().and_then(|all| all.next_result(now)) {
            self.relay.helped(ticket, done, now);
        }
        while let Some(news) = self.access_log.as_mut().and_then(AccessLog::news) {
            self.console.tell(&news);
        }
    }

    /// What waits for the threads, in bytes.
    fn held_bytes(&self) -> usize {
        self.disk.as_ref().map_or(0, Disk::held_bytes)
            + self.look_ups.as_ref().map_or(0, LookUps::held_bytes)
            + self.access_log.as_ref().map_or(0, AccessLog::held_bytes)
            + self.console.held_bytes()
    }

    /// Has something done that the loop must not wait for.
    fn help(&mut self, ticket: JobId, job: Job, now: Instant) {
        let is_taken = match (job, &mut self.disk, &mut self.look_ups) {
            (Job::Append(entry), Some(disk), _) => disk.append(ticket, &entry),
            (Job::Resolve(names), _, Some(look_ups)) => look_ups.ask(ticket, names, now),
            (Job::Append(_), None, _) | (Job::Resolve(_), _, None) => false,
        };
        if !is_taken {
            self.relay.not_helped(ticket, now);
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.accept_again.is_some_and(|again| again > now) {
            return;
        }
        self.accept_again = None;
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN_MAX {
                if !self.listeners[index].is_ready {
                    break;
                }
                match self.listeners[index].listener.accept() {
                    Ok((stream, peer)) => {
                        self.cannot_accept = false;
                        self.accepted(stream, peer, now);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.listeners[index].is_ready = false;
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // Out of descriptors or memory. Who waits to be accepted waits on, and the
                        // loop sleeps.
                        self.accept_again = Some(now + ACCEPT_PAUSE);
                        return self.tell_of_pause(&error);
                    }
                }
            }
        }
    }

    /// Said once, until somebody is accepted again.
    fn tell_of_pause(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.cannot_accept, true) {
            self.console.tell(&format!(
                "level=warn event=accepting-paused detail=\"{error}; newcomers wait\""
            ));
        }
    }

    fn accepted(&mut self, stream: mio::net::TcpStream, peer: SocketAddr, now: Instant) {
        let Some(id) = self.relay.accepted(peer, now) else {
            return;
        };
        if self
            .sockets
            .insert(id, stream, self.poll.registry())
            .is_err()
        {
            self.relay.lost(id, now);
            return;
        }
        // Most have sent their request by now: it is read in this turn, without waiting for an
        // event.
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.input.note(false, false);
            self.readers.push(id, &mut socket.input);
        }
    }

    fn read(&mut self, now: Instant) {
        let mut reading = Reading {
            sockets: &mut self.sockets,
            buffer: &mut self.read_buffer,
        };
        let share = Share {
            bytes_max: READ_BUFFER_BYTES,
            cost_max: READ_COST_MAX,
            now,
        };
        self.readers
            .read_in_turn(&mut self.relay, &mut reading, share);
    }

    fn write(&mut self, now: Instant) {
        for _ in 0..WRITES_PER_TURN_MAX {
            let sockets = &mut self.sockets;
            let write = |id, gather: &Gather<'_>| match sockets.get_mut(id) {
                Some(socket) => socket.write(gather),
                None => Outgoing::Broken,
            };
            if write_next(&mut self.relay, now, write).is_none() {
                return;
            }
        }
    }

    /// Takes datagrams: a turn's share of them.
    fn receive(&mut self, now: Instant) {
        let Some(udp) = &mut self.udp else { return };
        let mut cost = 0;
        while cost < DATAGRAMS_COST_MAX
            && let Some((bytes, from, port)) = udp.receive(&mut self.read_buffer)
        {
            let datagram = &self.read_buffer[..bytes];
            cost += self.relay.datagram(from, port, datagram, now);
        }
    }

    /// Sends datagrams, each group to many clients with one call, a bounded number of them.
    fn send(&mut self, now: Instant) {
        let Some(udp) = &mut self.udp else { return };
        let mut clients = 0;
        while clients < WRITES_PER_TURN_MAX {
            let next = self.relay.next_datagrams(now, udp.not_taken());
            let Some(datagrams) = next else {
                return udp.forget_not_taken();
            };
            udp.send(&datagrams);
            clients += datagrams.to.len();
        }
    }

    /// Closes sockets, a bounded number of them. There may be descriptors for newcomers then.
    fn close(&mut self) {
        if self.sockets.close_some() {
            self.accept_again = None;
        }
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Connect(id, address) => {
                    let registry = self.poll.registry();
                    if self.sockets.connect(id, address, registry).is_err() {
                        self.relay.lost(id, now);
                    }
                }
                Action::Close(id) => self.sockets.close(id),
                Action::ShutdownWrite(id) => {
                    if let Some(socket) = self.sockets.get_mut(id) {
                        socket.shut_down_write();
                    }
                }
                Action::ReadOn(id) => {
                    if let Some(socket) = self.sockets.get_mut(id) {
                        self.readers.push(id, &mut socket.input);
                    }
                }
                Action::Help(ticket, job) => self.help(ticket, job, now),
                Action::ReturnMemory => sys::process::return_memory(),
                Action::Log(line) => self.console.tell(&line),
                Action::LogAccess(line) => {
                    if let Some(log) = &mut self.access_log
                        && let Some(news) = log.tell(&line)
                    {
                        self.console.tell(&news);
                    }
                }
            }
        }
    }
}

/// Whether accepting failed for the one that was to be accepted only, which is gone.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    ) || matches!(error.raw_os_error(), Some(libc::EPROTO | libc::EPERM))
}
