// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in flight whose set-up a run has observed.

use super::event::{CommandId, Submission};
use super::row::RowKey;

/// A command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCommand {
    /// Address of its request; `None` with classic tracepoints.
    pub request: Option<u64>,
    /// Controller, queue, command id, namespace, opcode.
    pub id: CommandId,
    /// The row of the histograms that will count it.
    pub row: RowKey,
    /// Time of its set-up, CLOCK_MONOTONIC nanoseconds; 0 if that was not observed.
    pub setup_ns: u64,
    /// Its parameters and submitter. Only traces have them.
    pub submission: Submission,
}
