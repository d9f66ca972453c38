// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracepoints of KVM, of one process, in a tracefs instance of its own.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io, thread};

use rustix::fs::OFlags;

use super::tracefs::TracefsError;
use super::{System, Unreadable};
use crate::model::run::TscScale;
use crate::model::text::printable;

/// From the exit of a virtual CPU to its next entry.
const EVENTS: [&str; 4] = ["kvm_exit", "kvm_mmio", "kvm_userspace_exit", "kvm_entry"];
/// Readings of a TSC offset until two are equal.
const TRIES: u32 = 5;
/// Most memory for the buffers of all CPUs, in KiB.
const BUFFERS_KB: usize = 64 << 10;
/// Least and most memory for that of a CPU, in KiB.
const BUFFER_KB: (usize, usize) = (256, 2048);

/// Why the events of KVM cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvmError {
    /// There is no tracefs.
    #[error("{0}")]
    Tracefs(#[from] TracefsError),
    /// The module is not loaded.
    #[error(
        "the kernel has no tracepoint kvm:{event}: the module kvm is not loaded; load kvm_intel or \
         kvm_amd"
    )]
    NoEvent {
        /// The first that is missing.
        event: &'static str,
    },
    /// The process has no threads.
    #[error("process {pid} has ended")]
    Ended {
        /// The process.
        pid: u32,
    },
    /// A file of tracefs.
    #[error("{} can't be used ({error}): root can, unless lockdown forbids it", printable(.path))]
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
        match self {
            Self::File { error, .. } => error.kind() == ErrorKind::PermissionDenied,
            Self::Tracefs(TracefsError::Unreadable(why)) => {
                matches!(why, Unreadable::NoPermission | Unreadable::Refused)
            }
            _ => false,
        }
    }
}

/// A tracefs instance, removed at the end.
#[derive(Debug)]
struct Instance(PathBuf);

impl Instance {
    /// Creates it. One that a killed run has left is removed first.
    fn create(dir: PathBuf) -> Result<Self, KvmError> {
        let created = fs::create_dir(&dir).or_else(|error| {
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(error);
            }
            fs::remove_dir(&dir)?;
            fs::create_dir(&dir)
        });
        created.map_err(KvmError::of(&dir))?;
        Ok(Self(dir))
    }

    fn set(&self, file: &str, value: &str) -> Result<(), KvmError> {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(KvmError::of(&path))
    }

    /// Traces the threads of a process, also those that they create.
    fn follow(&self, system: &System, pid: u32) -> Result<(), KvmError> {
        // an empty list would select every process
        let threads = || match system.threads(pid) {
            none if none.is_empty() => Err(KvmError::Ended { pid }),
            threads => Ok(threads),
        };
        let mut now = threads()?;
        self.set("options/event-fork", "1")?;
        loop {
            self.set("set_event_pid", &now.join(" "))?;
            // a thread that was created meanwhile may have a parent that was not followed
            let later = threads()?;
            if later == now {
                return Ok(());
            }
            now = later;
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // `close` reports it where somebody reads
        let _ = fs::remove_dir(&self.0);
    }
}

/// Size of the buffer of each CPU, in KiB.
fn buffer_kb(cpus: usize) -> usize {
    (BUFFERS_KB / cpus.max(1)).clamp(BUFFER_KB.0, BUFFER_KB.1)
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
        let instance = Instance::create(dir)?;
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        instance.set("buffer_size_kb", &buffer_kb(cpus).to_string())?;
        instance.set("trace_clock", "mono")?;
        instance.follow(system, pid)?;
        for event in EVENTS {
            instance.set(&format!("events/kvm/{event}/enable"), "1")?;
        }
        let path = instance.0.join("trace_pipe");
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .map_err(KvmError::of(&path))?;
        Ok(Self { pipe, instance, rest: Vec::new() })
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
        let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().for_each(to);
        Ok(read > 0)
    }

    /// Removes the instance.
    ///
    /// # Errors
    /// If it stays; the message names it.
    pub fn close(self) -> Result<(), KvmError> {
        let Self { pipe, instance, .. } = self;
        drop(pipe);
        fs::remove_dir(&instance.0).map_err(KvmError::of(&instance.0))
    }

    /// Stops the events. Those before can still be read.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(&self) -> Result<(), KvmError> {
        self.instance.set("tracing_on", "0")
    }
}

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
    // kernels without guest_mode: the values of a moment in the inner guest are not those of the next
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
    fn the_buffers_of_many_cpus_are_smaller() {
        assert_eq!([1, 8, 64, 256, 4096].map(buffer_kb), [2048, 2048, 1024, 256, 256]);
    }

    #[test]
    fn without_threads_every_process_would_be_traced() {
        let root = TempDir::new().unwrap();
        for event in EVENTS {
            put(&root, &format!("sys/kernel/tracing/events/kvm/{event}/id"), "1");
        }
        put(&root, "sys/kernel/tracing/instances/x", "");
        let error = KvmEvents::open(&System::at(root.path()), 7).unwrap_err();
        assert!(matches!(error, KvmError::Ended { pid: 7 }), "{error}");
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

    #[test]
    fn the_bar_is_the_first_resource() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.nvme_bar(0), None);
        let file = "sys/class/nvme/nvme0/device/resource";
        put(&root, file, "0x00000000febd4000 0x00000000febd7fff 0x140204\n0x0 0x0 0x0\n");
        assert_eq!(system.nvme_bar(0), Some([0xfebd_4000, 0xfebd_7fff]));
        put(&root, file, "0x0 0x0 0x0\n");
        assert_eq!(system.nvme_bar(0), None);
    }
}
