//! The desk: what every part of the server may use, and none owns. It knows no part.
//!
//! The operator's settings and the present moment lie here, the deadlines, chance, what the shell
//! is to do, the log and the counts.

use std::collections::VecDeque;
use std::fmt;

use super::errand::Ticket;
use super::metrics::{Counts, Files};
use super::report::Report;
use super::settings::Settings;
use super::timers::Timers;
use super::{Action, Level};
use crate::http::{HttpDate, Reply, Version};
use crate::moment::Moment;
use crate::random::Random;

pub(super) struct Desk {
    pub settings: Settings,
    /// When the input arrived that is being dealt with.
    pub now: Moment,
    pub timers: Timers,
    pub random: Random,
    /// What the shell is to do.
    pub actions: VecDeque<Action>,
    pub counts: Counts,
    pub files: Files,
    /// The server has been told to end.
    pub is_closing: bool,
    report: Report,
    ticket_next: u64,
}

impl Desk {
    pub fn new(settings: Settings) -> Desk {
        Desk {
            now: Moment::START,
            timers: Timers::default(),
            random: Random::new(settings.random_key),
            actions: VecDeque::new(),
            counts: Counts::default(),
            files: Files::default(),
            is_closing: false,
            report: Report::new(settings.limits.report),
            ticket_next: 1,
            settings,
        }
    }

    /// Bytes that its allocations take. (Lines of the log are the shell's at the end of a turn.)
    pub fn held_bytes(&self) -> usize {
        self.timers.held_bytes() + self.actions.capacity() * size_of::<Action>()
    }

    /// A ticket that nobody has had.
    pub fn draw_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.ticket_next);
        self.ticket_next += 1;
        ticket
    }

    /// Tells the operator of an event.
    pub fn log(&mut self, level: Level, event: fmt::Arguments<'_>) {
        for line in self.report.lines(level, self.now, event) {
            self.actions.push_back(Action::Log(line));
        }
    }

    /// How a request is answered that could not be read, or has not come: it is the last one.
    pub fn unread_reply(&self) -> Reply {
        Reply {
            version: Version::Http11,
            keep_alive: false,
            head_only: false,
            date: self.date(),
            fields: &[],
        }
    }

    /// The date of an answer.
    pub fn date(&self) -> HttpDate {
        HttpDate {
            unix_seconds: self.settings.started_unix_seconds + self.now.since_start().as_secs(),
        }
    }
}
