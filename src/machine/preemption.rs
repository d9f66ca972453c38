// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preemption mode of the running kernel, and what shows it. An unknown mode counts as full:
//! the programs then check more, and no time is wrong.

use super::{System, read_line};
use crate::probe::facts::{Preemption, PreemptionSource};

/// The kernel's variable with the current mode, where the mode can change. debugfs shows it too, but
/// not to users of a kernel with lockdown, nor in most containers.
pub const VARIABLE: &str = "preempt_dynamic_mode";

/// The mode that a value of [`VARIABLE`] stands for: none, voluntary, full, lazy (6.13).
pub const fn of_value(value: i32) -> Option<Preemption> {
    match value {
        0 | 1 => Some(Preemption::Voluntary),
        2 | 3 => Some(Preemption::Full),
        // -1 before the kernel has chosen one, and what later kernels may add
        _ => None,
    }
}

fn of_mode(mode: &str) -> Option<Preemption> {
    match mode {
        "none" | "voluntary" => Some(Preemption::Voluntary),
        "full" | "lazy" => Some(Preemption::Full),
        _ => None,
    }
}

/// The mode in parentheses.
fn marked(text: &str) -> Option<Preemption> {
    let (_, rest) = text.split_once('(')?;
    of_mode(rest.split_once(')')?.0)
}

/// The mode by `uname -v` and by debugfs (`none voluntary (full)`), which are empty if they cannot be
/// read.
fn classify(version: &str, debugfs: &str) -> (Preemption, PreemptionSource) {
    use PreemptionSource::{Debugfs, Unknown, Version};
    if version.contains("PREEMPT_RT") {
        return (Preemption::RealTime, Version);
    }
    if !version.is_empty() && !version.contains("PREEMPT_DYNAMIC") {
        // fixed by the build
        let mode = marked(version).unwrap_or_else(|| {
            match version.split_whitespace().any(|w| w == "PREEMPT") {
                true => Preemption::Full,
                false => Preemption::Voluntary,
            }
        });
        return (mode, Version);
    }
    marked(debugfs).map_or((Preemption::Full, Unknown), |mode| (mode, Debugfs))
}

impl System {
    /// The preemption mode, and what shows it. Kernels with PREEMPT_DYNAMIC choose the mode at boot,
    /// and debugfs can change it at any time.
    pub(super) fn preemption(&self) -> (Preemption, PreemptionSource) {
        let line = |path: &str| read_line(&self.path(path)).unwrap_or_default();
        classify(&line("proc/sys/kernel/version"), &line("sys/kernel/debug/sched/preempt"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    const DYNAMIC: &str = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";

    #[test]
    fn preemption_is_what_the_kernel_says_of_itself() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        for (version, want) in [
            ("#1 SMP Debian 5.10.262-1", Preemption::Voluntary),
            ("#1 SMP PREEMPT Ubuntu", Preemption::Full),
            ("#1 SMP PREEMPT(lazy) Debian 7.3.4", Preemption::Full),
            ("#1 SMP PREEMPT_RT Debian 6.1.176-1", Preemption::RealTime),
        ] {
            put(&root, "proc/sys/kernel/version", version);
            assert_eq!(system.preemption(), (want, PreemptionSource::Version), "{version}");
        }
        put(&root, "proc/sys/kernel/version", DYNAMIC);
        let debugfs = "sys/kernel/debug/sched/preempt";
        for (modes, want) in [
            ("none voluntary (full)", Preemption::Full),
            ("none voluntary full (lazy)", Preemption::Full),
            ("none (voluntary) full", Preemption::Voluntary),
        ] {
            put(&root, debugfs, modes);
            assert_eq!(system.preemption(), (want, PreemptionSource::Debugfs));
        }
    }

    #[test]
    fn an_unknown_mode_counts_as_full() {
        let unknown = (Preemption::Full, PreemptionSource::Unknown);
        assert_eq!(classify(DYNAMIC, ""), unknown);
        assert_eq!(classify(DYNAMIC, "(undefined)"), unknown);
        assert_eq!(classify("", ""), unknown);
        // the mode at boot, which may have changed since
        let root = TempDir::new().unwrap();
        put(&root, "proc/sys/kernel/version", DYNAMIC);
        put(&root, "proc/cmdline", "quiet preempt=none");
        assert_eq!(System::at(root.path()).preemption(), unknown);
    }

    #[test]
    fn the_kernels_variable_has_the_mode_unless_none_is_chosen() {
        let modes = [-1, 0, 1, 2, 3, 4].map(of_value);
        let (less, more) = (Some(Preemption::Voluntary), Some(Preemption::Full));
        assert_eq!(modes, [None, less, less, more, more, None]);
    }
}
