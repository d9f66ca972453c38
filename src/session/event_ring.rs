// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of events. libbpf's reader maps all of the ring, twice, and the kernel counts these pages
//! as ours at once: 32 MiB for the ring of 16. This one maps a window of it, which moves along with
//! the reading. It runs in the loop of its caller, without a callback for each record.
//!
//! What it reads is laid out by kernel/bpf/ringbuf.c: a page with the consumer's position, which we
//! write, one with the producers', and the data, twice in a row, so that a record which crosses the
//! end can be read in one piece. Positions only grow (and wrap as `unsigned long` does). A record is
//! a header of eight bytes, its length with two flags in the first four, and its bytes; the next
//! begins at a multiple of eight. Since 5.8 the kernel lets any pages of this be mapped, from 2 pages
//! and twice the ring, but for writing only the first.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use rustix::io;
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::mm::ProtFlags;
use rustix::mm::mmap;
use rustix::mm::munmap;
use rustix::param::page_size;

/// Records that are taken at once, some 20 MB.
const AT_ONCE: usize = 100_000;
/// Bytes of the ring that are mapped at a time. To map a page costs the same in a small window; so
/// large that the calls themselves do not count.
const WINDOW: usize = 1 << 20;
/// Bytes after which the space of what was read is given back, at most.
///
/// Producers look at this position each time they reserve: written with each record, its cache line
/// would forever move between their CPUs and ours. Given back late, space is missing to those that
/// find the ring full meanwhile: for as long as a batch takes, and no more than a sixteenth of the
/// ring. What nobody may overwrite yet is what we still read, so late is never wrong; and at the end
/// of a drain, whatever ends it, all is given back.
const BATCH: usize = 64 << 10;

const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARD: u32 = 1 << 30;

/// Pages of the ring, shared with the kernel.
struct Mapping {
    address: NonNull<c_void>,
    bytes: usize,
}

impl Mapping {
    fn new(ring: impl AsFd, offset: usize, bytes: usize, prot: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new place, which the kernel chooses: nothing of ours is replaced.
        let address = unsafe {
            mmap(
                null_mut(),
                bytes,
                prot,
                MapFlags::SHARED,
                ring,
                offset as u64,
            )
        }?;
        let address = NonNull::new(address).ok_or(Errno::NOMEM)?;
        Ok(Self { address, bytes })
    }

    /// The position in the first word of a page.
    fn position(&self) -> &AtomicUsize {
        // SAFETY: a page is mapped as long as `self` lives, aligned, and has no other references.
        // What is mapped for reading is only read, as `read` does.
        unsafe { self.address.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and whoever borrows from it borrows `self`. Where it fails, what we
        // read is mapped for longer.
        let _ = unsafe { munmap(self.address.as_ptr(), self.bytes) };
    }
}

/// Reads what a producer has released. An acquiring load is not promised to work on memory that can't
/// be written, this is.
macro_rules! read {
    ($word:expr) => {{
        let value = $word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }};
}

/// Why reading in a window has ended.
#[derive(Debug, PartialEq, Eq)]
enum Stop {
    /// All is read that was to be.
    Done,
    /// A producer still writes the next record.
    Busy,
    /// The next record is not wholly in the window.
    Outside,
    /// So many records were wanted.
    Enough,
}

/// What is mapped of the data.
struct Window {
    /// Where it begins in the data.
    begin: usize,
    pages: Mapping,
}

impl Window {
    /// The length and flags of a record.
    ///
    /// # Safety
    /// `at` must be a multiple of 8 within the window.
    unsafe fn header(&self, at: usize) -> u32 {
        // SAFETY: there are eight mapped bytes at any such place, as pages are multiples of eight;
        // the kernel writes them atomically, and nobody here does.
        let header: &AtomicU32 = unsafe { self.pages.address.byte_add(at).cast().as_ref() };
        read!(header)
    }

    /// Hands over the records from `at` on, until one begins at `until` or later, and takes as many
    /// from `left`. Returns where it has stopped. Offsets are from the beginning of the window and
    /// multiples of 8.
    ///
    /// # Safety
    /// At `at` a record must begin that was reserved and not given back, and so on until `until`.
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
            // SAFETY: it is within, as was just seen, and records begin at multiples of 8
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
                // SAFETY: within the window. A producer has written and released it, and none will
                // write there before our position is past it, which the caller sets later.
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

/// The reader's end of the ring of events: the only one, as what is read is given back.
pub struct EventRing {
    ring: OwnedFd,
    /// Bytes of the ring, a power of two.
    size: usize,
    window_size: usize,
    batch: usize,
    consumer: Mapping,
    producer: Mapping,
    /// Nothing is mapped before the first record.
    window: Option<Window>,
}

impl EventRing {
    /// Reads a BPF_MAP_TYPE_RINGBUF, or what is laid out like one, of `size` bytes.
    ///
    /// # Errors
    /// A size that no ring has, or where the positions can't be mapped.
    pub fn new(ring: OwnedFd, size: usize) -> Result<Self> {
        Self::with_window(ring, size, WINDOW)
    }

    /// `window` is a number of bytes, whole pages.
    fn with_window(ring: OwnedFd, size: usize, window: usize) -> Result<Self> {
        let page = page_size();
        if !size.is_power_of_two() || size < page || size.checked_mul(4).is_none() {
            bail!("a ring of {size} bytes can't be");
        }
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let failed = "failed to map the positions of the ring";
        Ok(Self {
            consumer: Mapping::new(&ring, 0, page, both).context(failed)?,
            producer: Mapping::new(&ring, page, page, ProtFlags::READ).context(failed)?,
            ring,
            size,
            // more than twice the ring is not there; if all is mapped, nothing ever moves
            window_size: window.min(2 * size),
            batch: BATCH.min(size / 16),
            window: None,
        })
    }

    /// Empties the ring into the sink, but for what is more than [`AT_ONCE`] records: others have
    /// something to do, too, and a busy machine may never let the ring run dry. True: there may be
    /// more. Nobody waits for us: the kernel side wakes no one. The slices begin at multiples of 8.
    ///
    /// # Errors
    /// Where the ring can't be mapped, or a record is larger than what is mapped of it. What comes
    /// after stays in the ring.
    pub fn drain(&mut self, sink: impl FnMut(&[u8])) -> Result<bool> {
        self.drain_some(AT_ONCE, sink)
    }

    fn drain_some(&mut self, mut left: usize, mut sink: impl FnMut(&[u8])) -> Result<bool> {
        loop {
            // nobody else writes it
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
            // SAFETY: the position is where the next record begins, and as far as the producers'
            // there are such
            let (to, stop) = unsafe { window.read(from, until, &mut left, &mut sink) };
            let at = at.wrapping_add(to - from);
            self.consumer.position().store(at, Ordering::Release);
            match stop {
                Stop::Done => {}
                // a window as large as the ring: the next one may be at its beginning
                Stop::Outside if to != from => {}
                Stop::Busy => return Ok(false),
                Stop::Enough => return Ok(true),
                Stop::Outside => self.move_window(at)?,
            }
        }
    }

    /// Has the window begin with the page of a position. What is not in it then, never will be.
    fn move_window(&mut self, at: usize) -> Result<()> {
        let offset = at & (self.size - 1);
        let page = page_size();
        let begin = (offset - offset % page).min(2 * self.size - self.window_size);
        if self.window.as_ref().is_some_and(|w| w.begin == begin) {
            bail!(
                "a record of the ring is larger than the {} bytes that are mapped of it",
                self.window_size
            );
        }
        // first go, then come: never are both counted as ours
        self.window = None;
        let pages = Mapping::new(
            &self.ring,
            2 * page + begin,
            self.window_size,
            ProtFlags::READ,
        );
        self.window = Some(Window {
            begin,
            pages: pages.context("failed to map the ring")?,
        });
        Ok(())
    }
}

#[cfg(test)]
#[path = "event_ring_tests.rs"]
mod tests;
