// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells are dear: each write to the register is an exit to the hypervisor.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Share;
use super::super::Stages;
use crate::model::conditions::Announcement;

/// The part of the time that goes with a rung doorbell.
const EXPLAINS: f64 = 0.1;

fn cause(facts: &Facts, ctrl: u32) -> Cause {
    let name = format!("nvme{ctrl}");
    let shadow = facts.controller(ctrl).and_then(|c| c.shadow_doorbells);
    let advice = match shadow {
        Some(true) => {
            "let the device wait longer before it asks for doorbells (its polling time), or submit \
             several commands at a time, so that they share a doorbell"
        }
        _ => {
            "use a controller with shadow doorbells (QEMU 7.1 and later has them) and ioeventfd \
             (`-device nvme,ioeventfd=on`), or submit several commands at a time"
        }
    };
    let cause = Cause::new(
        "doorbell-exit",
        &name,
        format!("the doorbells of {name} take long: each one is an exit to the hypervisor"),
        advice,
    );
    match shadow {
        Some(shadow) => cause.shown_by("shadow doorbells", if shadow { "yes" } else { "no" }),
        None => cause,
    }
}

pub fn check(facts: &Facts) -> Answer {
    let rung = |c: &super::super::Command| {
        let announcement = c.conditions.announcement()?;
        Some(announcement == Announcement::Rung)
    };
    let (mut causes, mut most) = (Vec::new(), Share::default());
    for ctrl in facts.ctrls() {
        let all = facts.of_ctrl(ctrl);
        let share = facts.share(all.clone(), Stages::SUBMIT).unwrap_or_default();
        if share.part > most.part {
            most = share;
        }
        // elided doorbells are no exits
        let any_rung = all.clone().any(|c| rung(c) != Some(false));
        if share.is_most() && any_rung {
            let cause = cause(facts, ctrl).explaining(share.part);
            causes.push(cause.shown_by("submit", format!("{} of the time", share.text())));
        }
    }
    if causes.is_empty()
        && let Some((stratum, comparison)) = facts.compare(Stages::SUBMIT, rung)
        && comparison.goes_with(EXPLAINS)
    {
        let what = format!("submit of {}, rung / elided", facts.stratum_name(&stratum));
        let cause = cause(facts, stratum.ctrl).explaining(comparison.explains);
        let cause = cause.shown_by(&what, comparison.text());
        causes.push(cause.shown_by("doorbells rung", comparison.with));
    }
    Answer::of(
        causes,
        format!("the submit stage has {} of the time", most.text()),
    )
}
