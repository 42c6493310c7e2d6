//! A segment: which bytes of a stream it is, when they are to be played, and under which name.

use std::rc::Rc;
use std::time::Duration;

use super::parts::{PARTS_MAX, Part};
use crate::format::Format;
use crate::time::MediaTime;

/// The containers that can be HLS (RFC 8216 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    /// MPEG-TS
    MpegTs,
    /// fragmented MP4
    Mp4,
    /// MPEG audio
    Mp3,
    /// AAC in ADTS
    Aac,
}

impl Kind {
    /// `None` of what no player takes as HLS.
    pub fn of(format: Format) -> Option<Kind> {
        match format {
            Format::MpegTs => Some(Kind::MpegTs),
            Format::Mp4 => Some(Kind::Mp4),
            Format::Mp3 => Some(Kind::Mp3),
            Format::Aac => Some(Kind::Aac),
            Format::WebM | Format::Matroska | Format::Ogg | Format::Flv => None,
        }
    }

    /// With what a segment's name ends: players look at it.
    pub fn extension(self) -> &'static str {
        match self {
            Kind::MpegTs => "ts",
            Kind::Mp4 => "m4s",
            Kind::Mp3 => "mp3",
            Kind::Aac => "aac",
        }
    }

    /// A segment's media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Kind::MpegTs => "video/mp2t",
            Kind::Mp4 => "video/mp4",
            Kind::Mp3 => "audio/mpeg",
            Kind::Aac => "audio/aac",
        }
    }
}

/// A segment that is whole.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Its media sequence number.
    pub number: u64,
    /// Its bytes are those of the stream from this offset
    pub from: u64,
    /// to this one.
    pub to: u64,
    /// What stands in front of them.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared"))]
    pub lead: Rc<Vec<u8>>,
    /// What a player gets before it: of MP4 only.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared_if"))]
    pub map: Option<Rc<Map>>,
    /// How long it is, in ticks of [`MediaTime`].
    pub(super) ticks: u32,
    /// When it began, since 1970.
    pub(super) began: Duration,
    /// It does not go on where the one before has ended.
    pub(super) is_discontinuous: bool,
    /// How many were such, it included.
    pub(super) discontinuities: u64,
    /// Decoding can begin with it.
    pub(super) is_independent: bool,
    /// Its parts, if it has any that are kept.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared"))]
    pub(super) parts: Rc<[Part]>,
}

impl Segment {
    /// How long it is.
    pub fn duration(&self) -> Duration {
        let ticks_per_second = u64::from(MediaTime::TICKS_PER_SECOND);
        Duration::from_nanos(u64::from(self.ticks) * 1_000_000_000 / ticks_per_second)
    }
}

/// The header that a player of MP4 needs (EXT-X-MAP).
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Map {
    /// The number of the first segment that needs it.
    pub number: u64,
    /// The header.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    pub bytes: Rc<[u8]>,
}

/// A name that a playlist gives: `5eed1234-1763790000.ts`. The random part keeps a cache from
/// giving out what had the number before.
pub(super) struct Name {
    /// The random part: the stream's.
    pub tag: u32,
    /// Of the segment.
    pub number: u64,
    /// Says what it is.
    pub extension: &'static str,
}

/// Of a map, where segments have another.
pub(super) const MAP_EXTENSION: &str = "mp4";

impl Name {
    /// The number in a name with this tag and this extension.
    pub fn number_in(name: &str, tag: u32, extension: &str) -> Option<u64> {
        let (name, its_extension) = name.split_once('.')?;
        let number = name.split_once('-')?.1.parse().ok()?;
        let own = Name {
            tag,
            number,
            extension: "",
        };
        // One object has one name: no other zeros, signs or capitals.
        (its_extension == extension && own.to_string() == format!("{name}.")).then_some(number)
    }

    /// The numbers of a segment and of its part in a name like `5eed1234-1763790000.3.m4s`.
    pub fn part_in(name: &str, tag: u32, extension: &str) -> Option<(u64, usize)> {
        let (segment, rest) = name.split_once('.')?;
        let (index, its_extension) = rest.split_once('.')?;
        let number = Name::number_in(&format!("{segment}.{its_extension}"), tag, extension)?;
        let index: usize = index.parse().ok().filter(|index| *index < PARTS_MAX)?;
        (index.to_string() == rest.split_once('.')?.0).then_some((number, index))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Name {
            tag,
            number,
            extension,
        } = self;
        write!(formatter, "{tag:08x}-{number}.{extension}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_no_other_way() {
        let name = Name {
            tag: 0x5eed,
            number: 17,
            extension: "ts",
        };
        let name = name.to_string();
        assert_eq!(name, "00005eed-17.ts");
        assert_eq!(Name::number_in(&name, 0x5eed, "ts"), Some(17));
        for other in [
            "00005eed-017.ts",
            "00005eed-+17.ts",
            "5eed-17.ts",
            "00005EED-17.ts",
            "00005eee-17.ts",
            "00005eed-17.mp4",
            "00005eed-17.ts.ts",
            "00005eed-17.0.ts",
            "00005eed-17",
            "00005eed-99999999999999999999.ts",
            "",
        ] {
            assert_eq!(Name::number_in(other, 0x5eed, "ts"), None, "{other}");
        }
        let part = |name: &str| Name::part_in(name, 0x5eed, "m4s");
        assert_eq!(part("00005eed-17.3.m4s"), Some((17, 3)));
        for other in [
            "00005eed-17.m4s",
            "00005eed-17.03.m4s",
            "00005eed-17.+3.m4s",
            "00005eed-17.32.m4s",
            "00005eed-17.3.ts",
            "00005eed-17.3.3.m4s",
            "00005eed-17..m4s",
        ] {
            assert_eq!(part(other), None, "{other}");
        }
    }
}
