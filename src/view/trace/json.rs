//! One object a line for an event. The schema is in the README; what a command of
//! [`crate::view::json`] has, one of a trace has by the same names.

use serde_json::to_string;

use super::Clock;
use super::Context;
use super::line::COMM;
use super::line::Line;
use super::line::chars;
use super::opcode_name;
use crate::event::Asked;
use crate::event::CommandId;
use crate::event::CtrlState;
use crate::event::Event;
use crate::event::Outcome;
use crate::event::Verdict;
use crate::event::What;
use crate::kstack::Frame;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::decode::Field;
use crate::nvme::decode::Value;
use crate::nvme::decode::fields;
use crate::nvme::opcode::Opcode;
use crate::nvme::opcode::QueueKind;
use crate::nvme::status::Status;
use crate::nvme::status::StatusType;
use crate::path::milestone::Milestone;
use crate::path::stage::Cut;
use crate::path::timeline::Segment;
use crate::path::timeline::Timeline;
use crate::view::json::SCHEMA_VERSION;

/// Writes events as JSON.
#[derive(Debug)]
pub struct TraceJson {
    clock: Clock,
    stages: Option<Cut>,
}

impl TraceJson {
    /// `stages` is the cut that they are shown in, if they are.
    #[must_use]
    pub fn new(clock: Clock, stages: Option<Cut>) -> Self {
        Self { clock, stages }
    }

    /// The clock, to correct it.
    pub fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// A stack, as an array.
    #[must_use]
    pub fn stack(&self, frames: &[Frame]) -> String {
        let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
        to_string(&frames).unwrap_or_default()
    }

    /// Writes an event.
    pub fn event(&mut self, event: &Event, cx: &Context<'_>, out: &mut Vec<u8>) {
        let Event { at_ns, what } = event;
        let mut line = Line { out };
        line.str("{\"type\":\"");
        line.str(name(what));
        const { assert!(SCHEMA_VERSION == 1, "it is in the next line") };
        line.str("\",\"schema_version\":1,\"time_ns\":");
        line.dec(*at_ns);
        self.clock.json(*at_ns, &mut line);
        line.str(",\"ctrl\":\"nvme");
        line.dec(what.ctrl());
        line.byte(b'"');
        if !cx.disk.is_empty() {
            line.str(",\"disk\":\"");
            line.str(cx.disk);
            line.byte(b'"');
        }
        self.body(what, cx, &mut line);
        line.str("}\n");
    }

    fn body(&self, what: &What, cx: &Context<'_>, line: &mut Line<'_>) {
        match what {
            What::Submit(id, asked) => {
                line.command(id, Some(asked), cx);
                line.asked(id, asked, cx);
            }
            What::Complete(id, outcome) => {
                line.command(id, None, cx);
                line.outcome(id.opcode, outcome, self.stages);
                line.number(",\"cpu\":", outcome.cpu);
                line.raw(",\"kstack\":", cx.kstack_complete);
            }
            What::Command(id, asked, outcome) => {
                line.command(id, Some(asked), cx);
                line.asked(id, asked, cx);
                line.outcome(id.opcode, outcome, self.stages);
                line.number(",\"complete_cpu\":", outcome.cpu);
                line.raw(",\"kstack_complete\":", cx.kstack_complete);
            }
            What::Unfinished { id, asked, age_ns } => {
                line.command(id, asked.as_ref(), cx);
                if let Some(asked) = asked {
                    line.asked(id, asked, cx);
                }
                line.number(",\"age_ns\":", *age_ns);
            }
            What::Timeout { id, age_ns } | What::Cancel { id, age_ns } => {
                line.command(id, None, cx);
                line.number(",\"age_ns\":", *age_ns);
            }
            What::Requeue(id) => line.command(id, None, cx),
            What::Retry { id, retries } => {
                line.command(id, None, cx);
                if let Some(retries) = *retries {
                    line.number(",\"retries\":", retries);
                }
            }
            What::Sq {
                ctrl: _,
                qid,
                id,
                head,
                tail,
            } => {
                match id {
                    Some(id) => line.command(id, None, cx),
                    None => line.number(",\"qid\":", *qid),
                }
                line.number(",\"sq_head\":", *head);
                line.number(",\"sq_tail\":", *tail);
            }
            What::AsyncEvent { ctrl: _, event } => line.async_event(*event),
            What::State {
                ctrl: _,
                state,
                asked,
            } => line.state(*state, *asked),
        }
    }
}

const fn name(what: &What) -> &'static str {
    match what {
        What::Submit(..) => "submit",
        What::Complete(..) => "complete",
        What::Command(..) => "command",
        What::Unfinished { .. } => "unfinished",
        What::Sq { .. } => "sq",
        What::Timeout { .. } => "timeout",
        What::Cancel { .. } => "cancel",
        What::Requeue(_) => "requeue",
        What::Retry { .. } => "retry",
        What::AsyncEvent { .. } => "async_event",
        What::State { .. } => "state",
    }
}

const fn type_name(kind: StatusType) -> &'static str {
    match kind {
        StatusType::Generic => "generic",
        StatusType::CommandSpecific => "command_specific",
        StatusType::Media => "media",
        StatusType::Path => "path",
        StatusType::Vendor => "vendor",
        StatusType::Reserved(_) => "reserved",
    }
}

impl Line<'_> {
    #[inline]
    fn number(&mut self, key: &'static str, n: impl Into<u64>) {
        self.str(key);
        self.dec(n);
    }

    #[inline]
    fn flag(&mut self, key: &'static str, set: bool) {
        self.str(key);
        self.str(if set { "true" } else { "false" });
    }

    /// What is JSON already; nothing if it is empty.
    #[inline]
    fn raw(&mut self, key: &'static str, json: &str) {
        if !json.is_empty() {
            self.str(key);
            self.str(json);
        }
    }

    /// The members of an object that end on a comma: closes it.
    fn close(&mut self, bracket: u8) {
        match self.out.last_mut() {
            Some(last @ b',') => *last = bracket,
            _ => self.byte(bracket),
        }
    }

    #[inline]
    fn command(&mut self, id: &CommandId, asked: Option<&Asked>, cx: &Context<'_>) {
        self.number(",\"qid\":", id.qid);
        self.number(",\"cid\":", id.cid);
        self.number(",\"nsid\":", id.nsid);
        self.str(match id.opcode.queue {
            QueueKind::Io => ",\"queue\":\"io\",\"opcode\":\"",
            QueueKind::Admin => ",\"queue\":\"admin\",\"opcode\":\"",
        });
        match opcode_name(id, cx.set, asked) {
            Some(name) => self.str(name),
            None => self.hex_byte(id.opcode.code),
        }
        self.number("\",\"opcode_value\":", id.opcode.code);
    }

    /// What a command asks for, with all that the entry says.
    fn asked(&mut self, id: &CommandId, asked: &Asked, cx: &Context<'_>) {
        self.number(",\"flags\":", asked.sqe.flags());
        self.flag(",\"metadata\":", asked.sqe.metadata());
        self.str(",\"fields\":{");
        fields(id.opcode.queue, cx.set, &asked.sqe).for_each(|field| self.field(field));
        self.close(b'}');
        if let Some(bytes) = asked.bytes {
            self.number(",\"bytes\":", bytes);
        }
        self.number(",\"pid\":", asked.pid);
        self.number(",\"tid\":", asked.tid);
        self.str(",\"comm\":\"");
        self.comm(asked);
        self.number("\",\"cpu\":", asked.cpu);
        self.raw(",\"kstack\":", cx.kstack);
    }

    /// With a comma after it. Values are as their `Serialize`.
    #[inline]
    fn field(&mut self, Field { key, value, .. }: Field) {
        self.byte(b'"');
        self.str(key);
        self.str("\":");
        match value {
            Value::Num(n) | Value::Hex(n) => {
                self.dec(n);
                self.byte(b',');
            }
            Value::Flag(set) => self.str(if set { "true," } else { "false," }),
            Value::Code(code, name) | Value::HexCode(code, name) => {
                self.number("{\"code\":", code);
                self.str(",\"name\":\"");
                self.str(name);
                self.str("\"},");
            }
        }
    }

    /// A thread may call itself anything.
    fn comm(&mut self, asked: &Asked) {
        let odd = |b: &u8| matches!(b, 1..b' ' | b'"' | b'\\' | 0x7f..);
        // all the bytes, without an end in between: the compiler can look at them at once
        if !asked.comm.iter().fold(false, |any, b| any | odd(b)) {
            let len = asked.comm().len();
            self.first::<COMM>(asked.comm, len);
            return;
        }
        for char in chars(asked.comm()) {
            match char.unwrap_or(char::REPLACEMENT_CHARACTER) {
                '"' => self.str("\\\""),
                '\\' => self.str("\\\\"),
                // C0, DEL and C1: JSON asks for the first only, terminals mind all
                c if c.is_control() => {
                    self.str("\\u00");
                    self.hex_digits(c as u8);
                }
                c => self.str(c.encode_utf8(&mut [0; 4])),
            }
        }
    }

    #[inline]
    fn outcome(&mut self, opcode: Opcode, outcome: &Outcome, stages: Option<Cut>) {
        match &outcome.verdict {
            Some(verdict) => self.verdict(opcode, verdict),
            None => self.str(",\"status\":null"),
        }
        self.number(",\"latency_ns\":", outcome.latency_ns);
        if let Some((cut, timeline)) = stages.zip(outcome.timeline.as_ref()) {
            self.timeline(cut, timeline);
        }
    }

    #[inline]
    fn verdict(&mut self, opcode: Opcode, verdict: &Verdict) {
        let Verdict {
            result,
            status,
            retries,
            flags,
        } = *verdict;
        self.number(",\"result\":", result);
        if status.0 == 0 {
            self.str(concat!(
                r#","status":{"value":0,"type":"generic","code":0,"name":"Success","#,
                r#""dnr":false,"more":false,"crd":0}"#
            ));
        } else {
            self.status(opcode, status);
        }
        self.number(",\"retries\":", retries);
        self.number(",\"request_flags\":", flags);
    }

    fn status(&mut self, opcode: Opcode, status: Status) {
        self.number(",\"status\":{\"value\":", status.0);
        self.str(",\"type\":\"");
        self.str(type_name(status.kind()));
        self.number("\",\"code\":", status.code());
        match status.name_for(opcode) {
            Some(name) => {
                self.str(",\"name\":\"");
                self.str(name);
                self.byte(b'"');
            }
            None => self.str(",\"name\":null"),
        }
        self.flag(",\"dnr\":", status.do_not_retry());
        self.flag(",\"more\":", status.more());
        self.number(",\"crd\":", status.retry_delay());
        self.byte(b'}');
    }

    fn timeline(&mut self, cut: Cut, timeline: &Timeline) {
        self.str(",\"points_ns\":{");
        for point in Milestone::ALL {
            if let Some(ns) = timeline.at(point) {
                self.byte(b'"');
                self.str(point.name());
                self.number("\":", ns);
                self.byte(b',');
            }
        }
        self.close(b'}');
        self.str(",\"stages\":[");
        let begin = self.out.len();
        for segment in timeline.each_segment(cut) {
            let Some(Segment { run, ns }) = segment else {
                self.out.truncate(begin);
                break;
            };
            let mut before = "{\"name\":\"";
            for name in cut.names(run) {
                self.str(before);
                self.str(name);
                before = "+";
            }
            self.number("\",\"ns\":", ns);
            self.str("},");
        }
        self.close(b']');
        match timeline.total(cut) {
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

    fn state(&mut self, state: CtrlState, asked: bool) {
        match state.name() {
            Some(name) => {
                self.str(",\"state\":\"");
                self.str(name);
                self.byte(b'"');
            }
            None => self.str(",\"state\":null"),
        }
        self.number(",\"state_value\":", state.0);
        self.flag(",\"asked\":", asked);
    }
}
