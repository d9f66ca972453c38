// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often a cause is named where there is none.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use nvme_deep::diagnose::diagnose;

use super::plants::facts;
use super::shapes::{SHAPES, Shape};

/// Runs of each shape in `make test`, and their commands.
const FEW: u64 = 10;
const FEW_COMMANDS: f64 = 2500.0;
/// The same in `make test-alarms`, unless NVME_DEEP_RUNS says otherwise, and the most alarms: in a shape, and
/// in all.
const MANY: u64 = 1000;
const MANY_COMMANDS: f64 = 8000.0;
const IN_A_SHAPE: usize = 1;
const IN_ALL: usize = 12;

/// The causes that runs of a shape are given.
fn alarms(shape: &Shape, seeds: impl Iterator<Item = u64>, commands: f64) -> Vec<String> {
    let mut alarms = Vec::new();
    for seed in seeds {
        let facts = facts(&shape.load(seed, commands), &[]);
        for cause in diagnose(&facts).causes() {
            let evidence = cause.evidence.iter();
            let evidence: Vec<String> =
                evidence.map(|e| format!("{}: {}", e.name, e.value)).collect();
            alarms.push(format!(
                "{}, seed {seed}: {} {evidence:?}, {} commands",
                shape.name, cause.rule, facts.commands.seen
            ));
        }
    }
    alarms
}

#[test]
fn healthy_shapes_get_no_verdict() {
    let all: Vec<String> =
        (SHAPES.iter()).flat_map(|shape| alarms(shape, 0..FEW, FEW_COMMANDS)).collect();
    assert!(all.is_empty(), "{all:#?}");
}

/// The base of the seeds: a new one in each run, or NVME_DEEP_SEED.
fn base() -> u64 {
    let given = env::var("NVME_DEEP_SEED").ok();
    let given = given.map(|text| text.parse().expect("a number"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    given.unwrap_or(now.as_secs())
}

/// How many runs of each kind: so many, or NVME_DEEP_RUNS.
pub fn runs(usual: u64) -> u64 {
    let given = env::var("NVME_DEEP_RUNS").ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "minutes: make test-alarms"]
fn healthy_shapes_get_few_verdicts_in_thousands_of_runs() {
    let (base, many) = (base(), runs(MANY));
    println!("base seed {base}");
    println!("| shape | runs | alarms |\n|---|---:|---:|");
    let (mut all, mut too_many) = (Vec::new(), Vec::new());
    for shape in SHAPES {
        let found = alarms(shape, (0..many).map(|n| base.wrapping_mul(MANY) + n), MANY_COMMANDS);
        found.iter().for_each(|alarm| eprintln!("{alarm}"));
        println!("| {} | {many} | {} |", shape.name, found.len());
        if found.len() > IN_A_SHAPE {
            too_many.push(shape.name);
        }
        all.extend(found);
    }
    let few = all.len() <= IN_ALL && too_many.is_empty();
    assert!(few, "base seed {base}: {too_many:?} {all:#?}");
}
