// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram for comparing: 128 buckets per power of two, so the width of a bucket is at most
//! 1/128 (0.8 %) of its values.

use crate::model::fine;

/// log2 of the number of buckets in each power of two.
const SUB_BITS: u32 = 7;

/// Largest width of a bucket, relative to its values.
pub const RESOLUTION: f64 = 1.0 / (1 << SUB_BITS) as f64;

/// Counts of values by bucket, and their sum.
pub type FineHistogram = fine::FineHistogram<SUB_BITS>;

/// The range of a bucket: lower end (inclusive) and upper end (exclusive).
pub fn bounds(bucket: usize) -> (f64, f64) {
    FineHistogram::bounds(bucket)
}
