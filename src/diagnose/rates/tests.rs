// SPDX-License-Identifier: MIT OR Apache-2.0

use std::f64::consts::TAU;

use fastrand::Rng;

use super::*;
use crate::diagnose::verdict::Status;

const SECOND: f64 = 1e9;

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

fn limit(mut commands: Vec<(f64, f64)>) -> Result<Flat, Reason> {
    commands.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut rates = Rates::default();
    for (begin, end) in commands {
        rates.add(((SECOND + begin) as u64, (SECOND + end) as u64), 4096);
    }
    rates.limit()
}

fn is_ruled_out(found: &Result<Flat, Reason>) -> bool {
    matches!(found, Err(Reason(Status::RuledOut, _)))
}

/// Why it is not known whether there is a limit.
fn why_open(found: Result<Flat, Reason>) -> String {
    match found {
        Err(Reason(Status::Inconclusive, why)) => why,
        found => panic!("{found:?}"),
    }
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
fn a_device_with_a_fixed_time_has_no_limit() {
    for seed in 0..60 {
        for sigma in [0.0, 0.01, 0.3] {
            let found = limit(closed(seed, &[4, 28, 4, 28, 4, 4, 28, 4, 28, 28], 4e6, sigma, 0.0));
            assert!(is_ruled_out(&found), "{sigma}: {found:?}");
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
        let found = limit(all.collect());
        assert!(found.is_err(), "{seed}: {found:?}");
    }
}

/// A bucket of 150 commands per second that holds 15, as QEMU's throttle has: closed loops whose depth is that of each
/// second.
fn throttled(seed: u64, depths: &[usize]) -> Vec<(f64, f64)> {
    let mut rng = Rng::with_seed(seed);
    let most = depths.iter().copied().max().unwrap();
    let mut next: Vec<f64> = (0..most).map(|_| rng.f64() * 4e6).collect();
    let (mut level, mut at, mut all) = (0.0_f64, 0.0_f64, Vec::new());
    loop {
        let order = next.iter().enumerate();
        let (slot, &begin) = order.min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        let second = (begin / SECOND) as usize;
        let Some(depth) = depths.get(second) else {
            return all;
        };
        if slot >= *depth {
            next[slot] = (second + 1) as f64 * SECOND + rng.f64() * 1e5;
            continue;
        }
        // leaks since the last one; one that finds more than 15 in it waits
        let start = begin.max(at);
        level = (level - (start - at) / SECOND * 150.0).max(0.0);
        let wait = ((level - 15.0) / 150.0).max(0.0) * SECOND;
        level += 1.0 - wait / SECOND * 150.0;
        at = start + wait;
        let done = at + 4e6 * (0.1 * normal(&mut rng)).exp();
        all.push((begin, done));
        next[slot] = done + 50e3;
    }
}

/// Ways in which the depth changes.
fn ways(seed: u64) -> Vec<(&'static str, Vec<usize>)> {
    let mut rng = Rng::with_seed(seed);
    let repeat = |levels: &[usize], seconds: usize, length: usize| -> Vec<usize> {
        (0..length).map(|n| levels[n / seconds % levels.len()]).collect()
    };
    let random: Vec<usize> = (0..20).map(|_| rng.usize(1..=32)).collect();
    let sine = (0..30).map(|n| 9 + (7.0 * (TAU * f64::from(n) / 10.0).sin()) as usize).collect();
    vec![
        ("4 and 16 for 3 s", repeat(&[4, 16], 3, 20)),
        ("2 to 10 in steps of 2 s", repeat(&[2, 4, 6, 8, 10], 2, 20)),
        ("4 to 28 in steps of 5 s", repeat(&[4, 28], 5, 20)),
        ("1 and 8 for 1 s", repeat(&[1, 8], 1, 20)),
        ("random each second", random),
        ("a ramp", (0..30).map(|n| 2 + n).collect()),
        ("a sine", sine),
        ("one step", repeat(&[4, 16], 10, 20)),
        ("8, and 32 now and then", repeat(&[8, 8, 8, 32], 1, 20)),
        ("4, idle, 16", repeat(&[4, 0, 16], 2, 24)),
    ]
}

/// At least eight of ten. Depth 1 is never busy enough.
#[test]
fn a_limit_is_named_in_most_ways_in_which_the_depth_changes() {
    const SEEDS: u64 = 10;
    let mut ways_named = 0;
    for n in 0..10 {
        let mut named = 0;
        for seed in 0..SEEDS {
            let (name, depths) = ways(seed).swap_remove(n);
            if let Ok(flat) = limit(throttled(seed, &depths)) {
                assert!((140.0..160.0).contains(&flat.rate), "{name}: {flat:?}");
                named += 1;
            }
        }
        ways_named += u32::from(named >= SEEDS * 9 / 10);
    }
    assert!(ways_named >= 8, "{ways_named}");
}

#[test]
fn a_constant_depth_is_left_open_and_even_completions_are_noted() {
    for seed in 0..20 {
        let why = why_open(limit(throttled(seed, &[8; 20])));
        assert!(why.contains("as even as under a limit of 15"), "{why}");
        let why = why_open(limit(closed(seed, &[8; 10], 2e6, 0.5, 0.0)));
        assert!(why.contains("did not vary"), "{why}");
    }
}

/// Open loops: at random, with a rate that changes, on and off; the device drifts.
#[test]
fn no_open_loop_of_a_thousand_has_a_limit() {
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let rate = 60.0 * (5.0 * rng.f64()).exp2();
        let (mut at, mut all) = (0.0, Vec::new());
        let service = 1e6 * (4.0 * rng.f64()).exp2();
        while at < 12.0 * SECOND {
            let phase = (at / SECOND) as u64;
            let factor = match seed % 4 {
                0 => 1.0,
                1 => {
                    if at < 6.0 * SECOND {
                        1.0
                    } else {
                        2.0
                    }
                }
                2 => {
                    if phase.is_multiple_of(2) {
                        2.0
                    } else {
                        0.25
                    }
                }
                _ => 1.0 + (TAU * at / 4e9).sin() * 0.8,
            };
            at += exponential(&mut rng, SECOND / (rate * factor));
            let level = service * (1.0 + 0.5 * (TAU * at / 3e9).sin());
            all.push((at, at + level * (0.2 * normal(&mut rng)).exp()));
        }
        let found = limit(all);
        assert!(found.is_err(), "{seed}: {found:?}");
    }
}
