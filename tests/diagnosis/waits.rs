// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules about waits before the request say: which cgroup, which limit, and what to do.

use nvme_deep::diagnose::{
    ClassFacts, Collector, Diagnosis, Expectation, Status, Subject, Verdict, diagnose,
};
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::{IoLimit, IoLimits};
use nvme_deep::model::stage::StageSet;

use super::causes::Cause;
use super::draft::{DEVICE, THROTTLE};
use super::lengthen;
use super::load::{Load, Run};
use super::plants::{judged, named, said};

/// The rules that need measured waits.
const MEASURED: [&str; 4] = ["cgroup-throttle", "queue-freeze", "io-cost", "wbt"];

fn limit(cgroup: &str, riops: Option<u64>, wbps: Option<u64>) -> IoLimit {
    IoLimit { cgroup: cgroup.into(), riops, wbps, ..IoLimit::default() }
}

/// A throttled run with these limits, on the disk 259:0.
fn throttled(cgroups: Vec<IoLimit>) -> Verdict {
    let more = false;
    limited(Some(IoLimits { cgroups, more }))
}

fn limited(limits: Option<IoLimits>) -> Verdict {
    let mut run = Load::default().run(&[Cause::Throttle]);
    let disk = &mut run.machine.controllers[0].disks[0];
    disk.number = Some([259, 0]);
    disk.limits = limits;
    let found = judged(run);
    assert_eq!(named(&found), ["cgroup-throttle"]);
    said(&found, "cgroup-throttle").clone()
}

fn has(named: &Verdict, name: &str, value: &str) -> bool {
    let mut all = named.evidence.iter();
    all.any(|e| e.name == name && e.value == value)
}

/// What a rule says where it names no cause, and whether what it looks for was not there.
fn why<'d>(diagnosis: &'d Diagnosis, rule: &str) -> (&'d str, bool) {
    let verdict = said(diagnosis, rule);
    assert!(!matches!(verdict.status, Status::Found | Status::Noted), "{verdict:?}");
    (&verdict.text, verdict.status == Status::NotPresent)
}

#[test]
fn the_only_limit_is_named_with_the_command_that_takes_it_away() {
    let found = throttled(vec![limit("/web.slice", Some(60), None)]);
    assert!(has(&found, "setting", "io.max of /web.slice = riops=60"), "{found:?}");
    let advice = &found.advice;
    let command = "`echo \"259:0 riops=max\" > /sys/fs/cgroup/web.slice/io.max`";
    assert!(advice.contains(command), "{advice}");
}

#[test]
fn of_several_limits_each_is_named_and_none_is_taken_away() {
    let names = ["/a", "/b", "/c", "/d", "/e"];
    let found = throttled(names.map(|name| limit(name, Some(60), None)).to_vec());
    assert!(has(&found, "setting", "io.max of /d = riops=60"));
    assert!(has(&found, "more cgroups with limits", "1"), "{found:?}");
    assert!(!found.advice.contains("echo"));
}

/// There may be others that were not read: none is said to be the only one, or to be absent.
#[test]
fn limits_that_are_not_all_are_not_taken_away() {
    let one = vec![limit("/web.slice", Some(60), None)];
    for (limits, is_known) in [
        (None, false),
        (Some((vec![], true)), false),
        (Some((vec![], false)), true),
        (Some((one, true)), false),
    ] {
        let limits = limits.map(|(cgroups, more)| IoLimits { cgroups, more });
        let found = limited(limits);
        assert!(!found.advice.contains("echo"), "{found:?}");
        let says_none = has(&found, "setting", "io.max at the start = no limit on it");
        assert_eq!(says_none, is_known, "{found:?}");
    }
}

/// Reads wait: a limit on writes holds none of them.
#[test]
fn a_limit_of_the_other_direction_is_not_named() {
    let load = Load { writes: 0.0, ..Load::default() };
    let mut run = load.run(&[Cause::Throttle]);
    let disk = &mut run.machine.controllers[0].disks[0];
    disk.limits = Some(IoLimits {
        cgroups: vec![limit("/w", None, Some(1)), limit("/r", Some(60), None)],
        more: false,
    });
    let found = judged(run);
    let found = said(&found, "cgroup-throttle");
    assert!(has(found, "setting", "io.max of /r = riops=60"));
    let mut all = found.evidence.iter();
    assert!(!all.any(|e| e.value.contains("/w ")), "{found:?}");
}

#[test]
fn names_of_cgroups_reach_no_shell_and_no_terminal() {
    let found = throttled(vec![limit("/$(reboot) x", Some(60), None)]);
    let advice = &found.advice;
    assert!(advice.contains("> '/sys/fs/cgroup/$(reboot) x/io.max'`"), "{advice}");
    for name in ["/it's", "/\u{1b}[2J", "/a/../../../etc", "/x`reboot`", ""] {
        let found = throttled(vec![limit(name, Some(60), None)]);
        let advice = &found.advice;
        assert!(advice.contains("> /sys/fs/cgroup/CGROUP/io.max`"), "{advice}");
        let mut texts = found.evidence.iter().map(|e| &e.name);
        assert!(texts.all(|text| !text.contains('\u{1b}')));
    }
}

/// Half of the time waits in blk-throttle: the limit sets the rate, not the device.
#[test]
fn a_limit_of_a_cgroup_is_no_limit_of_the_device() {
    let mut load = Load {
        jobs: 4,
        depth: 8,
        pause_ns: 1e3,
        seconds: 4.0,
        alternates: Some(0.5),
        ..Load::default()
    };
    load.stages[DEVICE] = 1e6;
    let mut run = load.run(&[Cause::RateCap]);
    lengthen::wait(&mut run, THROTTLE, |_| 4_000_000);
    let found = judged(run);
    assert!(named(&found).contains(&"cgroup-throttle"));
    assert!(!named(&found).contains(&"rate-cap"), "{:?}", named(&found));
}

/// blk-throttle looks at each bio, which takes a few microseconds.
#[test]
fn a_bio_that_passes_at_once_has_not_waited() {
    let mut run = Load::default().run(&[]);
    let mut number = 0;
    lengthen::wait(&mut run, THROTTLE, |_| {
        number += 1;
        if number % 2 == 0 { 4_000_000 } else { 19_000 }
    });
    let found = judged(run);
    let verdict = said(&found, "cgroup-throttle");
    let impact = format!("{} of {number} commands waited; mean 4.00ms, longest 4.00ms", number / 2);
    assert!(has(verdict, "impact", &impact), "{verdict:?}");
}

fn unseen(causes: &[Cause]) -> Run {
    Load::default().without_bios().run(causes)
}

fn judged_with(stages: StageSet, run: Run) -> Diagnosis {
    let mut collector = Collector::default();
    collector.facts.stage_set = stages;
    diagnose(&run.collect(collector, Accuracy::Exact))
}

#[test]
fn without_bios_little_counted_time_rules_waits_out() {
    let found = judged_with(StageSet::Fine, unseen(&[]));
    for rule in &MEASURED[1..] {
        let (why, _) = why(&found, rule);
        assert!(why.contains("waits before the request have"), "{rule}: {why}");
    }
    let (text, _) = why(&found, "cgroup-throttle");
    assert_eq!(text, "record --stages=full");
}

#[test]
fn without_bios_much_counted_time_is_not_told_apart() {
    let found = judged_with(StageSet::Fine, unseen(&[Cause::RequestWait]));
    assert_eq!(named(&found), ["request-wait"]);
    for rule in &MEASURED[1..] {
        assert_eq!(why(&found, rule).0, "record --stages=full", "{rule}");
    }
    let found = judged_with(StageSet::Full, unseen(&[Cause::RequestWait]));
    for rule in MEASURED {
        let (text, _) = why(&found, rule);
        assert!(text.contains("were not observed on this kernel"), "{text}");
    }
}

/// A fifth of the time: little for the others, much for a frozen queue.
#[test]
fn without_bios_counted_time_is_compared_with_the_threshold_of_each_rule() {
    let mut run = unseen(&[Cause::RequestWait]);
    for waits in run.activity.waits.iter_mut().flatten() {
        waits.sum_ns /= 12;
    }
    let found = judged_with(StageSet::Fine, run);
    assert_eq!(why(&found, "queue-freeze").0, "record --stages=full");
    for rule in ["io-cost", "wbt"] {
        let (why, _) = why(&found, rule);
        assert!(why.contains("waits before the request have 20%"), "{rule}: {why}");
    }
}

#[test]
fn without_bios_no_limit_at_all_is_an_absence() {
    let mut run = unseen(&[]);
    run.machine.controllers[0].disks[0].limits = Some(IoLimits::default());
    let found = judged(run);
    assert!(why(&found, "cgroup-throttle").1);
}

/// The bios of half of the commands were not observed.
#[test]
fn waits_of_half_of_the_commands_are_not_judged() {
    let mut run = unseen(&[]);
    let seen = Load::default().run(&[Cause::Wbt]);
    run.events.truncate(seen.events.len() / 2);
    let half = seen.events.len() / 2;
    run.events.extend(seen.events.into_iter().skip(half));
    let found = judged(run);
    assert!(!named(&found).contains(&"wbt"));
    let (text, _) = why(&found, "wbt");
    assert!(text.contains("reads and writes were not observed"), "{text}");
}

/// Medians with waits are compared with a baseline that has waits, too.
#[test]
fn waits_are_compared_with_waits_only() {
    let slow = |all_ns| {
        let mut facts = Load::default().run(&[Cause::Throttle]).facts(Accuracy::Exact);
        let usual = |c: &ClassFacts| (all_ns, c.begun_p50_ns);
        let medians = facts.classes.all.iter().map(|c| (c.class, usual(c)));
        facts.expectation = Expectation::Baseline(medians.collect());
        facts.slow(Subject::Machine).len()
    };
    assert_eq!(slow(None), 0);
    assert!(slow(Some(130_000)) > 0);
}
