//! Request bodies (RFC 9112 sections 6 and 7): separates content from framing, and finds the end.
//!
//! Content is borrowed from the input and never kept.

use std::num::NonZeroU64;

use super::grammar::is_token_byte;
use super::refusal::{Refusal, malformed};

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this many bytes.
    Length(u64),
    /// The body is in chunks.
    Chunked,
    /// The body ends when the connection closes. HTTP/1.1 requests may not do this. Sources of
    /// Icecast do, and `--icecast` accepts them.
    UntilClose,
}

/// The next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Content, at least one byte.
    Content(&'a [u8]),
    /// All input is used, and the body continues.
    More,
    /// The body is complete. The rest of the input belongs to the next request.
    End,
}

/// Reads a body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Body {
    state: BodyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum BodyState {
    /// A body of known length, with `left` bytes to come.
    Length {
        left: NonZeroU64,
    },
    UntilClose,
    /// In the first line of a chunk, after `digits` digits of its size.
    Size {
        size: u64,
        digits: u8,
        line_bytes: u16,
        place: SizePlace,
    },
    /// In a chunk, with `left` bytes to come.
    Data {
        left: NonZeroU64,
    },
    /// Behind the data of a chunk.
    DataCr,
    DataLf,
    /// In the trailer section, after `bytes` of it.
    Trailer {
        place: TrailerPlace,
        bytes: u16,
    },
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum SizePlace {
    Digits,
    /// Behind blanks, which only an extension may follow.
    Blank,
    Extension,
    Lf,
}

/// A position in the trailer section. Like a head, it consists of fields and ends with an empty
/// line. Anything else could be the request of another client, so it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum TrailerPlace {
    LineStart,
    Name,
    Value,
    /// Behind the CR of a field.
    FieldLf,
    /// Behind the CR of the empty line.
    LastLf,
}

/// Longest first line of a chunk, and longest trailer section. Usual clients send neither
/// extensions nor trailers, and the limit stops abuse.
const CHUNK_LINE_BYTES_MAX: u16 = 1024;
const TRAILER_BYTES_MAX: u16 = 8192;

impl Body {
    /// Returns a reader at the beginning of a body.
    pub fn new(framing: Framing) -> Body {
        let state = match framing {
            Framing::None => BodyState::End,
            Framing::Length(bytes) => match NonZeroU64::new(bytes) {
                Some(left) => BodyState::Length { left },
                None => BodyState::End,
            },
            Framing::Chunked => FIRST_LINE,
            Framing::UntilClose => BodyState::UntilClose,
        };
        Body { state }
    }

    /// Reads the next part from the front of `input`. After an error (400) the framing is lost.
    pub fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Part<'a>, Refusal> {
        loop {
            match self.state {
                BodyState::End => return Ok(Part::End),
                BodyState::Length { left } | BodyState::Data { left } => {
                    let content = take(input, left.get());
                    if content.is_empty() {
                        return Ok(Part::More);
                    }
                    let left = NonZeroU64::new(left.get() - content.len() as u64);
                    self.state = match (self.state, left) {
                        (BodyState::Data { .. }, Some(left)) => BodyState::Data { left },
                        (BodyState::Data { .. }, None) => BodyState::DataCr,
                        (_, Some(left)) => BodyState::Length { left },
                        (_, None) => BodyState::End,
                    };
                    return Ok(Part::Content(content));
                }
                BodyState::UntilClose => {
                    let content = take(input, u64::MAX);
                    return Ok(if content.is_empty() {
                        Part::More
                    } else {
                        Part::Content(content)
                    });
                }
                BodyState::Size { .. }
                | BodyState::DataCr
                | BodyState::DataLf
                | BodyState::Trailer { .. } => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(Part::More);
                    };
                    *input = rest;
                    self.state = step(self.state, byte)?;
                }
            }
        }
    }

    /// Returns whether the body is complete.
    pub fn is_complete(&self) -> bool {
        self.state == BodyState::End
    }

    /// Returns whether the body ends with the connection.
    pub fn ends_with_connection(&self) -> bool {
        self.state == BodyState::UntilClose
    }
}

const FIRST_LINE: BodyState = BodyState::Size {
    size: 0,
    digits: 0,
    line_bytes: 0,
    place: SizePlace::Digits,
};

fn take<'a>(input: &mut &'a [u8], bytes_max: u64) -> &'a [u8] {
    let length = usize::try_from(bytes_max)
        .unwrap_or(usize::MAX)
        .min(input.len());
    let (content, rest) = input.split_at(length);
    *input = rest;
    content
}

/// Handles one byte of the framing.
fn step(state: BodyState, byte: u8) -> Result<BodyState, Refusal> {
    match state {
        BodyState::Size {
            size,
            digits,
            line_bytes,
            place,
        } => {
            if line_bytes >= CHUNK_LINE_BYTES_MAX {
                return Err(malformed("a chunk's first line is longer than 1024 bytes"));
            }
            size_step(size, digits, line_bytes + 1, place, byte)
        }
        BodyState::DataCr if byte == b'\r' => Ok(BodyState::DataLf),
        BodyState::DataLf if byte == b'\n' => Ok(FIRST_LINE),
        BodyState::DataCr | BodyState::DataLf => Err(malformed(
            "a chunk's data is not followed by CRLF where its size says that it ends",
        )),
        BodyState::Trailer { place, bytes } => {
            if bytes >= TRAILER_BYTES_MAX {
                return Err(malformed("the trailer section is longer than 8192 bytes"));
            }
            trailer_step(place, bytes + 1, byte)
        }
        BodyState::Length { .. }
        | BodyState::Data { .. }
        | BodyState::UntilClose
        | BodyState::End => Ok(state),
    }
}

/// Handles one byte of a chunk's first line: hexadecimal digits, then optional blanks, `;` and
/// extensions, which are ignored (RFC 9112 section 7.1.1).
fn size_step(
    size: u64,
    digits: u8,
    line_bytes: u16,
    place: SizePlace,
    byte: u8,
) -> Result<BodyState, Refusal> {
    let state = |place| BodyState::Size {
        size,
        digits,
        line_bytes,
        place,
    };
    match (place, byte) {
        (SizePlace::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
            let digit = u64::from(char::from(byte).to_digit(16).unwrap_or(0));
            if digits >= 16 {
                return Err(malformed("a chunk's size has more than 16 digits"));
            }
            let size = size << 4 | digit;
            Ok(BodyState::Size {
                size,
                digits: digits + 1,
                line_bytes,
                place,
            })
        }
        (SizePlace::Digits, _) if digits == 0 => Err(malformed(
            "a chunk begins without its size in hexadecimal digits",
        )),
        (SizePlace::Digits | SizePlace::Blank, b'\t' | b' ') => Ok(state(SizePlace::Blank)),
        (SizePlace::Digits | SizePlace::Blank, b';') => Ok(state(SizePlace::Extension)),
        (SizePlace::Extension, b'\t' | b' '..=0x7e | 0x80..=0xff) => {
            Ok(state(SizePlace::Extension))
        }
        (SizePlace::Digits | SizePlace::Extension, b'\r') => Ok(state(SizePlace::Lf)),
        (SizePlace::Lf, b'\n') => Ok(match NonZeroU64::new(size) {
            Some(left) => BodyState::Data { left },
            None => BodyState::Trailer {
                place: TrailerPlace::LineStart,
                bytes: 0,
            },
        }),
        _ => Err(malformed(
            "a chunk's first line is not a size in hexadecimal digits and CRLF",
        )),
    }
}

/// Handles one byte of the trailer section, whose fields are ignored.
fn trailer_step(place: TrailerPlace, bytes: u16, byte: u8) -> Result<BodyState, Refusal> {
    let state = |place| Ok(BodyState::Trailer { place, bytes });
    match (place, byte) {
        (TrailerPlace::LineStart, b'\r') => state(TrailerPlace::LastLf),
        (TrailerPlace::LastLf, b'\n') => Ok(BodyState::End),
        (TrailerPlace::Name, b':') => state(TrailerPlace::Value),
        (TrailerPlace::LineStart | TrailerPlace::Name, byte) if is_token_byte(byte) => {
            state(TrailerPlace::Name)
        }
        (TrailerPlace::Value, b'\r') => state(TrailerPlace::FieldLf),
        (TrailerPlace::Value, b'\t' | b' '..=0x7e | 0x80..=0xff) => state(TrailerPlace::Value),
        (TrailerPlace::FieldLf, b'\n') => state(TrailerPlace::LineStart),
        _ => Err(malformed(
            "what follows the last chunk is neither a trailer field nor the empty line that ends the body",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body in pieces. Returns the content, and the number of bytes that follow the body if
    /// it has ended.
    fn read_in(
        framing: Framing,
        bytes: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, Option<usize>), Refusal> {
        let (mut body, mut content) = (Body::new(framing), Vec::new());
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            let mut input = piece;
            loop {
                match body.read(&mut input)? {
                    Part::Content(part) => content.extend_from_slice(part),
                    Part::More => break,
                    Part::End => {
                        assert!(body.is_complete());
                        taken += piece.len() - input.len();
                        return Ok((content, Some(bytes.len() - taken)));
                    }
                }
            }
            assert!(
                input.is_empty(),
                "more is asked for than has been looked at"
            );
            taken += piece.len();
        }
        let ended = body.is_complete().then_some(0);
        Ok((content, ended))
    }

    /// Reads a body with every cut, and checks that the result is the same.
    fn read(framing: Framing, bytes: &[u8]) -> Result<(Vec<u8>, Option<usize>), Refusal> {
        let whole = read_in(framing, bytes, bytes.len().max(1));
        for piece in 1..9 {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(
                read_in(framing, bytes, piece),
                whole,
                "{shown:?} in {piece}"
            );
        }
        whole
    }

    const CHUNKS: &[(&[u8], &[u8])] = &[
        (b"0\r\n\r\n", b""),
        (b"0000000000000000\r\n\r\n", b""),
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
        (b"0000000000000005\r\nhello\r\n0\r\n\r\n", b"hello"),
        (
            b"b\r\n\r\n0\r\n\r\n12\r\n\r\n0\r\n\r\n",
            b"\r\n0\r\n\r\n12\r\n",
        ),
        (b"B\r\nhello world\r\n0\r\n\r\n", b"hello world"),
        (b"1;a=\"b\xff\t\"; c\r\nx\r\n0;\r\n\r\n", b"x"),
        (b"1 \t;a\r\nx\r\n0\t;~\r\n\r\n", b"x"),
        (
            b"1\r\nx\r\n0\r\nVary: *\r\nContent-Type: text/plain\r\n\r\n",
            b"x",
        ),
        (b"0\r\na:\r\nb: \t \r\nc:d:e \x80\xff~\r\n\r\n", b""),
        (b"0\r\n!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n", b""),
    ];

    #[test]
    fn chunks_are_content_up_to_the_empty_line_behind_the_last() {
        for (bytes, content) in CHUNKS {
            let after = b"GET / HTTP/1.1\r\n";
            let (read_content, left) =
                read(Framing::Chunked, &[bytes, &after[..]].concat()).expect("a good body");
            assert_eq!(read_content, *content);
            assert_eq!(left, Some(after.len()), "{:?}", bytes.escape_ascii());
            for cut in 0..bytes.len() {
                let (_, left) = read(Framing::Chunked, &bytes[..cut]).expect("its beginning");
                assert_eq!(left, None, "{:?} up to {cut}", bytes.escape_ascii());
            }
        }
    }

    /// Another parser could see the end of a chunk, of the body or of a trailer here, and then a
    /// request.
    #[test]
    fn chunks_that_could_be_read_in_two_ways_are_refused() {
        for wrong in [
            // In the size.
            &b"\r\n"[..],
            b" 1\r\n",
            b"g\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"0x1\r\n",
            b"1,\r\n",
            b";a\r\n",
            b"1 \r\n",
            b"1 2\r\n",
            b"1\t2;a\r\n",
            b"1\nx\r\n",
            b"1\rx\r\n",
            b"1;a\nx\r\n",
            b"1;a\rx\r\n",
            b"1;\0\r\n",
            b"1;\x1f\r\n",
            b"1;\x7f\r\n",
            b"00000000000000001\r\n",
            b"10000000000000000\r\n",
            // Behind the data.
            b"3\r\nabcX\n0\r\n\r\n",
            b"3\r\nabc\rX0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"3\r\nabc0\r\n\r\n",
            b"3\r\nabcd\r\n0\r\n\r\n",
            // Behind the last chunk.
            b"0\r\n\n",
            b"0\r\n\rX",
            b"0\r\nGET / HTTP/1.1\r\n\r\n",
            b"0\r\na\r\n\r\n",
            b"0\r\na\n\r\n",
            b"0\r\n: b\r\n\r\n",
            b"0\r\na : b\r\n\r\n",
            b"0\r\n a: b\r\n\r\n",
            b"0\r\na\0: b\r\n\r\n",
            b"0\r\na\x80: b\r\n\r\n",
            b"0\r\na(: b\r\n\r\n",
            b"0\r\na: b\n\r\n",
            b"0\r\na: b\rc: d\r\n\r\n",
            b"0\r\na: b\r\r\n\r\n",
            b"0\r\na: \0\r\n\r\n",
            b"0\r\na: \x1f\r\n\r\n",
            b"0\r\na: \x7f\r\n\r\n",
            b"0\r\na: b\r\n c\r\n\r\n",
            b"0\r\na: b\r\nc\r\n\r\n",
        ] {
            let refusal = read(Framing::Chunked, wrong).map(|read| read.1);
            let refusal = refusal.expect_err(&wrong.escape_ascii().to_string());
            assert!(refusal.ends_connection);
        }
    }

    #[test]
    fn lines_of_chunks_and_trailers_have_their_bounds() {
        let is_read = |body: String| read_in(Framing::Chunked, body.as_bytes(), 4096).is_ok();
        let lines = |bytes: usize| {
            let line = format!("1;{}\r\n", "x".repeat(bytes - 4));
            assert_eq!(line.len(), bytes);
            format!("{line}a\r\n{line}b\r\n0\r\n\r\n")
        };
        assert!(is_read(lines(1024)) && !is_read(lines(1025)) && !is_read(lines(5000)));
        let trailers = |bytes: usize| {
            let field = "a: b\r\n".repeat(100);
            let last = format!("c: {}\r\n\r\n", "x".repeat(bytes - field.len() - 7));
            assert_eq!(field.len() + last.len(), bytes);
            format!("0\r\n{field}{last}")
        };
        assert!(is_read(trailers(8192)) && !is_read(trailers(8193)) && !is_read(trailers(20_000)));
    }

    #[test]
    fn bodies_without_chunks_have_their_length_or_end_with_the_connection() {
        let bytes = b"hello world";
        for (framing, content, left) in [
            (Framing::None, &b""[..], Some(11)),
            (Framing::Length(0), b"", Some(11)),
            (Framing::Length(1), b"h", Some(10)),
            (Framing::Length(11), b"hello world", Some(0)),
            (Framing::Length(12), b"hello world", None),
            (Framing::Length(u64::MAX), b"hello world", None),
            (Framing::UntilClose, b"hello world", None),
        ] {
            assert_eq!(
                read(framing, bytes),
                Ok((content.to_vec(), left)),
                "{framing:?}"
            );
            let ends = Body::new(framing).ends_with_connection();
            assert_eq!(ends, framing == Framing::UntilClose, "{framing:?}");
        }
        assert!(!Body::new(Framing::Chunked).ends_with_connection());
    }
}
