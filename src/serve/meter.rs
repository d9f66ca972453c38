// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the session, at most once a second, whatever the number of clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine::System;
use crate::model::counters::Failures;
use crate::model::ledger::Ledger;
use crate::model::report::groups::{cells_of, rows_of};
use crate::model::report::latency::rows;
use crate::model::snapshot::Snapshot;
use crate::run::start::Session;
use crate::serve::group_series::GroupSeries;
use crate::serve::metrics::{Reading, collect, encode};
use crate::settings::Settings;
use anyhow::Result;

use crate::run::drive::ledger_of_rows;

/// How long a group without commands keeps its series: longer than any range that queries look at.
const KEPT: Duration = Duration::from_secs(600);
/// Maximum age of what a client gets.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The metrics of a session.
pub struct Meter {
    settings: Settings,
    system: System,
    start: Duration,
    /// Commands observed, at the last reading.
    seen: u64,
    /// The groups with series, with `--by`.
    groups: GroupSeries,
    began: Instant,
    /// The last reading.
    last: Option<(Instant, Arc<str>)>,
}

impl Meter {
    /// Call this when the session has begun.
    pub fn new(settings: &Settings, system: System, groups: usize) -> Self {
        let start = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            settings: settings.clone(),
            system,
            start: start.unwrap_or_default(),
            seen: 0,
            groups: GroupSeries::new(groups, KEPT),
            began: Instant::now(),
            last: None,
        }
    }

    /// The metrics as text, at most a second old.
    ///
    /// # Errors
    /// If the maps cannot be read, or the types do not fit the kernel.
    pub fn text(&mut self, session: &Session) -> Result<Arc<str>> {
        if let Some((_, text)) = self.last.as_ref().filter(|(at, _)| at.elapsed() < MAX_AGE) {
            return Ok(Arc::clone(text));
        }
        let in_flight = self.present(session.in_flight()?);
        let now = session.snapshot()?;
        let ledger = ledger_of_rows(session, &now, None)?;
        let text: Arc<str> = self.write(&now, ledger, &in_flight).into();
        self.last = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }

    /// For the controllers that exist and that the filter accepts.
    fn present(&self, in_flight: BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
        let filter = &self.settings.filter;
        let present = self.system.controllers();
        let mut all = in_flight;
        all.retain(|ctrl, _| filter.has_ctrl(*ctrl) && present.iter().any(|c| c.instance == *ctrl));
        all
    }

    fn write(
        &mut self,
        now: &Snapshot,
        mut ledger: Ledger,
        in_flight: &BTreeMap<u32, u64>,
    ) -> String {
        // slots wait for a controller that does not exist yet
        let mut failures = now.failures.clone();
        failures.retain(|ctrl, f| in_flight.contains_key(ctrl) || *f != Failures::default());
        // a difference of counters that change while they are read; a counter must not fall
        self.seen = self.seen.max(ledger.seen);
        ledger.seen = self.seen;
        let stage_set = self.settings.stage_set;
        let by = self.settings.by();
        let groups = match by.is_empty() {
            true => Vec::new(),
            false => {
                let cells = cells_of(now, by);
                let series = self.groups.update(self.began.elapsed(), cells);
                rows_of(&series, stage_set, None, Duration::ZERO)
            }
        };
        encode(&collect(&Reading {
            stage_set,
            rows: &rows(now, stage_set, None, Duration::ZERO),
            groups: &groups,
            names: &now.names,
            ledger: &ledger,
            failures: &failures,
            in_flight,
            start: self.start,
            version: env!("CARGO_PKG_VERSION"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StageSet;

    #[test]
    fn a_counter_does_not_fall() {
        let settings = Settings::of(StageSet::Total);
        let mut meter = Meter::new(&settings, System::at("/missing"), 1);
        let in_flight = BTreeMap::from([(3, 1)]);
        for seen in [9, 8] {
            let ledger = Ledger { seen, ..Ledger::default() };
            let text = meter.write(&Snapshot::default(), ledger, &in_flight);
            assert!(text.contains("\nnvme_deep_observed_commands_total 9\n"), "{text}");
            assert!(text.contains("\nnvme_deep_in_flight_commands{controller=\"nvme3\"} 1\n"));
        }
    }
}
