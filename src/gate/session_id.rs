//! Session ids.
//!
//! A session id is a secret: with it, anyone may use the session's token. So it is never printed.
//! There is no `Display`, `Debug` prints the digest, and errors name lengths and offsets. Session
//! ids leave the process only in JSON, for callers of the API or callers that have sent them.

use std::fmt::{self, Debug, Display, Formatter};
use std::rc::Rc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A session id: 1 to 256 bytes of UTF-8 without control characters. Clones share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Rc<str>);

impl SessionId {
    /// Length of the longest session id, in bytes after percent-decoding.
    pub const BYTES_MAX: usize = 256;

    /// Parses bytes that are percent-decoded. The error counts decoded bytes from 0.
    pub fn parse(bytes: &[u8]) -> Result<SessionId, String> {
        let count = bytes.len();
        let text = match std::str::from_utf8(bytes) {
            _ if bytes.is_empty() => Err("is empty".to_owned()),
            _ if count > Self::BYTES_MAX => Err(format!("has {count} bytes")),
            Err(error) => Err(format!("is not UTF-8 at byte {}", error.valid_up_to())),
            Ok(text) => match text.find(char::is_control) {
                Some(offset) => Err(format!("has a control character at byte {offset}")),
                None => Ok(text),
            },
        };
        text.map(|text| SessionId(Rc::from(text))).map_err(|fault| {
            format!(
                "it {fault}; it must be 1 to {} bytes of UTF-8 without control characters",
                Self::BYTES_MAX
            )
        })
    }

    /// Returns the decoded text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the memory of the text in bytes, which all clones share.
    pub fn memory_bytes(&self) -> usize {
        2 * size_of::<usize>() + self.0.len()
    }

    /// Returns the label for logs. It is the same after a restart, and too short to contain the
    /// session id.
    pub fn digest(&self) -> Digest {
        // FNV-1a, 64 bits, folded to 32. Without a key, labels can be compared across restarts and
        // machines. A guess of a session id can be checked against a label, so session ids should
        // be long and random.
        let hash = self
            .0
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        Digest((hash >> 32) as u32 ^ hash as u32)
    }
}

impl Debug for SessionId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "SessionId({})", self.digest())
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        SessionId::parse(text.as_bytes()).map_err(serde::de::Error::custom)
    }
}

/// The label of a session id. Prints as 8 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(u32);

impl Display for Digest {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns a session id for a test.
#[cfg(test)]
pub(crate) fn session(name: &str) -> SessionId {
    SessionId::parse(name.as_bytes()).expect("a good sessionid")
}

#[cfg(test)]
mod tests {
    use super::session as parsed;
    use super::*;

    #[test]
    fn valid_text_is_kept_unchanged() {
        for text in [
            "a",
            " ",
            "demo",
            "ключ",
            "a/b?c=d&e#f%2f+\"'\\",
            "\u{a0}\u{202e}",
        ] {
            assert_eq!(parsed(text).as_str(), text);
        }
        assert_eq!(parsed(&"x".repeat(256)).as_str().len(), 256);
    }

    #[test]
    fn each_error_has_its_own_reason() {
        let long = "é".repeat(129);
        let cases: [(&[u8], &str); 8] = [
            (b"", "is empty"),
            (long.as_bytes(), "has 258 bytes"),
            (&[b'x'; 257], "has 257 bytes"),
            (b"ab\xff", "is not UTF-8 at byte 2"),
            (b"\xc3", "is not UTF-8 at byte 0"),
            (b"a\0", "has a control character at byte 1"),
            (b"a\x7fb", "has a control character at byte 1"),
            ("aé\u{85}".as_bytes(), "has a control character at byte 3"),
        ];
        for (bytes, fault) in cases {
            let right = "it must be 1 to 256 bytes of UTF-8 without control characters";
            assert_eq!(SessionId::parse(bytes), Err(format!("it {fault}; {right}")));
        }
    }

    #[test]
    fn logs_show_only_a_stable_label() {
        let session = parsed("top secret");
        assert_eq!(session.digest(), parsed("top secret").digest());
        assert_ne!(session.digest(), parsed("top secret ").digest());
        // The 64-bit FNV-1a of "a" is af63dc4c8601ec8c.
        assert_eq!(parsed("a").digest().to_string(), "296230c0");
        assert_eq!(format!("{:?}", parsed("a")), "SessionId(296230c0)");
        assert!(!format!("{session:?}").contains("secret"));
        assert_eq!(session.digest().to_string().len(), 8);
    }

    /// The text, and the two counters of its `Rc`.
    #[test]
    fn memory_is_counted() {
        let counters = 2 * size_of::<usize>();
        assert_eq!(parsed("a").memory_bytes(), counters + 1);
        assert_eq!(parsed(&"é".repeat(128)).memory_bytes(), counters + 256);
    }

    #[test]
    fn json_gets_the_string() {
        let json = serde_json::to_string(&parsed("a\"é")).expect("JSON");
        assert_eq!(json, "\"a\\\"é\"");
    }
}
