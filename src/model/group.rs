// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of commands: by the one who asks, or by another property.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

use super::event::Task;
use super::origin::{Cgroups, Who};
use super::text::{Text, escape};
use crate::model::event::Finished;
use crate::model::ids::row_nsid;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Sqe;
use crate::units::parse_size;

/// A property by which commands are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The process, as [`Who`] says.
    Process,
    /// The name of the thread.
    Comm,
    /// The cgroup.
    Cgroup,
    /// The container of that cgroup, or the pod.
    Container,
    /// The CPU of the submission.
    Cpu,
    /// The queue.
    Queue,
    /// The bytes transferred, in classes.
    Size(SizeLimits),
    /// The I/O priority.
    Priority,
    /// The controller and namespace.
    Disk,
    /// The opcode.
    Opcode,
    /// The flags of the entry ([`Flags`]). The kernel does not group by them.
    Flags,
}

/// All properties, with their names.
pub const KEYS: [(By, &str); 11] = [
    (By::Process, "process"),
    (By::Comm, "comm"),
    (By::Cgroup, "cgroup"),
    (By::Container, "container"),
    (By::Cpu, "cpu"),
    (By::Queue, "queue"),
    (By::Size(SizeLimits::EACH), "size"),
    (By::Priority, "priority"),
    (By::Disk, "disk"),
    (By::Opcode, "opcode"),
    (By::Flags, "flags"),
];

impl By {
    /// Its name.
    pub fn name(self) -> &'static str {
        let key = if let Self::Size(_) = self { Self::Size(SizeLimits::EACH) } else { self };
        let found = KEYS.iter().find(|(by, _)| *by == key);
        found.map_or("", |(_, name)| name)
    }

    /// Whether recordings have it.
    pub const fn is_recorded(self) -> bool {
        !matches!(self, Self::Priority)
    }

    /// Whether it is a cgroup, or the container of one.
    pub const fn is_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::Container)
    }

    /// Whether it is who asked for the command.
    pub const fn is_who(self) -> bool {
        matches!(self, Self::Process | Self::Comm) || self.is_cgroup()
    }
}

impl Display for By {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The upper limits of size classes: bit N is 2^N bytes. None: each power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeLimits(u64);

impl SizeLimits {
    /// A class for each power of two.
    pub const EACH: Self = Self(0);

    /// The class of this many bytes.
    pub const fn class(self, bytes: u32) -> KeyPart {
        let Some(exponent) = size_exponent(bytes) else {
            return KeyPart::Size(None);
        };
        match (self.0, self.0 >> exponent) {
            (0, _) => KeyPart::Size(Some(exponent)),
            (limits, 0) => KeyPart::SizeAbove(limits.ilog2() as u8),
            (_, above) => KeyPart::Size(Some(exponent + above.trailing_zeros() as u8)),
        }
    }
}

/// A word of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByWord {
    /// A key, with its first limit.
    Key(By),
    /// Another limit of the key before it.
    Limit(SizeLimits),
}

impl FromStr for ByWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(by) = text.parse() {
            return Ok(Self::Key(by));
        }
        let limit = text.strip_prefix("size=");
        let bytes = match parse_size(limit.unwrap_or(text)) {
            Err(error) if limit.is_some() => return Err(error),
            Err(_) => return text.parse().map(Self::Key).map_err(|e: UnknownKey| e.to_string()),
            Ok(bytes) => bytes,
        };
        if !bytes.is_power_of_two() || bytes > 1 << 31 {
            return Err(format!("`{text}` is no limit of a size: give a power of two (`16K`)"));
        }
        let limits = SizeLimits(bytes);
        Ok(limit.map_or(Self::Limit(limits), |_| Self::Key(By::Size(limits))))
    }
}

impl ByWord {
    /// The properties that these words name, each once.
    ///
    /// # Errors
    /// If a limit does not follow `size=`; one sentence.
    pub fn keys(words: &[Self]) -> Result<Vec<By>, String> {
        let mut keys: Vec<By> = Vec::new();
        let mut is_open = false;
        for word in words {
            match (*word, keys.last_mut()) {
                (Self::Limit(more), Some(By::Size(limits))) if is_open => limits.0 |= more.0,
                (Self::Limit(_), _) => {
                    return Err("--by: sizes follow `size=`: `--by size=16K,64K`".into());
                }
                (Self::Key(by), _) => {
                    is_open = matches!(by, By::Size(SizeLimits(limits)) if limits > 0);
                    match keys.iter().find(|key| key.name() == by.name()) {
                        None => keys.push(by),
                        Some(key) if *key == by => is_open = false,
                        Some(_) => return Err("--by: size is given twice".into()),
                    }
                }
            }
        }
        Ok(keys)
    }
}

/// A text names no property.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a key: choose from {names}, or sizes of your own: size=16K,64K",
    names = KEYS.map(|(_, name)| name).join(", ")
)]
pub struct UnknownKey(String);

impl FromStr for By {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let found = KEYS.iter().find(|(_, name)| *name == text);
        found.map(|(by, _)| *by).ok_or_else(|| UnknownKey(text.to_owned()))
    }
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// It was not observed: the kernel skipped the program at the setup.
    Unknown,
    /// Process id.
    Process(u32),
    /// Name of a thread, padded with zeroes.
    Comm([u8; 16]),
    /// Id of a cgroup in the kernel.
    Cgroup(u64),
    /// A container, a pod, or neither.
    Container(Owner),
    /// CPU.
    Cpu(u16),
    /// Controller instance and queue id.
    Queue(u32, u16),
    /// Exponent of two: the size is at most this power, and above the next smaller one. `None`: no data.
    Size(Option<u8>),
    /// Exponent of two: the size is above this power.
    SizeAbove(u8),
    /// The kernel's number: class and level.
    Priority(u16),
    /// Controller instance and namespace id.
    Disk(u32, u32),
    /// Opcode.
    Opcode(Opcode),
    /// Flags.
    Flags(Flags),
}

/// Flags of the entry of a read, write or the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags {
    /// Force Unit Access.
    pub fua: bool,
    /// Limited retry: the kernel gives up early (failfast, readahead).
    pub limited_retry: bool,
    /// Readahead: the kernel's hint that data may be read soon.
    pub readahead: bool,
}

impl Flags {
    fn of(opcode: Opcode, sqe: &Sqe) -> Self {
        /// Write, read, compare, write zeroes, zone append.
        const WITH_FLAGS: [u8; 5] = [1, 2, 5, 8, 0x7d];
        /// NVME_RW_DSM_FREQ_PREFETCH
        const PREFETCH: u32 = 7;
        if opcode.queue != QueueKind::Io || !WITH_FLAGS.contains(&opcode.code) {
            return Self::default();
        }
        Self {
            fua: sqe.cdw(12) & 1 << 30 != 0,
            limited_retry: sqe.cdw(12) & 1 << 31 != 0,
            readahead: opcode.code == 2 && sqe.cdw(13) & 0xf == PREFETCH,
        }
    }

    /// The names of those that are set.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (self.fua, "fua"),
            (self.readahead, "readahead"),
            (self.limited_retry, "limited_retry"),
        ];
        all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
    }
}

/// The container and the pod that a cgroup belongs to, as its path names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// UID of the pod, with its dashes.
    pub pod: Option<String>,
    /// ID of the container: 64 digits.
    pub id: Option<String>,
}

/// What the commands of a group have in common, in the order of the properties that were asked for.
/// Without any part: the groups that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub Vec<KeyPart>);

impl Group {
    /// The groups that have no row of their own.
    pub const OTHER: Self = Self(Vec::new());

    /// Whether it stands for the groups without a row.
    pub const fn is_other(&self) -> bool {
        self.0.is_empty()
    }

    /// The group of a finished command of a recording.
    pub fn of(command: &Finished<'_>, by: &[By], who: Who) -> Self {
        Self(by.iter().map(|by| part(command, *by, who)).collect())
    }
}

/// The class of a size in bytes: [`KeyPart::Size`].
pub const fn size_exponent(bytes: u32) -> Option<u8> {
    match bytes {
        0 => None,
        n => Some((u32::BITS - (n - 1).leading_zeros()) as u8),
    }
}

fn part(command: &Finished<'_>, by: By, who: Who) -> KeyPart {
    let Finished { id, submission, .. } = command;
    let of_task = |of: fn(Task) -> KeyPart| {
        submission.and_then(|s| s.task(id.opcode, who)).map_or(KeyPart::Unknown, of)
    };
    match by {
        By::Process => of_task(|task| KeyPart::Process(task.pid)),
        By::Comm => of_task(|task| KeyPart::Comm(task.comm)),
        By::Cgroup | By::Container => of_task(|task| match task.cgroup {
            0 => KeyPart::Unknown,
            id => KeyPart::Cgroup(id),
        }),
        By::Cpu => submission
            .filter(|s| s.knows_submitter)
            .map_or(KeyPart::Unknown, |s| KeyPart::Cpu(s.cpu)),
        By::Queue => KeyPart::Queue(id.ctrl, id.qid),
        By::Size(limits) => {
            submission.and_then(|s| s.bytes).map_or(KeyPart::Unknown, |bytes| limits.class(bytes))
        }
        By::Disk => KeyPart::Disk(id.ctrl, row_nsid(id.nsid)),
        By::Opcode => KeyPart::Opcode(id.opcode),
        By::Flags => submission
            .filter(|s| s.sqe.has_dwords())
            .map_or(KeyPart::Unknown, |s| KeyPart::Flags(Flags::of(id.opcode, &s.sqe))),
        By::Priority => KeyPart::Unknown,
    }
}

/// Names of processes and cgroups, as they were last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupNames {
    /// By process id: the name of a thread, padded with zeroes.
    pub processes: BTreeMap<u32, [u8; 16]>,
    /// By the id in the kernel: the path below the mount point, which begins with a slash.
    pub cgroups: Cgroups,
    /// Names of containers by ID, and of pods by UID.
    pub containers: BTreeMap<String, Text>,
}

/// The bytes of a thread's name, without the padding.
pub fn comm_of(comm: &[u8; 16]) -> &[u8] {
    let end = comm.iter().position(|b| *b == 0);
    &comm[..end.unwrap_or(comm.len())]
}

/// A thread's name, escaped.
pub fn comm_text(comm: &[u8; 16]) -> Cow<'_, str> {
    escape(comm_of(comm))
}

impl GroupNames {
    /// The name of a process, if it is known and not hidden.
    pub fn comm(&self, pid: u32) -> Option<Cow<'_, str>> {
        let comm = self.processes.get(&pid).map(comm_text);
        comm.filter(|comm| !comm.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::sqe::Parts;

    #[test]
    fn flags_are_of_reads_and_writes() {
        for (code, cdw12, cdw13, names) in [
            (1, 1 << 30 | 7, 0, "fua"),
            (2, 1 << 31, 7, "readahead limited_retry"),
            (2, 7, 0, ""),
            // in Dataset Management the dword has other bits
            (9, 1 << 30, 7, ""),
        ] {
            let cdw = [0, 0, cdw12, cdw13, 0, 0];
            let sqe = Sqe::from(Parts { opcode: code, cdw, ..Parts::default() });
            let opcode = Opcode { queue: QueueKind::Io, code };
            assert_eq!(Flags::of(opcode, &sqe).names().join(" "), names);
        }
    }
}
