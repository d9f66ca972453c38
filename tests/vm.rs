// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on real kernels: each boots a guest once, lets a script of tests/vm/guest run there, and
//! judges by the files that it leaves. Truth is what fio says it did, what the kernel's own counters
//! say, and what was injected into the device. Run by `make test`; needs the lab (tests/vm).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

#[path = "vm/judge/mod.rs"]
mod judge;
