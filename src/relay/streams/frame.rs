//! The chunk that all who keep up with a stream are sent: framed once, for all of them.
//!
//! A viewer's bytes can be lent as a chunk's line, the content where it lies, and the chunk's end.
//! The kernel takes one slice for noticeably less than three, so where many viewers are due the
//! same bytes, these are laid together once. That is one more copy for a whole audience, not one
//! for each viewer, and what it holds is only ever the same bytes again: a viewer who has been sent
//! a part of it goes on from the stream's buffer.

use crate::http::ChunkWriter;
use crate::relay::{ConnectionId, StreamId};
use crate::stream::StreamBuffer;

/// The last chunk that was laid together.
#[derive(Default)]
pub(super) struct Frame {
    of: Option<Of>,
    bytes: Vec<u8>,
}

/// Which chunk it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Of {
    stream: StreamId,
    cursor: u64,
    content_bytes: usize,
}

/// With fewer viewers, the copy costs more than it saves.
const VIEWERS_MIN: usize = 8;
/// Larger chunks are for those who catch up, each from a place of its own.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

impl Frame {
    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Lays a chunk together that has just been opened, for a viewer at `cursor`.
    pub fn lay(
        &mut self,
        stream: StreamId,
        buffer: &StreamBuffer<ConnectionId>,
        cursor: u64,
        chunk: &ChunkWriter,
    ) {
        let content_bytes = chunk.content_left();
        let of = Some(Of {
            stream,
            cursor,
            content_bytes,
        });
        if self.of == of || buffer.viewer_count() < VIEWERS_MIN || content_bytes > CONTENT_BYTES_MAX
        {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(chunk.line());
        buffer.copy_to(&mut self.bytes, cursor, content_bytes);
        self.bytes.extend_from_slice(chunk.tail());
        self.of = of;
    }

    /// The whole chunk that is open for a viewer at `cursor`, if it is this one and nothing of it
    /// has been sent.
    pub fn whole(&self, stream: StreamId, cursor: u64, chunk: &ChunkWriter) -> Option<&[u8]> {
        let of = Of {
            stream,
            cursor,
            content_bytes: chunk.content_left(),
        };
        (chunk.is_untouched() && self.of == Some(of)).then_some(self.bytes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::relay::stage;
    use crate::stream::Pool;
    use crate::time::Instant;

    fn chunk(bytes: usize) -> ChunkWriter {
        let mut chunk = ChunkWriter::default();
        chunk.begin(NonZeroU32::new(bytes as u32).expect("some"));
        chunk
    }

    fn buffer(viewers: u64, bytes: usize) -> StreamBuffer<ConnectionId> {
        let limits = stage::settings(&["--buffer=4M"]).limits;
        let mut pool = Pool::new(limits.buffers_bytes_max);
        let mut buffer = StreamBuffer::new(limits.stream, None, Instant::START);
        for number in 0..viewers {
            buffer.join(ConnectionId::from_u64(number), Instant::START);
        }
        let media: Vec<u8> = (0..bytes).map(|number| (number % 251) as u8).collect();
        buffer.append(&media, &mut pool, Instant::START);
        buffer
    }

    /// Nothing is laid together for a few, or where it is so much that each is elsewhere.
    #[test]
    fn a_chunk_is_laid_together_for_eight_and_up_to_64_kib() {
        let stream = StreamId::from_u64(1);
        for (viewers, bytes, is_laid) in [
            (0, 1_000, false),
            (7, 1_000, false),
            (8, 1_000, true),
            (30, 1_000, true),
            (30, 1, true),
            (8, 65_536, true),
            (8, 65_537, false),
            (7, 65_537, false),
            (30, 200_000, false),
        ] {
            let (buffer, chunk) = (buffer(viewers, bytes), chunk(bytes));
            let mut frame = Frame::default();
            assert!(frame.whole(stream, 0, &chunk).is_none());
            assert_eq!(frame.held_bytes(), 0);
            frame.lay(stream, &buffer, 0, &chunk);
            let whole = frame.whole(stream, 0, &chunk);
            assert_eq!(whole.is_some(), is_laid, "{viewers} of {bytes}");
            if let Some(whole) = whole {
                let line = format!("{bytes:x}\r\n");
                let content = whole.strip_prefix(line.as_bytes()).expect("its line");
                let content = content.strip_suffix(b"\r\n").expect("its end");
                let mut media = content.iter().zip(0..);
                assert!(content.len() == bytes && media.all(|(it, at)| *it == (at % 251) as u8));
                assert!((whole.len()..4 * whole.len() + 64).contains(&frame.held_bytes()));
            }
        }
    }

    /// It is one stream's, from one place on, so many bytes; and whole, or not at all.
    #[test]
    fn only_who_is_due_the_same_bytes_is_lent_them() {
        let (one, other) = (StreamId::from_u64(1), StreamId::from_u64(2));
        let buffer = buffer(8, 5_000);
        let mut frame = Frame::default();
        frame.lay(one, &buffer, 100, &chunk(1_000));
        for (stream, cursor, bytes, is_it) in [
            (one, 100, 1_000, true),
            (other, 100, 1_000, false),
            (one, 101, 1_000, false),
            (one, 100, 999, false),
        ] {
            let lent = frame.whole(stream, cursor, &chunk(bytes));
            assert_eq!(lent.is_some(), is_it, "{cursor} {bytes}");
        }
        // Whoever has had the first byte of its line goes on behind that.
        let mut begun = chunk(1_000);
        begun.sent(1);
        assert!(frame.whole(one, 100, &begun).is_none());
        // The next takes its place.
        frame.lay(one, &buffer, 1_100, &chunk(500));
        assert!(frame.whole(one, 100, &chunk(1_000)).is_none());
        let lent = frame.whole(one, 1_100, &chunk(500)).expect("the new one");
        assert_eq!(lent.len(), "1f4\r\n".len() + 500 + 2);
        assert_eq!(lent[5], (1_100 % 251) as u8);
    }
}
