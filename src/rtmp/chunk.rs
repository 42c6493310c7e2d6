//! The chunk stream of a peer (RTMP 1.0, section 5.3): headers of chunks, and where messages begin
//! and end.
//!
//! A header is read from a slice and changes nothing before it is whole. Nothing is allocated by a
//! length that the peer declares. At most [`STREAMS_MAX`] chunk streams are known.

use super::Fault;

/// Chunk streams of a connection.
pub const STREAMS_MAX: usize = 8;
/// The chunk size before the peer sets one, and the smallest that is taken. Smaller chunks cost
/// more than their bytes.
pub const CHUNK_BYTES_MIN: u32 = 128;
/// Payload that is returned at a time.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// The value of the field for a time that has 32 bits behind the header.
const EXTENDED: u32 = 0xff_ffff;

/// The chunk streams of a peer, and the chunk that is being read.
pub struct Chunks {
    streams: Vec<ChunkStream>,
    /// The largest payload of a chunk, in bytes.
    size: u32,
    /// Index of the chunk's stream.
    at: usize,
    /// Bytes of the chunk's payload that have not come. At most `left` of its stream.
    chunk_left: u32,
    /// Headers since the last [`Chunks::take_heads`].
    heads: usize,
}

/// One chunk stream, and its newest message.
pub struct ChunkStream {
    id: u32,
    /// Time of the message, in milliseconds. It wraps.
    pub time: u32,
    delta: u32,
    /// The newest time that had its own 32 bits.
    extended: Option<u32>,
    /// Type of the message.
    pub kind: u8,
    /// Bytes of the message.
    pub length: u32,
    /// Bytes of the message that have not come.
    pub left: u32,
    /// Where the message goes.
    pub goes: Goes,
    /// The message so far, if it is collected.
    pub part: Vec<u8>,
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Goes {
    /// Into the media as it comes.
    Out,
    /// Into `part`, until it is whole.
    Part,
    /// Nowhere.
    Nowhere,
}

impl Chunks {
    pub fn new() -> Chunks {
        Chunks {
            streams: Vec::new(),
            size: CHUNK_BYTES_MIN,
            at: 0,
            chunk_left: 0,
            heads: 0,
        }
    }

    /// Sets the largest payload of a chunk, from the next chunk on.
    pub fn set_size(&mut self, bytes: u32) -> Result<(), Fault> {
        if bytes < CHUNK_BYTES_MIN {
            return Err(Fault("its chunk size is less than 128 bytes"));
        }
        self.size = bytes;
        Ok(())
    }

    /// Returns the stream whose chunk is being read.
    pub fn current(&mut self) -> Option<&mut ChunkStream> {
        self.streams.get_mut(self.at)
    }

    /// Returns the stream with this id.
    pub fn stream(&mut self, id: u32) -> Option<&mut ChunkStream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
    }

    /// Returns whether a header comes next.
    pub fn is_between(&self) -> bool {
        self.chunk_left == 0
    }

    /// Returns the payload of the chunk in the input, or its part that has come.
    pub fn take_payload<'a>(&mut self, input: &mut &'a [u8]) -> &'a [u8] {
        let count = input
            .len()
            .min(self.chunk_left as usize)
            .min(PAYLOAD_BYTES_MAX);
        let (payload, rest) = input.split_at(count);
        *input = rest;
        self.chunk_left -= count as u32;
        if let Some(stream) = self.streams.get_mut(self.at) {
            stream.left -= count as u32;
        }
        payload
    }

    /// Returns the number of headers since the last call.
    pub fn take_heads(&mut self) -> usize {
        std::mem::take(&mut self.heads)
    }

    /// Returns the number of collected bytes, and of the bytes that the table allocates.
    pub fn collected_bytes(&self) -> (usize, usize) {
        let parts = || self.streams.iter().map(|stream| &stream.part);
        let table = self.streams.capacity() * size_of::<ChunkStream>();
        (
            parts().map(Vec::len).sum(),
            table + parts().map(Vec::capacity).sum::<usize>(),
        )
    }

    /// Takes a header. `None`: not all of it has come. `Some(true)`: a message begins with it.
    pub fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<bool>, Fault> {
        let Some((form, id, mut rest)) = basic(input) else {
            return Ok(None);
        };
        let at = self.streams.iter().position(|stream| stream.id == id);
        let known = at.and_then(|at| self.streams.get(at));
        let is_open = known.is_some_and(|stream| stream.left > 0);
        match known {
            Some(_) if is_open && form != 3 => {
                return Err(Fault(
                    "a message begins within another one of its chunk stream",
                ));
            }
            None if form > 1 => {
                return Err(Fault("a chunk stream begins with a header of type 2 or 3"));
            }
            None if self.streams.len() == STREAMS_MAX => {
                return Err(Fault("it has more than 8 chunk streams"));
            }
            _ => {}
        }
        let length_of_fields = [11, 7, 3, 0][usize::from(form & 3)];
        let Some((fields, behind)) = rest.split_at_checked(length_of_fields) else {
            return Ok(None);
        };
        rest = behind;
        // The time: of 24 bits, or of 32 behind the other fields.
        let time = match (big_endian(fields.get(..3)), known) {
            (Some(EXTENDED), _) => match big_endian(rest.get(..4)) {
                Some(time) => {
                    rest = rest.get(4..).unwrap_or_default();
                    Some((time, Some(time)))
                }
                None => return Ok(None),
            },
            (Some(time), _) => Some((time, None)),
            // Some publishers repeat the 32 bits in front of each chunk, some do not.
            (
                None,
                Some(ChunkStream {
                    extended: Some(time),
                    ..
                }),
            ) => {
                let expected = time.to_be_bytes();
                let seen = rest.get(..4).unwrap_or(rest);
                if expected.starts_with(seen) {
                    match rest.get(4..) {
                        Some(behind) => rest = behind,
                        None => return Ok(None),
                    }
                }
                None
            }
            (None, _) => None,
        };
        *input = rest;
        self.heads += 1;
        self.at = at.unwrap_or_else(|| {
            self.streams.push(ChunkStream::new(id));
            self.streams.len() - 1
        });
        let Some(stream) = self.streams.get_mut(self.at) else {
            return Ok(None);
        };
        if let Some((time, extended)) = time {
            stream.extended = extended;
            stream.delta = time;
        }
        if let (Some(length), Some(kind)) = (big_endian(fields.get(3..6)), fields.get(6)) {
            (stream.length, stream.kind) = (length, *kind);
        }
        if !is_open {
            stream.time = match form {
                0 => stream.delta,
                // After a header of type 0, its time is the delta, too.
                _ => stream.time.wrapping_add(stream.delta),
            };
            stream.left = stream.length;
        }
        self.chunk_left = self.size.min(stream.left);
        Ok(Some(!is_open))
    }
}

impl ChunkStream {
    fn new(id: u32) -> ChunkStream {
        ChunkStream {
            id,
            time: 0,
            delta: 0,
            extended: None,
            kind: 0,
            length: 0,
            left: 0,
            goes: Goes::Nowhere,
            part: Vec::new(),
        }
    }

    /// Collects a piece of the message. Allocates at most twice the collected bytes, and at most
    /// the length of the message.
    pub fn collect(&mut self, piece: &[u8]) {
        let needed = self.part.len() + piece.len();
        if needed > self.part.capacity() {
            let room = (2 * needed).min(needed + self.left as usize);
            self.part.reserve_exact(room - self.part.len());
        }
        self.part.extend_from_slice(piece);
    }
}

/// Returns the type of a header, its chunk stream, and what follows.
fn basic(input: &[u8]) -> Option<(u8, u32, &[u8])> {
    let (first, rest) = input.split_first()?;
    let form = first >> 6;
    match (first & 0x3f, rest) {
        (0, [low, rest @ ..]) => Some((form, 64 + u32::from(*low), rest)),
        (1, [low, high, rest @ ..]) => Some((
            form,
            64 + u32::from(u16::from_le_bytes([*low, *high])),
            rest,
        )),
        (0 | 1, _) => None,
        (id, rest) => Some((form, u32::from(id), rest)),
    }
}

/// Returns the number that at most four bytes are.
pub fn big_endian(bytes: Option<&[u8]>) -> Option<u32> {
    let bytes = bytes?;
    Some(
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u32::from(*byte)),
    )
}
