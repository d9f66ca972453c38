/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filters. A command must match all of them. */
#ifndef ND_FILTER_H
#define ND_FILTER_H

/* Results of fill_slot(). */
#define FILTERED     0
#define WANTED	     1
#define UNATTRIBUTED 2 /* a filter needs the submitter, which is unknown */

/* The cgroup of the filter. */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} cgroups SEC(".maps");

static __always_inline int in_list(const volatile u32 *list, u32 n, u32 value)
{
	for (u32 i = 0; i < ND_MAX_LIST; i++) {
		if (i >= n)
			return 0;
		if (list[i] == value)
			return 1;
	}
	return 0;
}

static __always_inline int wanted_ctrl(u32 ctrl)
{
	return !targ_by_ctrl || (targ_ctrls[(ctrl >> 6) & 3] >> (ctrl & 63)) & 1;
}

/* Whether a filter needs the submission of the command. */
static __always_inline int by_submission(void)
{
	return targ_pid_count || targ_comm_count || targ_by_cgroup;
}

/* Whether the current task is in the cgroup, and counts the command as selected by it. */
static __always_inline int in_cgroup_by_task(void)
{
	if (!targ_by_cgroup)
		return 1;
	if (bpf_current_task_under_cgroup(&cgroups, 0) != 1)
		return 0;
	count(ND_BY_TASK);
	return 1;
}

/* Whether a filter asks for this process or for a thread of this name. */
static __always_inline int wanted_process(u32 tgid, u64 comm[2])
{
	if (!targ_pid_count && !targ_comm_count)
		return 1;
	if (in_list(targ_pids, targ_pid_count, tgid))
		return 1;
	for (u32 i = 0; i < ND_MAX_LIST; i++) {
		if (i >= targ_comm_count)
			return 0;
		if (comm[0] == targ_comms[i][0] && comm[1] == targ_comms[i][1])
			return 1;
	}
	return 0;
}

/* The same for the current task. */
static __always_inline int wanted_caller(void)
{
	u64 comm[2] = {};

	if (targ_comm_count)
		bpf_get_current_comm(comm, sizeof(comm));
	return wanted_process(bpf_get_current_pid_tgid() >> 32, comm);
}

/* All filters except by task and by LBA. */
static __always_inline int wanted(u32 ctrl, u32 qid, u32 nsid, u8 opcode, u32 admin)
{
	if (!targ_any)
		return 1;
	if (targ_no_admin && admin)
		return 0;
	if (targ_no_io && !admin)
		return 0;
	if (!wanted_ctrl(ctrl))
		return 0;
	if (targ_by_opcode && !((targ_opcodes[admin & 1][opcode >> 6] >> (opcode & 63)) & 1))
		return 0;
	if (targ_nsid_count && !in_list(targ_nsids, targ_nsid_count, nsid))
		return 0;
	if (targ_qid_count && !in_list(targ_qids, targ_qid_count, qid))
		return 0;
	return 1;
}

/* `nlb` is zero based, as in the command. */
static __always_inline int wanted_blocks(u64 slba, u32 nlb)
{
	return slba <= targ_lba_last && slba + (nlb & 0xffff) >= targ_lba_first;
}

#endif
