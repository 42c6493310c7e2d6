//! What every part of the core may use: the settings, the time of the current input, deadlines,
//! random numbers, actions for the shell, the queue of events between the parts, the log,
//! `/api/events` and the counters.
//!
//! The context knows no part.

#[cfg(feature = "handover")]
mod handover;

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::counts::{Count, Counts};
use super::event::Event;
use super::event_limits::EventLimits;
use super::job::JobId;
use super::log::Log;
use super::rtp_socket::RtpSocket;
use super::server_event::{self, LogLine, ServerEvent};
use super::settings::Settings;
use super::timers::{Armed, Owner, Timers};
use super::{Action, Level};
use crate::events::{EventId, Events};
use crate::gate::{SessionId, network_of};
use crate::http::{Refusal, Reply, Version};
use crate::random::Random;
use crate::time::Instant;
use crate::time::{Calendar, UnixTime};
use crate::token_bucket::{Rate, TokenBucket};

pub(super) struct Context {
    pub settings: Settings,
    pub rtp_socket: RtpSocket,
    /// Number of this run of the server. Ids in the API begin with it.
    pub run: u32,
    now: Instant,
    pub timers: Timers,
    pub calendar: Calendar,
    pub random: Random,
    pub actions: VecDeque<Action>,
    /// Reports of parts to each other, the oldest first. Empty between two inputs.
    pub queue: VecDeque<Event>,
    pub counts: Counts,
    /// The server ends: it admits nobody.
    pub is_closing: bool,
    /// Another process has the tokens and the streams.
    pub is_replaced: bool,
    log: Log,
    pub events: Events,
    pub event_limits: EventLimits,
    /// Limit for reports of refused sources.
    refusals: ReportLimit,
    /// The newest of these reports, for the snapshot of `/api/events`, each with its network unless
    /// a predecessor has made it. At most [`REFUSED_MAX`], and [`REFUSED_OF_NETWORK_MAX`] of each
    /// network.
    refused: VecDeque<(Option<IpAddr>, String)>,
    /// Limit for lines about tokens in the log.
    changes: ReportLimit,
    job_next: u64,
    /// Bytes freed since memory was last returned to the kernel.
    freed_bytes: usize,
    /// Deadline for returning memory, or some more of it.
    return_armed: Armed,
}

/// Limits how many events of a kind are reported.
#[derive(Default)]
struct ReportLimit {
    bucket: TokenBucket,
    left_out: u64,
}

/// Rate of lines about tokens. A control server may add a thousand keys, which may not push out
/// other reports.
const CHANGES: Rate = Rate::per_second(16);
/// Rate of reports of refused sources of all hosts. Each host has a lower one.
const REFUSALS: Rate = Rate {
    per_second: 4,
    burst: 64,
};
/// Number of refused sources that a reader of `/api/events` learns of at its beginning.
const REFUSED_MAX: usize = 16;
const REFUSED_OF_NETWORK_MAX: usize = 8;

impl ReportLimit {
    /// Returns how many were left out before this one, or `None` if this one is left out.
    fn admit(&mut self, rate: Rate, now: Instant) -> Option<u64> {
        let is_reported = self.bucket.try_take(1, rate, now);
        self.left_out += u64::from(!is_reported);
        is_reported.then(|| std::mem::take(&mut self.left_out))
    }
}

/// Freed bytes that are worth returning to the kernel.
const RETURN_BYTES: usize = 16 * 1024 * 1024;
/// Freed bytes that are returned at once. All freed memory is returned in one turn, and 1 MiB takes
/// about 0.1 ms.
const RETURN_AT_ONCE_BYTES: usize = 2 * RETURN_BYTES;
/// Time before freed memory is returned. Looking for it takes milliseconds.
pub(super) const RETURN_AFTER: Duration = Duration::from_secs(5);
/// Pause between two returns. Each takes a fraction of a millisecond.
const RETURN_PAUSE: Duration = Duration::from_millis(10);

impl Context {
    /// Makes the context of a server that has just started.
    pub fn new(settings: Settings) -> Context {
        let mut random = Random::new(settings.random_key);
        Context {
            run: random.draw() as u32,
            now: Instant::START,
            calendar: Calendar::new(Duration::from_secs(settings.started_unix_seconds)),
            timers: Timers::default(),
            random,
            actions: VecDeque::new(),
            queue: VecDeque::new(),
            counts: Counts::default(),
            is_closing: false,
            is_replaced: false,
            log: Log::new(settings.limits.log),
            events: Events::default(),
            event_limits: EventLimits::default(),
            refusals: ReportLimit::default(),
            refused: VecDeque::new(),
            changes: ReportLimit::default(),
            job_next: 1,
            freed_bytes: 0,
            return_armed: Armed::default(),
            rtp_socket: RtpSocket::default(),
            settings,
        }
    }

    /// Returns the operator's settings. They do not change while the server runs.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time of the current input.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sets the time of the current input.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Orders an action of the shell, after the actions ordered before.
    pub fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Reports an event to the other parts, after those reported before.
    pub fn notify(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Lets the owner be called at `deadline` or earlier. A deadline in the past counts as now, so
    /// that an owner that asks again and again delays no other.
    pub fn arm(&mut self, armed: &mut Armed, owner: Owner, deadline: Instant) {
        self.timers
            .arm(armed, owner, deadline.max(self.now), self.now);
    }

    /// Removes the owner's deadline.
    pub fn disarm(&mut self, armed: &mut Armed, owner: Owner) {
        self.timers.disarm(armed, owner);
    }

    /// Adds to a counter.
    pub fn count(&mut self, what: Count, number: u64) {
        self.counts.add(what, number);
    }

    /// Checks what must hold between two inputs. Returns how many deadlines the context itself has.
    pub fn check(&self) -> usize {
        assert!(self.queue.is_empty(), "an event was not dispatched");
        usize::from(self.return_armed.is_armed())
    }

    /// Reports what happened to a session, or to a token with the session's own id: see
    /// [`Context::emit_about`].
    pub fn emit(&mut self, session: &SessionId, event: &ServerEvent<'_>) {
        self.emit_about(Some((session, session)), event);
    }

    /// Writes the line of the log that belongs to an event, and adds the event to `/api/events` if
    /// anybody reads those. [`EventLimits`] may leave it out there. `about`: the session id that it is
    /// about, and the session that this id opens.
    pub fn emit_about(&mut self, about: Option<(&SessionId, &SessionId)>, event: &ServerEvent<'_>) {
        let line = LogLine { event, about };
        match line.level() {
            Some(_) if line.is_about_token() => self.log_change(format_args!("{line}")),
            Some(level) => self.log(level, event.host(), format_args!("{line}")),
            None => {}
        }
        let is_reported = |(credential, _)| self.event_limits.admit(credential, event, self.now);
        if self.events.is_kept && about.is_none_or(is_reported) {
            let (run, time) = (self.run, self.date());
            let of = about.map(|(_, of)| of.clone());
            self.events.push(of, |text, number| {
                let credential = about.map(|(credential, _)| credential);
                server_event::write_unit(text, (EventId { run, number }, time), credential, event);
            });
        }
    }

    /// Reports the refusal of a source in the log and in `/api/events`, up to a number of them in a
    /// second.
    pub fn emit_refusal(
        &mut self,
        about: (&SessionId, &SessionId),
        address: SocketAddr,
        refusal: &Refusal,
    ) {
        if !self.event_limits.admit_refusal(address.ip(), self.now) {
            self.refusals.left_out += 1;
        } else if let Some(left_out) = self.refusals.admit(REFUSALS, self.now) {
            let what = ServerEvent::PublisherRefused {
                address,
                status: refusal.status.code(),
                detail: &refusal.detail,
                left_out,
            };
            self.emit_about(Some(about), &what);
            let (by, mut its) = (Some(network_of(address.ip())), 1);
            self.refused.retain(|(of, _)| {
                its += usize::from(*of == by);
                *of != by || its <= REFUSED_OF_NETWORK_MAX
            });
            self.refused.truncate(REFUSED_MAX - 1);
            let row = server_event::refusal_row(self.date(), about.0, &what);
            self.refused.push_front((by, row));
        }
    }

    /// Returns the rows of the sources that were refused lately, the newest first, as text of
    /// `/api/events`.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        self.refused.iter().map(|(_, row)| row.as_str())
    }

    /// Returns a new id for a job.
    pub fn draw_job(&mut self) -> JobId {
        let job_id = JobId(self.job_next);
        self.job_next = self.job_next.wrapping_add(1);
        job_id
    }

    /// Notes that `bytes` of used memory were freed.
    pub fn freed(&mut self, bytes: usize) {
        self.freed_bytes = self.freed_bytes.saturating_add(bytes);
        if self.freed_bytes >= RETURN_AT_ONCE_BYTES {
            self.timers
                .arm(&mut self.return_armed, Owner::Memory, self.now, self.now);
        } else if self.freed_bytes >= RETURN_BYTES {
            self.return_memory(RETURN_AFTER);
        }
    }

    /// Returns freed memory to the kernel after this time.
    pub fn return_memory(&mut self, after: Duration) {
        if !self.return_armed.is_armed() {
            let deadline = self.now + after;
            self.timers
                .arm(&mut self.return_armed, Owner::Memory, deadline, self.now);
        }
    }

    /// Returns these blocks to the kernel, or other freed memory when no block is left.
    pub fn memory_due(&mut self, blocks: Vec<Vec<u8>>) {
        self.return_armed.fired();
        if !blocks.is_empty() {
            self.return_memory(RETURN_PAUSE);
        } else if std::mem::take(&mut self.freed_bytes) < RETURN_BYTES {
            return;
        }
        self.actions.push_back(Action::ReturnMemory(blocks));
    }

    /// Writes a line to the log. `by`: the host that caused it, as for [`Log::lines`].
    pub fn log(&mut self, level: Level, by: Option<IpAddr>, event: fmt::Arguments<'_>) {
        for line in self.log.lines(level, self.now, by, event) {
            self.actions.push_back(Action::Log(line));
        }
    }

    /// Logs a change of the tokens, or what a successor no longer admits: at most [`CHANGES`] lines.
    /// The next line says how many were left out.
    pub fn log_change(&mut self, event: fmt::Arguments<'_>) {
        match self.changes.admit(CHANGES, self.now) {
            None => {}
            Some(0) => self.log(Level::Info, None, event),
            Some(left_out) => {
                let event = format_args!("{event} left_out={left_out}");
                self.log(Level::Info, None, event);
            }
        }
    }

    /// Returns how to answer a request that could not be read, or did not come in time. The
    /// connection closes after the answer.
    pub fn unread_reply(&self) -> Reply {
        Reply {
            wants_titles: None,
            wants_page: false,
            version: Version::Http11,
            keep_alive: false,
            head_only: false,
            no_store: false,
            date: self.date(),
            fields: &[],
        }
    }

    /// Sets the calendar forward to this host's clock, if that is ahead by more than 100 ms.
    /// Returns whether it was.
    pub fn set_unix_time(&mut self, since_1970: Duration) -> bool {
        self.calendar.advance(since_1970, self.now)
    }

    /// Returns the date for answers.
    pub fn date(&self) -> UnixTime {
        self.calendar.at(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Status;
    use crate::relay::stage::Stage;
    use std::net::SocketAddr;

    /// Lets time pass. Returns how often memory was returned.
    fn returned_within(stage: &mut Stage, time: Duration) -> usize {
        let until = stage.now + time;
        let mut count = 0;
        loop {
            while let Some(action) = stage.relay.next_action() {
                count += usize::from(action == Action::ReturnMemory(Vec::new()));
            }
            let Some(due) = stage.relay.next_deadline().filter(|due| *due <= until) else {
                stage.now = until;
                return count;
            };
            stage.now = due.max(stage.now);
            stage.relay.expire(stage.now);
        }
    }

    #[test]
    fn memory_of_tokens_that_go_is_returned() {
        let mut stage = Stage::new(&["--token-server=10.0.0.1", "--tokens=200000"]);
        stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
        let clients: Vec<String> = (1..=60).map(|port| format!("10.1.0.1:{port}")).collect();
        let clients = format!("&type=rtp-udp&udp-clients={}", clients.join(","));
        let caller = stage.client("");
        let mut call_all = |call: &str, more: &str, status: u16| {
            for session in 0..1_500 {
                let line = format!("{call}?sessionid={session}{more} HTTP/1.1");
                stage.written.clear();
                let request = format!("{line}\r\nHost: localhost\r\n\r\n");
                stage.relay.received(caller, request.as_bytes(), stage.now);
                while stage.write_next() {}
                stage.assert_status(caller, status);
            }
            returned_within(&mut stage, Duration::from_secs(10))
        };
        assert_eq!(call_all("POST /api/add-token", &clients, 201), 0);
        assert_eq!(call_all("DELETE /api/revoke-token", "", 200), 1);
    }

    #[test]
    fn who_asks_for_the_past_again_and_again_keeps_nobody_waiting() {
        let mut ctx = Stage::new(&[]).relay.ctx;
        let [mut tokens, mut memory] = [Armed::default(); 2];
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        ctx.set_now(at(1));
        ctx.arm(&mut memory, Owner::Memory, at(4));
        ctx.set_now(at(5));
        let asks_again = |tokens: &mut Armed, ctx: &mut Context| {
            tokens.fired();
            ctx.arm(tokens, Owner::Tokens, at(2));
            ctx.timers.call_due(ctx.now, 1);
            ctx.timers.next_called()
        };
        assert_eq!(asks_again(&mut tokens, &mut ctx), Some(Owner::Memory));
        assert_eq!(asks_again(&mut tokens, &mut ctx), Some(Owner::Tokens));
    }

    fn publish(stage: &mut Stage, media: &[u8]) {
        let length = media.len();
        let head = format!("PUT /stream/s HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
        let id = stage.client(&head);
        for piece in media.chunks(64 * 1024) {
            stage.relay.received(id, piece, stage.now);
            while stage.write_next() {}
        }
        stage.assert_status(id, 200);
        stage.relay.lost(id, stage.now);
    }

    #[test]
    fn tiny_streams_return_no_memory() {
        let mut stage = Stage::new(&[]);
        for _ in 0..2_000 {
            publish(&mut stage, b"x");
        }
        assert_eq!(returned_within(&mut stage, Duration::from_secs(60)), 0);
    }

    /// Memory is returned at most once in a while, and freed bytes are not forgotten.
    #[test]
    fn memory_is_returned_once_a_while_after_much_of_it_was_freed() {
        let mut stage = Stage::new(&["--buffer=8M"]);
        let media = vec![0; 8 << 20];
        let step = Duration::from_millis(100);
        let mut count = 0;
        for _ in 0..100 {
            publish(&mut stage, &media);
            count += returned_within(&mut stage, step);
        }
        assert_eq!(count, 1, "in ten seconds");
        assert_eq!(returned_within(&mut stage, Duration::from_secs(60)), 1);
        assert_eq!(stage.relay.next_deadline(), None, "nothing is due any more");
    }

    #[test]
    fn memory_of_clients_that_have_left_is_returned() {
        for sends_whole in [false, true] {
            let mut stage = Stage::new(&[]);
            let head = format!("GET /healthz HTTP/1.0\r\nX: {}", "x".repeat(16_000));
            for round in 0..11 {
                let ids: Vec<_> = (0..100)
                    .map(|port| {
                        let peer = SocketAddr::from(([10, 0, 0, 2], 1_000 + round * 100 + port));
                        let id = stage.relay.accepted(peer, stage.now).expect("room");
                        stage.relay.received(id, head.as_bytes(), stage.now);
                        id
                    })
                    .collect();
                for id in ids {
                    if sends_whole {
                        stage.relay.received(id, b"\r\n\r\n", stage.now);
                        while stage.write_next() {}
                    }
                    stage.relay.lost(id, stage.now);
                }
            }
            assert_eq!(returned_within(&mut stage, Duration::from_secs(60)), 1);
        }
    }

    /// Neither refused sources nor a thousand new keys push out other lines.
    #[test]
    fn so_many_of_a_kind_are_told_of_in_a_second() {
        let mut limit = ReportLimit::default();
        for second in [0, 1, 7] {
            let now = Instant::after_start(Duration::from_secs(second));
            for number in 0..20 {
                let left_out = if number == 0 && second > 0 { 4 } else { 0 };
                let told = (number < 16).then_some(left_out);
                assert_eq!(limit.admit(CHANGES, now), told, "{second} {number}");
            }
        }
        let mut ctx = Stage::new(&[]).relay.ctx;
        let log = |ctx: &mut Context, second| {
            ctx.set_now(Instant::after_start(Duration::from_secs(second)));
            let mut lines = Vec::new();
            for number in 0..18 {
                ctx.log_change(format_args!("event=a number={number}"));
                while let Some(Action::Log(line)) = ctx.actions.pop_front() {
                    lines.push(line);
                }
            }
            lines
        };
        let first = log(&mut ctx, 0);
        assert_eq!(
            (first.len(), &*first[0]),
            (16, "level=info event=a number=0")
        );
        let next = log(&mut ctx, 1);
        let line = "level=info event=a number=0 left_out=2";
        assert_eq!((next.len(), &*next[0]), (16, line));
        assert_eq!(next[1], "level=info event=a number=1");
    }

    /// Every job has an id of its own, and random numbers do not repeat.
    #[test]
    fn job_ids_and_drawn_numbers_are_each_given_once() {
        let mut ctx = Stage::new(&[]).relay.ctx;
        let job_ids: Vec<JobId> = (0..4).map(|_| ctx.draw_job()).collect();
        assert_eq!(job_ids, [1, 2, 3, 4].map(JobId));
        let drawn: std::collections::HashSet<u64> = (0..100).map(|_| ctx.random.draw()).collect();
        assert_eq!(drawn.len(), 100);
        assert!(!drawn.contains(&u64::from(ctx.run)));
    }

    #[test]
    fn memory_is_returned_a_while_after_enough_is_freed() {
        let mut ctx = Stage::new(&[]).relay.ctx;
        ctx.freed(RETURN_BYTES - 1);
        assert_eq!(ctx.check(), 0);
        ctx.freed(1);
        assert_eq!(ctx.check(), 1, "memory is to be returned");
        assert_eq!(ctx.timers.next(), Some(ctx.now() + RETURN_AFTER));
        ctx.freed(RETURN_AT_ONCE_BYTES - RETURN_BYTES);
        assert_eq!(ctx.timers.next(), Some(ctx.now()));
        ctx.freed(usize::MAX);
    }

    /// Whoever reads the log or the events learns of refused sources, up to a number in a second. A
    /// later reader learns of the newest ones.
    #[test]
    fn refused_sources_are_reported_at_a_bounded_rate() {
        let mut ctx = Stage::new(&[]).relay.ctx;
        let session = SessionId::parse(b"s").expect("a good sessionid");
        let refusal = Refusal::new(Status::Conflict, "no");
        let about = (&session, &session);
        ctx.events.keep();
        for number in 0..20 {
            let at = SocketAddr::from(([10, 0, 0, 1], number));
            ctx.emit_refusal(about, at, &refusal);
            assert_eq!(ctx.events.take_new(), number < 16, "{number}");
        }
        let mut lines = 0;
        while let Some(action) = ctx.actions.pop_front() {
            lines += usize::from(
                matches!(action, Action::Log(line) if line.contains("level=warn event=publisher-refused")),
            );
        }
        assert_eq!(lines, 16);
        ctx.set_now(ctx.now() + Duration::from_secs(60));
        for host in 0..100 {
            let at = SocketAddr::from(([10, 0, 1, host], 7));
            ctx.emit_refusal(about, at, &refusal);
        }
        assert_eq!(ctx.refused().count(), REFUSED_MAX);
        let newest = ctx.refused().next().expect("a row");
        assert!(newest.starts_with("event: refusal\ndata: {") && newest.contains("10.0.1.63:7"));
        // A host that is refused all the time leaves the rows and the reports of others.
        for second in 0..60 {
            ctx.set_now(ctx.now() + Duration::from_secs(second));
            for number in 0..20 {
                let at = SocketAddr::from(([10, 0, 2, 1], number));
                ctx.emit_refusal(about, at, &refusal);
            }
        }
        let others = |row: &&str| !row.contains("10.0.2.1:");
        assert_eq!(ctx.refused().filter(others).count(), REFUSED_MAX / 2);
        ctx.emit_refusal(about, SocketAddr::from(([10, 0, 3, 1], 7)), &refusal);
        assert!(ctx.refused().next().expect("a row").contains("10.0.3.1:7"));
    }

    /// What a client causes at will, and the line that the log has for it.
    const CAUSED: [(&str, &[&str], &str, &[u8]); 6] = [
        ("level=info event=stream-begins", &[], "PUT", b"abc"),
        ("level=info event=stream-ends", &[], "PUT", b"abc"),
        (
            "level=warn event=format-let-go",
            &[],
            "PUT",
            b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x12\xff\xff\xff\0\0\0\0\0\0\0\x02\0\x0aonMetaData",
        ),
        (
            "level=warn event=pull-fails",
            &["--origin=http://10.1.0.1:8000"],
            "GET",
            b"",
        ),
        (
            "level=warn event=publisher-refused",
            &["--token-server=10.0.0.1"],
            "PUT",
            b"abc",
        ),
        ("level=warn event=rtmp-failed", &[], "", b"\x03"),
    ];

    /// However many lines one host causes, another host's lines and the server's own are written.
    #[test]
    fn no_host_takes_the_lines_of_another() {
        for (line, options, method, body) in CAUSED {
            if line.ends_with("rtmp-failed") && !cfg!(feature = "rtmp") {
                continue;
            }
            let options = [options, &["--log-lines=40"]].concat();
            let mut relay = Stage::new(&options).relay;
            let now = Instant::START + Duration::from_secs(1);
            let mut lines: Vec<String> = Vec::new();
            let mut of_first = 0;
            for number in 0..110 {
                let host = if number < 100 { 1 } else { 2 };
                if number == 100 {
                    of_first = lines.iter().filter(|it| it.starts_with(line)).count();
                }
                let peer = SocketAddr::from(([10, 7, 0, host], 1_000 + number));
                let id = match method {
                    "" => relay.accepted_rtmp(peer, now),
                    _ => relay.accepted(peer, now),
                };
                let id = id.expect("room");
                let head = match method {
                    "" => String::new(),
                    "GET" => format!("GET /stream/s{number} HTTP/1.1\r\nHost: h\r\n\r\n"),
                    _ => format!(
                        "{method} /stream/s{number} HTTP/1.0\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    ),
                };
                relay.received(id, &[head.as_bytes(), body].concat(), now);
                if method.is_empty() {
                    // A chunk size of 1 breaks a rule.
                    relay.received(id, &[0; 2 * 1536], now);
                    relay.received(id, &[2, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1], now);
                }
                while let Some(action) = relay.next_action() {
                    match action {
                        Action::Log(line) => lines.push(line),
                        Action::Connect(call, _) => drop(relay.lost(call, now)),
                        _ => {}
                    }
                }
                relay.lost(id, now);
            }
            let mut own = |level| {
                let event = format_args!("event=token-file-not-written");
                relay.ctx.log(level, None, event);
                let action = std::iter::from_fn(|| relay.next_action()).last();
                matches!(action, Some(Action::Log(_)))
            };
            assert!(own(Level::Warn) && own(Level::Info), "{line}: the server's");
            let all = lines.iter().filter(|it| it.starts_with(line)).count();
            assert!((10..=20).contains(&of_first), "{line}: {lines:?}");
            assert!(all >= of_first + 5, "{line}: {lines:?}");
        }
    }

    /// No turn returns much.
    #[test]
    fn blocks_of_ended_streams_are_returned_a_few_at_a_time() {
        const BLOCK: usize = 64 * 1024;
        let mut stage = Stage::new(&[]);
        let sources = [0, 1, 2].map(|session| {
            let head = format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\n");
            let id = stage.client(&format!("{head}Content-Length: 99999999\r\n\r\n"));
            for _ in 0..8 * 16 {
                stage.relay.received(id, &[0; BLOCK], stage.now);
            }
            id
        });
        for id in sources {
            stage.lose(id);
        }
        let mut returned = Vec::new();
        while let Some(due) = stage.relay.next_deadline() {
            stage.now = due;
            stage.relay.expire(due);
            while let Some(action) = stage.relay.next_action() {
                if let Action::ReturnMemory(blocks) = action {
                    assert!(blocks.iter().all(|block| block.capacity() == BLOCK));
                    returned.push(blocks.len());
                }
            }
        }
        assert!(returned.iter().all(|blocks| (1..=32).contains(blocks)));
        assert_eq!(returned.iter().sum::<usize>(), 3 * 8 * 16 - 4);
    }

    /// Ids of one run are not valid in another.
    #[test]
    fn each_run_has_a_number_of_its_own() {
        let settings = Stage::new(&[]).relay.ctx.settings().clone();
        let run = |random_key| {
            let settings = Settings {
                random_key,
                ..settings.clone()
            };
            Context::new(settings).run
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn what_happens_is_counted_and_told_while_somebody_follows() {
        let mut ctx = Stage::new(&[]).relay.ctx;
        ctx.counts.add(Count::Skips, 3);
        assert_eq!(ctx.counts.of(Count::Skips), 3);
        let session = SessionId::parse(b"s").expect("a good sessionid");
        ctx.emit(&session, &ServerEvent::TokenOver {});
        assert!(!ctx.events.take_new(), "nobody follows");
        ctx.events.keep();
        ctx.emit(&session, &ServerEvent::TokenOver {});
        assert!(ctx.events.take_new() && !ctx.events.take_new());
    }
}
