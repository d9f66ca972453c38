// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CQE waited without an interrupt: the driver found it only when it polled the queue after the
//! timeout.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;

pub fn check(facts: &Facts) -> Answer {
    if facts.incidents.timeouts.is_empty() {
        return Answer::Out("no command timed out".into());
    }
    let of = |ctrl: u32| {
        let polled: Vec<_> = facts.incidents.polled(ctrl).collect();
        let longest = polled.iter().map(|t| t.age_ns).max()?;
        let mut queues: Vec<u16> = polled.iter().map(|t| t.id.qid).collect();
        queues.sort_unstable();
        queues.dedup();
        let name = format!("nvme{ctrl}");
        let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        let cause = Cause::new(
            "lost-interrupt",
            &name,
            format!("{name} completed commands, but its interrupt did not arrive"),
            format!(
                "compare `grep {name}q /proc/interrupts` over time with the queues above, check the \
                 affinity of their vectors (/proc/irq/N/smp_affinity_list), and report it to the \
                 provider of the virtual machine monitor with this report"
            ),
        );
        let cause = cause
            .shown_by("commands that the driver's poll completed", polled.len())
            .shown_by("the longest waited", crate::units::nanos(longest as f64))
            .shown_by("queues", queues.join(", "));
        Some(cause)
    };
    let found = facts.incidents.controllers().into_iter().filter_map(of);
    Answer::of(
        found.collect(),
        "after the timeouts, the driver's poll found no CQE",
    )
}
