// SPDX-License-Identifier: MIT OR Apache-2.0
//! When commands with several reports write them.

use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::value::count;

/// When to report.
#[derive(Clone, Debug, clap::Args)]
pub struct ScheduleArgs {
    /// Report every INTERVAL (`1`, `500ms`, `5s`), not once at the end
    #[arg(value_name = "INTERVAL", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// Stop after COUNT reports
    #[arg(value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Report each interval separately
    ///
    /// Instead of everything since the start. The final report always covers the whole run.
    #[arg(long, requires = "interval")]
    pub delta: bool,
}
