// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits before the request (--stages=full), and in the scheduler. Where bios were not observed, all waits
//! between a bio and its request are counted together.

use std::collections::{BTreeMap, BTreeSet};

use super::incidents::shows_resets;
use super::{FULL, RULE, WAIT, not_observed};
use crate::diagnose::affected::{first_of, times_text};
use crate::diagnose::command::Command;
use crate::diagnose::facts::{Facts, Stages};
use crate::diagnose::rule::{Case, Kind, Rule, Wait};
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Share, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::model::activity::TagWaits;
use crate::model::machine::IoLimit;
use crate::model::report::cgroup_path::in_shell;
use crate::model::stage::StageSet;
use crate::model::text::word;
use crate::units::{nanos, percent, rate, size_text};

/// The waits have this share of the time.
pub const LARGE: f64 = 0.3;
/// Frozen queues have this share. No load needs them.
const FROZEN: f64 = 0.1;
/// The number in flight on a queue is near a limit from this part of it.
const NEAR: f64 = 0.9;

pub const RULES: &[Rule] = &[
    Rule {
        id: "cgroup-throttle",
        noun: "io.max",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::THROTTLE,
            what: "a limit of a cgroup",
            unseen: no_limits,
            then: limits,
            ..WAIT
        }),
        found: "throttle has 30% of the time",
        text: "Limits of cgroups (io.max) hold bios of {name} back for {share} of the time",
        advice: "raise the limit of {cgroup} (io.max, or blkio.throttle of version 1; systemd: IOReadIOPSMax and the \
                 like of the unit), or take load off it",
        risk: "the limit protects the others that use the disk",
        ..RULE
    },
    Rule {
        id: "queue-freeze",
        noun: "frozen queues",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::FREEZE,
            least: FROZEN,
            what: "a frozen queue",
            unseen: |case, _| Err(unseen_wait(case, FROZEN)),
            then: |case, verdict| {
                shows_resets(case, verdict);
                Ok(())
            },
            ..WAIT
        }),
        found: "freeze has 10% of the time",
        text: "Bios of {name} wait while its queue is frozen, for {share} of the time",
        advice: "find what freezes it: writes to scheduler, nr_requests and other files of /sys/block/{name}/queue \
                 (`auditctl -w` or `opensnoop` show by whom), resets of the controller, scans of its namespaces. Each \
                 waits until all commands are done",
        ..RULE
    },
    Rule {
        id: "io-cost",
        noun: "io.cost",
        scope: Scope::Disk,
        kind: Kind::Large(Wait { stages: Stages::IOCOST, what: "io.cost", then: io_cost, ..WAIT }),
        found: "iocost has 30% of the time",
        text: "io.cost holds bios of {name} back for {share} of the time",
        advice: "measure the device for io.cost.model (tools/cgroup/iocost_coef_gen.py of the kernel), widen min and \
                 max of io.cost.qos, give {cgroup} more io.weight, or switch it off: `echo \"{number} enable=0\" > {file}`",
        risk: "without io.cost, cgroups do not share the disk by their weights",
        ..RULE
    },
    Rule {
        id: "wbt",
        noun: "writeback throttling",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::WBT,
            what: "writeback throttling",
            then: |case, verdict| {
                verdict.setting("queue/wbt_lat_usec", case.disk().and_then(|disk| disk.wbt_lat_us));
                Ok(())
            },
            ..WAIT
        }),
        found: "wbt has 30% of the time",
        text: "Writeback throttling (wbt) holds writes to {name} back for {share} of the time",
        advice: "if reads may take longer, raise their target, or switch it off: `echo 0 > \
                 /sys/block/{name}/queue/wbt_lat_usec` (kernel default: echo -1 > the same file)",
        risk: "without writeback throttling, reads wait behind long queues of writes",
        ..RULE
    },
    Rule {
        id: "tag-wait",
        noun: "the wait for tags",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::TAG,
            what: "a tag",
            premise: full_device,
            unseen: |case, verdict| counted_wait(case, verdict, true),
            then: which_limit,
            ..WAIT
        }),
        found: "tag has 30% of the time. With counted waits: they have 30%, and a queue has 90% of nr_requests in \
                flight for half as many commands as waited. Below a scheduler: the queue stage has 30%, and for half of \
                that time the device's queue is full (90% of its entries)",
        text: "Requests of {name} wait for a free tag for {share} of the time: {limit}",
        advice: "raise /sys/block/{name}/queue/nr_requests above {nr_requests} (at most the queue depth of the \
                 controller; the driver's maximum is nvme.io_queue_depth), or submit less at a time",
        risk: "more commands in flight wait longer at a device that is saturated",
        ..RULE
    },
    Rule {
        id: "request-wait",
        noun: "waits before the request",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::BLOCK,
            what: "other reasons",
            premise: zone,
            unseen: |case, verdict| counted_wait(case, verdict, false),
            then: not_split,
            ..WAIT
        }),
        found: "zone has 30% of the time, or block has, and bios are not split: io.latency. With counted waits: they \
                have 30%, and not for a tag",
        text: "Bios of {name} wait for {share} of the time before they get a request",
        advice: "this part is not a wait for a limit of a cgroup, io.cost, writeback throttling, a tag or a frozen \
                 queue: look at io.latency of the cgroups, and at writes to zones (queue/zoned)",
        ..RULE
    },
    Rule {
        id: "scheduler",
        noun: "the I/O scheduler",
        scope: Scope::Disk,
        kind: Kind::Large(Wait {
            stages: Stages::QUEUE,
            least: MOST,
            premise: has_scheduler,
            then: holds_requests,
            ..WAIT
        }),
        found: "there is a scheduler, the queue stage has most of the time, and the device's queue is not full",
        text: "Requests of {name} wait in the I/O scheduler {scheduler} for {share} of the time",
        advice: "`echo none > /sys/block/{name}/queue/scheduler`",
        risk: "requests are no longer merged, sorted or weighted by the scheduler",
        ..RULE
    },
];

/// A command has waited somewhere if it was there for this long: all of them spend some time in the code.
const WAITED_NS: u64 = 20_000;

/// Whether the bios of a disk were observed; an error if not those of most reads and writes, or not this
/// wait.
pub fn observed_waits(case: &Case<'_>, wait: &Wait) -> Result<bool, Reason> {
    if seen_bios(case, 0.8)? <= 0.0 {
        return Ok(false);
    }
    match case.commands().any(|c| c.runs().any(|(run, _)| run.meets(wait.stages))) {
        true => Ok(true),
        false => Err(open(format!("waits for {} are not observed on this kernel", wait.what))),
    }
}

/// The part of the reads and writes whose bios were observed; an error if it is neither 0 nor at least this.
pub fn seen_bios(case: &Case<'_>, least: f64) -> Result<f64, Reason> {
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
    Ok(part)
}

impl Verdict {
    /// How many commands waited, how long and when, and whose commands waited most.
    pub fn waits(&mut self, case: &Case<'_>, stages: Stages) {
        let wait = |c: &Command| c.time_bounds(stages).0;
        let waited = || case.commands().filter(|c| wait(c) >= WAITED_NS);
        let count = case.facts.sum(waited(), |_| 1);
        let mean = case.facts.sum(waited(), wait) / count.max(1.0);
        let longest = waited().map(wait).max().unwrap_or(0);
        self.impact(count as u64, case.facts.count(case.subject), mean, longest);
        let most = waited().filter(|c| wait(c) * 2 > c.total());
        let times = most.map(|c| (c.end_ns.saturating_sub(c.total()), c.end_ns));
        self.shows("when", times_text(case.facts.clock, times));
    }

    /// `2414 of 9334 commands waited; mean 20.3ms, longest 62.9ms`
    pub fn impact(&mut self, waited: u64, all: u64, mean_ns: f64, longest_ns: u64) {
        let (mean, longest) = (nanos(mean_ns), nanos(longest_ns as f64));
        let text = format!("{waited} of {all} commands waited; mean {mean}, longest {longest}");
        self.shows("impact", text);
    }
}

/// Why a wait is not judged by itself: no bio was observed.
fn unseen(facts: &Facts) -> Reason {
    match facts.stage_set {
        StageSet::Full => open("bios were not observed on this kernel"),
        _ => needs(FULL),
    }
}

/// All waits between the bio and its request are counted together: if they have less than `least` of the
/// time, each has.
pub fn unseen_wait(case: &Case<'_>, least: f64) -> Reason {
    match counted(case, least) {
        Err(reason) if reason.0 != Status::NotObserved => reason,
        _ => unseen(case.facts),
    }
}

/// The counted waits of a disk, and their share of the time, waits included; an error if that is less.
fn counted(case: &Case<'_>, least: f64) -> Result<(TagWaits, f64), Reason> {
    /// Fewest requests that waited.
    const WAITED: u64 = 50;
    let Some(all) = case.facts.counted(|a| a.waits.as_ref()) else {
        return Err(not_observed(case.facts, "waits before the request"));
    };
    case.needs_all()?;
    let is_own = |w: &&TagWaits| w.ctrl == case.ctrl() && (w.nsid == case.nsid() || w.nsid == 0);
    let waits = *all.iter().find(is_own).ok_or_else(|| absent("no request waited"))?;
    let total = case.facts.total(case.subject);
    let share = waits.sum_ns as f64 / (waits.sum_ns as f64 + total).max(1.0);
    if share < least || waits.waited < WAITED {
        let text = format!("waits before the request have {} of the time", percent(share));
        return Err(out(text));
    }
    Ok((waits, share))
}

/// A file of a cgroup, for advice.
fn cgroup_file(facts: &Facts, cgroup: &str, file: &str) -> String {
    in_shell(facts.machine.as_ref().and_then(|m| m.cgroup_mount.as_ref()), cgroup, file)
}

fn no_limits(case: &Case<'_>, _: &mut Verdict) -> Result<(), Reason> {
    let limits = case.disk().and_then(|disk| disk.limits.as_ref());
    Err(match limits {
        Some(limits) if limits.cgroups.is_empty() && !limits.more => {
            absent("no cgroup had a limit on it (io.max) at the start")
        }
        _ => unseen(case.facts),
    })
}

/// The limits that hold bios back, and how to take the limit away if there is only one that it can be.
fn limits(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    const SHOWN: usize = 4;
    const CODES: [(&str, u8); 2] = [("reads", 2), ("writes", 1)];
    let disk = case.disk();
    let known = disk.and_then(|disk| disk.limits.as_ref());
    let is_whole = known.is_some_and(|limits| !limits.more);
    let limits_it = |limit: &IoLimit, code: u8| match code {
        2 => limit.rbps.is_some() || limit.riops.is_some(),
        _ => limit.wbps.is_some() || limit.wiops.is_some(),
    };
    let waited = |code: u8| {
        let own = case.commands().filter(move |c| c.code() == code);
        own.filter(|c| c.time_bounds(Stages::THROTTLE).0 >= WAITED_NS)
    };
    for (name, code) in CODES {
        let ends = || waited(code).map(|c| c.end_ns);
        let (first, last) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
        let count = case.facts.sum(waited(code), |_| 1);
        if last > first && count >= 2.0 {
            // n commands end in n - 1 intervals
            let per_second = (count - 1.0) / count / ((last - first) as f64 / 1e9);
            let bytes = case.facts.sum(waited(code), |c| c.bytes.into()) * per_second;
            let rate = format!("{} IOPS, {}/s", rate(count * per_second), size_text(bytes as u64));
            verdict.shows(format!("{name} that waited"), rate);
        }
    }
    // limits of the other direction hold none of these back
    let mut held = CODES.to_vec();
    held.retain(|(_, code)| waited(*code).next().is_some());
    let all = known.map_or(&[][..], |limits| limits.cgroups.as_slice());
    let likely = |limit: &&IoLimit| held.iter().any(|(_, code)| limits_it(limit, *code));
    let likely: Vec<&IoLimit> = all.iter().filter(likely).collect();
    for limit in likely.iter().take(SHOWN) {
        let cgroup = match limit.cgroup.is_empty() {
            true => "a cgroup whose name was not recorded".into(),
            false => limit.cgroup.to_string(),
        };
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

fn io_cost(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let disk = case.disk();
    let number = disk.and_then(|disk| disk.number);
    let number = number.map_or("MAJOR:MINOR".into(), |[major, minor]| format!("{major}:{minor}"));
    verdict.name("number", number);
    verdict.name("file", cgroup_file(case.facts, "/", "io.cost.qos"));
    verdict.setting("io.cost.qos", disk.and_then(|disk| disk.io_cost.as_ref()));
    Ok(())
}

/// How many commands are in flight on each queue when one begins, this one included. A command begins at
/// the time that `begin` gives.
fn at_each_begin<'f>(
    commands: impl Iterator<Item = &'f Command>,
    begin: fn(&Command) -> u64,
    mut take: impl FnMut(&Command, u64),
) {
    let ends = |c: &'f Command| [(c.qid, begin(c), Some(c)), (c.qid, c.end_ns, None)];
    let mut all: Vec<(u16, u64, Option<&Command>)> = commands.flat_map(ends).collect();
    // an end before a start of the same time
    all.sort_by_key(|(qid, at_ns, begins)| (*qid, *at_ns, begins.is_some()));
    for queue in all.chunk_by(|a, b| a.0 == b.0) {
        let mut now = 0_u64;
        for (.., begins) in queue {
            match begins {
                Some(command) => {
                    now += 1;
                    take(command, now);
                }
                None => now = now.saturating_sub(1),
            }
        }
    }
}

/// How often the commands of a subject on a queue were near a limit, and most in flight on a queue.
fn filling(facts: &Facts, subject: Subject, limit: u32) -> (u64, u64) {
    let (mut full, mut most) = (0, 0);
    let take = |_: &Command, now: u64| {
        most = most.max(now);
        full += u64::from(now >= near(limit));
    };
    at_each_begin(facts.of(subject), |c| c.begin_ns, take);
    (full, most)
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
    let limit = case.disk().and_then(|disk| disk.nr_requests);
    let limit = limit.filter(|_| !case.facts.is_thinned(case.ctrl()));
    let (full, most) = limit.map_or((0, 0), |limit| filling(case.facts, sharing(case), limit));
    let is_full = full as f64 >= 0.5 * waits.waited as f64;
    verdict.share = Some(Share::of(share));
    verdict.name("share", percent(share));
    verdict.shows("waits before the request", format!("{} of the time", percent(share)));
    let mean = waits.sum_ns as f64 / waits.waited.max(1) as f64;
    verdict.impact(waits.waited, waits.requests, mean, waits.max_ns);
    match (limit, is_for_tag) {
        (Some(limit), true) if is_full => {
            few_tags(case, verdict, limit);
            verdict.shows("most in flight on a queue", most);
            return Ok(());
        }
        (Some(limit), true) => {
            return Err(out(format!(
                "requests wait, but at most {most} of {limit} were in flight on a queue"
            )));
        }
        (None, true) => {
            return Err(open(
                "requests wait; whether for a tag needs nr_requests and every command in memory",
            ));
        }
        (_, false) if is_full => return Err(out("they wait for a tag: tag-wait")),
        (_, false) => {}
    }
    verdict.risk = Some("without writeback throttling, reads wait behind long queues of writes");
    verdict.advice = "compare with /sys/block/{name}/queue/wbt_lat_usec (0 switches writeback throttling off), \
                      io.cost.qos and io.latency of the cgroups; what freezes the queue (a change of its settings) \
                      holds all bios"
        .into();
    Ok(())
}

/// nr_requests is the limit.
fn few_tags(case: &Case<'_>, verdict: &mut Verdict, limit: u32) {
    verdict.name("nr_requests", limit);
    verdict.name("limit", format!("nr_requests={limit} is too small for the load"));
    verdict.setting("queue/nr_requests", Some(limit));
    if let Some(depth) = case.controller().and_then(|c| c.depth).filter(|depth| limit + 1 >= *depth)
    {
        verdict.advice = format!(
            "submit less at a time, or give the controller deeper queues (nvme.io_queue_depth): nr_requests={limit} is \
             all that its queues of {depth} entries have"
        );
    }
}

/// Names the limit that a measured wait for tags is due to.
fn which_limit(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let (facts, disk) = (case.facts, case.disk());
    let limit = disk.and_then(|disk| disk.nr_requests);
    let is_known = facts.lacks(case.subject).is_none() && !facts.is_thinned(case.ctrl());
    let Some(limit) = limit.filter(|_| is_known) else {
        verdict.setting("queue/nr_requests", limit);
        verdict.name("limit", "which limit applies is not known");
        verdict.name("nr_requests", "its value");
        return Ok(());
    };
    let (_, most) = filling(facts, sharing(case), limit);
    verdict.shows("most in flight on a queue", most);
    if most >= near(limit) {
        few_tags(case, verdict, limit);
        return Ok(());
    }
    verdict.setting("queue/nr_requests", Some(limit));
    verdict.setting("queue/scheduler", disk.and_then(|d| d.scheduler.as_ref()));
    let of_reads = case.commands().filter(|c| c.code() == 2);
    let waited = |c: &Command| c.time_bounds(Stages::TAG).0;
    let by_reads = facts.sum(of_reads, waited) / facts.sum(case.commands(), waited).max(1.0);
    let depth = disk.and_then(|d| d.async_depth).filter(|depth| *depth < limit);
    if let Some((scheduler, depth)) = scheduler(case).zip(depth).filter(|_| by_reads < 0.2) {
        let scheduler = word(scheduler);
        verdict.setting("async_depth", Some(depth));
        verdict
            .name("limit", format!("async_depth={depth} of {scheduler} is too small for the load"));
        verdict.advice = format!(
            "raise /sys/block/{{name}}/queue/iosched/async_depth (newer kernels: queue/async_depth) above {depth} (at most \
             nr_requests={limit}), or use the scheduler none: not nr_requests: at most {most} were in use"
        );
        return Ok(());
    }
    // namespaces with commands at the time have equal shares of a tag set, of 4 at least
    let classes = facts.classes.of_subject(Subject::Controller(case.ctrl()));
    let mut others: BTreeSet<u32> = classes.map(|c| c.class.nsid).collect();
    others.remove(&case.nsid());
    let share = limit.div_ceil(others.len() as u32 + 1).max(4);
    let (_, own) = filling(facts, case.subject, share);
    let is_share = (near(share)..=u64::from(share) + 1).contains(&own);
    if !others.is_empty() && scheduler(case).is_none() && is_share {
        let others = first_of(others.iter().map(|nsid| facts.disk_name(case.ctrl(), *nsid)));
        verdict.shows("most of its own in flight on a queue", own);
        verdict.name(
            "limit",
            format!("its share of the {limit} tags of a queue is {share}, next to {others}"),
        );
        verdict.advice = format!(
            "each namespace in use has an equal share of the tags: take load off {others}, submit less at a time, or \
             give the controller more or deeper queues (nvme.io_queue_depth)"
        );
        return Ok(());
    }
    verdict.name(
        "limit",
        format!("another limit than nr_requests={limit} holds them, with at most {most} in flight on a queue"),
    );
    verdict.advice = "look at the limits of the scheduler (/sys/block/{name}/queue/iosched/), at other namespaces of the \
                      controller, which share its tags, and at the depth of its queues; raising nr_requests will not help"
        .into();
    Ok(())
}

/// How full the queues below a scheduler were when its requests left it: full for half of the time that
/// they waited, most in flight, and entries of a queue. An error: not known, for this reason.
fn below_scheduler(case: &Case<'_>) -> Result<(bool, u64, u32), String> {
    let (facts, ctrl) = (case.facts, case.ctrl());
    facts.lacks(case.subject).map_or(Ok(()), Err)?;
    let depth = case.controller().and_then(|c| c.depth);
    let depth = depth.ok_or("the depth of the controller's queues is not known")?;
    // a submission queue with all entries in use could not be told from an empty one
    let limit = depth.saturating_sub(1).max(1);
    let set_up = |c: &Command| if c.setup_ns == 0 { c.begin_ns } else { c.setup_ns };
    if facts.is_thinned(ctrl) {
        // the mean number in flight, in each slice of time
        let mut sums: BTreeMap<(u16, usize), u64> = BTreeMap::new();
        for c in facts.of(Subject::Controller(ctrl)) {
            let sum = sums.entry((c.qid, facts.slices.slice(c.end_ns))).or_default();
            *sum += c.end_ns.saturating_sub(set_up(c)) * facts.commands.weight(c);
        }
        let most = sums.into_values().max().unwrap_or(0) as f64 / facts.slices.width_ns() as f64;
        return match most < 0.5 * near(limit) as f64 {
            true => Ok((false, most as u64, limit)),
            false => Err("needs every command in memory: a shorter run".into()),
        };
    }
    let (mut all, mut full, mut most) = (0, 0, 0);
    at_each_begin(facts.of(Subject::Controller(ctrl)), set_up, |command, now| {
        most = most.max(now);
        if command.class.nsid == case.nsid() {
            let waited = command.time_bounds(Stages::QUEUE).1;
            all += waited;
            full += waited * u64::from(now >= near(limit));
        }
    });
    Ok((full as f64 >= 0.5 * all as f64 && full > 0, most, limit))
}

/// Below a scheduler, requests have its tags, and wait in it for the device's.
fn full_device(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let share = case.share(Stages::QUEUE);
    let waits_for_tag = case.share(Stages::TAG).reaches(LARGE) == Some(true);
    if scheduler(case).is_none() || share.reaches(LARGE) != Some(true) || waits_for_tag {
        return Ok(());
    }
    let (is_full, most, limit) = below_scheduler(case).map_err(unknown_below(share))?;
    if !is_full {
        return Ok(());
    }
    verdict.has_share(share, Stages::QUEUE);
    verdict.setting("queue/scheduler", scheduler(case));
    verdict.shows("most in flight on a queue", most);
    verdict.shows("commands that a queue has room for", limit);
    verdict.text = format!(
        "Requests of {{name}} wait for the device's full queue for {{share}} of the time: it has room for {limit} commands"
    );
    verdict.advice = "submit less at a time, or give the controller more or deeper queues (nvme.io_queue_depth, if the \
                      controller allows more); another scheduler changes only which request waits"
        .into();
    Ok(())
}

fn unknown_below(share: Share) -> impl Fn(String) -> Reason {
    move |why| {
        let share = share.text();
        open(format!(
            "queue has {share} of the time; whether requests wait there for the device: {why}"
        ))
    }
}

fn has_scheduler(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if case.facts.machine.is_none() {
        return Err(needs(FULL));
    }
    let Some(name) = case.disk().and_then(|disk| disk.scheduler.as_ref()) else {
        return Err(open("the scheduler of this disk is not known"));
    };
    verdict.name("scheduler", word(name));
    scheduler(case).map(|_| ()).ok_or_else(|| absent("it has no scheduler"))
}

fn holds_requests(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let share = case.share(Stages::QUEUE);
    let (is_full, most, limit) = below_scheduler(case).map_err(unknown_below(share))?;
    if is_full {
        return Err(out(format!(
            "queue has {} of the time, but requests wait there for the device's full queue: {most} of {limit} in flight",
            share.text()
        )));
    }
    verdict.setting("queue/scheduler", scheduler(case));
    Ok(())
}

/// A zone takes one write at a time (zone write plugging).
fn zone(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let wait = Wait { stages: Stages::ZONE, what: "a zone", unseen: |_, _| Err(open("")), ..WAIT };
    if case.wait(&wait, verdict).is_ok() {
        verdict.setting("queue/zoned", case.disk().and_then(|disk| disk.zoned.as_ref()));
        verdict.advice = "a zone takes one write at a time, and the next ones wait: write to more zones at a time, in \
                          larger writes, or by zone appends"
            .into();
    }
    Ok(())
}

/// Later parts of a bio that is split wait for the earlier ones.
fn not_split(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let splits = case.facts.counted(|a| a.splits.as_deref()).unwrap_or_default();
    let mut splits =
        splits.iter().filter(|s| s.ctrl == case.ctrl() && [0, case.nsid()].contains(&s.nsid));
    let commands = case.facts.count(case.subject) as f64;
    if splits.any(|splits| splits.count as f64 > 0.05 * commands) {
        return Err(open(format!(
            "block has {} of the time: bios are split, and the later parts of each wait for the earlier ones",
            case.share(Stages::BLOCK).text()
        )));
    }
    verdict.setting("queue/zoned", case.disk().and_then(|disk| disk.zoned.as_ref()));
    Ok(())
}
