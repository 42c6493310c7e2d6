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
}
