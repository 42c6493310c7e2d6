//! Output of a connection: the bytes of its answers that its socket has not taken.
//!
//! Bound: [`Output::FULL_BYTES`] and one answer, since the owner reads no further request while
//! [`Output::is_full`]. Written bytes are removed soon. A client that reads slowly and keeps asking
//! cannot make them pile up.

use crate::copied::Copied;

/// Response bytes that wait for the socket. `None`: nothing waits. That is usual, and takes only a
/// pointer.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Output(pub(super) Option<Box<WaitingBytes>>);

#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct WaitingBytes {
    pub(super) bytes: Copied,
    /// Number of sent bytes at the front. It is less than the number of waiting bytes.
    pub(super) sent: usize,
}

impl Output {
    /// While this number of bytes waits, no further request is read.
    pub const FULL_BYTES: usize = 16 * 1024;

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let waiting = &mut self.0.get_or_insert_default().bytes.bytes;
        let needed = waiting.len() + bytes.len();
        if needed > waiting.capacity() {
            // The buffer doubles while it is small. Then it grows to the size that is needed.
            let room = needed.max((2 * needed).min(4 * Output::FULL_BYTES));
            waiting.reserve_exact(room - waiting.len());
        }
        waiting.extend_from_slice(bytes);
    }

    /// Adds bytes at the end. Copies nothing if nothing waits.
    pub fn push_whole(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() || !self.is_empty() {
            return self.push(&bytes);
        }
        let bytes = Copied::from(bytes);
        self.0 = Some(Box::new(WaitingBytes { bytes, sent: 0 }));
    }

    /// Returns the bytes that wait.
    pub fn unsent(&self) -> &[u8] {
        let waiting = self.0.as_ref();
        waiting.map_or(&[], |waiting| &waiting.bytes[waiting.sent..])
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.unsent().is_empty()
    }

    /// Returns whether too many bytes wait for another request to be read.
    pub fn is_full(&self) -> bool {
        self.unsent().len() >= Output::FULL_BYTES
    }

    /// Removes the first of `bytes` written bytes, as far as they are of this output. Returns how many
    /// they are.
    pub fn advance(&mut self, bytes: usize) -> usize {
        let Some(waiting) = &mut self.0 else {
            return 0;
        };
        let left = waiting.bytes.len() - waiting.sent;
        let taken = bytes.min(left);
        waiting.sent += taken;
        let rest = left - taken;
        if rest == 0 {
            // The memory goes back: a viewer has no use for it for hours.
            self.0 = None;
        } else if waiting.sent >= rest {
            // Moves no more bytes than have been sent since the last time.
            waiting.bytes.remove(waiting.sent);
            waiting.bytes.bytes.shrink_to(2 * rest);
            waiting.sent = 0;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(output: &Output) -> usize {
        let waiting = output.0.as_ref();
        waiting.map_or(0, |waiting| waiting.bytes.capacity())
    }

    /// Answers keep coming, and a reader takes them so slowly that it is never empty: it holds what
    /// waits, not what went.
    #[test]
    fn what_has_been_sent_is_not_kept() {
        let mut output = Output::default();
        let answer = [7; 300];
        let (mut pushed, mut taken) = (0, 0);
        while pushed < 10_000_000 {
            while !output.is_full() {
                output.push(&answer);
                pushed += answer.len();
            }
            taken += output.advance(1_000);
            assert_eq!(output.unsent().len(), pushed - taken);
            let waiting_max = Output::FULL_BYTES + answer.len();
            assert!(
                capacity(&output) <= 4 * waiting_max,
                "{} bytes",
                capacity(&output)
            );
        }
        assert_eq!(output.advance(usize::MAX), pushed - taken);
        assert_eq!(capacity(&output), 0);
    }

    /// The buffer doubles while it is small. Then it grows to the size that is needed, and no
    /// further.
    #[test]
    fn it_takes_the_room_that_it_needs() {
        for (pushes, held) in [
            (&[100][..], 200),
            (&[100, 100], 200),
            (&[100, 101], 402),
            (&[20_000], 40_000),
            (&[40_000], 65_536),
            (&[40_000, 25_536], 65_536),
            (&[40_000, 25_537], 65_537),
            (&[100_000], 100_000),
        ] {
            let mut output = Output::default();
            for bytes in pushes {
                output.push(&vec![7; *bytes]);
            }
            assert_eq!(capacity(&output), held, "{pushes:?}");
            assert_eq!(output.unsent().len(), pushes.iter().sum::<usize>());
        }
    }

    #[test]
    fn an_empty_answer_takes_no_room() {
        let mut output = Output::default();
        output.push(b"");
        output.push_whole(Vec::with_capacity(9));
        assert!(output.0.is_none());
        output.push_whole(vec![7]);
        output.push_whole(Vec::new());
        assert_eq!(output.unsent(), [7]);
        assert_eq!(output.advance(1), 1);
        assert!(output.0.is_none());
    }

    /// What has been sent goes as soon as it is as much as what waits, and room with it.
    #[test]
    fn room_goes_back_with_what_has_been_sent() {
        let numbers: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for (pieces, held) in [
            (&[400][..], 2_000),
            (&[499], 2_000),
            (&[500], 1_000),
            (&[400, 200], 800),
            (&[999], 2),
            (&[1_000], 0),
            (&[1_001], 0),
        ] {
            let mut output = Output::default();
            output.push(&numbers);
            let mut taken = 0;
            for bytes in pieces {
                taken += output.advance(*bytes);
                assert_eq!(output.unsent(), &numbers[taken..], "{pieces:?}");
            }
            assert_eq!(taken, pieces.iter().sum::<usize>().min(1_000));
            assert_eq!(capacity(&output), held, "{pieces:?}");
            assert_eq!(output.is_empty(), held == 0);
        }
    }
}
