// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of the tool: points, stages, events, counters, snapshots, stacks. Uses no libbpf and no
//! I/O, so that reports, views and tests work without a kernel.
#![deny(missing_docs)]

pub mod activity;
pub mod collect;
pub mod command_class;
pub mod counters;
pub mod event;
pub mod filter;
pub mod group;
pub mod histogram;
pub mod ids;
pub mod ledger;
pub mod machine;
pub mod nvme_latency;
pub mod origin;
pub mod point;
pub mod report;
pub mod snapshot;
pub mod stack;
pub mod stage;
pub mod target;
pub mod text;
pub mod timeline;
