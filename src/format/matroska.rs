//! WebM and Matroska (RFC 9559): the header is what stands before the first Cluster, decoding can begin at a key frame of the video
//! track, which most live encoders put in the middle of a Cluster.
//!
//! A viewer who begins there is first sent a Cluster head of unknown size and the Cluster's Timestamp, and then the source's bytes from
//! the block on. Elements are walked by their sizes, never searched for; of a block only its first bytes are looked at.

use super::ebml::{self, HEAD_BYTES_MAX, Head, Read};
use super::{Finding, Format, HEADER_BYTES_MAX, LetGo, Prelude, Start, UNIT_SPACING};

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const CUES: u32 = 0x1c53_bb6b;
const CLUSTER: u32 = 0x1f43_b675;
const TRACKS: u32 = 0x1654_ae6b;
const VOID: u32 = 0xec;
const CRC_32: u32 = 0xbf;
const TIMESTAMP: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const REFERENCE_BLOCK: u32 = 0xfb;

/// A Cluster of unknown size.
const CLUSTER_HEAD: [u8; 12] = [
    0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
];
/// Of a block: a track number, two bytes of time, one of flags.
const BLOCK_HEAD_BYTES: usize = 11;
const KEY_FRAME: u8 = 0x80;
/// An EBML head is some forty bytes.
const EBML_HEAD_BYTES_MAX: usize = 4096;

/// The scanner.
#[derive(Debug, Default)]
pub(super) struct Matroska {
    /// The offset of the next byte.
    at: u64,
    /// The bytes of a head, or of a block's first bytes, that have arrived: at most [`HEAD_BYTES_MAX`].
    held: Vec<u8>,
    step: Step,
    level: Level,
    /// The header so far; empty once it has been told.
    header: Vec<u8>,
    video_track: Option<u64>,
    cluster: Cluster,
    group: Group,
    last_unit: Option<u64>,
    last_join: Option<u64>,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Head,
    /// `left` bytes that mean nothing here.
    Skip { left: u64 },
    /// `left` bytes of the header; the element's body began at `from` in it.
    Keep { left: u64, id: u32, from: usize },
    /// A Cluster's Timestamp, `left` bytes of it.
    Timestamp { left: u64 },
    /// A block's first bytes; `left` bytes of the block in all.
    Block { left: u64 },
}

/// Which element the next one is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Top,
    Segment,
    Cluster,
    Group,
}

#[derive(Debug, Default)]
struct Cluster {
    start: u64,
    end: Option<u64>,
    /// The Timestamp element as it came.
    timestamp: Vec<u8>,
    has_blocks: bool,
    has_video: bool,
}

#[derive(Debug, Default)]
struct Group {
    start: u64,
    end: u64,
    track: Option<u64>,
    has_reference: bool,
}

/// What an EBML head says of what follows: `None` if it is not whole yet, `Some(None)` if it is neither WebM nor Matroska.
pub(super) fn doc_type(bytes: &[u8]) -> Option<Option<Format>> {
    let head = match ebml::head(bytes) {
        Read::Whole(head) => head,
        Read::More => return None,
        Read::Malformed => return Some(None),
    };
    let Some(size) = head
        .size
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| *size <= EBML_HEAD_BYTES_MAX)
    else {
        return Some(None);
    };
    let body = bytes.get(head.bytes()..head.bytes() + size)?;
    let mut format = None;
    for (id, element) in ebml::elements(body) {
        match id {
            0x4282 => {
                format = match element.split(|byte| *byte == 0).next() {
                    Some(b"webm") => Some(Format::WebM),
                    Some(b"matroska") => Some(Format::Matroska),
                    _ => None,
                }
            }
            0x42f2 if ebml::unsigned(element) > 4 => return Some(None),
            0x42f3 if ebml::unsigned(element) > 8 => return Some(None),
            _ => {}
        }
    }
    Some(format.filter(|_| head.id == EBML))
}

impl Matroska {
    /// Takes the next bytes, of which the first is at `offset`.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        offset: u64,
        findings: &mut Vec<Finding>,
    ) -> Result<(), LetGo> {
        self.at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.step {
                Step::Head => {
                    self.held.push(rest[0]);
                    self.pass(&mut rest, 1);
                    match ebml::head(&self.held) {
                        Read::More => {}
                        Read::Malformed => return Err(LetGo),
                        Read::Whole(head) => self.enter(head, findings)?,
                    }
                }
                Step::Skip { left } => {
                    let taken = self.pass_up_to(&mut rest, left);
                    self.step = if taken == left {
                        Step::Head
                    } else {
                        Step::Skip { left: left - taken }
                    };
                }
                Step::Keep { left, id, from } => {
                    let before = rest;
                    let taken = self.pass_up_to(&mut rest, left);
                    self.header.extend_from_slice(&before[..taken as usize]);
                    self.step = Step::Keep {
                        left: left - taken,
                        id,
                        from,
                    };
                    if taken == left {
                        self.kept(id, from);
                    }
                }
                Step::Timestamp { left } => {
                    let before = rest;
                    let taken = self.pass_up_to(&mut rest, left);
                    self.cluster
                        .timestamp
                        .extend_from_slice(&before[..taken as usize]);
                    self.step = if taken == left {
                        Step::Head
                    } else {
                        Step::Timestamp { left: left - taken }
                    };
                }
                Step::Block { left } => {
                    self.held.push(rest[0]);
                    self.pass(&mut rest, 1);
                    self.block_byte(left - 1, findings)?;
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, rest: &mut &[u8], bytes: usize) {
        *rest = &rest[bytes..];
        self.at += bytes as u64;
    }

    fn pass_up_to(&mut self, rest: &mut &[u8], left: u64) -> u64 {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        self.pass(rest, taken);
        taken as u64
    }

    /// An element's head is whole: `at` is where its body begins.
    fn enter(&mut self, head: Head, findings: &mut Vec<Finding>) -> Result<(), LetGo> {
        let start = self.at - head.bytes() as u64;
        self.leave_levels(start, head.id, findings);
        let held = std::mem::take(&mut self.held);
        match (self.level, head.id) {
            (Level::Top, EBML) => {
                // Another head in mid-stream begins another stream: nothing of the one before counts.
                *self = Matroska {
                    at: self.at,
                    ..Matroska::default()
                };
                self.keep(&held, head)
            }
            (Level::Top, SEGMENT) if !self.header.is_empty() => {
                self.header.extend_from_slice(&held[..head.id_bytes]);
                // Unknown, in as many bytes: who comes late would wait for another end than what comes.
                self.header.push(0xff >> (head.size_bytes - 1));
                self.header
                    .extend(std::iter::repeat_n(0xff, head.size_bytes - 1));
                self.level = Level::Segment;
                Ok(())
            }
            (Level::Segment, CLUSTER) => {
                self.tell_header(findings);
                self.cluster = Cluster {
                    start,
                    end: head.size.and_then(|size| self.at.checked_add(size)),
                    ..Cluster::default()
                };
                self.level = Level::Cluster;
                Ok(())
            }
            (Level::Segment, SEEK_HEAD | CUES | VOID | CRC_32) => self.skip(head),
            (Level::Segment, _) if !self.header.is_empty() => self.keep(&held, head),
            (Level::Cluster, TIMESTAMP)
                if head.size.is_some_and(|size| (1..=8).contains(&size)) =>
            {
                self.cluster.timestamp = held;
                self.step = Step::Timestamp {
                    left: head.size.unwrap_or(0),
                };
                Ok(())
            }
            (Level::Cluster, SIMPLE_BLOCK) | (Level::Group, BLOCK) => {
                self.cluster_or_group_start(start);
                self.step = Step::Block {
                    left: head.size.filter(|size| *size > 3).ok_or(LetGo)?,
                };
                Ok(())
            }
            (Level::Cluster, BLOCK_GROUP) => {
                let end = head
                    .size
                    .and_then(|size| self.at.checked_add(size))
                    .ok_or(LetGo)?;
                self.group = Group {
                    start,
                    end,
                    ..Group::default()
                };
                self.level = Level::Group;
                Ok(())
            }
            (Level::Group, REFERENCE_BLOCK) => {
                self.group.has_reference = true;
                self.skip(head)
            }
            (Level::Top, VOID) | (Level::Segment | Level::Cluster | Level::Group, _) => {
                self.skip(head)
            }
            (Level::Top, _) => Err(LetGo),
        }
    }

    fn cluster_or_group_start(&mut self, start: u64) {
        if self.level == Level::Cluster {
            self.group = Group {
                start,
                ..Group::default()
            };
        }
    }

    /// An element that begins at `start` may be behind the end of those that the last one was in.
    fn leave_levels(&mut self, start: u64, id: u32, findings: &mut Vec<Finding>) {
        // Identifiers of four bytes stand in a Segment or at the top only.
        let is_outer = id >= 0x1000_0000;
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
        if self.level == Level::Segment && matches!(id, EBML | SEGMENT) {
            self.level = Level::Top;
        }
    }

    fn skip(&mut self, head: Head) -> Result<(), LetGo> {
        let left = head.size.ok_or(LetGo)?;
        self.step = if left == 0 {
            Step::Head
        } else {
            Step::Skip { left }
        };
        Ok(())
    }

    /// The element belongs to the header.
    fn keep(&mut self, held: &[u8], head: Head) -> Result<(), LetGo> {
        let left = head.size.ok_or(LetGo)?;
        if left > (HEADER_BYTES_MAX - self.header.len().min(HEADER_BYTES_MAX)) as u64 {
            return Err(LetGo);
        }
        self.header.extend_from_slice(held);
        self.step = Step::Keep {
            left,
            id: head.id,
            from: self.header.len(),
        };
        if left == 0 {
            self.step = Step::Head;
        }
        Ok(())
    }

    /// An element of the header is whole.
    fn kept(&mut self, id: u32, from: usize) {
        self.step = Step::Head;
        if id != TRACKS {
            return;
        }
        let entries = ebml::elements(&self.header[from..]).filter(|(id, _)| *id == 0xae);
        self.video_track = entries.into_iter().find_map(|(_, entry)| {
            let field = |wanted: u32| {
                ebml::elements(entry)
                    .find(|(id, _)| *id == wanted)
                    .map(|(_, body)| ebml::unsigned(body))
            };
            field(0xd7).filter(|_| field(0x83) == Some(1))
        });
    }

    fn tell_header(&mut self, findings: &mut Vec<Finding>) {
        if !self.header.is_empty() {
            findings.push(Finding::Header(std::mem::take(&mut self.header)));
        }
    }

    /// Another of a block's first bytes is held; `left` bytes of the block follow.
    fn block_byte(&mut self, left: u64, findings: &mut Vec<Finding>) -> Result<(), LetGo> {
        self.step = Step::Block { left };
        let track_bytes = self.held[0].leading_zeros() as usize + 1;
        if track_bytes > 8 {
            return Err(LetGo);
        }
        if self.held.len() < track_bytes + 3 {
            return if left == 0 { Err(LetGo) } else { Ok(()) };
        }
        let track = ebml::number(&self.held[..track_bytes]).ok_or(LetGo)?;
        let is_key = self.held[track_bytes + 2] & KEY_FRAME != 0;
        self.held.clear();
        self.step = if left == 0 {
            Step::Head
        } else {
            Step::Skip { left }
        };
        if self.level == Level::Group {
            self.group.track = Some(track);
        } else {
            self.block(track, is_key, findings);
        }
        Ok(())
    }

    /// A block, alone or in its group, of which `group.start` is the first byte.
    fn block(&mut self, track: u64, is_key: bool, findings: &mut Vec<Finding>) {
        let is_first = !std::mem::replace(&mut self.cluster.has_blocks, true);
        let is_video = self.video_track == Some(track);
        let only_sound_before = !self.cluster.has_video;
        self.cluster.has_video |= is_video;
        let own = self.own_start();
        let at_cluster = Start::at(self.cluster.start);
        if let Some(unit) = if is_first { Some(at_cluster) } else { own }
            && (is_first
                || self
                    .last_unit
                    .is_none_or(|last| unit.offset >= last + UNIT_SPACING))
        {
            self.last_unit = Some(unit.offset);
            // A cluster of known size cannot be cut: who reads it would look for the rest of it in what comes next.
            let is_cuttable = is_first || self.cluster.end.is_none();
            findings.push(if is_cuttable {
                Finding::Unit(unit)
            } else {
                Finding::Entry(unit)
            });
        }
        let join = match self.video_track {
            Some(_) if is_video && is_key => {
                if only_sound_before {
                    Some(at_cluster)
                } else {
                    own
                }
            }
            Some(_) => None,
            None if is_first => Some(at_cluster),
            None => own.filter(|own| {
                self.last_join
                    .is_none_or(|last| own.offset >= last + UNIT_SPACING)
            }),
        };
        if let Some(join) = join
            && self.last_join.is_none_or(|last| join.offset > last)
        {
            self.last_join = Some(join.offset);
            findings.push(Finding::Join(join));
        }
    }

    /// A start at the block itself.
    fn own_start(&self) -> Option<Start> {
        let timestamp = Some(&self.cluster.timestamp).filter(|timestamp| !timestamp.is_empty())?;
        let prelude = Prelude::new(&[&CLUSTER_HEAD[..], timestamp].concat())?;
        Some(Start {
            offset: self.group.start,
            prelude,
        })
    }
}

const _: () =
    assert!(BLOCK_HEAD_BYTES <= HEAD_BYTES_MAX && CLUSTER_HEAD.len() + 10 <= Prelude::BYTES_MAX);
