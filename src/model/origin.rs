// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command: its cgroup, and the submitter of its bio. Only runs that ask for it have it.

use super::group::{Owner, comm_text};
use super::text::Text;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

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

/// The bit of a word where the number begins: `ND_BIOS_SHIFT`.
pub(crate) const SHIFT: u32 = 48;

/// Bios of a command. In one word, because every event has room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bios(u64);

impl Bios {
    /// From the word of `nd_early_times`: the number, and below it the longest wait. Zero: not observed.
    pub const fn of_word(word: u64) -> Self {
        if word >> SHIFT == 0 {
            return Self(0);
        }
        Self(word)
    }

    /// The inverse of [`Bios::of_word`].
    pub const fn word(self) -> u64 {
        self.0
    }

    /// This number of bios. The longest wait is in nanoseconds, at most three days.
    pub const fn new(count: u16, longest_wait_ns: u64) -> Self {
        Self::of_word((count as u64) << SHIFT | (longest_wait_ns & ((1 << SHIFT) - 1)))
    }

    /// How many: at most 256 are counted. `None`: not observed.
    pub const fn count(self) -> Option<NonZeroU16> {
        NonZeroU16::new((self.0 >> SHIFT) as u16)
    }

    /// From the submission of the oldest to the end of the setup, in nanoseconds.
    pub const fn longest_wait_ns(self) -> Option<u64> {
        match self.count() {
            Some(_) => Some(self.0 & ((1 << SHIFT) - 1)),
            None => None,
        }
    }
}

/// Digits of an ID that suffice.
pub(crate) const MIN_DIGITS: usize = 8;
/// Digits of a whole ID.
const DIGITS: usize = 64;
/// The ID of the container whose cgroup has this name: the name itself (driver cgroupfs), or the last
/// part of a scope (driver systemd): `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`.
pub(crate) fn id_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (of, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // the cgroup of the process that watches the container
    let is_monitor = of.ends_with("conmon");
    let is_id = id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
    (is_id && !is_monitor).then_some(id)
}

/// The UID of the pod whose cgroup has this name, without dashes: `podUID` (driver cgroupfs), or
/// `kubepods-burstable-podUID.slice` (driver systemd).
pub(crate) fn pod_of(name: &str) -> Option<String> {
    let name = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit('-').next()?,
        None => name,
    };
    let uid = name.strip_prefix("pod")?.replace(['-', '_'], "");
    (uid.len() == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit())).then_some(uid)
}

/// Whether a cgroup is of the container whose ID begins with these digits, or of the pod with this UID.
pub(crate) fn is_of_container(path: &str, text: &str) -> bool {
    let digits = digits_of(text);
    // as while tracing: with the cgroups below it, which may belong to other containers
    let is_of = |name: &str| {
        id_of(name).is_some_and(|id| id.starts_with(&digits))
            || pod_of(name).is_some_and(|uid| uid == digits)
    };
    digits.len() >= MIN_DIGITS && path.split('/').any(is_of)
}

/// The digits of the ID of a container, or of the UID of a pod.
pub(crate) fn digits_of(text: &str) -> String {
    let digits = text.strip_prefix("pod").unwrap_or(text);
    digits.replace(['-', '_'], "").to_ascii_lowercase()
}

/// The UID of a pod with its dashes.
fn dashed(uid: &str) -> String {
    let ends = [8, 12, 16, 20, 32];
    let mut parts = Vec::new();
    let mut from = 0;
    for end in ends {
        parts.extend(uid.get(from..end));
        from = end;
    }
    parts.join("-")
}

/// The container and the pod that a cgroup belongs to, from its path.
pub(crate) fn owner(path: &str) -> Owner {
    let mut owner = Owner::default();
    for name in path.split('/') {
        if let Some(uid) = pod_of(name) {
            owner.pod = Some(dashed(&uid));
        }
        if let Some(id) = id_of(name) {
            owner.id = Some(id.to_owned());
        }
    }
    owner
}

/// The unit of systemd whose cgroup has this path: a service or a scope.
pub(crate) fn unit(path: &str) -> Option<&str> {
    let last = path.rsplit('/').next()?;
    let is_unit = last.ends_with(".service") || last.ends_with(".scope");
    is_unit.then_some(last)
}
