//! Arrival times of packets, as the program clock gives them (ISO/IEC 13818-1 sections 2.4.2.2 and
//! 2.7.2), and when the clock is repeated.
//!
//! A unit begins to arrive [`MARGIN`] before it is decoded, or when the previous one has arrived.
//! Its decoder's buffer sets the time that it takes. So a large picture is spread over some
//! milliseconds, and no buffer overflows that the stream itself would not overflow. The writer does
//! not wait: only the clock says so.

use crate::remux::medium::MILLISECOND;

/// Time from the beginning of a unit's arrival to its decoding. Sound of a high bit rate begins
/// later, when its buffer has room. A picture of 150 kB arrives in this time at 12 Mbit/s.
pub(super) const MARGIN: i64 = 100 * MILLISECOND;

/// After this time the clock is repeated with the next packet of its own PID.
const REFERENCE_SOON: i64 = 30 * MILLISECOND;
/// After this time the clock is repeated in a packet of its own.
const REFERENCE_NOW: i64 = 60 * MILLISECOND;
/// After this time the clock is repeated even if nothing else comes. At most 100 ms are allowed.
pub(super) const REFERENCE_GAP: i64 = 80 * MILLISECOND;
/// If the clock is due this shortly before a unit, it comes with the unit.
const GAP_GRACE: i64 = 8 * MILLISECOND;
/// Distance of repeated tables: at least ten times a second (ETSI TR 101 290 wants them twice).
const TABLES_EVERY: i64 = 90 * MILLISECOND;
/// Time of each table packet: twice as fast as its buffer empties (1 Mbit/s in ISO/IEC 13818-1
/// section 2.4.2.3).
const TABLE_TIME: i64 = MILLISECOND * 3 / 4;
/// Longest distance of repeated tables.
const TABLES_LATE: i64 = 100 * MILLISECOND;

/// Clock of the multiplex, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct MultiplexClock {
    /// Arrival time of the next packet.
    pub now: i64,
    /// Time of the newest reference.
    referred: Option<i64>,
    /// Time of the newest tables.
    pub tables: Option<i64>,
    /// Distances of the units of the leading stream.
    leading: Spacing,
    /// Distances of all units.
    all: Spacing,
    /// Whether packets of another PID have come since the newest reference. A reference must follow
    /// them, since packets between two references arrive evenly (section 2.4.2.2), and pictures come
    /// faster than sound may.
    pub has_others: bool,
}

/// Distances of units.
#[derive(Debug, Default)]
struct Spacing {
    /// Beginning of the newest unit.
    newest: i64,
    /// Recent distance from one unit to the next.
    gap: i64,
}

impl Spacing {
    fn note(&mut self, now: i64) {
        let gap = now.saturating_sub(self.newest);
        self.gap = gap.max(self.gap - self.gap / 8);
        self.newest = now;
    }
}

impl MultiplexClock {
    /// Moves the clock by table packets. They take no longer than the packets of the following
    /// unit.
    pub fn pass_tables(&mut self, packet_time: i64, packets: usize) {
        let time = TABLE_TIME.min(packet_time).saturating_mul(packets as i64);
        self.now = self.now.saturating_add(time);
    }

    /// Begins a unit of the leading stream or of another one.
    pub fn begin_unit(&mut self, leads: bool) {
        self.all.note(self.now);
        if leads {
            self.leading.note(self.now);
        }
    }

    /// Returns the time of a reference, or of tables, that is due before a unit that begins at
    /// `target`.
    pub fn next_due(&self, target: i64) -> Option<i64> {
        let reference = self.referred?.saturating_add(REFERENCE_GAP);
        let tables = self
            .tables
            .map_or(i64::MAX, |last| last.saturating_add(TABLES_EVERY));
        let next = reference.min(tables).max(self.now);
        (next.saturating_add(GAP_GRACE) < target).then_some(next)
    }

    /// Returns whether the tables are due now, if nothing else comes.
    pub fn needs_tables(&self) -> bool {
        let age = |last| self.now.saturating_sub(last);
        self.tables.is_none_or(|last| age(last) >= TABLES_EVERY)
    }

    /// Returns whether the tables are due before this unit, which takes `arrives_in`, so that they
    /// are not late with the next one. Their best place is with a reference, thus with the leading
    /// stream.
    pub fn wants_tables(&self, leads: bool, arrives_in: i64) -> bool {
        let (gap, every) = if leads {
            (self.leading.gap, TABLES_EVERY)
        } else {
            (self.all.gap, TABLES_LATE)
        };
        self.tables.is_none_or(|last| {
            let next = self.now.saturating_add(gap.max(arrives_in).min(every));
            next.saturating_sub(last) > every
        })
    }

    /// Returns whether a reference is due with a packet of its PID.
    pub fn wants_reference(&self) -> bool {
        self.has_others || self.is_older_than(REFERENCE_SOON)
    }

    /// Returns whether a reference is due in a packet of its own.
    pub fn needs_reference(&self) -> bool {
        self.is_older_than(REFERENCE_NOW)
    }

    /// Returns the reference field of six bytes.
    pub fn reference(&mut self) -> [u8; 6] {
        self.referred = Some(self.now);
        self.has_others = false;
        // Below 2^63 · 27.
        let ticks = i128::from(self.now) * 27 / 1000;
        let base = (ticks.div_euclid(300) & 0x1_ffff_ffff) as u64;
        let extension = ticks.rem_euclid(300) as u64;
        let field = base << 15 | 0x3f << 9 | extension;
        let [_, _, field @ ..] = field.to_be_bytes();
        field
    }

    fn is_older_than(&self, age: i64) -> bool {
        self.referred
            .is_none_or(|last| self.now.saturating_sub(last) >= age)
    }
}

/// Returns the time of a packet at this bit rate: at least a nanosecond.
pub(super) fn packet_time(bits_per_second: u64) -> i64 {
    const PACKET_BITS: u64 = 188 * 8;
    (PACKET_BITS * 1_000_000_000 / bits_per_second.max(1)).clamp(1, 1_000_000_000) as i64
}

/// Bit rate at which the transport buffer of sound with up to two channels empties (ISO/IEC 13818-1
/// section 2.4.2.3).
pub(super) const SOUND_BITS: u64 = 2_000_000;
/// The same for AAC with more channels.
pub(super) const MANY_CHANNELS_BITS: u64 = 5_529_600;

/// Returns the highest bit rate of H.264 at this level, in NAL units (ITU-T H.264 table A-1).
pub(super) fn h264_bits(profile: u8, level: u8) -> u64 {
    let kilobits = match level {
        ..=10 => 64,
        11 => 192,
        12 => 384,
        13 => 768,
        20 => 2_000,
        21 | 22 => 4_000,
        30 => 10_000,
        31 => 14_000,
        32 | 40 => 20_000,
        41 | 42 => 50_000,
        50 => 135_000,
        _ => 240_000,
    };
    // High and the profiles above it: a quarter more.
    kilobits * if profile >= 100 { 1_500 } else { 1_200 }
}

/// Returns the same for H.265, of its main tier (ITU-T H.265 table A.8).
pub(super) fn h265_bits(level: u8) -> u64 {
    let kilobits = match level {
        ..=30 => 128,
        31..=60 => 1_500,
        61..=63 => 3_000,
        64..=90 => 6_000,
        91..=93 => 10_000,
        94..=120 => 12_000,
        121..=123 => 20_000,
        124..=150 => 25_000,
        151..=153 => 40_000,
        154..=180 => 60_000,
        181..=183 => 120_000,
        _ => 240_000,
    };
    kilobits * 1_100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_field_has_base_and_extension() {
        let mut clock = MultiplexClock {
            now: 1_000_000_000,
            ..MultiplexClock::default()
        };
        // 90,000 in 33 bits, six set bits, and 0 in nine.
        assert_eq!(clock.reference(), [0x00, 0x00, 0xaf, 0xc8, 0x7e, 0x00]);
        assert!(!clock.wants_reference());
        clock.now = 1_000_000_000 + 30 * MILLISECOND;
        assert!(clock.wants_reference() && !clock.needs_reference());
    }

    #[test]
    fn the_reference_field_wraps() {
        let mut clock = MultiplexClock {
            // 2^33 ticks of 90 kHz.
            now: (1i64 << 33) * 100_000 / 9 + 1,
            ..MultiplexClock::default()
        };
        assert_eq!(clock.reference(), [0, 0, 0, 0, 0x7e, 0]);
    }
}
