//! MPEG audio and AAC in ADTS, cut into frames: a part of one, with the next source's first behind
//! it, would be heard. What stands between frames passes as it comes.

use super::super::LetGo;
use super::super::frames::Frame;
use super::super::window::{Look, Step, Walker};

/// Cuts.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Frames {
    /// So many of the next bytes viewers have: they came before it was clear what they are.
    gone_out: usize,
}

impl Frames {
    /// Before the source's first byte.
    pub fn new(gone_out: usize) -> Frames {
        Frames { gone_out }
    }

    /// Bytes that go out, but for those that have.
    pub fn release(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let gone_out = self.gone_out.min(bytes.len());
        self.gone_out -= gone_out;
        out.extend_from_slice(&bytes[gone_out..]);
    }
}

impl Walker<Vec<u8>> for Frames {
    fn look(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> Result<Step, LetGo> {
        let length = match Frame::read(seen, 0) {
            Look::Found(frame) => frame.length(),
            Look::Needs(length) => return Ok(Step::Hold(length)),
            // Up to where one may begin.
            Look::Nothing => {
                let may_begin = |at: &usize| !matches!(Frame::read(seen, *at), Look::Nothing);
                (1..seen.len()).find(may_begin).unwrap_or(seen.len())
            }
        };
        let Some(unit) = seen.get(..length) else {
            return Ok(Step::Hold(length));
        };
        self.release(unit, out);
        Ok(Step::Pass(length as u64))
    }
}
