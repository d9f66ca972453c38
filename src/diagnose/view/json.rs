// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as one JSON object.

use std::io;
use std::io::Write;

use serde::Serialize;

use super::DiagnosisView;
use crate::diagnose::report::{Cause, ClassFacts, Diagnosis, Judged, Outcome};
use crate::model::machine::MachineInfo;
use crate::model::report::finding::Finding;
use crate::view::json::{SCHEMA_VERSION, line as json_line};

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
            causes: causes.iter().map(cause_line).collect(),
            notes: notes.iter().map(cause_line).collect(),
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

fn cause_line(cause: &Cause) -> CauseLine<'_> {
    CauseLine {
        finding: &cause.finding,
        sentence: &cause.sentence,
        risk: cause.risk,
        explains: cause.explains,
    }
}
