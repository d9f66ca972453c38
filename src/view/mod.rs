// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text and as JSON: functions of data and a writer.

pub mod export;
mod groups;
pub mod header;
pub(crate) mod heatmap;
pub mod json;
pub mod ledger;
pub mod picture;
pub(crate) mod stacks;
pub(crate) mod table;
pub mod text;
pub mod theme;
pub mod trace;
