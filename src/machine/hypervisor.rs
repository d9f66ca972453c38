// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypervisor that the machine runs on. The processor says whether there is one (x86), the firmware's
//! DMI strings say which. QEMU's `-smbios` can forge these, so they are for reports only.

use std::fs;

use serde::Serialize;

use super::System;
use crate::model::text::Text;

/// The hypervisor of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hypervisor {
    /// Whether there is one; `None` if unknown.
    pub present: Option<bool>,
    pub name: String,
    pub evidence: Text,
    /// QEMU seems to emulate the processor, which makes it slow.
    pub emulated: bool,
}

/// How `sys_vendor product_name` of DMI begins.
const DMI: [(&str, &str); 18] = [
    ("Alibaba Cloud", "KVM (Alibaba Cloud)"),
    ("Amazon EC2", "Amazon EC2 (Nitro)"),
    ("DigitalOcean", "KVM/QEMU (DigitalOcean)"),
    ("Google Google Compute Engine", "Google Compute Engine"),
    ("Hetzner", "KVM/QEMU (Hetzner)"),
    ("Huawei Cloud", "KVM/QEMU (Huawei Cloud)"),
    ("Microsoft Corporation Virtual Machine", "Microsoft Hyper-V"),
    ("Nutanix AHV", "KVM/QEMU (Nutanix AHV)"),
    ("OpenStack", "QEMU (OpenStack)"),
    ("Parallels", "Parallels"),
    ("QEMU", "QEMU"),
    ("Red Hat KVM", "KVM/QEMU (Red Hat)"),
    ("Tencent Cloud", "KVM/QEMU (Tencent Cloud)"),
    ("VMware", "VMware"),
    ("Vultr", "KVM/QEMU (Vultr)"),
    ("Xen", "Xen"),
    ("innotek GmbH", "VirtualBox"),
    ("oVirt", "KVM/QEMU (oVirt)"),
];

/// The chassis asset tag of Azure. Hyper-V elsewhere does not have it.
const AZURE: &str = "7783-7084-3265-9085-8269-3286-77";

/// Whether the processor has the flag `hypervisor`. Only x86 has a line of flags.
fn flag(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

impl System {
    /// Detects the hypervisor of this machine.
    pub fn hypervisor(&self) -> Hypervisor {
        let line = |path: &str| self.text(path).unwrap_or_default();
        let dmi = |field: &str| line(&format!("sys/class/dmi/id/{field}"));
        let flag = flag(&fs::read_to_string(self.path("proc/cpuinfo")).unwrap_or_default());
        let product = dmi("product_name");
        let machine = format!("{} {product}", dmi("sys_vendor"));
        let machine = machine.trim();
        let found = |present, name: &str, evidence: String| Hypervisor {
            present,
            name: name.into(),
            evidence: evidence.into(),
            emulated: false,
        };
        // clouds rent bare metal, too
        if flag == Some(false) || product.contains(".metal") {
            let evidence = match flag {
                Some(_) => "the processor has no flag `hypervisor`".into(),
                None => format!("DMI says `{machine}`"),
            };
            return found(Some(false), "none (bare metal)", evidence);
        }
        if let Some((_, name)) = DMI.iter().find(|(begin, _)| machine.starts_with(begin)) {
            let is_azure = *name == "Microsoft Hyper-V" && dmi("chassis_asset_tag") == AZURE;
            let name = if is_azure { "Microsoft Azure (Hyper-V)" } else { name };
            let mut found = found(Some(true), name, format!("DMI says `{machine}`"));
            // QEMU has the same strings with and without KVM, which offers its clock on x86
            let clocks = line("sys/devices/system/clocksource/clocksource0/available_clocksource");
            if name.starts_with("QEMU") && flag.is_some() && !clocks.is_empty() {
                found.emulated = !clocks.contains("kvm-clock");
                found.name += if found.emulated { ", without KVM" } else { " with KVM" };
            }
            return found;
        }
        match flag {
            Some(_) => found(
                Some(true),
                "a hypervisor that does not say its name",
                "the processor has the flag `hypervisor`".into(),
            ),
            None => found(None, "unknown", "DMI has no name that we know".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn machines_are_called_by_the_names_that_people_use() {
        const KVM: &str = "tsc kvm-clock";
        let (guest, metal) = ("flags\t\t: fpu hypervisor lahf_lm", "flags\t\t: fpu lahf_lm");
        for (vendor, product, cpu, clocks, present, name) in [
            ("QEMU", "Standard PC (Q35 + ICH9, 2009)", guest, KVM, Some(true), "QEMU with KVM"),
            ("QEMU", "Standard PC (i440FX)", guest, "tsc hpet", Some(true), "QEMU, without KVM"),
            // arm64 has no kvm-clock, with and without KVM
            ("QEMU", "QEMU Virtual Machine", "", "arch_sys_counter", Some(true), "QEMU"),
            ("Red Hat", "KVM", guest, KVM, Some(true), "KVM/QEMU (Red Hat)"),
            ("DigitalOcean", "Droplet", guest, KVM, Some(true), "KVM/QEMU (DigitalOcean)"),
            ("Amazon EC2", "m5.large", guest, KVM, Some(true), "Amazon EC2 (Nitro)"),
            ("Amazon EC2", "m6g.large", "", "", Some(true), "Amazon EC2 (Nitro)"),
            ("Amazon EC2", "m6g.metal", "", "", Some(false), "none (bare metal)"),
            ("Amazon EC2", "i3.metal", metal, "", Some(false), "none (bare metal)"),
            ("Google", "Google Compute Engine", guest, KVM, Some(true), "Google Compute Engine"),
            ("Google", "Google Compute Engine", metal, "", Some(false), "none (bare metal)"),
            (
                "Microsoft Corporation",
                "Virtual Machine",
                guest,
                "",
                Some(true),
                "Microsoft Hyper-V",
            ),
            (
                "Microsoft Corporation",
                "Surface Laptop",
                metal,
                "",
                Some(false),
                "none (bare metal)",
            ),
            ("VMware, Inc.", "VMware7,1", guest, "tsc", Some(true), "VMware"),
            ("Xen", "HVM domU", guest, "xen tsc", Some(true), "Xen"),
            ("innotek GmbH", "VirtualBox", guest, "tsc", Some(true), "VirtualBox"),
            ("Dell Inc.", "PowerEdge R750", metal, "tsc", Some(false), "none (bare metal)"),
            ("ACME", "", guest, "", Some(true), "a hypervisor that does not say its name"),
            ("", "", guest, "", Some(true), "a hypervisor that does not say its name"),
            ("HPE", "ProLiant RL300", "", "arch_sys_counter", None, "unknown"),
            ("", "", "", "", None, "unknown"),
        ] {
            let root = TempDir::new().unwrap();
            put(&root, "proc/cpuinfo", &format!("processor\t: 0\n{cpu}\n"));
            put(&root, "sys/class/dmi/id/sys_vendor", vendor);
            put(&root, "sys/class/dmi/id/product_name", product);
            let file = "sys/devices/system/clocksource/clocksource0/available_clocksource";
            put(&root, file, clocks);
            let found = System::at(root.path()).hypervisor();
            let case = format!("{vendor} {product} {cpu} {clocks}: {found:?}");
            assert_eq!((found.present, found.name.as_str()), (present, name), "{case}");
            assert_eq!(found.emulated, name.contains("without KVM"), "{case}");
            put(&root, "sys/class/dmi/id/chassis_asset_tag", AZURE);
            let azure = System::at(root.path()).hypervisor().name.contains("Azure");
            assert_eq!(azure, name == "Microsoft Hyper-V", "{case}");
        }
        let nothing = TempDir::new().unwrap();
        assert_eq!(System::at(nothing.path()).hypervisor().present, None);
    }
}
