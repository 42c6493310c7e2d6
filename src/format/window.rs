//! The few bytes that a walker has to see at once, over any splits of what it is fed.
//!
//! A [`Walker`] looks at what stands in front of it, and says with a [`Step`] how many bytes it
//! must see, or how many it is done with. Mostly it sees them where they arrived; what is held is
//! the front of something whose rest has yet to come, as long as the longest [`Step::Hold`]. What
//! is passed before it has arrived is counted and never held.

use super::Unsupported;

/// What looking at the first bytes gives.
pub(crate) enum Look<T> {
    Found(T),
    Nothing,
    /// Cannot tell before there are so many bytes in all: with one less nothing can be told.
    Needs(usize),
}

/// What a walker wants next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// To see so many bytes in all: more than it saw, and never more than it can bound.
    Hold(usize),
    /// To see a byte more than it saw.
    More,
    /// To go past so many, seen or not: at least one.
    Pass(u64),
}

/// Goes through a container from place to place. `Out` takes what it makes of what it sees:
/// findings, or bytes that go out instead.
pub(crate) trait Walker<Out: ?Sized> {
    /// Judges what can be seen, which is at least a byte; `at` is the offset of the first. What it
    /// finds must not depend on how much more than it asked for can be seen: so it asks for no more
    /// than the next byte that may tell.
    fn look(&mut self, seen: &[u8], at: u64, out: &mut Out) -> Result<Step, Unsupported>;
}

/// Room that stays when nothing is held, so that what is small needs no allocation each time.
const KEPT_BYTES: usize = 16 * 1024;
/// Bytes that were passed are dropped when there are so many of them, and no fewer than are left:
/// dropping moves what is left, so that a byte is moved once in its life.
const PASSED_BYTES: usize = 4 * 1024;

/// What a walker has yet to see, or to go past.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Window {
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    held: Vec<u8>,
    /// So many of the held bytes were passed.
    passed: usize,
    /// So many bytes to come are passed.
    skip: u64,
    /// So many must be seen.
    wanted: usize,
    /// So many of the bytes shown last stood behind what is held when the walker let go.
    unread: usize,
    /// How many elements were passed since [`Window::take_passes`].
    #[cfg_attr(feature = "handover", serde(skip))]
    passes: usize,
}

impl Window {
    /// Shows a walker the next bytes, of which the first is at `offset`.
    pub(crate) fn walk<Out: ?Sized, W: Walker<Out>>(
        &mut self,
        walker: &mut W,
        bytes: &[u8],
        offset: u64,
        out: &mut Out,
    ) -> Result<(), Unsupported> {
        let end = offset + bytes.len() as u64;
        let mut rest = bytes;
        loop {
            let skipped = self.skip.min(rest.len() as u64);
            self.skip -= skipped;
            rest = &rest[skipped as usize..];
            let held = self.held.len() - self.passed;
            let missing = self.wanted.max(1).saturating_sub(held);
            if missing > rest.len() {
                self.hold(rest);
                return Ok(());
            }
            let seen = if held == 0 {
                rest
            } else {
                let (taken, behind) = rest.split_at(missing);
                self.hold(taken);
                rest = behind;
                &self.held[self.passed..]
            };
            let behind = if held == 0 { 0 } else { rest.len() };
            let at = end - (seen.len() + behind) as u64;
            let seen_bytes = seen.len();
            match walker.look(seen, at, out) {
                Err(Unsupported) => {
                    self.unread = rest.len();
                    return Err(Unsupported);
                }
                Ok(Step::Hold(length)) => self.wanted = length.max(seen_bytes + 1),
                Ok(Step::More) => self.wanted = seen_bytes + 1,
                Ok(Step::Pass(length)) => {
                    self.wanted = 0;
                    self.passes = self.passes.saturating_add(1);
                    if held == 0 {
                        self.skip = length;
                    } else {
                        self.pass_held(length);
                    }
                }
            }
        }
    }

    /// Returns how many elements were passed since the last call. That does not depend on how the
    /// bytes were cut.
    #[cfg_attr(not(feature = "remux"), allow(dead_code, reason = "only readers ask"))]
    pub(crate) fn take_passes(&mut self) -> usize {
        std::mem::take(&mut self.passes)
    }

    /// What no walker has passed: of what is held, and once one has let go, of the bytes that it
    /// was shown last.
    #[cfg(feature = "hold")]
    pub(crate) fn take_rest(&mut self, last: &[u8]) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.held);
        rest.drain(..self.passed);
        rest.extend_from_slice(&last[last.len() - self.unread.min(last.len())..]);
        *self = Window::default();
        rest
    }

    /// Bytes that its one allocation takes: at most what is to be seen at once, and
    /// [`PASSED_BYTES`] or as much again that was passed.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Grows as bytes come, and never past the length that was announced. Where bytes
    /// were passed, there is room to pass more: else each pass of one byte would allocate anew.
    fn hold(&mut self, bytes: &[u8]) {
        let room = match self.passed {
            0 => 0,
            passed => 2 * passed.max(PASSED_BYTES),
        };
        let room = room.min(self.wanted.max(2 * PASSED_BYTES));
        grow(&mut self.held, bytes.len(), self.wanted + room);
        self.held.extend_from_slice(bytes);
    }

    fn pass_held(&mut self, length: u64) {
        let held = self.held.len() - self.passed;
        let passed = length.min(held as u64) as usize;
        self.skip = length - passed as u64;
        self.passed += passed;
        let left = held - passed;
        if left == 0 && self.held.capacity() > KEPT_BYTES {
            self.held = Vec::new();
            self.passed = 0;
        } else if self.passed >= left.max(PASSED_BYTES) || left == 0 {
            self.held.drain(..self.passed);
            self.passed = 0;
        }
    }
}

/// Makes room for so many more bytes: four times as much as there is, so that all that was
/// allocated on the way is a third of what there is in the end, but no more than `bytes_max` in
/// all.
pub(crate) fn grow(bytes: &mut Vec<u8>, additional: usize, bytes_max: usize) {
    let needed = bytes.len() + additional;
    if needed > bytes.capacity() {
        let room = (4 * bytes.capacity()).min(bytes_max).max(needed);
        bytes.reserve_exact(room - bytes.len());
    }
}

#[cfg(feature = "handover")]
impl Window {
    /// Whether what was told of it can be, of bytes up to this offset, of which at most so many
    /// are looked at
    /// together.
    pub(crate) fn fits(&self, offset: u64, bytes_max: usize) -> bool {
        let left = self.held.len().checked_sub(self.passed);
        left.is_some_and(|left| left as u64 <= offset)
            && self.held.len() <= 2 * bytes_max
            && self.wanted <= bytes_max
    }
}

#[cfg(test)]
mod tests;
