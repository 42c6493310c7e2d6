//! Fragmented MP4 (ISO/IEC 14496-12): the header is what stands up to the end of `moov`; decoding
//! can begin at a fragment whose first sample of the video track is a sync sample.
//!
//! Boxes are walked by their sizes. A `moof` is looked at whole, which is bounded; an `mdat` is
//! counted.

use std::ops::Range;

use super::header::{Elements, Header};
use super::window::{Look, Step, Walker};
use super::{Finding, Findings, Start, UNIT_SPACING, Unsupported};
use crate::time::MediaTime;

/// The scanner.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Mp4 {
    header: Elements,
    /// A `moov` was whole, and no other beginning has come since.
    has_header: bool,
    tracks: Tracks,
    /// Where the fragment begins that the next `moof` belongs to.
    fragment_start: Option<u64>,
    last_unit: Option<u64>,
    /// The newest fragment's positions count from the file's first byte: they are wrong for whoever
    /// has not had all of it.
    is_absolute: bool,
}

/// What `moov` says of the track that decides.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Tracks {
    video: Option<u32>,
    /// The flags of its samples where nothing else is said.
    usual_flags: Option<u32>,
    /// The track by which it is told what time it is, and its ticks a second: video, or the first.
    clock: Option<(u32, u32)>,
    /// How long that track's samples last where nothing else is said, in its ticks.
    #[cfg_attr(feature = "handover", serde(default))]
    usual_duration: u32,
}

pub(crate) const BOX_HEAD_BYTES: usize = 8;
const LARGE_BOX_HEAD_BYTES: usize = 16;
/// A `moof` is looked at whole; so is the work that its last byte causes.
pub(crate) const MOOF_BYTES_MAX: usize = 256 * 1024;
/// Of a fragment's header: its positions count from the file's first byte.
pub(crate) const BASE_DATA_OFFSET: u32 = 0x1;
/// `sample_is_non_sync_sample`
const NOT_SYNC: u32 = 0x1_0000;

impl Walker<Findings<'_>> for Mp4 {
    fn look(
        &mut self,
        seen: &[u8],
        at: u64,
        findings: &mut Findings<'_>,
    ) -> Result<Step, Unsupported> {
        let BoxHead {
            kind,
            bytes: head_bytes,
            length,
        } = match box_head(seen) {
            Look::Found(head) => head,
            Look::Needs(length) => return Ok(Step::Hold(length)),
            Look::Nothing => return Err(Unsupported),
        };
        if at.checked_add(length).is_none() {
            return Err(Unsupported);
        }
        let is_header = !self.has_header || matches!(&kind, b"ftyp" | b"moov");
        let held_max = match (&kind, is_header) {
            (b"mdat", true) => return Err(Unsupported),
            (_, true) => self.header.bytes_left(),
            (b"moof", false) => MOOF_BYTES_MAX,
            (b"styp" | b"prft" | b"emsg" | b"sidx", false) => {
                self.fragment_start.get_or_insert(at);
                return Ok(Step::Pass(length));
            }
            (_, false) => {
                self.fragment_start = None;
                return Ok(Step::Pass(length));
            }
        };
        let whole = usize::try_from(length)
            .ok()
            .filter(|whole| *whole <= held_max)
            .ok_or(Unsupported)?;
        let Some(content) = seen.get(..whole) else {
            return Ok(Step::Hold(whole));
        };
        if is_header {
            self.keep(&kind, (content, head_bytes), at, findings)?;
        } else {
            let moof = &content[head_bytes..];
            self.is_absolute = is_absolute(moof);
            self.fragment(moof, at, findings);
        }
        Ok(Step::Pass(length))
    }
}

impl Mp4 {
    pub(super) fn header(&self) -> Header<'_> {
        self.header.lend()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.header.held_bytes()
    }

    pub(super) fn needs_first_byte(&self) -> bool {
        self.is_absolute
    }

    /// A box of the header.
    fn keep(
        &mut self,
        kind: &[u8; 4],
        (content, head_bytes): (&[u8], usize),
        at: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        if self.has_header {
            // Another beginning in mid-stream.
            findings(Finding::Break(at), self.header.lend());
            self.has_header = kind != b"ftyp";
        }
        self.header.append(content)?;
        if kind == b"moov" {
            self.tracks = Tracks::read(&content[head_bytes..]).ok_or(Unsupported)?;
            self.has_header = true;
            (self.fragment_start, self.last_unit) = (None, None);
            self.header.tell();
            findings(Finding::Header, self.header.lend());
        }
        Ok(())
    }

    fn fragment(&mut self, moof: &[u8], at: u64, findings: &mut Findings<'_>) {
        let start = self.fragment_start.take().unwrap_or(at);
        if let Some(time) = self.tracks.time(moof) {
            findings(Finding::Time(start, time), self.header.lend());
            if let Some(ticks) = self.tracks.lasts(moof) {
                findings(Finding::Lasts(ticks), self.header.lend());
            }
        }
        if self
            .last_unit
            .is_none_or(|last| start >= last + UNIT_SPACING)
        {
            self.last_unit = Some(start);
            findings(Finding::Unit(Start::at(start)), self.header.lend());
        }
        if !self.is_absolute && self.tracks.begin_with_sync(moof) {
            findings(Finding::Join(Start::at(start)), self.header.lend());
        }
    }
}

impl Tracks {
    /// `None` where there is no `mvex`: that is a plain file, whose fragments never come.
    fn read(moov: &[u8]) -> Option<Tracks> {
        let mvex = child(moov, b"mvex")?;
        let tracks = boxes(moov).filter(|(kind, _)| kind == b"trak");
        let mut tracks = tracks.filter_map(|(_, trak)| {
            let mdia = child(trak, b"mdia")?;
            let is_video = child(mdia, b"hdlr")?.get(8..12)? == b"vide";
            let ticks_per_second = child(mdia, b"mdhd").and_then(number_behind_times);
            let id = number_behind_times(child(trak, b"tkhd")?)?;
            Some((is_video, (id, ticks_per_second.unwrap_or_default())))
        });
        let first = tracks.clone().next();
        let video = tracks.find(|(is_video, _)| *is_video);
        let clock = video.or(first).map(|(_, clock)| clock);
        let video = video.map(|(_, (id, _))| id);
        // Of the other tracks nothing is asked.
        let usual = |track: u32, at: usize| {
            let mut extends = boxes(mvex).filter(|(kind, _)| kind == b"trex");
            extends.find_map(|(_, trex)| {
                let number_at = number(trex, at)?;
                (number(trex, 4)? == track).then_some(number_at)
            })
        };
        let usual_flags = video.and_then(|video| usual(video, 20));
        let usual_duration = clock.and_then(|(track, _)| usual(track, 12));
        Some(Tracks {
            video,
            usual_flags,
            clock,
            usual_duration: usual_duration.unwrap_or_default(),
        })
    }

    /// When a fragment's first sample is to be decoded. All of its tracks must say their times, or
    /// nobody can begin with it.
    fn time(&self, moof: &[u8]) -> Option<MediaTime> {
        let (clock, ticks_per_second) = self.clock?;
        let mut time = None;
        for (_, traf) in boxes(moof).filter(|(kind, _)| kind == b"traf") {
            let tfdt = child(traf, b"tfdt")?;
            let ticks = match tfdt.first()? {
                1 => u64::from_be_bytes(*tfdt.get(4..)?.first_chunk()?),
                _ => u64::from(number(tfdt, 4)?),
            };
            if header_of(traf)?.0 == clock {
                time = time.or(MediaTime::of_clock(ticks, ticks_per_second));
            }
        }
        time
    }

    /// Returns the ticks of [`MediaTime`] that a fragment's samples last, if that is any.
    fn lasts(&self, moof: &[u8]) -> Option<u64> {
        let (clock, ticks_per_second) = self.clock?;
        let mut lasts = 0_u64;
        for traf in track_fragments(moof) {
            let (track, tfhd_flags, tfhd) = header_of(traf)?;
            if track != clock {
                continue;
            }
            let usual = match tfhd_flags & 0x8 {
                0 => self.usual_duration,
                // Behind the position and the number of the description, where they are there.
                _ => number(
                    tfhd,
                    8 + 8 * has(tfhd_flags, 0x1) + 4 * has(tfhd_flags, 0x2),
                )?,
            };
            for (_, trun) in boxes(traf).filter(|(kind, _)| kind == b"trun") {
                let trun_flags = number(trun, 0)?;
                let samples = number(trun, 4)? as usize;
                if trun_flags & 0x100 == 0 {
                    lasts = lasts.saturating_add(u64::from(usual).saturating_mul(samples as u64));
                    continue;
                }
                let from = 8 + 4 * (has(trun_flags, 0x1) + has(trun_flags, 0x4));
                let sample_bytes = 4 * (trun_flags & 0xf00).count_ones() as usize;
                let told = trun.get(from..)?.chunks_exact(sample_bytes).take(samples);
                let durations = told.filter_map(|sample| number(sample, 0));
                lasts = durations.fold(lasts, |sum, ticks| sum.saturating_add(ticks.into()));
            }
        }
        let ticks = MediaTime::of_clock(lasts, ticks_per_second)?.ticks();
        (ticks > 0).then_some(ticks)
    }

    /// Whether decoding can begin at this fragment.
    fn begin_with_sync(&self, moof: &[u8]) -> bool {
        match self.video {
            None => true,
            Some(video) => track_fragments(moof).any(|traf| {
                self.first_sample_flags(traf, video)
                    .is_some_and(|flags| flags & NOT_SYNC == 0)
            }),
        }
    }

    /// The flags of a fragment's first sample, if it is of this track.
    fn first_sample_flags(&self, traf: &[u8], track: u32) -> Option<u32> {
        let (id, tfhd_flags, tfhd) = header_of(traf)?;
        if id != track {
            return None;
        }
        let trun = child(traf, b"trun")?;
        let trun_flags = number(trun, 0)? & 0xff_ffff;
        // The number of samples, perhaps an offset, perhaps the first sample's flags; then the
        // samples.
        let behind_offset = 8 + 4 * usize::from(trun_flags & 0x1 != 0);
        if trun_flags & 0x4 != 0 {
            return number(trun, behind_offset);
        }
        if trun_flags & 0x400 != 0 {
            let before = (trun_flags & 0x300).count_ones() as usize;
            return number(trun, behind_offset + 4 * before);
        }
        if tfhd_flags & 0x20 != 0 {
            // The last of the optional fields.
            let before = (tfhd_flags & 0x1a).count_ones() as usize;
            return number(tfhd, 8 + 4 * before);
        }
        self.usual_flags
    }
}

/// 1 if one of these flags is set, 0 if not.
fn has(flags: u32, flag: u32) -> usize {
    usize::from(flags & flag != 0)
}

fn track_fragments(moof: &[u8]) -> impl Iterator<Item = &[u8]> {
    let fragments = boxes(moof).filter(|(kind, _)| kind == b"traf");
    fragments.map(|(_, traf)| traf)
}

/// Whether a fragment's positions count from the file's first byte: of one without a header nobody
/// knows.
fn is_absolute(moof: &[u8]) -> bool {
    let is_absolute = |(_, flags, _)| flags & BASE_DATA_OFFSET != 0;
    track_fragments(moof).any(|traf| header_of(traf).is_none_or(is_absolute))
}

/// The head of a box.
pub(crate) struct BoxHead {
    /// Its four letters.
    pub kind: [u8; 4],
    /// Of the head: 8 or 16.
    pub bytes: usize,
    /// Of the box, with its head.
    pub length: u64,
}

/// Reads the head at the front of `seen`.
pub(crate) fn box_head(seen: &[u8]) -> Look<BoxHead> {
    let Some([s0, s1, s2, s3, kind @ ..]) = seen.first_chunk::<BOX_HEAD_BYTES>().copied() else {
        return Look::Needs(BOX_HEAD_BYTES);
    };
    let (bytes, length) = match u32::from_be_bytes([s0, s1, s2, s3]) {
        // To the end of the file: there is none.
        0 => return Look::Nothing,
        1 => match seen.first_chunk::<LARGE_BOX_HEAD_BYTES>() {
            None => return Look::Needs(LARGE_BOX_HEAD_BYTES),
            Some([_, _, _, _, _, _, _, _, length @ ..]) => {
                (LARGE_BOX_HEAD_BYTES, u64::from_be_bytes(*length))
            }
        },
        size => (BOX_HEAD_BYTES, u64::from(size)),
    };
    if length < bytes as u64 {
        return Look::Nothing;
    }
    Look::Found(BoxHead {
        kind,
        bytes,
        length,
    })
}

/// The track, the flags and the content of a fragment's header.
pub(crate) fn header_of(traf: &[u8]) -> Option<(u32, u32, &[u8])> {
    let tfhd = child(traf, b"tfhd")?;
    Some((number(tfhd, 4)?, number(tfhd, 0)? & 0xff_ffff, tfhd))
}

/// The boxes in a box that is whole, as far as they are well-formed.
pub(crate) fn boxes(content: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> + Clone {
    places(content).map(|(kind, place)| (kind, &content[place]))
}

/// The first of them of a kind.
pub(crate) fn child<'a>(content: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    let mut found = boxes(content).filter(|(kind, _)| kind == wanted);
    found.next().map(|(_, content)| content)
}

/// Of a track's or its media's header, the number behind two times, which are of 64 bits in version
/// 1: the track's own, or its clock's.
pub(crate) fn number_behind_times(header: &[u8]) -> Option<u32> {
    number(header, if header.first() == Some(&1) { 20 } else { 12 })
}

/// The content of the MPEG-4 descriptor that stands in front, if it is of this kind; as much of it
/// as there is (ISO/IEC 14496-1 section 7.2.2).
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, mut rest) = bytes.split_first()?;
    let mut length = 0;
    for _ in 0..4 {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (*first == tag).then(|| rest.get(..length).unwrap_or(rest))
}

/// Where the content of each of them stands.
pub(crate) fn places(content: &[u8]) -> impl Iterator<Item = ([u8; 4], Range<usize>)> + Clone {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = content.get(at..)?;
        let size = usize::try_from(number(rest, 0)?).ok()?;
        let kind = *rest.get(4..8)?.first_chunk::<4>()?;
        rest.get(BOX_HEAD_BYTES..size)?;
        let place = at + BOX_HEAD_BYTES..at + size;
        at += size;
        Some((kind, place))
    })
}

pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk::<4>()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(feature = "handover")]
impl Mp4 {
    /// Whether what was told of it can be, of bytes up to this offset.
    pub(super) fn fits(&self, offset: u64) -> bool {
        let places = [self.fragment_start, self.last_unit];
        self.header.fits() && places.into_iter().flatten().all(|place| place <= offset)
    }
}

#[cfg(test)]
mod tests;
