//! Encoders of made-up media, unit by unit, in each container that can be HLS.

use super::transport;

/// What it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ts,
    Mp4,
    Mp3,
    Aac,
}

pub const KINDS: [Kind; 4] = [Kind::Ts, Kind::Mp4, Kind::Mp3, Kind::Aac];

/// Whether the group of pictures of this number begins within a PES packet of sound.
pub type Splits = fn(u64) -> bool;

/// Makes one stream.
pub struct Encoder {
    pub kind: Kind,
    /// What its clock shows, in seconds.
    pub time: f64,
    /// From a key picture to the next, in seconds.
    pub group: f64,
    /// Of what a picture, a fragment or a frame carries.
    pub unit_bytes: usize,
    /// Stands in the header: another one is another header.
    pub width: u8,
    pub units: u64,
    next_key: f64,
    /// As where a multiplexer weaves pictures and sound.
    pub splits: Splits,
    groups: u64,
    /// Sound that is still to be sent.
    sound: Vec<u8>,
    /// How long a fragment is.
    pub fragment_seconds: f64,
    /// How long they are instead, one after the other, from each key picture on.
    pub fragments: &'static [f64],
    in_group: usize,
    /// Its fragments say their times.
    pub has_times: bool,
}

const PICTURES_PER_SECOND: f64 = 25.0;

impl Encoder {
    pub fn new(kind: Kind) -> Encoder {
        Encoder {
            kind,
            time: 0.0,
            group: 2.0,
            unit_bytes: 150,
            width: 0,
            units: 0,
            next_key: 0.0,
            splits: |_| false,
            groups: 0,
            sound: Vec::new(),
            fragment_seconds: 0.5,
            fragments: &[],
            in_group: 0,
            has_times: true,
        }
    }

    /// How long a unit is, in seconds.
    pub fn unit_seconds(&self) -> f64 {
        match self.kind {
            Kind::Ts => 1.0 / PICTURES_PER_SECOND,
            Kind::Mp4 => {
                let index = self.in_group % self.fragments.len().max(1);
                let own = self.fragments.get(index);
                own.copied().unwrap_or(self.fragment_seconds)
            }
            Kind::Mp3 => 1152.0 / 44_100.0,
            Kind::Aac => 1024.0 / 48_000.0,
        }
    }

    /// Its clock shows another time, and a key picture comes.
    #[allow(dead_code, reason = "not every test lets it jump")]
    pub fn jump(&mut self, time: f64) {
        (self.time, self.next_key) = (time, time);
    }

    /// Returns the media of `seconds` seconds.
    pub fn run(&mut self, seconds: f64) -> Vec<u8> {
        let end = self.time + seconds;
        let mut bytes = Vec::new();
        while self.time < end - 0.000_001 {
            bytes.extend(self.unit());
        }
        bytes
    }

    /// What comes first, and again where a decoder may begin.
    pub fn header(&self) -> Vec<u8> {
        match self.kind {
            Kind::Ts => transport::tables(&[(0x1b, 0x101, &[][..]), (0x0f, 0x102, &[][..])]),
            Kind::Mp4 => mp4_header(self.width),
            Kind::Mp3 | Kind::Aac => Vec::new(),
        }
    }

    /// The next picture, fragment or frame.
    pub fn unit(&mut self) -> Vec<u8> {
        let is_key = self.time >= self.next_key - 0.000_001;
        if is_key {
            self.next_key = self.time + self.group;
            self.groups += 1;
            self.in_group = 0;
        }
        let bytes = match self.kind {
            Kind::Ts => self.picture(is_key),
            Kind::Mp4 => self.fragment(is_key),
            Kind::Mp3 => frame(&[0xff, 0xfb, 0x90, 0x64], 417, self.units),
            Kind::Aac => frame(&[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc], 256, self.units),
        };
        self.units += 1;
        self.time += self.unit_seconds();
        self.in_group += 1;
        bytes
    }

    fn picture(&mut self, is_key: bool) -> Vec<u8> {
        let unit = if is_key { 0x65 } else { 0x41 };
        let mut picture = vec![0, 0, 0, 1, unit];
        picture.extend(self.units.to_be_bytes());
        picture.resize(self.unit_bytes.max(picture.len()), 0xaa);
        let mut bytes = if is_key { self.header() } else { Vec::new() };
        let picture = transport::pes(0x101, self.time, &picture);
        let (first, rest) = picture.split_at(188);
        bytes.extend_from_slice(first);
        bytes.append(&mut self.sound);
        bytes.extend_from_slice(rest);
        let is_key_next = self.time + self.unit_seconds() >= self.next_key - 0.000_001;
        if is_key_next && (self.splits)(self.groups) {
            self.sound = transport::pes(0x102, self.time, &[0x55; 400]);
            bytes.extend(self.sound.drain(..188));
        } else {
            bytes.extend(transport::pes(0x102, self.time, &[0x55; 40]));
        }
        bytes
    }

    fn fragment(&self, is_key: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.units == 0 {
            bytes = self.header();
        }
        let flags = if is_key { 0x0200_0000_u32 } else { 0x0101_0000 };
        let samples = (self.unit_seconds() * PICTURES_PER_SECOND).round() as u32;
        let tfhd = [&[0, 2, 0, 0][..], &1_u32.to_be_bytes()].concat();
        let time = (self.time * 12_800.0).round() as u64;
        let tfdt = [&[1, 0, 0, 0][..], &time.to_be_bytes()].concat();
        let trun = [
            &[0, 0, 0, 4][..],
            &samples.to_be_bytes(),
            &flags.to_be_bytes(),
        ]
        .concat();
        let mut traf = mp4_box(b"tfhd", &tfhd);
        if self.has_times {
            traf.extend(mp4_box(b"tfdt", &tfdt));
        }
        traf.extend(mp4_box(b"trun", &trun));
        let number = [&[0; 4][..], &(self.units as u32).to_be_bytes()].concat();
        let moof = [mp4_box(b"mfhd", &number), mp4_box(b"traf", &traf)].concat();
        bytes.extend(mp4_box(b"moof", &moof));
        bytes.extend(mp4_box(b"mdat", &vec![self.units as u8; self.unit_bytes]));
        bytes
    }
}

fn frame(head: &[u8], length: usize, number: u64) -> Vec<u8> {
    let mut frame = head.to_vec();
    frame.extend(number.to_be_bytes().map(|byte| byte & 0x7f));
    frame.resize(length, 0x11);
    frame
}

pub fn mp4_box(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [
        &(content.len() as u32 + 8).to_be_bytes(),
        &kind[..],
        content,
    ]
    .concat()
}

/// One video track, whose clock has 12,800 ticks a second.
fn mp4_header(width: u8) -> Vec<u8> {
    let zeros = |count: usize| vec![0; count];
    let number = |number: u32| number.to_be_bytes().to_vec();
    let tkhd = [
        zeros(12),
        number(1),
        zeros(64),
        vec![0, width, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let mdhd = [zeros(12), number(12_800), zeros(8)].concat();
    let hdlr = [&zeros(8)[..], b"vide", &zeros(13)].concat();
    let stbl = mp4_box(b"stbl", &mp4_box(b"stsd", &zeros(8)));
    let mdia = [
        mp4_box(b"mdhd", &mdhd),
        mp4_box(b"hdlr", &hdlr),
        mp4_box(b"minf", &stbl),
    ]
    .concat();
    let trak = [mp4_box(b"tkhd", &tkhd), mp4_box(b"mdia", &mdia)].concat();
    let trex = [zeros(4), number(1), number(1), number(512), zeros(8)].concat();
    let moov = [
        mp4_box(b"mvhd", &zeros(100)),
        mp4_box(b"trak", &trak),
        mp4_box(b"mvex", &mp4_box(b"trex", &trex)),
    ];
    [
        mp4_box(b"ftyp", b"iso6\0\0\0\0iso6"),
        mp4_box(b"moov", &moov.concat()),
    ]
    .concat()
}
