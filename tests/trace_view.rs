// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output for each event of a trace, as text and as JSON.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "trace_view/any.rs"]
mod any;
#[path = "trace_view/look.rs"]
mod look;
#[path = "trace_view/sample.rs"]
mod sample;
mod testing;

use nvme_deep::model::event::{CtrlState, EventKind, Outcome, Submission};
use nvme_deep::model::origin::Bios;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};
use sample::{
    DISK, NONE, READ, READ_FIELDS, SUCCESS, asked_read, event, id, json, json_in, outcome, read,
    submission, text, text_in, with_stages,
};

#[test]
fn a_submission() {
    assert_eq!(
        text(EventKind::Submit(read(), asked_read())),
        "nvme0n1 Submit nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read), flags=0x0, meta=0x0, \
         slba=2048, len=7, nlb=8, ctrl=0x0, dsmgmt=0, reftag=0, bytes=4096, pid=1234, comm=fio, cpu=1"
    );
    assert_eq!(
        json(EventKind::Submit(read(), asked_read())),
        format!(r#""submit" {READ},{READ_FIELDS}"#)
    );
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

#[test]
fn an_admin_command_has_no_disk() {
    let log = id(QueueKind::Admin, 2);
    // the command requests 4096 bytes of the SMART log, and transfers 4096
    let submission = submission(&log, [0x03ff_0002, 0, 0, 0, 0, 0], Some(4096));
    assert_eq!(
        text_in(EventKind::Submit(log, submission), &NONE),
        "- Submit nvme0: qid=0, cid=4544, nsid=1, opcode=2 (get-log-page), flags=0x0, meta=0x0, \
         lid=0x2:smart, numd=1023, bytes=4096, lpo=0, rae=0, pid=1234, comm=fio, cpu=1"
    );
    let other = Submission { bytes: Some(512), tid: 1240, ..submission };
    let line = text_in(EventKind::Submit(log, other), &NONE);
    assert!(line.ends_with("rae=0, transfer=512, pid=1234, tid=1240, comm=fio, cpu=1"));
    let json = json_in(EventKind::Submit(log, submission), &NONE);
    let begin = r#""submit" "qid":0,"cid":4544,"nsid":1,"queue":"admin","opcode":"get-log-page","opcode_value":2,"flags":0,"metadata":false,"fields":{"lid":{"code":2,"name":"smart"},"numd":1023,"bytes":4096,"#;
    assert!(json.starts_with(begin), "{json}");
}

#[test]
fn a_command_without_fields_bytes_or_name() {
    let flush = id(QueueKind::Io, 0);
    for bytes in [None, Some(0)] {
        assert_eq!(
            text(EventKind::Submit(flush, submission(&flush, [0; 6], bytes))),
            "nvme0n1 Submit nvme0: qid=3, cid=4544, nsid=1, opcode=0 (flush), flags=0x0, meta=0x0, \
             pid=1234, comm=fio, cpu=1"
        );
    }
    let line = json(EventKind::Submit(flush, submission(&flush, [0; 6], None)));
    assert!(line.contains(r#""fields":{},"pid""#), "{line}");
    let vendors = id(QueueKind::Io, 0x9d);
    let line = text(EventKind::Complete(vendors, outcome(0)));
    assert!(line.contains("opcode=157 (0x9d), cpu=0, res"), "{line}");
    let line = json(EventKind::Complete(vendors, outcome(0)));
    assert!(line.contains(r#""opcode":"0x9d","opcode_value":157"#), "{line}");
}

#[test]
fn a_completion_has_the_name_that_its_submission_had() {
    let key_value = Context { set: CommandSet::KeyValue, ..DISK };
    let line = text_in(EventKind::Complete(id(QueueKind::Io, 1), outcome(0)), &key_value);
    assert!(line.contains("opcode=1 (kv-store)"), "{line}");
    let line = text(EventKind::Complete(id(QueueKind::Admin, 0x7f), outcome(0)));
    assert!(line.contains("opcode=127 (fabrics-connect)"), "{line}");
}

#[test]
fn a_completion() {
    assert_eq!(
        text(EventKind::Complete(read(), outcome(0))),
        "nvme0n1 Complete nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read), cpu=0, res=0x0, \
         status=0x0 (Success), retries=0, rqflags=0x0, driver=85.2us"
    );
    assert_eq!(
        json(EventKind::Complete(read(), outcome(0))),
        format!(r#""complete" {READ},"cpu":0,{SUCCESS},"driver_ns":85200"#)
    );
}

#[test]
fn stages_follow_their_total() {
    let line = text(EventKind::Complete(read(), with_stages()));
    let end = ", queue=1.20us, submit=3.00us, device=80.2us, complete=2.00us, total=86.4us";
    assert!(line.ends_with(end), "{line}");
    assert_eq!(
        json(EventKind::Command(read(), asked_read(), with_stages())),
        format!(
            r#""command" {READ},{READ_FIELDS},{SUCCESS},"driver_ns":85200,"points_ns":{{"start":98800,"setup_out":100000,"doorbell":103000,"cqe":183200,"complete":185200}},"stages":[{{"name":"queue","ns":1200}},{{"name":"submit","ns":3000}},{{"name":"device","ns":80200}},{{"name":"complete","ns":2000}}],"total_ns":86400,"complete_cpu":0"#
        )
    );
}

#[test]
fn several_bios_are_counted_in_text_and_any_number_in_json() {
    for (bios, shown, counted) in [
        (
            Bios::new(16, 2_100_000),
            ", bios=16, longest_wait=2.10ms",
            r#","bios":16,"longest_wait_ns":2100000"#,
        ),
        (Bios::new(1, 700), "", r#","bios":1,"longest_wait_ns":700"#),
        (Bios::default(), "", ""),
    ] {
        let outcome = Outcome { bios, ..outcome(0) };
        let line = text(EventKind::Complete(read(), outcome));
        assert!(line.ends_with(&format!("driver=85.2us{shown}")), "{line}");
        let line = json(EventKind::Complete(read(), outcome));
        let end = format!(r#""driver_ns":85200{counted}"#);
        assert!(line.ends_with(&end), "{line}");
    }
}

#[test]
fn a_total_begins_at_the_first_observed_point_and_joined_stages_say_so() {
    let points = [0, 0, 100_000, 0, 0, 0, 183_200, 185_200, 0];
    let outcome = Outcome { timeline: Some(Timeline::new(points, 0b010_0000)), ..outcome(0) };
    let line = text(EventKind::Complete(read(), outcome));
    let end = ", submit+device=83.2us, complete=2.00us, total=85.2us";
    assert!(line.ends_with(end), "{line}");
    let line = json(EventKind::Complete(read(), outcome));
    let end = r#""stages":[{"name":"submit+device","ns":83200},{"name":"complete","ns":2000}],"total_ns":85200"#;
    assert!(line.ends_with(end), "{line}");
}

#[test]
fn points_out_of_order_have_no_stages() {
    let points = [0, 0, 100_000, 0, 190_000, 0, 183_200, 185_200, 0];
    let outcome = Outcome { timeline: Some(Timeline::new(points, 0b010_1000)), ..outcome(0) };
    let line = text(EventKind::Complete(read(), outcome));
    assert!(line.ends_with("driver=85.2us"), "{line}");
    let line = json(EventKind::Complete(read(), outcome));
    assert!(line.ends_with(r#""stages":[],"total_ns":85200"#), "{line}");
}

#[test]
fn a_pair_is_one_line() {
    assert_eq!(
        text(EventKind::Command(read(), asked_read(), outcome(0))),
        "nvme0n1 Command nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read), flags=0x0, meta=0x0, \
         slba=2048, len=7, nlb=8, ctrl=0x0, dsmgmt=0, reftag=0, bytes=4096, pid=1234, comm=fio, \
         res=0x0, status=0x0 (Success), retries=0, rqflags=0x0, driver=85.2us"
    );
}

#[test]
fn a_status_says_all_that_is_in_it() {
    let status = |status| {
        let line = text(EventKind::Complete(read(), outcome(status)));
        let (_, rest) = line.split_once(" status=").unwrap();
        rest.split_once(", retries").unwrap().0.to_owned()
    };
    assert_eq!(status(0x0281), "0x281 (Media/Unrecovered Read Error)");
    assert_eq!(status(0x7109), "0x7109 (Command Specific/Invalid Log Page CRD2 MORE DNR)");
    assert_eq!(status(0x2000), "0x2000 (Success MORE)");
    assert_eq!(status(0x0512), "0x512 (Type 0x5/Unknown)");
    assert_eq!(status(0x0371), "0x371 (Path/Command Aborted By Host)");
    let line = json(EventKind::Complete(read(), outcome(0x7109)));
    let want = r#""status":{"value":28937,"type":"command_specific","code":9,"name":"Invalid Log Page","dnr":true,"more":true,"crd":2},"#;
    assert!(line.contains(want), "{line}");
    let line = json(EventKind::Complete(read(), outcome(0x0512)));
    assert!(line.contains(r#""type":"reserved","code":18,"name":null,"#), "{line}");
}

#[test]
fn without_the_drivers_word_there_is_a_question_mark() {
    let outcome = Outcome { verdict: None, ..outcome(0) };
    let line = text(EventKind::Complete(read(), outcome));
    assert!(line.ends_with("opcode=2 (read), cpu=0, status=?, driver=85.2us"), "{line}");
    let want = format!(r#""complete" {READ},"cpu":0,"status":null,"driver_ns":85200"#);
    assert_eq!(json(EventKind::Complete(read(), outcome)), want);
}

#[test]
fn what_goes_wrong_and_what_is_left() {
    let (id, age_ns) = (read(), 2_000_000_000);
    let submission = asked_read();
    let retry = |retries| EventKind::Retry { id, retries };
    let read_text = "nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read)";
    for (what, name, end, json_name, json_end) in [
        (
            EventKind::Timeout { id, age_ns },
            "-- nvme0n1 Timeout",
            ", age=2.00s",
            "timeout",
            r#","age_ns":2000000000"#,
        ),
        (
            EventKind::Cancel { id, age_ns },
            "-- nvme0n1 Cancel",
            ", age=2.00s",
            "cancel",
            r#","age_ns":2000000000"#,
        ),
        (EventKind::Requeue(id), "nvme0n1 Requeue", "", "requeue", ""),
        (retry(Some(1)), "nvme0n1 Retry", ", retries=1", "retry", r#","retries":1"#),
        (retry(None), "nvme0n1 Retry", "", "retry", ""),
    ] {
        assert_eq!(text(what), format!("{name} {read_text}{end}"));
        assert_eq!(json(what), format!(r#""{json_name}" {READ}{json_end}"#));
    }
    let unfinished = EventKind::Unfinished { id, submission, age_ns };
    let line = text(unfinished);
    assert!(line.ends_with("bytes=4096, pid=1234, comm=fio, cpu=1, age=2.00s"), "{line}");
    let want = format!(r#""unfinished" {READ},{READ_FIELDS},"age_ns":2000000000"#);
    assert_eq!(json(unfinished), want);
}

#[test]
fn events_of_the_controller() {
    let unknown = EventKind::Sq { ctrl: 0, qid: 3, id: None, head: 12, tail: 14 };
    assert_eq!(text(unknown), "nvme0n1 Sq nvme0: qid=3, sq_head=12, sq_tail=14");
    let sq = EventKind::Sq { ctrl: 0, qid: 3, id: Some(read()), head: 12, tail: 14 };
    assert_eq!(
        text(sq),
        "nvme0n1 Sq nvme0: qid=3, cid=4544, nsid=1, opcode=2 (read), sq_head=12, sq_tail=14"
    );
    assert_eq!(json(sq), format!(r#""sq" {READ},"sq_head":12,"sq_tail":14"#));
    let tells = EventKind::AsyncEvent { ctrl: 0, event: AsyncEvent(0x000c_0302) };
    assert_eq!(
        text_in(tells, &NONE),
        "-- - AsyncEvent nvme0: result=0xc0302, type=2:notice, info=3:ana-change, lid=0xc:ana"
    );
    assert_eq!(
        json_in(tells, &NONE),
        r#""async_event" "result":787202,"fields":{"type":{"code":2,"name":"notice"},"info":{"code":3,"name":"ana-change"},"lid":{"code":12,"name":"ana"}}"#
    );
    let state = |state, requested| EventKind::State { ctrl: 0, state: CtrlState(state), requested };
    assert_eq!(text_in(state(2, false), &NONE), "-- - State nvme0: resetting");
    assert_eq!(text_in(state(1, true), &NONE), "-- - State nvme0: live (asked)");
    assert_eq!(text_in(state(7, false), &NONE), "-- - State nvme0: unknown (7)");
    assert_eq!(
        json_in(state(5, true), &NONE),
        r#""state" "state":"deleting (no IO)","state_value":5,"asked":true"#
    );
    assert_eq!(
        json_in(state(7, false), &NONE),
        r#""state" "state":null,"state_value":7,"asked":false"#
    );
}

#[test]
fn a_thread_may_call_itself_anything() {
    let comm = |name: &[u8]| {
        let mut submission = asked_read();
        submission.comm = [0; 16];
        submission.comm[..name.len()].copy_from_slice(name);
        let what = EventKind::Submit(read(), submission);
        let (text, json) = (text(what), json(what));
        let text = text.split_once("comm=").unwrap().1.strip_suffix(", cpu=1");
        let json = json.split_once(r#""comm":"#).unwrap().1.strip_suffix(r#","cpu":1"#);
        (text.unwrap().to_owned(), json.unwrap().to_owned())
    };
    for (name, want, want_json) in [
        (&b"kworker/3:1H-nvm"[..], "kworker/3:1H-nvm", r#""kworker/3:1H-nvm""#),
        (b"a b, c=d", r#""a b, c=d""#, r#""a b, c=d""#),
        (b"\"it's\\", r#""\"it's\\""#, r#""\"it's\\\\""#),
        (b"\n\x1b[1m\x7f", r#""\n\u{1b}[1m\u{7f}""#, r#""\\n\\u{1b}[1m\\u{7f}""#),
        ("grün\u{9b}".as_bytes(), r#""grün\u{9b}""#, r#""grün\\u{9b}""#),
        (b"\xffx\xc3", r#""\xffx\xc3""#, r#""\\xffx\\xc3""#),
        (b"", r#""""#, r#""""#),
    ] {
        assert_eq!(comm(name), (want.to_owned(), want_json.to_owned()));
    }
}
