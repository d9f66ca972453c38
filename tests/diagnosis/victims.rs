// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands that failed or were lost have in common.

use nvme_deep::Status as NvmeStatus;
use nvme_deep::diagnose::{Verdict, diagnose};
use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::ledger::Accuracy;

use super::causes::Cause;
use super::draft::READ;
use super::load::Load;
use super::plants::{judged, said};

fn evidence<'v>(verdict: &'v Verdict, name: &str) -> Option<&'v str> {
    verdict.evidence.iter().find(|e| e.name == name).map(|e| &*e.value)
}

/// What is said of some failed reads: of queue 1, or of all.
fn failed(is_victim: impl Fn(u16) -> bool) -> Option<String> {
    let mut run = Load::default().run(&[]);
    let mut left = 12;
    for event in run.events.iter_mut().skip(500) {
        if let EventKind::Command(id, _, end) = &mut event.what
            && let Some(verdict) = &mut end.verdict
            && left > 0
            && id.opcode.code == READ
            && is_victim(id.qid)
        {
            verdict.status = NvmeStatus(0x281);
            left -= 1;
        }
    }
    let found = judged(run);
    evidence(said(&found, "errors-timeout"), "what most have in common").map(str::to_owned)
}

#[test]
fn failed_commands_of_one_queue_say_so() {
    assert_eq!(failed(|qid| qid == 2).as_deref(), Some("queue 2 (12 of 12)"));
    // that most commands are reads of 8 blocks says nothing
    assert_eq!(failed(|_| true), None);
}

/// A second controller goes through the same, on this queue.
fn also_on(qid: u16) -> Option<String> {
    let mut run = Load::default().run(&[Cause::LostInterrupt]);
    let moved = |event: &Event| {
        let mut what = event.what;
        match &mut what {
            EventKind::Command(id, ..) | EventKind::Timeout { id, .. } => {
                id.ctrl = 1;
                id.qid = if id.qid == 1 { qid } else { id.qid };
            }
            _ => {}
        }
        Event { what, ..*event }
    };
    let second: Vec<Event> = run.events.iter().map(moved).collect();
    run.events.extend(second);
    run.events.sort_by_key(|e| e.at_ns);
    let found = judged(run);
    let lost = said(&found, "lost-interrupt");
    let others = evidence(lost, "the same queue, within a second");
    assert_eq!(others.is_some(), lost.advice.contains("several controllers lost"), "{lost:?}");
    others.map(str::to_owned)
}

#[test]
fn controllers_that_lose_the_same_queue_at_once_point_to_the_monitor() {
    assert_eq!(also_on(1).as_deref(), Some("nvme1"));
    assert_eq!(also_on(3), None);
}

/// An interrupt that comes too early or too late finds no CQE. Then the verdict does not say that it did not come.
#[test]
fn interrupts_that_found_no_cqe_are_counted() {
    let sentence = |early| {
        let mut run = Load::default().run(&[Cause::LostInterrupt]);
        run.activity.early_interrupts = early;
        let found = diagnose(&run.facts(Accuracy::Exact));
        let lost = said(&found, "lost-interrupt");
        let count = evidence(lost, "interrupts that found no CQE, all controllers");
        (count.map(str::to_owned), lost.text.ends_with("or came when there was no CQE"))
    };
    assert_eq!(sentence(None), (None, false));
    assert_eq!(sentence(Some(0)), (Some("0".into()), false));
    assert_eq!(sentence(Some(7)), (Some("7".into()), true));
}
