// SPDX-License-Identifier: MIT OR Apache-2.0
//! A comparison as JSON: the verdict, then an object per row. The schema is in docs/json.md.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::diff::report::{
    Both, Compared, Diff, Finding, Group, Load, Origin, Row, Scope, Summary, WaitChange,
};
use crate::diff::view::Subject;
use crate::model::activity::TagWaits;
use crate::model::ledger::Accuracy;
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::model::untrusted::Untrusted;
use crate::stats::ratio::Ratio;
use crate::view::json::{SCHEMA_VERSION, line as json_line};

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
    path: &'a Untrusted,
    kernel: Option<&'a Untrusted>,
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

fn ratio(compared: Compared) -> RatioLine {
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

fn row<'a>(group: &Group, row: &'a Row) -> RowLine<'a> {
    let (ctrl, stratum) = match group.scope {
        Scope::CommandClass(stratum) => (stratum.ctrl, Some(stratum)),
        Scope::Controller(ctrl) => (ctrl, None),
    };
    let [p50, p90, p99, mean] = row.compared.map(|compared| compared.map(ratio));
    let Both { a, b } = row.sides;
    RowLine {
        r#type: "diff_row",
        schema_version: SCHEMA_VERSION,
        ctrl: format!("nvme{ctrl}"),
        nsid: stratum.map(|s| s.nsid),
        queue: stratum.map(|s| s.opcode.queue.to_string()),
        opcode: stratum.map(|s| s.opcode.to_string()),
        size_max: stratum.map(|s| s.size.bytes()).filter(|bytes| *bytes > 0),
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
