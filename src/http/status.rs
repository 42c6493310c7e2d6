//! Status codes of this server's responses (RFC 9110 section 15).

/// Makes the type of the status codes from a table: name, code and reason phrase of each.
macro_rules! table {
    ($($name:ident = $code:literal, $title:literal;)*) => {
        /// Status codes of this server's responses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
        pub enum Status {
            $(#[doc = stringify!($code)] $name = $code,)*
        }

        impl Status {
            const ALL: &[Status] = &[$(Status::$name),*];

            /// Returns the reason phrase.
            pub fn title(self) -> &'static str {
                match self {
                    $(Status::$name => $title,)*
                }
            }
        }
    };
}

table! {
    Ok = 200, "OK";
    Created = 201, "Created";
    NoContent = 204, "No Content";
    TemporaryRedirect = 307, "Temporary Redirect";
    BadRequest = 400, "Bad Request";
    Unauthorized = 401, "Unauthorized";
    Forbidden = 403, "Forbidden";
    NotFound = 404, "Not Found";
    MethodNotAllowed = 405, "Method Not Allowed";
    NotAcceptable = 406, "Not Acceptable";
    RequestTimeout = 408, "Request Timeout";
    Conflict = 409, "Conflict";
    LengthRequired = 411, "Length Required";
    ContentTooLarge = 413, "Content Too Large";
    UriTooLong = 414, "URI Too Long";
    ExpectationFailed = 417, "Expectation Failed";
    TooManyRequests = 429, "Too Many Requests";
    HeaderFieldsTooLarge = 431, "Request Header Fields Too Large";
    NotImplemented = 501, "Not Implemented";
    BadGateway = 502, "Bad Gateway";
    ServiceUnavailable = 503, "Service Unavailable";
    GatewayTimeout = 504, "Gateway Timeout";
    VersionNotSupported = 505, "HTTP Version Not Supported";
    InsufficientStorage = 507, "Insufficient Storage";
    LoopDetected = 508, "Loop Detected";
}

impl Status {
    /// Returns the status codes of refusals.
    pub fn refusals() -> impl Iterator<Item = Status> {
        Status::ALL.iter().copied().filter(|it| it.code() >= 400)
    }

    /// Returns the three digits.
    pub fn code(self) -> u16 {
        self as u16
    }
}
