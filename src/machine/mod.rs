// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads facts about the machine. Read-only, below a root directory that tests replace with a
//! fixture.

mod admin;
pub mod btf;
pub mod cgroups;
pub mod clock;
pub mod code;
pub mod disk;
pub mod elf;
pub mod hypervisor;
pub mod inflight;
pub mod io_control;
pub mod kallsyms;
pub mod kernel;
pub mod nvme;
pub mod overview;
pub mod process;
pub mod reduced;
pub mod sysfs;
pub mod targets;
pub mod tracefs;
pub mod types;
pub mod watch;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::id as own_id;
use std::str::FromStr;

use procfs::process::Process;

use crate::model::text::Text;
use overview::{Capability, Privileges};

/// A machine, given by its root directory.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// Returns the machine with its files below `root` (`/`, or a fixture).
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file of this machine. `relative` has no leading slash.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// `uname -r`, or `?` if /proc is not mounted.
    pub fn release(&self) -> String {
        read_line(&self.path("proc/sys/kernel/osrelease")).unwrap_or_else(|| "?".into())
    }

    fn text(&self, path: &str) -> Option<String> {
        read_line(&self.path(path))
    }

    fn device_text(&self, path: &str) -> Option<Text> {
        read_device_line(&self.path(path))
    }

    fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Whether a file system of this type is mounted; `None` if /proc/mounts cannot be read.
    fn mounted(&self, kind: &str) -> Option<bool> {
        let mounts = fs::read_to_string(self.path("proc/mounts")).ok()?;
        Some(mounts.lines().any(|l| l.split_whitespace().nth(2) == Some(kind)))
    }
}

impl System {
    /// A number that identifies a loaded module until it is unloaded: the inode of its sysfs
    /// directory. `None` if there is no such directory.
    pub fn module_identity(&self, module: &str) -> Option<u64> {
        let at = self.path("sys/module").join(module);
        Some(fs::metadata(at).ok()?.ino())
    }
}

/// The inode of the initial PID namespace (PROC_PID_INIT_INO).
const INITIAL_PIDS: u64 = 0xeffffffc;

/// The id of this process as programs in the kernel read it. `None` in a PID namespace other than
/// the initial one: the process has another id there.
pub fn own_tgid() -> Option<u32> {
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    (namespace == INITIAL_PIDS).then(own_id)
}

/// The first line of a small file, trimmed. `None` if it cannot be read or is empty.
fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The same, of a file with text that a device chooses.
fn read_device_line(path: &Path) -> Option<Text> {
    let bytes = fs::read(path).ok()?;
    let line = bytes.split(|b| *b == b'\n').next()?.trim_ascii();
    (!line.is_empty()).then(|| Text::from_bytes(line))
}

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// The effective capabilities of this process. If /proc cannot be read: all of them, because the
/// load then reports a missing one.
fn capabilities() -> u64 {
    Process::myself().and_then(|me| me.status()).map_or(u64::MAX, |status| status.capeff)
}

/// Names of the capabilities that tracing needs and this process lacks. Empty if it may trace.
///
/// CAP_SYS_ADMIN replaces both (capabilities(7)).
pub fn missing_capabilities() -> Vec<&'static str> {
    let have = capabilities();
    if have & CAP_SYS_ADMIN != 0 {
        return Vec::new();
    }
    let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    needed.iter().filter(|(bit, _)| have & bit == 0).map(|&(_, name)| name).collect()
}

/// Capabilities that matter here, by number (capabilities(7)) and name.
const CAPABILITIES: [(u32, &str); 6] = [
    (21, "CAP_SYS_ADMIN"),
    (39, "CAP_BPF"),
    (38, "CAP_PERFMON"),
    (34, "CAP_SYSLOG"),
    (24, "CAP_SYS_RESOURCE"),
    (2, "CAP_DAC_READ_SEARCH"),
];

/// What this process may do; `None` if /proc cannot be read.
fn privileges() -> Option<Privileges> {
    let status = Process::myself().and_then(|me| me.status()).ok()?;
    Some(privileges_of(status.euid, status.capeff))
}

fn privileges_of(uid: u32, effective: u64) -> Privileges {
    let capabilities = CAPABILITIES
        .iter()
        .map(|&(bit, name)| Capability { name, held: effective & (1 << bit) != 0 })
        .collect();
    Privileges { uid, capabilities }
}

/// Whether this process may look up the BTF of modules (bpf_btf_get_fd_by_id).
pub fn may_read_module_btf() -> bool {
    capabilities() & CAP_SYS_ADMIN != 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::ops::Deref;
    use tempfile::TempDir;

    /// A machine that is made of files.
    pub struct TestMachine {
        system: System,
        _dir: TempDir,
    }

    impl TestMachine {
        /// A machine with these files.
        pub fn new(files: &[(&str, &str)]) -> Self {
            let dir = TempDir::new().unwrap();
            let machine = Self { system: System::at(dir.path()), _dir: dir };
            files.iter().for_each(|(path, text)| machine.put(path, text));
            machine
        }

        /// Writes a file.
        pub fn put(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Deref for TestMachine {
        type Target = System;

        fn deref(&self) -> &System {
            &self.system
        }
    }

    #[test]
    fn a_file_without_a_line_that_makes_sense_gives_nothing() {
        let machine = TestMachine::new(&[
            ("number", " -7 \nmore\n"),
            ("empty", "\n"),
            ("model", "\u{1b}[2Jdisk"),
        ]);
        assert_eq!(machine.number::<i64>("number"), Some(-7));
        assert_eq!(machine.number::<u32>("number"), None);
        assert_eq!((machine.text("empty"), machine.text("none")), (None, None));
        assert_eq!(machine.device_text("model").unwrap().as_str(), "\\u{1b}[2Jdisk");
    }

    #[test]
    fn a_mount_is_known_by_its_type_and_unknown_without_proc() {
        let machine = TestMachine::new(&[]);
        assert_eq!(machine.mounted("tracefs"), None);
        machine.put("proc/mounts", "tracefs /x debugfs rw 0 0\n");
        assert_eq!(machine.mounted("tracefs"), Some(false));
        assert_eq!(machine.mounted("debugfs"), Some(true));
    }
}
