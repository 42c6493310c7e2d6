//! The access log: a line for each answered request, in the combined format of web servers.
//!
//! Session ids are secrets and appear as digests. The line is made of the parts of the request that
//! the server understood; `...` stands for the others, which may contain a session id in any
//! spelling. The referrer is cut down to its site. The user agent is shortened and escaped. The
//! bytes are those of the answer with its head; of a stream, the media.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::Clients;
use crate::gate::SessionId;
use crate::http::{Head, Method, Status, Target, Version, percent_decoded};
use crate::relay::ConnectionId;
use crate::relay::api::Name;
use crate::relay::context::Context;
use crate::time::UnixTime;

/// A request that is being answered.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct AccessEntry {
    /// Host, time and request line.
    request: Box<str>,
    /// The referrer's site, and the user agent.
    client: Box<str>,
    /// Status of the answer.
    pub status: Option<Status>,
    /// Bytes of the answer.
    pub bytes: u64,
}

/// Maximal length of each text that a client wrote.
const WRITTEN_BYTES_MAX: usize = 256;
/// Maximal number of parameters. No call has as many.
const PARAMETERS_MAX: usize = 8;
const VALUE_BYTES_MAX: usize = 32;

impl AccessEntry {
    /// Makes the entry of a request whose head could not be read.
    pub fn unread(host: IpAddr, date: UnixTime) -> AccessEntry {
        AccessEntry {
            request: format!("{host} - - [{}] \"-\"", date.log_form()).into(),
            client: "\"-\" \"-\"".into(),
            status: None,
            bytes: 0,
        }
    }

    /// Makes the entry of a source by RTMP, written as the PUT that it replaces.
    fn rtmp(host: IpAddr, date: UnixTime, name: &[u8]) -> AccessEntry {
        let mut request = format!("{host} - - [{}] \"PUT /stream/", date.log_form());
        push_session(&mut request, name);
        request.push_str(" RTMP/1.0\"");
        AccessEntry {
            request: request.into(),
            ..AccessEntry::unread(host, date)
        }
    }

    /// Makes the entry of a request with this head.
    pub fn new(host: IpAddr, date: UnixTime, head: &Head) -> AccessEntry {
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
        match head.fields.referer.as_deref().and_then(site) {
            Some(site) => client.extend([site, "/"]),
            None => client.push('-'),
        }
        client.push_str("\" \"");
        push_written(
            &mut client,
            head.fields.user_agent.as_deref().unwrap_or("-"),
        );
        client.push('"');
        AccessEntry {
            request: request.into(),
            client: client.into(),
            ..AccessEntry::unread(host, date)
        }
    }

    /// Returns the line. A connection that broke before its answer has no status.
    pub fn line(&self) -> String {
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

/// Appends the beginning of what a client wrote, escaped as Apache does.
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

/// Stands for a part that is not understood.
const UNKNOWN: &str = "...";
/// Parameters and values that are shown.
const PARAMETERS: &[&str] = &["type", "direction", "abort"];
const VALUES: &[&str] = &["http", "rtp-udp", "in", "out", "both", "true", "false"];

/// Returns the site that a request came from, without the path of the page.
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

/// Returns whether one of the server's own paths begins with this segment.
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
    /// Keeps what the access log shows of a request until it is answered, if there is such a log.
    /// `entry` makes it, given the client's host and the date.
    pub(super) fn note(
        &mut self,
        id: ConnectionId,
        entry: impl FnOnce(IpAddr, UnixTime) -> AccessEntry,
        ctx: &Context,
    ) {
        if ctx.settings().has_access_log
            && let Some(connection) = self.connections.get_mut(id)
        {
            let entry = entry(connection.peer.ip(), ctx.date());
            connection.access = Some(Box::new(entry));
        }
    }

    /// Keeps what the log shows of a client by RTMP that asks for a stream of this name.
    pub fn note_rtmp(&mut self, id: ConnectionId, name: &[u8], ctx: &Context) {
        self.note(id, |host, date| AccessEntry::rtmp(host, date, name), ctx);
    }

    /// Notes the status of a request's answer, where requests are logged.
    pub(super) fn note_status(&mut self, id: ConnectionId, status: Status) {
        if let Some(entry) = self.entry(id) {
            entry.status = Some(status);
        }
    }

    /// Adds to the bytes of a request's answer, where requests are logged.
    pub(super) fn note_bytes(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(entry) = self.entry(id) {
            entry.bytes += bytes as u64;
        }
    }

    fn entry(&mut self, id: ConnectionId) -> Option<&mut AccessEntry> {
        self.connections.get_mut(id)?.access.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Action;
    use crate::relay::stage::Stage;

    const LOG: &str = "--access-log=/dev/null";

    /// Runs until nothing is left to do at once. Returns the lines of the access log.
    fn logged(stage: &mut Stage) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            while stage.relay.do_deferred_work(stage.now).is_some() {}
            while stage.write_next() {}
            match stage.relay.next_action() {
                Some(Action::LogAccess(line)) => lines.push(line),
                Some(_) => {}
                None if stage.relay.has_deferred_work() || stage.relay.has_writes() => {}
                None => break,
            }
        }
        stage.relay.check();
        lines
    }

    /// What is logged of one request on a connection of its own, and how many bytes the answer has.
    #[track_caller]
    fn line_of(options: &[&str], request: &str) -> (String, usize) {
        let mut stage = Stage::new(options);
        let id = stage.client("");
        stage.relay.received(id, request.as_bytes(), stage.now);
        let mut lines = logged(&mut stage);
        assert_eq!(lines.len(), 1, "{request}: {lines:?}");
        (lines.remove(0), stage.text(id).len())
    }

    fn digest(session: &str) -> String {
        let session = SessionId::parse(session.as_bytes()).expect("a good sessionid");
        session.digest().to_string()
    }

    const FRONT: &str = "10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] ";

    /// The server's own words stand there as they are, and what may be a secret does not.
    #[test]
    fn a_request_is_told_as_far_as_it_is_understood() {
        let secret = digest("secret");
        let eight = "?type=in&direction=out&abort=true&type=in&type=in&type=in&type=in&type=in";
        let cases = [
            ("GET /healthz", "GET /healthz"),
            ("GET /metrics", "GET /metrics"),
            ("GET /", "GET /"),
            ("OPTIONS *", "OPTIONS *"),
            ("HEAD /stream", "HEAD /stream"),
            ("GET /watch", "GET /watch"),
            ("GET /api", "GET /api"),
            ("GET /stream/secret", "GET /stream/SECRET"),
            ("GET /stream/%73ecret", "GET /stream/SECRET"),
            ("GET /watch/secret", "GET /watch/SECRET"),
            ("GET /stream/", "GET /stream/-"),
            ("GET /stream/secret/other", "GET /stream/..."),
            ("GET /other/secret", "GET /..."),
            ("GET /secret", "GET /..."),
            ("GET /list-tokens", "GET /list-tokens"),
            ("GET /list-tokens/secret", "GET /..."),
            ("GET /api/list-tokens", "GET /api/list-tokens"),
            ("GET /api/openapi.json", "GET /api/openapi.json"),
            ("GET /api/openapi.json/secret", "GET /api/..."),
            ("GET /api/secret", "GET /api/..."),
            ("GET /secret/list-tokens", "GET /..."),
            ("GET /healthz/secret", "GET /healthz/..."),
            ("SECRET /healthz", "... /healthz"),
            ("GET /healthz?secret", "GET /healthz?..."),
            ("GET /healthz?secret=http", "GET /healthz?..."),
            ("GET /healthz?type=secret", "GET /healthz?..."),
            ("GET /healthz?type=http,secret", "GET /healthz?..."),
            (
                "GET /stream?sessionid=secret&type=http,rtp-udp&note=in&direction=both",
                "GET /stream?sessionid=SECRET&type=http,rtp-udp&...&direction=both",
            ),
            (
                "GET /stream?sessionid=%73ecret",
                "GET /stream?sessionid=SECRET",
            ),
            ("GET /stream?sessionid=", "GET /stream?sessionid=-"),
            ("GET /stream?sessionid=%7", "GET /stream?sessionid=-"),
            // As long as a value may be, and longer.
            (
                "GET /api?type=http,http,http,http,http,rtp-udp",
                "GET /api?type=http,http,http,http,http,rtp-udp",
            ),
            (
                "GET /api?type=http,http,http,http,false,rtp-udp",
                "GET /api?...",
            ),
        ];
        let told = |line: &str, status: &str| -> String {
            let line = line.replace("SECRET", &secret);
            format!("{FRONT}\"{line} HTTP/1.1\" {status}")
        };
        for (asked, line) in cases {
            let request = format!("{asked} HTTP/1.1\r\nHost: h\r\n\r\n");
            let (seen, bytes) = line_of(&[LOG], &request);
            let status = seen.rsplit(' ').nth(3).unwrap_or_default().to_owned();
            let rest = format!("{status} {bytes} \"-\" \"-\"");
            assert_eq!(seen, told(line, &rest), "{asked}");
        }
        // Parameters beyond the number that any call has are left out.
        let asked = |more: &str| {
            let request = format!("GET /api{eight}{more} HTTP/1.1\r\nHost: h\r\n\r\n");
            line_of(&[LOG], &request).0
        };
        for (more, shown) in [("", ""), ("&type=in", "&type=in"), ("&a&a&a", "&...")] {
            let line = format!("{FRONT}\"GET /api{eight}{shown} HTTP/1.1\" ");
            assert!(asked(more).starts_with(&line), "{}", asked(more));
        }
    }

    #[test]
    fn a_line_has_the_version_the_status_and_the_bytes_of_the_answer() {
        for (request, line, status) in [
            (
                "GET /healthz HTTP/1.0\r\n\r\n",
                "GET /healthz HTTP/1.0",
                200,
            ),
            (
                "GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n",
                "GET /stream/DIGEST HTTP/1.1",
                404,
            ),
            ("nonsense\r\n\r\n", "-", 400),
            (
                "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
                "PUT /stream/DIGEST HTTP/1.1",
                200,
            ),
        ] {
            let (seen, bytes) = line_of(&[LOG], request);
            let line = line.replace("DIGEST", &digest("s"));
            let expected = format!("{FRONT}\"{line}\" {status} {bytes} \"-\" \"-\"");
            assert_eq!(seen, expected, "{request}");
        }
    }

    /// Of where it came from only the site, and of a program as much as is not too long, in signs
    /// that end no line and no quotation.
    #[test]
    fn of_a_client_its_site_and_its_program_are_told() {
        let long = "x".repeat(300);
        let long_field = format!("User-Agent: {long}");
        let long_told = format!("\"-\" \"{}\"", &long[..256]);
        for (field, told) in [
            (
                "Referer: http://site.example/secret",
                "\"http://site.example/\" \"-\"",
            ),
            (
                "Referer: https://site.example:81?secret",
                "\"https://site.example:81/\" \"-\"",
            ),
            (
                "Referer: http://[2001:db8::1]#secret",
                "\"http://[2001:db8::1]/\" \"-\"",
            ),
            (
                "Referer: http://a-b.example",
                "\"http://a-b.example/\" \"-\"",
            ),
            ("Referer: ftp://site.example/", "\"-\" \"-\""),
            ("Referer: site.example", "\"-\" \"-\""),
            ("Referer: http:///secret", "\"-\" \"-\""),
            ("Referer: http://secret@site.example/", "\"-\" \"-\""),
            ("Referer: http://a b.example/", "\"-\" \"-\""),
            (
                "User-Agent: player/1.0 (~; x)",
                "\"-\" \"player/1.0 (~; x)\"",
            ),
            ("User-Agent: a\"b\\c", "\"-\" \"a\\\"b\\\\c\""),
            ("User-Agent: ü", "\"-\" \"\\xc3\\xbc\""),
            ("User-Agent: a\tb", "\"-\" \"a\\x09b\""),
            (&long_field, &long_told),
        ] {
            let request = format!("GET /healthz HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
            let (seen, _) = line_of(&[LOG], &request);
            assert!(seen.ends_with(&format!(" {told}")), "{field}: {seen}");
        }
    }

    /// A viewer gets a line at its end, with its bytes of media. A source gets a line with its
    /// answer. The line of a client that leaves before its answer has no status.
    #[test]
    fn what_takes_long_is_told_of_when_it_is_over() {
        let mut stage = Stage::new(&[LOG, "--wait=60"]);
        let now = stage.now;
        let (source, viewer, waiter) = (stage.client(""), stage.client(""), stage.client(""));
        let head = b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        stage.relay.received(source, head, now);
        let watch = |session: &str| format!("GET /stream/{session} HTTP/1.1\r\nHost: h\r\n\r\n");
        stage.relay.received(viewer, watch("s").as_bytes(), now);
        stage.relay.received(waiter, watch("other").as_bytes(), now);
        stage.relay.received(source, b"5\r\nmedia\r\n", now);
        assert_eq!(logged(&mut stage), Vec::<String>::new());
        stage.relay.received(source, b"3\r\nend\r\n", now);
        assert_eq!(logged(&mut stage), Vec::<String>::new());
        stage.relay.lost(waiter, now);
        let line = |what: &str, session: &str, more: &str| {
            let digest = digest(session);
            format!("{FRONT}\"{what} /stream/{digest} HTTP/1.1\" {more} \"-\" \"-\"")
        };
        assert_eq!(logged(&mut stage), [line("GET", "other", "- 0")]);
        stage.relay.received(source, b"0\r\n\r\n", now);
        let lines = logged(&mut stage);
        let receipt = format!("200 {}", stage.text(source).len());
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.contains(&line("PUT", "s", &receipt)), "{lines:?}");
        assert!(lines.contains(&line("GET", "s", "200 8")), "{lines:?}");
        // One who leaves in the middle of it.
        let mut stage = Stage::new(&[LOG]);
        let (source, viewer) = (stage.client(""), stage.client(""));
        stage.relay.received(source, head, now);
        stage.relay.received(viewer, watch("s").as_bytes(), now);
        stage.relay.received(source, b"5\r\nmedia\r\n", now);
        assert_eq!(logged(&mut stage), Vec::<String>::new());
        stage.relay.lost(viewer, now);
        assert_eq!(logged(&mut stage), [line("GET", "s", "200 5")]);
    }

    /// A list that is written in pieces, by its head and its rows.
    #[test]
    fn a_list_is_told_of_with_all_of_its_bytes() {
        let list = "GET /api/list-tokens HTTP/1.0\r\nHost: localhost\r\n\r\n";
        for tokens in [0, 1, 300] {
            let mut stage = Stage::new(&[LOG, "--token-server=10.0.0.0/24"]);
            let caller = stage.client("");
            for number in 0..tokens {
                let add = format!("POST /api/add-token?type=http&sessionid={number}");
                let request = format!("{add} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                stage.relay.received(caller, request.as_bytes(), stage.now);
                assert_eq!(logged(&mut stage).len(), 1);
            }
            let reader = stage.client("");
            stage.relay.received(reader, list.as_bytes(), stage.now);
            let lines = logged(&mut stage);
            let bytes = stage.text(reader).len();
            let end = format!("\"GET /api/list-tokens HTTP/1.0\" 200 {bytes} \"-\" \"-\"");
            assert_eq!(lines, [format!("{FRONT}{end}")], "{tokens}");
        }
    }

    /// A reader of events, by the bytes that it got.
    #[test]
    fn who_follows_the_events_is_told_of_when_it_leaves() {
        let mut stage = Stage::new(&[LOG, "--token-server=10.0.0.0/24"]);
        let (reader, caller) = (stage.client(""), stage.client(""));
        let call = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stage
            .relay
            .received(reader, call("GET /api/events").as_bytes(), stage.now);
        assert_eq!(logged(&mut stage), Vec::<String>::new());
        let text = stage.text(reader);
        let snapshot = text.find("event: snapshot-end").expect("a snapshot");
        let add = call("POST /api/add-token?type=http&sessionid=s");
        stage.relay.received(caller, add.as_bytes(), stage.now);
        assert_eq!(logged(&mut stage).len(), 1);
        let bytes = stage.text(reader).len() - snapshot;
        assert!(stage.text(reader)[snapshot..].contains("event: token-added"));
        stage.relay.lost(reader, stage.now);
        let end = format!("\"GET /api/events HTTP/1.1\" 200 {bytes} \"-\" \"-\"");
        assert_eq!(logged(&mut stage), [format!("{FRONT}{end}")]);
    }

    #[test]
    fn nothing_is_logged_where_that_was_not_asked_for() {
        let mut stage = Stage::new(&[]);
        let id = stage.client("");
        for request in [
            "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            stage.relay.received(id, request.as_bytes(), stage.now);
            assert!(
                stage
                    .relay
                    .clients
                    .connections
                    .get(id)
                    .is_some_and(|it| it.access.is_none())
            );
        }
        assert_eq!(logged(&mut stage), Vec::<String>::new());
    }

    /// An event that goes out in pieces counts once.
    #[test]
    fn of_events_that_were_cut_every_byte_is_told() {
        use crate::relay::{Outgoing, write_next};

        let mut stage = Stage::new(&[LOG, "--token-server=10.0.0.0/24"]);
        let (reader, caller) = (stage.client(""), stage.client(""));
        let call = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let follow = call("GET /api/events");
        stage.relay.received(reader, follow.as_bytes(), stage.now);
        assert_eq!(logged(&mut stage), Vec::<String>::new());
        let snapshot = stage
            .text(reader)
            .find("event: snapshot-end")
            .expect("a snapshot");
        let before = stage.text(reader).len() - snapshot;
        let add = call("POST /api/add-token?type=http&sessionid=s");
        stage.relay.received(caller, add.as_bytes(), stage.now);
        let mut bytes = 0;
        while stage.relay.has_writes() {
            write_next(&mut stage.relay, stage.now, |id, output| {
                if id != reader {
                    return Outgoing::Whole(output.bytes());
                }
                let piece = output.bytes().min(7);
                bytes += piece;
                Outgoing::Part(piece)
            });
            stage.relay.unblocked(reader);
            let connection = stage.relay.clients.connections.get(reader);
            let has_all = connection.is_none_or(|connection| connection.output.is_empty());
            if bytes > 0 && has_all {
                break;
            }
        }
        assert_eq!(logged(&mut stage).len(), 1, "the call is answered");
        stage.relay.lost(reader, stage.now);
        let all = before + bytes;
        let end = format!("\"GET /api/events HTTP/1.1\" 200 {all} \"-\" \"-\"");
        assert!(bytes > 7);
        assert_eq!(logged(&mut stage), [format!("{FRONT}{end}")]);
    }
}
