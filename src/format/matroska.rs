//! WebM and Matroska (RFC 9559). The header is everything before the first Cluster. Decoding can
//! begin at a key frame of the video track, which most live encoders put in the middle of a
//! Cluster.
//!
//! A viewer who begins there first gets a Cluster head of unknown size and the Cluster's Timestamp,
//! and then the source's bytes from the block on. The scanner walks from element to element by
//! their sizes and never searches. It reads only the first bytes of a block.

use super::ebml::{self, Head};
use super::header::Elements;
use super::window::{StepResult, Unread, Walker, whole};
use super::{Finding, Findings, Format, Prelude, Start, UNIT_SPACING, Unsupported, is_spaced};

pub(crate) const EBML: u32 = 0x1a45_dfa3;
pub(crate) const SEGMENT: u32 = 0x1853_8067;
pub(crate) const SEEK_HEAD: u32 = 0x114d_9b74;
pub(crate) const CUES: u32 = 0x1c53_bb6b;
pub(crate) const CLUSTER: u32 = 0x1f43_b675;
pub(crate) const TRACKS: u32 = 0x1654_ae6b;
const VOID: u32 = 0xec;
const CRC_32: u32 = 0xbf;
pub(crate) const TRACK_ENTRY: u32 = 0xae;
pub(crate) const TIMESTAMP: u32 = 0xe7;
pub(crate) const SIMPLE_BLOCK: u32 = 0xa3;
pub(crate) const BLOCK_GROUP: u32 = 0xa0;
pub(crate) const BLOCK: u32 = 0xa1;
pub(crate) const REFERENCE_BLOCK: u32 = 0xfb;

/// Head of a Cluster of unknown size.
pub(crate) const CLUSTER_HEAD: [u8; 12] = [
    0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
];
pub(crate) const KEY_FRAME: u8 = 0x80;
/// Bits of a block's flags that show the lacing.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) const LACING: u8 = 0x06;
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) const INFO: u32 = 0x1549_a966;
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
/// Nanoseconds in a tick, if an Info element does not say it.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) const USUAL_TIMESTAMP_SCALE: u64 = 1_000_000;
/// Longest EBML head. A real one has some forty bytes.
const EBML_HEAD_BYTES_MAX: usize = 4096;

/// Walker of WebM and Matroska.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Matroska {
    /// Element that contains the next one.
    level: Level,
    pub(super) header: Elements,
    /// Number of the first video track.
    video_track: Option<u64>,
    cluster: Cluster,
    group: Group,
    /// Offset of the newest unit.
    last_unit: Option<u64>,
    /// Offset of the newest join.
    last_join: Option<u64>,
}

/// Element that contains the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Level {
    #[default]
    Top,
    Segment,
    Cluster,
    Group,
}

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Cluster {
    /// Offset of the Cluster's head.
    start: u64,
    /// Offset of the Cluster's end. `None` if its size is unknown.
    end: Option<u64>,
    /// Head of a Cluster and its Timestamp element. A viewer who begins inside the Cluster needs
    /// them.
    prelude: Option<Prelude>,
    /// Whether a block has come.
    has_blocks: bool,
    /// Whether a block of the video track has come.
    has_video: bool,
}

#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Group {
    /// Offset of the group, or of a block outside a group.
    start: u64,
    /// Offset of the group's end.
    end: u64,
    /// Track of the group's block, once it has come.
    track: Option<u64>,
    /// Whether the block needs another one.
    has_reference: bool,
}

/// Returns the format that a whole EBML head names: WebM or Matroska.
pub(super) fn doc_type(bytes: &[u8]) -> Result<Format, Unread> {
    let head = ebml::head(bytes)?;
    let bytes_max = head.bytes() + EBML_HEAD_BYTES_MAX;
    let whole = whole(bytes, head.length()?, bytes_max)?;
    let mut format = None;
    for (id, element) in ebml::elements(&whole[head.bytes()..]) {
        match id {
            0x4282 => {
                format = match element.split(|byte| *byte == 0).next() {
                    Some(b"webm") => Some(Format::WebM),
                    Some(b"matroska") => Some(Format::Matroska),
                    _ => None,
                }
            }
            0x42f2 if ebml::unsigned(element) > 4 => return Err(Unsupported.into()),
            0x42f3 if ebml::unsigned(element) > 8 => return Err(Unsupported.into()),
            _ => {}
        }
    }
    let format = format.filter(|_| head.id == EBML);
    Ok(format.ok_or(Unsupported)?)
}

impl Walker<Findings<'_>> for Matroska {
    fn step(&mut self, seen: &[u8], at: u64, findings: &mut Findings<'_>) -> StepResult {
        let head = ebml::head(seen)?;
        self.leave_levels(at, head, findings);
        let body_at = at + head.bytes() as u64;
        match (self.level, head.id) {
            (Level::Top, EBML) => {
                // Another head in mid-stream begins another stream. Nothing of the old one counts.
                self.header.begin();
                *self = Matroska {
                    header: std::mem::take(&mut self.header),
                    ..Matroska::default()
                };
                self.keep(seen, head)
            }
            (Level::Top, SEGMENT) if self.header.has_begun() => {
                // A late viewer would wait for another end than the one that comes.
                let open = head.with_unknown_size();
                self.header.append(&open[..head.bytes()])?;
                self.level = Level::Segment;
                Ok(head.bytes() as u64)
            }
            (Level::Segment, CLUSTER) => {
                if self.header.has_begun() {
                    self.header.use_next();
                    findings(Finding::Header, self.header.lend());
                }
                self.cluster = Cluster {
                    start: at,
                    end: head.size.and_then(|size| body_at.checked_add(size)),
                    ..Cluster::default()
                };
                self.level = Level::Cluster;
                Ok(head.bytes() as u64)
            }
            (Level::Segment, SEEK_HEAD | CUES | VOID | CRC_32) => Ok(head.length()?),
            (Level::Segment, _) if self.header.has_begun() => self.keep(seen, head),
            (Level::Cluster, TIMESTAMP)
                if head.size.is_some_and(|size| (1..=8).contains(&size)) =>
            {
                let element = whole(seen, head.length()?, Prelude::BYTES_MAX)?;
                self.cluster.prelude = Prelude::new(&[&CLUSTER_HEAD, element].concat());
                Ok(element.len() as u64)
            }
            (Level::Cluster, SIMPLE_BLOCK) | (Level::Group, BLOCK) => {
                self.block_head(seen, at, head, findings)
            }
            (Level::Cluster, BLOCK_GROUP) => {
                let end = head.size.and_then(|size| body_at.checked_add(size));
                self.group = Group {
                    start: at,
                    end: end.ok_or(Unsupported)?,
                    ..Group::default()
                };
                self.level = Level::Group;
                Ok(head.bytes() as u64)
            }
            (Level::Group, REFERENCE_BLOCK) => {
                self.group.has_reference = true;
                Ok(head.length()?)
            }
            (Level::Top, VOID) | (Level::Segment | Level::Cluster | Level::Group, _) => {
                Ok(head.length()?)
            }
            (Level::Top, _) => Err(Unsupported.into()),
        }
    }
}

impl Matroska {
    /// Leaves the elements that end before `start`, where the next element begins.
    fn leave_levels(&mut self, start: u64, head: Head, findings: &mut Findings<'_>) {
        let is_outer = head.is_outer();
        if self.level == Level::Group && (is_outer || start >= self.group.end) {
            self.level = Level::Cluster;
            if let Some(track) = self.group.track {
                self.block(track, !self.group.has_reference, findings);
            }
        }
        if self.level == Level::Cluster
            && (is_outer || self.cluster.end.is_some_and(|end| start >= end))
        {
            self.level = Level::Segment;
        }
        if self.level == Level::Segment && matches!(head.id, EBML | SEGMENT) {
            self.level = Level::Top;
        }
    }

    /// Keeps an element of the header.
    fn keep(&mut self, seen: &[u8], head: Head) -> StepResult {
        let element = whole(seen, head.length()?, self.header.bytes_left())?;
        self.header.append(element)?;
        if head.id == TRACKS {
            self.video_track = video_track(&element[head.bytes()..]);
        }
        Ok(element.len() as u64)
    }

    /// Reads the track and the flags of a block. Two bytes of time are between them.
    fn block_head(
        &mut self,
        seen: &[u8],
        at: u64,
        head: Head,
        findings: &mut Findings<'_>,
    ) -> StepResult {
        let track_at = head.bytes();
        let more = Unread::Needs(seen.len() + 1);
        let track_bytes = seen.get(track_at).ok_or(more)?.leading_zeros() as usize + 1;
        let flags_at = track_at + track_bytes + 2;
        let length = head.length()?;
        if track_bytes > 8 || length <= flags_at as u64 {
            return Err(Unsupported.into());
        }
        let flags = seen.get(flags_at).ok_or(more)?;
        let track = ebml::number(&seen[track_at..track_at + track_bytes]).ok_or(Unsupported)?;
        if self.level == Level::Group {
            self.group.track = Some(track);
        } else {
            self.group = Group {
                start: at,
                ..Group::default()
            };
            self.block(track, flags & KEY_FRAME != 0, findings);
        }
        Ok(length)
    }

    /// Reports a block. It is alone or in a group, and `group.start` is its first byte.
    fn block(&mut self, track: u64, is_key: bool, findings: &mut Findings<'_>) {
        let is_first = !std::mem::replace(&mut self.cluster.has_blocks, true);
        let is_video = self.video_track == Some(track);
        let only_sound_before = !self.cluster.has_video;
        self.cluster.has_video |= is_video;
        let at = self.group.start;
        if is_first {
            self.last_unit = Some(self.cluster.start);
            findings(
                Finding::Unit(Start::at(self.cluster.start)),
                self.header.lend(),
            );
        } else if is_spaced(self.last_unit, at, UNIT_SPACING)
            && let Some(unit) = self.own_start()
        {
            self.last_unit = Some(at);
            // A Cluster of known size cannot be cut: players would look for its rest in the
            // following bytes.
            let finding = match self.cluster.end {
                None => Finding::Unit(unit),
                Some(_) => Finding::Entry(unit),
            };
            findings(finding, self.header.lend());
        }
        let (is_join, is_at_cluster) = match self.video_track {
            Some(_) => (is_video && is_key, only_sound_before),
            None => (
                is_first || is_spaced(self.last_join, at, UNIT_SPACING),
                is_first,
            ),
        };
        if !is_join {
            return;
        }
        let join = match is_at_cluster {
            true => Some(Start::at(self.cluster.start)),
            false => self.own_start(),
        };
        if let Some(join) = join {
            self.last_join = Some(join.offset);
            findings(Finding::Join(join), self.header.lend());
        }
    }

    /// Returns a start at the block itself.
    fn own_start(&self) -> Option<Start> {
        Some(Start {
            offset: self.group.start,
            prelude: self.cluster.prelude?,
            counter: None,
        })
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset.
    #[cfg(feature = "handover")]
    pub(super) fn is_valid(&self, offset: u64) -> bool {
        self.header.is_valid() && self.cluster.start.max(self.group.start) <= offset
    }
}

/// Returns the nanoseconds in a tick, from the content of an Info element.
#[cfg(any(feature = "hold", feature = "remux"))]
pub(crate) fn timestamp_scale(info: &[u8]) -> u64 {
    ebml::find(info, TIMESTAMP_SCALE).map_or(USUAL_TIMESTAMP_SCALE, ebml::unsigned)
}

/// Returns the number of the first video track.
fn video_track(tracks: &[u8]) -> Option<u64> {
    let mut entries = ebml::elements(tracks).filter(|(id, _)| *id == TRACK_ENTRY);
    entries.find_map(|(_, entry)| {
        let [number, kind] = ebml::fields(entry, [0xd7, 0x83]).map(|it| it.map(ebml::unsigned));
        number.filter(|_| kind == Some(1))
    })
}

// A Timestamp has an identifier of one byte, and a size and a body of at most eight bytes.
const _: () = assert!(CLUSTER_HEAD.len() + 1 + 8 + 8 <= Prelude::BYTES_MAX);

#[cfg(test)]
mod tests;
