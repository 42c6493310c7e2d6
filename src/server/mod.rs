//! The shell: sockets, clock, signals and threads.
//!
//! One thread with one `mio::Poll` serves all clients. Blocking work has threads of its own, which
//! share no state with the loop: resolving names ([`names`]), the token file ([`disk`]) and logs
//! ([`log`]). Jobs and results are messages, and a waker wakes the loop. Each thread is in a sandbox
//! ([`sandbox`]).
//!
//! A turn of the loop:
//!
//! ```text
//!   wait ──▶ note events ──▶ accept ──▶ read ───▶ timers ───────▶ write ──────────▶ close ──┐
//!    ▲                        ≤ 64    ≤ a share  ≤ 256 deadlines  ≤ 256 viewers   ≤ 128     │
//!    └──────────── without waiting, while any of these has more to do ◀─────────────────────┘
//! ```
//!
//! A viewer with queued bytes is written to in the same turn. If a limit of a turn is reached, the
//! rest follows in the next turn, after new events. So turns stay short with any number of viewers,
//! and accepting and the API wait for a few hundred writes at most. When the loop is busy, bytes
//! collect in the sources' sockets, are read at once, and go out in fewer, larger writes. Nothing
//! sleeps to collect more.
//!
//! A turn costs one wait, one read for each source that has sent something, and one write for each
//! viewer that gets something. Idle connections cost nothing.

mod bound;
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
mod process_usage;
#[cfg_attr(not(feature = "sandbox"), path = "sandbox/absent.rs")]
mod sandbox;
mod signals;
mod start;
mod sys;
mod systemd;
mod tcp;
pub mod udp;

use std::io;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
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
use process_usage::ProcessUsage;
use signals::{SignalAction, Signals};
pub use start::{run, token_file_fault};
use systemd::Manager;
use tcp::{Listener, Reading, Sockets};
use udp::Udp;

const ACCEPTS_PER_TURN_MAX: usize = 64;
const WRITES_PER_TURN_MAX: usize = 256;
/// Bytes after which a turn writes to no other viewer. Copying 8 MiB takes milliseconds.
const BYTES_PER_TURN_MAX: usize = 8 * 1024 * 1024;
const EVENTS_MAX: usize = 1024;
/// Room for any datagram. More bytes of a source at once could cost more than a turn may.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Without free file descriptors, accepting is tried again after this time, or when a client
/// leaves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// Time for viewers to read their rest when the server ends.
const SHUTDOWN_TIME: Duration = Duration::from_secs(4);

/// Signals. Connections have smaller tokens.
const SIGNALS: Token = Token(usize::MAX);
/// A thread has a result.
const THREADS: Token = Token(usize::MAX - 1);
/// All sockets for datagrams.
const UDP: Token = Token(usize::MAX - 2);
/// The sockets of the hand-over.
const SUCCESSOR: Token = Token(usize::MAX - 3);
const LISTENERS_FROM: usize = usize::MAX - 1024;

struct Server {
    poll: Poll,
    relay: Relay,
    began: std::time::Instant,
    listeners: Vec<Accepting>,
    accept_again: Option<Instant>,
    /// Whether the last attempt to accept failed.
    cannot_accept: bool,
    sockets: Sockets,
    readers: Readers,
    read_buffer: Vec<u8>,
    signals: Signals,
    /// The token file, if there is one.
    disk: Option<Disk>,
    /// Resolves names, if tokens or origins can have any.
    look_ups: Option<LookUps>,
    udp: Option<Udp>,
    console: Console,
    access_log: Option<AccessLog>,
    process_usage: ProcessUsage,
    manager: Manager,
    ends_at: Option<Instant>,
    handover: Handover,
}

/// What clients of a listener speak.
#[derive(Clone, Copy)]
enum Protocol {
    Http,
    /// The same. The service manager opened the listener.
    HttpPassed,
    Rtmp,
}

struct Accepting {
    listener: Listener,
    protocol: Protocol,
    /// Whether clients may wait to be accepted.
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
            self.relay.set_unix_time(since_1970(), now);
            for event in &events {
                self.note(event, now);
            }
            if let Some(process) = self.process_usage.sample(now) {
                self.relay.counts().set_process(process);
            }
            self.take_results(now);
            self.accept(now);
            self.read(now);
            self.receive(now);
            self.relay.expire(now);
            self.write(now);
            self.send(now);
            self.act(now);
            self.close();
            self.hand_over(now);
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

    /// Returns how long the loop can sleep; `None`: until an event.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let has_more = !self.readers.is_empty()
            || self.relay.has_deferred_work()
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
        // Poll counts whole milliseconds. Rounding down would spend the last one awake.
        Some(next.since(now) + Duration::from_micros(999))
    }

    fn note(&mut self, event: &Event, now: Instant) {
        match event.token() {
            SIGNALS => self.signalled(now),
            // Every turn reads their results.
            THREADS => {}
            UDP => {
                if let Some(udp) = &mut self.udp {
                    udp.note_readable();
                }
            }
            SUCCESSOR => self.handover.note(event.is_writable()),
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
        while let Some(action) = self.signals.next() {
            match action {
                SignalAction::End if self.ends_at.is_some() => self.ends_at = Some(now),
                SignalAction::End => self.begin_to_end(now),
                SignalAction::ReopenLog => {
                    if let Some(log) = &self.access_log {
                        self.console
                            .write_line("level=info event=access-log-reopening");
                        log.reopen();
                    }
                }
            }
        }
    }

    fn begin_to_end(&mut self, now: Instant) {
        let detail = "the server received a signal to end; viewers get the rest";
        self.console
            .write_line(&format!("level=info event=ending detail=\"{detail}\""));
        self.manager.notify("STOPPING=1");
        self.listeners.clear();
        self.ends_at = Some(now + SHUTDOWN_TIME);
        self.relay.shut_down(now);
    }

    /// Handles results of the threads.
    fn take_results(&mut self, now: Instant) {
        while let Some((job_id, done)) = self.disk.as_mut().and_then(Disk::next_result) {
            self.relay.job_finished(job_id, done, now);
        }
        let mut look_ups = self.look_ups.as_mut();
        while let Some((job_id, done)) = look_ups.as_mut().and_then(|all| all.next_result(now)) {
            self.relay.job_finished(job_id, done, now);
        }
        while let Some(news) = self.access_log.as_mut().and_then(AccessLog::news) {
            self.console.write_line(&news);
        }
    }

    /// Passes a job to a thread.
    fn help(&mut self, job_id: JobId, job: Job, now: Instant) {
        let is_taken = match (job, &mut self.disk, &mut self.look_ups) {
            (Job::Append(entry), Some(disk), _) => disk.append(job_id, &entry),
            (Job::Resolve(names), _, Some(look_ups)) => look_ups.ask(job_id, names, now),
            (Job::Append(_), None, _) | (Job::Resolve(_), _, None) => false,
        };
        if !is_taken {
            self.relay.job_refused(job_id, now);
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
                        let id = match self.listeners[index].protocol {
                            Protocol::Rtmp => self.relay.accepted_rtmp(peer, now),
                            Protocol::Http | Protocol::HttpPassed => self.relay.accepted(peer, now),
                        };
                        if let Some(id) = id {
                            self.accepted(id, stream, now);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.listeners[index].is_ready = false;
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        // Out of file descriptors or memory. Clients stay in the queue, and the
                        // loop sleeps.
                        self.accept_again = Some(now + ACCEPT_PAUSE);
                        // This is logged once, until a client is accepted again.
                        if !std::mem::replace(&mut self.cannot_accept, true) {
                            self.console.write_line(&format!(
                                "level=warn event=accepting-paused detail=\"{error}; new connections wait until others close\""
                            ));
                        }
                        return;
                    }
                }
            }
        }
    }

    fn accepted(&mut self, id: ConnectionId, stream: TcpStream, now: Instant) {
        self.insert(id, stream, now);
        // Most clients have sent their request by now, so it is read in this turn, without an
        // event.
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.input.note(false, false);
            self.readers.push(id, &mut socket.input);
        }
    }

    fn insert(&mut self, id: ConnectionId, stream: TcpStream, now: Instant) {
        let registry = self.poll.registry();
        if self.sockets.insert(id, stream, registry).is_err() {
            self.relay.lost(id, now);
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
        let (mut writes, mut bytes) = (0, 0);
        while writes < WRITES_PER_TURN_MAX && bytes < BYTES_PER_TURN_MAX {
            let sockets = &mut self.sockets;
            writes += 1;
            let write = |id, gather: &Gather<'_>| {
                bytes += gather.bytes();
                match sockets.get_mut(id) {
                    Some(socket) => socket.write(gather),
                    None => Outgoing::Broken,
                }
            };
            if write_next(&mut self.relay, now, write).is_none() {
                return;
            }
        }
    }

    /// Receives a turn's share of datagrams.
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

    /// Sends a bounded number of datagrams. One call sends a batch to many clients.
    fn send(&mut self, now: Instant) {
        let Some(udp) = &mut self.udp else { return };
        let mut clients = 0;
        while clients < WRITES_PER_TURN_MAX {
            let next = self.relay.next_datagrams(now, &udp.not_taken);
            let Some(datagrams) = next else {
                return udp.not_taken.clear();
            };
            udp.send(&datagrams);
            clients += datagrams.to.len();
        }
    }

    /// Closes a bounded number of sockets. Then accepting may work again.
    fn close(&mut self) {
        if self.sockets.close_some() {
            self.accept_again = None;
        }
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Connect(id, address) => {
                    // An event reports when the socket is writable. If the connection failed,
                    // writing fails.
                    match TcpStream::connect(address) {
                        Ok(stream) => self.insert(id, stream, now),
                        Err(_) => {
                            self.relay.lost(id, now);
                        }
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
                Action::Run(job_id, job) => self.help(job_id, job, now),
                Action::ReturnMemory(blocks) => sys::process::return_memory(blocks),
                Action::Log(line) => self.console.write_line(&line),
                Action::LogAccess(line) => {
                    if let Some(log) = &mut self.access_log
                        && let Some(news) = log.write_line(&line)
                    {
                        self.console.write_line(&news);
                    }
                }
            }
        }
    }
}

/// Returns whether accepting failed only for one client, which is gone.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    ) || matches!(error.raw_os_error(), Some(libc::EPROTO | libc::EPERM))
}
