// SPDX-License-Identifier: MIT OR Apache-2.0

use std::f64::consts::TAU;

use fastrand::Rng;

use super::*;

const SECOND: f64 = 1e9;

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

fn reading(mut passages: Vec<(f64, f64)>) -> Reading {
    passages.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut rates = Rates::default();
    for (begin, end) in passages {
        rates.add(Passage {
            ctrl: 0,
            begin_ns: (SECOND + begin) as u64,
            end_ns: (SECOND + end) as u64,
            bytes: 4096,
        });
    }
    rates.reading()
}

/// Poisson arrivals at a device without a limit, whose time drifts between 0.5 and 1.5 ms.
fn open(seed: u64, per_second: f64, seconds: f64) -> Vec<(f64, f64)> {
    let mut rng = Rng::with_seed(seed);
    let (mut at, mut all) = (0.0, Vec::new());
    while at < seconds * SECOND {
        at += exponential(&mut rng, SECOND / per_second);
        let level = 1e6 + 0.5e6 * (TAU * at / 3e9).sin();
        all.push((at, at + level * (0.1 * normal(&mut rng)).exp()));
    }
    all
}

/// A closed loop with this many in flight, by second, at a device with this time; and a limit, as the
/// time between two completions.
fn closed(seed: u64, depths: &[usize], service: f64, sigma: f64, apart: f64) -> Vec<(f64, f64)> {
    let mut rng = Rng::with_seed(seed);
    let most = depths.iter().copied().max().unwrap();
    let mut next: Vec<f64> = (0..most).map(|_| rng.f64() * service).collect();
    let (mut free, mut all) = (0.0_f64, Vec::new());
    let end = depths.len() as f64 * SECOND;
    loop {
        let order = next.iter().enumerate();
        let (slot, &begin) = order.min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        if begin >= end {
            return all;
        }
        let second = (begin / SECOND) as usize;
        if slot >= depths[second] {
            next[slot] = (second + 1) as f64 * SECOND;
            continue;
        }
        free = (free + apart).max(begin);
        let done = (begin + service * (sigma * normal(&mut rng)).exp()).max(free);
        all.push((begin, done));
        next[slot] = done + 20e3;
    }
}

#[test]
fn poisson_arrivals_at_a_device_without_a_limit_have_none() {
    for per_second in [100.0, 1000.0, 2000.0, 4000.0, 8000.0] {
        for seed in 0..60 {
            let found = reading(open(seed, per_second, 10.0));
            assert!(!matches!(found, Reading::Limit(_)), "{per_second}: {found:?}");
            // more commands in flight: it is sure that there is none
            let is_sure = per_second < 4000.0 || matches!(found, Reading::None(_));
            assert!(is_sure, "{per_second}: {found:?}");
        }
    }
}

#[test]
fn a_limit_shows_when_the_number_in_flight_changes() {
    for seed in 0..60 {
        // 200 per second
        let found = reading(closed(seed, &[4, 28, 4, 28, 4, 4, 28, 4, 28, 28], 4e6, 0.1, 5e6));
        let Reading::Limit(flat) = found else {
            panic!("{found:?}");
        };
        assert!((190.0..210.0).contains(&flat.rate), "{flat:?}");
    }
}

#[test]
fn a_device_with_a_fixed_time_has_no_limit() {
    for seed in 0..60 {
        for sigma in [0.0, 0.01, 0.3] {
            let found =
                reading(closed(seed, &[4, 28, 4, 28, 4, 4, 28, 4, 28, 28], 4e6, sigma, 0.0));
            assert!(matches!(found, Reading::None(_)), "{sigma}: {found:?}");
        }
    }
}

#[test]
fn a_number_that_does_not_change_leaves_it_open() {
    for seed in 0..20 {
        for apart in [0.0, 1e6] {
            let found = reading(closed(seed, &[8; 10], 2e6, 0.05, apart));
            let Reading::Open(why) = found else {
                panic!("{found:?}");
            };
            assert!(why.contains("did not vary"), "{why}");
        }
    }
}

/// Submissions at equal times, as of a program that paces itself.
#[test]
fn a_paced_load_shows_no_limit() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let all = (0..8000).map(|n| {
            let at = f64::from(n) * 1e6;
            // the device takes three times as long for a while
            let burst = (at / SECOND) as u32 % 4 == 1;
            let time = 4e6 * if burst { 3.0 } else { 1.0 };
            (at, at + time * (0.2 * normal(&mut rng)).exp())
        });
        let found = reading(all.collect());
        assert!(!matches!(found, Reading::Limit(_)), "{seed}: {found:?}");
    }
}

#[test]
fn a_gap_of_years_costs_nothing() {
    let mut all = open(1, 2000.0, 1.0);
    all.push((1e18, 1e18 + 1e6));
    let mut rates = Rates::default();
    for (begin, end) in all {
        rates.add(Passage { ctrl: 0, begin_ns: begin as u64, end_ns: end as u64, bytes: 0 });
    }
    assert!(rates.bins.len() <= MOST_BINS);
    assert!(!matches!(rates.reading(), Reading::Limit(_)));
}
