// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts kernel addresses to frames: names by blazesym ([`symbolize`]), the regions of kernel
//! text (`regions`), and the frames of the driver and its callers ([`trim`]). Also names the functions
//! of a process ([`process`]).

pub mod process;
mod regions;
pub mod symbolize;
pub mod trim;

pub use self::symbolize::Symbolizer;
