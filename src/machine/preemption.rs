// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preemption mode of the running kernel, and what shows it. An unknown mode counts as full:
//! the programs then check more, and no time is wrong.

use std::path::Path;
use std::ptr::null_mut;

use super::System;
use super::read_line;
use crate::probe::facts::Lockdown;
use crate::probe::facts::Preemption;
use crate::probe::facts::PreemptionSource;

/// The beginning of the line that the kernel logs when it sets the mode, at boot or later.
const LOGGED: &str = "Dynamic Preempt: ";

/// Actions of syslog(2).
const READ_ALL: i32 = 3;
const BUFFER_SIZE: i32 = 10;

/// Larger logs are not read completely: their end has the last change.
const MAX_LOG: i32 = 16 << 20;

/// The texts that may show the mode. Empty if they cannot be read.
#[derive(Default)]
struct Texts {
    /// `uname -v`
    version: String,
    /// As in `none voluntary (full)`.
    debugfs: String,
    /// The mode that the kernel logged last.
    logged: Option<String>,
    /// The command line of the kernel.
    boot: String,
    lockdown: Lockdown,
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

/// The mode in a line of syslog(2), if the kernel itself logged it. Lines of user space have a
/// priority of 8 or more. The time may be missing (`printk.time=0`).
fn mode_in(line: &str) -> Option<&str> {
    let (priority, text) = line.strip_prefix('<')?.split_once('>')?;
    if priority.parse::<u32>().ok()? >= 8 {
        return None;
    }
    let untimed = text.strip_prefix('[').and_then(|t| t.split_once("] "));
    let text = untimed.map_or(text, |(_, text)| text);
    text.strip_prefix(LOGGED).map(str::trim)
}

/// The mode that the kernel set last. A line that the log has dropped is older than all that are
/// left, so the last line is the current mode.
fn last_logged(log: &str) -> Option<String> {
    log.lines().rev().find_map(mode_in).map(str::to_owned)
}

/// The log of the kernel. `None` without CAP_SYSLOG, unless `kernel.dmesg_restrict` is 0.
fn kernel_log() -> Option<String> {
    // SAFETY: this action ignores the buffer
    let size = unsafe { libc::klogctl(BUFFER_SIZE, null_mut(), 0) };
    let size = size.clamp(0, MAX_LOG);
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    // SAFETY: `bytes` has `size` bytes, and the call writes no more
    let read = unsafe { libc::klogctl(READ_ALL, bytes.as_mut_ptr().cast(), size) };
    bytes.truncate(usize::try_from(read).ok()?);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether nothing could change the mode after the boot: debugfs was never accessible. A kernel
/// without lockdown ignores its word, so the lockdown must be visible, too.
fn is_fixed(boot: &str, lockdown: Lockdown) -> bool {
    boot.split_whitespace().any(|word| match word {
        "debugfs=off" | "debugfs=no-mount" => true,
        "lockdown=integrity" | "lockdown=confidentiality" => lockdown >= Lockdown::Integrity,
        _ => false,
    })
}

impl Texts {
    /// The mode at boot, if it is certain that it is the current one, or no less preemptible.
    fn by_boot(&self) -> Option<Preemption> {
        let words = self.boot.split_whitespace();
        let last = words.filter_map(|w| w.strip_prefix("preempt=")).next_back();
        let mode = last.and_then(of_mode)?;
        (mode == Preemption::Full || is_fixed(&self.boot, self.lockdown)).then_some(mode)
    }

    fn classify(&self) -> (Preemption, PreemptionSource) {
        use PreemptionSource::{CommandLine, Debugfs, Log, Unknown, Version};
        if self.version.contains("PREEMPT_RT") {
            return (Preemption::RealTime, Version);
        }
        if !self.version.is_empty() && !self.version.contains("PREEMPT_DYNAMIC") {
            // fixed by the build
            let mode = marked(&self.version).unwrap_or_else(|| {
                match self.version.split_whitespace().any(|w| w == "PREEMPT") {
                    true => Preemption::Full,
                    false => Preemption::Voluntary,
                }
            });
            return (mode, Version);
        }
        let logged = self.logged.as_deref().and_then(of_mode);
        let by = |mode: Option<Preemption>, source| mode.map(|mode| (mode, source));
        by(marked(&self.debugfs), Debugfs)
            .or_else(|| by(logged, Log))
            .or_else(|| by(self.by_boot(), CommandLine))
            .unwrap_or((Preemption::Full, Unknown))
    }
}

impl System {
    /// The preemption mode, and what shows it. Kernels with PREEMPT_DYNAMIC choose the mode at boot,
    /// and debugfs can change it at any time.
    pub(super) fn preemption(&self) -> (Preemption, PreemptionSource) {
        let line = |path: &str| read_line(&self.path(path)).unwrap_or_default();
        let mut texts = Texts {
            version: line("proc/sys/kernel/version"),
            debugfs: line("sys/kernel/debug/sched/preempt"),
            boot: line("proc/cmdline"),
            lockdown: self.lockdown_level(),
            ..Texts::default()
        };
        // the log is that of this machine
        let here = self.path("") == Path::new("/");
        if here && texts.classify().1 != PreemptionSource::Debugfs {
            texts.logged = kernel_log().as_deref().and_then(last_logged);
        }
        texts.classify()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    const DYNAMIC: &str = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1";

    fn dynamic(debugfs: &str, logged: Option<&str>, boot: &str) -> (Preemption, PreemptionSource) {
        let texts = Texts {
            version: DYNAMIC.into(),
            debugfs: debugfs.into(),
            logged: logged.map(str::to_owned),
            boot: boot.into(),
            lockdown: Lockdown::Integrity,
        };
        texts.classify()
    }

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
            assert_eq!(
                system.preemption(),
                (want, PreemptionSource::Version),
                "{version}"
            );
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
        // debugfs shows the current mode, the command line that of the boot
        put(&root, "proc/cmdline", "quiet preempt=full");
        assert_eq!(system.preemption().0, Preemption::Voluntary);
    }

    #[test]
    fn an_unknown_mode_counts_as_full() {
        let unknown = (Preemption::Full, PreemptionSource::Unknown);
        assert_eq!(dynamic("", None, "quiet"), unknown);
        assert_eq!(dynamic("(undefined)", Some("?"), ""), unknown);
        assert_eq!(Texts::default().classify(), unknown);
        let root = TempDir::new().unwrap();
        put(&root, "proc/sys/kernel/version", DYNAMIC);
        assert_eq!(System::at(root.path()).preemption(), unknown);
    }

    #[test]
    fn the_command_line_counts_if_nothing_could_change_the_mode_since() {
        use PreemptionSource::{CommandLine, Unknown};
        let by_boot = |boot: &str| dynamic("", None, boot);
        for boot in [
            "preempt=full",
            "quiet preempt=lazy ro",
            "preempt=none preempt=full",
        ] {
            assert_eq!(by_boot(boot), (Preemption::Full, CommandLine), "{boot}");
        }
        for boot in [
            "preempt=voluntary",
            "preempt=none debugfs=on",
            "preempt=auto",
        ] {
            assert_eq!(by_boot(boot), (Preemption::Full, Unknown), "{boot}");
        }
        for boot in [
            "preempt=none debugfs=off",
            "debugfs=no-mount preempt=voluntary",
            "preempt=none lockdown=integrity",
        ] {
            assert_eq!(
                by_boot(boot),
                (Preemption::Voluntary, CommandLine),
                "{boot}"
            );
        }
        // a kernel without lockdown ignores the word
        let texts = Texts {
            version: DYNAMIC.into(),
            boot: "preempt=none lockdown=integrity".into(),
            ..Texts::default()
        };
        assert_eq!(texts.classify(), (Preemption::Full, Unknown));
    }

    #[test]
    fn the_log_has_the_current_mode_in_its_last_line_of_the_kernel() {
        let log = "<6>[    0.239687] Dynamic Preempt: voluntary\n\
                   <6>[   19.000001] Dynamic Preempt: full\n\
                   <12>[   20.000002] Dynamic Preempt: none\n\
                   <6>[   21.000003] nvme nvme0: Dynamic Preempt: none\n\
                   <12>[   22.000004] <6>[   22.000000] Dynamic Preempt: none\n";
        assert_eq!(last_logged(log).as_deref(), Some("full"));
        assert_eq!(
            last_logged("<6>Dynamic Preempt: lazy\n").as_deref(),
            Some("lazy")
        );
        assert_eq!(last_logged("<6>[ 1.0] booted\n<x\n\n"), None);
        let logged = |mode| dynamic("", Some(mode), "preempt=full");
        assert_eq!(
            logged("voluntary"),
            (Preemption::Voluntary, PreemptionSource::Log)
        );
        assert_eq!(logged("lazy"), (Preemption::Full, PreemptionSource::Log));
    }
}
