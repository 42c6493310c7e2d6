//! Reads what a program's map says about its streams.

use super::super::medium::Codec;
use super::super::sound;
use crate::format::mpegts::psi;

/// Stream that a map names.
pub(super) struct MapEntry<'a> {
    /// PID of its packets.
    pub pid: u16,
    /// Codec. `None` if it cannot be carried.
    pub codec: Option<Codec>,
    /// The stream type. It names a stream that is left out.
    pub stream_type: u8,
    descriptors: &'a [u8],
}

impl<'a> MapEntry<'a> {
    /// Reads an entry of a map.
    pub fn read((stream_type, pid, descriptors): (u8, u16, &'a [u8])) -> MapEntry<'a> {
        let codec = match stream_type {
            0x1b => Some(Codec::H264),
            0x24 => Some(Codec::H265),
            0x0f => Some(Codec::Aac),
            0x03 | 0x04 => Some(Codec::MpegAudio),
            0x81 => Some(Codec::Ac3),
            0x87 => Some(Codec::Eac3),
            // Codecs that only the descriptors name: first as registered, then in the form of DVB.
            0x06 => psi::descriptors(descriptors).find_map(|(tag, body)| match (tag, body) {
                (5, [b'H', b'E', b'V', b'C', ..]) => Some(Codec::H265),
                (5, [b'A', b'C', b'-', b'3', ..]) | (0x6a, _) => Some(Codec::Ac3),
                (5, [b'E', b'A', b'C', b'3', ..]) | (0x7a, _) => Some(Codec::Eac3),
                (5, [b'O', b'p', b'u', b's', ..]) => Some(Codec::Opus),
                _ => None,
            }),
            _ => None,
        };
        MapEntry {
            pid,
            codec,
            stream_type,
            descriptors,
        }
    }

    /// Returns the setup of Opus, whose frames do not contain it.
    pub fn setup(&self) -> Option<Box<[u8]>> {
        let mut descriptors = psi::descriptors(self.descriptors);
        let channels = descriptors.find_map(|(tag, body)| match (tag, body) {
            (0x7f, [0x80, channels, ..]) => Some(*channels),
            _ => None,
        });
        let channels = channels.filter(|_| self.codec == Some(Codec::Opus))?;
        sound::opus_of_channels(channels).map(Vec::into_boxed_slice)
    }
}
