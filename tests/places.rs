// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the unmodified C of bpf/include on models of the kernel.
//! The head of each file in tests/places says what it models.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use nvme_deep::probe::catalog::number_of;

use crate::parity::build;

// several tests run these; each takes seconds to compile
static FAULTS: LazyLock<PathBuf> =
    LazyLock::new(|| build::harness("places/faults.c", "faults", &[]));
static ROWS: LazyLock<PathBuf> = LazyLock::new(|| build::harness("places/rows.c", "rows", &[]));

/// The programs, by their names in src/probe/catalog.rs.
const PROGRAMS: [&str; 13] = [
    "start_btf",
    "setup_in_fentry",
    "setup_out_btf",
    "issue_btf",
    "queue_rq_fexit",
    "queue_rqs_fexit",
    "irq_in_fentry",
    "irq_out_fexit",
    "cqe_btf",
    "cqe_second",
    "complete_btf",
    "end_btf",
    "requeue_btf",
];

/// The results of the fault model.
#[derive(Debug)]
struct Faults {
    completed: u64,
    records: u64,
    /// Records without a latency.
    unmeasured: u64,
    /// Points of another command, and commands without exactly one record.
    foreign: u64,
    points: u64,
    /// Requeues that were reported. `requeued`: requeues that happened.
    reported: u64,
    requeued: u64,
    /// Doorbells that are discarded as unsure.
    unsure: u64,
}

impl Faults {
    /// The programs in `ignoring` skip every 97th of their events; `switches` as in faults.c.
    fn run(harness: &Path, seed: u64, mode: u8, ignoring: &[&str], switches: u8) -> Self {
        Self::often(harness, [seed, mode.into(), switches.into(), 97], ignoring)
    }

    /// The programs in `ignoring` skip one of `every` events.
    fn often(harness: &Path, [seed, mode, switches, every]: [u64; 4], ignoring: &[&str]) -> Self {
        let mask = ignoring.iter().fold(0_u64, |mask, p| mask | 1 << number_of(p).unwrap());
        let [completed, records, unmeasured, foreign, points, reported, requeued, unsure] =
            numbers(harness, &[seed, 40_000, mode, mask, switches, every]);
        Self { completed, records, unmeasured, foreign, points, reported, requeued, unsure }
    }

    fn is_true(&self) -> bool {
        self.completed == self.records && self.foreign == 0 && self.reported <= self.requeued
    }
}

/// No program, each program, and each pair of programs.
fn skipped() -> Vec<Vec<&'static str>> {
    let single = PROGRAMS.iter().map(|&p| vec![p]);
    let pairs = (0..PROGRAMS.len())
        .flat_map(|n| PROGRAMS[n + 1..].iter().map(move |&p| vec![PROGRAMS[n], p]));
    [vec![]].into_iter().chain(single).chain(pairs).collect()
}

/// Runs a harness, and returns the numbers that it prints.
fn numbers<const N: usize>(harness: &Path, words: &[u64]) -> [u64; N] {
    let output = Command::new(harness)
        .args(words.iter().map(u64::to_string))
        .output()
        .expect("the harness runs");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().map(|w| w.parse().unwrap());
    [(); N].map(|()| words.next().unwrap())
}

#[test]
fn every_command_is_its_own_controllers() {
    let harness = build::harness("places/harness.c", "places", &[]);
    for seed in 0..20 {
        // `moved`: on a queue that reuses memory of another one
        let [commands, moved, wrong] = numbers(&harness, &[seed, 30_000]);
        assert!(commands > 20_000 && moved > 4_000, "{commands} {moved}");
        assert_eq!(wrong, 0, "seed {seed}, {commands} commands");
    }
}

/// Validates the test above: it must fail if the caches are never invalidated.
#[test]
fn without_forgetting_they_would_not_be() {
    let harness = build::harness("places/harness.c", "places-not", &["-DNEVER_FORGET"]);
    let [_, moved, wrong]: [u64; 3] = numbers(&harness, &[0, 30_000]);
    assert!(wrong > moved / 10, "{wrong} of {moved}");
}

#[test]
fn whatever_is_skipped_each_command_is_counted_once_and_no_point_is_anothers() {
    let harness = &*FAULTS;
    let (mut commands, mut points) = (0, 0);
    for (n, ignoring) in skipped().iter().enumerate() {
        for mode in 0..3 {
            let run = Faults::run(harness, n as u64, mode, ignoring, 7);
            assert!(run.is_true(), "{ignoring:?}, mode {mode}: {run:?}");
            // only a skipped setup or completion leaves commands without a latency
            let essential = ["setup_out_btf", "complete_btf"];
            let misses = ignoring.iter().any(|p| essential.contains(p));
            assert_eq!(run.unmeasured > 0, misses, "{ignoring:?}: {run:?}");
            commands += run.completed;
            points += run.points;
        }
    }
    assert!(commands > 1_000_000 && points > 5_000_000, "{commands} {points}");
}

/// Before 5.17 the driver changes the generation at the setup, and no program at a tracepoint of a
/// setup or a requeue is skipped.
#[test]
fn the_set_up_may_change_the_generation_as_well() {
    let harness = &*FAULTS;
    let observed = ["start_btf", "setup_out_btf", "requeue_btf"];
    let (mut old_points, mut new_points) = (0, 0);
    for (n, ignoring) in skipped().iter().enumerate() {
        if ignoring.iter().any(|p| observed.contains(p)) {
            continue;
        }
        for seed in [2 * n, 2 * n + 1] {
            let [old, new] = [15, 7].map(|on| Faults::run(harness, seed as u64, 2, ignoring, on));
            assert!(old.is_true(), "{ignoring:?}, seed {seed}: {old:?}");
            old_points += old.points;
            new_points += new.points;
        }
        for mode in 0..2 {
            let old = Faults::run(harness, n as u64, mode, ignoring, 15);
            assert!(old.is_true(), "{ignoring:?}, mode {mode}: {old:?}");
        }
    }
    // all but the first commands
    assert!(old_points * 1000 > new_points * 995, "{old_points} {new_points}");
}

/// A lost flush is over when its generation repeats.
#[test]
fn a_former_slot_is_left_to_its_new_command() {
    let harness = build::harness("places/former.c", "former", &[]);
    let [runs, wrong, of_requeues, of_flushes] = numbers(&harness, &[]);
    assert!(runs > 256 * 5, "{runs}");
    assert_eq!((wrong, of_requeues, of_flushes), (0, 0, 0), "of {runs}");
}

#[test]
fn rows_do_not_run_out_because_of_rare_patterns() {
    let harness = &*ROWS;
    for seed in 0..10 {
        for mode in 0..4 {
            let [commands, no_row, fewer, wrong, _] = numbers(harness, &[seed, 20_000, mode, 1]);
            let context = format!("seed {seed}, mode {mode}");
            assert_eq!((no_row, wrong), (0, 0), "{context}");
            // with the total only, there are hardly any patterns
            assert!(mode == 0 || fewer > 0, "{context}");
            // most commands have the first kinds, which keep their stages
            assert!(fewer < commands, "{context}: {fewer}");
        }
    }
}

/// Where points are rarely missing, kinds of commands that come late have reserved rows for all their points.
#[test]
fn usual_patterns_have_reserved_rows() {
    let harness = &*ROWS;
    for mode in [2, 3] {
        let reserved = |seed| {
            let [_, no_row, _, wrong, usual] = numbers(harness, &[seed, 20_000, mode, 40]);
            assert_eq!((no_row, wrong), (0, 0), "seed {seed}, mode {mode}");
            usual
        };
        let all: u64 = (0..10).map(reserved).sum();
        assert!(all > 0, "mode {mode}");
    }
}

/// The cases of tests/places/chosen.c.
#[test]
fn commands_are_chosen_and_counted_on_any_cpu() {
    let harness = build::harness("places/chosen.c", "chosen", &[]);
    let cases =
        [(1, "a controller that the filter leaves out"), (2, "shared cells"), (3, "a large batch")];
    for (case, what) in cases {
        let holds = Command::new(&harness).arg(case.to_string()).status().unwrap().success();
        assert!(holds, "{what}");
    }
}

/// A missed command has no doorbell after its end. A CQE does not belong to the command before: it shows that the
/// slot's command is over, if the next setup was skipped as well.
#[test]
fn what_is_skipped_often_gives_no_point_to_another_command() {
    for (modes, ignoring, every, least) in [
        (1..3, &["cqe_btf", "cqe_second", "complete_btf"][..], 3, 100),
        (0..3, &["setup_out_btf", "complete_btf"], 4, 1000),
    ] {
        for (mode, seed) in modes.flat_map(|mode| (0..8).map(move |seed| (mode, seed))) {
            let run = Faults::often(&FAULTS, [seed, mode, 7, every], ignoring);
            assert!(run.is_true() && run.unmeasured > least, "{ignoring:?}, {mode}: {run:?}");
        }
    }
}

/// The idle task has the same number on each CPU.
#[test]
fn a_submission_from_idle_cpus_has_its_own_doorbell() {
    let harness = &*FAULTS;
    for switches in [16, 16 | 7] {
        for mode in 1..3 {
            let run = Faults::run(harness, 3, mode, &[], switches);
            assert!(run.is_true(), "switches {switches}, mode {mode}: {run:?}");
        }
    }
}

/// Validates the test above: without one of the checks it must fail.
#[test]
fn without_its_checks_commands_or_points_would_be_wrong() {
    let harness = &*FAULTS;
    for (switches, ignoring) in [
        (6, "setup_out_btf"),
        (6, "complete_btf"),
        (5, "queue_rq_fexit"),
        (5, "queue_rqs_fexit"),
        (3, "irq_out_fexit"),
    ] {
        let run = Faults::run(harness, 1, 2, &[ignoring], switches);
        assert!(!run.is_true(), "{ignoring}: {run:?}");
        assert!(Faults::run(harness, 1, 2, &[ignoring], 7).is_true());
    }
}

/// The driver announces a command that a filter rejects together with the others.
#[test]
fn a_filter_makes_no_doorbell_unsure() {
    let harness = &*FAULTS;
    for mode in 1..3 {
        let of = |switches| Faults::run(harness, 5, mode, &[], switches);
        let (all, filtered) = (of(7), of(7 | 32));
        assert!(filtered.is_true() && filtered.completed < all.completed * 6 / 10);
        let share = |run: &Faults| run.unsure * 1000 / run.completed;
        let shares = (share(&filtered), share(&all));
        assert!(shares.0 < shares.1 + 20, "of a thousand: {shares:?}");
        for (seed, program) in PROGRAMS.iter().enumerate() {
            let run = Faults::run(harness, seed as u64, mode, &[program], 7 | 32);
            assert!(run.is_true(), "{program}, mode {mode}: {run:?}");
        }
    }
}

/// Whatever waits, is split, and uses an address and a sector again.
#[test]
fn each_request_has_the_task_that_submitted_its_bio() {
    let harness = build::harness("places/submitters.c", "submitters", &[]);
    for old in [0, 1] {
        for seed in 0..10 {
            let counts = numbers(&harness, &[seed, 100_000, old]);
            let [requests, waited, pieces, of_above, wrong, lost, unknown] = counts;
            assert!(requests > 20_000 && waited > 5_000 && pieces > 3_000 && of_above > 10_000);
            assert_eq!(wrong, 0, "seed {seed}, old {old}, {requests} requests");
            // those are not taken for commands of others
            assert!(lost > 300 && unknown == lost, "{lost}, {unknown}");
        }
    }
}

#[test]
fn each_request_has_the_times_of_its_bio() {
    let harness = build::harness("places/bios.c", "bios", &[]);
    for by_bio in [0, 1] {
        for seed in 0..10 {
            // requests, bios that waited, pieces, merged ones, and those kept out
            let counts: [u64; 8] = numbers(&harness, &[seed, 100_000, by_bio]);
            let mut enough = counts.iter().zip([20_000, 5_000, 500, 5_000, 2_000]);
            assert!(enough.all(|(count, least)| *count > least), "{counts:?}");
            // lost, wrong, miscounted
            assert_eq!(counts[5..], [0; 3], "seed {seed}, by bio {by_bio}");
        }
    }
}

#[test]
fn a_cpu_that_was_offline_has_no_gap_but_a_new_timer() {
    let harness = build::harness("places/ticks.c", "ticks", &[]);
    assert_eq!(numbers(&harness, &[]), [1, 9, 1001, 2, 13, 3210]);
}

/// A completion interrupts a completion, between any two accesses to memory.
#[test]
fn programs_that_interrupt_themselves_lose_nothing_with_atomics() {
    let harness = build::harness("places/nested.c", "nested", &["-fsanitize=thread"]);
    for (seed, mode) in [(1, 1), (2, 2)] {
        let run = |nests| numbers(&harness, &[seed, 60_000, mode, nests]);
        let [completed, nested, hits, commands, wrong] = run(1);
        assert!(completed > 40_000 && nested > 20_000, "{nested}");
        assert_eq!([hits, commands, wrong], [0; 3], "mode {mode}");
        // validates this test
        let [_, _, hits, _, wrong] = run(0);
        assert!(hits > 50 && wrong > 0, "mode {mode}: {hits}");
    }
}
