// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A histogram of these values.
fn of(samples: &[u64]) -> Histogram {
    let mut hist = Histogram::new();
    samples.iter().for_each(|&value| hist.record(value));
    hist
}

/// The counts of a BPF map with these values.
fn map(samples: &[u64]) -> [u64; BUCKETS] {
    let mut buckets = [0; BUCKETS];
    samples.iter().for_each(|&value| buckets[index(value)] += 1);
    buckets
}

/// The histogram of a BPF map with these values.
fn counted(samples: &[u64]) -> Histogram {
    let max = samples.iter().copied().max().unwrap_or(0);
    Histogram::from_parts(&map(samples), samples.iter().sum(), max).unwrap()
}

#[test]
fn index_undoes_bounds_and_neighbours_touch() {
    for bucket in 0..BUCKETS {
        let (low, high) = bounds(bucket);
        assert_eq!((index(low), index(high - 1)), (bucket, bucket));
        assert!(bucket == LAST || bounds(bucket + 1).0 == high);
    }
    assert_eq!((index(0), index(u64::MAX)), (0, LAST));
    assert_eq!((index(7), index(8), index(15), index(16)), (7, 8, 15, 16));
    assert_eq!((index((1 << 36) - 1), index(1 << 36)), (LAST, LAST));
    assert_eq!(bounds(LAST), (15 << 32, u64::MAX));
    assert_eq!(bounds(BUCKETS), bounds(LAST));
}

#[test]
fn a_maximum_that_lags_behind_its_bucket_is_estimated() {
    for (value, max, exact) in [(1000, 1023, false), (9, 9, true), (1 << 50, 15 << 32, false)] {
        let torn = Histogram::from_parts(&map(&[value]), 0, 1).unwrap();
        assert_eq!((torn.max(), torn.max_exact()), (Some(max), exact));
    }
}

#[test]
fn a_delta_knows_its_maximum_if_it_is_a_new_record_or_the_bucket_has_one_value() {
    for (later, max, exact) in [
        (counted(&[1000, 2000]), 2000, true),
        (counted(&[1000, 500]), 511, false),
        (counted(&[1000, 990]), 1000, false),
        (of(&[1000, 500]), 500, true),
    ] {
        let earlier = if later.percentile_error() == 0.0 { of(&[1000]) } else { counted(&[1000]) };
        let delta = later.minus(&earlier);
        assert_eq!((delta.max(), delta.max_exact()), (Some(max), exact));
    }
    let long = counted(&[80 << 30, 70 << 30]).minus(&counted(&[80 << 30]));
    assert_eq!((long.max(), long.max_exact()), (Some(80 << 30), false));
    let earlier = of(&[1000]);
    assert_eq!(earlier.minus(&earlier), Histogram::new());
    assert_eq!(Histogram::new().minus(&earlier), Histogram::new(), "a reset counter gives nothing");
}

#[test]
fn an_estimated_maximum_stays_an_estimate_when_an_equal_one_is_merged() {
    let (mut exact, mut guess) = (counted(&[1000]), counted(&[1000, 990]).minus(&counted(&[1000])));
    let other = exact.clone();
    exact.merge(&guess);
    guess.merge(&other);
    assert_eq!((exact.max_exact(), exact), (false, guess));
}

#[test]
fn a_shared_maximum_is_an_estimate_until_a_larger_bucket_is_in_use() {
    let shared = of(&[1, 970]).with_shared_max();
    for (other, exact) in [(500, false), (960, false), (1010, false), (1024, true)] {
        let (mut a, mut b) = (shared.clone(), of(&[other]));
        b.merge(&a);
        a.record(other);
        assert_eq!((a.max_exact(), a.max()), (exact, Some(other.max(970))));
        assert_eq!((a, of(&[9]).with_shared_max().max_exact()), (b, true));
    }
}

#[test]
fn percentiles_go_by_nearest_rank() {
    let hist = of(&[1, 2, 3, 4]);
    let at = |p: f64| hist.percentile(p);
    assert_eq!((at(0.0), at(25.0), at(25.1), at(50.0)), (Some(1), Some(1), Some(2), Some(2)));
    assert_eq!((at(75.1), at(100.0), at(1e9), at(f64::NAN)), (Some(4), Some(4), Some(4), None));
    // 99.9 % of 1000 is the 999th sample, whatever the rounding of the product
    let mut slow_one = Histogram::new();
    slow_one.record_n(5, 999);
    slow_one.record(1 << 30);
    assert_eq!(slow_one.percentile(99.9), Some(5));
}

#[test]
fn the_worst_part_decides_the_error_of_percentiles() {
    let samples: Vec<u64> = (0..999).map(|n| 1000 + 7 * n).collect();
    let (exact, counts) = (of(&samples), counted(&samples));
    let error = |h: &Histogram| h.percentile_error();
    assert_eq!((error(&exact), error(&counts)), (0.0, 0.0625));
    let mut both = exact.clone();
    both.merge(&counts);
    assert_eq!(error(&both), 0.0625);
    let mut first = Histogram::new();
    first.merge(&exact);
    first.merge(&counted(&[]));
    assert_eq!((error(&first), &first), (0.0, &exact));
    let percentiles = [50.0, 90.0, 99.0, 99.9].map(|p| exact.percentile(p));
    assert_eq!(percentiles, [4493, 7293, 7923, 7986].map(Some));
    let later = of(&samples).minus(&of(&samples[..500]));
    assert_eq!((later.percentile(50.0), error(&later)), (Some(6243), 0.0));
}

#[test]
fn a_histogram_with_too_many_values_is_at_most_the_stated_error_off() {
    // from 1 us to 100 ms, in a mixed order
    let count = 160_000;
    let value = |n: u64| {
        let part = (n * 7919 % count) as f64 / count as f64;
        (1000.0 * 100_000_f64.powf(part)) as u64
    };
    let all: Vec<u64> = (0..count).map(value).collect();
    let (first, rest) = all.split_at(80_000);
    let mut merged = of(first);
    merged.merge(&of(&rest[..100]));
    merged.merge(&of(&rest[100..]));
    let mut grown = of(&all[..10]);
    grown.merge(&of(&all[10..]));
    // the earlier one is still exact
    let mut few = of(&all[..10]);
    few.merge(&of(&all).minus(&of(&all[..10])));
    let mut sorted = all.clone();
    sorted.sort_unstable();
    for found in [of(&all), merged, grown, few] {
        let error = found.percentile_error();
        assert!(error > 0.0 && error < 0.000_5, "{error}");
        assert_eq!(found.count(), count);
        for p in [0.001, 1.0, 50.0, 99.0, 99.9] {
            let (ours, exact) = (found.percentile(p).unwrap(), sorted[rank(p, count) as usize - 1]);
            assert!(ours.abs_diff(exact) as f64 <= error * exact as f64, "{p}: {ours} {exact}");
        }
    }
}

/// Latencies with a uniform distribution of their exponent, then of their mantissa.
fn log_uniform() -> impl Strategy<Value = u64> {
    (0_u32..36, any::<u64>()).prop_map(|(exp, bits)| (1 << exp) | (bits & ((1 << exp) - 1)))
}

proptest! {
    #[test]
    fn every_percentile_of_few_values_is_exact(samples in vec(any::<u64>(), 1..60)) {
        let mut sorted = samples.clone();
        sorted.sort_unstable();
        for (rank, want) in (1..).zip(&sorted) {
            let p = 100.0 * f64::from(rank) / sorted.len() as f64;
            prop_assert_eq!(of(&samples).percentile(p), Some(*want));
        }
    }

    #[test]
    fn a_bucket_holds_its_values_and_is_narrow(value: u64, shift in 0_u32..64) {
        for value in [value >> shift, u64::MAX] {
            for bits in [0, SUB_BITS, 7, NARROW, EXACT] {
                let mut hist = Histogram::with_bits(bits);
                hist.record(value);
                let all: Vec<_> = hist.buckets(bits).collect();
                prop_assert_eq!(all.len(), 1);
                let Bucket { first, last, count } = all[0];
                prop_assert!(first <= value && value <= last && count == 1);
                prop_assert!(last - first <= first >> bits);
                prop_assert_eq!(hist.minus(&hist).count(), 0);
            }
        }
    }

    /// Whatever the widths of the parts: the widest decides.
    #[test]
    fn merging_is_recording(
        a in vec(any::<u64>(), 0..50),
        b in vec(0_u64..1 << 20, 1..50),
        wide in 0_u32..12,
    ) {
        let recorded = |bits: u32, samples: &[u64]| {
            let mut hist = Histogram::with_bits(bits);
            samples.iter().for_each(|&value| hist.record(value));
            hist
        };
        let both = recorded(wide, &[a.clone(), b.clone()].concat());
        for (first, second) in [(wide, wide), (wide, EXACT), (EXACT, wide)] {
            let mut merged = recorded(first, &a);
            merged.merge(&recorded(second, &b));
            prop_assert_eq!(&merged, &both);
        }
    }

    #[test]
    fn minus_undoes_merge(a in vec(log_uniform(), 0..80), b in vec(log_uniform(), 0..80)) {
        for of in [of, counted] {
            let (first, second) = (of(&a), of(&b));
            let mut both = first.clone();
            both.merge(&second);
            let delta = both.minus(&first);
            let list = |hist: &Histogram| -> Vec<_> {
                hist.iter().map(|b| (b.first, b.count)).collect()
            };
            prop_assert_eq!(list(&delta), list(&second));
            prop_assert_eq!((delta.count(), delta.sum()), (second.count(), second.sum()));
            if let (Some(estimate), Some(max)) = (delta.max(), second.max()) {
                prop_assert_eq!(index(estimate), index(max));
                prop_assert!(estimate >= max && (estimate == max || !delta.max_exact()));
            }
        }
    }
}
