// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time between a bio and its request as it is counted by disk: what is known of it. It contains the
//! wait for a tag, and also rq_qos (wbt, io.cost, io.latency), zone write plugs and frozen queues.

use super::crowd::Crowd;
use super::{not_observed, percent};
use crate::diagnose::report::{Answer, Cause, Command, Facts, Subject};
use crate::model::activity::TagWaits;
use crate::model::ids::NamespaceId;
use crate::units::nanos;

/// The waits have this part of the time, waits included.
pub const PART: f64 = 0.3;
/// Fewest requests that waited.
const WAITED: u64 = 50;
/// The number in flight on a queue is near nr_requests from this part of it.
pub const NEAR: f64 = 0.9;
/// A wait for a tag ends with the queue full: for this part of the requests that waited, at least.
pub const FULL: f64 = 0.5;

/// The waits of a disk that have a large part of the time.
pub struct Waits {
    /// The disk.
    pub disk: NamespaceId,
    /// The counters.
    pub counted: TagWaits,
    /// Their part of the time, waits included.
    pub part: f64,
}

impl Waits {
    /// The waits of a disk; otherwise the answer without them.
    pub fn of(facts: &Facts, subject: Subject) -> Result<Self, Answer> {
        Self::at_least(facts, subject, PART)
    }

    /// The same for a part of the time that is large enough.
    pub fn at_least(facts: &Facts, subject: Subject, least: f64) -> Result<Self, Answer> {
        let Some(all) = facts.counted(|a| a.waits.as_ref()) else {
            return Err(not_observed(facts, "waits before the request"));
        };
        let Subject::Disk(ctrl, nsid) = subject else {
            return Err(Answer::Absent("no disk".into()));
        };
        if let Some(why) = facts.lacks(subject) {
            return Err(Answer::Open(why));
        }
        let own = all.iter().filter(|w| w.ctrl == ctrl);
        let Some(counted) = own.clone().find(|w| w.nsid == nsid || w.nsid == 0) else {
            return Err(Answer::Absent("no request waited".into()));
        };
        let total = facts.sum(facts.of_subject(subject), Command::total);
        let part = counted.sum_ns as f64 / (counted.sum_ns as f64 + total).max(1.0);
        if part < least || counted.waited < WAITED {
            return Err(Answer::Out(format!(
                "waits before the request have {} of the time",
                percent(part)
            )));
        }
        Ok(Self { disk: NamespaceId::new(ctrl, nsid), counted: *counted, part })
    }

    /// Adds what both rules about waits show.
    pub fn shown_in(&self, cause: Cause) -> Cause {
        let TagWaits { requests, waited, sum_ns, .. } = self.counted;
        let part = format!("{} of the time", percent(self.part));
        cause
            .explaining(self.part)
            .shown_by("waits before the request", part)
            .shown_by("requests that waited", format!("{waited} of {requests}"))
            .shown_by("mean wait", nanos(sum_ns as f64 / waited.max(1) as f64))
    }

    /// Whether the queues of the disk were full.
    pub fn tags(&self, facts: &Facts) -> Tags {
        let Some(Filling { full, most, limit }) = filling(facts, self.disk.ctrl, self.disk.nsid)
        else {
            return Tags::Unknown;
        };
        match full as f64 >= FULL * self.counted.waited as f64 {
            true => Tags::Short(most, limit),
            false => Tags::Enough(most, limit),
        }
    }
}

/// Whether the queues of a disk were full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tags {
    /// As often as requests waited: most in flight on a queue, nr_requests.
    Short(u64, u32),
    /// Seldom: the same.
    Enough(u64, u32),
    /// Commands were left out of memory, or nr_requests was not recorded.
    Unknown,
}

/// Compares the number in flight on each queue with nr_requests, at each begin of a command. Disks share
/// the tags of a queue; a scheduler has its own for each disk.
pub struct Filling {
    /// How often a queue was nearly full.
    pub full: u64,
    /// Most in flight on a queue.
    pub most: u64,
    /// nr_requests.
    pub limit: u32,
}

/// The queues of a disk. `None`: commands were left out of memory, or nr_requests was not recorded.
pub fn filling(facts: &Facts, ctrl: u32, nsid: u32) -> Option<Filling> {
    let disk = facts.disk(ctrl, nsid)?;
    let limit = disk.nr_requests.filter(|_| !facts.is_thinned(ctrl))?;
    let scheduler = disk.scheduler.as_ref();
    let of = if scheduler.is_none_or(|name| *name == "none") { 0 } else { nsid };
    let near = (f64::from(limit) * NEAR).ceil() as u64;
    let (mut full, mut most) = (0_u64, 0_u64);
    for queue in Crowd::queues(facts.of_disk(ctrl, of), |c| c.begin_ns) {
        queue.at_each_begin(|_, now| {
            most = most.max(now);
            full += u64::from(now >= near);
        });
    }
    Some(Filling { full, most, limit })
}
