//! Commands of a publisher (RTMP 1.0, section 7), and the answers.
//!
//! Publishers send them in different orders and wait for different answers. So each command with a
//! transaction id gets an answer, and the order does not matter after `connect`.

use super::amf::{DEPTH_MAX, Value, Values};
use super::{ACKNOWLEDGEMENT_SIZE, COMMAND, COMMANDS_MAX, Event, SET_CHUNK_SIZE, WINDOW_BYTES};
use crate::clean_text::Agent;
use crate::percent::{percent_decoded, percent_encoded};

/// Message types of the answers.
const USER_CONTROL: u8 = 4;
const PEER_BANDWIDTH: u8 = 6;
/// The message stream that `createStream` names.
const STREAM: u8 = 1;

/// Code of a stream that begins.
const START: &str = "NetStream.Publish.Start";
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
    pub fn take(
        &mut self,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, &'static str> {
        self.commands += 1;
        if self.commands > COMMANDS_MAX {
            return Err("it has sent more than 32 commands");
        }
        let mut values = Values(message);
        let (Some(name), Some(id)) = (values.string(), values.number()) else {
            return Err("a command has no name or no transaction id");
        };
        match name {
            b"connect" if self.is_connected => return Err("it connects twice"),
            b"connect" => {
                let connected = self.connect(&mut values);
                connected.ok_or("its connect command is malformed")?;
                push_connected(id, out);
            }
            _ if !self.is_connected => return Err("its first command is not connect"),
            b"publish" if self.is_admitted => {
                return Err("it asks for a second stream; a connection has one");
            }
            b"publish" => return Ok(Some(Event::Publish(self.key(&mut values)?))),
            b"play" => {
                let key = self.key(&mut values)?.unwrap_or_default();
                let key = percent_encoded(&String::from_utf8_lossy(&key));
                let watched_at = format!("http://{}:{}/stream/{key}", self.host, self.http_port);
                push_error("NetStream.Play.Failed", &watched_at, out);
                return Err("it asks to play; streams are watched over HTTP");
            }
            b"FCUnpublish" | b"deleteStream" | b"closeStream" if self.is_admitted => {
                return Ok(Some(Event::End));
            }
            b"createStream" => push_result(id, Value::Number(STREAM.into()), out),
            b"_result" | b"_error" => {}
            _ if id == 0.0 => {}
            _ => push_result(id, Value::Undefined, out),
        }
        if name == b"FCPublish" {
            push_status(0, "onFCPublish", ["status", START, "FCPublish"], out);
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

    /// Returns the name of a stream, or why it is none: what the command names, or else the last part
    /// of the app.
    fn key(&self, values: &mut Values<'_>) -> Result<Result<Vec<u8>, &'static str>, &'static str> {
        let text = values.skip(DEPTH_MAX).and_then(|()| values.string());
        let text = std::str::from_utf8(text.ok_or("it names no stream")?);
        Ok(match text.map(without_query) {
            Err(_) => Err("the stream key is not UTF-8"),
            Ok("") if self.app.is_empty() => {
                Err("there is no stream key; it is the sessionid, as in rtmp://HOST/live/SESSIONID")
            }
            Ok("") => decoded(&self.app),
            Ok(key) if key.contains('/') => {
                Err("the stream key has a '/'; a sessionid with one is written with %2F")
            }
            Ok(key) => decoded(key),
        })
    }
}

fn without_query(text: &str) -> &str {
    text.split('?').next().unwrap_or_default()
}

/// Returns the host of a URL, without credentials and port. It is empty if the text has no `://`.
fn host(url: &str) -> &str {
    let after = url.split_once("://").map_or("", |(_, after)| after);
    let authority = after.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let in_front = host.trim_end_matches(|digit: char| digit.is_ascii_digit());
    in_front.strip_suffix(':').unwrap_or(host)
}

fn decoded(key: &str) -> Result<Vec<u8>, &'static str> {
    percent_decoded(key).ok_or("two hexadecimal digits do not follow a '%' of the stream key")
}

/// Appends the answer to `connect`. The chunk size comes before the first answer that is longer
/// than a chunk was.
fn push_connected(id: f64, out: &mut Vec<u8>) {
    let window = WINDOW_BYTES.to_be_bytes();
    push_message(ACKNOWLEDGEMENT_SIZE, 0, &window, out);
    // Dynamic.
    push_message(PEER_BANDWIDTH, 0, &[&window[..], &[2]].concat(), out);
    push_message(SET_CHUNK_SIZE, 0, &OWN_CHUNK_BYTES.to_be_bytes(), out);
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
    push_command(0, ("_result", id), values, out);
}

/// Appends the answer to a command.
fn push_result(id: f64, result: Value<'_>, out: &mut Vec<u8>) {
    push_command(0, ("_result", id), [Value::Null, result], out);
}

/// Appends that the stream begins.
pub fn push_start(out: &mut Vec<u8>) {
    push_message(USER_CONTROL, 0, &[0, 0, 0, 0, 0, STREAM], out);
    let status = ["status", START, "the stream runs"];
    push_status(STREAM, "onStatus", status, out);
}

/// Appends that the stream is refused. Publishers show the description.
pub fn push_error(code: &str, description: &str, out: &mut Vec<u8>) {
    let description: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    push_status(STREAM, "onStatus", ["error", code, &description], out);
}

/// Appends a status: its level, its code and its description.
fn push_status(stream: u8, name: &str, status: [&str; 3], out: &mut Vec<u8>) {
    let [level, code, text] = status.map(Value::Text);
    let status = [("level", level), ("code", code), ("description", text)];
    let values = [Value::Null, Value::Object(&status)];
    push_command(stream, (name, 0.0), values, out);
}

/// Appends a command of a message stream: its name, its transaction id, and two values.
fn push_command(stream: u8, (name, id): (&str, f64), values: [Value<'_>; 2], out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let head = [Value::Text(name), Value::Number(id)];
    let all = head.iter().chain(&values);
    all.for_each(|value| value.push(&mut body));
    push_message(COMMAND, stream, &body, out);
}

/// Appends a message in one chunk.
pub fn push_message(kind: u8, stream: u8, body: &[u8], out: &mut Vec<u8>) {
    let chunk_stream = if kind == COMMAND { 3 } else { 2 };
    let [_, l0, l1, l2] = (body.len() as u32).to_be_bytes();
    out.extend_from_slice(&[chunk_stream, 0, 0, 0, l0, l1, l2, kind, stream, 0, 0, 0]);
    out.extend_from_slice(body);
}
