//! Sequence numbers of 16 bits, and how they are extended (RFC 3550 appendix A.1).

/// Sequence numbers of an accepted source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Sequence {
    /// The highest number so far, extended by the number of wraps.
    highest: u64,
    /// The number that comes next if the source has restarted. A second packet in sequence confirms
    /// it.
    restart: Option<u16>,
}

/// A larger jump ahead is no loss, but a restart.
const DROPOUT_MAX: u16 = 3_000;
const MISORDER_MAX: u16 = 100;

impl Sequence {
    /// Returns the state for a source with this newest packet.
    pub fn new(sequence_number: u16) -> Sequence {
        // Begins above zero, so that earlier packets have numbers, too.
        Sequence {
            highest: (1 << 16) + u64::from(sequence_number),
            restart: None,
        }
    }

    /// Returns the extended number of a packet; `None` if it is out of sequence. A restarted source
    /// is accepted with its second packet.
    pub fn extend(&mut self, sequence_number: u16) -> Option<u64> {
        let ahead = sequence_number.wrapping_sub(self.highest as u16);
        if ahead < DROPOUT_MAX {
            self.highest = self.highest.wrapping_add(u64::from(ahead));
            self.restart = None;
            return Some(self.highest);
        }
        let after = ahead.wrapping_neg();
        if after <= MISORDER_MAX {
            return self.highest.checked_sub(u64::from(after));
        }
        if self.restart == Some(sequence_number) {
            // Above all numbers so far, so that the packet counts as new.
            self.highest = (((self.highest >> 16) + 2) << 16) + u64::from(sequence_number);
            self.restart = None;
            return Some(self.highest);
        }
        self.restart = Some(sequence_number.wrapping_add(1));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_continue_across_the_wrap() {
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

    /// Losses and late packets within the limits are in sequence, and packets beyond them are not.
    #[test]
    fn packets_within_the_limits_are_in_sequence() {
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

    /// However often a source restarts, its packets count as new, and keep their lower 16 bits.
    #[test]
    fn every_restart_continues_further_ahead() {
        let mut sequence = Sequence::new(9);
        let mut highest = sequence.extend(10).expect("in sequence");
        for restart in 1..10_000_u32 {
            let begins = (restart * 20_000 % 65_536) as u16;
            assert_eq!(sequence.extend(begins), None);
            let second = begins.wrapping_add(1);
            let number = sequence.extend(second).expect("a restart");
            // Reorder does not wait over such a jump, and there is space for very many of them.
            assert!((highest + 65_536..highest + 3 * 65_536).contains(&number));
            assert_eq!(number as u16, second);
            highest = number;
        }
    }
}
