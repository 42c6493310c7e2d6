//! RTMP of a publisher (Adobe's RTMP 1.0): a state machine over bytes. Its output is an FLV file.
//!
//! ```text
//!   bytes ─▶ handshake ─▶ chunk ─▶ messages ─┬─ command ─▶ answers, Event::Publish, Event::End
//!                                            └─ tag ─────▶ FLV, once the publisher is admitted
//! ```
//!
//! It knows no sockets and no tokens. The caller reads until there is an [`Event::Publish`], asks
//! whether that is admitted, and calls [`Publisher::admit`] or [`Publisher::refuse`]. It plays
//! nothing, and speaks neither RTMPE nor RTMPT.
//!
//! Bounds: at most [`COMMANDS_MAX`] commands, each with a short answer; at most
//! [`COLLECTED_BYTES_MAX`] of messages that are not whole, in at most twice the memory, and
//! [`COMMAND_BYTES_MAX`] before the publisher is admitted. Sound and pictures pass as they come,
//! unless two messages are interleaved.

mod amf;
mod chunk;
mod command;
mod tag;

use chunk::{Chunks, Goes, big_endian};
use command::{Session, push_error, push_message, push_start};
use tag::{FlvWriter, script};

use crate::clean_text::Agent;
use crate::format::flv::{AUDIO, SCRIPT, VIDEO};

/// The handshake is a version and then twice this number of bytes, in each direction.
const HANDSHAKE_BYTES: usize = 1536;
const HANDSHAKE_END: usize = 1 + 2 * HANDSHAKE_BYTES;
const VERSION: u8 = 3;
/// Commands of a connection. Publishers send five to seven.
const COMMANDS_MAX: usize = 32;
const COMMAND_BYTES_MAX: u32 = 8 * 1024;
/// Bytes of messages that are not whole, or wait for another one to be whole.
const COLLECTED_BYTES_MAX: usize = 256 * 1024;
/// A control message has at most ten bytes.
const CONTROL_BYTES_MAX: u32 = 16;
/// Chunks that are read at a time.
const CHUNKS_MAX: usize = 16;
/// The chunk size before the peer sets one, and the smallest that is taken. Smaller chunks cost
/// more than their bytes.
const CHUNK_BYTES_MIN: u32 = 128;
/// The window that is announced, in bytes: a publisher is acknowledged as often.
const WINDOW_BYTES: u32 = 2_500_000;
/// The smallest window of the peer's that is taken.
const WINDOW_BYTES_MIN: u32 = 64 * 1024;

const SET_CHUNK_SIZE: u8 = 1;
const ABORT: u8 = 2;
const ACKNOWLEDGEMENT: u8 = 3;
const ACKNOWLEDGEMENT_SIZE: u8 = 5;
const DATA: u8 = 18;
const COMMAND: u8 = 20;
/// The same in AMF3: a byte, and then as in AMF0.
const DATA_AMF3: u8 = 15;
const COMMAND_AMF3: u8 = 17;

const NOT_OF_FLV: &str =
    "a message is of no type that a publisher sends; its encoder must write FLV";

/// What reading found.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing more can be read now. Media may have been appended.
    More,
    /// There may be more. Media may have been appended.
    Media,
    /// The peer asks to publish a stream of this name, decoded; or why that is no name. It is not
    /// read on before the caller has decided.
    Publish(Result<Vec<u8>, &'static str>),
    /// The stream is complete.
    End,
}

/// A peer that publishes.
#[derive(Default)]
pub struct Publisher {
    /// Bytes of the handshake that have come.
    handshake: usize,
    chunks: Chunks,
    session: Session,
    /// Whether a message passes into the media, so that others must wait.
    is_passing: bool,
    /// Tags of messages that waited for the passing one.
    waiting: Vec<u8>,
    flv: FlvWriter,
    /// Answers that have not been taken.
    answers: Vec<u8>,
    /// Bytes that have come, modulo 2^32: all, up to the last acknowledgement, and between two.
    received: u32,
    acknowledged: u32,
    window: u32,
}

impl Publisher {
    /// Begins with the handshake. `None`: this program does not speak RTMP.
    pub fn new(http_port: u16) -> Option<Publisher> {
        let mut publisher = Publisher {
            window: WINDOW_BYTES,
            ..Publisher::default()
        };
        publisher.chunks.size = CHUNK_BYTES_MIN;
        publisher.session.http_port = http_port;
        Some(publisher)
    }

    /// Returns the bytes that are allocated, its own included.
    pub fn memory_bytes(&self) -> usize {
        let queued = self.waiting.capacity() + self.answers.capacity();
        let session = &self.session;
        let named = session.app.len() + session.host.len() + session.agent.as_str().len();
        size_of::<Publisher>() + self.chunks.sum(Vec::capacity) + queued + named
    }

    /// Reads from the input, and leaves there a header that is not whole. Appends media to `media`
    /// once the publisher is admitted. `media` must be empty. An error says in the log's words why
    /// reading this connection cannot continue.
    pub fn read(&mut self, input: &mut &[u8], media: &mut Vec<u8>) -> Result<Event, &'static str> {
        let before = input.len();
        let found = self.read_on(input, media);
        self.received = self.received.wrapping_add((before - input.len()) as u32);
        found
    }

    fn read_on(&mut self, input: &mut &[u8], media: &mut Vec<u8>) -> Result<Event, &'static str> {
        self.shake_hands(input)?;
        if self.handshake < HANDSHAKE_END {
            return Ok(Event::More);
        }
        let mut chunks_left = CHUNKS_MAX;
        while chunks_left > 0 {
            if self.chunks.chunk_left == 0 {
                chunks_left -= 1;
                match self.chunks.take_head(input)? {
                    None => return Ok(Event::More),
                    Some(true) => self.begin_message(media)?,
                    Some(false) => {}
                }
                // What a command causes follows the media before it.
                let is_command = matches!(self.chunks.current.kind, COMMAND | COMMAND_AMF3);
                if is_command && !media.is_empty() {
                    return Ok(Event::Media);
                }
            }
            let payload = self.chunks.take_payload(input);
            if let Some(event) = self.take_payload(payload, media)? {
                return Ok(event);
            }
            if input.is_empty() {
                return Ok(Event::More);
            }
        }
        Ok(Event::Media)
    }

    /// Counts the handshake, and answers it: with the same bytes that came, as they come.
    fn shake_hands(&mut self, input: &mut &[u8]) -> Result<(), &'static str> {
        if self.handshake == 0
            && let Some((version, rest)) = input.split_first()
        {
            match *version {
                VERSION => {}
                0x16 => return Err("it speaks TLS; for rtmps, put a proxy with TLS in front"),
                b'A'..=b'Z' => return Err("it speaks HTTP; send that to the port of --listen"),
                _ => return Err("it does not speak RTMP"),
            }
            (self.handshake, *input) = (1, rest);
            self.answers.push(VERSION);
            // Time and version 0, and bytes that are the same for everybody: they prove nothing.
            self.answers.extend_from_slice(&[0; HANDSHAKE_BYTES]);
        }
        let echoed = (1 + HANDSHAKE_BYTES).saturating_sub(self.handshake);
        let (bytes, rest) = input.split_at(input.len().min(HANDSHAKE_END - self.handshake));
        self.answers.extend(bytes.iter().take(echoed));
        (self.handshake, *input) = (self.handshake + bytes.len(), rest);
        Ok(())
    }

    /// Decides where a message goes.
    fn begin_message(&mut self, media: &mut Vec<u8>) -> Result<(), &'static str> {
        let stream = &mut self.chunks.current;
        stream.goes = match (stream.kind, stream.length) {
            (COMMAND | COMMAND_AMF3, 1..=COMMAND_BYTES_MAX) => Goes::Part,
            (COMMAND | COMMAND_AMF3, 1..) => return Err("a command is longer than 8 KiB"),
            // Control messages.
            (1..=6, 1..=CONTROL_BYTES_MAX) => Goes::Part,
            (1..=6, _) | (_, 0) => Goes::Nowhere,
            (AUDIO | VIDEO | DATA | DATA_AMF3, _) if !self.session.is_admitted => Goes::Nowhere,
            (AUDIO | VIDEO, length) if !self.is_passing => {
                self.is_passing = true;
                let head = (stream.kind, length, stream.time);
                self.flv.begin(head, &[], media);
                Goes::Out
            }
            (AUDIO | VIDEO | DATA | DATA_AMF3, _) => Goes::Part,
            _ => return Err(NOT_OF_FLV),
        };
        Ok(())
    }

    /// Takes the payload of a chunk, or a part of it.
    fn take_payload(
        &mut self,
        payload: &[u8],
        media: &mut Vec<u8>,
    ) -> Result<Option<Event>, &'static str> {
        match self.chunks.current.goes {
            Goes::Nowhere => {}
            Goes::Out => media.extend_from_slice(payload),
            Goes::Part => self.collect(payload)?,
        }
        let stream = &self.chunks.current;
        match (&stream.goes, stream.left) {
            (Goes::Part, 0) => return self.take_message(media),
            (Goes::Out, 0) => {
                FlvWriter::end(stream.length, media);
                media.extend_from_slice(&std::mem::take(&mut self.waiting));
                self.is_passing = false;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Collects a piece of a message, within the bound. Publishers send one command after the other.
    fn collect(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        let bytes = self.chunks.sum(Vec::len) + self.waiting.len() + piece.len();
        if bytes > COLLECTED_BYTES_MAX {
            return Err("more than 256 KiB of its messages are not whole");
        }
        if bytes > COMMAND_BYTES_MAX as usize && !self.session.is_admitted {
            return Err("more than 8 KiB of its commands are not whole");
        }
        self.chunks.current.collect(piece);
        Ok(())
    }

    /// Takes a message that was collected.
    fn take_message(&mut self, media: &mut Vec<u8>) -> Result<Option<Event>, &'static str> {
        let stream = &mut self.chunks.current;
        let (message, kind, time) = (std::mem::take(&mut stream.part), stream.kind, stream.time);
        let body = match kind {
            DATA_AMF3 | COMMAND_AMF3 => message.get(1..).unwrap_or_default(),
            _ => &message,
        };
        let tag = match kind {
            COMMAND | COMMAND_AMF3 => {
                let event = self.session.take(body, &mut self.answers)?;
                return match event {
                    Some(Event::End) if self.is_passing => Err("it ends within a message"),
                    event => Ok(event),
                };
            }
            DATA | DATA_AMF3 => script(body).map(|script| (SCRIPT, script)),
            AUDIO | VIDEO => Some((kind, body)),
            _ => return self.take_control(kind, body).map(|()| None),
        };
        if let Some((kind, body)) = tag {
            let out = match self.is_passing {
                true => &mut self.waiting,
                false => media,
            };
            // A message has at most 24 bits of length.
            let length = body.len() as u32;
            self.flv.begin((kind, length, time), body, out);
            out.extend_from_slice(body);
            FlvWriter::end(length, out);
        }
        Ok(None)
    }

    fn take_control(&mut self, kind: u8, message: &[u8]) -> Result<(), &'static str> {
        match (kind, message.get(..4).map(big_endian)) {
            (SET_CHUNK_SIZE, Some(..CHUNK_BYTES_MIN)) => {
                return Err("its chunk size is less than 128 bytes");
            }
            (SET_CHUNK_SIZE, Some(size)) => self.chunks.size = size,
            (ACKNOWLEDGEMENT_SIZE, Some(size)) => self.window = size.max(WINDOW_BYTES_MIN),
            (ABORT, Some(number)) => {
                if let Some(stream) = self.chunks.stream(number) {
                    if stream.goes == Goes::Out && stream.left > 0 {
                        return Err("it aborts a message of which a part has gone out");
                    }
                    (stream.left, stream.part) = (0, Vec::new());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Admits the publisher. Sound and pictures are media from now on. Returns its `flashVer`.
    pub fn admit(&mut self) -> Agent {
        self.session.is_admitted = true;
        push_start(&mut self.answers);
        std::mem::take(&mut self.session.agent)
    }

    /// Refuses the publisher. `code`: as `NetStream.Publish.Denied`.
    pub fn refuse(&mut self, code: &str, description: &str) {
        push_error(code, description, &mut self.answers);
    }

    /// Takes the answers, with the acknowledgement that is due. `is_full`: earlier answers wait
    /// still, and an acknowledgement can be left out, since the next one counts the same bytes.
    pub fn take_answers(&mut self, is_full: bool) -> Vec<u8> {
        if self.received.wrapping_sub(self.acknowledged) >= self.window {
            self.acknowledged = self.received;
            if !is_full {
                let received = self.received.to_be_bytes();
                push_message(ACKNOWLEDGEMENT, 0, &received, &mut self.answers);
            }
        }
        std::mem::take(&mut self.answers)
    }

    /// Returns whether its first byte was RTMP's.
    pub fn has_begun(&self) -> bool {
        self.handshake > 0
    }
}

#[cfg(test)]
pub mod sample;
#[cfg(test)]
mod tests;
