// SPDX-License-Identifier: MIT OR Apache-2.0
//! From when to when a command lasted.

use crate::export::row::timeline;
use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::milestone::Milestone;

/// The time of a command, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first observed point.
    pub begin_ns: u64,
    /// Its last observed point; `None` if it has not ended.
    pub end_ns: Option<u64>,
}

impl Span {
    /// The span of a command; `None` for other events.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let Event { at_ns, what } = event;
        let lasted = match what {
            EventKind::Command(_, _, outcome) => outcome.latency_ns,
            EventKind::Missed { latency_max_ns, .. } => *latency_max_ns,
            EventKind::Unfinished { age_ns, .. } => {
                let begin_ns = at_ns.saturating_sub(*age_ns);
                return Some(Self {
                    begin_ns,
                    end_ns: None,
                });
            }
            _ => return None,
        };
        let (mut begin_ns, mut end_ns) = (at_ns.saturating_sub(lasted.unwrap_or(0)), *at_ns);
        if let Some(line) = timeline(what) {
            for point in Milestone::ALL.iter().filter_map(|p| line.at(*p)) {
                begin_ns = begin_ns.min(point);
                end_ns = end_ns.max(point);
            }
        }
        Some(Self {
            begin_ns,
            end_ns: Some(end_ns),
        })
    }

    /// Its length in nanoseconds; that of a command that has not ended is unlimited.
    pub(super) fn length(&self) -> u64 {
        self.end_ns
            .map_or(u64::MAX, |end| end.saturating_sub(self.begin_ns))
    }
}
