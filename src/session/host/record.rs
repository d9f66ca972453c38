// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the ring and of the maps of bpf/host.bpf.c (bpf/include/host_abi.h).

use std::mem::size_of;

use bytemuck::{AnyBitPattern, must_cast_ref, try_pod_read_unaligned};

use crate::abi::{nd_host, nd_host_flag, nd_host_limit, nd_host_point};
use crate::model::collect::PartialCommand;
use crate::model::event::{Event, EventKind};
use crate::model::point::Point;
use crate::model::text::Text;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

/// Bytes of an NQN, with its end.
const NQN: usize = nd_host_limit::ND_HOST_NQN.0 as usize;
/// Number of times: of the points, and of what is no point.
const TIMES: usize = nd_host_point::ND_HOST_POINTS.0 as usize;

const HAS_STATUS: u32 = nd_host_flag::ND_HOST_HAS_STATUS.0;
const IS_INTERRUPT: u32 = nd_host_flag::ND_HOST_IS_INTERRUPT.0;
const IS_ABANDONED: u32 = nd_host_flag::ND_HOST_IS_ABANDONED.0;

/// The points of a command, in the order of `enum nd_host_point`.
const POINTS: [Point; TIMES - 1] = [Point::Start, Point::Issue, Point::Cqe, Point::End];

/// Key of a controller: its address, and its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, AnyBitPattern)]
#[repr(C)]
pub struct CtrlKey {
    pub address: u64,
    pub cntlid: u64,
}

/// `struct nd_host`.
#[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
#[repr(C)]
pub struct Record {
    times_ns: [u64; TIMES],
    request: u64,
    pub ctrl: CtrlKey,
    sqe: [u32; 16],
    qid: u16,
    status: u16,
    flags: u32,
}

const _: () = assert!(size_of::<Record>() == size_of::<nd_host>());
const _: () = assert!(nd_host_point::ND_HOST_POST.0 == 3);

impl Record {
    /// Reads a record; `None` if it has another size.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        try_pod_read_unaligned(bytes).ok()
    }

    /// The time of a record: its last one; `None` if it has another size.
    pub fn time_of(bytes: &[u8]) -> Option<u64> {
        let times = Self::read(bytes)?.times_ns;
        Some(times.into_iter().rfind(|ns| *ns > 0).unwrap_or(0))
    }

    /// The event of a controller with this number. `in_kernel`: its request is in the kernel, of
    /// which no addresses are shown.
    pub fn event(&self, ctrl: u32, in_kernel: bool) -> Event {
        if self.flags & IS_INTERRUPT != 0 {
            let what = EventKind::Interrupt { ctrl, vector: self.sqe[0] };
            return Event { at_ns: self.times_ns[TIMES - 1], what };
        }
        let command = self.command(ctrl, in_kernel);
        match self.flags & IS_ABANDONED {
            0 => command.finished(),
            _ => command.unfinished(self.times_ns[TIMES - 1]),
        }
    }

    /// What is known of a command.
    pub fn command(&self, ctrl: u32, in_kernel: bool) -> PartialCommand {
        let sqe = Sqe::from(must_cast_ref::<_, [u8; 64]>(&self.sqe));
        let request = if in_kernel { 0 } else { self.request };
        let mut command = PartialCommand::of_target(ctrl, self.qid, sqe, request);
        for (point, ns) in POINTS.into_iter().zip(self.times_ns).filter(|(_, ns)| *ns > 0) {
            command.times.add(point, ns);
        }
        if self.flags & HAS_STATUS != 0 {
            command.set_status(Status(self.status));
        }
        command
    }
}

impl CtrlKey {
    /// The bytes of the key in the map.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.address, self.cntlid].map(u64::to_ne_bytes).concat()
    }
}

/// The NQN in an entry of the map of controllers; `None` if it has none.
pub fn nqn(bytes: &[u8]) -> Option<Text> {
    let bytes = bytes.get(..NQN)?;
    let end = bytes.iter().position(|&b| b == 0)?;
    let text = Text::from_bytes(&bytes[..end]);
    (!text.is_empty()).then_some(text)
}
