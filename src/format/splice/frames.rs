//! Cuts MPEG audio and AAC in ADTS into frames. A part of a frame in front of the next source's
//! first frame would be audible. Bytes between frames pass as they come.

use super::super::Unsupported;
use super::super::frames::{Frame, search};
use super::super::window::{StepResult, Unread, Walker};

/// Cutter of frames.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct FrameCutter {
    /// Number of the next bytes that viewers already have. They went out before the format was
    /// clear.
    pub bytes_sent: usize,
}

impl FrameCutter {
    /// Appends bytes to the output, unless viewers have them.
    pub fn release(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let bytes_sent = self.bytes_sent.min(bytes.len());
        self.bytes_sent -= bytes_sent;
        out.extend_from_slice(&bytes[bytes_sent..]);
    }
}

impl Walker<Vec<u8>> for FrameCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        let length = match Frame::read(seen, 0) {
            Ok(frame) => frame.length(),
            Err(Unread::Needs(length)) => return Err(Unread::Needs(length)),
            // Up to the next byte that may begin a frame.
            Err(Unread::Other(Unsupported)) => search(seen, 1, |rest| Frame::read(rest, 0)),
        };
        let unit = seen.get(..length).ok_or(Unread::Needs(length))?;
        self.release(unit, out);
        Ok(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::window::Window;
    use super::*;
    use crate::random::Random;

    /// Returns how many bytes have gone out after each byte, if `gone_out` bytes had gone out
    /// before. The same bytes in one piece give the same output.
    fn gone_out(bytes: &[u8], gone_out: usize) -> Vec<usize> {
        let (mut frames, mut window) = (
            FrameCutter {
                bytes_sent: gone_out,
            },
            Window::default(),
        );
        let mut out = Vec::new();
        let each = bytes.iter().enumerate().map(|(at, byte)| {
            let walked = window.walk(&mut frames, &[*byte], at as u64, &mut out);
            assert!(walked.is_ok());
            out.len()
        });
        let each: Vec<usize> = each.collect();
        assert_eq!(out, bytes[gone_out..][..out.len()]);
        let (mut frames, mut window) = (
            FrameCutter {
                bytes_sent: gone_out,
            },
            Window::default(),
        );
        let mut at_once = Vec::new();
        let walked = window.walk(&mut frames, bytes, 0, &mut at_once);
        assert!(walked.is_ok() && at_once == out);
        frames.release(&window.take_unread(&[]), &mut at_once);
        assert_eq!(at_once, bytes[gone_out..]);
        each
    }

    /// A frame of ADTS: seven bytes of head, and three of sound.
    const FRAME: [u8; 10] = [0xff, 0xf1, 0x50, 0x80, 0x01, 0x5f, 0xfc, 1, 2, 3];

    #[test]
    fn frames_go_out_whole_and_bytes_between_them_as_they_come() {
        let bytes = [&FRAME[..], &FRAME, &[1, 2, 0xff, 3, 0xff], &FRAME].concat();
        let expected: Vec<usize> = (1..=35)
            .map(|come| match come {
                0..10 => 0,
                10..20 => 10,
                20 => 20,
                21..23 => come,
                // A byte that may begin a frame waits.
                23 => 22,
                24 => 24,
                // Two such bytes begin no frame, as the third byte shows.
                25..27 => 24,
                27..35 => 25,
                _ => 35,
            })
            .collect();
        assert_eq!(gone_out(&bytes, 0), expected);
    }

    /// Bytes that can begin no frame go out, as far as there are any, and no more than that.
    #[test]
    fn the_end_of_a_source_does_not_depend_on_how_it_is_cut() {
        let mut random = Random::new(5);
        let often = [0xff, 0xff, 0xfb, 0xf1, 0xe2, 0x90, 0x50, 0x80, 0x00, 0x0c];
        for _ in 0..5_000 {
            let rest = (0..8).map(|_| often[random.draw() as usize % often.len()]);
            let bytes: Vec<u8> = FRAME.into_iter().chain(rest).collect();
            gone_out(&bytes, 0);
        }
    }

    /// No byte goes out twice, whether it was part of one frame or of several.
    #[test]
    fn bytes_do_not_go_out_twice() {
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
