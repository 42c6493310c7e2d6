//! Puts packets in order. Early packets wait for missing ones, for a limited time and up to a
//! limited size.
//!
//! A source can send anything, so memory is counted: at most [`EARLY_BYTES_MAX`] of waiting
//! packets, one more datagram (64 KiB), and [`EARLY_MAX`] places, which also limits the cost of a
//! search. That is 0.7 MiB for a source.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use crate::time::Instant;

/// The packets between the next one in order and the newest one.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Reorder {
    /// Number of the next packet in order; `None` before the first packet.
    next: Option<u64>,
    /// Packets that came early. Their numbers ascend and are not below `next`.
    early: VecDeque<Early>,
    /// Bytes of the early payloads.
    early_bytes: usize,
    /// When the gap at `next` began; `None` if no packet is early.
    gap_since: Option<Instant>,
    disorder: Disorder,
}

/// Counters of packets out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub struct Disorder {
    /// Packets that came too late, or twice.
    pub late: u64,
    /// Packets that did not come in time.
    pub lost: u64,
}

#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Early {
    /// Extended sequence number.
    number: u64,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    payload: Vec<u8>,
    arrived: Instant,
}

/// A missing packet has this time to arrive. A limit on bytes alone would stall slow audio for a
/// second.
const WAIT: Duration = Duration::from_millis(50);
/// Largest size of waiting packets: enough for a source of 80 Mbit/s.
const EARLY_BYTES_MAX: usize = 512 * 1024;
/// A source that restarts its numbers continues at least this far ahead ([`super::Sequence`]). Such
/// a gap counts no losses.
const ANEW: u64 = 1 << 16;
/// Largest number of waiting packets.
const EARLY_MAX: usize = 1024;

impl Reorder {
    /// Adds a packet. Returns its payload if it is the next one and none waits. Then call
    /// [`Reorder::next`] until it returns `None`, or again at [`Reorder::deadline`].
    pub fn insert<'a>(&mut self, number: u64, payload: &'a [u8], now: Instant) -> Option<&'a [u8]> {
        let next = *self.next.get_or_insert(number);
        if number == next && self.early.is_empty() {
            self.next = Some(next.wrapping_add(1));
            return Some(payload);
        }
        match self
            .early
            .binary_search_by_key(&number, |early| early.number)
        {
            // It counts as lost when its turn has come.
            Err(_) if number >= next && self.is_full() => {}
            Err(place) if number >= next => {
                self.gap_since.get_or_insert(now);
                self.early_bytes += payload.len();
                let early = Early {
                    number,
                    payload: payload.to_vec(),
                    arrived: now,
                };
                self.early.insert(place, early);
            }
            // It is there already, or its turn is over.
            Ok(_) | Err(_) => self.disorder.late = self.disorder.late.saturating_add(1),
        }
        None
    }

    /// Returns the next payload in order. Gives a gap up if it is too old, or if too much waits.
    pub fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        let missing = self.missing()?;
        let is_late = self.deadline().is_some_and(|deadline| deadline <= now);
        if (1..ANEW).contains(&missing) && !is_late && !self.is_full() {
            return None;
        }
        let early = self.early.pop_front()?;
        let lost = if missing < ANEW { missing } else { 0 };
        self.disorder.lost = self.disorder.lost.saturating_add(lost);
        self.next = Some(early.number.wrapping_add(1));
        self.early_bytes -= early.payload.len();
        // The next gap began when the packet after it arrived.
        self.gap_since = self.early.front().map(|early| early.arrived);
        Some(early.payload)
    }

    /// Drops the early packets. They count as lost.
    pub fn clear(&mut self) {
        let lost = self.early.len() as u64;
        self.disorder.lost = self.disorder.lost.saturating_add(lost);
        self.early = VecDeque::new();
        self.early_bytes = 0;
        self.gap_since = None;
    }

    fn is_full(&self) -> bool {
        self.early_bytes > EARLY_BYTES_MAX || self.early.len() >= EARLY_MAX
    }

    /// Returns the number of packets missing in front of the first early one.
    fn missing(&self) -> Option<u64> {
        let first = self.early.front()?.number;
        Some(first.saturating_sub(self.next.unwrap_or(first)))
    }

    /// Returns when the oldest gap is given up. It is in the past if a packet is in order.
    pub fn deadline(&self) -> Option<Instant> {
        let wait = match self.missing() {
            Some(0) => Duration::ZERO,
            _ => WAIT,
        };
        self.gap_since.map(|since| since + wait)
    }

    /// Returns the counters.
    pub fn disorder(&self) -> Disorder {
        self.disorder
    }

    /// Returns whether a state from another process is valid.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        let bytes = self.early.iter().map(|early| early.payload.len());
        self.early_bytes == bytes.sum::<usize>()
            && self.early.len() <= EARLY_MAX
            && self.early_bytes <= EARLY_BYTES_MAX + usize::from(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at_milliseconds as at;

    fn drain(reorder: &mut Reorder, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| reorder.next(now)).flatten().collect()
    }

    #[test]
    fn packets_in_order_are_not_kept() {
        let mut reorder = Reorder::default();
        assert_eq!(reorder.insert(7, b"a", at(0)), Some(&b"a"[..]));
        assert_eq!(reorder.insert(8, b"b", at(0)), Some(&b"b"[..]));
        assert_eq!(reorder.deadline(), None);
    }

    #[test]
    fn packets_are_put_in_order_and_repeats_dropped() {
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
    fn a_restarted_source_has_lost_nothing() {
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
        // At the end of the stream.
        reorder.clear();
        assert_eq!((reorder.next(at(9)), reorder.deadline()), (None, None));
        assert_eq!(reorder.disorder().lost, 1);
    }

    /// A source that restarts continues far ahead, and the numbers in between are not lost.
    #[test]
    fn losses_are_counted_up_to_a_restart() {
        for (ahead, lost) in [(1, 1), (ANEW - 1, ANEW - 1), (ANEW, 0), (ANEW + 1, 0)] {
            let mut reorder = Reorder::default();
            reorder.insert(1, b"1", at(0));
            reorder.insert(2 + ahead, b"x", at(0));
            assert_eq!(drain(&mut reorder, at(50)), b"x");
            assert_eq!(reorder.disorder(), Disorder { late: 0, lost }, "{ahead}");
        }
    }

    /// At the limits of packets and bytes the gap stays open, and one more of either closes it.
    #[test]
    fn packets_wait_up_to_the_limits() {
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
            let payload = reorder.next(at(0));
            assert_eq!(payload.is_none(), waits, "{packets} of {payload_bytes}");
        }
    }

    /// The caller may leave packets that are in order for later.
    #[test]
    fn packets_in_order_are_due_at_once() {
        let mut reorder = Reorder::default();
        reorder.insert(1, b"1", at(0));
        reorder.insert(3, b"3", at(1));
        reorder.insert(4, b"4", at(2));
        assert_eq!(reorder.deadline(), Some(at(51)));
        reorder.insert(2, b"2", at(3));
        for expected in [b"2", b"3", b"4"] {
            assert!(reorder.deadline() <= Some(at(3)));
            assert_eq!(reorder.next(at(3)).as_deref(), Some(&expected[..]));
        }
        assert_eq!((reorder.deadline(), reorder.next(at(3))), (None, None));
    }

    /// Also if the caller takes none.
    #[test]
    fn a_packet_without_room_is_lost() {
        let payload = vec![7; 60_000];
        let mut reorder = Reorder::default();
        reorder.insert(1, &payload, at(0));
        for number in 3..100 {
            reorder.insert(number, &payload, at(0));
            assert!(reorder.early_bytes <= EARLY_BYTES_MAX + payload.len());
        }
        while reorder.next(at(50)).is_some() {}
        reorder.insert(100, &payload, at(50));
        reorder.insert(101, &payload, at(50));
        while reorder.next(at(100)).is_some() {}
        assert_eq!(reorder.disorder().lost, 1 + 100 - 3 - 9);
    }

    /// States at the limits are valid, and states beyond them are not.
    #[cfg(feature = "handover")]
    #[test]
    fn a_state_from_another_process_is_checked_at_its_limits() {
        type Told = fn(&mut Reorder);
        // Adds early packets of this size.
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
        let told: [(Told, bool); 9] = [
            (|_| {}, true),
            (|reorder| early(reorder, 3, 7), true),
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
            assert_eq!(reorder.is_valid(), fits, "{index}");
        }
    }

    /// Packets in reverse order do not keep a gap open.
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

    /// The memory stays bounded for packets of any order and size.
    #[test]
    fn the_window_is_bounded_in_bytes() {
        let memory_bytes_max = EARLY_BYTES_MAX + (64 << 10);
        for payload_bytes in [1, 188, 1_316, 9_000, 65_000] {
            let payload = vec![7; payload_bytes];
            for step in [2, 2_999] {
                let mut reorder = Reorder::default();
                let (mut handed_on, mut last) = (0, None);
                reorder.insert(1, &payload, at(0));
                for number in 0..5_000_u64 {
                    // In swapped pairs, each after a gap.
                    reorder.insert(3 + step * (number ^ 1), &payload, at(0));
                    let payloads = reorder.early.iter().map(|early| early.payload.capacity());
                    assert!(payloads.sum::<usize>() <= memory_bytes_max);
                    assert!(reorder.early.len() <= EARLY_MAX);
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
