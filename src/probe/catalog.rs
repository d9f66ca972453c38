// SPDX-License-Identifier: MIT OR Apache-2.0
//! The catalog of hooks: constant data. One row per BPF program. A row and its hit
//! counter have the same number: build.rs makes `enum nd_hook` of the rows. Also the attach methods of each point, best first.
//!
//! Accuracy decides the order. Trampolines (fentry, fexit, tp_btf) and raw tracepoints have a
//! re-entry guard per program, and the kernel counts the skipped runs (`recursion_misses`). kprobe
//! and classic tracepoint programs share one guard per CPU (`bpf_prog_active`): an interrupt that
//! comes while any of them runs, of this tool or another, is not observed, and before 6.7 not even
//! counted.

use super::facts::KernelFacts;
use crate::model::point::Point;
use Point::{
    Bio, Complete, Cqe, Doorbell, End, Freeze, Iocost, Irq, Issue, SetupIn, SetupOut, Start,
    Submit, Tag, Wbt, Zone,
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachKind {
    /// Function entry by trampoline.
    Fentry,
    /// Function exit by trampoline.
    Fexit,
    /// Tracepoint with typed arguments.
    TpBtf,
    /// Tracepoint with raw arguments.
    RawTp,
    /// Function entry by kprobe.
    Kprobe,
    /// Function exit by kprobe.
    Kretprobe,
    /// Classic tracepoint, with the data that the event prints.
    Tracepoint,
}

/// A group of kinds that are used together. `--attach` selects one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// fentry, fexit, tp_btf. Needs BTF of the driver
    Fentry,
    /// Raw tracepoints. No doorbell, no interrupt
    #[value(name = "rawtp")]
    RawTp,
    /// kprobes and kretprobes. May miss events under load
    Kprobe,
    /// Classic tracepoints: one interval, no stages. May miss completions under load
    Tracepoint,
}

impl AttachKind {
    /// The name in libbpf's section names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Fexit => "fexit",
            Self::TpBtf => "tp_btf",
            Self::RawTp => "raw_tp",
            Self::Kprobe => "kprobe",
            Self::Kretprobe => "kretprobe",
            Self::Tracepoint => "tp",
        }
    }

    /// The method of this kind.
    pub const fn method(self) -> Method {
        match self {
            Self::Fentry | Self::Fexit | Self::TpBtf => Method::Fentry,
            Self::RawTp => Method::RawTp,
            Self::Kprobe | Self::Kretprobe => Method::Kprobe,
            Self::Tracepoint => Method::Tracepoint,
        }
    }
}

impl Method {
    /// The name in `--attach`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::RawTp => "rawtp",
            Self::Kprobe => "kprobe",
            Self::Tracepoint => "tracepoint",
        }
    }

    /// Whether its programs may be skipped together with others, so that events are lost
    /// without being counted.
    pub const fn loses(self) -> bool {
        matches!(self, Self::Kprobe | Self::Tracepoint)
    }
}

/// The part of the kernel that contains a hook's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The block layer and other parts that are always in the kernel image.
    Block,
    /// nvme_core.ko, or the kernel image where it is built in.
    NvmeCore,
    /// nvme.ko (the PCI driver), or the kernel image.
    NvmePci,
}

impl Home {
    /// All.
    pub const ALL: [Self; 3] = [Self::Block, Self::NvmeCore, Self::NvmePci];

    /// The module; `None` for the kernel image.
    pub const fn module(self) -> Option<&'static str> {
        match self {
            Self::Block => None,
            Self::NvmeCore => Some("nvme_core"),
            Self::NvmePci => Some("nvme"),
        }
    }
}

/// What a hook is attached to: a function or a tracepoint of this kernel. Probes in other processes
/// (uprobes, USDT probes: session/host) are not planned: their executable decides, not the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    home: Home,
    name: &'static str,
}

impl Target {
    /// The name of the function or tracepoint.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The part of the kernel that contains it.
    pub const fn home(self) -> Home {
        self.home
    }
}

/// A program of the BPF objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// The program's name in the object.
    pub program: &'static str,
    /// How it is attached.
    pub kind: AttachKind,
    /// What it is attached to.
    pub target: Target,
    /// What it observes.
    pub role: Role,
}

macro_rules! hooks {
    ($($program:ident $kind:ident $target:ident $home:ident $role:expr;)*) => {
        [$(Hook {
            program: stringify!($program),
            kind: AttachKind::$kind,
            target: Target {
                home: Home::$home,
                name: stringify!($target),
            },
            role: $role,
        }),*]
    };
}

/// Every hook, by number.
pub const CATALOG: &[Hook] = &hooks! {
    start_btf             TpBtf      block_io_start                 Block    Role::Point(Start);
    start_raw             RawTp      block_io_start                 Block    Role::Point(Start);
    setup_in_fentry       Fentry     nvme_setup_cmd                 NvmeCore Role::Point(SetupIn);
    setup_in_kprobe       Kprobe     nvme_setup_cmd                 NvmeCore Role::Point(SetupIn);
    setup_out_btf         TpBtf      nvme_setup_cmd                 NvmeCore Role::Point(SetupOut);
    setup_out_raw         RawTp      nvme_setup_cmd                 NvmeCore Role::Point(SetupOut);
    setup_out_kretprobe   Kretprobe  nvme_setup_cmd                 NvmeCore Role::Point(SetupOut);
    issue_btf             TpBtf      block_rq_issue                 Block    Role::Point(Issue);
    issue_raw             RawTp      block_rq_issue                 Block    Role::Point(Issue);
    issue_kprobe          Kprobe     blk_mq_start_request           Block    Role::Point(Issue);
    queue_rq_fexit        Fexit      nvme_queue_rq                  NvmePci  Role::Point(Doorbell);
    queue_rqs_fexit       Fexit      nvme_queue_rqs                 NvmePci  Role::Point(Doorbell);
    commit_rqs_fexit      Fexit      nvme_commit_rqs                NvmePci  Role::Point(Doorbell);
    queue_rq_kprobe       Kprobe     nvme_queue_rq                  NvmePci  Role::Point(Doorbell);
    queue_rq_kretprobe    Kretprobe  nvme_queue_rq                  NvmePci  Role::Point(Doorbell);
    queue_rqs_kprobe      Kprobe     nvme_queue_rqs                 NvmePci  Role::Point(Doorbell);
    queue_rqs_kretprobe   Kretprobe  nvme_queue_rqs                 NvmePci  Role::Point(Doorbell);
    commit_rqs_kprobe     Kprobe     nvme_commit_rqs                NvmePci  Role::Point(Doorbell);
    commit_rqs_kretprobe  Kretprobe  nvme_commit_rqs                NvmePci  Role::Point(Doorbell);
    irq_in_fentry         Fentry     nvme_irq                       NvmePci  Role::Point(Irq);
    irq_out_fexit         Fexit      nvme_irq                       NvmePci  Role::Point(Irq);
    irq_in_kprobe         Kprobe     nvme_irq                       NvmePci  Role::Point(Irq);
    irq_out_kretprobe     Kretprobe  nvme_irq                       NvmePci  Role::Point(Irq);
    cqe_btf               TpBtf      nvme_sq                        NvmeCore Role::Point(Cqe);
    cqe_raw               RawTp      nvme_sq                        NvmeCore Role::Point(Cqe);
    cqe_kprobe            Kprobe     blk_mq_complete_request_remote Block    Role::Point(Cqe);
    complete_btf          TpBtf      nvme_complete_rq               NvmeCore Role::Point(Complete);
    complete_raw          RawTp      nvme_complete_rq               NvmeCore Role::Point(Complete);
    complete_kprobe       Kprobe     nvme_complete_rq               NvmeCore Role::Point(Complete);
    complete_batch_kprobe Kprobe     nvme_complete_batch_req        NvmeCore Role::Point(Complete);
    end_btf               TpBtf      block_rq_complete              Block    Role::Point(End);
    end_raw               RawTp      block_rq_complete              Block    Role::Point(End);
    requeue_btf           TpBtf      block_rq_requeue               Block    Role::Requeue;
    requeue_raw           RawTp      block_rq_requeue               Block    Role::Requeue;
    requeue_kprobe        Kprobe     blk_mq_requeue_request         Block    Role::Requeue;
    cqe_second              TpBtf      nvme_sq                        NvmeCore Role::Point(Cqe);
    sq_btf                TpBtf      nvme_sq                        NvmeCore Role::SqHead;
    sq_raw                RawTp      nvme_sq                        NvmeCore Role::SqHead;
    async_btf             TpBtf      nvme_async_event               NvmeCore Role::AsyncEvent;
    async_raw             RawTp      nvme_async_event               NvmeCore Role::AsyncEvent;
    timeout_fentry        Fentry     nvme_timeout                   NvmePci  Role::Timeout;
    timeout_kprobe        Kprobe     nvme_timeout                   NvmePci  Role::Timeout;
    cancel_fentry         Fentry     nvme_cancel_request            NvmeCore Role::Cancel;
    cancel_kprobe         Kprobe     nvme_cancel_request            NvmeCore Role::Cancel;
    state_fexit           Fexit      nvme_change_ctrl_state         NvmeCore Role::State;
    state_kprobe          Kprobe     nvme_change_ctrl_state         NvmeCore Role::State;
    split_btf             TpBtf      block_split                    Block    Role::Split;
    bounce_btf            TpBtf      swiotlb_bounced                Block    Role::Bounce;
    map_btf               TpBtf      map                            Block    Role::IommuMap;
    unmap_btf             TpBtf      unmap                          Block    Role::IommuUnmap;
    start_fentry          Fentry     blk_account_io_start           Block    Role::Point(Start);
    start_bio_btf         TpBtf      block_getrq                    Block    Role::Point(Start);
    bio_queued_btf        TpBtf      block_bio_queue                Block    Role::Point(Bio);
    bio_split_btf         TpBtf      block_split                    Block    Role::Point(Bio);
    bio_back_btf          TpBtf      block_bio_backmerge            Block    Role::Point(Bio);
    bio_front_btf         TpBtf      block_bio_frontmerge           Block    Role::Point(Bio);
    bio_done_btf          TpBtf      block_bio_complete             Block    Role::Point(Bio);
    throttle_fentry       Fentry     __blk_throtl_bio               Block    Role::Point(Submit);
    limits_in_fentry      Fentry     blk_throtl_bio                 Block    Role::Point(Submit);
    limits_out_fexit      Fexit      blk_throtl_bio                 Block    Role::Point(Submit);
    freeze_in_fentry      Fentry     __bio_queue_enter              Block    Role::Point(Freeze);
    freeze_out_fexit      Fexit      __bio_queue_enter              Block    Role::Point(Freeze);
    enter_in_fentry       Fentry     blk_queue_enter                Block    Role::Point(Freeze);
    enter_out_fexit       Fexit      blk_queue_enter                Block    Role::Point(Freeze);
    zone_in_fentry        Fentry     blk_zone_plug_bio              Block    Role::Point(Zone);
    zone_out_fexit        Fexit      blk_zone_plug_bio              Block    Role::Point(Zone);
    iocost_in_fentry      Fentry     ioc_rqos_throttle              Block    Role::Point(Iocost);
    iocost_out_fexit      Fexit      ioc_rqos_throttle              Block    Role::Point(Iocost);
    wbt_in_fentry         Fentry     rq_qos_wait                    Block    Role::Point(Wbt);
    wbt_out_fexit         Fexit      rq_qos_wait                    Block    Role::Point(Wbt);
    tag_wait_btf          TpBtf      block_rq_tag_wait              Block    Role::Point(Tag);
    tag_fexit             Fexit      __blk_mq_get_tag               Block    Role::Point(Tag);
    submit_btf            TpBtf      block_bio_queue                Block    Role::Submitter;
    submit_split_btf      TpBtf      block_split                    Block    Role::Submitter;
    submit_done_btf       TpBtf      block_bio_complete             Block    Role::Submitter;
    submit_limit_fentry   Fentry     __blk_throtl_bio               Block    Role::Submitter;
    submit_limit_old_fentry Fentry   blk_throtl_bio                 Block    Role::Submitter;
    setup_out_tp          Tracepoint nvme_setup_cmd                 NvmeCore Role::Point(SetupOut);
    complete_tp           Tracepoint nvme_complete_rq               NvmeCore Role::Point(Complete);
    sq_tp                 Tracepoint nvme_sq                        NvmeCore Role::SqHead;
    async_tp              Tracepoint nvme_async_event               NvmeCore Role::AsyncEvent;
};

/// A method for a point. All its programs are attached, or it is not used.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it observes.
    pub role: Role,
    /// The method of its programs.
    pub method: Method,
    /// Programs, by name.
    pub programs: &'static [&'static str],
}

const fn candidate(role: Role, method: Method, programs: &'static [&'static str]) -> Candidate {
    Candidate { role, method, programs }
}

/// All methods for all points, by point, best first.
pub const CANDIDATES: &[Candidate] = &[
    candidate(Role::Point(Submit), Method::Fentry, &["throttle_fentry"]),
    candidate(Role::Point(Submit), Method::Fentry, &["limits_in_fentry", "limits_out_fexit"]),
    candidate(
        Role::Point(Bio),
        Method::Fentry,
        &["bio_queued_btf", "bio_split_btf", "bio_back_btf", "bio_front_btf", "bio_done_btf"],
    ),
    candidate(Role::Point(Freeze), Method::Fentry, &["freeze_in_fentry", "freeze_out_fexit"]),
    candidate(Role::Point(Freeze), Method::Fentry, &["enter_in_fentry", "enter_out_fexit"]),
    candidate(Role::Point(Zone), Method::Fentry, &["zone_in_fentry", "zone_out_fexit"]),
    candidate(Role::Point(Iocost), Method::Fentry, &["iocost_in_fentry", "iocost_out_fexit"]),
    candidate(Role::Point(Wbt), Method::Fentry, &["wbt_in_fentry", "wbt_out_fexit"]),
    candidate(Role::Point(Tag), Method::Fentry, &["tag_wait_btf"]),
    candidate(Role::Point(Tag), Method::Fentry, &["tag_fexit"]),
    candidate(Role::Point(Start), Method::Fentry, &["start_btf"]),
    candidate(Role::Point(Start), Method::Fentry, &["start_fentry"]),
    candidate(Role::Point(Start), Method::Fentry, &[START_OF_BIOS]),
    candidate(Role::Point(Start), Method::RawTp, &["start_raw"]),
    candidate(Role::Point(SetupIn), Method::Fentry, &["setup_in_fentry"]),
    candidate(Role::Point(SetupIn), Method::Kprobe, &["setup_in_kprobe"]),
    candidate(Role::Point(SetupOut), Method::Fentry, &["setup_out_btf"]),
    candidate(Role::Point(SetupOut), Method::RawTp, &["setup_out_raw"]),
    // a kretprobe has no arguments: the kprobe at the entry keeps them
    candidate(Role::Point(SetupOut), Method::Kprobe, &["setup_in_kprobe", "setup_out_kretprobe"]),
    candidate(Role::Point(SetupOut), Method::Tracepoint, &["setup_out_tp"]),
    candidate(Role::Point(Issue), Method::Fentry, &["issue_btf"]),
    candidate(Role::Point(Issue), Method::RawTp, &["issue_raw"]),
    candidate(Role::Point(Issue), Method::Kprobe, &["issue_kprobe"]),
    candidate(
        Role::Point(Doorbell),
        Method::Fentry,
        &["queue_rq_fexit", "queue_rqs_fexit", "commit_rqs_fexit"],
    ),
    candidate(
        Role::Point(Doorbell),
        Method::Kprobe,
        &[
            "queue_rq_kprobe",
            "queue_rq_kretprobe",
            "queue_rqs_kprobe",
            "queue_rqs_kretprobe",
            "commit_rqs_kprobe",
            "commit_rqs_kretprobe",
        ],
    ),
    candidate(Role::Point(Irq), Method::Fentry, &["irq_in_fentry", "irq_out_fexit"]),
    candidate(Role::Point(Irq), Method::Kprobe, &["irq_in_kprobe", "irq_out_kretprobe"]),
    candidate(Role::Point(Cqe), Method::Fentry, &["cqe_btf", "cqe_second"]),
    candidate(Role::Point(Cqe), Method::RawTp, &["cqe_raw"]),
    candidate(Role::Point(Cqe), Method::Kprobe, &["cqe_kprobe"]),
    candidate(Role::Point(Complete), Method::Fentry, &["complete_btf"]),
    candidate(Role::Point(Complete), Method::RawTp, &["complete_raw"]),
    candidate(Role::Point(Complete), Method::Kprobe, &["complete_kprobe", "complete_batch_kprobe"]),
    candidate(Role::Point(Complete), Method::Tracepoint, &["complete_tp"]),
    candidate(Role::Point(End), Method::Fentry, &["end_btf"]),
    candidate(Role::Point(End), Method::RawTp, &["end_raw"]),
];

/// The programs for submitters, with __blk_throtl_bio, or blk_throtl_bio before 5.18.
const SUBMITTERS: [&str; 4] =
    ["submit_btf", "submit_split_btf", "submit_done_btf", "submit_limit_fentry"];
const SUBMITTERS_OLD: [&str; 4] =
    ["submit_btf", "submit_split_btf", "submit_done_btf", "submit_limit_old_fentry"];

/// The methods for roles that are not points, by role, best first.
pub const EVENT_CANDIDATES: &[Candidate] = &[
    candidate(Role::Requeue, Method::Fentry, &["requeue_btf"]),
    candidate(Role::Requeue, Method::RawTp, &["requeue_raw"]),
    candidate(Role::Requeue, Method::Kprobe, &["requeue_kprobe"]),
    candidate(Role::Timeout, Method::Fentry, &["timeout_fentry"]),
    candidate(Role::Timeout, Method::Kprobe, &["timeout_kprobe"]),
    candidate(Role::Cancel, Method::Fentry, &["cancel_fentry"]),
    candidate(Role::Cancel, Method::Kprobe, &["cancel_kprobe"]),
    candidate(Role::State, Method::Fentry, &["state_fexit"]),
    candidate(Role::State, Method::Kprobe, &["state_kprobe"]),
    candidate(Role::SqHead, Method::Fentry, &["sq_btf"]),
    candidate(Role::SqHead, Method::RawTp, &["sq_raw"]),
    candidate(Role::SqHead, Method::Tracepoint, &["sq_tp"]),
    candidate(Role::AsyncEvent, Method::Fentry, &["async_btf"]),
    candidate(Role::AsyncEvent, Method::RawTp, &["async_raw"]),
    candidate(Role::AsyncEvent, Method::Tracepoint, &["async_tp"]),
    candidate(Role::Split, Method::Fentry, &["split_btf"]),
    candidate(Role::Bounce, Method::Fentry, &["bounce_btf"]),
    candidate(Role::IommuMap, Method::Fentry, &["map_btf"]),
    candidate(Role::IommuUnmap, Method::Fentry, &["unmap_btf"]),
    candidate(Role::Submitter, Method::Fentry, &SUBMITTERS),
    candidate(Role::Submitter, Method::Fentry, &SUBMITTERS_OLD),
    // without blk-throttle no kernel thread queues the bios of others
    candidate(
        Role::Submitter,
        Method::Fentry,
        &["submit_btf", "submit_split_btf", "submit_done_btf"],
    ),
];

/// Candidates for the start with the full stage set alone: other runs have the request's own time.
pub const STARTS_OF_WAITS: [&str; 2] = ["start_fentry", START_OF_BIOS];

/// The start of a request by its bio.
pub const START_OF_BIOS: &str = "start_bio_btf";

/// Functions that a kernel may lack without a gap in the point, because all commands then pass
/// through the others. `nvme_queue_rqs` and `nvme_complete_batch_req` exist since 5.16.
pub const OPTIONAL_TARGETS: &[&str] = &["nvme_queue_rqs", "nvme_complete_batch_req"];

impl Hook {
    /// Whether this is a second instance, for the events at which the kernel skips the first.
    pub fn is_second(&self) -> bool {
        self.program.ends_with("_second")
    }

    /// The number of its second instance, or of the first if this is the second.
    pub fn other(&self) -> Option<usize> {
        let same = |h: &Self| {
            (h.kind, h.target, h.role) == (self.kind, self.target, self.role)
                && h.is_second() != self.is_second()
        };
        CATALOG.iter().position(same)
    }
}

/// The number of a program; `None` if there is no such program.
pub fn number_of(program: &str) -> Option<usize> {
    CATALOG.iter().position(|h| h.program == program)
}

/// What a hook observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A point of a command's life.
    Point(Point),
    /// Requests that blk-mq takes back: for the ledger, and for traces.
    Requeue,
    /// Timeouts of commands.
    Timeout,
    /// Requests that the driver cancels.
    Cancel,
    /// State changes of controllers.
    State,
    /// SQ heads: how far a controller has read its submission queues.
    SqHead,
    /// Asynchronous events.
    AsyncEvent,
    /// Splits of bios.
    Split,
    /// Bounce buffers.
    Bounce,
    /// Mappings of the IOMMU.
    IommuMap,
    /// Mappings of the IOMMU that are removed.
    IommuUnmap,
    /// The submissions of bios, and by whom.
    Submitter,
}

impl Role {
    /// The events of a trace other than commands, if all are requested.
    pub const EVENTS: [Self; 5] =
        [Self::Timeout, Self::Cancel, Self::State, Self::SqHead, Self::AsyncEvent];

    /// What is observed besides the commands, with conditions.
    pub const CONTEXT: [Self; 4] = [Self::Split, Self::Bounce, Self::IommuMap, Self::IommuUnmap];

    /// Whether its hooks observe neither commands nor controllers: their losses are not losses of
    /// commands.
    pub fn is_context(self) -> bool {
        Self::CONTEXT.contains(&self) || self == Self::Submitter
    }

    /// The point of a command's life; `None` for other roles.
    pub const fn point(self) -> Option<Point> {
        match self {
            Self::Point(point) => Some(point),
            _ => None,
        }
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point(point) => point.name(),
            Self::Requeue => "requeue",
            Self::Timeout => "timeout",
            Self::Cancel => "cancel",
            Self::State => "state",
            Self::SqHead => "sq_head",
            Self::AsyncEvent => "async_event",
            Self::Split => "split",
            Self::Bounce => "bounce",
            Self::IommuMap => "iommu_map",
            Self::IommuUnmap => "iommu_unmap",
            Self::Submitter => "submitter",
        }
    }
}

/// A cause of waits that a kernel may be built without.
#[derive(Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The point at which its wait begins.
    pub point: Point,
    /// The kernel's BTF has one of these structs if the kernel has the mechanism.
    pub structs: &'static [&'static str],
    /// Its name, with the option that builds it.
    pub name: &'static str,
}

/// All of them. The structs are private to the source file of their mechanism on every kernel from
/// 5.10 on. A frozen queue and a wait for a tag are possible on every kernel.
pub const MECHANISMS: [Mechanism; 4] = [
    Mechanism {
        point: Submit,
        structs: &["throtl_grp"],
        name: "blk-throttle (CONFIG_BLK_DEV_THROTTLING)",
    },
    Mechanism {
        point: Zone,
        structs: &["blk_zone_wplug"],
        name: "zone write plugging (6.10, CONFIG_BLK_DEV_ZONED)",
    },
    Mechanism { point: Iocost, structs: &["ioc_gq"], name: "io.cost (CONFIG_BLK_CGROUP_IOCOST)" },
    // both wait in rq_qos_wait(), which every kernel has
    Mechanism {
        point: Wbt,
        structs: &["rq_wb", "iolatency_grp"],
        name: "writeback throttling or io.latency (CONFIG_BLK_WBT, CONFIG_BLK_CGROUP_IOLATENCY)",
    },
];

impl KernelFacts {
    /// The mechanism that this kernel lacks, if nothing can wait at this point. Without BTF it is not
    /// known, and counts as there.
    pub fn lacks_mechanism(&self, point: Point) -> Option<&'static Mechanism> {
        let mut all = MECHANISMS.iter();
        let mechanism = all.find(|mechanism| mechanism.point == point)?;
        let has = |name: &&str| self.structs.contains(*name);
        (self.vmlinux_btf && !mechanism.structs.iter().any(has)).then_some(mechanism)
    }
}

impl Hook {
    /// Why it may never fire although commands pass: it is one of several paths, or a rare event.
    pub fn may_stay_silent(&self) -> Option<&'static str> {
        match (self.target.name(), self.kind.method()) {
            _ if self.is_second() => Some("only while the first instance is interrupted"),
            ("nvme_queue_rq", _) => Some("not for batches"),
            ("nvme_queue_rqs", _) => Some("only for batches without a scheduler"),
            ("nvme_commit_rqs", _) => Some("only when a run of commands is cut short"),
            ("block_rq_requeue" | "blk_mq_requeue_request", _) => {
                Some("only when blk-mq takes a request back")
            }
            (
                "nvme_timeout"
                | "nvme_cancel_request"
                | "nvme_change_ctrl_state"
                | "nvme_async_event",
                _,
            ) => Some("a rare event"),
            ("nvme_irq", _) => Some("not for polled queues"),
            ("block_bio_queue" | "block_getrq", _) => Some("not for passthrough commands"),
            ("block_bio_backmerge" | "block_bio_frontmerge", _) => {
                Some("only for bios that are merged")
            }
            ("block_bio_complete", _) => Some("only for bios that end without a request"),
            ("blk_throtl_bio", _) if self.role == Role::Submitter => {
                Some("only with limits of blk-throttle (io.max)")
            }
            ("blk_throtl_bio" | "blk_account_io_start", _) => Some("not for passthrough commands"),
            ("__blk_throtl_bio", _) => Some("only with limits of blk-throttle (io.max)"),
            ("__bio_queue_enter" | "blk_queue_enter", _) => Some("only while a queue is frozen"),
            ("blk_zone_plug_bio", _) => Some("only for writes to disks with zones"),
            ("ioc_rqos_throttle", _) => Some("only with io.cost"),
            ("rq_qos_wait", _) => Some("only for writes that wbt limits"),
            ("__blk_mq_get_tag" | "block_rq_tag_wait", _) => Some("only if no tag is free"),
            ("block_split", _) => Some("only for bios above a limit of the queue"),
            ("swiotlb_bounced", _) => Some("only with bounce buffers (swiotlb)"),
            ("map" | "unmap", _) => Some("only where an IOMMU translates"),
            // the tracepoint is in both functions, each kprobe in one
            ("nvme_complete_rq", Method::Kprobe) => Some("not for batches that went well"),
            ("nvme_complete_batch_req", _) => Some("only for batches that went well"),
            _ => None,
        }
    }
}
