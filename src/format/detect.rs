//! Detects a container by its first bytes.

use super::frames::{FOUND_FRAMES, PROOF_FRAMES, next_head, row};
use super::mpegts::{PROOF_BYTES_MAX, SYNC_BYTE, Shape};
use super::window::{Unread, grow};
use super::{Format, Unsupported, matroska};

/// Detection ends after this many bytes. That is enough for sound that begins within a frame: the
/// frames found this way have at most 1,441 bytes.
pub(super) const BYTES_MAX: usize = 12 * 1024;

/// First bytes of a stream whose format is not known yet.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Beginning {
    /// Bytes so far: at most [`BYTES_MAX`].
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    pub bytes: Vec<u8>,
    /// Position before which no run of frames begins.
    frames_from: usize,
    /// Number of bytes at which the search for a run of frames continues. 0: other containers are
    /// still possible, or a hand-over took place (it does not send this number).
    #[cfg_attr(feature = "handover", serde(skip))]
    search_at: usize,
}

impl Beginning {
    /// Takes the next byte, and returns the format that the bytes so far show. It works byte by byte,
    /// so that the result does not depend on how the bytes are cut.
    pub fn take(&mut self, byte: u8) -> Result<Format, Unread> {
        grow(&mut self.bytes, 1, BYTES_MAX);
        self.bytes.push(byte);
        let is_last = self.bytes.len() == BYTES_MAX;
        if self.search_at > 0 {
            return self.search(is_last);
        }
        match detect(&self.bytes) {
            Err(Unread::Other(_)) if !is_other_format(&self.bytes) => self.search(is_last),
            Err(Unread::Needs(_)) if is_last => self.search(true),
            detected => detected,
        }
    }

    /// Returns whether the bytes can only be bare sound or of unknown format. Both can go out
    /// before the format is known.
    pub fn may_be_sound_only(&self) -> bool {
        self.bytes.len() > PROOF_BYTES_MAX && !self.bytes.starts_with(EBML)
    }

    /// Searches for a run of frames. A relayed radio stream begins within a frame, and zeros may
    /// precede the sound. Each byte is tried once as the first byte of a frame.
    fn search(&mut self, is_last: bool) -> Result<Format, Unread> {
        if self.bytes.len() < self.search_at && !is_last {
            return Err(Unread::Needs(self.search_at));
        }
        loop {
            self.frames_from = next_head(&self.bytes, self.frames_from);
            if self.frames_from >= self.bytes.len() {
                break;
            }
            match row(&self.bytes[self.frames_from..], None, FOUND_FRAMES) {
                Ok(frame) => return Ok(frame.codec().format()),
                Err(Unread::Needs(length)) if !is_last => {
                    return self.wait_for(self.frames_from + length);
                }
                Err(_) => self.frames_from += 1,
            }
        }
        if is_last {
            return Err(Unsupported.into());
        }
        self.wait_for(self.bytes.len() + 1)
    }

    /// Ends a search until there are `needed` bytes.
    fn wait_for(&mut self, needed: usize) -> Result<Format, Unread> {
        if self.bytes.len() > PROOF_BYTES_MAX {
            self.search_at = needed;
        }
        Err(Unread::Needs(needed))
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset: it has them all.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, offset: u64) -> bool {
        let length = self.bytes.len();
        length as u64 == offset && length <= BYTES_MAX
    }
}

/// First bytes of formats that may contain runs of frames but cannot be joined: AVI and WAVE, AIFF,
/// CAF, RealMedia, NSV, FLAC, MPEG program streams, ASF, and EBML other than Matroska.
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

/// Returns whether the bytes begin a format that cannot be joined: one of [`OTHERS`], QuickTime, or
/// text. The search for frames is left out for these.
fn is_other_format(bytes: &[u8]) -> bool {
    let is_other = OTHERS.iter().any(|other| bytes.starts_with(other));
    // A box of QuickTime.
    let is_box = |name: &[u8]| name.iter().all(u8::is_ascii_lowercase);
    // LAME stuffs frames with this. It is not text.
    let is_stuffing = bytes.starts_with(b"UUUU");
    is_other || bytes.get(4..8).is_some_and(is_box) || begins_as_text(bytes) && !is_stuffing
}

fn begins_as_text(bytes: &[u8]) -> bool {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let first = bytes.get(..TEXT_BYTES);
    first.is_some_and(|first| first.iter().all(is_text) && first[0] != SYNC_BYTE)
}

/// Number of bytes of text that prove that a stream is text, and not a transport stream that begins
/// within a packet.
const TEXT_BYTES: usize = 16;

/// Returns whether these bytes may be the first part of a container's magic number. While they may,
/// a viewer gets no response, since the media type is unknown. A transport stream that begins within a packet does
/// not count: any byte may begin one.
pub(super) fn may_be_magic(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(SYNC_BYTE | FRAME_SYNC)))
        || bytes.starts_with(EBML)
        || EBML.starts_with(bytes)
        || may_be_mp4(bytes)
        || MAGICS.iter().any(|(magic, _)| magic.starts_with(bytes))
}

/// First byte of a frame of MPEG audio or ADTS.
const FRAME_SYNC: u8 = 0xff;
const EBML: &[u8] = &[0x1a, 0x45, 0xdf, 0xa3];

/// Formats that a few bytes identify.
const MAGICS: [(&[u8], Format); 3] = [
    (b"OggS\0", Format::Ogg),
    (b"FLV\x01", Format::Flv),
    (b"ID3", Format::Mp3),
];

/// Returns the format of a stream that begins with these bytes. The caller asks again with each
/// byte until the format is clear.
fn detect(bytes: &[u8]) -> Result<Format, Unread> {
    let more = Unread::Needs(bytes.len() + 1);
    for (magic, format) in MAGICS {
        if bytes.starts_with(magic) {
            return Ok(format);
        }
        if magic.starts_with(bytes) {
            return Err(more);
        }
    }
    if bytes.starts_with(EBML) {
        return matroska::doc_type(bytes);
    }
    if EBML.starts_with(bytes) {
        return Err(more);
    }
    if may_be_mp4(bytes) {
        return if bytes.len() >= 8 {
            Ok(Format::Mp4)
        } else {
            Err(more)
        };
    }
    if bytes.first() == Some(&FRAME_SYNC) {
        match row(bytes, None, PROOF_FRAMES) {
            Err(Unread::Other(_)) => {}
            frame_or_needs => return Ok(frame_or_needs?.codec().format()),
        }
    }
    detect_mpegts(bytes)
}

/// Returns whether the first box may be one that MP4 files begin with. From eight bytes on the
/// answer is certain.
fn may_be_mp4(bytes: &[u8]) -> bool {
    let kind = bytes.get(4..8.min(bytes.len())).unwrap_or(&[]);
    // The first box is small.
    bytes.first() == Some(&0)
        && [b"ftyp", b"styp"]
            .iter()
            .any(|known| known.starts_with(kind))
}

/// Detects MPEG-TS by sync bytes that are one packet apart. The first one may be at any offset
/// below a packet's length.
fn detect_mpegts(bytes: &[u8]) -> Result<Format, Unread> {
    // Only the newest byte can be the last of them.
    let is_early = bytes.len() <= PROOF_BYTES_MAX && bytes.last() == Some(&SYNC_BYTE);
    let is_proved = |shape: Shape| is_early && shape.is_proved_by_last(bytes);
    if Shape::ALL.into_iter().any(is_proved) {
        Ok(Format::MpegTs)
    } else if bytes.len() >= PROOF_BYTES_MAX || begins_as_text(bytes) {
        Err(Unsupported.into())
    } else {
        Err(Unread::Needs(bytes.len() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After this many bytes it is clear whether the stream is MPEG-TS.
    const PROOF: usize = 816;
    const MOST: usize = 12 * 1024;
    const UNKNOWN: Result<Format, Unread> = Err(Unread::Other(Unsupported));
    /// More bytes are needed to decide.
    const MORE: Result<Format, Unread> = Err(Unread::Needs(0));

    /// Returns the verdict, and the number of bytes that it takes.
    fn told(bytes: &[u8]) -> (Result<Format, Unread>, usize) {
        let mut beginning = Beginning::default();
        for (index, byte) in bytes.iter().enumerate() {
            let detected = beginning.take(*byte);
            assert_eq!(&beginning.bytes, &bytes[..=index]);
            #[cfg(feature = "handover")]
            assert!(beginning.is_valid(index as u64 + 1));
            if !matches!(detected, Err(Unread::Needs(needed)) if needed > index + 1) {
                return (detected, index + 1);
            }
        }
        (MORE, bytes.len())
    }

    fn known(format: Format, with: usize) -> (Result<Format, Unread>, usize) {
        (Ok(format), with)
    }

    /// A frame of MPEG audio: layer III, 128 kbit/s, 44.1 kHz.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0xff, 0xfb, 0x90, 0x00];
        frame.resize(417, 0x55);
        frame
    }

    #[test]
    fn a_container_is_detected_with_as_few_bytes_as_possible() {
        let webm = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm";
        let other = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84else";
        for (bytes, detection) in [
            (&b"OggS\0xxx"[..], known(Format::Ogg, 5)),
            (b"FLV\x01xxx", known(Format::Flv, 4)),
            (b"ID3xxx", known(Format::Mp3, 3)),
            (webm, known(Format::WebM, 12)),
            (
                b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska",
                known(Format::Matroska, 16),
            ),
            (b"\0\0\0\x18ftypisom", known(Format::Mp4, 8)),
            (b"\0\x01\xff\x18stypmsdh", known(Format::Mp4, 8)),
            // It may become a transport stream whose first packet is cut.
            (b"OggS\x01xxx", (MORE, 908)),
            (b"FLV\x02xxx", (MORE, 907)),
            (b"\0\0\0\x18free", (UNKNOWN, 816)),
        ] {
            let padded = [bytes, &[0; 900]].concat();
            assert_eq!(told(&padded), detection, "{bytes:x?}");
        }
        // Unknown EBML may carry sound. Nobody searches it for frames.
        assert_eq!(
            told(&[other, &frame().repeat(9)[..]].concat()),
            (UNKNOWN, 12)
        );
        let three = frame().repeat(3);
        assert_eq!(told(&three), known(Format::Mp3, 2 * 417 + 6));
    }

    #[test]
    fn a_transport_stream_may_begin_within_a_packet() {
        for (length, proof) in [(188, 377), (204, 613)] {
            for first in [0, 1, 100, length - 1] {
                let mut bytes = vec![0xee; first];
                for _ in 0..6 {
                    bytes.push(SYNC_BYTE);
                    bytes.resize(bytes.len() + length - 1, 0xee);
                }
                assert_eq!(told(&bytes), known(Format::MpegTs, first + proof));
                // Detection asks with each byte, up to as many as prove any shape.
                let late = [&vec![0xee; 900 - first][..], &bytes].concat();
                assert_eq!(told(&late).0, MORE);
            }
        }
        // This many bytes decide, and not one less.
        let mut bytes = vec![0xee; PROOF];
        for (end, is_one) in [(PROOF, true), (PROOF + 1, false)] {
            bytes.resize(PROOF + 1, 0xee);
            let mut bytes = bytes[..end].to_vec();
            for place in [1, 189, 377] {
                bytes[end - place] = SYNC_BYTE;
            }
            let expected = if is_one { Ok(Format::MpegTs) } else { UNKNOWN };
            assert_eq!(detect_mpegts(&bytes), expected, "{end} bytes");
            assert_eq!(detect_mpegts(&vec![0xee; end]), UNKNOWN);
        }
        let needed = Err(Unread::Needs(PROOF));
        assert_eq!(detect_mpegts(&[0xee; PROOF - 1]), needed);
    }

    #[test]
    fn known_formats_that_carry_sound_are_not_searched_for_frames() {
        let sound = frame().repeat(6);
        for other in OTHERS {
            let mut bytes = [other, &[0xee; 20], &sound].concat();
            assert_eq!(told(&bytes).0, UNKNOWN, "{other:x?}");
            // With one wrong byte it is searched.
            bytes[1] ^= 0x80;
            assert_eq!(told(&bytes).0, Ok(Format::Mp3), "{other:x?}");
        }
        // A box of QuickTime, and bytes that are no box.
        for (name, is_box) in [
            (b"wide", true),
            (b"mdat", true),
            (b"Mdat", false),
            (b"mda1", false),
        ] {
            let bytes = [&[9, 0, 0, 8][..], name, &[0xee; 20], &sound].concat();
            let is_known = told(&bytes).0 == Ok(Format::Mp3);
            assert_eq!(is_known, !is_box, "{name:?}");
        }
    }

    #[test]
    fn sixteen_bytes_of_text_are_text() {
        let sound = frame().repeat(6);
        for (text, is_text) in [
            (&b"#EXTM3U\r\n\t#x xyz"[..], true),
            (b"<!DOCTYPE html>\n", true),
            (b"<!DOCTYPE html>\x01", false),
            (b"<!DOCTYPE htm\xffl>", false),
            // LAME's stuffing, and the first byte of a packet.
            (b"UUUUUUUUUUUUUUUU", false),
            (b"G123456789ABCDEF", false),
        ] {
            assert_eq!(text.len(), 16);
            let bytes = [text, &sound].concat();
            let expected = if is_text {
                (UNKNOWN, 16)
            } else {
                known(Format::Mp3, 16 + 5 * 417 + 6)
            };
            assert_eq!(told(&bytes), expected, "{text:?}");
            assert_eq!(told(&text[..15]).0, MORE);
        }
    }

    #[test]
    fn sound_that_begins_within_a_frame_is_detected_by_six_frames_in_a_row() {
        let junk = [1, 2, 3];
        let with = |frames: usize| [&junk[..], &frame().repeat(frames)].concat();
        assert_eq!(told(&with(6)), known(Format::Mp3, 3 + 5 * 417 + 6));
        assert_eq!(told(&with(5)).0, MORE);
        // After the last byte the format is unknown. A frame that the end cuts off does not count.
        let mut bytes = vec![0; MOST];
        assert_eq!(told(&bytes), (UNKNOWN, MOST));
        let begin = MOST - 5 * 417 - 6;
        bytes[begin..].copy_from_slice(&frame().repeat(6)[..5 * 417 + 6]);
        assert_eq!(told(&bytes), known(Format::Mp3, MOST));
        bytes.insert(0, 0);
        assert_eq!(told(&bytes), (UNKNOWN, MOST));
        // A row in front that something else cuts off does not hide it.
        let bytes = [&with(3)[..], &[0; 30], &frame().repeat(6)].concat();
        assert_eq!(told(&bytes).0, Ok(Format::Mp3));
        // A head that could begin a row up to the end.
        let mut bytes = vec![0; MOST];
        bytes[MOST - 4..].copy_from_slice(&frame()[..4]);
        assert_eq!(told(&bytes), (UNKNOWN, MOST));
        // Frames of ADTS so long that three of them do not come in time.
        let mut bytes = [0xff, 0xf1, 0x50, 0x83, 0xff, 0xff, 0xfc].to_vec();
        bytes.resize(8191, 0x55);
        let bytes = bytes.repeat(2);
        assert_eq!(told(&bytes), (UNKNOWN, MOST));
    }

    /// A head says how long its frame is. The frame's bytes are not looked at one by one.
    #[test]
    fn frames_are_looked_for_only_where_a_byte_can_tell() {
        let mut bytes = vec![0xee; 2_000];
        bytes[1_000..1_004].copy_from_slice(&frame()[..4]);
        let mut beginning = Beginning::default();
        for (index, byte) in bytes.into_iter().enumerate() {
            assert!(matches!(beginning.take(byte), Err(Unread::Needs(_))));
            match index {
                0..816 => assert_eq!(beginning.search_at, 0, "a transport stream may begin"),
                1_006..1_417 => assert_eq!(beginning.search_at, 1_000 + 417 + 1),
                1_417.. => assert_eq!(beginning.search_at, index + 2),
                _ => {}
            }
        }
    }

    #[test]
    fn bytes_that_may_begin_a_container_are_magic() {
        let all = [
            &b"OggS\0"[..],
            b"FLV\x01",
            b"ID3",
            EBML,
            b"\0\0\0\x20ftyp",
            b"\0\x12\x34\x56styp",
            b"\xff\xfb",
            b"G",
        ];
        for magic in all {
            for length in 0..=magic.len() {
                assert!(may_be_magic(&magic[..length]), "{length} of {magic:x?}");
            }
        }
        assert!(
            may_be_magic(b"\x1a\x45\xdf\xa3\x9f\x42"),
            "until its head is whole"
        );
        assert!(may_be_magic(b"G and more") && may_be_magic(b"\xff\0"));
        for other in [
            &b"x"[..],
            b"OggT",
            b"OggS\0\0",
            b"FLW",
            b"ID4",
            b"\x1a\x45\xdf\xa4",
            b"\x01\0\0\x20ftyp",
            b"\0\0\0\x20ftyq",
            b"\0\0\0\x20x",
            b"\xfe",
        ] {
            assert!(!may_be_magic(other), "{other:x?}");
        }
    }

    /// Sound begins anywhere, and nobody has to cut it.
    #[test]
    fn bytes_that_can_only_be_sound_can_go_out() {
        let of = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            Beginning {
                bytes,
                frames_from: 0,
                search_at: 0,
            }
        };
        assert!(!of(&[0; PROOF]).may_be_sound_only());
        assert!(of(&[0; PROOF + 1]).may_be_sound_only());
        let ebml = [EBML, &[0; PROOF]].concat();
        assert!(!of(&ebml).may_be_sound_only());
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_beginning_that_is_too_long_is_refused() {
        let fits = |bytes_told: usize, bytes: usize| {
            let beginning = Beginning {
                bytes: vec![0; bytes],
                ..Beginning::default()
            };
            beginning.is_valid(bytes_told as u64)
        };
        assert!(fits(MOST, MOST) && fits(0, 0));
        assert!(!fits(MOST + 1, MOST + 1) && !fits(8, 7) && !fits(6, 7));
    }
}
