/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between the BPF programs and user space: map values, counters, limits.
 *
 * libbpf-cargo generates the Rust types and numbers of src/abi from these declarations, through
 * bpf/abi.bpf.c. All fields have a fixed width, padding is explicit, no kernel types are used, and
 * both sides assert the sizes. Numbers are enumerators, because BTF has no macros.
 */
#ifndef ND_ABI_H
#define ND_ABI_H

#include "failures_abi.h"
#include "group_abi.h"
#include "rows_abi.h"
#include "trace_abi.h"
#include "bio_abi.h"
#include "submitter_abi.h"

/* Log-linear buckets: 2^ND_HIST_SUB_BITS per power of two, so half a bucket is at most 6.25 %.
 * src/model/histogram.rs has the same rule; tests/parity.rs compares both. */
enum nd_hist_rule {
	ND_HIST_SUB_BITS = 3,
	ND_HIST_MAX_EXP = 35,
	ND_HIST_BUCKETS = ((ND_HIST_MAX_EXP - ND_HIST_SUB_BITS + 2) << ND_HIST_SUB_BITS),
};

enum nd_limit {
	ND_MAX_CTRLS = 256,	 /* instances that fit the eight bits of the row key */
	ND_MAX_QUEUE_IDS = 4096, /* cached request_queue ids (from an ida: small numbers) */
	ND_ROW_CACHE = 1024,
	ND_TASKS = 1024,
	ND_TASK_SLOTS = 256,
	ND_PLACE_BITS = 4, /* each hook of a CPU caches 16 hardware queues */
	ND_MAX_LIST = 16,  /* entries of a list filter */
	ND_MAX_NAMESPACES = 4096,
	ND_SCRATCHES = 2, /* buffers of a CPU in which programs build stacks: submit, complete */
	ND_RING_CPUS = 8, /* CPUs that share a ring of events */
	ND_LINE = 64,	  /* bytes of a cache line */
	ND_NO_SLOT = 1 << 30, /* not the number of a slot, whatever tag is added */
	ND_TAG_MASK = 0xfff,  /* the tag in a command id */
};

/* Set in the numbers of idle tasks, which have no id. */
#define ND_IDLE_TASK (1u << 31)

/* Hit counters, one per program. The order is that of src/probe/catalog.rs. */
enum nd_hook {
	ND_HOOK_START_BTF = 0,	       /* tp_btf block_io_start */
	ND_HOOK_START_RAW,	       /* raw_tp block_io_start */
	ND_HOOK_SETUP_IN_FENTRY,       /* fentry nvme_setup_cmd */
	ND_HOOK_SETUP_IN_KPROBE,       /* kprobe nvme_setup_cmd */
	ND_HOOK_SETUP_OUT_BTF,	       /* tp_btf nvme_setup_cmd */
	ND_HOOK_SETUP_OUT_RAW,	       /* raw_tp nvme_setup_cmd */
	ND_HOOK_SETUP_OUT_KRETPROBE,   /* kretprobe nvme_setup_cmd */
	ND_HOOK_ISSUE_BTF,	       /* tp_btf block_rq_issue */
	ND_HOOK_ISSUE_RAW,	       /* raw_tp block_rq_issue */
	ND_HOOK_ISSUE_KPROBE,	       /* kprobe blk_mq_start_request */
	ND_HOOK_QUEUE_RQ_FEXIT,	       /* fexit nvme_queue_rq */
	ND_HOOK_QUEUE_RQS_FEXIT,       /* fexit nvme_queue_rqs */
	ND_HOOK_COMMIT_RQS_FEXIT,      /* fexit nvme_commit_rqs */
	ND_HOOK_QUEUE_RQ_KPROBE,       /* kprobe nvme_queue_rq */
	ND_HOOK_QUEUE_RQ_KRETPROBE,    /* kretprobe nvme_queue_rq */
	ND_HOOK_QUEUE_RQS_KPROBE,      /* kprobe nvme_queue_rqs */
	ND_HOOK_QUEUE_RQS_KRETPROBE,   /* kretprobe nvme_queue_rqs */
	ND_HOOK_COMMIT_RQS_KPROBE,     /* kprobe nvme_commit_rqs */
	ND_HOOK_COMMIT_RQS_KRETPROBE,  /* kretprobe nvme_commit_rqs */
	ND_HOOK_IRQ_IN_FENTRY,	       /* fentry nvme_irq */
	ND_HOOK_IRQ_OUT_FEXIT,	       /* fexit nvme_irq */
	ND_HOOK_IRQ_IN_KPROBE,	       /* kprobe nvme_irq */
	ND_HOOK_IRQ_OUT_KRETPROBE,     /* kretprobe nvme_irq */
	ND_HOOK_CQE_BTF,	       /* tp_btf nvme_sq */
	ND_HOOK_CQE_RAW,	       /* raw_tp nvme_sq */
	ND_HOOK_CQE_KPROBE,	       /* kprobe blk_mq_complete_request_remote */
	ND_HOOK_COMPLETE_BTF,	       /* tp_btf nvme_complete_rq */
	ND_HOOK_COMPLETE_RAW,	       /* raw_tp nvme_complete_rq */
	ND_HOOK_COMPLETE_KPROBE,       /* kprobe nvme_complete_rq */
	ND_HOOK_COMPLETE_BATCH_KPROBE, /* kprobe nvme_complete_batch_req */
	ND_HOOK_END_BTF,	       /* tp_btf block_rq_complete */
	ND_HOOK_END_RAW,	       /* raw_tp block_rq_complete */
	ND_HOOK_REQUEUE_BTF,	       /* tp_btf block_rq_requeue */
	ND_HOOK_REQUEUE_RAW,	       /* raw_tp block_rq_requeue */
	ND_HOOK_REQUEUE_KPROBE,	       /* kprobe blk_mq_requeue_request */
	ND_HOOK_CQE_SECOND,	       /* tp_btf nvme_sq */
	/* trace events other than commands */
	ND_HOOK_SQ_BTF,		/* tp_btf nvme_sq */
	ND_HOOK_SQ_RAW,		/* raw_tp nvme_sq */
	ND_HOOK_ASYNC_BTF,	/* tp_btf nvme_async_event */
	ND_HOOK_ASYNC_RAW,	/* raw_tp nvme_async_event */
	ND_HOOK_TIMEOUT_FENTRY, /* fentry nvme_timeout */
	ND_HOOK_TIMEOUT_KPROBE, /* kprobe nvme_timeout */
	ND_HOOK_CANCEL_FENTRY,	/* fentry nvme_cancel_request */
	ND_HOOK_CANCEL_KPROBE,	/* kprobe nvme_cancel_request */
	ND_HOOK_STATE_FEXIT,	/* fexit nvme_change_ctrl_state */
	ND_HOOK_STATE_KPROBE,	/* kprobe nvme_change_ctrl_state */
	/* conditions */
	ND_HOOK_BIO_BTF,    /* tp_btf block_bio_queue */
	ND_HOOK_GETRQ_BTF,  /* tp_btf block_getrq */
	ND_HOOK_SPLIT_BTF,  /* tp_btf block_split */
	ND_HOOK_BOUNCE_BTF, /* tp_btf swiotlb_bounced */
	ND_HOOK_MAP_BTF,    /* tp_btf map */
	ND_HOOK_UNMAP_BTF,  /* tp_btf unmap */
	/* --stages=full */
	ND_HOOK_START_FENTRY,	  /* fentry blk_account_io_start */
	ND_HOOK_START_BIO_BTF,	  /* tp_btf block_getrq */
	ND_HOOK_BIO_QUEUED_BTF,	  /* tp_btf block_bio_queue */
	ND_HOOK_BIO_SPLIT_BTF,	  /* tp_btf block_split */
	ND_HOOK_BIO_BACK_BTF,	  /* tp_btf block_bio_backmerge */
	ND_HOOK_BIO_FRONT_BTF,	  /* tp_btf block_bio_frontmerge */
	ND_HOOK_BIO_DONE_BTF,	  /* tp_btf block_bio_complete */
	ND_HOOK_THROTTLE_FENTRY,  /* fentry __blk_throtl_bio */
	ND_HOOK_LIMITS_IN_FENTRY, /* fentry blk_throtl_bio */
	ND_HOOK_LIMITS_OUT_FEXIT, /* fexit blk_throtl_bio */
	ND_HOOK_FREEZE_IN_FENTRY, /* fentry __bio_queue_enter */
	ND_HOOK_FREEZE_OUT_FEXIT, /* fexit __bio_queue_enter */
	ND_HOOK_ENTER_IN_FENTRY,  /* fentry blk_queue_enter */
	ND_HOOK_ENTER_OUT_FEXIT,  /* fexit blk_queue_enter */
	ND_HOOK_ZONE_IN_FENTRY,	  /* fentry blk_zone_plug_bio */
	ND_HOOK_ZONE_OUT_FEXIT,	  /* fexit blk_zone_plug_bio */
	ND_HOOK_IOCOST_IN_FENTRY, /* fentry ioc_rqos_throttle */
	ND_HOOK_IOCOST_OUT_FEXIT, /* fexit ioc_rqos_throttle */
	ND_HOOK_WBT_IN_FENTRY,	  /* fentry rq_qos_wait */
	ND_HOOK_WBT_OUT_FEXIT,	  /* fexit rq_qos_wait */
	ND_HOOK_TAG_WAIT_BTF,	  /* tp_btf block_rq_tag_wait */
	ND_HOOK_TAG_FEXIT,	  /* fexit __blk_mq_get_tag */
	/* submitters */
	ND_HOOK_SUBMIT_BTF,		 /* tp_btf block_bio_queue */
	ND_HOOK_SUBMIT_SPLIT_BTF,	 /* tp_btf block_split */
	ND_HOOK_SUBMIT_DONE_BTF,	 /* tp_btf block_bio_complete */
	ND_HOOK_SUBMIT_LIMIT_FENTRY,	 /* fentry __blk_throtl_bio */
	ND_HOOK_SUBMIT_LIMIT_OLD_FENTRY, /* fentry blk_throtl_bio */
	/* bpf/tracepoint.bpf.c */
	ND_HOOK_SETUP_OUT_TP, /* tp nvme_setup_cmd */
	ND_HOOK_COMPLETE_TP,  /* tp nvme_complete_rq */
	ND_HOOK_SQ_TP,	      /* tp nvme_sq */
	ND_HOOK_ASYNC_TP,     /* tp nvme_async_event */
	ND_HOOK_MAX,
};

/* Counters of the ledger: exceptions and losses. */
enum nd_count {
	ND_FILTERED = 0,    /* set-ups that a filter rejected */
	ND_FILTERED_DONE,   /* completions of rejected set-ups */
	ND_UNTRACKED,	    /* set-ups outside the slot table (unknown controller, queue, tag) */
	ND_UNTRACKED_DONE,  /* completions outside the slot table */
	ND_ORPHAN_DONE,	    /* completions of commands set up outside the run */
	ND_REQUEUED,	    /* set up again without a completion (no resources, blk-mq requeue) */
	ND_OVERWRITTEN,	    /* another request took the slot; how this command ended is unknown */
	ND_UNSEEN_SETUP,    /* set-ups not observed, found by the CQE or the completion */
	ND_UNSEEN_COMPLETE, /* completions not observed, found by the command id */
	ND_UNATTRIBUTED,    /* set-ups: a filter needs the submitter, which is unknown */
	ND_UNMEASURED,	    /* trace: no latency, because set-up or completion was not observed */
	ND_NO_ROW,	    /* finished commands without a free row, and not in `rowless` */
	ND_LATE_DOORBELL,   /* the CQE came before the submitting function returned */
	ND_UNSURE_DOORBELL, /* discarded: an earlier doorbell, or what followed, was not observed */
	ND_EARLY_IRQ,	    /* the interrupt began before the doorbell */
	ND_NEGATIVE,	    /* points out of order for an unknown reason */
	ND_PENDING_FULL,    /* dropped from a task's doorbell list: full, or a return was missed */
	ND_RING_FULL,	    /* records of finished commands lost: no room in the ring */
	ND_START_UNTRUSTED, /* start_time_ns failed its checks */
	ND_MISFIT,	    /* queues that contradict the BTF file */
	ND_FINISHED,	    /* trace: finished commands */
	ND_NOT_SHOWN,	    /* trace: of ND_FINISHED, not shown: fast, or without an error */
	ND_LOST_SUBMIT,	    /* trace: submit events lost: no room in the ring */
	ND_LOST_EVENT,	/* trace: other events (not submit, complete) lost: no room in the ring */
	ND_NO_STACK,	/* stacks that the kernel could not take */
	ND_STACKS_FULL, /* stacks without a free entry in the table */
	ND_BY_TASK, /* container filter: commands selected by the task, as they have no cgroup */
	ND_FEWER_POINTS,  /* commands counted with fewer points than observed: few rows are left */
	ND_NO_BIO,	  /* requests with a bio whose submission was not observed */
	ND_BIOS_FULL,	  /* bios that found no room in the table */
	ND_UNPAIRED_WAIT, /* requests with a wait whose end was not observed */
	ND_NO_CPU, /* set-ups and completions on a CPU that user space does not know; at CPU 0 */
	ND_COUNT_MAX,
};

/* Points of a command that were observed. This pattern is part of the row key, so that merged
 * stages have separate histograms. */
enum nd_saw {
	ND_SAW_START = 1 << 0,
	ND_SAW_SETUP_IN = 1 << 1,
	ND_SAW_ISSUE = 1 << 2,
	ND_SAW_DOORBELL = 1 << 3,
	ND_SAW_IRQ = 1 << 4,
	ND_SAW_CQE = 1 << 5,
	ND_SAW_END = 1 << 6,
	ND_SAW_ALL = (1 << 7) - 1,
	/* Set if the set-up or the completion was not observed. Nearly every command has both. */
	ND_NO_SETUP = 1 << 7,
	ND_NO_COMPLETE = 1 << 8,
	ND_NO_ANY = ND_NO_SETUP | ND_NO_COMPLETE,
	ND_SAW_BASIC = ND_SAW_START | ND_SAW_DOORBELL | ND_SAW_CQE,
	/* The command has all points before the request that its run observes (cfg_wait_points). */
	ND_SAW_BIO = 1 << 9,
};

_Static_assert((ND_SAW_ALL | ND_NO_ANY | ND_SAW_BIO) >> ND_KEY_PATTERN_BITS == 0, "a key has room");

/* The points before the request, in the order of their times in struct nd_early_times. */
enum nd_wait_point {
	ND_WAIT_BIO = 1 << 0,
	ND_WAIT_SUBMIT = 1 << 1,
	ND_WAIT_FREEZE = 1 << 2,
	ND_WAIT_IOCOST = 1 << 3,
	ND_WAIT_WBT = 1 << 4,
	ND_WAIT_TAG = 1 << 5,
	ND_WAIT_ZONE = 1 << 6,
	ND_WAIT_ALL = (1 << 7) - 1,
};

/* Stage set (--stages). */
enum nd_mode {
	ND_MODE_TOTAL = 0, /* setup_out to complete */
	ND_MODE_BASIC = 1, /* queue, submit, device, complete, total */
	ND_MODE_FINE = 2,  /* every stage between neighbouring points, total */
};

/* Histograms of a cell in each stage set, with that of the total. */
enum nd_stages {
	ND_STAGES_TOTAL = 1,
	ND_STAGES_BASIC = 5,
	ND_STAGES_FINE = 9,
	ND_STAGES_FULL = 16, /* those of the fine set, then those before the request */
};

struct nd_hist {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 bucket[ND_HIST_BUCKETS];
};

/* One row of one CPU, or of several. The map value holds only as many histograms as the stage set
 * has, up to the end of a cache line. */
struct nd_cell {
	__u64 bytes;
	__u64 unmeasured; /* commands without an observed interval; in no histogram */
	struct nd_hist hist[ND_STAGES_FULL];
};

enum nd_state {
	ND_FREE = 0,
	ND_OPEN,	  /* set up, not completed */
	ND_SKIPPED,	  /* set up, rejected by a filter */
	ND_COMPLETED,	  /* fine stage set: completed, not yet ended by blk-mq */
	ND_REQUEUED_SLOT, /* set up, rejected by the driver; back in blk-mq */
};

/* A command in flight, by (controller, queue, tag). The total and basic stage sets use only the
 * first 64 bytes. */
struct nd_slot {
	__u64 rq; /* struct request * of the command */
	/* Row key << ND_ROW_BITS | row. With ND_KEY_VALID: of the previous command in this slot,
	 * with its pattern. Without: the key of this command, which has no row yet. */
	__u64 key;
	__u64 start_ns;
	__u64 setup_out_ns;
	__u64 doorbell_ns;
	__u64 cqe_ns;
	__u32 bytes;
	__u32 tid; /* the task that set it up; only its doorbell counts */
	__u8 state;
	__u8 beside; /* ND_BESIDE_RUNG, ND_BESIDE_ELIDED */
	__u16 saw;   /* pattern of points, set while the command is finished */
	__u16 cid;   /* on the wire: generation << 12 | tag */
	__u16 qid;
	/* Fine stage set only. */
	__u64 setup_in_ns;
	__u64 issue_ns;
	__u64 irq_ns;
	/* Time between completion and blk-mq's end. In traces that do not observe the end: the
	 * request of the previous command, after it has finished. */
	__u64 complete_ns;
	/* Traces only. */
	struct nd_submission submission;
	struct nd_outcome outcome;
	/* --stages=full only; see waits_in(). */
	struct nd_waits waits;
	/* Only if cgroups or submitters are observed. */
	struct nd_origin origin;
	__u64 _pad[2];
};

/* Sizes in bytes. */
enum nd_size {
	ND_CELL_HEAD = 16, /* a cell before its histograms */
	ND_SLOT_BASIC = 64,
	ND_SLOT_FINE = 96,
	ND_SLOT_TRACE = 192,
	ND_SLOT_FULL = 256,
	ND_SLOT_ORIGIN = 320,
	ND_START = 32,
	ND_START_FULL = 96,
	ND_START_BY = 128,
};

/* Start of a request that has not reached the driver; with a scheduler also its last slot. */
struct nd_start {
	__u64 rq;
	__u64 ns;
	__u64 setup_rq;
	__u32 setup_slot;
	__u32 mark; /* of this use of the request: see mark_of() */
	/* --stages=full only. */
	struct nd_waits waits;
	/* The same with submitters. */
	struct nd_sender by;
};

/* A controller's slots. User space fills in the table. Stride 0: unknown controller. */
struct nd_ctrl {
	__u32 base;   /* its first slot; ND_NO_SLOT: the filter leaves the controller out */
	__u32 stride; /* slots per queue, a power of two */
	__u32 queues; /* including the admin queue */
	__u32 points; /* ND_SAW_*: the points that its transport has */
};

/* Cached owner of a request_queue. A set-up that finds it outdated rewrites it. */
struct nd_queue {
	__u64 q; /* struct request_queue * */
	__u32 base;
	__u32 stride;
	__u32 queues; /* 0: not an NVMe queue */
	__u32 io;     /* 0: admin queue */
	/* The slots before the controller moved; commands in flight still have them. */
	__u32 former_base;
	__u32 former_stride;
	__u32 former_queues; /* 0: none */
	__u32 _pad;
};

/* Commands that a task has set up, and that wait for a doorbell. */
struct nd_task {
	__u32 tid;
	__u32 n;
	__u64 setup_in_rq;
	__u64 setup_in_ns;
	/* Kprobes only: saved at entry for the return. */
	__u64 setup_cmd;
	__u64 setup_stack;
	__u64 hctx;
	__u64 bd;
	__u32 setup_tid;
	__u32 inside; /* submitting function: ND_INSIDE_* */
	/* Of the commands that wait for a doorbell: the last request, the driver's queue (struct
	 * nvme_queue *), and its last_sq_tail when the first was set up. */
	__u64 last_rq;
	__u64 nvmeq;
	__u16 announced_tail;
	__u16 event_index; /* of the shadow doorbell, at the same time */
	__u32 setup_in_gen;
	__u32 others; /* commands that wait, too, and that a filter has rejected */
	__u32 slot[ND_TASK_SLOTS];
} __attribute__((aligned(ND_LINE)));

/* The submitting function that a task is in. */
enum nd_inside {
	ND_INSIDE_QUEUE_RQ = 1,
	ND_INSIDE_QUEUE_RQS = 2,
	ND_INSIDE_COMMIT_RQS = 3,
};

/* Slots of a blk-mq hardware queue (of one namespace), as one hook caches them on one CPU. */
struct nd_place {
	__u64 hctx; /* struct blk_mq_hw_ctx *; 0: empty */
	__u32 first;
	__u32 tags;   /* a power of two */
	__u32 age;    /* valid while equal to places_age */
	__u32 spread; /* see start_entry() */
};

/* A place as the set-up caches it. */
struct nd_where {
	struct nd_place place;
	__u64 ctrl;   /* struct nvme_ctrl * */
	__u64 key;    /* common part of the row keys of its commands */
	__u64 nvmeq;  /* the driver's queue: struct nvme_queue * on PCI */
	__u32 qid;    /* 0: admin queue */
	__u32 points; /* of the controller */
};

/* The other hooks that cache places, each in its own cache. None interrupts itself on its CPU. */
enum nd_at {
	ND_AT_START = 0,
	ND_AT_ISSUE = 1,
	ND_AT_CQE = 2,
	ND_AT_COMPLETE = 3,
	ND_AT_END = 4,
	ND_AT_CQE_SECOND = 5,
	ND_AT_MAX = 6,
};

/* What fills struct nd_cpu up to a cache line, in words of 32 bits; at least 16. */
#define ND_CPU_PAD(tail)                                                                           \
	(16 + (64 - ((2 * ND_HOOK_MAX + ND_COUNT_MAX + 4) * 8 + 64 + (tail)) % 64) % 64 / 4)

struct nd_cpu {
	__u64 hits[ND_HOOK_MAX];
	__u64 count[ND_COUNT_MAX];
	__u64 irq_ns;		    /* 0: not in nvme_irq */
	__u64 irq_nvmeq;	    /* struct nvme_queue * that the interrupt serves */
	__u64 irq_id;		    /* see this_interrupt() */
	__u64 offered[ND_HOOK_MAX]; /* tests only, see ignored() */
	/* The first cell of its group, and whether programs add to these cells at the same time.
	 * User space sets both before the attach. */
	__u32 first_cell;
	__u32 shares;
	__u32 _pad[ND_CPU_PAD(sizeof(struct nd_where) * (1 + (1 << ND_PLACE_BITS)) +
			      sizeof(struct nd_place) * (ND_AT_MAX << ND_PLACE_BITS))];
	struct nd_where admin; /* admin queue of the current set-up */
	struct nd_where where[1 << ND_PLACE_BITS];
	struct nd_place place[ND_AT_MAX][1 << ND_PLACE_BITS];
};

/* A distinct stack, innermost frame first. */
struct nd_stack {
	__u64 depth;
	__u64 frame[ND_STACK_DEPTH];
};

/* Commands by stack. */
struct nd_stack_sum {
	struct nd_hist hist;
	__u64 unmeasured; /* as in nd_cell */
};

/* Requests to the program `control`, which user space runs by BPF_PROG_TEST_RUN. */
enum nd_control {
	ND_CONTROL_BEGIN = 0,	  /* begin the run */
	ND_CONTROL_COMPLETED = 1, /* whether the driver has completed a slot's open command */
	ND_CONTROL_CLOSE = 2,	  /* count a command whose completion or end was not observed */
	ND_CONTROL_END = 3,	  /* limit recovery of skipped set-ups (ND_END_*) */
	ND_CONTROL_FORGET = 4,	  /* the slots of a controller have moved */
};

enum nd_end_of_recovery {
	ND_END_NONE = 0,   /* recover none */
	ND_END_NOW = 1,	   /* recover commands issued until now */
	ND_END_RESUME = 2, /* recover all, as before */
};

/* Buffer in which a program builds a stack: one per CPU and kind of hook. */
struct nd_scratch {
	__u64 busy;
	struct nd_stack stack;
};

_Static_assert(ND_HIST_BUCKETS == 272, "src/model/histogram.rs has the same number");
_Static_assert(sizeof(struct nd_hist) == 2192, "histogram layout");
_Static_assert(sizeof(struct nd_cell) == ND_CELL_HEAD + ND_STAGES_FULL * 2192, "cell layout");
_Static_assert(sizeof(struct nd_task) % ND_LINE == 0, "no cache line of two tasks");
_Static_assert(sizeof(struct nd_slot) == ND_SLOT_ORIGIN, "slot layout");
_Static_assert(__builtin_offsetof(struct nd_slot, origin) == ND_SLOT_FULL, "a line of its own");
_Static_assert(__builtin_offsetof(struct nd_slot, waits) == ND_SLOT_TRACE, "a line of its own");
_Static_assert(sizeof(struct nd_start) == ND_START_BY, "no padding");
_Static_assert(__builtin_offsetof(struct nd_start, waits) == ND_START, "the usual part");
_Static_assert(__builtin_offsetof(struct nd_slot, submission) == ND_SLOT_FINE, "fine part");
_Static_assert(__builtin_offsetof(struct nd_slot, setup_in_ns) == ND_SLOT_BASIC, "basic half");
_Static_assert(sizeof(struct nd_place) == 24, "no padding");
_Static_assert(sizeof(struct nd_where) == 56, "no padding");
_Static_assert(sizeof(struct nd_cpu) % ND_LINE == 0, "no cache line of two CPUs");
_Static_assert(ND_SLOT_BASIC % ND_LINE == 0, "a slot is one cache line");

#endif
