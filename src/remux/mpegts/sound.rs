//! Sound as a row of frames. Their PES packets do not matter.

use super::super::medium::{Codec, Result, Unit};
use super::super::sound::{self, HEAD_BYTES};
use super::UnitOutput;
use super::pes::{Mark, Marks};
use crate::format::Unsupported;
use crate::format::window::Unread;

/// State of one stream.
pub(super) struct SoundStream {
    codec: Codec,
    /// Bytes from the beginning of a frame, or from a place where one may begin.
    pub bytes: Vec<u8>,
    marks: Marks,
    /// Whether the bytes begin with a frame.
    is_in_step: bool,
    /// Time at which the next frame begins.
    next: Option<i64>,
    /// Setup of the last frame.
    setup: sound::Setup,
}

/// Maximal number of substreams of E-AC-3: eight of each kind.
const PARTS_MAX: usize = 16;
/// Maximal number of bytes of the length of an Opus packet. One of 120 ms has at most 32.
const OPUS_SIZES_MAX: usize = 64;

/// Unit at the front.
struct Front {
    /// Length of the unit with its head.
    length: usize,
    /// Length of its head.
    head_bytes: usize,
    /// Duration in nanoseconds, if known.
    lasts: Option<i64>,
    /// Head of the frame. Opus has none.
    head: Option<sound::Head>,
}

impl SoundStream {
    /// Returns the state before the first byte.
    pub fn new(codec: Codec) -> SoundStream {
        SoundStream {
            codec,
            bytes: Vec::new(),
            marks: Marks::default(),
            is_in_step: false,
            next: None,
            setup: sound::Setup::default(),
        }
    }

    /// Drops the current unit, since packets are missing.
    pub fn lose(&mut self) {
        self.bytes.clear();
        self.marks.clear();
        self.is_in_step = false;
        self.next = None;
    }

    /// Reads the next bytes of the stream. `mark` belongs to the PES packet that begins with them.
    pub fn take(
        &mut self,
        mark: Option<Mark>,
        bytes: &[u8],
        output: &mut UnitOutput<'_, '_>,
    ) -> Result {
        if let Some(mark) = mark {
            self.marks.put(self.bytes.len(), mark);
        }
        self.bytes.extend_from_slice(bytes);
        self.emit_whole(false, output)
    }

    /// Ends the stream: passes on the last unit.
    pub fn finish(&mut self, output: &mut UnitOutput<'_, '_>) -> Result {
        self.emit_whole(true, output)
    }

    fn emit_whole(&mut self, is_last: bool, output: &mut UnitOutput<'_, '_>) -> Result {
        let mut at = 0;
        loop {
            match self.front_at(at, is_last) {
                Err(Unread::Needs(_)) => break,
                Err(Unread::Other(Unsupported)) => {
                    self.is_in_step = false;
                    at += 1;
                }
                Ok(front) => {
                    self.is_in_step = true;
                    self.emit(at, &front, output)?;
                    at += front.length;
                }
            }
        }
        self.bytes.drain(..at);
        self.marks.pass(at);
        Ok(())
    }

    /// Returns the unit at this position. Out of step, only two frames in a row count.
    fn front_at(&self, at: usize, is_last: bool) -> Result<Front, Unread> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let front = self.frame(rest)?;
        let mut after = rest.get(front.length..).ok_or(more(rest))?;
        let must_see_next = self.codec == Codec::Eac3 || !self.is_in_step;
        if !must_see_next || (is_last && after.is_empty()) {
            return Ok(front);
        }
        let mut length = front.length;
        for _ in 0..PARTS_MAX {
            match self.frame(after) {
                Err(Unread::Needs(_)) if !is_last => return Err(more(rest)),
                // Two frames in a row are in step. Looking at more would be repeated from every
                // frame in front.
                Err(Unread::Other(Unsupported)) if !self.is_in_step && length == front.length => {
                    return Err(Unsupported.into());
                }
                Ok(part) if part.head.is_some_and(|head| head.is_part) => {
                    length += part.length;
                    after = after.get(part.length..).ok_or(more(rest))?;
                }
                Err(_) | Ok(_) => break,
            }
        }
        Ok(Front { length, ..front })
    }

    /// Returns the frame whose head is at the front.
    fn frame(&self, bytes: &[u8]) -> Result<Front, Unread> {
        if self.codec == Codec::Opus {
            return opus(bytes);
        }
        if bytes.len() < HEAD_BYTES {
            return Err(Unread::Needs(HEAD_BYTES));
        }
        let head = sound::head(self.codec, bytes).ok_or(Unsupported)?;
        Ok(Front {
            length: head.length,
            head_bytes: head.head_bytes,
            lasts: head.lasts(),
            head: Some(head),
        })
    }

    fn emit(&mut self, at: usize, front: &Front, output: &mut UnitOutput<'_, '_>) -> Result {
        let mark_times = self.marks.take(at).and_then(|mark| mark.times);
        let time = mark_times.map(|times| times.present).or(self.next);
        let Some(time) = time else {
            return Ok(());
        };
        self.next = Some(time.saturating_add(front.lasts.unwrap_or(0)));
        if let Some(head) = front.head {
            let is_known = self.setup.is_like(&head.setup, self.codec);
            if !is_known || output.timeline.is_new(output.index) {
                self.setup = head.setup;
                output
                    .timeline
                    .set_up(output.index, head.setup.as_slice(), head.shape)?;
            }
        }
        let bytes = self.bytes.get(at + front.head_bytes..at + front.length);
        let unit = Unit {
            track: output.index,
            decode: time,
            present: time,
            is_join: true,
            bytes: bytes.unwrap_or_default(),
        };
        output.timeline.emit(unit, output.sink)
    }
}

/// At least one byte more is needed.
fn more(bytes: &[u8]) -> Unread {
    Unread::Needs(bytes.len() + 1)
}

/// Reads a packet of Opus after its control header (ETSI TS 103 491 section 5.2, as ffmpeg and
/// GStreamer write it).
fn opus(bytes: &[u8]) -> Result<Front, Unread> {
    let [first, second, rest @ ..] = bytes else {
        return Err(more(bytes));
    };
    if *first != 0x7f || second & 0xe0 != 0xe0 {
        return Err(Unsupported.into());
    }
    let sizes = rest.iter().take(OPUS_SIZES_MAX + 1);
    let sizes = sizes.take_while(|byte| **byte == 0xff).count();
    if sizes > OPUS_SIZES_MAX && rest.len() == sizes {
        return Err(Unsupported.into());
    }
    let last = rest.get(sizes).ok_or(more(bytes))?;
    let size = 255 * sizes + usize::from(*last);
    let mut at = 3 + sizes;
    at += 2 * (usize::from(second >> 4 & 1) + usize::from(second >> 3 & 1));
    if second & 0x04 != 0 {
        at += 1 + usize::from(*bytes.get(at).ok_or(more(bytes))?);
    }
    let packet = bytes.get(at..at + size);
    if packet.is_none() && size > OPUS_SIZES_MAX * 255 {
        return Err(Unsupported.into());
    }
    let packet = packet.ok_or(more(bytes))?;
    Ok(Front {
        length: at + size,
        head_bytes: at,
        lasts: sound::opus_lasts(packet),
        head: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 8] = [0x0b, 0x77, 0x00, 0x03, 0x34, 0x80, 0, 0];
    const PART: [u8; 8] = [0x0b, 0x77, 0x08, 0x03, 0x34, 0x80, 0, 0];

    /// Otherwise a chain of parts with a wrong end would be read again from each of its frames.
    #[test]
    fn two_frames_of_e_ac_3_are_in_step_whatever_follows() {
        let length = |parts: usize| {
            let mut stream = SoundStream::new(Codec::Eac3);
            stream.bytes = [&FRAME[..], &PART.repeat(parts), &[0xff; 8]].concat();
            match stream.front_at(0, false) {
                Ok(front) => Some(front.length),
                Err(Unread::Other(Unsupported)) => None,
                Err(Unread::Needs(_)) => unreachable!("all of it is there"),
            }
        };
        assert_eq!(length(0), None);
        for parts in 1..20 {
            assert_eq!(
                length(parts),
                Some(8 * (1 + parts.min(PARTS_MAX))),
                "{parts}"
            );
        }
    }
}
