// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as text. Every line fits 80 columns. Only a theme with colour adds escape sequences.

use std::io;
use std::io::Write;

use super::ReportSink;
use super::ledger::ledger as write_ledger;
use super::page::fill;
use super::theme::Theme;
use crate::model::histogram::{Bucket, Histogram, PERCENTILES};
use crate::model::ledger::Ledger;
use crate::model::point::Point;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::Groups;
use crate::model::report::latency::{Report, RowReport, StageReport};
use crate::model::stage::StageSet;
use crate::units::{counted, nanos, rate};
use crate::view::theme::dot;

const BAR: usize = 40;
/// Width of the column of stage names.
const NAME: usize = 22;

/// Writes reports as text.
#[derive(Clone, Copy, Debug)]
pub struct TextView {
    /// Colours.
    pub theme: Theme,
    /// Show a histogram of each stage.
    pub hist: bool,
    /// Show the whole ledger, even if it is exact.
    pub detail: bool,
    /// The number of groups that are shown.
    pub top: usize,
    /// What the run did not measure: the last line of the last report.
    pub advice: Option<&'static str>,
}

impl ReportSink for TextView {
    fn report(&self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let Report { stage_set, is_final, at, covers, rows, groups, ledger, disks } = report;
        let span = if *is_final {
            format!("final, {:.1} s", covers.as_secs_f64())
        } else if covers == at {
            format!("{:.1} s so far", at.as_secs_f64())
        } else {
            format!("{:.1} s, the last {:.1} s", at.as_secs_f64(), covers.as_secs_f64())
        };
        let (from, to) = ledger.span;
        let whole = stage_set.whole();
        let title = format!("=== {span} {} {whole} is {} to {} ", dot(), from.name(), to.name());
        let rule = "=".repeat(78_usize.saturating_sub(title.chars().count()));
        writeln!(out, "{}", self.theme.head(&format!("{title}{rule}")))?;
        let is_empty = groups.as_ref().map_or(rows.is_empty(), Groups::is_empty);
        if is_empty {
            writeln!(out, "no command has completed{}", self.hint(ledger))?;
        }
        for row in rows {
            self.row(row, disks, *stage_set, out)?;
        }
        if let Some(groups) = groups.as_ref().filter(|_| !is_empty) {
            self.groups(groups, disks, *stage_set, out)?;
        }
        write_ledger(ledger, self.theme, self.detail, out)?;
        let advice = self.advice.filter(|_| *is_final && !is_empty);
        for line in advice.map(|advice| fill(advice, 0)).unwrap_or_default() {
            writeln!(out, "{line}")?;
        }
        writeln!(out)
    }
}

impl TextView {
    fn hint(&self, ledger: &Ledger) -> String {
        match (ledger.filtered, ledger.in_flight) {
            (0, 0) => String::new(),
            (0, n) => format!("; {n} in flight"),
            (n, _) => format!("; {n} filtered out"),
        }
    }

    fn row(
        &self,
        row: &RowReport,
        disks: &DiskNames,
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let key = &row.key;
        let name = disks.subject(key.ctrl, key.nsid, key.opcode);
        let mut rates = format!(
            "{}  {} IOPS  {:.1} MB/s",
            counted(row.count, "cmd"),
            rate(row.iops),
            row.mb_per_s
        );
        if row.unmeasured > 0 {
            rates.push_str(&format!("  unmeasured {}", row.unmeasured));
        }
        if let Some(place) = row.places().first() {
            rates.push_str(&format!("  {} {:.0}%", place.stage, 100.0 * place.share));
        }
        writeln!(out, "{}  {rates}", self.theme.head(&name))?;
        self.stages(row, stage_set, out)?;
        self.lat(row, out)?;
        writeln!(out)
    }

    /// Writes the stages and the total, with their histograms if they are asked for.
    pub(super) fn stages<K>(
        &self,
        row: &RowReport<K>,
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let columns = format!(
            "  {:<NAME$}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}",
            "stage", "n", "share", "mean", "p50", "p90", "p99", "p99.9", "max"
        );
        writeln!(out, "{}", self.theme.dim(&columns))?;
        let shown = row.stages.iter().filter(|stage| !stage.is_idle_wait());
        let shown: Vec<_> = shown.filter(|_| stage_set != StageSet::Total).collect();
        for stage in &shown {
            self.line(&name_of(row, stage), &stage.hist, &row.total, out)?;
        }
        self.line(stage_set.whole(), &row.total, &row.total, out)?;
        for stage in shown.iter().filter(|stage| stage.name.contains('+')) {
            let points: Vec<_> = stage.run.unobserved().map(Point::name).collect();
            let why = format!("  {}: {} not observed", stage.name, points.join(", "));
            writeln!(out, "{}", self.theme.dim(&why))?;
        }
        if self.hist {
            for stage in shown {
                self.histogram(&stage.name, &stage.hist, out)?;
            }
            self.histogram(stage_set.whole(), &row.total, out)?;
        }
        Ok(())
    }

    fn line(
        &self,
        name: &str,
        h: &Histogram,
        total: &Histogram,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let share = 100.0 * h.sum() as f64 / (total.sum() as f64).max(1.0);
        write!(out, "  {name:<NAME$}{:>7}{share:>6.1}%", short_count(h.count()))?;
        write!(out, "{:>7}", h.mean().map_or_else(|| "-".into(), nanos))?;
        for p in PERCENTILES {
            write!(
                out,
                "{:>7}",
                h.percentile(p).map_or_else(|| "-".into(), |ns| nanos(ns as f64))
            )?;
        }
        let mark = if h.max_exact() { "" } else { "~" };
        let max = h.max().map_or_else(|| "-".into(), |ns| format!("{mark}{}", nanos(ns as f64)));
        writeln!(out, "{max:>7}")
    }

    fn histogram(&self, name: &str, h: &Histogram, out: &mut dyn Write) -> io::Result<()> {
        let most = h.iter().map(|bucket| bucket.count).max().unwrap_or(1);
        writeln!(out, "    {}", self.theme.dim(name))?;
        for Bucket { first, last, count: n } in h.iter() {
            let filled = (n as u128 * BAR as u128).div_ceil(most.into()) as usize;
            let range = format!("[{}, {})", nanos(first as f64), nanos(last as f64 + 1.0));
            writeln!(out, "    {range:>20}{n:>9} {}", self.theme.bar(&"#".repeat(filled)))?;
        }
        Ok(())
    }

    /// Writes the table of nvme_latency, in the format of that tool.
    pub(super) fn lat<K>(&self, row: &RowReport<K>, out: &mut dyn Write) -> io::Result<()> {
        if row.lat.is_empty() {
            return Ok(());
        }
        writeln!(out, "    {}", self.theme.dim("Latency Range       Count  Cumulative Percent"))?;
        for lat in &row.lat {
            let high = lat.high_us.map_or_else(|| "inf".into(), |us| format!("{us}us"));
            let range = format!("[{}us - {high}):", lat.low_us);
            writeln!(out, "    {range:<20}{:<7}{:>7.1}", lat.count, lat.cumulative_percent)?;
        }
        Ok(())
    }
}

/// The time of a row in a group of stages, in nanoseconds.
pub(super) fn group_ns<K>(row: &RowReport<K>, group: Option<&str>) -> u128 {
    let stages = row.stages.iter().filter(|stage| stage.run.group() == group);
    stages.map(|stage| stage.hist.sum()).sum()
}

/// The name of a stage with the part that makes up at least half of it: `before: wbt 97%`.
fn name_of<K>(row: &RowReport<K>, stage: &StageReport) -> String {
    let group = stage.run.group().filter(|group| *group == stage.name);
    let ns = group_ns(row, stage.run.group());
    match group.and_then(|group| Some((group, row.main_part(group, ns)?))) {
        Some((group, part)) => {
            let name = part.stage.rsplit('.').next().unwrap_or_default();
            let percent = 100.0 * part.ns as f64 / ns as f64;
            format!("{group}: {name} {percent:.0}%")
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
pub(super) fn short_count(n: u64) -> String {
    if n < 1_000_000 { n.to_string() } else { rate(n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::counters::Counters;
    use crate::model::point::ALL_POINTS;
    use crate::model::report::latency::rows;
    use crate::model::run::Scan;
    use crate::model::snapshot::Snapshot;
    use crate::probe::catalog::{CATALOG, Method, number_of};
    use crate::probe::plan::tests::everything;
    use crate::probe::plan::{Policy, plan};
    use crate::testing::snapshot::{READS, cell};
    use std::time::Duration;

    fn report(stage_set: StageSet) -> Report {
        let mut snapshot = Snapshot::default();
        let full = 0b010_1001;
        let joined = 0b010_0001;
        if stage_set == StageSet::Basic {
            let one: &[u64] = &[2_000, 9_500, 1_003_000, 14_000];
            let late: &[u64] = &[2_500, 41_000, 9_000];
            snapshot.cells.insert((READS, full), cell(stage_set, full, &[one; 995]));
            snapshot.cells.insert((READS, joined), cell(stage_set, joined, &[late; 5]));
        }
        let mut counters = Counters::of_hooks(CATALOG.len());
        counters.hits[number_of("setup_out_btf").unwrap()] = snapshot.commands();
        counters.hits[number_of("complete_btf").unwrap()] = snapshot.commands();
        let mut facts = everything();
        facts.no_trampolines = Some("ftrace is switched off".into());
        facts.no_kprobes = Some("kprobes are switched off".into());
        let plan = plan(stage_set, &facts, &Policy::default()).unwrap();
        let scan = Some(Scan::default());
        Report {
            stage_set,
            is_final: true,
            at: Duration::from_secs(2),
            covers: Duration::from_secs(2),
            rows: rows(&snapshot, stage_set, None, Duration::from_secs(2)),
            groups: None,
            ledger: Ledger::new(&plan, &counters, &[], snapshot.commands(), scan),
            disks: DiskNames::default(),
        }
    }

    fn text(report: &Report, hist: bool) -> String {
        let mut out = Vec::new();
        TextView { theme: Theme { color: false }, hist, detail: true, top: 20, advice: None }
            .report(report, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_report_reads_from_the_row_to_the_ledger() {
        insta::assert_snapshot!(text(&report(StageSet::Basic), false));
    }

    #[test]
    fn the_longest_names_of_hooks_fit_the_screen() {
        let policy = Policy { only: Some(Method::Kprobe), ..Policy::default() };
        let plan = plan(StageSet::Fine, &everything(), &policy).unwrap();
        let mut report = report(StageSet::Fine);
        report.ledger = Ledger::new(&plan, &Counters::default(), &[], 0, None);
        let text = text(&report, false);
        assert!(text.contains("blk_mq_requeue_request"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

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

    #[test]
    fn if_all_is_well_the_ledger_is_a_line() {
        let mut report = report(StageSet::Basic);
        report.ledger.missing_hooks.clear();
        let mut out = Vec::new();
        let view = TextView {
            theme: Theme { color: false },
            hist: false,
            detail: false,
            top: 20,
            advice: None,
        };
        view.report(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\n\naccuracy  exact: 1000 commands, 0 lost\n\n"), "{text}");
        report.ledger.no_row = 1;
        let mut out = Vec::new();
        view.report(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("accuracy  DEGRADED") && text.contains("  commands  "), "{text}");
    }

    #[test]
    fn histograms_stand_below_their_row() {
        insta::assert_snapshot!(text(&report(StageSet::Basic), true));
    }

    #[test]
    fn an_empty_report_says_so() {
        insta::assert_snapshot!(text(&report(StageSet::Total), false));
    }
}
