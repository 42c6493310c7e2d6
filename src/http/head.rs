//! Request heads (RFC 9112 sections 2 and 3): found in the bytes by [`HeadReader`], read into a
//! [`Head`] that is right by construction.

use super::body::Framing;
use super::fields::{Fields, Forwarded, first_line};
use super::grammar::is_token_byte;
use super::refusal::{Refusal, malformed, quoted};
use super::scan::{Bounds, Scan, ScanFault};
use super::status::Status;
use super::target::Target;
use super::version::Version;

/// How large a request's head may be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// The whole head, its empty line included.
    pub head_bytes_max: usize,
    /// The number of its fields.
    pub head_fields_max: usize,
    /// Whether `SOURCE` may be asked as Icecast's oldest clients do: with lines that end with LF
    /// alone, and in a version of their own, for a body that ends with the connection.
    pub takes_old_sources: bool,
}

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
    /// The authority that the request is for: `Host`, or that of an absolute target. Empty if a 1.0
    /// client names none.
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
    /// `Sec-Fetch-Site`: whose page a browser says that the request is of
    pub site: Option<String>,
    /// `Authorization`
    pub authorization: Option<String>,
    /// `User-Agent`
    pub user_agent: Option<String>,
    /// `Referer`
    pub referer: Option<String>,
    /// `Last-Event-ID`: what a browser that follows events has had last
    pub last_event_id: Option<String>,
    /// Whether `Accept` names HTML, as a browser's does when it opens a page.
    pub accepts_html: bool,
    /// `Via`, all of its lines joined
    pub via: Option<String>,
    /// `X-Forwarded-For` or `Forwarded`, all lines joined
    pub forwarded: Forwarded,
}

impl Head {
    /// What may follow it, whether it is granted or not: a source's head without a length may be
    /// such a client's as Icecast knows, whose media ends with the connection and is no request.
    pub fn framing_of_media(&self) -> Framing {
        match (self.method, self.framing) {
            (Method::Source | Method::Put, Framing::None) => Framing::UntilClose,
            (_, framing) => framing,
        }
    }
}

/// Reads a request's head out of bytes that arrive piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadReader {
    scan: Scan,
}

impl HeadReader {
    /// Looks on in `bytes`, which begin where the head does and hold at least what they held
    /// before. `Some` is the head and its length.
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
        match self.scan.read(bytes, bounds) {
            Ok(None) => Ok(None),
            Ok(Some(length)) => Ok(Some((parse(&bytes[..length], limits)?, length))),
            Err(ScanFault::Malformed(detail)) => Err(malformed(detail)),
            Err(ScanFault::FirstLineTooLong) => Err(target_too_long(limits)),
            Err(ScanFault::TooLarge) => Err(Refusal::framing(
                Status::HeaderFieldsTooLarge,
                format!(
                    "the request's head is larger than {} bytes",
                    limits.head_bytes_max
                ),
            )),
        }
    }

    /// Whether anything of a request has arrived.
    pub fn has_begun(&self) -> bool {
        self.scan.has_begun()
    }
}

/// How the head of an old source begins.
const SOURCE: &[u8] = b"SOURCE ";

/// The version that it may name, which is HTTP/1.0 in all but its name.
const ICE: &str = "ICE/1.0";

/// What a request line holds besides its target: the longest method that is let pass, two spaces,
/// the version, CRLF.
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

/// Reads a whole head whose lines are known to end with CRLF, or to be an old source's, and to hold
/// no control character.
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
    let fields = Fields::parse(rest, limits.head_fields_max)?;
    let framing = fields.framing(version)?;
    // Whoever counts lines in another way must have nothing behind them to find a request in.
    if is_old && framing != Framing::None && has_bare_lf(bytes) {
        return Err(malformed(
            "an LF without its CR in the head of a body that does not end with the connection",
        ));
    }
    let version = version.ok_or_else(|| {
        Refusal::framing(
            Status::VersionNotSupported,
            "only HTTP/1.1 and HTTP/1.0 are spoken here",
        )
    })?;
    if method == "CONNECT" {
        let detail = "there are no tunnels here: this is no proxy";
        return Err(Refusal::framing(Status::NotImplemented, detail));
    }
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
        site: fields.site,
        authorization: fields.authorization,
        user_agent: fields.user_agent,
        referer: fields.referer,
        last_event_id: fields.last_event_id,
        accepts_html: fields.accepts_html,
        via: fields.via,
        forwarded: fields.forwarded,
    })
}

fn has_bare_lf(head: &[u8]) -> bool {
    let mut pairs = head.windows(2);
    pairs.any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
}

/// The three parts of a request line.
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
