// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads facts about NVMe controllers without tracing: from sysfs, and optionally from one Identify
//! command. Serial numbers and the like are left out, because the output is used in bug reports.

use std::fs;

use serde::Serialize;

use super::System;
use super::disk::disk_of_path;
use super::fact::Fact;
use super::hypervisor::Hypervisor;
use super::io_control::{IoControl, number as disk_number};
use super::nvme_class::{Class, Traits};
use super::overview::bracketed;
use super::sysfs::{instance_of, is_namespace, names_in};
use crate::model::machine::{IoCost, IoLimits};
use crate::model::text::Text;

/// Parameters of the modules nvme and nvme_core. Queue parameters take effect at the next reset of
/// a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NvmeParameters {
    /// nvme.poll_queues: I/O queues without an interrupt, for `io_uring` with IOPOLL.
    pub poll_queues: Fact<u32>,
    /// nvme.write_queues: I/O queues for writes only.
    pub write_queues: Fact<u32>,
    /// nvme.io_queue_depth: the maximum number of entries that the driver requests.
    pub io_queue_depth: Fact<u32>,
    /// nvme.use_threaded_interrupts: `0`, or `1` for completions in interrupt threads.
    pub use_threaded_interrupts: Fact<String>,
    /// nvme_core.io_timeout in seconds.
    pub io_timeout_s: Fact<u32>,
    /// nvme_core.admin_timeout in seconds.
    pub admin_timeout_s: Fact<u32>,
    /// nvme_core.multipath: `Y` or `N`.
    pub multipath: Fact<String>,
}

/// A namespace, and its settings in the block layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceDetail {
    /// The block device's name: `nvme0n1`, or `nvme0c1n1` for a path of a multipath namespace.
    pub name: String,
    /// A path of a multipath namespace; applications use another device.
    pub hidden: bool,
    /// The namespace id.
    pub nsid: Fact<u32>,
    /// Size in bytes.
    pub size_bytes: Fact<u64>,
    /// Logical block size in bytes.
    pub lba_bytes: Fact<u32>,
    /// The I/O scheduler in use.
    pub scheduler: Fact<String>,
    /// Number of requests that a queue (or its scheduler) has room for.
    pub nr_requests: Fact<u32>,
    /// Requests other than reads that mq-deadline or kyber lets a queue have.
    #[serde(skip)]
    pub async_depth: Fact<u32>,
    /// The block layer keeps statistics, including the times in its requests: 0 or 1.
    pub iostats: Fact<u32>,
    /// Merging of requests. 0: where possible; 1: only simple merges; 2: none.
    pub nomerges: Fact<u32>,
    /// Latency target of writeback throttling in microseconds; 0 is off.
    pub wbt_lat_us: Fact<i64>,
    /// Major and minor number of the disk that applications use: `259:0`.
    pub number: Fact<String>,
    /// Limits of cgroups on it (io.max).
    pub limits: Fact<IoLimits>,
    /// io.cost on it.
    pub io_cost: Fact<IoCost>,
    /// `none`, `host-aware` or `host-managed`: whether it has zones.
    pub zoned: Fact<String>,
    /// 1: complete on a CPU that shares a cache with the submitting CPU; 2: on the submitting CPU.
    pub rq_affinity: Fact<u32>,
    /// There are polled queues: 0 or 1.
    pub io_poll: Fact<u32>,
    /// `write back` or `write through`: whether the block layer sends flushes.
    pub write_cache: Fact<String>,
    /// Largest transfer that the controller permits, in KiB.
    pub max_hw_sectors_kb: Fact<u32>,
    /// Largest transfer that the block layer uses, in KiB.
    pub max_sectors_kb: Fact<u32>,
    /// Physical block size in bytes.
    pub physical_block_size: Fact<u32>,
    /// Request timeout in milliseconds. After this time the driver considers a command lost.
    pub io_timeout_ms: Fact<u32>,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NvmeDetail {
    /// `nvme0`
    pub name: String,
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: Fact<Text>,
    /// Firmware revision.
    pub firmware: Fact<Text>,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Fact<String>,
    /// The PCI address, or the target's address.
    pub address: Fact<String>,
    /// `live`, `resetting`, `connecting`, `deleting`, `dead`.
    pub state: Fact<String>,
    /// PCI vendor and device ids, as in lspci: `1b36:0010`.
    pub pci_id: Fact<String>,
    /// PCI subsystem vendor and device ids.
    pub pci_subsystem_id: Fact<String>,
    /// The NUMA node; -1 if none.
    pub numa_node: Fact<i32>,
    /// The kind of device behind it.
    pub class: Class,
    /// The reason for `class`.
    pub class_reason: String,
    /// Number of queues, including the admin queue.
    pub queue_count: Fact<u32>,
    /// Entries of an I/O submission queue.
    pub queue_depth: Fact<u32>,
    /// Message signalled interrupts: one for the admin queue, and at most one for each I/O queue
    /// that is not polled.
    pub interrupt_vectors: Fact<u32>,
    /// The controller offers shadow doorbells (Doorbell Buffer Config). The driver then uses them,
    /// and most doorbells are memory writes without an exit to the hypervisor.
    pub shadow_doorbells: Fact<bool>,
    /// Type of its IOMMU group: `identity` (no translation), `DMA` (strict invalidation), `DMA-FQ`
    /// (lazy).
    pub iommu_group: Fact<String>,
    /// Its namespaces, sorted by id.
    pub namespaces: Vec<NamespaceDetail>,
}

impl NamespaceDetail {
    /// Takes in the limits of cgroups, and io.cost.
    fn set_io_control(&mut self, control: &Fact<IoControl>) {
        let number = self.number.clone().and_then(|text| {
            disk_number(&text)
                .map_or_else(|| Fact::unknown(format!("it says `{text}`")), Fact::Known)
        });
        (self.limits, self.io_cost) = match (number, control) {
            (Fact::Known(number), Fact::Known(control)) => {
                let limits = Fact::Known(control.limits(number));
                (limits, control.cost(number))
            }
            (Fact::Unknown { unknown }, _) => (Fact::unknown(&unknown), Fact::unknown(unknown)),
            (_, Fact::Unknown { unknown }) => (Fact::unknown(unknown), Fact::unknown(unknown)),
        };
    }
}

impl System {
    fn parameter(&self, module: &str, name: &str) -> Fact<String> {
        if self.exists(&format!("sys/module/{module}")).is(&false) {
            return Fact::unknown(format!("{module} is not loaded"));
        }
        self.text(&format!("sys/module/{module}/parameters/{name}"))
    }

    /// Reads the parameters of the driver.
    pub fn nvme_parameters(&self) -> NvmeParameters {
        NvmeParameters {
            poll_queues: self.parameter("nvme", "poll_queues").parse(),
            write_queues: self.parameter("nvme", "write_queues").parse(),
            io_queue_depth: self.parameter("nvme", "io_queue_depth").parse(),
            use_threaded_interrupts: self.parameter("nvme", "use_threaded_interrupts"),
            io_timeout_s: self.parameter("nvme_core", "io_timeout").parse(),
            admin_timeout_s: self.parameter("nvme_core", "admin_timeout").parse(),
            multipath: self.parameter("nvme_core", "multipath"),
        }
    }

    /// Reads all controllers, sorted by number. With `identify` it sends an Identify command to
    /// each live PCI controller: only this shows whether there are shadow doorbells.
    pub fn nvme_details(&self, hypervisor: &Hypervisor, identify: bool) -> Vec<NvmeDetail> {
        let mut found: Vec<NvmeDetail> = names_in(&self.path("sys/class/nvme"))
            .into_iter()
            .filter_map(|name| {
                let instance = instance_of(&name)?;
                Some(self.nvme_detail(name, instance, hypervisor, identify))
            })
            .collect();
        found.sort_by_key(|c| c.instance);
        let mut namespaces = found.iter_mut().flat_map(|c| &mut c.namespaces).peekable();
        if namespaces.peek().is_some() {
            let control = self.io_control();
            namespaces.for_each(|namespace| namespace.set_io_control(&control));
        }
        found
    }

    fn nvme_detail(
        &self,
        name: String,
        instance: u32,
        hypervisor: &Hypervisor,
        identify: bool,
    ) -> NvmeDetail {
        let at = format!("sys/class/nvme/{name}");
        let text = |file: &str| self.text(&format!("{at}/{file}"));
        let chosen = |file: &str| self.device_text(&format!("{at}/{file}"));
        let (model, transport, state) = (chosen("model"), text("transport"), text("state"));
        let pci_id = self.pci_id(&at, "vendor", "device");
        let (class, class_reason) = Traits {
            pci_id: pci_id.known().map(String::as_str),
            model: model.known().map_or("", Text::as_str),
            transport: transport.known().map(String::as_str),
            hypervisor: hypervisor.present,
        }
        .classify();
        let shadow_doorbells = match (pci_id.known(), state.known().map(String::as_str)) {
            (None, _) => Fact::unknown("not on PCI"),
            (_, Some(state)) if state != "live" => {
                Fact::unknown(format!("not asked: it is {state}"))
            }
            _ if !identify => Fact::unknown("not asked"),
            _ => self.shadow_doorbells(&name),
        };
        NvmeDetail {
            instance,
            model,
            firmware: chosen("firmware_rev"),
            transport,
            address: text("address"),
            state,
            pci_subsystem_id: self.pci_id(&at, "subsystem_vendor", "subsystem_device"),
            numa_node: self
                .number(&format!("{at}/numa_node"))
                .or_else(|| self.number(&format!("{at}/device/numa_node"))),
            class,
            class_reason,
            queue_count: self.number(&format!("{at}/queue_count")),
            // zero based, as in the specification (CAP.MQES)
            queue_depth: self.number::<u32>(&format!("{at}/sqsize")).map(|n| n.saturating_add(1)),
            interrupt_vectors: self.interrupt_vectors(&at, pci_id.known().is_some()),
            shadow_doorbells,
            iommu_group: self.text(&format!("{at}/device/iommu_group/type")),
            namespaces: self.namespace_details(&at),
            pci_id,
            name,
        }
    }

    /// Joins the ids in two files, `0x1b36` and `0x0010`, to `1b36:0010`.
    fn pci_id(&self, at: &str, vendor: &str, device: &str) -> Fact<String> {
        let half = |file: &str| {
            self.text(&format!("{at}/device/{file}")).and_then(|text| {
                let digits = text.trim_start_matches("0x");
                u16::from_str_radix(digits, 16).map_or_else(
                    |_| Fact::unknown(format!("{file} says `{text}`")),
                    |n| Fact::Known(format!("{n:04x}")),
                )
            })
        };
        half(vendor).and_then(|vendor| half(device).map(|device| format!("{vendor}:{device}")))
    }

    fn interrupt_vectors(&self, at: &str, on_pci: bool) -> Fact<u32> {
        if !on_pci {
            return Fact::unknown("not on PCI");
        }
        match fs::read_dir(self.path(&format!("{at}/device/msi_irqs"))) {
            Ok(entries) => Fact::Known(u32::try_from(entries.count()).unwrap_or(u32::MAX)),
            Err(_) => Fact::unknown("no msi_irqs: a legacy interrupt, or none"),
        }
    }

    /// The number of the disk of a namespace. The path of a multipath disk has none.
    fn number_of_disk(&self, name: &str) -> Fact<String> {
        let disk = disk_of_path(name);
        self.text(&format!("sys/class/block/{disk}/dev"))
    }

    fn namespace_details(&self, at: &str) -> Vec<NamespaceDetail> {
        let mut found: Vec<NamespaceDetail> = names_in(&self.path(at))
            .into_iter()
            .filter(|name| is_namespace(name))
            .map(|name| {
                let path = |file: &str| format!("{at}/{name}/{file}");
                let number = |file: &str| self.number::<u32>(&path(&format!("queue/{file}")));
                NamespaceDetail {
                    hidden: name.trim_start_matches("nvme").contains('c'),
                    nsid: self.number(&path("nsid")),
                    // in sectors of 512 bytes, independent of the block size
                    size_bytes: self
                        .number::<u64>(&path("size"))
                        .map(|sectors| sectors.saturating_mul(512)),
                    lba_bytes: number("logical_block_size"),
                    scheduler: self
                        .text(&path("queue/scheduler"))
                        .map(|text| bracketed(&text).to_owned()),
                    nr_requests: number("nr_requests"),
                    async_depth: number("iosched/async_depth"),
                    iostats: number("iostats"),
                    nomerges: number("nomerges"),
                    wbt_lat_us: self.number(&path("queue/wbt_lat_usec")),
                    number: self.number_of_disk(&name),
                    limits: Fact::unknown("not read"),
                    io_cost: Fact::unknown("not read"),
                    zoned: self.text(&path("queue/zoned")),
                    rq_affinity: number("rq_affinity"),
                    io_poll: number("io_poll"),
                    write_cache: self.text(&path("queue/write_cache")),
                    max_hw_sectors_kb: number("max_hw_sectors_kb"),
                    max_sectors_kb: number("max_sectors_kb"),
                    physical_block_size: number("physical_block_size"),
                    io_timeout_ms: number("io_timeout"),
                    name,
                }
            })
            .collect();
        found.sort_by_key(|ns| ns.nsid.known().copied());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    /// A QEMU controller with a multipath namespace, as in a test guest.
    fn guest() -> (TempDir, System) {
        let root = TempDir::new().unwrap();
        let at = "sys/class/nvme/nvme0";
        for (file, text) in [
            ("model", "QEMU NVMe Ctrl                          \n"),
            ("serial", "deadbeef            \n"),
            ("firmware_rev", "1.0     \n"),
            ("transport", "pcie\n"),
            ("address", "0000:00:03.0\n"),
            ("state", "live\n"),
            ("queue_count", "3\n"),
            ("sqsize", "1023\n"),
            ("numa_node", "-1\n"),
            ("device/vendor", "0x1b36\n"),
            ("device/device", "0x0010\n"),
            ("device/subsystem_vendor", "0x1af4\n"),
            ("device/subsystem_device", "0x1100\n"),
            ("device/msi_irqs/25", "msix\n"),
            ("device/msi_irqs/26", "msix\n"),
            ("device/msi_irqs/27", "msix\n"),
            ("nvme0c0n1/nsid", "1\n"),
            ("nvme0c0n1/size", "2097152\n"),
            ("nvme0c0n1/queue/scheduler", "[none] mq-deadline \n"),
            ("nvme0c0n1/queue/logical_block_size", "512\n"),
            ("nvme0c0n1/queue/iostats", "1\n"),
            ("nvme0c0n1/queue/io_timeout", "30000\n"),
            ("nvme0c0n1/queue/wbt_lat_usec", "2000\n"),
            ("nvme0c0n1/queue/nr_requests", "1023\n"),
            ("ng0n1/nsid", "1\n"),
        ] {
            put(&root, &format!("{at}/{file}"), text);
        }
        put(&root, "sys/module/nvme/parameters/poll_queues", "2\n");
        put(&root, "proc/cpuinfo", "flags : hypervisor\n");
        let system = System::at(root.path());
        (root, system)
    }

    #[test]
    fn a_controller_has_all_fields_except_its_serial_number() {
        let (_root, system) = guest();
        let found = system.nvme_details(&system.hypervisor(), true);
        let [nvme] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((nvme.name.as_str(), nvme.instance), ("nvme0", 0));
        assert_eq!(nvme.pci_id.to_string(), "1b36:0010");
        assert_eq!(nvme.pci_subsystem_id.to_string(), "1af4:1100");
        assert_eq!(nvme.class, Class::Emulated);
        assert!(nvme.queue_count.is(&3) && nvme.queue_depth.is(&1024));
        assert!(nvme.interrupt_vectors.is(&3) && nvme.numa_node.is(&-1));
        let doorbells = nvme.shadow_doorbells.to_string();
        assert!(doorbells.contains("/dev/nvme0: no such file"), "{doorbells}");
        let json = serde_json::to_string(&found).unwrap();
        assert!(!json.contains("deadbeef"), "{json}");
    }

    #[test]
    fn namespaces_come_with_how_the_block_layer_treats_them() {
        let (_root, system) = guest();
        let namespaces = &system.nvme_details(&system.hypervisor(), false)[0].namespaces;
        let [path] = namespaces.as_slice() else {
            panic!("{namespaces:?}");
        };
        assert!(path.hidden && path.nsid.is(&1) && path.size_bytes.is(&(1 << 30)));
        assert_eq!(path.scheduler.to_string(), "none");
        assert!(path.io_timeout_ms.is(&30_000) && path.wbt_lat_us.is(&2000));
        assert!(path.iostats.is(&1) && path.io_poll.known().is_none());
        let why = "unknown (no such file)";
        assert_eq!(path.number.to_string(), why);
        assert_eq!(path.limits, Fact::unknown("no such file"));
    }

    /// A path of a multipath disk has no number: cgroups have limits on the disk.
    #[test]
    fn limits_of_cgroups_are_those_of_the_disk_of_a_path() {
        let (root, system) = guest();
        put(&root, "sys/class/block/nvme0n1/dev", "259:3\n");
        let limits = || {
            let found = system.nvme_details(&system.hypervisor(), false);
            found[0].namespaces[0].limits.clone()
        };
        assert_eq!(limits(), Fact::unknown("cgroups of version 2 are not mounted"));
        put(&root, "proc/mounts", "c /cg cgroup2 rw 0 0\n");
        put(&root, "cg/a/io.max", "259:3 riops=60\n259:4 riops=1\n");
        let found = limits().known().unwrap().clone();
        let shown: Vec<String> = found.cgroups.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["riops=60"]);
    }

    #[test]
    fn a_controller_that_is_not_live_is_not_asked() {
        let (root, system) = guest();
        let doorbells = |identify| {
            let found = system.nvme_details(&system.hypervisor(), identify);
            found[0].shadow_doorbells.to_string()
        };
        assert_eq!(doorbells(false), "unknown (not asked)");
        put(&root, "sys/class/nvme/nvme0/state", "resetting\n");
        assert_eq!(doorbells(true), "unknown (not asked: it is resetting)");
    }

    #[test]
    fn parameters_of_a_module_that_is_not_there_say_so() {
        let (_root, system) = guest();
        let parameters = system.nvme_parameters();
        assert!(parameters.poll_queues.is(&2));
        assert_eq!(parameters.write_queues.to_string(), "unknown (no such file)");
        assert_eq!(parameters.io_timeout_s.to_string(), "unknown (nvme_core is not loaded)");
    }

    #[test]
    fn a_controller_over_tcp_has_neither_vectors_nor_doorbells() {
        let root = TempDir::new().unwrap();
        put(&root, "sys/class/nvme/nvme1/transport", "tcp\n");
        put(&root, "sys/class/nvme/nvme1/model", "Linux\n");
        let system = System::at(root.path());
        let found = &system.nvme_details(&system.hypervisor(), true)[0];
        assert_eq!(found.class, Class::Target);
        for fact in [found.interrupt_vectors.to_string(), found.shadow_doorbells.to_string()] {
            assert_eq!(fact, "unknown (not on PCI)");
        }
    }
}
