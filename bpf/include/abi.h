/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface between the BPF programs and user space. build.rs makes Rust of it (src/abi).
 * Widths are fixed, padding is explicit. Numbers are enumerators, because BTF has no macros. */
#pragma once

#include <linux/types.h>

enum nd_limit {
	ND_MAX_CTRLS = 256,	 /* instances that fit the eight bits of the row key */
	ND_MAX_QUEUE_IDS = 4096, /* cached request_queue ids (from an ida: small numbers) */
	ND_ROW_CACHE = 1024,
	ND_TASKS = 1024,
	ND_TASK_SLOTS = 256,
	ND_PLACE_BITS = 4, /* each hook of a CPU caches 16 hardware queues */
	ND_MAX_LIST = 16,  /* entries of a list filter */
	ND_MAX_NAMESPACES = 4096,
	ND_RING_CPUS = 8,     /* CPUs that share a ring of events */
	ND_LINE = 64,	      /* bytes of a cache line */
	ND_NO_SLOT = 1 << 30, /* not the number of a slot, whatever tag is added */
	ND_GROUP_OTHER = 0,   /* the number of all groups without a row */
	ND_MAX_GROUPS = 256,
	ND_MAX_CANDIDATES = 4096,
	ND_STACK_UNSEEN = 1, /* key of the sum of commands whose stack was not observed */
	ND_STACK_DEPTH = 64,
	ND_BIOS = 16384,       /* bios between their submission and their request */
	ND_PAUSES = 4096,      /* tasks that wait for a tag, or in wbt; and those with a bio */
	ND_CHAIN = 256,	       /* bios of a request that are looked at */
	ND_BIOS_SHIFT = 48,    /* where the number of bios begins in nd_early_times.bios */
	ND_SUBMITTERS = 16384, /* bios; the one that was looked up longest ago gives way */
	ND_GAPS = 64,	       /* gaps that each CPU keeps */
	ND_TICK_NS = 1000000,  /* period of the timer of a CPU */
	ND_GAP_NS = 3000000,   /* distance of two ticks above which there is a gap */
	ND_WAITED_NS = 20000,  /* a wait for a tag above this counts as such */
	ND_MAX_DISKS = 256,
	ND_MEMORY_WINDOW = 4096, /* bytes that bpf/memory.bpf.c reads at once */
};

/* Counters of a controller: first by status code type (bits 10:8). */
enum nd_failure {
	ND_FAIL_RETRIED = 8, /* completed commands that were retries */
	ND_FAIL_MAX = 16,
};

struct nd_failures {
	__u64 count[ND_FAIL_MAX];
};

/* What the commands of a group (--by) have in common; zero: the run does not group by it. */
struct nd_group {
	__u64 cgroup; /* id */
	__u64 comm[2];
	__u32 tgid;
	__u32 nsid;
	__u16 cpu;
	__u16 qid;
	__u16 priority;
	__u8 ctrl;
	__u8 admin;
	__u8 opcode;
	__u8 size;    /* cfg_by_size */
	__u8 unseen;  /* the setup was not observed: the CPU is not known */
	__u8 unknown; /* process, thread and cgroup are not known */
};

struct nd_group_row {
	__u64 comm[2]; /* the thread of its first command; zero: not observed */
	__u32 number;
	__u32 _pad;
};

enum nd_by {
	ND_BY_PROCESS = 1 << 0,
	ND_BY_COMM = 1 << 1,
	ND_BY_CGROUP = 1 << 2,
	ND_BY_CPU = 1 << 3,
	ND_BY_QUEUE = 1 << 4,
	ND_BY_SIZE = 1 << 5,
	ND_BY_PRIORITY = 1 << 6,
	ND_BY_DISK = 1 << 7,
	ND_BY_OPCODE = 1 << 8,
	ND_BY_BIO = 1 << 9, /* with ND_BY_CGROUP: of the bio, if it has one */
	ND_BY_WHO = ND_BY_PROCESS | ND_BY_COMM | ND_BY_CGROUP,
};

_Static_assert(sizeof(struct nd_group) == 48, "no padding");

/* Row key, 54 bits: valid | ctrl 8 | nsid 23 | opcode 8 | admin 1 | size class 2 | pattern 11. The
 * cache stores it with the row number in one word, so that a read cannot tear. */
enum nd_key {
	ND_KEY_PATTERN_SHIFT = 0,
	ND_KEY_PATTERN_BITS = 11,
	ND_KEY_CLASS_SHIFT = ND_KEY_PATTERN_BITS,
	ND_KEY_ADMIN_SHIFT = ND_KEY_CLASS_SHIFT + 2,
	ND_KEY_OPCODE_SHIFT = ND_KEY_ADMIN_SHIFT + 1,
	ND_KEY_NSID_SHIFT = ND_KEY_OPCODE_SHIFT + 8,
	ND_KEY_NSID_MASK = 0x7fffff,
	ND_KEY_CTRL_SHIFT = ND_KEY_NSID_SHIFT + 23,
	ND_KEY_VALID_SHIFT = ND_KEY_CTRL_SHIFT + 8,
	ND_ROW_BITS = 63 - ND_KEY_VALID_SHIFT,
	ND_MAX_ROWS = 1 << ND_ROW_BITS,
	ND_MAX_ROWLESS = 1024, /* kinds of commands without a row */
};

/* BTF has no enumerators of 64 bits before clang 15. */
#define ND_KEY_VALID (1ull << ND_KEY_VALID_SHIFT)

enum nd_class {
	ND_CLASS_SMALL = 1, /* <= 16 KiB */
	ND_CLASS_MID = 2,   /* (16 KiB, 64 KiB] */
	ND_CLASS_LARGE = 3, /* > 64 KiB */
};

/* Commands of a kind (a row key without points) that found no free row: counted without times. */
struct nd_rowless {
	__u64 commands;
	__u64 bytes;
};

/* Conditions of a command (cfg_context): the bits of src/model/command_class.rs. */
enum nd_beside {
	ND_BESIDE_IRQ = 1 << 0,	 /* the interrupt was observed */
	ND_BESIDE_IDLE = 1 << 1, /* and interrupted the idle task */
	ND_BESIDE_KNOWS_SOFTIRQ = 1 << 2,
	ND_BESIDE_SOFTIRQ = 1 << 3, /* the CPU was in a soft interrupt */
	ND_BESIDE_RUNG = 1 << 4,    /* announced by a write to the doorbell register */
	ND_BESIDE_ELIDED = 1 << 5,  /* announced by the shadow doorbell only */
};

/* What a trace does with each command. */
enum nd_trace {
	ND_TRACE_EVENTS = 1,   /* one event at the setup, one at the completion */
	ND_TRACE_PAIRS = 2,    /* one event at the completion */
	ND_TRACE_STACKS = 3,   /* counted by stack */
	ND_TRACE_COMMANDS = 4, /* as pairs, without other events; the histograms count them, too */
	ND_TRACE_FLIGHT = 5,   /* no event: user space reads the slots; the histograms count */
};

enum nd_stack_at {
	ND_STACK_NONE = 0,
	ND_STACK_SUBMIT = 1,
	ND_STACK_COMPLETE = 2,
};

/* What a command requests, and its submitter. */
struct nd_submission {
	__u64 stack;
	__u32 cdw[6]; /* CDW10 to CDW15 */
	__u8 comm[16];
	__u32 tgid;
	__u32 tid;
	__u32 nsid;
	__u32 bytes;
	__u8 flags;    /* CDW0 bits 15:8 */
	__u8 metadata; /* the request has integrity metadata */
	__u16 cpu;
	__u32 known; /* ND_KNOWN_* */
};

enum nd_known {
	ND_KNOWN_BYTES = 1 << 0,
	ND_KNOWN_SUBMITTER = 1 << 1, /* tgid, tid, comm, cpu */
	ND_KNOWN_ORIGIN = 1 << 2,    /* the record ends with a struct nd_origin */
};

/* The task that submitted a bio. */
struct nd_sender {
	__u64 cgroup; /* id */
	__u64 comm[2];
	__u32 tgid;
	__u32 tid; /* 0: not known */
};

/* Who caused a command. Zero: not known. Cgroups are ids. */
struct nd_origin {
	__u64 task_cgroup; /* of the task that calls the driver */
	__u64 io_cgroup;   /* that caused the I/O */
	struct nd_sender by;
};

struct nd_outcome {
	__u64 stack;
	__u64 result;
	__u16 status;
	__u8 retries;
	__u8 flags; /* NVME_REQ_* */
	__u16 cpu;
	__u8 known;  /* the outcome could be read */
	__u8 beside; /* ND_BESIDE_* */
};

enum nd_kind {
	ND_KIND_SUBMIT = 2,
	ND_KIND_COMPLETE,
	ND_KIND_PAIR,
	ND_KIND_SQ,	 /* value: head | tail << 16; 1 << 32: command unknown */
	ND_KIND_TIMEOUT, /* value: setup time */
	ND_KIND_CANCEL,	 /* value: setup time */
	ND_KIND_REQUEUE,
	ND_KIND_RETRY, /* value: number of retries; ~0: unknown */
	ND_KIND_ASYNC, /* value: result */
	ND_KIND_STATE, /* value: new state; 1 << 32: requested, outcome unknown */
};

/* The head of every event. */
struct nd_event {
	__u8 kind;
	__u8 admin;
	__u8 opcode;
	__u8 _pad;
	__u16 qid;
	__u16 cid;
	__u64 ns;
	__u16 ctrl;
	__u16 pattern; /* ND_SAW_*, ND_NO_*; complete and pair only */
	__u32 nsid;
};

struct nd_submit {
	struct nd_event event;
	struct nd_submission submission;
};

struct nd_times {
	__u64 start_ns;
	__u64 setup_in_ns;
	__u64 issue_ns;
	__u64 doorbell_ns;
	__u64 irq_ns;
	__u64 cqe_ns;
	__u64 end_ns;
};

/* Points before the request (--stages=full). A wait ends where the next begins, or at the start. */
struct nd_early_times {
	__u64 bio_ns;
	__u64 submit_ns;
	__u64 freeze_ns;
	__u64 iocost_ns;
	__u64 wbt_ns;
	__u64 tag_ns;
	__u64 zone_ns;
	/* Bios << ND_BIOS_SHIFT | time from the oldest's submission to the setup. 0: not known. */
	__u64 bios;
};

struct nd_end {
	struct nd_event event;
	struct nd_outcome outcome;
	__u64 setup_out_ns;
};

/* `times` is present only with stages, `early` only with full stages. */
struct nd_complete {
	struct nd_end end;
	struct nd_times times;
	struct nd_early_times early;
};

struct nd_pair {
	struct nd_end end;
	struct nd_submission submission;
	struct nd_times times;
	struct nd_early_times early;
};

struct nd_other {
	struct nd_event event;
	__u64 value;
};

/* A bio from its submission to an NVMe disk until it has a request. */
struct nd_bio {
	__u64 submit_ns; /* blk-throttle looks at it; without limits as bio_ns */
	__u64 bio_ns;	 /* block_bio_queue; 0: still in blk-throttle */
	__u64 freeze_ns; /* time in __bio_queue_enter() */
	__u64 iocost_ns; /* time in ioc_rqos_throttle() */
	__u64 begin_ns;	 /* of a wait that has not ended; 0: none */
	__u64 zone_ns;	 /* since when it waits for its zone; 0: it does not */
	__u64 sector;	 /* the first, of the disk */
	__u32 bytes;
	__u16 released;	     /* blk-throttle looks at it again: it has waited there */
	__u16 rest;	     /* a piece was split off */
	struct nd_sender by; /* only if submitters are observed */
};

/* The last bio that a task queued, until it has a request. */
struct nd_last_bio {
	__u32 tid;
	__u32 bytes;
	__u64 bio; /* 0: none */
	__u64 bio_ns;
	__u64 sector;
	__u64 _pad[4];
};

/* The waits of the task that is about to get a request. */
struct nd_pause {
	__u32 tid; /* 0: none */
	__u32 _pad;
	__u64 wbt_begin_ns; /* in rq_qos_wait(); 0: not */
	__u64 wbt_ns;
	__u64 tag_ns;	       /* since when it waits for a tag; 0: it does not */
	__u64 freeze_begin_ns; /* in blk_queue_enter() of a frozen queue; 0: not */
	__u64 freeze_ns;
};

/* The bio for which a request was allocated: when it came, and how long it waited for what. */
struct nd_waits {
	__u64 start_ns; /* of the request that waited; 0: not known */
	__u64 submit_ns;
	__u64 bio_ns;
	__u64 freeze_ns; /* or for a zone: ND_FOR_ZONE */
	__u64 iocost_ns;
	__u64 wbt_ns;
	__u64 tag_ns;
	/* In nd_begun: when the request was allocated. In a slot: as nd_early_times.bios. */
	__u64 also;
};

/* What is known of a bio that got its request, until the setup (on_bio_start()). */
struct nd_begun {
	struct nd_waits waits;
	struct nd_sender by;
};

_Static_assert(sizeof(struct nd_last_bio) == 64, "a cache line");
_Static_assert(sizeof(struct nd_waits) == 64, "a cache line");

/* nd_sender.tid of a task that is not within the cgroup of the filter. */
enum nd_unwanted { ND_UNWANTED = 0xffffffff };

/* The submission of a bio. */
struct nd_submitter {
	struct nd_sender by;
	__u64 sector; /* the first, of the disk */
	__u32 bytes;
	__u16 early; /* noted before block_bio_queue, which may be of another task */
	__u16 rest;  /* a piece was split off, and this has no request yet */
	/* Of device mapper or md, with conditions: when noted. 0: a piece that was split off. */
	__u64 since_ns;
};

/* Log-linear buckets: 2^ND_HIST_SUB_BITS per power of two, as in src/model/histogram.rs. */
enum nd_hist_rule {
	ND_HIST_SUB_BITS = 3,
	ND_HIST_MAX_EXP = 35,
	ND_HIST_BUCKETS = ((ND_HIST_MAX_EXP - ND_HIST_SUB_BITS + 2) << ND_HIST_SUB_BITS),
};

/* In the numbers of idle tasks, which have no id. */
#define ND_IDLE_TASK (1u << 31)

#include "hooks.h" /* made by build.rs, from src/probe/catalog.rs */

enum nd_count {
	ND_FILTERED = 0,    /* setups that a filter rejected */
	ND_FILTERED_DONE,   /* completions of rejected setups */
	ND_UNTRACKED,	    /* setups outside the slot table (unknown controller, queue, tag) */
	ND_UNTRACKED_DONE,  /* completions outside the slot table */
	ND_ORPHAN_DONE,	    /* completions of commands set up outside the run */
	ND_REQUEUED,	    /* set up again without a completion (no resources, blk-mq requeue) */
	ND_OVERWRITTEN,	    /* another request took the slot; how this command ended is unknown */
	ND_UNSEEN_SETUP,    /* setups not observed, found by the CQE or the completion */
	ND_UNSEEN_COMPLETE, /* completions not observed, found by the command id */
	ND_UNATTRIBUTED,    /* setups: a filter needs the submitter, which is unknown */
	ND_UNMEASURED,	    /* trace: no latency, because setup or completion was not observed */
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
	ND_COUNT_MAX,
};

/* Observed points: a part of the row key, so merged stages have histograms of their own. */
enum nd_saw {
	ND_SAW_START = 1 << 0,
	ND_SAW_SETUP_IN = 1 << 1,
	ND_SAW_ISSUE = 1 << 2,
	ND_SAW_DOORBELL = 1 << 3,
	ND_SAW_IRQ = 1 << 4,
	ND_SAW_CQE = 1 << 5,
	ND_SAW_END = 1 << 6,
	ND_SAW_ALL = (1 << 7) - 1,
	/* Set if the setup or the completion was not observed. */
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

enum nd_mode {
	ND_MODE_TOTAL = 0, /* setup_out to complete */
	ND_MODE_BASIC = 1, /* queue, submit, device, complete, total */
	ND_MODE_FINE = 2,  /* every stage between neighbouring points, total */
};

/* Histograms of a cell in each stage set, including the total. */
enum nd_stages {
	ND_STAGES_TOTAL = 1,
	ND_STAGES_BASIC = 5,
	ND_STAGES_FINE = 9,
	ND_STAGES_FULL = 16, /* the fine set, then the stages before the request */
};

struct nd_hist {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 bucket[ND_HIST_BUCKETS];
};

/* The map value has only the histograms of the stage set. */
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

/* A command in flight. The total and basic stage sets use only the first 64 bytes. */
struct nd_slot {
	__u64 rq; /* struct request * of the command */
	/* Row key << ND_ROW_BITS | row. With ND_KEY_VALID it is the previous command's; without,
	 * this command's, which has no row yet. */
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
	/* When it completed. In traces without the end: the request of the previous command. */
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

/* Start of a request that has not reached the driver; with a scheduler also its last slot. */
struct nd_start {
	__u64 rq;
	__u64 ns;
	__u64 setup_rq;
	__u32 setup_slot;
	__u32 mark;	       /* of this use of the request: see mark_of() */
	struct nd_begun begun; /* --stages=full only; `by` only with submitters */
};

/* A controller's slots. User space fills in the table. Stride 0: unknown controller. */
struct nd_ctrl {
	__u32 base;   /* its first slot; ND_NO_SLOT: the filter leaves the controller out */
	__u32 stride; /* slots per queue, a power of two */
	__u32 queues; /* including the admin queue */
	__u32 points; /* ND_SAW_*: the points that its transport has */
};

/* The owner of a request_queue. A setup that finds it outdated rewrites it. */
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
	__u32 inside;	      /* submitting function: ND_INSIDE_* */
	__u64 last_rq;	      /* the last of the commands that wait */
	__u64 nvmeq;	      /* struct nvme_queue * of them all */
	__u16 announced_tail; /* its last_sq_tail when the first was set up */
	__u16 event_index;    /* of the shadow doorbell, at the same time */
	__u32 setup_in_gen;
	__u32 others; /* commands that wait, too, and that a filter has rejected */
	__u32 slot[ND_TASK_SLOTS];
} __attribute__((aligned(ND_LINE)));

enum nd_inside {
	ND_INSIDE_QUEUE_RQ = 1,
	ND_INSIDE_QUEUE_RQS = 2,
	ND_INSIDE_COMMIT_RQS = 3,
};

/* Slots of a blk-mq hardware queue, as one hook caches them on one CPU. */
struct nd_place {
	__u64 hctx; /* struct blk_mq_hw_ctx *; 0: empty */
	__u32 first;
	__u32 tags;   /* a power of two */
	__u32 age;    /* valid while equal to places_age */
	__u32 spread; /* see start_entry() */
};

/* A place as the setup caches it. */
struct nd_where {
	struct nd_place place;
	__u64 ctrl;   /* struct nvme_ctrl * */
	__u64 key;    /* common part of the row keys of its commands */
	__u64 nvmeq;  /* the driver's queue: struct nvme_queue * on PCI */
	__u32 qid;    /* 0: admin queue */
	__u32 points; /* of the controller */
};

/* The hooks that cache places, each in its own cache. None interrupts itself on its CPU. */
enum nd_at {
	ND_AT_START = 0,
	ND_AT_ISSUE = 1,
	ND_AT_CQE = 2,
	ND_AT_COMPLETE = 3,
	ND_AT_END = 4,
	ND_AT_CQE_SECOND = 5,
	ND_AT_MAX = 6,
};

struct nd_cpu {
	__u64 hits[ND_HOOK_MAX];
	__u64 count[ND_COUNT_MAX];
	__u64 irq_ns;		    /* 0: not in nvme_irq */
	__u64 irq_nvmeq;	    /* struct nvme_queue * that the interrupt serves */
	__u64 irq_id;		    /* see this_interrupt() */
	__u64 offered[ND_HOOK_MAX]; /* tests only, see ignored() */
	/* The first cell of its group, and whether other CPUs add to these cells, too. */
	__u32 first_cell;
	__u32 shares;
	struct nd_where admin; /* admin queue of the current setup */
	struct nd_where where[1 << ND_PLACE_BITS];
	struct nd_place place[ND_AT_MAX][1 << ND_PLACE_BITS];
} __attribute__((aligned(ND_LINE)));

struct nd_stack {
	__u64 depth;
	__u64 frame[ND_STACK_DEPTH]; /* innermost first */
};

struct nd_stack_sum {
	struct nd_hist hist;
	__u64 unmeasured; /* as in nd_cell */
};

/* Requests to the program `control`. */
enum nd_control {
	ND_CONTROL_BEGIN = 0,	  /* begin the run */
	ND_CONTROL_COMPLETED = 1, /* whether the driver has completed a slot's open command */
	ND_CONTROL_CLOSE = 2,	  /* count a command whose completion or end was not observed */
	ND_CONTROL_END = 3,	  /* limit recovery of skipped setups (ND_END_*) */
	ND_CONTROL_FORGET = 4,	  /* the slots of a controller have moved */
};

enum nd_end_of_recovery {
	ND_END_NONE = 0,   /* recover none */
	ND_END_NOW = 1,	   /* recover commands issued until now */
	ND_END_RESUME = 2, /* recover all, as before */
};

/* Buffer of a CPU in which a program builds a stack. */
struct nd_scratch {
	__u64 busy;
	struct nd_stack stack;
};

_Static_assert(__builtin_offsetof(struct nd_slot, setup_in_ns) == ND_LINE, "a cache line");

struct nd_gap {
	__u64 begin_ns; /* when the tick was due */
	__u64 end_ns;
};

struct nd_volume {
	__u64 count;
	__u64 bytes;
};

/* What a CPU did (activity.bpf.h). The gap number n is in gap[n % ND_GAPS]. */
struct nd_activity {
	__u64 tick_ns;	/* the last */
	__u64 timed_ns; /* the first of this timer */
	__u64 gaps;
	__u64 gap_ns;
	struct nd_volume bounced;
	struct nd_volume mapped;
	struct nd_volume unmapped;
	__u64 early_interrupts; /* found no CQE */
	struct nd_gap gap[ND_GAPS];
};

/* By the first 16 bytes of the disk's name. */
struct nd_disk {
	__u64 requests;
	__u64 waited;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 splits;
};

/* Constants to the verifier, which removes what the run does not need. By size, without padding. */
struct nd_config {
	/* [irq_first, irq_end): the kernel's interrupt entry code. Both 0: unknown. */
	__u64 irq_first;
	__u64 irq_end;
	__u64 slow_ns; /* trace only commands that took at least this long */
	/* Tests only: programs (bits by hook number) that ignore every n-th event. */
	__u64 test_ignore[(ND_HOOK_MAX + 63) / 64];
	__u64 targ_opcodes[2][4]; /* bitmaps: I/O, admin */
	__u64 targ_comms[ND_MAX_LIST][2];
	__u64 targ_cgroup_id; /* with ND_CGROUP_BIO */
	__u64 targ_lba_first;
	__u64 targ_lba_last;
	__u32 mode; /* ND_MODE_* */
	/* Take a stack if a random number is below this. 0: take every stack. */
	__u32 sample_below;
	__u32 test_ignore_every;
	__u32 targ_nsid_count;
	__u32 targ_nsids[ND_MAX_LIST];
	__u32 targ_qid_count;
	__u32 targ_qids[ND_MAX_LIST];
	__u32 targ_pid_count;
	__u32 targ_pids[ND_MAX_LIST];
	__u32 targ_comm_count;
	/* Offsets of fields in classic tracepoints (format files of tracefs). */
	__u32 tp_setup_ctrl;
	__u32 tp_setup_qid;
	__u32 tp_setup_opcode;
	__u32 tp_setup_cid;
	__u32 tp_setup_nsid;
	__u32 tp_setup_cdw10;
	__u32 tp_setup_flags;
	__u32 tp_setup_metadata;
	__u32 tp_done_ctrl;
	__u32 tp_done_qid;
	__u32 tp_done_cid;
	__u32 tp_done_result;
	__u32 tp_done_status;
	__u32 tp_done_retries;
	__u32 tp_done_flags;
	__u32 tp_sq_ctrl;
	__u32 tp_sq_qid;
	__u32 tp_sq_head;
	__u32 tp_sq_tail;
	__u32 tp_async_ctrl;
	__u32 tp_async_result;
	__u8 start_hook;  /* block_io_start is attached */
	__u8 start_field; /* read start_time_ns instead */
	/* The doorbell has hooks. 2: kprobes, which may miss a return. */
	__u8 doorbell;
	__u8 lossy; /* completions may be missed: a second setup need not be a requeue */
	/* recover.bpf.h: needs the driver's types, and generations in command ids (5.14). */
	__u8 recover;
	__u8 setup_skips; /* programs at tracepoints can be preempted (7.0): setups may be missed */
	__u8 exit_skips;  /* so can those at returns: of submitting functions */
	__u8 irq_count;	  /* interrupts are no threads: the CPU counts them */
	/* No nvme types: the queue's device names the controller, outcomes are not known. */
	__u8 by_name;
	__u8 check_fit; /* the nvme types come from a file: check that they fit */
	__u8 rq_second; /* block_rq_issue and block_rq_requeue have (queue, request), before 5.11 */
	__u8 cmd_arg;	/* nvme_setup_cmd has the command (before 5.14), not nvme_request */
	__u8 end;	/* fine stages: a command is finished when blk-mq ends it */
	__u8 trace;	/* ND_TRACE_* */
	__u8 stack;	/* ND_STACK_* */
	__u8 stack_at_entry; /* at submission: kretprobes have none */
	__u8 errors;
	__u8 targ_no_admin;
	__u8 targ_no_io;
	__u8 targ_by_opcode;
	__u8 targ_by_cgroup; /* ND_CGROUP_*; 0: no such filter */
	__u8 targ_submitter; /* processes, threads and the cgroup mean the submitter */
	__u8 targ_by_lba;
	__u8 targ_any;	   /* any filter */
	__u8 context;	   /* ND_BESIDE_*; traces only */
	__u8 hard_irq;	   /* interrupt handlers are no threads */
	__u8 softirq;	   /* the preemption count shows soft interrupts (not on PREEMPT_RT) */
	__u8 count_status; /* not in traces: failed commands by controller and status type */
	__u8 nests;	   /* programs with typed arguments may interrupt themselves (before 6.1) */
	__u8 details;	   /* not in traces: commands of each queue, and the slowest */
	__u16 rows;
	__u16 wait_points; /* ND_WAIT_* */
	__u16 by;	   /* ND_BY_* */
	__u8 waits;	   /* bio.bpf.h */
	__u8 start_bio;	   /* block_getrq shows when a bio gets its request */
	__u8 who;	   /* ND_WHO_* */
	/* The size class of a group, by 1 + the exponent of its bytes, rounded up; no data: 0. */
	__u8 by_size[64];
	__u8 unused[6];
};

enum nd_who {
	ND_WHO_ORIGIN = 1 << 0,	   /* events have a struct nd_origin */
	ND_WHO_SUBMITTER = 1 << 1, /* bios are followed from their submission */
	ND_WHO_BIO = 1 << 2,	   /* bios have the cgroup that caused them */
};

enum nd_by_cgroup {
	ND_CGROUP_BIO = 1,  /* by the bio's cgroup, else by the task's */
	ND_CGROUP_TASK = 2, /* by the task's cgroup */
};

_Static_assert(sizeof(struct nd_config) == 784 + (ND_HOOK_MAX + 63) / 64 * 8, "no padding");
