// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log-linear buckets: each power of two is divided into `1 << BITS` equal parts. Values below `1 << BITS`
//! have buckets of their own.

/// The bucket of a value.
#[inline]
#[must_use]
pub const fn index<const BITS: u32>(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    let exp = value.ilog2();
    let group = (exp - BITS + 1) as usize;
    (group << BITS) + ((value >> (exp - BITS)) & ((1 << BITS) - 1)) as usize
}

/// Lower end (inclusive) of a bucket, which is the upper end (exclusive) of the one before it. That of the
/// last bucket of all values is 2^64.
#[must_use]
pub const fn low<const BITS: u32>(bucket: usize) -> u128 {
    let (group, part) = (bucket >> BITS, bucket as u128 & ((1 << BITS) - 1));
    if group == 0 { part } else { ((1 << BITS) + part) << (group - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_narrow<const BITS: u32>(value: u64) {
        let bucket = index::<BITS>(value);
        let (from, to) = (low::<BITS>(bucket), low::<BITS>(bucket + 1));
        assert!((from..to).contains(&value.into()), "{value}: {from} to {to}");
        assert!(to - from <= (from >> BITS).max(1), "{value}: {from} to {to}");
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_narrow(value: u64, small in 0_u64..1 << 12) {
            for value in [value, small, u64::MAX] {
                is_narrow::<3>(value);
                is_narrow::<7>(value);
                is_narrow::<10>(value);
            }
        }
    }
}
