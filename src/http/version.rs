//! The version that a first line names (RFC 9110 section 2.5).

use super::refusal::{Refusal, malformed, quoted};

/// The versions that this server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl Version {
    /// `None` is a version, but none that is spoken here.
    pub(super) fn parse(text: &str) -> Result<Option<Version>, Refusal> {
        match text.as_bytes() {
            b"HTTP/1.1" => Ok(Some(Version::Http11)),
            b"HTTP/1.0" => Ok(Some(Version::Http10)),
            // A later minor version is taken for the highest one that is known (RFC 9110 section
            // 2.5).
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Some(Version::Http11)),
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Ok(None),
            _ => Err(malformed(format!(
                "'{}' is not an HTTP version",
                quoted(text, 32)
            ))),
        }
    }
}
