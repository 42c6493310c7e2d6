//! Telling a container by its first bytes.

use super::frames::{self, Chain, Codec};
use super::mpegts::{PACKET_BYTES, SYNC_BYTE};
use super::{Format, matroska};

/// What the first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    Known(Format),
    /// It depends on what follows.
    More,
    Unknown,
}

/// With so many bytes every container has shown itself.
pub(super) const BYTES_MAX: usize = 8 * 1024;

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

/// What a stream is that begins with these bytes. Asked again with each byte until it is clear.
pub(super) fn detect(bytes: &[u8]) -> Detection {
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
        for (codec, format) in [(Codec::Mpeg, Format::Mp3), (Codec::Adts, Format::Aac)] {
            match frames::detect(bytes, codec) {
                Chain::Yes => return Detection::Known(format),
                Chain::More => return Detection::More,
                Chain::No => {}
            }
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

/// Three sync bytes a packet apart, wherever the first lies within the first packet's length.
fn transport(bytes: &[u8]) -> Detection {
    let is_sync = |at: usize| bytes.get(at) == Some(&SYNC_BYTE);
    let Some(last) = bytes.len().checked_sub(1) else {
        return Detection::More;
    };
    // Only the newest byte can be the third.
    if let Some(first) = last.checked_sub(2 * PACKET_BYTES)
        && is_sync(first)
        && is_sync(first + PACKET_BYTES)
        && is_sync(last)
    {
        return Detection::Known(Format::MpegTs);
    }
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let is_over = bytes.len() >= 3 * PACKET_BYTES;
    let begins_as_text = bytes.len() >= TEXT_BYTES
        && bytes[..TEXT_BYTES].iter().all(is_text)
        && bytes[0] != SYNC_BYTE;
    if is_over || begins_as_text {
        Detection::Unknown
    } else {
        Detection::More
    }
}
