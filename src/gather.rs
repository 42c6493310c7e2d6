//! Slices that one system call writes, in order.

use std::io::IoSlice;

/// A few borrowed slices. Slices that do not fit have to wait for the next write.
pub struct Gather<'a> {
    slices: [IoSlice<'a>; SLICES_MAX],
    count: usize,
    bytes: usize,
}

/// Enough for a response head, a chunk's size line, a header, eight blocks and the chunk's end.
pub const SLICES_MAX: usize = 12;

impl Default for Gather<'_> {
    fn default() -> Self {
        Gather {
            slices: [IoSlice::new(&[]); SLICES_MAX],
            count: 0,
            bytes: 0,
        }
    }
}

impl<'a> Gather<'a> {
    /// Adds a slice, unless it is empty. Returns `false` if there was no place for it.
    #[must_use]
    pub fn push(&mut self, slice: &'a [u8]) -> bool {
        if slice.is_empty() {
            return true;
        }
        match self.slices.get_mut(self.count) {
            None => false,
            Some(place) => {
                *place = IoSlice::new(slice);
                self.count += 1;
                self.bytes += slice.len();
                true
            }
        }
    }

    /// Returns the slices, in the form of the system call.
    pub fn slices(&self) -> &[IoSlice<'a>] {
        &self.slices[..self.count]
    }

    /// Returns the bytes of all slices.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many more slices fit.
    pub fn places_left(&self) -> usize {
        SLICES_MAX - self.count
    }
}
