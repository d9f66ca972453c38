// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that several commands have, and the values of options.

pub(crate) mod command_line;
pub(crate) mod common;
pub(crate) mod filter;
