// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder of contrib, as a service: a file for each trigger, and the run goes on.

use serde_json::Value;

use super::guest::{Outcome, Suite};

const RECORDER: Suite = Suite {
    append: "nvme_core.io_timeout=1",
    ..Suite::of(
        "recorder",
        &["nvme_null nvme0 0", "nvme_null nvme1 0", "nvme_null nvme2 7000000000 ns:ms=8 ns:mset=1"],
    )
};

fn lines(outcome: &Outcome, file: &str) -> Vec<String> {
    outcome.text("recorder", file).lines().map(str::to_owned).collect()
}

/// The file of the timeout has what led to it, from the start of the service on.
fn the_first_file_is_complete(outcome: &Outcome) {
    let info = &outcome.lines("recorder", "info-first")[0];
    let ring = info["ring"].as_str().unwrap();
    assert!(ring.contains("before: timeout on nvme2"), "{info}");
    assert!(info["flaw"].is_null(), "{info}");
    for lost in ["ring_drops", "no_row", "untracked", "unrecovered", "overwritten"] {
        assert_eq!(info["ledger"][lost], 0, "{lost}: {info}");
    }
    let events = outcome.lines("recorder", "trace-first");
    let commands = |opcode: &str, disk: &str| {
        let is_it = |e: &&Value| e["type"] == "command" && e["opcode"] == opcode;
        events.iter().filter(is_it).filter(|e| e["ctrl"] == disk).count()
    };
    assert_eq!(commands("read", "nvme0"), 500);
    assert!(events.iter().any(|e| e["type"] == "timeout" && e["ctrl"] == "nvme2"));
    // who sent admin commands
    let admin = events.iter().filter(|e| e["type"] == "command" && e["qid"] == 0);
    let callers: Vec<&Value> = admin.map(|e| &e["comm"]).collect();
    assert!(callers.iter().any(|comm| comm.is_string()), "{callers:?}");
    // cgroups, and basic stages
    assert!(events.iter().any(|e| e["cgroup_id"].is_u64()));
    let report = outcome.text("recorder", "report.html");
    let (_, log) = report.rsplit_once("<h2>Kernel log</h2>").expect("a kernel log");
    assert!(log.contains("nvme nvme2: ") && log.contains("timeout"), "{log}");
}

fn each_trigger_has_a_file_and_the_oldest_go(outcome: &Outcome) {
    let said = outcome.text("recorder", "recorder.err");
    let [first, third, full, fourth, stopped] =
        ["first", "third", "full", "fourth", "stopped"].map(|name| lines(outcome, name));
    // two timeouts, then two resets
    assert_eq!(first.len(), 2, "{said}");
    assert!(third.len() == 2 && third[0] > first[1], "{third:?}: {said}");
    // a file that has no room is not left behind, and those before it stay
    assert_eq!(full, third, "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(fourth.len() == 2 && fourth[0] == third[1], "{fourth:?}: {said}");
    assert_eq!(stopped, fourth, "a stop writes no file");
    // the ring has not begun anew
    let events = outcome.lines("recorder", "trace-third");
    let is_read = |e: &&Value| e["opcode"] == "read" && e["ctrl"] == "nvme0";
    assert!(events.iter().filter(is_read).count() >= 500, "{said}");
    let info = &outcome.lines("recorder", "info-third")[0];
    assert!(info["ring"].as_str().unwrap().ends_with("before: reset of nvme1"), "{info}");
}

fn the_service_ends_well(outcome: &Outcome) {
    let said = outcome.text("recorder", "recorder.err");
    assert_eq!(outcome.text("recorder", "result"), "success\n0\n", "{said}");
    let words = outcome.text("recorder", "words");
    assert!(words.contains("--trigger timeout,reset,slow=1s --keep 20"), "{words}");
    // the unit's sandbox was in force: CAP_BPF, CAP_PERFMON, CAP_SYSLOG and CAP_SYS_ADMIN
    let status = outcome.text("recorder", "status");
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap().trim();
    let want = 1_u64 << 39 | 1 << 38 | 1 << 34 | 1 << 21;
    assert_eq!(u64::from_str_radix(bounds, 16), Ok(want), "{status}");
}

super::on_kernels! {
    suite RECORDER [
        the_first_file_is_complete each_trigger_has_a_file_and_the_oldest_go the_service_ends_well
    ] {
        | only_in_test_all on_6_12 "6.12"
    }
}
