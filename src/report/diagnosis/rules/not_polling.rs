// SPDX-License-Identifier: MIT OR Apache-2.0
//! There are polled queues, and no command uses them.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;

pub fn check(facts: &Facts) -> Answer {
    let polled = facts.machine.as_ref().and_then(|m| m.poll_queues);
    let Some(polled) = polled else {
        return Answer::Unknown("nvme.poll_queues was not recorded".into());
    };
    if polled == 0 {
        return Answer::Out("there are no polled queues".into());
    }
    let of = |ctrl: u32| {
        let queues = facts.controller(ctrl)?.io_queues?;
        // the driver puts them last
        let first = queues.checked_sub(polled)? + 1;
        let used = facts.of_ctrl(ctrl).any(|c| u32::from(c.qid) >= first);
        let name = format!("nvme{ctrl}");
        (!used).then(|| {
            Cause::new(
                "not-polling",
                &name,
                format!("{name} has polled queues, but no command used them"),
                "submit with RWF_HIPRI or io_uring's IOPOLL (fio: --hipri); or remove nvme.poll_queues, so \
                 that these queues serve others",
            )
            .shown_by("nvme.poll_queues", polled)
            .shown_by("I/O queues", queues)
        })
    };
    let causes = facts.ctrls().into_iter().filter_map(of).collect();
    Answer::of(causes, "commands use the polled queues")
}
