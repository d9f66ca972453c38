// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts the bytes in use, and their maximum.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Beyond this no memory is given, and the process aborts: the machine is not to suffer.
const END: usize = 1 << 30;

struct Counting;

fn grow(bytes: usize) -> bool {
    let used = USED.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(used, Relaxed);
    used <= END
}

fn shrink(bytes: usize) {
    USED.fetch_sub(bytes, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The bytes in use.
pub fn in_use() -> usize {
    USED.load(Relaxed)
}

/// Their maximum since the last call.
pub fn peak() -> usize {
    PEAK.swap(in_use(), Relaxed)
}

/// The most bytes that `run` had in use, beyond those before it.
pub fn peak_of(run: impl FnOnce()) -> usize {
    let before = in_use();
    peak();
    run();
    peak().saturating_sub(before)
}
