// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as a whole: kernel, hypervisor, kernel settings, and the privileges of this process.
//! It only reads, and needs no privilege. `None`: the value cannot be read.

use std::env::consts::ARCH;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::hypervisor::Hypervisor;
use super::{System, privileges};
use crate::model::machine::{MachineController, MachineInfo};
use crate::model::text::{Text, printable};

/// Kernel settings that affect tracing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sysctls {
    /// kernel.kptr_restrict: above 0, kernel addresses are hidden from some or all users.
    pub kptr_restrict: Option<i64>,
    /// kernel.perf_event_paranoid
    pub perf_event_paranoid: Option<i64>,
    /// kernel.unprivileged_bpf_disabled
    pub unprivileged_bpf_disabled: Option<i64>,
    /// net.core.bpf_jit_enable: fentry and fexit need the JIT.
    pub bpf_jit_enable: Option<i64>,
    /// kernel.ftrace_enabled: with 0, fentry and kprobes on functions do not fire.
    pub ftrace_enabled: Option<i64>,
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
    pub release: Option<String>,
    /// `uname -v`: how and when the kernel was built. A real-time kernel has PREEMPT_RT here.
    pub version: Option<String>,
    /// `uname -m`
    pub arch: String,
    /// Number of CPUs that are online.
    pub cpus_online: Option<u32>,
    /// Number of possible CPUs, which determines the size of per-CPU maps.
    pub cpus_possible: Option<u32>,
    /// The hypervisor.
    pub hypervisor: Hypervisor,
    /// The clock source (`tsc`, `hpet`): each point of a command reads it.
    pub clock_source: Option<String>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
    /// Settings of the kernel.
    pub sysctls: Sysctls,
    /// The directory of a readable tracefs.
    pub tracefs: Option<String>,
    /// tracefs is mounted, readable or not.
    pub tracefs_mounted: Option<bool>,
    /// debugfs is mounted.
    pub debugfs: Option<bool>,
    /// kprobes are not switched off (`/sys/kernel/debug/kprobes/enabled`).
    pub kprobes_enabled: Option<bool>,
    /// The kernel can attach kprobes through perf (CONFIG_KPROBE_EVENTS).
    pub kprobe_pmu: Option<bool>,
    /// This process is in a user namespace other than the initial one, where its capabilities do
    /// not apply to the kernel.
    pub user_namespace: Option<bool>,
    /// What this process may do.
    pub privileges: Option<Privileges>,
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
    pub fn last_online_cpu(&self) -> Option<u32> {
        self.last_cpu("online")
    }

    /// The CPUs that are present, in order. `None`: not known.
    pub fn present_cpus(&self) -> Option<Vec<u32>> {
        let list = self.text("sys/devices/system/cpu/present")?;
        Some(list_ranges(&list)?.into_iter().flatten().collect())
    }

    /// The highest number that a CPU can ever have.
    pub fn last_possible_cpu(&self) -> Option<u32> {
        self.last_cpu("possible")
    }

    fn last_cpu(&self, which: &str) -> Option<u32> {
        list_end(&self.text(&format!("sys/devices/system/cpu/{which}"))?)
    }

    fn kernel_text(&self, name: &str) -> Option<Text> {
        self.device_text(&format!("proc/sys/kernel/{name}"))
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
        let cpus = |which| list_length(&self.text(&format!("sys/devices/system/cpu/{which}"))?);
        Machine {
            release: self.text("proc/sys/kernel/osrelease"),
            version: self.text("proc/sys/kernel/version"),
            // the file exists since 6.1; the fallback is the architecture of the build
            arch: self.text("proc/sys/kernel/arch").unwrap_or_else(|| ARCH.into()),
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
            tracefs: self.tracefs().map(|at| printable(&at)),
            tracefs_mounted: self.mounted("tracefs"),
            debugfs: self.mounted("debugfs"),
            kprobes_enabled: self.text("sys/kernel/debug/kprobes/enabled").map(|text| text != "0"),
            kprobe_pmu: self.kprobe_pmu(),
            user_namespace: self.text("proc/self/uid_map").map(|map| {
                // the initial namespace maps all ids to themselves
                !map.split_whitespace().eq(["0", "0", "4294967295"])
            }),
            privileges: privileges(),
        }
    }

    pub(super) fn lockdown(&self) -> Option<String> {
        self.text("sys/kernel/security/lockdown").map(|text| bracketed(&text).to_owned())
    }

    /// Whether the kernel can attach kprobes through perf.
    fn kprobe_pmu(&self) -> Option<bool> {
        let devices = self.path("sys/bus/event_source/devices");
        devices.exists().then(|| devices.join("kprobe/type").exists())
    }
}

/// Whether mappings that are removed are invalidated at once, by the types of the IOMMU groups.
/// Before 5.15 (`DMA-FQ`) the types do not show it.
fn strict(controllers: &[MachineController], release: Option<(u32, u32)>) -> Option<bool> {
    let types = controllers.iter().filter_map(|c| c.iommu_group.as_deref());
    let mut strict = types.filter_map(|name| match name {
        "DMA" if release.is_some_and(|version| version >= (5, 15)) => Some(true),
        "DMA-FQ" => Some(false),
        _ => None,
    });
    strict.next()
}

/// Major and minor version of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

impl System {
    /// The settings of the machine as a recording has them. With `identify` it sends an Identify command to
    /// each live PCI controller: only this shows whether there are shadow doorbells.
    pub fn info(&self, identify: bool) -> MachineInfo {
        let machine = self.machine();
        let Hypervisor { present, name, emulated, .. } = machine.hypervisor;
        let controllers = self.nvme_details(present, identify);
        let parameters = self.nvme_parameters();
        let is_real_time = machine.version.map(|v| v.contains("PREEMPT_RT"));
        let is_asked = parameters.use_threaded_interrupts.map(|value| value != "0");
        let release = machine.release.and_then(|text| version(&text));
        MachineInfo {
            hypervisor: (present == Some(true)).then(|| name.into()),
            is_virtual: present,
            is_emulated: emulated,
            cpus: machine.cpus_online,
            threaded_interrupts: match (is_real_time, is_asked) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            poll_queues: parameters.poll_queues,
            io_timeout_s: parameters.io_timeout_s,
            iommu_strict: strict(&controllers, release),
            cgroup_mount: self.cgroup_mount().map(Into::into),
            controllers,
            upper: self.upper_disks(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use crate::model::machine::UpperDisk;

    /// The doctor's snapshots have the rest.
    #[test]
    fn a_machine_is_read_from_where_linux_has_it() {
        let machine = TestMachine::new(&[
            ("sys/devices/system/cpu/online", "0-1,3\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("proc/mounts", "d /sys/kernel/debug debugfs rw 0 0\n"),
            ("sys/kernel/debug/kprobes/enabled", "0\n"),
            ("sys/kernel/debug/tracing/events/enable", "0\n"),
            ("sys/bus/event_source/devices/software/type", "1\n"),
            ("proc/self/uid_map", "         0     100000      65536\n"),
        ])
        .machine();
        assert_eq!((machine.cpus_online, machine.sysctls.perf_event_paranoid), (Some(3), Some(-1)));
        assert!(machine.tracefs.unwrap().ends_with("sys/kernel/debug/tracing"));
        assert!(machine.debugfs == Some(true) && machine.kprobes_enabled == Some(false));
        assert!(machine.kprobe_pmu == Some(false) && machine.user_namespace == Some(true));
        let nothing = System::at("/nonexistent").machine();
        assert_eq!((nothing.release, nothing.arch.as_str()), (None, ARCH));
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, length, end) in [
            ("0", Some(1), Some(0)),
            ("0-3,5,7-8", Some(7), Some(8)),
            ("0-3,5", Some(5), Some(5)),
            ("", None, None),
        ] {
            assert_eq!((list_length(list), list_end(&format!("{list}\n"))), (length, end));
        }
        for wrong in ["a", "3-1", "0-4294967295", "1,"] {
            assert_eq!(list_length(wrong), None, "{wrong}");
        }
    }

    const THREADED: &str = "sys/module/nvme/parameters/use_threaded_interrupts";

    fn machine() -> TestMachine {
        TestMachine::new(&[
            ("proc/cpuinfo", "flags : hypervisor\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/module/nvme/parameters/poll_queues", "2\n"),
            ("sys/class/nvme/nvme0/device/iommu_group/type", "DMA\n"),
            (THREADED, "0\n"),
        ])
    }

    #[test]
    fn the_settings_come_from_sysfs() {
        let info = machine().info(false);
        assert_eq!((info.cpus, info.is_virtual), (Some(4), Some(true)));
        assert_eq!(info.threaded_interrupts, Some(false));
        assert_eq!((info.poll_queues, info.io_timeout_s), (Some(2), None));
        assert_eq!(info.iommu_strict, Some(true));
        assert_eq!(info.controllers.len(), 1);
    }

    #[test]
    fn interrupts_are_threads_on_a_real_time_kernel_and_by_parameter() {
        let machine = machine();
        machine.put(THREADED, "1\n");
        assert_eq!(machine.info(false).threaded_interrupts, Some(true));
        machine.put(THREADED, "0\n");
        machine.put("proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n");
        assert_eq!(machine.info(false).threaded_interrupts, Some(true));
    }

    #[test]
    fn disks_above_nvme_have_the_disks_below_and_the_top_is_known() {
        let machine = machine();
        for (path, text) in [
            ("dm-0/slaves/nvme1n1p2/x", ""),
            ("dm-0/dm/uuid", "CRYPT-LUKS2-5f3e-luks\n"),
            ("dm-1/slaves/dm-0/x", ""),
            ("dm-2/slaves/sda/x", ""),
            ("md127/slaves/nvme0n1/x", ""),
            ("md127/slaves/sdb1/x", ""),
            ("md127/md/level", "raid1\n"),
        ] {
            machine.put(&format!("sys/block/{path}"), text);
        }
        let text = |u: UpperDisk| {
            let kind = u.kind.as_ref().map_or("?", |kind| kind.as_str());
            let disks: Vec<&str> = u.disks.iter().map(|disk| disk.as_str()).collect();
            format!("{} {kind} {} {} {}", u.name, disks.join(" "), u.is_top, u.has_others)
        };
        let all: Vec<String> = machine.info(false).upper.into_iter().map(text).collect();
        let crypt = "dm-0 CRYPT nvme1n1 false false";
        assert_eq!(all, [crypt, "dm-1 ? nvme1n1 true false", "md127 raid1 nvme0n1 true true"]);
    }

    #[test]
    fn before_5_15_the_group_does_not_show_whether_invalidation_is_strict() {
        let machine = machine();
        machine.put("proc/sys/kernel/osrelease", "5.10.0-46-amd64\n");
        for (group, strict) in [("DMA\n", None), ("DMA-FQ\n", Some(false)), ("identity\n", None)] {
            machine.put("sys/class/nvme/nvme0/device/iommu_group/type", group);
            assert_eq!(machine.info(false).iommu_strict, strict);
        }
    }
}
