// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side as text and as JSON: events, histograms, the ledger.

mod json;
mod ledger;
mod spdk;
mod states;
mod targets;
mod text;

pub use self::json::{end_json, event_json, target_json};
pub use self::ledger::ledger_text;
pub use self::spdk::{spdk_json, spdk_text};
pub use self::states::{MessageRow, messages_text, state_json, state_text};
pub use self::targets::targets_text;
pub use self::text::event_text;
