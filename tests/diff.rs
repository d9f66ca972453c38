// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of `diff` on synthetic recordings with fixed seeds: how often it raises an alarm
//! where nothing differs, and how often it finds a change that was made.
//!
//! Latencies are autocorrelated, as on real devices: log-normal with a slowly moving level, and
//! bursts in which everything takes several times as long.

use std::f64::consts::TAU;
use std::time::Duration;

use fastrand::Rng;
use nvme_deep::diff::compare::compare;
use nvme_deep::diff::report::{
    Both, Counted, Diff, Finding, Interval, LoadChange, Origin, Scope, Side,
};
use nvme_deep::diff::view::{DiffText, Subject};
use nvme_deep::model::command_class::{CommandClass, SizeClass};
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::{ControllerInfo, DiskInfo};
use nvme_deep::recording::RunInfo;
use nvme_deep::view::theme::Theme;
use nvme_deep::{Opcode, QueueKind, StageSet};
use serde_json::Value;

/// Smallest change that is claimed.
const LEAST: f64 = 0.02;

const fn stage(index: usize) -> Interval {
    Interval { is_total: false, run: StageSet::Basic.run(index, index) }
}

const QUEUE: Interval = stage(1);
const DEVICE: Interval = stage(3);
const TOTAL: Interval = Interval { is_total: true, run: StageSet::Basic.run(1, 4) };

/// A device and its load.
#[derive(Clone, Copy)]
struct Model {
    seconds: f64,
    iops: f64,
    /// Time in which the level of latencies is forgotten to 37 %.
    memory_s: f64,
    /// Bursts per second, their mean length, and the factor of latencies in them.
    bursts: (f64, f64, f64),
    /// Median of the device stage, in nanoseconds.
    device_ns: f64,
    /// Part of the commands that are writes.
    writes: f64,
}

const DEFAULT: Model = Model {
    seconds: 60.0,
    iops: 1000.0,
    memory_s: 0.05,
    bursts: (0.3, 0.1, 4.0),
    device_ns: 200e3,
    writes: 0.0,
};

fn stratum(code: u8) -> CommandClass {
    CommandClass {
        ctrl: 0,
        nsid: 1,
        opcode: Opcode { queue: QueueKind::Io, code },
        size: SizeClass::of(4096),
    }
}

/// A value of the normal distribution.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

fn recording(model: &Model, seed: u64) -> Counted {
    let mut rng = Rng::with_seed(seed);
    let mut counted = Counted::default();
    let keeps = (-1.0 / (model.iops * model.memory_s)).exp();
    let moves = (1.0 - keeps * keeps).sqrt();
    let mut level = normal(&mut rng);
    let (rate, length_s, factor) = model.bursts;
    let (step_s, mut burst_s) = (1.0 / model.iops, 0.0);
    for n in 0..(model.seconds * model.iops) as u64 {
        level = keeps * level + moves * normal(&mut rng);
        burst_s -= step_s;
        if rng.f64() < rate * step_s {
            burst_s = -length_s * (1.0 - rng.f64()).ln();
        }
        let burst = if burst_s > 0.0 { factor } else { 1.0 };
        let device = (model.device_ns * burst * (0.2 * level).exp()) as u64;
        let queue = 2000 + rng.u64(0..2000);
        let at_ns = (n as f64 * step_s * 1e9) as u64;
        let code = if rng.f64() < model.writes { 1 } else { 2 };
        let stratum = stratum(code);
        counted.command(stratum, device);
        counted.interval(stratum, QUEUE, at_ns, queue);
        counted.interval(stratum, DEVICE, at_ns, device);
        counted.interval(stratum, TOTAL, at_ns, queue + device);
    }
    counted.covering(Duration::from_secs_f64(model.seconds))
}

fn side(model: &Model, seeds: impl IntoIterator<Item = u64>) -> Side {
    let recordings = seeds.into_iter().map(|seed| recording(model, seed));
    Side { recordings: recordings.collect() }
}

fn diff(a: &Side, b: &Side) -> Diff {
    compare(a, b, LEAST, false)
}

fn finds(diff: &Diff, name: &str) -> bool {
    let rows = diff.groups.iter().flat_map(|g| &g.rows);
    let mut changed = rows.filter(|r| r.changed().next().is_some());
    changed.any(|r| r.name == name)
}

/// Pairs of sides of the same model, with this many recordings each, in which anything is claimed.
fn alarms(pairs: u64, recordings: u64, model: &Model) -> u64 {
    let alarm = |n: &u64| {
        let seeds = |n: u64| n * recordings..(n + 1) * recordings;
        let (a, b) = (side(model, seeds(2 * n)), side(model, seeds(2 * n + 1)));
        let diff = diff(&a, &b);
        assert!(diff.comparisons >= 12, "{}", diff.comparisons);
        diff.changed_rows() > 0
    };
    (0..pairs).filter(alarm).count() as u64
}

/// Comparisons in which the device stage is found to differ, when it takes `factor` times as long.
/// Ten of them share what they are compared with.
fn found(comparisons: u64, recordings: u64, model: &Model, factor: f64) -> usize {
    let slower = Model { device_ns: model.device_ns * factor, ..*model };
    let seeds = |n: u64| n * recordings..(n + 1) * recordings;
    let before: Vec<Side> = (0..comparisons / 10).map(|n| side(model, seeds(20_000 + n))).collect();
    let is_found = |n: &u64| {
        let after = side(&slower, seeds(10_000 + n));
        finds(&diff(&before[*n as usize % before.len()], &after), "device")
    };
    (0..comparisons).filter(is_found).count()
}

/// `make test-diff` has more pairs.
#[test]
fn at_most_5_percent_of_equal_pairs_raise_any_alarm() {
    let model = Model { seconds: 15.0, iops: 400.0, ..DEFAULT };
    let alarms = alarms(40, 1, &model);
    assert!(alarms <= 2, "{alarms} of 40 pairs");
}

#[test]
fn a_device_slower_by_10_percent_is_found() {
    let found = found(10, 1, &DEFAULT, 1.1);
    assert_eq!(found, 10, "of 10");
}

/// A model of so many seconds, whose level lasts so long.
const fn lasting(seconds: f64, memory_s: f64) -> Model {
    Model { seconds, memory_s, ..DEFAULT }
}

const MODELS: [(&str, Model); 9] = [
    ("60 s, 1000 IOPS", DEFAULT),
    ("12 s, 1000 IOPS", lasting(12.0, 0.05)),
    ("60 s, 100 IOPS", Model { iops: 100.0, ..DEFAULT }),
    ("60 s, levels last 1 s", lasting(60.0, 1.0)),
    ("60 s, levels last 5 s", lasting(60.0, 5.0)),
    ("12 s, levels last 1 s", lasting(12.0, 1.0)),
    ("12 s, levels last 5 s", lasting(12.0, 5.0)),
    ("60 s, a burst of 0.3 s every 30 s", Model { bursts: (0.03, 0.3, 4.0), ..DEFAULT }),
    ("60 s, 30 % writes", Model { writes: 0.3, ..DEFAULT }),
];

#[test]
#[ignore = "minutes: make test-diff, for the table of docs/dev/methods.md"]
fn rates_of_alarms_and_of_findings() {
    let several = [2, 3, 5].map(|n| ("12 s", n, lasting(12.0, 0.05)));
    let single = MODELS.map(|(name, model)| (name, 1, model));
    for (name, recordings, model) in single.into_iter().chain(several) {
        let alarms = alarms(200, recordings, &model);
        let found = found(100, recordings, &model, 1.1);
        println!("| {recordings} x {name} | {alarms} of 200 | {found} of 100 |");
    }
}

#[test]
fn the_main_claim_is_the_stage_that_changed() {
    let slower = Model { device_ns: 300e3, ..DEFAULT };
    let diff = diff(&side(&DEFAULT, [1]), &side(&slower, [2]));
    let claims = diff.claims();
    let claim = claims[0];
    assert_eq!(
        (claim.stage.unwrap().name.as_str(), claim.row.name.as_str(), claim.group.scope),
        ("device", "total", Scope::CommandClass(stratum(2)))
    );
    assert!(claim.is_slower());
    let ratio = claim.compared.ratio;
    assert!(ratio.low < 1.5 && 1.5 < ratio.high, "{ratio:?}");
    assert!(!finds(&diff, "queue") && finds(&diff, "total"));
    // closed loop or not: the rate is the same, so the load is
    assert_eq!(diff.load_changes, []);
    let iops = diff.groups[0].iops.unwrap();
    assert!(iops.low <= 1.0 && iops.high >= 1.0, "{iops:?}");
}

#[test]
fn another_mix_is_reported_and_nothing_is_compared_over_strata() {
    let model = |writes| Model { writes, seconds: 20.0, ..DEFAULT };
    let pooled = |diff: &Diff| {
        let mut scopes = diff.groups.iter().map(|g| g.scope);
        scopes.any(|s| s == Scope::Controller(0))
    };
    let same = diff(&side(&model(0.3), [1]), &side(&model(0.3), [2]));
    assert!(pooled(&same) && same.load_changes.is_empty());
    let other = diff(&side(&model(0.3), [1]), &side(&model(0.6), [2]));
    assert!(!pooled(&other));
    let [LoadChange::Mix { share, .. }] = other.load_changes.as_slice() else {
        panic!("{:?}", other.load_changes);
    };
    assert!((share.a - share.b).abs() > 0.25, "{share:?}");
    // the strata themselves are alike
    assert_eq!(other.changed_rows(), 0);
}

#[test]
fn another_depth_is_reported() {
    let busy = Model { iops: 3000.0, device_ns: 400e3, ..DEFAULT };
    let diff = diff(&side(&DEFAULT, [1]), &side(&busy, [2]));
    assert!(matches!(diff.load_changes[..], [LoadChange::Depth { .. }]));
}

/// A recording in which a machine that becomes slower and faster slows down two devices alike.
fn devices_of_one_machine(seed: u64, factor: f64) -> [Side; 2] {
    let mut rng = Rng::with_seed(seed);
    let mut sides = [Counted::default(), Counted::default()];
    let mut level = normal(&mut rng);
    for n in 0..20_000_u64 {
        level = 0.9998 * level + 0.02 * normal(&mut rng);
        for (counted, factor) in sides.iter_mut().zip([1.0, factor]) {
            let ns = (200e3 * factor * (0.3 * level + 0.2 * normal(&mut rng)).exp()) as u64;
            counted.command(stratum(2), ns);
            counted.interval(stratum(2), DEVICE, n * 1_000_000, ns);
        }
    }
    sides.map(|counted| Side { recordings: vec![counted.covering(Duration::from_secs(20))] })
}

#[test]
fn devices_of_the_same_recording_are_compared_slice_by_slice() {
    let changed = |factor: f64, paired| {
        let seeds = 0..15;
        let is_changed = |seed: &u64| {
            let [a, b] = devices_of_one_machine(*seed, factor);
            compare(&a, &b, LEAST, paired).changed_rows() > 0
        };
        seeds.filter(is_changed).count()
    };
    let (alarms, found) = (changed(1.0, true), changed(1.1, true));
    assert_eq!((alarms, found), (0, 15), "of 15");
    let unpaired = changed(1.1, false);
    assert!(unpaired < 8, "{unpaired}");
}

#[test]
fn few_commands_make_no_claim() {
    let few = Model { seconds: 1.0, ..DEFAULT };
    let slower = Model { device_ns: 2e6, ..few };
    let diff = diff(&side(&few, [1]), &side(&slower, [2]));
    // 1000 commands, but only four slices
    assert_eq!((diff.comparisons, diff.changed_rows()), (0, 0));
}

#[test]
fn a_stage_that_was_observed_for_other_commands_makes_no_claim() {
    let a = recording(&DEFAULT, 1);
    let mut b = recording(&Model { seconds: 1.0, ..DEFAULT }, 2);
    for n in 0..60_000 {
        b.command(stratum(2), 200_000);
        b.interval(stratum(2), TOTAL, n * 1_000_000, 200_000);
        if n % 2 == 0 {
            b.interval(stratum(2), DEVICE, n * 1_000_000, 900_000);
        }
    }
    let b = b.covering(Duration::from_secs(60));
    let [a, b] = [a, b].map(|r| Side { recordings: vec![r] });
    let diff = diff(&a, &b);
    let row = diff.groups[0].rows.iter().find(|r| r.name == "device");
    let observed = row.unwrap().observed.unwrap();
    assert!(observed.a > 0.99 && observed.b < 0.6, "{observed:?}");
    assert!(!finds(&diff, "device"));
    assert!(row.unwrap().compared.iter().flatten().any(|c| c.finding == Finding::Unsure));
}

/// With many comparisons an interval can exclude 1 by chance: what differs, but is not proven.
#[test]
fn a_difference_that_only_its_own_interval_shows_is_unsure_and_no_change() {
    let diffs = (0..10).map(|n| {
        let slower = Model { device_ns: 204e3, seconds: 15.0, ..DEFAULT };
        diff(&side(&Model { seconds: 15.0, ..DEFAULT }, [n]), &side(&slower, [100 + n]))
    });
    let mut unsure = 0;
    for diff in diffs {
        for compared in diff.groups.iter().flat_map(|g| &g.rows).flat_map(|r| r.compared).flatten()
        {
            let excludes_1 = compared.ratio.p <= 0.05;
            match compared.finding {
                Finding::Changed => assert!(compared.adjusted_p <= 0.05, "{compared:?}"),
                Finding::Unsure => {
                    assert!(excludes_1 && compared.adjusted_p > 0.05, "{compared:?}");
                    unsure += 1;
                }
                Finding::Same => {
                    let far = (compared.ratio.ratio - 1.0).abs() >= 0.1;
                    assert!(!excludes_1 || !far, "{compared:?}");
                }
            }
        }
    }
    assert!(unsure > 0);
}

/// A comparison as text of two widths, and as JSON.
fn shown(diff: &Diff) -> [String; 3] {
    // A's disk was gone before its name was read
    let origin = |path: &str, accuracy, disk: &str| Origin {
        path: path.into(),
        begin_ns: Some(1_780_000_000_000_000_000),
        info: RunInfo { stage_set: StageSet::Basic, ..RunInfo::default() },
        controllers: vec![ControllerInfo {
            disks: vec![DiskInfo { name: disk.into(), nsid: 1, ..DiskInfo::default() }],
            ..ControllerInfo::default()
        }],
        commands: 60_000,
        covers: Duration::from_secs(60),
        accuracy,
        is_whole: true,
    };
    let a = [origin("before.nvd", Accuracy::Exact, "")];
    let lost = Accuracy::Degraded(vec!["3 commands without a row".into()]);
    let b = [origin(&"a/long/path".repeat(8), lost, "nvme0n1")];
    let subject =
        Subject { stage_set: StageSet::Basic, origins: Both { a: &a, b: &b }, least: LEAST };
    let theme = Theme { color: false };
    let (mut narrow, mut wide, mut json) = (vec![], vec![], vec![]);
    for (width, out) in [(80, &mut narrow), (120, &mut wide)] {
        DiffText { subject, theme, detail: false, width }.write(diff, out).unwrap();
    }
    subject.json(diff, &mut json).unwrap();
    [narrow, wide, json].map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn the_verdict_comes_first_in_text_and_in_json() {
    let slower = Model { device_ns: 300e3, writes: 0.3, ..DEFAULT };
    let diff = diff(&side(&DEFAULT, [1]), &side(&slower, [2]));
    let [narrow, wide, json] = shown(&diff);
    insta::assert_snapshot!("diff_80", narrow);
    insta::assert_snapshot!("diff_120", wide);
    let objects: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["verdict"], "slower");
    let summary = objects[0]["summary"].as_str().unwrap();
    assert!(summary.starts_with("read ") && summary.contains(" nvme0n1: mean "), "{summary}");
    assert_eq!(objects[0]["changed_rows"], diff.changed_rows());
    // A has no writes, B 30 % of them
    assert!(objects[1]["iops"]["ratio"].as_f64().is_some_and(|r| (r - 0.7).abs() < 0.1));
    let device = objects.iter().find(|o| o["stage"] == "device").unwrap();
    assert_eq!((&device["type"], &device["changed"]), (&"diff_row".into(), &true.into()));
    assert_eq!(device["mean"]["finding"], "changed");
}
