// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the name of a disk, a partition or a file to its controllers, namespace and logical blocks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::sysfs::{is_namespace, names_in};
use super::{System, read_line};
use crate::model::machine::{ControllerInfo, UpperDisk};
use crate::model::text::{Text, printable};

/// Unit of the start and size of partitions in sysfs.
const SECTOR_BYTES: u64 = 512;

/// An NVMe disk, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The name of the block device: `nvme0n1`, `nvme0n1p2`.
    pub name: String,
    /// The numbers of all controllers with a path to it, sorted.
    pub controllers: Vec<u32>,
    /// Its namespace id.
    pub nsid: u32,
    /// The first and last logical block of a partition; `None` for a whole disk.
    pub blocks: Option<(u64, u64)>,
}

/// What to give instead of a path without a disk.
const GIVE: &str = "give a disk, as in `--disk nvme0n1`";

fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => names.join(", "),
    }
}

fn stacked(name: &str, what: &str, on: &[String]) -> String {
    format!("`{name}` is {what} on {}: give one of the NVMe disks below it", list(on))
}

/// Major and minor number as the kernel encodes them for stat (include/linux/kdev_t.h,
/// new_encode_dev).
const fn numbers(dev: u64) -> (u64, u64) {
    (dev >> 8 & 0xfff, dev & 0xff | dev >> 12 & 0xf_ff00)
}

/// The disk that a hidden path of a multipath disk belongs to: `nvme0n2` for `nvme0c1n2`, as the kernel
/// forms both names. Another name is returned as it is.
#[must_use]
pub fn disk_of_path(name: &str) -> Cow<'_, str> {
    let parts = name.split_once('c').and_then(|(head, rest)| {
        let (controller, namespace) = rest.split_once('n')?;
        Some([head.strip_prefix("nvme")?, controller, namespace])
    });
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match parts.filter(|parts| parts.iter().all(is_number)) {
        Some([head, _, namespace]) => format!("nvme{head}n{namespace}").into(),
        None => name.into(),
    }
}

impl System {
    /// The disk of this name (`nvme0n1`), device file (`/dev/nvme0n1p1`), or the one that has the
    /// file or directory (`/mnt/data`).
    ///
    /// # Errors
    /// If it is not one NVMe disk, or a partition of one.
    pub fn disk(&self, text: &str) -> Result<Disk, String> {
        if text.contains('/') {
            return self.disk_of_path(Path::new(text));
        }
        if text.is_empty() || text.starts_with('.') {
            return Err(self.no_disk(text));
        }
        self.disk_at(text, &self.path("sys/class/block").join(text))
    }

    fn disk_of_path(&self, path: &Path) -> Result<Disk, String> {
        let meta = fs::metadata(path).map_err(|error| {
            format!("`{}` can't be looked at ({error}): {GIVE}", printable(path))
        })?;
        if meta.file_type().is_char_device() {
            return Err(format!("`{}` is a character device: {GIVE}", printable(path)));
        }
        let is_block = meta.file_type().is_block_device();
        let (major, minor) = numbers(if is_block { meta.rdev() } else { meta.dev() });
        let at = self.path("sys/dev/block").join(format!("{major}:{minor}"));
        if at.exists() {
            return self.disk_at(&printable(path), &at);
        }
        self.disk_of_mount(path)
    }

    /// The disk of a file system without a device number of its own, such as btrfs.
    fn disk_of_mount(&self, path: &Path) -> Result<Disk, String> {
        let full = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let mounts = fs::read_to_string(self.path("proc/self/mountinfo")).unwrap_or_default();
        // the mount point is field 5; type and source follow a dash
        let mounts = mounts.lines().filter_map(|line| {
            let (mount, what) = line.split_once(" - ")?;
            let point = mount.split(' ').nth(4)?;
            let mut what = what.split(' ');
            let found = (point.len(), what.next()?, what.next()?);
            full.starts_with(point).then_some(found)
        });
        // a later mount hides an earlier one at the same place
        let path = printable(path);
        let none =
            |kind: &str| format!("`{path}` is on {kind}, which has no disk of its own: {GIVE}");
        let Some((_, kind, source)) = mounts.max_by_key(|(length, ..)| *length) else {
            return Err(none("an unknown file system"));
        };
        let Some(name) = source.strip_prefix("/dev/") else {
            return Err(none(kind));
        };
        let pools = self.path("sys/fs/btrfs");
        let members = names_in(&pools)
            .into_iter()
            .map(|pool| names_in(&pools.join(pool).join("devices")))
            .find(|members| members.iter().any(|m| m == name));
        match members {
            Some(on) if on.len() > 1 => {
                Err(stacked(&path, &format!("{kind} on several devices,"), &on))
            }
            _ => self.disk_at(name, &self.path("sys/class/block").join(name)),
        }
    }

    /// The disk at this place in sysfs. `asked` is for errors.
    fn disk_at(&self, asked: &str, at: &Path) -> Result<Disk, String> {
        let missing = || self.no_disk(asked);
        // /sys/devices/.../nvme/nvme0/nvme0n1/nvme0n1p1
        let at = fs::canonicalize(at).map_err(|_| missing())?;
        let name_of = |at: &Path| Some(at.file_name()?.to_str()?.to_owned());
        let name = name_of(&at).ok_or_else(missing)?;
        let is_part = at.join("partition").exists();
        let whole = if is_part { at.parent() } else { Some(&*at) };
        let whole = whole.ok_or_else(missing)?;
        let disk = name_of(whole).ok_or_else(missing)?;
        if !is_namespace(&disk) {
            return Err(self.not_nvme(&disk, whole));
        }
        let number = |at: &Path, file| read_line(&at.join(file))?.parse::<u64>().ok();
        let blocks = || {
            let bytes = number(whole, "queue/logical_block_size")?;
            let in_blocks = |sectors: u64| sectors.checked_mul(SECTOR_BYTES)?.checked_div(bytes);
            let first = in_blocks(number(&at, "start")?)?;
            let count = in_blocks(number(&at, "size")?)?;
            Some((first, first.checked_add(count)?.checked_sub(1)?))
        };
        let blocks = match is_part {
            true => Some(blocks().ok_or_else(missing)?),
            false => None,
        };
        let controllers = self.controllers();
        let has = |c: &&ControllerInfo| c.disks.iter().any(|ns| disk_of_path(&ns.name) == *disk);
        let with: Vec<&ControllerInfo> = controllers.iter().filter(has).collect();
        let namespaces = with.iter().flat_map(|c| &c.disks);
        let nsid = namespaces.clone().find(|ns| disk_of_path(&ns.name) == *disk);
        Ok(Disk {
            nsid: nsid.ok_or_else(missing)?.nsid,
            controllers: with.iter().map(|c| c.instance).collect(),
            name,
            blocks,
        })
    }

    fn no_disk(&self, name: &str) -> String {
        format!("there is no disk `{name}`: this machine has {}", list(&self.disks()))
    }

    fn not_nvme(&self, disk: &str, at: &Path) -> String {
        let text = |file| read_line(&at.join(file));
        let (what, on) = if let Some(name) = text("dm/name") {
            let what = format!("the device-mapper device {name}");
            (what, names_in(&at.join("slaves")))
        } else if let Some(level) = text("md/level") {
            (format!("an md array ({level})"), names_in(&at.join("slaves")))
        } else if let Some(file) = text("loop/backing_file") {
            ("a loop device".into(), vec![file])
        } else {
            return format!(
                "`{disk}` is not an NVMe disk: this machine has {}",
                list(&self.disks())
            );
        };
        stacked(disk, &what, &on)
    }

    /// The name of a device-mapper device directly on an NVMe disk, if there is one.
    pub fn mapped_device(&self) -> Option<Text> {
        let all = self.path("sys/class/block");
        let names = names_in(&all).into_iter();
        let mut mapped = names.map(|name| all.join(name)).filter(|at| {
            let slaves = names_in(&at.join("slaves"));
            slaves.iter().any(|name| name.starts_with("nvme"))
        });
        let name = mapped.find_map(|at| read_line(&at.join("dm/name")))?;
        Some(Text::from(name))
    }

    /// The names of all NVMe disks.
    fn disks(&self) -> Vec<String> {
        let mut names = names_in(&self.path("sys/class/block"));
        // without the hidden paths
        names.retain(|name| is_namespace(name) && !name.contains('c'));
        names
    }
}

/// The disk of a partition: `nvme0n1` of `nvme0n1p2`, `md0` of `md0p1`.
fn whole_disk(name: &str) -> &str {
    let part = name.rsplit_once('p').filter(|(_, number)| number.parse::<u32>().is_ok());
    part.map_or(name, |(disk, _)| disk)
}

impl System {
    /// Disks of device mapper and md that are above NVMe.
    pub(super) fn upper_disks(&self) -> Vec<UpperDisk> {
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
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
