//! Request heads (RFC 9112 sections 2 and 3). [`HeadReader`] finds the head in the bytes and parses
//! it into a [`Head`].

use super::body::Framing;
use super::fields::{Fields, RequestFields, first_line};
use super::grammar::is_token_byte;
use super::refusal::{Refusal, malformed, quoted};
use super::scan::{Bounds, Scan, ScanFault};
use super::status::Status;
use super::target::Target;
use super::version::Version;

/// Limits on a request's head.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Size of the head with its empty line.
    pub head_bytes_max: usize,
    /// Number of fields.
    pub head_fields_max: usize,
    /// Whether `SOURCE` requests of old Icecast clients are accepted: with lines that end with LF
    /// alone, the version `ICE/1.0`, and a body that ends with the connection.
    pub takes_old_sources: bool,
}

impl Limits {
    /// Returns the maximal length of a target: half of the head. A longer one gets 414.
    fn target_bytes_max(&self) -> usize {
        self.head_bytes_max / 2
    }
}

/// Methods that this server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `PUT`.
    Put,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `SOURCE`, with which Icecast clients publish.
    Source,
    /// Any other token.
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

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The method as it was sent, for the access log.
    pub method_token: String,
    /// The target.
    pub target: Target,
    /// The version.
    pub version: Version,
    /// The authority of the request: `Host`, or that of an absolute target. Empty if an HTTP/1.0
    /// client names none.
    pub host: String,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Whether the client wants to send another request on this connection.
    pub keep_alive: bool,
    /// Fields that are passed on as they were sent.
    pub fields: RequestFields,
}

impl Head {
    /// Returns the framing of what may follow the head, also if the request is refused. A source
    /// without a length may be an Icecast client, whose media must not be read as a request.
    pub fn framing_of_media(&self) -> Framing {
        match (self.method, self.framing) {
            (Method::Source | Method::Put, Framing::None) => Framing::UntilClose,
            (_, framing) => framing,
        }
    }

    /// Returns whether content may follow the head.
    pub fn has_payload(&self) -> bool {
        !matches!(self.framing_of_media(), Framing::None | Framing::Length(0))
    }
}

/// Reads a request head from bytes that arrive in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadReader {
    scan: Scan,
    has_begun: bool,
}

impl HeadReader {
    /// Returns a reader of a head whose first bytes another process has read. They come again.
    #[cfg(feature = "handover")]
    pub fn begun() -> HeadReader {
        HeadReader {
            has_begun: true,
            ..HeadReader::default()
        }
    }

    /// Continues in `bytes`, which begin with the head and contain at least the bytes of the call
    /// before. Returns the head and its length when it is complete.
    pub fn read(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<(Head, usize)>, Refusal> {
        let bounds = Bounds {
            head_bytes_max: limits.head_bytes_max,
            first_line_bytes_max: limits.target_bytes_max() + REQUEST_LINE_REST_MAX,
            lf_after: limits.takes_old_sources.then_some(SOURCE),
        };
        self.has_begun |= !bytes.is_empty();
        match self.scan.read(bytes, bounds) {
            Ok(None) => Ok(None),
            Ok(Some(length)) => Ok(Some((parse(&bytes[..length], limits)?, length))),
            Err(ScanFault::Malformed(detail)) => Err(malformed(detail)),
            Err(ScanFault::FirstLineTooLong) => Err(target_too_long(limits)),
            Err(ScanFault::TooLarge) => Err(Refusal::framing(
                Status::HeaderFieldsTooLarge,
                format!(
                    "the request's head is larger than {} bytes (--head-bytes)",
                    limits.head_bytes_max
                ),
            )),
        }
    }

    /// Returns whether the first byte of a request has arrived.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }
}

/// Beginning of the head of an old source.
const SOURCE: &[u8] = b"SOURCE ";

/// The version of old sources, which is HTTP/1.0 by another name.
const ICE: &str = "ICE/1.0";

/// Bytes of a request line without its target: the longest method that is accepted, two spaces, the
/// version, CRLF.
const REQUEST_LINE_REST_MAX: usize = 64;

fn target_too_long(limits: &Limits) -> Refusal {
    Refusal::framing(
        Status::UriTooLong,
        format!(
            "the request's target is longer than {} bytes",
            limits.target_bytes_max()
        ),
    )
}

/// Parses a complete head without control characters. Its lines end with CRLF; those of an old
/// source may end with LF.
fn parse(bytes: &[u8], limits: &Limits) -> Result<Head, Refusal> {
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let (request_line, rest) = first_line(bytes)?;
    let (method, target, version) = split_request_line(request_line)?;
    let is_old = limits.takes_old_sources && Method::parse(method) == Method::Source;
    let version = match version {
        ICE if is_old => Some(Version::Http10),
        version => Version::parse(version)?,
    };
    if target.len() > limits.target_bytes_max() {
        return Err(target_too_long(limits));
    }
    let mut fields = Fields::parse(rest, limits.head_fields_max)?;
    let framing = fields.framing(version)?;
    // A parser with other line ends must not find a request after this head.
    if is_old && framing != Framing::None && has_bare_lf(bytes) {
        return Err(malformed(
            "an LF without its CR in the head of a body that does not end with the connection",
        ));
    }
    let version = version.ok_or_else(|| {
        Refusal::framing(
            Status::VersionNotSupported,
            "this server speaks HTTP/1.1 and HTTP/1.0 only",
        )
    })?;
    if method == "CONNECT" {
        let detail = "CONNECT is not supported: this server is not a proxy";
        return Err(Refusal::framing(Status::NotImplemented, detail));
    }
    let (target, authority) = Target::parse(target)?;
    let host = fields.take_host(version, authority)?;
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
        fields: fields.request,
    })
}

fn has_bare_lf(head: &[u8]) -> bool {
    let mut pairs = head.windows(2);
    pairs.any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
}

/// Splits a request line into its three parts.
fn split_request_line(line: &str) -> Result<(&str, &str, &str), Refusal> {
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
    Ok((method, target, version))
}
