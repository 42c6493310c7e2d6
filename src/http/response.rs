//! Writing responses: status lines, header fields, and bodies whose length is known.
//!
//! Never decides anything: what is answered is decided above. (RFC 9110, RFC 9112 section 4.)

use std::fmt::Write as _;

use super::date::HttpDate;
use super::head::Version;
use super::refusal::Refusal;

/// The statuses that this server answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// 200
    Ok,
    /// 201
    Created,
    /// 204
    NoContent,
    /// 400
    BadRequest,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 406
    NotAcceptable,
    /// 408
    RequestTimeout,
    /// 409
    Conflict,
    /// 411
    LengthRequired,
    /// 413
    ContentTooLarge,
    /// 414
    UriTooLong,
    /// 417
    ExpectationFailed,
    /// 429
    TooManyRequests,
    /// 431
    HeaderFieldsTooLarge,
    /// 501
    NotImplemented,
    /// 502
    BadGateway,
    /// 503
    ServiceUnavailable,
    /// 504
    GatewayTimeout,
    /// 505
    VersionNotSupported,
    /// 507
    InsufficientStorage,
    /// 508
    LoopDetected,
}

impl Status {
    /// The three digits.
    pub fn code(self) -> u16 {
        self.row().0
    }

    /// The reason phrase.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::Created => (201, "Created"),
            Status::NoContent => (204, "No Content"),
            Status::BadRequest => (400, "Bad Request"),
            Status::Unauthorized => (401, "Unauthorized"),
            Status::Forbidden => (403, "Forbidden"),
            Status::NotFound => (404, "Not Found"),
            Status::MethodNotAllowed => (405, "Method Not Allowed"),
            Status::NotAcceptable => (406, "Not Acceptable"),
            Status::RequestTimeout => (408, "Request Timeout"),
            Status::Conflict => (409, "Conflict"),
            Status::LengthRequired => (411, "Length Required"),
            Status::ContentTooLarge => (413, "Content Too Large"),
            Status::UriTooLong => (414, "URI Too Long"),
            Status::ExpectationFailed => (417, "Expectation Failed"),
            Status::TooManyRequests => (429, "Too Many Requests"),
            Status::HeaderFieldsTooLarge => (431, "Request Header Fields Too Large"),
            Status::NotImplemented => (501, "Not Implemented"),
            Status::BadGateway => (502, "Bad Gateway"),
            Status::ServiceUnavailable => (503, "Service Unavailable"),
            Status::GatewayTimeout => (504, "Gateway Timeout"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
            Status::InsufficientStorage => (507, "Insufficient Storage"),
            Status::LoopDetected => (508, "Loop Detected"),
        }
    }
}

/// What every answer to one request has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's version.
    pub version: Version,
    /// Whether the connection stays open for another request.
    pub keep_alive: bool,
    /// The answer to HEAD: its head only.
    pub head_only: bool,
    /// When the answer is made.
    pub date: HttpDate,
    /// Fields that every answer to this request carries.
    pub fields: &'static [(&'static str, &'static str)],
}

impl Reply {
    /// The same, but the connection ends after it.
    pub fn closing(self) -> Reply {
        Reply {
            keep_alive: false,
            ..self
        }
    }
}

/// A response head in the making; [`ResponseHead::finish`] ends it.
pub struct ResponseHead {
    text: String,
}

impl ResponseHead {
    /// The status line, `Date` and `Connection`.
    pub fn new(status: Status, reply: &Reply) -> ResponseHead {
        let mut text = String::with_capacity(256);
        // An HTTP/1.0 client reads a 1.1 status line as well (RFC 9110 section 6.2).
        let _ = write!(text, "HTTP/1.1 {} {}\r\n", status.code(), status.title());
        let _ = write!(text, "Date: {}\r\n", reply.date);
        match (reply.version, reply.keep_alive) {
            (Version::Http11, true) => {}
            (Version::Http10, true) => text.push_str("Connection: keep-alive\r\n"),
            (_, false) => text.push_str("Connection: close\r\n"),
        }
        for (name, value) in reply.fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        ResponseHead { text }
    }

    /// One more field. `value` is this server's own, or was checked to hold no control character
    /// when it was parsed.
    pub fn field(mut self, name: &str, value: &str) -> ResponseHead {
        debug_assert!(!value.bytes().any(|byte| byte < b' ' && byte != b'\t'));
        let _ = write!(self.text, "{name}: {value}\r\n");
        self
    }

    /// The head as bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.text.push_str("\r\n");
        self.text.into_bytes()
    }
}

/// A whole response whose body is at hand, in parts, and of the type that it says. `fields` come
/// after the usual ones.
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

/// The response to a request that is refused.
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
