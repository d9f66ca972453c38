// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports as JSON: one object per line, with a version, and with units in the field names. The
//! schema is in docs/reference/json.md. [`SCHEMA_VERSION`] changes when a field changes its meaning or is
//! removed.

use std::io;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::text::group_ns;
use crate::model::event::CommandId;
use crate::model::histogram::{Bucket, Histogram};
use crate::model::ids::RowKey;
use crate::model::ledger::Ledger;
use crate::model::nvme_latency::LatRow;
use crate::model::origin::Who;
use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{Report, RowReport};
use crate::model::stage::StageSet;
use crate::nvme::decode::Blocks;
use crate::nvme::subject::{fctype, namespace};
use crate::view::groups::{GroupLines, lines};

/// The schema version of every object.
pub const SCHEMA_VERSION: u32 = 2;

#[derive(Serialize)]
struct ReportLine<'a> {
    r#final: bool,
    stage_set: StageSet,
    at_s: f64,
    covers_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<Who>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<RowLine<'a>>>,
    #[serde(flatten)]
    groups: Option<GroupLines<'a>>,
    ledger: &'a Ledger,
}

#[derive(Serialize)]
pub(crate) struct RowLine<'a> {
    ctrl: String,
    nsid: u32,
    queue: &'static str,
    opcode: String,
    opcode_value: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    #[serde(flatten)]
    numbers: Numbers<'a>,
}

/// The numbers of a row or group.
#[derive(Serialize)]
pub(super) struct Numbers<'a> {
    count: u64,
    unmeasured: u64,
    iops: f64,
    bytes: u64,
    mb_per_s: f64,
    /// Where most of the time was.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
    stages: Vec<StageLine<'a>>,
    /// Without stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<Dist>,
    /// With stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Dist>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lat_buckets: Vec<LatLine>,
}

#[derive(Serialize)]
struct Place {
    stage: String,
    share: f64,
}

#[derive(Serialize)]
struct StageLine<'a> {
    name: &'a str,
    from: Option<&'static str>,
    to: Option<&'static str>,
    /// The part that makes up at least half of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    main_part: Option<MainPart>,
    #[serde(flatten)]
    dist: Dist,
}

#[derive(Serialize)]
struct MainPart {
    name: String,
    sum_ns: u64,
}

/// A distribution of latencies.
#[derive(Serialize)]
pub(crate) struct Dist {
    count: u64,
    sum_ns: u64,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    percentile_error: f64,
    max_ns: Option<u64>,
    max_exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<BucketLine>>,
}

#[derive(Serialize)]
struct BucketLine {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

#[derive(Serialize)]
pub(super) struct LatLine {
    from_us: u64,
    to_us: Option<u64>,
    count: u64,
}

pub(crate) fn dist(h: &Histogram, buckets: bool) -> Dist {
    let buckets = buckets.then(|| {
        let line = |Bucket { first, last, count }| BucketLine {
            from_ns: first,
            to_ns: last.saturating_add(1),
            count,
        };
        h.iter().map(line).collect()
    });
    Dist {
        count: h.count(),
        sum_ns: sum_ns(h.sum()),
        mean_ns: h.mean(),
        p50_ns: h.percentile(50.0),
        p90_ns: h.percentile(90.0),
        p99_ns: h.percentile(99.0),
        p999_ns: h.percentile(99.9),
        percentile_error: h.percentile_error(),
        max_ns: h.max(),
        max_exact: h.max_exact(),
        buckets,
    }
}

fn sum_ns(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The numbers of a row or group.
pub(super) fn numbers<K>(row: &RowReport<K>, stage_set: StageSet, buckets: bool) -> Numbers<'_> {
    let has_stages = stage_set != StageSet::Total;
    let stages = row.stages.iter().filter(|_| has_stages).map(|s| {
        let group = s.run.group().filter(|group| *group == s.name);
        let part = group.and_then(|group| row.main_part(group, group_ns(row, Some(group))));
        StageLine {
            name: &s.name,
            from: stage_set.name_of_point(s.run.from),
            to: stage_set.name_of_point(s.run.to),
            main_part: part.map(|part| MainPart { name: part.stage, sum_ns: sum_ns(part.ns) }),
            dist: dist(&s.hist, buckets),
        }
    });
    let place = row.places().into_iter().next();
    let whole = || dist(&row.total, buckets);
    let lat = |l: &LatRow| LatLine { from_us: l.low_us, to_us: l.high_us, count: l.count };
    Numbers {
        count: row.count,
        unmeasured: row.unmeasured,
        iops: row.iops,
        bytes: row.bytes,
        mb_per_s: row.mb_per_s,
        place: place.map(|place| Place { stage: place.stage, share: place.share }),
        stages: stages.collect(),
        driver: (!has_stages).then(whole),
        total: has_stages.then(whole),
        lat_buckets: row.lat.iter().map(lat).collect(),
    }
}

/// A row of a report.
pub(crate) fn row<'r>(
    row: &'r RowReport,
    stage_set: StageSet,
    buckets: bool,
    disks: &DiskNames,
) -> RowLine<'r> {
    let RowKey { ctrl, nsid, opcode, class: _ } = row.key;
    RowLine {
        ctrl: disks.ctrl(ctrl),
        nsid,
        queue: opcode.queue.name(),
        opcode: opcode.name_or_code(),
        opcode_value: opcode.code,
        fctype: fctype(opcode, nsid),
        numbers: numbers(row, stage_set, buckets),
    }
}

/// What every object begins with.
#[derive(Serialize)]
struct Envelope<'a, T> {
    r#type: &'static str,
    schema_version: u32,
    #[serde(flatten)]
    rest: &'a T,
}

/// Writes an object of this type as one line: its version, and the fields of `rest`.
pub(crate) fn typed_line(
    r#type: &'static str,
    rest: &impl Serialize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let object = Envelope { r#type, schema_version: SCHEMA_VERSION, rest };
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

/// The ids of a command, and its blocks if it has some.
pub(crate) fn ids(id: &CommandId, blocks: Option<Blocks>) -> Map<String, Value> {
    let CommandId { qid, cid, nsid, opcode, .. } = *id;
    let all = [
        ("qid", Some(qid.into())),
        ("cid", Some(cid.into())),
        ("nsid", namespace(opcode, nsid).map(Value::from)),
        ("queue", Some(opcode.queue.name().into())),
        ("opcode", Some(opcode.name_or_code().into())),
        ("opcode_value", Some(opcode.code.into())),
        ("fctype", fctype(opcode, nsid).map(Value::from)),
        ("slba", blocks.map(|blocks| blocks.slba.into())),
        ("nlb", blocks.map(|blocks| blocks.nlb.into())),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Writes a report as one line. `buckets`: with the buckets of each histogram.
///
/// # Errors
/// Errors of the writer.
pub fn report(report: &Report, buckets: bool, out: &mut dyn Write) -> io::Result<()> {
    let Report { stage_set, who, is_final, at, covers, rows, groups, ledger, disks } = report;
    let rows = || rows.iter().map(|r| row(r, *stage_set, buckets, disks)).collect();
    let object = ReportLine {
        r#final: *is_final,
        stage_set: *stage_set,
        at_s: at.as_secs_f64(),
        covers_s: covers.as_secs_f64(),
        who: *who,
        rows: groups.is_none().then(rows),
        groups: groups.as_ref().map(|g| lines(g, disks, *stage_set, buckets)),
        ledger,
    };
    typed_line("report", &object, out)
}

#[derive(Serialize)]
struct EndLine<'a> {
    at_s: f64,
    ledger: &'a Ledger,
}

/// Writes the ledger at the end of a trace as one line.
///
/// # Errors
/// Errors of the writer.
pub fn end(ledger: &Ledger, at: Duration, out: &mut dyn Write) -> io::Result<()> {
    typed_line("end", &EndLine { at_s: at.as_secs_f64(), ledger }, out)
}
