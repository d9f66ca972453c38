// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines with many tags and CPUs: each tag has a slot. Where stages take too much memory, CPUs share cells.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, fio_counts, list, number, text};
use super::trace_read::TraceRun;

/// 16 CPUs, 16 controllers with as many queues as the driver permits, or these.
const fn large(variant: &'static str, append: &'static str) -> Suite {
    let controllers = &["nvme_null nvme0..16 0 max_ioqpairs=64 msix_qsize=65"];
    Suite { variant, smp: "16", append, env: &[("MEM", "12G")], ..Suite::of("large", controllers) }
}

const LARGE: Suite = large("", "nvme.write_queues=16 nvme.poll_queues=16");
/// All CPUs write by one queue.
const ONE_WRITE_QUEUE: Suite = large("-one-queue", "nvme.write_queues=1 nvme.poll_queues=16");

/// 128 CPUs may appear, 4 are there: QEMU permits to plug the others. The kernel sizes queues and per-CPU
/// memory for 128.
const FEW_OF_128: Suite = Suite {
    variant: "-few-of-128",
    smp: "4,maxcpus=128",
    env: &[("MEM", "4G")],
    ..Suite::of("large", &["nvme_null nvme0..2 0 max_ioqpairs=64 msix_qsize=65"])
};

/// These stage sets take so much memory that CPUs share cells.
fn counted_and_shared(outcome: &Outcome, sharing: &[&str]) {
    for (case, least) in [("none", 12_000), ("mq-deadline", 4_000)] {
        let [reads, writes, ..] = fio_counts(outcome, case);
        assert!(reads + writes >= least, "{case}");
        for stage_set in ["total", "basic", "fine"] {
            let run = ToolRun::exact(outcome, case, stage_set);
            let counts = run.io_counts();
            assert_eq!([counts["read"], counts["write"]], [reads, writes], "{case} {stage_set}");
            let ledger = &run.last["ledger"];
            assert_eq!(number(ledger, "in_flight"), 0, "{case} {stage_set}");
            let shares = ledger["shares_cells"] == true;
            assert_eq!(shares, sharing.contains(&stage_set), "{case} {stage_set}");
        }
    }
}

fn each_command_is_counted(outcome: &Outcome) {
    counted_and_shared(outcome, &["basic", "fine"]);
}

fn each_command_of_few_cpus_is_counted(outcome: &Outcome) {
    counted_and_shared(outcome, &[]);
}

fn a_trace_has_each_command_once(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "trace", "pair");
    run.assert_nothing_lost_but(&["negative_intervals"]);
    run.assert_in_order();
    let [reads, writes, ..] = fio_counts(outcome, "trace");
    assert_eq!(run.count("command"), reads + writes);
    // 16 virtual CPUs share two. One may stop between its look at a slot and its write of a point, and write
    // it into the slot's next command: the point is dropped, counted, and its stages merge.
    let negative = run.entry("negative_intervals");
    assert!(negative <= (reads + writes) / 1000, "{negative}: {}", run.ledger);
}

/// The maps of a mode: name, bytes of memory, and entries.
fn maps(outcome: &Outcome, mode: &str) -> Vec<(String, u64, u64)> {
    let all: Value = serde_json::from_str(&outcome.text("modes", &format!("{mode}.maps"))).unwrap();
    let of = |map: &Value| {
        let name = map["name"].as_str().unwrap_or("").to_owned();
        (name, number(map, "bytes_memlock"), number(map, "max_entries"))
    };
    all.as_array().unwrap().iter().map(of).collect()
}

/// CPUs of the machine, and the tags that its controllers have at least.
const CPUS: u64 = 16;
const TAGS: u64 = 16 * 33 * 1024;

fn each_tag_has_a_slot_and_each_cpu_its_cells(outcome: &Outcome) {
    for mode in ["total", "basic", "fine", "full", "serve", "pair", "stacks", "record"] {
        let maps = maps(outcome, mode);
        let entries = |wanted: &str| maps.iter().find(|(name, ..)| name == wanted).unwrap().2;
        assert!(entries("slots") >= TAGS, "{mode}: {maps:?}");
        let (cells, rows) = (entries("cells"), entries("rows"));
        assert_eq!(cells % rows, 0, "{mode}: {maps:?}");
        // one group more is for CPUs that appear later
        match mode {
            "total" | "serve" => assert_eq!(cells / rows, CPUS + 1, "{mode}: {maps:?}"),
            "basic" | "fine" | "full" => assert!(cells / rows <= CPUS, "{mode}: {maps:?}"),
            _ => {}
        }
    }
}

fn cpus_that_are_not_there_have_no_cells(outcome: &Outcome) {
    for mode in ["total", "basic", "fine", "full", "serve"] {
        let maps = maps(outcome, mode);
        let entries = |wanted: &str| maps.iter().find(|(name, ..)| name == wanted).unwrap().2;
        assert_eq!(entries("cells") / entries("rows"), 4 + 1, "{mode}: {maps:?}");
    }
}

/// What `doctor` says that the maps of a command take.
fn said_by_doctor(outcome: &Outcome, command: &str) -> u64 {
    let doctor: Value = serde_json::from_str(&outcome.text("modes", "doctor")).unwrap();
    let line = list(&doctor, "memory").iter().find(|line| text(line, "command") == command);
    number(line.unwrap(), "map_bytes")
}

fn doctor_shows_what_the_maps_take(outcome: &Outcome) {
    for (mode, command) in [
        ("total", "latency"),
        ("basic", "latency --stages"),
        ("fine", "latency --stages=fine"),
        ("full", "latency --stages=full"),
        ("pair", "trace"),
        ("stacks", "stacks"),
    ] {
        let maps = maps(outcome, mode);
        let bytes: u64 = maps.iter().map(|(_, bytes, _)| bytes).sum();
        let said = said_by_doctor(outcome, command);
        assert!(bytes.abs_diff(said) <= bytes / 20, "{mode}: {bytes}, doctor {said}: {maps:?}");
    }
}

super::on_kernels! {
    suite LARGE [
        each_command_is_counted each_tag_has_a_slot_and_each_cpu_its_cells
        a_trace_has_each_command_once
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    memory LARGE [doctor_shows_what_the_maps_take] { | only_in_test_all on_6_12 "6.12" }
    one_write_queue ONE_WRITE_QUEUE [each_command_is_counted a_trace_has_each_command_once] {
        | only_in_test_all on_6_12 "6.12"
    }
    few_of_128 FEW_OF_128 [
        each_command_of_few_cpus_is_counted cpus_that_are_not_there_have_no_cells
        a_trace_has_each_command_once
    ] {
        | only_in_test_all on_6_12 "6.12"
    }
}
