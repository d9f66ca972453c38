// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs share a queue, and wait for each other when they submit.

use std::collections::HashSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::super::Stages;
use super::stray::Queues;

/// Submissions this close compete for the queue, in nanoseconds.
const CLOSE_NS: u64 = 20_000;
/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;

/// What identifies a command in memory.
fn key(command: &Command) -> (u32, u16, u16, u64) {
    (
        command.stratum.ctrl,
        command.qid,
        command.cid,
        command.setup_ns,
    )
}

/// The median time of map and submit. Each command's own time would be wrong: a long one meets more
/// others, whether or not it waits for them.
fn usual(queue: &[&Command]) -> u64 {
    let time = |c: &&Command| c.time_within(Stages::MAP | Stages::SUBMIT);
    let mut times: Vec<u64> = queue.iter().map(time).collect();
    let middle = times.len() / 2;
    if times.is_empty() {
        0
    } else {
        *times.select_nth_unstable(middle).1
    }
}

/// Commands whose queue another CPU had begun to use just before.
fn shared(facts: &Facts) -> HashSet<(u32, u16, u16, u64)> {
    let queues = Queues::of(facts);
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

pub fn check(facts: &Facts) -> Answer {
    let Some(machine) = &facts.machine else {
        return Answer::Unknown("queues and CPUs were not recorded".into());
    };
    let cpus = machine.cpus.unwrap_or(0);
    let fewer: Vec<_> = machine
        .controllers
        .iter()
        .filter(|c| c.io_queues.is_some_and(|n| n > 0 && n < cpus))
        .collect();
    if fewer.is_empty() {
        return Answer::Out("each CPU has a queue".into());
    }
    let shared = shared(facts);
    let fewer_of = |ctrl: u32| fewer.iter().find(|c| c.instance == ctrl);
    let found = facts.compare(Stages::MAP | Stages::SUBMIT, |command| {
        fewer_of(command.stratum.ctrl)?;
        Some(shared.contains(&key(command)))
    });
    let Some((stratum, comparison)) = found.filter(|(_, c)| c.goes_with(EXPLAINS)) else {
        return Answer::Out("commands on a shared queue are submitted as fast as others".into());
    };
    let name = format!("nvme{}", stratum.ctrl);
    let queues = fewer_of(stratum.ctrl)
        .and_then(|c| c.io_queues)
        .unwrap_or(0);
    let cause = Cause::new(
        "few-queues",
        &name,
        format!("CPUs wait for each other to submit: {name} has {queues} I/O queues for {cpus} CPUs"),
        "give the controller a queue for each CPU (QEMU: `-device nvme,max_ioqpairs=N`; cloud: a larger \
         instance)",
    )
    .explaining(comparison.explains)
    .shown_by(
        &format!("map+submit of {}, queue shared / alone", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("commands on a shared queue", comparison.with)
    .shown_by("I/O queues", queues)
    .shown_by("CPUs", cpus);
    Answer::Found(vec![cause])
}
