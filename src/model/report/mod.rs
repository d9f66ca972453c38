// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of model data: the numbers and findings of each command, and the ledger.

pub mod begins;
pub mod cgroup_path;
pub mod device_name;
pub mod disk_names;
pub mod groups;
pub mod latency;
pub mod recount;
pub mod stacks;
pub mod submissions;
