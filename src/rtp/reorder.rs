//! Packets in their order: what comes early waits for what is missing, bounded in packets and above all in time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::moment::Moment;

/// The window between what has been handed on and what has arrived.
#[derive(Debug, Default)]
pub struct Reorder {
    /// The number that is to be handed on next; `None` before the first.
    next: Option<u64>,
    /// Packets that came early, by their extended numbers: all are greater than `next`.
    early: BTreeMap<u64, Early>,
    /// Since when `next` has been missing, while anything is early.
    gap_since: Option<Moment>,
    /// What can be handed on.
    ready: VecDeque<Vec<u8>>,
    /// Packets that came too late, or twice.
    dropped: u64,
    /// Packets that never came.
    lost: u64,
}

#[derive(Debug)]
struct Early {
    payload: Vec<u8>,
    arrived: Moment,
}

/// How long a missing packet is waited for. A window by count alone would stall slow sound for a second.
const WAIT: Duration = Duration::from_millis(50);
/// How many packets wait at the most.
const EARLY_MAX: usize = 256;

impl Reorder {
    /// A packet has arrived. One that is next, with none waiting, is given back at once: it need not be kept.
    pub fn insert<'a>(&mut self, number: u64, payload: &'a [u8], now: Moment) -> Option<&'a [u8]> {
        let next = *self.next.get_or_insert(number);
        if number < next || self.early.contains_key(&number) {
            self.dropped += 1;
            return None;
        }
        if number == next && self.early.is_empty() && self.ready.is_empty() {
            self.next = Some(next + 1);
            return Some(payload);
        }
        self.gap_since.get_or_insert(now);
        self.early.insert(
            number,
            Early {
                payload: payload.to_vec(),
                arrived: now,
            },
        );
        if self.early.len() > EARLY_MAX {
            self.give_up_gap();
        }
        self.advance();
        None
    }

    /// The next payload in order, where there is one. Gaps older than the wait are given up.
    pub fn next(&mut self, now: Moment) -> Option<Vec<u8>> {
        if self.ready.is_empty() && self.deadline().is_some_and(|deadline| deadline <= now) {
            self.give_up_gap();
            self.advance();
        }
        self.ready.pop_front()
    }

    /// When the oldest gap is given up.
    pub fn deadline(&self) -> Option<Moment> {
        self.gap_since.map(|since| since + WAIT)
    }

    /// Packets that came too late or twice.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Packets that never came.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn give_up_gap(&mut self) {
        if let (Some(next), Some((&first, _))) = (self.next, self.early.first_key_value()) {
            self.lost += first.saturating_sub(next);
            self.next = Some(first);
        }
    }

    fn advance(&mut self) {
        while let (Some(next), Some(entry)) = (self.next, self.early.first_entry())
            && *entry.key() == next
        {
            self.ready.push_back(entry.remove().payload);
            self.next = Some(next + 1);
            // The next gap has been one since something behind it came.
            self.gap_since = self.early.values().next().map(|early| early.arrived);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::after_start(Duration::from_millis(milliseconds))
    }

    fn drain(reorder: &mut Reorder, now: Moment) -> Vec<u8> {
        std::iter::from_fn(|| reorder.next(now)).flatten().collect()
    }

    #[test]
    fn in_order_nothing_is_kept() {
        let mut reorder = Reorder::default();
        assert_eq!(reorder.insert(7, b"a", at(0)), Some(&b"a"[..]));
        assert_eq!(reorder.insert(8, b"b", at(0)), Some(&b"b"[..]));
        assert_eq!(reorder.deadline(), None);
    }

    #[test]
    fn disorder_is_mended_and_repetition_dropped() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        assert_eq!(reorder.insert(3, b"3", at(1)), None);
        assert_eq!(reorder.insert(4, b"4", at(2)), None);
        assert_eq!(reorder.insert(3, b"3", at(2)), None);
        assert_eq!(drain(&mut reorder, at(3)), b"");
        assert_eq!(reorder.insert(2, b"2", at(4)), None);
        assert_eq!(drain(&mut reorder, at(4)), b"234");
        assert_eq!(reorder.insert(2, b"2", at(5)), None);
        assert_eq!((reorder.dropped(), reorder.lost()), (2, 0));
    }

    #[test]
    fn a_gap_is_waited_for_and_then_given_up() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        reorder.insert(4, b"4", at(10));
        assert_eq!(reorder.deadline(), Some(at(60)));
        assert_eq!(drain(&mut reorder, at(59)), b"");
        assert_eq!(drain(&mut reorder, at(60)), b"4");
        assert_eq!(reorder.lost(), 2);
        assert_eq!(reorder.insert(3, b"3", at(61)), None);
        assert_eq!(reorder.insert(5, b"5", at(61)), Some(&b"5"[..]));
    }

    /// Packets that come in backwards do not keep a gap open, each by itself.
    #[test]
    fn a_gap_is_given_up_in_time_whatever_comes_meanwhile() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        for late in 0..20 {
            reorder.insert(100 - late, b"x", at(10 + 10 * late));
            let expected = if late < 5 { 0 } else { 1 };
            let waited = reorder.next(at(10 + 10 * late)).is_some();
            assert_eq!(usize::from(waited), expected, "{late}");
            if waited {
                return;
            }
        }
    }

    #[test]
    fn the_window_is_bounded_in_packets() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        for number in 0..10_000 {
            reorder.insert(3 + 2 * number, b"x", at(0));
            assert!(reorder.early.len() <= EARLY_MAX);
        }
    }
}
