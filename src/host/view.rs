// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side as text and as JSON: events, histograms, the ledger.

mod json;
mod latency;
mod ledger;
mod spdk;
mod states;
mod targets;
mod text;

pub use self::json::HostJson;
pub use self::latency::{latency_json, latency_text};
pub use self::ledger::ledger_text;
pub use self::spdk::{spdk_json, spdk_text};
pub use self::states::{
    MessageRow, messages_end_json, messages_json, messages_text, state_json, state_text,
    states_end_json,
};
pub use self::targets::{targets_json, targets_text};
pub use self::text::event_text;
