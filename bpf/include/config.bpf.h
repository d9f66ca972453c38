/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space sets before the load. Read-only data: the verifier sees constants and removes
 * what a run does not need.
 */
#ifndef ND_CONFIG_H
#define ND_CONFIG_H

const volatile u32 cfg_mode = ND_MODE_TOTAL;
/* cells are sharded by CPU; with fewer shards than CPUs the additions must be atomic */
const volatile u8 cfg_atomic = 0;
/* block_io_start is attached; else start_time_ns is looked at, if cfg_start_field */
const volatile u8 cfg_start_hook = 0;
const volatile u8 cfg_start_field = 0;
/* the doorbell has hooks: remember what each task has set up. 2: by kprobes, which may miss one */
const volatile u8 cfg_doorbell = 0;
/* completions may go unseen: a slot that is set up again is not simply a requeue */
const volatile u8 cfg_lossy = 0;
/* the driver's types are known, and the generation in the command id moves on with each completion
 * (5.14): commands whose set-up or completion was not observed can be found */
const volatile u8 cfg_recover = 0;
/* set-ups may be skipped, as programs at tracepoints may be preempted (7.0) */
const volatile u8 cfg_setup_skips = 0;
/* returns of the submitting functions may be skipped, as programs at functions may be preempted */
const volatile u8 cfg_exit_skips = 0;
/* interrupts are not threads: one that has ended can be told from the next by the CPU's count */
const volatile u8 cfg_irq_count = 0;
/* there are no nvme types: a queue's controller is known by the name of its device */
const volatile u8 cfg_by_name = 0;
/* the nvme types are not the kernel's own word: look whether they fit */
const volatile u8 cfg_check_fit = 0;
/* block_rq_issue and block_rq_requeue have the request as their second argument (before 5.11) */
const volatile u8 cfg_rq_second = 0;
/* the command is nvme_setup_cmd's third argument (before 5.14), not in nvme_request */
const volatile u8 cfg_cmd_arg = 0;
/* fine cut: commands are finished when blk-mq ends them, not when the driver completes them */
const volatile u8 cfg_end = 0;
const volatile u8 cfg_split_size = 0;
const volatile u8 cfg_commands = 0;

/* single commands: ND_TRACE_*, ND_STACK_* */
const volatile u8 cfg_trace = 0;
const volatile u8 cfg_stack = 0;
/* the stack at submission must be taken when nvme_setup_cmd begins: kretprobes have none */
const volatile u8 cfg_stack_at_entry = 0;
/* a random number below this: this one's stack is taken. 0: every one's */
const volatile u32 cfg_sample_below = 0;
/* where interrupts come in, up to; both 0: not known */
const volatile u64 cfg_irq_first = 0;
const volatile u64 cfg_irq_end = 0;
/* the driver's word on the outcome can be read */
const volatile u8 cfg_verdict = 0;
const volatile u64 cfg_slow_ns = 0;
const volatile u8 cfg_errors = 0;

const volatile u8 cfg_lat = 0;
const volatile u64 cfg_lat_min_us = 0;
const volatile u32 cfg_lat_shift = 0;

/* For tests: each of these programs (bits by number) ignores every n-th of its events. */
const volatile u32 test_ignore_every = 0;
const volatile u64 test_ignore = 0;

/*
 * The builds for the usual cases: a kernel that describes itself, where completions are not lost,
 * no filter. ND_USUAL alone is a trace of single commands; of latencies without extras each cut has
 * one, ND_ONLY. The verifier removes the code that its constants don't reach, but
 * neither the loads of them, nor what clang has done for the sake of that code. User space takes
 * these builds only where the constants are what they are here.
 */
#ifdef ND_USUAL
#define cfg_lossy	   0
#define cfg_by_name	   0
#define cfg_check_fit	   0
#define cfg_rq_second	   0
#define cfg_cmd_arg	   0
#define cfg_split_size	   0
#define cfg_commands	   0
#define cfg_lat		   0
#define cfg_stack_at_entry 0
#define test_ignore_every  0
#endif
#ifdef ND_ONLY
#define cfg_mode    ND_ONLY
#define cfg_trace   0
#define cfg_stack   0
#define cfg_verdict 0
#if ND_ONLY != ND_MODE_FINE
#define cfg_end 0
#endif
#if ND_ONLY == ND_MODE_TOTAL
#define cfg_start_hook	0
#define cfg_start_field 0
#define cfg_doorbell	0
#endif
#endif

#endif
