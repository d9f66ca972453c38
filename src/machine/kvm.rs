// SPDX-License-Identifier: MIT OR Apache-2.0
//! What KVM says of a virtual machine: its TSC.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;

use super::System;
use crate::model::run::TscScale;

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
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn the_tsc_is_that_of_all_virtual_cpus_of_the_process() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "proc/40/task/40/comm", "");
        put(&root, "proc/40/task/41/comm", "");
        put(&root, "sys/kernel/debug/kvm/7-9/vcpu0/tsc-offset", "-5\n");
        assert_eq!(system.tsc_scale(40), None);
        let dir = "sys/kernel/debug/kvm/40-12";
        put(&root, &format!("{dir}/vcpu0/tsc-offset"), "-18446743\n");
        let mut scale = TscScale { offset: -18_446_743, ratio: 1, bits: 0 };
        assert_eq!(system.tsc_scale(40), Some(scale));
        for cpu in ["vcpu0", "vcpu1"] {
            put(&root, &format!("{dir}/{cpu}/tsc-offset"), "-7\n");
            put(&root, &format!("{dir}/{cpu}/tsc-scaling-ratio"), "6442450944\n");
            put(&root, &format!("{dir}/{cpu}/tsc-scaling-ratio-frac-bits"), "32\n");
        }
        (scale.offset, scale.ratio, scale.bits) = (-7, 3 << 31, 32);
        assert_eq!(system.tsc_scale(40), Some(scale));
        put(&root, &format!("{dir}/vcpu1/guest_mode"), "1\n");
        assert_eq!(system.tsc_scale(40), None);
        put(&root, &format!("{dir}/vcpu1/guest_mode"), "0\n");
        assert_eq!(system.tsc_scale(40), Some(scale));
        put(&root, &format!("{dir}/vcpu1/tsc-scaling-ratio"), "?\n");
        assert_eq!(system.tsc_scale(40), None);
        put(&root, &format!("{dir}/vcpu1/tsc-scaling-ratio"), "6442450944\n");
        put(&root, &format!("{dir}/vcpu1/tsc-offset"), "-8\n");
        assert_eq!(system.tsc_scale(40), None);
    }
}
