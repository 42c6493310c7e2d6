//! A segment: its bytes in the stream, its times, and its name.

use std::rc::Rc;
use std::time::Duration;

use super::parts::{PARTS_MAX, Part};
use crate::format::Format;
use crate::time::MediaTime;

/// Returns the file extension of a segment's name, at which players look. `None` if HLS does not
/// allow the format (RFC 8216 section 3).
pub(super) fn extension(format: Format) -> Option<&'static str> {
    match format {
        Format::MpegTs => Some("ts"),
        Format::Mp4 => Some("m4s"),
        Format::Mp3 => Some("mp3"),
        Format::Aac => Some("aac"),
        Format::WebM | Format::Matroska | Format::Ogg | Format::Flv => None,
    }
}

/// A complete segment.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Segment {
    /// Media sequence number.
    pub number: u64,
    /// Offset of the first byte in the stream.
    pub from: u64,
    /// Offset after the last byte.
    pub to: u64,
    /// Bytes that are sent in front of the segment.
    pub lead: Rc<Vec<u8>>,
    /// Header that a player fetches first. Only MP4 has one.
    pub map: Option<Rc<Map>>,
    /// Duration in ticks of [`MediaTime`].
    pub(super) ticks: u32,
    /// Beginning, as Unix time.
    pub(super) began: Duration,
    /// Whether the segment does not continue the one before it.
    pub(super) is_discontinuous: bool,
    /// Number of discontinuities up to and including this segment.
    pub(super) discontinuities: u64,
    /// Whether decoding can begin with the segment.
    pub(super) is_independent: bool,
    /// Parts of the segment, if any are kept.
    pub(super) parts: Rc<[Part]>,
}

impl Segment {
    /// Returns the duration.
    pub fn duration(&self) -> Duration {
        let ticks_per_second = u64::from(MediaTime::TICKS_PER_SECOND);
        Duration::from_nanos(u64::from(self.ticks) * 1_000_000_000 / ticks_per_second)
    }
}

/// The header that a player of MP4 needs (EXT-X-MAP).
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Map {
    /// Number of the first segment that needs the header.
    pub number: u64,
    /// The header's bytes.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    pub bytes: Rc<[u8]>,
}

/// A name in a playlist, such as `5eed1234-1763790000.ts`. Because of the random part, a cache
/// never serves an older object of the same number.
pub(super) struct Name {
    /// Random part of the name, one for each stream.
    pub tag: u32,
    /// Number of the segment.
    pub number: u64,
    /// File extension.
    pub extension: &'static str,
}

/// File extension of a map.
pub(super) const MAP_EXTENSION: &str = "mp4";

impl Name {
    /// Returns the number in a name with this tag and extension.
    pub fn number_in(name: &str, tag: u32, extension: &str) -> Option<u64> {
        let (name, its_extension) = name.split_once('.')?;
        let number = name.split_once('-')?.1.parse().ok()?;
        let own = Name {
            tag,
            number,
            extension: "",
        };
        // Each object has one name, without other zeros, signs or capitals.
        (its_extension == extension && own.to_string() == format!("{name}.")).then_some(number)
    }

    /// Returns the numbers of a segment and of its part in a name such as `5eed1234-1763790000.3.m4s`.
    pub fn part_in(name: &str, tag: u32, extension: &str) -> Option<(u64, usize)> {
        let (number, index) = numbers_of_part(name)?;
        let bare = Name {
            tag,
            number,
            extension: "",
        };
        let is_own = format!("{bare}{index}.{extension}") == name;
        (is_own && index < PARTS_MAX as u64).then_some((number, index as usize))
    }
}

/// Returns the numbers in the name of a part of any stream.
pub(super) fn numbers_of_part(name: &str) -> Option<(u64, u64)> {
    let (_, numbers) = name.split_once('-')?;
    let (number, rest) = numbers.split_once('.')?;
    let (index, _) = rest.split_once('.')?;
    Some((number.parse().ok()?, index.parse().ok()?))
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{:08x}-{}.{}",
            self.tag, self.number, self.extension
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_one_name() {
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
