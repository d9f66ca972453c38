// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks, from time to time, what a running session depends on but cannot hold.

use std::fs;

use super::System;
use crate::model::point::Point;
use crate::probe::catalog::{Home, Method};
use crate::probe::plan::AttachPlan;

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

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use crate::model::stage::StageSet;
    use crate::probe::plan::tests::everything;
    use crate::probe::plan::{Policy, plan};
    use tempfile::TempDir;

    fn plan_by(method: Option<Method>) -> AttachPlan {
        let policy = Policy { only: method, ..Policy::default() };
        plan(StageSet::Total, &everything(), &policy).unwrap()
    }

    fn begin(system: &System, method: Option<Method>) -> HookMonitor {
        HookMonitor::begin(Modules::of(system), system, &plan_by(method))
    }

    #[test]
    fn kprobes_that_are_never_called_while_disks_work_are_noticed() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "sys/block/nvme0n1/stat", "3 0 24 1 2 0 0 0 0 0 0 1 0 0 0 1 0\n");
        put(&root, "sys/block/sda/stat", "3 0 24 1 2\n");
        assert_eq!(system.io_done(), 7);
        let watch = begin(&system, Some(Method::Kprobe));
        let others = begin(&system, None);
        assert_eq!(watch.saw_no_events(&system, 0), None);
        put(&root, "sys/block/nvme0n1/stat", "8 0 24 1 2\n");
        assert!(watch.saw_no_events(&system, 0).unwrap().contains("completed 3 requests"));
        assert_eq!(watch.saw_no_events(&system, 1), None);
        assert_eq!(others.saw_no_events(&system, 0), None);
    }

    #[test]
    fn a_removal_is_reported() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "sys/module/nvme_core/refcnt", "1\n");
        put(&root, "sys/kernel/debug/kprobes/enabled", "1\n");
        let watch = begin(&system, Some(Method::Kprobe));
        let others = begin(&system, None);
        assert_eq!(watch.gone(&system), None);
        put(&root, "sys/kernel/debug/kprobes/enabled", "0\n");
        assert!(watch.gone(&system).unwrap().contains("switched off"));
        assert_eq!(others.gone(&system), None);
        fs::remove_dir_all(root.path().join("sys/module/nvme_core")).unwrap();
        assert!(watch.gone(&system).unwrap().contains("module nvme_core"));
        assert_eq!(others.gone(&system), None);
    }

    #[test]
    fn a_removal_before_the_session_is_complete_is_reported() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "sys/module/nvme_core/refcnt", "1\n");
        let before = Modules::of(&system);
        fs::remove_dir_all(root.path().join("sys/module/nvme_core")).unwrap();
        let plan = plan_by(Some(Method::Kprobe));
        let watch = HookMonitor::begin(before, &system, &plan);
        assert!(watch.gone(&system).unwrap().contains("module nvme_core"));
        // built in, without parameters: no directory of sysfs
        let watch = begin(&system, Some(Method::Kprobe));
        assert_eq!(watch.gone(&system), None);
        // loaded before the session is complete
        let before = Modules::of(&system);
        put(&root, "sys/module/nvme_core/refcnt", "1\n");
        let watch = HookMonitor::begin(before, &system, &plan);
        assert_eq!(watch.gone(&system), None);
    }
}
