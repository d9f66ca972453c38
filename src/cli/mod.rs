// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: what was typed ([`args`]), and what it means ([`options`]).

pub mod args;
pub mod diagnose;
pub mod diff;
pub mod doctor;
pub mod examples;
pub mod export;
pub mod heatmap;
pub mod host;
pub mod inflight;
pub mod latency;
pub mod options;
pub mod pattern;
pub mod record;
pub mod schedule;
pub mod serve;
pub mod stacks;
pub mod top;
pub mod value;
pub mod words;
