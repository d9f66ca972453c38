// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: what was typed ([`args`]), and what it means ([`options`]).

pub mod args;
pub mod diff;
pub mod export;
pub mod inflight;
pub mod options;
pub mod record;
pub mod serve;
