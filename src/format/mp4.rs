//! Fragmented MP4 (ISO/IEC 14496-12). The header is everything up to the end of `moov`. Decoding
//! can begin at a fragment whose first sample of the video track is a sync sample.
//!
//! The scanner walks from box to box by their sizes. It reads a `moof` whole, which is bounded, and
//! counts the bytes of an `mdat`.

mod fragment;

use std::ops::Range;

use super::header::Elements;
use super::window::{StepResult, Unread, Walker, whole};
use super::{Finding, Findings, Start, UNIT_SPACING, Unsupported, is_spaced};
use crate::time::MediaTime;
pub(crate) use fragment::{SampleRun, TrackFragment, decode_time, duration_of};

/// Walker of fragmented MP4.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Mp4 {
    /// Boxes of the header.
    pub(super) header: Elements,
    /// Whether a `moov` was whole, and no other header has begun since.
    has_header: bool,
    tracks: Tracks,
    /// Offset at which the fragment of the next `moof` begins.
    fragment_start: Option<u64>,
    /// Offset of the newest unit.
    last_unit: Option<u64>,
    /// Whether positions in the newest fragment count from the file's first byte. They are wrong
    /// for viewers who have not had the whole file.
    pub is_absolute: bool,
}

/// What `moov` says of the track that decides about joins.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Tracks {
    /// Number of the first video track.
    video: Option<u32>,
    /// Flags of its samples where a fragment has none.
    usual_flags: Option<u32>,
    /// Track whose times count, and its ticks a second: the video track, or the first one.
    clock: Option<(u32, u32)>,
    /// Default duration of that track's samples, in its ticks.
    usual_duration: u32,
}

pub(crate) const BOX_HEAD_BYTES: usize = 8;
pub(crate) const LARGE_BOX_HEAD_BYTES: usize = 16;
/// Longest `moof`. The scanner reads it whole, and its last byte causes all the work.
pub(crate) const MOOF_BYTES_MAX: usize = 256 * 1024;
/// `sample_is_non_sync_sample`
pub(crate) const NOT_SYNC: u32 = 0x1_0000;

impl Walker<Findings<'_>> for Mp4 {
    fn step(&mut self, seen: &[u8], at: u64, findings: &mut Findings<'_>) -> StepResult {
        let head = box_head(seen)?;
        let (kind, length) = (head.kind, head.length);
        if at.checked_add(length).is_none() {
            return Err(Unsupported.into());
        }
        let is_header = !self.has_header || matches!(&kind, b"ftyp" | b"moov");
        let element_bytes_max = match (&kind, is_header) {
            (b"mdat", true) => return Err(Unsupported.into()),
            (_, true) => self.header.bytes_left(),
            (b"moof", false) => MOOF_BYTES_MAX,
            (b"styp" | b"prft" | b"emsg" | b"sidx", false) => {
                self.fragment_start.get_or_insert(at);
                return Ok(length);
            }
            (_, false) => {
                self.fragment_start = None;
                return Ok(length);
            }
        };
        let whole = whole(seen, length, element_bytes_max)?;
        if is_header {
            self.keep(&head, whole, at, findings)?;
        } else {
            let moof = &whole[head.bytes..];
            let is_absolute = |traf| {
                let header = TrackFragment::read(traf);
                header.is_none_or(|header| header.has(TrackFragment::BASE_OFFSET))
            };
            self.is_absolute = children(moof, b"traf").any(is_absolute);
            self.fragment(moof, at, findings);
        }
        Ok(length)
    }
}

impl Mp4 {
    /// Keeps a box of the header.
    fn keep(
        &mut self,
        head: &BoxHead,
        whole: &[u8],
        at: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        if self.has_header {
            // Another header in mid-stream.
            findings(Finding::Break(at), self.header.lend());
            self.has_header = &head.kind != b"ftyp";
        }
        self.header.append(whole)?;
        if &head.kind == b"moov" {
            self.tracks = Tracks::read(&whole[head.bytes..]).ok_or(Unsupported)?;
            self.has_header = true;
            (self.fragment_start, self.last_unit) = (None, None);
            self.header.use_next();
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
        if is_spaced(self.last_unit, start, UNIT_SPACING) {
            self.last_unit = Some(start);
            findings(Finding::Unit(Start::at(start)), self.header.lend());
        }
        if !self.is_absolute && self.tracks.begin_with_sync(moof) {
            findings(Finding::Join(Start::at(start)), self.header.lend());
        }
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset.
    #[cfg(feature = "handover")]
    pub(super) fn is_valid(&self, offset: u64) -> bool {
        self.header.is_valid() && self.fragment_start.is_none_or(|start| start <= offset)
    }
}

impl Tracks {
    /// Reads a `moov`. `None` if there is no `mvex`: it belongs to a plain file, which never has
    /// fragments.
    fn read(moov: &[u8]) -> Option<Tracks> {
        let mvex = child(moov, b"mvex")?;
        let mut tracks = children(moov, b"trak").filter_map(|trak| {
            let mdia = child(trak, b"mdia")?;
            let is_video = child(mdia, b"hdlr")?.get(8..12)? == b"vide";
            let ticks_per_second = child(mdia, b"mdhd").and_then(number_after_times);
            let id = number_after_times(child(trak, b"tkhd")?)?;
            Some((is_video, (id, ticks_per_second.unwrap_or_default())))
        });
        let first = tracks.clone().next();
        let video = tracks.find(|(is_video, _)| *is_video);
        let clock = video.or(first).map(|(_, clock)| clock);
        let video = video.map(|(_, (id, _))| id);
        // Only these tracks decide.
        let usual = |track: u32, at: usize| {
            children(mvex, b"trex").find_map(|trex| {
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

    /// Returns the decode time of a fragment's first sample. All tracks of the fragment must say
    /// their times, or nobody can begin with it.
    fn time(&self, moof: &[u8]) -> Option<MediaTime> {
        let (clock, ticks_per_second) = self.clock?;
        let mut time = None;
        for traf in children(moof, b"traf") {
            let ticks = decode_time(child(traf, b"tfdt")?)?;
            if TrackFragment::read(traf)?.track == clock {
                time = time.or(MediaTime::of_clock(ticks, ticks_per_second));
            }
        }
        time
    }

    /// Returns the duration of a fragment's samples, in ticks of [`MediaTime`]. `None` if it is 0.
    fn lasts(&self, moof: &[u8]) -> Option<u64> {
        let (clock, ticks_per_second) = self.clock?;
        let mut lasts = 0_u64;
        for traf in children(moof, b"traf") {
            let header = TrackFragment::read(traf)?;
            if header.track == clock {
                let usual = header.field_or(TrackFragment::DURATION, Some(self.usual_duration))?;
                for trun in children(traf, b"trun") {
                    lasts = lasts.saturating_add(duration_of(trun, usual)?);
                }
            }
        }
        let ticks = MediaTime::of_clock(lasts, ticks_per_second)?.ticks();
        (ticks > 0).then_some(ticks)
    }

    /// Returns whether decoding can begin at this fragment.
    fn begin_with_sync(&self, moof: &[u8]) -> bool {
        match self.video {
            None => true,
            Some(video) => children(moof, b"traf").any(|traf| {
                self.first_sample_flags(traf, video)
                    .is_some_and(|flags| flags & NOT_SYNC == 0)
            }),
        }
    }

    /// Returns the flags of a fragment's first sample, if it belongs to this track.
    fn first_sample_flags(&self, traf: &[u8], track: u32) -> Option<u32> {
        let header = TrackFragment::read(traf)?;
        if header.track != track {
            return None;
        }
        let trun = child(traf, b"trun")?;
        let run = SampleRun::read(trun)?;
        if run.has(SampleRun::FIRST_FLAGS) {
            return run.first_flags();
        }
        if run.has(SampleRun::FLAGS) {
            let before = SampleRun::bytes_before(run.flags, SampleRun::FLAGS);
            return number(trun, run.entries_at() + before);
        }
        header.field_or(TrackFragment::FLAGS, self.usual_flags)
    }
}

/// Head of a box.
pub(crate) struct BoxHead {
    /// Type of the box: four letters.
    pub kind: [u8; 4],
    /// Length of the head: 8 or 16 bytes.
    pub bytes: usize,
    /// Length of the box with its head.
    pub length: u64,
}

/// Reads the head at the front of `seen`.
pub(crate) fn box_head(seen: &[u8]) -> Result<BoxHead, Unread> {
    let small = seen.first_chunk::<BOX_HEAD_BYTES>().copied();
    let [s0, s1, s2, s3, kind @ ..] = small.ok_or(Unread::Needs(BOX_HEAD_BYTES))?;
    let (bytes, length) = match u32::from_be_bytes([s0, s1, s2, s3]) {
        // Up to the end of the file. A stream has no end.
        0 => return Err(Unsupported.into()),
        1 => {
            let large = seen.first_chunk::<LARGE_BOX_HEAD_BYTES>();
            let [_, _, _, _, _, _, _, _, length @ ..] =
                large.ok_or(Unread::Needs(LARGE_BOX_HEAD_BYTES))?;
            (LARGE_BOX_HEAD_BYTES, u64::from_be_bytes(*length))
        }
        size => (BOX_HEAD_BYTES, u64::from(size)),
    };
    if length < bytes as u64 {
        return Err(Unsupported.into());
    }
    Ok(BoxHead {
        kind,
        bytes,
        length,
    })
}

/// Returns the boxes in a whole box, as far as they are well-formed.
pub(crate) fn boxes(content: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> + Clone {
    child_ranges(content).map(|(kind, place)| (kind, &content[place]))
}

/// Returns the content of each box of one kind.
pub(crate) fn children<'a>(
    content: &'a [u8],
    wanted: &[u8; 4],
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let found = boxes(content).filter(move |(kind, _)| kind == wanted);
    found.map(|(_, content)| content)
}

/// Returns the content of the first box of one kind.
pub(crate) fn child<'a>(content: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    children(content, wanted).next()
}

/// Reads the number after two times in a track's header or its media header: the track's number, or
/// the ticks of its clock. In version 1 times have 64 bits.
pub(crate) fn number_after_times(header: &[u8]) -> Option<u32> {
    number(header, if header.first() == Some(&1) { 20 } else { 12 })
}

/// What a `trak` says of its track.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) struct TrackBox<'a> {
    /// Number by which fragments name the track.
    pub number: u32,
    /// Ticks a second of the track's clock.
    pub ticks_per_second: u32,
    /// Kind of media: `vide`, `soun` or another one, 4 bytes.
    pub handler: &'a [u8],
    /// Boxes of the sample descriptions.
    pub descriptions: &'a [u8],
}

#[cfg(any(feature = "hold", feature = "remux"))]
impl TrackBox<'_> {
    /// Reads the content of a `trak`. `None` if something is missing that every track has.
    pub fn read(trak: &[u8]) -> Option<TrackBox<'_>> {
        let mdia = child(trak, b"mdia")?;
        let stbl = child(child(mdia, b"minf")?, b"stbl")?;
        Some(TrackBox {
            number: number_after_times(child(trak, b"tkhd")?)?,
            ticks_per_second: number_after_times(child(mdia, b"mdhd")?)?,
            handler: child(mdia, b"hdlr")?.get(8..12)?,
            descriptions: child(stbl, b"stsd")?.get(8..)?,
        })
    }
}

/// Returns the content of the MPEG-4 descriptor at the front, if it has this tag, as far as it has
/// come (ISO/IEC 14496-1 section 7.2.2).
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, mut rest) = bytes.split_first()?;
    let mut length = 0;
    for _ in 0..4 {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (*first == tag).then(|| rest.get(..length).unwrap_or(rest))
}

/// Returns the type of each box, and the position of its content.
pub(crate) fn child_ranges(
    content: &[u8],
) -> impl Iterator<Item = ([u8; 4], Range<usize>)> + Clone {
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

/// Writes a box. `content` appends its content, which has less than 4 GiB.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn boxed<T>(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    content: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    let written = content(out);
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = length.to_be_bytes();
    }
    written
}

pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk::<4>()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
