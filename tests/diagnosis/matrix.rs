// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each plant against each rule.

use std::collections::BTreeSet;

use nvme_deep::diagnose::{Collector, Expectation, Outcome, RULES, Rule, diagnose};
use nvme_deep::model::ledger::Accuracy;

use super::causes::Cause;
use super::draft::DEVICE;
use super::load::Load;
use super::plants::{PLANTS, facts, found, named};
use crate::binary::docs_have;

/// Runs of each plant, and of each control.
const SEEDS: std::ops::Range<u64> = 1..3;

#[test]
fn every_rule_has_a_plant() {
    let rules: BTreeSet<&str> = RULES.iter().map(|r| r.id).collect();
    let planted: BTreeSet<&str> = PLANTS.iter().map(|p| p.rule).collect();
    assert_eq!(rules, planted);
}

/// A row of the table of the rules.
fn row(rule: &Rule) -> String {
    let mut fix = rule.advice.to_owned();
    for name in rule.advice.split('{').skip(1).filter_map(|text| text.split('}').next()) {
        fix = fix.replace(&format!("{{{name}}}"), &name.to_uppercase());
    }
    let row = [format!("`{}`", rule.id), rule.found.into(), fix, rule.risk.into()];
    format!("| {} |\n", row.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// docs/diagnose.md has the rows of the rules.
#[test]
fn the_docs_have_every_rule() {
    let rows: String = RULES.iter().map(|rule| row(rule)).collect();
    let table = format!("| rule | found if | fix | risk |\n|---|---|---|---|\n{rows}");
    docs_have("diagnose.md", "<!-- the rules write this table: NVME_DEEP_BLESS=1 -->\n", &table);
    let docs = include_str!("../../docs/diagnose.md");
    let number = format!("applies {} [rules]", RULES.len());
    assert!(docs.contains(&number), "{number}");
    let plants = format!("| {} plants for {} rules,", PLANTS.len(), RULES.len());
    assert!(include_str!("../../docs/dev/diagnose.md").contains(&plants), "{plants}");
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
                let said = diagnosis.verdicts.iter().filter(|v| v.rule == plant.rule);
                let why: Vec<_> = said.map(|v| (v.status, &v.text)).collect();
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
                wrong.push(format!("{} {seed}: {names:?}", plant.rule));
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
            let mut collector = Collector::default();
            collector.facts.commands.room = Some(room);
            let facts = run.collect(collector, Accuracy::Exact);
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
            let mut all: Vec<&str> = diagnosis.verdicts.iter().map(|v| v.rule).collect();
            all.sort_unstable();
            // one controller with one disk
            let mut wanted: Vec<&str> = RULES.iter().map(|r| r.id).collect();
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
