// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs without a cause: mixed loads on machines of all sizes.

use fastrand::Rng;
use nvme_deep::diagnose::{Status, diagnose};
use nvme_deep::model::event::EventKind;
use nvme_deep::model::ledger::Accuracy;

use super::draft::{DEVICE, SUBMIT, WRITE};
use super::lengthen::lengthen;
use super::load::Load;
use super::plants::facts;

const RUNS: u64 = 100;
/// Most commands of a run: for the time of the test.
const COMMANDS: f64 = 8000.0;

/// A load without a cause: depths of 1 to 64, 1 to 8 CPUs, 5 to 60 s.
fn load(seed: u64) -> Load {
    let mut rng = Rng::with_seed(seed);
    let mut choose = |least: f64, most: f64| least + (most - least) * rng.f64();
    let mut load = Load {
        seed,
        seconds: choose(5.0, 60.0),
        cpus: choose(1.0, 8.99) as u16,
        writes: choose(0.0, 1.0) * 0.9,
        sigmas: [choose(0.1, 0.4), choose(0.1, 0.7)],
        memory_s: choose(0.01, 1.0),
        bursts: (choose(0.0, 0.5), 0.1, choose(2.0, 6.0)),
        idle: choose(0.1, 0.9),
        idle_follows: choose(0.0, 0.2),
        softirq: choose(0.0, 0.4),
        remote: choose(0.0, 0.6),
        ..Load::default()
    };
    load.jobs = choose(1.0, 2.0 * f64::from(load.cpus)) as u16;
    load.depth = (choose(0.0, 6.0).exp2() as u16 / load.jobs).max(1);
    load.queues = choose(1.0, f64::from(load.cpus) + 0.99) as u16;
    load.sizes = [&[4096][..], &[4096, 65536], &[4096, 16384, 131_072]][choose(0.0, 2.99) as usize];
    load.varies = choose(0.0, 1.0) < 0.3;
    if choose(0.0, 1.0) < 0.4 {
        load.flushes = choose(0.0, 0.05);
    }
    if choose(0.0, 1.0) < 0.3 {
        load.discards = choose(0.0, 0.03);
    }
    if choose(0.0, 1.0) < 0.3 {
        load.unaligned = choose(0.0, 0.7);
    }
    load.stages[DEVICE] = choose(11.0, 16.0).exp2() * 50.0;
    let slots = f64::from(load.jobs) * f64::from(load.depth);
    let pause = load.seconds * 1e9 * slots / COMMANDS;
    load.pause_ns = (pause - load.stages[DEVICE]).max(10e3);
    load
}

/// Long commands meet more flushes and discards than short ones, and do not depend on them.
#[test]
fn long_commands_are_not_blamed_on_what_they_meet() {
    for seed in 1..6 {
        let load = Load {
            seed,
            writes: 0.7,
            flushes: 0.15,
            pause_ns: 8e6,
            sigmas: [0.3, 1.1],
            ..Load::default()
        };
        let load = Load { stages: load.stages.map(|ns| ns * 10.0), ..load };
        let diagnosis = diagnose(&facts(&load, &[]));
        assert!(diagnosis.causes().next().is_none(), "{:#?}", diagnosis.verdicts);
    }
}

/// A long submission meets more submissions of other CPUs than a short one.
#[test]
fn long_submissions_are_not_blamed_on_a_shared_queue() {
    let load = Load { queues: 1, pause_ns: 1e6, seconds: 4.0, ..Load::default() };
    let mut run = load.run(&[]);
    let mut rng = Rng::with_seed(1);
    lengthen(&mut run, SUBMIT, |_| {
        let middle = rng.f64() + rng.f64() + rng.f64() - 1.5;
        (30e3 * (3.0 * middle).exp()) as u64
    });
    let diagnosis = diagnose(&run.facts(Accuracy::Exact));
    assert!(diagnosis.causes().next().is_none(), "{:#?}", diagnosis.verdicts);
}

/// Unaligned writes take longer, but few commands are writes.
#[test]
fn what_concerns_little_of_the_time_is_not_named() {
    let load = Load { writes: 0.05, unaligned: 0.5, seconds: 20.0, ..Load::default() };
    let mut run = load.run(&[]);
    lengthen(&mut run, DEVICE, |event| match &event.what {
        EventKind::Command(id, submission, _)
            if id.opcode.code == WRITE && submission.sqe.pair(10) % 8 != 0 =>
        {
            200_000
        }
        _ => 0,
    });
    let diagnosis = diagnose(&run.facts(Accuracy::Exact));
    assert!(diagnosis.causes().next().is_none(), "{:#?}", diagnosis.verdicts);
    let mut out = diagnosis.of(Status::RuledOut);
    let why = out.find(|v| v.rule == "unaligned");
    assert!(why.unwrap().text.contains("off the physical blocks take 3."), "{why:?}");
}

#[test]
fn healthy_runs_have_few_verdicts() {
    let mut alarms = Vec::new();
    for seed in 0..RUNS {
        let load = load(seed);
        let facts = facts(&load, &[]);
        let diagnosis = diagnose(&facts);
        for cause in diagnosis.causes() {
            let evidence: Vec<String> =
                (cause.evidence.iter()).map(|e| format!("{}: {}", e.name, e.value)).collect();
            let rule = cause.rule;
            alarms.push(format!(
                "{seed}: {rule} {:?} {evidence:?}, {} commands",
                cause.share, facts.commands.seen
            ));
        }
    }
    assert!(alarms.len() <= 2, "{alarms:#?}");
}
