//! What a program map says of each of its elementary streams. A stream's content, and not its place
//! in the map, decides about joins.

use super::picture::PictureCodec;
use super::psi;

/// Content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Video(PictureCodec),
    Sound,
    /// Subtitles, events, identifiers.
    Data,
}

impl Content {
    fn of(stream_type: u8, descriptors: &[u8]) -> Content {
        if let Some(codec) = PictureCodec::of_stream_type(stream_type) {
            return Content::Video(codec);
        }
        match stream_type {
            // PES packets of a codec that only the descriptors name.
            0x06 => Content::of_descriptors(descriptors),
            // MPEG-1 and 2, AAC, MPEG-4, MPEG-H; then types of ATSC and of Blu-ray discs.
            0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e => Content::Sound,
            0x80..=0x85 | 0x87 | 0x88 | 0x8a | 0xa1 | 0xa2 => Content::Sound,
            // SCTE-35 registers itself. Without that it is DTS-HD.
            0x86 if registered(descriptors) != Some(b"CUEI") => Content::Sound,
            _ => Content::Data,
        }
    }

    fn of_descriptors(descriptors: &[u8]) -> Content {
        match registered(descriptors) {
            Some(b"HEVC") => return Content::Video(PictureCodec::Hevc),
            Some(b"AV01" | b"VVC " | b"drac" | b"VC-1") => {
                return Content::Video(PictureCodec::Other);
            }
            Some(b"Opus" | b"AC-3" | b"EAC3" | b"AC-4" | b"BSSD") => return Content::Sound,
            Some(b"DTS1" | b"DTS2" | b"DTS3" | b"fLaC" | b"mp3 ") => return Content::Sound,
            Some(_) | None => {}
        }
        // DVB's own tags for AC-3, E-AC-3, DTS and AAC (ETSI EN 300 468).
        let is_sound = |(tag, _)| matches!(tag, 0x6a | 0x7a | 0x7b | 0x7c);
        if psi::descriptors(descriptors).any(is_sound) {
            Content::Sound
        } else {
            Content::Data
        }
    }
}

/// Returns the format that a registration descriptor names.
fn registered(descriptors: &[u8]) -> Option<&[u8; 4]> {
    let mut names = psi::descriptors(descriptors).filter(|(tag, _)| *tag == 5);
    names.find_map(|(_, body)| body.first_chunk::<4>())
}

/// Streams of each kind. Without video any sound decides, since a map may name some that never
/// comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Streams {
    /// First video stream.
    pub video: Option<(u16, PictureCodec)>,
    /// All sound streams.
    pub sound: Pids,
    /// All other streams.
    pub data: Pids,
}

/// The first PIDs of one kind of stream, at most [`PIDS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Pids([Option<u16>; PIDS_MAX]);

/// Enough for the languages of a film, and more.
const PIDS_MAX: usize = 12;

impl Pids {
    /// Returns whether this is one of them.
    pub fn contains(&self, pid: u16) -> bool {
        self.0.contains(&Some(pid))
    }

    fn add(&mut self, pid: u16) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(pid);
        }
    }

    /// Returns these PIDs, or the others if there are none.
    pub fn or(self, others: Pids) -> Pids {
        match self.0[0] {
            Some(_) => self,
            None => others,
        }
    }
}

impl Streams {
    /// Reads a map.
    pub fn read(map: &[u8]) -> Streams {
        let mut streams = Streams::default();
        for (stream_type, pid, descriptors) in psi::elementary_streams(map) {
            match Content::of(stream_type, descriptors) {
                Content::Video(codec) => _ = streams.video.get_or_insert((pid, codec)),
                Content::Sound => streams.sound.add(pid),
                Content::Data => streams.data.add(pid),
            }
        }
        streams
    }

    /// Takes the streams of `others` of each kind that has none.
    pub fn take_missing(&mut self, others: &Streams) {
        self.video = self.video.or(others.video);
        self.sound = self.sound.or(others.sound);
        self.data = self.data.or(others.data);
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.video.is_none() && self.sound.0[0].or(self.data.0[0]).is_none()
    }

    /// Returns whether a PID is sound or data.
    pub fn is_beside_video(&self, pid: u16) -> bool {
        self.sound.contains(pid) || self.data.contains(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each stream type, without descriptors.
    #[test]
    fn a_stream_type_names_its_content() {
        let other = [0x10, 0x20, 0x21, 0x33, 0x42, 0xd1, 0xd2, 0xea];
        let sound = [
            0x03, 0x04, 0x0f, 0x11, 0x1c, 0x2d, 0x2e, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86,
            0x87, 0x88, 0x8a, 0xa1, 0xa2,
        ];
        for kind in 0..=0xff {
            let expected = match kind {
                1 | 2 => Content::Video(PictureCodec::Mpeg12),
                0x1b => Content::Video(PictureCodec::H264),
                0x24 => Content::Video(PictureCodec::Hevc),
                _ if other.contains(&kind) => Content::Video(PictureCodec::Other),
                _ if sound.contains(&kind) => Content::Sound,
                _ => Content::Data,
            };
            assert_eq!(Content::of(kind, &[]), expected, "{kind:#x}");
        }
    }

    #[test]
    fn descriptors_name_content_that_no_stream_type_does() {
        let hevc = Content::Video(PictureCodec::Hevc);
        let other = Content::Video(PictureCodec::Other);
        for (name, kind) in [
            (b"HEVC", hevc),
            (b"AV01", other),
            (b"VVC ", other),
            (b"drac", other),
            (b"VC-1", other),
            (b"Opus", Content::Sound),
            (b"AC-3", Content::Sound),
            (b"EAC3", Content::Sound),
            (b"AC-4", Content::Sound),
            (b"BSSD", Content::Sound),
            (b"DTS1", Content::Sound),
            (b"DTS2", Content::Sound),
            (b"DTS3", Content::Sound),
            (b"fLaC", Content::Sound),
            (b"mp3 ", Content::Sound),
            (b"KLVA", Content::Data),
        ] {
            // After a descriptor of another kind, and longer than its name.
            let descriptors = [&[0x52, 1, 7, 5, 5][..], name, &[1]].concat();
            assert_eq!(Content::of(0x06, &descriptors), kind, "{name:?}");
            // A type with a meaning of its own needs no name, and another tag names nothing.
            assert_eq!(Content::of(0x0f, &descriptors), Content::Sound);
            let other_tag = [&[6, 4][..], name].concat();
            assert_eq!(Content::of(0x06, &other_tag), Content::Data);
        }
        for tag in 0..=0xff {
            let is_sound = [0x6a, 0x7a, 0x7b, 0x7c].contains(&tag);
            let kind = if is_sound {
                Content::Sound
            } else {
                Content::Data
            };
            assert_eq!(Content::of(0x06, &[tag, 1, 0]), kind, "{tag:#x}");
        }
        // Cues of SCTE-35 have the type of DTS-HD.
        assert_eq!(Content::of(0x86, b"\x05\x04CUEI"), Content::Data);
        assert_eq!(Content::of(0x86, b"\x05\x04DTS1"), Content::Sound);
    }

    #[test]
    fn the_first_program_counts_for_each_kind() {
        let stream = |kind, pid| [kind, 0xe1, pid, 0xf0, 0];
        let map = |streams: &[[u8; 5]]| [&[0xe1, 0, 0xf0, 0], &streams.concat()[..]].concat();
        let first = Streams::read(&map(&[
            stream(0x0f, 2),
            stream(0x1b, 3),
            stream(0x24, 4),
            stream(0x03, 5),
        ]));
        assert_eq!(first.video, Some((0x103, PictureCodec::H264)));
        assert!(first.sound.contains(0x102) && first.sound.contains(0x105));
        assert!(!first.sound.contains(0x103) && first.data == Pids::default());
        let second = Streams::read(&map(&[stream(0x02, 6), stream(0x0f, 7), stream(0x05, 8)]));
        assert!(second.data.contains(0x108) && second.data != Pids::default());
        let mut both = first;
        both.take_missing(&second);
        assert_eq!(
            (both.video, both.sound, both.data),
            (first.video, first.sound, second.data)
        );
        for (mut first, others) in [(Streams::default(), second), (second, Streams::default())] {
            first.take_missing(&others);
            assert_eq!(first, second);
        }
        for (pid, beside) in [(0x102, true), (0x103, false), (0x105, true), (0x108, true)] {
            assert_eq!(both.is_beside_video(pid), beside, "{pid:#x}");
        }
        // Without video sound decides, and without sound any other stream.
        assert_eq!(both.sound.or(both.data), first.sound);
        let words = Streams::read(&map(&[stream(0x05, 9)]));
        assert_eq!(words.sound.or(words.data), words.data);
        assert!(!words.is_empty() && Streams::read(&map(&[])).is_empty());
        // More than a film has are not known.
        let many: Vec<_> = (0..13).map(|pid| stream(0x0f, pid)).collect();
        let many = Streams::read(&map(&many)).sound;
        assert!(many.contains(0x100) && many.contains(0x10b) && !many.contains(0x10c));
    }
}
