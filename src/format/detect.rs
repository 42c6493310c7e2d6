//! Telling a container by its first bytes.

use super::frames::{self, Chain};
use super::mpegts::{PROOF_BYTES_MAX, SYNC_BYTE, Shape};
use super::window::grow;
use super::{Format, matroska};

/// What the first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    Known(Format),
    /// It depends on what follows.
    More,
    Unknown,
}

/// With so many bytes every container has shown itself: even sound that begins within a frame,
/// whose frames have 1,441 bytes at most as they are found.
pub(super) const BYTES_MAX: usize = 12 * 1024;

/// The bytes of a stream that has not been told yet.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Beginning {
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    /// No frames in a row begin before this place.
    frames_from: usize,
}

impl Beginning {
    /// Takes the next byte. Byte by byte, so that the verdict falls at the same one however they
    /// come.
    pub fn take(&mut self, byte: u8) -> Detection {
        grow(&mut self.bytes, 1, BYTES_MAX);
        self.bytes.push(byte);
        let is_last = self.bytes.len() == BYTES_MAX;
        match detect(&self.bytes) {
            Detection::Unknown if !names_another(&self.bytes) => self.search(is_last),
            Detection::More if is_last => self.search(true),
            detection => detection,
        }
    }

    /// Those that were taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether all that it may still be is sound, whose frames nobody has to cut, or nothing known.
    pub fn may_be_sound_only(&self) -> bool {
        self.bytes.len() > PROOF_BYTES_MAX && !self.bytes.starts_with(EBML)
    }

    /// Bytes that its allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Radio that is passed on from the middle begins within a frame; zeros may come first, too.
    /// Each byte is tried once as a frame's first.
    fn search(&mut self, is_last: bool) -> Detection {
        while self.frames_from < self.bytes.len() {
            match frames::found_within(&self.bytes[self.frames_from..]) {
                Chain::Yes(codec) => return Detection::Known(codec.format()),
                Chain::More if !is_last => return Detection::More,
                Chain::More | Chain::No => self.frames_from += 1,
            }
        }
        if is_last {
            Detection::Unknown
        } else {
            Detection::More
        }
    }
}

/// What carries frames of sound in rows, and is not joined: AVI and WAVE, AIFF, CAF, RealMedia,
/// NSV, FLAC, an MPEG program stream, ASF, EBML that is no Matroska.
const OTHERS: [&[u8]; 11] = [
    b"RIFF",
    b"RIFX",
    b"RF64",
    b"FORM",
    b"caff",
    b".RMF",
    b"NSVf",
    b"fLaC",
    &[0, 0, 1, 0xba],
    &[0x30, 0x26, 0xb2, 0x75],
    EBML,
];

/// Whether these are the first bytes of something else that may carry frames of sound, or of text.
fn names_another(bytes: &[u8]) -> bool {
    let is_other = OTHERS.iter().any(|other| bytes.starts_with(other));
    // A box of QuickTime's.
    let is_box = |name: &[u8]| name.iter().all(u8::is_ascii_lowercase);
    // What LAME stuffs frames with is no text.
    let is_stuffing = bytes.starts_with(b"UUUU");
    is_other || bytes.get(4..8).is_some_and(is_box) || begins_as_text(bytes) && !is_stuffing
}

fn begins_as_text(bytes: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let first = bytes.get(..TEXT_BYTES);
    first.is_some_and(|first| first.iter().all(is_text) && first[0] != SYNC_BYTE)
}

/// So many bytes of text at the beginning are text, and no transport stream that begins within a
/// packet.
const TEXT_BYTES: usize = 16;

/// Whether the first bytes may be the beginning of a container's. Until they are told apart a
/// viewer's response waits; for a transport stream that begins within a packet, which any byte may,
/// it does not.
pub(super) fn may_be_magic(bytes: &[u8]) -> bool {
    match bytes.first() {
        None => true,
        Some(&(SYNC_BYTE | FRAME_SYNC)) => true,
        Some(_) if bytes.starts_with(EBML) || EBML.starts_with(bytes) => true,
        Some(_) if may_be_mp4(bytes) => true,
        Some(_) => MAGICS.iter().any(|(magic, _)| magic.starts_with(bytes)),
    }
}

/// What a frame of MPEG audio or ADTS begins with.
const FRAME_SYNC: u8 = 0xff;
const EBML: &[u8] = &[0x1a, 0x45, 0xdf, 0xa3];

/// Containers that a few bytes tell.
const MAGICS: [(&[u8], Format); 3] = [
    (b"OggS\0", Format::Ogg),
    (b"FLV\x01", Format::Flv),
    (b"ID3", Format::Mp3),
];

/// What a stream is of which these bytes are the beginning of a unit, or of a packet's rest. Asked
/// again with each byte until it is clear.
fn detect(bytes: &[u8]) -> Detection {
    for (magic, format) in MAGICS {
        if bytes.starts_with(magic) {
            return Detection::Known(format);
        }
        if magic.starts_with(bytes) {
            return Detection::More;
        }
    }
    if bytes.starts_with(EBML) {
        return match matroska::doc_type(bytes) {
            Some(Some(format)) => Detection::Known(format),
            Some(None) => Detection::Unknown,
            None => Detection::More,
        };
    }
    if EBML.starts_with(bytes) {
        return Detection::More;
    }
    if may_be_mp4(bytes) {
        return if bytes.len() >= 8 {
            Detection::Known(Format::Mp4)
        } else {
            Detection::More
        };
    }
    if bytes.first() == Some(&FRAME_SYNC) {
        match frames::detect(bytes) {
            Chain::Yes(codec) => return Detection::Known(codec.format()),
            Chain::More => return Detection::More,
            Chain::No => {}
        }
    }
    transport(bytes)
}

/// Whether a box of a type that a file begins with may stand in front; certain with eight bytes.
fn may_be_mp4(bytes: &[u8]) -> bool {
    let kind = bytes.get(4..8.min(bytes.len())).unwrap_or(&[]);
    // The first box is a small one.
    bytes.first() == Some(&0)
        && [b"ftyp", b"styp"]
            .iter()
            .any(|known| known.starts_with(kind))
}

/// Sync bytes a packet apart, wherever the first lies within the first packet's length.
fn transport(bytes: &[u8]) -> Detection {
    // Only the newest byte can be the last of them.
    let is_early = bytes.len() <= PROOF_BYTES_MAX;
    let is_proved = |shape: Shape| is_early && shape.is_proved_by_last(bytes);
    if Shape::ALL.into_iter().any(is_proved) {
        Detection::Known(Format::MpegTs)
    } else if bytes.len() >= PROOF_BYTES_MAX || begins_as_text(bytes) {
        Detection::Unknown
    } else {
        Detection::More
    }
}

#[cfg(feature = "handover")]
impl Beginning {
    /// Whether what was told of it can be.
    pub fn fits(&self) -> bool {
        self.bytes.len() <= BYTES_MAX && self.frames_from <= self.bytes.len()
    }
}
