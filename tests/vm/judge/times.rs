// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times agree with the injected latency, and no other time changes with it. The bounds exclude a
//! wrong assignment of stages, but not a slow machine: injected times differ by milliseconds, all
//! others are some microseconds.

use std::collections::BTreeSet;

use nvme_deep::model::nvme_latency::{DOUBLING, LatBuckets, SLOTS};
use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, list, number, stage, text};

const MS: u64 = 1_000_000;

const TIMES: Suite = Suite {
    env: &[("STORAGE_NS", "200000")],
    ..Suite::of(
        "times",
        &[
            "nvme_null nvme0 1000000",
            "nvme_null nvme1 5000000",
            "nvme_on nvme2 served",
            "nvme_null nvme3 0 namespaces=2 lba=4096",
        ],
    )
};

fn p50(row: &Value, name: &str) -> u64 {
    let stage = stage(row, name).unwrap_or_else(|| panic!("no stage {name} in {row}"));
    number(stage, "p50_ns")
}

/// The number of commands that have this stage on its own, not merged with others.
fn seen(row: &Value, name: &str) -> u64 {
    stage(row, name).map_or(0, |s| number(s, "count"))
}

fn the_device_stage_follows_the_injection(outcome: &Outcome) {
    // QEMU's own timers have steps of a millisecond; the storage of nvme2 is another process, which
    // adds some tenths of a millisecond
    for (ctrl, injected, at_most) in
        [("nvme0", MS, 4 * MS), ("nvme1", 5 * MS, 8 * MS), ("nvme2", MS / 5, MS * 9 / 10)]
    {
        let case = format!("device-{ctrl}");
        for (stage_set, others) in [
            ("basic", &["queue", "submit", "complete"][..]),
            (
                "fine",
                &[
                    "queue.wait",
                    "queue.setup",
                    "submit.map",
                    "submit.ring",
                    "device.irq",
                    "complete",
                    "end",
                ],
            ),
        ] {
            let run = ToolRun::summed(outcome, &case, stage_set);
            let row = run.row("read");
            assert_eq!(number(row, "count"), 200, "{case} {stage_set}");
            // with such a slow device the interrupt rarely precedes the return of the submitting
            // function
            let name = if stage_set == "fine" { "device.run" } else { "device" };
            assert!(seen(row, name) > 150, "{case} {stage_set}: {row}");
            let device = p50(row, name);
            assert!(device >= injected * 15 / 16, "{case} {stage_set}: device {device}");
            assert!(device <= at_most, "{case} {stage_set}: device {device}");
            for other in others {
                let ns = p50(row, other);
                assert!(ns < MS / 2, "{case} {stage_set}: {other} {ns}: {row}");
            }
            // the device may begin before the function that rang the doorbell returns
            for command in &run.commands {
                let points = &command["points_ns"];
                let waited = number(points, "cqe") - number(points, "setup_out");
                assert!(waited >= injected, "{case} {stage_set}: {command}");
            }
        }
    }
    let device = |ctrl: &str| {
        p50(ToolRun::read(outcome, &format!("device-{ctrl}"), "basic").row("read"), "device")
    };
    let apart = device("nvme1").saturating_sub(device("nvme0"));
    assert!((5 * MS / 2..8 * MS).contains(&apart), "4 ms more injected, {apart} ns more seen");
}

fn waiting_for_the_device_is_queue_and_not_device(outcome: &Outcome) {
    for stage_set in ["basic", "fine"] {
        let row = |case: &str| {
            let run = ToolRun::summed(outcome, case, stage_set);
            let row = run.row("read").clone();
            assert_eq!(number(&row, "count"), 320, "{case}");
            let name = if stage_set == "fine" { "device.run" } else { "device" };
            let device = p50(&row, name);
            assert!((4 * MS..9 * MS).contains(&device), "{case} {stage_set}: device {device}");
            row
        };
        let queue = if stage_set == "fine" { "queue.wait" } else { "queue" };
        let free = p50(&row("queue-free"), queue);
        assert!(free < 3 * MS, "{stage_set}: nothing to wait for, but queue {free}");
        // a request waits for its tag before it exists, so before its start
        let tags = p50(&row("queue-tags"), queue);
        assert!(tags < 3 * MS, "{stage_set}: queue {tags}");
        // 28 of 32 wait in the scheduler while four are at the device: seven rounds of 5 ms
        let scheduler = p50(&row("queue-scheduler"), queue);
        assert!(scheduler > 15 * MS, "{stage_set}: queue {scheduler}");
    }
}

/// fio issues: on namespace 1, 60 reads of 4 KiB on CPU 0, 70 reads of 32 KiB on CPU 1, 80 writes
/// of 128 KiB on CPU 0; on namespace 2, 50 reads of 16 KiB on CPU 1.
fn filters_and_classes_match_fio(outcome: &Outcome) {
    let cpus = outcome.text("filters", "first_queue_cpus");
    assert_eq!(cpus.trim(), "0", "CPU 0 has queue 1 and CPU 1 queue 2");
    let counts = |name: &str| -> Vec<(u64, String, u64)> {
        let run = ToolRun::exact(outcome, "filters", name);
        let row = |r: &Value| {
            assert_eq!(text(r, "queue"), "io");
            (number(r, "nsid"), text(r, "opcode").to_owned(), number(r, "count"))
        };
        run.rows().iter().map(row).collect()
    };
    let row = |nsid, opcode: &str, count| (nsid, opcode.to_owned(), count);
    assert_eq!(counts("ns1"), [row(1, "write", 80), row(1, "read", 130)]);
    assert_eq!(counts("ns2"), [row(2, "read", 50)]);
    assert_eq!(counts("reads"), [row(1, "read", 130), row(2, "read", 50)]);
    assert_eq!(counts("qid1"), [row(1, "write", 80), row(1, "read", 60)]);
    assert_eq!(counts("and"), [row(1, "read", 70)]);
    assert_eq!(counts("other"), []);
    // counted by the kernel, and from single commands
    for name in ["sizes", "lat-sizes"] {
        let run = ToolRun::exact(outcome, "filters", name);
        let class = |g: &Value| {
            let class = g["max_bytes"].as_u64().or(g["above_bytes"].as_u64().map(|n| n + 1));
            (number(g, "nsid"), text(g, "opcode").to_owned(), class.unwrap(), number(g, "count"))
        };
        let found: BTreeSet<_> = list(&run.last, "groups").iter().map(class).collect();
        let read = |nsid, kib: u64, count| (nsid, "read".to_owned(), kib << 10, count);
        let write = (1, "write".to_owned(), (64 << 10) + 1, 80);
        let want = [read(1, 16, 60), read(1, 64, 70), read(2, 16, 50), write];
        assert_eq!(found, want.into(), "{name}");
    }
    let run = ToolRun::read(outcome, "filters", "and");
    assert_eq!(number(&run.last["ledger"], "filtered"), 60 + 80 + 50);
    assert_eq!(number(&run.last["ledger"], "filtered_completions"), 60 + 80 + 50);
}

/// Compares each bucket of nvme_latency's table with the single commands of the same run.
fn the_latency_table_follows_its_rule(outcome: &Outcome) {
    let run = ToolRun::exact(outcome, "filters", "lat");
    let counts = run.io_counts();
    assert_eq!((counts["read"], counts["write"]), (180, 80));
    let rule = LatBuckets { min_us: 100, shift: 4 };
    for row in run.rows() {
        let mut counts = [0; SLOTS];
        for command in run.commands.iter().filter(|c| {
            c["nsid"] == row["nsid"] && c["opcode"] == row["opcode"] && c["queue"] == row["queue"]
        }) {
            counts[rule.index(number(command, "driver_ns") / 1000)] += 1;
        }
        let want: Vec<_> =
            rule.rows(&counts).iter().map(|r| (r.low_us, r.high_us, r.count)).collect();
        let got: Vec<_> = list(row, "lat_buckets")
            .iter()
            .map(|b| (number(b, "from_us"), b["to_us"].as_u64(), number(b, "count")))
            .collect();
        assert_eq!(got, want, "{row}");
        assert_eq!(got.iter().map(|b| b.2).sum::<u64>(), number(row, "count"));
    }
    let text = outcome.text("filters", "text.out");
    assert!(text.contains("\x1b["), "colour was asked for");
    // --lat-shift 2 alone: from 20 us on, with a first bucket of 4 us
    let rule = LatBuckets { min_us: 20, shift: 2 };
    let bounds: Vec<String> = (0..DOUBLING)
        .map(|slot| format!("[{}us - {}us):", rule.low(slot), rule.high(slot)))
        .chain(["[0us - 20us):".to_owned()])
        .collect();
    let printed: Vec<_> = text.lines().filter(|l| l.contains("us - ")).collect();
    assert!(printed.len() > 3, "{text}");
    for line in printed {
        assert!(bounds.iter().any(|b| line.contains(b)), "{line}");
    }
}

super::on_kernels! {
    suite TIMES [
        the_device_stage_follows_the_injection waiting_for_the_device_is_queue_and_not_device
        filters_and_classes_match_fio the_latency_table_follows_its_rule
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1"
    }
}
