// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discards slow down the commands beside them.

use std::collections::BTreeMap;

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::super::Stages;
use super::not_shown;

/// Write Zeroes and Dataset Management.
const DISCARDS: [u8; 2] = [8, 9];
/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.15;

/// The times at which commands of some opcodes were in flight, by controller.
pub struct Overlaps(BTreeMap<u32, Vec<(u64, u64)>>);

impl Overlaps {
    /// The times of these opcodes.
    pub fn of(facts: &Facts, codes: &[u8]) -> Self {
        let mut all: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for command in facts.all().filter(|c| codes.contains(&c.code())) {
            let times = all.entry(command.stratum.ctrl).or_default();
            times.push((command.begin_ns, command.end_ns));
        }
        for times in all.values_mut() {
            times.sort_unstable();
            // one interval for those that overlap
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for &(begin, end) in times.iter() {
                match merged.last_mut() {
                    Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                    _ => merged.push((begin, end)),
                }
            }
            *times = merged;
        }
        Self(all)
    }

    /// Whether one of them was in flight during this time of a command.
    pub fn meet(&self, command: &Command, (from, to): (u64, u64)) -> bool {
        let times = self
            .0
            .get(&command.stratum.ctrl)
            .map_or(&[][..], Vec::as_slice);
        let next = times.partition_point(|(_, end)| *end < from);
        times.get(next).is_some_and(|(begin, _)| *begin <= to)
    }
}

pub fn check(facts: &Facts) -> Answer {
    let discards = facts.all().filter(|c| DISCARDS.contains(&c.code())).count();
    if discards == 0 {
        return Answer::Out("no discard".into());
    }
    let overlaps = Overlaps::of(facts, &DISCARDS);
    let found = facts.compare(Stages::ALL, |c| {
        c.is_read_or_write()
            .then(|| overlaps.meet(c, facts.expected(c)))
    });
    let Some((stratum, comparison)) = found else {
        return Answer::Out("too few commands beside discards, or without them".into());
    };
    if !comparison.goes_with(EXPLAINS) {
        return not_shown("beside a discard / not", &comparison);
    }
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let cause = Cause::new(
        "discard-storm",
        &name,
        format!("discards slow down the other commands of {name}"),
        format!(
            "mount without `discard` and run fstrim at quiet times; limit one discard by \
             /sys/block/{name}/queue/discard_max_bytes"
        ),
    )
    .with_risk("blocks are returned to the device later")
    .explaining(comparison.explains)
    .shown_by(
        &format!("{}, discard in flight / none", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("discards", discards);
    Answer::Found(vec![cause])
}
