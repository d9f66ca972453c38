// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of events as the BPF side writes them to the ring, and recordings keep them:
//! bpf/include/abi.h. With the feature `live`, abi_checks.rs compares them with the C.

use bytemuck::{Pod, Zeroable};

/// Begins every record (`struct nd_event`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawEvent {
    /// One of [`kind`].
    pub kind: u8,
    pub admin: u8,
    pub opcode: u8,
    /// Zero in the ring. In a recording: see [`Record`](super::record::Record).
    pub parts: u8,
    pub qid: u16,
    pub cid: u16,
    /// CLOCK_MONOTONIC nanoseconds.
    pub ns: u64,
    pub ctrl: u16,
    /// Of a finished command: the points that were observed.
    pub pattern: u16,
    pub nsid: u32,
}

/// What a command requests, and its submitter (`struct nd_submission`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSubmission {
    pub stack: u64,
    /// CDW10 to CDW15.
    pub cdw: [u32; 6],
    pub comm: [u8; 16],
    pub tgid: u32,
    pub tid: u32,
    pub nsid: u32,
    pub bytes: u32,
    /// CDW0 bits 15:8.
    pub flags: u8,
    pub metadata: u8,
    pub cpu: u16,
    /// Bits of [`known`].
    pub known: u32,
}

/// The task that submitted a bio (`struct nd_sender`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSender {
    pub cgroup: u64,
    pub comm: [u64; 2],
    pub tgid: u32,
    pub tid: u32,
}

/// Who caused a command (`struct nd_origin`). Zero: not known. Cgroups are ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOrigin {
    pub task_cgroup: u64,
    pub io_cgroup: u64,
    pub by: RawSender,
}

/// The outcome that the driver reports (`struct nd_outcome`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOutcome {
    pub stack: u64,
    pub result: u64,
    pub status: u16,
    pub retries: u8,
    pub flags: u8,
    pub cpu: u16,
    /// 0: the outcome could not be read.
    pub known: u8,
    /// Bits of [`Conditions`](crate::model::conditions::Conditions).
    pub beside: u8,
}

/// What both kinds of records of a finished command begin with (`struct nd_end`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawEnd {
    pub event: RawEvent,
    pub outcome: RawOutcome,
    pub setup_out_ns: u64,
}

/// A command at its submission (`struct nd_submit`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSubmit {
    pub event: RawEvent,
    pub submission: RawSubmission,
}

/// A finished command with its submission (`struct nd_pair`, without the times).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawPair {
    pub end: RawEnd,
    pub submission: RawSubmission,
}

/// The other events (`struct nd_other`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOther {
    pub event: RawEvent,
    pub value: u64,
}

/// The times of `struct nd_times`, in nanoseconds: with stages they follow the record.
pub(crate) const TIMES: usize = 7;
/// The words of `struct nd_early_times`: with full stages they follow the times.
pub(crate) const EARLY_TIMES: usize = 8;

/// Kinds of records (`enum nd_kind`).
pub(crate) mod kind {
    pub(crate) const SUBMIT: u32 = 2;
    pub(crate) const COMPLETE: u32 = 3;
    pub(crate) const PAIR: u32 = 4;
    /// value: head | tail << 16; 1 << 32: the command is unknown.
    pub(crate) const SQ: u32 = 5;
    /// value: time of the setup.
    pub(crate) const TIMEOUT: u32 = 6;
    /// value: time of the setup.
    pub(crate) const CANCEL: u32 = 7;
    pub(crate) const REQUEUE: u32 = 8;
    /// value: number of retries; !0: unknown.
    pub(crate) const RETRY: u32 = 9;
    /// value: result of the command.
    pub(crate) const ASYNC: u32 = 10;
    /// value: the new state; 1 << 32: requested, and the outcome is unknown.
    pub(crate) const STATE: u32 = 11;
    /// In flight at the end; value: time of the setup. Only in recordings.
    pub(crate) const UNFINISHED: u32 = 255;
}

/// What is known of a submission (`enum nd_known`).
pub(crate) mod known {
    pub(crate) const BYTES: u32 = 1;
    /// tgid, tid, comm, cpu.
    pub(crate) const SUBMITTER: u32 = 2;
    /// The record ends with a [`RawOrigin`](super::RawOrigin).
    pub(crate) const ORIGIN: u32 = 4;
    /// CDW10 to CDW15 are not known: only imports are such.
    pub(crate) const BARE: u32 = 8;
}
