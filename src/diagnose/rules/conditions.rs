// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions that coincide with longer times.

use super::incidents::queues;
use super::{Case, FULL, RULE, Rule, not_observed};
use crate::diagnose::affected::joined;
use crate::diagnose::command::{Command, LONG_NS};
use crate::diagnose::compare::{NEEDED, quantile};
use crate::diagnose::facts::Stages;
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Share, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::model::command_class::{Announcement, Conditions};
use crate::model::machine::Class;
use crate::model::stage::StageSet;
use crate::units::nanos;
use std::collections::HashSet;

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
/// Write Zeroes and Dataset Management.
const DISCARDS: [u8; 2] = [8, 9];
/// Commands that are themselves a cause have this share of the time.
const ALONE: f64 = 0.3;
pub const SUBMISSION: Stages = Stages::MAP.with(Stages::SUBMIT);
/// Most conditions explain this part of the time, at least.
const LEAST: f64 = 0.1;

pub const RULES: &[Rule] = &[
    Rule {
        id: "few-queues",
        check: few_queues,
        found: "fewer queues than CPUs, and map and submit take longer beside another CPU's submission to the queue",
        text: "CPUs wait for each other to submit: {name} has {queues} I/O queues for {cpus} CPUs",
        advice: "give the controller a queue for each CPU (QEMU: `-device nvme,max_ioqpairs=N`; cloud: a larger instance)",
        ..RULE
    },
    Rule {
        id: "doorbell-exit",
        check: doorbell_exit,
        found: "the controller is emulated by a virtual machine monitor, and submit has most of the time, or takes \
                longer if the doorbell is rung than if it is elided",
        text: "The doorbells of {name} take long: each one is an exit to the hypervisor",
        advice: "use a controller with shadow doorbells (QEMU 7.1 and later has them) and ioeventfd (`-device \
                 nvme,ioeventfd=on`), or submit several commands at a time",
        ..RULE
    },
    Rule {
        id: "remote-completion",
        check: remote_completion,
        found: "complete and end take longer on another CPU than the submitting one",
        text: "Commands of {disk} take longer to complete on another CPU than the submitting one",
        advice: "`echo 2 > /sys/block/{disk}/queue/rq_affinity` (if it is not 2 already), or give each CPU a queue",
        risk: "an interrupt to the submitting CPU for each completion",
        ..RULE
    },
    Rule {
        id: "softirq",
        check: softirq,
        found: "device and irq take longer if the interrupt comes in a soft interrupt",
        text: "Commands of {name} take longer if their interrupt comes in a soft interrupt",
        advice: "move that load (affinity of the network's interrupts, RPS) or the queue's interrupt to other CPUs",
        ..RULE
    },
    Rule {
        id: "idle-vcpu-wake",
        check: idle_vcpu_wake,
        found: "device takes longer if the CPU is idle, on CPUs without our timer",
        text: "Commands of {name} take longer while the CPU is idle: waking it, or a device that saves power, takes time",
        advice: "let the guest poll before it halts (`modprobe cpuidle_haltpoll`), or the host (kvm.halt_poll_ns); or \
                 use polled queues (nvme.poll_queues)",
        risk: "polling CPUs use power, and take it from other guests",
        ..RULE
    },
    Rule {
        id: "flush-cost",
        check: flush_cost,
        found: "flushes have 30% of the time, or writes take longer beside them",
        text: "Flushes take {share} of the time on {name}",
        advice: "let the application flush less often (group commits); where losing the last writes is acceptable, or \
                 the cache survives a power cut: `echo \"write through\" > /sys/block/{disk}/queue/write_cache`",
        risk: "without flushes, a power cut loses data that the application believes written",
        ..RULE
    },
    Rule {
        id: "fua-cost",
        scope: Scope::Disk,
        check: fua_cost,
        found: "writes with FUA take longer than those without it. A note, if every write carries FUA, they have 30% of \
                the time, and take three times as long as reads",
        text: "Writes to {name} with FUA (O_DSYNC) bypass the device's write cache: they take {times} times as long",
        advice: "let the application make fewer writes durable one by one (group commits, fdatasync after several \
                 writes); a device whose cache survives a power cut does FUA writes as fast as others",
        risk: "without FUA or a flush, a power cut loses data that the application believes written",
        ..RULE
    },
    Rule {
        id: "discard-storm",
        check: discard_storm,
        found: "reads or writes take longer beside discards (Dataset Management, Write Zeroes)",
        text: "Discards on {from} slow down the commands of {disk}: they take {times} times as long",
        advice: "mount without `discard` and run fstrim at quiet times; lower /sys/block/{from}/queue/discard_max_bytes",
        risk: "blocks are returned to the device later",
        ..RULE
    },
    Rule {
        id: "unaligned",
        scope: Scope::Disk,
        check: unaligned,
        found: "device takes longer off the physical blocks",
        text: "Commands of {name} that are not aligned to its physical blocks take longer",
        advice: "align partitions and file systems to the physical block size",
        ..RULE
    },
];

/// Whether another CPU had begun to use the queue just before.
fn few_queues(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    /// Submissions this close compete for the queue.
    const CLOSE_NS: u64 = 20_000;
    let (facts, ctrl) = (case.facts, case.ctrl());
    let machine = facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let all = case.controller().and_then(|c| c.io_queues);
    let count = facts.first_polled(ctrl).map(|first| first - 1).or(all);
    let numbers = count.zip(machine.cpus);
    let (count, cpus) = numbers.ok_or_else(|| open("the number of queues or CPUs is not known"))?;
    if count == 0 || count >= cpus {
        return Err(absent("each CPU has a queue"));
    }
    case.needs_all()?;
    if facts.is_thinned(ctrl) {
        return Err(open("needs every command in memory: fewer, or a shorter run"));
    }
    let key = |c: &Command| (c.at.qid, c.at.cid, c.setup_ns);
    let mut shared = HashSet::new();
    for queue in queues(facts, ctrl) {
        // the median time. Each command's own would be wrong: a long one meets more others, whether or not
        // it waits for them
        let times = queue.iter().map(|c| c.time_bounds(SUBMISSION).0);
        let window_ns = quantile(times, 0.5).unwrap_or(0).max(CLOSE_NS);
        for (n, command) in queue.iter().enumerate() {
            let ends = command.setup_ns + window_ns;
            let next = queue[n + 1..].iter().take_while(|c| c.setup_ns <= ends);
            // the first does not wait
            shared.extend(next.filter(|c| c.submit_cpu != command.submit_cpu).map(|c| key(c)));
        }
    }
    verdict.name("queues", count);
    verdict.name("cpus", cpus);
    let sides = ["commands beside another CPU's on their queue", "alone"];
    case.longer(verdict, SUBMISSION, LEAST, sides, |c| Some(shared.contains(&key(c))))?;
    Ok(())
}

/// Whether the doorbell was rung, on a controller whose doorbells exit to a hypervisor.
fn doorbell_exit(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let is_rung = |c: &Command| c.conditions.announcement().map(|how| how == Announcement::Rung);
    let is_elided = |c: &Command| is_rung(c) == Some(false);
    let share = case.share(Stages::SUBMIT);
    let is_large = share.reaches(MOST);
    // if no doorbell was elided, only the share can decide
    let is_small = is_large == Some(false) && !case.commands().any(is_elided);
    if share.most < LEAST || is_small {
        return Err(out(Stages::SUBMIT.have(share)));
    }
    case.needs_pci("has no doorbells")?;
    match case.controller().map(|c| c.class) {
        _ if case.facts.is_metal() => return Err(absent("there is no hypervisor")),
        Some(Class::Passthrough | Class::Physical | Class::Cloud) => {
            return Err(absent("its doorbells go to hardware: they do not exit"));
        }
        Some(Class::Emulated) if case.commands().all(is_elided) => {
            return Err(out("no doorbell was rung: the shadow doorbells elided all"));
        }
        Some(Class::Emulated) => {}
        _ => return Err(open("whether its doorbells exit to a hypervisor is not known")),
    }
    if is_large == Some(true) {
        verdict.has_share(share, Stages::SUBMIT);
    } else {
        let sides = ["commands whose doorbell was rung", "elided"];
        case.longer(verdict, Stages::SUBMIT, LEAST, sides, is_rung)?;
    }
    if case.shadow_doorbells(verdict) == Some(true) {
        verdict.advice = "let the device wait longer before it asks for doorbells (its polling time), or submit several \
                          commands at a time, so that they share a doorbell"
            .into();
    }
    Ok(())
}

fn remote_completion(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let stages = Stages::COMPLETE.with(Stages::END);
    let sides = ["remote completions", "local completions"];
    case.longer(verdict, stages, LEAST, sides, |c| Some(c.submit_cpu? != c.end_cpu?))?;
    Ok(())
}

/// An error if no command shows this about its interrupt.
fn seen(case: &Case<'_>, of: fn(Conditions) -> Option<bool>, what: &str) -> Result<(), Reason> {
    if let Some(transport) = case.facts.fabric(case.ctrl()) {
        return Err(open(format!("{transport} has no interrupt of its own to observe")));
    }
    match (&case.facts.activity, case.facts.stage_set) {
        _ if case.commands().any(|c| of(c.conditions).is_some()) => Ok(()),
        (Some(_), StageSet::Basic) => Err(needs("record --stages=fine")),
        _ => Err(not_observed(case.facts, what)),
    }
}

fn softirq(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    seen(case, Conditions::in_softirq, "soft interrupts")?;
    let sides = ["completions in a soft interrupt", "outside one"];
    case.longer(verdict, Stages::AT_DEVICE, LEAST, sides, |c| c.conditions.in_softirq())?;
    Ok(())
}

fn idle_vcpu_wake(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    seen(case, Conditions::cpu_idle, "whether CPUs were idle")?;
    // a command that took far longer than others leaves its CPU idle, and is judged by other rules
    let is_idle = |c: &Command| (c.at.time_ns() < LONG_NS).then(|| c.conditions.cpu_idle())?;
    let sides = ["commands that found the CPU idle", "that found it busy"];
    let found = case.longer(verdict, Stages::DEVICE, 0.15, sides, is_idle);
    let found = found.and_then(|found| match found.may_cause {
        true => Ok(()),
        false => Err(out("the CPU is idle because commands take long: the fastest ones do not take longer then, or \
                          those beside them take as long")),
    });
    // our own timer may have kept CPUs from deep idle states that commands found idle
    let has_timer = |cpu: u16, at_ns| case.facts.gaps.has_timer(cpu.into(), (at_ns, at_ns));
    let is_disturbed = |c: &Command| {
        c.conditions.cpu_idle() == Some(true)
            && c.end_cpu.is_some_and(|cpu| has_timer(cpu, c.at.end_ns))
    };
    found.map_err(|reason| match reason {
        Reason(Status::RuledOut, text) if case.commands().any(is_disturbed) => open(format!(
            "{text}; but the timers that find gaps (1 kHz) kept the CPUs that complete the commands from deep idle states"
        )),
        reason => reason,
    })?;
    if case.facts.is_metal() {
        verdict.advice = "keep CPUs out of deep C-states (hold /dev/cpu_dma_latency open with 0, as `tuned-adm profile \
                          latency-performance` does, or intel_idle.max_cstate=1), and the device out of its own \
                          (/sys/class/nvme/{name}/power/pm_qos_latency_tolerance_us)"
            .into();
        verdict.risk = Some("CPUs and devices that stay awake use power");
    }
    Ok(())
}

/// Whether a command of these opcodes was in flight during the first part of a command, as long as half of its
/// class takes. In all of its time, a long command would meet any condition more often than a short one, whether or
/// not it depends on it.
fn overlaps<'f>(case: &Case<'f>, codes: &[u8]) -> impl Fn(&Command) -> bool + use<'f> {
    let facts = case.facts;
    let own = facts.of(Subject::Controller(case.ctrl())).filter(|c| codes.contains(&c.code()));
    let merged = joined(own.map(|c| (c.at.begin_ns, c.at.end_ns)), 0);
    move |command| {
        let median_ns = facts.classes.get(command.class).map_or(0, |c| c.begun_p50_ns);
        let next = merged.partition_point(|(_, end)| *end < command.at.begin_ns);
        merged.get(next).is_some_and(|(begin, _)| *begin <= command.at.begin_ns + median_ns)
    }
}

/// The disk whose commands with these opcodes take most time.
fn disk_of(case: &Case<'_>, codes: &[u8]) -> String {
    let mut classes = case.facts.classes.of_subject(case.subject);
    let most = classes.find(|c| codes.contains(&c.class.opcode.code));
    case.facts.disk_name(case.ctrl(), most.map_or(0, |c| c.class.nsid))
}

/// The share of the time of commands that are themselves the cause.
fn own_share(
    case: &Case<'_>,
    verdict: &mut Verdict,
    name: &str,
    is_own: fn(&Command) -> bool,
) -> Share {
    let own = |c: &Command| if is_own(c) { c.total() } else { 0 };
    let share = case.facts.share_of(case.commands(), |c| (own(c), own(c)));
    verdict.shows(name, format!("{} of the time", share.text()));
    verdict.name("share", share.range());
    let classes = case.facts.classes.of_subject(case.subject);
    let classes = classes.filter(|class| case.facts.of_class(class).all(is_own));
    verdict.classes = classes.map(|class| (class.class, 1.0)).collect();
    share
}

fn flush_cost(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    case.needs_all()?;
    if !case.commands().any(|c| c.code() == FLUSH) {
        return Err(absent("no flush"));
    }
    let share = own_share(case, verdict, "flushes", |c| c.code() == FLUSH);
    let is_large = share.reaches(ALONE) == Some(true);
    verdict.share = is_large.then_some(share);
    let meets = overlaps(case, &[FLUSH]);
    let sides = ["writes beside a flush", "without one"];
    let is_beside = |c: &Command| (c.code() == WRITE).then(|| meets(c));
    let found = case.longer(verdict, Stages::ALL, LEAST, sides, is_beside);
    if !is_large {
        found?;
        verdict.text =
            "Flushes slow down the writes of {name}: they take {times} times as long".into();
    }
    verdict.name("disk", disk_of(case, &[FLUSH]));
    Ok(())
}

fn fua_cost(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    /// FUA writes take so many times as long as reads.
    const TIMES: f64 = 3.0;
    if !case.commands().any(|c| c.is_fua) {
        return Err(absent("no write with FUA"));
    }
    let share = own_share(case, verdict, "writes with FUA", |c| c.is_fua);
    let sides = ["writes with FUA", "without it"];
    let is_fua = |c: &Command| (c.code() == WRITE).then_some(c.is_fua);
    let found = case.longer(verdict, Stages::ALL, LEAST, sides, is_fua);
    if let Err(reason) = found {
        // if every write carries FUA, nothing shows what it costs: a note, if they take far longer than reads
        let median_of = |holds: fn(&Command) -> bool| {
            let own = case.commands().filter(|c| holds(c)).map(|c| c.at.time_ns());
            (own.clone().count() as u64 >= NEEDED).then(|| quantile(own, 0.5))?.map(|ns| ns as f64)
        };
        let has_others = case.commands().any(|c| c.code() == WRITE && !c.is_fua);
        let medians = median_of(|c| c.is_fua).zip(median_of(|c| c.code() == READ));
        let is_far = |(fua, reads): &(f64, f64)| *fua >= TIMES * reads;
        let is_large = share.least >= ALONE && !has_others;
        let Some((fua, reads)) = medians.filter(is_far).filter(|_| is_large) else {
            return Err(reason);
        };
        verdict.status = Status::Noted;
        let medians = format!("{}, {}", nanos(fua), nanos(reads));
        verdict.shows("median of writes with FUA, of reads", medians);
        verdict.text = format!(
            "Every write to {{name}} carries FUA (O_DSYNC), which bypasses the device's write cache: they have {{share}} \
             of the time, and take {:.0} times as long as reads",
            fua / reads
        );
    }
    verdict.setting("queue/write_cache", case.disk().and_then(|disk| disk.write_cache.as_ref()));
    Ok(())
}

fn discard_storm(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if !case.commands().any(|c| DISCARDS.contains(&c.code())) {
        case.needs_all()?;
        return Err(absent("no discard"));
    }
    let meets = overlaps(case, &DISCARDS);
    let sides = ["commands beside a discard", "without one"];
    let is_beside = |c: &Command| c.is_read_or_write().then(|| meets(c));
    // commands beside a discard that was left out are among those without one
    case.longer(verdict, Stages::ALL, 0.15, sides, is_beside)
        .map_err(|reason| case.needs_all().err().unwrap_or(reason))?;
    verdict.name("from", disk_of(case, &DISCARDS));
    Ok(())
}

fn unaligned(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let sizes = case.disk().and_then(|d| d.physical_bytes.zip(d.logical_bytes));
    let sizes = sizes.ok_or_else(|| open("the block sizes of this disk are not known"))?;
    let (physical, logical) = (u64::from(sizes.0), u64::from(sizes.1));
    if physical <= logical {
        return Err(absent("physical blocks are no larger than logical ones"));
    }
    let sides = ["commands off the physical blocks", "on them"];
    case.longer(verdict, Stages::DEVICE, LEAST, sides, |c| {
        let begin = c.at.blocks.filter(|_| c.is_read_or_write())?.0.checked_mul(logical)?;
        Some(begin % physical != 0 || u64::from(c.bytes) % physical != 0)
    })?;
    Ok(())
}
