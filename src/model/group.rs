// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of commands: by the one who asks, or by another property.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Display;
use std::fmt::Formatter;
use std::str::FromStr;

use super::event::Submission;
use super::finished::Finished;
use super::row::row_nsid;
use crate::nvme::opcode::Opcode;

/// A property by which commands are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// The process that calls the driver.
    Process,
    /// The name of the thread that calls the driver.
    Comm,
    /// The CPU of the submission.
    Cpu,
    /// The queue.
    Queue,
    /// The bytes transferred, up to a power of two.
    Size,
    /// The controller and namespace.
    Disk,
    /// The opcode.
    Opcode,
}

/// All properties, with their names.
pub const KEYS: [(By, &str); 7] = [
    (By::Process, "process"),
    (By::Comm, "comm"),
    (By::Cpu, "cpu"),
    (By::Queue, "queue"),
    (By::Size, "size"),
    (By::Disk, "disk"),
    (By::Opcode, "opcode"),
];

impl By {
    /// Its name.
    pub fn name(self) -> &'static str {
        let found = KEYS.iter().find(|(by, _)| *by == self);
        found.map_or("", |(_, name)| name)
    }
}

impl Display for By {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text names no property.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no key: give some of {names}", names = KEYS.map(|(_, name)| name).join(", "))]
pub struct UnknownKey(String);

impl FromStr for By {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let found = KEYS.iter().find(|(_, name)| *name == text);
        found
            .map(|(by, _)| *by)
            .ok_or_else(|| UnknownKey(text.to_owned()))
    }
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// It was not observed: the kernel skipped the program at the set-up.
    Unknown,
    /// Process id.
    Process(u32),
    /// Name of a thread, padded with zeroes.
    Comm([u8; 16]),
    /// CPU.
    Cpu(u16),
    /// Controller instance and queue id.
    Queue(u32, u16),
    /// Exponent of two: the size is at most this power, and above the next smaller one. `None`: no data.
    Size(Option<u8>),
    /// Controller instance and namespace id.
    Disk(u32, u32),
    /// Opcode.
    Opcode(Opcode),
}

/// What the commands of a group have in common, in the order of the properties that were asked for.
/// Without any part: the groups that have no row of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub Vec<Part>);

impl Group {
    /// The groups that have no row of their own.
    pub const OTHER: Self = Self(Vec::new());

    /// Whether it stands for the groups without a row.
    pub const fn is_other(&self) -> bool {
        self.0.is_empty()
    }

    /// The group of a finished command of a recording.
    pub fn of(command: &Finished<'_>, by: &[By]) -> Self {
        Self(by.iter().map(|by| part(command, *by)).collect())
    }
}

/// The class of a size in bytes: [`Part::Size`].
pub const fn size_exponent(bytes: u32) -> Option<u8> {
    match bytes {
        0 => None,
        n => Some((u32::BITS - (n - 1).leading_zeros()) as u8),
    }
}

fn part(command: &Finished<'_>, by: By) -> Part {
    let Finished { id, submission, .. } = command;
    let caller = |of: fn(&Submission) -> Part| {
        submission
            .filter(|s| s.knows_submitter)
            .map_or(Part::Unknown, of)
    };
    match by {
        By::Process => caller(|s| Part::Process(s.pid)),
        By::Comm => caller(|s| Part::Comm(s.comm)),
        By::Cpu => caller(|s| Part::Cpu(s.cpu)),
        By::Queue => Part::Queue(id.ctrl, id.qid),
        By::Size => submission
            .and_then(|s| s.bytes)
            .map_or(Part::Unknown, |bytes| Part::Size(size_exponent(bytes))),
        By::Disk => Part::Disk(id.ctrl, row_nsid(id.nsid)),
        By::Opcode => Part::Opcode(id.opcode),
    }
}

/// Names of processes, as they were last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupNames {
    /// By process id: the name of a thread, padded with zeroes.
    pub processes: BTreeMap<u32, [u8; 16]>,
}

/// The bytes of a thread's name, without the padding.
pub fn comm_of(comm: &[u8; 16]) -> &[u8] {
    let end = comm.iter().position(|b| *b == 0);
    &comm[..end.unwrap_or(comm.len())]
}

impl GroupNames {
    /// The name of a process, if it is known and not hidden.
    pub fn comm(&self, pid: u32) -> Option<&[u8]> {
        let comm = self.processes.get(&pid).map(comm_of);
        comm.filter(|comm| !comm.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_name_that_is_parsed() {
        for (by, name) in KEYS {
            assert_eq!(by.to_string(), name);
            assert_eq!(name.parse::<By>().unwrap(), by);
        }
        let error = "pid".parse::<By>().unwrap_err().to_string();
        assert!(error.contains("process, comm, cpu"), "{error}");
    }

    #[test]
    fn sizes_are_classes_of_powers_of_two() {
        let of = |bytes| size_exponent(bytes);
        assert_eq!(of(0), None);
        assert_eq!(
            [1, 2, 512, 513, 4096, u32::MAX].map(of),
            [0, 1, 9, 10, 12, 32].map(Some)
        );
    }
}
