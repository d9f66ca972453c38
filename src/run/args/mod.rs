// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that several commands have, and the values of options.

pub(crate) mod attach;
pub(crate) mod buffer;
pub(crate) mod by;
pub(crate) mod examples;
pub(crate) mod exec;
pub(crate) mod filter;
pub(crate) mod from;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod picture;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod stack;
pub(crate) mod stages;
pub(crate) mod value;
pub(crate) mod who;
pub(crate) mod words;
