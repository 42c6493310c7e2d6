//! How much may come of a source whose token says how fast it may be: so many bits a second, and a
//! second's worth of them at once.

use std::time::Duration;

#[cfg(feature = "handover")]
use crate::handover::are_counts;
use crate::moment::Moment;

/// A source's rate, and what it has used of it.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Allowance {
    bytes_per_second: u64,
    /// By when it would have sent what it has, at its rate.
    worth: Moment,
    /// Datagrams that were not admitted.
    refused: u64,
}

/// So far ahead of its rate it may be.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(1);

impl Allowance {
    /// So fast, from now on.
    pub fn new(bits_per_second: u64, now: Moment) -> Allowance {
        Allowance {
            bytes_per_second: (bits_per_second / 8).max(1),
            worth: now,
            refused: 0,
        }
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        let rates = 1..=u64::MAX / 8;
        rates.contains(&self.bytes_per_second) && are_counts([self.refused])
    }

    /// In bits a second.
    pub fn bits_per_second(&self) -> u64 {
        self.bytes_per_second * 8
    }

    /// So many bytes have come. Says how far ahead of its rate it is with them.
    pub fn count(&mut self, bytes: usize, now: Moment) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second as f64;
        self.worth = self.worth.max(now) + Duration::from_secs_f64(seconds);
        self.worth.since(now)
    }

    /// How many bytes may come now.
    pub fn left(&self, now: Moment) -> usize {
        let left = AHEAD_MAX.saturating_sub(self.worth.since(now));
        (left.as_secs_f64() * self.bytes_per_second as f64) as usize
    }

    /// Whether a datagram may come, which is whole or not at all: where anything may, all of it.
    /// Then it counts.
    pub fn admits(&mut self, bytes: usize, now: Moment) -> bool {
        let is_within = self.worth.since(now) < AHEAD_MAX;
        if is_within {
            self.count(bytes, now);
        } else {
            self.refused += 1;
        }
        is_within
    }

    /// How many may not have come.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However fast they come and however large they are: a second's worth at once, and then the
    /// rate, but for one that was begun.
    #[test]
    fn datagrams_beyond_the_rate_are_not_admitted() {
        for (bits_per_second, bytes) in [(8_192, 1_316), (800_000, 1_316), (8_000_000, 188)] {
            let mut allowance = Allowance::new(bits_per_second, Moment::START);
            let mut admitted = 0;
            for millisecond in 0..10_000 {
                let now = Moment::after_start(Duration::from_millis(millisecond));
                for _ in 0..10 {
                    admitted += if allowance.admits(bytes, now) {
                        bytes
                    } else {
                        0
                    };
                }
            }
            let most = bits_per_second as f64 / 8.0 * 11.0;
            assert!(admitted as f64 <= most + bytes as f64, "{admitted}");
            assert!(admitted as f64 >= most * 0.9 - bytes as f64, "{admitted}");
        }
    }

    fn at(milliseconds: u64) -> Moment {
        Moment::after_start(Duration::from_millis(milliseconds))
    }

    /// 1,000 bytes a second, from the fifth second on.
    #[test]
    fn what_may_come_grows_with_time_up_to_a_second_of_it() {
        let mut allowance = Allowance::new(8000, at(5000));
        assert_eq!(allowance.bits_per_second(), 8000);
        for (milliseconds, bytes, ahead, left) in [
            (5000, 0, 0, 1000),
            (5000, 250, 250, 750),
            (5000, 250, 500, 500),
            (5100, 0, 400, 600),
            (5100, 900, 1300, 0),
            (6100, 0, 300, 700),
            (9000, 0, 0, 1000),
            (9000, 1000, 1000, 0),
        ] {
            let now = at(milliseconds);
            let counted = allowance.count(bytes, now);
            assert_eq!(
                counted,
                Duration::from_millis(ahead),
                "{milliseconds} {bytes}"
            );
            assert_eq!(allowance.left(now), left, "{milliseconds} {bytes}");
        }
        // The least that there is: what is slower would never end.
        assert_eq!(Allowance::new(7, at(0)).bits_per_second(), 8);
    }

    #[test]
    fn a_datagram_is_admitted_where_anything_may_come_and_counted_where_not() {
        let mut allowance = Allowance::new(8000, at(0));
        for (milliseconds, bytes, is_admitted, refused) in [
            (0, 999, true, 0),
            (0, 600, true, 0),
            (0, 1, false, 1),
            (598, 1, false, 2),
            (599, 1, false, 3),
            (600, 1, true, 3),
            (600, 1, false, 4),
        ] {
            let seen = allowance.admits(bytes, at(milliseconds));
            assert_eq!(seen, is_admitted, "{milliseconds} {bytes}");
            assert_eq!(allowance.refused(), refused);
        }
    }

    #[cfg(feature = "handover")]
    #[test]
    fn an_allowance_that_was_told_has_a_rate() {
        for (bytes_per_second, fits) in [
            (0, false),
            (1, true),
            (u64::MAX / 8, true),
            (u64::MAX / 8 + 1, false),
        ] {
            let allowance = Allowance {
                bytes_per_second,
                ..Allowance::new(8, at(0))
            };
            assert_eq!(allowance.fits(), fits, "{bytes_per_second}");
        }
        let allowance = Allowance {
            refused: u64::MAX,
            ..Allowance::new(8, at(0))
        };
        assert!(!allowance.fits());
    }
}
