// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line. A command's file has its options and what they ask of a session; options of several
//! commands have files of their own. clap parses values into what they mean.

pub mod args;
pub mod attach;
pub mod buffer;
pub mod by;
pub mod diagnose;
pub mod diff;
pub mod doctor;
pub mod examples;
pub mod exec;
pub mod export;
pub mod filter;
pub mod from;
pub mod heatmap;
pub mod host;
pub mod inflight;
pub mod join;
pub mod latency;
pub mod outcome;
pub mod output;
pub mod pattern;
pub mod record;
pub mod schedule;
pub mod serve;
pub mod session;
pub mod stack;
pub mod stacks;
pub mod stages;
pub mod top;
pub mod trace;
pub mod value;
pub mod who;
pub mod words;

use anyhow::Error;
use nvme_deep::error::Kind;

use crate::exit::Failure;

fn usage(message: impl Into<String>) -> Error {
    Failure::error(Kind::Usage, message)
}
