// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in sentences and advice, which people paste into a shell. Only names that the kernel itself
//! gives to block devices are used; the name of a recording may be any text.

use std::fmt;
use std::fmt::{Display, Formatter};

use crate::model::text::Text;

/// Stands for a name that the kernel does not give.
const PLACEHOLDER: &str = "DISK";
/// Longest name of a disk (DISK_NAME_LEN).
const LONGEST: usize = 32;

/// The name of a block device as the kernel forms it, or `DISK`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName(String);

/// A prefix and what has to follow it.
fn follows(name: &str, prefix: &str, rest: impl Fn(&str) -> bool) -> bool {
    name.strip_prefix(prefix).is_some_and(rest)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_letters(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
}

/// `0n1`, `0c1n1`, `0n1p2`, `0`: what follows `nvme`.
fn is_nvme(text: &str) -> bool {
    let (whole, part) =
        text.split_once('p').map_or((text, None), |(whole, part)| (whole, Some(part)));
    let (path, namespace) =
        whole.split_once('n').map_or((whole, None), |(path, namespace)| (path, Some(namespace)));
    let mut path = path.splitn(2, 'c');
    let numbers = path.all(is_number) && part.is_none_or(is_number);
    numbers && namespace.map_or(part.is_none() && !whole.contains('c'), is_number)
}

/// `a`, `ab`, `a1`: what follows `sd`, `vd`, `xvd`.
fn is_lettered(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    is_letters(letters)
}

/// `259:1`, the name in /sys/dev/block: a text of blkparse has no other.
fn is_device_number(text: &str) -> bool {
    text.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Whether the kernel forms such a name.
fn is_of_kernel(name: &str) -> bool {
    let numbered = ["dm-", "md", "loop", "nbd", "zram", "ram", "pmem", "mmcblk", "sr"];
    let lettered = ["sd", "vd", "xvd", "hd"];
    name.len() <= LONGEST
        && (follows(name, "nvme", is_nvme)
            || numbered.iter().any(|prefix| follows(name, prefix, is_number))
            || lettered.iter().any(|prefix| follows(name, prefix, is_lettered))
            || is_device_number(name))
}

impl DeviceName {
    /// The name, if the kernel forms such names; otherwise `DISK`.
    pub fn of(name: &Text) -> Self {
        let name = Some(name.as_str()).filter(|name| is_of_kernel(name));
        Self(name.unwrap_or(PLACEHOLDER).to_owned())
    }
}

impl Display for DeviceName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        DeviceName::of(&name.into()).to_string()
    }

    #[test]
    fn names_of_the_kernel_are_kept_and_others_are_replaced() {
        let good =
            "nvme0 nvme0n1 nvme0c0n1 nvme12n3p4 sda sdab1 vda xvdb dm-0 md0 md127 loop0 nbd3 259:1";
        for name in good.split(' ') {
            assert_eq!(shown(name), name);
        }
        let bad = "|nvme|259:|:1|259:1:2|nvme0n|nvmen1|nvme0c1|nvme0p1|nvme0n1p|sd|sd1|dm-|md_x|../sda|$(reboot)|\
                   nvme0n1; curl x \u{7c} sh|nvme0n1\n|nvme0n1/../x|nvme0n1 |nvme0\u{661}n1|\
                   nvme00000000000000000000000000000000n1";
        for name in bad.split('|') {
            assert_eq!(shown(name), "DISK", "{name}");
        }
    }
}
