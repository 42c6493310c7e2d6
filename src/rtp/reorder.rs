//! Packets in their order: what comes early waits for what is missing, bounded in time and bytes.
//!
//! A source sends what it likes, so what waits is counted by the bytes that it holds: at most
//! [`EARLY_BYTES_MAX`], one datagram (64 KiB) that has come on top of that, and [`EARLY_MAX`]
//! places, which bounds the work of finding one too. That is 0.7 MiB for a source.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

#[cfg(feature = "handover")]
use crate::handover::are_counts;
use crate::time::Instant;

/// The window between what has been handed on and what has arrived.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Reorder {
    /// The number that is to be handed on next; `None` before the first.
    next: Option<u64>,
    /// Packets that came early. Their numbers ascend, and none is below `next`.
    early: VecDeque<Early>,
    /// Bytes of their payloads.
    early_bytes: usize,
    /// Since when `next` has been missing, while anything is early.
    gap_since: Option<Instant>,
    disorder: Disorder,
}

/// What did not come as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub struct Disorder {
    /// Packets that came too late, or twice.
    pub late: u64,
    /// Packets that were not waited for any longer.
    pub lost: u64,
}

#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Early {
    /// Extended.
    number: u64,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    payload: Vec<u8>,
    arrived: Instant,
}

/// How long a missing packet is waited for. A window by bytes alone would stall slow sound for a
/// second.
const WAIT: Duration = Duration::from_millis(50);
/// How many bytes wait at the most: those of a source of 80 Mbit/s.
const EARLY_BYTES_MAX: usize = 512 * 1024;
/// A source that has started its numbers anew goes on so far ahead, or further
/// ([`super::Sequence`]): nothing is missing.
const ANEW: u64 = 1 << 16;
/// How many packets wait at the most.
const EARLY_MAX: usize = 1024;

impl Reorder {
    /// A packet has arrived. One that is next, with none waiting, is given back at once: it need
    /// not be kept. All that [`Reorder::next`] has is to be taken afterwards.
    pub fn insert<'a>(&mut self, number: u64, payload: &'a [u8], now: Instant) -> Option<&'a [u8]> {
        let next = *self.next.get_or_insert(number);
        if number == next && self.early.is_empty() {
            self.next = Some(next + 1);
            return Some(payload);
        }
        match self.place_of(number) {
            Some(place) if number >= next => {
                self.gap_since.get_or_insert(now);
                self.early_bytes += payload.len();
                let early = Early {
                    number,
                    payload: payload.to_vec(),
                    arrived: now,
                };
                self.early.insert(place, early);
            }
            Some(_) | None => self.disorder.late += 1,
        }
        None
    }

    /// Where a packet belongs among those that are early; `None` if it is there.
    fn place_of(&self, number: u64) -> Option<usize> {
        let number_of = |early: &Early| early.number;
        self.early.binary_search_by_key(&number, number_of).err()
    }

    /// The next payload in order, where there is one. A gap is given up when it is too old, or too
    /// much waits behind it.
    pub fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        let missing = self.missing()?;
        let is_over = self.deadline().is_some_and(|deadline| deadline <= now) || self.is_full();
        if (1..ANEW).contains(&missing) && !is_over {
            return None;
        }
        self.finish()
    }

    /// How many are missing ahead of the first that is early.
    fn missing(&self) -> Option<u64> {
        let first = self.early.front()?.number;
        Some(first.saturating_sub(self.next.unwrap_or(first)))
    }

    /// The next payload, whatever is missing: nothing more comes.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let missing = self.missing()?;
        let early = self.early.pop_front()?;
        self.disorder.lost += if missing < ANEW { missing } else { 0 };
        self.next = Some(early.number + 1);
        self.early_bytes -= early.payload.len();
        // The next gap has been one since something behind it came.
        self.gap_since = self.early.front().map(|early| early.arrived);
        Some(early.payload)
    }

    fn is_full(&self) -> bool {
        self.early_bytes > EARLY_BYTES_MAX || self.early.len() >= EARLY_MAX
    }

    /// When the oldest gap is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.gap_since.map(|since| since + WAIT)
    }

    /// What did not come as it was sent, so far.
    pub fn disorder(&self) -> Disorder {
        self.disorder
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let payloads = self.early.iter().map(|early| early.payload.capacity());
        payloads.sum::<usize>() + self.early.capacity() * size_of::<Early>()
    }
}

#[cfg(feature = "handover")]
impl Reorder {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        let numbers = self.early.iter().map(|early| early.number);
        let bytes = self.early.iter().map(|early| early.payload.len());
        let Disorder { late, lost } = self.disorder;
        let next = self.next.unwrap_or(0);
        are_counts([next, late, lost, numbers.clone().max().unwrap_or(0)])
            && numbers.clone().is_sorted_by(|one, other| one < other)
            && numbers.min().is_none_or(|first| first >= next)
            && self.early_bytes == bytes.sum::<usize>()
            && self.early.len() <= EARLY_MAX
            && self.early_bytes <= EARLY_BYTES_MAX + usize::from(u16::MAX)
    }
}

#[cfg(feature = "handover")]
impl Disorder {
    /// Whether what was told of it can be: it is never more than this one, that came later.
    pub fn fits(&self, later: Disorder) -> bool {
        self.late <= later.late && self.lost <= later.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    fn drain(reorder: &mut Reorder, now: Instant) -> Vec<u8> {
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
        assert_eq!(reorder.disorder(), Disorder { late: 2, lost: 0 });
    }

    #[test]
    fn a_gap_is_waited_for_and_then_given_up() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        reorder.insert(4, b"4", at(10));
        assert_eq!(reorder.deadline(), Some(at(60)));
        assert_eq!(drain(&mut reorder, at(59)), b"");
        assert_eq!(drain(&mut reorder, at(60)), b"4");
        assert_eq!(reorder.disorder().lost, 2);
        assert_eq!(reorder.insert(3, b"3", at(61)), None);
        assert_eq!(reorder.insert(5, b"5", at(61)), Some(&b"5"[..]));
    }

    #[test]
    fn a_source_that_starts_anew_has_lost_nothing() {
        let mut sequence = super::super::Sequence::new(40_000);
        let mut reorder = Reorder::default();
        let mut got = Vec::new();
        for number in [40_000, 40_001, 3, 4, 6] {
            if let Some(number) = sequence.extend(number) {
                got.extend(reorder.insert(number, b"x", at(0)).map(<[u8]>::to_vec));
                got.extend(std::iter::from_fn(|| reorder.next(at(0))));
            }
        }
        assert_eq!((got.len(), reorder.disorder().lost), (3, 0));
        // Nothing more comes.
        assert_eq!(reorder.finish(), Some(b"x".to_vec()));
        assert_eq!((reorder.finish(), reorder.disorder().lost), (None, 1));
    }

    /// Numbers so far ahead or further are those of a source that begins anew; all before are lost.
    #[test]
    fn what_is_lost_is_counted_up_to_where_a_source_begins_anew() {
        for (ahead, lost) in [(1, 1), (ANEW - 1, ANEW - 1), (ANEW, 0), (ANEW + 1, 0)] {
            let mut reorder = Reorder::default();
            reorder.insert(1, b"1", at(0));
            reorder.insert(2 + ahead, b"x", at(0));
            assert_eq!(drain(&mut reorder, at(50)), b"x");
            assert_eq!(reorder.disorder(), Disorder { late: 0, lost }, "{ahead}");
        }
    }

    /// Behind a gap there wait so many packets and so many bytes, and with one more of either
    /// nothing is waited for.
    #[test]
    fn what_waits_is_as_much_as_there_is_room_for() {
        const HALF: usize = EARLY_BYTES_MAX / 2;
        for (packets, payload_bytes, waits) in [
            (EARLY_MAX as u64 - 1, 1, true),
            (EARLY_MAX as u64, 1, false),
            (2, HALF, true),
            (2, HALF + 1, false),
            (3, HALF, false),
        ] {
            let mut reorder = Reorder::default();
            let payload = vec![7; payload_bytes];
            reorder.insert(1, b"1", at(0));
            for number in 3..3 + packets {
                reorder.insert(number, &payload, at(0));
            }
            let held_bytes = packets as usize * (payload_bytes + size_of::<Early>());
            assert!(reorder.held_bytes() >= held_bytes, "{packets}");
            let payload = reorder.next(at(0));
            assert_eq!(payload.is_none(), waits, "{packets} of {payload_bytes}");
        }
    }

    /// What another process tells is taken at its bounds, and not behind one of them.
    #[cfg(feature = "handover")]
    #[test]
    fn what_is_told_of_it_has_its_bounds() {
        use crate::handover::COUNT_MAX;
        type Told = fn(&mut Reorder);
        // So many packets are early, of so many bytes each.
        fn early(reorder: &mut Reorder, packets: u64, payload_bytes: usize) {
            let each = |number| Early {
                number,
                payload: vec![1; payload_bytes],
                arrived: at(0),
            };
            reorder.early = (10..10 + packets).map(each).collect();
            reorder.early_bytes = packets as usize * payload_bytes;
        }
        const LARGEST: usize = EARLY_BYTES_MAX + 65_535;
        let told: [(Told, bool); 19] = [
            (|_| {}, true),
            (|reorder| reorder.next = Some(COUNT_MAX), true),
            (|reorder| reorder.next = Some(COUNT_MAX + 1), false),
            (|reorder| reorder.disorder.late = COUNT_MAX + 1, false),
            (|reorder| reorder.disorder.lost = COUNT_MAX + 1, false),
            (|reorder| early(reorder, 3, 7), true),
            (
                |reorder| (early(reorder, 3, 7), reorder.early[2].number = COUNT_MAX).1,
                true,
            ),
            (
                |reorder| {
                    (
                        early(reorder, 3, 7),
                        reorder.early[2].number = COUNT_MAX + 1,
                    )
                        .1
                },
                false,
            ),
            // In no order, or twice.
            (
                |reorder| (early(reorder, 3, 7), reorder.early[1].number = 13).1,
                false,
            ),
            (
                |reorder| (early(reorder, 3, 7), reorder.early[1].number = 10).1,
                false,
            ),
            // Not early any more.
            (
                |reorder| (early(reorder, 3, 7), reorder.next = Some(10)).1,
                true,
            ),
            (
                |reorder| (early(reorder, 3, 7), reorder.next = Some(11)).1,
                false,
            ),
            (
                |reorder| (early(reorder, 3, 7), reorder.early_bytes = 20).1,
                false,
            ),
            (
                |reorder| (early(reorder, 3, 7), reorder.early_bytes = 22).1,
                false,
            ),
            (|reorder| early(reorder, EARLY_MAX as u64, 7), true),
            (|reorder| early(reorder, EARLY_MAX as u64 + 1, 7), false),
            (|reorder| early(reorder, 1, LARGEST), true),
            (|reorder| early(reorder, 1, LARGEST + 1), false),
            (|reorder| reorder.early_bytes = 1, false),
        ];
        for (index, (tell, fits)) in told.into_iter().enumerate() {
            let mut reorder = Reorder::default();
            tell(&mut reorder);
            assert_eq!(reorder.fits(), fits, "{index}");
        }
        // What was counted of it is never more than what there is.
        let there = Disorder { late: 3, lost: 5 };
        for (late, lost, fits) in [(3, 5, true), (0, 0, true), (4, 5, false), (3, 6, false)] {
            assert_eq!(Disorder { late, lost }.fits(there), fits, "{late}, {lost}");
        }
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

    /// Whatever comes, in whatever order, and however large: what waits is bounded in bytes that
    /// are really held.
    #[test]
    fn the_window_is_bounded_in_bytes() {
        let held_bytes_max = EARLY_BYTES_MAX + (64 << 10) + EARLY_MAX * size_of::<Early>();
        for payload_bytes in [1, 188, 1_316, 9_000, 65_000] {
            let payload = vec![7; payload_bytes];
            for step in [2, 2_999] {
                let mut reorder = Reorder::default();
                let (mut handed_on, mut last) = (0, None);
                reorder.insert(1, &payload, at(0));
                for number in 0..5_000_u64 {
                    // In pairs that come backwards, each behind a gap.
                    reorder.insert(3 + step * (number ^ 1), &payload, at(0));
                    assert!(reorder.held_bytes() <= held_bytes_max);
                    while let Some(payload) = reorder.next(at(0)) {
                        handed_on += payload.len();
                        assert!(reorder.next > last, "not in order");
                        last = reorder.next;
                    }
                }
                assert!(reorder.early_bytes <= EARLY_BYTES_MAX);
                assert!(handed_on > 0 && reorder.disorder().lost > 0);
            }
        }
    }
}
