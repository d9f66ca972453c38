// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as JSON, one object per line. The schema is in docs/json.md. A `command` has the same
//! field names as a command of [`crate::view::json`].
//!
//! Written by hand: serde_json takes 12400 instructions for a command with structs of the same members, and
//! 16600 with stages. All of `trace --from --json`, reading included, takes 2400 (tests/reading_cost.rs).

mod members;

use super::line::Line;
use super::memo::Memo;
use super::stages::{Shape, Stages};
use super::{Clock, Context, EventSink, Page, origin};
use crate::model::conditions::Conditions;
use crate::model::event::{
    CommandId, CompletionStatus, CtrlState, Event, EventKind, Outcome, Submission,
};
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::decode::{Field, Value};
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::status::{Status, StatusType};
use crate::view::json::SCHEMA_VERSION;

const SUCCESS: &str = concat!(
    r#","status":{"value":0,"type":"generic","code":0,"name":"Success","#,
    r#""dnr":false,"more":false,"crd":0}"#
);

/// Writes events as JSON.
#[derive(Debug)]
pub struct TraceJson {
    page: Page,
    stages: Option<Stages>,
    memo: Memo,
}

impl TraceJson {
    /// A writer. `stages` is the stage set to show, if any.
    #[must_use]
    pub fn new(clock: Clock, stages: Option<StageSet>) -> Self {
        Self {
            page: Page::new(clock),
            stages: stages.map(|stage_set| {
                Stages::new(
                    stage_set,
                    |name| format!("{{\"name\":\"{name}\",\"ns\":"),
                    |name| format!("\"{name}\":"),
                )
            }),
            memo: Memo::new(),
        }
    }
}

impl EventSink for TraceJson {
    fn page(&self) -> &Page {
        &self.page
    }

    fn page_mut(&mut self) -> &mut Page {
        &mut self.page
    }

    fn stack(&self, frames: &[Frame]) -> String {
        let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
        serde_json::to_string(&frames).unwrap_or_default()
    }

    fn event(&mut self, event: &Event, cx: &Context<'_>) {
        let Event { at_ns, what } = event;
        let line = &mut *self.page.line;
        line.begin();
        line.str("{\"type\":\"");
        line.name(what.name());
        const { assert!(SCHEMA_VERSION == 2, "it is in the next line") };
        line.str("\",\"schema_version\":2,\"time_ns\":");
        line.stamp(*at_ns);
        self.page.clock.json(*at_ns, line);
        line.str(",\"ctrl\":\"nvme");
        line.dec(what.ctrl());
        line.byte(b'"');
        if !cx.disk.is_empty() {
            line.str(",\"disk\":");
            if cx.disk.bytes().all(|b| b.is_ascii_alphanumeric()) {
                line.byte(b'"');
                line.name(cx.disk);
                line.byte(b'"');
            } else {
                string(line, cx.disk);
            }
        }
        line.body(what, cx, self.stages.as_mut(), &mut self.memo);
        line.str("}\n");
    }
}

/// Writes a name as a JSON string.
#[cold]
pub(super) fn string(line: &mut Line, text: &str) {
    line.long(serde_json::Value::from(text).to_string().as_bytes());
}

impl Line {
    fn body(
        &mut self,
        what: &EventKind,
        cx: &Context<'_>,
        stages: Option<&mut Stages>,
        memo: &mut Memo,
    ) {
        match what {
            EventKind::Submit(id, submission) => self.whole(id, Some(submission), cx, memo),
            EventKind::Complete(id, outcome) => {
                self.command(id, None, cx, memo);
                self.outcome(id.opcode, outcome, stages);
                self.number(",\"cpu\":", outcome.cpu);
                self.raw(",\"kstack\":", cx.kstack_complete);
            }
            EventKind::Command(id, submission, outcome) => {
                self.whole(id, Some(submission), cx, memo);
                self.outcome(id.opcode, outcome, stages);
                self.number(",\"complete_cpu\":", outcome.cpu);
                self.raw(",\"kstack_complete\":", cx.kstack_complete);
            }
            EventKind::Unfinished { id, submission, age_ns } => {
                self.whole(id, Some(submission), cx, memo);
                self.age(*age_ns);
            }
            EventKind::Missed { id, submission, latency_max_ns, timeline } => {
                self.whole(id, submission.as_ref(), cx, memo);
                self.maybe(",\"driver_max_ns\":", *latency_max_ns);
                self.timeline_of(timeline.as_ref(), stages);
            }
            EventKind::Timeout { id, age_ns } | EventKind::Cancel { id, age_ns } => {
                self.command(id, None, cx, memo);
                self.age(*age_ns);
            }
            EventKind::Requeue(id) => self.command(id, None, cx, memo),
            EventKind::Retry { id, retries } => self.retry(id, *retries, cx, memo),
            EventKind::Sq { ctrl: _, qid, id, head, tail } => {
                match id {
                    Some(id) => self.command(id, None, cx, memo),
                    None => self.number(",\"qid\":", *qid),
                }
                self.sq(*head, *tail);
            }
            EventKind::AsyncEvent { ctrl: _, event } => self.async_event(*event),
            EventKind::State { ctrl: _, state, requested } => self.state(*state, *requested),
        }
    }
}

pub(crate) const fn type_name(kind: StatusType) -> &'static str {
    match kind {
        StatusType::Generic => "generic",
        StatusType::CommandSpecific => "command_specific",
        StatusType::Media => "media",
        StatusType::Path => "path",
        StatusType::Vendor => "vendor",
        StatusType::Reserved(_) => "reserved",
    }
}

impl Line {
    fn age(&mut self, ns: u64) {
        self.number(",\"age_ns\":", ns);
    }

    fn retry(&mut self, id: &CommandId, retries: Option<u8>, cx: &Context<'_>, memo: &mut Memo) {
        self.command(id, None, cx, memo);
        if let Some(retries) = retries {
            self.number(",\"retries\":", retries);
        }
    }

    fn sq(&mut self, head: u16, tail: u16) {
        self.number(",\"sq_head\":", head);
        self.number(",\"sq_tail\":", tail);
    }

    /// Writes the identity of a command, and its parameters if they are known.
    #[inline]
    fn whole(
        &mut self,
        id: &CommandId,
        submission: Option<&Submission>,
        cx: &Context<'_>,
        memo: &mut Memo,
    ) {
        self.command(id, submission, cx, memo);
        if let Some(submission) = submission {
            self.submission(id, submission, cx, memo);
        }
    }

    #[inline]
    fn command(
        &mut self,
        id: &CommandId,
        submission: Option<&Submission>,
        cx: &Context<'_>,
        memo: &mut Memo,
    ) {
        self.number(",\"qid\":", id.qid);
        self.number(",\"cid\":", id.cid);
        memo.command(id, submission, cx.set, self, |line| line.kind(id, submission, cx));
    }

    /// Writes the part of a command up to the start of `fields`, if there are fields.
    fn kind(&mut self, id: &CommandId, submission: Option<&Submission>, cx: &Context<'_>) {
        self.number(",\"nsid\":", id.nsid);
        match id.opcode.queue {
            QueueKind::Io => self.str(",\"queue\":\"io\",\"opcode\":\""),
            QueueKind::Admin => self.str(",\"queue\":\"admin\",\"opcode\":\""),
        }
        match id.opcode_name(cx.set, submission) {
            Some(name) => self.name(name),
            None => self.hex_byte(id.opcode.code),
        }
        self.number("\",\"opcode_value\":", id.opcode.code);
        if let Some(submission) = submission {
            self.number(",\"flags\":", submission.sqe.flags());
            self.flag(",\"metadata\":", submission.sqe.metadata());
            self.str(",\"fields\":{");
        }
    }

    /// Writes the parameters and the submitter of a command, with all fields of the entry.
    fn submission(
        &mut self,
        id: &CommandId,
        submission: &Submission,
        cx: &Context<'_>,
        memo: &mut Memo,
    ) {
        let slba = |line: &mut Self, slba| {
            line.str("\"slba\":");
            line.dec(slba);
            line.byte(b',');
        };
        memo.fields((id.opcode.queue, cx.set), submission, self, slba, Self::rest);
        if !submission.knows_submitter {
            return;
        }
        memo.thread(submission, self, |line, submission| {
            line.number(",\"pid\":", submission.pid);
            line.number(",\"tid\":", submission.tid);
            line.str(",\"comm\":");
            string(line, &submission.comm());
        });
        self.number(",\"cpu\":", submission.cpu);
        if submission.origin.is_some() {
            origin::json(self, &submission.origin, cx);
        }
        self.raw(",\"kstack\":", cx.kstack);
    }

    /// Writes the fields except `slba`, and the number of bytes.
    fn rest(&mut self, submission: &Submission, fields: &mut dyn Iterator<Item = Field>) {
        fields.for_each(|field| self.field(field));
        self.close(b'}');
        if let Some(bytes) = submission.bytes {
            self.number(",\"bytes\":", bytes);
        }
    }

    /// Writes a field and a comma. Values have the format of their `Serialize`.
    #[inline]
    fn field(&mut self, Field { key, value, .. }: Field) {
        self.byte(b'"');
        self.name(key);
        self.str("\":");
        match value {
            Value::Num(n) | Value::Hex(n) => {
                self.dec(n);
                self.byte(b',');
            }
            Value::Flag(true) => self.str("true,"),
            Value::Flag(false) => self.str("false,"),
            Value::Code(code, name) | Value::HexCode(code, name) => {
                self.number("{\"code\":", code);
                self.str(",\"name\":\"");
                self.name(name);
                self.str("\"},");
            }
        }
    }

    #[inline]
    fn outcome(&mut self, opcode: Opcode, outcome: &Outcome, stages: Option<&mut Stages>) {
        match &outcome.verdict {
            Some(verdict) if verdict.is_plain() => {
                self.str(",\"result\":0");
                self.str(SUCCESS);
                self.str(",\"retries\":0,\"request_flags\":0");
            }
            Some(verdict) => self.verdict(opcode, verdict),
            None => self.str(",\"status\":null"),
        }
        self.maybe(",\"driver_ns\":", outcome.latency_ns);
        if outcome.conditions.is_some() {
            self.conditions(outcome.conditions);
        }
        if let Some(count) = outcome.bios.count() {
            self.number(",\"bios\":", u16::from(count));
            self.maybe(",\"longest_wait_ns\":", outcome.bios.longest_wait_ns());
        }
        self.timeline_of(outcome.timeline.as_ref(), stages);
    }

    #[inline(never)]
    fn conditions(&mut self, conditions: Conditions) {
        if let Some(idle) = conditions.cpu_idle() {
            self.flag(",\"cpu_idle\":", idle);
        }
        if let Some(softirq) = conditions.in_softirq() {
            self.flag(",\"in_softirq\":", softirq);
        }
        if let Some(announcement) = conditions.announcement() {
            self.str(",\"announced\":\"");
            self.name(announcement.name());
            self.byte(b'"');
        }
    }

    #[inline]
    fn timeline_of(&mut self, timeline: Option<&Timeline>, stages: Option<&mut Stages>) {
        if let Some((stages, timeline)) = stages.zip(timeline) {
            let stage_set = stages.stage_set();
            if let Some(shape) = stages.of(timeline) {
                self.timeline(shape, stage_set, timeline);
            }
        }
    }

    fn verdict(&mut self, opcode: Opcode, verdict: &CompletionStatus) {
        let CompletionStatus { result, status, retries, flags } = *verdict;
        self.number(",\"result\":", result);
        if status.0 == 0 {
            self.str(SUCCESS);
        } else {
            self.status(opcode, status);
        }
        self.number(",\"retries\":", retries);
        self.number(",\"request_flags\":", flags);
    }

    #[cold]
    #[inline(never)]
    fn status(&mut self, opcode: Opcode, status: Status) {
        self.number(",\"status\":{\"value\":", status.0);
        self.str(",\"type\":\"");
        self.name(type_name(status.kind()));
        self.number("\",\"code\":", status.code());
        match status.name_for(opcode) {
            Some(name) => {
                self.str(",\"name\":\"");
                self.name(name);
                self.byte(b'"');
            }
            None => self.str(",\"name\":null"),
        }
        self.flag(",\"dnr\":", status.do_not_retry());
        self.flag(",\"more\":", status.more());
        self.number(",\"crd\":", status.retry_delay());
        self.byte(b'}');
    }

    #[inline]
    fn timeline(&mut self, shape: &Shape, stage_set: StageSet, timeline: &Timeline) {
        self.str(",\"points_ns\":{");
        for step in &shape.points {
            let ns = timeline.ns(step.at);
            if ns != 0 {
                step.label(self);
                self.stamp(ns);
                self.byte(b',');
            }
        }
        self.close(b'}');
        self.str(",\"stages\":[");
        let begin = self.place();
        let first = match shape.stages.as_slice() {
            [] => 0,
            _ => timeline.ns(shape.from),
        };
        let mut from = first;
        for step in &shape.stages {
            let to = timeline.ns(step.at);
            if from == 0 || to < from {
                self.back_to(begin);
                from = 0;
                break;
            }
            step.label(self);
            self.dec(to - from);
            self.str("},");
            from = to;
        }
        self.close(b']');
        // if two points are out of order there are no stages, but there may be a total
        let total = (from != 0).then(|| from - first);
        match total.or_else(|| timeline.total(stage_set)) {
            Some(ns) => self.number(",\"total_ns\":", ns),
            None => self.str(",\"total_ns\":null"),
        }
    }

    fn async_event(&mut self, event: AsyncEvent) {
        let [whole, fields @ ..] = event.fields();
        self.number(",\"result\":", whole.value.number());
        self.str(",\"fields\":{");
        for field in fields {
            self.field(field);
        }
        self.close(b'}');
    }

    fn state(&mut self, state: CtrlState, requested: bool) {
        match state.name() {
            Some(name) => {
                self.str(",\"state\":\"");
                self.name(name);
                self.byte(b'"');
            }
            None => self.str(",\"state\":null"),
        }
        self.number(",\"state_value\":", state.0);
        self.flag(",\"asked\":", requested);
    }
}
