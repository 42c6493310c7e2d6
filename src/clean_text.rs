//! Text that a publisher wrote, such as a title. A [`CleanText`] holds only what cannot break or
//! disguise a line, and is bounded. Each place where it goes out has its own escape:
//!
//! - a header field, or a line of a playlist: [`CleanText::as_str`], which has no line ends,
//! - JSON, and a page or an event that reads JSON: `Serialize`,
//! - an attribute in a playlist of HLS: [`CleanText::quoted_string`],
//! - a block of ICY metadata: [`CleanText::icy`].

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

use serde::{Serialize, Serializer};

/// Text without control characters and bidirectional controls, at most `MAX` bytes of UTF-8. It is
/// not empty, and has no blanks at its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanText<const MAX: usize>(Box<str>);

/// The title of a song, or of anything else that plays.
pub type Title = CleanText<512>;

impl<const MAX: usize> CleanText<MAX> {
    /// Cleans text. Longer text is cut at a character. `None`: nothing is left.
    pub fn new(text: &str) -> Option<CleanText<MAX>> {
        let mut clean = String::new();
        for character in text.chars() {
            let character = match is_unsafe(character) {
                true => ' ',
                false => character,
            };
            let is_leading_blank = clean.is_empty() && character.is_whitespace();
            if clean.len() + character.len_utf8() > MAX {
                break;
            }
            if !is_leading_blank {
                clean.push(character);
            }
        }
        clean.truncate(clean.trim_end().len());
        (!clean.is_empty()).then(|| CleanText(clean.into_boxed_str()))
    }

    /// Cleans bytes in this character set. Without one they are UTF-8, or else ISO 8859-1. An unknown
    /// one counts as UTF-8.
    pub fn decode(bytes: &[u8], charset: Option<&str>) -> Option<CleanText<MAX>> {
        let is_latin = |name: &str| {
            let mut names = ["iso-8859-1", "iso8859-1", "latin1"].into_iter();
            names.any(|latin| name.eq_ignore_ascii_case(latin))
        };
        let text = match (charset, std::str::from_utf8(bytes)) {
            (Some(name), _) if is_latin(name) => from_latin(bytes),
            (Some(_), _) => String::from_utf8_lossy(bytes),
            (None, Ok(text)) => Cow::Borrowed(text),
            (None, Err(_)) => from_latin(bytes),
        };
        CleanText::new(&text)
    }

    /// Returns the text. It is one line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text for a quoted string of HLS, which has no escape for its quote.
    pub fn quoted_string(&self) -> Replaced<'_> {
        Replaced(&self.0, |character| (character == '"').then_some("'"))
    }

    /// Returns the text for ICY metadata, in which an apostrophe ends a value.
    pub fn icy(&self) -> Replaced<'_> {
        Replaced(&self.0, |character| (character == '\'').then_some("’"))
    }

    /// Returns the bytes that its allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Returns whether a character could break a line or disguise its direction, or is none of XML.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

fn from_latin(bytes: &[u8]) -> Cow<'static, str> {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Text in which some characters are replaced.
pub struct Replaced<'a>(&'a str, fn(char) -> Option<&'static str>);

impl Display for Replaced<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Replaced(text, replacement) = self;
        text.chars()
            .try_for_each(|character| match replacement(character) {
                Some(other) => formatter.write_str(other),
                None => formatter.write_char(character),
            })
    }
}

impl<const MAX: usize> Serialize for CleanText<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(feature = "handover")]
impl<'de, const MAX: usize> serde::Deserialize<'de> for CleanText<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        CleanText::new(&text).ok_or_else(|| serde::de::Error::custom("an empty title"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(bytes: &[u8], charset: Option<&str>) -> String {
        let title = Title::decode(bytes, charset);
        title.map_or(String::new(), |title| title.as_str().to_owned())
    }

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
            // In ISO 8859-1 these are control characters.
            (b"a\x85\xf6", None, "a ö"),
            (
                "a\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}b".as_bytes(),
                None,
                "a       b",
            ),
            (
                "a\u{2066}\u{2067}\u{2068}\u{2069}\u{fffe}\u{ffff}b".as_bytes(),
                None,
                "a      b",
            ),
            ("שלום 日本".as_bytes(), None, "שלום 日本"),
            (long.as_bytes(), None, &long[..512]),
            (wide.as_bytes(), None, &long[..511]),
        ] {
            assert_eq!(title(bytes, charset), clean, "{bytes:?} {charset:?}");
        }
    }

    /// No escaped text ends the value around it.
    #[test]
    fn each_place_has_its_escape() {
        let hostile = "<b a=\"1\" c='2'>&amp;\\</b>\r\n#EXT\0\u{202e}]]>";
        let title = Title::new(hostile).expect("a title");
        assert_eq!(title.as_str(), "<b a=\"1\" c='2'>&amp;\\</b>  #EXT  ]]>");
        assert_eq!(
            title.quoted_string().to_string(),
            "<b a='1' c='2'>&amp;\\</b>  #EXT  ]]>"
        );
        assert_eq!(
            title.icy().to_string(),
            "<b a=\"1\" c=’2’>&amp;\\</b>  #EXT  ]]>"
        );
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
        assert!(serde_json::from_str::<Title>("\" \\n\"").is_err());
    }
}
