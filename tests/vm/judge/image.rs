// SPDX-License-Identifier: MIT OR Apache-2.0
//! The image of contrib, built from the archive and run by podman: exact counts of `latency` and `serve`.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::number;

const IMAGE: Suite = Suite { append: "apparmor=0", ..Suite::of("image", &["nvme_null nvme0 0"]) };

fn it_counts_in_a_container(outcome: &Outcome) {
    let out = outcome.text("image", "latency.out");
    let said = outcome.text("image", "latency.err");
    let last: Value = serde_json::from_str(out.lines().last().expect(&said)).unwrap();
    let rows = last["rows"].as_array().unwrap();
    let reads = rows.iter().filter(|row| row["opcode"] == "read").map(|row| number(row, "count"));
    assert_eq!(reads.sum::<u64>(), 500, "{out}");
    let metrics = outcome.text("image", "text");
    let row = "nvme_deep_commands_total{controller=\"nvme0\",nsid=\"1\",queue=\"io\",opcode=\"read\"} 500\n";
    assert!(metrics.contains(row), "{metrics}");
    let said = outcome.text("image", "serve.err");
    assert!(said.contains("exact: 500 commands, 0 lost"), "{said}");
    for name in ["latency", "serve"] {
        assert!(!outcome.path("image", &format!("{name}.code")).exists(), "{name} failed");
    }
    let size: u64 = outcome.text("image", "size").trim().parse().unwrap();
    assert!(size < 40 << 20, "{size} bytes");
}

super::on_kernels! {
    suite IMAGE [it_counts_in_a_container] { | only_in_test_all on_6_12 "6.12" }
}
