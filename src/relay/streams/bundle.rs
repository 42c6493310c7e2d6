//! Small pieces of a stream wait for each other, so that one write to a viewer carries several.
//!
//! A write of one byte takes some microseconds, and a write of 16 KiB takes the same. A source that
//! sends 1 KiB a millisecond to a thousand viewers would fill a processor with writes. So the stream waits, not
//! its viewers: new bytes are in the buffer at once, and go out when one of these holds:
//!
//! - [`FULL_BYTES`] wait.
//! - The first of them has waited for D, which is [`WRITE_TIME`] for each viewer, at most the cap.
//! - A unit has ended among them, and the first has waited for half of D. A frame of sound is too
//!   short to count.
//! - They came later than D after the bytes before them went out.
//!
//! So small pieces alone cause at most one write to each viewer in half of D. With few viewers D is
//! shorter than [`TIME_MIN`], and nothing waits.
//!
//! A viewer that joins gets its bytes at once. The end of a stream lets all of them out.

use std::time::Duration;

use crate::time::Instant;

/// As many bytes as one write takes at no extra cost.
const FULL_BYTES: u64 = 16 * 1024;
/// The time of a write to one viewer, several times over, so that writing takes a part of D only.
const WRITE_TIME: Duration = Duration::from_micros(16);
/// Shortest wait. The loop's timer counts milliseconds.
const TIME_MIN: Duration = Duration::from_millis(1);
/// Sound alone may wait this many times the cap: it has few bytes, and its players buffer seconds.
const SOUND_FACTOR: u32 = 5;

/// What decides whether a stream's new bytes wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewBytes {
    /// Bytes that viewers who keep up have not been given.
    pub count: u64,
    /// Whether a unit has ended among them.
    pub has_unit_end: bool,
    /// Viewers of the stream.
    pub viewers: usize,
    /// Whether the stream is sound alone.
    pub is_sound: bool,
    /// The cap: `--bundle`. 0: nothing waits.
    pub time_max: Duration,
}

/// When a stream's bytes went out, and when the next ones will.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    went_at: Option<Instant>,
    /// When the first of the waiting bytes came, and until when they wait.
    waits: Option<(Instant, Instant)>,
}

impl Bundle {
    /// Returns until when bytes wait, if some do.
    pub fn until(&self) -> Option<Instant> {
        self.waits.map(|(_, until)| until)
    }

    /// Decides about a stream's new bytes at `now`. Returns whether they go out.
    pub fn goes(&mut self, new: NewBytes, now: Instant) -> bool {
        let time = wait_time(&new);
        let is_soon = self.went_at.is_some_and(|at| now < at + time);
        let since = self.waits.map_or(now, |(since, _)| since);
        let waits = (self.waits.is_some() || is_soon) && now < since + time;
        self.waits = (waits && new.count < FULL_BYTES).then_some((since, since + time));
        if self.waits.is_none() {
            self.went(now);
        }
        self.waits.is_none()
    }

    /// Records that all bytes go out at `now`.
    pub fn went(&mut self, now: Instant) {
        (self.went_at, self.waits) = (Some(now), None);
    }
}

/// Returns D, or half of it if a unit has ended.
fn wait_time(new: &NewBytes) -> Duration {
    let viewers = u32::try_from(new.viewers).unwrap_or(u32::MAX);
    let factor = if new.is_sound { SOUND_FACTOR } else { 1 };
    let time = (WRITE_TIME.saturating_mul(viewers)).min(new.time_max * factor);
    match time {
        time if time < TIME_MIN => Duration::ZERO,
        time if new.has_unit_end && !new.is_sound => time / 2,
        time => time,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::relay::stage::Stage;
    use crate::relay::{ConnectionId, Outgoing, write_next};

    fn at(micros: u64) -> Instant {
        Instant::after_start(Duration::from_micros(micros))
    }

    fn new(count: u64, viewers: usize) -> NewBytes {
        NewBytes {
            count,
            viewers,
            has_unit_end: false,
            is_sound: false,
            time_max: Duration::from_millis(20),
        }
    }

    /// Returns after how many microseconds such bytes go out.
    fn waits(new: NewBytes) -> u128 {
        let mut bundle = Bundle::default();
        bundle.went(at(0));
        match bundle.goes(new, at(0)) {
            true => 0,
            false => bundle
                .until()
                .map_or(0, |until| until.since(at(0)).as_micros()),
        }
    }

    #[test]
    fn the_wait_grows_with_the_viewers_up_to_the_cap() {
        for (viewers, micros) in [
            (0, 0),
            (1, 0),
            (62, 0),
            (63, 1_008),
            (1_000, 16_000),
            (1_250, 20_000),
            (1_251, 20_000),
            (usize::MAX, 20_000),
        ] {
            assert_eq!(waits(new(1, viewers)), micros, "{viewers}");
        }
        let off = NewBytes {
            time_max: Duration::ZERO,
            ..new(1, 10_000)
        };
        assert_eq!(waits(off), 0);
    }

    #[test]
    fn sixteen_kibibytes_do_not_wait() {
        assert_eq!(waits(new(16 * 1024 - 1, 1_000)), 16_000);
        assert_eq!(waits(new(16 * 1024, 1_000)), 0);
    }

    #[test]
    fn a_whole_unit_waits_half_the_time_unless_it_is_sound() {
        for (is_sound, has_unit_end, viewers, micros) in [
            (false, true, 1_000, 8_000),
            (false, true, 100_000, 10_000),
            (true, true, 1_000, 16_000),
            (true, false, 100_000, 100_000),
            (true, true, 100_000, 100_000),
        ] {
            let new = NewBytes {
                is_sound,
                has_unit_end,
                ..new(1, viewers)
            };
            assert_eq!(waits(new), micros, "{new:?}");
        }
    }

    /// Pieces of a stream that come slower than D do not wait. Faster ones go out together. Each waits
    /// for D at most.
    #[test]
    fn pieces_that_come_within_d_go_out_together() {
        for (gap, times) in [
            (17_000, 100),
            (16_000, 100),
            (15_999, 51),
            (10_000, 51),
            (1_000, 8),
        ] {
            let mut bundle = Bundle::default();
            let (mut waiting, mut went) = (Vec::new(), 0);
            for piece in 0..100 {
                let now = at(1_000_000 + piece * gap);
                let timer = bundle.until().filter(|until| *until <= now);
                if let Some(until) = timer {
                    assert_eq!(until.since(waiting[0]), Duration::from_micros(16_000));
                    bundle.went(until);
                    (waiting, went) = (Vec::new(), went + 1);
                }
                waiting.push(now);
                if bundle.goes(new(waiting.len() as u64, 1_000), now) {
                    (waiting, went) = (Vec::new(), went + 1);
                }
                assert_eq!(bundle.until().is_none(), waiting.is_empty());
            }
            assert_eq!(went + usize::from(!waiting.is_empty()), times, "{gap}");
        }
    }

    /// Writes all that is to be written. Returns the clients, and how many bytes each got.
    fn written(stage: &mut Stage) -> Vec<(ConnectionId, usize)> {
        let mut all = Vec::new();
        let mut write = |id, gather: &crate::gather::Gather<'_>| {
            all.push((id, gather.bytes()));
            Outgoing::Whole(gather.bytes())
        };
        while write_next(&mut stage.relay, stage.now, &mut write).is_some() {}
        all.retain(|(_, bytes)| *bytes > 0);
        all
    }

    /// A stream with this many viewers, which have every byte. Returns its source.
    fn stream(stage: &mut Stage, viewers: usize) -> ConnectionId {
        let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9999999\r\n\r\nx");
        (0..viewers).for_each(|_| {
            stage.viewer("s");
        });
        source
    }

    fn wait(stage: &mut Stage, time: Duration) {
        stage.now = stage.now + time;
        stage.relay.expire(stage.now);
        stage.relay.check();
    }

    #[test]
    fn pieces_go_out_together_when_their_time_is_over() {
        let mut stage = Stage::new(&[]);
        let source = stream(&mut stage, 90);
        for _ in 0..3 {
            stage.relay.received(source, b"abcd", stage.now);
            stage.relay.check();
            assert_eq!(written(&mut stage), []);
        }
        let due = stage.relay.next_deadline().expect("a time");
        assert_eq!(due.since(stage.now), Duration::from_micros(90 * 16));
        wait(&mut stage, Duration::from_micros(90 * 16));
        let written = written(&mut stage);
        assert_eq!(written.len(), 90);
        let lengths: BTreeSet<usize> = written.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(lengths, BTreeSet::from(["c\r\nabcdabcdabcd\r\n".len()]));
    }

    /// The new viewer gets its head alone, and later bytes with all viewers.
    #[test]
    fn a_viewer_that_joins_does_not_wait_and_does_not_let_the_others_go() {
        let mut stage = Stage::new(&[]);
        let source = stream(&mut stage, 90);
        stage.relay.received(source, b"abcd", stage.now);
        let get = "GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
        let joined = stage.client("");
        stage.relay.received(joined, get.as_bytes(), stage.now);
        let head = written(&mut stage);
        assert_eq!(head.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [joined]);
        stage.relay.received(source, b"efgh", stage.now);
        assert_eq!(written(&mut stage), []);
        wait(&mut stage, Duration::from_millis(4));
        let written = written(&mut stage);
        assert_eq!(written.len(), 91);
        let of_joined = written.iter().find(|(id, _)| *id == joined);
        assert_eq!(
            of_joined.map(|(_, bytes)| *bytes),
            Some("4\r\nefgh\r\n".len())
        );
    }

    #[test]
    fn the_end_of_a_stream_lets_its_bytes_out() {
        let mut stage = Stage::new(&[]);
        let source = stream(&mut stage, 90);
        stage.relay.received(source, b"abcd", stage.now);
        assert_eq!(written(&mut stage), []);
        stage.relay.lost(source, stage.now);
        assert_eq!(written(&mut stage).len(), 90);
    }
}
