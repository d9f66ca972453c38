// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are not aligned to physical blocks take longer.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::not_shown;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;

pub fn check(facts: &Facts) -> Answer {
    if facts.machine.is_none() {
        return Answer::Unknown("block sizes were not recorded".into());
    }
    let is_off = |c: &super::super::Command| {
        let disk = facts.disk(c.stratum.ctrl, c.stratum.nsid)?;
        let (physical, logical) = (
            u64::from(disk.physical_bytes?),
            u64::from(disk.logical_bytes?),
        );
        if physical <= logical || !c.is_read_or_write() {
            return None;
        }
        let begin = c.slba.checked_mul(logical)?;
        Some(begin % physical != 0 || u64::from(c.bytes) % physical != 0)
    };
    let Some((stratum, comparison)) = facts.compare(Stages::DEVICE, is_off) else {
        return Answer::Out("too few commands off the physical blocks".into());
    };
    if !comparison.goes_with(EXPLAINS) {
        return not_shown("off the physical blocks / on them", &comparison);
    }
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let cause = Cause::new(
        "unaligned",
        &name,
        format!("commands of {name} that are not aligned to its physical blocks take longer"),
        "align partitions and file systems to the physical block size",
    )
    .explaining(comparison.explains)
    .shown_by(
        &format!(
            "device of {}, unaligned / aligned",
            facts.stratum_name(&stratum)
        ),
        comparison.text(),
    )
    .shown_by("unaligned commands", comparison.with);
    Answer::Found(vec![cause])
}
