// SPDX-License-Identifier: MIT OR Apache-2.0
//! What many rows of a block share, stored once per block: the shape of a command, the submitting
//! thread, the outcome. Each is some words; equal entries have equal words.

use super::row::kind;
use crate::model::conditions::Conditions;
use crate::model::event::{CompletionStatus, Submission};
use crate::model::point::Pattern;
use crate::nvme::status::Status;

/// An entry of a dictionary.
pub type Words<const N: usize> = [u64; N];

/// Words of a shape.
pub const SHAPE: usize = 5;
/// Words of a thread.
pub const TASK: usize = 3;
/// Words of an outcome.
pub const OUTCOME: usize = 2;

/// The properties of a command that many commands share.
///
/// The first word holds from its lowest byte on: the kind of the row, what is known (bits), the
/// opcode, the queue (1: admin), bits 15:8 of CDW0, whether there is metadata, and in two bytes the
/// pattern of points. Then: controller and namespace id; bytes and CDW12; CDW13 and CDW14; CDW15 and
/// bits 31:16 of the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub kind: u8,
    pub known: u8,
    pub opcode: u8,
    pub admin: bool,
    pub flags: u8,
    pub metadata: bool,
    pub pattern: Pattern,
    pub ctrl: u32,
    pub nsid: u32,
    pub bytes: u32,
    pub cdw: [u32; 4],
}

/// Two numbers in a word.
pub const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl Shape {
    #[inline(always)]
    pub const fn words(&self) -> Words<SHAPE> {
        let first = self.kind as u64
            | (self.known as u64) << 8
            | (self.opcode as u64) << 16
            | (self.admin as u64) << 24
            | (self.flags as u64) << 32
            | (self.metadata as u64) << 40
            | (self.pattern as u16 as u64) << 48;
        let [a, b, c, d] = self.cdw;
        [
            first,
            pair(self.ctrl, self.nsid),
            pair(self.bytes, a),
            pair(b, c),
            pair(d, self.pattern >> 16),
        ]
    }

    /// The inverse of `words`; `None` if the kind is not one of this version.
    pub fn of(words: &Words<SHAPE>) -> Option<Self> {
        let [first, second, third, fourth, fifth] = *words;
        let [kind, known, opcode, admin, flags, metadata, low, high] = first.to_le_bytes();
        let high_of = |word: u64| (word >> 32) as u32;
        matches!(kind, kind::SUBMIT..=kind::STATE).then_some(Self {
            kind,
            known,
            opcode,
            admin: admin != 0,
            flags,
            metadata: metadata != 0,
            pattern: Pattern::from_le_bytes([low, high, 0, 0]) | high_of(fifth) << 16,
            ctrl: second as u32,
            nsid: high_of(second),
            bytes: third as u32,
            cdw: [high_of(third), fourth as u32, high_of(fourth), fifth as u32],
        })
    }

    /// Whether this bit of `known` is set.
    pub const fn has(&self, bit: u8) -> bool {
        self.known & bit != 0
    }
}

/// The words of a submitter: process and thread id, and the name.
#[inline(always)]
pub fn task(submission: &Submission) -> Words<TASK> {
    let name = u128::from_le_bytes(submission.comm);
    [pair(submission.pid, submission.tid), name as u64, (name >> 64) as u64]
}

/// The inverse of [`task`]: process, thread, name.
pub const fn submitter([ids, low, high]: Words<TASK>) -> (u32, u32, [u8; 16]) {
    let name = low as u128 | (high as u128) << 64;
    (ids as u32, (ids >> 32) as u32, name.to_le_bytes())
}

/// The words of an outcome: the result; status, retries, flags, and the bits of the conditions.
#[inline(always)]
pub fn outcome(verdict: Option<&CompletionStatus>, conditions: Conditions) -> Words<OUTCOME> {
    let bits = u64::from(conditions.bits()) << 32;
    verdict.map_or([0, bits], |verdict| {
        let rest = u64::from(verdict.status.0)
            | u64::from(verdict.retries) << 16
            | u64::from(verdict.flags) << 24;
        [verdict.result, rest | bits]
    })
}

/// The conditions in the words of an outcome.
pub const fn conditions([_, rest]: Words<OUTCOME>) -> Conditions {
    Conditions::from_bits((rest >> 32) as u8)
}

/// The inverse of [`outcome`].
pub const fn verdict([result, rest]: Words<OUTCOME>) -> CompletionStatus {
    CompletionStatus {
        result,
        status: Status(rest as u16),
        retries: (rest >> 16) as u8,
        flags: (rest >> 24) as u8,
    }
}
