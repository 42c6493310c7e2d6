//! Writing chunks (RFC 9112 section 7.1) around bytes that lie elsewhere: the framing is lent out
//! like the bytes, and nothing is copied.

use std::num::NonZeroU32;

/// The framing of the chunk that is being written to one client.
///
/// A chunk's size is a promise of so many bytes, whichever they are: a viewer that skips fills its
/// open chunk from where it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct ChunkWriter {
    /// The size line, right-aligned: its unsent rest is `line[LINE_BYTES - line_left..]`.
    line: [u8; LINE_BYTES],
    line_left: u8,
    line_bytes: u8,
    /// Content that is promised and not yet sent.
    content_left: u32,
    /// What is unsent of the CRLF behind the content: 0 to 2.
    tail_left: u8,
}

/// Eight hexadecimal digits and CRLF.
const LINE_BYTES: usize = 10;

/// What ends a body of chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl ChunkWriter {
    /// Whether no chunk is open: another can begin, or the body end.
    pub fn is_between_chunks(&self) -> bool {
        self.line_left == 0 && self.content_left == 0 && self.tail_left == 0
    }

    /// Opens a chunk of so many bytes. The one before must be whole.
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

    /// Whether a chunk is open of which nothing has been sent.
    pub fn is_untouched(&self) -> bool {
        self.line_left > 0 && self.line_left == self.line_bytes
    }

    /// What is still to be sent of the size line.
    pub fn line(&self) -> &[u8] {
        &self.line[LINE_BYTES - usize::from(self.line_left)..]
    }

    /// How many bytes of content belong into the open chunk still.
    pub fn content_left(&self) -> usize {
        self.content_left as usize
    }

    /// What is still to be sent behind the content.
    pub fn tail(&self) -> &'static [u8] {
        match self.tail_left {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        }
    }

    /// `bytes` of size line, content and tail together have been sent; how many of them were
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

#[cfg(feature = "handover")]
impl ChunkWriter {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        let line_bytes = usize::from(self.line_bytes);
        self.line_left <= self.line_bytes && line_bytes <= LINE_BYTES && self.tail_left <= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few bytes go out at once, they are the chunk's, and it is whole behind the last.
    #[test]
    fn a_chunk_is_written_in_whichever_pieces() {
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

    /// What another process tells is taken at its bounds, and not behind one of them.
    #[cfg(feature = "handover")]
    #[test]
    fn what_is_told_of_it_has_its_bounds() {
        let told = |line_left, line_bytes, tail_left| {
            let writer = ChunkWriter {
                line_left,
                line_bytes,
                tail_left,
                ..ChunkWriter::default()
            };
            writer.fits()
        };
        let bytes = LINE_BYTES as u8;
        assert!(told(0, 0, 0) && told(bytes, bytes, 2) && told(3, bytes, 1));
        assert!(!told(4, 3, 2) && !told(bytes + 1, bytes + 1, 2) && !told(3, bytes, 3));
    }
}
