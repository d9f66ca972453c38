// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output files of the tool, of fio and of the kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use nvme_deep::model::histogram::{BUCKETS, Histogram, index};
use nvme_deep::model::ids::row_nsid;
use serde_json::Value;

use super::guest::Outcome;

/// The output of one run with `--json`.
pub struct ToolRun {
    /// The final report.
    pub last: Value,
    /// All reports, the final one included.
    pub reports: Vec<Value>,
    /// Single commands.
    pub commands: Vec<Value>,
    /// The text on stderr.
    pub talk: String,
}

/// An unsigned number of an object.
pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no number `{field}` in {value}"))
}

/// A text of an object.
pub fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {value}"))
}

/// An array of an object.
pub fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("no list `{field}` in {value}"))
}

/// What a program prints with these arguments, as objects.
pub fn printed(program: &Path, words: &str) -> Vec<Value> {
    let ran = Command::new(program).args(words.split_whitespace()).output().unwrap();
    assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The objects of a type.
pub fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// The sum of a number of all objects.
pub fn sum(values: &[Value], field: &str) -> u64 {
    values.iter().map(|value| number(value, field)).sum()
}

/// Commands and bytes of rows or groups.
pub fn sums(values: &[Value]) -> [u64; 2] {
    ["count", "bytes"].map(|field| sum(values, field))
}

/// The sums of a cgroup's io.stat.
pub fn charged(outcome: &Outcome, case: &str, name: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for word in outcome.text(case, &format!("{name}.io")).split_whitespace() {
        if let Some((field, value)) = word.split_once('=') {
            *sums.entry(field.to_owned()).or_default() += value.parse::<u64>().unwrap();
        }
    }
    sums
}

impl ToolRun {
    /// Reads the run `name` of a case. It must have succeeded, with nothing but JSON on stdout.
    pub fn read(outcome: &Outcome, case: &str, name: &str) -> Self {
        Self::ended(outcome, case, name, 0)
    }

    /// The same for a run that ended with this exit code.
    pub fn ended(outcome: &Outcome, case: &str, name: &str, code: i32) -> Self {
        let talk = outcome.text(case, &format!("{name}.err"));
        assert_eq!(outcome.code(case, name), code, "{case} {name}: {talk}");
        let (mut reports, mut commands) = (Vec::new(), Vec::new());
        for line in outcome.text(case, &format!("{name}.out")).lines() {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{case} {name}: {e}: {line}"));
            assert_eq!(number(&value, "schema_version"), 2);
            match text(&value, "type") {
                "report" => reports.push(value),
                "command" | "missed" => commands.push(value),
                other => panic!("{case} {name}: an object of type {other}"),
            }
        }
        let last = reports.last().unwrap_or_else(|| panic!("{case} {name}: no report")).clone();
        assert_eq!(last["final"], true, "{case} {name}: the last report is not the final one");
        Self { last, reports, commands, talk }
    }

    /// A run whose ledger balances, with nothing lost.
    pub fn exact(outcome: &Outcome, case: &str, name: &str) -> Self {
        let run = Self::read(outcome, case, name);
        run.assert_exact(&format!("{case} {name}"));
        run
    }

    /// The same, in which [stages and rows add up](assert_sums).
    pub fn summed(outcome: &Outcome, case: &str, name: &str) -> Self {
        let run = Self::exact(outcome, case, name);
        assert_sums(&run, &format!("{case} {name}"));
        run
    }

    /// A run whose ledger balances.
    pub fn balanced(outcome: &Outcome, case: &str, name: &str) -> Self {
        let run = Self::read(outcome, case, name);
        assert_eq!(run.last["ledger"]["balance"]["balanced"], true, "{name}: {}", run.last);
        run
    }

    /// Groups of the final report.
    pub fn groups(&self) -> &[Value] {
        list(&self.last, "groups")
    }

    /// Rows of the final report.
    pub fn rows(&self) -> &[Value] {
        list(&self.last, "rows")
    }

    /// Commands of the final report on I/O queues, by opcode.
    pub fn io_counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for row in self.rows().iter().filter(|r| text(r, "queue") == "io") {
            *counts.entry(text(row, "opcode").to_owned()).or_default() += number(row, "count");
        }
        counts
    }

    /// The only row of an opcode.
    pub fn row(&self, opcode: &str) -> &Value {
        let mut rows = self.rows().iter().filter(|r| text(r, "opcode") == opcode);
        let row = rows.next().unwrap_or_else(|| panic!("no row `{opcode}` in {}", self.last));
        assert!(rows.next().is_none(), "several rows `{opcode}`");
        row
    }

    /// The ledger must balance, with nothing lost.
    pub fn assert_exact(&self, what: &str) {
        let ledger = &self.last["ledger"];
        assert_eq!(ledger["balance"]["balanced"], true, "{what}: {ledger}");
        for lost in "overwritten untracked no_row negative_intervals doorbell_list_full ring_drops unrecovered \
                     unattributed"
            .split_whitespace()
        {
            assert_eq!(number(ledger, lost), 0, "{what}: {lost}: {ledger}");
        }
        // a command that is set up while the programs are detached must not be in the run
        if ledger["misses_known"] == true {
            let (found, skipped) = (number(ledger, "unseen_setups"), self.misses_of("setup_out"));
            assert!(found <= skipped, "{what}: {found} of {skipped}: {ledger}");
        }
    }

    /// Runs of this point's programs that the kernel skipped.
    pub fn misses_of(&self, point: &str) -> u64 {
        let hooks = list(&self.last["ledger"], "hooks").iter();
        let of_point = hooks.filter(|h| h["point"] == point);
        of_point.map(|h| number(h, "recursion_misses")).sum()
    }

    /// Runs of the program on this target that the kernel skipped.
    pub fn misses(&self, target: &str) -> u64 {
        list(&self.last["ledger"], "hooks")
            .iter()
            .filter(|h| text(h, "target") == target)
            .map(|h| number(h, "recursion_misses"))
            .sum()
    }

    /// Hits of the hook on this target and of this kind.
    pub fn hits(&self, kind: &str, target: &str) -> u64 {
        list(&self.last["ledger"], "hooks")
            .iter()
            .find(|h| text(h, "kind") == kind && text(h, "target") == target)
            .map_or_else(|| panic!("no hook {kind} {target}"), |h| number(h, "hits"))
    }
}

/// A stage of a row by name.
pub fn stage<'v>(row: &'v Value, name: &str) -> Option<&'v Value> {
    list(row, "stages").iter().find(|s| text(s, "name") == name)
}

/// The key of a row: controller, namespace, queue and opcode.
type Row = (String, u64, String, String);
/// The histogram and the sum of single commands, by row and stage ("" for the total).
type Sums = BTreeMap<(Row, String), (Histogram, u64)>;

fn row_of(object: &Value) -> Row {
    let text = |field| text(object, field).to_owned();
    (
        text("ctrl"),
        // a row has one id for all ids that do not fit into its key, the broadcast id among them
        u32::try_from(number(object, "nsid")).map_or(0, row_nsid).into(),
        text("queue"),
        text("opcode"),
    )
}

fn sums_of_commands(run: &ToolRun, what: &str) -> Sums {
    let mut sums = Sums::new();
    for command in &run.commands {
        let stages = list(command, "stages");
        let Some(total) = command["total_ns"].as_u64() else {
            assert!(stages.is_empty(), "{what}: {command}");
            continue;
        };
        assert!(!stages.is_empty(), "{what}: {command}");
        let sum: u64 = stages.iter().map(|s| number(s, "ns")).sum();
        assert_eq!(sum, total, "{what}: {command}");
        let named = stages.iter().map(|s| (text(s, "name"), number(s, "ns")));
        for (name, ns) in named.chain([("", total)]) {
            let (hist, sum) = sums.entry((row_of(command), name.to_owned())).or_default();
            hist.record(ns);
            *sum += ns;
        }
    }
    sums
}

/// The number of commands without an observed interval, by row.
fn unmeasured(run: &ToolRun) -> BTreeMap<Row, u64> {
    let mut counts = BTreeMap::new();
    for command in run.commands.iter().filter(|c| c["total_ns"].is_null()) {
        *counts.entry(row_of(command)).or_default() += 1;
    }
    counts
}

/// What the programs count: without the values themselves.
fn as_counted(hist: &Histogram) -> Histogram {
    let mut buckets = [0; BUCKETS];
    hist.iter().for_each(|b| buckets[index(b.first)] = b.count);
    let sum = hist.sum().try_into().unwrap();
    Histogram::from_parts(&buckets, sum, hist.max().unwrap_or(0)).unwrap()
}

fn assert_same(dist: &Value, (hist, sum): &(Histogram, u64), what: &str) {
    let mut counted = as_counted(hist);
    if dist["max_exact"] == false {
        // a percentile in the last bucket is then its middle
        counted = counted.with_shared_max();
    }
    assert_eq!(number(dist, "count"), hist.count(), "{what}");
    assert_eq!(number(dist, "sum_ns"), *sum, "{what}");
    assert_eq!(dist["max_ns"].as_u64(), hist.max(), "{what}");
    assert_eq!(dist["p99_ns"].as_u64(), counted.percentile(99.0), "{what}");
    let buckets: Vec<_> = list(dist, "buckets")
        .iter()
        .map(|b| (number(b, "from_ns"), number(b, "to_ns"), number(b, "count")))
        .collect();
    let want: Vec<_> = hist.iter().map(|b| (b.first, b.last + 1, b.count)).collect();
    assert_eq!(buckets, want, "{what}");
}

/// The times of whole commands: `total`, or `driver` without stages.
pub fn whole(row: &Value) -> &Value {
    row.get("total").unwrap_or(&row["driver"])
}

/// The stages of every command must add up to its total. The sums and histograms of every row must
/// agree with its commands, to the nanosecond. For runs with `--commands --hist`.
pub fn assert_sums(run: &ToolRun, what: &str) {
    let mut sums = sums_of_commands(run, what);
    let unmeasured = unmeasured(run);
    for row in run.rows() {
        let none = unmeasured.get(&row_of(row)).copied().unwrap_or(0);
        assert_eq!(number(row, "unmeasured"), none, "{what}: {row}");
        let stages = list(row, "stages");
        let sum: u64 = stages.iter().map(|s| number(s, "sum_ns")).sum();
        assert_eq!(sum, number(whole(row), "sum_ns"), "{what}: {row}");
        let named = stages.iter().map(|s| (text(s, "name"), s));
        for (name, dist) in named.chain([("", whole(row))]) {
            let key = (row_of(row), name.to_owned());
            let of_commands = sums.remove(&key).unwrap_or_default();
            assert_same(dist, &of_commands, &format!("{what}: {key:?}"));
        }
    }
    assert!(sums.is_empty(), "{what}: commands without a row: {:?}", sums.keys());
}

/// The number of commands that fio issued, over all its runs in a case: reads, writes, trims,
/// syncs.
pub fn fio_counts(outcome: &Outcome, case: &str) -> [u64; 4] {
    let mut sum = [0; 4];
    let runs = outcome.files(case, ".fio");
    assert!(!runs.is_empty(), "{case}: fio did not run");
    for run in runs {
        let fio = outcome.text(case, &run);
        // fio may print warnings before its JSON
        let json = &fio[fio.find('{').unwrap_or_else(|| panic!("{case}: not JSON: {fio}"))..];
        let fio: Value = serde_json::from_str(json).unwrap();
        for job in list(&fio, "jobs") {
            assert_eq!(number(job, "error"), 0, "{case}: fio failed");
            for (n, what) in ["read", "write", "trim", "sync"].into_iter().enumerate() {
                sum[n] += number(&job[what], "total_ios");
            }
        }
    }
    sum
}

/// Commands and bytes of each job of fio, sorted.
pub fn jobs(outcome: &Outcome, case: &str) -> Vec<(u64, u64)> {
    let fio: Value = serde_json::from_str(&outcome.text(case, "jobs.fio")).unwrap();
    let of = |job: &Value| {
        let sum = |field| number(&job["read"], field) + number(&job["write"], field);
        (sum("total_ios"), sum("io_bytes"))
    };
    let mut jobs: Vec<_> = list(&fio, "jobs").iter().map(of).collect();
    jobs.sort_unstable();
    jobs
}

/// The kernel's counts between the two readings of `stat`: reads, writes, discards, flushes.
pub fn kernel_counts(outcome: &Outcome, case: &str) -> [u64; 4] {
    counts_of(outcome, case, "stat")
}

/// The same of a disk or partition whose readings have this name.
pub fn counts_of(outcome: &Outcome, case: &str, name: &str) -> [u64; 4] {
    let look = |when: &str| -> Vec<u64> {
        let stat = outcome.text(case, &format!("{name}.{when}"));
        stat.split_whitespace().map(|n| n.parse().unwrap()).collect()
    };
    let (before, after) = (look("before"), look("after"));
    // Documentation/block/stat.rst
    [0, 4, 11, 15].map(|field| after[field] - before[field])
}

/// The groups have at most the commands that are wanted, both in this order. Those that lack are in the groups
/// without a value of `field`, and the kernel skipped a program for each of these. So without skipped
/// programs they are equal.
pub fn assert_groups(run: &ToolRun, field: &str, found: &[u64], want: &[u64], what: &str) {
    let said = || format!("{what}: {found:?} of {want:?}\n{}", run.last);
    assert_eq!(found.len(), want.len(), "{}", said());
    let mut pairs = found.iter().zip(want);
    assert!(pairs.all(|(found, want)| found <= want), "{}", said());
    let lack = want.iter().sum::<u64>() - found.iter().sum::<u64>();
    assert!(lack <= unknown(run, field), "{}", said());
}

/// A group has what the kernel counted of it, in commands or bytes. What lacks is in the groups without a
/// value of `field`.
pub fn assert_sum(run: &ToolRun, (field, unit): (&str, &str), found: u64, want: u64, what: &str) {
    // the kernel may have skipped the program at the submission of a bio
    let is_less = || found < want && want - found <= unknown_of(run, field, unit);
    assert!(found == want || is_less(), "{what}: {found} of {want}\n{}", run.last);
}

/// Commands of the groups without a value of `field`: at most as many as the kernel skipped programs.
pub fn unknown(run: &ToolRun, field: &str) -> u64 {
    unknown_of(run, field, "count")
}

fn unknown_of(run: &ToolRun, field: &str, unit: &str) -> u64 {
    let groups = list(&run.last, "groups").iter();
    let unknown = groups.filter(|group| group[field].is_null() && group["other"].is_null());
    let sum = |unit| -> u64 { unknown.clone().map(|group| number(group, unit)).sum() };
    assert!(sum("count") <= skipped(run), "{}", run.last);
    sum(unit)
}

/// How often the kernel skipped a program of the run.
pub fn skipped(run: &ToolRun) -> u64 {
    skipped_by(&run.last["ledger"])
}

/// The same, by a ledger.
pub fn skipped_by(ledger: &Value) -> u64 {
    let hooks = list(ledger, "hooks").iter();
    hooks.map(|hook| number(hook, "recursion_misses")).sum()
}
