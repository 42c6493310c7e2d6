//! What the operator is told: one line an event, `key=value`, bounded in number.
//!
//! No byte of a client stands raw in a line, none begins one, and sessionids appear as digests
//! only.

use std::fmt;

use crate::moment::Moment;

/// How grave an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something may be wrong.
    Warn,
    /// Streams and tokens come and go.
    #[default]
    Info,
    /// More than an operator usually wants.
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// The bounds of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportLimits {
    /// Lines in one second; what is more is counted.
    pub lines_per_second_max: u32,
    /// Lines less grave than this are left out.
    pub level: Level,
}

/// What has been told.
pub(super) struct Report {
    limits: ReportLimits,
    second: u64,
    lines: u32,
    left_out: u64,
    last: String,
    repeated: u64,
}

impl Report {
    /// Nothing has been written yet.
    pub fn new(limits: ReportLimits) -> Report {
        Report {
            limits,
            second: 0,
            lines: 0,
            left_out: 0,
            last: String::new(),
            repeated: 0,
        }
    }

    /// The lines that an event makes: itself, unless it is a repetition or one too many, and before
    /// it what was left out.
    pub fn lines(&mut self, level: Level, now: Moment, event: fmt::Arguments<'_>) -> Vec<String> {
        if level > self.limits.level {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let second = now.since_start().as_secs();
        if second != self.second {
            self.second = second;
            self.lines = 0;
            if self.left_out > 0 {
                lines.push(format!(
                    "level=warn event=lines-left-out count={}",
                    std::mem::take(&mut self.left_out)
                ));
            }
        }
        let line = format!("level={} {event}", level.name());
        if line == self.last {
            self.repeated += 1;
            return lines;
        }
        if self.lines >= self.limits.lines_per_second_max {
            self.left_out += 1;
            return lines;
        }
        if self.repeated > 0 {
            lines.push(format!(
                "level=info event=line-repeated count={}",
                std::mem::take(&mut self.repeated)
            ));
        }
        self.lines += 1;
        self.last.clone_from(&line);
        lines.push(line);
        lines
    }
}
