// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

/// With the values.
pub(super) fn of(samples: &[u64]) -> Histogram {
    let mut hist = Histogram::new();
    samples.iter().for_each(|&value| hist.record(value));
    hist
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
fn an_empty_histogram_has_no_statistics() {
    let empty = Histogram::from_parts(&[0; BUCKETS], 0, 0).unwrap();
    assert_eq!(empty, Histogram::default());
    assert_eq!((empty.max(), empty.mean(), empty.percentile(50.0)), (None, None, None));
    assert_eq!(empty.iter().count(), 0);
}

#[test]
fn a_map_of_another_size_is_refused() {
    assert_eq!(Histogram::from_parts(&[0; BUCKETS - 1], 0, 0), None);
    assert_eq!(Histogram::from_parts(&[0; BUCKETS + 1], 0, 0), None);
}

#[test]
fn parts_read_from_a_map_equal_the_samples_recorded() {
    let hist = of(&[3, 900, 1000, 5_000_000, 1 << 40]);
    let sum = u64::try_from(hist.sum()).unwrap();
    assert_eq!(Histogram::from_parts(&hist.buckets[..], sum, 1 << 40), Some(hist));
}

#[test]
fn a_maximum_that_lags_behind_its_bucket_is_estimated() {
    let torn = |value: u64| Histogram::from_parts(&of(&[value]).buckets[..], 0, 1).unwrap();
    assert_eq!((torn(1000).max(), torn(1000).max_exact()), (Some(1023), false));
    assert_eq!((torn(9).max(), torn(9).max_exact()), (Some(9), true));
    assert_eq!((torn(1 << 50).max(), torn(1 << 50).max_exact()), (Some(15 << 32), false));
}

#[test]
fn a_delta_knows_its_maximum_only_when_it_is_a_new_record() {
    let earlier = of(&[1000]);
    let higher = of(&[1000, 2000]).minus(&earlier);
    assert_eq!((higher.max(), higher.max_exact()), (Some(2000), true));
    let lower = of(&[1000, 500]).minus(&earlier);
    assert_eq!((lower.max(), lower.max_exact()), (Some(511), false));
    let capped = of(&[1000, 990]).minus(&earlier);
    assert_eq!((capped.max(), capped.max_exact()), (Some(1000), false));
    let none = earlier.minus(&earlier);
    assert_eq!(none, Histogram::new());
    assert_eq!(Histogram::new().minus(&earlier), none, "a reset counter gives nothing");
}

#[test]
fn an_estimated_maximum_stays_an_estimate_when_an_equal_one_is_merged() {
    let (mut exact, mut guess) = (of(&[1000]), of(&[1000, 990]).minus(&of(&[1000])));
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
    // 99.9 % of 1000 is the 999th sample, independent of the rounding of the product.
    let mut slow_one = of(&[5; 999]);
    slow_one.record(1 << 30);
    assert_eq!(slow_one.percentile(99.9), Some(5));
    assert_eq!(of(&[1000, 1000, 1 << 20]).percentile(50.0), Some(1000));
    assert_eq!(of(&[70 << 30, 80 << 30]).percentile(50.0), Some(70 << 30));
}

/// As a copy of a map.
pub(super) fn counted(samples: &[u64]) -> Histogram {
    let hist = of(samples);
    let sum = u64::try_from(hist.sum()).unwrap();
    Histogram::from_parts(&hist.buckets[..], sum, hist.max).unwrap()
}

#[test]
fn percentiles_of_counts_are_the_middle_of_a_bucket() {
    let p50 = |samples: &[u64]| counted(samples).percentile(50.0);
    assert_eq!(p50(&[1000, 1000, 1 << 20]), Some(991));
    assert_eq!(p50(&[70 << 30, 80 << 30]), Some(80 << 30));
}

#[test]
fn the_error_of_percentiles_is_that_of_the_worst_part() {
    let samples: Vec<u64> = (0..999).map(|n| 1000 + 7 * n).collect();
    let (mut exact, counts) = (of(&samples), counted(&samples));
    let error = |h: &Histogram| h.percentile_error();
    assert_eq!((error(&exact), error(&counts)), (0.0, 0.0625));
    let mut both = exact.clone();
    both.merge(&counts);
    assert_eq!(error(&both), 0.0625);
    let (mut first, empty) = (Histogram::new(), Histogram::new());
    first.merge(&exact);
    first.merge(&empty);
    assert_eq!(error(&first), 0.0);
    let all = PERCENTILES.map(|p| exact.percentile(p));
    assert_eq!(all, [4493, 7293, 7923, 7986].map(Some));
    exact.keep_percentiles();
    assert_eq!(PERCENTILES.map(|p| exact.percentile(p)), all);
    assert_eq!(error(&exact), 0.0);
    // what came after an earlier snapshot
    let later = of(&samples).minus(&of(&samples[..500]));
    assert_eq!((later.percentile(50.0), error(&later)), (Some(6243), 0.0));
}

#[test]
fn buckets_in_use_are_listed_in_order() {
    let listed: Vec<_> = of(&[1000, 2, 1001, u64::MAX]).iter().collect();
    assert_eq!(listed, [(2, 3, 1), (960, 1024, 2), (15 << 32, u64::MAX, 1)]);
}
