//! Request heads (RFC 9112 sections 2, 3 and 5): found in the bytes by [`HeadReader`], read into a [`Head`] that is right by construction.
//!
//! `httparse` splits the fields; it is lenient by intent, so line ends are checked before it sees anything, and what a field may
//! say is checked after.

use super::body::Framing;
use super::refusal::{Refusal, quoted};
use super::response::Status;
use super::target::Target;

/// How large a request's head may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The whole head, its empty line included.
    pub head_bytes_max: usize,
    /// The number of its fields: at most [`FIELDS_MAX`].
    pub head_fields_max: usize,
}

/// No option can ask for more fields than this: they are split on the stack.
pub const FIELDS_MAX: usize = 256;

impl Limits {
    /// The longest target that gets anything but 414: half of the head.
    fn target_bytes_max(&self) -> usize {
        self.head_bytes_max / 2
    }
}

/// The methods that this server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `PUT`
    Put,
    /// `POST`
    Post,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `SOURCE`, the way in of Icecast's clients
    Source,
    /// any other token
    Other,
}

impl Method {
    fn parse(token: &str) -> Method {
        match token {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "SOURCE" => Method::Source,
            _ => Method::Other,
        }
    }
}

/// The versions that this server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A request's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is asked.
    pub method: Method,
    /// The method as it was sent, for the access log.
    pub method_token: String,
    /// Of what it is asked.
    pub target: Target,
    /// In which version.
    pub version: Version,
    /// The authority that the request is for: `Host`, or that of an absolute target. Empty if a 1.0 client names none.
    pub host: String,
    /// How its body ends.
    pub framing: Framing,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Whether the client wants to send another request after this one.
    pub keep_alive: bool,
    /// `Content-Type`
    pub content_type: Option<String>,
    /// `Origin`
    pub origin: Option<String>,
    /// `Authorization`
    pub authorization: Option<String>,
    /// `User-Agent`
    pub user_agent: Option<String>,
    /// `Referer`
    pub referer: Option<String>,
    /// `Via`, all of its lines joined
    pub via: Option<String>,
    /// `X-Forwarded-For` or `Forwarded`, all lines joined
    pub forwarded: Forwarded,
}

/// What proxies in front say of the client (RFC 7239). To be believed only when they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// `Forwarded`
    pub standard: Option<String>,
    /// `X-Forwarded-For`
    pub x_forwarded_for: Option<String>,
}

/// Looks for the end of a head in bytes that arrive piece by piece, without looking at any byte twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadReader {
    /// How many bytes have been looked at.
    scanned: usize,
    /// Where the line begins that is being looked at: `line_start <= scanned`.
    line_start: usize,
    /// Whether the request line is behind.
    past_request_line: bool,
}

impl HeadReader {
    /// Looks on in `bytes`, which begin where the head does and hold at least what they held before. `Some` is the head and its length.
    pub fn read(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<(Head, usize)>, Refusal> {
        while let Some(&byte) = bytes.get(self.scanned) {
            if self.scanned >= limits.head_bytes_max {
                return Err(self.too_large(limits));
            }
            let after_cr = self.scanned > self.line_start && bytes[self.scanned - 1] == b'\r';
            match byte {
                b'\n' if after_cr => {
                    let line_bytes = self.scanned - 1 - self.line_start;
                    self.scanned += 1;
                    self.line_start = self.scanned;
                    if line_bytes > 0 {
                        self.past_request_line = true;
                    } else if self.past_request_line {
                        let head = parse(&bytes[..self.scanned], limits)?;
                        return Ok(Some((head, self.scanned)));
                    } else if self.scanned > 2 {
                        return Err(malformed(
                            "the request begins with empty lines; it must begin with its request line",
                        ));
                    }
                    continue;
                }
                _ if after_cr => {
                    return Err(malformed(
                        "a CR without its LF in the head; lines end with CRLF",
                    ));
                }
                b'\n' => {
                    return Err(malformed(
                        "an LF without its CR in the head; lines end with CRLF",
                    ));
                }
                b'\r' => {}
                b'\t' if self.past_request_line => {}
                byte if byte < b' ' || byte == 0x7f => {
                    return Err(malformed(format!(
                        "the byte 0x{byte:02x} in the head; control characters have no place there"
                    )));
                }
                byte if byte >= 0x80 && !self.past_request_line => {
                    return Err(malformed(format!(
                        "the byte 0x{byte:02x} in the request line; what is not ASCII is percent-encoded there"
                    )));
                }
                _ => {}
            }
            self.scanned += 1;
            if !self.past_request_line
                && self.scanned - self.line_start
                    > limits.target_bytes_max() + REQUEST_LINE_REST_MAX
            {
                return Err(self.too_large(limits));
            }
        }
        Ok(None)
    }

    /// Whether anything of a request has arrived.
    pub fn has_begun(&self) -> bool {
        self.scanned > 0
    }

    fn too_large(&self, limits: &Limits) -> Refusal {
        if self.past_request_line {
            Refusal::framing(
                Status::HeaderFieldsTooLarge,
                format!(
                    "the request's head is larger than {} bytes",
                    limits.head_bytes_max
                ),
            )
        } else {
            target_too_long(limits)
        }
    }
}

/// What a request line holds besides its target: the longest method that is let pass, two spaces, the version, CRLF.
const REQUEST_LINE_REST_MAX: usize = 64;

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::framing(Status::BadRequest, detail)
}

fn target_too_long(limits: &Limits) -> Refusal {
    Refusal::framing(
        Status::UriTooLong,
        format!(
            "the request's target is longer than {} bytes",
            limits.target_bytes_max()
        ),
    )
}

/// Reads a whole head whose lines are known to end with CRLF and to hold no control character.
fn parse(bytes: &[u8], limits: &Limits) -> Result<Head, Refusal> {
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let line_end = bytes
        .iter()
        .position(|&byte| byte == b'\r')
        .unwrap_or(bytes.len());
    let request_line = std::str::from_utf8(&bytes[..line_end])
        .map_err(|_| malformed("the request line is not ASCII"))?;
    let (method, target, version) = split_request_line(request_line)?;
    if target.len() > limits.target_bytes_max() {
        return Err(target_too_long(limits));
    }

    let mut storage = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let fields_max = limits.head_fields_max.min(FIELDS_MAX);
    let fields = match httparse::parse_headers(
        &bytes[(line_end + 2).min(bytes.len())..],
        &mut storage[..fields_max],
    ) {
        Ok(httparse::Status::Complete((_, fields))) => fields,
        Ok(httparse::Status::Partial) => return Err(malformed("the head ends within a field")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::framing(
                Status::HeaderFieldsTooLarge,
                format!("the request's head has more than {fields_max} fields"),
            ));
        }
        Err(error) => {
            return Err(malformed(format!(
                "a field of the head is malformed: {error}"
            )));
        }
    };
    let fields = Fields::read(fields)?;
    let framing = fields.framing(version)?;
    let version = version.ok_or_else(|| {
        Refusal::framing(
            Status::VersionNotSupported,
            "only HTTP/1.1 and HTTP/1.0 are spoken here",
        )
    })?;
    let (target, authority) = Target::parse(target)?;
    let host = fields.host(version, authority)?;
    let keep_alive = fields.keep_alive(version);
    let expects_continue = fields.expects_continue(version)?;
    Ok(Head {
        method: Method::parse(method),
        method_token: method.to_owned(),
        target,
        version,
        host,
        framing,
        expects_continue,
        keep_alive,
        content_type: fields.content_type,
        origin: fields.origin,
        authorization: fields.authorization,
        user_agent: fields.user_agent,
        referer: fields.referer,
        via: fields.via,
        forwarded: fields.forwarded,
    })
}

/// The three parts of a request line. The version is `None` where it is a version, but none that is spoken here.
fn split_request_line(line: &str) -> Result<(&str, &str, Option<Version>), Refusal> {
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed(
            "the request line is not METHOD TARGET VERSION with one space between",
        ));
    };
    if method.is_empty() || !method.bytes().all(is_token_byte) {
        return Err(malformed(format!(
            "the method '{}' is not a token",
            quoted(method, 32)
        )));
    }
    if target.is_empty() {
        return Err(malformed("the request has no target"));
    }
    let version = match version.as_bytes() {
        b"HTTP/1.1" => Some(Version::Http11),
        b"HTTP/1.0" => Some(Version::Http10),
        // A later minor version is answered as the highest one that is known (RFC 9110 section 2.5).
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Some(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => None,
        _ => {
            return Err(malformed(format!(
                "'{}' is not an HTTP version",
                quoted(version, 32)
            )));
        }
    };
    Ok((method, target, version))
}

pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The fields that matter here, as they were found.
#[derive(Default)]
struct Fields {
    hosts: usize,
    host: String,
    content_length: Option<String>,
    content_lengths: usize,
    transfer_encoding: Option<String>,
    connection: String,
    expect: Option<String>,
    content_type: Option<String>,
    origin: Option<String>,
    authorization: Option<String>,
    user_agent: Option<String>,
    referer: Option<String>,
    via: Option<String>,
    forwarded: Forwarded,
}

impl Fields {
    fn read(fields: &[httparse::Header<'_>]) -> Result<Fields, Refusal> {
        let mut found = Fields::default();
        for field in fields {
            let value = || String::from_utf8_lossy(field.value).into_owned();
            match field.name.to_ascii_lowercase().as_str() {
                "host" => {
                    found.hosts += 1;
                    found.host = value();
                }
                "content-length" => {
                    found.content_lengths += 1;
                    found.content_length = Some(value());
                }
                "transfer-encoding" => append(&mut found.transfer_encoding, &value()),
                "connection" => {
                    found.connection.push(',');
                    found.connection.push_str(&value());
                }
                "expect" => append(&mut found.expect, &value()),
                "content-type" => once(&mut found.content_type, field.name, value())?,
                "origin" => once(&mut found.origin, field.name, value())?,
                "authorization" => once(&mut found.authorization, field.name, value())?,
                "user-agent" => found.user_agent = Some(value()),
                "referer" => found.referer = Some(value()),
                "via" => append(&mut found.via, &value()),
                "forwarded" => append(&mut found.forwarded.standard, &value()),
                "x-forwarded-for" => append(&mut found.forwarded.x_forwarded_for, &value()),
                _ => {}
            }
        }
        Ok(found)
    }

    /// RFC 9112 section 6.3, without any of its leniencies.
    fn framing(&self, version: Option<Version>) -> Result<Framing, Refusal> {
        match (&self.transfer_encoding, &self.content_length) {
            (Some(_), Some(_)) => Err(malformed(
                "both Content-Length and Transfer-Encoding; one of them must go",
            )),
            (None, None) => Ok(Framing::None),
            (None, Some(_)) if self.content_lengths > 1 => {
                Err(malformed("more than one Content-Length; there must be one"))
            }
            (None, Some(length)) => parse_length(length).map(Framing::Length),
            (Some(_), None) if version == Some(Version::Http10) => Err(malformed(
                "Transfer-Encoding in an HTTP/1.0 request, which does not know it",
            )),
            (Some(codings), None) => {
                let mut codings = codings
                    .split(',')
                    .map(|coding| coding.trim_matches([' ', '\t']));
                if let Some(other) = codings
                    .clone()
                    .find(|coding| !coding.eq_ignore_ascii_case("chunked"))
                {
                    if other.is_empty() {
                        return Err(malformed("an empty transfer coding; it must be chunked"));
                    }
                    return Err(Refusal::framing(
                        Status::NotImplemented,
                        format!(
                            "the transfer coding '{}' is not known here, only chunked is",
                            quoted(other, 64)
                        ),
                    ));
                }
                if codings.nth(1).is_some() {
                    return Err(malformed("chunked more than once in Transfer-Encoding"));
                }
                Ok(Framing::Chunked)
            }
        }
    }

    fn host(&self, version: Version, authority: Option<String>) -> Result<String, Refusal> {
        match self.hosts {
            0 if version == Version::Http11 => {
                return Err(malformed("no Host; an HTTP/1.1 request must have one"));
            }
            0 | 1 => {}
            _ => return Err(malformed("more than one Host; there must be one")),
        }
        if !is_authority(&self.host) {
            return Err(malformed(format!(
                "the Host '{}' is not HOST or HOST:PORT",
                quoted(&self.host, 64)
            )));
        }
        Ok(authority.unwrap_or_else(|| self.host.clone()))
    }

    fn keep_alive(&self, version: Version) -> bool {
        let mut options = self
            .connection
            .split(',')
            .map(|option| option.trim_matches([' ', '\t']));
        match version {
            Version::Http11 => !options.any(|option| option.eq_ignore_ascii_case("close")),
            Version::Http10 => options.any(|option| option.eq_ignore_ascii_case("keep-alive")),
        }
    }

    /// RFC 9110 section 10.1.1; an HTTP/1.0 client cannot read a 100 and must not be sent one.
    fn expects_continue(&self, version: Version) -> Result<bool, Refusal> {
        match &self.expect {
            None => Ok(false),
            Some(expect) if expect.eq_ignore_ascii_case("100-continue") => {
                Ok(version == Version::Http11)
            }
            Some(expect) => Err(Refusal::framing(
                Status::ExpectationFailed,
                format!(
                    "the expectation '{}' cannot be met, only 100-continue can",
                    quoted(expect, 64)
                ),
            )),
        }
    }
}

fn append(list: &mut Option<String>, value: &str) {
    match list {
        None => *list = Some(value.to_owned()),
        Some(list) => {
            list.push(',');
            list.push_str(value);
        }
    }
}

fn once(place: &mut Option<String>, name: &str, value: String) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(malformed(format!(
            "more than one {name}; there must be one at most"
        ))),
    }
}

/// A number of bytes in decimal digits, and nothing but digits.
fn parse_length(text: &str) -> Result<u64, Refusal> {
    let mut length: u64 = 0;
    for byte in text.bytes() {
        let digit = match byte {
            b'0'..=b'9' => u64::from(byte - b'0'),
            _ => return Err(bad_length(text)),
        };
        length = length
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(digit))
            .ok_or_else(|| bad_length(text))?;
    }
    if text.is_empty() {
        Err(bad_length(text))
    } else {
        Ok(length)
    }
}

fn bad_length(text: &str) -> Refusal {
    malformed(format!(
        "the Content-Length '{}' is not a number of bytes below 2^64 in decimal digits",
        quoted(text, 64)
    ))
}

/// `HOST[:PORT]` of RFC 3986, checked no further than that it holds nothing which could be taken for something else.
pub(super) fn is_authority(text: &str) -> bool {
    if text.is_empty() {
        return true; // a target without an authority has an empty Host (RFC 9112 section 3.2)
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => text
            .find(':')
            .map_or((text, ""), |colon| text.split_at(colon)),
    };
    let host_is_good = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte));
    let port_is_good = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host_is_good && port_is_good
}
