//! Response heads (RFC 9112 section 4), which this server reads when it fetches a stream from
//! another relay. [`AnswerReader`] finds the head in the bytes and parses it into an [`Answer`].
//!
//! It is as strict as with requests: a response that could be read in two ways is not relayed.
//! Handles responses to GET only.

use super::body::Framing;
use super::fields::{Fields, first_line};
use super::head::Limits;
use super::refusal::{Refusal, malformed, quoted};
use super::scan::{Bounds, Scan, ScanFault};
use super::status::Status;
use super::version::Version;

/// The head of a response to GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code: 100 to 599.
    pub status: u16,
    /// How the body ends.
    pub framing: Framing,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Via`, with all its lines joined.
    pub via: Option<String>,
}

/// Reads a response head from bytes that arrive in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerReader {
    scan: Scan,
}

/// Longest status line: a version, a code, and a phrase that is ignored.
const STATUS_LINE_BYTES_MAX: usize = 1024;

impl AnswerReader {
    /// Continues in `bytes`, which begin with the head and contain at least the bytes of the call
    /// before. Returns the head and its length when it is complete.
    pub fn read(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<(Answer, usize)>, Refusal> {
        let bounds = Bounds {
            head_bytes_max: limits.head_bytes_max,
            first_line_bytes_max: STATUS_LINE_BYTES_MAX,
            lf_after: None,
        };
        match self.scan.read(bytes, bounds) {
            Ok(None) => Ok(None),
            Ok(Some(length)) => Ok(Some((parse(&bytes[..length], limits)?, length))),
            Err(ScanFault::Malformed(detail)) => Err(malformed(detail)),
            Err(ScanFault::FirstLineTooLong | ScanFault::TooLarge) => Err(Refusal::framing(
                Status::HeaderFieldsTooLarge,
                "the answer's head is too large",
            )),
        }
    }
}

/// Parses a complete head. Its lines end with CRLF and contain no control character.
fn parse(bytes: &[u8], limits: &Limits) -> Result<Answer, Refusal> {
    let (status_line, rest) = first_line(bytes)?;
    let (version, status) = split_status_line(status_line)?;
    let fields = Fields::parse(rest, limits.head_fields_max)?;
    let framing = match (fields.framing(Some(version))?, status) {
        // RFC 9112 section 6.3: these have no body, also if their fields say so.
        (_, 100..=199 | 204 | 304) => Framing::None,
        (Framing::None, _) => Framing::UntilClose,
        (framing, _) => framing,
    };
    Ok(Answer {
        status,
        framing,
        content_type: fields.request.content_type,
        via: fields.request.via,
    })
}

fn split_status_line(line: &str) -> Result<(Version, u16), Refusal> {
    let wrong = || {
        malformed(format!(
            "the status line '{}' is not VERSION STATUS PHRASE",
            quoted(line, 64)
        ))
    };
    let (version, rest) = line.split_once(' ').ok_or_else(wrong)?;
    let (code, _) = rest.split_once(' ').ok_or_else(wrong)?;
    let version = Version::parse(version)?.ok_or_else(wrong)?;
    let [hundreds @ b'1'..=b'5', tens, ones] = code.as_bytes() else {
        return Err(wrong());
    };
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    match (digit(hundreds), digit(tens), digit(ones)) {
        (Some(hundreds), Some(tens), Some(ones)) => {
            Ok((version, hundreds * 100 + tens * 10 + ones))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        head_bytes_max: 256,
        head_fields_max: 8,
        takes_old_sources: false,
    };

    fn read(text: &str) -> Result<Option<(Answer, usize)>, Refusal> {
        AnswerReader::default().read(text.as_bytes(), &LIMITS)
    }

    fn answer(text: &str) -> Answer {
        let head = format!("{text}\r\n\r\nrest");
        let (answer, length) = read(&head).expect("a good head").expect("a whole one");
        assert_eq!(&head[length..], "rest");
        answer
    }

    #[test]
    fn the_body_ends_as_rfc_9112_says() {
        let framing = |text| answer(text).framing;
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked";
        assert_eq!(framing(chunked), Framing::Chunked);
        assert_eq!(
            framing("HTTP/1.1 404 Not Found\r\nContent-Length: 12"),
            Framing::Length(12)
        );
        assert_eq!(framing("HTTP/1.0 200 OK"), Framing::UntilClose);
        assert_eq!(framing("HTTP/1.1 200 "), Framing::UntilClose);
        assert_eq!(
            framing("HTTP/1.1 204 No Content\r\nContent-Length: 5"),
            Framing::None
        );
        assert_eq!(framing("HTTP/1.1 100 Continue"), Framing::None);
    }

    #[test]
    fn what_matters_is_kept() {
        let answer = answer(
            "HTTP/1.1 200 Fine so far\r\nVia: 1.1 a\r\ncontent-type: video/webm\r\nVia: 1.0 b",
        );
        assert_eq!(answer.status, 200);
        assert_eq!(answer.content_type.as_deref(), Some("video/webm"));
        assert_eq!(answer.via.as_deref(), Some("1.1 a,1.0 b"));
        for status in [100, 206, 307, 418, 599] {
            assert_eq!(
                super::tests::answer(&format!("HTTP/1.1 {status} ")).status,
                status
            );
        }
    }

    #[test]
    fn ambiguous_responses_are_refused() {
        for wrong in [
            "HTTP/1.1 200",
            "HTTP/1.1  200 OK",
            "HTTP/1.1 +20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 020 OK",
            "HTTP/1.1 600 What",
            "HTTP/2.0 200 OK",
            "ICY 200 OK",
            " HTTP/1.1 200 OK",
            "\r\nHTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\nX: y",
            "HTTP/1.1 200 OK\r\nX : y",
            "HTTP/1.1 200 OK\r\n folded",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1",
            "HTTP/1.1 200 OK\r\nContent-Length: +1",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d",
        ] {
            assert!(read(&format!("{wrong}\r\n\r\n")).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_head_is_larger_than_its_bound() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(300));
        assert!(read(&long).is_err());
        assert!(matches!(read(&long[..200]), Ok(None)));
    }
}
