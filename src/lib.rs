// SPDX-License-Identifier: MIT OR Apache-2.0
//! nvme-deep: looks inside the Linux NVMe driver path and says where each command's time went.
//!
//! What depends on what, one way only (and on all that lies behind an arrow's end):
//! `main` → {[`latency`], [`trace`], [`stacks`], [`diagnose`]}; {[`latency`], [`trace`], [`stacks`]}
//! → {[`start`], [`view`]}; [`trace`] → {[`reorder`], [`output`]}; [`start`] → {[`attach`],
//! [`kstack`]}; [`diagnose`] → {[`session`], [`view`]}; [`attach`] → [`session`] → {[`options`],
//! [`host`], [`snapshot`], [`ledger`]}; [`options`] → {[`cli`], [`abi`]}; [`host`] → {[`probe`],
//! [`nvme`]}; [`view`] → {[`doctor`], [`report`], [`event`], [`kstack`]}; [`doctor`] → [`host`];
//! [`kstack`] → [`hist`]; [`report`] → {[`snapshot`], [`ledger`]} → [`abi`] → {[`event`], [`hist`],
//! [`lat_buckets`], [`probe`]}; [`event`] → {[`nvme`], [`path`]}; [`probe`] → [`path`].
//! [`exit`] and [`units`] are for all but the pure: [`nvme`], [`path`], [`hist`], [`lat_buckets`]
//! and [`probe`] know, besides each other, nothing but the standard library and serde. Only
//! [`session`] and the generated skeleton name `libbpf_rs`, only [`host`]'s BTF reader and
//! [`session`] `libbpf_sys`, only [`host`]'s Identify `libc`, only [`kstack`]'s symbolizer
//! `blazesym`, only [`view`]'s flame graph `inferno`. Nothing but the commands writes to stdout, and
//! views only to a writer that they are given. tests/tidy.rs holds this up.

pub mod abi;
pub mod attach;
pub mod cli;
pub mod diagnose;
pub mod doctor;
pub mod event;
pub mod exit;
pub mod hist;
pub mod host;
pub mod kstack;
pub mod lat_buckets;
pub mod latency;
pub mod ledger;
pub mod nvme;
pub mod options;
pub mod output;
pub mod path;
pub mod probe;
pub mod reorder;
pub mod report;
pub mod session;
pub mod snapshot;
pub mod stacks;
pub mod start;
pub mod trace;
pub mod units;
pub mod view;
