// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects the hypervisor that the machine runs on, or bare metal.
//!
//! The result is derived from firmware and processor data, and comes with its evidence. Firmware
//! data can be forged (QEMU's `-smbios`), so the result is used in reports only.

use std::fs;

use serde::Serialize;

use super::System;
use super::clock::kvm_ptp;
use crate::model::text::Text;

/// The kind of hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HypervisorKind {
    /// KVM, with QEMU or another VMM.
    Kvm,
    /// QEMU without a sign of KVM. See [`Hypervisor::emulated`].
    Qemu,
    /// Amazon EC2, Nitro.
    AmazonNitro,
    /// Google Compute Engine.
    GoogleCompute,
    /// Microsoft Azure.
    Azure,
    /// Microsoft Hyper-V outside Azure.
    HyperV,
    /// VMware.
    Vmware,
    /// Xen.
    Xen,
    /// VirtualBox.
    VirtualBox,
    /// Firecracker.
    Firecracker,
    /// Another hypervisor that reports its name.
    Other,
    /// A hypervisor that does not report its name.
    Unnamed,
    /// None: bare metal.
    None,
    /// Unknown.
    Unknown,
}

/// The hypervisor of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hypervisor {
    /// Its kind.
    pub kind: HypervisorKind,
    /// The name in reports.
    pub name: String,
    /// The data that shows it: the firmware may say anything.
    pub evidence: Text,
    /// The processor is probably emulated, each instruction, and slow.
    pub emulated: bool,
}

impl Hypervisor {
    fn new(kind: HypervisorKind, name: &str, evidence: impl Into<String>) -> Self {
        Self { kind, name: name.into(), evidence: evidence.into().into(), emulated: false }
    }

    /// QEMU without a sign of KVM.
    fn qemu(evidence: String, emulated: bool) -> Self {
        let name = match emulated {
            true => "QEMU, no sign of KVM: emulation?",
            false => "QEMU, no sign of KVM",
        };
        Self { emulated, ..Self::new(HypervisorKind::Qemu, name, evidence) }
    }

    /// Whether there is a hypervisor; `None` if unknown.
    pub fn present(&self) -> Option<bool> {
        match self.kind {
            HypervisorKind::None => Some(false),
            HypervisorKind::Unknown => None,
            _ => Some(true),
        }
    }
}

/// Data from firmware and processor; empty if not available.
#[derive(Clone, Debug, Default)]
struct Hints {
    product_name: String,
    sys_vendor: String,
    board_vendor: String,
    bios_vendor: String,
    chassis_asset_tag: String,
    /// The processor flag `hypervisor`; `None` if processors have no such flag (not x86).
    cpu_flag: Option<bool>,
    /// `/sys/hypervisor/type`
    hypervisor_type: String,
    /// `/proc/xen/capabilities` contains `control_d`.
    dom0: bool,
    /// The `compatible` strings of the device tree: of the hypervisor node and of the machine.
    device_tree: String,
    /// The OEM id of the ACPI tables.
    acpi_oem: String,
    clocksources: String,
    /// A clock of the driver ptp_kvm, which asks KVM.
    kvm_ptp: bool,
    /// The processor is QEMU's model `max` for arm64, which no hardware is.
    qemu_processor: bool,
}

/// Azure's chassis asset tag. Hyper-V elsewhere does not have it.
const AZURE_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// Prefixes of DMI strings that identify a hypervisor. `true`: the string also occurs on bare
/// metal, for example because the vendor rents it. `Qemu`: KVM only if there is a sign of it, and
/// then by this name. `Kvm`: the string says KVM, or the vendor uses nothing else.
const DMI: [(&str, bool, HypervisorKind, &str); 26] = {
    use HypervisorKind::{Kvm, Other, Qemu, VirtualBox, Vmware, Xen};
    [
        ("VMware", false, Vmware, "VMware"),
        ("VMW", false, Vmware, "VMware"),
        ("VirtualBox", false, VirtualBox, "VirtualBox"),
        ("innotek GmbH", false, VirtualBox, "VirtualBox"),
        ("Xen", false, Xen, "Xen"),
        ("HVM domU", false, Xen, "Xen"),
        ("Parallels", false, Other, "Parallels"),
        ("BHYVE", false, Other, "bhyve"),
        ("Apple Virt", false, Other, "Apple Virtualization"),
        ("Cloud Hypervisor", false, Kvm, "KVM (Cloud Hypervisor)"),
        ("crosvm", false, Kvm, "KVM (crosvm)"),
        ("OpenStack", false, Qemu, "KVM/QEMU (OpenStack)"),
        ("RHEV", false, Kvm, "KVM/QEMU (Red Hat)"),
        ("OpenShift", false, Kvm, "KVM/QEMU (OpenShift)"),
        ("AHV", false, Kvm, "KVM/QEMU (Nutanix AHV)"),
        ("Alibaba Cloud", true, Kvm, "KVM (Alibaba Cloud)"),
        ("DigitalOcean", true, Kvm, "KVM/QEMU (DigitalOcean)"),
        ("Hetzner", true, Kvm, "KVM/QEMU (Hetzner)"),
        ("Huawei Cloud", true, Kvm, "KVM/QEMU (Huawei Cloud)"),
        ("Tencent Cloud", true, Kvm, "KVM/QEMU (Tencent Cloud)"),
        ("Vultr", true, Kvm, "KVM/QEMU (Vultr)"),
        ("KVM", false, Kvm, "KVM/QEMU"),
        // these set the names of QEMU, with or without KVM
        ("QEMU", false, Qemu, "KVM/QEMU"),
        ("Standard PC", false, Qemu, "KVM/QEMU"),
        ("Bochs", false, Qemu, "KVM/QEMU"),
        // also used by coreboot
        ("SeaBIOS", true, Qemu, "KVM/QEMU"),
    ]
};

impl Hints {
    fn dmi(&self) -> [(&'static str, &str); 4] {
        [
            ("product_name", &self.product_name),
            ("sys_vendor", &self.sys_vendor),
            ("board_vendor", &self.board_vendor),
            ("bios_vendor", &self.bios_vendor),
        ]
    }

    /// Detects the hypervisors of clouds.
    fn cloud(&self) -> Option<Hypervisor> {
        use HypervisorKind::{AmazonNitro, Azure, GoogleCompute, HyperV, Kvm};
        let product = self.product_name.as_str();
        let by = |field: &str, value: &str| format!("DMI {field} is `{value}`");
        let vendor = by("sys_vendor", &self.sys_vendor);
        if self.sys_vendor == "Amazon EC2" {
            // the product is the instance type; that of a bare metal instance contains `.metal`
            let metal = product.contains(".metal") || self.cpu_flag == Some(false);
            return Some(if metal {
                let evidence = format!("{vendor}, product_name `{product}`");
                Hypervisor::new(HypervisorKind::None, "none (Amazon EC2 metal)", evidence)
            } else {
                Hypervisor::new(AmazonNitro, "Amazon EC2 (Nitro)", vendor)
            });
        }
        if product == "Google Compute Engine" {
            let evidence = by("product_name", product);
            return Some(if self.cpu_flag == Some(false) {
                let evidence = format!("{evidence}, but the processor reports no hypervisor");
                Hypervisor::new(HypervisorKind::None, "none (Google metal)", evidence)
            } else {
                Hypervisor::new(GoogleCompute, "Google Compute Engine", evidence)
            });
        }
        if self.sys_vendor == "Microsoft Corporation" && product == "Virtual Machine" {
            let tag = by("chassis_asset_tag", &self.chassis_asset_tag);
            return Some(if self.chassis_asset_tag == AZURE_TAG {
                Hypervisor::new(Azure, "Microsoft Azure (Hyper-V)", tag)
            } else {
                Hypervisor::new(HyperV, "Microsoft Hyper-V", vendor)
            });
        }
        if self.chassis_asset_tag == "OracleCloud.com" && self.cpu_flag != Some(false) {
            let tag = by("chassis_asset_tag", "OracleCloud.com");
            return Some(Hypervisor::new(Kvm, "KVM/QEMU (Oracle Cloud)", tag));
        }
        None
    }

    /// What shows KVM itself.
    fn kvm_sign(&self) -> Option<&'static str> {
        if self.clocksources.contains("kvm-clock") {
            Some("there is a kvm-clock")
        } else if self.kvm_ptp {
            Some("there is a clock of ptp_kvm")
        } else if self.device_tree.contains("linux,kvm") {
            Some("the device tree says `linux,kvm`")
        } else {
            None
        }
    }

    /// Judges a machine whose firmware names QEMU, or KVM (`says_kvm`).
    fn kvm_or_qemu(&self, says_kvm: bool, name: &str, evidence: &str) -> Hypervisor {
        // KVM offers its clock on x86 only
        let clockless = self.cpu_flag.is_some() && !self.clocksources.is_empty();
        match self.kvm_sign() {
            Some(sign) => {
                let evidence = format!("{evidence}, and {sign}");
                Hypervisor::new(HypervisorKind::Kvm, name, evidence)
            }
            None if self.qemu_processor => {
                let evidence = format!("{evidence}, and the processor is a model of QEMU");
                Hypervisor::qemu(evidence, true)
            }
            None if clockless => {
                let evidence = format!("{evidence}, and there is no kvm-clock");
                Hypervisor::qemu(evidence, true)
            }
            None if says_kvm => Hypervisor::new(HypervisorKind::Kvm, name, evidence),
            None => Hypervisor::qemu(evidence.into(), false),
        }
    }

    fn by_dmi(&self) -> Option<Hypervisor> {
        use HypervisorKind::{Kvm, Qemu};
        for (field, value) in self.dmi() {
            for (begin, metal_too, kind, name) in DMI {
                if !value.starts_with(begin) || (metal_too && self.cpu_flag == Some(false)) {
                    continue;
                }
                let evidence = format!("DMI {field} is `{value}`");
                return Some(match kind {
                    Kvm | Qemu => self.kvm_or_qemu(kind == Kvm, name, &evidence),
                    _ => Hypervisor::new(kind, name, evidence),
                });
            }
        }
        None
    }

    /// Detects hypervisors without DMI, which small ones and arm64 may not have.
    fn elsewhere(&self) -> Option<Hypervisor> {
        use HypervisorKind::{Firecracker, Kvm, Qemu, Xen};
        if self.acpi_oem.starts_with("FIRECK") {
            let evidence = "the ACPI tables are by `FIRECK`";
            return Some(Hypervisor::new(Firecracker, "Firecracker (KVM)", evidence));
        }
        for (compatible, kind, name) in [
            ("linux,kvm", Kvm, "KVM"),
            ("xen,xen", Xen, "Xen"),
            ("linux,dummy-virt", Qemu, "KVM/QEMU"),
            ("qemu,", Qemu, "KVM/QEMU"),
        ] {
            if self.device_tree.contains(compatible) {
                let evidence = format!("the device tree says `{compatible}`");
                return Some(match kind {
                    Qemu => self.kvm_or_qemu(false, name, &evidence),
                    _ => Hypervisor::new(kind, name, evidence),
                });
            }
        }
        let sign = self.kvm_sign().filter(|_| self.cpu_flag != Some(false))?;
        let evidence = format!("{sign}, and no DMI to say more");
        Some(Hypervisor::new(Kvm, "KVM", evidence))
    }

    /// Combines all hints.
    fn classify(&self) -> Hypervisor {
        use HypervisorKind::{None as Metal, Other, Unknown, Unnamed, Xen};
        if self.dom0 {
            return Hypervisor::new(Xen, "Xen (dom0)", "/proc/xen/capabilities has `control_d`");
        }
        let found = self.cloud().or_else(|| self.by_dmi());
        if let Some(found) = found.or_else(|| self.elsewhere()) {
            return found;
        }
        if !self.hypervisor_type.is_empty() {
            let evidence = format!("/sys/hypervisor/type is `{}`", self.hypervisor_type);
            let (kind, name) = match self.hypervisor_type.as_str() {
                "xen" => (Xen, "Xen"),
                other => (Other, other),
            };
            return Hypervisor::new(kind, name, evidence);
        }
        let named = self.dmi().into_iter().find(|(_, value)| !value.is_empty());
        match (self.cpu_flag, named) {
            (Some(true), _) => Hypervisor::new(
                Unnamed,
                "a hypervisor that does not say its name",
                "the processor has the flag `hypervisor`",
            ),
            (Some(false), _) => {
                let evidence = "the processor has no flag `hypervisor`";
                Hypervisor::new(Metal, "none (bare metal)", evidence)
            }
            (None, Some((field, value))) => {
                let evidence = format!("DMI {field} is `{value}`, which is no hypervisor we know");
                Hypervisor::new(Metal, "none that we know (bare metal?)", evidence)
            }
            (None, None) => Hypervisor::new(Unknown, "unknown", "neither DMI nor a device tree"),
        }
    }
}

/// Whether the processor is QEMU's model `max` for arm64 (aarch64_max_initfn()): no implementer, and
/// the part `Q`.
fn is_qemu_processor(cpuinfo: &str) -> bool {
    let of = |name: &str| {
        let mut lines = cpuinfo.lines();
        let line = lines.find_map(|l| l.strip_prefix(name))?;
        line.split_once(':').map(|(_, value)| value.trim())
    };
    of("CPU implementer") == Some("0x00") && of("CPU part") == Some("0x051")
}

/// The processor flag `hypervisor`. Only x86 has a line named `flags`.
fn hypervisor_flag(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|l| l.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

impl System {
    /// Detects the hypervisor of this machine.
    pub fn hypervisor(&self) -> Hypervisor {
        let line = |path: &str| self.text(path).known().cloned().unwrap_or_default();
        let dmi = |field: &str| line(&format!("sys/class/dmi/id/{field}"));
        let cpuinfo = fs::read_to_string(self.path("proc/cpuinfo")).unwrap_or_default();
        // each file is a list of NUL-terminated strings
        let device_tree: String =
            ["proc/device-tree/hypervisor/compatible", "proc/device-tree/compatible"]
                .iter()
                .filter_map(|path| fs::read(self.path(path)).ok())
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned() + "\0")
                .collect();
        // bytes 10 to 15 of a table's header are the OEM id
        let acpi_oem = fs::read(self.path("sys/firmware/acpi/tables/DSDT")).ok();
        let acpi_oem = acpi_oem.and_then(|table| Some(table.get(10..16)?.to_vec()));
        Hints {
            product_name: dmi("product_name"),
            sys_vendor: dmi("sys_vendor"),
            board_vendor: dmi("board_vendor"),
            bios_vendor: dmi("bios_vendor"),
            chassis_asset_tag: dmi("chassis_asset_tag"),
            cpu_flag: hypervisor_flag(&cpuinfo),
            hypervisor_type: line("sys/hypervisor/type"),
            dom0: line("proc/xen/capabilities").contains("control_d"),
            device_tree,
            acpi_oem: String::from_utf8_lossy(&acpi_oem.unwrap_or_default()).into_owned(),
            clocksources: line("sys/devices/system/clocksource/clocksource0/available_clocksource"),
            kvm_ptp: kvm_ptp(self).is_some(),
            qemu_processor: is_qemu_processor(&cpuinfo),
        }
        .classify()
    }
}

#[cfg(test)]
#[path = "hypervisor_tests.rs"]
mod tests;
