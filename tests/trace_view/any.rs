// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random events: each makes one line of text, and one JSON object with the same values.

use std::collections::BTreeMap;
use std::{array, fmt};

use nvme_deep::model::event::{CommandId, Event, EventKind, Outcome, StackId, Submission};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::decode::{CommandSet, Field, fields};
use nvme_deep::nvme::opcode::Opcode;
use nvme_deep::nvme::sqe::{Parts, Sqe};
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, EventSink, TraceJson, TraceText};
use proptest::prelude::*;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::testing::random::{id, outcome, submission, what};

const SETS: [CommandSet; 3] = [CommandSet::Nvm, CommandSet::KeyValue, CommandSet::Zoned];

/// The top level of a JSON object. A duplicate key is an error.
#[derive(Debug)]
struct Once(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if all.insert(key.clone(), value).is_some() {
                return Err(Error::custom(format!("{key} twice")));
            }
        }
        Ok(Once(all))
    }
}

fn asked_of(what: &EventKind) -> Option<(&CommandId, &Submission)> {
    what.command().zip(what.submission())
}

fn timeline_of(what: &EventKind) -> Option<&Timeline> {
    match what {
        EventKind::Missed { timeline, .. } => timeline.as_ref(),
        _ => outcome_of(what)?.timeline.as_ref(),
    }
}

fn outcome_of(what: &EventKind) -> Option<&Outcome> {
    match what {
        EventKind::Complete(_, outcome) | EventKind::Command(_, _, outcome) => Some(outcome),
        _ => None,
    }
}

fn all_fields(set: CommandSet, id: &CommandId, submission: &Submission) -> Vec<Field> {
    fields(id.opcode.queue, set, &submission.sqe).collect()
}

/// A view of each kind. Boxed: they are large, and test threads have small stacks.
struct Views(Box<TraceText>, Box<TraceJson>);

impl Views {
    #[inline(never)]
    fn new() -> Self {
        let text = TraceText::new(Theme { color: false }, false, Clock::Mono, Some(StageSet::Fine));
        let json = TraceJson::new(Clock::Mono, Some(StageSet::Fine));
        Self(Box::new(text), Box::new(json))
    }

    fn show(&mut self, event: &Event, cx: &Context<'_>) -> String {
        self.0.event(event, cx);
        self.1.event(event, cx);
        let [text, json] = [self.0.take(<[u8]>::to_vec), self.1.take(<[u8]>::to_vec)];
        String::from_utf8([text, json].concat()).unwrap()
    }
}

type Parted = (CommandId, Submission, Outcome);

/// Boxed: its value tree would be large otherwise.
fn parted() -> BoxedStrategy<Parted> {
    id().prop_flat_map(|id| (Just(id), submission(id), outcome())).boxed()
}

/// A command with each part taken from one of two commands, by the bits of `mixture`.
fn mixed(two: &[Parted; 2], mixture: u16) -> EventKind {
    let of = |n: u32| &two[usize::from(mixture >> n & 1)];
    let (code, queue) = (of(0).0.opcode.code, of(1).0.opcode.queue);
    let id = CommandId {
        ctrl: of(2).0.ctrl,
        qid: of(3).0.qid,
        cid: of(4).0.cid,
        nsid: of(5).0.nsid,
        opcode: Opcode { queue, code },
    };
    let parts = Parts {
        opcode: code,
        flags: of(6).1.sqe.flags(),
        cid: id.cid,
        nsid: id.nsid,
        metadata: of(7).1.sqe.metadata(),
        cdw: array::from_fn(|n| of(if n < 2 { 8 } else { 9 }).1.sqe.cdw(10 + n)),
    };
    let submission = Submission {
        sqe: Sqe::from(parts),
        bytes: of(10).1.bytes,
        knows_submitter: of(10).1.knows_submitter,
        pid: of(11).1.pid,
        tid: of(12).1.tid,
        comm: of(13).1.comm,
        cpu: of(14).1.cpu,
        stack: StackId::default(),
        origin: of(10).1.origin,
    };
    match of(15).2.cpu % 3 {
        0 => EventKind::Submit(id, submission),
        1 => EventKind::Complete(id, of(15).2),
        _ => EventKind::Command(id, submission, of(15).2),
    }
}

const CUTS: [StageSet; 3] = [StageSet::Total, StageSet::Basic, StageSet::Fine];

proptest! {
    #[test]
    fn one_event_is_one_line_of_text(
        events in prop::collection::vec((any::<u64>(), what()), 1..8),
        set in 0..3_usize,
        stage_set in 0..3_usize,
        align in any::<bool>(),
    ) {
        let cx = Context { disk: "nvme0n1", set: SETS[set], kstack: "", kstack_complete: "", ..Context::default() };
        let clock = Clock::wall(0);
        let mut view = TraceText::new(Theme { color: false }, align, clock, Some(CUTS[stage_set]));
        for (at_ns, what) in events {
            view.event(&Event { at_ns, what }, &cx);
            let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
            let line = text.strip_suffix('\n').unwrap();
            prop_assert!(!line.contains(char::is_control), "{:?}", line);
            prop_assert!(align || !line.split('"').next().unwrap().contains("  "), "{}", line);
            if let Some((id, submission)) = asked_of(&what) {
                for Field { key, value, .. } in all_fields(cx.set, id, submission).iter().filter(|f| f.shown()) {
                    let shown = format!(", {key}={value}, ");
                    prop_assert!(line.contains(&shown), "no {} in {}", shown, line);
                }
            }
            let timeline = timeline_of(&what);
            for segment in timeline.and_then(|t| t.segments(CUTS[stage_set])).into_iter().flatten() {
                let shown = format!(", {}=", segment.run.name());
                prop_assert!(line.contains(&shown), "no {} in {}", shown, line);
            }
        }
    }

    /// A view reuses text of earlier events of the same kind. That must not change the output. Each
    /// event here takes each of its parts from one of two random commands.
    #[test]
    fn what_was_shown_before_changes_no_line(
        two in prop::array::uniform2(parted()),
        mixtures in prop::collection::vec((any::<u16>(), 0..3_usize), 2..12),
    ) {
        let mut used = Views::new();
        for (mixture, set) in mixtures {
            let cx = Context { disk: "nvme0n1", set: SETS[set], kstack: "", kstack_complete: "", ..Context::default() };
            let event = Event { at_ns: 1, what: mixed(&two, mixture) };
            prop_assert_eq!(used.show(&event, &cx), Views::new().show(&event, &cx));
        }
    }

    #[test]
    fn one_event_is_one_object(
        events in prop::collection::vec((any::<u64>(), what()), 1..8),
        set in 0..3_usize,
        stage_set in 0..3_usize,
    ) {
        let cx = Context { disk: "", set: SETS[set], kstack: "", kstack_complete: "[\"a\"]", ..Context::default() };
        let stage_set = CUTS[stage_set];
        let mut view = TraceJson::new(Clock::Rel { begin_ns: 1 << 40 }, Some(stage_set));
        for (at_ns, what) in events {
            view.event(&Event { at_ns, what }, &cx);
            let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
            prop_assert!(!text.strip_suffix('\n').unwrap().contains(char::is_control), "{:?}", text);
            let Once(all) = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&all["time_ns"], &json!(at_ns));
            prop_assert_eq!(&all["time_rel_ns"], &json!(at_ns.wrapping_sub(1 << 40) as i64));
            prop_assert_eq!(all.contains_key("fields"), asked_of(&what).is_some() || matches!(what, EventKind::AsyncEvent { .. }));
            if let Some((id, submission)) = asked_of(&what) {
                let fields = all_fields(cx.set, id, submission);
                let want: BTreeMap<_, _> = fields.iter().map(|f| (f.key, f.value)).collect();
                prop_assert_eq!(&all["fields"], &json!(want));
                let Once(once) = object_after(&text, "\"fields\":");
                prop_assert_eq!(once.len(), fields.len());
                if submission.knows_submitter {
                    prop_assert_eq!(&all["comm"], &json!(submission.comm()));
                } else {
                    prop_assert!(["pid", "tid", "comm", "cpu"].iter().all(|key| !all.contains_key(*key)) || matches!(what, EventKind::Complete(..)));
                }
            }
            if let Some(timeline) = timeline_of(&what) {
                prop_assert_eq!(&all["total_ns"], &json!(timeline.total(stage_set)));
                let segments = timeline.segments(stage_set).unwrap_or_default();
                let want = segments.iter().map(|s| json!({ "name": s.run.name(), "ns": s.ns }));
                prop_assert_eq!(&all["stages"], &Value::from_iter(want));
            }
        }
    }
}

/// The object that follows a key.
fn object_after(text: &str, key: &str) -> Once {
    let rest = text.split_once(key).unwrap().1;
    let mut values = serde_json::Deserializer::from_str(rest).into_iter();
    values.next().unwrap().unwrap()
}
