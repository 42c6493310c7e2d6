//! Sound that is a bare row of frames: MPEG audio (ISO/IEC 11172-3, 13818-3) and AAC in ADTS (ISO/IEC 13818-7, 14496-3).
//!
//! A [`Walk`] goes from frame head to frame head; what lies between is counted, never looked at. Tags of the ID3v2 kind that stand
//! where a frame could are counted too. Where no head stands, it searches for heads in a row, and holds a few frames at most meanwhile.

use super::window::{Look, Step, Window};
use super::{Finding, Format, HEADER_BYTES_MAX, LetGo, Start, UNIT_SPACING};

/// Whether bytes begin with frames, each exactly where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    Yes,
    No,
    /// Too few bytes to tell.
    More,
}

/// The two kinds of frames. Their heads differ by the layer bits, which are zero in ADTS only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Mpeg,
    Adts,
}

/// Frames in a row that prove a codec. A single head occurs in any bytes by chance.
const PROOF_FRAMES: usize = 3;

/// Frames in a row that prove that one is back in step with a codec that is known.
const RESYNC_FRAMES: usize = 2;

/// Joins need not be closer together than this.
const JOIN_SPACING: u64 = 1024;

/// Enough of a head of either kind to know its length.
const HEAD_BYTES: usize = 6;

const TAG_HEAD_BYTES: usize = 10;

/// So far into a frame its statistics may be marked.
const STATISTICS_BYTES: usize = 40;

/// After so many bytes without frames in a row these are not frames at all.
const SEARCH_BYTES_MAX: u64 = HEADER_BYTES_MAX as u64;

/// What a frame's head tells.
#[derive(Clone, Copy)]
struct Frame {
    codec: Codec,
    /// Head included: 7 to 8191 bytes.
    length: usize,
    /// The bits of the head that do not change within a stream.
    constant: [u8; 3],
}

impl Frame {
    fn read(bytes: &[u8], at: usize) -> Look<Frame> {
        let head = bytes.get(at..).unwrap_or_default();
        if head.first().is_some_and(|byte| *byte != 0xFF)
            || head.get(1).is_some_and(|byte| byte & 0xE0 != 0xE0)
        {
            return Look::Nothing;
        }
        let Some(head) = head.first_chunk::<HEAD_BYTES>() else {
            return Look::Needs(at + HEAD_BYTES);
        };
        let frame = if head[1] & 0x06 == 0 {
            Frame::adts(head)
        } else {
            Frame::mpeg(head)
        };
        frame.map_or(Look::Nothing, Look::Found)
    }

    fn adts(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
        let sampling_index = head[2] >> 2 & 0x0F;
        let length = usize::from(head[3] & 0x03) << 11
            | usize::from(head[4]) << 3
            | usize::from(head[5] >> 5);
        let valid = head[1] & 0xF0 == 0xF0 && sampling_index < 13 && length >= 7;
        valid.then_some(Frame {
            codec: Codec::Adts,
            length,
            constant: [head[0], head[1] & 0xFE, head[2] & 0xFC],
        })
    }

    fn mpeg(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
        let first_version = head[1] & 0x18 == 0x18;
        let shift = match head[1] >> 3 & 0x03 {
            0 => 2,
            2 => 1,
            3 => 0,
            _ => return None,
        };
        let sampling_rate =
            *[44_100_usize, 48_000, 32_000].get(usize::from(head[2] >> 2 & 0x03))? >> shift;
        // Never zero: that is ADTS.
        let layer = 4 - (head[1] >> 1 & 0x03);
        let kilobits = bit_rate(first_version, layer, head[2] >> 4)?;
        let padding = usize::from(head[2] >> 1 & 0x01);
        let reserved_emphasis = head[3] & 0x03 == 2;
        let length = match (layer, first_version) {
            (1, _) => (12_000 * kilobits / sampling_rate + padding) * 4,
            (3, false) => 72_000 * kilobits / sampling_rate + padding,
            _ => 144_000 * kilobits / sampling_rate + padding,
        };
        let constant = [head[0], head[1] & 0xFE, head[2] & 0x0C];
        (!reserved_emphasis).then_some(Frame {
            codec: Codec::Mpeg,
            length,
            constant,
        })
    }

    fn follows(&self, before: &Frame) -> bool {
        self.codec == before.codec && self.constant == before.constant
    }
}

/// In kbit/s. The free format (0) and the forbidden rate (15) have none.
fn bit_rate(first_version: bool, layer: u8, index: u8) -> Option<usize> {
    let rates: [usize; 14] = match (first_version, layer) {
        (true, 1) => [
            32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
        ],
        (true, 2) => [
            32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
        ],
        (true, _) => [
            32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
        ],
        (false, 1) => [
            32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
        ],
        (false, _) => [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    };
    rates.get(usize::from(index).checked_sub(1)?).copied()
}

/// The first of so many frames in a row, of one codec if that is known.
fn row(bytes: &[u8], codec: Option<Codec>, frames: usize) -> Look<Frame> {
    let first = match Frame::read(bytes, 0) {
        Look::Found(frame) => frame,
        other => return other,
    };
    if codec.is_some_and(|codec| codec != first.codec) {
        return Look::Nothing;
    }
    let mut end = first.length;
    for _ in 1..frames {
        match Frame::read(bytes, end) {
            Look::Found(frame) if frame.follows(&first) => end += frame.length,
            Look::Found(_) | Look::Nothing => return Look::Nothing,
            Look::Needs(length) => return Look::Needs(length),
        }
    }
    Look::Found(first)
}

/// Whether a stream begins with three frames of the codec in a row.
pub(super) fn detect(bytes: &[u8], codec: Codec) -> Chain {
    match row(bytes, Some(codec), PROOF_FRAMES) {
        Look::Found(_) => Chain::Yes,
        Look::Nothing => Chain::No,
        Look::Needs(_) => Chain::More,
    }
}

/// The length of the ID3v2 tag that the bytes begin with, head and footer included.
fn tag(bytes: &[u8]) -> Look<u64> {
    if !bytes
        .iter()
        .zip(b"ID3")
        .all(|(byte, expected)| byte == expected)
    {
        return Look::Nothing;
    }
    let Some([_, _, _, major, minor, flags, size @ ..]) = bytes.first_chunk::<TAG_HEAD_BYTES>()
    else {
        return Look::Needs(TAG_HEAD_BYTES);
    };
    if *major == 0xFF || *minor == 0xFF || size.iter().any(|byte| *byte >= 0x80) {
        return Look::Nothing;
    }
    let size = size
        .iter()
        .fold(0, |size, byte| size << 7 | u64::from(*byte));
    let footer = if flags & 0x10 == 0 {
        0
    } else {
        TAG_HEAD_BYTES as u64
    };
    Look::Found(TAG_HEAD_BYTES as u64 + size + footer)
}

/// Whether the frame carries no sound but numbers about a whole file (Xing, Info, VBRI), which are wrong for whoever joins late.
fn is_statistics(frame: &[u8]) -> bool {
    let [_, second, _, fourth, ..] = frame else {
        return false;
    };
    let mono = fourth & 0xC0 == 0xC0;
    let side_information = match (second & 0x18 == 0x18, mono) {
        (true, false) => 32,
        (true, true) | (false, false) => 17,
        (false, true) => 9,
    };
    let mark = |at: usize| frame.get(at..at + 4).unwrap_or_default();
    matches!(mark(4 + side_information), b"Xing" | b"Info") || mark(36) == b"VBRI"
}

/// Where the next byte to look at stands.
#[derive(Clone, Copy)]
enum Place {
    /// Where a tag or the first frame should begin.
    Beginning,
    /// Where a tag or a frame like the one before should begin.
    Boundary(Frame),
    /// Anywhere; so many bytes were searched in vain.
    Search(u64),
}

/// Goes through one stream's frames.
pub(super) struct Walk {
    /// `None` until frames prove one.
    codec: Option<Codec>,
    /// What the findings call the stream.
    format: Format,
    place: Place,
    window: Window,
    /// No join or unit before these offsets.
    join_from: u64,
    unit_from: u64,
}

impl Walk {
    /// Before the stream's first byte. Without a codec the first frames tell, and correct the format.
    pub(super) fn new(codec: Option<Codec>, format: Format) -> Walk {
        Walk {
            codec,
            format,
            place: Place::Beginning,
            window: Window::default(),
            join_from: 0,
            unit_from: 0,
        }
    }

    /// Takes the next bytes; the offset is that of the first.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        offset: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<(), LetGo> {
        let end = offset + bytes.len() as u64;
        while self.window.fill(&mut bytes) {
            let begin = end - (bytes.len() + self.window.bytes().len()) as u64;
            let step = self.step(begin, findings)?;
            self.window.take(step);
        }
        Ok(())
    }

    /// Judges what can be seen; the offset is that of its first byte.
    fn step(&mut self, begin: u64, findings: &mut Vec<Finding>) -> Result<Step, LetGo> {
        let bytes = self.window.bytes();
        if bytes.is_empty() {
            return Ok(Step::Hold(1));
        }
        if let Place::Search(searched) = self.place {
            return self.search(searched, begin, findings);
        }
        match tag(bytes) {
            Look::Found(length) => return Ok(Step::Pass(length)),
            Look::Needs(length) => return Ok(Step::Hold(length)),
            Look::Nothing => {}
        }
        if let Place::Boundary(before) = self.place {
            match Frame::read(bytes, 0) {
                Look::Needs(length) => return Ok(Step::Hold(length)),
                Look::Found(frame) if frame.follows(&before) => {
                    return Ok(self.enter(frame, begin, findings));
                }
                Look::Found(_) | Look::Nothing => {}
            }
        }
        self.search(0, begin, findings)
    }

    /// Looks for frames in a row that begin at the first byte.
    fn search(
        &mut self,
        searched: u64,
        begin: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<Step, LetGo> {
        self.place = Place::Search(searched);
        let frames = if self.codec.is_some() {
            RESYNC_FRAMES
        } else {
            PROOF_FRAMES
        };
        match row(self.window.bytes(), self.codec, frames) {
            Look::Needs(length) => Ok(Step::Hold(length)),
            Look::Nothing if searched >= SEARCH_BYTES_MAX => Err(LetGo),
            Look::Nothing => {
                self.place = Place::Search(searched + 1);
                Ok(Step::Pass(1))
            }
            Look::Found(frame) => {
                self.codec = Some(frame.codec);
                let format = match frame.codec {
                    Codec::Mpeg => Format::Mp3,
                    Codec::Adts => Format::Aac,
                };
                if format != self.format {
                    self.format = format;
                    findings.push(Finding::Format(format));
                }
                Ok(self.enter(frame, begin, findings))
            }
        }
    }

    /// At a frame that belongs to the stream.
    fn enter(&mut self, frame: Frame, begin: u64, findings: &mut Vec<Finding>) -> Step {
        if begin >= self.join_from {
            let needed = frame.length.min(STATISTICS_BYTES);
            let Some(bytes) = self.window.bytes().get(..needed) else {
                return Step::Hold(needed);
            };
            if frame.codec == Codec::Adts || !is_statistics(bytes) {
                self.report(begin, findings);
            }
        }
        self.place = Place::Boundary(frame);
        Step::Pass(frame.length as u64)
    }

    fn report(&mut self, begin: u64, findings: &mut Vec<Finding>) {
        self.join_from = begin + JOIN_SPACING;
        findings.push(Finding::Join(Start::at(begin)));
        if begin >= self.unit_from {
            self.unit_from = begin + UNIT_SPACING;
            findings.push(Finding::Unit(Start::at(begin)));
        }
    }
}

#[cfg(test)]
mod tests;
