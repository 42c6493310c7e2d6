//! Reads a TrackEntry.

use super::super::medium::{Codec, MediaError, SECOND, Shape};
use super::super::sound;
use crate::format::ebml;

/// Content of a TrackEntry.
pub(super) struct Setup<'a> {
    /// Number by which blocks name the track.
    pub number: u64,
    /// Name of the codec in the registry.
    pub codec_id: &'a [u8],
    /// Codec. `None` if it cannot be carried.
    pub codec: Option<Codec>,
    /// Private data of the codec.
    private: &'a [u8],
    /// Shape, as far as the entry says it.
    pub shape: Shape,
    /// Duration of a frame in nanoseconds.
    pub frame: Option<i64>,
    /// Nanoseconds by which all times are late.
    pub delay: i64,
    /// Bytes that the track strips from each frame.
    pub front: &'a [u8],
}

const FRONT_BYTES_MAX: usize = 256;

impl Setup<'_> {
    /// Reads the content of a TrackEntry.
    pub fn read(entry: &[u8]) -> Setup<'_> {
        const FIELDS: [u32; 9] = [
            0xd7, 0x86, 0x63a2, 0x83, 0xe0, 0xe1, 0x6d80, 0x23_e383, 0x56aa,
        ];
        let [
            number,
            codec_id,
            private,
            kind,
            video,
            audio,
            encodings,
            frame,
            delay,
        ] = ebml::fields(entry, FIELDS);
        let codec_id = codec_id.unwrap_or_default();
        let codec_id = codec_id.split(|byte| *byte == 0).next().unwrap_or_default();
        let codec = codec(codec_id);
        let shape = match kind.map(ebml::unsigned) {
            Some(1) => shape_of_video(video.unwrap_or_default()),
            _ => shape_of_audio(audio.unwrap_or_default()),
        };
        let front = encodings.map_or(Some(&[][..]), front);
        let signed = |field: Option<&[u8]>| i64::try_from(ebml::unsigned(field?)).ok();
        let frame = signed(frame).filter(|frame| *frame > 0);
        let lasts = match (codec, shape) {
            (Some(Codec::Aac), Shape::Sound { rate, .. }) => {
                1_024_000_000_000i64.checked_div(i64::from(rate))
            }
            _ => None,
        };
        Setup {
            number: number.map_or(0, ebml::unsigned),
            codec_id,
            codec: codec.filter(|_| front.is_some()),
            private: private.unwrap_or_default(),
            shape,
            frame: frame.or(lasts),
            delay: signed(delay).filter(|delay| *delay < SECOND).unwrap_or(0),
            front: front.unwrap_or_default(),
        }
    }

    /// Returns whether the CodecPrivate is missing and the decoder needs it.
    pub fn lacks_private(&self) -> bool {
        let needs = matches!(self.codec, Some(Codec::Av1 | Codec::Aac | Codec::Opus));
        needs && self.private.is_empty()
    }

    /// Returns the codec's setup in the form of ISO BMFF, if the entry has it.
    pub fn record(&self) -> Result<Option<Vec<u8>>, MediaError> {
        Ok(match self.codec {
            _ if self.private.is_empty() => None,
            Some(Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Aac) => {
                Some(self.private.to_vec())
            }
            Some(Codec::Opus) => {
                let setup = sound::opus_setup(self.private);
                Some(setup.ok_or(MediaError("the head of Opus is not whole"))?)
            }
            // Their frames contain it.
            Some(Codec::Vp8 | Codec::Vp9 | Codec::MpegAudio | Codec::Ac3 | Codec::Eac3) | None => {
                None
            }
        })
    }
}

fn unsigned(element: &[u8], wanted: u32) -> Option<u64> {
    ebml::find(element, wanted).map(ebml::unsigned)
}

fn codec(codec_id: &[u8]) -> Option<Codec> {
    match codec_id {
        b"V_MPEG4/ISO/AVC" => Some(Codec::H264),
        b"V_MPEGH/ISO/HEVC" => Some(Codec::H265),
        b"V_AV1" => Some(Codec::Av1),
        b"V_VP8" => Some(Codec::Vp8),
        b"V_VP9" => Some(Codec::Vp9),
        b"A_AAC" => Some(Codec::Aac),
        b"A_MPEG/L1" | b"A_MPEG/L2" | b"A_MPEG/L3" => Some(Codec::MpegAudio),
        b"A_AC3" => Some(Codec::Ac3),
        b"A_EAC3" => Some(Codec::Eac3),
        b"A_OPUS" => Some(Codec::Opus),
        _ => None,
    }
}

fn shape_of_video(video: &[u8]) -> Shape {
    let side = |side: Option<&[u8]>| u16::try_from(side.map_or(0, ebml::unsigned)).unwrap_or(0);
    let [width, height] = ebml::fields(video, [0xb0, 0xba]).map(side);
    Shape::Pictures { width, height }
}

fn shape_of_audio(audio: &[u8]) -> Shape {
    let [rate, channels] = ebml::fields(audio, [0xb5, 0x9f]);
    Shape::Sound {
        rate: float(rate.unwrap_or_default()) as u32,
        channels: channels.map_or(1, ebml::unsigned) as u8,
    }
}

fn float(field: &[u8]) -> f64 {
    match (field.first_chunk::<8>(), field.first_chunk::<4>()) {
        (Some(bytes), _) => f64::from_be_bytes(*bytes),
        (None, Some(bytes)) => f64::from(f32::from_be_bytes(*bytes)),
        (None, None) => 8000.0,
    }
}

/// Returns the bytes that the track strips from each frame. `None` if it changes frames in any
/// other way.
fn front(encodings: &[u8]) -> Option<&[u8]> {
    let mut encodings = ebml::elements(encodings).filter(|(id, _)| *id == 0x6240);
    let Some((_, encoding)) = encodings.next() else {
        return Some(&[]);
    };
    let compression = ebml::find(encoding, 0x5034)?;
    let is_alone = encodings.next().is_none() && ebml::find(encoding, 0x5035).is_none();
    // Only of frames, by header stripping.
    let is_front = unsigned(encoding, 0x5032).is_none_or(|scope| scope == 1)
        && unsigned(compression, 0x4254) == Some(3);
    let front = ebml::find(compression, 0x4255).unwrap_or_default();
    (is_alone && is_front && front.len() <= FRONT_BYTES_MAX).then_some(front)
}
