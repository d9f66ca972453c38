// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of [`super`] on machines that are made of files.

use super::super::tests::TestMachine;
use super::*;
use std::os::unix::fs::symlink;

/// Adds a block device at `at` below sys/devices, with these files.
fn block(machine: &TestMachine, at: &str, numbers: &str, files: &[(&str, String)]) {
    let full = machine.path("sys/devices").join(at);
    fs::create_dir_all(&full).unwrap();
    let name = full.file_name().unwrap().to_str().unwrap();
    for link in [format!("sys/class/block/{name}"), format!("sys/dev/block/{numbers}")] {
        let link = machine.path(&link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&full, link).unwrap();
    }
    for (file, text) in files {
        machine.put(&format!("sys/devices/{at}/{file}"), text);
    }
}

/// A machine with nvme0n1 (512 byte blocks, two partitions), nvme1n1 (4096, one), and nvme2n1 with
/// paths by nvme2 and nvme3.
fn machine() -> TestMachine {
    let machine = TestMachine::new(&[]);
    for (ctrl, disk, nsid, bytes) in [
        ("nvme0", "nvme0n1", 1, 512),
        ("nvme1", "nvme1n1", 7, 4096),
        ("nvme2", "nvme2c2n1", 3, 512),
        ("nvme3", "nvme2c3n1", 3, 512),
    ] {
        let at = format!("sys/class/nvme/{ctrl}/{disk}");
        machine.put(&format!("{at}/nsid"), &nsid.to_string());
        machine.put(&format!("{at}/queue/logical_block_size"), &bytes.to_string());
    }
    for (at, numbers, bytes) in [
        ("pci/nvme/nvme0/nvme0n1", "259:0", 512),
        ("pci2/nvme/nvme1/nvme1n1", "259:1", 4096),
        ("virtual/nvme-subsystem/nvme-subsys2/nvme2n1", "259:2", 512),
    ] {
        block(&machine, at, numbers, &[("queue/logical_block_size", bytes.to_string())]);
    }
    for (at, numbers, start, size) in [
        ("pci/nvme/nvme0/nvme0n1/nvme0n1p1", "259:3", 2048, 4096),
        ("pci/nvme/nvme0/nvme0n1/nvme0n1p2", "259:4", 6144, 8),
        ("pci2/nvme/nvme1/nvme1n1/nvme1n1p1", "259:5", 2048, 4096),
    ] {
        let files = [("partition", 1), ("start", start), ("size", size)];
        block(&machine, at, numbers, &files.map(|(file, n)| (file, format!("{n}\n"))));
    }
    machine
}

#[test]
fn a_disk_is_its_controllers_and_namespace_and_a_partition_a_range_of_its_blocks() {
    let machine = machine();
    for (name, controllers, nsid, blocks) in [
        ("nvme0n1", &[0][..], 1, None),
        ("nvme1n1", &[1], 7, None),
        // all paths
        ("nvme2n1", &[2, 3], 3, None),
        ("nvme0n1p1", &[0], 1, Some((2048, 6143))),
        ("nvme0n1p2", &[0], 1, Some((6144, 6151))),
        // sectors of 512 bytes, blocks of 4096
        ("nvme1n1p1", &[1], 7, Some((256, 767))),
    ] {
        let want = Disk { name: name.into(), controllers: controllers.into(), nsid, blocks };
        assert_eq!(machine.disk(name), Ok(want));
    }
}

#[test]
fn a_path_leads_to_the_disk_that_has_it() {
    let machine = machine();
    machine.put("data", "");
    let file = machine.path("data");
    let (major, minor) = numbers(fs::metadata(&file).unwrap().dev());
    let link = machine.path(&format!("sys/dev/block/{major}:{minor}"));
    symlink(machine.path("sys/class/block/nvme0n1p2"), link).unwrap();
    let found = machine.disk(file.to_str().unwrap()).unwrap();
    assert_eq!((found.name.as_str(), found.blocks), ("nvme0n1p2", Some((6144, 6151))));
}

#[test]
fn a_file_system_without_a_device_number_is_found_by_its_mount() {
    let machine = machine();
    machine.put("data", "");
    let file = machine.path("data");
    let point = fs::canonicalize(machine.path("")).unwrap();
    let mounted = |what: &str| {
        let line = format!("40 1 0:40 /sub {} rw shared:1 - {what} rw\n", point.display());
        machine.put("proc/self/mountinfo", &format!("21 1 0:20 / / rw - tmpfs t rw\n{line}"));
        machine.disk(file.to_str().unwrap())
    };
    assert_eq!(mounted("btrfs /dev/nvme0n1p1").unwrap().name, "nvme0n1p1");
    let error = mounted("overlay overlay").unwrap_err();
    assert!(error.contains("is on overlay"), "{error}");
    for member in ["nvme0n1p1", "nvme1n1"] {
        machine.put(&format!("sys/fs/btrfs/6b-7d/devices/{member}/size"), "");
    }
    let error = mounted("btrfs /dev/nvme0n1p1").unwrap_err();
    assert!(error.contains("on several devices, on nvme0n1p1, nvme1n1"), "{error}");
}

#[test]
fn what_is_not_one_nvme_disk_is_refused_by_name() {
    let machine = machine();
    for (at, file, text, slaves) in [
        ("virtual/block/dm-0", "dm/name", "vg-root", &["nvme0n1p1", "nvme1n1"][..]),
        ("virtual/block/md127", "md/level", "raid1", &["nvme0n1", "nvme1n1"]),
        ("virtual/block/loop3", "loop/backing_file", "/disk.img", &[]),
        ("pci3/ata1/block/sda", "size", "8", &[]),
    ] {
        let numbers = format!("8:{}", at.rsplit('/').next().unwrap());
        block(&machine, at, &numbers, &[(file, text.to_owned())]);
        for slave in slaves {
            machine.put(&format!("sys/devices/{at}/slaves/{slave}/x"), "");
        }
    }
    for (name, says) in [
        ("dm-0", "is the device-mapper device vg-root on nvme0n1p1, nvme1n1: give one"),
        ("md127", "is an md array (raid1) on nvme0n1, nvme1n1: give one"),
        ("loop3", "is a loop device on /disk.img"),
        ("sda", "is not an NVMe disk: this machine has nvme0n1, nvme1n1, nvme2n1"),
        ("nvme9n1", "there is no disk `nvme9n1`: this machine has nvme0n1,"),
        ("nvme0", "there is no disk `nvme0`"),
        ("", "there is no disk"),
        ("..", "there is no disk"),
        ("/dev/null", "is a character device"),
        ("/missing/file", "can't be looked at"),
    ] {
        let error = machine.disk(name).unwrap_err();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[test]
fn a_path_of_multipath_belongs_to_one_disk() {
    for (path, disk) in [
        ("nvme0c1n2", "nvme0n2"),
        ("nvme0n2", "nvme0n2"),
        ("nvme1c0n2", "nvme1n2"),
        ("nvme0c1n22", "nvme0n22"),
        ("nvme0cxn2", "nvme0cxn2"),
        ("nvmec1n2", "nvmec1n2"),
        ("disc0n1", "disc0n1"),
        ("", ""),
    ] {
        assert_eq!(disk_of_path(path), disk, "{path}");
    }
}

#[test]
fn device_mapper_on_an_nvme_disk_is_found() {
    let machine = machine();
    assert_eq!(machine.mapped_device(), None);
    for (dm, numbers, name, slave) in
        [("dm-0", "253:0", "other", "sda"), ("dm-1", "253:1", "vg-root", "nvme0n1p1")]
    {
        let slave = format!("slaves/{slave}/x");
        let files = [("dm/name", name.to_owned()), (slave.as_str(), String::new())];
        block(&machine, &format!("virtual/block/{dm}"), numbers, &files);
    }
    assert_eq!(machine.mapped_device().unwrap().as_str(), "vg-root");
}
