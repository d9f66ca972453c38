// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buckets of exported histograms: a subset of the bounds of [`Histogram`], so that the counts
//! are exact.

use crate::model::histogram::Histogram;

/// Exponent of the lowest bound: 2^9 - 1 ns.
const FIRST_EXP: u32 = 9;
/// Number of bounds. The last one is 2^35 - 1 ns (34 s), longer than the default timeout of the driver.
pub const BOUNDS: usize = 27;

/// The largest latency that each bucket counts, in nanoseconds. Latencies are whole nanoseconds, and
/// a bucket of [`Histogram`] begins at each power of two: a bound is one less.
pub const LE_NS: [u64; BOUNDS] = bounds();

const fn bounds() -> [u64; BOUNDS] {
    let mut all = [0; BOUNDS];
    let mut n = 0;
    while n < BOUNDS {
        all[n] = (1 << (FIRST_EXP + n as u32)) - 1;
        n += 1;
    }
    all
}

/// Number of samples up to and including each bound of [`LE_NS`].
pub fn cumulative(hist: &Histogram) -> [u64; BOUNDS] {
    let mut counts = [0_u64; BOUNDS];
    for bucket in hist.iter() {
        let bound = LE_NS.partition_point(|le| *le < bucket.last);
        if let Some(first) = counts.get_mut(bound) {
            *first = first.saturating_add(bucket.count);
        }
    }
    let mut sum = 0_u64;
    counts.map(|count| {
        sum = sum.saturating_add(count);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::histogram;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn each_bound_is_the_end_of_a_bucket() {
        for le in LE_NS {
            let (_, end) = histogram::bounds(histogram::index(le));
            assert_eq!(end, le + 1);
        }
        assert_eq!((LE_NS[0], LE_NS[BOUNDS - 1]), (511, 34_359_738_367));
    }

    proptest! {
        #[test]
        fn counts_are_exact(
            samples in vec(prop_oneof![any::<u64>(), 0..1_u64 << 37, 500..520_u64, 1000..2100_u64], 0..200)
        ) {
            let mut hist = Histogram::new();
            samples.iter().for_each(|ns| hist.record(*ns));
            let counts = cumulative(&hist);
            for (le, count) in LE_NS.iter().zip(counts) {
                let exact = samples.iter().filter(|ns| *ns <= le).count() as u64;
                prop_assert_eq!(count, exact, "{}", le);
            }
        }
    }
}
