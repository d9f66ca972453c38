// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command's life: its points ([`milestone`]), the intervals between them ([`stage`]), and what
//! one command's observed points come to ([`timeline`]). Pure; mirrors bpf/include/inflight.bpf.h.

pub mod milestone;
pub mod stage;
pub mod timeline;
