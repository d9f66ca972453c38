//! The catalog of hooks: const data. One row per BPF program; the order is `enum nd_hook` of
//! bpf/include/abi.h, so that a row's number is its hit counter.
//!
//! Kinds in use lose nothing: fentry, fexit and tp_btf are guarded against re-entry program by
//! program, and what that skips is counted by the kernel (`recursion_misses`). kprobe and classic
//! tracepoint programs share one guard per CPU and skip whole interrupts in silence.

use serde::Serialize;

use crate::path::milestone::Milestone;
use crate::path::stage::Cut;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachKind {
    /// Function entry by trampoline.
    Fentry,
    /// Function exit by trampoline.
    Fexit,
    /// Tracepoint with typed arguments.
    TpBtf,
}

impl AttachKind {
    /// As libbpf's section names spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Fexit => "fexit",
            Self::TpBtf => "tp_btf",
        }
    }
}

/// Where the target of a hook lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The block layer: always in the kernel image.
    Block,
    /// nvme_core.ko, or the kernel image where it is built in.
    NvmeCore,
    /// nvme.ko (the PCI driver), or the kernel image.
    NvmePci,
}

/// One program of the BPF object.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// The program's name in the object.
    pub program: &'static str,
    /// How it is attached.
    pub kind: AttachKind,
    /// The function or tracepoint.
    pub target: &'static str,
    /// Where that is.
    pub home: Home,
    /// The point that it observes; `None` for one that only keeps the books.
    pub milestone: Option<Milestone>,
    /// The cuts that want it.
    pub cuts: &'static [Cut],
}

const ALL_CUTS: &[Cut] = &[Cut::Total, Cut::Cheap, Cut::Fine];
const STAGES: &[Cut] = &[Cut::Cheap, Cut::Fine];
const FINE: &[Cut] = &[Cut::Fine];

const fn hook(
    program: &'static str,
    kind: AttachKind,
    target: &'static str,
    home: Home,
    milestone: Option<Milestone>,
    cuts: &'static [Cut],
) -> Hook {
    Hook {
        program,
        kind,
        target,
        home,
        milestone,
        cuts,
    }
}

/// Every hook, by number.
pub const CATALOG: [Hook; 13] = {
    use AttachKind::{Fentry, Fexit, TpBtf};
    use Home::{Block, NvmeCore, NvmePci};
    use Milestone::{Complete, Cqe, Doorbell, End, Irq, Issue, SetupIn, SetupOut, Start};
    [
        hook(
            "start_btf",
            TpBtf,
            "block_io_start",
            Block,
            Some(Start),
            STAGES,
        ),
        hook(
            "setup_in_fentry",
            Fentry,
            "nvme_setup_cmd",
            NvmeCore,
            Some(SetupIn),
            FINE,
        ),
        hook(
            "setup_out_btf",
            TpBtf,
            "nvme_setup_cmd",
            NvmeCore,
            Some(SetupOut),
            ALL_CUTS,
        ),
        hook(
            "issue_btf",
            TpBtf,
            "block_rq_issue",
            Block,
            Some(Issue),
            FINE,
        ),
        hook(
            "queue_rq_fexit",
            Fexit,
            "nvme_queue_rq",
            NvmePci,
            Some(Doorbell),
            STAGES,
        ),
        hook(
            "queue_rqs_fexit",
            Fexit,
            "nvme_queue_rqs",
            NvmePci,
            Some(Doorbell),
            STAGES,
        ),
        hook(
            "commit_rqs_fexit",
            Fexit,
            "nvme_commit_rqs",
            NvmePci,
            Some(Doorbell),
            STAGES,
        ),
        hook(
            "irq_in_fentry",
            Fentry,
            "nvme_irq",
            NvmePci,
            Some(Irq),
            FINE,
        ),
        hook("irq_out_fexit", Fexit, "nvme_irq", NvmePci, Some(Irq), FINE),
        hook("cqe_btf", TpBtf, "nvme_sq", NvmeCore, Some(Cqe), STAGES),
        hook(
            "complete_btf",
            TpBtf,
            "nvme_complete_rq",
            NvmeCore,
            Some(Complete),
            ALL_CUTS,
        ),
        hook(
            "end_btf",
            TpBtf,
            "block_rq_complete",
            Block,
            Some(End),
            FINE,
        ),
        hook(
            "requeue_btf",
            TpBtf,
            "block_rq_requeue",
            Block,
            None,
            ALL_CUTS,
        ),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_a_hook_and_every_program_a_name_of_its_own() {
        for point in Milestone::ALL {
            assert!(
                CATALOG.iter().any(|h| h.milestone == Some(point)),
                "{point:?}"
            );
        }
        let mut names: Vec<_> = CATALOG.iter().map(|h| h.program).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOG.len());
    }
}
