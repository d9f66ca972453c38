// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output for each event of a trace, as text and as JSON.

mod any;
mod look;
mod sample;

use std::fmt::Write;

use crate::testing::comm;
use nvme_deep::model::event::{CompletionStatus, CtrlState, EventKind, Outcome, Submission};
use nvme_deep::model::origin::Bios;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::status::Status;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};
use sample::{
    DISK, NONE, asked_read, event, id, json_in, outcome, read, submission, text, text_in,
    with_stages,
};

/// What is printed of these events, each after its name.
fn printed(cases: &[(&str, EventKind, Context<'_>)]) -> String {
    let mut all = String::new();
    for (name, what, cx) in cases {
        writeln!(all, "# {name}\n{}\n{}\n", text_in(*what, cx), json_in(*what, cx)).unwrap();
    }
    all
}

#[test]
fn submissions_and_completions() {
    use EventKind::{Command, Complete, Submit};
    let admin = |code| id(QueueKind::Admin, code);
    let (log, flush) = (admin(2), id(QueueKind::Io, 0));
    // the command requests 4096 bytes of the SMART log
    let of_log = submission(&log, [0x03ff_0002, 0, 0, 0, 0, 0], Some(4096));
    let other = Submission { bytes: Some(512), tid: 1240, ..of_log };
    let of_flush = |bytes| Submit(flush, submission(&flush, [0; 6], bytes));
    let key_value = Context { set: CommandSet::KeyValue, ..DISK };
    let lined = |points, pattern| {
        Complete(read(), Outcome { timeline: Some(Timeline::new(points, pattern)), ..outcome(0) })
    };
    let plain = |verdict| Outcome { verdict, ..outcome(0) };
    let bios = |bios| Complete(read(), Outcome { bios, ..outcome(0) });
    let named = |name: &[u8]| Submit(read(), Submission { comm: comm(name), ..asked_read() });
    insta::assert_snapshot!(printed(&[
        ("a submission", Submit(read(), asked_read()), DISK),
        ("a thread that calls itself so", named(b"a b, c=\"\x1b\xff"), DISK),
        ("a thread without a name", named(b""), DISK),
        ("an admin command has no disk", Submit(log, of_log), NONE),
        ("it transfers less, by another thread", Submit(log, other), NONE),
        ("no fields, bytes unknown", of_flush(None), DISK),
        ("no fields, no bytes", of_flush(Some(0)), DISK),
        ("an opcode without a name", Complete(id(QueueKind::Io, 0x9d), outcome(0)), DISK),
        ("another command set", Complete(id(QueueKind::Io, 1), outcome(0)), key_value),
        ("fabrics", Complete(admin(0x7f), outcome(0)), DISK),
        ("a completion", Complete(read(), outcome(0)), DISK),
        ("its outcome is not known", Complete(read(), plain(None)), DISK),
        ("a pair", Command(read(), asked_read(), outcome(0)), DISK),
        ("stages, then their total", Command(read(), asked_read(), with_stages()), DISK),
        (
            "a total begins at the first point",
            lined([0, 0, 100_000, 0, 0, 0, 183_200, 185_200, 0], 0x20),
            DISK
        ),
        (
            "points out of order",
            lined([0, 0, 100_000, 0, 190_000, 0, 183_200, 185_200, 0], 0x28),
            DISK
        ),
        ("several bios", bios(Bios::new(16, 2_100_000)), DISK),
        ("one bio", bios(Bios::new(1, 700)), DISK),
    ]));
}

#[test]
fn outcomes() {
    let statuses = [0x0281, 0x7109, 0x2000, 0x0512, 0x0371];
    let statuses = statuses.map(|status| outcome(status).verdict.unwrap());
    // an outcome is plain only if all its parts are
    let parts = [(7, 0, 0), (0, 1, 0), (0, 0, 2)];
    let parts = parts.map(|(result, retries, flags)| CompletionStatus {
        result,
        retries,
        flags,
        status: Status(0),
    });
    let mut all = String::new();
    for verdict in statuses.into_iter().chain(parts) {
        let outcome = Outcome { verdict: Some(verdict), ..outcome(0) };
        let both = [
            ("a completion", EventKind::Complete(read(), outcome), DISK),
            ("a pair", EventKind::Command(read(), asked_read(), outcome), DISK),
        ];
        // what the other snapshot has is left out
        for line in printed(&both).lines() {
            let from = ["res=", "\"result\""].iter().find_map(|key| line.find(key)).unwrap_or(0);
            writeln!(all, "{}", &line[from..]).unwrap();
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn what_goes_wrong_and_what_is_left() {
    let (id, age_ns, submission) = (read(), 2_000_000_000, asked_read());
    let retry = |retries| EventKind::Retry { id, retries };
    let sq = |id| EventKind::Sq { ctrl: 0, qid: 3, id, head: 12, tail: 14 };
    let state = |state, requested| EventKind::State { ctrl: 0, state: CtrlState(state), requested };
    insta::assert_snapshot!(printed(&[
        ("timeout", EventKind::Timeout { id, age_ns }, DISK),
        ("cancel", EventKind::Cancel { id, age_ns }, DISK),
        ("requeue", EventKind::Requeue(id), DISK),
        ("retry", retry(Some(1)), DISK),
        ("retry without a number", retry(None), DISK),
        ("unfinished", EventKind::Unfinished { id, submission, age_ns }, DISK),
        ("queue of an unknown command", sq(None), DISK),
        ("queue", sq(Some(id)), DISK),
        (
            "event of the controller",
            EventKind::AsyncEvent { ctrl: 0, event: AsyncEvent(0x000c_0302) },
            NONE
        ),
        ("state", state(2, false), NONE),
        ("asked for", state(1, true), NONE),
        ("deleting", state(5, true), NONE),
        ("unknown", state(7, false), NONE),
    ]));
}

/// The fields after the start LBA are written again if the next command has the same.
#[test]
fn fields_are_the_same_whatever_the_command_before_had() {
    let commands = [(2, 8, 7), (2, 16, 7), (2, 16, 0), (1, 16, 0), (1, 0, 0), (2, 0, 7)];
    let mut views = [
        TraceLines::json(Clock::Mono, None),
        TraceLines::long(Theme { color: false }, Clock::Mono, None),
    ];
    for (code, slba, nlb) in commands {
        let id = id(QueueKind::Io, code);
        let what = EventKind::Submit(id, submission(&id, [slba, 0, nlb, 0, 0, 0], Some(512)));
        let mut line = |n: usize| {
            views[n].event(&event(what), &DISK);
            views[n].take(|line| String::from_utf8(line.to_vec()).unwrap())
        };
        assert!(line(0).contains(&format!("\"slba\":{slba},\"len\":{nlb},")));
        assert!(line(0).contains(&format!("\"opcode_value\":{code},")));
        assert!(line(1).contains(&text(what)), "{}", line(1));
    }
}
