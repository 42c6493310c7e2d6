//! FLV (Adobe Flash Video File Format 10.1, annex E; Enhanced RTMP for newer codecs). The header is
//! the head of the file, the metadata and the sequence headers. Decoding can begin at the tag of a
//! key frame.

use super::header::{HEADER_BYTES_MAX, Header, InParts, Parts};
use super::window::{StepResult, Unread, Walker, whole};
use super::{Finding, Findings, SOUND_SPACING, Start, UNIT_SPACING, Unsupported, is_spaced};
use crate::copied::Copied;
#[cfg(feature = "handover")]
use crate::copied::CopiedPart;

/// Walker of FLV.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Flv {
    /// Tags of the header.
    tags: HeaderTags,
    /// Whether the stream has had video.
    has_video: bool,
    /// Time of the first tag, in milliseconds.
    first_time: Option<u32>,
    /// Offset of the newest unit.
    last_unit: Option<u64>,
    /// Offset of the newest join.
    last_join: Option<u64>,
}

/// Tags of the header: the head of the file with the four bytes after it, metadata, and the
/// sequence headers of pictures and of sound. The header is reported with the first media. Later
/// changes wait for the next key frame.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct HeaderTags {
    /// Head of the file. `None` until it has been read.
    head: Option<[u8; HEAD_BYTES]>,
    /// Whether the header has been reported.
    is_reported: bool,
    /// Metadata, then the sequence headers of pictures and of sound.
    kept: [Tag; 3],
}

/// One tag of the header: the one in force, and the newest if it differs. Both allocations are used
/// again, so a tag that keeps changing allocates nothing.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Tag {
    /// Tag in force.
    current: Copied,
    /// Newest tag, if it differs.
    next: Copied,
    /// Whether `next` differs from the tag in force.
    has_changed: bool,
}

pub(crate) const HEAD_BYTES: usize = 13;
pub(crate) const TAG_HEAD_BYTES: usize = 11;
/// Number of bytes at the beginning of a tag's body that show its kind and its codec. Scripts need
/// more: [`METADATA_NAME`].
pub(super) const KIND_BYTES: usize = 5;
/// Beginning of a script that describes the stream (AMF: a string of ten letters). Cue points and
/// captions are scripts, too.
const METADATA_NAME: &[u8; 13] = b"\x02\0\x0aonMetaData";
pub(crate) const PREVIOUS_SIZE_BYTES: usize = 4;
/// Longest metadata that is kept. It leaves room for the key frames of hours; a live stream lists
/// none.
const METADATA_BYTES_MAX: usize = 128 * 1024;
/// Longest sequence header. Those of real encoders have less than 1 KiB.
const SEQUENCE_BYTES_MAX: usize = 32 * 1024;
/// Time after which a stream without video counts as sound only, even if its head announces video.
const SOUND_ONLY_MILLISECONDS: u32 = 4_000;

pub(crate) const AUDIO: u8 = 8;
pub(crate) const VIDEO: u8 = 9;
pub(crate) const SCRIPT: u8 = 18;

/// Head of a tag.
pub(crate) struct TagHead {
    /// Type of the tag in the lowest five bits, and flags.
    pub kind: u8,
    /// Length of the body.
    pub size: usize,
    /// Time in milliseconds.
    pub time: u32,
}

impl TagHead {
    /// Reads the head at the front. `None` if it is not whole.
    pub fn read(bytes: &[u8]) -> Option<TagHead> {
        let [kind, s0, s1, s2, t0, t1, t2, t3, ..] = *bytes.first_chunk::<TAG_HEAD_BYTES>()?;
        Some(TagHead {
            kind,
            size: u32::from_be_bytes([0, s0, s1, s2]) as usize,
            time: u32::from_be_bytes([t3, t0, t1, t2]),
        })
    }
}

/// What a tag carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagKind {
    Metadata,
    VideoSequence,
    AudioSequence,
    KeyFrame,
    /// A picture that needs another one.
    Picture,
    Sound,
    Other,
}

impl Walker<Findings<'_>> for Flv {
    fn step(&mut self, seen: &[u8], at: u64, findings: &mut Findings<'_>) -> StepResult {
        if self.tags.head.is_none() {
            let head = seen.first_chunk::<HEAD_BYTES>();
            let head = head.ok_or(Unread::Needs(HEAD_BYTES))?;
            if head[5..9] != [0, 0, 0, 9] {
                return Err(Unsupported.into());
            }
            self.tags.head = Some(*head);
            return Ok(HEAD_BYTES as u64);
        }
        let head = TagHead::read(seen).ok_or(Unread::Needs(TAG_HEAD_BYTES))?;
        let kind_bytes = match head.kind & 0x1f {
            SCRIPT => METADATA_NAME.len(),
            _ => KIND_BYTES,
        };
        let kind_end = TAG_HEAD_BYTES + head.size.min(kind_bytes);
        let body = seen.get(TAG_HEAD_BYTES..kind_end);
        let kind = kind(head.kind & 0x1f, body.ok_or(Unread::Needs(kind_end))?);
        let length = (TAG_HEAD_BYTES + head.size + PREVIOUS_SIZE_BYTES) as u64;
        let kept = match kind {
            TagKind::Metadata => Some((&mut self.tags.kept[0], METADATA_BYTES_MAX)),
            TagKind::VideoSequence => Some((&mut self.tags.kept[1], SEQUENCE_BYTES_MAX)),
            TagKind::AudioSequence => Some((&mut self.tags.kept[2], SEQUENCE_BYTES_MAX)),
            TagKind::KeyFrame | TagKind::Picture | TagKind::Sound | TagKind::Other => None,
        };
        if let Some((kept, bytes_max)) = kept {
            let tag = whole(seen, length, bytes_max)?;
            // The time of metadata is set to 0: with a later time some players show it as a text
            // track.
            kept.set_newest(tag, kind == TagKind::Metadata);
        }
        self.tag(kind, head.time, at, findings);
        Ok(length)
    }
}

impl Flv {
    pub(super) fn header(&self) -> Header<'_> {
        Header(Parts::Several(&self.tags))
    }

    fn tag(&mut self, kind: TagKind, time: u32, at: u64, findings: &mut Findings<'_>) {
        let first_time = *self.first_time.get_or_insert(time);
        self.has_video |= matches!(
            kind,
            TagKind::VideoSequence | TagKind::KeyFrame | TagKind::Picture
        );
        let promises_video = self.tags.head.is_some_and(|head| head[4] & 1 != 0);
        let is_sound_only = !self.has_video
            && (!promises_video || time.wrapping_sub(first_time) >= SOUND_ONLY_MILLISECONDS);
        let spaced = is_spaced(self.last_join, at, SOUND_SPACING);
        let is_join =
            kind == TagKind::KeyFrame || (kind == TagKind::Sound && is_sound_only && spaced);
        // An early viewer, before the first join point, needs the tags so far.
        let is_first = !self.tags.is_reported && matches!(kind, TagKind::Picture | TagKind::Sound);
        if (is_join || is_first) && self.tags.apply_newest() {
            (self.last_unit, self.last_join) = (None, None);
            findings(Finding::Header, self.header());
        }
        if is_spaced(self.last_unit, at, UNIT_SPACING) {
            self.last_unit = Some(at);
            findings(Finding::Unit(Start::at(at)), self.header());
        }
        if is_join {
            self.last_join = Some(at);
            findings(Finding::Join(Start::at(at)), self.header());
        }
    }

    /// Returns the bytes of this kind. Metadata is the one tag that may be large.
    #[cfg(feature = "handover")]
    pub(super) fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        let [metadata, ..] = &mut self.tags.kept;
        match part {
            CopiedPart::Header => Some(&mut metadata.current),
            CopiedPart::NextHeader => Some(&mut metadata.next),
            _ => None,
        }
    }

    /// Returns whether a handed-over state is possible. Offsets are only compared.
    #[cfg(feature = "handover")]
    pub(super) fn is_valid(&self) -> bool {
        let mut tags = self
            .tags
            .kept
            .iter()
            .flat_map(|tag| [&tag.current, &tag.next]);
        tags.all(|tag| tag.len() <= METADATA_BYTES_MAX)
    }
}

impl InParts for HeaderTags {
    fn each(&self, _counter: Option<u8>, part: &mut dyn FnMut(&[u8])) {
        let head = self.head.iter().filter(|_| self.is_reported);
        let tags = self.kept.iter().map(|tag| tag.current.as_slice());
        head.map(|head| &head[..]).chain(tags).for_each(part);
    }
}

impl HeaderTags {
    /// Puts the newest tags in force. Returns whether the header has changed.
    fn apply_newest(&mut self) -> bool {
        let mut is_new = !std::mem::replace(&mut self.is_reported, true);
        for tag in &mut self.kept {
            if std::mem::take(&mut tag.has_changed) {
                std::mem::swap(&mut tag.current.bytes, &mut tag.next.bytes);
                tag.current.forget();
                tag.next.forget();
                is_new = true;
            }
        }
        is_new
    }
}

impl Tag {
    /// Sets the newest tag. With `is_timeless` its time is replaced by 0.
    fn set_newest(&mut self, tag: &[u8], is_timeless: bool) {
        let time = if is_timeless { &[0; 4] } else { &tag[4..8] };
        let is_same = self.current.len() == tag.len()
            && self.current[..4] == tag[..4]
            && self.current[4..8] == *time
            && self.current[8..] == tag[8..];
        self.has_changed = !is_same;
        if self.has_changed {
            self.next.clear();
            let next = &mut self.next.bytes;
            next.reserve_exact(tag.len());
            next.extend_from_slice(&tag[..4]);
            next.extend_from_slice(time);
            next.extend_from_slice(&tag[8..]);
        }
    }
}

// All parts together fit into a header.
const _: () = assert!(HEAD_BYTES + METADATA_BYTES_MAX + 2 * SEQUENCE_BYTES_MAX <= HEADER_BYTES_MAX);

/// Returns what a tag is, by the first bytes of its body.
fn kind(tag_type: u8, body: &[u8]) -> TagKind {
    match (tag_type, body) {
        (SCRIPT, name) if name == METADATA_NAME => TagKind::Metadata,
        // Enhanced RTMP: the packet type is where the codec was.
        (VIDEO, [first, ..]) if first & 0x80 != 0 => match (first & 0x0f, first >> 4 & 7) {
            (0, _) => TagKind::VideoSequence,
            (1 | 3, 1) => TagKind::KeyFrame,
            (1 | 3, _) => TagKind::Picture,
            _ => TagKind::Other,
        },
        // AVC, and HEVC as some encoders send it. A sequence header and an end of sequence call
        // themselves key frames, too.
        (VIDEO, [first, packet, ..]) if matches!(first & 0x0f, 7 | 12) => {
            match (packet, first >> 4) {
                (0, _) => TagKind::VideoSequence,
                (1, 1) => TagKind::KeyFrame,
                (1, _) => TagKind::Picture,
                _ => TagKind::Other,
            }
        }
        (VIDEO, [first, ..]) if first >> 4 == 1 => TagKind::KeyFrame,
        (VIDEO, [_, ..]) => TagKind::Picture,
        (AUDIO, [first, 0, ..]) if first >> 4 == 10 => TagKind::AudioSequence,
        (AUDIO, [first, ..]) if first >> 4 == 9 => match first & 0x0f {
            0 => TagKind::AudioSequence,
            1 => TagKind::Sound,
            _ => TagKind::Other,
        },
        (AUDIO, [_, ..]) => TagKind::Sound,
        _ => TagKind::Other,
    }
}

#[cfg(test)]
mod tests;
