//! Pacing of MPEG-TS: which bytes are due, by the stream's clock references (PCR; ISO/IEC 13818-1
//! section 2.4.2).
//!
//! This reads clock references as bytes arrive, and returns the offset up to which bytes may be
//! sent. A body that arrives faster than real time is sent at the pace of its clock. A live one is
//! spread over about one interval between references, so that a key frame makes no burst. Without a
//! clock, bytes are due at once.
//!
//! `sent <= due <= arrived`. Marks ascend in offset and time. At most [`MARKS_MAX`] marks are kept,
//! 96 KiB.

use std::collections::VecDeque;
use std::time::Duration;

use crate::format::mpegts::Aligner;
#[cfg(feature = "handover")]
use crate::handover::SPAN_MAX;
use crate::time::Instant;

/// Ticks of the clock per second.
const TICKS_PER_SECOND: u64 = 27_000_000;
/// The clock wraps here.
const TICKS_WRAP: u64 = (1 << 33) * 300;
/// A larger interval, or one backwards, is a jump: the clock restarts.
const JUMP_TICKS: u64 = TICKS_PER_SECOND;
/// A PID has a reference every 100 ms (section 2.7.2). If another PID has had references for this
/// time, and ours none, the clock has moved there.
const MOVED_TICKS: u64 = TICKS_PER_SECOND / 2;
/// Bytes after the last reference are spread over at most this time.
const SPREAD_MAX: Duration = Duration::from_millis(100);
/// The source's clock differs from ours by some parts in a million. This is the time over which the
/// difference is measured, by the latest reference in it. Earlier ones were faster on the network.
const WINDOW: Duration = Duration::from_secs(10);
/// The stream's clock is sped up or slowed down so that the difference would vanish in this time. A
/// source that is fast by 100 parts in a million stays 50 ms ahead.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(500);
/// Largest correction, in parts per million. The clocks of two machines differ by less, and
/// receivers notice only larger ones.
const HASTE_MAX: i64 = 200;
/// Bytes of this time are sent together. A key frame takes longer, so it makes no burst.
const GROUP: Duration = Duration::from_millis(10);
/// A source that is late by less catches up. If it is later, its clock restarts.
const LATE_MAX: Duration = Duration::from_millis(200);
/// A clock without references for this time, or for `SILENCE_BYTES_MAX`, is gone.
const SILENCE_MAX: Duration = Duration::from_secs(1);
const SILENCE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Largest number of references that are kept. Beyond it, every second one is dropped.
const MARKS_MAX: usize = 4096;

/// Computes when the bytes of a stream are due.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Pacing {
    aligner: Aligner,
    /// The PID of the clock: the first one with a reference, until it falls silent or another one
    /// replaces it.
    clock_pid: Option<u16>,
    /// Another PID with references since our last one, and the ticks of its first one.
    other_clock: Option<(u16, u64)>,
    newest_ticks: u64,
    /// Whether a jump was announced for our next reference.
    jumps_next: bool,
    /// Time of the newest reference on the stream's time line, which continues over wraps and
    /// jumps.
    newest_time: Duration,
    marks: VecDeque<Mark>,
    /// Time and bytes between the newest two references.
    interval: (Duration, u64),
    /// The newest mark that is in the past.
    passed: Option<Mark>,
    /// Position of the time line in the server's time.
    zero: Option<Zero>,
    drift: Drift,
    arrived: u64,
    due: u64,
    heard_at: Instant,
    has_ended: bool,
}

/// A clock reference: the byte at `offset` is due at `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Mark {
    offset: u64,
    time: Duration,
}

/// A point at which `time` on the time line is `moment` in the server's time.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Zero {
    time: Duration,
    moment: Instant,
}

/// The difference between the source's clock and ours.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Drift {
    /// When the measurement began, with its first reference.
    since: Option<Instant>,
    /// How early its latest reference was, in microseconds; negative if it was late.
    ahead: i64,
    /// Parts in a million by which the stream's clock is sped up.
    haste: i64,
}

impl Drift {
    /// Handles a reference that is `ahead` microseconds early.
    fn note(&mut self, ahead: i64, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if since == now {
            self.ahead = ahead;
        }
        self.ahead = self.ahead.min(ahead);
        if now.since(since) >= WINDOW {
            let haste = self.ahead / FOLLOWED_WITHIN.as_secs() as i64;
            self.haste = haste.clamp(-HASTE_MAX, HASTE_MAX);
            self.since = None;
        }
    }
}

impl Zero {
    /// Returns the microseconds until `time`; negative if it is over.
    fn until(&self, time: Duration, now: Instant) -> i64 {
        let at = self.moment_of(time);
        let (later, earlier) = (at.since(now).as_micros(), now.since(at).as_micros());
        i64::try_from(later).unwrap_or(i64::MAX) - i64::try_from(earlier).unwrap_or(i64::MAX)
    }

    /// Moves the time line for an interval, by `haste` parts in a million.
    fn hasten(&mut self, interval: Duration, haste: i64) {
        let shift = interval * haste.unsigned_abs() as u32 / 1_000_000;
        if haste > 0 {
            self.time += shift;
        } else {
            self.moment = self.moment + shift;
        }
    }

    fn moment_of(&self, time: Duration) -> Instant {
        match time.checked_sub(self.time) {
            Some(later) => self.moment + later,
            None => self.moment,
        }
    }
}

impl Pacing {
    /// Returns the pacing of bytes from `offset` on.
    pub fn new(offset: u64) -> Pacing {
        Pacing {
            arrived: offset,
            due: offset,
            ..Pacing::default()
        }
    }

    /// Adds the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) {
        let start = self.arrived;
        self.arrived += bytes.len() as u64;
        let mut aligner = std::mem::take(&mut self.aligner);
        aligner.feed(bytes, |at, packet| {
            let (pid, is_discontinuous) = (packet.pid(), packet.is_discontinuous());
            if let Some(ticks) = packet.clock_reference() {
                let offset = start.saturating_add_signed(at);
                self.take_clock(pid, ticks, is_discontinuous, offset, now);
            } else if is_discontinuous && self.clock_pid == Some(pid) {
                self.jumps_next = true;
            }
        });
        self.aligner = aligner;
        self.forget_silent_clock(now);
    }

    /// Returns the work since the last call, beyond 1 for each byte.
    pub fn take_work(&mut self) -> usize {
        self.aligner.take_work()
    }

    /// Ends the stream. The rest stays due by its clock.
    pub fn finish(&mut self) {
        self.has_ended = true;
        let Some(last) = self.marks.back().copied() else {
            return;
        };
        // Behind the last reference, the rate between the last two continues.
        let bytes = u128::from(self.arrived.saturating_sub(last.offset));
        let (interval, interval_bytes) = self.interval;
        let nanoseconds = (interval.as_nanos().saturating_mul(bytes))
            .checked_div(u128::from(interval_bytes))
            .unwrap_or(0);
        let rest = Duration::from_nanos(nanoseconds as u64).min(SILENCE_MAX);
        self.marks.push_back(Mark {
            offset: self.arrived,
            time: last.time + rest,
        });
    }

    /// Takes a clock reference of the stream.
    fn take_clock(
        &mut self,
        pid: u16,
        ticks: u64,
        is_discontinuous: bool,
        offset: u64,
        now: Instant,
    ) {
        let is_ours = *self.clock_pid.get_or_insert(pid) == pid;
        if !is_ours && !self.measure_other_clock(pid, ticks) {
            return;
        }
        self.clock_pid = Some(pid);
        self.other_clock = None;
        let has_jumped = std::mem::take(&mut self.jumps_next);
        let is_discontinuous = is_discontinuous || has_jumped || !is_ours;
        let passed = (ticks + TICKS_WRAP - self.newest_ticks % TICKS_WRAP) % TICKS_WRAP;
        let is_first = self.marks.is_empty() && self.passed.is_none();
        // The real time of a jump is unknown, so it takes none.
        let goes_on = !is_first && !is_discontinuous && passed <= JUMP_TICKS;
        if goes_on {
            let interval = Duration::from_nanos(passed * 1000 / (TICKS_PER_SECOND / 1_000_000));
            self.newest_time += interval;
            if let Some(zero) = &mut self.zero {
                self.drift.note(zero.until(self.newest_time, now), now);
                zero.hasten(interval, self.drift.haste);
            }
            let before = self.marks.back().or(self.passed.as_ref());
            self.interval = (
                interval,
                offset.saturating_sub(before.map_or(offset, |mark| mark.offset)),
            );
        }
        self.newest_ticks = ticks;
        self.heard_at = now;
        if self.marks.len() >= MARKS_MAX {
            let mut keep = false;
            self.marks.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.marks.push_back(Mark {
            offset,
            time: self.newest_time,
        });
        let time = self.newest_time;
        let is_late = |zero: &Zero| zero.moment_of(time) + LATE_MAX < now;
        // A source that is late by its own clock restarts it, instead of sending a burst.
        if self.zero.as_ref().is_none_or(is_late) && self.marks.len() == 1 {
            self.zero = Some(Zero { time, moment: now });
        }
    }

    /// Begins or continues to measure the clock of another PID. Returns whether it has replaced ours.
    fn measure_other_clock(&mut self, pid: u16, ticks: u64) -> bool {
        match self.other_clock {
            Some((other, first)) if other == pid => {
                (ticks + TICKS_WRAP - first % TICKS_WRAP) % TICKS_WRAP >= MOVED_TICKS
            }
            // A third PID does not reset the measurement.
            Some(_) => false,
            None => {
                self.other_clock = Some((pid, ticks));
                false
            }
        }
    }

    fn forget_silent_clock(&mut self, now: Instant) {
        let last = self.marks.back().or(self.passed.as_ref());
        let last = last.map_or(0, |mark| mark.offset);
        let is_silent = now.since(self.heard_at) > SILENCE_MAX
            || self.arrived.saturating_sub(last) > SILENCE_BYTES_MAX;
        if self.clock_pid.is_some() && is_silent && self.marks.is_empty() {
            self.clock_pid = None;
            self.passed = None;
            self.zero = None;
        }
    }

    /// Returns the offset up to which bytes are due. It never decreases.
    pub fn due(&mut self, now: Instant) -> u64 {
        let due = self.due_by_clock(now);
        self.due = self.due.max(due).min(self.arrived);
        self.due
    }

    fn due_by_clock(&mut self, now: Instant) -> u64 {
        let Some(zero) = self.zero else {
            return self.arrived;
        };
        let time = zero.time + now.since(zero.moment);
        while let Some(mark) = self.marks.front().copied()
            && mark.time <= time
        {
            self.marks.pop_front();
            self.passed = Some(mark);
        }
        match (self.passed, self.marks.front()) {
            (Some(passed), Some(next)) => between(passed, *next, time),
            // In front of the first reference, all bytes up to it are due.
            (None, Some(next)) => next.offset,
            (Some(last), None) => self.behind_last(last, now),
            (None, None) => self.arrived,
        }
    }

    /// Until the next reference is known, bytes are spread over the previous interval, from the
    /// time of the last reference on. That is later than they would be due, but never by long.
    fn behind_last(&self, last: Mark, now: Instant) -> u64 {
        let spread = self.interval.0.min(SPREAD_MAX);
        let next = Mark {
            offset: self.arrived,
            time: last.time + spread,
        };
        between(last, next, last.time + now.since(self.heard_at))
    }

    /// Returns when more bytes will be due if none arrive; `None` if all are due.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let zero = self.zero?;
        let Some(next) = self.marks.front() else {
            return (self.due < self.arrived).then(|| now + GROUP);
        };
        let at = zero.moment_of(next.time);
        Some(match self.passed {
            Some(_) => at.min(now + GROUP),
            None => at,
        })
    }

    /// Returns for how long due bytes may be collected, to send them together; `None`: they go out
    /// at once.
    pub fn group_time(&self) -> Option<Duration> {
        self.zero.is_some().then_some(GROUP)
    }

    /// Returns whether the stream has ended and all of it is due.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.marks.is_empty()
    }

    /// Returns whether a state from another process is valid for a stream that ends at `newest`.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, newest: u64) -> bool {
        let marks = self.passed.iter().chain(&self.marks);
        let zero = self.zero.iter().map(|zero| zero.time);
        let times = marks.map(|mark| mark.time).chain(zero);
        self.aligner.is_valid()
            && self.marks.len() <= MARKS_MAX + 1
            && times.chain([self.newest_time]).all(|time| time <= SPAN_MAX)
            && self.arrived <= newest
    }
}

/// Between two references, bytes are due evenly.
fn between(passed: Mark, next: Mark, time: Duration) -> u64 {
    let interval = next.time.saturating_sub(passed.time).as_nanos();
    let elapsed = time.saturating_sub(passed.time).as_nanos().min(interval);
    let bytes = u128::from(next.offset.saturating_sub(passed.offset));
    match bytes.saturating_mul(elapsed).checked_div(interval) {
        Some(share) => passed.offset + share as u64,
        None => next.offset,
    }
}

#[cfg(test)]
mod tests;
