// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus: what a session has counted so far, as text. Pure: model data in, text out.
//!
//! [`catalog`] defines the metrics (docs/serve.md lists them), [`mod@collect`] fills them, [`mod@encode`]
//! writes them in the two text formats.
//!
//! The encoder is our own. The crate prometheus-client writes OpenMetrics only, and a textfile must
//! be in the older format; both need bucket bounds and sums that are exact decimal numbers.

pub mod bounds;
pub mod catalog;
pub mod collect;
pub mod encode;

pub use self::collect::{Reading, collect};
pub use self::encode::{Format, encode};
