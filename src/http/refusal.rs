//! Why a request is refused: a status, and a sentence that says what was wrong with which value and
//! what would be right.
//!
//! Every error that a client sees begins here, and leaves as `application/problem+json` (RFC 9457).
//! The detail may quote what this client itself sent, never what another did.

use serde::Serialize;

use super::status::Status;

/// A request that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer: 400 to 599.
    pub status: Status,
    /// What was wrong, and what would be right.
    pub detail: String,
    /// A word for programs, where the status does not tell them apart.
    pub reason: Option<&'static str>,
    /// The methods that this path knows, where the status is 405.
    pub allow: Option<&'static str>,
    /// In how many seconds to come again, where that may help.
    pub retry_after_seconds: Option<u32>,
    /// The connection cannot be used on, because its framing is lost.
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
    /// A refusal after which the connection can be used on, if the request's body has been read.
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

    /// The request's framing cannot be trusted: the connection ends after the answer.
    pub fn framing(status: Status, detail: impl Into<String>) -> Refusal {
        Refusal {
            ends_connection: true,
            ..Refusal::new(status, detail)
        }
    }

    /// 405, with the methods that would be right.
    pub fn method(allow: &'static str) -> Refusal {
        Refusal {
            allow: Some(allow),
            ..Refusal::new(
                Status::MethodNotAllowed,
                format!("this path answers to {allow}"),
            )
        }
    }

    /// A limit is reached; the client may come again.
    pub fn busy(status: Status, detail: impl Into<String>, retry_after_seconds: u32) -> Refusal {
        Refusal {
            retry_after_seconds: Some(retry_after_seconds),
            ..Refusal::new(status, detail)
        }
    }

    /// The same refusal with a reason for programs.
    pub fn because(self, reason: &'static str) -> Refusal {
        Refusal {
            reason: Some(reason),
            ..self
        }
    }

    /// The body of the answer.
    pub fn problem_json(&self) -> Vec<u8> {
        let problem = Problem {
            title: self.status.title(),
            status: self.status.code(),
            reason: self.reason,
            detail: &self.detail,
        };
        // A struct of two strings and a number has no way to fail.
        serde_json::to_vec(&problem).unwrap_or_default()
    }
}

/// 400 for a head or a body that is not what the RFCs say.
pub(super) fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::framing(Status::BadRequest, detail)
}

/// At most `bytes_max` bytes of `text`, with what is not printable escaped: for quoting a client's
/// own words back to it, or in the log.
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
        let busy = Refusal::busy(Status::ServiceUnavailable, "later", 7);
        assert_eq!(
            (busy.retry_after_seconds, busy.ends_connection),
            (Some(7), false)
        );
        assert!(malformed("x").ends_connection);
        let problem = Refusal::new(Status::NotFound, "no \"such\" thing").problem_json();
        let expected = r#"{"title":"Not Found","status":404,"detail":"no \"such\" thing"}"#;
        assert_eq!(String::from_utf8_lossy(&problem), expected);
    }
}
