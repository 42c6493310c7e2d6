//! The fields of a head (RFC 9112 sections 5 and 6.3), and the framing of the body that they
//! describe.
//!
//! `httparse` splits the lines. It is lenient, so `scan` checks line ends first, and this file
//! checks the values.

use super::body::Framing;
use super::grammar::{elements, is_authority, is_balanced};
use super::icy::IcyFields;
use super::media_type::accepts_html;
use super::refusal::{Refusal, malformed, quoted};
use super::status::Status;
use super::version::Version;

/// Largest number of fields that an option can allow. They are split on the stack.
const FIELDS_MAX: usize = 256;
/// Maximal number of commas and semicolons in a list.
const SEPARATORS_MAX: usize = 256;

/// Fields that only proxies, caches and content delivery networks write. `CDN-Loop` is from
/// RFC 8586.
const OF_PROXIES: [&str; 8] = [
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "cdn-loop",
    "x-varnish",
];

/// Fields in which proxies name the client (RFC 7239). They count only if they come from a known
/// proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// `Forwarded`.
    pub standard: Option<String>,
    /// `X-Forwarded-For`.
    pub x_forwarded_for: Option<String>,
    /// Whether `X-Forwarded-Proto` begins with `https`.
    pub x_forwarded_https: bool,
    /// Whether there is another field that proxies write: one of [`OF_PROXIES`], or a name that
    /// begins with `X-Forwarded-`. Its value never counts.
    pub has_others: bool,
}

/// Splits a head into its first line, which is ASCII, and the rest. `scan` has checked the head.
pub(super) fn first_line(head: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let line_end = head.iter().position(ends).unwrap_or(head.len());
    let end_bytes = match head.get(line_end) {
        Some(b'\r') => 2,
        Some(_) | None => 1,
    };
    let line = std::str::from_utf8(&head[..line_end])
        .map_err(|_| malformed("the head's first line is not ASCII"))?;
    Ok((line, &head[(line_end + end_bytes).min(head.len())..]))
}

/// Fields of a request that [`Head`](super::Head) passes on as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`: how the page of the request relates to this site, by the browser.
    pub site: Option<String>,
    /// `Authorization`.
    pub authorization: Option<String>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// `Referer`.
    pub referer: Option<String>,
    /// `Last-Event-ID`: the last event that a browser has got from `/api/events`.
    pub last_event_id: Option<String>,
    /// Whether `Accept` names HTML, as a browser's does when it opens a page.
    pub accepts_html: bool,
    /// `Via`, with all its lines joined.
    pub via: Option<String>,
    /// Fields of proxies, with all lines of each joined.
    pub forwarded: Forwarded,
    /// Fields of internet radio.
    pub icy: IcyFields,
}

/// The fields that this server uses.
#[derive(Default)]
pub(super) struct Fields {
    host: Single,
    content_length: Single,
    transfer_encoding: Option<String>,
    connection: Option<String>,
    expect: Option<String>,
    /// The others.
    pub request: RequestFields,
}

/// The value of a field that may come once.
#[derive(Default)]
enum Single {
    #[default]
    Absent,
    Once(String),
    Repeated,
}

impl Single {
    fn add(&mut self, value: String) {
        *self = match self {
            Single::Absent => Single::Once(value),
            Single::Once(_) | Single::Repeated => Single::Repeated,
        };
    }
}

impl Fields {
    /// Parses the fields, which follow the first line of a head.
    pub fn parse(bytes: &[u8], fields_max: usize) -> Result<Fields, Refusal> {
        let mut storage = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let fields_max = fields_max.min(FIELDS_MAX);
        match httparse::parse_headers(bytes, &mut storage[..fields_max]) {
            Ok(httparse::Status::Complete((_, fields))) => Fields::read(fields),
            Ok(httparse::Status::Partial) => Err(malformed("the head ends within a field")),
            Err(httparse::Error::TooManyHeaders) => Err(Refusal::framing(
                Status::HeaderFieldsTooLarge,
                format!("the head has more than {fields_max} fields (--head-headers)"),
            )),
            Err(error) => Err(malformed(format!(
                "a field of the head is malformed: {error}"
            ))),
        }
    }

    fn read(fields: &[httparse::Header<'_>]) -> Result<Fields, Refusal> {
        let mut found = Fields::default();
        let request = &mut found.request;
        let mut name = String::new();
        let mut accept = None;
        for field in fields {
            let value = || String::from_utf8_lossy(field.value).into_owned();
            name.clear();
            name.push_str(field.name);
            name.make_ascii_lowercase();
            match name.as_str() {
                "host" => found.host.add(value()),
                "content-length" => found.content_length.add(value()),
                "transfer-encoding" => append(&mut found.transfer_encoding, field.name, value())?,
                "connection" => append(&mut found.connection, field.name, value())?,
                "expect" => append(&mut found.expect, field.name, value())?,
                "content-type" => once(&mut request.content_type, field.name, value())?,
                "origin" => once(&mut request.origin, field.name, value())?,
                "sec-fetch-site" => append(&mut request.site, field.name, value())?,
                "authorization" => once(&mut request.authorization, field.name, value())?,
                "user-agent" => request.user_agent = Some(value()),
                "referer" => request.referer = Some(value()),
                "last-event-id" => request.last_event_id = Some(value()),
                "accept" => join(&mut accept, value()),
                "via" => append(&mut request.via, field.name, value())?,
                "forwarded" => append(&mut request.forwarded.standard, field.name, value())?,
                "x-forwarded-for" => {
                    append(&mut request.forwarded.x_forwarded_for, field.name, value())?
                }
                "x-forwarded-proto" => {
                    request.forwarded.has_others = true;
                    let first = value().split(',').next().map(|it| it.trim().to_lowercase());
                    request.forwarded.x_forwarded_https = first.as_deref() == Some("https");
                }
                name if request.icy.take(name, field.value).is_some() => {}
                name => {
                    request.forwarded.has_others |=
                        OF_PROXIES.contains(&name) || name.starts_with("x-forwarded-");
                }
            }
        }
        found.check_lists(&accept)?;
        found.request.accepts_html = accept.is_some_and(|accept| accepts_html(&accept));
        Ok(found)
    }

    /// Refuses lists of many elements. An empty element costs as much to read as an address.
    fn check_lists(&self, accept: &Option<String>) -> Result<(), Refusal> {
        let forwarded = &self.request.forwarded;
        for (name, list) in [
            ("Transfer-Encoding", &self.transfer_encoding),
            ("Connection", &self.connection),
            ("Accept", accept),
            ("Expect", &self.expect),
            ("Via", &self.request.via),
            ("Forwarded", &forwarded.standard),
            ("X-Forwarded-For", &forwarded.x_forwarded_for),
        ] {
            let separators = list.iter().flat_map(|list| list.bytes());
            let separators = separators.filter(|byte| b",;".contains(byte)).count();
            if separators > SEPARATORS_MAX {
                return Err(malformed(format!(
                    "{separators} commas and semicolons in {name}; it may have at most {SEPARATORS_MAX}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the framing by RFC 9112 section 6.3, without its exceptions for lenient parsers.
    pub fn framing(&self, version: Option<Version>) -> Result<Framing, Refusal> {
        match (&self.transfer_encoding, &self.content_length) {
            (None, Single::Absent) => Ok(Framing::None),
            (None, Single::Once(length)) => parse_length(length).map(Framing::Length),
            (None, Single::Repeated) => Err(malformed("more than one Content-Length; send one")),
            (Some(_), Single::Once(_) | Single::Repeated) => Err(malformed(
                "both Content-Length and Transfer-Encoding; send one of them",
            )),
            (Some(_), Single::Absent) if version == Some(Version::Http10) => Err(malformed(
                "Transfer-Encoding in an HTTP/1.0 request; send HTTP/1.1",
            )),
            (Some(codings), Single::Absent) => {
                let codings: Vec<&str> = elements(codings, ',').collect();
                let is_chunked = |coding: &&str| coding.eq_ignore_ascii_case("chunked");
                if let Some(other) = codings.iter().find(|coding| !is_chunked(coding)) {
                    if other.is_empty() {
                        return Err(malformed("an empty transfer coding; it must be chunked"));
                    }
                    if codings.iter().any(is_chunked) && !codings.last().is_some_and(is_chunked) {
                        return Err(malformed(
                            "chunked is not the last of the transfer codings; it must be",
                        ));
                    }
                    return Err(Refusal::framing(
                        Status::NotImplemented,
                        format!(
                            "the transfer coding '{}' is not supported; send chunked",
                            quoted(other, 64)
                        ),
                    ));
                }
                if codings.len() > 1 {
                    return Err(malformed("chunked more than once in Transfer-Encoding"));
                }
                Ok(Framing::Chunked)
            }
        }
    }

    /// Takes the authority of the request: that of its target, or else `Host`. Returns 400 if `Host`
    /// is malformed, repeated, or missing from an HTTP/1.1 request.
    pub fn take_host(
        &mut self,
        version: Version,
        authority: Option<String>,
    ) -> Result<String, Refusal> {
        match std::mem::take(&mut self.host) {
            Single::Absent if version == Version::Http11 => {
                Err(malformed("no Host; an HTTP/1.1 request must have one"))
            }
            Single::Absent => Ok(authority.unwrap_or_default()),
            Single::Once(host) if is_authority(&host) => Ok(authority.unwrap_or(host)),
            Single::Once(host) => Err(malformed(format!(
                "the Host '{}' is not HOST or HOST:PORT",
                quoted(&host, 64)
            ))),
            Single::Repeated => Err(malformed("more than one Host; send one")),
        }
    }

    /// Returns whether the sender keeps the connection open (RFC 9112 section 9.3).
    pub fn keep_alive(&self, version: Version) -> bool {
        let mut options = elements(self.connection.as_deref().unwrap_or(""), ',');
        match version {
            Version::Http11 => !options.any(|option| option.eq_ignore_ascii_case("close")),
            Version::Http10 => options.any(|option| option.eq_ignore_ascii_case("keep-alive")),
        }
    }

    /// Returns whether the client waits for a 100 response (RFC 9110 section 10.1.1). An HTTP/1.0
    /// client cannot read one, so it must not get one.
    pub fn expects_continue(&self, version: Version) -> Result<bool, Refusal> {
        match &self.expect {
            None => Ok(false),
            Some(expect)
                if elements(expect, ',').all(|it| it.eq_ignore_ascii_case("100-continue")) =>
            {
                Ok(version == Version::Http11)
            }
            Some(expect) => Err(Refusal::framing(
                Status::ExpectationFailed,
                format!(
                    "the expectation '{}' is not supported; only 100-continue is",
                    quoted(expect, 64)
                ),
            )),
        }
    }
}

/// Appends a line to a list. Refuses a line with an open quoted string, which would hide what a
/// proxy wrote in the next line.
fn append(list: &mut Option<String>, name: &str, value: String) -> Result<(), Refusal> {
    if !is_balanced(&value) {
        return Err(malformed(format!(
            "a quoted string or a comment in {name} does not end; \" or ) must end it"
        )));
    }
    join(list, value);
    Ok(())
}

fn join(list: &mut Option<String>, value: String) {
    match list {
        None => *list = Some(value),
        Some(list) => {
            list.push(',');
            list.push_str(&value);
        }
    }
}

fn once(place: &mut Option<String>, name: &str, value: String) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(malformed(format!("more than one {name}; send at most one"))),
    }
}

/// Parses decimal digits only.
fn parse_length(text: &str) -> Result<u64, Refusal> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let length = text.parse().ok().filter(|_| is_number);
    length.ok_or_else(|| {
        malformed(format!(
            "the Content-Length '{}' is not a number of bytes below 2^64 in decimal digits",
            quoted(text, 64)
        ))
    })
}
