//! Internet radio over HTTP, as SHOUTcast began it (ICY): what a source says about its station, and
//! titles within a listener's media. The listener asks for them.
//!
//! ```text
//!   16,000 bytes of media │ N │ N × 16 bytes of text │ 16,000 bytes of media │ 0 │ …
//! ```
//!
//! N is 0 while the title is still the one that this listener has got. Such a byte lies within the
//! chunks of a chunked body, at most one in a chunk. A block with text is a chunk of its own.

use std::num::NonZeroU32;

use super::response::ResponseHead;
use crate::clean_text::{STATION_TEXTS, StationText, Title};

/// Media bytes between two blocks.
const INTERVAL: u16 = 16_000;

/// The fields of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcyFields {
    /// Whether `Icy-MetaData` is 1.
    pub wants_titles: bool,
    /// What a source says about its station: the values of [`FIELDS`].
    pub station: [StationText; STATION_TEXTS],
}

/// The fields that describe a station, after `icy-`. `icy-br` is its bit rate in kbit/s.
const FIELDS: [&str; STATION_TEXTS] = ["name", "genre", "url", "description", "br"];

/// How far a listener is between two blocks.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct IcyPosition {
    /// Number of the title in the last block with text. It is 1 before the first.
    seen: NonZeroU32,
    /// Media bytes until the next block.
    media_left: u16,
}

impl IcyFields {
    /// Takes a field, whose name is in lower case. `None`: it is none of these.
    pub fn take(&mut self, name: &str, value: &[u8]) -> Option<()> {
        let name = name.strip_prefix("ice-").or(name.strip_prefix("icy-"))?;
        let text = StationText::decode(value, None);
        // Such as `samplerate=44100;bitrate=128`, or the number alone.
        let number = text.as_str().rsplit("bitrate=").next().unwrap_or_default();
        let number = number.split(';').next().unwrap_or_default().trim();
        let (name, text) = match name {
            "metadata" => {
                self.wants_titles = text.as_str() == "1";
                return Some(());
            }
            "bitrate" | "br" | "audio-info" if number.parse::<u32>().is_err() => return Some(()),
            "bitrate" | "br" | "audio-info" => ("br", StationText::new(number)),
            name => (name, text),
        };
        let place = FIELDS.iter().position(|field| *field == name)?;
        self.station[place] = text;
        Some(())
    }
}

/// Adds the fields that listeners get, and the one for titles. Some, such as VLC, only ask for
/// titles if an answer without them names the station.
pub fn describe(
    station: &[StationText; STATION_TEXTS],
    head: ResponseHead,
    gets_titles: bool,
) -> ResponseHead {
    let head = match gets_titles {
        true => head.field("icy-metaint", &INTERVAL.to_string()),
        false => head,
    };
    let texts = FIELDS.iter().zip(station);
    let known = texts.filter(|(_, text)| **text != StationText::NONE);
    known.fold(head, |head, (name, text)| {
        head.field(&format!("icy-{name}"), text.as_str())
    })
}

impl IcyPosition {
    /// Returns the position of a listener who begins.
    pub fn begin() -> Option<IcyPosition> {
        Some(IcyPosition {
            seen: NonZeroU32::MIN,
            media_left: INTERVAL,
        })
    }

    /// Returns the block with text that comes before the next media byte, if there is one. It goes out
    /// whole. `serial`: number of the title that holds.
    pub fn take_block(
        &mut self,
        (serial, title): (NonZeroU32, &Title),
        is_chunked: bool,
    ) -> Option<Vec<u8>> {
        const UNIT: usize = 16;
        if self.media_left > 0 || self.seen == serial {
            return None;
        }
        (self.seen, self.media_left) = (serial, INTERVAL);
        let text = format!("StreamTitle='{}';", title.icy());
        // A title of 512 bytes, all of them apostrophes, takes 97 units.
        let units = text.len().div_ceil(UNIT);
        let mut block = vec![units as u8];
        block.extend_from_slice(text.as_bytes());
        block.resize(1 + units * UNIT, 0);
        let line = format!("{:x}\r\n", block.len());
        Some(match is_chunked {
            true => [line.as_bytes(), &block, b"\r\n"].concat(),
            false => block,
        })
    }

    /// Returns how many bytes may go out at once of `media_bytes` and the empty block among them: up
    /// to a block with text, or up to the second empty block.
    pub fn content_bytes(self, media_bytes: usize, serial: NonZeroU32) -> usize {
        let beyond_max = if self.seen == serial { INTERVAL } else { 0 };
        let before = media_bytes.min(self.media_left.into());
        let beyond = (media_bytes - before).min(beyond_max.into());
        before + usize::from(beyond > 0) + beyond
    }

    /// Returns how many of the next `content_bytes` are media before the empty block, and after it.
    pub fn media(self, content_bytes: usize) -> (usize, usize) {
        let before = content_bytes.min(self.media_left.into());
        (before, (content_bytes - before).saturating_sub(1))
    }

    /// Records that `content_bytes` were sent. Returns how many of them were media.
    pub fn sent(&mut self, content_bytes: usize) -> usize {
        let (before, after) = self.media(content_bytes);
        self.media_left = match before < content_bytes {
            true => INTERVAL.saturating_sub(after as u16),
            false => self.media_left - before as u16,
        };
        before + after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(lines: &[(&str, &str)]) -> [StationText; STATION_TEXTS] {
        let mut fields = IcyFields::default();
        for (name, value) in lines {
            assert!(fields.take(name, value.as_bytes()).is_some(), "{name}");
        }
        fields.station
    }

    /// A source may use the names of Icecast or of SHOUTcast.
    #[test]
    fn a_station_is_described_by_either_names() {
        for prefix in ["ice", "icy"] {
            let name = format!("{prefix}-name");
            let genre = format!("{prefix}-genre");
            let url = format!("{prefix}-url");
            let station = station(&[(&*name, "One"), (&*genre, "Jazz"), (&*url, "http://a")]);
            let all: Vec<&str> = station.iter().map(StationText::as_str).collect();
            assert_eq!(all, ["One", "Jazz", "http://a", "", ""]);
        }
        let mut others = IcyFields::default();
        assert!(others.take("ice-public", b"1").is_none() && others == IcyFields::default());
        let long = station(&[("ice-name", &"x".repeat(1000))]);
        assert_eq!(long[0].as_str().len(), 256);
    }

    #[test]
    fn a_bit_rate_is_a_number() {
        let of = |lines: &[(&str, &str)]| station(lines)[4].as_str().to_owned();
        assert_eq!(of(&[("ice-bitrate", " 128 ")]), "128");
        assert_eq!(of(&[("icy-br", "Quality 3")]), "");
        let info = (
            "ice-audio-info",
            "ice-samplerate=44100;ice-bitrate=96; channels=2",
        );
        assert_eq!(of(&[info]), "96");
        assert_eq!(of(&[info, ("icy-br", "x")]), "96");
        assert_eq!(of(&[info, ("icy-br", "64")]), "64");
        assert_eq!(of(&[("ice-bitrate", "99999999999")]), "");
    }

    /// Only the value 1 asks for titles.
    #[test]
    fn a_listener_asks_for_titles_with_1() {
        for (value, wants) in [
            ("1", true),
            (" 1", true),
            ("0", false),
            ("", false),
            ("11", false),
        ] {
            let mut fields = IcyFields::default();
            assert!(fields.take("icy-metadata", value.as_bytes()).is_some());
            assert_eq!(fields.wants_titles, wants, "{value:?}");
        }
    }

    /// The blocks are at the same places, however the content is cut into chunks and writes.
    #[test]
    fn an_empty_block_stands_after_each_16_000_bytes() {
        for chunk_media in [1, 2, 15_999, 16_000, 16_001, 40_000] {
            for piece in [1, 7, 15_999, 16_000, 16_001, 100_000] {
                let mut icy = IcyPosition::begin().expect("titles");
                let (mut media, mut blocks) = (0, 0);
                while media < 50_000 {
                    let mut left = icy.content_bytes(chunk_media, NonZeroU32::MIN);
                    let (before, after) = icy.media(left);
                    assert!(before + after <= chunk_media && left > 0);
                    while left > 0 {
                        let bytes = piece.min(left);
                        let of_media = icy.sent(bytes);
                        (media, blocks) = (media + of_media, blocks + bytes - of_media);
                        left -= bytes;
                        let media_left = usize::from(icy.media_left);
                        assert_eq!(16_000 * (blocks + 1), media + media_left);
                    }
                }
            }
        }
    }

    /// A block with text comes at the end of the interval, once.
    #[test]
    fn a_new_title_ends_the_chunk_before_it() {
        let mut icy = IcyPosition::begin().expect("titles");
        let (second, title) = (NonZeroU32::MIN.saturating_add(1), Title::new("it's"));
        assert!(icy.take_block((second, &title), false).is_none());
        assert_eq!(icy.content_bytes(50_000, second), 16_000);
        assert_eq!(icy.sent(16_000), 16_000);
        let (mut other, of_chunk) = (icy, b"21\r\n\x02StreamTitle='it\xe2\x80\x99s';");
        let block = icy.take_block((second, &title), false).expect("a block");
        assert_eq!(block, [&of_chunk[4..], &[0; 11]].concat());
        let chunk = other.take_block((second, &title), true).expect("a block");
        assert_eq!(chunk, [&of_chunk[..], &[0; 11], b"\r\n"].concat());
        assert!(icy.take_block((second, &title), false).is_none());
        assert_eq!(icy.content_bytes(50_000, second), 32_001);
    }
}
