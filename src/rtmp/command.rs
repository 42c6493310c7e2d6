//! Commands of a publisher (RTMP 1.0, section 7), and the answers.
//!
//! Publishers send them in different orders and wait for different answers. So each command with a
//! transaction id gets an answer, and the order does not matter after `connect`.

use super::amf::{Values, push_null, push_number, push_object, push_string, push_undefined};
use super::{Fault, Request};
use crate::percent::percent_decoded;

/// Message types of the answers, and the chunk streams and message stream they go by.
const SET_CHUNK_SIZE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 3;
const USER_CONTROL: u8 = 4;
const WINDOW_SIZE: u8 = 5;
const PEER_BANDWIDTH: u8 = 6;
const COMMAND: u8 = 20;
const BY_CONTROL: u8 = 2;
const BY_COMMANDS: u8 = 3;
const BY_STATUS: u8 = 5;
const STREAM: u8 = 1;

/// The server's chunk size. No answer is longer.
const OWN_CHUNK_BYTES: u32 = 65_536;
/// The windows that are announced, in bytes: a publisher is acknowledged as often.
pub const WINDOW_BYTES: u32 = 2_500_000;
/// A shorter description fits into any publisher's line.
const DESCRIPTION_CHARS_MAX: usize = 1024;

/// What is kept of `connect`.
#[derive(Default)]
pub struct Session {
    is_connected: bool,
    /// `app`, without a query.
    app: Box<str>,
    /// Host of `tcUrl`, without a port.
    host: Box<str>,
}

/// What a command asks the server for.
pub enum Asked {
    /// Nothing more than the answer.
    Nothing,
    /// To publish, or to play.
    Request(Request),
    /// To end the stream: it is complete.
    End,
}

impl Session {
    /// Returns the bytes that are allocated.
    pub fn memory_bytes(&self) -> usize {
        self.app.len() + self.host.len()
    }

    /// Handles a command, and appends its answer.
    pub fn take(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<Asked, Fault> {
        let mut values = Values(message);
        let (Some(name), Some(id)) = (values.string(), values.number()) else {
            return Err(Fault("a command has no name or no transaction id"));
        };
        match name {
            b"connect" if self.is_connected => return Err(Fault("it connects twice")),
            b"connect" => {
                let app = self.connect(&mut values);
                app.ok_or(Fault("its connect command is malformed"))?;
                push_connected(id, out);
            }
            _ if !self.is_connected => return Err(Fault("its first command is not connect")),
            b"publish" | b"play" => {
                let text = values.skip().and_then(|()| values.string());
                let text = text.ok_or(Fault("it names no stream"))?;
                let name = self.name(text);
                let host = self.host.clone();
                return Ok(Asked::Request(match name {
                    Ok(name) if name_is_played(message) => Request::Play { name, host },
                    name => Request::Publish { name },
                }));
            }
            b"FCUnpublish" | b"deleteStream" | b"closeStream" => return Ok(Asked::End),
            b"createStream" => push_result(id, Some(f64::from(STREAM)), out),
            b"_result" | b"_error" => {}
            _ if id == 0.0 => {}
            _ => push_result(id, None, out),
        }
        if name == b"FCPublish" {
            let mut body = called("onFCPublish", 0.0);
            let code = [
                ("code", "NetStream.Publish.Start"),
                ("description", "FCPublish"),
            ];
            push_object(&mut body, &code, None);
            push_message((BY_COMMANDS, COMMAND, 0), &body, out);
        }
        Ok(Asked::Nothing)
    }

    /// Takes the properties of `connect` that are needed.
    fn connect(&mut self, values: &mut Values<'_>) -> Option<()> {
        let (mut app, mut url) = (None, None);
        values.object(|name, values| {
            match name {
                b"app" => app = Some(values.string()?),
                b"tcUrl" => url = Some(values.string()?),
                _ => values.skip()?,
            }
            Some(())
        })?;
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let (app, url) = (text(app), text(url));
        self.app = without_query(&app).into();
        self.host = host(&url).into();
        self.is_connected = true;
        Some(())
    }

    /// Returns the name of a stream: what `publish` names, or else the last part of the app.
    fn name(&self, text: &[u8]) -> Result<Vec<u8>, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "the stream key is not UTF-8")?;
        let last = self.app.trim_end_matches('/').rsplit('/').next();
        let name = match without_query(text) {
            "" => last.unwrap_or_default(),
            name => name,
        };
        if name.is_empty() {
            return Err(
                "there is no stream key; it is the sessionid, as in rtmp://HOST/live/SESSIONID",
            );
        }
        if name.contains('/') {
            return Err("the stream key has a '/'; a sessionid with one is written with %2F");
        }
        percent_decoded(name).ok_or("two hexadecimal digits do not follow a '%' of the stream key")
    }
}

/// Returns whether a command is `play`.
fn name_is_played(message: &[u8]) -> bool {
    Values(message).string() == Some(b"play")
}

fn without_query(text: &str) -> &str {
    text.split('?').next().unwrap_or_default()
}

/// Returns the host of a URL, without credentials and port.
fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or("", |(_, behind)| behind);
    let authority = behind.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    }
}

/// Appends the answer to `connect`. The chunk size comes before the first answer that is longer
/// than a chunk was.
fn push_connected(id: f64, out: &mut Vec<u8>) {
    let window = WINDOW_BYTES.to_be_bytes();
    push_message((BY_CONTROL, WINDOW_SIZE, 0), &window, out);
    let dynamic = [&window[..], &[2]].concat();
    push_message((BY_CONTROL, PEER_BANDWIDTH, 0), &dynamic, out);
    push_message(
        (BY_CONTROL, SET_CHUNK_SIZE, 0),
        &OWN_CHUNK_BYTES.to_be_bytes(),
        out,
    );
    let mut body = Vec::new();
    push_string(&mut body, "_result");
    push_number(&mut body, id);
    let server = [("fmsVer", "FMS/3,0,1,123")];
    push_object(&mut body, &server, Some(("capabilities", 31.0)));
    let status = [
        ("level", "status"),
        ("code", "NetConnection.Connect.Success"),
        ("description", "Connection succeeded."),
    ];
    push_object(&mut body, &status, Some(("objectEncoding", 0.0)));
    push_message((BY_COMMANDS, COMMAND, 0), &body, out);
}

/// Returns the beginning of a command or an answer without properties.
fn called(name: &str, id: f64) -> Vec<u8> {
    let mut body = Vec::new();
    push_string(&mut body, name);
    push_number(&mut body, id);
    push_null(&mut body);
    body
}

/// Appends the answer to a command: a number, or nothing.
fn push_result(id: f64, number: Option<f64>, out: &mut Vec<u8>) {
    let mut body = called("_result", id);
    match number {
        Some(number) => push_number(&mut body, number),
        None => push_undefined(&mut body),
    }
    push_message((BY_COMMANDS, COMMAND, 0), &body, out);
}

/// Appends that the stream begins.
pub fn push_start(out: &mut Vec<u8>) {
    let begin = [0, 0, 0, 0, 0, STREAM];
    push_message((BY_CONTROL, USER_CONTROL, 0), &begin, out);
    push_status("status", "NetStream.Publish.Start", "the stream runs", out);
}

/// Appends a status of the stream. Publishers show an error's description.
pub fn push_status(level: &str, code: &str, description: &str, out: &mut Vec<u8>) {
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let mut body = called("onStatus", 0.0);
    let status = [
        ("level", level),
        ("code", code),
        ("description", &*description),
    ];
    push_object(&mut body, &status, None);
    push_message((BY_STATUS, COMMAND, STREAM), &body, out);
}

/// Appends how many bytes have come, modulo 2^32.
pub fn push_acknowledgement(bytes: u32, out: &mut Vec<u8>) {
    push_message((BY_CONTROL, ACKNOWLEDGEMENT, 0), &bytes.to_be_bytes(), out);
}

/// Appends a message in one chunk.
fn push_message((chunk_stream, kind, stream): (u8, u8, u8), body: &[u8], out: &mut Vec<u8>) {
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    out.extend_from_slice(&[chunk_stream, 0, 0, 0]);
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, stream, 0, 0, 0]);
    out.extend_from_slice(body);
}
