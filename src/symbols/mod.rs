// SPDX-License-Identifier: MIT OR Apache-2.0
//! From kernel addresses to frames: names by blazesym ([`symbolize`]), the regions of interrupt entry
//! (`regions`), and which frames are the driver's and its callers' ([`trim`]).

mod regions;
pub mod symbolize;
pub mod trim;

pub use self::symbolize::Symbolizer;
