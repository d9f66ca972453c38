// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as text. Every line fits 80 columns.

use std::io;
use std::io::Write;

use crate::diff::report::{Both, Compared, Diff, Finding, Group, Origin, Row, WaitChange};
use crate::diff::view::{Subject, ratio, some, was_compared, with_interval};
use crate::model::stage::StageSet;
use crate::stats::sample::STATISTICS;
use crate::units::{counted, nanos, rate};
use crate::view::page::{TIE, fill};
use crate::view::theme::Theme;

/// Width of the column of stage names.
const NAME: usize = 17;
/// Width of the column of a statistic.
const CELL: usize = 15;

/// Writes a comparison as text.
#[derive(Clone, Copy, Debug)]
pub struct DiffText<'o> {
    /// What was compared.
    pub subject: Subject<'o>,
    /// Colours.
    pub theme: Theme,
    /// Show all values.
    pub detail: bool,
}

impl DiffText<'_> {
    /// Writes the comparison.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let changed = diff.changed_rows() > 0;
        for line in fill(&self.subject.verdict(diff), 0) {
            let line = match changed || diff.comparisons == 0 {
                true => self.theme.warn(&line),
                false => self.theme.good(&line),
            };
            writeln!(out, "{line}")?;
        }
        for remark in self.subject.remarks(diff) {
            for (n, line) in fill(&remark, 6).iter().enumerate() {
                let label = if n == 0 { "note: " } else { "      " };
                writeln!(out, "{label}{line}")?;
            }
        }
        writeln!(out)?;
        let Both { a, b } = self.subject.origins;
        for (name, side) in [("A", a), ("B", b)] {
            for origin in side {
                self.origin(name, origin, out)?;
            }
        }
        for group in diff.groups.iter().filter(|g| was_compared(g) || self.detail) {
            self.group(group, out)?;
        }
        self.waits(diff, out)?;
        self.left_out(diff, out)?;
        self.legend(diff, out)
    }

    fn origin(&self, name: &str, origin: &Origin, out: &mut dyn Write) -> io::Result<()> {
        let text = format!(
            "{:.1} s  {}",
            origin.covers.as_secs_f64(),
            counted(origin.commands, "command")
        );
        let name = self.theme.head(name);
        // a long path has its own line
        if origin.path.width() + text.len() > 73 {
            return writeln!(out, "{name}  {}\n   {text}", origin.path);
        }
        writeln!(out, "{name}  {}  {text}", origin.path)
    }

    fn group(&self, group: &Group, out: &mut dyn Write) -> io::Result<()> {
        let Both { a, b } = group.load;
        let name = self.theme.head(&self.subject.scope(group.scope));
        writeln!(out, "\n{name}")?;
        let iops = group.iops.map(with_interval);
        let iops =
            iops.map_or_else(String::new, |ratio| format!(" ({ratio} from the first command on)"));
        let load = format!(
            "{} -> {} commands, {} -> {} IOPS{iops}, {:.2}{TIE}->{TIE}{:.2}{TIE}in{TIE}flight",
            a.commands,
            b.commands,
            rate(a.iops()),
            rate(b.iops()),
            a.in_flight(),
            b.in_flight()
        );
        for line in fill(&load, 2) {
            writeln!(out, "  {line}")?;
        }
        let mut head = format!("  {:<NAME$}", "stage");
        STATISTICS.iter().for_each(|name| head.push_str(&format!("{name:<CELL$}")));
        writeln!(out, "{}", self.theme.dim(head.trim_end()))?;
        for row in &group.rows {
            self.row(row, out)?;
        }
        Ok(())
    }

    fn row(&self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        if row.compared.iter().all(Option::is_none) {
            let Both { a, b } = row.sides.map(|side| side.count);
            return writeln!(out, "  {}  too few commands ({a}, {b})", row.name);
        }
        let mut name = row.name.as_str();
        if name.len() >= NAME {
            writeln!(out, "  {name}")?;
            name = "";
        }
        write!(out, "  {name:<NAME$}")?;
        let last = STATISTICS.len() - 1;
        for (n, compared) in row.compared.iter().enumerate() {
            let text = self.cell(*compared, row.observed.is_none());
            let width = if n == last { 0 } else { CELL };
            let padded = format!("{text:<width$}");
            let is_change = compared.is_some_and(|c| c.finding == Finding::Changed);
            let painted = if is_change { self.theme.warn(&padded) } else { padded };
            write!(out, "{painted}")?;
        }
        writeln!(out)?;
        if row.changed().next().is_some() || self.detail {
            self.values(row, out)?;
        }
        Ok(())
    }

    /// `1.42 1.31-1.55`, `~ 0.97-1.04`, or why there is none.
    fn cell(&self, compared: Option<Compared>, is_same: bool) -> String {
        match compared {
            None => "too few".into(),
            Some(_) if !is_same => "other commands".into(),
            Some(compared) => {
                let mark = match compared.finding {
                    Finding::Changed => ratio(compared.ratio.ratio),
                    Finding::Noise => "~".into(),
                };
                let (low, high) = (compared.ratio.low, compared.ratio.high);
                format!("{mark} {}-{}", ratio(low), ratio(high))
            }
        }
    }

    /// The values of both sides, below the ratios.
    fn values(&self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let mut line = format!("  {:<NAME$}", "");
        for n in 0..STATISTICS.len() {
            let Both { a, b } = row.sides.map(|side| nanos(side.values[n]));
            let both = format!("{a} {b}");
            line.push_str(&format!("{both:<CELL$}"));
        }
        writeln!(out, "{}", self.theme.dim(line.trim_end()))
    }

    /// Waits before the request.
    fn waits(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        if diff.waits.is_empty() {
            return Ok(());
        }
        let head = "waits before the request: those above 20us of all, mean of all";
        writeln!(out, "\n{}", self.theme.head(head))?;
        for WaitChange { ctrl, nsid, waits } in &diff.waits {
            let Both { a, b } = waits.map(|w| {
                let mean = w.sum_ns as f64 / w.requests.max(1) as f64;
                (format!("{} of {}", w.waited, w.requests), nanos(mean))
            });
            let text = format!(
                "{}: {} -> {}, {} -> {}",
                self.subject.disk(*ctrl, *nsid),
                a.0,
                b.0,
                a.1,
                b.1
            );
            for line in fill(&text, 2) {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }

    /// Strata with too few commands.
    fn left_out(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let groups = diff.groups.iter().filter(|g| !was_compared(g));
        let names = groups.map(|g| {
            let Both { a, b } = g.load.map(|load| load.commands);
            format!("{} ({a}, {b})", self.subject.scope(g.scope))
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() || self.detail {
            return Ok(());
        }
        writeln!(out)?;
        for line in fill(&format!("too few commands: {}", some(&names)), 0) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn legend(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        if diff.comparisons == 0 {
            return Ok(());
        }
        let total = match self.subject.stage_set {
            StageSet::Total => "total is setup_out to complete. ",
            _ => "",
        };
        let Both { a, b } = self.subject.origins;
        let is_single = a.len().min(b.len()) == 1 && a[0].path != b[0].path;
        let single = if is_single && diff.changed_rows() > 0 {
            ". One recording a side: what differs from run to run anyway is taken for a change"
        } else {
            ""
        };
        let text = format!(
            "B/A with its 95 % interval; below it the times of A and B. {total}~ is within noise, or \
             less than {:.0} % of the row or of the total: {} comparisons, at most 5 % risk of any false alarm{single}",
            100.0 * self.subject.least,
            diff.comparisons
        );
        writeln!(out)?;
        for line in fill(&text, 0) {
            writeln!(out, "{}", self.theme.dim(&line))?;
        }
        Ok(())
    }
}
