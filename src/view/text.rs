// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text: a table of rows or groups, then the stages of each.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::ledger::write_ledger;
use super::table::{Cell, Table, WIDE};
use super::theme::Theme;
use crate::model::histogram::Histogram;
use crate::model::ledger::Ledger;
use crate::model::point::Point;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{Report, RowReport, Share, StageReport};
use crate::model::stage::StageSet;
use crate::units::{counted, nanos, percent, rate};
use crate::view::header::fill;

/// Longest bar.
const BAR: usize = 40;
/// Longest name of joined stages.
const NAME: usize = 22;
/// Stages with less than this share are summed up.
const SMALL: f64 = 0.02;
/// Most lines of a histogram.
const LINES: usize = 20;

/// Writes reports as text.
#[derive(Clone, Copy, Debug)]
pub struct TextView {
    /// Colours.
    pub theme: Theme,
    /// Columns of the output.
    pub width: usize,
    /// Show a histogram of each stage.
    pub hist: bool,
    /// Show all stages, and the whole ledger, even if it is exact.
    pub detail: bool,
    /// The number of groups that are shown.
    pub top: usize,
    /// What the run did not measure: the last line of the last report.
    pub advice: Option<&'static str>,
}

/// A row or group that is shown: its names, the part of a group of all time, its numbers.
pub(crate) struct Shown<'r, K> {
    pub(crate) names: Vec<Cell<'r>>,
    pub(crate) share: Option<f64>,
    pub(crate) row: &'r RowReport<K>,
}

impl<K> Shown<'_, K> {
    pub(crate) fn name(&self) -> String {
        self.names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" ")
    }
}

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".into(), nanos)
}

/// Mean, percentiles and maximum. `p99.9` is left out of a narrow table.
pub(crate) fn times(h: &Histogram, p90: bool, p999: bool) -> impl Iterator<Item = Cell<'static>> {
    let percentile = |p| time(h.percentile(p).map(|ns| ns as f64));
    let mark = if h.max_exact() { "" } else { "~" };
    [
        Some(("MEAN", time(h.mean()))),
        Some(("P50", percentile(50.0))),
        p90.then(|| ("P90", percentile(90.0))),
        Some(("P99", percentile(99.0))),
        p999.then(|| ("P99.9", percentile(99.9))),
        Some((
            "MAX",
            format!("{}{}", h.max().map_or("", |_| mark), time(h.max().map(|ns| ns as f64))),
        )),
    ]
    .into_iter()
    .flatten()
}

impl TextView {
    /// A view without histograms and groups.
    pub fn of(theme: Theme, width: usize, detail: bool) -> Self {
        Self { theme, width, hist: false, detail, top: 0, advice: None }
    }

    /// Writes a report below its heading.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn report(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let Report { stage_set, is_final, rows, groups, ledger, disks, .. } = report;
        let mut is_empty = rows.is_empty();
        if let Some(groups) = groups {
            let by = groups.by.iter().map(|by| by.name()).collect::<Vec<_>>().join(",");
            let head = format!("<{}", by.to_uppercase());
            let (shown, rest) = groups.first(self.top);
            is_empty = shown.is_empty();
            let shown = shown.into_iter().map(|group| Shown {
                names: vec![(&head, groups.name(&group.row.key, disks))],
                share: Some(group.share),
                row: &group.row,
            });
            self.rows(&shown.collect::<Vec<_>>(), *stage_set, out)?;
            if let Some(rest) = rest {
                let (commands, share) = (counted(rest.commands, "command"), percent(rest.share));
                let groups = counted(rest.groups as u64, "more group");
                writeln!(out, "{groups}: {commands}, {share} of the time; --top shows more\n")?;
            }
        } else {
            self.disk_rows(rows, *stage_set, disks, out)?;
        }
        if is_empty {
            writeln!(out, "no finished command to show{}", hint(ledger))?;
        }
        write_ledger(ledger, self.theme, self.detail, out)?;
        let advice = self.advice.filter(|_| *is_final && !is_empty);
        for line in advice.map(|advice| fill(advice, 0)).unwrap_or_default() {
            writeln!(out, "{line}")?;
        }
        writeln!(out)
    }

    /// Writes a table of rows by disk and opcode, and their stages.
    ///
    /// # Errors
    /// Errors of the writer.
    pub(crate) fn disk_rows(
        &self,
        rows: &[RowReport],
        stage_set: StageSet,
        disks: &DiskNames,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let shown = rows.iter().map(|row| {
            let key = &row.key;
            let subject = disks.subject(key.ctrl, key.nsid, key.opcode);
            let (disk, op) = subject.rsplit_once(' ').unwrap_or((&subject, ""));
            let names = vec![("<DISK", disk.into()), ("<OP", op.into())];
            Shown { names, share: None, row }
        });
        self.rows(&shown.collect::<Vec<_>>(), stage_set, out)
    }

    /// Writes the table of rows, and what is known of each.
    fn rows<K>(
        &self,
        rows: &[Shown<'_, K>],
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::default();
        // a row may have no measured command, and so no stage
        let has_stages = rows.iter().any(|shown| !shown.row.stages.is_empty());
        rows.iter().for_each(|shown| table.row(self.cells(shown, has_stages)));
        table.write(self.theme, self.width, out)?;
        let unmeasured = rows.iter().filter(|shown| shown.row.unmeasured > 0);
        let unmeasured: Vec<String> =
            unmeasured.map(|shown| format!("{} {}", shown.name(), shown.row.unmeasured)).collect();
        if !unmeasured.is_empty() {
            let text = format!("unmeasured: {}", unmeasured.join(", "));
            fill(&text, 0).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        writeln!(out)?;
        if stage_set != StageSet::Total {
            self.stages(rows, stage_set, out)?;
        }
        for shown in rows.iter().filter(|_| self.hist) {
            writeln!(out, "{}", self.theme.head(&shown.name()))?;
            for stage in
                self.shown_stages(shown.row).0.iter().filter(|_| stage_set != StageSet::Total)
            {
                self.histogram(&stage.name, &stage.hist, out)?;
            }
            self.histogram(stage_set.whole(), &shown.row.total, out)?;
            writeln!(out)?;
        }
        rows.iter().try_for_each(|shown| self.lat(shown, out))
    }

    /// A row or a group as cells.
    pub(crate) fn cells<'r, K>(&self, shown: &Shown<'r, K>, has_stages: bool) -> Vec<Cell<'r>> {
        let mut cells = shown.names.clone();
        cells.extend(self.numbers(shown));
        cells.extend(has_stages.then(|| ("<WHERE", self.places(shown.row))));
        cells
    }

    fn numbers<K>(&self, Shown { share, row, .. }: &Shown<'_, K>) -> Vec<Cell<'static>> {
        let wide = self.width >= WIDE;
        let mut cells = vec![
            ("CMDS", short_count(row.count)),
            ("IOPS", rate(row.iops)),
            ("MB/s", rate(row.mb_per_s)),
        ];
        cells.extend(share.map(|share| ("SHARE", percent(share))));
        // Little's law
        let depth = || row.iops * row.total.mean().unwrap_or(0.0) / 1e9;
        cells.extend(wide.then(|| ("DEPTH", rate(depth()))));
        cells.extend(times(&row.total, wide, wide));
        cells
    }

    /// The stages with most of the time of a row.
    fn places<K>(&self, row: &RowReport<K>) -> String {
        let places = row.places();
        let places = places.iter().take(if self.width >= WIDE { 3 } else { 1 });
        let places = places.filter(|place| place.share >= 0.01);
        let text = |place: &Share| format!("{} {}", short_name(&place.stage), percent(place.share));
        places.map(text).collect::<Vec<_>>().join("  ")
    }

    /// The stages of a row that get a line each, and the others.
    pub(crate) fn shown_stages<'r, K>(
        &self,
        row: &'r RowReport<K>,
    ) -> (Vec<&'r StageReport>, Vec<&'r StageReport>) {
        let had = || row.stages.iter().filter(|stage| !stage.is_idle_wait());
        let is_small = |stage: &&StageReport| share(&stage.hist, row) < SMALL;
        // a line for one stage can be its own
        let all = self.detail || had().filter(is_small).count() < 2;
        had().partition(|stage| all || !is_small(stage))
    }

    /// Writes the stages of all rows.
    fn stages<K>(
        &self,
        rows: &[Shown<'_, K>],
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (mut table, mut merged) = (Table::default(), BTreeMap::<String, (u64, String)>::new());
        for shown in rows {
            let row = shown.row;
            table.title(shown.name());
            let (stages, small) = self.shown_stages(row);
            for stage in stages {
                table.row(self.stage(&name_of(row, stage), &stage.hist, row));
                if stage.name.contains('+') {
                    let name =
                        |point: Point| stage_set.name_of_point(point).unwrap_or(point.name());
                    let points: Vec<_> = stage.run.unobserved().map(name).collect();
                    merged.entry(stage.name.clone()).or_insert((0, points.join(", "))).0 +=
                        stage.hist.count();
                }
            }
            if !small.is_empty() {
                let name = format!("other ({} stages)", small.len());
                let mut cells = self.stage(&name, &Histogram::new(), row);
                cells.iter_mut().skip(2).for_each(|cell| cell.1.clear());
                cells[1].1 = percent(small.iter().map(|stage| share(&stage.hist, row)).sum());
                table.row(cells);
            }
            if self.detail {
                table.row(self.stage("total", &row.total, row));
            }
        }
        table.write(self.theme, self.width, out)?;
        for (name, (n, points)) in merged {
            let text = format!("{name}: {points} not observed for {}", counted(n, "command"));
            for line in fill(&text, 0) {
                writeln!(out, "{}", self.theme.dim(&line))?;
            }
        }
        writeln!(out)
    }

    /// A stage as cells.
    pub(crate) fn stage<K>(
        &self,
        name: &str,
        h: &Histogram,
        row: &RowReport<K>,
    ) -> Vec<Cell<'static>> {
        let mut cells = vec![("<STAGE", format!("  {name}")), ("SHARE", percent(share(h, row)))];
        cells.extend(self.detail.then(|| ("N", short_count(h.count()))));
        cells.extend(times(h, true, self.detail || self.width >= WIDE));
        cells
    }

    /// Writes a histogram by powers of two, or of four if there are many.
    fn histogram(&self, name: &str, h: &Histogram, out: &mut dyn Write) -> io::Result<()> {
        let power = |ns: u64| u64::from(ns.max(1).ilog2());
        let (Some(first), Some(last)) =
            (h.iter().map(|b| b.first).next(), h.iter().map(|b| b.last).last())
        else {
            return Ok(());
        };
        let step = (power(last) - power(first)) / LINES as u64 + 1;
        let mut bars: BTreeMap<u64, u64> =
            (power(first) / step..=power(last) / step).map(|n| (n, 0)).collect();
        h.iter().for_each(|b| *bars.entry(power(b.first) / step).or_default() += b.count);
        let most = bars.values().copied().max().unwrap_or(1);
        writeln!(out, "  {}", self.theme.dim(name))?;
        for (n, count) in bars {
            let edge = |n: u64| nanos(((n * step) as f64).exp2());
            let filled = (u128::from(count) * BAR as u128).div_ceil(most.into()) as usize;
            let bar = self.theme.bar(&"#".repeat(filled));
            let line = format!("  {:>7} to {:<7}{count:>9} {bar}", edge(n), edge(n + 1));
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes the table of nvme_latency, in the format of that tool.
    fn lat<K>(&self, shown: &Shown<'_, K>, out: &mut dyn Write) -> io::Result<()> {
        if shown.row.lat.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", self.theme.head(&shown.name()))?;
        writeln!(out, "    {}", self.theme.dim("Latency Range       Count  Cumulative Percent"))?;
        for lat in &shown.row.lat {
            let high = lat.high_us.map_or_else(|| "inf".into(), |us| format!("{us}us"));
            let range = format!("[{}us - {high}):", lat.low_us);
            writeln!(out, "    {range:<20}{:<7}{:>7.1}", lat.count, lat.cumulative_percent)?;
        }
        writeln!(out)
    }
}

/// The part of a stage in the time of its row.
pub(crate) fn share<K>(h: &Histogram, row: &RowReport<K>) -> f64 {
    h.sum() as f64 / (row.total.sum() as f64).max(1.0)
}

/// Why there may be no command.
fn hint(ledger: &Ledger) -> String {
    match (ledger.filtered, ledger.in_flight) {
        (0, 0) => String::new(),
        (0, n) => format!("; {n} in flight"),
        (n, _) => format!("; {n} filtered out"),
    }
}

/// What the times of a report are, in words.
pub fn span(stage_set: StageSet, ledger: &Ledger) -> String {
    let (from, to) = ledger.span;
    format!("{} = from {} to {}", stage_set.whole(), words(from), words(to))
}

const fn words(point: Point) -> &'static str {
    match point {
        Point::Submit => "the submission of the bio",
        Point::Start => "the allocation of the request",
        Point::SetupOut => "the setup of the command",
        Point::Complete => "its completion by the driver",
        Point::End => "the end of the request",
        other => other.name(),
    }
}

/// The time of a row in a group of stages, in nanoseconds.
pub(super) fn group_ns<K>(row: &RowReport<K>, group: Option<&str>) -> u128 {
    let stages = row.stages.iter().filter(|stage| stage.run.group() == group);
    stages.map(|stage| stage.hist.sum()).sum()
}

/// The name of a stage with the part that makes up at least half of it: `before: wbt 97%`.
pub(crate) fn name_of<K>(row: &RowReport<K>, stage: &StageReport) -> String {
    let group = stage.run.group().filter(|group| *group == stage.name);
    let ns = group_ns(row, stage.run.group());
    match group.and_then(|group| Some((group, row.main_part(group, ns)?))) {
        Some((group, part)) => {
            let name = part.stage.rsplit('.').next().unwrap_or_default();
            format!("{group}: {name} {}", percent(part.ns as f64 / ns as f64))
        }
        None => short_name(&stage.name),
    }
}

/// A stage name that fits its column. Long joined names keep the first and the last stage, without
/// their groups.
fn short_name(name: &str) -> String {
    let stage = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    match (name.split_once('+'), name.rsplit_once('+')) {
        (Some((first, _)), Some((_, last))) if name.len() >= NAME => {
            format!("{}..{}", stage(first), stage(last))
        }
        _ => name.to_owned(),
    }
}

/// A count that fits its column with a blank before it.
fn short_count(n: u64) -> String {
    if n < 1_000_000 { n.to_string() } else { rate(n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::ALL_POINTS;

    #[test]
    fn every_name_of_a_stage_that_can_occur_fits_its_column() {
        for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full] {
            for pattern in 0..=ALL_POINTS {
                for run in stage_set.runs(pattern) {
                    let name = short_name(&run.name());
                    assert!(name.len() < NAME, "{name}");
                }
            }
        }
        assert_eq!(short_name("submit+device"), "submit+device");
        assert_eq!(short_name("submit.ring+device+complete"), "ring..complete");
    }
}
