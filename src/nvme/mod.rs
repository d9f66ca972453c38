// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVMe specification: commands, statuses and events. Independent of the kernel and of this tool.
//!
//! All modules are plain data and pure functions. They must not open files, read a clock, access a
//! device or depend on BPF.
#![deny(missing_docs)]

pub mod aen;
pub mod decode;
pub mod log;
pub mod opcode;
pub mod sqe;
pub mod status;
mod status_names;
pub mod subject;
