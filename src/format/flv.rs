//! FLV (Adobe Flash Video File Format 10.1, annex E; Enhanced RTMP for newer codecs): the header is the file's head, the metadata and
//! the sequence headers; decoding can begin at a key frame's tag.

use super::window::{Step, Walker};
use super::{Finding, LetGo, Start, UNIT_SPACING};

/// The scanner.
#[derive(Default)]
pub(super) struct Flv {
    /// The file's head and the four bytes behind it; empty until it has been read.
    head: Vec<u8>,
    metadata: Vec<u8>,
    video_sequence: Vec<u8>,
    audio_sequence: Vec<u8>,
    /// One of them has changed since the header was told.
    has_changed: bool,
    has_video: bool,
    /// The time of the first tag, in milliseconds.
    first_time: Option<u32>,
    last_unit: Option<u64>,
    last_join: Option<u64>,
}

pub(super) const HEAD_BYTES: usize = 13;
pub(super) const TAG_HEAD_BYTES: usize = 11;
/// Of a tag's body, what says what it is.
const KIND_BYTES: usize = 2;
pub(super) const PREVIOUS_SIZE_BYTES: usize = 4;
/// Metadata and sequence headers are kept; larger ones are let go.
const KEPT_TAG_BYTES_MAX: usize = 256 * 1024;
/// Metadata may promise video and never send any: after so long sound counts.
const SOUND_ONLY_MILLISECONDS: u32 = 4_000;
const SOUND_SPACING: u64 = 1024;

pub(super) const AUDIO: u8 = 8;
pub(super) const VIDEO: u8 = 9;
pub(super) const SCRIPT: u8 = 18;

/// What a tag is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metadata,
    VideoSequence,
    AudioSequence,
    KeyFrame,
    /// Another picture.
    Picture,
    Sound,
    Other,
}

impl Walker for Flv {
    type Yield = Finding;

    fn look(&mut self, seen: &[u8], at: u64, findings: &mut Vec<Finding>) -> Result<Step, LetGo> {
        if self.head.is_empty() {
            return match seen.first_chunk::<HEAD_BYTES>() {
                None => Ok(Step::Hold(HEAD_BYTES)),
                Some(head) if head[5..9] == [0, 0, 0, 9] => {
                    self.head = head.to_vec();
                    Ok(Step::Pass(HEAD_BYTES as u64))
                }
                Some(_) => Err(LetGo),
            };
        }
        let Some([first, s0, s1, s2, t0, t1, t2, t3, ..]) =
            seen.first_chunk::<TAG_HEAD_BYTES>().copied()
        else {
            return Ok(Step::Hold(TAG_HEAD_BYTES));
        };
        let size = u32::from_be_bytes([0, s0, s1, s2]) as usize;
        let kind_end = TAG_HEAD_BYTES + size.min(KIND_BYTES);
        let Some(body) = seen.get(TAG_HEAD_BYTES..kind_end) else {
            return Ok(Step::Hold(kind_end));
        };
        let kind = kind(first & 0x1f, body);
        let whole = TAG_HEAD_BYTES + size + PREVIOUS_SIZE_BYTES;
        if matches!(
            kind,
            Kind::Metadata | Kind::VideoSequence | Kind::AudioSequence
        ) {
            if whole > KEPT_TAG_BYTES_MAX {
                return Err(LetGo);
            }
            let Some(tag) = seen.get(..whole) else {
                return Ok(Step::Hold(whole));
            };
            let tag = tag.to_vec();
            self.keep(kind, tag);
        }
        self.tag(kind, u32::from_be_bytes([t3, t0, t1, t2]), at, findings);
        Ok(Step::Pass(whole as u64))
    }
}

impl Flv {
    fn keep(&mut self, kind: Kind, mut tag: Vec<u8>) {
        let place = match kind {
            Kind::Metadata => &mut self.metadata,
            Kind::VideoSequence => &mut self.video_sequence,
            _ => &mut self.audio_sequence,
        };
        if kind == Kind::Metadata {
            // With a later time stamp some players make a track of text of it.
            tag[4..8].fill(0);
        }
        self.has_changed |= *place != tag;
        *place = tag;
    }

    fn tag(&mut self, kind: Kind, time: u32, at: u64, findings: &mut Vec<Finding>) {
        let first_time = *self.first_time.get_or_insert(time);
        self.has_video |= matches!(kind, Kind::VideoSequence | Kind::KeyFrame | Kind::Picture);
        let promises_video = self.head.get(4).is_some_and(|flags| flags & 1 != 0);
        let is_sound_only = !self.has_video
            && (!promises_video || time.wrapping_sub(first_time) >= SOUND_ONLY_MILLISECONDS);
        let spaced = self.last_join.is_none_or(|last| at >= last + SOUND_SPACING);
        let is_join = kind == Kind::KeyFrame || (kind == Kind::Sound && is_sound_only && spaced);
        if is_join && (self.has_changed || self.last_join.is_none()) {
            self.has_changed = false;
            (self.last_unit, self.last_join) = (None, None);
            let header = [
                &self.head,
                &self.metadata,
                &self.video_sequence,
                &self.audio_sequence,
            ]
            .map(Vec::as_slice)
            .concat();
            findings.push(Finding::Header(header));
        }
        if self.last_unit.is_none_or(|last| at >= last + UNIT_SPACING) {
            self.last_unit = Some(at);
            findings.push(Finding::Unit(Start::at(at)));
        }
        if is_join {
            self.last_join = Some(at);
            findings.push(Finding::Join(Start::at(at)));
        }
    }
}

/// What the first bytes of a tag's body say.
fn kind(tag_type: u8, body: &[u8]) -> Kind {
    match (tag_type, body) {
        (SCRIPT, _) => Kind::Metadata,
        // Enhanced RTMP: the packet type stands where the codec did.
        (VIDEO, [first, ..]) if first & 0x80 != 0 => match (first & 0x0f, first >> 4 & 7) {
            (0, _) => Kind::VideoSequence,
            (1 | 3, 1) => Kind::KeyFrame,
            (1 | 3, _) => Kind::Picture,
            _ => Kind::Other,
        },
        // AVC, and HEVC as some send it: a sequence header and an end of sequence say that they are key frames too.
        (VIDEO, [first, packet]) if matches!(first & 0x0f, 7 | 12) => match (packet, first >> 4) {
            (0, _) => Kind::VideoSequence,
            (1, 1) => Kind::KeyFrame,
            (1, _) => Kind::Picture,
            _ => Kind::Other,
        },
        (VIDEO, [first, ..]) if first >> 4 == 1 => Kind::KeyFrame,
        (VIDEO, [_, ..]) => Kind::Picture,
        (AUDIO, [first, 0]) if first >> 4 == 10 => Kind::AudioSequence,
        (AUDIO, [first, ..]) if first >> 4 == 9 => match first & 0x0f {
            0 => Kind::AudioSequence,
            1 => Kind::Sound,
            _ => Kind::Other,
        },
        (AUDIO, [_, ..]) => Kind::Sound,
        _ => Kind::Other,
    }
}
