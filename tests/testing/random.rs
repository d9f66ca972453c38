// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random events, for property tests.

use nvme_deep::model::command_class::Conditions;
use nvme_deep::model::event::{
    CommandId, CompletionStatus, CtrlState, EventKind, Outcome, StackId, Submission,
};
use nvme_deep::model::origin::{Bios, Origin, Submitter};
use nvme_deep::model::point::ALL_POINTS;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::opcode::{Opcode, QueueKind};
use nvme_deep::nvme::sqe::{Parts, Sqe};
use nvme_deep::nvme::status::Status;
use proptest::prelude::*;

fn opcode() -> impl Strategy<Value = Opcode> {
    let code = prop_oneof![0_u8..=0x20, any::<u8>(), Just(0x7d), Just(0x7f)];
    let queue = prop::sample::select(&QueueKind::BOTH[..]);
    (queue, code).prop_map(|(queue, code)| Opcode { queue, code })
}

/// The identity of a command.
pub fn id() -> impl Strategy<Value = CommandId> {
    let parts = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u32>(), opcode());
    parts.prop_map(|(ctrl, qid, cid, nsid, opcode)| {
        let ctrl = ctrl.into();
        CommandId { ctrl, qid, cid, nsid, opcode }
    })
}

/// Few distinct values, so that commands repeat.
fn dword() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 2 => Just(7), 1 => any::<u32>()]
}

/// Who caused a command: mostly nobody.
fn origin() -> impl Strategy<Value = Origin> {
    let some = any::<(u64, u32, u64, u32, u32, [u8; 16])>();
    let some = some.prop_map(|(task_cgroup, io_cgroup, cgroup, pid, tid, comm)| Origin {
        task_cgroup,
        io_cgroup: io_cgroup.into(),
        submitter: Submitter { pid, tid: tid | 1, comm, cgroup },
    });
    // boxed: the stack of a test is small
    prop_oneof![3 => Just(Origin::default()), 1 => some].boxed()
}

/// The submission of a command.
pub fn submission(id: CommandId) -> impl Strategy<Value = Submission> {
    let parts = (
        prop::array::uniform6(dword()),
        any::<(u8, bool, Option<u32>, u32, u32, u16)>(),
        prop_oneof![any::<[u8; 16]>(), prop::array::uniform16(b' '..0x7f)],
        0..=16_usize,
        origin(),
    );
    let all = parts.prop_map(move |(cdw, rest, mut comm, len, origin)| {
        let (flags, metadata, bytes, pid, tid, cpu) = rest;
        comm[len..].fill(0);
        let parts =
            Parts { opcode: id.opcode.code, flags, cid: id.cid, nsid: id.nsid, metadata, cdw };
        Submission {
            sqe: Sqe::from(parts),
            bytes,
            knows_submitter: pid % 8 != 0,
            pid,
            tid,
            comm,
            cpu,
            stack: StackId::default(),
            origin,
        }
    });
    all.boxed()
}

/// The outcome of a command. Its latency and its points are independent of each other.
pub fn outcome() -> impl Strategy<Value = Outcome> {
    let verdict = prop::option::of(any::<(u64, u16, u8, u8)>());
    let point = || prop_oneof![Just(0), 1..1_u64 << 50];
    let points = prop_oneof![
        prop::array::uniform9(point()),
        prop::array::uniform9(0..1_u64 << 30).prop_map(|steps| {
            let mut at = 1;
            steps.map(|step| {
                at += step;
                at
            })
        }),
    ];
    let timeline = prop::option::of((points, 0..=ALL_POINTS));
    let parts = (
        verdict,
        prop::option::of(any::<u64>()),
        timeline,
        any::<u16>(),
        any::<u8>().prop_map(Conditions::from_bits),
        any::<u64>().prop_map(Bios::of_word),
    );
    parts.prop_map(|(verdict, latency_ns, timeline, cpu, conditions, bios)| Outcome {
        verdict: verdict.map(|(result, status, retries, flags)| CompletionStatus {
            result,
            status: Status(status & 0x7fff),
            retries,
            flags,
        }),
        latency_ns,
        timeline: timeline.map(|(points, pattern)| Timeline::new(points, pattern)),
        cpu,
        conditions,
        // only events with points before the request have bios
        bios: match timeline {
            Some((_, pattern)) if pattern & !0x1ff != 0 => bios,
            _ => Bios::default(),
        },
        stack: StackId::default(),
    })
}

fn command() -> impl Strategy<Value = EventKind> {
    let all =
        id().prop_flat_map(|id| (Just(id), submission(id), outcome(), 0..10_u8, any::<u64>()));
    all.prop_map(|(id, submission, outcome, kind, n)| match kind {
        0 => EventKind::Submit(id, submission),
        1 => EventKind::Complete(id, outcome),
        2 => EventKind::Command(id, submission, outcome),
        3 => EventKind::Unfinished { id, submission, age_ns: n },
        4 => EventKind::Sq {
            ctrl: id.ctrl,
            qid: id.qid,
            id: Some(id).filter(|_| n & 1 == 0),
            head: n as u16,
            tail: (n >> 16) as u16,
        },
        5 => EventKind::Timeout { id, age_ns: n },
        6 => EventKind::Cancel { id, age_ns: n },
        7 => EventKind::Requeue(id),
        8 => EventKind::Missed {
            id,
            submission: (n % 2 == 0).then_some(submission),
            latency_max_ns: (n % 4 < 2).then_some(n),
            timeline: outcome.timeline,
        },
        _ => EventKind::Retry { id, retries: (n % 2 == 0).then_some(n as u8) },
    })
}

/// Events of all kinds. Times and points are independent of each other.
pub fn what() -> impl Strategy<Value = EventKind> {
    let event = any::<(u16, u32)>().prop_map(|(ctrl, result)| EventKind::AsyncEvent {
        ctrl: ctrl.into(),
        event: AsyncEvent(result),
    });
    let state = (any::<u16>(), 0..9_u32, any::<bool>());
    let state = state.prop_map(|(ctrl, state, requested)| EventKind::State {
        ctrl: ctrl.into(),
        state: CtrlState(state),
        requested,
    });
    prop_oneof![8 => command(), 1 => event, 1 => state]
}
