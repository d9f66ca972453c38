// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each plant against each rule.

use std::collections::BTreeSet;

use nvme_deep::diagnose::report::{Collector, Diagnosis, Outcome, RULES, diagnose};
use nvme_deep::model::ledger::Accuracy;

use nvme_deep::diagnose::report::Expectation;

use super::causes::Cause;
use super::draft::DEVICE;
use super::load::Load;
use super::plants::{PLANTS, facts, found, named};

/// Runs of each plant, and of each control.
const SEEDS: std::ops::Range<u64> = 1..3;

#[test]
fn every_rule_has_a_plant() {
    let rules: BTreeSet<&str> = RULES.iter().map(|r| r.name).collect();
    let planted: BTreeSet<&str> = PLANTS.iter().map(|p| p.rule).collect();
    assert_eq!(rules, planted);
}

/// docs/diagnose.md has a row for each rule, in the same order.
#[test]
fn the_docs_have_every_rule() {
    let docs = include_str!("../../docs/diagnose.md");
    let (_, section) = docs.split_once("\n## Rules\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|l| l.strip_prefix("| `"));
    let rows: Vec<&str> = rows.map(|l| l.split('`').next().unwrap()).collect();
    let rules: Vec<&str> = RULES.iter().map(|r| r.name).collect();
    assert_eq!(rows, rules);
    let number = format!("applies {} [rules]", rules.len());
    assert!(docs.contains(&number), "{number}");
    let plants = format!("| {} plants for {} rules,", PLANTS.len(), rules.len());
    assert!(docs.contains(&plants), "{plants}");
}

#[test]
fn a_planted_cause_is_named_alone() {
    let mut wrong = Vec::new();
    for plant in PLANTS {
        for seed in SEEDS {
            let facts = facts(&plant.load(seed), &[plant.cause]);
            let diagnosis = diagnose(&facts);
            let names = named(&diagnosis);
            if names != [plant.rule] {
                let said = diagnosis.ruled_out.iter().chain(&diagnosis.not_judged);
                let why = said.filter(|judged| judged.rule == plant.rule);
                let why: Vec<_> = why.collect();
                let commands = facts.commands.seen;
                wrong.push(format!("{} {seed} ({commands}): {names:?} {why:?}", plant.rule));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn without_its_cause_nothing_is_named() {
    let mut wrong = Vec::new();
    for plant in PLANTS {
        for seed in SEEDS {
            let load = plant.load(seed);
            let diagnosis = diagnose(&facts(&load, &[]));
            let names = named(&diagnosis);
            if diagnosis.outcome != Outcome::Nothing || !names.is_empty() {
                wrong.push(format!("{} {seed}: {:#?}", plant.rule, diagnosis.causes));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Commands that find no room in memory change no verdict, with two exceptions. Of `few-queues` they hide
/// the other commands of the queue: it is then silent. Of `tag-wait` they hide how full the queues are, if
/// its waits were counted with all others: `request-wait` then names the wait.
#[test]
fn thinning_changes_no_verdict() {
    let mut wrong = Vec::new();
    for plant in PLANTS.iter().filter(|p| p.rule != "few-queues") {
        let load = plant.load(1);
        for causes in [&[plant.cause][..], &[]] {
            let run = load.run(causes);
            // twice and more
            let room = run.events.len() / 3;
            let facts = run.collect(Collector::at_most(room), Accuracy::Exact);
            assert!(facts.commands.kept.len() <= room.max(256));
            let names = named(&diagnose(&facts));
            let rule = match plant.cause {
                Cause::TagWait => "request-wait",
                _ => plant.rule,
            };
            let wanted: Vec<&str> = causes.iter().map(|_| rule).collect();
            if names != wanted {
                wrong.push(format!("{causes:?}: {names:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each pair of rule and subject has exactly one answer.
#[test]
fn each_rule_has_one_answer_for_each_subject() {
    for plant in PLANTS {
        for causes in [&[plant.cause][..], &[]] {
            let facts = facts(&plant.load(1), causes);
            let diagnosis = diagnose(&facts);
            let Diagnosis { causes, notes, ruled_out, not_judged, not_looked_at, .. } = &diagnosis;
            let found = causes.iter().chain(notes).map(|c| c.finding.rule);
            let lists = [ruled_out, not_judged, not_looked_at].into_iter().flatten();
            let mut all: Vec<&str> = found.chain(lists.map(|j| j.rule)).collect();
            all.sort_unstable();
            // one controller with one disk
            let mut wanted: Vec<&str> = RULES.iter().map(|r| r.name).collect();
            wanted.sort_unstable();
            assert_eq!(all, wanted, "{}", plant.rule);
        }
    }
}

/// Two causes at a time, a load that shows both, and their rules.
type Pair = ([Cause; 2], fn(&mut Load), [&'static str; 2]);

const PAIRS: &[Pair] = &[
    (
        [Cause::HeldByDevice, Cause::RequestWait],
        |load| load.place.has_waits = false,
        ["held-by-device", "request-wait"],
    ),
    ([Cause::LostInterrupt, Cause::NotPolling], |_| {}, ["lost-interrupt", "not-polling"]),
    ([Cause::Errors, Cause::Scheduler], |_| {}, ["errors-timeout", "scheduler"]),
    ([Cause::PathFailover, Cause::Errors], |_| {}, ["path-failover", "errors-timeout"]),
    (
        [Cause::Scheduler, Cause::RequestWait],
        |load| load.place.has_waits = false,
        ["request-wait", "scheduler"],
    ),
    ([Cause::Throttle, Cause::Wbt], |_| {}, ["cgroup-throttle", "wbt"]),
    ([Cause::IoCost, Cause::FewTags], |_| {}, ["io-cost", "tag-wait"]),
    ([Cause::Freeze, Cause::Errors], |_| {}, ["queue-freeze", "errors-timeout"]),
    ([Cause::Throttle, Cause::NotPolling], |_| {}, ["cgroup-throttle", "not-polling"]),
    ([Cause::Split, Cause::Bounce], |load| load.sizes = &[131_072], ["split", "bounce"]),
    (
        [Cause::IdleWake, Cause::Unaligned],
        |load| (load.depth, load.unaligned) = (1, 0.3),
        ["idle-vcpu-wake", "unaligned"],
    ),
    (
        [Cause::Softirq, Cause::RemoteCompletion],
        |load| (load.softirq, load.remote) = (0.3, 0.5),
        ["softirq", "remote-completion"],
    ),
    (
        [Cause::FlushCost, Cause::NotPolling],
        |load| load.flushes = 0.05,
        ["not-polling", "flush-cost"],
    ),
    // a cause without a measured share hid the others
    (
        [Cause::Device, Cause::NotPolling],
        |load| load.expectation = Expectation::Median(300_000),
        ["device", "not-polling"],
    ),
    ([Cause::LoggedCap, Cause::Split], |load| load.sizes = &[131_072], ["rate-cap", "split"]),
    ([Cause::Thermal, Cause::Split], |load| load.sizes = &[131_072], ["thermal", "split"]),
    ([Cause::LoggedCap, Cause::SomeSteal], |_| {}, ["rate-cap", "vcpu-stolen"]),
    (
        [Cause::Device, Cause::OneError],
        |load| load.expectation = Expectation::Median(300_000),
        ["device", "errors-timeout"],
    ),
    (
        [Cause::FlushCost, Cause::Device],
        |load| (load.flushes, load.expectation) = (0.05, Expectation::Median(300_000)),
        ["flush-cost", "device"],
    ),
    (
        [Cause::VcpuStolen, Cause::Errors],
        |load| load.stages[DEVICE] = 1e6,
        ["errors-timeout", "vcpu-stolen"],
    ),
];

#[test]
fn two_causes_are_both_named() {
    let mut wrong = Vec::new();
    for (causes, adapt, rules) in PAIRS {
        let mut load = Load::default();
        adapt(&mut load);
        let mut names = found(&load, causes);
        let mut wanted = *rules;
        // the order follows what each explains
        names.sort_unstable();
        wanted.sort_unstable();
        if names != wanted {
            wrong.push(format!("{causes:?}: {names:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
