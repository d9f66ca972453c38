/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filters. A command must match all of them. */
#pragma once

#include "maps.bpf.h"

/* Results of fill_slot(). */
#define FILTERED     0
#define WANTED	     1
#define UNATTRIBUTED 2 /* a filter needs the submitter, which is unknown */

MAP(cgroups, CGROUP_ARRAY, u32, u32, 1);

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

static __always_inline int wanted_caller(void)
{
	u64 comm[2] = {};

	if (targ_comm_count)
		bpf_get_current_comm(comm, sizeof(comm));
	return wanted_process(bpf_get_current_pid_tgid() >> 32, comm);
}

/* All filters except by controller (the others have no slots), by task and by LBA. */
static __always_inline int wanted(u32 qid, u32 nsid, u8 opcode, u32 admin)
{
	if (!targ_any)
		return 1;
	if (admin ? targ_no_admin : targ_no_io)
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

/* The filter by cgroup. A bio has the cgroup that caused it: for writeback, the one that wrote the
 * pages. Commands without such a bio are selected by the current task. */

/* Levels of cgroups that are searched. */
#define ND_CGROUP_DEPTH 32

#define HAVE_BIO_CGROUP                                                                            \
	(bpf_core_field_exists(struct bio, bi_blkg) &&                                             \
	 bpf_core_field_exists(struct blkcg_gq, blkcg) &&                                          \
	 bpf_core_field_exists(struct kernfs_node, id))

static __always_inline u64 cgroup_of_bio(u64 bio)
{
	u64 at;

	if (!HAVE_BIO_CGROUP)
		return 0;
	at = FIELD_AT(bio, struct bio, bi_blkg);
	if (at)
		at = FIELD_AT(at, struct blkcg_gq, blkcg);
	if (at)
		at = FIELD_AT(at, struct blkcg, css.cgroup);
	return at;
}

/* The cgroup of a request's first bio; 0: none. From 5.18 on all its bios have this cgroup. */
static __always_inline u64 cgroup_of(struct request *rq)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio);

	return bio ? cgroup_of_bio(bio) : 0;
}

/* The cgroup charged with the task's I/O: the nearest with the io controller. 0: not known. */
static __always_inline u64 charged_cgroup(void)
{
	u64 at, of_io;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id))
		return 0;
	of_io = bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id) * sizeof(u64);
	at = FIELD_AT(bpf_get_current_task(), struct task_struct, cgroups);
	if (at)
		at = peek(at + bpf_core_field_offset(struct css_set, subsys) + of_io);
	if (at)
		at = FIELD_AT(at, struct cgroup_subsys_state, cgroup);
	return at;
}

/* The id of the cgroup that caused the I/O: the bio's (`at`). If that is the one that the current
 * task is charged to, or there is none, the task's, which may be below it. */
static __always_inline u64 cgroup_id_of(u64 at)
{
	if (at && at != charged_cgroup()) {
		at = FIELD_AT(at, struct cgroup, kn);
		if (at)
			return FIELD_AT(at, struct kernfs_node, id);
	}
	return bpf_get_current_cgroup_id();
}

static __always_inline int is_within(u64 cgroup, u64 id)
{
	u64 at;

	for (u32 level = 0; level < ND_CGROUP_DEPTH; level++) {
		at = FIELD_AT(cgroup, struct cgroup, kn);
		if (at && FIELD_AT(at, struct kernfs_node, id) == id)
			return 1;
		at = FIELD_AT(cgroup, struct cgroup, self.parent);
		if (!at)
			return 0;
		cgroup = at - bpf_core_field_offset(struct cgroup, self);
	}
	return 0;
}

/* The current task submits the command. */
static __always_inline int wanted_cgroup(struct request *rq)
{
	u64 cgroup = targ_by_cgroup == ND_CGROUP_BIO ? cgroup_of(rq) : 0;

	return cgroup ? is_within(cgroup, targ_cgroup_id) : in_cgroup_by_task();
}
