// SPDX-License-Identifier: MIT OR Apache-2.0
//! There are polled queues, and no command uses them. That costs nothing by itself: a note.

use super::before::FULL;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let polled = facts.machine.as_ref().map(|m| m.poll_queues);
    let polled = match polled {
        None => return Answer::NotLooked(FULL.into()),
        Some(None | Some(0)) => return Answer::Absent("there are no polled queues".into()),
        Some(Some(polled)) => polled,
    };
    let Some(ctrl) = subject.ctrl().filter(|ctrl| facts.fabric(*ctrl).is_none()) else {
        return Answer::Absent("nvme.poll_queues concerns PCI only".into());
    };
    let Some(first) = facts.first_polled(ctrl) else {
        return Answer::Open("the number of queues is not known".into());
    };
    if facts.of_ctrl(ctrl).any(|c| u32::from(c.qid) >= first) {
        return Answer::Absent("commands use the polled queues".into());
    }
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let name = format!("nvme{ctrl}");
    let queues = facts.controller(ctrl).and_then(|c| c.io_queues).unwrap_or(0);
    let note = Cause::new(
        "not-polling",
        &name,
        format!("{name} has polled queues ({polled} of {queues}), and no command used them"),
        "if commands should be polled, submit with RWF_HIPRI or io_uring's IOPOLL (fio: --hipri); if not, \
         remove nvme.poll_queues",
    );
    Answer::note(note.shown_by("nvme.poll_queues", polled).shown_by("I/O queues", queues))
}
