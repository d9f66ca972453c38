// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fabrics: Connect commands are matched, at creation and after a reset.

use std::collections::BTreeMap;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, number, text};
use super::trace_read::{TraceRun, status};

const CONNECT: Suite = Suite {
    append: "nvme_core.multipath=N",
    ..Suite::of("connect", &["nvme_null nvme0 0", "nvme_null nvme1 0"])
};

fn every_connect_is_matched(outcome: &Outcome) {
    for case in outcome.cases() {
        let what = format!("{} {case}", outcome.kernel());
        let run = TraceRun::whole(outcome, &case, "trace");
        assert_eq!(run.entry("orphan_completions"), 0, "{what}");
        assert_eq!(run.entry("in_flight"), run.count("unfinished"), "{what}");
        // the admin queue and two I/O queues, at creation and after the reset
        let mut connects = BTreeMap::new();
        let is = |e: &&serde_json::Value| text(e, "opcode").contains("connect");
        for event in run.of("command").filter(is) {
            assert_eq!(text(event, "ctrl"), "nvme2", "{what}: {event}");
            assert_eq!(status(event), 0, "{what}: {event}");
            *connects.entry(number(event, "qid")).or_insert(0) += 1;
        }
        let want = BTreeMap::from([(0, 2), (1, 2), (2, 2)]);
        assert_eq!(connects, want, "{what}");

        let run = ToolRun::exact(outcome, &case, "total");
        let reads: u64 = run
            .rows()
            .iter()
            .filter(|r| text(r, "ctrl") == "nvme2" && text(r, "opcode") == "read")
            .map(|r| number(r, "count"))
            .sum();
        assert!(reads >= 40, "{what}: {reads}");
    }
}

super::on_kernels! {
    suite CONNECT [every_connect_is_matched] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
}
