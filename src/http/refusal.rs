//! Refusals of requests: a status, and a sentence that names the wrong value and the right one.
//!
//! Every error that a client sees is a [`Refusal`], sent as `application/problem+json` (RFC 9457).
//! The detail may quote what this client has sent, and never what another client has sent.

use serde::Serialize;

use super::status::Status;

/// Seconds after which a client whose request met a limit may try again.
pub const RETRY_AFTER_SECONDS: u32 = 5;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the response: 400 to 599.
    pub status: Status,
    /// The error, and what would be right.
    pub detail: String,
    /// A word for programs, where several errors share a status.
    pub reason: Option<&'static str>,
    /// The methods of this path, for 405.
    pub allow: Option<&'static str>,
    /// Seconds until the client should try again, if that can help.
    pub retry_after_seconds: Option<u32>,
    /// Whether the connection must close, because its framing is lost.
    pub ends_connection: bool,
}

#[derive(Serialize)]
struct Problem<'a> {
    title: &'a str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    detail: &'a str,
}

impl Refusal {
    /// Returns a refusal after which the connection can serve the next request.
    pub fn new(status: Status, detail: impl Into<String>) -> Refusal {
        Refusal {
            status,
            detail: detail.into(),
            reason: None,
            allow: None,
            retry_after_seconds: None,
            ends_connection: false,
        }
    }

    /// Returns a refusal after which the connection closes, because the request's framing is not
    /// certain.
    pub fn framing(status: Status, detail: impl Into<String>) -> Refusal {
        Refusal {
            ends_connection: true,
            ..Refusal::new(status, detail)
        }
    }

    /// Returns 405, with the methods of the path.
    pub fn method(allow: &'static str) -> Refusal {
        Refusal {
            allow: Some(allow),
            ..Refusal::new(
                Status::MethodNotAllowed,
                format!("this path takes only {allow}"),
            )
        }
    }

    /// Returns 503 for a limit that is reached. The client may try again.
    pub fn busy(detail: impl Into<String>) -> Refusal {
        Refusal::new(Status::ServiceUnavailable, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    /// Tells the client to try again after this number of seconds.
    pub fn retry_after(self, seconds: u32) -> Refusal {
        Refusal {
            retry_after_seconds: Some(seconds),
            ..self
        }
    }

    /// Adds a reason for programs.
    pub fn because(self, reason: &'static str) -> Refusal {
        Refusal {
            reason: Some(reason),
            ..self
        }
    }

    /// Returns the body of the response.
    pub fn problem_json(&self) -> Vec<u8> {
        let problem = Problem {
            title: self.status.title(),
            status: self.status.code(),
            reason: self.reason,
            detail: &self.detail,
        };
        // Serialising two strings and a number cannot fail.
        let mut body = serde_json::to_vec(&problem).unwrap_or_default();
        // A terminal shows its prompt on the next line.
        body.push(b'\n');
        body
    }
}

/// Returns 400 for a head or body that violates the RFCs.
pub(super) fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::framing(Status::BadRequest, detail)
}

/// Returns at most `bytes_max` bytes of `text`, with unprintable characters escaped, to quote it to
/// its sender or in the log.
pub fn quoted(text: &str, bytes_max: usize) -> String {
    let mut quote = String::new();
    for character in text.chars() {
        if quote.len() >= bytes_max {
            quote.push('…');
            break;
        }
        if character.is_control() {
            quote.extend(character.escape_default());
        } else {
            quote.push(character);
        }
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_within_their_bound_and_on_one_line() {
        for (text, quote) in [
            ("", ""),
            ("abcd", "abcd"),
            ("abcde", "abcd…"),
            ("abcé", "abcé"),
            ("abcéd", "abcé…"),
            ("a\nb", "a\\nb"),
            ("a\u{7f}", "a\\u{7f}"),
            ("\u{85}b", "\\u{85}…"),
        ] {
            assert_eq!(quoted(text, 4), quote, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_says_all_that_its_answer_holds() {
        let method = Refusal::method("GET, HEAD");
        assert_eq!(
            (method.status, method.allow),
            (Status::MethodNotAllowed, Some("GET, HEAD"))
        );
        assert!(method.detail.contains("GET, HEAD") && !method.ends_connection);
        let busy = Refusal::busy("later").retry_after(7);
        assert_eq!(
            (busy.retry_after_seconds, busy.ends_connection),
            (Some(7), false)
        );
        assert!(malformed("x").ends_connection);
        let problem = Refusal::new(Status::NotFound, "no \"such\" thing").problem_json();
        let expected =
            r#"{"title":"Not Found","status":404,"detail":"no \"such\" thing"}"#.to_owned() + "\n";
        assert_eq!(String::from_utf8_lossy(&problem), expected);
    }
}
