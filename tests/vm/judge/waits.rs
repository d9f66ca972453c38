// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits before the request, compared with their causes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{
    ToolRun, assert_sums, fio_counts, kernel_counts, list, number, skipped, stage, text,
};
use super::trace_read::TraceRun;

const WAITS: Suite = Suite::of(
    "waits",
    &[
        "nvme_null nvme0 1000000",
        "nvme_null nvme1 300000000",
        "nvme_blkdebug nvme2 1000000 read,sector=8000,once=on",
        "nvme_null nvme3 20000000 lba=4096 ns:zoned=on ns:zoned.zone_size=64M",
    ],
);

/// The stages before the request.
const BEFORE: [&str; 7] = ["throttle", "block", "freeze", "zone", "iocost", "wbt", "tag"];

/// The sum of a stage of a row; 0 if it lacks the stage.
fn sum(row: &Value, name: &str) -> u64 {
    stage(row, name).map_or(0, |stage| number(stage, "sum_ns"))
}

/// The run with histograms alone. Both runs have counted each command, and each has all stages before
/// the request, which add up with the others.
fn counted(outcome: &Outcome, case: &str, opcode: &str, want: u64) -> ToolRun {
    let commands = ToolRun::read(outcome, case, "commands");
    assert_sums(&commands, case);
    let histograms = ToolRun::read(outcome, case, "histograms");
    // the kernel takes the programs for histograms alone as it takes the others
    let missing = |run: &ToolRun| run.last["ledger"]["missing_hooks"].clone();
    assert_eq!(missing(&histograms), missing(&commands), "{case}");
    for run in [&commands, &histograms] {
        run.assert_exact(case);
        let row = run.row(opcode);
        assert_eq!(number(row, "count"), want, "{case}: {row}");
        let total: u64 = list(row, "stages").iter().map(|s| number(s, "sum_ns")).sum();
        assert_eq!(total, number(&row["total"], "sum_ns"), "{case}: {row}");
        for name in BEFORE {
            let found = stage(row, name).map_or(0, |stage| number(stage, "count"));
            let is_all = found <= want && found + skipped(run) >= want;
            assert!(is_all, "{case} {name}: {found} of {want}: {row}");
        }
        no_bio_was_missed(run, case);
    }
    histograms
}

/// Only bios at which the kernel skipped a program, as preemptible kernels do.
fn no_bio_was_missed(run: &ToolRun, case: &str) {
    for none in ["unseen_bios", "unstored_bios", "unpaired_waits"] {
        let missed = run.last["ledger"][none].as_u64().unwrap_or(0);
        assert!(missed <= skipped(run), "{case}: {none} {missed}");
    }
}

/// The run with single commands, alone: they and the histograms are the same.
fn single(outcome: &Outcome, case: &str, opcode: &str, want: u64) -> ToolRun {
    let run = ToolRun::summed(outcome, case, "commands");
    assert_eq!(number(run.row(opcode), "count"), want, "{case}");
    no_bio_was_missed(&run, case);
    run
}

/// The other waits of a row, which have no cause in this case, are zero.
fn only(row: &Value, causes: &[&str]) {
    let waits = BEFORE.into_iter().filter(|name| *name != "block");
    for name in waits.filter(|name| !causes.contains(name)) {
        assert_eq!(sum(row, name), 0, "{name}: {row}");
    }
}

/// What fio measured of a read or a write, in nanoseconds.
fn fio_mean(outcome: &Outcome, case: &str, job: &str, what: &str) -> f64 {
    let fio = outcome.text(case, &format!("{job}.fio"));
    let fio: Value = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
    let job = &list(&fio, "jobs")[0][what];
    ["slat_ns", "clat_ns"].map(|part| job[part]["mean"].as_f64().unwrap()).into_iter().sum()
}

/// The total of a row is a part of what fio measured, and most of it. What is left is the way through
/// the system calls, and the time until fio runs again: 0.4 to 4.7 ms in the emulator, as the host is
/// busy, whatever the command waited for.
fn is_most_of(outcome: &Outcome, case: &str, row: &Value, least: f64) {
    let mean = number(&row["total"], "sum_ns") as f64 / number(row, "count") as f64;
    let fio = fio_mean(outcome, case, "reads", "read");
    assert!(mean <= fio && mean >= least * fio, "{case}: {mean} of {fio}");
}

/// Each bio of 4 KiB is counted in the command that served it.
fn merged_bios_are_counted(outcome: &Outcome) {
    let case = "merges";
    let run = TraceRun::read(outcome, case, "merged");
    let [asked, ..] = fio_counts(outcome, case);
    let (mut commands, mut bios) = (0, 0);
    for command in run.of("command") {
        let count = number(command, "bios");
        assert_eq!(number(command, "bytes"), 4096 * count, "{command}");
        let point = |name: &str| number(&command["points_ns"], name);
        let waited = point("setup_out") - point("bio_submit");
        let longest = number(command, "longest_wait_ns");
        // the first of them has the request, and is the oldest
        assert_eq!(longest, waited, "{command}");
        commands += 1;
        bios += count;
    }
    assert_eq!(bios, asked, "{commands} commands");
    assert!(commands <= asked / 4, "{commands} of {asked}: they are merged");
}

/// Commands, one at a time, take what fio saw of each, less the way through the system calls. Returns the median
/// part: of `throttle` and `zone` in what the other stages leave of fio's time, if there was such a wait; else of the total.
/// The median, because the host may be busy during some.
fn part_of_fio(outcome: &Outcome, case: &str, run: &ToolRun) -> f64 {
    // milliseconds, nanoseconds, ...
    let log = outcome.text(case, "each_lat.1.log");
    let seen = log.lines().map(|line| -> u64 {
        let second = line.split(',').nth(1).unwrap();
        second.trim().parse().unwrap()
    });
    let part = |(command, seen): (&Value, u64)| {
        let total = number(command, "total_ns");
        let stages = list(command, "stages").iter();
        let waits = stages.filter(|s| ["throttle", "zone"].contains(&text(s, "name")));
        match waits.map(|s| number(s, "ns")).sum::<u64>() {
            0 => total as f64 / seen as f64,
            waited => waited as f64 / (seen as f64 - (total - waited) as f64),
        }
    };
    let moves = run.commands.iter();
    let moves = moves.filter(|command| ["read", "write"].contains(&text(command, "opcode")));
    let mut parts: Vec<f64> = moves.clone().zip(seen).map(part).collect();
    assert_eq!(parts.len(), moves.count(), "{case}: {log}");
    assert!(parts.iter().all(|part| *part <= 1.0), "{case}: {parts:?}");
    parts.sort_by(f64::total_cmp);
    parts[parts.len() / 2]
}

fn one_at_a_time_is_what_fio_saw(outcome: &Outcome) {
    let run = single(outcome, "depth", "read", 9);
    let part = part_of_fio(outcome, "depth", &run);
    assert!(part >= 0.99, "{part}");
}

fn without_a_cause_no_command_waits(outcome: &Outcome) {
    let case = "plain";
    // the kernel counts a flush without data as a write, too
    let [reads, writes, _, flushes] = kernel_counts(outcome, case);
    let run = counted(outcome, case, "read", reads);
    only(run.row("read"), &[]);
    let asked = fio_counts(outcome, case)[0];
    assert!(reads > asked, "{case}: reads of 4 MiB are split: {reads} of {asked}");
    // buffered writes pass through wbt
    let run = counted(outcome, case, "write", writes - flushes);
    only(run.row("write"), &["wbt"]);
    let recorded = ToolRun::read(outcome, case, "recorded");
    for opcode in ["read", "write"] {
        let (live, recorded) = (run.row(opcode), recorded.row(opcode));
        for name in BEFORE {
            let count = |row: &Value| stage(row, name).map(|stage| number(stage, "count"));
            assert_eq!(count(recorded), count(live), "{case} {opcode} {name}");
        }
    }
}

fn a_limit_of_the_cgroup_is_throttle(outcome: &Outcome) {
    let case = "throttle";
    let want = fio_counts(outcome, case)[0];
    let stat = outcome.text(case, "io.stat");
    assert!(stat.contains(&format!("rios={want} ")), "{stat}");
    let run = counted(outcome, case, "read", want);
    let row = run.row("read");
    only(row, &["throttle"]);
    is_most_of(outcome, case, row, 0.8);
    // how long depends on what the limit leaves: on a slow host fio itself takes a part of it
    assert!(sum(row, "throttle") > 4 * sum(row, "block"), "{row}");
}

fn a_limit_of_bytes_is_throttle(outcome: &Outcome) {
    let case = "bytes";
    let want = fio_counts(outcome, case)[0];
    let stat = outcome.text(case, "io.stat");
    let bytes = format!("rbytes={} ", want * 131_072 + throttled_bytes(outcome));
    assert!(stat.contains(&bytes), "{bytes}: {stat}");
    let run = single(outcome, case, "read", want);
    let row = run.row("read");
    only(row, &["throttle"]);
    // waits of 240 ms: the way through the system calls is a small part
    let part = part_of_fio(outcome, case, &run);
    assert!(part >= 0.98, "{part}: {row}");
}

/// Bytes that the case before has read in the same cgroup.
fn throttled_bytes(outcome: &Outcome) -> u64 {
    4096 * fio_counts(outcome, "throttle")[0]
}

fn four_tags_are_waited_for(outcome: &Outcome) {
    let case = "tag";
    let run = counted(outcome, case, "read", fio_counts(outcome, case)[0]);
    let row = run.row("read");
    only(row, &["tag"]);
    assert!(sum(row, "tag") > 4 * sum(row, "block"), "{row}");
    let (kind, target) = match outcome.kernel() {
        "7.x" => ("tp_btf", "block_rq_tag_wait"),
        _ => ("fexit", "__blk_mq_get_tag"),
    };
    assert!(run.hits(kind, target) > 0);
}

/// The kernel's own event of these waits (7.2): as many, and as long.
fn the_event_has_the_same_waits(outcome: &Outcome) {
    let events = outcome.text("tag", "events");
    let (mut since, mut waits): (BTreeMap<&str, f64>, Vec<f64>) = Default::default();
    for line in events.lines().filter(|line| !line.starts_with('#')) {
        // `fio-512 [001] .....  34.181229: block_getrq: 259,0 ...`
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("block_")).unwrap();
        let time: f64 = words[at - 1].trim_end_matches(':').parse().unwrap();
        if words[at] == "block_rq_tag_wait:" {
            since.entry(words[0]).or_insert(time);
        } else if let Some(begin) = since.remove(words[0]) {
            waits.push((time - begin) * 1e9);
        }
    }
    assert!(since.is_empty() && waits.len() > 100, "{since:?}");
    let run = ToolRun::read(outcome, "tag", "commands");
    let own = run.commands.iter().filter_map(|command| {
        let waited = tag_wait(command)?;
        (waited > 0).then_some(waited as f64)
    });
    let own: Vec<f64> = own.collect();
    let is_all = own.len() <= waits.len() && own.len() as u64 + skipped(&run) >= waits.len() as u64;
    assert!(is_all, "{} of {}", own.len(), waits.len());
    // those that are missing may be the longest, or the shortest
    waits.sort_by(f64::total_cmp);
    let (sum, n) = (own.iter().sum::<f64>(), own.len());
    let least: f64 = waits[..n].iter().sum();
    let most: f64 = waits[waits.len() - n..].iter().sum();
    assert!((0.95 * least..=1.05 * most).contains(&sum), "{sum} {least} {most}");
}

/// What may not wait for a tag is submitted again, and then it waits, as a new bio.
fn a_bio_that_may_not_wait_has_no_wait(outcome: &Outcome) {
    let case = "nowait";
    let numbers = outcome.text(case, "reads");
    let numbers: Vec<u64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let run = single(outcome, case, "read", numbers[0]);
    only(run.row("read"), &["tag"]);
    let waited = |command: &&Value| tag_wait(command) > Some(0);
    let waited = run.commands.iter().filter(waited).count() as u64;
    assert!(waited > 0 && waited <= numbers[1], "{waited} waited, {numbers:?}");
}

/// How long a command waited for a tag; `None`: the kernel skipped a program.
fn tag_wait(command: &Value) -> Option<u64> {
    let at = |point: &str| command["points_ns"][point].as_u64();
    Some(at("start")? - at("tag")?)
}

/// The attempt that failed keeps its wait, and the next one has none.
fn a_retry_has_no_wait_of_its_own(outcome: &Outcome) {
    let run = single(outcome, "retry", "read", 9);
    let failed = |command: &&Value| command["status"]["value"] != 0;
    let failed: Vec<&Value> = run.commands.iter().filter(failed).collect();
    let [failed] = failed.as_slice() else {
        panic!("{failed:?}");
    };
    let of = |command: &Value, name: &str| {
        let found = list(command, "stages").iter();
        found.filter(|stage| text(stage, "name") == name).count()
    };
    let again = |command: &&Value| number(command, "retries") == 1;
    let again = run.commands.iter().find(again).unwrap();
    assert_eq!(again["fields"]["slba"], failed["fields"]["slba"]);
    assert_eq!((of(failed, "throttle"), of(again, "throttle")), (1, 0));
    let throttle = |command: &Value| {
        let points = &command["points_ns"];
        number(points, "bio_queue") - number(points, "bio_submit")
    };
    assert!(throttle(failed) > 0, "{failed}");
    // the limit lets some reads pass at once
    let first = run.commands.iter().filter(|c| number(c, "retries") == 0);
    assert!(first.map(throttle).max() > Some(10_000_000));
}

fn a_change_of_the_scheduler_is_freeze(outcome: &Outcome) {
    counted(outcome, "freeze", "read", 2);
    is_frozen(outcome, "freeze");
}

fn a_change_to_no_scheduler_is_freeze(outcome: &Outcome) {
    single(outcome, "thaw", "read", 2);
    let scheduler = outcome.text("thaw", "scheduler");
    assert!(scheduler.contains("[none]"), "{scheduler}");
    is_frozen(outcome, "thaw");
}

fn is_frozen(outcome: &Outcome, case: &str) {
    let run = ToolRun::read(outcome, case, "commands");
    only(run.row("read"), &["freeze"]);
    let commands = run.commands;
    let [first, second] = commands.as_slice() else {
        panic!("{case}: {} commands", commands.len());
    };
    let took = outcome.text(case, "took");
    let took: Vec<u64> = took.split_whitespace().map(|ns| ns.parse().unwrap()).collect();
    let at = |command: &Value, point: &str| number(&command["points_ns"], point);
    // the queue is frozen until the first read is done
    let done = at(first, "complete");
    assert!(at(second, "freeze") < done && done < at(second, "start"), "{second}");
    assert!(number(second, "total_ns") <= took[1], "{took:?}: {second}");
}

fn writeback_throttling_is_wbt(outcome: &Outcome) {
    let case = "wbt";
    let commands = ToolRun::read(outcome, case, "commands");
    let want = number(commands.row("write"), "count");
    let run = counted(outcome, case, "write", want);
    let row = run.row("write");
    only(row, &["wbt"]);
    assert!(sum(row, "wbt") > 0, "{row}");
}

fn a_model_of_the_device_is_iocost(outcome: &Outcome) {
    let case = "iocost";
    let run = counted(outcome, case, "read", fio_counts(outcome, case)[0]);
    let row = run.row("read");
    only(row, &["iocost"]);
    is_most_of(outcome, case, row, 0.6);
    assert!(sum(row, "iocost") > 4 * sum(row, "block"), "{row}");
}

/// 8 writes at a time to one zone. From 6.10 on each waits for the one before it, without a request; before, the
/// scheduler has them.
fn writes_wait_for_their_zone(outcome: &Outcome) {
    let case = "zone";
    let want = fio_counts(outcome, case)[1];
    let run = single(outcome, case, "write", want);
    let row = run.row("write");
    only(row, &["zone"]);
    if ["5.10", "6.1"].contains(&outcome.kernel()) {
        assert_eq!(sum(row, "zone"), 0, "{row}");
        assert!(sum(row, "queue.wait") > 4 * sum(row, "device.run"), "{row}");
        return;
    }
    assert!(sum(row, "zone") > 4 * sum(row, "device.run"), "{row}");
    assert!(sum(row, "zone") > 20 * sum(row, "block"), "{row}");
    let part = part_of_fio(outcome, case, &run);
    assert!(part >= 0.98, "{part}: {row}");
    let waited = |command: &&Value| {
        let points = &command["points_ns"];
        points["iocost"].as_u64() > points["zone"].as_u64()
    };
    // all but the first, and those whose program a preemptible kernel skipped
    let waited = run.commands.iter().filter(waited).count() as u64;
    assert!(waited + skipped(&run) >= want - 2, "{waited} of {want}");
}

/// Two zones, a scheduler, writes that are split and others that are merged: each command has all its parts, and
/// each byte is in one of them.
fn writes_to_zones_are_split_and_merged(outcome: &Outcome) {
    let case = "zones";
    let run = ToolRun::summed(outcome, case, "commands");
    no_bio_was_missed(&run, case);
    let row = run.row("write");
    only(row, &["zone"]);
    assert_eq!(fio_counts(outcome, case)[1], 16 + 128);
    assert_eq!(number(row, "bytes"), (16 << 20) + (128 << 14), "{row}");
    let of = |holds: &dyn Fn(&Value) -> bool| {
        let found = run.commands.iter().filter(|command| holds(command));
        found.count()
    };
    let is_larger = of(&|c| text(c, "opcode") == "write" && number(c, "bytes") > 1 << 19);
    assert_eq!(is_larger, 0, "the controller takes 512 KiB");
    assert!(of(&|c| c["bios"].as_u64() > Some(1)) > 0, "merged");
    let has_plugs = !["5.10", "6.1"].contains(&outcome.kernel());
    assert_eq!(sum(row, "zone") > 0, has_plugs, "{row}");
}

/// On PREEMPT_RT functions have no trampolines: what lies between the bio and its request is one part.
fn the_waits_are_one_part(outcome: &Outcome) {
    for case in ["tag", "iocost"] {
        let run = ToolRun::exact(outcome, case, "histograms");
        let row = run.row("read");
        let part = stage(row, "block+freeze+zone+iocost+wbt+tag").unwrap();
        assert_eq!(number(part, "count"), fio_counts(outcome, case)[0], "{case}");
        assert!(number(part, "sum_ns") > sum(row, "queue.wait"), "{case}: {row}");
        no_bio_was_missed(&run, case);
    }
}

super::on_kernels! {
    suite WAITS [
        one_at_a_time_is_what_fio_saw without_a_cause_no_command_waits
        a_limit_of_the_cgroup_is_throttle a_limit_of_bytes_is_throttle four_tags_are_waited_for
        a_bio_that_may_not_wait_has_no_wait a_retry_has_no_wait_of_its_own
        a_change_of_the_scheduler_is_freeze a_change_to_no_scheduler_is_freeze
        writeback_throttling_is_wbt a_model_of_the_device_is_iocost writes_wait_for_their_zone
        writes_to_zones_are_split_and_merged merged_bios_are_counted
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    event WAITS [the_event_has_the_same_waits] { | only_in_test_all on_7_x "7.x" }
    realtime WAITS [the_waits_are_one_part] { | only_in_test_all on_6_12_rt "6.12-rt" }
}
