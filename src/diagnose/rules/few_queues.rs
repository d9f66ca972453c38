// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs share a queue, and wait for each other when they submit.

use std::collections::HashSet;

use super::before::FULL;
use super::condition::Condition;
use super::stray::Queues;
use crate::diagnose::report::{Answer, Cause, Command, Facts, Stages, Subject};

/// Submissions this close compete for the queue, in nanoseconds.
const CLOSE_NS: u64 = 20_000;
/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;
/// Where a command waits for others.
const STAGES: Stages = Stages::MAP.with(Stages::SUBMIT);

/// What identifies a command in memory.
const fn key(command: &Command) -> (u16, u16, u64) {
    (command.qid, command.cid, command.setup_ns)
}

/// The median time of map and submit. Each command's own time would be wrong: a long one meets more
/// others, whether or not it waits for them.
fn usual(queue: &[&Command]) -> u64 {
    let time = |c: &&Command| c.time_within(STAGES);
    let mut times: Vec<u64> = queue.iter().map(time).collect();
    let middle = times.len() / 2;
    if times.is_empty() { 0 } else { *times.select_nth_unstable(middle).1 }
}

/// Commands whose queue another CPU had begun to use just before.
fn shared(facts: &Facts, ctrl: u32) -> HashSet<(u16, u16, u64)> {
    let queues = Queues::of(facts, ctrl);
    let mut found = HashSet::new();
    for queue in queues.iter() {
        let window_ns = usual(queue).max(CLOSE_NS);
        for (n, command) in queue.iter().enumerate() {
            let ends = command.setup_ns + window_ns;
            let next = queue[n + 1..].iter().take_while(|c| c.setup_ns <= ends);
            for other in next.filter(|c| c.submit_cpu != command.submit_cpu) {
                // the first does not wait
                found.insert(key(other));
            }
        }
    }
    found
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(machine) = &facts.machine else {
        return Answer::NotLooked(FULL.into());
    };
    let controller = subject.ctrl().and_then(|ctrl| facts.controller(ctrl));
    // those of the PCI driver
    let is_pci = subject.ctrl().is_none_or(|ctrl| facts.fabric(ctrl).is_none());
    let polled = machine.poll_queues.filter(|_| is_pci).unwrap_or(0);
    let shared_queues = controller.and_then(|c| c.io_queues);
    let counts = shared_queues.map(|n| n.saturating_sub(polled)).zip(machine.cpus);
    let (Some((queues, cpus)), Some(ctrl)) = (counts, subject.ctrl()) else {
        return Answer::Open("the number of queues or CPUs is not known".into());
    };
    if queues == 0 || queues >= cpus {
        return Answer::Absent("each CPU has a queue".into());
    }
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let shared = shared(facts, ctrl);
    let condition = Condition {
        subject,
        stages: STAGES,
        least: EXPLAINS,
        sides: ["commands beside another CPU's on their queue", "alone"],
        may_follow: false,
    };
    let (stratum, comparison) = match condition.judge(facts, |c| Some(shared.contains(&key(c)))) {
        Ok(found) => found,
        Err(Answer::Out(_) | Answer::Absent(_)) if facts.is_thinned(ctrl) => {
            return Answer::Open("needs every command in memory: fewer, or a shorter run".into());
        }
        Err(answer) => return answer,
    };
    let name = format!("nvme{ctrl}");
    let cause = Cause::new(
        "few-queues",
        &name,
        format!("CPUs wait for each other to submit: {name} has {queues} I/O queues for {cpus} CPUs"),
        "give the controller a queue for each CPU (QEMU: `-device nvme,max_ioqpairs=N`; cloud: a larger \
         instance)",
    )
    .explaining_longer(&comparison)
    .shown_by(
        &format!("map+submit of {}, queue shared / alone", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("commands on a shared queue", comparison.with)
    .shown_by("I/O queues", queues)
    .shown_by("CPUs", cpus);
    Answer::cause(cause)
}
