//! The access log: a line for each answered request, in the combined format that web servers write.
//!
//! A sessionid is a secret and appears as its digest; whatever else a client wrote is bounded and escaped. The bytes are those sent
//! for the answer, its head included; of a stream, the media.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Action, ConnectionId, Relay};
use crate::gate::SessionId;
use crate::http::{Head, HttpDate, Status, Target, Version, percent_decoded};

/// A request that is being answered.
pub(super) struct Entry {
    /// What is known when it arrives: host, time and request line;
    request: Box<str>,
    /// where it came from, and by which program.
    client: Box<str>,
    pub status: Option<Status>,
    pub bytes: u64,
}

/// Of each thing that a client wrote.
const WRITTEN_BYTES_MAX: usize = 256;

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
        push_written(&mut request, &head.method_token);
        request.push(' ');
        push_target(&mut request, &head.target);
        request.push_str(match head.version {
            Version::Http10 => " HTTP/1.0\"",
            Version::Http11 => " HTTP/1.1\"",
        });
        let mut client = String::from('"');
        push_written(&mut client, head.referer.as_deref().unwrap_or("-"));
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

/// The target as it was sent, but for the sessionid in its path and its query.
fn push_target(line: &mut String, target: &Target) {
    let [first, session] = target.segments.as_slice() else {
        return push_path_and_query(line, target);
    };
    if first != b"stream" {
        return push_path_and_query(line, target);
    }
    line.push_str("/stream/");
    push_session(line, session);
    push_query(line, target);
}

fn push_path_and_query(line: &mut String, target: &Target) {
    let path = target.written.split('?').next().unwrap_or("");
    push_written(line, path);
    push_query(line, target);
}

fn push_query(line: &mut String, target: &Target) {
    let end = line.len() + WRITTEN_BYTES_MAX;
    for (index, parameter) in target.parameters().enumerate() {
        if line.len() >= end {
            return;
        }
        line.push(if index == 0 { '?' } else { '&' });
        push_written(line, parameter.name);
        line.push('=');
        if parameter.name == "sessionid" {
            push_session(line, &percent_decoded(parameter.value).unwrap_or_default());
        } else {
            push_written(line, parameter.value);
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

impl Relay {
    /// A request has arrived.
    pub(super) fn note_request(&mut self, id: ConnectionId, head: &Head, date: HttpDate) {
        if self.settings.has_access_log
            && let Some(connection) = self.connections.get_mut(id)
        {
            let entry = Entry::new(connection.peer.ip(), date, head);
            connection.access = Some(Box::new(entry));
        }
    }

    /// A request has been refused before its head was whole.
    pub(super) fn note_unread_request(&mut self, id: ConnectionId, date: HttpDate) {
        if self.settings.has_access_log
            && let Some(connection) = self.connections.get_mut(id)
        {
            let entry = Entry::unread(connection.peer.ip(), date);
            connection.access = Some(Box::new(entry));
        }
    }

    /// The request has been answered, or never will be.
    pub(super) fn end_access(&mut self, entry: &Entry) {
        self.actions.push_back(Action::LogAccess(entry.line()));
    }
}
