// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events without a kernel, for tests.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

pub use crate::session::LiveEvents;

/// Reads the records of a file (tests/testing/ring.rs) from one place to another.
pub fn read_ring(file: &File, bytes: Range<u64>, to: &mut LiveEvents) {
    let mut all = Vec::with_capacity((bytes.end - bytes.start) as usize);
    let mut from = file;
    from.seek(SeekFrom::Start(bytes.start)).unwrap();
    from.take(bytes.end - bytes.start).read_to_end(&mut all).unwrap();
    let mut left = &all[..];
    while let Some((size, rest)) = left.split_first_chunk() {
        let (record, rest) = rest.split_at(u64::from_ne_bytes(*size) as usize);
        to.push(record);
        left = rest;
    }
}
