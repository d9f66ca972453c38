// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::model::report::submissions::{Depth, Submitted};
use crate::nvme::decode::Blocks;
use crate::pattern::report::{Disk, Past, Patterns};
use crate::pattern::view::{json, text};
use crate::testing::EventBuilder;
use crate::view::picture::{Scheme, Svg};
use crate::view::theme::Theme;

fn report() -> PatternReport {
    let mut patterns = Patterns::default();
    for n in 0..40_u64 {
        let pid = 100 + u32::from(n % 4 == 3);
        let slba = if pid == 100 { n / 4 * 24 + n % 4 * 8 } else { n * 7_777_777 % 100_003 };
        let submitted = Submitted {
            at_ns: n * 100_000,
            id: EventBuilder::read().id,
            blocks: Some(Blocks { slba, nlb: 8 }),
            bytes: Some(4096),
            task: Some((pid, *b"a\xffb\x1b[31m\0\0\0\0\0\0\0\0")),
        };
        let depth = Depth { of_disk: 1 + n % 20, of_all: 0 };
        patterns.add(&submitted, depth, || Disk { name: "nvme0n1".into(), lba_bytes: Some(512) });
    }
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
    report.rows[0].key.pid = None;
    for (task_kind, says, has) in [
        (TaskKind::Caller, "other processes  30 cmds", false),
        (TaskKind::Submitter, "other or unknown submitters  30 cmds", true),
    ] {
        report.task_kind = task_kind;
        let (mut screen, mut lines) = (vec![], vec![]);
        text(&report, Theme { color: false }, (false, false), &mut screen).unwrap();
        let screen = String::from_utf8(screen).unwrap();
        assert!(screen.contains(says), "{screen}");
        json(&report, &mut lines).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&lines).unwrap();
        assert_eq!(object.get("submitters").is_some(), has, "{object}");
        assert!(object["rows"][0]["pid"].is_null(), "{object}");
    }
}

fn written(hist: bool) -> String {
    let mut out = vec![];
    let theme = Theme { color: false };
    text(&report(), theme, (hist, false), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_row_fits_the_screen_and_has_no_control_characters() {
    for hist in [false, true] {
        let text = written(hist);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let text = written(false);
    for line in [
        r"nvme0n1 read  a\xffb\u{1b}[31m (100)  30 cmds  15.0 IOPS  0.1 MB/s",
        "  sequential  96.7%  random   3.3%  1 stream  aligned to 4KiB 100.0%",
        "  size        4KiB 100%",
        "  distance    0 100%",
        "in no row: 3 commands without logical blocks",
    ] {
        assert!(text.lines().any(|l| l == line), "`{line}` is not in\n{text}");
    }
    assert!(written(true).contains("    from 4KiB                30  ####"));
}

#[test]
fn json_has_the_same_numbers() {
    let mut out = vec![];
    json(&report(), &mut out).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let row = &value["rows"][0];
    assert_eq!((&row["sequential"], &row["random"]), (&29.into(), &1.into()));
    assert_eq!(row["size_blocks"]["buckets"][0]["first"], 8);
    assert_eq!(row["depth"]["count"], 30);
    assert_eq!(value["without_blocks"], 3);
}

#[test]
fn a_picture_has_the_counts_in_its_notes() {
    let report = report();
    let mut svg = Box::new(Svg::new(size(&report), "patterns", Scheme::Auto));
    draw(&report, &mut *svg);
    let text = String::from_utf8(svg.finish().unwrap()).unwrap();
    assert!(text.contains("<title>29 sequential commands</title>"), "{text}");
    assert!(text.contains("<title>from 4KiB&#10;30 commands</title>"), "{text}");
}
