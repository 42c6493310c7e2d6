//! Time on the clock of a media source.

/// Decoding time in the unit of MPEG-TS: ticks of 90 kHz in 33 bits, which wrap after 26 hours.
/// Times of other containers are converted.
///
/// Comparisons take the shorter way round, so two times must be less than 13 hours apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(from = "u64"))]
pub struct MediaTime(u64);

impl MediaTime {
    /// 90 kHz.
    pub const TICKS_PER_SECOND: u32 = 90_000;
    const BITS: u32 = 33;

    /// Returns the time after `ticks`, which wrap at 2^33.
    pub fn from_ticks(ticks: u64) -> MediaTime {
        MediaTime(ticks & ((1 << MediaTime::BITS) - 1))
    }

    /// Converts a time of a clock with `ticks_per_second`; `None` if that is zero.
    pub fn of_clock(time: u64, ticks_per_second: u32) -> Option<MediaTime> {
        let ticks = u128::from(time) * u128::from(MediaTime::TICKS_PER_SECOND);
        let ticks = ticks.checked_div(u128::from(ticks_per_second))?;
        Some(MediaTime::from_ticks(ticks as u64))
    }

    /// Returns the ticks, below 2^33.
    pub fn ticks(self) -> u64 {
        self.0
    }

    /// Returns the time `ticks` later.
    pub fn after(self, ticks: u64) -> MediaTime {
        MediaTime::from_ticks(self.0.wrapping_add(ticks))
    }

    /// Returns the ticks from `other` to this time; negative if this time is earlier.
    pub fn since(self, other: MediaTime) -> i64 {
        let unused = u64::BITS - MediaTime::BITS;
        // The highest bit of the 33 becomes the sign.
        (self.0.wrapping_sub(other.0) << unused) as i64 >> unused
    }
}

#[cfg(feature = "handover")]
impl From<u64> for MediaTime {
    fn from(ticks: u64) -> MediaTime {
        MediaTime::from_ticks(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_take_the_shorter_way_round() {
        let newest = MediaTime::from_ticks(u64::MAX);
        assert_eq!(newest.ticks(), (1 << 33) - 1);
        assert_eq!(newest.after(3).ticks(), 2);
        assert_eq!(newest.after(3).since(newest), 3);
        assert_eq!(newest.since(newest.after(3)), -3);
        assert_eq!(newest.after(1 << 32).since(newest), -(1 << 32));
    }

    #[test]
    fn a_time_has_33_bits() {
        for (ticks, kept) in [
            (0, 0),
            (90_000, 90_000),
            ((1 << 33) - 1, (1 << 33) - 1),
            (1 << 33, 0),
            ((1 << 34) + 7, 7),
        ] {
            assert_eq!(MediaTime::from_ticks(ticks).ticks(), kept);
            assert_eq!(
                MediaTime::from_ticks(1).after(ticks).ticks(),
                (kept + 1) % (1 << 33)
            );
            #[cfg(feature = "handover")]
            assert_eq!(MediaTime::from(ticks).ticks(), kept);
        }
    }

    #[test]
    fn other_clocks_are_converted_and_their_largest_times_overflow_nothing() {
        let second = Some(MediaTime::from_ticks(90_000));
        assert_eq!(MediaTime::of_clock(12_800, 12_800), second);
        assert_eq!(MediaTime::of_clock(1, 0), None);
        assert!(MediaTime::of_clock(u64::MAX, 1).is_some());
        // 26 hours and a second on a clock that does not begin again.
        let later = MediaTime::of_clock((1 << 33) + 90_000, 90_000);
        assert_eq!(later, second);
    }
}
