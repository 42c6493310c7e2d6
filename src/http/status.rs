//! Status codes of this server's responses (RFC 9110 section 15).

/// Status codes of this server's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Status {
    /// 200
    Ok,
    /// 201
    Created,
    /// 204
    NoContent,
    /// 307
    TemporaryRedirect,
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
    /// The status codes of refusals.
    pub const REFUSALS: [Status; 21] = [
        Status::BadRequest,
        Status::Unauthorized,
        Status::Forbidden,
        Status::NotFound,
        Status::MethodNotAllowed,
        Status::NotAcceptable,
        Status::RequestTimeout,
        Status::Conflict,
        Status::LengthRequired,
        Status::ContentTooLarge,
        Status::UriTooLong,
        Status::ExpectationFailed,
        Status::TooManyRequests,
        Status::HeaderFieldsTooLarge,
        Status::NotImplemented,
        Status::BadGateway,
        Status::ServiceUnavailable,
        Status::GatewayTimeout,
        Status::VersionNotSupported,
        Status::InsufficientStorage,
        Status::LoopDetected,
    ];

    /// Returns the three digits.
    pub fn code(self) -> u16 {
        self.row().0
    }

    /// Returns the reason phrase.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    fn row(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::Created => (201, "Created"),
            Status::NoContent => (204, "No Content"),
            Status::TemporaryRedirect => (307, "Temporary Redirect"),
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
