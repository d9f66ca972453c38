// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads NVMe controllers and namespaces from sysfs.

use std::fs;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{System, read_device_line, read_line};
use crate::model::machine::{ControllerInfo, DiskInfo};
use crate::nvme::decode::CommandSet;

/// A controller's number of queues, including the admin queue, and the entries of an I/O submission queue.
/// `number` reads a file of its directory in sysfs. `None`: not known yet.
pub(super) fn queues_of(number: impl Fn(&str) -> Option<u32>) -> (Option<u32>, Option<u32>) {
    let queues = number("queue_count").filter(|&n| n > 0);
    // zero based, as in the specification (CAP.MQES)
    let depth = number("sqsize").and_then(|n| n.checked_add(1)).filter(|&n| n > 1);
    (queues, depth)
}

/// Parses `nvme12` to 12; `None` for any other name.
pub(super) fn instance_of(name: &str) -> Option<u32> {
    name.strip_prefix("nvme")?.parse().ok()
}

/// Whether this names a namespace of a controller: `nvme0n1` and the hidden path `nvme0c1n1` do,
/// `ng0n1` does not.
pub(super) fn is_namespace(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("nvme") else {
        return false;
    };
    let Some((head, ns)) = rest.split_once('n') else {
        return false;
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let mut parts = head.splitn(2, 'c');
    parts.all(digits) && digits(ns)
}

pub(super) fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The command set. 6.x kernels report its identifier; all kernels report whether there are zones.
/// Key Value namespaces have no block device.
fn command_set(at: &Path) -> CommandSet {
    let csi = read_line(&at.join("csi")).and_then(|text| text.parse().ok());
    let zoned = read_line(&at.join("queue/zoned")).is_some_and(|text| text != "none");
    match csi.and_then(CommandSet::from_csi) {
        Some(set) => set,
        None if zoned => CommandSet::Zoned,
        None => CommandSet::Nvm,
    }
}

fn disks_in(dir: &Path) -> Vec<DiskInfo> {
    let mut found: Vec<DiskInfo> = names_in(dir)
        .into_iter()
        .filter(|name| is_namespace(name))
        .filter_map(|name| {
            let at = dir.join(&name);
            let number = |file| read_line(&at.join(file)).and_then(|text| text.parse().ok());
            Some(DiskInfo {
                nsid: number("nsid")?,
                lba_bytes: number("queue/logical_block_size").unwrap_or(512),
                csi: command_set(&at).csi(),
                name: name.into(),
            })
        })
        .collect();
    found.sort_by_key(|ns| ns.nsid);
    found
}

impl System {
    /// Reads all controllers, sorted by number. Empty if there is no NVMe, or no sysfs.
    pub fn controllers(&self) -> Vec<ControllerInfo> {
        let class = self.path("sys/class/nvme");
        let mut found: Vec<ControllerInfo> = names_in(&class)
            .into_iter()
            .filter_map(|name| {
                let instance = instance_of(&name)?;
                let at = class.join(&name);
                let text = |file: &str| read_line(&at.join(file));
                let number = |file: &str| text(file).and_then(|n| n.parse::<u32>().ok());
                let transport = text("transport").unwrap_or_default();
                let nqn = text("subsysnqn").filter(|_| !["", "pcie"].contains(&&*transport));
                let (queues, depth) = queues_of(number);
                Some(ControllerInfo {
                    instance,
                    model: read_device_line(&at.join("model")).unwrap_or_default(),
                    cntlid: text("cntlid").and_then(|n| n.parse().ok()),
                    nqn: nqn.map(Into::into),
                    transport: transport.into(),
                    queues,
                    depth,
                    disks: disks_in(&at),
                })
            })
            .collect();
        found.sort_by_key(|c| c.instance);
        found
    }
}

impl System {
    /// The NVMe disk on which a file or a directory is stored, if it is stored on one directly: `nvme0n1`.
    pub fn nvme_disk_of(&self, file: &File) -> Option<String> {
        let meta = file.metadata().ok().filter(|meta| meta.is_file() || meta.is_dir())?;
        // encoded as the kernel does for stat (include/linux/kdev_t.h, new_encode_dev)
        let dev = meta.dev();
        let major = dev >> 8 & 0xfff;
        let minor = dev & 0xff | dev >> 12 & 0xf_ff00;
        let at = self.path("sys/dev/block").join(format!("{major}:{minor}"));
        // ../../devices/.../nvme/nvme0/nvme0n1/nvme0n1p1
        let link = fs::read_link(at).ok()?;
        let mut names = link.iter().filter_map(|part| part.to_str());
        names.rfind(|name| is_namespace(name)).map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    #[test]
    fn controllers_come_with_their_queues_and_namespaces() {
        let machine = TestMachine::new(&[]);
        for (path, text) in [
            ("nvme10/model", "QEMU NVMe Ctrl   \n"),
            ("nvme2/transport", "pcie\n"),
            ("nvme2/queue_count", "3\n"),
            ("nvme2/sqsize", "1023\n"),
            ("nvme2/nvme2n1/nsid", "7\n"),
            ("nvme2/nvme2n1/queue/logical_block_size", "4096\n"),
            ("nvme2/ng2n1/nsid", "7\n"),
            ("nvme-subsys0/model", "not a controller\n"),
        ] {
            machine.put(&format!("sys/class/nvme/{path}"), text);
        }
        let found = machine.controllers();
        assert_eq!(found.iter().map(ControllerInfo::name).collect::<Vec<_>>(), ["nvme2", "nvme10"]);
        assert_eq!((found[0].queues, found[0].depth), (Some(3), Some(1024)));
        assert_eq!((found[1].queues, found[1].depth), (None, None));
        assert_eq!(found[1].model, "QEMU NVMe Ctrl");
        let want = DiskInfo { name: "nvme2n1".into(), nsid: 7, lba_bytes: 4096, csi: 0 };
        assert_eq!(found[0].disks, [want]);
        assert!(System::at("/nonexistent").controllers().is_empty());
    }

    #[test]
    fn multipath_paths_are_namespaces_and_other_entries_are_not() {
        for yes in ["nvme0n1", "nvme0c1n1", "nvme12n34"] {
            assert!(is_namespace(yes), "{yes}");
        }
        for no in ["ng0n1", "nvme0", "nvmen1", "nvme0n", "nvme0n1p1", "hwmon3", "nvme0cn1"] {
            assert!(!is_namespace(no), "{no}");
        }
    }
}
