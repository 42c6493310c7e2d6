//! Sequence numbers: which source is real, and how its numbers go on past 65,535 (RFC 3550 appendix
//! A.1).

#[cfg(feature = "handover")]
use crate::handover::are_counts;

/// A source that has sent one packet. Two in sequence make it a real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probation {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// The number of its newest packet.
    pub sequence_number: u16,
}

impl Probation {
    /// Whether another packet follows on this one.
    pub fn is_followed_by(&self, ssrc: u32, sequence_number: u16) -> bool {
        self.ssrc == ssrc && self.sequence_number.wrapping_add(1) == sequence_number
    }
}

/// The numbers of a source that is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Sequence {
    /// The highest that was seen, extended by how often the numbers wrapped.
    highest: u64,
    /// Where the source would go on if it has started anew: two packets in sequence say so.
    restart: Option<u16>,
}

/// A jump ahead of so many numbers or more, or back of so many, is not loss or disorder.
const DROPOUT_MAX: u16 = 3_000;
const MISORDER_MAX: u16 = 100;

impl Sequence {
    /// The numbers of a source whose newest packet has this one.
    pub fn new(sequence_number: u16) -> Sequence {
        // Not from zero, so that what came just before has a number too.
        Sequence {
            highest: (1 << 16) + u64::from(sequence_number),
            restart: None,
        }
    }

    /// The extended number of a packet; `None` if it is not in any sequence with the others. A
    /// source that has started its numbers anew is followed with its second packet.
    pub fn extend(&mut self, sequence_number: u16) -> Option<u64> {
        let ahead = sequence_number.wrapping_sub(self.highest as u16);
        if ahead < DROPOUT_MAX {
            self.highest += u64::from(ahead);
            self.restart = None;
            return Some(self.highest);
        }
        let behind = ahead.wrapping_neg();
        if behind <= MISORDER_MAX {
            return self.highest.checked_sub(u64::from(behind));
        }
        if self.restart == Some(sequence_number) {
            // Past everything so far, so that it counts as new.
            self.highest = (((self.highest >> 16) + 2) << 16) + u64::from(sequence_number);
            self.restart = None;
            return Some(self.highest);
        }
        self.restart = Some(sequence_number.wrapping_add(1));
        None
    }
}

#[cfg(feature = "handover")]
impl Sequence {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        are_counts([self.highest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_past_the_wrap_and_back_over_it() {
        let mut sequence = Sequence::new(65_534);
        let base = (1 << 16) + 65_534;
        assert_eq!(sequence.extend(65_535), Some(base + 1));
        assert_eq!(sequence.extend(1), Some(base + 3));
        assert_eq!(sequence.extend(0), Some(base + 2));
        assert_eq!(sequence.extend(65_533), Some(base - 1));
        assert_eq!(sequence.extend(2), Some(base + 4));
    }

    #[test]
    fn a_restart_takes_two_packets_in_sequence() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.extend(30_000), None);
        assert_eq!(sequence.extend(40_000), None);
        let highest = sequence.extend(11).expect("the old sequence goes on");
        assert_eq!(sequence.extend(50_000), None);
        assert!(sequence.extend(50_001).expect("a restart") > highest);
    }

    /// So many may be lost, and so many come late; what is further away is another sequence.
    #[test]
    fn what_is_near_is_in_sequence() {
        for first in [30_000_u16, 1_000, 65_000, 50] {
            let base = (1 << 16) + u64::from(first);
            for (away, is_near) in [
                (2_999_i64, true),
                (3_000, false),
                (-100, true),
                (-101, false),
            ] {
                let mut sequence = Sequence::new(first);
                let number = sequence.extend(first.wrapping_add(away as u16));
                let expected = is_near.then(|| base.wrapping_add_signed(away));
                assert_eq!(number, expected, "{away} from {first}");
            }
        }
    }

    /// However often a source starts anew, its packets count as new, and keep their numbers.
    #[test]
    fn every_restart_goes_on_further_ahead() {
        let mut sequence = Sequence::new(9);
        let mut highest = sequence.extend(10).expect("in sequence");
        for restart in 1..10_000_u32 {
            let begins = (restart * 20_000 % 65_536) as u16;
            assert_eq!(sequence.extend(begins), None);
            let second = begins.wrapping_add(1);
            let number = sequence.extend(second).expect("a restart");
            // Nothing is waited for that far ahead; and there is room for very many of them.
            assert!((highest + 65_536..highest + 3 * 65_536).contains(&number));
            assert_eq!(number as u16, second);
            highest = number;
        }
    }

    /// What another process tells is taken as long as numbers can go on from there.
    #[cfg(feature = "handover")]
    #[test]
    fn what_is_told_of_it_has_its_bounds() {
        for (highest, fits) in [(0, true), (u64::MAX / 4, true), (u64::MAX / 4 + 1, false)] {
            let restart = Some(3);
            assert_eq!(Sequence { highest, restart }.fits(), fits, "{highest}");
        }
    }
}
