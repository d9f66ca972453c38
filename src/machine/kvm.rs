// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracepoints of KVM, of one process, in a tracefs instance of its own.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::System;
use super::tracefs::TracefsError;
use crate::recording::TscScale;

/// From the exit of a virtual CPU to its next entry.
const EVENTS: [&str; 4] = ["kvm_exit", "kvm_mmio", "kvm_userspace_exit", "kvm_entry"];
/// Size of the buffer of each CPU in KiB.
const BUFFER_KB: &str = "2048";

/// Why the events of KVM cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvmError {
    /// There is no tracefs.
    #[error("{0}")]
    Tracefs(#[from] TracefsError),
    /// The module is not loaded.
    #[error("the kernel has no tracepoint kvm:{event}: the module kvm is not loaded")]
    NoEvent {
        /// The first that is missing.
        event: &'static str,
    },
    /// A file of tracefs.
    #[error("{} can't be used ({error})", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl KvmError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    /// Whether the user may not use tracefs.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::File { error, .. } if error.kind() == ErrorKind::PermissionDenied)
    }
}

/// A tracefs instance, removed at the end.
#[derive(Debug)]
struct Instance(PathBuf);

impl Instance {
    fn set(&self, file: &str, value: &str) -> Result<(), KvmError> {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(KvmError::of(&path))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // an instance whose events are on can be removed, too; there is nobody to report to
        let _ = fs::remove_dir(&self.0);
    }
}

/// The events of the threads of a process, as text.
#[derive(Debug)]
pub struct KvmEvents {
    // closed before the instance is removed
    pipe: File,
    instance: Instance,
    /// A line without its end.
    rest: Vec<u8>,
}

impl KvmEvents {
    /// Begins to trace the threads of a process, also those that it will create.
    ///
    /// # Errors
    /// Without tracefs, without the tracepoints, without the right to use them.
    pub fn open(system: &System, pid: u32) -> Result<Self, KvmError> {
        let tracefs = system.tracefs()?;
        for event in EVENTS {
            if !tracefs.join("events/kvm").join(event).exists() {
                return Err(KvmError::NoEvent { event });
            }
        }
        let dir = tracefs.join(format!("instances/nvme-deep-{}", std::process::id()));
        fs::create_dir(&dir).map_err(KvmError::of(&dir))?;
        let instance = Instance(dir);
        instance.set("buffer_size_kb", BUFFER_KB)?;
        instance.set("trace_clock", "mono")?;
        // threads that are created later, too
        instance.set("options/event-fork", "1")?;
        let threads = system.threads(pid);
        instance.set("set_event_pid", &threads.join(" "))?;
        for event in EVENTS {
            instance.set(&format!("events/kvm/{event}/enable"), "1")?;
        }
        let path = instance.0.join("trace_pipe");
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .map_err(KvmError::of(&path))?;
        Ok(Self {
            pipe,
            instance,
            rest: Vec::new(),
        })
    }

    /// Passes on lines. Returns whether there may be more.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn read(&mut self, to: &mut dyn FnMut(&str)) -> Result<bool, KvmError> {
        let mut bytes = vec![0; 64 << 10];
        let read = match self.pipe.read(&mut bytes) {
            Ok(read) => read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(e) => return Err(KvmError::of(&self.instance.0.join("trace_pipe"))(e)),
        };
        self.rest.extend_from_slice(&bytes[..read]);
        let whole = self
            .rest
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().for_each(to);
        Ok(read > 0)
    }

    /// Stops the events. Those before can still be read.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(&self) -> Result<(), KvmError> {
        self.instance.set("tracing_on", "0")
    }
}

/// The TSC of a virtual CPU.
fn tsc_of(cpu: &Path) -> Option<TscScale> {
    let number = |file: &str| -> Option<i64> {
        let text = fs::read_to_string(cpu.join(file)).ok()?;
        text.trim().parse().ok()
    };
    let offset = number("tsc-offset")?;
    // without these files the processor cannot scale
    let scale = number("tsc-scaling-ratio").zip(number("tsc-scaling-ratio-frac-bits"));
    let (ratio, bits) = scale.unwrap_or((1, 0));
    Some(TscScale {
        offset,
        ratio: u64::try_from(ratio).ok()?,
        bits: u32::try_from(bits).ok()?,
    })
}

impl System {
    /// The ids of the threads of a process.
    fn threads(&self, pid: u32) -> Vec<String> {
        let entries = fs::read_dir(self.path(&format!("proc/{pid}/task")));
        let names = entries.into_iter().flatten().flatten();
        names
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect()
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

    /// The first and the last physical address of a controller's BAR 0.
    pub fn nvme_bar(&self, instance: u32) -> Option<[u64; 2]> {
        let resource = self.text(&format!("sys/class/nvme/nvme{instance}/device/resource"));
        let mut numbers = resource.known()?.split(' ').map(|word| {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            u64::from_str_radix(digits, 16).ok()
        });
        let (first, last) = (numbers.next()??, numbers.next()??);
        (first < last).then_some([first, last])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn without_the_module_the_error_names_it() {
        let root = TempDir::new().unwrap();
        put(&root, "sys/kernel/tracing/events/nvme/enable", "0");
        let error = KvmEvents::open(&System::at(root.path()), 1).unwrap_err();
        assert!(error.to_string().contains("module kvm"), "{error}");
        assert!(!error.is_refused());
    }

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
        let mut scale = TscScale {
            offset: -18_446_743,
            ratio: 1,
            bits: 0,
        };
        assert_eq!(system.tsc_scale(40), Some(scale));
        for cpu in ["vcpu0", "vcpu1"] {
            put(&root, &format!("{dir}/{cpu}/tsc-offset"), "-7\n");
            put(
                &root,
                &format!("{dir}/{cpu}/tsc-scaling-ratio"),
                "6442450944\n",
            );
            put(
                &root,
                &format!("{dir}/{cpu}/tsc-scaling-ratio-frac-bits"),
                "32\n",
            );
        }
        (scale.offset, scale.ratio, scale.bits) = (-7, 3 << 31, 32);
        assert_eq!(system.tsc_scale(40), Some(scale));
        put(&root, &format!("{dir}/vcpu1/tsc-offset"), "-8\n");
        assert_eq!(system.tsc_scale(40), None);
    }

    #[test]
    fn the_bar_is_the_first_resource() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.nvme_bar(0), None);
        let file = "sys/class/nvme/nvme0/device/resource";
        put(
            &root,
            file,
            "0x00000000febd4000 0x00000000febd7fff 0x140204\n0x0 0x0 0x0\n",
        );
        assert_eq!(system.nvme_bar(0), Some([0xfebd_4000, 0xfebd_7fff]));
        put(&root, file, "0x0 0x0 0x0\n");
        assert_eq!(system.nvme_bar(0), None);
    }
}
