// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests on real kernels. Each boots a guest once, runs a script of tests/vm/guest in it, and
//! judges the files that the script leaves. The reference is what fio reports, what the kernel
//! counts, and what was injected into the device. `make test` runs them; they need the guests of
//! tests/vm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "vm/judge/mod.rs"]
mod judge;
mod planted;
