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
            self.highest = ((self.highest >> 16) + 2) << 16 | u64::from(sequence_number);
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
}
