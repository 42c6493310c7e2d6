//! Deadlines of connections: what to do, when, and the reason for the log.
//!
//! A connection has at most one deadline. It depends on its phase and on what it did last.
//! [`crate::relay::timers`] explains why moving a deadline is cheap.

use super::connection::Connection;
use super::{Clients, Phase, Waiting};
use crate::http::{Refusal, Status};
use crate::relay::context::Context;
use crate::relay::cut_reason::CutReason;
use crate::relay::event::Event;
use crate::relay::origin_error::OriginError;
use crate::relay::streams::SILENT;
use crate::relay::timers::Owner;
use crate::relay::{ConnectionId, RESOLVE_TIME, StreamId};
use crate::time::Instant;

/// Why a deadline of a client has come.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    /// Its token has ended.
    Over,
    /// Its socket has taken no bytes for too long.
    Stalled,
    /// It is a source that sent nothing.
    Silent,
    /// It is a source that sent too little.
    TooSlow,
    /// The time of its phase is over, in the log's words.
    Phase(&'static str),
}

impl Reason {
    /// Describes the reason, for the log and for the client.
    pub(super) fn words(self) -> &'static str {
        match self {
            Reason::Over => "its token has ended",
            Reason::Stalled => "it read nothing for --viewer-stall-time",
            Reason::Silent => SILENT,
            Reason::TooSlow => "the source was slower than --body-rate",
            Reason::Phase(words) => words,
        }
    }
}

impl Connection {
    /// Returns when this connection is due if nothing happens before, and the reason.
    pub(super) fn deadline(&self, ctx: &Context) -> Option<(Instant, Reason)> {
        let stall_time = ctx.settings().limits.viewer_stall_time;
        // Connections that this server makes have one deadline for everything.
        let is_call = matches!(self.phase, Phase::OriginRequest(_) | Phase::PeerRequest(_));
        let stalls = self.is_blocked && !self.output_is_over() && !is_call;
        let stalled = stalls.then(|| (self.taken + stall_time, Reason::Stalled));
        let ends = self
            .admission
            .as_ref()
            .and_then(|admission| admission.deadline(ctx));
        let ends = ends.map(|ends| (ends, Reason::Over));
        let all = [stalled, ends, self.phase_deadline(ctx)];
        let all = all.into_iter().flatten();
        all.min_by_key(|(deadline, _)| *deadline)
    }

    fn phase_deadline(&self, ctx: &Context) -> Option<(Instant, Reason)> {
        let limits = &ctx.settings().limits;
        let (deadline, words) = match &self.phase {
            Phase::Source(source) => return Some(source.deadline(self.progress, ctx)),
            // Its input is not read before it takes its answers.
            Phase::Head(_) if self.output.is_full() => None,
            Phase::Head(reader) if reader.has_begun() => Some((
                self.progress + limits.head_time,
                "its request took longer than --head-time",
            )),
            Phase::Head(_) if self.output.is_empty() => {
                Some((self.progress + limits.keep_alive_time, "no request came"))
            }
            Phase::Opening | Phase::Payload(_) => Some((
                self.progress + limits.head_time,
                "its request took longer than --head-time",
            )),
            // Its last answer is not sent yet.
            Phase::Lingering(_) if !self.output_is_over() => None,
            Phase::Lingering(lingering) => Some((lingering.until, "is done")),
            Phase::Waiting(waiting) => {
                Some((waiting.until, "its session did not begin within --wait"))
            }
            Phase::PendingCall(_) => Some((self.progress + RESOLVE_TIME, "its call took too long")),
            Phase::OriginRequest(request) => {
                Some((request.until, "its origin did not answer in time"))
            }
            Phase::PeerRequest(request) => Some((request.until, "the peer did not answer in time")),
            Phase::EventReader(reader) => Some((reader.deadline(), "nothing has happened")),
            Phase::Head(_) | Phase::Viewer(_) | Phase::ListResponse(_) | Phase::AwaitingJournal => {
                None
            }
        }?;
        Some((deadline, Reason::Phase(words)))
    }
}

impl Clients {
    /// Arms the timer of a client, whose deadline may have moved.
    pub fn rearm(&mut self, id: ConnectionId, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Some((deadline, _)) = connection.deadline(ctx)
        {
            ctx.arm(&mut connection.armed, Owner::Connection(id), deadline);
        }
    }

    /// Handles a deadline, unless it was put off. The caller rearms. `is_slowed` says whether a
    /// stream's source was not read. Returns what a client has waited for in vain.
    pub fn due(
        &mut self,
        id: ConnectionId,
        is_slowed: impl FnOnce(StreamId) -> bool,
        ctx: &mut Context,
    ) -> Option<Waiting> {
        let connection = self.connections.get_mut(id)?;
        connection.armed.fired();
        let (_, reason) = connection
            .deadline(ctx)
            .filter(|(deadline, _)| *deadline <= ctx.now())?;
        match (&connection.phase, reason) {
            (_, Reason::Over) => self.expel(id, reason.words(), ctx),
            (_, Reason::Silent | Reason::TooSlow) => self.source_due(id, reason, is_slowed, ctx),
            (Phase::Viewer(_), Reason::Stalled) => {
                ctx.notify(Event::CutViewer(id, CutReason::Stalled));
            }
            (Phase::Source(source), Reason::Stalled) => {
                let (stream, reason) = (source.stream, reason.words());
                ctx.notify(Event::SourceLost { stream, id, reason });
                self.close(id, ctx);
            }
            // It would not take an answer, either.
            (_, Reason::Stalled) => self.close(id, ctx),
            (Phase::Head(reader), Reason::Phase(_)) if !reader.has_begun() => self.close(id, ctx),
            (Phase::Head(_) | Phase::Payload(_), Reason::Phase(_)) => {
                let refusal = Refusal::new(Status::RequestTimeout, reason.words());
                self.refuse(id, &refusal, ctx.unread_reply(), ctx);
            }
            (Phase::Waiting(_), Reason::Phase(_)) => return self.end_wait(id),
            (Phase::OriginRequest(_), Reason::Phase(_)) => {
                self.give_up_origin(id, OriginError::TimedOut, ctx);
            }
            (Phase::EventReader(_), Reason::Phase(_)) => self.comment(id, ctx),
            (Phase::PendingCall(job_id), Reason::Phase(_)) => {
                ctx.notify(Event::CallTimedOut(*job_id));
            }
            // These get no answer.
            (
                Phase::Opening
                | Phase::Source(_)
                | Phase::Viewer(_)
                | Phase::PeerRequest(_)
                | Phase::ListResponse(_)
                | Phase::AwaitingJournal
                | Phase::Lingering(_),
                Reason::Phase(_),
            ) => self.close(id, ctx),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::connection;
    use crate::relay::Action;
    use crate::relay::stage::Stage;
    use crate::stream::Outcome;

    /// A source was slow and then silent while the clock stood: that is found in two steps, and
    /// the second waits for its turn.
    #[test]
    fn whoever_is_due_is_called_whatever_others_ask_for_meanwhile() {
        let mut stage = Stage::new(&["--source-idle-time=5", "--body-rate=0"]);
        let source = stage.client("PUT /stream/s HTTP/1.0\r\nContent-Length: 99\r\n\r\n");
        stage.wait_seconds(3);
        stage.send(source, "media");
        let idle = stage.client("");
        stage.now = stage.now + Duration::from_secs(60);
        stage.relay.expire(stage.now);
        stage.settle();
        assert!(stage.closed.contains(&idle), "another was called twice");
        assert_eq!(stage.text(source), "");
        stage.relay.expire(stage.now);
        stage.settle();
        assert!(stage.text(source).contains(" 408 "));
    }

    /// It waited for a session in vain, and takes nothing: its stall time holds still.
    #[test]
    fn who_waited_in_vain_and_takes_nothing_is_closed() {
        let mut stage = Stage::new(&["--wait=1"]);
        let id = stage.client("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
        stage.send(id, "GET /stream/none HTTP/1.1\r\nHost: h\r\n\r\n");
        stage.relay.served(id, Outcome::Blocked, stage.now);
        stage.wait_seconds(600);
        assert!(stage.closed.contains(&id), "it is there for ever");
    }

    /// A viewer has no deadline while its socket takes bytes and its token has no end.
    #[test]
    fn a_viewer_takes_no_room_among_the_deadlines() {
        for (query, is_armed) in [("", false), ("&ends=99", true)] {
            let mut stage = Stage::new(TIMES);
            stage.client(&format!(
                "POST /api/add-token?type=http&sessionid=s{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nmedia");
            let viewer = stage.client("GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n");
            assert!(stage.text(viewer).contains(" 200 "));
            let armed = &connection(&stage, viewer).armed;
            assert_eq!(armed.is_armed(), is_armed, "{query}");
        }
    }

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
    const TIMES: &[&str] = &[
        "--head-time=7",
        "--keep-alive-time=9",
        "--viewer-stall-time=50",
        "--token-server=10.0.0.0/24",
    ];

    /// In each phase a client has its time, to the millisecond. Then it gets an answer, or is
    /// closed.
    #[test]
    fn each_phase_has_its_time() {
        let token = "POST /api/add-token?type=http&sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let call =
            |line: &str, field: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
        let payload = call("GET /api/list-tokens", "Content-Length: 9\r\n");
        let names = call(
            "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients=a.example:5004",
            "",
        );
        let watch = "GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
        type Told = Option<(u16, &'static str)>;
        let cases: [(&[&str], String, u64, Told); 7] = [
            (&["--proxy-protocol=10.0.0.1"], String::new(), 7, None),
            (&["--proxy-protocol=10.0.0.1"], "PROXY TCP".into(), 7, None),
            (&[], String::new(), 9, None),
            (
                &[],
                "GET /".into(),
                7,
                Some((408, "its request took longer than --head-time")),
            ),
            (
                &[],
                payload,
                7,
                Some((408, "its request took longer than --head-time")),
            ),
            (&[], names, 5, Some((400, "did not resolve in time"))),
            (&["--wait=11"], watch, 11, Some((404, "does not run"))),
        ];
        for (more, sent, seconds, told) in cases {
            let mut stage = Stage::new(&[TIMES, more].concat());
            stage
                .relay
                .set_rtp("10.9.0.1:5004".parse().expect("an address"));
            if more.is_empty() || more[0].starts_with("--wait") {
                let caller = stage.client(token);
                stage.lose(caller);
            }
            let id = stage.client(&sent);
            assert_eq!(stage.text(id), "", "{sent}");
            stage.wait(Duration::from_millis(seconds * 1000 - 1));
            assert_eq!(stage.text(id), "", "{sent}");
            assert!(!stage.closed.contains(&id), "{sent}");
            stage.wait(Duration::from_millis(1));
            match told {
                None => {
                    assert_eq!(stage.text(id), "", "{sent}");
                    assert!(stage.closed.contains(&id), "{sent}");
                }
                Some((status, words)) => {
                    stage.assert_status(id, status);
                    assert!(stage.text(id).contains(words), "{}", stage.text(id));
                }
            }
        }
    }

    /// A client that does not take its answer has the stall time and no other.
    #[test]
    fn who_takes_nothing_of_its_answer_is_waited_for_as_long_as_a_viewer() {
        let refused = "POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n".to_owned();
        let full = HEALTH.repeat(300);
        for sent in [HEALTH.to_owned(), refused, full] {
            let mut stage = Stage::new(TIMES);
            let id = stage.client("");
            stage.wait_seconds(5);
            stage.relay.served(id, Outcome::Blocked, stage.now);
            stage.send(id, &sent);
            stage.wait(Duration::from_millis(49_999));
            assert!(!stage.closed.contains(&id), "{sent}");
            stage.wait(Duration::from_millis(1));
            assert!(stage.closed.contains(&id), "{sent}");
            assert_eq!(stage.text(id), "");
        }
    }

    /// The log lines about sources, and their answers.
    #[test]
    fn a_source_that_is_let_go_for_time_is_told_why() {
        let logged = |stage: &mut Stage| -> String {
            let acts = std::iter::from_fn(|| stage.relay.next_action());
            let lines = acts.filter_map(|action| match action {
                Action::Log(line) => Some(line),
                _ => None,
            });
            lines.collect::<Vec<_>>().join("|")
        };
        let put = |field: &str| {
            format!("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n{field}\r\n")
        };
        let idle = ["--source-idle-time=8", "--body-rate=1000"];
        for (token, field, seconds, status, words) in [
            ("&ends=6", "", 7, 403, "its token has ended"),
            (
                "",
                "",
                8,
                408,
                "the source was silent for --source-idle-time",
            ),
            (
                "",
                "Expect: 100-continue\r\n",
                50,
                0,
                "it read nothing for --viewer-stall-time",
            ),
        ] {
            let mut stage = Stage::new(&[TIMES, &idle[..]].concat());
            let line = format!("POST /api/add-token?type=http&sessionid=s{token}");
            stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            let id = stage.client("");
            if status == 0 {
                stage.relay.served(id, Outcome::Blocked, stage.now);
            }
            stage.send(id, &put(field));
            while stage.now.since_start() < Duration::from_secs(seconds) {
                assert!(!stage.closed.contains(&id), "{words}");
                if status == 0 {
                    stage.relay.received(id, &[b'x'; 1_500], stage.now);
                }
                while stage.relay.next_action().is_some() {}
                stage.now = stage.now + Duration::from_secs(1);
                stage.relay.expire(stage.now);
                while stage.write_next() {}
            }
            let log = logged(&mut stage);
            assert!(log.contains(words), "{words}: {log}");
            match status {
                0 => assert_eq!(stage.text(id), ""),
                status => {
                    stage.assert_status(id, status);
                    assert!(stage.text(id).contains(words), "{}", stage.text(id));
                }
            }
        }
    }

    /// The stall time does not apply to a client that takes its bytes, nor to a called client that
    /// has not answered yet.
    #[test]
    fn only_who_takes_nothing_is_held_to_the_time_for_that() {
        let options = [
            "--viewer-stall-time=3",
            "--keep-alive-time=20",
            "--origin-time=10",
            "--origin=http://10.1.0.1:8000",
        ];
        let mut stage = Stage::new(&options);
        let idle = stage.client("");
        let viewer = stage.viewer("s");
        let origin = stage.calls[0].0;
        stage.wait(Duration::from_millis(9_999));
        assert_eq!(stage.closed.len(), 0, "{idle:?}, {viewer:?} and {origin:?}");
        stage.wait(Duration::from_millis(1));
        assert!(stage.closed.contains(&origin));
        stage.assert_status(viewer, 504);
        assert!(!stage.closed.contains(&idle));
    }
}
