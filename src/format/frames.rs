//! Sound that is a bare row of frames: MPEG audio (ISO/IEC 11172-3, 13818-3) and AAC in ADTS
//! (ISO/IEC 13818-7, 14496-3).
//!
//! A [`Sound`] goes from frame head to frame head. It counts the bytes between and never looks at
//! them. It also counts ID3v2 tags that stand where a frame could. Where it finds no head, it
//! searches for heads in a row, and holds a few frames at most meanwhile.

use super::window::{StepResult, Unread, Walker};
use super::{
    Finding, Findings, Format, Header, SEARCH_BYTES_MAX, SOUND_SPACING, Start, UNIT_SPACING,
    Unsupported,
};
use crate::time::MediaTime;

/// The two kinds of frames. Their heads differ by the layer bits, which are zero in ADTS only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum SoundCodec {
    Mpeg,
    Adts,
}

impl SoundCodec {
    /// Returns the format of a stream of such frames.
    pub fn format(self) -> Format {
        match self {
            SoundCodec::Mpeg => Format::Mp3,
            SoundCodec::Adts => Format::Aac,
        }
    }
}

/// Frames in a row that prove a codec. A single head occurs in any bytes by chance.
pub(super) const PROOF_FRAMES: usize = 3;

/// Frames in a row that prove a codec away from the beginning of a stream. Other containers carry a
/// few frames in one piece.
pub(super) const FOUND_FRAMES: usize = 6;

/// Frames in a row that prove that the walk is in step again with a known codec.
const RESYNC_FRAMES: usize = 2;

/// Bytes of a head of either kind that contain the frame's length.
const HEAD_BYTES: usize = 6;

/// First bytes of a head that rule out most other bytes ([`may_begin_head`]).
const LENGTH_BYTES: usize = 3;

const TAG_HEAD_BYTES: usize = 10;

/// Bytes that look like heads and are none, at most, in one look of a walker. Each costs some looks
/// of other walkers, because several heads in a row are read.
const HEADS_AT_ONCE: usize = 8;

/// A frame may be marked as statistics up to this position.
const STATISTICS_BYTES: usize = 40;

/// The layer, in a head's first four bytes.
const LAYER_BITS: u32 = 0x0006_0000;

/// What the head of a frame says.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Frame {
    /// Length of the frame with its head: 7 to 8191 bytes.
    length: u32,
    /// Bits of the head's first four bytes that do not change within a stream. The layer is among
    /// them.
    constant: u32,
}

impl Frame {
    /// Reads the frame whose head is at `at`.
    pub fn read(bytes: &[u8], at: usize) -> Result<Frame, Unread> {
        let head = bytes.get(at..).unwrap_or_default();
        let Some(head) = head.first_chunk::<HEAD_BYTES>() else {
            if !may_begin_head(head) {
                return Err(Unsupported.into());
            }
            let needed = if head.len() < LENGTH_BYTES {
                head.len() + 1
            } else {
                HEAD_BYTES
            };
            return Err(Unread::Needs(at + needed));
        };
        if head[0] != 0xFF || head[1] & 0xE0 != 0xE0 {
            return Err(Unsupported.into());
        }
        let frame = if head[1] & 0x06 == 0 {
            Frame::adts(head)
        } else {
            Frame::mpeg(head)
        };
        Ok(frame.ok_or(Unsupported)?)
    }

    fn adts(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
        let sampling_index = head[2] >> 2 & 0x0F;
        // 13 bits. The highest two are the lowest bits of their byte.
        let length = u32::from_be_bytes([0, head[3] & 0x03, head[4], head[5]]) >> 5;
        let valid = head[1] & 0xF0 == 0xF0 && sampling_index < 13 && length >= 7;
        valid.then_some(Frame {
            length,
            constant: u32::from_be_bytes([head[0], head[1] & 0xFE, head[2] & 0xFC, 0]),
        })
    }

    fn mpeg(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
        let [_, kind, rates, last, ..] = *head;
        let of_kind = &SLOT_LENGTHS[usize::from(kind >> 1 & 0x0F)];
        let length = of_kind[usize::from(rates >> 2)];
        // One slot more. It has four bytes in layer I.
        let padding = u32::from(rates >> 1 & 0x01) << if kind & 0x06 == 0x06 { 2 } else { 0 };
        let reserved_emphasis = last & 0x03 == 2;
        (length > 0 && !reserved_emphasis).then_some(Frame {
            length: u32::from(length) + padding,
            constant: u32::from_be_bytes([head[0], kind & 0xFE, rates & 0x0C, 0]),
        })
    }

    /// Returns the length of the whole frame. It is at least that of its head.
    pub fn length(&self) -> usize {
        self.length as usize
    }

    pub(super) fn codec(&self) -> SoundCodec {
        if self.constant & LAYER_BITS == 0 {
            SoundCodec::Adts
        } else {
            SoundCodec::Mpeg
        }
    }

    /// Returns the number of samples of each channel, and the sampling rate. An ADTS frame with
    /// more than one block counts as one block: such frames are not in use.
    pub fn samples(&self) -> (u32, u32) {
        let [_, kind, rates, _] = self.constant.to_be_bytes();
        if self.codec() == SoundCodec::Adts {
            let index = usize::from(rates >> 2 & 0x0F);
            return (1024, ADTS_RATES.get(index).copied().unwrap_or_default());
        }
        let (version, layer) = (kind >> 3 & 0x03, 4 - (kind >> 1 & 0x03));
        let samples = match (layer, version) {
            (1, _) => 384,
            (3, 0 | 2) => 576,
            _ => 1152,
        };
        (samples, mpeg_rate(version, rates >> 2 & 0x03))
    }

    fn follows(&self, before: &Frame) -> bool {
        self.constant == before.constant
    }
}

/// Sampling rates in Hz, by the index in the head.
pub(crate) const ADTS_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// Returns the sampling rate in Hz, by the version and the index in the head.
const fn mpeg_rate(version: u8, index: u8) -> u32 {
    let shift = match version {
        0 => 2,
        2 => 1,
        _ => 0,
    };
    [44_100, 48_000, 32_000, 0][index as usize & 0x03] >> shift
}

/// Bit rates in kbit/s: MPEG-1 layers I, II and III, then MPEG-2 layer I and its other layers. The
/// free format (0) and the forbidden rate (15) have none.
const BIT_RATES: [[u16; 14]; 5] = [
    [
        32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384,
    ],
    [
        32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
    ],
    [
        32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256,
    ],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// Lengths of MPEG frames without padding. The first index is version and layer (four bits), the
/// second bit rate and sampling rate (six bits). 0: there is no such frame. The compiler makes the
/// table, since a stream has thousands of heads a second and divisions are slow.
const SLOT_LENGTHS: [[u16; 64]; 16] = {
    let mut lengths = [[0; 64]; 16];
    let mut kind = 0;
    while kind < 16 {
        let mut rates = 0;
        while rates < 64 {
            lengths[kind][rates] = slot_length(kind, rates >> 2, rates & 0x03);
            rates += 1;
        }
        kind += 1;
    }
    lengths
};

const fn slot_length(kind: usize, bit_rate: usize, sampling_rate: usize) -> u16 {
    let (version, layer) = (kind >> 2, 4 - (kind & 0x03));
    let is_first = version == 3;
    // Layer 4 is ADTS, which has another head.
    if version == 1 || layer == 4 || sampling_rate == 3 || bit_rate == 0 || bit_rate == 15 {
        return 0;
    }
    let row = match (is_first, layer) {
        (true, _) => layer - 1,
        (false, 1) => 3,
        (false, _) => 4,
    };
    let hertz = mpeg_rate(version as u8, sampling_rate as u8);
    let kilobits = BIT_RATES[row][bit_rate - 1] as u32;
    let length = match (layer, is_first) {
        (1, _) => 12_000 * kilobits / hertz * 4,
        (3, false) => 72_000 * kilobits / hertz,
        _ => 144_000 * kilobits / hertz,
    };
    // At most 2,304 bytes.
    length as u16
}

/// Returns the first position, from `at` on, at which `read` finds a frame or needs more bytes.
/// After some looks in vain it returns the next position.
pub(super) fn search(
    bytes: &[u8],
    mut at: usize,
    read: impl Fn(&[u8]) -> Result<Frame, Unread>,
) -> usize {
    for _ in 0..HEADS_AT_ONCE {
        at = next_head(bytes, at);
        if !matches!(read(&bytes[at..]), Err(Unread::Other(_))) {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the first position, from `at` on, at which a head may begin, by as many of its first
/// three bytes as there are.
pub(super) fn next_head(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let sync = rest.iter().position(|byte| *byte == 0xFF);
        at += sync.unwrap_or(rest.len());
        if may_begin_head(bytes.get(at..).unwrap_or_default()) {
            return at;
        }
        at += 1;
    }
}

/// Returns whether a head may begin here, by its first [`LENGTH_BYTES`]. If there are fewer, more
/// may begin one. A search and a reader of heads must agree on this: otherwise the bytes that wait
/// would depend on how the input is cut.
fn may_begin_head(bytes: &[u8]) -> bool {
    match bytes {
        [] | [0xFF] => true,
        [0xFF, second] => second & 0xE0 == 0xE0,
        [0xFF, second, third, ..] if second & 0x06 == 0 => {
            second & 0xF0 == 0xF0 && usize::from(third >> 2 & 0x0F) < ADTS_RATES.len()
        }
        [0xFF, second, third, ..] => {
            let of_kind = &SLOT_LENGTHS[usize::from(second >> 1 & 0x0F)];
            second & 0xE0 == 0xE0 && of_kind[usize::from(third >> 2)] > 0
        }
        _ => false,
    }
}

/// Returns the first of `frames` frames in a row. With a codec only its frames count.
pub(super) fn row(bytes: &[u8], codec: Option<SoundCodec>, frames: usize) -> Result<Frame, Unread> {
    let first = Frame::read(bytes, 0)?;
    if codec.is_some_and(|codec| codec != first.codec()) {
        return Err(Unsupported.into());
    }
    let mut end = first.length();
    for _ in 1..frames {
        let next = Frame::read(bytes, end)?;
        if !next.follows(&first) {
            return Err(Unsupported.into());
        }
        end += next.length();
    }
    Ok(first)
}

/// Returns the length of the ID3v2 tag at the front, with head and footer.
fn tag(bytes: &[u8]) -> StepResult {
    if !bytes
        .iter()
        .zip(b"ID3")
        .all(|(byte, expected)| byte == expected)
    {
        return Err(Unsupported.into());
    }
    let Some([_, _, _, major, minor, flags, size @ ..]) = bytes.first_chunk::<TAG_HEAD_BYTES>()
    else {
        let needed = if bytes.len() < 3 {
            bytes.len() + 1
        } else {
            TAG_HEAD_BYTES
        };
        return Err(Unread::Needs(needed));
    };
    if *major == 0xFF || *minor == 0xFF || size.iter().any(|byte| *byte >= 0x80) {
        return Err(Unsupported.into());
    }
    let bytes = size.iter().map(|byte| u64::from(*byte));
    let size = bytes.fold(0, |size, byte| size << 7 | byte);
    // A footer has the length of the head.
    let heads = 1 + u64::from(flags >> 4 & 1);
    Ok(heads * TAG_HEAD_BYTES as u64 + size)
}

/// Returns whether the frame carries statistics of a whole file (Xing, Info, VBRI) instead of
/// sound. They are wrong for viewers who join late.
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

/// What should be at the next byte.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Expected {
    /// A tag or the first frame.
    Beginning,
    /// A tag or a frame like the previous one.
    Boundary(Frame),
    /// Anything. This many bytes were searched in vain.
    Search(u64),
}

/// Time by the samples so far. It stays exact however long the stream runs.
#[derive(Clone, Copy, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct SampleClock {
    /// Time at which samples began to come at this rate, in ticks of 90 kHz.
    ticks: u64,
    /// Sampling rate. 0 before the first frame.
    samples_per_second: u32,
    /// Samples that have come at this rate.
    samples: u64,
}

impl SampleClock {
    fn time(&self) -> MediaTime {
        let since = MediaTime::of_clock(self.samples, self.samples_per_second);
        since.map_or(MediaTime::from_ticks(self.ticks), |since| {
            since.after(self.ticks)
        })
    }

    fn count(&mut self, frame: &Frame) {
        let (samples, samples_per_second) = frame.samples();
        if samples_per_second != self.samples_per_second {
            *self = SampleClock {
                ticks: self.time().ticks(),
                samples_per_second,
                samples: 0,
            };
        }
        self.samples = self.samples.wrapping_add(samples.into());
    }
}

/// Walks through the frames of one stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sound {
    /// Codec. `None` until frames prove one.
    codec: Option<SoundCodec>,
    /// Format that the findings give the stream.
    format: Format,
    /// What the next byte begins.
    expected: Expected,
    /// Time of the next frame.
    clock: SampleClock,
    /// No join before this offset.
    join_from: u64,
    /// No unit before this offset.
    unit_from: u64,
}

impl Walker<Findings<'_>> for Sound {
    fn step(&mut self, seen: &[u8], at: u64, findings: &mut Findings<'_>) -> StepResult {
        if let Expected::Search(searched) = self.expected {
            return self.search(searched, seen, at, findings);
        }
        match tag(seen) {
            Err(Unread::Other(_)) => {}
            length_or_needs => return length_or_needs,
        }
        if let Expected::Boundary(before) = self.expected {
            match Frame::read(seen, 0) {
                Err(Unread::Needs(length)) => return Err(Unread::Needs(length)),
                Ok(frame) if frame.follows(&before) => {
                    return self.enter(frame, seen, at, findings);
                }
                Ok(_) | Err(Unread::Other(_)) => {}
            }
        }
        self.search(0, seen, at, findings)
    }
}

impl Sound {
    /// Returns a walk at the stream's first byte. The first frames show the codec and correct the
    /// format, since a tag does not show what follows it.
    pub(super) fn new(format: Format) -> Sound {
        Sound {
            codec: None,
            format,
            expected: Expected::Beginning,
            clock: SampleClock::default(),
            join_from: 0,
            unit_from: 0,
        }
    }

    /// Looks for frames in a row that begin at the first byte.
    fn search(
        &mut self,
        searched: u64,
        seen: &[u8],
        at: u64,
        findings: &mut Findings<'_>,
    ) -> StepResult {
        let frames = if self.codec.is_some() {
            RESYNC_FRAMES
        } else {
            PROOF_FRAMES
        };
        let failed = search(seen, 0, |rest| row(rest, self.codec, frames));
        if searched + failed as u64 > SEARCH_BYTES_MAX {
            return Err(Unsupported.into());
        }
        self.expected = Expected::Search(searched + failed as u64);
        if failed > 0 {
            return Ok(failed as u64);
        }
        let frame = row(seen, self.codec, frames)?;
        self.codec = Some(frame.codec());
        let format = frame.codec().format();
        if format != self.format {
            self.format = format;
            findings(Finding::Format(format), Header::NONE);
        }
        self.enter(frame, seen, at, findings)
    }

    /// Enters a frame that belongs to the stream.
    fn enter(
        &mut self,
        frame: Frame,
        seen: &[u8],
        at: u64,
        findings: &mut Findings<'_>,
    ) -> StepResult {
        if at >= self.join_from {
            let needed = frame.length().min(STATISTICS_BYTES);
            let bytes = seen.get(..needed).ok_or(Unread::Needs(needed))?;
            if frame.codec() == SoundCodec::Adts || !is_statistics(bytes) {
                self.report(at, findings);
            }
        }
        self.expected = Expected::Boundary(frame);
        self.clock.count(&frame);
        Ok(frame.length() as u64)
    }

    fn report(&mut self, at: u64, findings: &mut Findings<'_>) {
        self.join_from = at + SOUND_SPACING;
        findings(Finding::Time(at, self.clock.time()), Header::NONE);
        findings(Finding::Join(Start::at(at)), Header::NONE);
        if at >= self.unit_from {
            self.unit_from = at + UNIT_SPACING;
            findings(Finding::Unit(Start::at(at)), Header::NONE);
        }
    }
}

#[cfg(test)]
mod tests;
