// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of events. libbpf's reader maps the whole ring, twice, and the kernel accounts all
//! these pages to the process at once: 32 MiB for a ring of 16 MiB. This reader maps a window,
//! which moves along with the reading. It runs in the loop of its caller, without a libbpf callback
//! for each record.
//!
//! kernel/bpf/ringbuf.c defines the layout: a page with the consumer position, which this reader
//! writes; a page with the producer position; and the data, twice in a row, so that a record that
//! crosses the end can be read in one piece. Positions only grow (and wrap as `unsigned long`
//! does). A record is a header of eight bytes (its first four hold the length and two flags), and
//! its data. The next record begins at a multiple of eight. Since 5.8 the kernel permits mapping
//! any of these pages (2 pages and twice the ring), but only the first for writing.

use std::os::fd::OwnedFd;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::mm::ProtFlags;
use rustix::param::page_size;

use super::mapping::Mapping;
use crate::error::{Error, Result, failed};

/// Bytes of the ring that are mapped at a time. Mapping a page costs the same in a small window.
/// This size makes the cost of the system calls negligible.
const WINDOW: usize = 1 << 20;
/// Maximum number of bytes to read before their space is released to the producers.
///
/// Producers read the consumer position at each reservation. If it were written after each record,
/// its cache line would move between their CPUs and this one all the time. Until the space is
/// released, producers that find the ring full lack it: for the duration of a batch, and at most a
/// sixteenth of the ring. A late release is always correct, because it only delays overwriting. At
/// the end of a drain, for whatever reason it ends, all space is released.
const BATCH: usize = 64 << 10;

const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARD: u32 = 1 << 30;

/// Reads what a producer has released. An acquire load is not guaranteed to work on read-only
/// memory; a relaxed load and a fence are.
macro_rules! read {
    ($word:expr) => {{
        let value = $word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }};
}

/// Why reading in a window stopped.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// All requested bytes are read.
    Done,
    /// A producer is still writing the next record.
    Busy,
    /// The next record is not completely in the window.
    Outside,
    /// The maximum number of records is reached.
    Enough,
}

/// The mapped part of the data.
struct Window {
    /// Its offset in the data.
    begin: usize,
    pages: Mapping,
}

impl Window {
    /// The length and flags of a record.
    ///
    /// # Safety
    /// `at` must be a multiple of 8 within the window.
    #[inline]
    unsafe fn header(&self, at: usize) -> u32 {
        // SAFETY: eight bytes are mapped at any such place, as pages are multiples of eight. The
        // kernel writes them atomically, and this process does not.
        let header: &AtomicU32 = unsafe { self.pages.address.byte_add(at).cast().as_ref() };
        read!(header)
    }

    /// Passes the records from `at` on to `sink`, until one begins at `until` or later, and
    /// subtracts their number from `left`. Returns where it stopped. Offsets are relative to the
    /// window and multiples of 8.
    ///
    /// # Safety
    /// A record that is reserved and not released must begin at `at`, and so on until `until`.
    #[inline]
    unsafe fn read(
        &self,
        mut at: usize,
        until: usize,
        left: &mut usize,
        sink: &mut impl FnMut(&[u8]),
    ) -> (usize, Stop) {
        let window = self.pages.bytes;
        while at < until {
            if at >= window {
                return (at, Stop::Outside);
            }
            // SAFETY: `at` is within the window, as checked above, and a multiple of 8
            let header = unsafe { self.header(at) };
            if header & BUSY != 0 {
                return (at, Stop::Busy);
            }
            let bytes = (header & !(BUSY | DISCARD)) as usize;
            let begin = at + HEADER;
            if bytes > window - begin {
                return (at, Stop::Outside);
            }
            if header & DISCARD == 0 {
                if *left == 0 {
                    return (at, Stop::Enough);
                }
                *left -= 1;
                // SAFETY: within the window. A producer has written and released it. None writes
                // there before the consumer position is past it, which the caller sets later.
                let record = unsafe {
                    let first = self.pages.address.byte_add(begin);
                    slice::from_raw_parts(first.cast().as_ptr(), bytes)
                };
                sink(record);
            }
            at = begin + bytes.next_multiple_of(HEADER);
        }
        (at, Stop::Done)
    }
}

/// The reader's end of the ring of events. There must be only one, because reading releases space.
pub struct EventRing {
    ring: OwnedFd,
    /// Size of the ring in bytes, a power of two.
    size: usize,
    window_size: usize,
    batch: usize,
    consumer: Mapping,
    producer: Mapping,
    /// Nothing is mapped before the first record.
    window: Option<Window>,
    blocked: bool,
}

impl EventRing {
    /// Reads a BPF_MAP_TYPE_RINGBUF of `size` bytes, or a file with the same layout.
    ///
    /// # Errors
    /// If no ring can have this size, or the positions cannot be mapped.
    pub fn new(ring: OwnedFd, size: usize) -> Result<Self> {
        Self::with_window(ring, size, WINDOW)
    }

    /// `window` is a number of bytes, a multiple of the page size.
    fn with_window(ring: OwnedFd, size: usize, window: usize) -> Result<Self> {
        let page = page_size();
        if !size.is_power_of_two() || size < page || size.checked_mul(4).is_none() {
            return Err(Error::Mismatch(format!("invalid ring buffer size: {size} bytes").into()));
        }
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let position = |offset, prot| {
            Mapping::new(&ring, offset, page, prot).map_err(failed("map the positions of the ring"))
        };
        Ok(Self {
            consumer: position(0, both)?,
            producer: position(page, ProtFlags::READ)?,
            ring,
            size,
            // the mapping cannot exceed twice the ring; a window of that size never moves
            window_size: window.min(2 * size),
            batch: BATCH.min(size / 16),
            window: None,
            blocked: false,
        })
    }

    /// Whether the last drain ended at a record that its producer has not completed.
    pub const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Passes the records in the ring to `sink`, but at most `most`. Returns true if there may be
    /// more. It does not wait for records, and the BPF side wakes no reader. The slices begin at
    /// multiples of 8.
    ///
    /// # Errors
    /// If the ring cannot be mapped, or a record is larger than the window. This record and all
    /// later ones remain in the ring.
    pub fn drain(&mut self, most: usize, mut sink: impl FnMut(&[u8])) -> Result<bool> {
        let mut left = most;
        self.blocked = false;
        loop {
            // only this reader writes it
            let at = self.consumer.position().load(Ordering::Relaxed);
            let there = read!(self.producer.position()).wrapping_sub(at);
            if there == 0 {
                return Ok(false);
            }
            let Some(window) = &self.window else {
                self.move_window(at)?;
                continue;
            };
            let offset = at & (self.size - 1);
            let from = if offset < window.begin {
                // in the second copy
                offset + self.size - window.begin
            } else {
                offset - window.begin
            };
            let until = from + there.min(self.batch);
            // SAFETY: the consumer position is the start of the next record, and there are records
            // up to the producer position
            let (to, stop) = unsafe { window.read(from, until, &mut left, &mut sink) };
            let at = at.wrapping_add(to - from);
            self.consumer.position().store(at, Ordering::Release);
            match stop {
                Stop::Done => {}
                // the window is as large as the ring: the next record may be at its start
                Stop::Outside if to != from => {}
                Stop::Busy => {
                    self.blocked = true;
                    return Ok(false);
                }
                Stop::Enough => return Ok(true),
                Stop::Outside => self.move_window(at)?,
            }
        }
    }

    /// Moves the window to the page of a position. A record that does not fit then never fits.
    fn move_window(&mut self, at: usize) -> Result<()> {
        let offset = at & (self.size - 1);
        let page = page_size();
        let begin = (offset - offset % page).min(2 * self.size - self.window_size);
        if self.window.as_ref().is_some_and(|w| w.begin == begin) {
            let window = self.window_size;
            let text = format!(
                "a record of the ring is larger than the {window} bytes that are mapped of it"
            );
            return Err(Error::Mismatch(text.into()));
        }
        // unmap first, so that the kernel never accounts for both
        self.window = None;
        let pages = Mapping::new(&self.ring, 2 * page + begin, self.window_size, ProtFlags::READ);
        self.window = Some(Window { begin, pages: pages.map_err(failed("map the ring"))? });
        Ok(())
    }
}

#[cfg(test)]
#[path = "event_ring_tests.rs"]
pub mod tests;
