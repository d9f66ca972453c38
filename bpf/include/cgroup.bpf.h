/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The filter by cgroup. A bio has the cgroup that caused it: for writeback, the one that wrote
 * the pages, whatever thread submits it. Commands without such a bio (passthrough, flushes by the
 * flush machinery, kernels without CONFIG_BLK_CGROUP) are selected by the current task.
 */
#ifndef ND_CGROUP_H
#define ND_CGROUP_H

/* Levels of cgroups that are searched. */
#define ND_CGROUP_DEPTH 32

#define HAVE_BIO_CGROUP                                                                            \
	(bpf_core_field_exists(struct bio, bi_blkg) &&                                             \
	 bpf_core_field_exists(struct blkcg_gq, blkcg) &&                                          \
	 bpf_core_field_exists(struct kernfs_node, id))

/* Reads a field of the struct at this address. */
#define FIELD_AT(at, type, field, typed) peek((at) + bpf_core_field_offset(type, field), typed)

/* The cgroup of a bio. 0: none. */
static __always_inline u64 cgroup_of_bio(u64 bio, int typed)
{
	u64 at;

	if (!HAVE_BIO_CGROUP)
		return 0;
	at = FIELD_AT(bio, struct bio, bi_blkg, typed);
	if (at)
		at = FIELD_AT(at, struct blkcg_gq, blkcg, typed);
	if (at)
		at = FIELD_AT(at, struct blkcg, css.cgroup, typed);
	return at;
}

/* The cgroup of a request's first bio. blk-mq does not merge bios of different cgroups (5.18 and
 * later). 0: none. */
static __always_inline u64 cgroup_of(struct request *rq, int typed)
{
	u64 bio = FIELD_AT((u64)rq, struct request, bio, typed);

	return bio ? cgroup_of_bio(bio, typed) : 0;
}

/* The cgroup that the kernel charges with the I/O of the current task: its own, or the nearest
 * above it with the io controller. 0: not known. */
static __always_inline u64 charged_cgroup(int typed)
{
	u64 at, of_io;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id))
		return 0;
	of_io = bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id) * sizeof(u64);
	at = FIELD_AT(bpf_get_current_task(), struct task_struct, cgroups, typed);
	if (at)
		at = peek(at + bpf_core_field_offset(struct css_set, subsys) + of_io, typed);
	if (at)
		at = FIELD_AT(at, struct cgroup_subsys_state, cgroup, typed);
	return at;
}

/* The id of the cgroup that caused the I/O: `at`, that of the bio; if it is the one that the
 * current task is charged to, or there is none, the task's, which may be below it. */
static __always_inline u64 cgroup_id_of(u64 at, int typed)
{
	if (at && at != charged_cgroup(typed)) {
		at = FIELD_AT(at, struct cgroup, kn, typed);
		if (at)
			return FIELD_AT(at, struct kernfs_node, id, typed);
	}
	return bpf_get_current_cgroup_id();
}

/* Whether a cgroup is the one with this id, or below it. */
static __always_inline int is_within(u64 cgroup, u64 id, int typed)
{
	u64 at;

	for (u32 level = 0; level < ND_CGROUP_DEPTH; level++) {
		at = FIELD_AT(cgroup, struct cgroup, kn, typed);
		if (at && FIELD_AT(at, struct kernfs_node, id, typed) == id)
			return 1;
		at = FIELD_AT(cgroup, struct cgroup, self.parent, typed);
		if (!at)
			return 0;
		cgroup = at - bpf_core_field_offset(struct cgroup, self);
	}
	return 0;
}

/* Whether the command is of the cgroup of the filter. The current task submits it. */
static __always_inline int wanted_cgroup(struct request *rq, int typed)
{
	u64 cgroup = targ_by_cgroup == ND_CGROUP_BIO ? cgroup_of(rq, typed) : 0;

	return cgroup ? is_within(cgroup, targ_cgroup_id, typed) : in_cgroup_by_task();
}

#endif
