// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks, columns, colour, and outcomes other than plain success.

use super::sample::{
    DISK, NONE, asked_read, event, json, json_in, outcome, read, text, with_stages,
};
use nvme_deep::model::event::{CompletionStatus, CtrlState, Event, EventKind, Outcome};
use nvme_deep::model::stack::{Frame, Symbol};
use nvme_deep::model::stage::StageSet;
use nvme_deep::nvme::status::Status;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, EventSink, TraceJson, TraceText};

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
    let mut view = TraceText::new(theme, false, Clock::Mono, None);
    let kstack = view.stack(&frames());
    assert_eq!(kstack, "    nvme_setup_cmd+0x1b2 [nvme_core]\n    0xffffffff81000000\n");
    let cx = Context { kstack: &kstack, kstack_complete: "    irq\n", ..DISK };
    let mut shown = |what| {
        view.event(&event(what), &cx);
        let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
        text.split_once('\n').unwrap().1.to_owned()
    };
    assert_eq!(shown(EventKind::Submit(read(), asked_read())), kstack);
    assert_eq!(shown(EventKind::Complete(read(), outcome(0))), "    irq\n");
    let both = shown(EventKind::Command(read(), asked_read(), outcome(0)));
    assert_eq!(both, format!("{kstack}    -- completed by\n    irq\n"));
    assert_eq!(shown(EventKind::Requeue(read())), "");
}

#[test]
fn stacks_are_arrays() {
    let view = TraceJson::new(Clock::Mono, None);
    let kstack = view.stack(&frames());
    let cx = Context { kstack: &kstack, kstack_complete: &kstack, ..DISK };
    let array = r#"["nvme_setup_cmd+0x1b2 [nvme_core]","0xffffffff81000000"]"#;
    let line = json_in(EventKind::Submit(read(), asked_read()), &cx);
    assert!(line.ends_with(&format!(r#","cpu":1,"kstack":{array}"#)), "{line}");
    let line = json_in(EventKind::Complete(read(), outcome(0)), &cx);
    assert!(line.ends_with(&format!(r#","cpu":0,"kstack":{array}"#)), "{line}");
    let line = json_in(EventKind::Command(read(), asked_read(), outcome(0)), &cx);
    assert!(line.contains(&format!(r#","cpu":1,"kstack":{array},"result""#)), "{line}");
    let end = format!(r#","complete_cpu":0,"kstack_complete":{array}"#);
    assert!(line.ends_with(&end), "{line}");
}

#[test]
fn on_a_terminal_columns_stand_below_each_other() {
    let clock = Clock::Rel { begin_ns: 0 };
    let mut view = TraceText::new(Theme { color: false }, true, clock, None);
    let state = EventKind::State { ctrl: 0, state: CtrlState(1), requested: false };
    for (at_ns, what, cx) in
        [(12_000_000_001, EventKind::Requeue(read()), &DISK), (9_000_000_002, state, &NONE)]
    {
        view.event(&Event { at_ns, what }, cx);
    }
    assert_eq!(
        String::from_utf8(view.take(<[u8]>::to_vec)).unwrap(),
        "12.000000001 nvme0n1 Requeue    nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read)\n\
         --  9.000000002 -       State      nvme0: live\n"
    );
}

#[test]
fn a_retry_can_be_the_second_line_of_its_command() {
    let cx = Context { is_second_line: true, ..DISK };
    for (retries, want) in [(Some(2), ": retry 2"), (None, "")] {
        let mut view = TraceText::new(Theme { color: false }, true, Clock::Mono, None);
        view.event(&event(EventKind::Retry { id: read(), retries }), &cx);
        let line = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
        assert_eq!(line, format!("  will be tried again{want}\n"));
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let shown = |color, what: &EventKind| {
        let mut view = TraceText::new(Theme { color }, false, Clock::Mono, Some(StageSet::Basic));
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
    let red = Theme { color: true }.warn("status=0x281 (Media/Unrecovered Read Error)");
    assert!(shown(true, &failed).contains(&red));
}

#[test]
fn an_outcome_is_plain_only_if_all_its_parts_are() {
    let shown = |verdict| {
        let outcome = Outcome { verdict: Some(verdict), ..outcome(0) };
        let complete = EventKind::Complete(read(), outcome);
        let command = EventKind::Command(read(), asked_read(), outcome);
        [text(complete), text(command), json(command)]
    };
    let success = r#""status":{"value":0,"type":"generic","code":0,"name":"Success","dnr":false,"more":false,"crd":0}"#;
    for (result, retries, flags) in [(0, 0, 0), (7, 0, 0), (0, 1, 0), (0, 0, 2)] {
        let [complete, command, json] =
            shown(CompletionStatus { result, retries, flags, status: Status(0) });
        let text = |key: &str| {
            format!(
                ", res={result:#x}, retries={retries}, {key}={flags:#x}, status=0x0 (Success), driver="
            )
        };
        assert!(complete.contains(&text("flags")), "{complete}");
        assert!(command.contains(&text("rqflags")), "{command}");
        let want = format!(
            r#""result":{result},{success},"retries":{retries},"request_flags":{flags},"driver_ns":"#
        );
        assert!(json.contains(&want), "{json}");
    }
}
