// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as one JSON object.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::DiagnosisView;
use crate::diagnose::affected::joined;
use crate::diagnose::report::{
    Affected, Cause, ClassFacts, Diagnosis, Facts, Issuer, Judged, Outcome,
};
use crate::model::machine::MachineInfo;
use crate::model::report::finding::Finding;
use crate::model::text::Text;
use crate::view::json::{SCHEMA_VERSION, line as json_line};

/// Most times, blocks and commands of a cause.
const MOST: usize = 100;

impl DiagnosisView<'_> {
    /// Writes it as one JSON object.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let reasons = |rules: &[Judged]| -> Vec<Reason> {
            let all = rules.iter();
            all.map(|judged| Reason {
                rule: judged.rule,
                subject: judged.name.clone(),
                why: judged.why.clone(),
            })
            .collect()
        };
        let Diagnosis { outcome, verdict, causes, notes, ruled_out, not_judged, not_looked_at } =
            self.diagnosis;
        let object = Line {
            r#type: "diagnosis",
            schema_version: SCHEMA_VERSION,
            file: self.origin.file,
            kernel: self.origin.kernel,
            outcome: match outcome {
                Outcome::Cause => "cause",
                Outcome::Nothing => "nothing_avoidable",
                Outcome::Unknown => "not_known",
            },
            verdict,
            causes: causes.iter().map(|cause| cause_line(self.facts, cause)).collect(),
            notes: notes.iter().map(|note| cause_line(self.facts, note)).collect(),
            ruled_out: reasons(ruled_out),
            not_judged: reasons(not_judged),
            not_looked_at: reasons(not_looked_at),
            whole: self.facts.is_whole,
            covers_s: self.facts.covers.as_secs_f64(),
            commands: self.facts.commands.seen,
            machine: self.facts.machine.as_ref(),
            times: self.facts.strata.iter().map(|s| self.times_of(s)).collect(),
        };
        json_line(&object, out)
    }

    fn times_of(&self, stratum: &ClassFacts) -> Times {
        let stages =
            stratum.stages.iter().map(|(stage, ns)| StageTime { stage: stage.name(), sum_ns: *ns });
        Times {
            name: self.facts.stratum_name(&stratum.stratum),
            ctrl: format!("nvme{}", stratum.stratum.ctrl),
            nsid: stratum.stratum.nsid,
            commands: stratum.commands,
            p50_ns: stratum.p50_ns,
            p99_ns: stratum.p99_ns,
            sum_ns: stratum.total_ns,
            stages: stages.collect(),
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    schema_version: u32,
    file: Option<&'a str>,
    kernel: Option<&'a str>,
    outcome: &'static str,
    verdict: &'a str,
    causes: Vec<CauseLine<'a>>,
    notes: Vec<CauseLine<'a>>,
    ruled_out: Vec<Reason>,
    not_judged: Vec<Reason>,
    not_looked_at: Vec<Reason>,
    whole: bool,
    covers_s: f64,
    commands: u64,
    machine: Option<&'a MachineInfo>,
    times: Vec<Times>,
}

#[derive(Serialize)]
struct CauseLine<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    sentence: &'a str,
    risk: Option<&'static str>,
    explains: Option<f64>,
    r#where: Option<Where>,
    who: Vec<Process>,
    cgroups: Vec<Cgroup>,
}

/// The single commands of a cause: at most some of each list.
#[derive(Serialize)]
struct Where {
    count: usize,
    times: Vec<During>,
    disks: BTreeSet<String>,
    lbas: Vec<Blocks>,
    queues: BTreeSet<u16>,
    commands: Vec<Ids>,
}

#[derive(Serialize)]
struct During {
    begin_s: f64,
    end_s: f64,
    /// RFC 3339, if the time of day is known.
    begin: Option<String>,
    end: Option<String>,
}

#[derive(Serialize)]
struct Blocks {
    disk: String,
    first: u64,
    last: u64,
}

#[derive(Serialize)]
struct Ids {
    ctrl: String,
    qid: u16,
    cid: Option<u16>,
}

#[derive(Serialize)]
struct Process {
    name: String,
    pid: u32,
    by: &'static str,
    share: f64,
}

#[derive(Serialize)]
struct Cgroup {
    id: u64,
    path: Option<Text>,
    share: f64,
}

#[derive(Serialize)]
struct Reason {
    rule: &'static str,
    subject: String,
    why: String,
}

#[derive(Serialize)]
struct Times {
    name: String,
    ctrl: String,
    nsid: u32,
    commands: u64,
    p50_ns: u64,
    p99_ns: u64,
    sum_ns: u64,
    stages: Vec<StageTime>,
}

#[derive(Serialize)]
struct StageTime {
    stage: String,
    sum_ns: u64,
}

fn where_of(facts: &Facts, affected: &[Affected]) -> Where {
    let (clock, some) = (facts.clock_of_day, || affected.iter().take(MOST));
    let since = |at_ns: u64| at_ns.saturating_sub(clock.begin_ns) as f64 / 1e9;
    let disk = |a: &Affected| facts.disk_name(a.disk.ctrl, a.disk.nsid);
    let times = joined(affected.iter().map(|a| (a.begin_ns, a.end_ns)));
    let blocks =
        some().filter_map(|a| a.blocks.map(|(first, last)| Blocks { disk: disk(a), first, last }));
    Where {
        count: affected.len(),
        times: (times.into_iter().take(MOST))
            .map(|(begin, end)| During {
                begin_s: since(begin),
                end_s: since(end),
                begin: clock.rfc3339(begin),
                end: clock.rfc3339(end),
            })
            .collect(),
        disks: affected.iter().map(disk).collect(),
        lbas: blocks.collect(),
        queues: affected.iter().map(|a| a.qid).collect(),
        commands: some()
            .map(|a| Ids { ctrl: format!("nvme{}", a.disk.ctrl), qid: a.qid, cid: a.cid })
            .collect(),
    }
}

fn cause_line<'c>(facts: &Facts, cause: &'c Cause) -> CauseLine<'c> {
    let affected = &cause.affected;
    let who = cause.who.iter();
    let processes = who.clone().flat_map(|who| &who.processes);
    let by = |issuer: &Issuer| if issuer.is_submitter { "submitter" } else { "caller" };
    CauseLine {
        r#where: (!affected.is_empty()).then(|| where_of(facts, affected)),
        who: processes
            .map(|part| Process {
                name: part.of.name(),
                pid: part.of.pid,
                by: by(&part.of),
                share: part.share,
            })
            .collect(),
        cgroups: (who.flat_map(|who| &who.cgroups))
            .map(|part| {
                let (id, path) = part.of.clone();
                Cgroup { id, path, share: part.share }
            })
            .collect(),
        finding: &cause.finding,
        sentence: &cause.sentence,
        risk: cause.risk,
        explains: cause.explains,
    }
}
