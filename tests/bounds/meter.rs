//! What the core allocates: counted on this thread, while it is at work, and never the tests' own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, and counts beside it.
struct Counting;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(freed: usize, allocated: usize) {
    if !IS_ON.get() {
        return;
    }
    HELD.set(HELD.get() + allocated as isize - freed as isize);
    PEAK.set(PEAK.get().max(HELD.get()));
    ALLOCATED.set(ALLOCATED.get() + allocated as u64);
}

// SAFETY: every call goes to the system's allocator as it came; the counts are this thread's own,
// and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: as for this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: as for this call.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: as for this call.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(layout.size(), new_size);
        // SAFETY: as for this call.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Has the core do something, and counts what it allocates and frees meanwhile.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    assert!(!IS_ON.replace(true), "counted within counted");
    let result = work();
    IS_ON.set(false);
    result
}

/// Bytes that the core holds now.
pub fn held() -> usize {
    usize::try_from(HELD.get()).expect("freed is what was allocated")
}

/// The most that it held at any moment since the last call.
pub fn take_peak() -> usize {
    let peak = PEAK.replace(HELD.get());
    usize::try_from(peak).expect("freed is what was allocated")
}

/// Bytes that it has ever allocated.
pub fn allocated() -> u64 {
    ALLOCATED.get()
}
