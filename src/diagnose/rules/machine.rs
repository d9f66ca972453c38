// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine, its settings and its devices.

use std::collections::BTreeMap;

use super::{FULL, RULE, WAIT, not_observed};
use crate::diagnose::command::Command;
use crate::diagnose::facts::Stages;
use crate::diagnose::judge::{AWAY, Expectation, Slow};
use crate::diagnose::rule::{Case, Kind, Rule, Tier, Wait};
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Share, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::model::activity::{CpuActivity, Volume};
use crate::units::{percent, size_text};

/// Stages in which data are mapped, copied and unmapped.
const COPYING: Stages = Stages::MAP.with(Stages::COMPLETE).with(Stages::END);

/// The advice if nearly all bounce buffers are in use.
const LARGER_POOL: &str = "give it a larger pool (`swiotlb=N`, in slabs of 2 KiB) or a kernel with \
                           CONFIG_SWIOTLB_DYNAMIC; remove `swiotlb=force` if it is not needed";

/// What a CPU that did not run does to the times of commands.
const IN_THE_TIMES: &str =
    "the times of all stages, above all DEVICE, include the time when the CPUs did not run";

pub const RULES: &[Rule] = &[
    Rule {
        id: "vcpu-stolen",
        noun: "stolen CPU time",
        tier: Tier::Machine,
        scope: Scope::Machine,
        kind: Kind::Event(vcpu_stolen),
        found: "10% of the CPU time is stolen (5%: a note), or 20% of the time of timers, and of the commands' time, is \
                in gaps",
        text: "The virtual CPUs did not run for {share} of the time: the host is busy, or the virtual machine monitor \
               stalls",
        advice: "give the machine CPUs of its own on the host (fewer guests, pinning, no CPU limit); if the host is \
                 idle, look for stalls of the monitor (snapshots, migration, its storage in the same thread)",
        ..RULE
    },
    Rule {
        id: "split",
        noun: "splits",
        scope: Scope::Disk,
        kind: Kind::Event(split),
        found: "a note: 1.5 commands and more for each request. Its cost is not measured",
        text: "Requests of {name} are split: {times} commands for each",
        advice: "compare the sizes of requests with /sys/block/{name}/queue/max_hw_sectors_kb",
        ..RULE
    },
    Rule {
        id: "bounce",
        noun: "bounce buffers",
        scope: Scope::Machine,
        kind: Kind::Large(Wait { stages: COPYING, least: 0.2, premise: bounces, ..WAIT }),
        found: "a bounce buffer for every second command, and map, complete and end have 20% of the time",
        text: "Data are copied through bounce buffers (swiotlb) on their way to the device: {share} of the time",
        advice: "remove `swiotlb=force` if it is not needed; an encrypted guest needs it: larger requests bounce as \
                 much, fewer bytes bounce less",
        risk: "a device without an IOMMU can then write to all of the guest's memory",
        ..RULE
    },
    Rule {
        id: "iommu",
        noun: "the IOMMU",
        kind: Kind::Large(Wait { stages: COPYING, least: 0.2, premise: mappings, ..WAIT }),
        found: "an IOMMU mapping for every second command, map, complete and end have 20% of the time, and the \
                controller's group is not of type `identity`",
        text: "Each command of {name} maps and unmaps its data in the IOMMU: {share} of the time",
        advice: "boot with iommu.strict=0 (lazy invalidation), or with iommu.passthrough=1",
        risk: "lazy: a device can use a stale mapping for some milliseconds; passthrough: it can access all memory",
        ..RULE
    },
    Rule {
        id: "one-irq-cpu",
        noun: "a busy interrupt CPU",
        kind: Kind::Large(Wait {
            stages: Stages::IRQ.with(Stages::COMPLETE).with(Stages::END),
            premise: on_one_cpu,
            ..WAIT
        }),
        found: "one CPU completes 95% of what several submit; irq, complete and end have 30% of the time",
        text: "CPU {cpu} completes the commands that all CPUs submit to {name}",
        advice: "give the controller more interrupt vectors (QEMU: `-device nvme,msix_qsize=N`), or move other work \
                 away from CPU {cpu}",
        ..RULE
    },
    Rule {
        id: "not-polling",
        noun: "unused polled queues",
        kind: Kind::Event(not_polling),
        found: "a note: polled queues that no command uses",
        text: "{name} has polled queues ({polled} of {queues}), and no command used them",
        advice: "if commands should be polled, submit with RWF_HIPRI or io_uring's IOPOLL (fio: hipri=1); if not, remove \
                 nvme.poll_queues",
        ..RULE
    },
    Rule {
        id: "thermal",
        noun: "the temperature",
        tier: Tier::Limit,
        kind: Kind::Event(thermal),
        found: "with `--log`: the device was slower because of its temperature for 5% of the run (SMART). A temperature \
                beyond a threshold alone is a note",
        text: "{name} was slower for {share} of the run because of its temperature",
        advice: "cool it, and watch its temperature under load (`nvme smart-log /dev/{name}`); in a virtual machine this \
                 is the host's task",
        ..RULE
    },
    Rule {
        id: "device",
        noun: "the device",
        tier: Tier::Device,
        kind: Kind::Event(device),
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
    let Some((passed_ns, counted)) = &facts.activity else {
        return Err(needs(FULL));
    };
    let whole = (counted.at_ns.saturating_sub(*passed_ns), counted.at_ns);
    let sum = |of: &dyn Fn(&CpuActivity) -> u64| counted.cpus.iter().map(of).sum::<u64>() as f64;
    let timed = sum(&|cpu| facts.gaps.timed_ns(cpu.cpu, whole));
    let stolen =
        sum(&|cpu| cpu.steal_ns) / (*passed_ns as f64 * counted.cpus.len() as f64).max(1.0);
    let in_gaps = (sum(&|cpu| cpu.gap_ns) / timed.max(1.0)).min(1.0);
    // gaps while no command was in flight delay none
    let span = |c: &Command| (c.begin_ns, c.end_ns);
    let cpu = |c: &Command| u32::from(c.end_cpu.unwrap_or(u16::MAX));
    let timed_commands = || case.commands().filter(|c| facts.gaps.has_timer(cpu(c), span(c)));
    let away = facts.sum(timed_commands(), |c| facts.gaps.within(cpu(c), span(c)));
    let of_commands = away / facts.sum(timed_commands(), Command::total).max(1.0);
    let gaps = match timed > 0.0 {
        true => format!("{}, of the commands' time {}", percent(in_gaps), percent(of_commands)),
        false => "not observed".into(),
    };
    let is_away = in_gaps.min(of_commands) >= AWAY;
    if stolen < NOTED && !is_away {
        return Err(match timed > 0.0 || stolen > 0.0 {
            true => absent(format!("steal {}, gaps in the timers {gaps}", percent(stolen))),
            false => open("neither steal nor gaps in the timers were observed"),
        });
    }
    let share = stolen.max(in_gaps.min(of_commands));
    verdict.name("share", percent(share));
    verdict.shows("impact", IN_THE_TIMES);
    verdict.shows("steal", percent(stolen));
    verdict.shows("gaps in the timers", gaps);
    verdict.share = Some(Share::of(share));
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

fn split(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let Some(all) = case.facts.counted(|a| a.splits.as_ref()) else {
        return Err(not_observed(case.facts, "splits"));
    };
    case.needs_all()?;
    let own = all.iter().find(|s| s.ctrl == case.ctrl() && (s.nsid == case.nsid() || s.nsid == 0));
    let splits = own.map_or(0, |s| s.count);
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
    verdict.advice = match now.zip(most) {
        Some((now, most)) if now < most => format!(
            "if one command should carry more: raise /sys/block/{{name}}/queue/max_sectors_kb from {now} to at most {most}"
        ),
        Some((_, most)) => format!(
            "the device takes at most {} in a command (MDTS): larger requests are split on any machine",
            size_text(most << 10)
        ),
        None => String::new(),
    };
    Ok(())
}

/// An error unless there is one of these for every second request of the machine. Requests are those that
/// were counted, or the commands if there are more.
fn per_request(case: &Case<'_>, count: Volume, what: &str) -> Result<f64, Reason> {
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
    let Some(bounces) = case.facts.counted(|a| a.bounces) else {
        return Err(not_observed(case.facts, "bounce buffers"));
    };
    let each = per_request(case, bounces, "bounces")?;
    verdict.shows("bounces per command", format!("{each:.1}"));
    if let Some(pool) = case.facts.counted(|a| a.bounce_pool).filter(|p| p.size > 0) {
        let used = pool.used as f64 / pool.size as f64;
        verdict.shows("pool in use", percent(used));
        if used >= 0.9 {
            verdict.advice = LARGER_POOL.into();
        }
    }
    Ok(())
}

fn mappings(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if let Some(transport) = case.facts.fabric(case.ctrl()) {
        return Err(absent(format!("{transport} maps no data for a controller")));
    }
    let group = case.controller().and_then(|c| c.iommu_group.as_ref()).map(|group| group.as_str());
    if group == Some("identity") {
        return Err(absent("its IOMMU group has the type `identity`: nothing is mapped"));
    }
    let Some(maps) = case.facts.counted(|a| a.iommu_maps) else {
        return Err(not_observed(case.facts, "mappings of the IOMMU"));
    };
    let each = per_request(case, maps, "mappings of the IOMMU")?;
    if case.controller().is_some() && group.is_none() {
        return Err(absent("it is in no IOMMU group: others map"));
    }
    verdict.shows("mappings per command", format!("{each:.1}"));
    verdict.setting("type of the IOMMU group", group);
    if group == Some("DMA-FQ") {
        verdict.advice = "boot with iommu.passthrough=1: invalidation is lazy already".into();
    }
    Ok(())
}

fn on_one_cpu(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
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
    let Some(((cpu, on_one), (_, spread))) = ends.zip(begins) else {
        return Err(open("the CPUs of submissions were not observed"));
    };
    if on_one < 0.95 || spread > 0.8 {
        return Err(absent("commands are completed by as many CPUs as submit them"));
    }
    verdict.name("cpu", cpu);
    verdict.shows("completed there", percent(on_one));
    verdict.shows("submitted by any one CPU at most", percent(spread));
    verdict.setting("interrupt vectors", case.controller().and_then(|c| c.vectors));
    Ok(())
}

fn not_polling(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let machine = case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let Some(polled) = machine.poll_queues.filter(|n| *n > 0) else {
        return Err(absent("there are no polled queues"));
    };
    if case.facts.fabric(case.ctrl()).is_some() {
        return Err(absent("nvme.poll_queues concerns PCI only"));
    }
    let first = case.facts.first_polled(case.ctrl());
    let first = first.ok_or_else(|| open("the number of queues is not known"))?;
    if case.commands().any(|c| u32::from(c.qid) >= first) {
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
    let logs = case.facts.logs.as_ref().ok_or_else(|| needs("--log"))?;
    let own = logs.iter().find(|(_, last)| last.instance == case.ctrl());
    let (first, last) = own.ok_or_else(|| open("its SMART log page could not be read"))?;
    let (first, last) = (first.smart, last.smart);
    let degrees = format!("{} \u{b0}C", i32::from(last.kelvins) - ZERO_CELSIUS);
    let slower = last.transitions.saturating_sub(first.transitions);
    let seconds = last.throttled_seconds.saturating_sub(first.throttled_seconds);
    let critical = u64::from(last.critical_minutes.saturating_sub(first.critical_minutes));
    let counts = [
        ("transitions to a slower state", slower),
        ("seconds in such states", seconds),
        ("minutes at a critical temperature", critical),
    ];
    if counts.iter().all(|(_, count)| *count == 0) && !last.is_too_hot() {
        return Err(absent(degrees));
    }
    let share = (seconds as f64 / case.facts.covers.as_secs_f64().max(1.0)).min(1.0);
    verdict.share = Some(Share::of(share));
    verdict.name("share", percent(share));
    verdict.shows("temperature", degrees);
    let warning = last.is_too_hot().then_some("temperature beyond a threshold");
    verdict.shows_if("critical warning", warning);
    for (what, count) in counts {
        verdict.shows_if(what, (count > 0).then_some(count));
    }
    if share < 0.05 {
        // how long it was slower is not known, or hardly
        verdict.status = Status::Noted;
        verdict.text = match slower + seconds {
            0 => "{name} reports that it is too hot".into(),
            _ => "{name} went to a slower state because of its temperature".into(),
        };
    }
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
        let Some(class) = facts.classes.get(slow.class) else { continue };
        let share = facts.share(facts.of_class(class), Stages::AT_DEVICE);
        let name = facts.class_name(slow.class);
        let reason = match (share.reaches(MOST), explained(case, &slow)) {
            (Some(true), Some(rule)) => out(format!("{rule} explains it")),
            (Some(true), None) => {
                let [median, expected] = slow.texts();
                verdict.has_share(share, Stages::AT_DEVICE);
                // of this class only
                verdict.stages = None;
                verdict.classes = vec![(slow.class, share.least)];
                verdict.shows(format!("median of {name}"), &median);
                verdict.shows("expected", &expected);
                verdict.name("median", median);
                verdict.name("expected", expected);
                verdict.name("behind", facts.behind(case.ctrl()));
                return Ok(());
            }
            (None, _) => {
                let why = format!("device+irq have {} of the time: too uncertain", share.text());
                open(facts.joined(case.ctrl()).unwrap_or(why))
            }
            (Some(false), _) => {
                out(format!("{name}: device+irq have {} of the time", share.text()))
            }
        };
        if other.0 != Status::Inconclusive {
            other = reason;
        }
    }
    Err(other)
}

/// The rule that explains most of why a class is slow; `None`: none does, or not enough. The class is
/// as fast as expected without the time that causes take from it.
fn explained(case: &Case<'_>, slow: &Slow) -> Option<&'static str> {
    let excess = 1.0 - slow.expected_ns as f64 / slow.median_ns as f64;
    let own = case.found.iter().filter(|v| {
        // counted waits are in no command's time
        let is_counted = v.stages.is_none() && matches!(v.rule, "tag-wait" | "request-wait");
        v.tier != Tier::Incident && v.status == Status::Found && !is_counted
    });
    let shares = own.filter_map(|v| Some((v.rule, v.share_of(case.facts, slow.class)?)));
    let shares: Vec<(&'static str, f64)> = shares.collect();
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let (rule, _) = shares.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (sum >= excess).then_some(rule)
}
