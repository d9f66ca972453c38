// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command: its cgroup, and the submitter of its bio. Only runs that ask for it have it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::group::comm_text;
use super::text::Text;

/// Paths of cgroups by the id in the kernel: below the mount point, beginning with a slash.
pub type Cgroups = BTreeMap<u64, Text>;

/// The task that submitted the bio of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Submitter {
    /// Process id.
    pub pid: u32,
    /// Thread id; 0: the submitter is not known.
    pub tid: u32,
    /// The thread's name, padded with zeroes.
    pub comm: [u8; 16],
    /// The id of the cgroup that the kernel charges; if that is the task's, the cgroup of the task.
    pub cgroup: u64,
}

impl Submitter {
    /// Whether it is known.
    pub const fn is_known(&self) -> bool {
        self.tid != 0
    }

    /// The thread's name, escaped.
    pub fn comm(&self) -> Cow<'_, str> {
        comm_text(&self.comm)
    }
}

/// Whose process and cgroup a command counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The task that submitted its bio. A command without a bio has the task that calls the driver.
    Submitter,
    /// The task that calls the driver, and the cgroup of the bio if that can be read.
    #[default]
    Caller,
}

impl Who {
    /// Of a run that observes the submitters of bios, or not.
    pub const fn of(submitters: bool) -> Self {
        if submitters { Self::Submitter } else { Self::Caller }
    }

    /// What a report says about it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Submitter => "process = submitter",
            Self::Caller => "process = caller of the driver",
        }
    }
}

/// Who caused a command. Ids of cgroups that are zero are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The cgroup of the task that calls the driver.
    pub task_cgroup: u64,
    /// The cgroup that caused the I/O.
    pub io_cgroup: u64,
    /// The task that submitted the bio.
    pub submitter: Submitter,
}

impl Origin {
    /// Whether anything is known.
    #[inline]
    pub const fn is_some(&self) -> bool {
        (self.task_cgroup | self.io_cgroup) != 0 || self.submitter.is_known()
    }

    /// The ids of its cgroups, without those that are not known.
    pub fn cgroups(&self) -> impl Iterator<Item = u64> + use<> {
        let all = [self.task_cgroup, self.io_cgroup, self.submitter.cgroup];
        all.into_iter().filter(|id| *id != 0)
    }
}

/// Whether a cgroup is the one with this path, or below it.
pub fn is_within(path: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_within_itself_and_those_above() {
        assert!(is_within("/a/b", "/a/b") && is_within("/a/b", "/a/") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/a", "/a/b"));
    }

    #[test]
    fn an_origin_of_zeroes_is_none() {
        assert!(!Origin::default().is_some());
        let some = Origin { io_cgroup: 7, ..Origin::default() };
        assert!(some.is_some());
        assert_eq!(some.cgroups().collect::<Vec<_>>(), [7]);
    }
}
