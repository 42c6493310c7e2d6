//! The form in which readers hand media to writers: tracks, and their access units one by one.
//!
//! A unit is one picture or one frame of sound. Each codec has one form, for all containers. The
//! bytes are lent. Units come in the order of the source: the decode times of a track never run
//! back, but one track may be ahead of another by the length of a fragment.

/// Codec of a track. Only codecs that a writer can carry are listed.
///
/// | codec | a unit | [`Track::setup`] |
/// |---|---|---|
/// | H.264 | NAL units after lengths of 4 bytes, no delimiter | `avcC` that says 4 bytes |
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
/// Parameter sets that the source sends in the stream stay in the units, in front of the picture.
/// [`Track::setup`] has the newest ones.
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

/// Track of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Number that the source gives the track: PID, track number or track ID. In FLV 8 is sound and
    /// 9 is pictures.
    pub number: u64,
    /// Codec of its units.
    pub codec: Codec,
    /// Ticks a second of the clock in which the source counts its times: at least 1.
    pub clock: u32,
    /// Content of the codec's box in ISO BMFF, or its descriptor: see [`Codec`]. `None` until it is
    /// known. No unit of the track comes before that.
    pub setup: Option<Box<[u8]>>,
    /// Shape of its pictures or its sound. If only the setup contains it, it is zero until then.
    pub shape: Shape,
}

impl Track {
    /// Returns whether the setup is known. Then units may come.
    pub fn is_known(&self) -> bool {
        self.setup.is_some()
    }

    /// Returns whether a writer describes both tracks in the same way.
    pub(super) fn is_alike(&self, other: &Track) -> bool {
        (self.codec, &self.setup, self.shape) == (other.codec, &other.setup, other.shape)
    }

    /// Returns whether all units of the old tracks belong to the new ones, too: tracks were added,
    /// or have become known.
    pub(super) fn are_more(old: &[Track], new: &[Track]) -> bool {
        let still = |(old, new): (&Track, &Track)| !old.is_known() || old.is_alike(new);
        old.len() <= new.len() && old.iter().zip(new).all(still)
    }
}

impl Codec {
    /// Returns whether the codec is one of pictures. The others are of sound.
    pub fn is_video(self) -> bool {
        match self {
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 => true,
            Codec::Aac | Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 | Codec::Opus => false,
        }
    }

    /// Returns the shape of a track of which only the codec is known.
    pub(super) fn unknown_shape(self) -> Shape {
        let (width, height, rate, channels) = (0, 0, 0, 0);
        match self.is_video() {
            true => Shape::Pictures { width, height },
            false => Shape::Sound { rate, channels },
        }
    }
}

/// Size of pictures, or format of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Size in pixels, without regard to the form of a pixel.
    Pictures {
        /// From left to right.
        width: u16,
        /// From top to bottom.
        height: u16,
    },
    /// Format as it is coded. For AAC with band replication or parametric stereo it is that of the
    /// core.
    Sound {
        /// Samples a second of each channel.
        rate: u32,
        /// Number of channels. 0 if only the coded sound contains it.
        channels: u8,
    },
}

/// Nanoseconds in a second. Times are nanoseconds, on the source's own clock. Times of any container
/// survive a conversion to them and back.
pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const MILLISECOND: i64 = 1_000_000;
/// Largest time: some 73 years, so that sums and differences of a few times do not overflow. A reader
/// gives up a source with larger ones.
pub(super) const TIME_MAX: i64 = i64::MAX / 4;

/// Returns the time. `None` if it is too large.
pub(super) fn in_range(time: i64) -> Option<i64> {
    (-TIME_MAX..=TIME_MAX).contains(&time).then_some(time)
}

/// Converts ticks of a clock to nanoseconds, rounded to the nearest. `None` if the clock has no
/// ticks, or the time is too large.
pub(super) fn nanoseconds(ticks: i64, ticks_per_second: u32) -> Option<i64> {
    let (ticks, clock) = (i128::from(ticks), i128::from(ticks_per_second));
    let nanoseconds = (ticks * i128::from(SECOND) * 2 + clock).checked_div_euclid(2 * clock);
    in_range(i64::try_from(nanoseconds?).ok()?)
}

/// Converts nanoseconds to ticks of a clock, rounded to the nearest. 0 if the clock has no ticks.
pub(super) fn ticks(nanoseconds: i64, ticks_per_second: u32) -> i64 {
    let doubled = 2 * i128::from(nanoseconds) * i128::from(ticks_per_second);
    let second = i128::from(SECOND);
    let nearest = (doubled + second).div_euclid(2 * second);
    // Only a clock of some gigahertz gets there, in some hundred years.
    nearest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// A picture or a frame of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Index of its track in the newest list.
    pub track: usize,
    /// Decode time in nanoseconds. It is never before that of the track's previous unit.
    pub decode: i64,
    /// Presentation time in nanoseconds. It is never before `decode`.
    pub present: i64,
    /// Whether decoding can begin with the unit. It can with all sound.
    pub is_join: bool,
    /// Bytes in the form of [`Codec`]: at least one, and at most as many as the reader allows.
    pub bytes: &'a [u8],
}

/// One thing that a reader passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderEvent<'a> {
    /// All tracks, at most [`TRACKS_MAX`]. The list comes first, when a track is added, when a
    /// setup becomes known or changes, and when the source begins again with other tracks.
    Tracks(&'a [Track]),
    /// The next unit.
    Unit(Unit<'a>),
    /// Tracks whose units are announced and have not come: bit N is the track at index N. Units of
    /// other tracks wait for them.
    Announced(u16),
    /// The source has sent a complete piece. The next bytes may be late.
    PieceEnds,
    /// A track that cannot be carried. It comes once, when the track shows.
    LeftOut {
        /// Number as in [`Track::number`].
        number: u64,
        /// Codec, as its container calls it, in printable letters.
        codec: &'a str,
    },
}

impl ReaderEvent<'_> {
    /// Returns the cost of writing this, as the number of bytes that take as long to copy.
    pub fn work(&self) -> usize {
        let bytes = match self {
            ReaderEvent::Unit(unit) => unit.bytes.len(),
            _ => 0,
        };
        UNIT_WORK + bytes
    }
}

/// Work of each event of a reader, beside the bytes of its unit.
pub const UNIT_WORK: usize = 256;

/// Maximal number of tracks of a source. Others are left out.
pub const TRACKS_MAX: usize = 16;

/// Receives a reader's events one by one. An error ends the reader: nothing more is made of the
/// bytes that it has read.
pub type Sink<'a> = dyn FnMut(ReaderEvent<'_>) -> Result + 'a;

/// The reason why media is not understood, or not any more. The reader passes on nothing more. The
/// stream itself is not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaError(pub &'static str);

/// Result of a function that reads or writes media.
pub type Result<T = (), E = MediaError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_of_every_container_survive_a_conversion() {
        for clock in [1000, 44_100, 48_000, 90_000, 10_000_000, 27_000_000] {
            for ticks in [-90_001, -1, 0, 1, 2, 3, 12_345, 1 << 33, 987_654_321_012] {
                let time = nanoseconds(ticks, clock).unwrap();
                assert_eq!(super::ticks(time, clock), ticks);
            }
        }
    }

    #[test]
    fn times_that_are_too_large_are_none() {
        assert_eq!(nanoseconds(1, 0), None);
        assert_eq!(nanoseconds(i64::MAX, 1), None);
        assert_eq!(nanoseconds(i64::MIN, 90_000), None);
        assert_eq!(nanoseconds(100 * 365 * 86_400, 1), None);
        assert!(nanoseconds(2 * 365 * 86_400 * 1000, 1000).is_some());
    }
}
