//! Writes chunks (RFC 9112 section 7.1) around bytes that lie elsewhere. Nothing is copied.

use std::num::NonZeroU32;

/// The framing of the chunk that is being written to a client.
///
/// The chunk has a fixed size, but not fixed bytes: a viewer that skips fills its open chunk with
/// bytes from its new position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(from = "ChunkState", into = "ChunkState"))]
pub struct ChunkWriter {
    /// The size line, right-aligned. Its unsent rest is `line[LINE_BYTES - line_left..]`.
    line: [u8; LINE_BYTES],
    line_left: u8,
    line_bytes: u8,
    /// Content of the open chunk that is not sent yet.
    content_left: u32,
    /// Unsent bytes of the CRLF after the content: 0 to 2.
    tail_left: u8,
}

/// Eight hexadecimal digits and CRLF.
const LINE_BYTES: usize = 10;

/// The end of a body in chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl ChunkWriter {
    /// Returns whether no chunk is open, so that the next one may begin or the body may end.
    pub fn is_between_chunks(&self) -> bool {
        self.line_left == 0 && self.content_left == 0 && self.tail_left == 0
    }

    /// Opens a chunk of `content_bytes`. No chunk may be open.
    pub fn begin(&mut self, content_bytes: NonZeroU32) {
        debug_assert!(self.is_between_chunks());
        self.content_left = content_bytes.get();
        self.tail_left = 2;
        self.line[LINE_BYTES - 2..].copy_from_slice(b"\r\n");
        let mut place = LINE_BYTES - 2;
        let mut rest = content_bytes.get();
        while rest > 0 {
            place -= 1;
            self.line[place] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        self.line_left = (LINE_BYTES - place) as u8;
        self.line_bytes = self.line_left;
    }

    /// Returns whether a chunk is open of which nothing is sent yet.
    pub fn is_untouched(&self) -> bool {
        self.line_left > 0 && self.line_left == self.line_bytes
    }

    /// Returns the unsent rest of the size line.
    pub fn line(&self) -> &[u8] {
        &self.line[LINE_BYTES.saturating_sub(usize::from(self.line_left))..]
    }

    /// Returns the bytes of content that the open chunk still needs.
    pub fn content_left(&self) -> usize {
        self.content_left as usize
    }

    /// Returns the unsent rest of the CRLF after the content.
    pub fn tail(&self) -> &'static [u8] {
        match self.tail_left {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        }
    }

    /// Records that `bytes` were sent of size line, content and CRLF. Returns how many of them were
    /// content.
    pub fn sent(&mut self, bytes: usize) -> usize {
        let of_line = bytes.min(usize::from(self.line_left));
        self.line_left -= of_line as u8;
        let of_content = (bytes - of_line).min(self.content_left());
        self.content_left -= of_content as u32;
        let of_tail = (bytes - of_line - of_content).min(usize::from(self.tail_left));
        self.tail_left -= of_tail as u8;
        debug_assert_eq!(bytes, of_line + of_content + of_tail);
        of_content
    }
}

/// A writer as a hand-over sends it: the unsent bytes of the size line, the content and the CRLF. The
/// size line is made again: while bytes of it are unsent, all content is.
#[cfg(feature = "handover")]
type ChunkState = (u8, u32, u8);

#[cfg(feature = "handover")]
impl From<ChunkWriter> for ChunkState {
    fn from(writer: ChunkWriter) -> ChunkState {
        (writer.line_left, writer.content_left, writer.tail_left)
    }
}

#[cfg(feature = "handover")]
impl From<ChunkState> for ChunkWriter {
    fn from((line_left, content_left, tail_left): ChunkState) -> ChunkWriter {
        let mut writer = ChunkWriter::default();
        if let Some(content) = NonZeroU32::new(content_left) {
            writer.begin(content);
        }
        writer.line_left = line_left.min(writer.line_bytes);
        writer.tail_left = tail_left.min(2);
        writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "handover")]
    fn handed_over(writer: &ChunkWriter) -> ChunkWriter {
        let text = serde_json::to_string(writer).expect("text");
        serde_json::from_str(&text).expect("a writer")
    }

    /// A writer continues in another process.
    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_chunk_is_written_on() {
        check_pieces(handed_over);
    }

    /// Chunks are the same, whether they are sent in few or many pieces.
    #[test]
    fn a_chunk_is_written_in_whichever_pieces() {
        check_pieces(ChunkWriter::clone);
    }

    /// Checks chunks in pieces of some sizes. Before each piece, `next` replaces the writer.
    fn check_pieces(next: impl Fn(&ChunkWriter) -> ChunkWriter) {
        for (content, size) in [
            (1_usize, "1"),
            (15, "f"),
            (16, "10"),
            (26, "1a"),
            (300, "12c"),
        ] {
            let expected = format!("{size}\r\n{}\r\n", "x".repeat(content));
            for piece in [1, 2, 3, 5, 1000, expected.len()] {
                let mut writer = ChunkWriter::default();
                assert!(writer.is_between_chunks() && !writer.is_untouched());
                writer.begin(NonZeroU32::new(content as u32).expect("some content"));
                let mut sent = String::new();
                while sent.len() < expected.len() {
                    writer = next(&writer);
                    assert!(!writer.is_between_chunks());
                    assert_eq!(writer.is_untouched(), sent.is_empty());
                    let line = String::from_utf8_lossy(writer.line()).into_owned();
                    let tail = String::from_utf8_lossy(writer.tail());
                    let left = format!("{line}{}{tail}", "x".repeat(writer.content_left()));
                    let now = &left[..piece.min(left.len())];
                    let of_content = now.bytes().filter(|byte| *byte == b'x').count();
                    assert_eq!(writer.sent(now.len()), of_content);
                    sent.push_str(now);
                }
                assert_eq!(sent, expected);
                assert!(writer.is_between_chunks() && !writer.is_untouched());
            }
        }
        let mut largest = ChunkWriter::default();
        largest.begin(NonZeroU32::MAX);
        assert_eq!(largest.line(), b"ffffffff\r\n");
    }
}
