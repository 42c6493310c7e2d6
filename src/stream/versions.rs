//! Versions of the header. All viewers that are being sent a version share one copy.
//!
//! A copy is made when a viewer needs the header and no copy is alive. It is freed when the last
//! viewer has been sent all of it. A viewer that stalls within the header keeps its version alive.
//! At most [`REPLACED_MAX`] replaced versions are kept. A viewer of an older one is disconnected.

use std::rc::{Rc, Weak};

use crate::format::{HEADER_BYTES_MAX, Header};

/// A copy of the header.
pub(super) type Version = Rc<Vec<u8>>;

/// Replaced versions that viewers may still be getting. A header is valid for at least a group of
/// pictures: a viewer that needs the time of two groups for a few KiB does not keep up.
pub(super) const REPLACED_MAX: usize = 2;

/// The versions that are alive. Viewers own them.
#[derive(Default)]
pub(super) struct Versions {
    pub(super) current: Weak<Vec<u8>>,
    /// Continuity counter for which the current version was made.
    pub(super) counter: Option<u8>,
    /// Oldest first.
    pub(super) replaced: Vec<Weak<Vec<u8>>>,
}

impl Versions {
    /// Returns whether the current version was made for another continuity counter.
    pub fn is_other(&self, counter: Option<u8>) -> bool {
        self.counter != counter && self.current.strong_count() > 0
    }

    /// Returns the current version. Makes it of `header` if none is alive.
    pub fn current(&mut self, header: Header<'_>, counter: Option<u8>) -> Version {
        self.current.upgrade().unwrap_or_else(|| {
            let version = Rc::new(header.at(counter));
            self.current = Rc::downgrade(&version);
            self.counter = counter;
            version
        })
    }

    /// Replaces the current version. If too many are alive now, returns the one to be freed.
    pub fn replace(&mut self) -> Option<Version> {
        let current = std::mem::take(&mut self.current);
        if current.strong_count() == 0 {
            return None;
        }
        self.replaced.retain(|version| version.strong_count() > 0);
        self.replaced.push(current);
        if self.replaced.len() > REPLACED_MAX {
            return self.replaced.remove(0).upgrade();
        }
        None
    }

    /// The current version, the replaced versions, and their list.
    pub const MEMORY_BYTES_MAX: usize = (1 + REPLACED_MAX) * (HEADER_BYTES_MAX + 64) + 64;
}
