//! The few bytes that a scanner has to see at once, over any splits of what it is fed.
//!
//! A scanner looks at the window, then says with a [`Step`] how many bytes it must see, or how many are done with. What is passed before
//! it has arrived is counted and never held. The window is as long as the longest [`Step::Hold`], and a constant.

/// What looking at the first bytes gives.
pub(super) enum Look<T> {
    Found(T),
    Nothing,
    /// Cannot tell before there are so many bytes in all.
    Needs(usize),
}

/// What a scanner wants next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// To see so many bytes in all.
    Hold(usize),
    /// To go past so many, seen or not.
    Pass(u64),
}

/// Bytes that were passed are dropped when there are so many of them: dropping moves the rest.
const PASSED_BYTES_MAX: usize = 64 * 1024;

/// Consecutive bytes of a stream.
#[derive(Default)]
pub(super) struct Window {
    held: Vec<u8>,
    /// So many of the held bytes were passed.
    passed: usize,
    /// So many bytes to come are passed.
    skip: u64,
    wanted: usize,
}

impl Window {
    /// What can be seen.
    pub(super) fn bytes(&self) -> &[u8] {
        self.held.get(self.passed..).unwrap_or_default()
    }

    /// Notes what is wanted next.
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Hold(length) => self.wanted = length,
            Step::Pass(length) => {
                let seen = self.bytes().len();
                let passed = length.min(seen as u64) as usize;
                self.skip = length - passed as u64;
                self.passed += passed;
                self.wanted = 0;
                if passed == seen {
                    self.held.clear();
                    self.passed = 0;
                } else if self.passed > PASSED_BYTES_MAX {
                    self.held.drain(..self.passed);
                    self.passed = 0;
                }
            }
        }
    }

    /// Takes what is wanted from the input's front. Whether that was enough; if not, nothing is left of it.
    pub(super) fn fill(&mut self, input: &mut &[u8]) -> bool {
        let skipped = self.skip.min(input.len() as u64);
        self.skip -= skipped;
        *input = input.get(skipped as usize..).unwrap_or_default();
        let missing = self.wanted.saturating_sub(self.bytes().len());
        if self.skip > 0 || missing == 0 {
            return self.skip == 0;
        }
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
        taken.len() == missing
    }
}
