// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command, as parts of its event: the numbers from 32 on. Zero is not known, and not
//! stored.

use std::array;

use crate::model::origin::{Origin, Submitter};

/// The number of the first part.
const FIRST: u8 = 32;
/// Cgroups of the caller, of the I/O and of the submission; process and thread id; the name.
const PARTS: usize = 6;

/// Whether a part is one of these.
pub const fn is_origin(number: u8) -> bool {
    number >= FIRST && number < FIRST + PARTS as u8
}

/// The parts that are not zero, with their numbers.
pub fn parts(origin: &Origin) -> impl Iterator<Item = (u8, u64)> {
    let Submitter { pid, tid, comm, cgroup } = origin.submitter;
    let name = u128::from_le_bytes(comm);
    let all: [u64; PARTS] = [
        origin.task_cgroup,
        origin.io_cgroup,
        cgroup,
        u64::from(pid) | u64::from(tid) << 32,
        name as u64,
        (name >> 64) as u64,
    ];
    (FIRST..).zip(all).filter(|(_, value)| *value != 0)
}

/// The inverse of [`parts`].
pub fn origin(value: impl Fn(u8) -> u64) -> Origin {
    let [task_cgroup, io_cgroup, cgroup, ids, low, high]: [u64; PARTS] =
        array::from_fn(|n| value(FIRST + n as u8));
    let name = u128::from(low) | u128::from(high) << 64;
    Origin {
        task_cgroup,
        io_cgroup,
        submitter: Submitter {
            pid: ids as u32,
            tid: (ids >> 32) as u32,
            comm: name.to_le_bytes(),
            cgroup,
        },
    }
}
