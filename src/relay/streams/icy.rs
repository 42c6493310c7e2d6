//! Titles within a listener's media, as SHOUTcast sends them (ICY). The listener asks for them.
//!
//! ```text
//!   16,000 bytes of media │ N │ N × 16 bytes of text │ 16,000 bytes of media │ 0 │ …
//! ```
//!
//! N is 0 while the title is still the one that this listener has got. Such a byte lies within the
//! chunks of a chunked body. A block with text is a chunk of its own, so that the newest title can
//! take its place until the socket takes its first byte. The text is written once for all listeners.
//! What a socket does not take of it becomes output of the connection.

use std::fmt::Write;
use std::num::NonZeroU32;

use super::Stream;
use super::titles::Programme;
use crate::format::Format;
use crate::gather::Gather;
use crate::http::{IcyMetadata, ResponseHead};
use crate::relay::{ConnectionId, StreamId};
use crate::stream::{StreamBuffer, Told, ViewerId};

/// Media bytes between two blocks.
const INTERVAL: u16 = 16_000;
/// A block with no text.
const EMPTY_BLOCK: &[u8] = &[0];

/// How far a listener is between two blocks. It takes 8 bytes.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct IcyPosition {
    /// Number of the title in the last block.
    seen: NonZeroU32,
    /// Media bytes until the next block.
    media_left: u16,
    /// Bytes of a block with text that comes next. Nothing of it is sent yet.
    block_bytes: u16,
}

/// The block that was written last, with the framing of its chunk.
#[derive(Default)]
pub(super) struct IcyBlock {
    of: Option<(StreamId, NonZeroU32, bool)>,
    bytes: Vec<u8>,
}

impl IcyPosition {
    /// Returns the position of a listener who begins, if it gets titles.
    pub fn begin(stream: &Stream, icy: IcyMetadata) -> Option<IcyPosition> {
        let gets_titles = icy == IcyMetadata::Wanted && carries_titles(&stream.buffer);
        gets_titles.then_some(IcyPosition {
            seen: Programme::NO_TITLE,
            media_left: INTERVAL,
            block_bytes: 0,
        })
    }

    /// Returns whether a block with text comes before the next media byte. `serial`: number of the
    /// title that holds.
    fn needs_block(self, serial: NonZeroU32) -> bool {
        self.block_bytes > 0 || (self.media_left == 0 && self.seen != serial)
    }

    /// Returns whether a block with text comes next.
    pub fn has_block(self) -> bool {
        self.block_bytes > 0
    }

    /// Returns how many bytes of media may follow before the next block with text.
    pub fn media_max(self, serial: NonZeroU32) -> usize {
        match self.has_block() || self.seen == serial {
            true => usize::MAX,
            false => self.media_left.into(),
        }
    }

    /// Returns the media bytes until the next block that is no block with text.
    fn until_empty_block(self) -> usize {
        match self.has_block() {
            true => INTERVAL.into(),
            false => self.media_left.into(),
        }
    }

    /// Returns the bytes of `media_bytes` with the empty blocks before and among them.
    pub fn content_bytes(self, media_bytes: usize) -> usize {
        let interval = usize::from(INTERVAL);
        let reach = media_bytes + interval - 1;
        media_bytes + reach.saturating_sub(self.until_empty_block()) / interval
    }

    /// Returns how many of the next `content_bytes` are media.
    pub fn media_bytes(self, content_bytes: usize) -> usize {
        match content_bytes.checked_sub(self.until_empty_block() + 1) {
            None => content_bytes,
            Some(beyond) => content_bytes - 1 - beyond / (usize::from(INTERVAL) + 1),
        }
    }

    /// Records that `bytes` were sent. Returns how many of them belonged to a block with text, and
    /// how many bytes of that block are left.
    pub fn send_block(&mut self, bytes: usize) -> (usize, usize) {
        let block_bytes = usize::from(self.block_bytes);
        if block_bytes == 0 || bytes == 0 {
            return (0, 0);
        }
        (self.media_left, self.block_bytes) = (INTERVAL, 0);
        let taken = bytes.min(block_bytes);
        (taken, block_bytes - taken)
    }

    /// Records that `content_bytes` of media and empty blocks were sent. Returns how many of them
    /// were media.
    pub fn send_content(&mut self, mut content_bytes: usize) -> usize {
        let mut media_bytes = 0;
        while content_bytes > 0 {
            let taken = content_bytes.min(self.media_left.into());
            self.media_left -= taken as u16;
            media_bytes += taken;
            content_bytes -= taken;
            if content_bytes > 0 {
                self.media_left = INTERVAL;
                content_bytes -= EMPTY_BLOCK.len();
            }
        }
        media_bytes
    }

    /// Lends a listener's next bytes of media and empty blocks, as [`StreamBuffer::lend`] does.
    pub fn lend<'a>(
        self,
        (buffer, viewer): (&'a StreamBuffer<ConnectionId>, ViewerId<ConnectionId>),
        bytes_max: usize,
        gather: &mut Gather<'a>,
        places_kept: usize,
    ) -> usize {
        let (mut lent, mut media, mut left) = (0, 0, self.until_empty_block());
        while lent < bytes_max {
            if left == 0 {
                if gather.places_left() <= places_kept || !gather.push(EMPTY_BLOCK) {
                    break;
                }
                lent += EMPTY_BLOCK.len();
                left = INTERVAL.into();
                continue;
            }
            let wanted = left.min(bytes_max - lent);
            let range = media..media + wanted;
            let bytes = buffer.lend(viewer, range, gather, places_kept);
            lent += bytes;
            media += bytes;
            left -= bytes;
            if bytes < wanted {
                break;
            }
        }
        lent
    }

    /// Returns whether the state of a hand-over is possible.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.media_left <= INTERVAL && (self.block_bytes == 0 || self.media_left == 0)
    }
}

impl IcyBlock {
    /// Writes the block that comes next to a listener, if one with text does.
    pub fn prepare(
        &mut self,
        icy: &mut IcyPosition,
        (id, stream): (StreamId, &Stream),
        is_chunked: bool,
    ) {
        let serial = stream.programme.serial();
        if !icy.needs_block(serial) {
            return;
        }
        let of = Some((id, serial, is_chunked));
        if self.of != of {
            self.of = of;
            self.write(&stream.programme, is_chunked);
        }
        icy.seen = serial;
        icy.block_bytes = self.bytes.len() as u16;
    }

    fn write(&mut self, programme: &Programme, is_chunked: bool) {
        const UNIT: usize = 16;
        let mut text = String::from("StreamTitle='");
        if let Some(title) = programme.title() {
            let _ = write!(text, "{}", title.icy());
        }
        text.push_str("';");
        // A title of 512 bytes, all of them apostrophes, takes 97 units.
        let units = text.len().div_ceil(UNIT);
        self.bytes.clear();
        if is_chunked {
            let line = format!("{:x}\r\n", 1 + units * UNIT);
            self.bytes.extend_from_slice(line.as_bytes());
        }
        self.bytes.push(units as u8);
        let end = self.bytes.len() + units * UNIT;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.resize(end, 0);
        if is_chunked {
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Returns the block of the listener that was prepared last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns whether players know titles within a stream's media. A format that is not known yet may
/// be what the source declares.
fn carries_titles(buffer: &StreamBuffer<ConnectionId>) -> bool {
    match buffer.told() {
        Told::Known(format) => matches!(format, Format::Mp3 | Format::Aac),
        Told::Undecided | Told::Unknown => matches!(
            buffer.media_type(),
            Some("audio/mpeg" | "audio/mp3" | "audio/aac" | "audio/aacp")
        ),
    }
}

/// Adds the fields that a listener of a stream gets.
pub(super) fn describe(head: ResponseHead, stream: &Stream, icy: IcyMetadata) -> ResponseHead {
    if icy == IcyMetadata::Off || !carries_titles(&stream.buffer) {
        return head;
    }
    let head = head.field("Vary", "Icy-MetaData");
    if icy == IcyMetadata::Unwanted {
        return head;
    }
    let station = &stream.programme.station;
    let head = head.field("icy-metaint", &INTERVAL.to_string());
    let mut fields = station.fields();
    let head = fields
        .by_ref()
        .fold(head, |head, (name, value)| head.field(name, value));
    match station.bitrate() {
        Some(bitrate) => head.field("icy-br", &bitrate.to_string()),
        None => head,
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
