//! The hand-over of the context: the new process continues its clock, its names and its counters.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{Context, Counts};
use crate::handover::{HandoverError, Line, Writer};
use crate::relay::cut_reason::Cuts;
use crate::relay::event_limits::Subject;
use crate::relay::old_options::OldOptions;
use crate::time::{Calendar, Instant, UnixTime};

#[derive(Serialize, Deserialize)]
struct ContextState {
    run: u32,
    now: Instant,
    started_unix_seconds: u64,
    /// Time by the calendar at the start. Later corrections of the clock are in it.
    started: Duration,
    job_next: u64,
    /// Count of random numbers. Processes with the same key, as in a simulation, continue one sequence.
    /// The key itself is not sent.
    drawn: u64,
    options: OldOptions,
    /// Rows of the sources that were refused lately.
    refused: VecDeque<String>,
    /// What readers of events have not heard of, and will not.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unreported: BTreeSet<Subject>,
}

impl Context {
    /// Sends the state to the successor.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        let state = ContextState {
            run: self.run,
            now: self.now,
            started_unix_seconds: self.settings.started_unix_seconds,
            started: self.calendar.start,
            job_next: self.job_next,
            drawn: self.random.drawn,
            options: OldOptions::of(&self.settings),
            refused: self.refused().map(str::to_owned).collect(),
            unreported: self.event_limits.unreported.clone(),
        };
        writer.put("context", 0, &state);
        writer.put("counts", 0, &(&self.counts, &self.counts.cuts));
        writer.put("events", 0, &self.events);
    }

    /// Takes over the state of the predecessor, with this server's settings. Returns the
    /// predecessor's options.
    pub fn receive(&mut self, line: Line<'_>) -> Result<OldOptions, HandoverError> {
        let state: ContextState = line.read()?;
        let started = state.started_unix_seconds.min(UnixTime::MAX.unix_seconds);
        self.settings.started_unix_seconds = started;
        (self.run, self.now) = (state.run, state.now);
        self.calendar = Calendar::new(state.started);
        self.job_next = state.job_next;
        self.random.drawn = state.drawn;
        self.refused = state.refused.into_iter().map(|row| (None, row)).collect();
        self.event_limits.unreported = state.unreported;
        Ok(state.options)
    }

    /// Receives the counters.
    pub fn receive_counts(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let (counts, cuts): (Counts, Cuts) = line.read()?;
        self.counts.go_on_from(counts);
        self.counts.cuts = cuts;
        Ok(())
    }
}
