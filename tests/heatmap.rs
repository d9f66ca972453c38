// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `heatmap` command: the cells of its pictures have the commands that `trace --json` prints.
//! Neither root nor an NVMe device is needed.

use std::fs;
use std::fs::read_to_string;
use std::os::unix::fs::symlink;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ran, nanos, objects, run};

/// A cell of a picture, as its note describes it.
#[derive(Debug)]
struct Cell {
    count: u64,
    /// First and last value.
    values: (u64, u64),
    /// Begin and end, nanoseconds since the start of the run.
    times: (u64, u64),
}

fn recording(name: &str) -> String {
    format!("tests/exports/{name}.nvd")
}

fn heatmap(words: &str) -> Ran {
    let ran = run(&format!("heatmap {words}"));
    assert_eq!(ran.out, "", "{words}");
    ran
}

/// Draws an SVG.
fn draw(words: &str, name: &str) -> (Ran, String) {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.svg");
    let ran = heatmap(&format!("{words} --from {} -o {}", recording(name), out.display()));
    (ran, read_to_string(out).unwrap_or_default())
}

fn number(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// The notes of the cells: commands, values, times.
fn notes(svg: &str) -> Vec<[String; 3]> {
    let notes = svg.split("<title>").skip(1);
    let notes = notes.map(|n| n.split("</title>").next().unwrap());
    let parts = notes.map(|n| n.split("&#10;").map(Into::into).collect::<Vec<String>>());
    // the legend has one line
    parts.filter_map(|n| n.try_into().ok()).collect()
}

/// Cells of a picture whose values are exact.
fn cells(svg: &str) -> Vec<Cell> {
    let cell = |[count, values, times]: [String; 3]| {
        let ends: Vec<&str> = values.split(" to ").collect();
        let times: Vec<&str> = times.split(' ').collect();
        Cell {
            count: number(&count),
            values: (number(ends[0]), number(ends.last().unwrap())),
            times: {
                let time = |n: usize| nanos(&format!("{}{}", times[n], times[3])).round() as u64;
                (time(0), time(2))
            },
        }
    };
    notes(svg).into_iter().map(cell).collect()
}

/// The commands of a recording, and when its run began.
fn commands(name: &str) -> (Vec<Value>, u64) {
    let path = recording(name);
    let mut all = objects(&format!("trace --json --events --from {path}"));
    all.retain(|c| ["command", "unfinished", "missed"].contains(&c["type"].as_str().unwrap()));
    // the start is in the heading of the first of several
    let other = recording(if name == "none" { "mixed" } else { "none" });
    let heads = objects(&format!("latency --json --from {path} {other}"));
    (all, heads[0]["begin_ns"].as_u64().unwrap())
}

/// When a command was submitted.
fn submitted(command: &Value) -> Option<u64> {
    let lasted = ["driver_ns", "age_ns", "driver_max_ns"];
    let lasted = lasted.iter().find_map(|key| command[key].as_u64())?;
    Some(command["time_ns"].as_u64().unwrap() - lasted)
}

/// Takes each value out of its cell; all cells must be empty then.
fn are_the_same(mut cells: Vec<Cell>, values: &[(u64, u64)]) {
    for (at, value) in values {
        let here = |c: &&mut Cell| {
            (c.times.0..c.times.1).contains(at) && (c.values.0..=c.values.1).contains(value)
        };
        let cell = cells.iter_mut().find(here);
        let cell = cell.unwrap_or_else(|| panic!("no cell for {value} at {at}"));
        assert!(cell.count > 0, "{cell:?} has too few commands");
        cell.count -= 1;
    }
    assert!(cells.iter().all(|c| c.count == 0), "{cells:?}");
    assert!(values.len() > 50, "{}", values.len());
}

#[test]
fn each_block_and_each_size_is_in_the_cell_of_its_time() {
    let slba = |c: &Value| c["fields"]["slba"].as_u64().filter(|_| c["ctrl"] == "nvme0");
    let bytes = |c: &Value| {
        let is_wanted = ["read", "write"].contains(&c["opcode"].as_str()?);
        c["bytes"].as_u64().filter(|bytes| *bytes > 0 && is_wanted)
    };
    let (commands, begin) = commands("mixed");
    for (words, of) in [
        ("--y lba --ctrl nvme0", &slba as &dyn Fn(&Value) -> Option<u64>),
        ("--y size --opcode read,write", &bytes),
    ] {
        let (ran, svg) = draw(words, "mixed");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let finished = commands.iter().filter(|c| c["type"] != "unfinished");
        let values = finished.filter_map(|c| Some((submitted(c)? - begin, of(c)?)));
        are_the_same(cells(&svg), &values.collect::<Vec<_>>());
    }
}

#[test]
fn the_blocks_of_several_disks_are_in_no_picture() {
    let both = "tests/recordings/6.12.nvd";
    let ran = run(&format!("heatmap --y lba -o - --from {both}"));
    let says = "--y lba needs one disk; this recording has nvme0n1, nvme1n1: add --disk nvme0n1";
    ran.refuses(2, says);
    let one = run(&format!("heatmap --y lba -o - --disk nvme1n1 --from {both}"));
    assert_eq!(one.code, Some(0), "{}", one.err);
    for text in [">nvme1n1: place on the disk", ">6.12.nvd  ", "  6 commands", ">--disk nvme1n1<"] {
        assert!(one.out.contains(text), "{text}: {}", one.out);
    }
}

#[test]
fn the_depth_counts_the_commands_in_flight() {
    let (ran, svg) = draw("--y inflight", "mixed");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let (commands, begin) = commands("mixed");
    let span = |c: &Value| {
        let end = c["time_ns"].as_u64().filter(|_| c["type"] != "unfinished");
        Some((submitted(c)?, end.unwrap_or(u64::MAX)))
    };
    let spans: Vec<(u64, u64)> = commands.iter().filter_map(span).collect();
    let depth = |at: u64| spans.iter().filter(|s| s.0 <= at && at < s.1).count() as u64;
    let values: Vec<_> = spans.iter().map(|s| (s.0 - begin, depth(s.0))).collect();
    are_the_same(cells(&svg), &values);
}

#[test]
fn every_command_with_the_stage_is_in_the_picture_and_the_others_are_reported() {
    let (total, driver) = (": total latency", ": driver latency");
    for (recorded, stage, key, title) in [
        ("complete", "--stage device", "device", ": latency, stage device"),
        ("mixed", "--stage end", "end", ": latency, stage end"),
        ("mixed", "--stage queue", "queue", ": latency, stage queue"),
        ("mixed", "", "", total),
        ("mixed", "--stage total", "", total),
        ("mixed", "--stage driver", "", driver),
        ("none", "", "", driver),
    ] {
        let (ran, svg) = draw(stage, recorded);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(svg.contains(title), "{recorded} {stage}");
        let drawn: u64 = notes(&svg).iter().map(|[count, ..]| number(count)).sum();
        let left_out = ran.err.split_once(" commands; ").map(|(_, rest)| rest);
        let left_out = left_out.map_or(0, |rest| number(rest.split(' ').next().unwrap()));
        let (commands, _) = commands(recorded);
        let ended = commands.iter().filter(|c| c["type"] != "unfinished").count() as u64;
        assert_eq!(drawn + left_out, ended, "{recorded} {stage}: {}", ran.err);
        if !key.is_empty() {
            let path = recording(recorded);
            let report = objects(&format!("latency --json --stages --from {path}")).pop().unwrap();
            let rows = report["rows"].as_array().unwrap();
            let stages = rows.iter().flat_map(|r| r["stages"].as_array().unwrap());
            let of = stages.filter(|s| s["name"] == key);
            let count: u64 = of.map(|s| s["count"].as_u64().unwrap()).sum();
            assert_eq!(drawn, count, "{recorded} {stage}");
        }
    }
}

#[test]
fn the_ending_of_a_file_chooses_the_format() {
    let dir = TempDir::new().unwrap();
    let [png, svg, other] = ["a.png", "a.svg", "a"].map(|name| dir.path().join(name));
    let from = recording("mixed");
    let ran = heatmap(&format!("{from} -o {} -o {}", png.display(), svg.display()));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(fs::read(png).unwrap().starts_with(b"\x89PNG\r\n"));
    assert!(read_to_string(svg).unwrap().ends_with("</svg>\n"));
    heatmap(&format!("{from} -o {}", other.display())).refuses(2, "ends in .svg or .png");
    heatmap(&format!("{from} -o - -o -")).refuses(2, "stdout can't have two pictures");
    let linked = dir.path().join("linked.svg");
    symlink(fs::canonicalize(&from).unwrap(), &linked).unwrap();
    let words = format!("--from {from} -o {} --force", linked.display());
    heatmap(&words).refuses(2, "is a recording to read");
}

#[test]
fn a_picture_says_what_it_shows_and_when() {
    let svg = run("heatmap tests/recordings/6.12.nvd --ctrl nvme1 -o -").out;
    for text in [
        ">6.12.nvd  ",
        " UTC  ",
        ">--ctrl nvme1<",
        ">p50<",
        ">p99<",
        "(logarithmic)",
        ">UTC; a column",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    let redacted = run("heatmap tests/recordings/diagnose/wbt.nvd -o -").out;
    assert!(redacted.contains(">since the start of the run; a column"), "{redacted}");
}

#[test]
fn what_cannot_be_drawn_leaves_no_file() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("out.svg");
    let [mixed, none] = ["mixed", "none"].map(recording);
    let ran = heatmap(&format!("--from {mixed} --opcode compare -o {}", out.display()));
    assert!(ran.err.contains("0 of 258 commands match --opcode io:compare\n"), "{}", ran.err);
    assert!(ran.code == Some(1) && ran.err.contains("nothing to draw"), "{}", ran.err);
    for (words, code, says) in [
        (format!("--from {mixed} --y lba --opcode flush"), 1, "without a start LBA"),
        (
            format!("--from {none} --stage device"),
            2,
            "has no stages: record with --stages=basic, or choose other stages\n",
        ),
        (format!("--from {none} --stage total"), 2, "has no stages"),
        (
            format!("--from {mixed} --stage before"),
            2,
            "has no waits before the request: record with --stages=full, or choose other stages\n",
        ),
        (format!("--from {mixed} {none}"), 2, "one recording"),
        (format!("--from {mixed} --y lba --stage device"), 2, "--y latency"),
    ] {
        heatmap(&format!("{words} -o {}", out.display())).refuses(code, says);
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "{words}");
    }
}
