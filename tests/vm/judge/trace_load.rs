// SPDX-License-Identifier: MIT OR Apache-2.0
//! No event is lost silently: for each kind, shown and lost events add up to the kernel's count,
//! even if the reader stops.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, kernel_counts};
use super::ledger::events;
use super::trace_known::assert_stages;
use super::trace_read::{TraceRun, lines, opcode};

const LOAD: Suite = Suite::of("traceload", &["nvme_null nvme0 0"]);

/// The kernel's counts of a case: commands set up, commands completed, CQEs. `admin` includes the
/// admin queues.
fn counted(outcome: &Outcome, case: &str, admin: bool) -> [u64; 3] {
    ["nvme_setup_cmd", "nvme_complete_rq", "nvme_sq"].map(|event| {
        let [io, admins] = events(outcome, case, event);
        io + if admin { admins } else { 0 }
    })
}

fn a_large_ring_loses_nothing(outcome: &Outcome) {
    let run = TraceRun::whole(outcome, "full", "json");
    run.assert_in_order();
    let [reads, writes, ..] = fio_counts(outcome, "full");
    let [kernel_reads, kernel_writes, ..] = kernel_counts(outcome, "full");
    assert_eq!([reads, writes], [kernel_reads, kernel_writes]);
    assert_eq!(reads + writes, 8000);
    let [setups, ends, _] = counted(outcome, "full", true);
    assert_eq!(run.count("submit"), setups);
    assert_eq!(run.count("complete"), ends);
    let pairs = run.pairs();
    let of = |code: &str| pairs.iter().filter(|p| opcode(p.0) == code).count() as u64;
    assert_eq!([of("io:0x02"), of("io:0x01")], [reads, writes]);
    let said = &run.talk;
    assert!(!said.contains(" lost in "), "{said}");

    let text_lines = lines(outcome, "full-text", "text");
    let [setups, ends, _] = counted(outcome, "full-text", false);
    let count = |name: &str| text_lines.iter().filter(|l| l.event == name).count() as u64;
    assert_eq!([count("Submit"), count("Complete")], [setups, ends]);
    let times: Vec<u64> = text_lines.iter().map(|l| l.time.parse().unwrap()).collect();
    assert!(times.is_sorted(), "TIME goes back");
    let run = TraceRun::whole(outcome, "full-text", "pairs");
    run.assert_in_order();
    assert_eq!(run.count("command"), ends);
    run.of("command").for_each(assert_stages);
}

/// The reader of the ring, or of the pipe, does not read during the load.
fn a_small_ring_loses_and_says_so(outcome: &Outcome) {
    for (case, kinds) in
        [("stopped", "events sq"), ("stopped-pairs", "pairs"), ("sleeping", "events")]
    {
        let run = TraceRun::read(outcome, case, "json");
        run.assert_balanced();
        run.assert_in_order();
        let [setups, ends, entries] = counted(outcome, case, true);
        let ledger = &run.ledger;
        if kinds.contains("events") {
            assert_eq!(run.count("submit") + run.entry("lost_submits"), setups, "{case}: {ledger}");
            assert_eq!(
                run.count("complete") + run.entry("lost_completions"),
                ends,
                "{case}: {ledger}"
            );
        } else {
            assert_eq!(
                run.count("command") + run.entry("lost_completions"),
                ends,
                "{case}: {ledger}"
            );
        }
        if kinds.contains("sq") {
            assert_eq!(run.count("sq") + run.entry("lost_events"), entries, "{case}: {ledger}");
        }
        assert!(run.lost() > 0, "{case}: 64 KiB were enough? {ledger}");
        assert!(run.talk.contains("lost"), "{case}: {}", run.talk);
        assert_eq!(run.entry("not_written"), 0, "{case}: {ledger}");
    }
}

/// The number before `words` in a message.
fn number_before(said: &str, words: &str) -> u64 {
    let end = said.find(words).unwrap_or_else(|| panic!("no `{words}` in {said}"));
    let before = said[..end].trim_end();
    let begin = before.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |n| n + 1);
    before[begin..].parse().unwrap()
}

fn a_full_disk_is_an_error_with_a_number(outcome: &Outcome) {
    for form in ["text", "json"] {
        let case = format!("disk-{form}");
        let said = outcome.text(&case, &format!("{form}.err"));
        assert_eq!(outcome.code(&case, form), 1, "{said}");
        let complaints = said.lines().filter(|l| l.contains("cannot write to stdout"));
        assert_eq!(complaints.count(), 1, "{said}");
        assert!(!said.contains("panicked"), "{said}");
        let file = outcome.text(&case, &format!("{form}.out"));
        assert!(file.len() > 1 << 19, "{form}: {} bytes", file.len());
        assert!(file.ends_with('\n'), "{form}: the last line is cut");
        let shown = if form == "text" {
            lines(outcome, &case, form).len()
        } else {
            for line in file.lines() {
                let event: Result<Value, _> = serde_json::from_str(line);
                assert!(event.is_ok(), "{line}");
            }
            file.lines().count()
        };
        let [setups, ends, _] = counted(outcome, &case, true);
        // it stops tracing when it can't write, so that later events are never collected
        let missing = number_before(&said, "events");
        assert!(missing > 0, "{said}");
        assert!(shown as u64 + missing <= setups + ends, "{form}: {shown} {said}");
    }
}

super::on_kernels! {
    load LOAD [
        a_large_ring_loses_nothing a_small_ring_loses_and_says_so
        a_full_disk_is_an_error_with_a_number
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_6_1_rt "6.1-rt"
        on_7_x "7.x"
    }
}
