//! Sound formats: the heads of frames, and the setups in containers.
//!
//! AAC: ISO/IEC 14496-3 sections 1.6 and 1.A; MPEG audio: ISO/IEC 11172-3 section 2.4; AC-3 and
//! E-AC-3: ETSI TS 102 366, annexes E and F; Opus: RFC 7845 and the Opus in ISO BMFF draft.

use super::bits::Bits;
use super::medium::{Codec, Shape, nanoseconds};
use crate::format::frames::{ADTS_RATES, Frame};

/// Content of a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Length of the whole frame.
    pub length: usize,
    /// Length of the head in front of the content. Only ADTS has one.
    pub head_bytes: usize,
    /// Samples of each channel.
    pub samples: u32,
    /// Rate and channels.
    pub shape: Shape,
    /// Setup that follows from the head.
    pub setup: Setup,
    /// Whether the frame belongs to the previous unit. In E-AC-3 all but the first substream do.
    pub is_part: bool,
}

/// Setup that a frame's head determines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup {
    bytes: [u8; 6],
    /// Number of bytes in use.
    length: usize,
}

impl Setup {
    fn new(setup: &[u8]) -> Setup {
        let mut bytes = [0; 6];
        let length = setup.len().min(bytes.len());
        bytes[..length].copy_from_slice(&setup[..length]);
        Setup { bytes, length }
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns whether both set a decoder up alike. The rate at the front of E-AC-3's setup does
    /// not count.
    pub fn is_like(&self, other: &Setup, codec: Codec) -> bool {
        let from = if codec == Codec::Eac3 { 2 } else { 0 };
        self.length == other.length && self.bytes[from..] == other.bytes[from..]
    }
}

/// Bytes that [`head`] needs.
pub(super) const HEAD_BYTES: usize = 8;

/// Sampling rates of AC-3 by their code.
const DOLBY_RATES: [u32; 3] = [48_000, 44_100, 32_000];
/// Channels of AC-3 without the one of effects.
const DOLBY_CHANNELS: [u8; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
const DOLBY_KILOBITS: [usize; 19] = [
    32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640,
];

/// Reads the head of a frame, of which at least [`HEAD_BYTES`] have come. The frames of AAC are
/// ADTS. `None` for a codec without heads.
pub(super) fn head(codec: Codec, frame: &[u8]) -> Option<Head> {
    match codec {
        Codec::Aac => adts(frame),
        Codec::MpegAudio => mpeg(frame),
        Codec::Ac3 => ac3(frame),
        Codec::Eac3 => eac3(frame),
        Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 | Codec::Opus => None,
    }
}

fn adts(frame: &[u8]) -> Option<Head> {
    let [_, flags, b, c, ..] = *frame else {
        return None;
    };
    let found = Frame::read(frame, 0).ok()?;
    if flags & 0x06 != 0 {
        return None;
    }
    let (object, index) = ((b >> 6) + 1, b >> 2 & 0x0f);
    let channels = (b & 1) << 2 | c >> 6;
    let head_bytes = if flags & 1 == 0 { 9 } else { 7 };
    let (samples, rate) = found.samples();
    (found.length() > head_bytes).then_some(Head {
        length: found.length(),
        head_bytes,
        samples,
        shape: sound(rate, channels_of_aac(channels)),
        setup: Setup::new(&[object << 3 | index >> 1, index << 7 | channels << 3]),
        is_part: false,
    })
}

fn mpeg(frame: &[u8]) -> Option<Head> {
    let found = Frame::read(frame, 0).ok()?;
    if frame[1] & 0x06 == 0 {
        return None;
    }
    let (samples, rate) = found.samples();
    let channels = if frame[3] >> 6 == 3 { 1 } else { 2 };
    Some(Head {
        length: found.length(),
        head_bytes: 0,
        samples,
        shape: sound(rate, channels),
        setup: Setup::default(),
        is_part: false,
    })
}

/// Returns the function that reads bits of a frame of AC-3 or E-AC-3: `count` of them, from bit
/// `at` on. `None` if no such frame begins here.
fn dolby_bits(frame: &[u8]) -> Option<impl Fn(u32, u32) -> u32> {
    let head = u64::from_be_bytes(*frame.first_chunk::<HEAD_BYTES>()?);
    (head >> 48 == 0x0b77).then_some(move |at, count| (head << at >> (64 - count)) as u32)
}

fn ac3(frame: &[u8]) -> Option<Head> {
    let bits = dolby_bits(frame)?;
    let (rate_code, size_code) = (bits(32, 2), bits(34, 6));
    let (stream, mode, coded) = (bits(40, 5), bits(45, 3), bits(48, 3));
    // Levels come with a centre, with surround, or with exactly two channels.
    let levels = u32::from(coded & 1 != 0 && coded != 1) + u32::from(coded & 4 != 0);
    let effects = bits(51 + 2 * (levels + u32::from(coded == 2)), 1);
    let rate = *DOLBY_RATES.get(rate_code as usize)?;
    let kilobits = *DOLBY_KILOBITS.get(size_code as usize / 2)?;
    // Words of 16 bits in 1,536 samples. At 44.1 kHz their number varies.
    let words = match rate_code {
        0 => 2 * kilobits,
        1 => kilobits * 96_000 / 44_100 + (size_code as usize & 1),
        _ => 3 * kilobits,
    };
    let packed = rate_code << 22 | stream << 17 | mode << 14 | coded << 11 | effects << 10;
    let packed = (packed | (size_code / 2) << 5).to_be_bytes();
    // Streams of half and a quarter of these rates exist, too. No box can describe them.
    (stream <= 8).then_some(Head {
        length: 2 * words,
        head_bytes: 0,
        samples: 1536,
        shape: sound(rate, DOLBY_CHANNELS[coded as usize] + effects as u8),
        setup: Setup::new(&packed[1..]),
        is_part: false,
    })
}

fn eac3(frame: &[u8]) -> Option<Head> {
    let bits = dolby_bits(frame)?;
    let (kind, substream) = (bits(16, 2), bits(18, 3));
    let length = 2 * (bits(21, 11) as usize + 1);
    let (rate_code, half_or_blocks) = (bits(32, 2), bits(34, 2));
    let (rate, blocks) = match rate_code {
        3 => (DOLBY_RATES.get(half_or_blocks as usize)? / 2, 6),
        code => {
            let blocks = *[1, 2, 3, 6].get(half_or_blocks as usize)?;
            (*DOLBY_RATES.get(code as usize)?, blocks)
        }
    };
    let (coded, effects, stream) = (bits(36, 3), bits(39, 1), bits(40, 5));
    if kind == 3 || !(11..=16).contains(&stream) || length < HEAD_BYTES {
        return None;
    }
    let samples = 256 * blocks;
    let kilobits = length as u64 * 8 * u64::from(rate) / u64::from(samples) / 1000;
    let kilobits = kilobits.min(0x1fff) as u32;
    let packed = rate_code << 22 | stream << 17 | coded << 9 | effects << 8;
    let [_, a, b, _] = packed.to_be_bytes();
    Some(Head {
        length,
        head_bytes: 0,
        samples,
        shape: sound(rate, DOLBY_CHANNELS[coded as usize] + effects as u8),
        // One independent substream. The dependent ones are found in its bytes.
        setup: Setup::new(&[(kilobits >> 5) as u8, (kilobits << 3) as u8, a, b, 0]),
        is_part: kind == 1 || substream != 0,
    })
}

/// Returns the channels in a `dac3` or `dec3`: the number in front of it is always two there (ETSI
/// TS 102 366 annex F). Channels of dependent substreams do not count.
pub(super) fn dolby(codec: Codec, setup: &[u8], container_shape: Shape) -> Option<Shape> {
    let mut bits = Bits::plain(setup);
    bits.skip(if codec == Codec::Ac3 { 10 } else { 28 })?;
    let (coded, effects) = (bits.number(3)?, bits.bit()?);
    let Shape::Sound { rate, .. } = container_shape else {
        return None;
    };
    Some(sound(rate, DOLBY_CHANNELS[coded as usize] + effects as u8))
}

fn sound(rate: u32, channels: u8) -> Shape {
    Shape::Sound { rate, channels }
}

fn channels_of_aac(configuration: u8) -> u8 {
    match configuration {
        7 | 12 => 8,
        11 => 7,
        1..=6 => configuration,
        _ => 0,
    }
}

/// Returns the shape in an AudioSpecificConfig. `None` if its object is not AAC.
pub(super) fn aac(config: &[u8]) -> Option<Shape> {
    let mut bits = Bits::plain(config);
    let mut object = bits.number(5)?;
    if object == 31 {
        object = 32 + bits.number(6)?;
    }
    let rate = match bits.number(4)? {
        15 => bits.number(24)?,
        index => *ADTS_RATES.get(index as usize)?,
    };
    let channels = channels_of_aac(bits.number(4)? as u8);
    let is_aac = matches!(object, 1..=5 | 17 | 19 | 20 | 23 | 29 | 39 | 42);
    (is_aac && rate > 0).then_some(sound(rate, channels))
}

/// Converts the head of Opus in Ogg and Matroska into the content of `dOps`. The byte order of the
/// numbers differs.
pub(super) fn opus_setup(head: &[u8]) -> Option<Vec<u8>> {
    let (fields, mapping) = head.strip_prefix(b"OpusHead")?.split_first_chunk()?;
    let [_, channels, s0, s1, r0, r1, r2, r3, g0, g1, family] = *fields;
    let mut setup = vec![0, channels, s1, s0, r3, r2, r1, r0, g1, g0, family];
    if family != 0 {
        setup.extend_from_slice(mapping.get(..2 + usize::from(channels))?);
    }
    (channels > 0).then_some(setup)
}

/// Returns the shape in a `dOps`. Opus is always heard at 48 kHz.
pub(super) fn opus(setup: &[u8]) -> Option<Shape> {
    let [0, channels, ..] = setup else {
        return None;
    };
    (setup.len() >= 11 && *channels > 0).then_some(sound(48_000, *channels))
}

impl Head {
    /// Returns the duration of the frame in nanoseconds.
    pub fn lasts(&self) -> Option<i64> {
        let Shape::Sound { rate, .. } = self.shape else {
            return None;
        };
        nanoseconds(i64::from(self.samples), rate)
    }
}

/// Returns the duration of a packet of Opus in nanoseconds (RFC 6716 section 3.1).
pub(super) fn opus_lasts(packet: &[u8]) -> Option<i64> {
    let first = *packet.first()?;
    let configuration = first >> 3;
    let microseconds = match configuration {
        0..=11 => [10_000, 20_000, 40_000, 60_000][usize::from(configuration & 3)],
        12..=15 => [10_000, 20_000][usize::from(configuration & 1)],
        _ => [2_500, 5_000, 10_000, 20_000][usize::from(configuration & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => i64::from(packet.get(1)? & 0x3f),
    };
    Some(1000 * microseconds * frames)
}

/// Returns the setup of Opus with this many channels in the usual order (RFC 7845 section 5.1.1.2).
pub(super) fn opus_of_channels(channels: u8) -> Option<Vec<u8>> {
    let (streams, coupled, mapping): (u8, u8, &[u8]) = match channels {
        1 => (1, 0, &[]),
        2 => (1, 1, &[]),
        3 => (2, 1, &[0, 2, 1]),
        4 => (2, 2, &[0, 1, 2, 3]),
        5 => (3, 2, &[0, 4, 1, 2, 3]),
        6 => (4, 2, &[0, 4, 1, 2, 3, 5]),
        7 => (4, 3, &[0, 4, 1, 2, 3, 5, 6]),
        8 => (5, 3, &[0, 6, 1, 2, 3, 4, 5, 7]),
        _ => return None,
    };
    // No samples to skip; 48 kHz; no gain.
    let mut setup = vec![0, channels, 0, 0, 0, 0, 0xbb, 0x80, 0, 0];
    setup.push(u8::from(channels > 2));
    if channels > 2 {
        setup.extend_from_slice(&[streams, coupled]);
        setup.extend_from_slice(mapping);
    }
    Some(setup)
}
