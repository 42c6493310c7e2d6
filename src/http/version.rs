//! HTTP versions in first lines (RFC 9110 section 2.5).

use super::refusal::{Refusal, malformed, quoted};

/// Versions that this server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

impl Version {
    /// Returns `None` for a version that this server does not speak.
    pub(super) fn parse(text: &str) -> Result<Option<Version>, Refusal> {
        match text.as_bytes() {
            b"HTTP/1.1" => Ok(Some(Version::Http11)),
            b"HTTP/1.0" => Ok(Some(Version::Http10)),
            // A later minor version counts as the highest known one (RFC 9110 section 2.5).
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Some(Version::Http11)),
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Ok(None),
            _ => Err(malformed(format!(
                "'{}' is not an HTTP version",
                quoted(text, 32)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_spoken_or_another_or_none() {
        for (text, version) in [
            ("HTTP/1.1", Some(Version::Http11)),
            ("HTTP/1.0", Some(Version::Http10)),
            ("HTTP/1.2", Some(Version::Http11)),
            ("HTTP/1.9", Some(Version::Http11)),
            ("HTTP/0.9", None),
            ("HTTP/2.0", None),
            ("HTTP/3.1", None),
            ("HTTP/9.9", None),
        ] {
            assert_eq!(Version::parse(text), Ok(version), "{text}");
        }
        for wrong in [
            "",
            "HTTP/1",
            "HTTP/1.",
            "HTTP/1.10",
            "HTTP/11",
            "HTTP/1.1 ",
            "HTTP/1,1",
            "HTTP/a.1",
            "HTTP/1.a",
            "http/1.1",
            "HTTPS/1.1",
            "ICE/1.0",
            "XHTTP/1.1",
        ] {
            assert!(Version::parse(wrong).is_err(), "{wrong}");
        }
    }
}
