// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample events, and functions that render them.

use crate::testing::EventBuilder;
use nvme_deep::model::event::{CommandId, Event, EventKind, Outcome, Submission};
use nvme_deep::model::point::Point;
use nvme_deep::model::stage::StageSet;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};

/// The context of an I/O command of the first namespace.
pub const DISK: Context<'_> = Context {
    disk: "nvme0n1",
    set: CommandSet::Nvm,
    kstack: "",
    kstack_complete: "",
    cgroups: None,
    has_submitters: false,
    is_second_line: false,
};
/// The context of a command without a disk.
pub const NONE: Context<'_> = Context { disk: "", ..DISK };

/// A command that takes 85.2 us.
pub fn made(queue: QueueKind, code: u8) -> EventBuilder {
    EventBuilder::read()
        .opcode(queue, code)
        .qid(u16::from(queue == QueueKind::Io) * 3)
        .cid(4544)
        .submitter(1234, 1234, b"fio")
        .cpus(1, 0)
        .latency(85_200)
}

/// The id of a command.
pub fn id(queue: QueueKind, code: u8) -> CommandId {
    made(queue, code).id
}

/// A read.
pub fn read() -> CommandId {
    id(QueueKind::Io, 2)
}

/// A submission by fio.
pub fn submission(id: &CommandId, cdw: [u32; 6], bytes: Option<u32>) -> Submission {
    let made = made(id.opcode.queue, id.opcode.code).nsid(id.nsid);
    made.cdw(cdw).bytes(bytes).submission()
}

/// A submission of a read of 4 KiB.
pub fn asked_read() -> Submission {
    submission(&read(), [2048, 0, 7, 0, 0, 0], Some(4096))
}

/// An outcome with this status, after 85.2 us.
pub fn outcome(status: u16) -> Outcome {
    made(QueueKind::Io, 2).status(status).outcome
}

/// An outcome with success and with points.
pub fn with_stages() -> Outcome {
    let points = [
        (Point::Start, 98_800),
        (Point::SetupOut, 100_000),
        (Point::Doorbell, 103_000),
        (Point::Cqe, 183_200),
        (Point::Complete, 185_200),
    ];
    made(QueueKind::Io, 2).points(&points).outcome
}

/// An event at a fixed time.
pub fn event(what: EventKind) -> Event {
    Event { at_ns: 12_345_678_901_234, what }
}

/// The text of an event, without the fixed time and the newline.
pub fn text_in(what: EventKind, cx: &Context<'_>) -> String {
    let theme = Theme { color: false };
    let mut view = TraceLines::long(theme, Clock::Mono, Some(StageSet::Basic));
    view.event(&event(what), cx);
    let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
    let line = text.replacen("12345678901234 ", "", 1);
    line.strip_suffix('\n').unwrap().to_owned()
}

/// The same, with a disk.
pub fn text(what: EventKind) -> String {
    text_in(what, &DISK)
}

/// The JSON of an event: its type, and what follows the fields that are always the same.
pub fn json_in(what: EventKind, cx: &Context<'_>) -> String {
    let mut view = TraceLines::json(Clock::Mono, Some(StageSet::Basic));
    view.event(&event(what), cx);
    let text = String::from_utf8(view.take(<[u8]>::to_vec)).unwrap();
    let _: serde_json::Value = serde_json::from_str(&text).unwrap();
    let same = r#","schema_version":2,"time_ns":12345678901234,"ctrl":"nvme0","#;
    let (kind, rest) = text.split_once(same).unwrap();
    let kind = kind.strip_prefix(r#"{"type":"#).unwrap();
    format!("{kind} {}", rest.strip_suffix("}\n").unwrap())
}
