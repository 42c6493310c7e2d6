//! RTMP of a publisher (Adobe's RTMP 1.0): a state machine over bytes. Its output is an FLV file.
//!
//! ```text
//!   bytes ─▶ handshake ─▶ chunk ─▶ messages ─┬─ command ─▶ answers, Event::Request, Event::End
//!                                            └─ tag ─────▶ FLV, once the request is admitted
//! ```
//!
//! It knows no sockets and no tokens. The caller reads until there is an [`Event::Request`], asks
//! whether it is admitted, and calls [`Publisher::admit`] or [`Publisher::refuse`]. It plays
//! nothing, and speaks neither RTMPE nor RTMPT.
//!
//! Bounds: at most [`COMMANDS_MAX`] commands, each with a short answer; at most
//! [`COLLECTED_BYTES_MAX`] of messages that are not whole, in at most twice the memory. Sound and
//! pictures pass as they come, unless two messages are interleaved.

mod amf;
mod chunk;
mod command;
mod tag;

use chunk::{Chunks, Goes, big_endian};
use command::{Asked, Session, WINDOW_BYTES, push_acknowledgement, push_start, push_status};
use tag::{FlvWriter, is_media, script};

/// The handshake is a version and then twice this number of bytes, in each direction.
const HANDSHAKE_BYTES: usize = 1536;
const VERSION: u8 = 3;
/// Commands of a connection. Publishers send five to seven.
const COMMANDS_MAX: usize = 32;
const COMMAND_BYTES_MAX: u32 = 8 * 1024;
/// Bytes of messages that are not whole, or wait for another one to be whole.
const COLLECTED_BYTES_MAX: usize = 256 * 1024;
/// A control message has at most ten bytes.
const CONTROL_BYTES_MAX: u32 = 16;
/// Media that is returned at a time, and one chunk.
const MEDIA_BYTES_MAX: usize = 64 * 1024;
/// The smallest window of the peer's that is taken.
const WINDOW_BYTES_MIN: u32 = 64 * 1024;

/// Cost of a chunk besides its bytes, in bytes of media.
const CHUNK_COST: usize = 32;

const SET_CHUNK_SIZE: u8 = 1;
const ABORT: u8 = 2;
const ACKNOWLEDGEMENT_SIZE: u8 = 5;
const CONTROL: std::ops::RangeInclusive<u8> = 1..=6;
const DATA: u8 = 18;
const COMMAND: u8 = 20;
/// The same in AMF3: a byte, and then as in AMF0.
const DATA_AMF3: u8 = 15;
const COMMAND_AMF3: u8 = 17;

/// Why a connection cannot be read on, in the log's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

/// What reading found.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing more can be read now.
    More,
    /// Media was appended. There may be more.
    Media,
    /// The peer wants something. It is not read on before the caller has decided.
    Request(Request),
    /// The stream is complete.
    End,
}

/// What a peer wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// To publish a stream of this name, decoded; or why that is no name.
    Publish { name: Result<Vec<u8>, &'static str> },
    /// To play a stream of this name. `host`: how the peer names the server.
    Play { name: Vec<u8>, host: Box<str> },
}

/// A peer that publishes.
pub struct Publisher {
    /// Bytes of the handshake that have come.
    handshake: usize,
    chunks: Chunks,
    session: Session,
    commands: usize,
    /// Whether its media is taken.
    is_admitted: bool,
    /// Whether a message passes into the media, so that others must wait.
    is_passing: bool,
    /// Tags of messages that waited for the passing one.
    waiting: Vec<u8>,
    flv: FlvWriter,
    /// Answers that have not been taken.
    answers: Vec<u8>,
    /// Found behind media that is returned first.
    next: Option<Result<Event, Fault>>,
    /// Bytes that have come, modulo 2^32: all, up to the last acknowledgement, and between two.
    received: u32,
    acknowledged: u32,
    window: u32,
}

impl Publisher {
    /// Begins with the handshake. `None`: this program does not speak RTMP.
    pub fn new() -> Option<Publisher> {
        Some(Publisher {
            handshake: 0,
            chunks: Chunks::new(),
            session: Session::default(),
            commands: 0,
            is_admitted: false,
            is_passing: false,
            waiting: Vec::new(),
            flv: FlvWriter::default(),
            answers: Vec::new(),
            next: None,
            received: 0,
            acknowledged: 0,
            window: WINDOW_BYTES,
        })
    }

    /// Returns the bytes that are allocated, its own included.
    pub fn memory_bytes(&self) -> usize {
        let (_, parts) = self.chunks.collected_bytes();
        let queued = self.waiting.capacity() + self.answers.capacity();
        size_of::<Publisher>() + parts + queued + self.session.memory_bytes()
    }

    /// Returns the cost of the chunks since the last call, in bytes of media.
    pub fn take_cost(&mut self) -> usize {
        CHUNK_COST * self.chunks.take_heads()
    }

    /// Reads from the input, and leaves there a header that is not whole. Appends media once the
    /// publisher is admitted. `media` is empty.
    pub fn read(&mut self, input: &mut &[u8], media: &mut Vec<u8>) -> Result<Event, Fault> {
        let before = input.len();
        let found = self.read_on(input, media);
        self.received = self.received.wrapping_add((before - input.len()) as u32);
        match found {
            found if media.is_empty() => found,
            Ok(Event::More | Event::Media) => Ok(Event::Media),
            found => {
                self.next = Some(found);
                Ok(Event::Media)
            }
        }
    }

    fn read_on(&mut self, input: &mut &[u8], media: &mut Vec<u8>) -> Result<Event, Fault> {
        if let Some(next) = self.next.take() {
            return next;
        }
        self.shake_hands(input)?;
        if self.handshake <= 2 * HANDSHAKE_BYTES {
            return Ok(Event::More);
        }
        while media.len() < MEDIA_BYTES_MAX {
            if self.chunks.is_between() {
                match self.chunks.take_head(input)? {
                    None => return Ok(Event::More),
                    Some(true) => self.begin_message(media)?,
                    Some(false) => {}
                }
            }
            let payload = self.chunks.take_payload(input);
            if let Some(event) = self.take_payload(payload, media)? {
                return Ok(event);
            }
            if !self.chunks.is_between() {
                return Ok(Event::More);
            }
        }
        Ok(Event::Media)
    }

    /// Counts the handshake, and answers it: with the same bytes that came, as they come.
    fn shake_hands(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        if self.handshake == 0
            && let Some((version, rest)) = input.split_first()
        {
            if *version != VERSION {
                return Err(match version {
                    0x16 => Fault("it speaks TLS; for rtmps, put a proxy with TLS in front"),
                    b'A'..=b'Z' => Fault("it speaks HTTP; send that to the port of --listen"),
                    _ => Fault("it does not speak RTMP"),
                });
            }
            (self.handshake, *input) = (1, rest);
            self.answers.push(VERSION);
            // Time and version 0, and bytes that are the same for everybody: they prove nothing.
            self.answers.extend_from_slice(&[0; HANDSHAKE_BYTES]);
        }
        for is_echoed in [true, false] {
            let end = if is_echoed { 1 } else { 1 + HANDSHAKE_BYTES } + HANDSHAKE_BYTES;
            let count = input.len().min(end.saturating_sub(self.handshake));
            let (bytes, rest) = input.split_at(count);
            if is_echoed {
                self.answers.extend_from_slice(bytes);
            }
            (self.handshake, *input) = (self.handshake + count, rest);
        }
        Ok(())
    }

    /// Decides where a message goes.
    fn begin_message(&mut self, media: &mut Vec<u8>) -> Result<(), Fault> {
        let (is_admitted, is_passing) = (self.is_admitted, self.is_passing);
        let Some(stream) = self.chunks.current() else {
            return Ok(());
        };
        stream.goes = match (stream.kind, stream.length) {
            (COMMAND | COMMAND_AMF3, length) if length > COMMAND_BYTES_MAX => {
                return Err(Fault("a command is longer than 8 KiB"));
            }
            (COMMAND | COMMAND_AMF3, _) => Goes::Part,
            (kind, length) if CONTROL.contains(&kind) => match length <= CONTROL_BYTES_MAX {
                true => Goes::Part,
                false => Goes::Nowhere,
            },
            (kind, _) if !(is_media(kind) || matches!(kind, DATA | DATA_AMF3)) => {
                return Err(Fault(
                    "a message is of no type that a publisher sends; its encoder must write FLV",
                ));
            }
            (_, 0) => Goes::Nowhere,
            _ if !is_admitted => Goes::Nowhere,
            (kind, length) if is_media(kind) && !is_passing => {
                self.is_passing = true;
                self.flv.begin((kind, length, stream.time), media);
                Goes::Out
            }
            _ => Goes::Part,
        };
        Ok(())
    }

    /// Takes the payload of a chunk, or a part of it.
    fn take_payload(
        &mut self,
        payload: &[u8],
        media: &mut Vec<u8>,
    ) -> Result<Option<Event>, Fault> {
        let (collected, _) = self.chunks.collected_bytes();
        let Some(stream) = self.chunks.current() else {
            return Ok(None);
        };
        match stream.goes {
            Goes::Nowhere => return Ok(None),
            Goes::Out => media.extend_from_slice(payload),
            Goes::Part => {
                if collected + self.waiting.len() + payload.len() > COLLECTED_BYTES_MAX {
                    return Err(Fault("more than 256 KiB of its messages are not whole"));
                }
                stream.collect(payload);
            }
        }
        if stream.left > 0 {
            return Ok(None);
        }
        let (kind, time, length) = (stream.kind, stream.time, stream.length);
        match std::mem::replace(&mut stream.goes, Goes::Nowhere) {
            Goes::Part => {
                let message = std::mem::take(&mut stream.part);
                self.take_message((kind, time), &message, media)
            }
            Goes::Out => {
                FlvWriter::end(length, media);
                media.append(&mut self.waiting);
                self.waiting = Vec::new();
                self.is_passing = false;
                Ok(None)
            }
            Goes::Nowhere => Ok(None),
        }
    }

    /// Takes a message that was collected.
    fn take_message(
        &mut self,
        (kind, time): (u8, u32),
        message: &[u8],
        media: &mut Vec<u8>,
    ) -> Result<Option<Event>, Fault> {
        let message = match kind {
            DATA_AMF3 | COMMAND_AMF3 => message.get(1..).unwrap_or_default(),
            _ => message,
        };
        let tag = match kind {
            COMMAND | COMMAND_AMF3 => return self.take_command(message),
            DATA | DATA_AMF3 => script(message).map(|script| (DATA, script)),
            kind if is_media(kind) => Some((kind, message)),
            kind => return self.take_control(kind, message).map(|()| None),
        };
        if let Some((kind, body)) = tag {
            let out = match self.is_passing {
                true => &mut self.waiting,
                false => media,
            };
            self.flv.tag(kind, time, body, out);
        }
        Ok(None)
    }

    fn take_command(&mut self, message: &[u8]) -> Result<Option<Event>, Fault> {
        self.commands += 1;
        if self.commands > COMMANDS_MAX {
            return Err(Fault("it has sent more than 32 commands"));
        }
        match self.session.take(message, &mut self.answers)? {
            Asked::Request(_) if self.is_admitted => {
                Err(Fault("it asks for a second stream; a connection has one"))
            }
            Asked::Request(request) => Ok(Some(Event::Request(request))),
            Asked::End => Ok(self.is_admitted.then_some(Event::End)),
            Asked::Nothing => Ok(None),
        }
    }

    fn take_control(&mut self, kind: u8, message: &[u8]) -> Result<(), Fault> {
        let Some(number) = big_endian(message.get(..4)) else {
            return Ok(());
        };
        match kind {
            SET_CHUNK_SIZE => self.chunks.set_size(number)?,
            ACKNOWLEDGEMENT_SIZE => self.window = number.max(WINDOW_BYTES_MIN),
            ABORT => {
                if let Some(stream) = self.chunks.stream(number) {
                    if stream.goes == Goes::Out && stream.left > 0 {
                        return Err(Fault("it aborts a message of which a part has gone out"));
                    }
                    (stream.left, stream.part) = (0, Vec::new());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Admits the request. Sound and pictures are media from now on.
    pub fn admit(&mut self) {
        self.is_admitted = true;
        push_start(&mut self.answers);
    }

    /// Refuses the request. `code`: as `NetStream.Publish.Denied`.
    pub fn refuse(&mut self, code: &str, description: &str) {
        push_status("error", code, description, &mut self.answers);
    }

    /// Takes the answers, with the acknowledgement that is due. `is_full`: earlier answers wait
    /// still, and an acknowledgement can be left out, since the next one counts the same bytes.
    pub fn take_answers(&mut self, is_full: bool) -> Vec<u8> {
        if self.received.wrapping_sub(self.acknowledged) >= self.window {
            self.acknowledged = self.received;
            if !is_full {
                push_acknowledgement(self.received, &mut self.answers);
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
