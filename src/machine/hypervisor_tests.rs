// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the detection of hypervisors.

use super::super::tests::put;
use super::{HypervisorKind as K, *};
use tempfile::TempDir;

/// A machine with this vendor, product and processor flag.
fn by(sys_vendor: &str, product_name: &str, cpu_flag: Option<bool>) -> Hints {
    Hints {
        sys_vendor: sys_vendor.into(),
        product_name: product_name.into(),
        cpu_flag,
        ..Hints::default()
    }
}

#[test]
fn machines_are_called_by_the_names_that_people_use() {
    let (yes, no) = (Some(true), Some(false));
    for (vendor, product, flag, want) in [
        // QEMU sets these names with and without KVM
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", yes, K::Qemu),
        ("QEMU", "QEMU Virtual Machine", None, K::Qemu),
        ("QEMU", "Standard PC (i440FX + PIIX, 1996)", no, K::Qemu),
        // OpenStack starts QEMU without KVM, too (virt_type=qemu)
        ("OpenStack Foundation", "OpenStack Nova", yes, K::Qemu),
        // these names say KVM, or belong to vendors that use only KVM
        ("Red Hat", "KVM", yes, K::Kvm),
        ("DigitalOcean", "Droplet", yes, K::Kvm),
        ("Amazon EC2", "m5.large", yes, K::AmazonNitro),
        ("Amazon EC2", "m6g.large", None, K::AmazonNitro),
        ("Amazon EC2", "m6g.metal", None, K::None),
        ("Amazon EC2", "i3.metal", no, K::None),
        ("Google", "Google Compute Engine", yes, K::GoogleCompute),
        ("Google", "Google Compute Engine", no, K::None),
        ("Microsoft Corporation", "Virtual Machine", yes, K::HyperV),
        ("Microsoft Corporation", "Surface Laptop", no, K::None),
        ("VMware, Inc.", "VMware7,1", yes, K::Vmware),
        ("Xen", "HVM domU", yes, K::Xen),
        ("innotek GmbH", "VirtualBox", yes, K::VirtualBox),
        ("Alibaba Cloud", "Alibaba Cloud ECS", no, K::None),
        ("Dell Inc.", "PowerEdge R750", no, K::None),
        ("HPE", "ProLiant RL300", None, K::None),
        ("ACME", "Box", yes, K::Unnamed),
        ("", "", yes, K::Unnamed),
        ("", "", None, K::Unknown),
    ] {
        let found = by(vendor, product, flag).classify();
        assert_eq!(found.kind, want, "{vendor} {product} {flag:?}: {found:?}");
        assert!(!found.name.is_empty() && !found.evidence.is_empty());
    }
}

#[test]
fn the_chassis_tag_identifies_azure_and_oracle() {
    let mut azure = by("Microsoft Corporation", "Virtual Machine", Some(true));
    azure.chassis_asset_tag = AZURE_TAG.into();
    assert_eq!(azure.classify().kind, K::Azure);
    let mut oracle = by("QEMU", "Standard PC (i440FX + PIIX, 1996)", Some(true));
    oracle.chassis_asset_tag = "OracleCloud.com".into();
    assert!(oracle.classify().name.contains("Oracle"));
}

#[test]
fn qemu_is_kvm_where_kvm_is_seen() {
    let mut qemu = by("QEMU", "Standard PC (Q35 + ICH9, 2009)", Some(true));
    assert!(!qemu.classify().emulated, "the clocks were not read");
    qemu.clocksources = "tsc hpet acpi_pm".into();
    assert_eq!(qemu.classify().kind, K::Qemu);
    assert!(qemu.classify().emulated);
    qemu.clocksources = "kvm-clock tsc".into();
    assert_eq!(qemu.classify().kind, K::Kvm);
    assert_eq!(qemu.classify().name, "KVM/QEMU");
}

#[test]
fn on_arm64_nothing_but_a_sign_of_kvm_distinguishes_it_from_emulation() {
    let mut arm = by("QEMU", "QEMU Virtual Machine", None);
    // no kvm-clock, whether there is KVM or not
    arm.clocksources = "arch_sys_counter".into();
    let found = arm.classify();
    assert_eq!((found.kind, found.emulated), (K::Qemu, false));
    assert_eq!(found.name, "QEMU, no sign of KVM");
    arm.qemu_processor = true;
    assert!(arm.classify().emulated);
    arm.qemu_processor = false;
    arm.kvm_ptp = true;
    assert_eq!(arm.classify().kind, K::Kvm);
    let cpuinfo = |implementer: &str, part: &str| {
        format!("processor\t: 0\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n")
    };
    assert!(is_qemu_processor(&cpuinfo("0x00", "0x051")));
    assert!(!is_qemu_processor(&cpuinfo("0x41", "0xd0c")));
    assert!(!is_qemu_processor("flags\t\t: fpu hypervisor\n"));
}

#[test]
fn machines_without_dmi_are_known_by_acpi_device_tree_or_clock() {
    let mut hints = by("", "", Some(true));
    hints.clocksources = "tsc kvm-clock".into();
    assert_eq!(hints.classify().kind, K::Kvm);
    hints.acpi_oem = "FIRECK".into();
    assert_eq!(hints.classify().kind, K::Firecracker);
    let mut arm = Hints { device_tree: "linux,dummy-virt".into(), ..Hints::default() };
    assert_eq!(arm.classify().kind, K::Qemu, "QEMU's machine `virt`");
    arm.device_tree.push_str("\0linux,kvm");
    assert_eq!(arm.classify().kind, K::Kvm);
    arm.hypervisor_type = "xen".into();
    arm.device_tree.clear();
    assert_eq!(arm.classify().kind, K::Xen);
    arm.dom0 = true;
    assert_eq!(arm.classify().name, "Xen (dom0)");
}

#[test]
fn the_hints_are_where_linux_has_them() {
    let root = TempDir::new().unwrap();
    let system = System::at(root.path());
    assert_eq!(system.hypervisor().kind, K::Unknown);
    assert_eq!(system.hypervisor().present(), None);
    put(&root, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n");
    assert_eq!(system.hypervisor().kind, K::Unnamed);
    put(&root, "sys/firmware/acpi/tables/DSDT", "DSDT\0\0\0\0\0\0FIRECKFCVM");
    assert_eq!(system.hypervisor().kind, K::Firecracker);
    put(&root, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    assert_eq!(system.hypervisor().kind, K::AmazonNitro);
    assert_eq!(system.hypervisor().present(), Some(true));
    put(&root, "sys/class/dmi/id/sys_vendor", "QEMU\n");
    assert_eq!(system.hypervisor().kind, K::Qemu);
    put(&root, "sys/class/ptp/ptp0/clock_name", "KVM virtual PTP\n");
    assert_eq!(system.hypervisor().kind, K::Kvm);
}
