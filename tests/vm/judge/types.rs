// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types from a file, on a kernel without BTF of its modules. The right file is used, a wrong one
//! is detected, and without any file the tool still works.

use super::guest::{Outcome, Suite};
use super::hostile::doctor;
use super::json::{ToolRun, number, text};
use super::ledger::{assert_nothing_is_left, exact, kinds, rejected};

const TYPES: Suite = Suite::of("types", &["nvme_null nvme0 0"]);

fn a_file_that_fits_is_used(outcome: &Outcome) {
    for case in ["given", "shipped"] {
        let run = exact(outcome, case, "auto");
        assert_eq!(kinds(&run, "setup_out"), ["raw_tp"].into(), "{case}");
        assert_eq!(kinds(&run, "doorbell"), ["kprobe", "kretprobe"].into(), "{case}");
        assert_eq!(rejected(&run).keys().collect::<Vec<_>>(), ["irq"], "{case}");
        assert_eq!(run.last["ledger"]["misfits"], 0, "{case}");
    }
    let said = doctor(outcome, "shipped");
    let release = text(&said["facts"], "release").to_owned();
    assert_eq!(said["facts"]["nvme_core_types"]["shipped"], release.as_str());
    let line = |what: &str| {
        let btf = said["btf"].as_array().unwrap().iter();
        let mut line = btf.filter(|l| l["what"] == what);
        text(line.next().unwrap(), "source").to_owned()
    };
    for module in ["nvme_core", "nvme"] {
        let source = line(module);
        assert!(source.contains(&format!("btf/{release}.c")), "{source}");
    }
}

/// Only a command shows the mismatch: the first one ends the run, which reports no commands.
fn another_kernels_file_ends_the_run(outcome: &Outcome) {
    for name in ["total", "fine"] {
        let said = outcome.text("other", &format!("{name}.err"));
        assert_eq!(outcome.code("other", name), 5, "{name}: {said}");
        let last = said.lines().last().unwrap();
        assert!(last.contains("do not fit this kernel"), "{last}");
        assert!(last.contains("nothing was measured"), "{last}");
        for line in outcome.text("other", &format!("{name}.out")).lines() {
            let report: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(report["final"], false, "{name}: {line}");
            assert_eq!(report["rows"].as_array().unwrap().len(), 0, "{name}: {line}");
            assert_eq!(number(&report["ledger"], "matched"), 0, "{name}: {line}");
        }
    }
}

fn without_types_there_is_a_way(outcome: &Outcome) {
    assert_eq!(doctor(outcome, "unknown")["facts"]["nvme_core_types"], "none");
    let run = exact(outcome, "unknown", "auto");
    for point in ["setup_out", "complete"] {
        assert_eq!(kinds(&run, point), ["raw_tp"].into(), "{point}");
    }
    let reasons = rejected(&run)["doorbell"].join("; ");
    assert!(reasons.contains("--btf"), "{reasons}");
}

fn the_module_takes_its_kprobes_along(outcome: &Outcome) {
    let run = ToolRun::ended(outcome, "unpinned", "auto", 1);
    assert!(run.talk.contains("module nvme was unloaded"), "{}", run.talk);
    assert_eq!(run.last["ledger"]["balance"]["balanced"], true);
}

super::on_kernels! {
    suite TYPES [
        a_file_that_fits_is_used another_kernels_file_ends_the_run without_types_there_is_a_way
        the_module_takes_its_kprobes_along assert_nothing_is_left
    ] {
        | only_in_test_all on_5_10 "5.10"
    }
}
