//! What a program map says of each of its elementary streams: which of them decides where decoding
//! can begin goes by what they carry, not by their places in the map.

use super::picture::Codec;
use super::psi;

/// What a stream carries, as far as that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Video(Codec),
    Sound,
    /// Words, pictures of words, events, identifiers.
    Data,
}

impl Kind {
    fn of(stream_type: u8, descriptors: &[u8]) -> Kind {
        if let Some(codec) = Codec::of_stream_type(stream_type) {
            return Kind::Video(codec);
        }
        match stream_type {
            // PES packets of something that only the descriptors name.
            0x06 => Kind::of_descriptors(descriptors),
            // MPEG-1 and 2, AAC, MPEG-4, MPEG-H; then ATSC's and those of Blu-ray discs.
            0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e => Kind::Sound,
            0x80..=0x85 | 0x87 | 0x88 | 0x8a | 0xa1 | 0xa2 => Kind::Sound,
            // SCTE-35 says so; without that it is DTS-HD.
            0x86 if registered(descriptors) != Some(b"CUEI") => Kind::Sound,
            _ => Kind::Data,
        }
    }

    fn of_descriptors(descriptors: &[u8]) -> Kind {
        match registered(descriptors) {
            Some(b"HEVC") => return Kind::Video(Codec::Hevc),
            Some(b"AV01" | b"VVC " | b"drac" | b"VC-1") => return Kind::Video(Codec::Other),
            Some(b"Opus" | b"AC-3" | b"EAC3" | b"AC-4" | b"BSSD") => return Kind::Sound,
            Some(b"DTS1" | b"DTS2" | b"DTS3" | b"fLaC" | b"mp3 ") => return Kind::Sound,
            Some(_) | None => {}
        }
        // DVB's own for AC-3, E-AC-3, DTS and AAC (ETSI EN 300 468).
        let is_sound = |(tag, _)| matches!(tag, 0x6a | 0x7a | 0x7b | 0x7c);
        if psi::descriptors(descriptors).any(is_sound) {
            Kind::Sound
        } else {
            Kind::Data
        }
    }
}

/// The format that a registration descriptor names.
fn registered(descriptors: &[u8]) -> Option<&[u8; 4]> {
    let mut names = psi::descriptors(descriptors).filter(|(tag, _)| *tag == 5);
    names.find_map(|(_, body)| body.first_chunk::<4>())
}

/// The streams of each kind. Any sound will do where there is no video: a map may name some that
/// never comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Streams {
    /// The first.
    pub video: Option<(u16, Codec)>,
    /// All that may be heard.
    pub sound: Pids,
    /// All else.
    pub data: Pids,
}

/// The first PIDs of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pids([Option<u16>; PIDS_MAX]);

/// Languages of a film, and more.
const PIDS_MAX: usize = 12;

impl Pids {
    /// Whether this is one of them.
    pub fn contains(&self, pid: u16) -> bool {
        self.0.contains(&Some(pid))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    fn add(&mut self, pid: u16) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(pid);
        }
    }

    fn or(self, others: Pids) -> Pids {
        if self.is_empty() { others } else { self }
    }
}

impl Streams {
    /// Those of a map.
    pub fn read(map: &[u8]) -> Streams {
        let mut streams = Streams::default();
        for (stream_type, pid, descriptors) in psi::elementary_streams(map) {
            match Kind::of(stream_type, descriptors) {
                Kind::Video(codec) => _ = streams.video.get_or_insert((pid, codec)),
                Kind::Sound => streams.sound.add(pid),
                Kind::Data => streams.data.add(pid),
            }
        }
        streams
    }

    /// These, and of the kinds that are not among them the others.
    pub fn or(self, others: Streams) -> Streams {
        Streams {
            video: self.video.or(others.video),
            sound: self.sound.or(others.sound),
            data: self.data.or(others.data),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Streams::default()
    }

    /// Whether it is one of sound or data.
    pub fn is_beside_video(&self, pid: u16) -> bool {
        self.sound.contains(pid) || self.data.contains(pid)
    }

    /// Those that decide where there is no video.
    pub fn without_video(&self) -> Pids {
        self.sound.or(self.data)
    }
}
