//! The header as viewers get it: one copy of each version, which all who are being sent it share.
//!
//! A copy is made when a viewer needs it and none is alive, and goes when the last has taken it. A
//! viewer that stalls within a header keeps that version; of versions that were replaced only
//! [`REPLACED_MAX`] may be kept so. Whoever holds an older one cannot go on.

use std::rc::{Rc, Weak};

use crate::format::{HEADER_BYTES_MAX, Header};

/// A header that was made to be sent.
pub(super) type Version = Rc<Vec<u8>>;

/// Versions that viewers may still be taking though another has come since. A header lasts as long
/// as a group of pictures or longer: a viewer that needs the time of two for a few KiB does not
/// keep up.
pub(super) const REPLACED_MAX: usize = 2;

/// Those that are alive. They are the viewers': here they are only known.
#[derive(Default)]
pub(super) struct Versions {
    pub(super) current: Weak<Vec<u8>>,
    /// The start for which the current one was made.
    pub(super) counter: Option<u8>,
    /// Oldest first.
    pub(super) replaced: Vec<Weak<Vec<u8>>>,
}

impl Versions {
    /// Whether the current one is for starts with another counter: then it must be replaced.
    pub fn is_other(&self, counter: Option<u8>) -> bool {
        self.counter != counter && self.current.strong_count() > 0
    }

    /// The current one, made of what is lent if it is not alive.
    pub fn current(&mut self, header: Header<'_>, counter: Option<u8>) -> Version {
        self.current.upgrade().unwrap_or_else(|| {
            let version = Rc::new(header.at(counter));
            self.current = Rc::downgrade(&version);
            self.counter = counter;
            version
        })
    }

    /// Another header has come. If too many are kept now, this is the one that must go.
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

    /// Bytes that all versions take, [`Versions::HELD_BYTES_MAX`] at the most.
    pub fn held_bytes(&self) -> usize {
        let known = self.replaced.iter().chain([&self.current]);
        let bytes = known.map(|version| {
            // Two counts and a list stay as long as it is known.
            version.upgrade().map_or(0, |version| version.capacity()) + 5 * size_of::<usize>()
        });
        bytes.sum::<usize>() + self.replaced.capacity() * size_of::<Weak<Vec<u8>>>()
    }

    /// The current version, those that were replaced, and the list of them.
    pub const HELD_BYTES_MAX: usize = (1 + REPLACED_MAX) * (HEADER_BYTES_MAX + 64) + 64;
}
