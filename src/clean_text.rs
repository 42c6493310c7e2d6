//! Text that a publisher wrote, such as a title. A [`CleanText`] holds only what cannot break or
//! disguise a line, and is bounded. Each place where it goes out has its own escape:
//!
//! - a header field, or a line of a playlist: [`CleanText::as_str`], which has no line ends,
//! - JSON, and a page or an event that reads JSON: `Serialize`,
//! - an attribute in a playlist of HLS: [`CleanText::hls`],
//! - a block of ICY metadata: [`CleanText::icy`].

use std::time::Duration;

use serde::{Serialize, Serializer};

/// Text without control characters and bidirectional controls, at most `MAX` bytes of UTF-8, and
/// without blanks at its ends. It is empty where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanText<const MAX: usize>(String);

/// The title of a song, or of anything else that plays.
pub type Title = CleanText<512>;
/// What a source says about its station, such as its name.
pub type StationText = CleanText<256>;
/// The program that a source says it is: `User-Agent`, or `flashVer` over RTMP.
pub type Agent = CleanText<128>;

/// A title of a stream. An empty one ends the title before it.
#[derive(Clone)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct TitleChange {
    /// When it began, since the server started.
    pub began: Duration,
    /// The title.
    pub title: Title,
}

/// Number of texts about a station.
pub const STATION_TEXTS: usize = 5;
/// Maximal number of titles that are kept of a stream, for its playlists.
pub const TITLES_MAX: usize = 8;
/// Maximal number of bytes of these titles together. The longest title has as many.
pub const TITLES_BYTES_MAX: usize = 512;

impl<const MAX: usize> CleanText<MAX> {
    /// No text.
    pub const NONE: CleanText<MAX> = CleanText(String::new());

    /// Cleans text. Longer text is cut at a character.
    pub fn new(text: &str) -> CleanText<MAX> {
        let clean = text.chars().map(|character| match character {
            // XML has no such characters.
            '\u{fffe}' | '\u{ffff}' => ' ',
            _ if disguises(character) => ' ',
            _ => character,
        });
        let clean: String = clean.collect();
        let clean = clean.trim();
        let mut ends = (0..=clean.len().min(MAX)).rev();
        let end = ends.find(|end| clean.is_char_boundary(*end)).unwrap_or(0);
        CleanText(clean[..end].trim_end().to_owned())
    }

    /// Cleans bytes in this character set. Without one they are UTF-8, or else ISO 8859-1. An unknown
    /// one counts as UTF-8.
    pub fn decode(bytes: &[u8], charset: Option<&str>) -> CleanText<MAX> {
        const LATIN: [&str; 3] = ["iso-8859-1", "iso8859-1", "latin1"];
        let is_latin = match charset {
            Some(name) => LATIN.iter().any(|it| name.eq_ignore_ascii_case(it)),
            None => std::str::from_utf8(bytes).is_err(),
        };
        CleanText::new(&match is_latin {
            true => bytes.iter().map(|byte| char::from(*byte)).collect(),
            false => String::from_utf8_lossy(bytes),
        })
    }

    /// Returns the text. It is one line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text for a quoted string of HLS, which has no escape for its quote.
    pub fn hls(&self) -> String {
        self.0.replace('"', "'")
    }

    /// Returns the text for ICY metadata, in which an apostrophe ends a value.
    pub fn icy(&self) -> String {
        self.0.replace('\'', "’")
    }
}

/// Returns whether a character could break a line or disguise its direction: a control character, a
/// bidirectional control (Unicode Standard Annex 9, table 1) or a separator of lines or paragraphs.
pub fn disguises(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Empty text is null.
impl<const MAX: usize> Serialize for CleanText<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Some(self.as_str()).filter(|text| !text.is_empty());
        text.serialize(serializer)
    }
}

#[cfg(feature = "handover")]
impl<'de, const MAX: usize> serde::Deserialize<'de> for CleanText<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(CleanText::new(&text.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A title is read in its character set, on one line, and is at most 512 bytes long.
    #[test]
    fn a_title_is_one_clean_line_of_at_most_512_bytes() {
        let long = "x".repeat(513);
        let wide = format!("{}é", "x".repeat(511));
        for (bytes, charset, clean) in [
            (&b"One - Two"[..], None, "One - Two"),
            (
                b"a\r\nSet-Cookie: b\0c\td\x1b\x7fe",
                None,
                "a  Set-Cookie: b c d  e",
            ),
            (b" \r\n a b \0\n", None, "a b"),
            (b"\r\n\0 ", None, ""),
            (b"", None, ""),
            ("gr\u{f6}\u{df}er".as_bytes(), None, "größer"),
            (b"gr\xf6\xdfer", None, "größer"),
            (b"gr\xf6\xdfer", Some("ISO-8859-1"), "größer"),
            (b"gr\xf6\xdfer", Some("latin1"), "größer"),
            (b"gr\xf6er", Some("utf-8"), "gr\u{fffd}er"),
            (b"gr\xf6er", Some("koi8-r"), "gr\u{fffd}er"),
            ("ö".as_bytes(), Some("ISO-8859-1"), "Ã¶"),
            // 0x85 is a control character in ISO 8859-1.
            (b"a\x85\xf6", None, "a ö"),
            (
                "a\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}b".as_bytes(),
                None,
                "a       b",
            ),
            ("a\u{61c}\u{2028}\u{2029}b".as_bytes(), None, "a   b"),
            (
                "a\u{2066}\u{2067}\u{2068}\u{2069}\u{fffe}\u{ffff}b".as_bytes(),
                None,
                "a      b",
            ),
            ("שלום 日本".as_bytes(), None, "שלום 日本"),
            (long.as_bytes(), None, &long[..512]),
            (wide.as_bytes(), None, &long[..511]),
        ] {
            let title = Title::decode(bytes, charset);
            assert_eq!(title.as_str(), clean, "{bytes:?} {charset:?}");
        }
    }

    /// No escaped text ends the value around it.
    #[test]
    fn each_place_has_its_escape() {
        let hostile = "<b a=\"1\" c='2'>&amp;\\</b>\r\n#EXT\0\u{202e}]]>";
        let title = Title::new(hostile);
        assert_eq!(title.as_str(), "<b a=\"1\" c='2'>&amp;\\</b>  #EXT  ]]>");
        assert_eq!(title.hls(), "<b a='1' c='2'>&amp;\\</b>  #EXT  ]]>");
        assert_eq!(title.icy(), "<b a=\"1\" c=’2’>&amp;\\</b>  #EXT  ]]>");
        assert_eq!(
            serde_json::to_string(&title).expect("JSON"),
            "\"<b a=\\\"1\\\" c='2'>&amp;\\\\</b>  #EXT  ]]>\""
        );
    }

    /// A text of another process is cleaned like any other.
    #[cfg(feature = "handover")]
    #[test]
    fn a_received_text_is_cleaned() {
        let long = format!("\"\\u0000{}\"", "ö".repeat(300));
        let title: CleanText<256> = serde_json::from_str(&long).expect("a text");
        assert_eq!(title.as_str(), "ö".repeat(128));
        for nothing in ["null", "\" \\n\""] {
            let title: Title = serde_json::from_str(nothing).expect("a text");
            assert_eq!(serde_json::to_string(&title).expect("JSON"), "null");
        }
    }
}
