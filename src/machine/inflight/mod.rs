// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that are in flight now, read from the kernel's memory: the tags of each queue, its
//! submission queue (SQ) and completion queue (CQ), and its doorbells.
//!
//! Nothing is attached and nothing is sent to a controller. All reads may be of memory that changes
//! or goes away at the same time, so what matters is read twice, and a difference gives no verdict.
//!
//! [`Walker`] reads; [`judge`] decides what became of a command. Both are pure: memory and types
//! come from the caller.

mod queue;
pub mod report;
mod stuck_state;
mod types;
mod walk;

pub use self::queue::QueueReading;
pub use self::stuck_state::{StuckAt, StuckState, judge};
pub use self::types::{Missing, NEEDED, Types};
pub use self::walk::{CommandReading, ControllerAt, Tags, TagsReading, Walker};
pub use crate::machine::inflight::types::{Ticks, Timeout};
pub use crate::machine::inflight::walk::Memory;
