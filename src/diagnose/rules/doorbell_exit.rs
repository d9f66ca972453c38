// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells are dear: each write to the register of an emulated controller is an exit to the hypervisor.

use super::condition::Condition;
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Command, Facts, Stages, Subject};
use crate::machine::nvme_class::Class;
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

/// Why the doorbells of a controller do not exit; `None`: they do, or may.
fn no_exits(facts: &Facts, ctrl: u32) -> Option<Answer> {
    if let Some(transport) = facts.fabric(ctrl) {
        return Some(Answer::Absent(format!("{transport} has no doorbells")));
    }
    if facts.machine.as_ref().and_then(|m| m.is_virtual) == Some(false) {
        return Some(Answer::Absent("there is no hypervisor".into()));
    }
    match facts.class(ctrl) {
        Some(Class::Passthrough | Class::Physical) => {
            Some(Answer::Absent("the doorbells of a passed-through controller do not exit".into()))
        }
        Some(Class::Cloud) => Some(Answer::Absent(
            "the doorbells of the cloud's controller go to hardware: they do not exit".into(),
        )),
        Some(Class::Emulated) => None,
        Some(Class::Target | Class::Fabrics | Class::Unknown) | None => Some(Answer::Open(
            "whether the doorbells of this controller exit to a hypervisor is not known".into(),
        )),
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    let Some(portion) = facts.portion(subject, Stages::SUBMIT) else {
        return Answer::Absent("no commands".into());
    };
    if portion.most.part < EXPLAINS {
        return Answer::Out(format!("submit has {}", portion.text()));
    }
    if let Some(answer) = no_exits(facts, ctrl) {
        return answer;
    }
    let rung = |c: &Command| {
        let announcement = c.conditions.announcement()?;
        Some(announcement == Announcement::Rung)
    };
    // elided doorbells are no exits
    let any_rung = facts.of_ctrl(ctrl).any(|c| rung(c) != Some(false));
    let any_elided = facts.of_ctrl(ctrl).any(|c| rung(c) == Some(false));
    if !any_rung {
        return Answer::Out("no doorbell was rung: the shadow doorbells elided all".into());
    }
    let most = portion.is_most();
    if most == Reaches::Yes {
        let cause = cause(facts, ctrl).explaining_stages(&portion);
        return Answer::cause(cause.shown_by("submit", portion.text()));
    }
    let condition = Condition {
        subject,
        stages: Stages::SUBMIT,
        least: EXPLAINS,
        sides: ["commands whose doorbell was rung", "elided"],
        may_follow: false,
    };
    match condition.judge(facts, rung) {
        Ok((stratum, comparison)) => {
            let what = format!("submit of {}, rung / elided", facts.stratum_name(&stratum));
            let cause = cause(facts, ctrl).explaining_longer(&comparison);
            let cause = cause.shown_by(&what, comparison.text());
            Answer::cause(cause.shown_by("doorbells rung", comparison.with))
        }
        // none was elided: the share alone decides
        Err(Answer::Open(_)) if most == Reaches::No && !any_elided => {
            Answer::Out(format!("submit has {}", portion.text()))
        }
        Err(answer) => answer,
    }
}
