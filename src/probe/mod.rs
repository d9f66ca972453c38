// SPDX-License-Identifier: MIT OR Apache-2.0
//! What we attach to, and why not. [`catalog`] is data, [`facts`] is what the kernel offers,
//! [`plan`] decides; none of them touches the system.

mod attach_plan;
pub mod catalog;
pub mod facts;
pub mod plan;
mod reasons;
