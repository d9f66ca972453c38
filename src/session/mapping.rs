// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of maps, shared with the kernel.

use std::ffi::c_void;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use rustix::io;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use super::read::name_of;
use crate::error::failed;
use anyhow::Result;

/// Pages of a map.
pub(super) struct Mapping {
    pub(super) address: NonNull<c_void>,
    pub(super) bytes: usize,
}

impl Mapping {
    pub(super) fn new(
        map: impl AsFd,
        offset: usize,
        bytes: usize,
        prot: ProtFlags,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses: it replaces no other
        // mapping.
        let address =
            unsafe { mmap(null_mut(), bytes, prot, MapFlags::SHARED, map, offset as u64) }?;
        let address = NonNull::new(address).ok_or(Errno::NOMEM)?;
        Ok(Self { address, bytes })
    }

    /// All whole words. They are only read: the programs write them.
    fn words(&self) -> &[AtomicU64] {
        let address: NonNull<AtomicU64> = self.address.cast();
        // SAFETY: mapped as long as `self` lives, aligned, and has no other references. Each word is
        // initialised, and changes only as a whole.
        unsafe { NonNull::slice_from_raw_parts(address, self.bytes / 8).as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `self`, and all borrows of the pages borrow `self`. If it fails, the
        // pages remain mapped.
        let _ = unsafe { munmap(self.address.as_ptr(), self.bytes) };
    }
}

/// The values of an array with BPF_F_MMAPABLE, read in place: a value that is not looked at costs
/// nothing. Mapped only while it is read: the kernel counts the pages as memory of the process.
pub(super) struct Values {
    pages: Mapping,
    /// Words of a value.
    words: usize,
    count: usize,
}

impl Values {
    /// Maps all values.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn of(map: &MapHandle) -> Result<Self> {
        let words = (map.value_size() as usize).div_ceil(8);
        let count = map.max_entries() as usize;
        let bytes = (words * 8 * count).next_multiple_of(page_size());
        let pages = Mapping::new(map.as_fd(), 0, bytes, ProtFlags::READ);
        Ok(Self {
            pages: pages.map_err(|e| failed(format!("read map `{}`", name_of(map)))(e))?,
            words,
            count,
        })
    }

    /// Number of values.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// The words of a value, which must exist.
    fn words(&self, index: usize) -> impl Iterator<Item = u64> + '_ {
        let words = self.pages.words().iter();
        let words = words.skip(index * self.words).take(self.words);
        words.map(|word| word.load(Ordering::Relaxed))
    }

    /// A word of a value; zero beyond the end.
    pub(super) fn word(&self, index: usize, at: usize) -> u64 {
        let word = self.pages.words().get(index * self.words + at);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// A copy of a value; empty beyond the end.
    pub(super) fn copy(&self, index: usize, to: &mut Vec<u8>) {
        to.clear();
        for word in self.words(index) {
            to.extend_from_slice(&word.to_ne_bytes());
        }
    }
}
