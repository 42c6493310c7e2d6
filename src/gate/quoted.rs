//! Text from outside for errors and log lines: quoted, shortened, and on one line.

use std::fmt::{self, Display, Formatter, Write};

use crate::clean_text::disguises;

/// Largest number of characters that are shown.
const CHARACTERS_MAX: usize = 64;

/// Prints bytes from outside between single quotes: at most 64 characters, then `…`. Escapes
/// characters that could break or disguise a line: control characters, line separators and marks of
/// writing direction. Bytes that are not UTF-8 print as `\xNN`.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut room = CHARACTERS_MAX;
        formatter.write_char('\'')?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if room == 0 {
                    return formatter.write_str("…'");
                }
                room -= 1;
                write_escaped(formatter, character)?;
            }
            for byte in chunk.invalid() {
                if room == 0 {
                    return formatter.write_str("…'");
                }
                room -= 1;
                write!(formatter, "\\x{byte:02x}")?;
            }
        }
        formatter.write_char('\'')
    }
}

fn write_escaped(formatter: &mut Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '\'' | '\\' => write!(formatter, "\\{character}"),
        _ if disguises(character) => write!(formatter, "{}", character.escape_unicode()),
        _ => formatter.write_char(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_quoted() {
        assert_eq!(Quoted(b"10.0.0.1:5004").to_string(), "'10.0.0.1:5004'");
        assert_eq!(Quoted("größe".as_bytes()).to_string(), "'größe'");
        assert_eq!(Quoted(b"").to_string(), "''");
    }

    #[test]
    fn characters_that_break_or_disguise_a_line_are_escaped() {
        let escaped =
            Quoted("a\r\n\t\u{1b}\u{85}\u{61c}\u{2028}\u{202e}'\\".as_bytes()).to_string();
        let expected = "'a\\u{d}\\u{a}\\u{9}\\u{1b}\\u{85}\\u{61c}\\u{2028}\\u{202e}\\'\\\\'";
        assert_eq!(escaped, expected);
        assert_eq!(Quoted(b"a\xff\xfe").to_string(), "'a\\xff\\xfe'");
    }

    #[test]
    fn long_text_is_cut() {
        let exact = "x".repeat(CHARACTERS_MAX);
        assert_eq!(Quoted(exact.as_bytes()).to_string(), format!("'{exact}'"));
        let longer = "x".repeat(100_000);
        assert_eq!(Quoted(longer.as_bytes()).to_string(), format!("'{exact}…'"));
        assert!(Quoted(&[0xff; 1000]).to_string().len() < 300);
    }
}
