//! Whether a picture can be decoded by itself, for encoders that do not say so: a look at the
//! beginning of its PES packet.
//!
//! (H.264: ISO/IEC 14496-10 table 7-1; HEVC: ISO/IEC 23008-2 table 7-1; MPEG-2 video: ISO/IEC
//! 13818-2 section 6.2.)

/// The video codings that matter to where decoding can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Mpeg12,
    H264,
    Hevc,
    /// Only the random-access indicator tells.
    Other,
}

impl Codec {
    /// `None` if a stream of this type is no video.
    pub fn of_stream_type(kind: u8) -> Option<Codec> {
        match kind {
            0x01 | 0x02 => Some(Codec::Mpeg12),
            0x1b => Some(Codec::H264),
            0x24 => Some(Codec::Hevc),
            0x10 | 0x20 | 0x21 | 0x33 | 0x42 | 0xd1 | 0xd2 | 0xea => Some(Codec::Other),
            _ => None,
        }
    }

    /// Whether the PES packet that begins here begins with a key picture, as far as its first bytes
    /// show.
    pub fn begins_key_picture(self, pes: &[u8]) -> bool {
        let Some(coded) = elementary(pes) else {
            return false;
        };
        let mut units = coded
            .windows(4)
            .filter(|bytes| bytes[..3] == [0, 0, 1])
            .map(|bytes| bytes[3]);
        match self {
            Codec::Mpeg12 => units.next() == Some(0xb3),
            // Delimiters and messages may stand in front; a parameter set stands in front of a key
            // picture.
            Codec::H264 => matches!(
                units
                    .map(|unit| unit & 0x1f)
                    .find(|kind| !matches!(kind, 6 | 9)),
                Some(5 | 7)
            ),
            Codec::Hevc => {
                let kind = units
                    .map(|unit| unit >> 1 & 0x3f)
                    .find(|kind| !matches!(kind, 35 | 39 | 40));
                matches!(kind, Some(16..=21 | 32))
            }
            Codec::Other => false,
        }
    }
}

/// What lies behind the head of a PES packet (ISO/IEC 13818-1 section 2.4.3.6).
fn elementary(pes: &[u8]) -> Option<&[u8]> {
    match pes {
        [
            0,
            0,
            1,
            0xe0..=0xef | 0xfd,
            _,
            _,
            _,
            _,
            head_bytes,
            rest @ ..,
        ] => rest.get(usize::from(*head_bytes)..),
        _ => None,
    }
}
