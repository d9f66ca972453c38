// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that were lost, held or failed.

use super::{Case, Rule, Tier};
use crate::diagnose::affected::{Affected, first_of, times_text};
use crate::diagnose::command::{Command, LONG_NS};
use crate::diagnose::compare::quantile;
use crate::diagnose::facts::Facts;
use crate::diagnose::incidents::{Happened, Incident, OTHERS_NS};
use crate::diagnose::verdict::{Reason, Status, Subject, Verdict, absent, open, out};
use crate::machine::inflight::StuckState;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::status::{Status as NvmeStatus, StatusType};
use crate::units::{counted, nanos};
use std::collections::BTreeSet;

/// What these rules have in common.
const RULE: Rule = Rule { tier: Tier::Incident, ..super::RULE };

pub const RULES: &[Rule] = &[
    Rule {
        id: "lost-interrupt",
        check: lost_interrupt,
        found: "after a timeout, the driver's poll finds the CQE and the command has succeeded; or a CQE waits at the \
                end of the run. Not: polled queues, which have no interrupt",
        text: "{name} completed commands, but its interrupt did not arrive",
        advice: "compare the lines {name}qN of /proc/interrupts over time, where N is the queue id: here {queues} \
                 (`inflight` shows commands that are stuck now), check the affinity of their vectors \
                 (/proc/irq/N/smp_affinity_list), and report it to {maker}, with this report",
        ..RULE
    },
    Rule {
        id: "doorbell-unseen",
        check: doorbell_unseen,
        found: "nothing completes on a queue until its next submission, which frees a command of 100 ms and more: \
                twice, or once for 1 s if a timer shows that its CPU ran; or the device has not fetched a stuck command, or \
                takes its completion queue to be full",
        text: "{name} did not notice doorbells: commands waited for the next submission",
        advice: "update the virtual machine monitor; until then switch shadow doorbells off (QEMU 8.1: `-device nvme,dbcs=off`)",
        risk: "without shadow doorbells each doorbell is an exit",
        ..RULE
    },
    Rule {
        id: "held-by-device",
        check: held_by_device,
        found: "later commands of the queue overtake one that takes 20 times its median and 250 ms (10 s if it is no \
                read or write): three times, or once for 500 ms; or the device has fetched a command that is stuck",
        text: "{name} delays commands (up to {longest})",
        advice: "{behind}",
        ..RULE
    },
    Rule {
        id: "path-failover",
        check: path_failover,
        found: "a command fails with a path-related status",
        text: "A path through {name} failed: {count} ended with a path-related status",
        advice: "check the link and the ANA state of {name} (`nvme list-subsys`), and the policy of the subsystem \
                 (/sys/class/nvme-subsystem/*/iopolicy)",
        ..RULE
    },
    Rule {
        id: "errors-timeout",
        check: errors_timeout,
        found: "three commands fail or are retried (fewer: a note); one times out; a reset. Not: unsupported commands",
        text: "{name}: {counts}",
        advice: "read `dmesg | grep {name}`{more}",
        ..RULE
    },
];

/// It is about these commands, which are stuck now or waited before.
fn shows_waits(case: &Case<'_>, verdict: &mut Verdict, stuck: Vec<Affected>, past: Vec<Affected>) {
    let longest = |all: &[Affected]| all.iter().map(Affected::time_ns).max().unwrap_or(0);
    if !stuck.is_empty() {
        verdict.shows("commands stuck now", stuck.len());
        verdict.shows("age of the oldest", nanos(longest(&stuck) as f64));
    }
    if !past.is_empty() {
        let mean = past.iter().map(|a| a.time_ns() as f64).sum::<f64>() / past.len() as f64;
        let all = case.facts.count(case.subject);
        verdict.impact(past.len() as u64, all, mean, longest(&past));
    }
    let all: Vec<Affected> = stuck.into_iter().chain(past).collect();
    verdict.name("longest", nanos(longest(&all) as f64));
    let queues: BTreeSet<u16> = all.iter().map(|a| a.qid).collect();
    verdict.name("queues", first_of(queues.iter().map(ToString::to_string)));
    verdict.about(case.facts, all);
}

/// The timeouts of a controller whose commands had completed, on queues with interrupts; or without.
fn completed(facts: &Facts, ctrl: u32, on_polled: bool) -> impl Iterator<Item = &Incident> {
    let is_polled = facts.is_polled(ctrl);
    let all = facts.incidents.timeouts(ctrl);
    all.filter(move |t| t.is_polled && is_polled(t.affected.qid) == on_polled)
}

fn lost_interrupt(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let (facts, ctrl) = (case.facts, case.ctrl());
    case.needs_pci("has no interrupt of its own")?;
    let stuck = facts.stuck(ctrl, |state| state == Some(StuckState::Answered));
    let lost: Vec<Affected> = completed(facts, ctrl, false).map(|t| t.affected).collect();
    if stuck.is_empty() && lost.is_empty() {
        let is_waiting = !facts.stuck(ctrl, |s| s == Some(StuckState::NotPolled)).is_empty();
        let is_polled = is_waiting || completed(facts, ctrl, true).next().is_some();
        return Err(match facts.incidents.timeouts(ctrl).next() {
            _ if is_polled => {
                out("polled queues have no interrupt: nothing polled the completed commands")
            }
            None => absent("no command timed out"),
            Some(_) => out("after the timeouts, the driver's poll found no CQE"),
        });
    }
    // at the same time
    let is_alike = |own: &Affected, other: &Affected| {
        own.qid == other.qid && own.end_ns.abs_diff(other.end_ns) < 1_000_000_000
    };
    let is_same = |other: &Incident| lost.iter().any(|own| is_alike(own, &other.affected));
    let others: BTreeSet<u32> = facts.incidents.ctrls().filter(|other| *other != ctrl).collect();
    let others = others.into_iter().filter(|other| completed(facts, *other, false).any(is_same));
    let others = first_of(others.map(|other| format!("nvme{other}")));
    shows_waits(case, verdict, stuck, lost);
    let early = facts.counted(|a| a.early_interrupts);
    verdict.shows_if("interrupts that found no CQE, all controllers", early);
    if early.is_some_and(|count| count > 0) {
        // too early, or after the timeout's poll: the kernel does not say which
        verdict.text = "{name} completed commands, but its interrupt did not arrive, or came when there was no CQE".into();
    }
    if !others.is_empty() {
        verdict.shows("the same queue, within a second", others);
        verdict.advice = "several controllers lost the same queue id at once, which points to the virtual machine \
                          monitor, not to a device: report it to {maker}, with this report"
            .into();
    }
    let is_metal = facts.is_metal();
    verdict.name("maker", if is_metal { "the device's maker" } else { "the hypervisor's maker" });
    Ok(())
}

/// A command that took far longer than others of its class.
struct Outlier<'f> {
    command: &'f Command,
    /// From its setup to its CQE.
    at: Affected,
    /// The commands of its queue in the order of their setups, and those after it.
    queue: &'f [&'f Command],
    later: &'f [&'f Command],
    median_ns: u64,
}

/// The commands of a controller by queue, in the order of their setups.
pub fn queues(facts: &Facts, ctrl: u32) -> Vec<Vec<&Command>> {
    let long = facts.commands.long.iter().filter(|c| c.class.ctrl == ctrl);
    let all = facts.of(Subject::Controller(ctrl)).chain(long);
    let mut all: Vec<&Command> = all.filter(|c| c.setup_ns > 0 && c.cqe_ns > 0).collect();
    all.sort_by_key(|c| (c.at.qid, c.setup_ns));
    all.chunk_by(|a, b| a.at.qid == b.at.qid).map(<[&Command]>::to_vec).collect()
}

/// Commands that took 20 times the median of their class, and 100 ms.
fn outliers<'f>(facts: &'f Facts, queues: &'f [Vec<&'f Command>]) -> Vec<Outlier<'f>> {
    let of_queue = |queue: &'f Vec<&'f Command>| {
        queue.iter().enumerate().filter_map(move |(n, command)| {
            let median_ns = facts.classes.get(command.class)?.begun_p50_ns;
            let usual = if command.is_read_or_write() { LONG_NS } else { OTHERS_NS };
            let at = Affected { begin_ns: command.setup_ns, end_ns: command.cqe_ns, ..command.at };
            let found = Outlier { command, at, queue, later: &queue[n + 1..], median_ns };
            (at.time_ns() >= median_ns.saturating_mul(20).max(usual)).then_some(found)
        })
    };
    queues.iter().flat_map(of_queue).collect()
}

impl Outlier<'_> {
    /// Whether a later command completed in the first half of its time.
    fn was_overtaken(&self) -> bool {
        let half = self.at.begin_ns + self.at.time_ns() / 2;
        self.later.iter().take_while(|c| c.setup_ns < half).any(|c| c.cqe_ns < half)
    }

    /// Whether its CPU did not run for most of the time until then.
    fn was_away(&self, facts: &Facts, until_ns: u64) -> bool {
        let begin_ns = self.at.begin_ns;
        let away_ns = |cpu: u16| facts.gaps.within(cpu.into(), (begin_ns, until_ns));
        self.command.submit_cpu.map_or(0, away_ns) > until_ns.saturating_sub(begin_ns) / 2
    }

    /// Whether it is known to have waited for something else than the device: for the next submission, for an
    /// interrupt that was lost, or for its CPU.
    fn has_other_cause(&self, facts: &Facts) -> bool {
        let Affected { disk, qid, cid, begin_ns, end_ns, .. } = self.at;
        let is_lost = |timeout: &Incident| {
            let of = &timeout.affected;
            timeout.is_polled && (of.qid, of.cid) == (qid, cid) && of.end_ns >= begin_ns
        };
        self.freed_ns().is_some()
            || facts.incidents.timeouts(disk.ctrl).any(is_lost)
            || self.was_away(facts, end_ns)
    }

    /// When the next submission freed it: nothing on the queue completed before, and then this command
    /// did, as fast as any.
    fn freed_ns(&self) -> Option<u64> {
        let Affected { begin_ns, end_ns, .. } = self.at;
        let next_ns = self.later.first()?.setup_ns;
        let rest = end_ns.checked_sub(next_ns)?;
        let is_silent = self.queue.iter().all(|c| c.cqe_ns <= begin_ns || c.cqe_ns >= next_ns);
        let is_fast = rest < self.at.time_ns() / 10 && rest < self.median_ns * 3 + 5_000_000;
        (is_silent && is_fast).then_some(next_ns)
    }
}

/// One command that waited this long for the next submission suffices.
const UNSEEN_NS: u64 = 1_000_000_000;

fn doorbell_unseen(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let (facts, ctrl) = (case.facts, case.ctrl());
    case.needs_pci("has no doorbells")?;
    let queues = queues(facts, ctrl);
    let has_all_gaps = facts.counted(|a| Some(a.gaps_lost)) == Some(0);
    let (mut freed, mut by, mut is_certain) = (Vec::new(), BTreeSet::new(), false);
    for outlier in outliers(facts, &queues) {
        let next_ns = outlier.freed_ns().filter(|next_ns| !outlier.was_away(facts, *next_ns));
        let Some(next_ns) = next_ns else { continue };
        let at = outlier.at;
        let is_timed = |cpu: u16| facts.gaps.has_timer(cpu.into(), (at.begin_ns, next_ns));
        let ran = has_all_gaps && outlier.command.submit_cpu.is_some_and(is_timed);
        is_certain |= ran && at.time_ns() >= UNSEEN_NS;
        by.insert((at.qid, next_ns));
        freed.push(at);
    }
    let lacks = facts.lacks(case.subject);
    let is_freed = lacks.is_none() && (by.len() > 1 || is_certain);
    let stuck = facts.stuck(ctrl, |state| {
        matches!(state, Some(StuckState::NotFetched | StuckState::CqSeemsFull))
    });
    if stuck.is_empty() && !is_freed {
        return Err(match lacks {
            Some(why) if !freed.is_empty() => open(why),
            _ if freed.iter().any(|one| one.time_ns() >= UNSEEN_NS) => {
                open("a command waited for the next submission; no timer shows whether its CPU ran")
            }
            _ => absent("no command waited for the next submission on its queue"),
        });
    }
    shows_waits(case, verdict, stuck, if is_freed { freed } else { Vec::new() });
    case.shadow_doorbells(verdict);
    Ok(())
}

fn held_by_device(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    /// One command that was held this long suffices.
    const CERTAIN_NS: u64 = 500_000_000;
    /// Otherwise three of this time. Devices with bursts take 100 ms now and then.
    const SEVERAL_NS: u64 = 250_000_000;
    let (facts, ctrl) = (case.facts, case.ctrl());
    let queues = queues(facts, ctrl);
    let mut delayed = outliers(facts, &queues);
    delayed.retain(|one| one.at.time_ns() >= SEVERAL_NS);
    let held: Vec<&Outlier<'_>> = delayed.iter().filter(|one| one.was_overtaken()).collect();
    let is_held = held.len() >= 3 || held.iter().any(|one| one.at.time_ns() >= CERTAIN_NS);
    let stuck = facts.stuck(ctrl, |state| state == Some(StuckState::Held));
    if stuck.is_empty() && !is_held {
        let unproved = facts.stuck(ctrl, |state| {
            use StuckState::{Answered, CqSeemsFull, Held, NotFetched, NotPolled};
            !matches!(state, Some(Answered | CqSeemsFull | NotPolled | NotFetched | Held))
        });
        return Err(match unproved.iter().map(Affected::time_ns).max() {
            Some(oldest) => open(format!(
                "a command has been in flight for {}, and nothing proves where it is: see `inflight`",
                nanos(oldest as f64)
            )),
            None => absent(
                "no command waited 250 ms and 20 times its median while later ones completed",
            ),
        });
    }
    // overtaken ones prove that the device holds commands. If it holds all of a queue, none is overtaken
    let delayed = delayed.iter().filter(|one| is_held && !one.has_other_cause(facts));
    verdict.shows_if("commands that later ones overtook", is_held.then_some(held.len()));
    shows_waits(case, verdict, stuck, delayed.map(|one| one.at).collect());
    verdict.name("behind", facts.behind(ctrl));
    Ok(())
}

fn path_failover(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let incidents = &case.facts.incidents;
    let count = incidents.count(case.ctrl(), Happened::is_path_error);
    if count == 0 {
        return Err(absent("no command failed with a path-related status"));
    }
    verdict.name("count", counted(count, "command"));
    let failed = incidents.of(case.ctrl()).filter(|i| i.what.is_path_error());
    verdict.about(case.facts, failed.map(|i| i.affected).collect());
    Ok(())
}

/// The status, if a failure is the device's, and not due to a request that it does not support.
fn failure_of_device(what: Happened) -> Option<NvmeStatus> {
    let Happened::Failed(code) = what else { return None };
    Some(NvmeStatus(code)).filter(|status| match status.kind() {
        // invalid opcode, field, namespace
        StatusType::Generic => !matches!(status.code(), 0x01 | 0x02 | 0x0b),
        StatusType::CommandSpecific | StatusType::Path => false,
        _ => true,
    })
}

fn is_media(what: Happened) -> bool {
    failure_of_device(what).is_some_and(|status| status.kind() == StatusType::Media)
}

fn errors_timeout(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    let (facts, ctrl) = (case.facts, case.ctrl());
    let incidents = &facts.incidents;
    let of = |what| incidents.count(ctrl, |w| w == what);
    let failed = incidents.count(ctrl, |what| failure_of_device(what).is_some());
    // failures of a failed path belong to the path
    let retries =
        of(Happened::Retried).saturating_sub(incidents.count(ctrl, Happened::is_path_error));
    let waiting = completed(facts, ctrl, true).count() as u64;
    let had_completed = waiting + completed(facts, ctrl, false).count() as u64;
    let timeouts = of(Happened::TimedOut).saturating_sub(had_completed);
    let resets = of(Happened::Reset);
    if failed + retries + timeouts + waiting + resets == 0 {
        let remote =
            facts.fabric(ctrl).map(|name| format!(" (timeouts of {name} are not observed)"));
        let remote = remote.unwrap_or_default();
        return Err(absent(format!("no failure, retry, timeout or reset{remote}")));
    }
    for (what, count) in incidents.counts(ctrl) {
        if let Some(status) = failure_of_device(what) {
            verdict.shows(status.to_string(), counted(count, "command"));
        }
    }
    shows_resets(case, verdict);
    let is_polled = facts.is_polled(ctrl);
    let is_own = |i: &&Incident| match i.what {
        Happened::TimedOut => !i.is_polled || is_polled(i.affected.qid),
        Happened::Retried => retries > 0,
        Happened::Reset => false,
        Happened::Failed(_) => failure_of_device(i.what).is_some(),
    };
    let own = incidents.of(ctrl).filter(is_own);
    let all: Vec<Affected> = own.clone().map(|i| i.affected).collect();
    verdict.shows("what most have in common", in_common(facts, ctrl, &all));
    let media = own.filter(|i| is_media(i.what)).map(|i| i.affected).collect::<Vec<_>>();
    let mut blocks = facts.blocks_of(&media);
    if blocks.is_empty() {
        blocks = "that dmesg names".into();
    }
    let advice = format!(
        "; the medium has errors: see `nvme smart-log /dev/nvme{ctrl}` and `nvme error-log /dev/nvme{ctrl}`, and restore \
         the data of the blocks {blocks}"
    );
    let commands = |n: u64, what: &str| format!("{} {what}", counted(n, "command"));
    let completed = counted(waiting, "completed command");
    let retried = if retries == 1 { "1 retry".into() } else { format!("{retries} retries") };
    // what happened, and what to do besides reading the log
    let rows = [
        (failed, commands(failed, "failed"), if media.is_empty() { "" } else { &advice }),
        (
            timeouts,
            commands(timeouts, "timed out"),
            "; where the storage is slow for longer than the timeout, raise it (nvme_core.io_timeout)",
        ),
        (
            waiting,
            format!("{completed} timed out because nothing polled the queue"),
            "; see why the application stopped polling: the driver finds completions of polled queues only then",
        ),
        (retries, retried, "; each retry waits and runs again"),
        (resets, counted(resets, "reset"), ""),
    ];
    let rows = || rows.iter().filter(|(count, ..)| *count > 0);
    verdict.name("counts", rows().map(|row| &*row.1).collect::<Vec<_>>().join(", "));
    verdict.name("more", rows().map(|row| row.2).collect::<String>());
    verdict.about(facts, all);
    if timeouts + waiting + resets == 0 && failed.max(retries) < 3 {
        verdict.status = Status::Noted;
    }
    Ok(())
}

/// When the controller was reset.
pub fn shows_resets(case: &Case<'_>, verdict: &mut Verdict) {
    let resets = case.facts.incidents.of(case.ctrl()).filter(|i| i.what == Happened::Reset);
    let times = resets.map(|i| (i.affected.begin_ns, i.affected.end_ns));
    verdict.shows("reset at", times_text(case.facts.clock, times));
}

/// What nearly all of some commands share, though the other commands of the controller do not: queue, opcode,
/// size, or that the controller was idle before them.
fn in_common(facts: &Facts, ctrl: u32, all: &[Affected]) -> String {
    /// Something that commands may share.
    type Trait<'a> = &'a dyn Fn(&Affected) -> Option<String>;
    /// Fewest commands.
    const FEW: usize = 4;
    /// Nearly all.
    const NEARLY: f64 = 0.9;
    /// What most other commands share says nothing about these.
    const USUAL: f64 = 0.5;
    /// The controller is idle if nothing was submitted or completed for so long.
    const IDLE_NS: u64 = 100_000_000;
    if all.len() < FEW {
        return String::new();
    }
    let others = facts.of(Subject::Controller(ctrl)).map(|c| c.at);
    let others: Vec<Affected> = others.collect();
    let mut times: Vec<u64> = others.iter().flat_map(|c| [c.begin_ns, c.end_ns]).collect();
    times.sort_unstable();
    let is_after_idle = |c: &Affected| {
        let before = times.partition_point(|at| *at < c.begin_ns).checked_sub(1)?;
        (c.begin_ns - times[before] >= IDLE_NS)
            .then(|| format!("an idle time of {} and more before", nanos(IDLE_NS as f64)))
    };
    let opcode =
        |c: &Affected| Opcode { queue: QueueKind::Io, code: c.code? }.name().map(str::to_owned);
    let size = |c: &Affected| {
        c.blocks.map(|(first, last)| counted((last - first).saturating_add(1), "block"))
    };
    let traits: [Trait<'_>; 4] =
        [&|c| Some(format!("queue {}", c.qid)), &opcode, &size, &is_after_idle];
    first_of(traits.iter().filter_map(|of| {
        // what nearly all share is in the middle, too
        let value = quantile(all.iter().filter_map(of), 0.5)?;
        let count =
            |all: &[Affected]| all.iter().filter(|c| of(c).as_ref() == Some(&value)).count();
        let (own, usual) = (count(all), count(&others));
        let is_shared = own as f64 >= NEARLY * all.len() as f64;
        let is_usual = usual as f64 > USUAL * others.len() as f64;
        (is_shared && !is_usual).then(|| format!("{value} ({own} of {})", all.len()))
    }))
}
