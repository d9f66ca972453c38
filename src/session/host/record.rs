// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the ring and of the maps of bpf/host.bpf.c (bpf/include/host_abi.h).

use std::mem::size_of;

use bytemuck::{AnyBitPattern, must_cast_ref, try_pod_read_unaligned};

use crate::abi::{nd_host, nd_host_flag, nd_host_limit};
use crate::model::target::{HOST_POINTS, HostCommand, HostEvent, HostPoint, HostTimes};
use crate::model::text::Text;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::QueueKind;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

/// Bytes of an NQN, with its end.
const NQN: usize = nd_host_limit::ND_HOST_NQN.0 as usize;

const HAS_STATUS: u32 = nd_host_flag::ND_HOST_HAS_STATUS.0;
const IS_INTERRUPT: u32 = nd_host_flag::ND_HOST_IS_INTERRUPT.0;
const IS_ABANDONED: u32 = nd_host_flag::ND_HOST_IS_ABANDONED.0;

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
    points_ns: [u64; HOST_POINTS],
    request: u64,
    pub ctrl: CtrlKey,
    sqe: [u32; 16],
    qid: u16,
    status: u16,
    flags: u32,
}

const _: () = assert!(size_of::<Record>() == size_of::<nd_host>());

impl Record {
    /// Reads a record; `None` if it has another size.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        try_pod_read_unaligned(bytes).ok()
    }

    /// The time of a record: its last point; `None` if it has another size.
    pub fn time_of(bytes: &[u8]) -> Option<u64> {
        let points = Self::read(bytes)?.points_ns;
        Some(points.into_iter().rfind(|ns| *ns > 0).unwrap_or(0))
    }

    /// The event of a controller with this number. `in_kernel`: its request is in the kernel, of
    /// which no addresses are shown.
    pub fn event(&self, ctrl: u32, in_kernel: bool) -> HostEvent {
        if self.flags & IS_INTERRUPT != 0 {
            let at_ns = self.points_ns[HostPoint::Interrupt as usize];
            return HostEvent::Interrupt { ctrl, vector: self.sqe[0], at_ns };
        }
        let command = self.command(ctrl, in_kernel);
        match self.flags & IS_ABANDONED {
            0 => HostEvent::Command(command),
            _ => HostEvent::Unfinished(command),
        }
    }

    /// What is known of a command.
    pub fn command(&self, ctrl: u32, in_kernel: bool) -> HostCommand {
        let sqe = Sqe::from(must_cast_ref::<_, [u8; 64]>(&self.sqe));
        let queue = if self.qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let found = blocks(queue, CommandSet::Nvm, &sqe);
        let mut times = HostTimes::default();
        for (point, ns) in HostPoint::ALL.into_iter().zip(self.points_ns) {
            if ns > 0 {
                times.set(point, ns);
            }
        }
        HostCommand {
            ctrl,
            qid: Some(self.qid),
            cid: Some(sqe.cid()),
            nsid: Some(sqe.nsid()),
            code: Some(sqe.opcode()),
            slba: found.map(|b| b.slba),
            nlb: found.map(|b| b.nlb),
            request: (!in_kernel).then_some(self.request),
            status: (self.flags & HAS_STATUS != 0).then_some(Status(self.status)),
            times,
        }
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
