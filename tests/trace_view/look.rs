// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks, columns and colour.

use super::sample::{
    DISK, NONE, asked_read, event, id, json_in, outcome, read, submission, with_stages,
};
use nvme_deep::model::event::{CtrlState, EventKind, Outcome};
use nvme_deep::model::point::Point;
use nvme_deep::model::stack::{Frame, Symbol};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Columns, Context, TraceLines};

use crate::testing::EventBuilder;

fn frames() -> [Frame; 2] {
    [
        Frame {
            address: 1,
            symbol: Some(Symbol {
                name: "nvme_setup_cmd".into(),
                offset: 0x1b2,
                module: Some("nvme_core".into()),
            }),
        },
        Frame { address: 0xffff_ffff_8100_0000, symbol: None },
    ]
}

#[test]
fn stacks_stand_below() {
    let theme = Theme { color: false };
    let mut view = TraceLines::long(theme, Clock::Mono, None);
    let kstack = view.stack(&frames());
    assert_eq!(kstack, "    nvme_setup_cmd+0x1b2 [nvme_core]\n    0xffffffff81000000\n");
    let mut shown = |what, [kstack, kstack_complete]: [&str; 2]| {
        view.event(&event(what), &Context { kstack, kstack_complete, ..DISK });
        let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(shown(EventKind::Submit(read(), asked_read()), [&kstack, ""]), kstack);
    assert_eq!(shown(EventKind::Complete(read(), outcome(0)), ["", "    irq\n"]), "    irq\n");
    let command = EventKind::Command(read(), asked_read(), outcome(0));
    let both = shown(command, [&kstack, "    irq\n"]);
    assert_eq!(both, format!("{kstack}    -- completed by\n    irq\n"));
}

#[test]
fn stacks_are_arrays() {
    let view = TraceLines::json(Clock::Mono, None);
    let kstack = view.stack(&frames());
    let cx = Context { kstack: &kstack, kstack_complete: &kstack, ..DISK };
    let array = r#"["nvme_setup_cmd+0x1b2 [nvme_core]","0xffffffff81000000"]"#;
    let line = json_in(EventKind::Submit(read(), asked_read()), &cx);
    assert!(line.ends_with(&format!(r#","cpu":1,"kstack":{array}"#)), "{line}");
    let line = json_in(EventKind::Complete(read(), outcome(0)), &cx);
    assert!(line.contains(&format!(r#","cpu":0,"kstack":{array},"result""#)), "{line}");
    let line = json_in(EventKind::Command(read(), asked_read(), outcome(0)), &cx);
    assert!(line.contains(&format!(r#","cpu":1,"kstack":{array},"result""#)), "{line}");
    let end = format!(r#","complete_cpu":0,"kstack_complete":{array}"#);
    assert!(line.ends_with(&end), "{line}");
}

/// Events of all kinds that columns show.
fn shown_in_columns(width: usize, chosen: Option<&Columns>, has_submitters: bool) -> String {
    let theme = Theme { color: false };
    let clock = Clock::Rel { begin_ns: 12_345_000_000_000 };
    let mut view = TraceLines::columns(theme, clock, Some(StageSet::Fine), chosen, width)
        .with_largest_stages()
        .with_pages(Some(15));
    let path = view.stack(&frames());
    let long = Context { disk: "nvme123c456n789", kstack: &path, has_submitters, ..DISK };
    let who = |pid, comm: &[u8]| {
        let mut submission = asked_read();
        (submission.pid, submission.comm) = (pid, [0; 16]);
        submission.comm[..comm.len()].copy_from_slice(comm);
        submission
    };
    let (id, log) = (read(), id(QueueKind::Admin, 2));
    // the doorbell was not observed
    let points = [0, 0, 100_000, 0, 0, 0, 183_200, 185_200, 0];
    let merged = Outcome { timeline: Some(Timeline::new(points, 0b010_0000)), ..outcome(0) };
    let state = |state| EventKind::State { ctrl: 0, state: CtrlState(state), requested: true };
    let of_log = submission(&log, [0x03ff_0002, 0, 0, 0, 0, 0], Some(4096));
    let age_ns = 2_170_000_000;
    for (what, cx) in [
        (EventKind::Command(id, asked_read(), with_stages()), &Context { has_submitters, ..DISK }),
        (EventKind::Command(id, who(7, b""), merged), &DISK),
        (EventKind::Command(id, who(4_194_303, b"kworker/u256:31"), with_stages()), &long),
        (EventKind::Command(log, of_log, outcome(0)), &NONE),
        (EventKind::Command(id, asked_read(), outcome(0x281)), &DISK),
        (EventKind::Retry { id, retries: Some(1) }, &Context { is_second_line: true, ..DISK }),
        (EventKind::Retry { id, retries: None }, &DISK),
        (EventKind::Unfinished { id, submission: asked_read(), age_ns }, &DISK),
        (EventKind::Timeout { id, age_ns }, &DISK),
        (EventKind::Cancel { id, age_ns }, &DISK),
        (EventKind::Sq { ctrl: 0, qid: 3, id: Some(id), head: 12, tail: 14 }, &DISK),
        (EventKind::AsyncEvent { ctrl: 0, event: AsyncEvent(0x000c_0302) }, &NONE),
        (state(2), &NONE),
        (state(7), &NONE),
    ] {
        view.event(&event(what), cx);
    }
    String::from_utf8(view.take(<[u8]>::to_vec)).unwrap()
}

#[test]
fn columns_fit_80_and_120() {
    for (width, has_submitters) in [(80, false), (120, true)] {
        let text = shown_in_columns(width, None, has_submitters);
        insta::assert_snapshot!(format!("columns_{width}"), text);
    }
}

#[test]
fn columns_can_be_chosen() {
    let chosen = Columns::parse("total, OP,mostly,status,retries,ctrl").unwrap();
    insta::assert_snapshot!(shown_in_columns(80, Some(&chosen), false));
}

#[test]
fn a_command_that_takes_ten_times_the_usual_is_bold() {
    let mut views = [true, false].map(|color| {
        TraceLines::columns(Theme { color }, Clock::Mono, Some(StageSet::Basic), None, 80)
    });
    let mut is_bold = |latency_ns| {
        let end = 12_345_678_901_234;
        let points = [(Point::SetupOut, end - latency_ns), (Point::Complete, end)];
        let what = EventBuilder::read().latency(latency_ns).points(&points).command().what;
        let [colored, plain] = views.each_mut().map(|view| {
            view.event(&event(what), &DISK);
            let text = view.take(|text| String::from_utf8(text.to_vec()).unwrap());
            text.lines().last().unwrap().to_owned()
        });
        assert!(colored == plain || colored == Theme { color: true }.head(&plain), "{colored}");
        colored != plain
    };
    let latency = |n: u64| if n % 50 == 40 { 1_100_000 } else { 80_000 + n * 100 };
    let bold: Vec<u64> = (0..200).filter(|n| is_bold(latency(*n))).collect();
    assert_eq!(bold, [40, 90, 140, 190]);
}

#[test]
fn colour_adds_nothing_but_colour() {
    let shown = |color, what: &EventKind| {
        let mut view = TraceLines::long(Theme { color }, Clock::Mono, Some(StageSet::Basic));
        view.event(&event(*what), &DISK);
        String::from_utf8(view.take(<[u8]>::to_vec)).unwrap()
    };
    let failed = EventKind::Command(read(), asked_read(), outcome(0x281));
    for what in [&failed, &EventKind::Command(read(), asked_read(), with_stages())] {
        let colored = shown(true, what);
        let mut plain = String::new();
        for part in colored.split('\x1b') {
            let at = part.find('m').filter(|_| part.starts_with('['));
            plain.push_str(at.map_or(part, |at| &part[at + 1..]));
        }
        assert_eq!(plain, shown(false, what));
    }
    let red = Theme { color: true }.warn("0x281 (Media/Unrecovered Read Error)");
    assert!(shown(true, &failed).contains(&red));
}
