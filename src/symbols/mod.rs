// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts kernel addresses to frames: names by blazesym ([`symbolize`]), the regions of kernel
//! text (`regions`), and the frames of the driver and its callers ([`trim`]).

mod regions;
pub mod symbolize;
pub mod trim;

pub use self::symbolize::Symbolizer;
