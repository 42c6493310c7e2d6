//! Commands of a publisher (RTMP 1.0, section 7), and the answers.
//!
//! Publishers send them in different orders and wait for different answers. So each command with a
//! transaction id gets an answer, and the order does not matter after `connect`.

use super::amf::{DEPTH_MAX, Value, Values};
use super::{
    ACKNOWLEDGEMENT_SIZE, COMMAND, COMMANDS_MAX, Event, Fault, SET_CHUNK_SIZE, WINDOW_BYTES,
};
use crate::clean_text::Agent;
use crate::percent::{percent_decoded, percent_encoded};

/// Message types of the answers.
const ACKNOWLEDGEMENT: u8 = 3;
const USER_CONTROL: u8 = 4;
const PEER_BANDWIDTH: u8 = 6;
/// Chunk streams and message streams of the answers.
const BY_CONTROL: (u8, u8) = (2, 0);
const BY_COMMANDS: (u8, u8) = (3, 0);
const BY_STATUS: (u8, u8) = (5, STREAM);
/// The message stream that `createStream` names.
const STREAM: u8 = 1;

/// The server's chunk size. No answer is longer.
const OWN_CHUNK_BYTES: u32 = 65_536;
/// A shorter description fits into any publisher's line.
const DESCRIPTION_CHARS_MAX: usize = 1024;

/// What is kept of the commands.
#[derive(Default)]
pub struct Session {
    commands: usize,
    is_connected: bool,
    /// Last part of `app`.
    pub app: Box<str>,
    /// Host of `tcUrl`, without a port.
    pub host: Box<str>,
    /// `flashVer`: what it says which program it is.
    pub agent: Agent,
    /// The server's port for viewers.
    pub http_port: u16,
    /// Whether its media is taken.
    pub is_admitted: bool,
}

impl Session {
    /// Handles a command, and appends its answer.
    pub fn take(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<Option<Event>, Fault> {
        self.commands += 1;
        if self.commands > COMMANDS_MAX {
            return Err(Fault("it has sent more than 32 commands"));
        }
        let mut values = Values(message);
        let (Some(name), Some(id)) = (values.string(), values.number()) else {
            return Err(Fault("a command has no name or no transaction id"));
        };
        match name {
            b"connect" if self.is_connected => return Err(Fault("it connects twice")),
            b"connect" => {
                let connected = self.connect(&mut values);
                connected.ok_or(Fault("its connect command is malformed"))?;
                push_connected(id, out);
            }
            _ if !self.is_connected => return Err(Fault("its first command is not connect")),
            b"publish" if self.is_admitted => {
                return Err(Fault("it asks for a second stream; a connection has one"));
            }
            b"publish" | b"play" => {
                let text = values.skip(DEPTH_MAX).and_then(|()| values.string());
                let text = text.ok_or(Fault("it names no stream"))?;
                let key = self.key(text);
                if name == b"publish" {
                    return Ok(Some(Event::Publish(key)));
                }
                let key = percent_encoded(&String::from_utf8_lossy(&key.unwrap_or_default()));
                let watched_at = format!("http://{}:{}/stream/{key}", self.host, self.http_port);
                push_status("error", "NetStream.Play.Failed", &watched_at, out);
                return Err(Fault("it asks to play; streams are watched over HTTP"));
            }
            b"FCUnpublish" | b"deleteStream" | b"closeStream" => {
                return Ok(self.is_admitted.then_some(Event::End));
            }
            b"createStream" => push_result(id, Value::Number(STREAM.into()), out),
            b"_result" | b"_error" => {}
            _ if id == 0.0 => {}
            _ => push_result(id, Value::Undefined, out),
        }
        if name == b"FCPublish" {
            let status = [
                ("code", Value::Text("NetStream.Publish.Start")),
                ("description", Value::Text("FCPublish")),
            ];
            push_command(
                BY_COMMANDS,
                "onFCPublish",
                0.0,
                [Value::Null, Value::Object(&status)],
                out,
            );
        }
        Ok(None)
    }

    /// Takes the properties of `connect` that are needed.
    fn connect(&mut self, values: &mut Values<'_>) -> Option<()> {
        let (mut app, mut url, mut agent) = (None, None, None);
        values.object(|name, values| {
            match name {
                b"app" => app = Some(values.string()?),
                b"tcUrl" => url = Some(values.string()?),
                b"flashVer" => agent = Some(values.string()?),
                _ => values.skip(DEPTH_MAX)?,
            }
            Some(())
        })?;
        let app = String::from_utf8_lossy(app.unwrap_or_default());
        let app = without_query(&app).trim_end_matches('/').rsplit('/').next();
        self.app = app.unwrap_or_default().into();
        self.host = host(&String::from_utf8_lossy(url.unwrap_or_default())).into();
        self.agent = Agent::decode(agent.unwrap_or_default(), None);
        self.is_connected = true;
        Some(())
    }

    /// Returns the name of a stream: what `publish` names, or else the last part of the app.
    fn key(&self, text: &[u8]) -> Result<Vec<u8>, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "the stream key is not UTF-8")?;
        let key = match without_query(text) {
            "" => &*self.app,
            key => key,
        };
        if key.is_empty() {
            return Err(
                "there is no stream key; it is the sessionid, as in rtmp://HOST/live/SESSIONID",
            );
        }
        if key.contains('/') {
            return Err("the stream key has a '/'; a sessionid with one is written with %2F");
        }
        percent_decoded(key).ok_or("two hexadecimal digits do not follow a '%' of the stream key")
    }
}

fn without_query(text: &str) -> &str {
    text.split('?').next().unwrap_or_default()
}

/// Returns the host of a URL, without credentials and port.
fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or("", |(_, behind)| behind);
    let authority = behind.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let in_front = host.trim_end_matches(|digit: char| digit.is_ascii_digit());
    in_front.strip_suffix(':').unwrap_or(host)
}

/// Appends the answer to `connect`. The chunk size comes before the first answer that is longer
/// than a chunk was.
fn push_connected(id: f64, out: &mut Vec<u8>) {
    let window = WINDOW_BYTES.to_be_bytes();
    let dynamic = [&window[..], &[2]].concat();
    push_message(BY_CONTROL, ACKNOWLEDGEMENT_SIZE, &window, out);
    push_message(BY_CONTROL, PEER_BANDWIDTH, &dynamic, out);
    push_message(
        BY_CONTROL,
        SET_CHUNK_SIZE,
        &OWN_CHUNK_BYTES.to_be_bytes(),
        out,
    );
    let server = [
        ("fmsVer", Value::Text("FMS/3,0,1,123")),
        ("capabilities", Value::Number(31.0)),
    ];
    let status = [
        ("level", Value::Text("status")),
        ("code", Value::Text("NetConnection.Connect.Success")),
        ("description", Value::Text("Connection succeeded.")),
        ("objectEncoding", Value::Number(0.0)),
    ];
    let values = [Value::Object(&server), Value::Object(&status)];
    push_command(BY_COMMANDS, "_result", id, values, out);
}

/// Appends the answer to a command.
fn push_result(id: f64, result: Value<'_>, out: &mut Vec<u8>) {
    push_command(BY_COMMANDS, "_result", id, [Value::Null, result], out);
}

/// Appends that the stream begins.
pub fn push_start(out: &mut Vec<u8>) {
    push_message(BY_CONTROL, USER_CONTROL, &[0, 0, 0, 0, 0, STREAM], out);
    push_status("status", "NetStream.Publish.Start", "the stream runs", out);
}

/// Appends a status of the stream. Publishers show an error's description.
pub fn push_status(level: &str, code: &str, description: &str, out: &mut Vec<u8>) {
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let status = [
        ("level", Value::Text(level)),
        ("code", Value::Text(code)),
        ("description", Value::Text(&description)),
    ];
    push_command(
        BY_STATUS,
        "onStatus",
        0.0,
        [Value::Null, Value::Object(&status)],
        out,
    );
}

/// Appends how many bytes have come, modulo 2^32.
pub fn push_acknowledgement(bytes: u32, out: &mut Vec<u8>) {
    push_message(BY_CONTROL, ACKNOWLEDGEMENT, &bytes.to_be_bytes(), out);
}

/// Appends a command: its name, its transaction id, and two values.
fn push_command(by: (u8, u8), name: &str, id: f64, values: [Value<'_>; 2], out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let head = [Value::Text(name), Value::Number(id)];
    head.iter()
        .chain(&values)
        .for_each(|value| value.push(&mut body));
    push_message(by, COMMAND, &body, out);
}

/// Appends a message in one chunk.
fn push_message((chunk_stream, stream): (u8, u8), kind: u8, body: &[u8], out: &mut Vec<u8>) {
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    out.extend_from_slice(&[chunk_stream, 0, 0, 0]);
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, stream, 0, 0, 0]);
    out.extend_from_slice(body);
}
