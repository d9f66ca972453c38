// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of `diagnose` on synthetic runs with fixed seeds. Each cause is planted: its rule must be
//! named, and no other. Without the cause, nothing may be named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod causes;
mod draft;
mod healthy;

mod load;
mod matrix;
mod obstacles;

mod plants;
mod stuck;
mod view;
