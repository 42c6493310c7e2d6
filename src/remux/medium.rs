//! What readers hand to writers: tracks, and their access units one by one.
//!
//! A unit is one picture or one frame of sound, in one form per codec, whatever container it came
//! in; its bytes are lent. Units come in the order in which the source has them: a track's own
//! decode times never run back, but one track may be as far ahead of another as a fragment is long.

/// What a track carries: only what a writer can carry on is among them.
///
/// | codec | a unit | [`Track::setup`] |
/// |---|---|---|
/// | H.264 | NAL units behind lengths of 4 bytes, no delimiter | `avcC` that says 4 bytes |
/// | H.265 | the same | `hvcC`, the same |
/// | AV1 | a temporal unit: OBUs with sizes, no temporal delimiter | `av1C` |
/// | VP8 | a frame | `vpcC`, version and flags in front |
/// | VP9 | a frame or superframe | the same |
/// | AAC | a raw block without ADTS | AudioSpecificConfig |
/// | MPEG audio | a frame with its head, layer I to III | nothing |
/// | AC-3 | a frame | `dac3` |
/// | E-AC-3 | the frames of all substreams of one time | `dec3` |
/// | Opus | a packet, not self-delimited | `dOps` |
///
/// Parameter sets that the source sends in the stream stay in the units, in front of the picture;
/// [`Track::setup`] has the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264
    H264,
    /// H.265
    H265,
    /// AV1
    Av1,
    /// VP8
    Vp8,
    /// VP9
    Vp9,
    /// AAC
    Aac,
    /// MPEG-1 and MPEG-2 audio, layers I to III
    MpegAudio,
    /// AC-3
    Ac3,
    /// Enhanced AC-3
    Eac3,
    /// Opus
    Opus,
}

/// What is known of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// As the source calls it: PID, track number, track ID; of FLV 8 is sound and 9 is pictures.
    pub number: u64,
    /// What its units are.
    pub codec: Codec,
    /// Ticks a second of the clock in which the source counts its times, at least 1.
    pub clock: u32,
    /// The content of the codec's box in ISO BMFF, or its descriptor: see [`Codec`]. `None` until
    /// it is known; no unit of the track comes before that.
    pub setup: Option<Box<[u8]>>,
    /// Of its pictures or its sound; zeros until the setup is known, where only that tells.
    pub shape: Shape,
}

impl Track {
    /// Whether what a writer says of it is known: units may come.
    pub fn is_known(&self) -> bool {
        self.setup.is_some()
    }
}

impl Track {
    /// Whether a writer says the same of both.
    pub(super) fn is_alike(&self, other: &Track) -> bool {
        (self.codec, &self.setup, self.shape, self.is_known())
            == (other.codec, &other.setup, other.shape, other.is_known())
    }

    /// Whether all units that came of the old tracks are units of the new ones: others were added,
    /// or have become known.
    pub(super) fn are_more(old: &[Track], new: &[Track]) -> bool {
        let still = |(old, new): (&Track, &Track)| !old.is_known() || old.is_alike(new);
        old.len() <= new.len() && old.iter().zip(new).all(still)
    }
}

impl Codec {
    /// Whether it is of pictures; the others are of sound.
    pub fn is_video(self) -> bool {
        match self {
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 => true,
            Codec::Aac | Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 | Codec::Opus => false,
        }
    }
}

/// The size of pictures or what sound is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In pixels, as they are to be shown before their own form is taken into account.
    Pictures {
        /// From left to right
        width: u16,
        /// From top to bottom
        height: u16,
    },
    /// As it is coded: of AAC with replicated bands or parametric stereo what the core has.
    Sound {
        /// Samples a second of each channel
        rate: u32,
        /// 0 where only the coded sound tells
        channels: u8,
    },
}

/// A time in nanoseconds, on the source's own clock. Any container's clock survives it: what was
/// converted to it and is converted back is what it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// Nanoseconds.
    pub const SECOND: i64 = 1_000_000_000;
    /// A source whose times lie outside of this is let go: some 73 years, so that sums and
    /// differences of a few times overflow nothing.
    const MAX: i64 = i64::MAX / 4;

    /// So many ticks of a clock, rounded to the nearest; `None` of a clock that stands and of times
    /// out of all reason.
    pub fn of(ticks: i64, ticks_per_second: u32) -> Option<Time> {
        let (ticks, clock) = (i128::from(ticks), i128::from(ticks_per_second));
        let nanoseconds =
            (ticks * i128::from(Time::SECOND) * 2 + clock).checked_div_euclid(2 * clock);
        Time::from_nanoseconds(i64::try_from(nanoseconds?).ok()?)
    }

    /// `None` of times out of all reason.
    pub fn from_nanoseconds(nanoseconds: i64) -> Option<Time> {
        (nanoseconds.unsigned_abs() <= Time::MAX.unsigned_abs()).then_some(Time(nanoseconds))
    }

    /// Nanoseconds.
    pub fn nanoseconds(self) -> i64 {
        self.0
    }

    /// In ticks of a clock, rounded to the nearest; 0 of a clock that stands.
    pub fn ticks(self, ticks_per_second: u32) -> i64 {
        let doubled = 2 * i128::from(self.0) * i128::from(ticks_per_second);
        let second = i128::from(Time::SECOND);
        // Below 2^61 seconds-of-nanoseconds times 2^32 over 2^29.
        i64::try_from((doubled + second).div_euclid(2 * second)).unwrap_or(i64::MAX)
    }
}

/// A picture or a frame of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// The place of its track in the list that was told last.
    pub track: usize,
    /// When it is to be decoded: within a track never before the one that came before.
    pub decode: Time,
    /// When it is to be shown or heard: never before `decode`.
    pub present: Time,
    /// Decoding can begin with it. All sound says so.
    pub is_join: bool,
    /// In the form that [`Codec`] says: at least one, at most as many as the reader was told.
    pub bytes: &'a [u8],
}

/// What a reader says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderEvent<'a> {
    /// The tracks, all of them: at first, when another one shows, when a setup becomes known or
    /// changes, and when the source begins anew with others. At most [`TRACKS_MAX`].
    Tracks(&'a [Track]),
    /// The next unit.
    Unit(Unit<'a>),
    /// The tracks whose units are announced and have not come: bit N is of the track at place N of
    /// the list. Units of other tracks wait for them.
    Announced(u16),
    /// A track that cannot be carried: said once, when it shows.
    LeftOut {
        /// As [`Track::number`].
        number: u64,
        /// What it carries, as its container calls it; printable.
        codec: &'a str,
    },
}

impl ReaderEvent<'_> {
    /// What it costs to write this, as the number of bytes that cost as much to copy.
    pub fn work(&self) -> usize {
        match self {
            ReaderEvent::Unit(unit) => UNIT_WORK + unit.bytes.len(),
            ReaderEvent::Tracks(_) | ReaderEvent::Announced(_) | ReaderEvent::LeftOut { .. } => {
                UNIT_WORK
            }
        }
    }
}

/// The work that each unit makes, however small it is.
pub const UNIT_WORK: usize = 256;

/// More tracks of a source are left out.
pub const TRACKS_MAX: usize = 16;

/// Takes what a reader says, one thing at a time. An error ends the reader there: nothing more is
/// made of the bytes that it was fed.
pub type Sink<'a> = dyn FnMut(ReaderEvent<'_>) -> Result<(), Fault> + 'a;

/// The source is not understood (any more), and why. The reader says nothing more; the stream
/// itself is as good as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_containers_ticks_survive() {
        for clock in [1000, 44_100, 48_000, 90_000, 10_000_000, 27_000_000] {
            for ticks in [-90_001, -1, 0, 1, 2, 3, 12_345, 1 << 33, 987_654_321_012] {
                assert_eq!(Time::of(ticks, clock).unwrap().ticks(clock), ticks);
            }
        }
    }

    #[test]
    fn times_out_of_all_reason_are_none() {
        assert_eq!(Time::of(1, 0), None);
        assert_eq!(Time::of(i64::MAX, 1), None);
        assert_eq!(Time::of(i64::MIN, 90_000), None);
        assert_eq!(Time::of(100 * 365 * 86_400, 1), None);
        assert!(Time::of(2 * 365 * 86_400 * 1000, 1000).is_some());
    }
}
