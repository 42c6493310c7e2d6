//! Changes of the token table on their way to the disk. With a token file a change is made when it
//! is on disk, and answered after that.
//!
//! So no client is admitted by a token that a crash could take back, and a revoked token counts
//! until its revocation cannot be lost. Changes that come during a write are written together in
//! the next one. Each is judged by the table as it will be then: the changes before it are tried on
//! the table and taken back. An answer that depends on them waits, too.

use std::collections::VecDeque;

use super::{Change, Grants, JsonAnswer, ReplyTo};
use crate::gate::{Addition, Entry, Record};
use crate::http::{Refusal, Status, quoted};
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::{Action, Job, JobId, Level};
use crate::time::UnixTime;

/// A change, and the call that waits for it.
struct QueuedChange {
    caller: ReplyTo,
    change: Change,
}

/// A change with its records, or its refusal.
type Judged = (QueuedChange, Result<Addition, Refusal>);

/// Changes on their way to the disk.
#[derive(Default)]
pub(super) struct PendingChanges {
    queue: VecDeque<QueuedChange>,
    /// The current write: its job, and its changes.
    writing: Option<(JobId, Vec<Judged>)>,
    /// The time has to be written, even without a change.
    owes_time: bool,
}

/// Maximal number of changes that wait for the disk.
const QUEUE_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 1024 * 1024;
/// A write takes no more changes when it has this number of tokens.
const BATCH_TUPLES_MAX: usize = 4096;

/// Answers the client, which may have left. Its change is made in any case.
fn answer((id, reply): ReplyTo, answer: Result<JsonAnswer, Refusal>, ctx: &mut Context) {
    ctx.notify(Event::Answer { id, reply, answer });
}

impl PendingChanges {
    /// Returns the bytes that its allocations take: waiting changes, and the current write.
    pub fn memory_bytes(&self) -> usize {
        let writing = self.writing.as_ref();
        let batch = writing.into_iter().flat_map(|(_, batch)| batch);
        let judged = batch.map(|(asked, judged)| {
            let addition = judged.as_ref().ok();
            let records = addition.map_or(&[][..], |addition| &addition.records);
            let bytes = records.iter().map(Record::memory_bytes).sum::<usize>();
            asked.change.memory_bytes() + bytes + size_of_val(records)
        });
        // What will be decided takes as much again.
        let queue = self
            .queue
            .iter()
            .map(|asked| 2 * asked.change.memory_bytes());
        queue.chain(judged).sum::<usize>()
            + self.queue.capacity() * size_of::<QueuedChange>()
            + writing.map_or(0, |(_, batch)| batch.capacity() * size_of::<Judged>())
    }
}

impl Grants {
    /// Returns whether no change is on its way to the disk.
    #[cfg(feature = "handover")]
    pub fn is_quiet(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_none_or(|pending| pending.queue.is_empty() && pending.writing.is_none())
    }

    /// Returns whether the current time has yet to be written to the token file, and no write is in
    /// progress.
    pub(super) fn owes_time(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.owes_time && pending.writing.is_none())
    }

    /// Queues a change to be written. Its call waits for that.
    pub(super) fn record(
        &mut self,
        caller: ReplyTo,
        change: Change,
        ctx: &mut Context,
    ) -> Result<(), Refusal> {
        match &mut self.pending {
            Some(pending)
                if pending.queue.len() < QUEUE_MAX && pending.memory_bytes() < QUEUE_BYTES_MAX =>
            {
                pending.queue.push_back(QueuedChange { caller, change });
                self.write_changes(ctx);
                Ok(())
            }
            Some(_) | None => Err(Refusal::busy(
                "too many changes wait for the disk; try again later",
            )),
        }
    }

    /// Writes the time to the disk, if a token has one.
    pub(super) fn write_time(&mut self, ctx: &mut Context) {
        let has_times = self.has_times();
        if let Some(pending) = &mut self.pending {
            pending.owes_time = has_times;
            self.write_changes(ctx);
        }
    }

    /// Begins a write of the waiting changes, unless one is under way.
    fn write_changes(&mut self, ctx: &mut Context) {
        let mut batch: Vec<Judged> = Vec::new();
        let mut tuples = 0;
        let mut at_once = Vec::new();
        self.begin_trial();
        while tuples < BATCH_TUPLES_MAX
            && let Some(pending) = &mut self.pending
            && pending.writing.is_none()
            && let Some(asked) = pending.queue.pop_front()
        {
            let judged = self.decide(&asked.change, ctx);
            let records = judged.as_ref().map(|addition| &addition.records[..]);
            let records = records.unwrap_or_default();
            if records.is_empty() && batch.is_empty() {
                at_once.push((asked, judged));
                continue;
            }
            tuples += records.iter().map(Record::tuples).sum::<usize>();
            batch.push((asked, judged));
        }
        self.end_trial();
        // These change nothing, and do not depend on changes that are not on disk.
        for (asked, judged) in at_once {
            let done = judged.and_then(|addition| self.carry_out(asked.change, addition, ctx));
            answer(asked.caller, done, ctx);
        }
        let time = ctx.date();
        let has_times = self.has_times();
        if let Some(pending) = &mut self.pending
            && pending.writing.is_none()
            && (!batch.is_empty() || (pending.owes_time && has_times))
        {
            let additions = batch.iter().filter_map(|(_, judged)| judged.as_ref().ok());
            let records = additions.flat_map(|addition| &addition.records);
            let entry = Entry {
                records: records.cloned().collect(),
                time: has_times.then_some(time),
            };
            pending.owes_time = false;
            let job_id = ctx.draw_job();
            pending.writing = Some((job_id, batch));
            ctx.act(Action::Run(job_id, Job::Append(entry)));
        }
    }

    /// Handles the result of a write.
    pub fn appended(&mut self, job_id: JobId, result: &Result<(), String>, ctx: &mut Context) {
        let Some(batch) = self.take_written(job_id) else {
            return;
        };
        match result {
            Ok(()) => ctx.count(Count::TokenWrites, 1),
            Err(error) => {
                ctx.count(Count::TokenWritesFailed, 1);
                let detail = quoted(error, 128);
                let line = format_args!(
                    "event=token-file-not-written detail=\"{detail}; add-token and revoke-token answer 507 until it can be written\""
                );
                ctx.log(Level::Error, None, line);
            }
        }
        for (asked, judged) in batch {
            let done = match result {
                Ok(()) => judged.and_then(|addition| self.carry_out(asked.change, addition, ctx)),
                Err(error) => Err(Refusal::new(
                    Status::InsufficientStorage,
                    format!("the token file cannot be written ({error}); nothing was changed"),
                )),
            };
            answer(asked.caller, done, ctx);
        }
        self.write_changes(ctx);
        if result.is_err() {
            self.owe_time(ctx);
        }
    }

    /// Returns whether a token expires or has expired. Otherwise there is no time to write.
    fn has_times(&self) -> bool {
        let tokens = self.tokens.as_ref();
        tokens.is_some_and(|tokens| tokens.next_expiry(UnixTime::default()).is_some())
    }

    /// Notes that the time may not be on disk. It goes with the next write, or after a while.
    pub fn owe_time(&mut self, ctx: &mut Context) {
        let has_times = self.has_times();
        if let Some(pending) = &mut self.pending {
            pending.owes_time = has_times;
        }
        self.rearm(ctx);
    }

    /// Logs that the token file could not be shortened.
    pub fn not_compacted(&self, error: &str, ctx: &mut Context) {
        let detail = quoted(error, 128);
        let line = format_args!(
            "event=token-file-not-compacted detail=\"{detail}; the file keeps growing\""
        );
        ctx.log(Level::Warn, None, line);
    }

    /// Handles the refusal of a job. Returns whether it was a write.
    pub fn not_appended(&mut self, job_id: JobId, ctx: &mut Context) -> bool {
        let batch = self.take_written(job_id);
        let is_write = batch.is_some();
        for (asked, _) in batch.into_iter().flatten() {
            let refusal = Refusal::busy("too many bytes wait for the disk; try again later");
            answer(asked.caller, Err(refusal), ctx);
        }
        if is_write {
            self.write_changes(ctx);
            self.owe_time(ctx);
        }
        is_write
    }

    /// Takes the changes of the current write, if this is its job.
    fn take_written(&mut self, job_id: JobId) -> Option<Vec<Judged>> {
        let writing = self.pending.as_mut().map(|pending| &mut pending.writing);
        let written = writing.and_then(|writing| writing.take_if(|(its, _)| *its == job_id));
        written.map(|(_, batch)| batch)
    }
}
