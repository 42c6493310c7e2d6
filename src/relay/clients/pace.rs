//! How fast a source may be, where its token says so: it is slowed by not being read, and TCP slows
//! the other end.

use std::time::Duration;

use crate::moment::Moment;
use crate::relay::allowance::{AHEAD_MAX, Allowance};

/// A source's rate: when it has used up what it may send, it is read on when it may send for a
/// while again.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Pace {
    allowance: Allowance,
    /// It is not read before then.
    rests: Option<Moment>,
    /// It has rested since that was asked last.
    has_rested: bool,
    /// It has been told of.
    is_told: bool,
}

/// So far ahead it may be when it is read on.
const AHEAD_AGAIN: Duration = Duration::from_millis(900);

impl Pace {
    /// So fast.
    pub fn new(bits_per_second: u64, now: Moment) -> Pace {
        Pace {
            allowance: Allowance::new(bits_per_second, now),
            rests: None,
            has_rested: false,
            is_told: false,
        }
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.allowance.fits()
    }

    /// So many bytes have come.
    pub fn count(&mut self, bytes: usize, now: Moment) {
        let ahead = self.allowance.count(bytes, now);
        if ahead >= AHEAD_MAX {
            self.rests = Some(now + (ahead - AHEAD_AGAIN));
            self.has_rested = true;
        }
    }

    /// How many bytes may be read.
    pub fn appetite(&self, now: Moment) -> usize {
        match self.rests {
            Some(_) => 0,
            None => self.allowance.left(now).max(1),
        }
    }

    /// Until when it is not read.
    pub fn rests(&self) -> Option<Moment> {
        self.rests
    }

    /// It may be read on. The first time says how fast it may be, in bits a second.
    pub fn goes_on(&mut self) -> Option<u64> {
        self.rests = None;
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| self.allowance.bits_per_second())
    }

    /// Whether it has been slowed since this was asked last.
    pub fn take_rested(&mut self) -> bool {
        std::mem::take(&mut self.has_rested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much is there, and however it comes: a second's worth at once, and then the rate.
    #[test]
    fn what_is_read_keeps_to_the_rate() {
        for piece in [1_000, 60_000, usize::MAX] {
            let mut now = Moment::START;
            let mut pace = Pace::new(800_000, now);
            let (mut bytes, mut reads) = (0, 0);
            while now.since_start() < Duration::from_secs(10) {
                let read = pace.appetite(now).min(piece);
                if read > 0 {
                    pace.count(read, now);
                    (bytes, reads) = (bytes + read, reads + 1);
                }
                if let Some(rests) = pace.rests() {
                    assert!(rests > now, "it would be asked again and again");
                    now = rests;
                    pace.goes_on();
                }
                assert!(bytes as f64 <= 100_000.0 * (now.since_start().as_secs_f64() + 1.01));
            }
            assert!(bytes >= 1_000_000, "{bytes} in ten seconds");
            assert!(reads <= 110 + bytes / piece.min(bytes), "{reads} reads");
            assert!(pace.take_rested() && !pace.take_rested());
        }
    }

    /// It rests until it may send for a tenth of a second again, and the operator is told once how
    /// fast it may be.
    #[test]
    fn who_is_too_fast_rests_and_is_told_of_once() {
        let at = |milliseconds| Moment::after_start(Duration::from_millis(milliseconds));
        // 1,000 bytes a second.
        let mut pace = Pace::new(8_000, at(0));
        pace.count(999, at(0));
        assert_eq!((pace.rests(), pace.appetite(at(0))), (None, 1));
        assert!(!pace.take_rested());
        for (now, bytes, rests, told) in [
            (0, 1, 100, Some(8_000)),
            (100, 350, 450, None),
            (5_000, 1_000, 5_100, None),
        ] {
            pace.count(bytes, at(now));
            assert_eq!(pace.rests(), Some(at(rests)), "{now}");
            assert_eq!(pace.appetite(at(now)), 0, "{now}");
            assert!(pace.take_rested() && !pace.take_rested());
            assert_eq!(pace.goes_on(), told, "{now}");
            assert_eq!(pace.rests(), None);
            assert_eq!(pace.appetite(at(rests)), 100, "{now}");
        }
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_pace_that_was_told_has_a_rate() {
        let told = serde_json::to_value(Pace::new(8_000, Moment::START)).expect("JSON");
        for (bytes_per_second, fits) in [(1_000, true), (0, false)] {
            let mut told = told.clone();
            told["allowance"]["bytes_per_second"] = bytes_per_second.into();
            let pace: Pace = serde_json::from_value(told).expect("a pace");
            assert_eq!(pace.fits(), fits, "{bytes_per_second}");
        }
    }
}
