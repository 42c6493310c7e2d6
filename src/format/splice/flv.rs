//! FLV, cut into tags. (Adobe Flash Video File Format 10.1, annex E.)

use super::super::LetGo;
use super::super::flv::{HEAD_BYTES, PREVIOUS_SIZE_BYTES, SCRIPT, TAG_HEAD_BYTES};
use super::super::window::{Step, Walker};
use super::timeline::Timeline;

/// Cuts and moves.
pub(in super::super) struct Tags {
    unit_bytes_max: usize,
    has_head: bool,
    /// The newest tag's time, which its 32 bits may have passed round.
    time: Option<i64>,
    timeline: Timeline,
}

impl Tags {
    pub fn new(unit_bytes_max: usize) -> Tags {
        Tags {
            unit_bytes_max,
            has_head: false,
            time: None,
            timeline: Timeline::new(1000),
        }
    }

    /// Another source comes, from a tag on.
    pub fn seam(&mut self) {
        self.time = None;
        self.timeline.seam();
    }

    /// Of a tag with these 32 bits.
    fn time(&mut self, stamp: u32) -> i64 {
        let time = match self.time {
            None => i64::from(stamp),
            Some(time) => time + i64::from(stamp.wrapping_sub(time as u32) as i32),
        };
        self.time = Some(time);
        time
    }
}

impl Walker for Tags {
    type Yield = u8;

    fn look(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> Result<Step, LetGo> {
        if !self.has_head {
            let Some(head) = seen.first_chunk::<HEAD_BYTES>() else {
                return Ok(Step::Hold(HEAD_BYTES));
            };
            out.extend_from_slice(head);
            self.has_head = true;
            return Ok(Step::Pass(HEAD_BYTES as u64));
        }
        let Some([kind, s0, s1, s2, t0, t1, t2, t3, ..]) =
            seen.first_chunk::<TAG_HEAD_BYTES>().copied()
        else {
            return Ok(Step::Hold(TAG_HEAD_BYTES));
        };
        let size = u32::from_be_bytes([0, s0, s1, s2]) as usize;
        let whole = TAG_HEAD_BYTES + size + PREVIOUS_SIZE_BYTES;
        if whole > self.unit_bytes_max {
            return Err(LetGo);
        }
        let Some(tag) = seen.get(..whole) else {
            return Ok(Step::Hold(whole));
        };
        let time = self.time(u32::from_be_bytes([t3, t0, t1, t2]));
        let track = u64::from(kind & 0x1f);
        let Some(moved) = self.timeline.place(track, time) else {
            return Ok(Step::Pass(whole as u64));
        };
        if track != u64::from(SCRIPT) {
            self.timeline.note(track, moved, None)?;
        }
        let [t3, t0, t1, t2] = (moved as u32).to_be_bytes();
        out.extend_from_slice(&[kind, s0, s1, s2, t0, t1, t2, t3]);
        out.extend_from_slice(&tag[8..]);
        Ok(Step::Pass(whole as u64))
    }
}

/// Whether two headers, as late viewers get them, set decoders up alike: the tracks, and the sequence headers.
pub(super) fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (described(one), described(other));
    one.is_some() && one == other
}

/// The flags of the head, and the sequence headers with their tags' types.
type Description<'a> = (u8, Vec<(u8, &'a [u8])>);

fn described(header: &[u8]) -> Option<Description<'_>> {
    let (head, mut rest) = header.split_first_chunk::<HEAD_BYTES>()?;
    let mut sequences = Vec::new();
    while let Some([kind, s0, s1, s2, ..]) = rest.first_chunk::<TAG_HEAD_BYTES>() {
        let end = TAG_HEAD_BYTES + u32::from_be_bytes([0, *s0, *s1, *s2]) as usize;
        if *kind != SCRIPT {
            sequences.push((*kind, rest.get(TAG_HEAD_BYTES..end)?));
        }
        rest = rest.get(end + PREVIOUS_SIZE_BYTES..)?;
    }
    Some((head[4], sequences))
}
