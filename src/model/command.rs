// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finished command.

use super::row::RowKey;
use super::timeline::Timeline;

/// A finished command, from the ring (`--commands`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// Controller, namespace, opcode and size class.
    pub row: RowKey,
    /// Queue, 0 for the admin queue.
    pub qid: u16,
    /// Command id on the wire.
    pub cid: u16,
    /// Bytes transferred.
    pub bytes: u32,
    /// The task that submitted it to the driver.
    pub tid: u32,
    /// The times of its points.
    pub timeline: Timeline,
}
