// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of recordings as text and as JSON: the verdict, what limits it, a table for each group.

use crate::diff::report::{
    Both, Claim, Compared, Diff, DiffRow, Finding, Group, Load, LoadChange, MEAN, Origin, Scope,
    Summary,
};
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
use crate::units::{counted, nanos, percent, rate};
use crate::view::header::{Header, TIE, hang};
use crate::view::json::typed_line;
use crate::view::theme::Theme;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;

/// The columns of a table, by index of the statistic.
const COLUMNS: [usize; STATISTICS.len()] = [MEAN, 0, 1, 2];
/// Width of the names of stages in a table.
const NAME: usize = 15;

/// What was compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'o> {
    /// The stages of the comparison.
    pub stage_set: StageSet,
    /// The recordings of both sides.
    pub origins: Both<&'o [Origin]>,
    /// The smallest change that is claimed: 0.02 is 2 %.
    pub least: f64,
}

/// The result in a word, and in sentences.
struct Verdict {
    word: &'static str,
    text: String,
}

/// A ratio with three digits, in at most four characters.
fn ratio(value: f64) -> String {
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

/// ` (1.42x [1.31, 1.55])`, unless a side is too close to 0 for a ratio.
fn with_interval(found: Ratio, sides: Both<f64>) -> String {
    let Ratio { ratio: middle, low, high, .. } = found;
    if !has_ratio(found, sides) {
        return String::new();
    }
    format!("{TIE}({}x{TIE}[{},{TIE}{}])", ratio(middle), ratio(low), ratio(high))
}

fn has_ratio(found: Ratio, Both { a, b }: Both<f64>) -> bool {
    a >= 0.5 && b >= 0.5 && (0.001..999.5).contains(&found.ratio)
}

/// `4.65ms -> 9.78ms`, with the ratio.
fn change(row: &DiffRow, statistic: usize, with_ratio: bool) -> String {
    let sides = row.sides.map(|side| side.values[statistic]);
    let compared = row.compared[statistic].filter(|_| with_ratio);
    let interval = compared.map_or_else(String::new, |c| with_interval(c.ratio, sides));
    let Both { a, b } = sides.map(nanos);
    format!("{}{TIE}{a}{TIE}->{TIE}{b}{interval}", STATISTICS[statistic])
}

/// The name of a disk, as one of the recordings has it; without a namespace the controller's name.
fn disk_of(origins: Both<&[Origin]>, ctrl: u32, nsid: u32) -> String {
    if nsid == 0 {
        return format!("nvme{ctrl}");
    }
    let recordings = origins.a.iter().chain(origins.b);
    let controllers = recordings.flat_map(|o| &o.controllers);
    let of_ctrl = controllers.filter(|c| c.instance == ctrl);
    let mut disks = of_ctrl.flat_map(|c| &c.disks).filter(|d| d.nsid == nsid && !d.name.is_empty());
    namespace_name(disks.next().map(|d| &*d.name), ctrl, nsid)
}

/// The name of a class: `read 4K nvme0n1`.
pub(crate) fn class_name(origins: Both<&[Origin]>, class: &CommandClass) -> String {
    let CommandClass { ctrl, nsid, opcode, size } = class;
    let disk = match opcode.queue {
        QueueKind::Admin => disk_of(origins, *ctrl, 0),
        QueueKind::Io => disk_of(origins, *ctrl, *nsid),
    };
    let name = command_name(*opcode, *nsid);
    let name = name.map_or_else(|| opcode.to_string(), str::to_owned);
    let size = if size.bytes() == 0 { String::new() } else { format!(" {size}") };
    format!("{name}{size} {disk}")
}

/// The first items of a list.
fn some(items: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = items.len().saturating_sub(SHOWN);
    let first = items[..items.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// Whether any statistic of a row was compared.
fn was_compared(row: &DiffRow) -> bool {
    row.compared.iter().any(Option::is_some)
}

impl Subject<'_> {
    fn scope(&self, scope: Scope) -> String {
        match scope {
            Scope::CommandClass(class) => class_name(self.origins, &class),
            Scope::Controller(ctrl) => format!("all I/O nvme{ctrl}"),
        }
    }

    fn verdict(&self, diff: &Diff) -> Verdict {
        if diff.comparisons == 0 {
            let text = "too few commands to compare anything: record longer".into();
            return Verdict { word: "UNKNOWN", text };
        }
        let claims = diff.claims();
        let Some((first, others)) = claims.split_first() else {
            let names: Vec<String> = diff.groups.iter().map(|g| self.scope(g.scope)).collect();
            let text = format!(
                "latency of {}: no change of {} or more is proven ({})",
                some(&names),
                percent(self.least),
                counted(diff.comparisons as u64, "comparison")
            );
            return Verdict { word: "SAME", text };
        };
        let word = |claim: &Claim<'_>| if claim.is_slower() { "SLOWER" } else { "FASTER" };
        let Claim { group, row, statistic, stage, .. } = *first;
        let stage_name = if row.is_total { String::new() } else { format!(" `{}`", row.name) };
        let what = change(row, statistic, true);
        let mut text = format!("{}{stage_name}: {what}.", self.scope(group.scope));
        match stage {
            Some(stage) => {
                let time = if first.is_slower() { "added time" } else { "time saved" };
                let times = change(stage, statistic, false);
                text.push_str(&format!(" The {time} is in `{}` ({times}).", stage.name));
            }
            None if !row.is_total => text.push_str(" The total is not proven to have changed."),
            None => {}
        }
        let others = others.iter().map(|claim| {
            format!("{} ({})", self.scope(claim.group.scope), word(claim).to_lowercase())
        });
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            text.push_str(&format!(" Also changed: {}.", some(&others)));
        }
        Verdict { word: word(first), text }
    }

    /// What limits the comparison, a sentence each.
    fn remarks(&self, diff: &Diff) -> Vec<String> {
        let mut all: Vec<String> = diff.load_changes.iter().map(|c| self.load(c)).collect();
        all.extend(self.differences());
        for (name, classes) in [("A", &diff.only.a), ("B", &diff.only.b)] {
            let names = classes.iter().map(|(class, commands)| {
                format!("{} ({commands})", class_name(self.origins, class))
            });
            let names: Vec<String> = names.collect();
            if !names.is_empty() {
                all.push(format!("only in {name}: {}", some(&names)));
            }
        }
        for group in &diff.groups {
            let odd = group.rows.iter().filter_map(|row| Some((row, row.observed?)));
            all.extend(odd.map(|(row, Both { a, b })| {
                format!(
                    "`{}` of {} was observed for {} of the commands in A and {} in B: nothing is \
                     proven about it",
                    row.name,
                    self.scope(group.scope),
                    percent(a),
                    percent(b)
                )
            }));
        }
        let Both { a, b } = self.origins;
        if a.len().min(b.len()) == 1 && a[0].path != b[0].path && diff.changed_rows() > 0 {
            all.push(
                "one recording per side: any difference between runs counts as a change".into(),
            );
        }
        all
    }

    fn load(&self, change: &LoadChange) -> String {
        match change {
            LoadChange::Mix { ctrl, class, share } => format!(
                "the mix of nvme{ctrl} differs: {} has {} of the commands in A and {} in B",
                class_name(self.origins, class),
                percent(share.a),
                percent(share.b)
            ),
            LoadChange::Depth { ctrl, load } => {
                let Both { a, b } =
                    load.map(|l| format!("{} IOPS at depth {:.1}", rate(l.iops()), l.in_flight()));
                format!("the load of nvme{ctrl} differs: {a}, then {b}")
            }
        }
    }

    /// How the recordings differ, and what limits the numbers of each.
    fn differences(&self) -> Vec<String> {
        let sides = self.origins;
        let distinct = |of: &dyn Fn(&Origin) -> Option<String>| {
            sides.map(|side| {
                let all: BTreeSet<String> = side.iter().filter_map(of).collect();
                all.into_iter().collect::<Vec<_>>().join(", ")
            })
        };
        let text = |text: Option<&Text>| text.map(ToString::to_string);
        let mut differences = vec![
            ("the kernels differ".to_owned(), distinct(&|o| text(o.info.kernel.as_ref()))),
            ("the hypervisors differ".to_owned(), distinct(&|o| text(o.info.machine.as_ref()))),
        ];
        let controllers = sides.a.iter().flat_map(|o| &o.controllers);
        for ctrl in controllers.map(|c| c.instance).collect::<BTreeSet<u32>>() {
            let models = distinct(&|o| {
                let found = o.controllers.iter().find(|c| c.instance == ctrl)?;
                Some(found.model.trim().to_owned())
            });
            differences.push((format!("nvme{ctrl} is another model"), models));
        }
        differences.retain(|(_, Both { a, b })| a != b && !a.is_empty() && !b.is_empty());
        let all =
            differences.into_iter().map(|(what, Both { a, b })| format!("{what}: {a}, then {b}"));
        let mut all: Vec<String> = all.collect();
        let filters = distinct(&|o| Some(o.info.filter.to_string()));
        if filters.a != filters.b {
            all.push("the recordings were made with different filters".into());
        }
        for (name, side) in [("A", sides.a), ("B", sides.b)] {
            if let Some(more) = side.iter().find(|o| o.info.stage_set != self.stage_set) {
                all.push(format!(
                    "{name} has {} stages, and the other side {}: only the common ones are compared",
                    more.info.stage_set.name(),
                    self.stage_set.name()
                ));
            }
            all.extend(side.iter().flat_map(accuracy));
        }
        all
    }
}

fn header(origin: &Origin) -> Header {
    Header {
        file: Some(origin.path.clone()),
        host: origin.info.host.clone(),
        kernel: origin.info.kernel.clone(),
        begin_ns: origin.begin_ns,
        length: Some(origin.covers),
        commands: Some(origin.commands),
        accuracy: Some(origin.accuracy.clone()),
        ..Header::default()
    }
}

/// What limits the numbers of a recording.
fn accuracy(origin: &Origin) -> Vec<String> {
    let path = &origin.path;
    let accuracy = match &origin.accuracy {
        Accuracy::Exact => None,
        Accuracy::Unknown if !origin.is_whole => None,
        Accuracy::Unknown => Some(format!(
            "the accuracy of {path} is not known: its kernel does not count what it missed"
        )),
        Accuracy::Degraded(why) => Some(format!("{path} is DEGRADED: {}", why.join(", "))),
    };
    let seconds = origin.covers.as_secs_f64();
    let cut = (!origin.is_whole)
        .then(|| format!("{path} is incomplete: its first {seconds:.1} s are compared"));
    accuracy.into_iter().chain(cut).collect()
}

/// Writes a comparison as text.
#[derive(Clone, Copy, Debug)]
pub struct DiffText<'o> {
    pub subject: Subject<'o>,
    pub theme: Theme,
    /// Show all rows.
    pub detail: bool,
    /// Columns of the output. From 120 on, the intervals are beside the values.
    pub width: usize,
}

impl DiffText<'_> {
    /// Writes the comparison.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let Verdict { word, text } = self.subject.verdict(diff);
        let paint = if word == "SAME" { Theme::good } else { Theme::warn };
        self.hang(&format!("{word:<8}"), &text, paint, out)?;
        let mut label = "\ncareful: ";
        for remark in self.subject.remarks(diff) {
            self.hang(label, &remark, |_, line| line.to_owned(), out)?;
            label = "         ";
        }
        let is_shown = |g: &&Group| self.detail || g.rows.iter().any(was_compared);
        let (shown, left_out): (Vec<_>, Vec<_>) = diff.groups.iter().partition(is_shown);
        for group in shown {
            self.group(group, out)?;
        }
        let few = left_out.iter().map(|group| {
            let Both { a, b } = group.load.map(|load| load.commands);
            format!("{} ({a}, {b})", self.subject.scope(group.scope))
        });
        let few: Vec<String> = few.collect();
        if !few.is_empty() {
            self.hang("\ntoo few commands: ", &some(&few), Theme::dim, out)?;
        }
        writeln!(out)?;
        if diff.comparisons > 0 {
            let unclaimed = |row: &DiffRow| was_compared(row) && row.compared.contains(&None);
            let few = diff.groups.iter().flat_map(|g| &g.rows).any(unclaimed);
            let mut keys = vec![
                format!("* changed (95% sure over all {} comparisons)", diff.comparisons),
                "? may differ, not proven".into(),
            ];
            keys.extend(few.then(|| "- too few commands".into()));
            keys.extend(self.is_wide().then(|| "B/A: 95% interval".into()));
            let keys = keys.join("\n").replace(' ', &TIE.to_string());
            let keys = keys.replace('\n', &format!("{TIE}{TIE} "));
            self.hang("", &keys, Theme::dim, out)?;
        }
        let Both { a, b } = self.subject.origins;
        for (name, origin) in a.iter().map(|o| ("A", o)).chain(b.iter().map(|o| ("B", o))) {
            let header = header(origin).text(self.theme, self.width - 3);
            for (n, line) in header.lines().enumerate() {
                writeln!(out, "{}  {line}", if n == 0 { name } else { " " })?;
            }
        }
        Ok(())
    }

    const fn is_wide(&self) -> bool {
        self.width >= 120
    }

    /// Writes a text after a label.
    fn hang(
        &self,
        label: &str,
        text: &str,
        paint: impl Fn(Theme, &str) -> String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        hang(self.width, label, text, |line| paint(self.theme, line), out)
    }

    fn group(&self, group: &Group, out: &mut dyn Write) -> io::Result<()> {
        let Both { a, b } = group.load;
        let name = self.subject.scope(group.scope);
        let rates = group.load.map(|load| load.iops());
        let iops = group.iops.map_or_else(String::new, |found| with_interval(found, rates));
        let load = [
            format!("{} -> {} commands,", a.commands, b.commands),
            format!("{} -> {} IOPS{iops},", rate(rates.a), rate(rates.b)),
            format!("depth {:.1} -> {:.1}", a.in_flight(), b.in_flight()),
        ];
        let load = load.map(|part| part.replace(' ', &TIE.to_string())).join(" ");
        writeln!(out, "\n{}", self.theme.head(&name))?;
        self.hang("  ", &load, |_, line| line.to_owned(), out)?;
        let mut heads = [" ".repeat(NAME), " ".repeat(NAME)];
        for column in COLUMNS {
            let interval = if self.is_wide() { " B/A      " } else { "" };
            let sides = format!("  {:>6} {:>6} {interval}", "A", "B");
            let over = STATISTICS[column].to_uppercase();
            heads[0].push_str(&format!("{over:^width$}", width = sides.len()));
            heads[1].push_str(&sides);
        }
        for head in heads {
            writeln!(out, "{}", self.theme.dim(head.trim_end()))?;
        }
        let total = group.total();
        let is_main = |row: &DiffRow| total.is_some_and(|total| std::ptr::eq(total, row));
        let differs = |row: &DiffRow| {
            row.compared.iter().flatten().any(|compared| compared.finding != Finding::Same)
        };
        let mut rows: Vec<&DiffRow> = group.rows.iter().collect();
        rows.sort_by_key(|row| !is_main(row)); // stable: the main total, then the others in order
        let is_shown = |row: &&DiffRow| self.detail || is_main(row) || differs(row);
        let (shown, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_shown);
        for row in shown {
            self.row(row, out)?;
        }
        let (same, few): (Vec<_>, Vec<_>) = others.into_iter().partition(|row| was_compared(row));
        for (label, rows) in [("same: ", same), ("too few commands: ", few)] {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            if !names.is_empty() {
                self.hang(label, &names.join(", "), Theme::dim, out)?;
            }
        }
        Ok(())
    }

    fn row(&self, row: &DiffRow, out: &mut dyn Write) -> io::Result<()> {
        let name = format!("{}{}", if row.is_total { "" } else { "  " }, row.name);
        if name.chars().count() > NAME {
            write!(out, "{name}\n{:NAME$}", "")?;
        } else {
            write!(out, "{name:<NAME$}")?;
        }
        let cells = COLUMNS.map(|column| self.cell(row, column));
        let last = cells.iter().rposition(|(text, _)| !text.trim().is_empty()).unwrap_or(0);
        for (n, (text, is_change)) in cells.iter().enumerate().take(last + 1) {
            let text = if n == last { text.trim_end() } else { text };
            let text = if *is_change { self.theme.warn(text) } else { text.to_owned() };
            write!(out, "{text}")?;
        }
        writeln!(out)
    }

    /// Both values with their mark, and if there is room the interval; whether the change is proven.
    fn cell(&self, row: &DiffRow, column: usize) -> (String, bool) {
        let values = row.sides.map(|side| side.values[column]);
        let Both { a, b } = values.map(nanos);
        let (mark, ratios) = match row.compared[column] {
            None => ('-', None),
            Some(Compared { finding, ratio, .. }) => {
                let mark = match finding {
                    Finding::Changed => '*',
                    Finding::Unsure => '?',
                    Finding::Same => ' ',
                };
                (mark, Some(ratio).filter(|ratio| has_ratio(*ratio, values)))
            }
        };
        let ratios = ratios.map(|r| format!("{}-{}", ratio(r.low), ratio(r.high)));
        let mut text = format!("  {a:>6} {b:>6}{mark}");
        if self.is_wide() {
            text.push_str(&format!(" {:<9}", ratios.unwrap_or_default()));
        }
        (text, mark == '*')
    }
}

#[derive(Serialize)]
struct VerdictLine<'a> {
    verdict: String,
    summary: String,
    changed_rows: usize,
    comparisons: usize,
    min_change: f64,
    stage_set: StageSet,
    #[serde(flatten)]
    origins: Both<Vec<OriginLine<'a>>>,
    remarks: Vec<String>,
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
    observed: Option<Both<f64>>,
    #[serde(flatten)]
    sides: Both<SideLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iops: Option<Ratio>,
    p50: Option<Compared>,
    p90: Option<Compared>,
    p99: Option<Compared>,
    mean: Option<Compared>,
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
    let (count, iops, in_flight) = (summary.count, load.iops(), load.in_flight());
    SideLine { count, iops, in_flight, p50_ns, p90_ns, p99_ns, mean_ns }
}

fn row_line<'a>(group: &Group, row: &'a DiffRow) -> RowLine<'a> {
    let (ctrl, class) = match group.scope {
        Scope::CommandClass(class) => (class.ctrl, Some(class)),
        Scope::Controller(ctrl) => (ctrl, None),
    };
    let [p50, p90, p99, mean] = row.compared;
    let sides = Both { a: side(group.load.a, row.sides.a), b: side(group.load.b, row.sides.b) };
    RowLine {
        ctrl: format!("nvme{ctrl}"),
        nsid: class.map(|s| s.nsid),
        queue: class.map(|s| s.opcode.queue.to_string()),
        opcode: class.map(|s| s.opcode.to_string()),
        size_max: class.map(|s| s.size.bytes()).filter(|bytes| *bytes > 0),
        stage: &row.name,
        from: row.from,
        to: row.to,
        changed: row.changed().next().is_some(),
        observed: row.observed,
        sides,
        iops: group.iops,
        p50,
        p90,
        p99,
        mean,
    }
}

impl Subject<'_> {
    /// Writes the comparison as JSON lines.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
        let Verdict { word, text } = self.verdict(diff);
        let verdict = VerdictLine {
            verdict: word.to_lowercase(),
            summary: text.replace(TIE, " "),
            changed_rows: diff.changed_rows(),
            comparisons: diff.comparisons,
            min_change: self.least,
            stage_set: self.stage_set,
            origins: self.origins.map(|side| side.iter().map(origin).collect()),
            remarks: self.remarks(diff),
        };
        typed_line("diff", &verdict, out)?;
        for group in &diff.groups {
            for row in &group.rows {
                typed_line("diff_row", &row_line(group, row), out)?;
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

    #[test]
    fn a_ratio_needs_two_times_above_zero() {
        let found = |ratio| Ratio { ratio, low: ratio, high: ratio, p: 0.0 };
        for (ratio, a, b, text) in [
            (2.0, 10.0, 20.0, " (2.00x [2.00, 2.00])"),
            (1.86e7, 0.0, 1.86e7, ""),
            (1e-7, 1e7, 0.0, ""),
            (2000.0, 10.0, 2e4, ""),
        ] {
            assert_eq!(with_interval(found(ratio), Both { a, b }).replace(TIE, " "), text);
        }
    }
}
