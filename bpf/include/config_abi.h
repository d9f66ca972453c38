/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The configuration of a run. User space sets it before the load. The verifier treats it as
 * constants, and removes the code that a run does not need. Fields are ordered by size: there is no
 * padding.
 */
#ifndef ND_CONFIG_ABI_H
#define ND_CONFIG_ABI_H

struct nd_config {
	/* the kernel's code of interrupt entry, from first up to end; both 0: not known */
	__u64 irq_first;
	__u64 irq_end;
	/* trace only commands that took at least this long */
	__u64 slow_ns;
	__u64 lat_min_us;
	/* for tests: programs (bits by hook number) that ignore every n-th event */
	__u64 test_ignore;
	__u64 targ_ctrls[ND_MAX_CTRLS / 64];
	/* bitmaps of opcodes: I/O, admin */
	__u64 targ_opcodes[2][4];
	__u64 targ_comm[2];
	__u64 targ_lba_first;
	__u64 targ_lba_last;
	/* ND_MODE_* */
	__u32 mode;
	/* a stack is taken if a random number is below this; 0: every stack */
	__u32 sample_below;
	__u32 lat_shift;
	__u32 test_ignore_every;
	__u32 targ_nsid_count;
	__u32 targ_nsids[ND_MAX_LIST];
	__u32 targ_qid_count;
	__u32 targ_qids[ND_MAX_LIST];
	__u32 targ_pid_count;
	__u32 targ_pids[ND_MAX_LIST];
	/* offsets of fields in classic tracepoints (format files of tracefs) */
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
	/* cells are sharded by CPU; with fewer shards than CPUs the additions must be atomic */
	__u8 atomic;
	/* block_io_start is attached; else start_time_ns is read, if start_field */
	__u8 start_hook;
	__u8 start_field;
	/* the doorbell has hooks: remember what each task has set up; 2: by kprobes, which may miss
	 * one */
	__u8 doorbell;
	/* completions may be missed: a second set-up of a slot is not simply a requeue */
	__u8 lossy;
	/* the driver's types are known, and the generation in the command id changes with each
	 * completion (5.14): commands whose set-up or completion was not observed are found */
	__u8 recover;
	/* set-ups may be skipped, as programs at tracepoints may be preempted (7.0) */
	__u8 setup_skips;
	/* returns of the submitting functions may be skipped, as programs at functions may be
	 * preempted */
	__u8 exit_skips;
	/* interrupts are not threads: the CPU's count distinguishes one from the next */
	__u8 irq_count;
	/* there are no nvme types: the name of a queue's device gives its controller */
	__u8 by_name;
	/* the nvme types are from a file: check whether they fit */
	__u8 check_fit;
	/* block_rq_issue and block_rq_requeue have the request as their second argument
	 * (before 5.11) */
	__u8 rq_second;
	/* the command is nvme_setup_cmd's third argument (before 5.14), not in nvme_request */
	__u8 cmd_arg;
	/* fine stage set: a command is finished when blk-mq ends it, not when the driver completes
	 * it */
	__u8 end;
	__u8 split_size;
	__u8 commands;
	/* single commands: ND_TRACE_*, ND_STACK_* */
	__u8 trace;
	__u8 stack;
	/* the stack at submission must be taken when nvme_setup_cmd begins: kretprobes have none */
	__u8 stack_at_entry;
	/* status and result of the driver can be read */
	__u8 verdict;
	__u8 errors;
	__u8 lat;
	__u8 targ_no_admin;
	__u8 targ_no_io;
	__u8 targ_by_ctrl;
	__u8 targ_by_opcode;
	__u8 targ_by_comm;
	__u8 targ_by_cgroup;
	__u8 targ_by_lba;
	/* any filter is set */
	__u8 targ_any;
	__u8 unused[2];
};

_Static_assert(sizeof(struct nd_config) == 504, "no padding");

#endif
