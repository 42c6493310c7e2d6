//! What the desk knows of the server's life goes on in another process: its moments are those of
//! this one, and so are its names for what runs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Counts, Desk, Events};
use crate::handover::{Line, Unfit, Writer};
use crate::moment::Moment;
use crate::relay::settings::Settings;
use crate::stamp::Calendar;

#[derive(Serialize, Deserialize)]
struct Told {
    run: u32,
    now: Moment,
    started_unix_seconds: u64,
    /// What it was by the calendar at the start, as far as is known now.
    started: Duration,
    ticket_next: u64,
}

impl Desk {
    /// Tells what it knows.
    pub fn hand_over(&self, writer: &mut Writer) {
        let told = Told {
            run: self.run,
            now: self.now,
            started_unix_seconds: self.settings.started_unix_seconds,
            started: self.calendar.start(),
            ticket_next: self.ticket_next,
        };
        writer.put("desk", 0, &told);
        writer.put("counts", 0, &(&self.counts, self.counts.cuts()));
        writer.put("events", 0, &self.events);
    }

    /// The same desk, with these settings.
    pub fn take_over(settings: Settings, line: Line<'_>) -> Result<Desk, Unfit> {
        let told: Told = line.read()?;
        let settings = Settings {
            started_unix_seconds: told.started_unix_seconds,
            ..settings
        };
        Ok(Desk {
            run: told.run,
            now: told.now,
            calendar: Calendar::new(told.started),
            ticket_next: told.ticket_next.min(u64::MAX / 2),
            ..Desk::new(settings)
        })
    }

    /// What has been counted; viewers are cut for reasons of these names.
    pub fn hear_counts(&mut self, line: Line<'_>, names: &[&'static str]) -> Result<(), Unfit> {
        let (counts, cuts): (Counts, BTreeMap<String, u64>) = line.read()?;
        self.counts = counts;
        self.counts.take_over_cuts(&cuts, names);
        Ok(())
    }

    /// What has happened.
    pub fn hear_events(&mut self, line: Line<'_>) -> Result<(), Unfit> {
        self.events = line.read::<Events>()?;
        Ok(())
    }
}
