//! An allocator that counts, for each thread by itself: what was allocated over time, and what is
//! held now.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// For `#[global_allocator]` of a test binary.
pub struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated since it began: a larger allocation in place of another
/// counts whole.
pub fn allocated() -> usize {
    ALLOCATED.get()
}

/// Bytes that it holds now, of all that it has allocated.
pub fn held() -> usize {
    ALLOCATED.get().wrapping_sub(FREED.get())
}

fn count(counter: &'static std::thread::LocalKey<Cell<usize>>, bytes: usize) {
    // A thread that ends frees things behind its counters.
    let _ = counter.try_with(|counter| counter.set(counter.get().wrapping_add(bytes)));
}

// SAFETY: all is done by the system's allocator; the counters neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATED, layout.size());
        // SAFETY: the caller's promises are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(&FREED, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&ALLOCATED, size);
        count(&FREED, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
