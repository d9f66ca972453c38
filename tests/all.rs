// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests that need no process of their own, in one program: to link many takes minutes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests"
)]

mod binary;
mod by;
mod cli;
mod contrib;
mod decode;
mod diff;
mod dist;
mod docs;
mod export;
#[cfg(feature = "parquet")]
mod export_command;
#[cfg(feature = "parquet")]
mod files;
mod filters;
mod heatmap;
mod help;
mod host;
#[cfg(feature = "parquet")]
mod hostile;
mod import;
mod info;
mod join;
mod licences;
mod live;
mod one_truth;
mod parity;
mod pattern;
#[cfg(feature = "live")]
mod percentiles;
mod places;
mod plan;
mod planted;
#[cfg(feature = "live")]
mod plants;
mod qemu;
mod reading_cost;
mod recording;
mod release;
#[cfg(feature = "parquet")]
mod report;
mod spdk;
mod testing;
mod tidy;
mod timeline;
mod top;
mod trace;
mod trace_view;
mod usdt;
mod views;
mod words;
