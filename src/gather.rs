//! Slices that are written with one system call, in their order.

use std::io::IoSlice;

/// A few borrowed slices. What does not fit is left for the next write, so a caller asks how much
/// went in.
pub struct Gather<'a> {
    slices: [IoSlice<'a>; SLICES_MAX],
    count: usize,
    bytes: usize,
}

/// A response head, a chunk's line, a header, eight blocks and the chunk's end.
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
    /// Adds a slice; an empty one takes no place. Says whether there was a place left.
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

    /// The slices, as the system call takes them.
    pub fn slices(&self) -> &[IoSlice<'a>] {
        &self.slices[..self.count]
    }

    /// How many bytes they hold together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many slices can still be added.
    pub fn places_left(&self) -> usize {
        SLICES_MAX - self.count
    }
}
