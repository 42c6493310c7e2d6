//! The chunk that all who keep up with a stream are sent: framed once, for all of them.
//!
//! A viewer's bytes can be lent as a chunk's line, the content where it lies, and the chunk's end.
//! The kernel takes one slice for noticeably less than three, so where many viewers are due the
//! same bytes, these are laid together once. That is one more copy for a whole audience, not one
//! for each viewer, and what it holds is only ever the same bytes again: a viewer who has been sent
//! a part of it goes on from the stream's buffer.

use crate::http::ChunkWriter;
use crate::relay::{ConnectionId, LiveId};
use crate::stream::Stream;

/// The last chunk that was laid together.
#[derive(Default)]
pub(super) struct Frame {
    of: Option<Of>,
    bytes: Vec<u8>,
}

/// Which chunk it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Of {
    live: LiveId,
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
        live: LiveId,
        stream: &Stream<ConnectionId>,
        cursor: u64,
        chunk: &ChunkWriter,
    ) {
        let content_bytes = chunk.content_left();
        let of = Some(Of {
            live,
            cursor,
            content_bytes,
        });
        if self.of == of || stream.viewer_count() < VIEWERS_MIN || content_bytes > CONTENT_BYTES_MAX
        {
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(chunk.line());
        stream.copy_to(&mut self.bytes, cursor, content_bytes);
        self.bytes.extend_from_slice(chunk.tail());
        self.of = of;
    }

    /// The whole chunk that is open for a viewer at `cursor`, if it is this one and nothing of it
    /// has been sent.
    pub fn whole(&self, live: LiveId, cursor: u64, chunk: &ChunkWriter) -> Option<&[u8]> {
        let of = Of {
            live,
            cursor,
            content_bytes: chunk.content_left(),
        };
        (chunk.is_untouched() && self.of == Some(of)).then_some(self.bytes.as_slice())
    }
}
