//! The state that one process sends to its successor: lines of text, each with a kind, a number, and
//! a value in JSON.
//!
//! ```text
//!   tollgate 5 "0.2.0"
//!   context 0 {"run":…}
//!   connection 4294967296 {"peer":"192.0.2.1:4711",…}
//!   …
//!   end 42 null
//! ```
//!
//! Each part writes and reads its own lines. Two versions understand each other in both directions
//! if the number in the first line is the same: a version ignores unknown fields, and has defaults
//! for missing ones. Rules for changes:
//!
//! - A new field has a default (`serde(default)`) that is right for older versions. If no default is
//!   right, raise [`OLDEST`] and [`FORMAT`].
//! - If a field goes or changes its meaning, or a kind of line or an enum's variant is new, the
//!   version before cannot read it: raise [`FORMAT`].
//!
//! `tests/handover.rs` checks this with the recorded state of each format that is still read. Media
//! is sent apart from it: see [`crate::relay::handover`].
//!
//! No received value is trusted. An invalid one is a [`HandoverError`] in words.

use std::fmt::{self, Display, Formatter};
use std::io::{BufRead, Write};
use std::time::Duration;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The format that is written. Raise it if the version before could not read it.
pub const FORMAT: u64 = 5;

/// The oldest format that is read. Raise it if a format can no longer be read.
pub const OLDEST: u64 = 5;

/// Checks that this version reads the format, which a sender of `version` writes.
pub fn is_known(format: u64, version: &str) -> Result<(), HandoverError> {
    must((OLDEST..=FORMAT).contains(&format), || {
        let version: String = version.chars().take(32).collect();
        format!(
            "it is in format {format}, by version {version:?}; this one reads {OLDEST} to \
             {FORMAT}"
        )
    })
}

/// Why the received state cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverError(pub String);

impl Display for HandoverError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for HandoverError {}

/// Largest offset or serial that is accepted. They can still grow by as much again.
pub const COUNT_MAX: u64 = u64::MAX / 4;

/// Longest time that is accepted. A few of them together overflow nothing.
pub const SPAN_MAX: Duration = Duration::from_secs(1 << 36);

/// Returns an error with the words of `what`, unless `is_so`.
pub fn must(is_so: bool, what: impl FnOnce() -> String) -> Result<(), HandoverError> {
    match is_so {
        true => Ok(()),
        false => Err(HandoverError(what())),
    }
}

/// Writes the state piece by piece. The successor reads a piece while the next one is made.
pub struct Writer<'a> {
    out: &'a mut dyn FnMut(&[u8]),
    text: Vec<u8>,
    lines: u64,
}

const FIRST: &str = "tollgate";
const LAST: &str = "end";

/// A piece ends with the line that brings it to this many bytes.
const PIECE_BYTES: usize = 32 * 1024;

impl Writer<'_> {
    /// Begins the state. `out` takes each piece.
    pub fn new(out: &mut dyn FnMut(&[u8])) -> Writer<'_> {
        let mut writer = Writer {
            out,
            text: Vec::new(),
            lines: 0,
        };
        writer.put(FIRST, FORMAT, &env!("CARGO_PKG_VERSION"));
        writer
    }

    /// Adds a line. Returns `false` if the value has a part that is not sent, such as the phase of a client
    /// that stays. Then there is no line.
    pub fn put(&mut self, name: &str, number: u64, value: &impl Serialize) -> bool {
        let before = self.text.len();
        let is_sent = write!(self.text, "{name} {number} ").is_ok()
            && serde_json::to_writer(&mut self.text, value).is_ok();
        match is_sent {
            true => self.text.push(b'\n'),
            false => self.text.truncate(before),
        }
        self.lines += u64::from(is_sent);
        if self.text.len() >= PIECE_BYTES {
            (self.out)(&self.text);
            self.text.clear();
        }
        is_sent
    }

    /// Ends the state with the line that counts the others.
    pub fn finish(mut self) {
        self.put(LAST, self.lines, &());
        (self.out)(&self.text);
    }
}

/// A received line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Kind of the line.
    pub name: &'a str,
    /// Number of the object within its kind.
    pub number: u64,
    value: &'a str,
}

impl Line<'_> {
    /// Parses the value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, HandoverError> {
        serde_json::from_str(self.value)
            .map_err(|error| HandoverError(format!("{} {}: {error}", self.name, self.number)))
    }
}

/// Splits received pieces into lines.
pub struct Reader {
    /// The received part of a line.
    begun: Vec<u8>,
    /// Longest accepted line.
    line_bytes_max: usize,
    /// Number of received lines.
    lines: u64,
    has_ended: bool,
}

impl Reader {
    /// Begins to read. A longer line is an error before all of it has come.
    pub fn new(line_bytes_max: usize) -> Reader {
        Reader {
            begun: Vec::new(),
            line_bytes_max,
            lines: 0,
            has_ended: false,
        }
    }

    /// Reads one more piece, which may end anywhere. Passes each whole line to `take`, but not the
    /// first, which must name a known format, and not the last.
    pub fn receive(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(Line<'_>) -> Result<(), HandoverError>,
    ) -> Result<(), HandoverError> {
        let mut rest = piece;
        while let Some((text, after)) = split_line(rest) {
            rest = after;
            if self.begun.is_empty() {
                self.receive_line(line(text)?, &mut take)?;
            } else {
                let mut begun = std::mem::take(&mut self.begun);
                begun.extend_from_slice(text);
                self.receive_line(line(&begun)?, &mut take)?;
            }
        }
        must(self.begun.len() + rest.len() <= self.line_bytes_max, || {
            format!(
                "line {} is longer than {} bytes, the most that one may have here",
                self.lines + 1,
                self.line_bytes_max
            )
        })?;
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    fn receive_line(
        &mut self,
        line: Line<'_>,
        take: &mut impl FnMut(Line<'_>) -> Result<(), HandoverError>,
    ) -> Result<(), HandoverError> {
        let before = self.lines;
        self.lines += 1;
        if before == 0 {
            return is_known(line.number, &line.read::<String>().unwrap_or_default());
        }
        if line.name != LAST {
            return take(line);
        }
        self.has_ended = true;
        must(line.number == before, || {
            format!(
                "{before} lines have come; the sender counts {}",
                line.number
            )
        })
    }

    /// Checks that the last line has come.
    pub fn finish(&self) -> Result<(), HandoverError> {
        must(self.has_ended, || {
            format!("{} lines have come, and not the last", self.lines)
        })
    }
}

/// Returns the first line without its end, and the rest.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // Of the standard library's searches, this one looks at several bytes at once.
    let (line, after) = bytes.split_at((&mut &*bytes).skip_until(b'\n').ok()?);
    Some((line.strip_suffix(b"\n")?, after))
}

fn line(line: &[u8]) -> Result<Line<'_>, HandoverError> {
    let line = str::from_utf8(line).ok().and_then(|line| {
        let mut words = line.splitn(3, ' ');
        Some(Line {
            name: words.next()?,
            number: words.next()?.parse().ok()?,
            value: words.next()?,
        })
    });
    line.ok_or_else(|| HandoverError("a line that is no name, number and value".to_owned()))
}

/// Bytes as text, a character of at most two bytes for each byte. Most bytes are text. The module adds
/// [`MOVED`] to bytes that JSON would escape.
pub mod bytes {
    use super::*;

    const MOVED: u32 = 0x100;

    /// Writes bytes, for `serde(with)`.
    pub fn serialize<S: Serializer>(
        bytes: &impl AsRef<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text: String = bytes
            .as_ref()
            .iter()
            .map(|byte| {
                let is_escaped = matches!(byte, 0..b' ' | b'"' | b'\\');
                let moved = if is_escaped { MOVED } else { 0 };
                char::from_u32(moved | u32::from(*byte)).unwrap_or_default()
            })
            .collect();
        serializer.serialize_str(&text)
    }

    /// Reads bytes, for `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |character| u8::try_from(u32::from(character) & !MOVED);
        let bytes: Result<Vec<u8>, _> = text.chars().map(byte).collect();
        let mut bytes = bytes.map_err(|_| Error::custom("a character that is no byte"))?;
        bytes.shrink_to_fit();
        Ok(bytes.into())
    }
}

/// Returns whether a value is the default of its type. A hand-over leaves out such fields of clients,
/// since all clients wait while it writes and reads them.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Arrays with more than 32 items, which serde does not support.
pub mod array {
    use super::*;

    /// Writes an array, for `serde(with)`.
    pub fn serialize<S: Serializer, T: Serialize, const N: usize>(
        array: &[T; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(array)
    }

    /// Reads an array, for `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[T; N], D::Error> {
        let list = Vec::<T>::deserialize(deserializer)?;
        list.try_into()
            .map_err(|list: Vec<T>| Error::custom(format!("{} of {N} numbers", list.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name, number and value of each line of these pieces.
    fn read<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<(String, u64, String)>, HandoverError> {
        let (mut reader, mut read) = (Reader::new(1024), Vec::new());
        for piece in pieces {
            reader.receive(piece, |line| {
                let value = line.value.to_owned();
                read.push((line.name.to_owned(), line.number, value));
                Ok(())
            })?;
        }
        reader.finish().map(|()| read)
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_less() {
        let mut text = Vec::new();
        let mut out = |piece: &[u8]| text.extend_from_slice(piece);
        let mut writer = Writer::new(&mut out);
        writer.put("a", 7, &"line\nend");
        writer.put("b", 8, &[1, 2]);
        writer.finish();
        let lines = [("a", 7, "\"line\\nend\""), ("b", 8, "[1,2]")];
        let lines = lines.map(|(name, number, value)| (name.to_owned(), number, value.to_owned()));
        for end in 0..text.len() {
            let (one, other) = text.split_at(end);
            assert!(read([one]).is_err(), "{end}");
            assert_eq!(read([one, other]).expect("all of it"), lines, "{end}");
        }
        assert_eq!(read(text.chunks(1)).expect("all of it"), lines);
    }

    /// Each piece has whole lines, and no line is left out.
    #[test]
    fn the_state_is_sent_in_pieces() {
        let mut pieces = Vec::new();
        let mut out = |piece: &[u8]| pieces.push(piece.to_vec());
        let mut writer = Writer::new(&mut out);
        for number in 0..10_000 {
            writer.put("number", number, &"of many");
        }
        writer.finish();
        assert!(pieces.len() > 5);
        let is_whole = |piece: &Vec<u8>| piece.ends_with(b"\n") && piece.len() < 2 * PIECE_BYTES;
        assert!(pieces.iter().all(is_whole));
        let lines = read(pieces.iter().map(Vec::as_slice)).expect("all of it");
        let numbers = lines.into_iter().map(|(_, number, _)| number);
        assert!(numbers.eq(0..10_000));
    }

    /// The reader keeps a bounded part of a line.
    #[test]
    fn a_line_that_does_not_end_is_refused() {
        let mut reader = Reader::new(1024);
        let mut take = |piece: &[u8]| reader.receive(piece, |_| Ok(()));
        assert_eq!(take(b"tollgate 5 \"0.1\"\nstream 1 \""), Ok(()));
        assert_eq!(take(&[b'x'; 1014]), Ok(()));
        let Err(HandoverError(why)) = take(b"x") else {
            panic!("it is kept");
        };
        assert!(why.contains("line 2 is longer than 1024 bytes"), "{why}");
    }

    #[test]
    fn what_is_no_hand_over_is_refused_in_words() {
        let no_line = "a line that is no name, number and value";
        for (text, words) in [
            (
                "tollgate 1 \"0.0\"\nend 1 null\n",
                "it is in format 1, by version \"0.0\"; this one reads 5 to 5",
            ),
            (
                "tollgate 6 \"9.1\"\nend 1 null\n",
                "it is in format 6, by version \"9.1\"; this one reads 5 to 5",
            ),
            ("tollgate 5 \"1\"\na 7\n", no_line),
            ("tollgate 5 \"1\"\na -7 null\n", no_line),
            (
                "tollgate 5 \"1\"\na 7 null\nend 1 null\n",
                "2 lines have come; the sender counts 1",
            ),
        ] {
            let why = read([text.as_bytes()]).map_err(|HandoverError(why)| why);
            assert_eq!(why, Err(words.to_owned()), "{text}");
        }
    }

    #[test]
    fn bytes_are_sent_as_text() {
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Held(#[serde(with = "bytes")] Vec<u8>);
        let held = Held((0..=255).collect());
        let text = serde_json::to_string(&held).expect("text");
        assert!(text.len() <= 2 * 256 + 2, "{text}");
        assert_eq!(serde_json::from_str::<Held>(&text).expect("bytes"), held);
        assert!(serde_json::from_str::<Held>("\"\u{200}\"").is_err());
    }

    #[test]
    fn an_array_has_its_length() {
        #[derive(Deserialize, PartialEq, Debug)]
        struct Kept(#[serde(with = "array")] [u8; 3]);
        for (text, kept) in [
            ("[1,2]", None),
            ("[1,2,3]", Some(Kept([1, 2, 3]))),
            ("[1,2,3,4]", None),
        ] {
            assert_eq!(serde_json::from_str(text).ok(), kept, "{text}");
        }
    }
}
