// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks, from time to time, what a running session depends on but cannot hold.

use super::overview::list_ranges;
use super::{System, read_line};
use crate::model::activity::Pool;
use crate::model::ids::QueueId;
use crate::model::point::Point;
use crate::probe::catalog::{Home, Method};
use crate::probe::plan::AttachPlan;
use rustix::param::clock_ticks_per_second;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The modules of the driver, each with the number that identifies it while it is loaded.
#[derive(Clone, Debug)]
pub struct Modules(Vec<(&'static str, Option<u64>)>);

impl Modules {
    /// Call it before anything is attached: a module may go before the session is complete.
    pub fn of(system: &System) -> Self {
        let all = Home::ALL.into_iter().filter_map(Home::module);
        Self(all.map(|m| (m, system.module_identity(m))).collect())
    }
}

/// The state when the session began.
#[derive(Debug)]
pub struct HookMonitor {
    /// Modules that carry kprobes.
    modules: Modules,
    /// Commands are counted by kprobes.
    by_kprobe: bool,
    /// Requests that the disks had completed by then.
    done: u64,
}

impl HookMonitor {
    /// Records the state. Call it when everything is attached.
    pub fn begin(mut modules: Modules, system: &System, plan: &AttachPlan) -> Self {
        let unpinned = plan.unpinned_modules();
        modules.0.retain(|(module, _)| unpinned.contains(module));
        // loaded since then
        for (module, was) in &mut modules.0 {
            *was = was.or_else(|| system.module_identity(module));
        }
        Self {
            modules,
            by_kprobe: plan.method_of(Point::SetupOut) == Some(Method::Kprobe),
            done: system.io_done(),
        }
    }

    /// Why the session no longer observes anything, in one sentence; `None` if it still does.
    pub fn gone(&self, system: &System) -> Option<String> {
        let changed =
            |&&(module, was): &&(&str, Option<u64>)| system.module_identity(module) != was;
        if let Some((module, _)) = self.modules.0.iter().find(changed) {
            return Some(format!(
                "the module {module} was unloaded during the run and has taken the kprobes along, \
                 which do not hold it: what came after is not in the report. Start again"
            ));
        }
        let why = self.by_kprobe.then(|| system.no_kprobes()).flatten()?;
        Some(format!(
            "{why}, since some time during the run: what came after is not in the report. Switch \
             them on and start again"
        ))
    }

    /// Why no kprobe was called although the disks completed requests; `None` if this is not the
    /// case. Kprobes may be switched off, and only debugfs shows that, which cannot always be read.
    /// Call it before anything is detached.
    pub fn saw_no_events(&self, system: &System, hits: u64) -> Option<String> {
        let done = system.io_done().saturating_sub(self.done);
        (self.by_kprobe && hits == 0 && done > 0).then(|| {
            format!(
                "not one kprobe was called, though the kernel says that its NVMe disks have \
                 completed {done} requests: kprobes may be switched off \
                 (/sys/kernel/debug/kprobes/enabled). Nothing was measured"
            )
        })
    }
}

impl System {
    /// Number of requests that all NVMe disks have completed: reads, writes, discards and flushes
    /// (Documentation/block/stat.rst).
    fn io_done(&self) -> u64 {
        let disks = fs::read_dir(self.path("sys/block")).into_iter().flatten();
        let of_nvme =
            disks.flatten().filter(|d| d.file_name().as_encoded_bytes().starts_with(b"nvme"));
        of_nvme
            .filter_map(|disk| fs::read_to_string(disk.path().join("stat")).ok())
            .map(|stat| {
                let numbers: Vec<u64> =
                    stat.split_whitespace().filter_map(|n| n.parse().ok()).collect();
                let at = |n: usize| numbers.get(n).copied().unwrap_or(0);
                [0, 4, 11, 15].map(at).iter().sum::<u64>()
            })
            .sum()
    }
}

/// Bytes of a bounce buffer (IO_TLB_SIZE of include/linux/swiotlb.h).
const BOUNCE_BYTES: u64 = 2048;

/// Times of a CPU since the boot, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Its number.
    pub cpu: u32,
    /// Ready to run, but the hypervisor ran something else.
    pub steal_ns: u64,
    /// In hard interrupts; 0 on kernels that do not account for them.
    pub irq_ns: u64,
    /// In soft interrupts.
    pub softirq_ns: u64,
    /// Idle, with or without outstanding I/O.
    pub idle_ns: u64,
}

/// A line `cpuN ...` of /proc/stat. The times are in ticks of `tick_ns`. The procfs crate omits
/// the numbers of the CPUs. Some may be offline.
fn cpu_line(line: &str, tick_ns: u64) -> Option<CpuTimes> {
    let mut words = line.split_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    // user nice system idle iowait irq softirq steal
    let times: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let ns = |field: usize| times.get(field).map(|ticks: &u64| ticks.saturating_mul(tick_ns));
    Some(CpuTimes {
        cpu,
        steal_ns: ns(7)?,
        irq_ns: ns(5)?,
        softirq_ns: ns(6)?,
        idle_ns: ns(3)?.saturating_add(ns(4)?),
    })
}

impl System {
    /// The times of the CPUs that are online. Empty if /proc/stat cannot be read.
    pub fn cpu_times(&self) -> Vec<CpuTimes> {
        let tick_ns = 1_000_000_000 / clock_ticks_per_second().max(1);
        let text = fs::read_to_string(self.path("proc/stat")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| cpu_line(line, tick_ns));
        lines.collect()
    }

    /// How often a CPU may take samples, per second (kernel.perf_event_max_sample_rate); `None` if
    /// it cannot be read.
    pub fn sample_rate(&self) -> Option<u32> {
        let path = self.path("proc/sys/kernel/perf_event_max_sample_rate");
        read_line(&path)?.parse().ok()
    }

    /// The CPUs that tasks and interrupts are kept away from, so that nothing interrupts what runs
    /// there: `isolcpus`, `nohz_full`.
    pub fn isolated_cpus(&self) -> BTreeSet<u32> {
        let lists = ["isolated", "nohz_full"].map(|name| {
            let list = read_line(&self.path("sys/devices/system/cpu").join(name));
            // without any it is empty, or `(null)`
            list_ranges(&list.unwrap_or_default()).unwrap_or_default()
        });
        lists.into_iter().flatten().flatten().collect()
    }

    /// The pool of bounce buffers; `None` if the kernel has none, or debugfs cannot be read.
    pub fn bounce_pool(&self) -> Option<Pool> {
        let bytes = |file: &str| {
            let path = self.path("sys/kernel/debug/swiotlb").join(file);
            let slots: u64 = read_line(&path)?.parse().ok()?;
            Some(slots.saturating_mul(BOUNCE_BYTES))
        };
        Some(Pool { used: bytes("io_tlb_used")?, size: bytes("io_tlb_nslabs")? })
    }
}

/// The interrupt of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInterrupt {
    /// The queue.
    pub queue: QueueId,
    /// Its number in /proc/interrupts.
    pub irq: u32,
    /// How often each CPU took it since the boot. The vector may be shared with other queues.
    pub by_cpu: BTreeMap<u32, u64>,
}

/// The queue of a handler's name: `nvme0q1`.
fn queue_of(name: &str) -> Option<QueueId> {
    let (ctrl, qid) = name.strip_prefix("nvme")?.split_once('q')?;
    Some(QueueId::new(ctrl.parse().ok()?, qid.parse().ok()?))
}

/// The queues of a line ` 27:  12  0  PCI-MSIX-0000:00:04.0  1-edge  nvme0q1`. Several handlers share
/// a line, separated by commas.
fn line_of(line: &str, cpus: &[u32]) -> Vec<QueueInterrupt> {
    let mut words = line.split_whitespace();
    let irq = words.next().and_then(|w| w.strip_suffix(':')?.parse().ok());
    let Some(irq) = irq else { return vec![] };
    let counts: Vec<u64> = words.by_ref().take(cpus.len()).map_while(|w| w.parse().ok()).collect();
    let by_cpu: BTreeMap<u32, u64> = cpus.iter().copied().zip(counts).collect();
    let queues = words.filter_map(|w| queue_of(w.trim_end_matches(',')));
    queues.map(|queue| QueueInterrupt { queue, irq, by_cpu: by_cpu.clone() }).collect()
}

impl System {
    /// The interrupts of NVMe queues. Empty if /proc/interrupts cannot be read.
    pub fn queue_interrupts(&self) -> Vec<QueueInterrupt> {
        let text = fs::read_to_string(self.path("proc/interrupts")).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let cpus: Vec<u32> = head
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        lines.flat_map(|line| line_of(line, &cpus)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;
    use crate::model::stage::StageSet;
    use crate::probe::plan::tests::everything;
    use crate::probe::plan::{Policy, plan};

    fn plan_by(method: Option<Method>) -> AttachPlan {
        let policy = Policy { only: method, ..Policy::default() };
        plan(StageSet::Total, &everything(), &policy).unwrap()
    }

    fn begin(system: &System, method: Option<Method>) -> HookMonitor {
        HookMonitor::begin(Modules::of(system), system, &plan_by(method))
    }

    #[test]
    fn kprobes_that_are_never_called_while_disks_work_are_noticed() {
        let stat = "sys/block/nvme0n1/stat";
        let machine = TestMachine::new(&[
            (stat, "3 0 24 1 2 0 0 0 0 0 0 1 0 0 0 1 0\n"),
            ("sys/block/sda/stat", "3 0 24 1 2\n"),
        ]);
        assert_eq!(machine.io_done(), 7);
        let watch = begin(&machine, Some(Method::Kprobe));
        let others = begin(&machine, None);
        assert_eq!(watch.saw_no_events(&machine, 0), None);
        machine.put(stat, "8 0 24 1 2\n");
        assert!(watch.saw_no_events(&machine, 0).unwrap().contains("completed 3 requests"));
        assert_eq!(watch.saw_no_events(&machine, 1), None);
        assert_eq!(others.saw_no_events(&machine, 0), None);
    }

    /// tests/vm/judge/gone.rs unloads modules.
    #[test]
    fn kprobes_that_are_switched_off_and_modules_that_were_gone_before_are_reported() {
        let enabled = "sys/kernel/debug/kprobes/enabled";
        let machine = TestMachine::new(&[("sys/module/nvme_core/refcnt", "1\n"), (enabled, "1\n")]);
        let watch = begin(&machine, Some(Method::Kprobe));
        let before = Modules::of(&machine);
        assert_eq!(watch.gone(&machine), None);
        machine.put(enabled, "0\n");
        assert!(watch.gone(&machine).unwrap().contains("switched off"));
        assert_eq!(begin(&machine, None).gone(&machine), None);
        fs::remove_dir_all(machine.path("sys/module/nvme_core")).unwrap();
        let watch = HookMonitor::begin(before, &machine, &plan_by(Some(Method::Kprobe)));
        assert!(watch.gone(&machine).unwrap().contains("module nvme_core"));
        // built in, without parameters: no directory of sysfs
        machine.put(enabled, "1\n");
        assert_eq!(begin(&machine, Some(Method::Kprobe)).gone(&machine), None);
    }

    #[test]
    fn cpu_times_come_with_the_numbers_of_the_cpus() {
        let machine = TestMachine::new(&[]);
        assert_eq!(machine.cpu_times(), []);
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                    cpu0 1 2 3 4 5 6 7 8 0 0\n\
                    cpu2 0 0 0 100 0 0 0 0 0 0\n\
                    intr 1 2\nctxt 5\n";
        machine.put("proc/stat", text);
        let tick = 1_000_000_000 / clock_ticks_per_second();
        let [steal_ns, irq_ns, softirq_ns, idle_ns] = [8, 6, 7, 9].map(|n| n * tick);
        let first = CpuTimes { cpu: 0, steal_ns, irq_ns, softirq_ns, idle_ns };
        let third = CpuTimes { cpu: 2, idle_ns: 100 * tick, ..CpuTimes::default() };
        assert_eq!(machine.cpu_times(), [first, third]);
    }

    #[test]
    fn isolated_cpus_come_from_both_lists() {
        for (isolated, nohz, want) in
            [("\n", "  (null)\n", &[][..]), ("2-3\n", "3,6\n", &[2, 3, 6])]
        {
            let machine = TestMachine::new(&[
                ("sys/devices/system/cpu/isolated", isolated),
                ("sys/devices/system/cpu/nohz_full", nohz),
            ]);
            assert_eq!(machine.isolated_cpus(), want.iter().copied().collect());
        }
        assert!(TestMachine::new(&[]).isolated_cpus().is_empty());
    }

    #[test]
    fn a_pool_of_bounce_buffers_is_known_if_both_numbers_are() {
        let machine = TestMachine::new(&[("sys/kernel/debug/swiotlb/io_tlb_nslabs", "32768\n")]);
        assert_eq!(machine.bounce_pool(), None);
        machine.put("sys/kernel/debug/swiotlb/io_tlb_used", "3\n");
        assert_eq!(machine.bounce_pool(), Some(Pool { used: 6144, size: 64 << 20 }));
    }

    #[test]
    fn each_queue_has_its_line_of_interrupts() {
        let text = "            CPU0       CPU2       \n\
                    \x20  9:          0          4   IO-APIC   9-fasteoi   acpi\n\
                    \x20 26:         11          0  PCI-MSIX-0000:00:04.0   0-edge      nvme0q0\n\
                    \x20 27:          7      12345   PCI-MSI 65537-edge      nvme0q1, nvme1q12\n\
                    NMI:          1          2   Non-maskable interrupts\n";
        let all = TestMachine::new(&[("proc/interrupts", text)]).queue_interrupts();
        let found: Vec<_> = all.iter().map(|i| (i.queue.ctrl, i.queue.qid, i.irq)).collect();
        assert_eq!(found, [(0, 0, 26), (0, 1, 27), (1, 12, 27)]);
        assert_eq!(all[1].by_cpu, BTreeMap::from([(0, 7), (2, 12345)]));
        assert_eq!(System::at("/missing").queue_interrupts(), []);
    }
}
