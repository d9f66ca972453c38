// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text and as JSON: functions of data and a writer, nothing else.

pub mod books;
pub mod doctor;
pub mod flame;
pub mod json;
mod page;
pub mod stacks;
pub mod text;
pub mod theme;
pub mod trace;
