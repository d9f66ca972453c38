// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every view of a recording names the same culprit, the planted one, and has the same p99. Each view
//! has only the options without which it does not run.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::binary::{nanos, objects, shown_once};

/// A recording with a planted cause: its name, the opcode of the row that is affected, the stage in which its
/// commands wait, the group of the stage, and the stage set of the recording.
struct Plant(&'static str, &'static str, &'static str, &'static str, &'static str);

/// The planted stage has most of the time of the row.
const PLANTS: [Plant; 5] = [
    Plant("wbt", "write", "wbt", "before", "--stages=full"),
    Plant("tag-wait", "read", "tag", "before", "--stages=full"),
    Plant("cgroup-throttle", "read", "throttle", "before", "--stages=full"),
    Plant("io-cost", "read", "iocost", "before", "--stages=full"),
    Plant("scheduler", "read", "queue.wait", "queue", "--stages=fine"),
];

/// The planted stage has most of the time of the slowest commands only.
const FREEZE: Plant = Plant("queue-freeze", "read", "freeze", "before", "--stages=full");

/// Time in nanoseconds by stage.
type Times = BTreeMap<String, u64>;

/// A command in one view.
struct Command {
    total_ns: u64,
    times: Times,
}

impl Plant {
    fn file(&self) -> String {
        format!("tests/recordings/diagnose/{}.nvd", self.0)
    }

    fn run(&self, words: &str) -> String {
        shown_once(&format!("{words} --from {}", self.file()))
    }

    fn is_of_row(&self, opcode: Option<&str>) -> bool {
        opcode == Some(self.1)
    }

    /// The row of `latency`.
    fn row(&self) -> Value {
        let report: Value = serde_json::from_str(&self.run("latency --json")).unwrap();
        let rows = report["rows"].as_array().unwrap().iter();
        let mut of = rows.filter(|row| self.is_of_row(row["opcode"].as_str()));
        let row = of.next().unwrap();
        assert!(of.next().is_none(), "{}: one row", self.0);
        row.clone()
    }

    /// The words of the row on the last page of `top`: disk, opcode, IOPS, MB/s, DEPTH, P50, P99, MAX, the
    /// stage and its share.
    fn top(&self) -> Vec<String> {
        let pages = self.run("top");
        let (_, page) = pages.rsplit_once("nvme-deep top").unwrap();
        assert!(page.contains("WHOLE RUN"), "{page}");
        let name = format!("nvme0n1 {} ", self.1);
        // the first character marks the selected row
        let of_row = |line: &&str| line.get(1..).is_some_and(|line| line.starts_with(&name));
        let line = page.lines().find(of_row).unwrap_or_else(|| panic!("{page}"));
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// The commands of the row in `trace`.
    fn traced(&self, stages: &str) -> Vec<Command> {
        let trace = self.run(&format!("trace --json {stages}"));
        let events = trace.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of = events
            .filter(|e| e["type"] == "command" && self.is_of_row(e["opcode"].as_str()))
            .map(|event| Command {
                total_ns: event["total_ns"].as_u64().unwrap(),
                times: {
                    let stages = event["stages"].as_array().unwrap().iter();
                    let stage = |s: &Value| (s["name"].as_str().unwrap().into(), number(&s["ns"]));
                    stages.map(stage).collect()
                },
            });
        of.collect()
    }

    /// The commands of the row in an export: the columns whose names are made of these stages.
    fn exported(&self, stages: &str) -> Vec<Command> {
        let csv = shown_once(&format!("export --format csv -o - {}", self.file()));
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
        let (kind, opcode, total) = (at("type"), at("opcode"), at("total_ns"));
        let column =
            |stage: &str| (stage.to_owned(), at(&format!("{}_ns", stage.replace('.', "_"))));
        let columns: Vec<(String, usize)> = stages.split_whitespace().map(column).collect();
        let of = lines.filter(|row| {
            assert_eq!(row.len(), head.len(), "a text with a comma");
            row[kind] == "command" && self.is_of_row(Some(row[opcode]))
        });
        let command = |row: Vec<&str>| Command {
            total_ns: row[total].parse().unwrap(),
            times: {
                let time =
                    |(stage, n): &(String, usize)| Some((stage.clone(), row[*n].parse().ok()?));
                columns.iter().filter_map(time).collect()
            },
        };
        of.map(command).collect()
    }
}

const GROUPS: &str = "before queue submit device complete end";
const PARTS: &str = "throttle block freeze zone iocost wbt tag queue.wait queue.setup submit.map submit.ring \
    device.run device.irq complete end";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The stage with most of the time of these commands.
fn largest(commands: &[Command]) -> String {
    let mut sums = Times::new();
    for (stage, ns) in commands.iter().flat_map(|command| &command.times) {
        *sums.entry(stage.clone()).or_default() += ns;
    }
    sums.into_iter().max_by_key(|(_, ns)| *ns).unwrap().0
}

/// The 99th percentile of the totals, by nearest rank.
fn p99(commands: &[Command]) -> u64 {
    let mut totals: Vec<u64> = commands.iter().map(|command| command.total_ns).collect();
    totals.sort_unstable();
    totals[(totals.len() * 99).div_ceil(100) - 1]
}

/// Three digits are as exact as this.
const ROUNDED: f64 = 0.005;

/// The count of each cell of a picture, and the range of its values.
fn cells(svg: &str) -> Vec<(u64, f64, f64)> {
    let notes = svg.split("<title>").skip(1).map(|note| note.split("</title>").next().unwrap());
    let cell = |note: &str| {
        let [count, range, _]: [&str; 3] =
            note.split("&#10;").collect::<Vec<_>>().try_into().ok()?;
        let digits: String = count.chars().filter(char::is_ascii_digit).collect();
        let (from, to) = range.split_once(" to ").unwrap();
        Some((digits.parse().unwrap(), nanos(from), nanos(to)))
    };
    // the legend has other notes
    notes.filter_map(cell).collect()
}

#[test]
fn every_view_names_the_planted_stage_and_has_the_same_p99() {
    for plant in PLANTS.iter().chain([&FREEZE]) {
        let Plant(name, opcode, part, group, parts) = plant;
        let (row, words) = (plant.row(), plant.top());
        let want = number(&row["total"]["p99_ns"]);
        assert_eq!(row["total"]["percentile_error"], 0.0, "{name}");
        assert!((nanos(&words[6]) / want as f64 - 1.0).abs() < ROUNDED, "{name}: {words:?}");
        picture_has_the_p99(plant, number(&row["count"]), want);
        let by_group = [("trace", plant.traced("")), ("export", plant.exported(GROUPS))];
        for (view, commands) in &by_group {
            assert_eq!(commands.len() as u64, number(&row["count"]), "{name} {view}");
            assert_eq!(p99(commands), want, "{name} {view}");
        }
        // only its slowest commands have waited
        if *name == FREEZE.0 {
            continue;
        }
        let place = &row["where"];
        assert_eq!(place["stage"], *part, "{name}");
        let share = format!("{:.0}%", 100.0 * place["share"].as_f64().unwrap());
        assert_eq!(words[8..10], [*part, &share], "{name}: {words:?}");

        let text = plant.run("latency");
        let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut lines = words.filter(|words| words.starts_with(&["nvme0n1", *opcode]));
        let line = lines.next().unwrap();
        assert_eq!(line[line.len() - 2..], [*part, &share], "{name}: {line:?}");

        for ((view, by_group), by_part) in
            by_group.iter().zip([plant.traced(parts), plant.exported(PARTS)])
        {
            assert_eq!(largest(by_group), *group, "{name} {view}");
            assert_eq!(largest(&by_part), *part, "{name} {view}");
        }
    }
}

/// A heat map has this many commands, and the cell of this p99.
fn picture_has_the_p99(plant: &Plant, commands: u64, want: u64) {
    let Plant(name, opcode, ..) = plant;
    let svg = plant.run(&format!("heatmap --opcode {opcode} -o -"));
    assert!(svg.contains("nvme0n1: total latency"), "{name}");
    let mut cells = cells(&svg);
    cells.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count: u64 = cells.iter().map(|cell| cell.0).sum();
    assert_eq!(count, commands, "{name}: every command is in the picture");
    let (rank, mut below) = ((count * 99).div_ceil(100), 0);
    let cell = cells.iter().find(|cell| {
        below += cell.0;
        below >= rank
    });
    let (_, from, to) = *cell.unwrap();
    let range = from * (1.0 - ROUNDED)..to * (1.0 + ROUNDED);
    assert!(range.contains(&(want as f64)), "{name}: {range:?} has no {want}");
}

/// Waits before the request count: otherwise two equal loads would seem to differ where a wait is the cause.
#[test]
fn diff_has_the_depth_of_latency() {
    for plant in PLANTS.iter().chain([&FREEZE]) {
        let row = plant.row();
        let total = row["total"]["sum_ns"].as_u64().unwrap() as f64;
        let mut classes: BTreeMap<u64, f64> = BTreeMap::new();
        let mut covers_s = 0.0;
        let file = plant.file();
        for line in objects(&format!("diff {file} {file} --json")) {
            if line["type"] == "diff" {
                covers_s = line["a"][0]["covers_s"].as_f64().unwrap();
            } else if plant.is_of_row(line["opcode"].as_str()) {
                let depth = line["a"]["in_flight"].as_f64().unwrap();
                classes.insert(line["size_max"].as_u64().unwrap(), depth);
            }
        }
        let (depth, want) = (classes.values().sum::<f64>(), total / 1e9 / covers_s);
        // classes of few commands have no row
        assert!((0.98..1.001).contains(&(depth / want)), "{}: {depth} {want}", plant.0);
    }
}

#[test]
fn the_slowest_commands_waited_for_the_frozen_queue() {
    for (view, mut commands) in
        [("trace", FREEZE.traced(FREEZE.4)), ("export", FREEZE.exported(PARTS))]
    {
        commands.sort_unstable_by_key(|command| command.total_ns);
        let slowest = commands.split_off(commands.len() - commands.len().div_ceil(100));
        assert!(!slowest.is_empty(), "{view}");
        assert_eq!(largest(&slowest), FREEZE.2, "{view}");
        // which the others did not
        assert_eq!(largest(&commands), "device.run", "{view}");
    }
}

/// Places and totals of the rows of `latency`, with these stages.
fn places(file: &str, stages: &str) -> Vec<(String, u64, u64)> {
    let report = objects(&format!("latency --json {stages} --from {file}")).pop().unwrap();
    let rows = report["rows"].as_array().unwrap().iter();
    let place = |row: &Value| {
        let stage = row["where"]["stage"].as_str().unwrap_or_default().to_owned();
        (stage, row["count"].as_u64().unwrap(), row["total"]["sum_ns"].as_u64().unwrap())
    };
    rows.map(place).collect()
}

/// The stages that are asked for change neither the total nor the place that is named.
#[test]
fn all_stage_sets_name_the_same_place_and_have_the_same_total() {
    let planted = |plant: &Plant| (plant.file(), plant.4);
    let mut files: Vec<(String, &str)> = PLANTS.iter().map(planted).collect();
    files.push(planted(&FREEZE));
    files.push(("tests/recordings/6.12.nvd".into(), "--stages=fine"));
    for (file, most) in files {
        let want = places(&file, "");
        assert!(!want.is_empty() && want.iter().all(|(stage, ..)| !stage.is_empty()), "{file}");
        for stages in ["--stages=basic", "--stages=fine", most] {
            assert_eq!(places(&file, stages), want, "{file} {stages}");
        }
    }
}
