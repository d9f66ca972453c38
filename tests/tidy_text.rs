// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for text from outside in the sources: which fields may be a `String`, which files may look at
//! the text itself, and who writes JSON. Each exception has its reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rust files below `dir` without tests, and their code without comments and test modules.
fn sources(dir: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{dir}/{name}");
        if entry.file_type().unwrap().is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(entry.path()).unwrap();
            let of_tests = ["", "pub ", "pub(super) ", "pub(crate) "];
            let code = of_tests.iter().fold(text.as_str(), |code, public| {
                let begin = format!("\n#[cfg(test)]\n{public}mod tests {{");
                code.split(&begin).next().unwrap()
            });
            let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
            found.push((path, lines.collect::<Vec<_>>().join("\n")));
        }
    }
    found.sort();
    found
}

/// Structures that are read from a file of someone else: all their texts are from outside.
const READ: [&str; 8] = [
    "src/recording/meta.rs",
    "src/recording/host.rs",
    "src/model/stack.rs",
    "src/model/host.rs",
    "src/target/spdk_trace.rs",
    "src/machine/sysfs.rs",
    "src/probe/ledger/mod.rs",
    "src/probe/ledger/mod.rs",
];

/// Their fields that may be a `String`.
const OWN: [(&str, &str); 1] =
    [("src/model/host.rs: pub name: String,", "a stage, from the points that were observed")];

#[test]
fn a_text_that_is_read_from_a_file_is_untrusted() {
    let mut own: BTreeSet<String> = OWN.iter().map(|(field, _)| (*field).into()).collect();
    for (path, code) in sources("src") {
        if !READ.contains(&path.as_str()) {
            continue;
        }
        for line in code.lines().map(str::trim) {
            let is_field = line.starts_with("pub ") && line.ends_with(',') && line.contains(": ");
            let is_text = ["String", "Cow<", "&'", "Vec<u8>"].iter().any(|t| line.contains(t));
            if is_field && is_text && !line.contains('(') {
                let field = format!("{path}: {line}");
                assert!(own.remove(&field), "{field} must be Untrusted");
            }
        }
    }
    assert_eq!(own, BTreeSet::new(), "these are not there");
}

/// Files that may look at the text itself.
const RAW: [(&str, &str); 29] = [
    ("src/run/cgroup_log.rs", "counts its bytes"),
    ("src/diagnose/mod.rs", "looks options up"),
    ("src/run/drive/census.rs", "compares with the grammar of the kernel"),
    ("src/run/inflight.rs", "compares a transport"),
    ("src/top/view.rs", "compares the target of a hook"),
    ("src/view/export/csv.rs", "writes a text that needs no escapes"),
    ("src/view/export/parquet.rs", "writes a text that needs no escapes"),
    ("src/target/spdk_trace.rs", "looks a tracepoint up"),
    ("src/machine/cgroups.rs", "compares paths of cgroups"),
    ("src/machine/cgroups.rs", "parses the paths of cgroups"),
    ("src/machine/cgroups.rs", "parses the paths of cgroups"),
    ("src/model/container.rs", "parses the paths of cgroups"),
    ("src/machine/disk.rs", "compares names of disks"),
    ("src/machine/nvme.rs", "looks a model up"),
    ("src/machine/process.rs", "compares the name of a program"),
    ("src/machine/targets.rs", "adds a release to a name"),
    ("src/serve/metrics/collect.rs", "compares the target of a hook"),
    ("src/view/trace/json.rs", "escapes for JSON"),
    ("src/view/trace/origin.rs", "escapes for JSON and a terminal"),
    ("src/view/trace/text.rs", "writes a text that needs no escapes"),
    ("src/model/report/cgroup_path.rs", "quotes a path for a shell"),
    ("src/model/report/device_name.rs", "compares with the grammar of the kernel"),
    ("src/diagnose/rules/iommu.rs", "compares the type of a group"),
    ("src/diagnose/subject.rs", "looks a class up"),
    ("src/diff/report.rs", "whether there is a model"),
    ("src/session/activity.rs", "looks a disk up"),
    ("src/session/host/mod.rs", "adds a number to a name"),
    ("src/session/mod.rs", "compares a transport"),
    ("src/symbols/", "compares functions of this kernel"),
];

/// Files that have one of these words in their code, but no place in the list.
fn check(words: &[&str], places: &[(&str, &str)], exempt: &str) {
    let mut unused: BTreeSet<&str> = places.iter().map(|(place, _)| *place).collect();
    for (path, code) in sources("src") {
        if path == exempt || !words.iter().any(|word| code.contains(word)) {
            continue;
        }
        let place = places.iter().find(|(place, _)| path.starts_with(place));
        let (place, _) = place.unwrap_or_else(|| panic!("{path}: {words:?}"));
        unused.remove(place);
    }
    assert_eq!(unused, BTreeSet::new(), "{words:?}: these have none");
}

#[test]
fn few_files_look_at_the_text_itself() {
    check(&[".raw()", "Untrusted::raw"], &RAW, "src/model/untrusted.rs");
}

/// Bytes of others become text without escapes.
const LOSSY: [(&str, &str); 7] = [
    ("src/abi/activity.rs", "a name of a disk, to look it up"),
    ("src/run/input.rs", "a log, which is parsed"),
    ("src/machine/elf.rs", "names of probes, to look them up"),
    ("src/machine/kvm.rs", "lines and names of tracefs, which are parsed"),
    ("src/machine/process.rs", "arguments, which are parsed"),
    ("src/session/host/usdt.rs", "texts of probes, which become Untrusted"),
    ("src/session/read.rs", "names of our own maps and programs"),
];

#[test]
fn bytes_become_text_by_the_one_piece() {
    let words = ["to_string_lossy", "from_utf8_lossy"];
    check(&words, &LOSSY, "src/model/untrusted.rs");
}

/// Paths of others are printed by `printable`.
const PATHS: [(&str, &str); 2] = [
    ("src/machine/overview.rs", "a mount point of this machine"),
    ("src/model/filter.rs", "options as they were typed"),
];

#[test]
fn paths_are_printed_by_the_one_piece() {
    check(&[".display()"], &PATHS, "");
}

/// Who writes JSON otherwise than by view/json_text.rs.
const JSON: [(&str, &str); 1] =
    [("src/recording/", "the format of recordings has no more escapes")];

#[test]
fn json_is_written_by_the_one_piece() {
    let words = [
        "serde_json::to_string",
        "serde_json::to_writer",
        "serde_json::to_vec",
        "serde_json::Serializer::new",
    ];
    check(&words, &JSON, "src/view/json_text.rs");
}

#[test]
fn there_is_no_other_rule_for_what_is_escaped() {
    check(&["char::is_control", ".is_control(", "is_ascii_control("], &[], "");
    let places = [
        ("src/view/trace/text.rs", "bytes of a thread's name without core::fmt"),
        ("src/serve/metrics/encode.rs", "labels, whose format has escapes of its own"),
    ];
    check(&["escape_debug", "escape_default", "escape_unicode"], &places, "src/model/untrusted.rs");
}
