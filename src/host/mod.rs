//! What the machine says about itself: read-only, below a root that tests replace by a fixture.

pub mod btf;
pub mod sysfs;

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use procfs::process::Process;

/// A machine, seen from a root directory.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// The machine whose files are below `root` (`/`, or a fixture).
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of a file of this machine, given without the leading slash.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// `uname -r`, or a question mark where proc is not mounted.
    pub fn release(&self) -> String {
        read_line(&self.path("proc/sys/kernel/osrelease")).unwrap_or_else(|| "?".into())
    }
}

/// The first line of a small file, trimmed. `None` if it can't be read or is empty.
fn read_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// The effective capabilities of this process; all where proc can't tell (the load will).
fn capabilities() -> u64 {
    Process::myself()
        .and_then(|me| me.status())
        .map_or(u64::MAX, |status| status.capeff)
}

/// Capabilities that tracing needs and this process lacks, by name. Empty: may trace.
///
/// CAP_SYS_ADMIN stands in for both (capabilities(7)).
pub fn missing_capabilities() -> Vec<&'static str> {
    let have = capabilities();
    if have & CAP_SYS_ADMIN != 0 {
        return Vec::new();
    }
    let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")];
    needed
        .iter()
        .filter(|(bit, _)| have & bit == 0)
        .map(|&(_, name)| name)
        .collect()
}

/// Whether the kernel lets this process look up the BTF of modules (bpf_btf_get_fd_by_id).
pub fn may_read_module_btf() -> bool {
    capabilities() & CAP_SYS_ADMIN != 0
}
