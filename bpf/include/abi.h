/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: map values, counters, limits.
 *
 * One source. libbpf-cargo turns these declarations into the Rust types of src/abi.rs, through the
 * anchors at the end of nvme_deep.bpf.c. Fixed width, explicit padding, no kernel types, sizes
 * asserted on both sides.
 */
#ifndef ND_ABI_H
#define ND_ABI_H

/* Log-linear buckets: 2^ND_HIST_SUB_BITS per power of two, so half a bucket is at most 6.25 %.
 * The same rule is src/model/histogram.rs; tests/parity.rs holds the two together. */
#define ND_HIST_SUB_BITS 3
#define ND_HIST_MAX_EXP	 35
#define ND_HIST_BUCKETS	 ((ND_HIST_MAX_EXP - ND_HIST_SUB_BITS + 2) << ND_HIST_SUB_BITS)

/* nvme_latency's bucket rule: 27 slots, one below, one above (src/lat_buckets.rs). */
#define ND_LAT_IN    27
#define ND_LAT_BELOW 27
#define ND_LAT_ABOVE 28
#define ND_LAT_SLOTS 29

#define ND_MAX_CTRLS	  256  /* instances that fit the row key's eight bits */
#define ND_MAX_QUEUE_IDS  4096 /* request_queue ids (an ida: small numbers) that are cached */
#define ND_ROW_CACHE	  1024
#define ND_TASKS	  1024
#define ND_TASK_SLOTS	  256
#define ND_PLACE_BITS	  4  /* hardware queues that each hook of a CPU knows: 16 */
#define ND_MAX_LIST	  16 /* entries of a list filter */
#define ND_MAX_NAMESPACES 4096

/* Every program, one hit counter each: the rows of src/probe/catalog.rs. */
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
	ND_HOOK_CQE_TWIN,	       /* tp_btf nvme_sq */
	/* what a trace tells beside the commands */
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
	ND_HOOK_SETUP_OUT_TP,	/* tp nvme_setup_cmd */
	ND_HOOK_COMPLETE_TP,	/* tp nvme_complete_rq */
	ND_HOOK_SQ_TP,		/* tp nvme_sq */
	ND_HOOK_ASYNC_TP,	/* tp nvme_async_event */
	ND_HOOK_MAX,
};

/* What did not go the plain way. Each is in the ledger of every report. */
enum nd_count {
	ND_FILTERED = 0,   /* set-ups that a filter rejected */
	ND_FILTERED_DONE,  /* completions of those */
	ND_UNTRACKED,	   /* setups outside the slot table (unknown controller, queue, tag) */
	ND_UNTRACKED_DONE, /* completions outside the slot table */
	ND_ORPHAN_DONE,	   /* completions of commands that were set up before the run */
	ND_REQUEUED,	 /* set up again without having completed (no resources, blk-mq requeue) */
	ND_OVERWRITTEN,	 /* another request took the slot, and nothing shows how this one ended */
	ND_UNSEEN_SETUP, /* set-ups that were not observed: the CQE or the completion shows them */
	ND_UNSEEN_COMPLETE, /* completions that were not observed: the command id shows them */
	ND_UNATTRIBUTED,    /* of the unseen set-ups: a filter asks for the submitter */
	ND_UNMEASURED,	    /* traces: commands without a latency, for one of these reasons */
	ND_NO_ROW,	    /* finished, but the row table was full */
	ND_LATE_DOORBELL,   /* the interrupt came before the submitting function returned */
	ND_UNSURE_DOORBELL, /* an earlier doorbell was not observed: this one may not be theirs */
	ND_EARLY_IRQ,	    /* the interrupt had begun before the doorbell */
	ND_NEGATIVE,	    /* points out of order for no reason that we know */
	ND_PENDING_FULL,    /* doorbell list of a task full */
	ND_RING_FULL,	    /* commands' last records that found no room in the ring */
	ND_START_UNTRUSTED, /* start_time_ns failed its checks */
	ND_MISFIT,	    /* a queue that contradicts the type information we were given */
	ND_FINISHED,	    /* trace: commands seen to their end */
	ND_QUIET,	    /* trace: of these, not shown: fast enough, or without an error */
	ND_LOST_SUBMIT,	    /* trace: submit events that found no room in the ring */
	ND_LOST_EVENT,	    /* trace: other events than submit and complete that did not */
	ND_NO_STACK,	    /* stacks that the kernel could not take */
	ND_STACKS_FULL,	    /* stacks that found no room in the table */
	ND_COUNT_MAX,
};

/* Which points of a command were seen; the pattern is part of the row key, so that merged stages
 * have histograms of their own. */
#define ND_SAW_START	(1u << 0)
#define ND_SAW_SETUP_IN (1u << 1)
#define ND_SAW_ISSUE	(1u << 2)
#define ND_SAW_DOORBELL (1u << 3)
#define ND_SAW_IRQ	(1u << 4)
#define ND_SAW_CQE	(1u << 5)
#define ND_SAW_END	(1u << 6)
#define ND_SAW_ALL	((1u << 7) - 1)
/* The two points that nearly every command has: these bits are set where one was not observed. */
#define ND_NO_SETUP    (1u << 7)
#define ND_NO_COMPLETE (1u << 8)
#define ND_NO_ANY      (ND_NO_SETUP | ND_NO_COMPLETE)
#define ND_SAW_BASIC   (ND_SAW_START | ND_SAW_DOORBELL | ND_SAW_CQE)

/* What becomes of single commands. */
#define ND_TRACE_OFF	0
#define ND_TRACE_EVENTS 1 /* an event at the setup, one at the completion */
#define ND_TRACE_PAIRS	2 /* one event at the completion */
#define ND_TRACE_STACKS 3 /* counted by their stack */

#define ND_STACK_NONE	  0
#define ND_STACK_SUBMIT	  1
#define ND_STACK_COMPLETE 2
#define ND_STACK_DEPTH	  64

/* Row key, 52 bits: valid | ctrl 8 | nsid 23 | opcode 8 | admin 1 | size class 2 | pattern 9.
 * The cache keeps it with 12 bits of row number in one word, so that it can't tear. */
#define ND_KEY_PATTERN_SHIFT 0
#define ND_KEY_PATTERN_BITS  9
#define ND_KEY_CLASS_SHIFT   9
#define ND_KEY_ADMIN_SHIFT   11
#define ND_KEY_OPCODE_SHIFT  12
#define ND_KEY_NSID_SHIFT    20
#define ND_KEY_NSID_MASK     0x7fffffu
#define ND_KEY_CTRL_SHIFT    43
#define ND_KEY_VALID	     (1ull << 51)
#define ND_ROW_BITS	     12
#define ND_MAX_ROWS	     (1u << ND_ROW_BITS)

#define ND_CLASS_NONE  0
#define ND_CLASS_SMALL 1 /* <= 16 KiB */
#define ND_CLASS_MID   2 /* (16 KiB, 64 KiB] */
#define ND_CLASS_LARGE 3 /* > 64 KiB */

/* How deep the cut is: what --stages asked for. */
#define ND_MODE_TOTAL 0 /* setup out .. complete */
#define ND_MODE_BASIC 1 /* queue, submit, device, complete, total */
#define ND_MODE_FINE  2 /* every stage between neighbouring points, total */

#define ND_STAGES_TOTAL 1
#define ND_STAGES_BASIC 5
#define ND_STAGES_FINE	9

struct nd_hist {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 bucket[ND_HIST_BUCKETS];
};

/* One row of one shard. The tail holds as many histograms as the mode has stages. */
struct nd_cell {
	__u64 bytes;
	__u64 unmeasured; /* commands of which no interval was observed; in no histogram */
	__u64 lat[ND_LAT_SLOTS];
	struct nd_hist hist[ND_STAGES_FINE];
};

#define ND_CELL_HEAD (16 + 8 * ND_LAT_SLOTS)

enum nd_state {
	ND_FREE = 0,
	ND_OPEN,      /* set up, not completed */
	ND_SKIPPED,   /* set up, turned away by a filter */
	ND_COMPLETED, /* fine cut: completed, blk-mq has not ended it yet */
	ND_BACK,      /* set up, then turned away by the driver: blk-mq has it again */
};

/* What a command asks for, and who asks. */
struct nd_asked {
	__u64 stack;
	__u32 cdw[6]; /* CDW10 .. CDW15 */
	__u8 comm[16];
	__u32 tgid;
	__u32 tid;
	__u32 nsid;
	__u32 bytes;
	__u8 flags;    /* CDW0 bits 15:8 */
	__u8 metadata; /* the request has some */
	__u16 cpu;
	__u32 known; /* ND_KNOWN_* */
};

#define ND_KNOWN_BYTES	   (1u << 0)
#define ND_KNOWN_SUBMITTER (1u << 1) /* tgid, tid, comm, cpu */

/* How the driver says that it ended. */
struct nd_outcome {
	__u64 stack;
	__u64 result;
	__u16 status;
	__u8 retries;
	__u8 flags; /* NVME_REQ_* */
	__u16 cpu;
	__u16 known; /* the driver could be asked */
};

/* One command in flight, by (controller, queue, tag). The first 64 bytes serve the total and basic
 * stage sets. */
struct nd_slot {
	__u64 rq; /* struct request *: whose slot this is */
	/* row key << ND_ROW_BITS | row: as the last command here was counted; without ND_KEY_VALID
	 * this one has another key, and no row yet. The pattern is the last one's. */
	__u64 key;
	__u64 start_ns;
	__u64 setup_out_ns;
	__u64 doorbell_ns;
	__u64 cqe_ns;
	__u32 bytes;
	__u32 tid; /* the task that set it up: only its doorbell counts */
	__u8 state;
	__u8 _pad;
	__u16 saw; /* pattern of points, while the command is being finished */
	__u16 cid; /* on the wire: generation << 12 | tag */
	__u16 qid;
	/* fine cut only */
	__u64 setup_in_ns;
	__u64 issue_ns;
	__u64 irq_ns;
	/* between the driver's completion and blk-mq's end; in traces that do not see the end, the
	 * request that the last command here had, once that is over */
	__u64 complete_ns;
	/* traces only */
	struct nd_asked asked;
	struct nd_outcome outcome;
};

#define ND_SLOT_BASIC 64
#define ND_SLOT_FINE  96
#define ND_SLOT_TRACE 192

/* Start of a request that has not reached the driver, and where a scheduled one was last set up. */
struct nd_start {
	__u64 rq;
	__u64 ns;
	__u64 setup_rq;
	__u32 setup_slot;
	__u32 mark; /* of the request's use: see mark_of() */
};

/* Where a controller's slots lie. Written by user space; stride 0 = not known. */
struct nd_ctrl {
	__u32 base;
	__u32 stride;	/* tags per queue, a power of two */
	__u32 queues;	/* admin queue included */
	__u32 doorbell; /* the PCI driver's; the other transports have none, and no hook for one */
};

/* What a request_queue belongs to; a cache, rewritten by every setup that finds it wrong. */
struct nd_queue {
	__u64 q; /* struct request_queue * */
	__u32 base;
	__u32 stride;
	__u32 queues; /* 0: not an NVMe queue */
	__u32 io;     /* 0: admin queue */
};

/* Commands that a task has set up and not yet announced by a doorbell. */
struct nd_task {
	__u32 tid;
	__u32 n;
	__u64 setup_in_rq;
	__u64 setup_in_ns;
	/* kprobes only: what was seen at entry, for the return */
	__u64 setup_cmd;
	__u64 setup_stack;
	__u64 hctx;
	__u64 bd;
	__u32 setup_tid;
	__u32 inside; /* which submitting function, ND_INSIDE_* */
	/* of the commands that wait for a doorbell: the last request, the driver's queue (struct
	 * nvme_queue *), and its last_sq_tail when the first was set up */
	__u64 last_rq;
	__u64 nvmeq;
	__u32 announced_tail;
	__u32 setup_in_gen;
	__u32 slot[ND_TASK_SLOTS];
};

#define ND_INSIDE_QUEUE_RQ   1
#define ND_INSIDE_QUEUE_RQS  2
#define ND_INSIDE_COMMIT_RQS 3

/*
 * Where the commands of a hardware queue of blk-mq (of one namespace) have their slots, as one hook
 * on one CPU remembers it.
 */
struct nd_place {
	__u64 hctx; /* struct blk_mq_hw_ctx *; 0: nothing here */
	__u32 first;
	__u32 tags;   /* a power of two */
	__u32 age;    /* of places_age */
	__u32 spread; /* see start_entry() */
};

/* What the setup remembers. */
struct nd_where {
	struct nd_place place;
	__u64 ctrl; /* struct nvme_ctrl * */
	__u64 key;  /* what the row keys of its commands have in common */
	__u32 qid;  /* 0: an admin queue's */
	__u32 doorbell;
};

/* The other hooks that remember, each for itself: none interrupts itself on its CPU. */
#define ND_AT_START    0
#define ND_AT_ISSUE    1
#define ND_AT_CQE      2
#define ND_AT_COMPLETE 3
#define ND_AT_END      4
#define ND_AT_CQE_TWIN 5
#define ND_AT_MAX      6

struct nd_cpu {
	__u64 hits[ND_HOOK_MAX];
	__u64 count[ND_COUNT_MAX];
	__u64 irq_ns;		    /* 0: not in nvme_irq */
	__u64 irq_nvmeq;	    /* struct nvme_queue * that it serves */
	__u64 irq_id;		    /* see this_interrupt() */
	__u64 offered[ND_HOOK_MAX]; /* tests only, see ignored() */
	__u32 first_cell; /* of its shard; set by user space before anything is attached */
	__u32 _pad[17];
	struct nd_where admin; /* of the setup in hand */
	struct nd_where where[1 << ND_PLACE_BITS];
	struct nd_place place[ND_AT_MAX][1 << ND_PLACE_BITS];
};

#define ND_RECORD_COMMAND 1
#define ND_RECORD_VERSION 1

/* One finished command, for --commands. Times are CLOCK_MONOTONIC ns, 0 = not observed. */
struct nd_record {
	__u8 kind;
	__u8 version;
	__u16 cid;
	__u16 qid;
	__u16 _pad;
	__u32 bytes;
	__u32 tid;
	__u64 key; /* with the pattern */
	__u64 start_ns;
	__u64 setup_in_ns;
	__u64 setup_out_ns;
	__u64 issue_ns;
	__u64 doorbell_ns;
	__u64 irq_ns;
	__u64 cqe_ns;
	__u64 complete_ns;
	__u64 end_ns;
};

/* Events of a trace. The kinds of src/abi/events.rs. */
enum nd_kind {
	ND_KIND_SUBMIT = 2, /* 1 is ND_RECORD_COMMAND */
	ND_KIND_COMPLETE,
	ND_KIND_PAIR,
	ND_KIND_SQ,	 /* value: head, tail << 16 */
	ND_KIND_TIMEOUT, /* value: when it was set up */
	ND_KIND_CANCEL,	 /* value: when it was set up */
	ND_KIND_REQUEUE,
	ND_KIND_RETRY, /* value: how often; ~0: not known */
	ND_KIND_ASYNC, /* value: result */
	ND_KIND_STATE, /* value: new state, 1 << 32 where it was only asked for */
};

/* What every event begins with. */
struct nd_event {
	__u8 kind;
	__u8 admin;
	__u8 opcode;
	__u8 _pad;
	__u16 qid;
	__u16 cid;
	__u64 ns;
	__u16 ctrl;
	__u16 pattern; /* ND_SAW_*, ND_NO_*, of complete and pair */
	__u32 nsid;
};

struct nd_submit {
	struct nd_event event;
	struct nd_asked asked;
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

/* The times are there if there are stages. */
struct nd_complete {
	struct nd_event event;
	struct nd_outcome outcome;
	__u64 setup_out_ns;
	struct nd_times times;
};

struct nd_pair {
	struct nd_event event;
	struct nd_outcome outcome;
	__u64 setup_out_ns;
	struct nd_asked asked;
	struct nd_times times;
};

struct nd_other {
	struct nd_event event;
	__u64 value;
};

/* A distinct stack, innermost frame first. */
struct nd_stack {
	__u64 depth;
	__u64 frame[ND_STACK_DEPTH];
};

/* The commands that came through a stack. */
struct nd_stack_sum {
	struct nd_hist hist;
	__u64 unmeasured; /* as in nd_cell */
};

/* The commands whose stack was not observed are summed under this number. */
#define ND_STACK_UNSEEN 1

/* What user space asks of the program `service`, by BPF_PROG_TEST_RUN. */
#define ND_SERVE_BEGIN	   0 /* the run begins now */
#define ND_SERVE_COMPLETED 1 /* whether the command of a slot has completed, unseen */
#define ND_SERVE_CLOSE	   2 /* count it as one of which this is known */
#define ND_SERVE_END	   3 /* which commands can be recovered from now on (ND_END_*) */
#define ND_SERVE_FORGET	   4 /* slots of a controller have moved */

#define ND_END_NONE   0 /* none */
#define ND_END_NOW    1 /* those that were issued until now */
#define ND_END_RESUME 2 /* all, as before */

/* Where a program builds a stack: one per CPU and kind of hook. */
struct nd_scratch {
	__u64 busy;
	struct nd_stack stack;
};

#define ND_SCRATCHES 2 /* submit, complete */

_Static_assert(ND_HIST_BUCKETS == 272, "src/model/histogram.rs has the same number");
_Static_assert(sizeof(struct nd_hist) == 2192, "histogram layout");
_Static_assert(sizeof(struct nd_cell) == ND_CELL_HEAD + 9 * 2192, "cell layout");
_Static_assert(sizeof(struct nd_slot) == ND_SLOT_TRACE, "slot layout");
_Static_assert(__builtin_offsetof(struct nd_slot, asked) == ND_SLOT_FINE, "fine part");
_Static_assert(sizeof(struct nd_asked) == 72, "no padding");
_Static_assert(sizeof(struct nd_outcome) == 24, "no padding");
_Static_assert(sizeof(struct nd_event) == 24, "no padding");
_Static_assert(__builtin_offsetof(struct nd_slot, setup_in_ns) == ND_SLOT_BASIC, "basic half");
_Static_assert(sizeof(struct nd_record) == 96, "record layout");
_Static_assert(sizeof(struct nd_place) == 24, "no padding");
_Static_assert(sizeof(struct nd_where) == 48, "no padding");
_Static_assert(sizeof(struct nd_cpu) % 64 == 0, "no cache line shared by two CPUs");

#endif
