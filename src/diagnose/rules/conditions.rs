// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions that coincide with longer times.

use std::collections::HashSet;

use super::incidents::queues;
use super::{CONDITION, FULL, RULE, not_observed};
use crate::diagnose::affected::joined;
use crate::diagnose::command::{Command, LONG_NS};
use crate::diagnose::compare::{NEEDED, median};
use crate::diagnose::facts::{Facts, Stages};
use crate::diagnose::rule::{Case, Condition, Kind, Rule, Test};
use crate::diagnose::verdict::{
    MOST, Reason, Scope, Status, Subject, Verdict, absent, needs, open, out,
};
use crate::model::command_class::{Announcement, Conditions};
use crate::model::machine::Class;
use crate::model::stage::StageSet;
use crate::units::nanos;

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
/// Write Zeroes and Dataset Management.
const DISCARDS: [u8; 2] = [8, 9];
/// Commands that are themselves a cause have this share of the time.
const ALONE: f64 = 0.3;
pub const SUBMISSION: Stages = Stages::MAP.with(Stages::SUBMIT);

pub const RULES: &[Rule] = &[
    Rule {
        id: "few-queues",
        noun: "shared queues",
        kind: Kind::Longer(Condition {
            stages: SUBMISSION,
            sides: ["commands beside another CPU's on their queue", "alone"],
            when: shared_queue,
            then: queues_and_cpus,
            ..CONDITION
        }),
        found: "there are fewer queues than CPUs, and map and submit take longer if another CPU submits to the queue at \
                that time",
        text: "CPUs wait for each other to submit: {name} has {queues} I/O queues for {cpus} CPUs",
        advice: "give the controller a queue for each CPU (QEMU: `-device nvme,max_ioqpairs=N`; cloud: a larger instance)",
        ..RULE
    },
    Rule {
        id: "doorbell-exit",
        noun: "doorbell exits",
        kind: Kind::Longer(Condition {
            stages: Stages::SUBMIT,
            sides: ["commands whose doorbell was rung", "elided"],
            alone: MOST,
            when: rung,
            then: shadow_doorbells,
            ..CONDITION
        }),
        found: "the controller is emulated by a virtual machine monitor, and submit has most of the time, or takes \
                longer if the doorbell is rung than if it is elided",
        text: "The doorbells of {name} take long: each one is an exit to the hypervisor",
        advice: "use a controller with shadow doorbells (QEMU 7.1 and later has them) and ioeventfd (`-device \
                 nvme,ioeventfd=on`), or submit several commands at a time",
        ..RULE
    },
    Rule {
        id: "remote-completion",
        noun: "remote completion",
        kind: Kind::Longer(Condition {
            stages: Stages::COMPLETE.with(Stages::END),
            sides: ["remote completions", "local completions"],
            when: |_| Ok(Box::new(|c| Some(c.submit_cpu? != c.end_cpu?))),
            then: rq_affinity,
            ..CONDITION
        }),
        found: "complete and end take longer on another CPU than the submitting one",
        text: "Commands of {disk} take longer to complete on another CPU than the submitting one",
        advice: "`echo 2 > /sys/block/{disk}/queue/rq_affinity`, or give each CPU a queue",
        risk: "an interrupt to the submitting CPU for each completion",
        ..RULE
    },
    Rule {
        id: "softirq",
        noun: "soft interrupts",
        kind: Kind::Longer(Condition {
            stages: Stages::AT_DEVICE,
            sides: ["completions in a soft interrupt", "outside one"],
            when: |case| {
                seen(case, Conditions::in_softirq, "soft interrupts")?;
                Ok(Box::new(|c| c.conditions.in_softirq()))
            },
            ..CONDITION
        }),
        found: "device and irq take longer if the interrupt comes in a soft interrupt",
        text: "Commands of {name} take longer if their interrupt comes in a soft interrupt",
        advice: "move that load to other CPUs (affinity of the network's interrupts, RPS), or the queue's interrupt to \
                 another one",
        ..RULE
    },
    Rule {
        id: "idle-vcpu-wake",
        noun: "the wake of idle CPUs",
        kind: Kind::Longer(Condition {
            stages: Stages::DEVICE,
            least: 0.15,
            sides: ["commands that found the CPU idle", "that found it busy"],
            follows: true,
            when: idle,
            then: c_states,
            otherwise: disturbed,
            ..CONDITION
        }),
        found: "device takes longer if the CPU is idle, on CPUs without our timer",
        text: "Commands of {name} take longer while the CPU is idle: waking the virtual CPU, or a device that saves \
               power, costs that time",
        advice: "let the guest poll before it halts (`modprobe cpuidle_haltpoll`), or the host (kvm.halt_poll_ns); or \
                 use polled queues (nvme.poll_queues)",
        risk: "polling CPUs use power, and take it from other guests",
        ..RULE
    },
    Rule {
        id: "flush-cost",
        noun: "flushes",
        kind: Kind::Longer(Condition {
            sides: ["writes beside a flush", "without one"],
            itself: Some(("flushes", |c| c.code() == FLUSH)),
            alone: ALONE,
            when: beside_flush,
            then: flushing,
            ..CONDITION
        }),
        found: "flushes have 30% of the time, or writes take longer beside them",
        text: "Flushes take {share} of the time on {name}",
        advice: "let the application flush less often (group commits); where losing the last writes is acceptable, or \
                 the cache survives a power cut, `echo \"write through\" > /sys/block/{disk}/queue/write_cache` sends no \
                 flushes",
        risk: "without flushes, a power cut loses data that the application believes written",
        ..RULE
    },
    Rule {
        id: "fua-cost",
        noun: "writes with FUA",
        scope: Scope::Disk,
        kind: Kind::Longer(Condition {
            sides: ["writes with FUA", "without it"],
            itself: Some(("writes with FUA", |c| c.is_fua)),
            when: with_fua,
            then: write_cache,
            otherwise: all_with_fua,
            ..CONDITION
        }),
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
        noun: "discards",
        kind: Kind::Longer(Condition {
            least: 0.15,
            sides: ["commands beside a discard", "without one"],
            when: beside_discard,
            then: |case, verdict| {
                verdict.name("from", disk_of(case, &DISCARDS));
                Ok(())
            },
            // commands beside a discard that was left out are among those without one
            otherwise: |case, _, reason| Err(case.needs_all().err().unwrap_or(reason)),
            ..CONDITION
        }),
        found: "reads or writes take longer beside discards (Dataset Management, Write Zeroes)",
        text: "Discards on {from} slow down the commands of {disk}: they take {times} times as long",
        advice: "mount without `discard` and run fstrim at quiet times; limit one discard by \
                 /sys/block/{from}/queue/discard_max_bytes",
        risk: "blocks are returned to the device later",
        ..RULE
    },
    Rule {
        id: "unaligned",
        noun: "unaligned commands",
        scope: Scope::Disk,
        kind: Kind::Longer(Condition {
            stages: Stages::DEVICE,
            sides: ["commands off the physical blocks", "on them"],
            when: off_blocks,
            ..CONDITION
        }),
        found: "device takes longer off the physical blocks",
        text: "Commands of {name} that are not aligned to its physical blocks take longer",
        advice: "align partitions and file systems to the physical block size",
        ..RULE
    },
];

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

/// I/O queues with interrupts, and CPUs.
fn queue_counts(case: &Case<'_>) -> Result<(u32, u32), Reason> {
    let machine = case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    // of the PCI driver
    let is_pci = case.facts.fabric(case.ctrl()).is_none();
    let polled = machine.poll_queues.filter(|_| is_pci).unwrap_or(0);
    let queues = case.controller().and_then(|c| c.io_queues).map(|n| n.saturating_sub(polled));
    let unknown = || open("the number of queues or CPUs is not known");
    queues.zip(machine.cpus).ok_or_else(unknown)
}

/// Whether another CPU had begun to use the queue just before.
fn shared_queue<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    /// Submissions this close compete for the queue.
    const CLOSE_NS: u64 = 20_000;
    let (count, cpus) = queue_counts(case)?;
    if count == 0 || count >= cpus {
        return Err(absent("each CPU has a queue"));
    }
    case.needs_all()?;
    if case.facts.is_thinned(case.ctrl()) {
        return Err(open("needs every command in memory: fewer, or a shorter run"));
    }
    let key = |c: &Command| (c.qid, c.cid, c.setup_ns);
    let mut shared = HashSet::new();
    for queue in queues(case.facts, case.ctrl()) {
        // the median time. Each command's own would be wrong: a long one meets more others, whether or not
        // it waits for them
        let times = queue.iter().map(|c| c.time_bounds(SUBMISSION).0);
        let window_ns = median(times).unwrap_or(0).max(CLOSE_NS);
        for (n, command) in queue.iter().enumerate() {
            let ends = command.setup_ns + window_ns;
            let next = queue[n + 1..].iter().take_while(|c| c.setup_ns <= ends);
            // the first does not wait
            shared.extend(next.filter(|c| c.submit_cpu != command.submit_cpu).map(|c| key(c)));
        }
    }
    Ok(Box::new(move |c| Some(shared.contains(&key(c)))))
}

fn queues_and_cpus(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let (queues, cpus) = queue_counts(case)?;
    verdict.name("queues", queues);
    verdict.name("cpus", cpus);
    Ok(())
}

fn is_rung(command: &Command) -> Option<bool> {
    command.conditions.announcement().map(|how| how == Announcement::Rung)
}

/// Whether the doorbell was rung, on a controller whose doorbells exit to a hypervisor.
fn rung<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    let share = case.share(Stages::SUBMIT);
    let small = || out(format!("submit has {} of the time", share.text()));
    if share.most < CONDITION.least {
        return Err(small());
    }
    if let Some(transport) = case.facts.fabric(case.ctrl()) {
        return Err(absent(format!("{transport} has no doorbells")));
    }
    let class = case.facts.device_class(case.ctrl());
    let is_elided = |c: &Command| is_rung(c) == Some(false);
    Err(match class {
        _ if case.facts.is_metal() => absent("there is no hypervisor"),
        Some(Class::Passthrough | Class::Physical | Class::Cloud) => {
            absent("the doorbells of this controller go to hardware: they do not exit")
        }
        // elided doorbells are no exits
        Some(Class::Emulated) if case.commands().all(is_elided) => {
            out("no doorbell was rung: the shadow doorbells elided all")
        }
        // only the share can decide
        Some(Class::Emulated)
            if share.reaches(MOST) == Some(false) && !case.commands().any(is_elided) =>
        {
            small()
        }
        Some(Class::Emulated) => return Ok(Box::new(is_rung)),
        _ => open("whether the doorbells of this controller exit to a hypervisor is not known"),
    })
}

fn shadow_doorbells(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if case.shadow_doorbells(verdict) == Some(true) {
        verdict.advice = "let the device wait longer before it asks for doorbells (its polling time), or submit several \
                          commands at a time, so that they share a doorbell"
            .into();
    }
    Ok(())
}

fn rq_affinity(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let mut disks = case.controller().into_iter().flat_map(|c| &c.disks);
    if disks.any(|d| verdict.value_of("disk") == Some(&*d.name) && d.rq_affinity == Some(2)) {
        verdict.advice = "give each CPU a queue, so that its commands complete on it".into();
    }
    Ok(())
}

/// Our own timer may have kept CPUs from deep idle states that commands found idle.
fn disturbed(case: &Case<'_>, _: &mut Verdict, reason: Reason) -> Result<(), Reason> {
    let has_timer = |cpu: u16, at_ns| case.facts.gaps.has_timer(cpu.into(), (at_ns, at_ns));
    let is_disturbed = case.commands().any(|c| {
        c.end_cpu.is_some_and(|cpu| has_timer(cpu, c.end_ns))
            && c.conditions.cpu_idle() == Some(true)
    });
    match reason {
        Reason(Status::RuledOut, text) if is_disturbed => Err(open(format!(
            "{text}; but the timers that find gaps (1 kHz) kept the CPUs that complete the commands from deep idle states"
        ))),
        reason => Err(reason),
    }
}

fn idle<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    seen(case, Conditions::cpu_idle, "whether CPUs were idle")?;
    // a command that took far longer than others leaves its CPU idle, and is judged by other rules
    Ok(Box::new(|c| (c.since_begin() < LONG_NS).then(|| c.conditions.cpu_idle())?))
}

fn c_states(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if case.facts.is_metal() {
        verdict.text = "Commands of {name} take longer while the CPU is idle: leaving a deep C-state, or a device that \
                        saves power, costs that time"
            .into();
        verdict.advice = "keep CPUs out of deep C-states (hold /dev/cpu_dma_latency open with 0, as `tuned-adm profile \
                          latency-performance` does, or intel_idle.max_cstate=1), and the device out of its own \
                          (/sys/class/nvme/{name}/power/pm_qos_latency_tolerance_us)"
            .into();
        verdict.risk = Some("CPUs and devices that stay awake use power");
    }
    Ok(())
}

/// Whether a command of these opcodes was in flight during the first part of a command, as long as half of its
/// class takes.
fn overlaps<'f>(facts: &'f Facts, ctrl: u32, codes: &[u8]) -> impl Fn(&Command) -> bool + use<'f> {
    let own = facts.of(Subject::Controller(ctrl)).filter(|c| codes.contains(&c.code()));
    let merged = joined(own.map(|c| (c.begin_ns, c.end_ns)), 0);
    move |command| {
        let (from, to) = facts.expected(command);
        let next = merged.partition_point(|(_, end)| *end < from);
        merged.get(next).is_some_and(|(begin, _)| *begin <= to)
    }
}

/// The disk whose commands with these opcodes take most time.
fn disk_of(case: &Case<'_>, codes: &[u8]) -> String {
    let mut classes = case.facts.classes.of_subject(case.subject);
    let most = classes.find(|c| codes.contains(&c.class.opcode.code));
    case.facts.disk_name(case.ctrl(), most.map_or(0, |c| c.class.nsid))
}

/// The part of the time that some commands have.
fn part_of(case: &Case<'_>, is_own: fn(&Command) -> bool) -> f64 {
    let own = case.commands().filter(|c| is_own(c));
    case.facts.sum(own, Command::total) / case.facts.total(case.subject).max(1.0)
}

fn beside_flush<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    case.needs_all()?;
    if !case.commands().any(|c| c.code() == FLUSH) {
        return Err(absent("no flush"));
    }
    let meets = overlaps(case.facts, case.ctrl(), &[FLUSH]);
    Ok(Box::new(move |c| (c.code() == WRITE).then(|| meets(c))))
}

fn flushing(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    verdict.name("disk", disk_of(case, &[FLUSH]));
    if part_of(case, |c| c.code() == FLUSH) < ALONE {
        verdict.text =
            "Flushes slow down the writes of {name}: they take {times} times as long".into();
    }
    Ok(())
}

fn with_fua<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    match case.commands().any(|c| c.is_fua) {
        true => Ok(Box::new(|c| (c.code() == WRITE).then_some(c.is_fua))),
        false => Err(absent("no write with FUA")),
    }
}

fn write_cache(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    verdict.setting("queue/write_cache", case.disk().and_then(|disk| disk.write_cache.as_ref()));
    Ok(())
}

/// If every write carries FUA, nothing shows what it costs: a note, if they take far longer than reads.
fn all_with_fua(case: &Case<'_>, verdict: &mut Verdict, reason: Reason) -> Result<(), Reason> {
    /// FUA writes take so many times as long as reads.
    const TIMES: f64 = 3.0;
    let median_of = |holds: fn(&Command) -> bool| {
        let own = case.commands().filter(|c| holds(c)).map(Command::since_begin);
        (own.clone().count() as u64 >= NEEDED).then(|| median(own))?.map(|ns| ns as f64)
    };
    let has_others = case.commands().any(|c| c.code() == WRITE && !c.is_fua);
    let is_large = part_of(case, |c| c.is_fua) >= ALONE && !has_others;
    let medians = median_of(|c| c.is_fua).zip(median_of(|c| c.code() == 2));
    let far = medians.filter(|(fua, reads)| is_large && *fua >= TIMES * reads);
    let Some((fua, reads)) = far else { return Err(reason) };
    verdict.status = Status::Noted;
    verdict
        .shows("median of writes with FUA, of reads", format!("{}, {}", nanos(fua), nanos(reads)));
    verdict.text = format!(
        "Every write to {{name}} carries FUA (O_DSYNC), which bypasses the device's write cache: they have {{share}} of \
         the time, and take {:.0} times as long as reads",
        fua / reads
    );
    write_cache(case, verdict)
}

fn beside_discard<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    if !case.commands().any(|c| DISCARDS.contains(&c.code())) {
        case.needs_all()?;
        return Err(absent("no discard"));
    }
    let meets = overlaps(case.facts, case.ctrl(), &DISCARDS);
    Ok(Box::new(move |c| c.is_read_or_write().then(|| meets(c))))
}

fn off_blocks<'f>(case: &Case<'f>) -> Result<Test<'f>, Reason> {
    case.facts.machine.as_ref().ok_or_else(|| needs(FULL))?;
    let sizes = case.disk().and_then(|d| d.physical_bytes.zip(d.logical_bytes));
    let sizes = sizes.ok_or_else(|| open("the block sizes of this disk are not known"))?;
    let (physical, logical) = (u64::from(sizes.0), u64::from(sizes.1));
    if physical <= logical {
        return Err(absent("physical blocks are no larger than logical ones"));
    }
    Ok(Box::new(move |c| {
        let begin = c.blocks.filter(|_| c.is_read_or_write())?.0.checked_mul(logical)?;
        Some(begin % physical != 0 || u64::from(c.bytes) % physical != 0)
    }))
}
