//! The bit rate over the last seconds.

use std::time::Duration;

use crate::time::Instant;

/// Byte counts of the current second and of the whole seconds before it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Rate {
    /// The count of second `n` is at index `n % SECONDS`.
    bytes: [u64; SECONDS],
    /// Newest second with a count, since the stream's start.
    second: u64,
}

/// The window: five whole seconds and the current one.
const SECONDS: usize = 6;

impl Rate {
    /// Counts `bytes` that arrived when the stream had run for `age`.
    pub fn count(&mut self, bytes: usize, age: Duration) {
        self.advance(age);
        let current = &mut self.bytes[(self.second % SECONDS as u64) as usize];
        *current = current.saturating_add(bytes as u64);
    }

    /// Returns bits per second over the window, or over the stream's age if that is shorter.
    pub fn bits_per_second(&self, started: Instant, now: Instant) -> u64 {
        let age = now.since(started);
        let mut current = self.clone();
        current.advance(age);
        let whole_seconds = age.as_secs().min(SECONDS as u64 - 1);
        let window = whole_seconds as f64 + f64::from(age.subsec_millis()) / 1000.0;
        let bytes = current.bytes.into_iter().fold(0, u64::saturating_add);
        let bits = bytes.saturating_mul(8);
        // At least half a second, or the first burst would look like a flood.
        (bits as f64 / window.max(0.5)) as u64
    }

    fn advance(&mut self, age: Duration) {
        let second = age.as_secs();
        for passed in self.second..second.min(self.second.saturating_add(SECONDS as u64)) {
            self.bytes[((passed + 1) % SECONDS as u64) as usize] = 0;
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_last_seconds_only() {
        let mut rate = Rate::default();
        let started = Instant::after_start(Duration::from_secs(100));
        for tenth in 0..100 {
            rate.count(1000, Duration::from_millis(tenth * 100));
        }
        assert_eq!(
            rate.bits_per_second(started, started + Duration::from_secs(10)),
            80_000
        );
        assert_eq!(
            rate.bits_per_second(started, started + Duration::from_secs(60)),
            0
        );
    }

    /// Over the stream's life while that is shorter than the window, and half a second at least.
    #[test]
    fn the_rate_of_a_young_stream_is_of_its_life() {
        let started = Instant::after_start(Duration::from_secs(100));
        for (counted, age, bits) in [
            (0, 0, 16_000),
            (0, 250, 16_000),
            (0, 500, 16_000),
            (0, 800, 10_000),
            (500, 2_000, 4_000),
            (2_100, 2_500, 3_200),
            (900, 5_000, 1_600),
            // The second in which it came goes out of the window as a whole.
            (900, 5_999, 1_333),
            (0, 6_000, 0),
            (999, 6_000, 0),
            (1_000, 6_000, 1_600),
            (9_000, 14_500, 1_454),
            (9_000, 15_000, 0),
            (9_000, 16_000, 0),
            (9_000, 90_000, 0),
        ] {
            let mut rate = Rate::default();
            rate.count(1_000, Duration::from_millis(counted));
            let now = started + Duration::from_millis(age);
            let got = rate.bits_per_second(started, now);
            assert_eq!(got, bits, "{counted} ms, {age} ms");
        }
    }
}
