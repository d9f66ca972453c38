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

/// Capabilities that tracing needs and this process lacks, by name. Empty: may trace.
///
/// CAP_SYS_ADMIN stands in for both (capabilities(7)).
pub fn missing_capabilities() -> Vec<&'static str> {
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: [(u64, &str); 2] = [(1 << 38, "CAP_PERFMON"), (1 << 39, "CAP_BPF")];
    // Without proc nothing is known; the load will tell.
    let Ok(status) = Process::myself().and_then(|me| me.status()) else {
        return Vec::new();
    };
    if status.capeff & SYS_ADMIN != 0 {
        return Vec::new();
    }
    NEEDED
        .iter()
        .filter(|(bit, _)| status.capeff & bit == 0)
        .map(|&(_, name)| name)
        .collect()
}
