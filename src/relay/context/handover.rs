//! The hand-over of the context: the new process continues its clock, its names and its counters.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

use super::{Context, Counts};
use crate::handover::{HandoverError, Line, Writer, must};
use crate::relay::cut_reason::Cuts;
use crate::relay::old_options::OldOptions;
use crate::time::Calendar;
use crate::time::Instant;

#[derive(Serialize, Deserialize)]
struct Told {
    run: u32,
    now: Instant,
    started_unix_seconds: u64,
    /// What it was by the calendar at the start, as far as is known now.
    started: Duration,
    ticket_next: u64,
    /// How many numbers were drawn. Where two processes have the same key, as in a simulation, the
    /// one goes on where the other has ended; the key itself is not told.
    drawn: u64,
    options: OldOptions,
    /// Rows of the sources that were refused lately.
    #[serde(default)]
    refused: VecDeque<String>,
}

impl Context {
    /// Tells what it knows.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        let told = Told {
            run: self.run,
            now: self.now,
            started_unix_seconds: self.settings.started_unix_seconds,
            started: self.calendar.start(),
            ticket_next: self.ticket_next,
            drawn: self.random.drawn(),
            options: OldOptions::of(&self.settings),
            refused: self.refused.clone(),
        };
        writer.put("context", 0, &told);
        writer.put("counts", 0, &(&self.counts, &self.counts.cuts));
        writer.put("events", 0, &self.events);
    }

    /// Takes over the state of the predecessor, with this server's settings. Returns the
    /// predecessor's options.
    pub fn hear(&mut self, line: Line<'_>) -> Result<OldOptions, HandoverError> {
        let told: Told = line.read()?;
        self.settings.started_unix_seconds = told.started_unix_seconds;
        (self.run, self.now) = (told.run, told.now);
        self.calendar = Calendar::new(told.started);
        self.ticket_next = told.ticket_next.min(u64::MAX / 2);
        self.random.go_on_behind(told.drawn);
        self.refused = told.refused;
        Ok(told.options)
    }

    /// Receives the counters.
    pub fn hear_counts(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let (counts, cuts): (Counts, Cuts) = line.read()?;
        must(cuts.fit(), || {
            "more viewers were cut than can be".to_owned()
        })?;
        self.counts.go_on_from(counts);
        self.counts.cuts = cuts;
        Ok(())
    }
}
