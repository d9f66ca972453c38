// SPDX-License-Identifier: MIT OR Apache-2.0
//! From when to when a command lasted.

use super::event::{Event, EventKind};
use super::point::Point;

/// The time of a command, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub begin_ns: u64,
    /// Its end; `None` if it has not ended.
    pub end_ns: Option<u64>,
}

impl Span {
    /// From the end of the set-up to the completion. `None` for other events, and for a command whose
    /// latency is not known.
    #[must_use]
    pub fn of_latency(event: &Event) -> Option<Self> {
        let lasted = match &event.what {
            EventKind::Command(_, _, end) => end.latency_ns?,
            EventKind::Missed { latency_max_ns, .. } => (*latency_max_ns)?,
            what => return Self::unfinished(event.at_ns, what),
        };
        Some(Self { begin_ns: event.at_ns.saturating_sub(lasted), end_ns: Some(event.at_ns) })
    }

    /// From the first observed point to the last. `None` for other events.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let Event { at_ns, what } = event;
        let lasted = match what {
            EventKind::Command(_, _, outcome) => outcome.latency_ns,
            EventKind::Missed { latency_max_ns, .. } => *latency_max_ns,
            what => return Self::unfinished(*at_ns, what),
        };
        let (mut begin_ns, mut end_ns) = (at_ns.saturating_sub(lasted.unwrap_or(0)), *at_ns);
        if let Some(line) = what.timeline() {
            for point in Point::ALL.iter().filter_map(|p| line.at(*p)) {
                begin_ns = begin_ns.min(point);
                end_ns = end_ns.max(point);
            }
        }
        Some(Self { begin_ns, end_ns: Some(end_ns) })
    }

    fn unfinished(at_ns: u64, what: &EventKind) -> Option<Self> {
        match what {
            EventKind::Unfinished { age_ns, .. } => {
                Some(Self { begin_ns: at_ns.saturating_sub(*age_ns), end_ns: None })
            }
            _ => None,
        }
    }

    /// Its length in nanoseconds; that of a command that has not ended is unlimited.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end_ns.map_or(u64::MAX, |end| end.saturating_sub(self.begin_ns))
    }
}
