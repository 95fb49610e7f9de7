//! How many bytes something costs: an allocator that counts, while it is asked to.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);

/// Counts what another allocator hands out, less what it takes back. For a program's
/// `#[global_allocator]`; it costs one look at a flag while nothing is counted.
#[derive(Debug)]
pub struct Counting<A>(pub A);

fn count(bytes: i64) {
    // Relaxed: the counts are a sum; who reads it has waited for those who add to it.
    if COUNTS.load(Ordering::Relaxed) {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on as it is, and its result returned as it is.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

/// Runs `f` and counts by how many bytes what is allocated grows meanwhile, in all threads. Always 0 in
/// a program whose allocator is not [`Counting`].
pub fn bytes_of<R>(f: impl FnOnce() -> R) -> (R, i64) {
    let before = BYTES.load(Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let result = f();
    COUNTS.store(false, Ordering::Relaxed);
    (result, BYTES.load(Ordering::Relaxed) - before)
}
