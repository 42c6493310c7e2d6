//! The operator's log: one line for each event, as `key=value`, with a limit on the number of
//! lines.
//!
//! Lines never contain raw bytes of a client. Session ids appear as digests only.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::gate::network_of;
use crate::time::Instant;

/// How serious an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something fails.
    Error,
    /// Something may be wrong.
    Warn,
    /// Streams and tokens begin and end.
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
pub struct LogLimits {
    /// Lines of each level in a second. Further lines are counted only.
    pub lines_per_second_max: u32,
    /// Lines of less serious levels are left out.
    pub level: Level,
}

/// The log: its limits, and the lines of the current second.
#[derive(Default)]
pub(super) struct Log {
    limits: LogLimits,
    second: u64,
    /// Lines of each level in this second. Each has its own limit, so that streams and clients cannot
    /// push out errors.
    lines: [u32; Level::Debug as usize + 1],
    /// Lines of each network in this second: at most as many entries as lines.
    by_network: BTreeMap<(Level, IpAddr), u32>,
    left_out: u64,
    last: String,
    repeated: u64,
}

impl Log {
    /// Makes the state of an empty log.
    pub fn new(limits: LogLimits) -> Log {
        Log {
            limits,
            ..Log::default()
        }
    }

    /// Returns the lines for an event. `by`: the host that caused it. `None`: the server itself, or
    /// the operator. The event's own line is missing if it repeats the last one or exceeds a limit.
    /// Lines before it count lines that were left out.
    ///
    /// A host may cause half of the lines of a level, and all hosts together three quarters.
    pub fn lines(
        &mut self,
        level: Level,
        now: Instant,
        by: Option<IpAddr>,
        event: fmt::Arguments<'_>,
    ) -> Vec<String> {
        if level > self.limits.level {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let second = now.since_start().as_secs();
        if second != self.second {
            self.second = second;
            self.lines = Default::default();
            self.by_network.clear();
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
        let most = self.limits.lines_per_second_max;
        let of_level = &mut self.lines[level as usize];
        let is_full = match by {
            None => *of_level >= most,
            Some(_) if *of_level >= most - most / 4 => true,
            Some(host) => {
                let its = self.by_network.entry((level, network_of(host)));
                let its = its.and_modify(|its| *its += 1).or_insert(1);
                *its > most.div_ceil(2)
            }
        };
        if is_full {
            self.left_out += 1;
            return lines;
        }
        *of_level += 1;
        if self.repeated > 0 {
            lines.push(format!(
                "level=info event=line-repeated count={}",
                std::mem::take(&mut self.repeated)
            ));
        }
        self.last.clone_from(&line);
        lines.push(line);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LIMITS: LogLimits = LogLimits {
        lines_per_second_max: 10,
        level: Level::Info,
    };

    /// Sources and viewers can cause any number of lines.
    #[test]
    fn what_is_wrong_is_told_whatever_else_happens() {
        let mut log = Log::new(LIMITS);
        let now = Instant::START;
        let mut lines = 0;
        for number in 0..1000 {
            let line = format_args!("event=stream-begins source={number}");
            lines += log.lines(Level::Info, now, None, line).len();
            let line = format_args!("event=no-join-point number={number}");
            lines += log.lines(Level::Warn, now, None, line).len();
        }
        assert_eq!(lines, 20);
        let failed = format_args!("event=token-file-not-written");
        let told = log.lines(Level::Error, now, None, failed);
        assert_eq!(told, ["level=error event=token-file-not-written"]);
        // Lines that were left out are counted.
        let later = now + Duration::from_secs(1);
        let told = log.lines(Level::Info, later, None, format_args!("event=ending"));
        let count = "level=warn event=lines-left-out count=1980";
        assert_eq!(told, [count, "level=info event=ending"]);
    }

    /// No host takes the lines of the others, and all hosts leave some to the server itself.
    #[test]
    fn a_host_has_half_of_the_lines_and_all_hosts_three_quarters() {
        for (most, of_host, of_hosts) in [(100, 50, 75), (10, 5, 8), (2, 1, 2), (1, 1, 1)] {
            let mut log = Log::new(LogLimits {
                lines_per_second_max: most,
                ..LIMITS
            });
            let mut told = |by: Option<[u8; 4]>, second, level| {
                let now = Instant::after_start(Duration::from_secs(second));
                let by = by.map(IpAddr::from);
                (0..2 * most)
                    .filter(|number| {
                        let line = format!("event=a by={by:?} number={number}");
                        let lines = log.lines(level, now, by, format_args!("{line}"));
                        lines.iter().any(|told| told.ends_with(&line))
                    })
                    .count()
            };
            for second in 1..3 {
                for level in [Level::Warn, Level::Info] {
                    let first = told(Some([10, 0, 0, 1]), second, level);
                    let second_host = told(Some([10, 0, 0, 2]), second, level);
                    let third = told(Some([10, 0, 0, 3]), second, level);
                    let own = told(None, second, level);
                    assert_eq!(
                        (first, second_host, third, own),
                        (of_host, of_hosts - of_host, 0, most as usize - of_hosts),
                        "{most}"
                    );
                }
            }
        }
    }

    /// Each level has its own limit. Less serious levels than asked for are left out.
    #[test]
    fn a_level_has_so_many_lines_in_a_second() {
        let levels = [Level::Error, Level::Warn, Level::Info, Level::Debug];
        for (number, most) in levels.into_iter().enumerate() {
            let mut log = Log::new(LogLimits {
                level: most,
                ..LIMITS
            });
            for (second, level) in (0..3).flat_map(|second| levels.map(|level| (second, level))) {
                let now = Instant::after_start(Duration::from_secs(second));
                let mut told = 0;
                for line in 0..12 {
                    let event = format_args!("event=a line={line}");
                    let lines = log.lines(level, now, None, event);
                    let name = format!("level={} event=a ", level.name());
                    told += lines.iter().filter(|line| line.starts_with(&name)).count();
                }
                let is_told = levels[..=number].contains(&level);
                assert_eq!(told, if is_told { 10 } else { 0 }, "{most:?} {level:?}");
            }
        }
    }

    #[test]
    fn a_line_that_is_repeated_is_counted_and_told_with_the_next() {
        let mut log = Log::new(LIMITS);
        let mut told = |second, event: &str| {
            let now = Instant::after_start(Duration::from_secs(second));
            log.lines(Level::Info, now, None, format_args!("event={event}"))
        };
        let none: [&str; 0] = [];
        assert_eq!(told(0, "a"), ["level=info event=a"]);
        assert_eq!(told(0, "a"), none);
        assert_eq!(told(1, "a"), none);
        let count = "level=info event=line-repeated count=2";
        assert_eq!(told(1, "b"), [count, "level=info event=b"]);
        assert_eq!(told(1, "a"), ["level=info event=a"]);
        assert_eq!(told(1, "c"), ["level=info event=c"]);
    }
}
