// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--from` of the built binary: what old recordings print, several files, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod binary;
mod testing;

use std::fs;
use std::fs::read_to_string;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use nvme_deep::model::stack::StackAt;
use nvme_deep::recording::Keep;
use serde_json::Value;
use tempfile::TempDir;

use self::binary::{BINARY, Ran, objects, run};
use self::testing::recording::{Run, info, record};

/// The path of a recording of this kernel, without its suffix.
fn recording(kernel: &str) -> String {
    format!("{}/tests/recordings/{kernel}", env!("CARGO_MANIFEST_DIR"))
}

/// Recordings of real kernels, made by version 1 of the format. Every later version must read them.
/// The JSON beside each is what `trace --tee` printed when it was made.
#[test]
fn old_recordings_are_printed_as_they_were_shown() {
    for kernel in ["5.10", "6.12", "6.12-arm64"] {
        let path = recording(kernel);
        let shown = read_to_string(format!("{path}.json")).unwrap();
        let ran = run(&format!("trace --json --stages=fine --kstack --from {path}.nvd"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{kernel}");
        assert_eq!(ran.out, shown, "{kernel}");
        let commands = shown.matches("\"type\":\"command\"").count();
        assert!(commands >= 10, "{kernel}: {commands}");
        let ran = run(&format!("latency --stages=fine --from {path}.nvd"));
        let exact = format!("accuracy  exact: {commands} commands, 0 lost");
        assert!(ran.out.contains(&exact), "{kernel}: {}", ran.out);
        let ran = run(&format!("stacks --full --from {path}.nvd"));
        assert!(ran.out.contains("nvme_setup_cmd"), "{kernel}: {}", ran.out);
    }
}

/// In a wide terminal.
fn wide(words: &str) -> Ran {
    let words = words.split_whitespace();
    Ran::from(Command::new(BINARY).args(words).env("COLUMNS", "120"))
}

/// Without the headers, several recordings print what each prints alone.
#[test]
fn several_recordings_are_shown_one_after_the_other() {
    for words in ["trace", "latency --stages", "stacks", "diagnose", "top"] {
        let alone = ["5.10", "6.12"].map(|k| wide(&format!("{words} --from {}.nvd", recording(k))));
        let [a, b] = ["5.10", "6.12"].map(recording);
        let together = wide(&format!("{words} --from {a}.nvd {b}.nvd"));
        assert_eq!(together.code, Some(0), "{}", together.err);
        let is_head = |l: &&str| l.contains(".nvd  ") && l.contains("  Linux ");
        let lines = together.out.lines().filter(|l| !l.is_empty());
        let (heads, rest): (Vec<&str>, Vec<&str>) = lines.partition(is_head);
        let of_each = alone.iter().flat_map(|ran| ran.out.lines());
        let of_each = of_each.filter(|l| !l.is_empty() && !is_head(l));
        let of_each: Vec<&str> = of_each.collect();
        assert_eq!(rest, of_each, "{words}");
        // the screen has its own
        let wanted = if words == "top" { 0 } else { 2 };
        assert_eq!(heads.len(), wanted, "{words}: {heads:?}");
        for (head, kernel) in heads.iter().zip(["5.10", "6.12"]) {
            let words = [format!("{}.nvd  ", recording(kernel)), format!("  Linux {kernel}")];
            assert!(words.iter().all(|w| head.contains(w)), "{head}");
            assert!(head.contains("  20") && head.contains(" UTC"), "{head}");
        }
    }
}

#[test]
fn in_json_an_object_comes_before_each_recording() {
    for words in ["trace --json", "latency --json", "stacks --json", "diagnose --json"] {
        let [a, b] = ["5.10", "6.12"].map(recording);
        let mut heads = objects(&format!("{words} --from {a}.nvd {b}.nvd"));
        assert_eq!(heads[0]["type"], "recording", "{words}");
        heads.retain(|object| object["type"] == "recording");
        assert_eq!(heads.len(), 2, "{words}");
        for (head, kernel) in heads.iter().zip(["5.10", "6.12"]) {
            assert_eq!(head["file"], format!("{}.nvd", recording(kernel)));
            assert!(head["kernel"].as_str().unwrap().starts_with(kernel), "{head}");
            assert!(head["begin"].as_str().unwrap().starts_with("20"), "{head}");
            assert!(head["begin_ns"].is_u64(), "{head}");
        }
    }
}

#[test]
fn each_file_is_checked_before_any_output() {
    let dir = TempDir::new().unwrap();
    let link = dir.path().join("link").display().to_string();
    let a = format!("{}.nvd", recording("6.12"));
    symlink(&a, &link).unwrap();
    run(&format!("trace --from {a} {link}")).refuses(2, "is the same file as");
    run(&format!("trace --from {a} --from {a}")).refuses(2, "is the same file as");
    run(&format!("latency --from {a} /missing")).refuses(2, "/missing can't be read");
    run(&format!("stacks --from {a} {BINARY}")).refuses(2, "not a recording");
    run(&format!("stacks --folded --from {a} {link}")).refuses(2, "show one recording");
    let reports = objects(&format!("latency {a} --json 500ms"));
    assert!(reports.len() > 2, "{reports:?}");
}

#[test]
fn a_damaged_file_does_not_hide_the_others() {
    let dir = TempDir::new().unwrap();
    let half = dir.path().join("half").display().to_string();
    let [a, b] = ["5.10", "6.12"].map(|k| format!("{}.nvd", recording(k)));
    let whole = fs::read(&a).unwrap();
    fs::write(&half, &whole[..whole.len() - 100]).unwrap();
    for words in ["trace", "latency", "stacks"] {
        let ran = run(&format!("{words} --from {half} {b}"));
        assert_eq!(ran.code, Some(1), "{words}: {}", ran.err);
        let alone = run(&format!("{words} --from {b}"));
        assert!(ran.out.ends_with(&alone.out), "{words}: {}", ran.out);
        assert!(ran.err.contains(&format!("{half} is damaged")), "{}", ran.err);
        let last = ran.err.lines().last().unwrap();
        assert!(last.contains("1 of 2 recordings"), "{last}");
    }
}

/// The times, spans and counts of the reports.
fn reports(words: &str) -> Vec<(f64, f64, u64)> {
    let of = |r: &Value| {
        let count = r["rows"][0]["count"].as_u64().unwrap_or(0);
        (r["at_s"].as_f64().unwrap(), r["covers_s"].as_f64().unwrap(), count)
    };
    objects(words).iter().map(of).collect()
}

#[test]
fn intervals_begin_with_the_events_that_a_ring_has_kept() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("ring");
    let file = path.display();
    let mut made = Run { seconds: 60, reads: 100, keep: None, info: info() };
    record(&path, &made, &mut |_| {});
    let whole = reports(&format!("latency --json 20s --from {file}"));
    assert_eq!(whole, [(20.0, 20.0, 2000), (40.0, 40.0, 4000), (60.0, 60.0, 6000)]);
    made.keep = Some(Keep { time: Duration::from_secs(10), bytes: 1 << 20 });
    record(&path, &made, &mut |_| {});
    // blocks end once a second
    let kept = reports(&format!("latency --json 4s --from {file}"));
    assert_eq!(kept, [(54.0, 4.0, 400), (58.0, 8.0, 800), (60.0, 10.0, 1000)]);
    let each = reports(&format!("latency --json --delta 4s --from {file}"));
    assert_eq!(each, [(54.0, 4.0, 400), (58.0, 4.0, 400), (60.0, 10.0, 1000)]);
}

#[test]
fn each_interval_has_the_span_of_what_is_shown() {
    let file = "tests/recordings/diagnose/clean-6.12.nvd";
    for (stages, span) in [
        ("", ["bio_submit", "end"]),
        ("--stages=fine", ["bio_submit", "end"]),
        ("--stages=none", ["setup_out", "complete"]),
    ] {
        let spans = objects(&format!("latency --json 2s {stages} --from {file}"));
        assert!(spans.len() > 2, "{stages}");
        for report in spans {
            let shown = &report["ledger"]["total_span"];
            assert_eq!(*shown, serde_json::json!(span), "{stages}");
        }
    }
}

#[test]
fn a_report_on_some_of_the_commands_says_so() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("slow");
    let mut made = Run { seconds: 1, reads: 10, keep: None, info: info() };
    made.info.stack = Some(StackAt::Submit);
    made.info.slow_ns = Some(1_500_000);
    made.info.errors = true;
    made.info.count = Some(10);
    record(&path, &made, &mut |_| {});
    let says = "counts cover only those commands";
    for words in ["latency", "stacks"] {
        let ran = run(&format!("{words} --from {}", path.display()));
        let choice = "`trace --slow 1.5ms --errors -n 10 --tee`";
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.err.contains(choice) && ran.err.contains(says), "{}", ran.err);
        let ran = run(&format!("{words} --from {}.nvd", recording("6.12")));
        assert!(!ran.err.contains(says), "{}", ran.err);
    }
    let ran = run(&format!("trace --from {}", path.display()));
    assert!(!ran.err.contains(says), "{}", ran.err);
}

#[test]
fn options_that_a_recording_cannot_serve_are_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("made");
    let mut made = Run { seconds: 1, reads: 10, keep: None, info: info() };
    (made.info.sq, made.info.aen) = (Some(false), Some(false));
    (made.info.stack, made.info.sample_period) = (Some(StackAt::Submit), 4);
    record(&path, &made, &mut |_| {});
    let file = path.display();
    for (words, says) in [
        ("trace --sq", "has no SQ heads and tails"),
        ("trace --aen", "has no asynchronous events"),
        ("trace --kstack --sample 1/2", "(one command in 4)"),
        ("stacks --sample 1/64", "(one command in 4)"),
        ("latency --stages", "has no stages: record with --stages=basic, or choose other stages\n"),
        ("latency --stages=fine", "has no fine stages: record with --stages=fine"),
        (
            "trace --kstack=complete",
            "has no kernel stacks at complete: record with --kstack=complete, or choose submit\n",
        ),
        ("trace --cgroup /sys/fs/cgroup", "has no cgroups"),
        ("pattern --submitters", "has no submitters"),
    ] {
        run(&format!("{words} --from {file}")).refuses(2, says);
    }
    // the options with which it was recorded
    let ran = run(&format!("trace --long --kstack --sample 1/4 --from {file}"));
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 10));
}

/// Asserts that each report and its ledger count the same commands. Returns the number of reports.
fn each_ledger_counts_its_rows(words: &str) -> usize {
    let all = objects(words);
    for report in &all {
        let rows = report["rows"].as_array().unwrap().iter();
        let commands: u64 = rows.map(|row| row["count"].as_u64().unwrap()).sum();
        let at = &report["at_s"];
        assert_eq!(report["ledger"]["matched"], commands, "{words}: {at} s");
        let seen = report["ledger"]["seen"].as_u64().unwrap();
        assert!(seen >= commands, "{words}: {at} s");
    }
    all.len()
}

#[test]
fn the_ledger_of_an_interval_counts_the_commands_up_to_its_end() {
    let path = "tests/recordings";
    for name in ["5.10", "6.12", "diagnose/clean-6.12", "diagnose/rate-cap"] {
        let words = format!("latency --json --stages 1 --from {path}/{name}.nvd");
        assert!(each_ledger_counts_its_rows(&words) > 1, "{name}");
    }
}

#[test]
fn a_file_that_ends_before_its_first_ledger_is_refused() {
    let dir = TempDir::new().unwrap();
    let bytes = fs::read("tests/recordings/6.12.nvd").unwrap();
    let path = dir.path().join("cut.nvd").display().to_string();
    fs::write(&path, &bytes[..900]).unwrap();
    for words in ["latency", "pattern", "trace --long"] {
        let ran = run(&format!("{words} --from {path}"));
        let says =
            "is cut off at its start, before any counts: no report is possible, record again\n";
        assert_eq!(ran.err, format!("nvme-deep: {path} {says}"), "{words}");
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{words}");
    }
}

#[test]
fn commands_after_the_last_ledger_of_a_cut_file_are_named() {
    let dir = TempDir::new().unwrap();
    let bytes = fs::read("tests/recordings/diagnose/clean-6.12.nvd").unwrap();
    let path = dir.path().join("cut.nvd");
    // the end of a block of events, before its ledger
    let mut named = 0;
    for part in 3..9 {
        fs::write(&path, &bytes[..bytes.len() * part / 10]).unwrap();
        let ran = run(&format!("latency --json --from {}", path.display()));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let report: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
        let count = |row: &Value| row["count"].as_u64().unwrap();
        let commands: u64 = report["rows"].as_array().unwrap().iter().map(count).sum();
        let later = report["ledger"]["uncovered"].as_u64().unwrap_or(0);
        let matched = report["ledger"]["matched"].as_u64().unwrap();
        assert_eq!(matched + later, commands, "{part}");
        if later > 0 {
            named += 1;
            let text = run(&format!("latency --from {}", path.display()));
            let says = format!("NOT KNOWN for the last {later} command");
            assert!(text.out.contains(&says), "{}", text.out);
            let head = text.out.lines().next().unwrap();
            assert!(!head.contains("exact"), "{head}");
        }
    }
    assert!(named > 0);
}

/// The path of a recording of a planted cause. These are redacted.
fn cause(name: &str) -> String {
    recording(&format!("diagnose/{name}.nvd"))
}

/// Commands, and the time that they cover, in the final report of `latency` of a part of a recording.
fn counted(path: &str, part: &str) -> (u64, f64) {
    let report = objects(&format!("latency --json --from {path} {part}")).remove(0);
    let rows = report["rows"].as_array().unwrap();
    let count = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    (count, report["covers_s"].as_f64().unwrap())
}

/// Each command is in one part of a recording, and the parts cover all of its time.
#[test]
fn parts_of_a_recording_add_up_to_all_of_it() {
    for name in ["wbt", "tag-wait", "cgroup-throttle", "io-cost", "held-by-device", "flush-cost"] {
        let path = cause(name);
        let (all, covers) = counted(&path, "");
        let (a, b) = (covers / 3.0, covers / 2.0);
        let parts = [
            format!("--until {a}s"),
            format!("--since {a}s --until {b}s"),
            format!("--since {b}s"),
        ];
        let counts = parts.map(|part| counted(&path, &part));
        assert!(counts.iter().all(|(count, _)| *count > 0), "{name}: {counts:?}");
        assert_eq!(counts.iter().map(|(count, _)| count).sum::<u64>(), all, "{name}");
        let sum: f64 = counts.iter().map(|(_, covers)| covers).sum();
        assert!((sum - covers).abs() < 1e-6, "{name}: {sum} {covers}");
    }
}

/// Every view has the same commands of a part.
#[test]
fn every_view_reads_the_same_part() {
    let (path, part) = (cause("wbt"), "--since 2s --until 3s");
    let (count, covers) = counted(&path, part);
    assert_eq!(covers, 1.0);
    let lines = |words: &str| run(&format!("{words} {part}")).out.lines().count() as u64;
    assert_eq!(lines(&format!("export {path} --format csv -o -")) - 1, count);
    assert_eq!(lines(&format!("trace --long --from {path}")), count);
    let svg = run(&format!("heatmap --from {path} -o - {part}")).out;
    assert!(svg.contains(&format!("{count} commands")), "{svg}");
    for (words, says) in [
        ("diagnose --from", format!(" 1.0 s {count} commands exact")),
        ("latency --from", format!(" 1.0 s {count} commands exact")),
        ("pattern --from", format!(" 1.0 s {count} commands exact")),
        ("top --from", " 3.0 s END: WHOLE RUN".into()),
        ("diff", format!("1.0 s {count} commands")),
    ] {
        let other = if words == "diff" { path.as_str() } else { "" };
        let ran = run(&format!("{words} {path} {other} {part}"));
        let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&says), "{words}: {text}");
    }
    // intervals begin with the part
    let (at, covers): (Vec<f64>, Vec<f64>) =
        reports(&format!("latency 500ms --delta --json --from {path} {part}"))
            .into_iter()
            .map(|(at, covers, _)| (at, covers))
            .unzip();
    assert_eq!(at, [2.5, 3.0], "{covers:?}");
}

#[test]
fn a_part_can_be_chosen_by_the_time_of_day() {
    let path = format!("{}.nvd", recording("6.12"));
    let trace = format!("trace --json --time wall --from {path}");
    let lines = |part: &str| -> Vec<String> {
        let ran = run(&format!("{trace} {part}"));
        let commands = ran.out.lines().filter(|line| line.contains("\"type\":\"command\""));
        commands.map(str::to_owned).collect()
    };
    let all = lines("");
    let middle: Value = serde_json::from_str(&all[all.len() / 2]).unwrap();
    let time = middle["time"].as_str().unwrap();
    let (before, after) = all.split_at(all.len() / 2);
    assert!(!before.is_empty() && !after.is_empty());
    assert_eq!(lines(&format!("--until {time}")), before);
    assert_eq!(lines(&format!("--since {time}")), after);
    // without the date and in UTC
    let mut in_utc = Command::new(BINARY);
    let words = format!("{trace} --since {}", time.split(['T', '+']).nth(1).unwrap());
    let ran = Ran::from(in_utc.args(words.split_whitespace()).env("TZ", "UTC"));
    assert_eq!(ran.out.lines().filter(|l| l.contains("\"command\"")).count(), after.len());
}

#[test]
fn times_that_a_recording_does_not_have_are_named() {
    let (redacted, whole) = (cause("wbt"), format!("{}.nvd", recording("6.12")));
    for (words, says) in [
        (
            format!("trace --from {redacted} --since 04:05:49"),
            "does not know the time of day (it is redacted): give a time since its start",
        ),
        (
            format!("trace --from {redacted} --time wall"),
            "does not know the time of day (it is redacted): use --time rel",
        ),
        (
            format!("latency --from {redacted} --since 3s --until 2s"),
            "--until (2.0 s) is not after the first time to read (3.0 s)",
        ),
        (format!("diff {whole} {whole} --until 2020-01-01T00:00:00Z"), "give a later one"),
        (format!("stacks --from {whole} --until 7d"), "`7d` is not a time"),
        ("latency --since 7s".into(), "--since is a time of a recording, and this command traces"),
    ] {
        run(&words).refuses(2, says);
    }
    let ran = run(&format!("latency --from {redacted} --since 70s"));
    assert!(ran.err.contains("0 of 5098 commands match --since 70s"), "{}", ran.err);
    assert!(ran.err.contains("--since 70s is after its end (0.0 s to 10.1 s)"), "{}", ran.err);
}
