//! Shows a [`Walker`] the bytes in front of it, however its input is cut.
//!
//! The walker passes some bytes, or it needs more bytes at once ([`Unread::Needs`]). Mostly the
//! walker sees bytes where they arrived. The window copies only the front of an element whose rest
//! has yet to come: at most as many bytes as the walker needs. It counts passed bytes that have not
//! arrived, and never holds them.

use super::Unsupported;
use crate::copied::Copied;

/// Why the first bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread<E = Unsupported> {
    /// This many bytes are needed in all: more than there were, and a bounded number.
    Needs(usize),
    /// The bytes begin with something else.
    Other(E),
}

impl<E> From<E> for Unread<E> {
    fn from(error: E) -> Unread<E> {
        Unread::Other(error)
    }
}

#[cfg(feature = "remux")]
impl Unread {
    /// Replaces the error, where more bytes would not help.
    pub(crate) fn because<E>(self, error: E) -> Unread<E> {
        match self {
            Unread::Needs(bytes) => Unread::Needs(bytes),
            Unread::Other(Unsupported) => Unread::Other(error),
        }
    }
}

/// Number of bytes that a walker passes, or why it passes none.
pub(crate) type StepResult<E = Unsupported> = Result<u64, Unread<E>>;

/// Returns the first `length` bytes: an element that is read whole. Fails if they are more than
/// `bytes_max`.
pub(crate) fn whole(seen: &[u8], length: u64, bytes_max: usize) -> Result<&[u8], Unread> {
    let length = usize::try_from(length).ok();
    let length = length.filter(|length| *length <= bytes_max);
    let length = length.ok_or(Unsupported)?;
    seen.get(..length).ok_or(Unread::Needs(length))
}

/// Reads a container element by element. `Out` receives the results: findings, or the bytes that go
/// out instead.
pub(crate) trait Walker<Out: ?Sized, E = Unsupported> {
    /// Looks at the next bytes: at least one. `at` is the offset of the first. `seen` may have more
    /// bytes than the walker asked for. What goes to `out` in all must not depend on these. Returns
    /// the number of bytes that the walker passes, seen or not: at least one.
    fn step(&mut self, seen: &[u8], at: u64, out: &mut Out) -> StepResult<E>;
}

/// Work of looking at an element, a tag, a box or a sample: the number of bytes that take as long
/// to copy.
const STEP_WORK: usize = 32;
/// Capacity that an empty window keeps, so that most elements need no new allocation. A picture of
/// 12 Mbit/s has 60 KB.
const KEPT_BYTES: usize = 64 * 1024;
/// The window removes passed bytes when there are at least this many, and at least as many as bytes
/// not passed. Removal moves the bytes not passed, so each byte is moved about once.
const PASSED_BYTES: usize = 4 * 1024;

/// Bytes that a walker has yet to see, and the count of bytes that it passes.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Window {
    /// Front of something whose rest has yet to come, after passed bytes.
    pub(super) pending: Copied,
    /// Number of pending bytes that are passed.
    passed: usize,
    /// Number of bytes to come that are passed.
    skip: u64,
    /// Number of bytes that the walker must see.
    wanted: usize,
    /// Number of bytes at the end of the last input that the walker had not seen when it gave up.
    unread: usize,
    /// Number of elements passed since [`Window::take_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    passes: usize,
    /// Number of pending bytes that were looked at, whole, since [`Window::take_pending_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    pending_seen: usize,
}

impl Window {
    /// Shows a walker the next bytes. `offset` is that of the first.
    pub(crate) fn walk<Out: ?Sized, E>(
        &mut self,
        walker: &mut impl Walker<Out, E>,
        bytes: &[u8],
        offset: u64,
        out: &mut Out,
    ) -> Result<(), E> {
        let end = offset + bytes.len() as u64;
        let mut rest = bytes;
        loop {
            let skipped = self.skip.min(rest.len() as u64);
            self.skip -= skipped;
            rest = &rest[skipped as usize..];
            let mut pending = self.pending.len() - self.passed;
            // The walker sees bytes where they arrived as soon as nothing older is held.
            let arrived = bytes.len() - rest.len();
            if pending <= arrived {
                rest = &bytes[arrived - pending..];
                self.clear();
                pending = 0;
            }
            let missing = self.wanted.max(1).saturating_sub(pending);
            if missing > rest.len() {
                self.hold(rest);
                return Ok(());
            }
            let seen = if pending == 0 {
                rest
            } else {
                let (taken, after) = rest.split_at(missing);
                self.hold(taken);
                rest = after;
                &self.pending[self.passed..]
            };
            let after = if pending == 0 { 0 } else { rest.len() };
            let at = end - (seen.len() + after) as u64;
            let seen_bytes = seen.len();
            match walker.step(seen, at, out) {
                Err(Unread::Other(error)) => {
                    self.unread = rest.len();
                    return Err(error);
                }
                Err(Unread::Needs(length)) => self.wanted = length.max(seen_bytes + 1),
                Ok(length) => {
                    self.wanted = 0;
                    self.passes = self.passes.saturating_add(1);
                    if pending == 0 {
                        self.skip = length;
                    } else {
                        self.pending_seen += seen_bytes;
                        self.pass_pending(length);
                    }
                }
            }
        }
    }

    /// Lets the walker look at the pending bytes again if it has asked for more than this.
    #[cfg(feature = "hold")]
    pub(crate) fn walk_again(&mut self, bytes_max: usize) {
        if self.wanted > bytes_max {
            self.wanted = 0;
        }
    }

    /// Returns the work of the looks since the last call. It depends on how the bytes were cut only
    /// where a walker passes all bytes that it sees.
    pub(crate) fn take_work(&mut self) -> usize {
        STEP_WORK * std::mem::take(&mut self.passes)
    }

    /// Returns the work of the bytes that were looked at long after they had come, since the last
    /// call. The last byte of an element causes it, in one turn. It depends on how the bytes were
    /// cut.
    pub(crate) fn take_pending_work(&mut self) -> usize {
        std::mem::take(&mut self.pending_seen) / 2
    }

    /// Returns the bytes that no walker has passed: the pending ones and, after a walker gave up,
    /// the rest of its last input.
    #[cfg(feature = "hold")]
    pub(crate) fn take_unread(&mut self, last: &[u8]) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.pending.bytes);
        rest.drain(..self.passed);
        rest.extend_from_slice(&last[last.len() - self.unread.min(last.len())..]);
        *self = Window::default();
        rest
    }

    /// Holds more bytes. The capacity grows as bytes come, and never past the announced length. If
    /// pending bytes were passed, it leaves room for more of them. Otherwise each pass of one byte
    /// would allocate again.
    fn hold(&mut self, bytes: &[u8]) {
        let room = match self.passed {
            0 => 0,
            passed => 2 * passed.max(PASSED_BYTES),
        };
        let room = room.min(self.wanted.max(2 * PASSED_BYTES));
        grow(&mut self.pending.bytes, bytes.len(), self.wanted + room);
        self.pending.bytes.extend_from_slice(bytes);
    }

    fn pass_pending(&mut self, length: u64) {
        let pending = self.pending.len() - self.passed;
        let passed = length.min(pending as u64) as usize;
        self.skip = length - passed as u64;
        self.passed += passed;
        let left = pending - passed;
        if left == 0 {
            self.clear();
        } else if self.passed >= left.max(PASSED_BYTES) {
            self.pending.remove(self.passed);
            self.passed = 0;
        }
    }

    /// Drops the pending bytes.
    fn clear(&mut self) {
        if self.pending.capacity() > KEPT_BYTES {
            self.pending = Copied::default();
        }
        self.pending.clear();
        self.passed = 0;
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset. At most
    /// `bytes_max` bytes are read at once.
    #[cfg(feature = "handover")]
    pub(crate) fn is_valid(&self, offset: u64, bytes_max: usize) -> bool {
        let left = self.pending.len().checked_sub(self.passed);
        left.is_some_and(|left| left as u64 <= offset)
            && self.pending.len() <= 2 * bytes_max
            && self.wanted <= bytes_max
    }
}

/// Reserves room for `additional` bytes. The capacity grows fourfold, so all earlier allocations
/// together are a third of the last one. It exceeds `bytes_max` only if the bytes themselves do.
pub(crate) fn grow(bytes: &mut Vec<u8>, additional: usize, bytes_max: usize) {
    let needed = bytes.len() + additional;
    if needed > bytes.capacity() {
        let room = (4 * bytes.capacity()).min(bytes_max).max(needed);
        bytes.reserve_exact(room - bytes.len());
    }
}

#[cfg(test)]
mod tests;
