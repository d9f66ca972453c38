// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs without a cause that look as if they had one. shapes.rs has loads of all kinds.

use fastrand::Rng;
use nvme_deep::diagnose::{Status, diagnose};
use nvme_deep::model::event::EventKind;

use super::draft::{DEVICE, SUBMIT, WRITE};
use super::lengthen::lengthen;
use super::load::Load;
use super::plants::{facts, judged};

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
    let diagnosis = judged(run);
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
    let diagnosis = judged(run);
    assert!(diagnosis.causes().next().is_none(), "{:#?}", diagnosis.verdicts);
    let mut out = diagnosis.of(Status::RuledOut);
    let why = out.find(|v| v.rule == "unaligned");
    assert!(why.unwrap().text.contains("off the physical blocks take 3."), "{why:?}");
}
