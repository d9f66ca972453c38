// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVMe controllers and disks as sysfs describes them, and the kind of device behind each. Attaches nothing;
//! sends an Identify command only if asked to.

use std::fs;

use serde::Serialize;

use super::disk::disk_of_path;
use super::io_control::{IoControl, number};
use super::overview::bracketed;
use super::sysfs::{instance_of, is_namespace, names_in, queues_of};
use super::{System, read_device_line, read_line};
use crate::model::machine::{Class, MachineController, MachineDisk};
use crate::model::text::Text;

/// Parameters of the modules nvme and nvme_core; `None` if the module is not loaded. A controller uses new
/// queue parameters after its next reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NvmeParameters {
    /// nvme.poll_queues: I/O queues without an interrupt, for `io_uring` with IOPOLL.
    pub poll_queues: Option<u32>,
    /// nvme.write_queues: I/O queues for writes only.
    pub write_queues: Option<u32>,
    /// nvme.io_queue_depth: the maximum number of entries that the driver requests.
    pub io_queue_depth: Option<u32>,
    /// nvme.use_threaded_interrupts: `0`, or `1` for completions in interrupt threads.
    pub use_threaded_interrupts: Option<String>,
    /// nvme_core.io_timeout in seconds.
    pub io_timeout_s: Option<u32>,
    /// nvme_core.admin_timeout in seconds.
    pub admin_timeout_s: Option<u32>,
    /// nvme_core.multipath: `Y` or `N`.
    pub multipath: Option<String>,
}

impl System {
    /// Reads the parameters of the driver.
    pub fn nvme_parameters(&self) -> NvmeParameters {
        let text = |module, name| self.text(&format!("sys/module/{module}/parameters/{name}"));
        let number = |module, name| text(module, name)?.parse().ok();
        NvmeParameters {
            poll_queues: number("nvme", "poll_queues"),
            write_queues: number("nvme", "write_queues"),
            io_queue_depth: number("nvme", "io_queue_depth"),
            use_threaded_interrupts: text("nvme", "use_threaded_interrupts"),
            io_timeout_s: number("nvme_core", "io_timeout"),
            admin_timeout_s: number("nvme_core", "admin_timeout"),
            multipath: text("nvme_core", "multipath"),
        }
    }

    /// Reads all controllers, sorted by number. With `identify` it sends an Identify command to each live
    /// PCI controller: only this shows whether there are shadow doorbells. `is_virtual`: there is a
    /// hypervisor.
    pub fn nvme_details(&self, is_virtual: Option<bool>, identify: bool) -> Vec<MachineController> {
        let names = names_in(&self.path("sys/class/nvme")).into_iter();
        let instances = names.filter_map(|name| instance_of(&name));
        let detail = |instance| self.nvme_detail(instance, is_virtual, identify);
        let mut found: Vec<_> = instances.map(detail).collect();
        found.sort_by_key(|c| c.instance);
        let mut disks = found.iter_mut().flat_map(|c| &mut c.disks).peekable();
        if disks.peek().is_some() {
            let control = self.io_control();
            disks.for_each(|disk| set_io_control(disk, control.as_ref()));
        }
        found
    }

    fn nvme_detail(
        &self,
        instance: u32,
        is_virtual: Option<bool>,
        identify: bool,
    ) -> MachineController {
        let name = format!("nvme{instance}");
        let at = format!("sys/class/nvme/{name}");
        let text = |file: &str| self.device_text(&format!("{at}/{file}"));
        let number = |file: &str| self.number::<u32>(&format!("{at}/{file}"));
        let (queues, depth) = queues_of(number);
        let (model, transport, state) = (text("model"), text("transport"), text("state"));
        let pci_id = self.pci_id(&at, "vendor", "device");
        let (class, class_reason) = Traits {
            pci_id: pci_id.as_deref(),
            model: model.as_deref().unwrap_or(""),
            transport: transport.as_deref(),
            is_virtual,
        }
        .classify();
        let is_asked = identify && pci_id.is_some() && state.as_deref().is_none_or(|s| s == "live");
        let vectors = fs::read_dir(self.path(&format!("{at}/device/msi_irqs")));
        let vectors = vectors.ok().filter(|_| pci_id.is_some());
        let bar = self.text(&format!("{at}/device/resource"));
        MachineController {
            instance,
            firmware: text("firmware_rev"),
            class,
            class_reason: class_reason.into(),
            address: text("address"),
            pci_subsystem_id: self.pci_id(&at, "subsystem_vendor", "subsystem_device"),
            numa_node: self
                .number(&format!("{at}/numa_node"))
                .or_else(|| self.number(&format!("{at}/device/numa_node"))),
            // the kernel counts the admin queue, too
            io_queues: queues.map(|n| n - 1),
            depth,
            vectors: vectors.map(|entries| u32::try_from(entries.count()).unwrap_or(u32::MAX)),
            shadow_doorbells: is_asked.then(|| self.shadow_doorbells(&name)).flatten(),
            iommu_group: text("device/iommu_group/type"),
            bar: bar.as_deref().and_then(bar_0),
            disks: self.disks_of(&at),
            model,
            transport,
            state,
            pci_id,
        }
    }

    /// Joins the ids in two files, `0x1b36` and `0x0010`, to `1b36:0010`.
    fn pci_id(&self, at: &str, vendor: &str, device: &str) -> Option<Text> {
        let half = |file: &str| {
            let text = self.text(&format!("{at}/device/{file}"))?;
            u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        Some(format!("{:04x}:{:04x}", half(vendor)?, half(device)?).into())
    }

    fn disks_of(&self, at: &str) -> Vec<MachineDisk> {
        let names = names_in(&self.path(at)).into_iter().filter(|name| is_namespace(name));
        let mut found: Vec<_> = names.filter_map(|name| self.namespace(at, &name)).collect();
        found.sort_by_key(|disk| disk.nsid);
        found
    }

    fn namespace(&self, at: &str, name: &str) -> Option<MachineDisk> {
        let at = self.path(at).join(name);
        let text = |file: &str| read_device_line(&at.join(file));
        let wide = |file: &str| read_line(&at.join(file))?.parse::<u64>().ok();
        let count = |file: &str| wide(file).and_then(|n| u32::try_from(n).ok());
        // cgroups have limits on the disk: the path of a multipath disk has no number
        let disk = disk_of_path(name);
        let numbers = self.text(&format!("sys/class/block/{disk}/dev"));
        Some(MachineDisk {
            name: name.into(),
            hidden: name.trim_start_matches("nvme").contains('c'),
            nsid: count("nsid")?,
            // in sectors of 512 bytes, independent of the block size
            size_bytes: wide("size").map(|sectors| sectors.saturating_mul(512)),
            iostats: count("queue/iostats"),
            nomerges: count("queue/nomerges"),
            scheduler: text("queue/scheduler").map(|text| bracketed(&text).into()),
            nr_requests: count("queue/nr_requests"),
            // schedulers of older kernels have their own
            async_depth: count("queue/async_depth").or_else(|| count("queue/iosched/async_depth")),
            rq_affinity: count("queue/rq_affinity"),
            io_poll: count("queue/io_poll").map(|n| n != 0),
            write_cache: text("queue/write_cache"),
            max_hw_bytes: wide("queue/max_hw_sectors_kb").map(|kib| kib << 10),
            max_bytes: wide("queue/max_sectors_kb").map(|kib| kib << 10),
            physical_bytes: count("queue/physical_block_size"),
            logical_bytes: count("queue/logical_block_size"),
            io_timeout_ms: count("queue/io_timeout"),
            number: numbers.and_then(|text| number(&text)),
            wbt_lat_us: read_line(&at.join("queue/wbt_lat_usec")).and_then(|t| t.parse().ok()),
            zoned: text("queue/zoned"),
            limits: None,
            io_cost: None,
        })
    }
}

/// Adds the limits of cgroups, and io.cost.
fn set_io_control(disk: &mut MachineDisk, control: Option<&IoControl>) {
    if let Some((number, control)) = disk.number.zip(control) {
        disk.limits = Some(control.limits(number));
        disk.io_cost = control.cost(number);
    }
}

/// The first and the last physical address of BAR 0, from the file `resource` of a PCI device.
fn bar_0(resource: &str) -> Option<[u64; 2]> {
    let mut numbers = resource.split(' ').map(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).ok()
    });
    let (first, last) = (numbers.next()??, numbers.next()??);
    (first < last).then_some([first, last])
}

/// The data that the class is derived from.
struct Traits<'a> {
    /// `1b36:0010`; `None` if not on PCI.
    pci_id: Option<&'a str>,
    /// Empty if unknown.
    model: &'a str,
    /// `pcie`, `tcp`, and so on.
    transport: Option<&'a str>,
    /// Whether there is a hypervisor; `None` if unknown.
    is_virtual: Option<bool>,
}

/// Classes by prefix of the PCI id, the most specific first.
const BY_PCI_ID: [(&str, Class, &str); 11] = [
    ("1b36:0010", Class::Emulated, "QEMU's nvme"),
    ("80ee:4e56", Class::Emulated, "VirtualBox's"),
    ("15ad:07f0", Class::Emulated, "VMware's"),
    ("fb5d:0a0a", Class::Emulated, "bhyve's"),
    ("4e58:0001", Class::Target, "an SPDK target by vfio-user"),
    ("1d0f:cd", Class::Cloud, "Amazon's, local to the host"),
    ("1d0f:", Class::Cloud, "Amazon's Nitro card"),
    ("1ae0:", Class::Cloud, "Google's"),
    ("1414:00a9", Class::Cloud, "Microsoft's, local to the host"),
    ("1414:", Class::Cloud, "Microsoft's"),
    ("1ded:", Class::Cloud, "Alibaba Cloud's"),
];

/// Classes by prefix of the model. Checked before the PCI id, which may be borrowed.
const BY_MODEL: [(&str, Class, &str); 15] = [
    ("QEMU NVMe Ctrl", Class::Emulated, "QEMU's nvme"),
    ("FEMU", Class::Emulated, "FEMU's"),
    ("ORCL-VBOX-NVME", Class::Emulated, "VirtualBox's"),
    ("VMware Virtual NVMe", Class::Emulated, "VMware's"),
    ("bhyve-NVMe", Class::Emulated, "bhyve's"),
    ("Parallels", Class::Emulated, "Parallels'"),
    ("SPDK bdev Controller", Class::Target, "an SPDK target"),
    ("Linux", Class::Target, "Linux's own target (nvmet)"),
    ("Amazon Elastic Block Store", Class::Cloud, "EBS, over the network"),
    ("Amazon EC2 NVMe Instance Storage", Class::Cloud, "EC2 instance storage, local to the host"),
    ("nvme_card-pd", Class::Cloud, "a Google disk, over the network"),
    ("nvme_card", Class::Cloud, "a Google local SSD, local to the host"),
    ("Microsoft NVMe Direct Disk", Class::Cloud, "an Azure local disk, local to the host"),
    ("MSFT NVMe Accelerator", Class::Cloud, "an Azure disk, over the network"),
    (
        "Alibaba Cloud Elastic Block Storage",
        Class::Cloud,
        "an Alibaba Cloud disk, over the network",
    ),
];

impl Traits<'_> {
    /// Returns the class, and the reason for it.
    fn classify(&self) -> (Class, String) {
        let Self { pci_id, model, transport, is_virtual } = *self;
        if transport == Some("loop") {
            return (Class::Target, "the target is in this very kernel (loop)".into());
        }
        for (begin, class, what) in BY_MODEL {
            // a longer model that begins with "Linux" is not nvmet
            if model.starts_with(begin) && (begin != "Linux" || model == begin) {
                return (class, format!("{what}: model `{model}`"));
            }
        }
        for (begin, class, what) in BY_PCI_ID {
            if let Some(id) = pci_id.filter(|id| id.starts_with(begin)) {
                return (class, format!("{what}: PCI id {id}"));
            }
        }
        match (pci_id, transport, is_virtual) {
            (None, Some(transport @ ("tcp" | "rdma" | "fc")), _) => {
                (Class::Fabrics, format!("a target over {transport}"))
            }
            (None, None, _) => (Class::Unknown, "neither PCI id nor transport".into()),
            (_, _, Some(true)) => {
                (Class::Passthrough, "a disk's own name inside a virtual machine".into())
            }
            (_, _, Some(false)) => (Class::Physical, "a disk's own name, and no hypervisor".into()),
            (_, _, None) => (
                Class::Unknown,
                "a disk's own name, but whether there is a hypervisor is unknown".into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    /// The doctor's snapshots have a controller with all files of sysfs.
    #[test]
    fn a_path_of_multipath_has_its_own_settings_and_the_limits_of_its_disk() {
        let machine = TestMachine::new(&[("sys/class/block/nvme0n1/dev", "259:3\n")]);
        for (file, text) in [
            ("serial", "deadbeef            \n"),
            ("device/vendor", "0x1b36\n"),
            ("device/device", "0x0010\n"),
            ("device/iommu_group/type", "DMA\n"),
            ("device/resource", "0x00000000febd4000 0x00000000febd7fff 0x140204\n0x0 0x0 0x0\n"),
            ("nvme0c0n1/nsid", "1\n"),
            ("nvme0c0n1/size", "2097152\n"),
            ("nvme0c0n1/queue/scheduler", "[none] mq-deadline \n"),
            ("nvme0c0n1/queue/write_cache", "write back\n"),
            ("nvme0c0n1/queue/max_hw_sectors_kb", "8\n"),
            ("nvme0c0n1/queue/max_sectors_kb", "4\n"),
            ("ng0n1/nsid", "1\n"),
        ] {
            machine.put(&format!("sys/class/nvme/nvme0/{file}"), text);
        }
        let found = machine.nvme_details(Some(true), true);
        let json = serde_json::to_string(&found).unwrap();
        assert!(!json.contains("deadbeef"), "{json}");
        let [nvme] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((nvme.class, &nvme.pci_id), (Class::Emulated, &Some("1b36:0010".into())));
        assert_eq!(nvme.iommu_group, Some("DMA".into()));
        assert_eq!(nvme.bar, Some([0xfebd_4000, 0xfebd_7fff]));
        assert_eq!(bar_0("0x0 0x0 0x0\n"), None);
        // there is no /dev/nvme0
        assert_eq!(nvme.shadow_doorbells, None);
        let disk = MachineDisk {
            name: "nvme0c0n1".into(),
            hidden: true,
            nsid: 1,
            size_bytes: Some(1 << 30),
            scheduler: Some("none".into()),
            write_cache: Some("write back".into()),
            max_hw_bytes: Some(8192),
            max_bytes: Some(4096),
            number: Some([259, 3]),
            ..MachineDisk::default()
        };
        assert_eq!(nvme.disks, [disk]);
        machine.put("proc/mounts", "c /cg cgroup2 rw 0 0\n");
        machine.put("cg/a/io.max", "259:3 riops=60\n259:4 riops=1\n");
        let limits = machine.nvme_details(None, false)[0].disks[0].limits.clone().unwrap();
        assert_eq!(limits.cgroups[0].to_string(), "riops=60");
        assert_eq!(limits.cgroups.len(), 1);
    }

    #[test]
    fn a_controller_over_tcp_has_neither_vectors_nor_doorbells() {
        let machine = TestMachine::new(&[("sys/class/nvme/nvme1/transport", "tcp\n")]);
        machine.put("sys/class/nvme/nvme1/model", "Linux\n");
        let found = &machine.nvme_details(None, true)[0];
        assert_eq!(found.class, Class::Target);
        assert_eq!((found.vectors, found.shadow_doorbells), (None, None));
    }

    #[test]
    fn the_class_follows_from_model_id_transport_and_hypervisor() {
        let vm = Some(true);
        let pci = Some("pcie");
        for (id, model, transport, is_virtual, want) in [
            (Some("1b36:0010"), "QEMU NVMe Ctrl", pci, vm, Class::Emulated),
            (Some("8086:5845"), "QEMU NVMe Ctrl", pci, vm, Class::Emulated),
            (Some("1b36:0010"), "My Own Name", pci, vm, Class::Emulated),
            (Some("80ee:4e56"), "ORCL-VBOX-NVME-VER12", pci, vm, Class::Emulated),
            (Some("4e58:0001"), "other", pci, vm, Class::Target),
            (Some("1d0f:8061"), "Amazon Elastic Block Store", pci, vm, Class::Cloud),
            (Some("1d0f:cd01"), "Amazon EC2 NVMe Instance Storage", pci, vm, Class::Cloud),
            (Some("1414:00a9"), "Microsoft NVMe Direct Disk v2", pci, vm, Class::Cloud),
            (Some("144d:a80a"), "SAMSUNG MZVL21T0HCLR-00B00", pci, vm, Class::Passthrough),
            (Some("144d:a80a"), "Linuxoid SSD", pci, vm, Class::Passthrough),
            (Some("144d:a80a"), "SAMSUNG", pci, Some(false), Class::Physical),
            (Some("144d:a80a"), "SAMSUNG", pci, None, Class::Unknown),
            (None, "Linux", Some("tcp"), vm, Class::Target),
            (None, "SPDK bdev Controller", Some("rdma"), vm, Class::Target),
            (None, "Dorado", Some("tcp"), vm, Class::Fabrics),
            (None, "anything", Some("loop"), vm, Class::Target),
            (None, "", None, vm, Class::Unknown),
        ] {
            let (class, why) = Traits { pci_id: id, model, transport, is_virtual }.classify();
            assert_eq!(class, want, "{id:?} {model} {transport:?} {is_virtual:?}: {why}");
        }
    }
}
