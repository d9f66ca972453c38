// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random events: each makes one line of text, and one JSON object with the same values.

use std::collections::BTreeMap;

use nvme_deep::model::event::{CommandId, Event, EventKind, Outcome, Submission};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::decode::{CommandSet, Field, fields};
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::EventBuilder;
use crate::testing::random::what;

const SETS: [CommandSet; 3] = [CommandSet::Nvm, CommandSet::KeyValue, CommandSet::Zoned];

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

const CUTS: [StageSet; 3] = [StageSet::Total, StageSet::Basic, StageSet::Fine];

proptest! {
    #[test]
    fn one_event_is_one_long_line(
        events in prop::collection::vec((any::<u64>(), what()), 1..8),
        set in 0..3_usize,
        stage_set in 0..3_usize,
    ) {
        let cx = Context { disk: "nvme0n1", set: SETS[set], ..Context::default() };
        let theme = Theme { color: false };
        let mut view = TraceLines::long(theme, Clock::wall(0), Some(CUTS[stage_set]));
        for (at_ns, what) in events {
            view.event(&Event { at_ns, what }, &cx);
            let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
            let line = text.strip_suffix('\n').unwrap();
            prop_assert!(!line.contains(char::is_control), "{:?}", line);
            prop_assert!(!line.split('"').next().unwrap().contains("  "), "{}", line);
            if let Some((id, submission)) = asked_of(&what) {
                for Field { key, value, .. } in all_fields(cx.set, id, submission).iter().filter(|f| f.shown()) {
                    let shown = format!(", {key}={value}, ");
                    prop_assert!(format!("{line}, ").contains(&shown), "no {} in {}", shown, line);
                }
            }
            let timeline = timeline_of(&what);
            for segment in timeline.and_then(|t| t.segments(CUTS[stage_set])).into_iter().flatten() {
                let shown = format!(", {}=", segment.run.name());
                prop_assert!(line.contains(&shown), "no {} in {}", shown, line);
            }
        }
    }

    /// Whatever the names are: nothing but the lines below it begins with a blank.
    #[test]
    fn a_command_is_one_line_of_columns(
        events in prop::collection::vec((0..1_u64 << 50, what()), 1..8),
        width in 80..121_usize,
        disk in "\\PC{0,40}",
        has_submitters in any::<bool>(),
    ) {
        let cx = Context { disk: &disk, has_submitters, ..Context::default() };
        let theme = Theme { color: false };
        let mut view = TraceLines::columns(theme, Clock::wall(0), Some(StageSet::Full), None, width);
        view.event(&EventBuilder::read().command(), &cx);
        view.take(<[u8]>::len);
        for (at_ns, what) in events {
            view.event(&Event { at_ns, what }, &cx);
            let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
            prop_assert_eq!(text.lines().filter(|line| !line.starts_with("    ")).count(), 1, "{}", text);
            prop_assert!(!text.replace('\n', "").contains(char::is_control), "{:?}", text);
        }
    }

    #[test]
    fn one_event_is_one_object(
        events in prop::collection::vec((any::<u64>(), what()), 1..8),
        set in 0..3_usize,
        stage_set in 0..3_usize,
    ) {
        let cx = Context { set: SETS[set], kstack_complete: "[\"a\"]", ..Context::default() };
        let stage_set = CUTS[stage_set];
        let mut view = TraceLines::json(Clock::Rel { begin_ns: 1 << 40 }, Some(stage_set));
        for (at_ns, what) in events {
            view.event(&Event { at_ns, what }, &cx);
            let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
            prop_assert!(!text.strip_suffix('\n').unwrap().contains(char::is_control), "{:?}", text);
            let all: Value = serde_json::from_str(&text).unwrap();
            // the parser leaves out a key that comes twice
            prop_assert_eq!(all.to_string().len(), text.trim_end().len(), "{}", text);
            prop_assert_eq!(&all["time_ns"], &json!(at_ns));
            prop_assert_eq!(&all["time_rel_ns"], &json!(at_ns.wrapping_sub(1 << 40) as i64));
            prop_assert_eq!(all.get("fields").is_some(), asked_of(&what).is_some() || matches!(what, EventKind::AsyncEvent { .. }));
            if let Some((id, submission)) = asked_of(&what) {
                let fields = all_fields(cx.set, id, submission);
                let want: BTreeMap<_, _> = fields.iter().map(|f| (f.key, f.value)).collect();
                prop_assert_eq!(&all["fields"], &json!(want));
                if submission.knows_submitter {
                    prop_assert_eq!(&all["comm"], &json!(submission.comm()));
                } else {
                    prop_assert!(["pid", "tid", "comm", "cpu"].iter().all(|key| all.get(*key).is_none()) || matches!(what, EventKind::Complete(..)));
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
