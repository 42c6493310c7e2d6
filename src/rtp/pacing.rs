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
use crate::moment::Moment;

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
    heard_at: Moment,
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
    moment: Moment,
}

/// How the source's clock goes beside ours.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Drift {
    /// The window, of which the first reference was heard then.
    since: Option<Moment>,
    /// How far the latest reference in it was ahead, in microseconds; it is late if negative.
    ahead: i64,
    /// Parts in a million by which time goes faster.
    haste: i64,
}

impl Drift {
    /// A reference is heard so many microseconds ahead of its time.
    fn note(&mut self, ahead: i64, now: Moment) {
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
    fn until(&self, time: Duration, now: Moment) -> i64 {
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

    fn moment_of(&self, time: Duration) -> Moment {
        match time.checked_sub(self.time) {
            Some(later) => self.moment + later,
            None => self.moment,
        }
    }

    fn time_at(&self, now: Moment) -> Duration {
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
    pub fn feed(&mut self, bytes: &[u8], now: Moment) {
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

    fn hear(&mut self, pid: u16, ticks: u64, is_discontinuous: bool, offset: u64, now: Moment) {
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

    fn forget_silent_clock(&mut self, now: Moment) {
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
    pub fn due(&mut self, now: Moment) -> u64 {
        let due = self.due_by_clock(now);
        self.due = self.due.max(due);
        self.due
    }

    fn due_by_clock(&mut self, now: Moment) -> u64 {
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
    fn behind_last(&self, last: Mark, now: Moment) -> u64 {
        let spread = self.interval.0.min(SPREAD_MAX);
        let next = Mark {
            offset: self.arrived,
            time: last.time + spread,
        };
        between(last, next, last.time + now.since(self.heard_at))
    }

    /// When more will be due, if nothing arrives; `None` if everything is.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
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
mod tests {
    use super::*;
    use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};

    fn at(milliseconds: u64) -> Moment {
        Moment::after_start(Duration::from_millis(milliseconds))
    }

    /// Packets of which every tenth carries a reference, `interval` milliseconds after the one
    /// before.
    fn stream(references: u64, interval: u64, first_ticks: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..references * 10 {
            let mut packet = [0xff; PACKET_BYTES];
            packet[..4].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x10]);
            if number % 10 == 0 {
                let ticks = (first_ticks + number / 10 * interval * 27_000) % TICKS_WRAP;
                let (base, extension) = (ticks / 300, ticks % 300);
                packet[3] = 0x30;
                packet[4..6].copy_from_slice(&[7, 0x10]);
                packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
                packet[10] = (base as u8 & 1) << 7 | 0x7e | (extension >> 8) as u8;
                packet[11] = extension as u8;
            }
            bytes.extend(packet);
        }
        bytes
    }

    /// Lets a stream out, whole at the start, and says when it was all out and how large the
    /// largest group was.
    fn let_out(bytes: &[u8]) -> (u64, u64) {
        let mut pacing = Pacing::new(0);
        pacing.feed(bytes, at(5));
        pacing.finish();
        let (mut now, mut sent, mut largest) = (at(5), 0, 0);
        while sent < bytes.len() as u64 {
            let due = pacing.due(now);
            assert!(due >= sent && due <= bytes.len() as u64);
            largest = largest.max(due - sent);
            sent = due;
            if let Some(deadline) = pacing.deadline(now) {
                assert!(deadline > now, "a deadline that does not move on");
                now = deadline;
            }
        }
        assert!(pacing.is_over());
        (now.since(at(5)).as_millis() as u64, largest)
    }

    #[test]
    fn a_body_that_comes_at_once_goes_out_over_its_length_in_small_groups() {
        for first_ticks in [0, 12_345, TICKS_WRAP - 27_000_000] {
            let bytes = stream(100, 40, first_ticks);
            let (milliseconds, largest) = let_out(&bytes);
            assert!((3_990..=4_010).contains(&milliseconds), "{milliseconds} ms");
            assert!(
                largest <= 3 * PACKET_BYTES as u64,
                "{largest} bytes at once"
            );
        }
    }

    #[test]
    fn a_jump_of_the_clock_holds_nothing_back() {
        let mut bytes = stream(25, 40, 0);
        bytes.extend(stream(25, 40, 27_000_000 * 3600));
        bytes.extend(stream(25, 40, 27_000_000));
        let (milliseconds, _) = let_out(&bytes);
        assert!((2_800..=3_000).contains(&milliseconds), "{milliseconds} ms");
    }

    #[test]
    fn what_comes_in_real_time_is_not_held_back() {
        let bytes = stream(50, 40, 777);
        let mut pacing = Pacing::new(0);
        for (number, piece) in bytes.chunks(PACKET_BYTES * 5).enumerate() {
            // Early and late by turns.
            let jitter = [0, 7, 3, 12][number % 4];
            let now = at(1_000 + number as u64 * 20 + jitter);
            pacing.feed(piece, now);
            let arrived = (number + 1) * PACKET_BYTES * 5;
            let held = arrived as u64 - pacing.due(now + Duration::from_millis(20));
            assert!(
                held <= 10 * PACKET_BYTES as u64,
                "{held} bytes are held back at {number}"
            );
        }
    }

    #[test]
    fn a_source_that_stood_still_does_not_burst() {
        let bytes = stream(50, 40, 0);
        let (before, behind) = bytes.split_at(PACKET_BYTES * 100);
        let mut pacing = Pacing::new(0);
        pacing.feed(before, at(0));
        assert_eq!(pacing.due(at(400)), before.len() as u64);
        pacing.feed(behind, at(3_000));
        let due = pacing.due(at(3_000));
        assert!(
            due <= (before.len() + PACKET_BYTES * 10) as u64,
            "{due} of {}",
            bytes.len()
        );
        assert!(pacing.due(at(3_000 + 1_600)) >= (bytes.len() - PACKET_BYTES * 10) as u64);
    }

    #[test]
    fn without_a_clock_bytes_are_due_when_they_arrive() {
        let mut pacing = Pacing::new(100);
        pacing.feed(&[0; 50_000], at(0));
        assert_eq!(pacing.due(at(0)), 50_100);
        assert_eq!(pacing.deadline(at(0)), None);
        let bytes = stream(10, 40, 0);
        pacing.feed(&bytes, at(1));
        for second in 1..4 {
            pacing.feed(&[0xff; 1000], at(second * 1_100));
            pacing.due(at(second * 1_100));
        }
        assert_eq!(pacing.due(at(4_000)), 50_100 + bytes.len() as u64 + 3_000);
    }

    /// The packets of `stream`, but each that has a reference has it under another PID.
    fn under(pid: u8, mut bytes: Vec<u8>) -> Vec<u8> {
        for packet in bytes.chunks_mut(PACKET_BYTES) {
            packet[2] = pid;
        }
        bytes
    }

    #[test]
    fn a_clock_that_moves_to_another_pid_goes_on_from_where_it_is() {
        let mut bytes = stream(50, 40, 0);
        bytes.extend(under(1, stream(150, 40, 27_000_000 * 77)));
        let (milliseconds, _) = let_out(&bytes);
        // But for what shows that it has moved.
        assert!((7_300..=8_000).contains(&milliseconds), "{milliseconds} ms");
    }

    #[test]
    fn a_second_clock_in_the_same_stream_is_none_of_ours() {
        let mine = stream(100, 40, 0);
        let other = under(1, stream(100, 40, 27_000_000 * 500));
        let packets = mine.chunks(PACKET_BYTES).zip(other.chunks(PACKET_BYTES));
        let bytes: Vec<u8> = packets.flat_map(|(one, two)| [one, two].concat()).collect();
        let (milliseconds, _) = let_out(&bytes);
        assert!((3_990..=4_010).contains(&milliseconds), "{milliseconds} ms");
    }

    /// A key frame of 150 kB that arrives at once, on time or late, is spread over an interval.
    #[test]
    fn a_live_key_frame_is_no_burst() {
        for late in [0, 30, 150] {
            let mut pacing = Pacing::new(0);
            let quiet = stream(25, 40, 0);
            for (number, piece) in quiet.chunks(PACKET_BYTES * 10).enumerate() {
                pacing.feed(piece, at(number as u64 * 40));
                pacing.due(at(number as u64 * 40 + 39));
            }
            let mut key_frame = stream(1, 40, 27_000 * 40 * 25);
            key_frame.extend(
                [[SYNC_BYTE, 1, 0, 0x10].as_slice(), &[0xff; 184]]
                    .concat()
                    .repeat(790),
            );
            let mut now = at(1_000 + late);
            pacing.feed(&key_frame, now);
            let (mut sent, mut largest, begun) = (pacing.due, 0, now);
            while sent < (quiet.len() + key_frame.len()) as u64 {
                let due = pacing.due(now);
                largest = largest.max(due - sent);
                sent = due;
                now = pacing.deadline(now).unwrap_or(now + GROUP);
            }
            assert!(
                largest < key_frame.len() as u64 / 3,
                "{largest} bytes at once, {late} ms late"
            );
            assert!(
                now.since(begun) < Duration::from_millis(100),
                "{late} ms late"
            );
        }
    }

    /// Over two hours of clocks that are 100 parts in a million apart, what is held back stays
    /// below a fifth of a second, though the references are up to 30 ms late on their way.
    #[test]
    fn a_faster_or_slower_clock_is_followed() {
        for parts in [-100_i64, 0, 100] {
            let mut pacing = Pacing::new(0);
            let (mut longest, mut last) = (0, 0);
            for number in 0..180_000_u64 {
                let mut bytes = stream(1, 0, number * 40 * 27_000 % TICKS_WRAP);
                bytes.truncate(PACKET_BYTES);
                let microseconds = number as i64 * 40_000;
                let arrives = microseconds - microseconds / 1_000_000 * parts;
                let jitter = number * 7_919 % 30_000;
                let arrives = Duration::from_micros(1_000_000 + arrives as u64 + jitter);
                pacing.feed(&bytes, Moment::after_start(arrives));
                // Until the next one can come at the earliest.
                for later in [0, 3, 6, 9] {
                    let now = Moment::after_start(arrives + Duration::from_millis(later));
                    let held = pacing.arrived - pacing.due(now);
                    let milliseconds = held * 40 / PACKET_BYTES as u64;
                    longest = longest.max(milliseconds);
                }
                last = pacing.due;
            }
            assert!(longest < 200, "{longest} ms are held back at {parts} ppm");
            assert!(pacing.arrived - last < 5 * PACKET_BYTES as u64);
        }
    }
}
