//! Changes of the token table. Without a token file a change is made at once; with one it is made
//! when it is on disk, and then answered.
//!
//! So nobody is admitted on a token that a crash could take back, and a revoked one counts until
//! its revocation cannot be lost. What is asked for while a write is under way is written together
//! next, as long as no two changes are of one session: each is judged by the table that it will
//! change.

use std::collections::{HashSet, VecDeque};

use serde::Serialize;

use super::admission::framework_is_off;
use super::api::{Answer, RETRY_AFTER_SECONDS, json};
use super::connection::Phase;
use super::errand::Ticket;
use super::grants::Grants;
use super::report::Level;
use super::{Action, ConnectionId, Job, Relay};
use crate::gate::{self, Addition, Record, SessionId, journal};
use crate::http::{HeadReader, Refusal, Reply, Status, quoted};
use crate::moment::Moment;

/// A change that a call asks for.
#[derive(Debug)]
pub(super) struct Change {
    pub record: Record,
    /// A revocation ends the session's stream too.
    pub aborts: bool,
}

/// A change that can be made.
enum Decided {
    Addition(Addition),
    Revocation,
}

/// A change and who waits for it.
struct Asked {
    connection: ConnectionId,
    reply: Reply,
    change: Change,
}

/// Changes on their way to the disk.
#[derive(Default)]
pub(super) struct Ledger {
    queue: VecDeque<Asked>,
    /// What is being written, and the ticket of it.
    writing: Option<(Ticket, Vec<(Asked, Decided)>)>,
}

impl Ledger {
    /// Whether another change may wait.
    fn has_room(&self) -> bool {
        self.queue.len() < QUEUE_MAX && self.held_bytes() < QUEUE_BYTES_MAX
    }

    /// Bytes that it takes: what waits, and what is being written.
    pub fn held_bytes(&self) -> usize {
        let writing = self.writing.iter().flat_map(|(_, batch)| batch);
        let asked = self.queue.iter().chain(writing.map(|(asked, _)| asked));
        let records: usize = asked.map(|asked| asked.change.record.held_bytes()).sum();
        let batch = self
            .writing
            .as_ref()
            .map_or(0, |(_, batch)| batch.capacity());
        // What is decided holds as much again as what is asked.
        2 * records + (self.queue.capacity() + batch) * size_of::<(Asked, Decided)>()
    }
}

/// Changes that may wait for the disk, in number and in bytes.
const QUEUE_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 1024 * 1024;
/// A write takes no more changes when it has so many tuples.
const BATCH_TUPLES_MAX: usize = 4096;

#[derive(Serialize)]
struct Added<'a> {
    sessionid: &'a SessionId,
    tokens: Vec<&'a gate::Tuple>,
}

#[derive(Serialize)]
struct Revoked<'a> {
    sessionid: &'a SessionId,
    revoked: usize,
}

impl Grants {
    /// The next change, unless it has to wait: for a write, or for one of the same session that is
    /// to be written now.
    fn next_change(&mut self, batch: &HashSet<SessionId>, reserved: usize) -> Option<Asked> {
        let ledger = self.ledger.as_mut()?;
        let session = ledger.queue.front()?.change.record.session();
        let must_wait =
            ledger.writing.is_some() || reserved >= BATCH_TUPLES_MAX || batch.contains(session);
        if must_wait {
            return None;
        }
        ledger.queue.pop_front()
    }

    fn take_written(&mut self, ticket: Ticket) -> Option<Vec<(Asked, Decided)>> {
        let ledger = self.ledger.as_mut()?;
        let (_, batch) = ledger.writing.take_if(|(written, _)| *written == ticket)?;
        Some(batch)
    }
}

impl Relay {
    /// Makes a change now, or has it written first.
    pub(super) fn change(&mut self, change: Change) -> Result<Answer, Refusal> {
        self.grants.gate(&self.desk).change()?;
        if self.grants.ledger.is_some() {
            return Ok(Answer::Record(change));
        }
        let decided = self.decide(&change, 0)?;
        self.carry_out(&change, decided)
    }

    /// The table of a token file, at the start, when the RTP socket is known. From now on changes
    /// are written. Options may be stricter than they were: addresses that no client could be given
    /// now do not count, though the client stays listed, and its file as it is.
    pub fn restore(&mut self, mut tokens: gate::Tokens, now: Moment) {
        self.desk.now = now;
        let silenced = tokens.retain_addresses(|address, carriage| {
            self.grants.gate(&self.desk).may_receive(&address)
                && self.rtp_in.destination_fault(address, carriage).is_none()
        });
        self.grants.tokens = Some(tokens);
        self.grants.ledger = Some(Ledger::default());
        if silenced > 0 {
            self.desk.log(
                Level::Warn,
                format_args!(
                    "event=token-file-clients-silenced count={silenced} detail=\"UDP clients that --rtp-to or --rtp does not admit now\""
                ),
            );
        }
    }

    /// The bounds of the table.
    pub fn token_limits(&self) -> gate::Limits {
        self.desk.settings.limits.tokens
    }

    fn decide(&self, change: &Change, reserved: usize) -> Result<Decided, Refusal> {
        let Some(tokens) = &self.grants.tokens else {
            return Err(framework_is_off());
        };
        match &change.record {
            Record::Add { session, http, rtp } => {
                self.check_destinations(rtp)?;
                tokens
                    .plan(session, *http, rtp.clone(), reserved)
                    .map(Decided::Addition)
                    .map_err(|full| {
                        Refusal::busy(
                            Status::ServiceUnavailable,
                            full.to_string(),
                            RETRY_AFTER_SECONDS,
                        )
                    })
            }
            Record::Revoke { session } if tokens.of(session).next().is_none() => Err(Refusal::new(
                Status::NotFound,
                "sessionid: this session has no tokens",
            )),
            Record::Revoke { .. } => Ok(Decided::Revocation),
        }
    }

    fn carry_out(&mut self, change: &Change, decided: Decided) -> Result<Answer, Refusal> {
        let session = change.record.session();
        let Some(tokens) = &mut self.grants.tokens else {
            return Err(framework_is_off());
        };
        match decided {
            Decided::Addition(addition) => {
                let new = tokens.carry_out(addition);
                self.tuples_changed(session);
                let tokens = self.grants.tokens.iter();
                let body = Added {
                    sessionid: session,
                    tokens: tokens.flat_map(|tokens| tokens.of(session)).collect(),
                };
                let status = if new > 0 { Status::Created } else { Status::Ok };
                Ok(json(status, &body))
            }
            Decided::Revocation => {
                let removed = tokens.revoke(session);
                self.rtp_in.forget_candidates(&removed);
                self.tuples_changed(session);
                if change.aborts {
                    self.end_session(session);
                }
                let body = Revoked {
                    sessionid: session,
                    revoked: removed.len(),
                };
                Ok(json(Status::Ok, &body))
            }
        }
    }

    /// The change is written, and its client waits for that.
    pub(super) fn record(&mut self, connection: ConnectionId, change: Change, reply: Reply) {
        let asked = Asked {
            connection,
            reply,
            change,
        };
        match (
            &mut self.grants.ledger,
            self.clients.connections.get_mut(connection),
        ) {
            (Some(ledger), Some(client)) if ledger.has_room() => {
                client.phase = Phase::Recording;
                ledger.queue.push_back(asked);
                self.write_changes();
            }
            _ => {
                let refusal = Refusal::busy(
                    Status::ServiceUnavailable,
                    "too many changes wait for the disk",
                    RETRY_AFTER_SECONDS,
                );
                self.clients
                    .refuse(connection, &refusal, reply, &mut self.desk);
            }
        }
    }

    /// Has what waits written, unless a write is under way.
    fn write_changes(&mut self) {
        let mut batch: Vec<(Asked, Decided)> = Vec::new();
        let mut sessions = HashSet::new();
        let mut reserved = 0;
        while let Some(asked) = self.grants.next_change(&sessions, reserved) {
            match self.decide(&asked.change, reserved) {
                // Nothing changes, so nothing has to be written.
                Ok(Decided::Addition(addition)) if addition.is_empty() => {
                    let answer = self.carry_out(&asked.change, Decided::Addition(addition));
                    self.answer_change(&asked, answer);
                }
                Ok(decided) => {
                    if let Decided::Addition(addition) = &decided {
                        reserved += addition.tuples();
                    }
                    sessions.insert(asked.change.record.session().clone());
                    batch.push((asked, decided));
                }
                Err(refusal) => self.answer_change(&asked, Err(refusal)),
            }
        }
        let Some(ledger) = self.grants.ledger.as_mut().filter(|_| !batch.is_empty()) else {
            return;
        };
        let records = batch.iter().map(|(asked, _)| asked.change.record.clone());
        let line = journal::encode(&records.collect::<Vec<_>>());
        let ticket = self.desk.draw_ticket();
        ledger.writing = Some((ticket, batch));
        self.desk
            .actions
            .push_back(Action::Help(ticket, Job::Append(line)));
    }

    /// What was to be written is on disk, or cannot be.
    pub(super) fn appended(&mut self, ticket: Ticket, result: Result<(), String>) {
        let Some(batch) = self.grants.take_written(ticket) else {
            return;
        };
        match &result {
            Ok(()) => self.desk.counts.token_writes += 1,
            Err(error) => {
                self.desk.counts.token_writes_failed += 1;
                self.desk.log(
                    Level::Error,
                    format_args!(
                        "event=token-file-not-written detail=\"{}; no token is given or revoked\"",
                        quoted(error, 128)
                    ),
                );
            }
        }
        for (asked, decided) in batch {
            let answer = match &result {
                Ok(()) => self.carry_out(&asked.change, decided),
                Err(error) => Err(Refusal::new(
                    Status::InsufficientStorage,
                    format!("the token file cannot be written ({error}); nothing was changed"),
                )),
            };
            self.answer_change(&asked, answer);
        }
        self.write_changes();
    }

    pub(super) fn not_compacted(&mut self, error: &str) {
        self.desk.log(
            Level::Warn,
            format_args!(
                "event=token-file-not-compacted detail=\"{}; it goes on growing\"",
                quoted(error, 128)
            ),
        );
    }

    /// The disk has too much to do. Says whether that was a write.
    pub(super) fn not_appended(&mut self, ticket: Ticket) -> bool {
        let Some(batch) = self.grants.take_written(ticket) else {
            return false;
        };
        for (asked, _) in batch {
            let refusal = Refusal::busy(
                Status::ServiceUnavailable,
                "too much waits for the disk",
                RETRY_AFTER_SECONDS,
            );
            self.answer_change(&asked, Err(refusal));
        }
        self.write_changes();
        true
    }

    /// Its client may be gone; what it asked for has been done all the same.
    fn answer_change(&mut self, asked: &Asked, answer: Result<Answer, Refusal>) {
        if let Some(connection) = self.clients.connections.get_mut(asked.connection) {
            connection.phase = Phase::Head(HeadReader::default());
            self.give(asked.connection, answer, asked.reply);
        }
    }
}
