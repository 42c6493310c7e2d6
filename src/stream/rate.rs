//! How fast bytes came in the last seconds.

use std::time::Duration;

use crate::moment::Moment;

/// Bytes of the running second and of the whole seconds before it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Rate {
    /// The bytes of second `n` stand at `n % SECONDS`.
    bytes: [u64; SECONDS],
    /// The newest second that was counted, from the stream's start.
    second: u64,
}

/// The window: five whole seconds and the running one.
const SECONDS: usize = 6;

impl Rate {
    /// Counts `bytes` that arrived when the stream had run for `age`.
    pub fn count(&mut self, bytes: usize, age: Duration) {
        self.advance(age);
        self.bytes[(self.second % SECONDS as u64) as usize] += bytes as u64;
    }

    /// Bits a second over the window, or over the stream's life where that is shorter.
    pub fn bits_per_second(&self, started: Moment, now: Moment) -> u64 {
        let age = now.since(started);
        let mut current = self.clone();
        current.advance(age);
        let whole_seconds = age.as_secs().min(SECONDS as u64 - 1);
        let window = whole_seconds as f64 + f64::from(age.subsec_millis()) / 1000.0;
        let bits = current.bytes.iter().sum::<u64>().saturating_mul(8);
        // Half a second at the least, or the first burst would look like a flood.
        (bits as f64 / window.max(0.5)) as u64
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        let numbers = self.bytes.iter().chain([&self.second]);
        numbers
            .into_iter()
            .all(|number| *number <= u64::from(u32::MAX).pow(2) / 8)
    }

    fn advance(&mut self, age: Duration) {
        let second = age.as_secs();
        for passed in self.second + 1..=second.min(self.second + SECONDS as u64) {
            self.bytes[(passed % SECONDS as u64) as usize] = 0;
        }
        if second > self.second + SECONDS as u64 {
            self.bytes = [0; SECONDS];
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
        let started = Moment::after_start(Duration::from_secs(100));
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
}
