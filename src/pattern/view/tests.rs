// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::model::report::submissions::{Depth, Submitted};
use crate::nvme::decode::Blocks;
use crate::pattern::report::{Disk, Past, Patterns};
use crate::pattern::view::json;
use crate::testing::EventBuilder;
use crate::view::theme::Theme;

fn report() -> PatternReport {
    let mut patterns = Patterns::default();
    let submitted = Submitted {
        at_ns: 0,
        id: EventBuilder::read().id,
        blocks: Some(Blocks { slba: 0, nlb: 8 }),
        bytes: Some(4096),
        task: None,
    };
    patterns.add(&submitted, Depth { of_disk: 1, of_all: 0 }, Disk::default);
    PatternReport {
        task_kind: TaskKind::Caller,
        is_final: true,
        at: Duration::from_secs(2),
        covers: Duration::from_secs(2),
        rows: patterns.rows(&Past::new()),
        without_blocks: 3,
        unknown: 0,
        forgotten: 0,
        ledger: Ledger::default(),
    }
}

#[test]
fn a_row_without_a_task_says_what_it_has() {
    let mut report = report();
    for (task_kind, says, has) in [
        (TaskKind::Caller, "other processes", false),
        (TaskKind::Submitter, "other or unknown submitters", true),
    ] {
        report.task_kind = task_kind;
        let (screen, mut lines) = (written(&report, TEXT), vec![]);
        assert!(screen.contains(says), "{screen}");
        json(&report, &mut lines).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&lines).unwrap();
        assert_eq!(object.get("submitters").is_some(), has, "{object}");
        assert!(object["rows"][0]["pid"].is_null(), "{object}");
    }
}

const TEXT: PatternText = PatternText { theme: Theme { color: false }, width: 80, detail: false };

fn written(report: &PatternReport, text: PatternText) -> String {
    let mut out = vec![];
    text.report(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_verdict_is_by_the_part_that_is_sequential() {
    for (sequential, random, verdict) in
        [(90, 10, "sequential"), (89, 11, "mixed"), (10, 90, "mixed"), (9, 91, "random")]
    {
        let counts = Counts { sequential, commands: sequential + random, ..Counts::default() };
        assert_eq!(super::verdict(&counts), verdict, "{sequential}");
    }
}
