// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which code an input reaches. The compiler's pass for 8-bit counters (`make fuzz` asks for it) calls
//! [`__sanitizer_cov_8bit_counters_init`] for each part of the program. Without the pass there are no
//! counters, and the loop runs without guidance.

use std::slice::from_raw_parts_mut;
use std::sync::Mutex;

/// The counters of a part of the program: first, and one past the last.
static PARTS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Registers the counters of a part of the program.
///
/// # Safety
/// Called by compiled code only, before `main`, with the bounds of its section of counters.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(first: *mut u8, end: *mut u8) {
    if let Ok(mut parts) = PARTS.lock() {
        let part = (first as usize, end as usize);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
}

/// The counts seen so far, by counter: a bit per range of counts.
pub struct Coverage {
    seen: Vec<u8>,
}

/// The bit of a count: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, more.
const fn bit(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

/// All counters of the program.
fn counters(to: &mut dyn FnMut(&mut [u8])) {
    let Ok(parts) = PARTS.lock() else { return };
    for &(first, end) in parts.iter() {
        // SAFETY: the bounds of a section of bytes that lives as long as the program. Other threads of
        // it may write a byte meanwhile, as they do without synchronization among themselves: a count
        // may be wrong then.
        to(unsafe { from_raw_parts_mut(first as *mut u8, end - first) });
    }
}

impl Coverage {
    /// Nothing is seen yet.
    pub fn new() -> Self {
        let mut count = 0;
        counters(&mut |part| count += part.len());
        Self { seen: vec![0; count] }
    }

    /// Whether the program has counters.
    pub const fn is_there(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Forgets the last run.
    pub fn reset() {
        counters(&mut |part| part.fill(0));
    }

    /// Takes in the last run. Returns whether it reached something new.
    pub fn take(&mut self) -> bool {
        let (mut at, mut is_new) = (0, false);
        counters(&mut |part| {
            let seen = &mut self.seen[at..at + part.len()];
            at += part.len();
            for (words, seen) in part.chunks(64).zip(seen.chunks_mut(64)) {
                if words.iter().all(|&n| n == 0) {
                    continue;
                }
                for (&count, seen) in words.iter().zip(seen) {
                    let bit = bit(count);
                    is_new |= *seen & bit != bit;
                    *seen |= bit;
                }
            }
        });
        is_new
    }

    /// Number of counters that were reached.
    pub fn reached(&self) -> usize {
        self.seen.iter().filter(|&&n| n != 0).count()
    }
}
