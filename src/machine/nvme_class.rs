// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies the device behind a controller, as a first step to explain its latency: an emulator,
//! a cloud's device, a target over the network, or a disk.

use serde::Serialize;

/// The kind of device behind a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A virtual machine monitor emulates it: each doorbell may cause an exit.
    Emulated,
    /// A cloud provider's device. Its storage may be remote.
    Cloud,
    /// A software target: SPDK, or Linux nvmet.
    Target,
    /// None of these, in a virtual machine: most likely passed through by the host.
    Passthrough,
    /// None of these, on bare metal.
    Physical,
    /// An unidentified target over a network.
    Fabrics,
    /// Unknown.
    Unknown,
}

impl Class {
    /// The class with this name; `None`: of a later version.
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Emulated,
            Self::Cloud,
            Self::Target,
            Self::Passthrough,
            Self::Physical,
            Self::Fabrics,
            Self::Unknown,
        ];
        all.into_iter().find(|class| class.name() == name)
    }

    /// The name in text reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emulated => "emulated",
            Self::Cloud => "cloud",
            Self::Target => "software target",
            Self::Passthrough => "passthrough",
            Self::Physical => "physical",
            Self::Fabrics => "fabrics",
            Self::Unknown => "unknown",
        }
    }
}

/// The data that the class is derived from.
pub(super) struct Traits<'a> {
    /// `1b36:0010`; `None` if not on PCI.
    pub(super) pci_id: Option<&'a str>,
    /// Empty if unknown.
    pub(super) model: &'a str,
    /// `pcie`, `tcp`, and so on.
    pub(super) transport: Option<&'a str>,
    /// Whether there is a hypervisor; `None` if unknown.
    pub(super) hypervisor: Option<bool>,
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
    pub(super) fn classify(&self) -> (Class, String) {
        let Self { pci_id, model, transport, hypervisor } = *self;
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
        match (pci_id, transport, hypervisor) {
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
    use super::*;

    fn class(pci_id: &str, model: &str, hypervisor: Option<bool>) -> Class {
        let (class, reason) =
            Traits { pci_id: Some(pci_id), model, transport: Some("pcie"), hypervisor }.classify();
        assert!(!reason.is_empty());
        class
    }

    #[test]
    fn controllers_on_pci_are_known_by_model_or_id() {
        let vm = Some(true);
        for (id, model, want) in [
            ("1b36:0010", "QEMU NVMe Ctrl", Class::Emulated),
            ("8086:5845", "QEMU NVMe Ctrl", Class::Emulated),
            ("1b36:0010", "My Own Name", Class::Emulated),
            ("80ee:4e56", "ORCL-VBOX-NVME-VER12", Class::Emulated),
            ("15ad:07f0", "VMware Virtual NVMe Disk", Class::Emulated),
            ("4e58:0001", "SPDK bdev Controller", Class::Target),
            ("4e58:0001", "other", Class::Target),
            ("1d0f:8061", "Amazon Elastic Block Store", Class::Cloud),
            ("1d0f:cd01", "Amazon EC2 NVMe Instance Storage", Class::Cloud),
            ("1ae0:001f", "nvme_card-pd", Class::Cloud),
            ("1414:00a9", "Microsoft NVMe Direct Disk v2", Class::Cloud),
            ("1414:b111", "MSFT NVMe Accelerator v1.0", Class::Cloud),
            ("144d:a80a", "SAMSUNG MZVL21T0HCLR-00B00", Class::Passthrough),
            ("144d:a80a", "Linuxoid SSD", Class::Passthrough),
        ] {
            assert_eq!(class(id, model, vm), want, "{id} {model}");
        }
    }

    #[test]
    fn a_disk_is_physical_passed_through_or_unknown_by_the_hypervisor() {
        let samsung = |hypervisor| class("144d:a80a", "SAMSUNG", hypervisor);
        assert_eq!(samsung(Some(false)), Class::Physical);
        assert_eq!(samsung(Some(true)), Class::Passthrough);
        assert_eq!(samsung(None), Class::Unknown);
    }

    #[test]
    fn controllers_over_a_network_are_targets_or_fabrics() {
        let over = |transport, model| {
            let traits = Traits { pci_id: None, model, transport, hypervisor: Some(true) };
            traits.classify().0
        };
        assert_eq!(over(Some("tcp"), "Linux"), Class::Target);
        assert_eq!(over(Some("rdma"), "SPDK bdev Controller"), Class::Target);
        assert_eq!(over(Some("tcp"), "Dorado"), Class::Fabrics);
        assert_eq!(over(Some("loop"), "anything"), Class::Target);
        assert_eq!(over(None, ""), Class::Unknown);
    }
}
