// SPDX-License-Identifier: MIT OR Apache-2.0
//! `join` and `host annotate` of files. tests/host/nvmet-guest.nvd and nvmet-host.nvd are of one guest
//! with Linux 6.12, in which nvmet served a disk over TCP (tests/vm/guest/host.sh, case join).
//! qemu-guest.nvd is of a guest with Linux 6.12, and qemu-host.nvd of its QEMU 7.2, traced by uprobes
//! on the host; the disk answered after 1 ms. nested-guest.nvd and nested-host.nvd are of a guest of
//! KVM and its QEMU (tests/vm/guest/nested.sh).

use std::fs;
use std::fs::File;

use nvme_deep::model::event::EventKind;
use nvme_deep::recording::{Content, Writer};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::run;
use crate::testing::recording::{SECOND, info, read_at};

const GUEST: &str = "tests/host/nvmet-guest.nvd";
const HOST: &str = "tests/host/nvmet-host.nvd";
/// Commands of the connection: Connect, Identify and others, 400 of fio, the partition scan.
const COMMANDS: u64 = 422;

fn lines(words: &str) -> Vec<Value> {
    let ran = run(words);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words}");
    let lines = ran.out.lines().map(|l| serde_json::from_str(l).unwrap());
    lines.collect()
}

#[test]
fn every_command_of_a_real_target_is_joined_by_either_clock() {
    for clock in ["same", "pairs"] {
        let lines = lines(&format!("join {GUEST} {HOST} --json --slowest 999 --clock {clock}"));
        let join = lines.last().unwrap();
        assert_eq!(join["matched"], COMMANDS, "{join}");
        for none in ["unmatched_guest", "unmatched_host", "ambiguous_guest", "ambiguous_host"] {
            assert_eq!(join[none], 0, "{clock}: {join}");
        }
        let (low, high) = (&join["offset_low_ns"], &join["offset_high_ns"]);
        assert!(low.as_i64().unwrap() <= 0 && high.as_i64().unwrap() >= 0, "{join}");
        let commands = lines.iter().filter(|l| l["type"] == "join_command");
        let mut joined = 0;
        for command in commands {
            joined += 1;
            let parts = command["stages"].as_array().unwrap().iter();
            let sum: i64 = parts.map(|p| p["ns"].as_i64().unwrap()).sum();
            assert_eq!(command["total_ns"], sum, "{command}");
        }
        assert_eq!(joined, COMMANDS);
    }
}

/// Two kernels, two clocks: the driver of a guest, and the QEMU that runs it.
#[test]
fn every_command_of_a_guest_is_joined_with_that_of_its_qemu() {
    let [guest, host] = ["guest", "host"].map(|side| format!("tests/host/qemu-{side}.nvd"));
    let lines = lines(&format!("join {guest} {host} --json --slowest 999"));
    let join = lines.last().unwrap();
    assert_eq!((&join["clock"], &join["matched"]), (&"pairs".into(), &400.into()), "{join}");
    for none in ["unmatched_guest", "unmatched_host", "ambiguous_guest", "ambiguous_host"] {
        assert_eq!(join[none], 0, "{join}");
    }
    assert_eq!(join["bounded_by_cqe"], true, "{join}");
    let commands = lines.iter().filter(|l| l["type"] == "join_command");
    let mut joined = 0;
    for command in commands {
        joined += 1;
        let parts = command["stages"].as_array().unwrap();
        let names: Vec<_> = parts.iter().map(|p| p["name"].as_str().unwrap()).collect();
        let want = [
            "guest_submit",
            "to_host",
            "host_submit",
            "backend",
            "host_complete+to_guest",
            "guest_complete",
        ];
        assert_eq!(names, want, "{command}");
        let ns: Vec<i64> = parts.iter().map(|p| p["ns"].as_i64().unwrap()).collect();
        assert!(ns.iter().all(|ns| *ns >= 0), "{command}");
        assert!(ns[3] >= 1_000_000, "{command}");
        assert_eq!(command["total_ns"], ns.iter().sum::<i64>(), "{command}");
    }
    assert_eq!(joined, 400);
}

/// The sums of a row's parts are exact, too.
#[test]
fn rows_add_up() {
    for row in lines(&format!("join {GUEST} {HOST} --json --clock pairs")) {
        if row["type"] == "join_row" {
            let parts = row["stages"].as_array().unwrap().iter();
            let sum: i64 = parts.map(|p| p["sum_ns"].as_i64().unwrap()).sum();
            assert_eq!(row["total"]["sum_ns"], sum, "{row}");
        }
    }
}

#[test]
fn the_text_fits_the_screen_and_names_the_clock() {
    let ran = run(&format!("join {GUEST} {HOST} --clock pairs"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let wide = ran.out.lines().find(|l| l.chars().count() > 80);
    assert_eq!(wide, None);
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "joined nvme2 = nvmet:1",
        "matched 422 commands; unmatched: guest 0, host 0; ambiguous: guest 0, host 0",
        "bounded by issue and the completion (fabrics have no CQE)",
        "what one of the two gains, the other loses",
        "accuracy exact: no record of either side is lost",
    ] {
        assert!(text.contains(words), "no `{words}`: {text}");
    }
}

/// QEMU serves PCI controllers, and this guest's were not served by the QEMU of that log.
#[test]
fn recordings_of_other_machines_have_no_pairs() {
    let ran = run(&format!("join {GUEST} tests/host/qemu.nvd"));
    ran.refuses(2, "name the pair with --ctrl");
    let ran = run(&format!("join {GUEST} tests/host/qemu.nvd --json --ctrl nvme1=qemu:0"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("did both run at the same time"), "{}", ran.err);
    let join: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!(join["clock"], "pairs", "{join}");
    assert_eq!(join["matched"], 0, "{join}");
}

#[test]
fn a_recording_of_something_else_annotates_nothing() {
    let trace = "tests/host/spdk_trace.json";
    for (file, what) in [("nvmet-host", "the kernel's target"), ("qemu-host", "QEMU")] {
        let file = format!("tests/host/{file}.nvd");
        let says =
            format!("{file} has none of the 3 requests of {trace}: it is a recording of {what}");
        run(&format!("host annotate {trace} {file}")).refuses(2, &says);
    }
}

#[test]
fn annotated_entries_have_their_times_and_unknown_ones_pass_through() {
    let ran = run("host annotate tests/host/spdk_trace.json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let first = "  1          0.000 TCP_REQ_COMPLETED        id=r0 qd=1";
    assert_eq!(ran.out.lines().next(), Some(first));
    let bdev = "  1          1.600 BDEV_IO_START            size=4096 id=b0 type=1 name=Malloc0";
    assert!(ran.out.contains(bdev), "{}", ran.out);
    assert!(ran.out.contains("SOCK_REQ_QUEUE           ctx=0x7f0010"));
    assert!(ran.out.ends_with("tpoint 999               arg=3\n"), "{}", ran.out);
    let json = lines("host annotate tests/host/spdk_trace.json --json");
    assert_eq!(json.len(), 15);
    assert_eq!(json[1]["tsc"], (1_u64 << 40) + 1000);
}

#[test]
fn offsets_by_three_methods_agree() {
    let range = |clock: &str| {
        let words = format!(
            "join tests/host/nested-guest.nvd tests/host/nested-host.nvd --json --clock {clock}"
        );
        let join = lines(&words).pop().unwrap();
        assert_eq!((&join["matched"], &join["clock"]), (&200.into(), &clock.into()));
        assert_eq!(join["notes"].as_array().unwrap().len(), 0, "{join}");
        let ns = |name: &str| join[name].as_i64().unwrap();
        ns("offset_low_ns")..=ns("offset_high_ns")
    };
    let (pairs, tsc, ptp) = (range("pairs"), range("tsc"), range("ptp"));
    for wider in [&pairs, &ptp] {
        for end in [tsc.start(), tsc.end()] {
            assert!(wider.contains(end), "{tsc:?} {wider:?}");
        }
    }
    // each reading took some ten nanoseconds
    assert!(tsc.end() - tsc.start() < 1000, "{tsc:?}");
}

#[test]
fn a_controller_that_the_guest_lacks_is_named() {
    let files = "tests/host/nested-guest.nvd tests/host/nested-host.nvd";
    run(&format!("join {files} --ctrl nvme9=qemu:inner"))
        .refuses(6, "tests/host/nested-guest.nvd has no controller nvme9: it has nvme0");
}

#[test]
fn a_host_side_without_its_end_is_named_after_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.nvd");
    let cut = path.display();
    let whole = fs::read(HOST).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let ran = run(&format!("join {GUEST} {cut}"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("joined    nvme2 = nvmet:1"), "{}", ran.out);
    let first = format!("nvme-deep: {cut} is damaged: ");
    assert!(ran.err.starts_with(&first), "{}", ran.err);
}

/// Connect is submitted without a request whose begin the driver's hooks see.
#[test]
fn a_part_without_its_first_point_is_left_out() {
    let lines = lines(&format!("join {GUEST} {HOST} --json --slowest 999"));
    let parts = |line: &Value| line["stages"].as_array().unwrap().clone();
    let commands = lines.iter().filter(|l| l["type"] == "join_command");
    let submits: Vec<Value> =
        commands.flat_map(parts).filter(|part| part["name"] == "guest_submit").collect();
    assert!(submits.iter().all(|part| part["ns"] != 0), "{submits:?}");
    assert_eq!(submits.len() as u64, COMMANDS - 3);
    let rows = lines.iter().filter(|l| l["type"] == "join_row");
    let connect = |l: &&Value| l["fctype"] == "connect" && l["queue"] == "io";
    let connect = rows.clone().find(connect).unwrap();
    let counts = parts(connect);
    let counts: Vec<_> = counts.iter().map(|part| &part["count"]).collect();
    assert_eq!(counts, [1, 2, 2, 2], "{connect}");
}

/// A copy without its end.
fn cut(dir: &TempDir, path: &str) -> String {
    let whole = fs::read(path).unwrap();
    let name = path.rsplit('/').next().unwrap();
    let cut = dir.path().join(name);
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    cut.display().to_string()
}

#[test]
fn a_guest_without_its_end_is_named_first() {
    let dir = TempDir::new().unwrap();
    let [guest, host] = [GUEST, HOST].map(|path| cut(&dir, path));
    let error = "--ctrl nvme2=nvmet:7: the host side has no nvmet:7";
    let ran = run(&format!("join {guest} {HOST} --ctrl nvme2=nvmet:7"));
    ran.refuses(2, &format!("In what is left: {error}"));
    let first = format!("nvme-deep: {guest} is damaged: ");
    assert!(ran.err.starts_with(&first), "{}", ran.err);
    let ran = run(&format!("join {guest} {host} --ctrl nvme2=nvmet:7"));
    ran.refuses(2, &format!("In what is left: {error}"));
    assert!(ran.err.starts_with(&first), "{}", ran.err);
    let second = format!("; {host} is damaged: ");
    assert!(ran.err.contains(&second), "{}", ran.err);
}

/// All commands are kept in memory, and those that are alike take no room in a file.
#[test]
fn a_guest_with_more_commands_than_its_size_can_hold_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("small.nvd");
    let mut recorder = Writer::create(File::create(&path).unwrap(), None).unwrap();
    recorder.block(Content::Run, SECOND, &info());
    let mut event = read_at(2 * SECOND);
    for _ in 0..450_000 {
        event.at_ns += 1000;
        if let EventKind::Command(_, _, outcome) = &mut event.what {
            outcome.timeline = None;
        }
        recorder.push(&event);
    }
    assert!(recorder.finish().error.is_none());
    let size = fs::metadata(&path).unwrap().len();
    assert!(size < 100_000, "{size}");
    let says = "it has more commands than a file of its size can hold";
    run(&format!("join {} {HOST}", path.display())).refuses(2, says);
}

#[test]
fn the_tsc_is_not_a_clock_of_arm64() {
    let words = "join tests/recordings/6.12-arm64.nvd tests/host/nested-host.nvd";
    let ran = run(&format!("{words} --clock tsc"));
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let why =
        "--clock tsc: the recording of the guest does not have two readings of the TSC (x86 only)";
    assert!(ran.err.contains(why), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}
