/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The configuration of a run (config_abi.h). It has its own section, which is one map. */
#ifndef ND_CONFIG_H
#define ND_CONFIG_H

#include "config_abi.h"

const volatile struct nd_config config SEC(".rodata.config") = {};

#define cfg_mode	   config.mode
#define cfg_atomic	   config.atomic
#define cfg_rows	   config.rows
#define cfg_start_hook	   config.start_hook
#define cfg_start_field	   config.start_field
#define cfg_doorbell	   config.doorbell
#define cfg_lossy	   config.lossy
#define cfg_recover	   config.recover
#define cfg_setup_skips	   config.setup_skips
#define cfg_exit_skips	   config.exit_skips
#define cfg_irq_count	   config.irq_count
#define cfg_by_name	   config.by_name
#define cfg_check_fit	   config.check_fit
#define cfg_rq_second	   config.rq_second
#define cfg_cmd_arg	   config.cmd_arg
#define cfg_end		   config.end
#define cfg_split_size	   config.split_size
#define cfg_trace	   config.trace
#define cfg_stack	   config.stack
#define cfg_stack_at_entry config.stack_at_entry
#define cfg_sample_below   config.sample_below
#define cfg_irq_first	   config.irq_first
#define cfg_irq_end	   config.irq_end
#define cfg_verdict	   config.verdict
#define cfg_slow_ns	   config.slow_ns
#define cfg_errors	   config.errors
#define cfg_context	   config.context
#define cfg_hard_irq	   config.hard_irq
#define cfg_softirq	   config.softirq
#define cfg_count_status   config.count_status
#define cfg_details	   config.details
#define cfg_lat		   config.lat
#define cfg_lat_min_us	   config.lat_min_us
#define cfg_lat_shift	   config.lat_shift
#define test_ignore_every  config.test_ignore_every
#define test_ignore	   config.test_ignore
#define targ_no_admin	   config.targ_no_admin
#define targ_no_io	   config.targ_no_io
#define targ_by_ctrl	   config.targ_by_ctrl
#define targ_ctrls	   config.targ_ctrls
#define targ_by_opcode	   config.targ_by_opcode
#define targ_opcodes	   config.targ_opcodes
#define targ_nsid_count	   config.targ_nsid_count
#define targ_nsids	   config.targ_nsids
#define targ_qid_count	   config.targ_qid_count
#define targ_qids	   config.targ_qids
#define targ_pid_count	   config.targ_pid_count
#define targ_pids	   config.targ_pids
#define targ_by_comm	   config.targ_by_comm
#define targ_comm	   config.targ_comm
#define targ_by_cgroup	   config.targ_by_cgroup
#define targ_container	   config.targ_container
#define targ_cgroup_id	   config.targ_cgroup_id
#define targ_by_lba	   config.targ_by_lba
#define targ_lba_first	   config.targ_lba_first
#define targ_lba_last	   config.targ_lba_last
#define targ_any	   config.targ_any
#define tp_setup_ctrl	   config.tp_setup_ctrl
#define tp_setup_qid	   config.tp_setup_qid
#define tp_setup_opcode	   config.tp_setup_opcode
#define tp_setup_cid	   config.tp_setup_cid
#define tp_setup_nsid	   config.tp_setup_nsid
#define tp_setup_cdw10	   config.tp_setup_cdw10
#define tp_setup_flags	   config.tp_setup_flags
#define tp_setup_metadata  config.tp_setup_metadata
#define tp_done_ctrl	   config.tp_done_ctrl
#define tp_done_qid	   config.tp_done_qid
#define tp_done_cid	   config.tp_done_cid
#define tp_done_result	   config.tp_done_result
#define tp_done_status	   config.tp_done_status
#define tp_done_retries	   config.tp_done_retries
#define tp_done_flags	   config.tp_done_flags
#define tp_sq_ctrl	   config.tp_sq_ctrl
#define tp_sq_qid	   config.tp_sq_qid
#define tp_sq_head	   config.tp_sq_head
#define tp_sq_tail	   config.tp_sq_tail
#define tp_async_ctrl	   config.tp_async_ctrl
#define tp_async_result	   config.tp_async_result

/*
 * Builds for the usual cases: the kernel has BTF of itself and of the driver, no completions are
 * lost, no filter. ND_USUAL alone traces single commands. ND_ONLY selects a stage set: a build for
 * latencies without extras, or with ND_STATUS also for failed commands. The verifier removes code
 * that is unreachable with the constants of a run, but not the loads of these constants, nor what
 * clang generates because of that code. User space uses these builds only if the constants of the
 * run have the values defined here.
 */
#ifdef ND_USUAL
#undef cfg_lossy
#define cfg_lossy 0
#undef cfg_by_name
#define cfg_by_name 0
#undef cfg_check_fit
#define cfg_check_fit 0
#undef cfg_rq_second
#define cfg_rq_second 0
#undef cfg_cmd_arg
#define cfg_cmd_arg 0
#undef cfg_split_size
#define cfg_split_size 0
#undef cfg_lat
#define cfg_lat 0
#undef cfg_stack_at_entry
#define cfg_stack_at_entry 0
#undef test_ignore_every
#define test_ignore_every 0
#undef targ_any
#define targ_any 0
#undef targ_by_lba
#define targ_by_lba 0
#undef targ_container
#define targ_container 0
#ifndef ND_STATUS
#undef cfg_details
#define cfg_details 0
#endif
#endif
#ifdef ND_ONLY
#undef cfg_mode
#define cfg_mode ND_ONLY
#undef cfg_trace
#define cfg_trace 0
#undef cfg_stack
#define cfg_stack 0
#undef cfg_verdict
#define cfg_verdict 0
#undef cfg_context
#define cfg_context 0
#undef cfg_count_status
#ifdef ND_STATUS
#define cfg_count_status 1
#else
#define cfg_count_status 0
#endif
#undef cfg_end
#define cfg_end (ND_ONLY == ND_MODE_FINE ? config.end : 0)
#undef cfg_start_hook
#define cfg_start_hook (ND_ONLY == ND_MODE_TOTAL ? 0 : config.start_hook)
#undef cfg_start_field
#define cfg_start_field (ND_ONLY == ND_MODE_TOTAL ? 0 : config.start_field)
#undef cfg_doorbell
#define cfg_doorbell (ND_ONLY == ND_MODE_TOTAL ? 0 : config.doorbell)
#endif

#endif
