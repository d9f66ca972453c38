// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--disk` and `--cgroup` select exactly the commands that they name; `--exec`.

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, counts_of, list, number, text};
use super::trace_read::TraceRun;

const CHOSEN: Suite = Suite::of("chosen", &["nvme_file nvme0 134217728", "nvme_null nvme1 0"]);

/// Reads and writes of a disk or partition that the kernel counted.
fn counted(outcome: &Outcome, case: &str, name: &str) -> [u64; 2] {
    let [reads, writes, ..] = counts_of(outcome, case, &format!("stat.{name}"));
    [reads, writes]
}

/// Reads and writes that a run counted.
fn counts(run: &ToolRun) -> [u64; 2] {
    let counts = run.io_counts();
    ["read", "write"].map(|opcode| counts.get(opcode).copied().unwrap_or(0))
}

fn a_disk_selects_exactly_its_commands(outcome: &Outcome) {
    let disks = outcome.text("disk", "disks");
    let (one, other) = disks.trim().split_once(' ').unwrap();
    let [part, file_system] = ["p1", "p2"].map(|part| format!("{one}{part}"));
    for (name, of) in [
        ("whole", one),
        ("part", &part),
        ("mount", &file_system),
        ("file", &file_system),
        ("other", other),
    ] {
        let run = ToolRun::exact(outcome, "disk", name);
        let want = counted(outcome, "disk", of);
        assert_eq!(counts(&run), want, "{name}: {}", run.last);
        assert!(want[0] > 0, "{name}");
    }
    let [reads, writes] = counted(outcome, "disk", &part);
    assert_eq!(reads + writes, 40, "what fio was asked for");
    assert_eq!(counted(outcome, "disk", &file_system)[0], 60);
    assert_eq!(counted(outcome, "disk", other), [50, 0]);
}

fn what_is_no_disk_is_refused_by_name(outcome: &Outcome) {
    let disks = outcome.text("disk", "disks");
    let part = format!("{}p1", disks.split_whitespace().next().unwrap());
    for (name, code, words) in [
        ("mapper", 6, &["device-mapper", part.as_str()][..]),
        ("name", 6, &["device-mapper", &part]),
        ("null", 6, &["not an NVMe disk"]),
        ("character", 6, &["character device"]),
        ("memory", 6, &["tmpfs"]),
        ("missing", 6, &["nvme9n1", "nvme0n1"]),
        ("word", 2, &["hexadecimal"]),
        ("container", 2, &["deadbeef"]),
        ("program", 2, &["/no/such/program"]),
    ] {
        let said = outcome.text("refused", &format!("{name}.err"));
        assert_eq!(outcome.code("refused", name), code, "{name}: {said}");
        let last = said.trim().lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "{name}: no `{word}` in: {said}");
        }
        assert_eq!(outcome.text("refused", &format!("{name}.out")), "");
    }
}

fn a_program_ends_the_run_with_its_exit_code(outcome: &Outcome) {
    let run = ToolRun::ended(outcome, "exec", "code", 7);
    run.assert_exact("code");
    assert_eq!(counts(&run), [9, 0]);
    ToolRun::ended(outcome, "exec", "killed", 137);
    let run = ToolRun::exact(outcome, "exec", "interrupted");
    assert_eq!(counts(&run), [5, 0]);
    assert!(run.talk.contains("sending SIGTERM"), "{}", run.talk);
    assert_ne!(outcome.text("exec", "while"), "");
    assert_eq!(outcome.text("exec", "after"), "", "the program has ended");
}

/// Bytes that the kernel charged to the cgroup: written, read.
fn charged(outcome: &Outcome) -> [u64; 2] {
    let sum = |when: &str, field: &str| -> u64 {
        let stat = outcome.text("container", &format!("io.{when}"));
        let words = stat.split_whitespace();
        let values = words.filter_map(|word| word.strip_prefix(field)?.parse::<u64>().ok());
        values.sum()
    };
    ["wbytes=", "rbytes="].map(|field| sum("after", field) - sum("before", field))
}

fn bytes(run: &ToolRun, opcode: &str) -> u64 {
    let rows = run.rows().iter();
    let io = rows.filter(|row| text(row, "opcode") == opcode && text(row, "queue") == "io");
    io.map(|row| number(row, "bytes")).sum()
}

fn a_container_has_its_writeback(outcome: &Outcome) {
    let controllers = outcome.text("container", "controllers");
    assert!(controllers.contains("io"), "{controllers}");
    let [written, read] = charged(outcome);
    assert_eq!(written, 64 * (64 << 10), "what dd wrote");
    assert_eq!(read, 7 * 4096);
    let all = ToolRun::read(outcome, "container", "all");
    assert!(bytes(&all, "write") >= written + (32 + 16) * (64 << 10));
    // the kernel does not charge passthrough, which counts for its caller
    for (name, by_task) in [("submitter", 0), ("caller", 1)] {
        let run = ToolRun::exact(outcome, "container", name);
        assert_eq!(run.last["who"], name);
        assert_eq!(bytes(&run, "write"), written, "{name}: {}", run.last);
        assert_eq!(bytes(&run, "read"), read + 512, "{name}: {}", run.last);
        let selected = run.last["ledger"]["by_task"].as_u64().unwrap_or(0);
        assert_eq!(selected, by_task, "{name}: {}", run.last["ledger"]);
    }
    let trace = TraceRun::read(outcome, "container", "trace");
    assert_eq!(trace.count("command"), 8);
}

fn without_the_io_controller_the_task_selects(outcome: &Outcome) {
    let run = ToolRun::exact(outcome, "container", "plain");
    assert_eq!(counts(&run), [5, 0], "{}", run.last);
    assert!(run.talk.contains("io controller is not enabled"), "{}", run.talk);
    assert!(list(&run.last, "rows").iter().all(|row| text(row, "ctrl") == "nvme1"));
}

super::on_kernels! {
    suite CHOSEN [
        a_disk_selects_exactly_its_commands what_is_no_disk_is_refused_by_name
        a_program_ends_the_run_with_its_exit_code a_container_has_its_writeback
        without_the_io_controller_the_task_selects
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10"
    }
}
