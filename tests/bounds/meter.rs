//! What the core allocates: counted on this thread, while it is at work, and never the tests' own.

use std::cell::Cell;

use super::counting::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static MEMORY: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Has the core do something, and counts what it allocates and frees meanwhile.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    assert!(!IS_ON.replace(true), "counted within counted");
    let before = (counting::allocated(), counting::begin_peak());
    let result = work();
    let core_held = |held: isize| MEMORY.get() + held - before.1;
    PEAK.set(PEAK.get().max(core_held(counting::peak())));
    MEMORY.set(core_held(counting::memory_bytes()));
    ALLOCATED.set(ALLOCATED.get() + counting::allocated() - before.0);
    IS_ON.set(false);
    result
}

/// Bytes that the core holds now.
pub fn memory_bytes() -> usize {
    usize::try_from(MEMORY.get()).expect("freed is what was allocated")
}

/// The most that it held at any moment since the last call.
pub fn take_peak() -> usize {
    let peak = PEAK.replace(MEMORY.get());
    usize::try_from(peak).expect("freed is what was allocated")
}

/// Bytes that it has ever allocated.
pub fn allocated() -> u64 {
    ALLOCATED.get() as u64
}
