//! The pace of an MPEG-TS stream: which of its bytes are due, by its own clock (PCR; ISO/IEC
//! 13818-1 section 2.4.2).
//!
//! The bytes stay where they are; this only reads the clock references out of them as they arrive,
//! and answers up to which offset they may be sent. A body that comes faster than real time is let
//! out at the pace of its clock; one that comes in real time is spread over about one interval
//! between references, so that a key frame is no burst; without a clock, bytes are due when they
//! arrive.
//!
//! `sent <= due <= arrived`, and the marks ascend in offset and in time. There are at most
//! [`MARKS_MAX`] of them, which is 96 KiB.

use std::collections::VecDeque;
use std::time::Duration;

use crate::format::mpegts::Aligner;
#[cfg(feature = "handover")]
use crate::handover::{are_counts, are_spans};
use crate::time::Instant;

/// The clock's ticks in a second.
const TICKS_PER_SECOND: u64 = 27_000_000;
/// Where it wraps.
const TICKS_WRAP: u64 = (1 << 33) * 300;
/// References that lie further apart, or go back, are a jump: the clock starts anew there.
const JUMP_TICKS: u64 = TICKS_PER_SECOND;
/// PIDs have a reference every 100 ms (section 2.7.2). When another has had them for so long and
/// ours none, the clock has moved.
const MOVED_TICKS: u64 = TICKS_PER_SECOND / 2;
/// Bytes behind the last reference are spread over no more than this.
const SPREAD_MAX: Duration = Duration::from_millis(100);
/// A source's clock is not ours, but some parts in a million faster or slower. How far it is ahead
/// of us is measured over so long, by its latest reference in that time, since those that come
/// earlier only had a quicker way;
const WINDOW: Duration = Duration::from_secs(10);
/// and time goes faster, or slower, by as much as would bring that to nothing in this time: a
/// source that is 100 parts in a million fast stays 50 ms ahead.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(500);
/// But never by more than one part in 5,000, which is more than two clocks are apart, and less than
/// a receiver notices.
const HASTE_MAX: i64 = 200;
/// What is let out together: nobody receives a whole key frame in one burst.
const GROUP: Duration = Duration::from_millis(10);
/// How far a source may be behind its own clock before the clock is set anew. Less than this it
/// catches up.
const LATE_MAX: Duration = Duration::from_millis(200);
/// A clock that says nothing for so long, or so many bytes, is gone.
const SILENCE_MAX: Duration = Duration::from_secs(1);
const SILENCE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// References that are remembered; beyond it every other is forgotten.
const MARKS_MAX: usize = 4096;

/// When the bytes of a stream are due.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Pacing {
    aligner: Aligner,
    /// The PID whose references count: the first that had one, until it falls silent or another
    /// takes its place.
    clock_pid: Option<u16>,
    /// Another PID's references since the last of ours: its PID, and the ticks of the first.
    other_clock: Option<(u16, u64)>,
    newest_ticks: u64,
    /// The next of our references is said to be no time after the one before.
    jumps_next: bool,
    /// Time on the stream's own time line, which goes on over wraps and jumps.
    newest_time: Duration,
    marks: VecDeque<Mark>,
    /// Between the newest two references: the time, and the bytes.
    interval: (Duration, u64),
    /// The mark that was passed last.
    passed: Option<Mark>,
    /// The moment at which the time line's zero was, or would have been.
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

/// Where the time line lies in the server's time: `time` on it was at `moment`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Zero {
    time: Duration,
    moment: Instant,
}

/// How the source's clock goes beside ours.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Drift {
    /// The window, of which the first reference was heard then.
    since: Option<Instant>,
    /// How far the latest reference in it was ahead, in microseconds; it is late if negative.
    ahead: i64,
    /// Parts in a million by which time goes faster.
    haste: i64,
}

impl Drift {
    /// A reference is heard so many microseconds ahead of its time.
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
    /// How many microseconds there are until that time; they are over if negative.
    fn until(&self, time: Duration, now: Instant) -> i64 {
        let at = self.moment_of(time);
        let (later, earlier) = (at.since(now).as_micros(), now.since(at).as_micros());
        i64::try_from(later).unwrap_or(i64::MAX) - i64::try_from(earlier).unwrap_or(i64::MAX)
    }

    /// Over an interval time goes faster by so many parts in a million.
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

    fn time_at(&self, now: Instant) -> Duration {
        self.time + now.since(self.moment)
    }
}

impl Pacing {
    /// The pace of bytes from `offset` on.
    pub fn new(offset: u64) -> Pacing {
        Pacing {
            arrived: offset,
            due: offset,
            ..Pacing::default()
        }
    }

    /// The stream's next bytes have arrived.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) {
        let start = self.arrived;
        self.arrived += bytes.len() as u64;
        let mut aligner = std::mem::take(&mut self.aligner);
        aligner.feed(bytes, |at, packet| {
            let (pid, is_discontinuous) = (packet.pid(), packet.is_discontinuous());
            if let Some(ticks) = packet.clock_reference() {
                let offset = start.saturating_add_signed(at);
                self.hear(pid, ticks, is_discontinuous, offset, now);
            } else if is_discontinuous && self.clock_pid == Some(pid) {
                self.jumps_next = true;
            }
        });
        self.aligner = aligner;
        self.forget_silent_clock(now);
    }

    /// Nothing more comes: what is left is due when its time has come.
    pub fn finish(&mut self) {
        self.has_ended = true;
        let Some(last) = self.marks.back().copied() else {
            return;
        };
        // Behind the last reference, the pace between the last two goes on.
        let bytes = u128::from(self.arrived.saturating_sub(last.offset));
        let (interval, interval_bytes) = self.interval;
        let nanoseconds = (interval.as_nanos() * bytes)
            .checked_div(u128::from(interval_bytes))
            .unwrap_or(0);
        let rest = Duration::from_nanos(nanoseconds as u64).min(SILENCE_MAX);
        self.marks.push_back(Mark {
            offset: self.arrived,
            time: last.time + rest,
        });
    }

    fn hear(&mut self, pid: u16, ticks: u64, is_discontinuous: bool, offset: u64, now: Instant) {
        let is_ours = *self.clock_pid.get_or_insert(pid) == pid;
        if !is_ours && !self.has_moved(pid, ticks) {
            return;
        }
        self.clock_pid = Some(pid);
        self.other_clock = None;
        let has_jumped = std::mem::take(&mut self.jumps_next);
        let is_discontinuous = is_discontinuous || has_jumped || !is_ours;
        let passed = (ticks + TICKS_WRAP - self.newest_ticks) % TICKS_WRAP;
        let is_first = self.marks.is_empty() && self.passed.is_none();
        // Over a jump no time passes that anybody knows of.
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
        // A source that is late by its own clock goes on from here; it does not burst to catch up.
        if self.zero.as_ref().is_none_or(is_late) && self.marks.len() == 1 {
            self.zero = Some(Zero { time, moment: now });
        }
    }

    /// Whether another PID's references have taken the place of ours.
    fn has_moved(&mut self, pid: u16, ticks: u64) -> bool {
        match self.other_clock {
            Some((other, first)) if other == pid => {
                (ticks + TICKS_WRAP - first) % TICKS_WRAP >= MOVED_TICKS
            }
            // A third one does not make it begin anew.
            Some(_) => false,
            None => {
                self.other_clock = Some((pid, ticks));
                false
            }
        }
    }

    fn forget_silent_clock(&mut self, now: Instant) {
        let last = self
            .marks
            .back()
            .or(self.passed.as_ref())
            .map_or(0, |mark| mark.offset);
        let is_silent = now.since(self.heard_at) > SILENCE_MAX
            || self.arrived.saturating_sub(last) > SILENCE_BYTES_MAX;
        if self.clock_pid.is_some() && is_silent && self.marks.is_empty() {
            self.clock_pid = None;
            self.passed = None;
            self.zero = None;
        }
    }

    /// Up to which offset bytes are due: never less than before.
    pub fn due(&mut self, now: Instant) -> u64 {
        let due = self.due_by_clock(now);
        self.due = self.due.max(due);
        self.due
    }

    fn due_by_clock(&mut self, now: Instant) -> u64 {
        let Some(zero) = self.zero else {
            return self.arrived;
        };
        let time = zero.time_at(now);
        while let Some(mark) = self.marks.front().copied()
            && mark.time <= time
        {
            self.marks.pop_front();
            self.passed = Some(mark);
        }
        match (self.passed, self.marks.front()) {
            (Some(passed), Some(next)) => between(passed, *next, time),
            // Ahead of the first reference: it leads up to that.
            (None, Some(next)) => next.offset,
            (Some(last), None) => self.behind_last(last, now),
            (None, None) => self.arrived,
        }
    }

    /// Where the next reference is not known yet, bytes are due evenly over as long as the interval
    /// before, from when the last one was heard: more than they would have to wait if it were, and
    /// never for long.
    fn behind_last(&self, last: Mark, now: Instant) -> u64 {
        let spread = self.interval.0.min(SPREAD_MAX);
        let next = Mark {
            offset: self.arrived,
            time: last.time + spread,
        };
        between(last, next, last.time + now.since(self.heard_at))
    }

    /// When more will be due, if nothing arrives; `None` if everything is.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let zero = self.zero?;
        let Some(next) = self.marks.front() else {
            return (self.due < self.arrived).then(|| now + GROUP);
        };
        let at = zero.moment_of(next.time);
        Some(if self.passed.is_some() {
            at.min(now + GROUP)
        } else {
            at
        })
    }

    /// How long what is due may be gathered, so that it goes out together; `None`: it goes at once.
    pub fn group_time(&self) -> Option<Duration> {
        self.zero.is_some().then_some(GROUP)
    }

    /// Whether the stream has ended and all of it is due.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.marks.is_empty()
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>() + self.aligner.held_bytes()
    }
}

/// Bytes are due evenly between two references.
fn between(passed: Mark, next: Mark, time: Duration) -> u64 {
    let interval = next.time.saturating_sub(passed.time).as_nanos();
    let elapsed = time.saturating_sub(passed.time).as_nanos().min(interval);
    let bytes = u128::from(next.offset.saturating_sub(passed.offset));
    match (bytes * elapsed).checked_div(interval) {
        Some(share) => passed.offset + share as u64,
        None => next.offset,
    }
}

#[cfg(feature = "handover")]
impl Pacing {
    /// Whether what was told of it can be, of a stream whose newest byte is this one.
    pub fn fits(&self, newest: u64) -> bool {
        let other_ticks = self.other_clock.map_or(0, |(_, ticks)| ticks);
        let marks = self.passed.iter().chain(&self.marks);
        let ends = marks.clone().last().copied();
        let ascend = |one: &Mark, next: &Mark| one.offset <= next.offset && one.time <= next.time;
        let zero = self.zero.map_or(Duration::ZERO, |zero| zero.time);
        let last = ends.map_or(Duration::ZERO, |last| last.time);
        let (interval, interval_bytes) = self.interval;
        self.aligner.fits()
            && self.newest_ticks < TICKS_WRAP
            && other_ticks < TICKS_WRAP
            && self.marks.len() <= MARKS_MAX + 1
            && marks.is_sorted_by(|one, next| ascend(one, next))
            && ends.is_none_or(|last| last.offset <= self.arrived)
            && are_spans([self.newest_time, zero, last])
            && interval <= INTERVAL_MAX
            && are_counts([interval_bytes])
            && (-HASTE_MAX..=HASTE_MAX).contains(&self.drift.haste)
            && self.due <= self.arrived
            && self.arrived <= newest
    }
}

/// Between two references lies no more: anything else is a jump.
#[cfg(feature = "handover")]
const INTERVAL_MAX: Duration = Duration::from_secs(JUMP_TICKS / TICKS_PER_SECOND + 1);

#[cfg(test)]
mod tests;
