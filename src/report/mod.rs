// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of model data: the numbers and findings of each command, and the ledger.

pub mod begins;
pub mod cgroup_path;
pub mod device_name;
pub mod diagnosis;
pub mod diff;
pub mod disk_names;
pub mod doctor;
pub mod finding;
pub mod group_series;
pub mod groups;
pub mod heatmap;
pub mod idle;
pub mod inflight;
pub mod latency;
pub mod ledger;
pub mod pattern;
pub mod recount;
pub mod stacks;
pub mod submissions;
pub mod top;
