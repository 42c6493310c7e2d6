//! Cuts WebM and Matroska (RFC 9559) into blocks.
//!
//! Each Cluster goes out as one of unknown size, in front of its first block. So the stream may
//! stop after any block, and another Cluster may follow. Other elements of a Cluster (checksums,
//! positions) would be wrong then, so the cutter leaves them out. It also leaves out SeekHead and
//! Cues.

use super::super::ebml::{self, Head};
use super::super::matroska::{
    BLOCK, BLOCK_GROUP, CLUSTER, CLUSTER_HEAD, CUES, EBML, INFO, LACING, Level, SEEK_HEAD, SEGMENT,
    SIMPLE_BLOCK, TIMESTAMP, TRACK_ENTRY, TRACKS, USUAL_TIMESTAMP_SCALE, timestamp_scale,
};
use super::super::window::{StepResult, Unread, Walker, whole};
use super::super::{HEADER_BYTES_MAX, Unsupported};
use super::copy;
use super::timeline::Timeline;

const BLOCK_DURATION: u32 = 0x9b;
/// Elements of a TrackEntry that set a decoder up: number, type, codec, its private data, delays,
/// picture, sound, encodings.
const DECISIVE: [u32; 9] = [0xd7, 0x83, 0x86, 0x63a2, 0x56aa, 0x56bb, 0xe0, 0xe1, 0x6d80];
/// Bytes of a block longer than a unit that contain its time.
const BLOCK_HEAD_BYTES: usize = 64;

/// Cutter of Matroska. It also moves the times.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct BlockCutter {
    pub unit_bytes_max: usize,
    level: Level,
    /// Whether the source is not the first one. Then its headers are left out.
    is_later: bool,
    /// Time of the source's Cluster.
    cluster_time: Option<i64>,
    /// Time of the Cluster that viewers are in.
    written_time: Option<i64>,
    pub(super) timeline: Timeline,
    /// Bytes that are left of a block that passes as it comes.
    pub block_bytes_left: u64,
}

/// What the head of a block says.
struct BlockHead {
    track: u64,
    /// Ticks after the Cluster's time.
    relative_time: i16,
    /// Position of the time in the element.
    time_at: usize,
    /// Duration in ticks, if the group says it.
    duration: Option<i64>,
    /// Number of frames. Laced sound has several.
    frames: i64,
}

impl BlockCutter {
    /// Returns a cutter for the first source. A longer block passes as it comes.
    pub fn new(unit_bytes_max: usize) -> BlockCutter {
        BlockCutter {
            unit_bytes_max,
            level: Level::Top,
            is_later: false,
            cluster_time: None,
            written_time: None,
            timeline: Timeline::new(1000),
            block_bytes_left: 0,
        }
    }

    /// Begins another source, at a Cluster.
    pub fn seam(&mut self) {
        self.level = Level::Segment;
        self.is_later = true;
        (self.cluster_time, self.written_time) = (None, None);
        self.timeline.seam();
    }

    /// Returns the whole element at the front of `seen`. Fails if the element is longer than a header
    /// or a unit may be.
    fn whole<'a>(&self, seen: &'a [u8], head: Head) -> Result<&'a [u8], Unread> {
        let bytes_max = self.unit_bytes_max.max(HEADER_BYTES_MAX);
        whole(seen, head.length()?, bytes_max)
    }

    /// Writes a block's element. Of an element longer than a unit it writes the part that has come.
    fn block(&mut self, seen: &[u8], head: Head, out: &mut Vec<u8>) -> StepResult {
        let length = head.length()?;
        let is_long = length > self.unit_bytes_max as u64;
        let needed = if is_long {
            BLOCK_HEAD_BYTES.min(self.unit_bytes_max)
        } else {
            length as usize
        };
        let element = seen.get(..needed).ok_or(Unread::Needs(needed))?;
        // No real group has as many elements. A scan of more costs much, and they would go out at once.
        if head.id == BLOCK_GROUP
            && ebml::elements(&element[head.bytes()..]).count() == ebml::ELEMENTS_MAX
        {
            return Ok(length);
        }
        let out_before = out.len();
        let is_written = self.write(element, head, out);
        if is_written.is_err() {
            // Viewers get nothing of a block that fails.
            out.truncate(out_before);
        }
        if !is_written? {
            return Ok(length);
        }
        self.block_bytes_left = length - needed as u64;
        Ok(needed as u64)
    }

    /// Writes a block. Returns whether it goes out.
    fn write(
        &mut self,
        element: &[u8],
        head: Head,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unsupported> {
        let place = if head.id == SIMPLE_BLOCK {
            BlockHead::of_block(element, head.bytes())
        } else {
            BlockHead::of_group(element, head.bytes())
        };
        let (place, cluster_time) = place.zip(self.cluster_time).ok_or(Unsupported)?;
        let time = cluster_time.saturating_add(i64::from(place.relative_time));
        let Some(moved) = self.timeline.new_time(place.track, time) else {
            return Ok(false);
        };
        // Subtitles may last far longer than the time until the next block.
        let longest = self.timeline.longest_gap().saturating_mul(place.frames);
        let duration = place.duration.map(|ticks| ticks.min(longest));
        self.timeline
            .note_frames(place.track, moved, duration, place.frames)?;
        let written = match self.written_time {
            Some(written) => written,
            None => {
                let shift = self.timeline.shift(time);
                self.begin_cluster(cluster_time.saturating_add(shift).max(0), out)
            }
        };
        let relative = |written: i64| i16::try_from(moved.saturating_sub(written));
        let relative = match relative(written) {
            Ok(relative) => relative,
            Err(_) => relative(self.begin_cluster(moved.max(0), out)).map_err(|_| Unsupported)?,
        };
        let time_at = out.len() + place.time_at;
        out.extend_from_slice(element);
        let field = out.get_mut(time_at..time_at + 2).ok_or(Unsupported)?;
        field.copy_from_slice(&relative.to_be_bytes());
        Ok(true)
    }

    fn begin_cluster(&mut self, time: i64, out: &mut Vec<u8>) -> i64 {
        out.extend_from_slice(&CLUSTER_HEAD);
        out.extend_from_slice(&[0xe7, 0x88]);
        out.extend_from_slice(&time.to_be_bytes());
        self.written_time = Some(time);
        time
    }
}

impl Walker<Vec<u8>> for BlockCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        if self.block_bytes_left > 0 {
            return Ok(copy(&mut self.block_bytes_left, seen, out));
        }
        let head = ebml::head(seen)?;
        if self.level == Level::Cluster && head.is_outer() {
            self.level = Level::Segment;
        }
        match (self.level, head.id) {
            (Level::Top | Level::Segment, SEGMENT) if !self.is_later => {
                // Clusters of another source may follow.
                out.extend_from_slice(&head.with_unknown_size()[..head.bytes()]);
                self.level = Level::Segment;
                Ok(head.bytes() as u64)
            }
            (Level::Segment, CLUSTER) => {
                (self.cluster_time, self.written_time) = (None, None);
                self.level = Level::Cluster;
                Ok(head.bytes() as u64)
            }
            (Level::Cluster, TIMESTAMP) => {
                let element = self.whole(seen, head)?;
                let time = ebml::unsigned(&element[head.bytes()..]);
                self.cluster_time = Some(i64::try_from(time).map_err(|_| Unsupported)?);
                Ok(element.len() as u64)
            }
            (Level::Cluster, SIMPLE_BLOCK | BLOCK_GROUP) => self.block(seen, head, out),
            (Level::Cluster, _) => Ok(head.length()?),
            // They contain positions in the source's file.
            (Level::Segment, SEEK_HEAD | CUES) => Ok(head.length()?),
            // Another stream begins. It does not continue the viewers' stream.
            (_, EBML | SEGMENT) if self.is_later => Err(Unsupported.into()),
            (_, _) if self.is_later => Ok(head.length()?),
            (_, _) => {
                let element = self.whole(seen, head)?;
                match head.id {
                    EBML => *self = BlockCutter::new(self.unit_bytes_max),
                    INFO => self.timeline = Timeline::new(ticks_per_second(element, head)?),
                    _ => {}
                }
                out.extend_from_slice(element);
                Ok(element.len() as u64)
            }
        }
    }
}

impl BlockHead {
    /// Reads a block whose body begins at `from`.
    fn of_block(element: &[u8], from: usize) -> Option<BlockHead> {
        let body = element.get(from..)?;
        let (track, track_bytes) = ebml::number_at_front(body)?;
        let [t0, t1, flags, after @ ..] = body.get(track_bytes..)? else {
            return None;
        };
        // A laced block says how many frames follow the first.
        let more = after.first().filter(|_| flags & LACING != 0);
        Some(BlockHead {
            track,
            relative_time: i16::from_be_bytes([*t0, *t1]),
            time_at: from + track_bytes,
            duration: None,
            frames: 1 + more.map_or(0, |more| i64::from(*more)),
        })
    }

    /// Reads the block in a group, as far as the group has come.
    fn of_group(element: &[u8], from: usize) -> Option<BlockHead> {
        let (mut at, mut place, mut duration) = (from, None, None);
        while let Ok(head) = ebml::head(element.get(at..).unwrap_or_default()) {
            let body = at + head.bytes();
            let end = body.checked_add(usize::try_from(head.size?).ok()?)?;
            match head.id {
                BLOCK => place = BlockHead::of_block(element, body),
                BLOCK_DURATION => {
                    let body = element.get(body..end).unwrap_or_default();
                    duration = i64::try_from(ebml::unsigned(body)).ok();
                }
                _ => {}
            }
            at = end;
        }
        place.map(|place| BlockHead { duration, ..place })
    }
}

fn ticks_per_second(info: &[u8], head: Head) -> Result<i64, Unsupported> {
    let ticks = 1_000_000_000u64.checked_div(timestamp_scale(&info[head.bytes()..]));
    ticks.map(|ticks| ticks.max(1) as i64).ok_or(Unsupported)
}

/// Returns whether two headers set decoders up alike.
pub(super) fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let Some((one, other)) = described(one).zip(described(other)) else {
        return false;
    };
    one.scale == other.scale && one.elements().eq(other.elements())
}

/// Part of a header that decides.
struct Description<'a> {
    /// Nanoseconds in a tick.
    scale: u64,
    /// Content of Tracks.
    tracks: &'a [u8],
}

impl<'a> Description<'a> {
    /// Returns each track, followed by its decisive elements.
    fn elements(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let entries = ebml::elements(self.tracks).filter(|(id, _)| *id == TRACK_ENTRY);
        entries.flat_map(|(id, entry)| {
            let fields = ebml::elements(entry).filter(|(id, _)| DECISIVE.contains(id));
            std::iter::once((id, &[][..])).chain(fields)
        })
    }
}

fn described(header: &[u8]) -> Option<Description<'_>> {
    let head = ebml::head(header).ok()?;
    let segment = header.get(head.bytes() + usize::try_from(head.size?).ok()?..)?;
    let head = ebml::head(segment).ok()?;
    let body = segment.get(head.bytes()..).filter(|_| head.id == SEGMENT)?;
    Some(Description {
        scale: ebml::find(body, INFO).map_or(USUAL_TIMESTAMP_SCALE, timestamp_scale),
        tracks: ebml::find(body, TRACKS)?,
    })
}

#[cfg(test)]
mod tests;
