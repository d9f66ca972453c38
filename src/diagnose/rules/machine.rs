// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine, its settings and its devices.

use super::conditions::SUBMISSION;
use super::waits::{LARGE, sees_bios};
use super::{Case, FULL, RULE, Rule, Tier, not_observed};
use crate::diagnose::affected::first_of;
use crate::diagnose::command::Command;
use crate::diagnose::facts::{Facts, Stages};
use crate::diagnose::judge::{AWAY, Expectation, Slow};
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::machine::disk::disk_of_path;
use crate::model::activity::{CpuActivity, Volume};
use crate::model::machine::UpperDisk;
use crate::nvme::log::EbsStats;
use crate::units::{nanos, percent, size_text};
use std::collections::BTreeMap;

/// The stages in which data are mapped, copied and unmapped, and their share of the time.
const COPIES: Stages = Stages::MAP.with(Stages::COMPLETE).with(Stages::END);
const COPYING: f64 = 0.2;
/// Fewest bios for a verdict on the time above NVMe.
const ENOUGH: u64 = 200;
/// The bios of at least this part of the reads and writes must be observed. For the rest, the waits below
/// device mapper are unknown.
const NEARLY_ALL: f64 = 0.95;

pub const RULES: &[Rule] = &[
    Rule {
        id: "vcpu-stolen",
        tier: Tier::Machine,
        scope: Scope::Machine,
        check: vcpu_stolen,
        found: "10% of the CPU time is stolen (5%: a note), or gaps have 20% of the time of timers and of commands",
        text: "The virtual CPUs did not run for {share} of the time: the host is busy, or the virtual machine monitor \
               stalls",
        advice: "give the machine CPUs of its own on the host (fewer guests, pinning, no CPU limit); if the host is \
                 idle, look for stalls of the monitor (snapshots, migration, its storage in the same thread)",
        ..RULE
    },
    Rule {
        id: "above-nvme",
        tier: Tier::Above,
        scope: Scope::Machine,
        check: above_nvme,
        found: "bios of a device mapper or md disk spend 30% of their time above NVMe",
        text: "Bios on {upper} wait {above} of {mean} above NVMe",
        advice: "find the layer that adds the time. dm-crypt queues its work: `cryptsetup refresh --perf-no_read_workqueue \
                 --perf-no_write_workqueue NAME` turns that off; RAID computes parity, updates its bitmap and resyncs; \
                 snapshots and thin pools copy",
        risk: "without them, the submitting task encrypts and soft interrupts decrypt",
    },
    Rule {
        id: "split",
        scope: Scope::Disk,
        check: split,
        found: "a note: 1.5 commands and more for each request. Its cost is not measured",
        text: "Requests of {name} are split: {times} commands for each",
        advice: "compare the sizes of requests with /sys/block/{name}/queue/max_hw_sectors_kb",
        ..RULE
    },
    Rule {
        id: "bounce",
        scope: Scope::Machine,
        check: bounces,
        found: "a bounce buffer for every second command, and map, complete and end have 20% of the time",
        text: "Data are copied through bounce buffers (swiotlb) on their way to the device: {share} of the time",
        advice: "remove `swiotlb=force`, unless the guest is encrypted and needs it; fewer bytes bounce less",
        risk: "a device without an IOMMU can then write to all of the guest's memory",
        ..RULE
    },
    Rule {
        id: "iommu",
        check: mappings,
        found: "an IOMMU mapping for every second command, map, complete and end have 20% of the time, and the \
                controller's group is not of type `identity`",
        text: "Each command of {name} maps and unmaps its data in the IOMMU: {share} of the time",
        advice: "boot with iommu.strict=0 (lazy invalidation), or with iommu.passthrough=1",
        risk: "lazy: a device can use a stale mapping for some milliseconds; passthrough: it can access all memory",
        ..RULE
    },
    Rule {
        id: "one-irq-cpu",
        check: one_irq_cpu,
        found: "one CPU completes 95% of what several submit; irq, complete and end have 30% of the time",
        text: "CPU {cpu} completes the commands that all CPUs submit to {name}",
        advice: "give the controller more interrupt vectors (QEMU: `-device nvme,msix_qsize=N`), or \
                 move other work away from CPU {cpu}",
        ..RULE
    },
    Rule {
        id: "not-polling",
        check: not_polling,
        found: "a note: polled queues that no command uses",
        text: "{name} has polled queues ({polled} of {queues}), and no command used them",
        advice: "submit with RWF_HIPRI or io_uring's IOPOLL (fio: hipri=1), or remove nvme.poll_queues",
        ..RULE
    },
    Rule {
        id: "thermal",
        tier: Tier::Limit,
        check: thermal,
        found: "with `--log`: the device was slower because of its temperature for 5% of the run (SMART). A temperature \
                beyond a threshold alone is a note",
        text: "{name} was slower for {share} of the run because of its temperature",
        advice: "cool it (or its host), and watch its temperature under load (`nvme smart-log /dev/{name}`)",
        ..RULE
    },
    Rule {
        id: "rate-cap",
        tier: Tier::Limit,
        check: rate_cap,
        found: "the rate stays the same while submissions change the number in flight by half and more, and completions \
                vary at most half as much as independent ones ([more](dev/diagnose.md)). Or, with `--log`, an EBS volume counts \
                5% of the time beyond a limit. Not judged if `throttle` has 30% of the time",
        text: "{name} does no more than {limit}: a limit, or a saturated device",
        advice: "compare with the limits that the provider states (IOPS and throughput of the volume and of the instance), \
                 and raise them; or submit fewer commands at a time, so that each waits less",
        ..RULE
    },
    Rule {
        id: "device",
        tier: Tier::Limit,
        check: device,
        found: "with `--expect` or `--baseline`: commands are slower than expected, device and irq have most of their \
                time, and no other cause explains it",
        text: "{name} is slower than expected: {median}, expected {expected}; {share} of the time is the device's, or \
               its backend's",
        advice: "{behind}",
        ..RULE
    },
];

fn vcpu_stolen(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    /// Less steal is not mentioned.
    const NOTED: f64 = 0.05;
    const STOLEN: f64 = 0.1;
    let facts = case.facts;
    let (passed_ns, counted) = facts.activity.as_ref().ok_or_else(|| needs(FULL))?;
    let whole = (counted.at_ns.saturating_sub(*passed_ns), counted.at_ns);
    let sum = |of: &dyn Fn(&CpuActivity) -> u64| counted.cpus.iter().map(of).sum::<u64>() as f64;
    let timed = sum(&|cpu| facts.gaps.timed_ns(cpu.cpu, whole));
    let stolen =
        sum(&|cpu| cpu.steal_ns) / (*passed_ns as f64 * counted.cpus.len() as f64).max(1.0);
    let in_gaps = (sum(&|cpu| cpu.gap_ns) / timed.max(1.0)).min(1.0);
    // gaps while no command was in flight delay none
    let span = |c: &Command| (c.at.begin_ns, c.at.end_ns);
    let cpu = |c: &Command| u32::from(c.end_cpu.unwrap_or(u16::MAX));
    let timed_commands = || case.commands().filter(|c| facts.gaps.has_timer(cpu(c), span(c)));
    let away = facts.sum(timed_commands(), |c| facts.gaps.within(cpu(c), span(c)));
    let of_commands = away / facts.sum(timed_commands(), Command::total).max(1.0);
    let gaps = match timed > 0.0 {
        true => format!("{}, of the commands' time {}", percent(in_gaps), percent(of_commands)),
        false => "not observed".into(),
    };
    let is_away = in_gaps.min(of_commands) >= AWAY;
    if timed + stolen <= 0.0 {
        return Err(open("neither steal nor gaps in the timers were observed"));
    }
    if stolen < NOTED && !is_away {
        return Err(absent(format!("steal {}, gaps in the timers {gaps}", percent(stolen))));
    }
    verdict.explains(stolen.max(in_gaps.min(of_commands)));
    verdict.shows(
        "impact",
        "the times of all stages, above all DEVICE, include the time when the CPUs did not run",
    );
    verdict.shows("steal", percent(stolen));
    verdict.shows("gaps in the timers", gaps);
    if facts.is_metal() {
        verdict.text = "CPUs did not run for {share} of the time: firmware (SMIs) takes them, or timers are late".into();
        verdict.advice = "look for SMIs (turbostat's SMI column), firmware updates, and power management that stops \
                          timers"
            .into();
    }
    if stolen < STOLEN && !is_away {
        // what it costs the commands is not measured
        verdict.status = Status::Noted;
    }
    Ok(())
}

// The time of the bios of device mapper and md, from which the time of the commands below is subtracted. A bio that is
// split, mirrored or coded has several commands, which are all subtracted, though they ran at the same time. So the
// result is a lower bound.

/// The bios of some disks that ended: number, longest time and all time; and the time of the commands below; in
/// nanoseconds.
fn times(facts: &Facts, group: &[&UpperDisk]) -> (u64, u64, f64, f64) {
    let counted = facts.counted(|a| a.upper.as_deref()).unwrap_or_default();
    let (mut bios, mut longest, mut all) = (0, 0, 0.0);
    for own in counted.iter().filter(|own| group.iter().any(|upper| upper.name == own.name)) {
        (bios, longest, all) = (bios + own.bios, own.max_ns.max(longest), all + own.sum_ns as f64);
    }
    let below = facts.classes.all.iter().filter(|own| {
        let path = facts.disk_name(own.class.ctrl, own.class.nsid);
        let disk = disk_of_path(&path);
        group.iter().any(|upper| upper.disks.iter().any(|below| *below == *disk))
    });
    (bios, longest, all, below.map(|own| facts.sum(facts.of_class(own), |c| c.below_ns)).sum())
}

fn above_nvme(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let facts = case.facts;
    let machine = facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    if machine.upper.is_empty() {
        return Err(absent("no disk of device mapper or md is above NVMe"));
    }
    let unseen = || not_observed(facts, "bios of disks above NVMe");
    facts.counted(|a| a.upper.as_ref()).ok_or_else(unseen)?;
    case.needs_all()?;
    if !sees_bios(case, NEARLY_ALL)? {
        return Err(open("the bios of the reads and writes were not observed"));
    }
    // disks that share disks below are judged together
    let top = || machine.upper.iter().filter(|upper| upper.is_top);
    let all = top().map(|own| {
        let group: Vec<&UpperDisk> =
            top().filter(|other| own.disks.iter().any(|disk| other.disks.contains(disk))).collect();
        let (bios, longest, all, below) = times(facts, &group);
        (bios, longest, all, below, all - below, group)
    });
    let most = all.max_by(|a, b| a.4.total_cmp(&b.4)).filter(|(bios, ..)| *bios > 0);
    let (bios, longest, all, below, above, group) =
        most.ok_or_else(|| absent("no bio ended on a disk above NVMe"))?;
    let names = first_of(group.iter().map(|upper| upper.name.to_string()));
    let [all_each, below_each, above_each] =
        [all, below, above].map(|ns| nanos(ns.max(0.0) / bios as f64));
    if bios < ENOUGH {
        return Err(open(format!("only {bios} bios ended on {names}, and {ENOUGH} are needed")));
    }
    if above / all.max(1.0) < LARGE {
        return Err(out(format!("bios on {names} take {all_each}, their commands {below_each}")));
    }
    if group.iter().any(|upper| upper.has_others) {
        return Err(open(format!("{names} also uses disks that are not NVMe")));
    }
    let longest = nanos(longest as f64);
    verdict.shows("impact", format!("{bios} bios; mean {all_each}, longest {longest}"));
    for upper in &group {
        let kind = upper.kind.as_ref().map_or(String::new(), |kind| format!(" ({kind})"));
        let disks = first_of(upper.disks.iter().map(ToString::to_string));
        verdict.shows("setting", format!("{}{kind} on {disks}", upper.name));
    }
    verdict.name("upper", names);
    verdict.name("above", above_each);
    verdict.name("mean", all_each);
    Ok(())
}

fn split(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let splits = case.splits().ok_or_else(|| not_observed(case.facts, "splits"))?;
    case.needs_all()?;
    let commands = case.facts.count(case.subject);
    let times = commands as f64 / commands.saturating_sub(splits).max(1) as f64;
    if times < 1.5 {
        return Err(absent(format!("{times:.2} commands for each request")));
    }
    verdict.status = Status::Noted;
    verdict.name("times", format!("{times:.1}"));
    verdict.shows("splits", splits);
    let disk = case.disk();
    let kb = |bytes: Option<u64>| bytes.map(|bytes| bytes >> 10);
    let now = kb(disk.and_then(|d| d.max_bytes));
    let most = kb(disk.and_then(|d| d.max_hw_bytes));
    verdict.setting("queue/max_sectors_kb", now);
    verdict.setting("queue/max_hw_sectors_kb", most);
    // a limit is raised only where the device allows more
    if let Some((now, most)) = now.zip(most) {
        verdict.advice = match now < most {
            true => format!(
                "if one command should carry more: raise /sys/block/{{name}}/queue/max_sectors_kb from {now} to at most \
                 {most}"
            ),
            false => format!(
                "the device takes at most {} in a command (MDTS): larger requests are split on any machine",
                size_text(most << 10)
            ),
        };
    }
    Ok(())
}

/// An error unless there is one of these for every second request of the machine. Requests are those that
/// were counted, or the commands if there are more.
fn per_request(case: &Case<'_>, count: Option<Volume>, what: &str) -> Result<f64, Reason> {
    let count = count.ok_or_else(|| not_observed(case.facts, what))?;
    let waits = case.facts.counted(|a| a.waits.as_deref());
    if waits.is_none() {
        case.facts.lacks(Subject::Machine).map_or(Ok(()), |why| Err(open(why)))?;
    }
    let requests: f64 = waits.unwrap_or_default().iter().map(|w| w.requests as f64).sum();
    let each = count.count as f64 / requests.max(case.facts.commands.seen as f64).max(1.0);
    match each < 0.5 {
        true => Err(absent(format!("{each:.2} {what} per command"))),
        false => Ok(each),
    }
}

fn bounces(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let each = per_request(case, case.facts.counted(|a| a.bounces), "bounces")?;
    verdict.shows("bounces per command", format!("{each:.1}"));
    if let Some(pool) = case.facts.counted(|a| a.bounce_pool).filter(|p| p.size > 0) {
        let used = pool.used as f64 / pool.size as f64;
        verdict.shows("pool in use", percent(used));
        if used >= 0.9 {
            verdict.advice =
                "give it a larger pool (`swiotlb=N`, in slabs of 2 KiB) or a kernel with \
                              CONFIG_SWIOTLB_DYNAMIC; remove `swiotlb=force` if it is not needed"
                    .into();
        }
    }
    case.large(verdict, COPIES, COPYING)
}

fn mappings(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    case.needs_pci("maps no data for a controller")?;
    let group = case.controller().and_then(|c| c.iommu_group.as_ref()).map(|group| group.as_str());
    if group == Some("identity") {
        return Err(absent("its IOMMU group has the type `identity`: nothing is mapped"));
    }
    let maps = case.facts.counted(|a| a.iommu_maps);
    let each = per_request(case, maps, "mappings of the IOMMU")?;
    if case.controller().is_some() && group.is_none() {
        return Err(absent("it is in no IOMMU group: others map"));
    }
    verdict.shows("mappings per command", format!("{each:.1}"));
    verdict.setting("type of the IOMMU group", group);
    if group == Some("DMA-FQ") {
        verdict.advice = "boot with iommu.passthrough=1: invalidation is lazy already".into();
    }
    case.large(verdict, COPIES, COPYING)
}

fn one_irq_cpu(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    case.needs_all()?;
    // the CPU with most commands, and its part of them
    let most = |cpu: fn(&Command) -> Option<u16>| {
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        case.commands().filter_map(cpu).for_each(|cpu| *counts.entry(cpu).or_default() += 1);
        let all: u64 = counts.values().sum();
        let (cpu, count) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        Some((cpu, count as f64 / all as f64))
    };
    let (ends, begins) = (most(|c| c.end_cpu), most(|c| c.submit_cpu));
    let unseen = || open("the CPUs of submissions were not observed");
    let ((cpu, on_one), (_, spread)) = ends.zip(begins).ok_or_else(unseen)?;
    if on_one < 0.95 || spread > 0.8 {
        return Err(absent("commands are completed by as many CPUs as submit them"));
    }
    verdict.name("cpu", cpu);
    verdict.shows("completed there", percent(on_one));
    verdict.shows("submitted by any one CPU at most", percent(spread));
    verdict.setting("interrupt vectors", case.controller().and_then(|c| c.vectors));
    case.large(verdict, Stages::IRQ.with(Stages::COMPLETE).with(Stages::END), LARGE)
}

fn not_polling(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let machine = case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let polled = machine.poll_queues.filter(|n| *n > 0);
    let polled = polled.ok_or_else(|| absent("there are no polled queues"))?;
    case.needs_pci("is not concerned: nvme.poll_queues is for PCI")?;
    let first = case.facts.first_polled(case.ctrl());
    let first = first.ok_or_else(|| open("the number of queues is not known"))?;
    if case.commands().any(|c| u32::from(c.at.qid) >= first) {
        return Err(absent("commands use the polled queues"));
    }
    case.needs_all()?;
    let queues = case.controller().and_then(|c| c.io_queues).unwrap_or(0);
    verdict.status = Status::Noted;
    verdict.name("polled", polled);
    verdict.name("queues", queues);
    Ok(())
}

fn thermal(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    /// 0 degrees Celsius in kelvins.
    const ZERO_CELSIUS: i32 = 273;
    case.facts.logs.as_ref().ok_or_else(|| needs("--log"))?;
    let own = case.logs().ok_or_else(|| open("its SMART log page could not be read"))?;
    let (first, last) = (own.0.smart, own.1.smart);
    let degrees = format!("{} \u{b0}C", i32::from(last.kelvins) - ZERO_CELSIUS);
    let slower = last.transitions.saturating_sub(first.transitions);
    let seconds = last.throttled_seconds.saturating_sub(first.throttled_seconds);
    let is_critical = last.critical_minutes > first.critical_minutes;
    if slower + seconds == 0 && !is_critical && !last.is_too_hot() {
        return Err(absent(degrees));
    }
    let share = (seconds as f64 / case.facts.covers.as_secs_f64().max(1.0)).min(1.0);
    verdict.explains(share);
    verdict.shows("temperature", degrees);
    if last.is_too_hot() || is_critical {
        verdict.shows("critical warning", "temperature beyond a threshold");
    }
    verdict.shows("transitions to a slower state", slower);
    verdict.shows("seconds in such states", seconds);
    if share < 0.05 {
        // how long it was slower is not known, or hardly
        verdict.status = Status::Noted;
        verdict.text = "{name} is too hot, or was slower because of its temperature".into();
    }
    Ok(())
}

// The rate stays the same however many commands are in flight: a limit of the provider, or a saturated device. Without
// the vendor's log these two look the same. Where the number in flight does not change, a limit does not show, and is
// not ruled out.

/// Whether the volume's own log shows that more was asked for than the provider allows.
fn is_logged(case: &Case<'_>, verdict: &mut Verdict) -> bool {
    let own = case.logs().and_then(|(first, last)| first.ebs.zip(last.ebs));
    let Some((first, last)) = own else { return false };
    let covers = (case.facts.covers.as_micros() as f64).max(1.0);
    let part = |of: fn(&EbsStats) -> u64| of(&last).saturating_sub(of(&first)) as f64 / covers;
    let limits = [
        ("IOPS of the volume", part(|s| s.volume_iops_us)),
        ("throughput of the volume", part(|s| s.volume_throughput_us)),
        ("IOPS of the instance", part(|s| s.instance_iops_us)),
        ("throughput of the instance", part(|s| s.instance_throughput_us)),
    ];
    for (what, part) in limits {
        verdict.shows_if(&format!("time beyond the {what}"), (part > 0.0).then(|| percent(part)));
    }
    let largest = limits.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((what, most)) = largest.filter(|(_, most)| *most >= 0.05) else { return false };
    verdict.text = format!("{{name}} was asked for more than the {what} allow");
    verdict.explains(most.min(1.0));
    verdict.advice = "raise this limit at the provider, or submit less at a time".into();
    true
}

fn rate_cap(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if is_logged(case, verdict) {
        return Ok(());
    }
    case.needs_all()?;
    // a limit of the device is in the device's time; if that was not observed apart, it is between the end of the
    // setup and the completion by the driver
    let wider = SUBMISSION.with(Stages::AT_DEVICE).with(Stages::COMPLETE);
    let is_apart = case.share(Stages::AT_DEVICE).reaches(MOST).is_some();
    let stages = if is_apart { Stages::AT_DEVICE } else { wider };
    case.large(verdict, stages, MOST)?;
    let throttled = case.share(Stages::THROTTLE);
    if throttled.reaches(LARGE) == Some(true) {
        let have = Stages::THROTTLE.have(throttled);
        return Err(open(format!("a limit of a cgroup may make the rate: {have}")));
    }
    let rates = case.facts.rates.get(&case.ctrl()).ok_or_else(|| absent("no commands"))?;
    let flat = rates.limit()?;
    verdict.name("limit", flat.limit());
    let (low, high) = flat.in_flight;
    verdict.shows("commands in flight", format!("{low:.1} to {high:.1}"));
    Ok(())
}

fn device(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let facts = case.facts;
    let classes = || facts.classes.of_subject(case.subject);
    match &facts.expectation {
        Expectation::None => return Err(needs("--expect 200us or --baseline FILE")),
        Expectation::Baseline(medians) if !classes().any(|c| medians.contains_key(&c.class)) => {
            let own: Vec<String> = classes().map(|c| facts.class_name(c.class)).take(2).collect();
            return Err(open(format!("the baseline has no commands like {}", own.join(" or "))));
        }
        _ => {}
    }
    let mut other = out("no class of commands is slower than expected");
    for slow in facts.slow(case.subject) {
        let share = facts.share(facts.of_class(slow.class), Stages::AT_DEVICE);
        let name = facts.class_name(slow.class.class);
        let have = Stages::AT_DEVICE.have(share);
        let reason = match (share.reaches(MOST), explained(case, &slow)) {
            (Some(true), Some(rule)) => out(format!("{rule} explains it")),
            (Some(true), None) => {
                let [median, expected] = slow.texts();
                verdict.has_share(share, Stages::AT_DEVICE);
                // of this class only
                verdict.stages = None;
                verdict.classes = vec![(slow.class.class, share.least)];
                verdict.shows(format!("median of {name}"), &median);
                verdict.name("median", median);
                verdict.name("expected", expected);
                verdict.name("behind", facts.behind(case.ctrl()));
                return Ok(());
            }
            (None, _) => {
                open(facts.joined(case.ctrl()).unwrap_or(format!("{have}: too uncertain")))
            }
            (Some(false), _) => out(format!("{name}: {have}")),
        };
        if other.0 != Status::Inconclusive {
            other = reason;
        }
    }
    Err(other)
}

/// The rule that explains most of why a class is slow; `None`: none does, or not enough. The class is
/// as fast as expected without the time that causes take from it.
fn explained(case: &Case<'_>, slow: &Slow<'_>) -> Option<&'static str> {
    let excess = 1.0 - slow.expected_ns as f64 / slow.median_ns as f64;
    let own = case.found.iter().filter(|v| {
        // counted waits are in no command's time
        let is_counted = v.stages.is_none() && matches!(v.rule, "tag-wait" | "request-wait");
        v.tier != Tier::Incident && v.status == Status::Found && !is_counted
    });
    let shares: Vec<_> = own.map(|v| (v.rule, v.share_of(case.facts, slow.class))).collect();
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let (rule, _) = shares.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (sum >= excess).then_some(rule)
}
