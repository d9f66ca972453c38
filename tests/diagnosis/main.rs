// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of `diagnose` on synthetic runs with fixed seeds. Each cause is planted: its rule must be
//! named, and no other. Without the cause, nothing may be named.
//! They take a while, and run once in `make test`: only with the feature `live`, which they do not need.
#![cfg(feature = "live")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests; make test-alarms prints tables"
)]

mod above;
mod alarms;
#[path = "../binary/mod.rs"]
mod binary;
mod causes;
#[path = "../diagnose.rs"]
mod command;
mod draft;
mod healthy;
mod kinds;
mod lengthen;
mod level;
mod load;
mod matrix;
mod obstacles;
mod places;
#[path = "../planted/mod.rs"]
mod planted;
mod plants;
mod polled;
mod power;
mod power_waits;
mod shapes;
mod stuck;
mod tags;
#[path = "../testing/mod.rs"]
mod testing;
mod victims;
mod view;
mod waits;
mod words;
