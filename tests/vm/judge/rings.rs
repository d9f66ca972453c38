// SPDX-License-Identifier: MIT OR Apache-2.0
//! More than one ring: nothing is lost or out of order, whichever CPUs work.

use std::collections::BTreeSet;

use super::guest::{Outcome, Suite};
use super::json::fio_counts;
use super::ledger::events;
use super::trace_known::assert_stages;
use super::trace_read::TraceRun;

const RINGS: Suite = Suite {
    smp: "16",
    append: "maxcpus=1",
    ..Suite::of("rings", &["nvme_null nvme0 0 max_ioqpairs=16"])
};

/// Commands of the I/O queues that the kernel set up and completed.
fn counted(outcome: &Outcome, case: &str) -> [u64; 2] {
    ["nvme_setup_cmd", "nvme_complete_rq"].map(|event| events(outcome, case, event)[0])
}

/// The CPUs that submitted.
fn cpus(run: &TraceRun, kind: &str) -> BTreeSet<u64> {
    run.of(kind).map(|e| e["cpu"].as_u64().unwrap()).collect()
}

fn all_cpus_of_two_rings(outcome: &Outcome) {
    let maps = outcome.text("all", "maps");
    // two of each tool
    assert_eq!(maps.matches(": ringbuf ").count(), 4, "{maps}");
    let run = TraceRun::whole(outcome, "all", "json");
    run.assert_in_order();
    assert_eq!(run.entry("out_of_order"), 0);
    let [reads, writes, ..] = fio_counts(outcome, "all");
    assert_eq!(reads + writes, 8000);
    let io = |kind: &str| run.of(kind).filter(|e| e["qid"] != 0).count() as u64;
    assert_eq!([io("submit"), io("complete")], counted(outcome, "all"));
    assert_eq!(cpus(&run, "submit"), (0..16).collect());
    let pairs = run.pairs();
    let from = TraceRun::read(outcome, "all", "from");
    assert_eq!(from.count("command"), pairs.len() as u64);
    from.assert_in_order();
}

fn an_idle_ring_holds_back_nothing(outcome: &Outcome) {
    let shown: u64 = outcome.text("one", "shown").trim().parse().unwrap();
    assert_eq!(shown, 100, "shown before the end of the run");
    let run = TraceRun::whole(outcome, "one", "json");
    assert_eq!(cpus(&run, "submit"), BTreeSet::from([15]));
}

fn rings_with_unequal_load_are_in_order(outcome: &Outcome) {
    let run = TraceRun::whole(outcome, "skew", "json");
    run.assert_in_order();
    assert_eq!(run.count("command"), counted(outcome, "skew")[1]);
    let light = run.of("command").filter(|e| e["cpu"] == 12).count();
    let heavy = run.of("command").filter(|e| e["cpu"] != 12).count();
    assert_eq!([light, heavy], [400, 4000]);
    run.of("command").for_each(assert_stages);
}

fn what_two_small_rings_lose_is_counted(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "stopped", "json");
    run.assert_balanced();
    run.assert_in_order();
    let [setups, ends] = counted(outcome, "stopped");
    assert_eq!(run.count("submit") + run.entry("lost_submits"), setups);
    assert_eq!(run.count("complete") + run.entry("lost_completions"), ends);
    assert!(run.lost() > 0, "128 KiB were enough");
    // what fits is the beginning: of both rings
    let cpus = cpus(&run, "submit");
    assert!(cpus.range(..8).count() > 0 && cpus.range(8..).count() > 0);
}

super::on_kernels! {
    all RINGS [all_cpus_of_two_rings] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_7_x "7.x"
    }
    suite RINGS [
        an_idle_ring_holds_back_nothing rings_with_unequal_load_are_in_order
        what_two_small_rings_lose_is_counted
    ] {
        | only_in_test_all on_6_12 "6.12"
    }
}
