// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: what the user could change to see more, and what to keep in mind. Pure.
//!
//! A rule that would need what is unknown stays silent; [`super`] shows the unknown itself.

use crate::host::hypervisor::HypervisorKind;
use crate::host::machine::Machine;
use crate::host::nvme::NvmeDetail;
use crate::host::nvme::NvmeParameters;
use crate::host::nvme_class::Class;

/// What the user could change, the most important first.
pub(super) fn changes(machine: &Machine, controllers: &[NvmeDetail]) -> Vec<String> {
    let mut changes: Vec<String> = on_privileges(machine).into_iter().collect();
    changes.extend(on_settings(machine));
    changes.extend(on_controllers(controllers));
    changes
}

/// What to keep in mind when reading numbers of this machine.
pub(super) fn remarks(
    machine: &Machine,
    parameters: &NvmeParameters,
    controllers: &[NvmeDetail],
) -> Vec<String> {
    let mut remarks = remarks_on_machine(machine, parameters);
    for controller in controllers {
        remarks.extend(remarks_on_controller(controller, machine));
    }
    remarks
}

fn on_privileges(machine: &Machine) -> Option<String> {
    if machine.user_namespace.is(&true) {
        return Some(
            "this is a user namespace, whose capabilities do not reach the kernel: run in the \
             machine itself, not in a container"
                .into(),
        );
    }
    let privileges = machine.privileges.known()?;
    let missing = privileges.missing();
    if privileges.has("CAP_SYS_ADMIN") || missing.is_empty() {
        return None;
    }
    let able = privileges.has("CAP_BPF") && privileges.has("CAP_PERFMON");
    Some(if able {
        "run as root, or add CAP_SYS_ADMIN: without it the kernel keeps the BTF of modules to \
         itself"
            .into()
    } else {
        format!("run as root: this process lacks {}", missing.join(", "))
    })
}

fn on_settings(machine: &Machine) -> Vec<String> {
    let mut advice = vec![];
    let mut add = |when: bool, what: &str| {
        if when {
            advice.push(what.to_owned());
        }
    };
    let Machine {
        lockdown,
        sysctls,
        tracefs,
        tracefs_mounted,
        kprobes_enabled,
        privileges,
        ..
    } = machine;
    add(
        lockdown.known().is_some_and(|l| l == "confidentiality"),
        "kernel lockdown is `confidentiality`, which takes kprobes and tracefs away and keeps \
         programs from reading kernel memory: boot with lockdown=integrity, which takes nothing",
    );
    add(
        tracefs.known().is_none() && tracefs_mounted.is(&false),
        "mount tracefs (`mount -t tracefs tracefs /sys/kernel/tracing`): it says which functions \
         can be hooked and how events are laid out",
    );
    add(
        sysctls.bpf_jit_enable.is(&0),
        "switch the BPF JIT on (`sysctl net.core.bpf_jit_enable=1`): fentry and fexit need it",
    );
    add(
        sysctls.ftrace_enabled.is(&0),
        "switch ftrace on (`sysctl kernel.ftrace_enabled=1`): without it hooks on functions fail, \
         or stay silent",
    );
    add(
        kprobes_enabled.is(&false),
        "switch kprobes on (`echo 1 > /sys/kernel/debug/kprobes/enabled`): they are disarmed, and \
         stay silent",
    );
    let restrict = sysctls.kptr_restrict.known().copied().unwrap_or(0);
    let may_see = privileges.known().is_some_and(|p| p.has("CAP_SYSLOG"));
    add(
        restrict >= 2,
        "show addresses of the kernel to root (`sysctl kernel.kptr_restrict=1`): stacks have no \
         names without them",
    );
    add(
        restrict == 1 && privileges.known().is_some() && !may_see,
        "add CAP_SYSLOG: kernel.kptr_restrict is 1, and stacks have no names without addresses",
    );
    advice
}

fn on_controllers(controllers: &[NvmeDetail]) -> Vec<String> {
    let mut advice = vec![];
    if controllers.is_empty() {
        advice.push(
            "there is no NVMe controller: `modprobe nvme` loads the driver, if there is a device"
                .into(),
        );
    }
    for controller in controllers {
        let name = &controller.name;
        if let Some(state) = controller.state.known().filter(|s| *s != "live") {
            advice.push(format!(
                "{name} is `{state}`, not live: the kernel log says why (`dmesg | grep {name}`)"
            ));
        }
        for ns in controller.namespaces.iter().filter(|ns| ns.iostats.is(&0)) {
            let path = format!("/sys/class/nvme/{name}/{}/queue/iostats", ns.name);
            advice.push(format!(
                "switch statistics on (`echo 1 > {path}`): kernels without the tracepoint \
                 block_io_start (6.5) know the start of a request only with them"
            ));
        }
    }
    advice
}

fn remarks_on_machine(machine: &Machine, parameters: &NvmeParameters) -> Vec<String> {
    let mut remarks = vec![];
    if machine.hypervisor.kind == HypervisorKind::Qemu {
        remarks.push(
            "the processor seems to be emulated: times are those of the emulator, not of a \
             processor"
                .into(),
        );
    }
    let rt = machine
        .version
        .known()
        .is_some_and(|v| v.contains("PREEMPT_RT"));
    if rt || parameters.use_threaded_interrupts.is(&"1".into()) {
        remarks.push(
            "completions run in threads (PREEMPT_RT, or use_threaded_interrupts): the way from \
             the device to `irq` includes the wait for a processor"
                .into(),
        );
    }
    remarks
}

fn remarks_on_controller(controller: &NvmeDetail, machine: &Machine) -> Vec<String> {
    let mut remarks = vec![];
    let name = &controller.name;
    match controller.shadow_doorbells.known() {
        // the doorbells of other devices are theirs, and no exit
        Some(false) if controller.class == Class::Emulated => remarks.push(format!(
            "{name} offers no shadow doorbells: each doorbell is an exit to the hypervisor, and \
             counts as submission"
        )),
        Some(true) => remarks.push(format!(
            "{name} offers shadow doorbells: most doorbells are memory writes, and the device has \
             to notice them"
        )),
        _ => {}
    }
    let io_queues = controller.queue_count.known().map(|n| n.saturating_sub(1));
    if let (Some(&cpus), Some(queues @ 1..)) = (machine.cpus_online.known(), io_queues)
        && queues < cpus
    {
        let plural = if queues == 1 { "" } else { "s" };
        remarks.push(format!(
            "{name} has {queues} I/O queue{plural} for {cpus} processors: those that share one wait \
             for its lock and for its tags"
        ));
    }
    if controller.interrupt_vectors.is(&1) && io_queues.is_some_and(|n| n > 1) {
        remarks.push(format!(
            "{name} has one interrupt for all its queues: one processor takes all completions"
        ));
    }
    for ns in &controller.namespaces {
        if ns.io_poll.is(&1) {
            remarks.push(format!(
                "{} has polled queues: their completions have no interrupt",
                ns.name
            ));
        }
        if let Some(scheduler) = ns.scheduler.known().filter(|s| *s != "none") {
            remarks.push(format!(
                "{} has the scheduler {scheduler}: the wait in it is part of `queue`",
                ns.name
            ));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::DoctorReport;
    use super::super::fixture::capability;
    use super::super::fixture::guest;
    use super::*;
    use crate::host::Host;
    use crate::host::fact::Fact;
    use crate::host::machine::Privileges;

    /// How many of these speak of it.
    fn about(list: &[String], words: &str) -> usize {
        list.iter().filter(|text| text.contains(words)).count()
    }

    #[test]
    fn what_can_be_changed_is_told_once_each() {
        let report = guest();
        for words in [
            "run as root",
            "lockdown=integrity",
            "mount -t tracefs",
            "bpf_jit_enable=1",
            "kptr_restrict=1",
            "nvme0n1/queue/iostats",
            "nvme1 is `connecting`",
        ] {
            assert_eq!(about(&report.advice, words), 1, "{words}: {report:#?}");
        }
        assert_eq!(report.advice.len(), 7, "{:#?}", report.advice);
    }

    #[test]
    fn what_to_keep_in_mind_is_told_apart_from_what_to_change() {
        let report = guest();
        for words in [
            "emulated",
            "no shadow doorbells",
            "1 I/O queue for 4 processors",
            "mq-deadline",
        ] {
            assert_eq!(about(&report.remarks, words), 1, "{words}: {report:#?}");
        }
        assert_eq!(report.remarks.len(), 4, "{:#?}", report.remarks);
    }

    #[test]
    fn a_machine_without_anything_gets_no_advice_on_what_is_unknown() {
        let mut report = DoctorReport::of(&Host::at("/nonexistent"), true);
        report.machine.privileges = Fact::unknown("no /proc/self");
        let advice = changes(&report.machine, &report.controllers);
        assert_eq!(about(&advice, "modprobe nvme"), 1);
        assert_eq!(advice.len(), 1, "{advice:?}");
        assert!(report.remarks.is_empty());
    }

    #[test]
    fn capabilities_that_do_are_enough_and_namespaces_are_not() {
        let mut machine = guest().machine;
        let mut with = |names: &[&'static str], missing: &[&'static str]| {
            let held = names.iter().map(|n| capability(n, true));
            let missing = missing.iter().map(|n| capability(n, false));
            machine.privileges = Fact::Known(Privileges {
                uid: 1000,
                capabilities: held.chain(missing).collect(),
            });
            on_privileges(&machine)
        };
        assert_eq!(with(&["CAP_SYS_ADMIN"], &["CAP_BPF"]), None);
        let some = with(&["CAP_BPF", "CAP_PERFMON"], &["CAP_SYS_ADMIN"]).unwrap();
        assert!(some.contains("BTF of modules"), "{some}");
        machine.user_namespace = Fact::Known(true);
        let container = on_privileges(&machine).unwrap();
        assert!(container.contains("container"), "{container}");
    }
}
