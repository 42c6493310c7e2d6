//! The chunk stream of a peer (RTMP 1.0, section 5.3): headers of chunks, and where messages begin
//! and end.
//!
//! A header is read from a slice and changes nothing before it is whole. Nothing is allocated by a
//! length that the peer declares. At most [`STREAMS_MAX`] chunk streams are known.

/// Chunk streams of a connection.
pub const STREAMS_MAX: usize = 8;
/// The value of the field for a time that has 32 bits after the header.
const EXTENDED: u32 = 0xff_ffff;
/// Bytes of the fields in a header of each type: a time, a length and a type of the message, and a
/// message stream.
const FIELDS_BYTES: [usize; 4] = [11, 7, 3, 0];

/// The chunk streams of a peer, and the chunk that is being read.
#[derive(Default)]
pub struct Chunks {
    /// The stream of the chunk.
    pub current: ChunkStream,
    /// The other streams, in front of those that have not begun.
    others: [ChunkStream; STREAMS_MAX - 1],
    /// The largest payload of a chunk, in bytes.
    pub size: u32,
    /// Bytes of the chunk's payload that have not come. At most `left` of its stream. 0: a header
    /// comes next.
    pub chunk_left: u32,
}

/// One chunk stream, and its newest message.
#[derive(Default)]
pub struct ChunkStream {
    /// 0: it has not begun.
    id: u32,
    /// Time of the message, in milliseconds. It wraps.
    pub time: u32,
    delta: u32,
    /// The newest time, if it had its own 32 bits.
    extended: Option<[u8; 4]>,
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
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Goes {
    /// Nowhere.
    #[default]
    Nowhere,
    /// Into `part`, until it is whole.
    Part,
    /// Into the media as it comes.
    Out,
}

impl Chunks {
    /// Returns the stream with this id.
    pub fn stream(&mut self, id: u32) -> Option<&mut ChunkStream> {
        let mut all = std::iter::once(&mut self.current).chain(&mut self.others);
        all.find(|stream| stream.id == id)
    }

    /// Returns the sum of this number of each message that is not whole.
    pub fn sum(&self, number: impl Fn(&Vec<u8>) -> usize) -> usize {
        let others = self.others.iter().map(|stream| number(&stream.part));
        number(&self.current.part) + others.sum::<usize>()
    }

    /// Returns the payload of the chunk in the input, or its part that has come.
    pub fn take_payload<'a>(&mut self, input: &mut &'a [u8]) -> &'a [u8] {
        let count = input.len().min(self.chunk_left as usize);
        let (payload, rest) = input.split_at(count);
        *input = rest;
        self.chunk_left -= count as u32;
        self.current.left -= count as u32;
        payload
    }

    /// Takes a header. `None`: not all of it has come. `Some(true)`: a message begins with it.
    pub fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<bool>, &'static str> {
        let Some((form, id, rest)) = basic(input) else {
            return Ok(None);
        };
        if self.current.id != id {
            let place = |id| self.others.iter().position(|stream| stream.id == id);
            let found = place(id).or_else(|| place(0));
            match found.and_then(|index| self.others.get_mut(index)) {
                Some(stream) => std::mem::swap(&mut self.current, stream),
                // A header that comes in pieces has taken the last free stream before.
                None if self.current.id == 0 => {}
                None => return Err("it has more than 8 chunk streams"),
            }
        }
        let stream = &mut self.current;
        let is_open = stream.left > 0;
        if is_open && form != 3 {
            return Err("a message begins within another one of its chunk stream");
        }
        if stream.id == 0 && form > 1 {
            return Err("a chunk stream begins with a header of type 2 or 3");
        }
        let length = FIELDS_BYTES.get(usize::from(form)).copied();
        let Some((fields, mut rest)) = rest.split_at_checked(length.unwrap_or_default()) else {
            return Ok(None);
        };
        let (mut time, mut extended) = (fields.get(..3).map(big_endian), None);
        if time == Some(EXTENDED) {
            let Some((bytes, after)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            (extended, rest) = (Some(*bytes), after);
            time = Some(u32::from_be_bytes(*bytes));
        } else if let (None, Some(repeated)) = (time, stream.extended) {
            // Some publishers repeat the 32 bits in front of each chunk, some do not.
            match rest.strip_prefix(&repeated) {
                Some(after) => rest = after,
                None if rest.len() < 4 && repeated.starts_with(rest) => return Ok(None),
                None => {}
            }
        }
        *input = rest;
        stream.id = id;
        if let Some(time) = time {
            (stream.delta, stream.extended) = (time, extended);
        }
        if let (Some(length), Some(kind)) = (fields.get(3..6), fields.get(6)) {
            (stream.length, stream.kind) = (big_endian(length), *kind);
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
    let (id, rest) = match (first & 0x3f, rest) {
        (0, [low, rest @ ..]) => (64 + u32::from(*low), rest),
        (1, [low, high, rest @ ..]) => (64 + u32::from(u16::from_le_bytes([*low, *high])), rest),
        (0 | 1, _) => return None,
        (id, rest) => (u32::from(id), rest),
    };
    Some((first >> 6, id, rest))
}

/// Returns the number that at most four bytes are.
pub fn big_endian(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte))
}
