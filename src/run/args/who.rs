// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused each command.

use crate::settings::Who;

/// Who caused each command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WhoArgs {
    /// Also observe the cgroup that caused each command
    ///
    /// For --by cgroup, --by container, --cgroup and --container of recordings. Recordings do so by
    /// themselves, and show what they have.
    #[arg(long, hide_short_help = true)]
    pub cgroups: bool,

    /// Also observe the submitter of each command: process, thread and cgroup
    ///
    /// The task that submitted the bio. The one that calls the driver may be a kernel thread, behind an
    /// I/O scheduler. For writeback the cgroup is that of the one that wrote. With --cgroups.
    #[arg(long, hide_short_help = true)]
    pub submitters: bool,
}

impl WhoArgs {
    /// What is observed.
    pub const fn who(self) -> Who {
        match (self.cgroups, self.submitters) {
            (_, true) => Who::Submitters,
            (true, false) => Who::Cgroups,
            (false, false) => Who::Nobody,
        }
    }
}
