// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits before the request (--stages=full), and in the scheduler. Where bios were not observed, all waits
//! between a bio and its request are counted together.

use super::incidents::shows_resets;
use super::{Case, FULL, Rule, not_observed};
use crate::diagnose::affected::{first_of, times_text};
use crate::diagnose::command::Command;
use crate::diagnose::facts::{Facts, Stages};
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Share, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::model::activity::TagWaits;
use crate::model::machine::IoLimit;
use crate::model::report::cgroup_path::in_shell;
use crate::model::stage::StageSet;
use crate::model::text::word;
use crate::units::percent;
use std::collections::{BTreeMap, BTreeSet};

const WBT_RISK: &str = "without writeback throttling, reads wait behind long queues of writes";
/// The waits have this share of the time.
pub const LARGE: f64 = 0.3;
/// Frozen queues have this share. No load needs them.
const FROZEN: f64 = 0.1;
/// Waits are judged if the bios of this part of the reads and writes were observed, or of none.
const SEEN: f64 = 0.8;
/// The number in flight on a queue is near a limit from this part of it.
const NEAR: f64 = 0.9;

/// What these rules have in common.
const RULE: Rule = Rule { scope: Scope::Disk, ..super::RULE };

pub const RULES: &[Rule] = &[
    Rule {
        id: "cgroup-throttle",
        check: throttle,
        found: "throttle has 30% of the time",
        text: "Limits of cgroups (io.max) hold bios of {name} back for {share} of the time",
        advice: "raise the limit of {cgroup} (io.max, or blkio.throttle of version 1; systemd: IOReadIOPSMax and the \
                 like of the unit), or take load off it",
        risk: "the limit protects the others that use the disk",
        ..RULE
    },
    Rule {
        id: "queue-freeze",
        check: freeze,
        found: "freeze has 10% of the time",
        text: "Bios of {name} wait while its queue is frozen, for {share} of the time",
        advice: "find what freezes it: writes to scheduler, nr_requests and other files of /sys/block/{name}/queue \
                 (`auditctl -w` or `opensnoop` show by whom), resets of the controller, scans of its namespaces",
        ..RULE
    },
    Rule {
        id: "io-cost",
        check: io_cost,
        found: "iocost has 30% of the time",
        text: "io.cost holds bios of {name} back for {share} of the time",
        advice: "measure the device for io.cost.model (tools/cgroup/iocost_coef_gen.py of the kernel), widen min and \
                 max of io.cost.qos, give {cgroup} more io.weight, or switch it off: `echo \"{number} enable=0\" > {file}`",
        risk: "without io.cost, cgroups do not share the disk by their weights",
        ..RULE
    },
    Rule {
        id: "wbt",
        check: wbt,
        found: "wbt has 30% of the time",
        text: "Writeback throttling (wbt) holds writes to {name} back for {share} of the time",
        advice: "if reads may take longer, raise their target, or switch it off: `echo 0 > \
                 /sys/block/{name}/queue/wbt_lat_usec` (kernel default: echo -1 > the same file)",
        risk: WBT_RISK,
        ..RULE
    },
    Rule {
        id: "tag-wait",
        check: tag_wait,
        found: "tag has 30% of the time. With counted waits: they have 30%, and a queue has 90% of nr_requests in \
                flight for half as many commands as waited. Below a scheduler: the queue stage has 30%, and for half of \
                that time the device's queue is full (90% of its entries)",
        text: "Requests of {name} wait for a free tag for {share} of the time: {limit}",
        advice: "raise /sys/block/{name}/queue/nr_requests above {nr_requests} (at most the depth of the \
                 controller's queues, which nvme.io_queue_depth limits), or submit less at a time",
        risk: "more commands in flight wait longer at a device that is saturated",
        ..RULE
    },
    Rule {
        id: "request-wait",
        check: request_wait,
        found: "zone has 30% of the time, or block has, and bios are not split: io.latency. With counted waits: they \
                have 30%, and not for a tag",
        text: "Bios of {name} wait for {share} of the time before they get a request",
        advice: "this part is not a wait for a limit of a cgroup, io.cost, writeback throttling, a tag or a frozen \
                 queue: look at io.latency of the cgroups, and at writes to zones (queue/zoned)",
        ..RULE
    },
    Rule {
        id: "scheduler",
        check: held_by_scheduler,
        found: "there is a scheduler, the queue stage has most of the time, and the device's queue is not full",
        text: "Requests of {name} wait in the I/O scheduler {scheduler} for {share} of the time",
        advice: "`echo none > /sys/block/{name}/queue/scheduler`",
        risk: "requests are no longer merged, sorted or weighted by the scheduler",
        ..RULE
    },
];

/// A command has waited somewhere if it was there for this long: all of them spend some time in the code.
const WAITED_NS: u64 = 20_000;

/// This wait has this share of the time, at least; an error if not, or if that is not known. Shows how many commands
/// waited, how long and when.
fn waited(case: &Case<'_>, verdict: &mut Verdict, wait: Stages, least: f64) -> Result<(), Reason> {
    if !sees_bios(case, SEEN)? {
        // all waits are counted together: if they have less of the time, each has
        return Err(match counted(case, least) {
            Err(reason) if reason.0 != Status::NotObserved => reason,
            _ => unseen(case.facts),
        });
    }
    if !case.commands().any(|c| c.runs().any(|(run, _)| run.meets(wait))) {
        return Err(open(format!("{} is not observed on this kernel", wait.name())));
    }
    if case.share(wait).most <= 0.0 {
        return Err(absent(format!("no command waited in {}", wait.name())));
    }
    let ns = |c: &Command| c.time_bounds(wait).0;
    let waited = || case.commands().filter(|c| ns(c) >= WAITED_NS);
    let count = case.facts.sum(waited(), |_| 1);
    let mean = case.facts.sum(waited(), ns) / count.max(1.0);
    let longest = waited().map(ns).max().unwrap_or(0);
    verdict.impact(count as u64, case.facts.count(case.subject), mean, longest);
    let most = waited().filter(|c| ns(c) * 2 > c.total());
    let times = most.map(|c| (c.at.end_ns.saturating_sub(c.total()), c.at.end_ns));
    verdict.shows("when", times_text(case.facts.clock, times));
    case.large(verdict, wait, least)
}

/// Whether the bios of reads and writes were observed; an error if fewer than this part were.
pub fn sees_bios(case: &Case<'_>, least: f64) -> Result<bool, Reason> {
    // flushes have no bio
    let moves = || case.commands().filter(|c| c.is_read_or_write());
    let seen = case.facts.sum(moves(), |c| c.has_waits().into());
    let part = seen / case.facts.sum(moves(), |_| 1).max(1.0);
    if part > 0.0 && part < least {
        let unseen = percent(1.0 - part);
        return Err(open(format!(
            "the bios of {unseen} of the reads and writes were not observed"
        )));
    }
    Ok(part > 0.0)
}

/// Why a wait is not judged by itself: no bio was observed.
fn unseen(facts: &Facts) -> Reason {
    match facts.stage_set {
        StageSet::Full => open("bios were not observed on this kernel"),
        _ => needs(FULL),
    }
}

/// The counted waits of a disk, and their share of the time, waits included; an error if that is less.
fn counted(case: &Case<'_>, least: f64) -> Result<(TagWaits, f64), Reason> {
    /// Fewest requests that waited.
    const WAITED: u64 = 50;
    let all = case.facts.counted(|a| a.waits.as_ref());
    let all = all.ok_or_else(|| not_observed(case.facts, "waits before the request"))?;
    case.needs_all()?;
    let is_own = |w: &&TagWaits| w.ctrl == case.ctrl() && (w.nsid == case.nsid() || w.nsid == 0);
    let waits = *all.iter().find(is_own).ok_or_else(|| absent("no request waited"))?;
    let total = case.facts.total(case.subject);
    let share = waits.sum_ns as f64 / (waits.sum_ns as f64 + total).max(1.0);
    match share < least || waits.waited < WAITED {
        true => Err(out(format!("waits before the request have {} of the time", percent(share)))),
        false => Ok((waits, share)),
    }
}

/// A file of a cgroup, for advice.
fn cgroup_file(facts: &Facts, cgroup: &str, file: &str) -> String {
    in_shell(facts.machine.as_ref().and_then(|m| m.cgroup_mount.as_ref()), cgroup, file)
}

/// The limits that hold bios back, and how to take the limit away if there is only one that it can be.
fn throttle(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    const SHOWN: usize = 4;
    let disk = case.disk();
    let known = disk.and_then(|disk| disk.limits.as_ref());
    let is_whole = known.is_some_and(|limits| !limits.more);
    let all = known.map_or(&[][..], |limits| limits.cgroups.as_slice());
    if !sees_bios(case, SEEN)? {
        return Err(match is_whole && all.is_empty() {
            true => absent("no cgroup had a limit on it (io.max) at the start"),
            false => unseen(case.facts),
        });
    }
    waited(case, verdict, Stages::THROTTLE, LARGE)?;
    // limits of the other direction hold none of these back
    let waits = |code: u8| {
        let mut own = case.commands().filter(|c| c.code() == code);
        own.any(|c| c.time_bounds(Stages::THROTTLE).0 >= WAITED_NS)
    };
    let (reads, writes) = (waits(2), waits(1));
    let is_likely = |limit: &&IoLimit| {
        (reads && (limit.rbps.is_some() || limit.riops.is_some()))
            || (writes && (limit.wbps.is_some() || limit.wiops.is_some()))
    };
    let likely: Vec<&IoLimit> = all.iter().filter(is_likely).collect();
    for limit in likely.iter().take(SHOWN) {
        let unknown = "a cgroup whose name was not recorded";
        let cgroup = if limit.cgroup.is_empty() { unknown } else { &*limit.cgroup };
        verdict.setting(&format!("io.max of {cgroup}"), Some(limit));
    }
    let more = likely.len().saturating_sub(SHOWN);
    verdict.shows_if("more cgroups with limits", (more > 0).then_some(more));
    if likely.is_empty() && is_whole {
        verdict.setting("io.max at the start", Some("no limit on it"));
    }
    let number = disk.and_then(|disk| disk.number);
    if let ([limit], Some([major, minor]), true) = (likely.as_slice(), number, is_whole) {
        let off = limit.all().into_iter().filter(|(_, limit)| limit.is_some());
        let off: Vec<String> = off.map(|(name, _)| format!("{name}=max")).collect();
        verdict.advice = format!(
            "raise the limit: `echo \"{major}:{minor} {}\" > {}` takes it away (where systemd sets it, set \
             IOReadIOPSMax and the like of the unit)",
            off.join(" "),
            cgroup_file(case.facts, &limit.cgroup, "io.max")
        );
    }
    Ok(())
}

fn freeze(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    waited(case, verdict, Stages::FREEZE, FROZEN)?;
    shows_resets(case, verdict);
    Ok(())
}

fn wbt(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    waited(case, verdict, Stages::WBT, LARGE)?;
    verdict.setting("queue/wbt_lat_usec", case.disk().and_then(|disk| disk.wbt_lat_us));
    Ok(())
}

fn io_cost(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    waited(case, verdict, Stages::IOCOST, LARGE)?;
    let disk = case.disk();
    let number = disk.and_then(|disk| disk.number);
    let number = number.map_or("MAJOR:MINOR".into(), |[major, minor]| format!("{major}:{minor}"));
    verdict.name("number", number);
    verdict.name("file", cgroup_file(case.facts, "/", "io.cost.qos"));
    verdict.setting("io.cost.qos", disk.and_then(|disk| disk.io_cost.as_ref()));
    Ok(())
}

/// The commands, and how many are in flight on its queue when each begins, this one included. A command begins at
/// the time that `begin` gives.
fn at_each_begin<'f>(
    commands: impl Iterator<Item = &'f Command>,
    begin: fn(&Command) -> u64,
) -> Vec<(&'f Command, u64)> {
    let ends = |c: &'f Command| [(c.at.qid, begin(c), Some(c)), (c.at.qid, c.at.end_ns, None)];
    let mut all: Vec<(u16, u64, Option<&Command>)> = commands.flat_map(ends).collect();
    // an end before a start of the same time
    all.sort_by_key(|(qid, at_ns, begins)| (*qid, *at_ns, begins.is_some()));
    let (mut of, mut now) = (0, 0_u64);
    let begun = all.into_iter().filter_map(|(qid, _, begins)| {
        now = if qid == of { now } else { 0 };
        of = qid;
        now = if begins.is_some() { now + 1 } else { now.saturating_sub(1) };
        Some((begins?, now))
    });
    begun.collect()
}

/// How often the commands of a subject on a queue were near a limit, and most in flight on a queue.
fn filling(facts: &Facts, subject: Subject, limit: u32) -> (u64, u64) {
    let all = at_each_begin(facts.of(subject), |c| c.at.begin_ns);
    let full = all.iter().filter(|(_, now)| *now >= near(limit)).count();
    (full as u64, all.iter().map(|(_, now)| *now).max().unwrap_or(0))
}

fn near(limit: u32) -> u64 {
    (f64::from(limit) * NEAR).ceil() as u64
}

/// The scheduler of a disk, if it has one.
fn scheduler<'f>(case: &Case<'f>) -> Option<&'f str> {
    let scheduler = case.disk()?.scheduler.as_ref()?;
    Some(scheduler.as_str()).filter(|name| *name != "none")
}

/// The commands that share the tags of a disk: without a scheduler, the commands of all disks of the controller.
fn sharing(case: &Case<'_>) -> Subject {
    scheduler(case).map_or(Subject::Controller(case.ctrl()), |_| case.subject)
}

/// Counted waits are for a tag if queues were full for half as many commands as waited.
fn counted_wait(case: &Case<'_>, verdict: &mut Verdict, is_for_tag: bool) -> Result<(), Reason> {
    let (waits, share) = counted(case, LARGE)?;
    verdict.explains(share);
    let mean = waits.sum_ns as f64 / waits.waited.max(1) as f64;
    verdict.impact(waits.waited, waits.requests, mean, waits.max_ns);
    let limit = case.disk().and_then(|disk| disk.nr_requests);
    let limit = limit.filter(|_| !case.facts.is_thinned(case.ctrl()));
    let (full, most) = limit.map_or((0, 0), |limit| filling(case.facts, sharing(case), limit));
    let is_full = full as f64 >= 0.5 * waits.waited as f64;
    if !is_for_tag {
        if limit.is_some() && is_full {
            return Err(out("they wait for a tag: tag-wait"));
        }
        verdict.risk = Some(WBT_RISK);
        verdict.advice = "compare with /sys/block/{name}/queue/wbt_lat_usec (0 switches writeback throttling off), \
                          io.cost.qos and io.latency of the cgroups; what freezes the queue (a change of its settings) \
                          holds all bios"
            .into();
        return Ok(());
    }
    let unknown = "requests wait; whether for a tag needs nr_requests and every command in memory";
    let limit = limit.ok_or_else(|| open(unknown))?;
    if !is_full {
        let text =
            format!("requests wait, but at most {most} of {limit} were in flight on a queue");
        return Err(out(text));
    }
    verdict.setting("queue/nr_requests", Some(limit));
    verdict.shows("most in flight on a queue", most);
    few_tags(verdict, limit);
    Ok(())
}

/// nr_requests is the limit.
fn few_tags(verdict: &mut Verdict, limit: u32) {
    verdict.name("nr_requests", limit);
    verdict.name("limit", format!("nr_requests={limit} is too small for the load"));
}

/// Names the limit that a measured wait for tags is due to.
fn which_limit(case: &Case<'_>, verdict: &mut Verdict) {
    let (facts, disk, ctrl) = (case.facts, case.disk(), case.ctrl());
    let limit = disk.and_then(|disk| disk.nr_requests);
    verdict.setting("queue/nr_requests", limit);
    let is_known = facts.lacks(case.subject).is_none() && !facts.is_thinned(ctrl);
    let Some(limit) = limit.filter(|_| is_known) else {
        verdict.name("limit", "which limit applies is not known");
        verdict.name("nr_requests", "its value");
        return;
    };
    let (_, most) = filling(facts, sharing(case), limit);
    verdict.shows("most in flight on a queue", most);
    if most >= near(limit) {
        few_tags(verdict, limit);
        return;
    }
    verdict.setting("queue/scheduler", disk.and_then(|d| d.scheduler.as_ref()));
    let of_reads = case.commands().filter(|c| c.code() == 2);
    let waited = |c: &Command| c.time_bounds(Stages::TAG).0;
    let by_reads = facts.sum(of_reads, waited) / facts.sum(case.commands(), waited).max(1.0);
    let depth = disk.and_then(|d| d.async_depth).filter(|depth| *depth < limit && by_reads < 0.2);
    // namespaces with commands at the time have equal shares of a tag set, of 4 at least
    let classes = facts.classes.of_subject(Subject::Controller(ctrl));
    let mut others: BTreeSet<u32> = classes.map(|c| c.class.nsid).collect();
    others.remove(&case.nsid());
    let share = limit.div_ceil(others.len() as u32 + 1).max(4);
    let (_, own) = filling(facts, case.subject, share);
    let is_share = !others.is_empty() && (near(share)..=u64::from(share) + 1).contains(&own);
    match (scheduler(case), depth) {
        (Some(scheduler), Some(depth)) => {
            verdict.setting("async_depth", Some(depth));
            let scheduler = word(scheduler);
            let limit_text =
                format!("async_depth={depth} of {scheduler} is too small for the load");
            verdict.name("limit", limit_text);
            verdict.advice = format!(
                "raise /sys/block/{{name}}/queue/iosched/async_depth (newer kernels: queue/async_depth) above {depth} (at \
                 most nr_requests={limit}), or use the scheduler none: not nr_requests: at most {most} were in use"
            );
        }
        (None, _) if is_share => {
            let others = first_of(others.iter().map(|nsid| facts.disk_name(ctrl, *nsid)));
            verdict.shows("most of its own in flight on a queue", own);
            let tags = format!("its share of the {limit} tags of a queue is {share}");
            verdict.name("limit", format!("{tags}, next to {others}"));
            verdict.advice = format!(
                "each namespace in use has an equal share of the tags: take load off {others}, submit less at a time, or \
                 give the controller more or deeper queues (nvme.io_queue_depth)"
            );
        }
        _ => {
            let text = format!("another limit than nr_requests={limit} holds them, with at most");
            verdict.name("limit", format!("{text} {most} in flight on a queue"));
            verdict.advice = "look at the limits of the scheduler (/sys/block/{name}/queue/iosched/), at other \
                              namespaces of the controller, which share its tags, and at the depth of its queues; raising \
                              nr_requests will not help"
                .into();
        }
    }
}

/// How full the queues below a scheduler were when its requests left it: full for half of the time that
/// they waited, most in flight, and entries of a queue. `share`: of the time, which they have waited.
fn below_scheduler(case: &Case<'_>, share: Share) -> Result<(bool, u64, u32), Reason> {
    let (facts, ctrl) = (case.facts, case.ctrl());
    let unknown = |why: &str| {
        let have = Stages::QUEUE.have(share);
        open(format!("{have}; whether requests wait there for the device: {why}"))
    };
    if let Some(why) = facts.lacks(case.subject) {
        return Err(unknown(&why));
    }
    let depth = case.controller().and_then(|c| c.depth);
    let depth =
        depth.ok_or_else(|| unknown("the depth of the controller's queues is not known"))?;
    // a submission queue with all entries in use could not be told from an empty one
    let limit = depth.saturating_sub(1).max(1);
    let set_up = |c: &Command| if c.setup_ns == 0 { c.at.begin_ns } else { c.setup_ns };
    if facts.is_thinned(ctrl) {
        // the mean number in flight, in each slice of time
        let mut sums: BTreeMap<(u16, usize), u64> = BTreeMap::new();
        for c in facts.of(Subject::Controller(ctrl)) {
            let sum = sums.entry((c.at.qid, facts.slices.slice(c.at.end_ns))).or_default();
            *sum += c.at.end_ns.saturating_sub(set_up(c)) * facts.commands.weight(c);
        }
        let most = sums.into_values().max().unwrap_or(0) as f64 / facts.slices.width_ns as f64;
        return match most < 0.5 * near(limit) as f64 {
            true => Ok((false, most as u64, limit)),
            false => Err(unknown("needs every command in memory: a shorter run")),
        };
    }
    let (mut all, mut full, mut most) = (0, 0, 0);
    for (command, now) in at_each_begin(facts.of(Subject::Controller(ctrl)), set_up) {
        most = most.max(now);
        if command.class.nsid == case.nsid() {
            let waited = command.time_bounds(Stages::QUEUE).1;
            all += waited;
            full += waited * u64::from(now >= near(limit));
        }
    }
    Ok((full as f64 >= 0.5 * all as f64 && full > 0, most, limit))
}

fn tag_wait(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    // below a scheduler, requests have its tags, and wait in it for the device's
    let share = case.share(Stages::QUEUE);
    let waits_for_tag = case.share(Stages::TAG).reaches(LARGE) == Some(true);
    if scheduler(case).is_some() && share.reaches(LARGE) == Some(true) && !waits_for_tag {
        let (is_full, most, limit) = below_scheduler(case, share)?;
        if is_full {
            verdict.has_share(share, Stages::QUEUE);
            verdict.setting("queue/scheduler", scheduler(case));
            verdict.shows("most in flight on a queue", most);
            verdict.text = format!(
                "Requests of {{name}} wait for the device's full queue for {{share}} of the time: it has room for {limit} \
                 commands"
            );
            verdict.advice = "submit less at a time, or give the controller more or deeper queues (nvme.io_queue_depth, \
                              if the controller allows more); another scheduler changes only which request waits"
                .into();
            return Ok(());
        }
    }
    if !sees_bios(case, SEEN)? {
        return counted_wait(case, verdict, true);
    }
    waited(case, verdict, Stages::TAG, LARGE)?;
    which_limit(case, verdict);
    Ok(())
}

fn held_by_scheduler(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let known = case.disk().and_then(|disk| disk.scheduler.as_ref());
    known.ok_or_else(|| open("the scheduler of this disk is not known"))?;
    let name = scheduler(case).ok_or_else(|| absent("it has no scheduler"))?;
    case.large(verdict, Stages::QUEUE, MOST)?;
    let share = case.share(Stages::QUEUE);
    let (is_full, most, limit) = below_scheduler(case, share)?;
    if is_full {
        let have = Stages::QUEUE.have(share);
        return Err(out(format!(
            "{have}, but requests wait there for the device's full queue: {most} of {limit} in flight"
        )));
    }
    verdict.name("scheduler", word(name));
    verdict.setting("queue/scheduler", Some(name));
    Ok(())
}

fn request_wait(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if !sees_bios(case, SEEN)? {
        return counted_wait(case, verdict, false);
    }
    if waited(case, verdict, Stages::ZONE, LARGE).is_ok() {
        verdict.advice = "a zone takes one write at a time, and the next ones wait: write to more zones at a time, in \
                          larger writes, or by zone appends"
            .into();
    } else {
        waited(case, verdict, Stages::BLOCK, LARGE)?;
        // later parts of a bio that is split wait for the earlier ones
        let few = 0.05 * case.facts.count(case.subject) as f64;
        if case.splits().is_some_and(|n| n as f64 > few) {
            let have = Stages::BLOCK.have(case.share(Stages::BLOCK));
            return Err(open(format!(
                "{have}: bios are split, and the later parts of each wait for the earlier ones"
            )));
        }
    }
    verdict.setting("queue/zoned", case.disk().and_then(|disk| disk.zoned.as_ref()));
    Ok(())
}
