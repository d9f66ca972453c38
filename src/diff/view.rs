// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of recordings as text and as JSON. The first line is the verdict.

use crate::diff::report::{
    Both, Claim, Compared, Diff, DiffRow, Finding, Group, Load, LoadChange, Origin, Scope, Summary,
    WaitChange, remarks,
};
use crate::model::activity::TagWaits;
use crate::model::command_class::CommandClass;
use crate::model::ledger::Accuracy;
use crate::model::point::Point;
use crate::model::report::disk_names::namespace_name;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::nvme::opcode::QueueKind;
use crate::nvme::subject::command_name;
use crate::stats::intervals::Ratio;
use crate::stats::sample::STATISTICS;
use crate::units::{counted, nanos, rate};
use crate::view::json::{SCHEMA_VERSION, line as json_line};
use crate::view::page::{TIE, fill};
use crate::view::theme::Theme;
use serde::Serialize;
use std::io;
use std::io::Write;

/// What was compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'o> {
    /// The stages of the comparison.
    pub stage_set: StageSet,
    /// The recordings of both sides.
    pub origins: Both<&'o [Origin]>,
    /// Smallest change that is claimed: 0.02 is 2 %.
    pub least: f64,
}

/// A ratio with three digits, in at most four characters.
pub(crate) fn ratio(value: f64) -> String {
    if value >= 999.5 {
        ">999".into()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// `1.42x [1.31, 1.55]`
pub(crate) fn with_interval(found: Ratio) -> String {
    let Ratio { ratio: middle, low, high, .. } = found;
    format!("{}x [{}, {}]", ratio(middle), ratio(low), ratio(high))
}

/// The name of a disk, as one of the recordings has it.
fn disk_of(origins: Both<&[Origin]>, ctrl: u32, nsid: u32) -> String {
    let recordings = origins.a.iter().chain(origins.b);
    let controllers = recordings.flat_map(|o| &o.controllers);
    let of_ctrl = controllers.filter(|c| c.instance == ctrl);
    let mut disks = of_ctrl.flat_map(|c| &c.disks).filter(|d| d.nsid == nsid && !d.name.is_empty());
    namespace_name(disks.next().map(|d| &*d.name), ctrl, nsid)
}

impl Subject<'_> {
    /// The name of a class: `read 4k nvme0n1`.
    pub fn class(origins: Both<&[Origin]>, class: &CommandClass) -> String {
        let CommandClass { ctrl, nsid, opcode, size } = class;
        let disk = match opcode.queue {
            QueueKind::Admin => format!("nvme{ctrl}"),
            QueueKind::Io => disk_of(origins, *ctrl, *nsid),
        };
        let name = command_name(*opcode, *nsid);
        let name = name.map_or_else(|| opcode.to_string(), str::to_owned);
        let size = match size.bytes() {
            0 => String::new(),
            _ => format!(" {size}"),
        };
        format!("{name}{size} {disk}")
    }

    /// What rows without a change are.
    fn noise(&self) -> String {
        format!("within noise or below {:.0} % of the total", 100.0 * self.least)
    }

    /// The name of a disk, or of all that a controller has.
    pub(crate) fn disk(&self, ctrl: u32, nsid: u32) -> String {
        match nsid {
            0 => format!("nvme{ctrl}"),
            _ => disk_of(self.origins, ctrl, nsid),
        }
    }

    pub(crate) fn scope(&self, scope: Scope) -> String {
        match scope {
            Scope::CommandClass(class) => Self::class(self.origins, &class),
            Scope::Controller(ctrl) => format!("all I/O nvme{ctrl}"),
        }
    }

    /// The result in a sentence.
    pub(crate) fn verdict(&self, diff: &Diff) -> String {
        if diff.comparisons == 0 {
            return "too few commands to compare anything: record longer".into();
        }
        let Some(claim) = diff.main_claim() else {
            return format!("no change: all {}", self.noise());
        };
        let Claim { group, row, statistic, compared } = claim;
        let mut text = format!(
            "{}: {} {} {}",
            self.scope(group.scope),
            STATISTICS[statistic],
            row.name,
            with_interval(compared.ratio)
        );
        let mut others = diff.changed_rows() - 1;
        let total =
            group.rows.iter().find(|r| r.is_total && !row.is_total && !r.name.contains(' '));
        let of_total = total.and_then(|r| r.changed().find(|(n, _)| *n == statistic));
        if let Some((_, total)) = of_total {
            text.push_str(&format!(", total {}x", ratio(total.ratio.ratio)));
            others -= 1;
        }
        text + &match others {
            0 => format!("; all else {}", self.noise()),
            1 => "; 1 more row changed".into(),
            n => format!("; {n} more rows changed"),
        }
    }

    /// What limits the comparison, a sentence each.
    pub(crate) fn remarks(&self, diff: &Diff) -> Vec<String> {
        let mut all: Vec<String> = diff.load_changes.iter().map(|c| self.load(c)).collect();
        for (name, classes) in [("A", &diff.only.a), ("B", &diff.only.b)] {
            if !classes.is_empty() {
                let names = classes.iter().map(|(class, commands)| {
                    format!("{} ({commands})", Self::class(self.origins, class))
                });
                let names: Vec<String> = names.collect();
                all.push(format!("only in {name}: {}", some(&names)));
            }
        }
        for group in &diff.groups {
            let odd = group.rows.iter().filter_map(|row| Some((row, row.observed?)));
            all.extend(odd.map(|(row, Both { a, b })| {
                format!(
                    "{} {}: observed for {:.0} % of the commands in A, {:.0} % in B, so nothing is \
                     claimed of it",
                    self.scope(group.scope),
                    row.name,
                    100.0 * a,
                    100.0 * b
                )
            }));
        }
        all.extend(remarks(self.origins, self.stage_set));
        all
    }

    fn load(&self, change: &LoadChange) -> String {
        match change {
            LoadChange::Mix { ctrl, class, share } => format!(
                "the mix of nvme{ctrl} differs ({}: {:.0} % of the commands in A, {:.0} % in B): \
                 its commands are not compared as a whole",
                Self::class(self.origins, class),
                100.0 * share.a,
                100.0 * share.b
            ),
            LoadChange::Depth { ctrl, load } => format!(
                "the load of nvme{ctrl} differs ({} IOPS with {:.1} in flight in A, {} with {:.1} \
                 in B): latencies may differ because of that",
                rate(load.a.iops()),
                load.a.in_flight(),
                rate(load.b.iops()),
                load.b.in_flight()
            ),
        }
    }
}

/// The first items of a list.
pub(crate) fn some(items: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = items.len().saturating_sub(SHOWN);
    let first = &items[..items.len() - more];
    match more {
        0 => first.join(", "),
        n => format!("{} and {n} more", first.join(", ")),
    }
}

/// Whether any statistic of a group was compared.
pub(crate) fn was_compared(group: &Group) -> bool {
    group.rows.iter().any(|r| r.compared.iter().any(Option::is_some))
}

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
        if origin.path.chars().count() + text.len() > 73 {
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

    fn row(&self, row: &DiffRow, out: &mut dyn Write) -> io::Result<()> {
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
    fn values(&self, row: &DiffRow, out: &mut dyn Write) -> io::Result<()> {
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

    /// Classes with too few commands.
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
            StageSet::Total => "driver is setup_out to complete. ",
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

#[derive(Serialize)]
struct VerdictLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    verdict: String,
    changed: bool,
    changed_rows: usize,
    comparisons: usize,
    min_change: f64,
    stage_set: StageSet,
    a: Vec<OriginLine<'a>>,
    b: Vec<OriginLine<'a>>,
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tag_waits: Vec<WaitsLine>,
}

/// Waits before the request of a disk.
#[derive(Serialize)]
struct WaitsLine {
    ctrl: String,
    nsid: u32,
    a: WaitsOfSide,
    b: WaitsOfSide,
}

#[derive(Serialize)]
struct WaitsOfSide {
    requests: u64,
    waited: u64,
    sum_ns: u64,
}

#[derive(Serialize)]
struct OriginLine<'a> {
    path: &'a Text,
    kernel: Option<&'a Text>,
    commands: u64,
    covers_s: f64,
    accuracy: &'static str,
    whole: bool,
}

#[derive(Serialize)]
struct RowLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    ctrl: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nsid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opcode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_max: Option<u64>,
    stage: &'a str,
    from: Point,
    to: Point,
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_a: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_b: Option<f64>,
    a: SideLine,
    b: SideLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    iops: Option<IopsLine>,
    p50: Option<RatioLine>,
    p90: Option<RatioLine>,
    p99: Option<RatioLine>,
    mean: Option<RatioLine>,
}

#[derive(Serialize)]
struct SideLine {
    count: u64,
    iops: f64,
    in_flight: f64,
    p50_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    mean_ns: f64,
}

/// The ratio of the rates of the group.
#[derive(Serialize)]
struct IopsLine {
    ratio: f64,
    low: f64,
    high: f64,
    p: f64,
}

#[derive(Serialize)]
struct RatioLine {
    ratio: f64,
    low: f64,
    high: f64,
    p: f64,
    adjusted_p: f64,
    changed: bool,
}

/// Writes a comparison as JSON lines.
#[derive(Clone, Copy, Debug)]
pub struct DiffJson<'o> {
    /// What was compared.
    pub subject: Subject<'o>,
}

fn origin(origin: &Origin) -> OriginLine<'_> {
    OriginLine {
        path: &origin.path,
        kernel: origin.info.kernel.as_ref(),
        commands: origin.commands,
        covers_s: origin.covers.as_secs_f64(),
        accuracy: match origin.accuracy {
            Accuracy::Exact => "exact",
            Accuracy::Unknown => "unknown",
            Accuracy::Degraded(_) => "degraded",
        },
        whole: origin.is_whole,
    }
}

fn side(load: Load, summary: Summary) -> SideLine {
    let [p50_ns, p90_ns, p99_ns, mean_ns] = summary.values;
    SideLine {
        count: summary.count,
        iops: load.iops(),
        in_flight: load.in_flight(),
        p50_ns,
        p90_ns,
        p99_ns,
        mean_ns,
    }
}

fn waits(change: &WaitChange) -> WaitsLine {
    let side = |waits: TagWaits| WaitsOfSide {
        requests: waits.requests,
        waited: waits.waited,
        sum_ns: waits.sum_ns,
    };
    let Both { a, b } = change.waits.map(side);
    WaitsLine { ctrl: format!("nvme{}", change.ctrl), nsid: change.nsid, a, b }
}

fn iops(found: Ratio) -> IopsLine {
    let Ratio { ratio, low, high, p } = found;
    IopsLine { ratio, low, high, p }
}

fn ratio_line(compared: Compared) -> RatioLine {
    let Compared { ratio, adjusted_p, finding } = compared;
    RatioLine {
        ratio: ratio.ratio,
        low: ratio.low,
        high: ratio.high,
        p: ratio.p,
        adjusted_p,
        changed: finding == Finding::Changed,
    }
}

fn row<'a>(group: &Group, row: &'a DiffRow) -> RowLine<'a> {
    let (ctrl, class) = match group.scope {
        Scope::CommandClass(class) => (class.ctrl, Some(class)),
        Scope::Controller(ctrl) => (ctrl, None),
    };
    let [p50, p90, p99, mean] = row.compared.map(|compared| compared.map(ratio_line));
    let Both { a, b } = row.sides;
    RowLine {
        r#type: "diff_row",
        schema_version: SCHEMA_VERSION,
        ctrl: format!("nvme{ctrl}"),
        nsid: class.map(|s| s.nsid),
        queue: class.map(|s| s.opcode.queue.to_string()),
        opcode: class.map(|s| s.opcode.to_string()),
        size_max: class.map(|s| s.size.bytes()).filter(|bytes| *bytes > 0),
        stage: &row.name,
        from: row.from,
        to: row.to,
        changed: row.changed().next().is_some(),
        observed_a: row.observed.map(|o| o.a),
        observed_b: row.observed.map(|o| o.b),
        a: side(group.load.a, a),
        b: side(group.load.b, b),
        iops: group.iops.map(iops),
        p50,
        p90,
        p99,
        mean,
    }
}

impl DiffJson<'_> {
    /// Writes the comparison.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let changed_rows = diff.changed_rows();
        let verdict = VerdictLine {
            r#type: "diff",
            schema_version: SCHEMA_VERSION,
            verdict: self.subject.verdict(diff),
            changed: changed_rows > 0,
            changed_rows,
            comparisons: diff.comparisons,
            min_change: self.subject.least,
            stage_set: self.subject.stage_set,
            a: self.subject.origins.a.iter().map(origin).collect(),
            b: self.subject.origins.b.iter().map(origin).collect(),
            remarks: self.subject.remarks(diff),
            tag_waits: diff.waits.iter().map(waits).collect(),
        };
        json_line(&verdict, out)?;
        for group in &diff.groups {
            for line in &group.rows {
                json_line(&row(group, line), out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_fit_their_column() {
        let texts = [0.0, 0.994, 9.994, 9.996, 99.96, 999.4, 1e3, f64::INFINITY].map(ratio);
        let want = ["0.00", "0.99", "9.99", "10.0", "100", "999", ">999", ">999"];
        assert_eq!(texts, want);
    }
}
