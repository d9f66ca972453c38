// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as a whole: kernel, hypervisor, kernel settings, and the privileges of this process.
//! It only reads, needs no privilege, and gives a reason for each value that it cannot read.

use std::env::consts::ARCH;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::fact::Fact;
use super::hypervisor::Hypervisor;
use super::{System, privileges};
use crate::model::text::{Text, printable};

/// Kernel settings that affect tracing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sysctls {
    /// kernel.kptr_restrict: above 0, kernel addresses are hidden from some or all users.
    pub kptr_restrict: Fact<i64>,
    /// kernel.perf_event_paranoid
    pub perf_event_paranoid: Fact<i64>,
    /// kernel.unprivileged_bpf_disabled
    pub unprivileged_bpf_disabled: Fact<i64>,
    /// net.core.bpf_jit_enable: fentry and fexit need the JIT.
    pub bpf_jit_enable: Fact<i64>,
    /// kernel.ftrace_enabled: with 0, fentry and kprobes on functions do not fire.
    pub ftrace_enabled: Fact<i64>,
}

/// A capability (capabilities(7)) that matters here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// The name, as in `CAP_BPF`.
    pub name: &'static str,
    /// It is in the effective set.
    pub held: bool,
}

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// The effective user id; 0 is root.
    pub uid: u32,
    /// The capabilities that matter.
    pub capabilities: Vec<Capability>,
}

impl Privileges {
    /// The names of the capabilities that are not held.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.capabilities.iter().filter(|c| !c.held);
        missing.map(|c| c.name).collect()
    }

    /// Whether this capability is held.
    pub fn has(&self, name: &str) -> bool {
        self.capabilities.iter().any(|c| c.held && c.name == name)
    }
}

/// Everything about the machine except NVMe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// `uname -r`
    pub release: Fact<String>,
    /// `uname -v`: how and when the kernel was built. A real-time kernel has PREEMPT_RT here.
    pub version: Fact<String>,
    /// `uname -m`
    pub arch: String,
    /// Number of CPUs that are online.
    pub cpus_online: Fact<u32>,
    /// Number of possible CPUs, which determines the size of per-CPU maps.
    pub cpus_possible: Fact<u32>,
    /// The hypervisor.
    pub hypervisor: Hypervisor,
    /// The clock source (`tsc`, `hpet`): each point of a command reads it.
    pub clock_source: Fact<String>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Fact<String>,
    /// Settings of the kernel.
    pub sysctls: Sysctls,
    /// The directory of a readable tracefs.
    pub tracefs: Fact<String>,
    /// tracefs is mounted, readable or not.
    pub tracefs_mounted: Fact<bool>,
    /// debugfs is mounted.
    pub debugfs: Fact<bool>,
    /// kprobes are not switched off (`/sys/kernel/debug/kprobes/enabled`).
    pub kprobes_enabled: Fact<bool>,
    /// The kernel can attach kprobes through perf (CONFIG_KPROBE_EVENTS).
    pub kprobe_pmu: Fact<bool>,
    /// This process is in a user namespace other than the initial one, where its capabilities do
    /// not apply to the kernel.
    pub user_namespace: Fact<bool>,
    /// What this process may do.
    pub privileges: Fact<Privileges>,
}

/// The last entry of a list like `0-3,5,7-8`.
fn list_end(text: &str) -> Option<u32> {
    text.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// The ranges of a list like `0-3,5,7-8`.
pub(super) fn list_ranges(text: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect()
}

/// Number of entries in such a list.
fn list_length(text: &str) -> Option<u32> {
    list_ranges(text)?.iter().try_fold(0_u32, |count, range| {
        let more = (range.end() - range.start()).checked_add(1)?;
        count.checked_add(more)
    })
}

/// The word in brackets: `integrity` in `none [integrity] confidentiality`. The whole text if there
/// are no brackets.
pub(super) fn bracketed(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(word, _)| word)
}

/// What identifies a machine and its boot. `None`: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the machine.
    pub host: Option<Text>,
    /// `uname -r`
    pub kernel: Option<Text>,
    /// The architecture of the build.
    pub arch: Text,
    /// The name of the hypervisor, or that there is none.
    pub hypervisor: Text,
    /// Random, different for each boot.
    pub boot_id: Option<Text>,
}

impl System {
    /// The highest number of a CPU that is online.
    pub fn last_online_cpu(&self) -> Fact<u32> {
        self.last_cpu("online")
    }

    /// The CPUs that are present, in order. `None`: not known.
    pub fn present_cpus(&self) -> Option<Vec<u32>> {
        let list = self.text("sys/devices/system/cpu/present");
        Some(list_ranges(list.known()?)?.into_iter().flatten().collect())
    }

    /// The highest number that a CPU can ever have.
    pub fn last_possible_cpu(&self) -> Fact<u32> {
        self.last_cpu("possible")
    }

    fn last_cpu(&self, which: &str) -> Fact<u32> {
        let list = self.text(&format!("sys/devices/system/cpu/{which}"));
        list.and_then(|list| {
            list_end(&list).map_or_else(|| Fact::unknown(format!("it says `{list}`")), Fact::Known)
        })
    }

    fn kernel_text(&self, name: &str) -> Option<Text> {
        self.device_text(&format!("proc/sys/kernel/{name}")).known().cloned()
    }

    /// Reads the name of the machine and `uname -r`.
    pub fn host_and_kernel(&self) -> (Option<Text>, Option<Text>) {
        (self.kernel_text("hostname"), self.kernel_text("osrelease"))
    }

    /// Reads what identifies the machine.
    pub fn identity(&self) -> Identity {
        let (host, kernel) = self.host_and_kernel();
        Identity {
            host,
            kernel,
            arch: ARCH.into(),
            hypervisor: self.hypervisor().name.into(),
            boot_id: self.kernel_text("random/boot_id"),
        }
    }

    /// Reads the facts about the machine.
    pub fn machine(&self) -> Machine {
        let cpus = |which| {
            let list = self.text(&format!("sys/devices/system/cpu/{which}"));
            list.and_then(|l| {
                list_length(&l).map_or_else(|| Fact::unknown(format!("it says `{l}`")), Fact::Known)
            })
        };
        let mounted =
            |kind| self.mounted(kind).map_or_else(|| Fact::unknown("no /proc/mounts"), Fact::Known);
        Machine {
            release: self.text("proc/sys/kernel/osrelease"),
            version: self.text("proc/sys/kernel/version"),
            // the file exists since 6.1; the fallback is the architecture of the build
            arch: self.text("proc/sys/kernel/arch").known().cloned().unwrap_or_else(|| ARCH.into()),
            cpus_online: cpus("online"),
            cpus_possible: cpus("possible"),
            hypervisor: self.hypervisor(),
            clock_source: self.clock_source(),
            lockdown: self.lockdown(),
            sysctls: Sysctls {
                kptr_restrict: self.number("proc/sys/kernel/kptr_restrict"),
                perf_event_paranoid: self.number("proc/sys/kernel/perf_event_paranoid"),
                unprivileged_bpf_disabled: self.number("proc/sys/kernel/unprivileged_bpf_disabled"),
                bpf_jit_enable: self.number("proc/sys/net/core/bpf_jit_enable"),
                ftrace_enabled: self.number("proc/sys/kernel/ftrace_enabled"),
            },
            tracefs: Fact::from(self.tracefs()).map(|at| printable(&at)),
            tracefs_mounted: mounted("tracefs"),
            debugfs: mounted("debugfs"),
            kprobes_enabled: self.kprobes_enabled(),
            kprobe_pmu: self.kprobe_pmu(),
            user_namespace: self.text("proc/self/uid_map").map(|map| {
                // the initial namespace maps all ids to themselves
                !map.split_whitespace().eq(["0", "0", "4294967295"])
            }),
            privileges: privileges().map_or_else(|| Fact::unknown("no /proc/self"), Fact::Known),
        }
    }

    pub(super) fn lockdown(&self) -> Fact<String> {
        let text = self.text("sys/kernel/security/lockdown");
        if text.known().is_none() && self.mounted("securityfs") == Some(false) {
            return Fact::unknown("securityfs is not mounted");
        }
        text.map(|text| bracketed(&text).to_owned())
    }

    fn kprobes_enabled(&self) -> Fact<bool> {
        let text = self.text("sys/kernel/debug/kprobes/enabled");
        if text.known().is_none() && self.mounted("debugfs") == Some(false) {
            return Fact::unknown("debugfs is not mounted");
        }
        text.map(|text| text != "0")
    }

    fn kprobe_pmu(&self) -> Fact<bool> {
        let devices = "sys/bus/event_source/devices";
        if self.exists(devices).is(&true) {
            self.exists(&format!("{devices}/kprobe/type"))
        } else {
            Fact::unknown("no /sys/bus/event_source")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use proptest::prelude::any;
    use proptest::proptest;
    use tempfile::TempDir;

    #[test]
    fn a_machine_is_read_from_where_linux_has_it() {
        let root = TempDir::new().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-50-rt-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.1.176-1 (2026-06-01)\n"),
            ("proc/sys/kernel/arch", "x86_64\n"),
            ("sys/devices/system/cpu/online", "0-1,3\n"),
            ("sys/devices/system/cpu/possible", "0-7\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
            ("proc/sys/kernel/kptr_restrict", "2\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("proc/sys/kernel/ftrace_enabled", "1\n"),
            ("proc/mounts", "d /sys/kernel/debug debugfs rw 0 0\n"),
            ("sys/kernel/debug/kprobes/enabled", "0\n"),
            ("sys/kernel/debug/tracing/events/enable", "0\n"),
            ("sys/bus/event_source/devices/software/type", "1\n"),
            ("proc/self/uid_map", "         0     100000      65536\n"),
        ] {
            put(&root, path, text);
        }
        let machine = System::at(root.path()).machine();
        assert_eq!(machine.release.to_string(), "6.1.0-50-rt-amd64");
        assert!(machine.version.to_string().contains("PREEMPT_RT"));
        assert_eq!(machine.arch, "x86_64");
        assert!(machine.cpus_online.is(&3) && machine.cpus_possible.is(&8));
        assert_eq!(machine.lockdown.to_string(), "integrity");
        assert!(machine.sysctls.kptr_restrict.is(&2));
        assert!(machine.sysctls.perf_event_paranoid.is(&-1));
        assert_eq!(machine.sysctls.bpf_jit_enable.known(), None);
        assert!(machine.tracefs.to_string().ends_with("sys/kernel/debug/tracing"));
        assert!(machine.debugfs.is(&true) && machine.kprobes_enabled.is(&false));
        assert!(machine.kprobe_pmu.is(&false) && machine.user_namespace.is(&true));
    }

    #[test]
    fn a_machine_without_anything_is_looked_at_all_the_same() {
        let machine = System::at("/nonexistent").machine();
        assert!(machine.release.known().is_none());
        assert_eq!(machine.arch, ARCH);
        let json = serde_json::to_value(&machine).unwrap();
        assert_eq!(json["lockdown"]["unknown"], "no such file");
    }

    #[test]
    fn what_is_not_mounted_is_the_reason() {
        let root = TempDir::new().unwrap();
        put(&root, "proc/mounts", "proc /proc proc rw 0 0\n");
        let machine = System::at(root.path()).machine();
        for (fact, want) in [
            (machine.lockdown.to_string(), "securityfs is not mounted"),
            (machine.tracefs.to_string(), "tracefs is not mounted"),
            (machine.kprobes_enabled.to_string(), "debugfs is not mounted"),
        ] {
            assert_eq!(fact, format!("unknown ({want})"));
        }
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(list_length("0"), Some(1));
        assert_eq!(list_end("0\n"), Some(0));
        assert_eq!(list_end("0-3,5,7-8\n"), Some(8));
        assert_eq!(list_end("0-3,5"), Some(5));
        assert_eq!(list_end(""), None);
        assert_eq!(list_length("0-3,5,7-8"), Some(7));
        for wrong in ["", "a", "3-1", "0-4294967295", "1,"] {
            assert_eq!(list_length(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_none(text in any::<String>(), list in "[0-9,-]{0,30}") {
            let _ = (list_length(&text), list_length(&list), bracketed(&text));
        }
    }
}
