// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypervisor that the machine runs on. The processor says whether there is one (x86), the firmware's
//! DMI strings say which. QEMU's `-smbios` can forge these, so they are for reports only.

use super::System;
use crate::model::machine::TscScale;
use crate::model::text::Text;
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

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

/// Readings of a TSC offset until two are equal.
const TRIES: u32 = 5;

/// The number in a file; `None` if there is no such file. An error: it is not readable.
fn number<T: FromStr>(path: &Path) -> Result<Option<T>, ()> {
    match fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map(Some).map_err(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(_) => Err(()),
    }
}

/// The TSC of a virtual CPU. `None` also while it runs a guest of its guest: then the files have the
/// values of that one.
fn tsc_of(cpu: &Path) -> Option<TscScale> {
    let once = || -> Result<Option<TscScale>, ()> {
        let offset = number(&cpu.join("tsc-offset"))?;
        // without these files the processor cannot scale
        let ratio = number(&cpu.join("tsc-scaling-ratio"))?;
        let bits = number(&cpu.join("tsc-scaling-ratio-frac-bits"))?;
        let is_nested = number::<u32>(&cpu.join("guest_mode"))? == Some(1);
        let (ratio, bits) = match (ratio, bits) {
            (None, None) => (1, 0),
            (Some(ratio), Some(bits)) => (ratio, bits),
            _ => return Err(()),
        };
        let scale = offset.map(|offset| TscScale { offset, ratio, bits });
        Ok(scale.filter(|_| !is_nested))
    };
    // kernels without guest_mode: the values of a moment in the inner guest change in the next
    let mut last = once().ok()?;
    for _ in 0..TRIES {
        let now = once().ok()?;
        if now.is_some() && now == last {
            return now;
        }
        last = now;
    }
    None
}

impl System {
    /// The ids of the threads of a process.
    fn threads(&self, pid: u32) -> Vec<String> {
        let entries = fs::read_dir(self.path(&format!("proc/{pid}/task")));
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The TSC of the virtual machine that a process runs by KVM, from debugfs. `None`: there is none,
    /// or its virtual CPUs differ.
    pub fn tsc_scale(&self, pid: u32) -> Option<TscScale> {
        let threads = self.threads(pid);
        let is_of = |name: &str| {
            let (owner, fd) = name.split_once('-').unwrap_or_default();
            threads.iter().any(|t| t == owner) && fd.parse::<u32>().is_ok()
        };
        let dirs = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|e| e.path()).collect::<Vec<_>>()
        };
        let name = |path: &Path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            name.unwrap_or_default()
        };
        let mut machines = dirs(&self.path("sys/kernel/debug/kvm"));
        machines.retain(|path| is_of(&name(path)));
        let [machine] = machines.as_slice() else {
            return None;
        };
        let mut cpus = dirs(machine);
        cpus.retain(|path| name(path).starts_with("vcpu"));
        let mut scales = cpus.iter().map(|cpu| tsc_of(cpu));
        let first = scales.next()?;
        scales.all(|scale| scale == first).then_some(first)?
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    #[test]
    fn machines_are_called_by_the_names_that_people_use() {
        const KVM: &str = "tsc kvm-clock";
        const METAL: &str = "none (bare metal)";
        let unnamed = "a hypervisor that does not say its name";
        let (guest, metal) = ("flags\t\t: fpu hypervisor lahf_lm", "flags\t\t: fpu lahf_lm");
        for (vendor, product, cpu, clocks, name) in [
            ("QEMU", "Standard PC (Q35 + ICH9, 2009)", guest, KVM, "QEMU with KVM"),
            ("QEMU", "Standard PC (i440FX)", guest, "tsc hpet", "QEMU, without KVM"),
            // arm64 has no kvm-clock, with and without KVM
            ("QEMU", "QEMU Virtual Machine", "", "arch_sys_counter", "QEMU"),
            ("Red Hat", "KVM", guest, KVM, "KVM/QEMU (Red Hat)"),
            ("Amazon EC2", "m5.large", guest, KVM, "Amazon EC2 (Nitro)"),
            ("Amazon EC2", "m6g.large", "", "", "Amazon EC2 (Nitro)"),
            ("Amazon EC2", "m6g.metal", "", "", METAL),
            ("Amazon EC2", "i3.metal", metal, "", METAL),
            ("Google", "Google Compute Engine", guest, KVM, "Google Compute Engine"),
            ("Google", "Google Compute Engine", metal, "", METAL),
            ("Microsoft Corporation", "Virtual Machine", guest, "", "Microsoft Hyper-V"),
            ("Microsoft Corporation", "Surface Laptop", metal, "", METAL),
            ("VMware, Inc.", "VMware7,1", guest, "tsc", "VMware"),
            ("Dell Inc.", "PowerEdge R750", metal, "tsc", METAL),
            ("ACME", "", guest, "", unnamed),
            ("", "", guest, "", unnamed),
            ("HPE", "ProLiant RL300", "", "arch_sys_counter", "unknown"),
            ("", "", "", "", "unknown"),
        ] {
            let machine = TestMachine::new(&[
                ("proc/cpuinfo", &format!("processor\t: 0\n{cpu}\n")),
                ("sys/class/dmi/id/sys_vendor", vendor),
                ("sys/class/dmi/id/product_name", product),
                ("sys/devices/system/clocksource/clocksource0/available_clocksource", clocks),
            ]);
            let found = machine.hypervisor();
            let case = format!("{vendor} {product} {cpu} {clocks}: {found:?}");
            let present = (name != "unknown").then_some(name != METAL);
            assert_eq!((found.present, found.name.as_str()), (present, name), "{case}");
            assert_eq!(found.emulated, name.contains("without KVM"), "{case}");
            machine.put("sys/class/dmi/id/chassis_asset_tag", AZURE);
            let azure = machine.hypervisor().name.contains("Azure");
            assert_eq!(azure, name == "Microsoft Hyper-V", "{case}");
        }
        assert_eq!(TestMachine::new(&[]).hypervisor().present, None);
    }

    #[test]
    fn a_tsc_counts_if_all_virtual_cpus_of_the_process_have_it() {
        let machine = TestMachine::new(&[
            ("proc/40/task/40/comm", ""),
            ("proc/40/task/41/comm", ""),
            ("sys/kernel/debug/kvm/7-9/vcpu0/tsc-offset", "-5\n"),
        ]);
        let put = |cpu: u32, file: &str, text: &str| {
            machine.put(&format!("sys/kernel/debug/kvm/40-12/vcpu{cpu}/{file}"), text);
            machine.tsc_scale(40)
        };
        assert_eq!(machine.tsc_scale(40), None);
        let scale = |offset, ratio, bits| Some(TscScale { offset, ratio, bits });
        assert_eq!(put(0, "tsc-offset", "-18446743\n"), scale(-18_446_743, 1, 0));
        let scaled = scale(-7, 3 << 31, 32);
        for cpu in [0, 1] {
            put(cpu, "tsc-offset", "-7\n");
            put(cpu, "tsc-scaling-ratio", "6442450944\n");
            put(cpu, "tsc-scaling-ratio-frac-bits", "32\n");
        }
        assert_eq!(machine.tsc_scale(40), scaled);
        assert_eq!(put(1, "guest_mode", "1\n"), None);
        assert_eq!(put(1, "guest_mode", "0\n"), scaled);
        assert_eq!(put(1, "tsc-scaling-ratio", "?\n"), None);
        assert_eq!(put(1, "tsc-scaling-ratio", "6442450944\n"), scaled);
        assert_eq!(put(1, "tsc-offset", "-8\n"), None);
    }
}
