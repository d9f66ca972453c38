// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands take longer if the CPU of the interrupt was idle: a halted virtual CPU must be woken. A
//! device that saves power while idle looks the same from here.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::super::command::LONG_NS;
use super::not_shown;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.15;

pub fn check(facts: &Facts) -> Answer {
    if !facts.all().any(|c| c.conditions.cpu_idle().is_some()) {
        return Answer::Unknown("idle CPUs were not observed (record --context)".into());
    }
    let stages = Stages::DEVICE;
    // a command that went astray leaves its CPU idle, and is judged by other rules
    let found = facts.compare(stages, |c| {
        (c.total() < LONG_NS).then(|| c.conditions.cpu_idle())?
    });
    let Some((stratum, comparison)) = found else {
        return Answer::Out("too few commands found the CPU idle, or busy".into());
    };
    if !comparison.goes_with(EXPLAINS) {
        return not_shown("CPU idle / busy", &comparison);
    }
    let is_virtual = facts.machine.as_ref().and_then(|m| m.is_virtual);
    let advice = if is_virtual == Some(false) {
        "limit the power saving of the CPU (idle=poll, /dev/cpu_dma_latency) and of the device \
         (/sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us)"
    } else {
        "let the guest poll before it halts (`modprobe cpuidle_haltpoll`), or the host \
         (kvm.halt_poll_ns); or use polled queues (nvme.poll_queues)"
    };
    let name = format!("nvme{}", stratum.ctrl);
    let cause = Cause::new(
        "idle-vcpu-wake",
        &name,
        format!(
            "commands of {name} take longer while the CPU is idle: waking it, or a device that saves power, \
             costs that time"
        ),
        advice,
    )
    .with_risk("polling CPUs use power, and take it from other guests")
    .explaining(comparison.explains)
    .shown_by(
        &format!("device of {}, CPU idle / busy", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("commands with an idle CPU", comparison.with);
    Answer::Found(vec![cause])
}
