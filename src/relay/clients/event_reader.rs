//! Readers of `/api/events`. A reader gets a snapshot in pieces, and then the events, from the one
//! text that is kept for all readers ([`crate::events`]).
//!
//! Events during the snapshot follow it. They repeat or revoke rows of the snapshot. A reader that
//! falls behind gets a notice of this and a new snapshot. Without events it gets comments, so that
//! proxies keep the connection.
//!
//! Bounds: [`READERS_MAX`] readers, each with a piece of 16 KiB and one event.

use std::time::Duration;

use super::{Clients, Phase};
use crate::events::EventId;
use crate::gate::SessionId;
use crate::http::{Refusal, Reply, ResponseHead, Status};
use crate::relay::ConnectionId;
use crate::relay::api::Rows;
use crate::relay::context::Context;
use crate::relay::server_event::{begin_unit, end_unit};
use crate::relay::viewer_id::Mark;
use crate::time::Instant;

/// A client that reads the events.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct EventReader {
    /// It gets only the events of this session. `None`: of all sessions.
    of: Option<SessionId>,
    /// Number of the next event that it gets.
    next: u64,
    /// Position in the snapshot. `None`: it has got the whole snapshot.
    snapshot: Option<Snapshot>,
    /// Time of the last output.
    last_output: Instant,
}

/// Position in the snapshot: the table, and the last row.
pub type Snapshot = (Rows, Mark);

/// Position of a snapshot that begins.
const FIRST: Snapshot = (Rows::Details, (0, 0));

/// Maximal number of readers.
pub const READERS_MAX: usize = 128;
/// A reader without output for this long gets a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);
const COMMENT: &[u8] = b": nothing has happened\n\n";

impl EventReader {
    /// Checks a position of a hand-over: it cannot lie in the future.
    #[cfg(feature = "handover")]
    pub(super) fn fit(&mut self, ctx: &Context) {
        self.next = self.next.min(ctx.events.next());
        self.last_output = self.last_output.min(ctx.now());
    }

    /// Returns when a comment is due.
    pub(super) fn deadline(&self) -> Instant {
        self.last_output + HEARTBEAT
    }

    /// Returns whether there is a piece of the snapshot, an event for it, or an event to skip.
    pub(super) fn has_more(&self, ctx: &Context) -> bool {
        self.snapshot.is_some() || self.next < ctx.events.next()
    }

    /// Records that `bytes` of events were sent. Returns the rest of an event that was sent in part.
    pub(super) fn advance(&mut self, bytes: usize, ctx: &Context) -> Vec<u8> {
        let (next, rest) = ctx.events.advance(self.next, self.of.as_ref(), bytes);
        (self.next, self.last_output) = (next, ctx.now());
        rest
    }
}

impl Clients {
    /// Makes a client a reader of the events about `of`, or of all events. The first event is the one
    /// after `last`, if that is still there.
    pub fn follow(
        &mut self,
        id: ConnectionId,
        (of, last): (Option<SessionId>, Option<EventId>),
        reply: Reply,
        ctx: &mut Context,
    ) {
        if self.readers.len() >= READERS_MAX {
            let refusal = Refusal::busy(format!(
                "{READERS_MAX} clients read the events, which is the limit; try again later"
            ));
            return self.refuse(id, &refusal, reply, ctx);
        }
        let reply = reply.closing();
        let head = ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", "text/event-stream")
            .field("X-Content-Type-Options", "nosniff")
            .field("Cache-Control", "no-store")
            .field("X-Accel-Buffering", "no")
            .finish();
        if reply.head_only {
            return self.respond(id, Some(Status::Ok), head, false, ctx);
        }
        ctx.events.keep();
        let events = &ctx.events;
        let is_there = |last: &EventId| {
            let known = events.first..=events.next();
            last.run == ctx.run && known.contains(&last.number.saturating_add(1))
        };
        let resumed = last.filter(is_there);
        let reader = EventReader {
            of,
            next: resumed.map_or(events.next(), |last| last.number + 1),
            snapshot: resumed.is_none().then_some(FIRST),
            last_output: ctx.now(),
        };
        let has_missed = last.is_some() && resumed.is_none();
        let mut first = head;
        if resumed.is_none() {
            first.extend(opening(has_missed, ctx));
        }
        self.note_status(id, Status::Ok);
        self.readers.insert(id);
        self.begin(id, Phase::EventReader(reader), &first);
        self.rearm(id, ctx);
    }

    /// Writes the next piece of the snapshot. `next`: the position after it; `None`: the snapshot
    /// is complete.
    pub fn push_snapshot(
        &mut self,
        id: ConnectionId,
        (mut text, next): (Vec<u8>, Option<Snapshot>),
        ctx: &Context,
    ) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::EventReader(reader) = &mut connection.phase
        {
            reader.last_output = ctx.now();
            if next.is_none() {
                if reader.of.is_none() {
                    text.extend(ctx.refused().flat_map(str::bytes));
                }
                let number = reader.next.saturating_sub(1);
                let run = ctx.run;
                let last = EventId { run, number }.to_string();
                begin_unit(&mut text, "snapshot-end", Some(&last));
                end_unit(&mut text, &serde_json::Map::new());
            }
            reader.snapshot = next;
            connection.output.push(&text);
        }
        self.note_bytes(id, text.len());
    }

    /// Returns the position of the snapshot's next piece for a client that reads the events and has
    /// no output left, and the session that it is of. Begins a new snapshot if the client has missed
    /// events. Without a snapshot, skips events that are not for this client.
    pub fn due_snapshot(
        &mut self,
        id: ConnectionId,
        ctx: &Context,
    ) -> Option<(Snapshot, Option<SessionId>)> {
        let connection = self.connections.get_mut(id)?;
        let Phase::EventReader(reader) = &mut connection.phase else {
            return None;
        };
        if !connection.output.is_empty() {
            return None;
        }
        if reader.next < ctx.events.first {
            reader.next = ctx.events.next();
            reader.snapshot = Some(FIRST);
            connection.output.push(&opening(true, ctx));
        }
        if reader.snapshot.is_none() {
            reader.next = ctx.events.skip(reader.next, reader.of.as_ref());
        }
        Some((reader.snapshot.clone()?, reader.of.clone()))
    }

    /// Queues the readers, because there are new events.
    pub fn wake_readers(&mut self) {
        let idle = |id: &&ConnectionId| {
            let connection = self.connections.get(**id);
            connection.is_some_and(|connection| !connection.is_queued && !connection.is_blocked)
        };
        let idle: Vec<_> = self.readers.iter().filter(idle).copied().collect();
        idle.into_iter().for_each(|id| self.queue(id));
    }

    /// Sends a comment to a reader that has got nothing for a while.
    pub(super) fn comment(&mut self, id: ConnectionId, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id) {
            if let Phase::EventReader(reader) = &mut connection.phase {
                reader.last_output = ctx.now();
            }
            if connection.output.is_empty() {
                connection.output.push(COMMENT);
            }
        }
        self.queue(id);
        self.rearm(id, ctx);
    }

    /// Returns the next event of a reader, and the session whose events it gets. `None` during the
    /// snapshot.
    pub fn reads(&self, id: ConnectionId) -> Option<(u64, Option<&SessionId>)> {
        match self.phase(id)? {
            Phase::EventReader(reader) if reader.snapshot.is_none() => {
                Some((reader.next, reader.of.as_ref()))
            }
            _ => None,
        }
    }
}

/// Returns the event before a snapshot. A reader that reconnects within the snapshot gets a new
/// one.
fn opening(has_missed: bool, ctx: &Context) -> Vec<u8> {
    let mut text = Vec::new();
    if has_missed {
        begin_unit(&mut text, "missed", None);
        end_unit(&mut text, &serde_json::Map::new());
    }
    let mut data = serde_json::Map::new();
    data.insert("time".to_owned(), ctx.date().unix_seconds.into());
    begin_unit(&mut text, "snapshot", Some(""));
    end_unit(&mut text, &data);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::BYTES_MAX;
    use crate::relay::Relay;
    use crate::relay::stage::Stage;
    use crate::stream::Outcome;

    fn request(line: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    fn follow(stage: &mut Stage) -> ConnectionId {
        stage.client(&request("GET /api/events"))
    }

    /// A reader that takes nothing costs no more memory. When it takes bytes again it has missed
    /// events, and gets a snapshot.
    #[test]
    fn a_reader_that_stalls_costs_nothing_and_is_told_all_anew() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--viewer-stall-time=3600"]);
        let (stalls, reads) = (follow(&mut stage), follow(&mut stage));
        stage.relay.served(stalls, Outcome::Blocked, stage.now);
        let caller = stage.client("");
        let had = stage.text(stalls);
        for _ in 0..BYTES_MAX / 200 {
            stage.send(
                caller,
                &request("POST /api/add-token?type=http&sessionid=s"),
            );
            stage.send(caller, &request("DELETE /api/revoke-token?sessionid=s"));
            stage.written.remove(&caller);
        }
        stage.send(
            caller,
            &request("POST /api/add-token?type=http&sessionid=s"),
        );
        assert_eq!(stage.text(stalls), had, "it takes nothing");
        stage.relay.unblocked(stalls);
        // Each piece has a turn of its own.
        (0..8).for_each(|_| stage.settle());
        let text = stage.text(stalls)[had.len()..].to_owned();
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("event: "))
            .collect();
        assert_eq!(names, ["missed", "snapshot", "token", "snapshot-end"]);
        let read = stage.text(reads);
        assert_eq!(
            read.matches("event: token-added\n").count(),
            BYTES_MAX / 200 + 1
        );
        assert!(!read.contains("event: missed"));
        stage.send(caller, &request("DELETE /api/revoke-token?sessionid=s"));
        assert!(
            stage
                .text(stalls)
                .ends_with(stage.text(reads).split("event:").last().expect("one"))
        );
    }

    /// However much lies between that is for others: it is passed over a part at a time.
    #[test]
    fn who_follows_one_session_finds_it_among_thousands_of_events() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--viewer-stall-time=3600"]);
        let reader = stage.client(&request("GET /api/events?sessionid=b"));
        (0..8).for_each(|_| stage.settle());
        let had = stage.text(reader).len();
        stage.relay.served(reader, Outcome::Blocked, stage.now);
        let caller = stage.client("");
        for (name, times) in [("a", 2_500), ("b", 1), ("a", 2_500)] {
            for _ in 0..times / 2 + 1 {
                let add = format!("POST /api/add-token?type=http&sessionid={name}");
                stage.send(caller, &request(&add));
                let revoke = format!("DELETE /api/revoke-token?sessionid={name}");
                stage.send(caller, &request(&revoke));
                stage.written.remove(&caller);
            }
        }
        stage.relay.unblocked(reader);
        (0..8).for_each(|_| stage.settle());
        let text = stage.text(reader)[had..].to_owned();
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("event: "))
            .collect();
        assert_eq!(names, ["token-added", "token-revoked"]);
    }

    #[test]
    fn while_nothing_happens_a_comment_goes_out_and_nothing_else() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        let reader = follow(&mut stage);
        let had = stage.text(reader).len();
        stage.wait_seconds(61);
        let text = &stage.text(reader)[had..];
        assert_eq!(text, ": nothing has happened\n\n".repeat(4));
        stage.lose(reader);
        stage.wait_seconds(61);
        assert_eq!(stage.relay.next_deadline(), None);
    }

    /// Returns the ids of the events, and their names.
    fn told(stage: &Stage, id: ConnectionId, from: usize) -> (Vec<String>, Vec<String>) {
        let text = stage.text(id)[from..].to_owned();
        let of = |name: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name));
            lines.map(str::to_owned).collect()
        };
        (of("id: "), of("event: "))
    }

    /// Nothing is to be written to anybody.
    fn settle_all(stage: &mut Stage) {
        // Each piece has a turn of its own.
        (0..8).for_each(|_| stage.settle());
        assert!(
            !stage.relay.has_writes(),
            "something is to be written still"
        );
    }

    /// A reader continues after its last event if that is kept. Otherwise it has missed events,
    /// and gets a snapshot.
    #[test]
    fn who_comes_back_goes_on_where_it_was() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        let caller = stage.client("");
        let first = follow(&mut stage);
        settle_all(&mut stage);
        let (ids, names) = told(&stage, first, 0);
        assert_eq!(names, ["snapshot", "snapshot-end"]);
        let start = ids.last().expect("an id").clone();
        assert_eq!(ids, ["", &start]);
        let had = stage.text(first).len();
        for name in ["a", "b"] {
            let add = format!("POST /api/add-token?type=http&sessionid={name}");
            stage.send(caller, &request(&add));
        }
        settle_all(&mut stage);
        let (ids, names) = told(&stage, first, had);
        assert_eq!(names, ["token-added", "token-added"]);
        let (run, number) = start.rsplit_once('-').expect("an id");
        let number: u64 = number.parse().expect("a number");
        let nth = |more: u64| format!("{run}-{}", number + more);
        assert_eq!(ids, [nth(1), nth(2)]);
        let anew = ["missed", "snapshot", "token", "token", "snapshot-end"];
        for (last, expected) in [
            (start.clone(), &["token-added", "token-added"][..]),
            (nth(1), &["token-added"]),
            (nth(2), &[]),
            (nth(3), &anew),
            (format!("0{run}-1"), &anew),
            ("00000001-1".to_owned(), &anew),
            ("nonsense".to_owned(), &anew),
            (String::new(), &anew),
        ] {
            let line = "GET /api/events HTTP/1.1\r\nHost: localhost";
            let id = stage.client(&format!("{line}\r\nLast-Event-ID: {last}\r\n\r\n"));
            settle_all(&mut stage);
            let (_, names) = told(&stage, id, 0);
            assert_eq!(names, expected, "{last}");
            stage.lose(id);
        }
    }

    #[test]
    fn who_may_not_follow_is_told_to_come_again() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        for (others, status) in [(READERS_MAX, 503), (READERS_MAX - 1, 200)] {
            let id = stage.client("");
            let Relay { clients, ctx, .. } = &mut stage.relay;
            let others = 100..100 + others as u64;
            clients.readers.extend(others.map(ConnectionId::from_u64));
            clients.follow(id, (None, None), ctx.unread_reply(), ctx);
            clients.readers.retain(|other| *other == id);
            stage.settle();
            stage.assert_status(id, status);
            let waits = stage.text(id).contains("Retry-After: ");
            assert_eq!(waits, status == 503);
        }
    }

    /// A reader that takes nothing is not called for every event.
    #[test]
    fn who_takes_nothing_is_not_woken() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        let (reads, blocked) = (follow(&mut stage), follow(&mut stage));
        settle_all(&mut stage);
        stage.relay.served(blocked, Outcome::Blocked, stage.now);
        let caller = stage.client("");
        let add = request("POST /api/add-token?type=http&sessionid=a");
        stage.relay.received(caller, add.as_bytes(), stage.now);
        let written = [(); 2].map(|()| stage.relay.next_write());
        assert_eq!(written, [Some(caller), Some(reads)]);
        assert!(!stage.relay.has_writes());
    }
}
