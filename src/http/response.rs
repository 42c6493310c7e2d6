//! Writes responses: status lines, fields, and bodies of known length (RFC 9110, RFC 9112 section
//! 4).

use std::fmt::Write as _;

use super::refusal::Refusal;
use super::status::Status;
use super::version::Version;
use crate::time::UnixTime;

/// Properties that all responses to a request share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Reply {
    /// Version of the request.
    pub version: Version,
    /// Whether the connection stays open for another request.
    pub keep_alive: bool,
    /// Whether the request is HEAD, so that only the response head is sent.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub head_only: bool,
    /// Whether caches must not keep the response, because the target is not spelled canonically: a
    /// cache would keep any number of variants.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub no_store: bool,
    /// Whether the client wants titles within a stream's media. `None`: the server sends none.
    #[cfg_attr(feature = "handover", serde(skip_serializing_if = "Option::is_none"))]
    pub wants_titles: Option<bool>,
    /// Whether a person reads the response in a browser, and gets a refusal as a page.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "std::ops::Not::not")
    )]
    pub wants_page: bool,
    /// The time of the response.
    pub date: UnixTime,
    /// Fields of all responses to this request.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub fields: &'static [(&'static str, &'static str)],
}

impl Reply {
    /// Sets `no_store`, unless caches may keep the response.
    pub fn no_store_unless(self, may_be_kept: bool) -> Reply {
        Reply {
            no_store: !may_be_kept,
            ..self
        }
    }

    /// Closes the connection after the response, unless it may stay open.
    pub fn close_unless(self, may_stay_open: bool) -> Reply {
        Reply {
            keep_alive: self.keep_alive && may_stay_open,
            ..self
        }
    }

    /// Closes the connection after the response.
    pub fn closing(self) -> Reply {
        Reply {
            keep_alive: false,
            ..self
        }
    }
}

/// Builds a response head; [`ResponseHead::finish`] ends it.
pub struct ResponseHead {
    text: String,
}

impl ResponseHead {
    /// Writes the status line, `Date` and `Connection`.
    pub fn new(status: Status, reply: &Reply) -> ResponseHead {
        let mut text = String::with_capacity(256);
        // HTTP/1.0 clients can read a 1.1 status line (RFC 9110 section 6.2).
        let _ = write!(text, "HTTP/1.1 {} {}\r\n", status.code(), status.title());
        let _ = write!(text, "Date: {}\r\n", reply.date.http_form());
        match (reply.version, reply.keep_alive) {
            (Version::Http11, true) => {}
            (Version::Http10, true) => text.push_str("Connection: keep-alive\r\n"),
            (_, false) => text.push_str("Connection: close\r\n"),
        }
        let head = ResponseHead { text };
        let fields = reply.fields.iter();
        fields.fold(head, |head, (name, value)| head.field(name, value))
    }

    /// Adds a field. Drops control characters of `value`, so that it cannot end the line.
    pub fn field(mut self, name: &str, value: &str) -> ResponseHead {
        let _ = write!(self.text, "{name}: ");
        let is_text = |letter: &char| *letter == '\t' || !letter.is_control();
        self.text.extend(value.chars().filter(is_text));
        self.text.push_str("\r\n");
        self
    }

    /// Returns the head.
    pub fn finish(mut self) -> Vec<u8> {
        self.text.push_str("\r\n");
        self.text.into_bytes()
    }
}

/// Returns a response with its whole body, which is given in parts. `fields` follow the usual ones.
pub fn whole(
    status: Status,
    reply: &Reply,
    content_type: &str,
    fields: &[(&str, &str)],
    body: &[&[u8]],
) -> Vec<u8> {
    let body_bytes: usize = body.iter().map(|part| part.len()).sum();
    let mut head = ResponseHead::new(status, reply);
    if status != Status::NoContent {
        head = head
            .field("Content-Type", content_type)
            .field("Content-Length", &body_bytes.to_string())
            .field("X-Content-Type-Options", "nosniff");
    }
    for (name, value) in fields {
        head = head.field(name, value);
    }
    let mut bytes = head.finish();
    if !reply.head_only {
        bytes.reserve_exact(body_bytes);
        for part in body {
            bytes.extend_from_slice(part);
        }
    }
    bytes
}

/// Returns the response to a refused request.
pub fn refused(refusal: &Refusal, reply: &Reply) -> Vec<u8> {
    let retry_after = refusal
        .retry_after_seconds
        .map(|seconds| seconds.to_string());
    let mut all = vec![("Cache-Control", "no-store")];
    if refusal.status == Status::Unauthorized {
        all.push(("WWW-Authenticate", "Basic realm=\"tollgate\""));
    }
    if let Some(allow) = refusal.allow {
        all.push(("Allow", allow));
    }
    if let Some(seconds) = &retry_after {
        all.push(("Retry-After", seconds));
    }
    whole(
        refusal.status,
        reply,
        "application/problem+json",
        &all,
        &[&refusal.problem_json()],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: Reply = Reply {
        version: Version::Http11,
        keep_alive: true,
        head_only: false,
        no_store: false,
        wants_titles: None,
        wants_page: false,
        date: UnixTime { unix_seconds: 0 },
        fields: &[("Server", "x")],
    };

    /// Removes the parts that all responses share.
    fn answered(bytes: Vec<u8>) -> String {
        let text = String::from_utf8(bytes).expect("text");
        text.replace("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n", "")
            .replace("Server: x\r\n", "")
            .replace("\r\n", "|")
    }

    #[test]
    fn no_value_ends_a_line() {
        let head = ResponseHead::new(Status::Ok, &REPLY);
        let before = head.text.clone();
        let head = head.field("Location", "a\r\nSet-Cookie: x\n\u{85}\0\u{7f}\tä");
        let written = head.text.strip_prefix(&before).expect("what was there");
        assert_eq!(written, "Location: aSet-Cookie: x\tä\r\n");
    }

    #[test]
    fn an_answer_says_what_its_body_is_if_it_may_have_one() {
        let of = |status, reply: &Reply| {
            let body: &[&[u8]] = match status {
                Status::NoContent => &[],
                _ => &[b"two", b" parts"],
            };
            answered(whole(status, reply, "text/plain", &[("X", "y")], body))
        };
        let fields =
            "Content-Type: text/plain|Content-Length: 9|X-Content-Type-Options: nosniff|X: y||";
        let ok = format!("HTTP/1.1 200 OK|{fields}");
        assert_eq!(of(Status::Ok, &REPLY), format!("{ok}two parts"));
        let head_only = Reply {
            head_only: true,
            ..REPLY
        };
        assert_eq!(of(Status::Ok, &head_only), ok);
        assert_eq!(
            of(Status::NoContent, &REPLY),
            "HTTP/1.1 204 No Content|X: y||"
        );
    }

    #[test]
    fn an_answer_says_what_becomes_of_its_connection() {
        let head = |version, keep_alive| {
            let reply = Reply {
                version,
                keep_alive,
                ..REPLY
            };
            answered(ResponseHead::new(Status::Ok, &reply).finish())
        };
        let with = |field: &str| format!("HTTP/1.1 200 OK|{field}|");
        assert_eq!(head(Version::Http11, true), with(""));
        assert_eq!(head(Version::Http11, false), with("Connection: close|"));
        assert_eq!(head(Version::Http10, true), with("Connection: keep-alive|"));
        assert_eq!(head(Version::Http10, false), with("Connection: close|"));
        assert!(!REPLY.closing().keep_alive);
    }

    /// `WWW-Authenticate`, `Allow` and `Retry-After` are only there if they help.
    #[test]
    fn a_refusal_says_what_would_help() {
        for (refusal, helps) in [
            (
                Refusal::new(Status::Unauthorized, "x"),
                "WWW-Authenticate: Basic realm=\"tollgate\"",
            ),
            (Refusal::method("GET"), "Allow: GET"),
            (Refusal::busy("x"), "Retry-After: 5"),
            (Refusal::new(Status::Forbidden, "x"), ""),
        ] {
            let text = answered(refused(&refusal, &REPLY));
            let found: Vec<&str> = text
                .split('|')
                .filter(|line| {
                    ["WWW-", "Allow", "Retry"]
                        .iter()
                        .any(|name| line.starts_with(name))
                })
                .collect();
            assert_eq!(found.join("|"), helps);
            assert!(text.contains("|Cache-Control: no-store|"));
            let problem = String::from_utf8(refusal.problem_json()).expect("JSON");
            assert!(text.ends_with(&format!("||{problem}")), "{text}");
        }
    }
}
