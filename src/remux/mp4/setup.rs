//! Reads a `trak`.

use super::super::medium::{Codec, Shape};
use crate::format::mp4::{TrackBox, boxes, child, descriptor, number};

/// Content of a `trak`.
pub(super) struct Setup<'a> {
    /// Number by which fragments name the track.
    pub number: u32,
    /// Ticks a second of its clock: at least 1.
    pub ticks_per_second: u32,
    /// Ticks by which its samples are moved.
    pub shift: i64,
    /// Type of its first sample description, or of its handler.
    pub kind: [u8; 4],
    /// Codec. `None` if it cannot be carried.
    pub codec: Option<Codec>,
    /// Setup of the decoder, if the description has it.
    pub record: Option<&'a [u8]>,
    /// Shape in the description.
    pub shape: Shape,
}

/// Length of the fields in front of the boxes of a sample description.
const PICTURES_BYTES: usize = 78;
const SOUND_BYTES: usize = 28;

impl Setup<'_> {
    /// Reads the content of a `trak`. `None` if something is missing that every track has.
    /// `movie_ticks` is the clock of the movie.
    pub fn read(trak: &[u8], movie_ticks: u32) -> Option<Setup<'_>> {
        let track = TrackBox::read(trak)?;
        let ticks_per_second = track.ticks_per_second.max(1);
        let mut setup = Setup {
            number: track.number,
            ticks_per_second,
            shift: shift(trak, movie_ticks, ticks_per_second),
            kind: *track.handler.first_chunk()?,
            codec: None,
            record: None,
            shape: Shape::Sound {
                rate: 0,
                channels: 0,
            },
        };
        if let Some((kind, entry)) = boxes(track.descriptions).next() {
            setup.kind = kind;
            match track.handler {
                b"vide" => setup.pictures(entry)?,
                b"soun" => setup.sound(entry)?,
                _ => {}
            }
        }
        Some(setup)
    }
}

impl<'a> Setup<'a> {
    fn pictures(&mut self, entry: &'a [u8]) -> Option<()> {
        let size = number(entry, 24)?;
        let (width, height) = ((size >> 16) as u16, size as u16);
        self.shape = Shape::Pictures { width, height };
        let inside = entry.get(PICTURES_BYTES..)?;
        let (codec, record) = match &self.kind {
            b"avc1" | b"avc3" => (Codec::H264, b"avcC"),
            b"hvc1" | b"hev1" => (Codec::H265, b"hvcC"),
            b"av01" => (Codec::Av1, b"av1C"),
            b"vp08" => (Codec::Vp8, b"vpcC"),
            b"vp09" => (Codec::Vp9, b"vpcC"),
            _ => return Some(()),
        };
        (self.codec, self.record) = (Some(codec), child(inside, record));
        Some(())
    }

    fn sound(&mut self, entry: &'a [u8]) -> Option<()> {
        self.shape = Shape::Sound {
            rate: number(entry, 24)? >> 16,
            channels: number(entry, 16)?.to_be_bytes()[1],
        };
        // The second and third version of QuickTime have more fields in front.
        let more = match entry.get(8..10)? {
            [0, 1] => 16,
            [0, 2] => 36,
            _ => 0,
        };
        let inside = entry.get(SOUND_BYTES + more..)?;
        let (codec, record) = match &self.kind {
            b"mp4a" => {
                let holder = child(inside, b"wave").unwrap_or(inside);
                return self.elementary(child(holder, b"esds")?);
            }
            b".mp3" => (Codec::MpegAudio, None),
            b"ac-3" => (Codec::Ac3, child(inside, b"dac3")),
            b"ec-3" => (Codec::Eac3, child(inside, b"dec3")),
            b"Opus" => (Codec::Opus, child(inside, b"dOps")),
            _ => return Some(()),
        };
        (self.codec, self.record) = (Some(codec), record);
        Some(())
    }

    /// Reads an `esds` (ISO/IEC 14496-1 section 7.2.6).
    fn elementary(&mut self, esds: &'a [u8]) -> Option<()> {
        let stream = descriptor(esds.get(4..)?, 3)?;
        let flags = *stream.get(2)?;
        let mut at = 3 + if flags & 0x80 != 0 { 2 } else { 0 };
        if flags & 0x40 != 0 {
            at += 1 + usize::from(*stream.get(at)?);
        }
        at += if flags & 0x20 != 0 { 2 } else { 0 };
        let decoder = descriptor(stream.get(at..)?, 4)?;
        match decoder.first()? {
            0x40 | 0x66..=0x68 => {
                self.codec = Some(Codec::Aac);
                self.record = descriptor(decoder.get(13..)?, 5);
            }
            0x69 | 0x6b => self.codec = Some(Codec::MpegAudio),
            0xa5 => self.codec = Some(Codec::Ac3),
            0xa6 => self.codec = Some(Codec::Eac3),
            _ => {}
        }
        Some(())
    }
}

/// Returns the ticks by which an edit list moves a track: empty time in front, and samples that are
/// cut there. All other edits are for files that are played from a disk.
fn shift(trak: &[u8], movie_ticks: u32, ticks_per_second: u32) -> i64 {
    let list = child(trak, b"edts").and_then(|edits| child(edits, b"elst"));
    let Some(list) = list else {
        return 0;
    };
    let is_long = list.first() == Some(&1);
    let entry_bytes = if is_long { 20 } else { 12 };
    let mut shift = 0i64;
    for entry in list.get(8..).unwrap_or_default().chunks_exact(entry_bytes) {
        let field = |at: usize| number(entry, at).map_or(0, i64::from);
        let (lasts, begins) = if is_long {
            (field(0) << 32 | field(4), field(8) << 32 | field(12))
        } else {
            (field(0), i64::from(field(4) as i32))
        };
        if begins != -1 {
            return shift.saturating_sub(begins.max(0));
        }
        let ticks = i128::from(lasts) * i128::from(ticks_per_second);
        let ticks = ticks.checked_div(i128::from(movie_ticks)).unwrap_or(0);
        shift = i64::try_from(i128::from(shift) + ticks).unwrap_or(0);
    }
    shift
}
