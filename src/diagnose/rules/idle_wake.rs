// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands take longer if the CPU of the interrupt was idle: a halted virtual CPU must be woken. A
//! device that saves power while idle looks the same from here.

use super::condition::Condition;
use super::unseen;
use crate::diagnose::command::LONG_NS;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};
use crate::model::conditions::Conditions;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.15;

/// Whether commands found a CPU idle that our own timer kept from deep idle states.
fn is_disturbed(facts: &Facts, subject: Subject) -> bool {
    facts.of_subject(subject).any(|c| {
        let cpu = c.end_cpu.map(u32::from);
        let timed = cpu.is_some_and(|cpu| facts.gaps.has_timer(cpu, (c.end_ns, c.end_ns)));
        timed && c.conditions.cpu_idle() == Some(true)
    })
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if let Some(answer) = unseen(facts, subject, Conditions::cpu_idle, "whether CPUs were idle") {
        return answer;
    }
    let condition = Condition {
        subject,
        stages: Stages::DEVICE,
        least: EXPLAINS,
        sides: ["commands that found the CPU idle", "that found it busy"],
        may_follow: true,
    };
    // a command that went astray leaves its CPU idle, and is judged by other rules
    let found =
        condition.judge(facts, |c| (c.since_begin() < LONG_NS).then(|| c.conditions.cpu_idle())?);
    let (stratum, comparison) = match found {
        Ok(found) => found,
        Err(Answer::Out(text)) if is_disturbed(facts, subject) => {
            return Answer::Open(format!(
                "{text}; but the timers that find gaps (1 kHz) kept the CPUs that complete the commands \
                 from deep idle states"
            ));
        }
        Err(answer) => return answer,
    };
    let is_metal = facts.machine.as_ref().and_then(|m| m.is_virtual) == Some(false);
    let (advice, risk) = if is_metal {
        (
            "limit the power saving of the CPU (idle=poll, /dev/cpu_dma_latency) and of the device \
             (/sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us)",
            "CPUs and devices that stay awake use power",
        )
    } else {
        (
            "let the guest poll before it halts (`modprobe cpuidle_haltpoll`), or the host \
             (kvm.halt_poll_ns); or use polled queues (nvme.poll_queues)",
            "polling CPUs use power, and take it from other guests",
        )
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "idle-vcpu-wake",
        &name,
        format!(
            "commands of {name} take longer while the CPU is idle: waking it, or a device that saves power, \
             costs that time"
        ),
        advice,
    )
    .with_risk(risk)
    .explaining_longer(&comparison)
    .shown_by(
        &format!("device of {}, CPU idle / busy", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("commands with an idle CPU", comparison.with);
    Answer::cause(cause)
}
