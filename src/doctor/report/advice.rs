// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: settings that the user could change to see more, and notes on the numbers. Pure.
//!
//! A rule does not apply if a fact that it needs is unknown. The report shows the unknown fact.

use crate::machine::clock::is_slow;
use crate::machine::nvme::NvmeParameters;
use crate::machine::overview::Machine;
use crate::model::machine::{Class, MachineController};
use crate::model::report::device_name::DeviceName;
use crate::model::report::latency::{Finding, Severity};

/// The findings on a machine and its controllers, the most important first: settings to change,
/// then notes for reading the numbers.
pub(super) fn findings(
    machine: &Machine,
    parameters: &NvmeParameters,
    controllers: &[MachineController],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = on_privileges(machine).into_iter().collect();
    findings.extend(on_settings(machine));
    findings.extend(on_symbols(machine));
    findings.extend(on_controllers(controllers));
    findings.extend(notes_on_machine(machine, parameters));
    for controller in controllers {
        findings.extend(notes_on_queues(controller, machine));
        findings.extend(notes_on_namespaces(controller));
    }
    findings
}

fn warning(rule: &'static str, advice: impl Into<String>) -> Finding {
    Finding::new(rule, Severity::Warning, advice)
}

fn note(rule: &'static str, advice: impl Into<String>) -> Finding {
    Finding::new(rule, Severity::Note, advice)
}

/// The capabilities suffice to trace, but not to see the BTF of modules.
fn on_privileges(machine: &Machine) -> Option<Finding> {
    let privileges = machine.privileges.as_ref()?;
    let missing = privileges.missing();
    let able = privileges.has("CAP_BPF") && privileges.has("CAP_PERFMON");
    if privileges.has("CAP_SYS_ADMIN") || missing.is_empty() || !able {
        return None;
    }
    let advice = "run as root, or add CAP_SYS_ADMIN: the kernel does not show the BTF of modules \
                  without it";
    let finding = warning("module-btf-hidden", advice);
    Some(finding.shown_by("missing capabilities", missing.join(", ")))
}

fn on_settings(machine: &Machine) -> Vec<Finding> {
    let Machine { lockdown, sysctls, tracefs, tracefs_mounted, kprobes_enabled, .. } = machine;
    let lockdown = lockdown.as_ref().filter(|l| *l == "confidentiality");
    let rules = [
        lockdown.map(|level| {
            let advice = "kernel lockdown is `confidentiality`, which disables kprobes and tracefs \
                          and stops programs from reading kernel memory: boot with \
                          lockdown=integrity, which does neither";
            warning("lockdown", advice).shown_by("lockdown", level)
        }),
        (tracefs.is_none() && *tracefs_mounted == Some(false)).then(|| {
            let advice = "mount tracefs (`mount -t tracefs tracefs /sys/kernel/tracing`): it lists \
                          the functions that can be hooked, and the layout of events";
            warning("tracefs-not-mounted", advice)
        }),
        (sysctls.bpf_jit_enable == Some(0)).then(|| {
            let advice = "switch the BPF JIT on (`sysctl net.core.bpf_jit_enable=1`): fentry and \
                          fexit need it";
            warning("bpf-jit-off", advice).shown_by("net.core.bpf_jit_enable", 0)
        }),
        (sysctls.ftrace_enabled == Some(0)).then(|| {
            let advice = "switch ftrace on (`sysctl kernel.ftrace_enabled=1`): without it hooks on \
                          functions fail, or do not fire";
            warning("ftrace-off", advice).shown_by("kernel.ftrace_enabled", 0)
        }),
        (*kprobes_enabled == Some(false)).then(|| {
            let advice = "switch kprobes on (`echo 1 > /sys/kernel/debug/kprobes/enabled`): they \
                          are disarmed, and do not fire";
            warning("kprobes-off", advice).shown_by("kprobes/enabled", 0)
        }),
    ];
    rules.into_iter().flatten().collect()
}

/// Names of stack frames need the addresses of kernel symbols.
fn on_symbols(machine: &Machine) -> Option<Finding> {
    let restrict = machine.sysctls.kptr_restrict.unwrap_or(0);
    let finding = match (restrict, &machine.privileges) {
        (2.., _) => warning(
            "kernel-addresses-hidden",
            "show addresses of the kernel to root (`sysctl kernel.kptr_restrict=1`): stacks have \
             no names without them",
        ),
        (1, Some(privileges)) if !privileges.has("CAP_SYSLOG") => warning(
            "kernel-addresses-hidden",
            "add CAP_SYSLOG: kernel.kptr_restrict is 1, and stacks have no names without addresses",
        ),
        _ => return None,
    };
    Some(finding.shown_by("kernel.kptr_restrict", restrict))
}

/// A word as the kernel has them, or `?`. People copy commands from advice, so that no other text may be
/// in it; the evidence has the text.
fn of_kernel(text: &str) -> &str {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_ ()".contains(c);
    if text.chars().all(is_known) { text } else { "?" }
}

fn on_controllers(controllers: &[MachineController]) -> Vec<Finding> {
    let mut findings = vec![];
    for controller in controllers {
        let name = &controller.name();
        if let Some(state) = controller.state.as_ref().filter(|s| s.as_str() != "live") {
            let word = of_kernel(state);
            let advice =
                format!("{name} is `{word}`, not live: see the kernel log (`dmesg | grep {name}`)");
            let finding = warning("controller-not-live", advice).about(name);
            findings.push(finding.shown_by("state", state));
        }
        for ns in controller.disks.iter().filter(|ns| ns.iostats == Some(0)) {
            let disk = DeviceName::of(&ns.name);
            let path = format!("/sys/class/nvme/{name}/{disk}/queue/iostats");
            let advice = format!(
                "switch statistics on (`echo 1 > {path}`): kernels without the tracepoint \
                 block_io_start (before 6.5) record the start of a request only with them"
            );
            let finding = warning("iostats-off", advice).about(&ns.name);
            findings.push(finding.shown_by("queue/iostats", 0));
        }
    }
    findings
}

fn notes_on_machine(machine: &Machine, parameters: &NvmeParameters) -> Vec<Finding> {
    let mut notes = vec![];
    if machine.hypervisor.emulated {
        let advice = "the processor seems to be emulated: times measure the emulator, not \
                      real hardware";
        notes.push(note("emulated-processor", advice));
    }
    if let Some(source) = machine.clock_source.as_ref().filter(|s| is_slow(s)) {
        let advice = "the kernel reads a slow clock, which takes about 1 us or more at each point of a \
                      command, and all stages contain that (`dmesg | grep -i clocksource` may say why)";
        notes.push(note("slow-clock", advice).shown_by("current_clocksource", source));
    }
    let version = machine.version.as_ref();
    let rt = version.is_some_and(|v| v.contains("PREEMPT_RT"));
    let parameter = parameters.use_threaded_interrupts.as_deref() == Some("1");
    if rt || parameter {
        let advice = "completions run in threads (PREEMPT_RT, or use_threaded_interrupts): the \
                      stage `device` includes the wait until the interrupt thread gets a CPU";
        let finding = note("threaded-interrupts", advice);
        notes.push(
            finding.shown_by("PREEMPT_RT", rt).shown_by("use_threaded_interrupts", parameter),
        );
    }
    notes
}

fn notes_on_queues(controller: &MachineController, machine: &Machine) -> Vec<Finding> {
    let mut notes = vec![];
    let name = &controller.name();
    let doorbells = match controller.shadow_doorbells {
        // doorbells of other controllers reach the device without an exit
        Some(false) if controller.class == Class::Emulated => Some((
            "no-shadow-doorbells",
            "offers no shadow doorbells: each doorbell is a VM exit, whose time is part of \
             `submit`",
        )),
        Some(true) => Some((
            "shadow-doorbells",
            "offers shadow doorbells: most doorbells are memory writes, and the device has to \
             notice them",
        )),
        _ => None,
    };
    if let Some((rule, what)) = doorbells {
        notes.push(note(rule, format!("{name} {what}")).about(name));
    }
    let io_queues = controller.io_queues;
    if let (Some(cpus), Some(queues @ 1..)) = (machine.cpus_online, io_queues)
        && queues < cpus
    {
        let plural = if queues == 1 { "" } else { "s" };
        let advice = format!(
            "{name} has {queues} I/O queue{plural} for {cpus} CPUs: CPUs that share a \
             queue wait for its lock and its tags"
        );
        let finding = note("few-queues", advice).about(name);
        let finding = finding.shown_by("I/O queues", queues);
        notes.push(finding.shown_by("online CPUs", cpus));
    }
    if controller.vectors == Some(1) && io_queues.is_some_and(|n| n > 1) {
        let advice =
            format!("{name} has one interrupt for all its queues: one CPU takes all completions");
        let finding = note("one-irq-cpu", advice).about(name);
        notes.push(finding.shown_by("interrupt vectors", 1));
    }
    notes
}

fn notes_on_namespaces(controller: &MachineController) -> Vec<Finding> {
    let mut notes = vec![];
    for ns in &controller.disks {
        let name = &ns.name;
        if ns.io_poll == Some(true) {
            let advice = format!("{name} has polled queues: their completions have no interrupt");
            let finding = note("polled-queues", advice).about(name);
            notes.push(finding.shown_by("queue/io_poll", 1));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{capability, guest};
    use super::*;
    use crate::machine::overview::Privileges;

    #[test]
    fn each_change_is_advised_once_and_notes_are_apart_from_warnings() {
        let report = guest();
        let changes = [
            "lockdown=integrity",
            "mount -t tracefs",
            "bpf_jit_enable=1",
            "kptr_restrict=1",
            "nvme0n1/queue/iostats",
            "nvme1 is `connecting`",
        ];
        let notes = ["emulated", "slow clock", "no shadow doorbells", "1 I/O queue for 4 CPUs"];
        for (severity, all) in [(Severity::Warning, &changes[..]), (Severity::Note, &notes)] {
            for words in all {
                let advice = report.advice(severity);
                let count = advice.filter(|text| text.contains(words)).count();
                assert_eq!(count, 1, "{words}: {report:#?}");
            }
            assert_eq!(report.advice(severity).count(), all.len());
        }
    }

    #[test]
    fn capabilities_that_do_are_enough_and_namespaces_are_not() {
        let mut machine = guest().machine;
        let mut with = |names: &[&'static str], missing: &[&'static str]| {
            let held = names.iter().map(|n| capability(n, true));
            let missing = missing.iter().map(|n| capability(n, false));
            machine.privileges =
                Some(Privileges { uid: 1000, capabilities: held.chain(missing).collect() });
            on_privileges(&machine).map(|f| f.advice)
        };
        assert_eq!(with(&["CAP_SYS_ADMIN"], &["CAP_BPF"]), None);
        let some = with(&["CAP_BPF", "CAP_PERFMON"], &["CAP_SYS_ADMIN"]).unwrap();
        assert!(some.contains("BTF of modules"), "{some}");
    }
}
