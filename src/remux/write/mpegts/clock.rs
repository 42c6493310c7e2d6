//! When each packet arrives at the decoder, as the program clock tells it (ISO/IEC 13818-1 sections
//! 2.4.2.2 and 2.7.2), and when it is told again.
//!
//! A unit begins to arrive [`MARGIN`] before it is decoded, or when the one before has arrived, and
//! takes as long as its decoder's buffer lets it in: so a big picture is spread over some
//! milliseconds, and no buffer runs over that the stream itself would not run over. Nothing waits
//! for that; it is what the clock says, not what the writer does.

/// So long before it is decoded a unit begins to arrive; sound of many bits a second later, when
/// its buffer has room. A picture of 150 kB arrives in it at 12 Mbit/s.
pub(super) const MARGIN: i64 = 100 * MILLISECOND;
pub(super) const MILLISECOND: i64 = 1_000_000;

/// The clock is told anew with the next packet of its own PID,
const REFERENCE_SOON: i64 = 30 * MILLISECOND;
/// with a packet of its own,
const REFERENCE_NOW: i64 = 60 * MILLISECOND;
/// and, where nothing comes, so often. Told are at most 100 ms from one to the next.
pub(super) const REFERENCE_GAP: i64 = 80 * MILLISECOND;
/// What is due so shortly before a unit comes with it.
const GAP_GRACE: i64 = 8 * MILLISECOND;
/// Tables are repeated so often: ten times a second at least (ETSI TR 101 290 wants them twice).
const TABLES_EVERY: i64 = 90 * MILLISECOND;
/// Each of their packets: twice what leaves their buffer in that time (ISO/IEC 13818-1 section
/// 2.4.2.3 has 1 Mbit/s).
const TABLE_TIME: i64 = MILLISECOND * 3 / 4;
/// Later they are late.
const TABLES_LATE: i64 = 100 * MILLISECOND;

/// The multiplex's clock, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// When the next packet arrives.
    pub now: i64,
    /// When it was told last.
    referred: Option<i64>,
    /// When the tables came last.
    tables: Option<i64>,
    /// Of what leads, and of all.
    leading: Pace,
    all: Pace,
    /// Since it was told packets came that do not tell it.
    has_others: bool,
}

/// How units follow each other.
#[derive(Debug, Default)]
struct Pace {
    /// When the newest began.
    newest: i64,
    /// How long it was, lately, from one to the next.
    gap: i64,
}

impl Pace {
    fn note(&mut self, now: i64) {
        let gap = now.saturating_sub(self.newest);
        self.gap = gap.max(self.gap - self.gap / 8);
        self.newest = now;
    }
}

impl Clock {
    /// A unit is at hand that is to begin at this time.
    pub fn move_to(&mut self, target: i64) {
        self.now = self.now.max(target);
    }

    /// So many packets of tables take a time of their own, but no longer than those of the unit
    /// that they stand before.
    pub fn pass_tables(&mut self, packet_time: i64, packets: usize) {
        let time = TABLE_TIME.min(packet_time).saturating_mul(packets as i64);
        self.now = self.now.saturating_add(time);
    }

    /// A unit is at hand, of the PID that tells the clock or of another one.
    pub fn begin_unit(&mut self, leads: bool) {
        self.all.note(self.now);
        if leads {
            self.leading.note(self.now);
        }
    }

    /// Where the clock, or the tables, are to be told in between, on the way to a unit that begins
    /// later.
    pub fn way_to(&self, target: i64) -> Option<i64> {
        let reference = self.referred?.saturating_add(REFERENCE_GAP);
        let tables = self
            .tables
            .map_or(i64::MAX, |told| told.saturating_add(TABLES_EVERY));
        let next = reference.min(tables).max(self.now);
        (next.saturating_add(GAP_GRACE) < target).then_some(next)
    }

    /// Whether the tables are due now, where nothing else comes.
    pub fn needs_tables(&self) -> bool {
        let age = |told| self.now.saturating_sub(told);
        self.tables.is_none_or(|told| age(told) >= TABLES_EVERY)
    }

    /// Whether the tables are due before the unit at hand, which takes so long to arrive, lest they
    /// come too late with the next. They stand best where the clock is told anyway: with what
    /// leads.
    pub fn wants_tables(&self, leads: bool, arrives_in: i64) -> bool {
        let (gap, every) = if leads {
            (self.leading.gap, TABLES_EVERY)
        } else {
            (self.all.gap, TABLES_LATE)
        };
        self.tables.is_none_or(|told| {
            let next = self.now.saturating_add(gap.max(arrives_in).min(every));
            next.saturating_sub(told) > every
        })
    }

    /// They say something else from now on.
    pub fn tables_changed(&mut self) {
        self.tables = None;
    }

    /// They have come.
    pub fn tables_told(&mut self) {
        self.tables = Some(self.now);
    }

    /// Packets of another PID have come: between them and what follows the clock is told, since
    /// what comes from one time that is told to the next comes evenly (section 2.4.2.2), and
    /// pictures come faster than sound may.
    pub fn pass_others(&mut self) {
        self.has_others = true;
    }

    /// Whether the clock is to be told with a packet of its PID.
    pub fn wants_reference(&self) -> bool {
        self.has_others || self.is_older_than(REFERENCE_SOON)
    }

    /// Whether it is to be told even with a packet of its own.
    pub fn needs_reference(&self) -> bool {
        self.is_older_than(REFERENCE_NOW)
    }

    /// Tells the clock: the field of six bytes.
    pub fn tell(&mut self) -> [u8; 6] {
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
            .is_none_or(|told| self.now.saturating_sub(told) >= age)
    }
}

/// How long a packet takes to arrive at so many bits a second: at least a nanosecond.
pub(super) fn packet_time(bits_per_second: u64) -> i64 {
    const PACKET_BITS: u64 = 188 * 8;
    (PACKET_BITS * 1_000_000_000 / bits_per_second.max(1)).clamp(1, 1_000_000_000) as i64
}

/// Out of the transport buffer of sound up to two channels (ISO/IEC 13818-1 section 2.4.2.3),
pub(super) const SOUND_BITS: u64 = 2_000_000;
/// and of AAC that has more.
pub(super) const MANY_CHANNELS_BITS: u64 = 5_529_600;

/// The most bits a second that H.264 has at this level, in NAL units (ITU-T H.264 table A-1).
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
    // High and what is above it: a quarter more.
    kilobits * if profile >= 100 { 1_500 } else { 1_200 }
}

/// The same for H.265, of its main tier (ITU-T H.265 table A.8).
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
    fn the_clock_is_told_in_its_field() {
        let mut clock = Clock {
            now: 1_000_000_000,
            ..Clock::default()
        };
        // 90,000 in 33 bits, six bits set, 0 in nine.
        assert_eq!(clock.tell(), [0x00, 0x00, 0xaf, 0xc8, 0x7e, 0x00]);
        assert!(!clock.wants_reference());
        clock.move_to(1_000_000_000 + 30 * MILLISECOND);
        assert!(clock.wants_reference() && !clock.needs_reference());
    }

    #[test]
    fn it_wraps() {
        let mut clock = Clock {
            // 2^33 ticks of 90 kHz.
            now: (1i64 << 33) * 100_000 / 9 + 1,
            ..Clock::default()
        };
        assert_eq!(clock.tell(), [0, 0, 0, 0, 0x7e, 0]);
    }
}
