//! The access log: a line for each answered request, in the combined format that web servers write.
//!
//! A sessionid is a secret and appears as its digest. So the request line is made of what was
//! understood of it, and `...` stands for what was not: there a sessionid may stand in any
//! spelling. Of where the request came from only the site is told; the program's name is bounded
//! and escaped. The bytes are those sent for the answer, its head included; of a stream, the media.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::Clients;
use crate::gate::SessionId;
use crate::http::{Head, HttpDate, Method, Status, Target, Version, percent_decoded};
use crate::relay::api::Name;
use crate::relay::desk::Desk;
use crate::relay::{Action, ConnectionId};

/// A request that is being answered.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Entry {
    /// What is known when it arrives: host, time and request line;
    request: Box<str>,
    /// where it came from, and by which program.
    client: Box<str>,
    /// How it is answered,
    pub status: Option<Status>,
    /// and with how many bytes.
    pub bytes: u64,
}

/// Of each thing that a client wrote.
const WRITTEN_BYTES_MAX: usize = 256;
/// More parameters than any call has.
const PARAMETERS_MAX: usize = 8;
const VALUE_BYTES_MAX: usize = 32;

impl Entry {
    /// Of a request whose head could not be read.
    fn unread(host: IpAddr, date: HttpDate) -> Entry {
        Entry {
            request: format!("{host} - - [{}] \"-\"", date.log_form()).into(),
            client: "\"-\" \"-\"".into(),
            status: None,
            bytes: 0,
        }
    }

    fn new(host: IpAddr, date: HttpDate, head: &Head) -> Entry {
        let mut request = format!("{host} - - [{}] \"", date.log_form());
        request.push_str(match head.method {
            Method::Other => UNKNOWN,
            _ => &head.method_token,
        });
        request.push(' ');
        push_target(&mut request, &head.target);
        request.push_str(match head.version {
            Version::Http10 => " HTTP/1.0\"",
            Version::Http11 => " HTTP/1.1\"",
        });
        let mut client = String::from('"');
        match head.referer.as_deref().and_then(site) {
            Some(site) => client.extend([site, "/"]),
            None => client.push('-'),
        }
        client.push_str("\" \"");
        push_written(&mut client, head.user_agent.as_deref().unwrap_or("-"));
        client.push('"');
        Entry {
            request: request.into(),
            client: client.into(),
            status: None,
            bytes: 0,
        }
    }

    /// Bytes that are allocated for it, itself included.
    pub fn held_bytes(&self) -> usize {
        size_of::<Entry>() + self.request.len() + self.client.len()
    }

    /// The line. A connection that broke before its answer has no status.
    fn line(&self) -> String {
        let mut line = String::from(&*self.request);
        // Writing into a string does not fail.
        let _ = match self.status {
            Some(status) => write!(line, " {}", status.code()),
            None => write!(line, " -"),
        };
        let _ = write!(line, " {} {}", self.bytes, self.client);
        line
    }
}

/// The front of what a client wrote, escaped as Apache does.
fn push_written(line: &mut String, written: &str) {
    for byte in written.bytes().take(WRITTEN_BYTES_MAX) {
        match byte {
            b'"' | b'\\' => line.extend(['\\', char::from(byte)]),
            b' '..=b'~' => line.push(char::from(byte)),
            // Writing into a string does not fail.
            _ => drop(write!(line, "\\x{byte:02x}")),
        }
    }
}

/// What is not understood.
const UNKNOWN: &str = "...";
/// Parameters that are shown, and what values of them are.
const PARAMETERS: &[&str] = &["type", "direction", "abort"];
const VALUES: &[&str] = &["http", "rtp-udp", "in", "out", "both", "true", "false"];

/// Whose page a request came from, without what the page's own URL tells.
fn site(referer: &str) -> Option<&str> {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| referer.starts_with(scheme))?;
    let authority = referer[scheme.len()..].split(['/', '?', '#']).next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    let is_authority = !authority.is_empty() && authority.bytes().all(is_plain);
    is_authority.then(|| &referer[..scheme.len() + authority.len()])
}

fn push_target(line: &mut String, target: &Target) {
    let segments: Vec<&[u8]> = target.segments.iter().map(Vec::as_slice).collect();
    match segments.as_slice() {
        [] => line.push('*'),
        [b""] => line.push('/'),
        [first @ (b"stream" | b"watch"), session] => {
            push_path(line, &[first, b""]);
            push_session(line, session);
        }
        [b"api", b"openapi.json"] => line.push_str("/api/openapi.json"),
        [b"api", name] if Name::parse(name).is_some() => push_path(line, &[b"api", name]),
        [name] if is_word(name) || Name::parse(name).is_some() => push_path(line, &[name]),
        [first, ..] if is_word(first) => push_path(line, &[first, UNKNOWN.as_bytes()]),
        _ => push_path(line, &[UNKNOWN.as_bytes()]),
    }
    push_query(line, target);
}

/// Whether this is how one of the server's own paths begins.
fn is_word(segment: &[u8]) -> bool {
    matches!(
        segment,
        b"stream" | b"watch" | b"api" | b"metrics" | b"healthz"
    )
}

fn push_path(line: &mut String, segments: &[&[u8]]) {
    for segment in segments {
        line.push('/');
        line.extend(segment.iter().map(|byte| char::from(*byte)));
    }
}

fn push_query(line: &mut String, target: &Target) {
    for (index, parameter) in target.parameters().enumerate() {
        line.push(if index == 0 { '?' } else { '&' });
        let mut values = parameter.value.split(',');
        match parameter.name {
            "sessionid" => {
                line.push_str("sessionid=");
                push_session(line, &percent_decoded(parameter.value).unwrap_or_default());
            }
            name if PARAMETERS.contains(&name)
                && parameter.value.len() <= VALUE_BYTES_MAX
                && values.all(|value| VALUES.contains(&value)) =>
            {
                line.extend([name, "=", parameter.value]);
            }
            _ => line.push_str(UNKNOWN),
        }
        if index >= PARAMETERS_MAX {
            return;
        }
    }
}

fn push_session(line: &mut String, bytes: &[u8]) {
    // Writing into a string does not fail.
    let _ = match SessionId::parse(bytes) {
        Ok(session) => write!(line, "{}", session.digest()),
        Err(_) => write!(line, "-"),
    };
}

impl Clients {
    /// A request has arrived.
    pub(super) fn note_request(&mut self, id: ConnectionId, head: &Head, desk: &mut Desk) {
        let date = desk.date();
        if desk.settings().has_access_log
            && let Some(connection) = self.connections.get_mut(id)
        {
            let entry = Entry::new(connection.peer.ip(), date, head);
            connection.access = Some(Box::new(entry));
        }
    }

    /// A request has been refused before its head was whole.
    pub(super) fn note_unread_request(&mut self, id: ConnectionId, desk: &mut Desk) {
        let date = desk.date();
        if desk.settings().has_access_log
            && let Some(connection) = self.connections.get_mut(id)
        {
            let entry = Entry::unread(connection.peer.ip(), date);
            connection.access = Some(Box::new(entry));
        }
    }

    /// The request has been answered, or never will be.
    pub(super) fn end_access(&mut self, entry: &Entry, desk: &mut Desk) {
        desk.act(Action::LogAccess(entry.line()));
    }
}
