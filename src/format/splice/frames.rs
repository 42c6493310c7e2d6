//! MPEG audio and AAC in ADTS, cut into frames: a part of one, with the next source's first behind
//! it, would be heard. What stands between frames passes as it comes.

use super::super::Unsupported;
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
    fn look(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> Result<Step, Unsupported> {
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

#[cfg(test)]
mod tests {
    use super::super::super::window::Window;
    use super::*;

    /// How much has gone out with each byte, of a source of which so many had gone out before. It
    /// is the same if they come at once.
    fn gone_out(bytes: &[u8], gone_out: usize) -> Vec<usize> {
        let (mut frames, mut window) = (Frames::new(gone_out), Window::default());
        let mut out = Vec::new();
        let each = bytes.iter().enumerate().map(|(at, byte)| {
            let walked = window.walk(&mut frames, &[*byte], at as u64, &mut out);
            assert!(walked.is_ok());
            out.len()
        });
        let each: Vec<usize> = each.collect();
        assert_eq!(out, bytes[gone_out..][..out.len()]);
        let (mut frames, mut window) = (Frames::new(gone_out), Window::default());
        let mut at_once = Vec::new();
        let walked = window.walk(&mut frames, bytes, 0, &mut at_once);
        assert!(walked.is_ok() && at_once == out);
        frames.release(&window.take_rest(&[]), &mut at_once);
        assert_eq!(at_once, bytes[gone_out..]);
        each
    }

    /// Of ADTS: seven bytes of head, and three of sound.
    const FRAME: [u8; 10] = [0xff, 0xf1, 0x50, 0x80, 0x01, 0x5f, 0xfc, 1, 2, 3];

    #[test]
    fn frames_go_out_whole_and_what_stands_between_as_it_comes() {
        let bytes = [&FRAME[..], &FRAME, &[1, 2, 0xff, 3, 0xff], &FRAME].concat();
        let expected: Vec<usize> = (1..=35)
            .map(|come| match come {
                0..10 => 0,
                10..20 => 10,
                20 => 20,
                21..23 => come,
                // What may begin one is waited for.
                23 => 22,
                24 => 24,
                // Two such bytes begin none either, as a whole head shows.
                25..30 => 24,
                30..35 => 25,
                _ => 35,
            })
            .collect();
        assert_eq!(gone_out(&bytes, 0), expected);
    }

    /// Nothing goes out twice, whether it was a part of a frame or several.
    #[test]
    fn what_has_gone_out_before_does_not_go_out_again() {
        let bytes = [&[1, 2][..], &FRAME.repeat(3)].concat();
        for before in 0..=20 {
            let expected: Vec<usize> = gone_out(&bytes, 0)
                .into_iter()
                .map(|gone| gone.saturating_sub(before))
                .collect();
            assert_eq!(gone_out(&bytes, before), expected, "{before}");
        }
    }
}
