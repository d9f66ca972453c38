// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side: what nvmet and QEMU did, and the join with the driver's records.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, list, number, of, text};

const HOST: Suite = Suite {
    append: "nvme_core.multipath=N",
    ..Suite::of("host", &["nvme_null nvme0 0", "nvme_null nvme1 4000000"])
};

/// Delay of the disk behind the target.
const DELAY_NS: u64 = 4_000_000;

fn last<'a>(lines: &'a [Value], kind: &str) -> &'a Value {
    let last = lines.last().unwrap();
    assert_eq!(last["type"], kind, "{last}");
    last
}

/// The sum of the parts is the total. No part is negative.
fn assert_parts(lines: &[Value], what: &str) {
    for command in of(lines, "join_command") {
        let parts = list(command, "stages");
        let sum: u64 = parts.iter().map(|part| number(part, "ns")).sum();
        assert_eq!(sum, number(command, "total_ns"), "{what}: {command}");
    }
}

fn every_command_of_nvmet_is_joined(outcome: &Outcome) {
    let what = outcome.kernel();
    let served = outcome.objects("join", "from");
    let end = last(&served, "host_end");
    assert_eq!(end["exact"], true, "{what}: {end}");
    let commands = of(&served, "command").len() as u64;
    for clock in ["same", "pairs"] {
        let what = format!("{what} {clock}");
        let lines = outcome.objects("join", clock);
        let join = last(&lines, "join");
        assert_eq!(text(join, "clock"), clock, "{what}");
        for none in ["unmatched_guest", "unmatched_host", "ambiguous_guest", "ambiguous_host"] {
            assert_eq!(number(join, none), 0, "{what}: {join}");
        }
        assert_eq!(number(join, "matched"), commands, "{what}: {join}");
        assert_eq!(list(join, "notes").len(), 0, "{what}: {join}");
        let io: u64 = of(&lines, "join_row")
            .iter()
            .filter(|row| ["read", "write"].contains(&text(row, "opcode")))
            .map(|row| number(&row["total"], "count"))
            .sum();
        let fio: u64 = fio_counts(outcome, "join").iter().sum();
        // the kernel's partition scan adds reads
        assert!(io >= fio && fio == 400, "{what}: {io} {fio}");
        assert_eq!(of(&lines, "join_command").len() as u64, commands, "{what}");
        assert_parts(&lines, &what);
        // both sides have one clock here: the interval must contain the truth
        let low = join["offset_low_ns"].as_i64().unwrap();
        let high = join["offset_high_ns"].as_i64().unwrap();
        assert!(low <= 0 && 0 <= high, "{what}: {join}");
        assert_eq!(join["bounded_by_cqe"], false, "{what}");
    }
    let shown = outcome.text("join", "text.out");
    assert!(shown.lines().all(|l| l.chars().count() <= 80), "{what}: {shown}");
}

/// The same commands, printed and counted by other runs at the same time.
fn all_runs_of_the_host_side_agree(outcome: &Outcome) {
    let recorded = outcome.objects("join", "from");
    let commands = number(&last(&recorded, "host_end")["ledger"], "matched");
    for name in ["print", "latency", "from-latency"] {
        let lines = outcome.objects("join", name);
        let end = last(&lines, "host_end");
        assert_eq!(number(&end["ledger"], "matched"), commands, "{name}");
        let rows = of(&lines, "report").into_iter().flat_map(|report| list(report, "rows"));
        let rows: Vec<&Value> = rows.collect();
        let counted: u64 = rows.iter().map(|row| number(row, "count")).sum();
        assert!(rows.is_empty() || counted == commands, "{name}: {counted}");
    }
    for command in of(&recorded, "command") {
        assert_eq!(text(command, "ctrl"), "nvmet:1", "{command}");
        let is_read = command["opcode"] == "read";
        assert!(!is_read || number(command, "total_ns") >= DELAY_NS, "{command}");
        assert_eq!(list(command, "stages").len(), 1, "{command}");
        assert!(command["request"].is_null(), "an address of the kernel: {command}");
    }
    let target = of(&recorded, "host_target")[0];
    assert_eq!(target["controllers"][0]["nqn"], "lab", "{target}");
    assert_eq!(target["controllers"][0]["cntlid"], 1, "{target}");
}

fn a_rejected_command_has_no_begin(outcome: &Outcome) {
    let served = outcome.objects("rejected", "from");
    let end = last(&served, "host_end");
    assert_eq!(number(&end["ledger"], "orphan_completions"), 1, "{end}");
    assert_eq!(end["exact"], true, "its end was seen: {end}");
    let rejected: Vec<_> =
        of(&served, "command").into_iter().filter(|c| c["points_ns"]["fetch"].is_null()).collect();
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    assert_eq!(number(rejected[0], "opcode_value"), 0x99, "{rejected:?}");
    assert_eq!(rejected[0]["status"]["code"], 1, "invalid opcode: {rejected:?}");
    let lines = outcome.objects("rejected", "same");
    let join = last(&lines, "join");
    assert_eq!(number(join, "matched"), 21, "{join}");
    assert_eq!(number(join, "unmatched_guest"), 0, "{join}");
    let notes = join["notes"].to_string();
    assert!(notes.contains("ends without a start on the host side: 1"), "{join}");
    assert_parts(&lines, "rejected");
}

fn a_stock_qemu_is_traced(outcome: &Outcome) {
    let found = outcome.objects("qemu", "trace");
    let end = last(&found, "host_end");
    assert_eq!(end["exact"], true, "{end}");
    let mut truth = outcome.lines("qemu", "truth");
    truth.retain(|t| t["slba"].is_u64() && t["status"] == 0);
    let commands = of(&found, "command");
    assert_eq!((commands.len(), truth.len()), (60, 60));
    let imported = outcome.objects("qemu", "import");
    let logged = of(&imported, "command");
    for (command, truth) in commands.iter().zip(&truth) {
        for key in ["qid", "cid"] {
            assert_eq!(command[key], truth[key], "{command} {truth}");
        }
        for key in ["slba", "nlb"] {
            assert_eq!(command["fields"][key], truth[key], "{command} {truth}");
        }
        // the log has the same command
        let slba = |l: &Value| l["fields"]["slba"] == truth["slba"];
        let same = |l: &&&Value| slba(l) && l["qid"] == truth["qid"];
        assert_eq!(logged.iter().filter(same).count(), 1, "{truth}");
    }
    let interrupts = |lines: &[Value]| of(lines, "interrupt").len();
    assert_eq!(interrupts(&found), interrupts(&imported));
}

fn targets_are_listed_and_refusals_are_one_sentence(outcome: &Outcome) {
    let list = outcome.objects("rejected", "list-json");
    assert_eq!(list[0]["kind"], "nvmet", "{list:?}");
    assert_eq!(list[0]["subsystems"], serde_json::json!(["lab"]));
    let shown = outcome.text("rejected", "list.out");
    assert!(shown.contains("host trace --nvmet"), "{shown}");
    outcome.assert_refused("none", "trace", 6, &["nvmet is not loaded"]);
    outcome.assert_refused("none", "nothing", 2, &["--nvmet", "--pid"]);
    outcome.assert_refused("none", "nobody", 4, &["root"]);
}

super::on_kernels! {
    suite HOST [
        every_command_of_nvmet_is_joined all_runs_of_the_host_side_agree
        a_rejected_command_has_no_begin a_stock_qemu_is_traced
        targets_are_listed_and_refusals_are_one_sentence
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1" on_7_x "7.x"
    }
}
