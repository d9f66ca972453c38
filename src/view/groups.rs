// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of a report as text: a line each, and with stages a table of each.

use std::io;
use std::io::Write;

use super::text::TextView;
use super::text::short_count;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::groups::GroupReport;
use crate::model::report::groups::Groups;
use crate::model::stage::StageSet;
use crate::units::nanos;
use crate::units::rate;

/// Width of the column of names.
const NAME: usize = 23;

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".into(), nanos)
}

/// The columns of numbers, 57 wide.
fn columns(texts: [&str; 8]) -> String {
    let [n, iops, mb, share, mean, p50, p99, max] = texts;
    format!("{n:>7}{iops:>7}{mb:>8}{share:>7}{mean:>7}{p50:>7}{p99:>7}{max:>7}")
}

fn numbers(group: &GroupReport) -> String {
    let (row, h) = (&group.row, &group.row.total);
    let percentile = |p| time(h.percentile(p).map(|ns| ns as f64));
    let mark = if h.max_exact() { "" } else { "~" };
    let max = h.max().map(|ns| format!("{mark}{}", nanos(ns as f64)));
    columns([
        &short_count(row.count),
        &rate(row.iops),
        &format!("{:.1}", row.mb_per_s),
        &format!("{:.1}%", 100.0 * group.share),
        &time(h.mean()),
        &percentile(50.0),
        &percentile(99.0),
        &max.unwrap_or_else(|| "-".into()),
    ])
}

/// Writes a name and its numbers: in a line, if the name fits its column.
fn line(name: &str, numbers: &str, out: &mut dyn Write) -> io::Result<()> {
    if name.chars().count() < NAME {
        return writeln!(out, "{name:<NAME$}{numbers}");
    }
    writeln!(out, "{name}\n{:NAME$}{numbers}", "")
}

impl TextView {
    /// Writes the first groups, and a line about those that are left out.
    pub(super) fn groups(
        &self,
        groups: &Groups,
        disks: &DiskNames,
        stage_set: StageSet,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let keys: Vec<_> = groups.by.iter().map(|by| by.name()).collect();
        let head = columns(["cmds", "IOPS", "MB/s", "share", "mean", "p50", "p99", "max"]);
        let name = format!("by {}", keys.join(","));
        writeln!(out, "{}", self.theme.dim(&format!("{name:<NAME$}{head}")))?;
        let (shown, rest) = groups.first(self.top);
        for group in &shown {
            let name = groups.name(&group.row.key, disks);
            line(&name, &numbers(group), out)?;
            if group.row.unmeasured > 0 {
                writeln!(out, "  unmeasured {}", group.row.unmeasured)?;
            }
        }
        if let Some(rest) = rest {
            writeln!(
                out,
                "{} more groups: {} commands, {:.1} % of the time; --top shows more",
                rest.groups,
                rest.commands,
                100.0 * rest.share
            )?;
        }
        writeln!(out)?;
        if stage_set == StageSet::Total && !self.hist {
            return Ok(());
        }
        for group in &shown {
            writeln!(out, "{}", self.theme.head(&groups.name(&group.row.key, disks)))?;
            self.stages(&group.row, stage_set, out)?;
            writeln!(out)?;
        }
        Ok(())
    }
}
