//! Units in the form of MPEG-TS: NAL units after start codes with their parameter sets, AAC in
//! ADTS, Opus after its control head.

use super::clock::{MANY_CHANNELS_BITS, SOUND_BITS, h264_bits, h265_bits};
use crate::format::frames::ADTS_RATES;
use crate::remux::bits::Bits;
use crate::remux::medium::{Codec, MediaError, Result, Shape, Track};
use crate::remux::nal::nals_of_setup;

/// Framing of a stream's units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// NAL units: the delimiter by `kind`, and the parameter sets after start codes.
    Nal { kind: Nal, sets: Vec<u8> },
    /// ADTS head without the length.
    Adts([u8; 7]),
    /// Units as they are.
    Whole,
    /// Each packet has a control head.
    Opus,
}

/// Codec of NAL units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nal {
    H264,
    H265,
}

/// Maximal number of bytes of parameter sets. Those of real encoders have some hundred.
const SETS_BYTES_MAX: usize = 4096;
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Format of a track in MPEG-TS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamFormat {
    /// Stream type in the map.
    pub stream_type: u8,
    /// Stream ID of its PES packets.
    pub stream_id: u8,
    /// Descriptors in the map, one after another.
    pub descriptors: Vec<u8>,
    /// Framing of its units.
    pub framing: Framing,
    /// Bit rate that its decoder accepts.
    pub bits: u64,
}

impl StreamFormat {
    /// Returns the format of a track with a known setup. `None` if [`left_out`] gives a reason.
    pub fn of(track: &Track) -> Result<Option<StreamFormat>> {
        let setup = track.setup.as_deref().unwrap_or(&[]);
        let sound = |stream_type, stream_id, descriptors: Vec<u8>, framing| StreamFormat {
            stream_type,
            stream_id,
            descriptors,
            framing,
            bits: SOUND_BITS,
        };
        Ok(Some(match track.codec {
            Codec::H264 => StreamFormat {
                stream_type: 0x1b,
                stream_id: 0xe0,
                descriptors: Vec::new(),
                framing: Framing::Nal {
                    kind: Nal::H264,
                    sets: bounded(sets(setup, Nal::H264), "its avcC is cut off")?,
                },
                bits: h264_bits(byte(setup, 1), byte(setup, 3)),
            },
            Codec::H265 => StreamFormat {
                stream_type: 0x24,
                stream_id: 0xe0,
                descriptors: registration(b"HEVC"),
                framing: Framing::Nal {
                    kind: Nal::H265,
                    sets: bounded(sets(setup, Nal::H265), "its hvcC is cut off")?,
                },
                bits: h265_bits(byte(setup, 12)),
            },
            Codec::Aac => {
                let Some(head) = adts_head(setup) else {
                    return Ok(None);
                };
                let channels = (head[2] & 1) << 2 | head[3] >> 6;
                StreamFormat {
                    bits: if channels > 2 {
                        MANY_CHANNELS_BITS
                    } else {
                        SOUND_BITS
                    },
                    ..sound(0x0f, 0xc0, Vec::new(), Framing::Adts(head))
                }
            }
            Codec::MpegAudio => {
                let is_mpeg_1 = matches!(track.shape, Shape::Sound { rate: 32_000.., .. });
                let stream_type = if is_mpeg_1 { 0x03 } else { 0x04 };
                sound(stream_type, 0xc0, Vec::new(), Framing::Whole)
            }
            Codec::Ac3 => sound(0x81, 0xbd, registration(b"AC-3"), Framing::Whole),
            Codec::Eac3 => sound(0x87, 0xbd, registration(b"EAC3"), Framing::Whole),
            Codec::Opus => {
                let mut descriptors = registration(b"Opus");
                // An extension descriptor of DVB for Opus: how its channels are coded.
                descriptors.extend_from_slice(&[0x7f, 2, 0x80, opus_channels(setup)]);
                sound(0x06, 0xbd, descriptors, Framing::Opus)
            }
            Codec::Av1 | Codec::Vp8 | Codec::Vp9 => return Ok(None),
        }))
    }

    /// Returns the length of the decoder's buffer for sound (section 2.4.2.3; AC-3: ETSI TS 101
    /// 154).
    pub fn sound_buffer_bytes(&self) -> usize {
        match (self.stream_type, self.bits) {
            (0x81 | 0x87, _) => 5_696,
            (_, MANY_CHANNELS_BITS) => 8_976,
            (_, _) => 3_584,
        }
    }
}

/// Returns why MPEG-TS cannot carry a track with a known setup, if it cannot.
pub(super) fn left_out(track: &Track) -> Option<&'static str> {
    match track.codec {
        Codec::Av1 => Some("MPEG-TS cannot carry AV1"),
        Codec::Vp8 => Some("MPEG-TS cannot carry VP8"),
        Codec::Vp9 => Some("MPEG-TS cannot carry VP9"),
        Codec::Aac => match track.setup.as_deref() {
            Some(setup) if adts_head(setup).is_none() => {
                Some("neither ADTS nor MPEG-TS can carry this kind of AAC")
            }
            Some(_) | None => None,
        },
        Codec::H264 | Codec::H265 | Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 | Codec::Opus => {
            None
        }
    }
}

impl Nal {
    /// Returns the first bytes of each access unit.
    pub fn delimiter(self) -> &'static [u8] {
        match self {
            Nal::H264 => &[0, 0, 0, 1, 0x09, 0xf0],
            Nal::H265 => &[0, 0, 0, 1, 0x46, 0x01, 0x50],
        }
    }

    /// Replaces each length by a start code. Returns the number of bytes of the whole NAL units, and
    /// whether both a sequence and a picture parameter set are among them.
    pub fn put_start_codes(self, unit: &mut [u8]) -> (usize, bool) {
        let (mut at, mut sets) = (0, 0);
        while let Some(length) = unit
            .get_mut(at..)
            .and_then(|rest| rest.first_chunk_mut::<4>())
        {
            let end = at + 4 + u32::from_be_bytes(*length) as usize;
            *length = START_CODE;
            let Some(first) = unit.get(at + 4..end).and_then(|nal| nal.first()) else {
                return (at, sets == 3);
            };
            sets |= match (self, *first & 0x1f, *first >> 1 & 0x3f) {
                (Nal::H264, 7, _) | (Nal::H265, _, 33) => 1,
                (Nal::H264, 8, _) | (Nal::H265, _, 34) => 2,
                (Nal::H264 | Nal::H265, _, _) => 0,
            };
            at = end;
        }
        (at, sets == 3)
    }
}

/// Writes the head of an Opus packet: a mark, and its length as a sum of bytes (ETSI TS 103 491 has
/// the descriptor; the head is the one of Opus in MPEG-TS by Xiph).
pub(super) fn opus_head(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x7f, 0xe0]);
    out.resize(out.len() + length / 255, 255);
    out.push((length % 255) as u8);
}

/// Returns an ADTS head with its length. `None` if the length does not fit.
pub(super) fn adts_head_of(head: [u8; 7], payload_bytes: usize) -> Option<[u8; 7]> {
    let length = u16::try_from(payload_bytes + head.len()).ok()?;
    let mut head = head;
    head[3] |= (length >> 11) as u8;
    head[4] = (length >> 3) as u8;
    head[5] |= (length << 5) as u8;
    (length < 1 << 13).then_some(head)
}

/// Turns an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1) into an ADTS head. `None` if ADTS
/// cannot say it.
fn adts_head(setup: &[u8]) -> Option<[u8; 7]> {
    let mut bits = Bits::plain(setup);
    let mut object = bits.number(5)?;
    let rate = |bits: &mut Bits<'_>| match bits.number(4)? {
        15 => {
            let rate = bits.number(24)?;
            ADTS_RATES.iter().position(|known| *known == rate)
        }
        index => Some(index as usize).filter(|index| *index < ADTS_RATES.len()),
    };
    let index = rate(&mut bits)? as u8;
    let channels = bits.number(4)? as u8;
    // Band replication and parametric stereo precede the object beneath them.
    if matches!(object, 5 | 29) {
        rate(&mut bits)?;
        object = bits.number(5)?;
    }
    let is_sayable = matches!(object, 1..=4) && matches!(channels, 1..=7);
    // Lazily: an object of 0 has no such number.
    is_sayable.then(|| {
        [
            0xff,
            0xf1,
            (object as u8 - 1) << 6 | index << 2 | channels >> 2,
            (channels & 3) << 6,
            0,
            0x1f,
            0xfc,
        ]
    })
}

/// Returns the parameter sets of an `avcC` or `hvcC` after start codes, then the messages about all
/// pictures: light and colours of HDR. The message that names the encoder is left out.
fn sets(setup: &[u8], kind: Nal) -> Option<Vec<u8>> {
    const PREFIX_MESSAGE: u8 = 39;
    const OF_THE_USER: u8 = 5;
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    for (list, nal) in nals_of_setup(setup, kind == Nal::H265)? {
        let into = match (kind, list) {
            (Nal::H264, _) | (Nal::H265, 32..=34) => &mut out,
            (Nal::H265, PREFIX_MESSAGE) if nal.get(2) != Some(&OF_THE_USER) => &mut messages,
            (Nal::H265, _) => continue,
        };
        into.extend_from_slice(&START_CODE);
        into.extend_from_slice(nal);
    }
    if out.len() + messages.len() <= SETS_BYTES_MAX {
        out.extend_from_slice(&messages);
    }
    Some(out)
}

/// Returns the parameter sets, or the error `cut_off` if the setup was not whole.
fn bounded(sets: Option<Vec<u8>>, cut_off: &'static str) -> Result<Vec<u8>> {
    let sets = sets.ok_or(MediaError(cut_off))?;
    match sets.len() <= SETS_BYTES_MAX {
        true => Ok(sets),
        false => Err(MediaError("its parameter sets have more than 4,096 bytes")),
    }
}

fn registration(format: &[u8; 4]) -> Vec<u8> {
    [&[5, 4], &format[..]].concat()
}

/// Returns the code for the channels of a `dOps`: their number if they are in the usual order, and
/// otherwise "unknown".
fn opus_channels(setup: &[u8]) -> u8 {
    match (byte(setup, 10), byte(setup, 1)) {
        (0, channels @ 1..=2) | (1, channels @ 1..=8) => channels,
        _ => 0xff,
    }
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adts_head_has_the_values_of_the_setup() {
        // LC, 44.1 kHz, stereo.
        let head = adts_head(&[0x12, 0x10]).and_then(|head| adts_head_of(head, 0x173 - 7));
        assert_eq!(head, Some([0xff, 0xf1, 0x50, 0x80, 0x2e, 0x7f, 0xfc]));
        // HE-AAC: bands replicated to 48 kHz over LC of 24 kHz.
        let beneath = adts_head(&[0b0010_1011, 0b0001_0001, 0b1000_1000]);
        assert_eq!(beneath.map(|head| head[2]), Some(0b0101_1000));
        // Extended HE-AAC, a list of channels, and a config that is cut off.
        assert_eq!(adts_head(&[0xf9, 0x46, 0x40]), None);
        assert_eq!(adts_head(&[0x12, 0x00]), None);
        assert_eq!(adts_head(&[0x12]), None);
        // Band replication over no object at all.
        assert_eq!(adts_head(&[0x29, 0x91, 0x80]), None);
        assert_eq!(adts_head_of([0; 7], 8185), None);
    }

    #[test]
    fn lengths_become_start_codes_as_far_as_they_are_right() {
        let mut unit = [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x68, 0, 0, 0, 9, 0x65];
        assert_eq!(Nal::H264.put_start_codes(&mut unit), (11, true));
        assert_eq!(unit[..11], [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68]);
        let mut huge = [0xff; 8];
        assert_eq!(Nal::H265.put_start_codes(&mut huge), (0, false));
    }

    #[test]
    fn parameter_sets_are_read_from_their_boxes() {
        let setup = [1, 100, 0, 31, 0xff, 0xe1, 0, 2, 0x67, 1, 1, 0, 1, 0x68];
        let expected = [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68];
        assert_eq!(sets(&setup, Nal::H264).as_deref(), Some(&expected[..]));
        for cut in 0..setup.len() {
            assert_eq!(sets(&setup[..cut], Nal::H264), None);
        }
    }

    #[test]
    fn messages_of_hdr_follow_the_parameter_sets() {
        let array = |kind: u8, nal: &[u8]| [&[kind, 0, 1, 0, nal.len() as u8], nal].concat();
        let set = |kind: u8| array(0x80 | kind, &[kind << 1, 1, 9]);
        // Mastering display, the encoder's name, and light levels.
        let messages = [137u8, 5, 144].map(|payload| array(0x80 | 39, &[78, 1, payload, 1, 7]));
        let arrays = [set(32), messages.concat(), set(33), set(34)].concat();
        let setup = [&[0; 22][..], &[6], &arrays].concat();
        let code = [0, 0, 0, 1];
        let set = |kind: u8| [&code[..], &[kind << 1, 1, 9]].concat();
        let message = |payload: u8| [&code[..], &[78, 1, payload, 1, 7]].concat();
        let expected = [set(32), set(33), set(34), message(137), message(144)].concat();
        assert_eq!(sets(&setup, Nal::H265), Some(expected));
    }

    #[test]
    fn the_length_of_an_opus_packet_is_a_sum_of_bytes() {
        let mut out = Vec::new();
        opus_head(600, &mut out);
        assert_eq!(out, [0x7f, 0xe0, 255, 255, 90]);
    }
}
