// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVMe facts: what the specification (not the kernel, not this tool) says about commands.
//!
//! Everything below is plain data and pure functions. Nothing here may open a file, read a
//! clock, talk to a device or know about BPF: the modules that do those things ask here.

pub mod aen;
pub mod decode;
pub mod opcode;
pub mod sqe;
pub mod status;
mod status_names;
