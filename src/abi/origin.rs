// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command: the last part of the records of runs that observe it.

use super::read;
use super::records::{RawOrigin, RawSubmission, known};
use crate::model::origin::{Origin, Submitter};

/// A name that the BPF side keeps in two words.
pub(super) fn name_of([low, high]: [u64; 2]) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&low.to_ne_bytes());
    comm[8..].copy_from_slice(&high.to_ne_bytes());
    comm
}

impl RawSubmission {
    /// Whether the record ends with who caused the command.
    #[inline]
    pub(crate) const fn has_origin(&self) -> bool {
        self.known & known::ORIGIN != 0
    }
}

impl RawOrigin {
    /// The same in the terms of the model.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            task_cgroup: self.task_cgroup,
            io_cgroup: self.io_cgroup,
            submitter: Submitter {
                pid: self.tgid,
                tid: self.tid,
                comm: name_of(self.comm),
                cgroup: self.cgroup,
            },
        }
    }
}

/// Splits a record with this submission into what other runs have, and who caused the command.
pub(super) fn split<'b>(bytes: &'b [u8], submission: &RawSubmission) -> (&'b [u8], Origin) {
    let none = (bytes, Origin::default());
    if !submission.has_origin() {
        return none;
    }
    let split = bytes.split_last_chunk::<{ size_of::<RawOrigin>() }>();
    split.map_or(none, |(rest, last)| {
        let origin = read::<RawOrigin>(last);
        (rest, origin.map(|o| o.origin()).unwrap_or_default())
    })
}
