// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report with content in every part, for the tests of the rules and of the view.

use super::DoctorReport;
use crate::machine::overview::{Capability, Privileges};
use crate::machine::tests::TestMachine;

/// Files of the guest.
const FILES: [(&str, &str); 31] = [
    ("proc/sys/kernel/osrelease", "6.1.0-50-amd64"),
    ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-06-01)"),
    ("proc/sys/kernel/arch", "x86_64"),
    ("proc/sys/kernel/kptr_restrict", "2"),
    ("proc/sys/kernel/perf_event_paranoid", "3"),
    ("proc/sys/kernel/ftrace_enabled", "1"),
    ("proc/sys/net/core/bpf_jit_enable", "0"),
    (
        "proc/mounts",
        "s /sys/kernel/security securityfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
    ),
    ("sys/class/block/nvme0n1/dev", "259:0"),
    ("sys/fs/cgroup/io.cost.qos", "259:0 enable=1 ctrl=user rpct=95.00"),
    ("sys/fs/cgroup/web.slice/io.max", "259:0 rbps=max wbps=max riops=60 wiops=max"),
    (
        "sys/fs/cgroup/a b.slice/$(reboot)\u{1b}[2J/io.max",
        "259:0 rbps=1048576 wbps=max riops=max wiops=10\n8:0 rbps=1 wbps=1 riops=1 wiops=1",
    ),
    ("proc/cpuinfo", "flags : hypervisor"),
    ("proc/self/uid_map", "0 0 4294967295"),
    ("sys/devices/system/cpu/online", "0-3"),
    ("sys/devices/system/cpu/possible", "0-7"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
    ("sys/class/dmi/id/sys_vendor", "QEMU"),
    ("sys/kernel/security/lockdown", "none integrity [confidentiality]"),
    ("sys/module/nvme/parameters/poll_queues", "0"),
    ("sys/module/nvme/parameters/write_queues", "0"),
    ("sys/module/nvme/parameters/io_queue_depth", "1024"),
    ("sys/module/nvme/parameters/use_threaded_interrupts", "0"),
    ("sys/module/nvme_core/parameters/io_timeout", "30"),
    ("sys/module/nvme_core/parameters/admin_timeout", "60"),
    ("sys/module/nvme_core/parameters/multipath", "Y"),
    ("sys/class/nvme/nvme1/transport", "tcp"),
    ("sys/class/nvme/nvme1/model", "Linux"),
    ("sys/class/nvme/nvme1/state", "connecting"),
    ("sys/class/nvme/nvme1/address", "traddr=10.0.0.1,trsvcid=4420"),
];

/// Files of the guest's emulated controller.
const NVME0: [(&str, &str); 26] = [
    ("model", "QEMU NVMe Ctrl"),
    ("firmware_rev", "1.0"),
    ("transport", "pcie"),
    ("address", "0000:00:03.0"),
    ("state", "live"),
    ("queue_count", "2"),
    ("sqsize", "1023"),
    ("numa_node", "-1"),
    ("device/vendor", "0x1b36"),
    ("device/device", "0x0010"),
    ("device/subsystem_vendor", "0x1af4"),
    ("device/subsystem_device", "0x1100"),
    ("device/msi_irqs/25", "msix"),
    ("device/msi_irqs/26", "msix"),
    ("nvme0n1/nsid", "1"),
    ("nvme0n1/size", "2097152"),
    ("nvme0n1/queue/scheduler", "none [mq-deadline]"),
    ("nvme0n1/queue/logical_block_size", "512"),
    ("nvme0n1/queue/nr_requests", "256"),
    ("nvme0n1/queue/iostats", "0"),
    ("nvme0n1/queue/nomerges", "0"),
    ("nvme0n1/queue/wbt_lat_usec", "2000"),
    ("nvme0n1/queue/zoned", "none"),
    ("nvme0n1/queue/rq_affinity", "1"),
    ("nvme0n1/queue/io_poll", "0"),
    ("nvme0n1/queue/io_timeout", "30000"),
];

/// A capability, held or not.
pub(crate) fn capability(name: &'static str, held: bool) -> Capability {
    Capability { name, held }
}

/// A QEMU guest with an emulated controller that has one I/O queue, and a TCP controller that has
/// lost its target. The report is made without root.
pub(crate) fn guest() -> DoctorReport {
    let machine = TestMachine::new(&FILES);
    for (file, text) in NVME0 {
        machine.put(&format!("sys/class/nvme/nvme0/{file}"), text);
    }
    let mut found = DoctorReport::of(&machine, false);
    found.controllers[0].shadow_doorbells = Some(false);
    // do not use the privileges of the user that runs the tests
    found.machine.privileges = Some(Privileges {
        uid: 1000,
        capabilities: vec![capability("CAP_SYS_ADMIN", false), capability("CAP_BPF", true)],
    });
    DoctorReport::new(found.machine, found.parameters, found.controllers)
}
