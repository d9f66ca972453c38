// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset contains the truth, and wrong pairs do not move it.

use super::*;
use proptest::prelude::*;

/// Pairs of a clock with this offset and drift. Each direction takes 1 to 41 us.
fn pairs(offset: i64, ppm: f64, delays: &[(u16, u16)]) -> Vec<Bounds> {
    pairs_every(3_000_000, offset, ppm, delays)
}

fn pairs_every(step_ns: i64, offset: i64, ppm: f64, delays: &[(u16, u16)]) -> Vec<Bounds> {
    let delay = |n: u16| 1000 + i64::from(n) % 40_000;
    let pair = |(n, &(there, back)): (usize, &(u16, u16))| {
        let at_ns = n as i64 * step_ns + 77_000_000_000;
        let truth = offset + (at_ns as f64 * ppm / 1e6) as i64;
        Bounds { at_ns, low: truth - delay(back), up: truth + delay(there) }
    };
    delays.iter().enumerate().map(pair).collect()
}

fn range(pairs: &[Bounds]) -> (i64, i64) {
    let times = || pairs.iter().map(|b| b.at_ns);
    (times().min().unwrap(), times().max().unwrap())
}

proptest! {
    #[test]
    fn the_truth_is_within_the_error(
        offset in -1_i64 << 60..1 << 60, ppm in -300.0..300.0_f64,
        delays in prop::collection::vec(any::<(u16, u16)>(), 1..200),
    ) {
        let pairs = pairs(offset, ppm, &delays);
        let found = fit(&pairs, range(&pairs), 1).unwrap();
        for pair in &pairs {
            let truth = offset + (pair.at_ns as f64 * ppm / 1e6) as i64;
            let apart = (found.at(pair.at_ns) - truth).unsigned_abs();
            prop_assert!(apart <= found.error_ns + 2, "{apart} {found:?}");
            prop_assert!(pair.low - 1 <= found.at(pair.at_ns));
            prop_assert!(found.at(pair.at_ns) <= pair.up + 1);
        }
    }

    #[test]
    fn wrong_pairs_do_not_move_the_line(
        ppm in -300.0..300.0_f64,
        delays in prop::collection::vec(any::<(u16, u16)>(), 100..200),
        wrong in prop::collection::vec((0..100_usize, any::<i32>()), 0..10),
    ) {
        let mut all = pairs(5_000_000_000, ppm, &delays);
        let right = all.clone();
        for (n, shift) in wrong {
            all[n].low += i64::from(shift);
            all[n].up += i64::from(shift);
        }
        let found = fit(&all, range(&all), 1).unwrap();
        let moved = |n: usize| all[n] != right[n];
        for (n, pair) in right.iter().enumerate().filter(|(n, _)| !moved(*n)) {
            prop_assert!(found.may_fit(pair), "{n} {pair:?} {found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A pair a second, and a burst in which most pairs are, a microsecond apart. In it each command waits
    /// longer than the one before until the host sees it: that is not the drift of the clock.
    #[test]
    fn a_burst_does_not_turn_the_line(
        ppm in -300.0..300.0_f64, at in 0..100_usize, waits in 10_000..5_000_000_i64,
        delays in prop::collection::vec(any::<(u16, u16)>(), 100),
    ) {
        let steady = pairs_every(1_000_000_000, 0, ppm, &delays);
        let burst = (1..1000).map(|n| {
            let Bounds { at_ns, low, up } = steady[at];
            Bounds { at_ns: at_ns + n * 1000, low, up: up + waits / 1000 * n }
        });
        let all: Vec<Bounds> = steady.iter().copied().chain(burst).collect();
        let found = fit(&all, range(&all), 1).unwrap();
        for pair in &steady {
            let truth = (pair.at_ns as f64 * ppm / 1e6) as i64;
            let apart = (found.at(pair.at_ns) - truth).unsigned_abs();
            prop_assert!(apart <= found.error_ns + 2, "{apart} {found:?}");
        }
        prop_assert!(all.iter().all(|pair| found.may_fit(pair)));
        // the steady pairs bound the offset as well as they do alone
        let alone = fit(&steady, range(&all), 1).unwrap();
        prop_assert!(found.error_ns <= alone.error_ns + 2, "{found:?} {alone:?}");
    }
}

/// Clocks drift evenly: a pair that bounds the offset well does so at all times.
#[test]
fn a_few_good_pairs_bound_the_offset_of_the_others() {
    let mut pairs = pairs(0, 40.0, &[(39_999, 39_999); 100]);
    for n in [20, 80] {
        let at = pairs[n].at_ns as f64;
        (pairs[n].low, pairs[n].up) = ((at * 40e-6) as i64 - 100, (at * 40e-6) as i64 + 100);
    }
    let found = fit(&pairs, range(&pairs), 1).unwrap();
    // 100 ns on both sides at 20 and at 80 are 167 ns at 0
    assert!(found.error_ns < 200, "{found:?}");
}

#[test]
fn two_pairs_that_contradict_each_other_give_no_offset() {
    let pairs = [(0, 10), (1000, 1010)].map(|(low, up)| Bounds { at_ns: 5, low, up });
    assert_eq!(fit(&pairs, range(&pairs), 1), None);
    assert_eq!(fit(&[], (0, 0), 1), None);
}

#[test]
fn one_pair_gives_its_interval() {
    let bounds = Bounds { at_ns: 100, low: -30, up: 50 };
    let found = fit(&[bounds], (100, 100), 1).unwrap();
    assert_eq!((found.at(100), found.error_ns), (10, 40));
    assert_eq!(found.range_ns, (-30, 50));
}
