//! An allocator that counts for each thread: all allocated bytes, the bytes in use, and their peak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// For `#[global_allocator]` of a test binary.
pub struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    /// What other threads have allocated is freed here, and the other way round.
    static MEMORY: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated since it began: a larger allocation in place of another
/// counts whole.
pub fn allocated() -> usize {
    ALLOCATED.get()
}

/// Bytes that it holds now, of all that it has allocated.
pub fn memory_bytes() -> isize {
    MEMORY.get()
}

/// The most that it held since the last call of [`begin_peak`].
pub fn peak() -> isize {
    PEAK.get()
}

/// What it holds now is the most from here on; as much that is.
pub fn begin_peak() -> isize {
    PEAK.set(MEMORY.get());
    MEMORY.get()
}

fn count(freed: usize, allocated: usize) {
    // A thread that ends frees things after its counters.
    let _ = MEMORY.try_with(|held| {
        held.set(held.get() + allocated as isize - freed as isize);
        ALLOCATED.set(ALLOCATED.get().wrapping_add(allocated));
        PEAK.set(PEAK.get().max(held.get()));
    });
}

// SAFETY: all is done by the system's allocator; the counters neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
