//! A chunk that is framed once, for all viewers that keep up with a stream.
//!
//! A viewer's chunk can be lent as three slices: the size line, the content in the stream's buffer,
//! and the line end. The kernel takes one slice in noticeably less time. So where many viewers get
//! the same bytes, the chunk is copied once into one slice. A viewer that has got only a part of
//! the chunk continues from the stream's buffer.

use crate::http::ChunkWriter;
use crate::relay::{ConnectionId, StreamId};
use crate::stream::StreamBuffer;

/// The chunk that was built last.
#[derive(Default)]
pub(super) struct SharedChunk {
    /// Stream, offset and length of its content.
    content: Option<(StreamId, u64, usize)>,
    bytes: Vec<u8>,
}

/// With fewer viewers, the copy costs more than it saves.
const VIEWERS_MIN: usize = 8;
/// Larger chunks go to viewers that catch up, and each of these is at an offset of its own.
const CONTENT_BYTES_MAX: usize = 64 * 1024;

impl SharedChunk {
    /// Builds a chunk that has just been opened for a viewer at `cursor`, if that is worth it.
    pub fn build(
        &mut self,
        stream: StreamId,
        buffer: &StreamBuffer<ConnectionId>,
        cursor: u64,
        chunk: &ChunkWriter,
    ) {
        let content_bytes = chunk.content_left();
        let content = Some((stream, cursor, content_bytes));
        let is_small = content_bytes <= CONTENT_BYTES_MAX;
        if self.content == content || buffer.viewer_count() < VIEWERS_MIN || !is_small {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(chunk.line());
        buffer.copy_to(&mut self.bytes, cursor, content_bytes);
        self.bytes.extend_from_slice(chunk.tail());
        self.content = content;
    }

    /// Returns the whole chunk for a viewer at `cursor`, if this is it and none of it has been
    /// written.
    pub fn get(&self, stream: StreamId, cursor: u64, chunk: &ChunkWriter) -> Option<&[u8]> {
        let content = Some((stream, cursor, chunk.content_left()));
        (chunk.is_untouched() && self.content == content).then_some(self.bytes.as_slice())
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

    /// A chunk is built for eight viewers or more, up to 64 KiB.
    #[test]
    fn a_chunk_is_built_for_eight_viewers_and_up_to_64_kib() {
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
            let mut shared = SharedChunk::default();
            assert!(shared.get(stream, 0, &chunk).is_none());
            shared.build(stream, &buffer, 0, &chunk);
            let whole = shared.get(stream, 0, &chunk);
            assert_eq!(whole.is_some(), is_laid, "{viewers} of {bytes}");
            if let Some(whole) = whole {
                let line = format!("{bytes:x}\r\n");
                let content = whole.strip_prefix(line.as_bytes()).expect("its line");
                let content = content.strip_suffix(b"\r\n").expect("its end");
                let mut media = content.iter().zip(0..);
                assert!(content.len() == bytes && media.all(|(it, at)| *it == (at % 251) as u8));
            }
        }
    }

    /// A chunk is found by its stream, its offset and its length, and only while it is untouched.
    #[test]
    fn a_built_chunk_is_lent_only_for_the_same_bytes() {
        let (one, other) = (StreamId::from_u64(1), StreamId::from_u64(2));
        let buffer = buffer(8, 5_000);
        let mut shared = SharedChunk::default();
        shared.build(one, &buffer, 100, &chunk(1_000));
        for (stream, cursor, bytes, is_it) in [
            (one, 100, 1_000, true),
            (other, 100, 1_000, false),
            (one, 101, 1_000, false),
            (one, 100, 999, false),
        ] {
            let lent = shared.get(stream, cursor, &chunk(bytes));
            assert_eq!(lent.is_some(), is_it, "{cursor} {bytes}");
        }
        // A viewer that has got the first byte of the size line continues after that.
        let mut begun = chunk(1_000);
        begun.sent(1);
        assert!(shared.get(one, 100, &begun).is_none());
        // The next chunk replaces the one before.
        shared.build(one, &buffer, 1_100, &chunk(500));
        assert!(shared.get(one, 100, &chunk(1_000)).is_none());
        let lent = shared.get(one, 1_100, &chunk(500)).expect("the new one");
        assert_eq!(lent.len(), "1f4\r\n".len() + 500 + 2);
        assert_eq!(lent[5], (1_100 % 251) as u8);
    }
}
