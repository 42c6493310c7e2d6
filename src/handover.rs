//! What one process tells another that takes its place: lines of text, each with the name of what
//! it is about, its number, and what is to be known of it in JSON.
//!
//! ```text
//!   tollgate 1 "0.1.0"
//!   core 0 {"run":…}
//!   connection 4294967296 {"peer":"192.0.2.1:4711",…}
//!   …
//!   end 42 null
//! ```
//!
//! Each part writes its own and reads it again. Two versions understand each other both ways as
//! long as the number in the first line is the same: what one of them adds the other passes over,
//! or has a default for. Who changes what is told keeps to this:
//!
//! - A field that is added has a default (`serde(default)`), which says what was so before there
//!   was the field. If nothing does, [`OLDEST`] is raised with [`FORMAT`].
//! - A field that is left out, or means something else, a kind of line, and one more case of what
//!   has several, cannot be read by the version before: [`FORMAT`] is raised.
//!
//! `tests/handover.rs` keeps it, with what each format that is read still has told. Media is not
//! among it: see [`crate::relay::handover`].
//!
//! Nothing that is read is believed: what does not fit is [`Unfit`], in words.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is told here. Raised when it could not be read by the version before.
pub const FORMAT: u64 = 1;

/// The first of those that are still read. Raised when what was told in it cannot be any more.
pub const OLDEST: u64 = 1;

/// Whether what this version tells in this format can be read.
pub fn is_known(format: u64, version: &str) -> Result<(), Unfit> {
    must((OLDEST..=FORMAT).contains(&format), || {
        let version: String = version.chars().take(32).collect();
        format!(
            "it is told in format {format}, by version {version:?}; this one reads {OLDEST} to \
             {FORMAT}"
        )
    })
}

/// Why what is told cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(pub String);

impl Display for Unfit {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

/// More was never counted: so much may come on top.
pub const COUNT_MAX: u64 = u64::MAX / 4;

/// Whether so much may come on top of each of these.
pub fn are_counts<const N: usize>(counts: [u64; N]) -> bool {
    counts.into_iter().all(|count| count <= COUNT_MAX)
}

/// Whether the differences and sums of a few such times, in whichever ticks, overflow nothing.
pub fn are_times<const N: usize>(times: [i64; N]) -> bool {
    let most = i64::MAX.unsigned_abs() / 4;
    times.into_iter().all(|time| time.unsigned_abs() <= most)
}

/// Whether anything may have lasted so long: a few of them together overflow nothing.
pub fn are_spans<const N: usize>(spans: [Duration; N]) -> bool {
    spans
        .into_iter()
        .all(|span| span <= Duration::from_secs(1 << 36))
}

/// `Err` with these words unless it is so.
pub fn must(is_so: bool, what: impl FnOnce() -> String) -> Result<(), Unfit> {
    match is_so {
        true => Ok(()),
        false => Err(Unfit(what())),
    }
}

/// What is told, in the making.
pub struct Writer {
    text: Vec<u8>,
    lines: u64,
}

impl Default for Writer {
    fn default() -> Writer {
        let mut writer = Writer {
            text: Vec::new(),
            lines: 0,
        };
        writer.put(FIRST, FORMAT, &env!("CARGO_PKG_VERSION"));
        writer
    }
}

const FIRST: &str = "tollgate";
const LAST: &str = "end";

impl Writer {
    /// One more line, unless there is something in it that is not told. Says whether it is one.
    pub fn put(&mut self, name: &str, number: u64, value: &impl Serialize) -> bool {
        let before = self.text.len();
        self.text
            .extend_from_slice(format!("{name} {number} ").as_bytes());
        let is_told = serde_json::to_writer(&mut self.text, value).is_ok();
        match is_told {
            true => self.text.push(b'\n'),
            false => self.text.truncate(before),
        }
        self.lines += u64::from(is_told);
        is_told
    }

    /// All of it.
    pub fn finish(mut self) -> Vec<u8> {
        self.put(LAST, self.lines, &());
        self.text
    }
}

/// A line that was told.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What it is about,
    pub name: &'a str,
    /// and which of these.
    pub number: u64,
    value: &'a [u8],
}

impl Line<'_> {
    /// What is to be known of it.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Unfit> {
        serde_json::from_slice(self.value)
            .map_err(|error| Unfit(format!("{} {}: {error}", self.name, self.number)))
    }
}

/// The lines that were told, but for the first and the last; none, unless all have come of a format
/// that is known.
pub fn lines(text: &[u8]) -> Result<impl Iterator<Item = Result<Line<'_>, Unfit>>, Unfit> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let (first_bytes, first) = (first.len() + 1, line(first)?);
    must(first.name == FIRST, || {
        format!("it begins with '{}', and not with '{FIRST}'", first.name)
    })?;
    is_known(first.number, &first.read::<String>().unwrap_or_default())?;
    let text = text.get(first_bytes..).unwrap_or_default();
    let text = text.strip_suffix(b"\n").unwrap_or_default();
    let begin = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let (middle, last) = text.split_at(begin);
    let last = line(last)?;
    let count = 1 + middle.iter().filter(|byte| **byte == b'\n').count() as u64;
    must(last.name == LAST && last.number == count, || {
        format!("{count} lines have come, and not all that were told")
    })?;
    let middle = middle.strip_suffix(b"\n");
    let lines = middle
        .into_iter()
        .flat_map(|middle| middle.split(|byte| *byte == b'\n'));
    Ok(lines.map(line))
}

fn line(line: &[u8]) -> Result<Line<'_>, Unfit> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let name = words.next().and_then(text_of);
    let number = words.next().and_then(text_of);
    let number = number.and_then(|number| number.parse().ok());
    match (name, number, words.next()) {
        (Some(name), Some(number), Some(value)) if name.len() <= NAME_BYTES_MAX => Ok(Line {
            name,
            number,
            value,
        }),
        _ => Err(Unfit("a line that is no name, number and value".to_owned())),
    }
}

fn text_of(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

const NAME_BYTES_MAX: usize = 32;

/// Bytes as text, a character each: most are text, and the others are told in two bytes.
pub mod bytes {
    use super::*;

    /// For `serde(with)`.
    pub fn serialize<S: Serializer>(
        bytes: &impl AsRef<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text: String = bytes
            .as_ref()
            .iter()
            .map(|byte| char::from(*byte))
            .collect();
        serializer.serialize_str(&text)
    }

    /// For `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let mut bytes = bytes.map_err(|_| Error::custom("a character that is no byte"))?;
        bytes.shrink_to_fit();
        Ok(bytes.into())
    }
}

/// What is kept once for several: each has its own, until they are told of each other.
pub mod shared {
    use std::rc::Rc;

    use super::*;

    /// For `serde(with)`.
    pub fn serialize<S: Serializer, T: Serialize + ?Sized>(
        shared: &Rc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        shared.serialize(serializer)
    }

    /// For `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: ?Sized>(
        deserializer: D,
    ) -> Result<Rc<T>, D::Error>
    where
        Box<T>: Deserialize<'de>,
    {
        Ok(Box::<T>::deserialize(deserializer)?.into())
    }
}

/// The same, where there may be none.
pub mod shared_if {
    use std::rc::Rc;

    use super::*;

    /// For `serde(with)`.
    pub fn serialize<S: Serializer, T: Serialize>(
        shared: &Option<Rc<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(serializer)
    }

    /// For `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<Option<Rc<T>>, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map(Rc::new))
    }
}

/// Arrays that are longer than serde knows them.
pub mod array {
    use super::*;

    /// For `serde(with)`.
    pub fn serialize<S: Serializer, T: Serialize, const N: usize>(
        array: &[T; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(array)
    }

    /// For `serde(with)`.
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

    #[test]
    fn what_is_written_is_read_back_and_nothing_less() {
        let mut writer = Writer::default();
        writer.put("a", 7, &"line\nend");
        writer.put("b", 8, &[1, 2]);
        let text = writer.finish();
        let read: Vec<Line<'_>> = lines(&text)
            .expect("all of it")
            .collect::<Result<_, _>>()
            .expect("lines");
        assert_eq!((read[0].name, read[0].number), ("a", 7));
        assert_eq!(read[0].read::<String>().expect("text"), "line\nend");
        assert_eq!(read[1].read::<Vec<u8>>().expect("a list"), [1, 2]);
        for end in 0..text.len() {
            assert!(lines(&text[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn another_format_is_refused_in_words() {
        let text = b"tollgate 2 \"9.1\"\nend 1 null\n";
        let Err(Unfit(why)) = lines(text) else {
            panic!("it is taken");
        };
        assert_eq!(
            why,
            "it is told in format 2, by version \"9.1\"; this one reads 1 to 1"
        );
    }

    #[test]
    fn bytes_are_told_as_text() {
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Held(#[serde(with = "bytes")] Vec<u8>);
        let held = Held((0..=255).collect());
        let text = serde_json::to_string(&held).expect("text");
        assert_eq!(serde_json::from_str::<Held>(&text).expect("bytes"), held);
        assert!(serde_json::from_str::<Held>("\"\u{100}\"").is_err());
    }
}
