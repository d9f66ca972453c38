// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who caused a command: the last part of the records of runs that observe it.

use bytemuck::{AnyBitPattern, Zeroable};

use super::read;
use super::skel::types::{
    nd_known, nd_origin, nd_size, nd_submission, nd_submitter, nd_submitter_limit,
};
use crate::model::origin::{Origin, Submitter};

/// Bytes of a slot of a trace that observes who caused each command.
pub const SLOT_ORIGIN: usize = nd_size::ND_SLOT_ORIGIN.0 as usize;
/// Bytes of the submitter of a bio, and of its address.
pub const SUBMITTER_BYTES: usize = size_of::<nd_submitter>() + 8;
/// Bios between their submission and their end.
pub const SUBMITTERS: u32 = nd_submitter_limit::ND_SUBMITTERS.0;

// SAFETY: a `repr(C)` struct of fixed-width integers and an array of them, without padding (asserted
// in trace_abi.h): any bit pattern is valid.
unsafe impl AnyBitPattern for nd_origin {}
// SAFETY: zero bits are a valid value of each of its integers.
unsafe impl Zeroable for nd_origin {}

const KNOWN: u32 = nd_known::ND_KNOWN_ORIGIN.0;

/// A name that the BPF side keeps in two words.
pub(super) fn name_of([low, high]: [u64; 2]) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&low.to_ne_bytes());
    comm[8..].copy_from_slice(&high.to_ne_bytes());
    comm
}

impl nd_submission {
    /// Whether the record ends with who caused the command.
    #[inline]
    pub(crate) const fn has_origin(&self) -> bool {
        self.known & KNOWN != 0
    }
}

impl nd_origin {
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
pub(super) fn split<'b>(bytes: &'b [u8], submission: &nd_submission) -> (&'b [u8], Origin) {
    let none = (bytes, Origin::default());
    if !submission.has_origin() {
        return none;
    }
    let split = bytes.split_last_chunk::<{ size_of::<nd_origin>() }>();
    split.map_or(none, |(rest, last)| {
        let origin = read::<nd_origin>(last);
        (rest, origin.map(|o| o.origin()).unwrap_or_default())
    })
}
