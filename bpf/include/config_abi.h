/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The configuration of a run. User space sets it before the load. The verifier treats it as
 * constants and removes the code that the run does not need. The order by size avoids padding. */
#ifndef ND_CONFIG_ABI_H
#define ND_CONFIG_ABI_H

struct nd_config {
	/* [irq_first, irq_end): the kernel's interrupt entry code. Both 0: unknown. */
	__u64 irq_first;
	__u64 irq_end;
	/* Trace only commands that took at least this long. */
	__u64 slow_ns;
	/* Tests only: programs (bits by hook number) that ignore every n-th event. */
	__u64 test_ignore[(ND_HOOK_MAX + 63) / 64];
	__u64 targ_ctrls[ND_MAX_CTRLS / 64];
	/* Bitmaps of opcodes: I/O, admin. */
	__u64 targ_opcodes[2][4];
	/* Processes and names of threads: one of them must match. */
	__u64 targ_comms[ND_MAX_LIST][2];
	/* The id of the cgroup, with ND_CGROUP_BIO. */
	__u64 targ_cgroup_id;
	__u64 targ_lba_first;
	__u64 targ_lba_last;
	/* ND_MODE_* */
	__u32 mode;
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
	/* start_hook: block_io_start is attached. start_field: read start_time_ns instead. */
	__u8 start_hook;
	__u8 start_field;
	/* The doorbell has hooks: record the commands that each task sets up. 2: the hooks are
	 * kprobes, which may miss a return. */
	__u8 doorbell;
	/* Completions may be missed: a second set-up of a slot is not necessarily a requeue. */
	__u8 lossy;
	/* The driver's types are available, and command ids have a generation (5.14). Commands
	 * whose set-up or completion was not observed are recovered. */
	__u8 recover;
	/* The kernel may skip set-ups: programs at tracepoints can be preempted (7.0). */
	__u8 setup_skips;
	/* The kernel may skip returns of submitting functions: their programs can be preempted. */
	__u8 exit_skips;
	/* Interrupts are not threads: the CPU's interrupt count distinguishes them. */
	__u8 irq_count;
	/* No nvme types: the controller is identified by the name of the queue's device. */
	__u8 by_name;
	/* The nvme types come from a file: check that they fit. */
	__u8 check_fit;
	/* block_rq_issue and block_rq_requeue: the request is the second argument (before 5.11). */
	__u8 rq_second;
	/* The command is nvme_setup_cmd's third argument (before 5.14), not in nvme_request. */
	__u8 cmd_arg;
	/* Fine stage set: a command is finished when blk-mq ends it, not at its completion. */
	__u8 end;
	/* Single commands: ND_TRACE_*, ND_STACK_*. */
	__u8 trace;
	__u8 stack;
	/* Take the submission stack at the entry of nvme_setup_cmd: kretprobes have none. */
	__u8 stack_at_entry;
	/* The driver's status and result can be read. */
	__u8 verdict;
	__u8 errors;
	__u8 targ_no_admin;
	__u8 targ_no_io;
	__u8 targ_by_ctrl;
	__u8 targ_by_opcode;
	/* ND_CGROUP_*: how commands of the cgroup are selected; 0: no such filter. */
	__u8 targ_by_cgroup;
	/* Processes, threads and the cgroup are those of the submitter. */
	__u8 targ_submitter;
	__u8 targ_by_lba;
	/* Any filter is set. */
	__u8 targ_any;
	/* Observe the conditions of commands (ND_BESIDE_*); traces only. */
	__u8 context;
	/* Interrupt handlers interrupt tasks: they are not threads. */
	__u8 hard_irq;
	/* The preemption count of a CPU shows soft interrupts (not on PREEMPT_RT). */
	__u8 softirq;
	/* Without a trace: count failed commands by controller and status type. */
	__u8 count_status;
	/* A typed program may interrupt itself on its CPU (before 6.1). */
	__u8 nests;
	/* Without a trace: count the commands of each queue, and report the slowest. */
	__u8 details;
	__u16 rows;
	/* ND_WAIT_*: the points before the request that this run observes. */
	__u16 wait_points;
	/* ND_BY_*: the properties by which commands are grouped. */
	__u16 by;
	/* Observe the waits before the request (bio.bpf.h). */
	__u8 waits;
	/* block_getrq shows when a bio gets its request (on_bio_start()). */
	__u8 start_bio;
	/* ND_WHO_* */
	__u8 who;
	/* The size class of a group, by 1 + the exponent of its bytes, rounded up; of no data: 0.
	 */
	__u8 by_size[64];
	__u8 unused[4];
};

/* Who caused a command. */
enum nd_who {
	ND_WHO_ORIGIN = 1 << 0,	   /* events have a struct nd_origin */
	ND_WHO_SUBMITTER = 1 << 1, /* bios are followed from their submission */
	ND_WHO_BIO = 1 << 2,	   /* bios have the cgroup that caused them */
};

enum nd_by_cgroup {
	ND_CGROUP_BIO = 1,  /* by the bio's cgroup, else by the task's */
	ND_CGROUP_TASK = 2, /* by the task's cgroup */
};

_Static_assert(sizeof(struct nd_config) == 816 + (ND_HOOK_MAX + 63) / 64 * 8, "no padding");

#endif
