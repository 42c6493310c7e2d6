//! When pictures are decoded, out of when they are shown.
//!
//! Pictures come in the order in which they are decoded. If at most so many of them are shown after
//! one that follows, then the times of showing, put in order and moved on by so many pictures, are
//! times at which each can be decoded: in order, and none after its own picture is shown. So each
//! is known as soon as its picture has come.

use super::super::medium::Time;
use super::super::sequence::REORDER_MAX;

/// Of one track.
#[derive(Default)]
pub(super) struct Order {
    /// Times of showing that are to be times of decoding, in order: as many as pictures may be
    /// ahead of another.
    waiting: Vec<Time>,
    newest: Option<Time>,
    /// More than the stream has said.
    deeper: usize,
}

/// What a picture lasts where that is not said, in nanoseconds.
const USUAL_FRAME: i64 = Time::SECOND / 25;
/// Between two pictures that follow each other: then the clock is another one.
const JUMP: i64 = 10 * Time::SECOND;

impl Order {
    /// When the picture is decoded that comes now. At most `reorder` of them follow one in time and
    /// precede it here.
    pub fn decode(&mut self, present: Time, reorder: u8, frame: Option<i64>) -> Time {
        let has_jumped = self
            .newest
            .is_some_and(|newest| (present.nanoseconds() - newest.nanoseconds()).abs() > JUMP);
        if has_jumped || self.newest.is_none() {
            self.waiting.clear();
            self.newest = None;
        }
        if self.newest.is_some_and(|newest| present < newest) && self.deeper < REORDER_MAX {
            self.deeper += 1;
        }
        let depth = (usize::from(reorder) + self.deeper).min(REORDER_MAX);
        // In front of the first there are as many as if the stream had begun before.
        let frame = frame.unwrap_or(USUAL_FRAME).clamp(0, Time::SECOND);
        while self.waiting.len() < depth {
            let first = self.waiting.first().copied().unwrap_or(present);
            let before = Time::from_nanoseconds(first.nanoseconds() - frame).unwrap_or(first);
            let before = self
                .newest
                .map_or(before, |newest| newest.max(before).min(first));
            self.waiting.insert(0, before);
        }
        let place = self.waiting.partition_point(|waiting| *waiting <= present);
        self.waiting.insert(place, present);
        let surplus = self.waiting.len() - depth;
        let decode = self.waiting[surplus - 1];
        self.waiting.drain(..surplus);
        self.newest = Some(decode);
        decode
    }

    /// Bytes that its one allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Time>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(presented: &[i64], reorder: u8) -> Vec<i64> {
        let mut order = Order::default();
        let time = |milliseconds: i64| Time::of(milliseconds, 1000).unwrap();
        let decode = |present: &i64| order.decode(time(*present), reorder, Some(40_000_000));
        presented
            .iter()
            .map(decode)
            .map(|time| time.ticks(1000))
            .collect()
    }

    #[test]
    fn times_of_decoding_ascend_and_are_none_too_late() {
        let presented = [0, 160, 80, 40, 120, 320, 240, 200, 280];
        let expected = [-80, -40, 0, 40, 80, 120, 160, 200, 240];
        assert_eq!(decoded(&presented, 2), expected);
        assert_eq!(decoded(&[0, 40, 80], 0), [0, 40, 80]);
    }

    #[test]
    fn a_stream_that_says_too_little_is_believed_once() {
        let decoded = decoded(&[0, 80, 40, 160, 120, 240, 200], 0);
        assert!(decoded[3..].is_sorted(), "{decoded:?}");
    }

    #[test]
    fn a_clock_that_jumps_leaves_nothing_behind() {
        let decoded = decoded(&[90_000, 90_080, 90_040, 0, 80, 40, 120], 1);
        assert_eq!(decoded, [89_960, 90_000, 90_040, -40, 0, 40, 80]);
    }
}
