//! Derives the decode times of pictures from their presentation times.
//!
//! Pictures come in decode order. Let at most N of them have a later presentation time than one
//! that follows. Sort the presentation times, and move them on by N pictures. The result are valid
//! decode times: they ascend, and none is after its own picture's presentation. So each decode time
//! is known as soon as its picture has come.

use super::super::medium::SECOND;
use super::super::sequence::REORDER_MAX;

/// Decode order of one track.
#[derive(Default)]
pub(super) struct DecodeOrder {
    /// Presentation times that will be decode times, in order: as many as pictures may be ahead of
    /// another one.
    waiting: Vec<i64>,
    /// Newest decode time.
    newest: Option<i64>,
    /// Depth beyond the one that the stream announces.
    deeper: usize,
}

/// Usual duration of a picture in nanoseconds.
const USUAL_FRAME: i64 = SECOND / 25;
/// A longer distance between two pictures means another clock.
const JUMP: i64 = 10 * SECOND;

impl DecodeOrder {
    /// Returns the decode time of the next picture. At most `reorder` pictures precede one here
    /// that they follow in time.
    pub fn decode(&mut self, present: i64, reorder: u8, frame: Option<i64>) -> i64 {
        let has_jumped = self
            .newest
            .is_some_and(|newest| (present - newest).abs() > JUMP);
        if has_jumped || self.newest.is_none() {
            self.waiting.clear();
            self.newest = None;
        }
        if self.newest.is_some_and(|newest| present < newest) && self.deeper < REORDER_MAX {
            self.deeper += 1;
        }
        let depth = (usize::from(reorder) + self.deeper).min(REORDER_MAX);
        // In front of the first picture there are as many as if the stream had begun earlier.
        let frame = frame.unwrap_or(USUAL_FRAME).clamp(0, SECOND);
        while self.waiting.len() < depth {
            let first = self.waiting.first().copied().unwrap_or(present);
            let before = first - frame;
            let before = self.newest.map_or(before, |it| it.max(before).min(first));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(presented: &[i64], reorder: u8) -> Vec<i64> {
        let mut order = DecodeOrder::default();
        let decode = |present: &i64| {
            let present = present * 1_000_000;
            order.decode(present, reorder, Some(40_000_000)) / 1_000_000
        };
        presented.iter().map(decode).collect()
    }

    #[test]
    fn decode_times_ascend_and_precede_the_presentation() {
        let presented = [0, 160, 80, 40, 120, 320, 240, 200, 280];
        let expected = [-80, -40, 0, 40, 80, 120, 160, 200, 240];
        assert_eq!(decoded(&presented, 2), expected);
        assert_eq!(decoded(&[0, 40, 80], 0), [0, 40, 80]);
    }

    #[test]
    fn a_stream_that_reorders_more_than_it_says_is_corrected_once() {
        let decoded = decoded(&[0, 80, 40, 160, 120, 240, 200], 0);
        assert!(decoded[3..].is_sorted(), "{decoded:?}");
    }

    #[test]
    fn a_clock_that_jumps_forgets_the_old_times() {
        let decoded = decoded(&[90_000, 90_080, 90_040, 0, 80, 40, 120], 1);
        assert_eq!(decoded, [89_960, 90_000, 90_040, -40, 0, 40, 80]);
    }
}
