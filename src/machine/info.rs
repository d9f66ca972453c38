// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a machine as a recording has them.

use std::collections::{BTreeMap, BTreeSet};

use super::System;
use super::fact::Fact;
use super::io_control::number;
use super::nvme::{NamespaceDetail, NvmeDetail, NvmeParameters};
use super::overview::Machine;
use super::read_line;
use super::sysfs::{is_namespace, names_in};
use crate::model::machine::{MachineController, MachineDisk, MachineInfo, UpperDisk};
use crate::model::text::Text;

fn known<T: Clone>(fact: &Fact<T>) -> Option<T> {
    fact.known().cloned()
}

fn text(fact: &Fact<String>) -> Option<Text> {
    fact.known().map(Into::into)
}

/// Bytes of a setting in KiB.
fn bytes(kib: &Fact<u32>) -> Option<u64> {
    kib.known().map(|n| u64::from(*n) << 10)
}

fn disk(detail: &NamespaceDetail) -> Option<MachineDisk> {
    Some(MachineDisk {
        name: (&detail.name).into(),
        nsid: known(&detail.nsid)?,
        scheduler: text(&detail.scheduler),
        nr_requests: known(&detail.nr_requests),
        async_depth: known(&detail.async_depth),
        rq_affinity: known(&detail.rq_affinity),
        io_poll: detail.io_poll.known().map(|n| *n != 0),
        write_cache: text(&detail.write_cache),
        max_hw_bytes: bytes(&detail.max_hw_sectors_kb),
        max_bytes: bytes(&detail.max_sectors_kb),
        physical_bytes: known(&detail.physical_block_size),
        logical_bytes: known(&detail.lba_bytes),
        io_timeout_ms: known(&detail.io_timeout_ms),
        number: detail.number.known().and_then(|text| number(text)),
        wbt_lat_us: known(&detail.wbt_lat_us),
        limits: known(&detail.limits),
        io_cost: known(&detail.io_cost),
        zoned: text(&detail.zoned),
    })
}

fn controller(detail: &NvmeDetail) -> MachineController {
    MachineController {
        instance: detail.instance,
        class: detail.class.name().into(),
        transport: text(&detail.transport),
        state: text(&detail.state),
        // the kernel counts the admin queue, too
        io_queues: detail.queue_count.known().map(|n| n.saturating_sub(1)),
        depth: known(&detail.queue_depth),
        vectors: known(&detail.interrupt_vectors),
        shadow_doorbells: known(&detail.shadow_doorbells),
        iommu_group: text(&detail.iommu_group),
        bar: None,
        disks: detail.namespaces.iter().filter_map(disk).collect(),
    }
}

/// Whether mappings that are removed are invalidated at once, by the types of the IOMMU groups.
/// Before 5.15 (`DMA-FQ`) the types do not show it.
fn strict(controllers: &[NvmeDetail], release: Option<(u32, u32)>) -> Option<bool> {
    let types = controllers.iter().filter_map(|c| c.iommu_group.known());
    let mut strict = types.filter_map(|name| match name.as_str() {
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

/// The settings, from what was read of the machine.
pub fn machine_info(
    machine: &Machine,
    parameters: &NvmeParameters,
    controllers: &[NvmeDetail],
) -> MachineInfo {
    let hypervisor = &machine.hypervisor;
    let is_virtual = hypervisor.present;
    let real_time = machine.version.known().map(|v| v.contains("PREEMPT_RT"));
    let asked = parameters.use_threaded_interrupts.known();
    let asked = asked.map(|value| value != "0");
    let release = machine.release.known().and_then(|text| version(text));
    MachineInfo {
        hypervisor: is_virtual.unwrap_or(false).then(|| (&hypervisor.name).into()),
        is_virtual,
        is_emulated: hypervisor.emulated,
        cpus: known(&machine.cpus_online),
        threaded_interrupts: match (real_time, asked) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        poll_queues: known(&parameters.poll_queues),
        io_timeout_s: known(&parameters.io_timeout_s),
        iommu_strict: strict(controllers, release),
        cgroup_mount: None,
        controllers: controllers.iter().map(controller).collect(),
        upper: Vec::new(),
    }
}

/// The disk of a partition: `nvme0n1` of `nvme0n1p2`, `md0` of `md0p1`.
fn whole_disk(name: &str) -> &str {
    let part = name.rsplit_once('p').filter(|(_, number)| number.parse::<u32>().is_ok());
    part.map_or(name, |(disk, _)| disk)
}

impl System {
    /// Disks of device mapper and md that are above NVMe.
    fn upper_disks(&self) -> Vec<UpperDisk> {
        let all = names_in(&self.path("sys/block"));
        let all = all.iter().filter(|name| name.starts_with("dm-") || name.starts_with("md"));
        let below: BTreeMap<&str, Vec<String>> = all
            .map(|name| {
                let slaves = names_in(&self.path(&format!("sys/block/{name}/slaves")));
                (name.as_str(), slaves.iter().map(|s| whole_disk(s).to_owned()).collect())
            })
            .collect();
        let disk = |name: &str| {
            // the leaves of the tree
            let (mut leaves, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![name]);
            while let Some(next) = open.pop() {
                match below.get(next) {
                    Some(slaves) if seen.insert(next) => open.extend(slaves.iter().map(|s| &**s)),
                    Some(_) => {}
                    None => _ = leaves.insert(next),
                }
            }
            let (disks, others): (Vec<&str>, Vec<&str>) =
                leaves.into_iter().partition(|leaf| is_namespace(leaf));
            let read = |file: &str| read_line(&self.path(&format!("sys/block/{name}/{file}")));
            let made_by = |uuid: String| uuid.split_once('-').map(|(by, _)| by.to_owned());
            (!disks.is_empty()).then(|| UpperDisk {
                name: name.into(),
                kind: read("md/level").or_else(|| made_by(read("dm/uuid")?)).map(Into::into),
                disks: disks.into_iter().map(Into::into).collect(),
                is_top: !below.values().flatten().any(|slave| slave == name),
                has_others: !others.is_empty(),
            })
        };
        below.keys().filter_map(|name| disk(name)).collect()
    }

    /// Reads the settings of the machine. With `identify` it sends an Identify command to each live
    /// PCI controller: only this shows whether there are shadow doorbells.
    pub fn info(&self, identify: bool) -> MachineInfo {
        let machine = self.machine();
        let controllers = self.nvme_details(&machine.hypervisor, identify);
        let mut info = machine_info(&machine, &self.nvme_parameters(), &controllers);
        info.upper = self.upper_disks();
        info.cgroup_mount = self.cgroup_mount().map(Into::into);
        for controller in &mut info.controllers {
            controller.bar = self.nvme_bar(controller.instance);
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    fn machine() -> TempDir {
        let root = TempDir::new().unwrap();
        let at = "sys/class/nvme/nvme1";
        for (file, text) in [
            ("model", "QEMU NVMe Ctrl\n"),
            ("transport", "pcie\n"),
            ("state", "live\n"),
            ("queue_count", "3\n"),
            ("sqsize", "1023\n"),
            ("device/iommu_group/type", "DMA\n"),
            (
                "device/resource",
                "0x00000000febd4000 0x00000000febd7fff 0x0000000000140204\n0x0 0x0 0x0\n",
            ),
            ("nvme1n1/nsid", "7\n"),
            ("nvme1n1/queue/scheduler", "[none] mq-deadline\n"),
            ("nvme1n1/queue/write_cache", "write back\n"),
            ("nvme1n1/queue/max_hw_sectors_kb", "8\n"),
            ("nvme1n1/queue/max_sectors_kb", "4\n"),
            ("nvme1n1/queue/physical_block_size", "4096\n"),
            ("nvme1n1/queue/logical_block_size", "512\n"),
            ("nvme1n1/queue/io_poll", "0\n"),
        ] {
            put(&root, &format!("{at}/{file}"), text);
        }
        for (path, text) in [
            ("proc/cpuinfo", "flags : hypervisor\n"),
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/module/nvme/parameters/poll_queues", "2\n"),
            ("sys/module/nvme/parameters/use_threaded_interrupts", "0\n"),
        ] {
            put(&root, path, text);
        }
        root
    }

    #[test]
    fn the_settings_are_those_of_sysfs() {
        let root = machine();
        let info = System::at(root.path()).info(false);
        assert_eq!((info.cpus, info.is_virtual), (Some(4), Some(true)));
        assert_eq!(info.threaded_interrupts, Some(false));
        assert_eq!((info.poll_queues, info.io_timeout_s), (Some(2), None));
        assert_eq!(info.iommu_strict, Some(true));
        let [nvme] = info.controllers.as_slice() else {
            panic!("{info:?}");
        };
        assert_eq!((nvme.instance, nvme.io_queues), (1, Some(2)));
        assert_eq!((nvme.class.as_str(), nvme.depth), ("emulated", Some(1024)));
        assert_eq!(nvme.iommu_group, Some("DMA".into()));
        assert_eq!(nvme.bar, Some([0xfebd_4000, 0xfebd_7fff]));
        assert_eq!(nvme.shadow_doorbells, None);
        let disk = MachineDisk {
            name: "nvme1n1".into(),
            nsid: 7,
            scheduler: Some("none".into()),
            io_poll: Some(false),
            write_cache: Some("write back".into()),
            max_hw_bytes: Some(8192),
            max_bytes: Some(4096),
            physical_bytes: Some(4096),
            logical_bytes: Some(512),
            ..MachineDisk::default()
        };
        assert_eq!(nvme.disks, [disk]);
    }

    #[test]
    fn interrupts_are_threads_on_a_real_time_kernel_and_by_parameter() {
        let root = machine();
        let threaded = || System::at(root.path()).info(false).threaded_interrupts;
        let parameter = "sys/module/nvme/parameters/use_threaded_interrupts";
        put(&root, parameter, "1\n");
        assert_eq!(threaded(), Some(true));
        put(&root, parameter, "0\n");
        put(&root, "proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n");
        assert_eq!(threaded(), Some(true));
    }

    #[test]
    fn disks_above_nvme_have_the_disks_below_and_the_top_is_known() {
        let root = machine();
        for (path, text) in [
            ("dm-0/slaves/nvme1n1p2/x", ""),
            ("dm-0/dm/uuid", "CRYPT-LUKS2-5f3e-luks\n"),
            ("dm-1/slaves/dm-0/x", ""),
            ("dm-2/slaves/sda/x", ""),
            ("md127/slaves/nvme0n1/x", ""),
            ("md127/slaves/sdb1/x", ""),
            ("md127/md/level", "raid1\n"),
        ] {
            put(&root, &format!("sys/block/{path}"), text);
        }
        let upper = System::at(root.path()).info(false).upper;
        let text = |u: &UpperDisk| {
            let kind = u.kind.as_ref().map_or("?", |kind| kind.as_str());
            let disks: Vec<&str> = u.disks.iter().map(|disk| disk.as_str()).collect();
            format!("{} {kind} {} {} {}", u.name, disks.join(" "), u.is_top, u.has_others)
        };
        let all: Vec<String> = upper.iter().map(text).collect();
        assert_eq!(
            all,
            [
                "dm-0 CRYPT nvme1n1 false false",
                "dm-1 ? nvme1n1 true false",
                "md127 raid1 nvme0n1 true true",
            ]
        );
    }

    #[test]
    fn before_5_15_the_group_does_not_show_whether_invalidation_is_strict() {
        let root = machine();
        let strict = || System::at(root.path()).info(false).iommu_strict;
        put(&root, "proc/sys/kernel/osrelease", "5.10.0-46-amd64\n");
        assert_eq!(strict(), None);
        let group = "sys/class/nvme/nvme1/device/iommu_group/type";
        put(&root, group, "DMA-FQ\n");
        assert_eq!(strict(), Some(false));
        put(&root, group, "identity\n");
        assert_eq!(strict(), None);
    }
}
