//! Cuts FLV into tags. (Adobe Flash Video File Format 10.1, annex E.)

use super::super::flv::{
    AUDIO, HEAD_BYTES, KIND_BYTES, PREVIOUS_SIZE_BYTES, SCRIPT, TAG_HEAD_BYTES, TagHead, VIDEO,
};
use super::super::window::{StepResult, Unread, Walker};
use super::copy;
use super::timeline::Timeline;

/// Cutter of FLV. It also moves the times.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) struct TagCutter {
    pub unit_bytes_max: usize,
    /// Whether the head of the file has come.
    has_head: bool,
    /// Time of the newest tag, in milliseconds. The 32 bits of a tag may have wrapped.
    time: Option<i64>,
    pub(super) timeline: Timeline,
    /// Codec of the first tag with a picture, and of the first with sound.
    codecs: [Option<CodecBytes>; 2],
    /// Bytes that are left of a tag that passes as it comes.
    pub tag_bytes_left: u64,
}

/// Codec in the body of a tag: its number, with rate and channels for sound, or its four letters.
type CodecBytes = [u8; KIND_BYTES];

impl TagCutter {
    /// Returns a cutter for the first source. A longer tag passes as it comes.
    pub fn new(unit_bytes_max: usize) -> TagCutter {
        TagCutter {
            unit_bytes_max,
            has_head: false,
            time: None,
            timeline: Timeline::new(1000),
            codecs: [None; 2],
            tag_bytes_left: 0,
        }
    }

    /// Returns whether another source has the same codecs. It begins with `bytes`, and its join
    /// point is at `join`. The headers are not enough, since some codecs have no sequence header.
    /// No tag after the join point counts: how much of it is there depends on how the source is
    /// cut.
    pub fn is_like(&self, bytes: &[u8], join: u64) -> bool {
        let end = usize::try_from(join).unwrap_or(usize::MAX);
        let end = end.saturating_add(TAG_HEAD_BYTES + KIND_BYTES);
        let bytes = &bytes[..end.min(bytes.len())];
        let mut others = [None; 2];
        for (kind, body) in tags(bytes.get(HEAD_BYTES..).unwrap_or_default()) {
            note_codec(&mut others, kind, body);
        }
        let mut pairs = self.codecs.iter().zip(others);
        pairs.all(|(one, other)| one.zip(other).is_none_or(|(one, other)| one == other))
    }

    /// Begins another source, at a tag.
    pub fn seam(&mut self) {
        self.time = None;
        self.timeline.seam();
    }

    /// Returns the time of a tag with these 32 bits.
    fn time(&mut self, stamp: u32) -> i64 {
        let time = match self.time {
            None => i64::from(stamp),
            Some(time) => time.saturating_add((stamp.wrapping_sub(time as u32) as i32).into()),
        };
        self.time = Some(time);
        time
    }
}

impl Walker<Vec<u8>> for TagCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        if self.tag_bytes_left > 0 {
            return Ok(copy(&mut self.tag_bytes_left, seen, out));
        }
        if !self.has_head {
            let head = seen.first_chunk::<HEAD_BYTES>();
            let head = head.ok_or(Unread::Needs(HEAD_BYTES))?;
            out.extend_from_slice(head);
            self.has_head = true;
            return Ok(HEAD_BYTES as u64);
        }
        let TagHead { kind, size, time } =
            TagHead::read(seen).ok_or(Unread::Needs(TAG_HEAD_BYTES))?;
        let whole = TAG_HEAD_BYTES + size + PREVIOUS_SIZE_BYTES;
        // A longer tag passes as it comes.
        let needed = if whole > self.unit_bytes_max {
            TAG_HEAD_BYTES + size.min(KIND_BYTES)
        } else {
            whole
        };
        let tag = seen.get(..needed).ok_or(Unread::Needs(needed))?;
        let body_end = needed.min(TAG_HEAD_BYTES + size);
        note_codec(&mut self.codecs, kind, &tag[TAG_HEAD_BYTES..body_end]);
        let time = self.time(time);
        let track = u64::from(kind & 0x1f);
        let Some(moved) = self.timeline.new_time(track, time) else {
            return Ok(whole as u64);
        };
        if track != u64::from(SCRIPT) {
            self.timeline.note(track, moved, None)?;
        }
        let [t3, t0, t1, t2] = (moved as u32).to_be_bytes();
        out.extend_from_slice(&tag[..4]);
        out.extend_from_slice(&[t0, t1, t2, t3]);
        out.extend_from_slice(&tag[8..]);
        self.tag_bytes_left = (whole - needed) as u64;
        Ok(needed as u64)
    }
}

/// Stores the codec of the first video tag and of the first audio tag.
fn note_codec(codecs: &mut [Option<CodecBytes>; 2], kind: u8, body: &[u8]) {
    let Some(first) = body.first() else {
        return;
    };
    let (place, is_named, number) = match kind & 0x1f {
        VIDEO => (0, first & 0x80 != 0, first & 0x0f),
        AUDIO => (1, first >> 4 == 9, *first),
        _ => return,
    };
    let codec = match body.first_chunk::<KIND_BYTES>() {
        Some([_, name @ ..]) if is_named => [0, name[0], name[1], name[2], name[3]],
        None if is_named => return,
        Some(_) | None => [number, 0, 0, 0, 0],
    };
    codecs[place].get_or_insert(codec);
}

/// Returns whether two headers set decoders up alike: by the tracks, and by the sequence headers
/// that viewers have had. A source that broke early may have had none.
pub(super) fn are_alike(old: &[u8], new: &[u8]) -> bool {
    let flags = |header: &[u8]| header.get(FLAGS).copied();
    let mut tags = sequence_headers(old);
    (old.is_empty() || flags(old) == flags(new)) && tags.all(|tag| header_has(new, tag))
}

/// Returns the sequence headers that viewers lack, with the time of the first tag in `bytes`.
pub(super) fn missing_headers(old: &[u8], new: &[u8], bytes: &[u8]) -> Vec<u8> {
    let time = bytes.get(4..8).unwrap_or(&[0; 4]);
    let missing = sequence_headers(new).filter(|tag| !header_has(old, *tag));
    let tag = |(kind, body): (u8, &[u8])| {
        let [_, size @ ..] = (body.len() as u32).to_be_bytes();
        let whole = ((TAG_HEAD_BYTES + body.len()) as u32).to_be_bytes();
        [&[kind][..], &size, time, &[0; 3], body, &whole].concat()
    };
    missing.flat_map(tag).collect()
}

/// Position in the head of the flags that name the tracks.
const FLAGS: usize = 4;

fn header_has(header: &[u8], tag: (u8, &[u8])) -> bool {
    sequence_headers(header).any(|other| other == tag)
}

/// Returns the tags of a header that decoders need: type and body.
fn sequence_headers(header: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    tags(header.get(HEAD_BYTES..).unwrap_or_default()).filter(|(kind, _)| *kind != SCRIPT)
}

/// Returns the type and the body of each tag. The last body may be cut off.
fn tags(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head = TagHead::read(rest)?;
        let after = &rest[TAG_HEAD_BYTES..];
        let (body, after) = after.split_at(head.size.min(after.len()));
        rest = after.get(PREVIOUS_SIZE_BYTES..).unwrap_or_default();
        Some((head.kind, body))
    })
}

#[cfg(test)]
mod tests;
