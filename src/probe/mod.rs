// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to attach, and why not more. [`catalog`] is data, [`facts`] is what the kernel offers,
//! [`plan`] decides. None of them accesses the system.

mod attach_plan;
pub mod catalog;
pub mod facts;
pub mod ledger;
pub mod plan;
pub mod reasons;
